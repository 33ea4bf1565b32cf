"""The host as a plugin in Python sees it: one method for each thing that it can be asked.

Loaded alone in the plugin's process, so it imports little. It may be called from any thread of the plugin.
"""

import base64
import json
from _thread import _local, allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from fairlead.plugins import native, slots
elif __name__ == "sdk_host":
    import slots
else:
    from fairlead.plugins import slots

#: The links to hosts of the plugins that are loaded here, and the one of the call that a thread is in.
_links: "list[Link]" = []
_now = _local()


class Link:
    """The way to the host of one plugin."""

    def __init__(self, host: "native.Host") -> None:
        self.ask, self.note, self.stream, self.agent = host.ask, host.note, host.stream, host.agent
        #: Held while a task is dispatched: its events come after the plugin knows its id.
        self.dispatching = allocate_lock()


class HostError(Exception):
    """The host says no: `code` is for programs, the text for people, and `data` has all that was said."""

    def __init__(self, code: str, message: str, data: "Mapping[str, Any] | None" = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = dict(data or {})


class Completion(dict):  # type: ignore[type-arg]  # what `dict[str, Any]` would need is not imported here
    """What a model answered, as the host gave it."""

    @property
    def text(self) -> str:
        """The words of the first choice."""
        return str(self["choices"][0]["message"].get("content") or "")


class HttpAnswer:
    """What another server answered."""

    def __init__(self, told: "Mapping[str, Any]") -> None:
        self.status: int = told["status"]
        self.headers: dict[str, str] = dict(told.get("headers") or {})
        self.body = unpacked(told)

    @property
    def text(self) -> str:
        """The body as words."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> "Any":
        """The body as JSON. Raises ValueError."""
        return json.loads(self.body)


class Changed:
    """What a statement did."""

    def __init__(self, told: "Mapping[str, Any]") -> None:
        self.changes: int = told["changes"]
        self.last_insert_rowid: int = told["last_insert_rowid"]


class Host:
    """What a plugin can ask. Each method may raise `HostError`."""

    def __init__(self, link: "Link | None" = None) -> None:
        self._own = link
        self.config = Config(self)
        self.db = Database(self)

    @property
    def agent(self) -> "str | None":
        """The agent on whose behalf this thread was called; None on threads of your own."""
        found = self._link().agent()
        return None if found is None else found.decode()

    def log(self, message: str, level: str = "info", **fields: "Any") -> None:
        """Write a line into Insights: trace, debug, info, warn or error, with fields to search by."""
        number = str(slots.LOG_LEVELS.index(level.upper()))
        if fields:
            self._note(slots.LOG_STRUCTURED, number, message, json.dumps(fields, default=str))
        else:
            self._note(slots.LOG, number, message)

    # --- models ---

    def complete(self, messages: "str | Sequence[Mapping[str, Any]]", **options: "Any") -> Completion:
        """Have a model answer, with the agent's tools where `tools=True`."""
        return Completion(self.told(slots.COMPLETE, json.dumps(_request(messages, options))))

    def complete_stream(
        self,
        messages: "str | Sequence[Mapping[str, Any]]",
        on_chunk: "Callable[[dict[str, Any]], object] | None" = None,
        **options: "Any",
    ) -> Completion:
        """The same, piece by piece: `on_chunk` is given each as it comes, on this thread."""
        failed: list[BaseException] = []

        def take(piece: bytes) -> None:
            if failed or on_chunk is None:
                return
            try:
                on_chunk(json.loads(piece))
            except BaseException as exc:
                failed.append(exc)
                if "stream_id" in options:
                    self.complete_cancel(options["stream_id"])

        request = json.dumps(_request(messages, options)).encode()
        answer = self._link().stream(request, None if on_chunk is None else take)
        if failed:
            raise failed[0]
        return Completion(_checked(answer))

    def complete_cancel(self, stream_id: str) -> None:
        """Stop the stream that was begun with this `stream_id`; does not wait."""
        self._note(slots.COMPLETE_CANCEL, stream_id)

    def embed(self, input: "str | Sequence[str]", model: "str | None" = None) -> "list[list[float]]":
        """One vector for each text."""
        request = {"input": input if isinstance(input, str) else list(input)}
        data = self.told(slots.EMBED, json.dumps(request | ({"model": model} if model else {})))["data"]
        return [each["embedding"] for each in data]

    def models(self) -> "list[dict[str, Any]]":
        """The models that there are."""
        found: list[dict[str, Any]] = self.told(slots.LIST_MODELS)["models"]
        return found

    # --- tasks ---

    def dispatch(
        self,
        prompt: str,
        *,
        title: "str | None" = None,
        session_id: "str | None" = None,
        tools: "Sequence[str]" = (),
        id: "str | None" = None,
    ) -> str:
        """Have the calling agent work in the background; gives the task's id. `tools` are those it must have."""
        request: dict[str, Any] = {"prompt": prompt, "title": title, "session_id": session_id, "id": id}
        request = {name: value for name, value in request.items() if value is not None}
        if tools:
            request["tools"] = list(tools)
        with self._link().dispatching:
            return str(self.told(slots.DISPATCH, json.dumps(request))["id"])

    def task(self, task: str) -> "dict[str, Any]":
        """How a task of this plugin is doing."""
        return self.told(slots.TASK_STATUS, task)

    def tasks(self) -> "list[dict[str, Any]]":
        """The tasks of this plugin that are not over."""
        found: list[dict[str, Any]] = self.told(slots.LIST_ACTIVE_TASKS)["tasks"]
        return found

    def cancel(self, task: str) -> None:
        """End a task."""
        self.ask(slots.DISPATCH_CANCEL, task)

    def interrupt(self, task: str, message: "str | None" = None) -> None:
        """Stop what a task does now; with a message, that is the next thing the agent reads."""
        self.ask(slots.DISPATCH_INTERRUPT, task, message)

    def draft(self, task: str, text: str, **more: "Any") -> None:
        """Show how far a task's text has come."""
        self.ask(slots.SEND_DRAFT, task, json.dumps({"text": text, **more}))

    # --- the outside ---

    def http(
        self,
        method: str,
        url: str,
        *,
        headers: "Mapping[str, str] | None" = None,
        body: "str | bytes | None" = None,
        json_body: "Any" = None,
        timeout: float = 30.0,
        follow_redirects: bool = True,
    ) -> HttpAnswer:
        """Ask another server, past the host's guard against private addresses."""
        request: dict[str, Any] = {
            "method": method,
            "url": url,
            "headers": dict(headers or {}),
            "timeout_ms": int(timeout * 1000),
            "follow_redirects": follow_redirects,
        }
        if json_body is not None:
            request["headers"].setdefault("Content-Type", "application/json")
            body = json.dumps(json_body)
        if body is not None:
            request.update(packed(body))
        return HttpAnswer(self.told(slots.HTTP_REQUEST, json.dumps(request)))

    def read_file(self, path: str) -> bytes:
        """An artifact's bytes, by the path that the host told."""
        return base64.b64decode(self.told(slots.FILE_READ, json.dumps({"path": path}))["data"])

    # --- the slots as they are ---

    def ask(self, slot: "int | str", *args: "str | None") -> "str | None":
        """The bare answer of a slot, by its name or number; None is NULL."""
        if isinstance(slot, str):
            slot = slots.BY_NAME[slot].number
        sent = tuple(None if each is None else each.encode("utf-8", "replace") for each in args)
        answer = self._link().ask(slot, sent)
        return None if answer is None else answer.decode("utf-8", "replace")

    def told(self, slot: "int | str", *args: "str | None") -> "dict[str, Any]":
        """The answer of a slot as an object. Raises HostError where it is an error."""
        return _checked(self.ask(slot, *args))

    def _note(self, slot: int, *args: str) -> None:
        self._link().note(slot, tuple(each.encode("utf-8", "replace") for each in args))

    def _link(self) -> Link:
        found: Link | None = self._own or getattr(_now, "link", None)
        if found is None and len(_links) == 1:
            return _links[0]
        if found is None:
            raise HostError(
                "context_unavailable",
                "There is no host on this thread. It is there once the plugin is loaded; a program that loads several "
                "has to say which: use `plugin.host` instead of `host`.",
            )
        return found


class Config:
    """Values of (this plugin, the calling agent): there are none where no agent calls."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def get(self, key: str, default: "str | None" = None) -> "str | None":
        """The value, or the default where there is none."""
        found = self._host.ask(slots.CONFIG_GET, key)
        return default if found is None else found

    def set(self, key: str, value: str) -> None:
        """Keep a value of at most 1 MiB."""
        self._host.ask(slots.CONFIG_SET, key, value)

    def delete(self, key: str) -> None:
        """Forget a value."""
        self._host.ask(slots.CONFIG_DELETE, key)


class Database:
    """The plugin's own database. Parameters are for `?`, or by name for `:name`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def exec(self, sql: str, *params: "Any", **named: "Any") -> Changed:
        """Run one statement."""
        return Changed(self._host.told(slots.DB_EXEC, sql, _params(params, named)))

    def query(self, sql: str, *params: "Any", **named: "Any") -> "list[dict[str, Any]]":
        """The rows of a SELECT."""
        rows: list[dict[str, Any]] = self._host.told(slots.DB_QUERY, sql, _params(params, named))["rows"]
        return rows


class Bound:
    """While a thread is in a call of one plugin, `host` is that plugin's."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __enter__(self) -> None:
        self._before = getattr(_now, "link", None)
        _now.link = self._link

    def __exit__(self, *_exc: object) -> None:
        _now.link = self._before


def linked(link: Link) -> Host:
    """The host behind a link; `host` means it, too, where it is the only one."""
    _links.append(link)
    return Host(link)


def unlinked(link: Link) -> None:
    """Forget a link."""
    if link in _links:
        _links.remove(link)


def packed(body: "str | bytes") -> "dict[str, str]":
    """A body as JSON carries it."""
    if isinstance(body, str):
        return {"body": body, "body_encoding": "utf8"}
    try:
        return {"body": body.decode("utf-8"), "body_encoding": "utf8"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}


def unpacked(told: "Mapping[str, Any]") -> bytes:
    """The bytes of a body that JSON carried."""
    body = str(told.get("body") or "")
    return base64.b64decode(body) if told.get("body_encoding") == "base64" else body.encode()


def _request(messages: "str | Sequence[Mapping[str, Any]]", options: "dict[str, Any]") -> "dict[str, Any]":
    said = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
    return {"model": "", **options, "messages": said}


def _params(params: "tuple[Any, ...]", named: "dict[str, Any]") -> "str | None":
    if params and named:
        raise ValueError("Give the parameters of a statement in order or by name, not both.")
    if named:
        return json.dumps({f":{name}": value for name, value in named.items()})
    return json.dumps(params) if params else None


def _checked(answer: "str | bytes | None") -> "dict[str, Any]":
    told = json.loads(answer) if answer is not None else None
    if not isinstance(told, dict):
        raise HostError("invalid_response", f"The host gave no object: {str(answer)[:200]}")
    if isinstance(told.get("error"), str):
        raise HostError(told["error"], str(told.get("message") or told["error"]), told)
    return told


#: The host of the plugin that is being called.
host = Host()
