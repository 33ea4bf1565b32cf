"""A plugin called in its own process and in ours, beside the least that could carry the same strings there and back."""

import ctypes
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from environments import HOME, ROOT
from fairlead.plugins import slots
from fairlead.plugins.inprocess import InProcessRunner
from fairlead.plugins.process import ProcessRunner
from task import Batch

#: What a tool of middling size takes and gives: the same bytes go both ways.
PAYLOAD = '{"title":"Write the report","priority":2,"tags":["work","today"],"notes":"' + "n" * 120 + '"}'
SOURCE = ROOT / "tests" / "plugins" / "c" / "toy.c"
INCLUDE = ROOT / "src" / "fairlead" / "plugins" / "include"
ECHO = "import os\nwhile data := os.read(0, 65536):\n    os.write(1, data)\n"


@cache
def library() -> Path:
    """The plugin, compiled once for each state of its source."""
    HOME.mkdir(parents=True, exist_ok=True)
    made = HOME / f"toy-{SOURCE.stat().st_mtime_ns}.so"
    if not made.exists():
        own = made.with_suffix(f".{os.getpid()}")
        command = ["cc", "-shared", "-fPIC", "-O2", f"-I{INCLUDE}", "-o", own, SOURCE, "-lpthread"]
        subprocess.run(command, check=True)
        own.rename(made)
    return made


class Services:
    """A host that answers at once with what it was given."""

    def call(self, slot: int, args: tuple[str | None, ...], frame: Any) -> str | None:
        return args[0] if args else None

    async def stream(self, request: str | None, frame: Any, chunk: Any) -> str | None:
        return request


def pipe() -> Batch:
    """A bare round trip over two pipes to an interpreter that sends back what it reads."""
    there, back = os.pipe(), os.pipe()
    python = getattr(sys, "_base_executable", sys.executable)
    subprocess.Popen([python, "-I", "-S", "-c", ECHO], stdin=there[0], stdout=back[1])
    os.close(there[0])
    os.close(back[1])
    data = PAYLOAD.encode()

    async def batch(count: int) -> None:
        for _ in range(count):
            os.write(there[1], data)
            os.read(back[0], 65536)

    return batch


def helper() -> Batch:
    """A tool call through the helper process."""
    return _repeated(ProcessRunner("test.toy", library(), Services()))


def in_process() -> Batch:
    """A tool call in our process, from the loop: it runs on a thread."""
    return _repeated(InProcessRunner("test.toy", library(), Services()))


def _repeated(runner: ProcessRunner | InProcessRunner) -> Batch:
    async def batch(count: int) -> None:
        await runner.start()
        invoke = runner.invoke
        for _ in range(count):
            await invoke("tool", "raw", PAYLOAD, agent=None, timeout=30)

    return batch


def on_thread() -> Batch:
    """A tool call in our process, from a thread that may block."""
    runner = InProcessRunner("test.toy", library(), Services())

    async def batch(count: int) -> None:
        await runner.start()
        invoke = runner.invoke_now
        for _ in range(count):
            invoke("tool", "raw", PAYLOAD, agent=None)

    return batch


def bare_ctypes() -> Batch:
    """The function itself by ctypes: strings in, a copy of what it gives out, and its `free_string`."""
    table = ctypes.CDLL(str(library()))
    entry = table.osaurus_plugin_entry_v2
    entry.restype, entry.argtypes = ctypes.POINTER(ctypes.c_void_p), [ctypes.c_void_p]
    nothing = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p)(lambda level, message: None)
    host = (ctypes.c_void_p * 25)()
    host[6] = ctypes.cast(nothing, ctypes.c_void_p).value
    pointers = entry(ctypes.addressof(host))
    text = ctypes.c_char_p
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(pointers[0])
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, text, text, text)(pointers[4])

    async def batch(count: int, _kept: object = (host, nothing)) -> None:
        for _ in range(count):
            given = call(None, "tool".encode(), "raw".encode(), PAYLOAD.encode())  # noqa: UP012  # as a caller has to
            answer = ctypes.string_at(given).decode()
            free(given)
            assert len(answer) == len(PAYLOAD)

    return batch


def host_calls() -> Batch:
    """Host calls that a plugin makes within one tool call."""
    runner = ProcessRunner("test.toy", library(), Services())

    async def batch(count: int) -> None:
        await runner.start()
        await runner.invoke("tool", "asks", str(count), agent=None, timeout=60)

    return batch


def plain_insert() -> Batch:
    """Rows into SQLCipher by its own module, one statement each, as safe as those of plugins; pages as they come."""
    import sqlcipher3

    connection = sqlcipher3.connect(str(_folder() / "plain.db"), isolation_level=None)
    connection.execute(f"PRAGMA key = \"x'{KEY.hex()}'\"")
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "wal_autocheckpoint = 4000"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(TABLE)

    async def batch(count: int) -> None:
        for number in range(count):
            connection.execute(INSERT, ("a note of middling length", number))

    return batch


def plugin_insert() -> Batch:
    """The same rows by `db_exec` of a plugin in its own process."""
    return _inserted(ProcessRunner("test.toy", library(), Sql()))


def in_process_insert() -> Batch:
    """The same rows by `db_exec` of a plugin in our process."""
    return _inserted(InProcessRunner("test.toy", library(), Sql()))


def _inserted(runner: ProcessRunner | InProcessRunner) -> Batch:
    async def batch(count: int) -> None:
        await runner.start()
        done = await runner.invoke("tool", "insert", str(count), agent=None, timeout=60)
        assert done == "inserted", done

    return batch


KEY = bytes(range(32))
TABLE = "CREATE TABLE notes (title TEXT, number INTEGER)"
INSERT = "INSERT INTO notes (title, number) VALUES (?, ?)"


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="bench-", dir=HOME))


class Sql(Services):
    """A host whose SQL is the plugin's own database, as it is in an app."""

    def __init__(self) -> None:
        from fairlead.plugins.database import Database

        self.database = Database("test.toy", _folder() / "plugin.db", lambda: KEY)
        self.database.exec(TABLE)

    def call(self, slot: int, args: tuple[str | None, ...], frame: Any) -> Any:
        if slot in (slots.DB_EXEC, slots.DB_QUERY):
            return self.database.submit(slot == slots.DB_QUERY, str(args[0]), args[1])
        return super().call(slot, args, frame)

    def run(self, slot: int, args: tuple[str | None, ...], frame: Any) -> str | None:
        return self.database.exec(str(args[0]), args[1])

    def sql_waiting(self) -> bool:
        return self.database.waiting


def bare_start() -> Batch:
    """An interpreter that imports two modules of the standard library, and ends."""
    python = getattr(sys, "_base_executable", sys.executable)

    async def batch(count: int) -> None:
        for _ in range(count):
            command = [python, "-I", "-S", "-c", "import ctypes, sqlite3"]
            subprocess.run(command, check=True)  # noqa: ASYNC221  # nothing else runs meanwhile

    return batch


def helper_start() -> Batch:
    """From nothing to a plugin that is fenced, loaded and has said what it is; and its end."""

    async def batch(count: int) -> None:
        for _ in range(count):
            runner = ProcessRunner("test.toy", library(), Services())
            await runner.start()
            await runner.stop()

    return batch
