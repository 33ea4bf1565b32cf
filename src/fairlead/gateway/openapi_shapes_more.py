"""The shapes of what is our own: keys, agents that run elsewhere, and pages that show what goes on."""

from __future__ import annotations

from typing import Final

from fairlead.gateway import keys, registration, remote_deliveries
from fairlead.gateway.agents import VISIBILITIES
from fairlead.gateway.openapi_shapes import (
    ANYTHING,
    COUNT,
    METADATA,
    OBJECT,
    ONLY,
    TEXT,
    TIME,
    YES_OR_NO,
    Schema,
    enveloped,
    listed,
    maybe,
    one_of,
    ref,
    said,
    shape,
    text,
    whole,
)

_KEYS: Final = {
    "CreateApiKeyRequest": shape(
        {"name": said(keys.LONGEST_NAME)},
        {
            "rate_limit_per_minute": maybe(whole(1, keys.MOST_PER_MINUTE)),
            "expires_at": maybe(TIME),
            "owner": maybe(text(keys.LONGEST_NAME)),
            "agents": maybe(listed(said(keys.LONGEST_NAME), minItems=1, maxItems=1000)),
            "permissions": maybe(listed(said(keys.LONGEST_NAME), maxItems=1000)),
        },
        **ONLY,
    ),
    "ApiKey": shape(
        {
            "id": TEXT,
            "name": TEXT,
            "key_prefix": TEXT,
            "owner": TEXT,
            "rate_limit_per_minute": maybe(whole(1)),
            "agents": maybe(listed(TEXT)),
            "permissions": listed(TEXT),
            "status": one_of("active", "revoked", "expired"),
            "created_at": TIME,
            "expires_at": maybe(TIME),
            "revoked_at": maybe(TIME),
            "last_used_at": maybe(TIME),
        }
    ),
}
_KEYS["NewApiKey"] = shape(
    {
        **_KEYS["ApiKey"]["properties"],
        "key": text(pattern="^oag_[0-9a-f]{64}$", description="Shown this once."),
    }
)
_KEYS["CreateApiKeyResponse"] = enveloped(ref("NewApiKey"))
_KEYS["ListApiKeysResponse"] = enveloped(listed(ref("ApiKey")), total=COUNT)

_LEASE: Final[Schema] = {
    "leaseId": text(64, pattern="^[0-9]+(-|$)", description="As the registration gave it.")
}
_DRAINING: Final = {
    "draining": {"description": "true of one that finishes what it has and takes nothing new."}
}
#: What names a delivery to whoever runs an agent.
DELIVERY_ID: Final = text(74, pattern=r"^[0-9a-f-]{1,64}\.[0-9]{1,9}$")
_DELIVERY_IDS: Final = listed(DELIVERY_ID, maxItems=10 * remote_deliveries.MOST)
_EVENTS: Final = listed(ref("RuntimeEvent"), maxItems=remote_deliveries.MOST_EVENTS)
_STOPPED: Final = listed(shape({"deliveryId": TEXT, "reason": TEXT}))


def _reply(status: str, required: dict[str, Schema], optional: dict[str, Schema]) -> Schema:
    """One way in which a turn ends, or pauses."""
    return shape({**_LEASE, "status": {"const": status}, **required}, {"events": maybe(_EVENTS), **optional})


_SKILL: Final = shape(
    {"name": TEXT}, {"id": maybe(TEXT), "description": maybe(TEXT), "tags": maybe(listed(TEXT))}
)
_RUNTIME: Final = {
    "RegisterAgentRequest": shape(
        {"name": text(128, minLength=1, pattern=r"^[^\x00]*$")},
        {
            "id": maybe(
                text(64, pattern="^([A-Za-z0-9][A-Za-z0-9._-]*)?$", description="The name is the usual one.")
            ),
            "description": maybe(text(4096, pattern=r"^[^\x00]*$")),
            "displayName": maybe(text(128, pattern=r"^[^\x00]*$")),
            "instance": maybe(text(128, pattern=r"^[^\x00]*$")),
            "mode": one_of(*registration.MODES),
            "skills": maybe(listed(_SKILL, maxItems=registration.MOST_SKILLS)),
            "leaseSeconds": {
                "type": ["number", "null"],
                "minimum": registration.SHORTEST,
                "maximum": registration.LONGEST,
                "default": registration.LEASE,
            },
            "attempts": {"type": ["number", "null"], "minimum": 1, "maximum": registration.MOST_ATTEMPTS},
        },
    ),
    "RegistrationResponse": enveloped(
        shape(
            {
                "status": {"const": "active"},
                "agentId": TEXT,
                "mode": one_of(*registration.MODES),
                "leaseId": TEXT,
                "epoch": whole(1),
                "leaseSeconds": {"type": "number"},
                "leaseExpiresAt": TIME,
                "heartbeatIntervalMs": whole(1),
            }
        )
    ),
    "HeartbeatRequest": shape(_LEASE, _DRAINING),
    "HeartbeatResponse": enveloped(shape({"status": {"const": "renewed"}, "leaseExpiresAt": TIME})),
    "UnregisterRequest": shape(
        _LEASE, {"remove": {"description": "true takes the agent away, with the tasks that wait for it."}}
    ),
    "UnregisterResponse": enveloped(shape({"status": one_of("removed", "offline")})),
    "ReadDeliveriesRequest": shape(
        _LEASE,
        {
            "maxCount": maybe(whole(0, remote_deliveries.MOST, default=32)),
            "blockMs": maybe(whole(0, remote_deliveries.LONGEST_BLOCK, default=5000)),
            "holding": maybe(_DELIVERY_IDS),
            **_DRAINING,
        },
    ),
    "RuntimeDelivery": shape(
        {
            "deliveryId": TEXT,
            "taskId": TEXT,
            "agentId": TEXT,
            "message": TEXT,
            "messageId": TEXT,
            "contextId": TEXT,
            "metadata": METADATA,
            "attachments": listed(OBJECT),
            "answers": listed(ANYTHING),
            "attempt": whole(0),
            "redelivered": YES_OR_NO,
            "caller": {"type": ["string", "null"]},
            "createdAt": TIME,
        },
        {"history": ANYTHING, "deadlineAt": TIME},
    ),
    "ReadDeliveriesResponse": enveloped(
        shape(
            {
                "status": one_of("deliveries", "empty"),
                "deliveries": listed(ref("RuntimeDelivery")),
                "stopped": _STOPPED,
            }
        )
    ),
    "KeepDeliveriesRequest": shape(_LEASE, {"deliveries": _DELIVERY_IDS, **_DRAINING}),
    "ReleaseDeliveriesRequest": shape(_LEASE, {"deliveries": _DELIVERY_IDS}),
    "RenewDeliveriesResponse": enveloped(
        shape({"status": {"const": "renewed"}, "renewed": listed(TEXT), "stopped": _STOPPED})
    ),
    "AckDeliveriesResponse": enveloped(
        shape({"status": {"const": "acknowledged"}, "acknowledged": listed(TEXT), "stopped": _STOPPED})
    ),
    "ReleaseDeliveriesResponse": enveloped(shape({"status": {"const": "released"}})),
    "RuntimeEvent": {
        "oneOf": [
            shape({"type": one_of("delta", "thinking", "output")}, {"text": maybe(TEXT)}),
            shape({"type": {"const": "draft"}, "draft": OBJECT}),
            shape(
                {"type": {"const": "activity"}},
                {"kind": maybe(TEXT), "title": maybe(TEXT), "detail": ANYTHING, "data": ANYTHING},
            ),
        ]
    },
    "SayRequest": shape({**_LEASE, "batch": text(128, minLength=1), "events": _EVENTS}),
    "ReplyRequest": {
        "oneOf": [
            _reply("completed", {}, {"text": maybe(TEXT), "data": {"description": "In place of a text."}}),
            _reply("failed", {}, {"error": maybe(TEXT)}),
            _reply("refused", {}, {"reason": maybe(TEXT)}),
            _reply("busy", {}, {}),
            *(
                _reply(
                    status,
                    {"question": text(minLength=1)},
                    {"options": maybe(listed(TEXT)), "allowMultiple": ANYTHING, "details": ANYTHING},
                )
                for status in ("input_required", "auth_required")
            ),
        ]
    },
    "HeardResponse": enveloped(shape({"status": one_of("accepted", "stopped"), "stopped": _STOPPED})),
}

_ADMIN: Final = {
    "AdminAgent": shape(
        {
            **dict.fromkeys(("id", "name", "description", "owner", "instance", "mode"), TEXT),
            "visibility": one_of(*VISIBILITIES),
            "mcp_enabled": YES_OR_NO,
            "online": YES_OR_NO,
            "lease_until": maybe(TIME),
        }
    ),
    "AdminTask": shape(
        {
            **dict.fromkeys(("task_id", "agent_id", "owner", "status"), TEXT),
            "kind": one_of("task", "invoke"),
            "created_at": TIME,
            "started_at": maybe(TIME),
            "completed_at": maybe(TIME),
            "latest_offset": COUNT,
            "queue": maybe(TEXT),
            "worker": maybe(TEXT),
        },
        {"events": listed(shape({"offset": COUNT, "type": TEXT, "time": TIME, "detail": TEXT}))},
    ),
    "AdminDelivery": shape(
        {
            **dict.fromkeys(("delivery_id", "webhook_id", "task_id", "host"), TEXT),
            **dict.fromkeys(("agent_id", "owner", "last_error"), maybe(TEXT)),
            "renderer": TEXT,
            "status": TEXT,
            "attempt_num": COUNT,
            "last_response_status": COUNT,
            **dict.fromkeys(
                ("next_attempt_at", "created_at", "last_attempted_at", "completed_at"), maybe(TIME)
            ),
        }
    ),
    "AdminRate": shape(
        {
            **dict.fromkeys(("owner", "key_id", "endpoint"), TEXT),
            **dict.fromkeys(("lately", "last_hour", "limited"), COUNT),
            "key": maybe(TEXT),
            "rate_limit_per_minute": maybe(whole(1)),
        }
    ),
    "AuditLine": shape(
        {
            **dict.fromkeys(("id", "owner", "key_id", "endpoint", "request_id"), TEXT),
            **dict.fromkeys(("agent", "target", "address"), maybe(TEXT)),
            "status": COUNT,
            "time": TIME,
        }
    ),
}

#: All of them, by name.
SCHEMAS: Final[dict[str, Schema]] = {**_KEYS, **_RUNTIME, **_ADMIN}
