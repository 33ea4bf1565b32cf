"""A plugin in Python with the calls that a plugin's library has: `plugin.py` is run, and what it made is called.

Loaded alone in the plugin's process, so it imports little.
"""

import json
import os
import sys
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from _typeshed.importlib import PathEntryFinderProtocol

    from fairlead.plugins import native, slots
    from fairlead.plugins.sdk import Plugin
    from fairlead.plugins.sdk_host import Bound, HostError, Link, linked, packed, unlinked, unpacked
    from fairlead.plugins.sdk_schema import ADDED, plain
elif __name__ == "sdk_library":
    import native
    import slots
    from sdk_host import Bound, HostError, Link, linked, packed, unlinked, unpacked
    from sdk_schema import ADDED, plain
else:
    from fairlead.plugins import native, slots
    from fairlead.plugins.sdk_host import Bound, HostError, Link, linked, packed, unlinked, unpacked
    from fairlead.plugins.sdk_schema import ADDED, plain

#: The key by which the host finds tables that do not match; there is none here, so nobody is told.
PROBE = "__osaurus_abi_probe__"
_KEYWORDS = 0x08
#: The folders beside whose modules no bytecode is kept.
_UNKEPT: "set[str]" = set()
#: Held while a plugin's file is run: Python looks for modules in one list of folders, whichever thread asks.
_RUNNING = RLock()


class ToolError(Exception):
    """How a tool fails: words for the model, and what kind of failure it is."""

    def __init__(
        self,
        message: str,
        *,
        kind: str = "execution_error",
        retryable: "bool | None" = None,
        field: "str | None" = None,
    ) -> None:
        super().__init__(message)
        self.envelope = {"ok": False, "kind": kind, "message": message}
        if retryable is None:
            retryable = kind in ("invalid_args", "timeout", "execution_error", "unavailable")
        self.envelope["retryable"] = retryable
        if field is not None:
            self.envelope["field"] = field


class BadRequest(Exception):
    """A request that makes no sense; it is answered with 400 and these words."""


class Request:
    """An HTTP request to one of the plugin's routes."""

    def __init__(self, told: "Mapping[str, Any]") -> None:
        self.route: str = told.get("route_id", "")
        self.method: str = told.get("method", "")
        self.path: str = told.get("path", "")
        self.query: dict[str, str] = told.get("query") or {}
        self.params: dict[str, str] = told.get("path_params") or {}
        self.headers: dict[str, str] = told.get("headers") or {}
        self.body = unpacked(told)
        #: Where the host and the plugin are reached: `base_url`, `plugin_url`, `agent_address`.
        self.host: dict[str, Any] = told.get("osaurus") or {}

    @property
    def text(self) -> str:
        """The body as words."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> "Any":
        """The body as JSON. Raises BadRequest, which is answered with 400."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise BadRequest("The body is not JSON.") from None


class Response:
    """An answer: JSON for an object or list, else a text or bytes."""

    def __init__(
        self, body: "Any" = None, status: int = 200, headers: "Mapping[str, str] | None" = None
    ) -> None:
        self.body = body
        self.status = status
        self.headers = dict(headers or {})

    def told(self) -> "dict[str, Any]":
        """As the host reads it."""
        body, kind = self.body, "application/octet-stream"
        if isinstance(body, str):
            kind = "text/plain; charset=utf-8"
        elif not isinstance(body, bytes | None):
            body, kind = json.dumps(body, ensure_ascii=False, allow_nan=False), "application/json"
        told: dict[str, Any] = {"status": self.status, "headers": self.headers}
        if body is None:
            return told
        if not any(name.lower() == "content-type" for name in self.headers):
            told["headers"] = {"Content-Type": kind, **self.headers}
        return told | packed(body)


class TaskEvent:
    """What became of a task: `name` is started, activity, ..., `data` what the host says of it."""

    def __init__(self, task: str, number: int, data: "dict[str, Any]") -> None:
        self.task = task
        self.number = number
        self.name = slots.TASK_EVENTS[number].lower() if 0 <= number < len(slots.TASK_EVENTS) else str(number)
        self.data = data


def _import_unkept(folder: str) -> None:
    """Have no bytecode kept beside what is imported from a plugin's folder, whenever it is imported.

    A plugin's folder stays as it was installed, or it is not loaded again. The setting of `sys` that says the same
    would hold for the whole program, and only as long as it is set.
    """
    if not _UNKEPT:
        sys.path_hooks.insert(0, _hook())
    if folder not in _UNKEPT:
        _UNKEPT.add(folder)
        sys.path_importer_cache.pop(folder, None)


def _forget_namesakes(folder: str) -> None:
    """Let a plugin import its own modules where another in this process, or a version before, has some of the names."""
    own, others = {each.partition(".")[0] for each in os.listdir(folder)}, _UNKEPT - {folder}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in own and _is_within(getattr(module, "__file__", None) or "", others):
            del sys.modules[name]


def _is_within(path: str, folders: "set[str]") -> bool:
    return any(path == each or path.startswith(each + os.sep) for each in tuple(folders))


def _hook() -> "Callable[[str], PathEntryFinderProtocol]":
    """How Python is to find modules in plugins' folders."""
    from importlib import machinery

    class Unkept(machinery.SourceFileLoader):
        def set_data(self, path: str, data: object, *, _mode: int = 0) -> None:
            """Nothing is written."""

    found = machinery.FileFinder.path_hook(
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (Unkept, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )

    def finder(path: str) -> "PathEntryFinderProtocol":
        if not _is_within(path, _UNKEPT):
            raise ImportError("no plugin's folder", path=path)
        return found(path)

    return finder


class Library:
    """The plugin in a `plugin.py`; `load` runs it."""

    def __init__(self, path: str, plugin_class: "type[Plugin]") -> None:
        self.abi = slots.ABI_VERSION
        self.routes = self.config = self.events = False
        self._path = path
        self._class = plugin_class
        self._plugin: Plugin

    def load(self, asked: "native.Host") -> bytes:
        """Run the file and give its manifest. Raises `LoadError`."""
        self._link = link = Link(asked)
        host = linked(link)
        try:
            with Bound(link):
                self._plugin = plugin = self._made()
                plugin.host = host
                for handler in plugin.on_start_handlers:
                    handler()
                manifest = plugin.manifest_json().encode()
        except native.LoadError:
            unlinked(link)
            raise
        except BaseException as exc:
            unlinked(link)
            raise native.LoadError(self._trouble(exc)) from exc
        self.routes = bool(plugin.routes)
        self.config = bool(plugin.on_config_handlers)
        self.events = bool(plugin.on_task_handlers)
        return manifest

    def _made(self) -> "Plugin":
        folder, name = os.path.split(os.path.abspath(self._path))
        with open(self._path, "rb") as file:
            code = compile(file.read(), self._path, "exec", dont_inherit=True)
        module = type(sys)(f"fairlead_plugin_{os.path.basename(folder)}")
        module.__file__ = self._path
        with _RUNNING:
            # Other files of the plugin are found beside it.
            _import_unkept(folder)
            _forget_namesakes(folder)
            sys.path.insert(0, folder)
            try:
                exec(code, module.__dict__)  # noqa: S102  # this is what loading a plugin is
            finally:
                sys.path.remove(folder)
        made = [each for each in module.__dict__.values() if isinstance(each, self._class)]
        if len(made) != 1:
            found = "no Plugin" if not made else f"{len(made)} of them"
            raise native.LoadError(
                f'{name} has to make one Plugin, and makes {found}: plugin = Plugin("my.id")'
            )
        return made[0]

    def _trouble(self, exc: BaseException) -> str:
        """What is wrong with the file, and where."""
        where, at = exc.__traceback__, 0
        while where is not None:
            if where.tb_frame.f_code.co_filename == self._path:
                at = where.tb_lineno
            where = where.tb_next
        line = exc.lineno if isinstance(exc, SyntaxError) else at
        place = f" in line {line}" if line else ""
        return f"{os.path.basename(self._path)} fails{place}: {type(exc).__name__}: {exc}"

    # --- calls ---

    def invoke(self, kind: bytes, id: bytes, payload: bytes) -> bytes:
        """What a tool says, as an envelope."""
        with Bound(self._link):
            try:
                return _json(self._invoked(kind.decode(), id.decode(), payload))
            except ToolError as error:
                return _json(error.envelope)
            except HostError as error:
                return _json(ToolError(f"{error.code}: {error.message}").envelope)
            except BaseException as exc:  # also sys.exit(): the thread is the host's, and is waited for
                self._report(f"{id.decode('utf-8', 'replace')} failed", exc)
                return _json(ToolError(f"{type(exc).__name__}: {exc}").envelope)

    def _invoked(self, kind: str, id: str, payload: bytes) -> "dict[str, Any]":
        if kind == "artifact":
            for handler in self._plugin.on_artifact_handlers:
                handler(json.loads(payload))
            return {"ok": True, "result": None}
        if kind != "tool" or id not in self._plugin.tools:
            raise ToolError(f"There is no {kind} {id!r}.", kind="tool_not_found")
        function = self._plugin.tools[id][1]
        return {"ok": True, "result": function(**self._arguments(id, function, payload))}

    def _arguments(self, id: str, function: "Callable[..., Any]", payload: bytes) -> "dict[str, Any]":
        try:
            given = json.loads(payload or b"{}")
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            raise ToolError(f"The arguments of {id!r} are no JSON object.", kind="invalid_args")
        function = plain(function)
        code = function.__code__
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if not code.co_flags & _KEYWORDS:
            for name in [name for name in ADDED if name not in known]:
                given.pop(name, None)
            for name in given:
                if name not in known:
                    raise ToolError(f"{id!r} has no parameter {name!r}.", kind="invalid_args", field=name)
        for name in ADDED:
            if name in known:
                given.setdefault(name, {})
        lacking = [name for name in known if name not in given and name not in _defaults(function)]
        if lacking:
            raise ToolError(f"{id!r} needs {lacking[0]!r}.", kind="invalid_args", field=lacking[0])
        return given

    def handle_route(self, request: bytes) -> bytes:
        """What a route answers."""
        with Bound(self._link):
            try:
                asked = Request(_object(request))
                found = self._plugin.routes.get(asked.route)
                answer = found[1](asked) if found else _refusal("There is no such route.", 404)
                return _json(_response(answer).told())
            except BadRequest as exc:
                return _json(_refusal(str(exc), 400).told())
            except BaseException as exc:
                # What went wrong is for the plugin's log: who asks may be anybody.
                self._report("a route failed", exc)
                return _json(_refusal("The plugin failed to answer. Its log says why.", 500).told())

    def config_changed(self, key: bytes, value: bytes) -> None:
        """Tell those who listen of a value."""
        name = key.decode()
        if name == PROBE:
            return
        for keys, handler in self._plugin.on_config_handlers:
            if not keys or name in keys:
                self._tell(f"on_config of {name!r} failed", handler, name, value.decode("utf-8", "replace"))

    def task_event(self, task: bytes, event: int, payload: bytes) -> None:
        """Tell those who listen what became of a task."""
        with self._link.dispatching:
            pass
        told = TaskEvent(task.decode(), event, _object(payload))
        for names, handler in self._plugin.on_task_handlers:
            if not names or told.name in names:
                self._tell(f"on_task of {told.name!r} failed", handler, told)

    def destroy(self) -> None:
        """Let the plugin take itself down."""
        for handler in self._plugin.on_stop_handlers:
            self._tell("on_stop failed", handler)
        unlinked(self._link)

    def _tell(self, what: str, handler: "Callable[..., object]", *args: object) -> None:
        with Bound(self._link):
            try:
                handler(*args)
            except BaseException as exc:
                self._report(what, exc)

    def _report(self, what: str, exc: BaseException) -> None:
        self._plugin.host.log(f"{what}: {self._trouble(exc)}", "error")


def _defaults(function: "Callable[..., Any]") -> "set[str]":
    code = function.__code__
    count = len(function.__defaults__ or ())
    named = code.co_varnames[code.co_argcount - count : code.co_argcount]
    return {*named, *(function.__kwdefaults__ or ())}


def _object(payload: bytes) -> "dict[str, Any]":
    try:
        told = json.loads(payload)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _refusal(why: str, status: int) -> Response:
    return Response({"error": {"message": why}}, status)


def _response(answer: "Any") -> Response:
    if answer is None:
        return Response(status=204)
    return answer if isinstance(answer, Response) else Response(answer)


def _json(told: "dict[str, Any]") -> bytes:
    return json.dumps(told, ensure_ascii=False, default=str, allow_nan=False).encode("utf-8", "replace")
