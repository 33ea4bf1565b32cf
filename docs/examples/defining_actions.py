"""Ways to define actions, and what the options do."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from fairlead import App, Context, action

app = App("kitchen", description="Cook.")


# The signature is the contract: parameters are the input, the return type is the output.
@app.action
async def boil_eggs(minutes: Annotated[int, Field(ge=1, le=15)], count: int = 2) -> str:
    """Boil some eggs."""
    return f"{count} eggs, boiled for {minutes} minutes."


# One parameter that is a model is the whole input.
@dataclass
class Order:
    dish: str
    table: int


@app.action(side_effects="write")
def place_order(order: Order, ctx: Context) -> dict[str, int]:
    """Send an order to the kitchen."""
    ctx.logger.info("An order came in.", dish=order.dish)
    return {"table": order.table}


# A generator answers bit by bit: each value is a chunk.
@app.action
async def count_down(start: Annotated[int, Field(ge=1, le=100)]) -> AsyncIterator[int]:
    """Count down to one."""
    for number in range(start, 0, -1):
        yield number


# @action defines without adding; app.add adds later, together with shared defaults.
@action(version="2.0.0", deprecation={"replacement": "boil_eggs", "since": "2.0.0"})
def fry_eggs() -> str:
    """Fry an egg."""
    return "One egg, fried."


def wash_up(plates: int) -> int:
    """Wash the plates."""
    return plates


app.add(fry_eggs)
app.add({"clean_up": wash_up}, side_effects="write")

# A group shares defaults and a prefix.
cellar = app.group("cellar_", permissions=["cellar:read"])


@cellar.action
def list_wines() -> list[str]:
    """List the wines."""
    return ["Riesling"]


async def main() -> None:
    assert [each.name for each in app.actions] == [
        "boil_eggs",
        "place_order",
        "count_down",
        "fry_eggs",
        "clean_up",
        "cellar_list_wines",
    ]
    result = await app.invoke("boil_eggs", {"minutes": 4})
    assert result.data == "2 eggs, boiled for 4 minutes."
    result = await app.invoke("place_order", {"dish": "soup", "table": 7})
    assert result.data == {"table": 7}
    result = await app.invoke("count_down", {"start": 3})
    assert result.data == [3, 2, 1]
    result = await app.invoke("cellar_list_wines", auth={"permissions": ["cellar:*"]})
    assert result.data == ["Riesling"]

    # An action is still a function.
    assert await boil_eggs(4) == "2 eggs, boiled for 4 minutes."


if __name__ == "__main__":
    asyncio.run(main())
