"""An app with an agent: a library whose clerk is a model that uses the library's actions."""

from fairlead import App, Failure, Kind

app = App("library", description="Lend books.")
SHELF = {"Moby-Dick": "on the shelf", "Emma": "lent"}


@app.action
def find_book(title: str) -> str:
    """Say where a book is."""
    if title not in SHELF:
        raise Failure(Kind.not_found, f"There is no {title!r} here.", field="title")
    return SHELF[title]


@app.action(side_effects="write")
def lend_book(title: str) -> str:
    """Lend a book that is on the shelf."""
    SHELF[title] = "lent"
    return f"{title} is lent."


@app.action(side_effects="destructive", requires_confirmation=True)
def discard_book(title: str) -> str:
    """Throw a book away."""
    return f"{title} is gone: it was {SHELF.pop(title)}."


@app.agent(model="script/clerk.toml", tools=["find_book", "lend_book"])
def clerk(prompt: str) -> str:
    """You are the clerk of a small library.

    Find a book before you lend it. Say in one sentence what you did.
    """
    return prompt


if __name__ == "__main__":
    app.cli()
