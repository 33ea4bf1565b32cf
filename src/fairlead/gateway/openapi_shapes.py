"""The shapes of the gateway's requests and answers, as JSON Schema, by the names that the published contract has.

Answers may have members more, one day; requests say whether they may.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead.failures import catalogue
from fairlead.failures.gateway import TYPES
from fairlead.gateway import files, invoke, tasks, webhooks
from fairlead.gateway.agents import CAPABILITIES, VISIBILITIES
from fairlead.gateway.call import LONGEST_ID
from fairlead.gateway.conversations import LONGEST_TITLE
from fairlead.tasks.states import State

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def shape(required: dict[str, Schema], optional: dict[str, Schema] | None = None, **more: Any) -> Schema:
    """An object with these members."""
    members = {**required, **(optional or {})}
    told: Schema = {"type": "object", "properties": members, **more}
    return {**told, "required": list(required)} if required else told


def enveloped(data: Schema, **more: Schema) -> Schema:
    """The success envelope."""
    return shape({"success": {"const": True}, "data": data, **more})


def listed(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def text(longest: int | None = None, **more: Any) -> Schema:
    bounds = {} if longest is None else {"maxLength": longest}
    return {"type": "string", **bounds, **more}


def said(longest: int | None = None, **more: Any) -> Schema:
    """A text that is not empty, nor only blanks."""
    return text(longest, minLength=1, pattern=r"\S", **more)


def maybe(schema: Schema) -> Schema:
    """The same, or null, which is as if it were not there."""
    return {**schema, "type": [schema["type"], "null"]}


def whole(least: int | None = None, most: int | None = None, **more: Any) -> Schema:
    bounds = {"minimum": least, "maximum": most}
    return {"type": "integer", **{name: value for name, value in bounds.items() if value is not None}, **more}


TEXT: Final[Schema] = {"type": "string"}
YES_OR_NO: Final[Schema] = {"type": "boolean"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
URL: Final[Schema] = {"type": "string", "format": "uri"}
OBJECT: Final[Schema] = {"type": "object"}
ANYTHING: Final[Schema] = {}
COUNT: Final[Schema] = whole(0)
METADATA: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
KEY: Final[Schema] = text(
    LONGEST_ID, minLength=1, description="The same key gives the first request's answer."
)
MESSAGE: Final[Schema] = said(description="What the agent is asked.")
ATTACHMENTS: Final[Schema] = listed(ref("AttachmentRef"), maxItems=invoke.MOST_ATTACHMENTS)
REASON: Final[Schema] = text(tasks.LONGEST_REASON)
#: Members of an object that is taken with no others.
ONLY: Final[dict[str, Any]] = {"additionalProperties": False}

_ERROR: Final = {
    "Error": shape(
        {
            "code": {
                **one_of(*(each.code for each in catalogue("gateway") if each.http_status)),
                "description": "What went wrong; programs go by this one.",
            },
            "message": {**TEXT, "description": "The same in words."},
        },
        {
            "type": one_of(*TYPES),
            "request_id": {**TEXT, "description": "As in the X-Request-Id header."},
            "param": {
                **TEXT,
                "description": "What it is about: a member of the body, a parameter or a header.",
            },
            "details": OBJECT,
            "metadata": METADATA,
        },
    ),
    "ErrorResponse": shape({"success": {"const": False}, "error": ref("Error")}),
}

_AGENTS: Final = {
    "AgentCapabilitiesDTO": shape(dict.fromkeys(CAPABILITIES, YES_OR_NO)),
    "AgentDTO": shape(
        {
            "id": TEXT,
            "instanceId": TEXT,
            "name": TEXT,
            "status": TEXT,
            "visibility": one_of(*VISIBILITIES),
            "mcpEnabled": YES_OR_NO,
            "capabilities": ref("AgentCapabilitiesDTO"),
            "conversationTransport": one_of("acp", "message-service"),
        },
        {"description": TEXT, "displayName": TEXT, "createdAt": TIME, "updatedAt": TIME},
    ),
    "AgentResponse": enveloped(ref("AgentDTO")),
    "AgentListResponse": enveloped(listed(ref("AgentDTO")), total=COUNT),
    "UpdateAgentRequest": shape(
        {},
        {
            "visibility": one_of(*VISIBILITIES),
            "mcpEnabled": YES_OR_NO,
            "mcp_enabled": {**YES_OR_NO, "deprecated": True, "description": "The older name of mcpEnabled."},
        },
        minProperties=1,
        **ONLY,
    ),
}

_INVOKE: Final = {
    "AttachmentRef": shape(
        {"file_id": text(LONGEST_ID, minLength=1, description="Of a file that the caller has uploaded.")},
        {
            "filename": maybe(text(files.LONGEST_NAME)),
            "content_type": maybe(text(files.LONGEST_TYPE)),
        },
    ),
    "InvokeAgentRequest": shape(
        {"message": MESSAGE},
        {
            "context_id": maybe(
                text(LONGEST_ID, description="A channel to go on with; else a new one begins.")
            ),
            "timeout_ms": maybe(
                whole(
                    0,
                    description=f"How long the caller waits; longer than {invoke.LONGEST_WAIT} is cut to it.",
                )
            ),
            "idempotency_key": maybe(KEY),
            "metadata": maybe(METADATA),
            "attachments": maybe(ATTACHMENTS),
        },
    ),
    "InvokeAgentResponse": enveloped(shape({"text": TEXT, "context_id": TEXT, "is_error": YES_OR_NO})),
    "InvokeAgentSSEDelta": shape({"type": {"const": "delta"}, "text": TEXT}),
    "InvokeAgentSSEReasoning": shape({"type": {"const": "reasoning"}, "text": TEXT}),
    "InvokeAgentSSEError": shape(
        {"type": {"const": "error"}, "message": TEXT},
        {"code": TEXT, "status_code": whole(400, 599), "origin": OBJECT},
    ),
    "InvokeAgentSSEDone": shape(
        {"type": {"const": "done"}},
        {
            "text": TEXT,
            "context_id": TEXT,
            "is_error": YES_OR_NO,
            "error": TEXT,
            "code": TEXT,
            "origin": OBJECT,
        },
    ),
}

_TASKS: Final = {
    "TaskStatus": one_of(*(state.value for state in State)),
    "CreateTaskRequest": shape(
        {"message": MESSAGE},
        {
            "context_id": maybe(text(LONGEST_ID)),
            "deadline_ms": maybe(whole(0, tasks.LONGEST_DEADLINE, description="0 is none.")),
            "idempotency_key": maybe(KEY),
            "metadata": maybe(METADATA),
            "attachments": maybe(ATTACHMENTS),
        },
    ),
    "TaskCreatedResponse": enveloped(
        shape({"task_id": TEXT, "agent_id": TEXT, "status": ref("TaskStatus")}, {"created_at": TIME})
    ),
    "Task": shape(
        {"task_id": TEXT, "agent_id": TEXT, "status": ref("TaskStatus")},
        {
            "caller_id": TEXT,
            "result": {"description": "What the agent gave; only of a task that is completed."},
            "error": {**TEXT, "description": "Why it failed."},
            "metadata": METADATA,
            "created_at": TIME,
            "started_at": TIME,
            "completed_at": TIME,
            "deadline_at": TIME,
            "truncated": YES_OR_NO,
        },
    ),
    "TaskResponse": enveloped(ref("Task")),
    "TaskSummary": shape(
        {"task_id": TEXT, "agent_id": TEXT, "state": one_of("active", "closed")},
        {"caller_id": TEXT, "close_reason": TEXT, "metadata": METADATA, "deadline_at": TIME},
    ),
    "ListTasksResponse": enveloped(shape({"tasks": listed(ref("TaskSummary"))}, {"next_since": TEXT})),
    "CancelTaskRequest": shape({}, {"reason": maybe(REASON)}),
    "ContinueTaskRequest": shape({}, {"input": ANYTHING, "auth_grant": maybe(YES_OR_NO)}),
}

_PART: Final = {"state": one_of("streaming", "done")}
_MESSAGE: Final = {
    "publisher_id": {**TEXT, "description": "`user:` or `agent:`, and an id."},
    "in_reply_to": TEXT,
    "payload": ANYTHING,
    "created_at": TIME,
    "updated_at": TIME,
    "body": TEXT,
    "state": ref("MessageState"),
    "stop_reason": ref("StopReason"),
    "parts": listed(ref("Part")),
}
_MESSAGES: Final = {
    "MessageType": one_of(
        *(
            "chat_message",
            "agent_reasoning",
            "agent_thought_chunk",
            "agent_message_chunk",
            "agent_reply_delta",
        ),
        *("agent_reply", "agent_reply_error", "agent.refuse", "agent_busy", "agent.input_required"),
        *("agent.auth_required", "user.continue", "user.auth_grant", "chat_cancel"),
    ),
    "MessageState": one_of("streaming", "completed", "failed", "refused", "cancelled"),
    "StopReason": one_of(
        *("end_turn", "max_tokens", "tool_use", "user_stop", "timeout", "error", "refused", "content_filter"),
        "agent_lost",
    ),
    "PartThinking": shape({"type": {"const": "thinking"}, "text": TEXT}, _PART),
    "PartToolUse": shape(
        {"type": {"const": "tool_use"}, "id": TEXT, "name": TEXT}, {"arguments": ANYTHING, **_PART}
    ),
    "PartToolResult": shape(
        {"type": {"const": "tool_result"}, "tool_use_id": TEXT, "content": {"type": ["string", "object"]}},
        {"is_error": YES_OR_NO},
    ),
    "PartFile": shape(
        {"type": {"const": "file"}, "url": TEXT, "mime_type": TEXT}, {"name": TEXT, "size": COUNT}
    ),
    "PartSource": shape({"type": {"const": "source"}, "url": TEXT}, {"title": TEXT, "snippet": TEXT}),
    "PartCustom": shape({"type": {"const": "custom"}, "kind": TEXT, "data": ANYTHING}),
    "Part": {
        "oneOf": [
            ref(f"Part{each}") for each in ("Thinking", "ToolUse", "ToolResult", "File", "Source", "Custom")
        ]
    },
    "MessageDTO": shape({"message_id": TEXT, "offset": COUNT, "type": ref("MessageType")}, _MESSAGE),
    "ListMessagesResponse": enveloped(
        shape(
            {"messages": listed(ref("MessageDTO")), "latest_offset": COUNT, "has_more": YES_OR_NO},
            {"next_since": TEXT},
        )
    ),
    "TaskSSEMessage": shape({"type": ref("MessageType")}, {"message_id": TEXT, "offset": COUNT, **_MESSAGE}),
    "TaskSSEBackfillTruncated": shape({"oldest_redis_offset": COUNT, "since": COUNT}, {"hint": TEXT}),
    "TaskSSEEnd": shape({"reason": one_of("task_terminal", "stream_closed", "channel_closed")}),
}

_WEBHOOKS: Final = {
    "RegisterTaskWebhookRequest": shape(
        {
            "url": said(
                format="uri", description="Where changes are told; no address of the gateway's own network."
            )
        },
        {
            "token": maybe(
                text(
                    webhooks.LONGEST_TOKEN,
                    pattern=r"^([\x21-\x7e]+( +[\x21-\x7e]+)*)?$",
                    description="Sent as `Authorization: Bearer`.",
                    writeOnly=True,
                )
            ),
            "secret": {
                "description": "What changes are signed with. An empty one leaves it as it is.",
                "anyOf": [
                    text(webhooks.LONGEST, minLength=webhooks.SHORTEST),
                    {"const": ""},
                    {"type": "null"},
                ],
                "writeOnly": True,
            },
        },
    ),
    "Webhook": shape(
        {"webhook_id": TEXT, "task_id": TEXT, "url": TEXT, "has_secret": YES_OR_NO}, {"created_at": TIME}
    ),
    "TaskWebhookResponse": enveloped(ref("Webhook")),
    "ListTaskWebhooksResponse": enveloped(shape({"webhooks": listed(ref("Webhook"))})),
    "Delivery": shape(
        {
            "delivery_id": TEXT,
            "webhook_id": TEXT,
            "task_id": TEXT,
            "renderer": one_of("openapi", "a2a", "generic", "mcp"),
            "status": one_of("pending", "succeeded", "failed", "dead_letter"),
            "attempt_num": COUNT,
            "last_response_status": {**COUNT, "description": "0 is none."},
            "next_attempt_at": TIME,
            "created_at": TIME,
        },
        {"last_error": TEXT, "last_attempted_at": TIME, "completed_at": TIME},
    ),
    "WebhookDeliveryResponse": enveloped(ref("Delivery")),
    "ListWebhookDeliveriesResponse": enveloped(shape({"deliveries": listed(ref("Delivery"))})),
}

_FILES: Final = {
    "PresignUploadRequest": shape(
        {
            "filename": said(files.LONGEST_NAME),
            "content_type": text(
                files.LONGEST_TYPE,
                pattern=r"^[!#-'*+.^_`|~0-9A-Za-z-]+/[!#-'*+.^_`|~0-9A-Za-z-]+( *;[\x20-\x7e]*)?$",
                examples=["text/csv"],
            ),
        }
    ),
    "PresignUploadResponse": enveloped(
        shape(
            {"file_id": TEXT, "upload_url": {**URL, "description": "To PUT the bytes to, once."}},
            {"download_url": URL, "download_expires_in": whole(1, description="Seconds.")},
        )
    ),
    "FileMetaResponse": enveloped(
        shape(
            {"file_id": TEXT},
            {
                "filename": TEXT,
                "content_type": TEXT,
                "size": COUNT,
                "sha256": TEXT,
                "download_url": URL,
                "download_expires_in": whole(1),
            },
        )
    ),
    "FileUploadedResponse": enveloped(shape({"file_id": TEXT, "size": COUNT, "sha256": TEXT})),
}

_CONVERSATIONS: Final = {
    "Conversation": shape(
        {"conversation_id": TEXT, "agent_id": TEXT, "state": one_of("active", "closed")},
        {
            "title": TEXT,
            "metadata": METADATA,
            "created_at": TIME,
            "last_activity_at": TIME,
            "closed_at": TIME,
            "modelOverrideId": TEXT,
            "effectiveModelId": TEXT,
        },
    ),
    "CreateConversationRequest": shape(
        {}, {"title": maybe(text(LONGEST_TITLE, pattern=r"^$|\S")), "metadata": maybe(METADATA)}
    ),
    "ConversationResponse": enveloped(ref("Conversation")),
    "ListConversationsResponse": enveloped(
        shape({"conversations": listed(ref("Conversation"))}, {"next_since": TEXT})
    ),
    "RenameConversationRequest": shape({"title": said(LONGEST_TITLE)}, **ONLY),
    "SendMessageRequest": shape(
        {"message": MESSAGE}, {"idempotency_key": maybe(KEY), "attachments": maybe(ATTACHMENTS)}
    ),
    "SendMessageResponse": enveloped(shape({"message_id": TEXT}, {"created_at": TIME})),
    "CancelConversationRequest": shape(
        {"target_message_id": said(LONGEST_ID)}, {"reason": maybe(REASON)}, **ONLY
    ),
    "CancelConversationResponse": enveloped(
        shape({"operation_id": text(format="uuid"), "status": {"const": "accepted"}})
    ),
    "ClearConversationResponse": shape(
        {
            "status": {"const": "accepted"},
            "operationId": text(format="uuid"),
            "conversationId": TEXT,
            "currentGeneration": text(pattern="^[0-9]+$"),
        }
    ),
    "SetConversationModelRequest": shape(
        {"modelOverrideId": maybe(text(LONGEST_ID, minLength=1, description="null is the agent's own."))},
        **ONLY,
    ),
}

#: All of them, by name.
SCHEMAS: Final[dict[str, Schema]] = {
    **_ERROR, **_AGENTS, **_INVOKE, **_TASKS, **_MESSAGES, **_WEBHOOKS, **_FILES, **_CONVERSATIONS
}  # fmt: skip
