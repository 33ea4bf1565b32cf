"""What every OpenAPI document of ours has in common: envelopes, events, parameters, headers."""

from __future__ import annotations

from typing import Any

from fairlead.surfaces.http.call import LONGEST_KEY

Schema = dict[str, Any]


def _object(properties: dict[str, Any], required: list[str], **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": required, **more}


def ref(name: str, kind: str = "schemas") -> Schema:
    return {"$ref": f"#/components/{kind}/{name}"}


def _list(name: str) -> Schema:
    return {"type": "array", "items": ref(name)}


_TEXT: Schema = {"type": "string"}
_FIELDS: Schema = {
    "type": "object",
    "description": "What was said beside the message.",
    "additionalProperties": True,
}
_TIME: Schema = {"type": "string", "format": "date-time"}
_LEVEL: Schema = {"enum": ["debug", "info", "warn", "error"]}
_TOLD: dict[str, Schema] = {"artifacts": _list("Artifact"), "logs": _list("Log"), "meta": ref("Meta")}
_PATH: Schema = {
    "type": "array",
    "items": {"type": ["string", "integer"]},
    "description": "Where: keys and indexes.",
}
_LONGEST_WAIT = 10**12

_ERROR: dict[str, Schema] = {
    "issues": _list("Issue"),
    "retryable": {"type": "boolean", "description": "Whether the same call, sent again, may succeed."},
    "field": {"type": "string", "description": "The input's field at fault, where there is one."},
    "expected": {"type": "string", "description": "What would have been right."},
    "details": {"type": "object", "additionalProperties": True},
    "retryAfter": {"type": "number", "description": "Seconds after which to try again."},
    "origin": _object({"family": _TEXT, "code": _TEXT}, ["family", "code"], description="Where it was born."),
}
_CODE: Schema = {"type": "string", "description": "What went wrong, in a word that programs can rely on."}

SCHEMAS: dict[str, Schema] = {
    "FailureEnvelope": _object(
        {"ok": {"const": False}, "error": ref("Error"), **_TOLD},
        ["ok", "error", "artifacts", "logs", "meta"],
        description="How a call that failed is told.",
    ),
    "SuccessEnvelope": _object(
        {"ok": {"const": True}, "data": {"description": "What the action gave."}, **_TOLD},
        ["ok", "data", "artifacts", "logs", "meta"],
        description="How a call that succeeded is told.",
    ),
    "Error": _object(
        {"code": _CODE, "message": {"type": "string", "description": "The same for people."}, **_ERROR},
        ["code", "message", "issues", "retryable"],
    ),
    "Issue": _object(
        {"path": _PATH, "code": _TEXT, "message": _TEXT, "expected": _TEXT, "received": _TEXT},
        ["path", "code", "message"],
        description="One thing wrong with the input.",
    ),
    "Artifact": _object(
        {
            "id": _TEXT,
            "type": _TEXT,
            "name": _TEXT,
            "mimeType": _TEXT,
            "uri": _TEXT,
            "sizeBytes": {"type": "integer"},
            "metadata": {"type": "object", "additionalProperties": True},
        },
        ["id", "type", "metadata"],
        description="Something that the call made.",
    ),
    "Log": _object(
        {"level": _LEVEL, "message": _TEXT, "time": _TIME, "fields": _FIELDS},
        ["level", "message", "time", "fields"],
        description="Something that the action said while it ran.",
    ),
    "Meta": _object(
        {
            "action": _TEXT,
            "invocationId": _TEXT,
            "surface": _TEXT,
            "durationMs": {"type": "integer", "minimum": 0},
            "idempotent": {
                "const": "replayed",
                "description": "The kept result of an earlier call with this key.",
            },
            "warnings": {
                "type": "array",
                "items": _TEXT,
                "description": "What was read as what, and the like.",
            },
            "chunks": {"type": "integer", "description": "How many parts the action gave."},
            "agent": _object(
                {
                    "exit": {"type": "string", "description": "Why the run ended."},
                    "iterations": {"type": "integer", "description": "How often the model was asked."},
                    "usage": _object(
                        {
                            "input": {"type": "integer"},
                            "output": {"type": "integer"},
                            "cost": {"type": "number", "description": "US dollars."},
                        },
                        ["input", "output", "cost"],
                        description="Tokens that went in and came out.",
                    ),
                    "toolCalls": {
                        "type": "array",
                        "items": _object({"name": _TEXT, "tool_call_id": _TEXT}, ["name", "tool_call_id"]),
                    },
                    "conversation": {"type": "string", "description": "The conversation to go on with."},
                },
                ["exit", "iterations", "usage", "toolCalls"],
                description="How the run of an agent went.",
            ),
        },
        ["surface", "durationMs"],
    ),
    "StreamEvent": {
        "description": "One event of a stream. The last is a result.",
        "oneOf": [
            _object(
                {
                    "type": {"const": "log"},
                    "level": _LEVEL,
                    "message": _TEXT,
                    "time": _TIME,
                    "fields": _FIELDS,
                },
                ["type", "level", "message", "time", "fields"],
            ),
            _object(
                {
                    "type": {"const": "progress"},
                    "message": {"type": ["string", "null"]},
                    "percent": {"type": ["number", "null"]},
                    "time": _TIME,
                    "fields": _FIELDS,
                },
                ["type", "message", "percent", "time", "fields"],
            ),
            _object({"type": {"const": "artifact"}, "artifact": ref("Artifact")}, ["type", "artifact"]),
            _object({"type": {"const": "chunk"}, "data": {}}, ["type", "data"]),
            _object(
                {"type": {"const": "delta"}, "data": _TEXT},
                ["type", "data"],
                description="A piece of a text that an agent is writing.",
            ),
            _object(
                {
                    "type": {"const": "activity"},
                    "kind": {
                        "type": "string",
                        "description": "What is being done, such as `tool_call`, `tool_result` or `approval`.",
                    },
                    "title": _TEXT,
                    "detail": {"type": ["string", "null"]},
                    "data": {"type": "object", "additionalProperties": True},
                    "time": _TIME,
                },
                ["type", "kind", "title", "detail", "data", "time"],
                description="Something that an agent does on the way to its result.",
            ),
            _object({"type": {"const": "result"}, "envelope": ref("Envelope")}, ["type", "envelope"]),
        ],
    },
    "Envelope": {"oneOf": [ref("SuccessEnvelope"), ref("FailureEnvelope")]},
    "Action": _object(
        {
            "name": _TEXT,
            "version": _TEXT,
            "commandName": _TEXT,
            "title": _TEXT,
            "description": _TEXT,
            "inputSchema": {"type": "object", "additionalProperties": True},
            "outputSchema": {"type": ["object", "null"], "additionalProperties": True},
            "visibility": {"enum": ["public", "local", "private"]},
            "sideEffects": {"enum": ["read", "write", "destructive"]},
            "idempotency": {"enum": ["idempotent", "non_idempotent", "conditional", "unspecified"]},
            "permissions": {"type": "array", "items": _TEXT},
            "supportedSurfaces": {"type": "array", "items": _TEXT},
            "timeoutMs": {"type": ["integer", "null"]},
            "retry": {"type": "object", "additionalProperties": True},
            "requiresConfirmation": {"type": "boolean"},
            "publicMetadata": {"type": "object", "additionalProperties": True},
            "docs": {"type": "object", "additionalProperties": True},
            "deprecated": {"type": "boolean"},
            "deprecation": {"type": ["object", "null"], "additionalProperties": True},
        },
        ["name", "version", "title", "description", "inputSchema", "sideEffects", "permissions"],
        description="An action's public contract.",
    ),
}


#: A failure as RFC 9457 has it.
PROBLEM: Schema = _object(
    {
        "type": {"type": "string", "format": "uri"},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "code": _CODE,
        **_ERROR,
        "meta": ref("Meta"),
    },
    ["type", "title", "status", "detail", "code"],
    description="A failure as RFC 9457 has it, for those who accept `application/problem+json`.",
)


def narrowed(whole: Schema, **properties: Schema) -> Schema:
    """A schema with some of its properties said more exactly."""
    return {**whole, "properties": {**whole["properties"], **properties}}


#: What the body of a call may hold besides the input.
CALL_MEMBERS: dict[str, Schema] = {
    "confirm": {
        "description": "`true`, or the confirmation that an earlier answer gave, for an action that asks for one.",
        "oneOf": [{"type": "boolean"}, {"type": "string", "minLength": 1}, {"type": "null"}],
    },
    "idempotencyKey": {
        "description": "The same as the Idempotency-Key header.",
        "type": ["string", "null"],
        "minLength": 1,
        "maxLength": LONGEST_KEY,
    },
    "metadata": {
        "description": "What the action may know about the call besides its input.",
        "type": ["object", "null"],
        "additionalProperties": True,
    },
    "timeoutMs": {
        "description": "Milliseconds for one attempt, instead of the action's own time limit.",
        "type": ["number", "null"],
        "exclusiveMinimum": 0,
        "maximum": _LONGEST_WAIT,
    },
}

CALL_OF_A_BATCH: Schema = {
    "anyOf": [
        _object(
            {
                "action": {"type": "string", "minLength": 1, "description": "Which action is called."},
                "input": {"description": "The action's input."},
                **CALL_MEMBERS,
            },
            ["action"],
        ),
        {"description": "Anything else is answered by a failure of its own."},
    ]
}

SERVER_SENT_EVENT: Schema = _object(
    {
        "event": {
            "enum": ["log", "progress", "artifact", "chunk", "delta", "activity", "result"],
            "description": "The event's type.",
        },
        "id": {"type": "string", "description": "Counts from 1."},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": ref("StreamEvent"),
        },
    },
    ["event", "id", "data"],
)

PARAMETERS: dict[str, Any] = {
    "Idempotency-Key": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A call that is repeated with the same key gives the first one's result and runs nothing.",
        "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
    },
    "X-Request-Id": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "An id of your own for this request, repeated in the answer.",
        "schema": {"type": "string"},
    },
}

HEADERS: dict[str, Any] = {
    "X-Request-Id": {"description": "The request's id: yours, or one that was made for it.", "schema": _TEXT},
    "Retry-After": {
        "description": "Seconds after which to try again, where that is known.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "WWW-Authenticate": {"description": "How to say who you are, where that would help.", "schema": _TEXT},
    "ETag": {"description": "Names this version of the document, for If-None-Match.", "schema": _TEXT},
}
