"""`fairlead secrets`: keep passwords and tokens in the app's store, encrypted. None is ever printed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.cli.spans import DATA_ROW, choose_store

if TYPE_CHECKING:
    from fairlead.store.secrets import Secrets
    from fairlead.surfaces.cli.program import Program

_VERBS = ("set", "list", "remove", "rotate")


def _secrets(program: Program, arguments: list[str]) -> int:
    if not arguments:
        return program.help_for("secrets")
    verb, *rest = arguments
    if verb not in _VERBS:
        raise wrong_option(
            "argument 1", f"expected one of {', '.join(_VERBS)}.{near_miss(verb[:20], _VERBS)}"
        )
    options = Options(rest, ("--json",), ("--data",), words=1 if verb in ("set", "remove") else 0)
    choose_store(options.values.get("--data"))
    with _opened(program) as secrets:
        return {"set": _set, "list": _list, "remove": _remove, "rotate": _rotate}[verb](
            program, secrets, options
        )


@contextlib.contextmanager
def _opened(program: Program) -> Iterator[Secrets]:
    """The secrets of the app, or of those programs that have no app."""
    from fairlead.store import open_store
    from fairlead.store.secrets import Secrets, default_key

    app = program.find_app(whole=False)
    store = open_store() if app is None else app.store
    try:
        yield Secrets(store, default_key(store, program.console.environ))
    finally:
        if app is None:
            store.close()


def _set(program: Program, secrets: Secrets, options: Options) -> int:
    from fairlead.store.secrets import LARGEST, checked_name
    from fairlead.surfaces.cli.hidden import hidden_value

    name = checked_name(_name(options))
    command = f"{program.spelled} secrets set {name}"
    secrets.set_now(name, hidden_value(program.console, name, LARGEST, command))
    return _done(program, options, {"name": name}, f"The secret {name!r} is kept.")


def _list(program: Program, secrets: Secrets, options: Options) -> int:
    listed = [each.describe() for each in secrets.names_now()]
    if options.on or not program.console.out_tty:
        return program.write_json(listed)
    from fairlead.surfaces.cli.render import table

    program.console.write(table(listed, program.console) + "\n")
    return 0


def _remove(program: Program, secrets: Secrets, options: Options) -> int:
    name = _name(options)
    secrets.remove_now(name)
    return _done(program, options, {"name": name}, f"The secret {name!r} is forgotten.")


def _rotate(program: Program, secrets: Secrets, options: Options) -> int:
    count = secrets.rotate_now()
    words = (
        f"{count} secret{'' if count == 1 else 's'} encrypted anew, under a new key. {secrets.after_rotation}"
    )
    return _done(program, options, {"secrets": count}, words.strip())


def _done(program: Program, options: Options, told: dict[str, Any], words: str) -> int:
    if options.on:
        return program.write_json(told)
    program.console.say(words)
    return 0


def _name(options: Options) -> str:
    if not options.words:
        raise wrong_option("argument 2", "expected the secret's name.")
    return options.words[0]


SECRETS = Command(
    "secrets set NAME | list | remove NAME | rotate [OPTIONS]",
    (
        (
            "set NAME",
            "Keep a secret. Its value is asked for, or read from stdin; never from the command line.",
        ),
        ("list", "List names and dates: a table on a terminal, else JSON. Values are not shown."),
        ("remove NAME", "Forget a secret."),
        ("rotate", "Make a new key, and encrypt all secrets anew."),
        DATA_ROW,
        ("--json", "Print JSON."),
    ),
    _secrets,
    ("secrets set stripe", "secrets set deploy-key < deploy_key.pem", "secrets list"),
)
