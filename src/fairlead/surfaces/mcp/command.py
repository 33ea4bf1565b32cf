"""`mcp`: print the manifest, serve over stdin and stdout, set up a client, or look after servers elsewhere."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures import Failure, Kind
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.mcp.own import load_server, own_server

if TYPE_CHECKING:
    from fairlead.actions import Exposure
    from fairlead.surfaces.cli.program import Program
    from fairlead.surfaces.mcp.framing import Framing
    from fairlead.surfaces.mcp.install import Client

_INCLUDES: Final = ("--include-destructive", "--include-local", "--include-private")
#: Which options go with which form of the command, besides the includes.
_FORMS: Final = {
    "mcp": (),
    "mcp --stdio": ("--stdio", "--framing", "--max-frame-bytes", "--server"),
    "mcp install": ("--client", "--name", "--write", "--yes", "--server"),
}
_SWITCHES: Final = ("--stdio", "--write", "--yes", *_INCLUDES)
_VALUED: Final = ("--framing", "--max-frame-bytes", "--client", "--name", "--server")


def _mcp(program: Program, arguments: list[str]) -> int:
    from fairlead.surfaces.mcp.servers import VERBS, servers

    if arguments and arguments[0] in VERBS:
        return servers(program, arguments[0], arguments[1:])
    # Before the rest is read, all of which may be right behind the right verb.
    _check_verb(arguments[0] if arguments and not arguments[0].startswith("-") else None)
    options = Options(arguments, _SWITCHES, _VALUED, words=1)
    _check_verb(options.words[0] if options.words else None)
    form = "mcp install" if options.words else "mcp --stdio" if "--stdio" in options.on else "mcp"
    for flag in [*options.on, *options.values]:
        if flag not in _FORMS[form] and flag not in _INCLUDES:
            raise wrong_option(flag, f"does not go with {form!r}")
    if form == "mcp install":
        return _install(program, options)
    if form == "mcp --stdio":
        return _stdio(program, options)
    from fairlead.surfaces.mcp.manifest import mcp_manifest

    return program.write_json(mcp_manifest(program.the_app(), _exposure(options)))


def _check_verb(word: str | None) -> None:
    from fairlead.surfaces.mcp.servers import VERBS

    verbs = ("install", *VERBS)
    if word is not None and word != "install":
        raise wrong_option("argument 1", f"expected one of {', '.join(verbs)}.{near_miss(word, verbs)}")


def _exposure(options: Options) -> Exposure:
    from fairlead.actions import Exposure

    included: dict[str, Any] = {flag[2:].replace("-", "_"): True for flag in _INCLUDES if flag in options.on}
    return Exposure(**included)


def _stdio(program: Program, options: Options) -> int:
    framing, largest = _framing(options), _largest(options)
    console = program.console
    if console.stdin is not sys.stdin or console.stdout is not sys.stdout:
        raise Failure(
            Kind.misconfigured,
            "--stdio serves the process's own stdin and stdout, which are not this command's here. "
            "In a program, connect to `app.mcp()` instead.",
        )
    if console.interactive:
        console.say(
            f"Speaking MCP on this terminal; Ctrl-D ends. '{program.spelled} mcp install' sets up a client."
        )
    from fairlead.surfaces.mcp.stdio import Pipes, run

    # Taken before the app is imported: what its modules print must not reach the client.
    pipes = Pipes()
    app = program.find_app(whole=False)
    if app is None:
        app = program.the_app()  # tells what is missing
    own = _own(program, options)
    server = app.mcp(exposure=_exposure(options)) if own is None else load_server(*own)
    user, auth = program.identity
    return run(server, pipes=pipes, framing=framing, max_frame_bytes=largest, user=user, auth=auth)


def _own(program: Program, options: Options) -> tuple[str, str] | None:
    """The server of the app's own that is meant, and who said so."""
    own = own_server(program, "--server", options.values.get("--server"))
    if own is None:
        return None
    for flag in options.on & set(_INCLUDES):
        raise wrong_option(
            flag, f"does not go with a server of your own ({own[1]}), which knows what it shows"
        )
    return own


def _framing(options: Options) -> Framing:
    from fairlead.surfaces.mcp.framing import FRAMINGS

    given = options.values.get("--framing", "auto")
    for known in FRAMINGS:
        if given == known:
            return known
    raise wrong_option("--framing", f"expected one of {', '.join(FRAMINGS)}.{near_miss(given, FRAMINGS)}")


def _largest(options: Options) -> int:
    from fairlead.surfaces.mcp.framing import LARGEST

    given = options.values.get("--max-frame-bytes", str(LARGEST))
    if not re.fullmatch(r"[1-9][0-9]{0,17}", given):
        raise wrong_option("--max-frame-bytes", "expected a positive number of bytes, such as 4194304")
    return int(given)


def _install(program: Program, options: Options) -> int:
    from fairlead.surfaces.mcp import install

    chosen = options.values.get("--client")
    if chosen is not None and chosen not in install.CLIENTS:
        known = ", ".join(install.CLIENTS)
        raise wrong_option("--client", f"expected one of {known}.{near_miss(chosen, install.CLIENTS)}")
    if "--yes" in options.on and "--write" not in options.on:
        raise wrong_option("--yes", "goes with --write")
    app = program.the_app()
    name = options.values.get("--name", install.slug(app.name))
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise wrong_option("--name", "expected letters, digits, hyphens and underscores")
    command = install.start_command(app, owned=program.owned)
    command += ["mcp", "--stdio", *(flag for flag in _INCLUDES if flag in options.on)]
    own = _own(program, options)
    if own is not None:
        load_server(*own)  # tells what is wrong with it now, and not where nobody looks
        command += ["--server", own[0]]
    if "--write" not in options.on:
        clients = install.CLIENTS.values() if chosen is None else [install.CLIENTS[chosen]]
        return _print(program, list(clients), name, command)
    if chosen is None:
        raise wrong_option("--write", f"needs --client, one of {', '.join(install.CLIENTS)}")
    return _write(program, install.CLIENTS[chosen], name, command, sure="--yes" in options.on)


def _print(program: Program, clients: list[Client], name: str, command: list[str]) -> int:
    """The settings of one client alone, or of each under a heading."""
    console = program.console
    blocks = []
    for client in clients:
        heading = f"{client.title}: {client.file(console.environ)}"
        snippet = client.snippet(name, client.entry(command))
        if len(clients) == 1:
            console.say(heading)
            blocks.append(snippet)
        else:
            blocks.append(f"# {heading}\n{snippet}")
    console.write("\n".join(blocks))
    return 0


def _write(program: Program, client: Client, name: str, command: list[str], *, sure: bool) -> int:
    from fairlead.surfaces.mcp import install

    console = program.console
    path = client.file(console.environ)
    change = install.Change.of(client, path, name, client.entry(command))
    if not change.needed:
        console.say(f"{path} has {name!r} already. Nothing was changed.")
        return 0
    if sure:
        console.say(change.shown())
    elif not install.agreed(change, console):
        raise Failure(Kind.refused_by_user, f"Not confirmed: {path} was left as it is.")
    kept = change.write()
    copy = f" What it was is in {kept}." if kept else ""
    console.say(f"Wrote {path}.{copy} Restart the client to have {name!r} there.")
    return 0


MCP = Command(
    "mcp [--stdio | install | add NAME | list | tools NAME | test NAME | remove NAME] [options]",
    (
        ("--stdio", "Serve an MCP client on stdin and stdout, for the person who runs the command."),
        (
            "install",
            "Print the settings by which MCP clients start this app; --client NAME --write puts them in place.",
        ),
        ("add NAME -- COMMAND", "Use the tools of another server, which COMMAND starts; kept in .mcp.json."),
        ("add NAME --url URL", "Use the tools of a server that is reached over HTTP."),
        (
            "list",
            "List the servers that are used, their state and their number of tools; --offline asks none.",
        ),
        ("tools NAME", "List the tools of one."),
        ("test NAME", "Start or reach one, and tell whether it works."),
        ("remove NAME", "Use it no longer."),
        ("--include-destructive", "Show destructive actions too; a call still needs to be confirmed."),
        ("--include-local", "Show actions that are for this machine only."),
        ("--include-private", "Show private actions."),
        (
            "--framing KIND",
            "With --stdio: auto, content-length or newline. [default: auto, as the client does]",
        ),
        ("--max-frame-bytes N", "With --stdio: the largest message that is read. [default: 1048576]"),
        (
            "--server MODULE:NAME",
            "With --stdio and install: a server of your own, such as `server = app.mcp()`. [default: mcp.server]",
        ),
        (
            "--client NAME",
            "With install: claude-desktop, claude-code, cursor, vscode or codex. [default: all; --write needs one]",
        ),
        ("--name NAME", "With install: what the client calls the server. [default: the app's name]"),
        (
            "--write",
            "With install --client: change the client's settings file, after showing the change and asking.",
        ),
        ("--yes", "With --write: do not ask."),
        ("--env NAME=VALUE", "With add: a variable for the command; secret:NAME stands for a kept secret."),
        ("--header NAME=VALUE", "With add --url: a header for each request; secret:NAME likewise."),
        ("--trust", "With add: believe what the tools say of themselves, and do not ask before each call."),
        ("--include PATTERN", "With add: take only the tools that fit, such as 'get_*'."),
        ("--prefix TEXT", "With add: what the tools' names begin with. [default: the server's name]"),
        ("--timeout SECONDS", "With add: for one call. [default: 300]"),
        ("--reconnect N", "With add: how often it is started again after it died. [default: 0]"),
        ("--cwd FOLDER", "With add: where to start the command."),
        ("--force", "With add: replace a server of the same name."),
        ("--json", "With add, list, tools, test and remove: print JSON."),
    ),
    _mcp,
    (
        "mcp --stdio",
        "mcp install --client claude-desktop --write",
        "mcp add files -- npx -y @modelcontextprotocol/server-filesystem .",
        "mcp add tracker --url https://tracker.example.com/mcp --header 'Authorization=Bearer secret:tracker'",
        "mcp list",
    ),
)
