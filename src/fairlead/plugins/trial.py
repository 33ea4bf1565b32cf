"""The process in which a library is tried: each step calls it in one way, and a line says how that went.

Loaded alone, as `helper.py` is, and within the same fence. Strings that the host gives are counted, so that those which
never come back, come back twice, or were never given are found without a crash. The process that started it judges.
"""

import ctypes
import json
import os
import sys
from _thread import _local, allocate_lock, start_new_thread
from uuid import uuid4

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fairlead.plugins import confinement, native, slots
elif __name__ == "trial":
    import confinement
    import native
    import slots
else:
    from fairlead.plugins import confinement, native, slots

PROBE = b"__osaurus_abi_probe__"
AGENT = b"A0000000-0000-4000-8000-000000000001"
TASK = b"C0000000-0000-4000-8000-000000000001"
ROUNDS = 256
_WARM = 48
_THREADS = 8
_EACH = 16
#: Texts that no host should give, and that must not bring a plugin down.
ODD = (b"{}", b"null", b"[]", b'"text"', b"17", b"not JSON", b"", b'{"error":"unheard_of"}', b'{"rows":null}')
_STRAYS = 5

#: What a host says when all is well.
_WELL = {
    slots.CONFIG_GET: b"value",
    slots.DB_EXEC: b'{"changes":1,"last_insert_rowid":1}',
    slots.DB_QUERY: b'{"columns":[],"rows":[]}',
    slots.DISPATCH: b'{"id":"%s","status":"running"}' % TASK,
    slots.TASK_STATUS: b'{"id":"%s","status":"running","title":"Chat"}' % TASK,
    slots.COMPLETE: b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}',
    slots.EMBED: b'{"data":[{"index":0,"embedding":[0.5,0.5],"dimensions":2}],"model":"m"}',
    slots.LIST_MODELS: b'{"models":[]}',
    slots.HTTP_REQUEST: b'{"status":200,"headers":{},"body":"{}","body_encoding":"utf8","elapsed_ms":1}',
    slots.FILE_READ: b'{"data":"eA==","size":1,"mime_type":"text/plain"}',
    slots.LIST_ACTIVE_TASKS: b'{"tasks":[]}',
    slots.DISPATCH_ADD_ISSUE: b'{"error":"not_supported","message":"reserved"}',
}
_REFUSAL = b'{"error":"context_unavailable","message":"The host can do nothing now."}'
_CHUNK = b'{"id":"cmpl-1","choices":[{"index":0,"delta":{"content":"Yes."}}]}'


class Host:
    """Answers as a mood says: `well`, `nothing` (NULL and errors) or `odd`."""

    def __init__(self) -> None:
        self.mood = "well"
        self.turn = 0
        self.bound = _local()

    def ask(self, slot: int, args: "tuple[bytes | None, ...]") -> "bytes | None":
        """The answer of a slot."""
        about = slots.SLOTS[slot]
        assert about is not None
        if about.gives == slots.VOID:
            return None
        if self.mood == "nothing":
            return None if about.gives == slots.VALUE else _REFUSAL
        if self.mood == "odd":
            self.turn += 1
            return ODD[self.turn % len(ODD)]
        return _WELL.get(slot)

    def note(self, slot: int, args: "tuple[bytes | None, ...]") -> None:
        """Take word of something."""

    def stream(self, request: bytes, chunk: "Callable[[bytes], None] | None") -> "bytes | None":
        """The answer of `complete_stream`."""
        if chunk is not None and self.mood != "nothing":
            chunk(_CHUNK if self.mood == "well" else ODD[self.turn % len(ODD)])
        return self.ask(slots.COMPLETE, (request,))

    def agent(self) -> "bytes | None":
        """The agent of this thread's call."""
        return getattr(self.bound, "agent", None)


class Strings:
    """The strings that the host gave and that have not come back."""

    def __init__(self) -> None:
        self._strdup = native._strdup
        self._free = ctypes.CDLL(None).free
        self._free.argtypes, self._free.restype = [ctypes.c_void_p], None
        self._callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._taken)
        self.out: set[int] = set()
        self.strays = 0

    def count(self) -> None:
        """From now on, all strings are counted."""
        native._strdup = self._given  # type: ignore[assignment]
        native._free_address = ctypes.cast(self._callback, ctypes.c_void_p).value

    def _given(self, text: bytes) -> int:
        address: int = self._strdup(text)
        self.out.add(address)  # an address that is still there was freed by libc's free, which is allowed
        return address

    def _taken(self, address: "int | None") -> None:
        if not address:
            return
        if address not in self.out:
            self.strays += 1
            return
        self.out.discard(address)
        self._free(address)


class _Kept(native.Library):
    """A library whose table is kept, so that one entry of it can be called again."""

    def _table(self, host: "native.Host") -> native.PluginApi:
        self.api = super()._table(host)
        return self.api


class Trial:
    """One library, tried step by step."""

    def __init__(self, plan: "dict[str, Any]") -> None:
        self.plan = plan
        self.host = Host()
        self.strings = Strings()
        self.python = plan["library"].endswith(".py")

    def run(self) -> None:
        """All steps that are not to be skipped."""
        skipped = set(self.plan["skip"])
        self.strings.count()
        say(step="load")
        self.library = self._opened()
        try:
            manifest = self.library.load(self.host)
        except native.LoadError as exc:
            say(step="load", done=True, failed=str(exc))
            return
        offers = [self.library.routes, self.library.config, self.library.events]
        say(
            step="load",
            done=True,
            abi=self.library.abi,
            offers=offers,
            manifest=manifest.decode("utf-8", "replace"),
        )
        for name in ("manifest", "probe", "tools", "nothing", "odd", "routes", "settings", "events"):
            self._step(name, skipped)
        for name in ("memory", "threads", "strings", "end"):
            self._step(name, skipped)

    def _opened(self) -> "native.Library":
        if not self.python:
            return _Kept(self.plan["library"])
        import sdk  # type: ignore[import-not-found]

        opened: native.Library = sdk.opened(self.plan["library"])
        return opened

    def _step(self, name: str, skipped: "set[str]") -> None:
        if name not in skipped:
            say(step=name)
            say(step=name, done=True, **getattr(self, f"_{name}")())

    # --- steps ---

    def _manifest(self) -> "dict[str, Any]":
        if self.python:
            return {"same": True, "grown": 0}
        library = self.library
        assert isinstance(library, _Kept)
        ask = native._GET_MANIFEST(library.api.get_manifest)
        first = library._taken(ask(library._ctx))
        same = all(library._taken(ask(library._ctx)) == first for _ in range(_WARM))
        before = in_use()
        for _ in range(ROUNDS):
            library._taken(ask(library._ctx))
        return {"same": same, "grown": in_use() - before}

    def _probe(self) -> "dict[str, Any]":
        if not self.library.config:
            return {"rounds": 0}
        values = [str(uuid4()).encode() for _ in range(8)]
        for number in range(_WARM):
            self._told(PROBE, values[number % 8])
        out, before = len(self.strings.out), in_use()
        for number in range(ROUNDS):
            self._told(PROBE, values[number % 8])
        return {"rounds": ROUNDS, "kept": len(self.strings.out) - out, "grown": in_use() - before}

    def _told(self, key: bytes, value: bytes, agent: "bytes | None" = AGENT) -> None:
        self._as(agent, lambda: self.library.config_changed(key, value))

    def _as(self, agent: "bytes | None", work: "Callable[[], Any]") -> "Any":
        self.host.bound.agent = agent
        try:
            return work()
        finally:
            self.host.bound.agent = None

    def _tools(self) -> "dict[str, Any]":
        answers = {}
        for tool in self.plan["tools"]:
            for number, payload in enumerate(tool["payloads"]):
                say(doing=f"the tool {tool['id']!r} with {payload[:60]}")
                given = self._call(b"tool", tool["id"], payload, AGENT if number % 2 == 0 else None)
                answers[f"{tool['id']} {number}"] = given
        for kind, id in ((b"tool", "no.such.tool"), (b"no.such.kind", "x"), (b"artifact", "share")):
            say(doing=f"invoke({kind.decode()!r}, {id!r})")
            payload = self.plan["artifact"] if kind == b"artifact" else "{}"
            answers[f"{kind.decode()} {id}"] = self._call(kind, id, payload, AGENT)
        return {"answers": answers}

    def _call(self, kind: bytes, id: str, payload: str, agent: "bytes | None") -> "str | None":
        given = self._as(agent, lambda: self.library.invoke(kind, id.encode(), payload.encode()))
        if given is None:
            return None
        try:
            return str(given[:4000].decode("utf-8"))
        except UnicodeDecodeError as exc:
            return f"not UTF-8: {exc}" if exc.start < 3990 else given[: exc.start].decode("utf-8")

    def _nothing(self) -> "dict[str, Any]":
        return self._in_mood("nothing", 1)

    def _odd(self) -> "dict[str, Any]":
        return self._in_mood("odd", len(ODD))

    def _in_mood(self, mood: str, rounds: int) -> "dict[str, Any]":
        self.host.mood = mood
        try:
            for _ in range(rounds):
                self._everything(AGENT)
                self._everything(None)
        finally:
            self.host.mood = "well"
        return {}

    def _everything(self, agent: "bytes | None") -> None:
        library = self.library
        for tool in self.plan["tools"]:
            say(doing=f"the tool {tool['id']!r} while the host was {self.host.mood}")
            self._call(b"tool", tool["id"], tool["payloads"][0], agent)
        if library.routes:
            for request in self.plan["routes"]:
                self._as(agent, lambda request=request: library.handle_route(request.encode()))  # type: ignore[misc]
        if library.config:
            for key in self.plan["settings"]:
                self._told(key.encode(), b"value", agent)
        if library.events:
            for number, payload in enumerate(self.plan["events"]):
                self._event(number, payload, agent)

    def _event(self, number: int, payload: str, agent: "bytes | None") -> None:
        self._as(agent, lambda: self.library.task_event(TASK, number, payload.encode()))

    def _routes(self) -> "dict[str, Any]":
        answers = {}
        if self.library.routes:
            for number, request in enumerate([*self.plan["routes"], "{}", "not JSON", "[]"]):
                say(doing=f"a route with {request[:60]}")
                given = self._as(AGENT, lambda request=request: self.library.handle_route(request.encode()))  # type: ignore[misc]
                answers[str(number)] = None if given is None else given[:4000].decode("utf-8", "replace")
        return {"answers": answers}

    def _settings(self) -> "dict[str, Any]":
        if self.library.config:
            for key in [*self.plan["settings"], "tunnel_url", "no.such.key", ""]:
                for value in (b"value", b"", b"https://example.com/x", b"x" * 100_000):
                    say(doing=f"the value of {key!r}")
                    self._told(key.encode(), value)
        return {"listens": self.library.config}

    def _events(self) -> "dict[str, Any]":
        if self.library.events:
            for number, payload in [*enumerate(self.plan["events"]), (4, "{}"), (3, "not JSON"), (99, "{}")]:
                say(doing=f"the event {number} with {payload[:60]}")
                self._event(number, payload, AGENT)
        return {"listens": self.library.events}

    def _memory(self) -> "dict[str, Any]":
        grown = {}
        for tool in () if self.python else self.plan["tools"]:
            say(doing=f"the tool {tool['id']!r}, {ROUNDS} times")
            for _ in range(_WARM):
                self._call(b"tool", tool["id"], tool["payloads"][0], AGENT)
            before = in_use()
            for _ in range(ROUNDS):
                self._call(b"tool", tool["id"], tool["payloads"][0], AGENT)
            grown[tool["id"]] = in_use() - before
        return {"grown": grown}

    def _threads(self) -> "dict[str, Any]":
        failed: list[str] = []
        gates = []
        for number in range(_THREADS):
            gates.append(allocate_lock())
            gates[-1].acquire()
            start_new_thread(self._often, (number, failed, gates[-1]))
        for gate in gates:
            gate.acquire()
        return {"threads": _THREADS, "rounds": _EACH, "wrong": failed[:3]}

    def _often(self, number: int, failed: "list[str]", gate: "Any") -> None:
        try:
            for _ in range(_EACH):
                for tool in self.plan["tools"]:
                    self._call(b"tool", tool["id"], tool["payloads"][0], AGENT)
                if self.library.routes:
                    for request in self.plan["routes"]:
                        self.library.handle_route(request.encode())
                if self.library.config and number == 0:
                    self._told(PROBE, b"x")
                if self.library.events:
                    self._event(0, "{}", AGENT)
        except Exception as exc:
            failed.append(f"{type(exc).__name__}: {exc}")
        finally:
            gate.release()

    def _strings(self) -> "dict[str, Any]":
        return {"kept": len(self.strings.out), "strays": self.strings.strays}

    def _end(self) -> "dict[str, Any]":
        self.library.destroy()
        return {"strays": self.strings.strays}


class _Memory(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()  # noqa: SIM905
    ]


def in_use() -> int:
    """Bytes that malloc has given out in this process; 0 where the system cannot tell."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0
    ask.restype = _Memory
    told = ask()
    return int(told.uordblks + told.hblkhd)


def say(**words: "Any") -> None:
    """One line to whoever judges."""
    data = json.dumps(words).encode() + b"\n"
    while data:
        data = data[os.write(_out, data) :]


_out = 1


def main() -> None:
    """Read the plan, put up the fence, and try."""
    global _out
    _out = int(sys.argv[1])
    plan = json.loads(sys.stdin.buffer.read())
    confinement.confine(
        landlock=plan["landlock"],
        allowed=frozenset(),
        limits=plan["limits"],
        readable=plan["readable"],
        writable=plan["writable"],
    )
    if plan["entry"] == slots.ENTRY_V1:
        _try_first_entry(plan["library"])
    else:
        Trial(plan).run()
    say(step="over")
    os._exit(0)


def _try_first_entry(path: str) -> None:
    """The table that hosts of the first version get."""
    say(step="entry_v1")
    library = native.Library(path)
    entry = library._symbol(slots.ENTRY_V1)
    assert entry is not None
    entry.restype, entry.argtypes = ctypes.c_void_p, []
    address = entry()
    if not address:
        say(step="entry_v1", done=True, lacking=["table"])
        return
    table = native.PluginApiV1.from_buffer_copy(ctypes.string_at(address, slots.PLUGIN_API_V1_SIZE))
    required = [name for name, _at, needed in slots.PLUGIN_FIELDS if needed]
    say(step="entry_v1", done=True, lacking=[name for name in required if not getattr(table, name)])
