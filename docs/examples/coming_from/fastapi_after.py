"""The same as an action, mounted in the FastAPI app that was there before."""

from typing import Annotated

from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import Field

from fairlead import App, Failure, Kind

app = App("shop", description="Sell things.")
stock = {"rope": 3}


@app.action
async def order(
    item: Annotated[str, Field(min_length=1)], count: Annotated[int, Field(ge=1)] = 1
) -> dict[str, int]:
    """Order something."""
    if item not in stock:
        raise Failure(Kind.not_found, "There is no such item.", field="item")
    return {"price": stock[item] * count}


api = FastAPI()
api.mount("/shop", app.http())

client = TestClient(api)
invoke = "/shop/fairlead/actions/order/invoke"
done = client.post(invoke, json={"input": {"item": "rope", "count": 2}})
assert done.json()["data"] == {"price": 6}
missing = client.post(invoke, json={"input": {"item": "sail"}})
assert (missing.status_code, missing.json()["error"]["code"]) == (404, "NOT_FOUND")
wrong = client.post(invoke, json={"input": {"item": ""}})
assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "VALIDATION_ERROR")
