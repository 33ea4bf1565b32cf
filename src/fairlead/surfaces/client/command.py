"""`fairlead client`: writes a typed client of the app, to stdout or to a file."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.failures import Failure, Kind
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.hints import near_miss, wrong_option

if TYPE_CHECKING:
    from fairlead.actions import Action
    from fairlead.runtime import App
    from fairlead.surfaces.cli.program import Program

_LANGUAGES = {"ts": "TypeScript", "py": "Python"}
#: How every file begins that this command may write again.
_MARK = "Written by `fairlead client"
_SURFACE = "http"
_MOST = 10_000


def _client(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--react", "--force"), ("--out", "--name"), words=_MOST)
    language, *names = options.words or [""]
    if language not in _LANGUAGES:
        hint = near_miss(language, _LANGUAGES)
        raise wrong_option("argument 1", f"expected the language, {' or '.join(_LANGUAGES)}.{hint}")
    if "--react" in options.on and language != "ts":
        raise wrong_option("--react", "there are hooks for TypeScript only")
    app = program.the_app()
    actions = _chosen(app, names)
    name = options.values.get("--name") or _name(app)
    if not _is_name(name):
        raise wrong_option("--name", "expected a name like TasksClient")
    text = _written(app, actions, language, name, react="--react" in options.on)
    out = options.values.get("--out")
    if out is None:
        program.console.write(text)
        return 0
    _save(Path(out), text, force="--force" in options.on)
    program.console.say(f"Wrote {out}: {len(actions)} actions, in {_LANGUAGES[language]}.")
    return 0


def _written(app: App, actions: list[Action[..., Any]], language: str, name: str, *, react: bool) -> str:
    from fairlead.surfaces.client.contracts import one_line

    told = f"{_MARK} {language}{' --react' if react else ''}` for the app {one_line(app.name)!r}."
    header = f"{told} Do not change it: write it again."
    if language == "py":
        from fairlead.surfaces.client.py_client import python

        return python(actions, name=name, header=header)
    from fairlead.surfaces.client.ts_client import typescript

    return typescript(actions, name=name, header=header, react=react)


def _chosen(app: App, names: list[str]) -> list[Action[..., Any]]:
    """The actions that were named, or else all that the HTTP surface shows."""
    from fairlead.surfaces.exposed import shown

    if not names:
        return shown(app, _SURFACE)
    return [_named(app, name) for name in dict.fromkeys(each.replace("-", "_") for each in names)]


def _named(app: App, name: str) -> Action[..., Any]:
    """An action by its name; local and destructive ones too, for a server that was told to show them."""
    from fairlead.actions import Exposure
    from fairlead.surfaces.refusal import LONGEST

    exposed = Exposure(include_local=True, include_destructive=True).select(app.actions, _SURFACE)
    found = next((action for action in exposed if action.name == name), None)
    if found is None:
        hint = near_miss(name, [action.name for action in exposed])
        raise Failure(
            Kind.unknown_action, f"No action of the HTTP surface is named {name[:LONGEST]!r}.{hint}"
        )
    return found


def _name(app: App) -> str:
    from fairlead.surfaces.client.shapes import pascal

    name = f"{pascal(app.name)}Client"
    return name if _is_name(name) else "AppClient"


def _is_name(text: str) -> bool:
    """A class in both languages, and none that a written client has already."""
    import re

    from fairlead.surfaces.client import py_client, ts_client

    taken = py_client.taken_names() | ts_client.taken_names()
    return re.fullmatch(r"[A-Z][A-Za-z0-9_]*", text) is not None and text not in taken


def _save(path: Path, text: str, *, force: bool) -> None:
    """Write the file, whole or not at all. Raises Failure for a file that is not ours to write."""
    if not force and os.path.exists(path) and not _is_ours(path):
        raise Failure(
            Kind.conflict,
            f"{str(path)!r} was not written by this command. Choose another name, or say --force.",
        )
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as exc:
        with suppress(OSError):  # where nothing can be written, nothing can be removed either
            draft.unlink(missing_ok=True)
        missing = isinstance(exc, FileNotFoundError | NotADirectoryError)
        raise Failure(
            Kind.not_found if missing else Kind.misconfigured,
            f"{str(path)!r} cannot be written: {exc.strerror}. Choose another place for --out.",
            cause=exc,
        ) from exc


def _is_ours(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8") as file:
            return _MARK in file.readline()
    except (OSError, ValueError):
        return False


CLIENT = Command(
    "client ts|py [ACTION...] [--out FILE] [--name NAME] [--react] [--force]",
    (
        ("ts, py", "The language: TypeScript or Python."),
        ("ACTION...", "Only these actions. [default: all that the HTTP surface shows]"),
        ("--out FILE", "Write the file instead of printing it."),
        ("--name NAME", "What to call the client. [default: after the app, such as TasksClient]"),
        ("--react", "With the useAction hook; TypeScript only."),
        ("--force", "Write over a file that this command did not write."),
    ),
    _client,
    ("client ts --react --out src/tasks.ts", "client py --out tasks_client.py create_task list_tasks"),
)
