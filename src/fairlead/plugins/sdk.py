"""Write a plugin in Python: a folder with a `plugin.py` that makes one `Plugin`, against the contract that C has.

    from fairlead.plugins.sdk import Plugin, host

    plugin = Plugin("acme.hello", version="1.0.0")

    @plugin.tool
    def hello(name: str) -> str:
        "Greet someone."
        return f"Hello, {name}."

It runs in a process of its own, in the same fence, over the same lanes. The standard library is there, other packages
are not. This file is loaded alone in that process, so it imports little.
"""

import json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeVar, overload

    from fairlead.plugins import native, slots
    from fairlead.plugins.sdk_host import Changed, Completion, Host, HostError, HttpAnswer, host
    from fairlead.plugins.sdk_library import BadRequest, Library, Request, Response, TaskEvent, ToolError
    from fairlead.plugins.sdk_schema import parameters_of, plain

    F = TypeVar("F", bound=Callable[..., Any])
elif __name__ == "sdk":
    import slots
    from sdk_host import Changed, Completion, Host, HostError, HttpAnswer, host
    from sdk_library import BadRequest, Library, Request, Response, TaskEvent, ToolError
    from sdk_schema import parameters_of, plain
else:
    from fairlead.plugins import slots
    from fairlead.plugins.sdk_host import Changed, Completion, Host, HostError, HttpAnswer, host
    from fairlead.plugins.sdk_library import BadRequest, Library, Request, Response, TaskEvent, ToolError
    from fairlead.plugins.sdk_schema import parameters_of, plain

__all__ = [
    "BadRequest",
    "Changed",
    "Completion",
    "Host",
    "HostError",
    "HttpAnswer",
    "Plugin",
    "Request",
    "Response",
    "TaskEvent",
    "ToolError",
    "host",
]

_EVENTS = tuple(name.lower() for name in slots.TASK_EVENTS)


class Plugin:
    """What a plugin offers. Make one, at the top of `plugin.py`; its manifest comes of what is added to it."""

    def __init__(
        self,
        id: str,
        *,
        version: "str | None" = None,
        name: "str | None" = None,
        description: "str | None" = None,
        license: "str | None" = None,
        authors: "Sequence[str]" = (),
        instructions: "str | None" = None,
        min_osaurus: "str | None" = None,
    ) -> None:
        about: dict[str, Any] = {
            "name": name,
            "version": version,
            "description": description,
            "license": license,
        }
        about |= {"instructions": instructions, "min_osaurus": min_osaurus}
        self.about: dict[str, Any] = {"plugin_id": id} | {
            key: value for key, value in about.items() if value is not None
        }
        if authors:
            self.about["authors"] = list(authors)
        self.tools: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {}
        self.routes: dict[str, tuple[dict[str, Any], Callable[[Request], Any]]] = {}
        self.on_config_handlers: list[tuple[frozenset[str], Callable[[str, str], object]]] = []
        self.on_task_handlers: list[tuple[frozenset[str], Callable[[TaskEvent], object]]] = []
        self.on_artifact_handlers: list[Callable[[dict[str, Any]], object]] = []
        self.on_start_handlers: list[Callable[[], object]] = []
        self.on_stop_handlers: list[Callable[[], object]] = []
        self._sections: dict[str, list[dict[str, Any]]] = {}
        self._secrets: list[dict[str, Any]] = []
        self._web: dict[str, Any] | None = None
        #: The host of this plugin, and of no other that the same program may have loaded.
        self.host = host

    # --- what it offers ---

    if TYPE_CHECKING:

        @overload
        def tool(self, function: F, /) -> F: ...

        @overload
        def tool(
            self,
            /,
            *,
            id: str | None = None,
            description: str | None = None,
            parameters: Mapping[str, Any] | None = None,
            policy: str = "ask",
            requirements: Sequence[str] = (),
        ) -> Callable[[F], F]: ...

    def tool(
        self,
        function: "Any" = None,
        /,
        *,
        id: "str | None" = None,
        description: "str | None" = None,
        parameters: "Mapping[str, Any] | None" = None,
        policy: str = "ask",
        requirements: "Sequence[str]" = (),
    ) -> "Any":
        """Offer a function to models. Its parameters are those of the function, unless a JSON Schema says them.

        What it returns is the result; `ToolError` is how it fails. A parameter `_secrets` or `_context` is given what
        the host adds.
        """

        def offer(function: "F") -> "F":
            name = id or function.__name__
            words = description or (function.__doc__ or "").strip().partition("\n\n")[0]
            if not words:
                raise ValueError(f"The tool {name!r} has no description: give one, or write a docstring.")
            plain(function)
            if name in self.tools:
                raise ValueError(f"There are two tools {name!r}.")
            about: dict[str, Any] = {
                "id": name,
                "description": " ".join(words.split()),
                "parameters": dict(parameters) if parameters is not None else parameters_of(function),
                "permission_policy": _one_of("policy", policy, ("auto", "ask", "deny")),
            }
            if requirements:
                about["requirements"] = list(requirements)
            self.tools[name] = about, function
            return function

        return offer if function is None else offer(function)

    def route(
        self,
        path: str,
        methods: "Iterable[str]" = ("GET",),
        *,
        auth: str = "owner",
        id: "str | None" = None,
        description: "str | None" = None,
        tunnel: bool = False,
    ) -> "Callable[[F], F]":
        """Answer HTTP requests at `/plugins/<plugin id><path>`; the function is given a `Request`.

        It returns a `Response`, or an object or list (JSON), a text, bytes, or None (204).
        """

        def serve(function: "F") -> "F":
            name = id or function.__name__
            plain(function)
            if name in self.routes:
                raise ValueError(f"There are two routes {name!r}.")
            about: dict[str, Any] = {
                "id": name,
                "path": path,
                "methods": [each.upper() for each in methods],
                "auth": _one_of("auth", auth, ("none", "verify", "owner")),
            }
            words = description or (function.__doc__ or "").strip().partition("\n\n")[0]
            if words:
                about["description"] = " ".join(words.split())
            if tunnel:
                about["tunnel_exposed"] = True
            self.routes[name] = about, function
            return function

        return serve

    def web(
        self,
        folder: str = "web",
        *,
        mount: str = "/ui",
        entry: str = "index.html",
        auth: str = "owner",
        tunnel: bool = False,
    ) -> None:
        """Serve the files of a folder as they are."""
        self._web = {"static_dir": folder, "entry": entry, "mount": mount}
        self._web["auth"] = _one_of("auth", auth, ("none", "verify", "owner"))
        if tunnel:
            self._web["tunnel_exposed"] = True

    def setting(
        self,
        key: str,
        type: str = "text",
        *,
        label: "str | None" = None,
        section: str = "Settings",
        default: "Any" = None,
        options: "Sequence[str] | Mapping[str, str]" = (),
        **more: "Any",
    ) -> None:
        """Declare a value that a person sets for each agent; `options` are the choices of a select."""
        kinds = ("text", "secret", "toggle", "select", "multiselect", "number", "readonly", "status")
        field = {"key": key, "type": _one_of("type", type, kinds), "label": label or key, **more}
        if default is not None:
            field["default"] = default
        if options:
            pairs = options.items() if hasattr(options, "items") else ((each, each) for each in options)
            field["options"] = [{"value": value, "label": words} for value, words in pairs]
        self._sections.setdefault(section, []).append(field)

    def secret(
        self,
        id: str,
        label: str,
        *,
        required: bool = True,
        description: "str | None" = None,
        url: "str | None" = None,
    ) -> None:
        """Declare a secret that a person has to give."""
        entry = {"id": id, "label": label, "required": required, "description": description, "url": url}
        self._secrets.append({name: value for name, value in entry.items() if value is not None})

    # --- what it is told ---

    def on_config(self, *keys: str) -> "Callable[[F], F]":
        """Have a function told of values, as (key, value): of these keys, or of all."""

        def listen(function: "F") -> "F":
            self.on_config_handlers.append((frozenset(keys), function))
            return function

        return listen

    def on_task(self, *names: str) -> "Callable[[F], F]":
        """Have a function told what becomes of dispatched tasks, as a `TaskEvent`: of these events, or of all."""
        wanted = frozenset(_one_of("event", each, _EVENTS) for each in names)

        def listen(function: "F") -> "F":
            self.on_task_handlers.append((wanted, function))
            return function

        return listen

    def on_artifact(self, function: "F") -> "F":
        """Have a function told of each file that an agent shares."""
        self.on_artifact_handlers.append(function)
        return function

    def on_start(self, function: "F") -> "F":
        """Run a function when the plugin is loaded; no agent is bound then."""
        self.on_start_handlers.append(function)
        return function

    def on_stop(self, function: "F") -> "F":
        """Run a function before the plugin ends."""
        self.on_stop_handlers.append(function)
        return function

    # --- what it says of itself ---

    @property
    def manifest(self) -> "dict[str, Any]":
        """The manifest."""
        offers: dict[str, Any] = {}
        if self.tools:
            offers["tools"] = [about for about, _function in self.tools.values()]
        if self.routes:
            offers["routes"] = [about for about, _function in self.routes.values()]
        if self._sections:
            sections = [{"title": title, "fields": fields} for title, fields in self._sections.items()]
            offers["config"] = {"sections": sections}
        if self._web is not None:
            offers["web"] = self._web
        if self.on_artifact_handlers:
            offers["artifact_handler"] = True
        return self.about | ({"secrets": self._secrets} if self._secrets else {}) | {"capabilities": offers}

    def manifest_json(self) -> str:
        """The manifest as the host reads it."""
        return json.dumps(self.manifest, ensure_ascii=False)


def _one_of(what: str, value: str, known: "Sequence[str]") -> str:
    if value not in known:
        raise ValueError(f"{value!r} is no {what}; there are: {', '.join(known)}.")
    return value


def opened(path: str) -> "native.Library":
    """The plugin in a `plugin.py`, with the calls that a library has."""
    if __name__ == "sdk":
        _stand_for_the_package()
    return Library(path, Plugin)  # type: ignore[return-value]  # it has the same calls


def _stand_for_the_package() -> None:
    """In the plugin's process there is no package `fairlead`; what a plugin imports of it is this file."""
    module = type(sys)
    for name in ("fairlead", "fairlead.plugins"):
        sys.modules.setdefault(name, module(name)).__path__ = []
    sys.modules["fairlead.plugins.sdk"] = sys.modules[__name__]
