"""What schemathesis cannot know from the gateway's document, told to it."""

from __future__ import annotations

import gc
import json
import os
from typing import Any

import schemathesis

# It ends within seconds, and is through with little of what the collector would look at again and again.
gc.disable()

IDS: dict[str, str] = json.loads(os.environ.get("FAIRLEAD_IDS", "{}"))
#: Texts that somebody reads: they have only characters that can be seen.
SEEN = ("name", "owner", "agents", "permissions", "filename", "content_type", "context_id")

#: What is written as nothing in an address.
EMPTY: tuple[Any, ...] = ("", [], {}, [""], [None], None)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Requests that are meant well are about things that are there; those that are meant ill stay as they are."""
    # A number is written as JavaScript writes it: 2, not 2.0.
    if isinstance(case.body, dict | list):
        case.body = written(case.body)
    if isinstance(case.body, bytes) and not case.body.strip():
        case.body = b"{"  # an empty body is none, which some requests may have
    wrong = {where.name for where, part in case.meta.components.items() if part.mode.is_negative}
    name = case.operation.definition.raw["operationId"]
    if not any("PATH" in each for each in wrong):
        for part in case.path_parameters or {}:
            case.path_parameters[part] = known(name, part)
    if case.query and any("QUERY" in each for each in wrong):
        # A parameter that is empty is as if it were not there.
        case.query = {each: "?" if value in EMPTY else value for each, value in case.query.items()}
    elif case.query:
        if name.startswith("list") and isinstance(case.query.get("since"), str):
            del case.query["since"]  # no text is a cursor
        if name == "adminAudit":
            case.query = {name: value for name, value in case.query.items() if name == "limit"}
    key = (case.headers or {}).get("Idempotency-Key")
    if key is not None and not any("HEADER" in each for each in wrong):
        case.headers["Idempotency-Key"] = key.strip() or "key"
    if not any("BODY" in each for each in wrong) and isinstance(case.body, dict):
        case.body = meant(name, case.body)


def known(operation: str, part: str) -> str:
    if operation.startswith("runtime."):
        return "0a-1.1" if part == "deliveryId" else "far"
    if operation in ("revokeApiKey", "deleteTaskWebhook"):
        return "nothing"
    if operation in ("streamConversationEvents", "deleteConversation") and part == "convId":
        return IDS["closed"]  # the stream of another one would not end
    return IDS.get(part, "nothing")


def meant(operation: str, body: dict[str, Any]) -> dict[str, Any]:
    """A body whose words are ones that mean something."""
    told = {name: seen(value) if name in SEEN else value for name, value in body.items()}
    for each in told.get("attachments") or []:
        each |= {name: seen(each[name]) for name in ("filename", "content_type") if each.get(name)}
        each["file_id"] = IDS["id"]
    if operation == "updateAgent" and "mcpEnabled" in told:
        told.pop("mcp_enabled", None)
    if operation == "registerTaskWebhook":
        told["url"] = "http://127.0.0.1:9/hook"
    if operation == "setConversationModel":
        told["modelOverrideId"] = None
    if operation == "createApiKey" and told.get("expires_at"):
        told["expires_at"] = "2999-01-01T00:00:00Z"
    if operation == "runtime.register" and not told.get("id"):
        told["id"] = "farther"
    return told


def seen(value: Any) -> Any:
    if isinstance(value, list):
        return [seen(each) for each in value]
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(each for each in value if each.isprintable()) or "x"


def written(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: written(each) for key, each in value.items()}
    if isinstance(value, list):
        return [written(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
