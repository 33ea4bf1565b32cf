"""A FastAPI app, as it was."""

from typing import Annotated

from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient
from pydantic import BaseModel, Field

api = FastAPI()
stock = {"rope": 3}


class Order(BaseModel):
    item: Annotated[str, Field(min_length=1)]
    count: Annotated[int, Field(ge=1)] = 1


@api.post("/orders")
async def order(body: Order) -> dict[str, int]:
    """Order something."""
    if body.item not in stock:
        raise HTTPException(404, "There is no such item.")
    return {"price": stock[body.item] * body.count}


client = TestClient(api)
assert client.post("/orders", json={"item": "rope", "count": 2}).json() == {"price": 6}
assert client.post("/orders", json={"item": "sail"}).status_code == 404
assert client.post("/orders", json={"item": ""}).status_code == 422
