"""A gateway with one of everything that belongs to somebody, and every route there is as a request for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from fairlead import App
from fairlead.gateway.call import Route
from fairlead.gateway.gateway import routes
from fairlead.gateway.keys import Keys
from fairlead.outgoing import Guard
from gateway.site_under_test import PATIENCE, build, serving, working

#: What only the owner may read: it stands in messages, titles, names and addresses.
PRIVATE = "heirloom"
ROUTES = routes()
UNDER_WAY = 409

_CHAT = {"model": "echo", "messages": [{"role": "user", "content": "hi"}]}
_RPC = {"jsonrpc": "2.0", "id": 1}
_HOOK = {"url": "http://127.0.0.1:9/", "token": f"{PRIVATE}-token", "secret": f"{PRIVATE}-secret-of-hook"}
#: What a whole request says, by route, where it has to say something. `{name}` is an id of the world.
BODIES: dict[str, Any] = {
    "updateAgent": {"mcp_enabled": True},
    "invokeAgent": {"message": "hi"},
    "createTask": {"message": "hi"},
    "registerTaskWebhook": {"url": "http://127.0.0.1:9/other"},
    "presignFileUpload": {"filename": "a.txt", "content_type": "text/plain"},
    "renameConversation": {"title": "mine now"},
    "sendConversationMessage": {"message": "hi"},
    "cancelConversation": {"target_message_id": "{message}"},
    "setConversationModel": {"modelOverrideId": None},
    "createApiKey": {"name": "one more"},
    "createChatCompletion": _CHAT,
    "createResponse": {"model": "echo", "input": "hi", "previous_response_id": "{response}"},
    "runtime.register": {"name": "other"},
    "runtime.heartbeat": {"leaseId": "{lease}"},
    "runtime.unregister": {"leaseId": "{lease}"},
    "runtime.read": {"leaseId": "{lease}", "blockMs": 0, "holding": ["{turn}"]},
    "runtime.renew": {"leaseId": "{lease}", "deliveries": ["{turn}"]},
    "runtime.ack": {"leaseId": "{lease}", "deliveries": ["{turn}"]},
    "runtime.release": {"leaseId": "{lease}", "deliveries": ["{turn}"]},
    "runtime.say": {"leaseId": "{lease}", "batch": "1", "events": []},
    "runtime.reply": {"leaseId": "{lease}", "status": "completed", "text": "done"},
    "a2a": {**_RPC, "method": "GetTask", "params": {"id": "{task}"}},
    "a2aInvoke": {"message": "hi"},
    "mcp": {**_RPC, "method": "tools/list", "params": {}},
}
#: Routes whose answer to the owner is a refusal, and why.
REFUSED_TO_ALL = {
    ("GET", "mcp"): "each message stands for itself, so there is no stream to listen to",
    ("DELETE", "mcp"): "nor a session to end",
    ("PUT", "uploadFile"): "its address is the credential, and is not in the route",
    ("GET", "downloadFile"): "its address is the credential, and is not in the route",
}


@dataclass(frozen=True)
class Told:
    """An answer, as far as it came."""

    status: int
    body: str
    headers: httpx.Headers

    @property
    def served(self) -> bool:
        """Whether it is more than a refusal; a refusal of JSON-RPC has the status of an answer."""
        rpc = '"jsonrpc":"2.0"' in self.body.replace(" ", "")
        return self.status < 400 and (not rpc or '"result"' in self.body)


class World:
    """Ann has one of everything. Bob has a key, and all of her ids."""

    def __init__(self, http: httpx.Client, app: App) -> None:
        self.app = app
        self.http = http
        keys = Keys(app.store, app.wall)
        self.keys: dict[str, str | None] = {
            "ann": keys.issue_now("ann", owner="local", permissions=["admin"])[0],
            "bob": keys.issue_now("bob", owner="bob")[0],
            # Of the same owner, for another agent.
            "cat": keys.issue_now("cat", owner="local", agents=["memory"])[0],
            "dan": keys.issue_now("dan", owner="local", agents=["memory"], of_agent=True)[0],
            "guess": "oag_" + "0" * 64,
            "nobody": None,
        }
        self.ids: dict[str, str] = {}
        self._furnish(keys)

    def _furnish(self, keys: Keys) -> None:
        ids, agent = self.ids, "/api/v1/agents/echo"
        ids["key"] = keys.issue_now(f"{PRIVATE} key", owner="local")[1].id
        ids["task"] = self.made("POST", f"{agent}/tasks", {"message": f"my {PRIVATE}"})["task_id"]
        self.say("ann", "GET", f"{agent}/tasks/{ids['task']}/events")
        hook = self.made("POST", f"{agent}/tasks/{ids['task']}/webhooks", _HOOK)
        ids["webhook"] = hook["webhook_id"]
        sent = f"{agent}/tasks/{ids['task']}/webhooks/{ids['webhook']}/deliveries"
        ids["delivery"] = self._once(sent, "deliveries", 1)["delivery_id"]
        ids["talk"] = self.made("POST", f"{agent}/conversations", {"title": f"my {PRIVATE}"})[
            "conversation_id"
        ]
        ids["message"] = self.made(
            "POST", f"{agent}/conversations/{ids['talk']}/messages", {"message": f"my {PRIVATE}"}
        )["message_id"]
        self._once(f"{agent}/conversations/{ids['talk']}/messages", "messages", 2)
        ids["file"] = self.made(
            "POST",
            "/api/v1/files/presign-upload",
            {"filename": f"{PRIVATE}.txt", "content_type": "text/plain"},
        )["file_id"]
        ids["response"] = self.made("POST", "/v1/responses", {"model": "echo", "input": f"my {PRIVATE}"})[
            "id"
        ]
        far = self.made("POST", "/api/v1/runtime/registrations", {"name": "far", "mode": "queue"})
        ids["lease"] = far["leaseId"]
        self.made("POST", "/api/v1/agents/far/tasks", {"message": f"my {PRIVATE}"})
        read = {"leaseId": ids["lease"], "blockMs": 5000}
        turns = self.made("POST", "/api/v1/runtime/registrations/far/deliveries/read", read)["deliveries"]
        ids["turn"] = turns[0]["deliveryId"]

    def _once(self, path: str, name: str, many: int) -> Any:
        """The last of a list, once it has so many."""
        for _ in range(1000):
            if len(found := self.made("GET", path)[name]) >= many:
                return found[-1]
        raise AssertionError(f"not {many} {name}")

    def made(self, method: str, path: str, body: Any = None) -> Any:
        told = self.say("ann", method, path, body)
        assert told.status < 300, (path, told)
        whole = json.loads(told.body)
        return whole.get("data", whole) if "success" in whole else whole

    def say(self, who: str, method: str, path: str, body: Any = None, *, keyed: bool = True) -> Told:
        """Send a request, and read the answer; of one without an end, its beginning."""
        headers = {"Accept": "application/json, text/event-stream", "Accept-Encoding": "identity"}
        if keyed:
            headers["Idempotency-Key"] = uuid4().hex
        if (key := self.keys[who]) is not None:
            headers["Authorization"] = f"Bearer {key}"
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        with self.http.stream(method, path, headers=headers, content=content) as answer:
            endless = answer.headers.get("content-type", "").startswith("text/event-stream")
            read = b""
            for piece in answer.iter_raw():
                read += piece
                if endless and b"/conversations/" in path.encode():
                    break
        return Told(answer.status_code, read.decode(errors="replace"), answer.headers)

    def path(self, route: Route) -> str:
        """A route's address with Ann's ids. A KeyError here is a part of a path that has no id in this world yet."""
        runtime = route.name.startswith("runtime.")
        by_place = {"files": "file", "api-keys": "key", "responses": "response"}
        named = {
            **dict.fromkeys(("agentId", "agent", "model"), "far" if runtime else "echo"),
            "taskId": self.ids["task"],
            "webhookId": self.ids["webhook"],
            "deliveryId": self.ids["turn" if runtime else "delivery"],
            **dict.fromkeys(("convId", "conversationId"), self.ids["talk"]),
        }
        for part, name in by_place.items():
            if f"/{part}/" in route.path:
                named["id"] = self.ids[name]
        spelled = re.sub(r"\{(\w+)\}", lambda found: named[found[1]], route.path)
        return f"{spelled}?task_id={self.ids['task']}" if route.name == "a2aStream" else spelled

    def body(self, route: Route) -> Any:
        if route.method not in ("POST", "PUT", "PATCH"):
            return None
        spelled = json.dumps(BODIES.get(route.name, {}))
        return json.loads(re.sub(r"\{(\w+)\}", lambda found: self.ids[found[1]], spelled))

    def ask(self, who: str, route: Route) -> Told:
        return self.say(who, route.method, self.path(route), self.body(route))

    def open_to_all(self, opened: bool) -> None:
        visibility = "public" if opened else "private"
        self.made("PATCH", "/api/v1/agents/echo", {"visibility": visibility})

    def seen_by_owner(self) -> dict[str, str]:
        """What Ann has, as she sees it."""
        agent = "/api/v1/agents/echo"
        paths = [
            agent,
            f"{agent}/tasks/{self.ids['task']}",
            f"{agent}/tasks/{self.ids['task']}/messages",
            f"{agent}/tasks/{self.ids['task']}/webhooks",
            f"{agent}/conversations?state=all",
            f"{agent}/conversations/{self.ids['talk']}/messages",
            f"/api/v1/files/{self.ids['file']}",
            "/api/v1/agents/far",
            "/api/v1/agents/far/tasks",
            f"/v1/responses/{self.ids['response']}",
        ]
        told = {path: self.say("ann", "GET", path).body for path in paths}
        # Each time it is asked for, a file has a new address.
        return {path: re.sub(r"https?://\S+?\"", '"', body) for path, body in told.items()}


@contextmanager
def world(folder: Path) -> Iterator[World]:
    app = build(f"sqlite:///{folder}/store.db", folder)
    options = {"heartbeat": 0.05, "guard": Guard(allow=["127.0.0.1"])}
    with (
        working(app),
        serving(app.http(gateway=options)) as url,
        httpx.Client(base_url=url, timeout=PATIENCE) as http,
    ):
        yield World(http, app)
    app.store.close()


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"
