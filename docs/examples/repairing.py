"""What preflight repairs, what it refuses, and how to switch it off."""

import asyncio
from typing import Any, Literal

from fairlead import App

app = App("forms", description="Fill in forms.")


@app.action
async def book(
    seats: int,
    row: Literal["front", "back"] = "back",
    names: list[str] | None = None,
    note: str = "",
) -> dict[str, Any]:
    """Book some seats."""
    return {"seats": seats, "row": row, "names": names, "note": note}


@app.action(preflight="strict")
async def book_strictly(seats: int) -> int:
    """Book some seats, exactly as sent."""
    return seats


async def booked(**input: Any) -> Any:
    result = await app.invoke("book", input)
    assert len(result.warnings) > 0
    return result.unwrap()


async def main() -> None:
    # Text that can only mean one thing.
    assert (await booked(seats="4"))["seats"] == 4
    assert (await booked(seats="4.0"))["seats"] == 4
    assert (await booked(seats=4, row="FRONT"))["row"] == "front"
    assert (await booked(seats=4, names='["Ada", "Bob"]'))["names"] == ["Ada", "Bob"]
    assert (await booked(seats="4", names="null"))["names"] is None

    # A text that may be a text stays one.
    result = await app.invoke("book", {"seats": 4, "note": "15"})
    assert result.data["note"] == "15"
    assert result.warnings == []

    # What has no clear meaning is refused, and the message does not repeat it.
    for bad in ({"seats": "four"}, {"seats": 4.5}, {"seats": 4, "colour": "red"}):
        result = await app.invoke("book", bad)
        assert result.failure is not None
        assert result.failure.code == "VALIDATION_ERROR"
        assert result.failure.issues

    result = await app.invoke("book_strictly", {"seats": "4"})
    assert not result.ok


asyncio.run(main())
