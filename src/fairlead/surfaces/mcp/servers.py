"""`mcp add`, `list`, `tools`, `test` and `remove`: the MCP servers elsewhere whose tools this project uses.

They are kept in `.mcp.json` in the working directory, in the shape that other MCP clients use. No secret is ever
printed; none need be in the file: `secret:NAME` stands for one of the secret store, `${NAME}` for a variable.
"""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures import Failure, Kind
from fairlead.surfaces.cli.command import Options
from fairlead.surfaces.cli.console import harmless_line
from fairlead.surfaces.cli.hints import near_miss, wrong_option

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program
    from fairlead.tools.mcp import McpServer
    from fairlead.tools.remote import Lookup

VERBS: Final = ("add", "list", "tools", "test", "remove")
_MANY: Final = ("--env", "--header", "--include")
_SWITCHES: Final = {"add": ("--trust", "--force", "--json"), "list": ("--json", "--offline")}
_VALUED: Final = ("--url", "--prefix", "--timeout", "--reconnect", "--cwd")
#: Seconds in which a server has to answer `list`.
_PATIENCE: Final = 15.0


def servers(program: Program, verb: str, arguments: list[str]) -> int:
    """Run one of the verbs; gives the exit code."""
    if verb == "add":
        return _add(program, arguments)
    switches = _SWITCHES.get(verb, ("--json",))
    options = Options(arguments, switches, words=0 if verb == "list" else 1)
    if verb == "list":
        return _list(program, options)
    if not options.words:
        raise wrong_option("argument 2", "expected the server's name.")
    return {"tools": _tools, "test": _test, "remove": _remove}[verb](program, options, options.words[0])


def _add(program: Program, arguments: list[str]) -> int:
    from fairlead.tools.mcp.settings import (
        SERVERS_FILE,
        entry_of,
        plain_secrets,
        read_entries,
        server_of,
        write_entry,
    )

    at = arguments.index("--") if "--" in arguments else len(arguments)
    command = arguments[at + 1 :]
    rest, many = _taken(arguments[:at])
    options = Options(rest, _SWITCHES["add"], _VALUED, words=1)
    if not options.words:
        raise wrong_option("argument 2", "expected a name for the server.")
    name, url = options.words[0], options.values.get("--url")
    if bool(command) == (url is not None):
        raise wrong_option(
            "--url", f"give it, or the command after a double dash: mcp add {name} -- COMMAND ARGS"
        )
    if many["--header"] and url is None:
        raise wrong_option("--header", "goes with --url")
    env, headers = _pairs("--env", many["--env"]), _pairs("--header", many["--header"])
    entry = entry_of(command, url, env, headers, _own(options, many["--include"]))
    server = server_of(name, entry)
    if name in read_entries() and "--force" not in options.on:
        raise Failure(
            Kind.conflict, f"There is a server {name!r} in {SERVERS_FILE} already. --force replaces it."
        )
    write_entry(".", name, entry)
    for key in plain_secrets(entry):
        program.console.say(
            f"{key} looks like a secret, and is in {SERVERS_FILE} as it is, which only you can read now. Better: "
            f"'{program.spelled} secrets set {name}', and {key}=secret:{name} here."
        )
    if "--json" in options.on:
        return program.write_json({"added": server.describe()})
    program.console.say(
        f"{name!r} is in {SERVERS_FILE}. See whether it works: '{program.spelled} mcp test {name}'."
    )
    return 0


def _taken(arguments: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The arguments without the options that may be given several times, and those."""
    rest: list[str] = []
    many: dict[str, list[str]] = {flag: [] for flag in _MANY}
    waiting = list(arguments)
    while waiting:
        token = waiting.pop(0)
        flag, equals, value = token.partition("=")
        if flag not in many:
            rest.append(token)
            if flag in _VALUED and not equals and waiting:
                rest.append(waiting.pop(0))
        elif equals:
            many[flag].append(value)
        elif waiting:
            many[flag].append(waiting.pop(0))
        else:
            raise wrong_option(flag, "needs a value")
    return rest, many


def _pairs(flag: str, given: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key:
            # What was typed may be a secret: it is not repeated.
            raise wrong_option(flag, "expected NAME=VALUE, such as TOKEN=secret:token")
        pairs[key.strip()] = value
    return pairs


def _own(options: Options, include: list[str]) -> dict[str, Any]:
    """The settings of our own in an entry."""
    told: dict[str, Any] = {"trust": True} if "--trust" in options.on else {}
    told |= {"include": include} if include else {}
    for flag in ("--prefix", "--cwd"):
        told |= {flag[2:]: options.values[flag]} if flag in options.values else {}
    if "--timeout" in options.values:
        told["timeout"] = _number("--timeout", options, r"[0-9]{1,6}(\.[0-9]{1,3})?", float)
    if "--reconnect" in options.values:
        told["reconnect"] = _number("--reconnect", options, r"[0-9]{1,4}", int)
    return told


def _number(flag: str, options: Options, form: str, kind: Any) -> Any:
    given = options.values[flag]
    if not re.fullmatch(form, given):
        raise wrong_option(flag, "expected a number")
    return kind(given)


def _list(program: Program, options: Options) -> int:
    from fairlead.tools.mcp.settings import read_entries

    entries = read_entries()
    if entries and "--offline" not in options.on:
        program.console.say(f"Asking {len(entries)} server{'' if len(entries) == 1 else 's'}…")
    rows = asyncio.run(_looked(program, entries, online="--offline" not in options.on))
    if "--json" in options.on or not program.console.out_tty:
        return program.write_json(rows)
    if not rows:
        program.console.say(
            f"No server is set up here. Add one: '{program.spelled} mcp add NAME -- COMMAND'."
        )
        return 0
    from fairlead.surfaces.cli.render import table

    shown = ("name", "transport", "where", "trust", "status", "tools", "problem")
    short = [{key: row.get(key, "") for key in shown if key != "problem" or row.get(key)} for row in rows]
    program.console.write(table(short, program.console, whole=("name",)) + "\n")
    return 0


async def _looked(
    program: Program, entries: dict[str, dict[str, Any]], *, online: bool
) -> list[dict[str, Any]]:
    """All servers, asked at the same time. One that fails is a row like the others."""
    lookup = _lookup(program)
    rows = [_row(name, entry, lookup, online=online) for name, entry in entries.items()]
    return list(await asyncio.gather(*rows))


async def _row(name: str, entry: dict[str, Any], lookup: Lookup, *, online: bool) -> dict[str, Any]:
    from fairlead.tools.mcp.settings import server_of

    try:
        server = server_of(name, entry)
    except Failure as failure:
        return {"name": name, "status": "wrong", "problem": failure.message}
    row = {**server.describe(), "where": " ".join(server.command) if server.url is None else None}
    row["where"] = row["where"] or row["url"]
    if entry.get("disabled"):
        return {**row, "status": "disabled"}
    if not online:
        return {**row, "status": "not asked"}
    server.secrets = lookup
    server.connect_timeout = min(server.connect_timeout, _PATIENCE)
    try:
        await server.connect()
        return {**row, **server.describe()}
    except Failure as failure:
        return {**row, "status": "dead", "problem": failure.message}
    finally:
        await server.close()


def _tools(program: Program, options: Options, name: str) -> int:
    server = _known(program, name)
    tools = [
        {
            "name": action.name,
            "tool": action.metadata["mcp"]["tool"],
            "effects": action.side_effects,
            "confirmation": bool(action.requires_confirmation),
            "description": action.description,
            "input": action.input.json_schema,
            "output": None if action.output is None else action.output.json_schema,
        }
        for action in asyncio.run(_asked(server))
    ]
    _tell_left_out(program, server)
    if "--json" in options.on or not program.console.out_tty:
        return program.write_json(tools)
    from fairlead.surfaces.cli.render import table

    short = [{key: row[key] for key in ("name", "effects", "confirmation", "description")} for row in tools]
    program.console.write(table(short, program.console, whole=("name",)) + "\n")
    return 0


def _test(program: Program, options: Options, name: str) -> int:
    server = _known(program, name)
    if "--json" not in options.on:
        program.console.say(f"Starting {name!r}…" if server.url is None else f"Reaching {name!r}…")
    actions = asyncio.run(_asked(server))
    told = {**server.describe(), "status": "works", "left_out": server.left_out}
    if "--json" in options.on:
        return program.write_json(told)
    _tell_left_out(program, server)
    about = harmless_line(" ".join(str(told[key]) for key in ("server", "version") if told.get(key)))
    count = f"{len(actions)} tool{'' if len(actions) == 1 else 's'}"
    program.console.say(f"{name!r} works: {about or 'a server'}, protocol {told['protocol']}, {count}.")
    return 0


def _remove(program: Program, options: Options, name: str) -> int:
    from fairlead.tools.mcp.settings import SERVERS_FILE, read_entries, write_entry

    _there(name, list(read_entries()))
    write_entry(".", name, None)
    if "--json" in options.on:
        return program.write_json({"removed": name})
    program.console.say(f"{name!r} is no longer in {SERVERS_FILE}.")
    return 0


async def _asked(server: McpServer) -> list[Any]:
    try:
        return await server.connect()
    finally:
        # What it told stays; only the connection ends.
        await server.close()


def _known(program: Program, name: str) -> McpServer:
    from fairlead.tools.mcp.settings import read_entries, server_of

    entries = read_entries()
    _there(name, list(entries))
    server = server_of(name, entries[name])
    server.secrets = _lookup(program)
    return server


def _there(name: str, known: list[str]) -> None:
    from fairlead.tools.mcp.settings import SERVERS_FILE

    if name not in known:
        listed = f" Known are {', '.join(known)}." if known else ""
        words = f"No server {name!r} is in {SERVERS_FILE} of {os.getcwd()}.{near_miss(name, known)}{listed}"
        raise Failure(Kind.not_found, words)


def _tell_left_out(program: Program, server: McpServer) -> None:
    for tool, why in server.left_out.items():
        program.console.say(harmless_line(f"{tool!r} is left out: {why}"))


def _lookup(program: Program) -> Lookup:
    """Looks secrets up in the store of the app, or of programs that have none; opened when the first is needed."""

    async def lookup(name: str) -> str:
        from fairlead.store import open_store
        from fairlead.store.secrets import Secrets, default_key

        app = program.find_app(whole=False)
        store = open_store() if app is None else app.store
        try:
            return await Secrets(store, default_key(store, program.console.environ)).get(name)
        finally:
            if app is None:
                store.close()

    return lookup
