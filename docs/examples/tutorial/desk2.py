from datetime import date, timedelta
from typing import Annotated, TypedDict

from pydantic import Field

from fairlead import App, Failure, Kind

app = App("desk", description="Lend books.")

Title = Annotated[str, Field(min_length=1, max_length=100, description="The book's title.")]


class Loan(TypedDict):
    title: str
    due: date


class AlreadyLent(Failure, code="already_lent", kind=Kind.conflict):
    """The book is lent to somebody else."""


loans: dict[str, Loan] = {}


@app.action(side_effects="write")
def lend_book(title: Title, days: Annotated[int, Field(ge=1, le=60, description="How long.")] = 14) -> Loan:
    """Lend a book for some days."""
    if title in loans:
        raise AlreadyLent(field="title", details={"due": loans[title]["due"].isoformat()})
    loans[title] = {"title": title, "due": date.today() + timedelta(days)}
    return loans[title]


@app.action(side_effects="write")
def return_book(title: Title) -> None:
    """Take a book back."""
    if title not in loans:
        raise Failure(Kind.not_found, "The book is not on loan. See list_loans.", field="title")
    del loans[title]


@app.action
def list_loans() -> list[Loan]:
    """List the books on loan."""
    return list(loans.values())


if __name__ == "__main__":
    app.cli()
