import json
import os
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, TypedDict

from pydantic import Field

from fairlead import App, Context, Failure, Kind

app = App("desk", description="Lend books.")
writes = app.group(side_effects="write")

Title = Annotated[str, Field(min_length=1, max_length=100, description="The book's title.")]


class Loan(TypedDict):
    title: str
    due: str


class AlreadyLent(Failure, code="already_lent", kind=Kind.conflict):
    """The book is lent to somebody else."""


@app.service
def loans() -> Iterator[dict[str, Loan]]:
    """The loans, read from a file when the app starts and written back when it stops."""
    path = Path(os.environ.get("DESK_FILE", "desk.json"))
    found: dict[str, Loan] = json.loads(path.read_text()) if path.exists() else {}
    try:
        yield found
    finally:
        path.write_text(json.dumps(found))


@writes.action(idempotency="non_idempotent")
def lend_book(
    ctx: Context,
    title: Title,
    days: Annotated[int, Field(ge=1, le=60, description="How long.")] = 14,
) -> Loan:
    """Lend a book for some days."""
    loans: dict[str, Loan] = ctx.services.loans
    if title in loans:
        raise AlreadyLent(field="title", details={"due": loans[title]["due"]})
    loans[title] = {"title": title, "due": (date.today() + timedelta(days)).isoformat()}
    return loans[title]


@writes.action(idempotency="idempotent")
def return_book(ctx: Context, title: Title) -> None:
    """Take a book back."""
    if ctx.services.loans.pop(title, None) is None:
        raise Failure(Kind.not_found, "The book is not on loan. See list_loans.", field="title")


@app.action
def list_loans(ctx: Context) -> list[Loan]:
    """List the books on loan."""
    return list(ctx.services.loans.values())


@app.action(timeout=30)
def check_shelves(
    ctx: Context, shelves: Annotated[int, Field(ge=1, le=100, description="How many there are.")] = 5
) -> int:
    """Walk along the shelves and count the gaps."""
    for shelf in range(1, shelves + 1):
        ctx.progress.report(f"Shelf {shelf} of {shelves}", percent=100 * shelf / shelves)
        ctx.signal.sleep(0.02)
    ctx.logger.info("All shelves were checked.", shelves=shelves)
    return len(ctx.services.loans)


@writes.action(side_effects="destructive")
def forget_loans(ctx: Context) -> int:
    """Forget all loans, and say how many there were."""
    count = len(ctx.services.loans)
    ctx.services.loans.clear()
    return count


if __name__ == "__main__":
    app.cli()
