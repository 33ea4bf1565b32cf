"""The command `dev`: the browser console of an app, reloading on change."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.hints import wrong_option

if TYPE_CHECKING:
    import socket

    from fairlead.surfaces.cli.locate import Place
    from fairlead.surfaces.cli.program import Program

PORT: Final = "4321"
HOST: Final = "127.0.0.1"
#: What may be listened on, by what a person writes.
_HOSTS: Final = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1", "[::1]": "::1"}


def _dev(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--no-open", "--no-reload"), ("--port", "--host"))
    host = _host(program, options.values.get("--host", HOST))
    port = _port(options.values.get("--port", PORT))
    from fairlead.surfaces.console.serving import require_uvicorn
    from fairlead.surfaces.http.serving import listening

    require_uvicorn()
    place = None if "--no-reload" in options.on else _place(program)
    at = listening(host, port)
    opens = "--no-open" not in options.on and program.console.interactive and _has_screen(program)
    return _serve(program, at, opens) if place is None else _supervise(program, place, at, opens)


def _supervise(program: Program, place: Place, at: socket.socket, opens: bool) -> int:
    from fairlead.surfaces.console.supervisor import Supervisor

    supervisor = Supervisor(place, program.spelled, program.identity, at)
    _announce(program, at, supervisor.link, opens)
    return supervisor.run()


def _serve(program: Program, at: socket.socket, opens: bool) -> int:
    from fairlead.surfaces.console.console import Console
    from fairlead.surfaces.console.serving import Serving, address

    app, (user, auth) = program.the_app(), program.identity
    console = Console(app, user=user, auth=auth, program=program.spelled)
    _announce(program, at, console.link(address(at)), opens)
    return Serving(console).run(at)


def _announce(program: Program, at: socket.socket, link: str, opens: bool) -> None:
    program.console.say("The console is at this link, which works once. Ctrl-C stops it.")
    program.console.write(f"{link}\n")
    if opens:
        import webbrowser

        webbrowser.open(link)


def _place(program: Program) -> Place | None:
    """Where another process finds the app; None where it cannot, and the app is served as it is."""
    from fairlead.surfaces.cli.locate import Place, locate, not_found

    if not program.owned:
        place = locate(program.target, program.console.environ, os.getcwd())
        if place is None:
            raise not_found()
        return place
    from fairlead.surfaces.cli.whereabouts import whereabouts

    home = whereabouts(program.the_app())
    if home is not None and _is_plain(program.identity):
        return Place(home, "the program that was started", packaged=True)
    why = "no module has a name for it" if home is None else "its caller's identity is no plain data"
    program.console.say(f"The app is not reloaded on change: {why}.")
    return None


def _is_plain(value: object) -> bool:
    from fairlead._json import encode

    try:
        encode(value)
    except TypeError:
        return False
    return True


def _host(program: Program, given: str) -> str:
    if given in _HOSTS:
        return _HOSTS[given]
    raise wrong_option(
        "--host",
        "expected 127.0.0.1, localhost or ::1. The console does all that you may do, so it is for this machine "
        f"only; '{program.spelled} serve' is for others",
    )


def _port(given: str) -> int:
    if given.isascii() and given.isdigit() and int(given[:6]) <= 65535:
        return int(given[:6])
    raise wrong_option("--port", "expected a number from 0 to 65535; 0 takes any that is free")


def _has_screen(program: Program) -> bool:
    """Whether a browser would have a window: one in the terminal would fight over it."""
    environ = program.console.environ
    return sys.platform in ("darwin", "win32") or "DISPLAY" in environ or "WAYLAND_DISPLAY" in environ


DEV = Command(
    "dev [--port PORT] [--host HOST] [--no-open] [--no-reload]",
    (
        ("--port PORT", f"Where to listen; 0 takes any port that is free. [default: {PORT}]"),
        (
            "--host HOST",
            f"127.0.0.1, localhost or ::1: the console is for this machine only. [default: {HOST}]",
        ),
        ("--no-open", "Open no browser. Without a terminal or a screen none is opened anyway."),
        ("--no-reload", "Keep the app as it is when its files change."),
    ),
    _dev,
    ("dev", "dev --port 0 --no-open"),
)
