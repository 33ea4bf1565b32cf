"""The two tables in memory, and calls through them: ctypes, string copies, and who frees what.

Strings to the plugin are made by libc's `strdup`, so that `free` on either side is right. A string from the plugin is
copied and given back to the plugin's own `free_string`. How a host call is answered is not known here.
The helper process loads this file alone: it imports ctypes, os, and the table of slots beside it.
"""

import ctypes
import os
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from fairlead.plugins import slots

    class Host(Protocol):
        """Who answers host calls; called on the plugin's thread, whichever that is."""

        def ask(self, slot: int, args: tuple[bytes | None, ...]) -> bytes | None:
            """The answer of a slot; the plugin waits."""
            ...

        def note(self, slot: int, args: tuple[bytes | None, ...]) -> None:
            """Take word of something; the plugin does not wait."""
            ...

        def stream(self, request: bytes, chunk: Callable[[bytes], None] | None) -> bytes | None:
            """The answer of `complete_stream`, after its pieces were given to `chunk`."""
            ...

        def agent(self) -> bytes | None:
            """The agent of the calling thread's frame."""
            ...
elif __name__ == "native":
    import slots
else:
    from fairlead.plugins import slots

_libc = ctypes.CDLL(None)
_strdup = _libc.strdup
_strdup.restype = ctypes.c_void_p
_strdup.argtypes = [ctypes.c_char_p]
_free_address = ctypes.cast(_libc.free, ctypes.c_void_p).value
_string_at = ctypes.string_at

_TYPES = {"i": (ctypes.c_int,), "s": (ctypes.c_char_p,), "c": (ctypes.c_void_p, ctypes.c_void_p)}
_ON_CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)


def _signature(slot: "slots.Slot") -> "Any":
    gives = ctypes.c_void_p if slot.gives in (slots.JSON, slots.VALUE) else None
    if slot.number == slots.GET_ACTIVE_AGENT_ID:
        gives = ctypes.c_void_p
    return ctypes.CFUNCTYPE(gives, *(each for letter in slot.args for each in _TYPES[letter]))


class HostApi(ctypes.Structure):
    """The host's table, `osr_host_api`: 200 bytes, frozen order."""

    _fields_ = [("version", ctypes.c_uint32), *((slot.name, ctypes.c_void_p) for slot in slots.ALL)]


class PluginApi(ctypes.Structure):
    """The plugin's table, `osr_plugin_api`: 72 bytes."""

    _fields_ = [
        (name, ctypes.c_uint32 if name == "version" else ctypes.c_void_p)
        for name, _offset, _required in slots.PLUGIN_FIELDS
    ]


class PluginApiV1(ctypes.Structure):
    """All that is read of a table from the first version: five pointers, 40 bytes."""

    _fields_ = [(name, ctypes.c_void_p) for name, _offset, required in slots.PLUGIN_FIELDS if required]


class LoadError(Exception):
    """The library is no plugin that can be called; the text says why."""


class HostTable:
    """The host's table for one plugin. Whoever made it keeps it for as long as the plugin may call."""

    def __init__(self, host: "Host") -> None:
        self.api = HostApi(version=slots.ABI_VERSION)
        #: Held while `dispatch` runs: a task's events come after the plugin knows the task's id.
        self.dispatching = allocate_lock()
        self._kept: list[object] = []
        for slot in slots.ALL:
            if slot.number == slots.FREE_STRING:
                self.api.free_string = _free_address
                continue
            callback = _signature(slot)(self._callback(slot, host))
            self._kept.append(callback)
            setattr(self.api, slot.name, ctypes.cast(callback, ctypes.c_void_p).value)

    @property
    def pointer(self) -> int:
        """Where the table is; it does not move."""
        return ctypes.addressof(self.api)

    def _callback(self, slot: "slots.Slot", host: "Host") -> "Callable[..., int | None]":
        called = _callback(slot, host)
        if slot.number != slots.DISPATCH:
            return called

        def dispatch(request: "bytes | None") -> "int | None":
            with self.dispatching:
                return called(request)

        return dispatch


def _callback(slot: "slots.Slot", host: "Host") -> "Callable[..., int | None]":
    if slot.number == slots.GET_ACTIVE_AGENT_ID:
        return lambda: _given(host.agent())
    if slot.number == slots.COMPLETE_STREAM:
        return _stream_callback(host)
    number, required, ask = slot.number, slot.required, host.ask
    if slot.gives == slots.NOTE:
        return _note_callback(slot, host)
    if slot.gives == slots.VOID:

        def tell(*args: "bytes | None") -> None:
            if None not in args[:required]:
                ask(number, args)

        return tell
    if required == len(slot.args) == 1:

        def ask_one(only: "bytes | None") -> "int | None":
            return None if only is None else _given(ask(number, (only,)))

        return ask_one

    def ask_some(*args: "bytes | None") -> "int | None":
        return None if None in args[:required] else _given(ask(number, args))

    return ask_some


def _note_callback(slot: "slots.Slot", host: "Host") -> "Callable[..., None]":
    number, required, note = slot.number, slot.required, host.note

    def take(*args: "int | bytes | None") -> None:
        if None not in args[:required]:
            note(number, tuple(b"%d" % each if isinstance(each, int) else each for each in args))

    return take


def _stream_callback(host: "Host") -> "Callable[..., int | None]":
    stream = host.stream

    def complete(request: "bytes | None", on_chunk: "int | None", user_data: "int | None") -> "int | None":
        if request is None:
            return None
        if not on_chunk:
            return _given(stream(request, None))
        give = _ON_CHUNK(on_chunk)
        return _given(stream(request, lambda piece: give(piece, user_data)))

    return complete


def _given(answer: "bytes | None") -> "int | None":
    if answer is None:
        return None
    address: int | None = _strdup(answer)
    return address


_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_INIT = ctypes.CFUNCTYPE(ctypes.c_void_p)
_DESTROY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_GET_MANIFEST = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_INVOKE = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p
)
_ROUTE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_CONFIG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
_EVENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)


class Library:
    """A plugin's library, opened; `load` makes it one that can be called."""

    def __init__(self, path: str) -> None:
        try:
            self._library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as exc:
            raise LoadError(f"the library cannot be opened: {exc}") from None
        self.abi = 0
        self.routes = self.config = self.events = False

    def load(self, host: "Host") -> bytes:
        """Ask for the table, check it, and initialise; gives the manifest. Raises `LoadError`."""
        api = self._table(host)
        lacking = [name for name, _at, required in slots.PLUGIN_FIELDS if required and not getattr(api, name)]
        if lacking:
            raise LoadError(f"the plugin's table lacks what every plugin has: {', '.join(lacking)}")
        self._bind(api)
        self._ctx = _INIT(api.init)()
        if not self._ctx:
            raise LoadError("the plugin's init gave NULL: it could not be set up")
        manifest = self._taken(_GET_MANIFEST(api.get_manifest)(self._ctx))
        if manifest is None:
            self.destroy()
            raise LoadError("the plugin's get_manifest gave NULL: it does not say what it is")
        return manifest

    def _table(self, host: "Host") -> PluginApi:
        entry = self._symbol(slots.ENTRY_V2)
        if entry is not None:
            self._host_table = HostTable(host)
            entry.restype, entry.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
            api = PluginApi.from_buffer_copy(
                self._copied(entry(self._host_table.pointer), slots.PLUGIN_API_SIZE)
            )
            self.abi = max(api.version, 2)
            return api
        entry = self._symbol(slots.ENTRY_V1)
        if entry is None:
            raise LoadError(f"the library has neither {slots.ENTRY_V2} nor {slots.ENTRY_V1}: it is no plugin")
        entry.restype, entry.argtypes = ctypes.c_void_p, []
        prefix = self._copied(entry(), slots.PLUGIN_API_V1_SIZE)
        self.abi = 1
        return PluginApi.from_buffer_copy(prefix.ljust(slots.PLUGIN_API_SIZE, b"\0"))

    def _symbol(self, name: str) -> "Any | None":
        try:
            return self._library[name]
        except AttributeError:
            return None

    @staticmethod
    def _copied(address: "int | None", length: int) -> bytes:
        if not address:
            raise LoadError("the plugin's entry gave NULL instead of its table")
        return _string_at(address, length)

    def _bind(self, api: PluginApi) -> None:
        self._free = _FREE(api.free_string)
        self._destroy = _DESTROY(api.destroy)
        self._invoke = _INVOKE(api.invoke)
        self.routes, self.config, self.events = (
            bool(address) for address in (api.handle_route, api.on_config_changed, api.on_task_event)
        )
        self._route = _ROUTE(api.handle_route or 0)
        self._config = _CONFIG(api.on_config_changed or 0)
        self._event = _EVENT(api.on_task_event or 0)

    def _taken(self, address: "int | None") -> "bytes | None":
        if not address:
            return None
        try:
            return _string_at(address)
        finally:
            self._free(address)

    def invoke(self, kind: bytes, id: bytes, payload: bytes) -> "bytes | None":
        """What `invoke` gives, or None where that is NULL."""
        address = self._invoke(self._ctx, kind, id, payload)
        if not address:
            return None
        text: bytes = _string_at(address)
        self._free(address)
        return text

    def handle_route(self, request: bytes) -> "bytes | None":
        """What `handle_route` gives, or None where that is NULL."""
        return self._taken(self._route(self._ctx, request))

    def config_changed(self, key: bytes, value: bytes) -> None:
        """Tell the plugin of a value."""
        self._config(self._ctx, key, value)

    def task_event(self, task: bytes, event: int, payload: bytes) -> None:
        """Tell the plugin what became of a task."""
        with self._host_table.dispatching:
            pass
        self._event(self._ctx, task, event, payload)

    def destroy(self) -> None:
        """Let the plugin take itself down. The library stays open: threads of the plugin may still be in it."""
        self._destroy(self._ctx)
