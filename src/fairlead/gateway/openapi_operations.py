"""What the gateway's document says of each operation: its parameters, its body, its answer and how it may fail.

An operation is known by its route's name; method, path and the body's bytes are the route's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from fairlead.gateway.agents import VISIBILITIES as _VISIBILITIES
from fairlead.gateway.call import LONGEST_ID
from fairlead.gateway.openapi_shapes import TEXT, Schema, enveloped, listed, one_of, ref, shape, text, whole
from fairlead.gateway.openapi_shapes_more import DELIVERY_ID
from fairlead.gateway.tasks import STATES

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
#: The largest offset that may be asked for.
_LARGEST: Final = 2**53
_FAR: Final = 2**31

Content = dict[str, Schema]


class Operation(NamedTuple):
    """One operation. Content is schemas by media type; statuses that any operation may have are not said."""

    tag: str
    summary: str
    answer: Content | None = None
    status: int | None = 200
    body: Content | None = None
    fails: tuple[int, ...] = ()
    parameters: tuple[Schema, ...] = ()
    #: Headers that the answer has beside the usual ones.
    headers: tuple[str, ...] = ()
    #: Whether the body may be left out.
    optional: bool = False
    #: Parts of the path that are more than an id.
    ids: Mapping[str, Schema] = MappingProxyType({})


def _json(name: str | Schema) -> Content:
    return {JSON: ref(name) if isinstance(name, str) else name}


def _query(name: str, schema: Schema, description: str = "", **more: Any) -> Schema:
    told = {"name": name, "in": "query", "schema": schema, **more}
    return {**told, "description": description} if description else told


def _header(name: str, description: str, schema: Schema, **more: Any) -> Schema:
    return {"name": name, "in": "header", "description": description, "schema": schema, **more}


def _frame(*frames: Schema) -> Content:
    return {EVENTS: {"oneOf": list(frames)} if len(frames) > 1 else frames[0]}


def _named(event: str, name: str) -> Schema:
    """An event of a stream of tasks' or conversations' messages."""
    data = {"type": "string", "contentMediaType": JSON, "contentSchema": ref(name)}
    required: dict[str, Schema] = {"event": {"const": event}, "data": data}
    return shape(required, {"id": {**TEXT, "description": "The message's offset."}})


_INVOKED: Final = _frame(
    shape(
        {
            "data": {
                "type": "string",
                "contentMediaType": JSON,
                "contentSchema": {
                    "oneOf": [
                        ref(f"InvokeAgentSSE{each}") for each in ("Delta", "Reasoning", "Error", "Done")
                    ]
                },
            }
        }
    )
)
_EVENTS: Final = _frame(
    _named("message", "TaskSSEMessage"),
    _named("backfill_truncated", "TaskSSEBackfillTruncated"),
    _named("end", "TaskSSEEnd"),
)
_FILE: Final[Content] = {"*/*": {"type": "string", "format": "binary"}}

_STATE: Final = _query("state", {**one_of(*STATES), "default": "active"}, "`open` is the same as `active`.")
_CURSOR: Final = _query("since", TEXT, "The `next_since` of the page before.")
_OFFSET: Final = _query("since", whole(0, _LARGEST), "Messages after this offset.")
_LAST_EVENT: Final = _header("Last-Event-ID", "The same as `since`, which counts where both are there.", TEXT)
_DELTAS: Final = _query(
    "include_deltas", TEXT, "`true`, `1` or `yes` shows pieces of messages, too; anything else does not."
)


def _page(most: int, default: int) -> Schema:
    return _query("limit", {**whole(1, most), "default": default})


def _key(*, required: bool = False) -> Schema:
    words = "A request that is repeated with the same key is answered as the first one was, and does nothing."
    schema = text(LONGEST_ID, minLength=1)
    return _header("Idempotency-Key", words, schema, required=required)


_OPERATION: Final = _header("X-BeeOS-Operation-Id", "A UUID that the operation is to have.", TEXT)
_PAGED: Final = (_STATE, _CURSOR, _page(100, 50))
_SIGNED: Final = (_query("expires", TEXT, required=True), _query("signature", TEXT, required=True))
_CHANGED: Final = ("X-BeeOS-Operation-Id",)
_DELIVERY: Final = {"deliveryId": DELIVERY_ID}

OPERATIONS: Final[dict[str, Operation]] = {
    "listAgents": Operation(
        "agents",
        "The caller's own agents.",
        _json("AgentListResponse"),
        parameters=(
            _query("instance_id", TEXT),
            _query("instanceId", TEXT, "The same as `instance_id`."),
            _query("status", TEXT, "Such as `active`."),
            _page(1000, 20),
            _query("offset", {**whole(0, _FAR - 1), "default": 0}),
        ),
    ),
    "getAgent": Operation("agents", "An agent of the caller's.", _json("AgentResponse"), fails=(404,)),
    "updateAgent": Operation(
        "agents",
        f"Set who may use an agent: {', '.join(_VISIBILITIES)}.",
        _json("AgentResponse"),
        body=_json("UpdateAgentRequest"),
        fails=(404, 409),
    ),
    "deleteAgent": Operation(
        "agents", "Never done: an agent is taken away by whoever runs it.", status=None, fails=(404, 409)
    ),
    "invokeAgent": Operation(
        "agents",
        "Ask an agent and wait for its answer: whole, or as it is written where `text/event-stream` is accepted.",
        {**_json("InvokeAgentResponse"), **_INVOKED},
        body=_json("InvokeAgentRequest"),
        fails=(403, 404, 409),
    ),
    "createTask": Operation(
        "tasks",
        "Give an agent work that is done in its own time.",
        _json("TaskCreatedResponse"),
        202,
        _json("CreateTaskRequest"),
        (403, 404, 409),
    ),
    "listAgentTasks": Operation(
        "tasks", "The caller's tasks with an agent, the newest first.", _json("ListTasksResponse"),
        fails=(404,), parameters=_PAGED,
    ),
    "listUserTasks": Operation(
        "tasks", "All of the caller's tasks, the newest first.", _json("ListTasksResponse"),
        parameters=(*_PAGED, _query("agent_id", text(LONGEST_ID)), _query("instance_id", text(LONGEST_ID))),
    ),
    "getTask": Operation("tasks", "A task as it is now.", _json("TaskResponse"), fails=(403, 404)),
    "listTaskMessages": Operation(
        "tasks", "What was said in a task.", _json("ListMessagesResponse"),
        fails=(403, 404), parameters=(_OFFSET, _page(500, 200), _DELTAS),
    ),
    "streamTaskEvents": Operation(
        "tasks", "What was said in a task and what comes, until it has ended.", _EVENTS,
        fails=(403, 404), parameters=(_OFFSET, _LAST_EVENT),
    ),
    "cancelTask": Operation(
        "tasks", "End a task. One that has ended stays as it is.", _json("TaskResponse"),
        body=_json("CancelTaskRequest"), fails=(403, 404, 409), optional=True,
    ),
    "continueTask": Operation(
        "tasks", "Answer a task that waits for an answer.", _json("TaskResponse"),
        body=_json("ContinueTaskRequest"), fails=(403, 404, 409), optional=True,
    ),
    "registerTaskWebhook": Operation(
        "webhooks", "Have an address told whenever a task's status changes.", _json("TaskWebhookResponse"), 201,
        _json("RegisterTaskWebhookRequest"), (403, 404),
    ),
    "listTaskWebhooks": Operation(
        "webhooks", "The webhooks of a task.", _json("ListTaskWebhooksResponse"), fails=(403, 404)
    ),
    "deleteTaskWebhook": Operation("webhooks", "Tell an address no more.", status=204, fails=(403, 404)),
    "listWebhookDeliveries": Operation(
        "webhooks", "What a webhook was told, the newest first.", _json("ListWebhookDeliveriesResponse"),
        fails=(403, 404),
        parameters=(_query("limit", {**whole(-_FAR, _FAR), "default": 50}, "Cut to 1 to 200."),),
    ),
    "redeliverWebhook": Operation(
        "webhooks", "Make a delivery that failed once more.", _json("WebhookDeliveryResponse"), 202,
        fails=(403, 404, 409),
    ),
    "presignFileUpload": Operation(
        "files", "An address to upload a file to.", _json("PresignUploadResponse"),
        body=_json("PresignUploadRequest"),
    ),
    "getFile": Operation("files", "What is known of a file.", _json("FileMetaResponse"), fails=(404,)),
    "uploadFile": Operation(
        "files", "Upload a file's bytes, once, to the address that was given for it.",
        _json("FileUploadedResponse"), body=_FILE, fails=(403, 409), parameters=_SIGNED,
    ),
    "downloadFile": Operation(
        "files", "A file's bytes.", _FILE, fails=(403, 404), parameters=_SIGNED, headers=("Content-Disposition",)
    ),
    "createConversation": Operation(
        "conversations", "Begin a conversation with an agent.", _json("ConversationResponse"), 201,
        _json("CreateConversationRequest"), (404, 409), (_key(),), optional=True,
    ),
    "listConversations": Operation(
        "conversations", "The caller's conversations with an agent, the newest first.",
        _json("ListConversationsResponse"), fails=(404,), parameters=_PAGED,
    ),
    "getConversation": Operation(
        "conversations", "A conversation.", _json("ConversationResponse"), fails=(403, 404)
    ),
    "renameConversation": Operation(
        "conversations", "Give a conversation another title.", _json("ConversationResponse"),
        body=_json("RenameConversationRequest"), fails=(403, 404, 409), parameters=(_key(required=True),),
    ),
    "deleteConversation": Operation(
        "conversations", "End a conversation, and what goes on in it.", status=204, fails=(403, 404, 409)
    ),
    "sendConversationMessage": Operation(
        "conversations", "Say something; what the agent answers comes in the messages.",
        _json("SendMessageResponse"), 202, _json("SendMessageRequest"), (403, 404, 409),
    ),
    "listConversationMessages": Operation(
        "conversations", "What was said in a conversation.", _json("ListMessagesResponse"),
        fails=(403, 404), parameters=(_OFFSET, _page(200, 200), _DELTAS),
    ),
    "streamConversationEvents": Operation(
        "conversations", "What was said in a conversation and what comes, until it is closed.", _EVENTS,
        fails=(403, 404), parameters=(_OFFSET, _LAST_EVENT),
    ),
    "cancelConversation": Operation(
        "conversations", "End the turn that a message began.", _json("CancelConversationResponse"), 202,
        _json("CancelConversationRequest"), (403, 404, 409), (_key(), _OPERATION), _CHANGED,
    ),
    "clearConversation": Operation(
        "conversations", "Forget what was said.", _json("ClearConversationResponse"), 202,
        fails=(403, 404, 409), parameters=(_key(required=True), _OPERATION), headers=_CHANGED,
    ),
    "setConversationModel": Operation(
        "conversations", "Have the agent's turns made by another model.", None, 202,
        _json("SetConversationModelRequest"), (403, 404, 409), (_key(required=True), _OPERATION), _CHANGED,
    ),
    "createApiKey": Operation(
        "api-keys", "Make a key. It is shown this once.", _json("CreateApiKeyResponse"), 201,
        _json("CreateApiKeyRequest"), (403,), headers=("Cache-Control",),
    ),
    "listApiKeys": Operation(
        "api-keys", "All keys.", _json("ListApiKeysResponse"), fails=(403,), parameters=(_query("owner", TEXT),)
    ),
    "revokeApiKey": Operation("api-keys", "Stop accepting a key.", status=204, fails=(403, 404)),
    "runtime.register": Operation(
        "runtime", "Say that one runs an agent here.", _json("RegistrationResponse"), 201,
        _json("RegisterAgentRequest"), (403, 409),
    ),
    "runtime.heartbeat": Operation(
        "runtime", "Keep a registration.", _json("HeartbeatResponse"), body=_json("HeartbeatRequest"),
        fails=(403, 409),
    ),
    "runtime.unregister": Operation(
        "runtime", "Run an agent no more.", _json("UnregisterResponse"), body=_json("UnregisterRequest"),
        fails=(403, 409),
    ),
    "runtime.read": Operation(
        "runtime", "Take turns that wait for the agent, or wait for one.", _json("ReadDeliveriesResponse"),
        body=_json("ReadDeliveriesRequest"), fails=(403, 409),
    ),
    "runtime.renew": Operation(
        "runtime", "Keep turns that were taken.", _json("RenewDeliveriesResponse"),
        body=_json("KeepDeliveriesRequest"), fails=(403, 409),
    ),
    "runtime.ack": Operation(
        "runtime", "Say that turns have come.", _json("AckDeliveriesResponse"),
        body=_json("KeepDeliveriesRequest"), fails=(403, 409),
    ),
    "runtime.release": Operation(
        "runtime", "Give turns back.", _json("ReleaseDeliveriesResponse"),
        body=_json("ReleaseDeliveriesRequest"), fails=(403, 409),
    ),
    "runtime.say": Operation(
        "runtime", "Say something in a turn.", _json("HeardResponse"),
        body=_json("SayRequest"), fails=(403, 409), ids=_DELIVERY,
    ),
    "runtime.reply": Operation(
        "runtime", "End a turn, or ask its caller something.", _json("HeardResponse"),
        body=_json("ReplyRequest"), fails=(403, 409), ids=_DELIVERY,
    ),
    "adminAgents": Operation(
        "admin", "The agents that the caller may see.", _json(enveloped(shape({"agents": listed(ref("AdminAgent"))})))
    ),
    "adminTasks": Operation(
        "admin", "Tasks, the newest first.", _json(enveloped(shape({"tasks": listed(ref("AdminTask"))}))),
        parameters=(_query("state", {**one_of("active", "all"), "default": "active"}), _page(200, 50)),
    ),
    "adminTask": Operation("admin", "What happened in a task.", _json(enveloped(ref("AdminTask"))), fails=(404,)),
    "adminDeliveries": Operation(
        "admin", "Deliveries of webhooks, the newest first.",
        _json(enveloped(shape({"deliveries": listed(ref("AdminDelivery"))}))), parameters=(_page(200, 50),),
    ),
    "adminKeys": Operation(
        "admin", "Keys, without what opens a door.", _json(enveloped(shape({"keys": listed(ref("ApiKey"))})))
    ),
    "adminRates": Operation(
        "admin", "How often callers called what, lately.",
        _json(
            enveloped(
                shape({"rates": listed(ref("AdminRate")), "per_minute": whole(1)}, {"process": {"type": "object"}})
            )
        ),
    ),
    "adminAudit": Operation(
        "admin", "Who did what, the newest first.",
        _json(
            enveloped(shape({"lines": listed(ref("AuditLine")), "next_before": {"type": ["string", "null"]}}))
        ),
        parameters=(
            _page(1000, 100),
            _query("since", TEXT, "A time, such as 2030-01-31T12:00:00Z."),
            _query("before", TEXT, "The `next_before` of the page before."),
        ),
    ),
    "getOpenApi": Operation("about", "This document.", {JSON: {"type": "object"}}),
}  # fmt: skip
