"""The HTTP surface as an OpenAPI 3.1 document: every action that is shown, as an operation of its own.

It describes what the routes do and runs nothing. The same app gives the same document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead._json import encode, loads
from fairlead.actions import Action, Exposure
from fairlead.runtime import Runtime
from fairlead.surfaces.auth.resolve import Resolver
from fairlead.surfaces.http.openapi_components import Components
from fairlead.surfaces.http.openapi_failures import failure_references, failure_responses
from fairlead.surfaces.http.openapi_shared import (
    CALL_MEMBERS,
    CALL_OF_A_BATCH,
    HEADERS,
    PARAMETERS,
    SCHEMAS,
    SERVER_SENT_EVENT,
    narrowed,
    ref,
)

VERSION = "3.1.0"
SURFACE = "http"

_TAGS = {
    "read": "Actions that only look.",
    "write": "Actions that change something.",
    "destructive": "Actions that destroy something; they ask to be confirmed.",
    "discovery": "What can be called, and many calls at once.",
    "health": "How the server is.",
}
_DOC_TITLES = {
    "when_to_use": "When to use it",
    "when_not_to_use": "When not to use it",
    "usage_notes": "Notes",
}
_JSON = "application/json"

Document = dict[str, Any]


def openapi_document(
    app: Runtime,
    *,
    exposure: Exposure | None = None,
    base: str = "/fairlead",
    security: Resolver | Iterable[Resolver] = (),
    servers: Sequence[str] = ("/",),
    metrics: bool = True,
) -> Document:
    """The document for an app, or for a bare runtime.

    `security` takes the resolvers that the server asks, whose `security_schemes` are told; `base` is the path
    of the actions, `servers` are the URLs that paths are relative to, and without `metrics` there are none.
    """
    document = _Writer(app, base, security).document(app.list_actions(SURFACE, exposure), servers)
    if not metrics:
        del document["paths"]["/metrics"]
    return document


class _Writer:
    """Writes one document."""

    def __init__(self, app: Runtime, base: str, security: Resolver | Iterable[Resolver]) -> None:
        self._app = app
        self._base = base
        resolvers = (security,) if callable(security) else tuple(security)
        self._schemes = _schemes(resolvers)
        self._required = any(getattr(resolver, "required", False) for resolver in resolvers)
        self._components = Components(SCHEMAS)
        self._bodies: dict[str, Any] = {}
        self._responses = failure_responses()
        self._failures = failure_references(self._responses)

    def document(self, actions: list[Action[..., Any]], servers: Sequence[str]) -> Document:
        paths = {**self._discovery(), **self._calls(actions), **self._health()}
        components: dict[str, Any] = {
            "schemas": self._components.schemas,
            "requestBodies": self._bodies,
            "responses": self._responses,
            "parameters": PARAMETERS,
            "headers": HEADERS,
        }
        if self._schemes:
            components["securitySchemes"] = self._schemes
        used = {tag for path in paths.values() for operation in path.values() for tag in operation["tags"]}
        document = {
            "openapi": VERSION,
            "info": _info(self._app),
            **_external(self._app),
            "servers": [{"url": url} for url in servers],
            "tags": [{"name": name, "description": _TAGS[name]} for name in _TAGS if name in used],
            "paths": paths,
            "components": components,
        }
        # A copy, and JSON all the way down: nobody can change an action, or the next document, through it.
        copy: Document = loads(encode(document))
        return copy

    def _discovery(self) -> dict[str, Any]:
        listed = {
            "type": "object",
            "properties": {"ok": {"const": True}, "actions": {"type": "array", "items": ref("Action")}},
            "required": ["ok", "actions"],
        }
        described = {
            "type": "object",
            "properties": {"ok": {"const": True}, "action": ref("Action")},
            "required": ["ok", "action"],
        }
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        batch = {
            "type": "object",
            "properties": {"calls": {"type": "array", "items": CALL_OF_A_BATCH}},
            "required": ["calls"],
            "additionalProperties": False,
        }
        results = {
            "type": "object",
            "properties": {"ok": {"const": True}, "results": {"type": "array", "items": ref("Envelope")}},
            "required": ["ok", "results"],
        }
        return {
            f"{self._base}/actions": {
                "get": self._look("listActions", "List the actions", "All that can be called here.", listed)
            },
            f"{self._base}/actions/{{name}}": {
                "get": self._look(
                    "describeAction",
                    "Describe an action",
                    "One action's public contract, by its name or `name@version`.",
                    described,
                    [name],
                )
            },
            f"{self._base}/batch": {
                "post": {
                    "operationId": "invokeBatch",
                    "summary": "Make many calls at once",
                    "description": "They run side by side, and are answered in their order. A call that fails "
                    "is told in its own envelope and does not stop the others.",
                    "tags": ["discovery"],
                    "parameters": [ref("X-Request-Id", "parameters")],
                    "requestBody": {"required": True, "content": {_JSON: {"schema": batch}}},
                    "responses": {
                        "200": _answer("The answers.", {_JSON: {"schema": results}}),
                        **self._failures,
                    },
                    **self._secured(()),
                }
            },
        }

    def _look(
        self, id: str, summary: str, description: str, schema: Any, parameters: Sequence[Any] = ()
    ) -> dict[str, Any]:
        answer = _answer(description, {_JSON: {"schema": schema}})
        answer["headers"]["ETag"] = ref("ETag", "headers")
        return {
            "operationId": id,
            "summary": summary,
            "description": description,
            "tags": ["discovery"],
            "parameters": [*parameters, ref("X-Request-Id", "parameters")],
            "responses": {"200": answer, **self._failures},
            **self._secured(()),
        }

    def _calls(self, actions: list[Action[..., Any]]) -> dict[str, Any]:
        paths: dict[str, Any] = {}
        for action in actions:
            input = self._components.embed(action.input.json_schema, action.name, "Input")
            self._bodies[action.name] = {
                "required": True,
                "content": {_JSON: {"schema": _body(action, input), **_examples(action)}},
            }
            output: dict[str, Any] = {"description": "Whatever the action gives."}
            if action.output is not None:
                output = self._components.embed(action.output.output_json_schema, action.name, "Output")
            path = f"{self._base}/actions/{action.name}"
            paths[f"{path}/invoke"] = {"post": self._invoke(action, output)}
            paths[f"{path}/stream"] = {"post": self._stream(action)}
        return paths

    def _invoke(self, action: Action[..., Any], output: Any) -> dict[str, Any]:
        content: dict[str, Any] = {"schema": narrowed(SCHEMAS["SuccessEnvelope"], data=output)}
        if "output_example" in action.docs:
            content["examples"] = {"example": {"value": _envelope(action, action.docs["output_example"])}}
        return {
            "operationId": f"invoke_{action.name}",
            "summary": action.title,
            **self._about(action),
            "responses": {"200": _answer("What the action gave.", {_JSON: content}), **self._failures},
        }

    def _stream(self, action: Action[..., Any]) -> dict[str, Any]:
        # Both say what one event is: a stream is a series of them.
        content = {
            "text/event-stream": {"schema": SERVER_SENT_EVENT},
            "application/x-ndjson": {"schema": ref("StreamEvent")},
        }
        answer = _answer(
            "What the action says while it runs, the result last. A call that fails before it says anything is "
            "answered by its failure, one that fails later tells so in its result.",
            content,
        )
        return {
            "operationId": f"stream_{action.name}",
            "summary": f"{action.title}, as a stream",
            **self._about(action),
            "responses": {"200": answer, **self._failures},
        }

    def _about(self, action: Action[..., Any]) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "version": action.version,
            "sideEffects": action.side_effects,
            "idempotency": action.idempotency,
            "permissions": list(action.permissions),
            "requiresConfirmation": bool(action.requires_confirmation),
        }
        if action.timeout is not None:
            facts["timeoutMs"] = round(action.timeout * 1000)
        if action.public_metadata:
            facts["publicMetadata"] = action.public_metadata
        return {
            "description": _description(action),
            "tags": [action.side_effects],
            **({"deprecated": True} if action.deprecated else {}),
            "parameters": [ref(name, "parameters") for name in PARAMETERS],
            "requestBody": ref(action.name, "requestBodies"),
            **self._secured(action.permissions),
            "x-fairlead": facts,
        }

    def _secured(self, permissions: Sequence[str]) -> dict[str, Any]:
        """Which credentials an operation takes; an empty object says that it may be called without any."""
        ways: list[dict[str, list[str]]] = [{name: []} for name in self._schemes]
        return {"security": ways if permissions or self._required or not ways else [{}, *ways]}

    def _health(self) -> dict[str, Any]:
        def plain(id: str, summary: str, media: str, schema: Any, more: Mapping[str, Any]) -> dict[str, Any]:
            return {
                "operationId": id,
                "summary": summary,
                "description": f"{summary}, for monitors.",
                "tags": ["health"],
                "security": [],
                "responses": {"200": _answer(summary + ".", {media: {"schema": schema}}), **more},
            }

        state = {"type": "object", "properties": {"status": {"type": "string"}}, "additionalProperties": True}
        refused = {"503": _answer("It is not, or not any more.", {_JSON: {"schema": state}})}
        refused["405"] = self._failures["405"]
        wrong = {"405": self._failures["405"]}
        # Whoever may not list the actions may not read how often they are called.
        known = {status: self._failures[status] for status in ("401", "403", "405", "500")}
        return {
            "/healthz": {"get": plain("isAlive", "Whether the server runs", _JSON, state, wrong)},
            "/readyz": {"get": plain("isReady", "Whether the server takes calls", _JSON, state, refused)},
            "/metrics": {
                "get": plain(
                    "readMetrics", "Counts and durations of calls", "text/plain", {"type": "string"}, known
                )
                | self._secured(())
            },
        }


def _info(app: Runtime) -> dict[str, Any]:
    """An app's own words; a bare runtime has none."""
    attribution: Mapping[str, str] = getattr(app, "attribution", {})
    docs: Mapping[str, Any] = getattr(app, "docs", {})
    description = "\n\n".join(
        text for text in (getattr(app, "description", ""), attribution.get("text", "")) if text
    )
    info: dict[str, Any] = {"title": getattr(app, "name", "Actions"), "version": getattr(app, "version", "0")}
    if docs.get("summary"):
        info["summary"] = docs["summary"]
    if description:
        info["description"] = description
    contact = {"name": attribution.get("vendor") or attribution.get("product"), "url": attribution.get("url")}
    if any(contact.values()):
        info["contact"] = {key: value for key, value in contact.items() if value}
    if attribution.get("license_notice"):
        info["license"] = {"name": attribution["license_notice"]}
    return info


def _external(app: Runtime) -> dict[str, Any]:
    url = getattr(app, "attribution", {}).get("docs_url")
    return {"externalDocs": {"url": url}} if url else {}


def _schemes(resolvers: Iterable[Resolver]) -> dict[str, Any]:
    schemes: dict[str, Any] = {}
    for resolver in resolvers:
        schemes |= getattr(resolver, "security_schemes", {})
    return schemes


def _answer(description: str, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": description,
        "headers": {"X-Request-Id": ref("X-Request-Id", "headers")},
        "content": content,
    }


def _body(action: Action[..., Any], input: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": "object",
        "properties": {"input": input, **CALL_MEMBERS},
        "additionalProperties": False,
    }
    shape = action.input.json_schema
    # An input that is left out is an empty object.
    if shape.get("type") != "object" or shape.get("required"):
        body["required"] = ["input"]
    return body


def _examples(action: Action[..., Any]) -> dict[str, Any]:
    if "input_example" not in action.docs:
        return {}
    example: dict[str, Any] = {"input": action.docs["input_example"]}
    if action.requires_confirmation:
        example["confirm"] = True
    return {"examples": {"example": {"value": example}}}


def _envelope(action: Action[..., Any], data: Any) -> dict[str, Any]:
    id = "836faa8f-1bbf-4004-88f8-5efc857b3e42"
    meta = {"action": action.name, "invocationId": id, "surface": SURFACE, "durationMs": 3}
    return {"ok": True, "data": data, "artifacts": [], "logs": [], "meta": meta}


def _description(action: Action[..., Any]) -> str:
    """The action's words, in the Markdown that OpenAPI has for descriptions."""
    parts = [action.description]
    for key, title in _DOC_TITLES.items():
        if said := action.docs.get(key):
            parts.append(f"**{title}:** {said if isinstance(said, str) else '; '.join(map(str, said))}")
    if action.permissions:
        parts.append(f"**Permissions:** {', '.join(f'`{name}`' for name in action.permissions)}")
    if action.requires_confirmation:
        parts.append("**Confirmation:** send `confirm`; without it the answer is 409 and says what to send.")
    if action.deprecation is not None:
        told = [action.deprecation.message or "It is deprecated."]
        if action.deprecation.replacement:
            told.append(f"Use `{action.deprecation.replacement}` instead.")
        parts.append(f"**Deprecated:** {' '.join(told)}")
    return "\n\n".join(parts)
