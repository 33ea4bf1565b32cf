"""Notes, in Python: kept in the plugin's own database, with a setting for each agent and a page to read them."""

from typing import Annotated, Literal

from fairlead.plugins.sdk import Plugin, Request, Response, ToolError, host

plugin = Plugin(
    "acme.notes_py",
    version="1.0.0",
    name="Notes in Python",
    description="Keeps notes.",
    instructions="Notes are short. Look for one before you add another.",
)
plugin.setting("signature", label="Signature under each note", default="")

_TABLE = "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, body TEXT NOT NULL)"


@plugin.tool(policy="auto")
def add_py_note(
    title: Annotated[str, "A few words to find it by"], body: str, _secrets: dict[str, str]
) -> dict[str, object]:
    """Keep a note. One with the same title is replaced."""
    if not title.strip():
        raise ToolError("A note needs a title.", kind="invalid_args", field="title")
    host.db.exec(_TABLE)
    done = host.db.exec(
        "INSERT INTO notes (title, body) VALUES (:title, :body) ON CONFLICT (title) DO UPDATE SET body = :body",
        title=title.strip(),
        body=body + _secrets.get("signature", ""),
    )
    host.log("A note was kept.", title=title, agent=host.agent)
    return {"id": done.last_insert_rowid, "title": title.strip()}


@plugin.tool(policy="auto")
def list_py_notes(
    words: Annotated[str | None, "Only those with these words"] = None,
    order: Literal["newest", "title"] = "newest",
) -> list[dict[str, object]]:
    """Show the notes that there are."""
    host.db.exec(_TABLE)
    by = "id DESC" if order == "newest" else "title"
    return host.db.query(
        f"SELECT id, title, body FROM notes WHERE title || ' ' || body LIKE ? ORDER BY {by}",  # noqa: S608
        f"%{words or ''}%",
    )


@plugin.route("/notes/:title", auth="owner")
def read_note(request: Request) -> Response:
    """One note as plain text."""
    host.db.exec(_TABLE)
    rows = host.db.query("SELECT body FROM notes WHERE title = ?", request.params["title"])
    return Response(rows[0]["body"]) if rows else Response("There is no such note.", 404)


@plugin.on_config("signature")
def signature_changed(key: str, value: str) -> None:
    host.log("The signature is another.", length=len(value), agent=host.agent)
