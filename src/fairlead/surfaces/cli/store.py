"""`fairlead store`: look at the app's database and look after it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead.failures import Failure, Kind
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import BOLD, DIM, YELLOW, harmless_line
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.cli.spans import DATA_ROW, choose_store

if TYPE_CHECKING:
    from fairlead.store import Store
    from fairlead.store.moving import Moved
    from fairlead.surfaces.cli.program import Program

_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")


class Desk(NamedTuple):
    """Where a verb does its work."""

    program: Program
    options: Options
    #: The store that an app holds open itself, else where it is.
    place: Store | Path | str

    def open(self, *, migrate: bool = True, make: bool = False) -> Store:
        """The store. One that is not there yet is made by who writes to it, not by who looks at it."""
        from fairlead.store.opening import open_at

        if isinstance(self.place, Path) and not make and not self.place.exists():
            words = f"There is no store at {str(self.place)!r} yet. It is made when it is first used, or by: "
            raise Failure(Kind.not_found, f"{words}{self.program.spelled} store migrate")
        return open_at(self.place, migrate=migrate) if isinstance(self.place, Path | str) else self.place

    def tell(self, told: dict[str, Any], words: str) -> int:
        """The result: as JSON for programs, in words for people."""
        if "--json" in self.options.on:
            return self.program.write_json(told)
        self.program.console.say(harmless_line(words))
        return 0

    def file(self) -> Path:
        import os

        return Path(os.path.abspath(os.path.expanduser(self.word("a file"))))

    def word(self, what: str) -> str:
        if not self.options.words or not self.options.words[0].strip():
            raise wrong_option("argument 2", f"expected {what}.")
        return self.options.words[0]

    @property
    def forced(self) -> bool:
        return "--force" in self.options.on


class Verb(NamedTuple):
    """One word after `store`: what it does, and what it takes."""

    run: Callable[[Desk], int]
    words: int = 0
    switches: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


def _store(program: Program, arguments: list[str]) -> int:
    if not arguments:
        return program.help_for("store")
    name, *rest = arguments
    verb = _VERBS.get(name)
    if verb is None:
        expected = f"expected one of {', '.join(_VERBS)}."
        raise wrong_option("argument 1", f"{expected}{near_miss(name[:20], _VERBS)}")
    options = Options(rest, ("--json", *verb.switches), ("--data", *verb.values), verb.words)
    choose_store(options.values.get("--data"))
    return verb.run(Desk(program, options, _place(program)))


def _place(program: Program) -> Store | Path | str:
    """Where the app's store is, or that of the programs that have no app."""
    from fairlead.store.opening import place_of

    app = program.find_app(whole=False)
    if app is None:
        return place_of()
    given: Store | str | None = app.__dict__.get("_store")
    return place_of(app.name, url=given) if given is None or isinstance(given, str) else given


def _status(desk: Desk) -> int:
    from fairlead.store.upkeep import status

    with desk.open(migrate=False) as store:
        told = status(store).describe()
    console = desk.program.console
    if "--json" in desk.options.on or not console.out_tty:
        return desk.program.write_json(told)
    from fairlead.surfaces.cli.render import table

    lines = {
        "database": f"{told['kind']} {harmless_line(told['name'])}",
        "size": size(told["size"]),
        "version": str(told["version"]),
    }
    for name, value in lines.items():
        console.write(f"{console.out(f'{name:<9}', DIM)} {console.out(value, BOLD)}\n")
    if told["pending"]:
        console.write(f"{console.out('pending  ', DIM)} {console.out(', '.join(told['pending']), YELLOW)}\n")
        console.say(f"Bring it up to date: {desk.program.spelled} store migrate")
    else:
        rows = [{"table": name, "rows": rows} for name, rows in told["rows"].items()]
        console.write(f"\n{table(rows, console)}\n")
    return 0


def _migrate(desk: Desk) -> int:
    from fairlead.store.migrations import migrate, version

    if "--to" in desk.options.values:
        return _go_back(desk, desk.options.values["--to"])
    if desk.forced:
        raise wrong_option("--force", "only --to N drops something. Leave it out.")
    with desk.open(migrate=False, make=True) as store:
        applied = [each.label for each in migrate(store, time.time())]
        told = {"name": store.name, "version": store.read_now(version), "applied": applied}
    done = f"applied {', '.join(applied)}" if applied else "nothing was to be done"
    return desk.tell(told, f"The store {told['name']} is of version {told['version']}: {done}.")


def _go_back(desk: Desk, to: str) -> int:
    from fairlead.store.migrations import go_back, version

    if not (to.isascii() and to.isdigit() and len(to) < 5):
        raise wrong_option("--to", "expected the number of a version, such as 7.")
    with desk.open(migrate=False) as store:
        undone = [each.label for each in go_back(store, int(to), lose=desk.forced)]
        told = {"name": store.name, "version": store.read_now(version), "undone": undone}
    done = f"undid {', '.join(undone)}" if undone else "nothing was to be done"
    return desk.tell(told, f"The store {told['name']} is of version {told['version']}: {done}.")


def _backup(desk: Desk) -> int:
    from fairlead.store.upkeep import backup

    file = desk.file()
    with Meter(desk, "Backing up") as meter, desk.open() as store:
        moved = backup(store, file, meter.progress, replace=desk.forced)
    return desk.tell(_moved(moved, file=str(file)), f"{_rows(moved)} written to {file}.")


def _restore(desk: Desk) -> int:
    from fairlead.store.upkeep import restore

    file = desk.file()
    with Meter(desk, "Restoring") as meter:
        moved = restore(file, desk.place, meter.progress, replace=desk.forced)
    return desk.tell(_moved(moved, file=str(file)), f"{_rows(moved)} restored from {file}.")


def _vacuum(desk: Desk) -> int:
    from fairlead.store.upkeep import status

    with Meter(desk, "Vacuuming") as meter, desk.open() as store:
        before = status(store).size
        meter.progress("", 0, 0)
        store.vacuum()
        after = status(store).size
        told = {"name": store.name, "before": before, "after": after}
    words = f"The store {told['name']} was {size(before)} and is {size(after)}."
    return desk.tell(told, words)


def _move(desk: Desk) -> int:
    from fairlead.store.moving import copy
    from fairlead.store.opening import open_store

    url = desk.word("the address of a database, such as postgresql://user@host/database")
    with Meter(desk, "Moving") as meter, desk.open() as store, open_store(url=url) as target:
        if (store.kind, store.name) == (target.kind, target.name):
            raise Failure(Kind.invalid_input, f"{target.name} is where the store is already. Choose another.")
        moved = copy(store, target, meter.progress)
        told = _moved(moved, source=store.name, target=target.name)
    words = f"{_rows(moved)} copied to {told['target']}. {told['source']} is as it was. "
    return desk.tell(told, f"{words}Programs use the new one when FAIRLEAD_DATABASE_URL names it.")


def _rows(moved: Moved) -> str:
    return "1 row was" if moved.rows == 1 else f"{moved.rows} rows were"


def _moved(moved: Moved, **told: str) -> dict[str, Any]:
    return {**told, "rows": moved.rows, "tables": moved.tables}


class Meter:
    """A bar for long work, which Ctrl-C ends before its time; what was done so far is undone."""

    def __init__(self, desk: Desk, doing: str) -> None:
        from fairlead.surfaces.cli.live import Live

        self._live = Live(desk.program.console, False)
        self._doing = doing
        self._stopped = threading.Event()
        self._before: Any = None

    def __enter__(self) -> Meter:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._stop)
        return self

    def __exit__(self, *about: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        self._live.clear()

    def _stop(self, *about: object) -> None:
        # The thread that does the work must end it: the store does not close before.
        self._stopped.set()
        raise KeyboardInterrupt

    def progress(self, what: str, done: int, total: int) -> None:
        """Called by who does the work, on any thread."""
        if self._stopped.is_set():
            raise Failure(Kind.cancelled, "It was interrupted; nothing was changed.")
        percent = 100 * done / total if total else None
        message = f"{self._doing} {what}".strip()
        self._live.event({"type": "progress", "message": message, "percent": percent})


def size(count: int) -> str:
    """Bytes as people read them."""
    number = float(count)
    for unit in _UNITS:
        if number < 1000 or unit == _UNITS[-1]:
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"


_VERBS: Final = {
    "status": Verb(_status),
    "migrate": Verb(_migrate, switches=("--force",), values=("--to",)),
    "backup": Verb(_backup, 1, ("--force",)),
    "restore": Verb(_restore, 1, ("--force",)),
    "vacuum": Verb(_vacuum),
    "move": Verb(_move, 1),
}

STORE = Command(
    "store status | migrate | backup FILE | restore FILE | vacuum | move URL [OPTIONS]",
    (
        ("status", "Tell which database it is, its size, its version and the rows of each table."),
        ("migrate", "Bring the tables up to date. Programs do so themselves when they start."),
        ("backup FILE", "Write all of it to one file, while programs go on using it."),
        (
            "restore FILE",
            "Put a backup back into a store that is empty, or with --force, in place of what is there.",
        ),
        ("vacuum", "Give room that is not used back to the disk."),
        (
            "move URL",
            "Copy all of it to another database, which must be empty: postgresql://... or sqlite:///...",
        ),
        ("--to N", "With migrate: take the tables back to version N, for an older Fairlead."),
        DATA_ROW,
        (
            "--force",
            "Write over the file, replace what the store holds, or drop what version N has no place for.",
        ),
        ("--json", "Print JSON."),
    ),
    _store,
    (
        "store status",
        "store backup monday.db",
        "store restore monday.db --force",
        "store migrate --to 7",
        "store move postgresql://me@host/database",
    ),
)
