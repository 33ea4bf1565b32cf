"""my-app: every function under `@app.action` is offered to every caller."""

from collections.abc import Iterator
from typing import Annotated, cast

from notebook import Note, Notebook, notes_file
from pydantic import Field

from fairlead import App, Context, Failure, Kind

app = App(
    "my-app",
    description="Keep short notes.",
    version="0.1.0",
    docs={"summary": "A notebook that people, programs and models share."},
)


@app.service
def notebook() -> Iterator[Notebook]:
    """`ctx.services.notebook`, from the first call until the app stops."""
    yield Notebook(notes_file())


@app.action(
    side_effects="write",
    idempotency="non_idempotent",
    permissions=["notes:write"],
    docs={"input_example": {"text": "Buy tea"}, "output_example": {"id": 1, "text": "Buy tea"}},
)
def add_note(
    ctx: Context,
    text: Annotated[str, Field(min_length=1, max_length=500, description="What to remember.")],
) -> Note:
    """Write a note into the notebook."""
    return notebook_of(ctx).add(text)


@app.action
def find_notes(
    ctx: Context,
    word: Annotated[str, "Part of the note, in any case; everything when empty."] = "",
) -> list[Note]:
    """Find notes by a word in them."""
    return [note for note in notebook_of(ctx).all() if word.lower() in note["text"].lower()]


@app.action
def read_note(ctx: Context, id: Annotated[int, Field(ge=1, description="The note's number.")]) -> Note:
    """Read one note by its number."""
    for note in notebook_of(ctx).all():
        if note["id"] == id:
            return note
    raise Failure(Kind.not_found, f"There is no note {id}. Find it with find_notes.", field="id")


def notebook_of(ctx: Context) -> Notebook:
    return cast("Notebook", ctx.services.notebook)


if __name__ == "__main__":
    app.cli()
