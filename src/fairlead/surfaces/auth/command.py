"""`fairlead keys`: make, list and revoke API keys. A key itself is printed once, when it is made.

Apps with agents keep their keys in the store, where all processes see a change at once; others in a file of keys. A
file is used as well wherever one is named.
"""

from __future__ import annotations

import importlib
import re
import time
from typing import TYPE_CHECKING, Any

from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.cli.spans import DATA_ROW, choose_store

if TYPE_CHECKING:
    from fairlead.surfaces.auth.keyfile import KeyFile
    from fairlead.surfaces.cli.program import Program

FILE = "fairlead-keys.json"
VARIABLE = "FAIRLEAD_KEYS"

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
#: The first moment of the year 10000, which no calendar here can write.
_LAST = 253402300800
_VERBS = ("new", "list", "revoke")
_NEW_ONLY = ("--user", "--permissions", "--expires")
#: What only keys in the store can have.
_STORED_ONLY = ("--owner", "--agents", "--per-minute")
_SWITCHES = ("--json", "--admin", "--of-agent")


def _keys(program: Program, arguments: list[str]) -> int:
    if not arguments:
        return program.help_for("keys")
    verb, *rest = arguments
    if verb not in _VERBS:
        raise wrong_option(
            "argument 1", f"expected one of {', '.join(_VERBS)}.{near_miss(verb[:20], _VERBS)}"
        )
    valued = ("--file", "--data", *_NEW_ONLY, *_STORED_ONLY) if verb == "new" else ("--file", "--data")
    switches = _SWITCHES if verb == "new" else ("--json",)
    options = Options(rest, switches, valued, words=0 if verb == "list" else 1)
    if _in_store(program, options):
        return _stored(program, verb, options)
    from fairlead.surfaces.auth.keyfile import KeyFile

    file = KeyFile(options.values.get("--file") or program.console.environ.get(VARIABLE) or FILE)
    return {"new": _new, "list": _list, "revoke": _revoke}[verb](program, file, options)


def _in_store(program: Program, options: Options) -> bool:
    """Whether keys in the store are meant, not those in a file."""
    stored = (*_STORED_ONLY, "--data", "--admin", "--of-agent")
    said = [flag for flag in stored if flag in (*options.values, *options.on)]
    if "--file" in options.values:
        if said:
            raise wrong_option(said[0], "is for keys in the store, and --file names a file of keys")
        return False
    if said:
        return True
    return not program.console.environ.get(VARIABLE) and bool(_gateway().has_agents(program))


def _stored(program: Program, verb: str, options: Options) -> int:
    room: Any = _gateway()
    choose_store(options.values.get("--data"))
    if verb == "new":
        name, expires = _word(options, "a name for the key"), options.values.get("--expires")
        made: int = room.new_key(program, options, name, _expiry(expires, time.time()))
        return made
    if verb == "list":
        listed: int = room.list_keys(program, options)
        return listed
    revoked: int = room.revoke_key(program, options, _word(options, "the key's id or name"))
    return revoked


def _gateway() -> Any:
    """The room above this one, found by name."""
    return importlib.import_module("fairlead.gateway.command")


def _new(program: Program, file: KeyFile, options: Options) -> int:
    now = time.time()
    token, key = file.issue(
        _word(options, "a name for the key"),
        now=now,
        user=options.values.get("--user", ""),
        permissions=tuple(options.values.get("--permissions", "").replace(",", " ").split()),
        expires=_expiry(options.values.get("--expires"), now),
    )
    if "--json" in options.on:
        return program.write_json({"key": token, **key.describe()})
    program.console.write(f"{token}\n")
    told = key.describe()
    may = ", ".join(key.permissions) or "nothing that needs a permission"
    until = f"until {told['expires']}" if key.expires else "until it is revoked"
    program.console.say(
        f"The key is for {key.user!r}, may do {may}, and is good {until}.\n"
        f"{str(file.path)!r} keeps its hash only: this is the one time it is shown."
    )
    return 0


def _list(program: Program, file: KeyFile, options: Options) -> int:
    now = time.time()
    listed = [{**key.describe(), "status": key.status(now)} for key in file.keys().values()]
    if options.on or not program.console.out_tty:
        return program.write_json(listed)
    from fairlead.surfaces.cli.render import table

    program.console.write(table([_row(key) for key in listed], program.console) + "\n")
    return 0


def _row(key: dict[str, Any]) -> dict[str, Any]:
    shown = {name: key[name] for name in ("id", "name", "user")}
    days = {name: key[name] and key[name][:10] for name in ("created", "expires")}
    return {**shown, "permissions": " ".join(key["permissions"]), **days, "status": key["status"]}


def _revoke(program: Program, file: KeyFile, options: Options) -> int:
    key = file.revoke(_word(options, "the key's id or name"), time.time())
    told: dict[str, Any] = key.describe()
    if options.on:
        return program.write_json(told)
    program.console.say(f"The key {key.id} of {key.user!r} was revoked at {told['revoked']}.")
    return 0


def _word(options: Options, what: str) -> str:
    if not options.words or not options.words[0].strip():
        raise wrong_option("argument 2", f"expected {what}.")
    return options.words[0]


def _expiry(given: str | None, now: float) -> float | None:
    """The moment that `90d` or `2030-01-31` stands for; a date is the start of its day in UTC."""
    if given is None:
        return None
    at = _moment(given, now)
    if at is None:
        raise wrong_option("--expires", "expected a time to come, such as 90d, 12h or 2030-01-31.")
    if not now < at < _LAST:
        raise wrong_option("--expires", "expected a time to come, before the year 10000.")
    return at


def _moment(given: str, now: float) -> float | None:
    if span := re.fullmatch(r"(\d{1,9})([mhdwy])", given):
        return now + int(span[1]) * _UNITS[span[2]]
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


KEYS = Command(
    "keys new NAME | list | revoke ID [OPTIONS]",
    (
        ("new NAME", "Make a key and print it, this once."),
        ("list", "List the keys: a table on a terminal, else JSON. Secrets are not kept, so none is shown."),
        ("revoke ID", "Stop accepting a key, by its id or name, or the key itself. Servers notice at once."),
        (
            "--file FILE",
            f"A file of keys, for apps without agents; those with agents keep theirs in the store. "
            f"[env: {VARIABLE}] [default: {FILE}]",
        ),
        DATA_ROW,
        ("--permissions LIST", "What the new key may do, such as tasks:read,tasks:write or 'tasks:*'."),
        ("--expires WHEN", "When the new key ends: 30m, 12h, 90d, 2y, or a date. [default: never]"),
        ("--user ID", "Whom calls with the new key are made for. [default: the name]"),
        ("--owner ID", "In the store: whose agents, tasks and files the new key reaches. [default: local]"),
        ("--agents LIST", "In the store: the only agents the new key is for. [default: all]"),
        ("--per-minute N", "In the store: requests in a minute to each endpoint. [default: the server's]"),
        ("--of-agent", "In the store: a key of the one agent's own (bak_), for A2A and MCP with it alone."),
        ("--admin", "In the store: the new key may make and revoke others, and see what all do."),
        ("--json", "Print JSON."),
    ),
    _keys,
    (
        "keys new ci --permissions tasks:read,tasks:write --expires 90d",
        "keys list --json",
        "keys revoke ci",
    ),
)
