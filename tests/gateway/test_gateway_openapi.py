"""The gateway's OpenAPI document: it is whole, real answers are as it says, and schemathesis finds nothing.

FAIRLEAD_EXAMPLES says how many requests it makes up for each operation, besides those that follow from the document.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema_rs
import pytest
from httpx_sse import EventSource
from openapi_spec_validator import validate

from fairlead import App
from fairlead.failures import catalogue
from fairlead.gateway.gateway import routes
from fairlead.gateway.keys import Keys
from fairlead.gateway.openapi import document
from fairlead.outgoing import Guard
from gateway.site_under_test import PATIENCE, STRANGER, add_keys, build, serving, working
from servers import free_port

HERE = Path(__file__).parent
EXAMPLES = os.environ.get("FAIRLEAD_EXAMPLES", "4")
Document = dict[str, Any]


@contextmanager
def served(app: App) -> Iterator[tuple[str, str]]:
    """The app on a real server, with a worker: its address, and a key that may do everything."""
    add_keys(app)
    key, _ = Keys(app.store).issue_now("all", owner="local", per_minute=1_000_000, permissions=["admin"])
    options = {"heartbeat": 0.05, "per_minute": 1_000_000, "guard": Guard(allow_private=True)}
    with working(app), serving(app.http(gateway=options)) as url:
        yield url, key


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", base64.b64encode(bytes(range(32))).decode())


@pytest.fixture(scope="module")
def told() -> Document:
    return document(routes())


def operations(told: Document) -> dict[str, tuple[str, str, Document]]:
    """Method, path and operation by operationId."""
    found = [
        (operation["operationId"], (method.upper(), path, operation))
        for path, methods in told["paths"].items()
        for method, operation in methods.items()
    ]
    assert len(dict(found)) == len(found), "an operationId stands twice"
    return dict(found)


# The document.


def test_it_is_a_valid_document(told: Document) -> None:
    validate(told)
    for schema in told["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def test_every_route_is_in_it_and_nothing_else(told: Document) -> None:
    there = {
        (route.method, route.path, route.name) for route in routes() if route.path.startswith("/api/v1/")
    }
    assert {(method, path, name) for name, (method, path, _) in operations(told).items()} == there


def test_all_shapes_are_used(told: Document) -> None:
    whole = json.dumps(told)
    unused = [name for name in told["components"]["schemas"] if f'"#/components/schemas/{name}"' not in whole]
    # Its codes are told apart in each response.
    assert unused == ["ErrorResponse"]


def test_the_parts_of_a_path_are_its_parameters(told: Document) -> None:
    for _, path, operation in operations(told).values():
        named = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
        assert named == re.findall(r"{(\w+)}", path)


def test_failures_have_the_codes_of_the_catalogue(told: Document) -> None:
    known = {(str(each.http_status), each.code) for each in catalogue("gateway") if each.http_status}
    responses = told["components"]["responses"]
    codes = {
        (name.removeprefix("Failure"), code)
        for name, response in responses.items()
        for code in response["content"]["application/json"]["schema"]["properties"]["error"]["properties"][
            "code"
        ]["enum"]
    }
    assert codes == known
    for _, _, operation in operations(told).values():
        assert {"400", "429", "500", "503", "504"} <= set(operation["responses"])
        assert ("401" in operation["responses"]) is ("security" not in operation)


def test_success_statuses_are_as_in_the_published_contract(told: Document) -> None:
    known = operations(told)
    statuses = {
        **dict.fromkeys(("createTask", "redeliverWebhook", "sendConversationMessage"), "202"),
        **dict.fromkeys(("cancelConversation", "clearConversation", "setConversationModel"), "202"),
        **dict.fromkeys(
            ("registerTaskWebhook", "createConversation", "createApiKey", "runtime.register"), "201"
        ),
        **dict.fromkeys(("deleteTaskWebhook", "deleteConversation", "revokeApiKey"), "204"),
        "deleteAgent": None,
    }
    for name, (_, _, operation) in known.items():
        found = [status for status in operation["responses"] if status < "300"]
        assert found == [each for each in (statuses.get(name, "200"),) if each], name


# What a running gateway says.


class Checked:
    """Asks by operationId, and holds every answer against the document: what is not in it is wrong, too."""

    def __init__(self, url: str, client: httpx.Client, told: Document) -> None:
        self.url = url
        self.client = client
        self._operations = operations(told)
        self._document = closed(told)
        self.seen: set[tuple[str, int]] = set()

    def __call__(
        self, name: str, *ids: str, status: int | None = None, body: Any = None, **options: Any
    ) -> httpx.Response:
        method, path, _ = self._operations[name]
        parts = iter(ids)
        path = re.sub(r"{\w+}", lambda _: quote(next(parts), safe=""), path)
        if body is not None:
            options["json"] = body
        return self.check(name, self.client.request(method, f"{self.url}{path}", **options), status)

    def data(self, *given: Any, **options: Any) -> Any:
        return self(*given, **options).json()["data"]

    def check(self, name: str, answer: httpx.Response, status: int | None = None) -> httpx.Response:
        _, _, operation = self._operations[name]
        if status is None:
            status = next(int(each) for each in operation["responses"] if each < "300")
        assert answer.status_code == status, (name, answer.status_code, answer.text)
        declared = self._resolved(operation["responses"][str(status)])
        for header in declared["headers"]:
            assert header in answer.headers or header == "Retry-After", (name, header)
        content = declared.get("content")
        media = answer.headers.get("content-type", "").partition(";")[0]
        if content is None:
            assert answer.content == b"", name
        elif media == "application/json":
            self._validate(content[media]["schema"], answer.json())
        elif media == "text/event-stream":
            for event in EventSource(answer).iter_sse():
                self._validate_event(content[media]["schema"], event)
        else:
            assert "*/*" in content, (name, media)
        self.seen.add((name, status))
        return answer

    def _validate_event(self, schema: Any, event: Any) -> None:
        kinds = schema.get("oneOf", [schema])
        (kind,) = [
            each
            for each in kinds
            if each["properties"].get("event", {"const": "message"})["const"] == event.event
        ]
        if "id" in kind["properties"] and event.event == "message":
            assert event.id == str(event.json()["offset"])
        self._validate(kind["properties"]["data"]["contentSchema"], event.json())

    def _validate(self, schema: Any, value: Any) -> None:
        jsonschema_rs.validator_for(
            {**schema, "components": self._document["components"]}, validate_formats=True
        ).validate(value)

    def _resolved(self, response: Any) -> Any:
        if "$ref" not in response:
            return closed(response)
        return self._document["components"]["responses"][response["$ref"].rpartition("/")[2]]


def closed(schema: Any) -> Any:
    """The same, where objects have no members that are not said."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    told = {key: closed(value) for key, value in schema.items()}
    return (
        {"additionalProperties": False, **told}
        if schema.get("type") == "object" and "properties" in told
        else told
    )


@pytest.fixture
def ask(app: App, told: Document) -> Iterator[Checked]:
    with served(app) as (url, key), httpx.Client(timeout=PATIENCE) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        yield Checked(url, client, client.get(f"{url}/api/v1/openapi.json").json())


def awaited(look: Any, wanted: Any) -> Any:
    """What a look finds once it is wanted."""
    waiting = threading.Event()
    for _ in range(int(PATIENCE / 0.02)):
        if wanted(found := look()):
            return found
        waiting.wait(0.02)
    raise AssertionError(found)


def walk_agents(ask: Checked) -> None:
    ask("getOpenApi")
    agents = ask("listAgents", params={"limit": "3"}).json()
    assert len(agents["data"]) == 3 < agents["total"]
    ask("updateAgent", "echo", body={"visibility": "public"})
    assert "createdAt" in ask.data("getAgent", "echo")
    ask("updateAgent", "echo", body={"name": "other"}, status=400)
    ask("deleteAgent", "echo", status=409)
    ask("getAgent", "nobody", status=404)
    ask("getAgent", "echo", headers={"Authorization": "Bearer nothing"}, status=401)
    ask("invokeAgent", "echo", body={"message": "hello", "metadata": {"a": "b"}})
    assert ask.data("invokeAgent", "broken", body={"message": "hello"})["is_error"] is True
    ask("invokeAgent", "busy", body={"message": "hello"}, status=409)
    ask("invokeAgent", "slow", body={"message": "never", "timeout_ms": 100}, status=504)
    ask("invokeAgent", "echo", body={"message": "x" * 2**20}, status=413)
    for agent in ("talker", "looker", "broken", "stumbler", "busy", "asker"):
        ask("invokeAgent", agent, body={"message": "hello"}, headers={"Accept": "text/event-stream"})


def walk_tasks(ask: Checked) -> tuple[str, str]:
    made = {agent: ask.data("createTask", agent, body={"message": "hello"})["task_id"] for agent in TASKED}
    ask("createTask", "echo", body={"message": "hello", "deadline_ms": 604_800_001}, status=400)
    waits = ask.data("createTask", "slow", body={"message": "wait", "deadline_ms": 60_000})["task_id"]
    for agent in ("asker", "burner"):
        status = "input_required" if agent == "asker" else "auth_required"
        awaited(
            lambda agent=agent: ask.data("getTask", agent, made[agent]),
            lambda task, status=status: task["status"] == status,
        )
        ask("listTaskMessages", agent, made[agent])
        answer = {"input": "red"} if agent == "asker" else {"auth_grant": True}
        ask("continueTask", agent, made[agent], body=answer)
    for agent, id in made.items():
        ask("streamTaskEvents", agent, id)
        ask("listTaskMessages", agent, id, params={"include_deltas": "true", "limit": "500"})
        ask("listTaskMessages", agent, id, params={"limit": "1"})
        ask("getTask", agent, id)
        ask("continueTask", agent, id, status=409)
    for name, ids in (("listUserTasks", ()), ("listAgentTasks", ("slow",))):
        ask(name, *ids, params={"state": "all", "limit": "1"})
        ask(name, *ids)
    ask("cancelTask", "slow", waits, body={"reason": "enough"})
    ask("streamTaskEvents", "slow", waits)
    ask("getTask", "echo", waits, status=404)
    ask("getTask", "echo", made["echo"], headers={"Authorization": f"Bearer {STRANGER}"}, status=403)
    ask("listUserTasks", params={"state": "running"}, status=400)
    return "echo", made["echo"]


TASKED = ("echo", "talker", "looker", "broken", "busy", "stumbler", "asker", "burner")


def walk_webhooks(ask: Checked, *task: str) -> None:
    url = f"http://127.0.0.1:{free_port()}/hook"
    open_task = ("slow", ask.data("createTask", "slow", body={"message": "hooked"})["task_id"])
    hook = ask.data("registerTaskWebhook", *open_task, body={"url": url, "secret": "s" * 16})["webhook_id"]
    ask("registerTaskWebhook", *task, body={"url": "nowhere"}, status=400)
    ask("listTaskWebhooks", *open_task)
    ask("cancelTask", *open_task)

    def failed(found: list[Any]) -> list[Any]:
        return [each for each in found if each["status"] == "failed"]

    found = awaited(lambda: ask.data("listWebhookDeliveries", *open_task, hook)["deliveries"], failed)
    ask("redeliverWebhook", *open_task, hook, failed(found)[0]["delivery_id"])
    ask("redeliverWebhook", *open_task, hook, "nothing", status=404)
    ask("adminDeliveries")
    ask("deleteTaskWebhook", *open_task, hook)


def walk_files(ask: Checked) -> None:
    made = ask.data("presignFileUpload", body={"filename": "a.txt", "content_type": "text/plain"})
    ask("getFile", made["file_id"])
    for status in (200, 409):
        about = {"Content-Type": "text/plain"}
        ask.check("uploadFile", httpx.put(made["upload_url"], content=b"hello", headers=about), status)
    assert ask.check("downloadFile", httpx.get(made["download_url"])).content == b"hello"
    ask("downloadFile", made["file_id"], status=403)
    ask("getFile", made["file_id"])
    ask("getFile", "nothing", status=404)
    files = [{"file_id": made["file_id"]}]
    task = ask.data("createTask", "echo", body={"message": "read", "attachments": files})["task_id"]
    ask("streamTaskEvents", "echo", task)


def walk_conversations(ask: Checked) -> None:
    agent, talk = "memory", ask.data("createConversation", "memory", body={"title": "One"})["conversation_id"]
    ask("createConversation", agent)
    ask("listConversations", agent, params={"limit": "1"})
    ask("renameConversation", agent, talk, body={"title": "Two"}, status=400)
    ask("renameConversation", agent, talk, body={"title": "Two"}, headers={"Idempotency-Key": "r"})
    sent = ask.data("sendConversationMessage", agent, talk, body={"message": "hello"})["message_id"]
    awaited(
        lambda: ask.data("listConversationMessages", agent, talk, params={"include_deltas": "1"})["messages"],
        lambda found: found[-1].get("state") == "completed",
    )
    ask("cancelConversation", agent, talk, body={"target_message_id": "nothing"}, status=404)
    ask("clearConversation", agent, talk, headers={"Idempotency-Key": "c"})
    ask("setConversationModel", agent, talk, body={"modelOverrideId": None}, headers={"Idempotency-Key": "m"})
    held = ask.data("createConversation", "slow")["conversation_id"]
    sent = ask.data("sendConversationMessage", "slow", held, body={"message": "talked"})["message_id"]
    ask("cancelConversation", "slow", held, body={"target_message_id": sent})
    ask("getConversation", agent, talk)
    for each in ((agent, talk), ("slow", held)):
        ask("deleteConversation", *each)
        ask("streamConversationEvents", *each)
        ask("sendConversationMessage", *each, body={"message": "hello"}, status=409)
    ask("getConversation", "echo", talk, status=400)
    ask("getConversation", agent, "nothing", status=404)


def walk_runtime(ask: Checked) -> None:
    lease = {
        "leaseId": ask.data("runtime.register", body={"name": "far", "skills": [{"name": "x"}]})["leaseId"]
    }
    ask("runtime.register", body={"name": "echo"}, status=409)
    ask("runtime.heartbeat", "far", body=lease)
    ask("runtime.heartbeat", "far", body={"leaseId": "7-x"}, status=409)
    task = ask.data("createTask", "far", body={"message": "hello"})["task_id"]
    (one,) = ask.data("runtime.read", "far", body=lease)["deliveries"]
    held = {**lease, "deliveries": [one["deliveryId"], "0.1"]}
    ask("runtime.ack", "far", body=held)
    ask("runtime.renew", "far", body=held)
    ask("runtime.release", "far", body=held)
    (one,) = ask.data("runtime.read", "far", body=lease)["deliveries"]
    events = [
        {"type": "thinking", "text": "hm"},
        {"type": "delta", "text": "hi"},
        {"type": "activity", "kind": "tool_call", "title": "look", "data": {"id": "1", "name": "look"}},
        {"type": "draft", "draft": {"text": "h"}},
    ]
    ask("runtime.say", "far", one["deliveryId"], body={**lease, "batch": "1", "events": events})
    ask("runtime.reply", "far", one["deliveryId"], body={**lease, "status": "completed", "text": "hi"})
    ask("runtime.reply", "far", one["deliveryId"], body={**lease, "status": "done"}, status=400)
    ask("streamTaskEvents", "far", task)
    ask("listAgents", params={"instance_id": "remote"})
    ask("adminAgents")
    ask("runtime.unregister", "far", body=lease)
    ask("invokeAgent", "far", body={"message": "hello"}, status=503)


def walk_operation(ask: Checked, task: str) -> None:
    body = {
        "name": "ci",
        "agents": ["echo"],
        "expires_at": "2999-01-01T00:00:00Z",
        "rate_limit_per_minute": 1,
    }
    key = ask.data("createApiKey", body=body)
    limited = {"Authorization": f"Bearer {key['key']}"}
    ask("listApiKeys", headers=limited, status=403)
    ask("listApiKeys")
    awaited(
        lambda: ask.client.get(f"{ask.url}/api/v1/agents", headers=limited),
        lambda told: told.status_code == 429,
    )
    ask("listAgents", headers=limited, status=429)
    ask("revokeApiKey", key["id"])
    ask("revokeApiKey", "nothing", status=404)
    for name in ("adminAgents", "adminTasks", "adminKeys", "adminRates", "adminAudit"):
        ask(name)
    ask("adminTasks", params={"state": "all"})
    ask("adminTask", task)
    ask("adminAudit", params={"since": "yesterday"}, status=400)


@pytest.mark.timeout(180)
def test_every_operation_answers_as_the_document_says(ask: Checked, told: Document) -> None:
    walk_agents(ask)
    task = walk_tasks(ask)
    walk_webhooks(ask, *task)
    walk_files(ask)
    walk_conversations(ask)
    walk_runtime(ask)
    walk_operation(ask, task[1])
    done = {name for name, status in ask.seen if status < 300}
    assert set(operations(told)) - done == {"deleteAgent"}


# What schemathesis makes of it.


def prepared(url: str, key: str) -> dict[str, str]:
    """Ids of things that are there, for requests that are to come further than to a 404."""
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {key}"}) as client:
        task = client.post("/agents/echo/tasks", json={"message": "hello"}).json()["data"]["task_id"]
        client.get(f"/agents/echo/tasks/{task}/events")
        talks = [
            client.post("/agents/echo/conversations").json()["data"]["conversation_id"] for _ in range(2)
        ]
        client.delete(f"/agents/echo/conversations/{talks[1]}")
        hook = client.post(f"/agents/echo/tasks/{task}/webhooks", json={"url": "http://127.0.0.1:9/"}).json()
        file = client.post("/files/presign-upload", json={"filename": "a", "content_type": "a/b"}).json()
        httpx.put(
            file["data"]["upload_url"], content=b"hello", headers={"Content-Type": "a/b"}
        ).raise_for_status()
    return {
        "agentId": "echo",
        "taskId": task,
        "convId": talks[0],
        "conversationId": talks[0],
        "closed": talks[1],
        "webhookId": hook["data"]["webhook_id"],
        "id": file["data"]["file_id"],
    }


def attack(url: str, key: str, folder: Path) -> None:
    """Raise what schemathesis says unless it finds nothing."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml")]
    command += [
        "run",
        f"{url}/api/v1/openapi.json",
        "--checks",
        "all",
        "--max-examples",
        EXAMPLES,
        "--seed",
        "1",
    ]
    command += ["--phases", "examples,coverage,fuzzing", "--no-color", "--suppress-health-check", "all"]
    # A method that an address does not take is an invalid_param (400): the contract has no code for 405.
    command += ["--exclude-checks", "unsupported_method", "--header", f"Authorization: Bearer {key}"]
    # Tables of characters are kept where our own tests keep theirs. Examples are not, so that each run is the same.
    command += ["--generation-database", "none"]
    settings = {
        "PYTHONPATH": str(HERE),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(HERE.parents[1] / ".hypothesis"),
        "SCHEMATHESIS_HOOKS": "schemathesis_hooks_of_gateway",
        "FAIRLEAD_IDS": json.dumps(prepared(url, key)),
    }
    ran = subprocess.run(
        command, env={**os.environ, **settings}, cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Server error" not in ran.stdout


def test_who_has_no_key_may_ask_what_is_served_as_often_as_a_caller_may(tmp_path: Path) -> None:
    app = build(f"sqlite:///{tmp_path / 'site.db'}", tmp_path)
    with serving(app.http(gateway={"per_minute": 3})) as url, httpx.Client(base_url=url) as client:
        assert client.get("/version").json() == {
            "name": app.name,
            "version": app.version,
            "contract": "1.1.0",
        }
        assert client.get("/spec/openapi.json").json() == client.get("/api/v1/openapi.json").json()
        assert [client.get("/version").status_code for _ in range(3)] == [200, 200, 429]
        assert client.get("/versions").status_code == 404


def test_strangers_are_counted_by_their_line_and_not_by_each_of_its_addresses(tmp_path: Path) -> None:
    app = build(f"sqlite:///{tmp_path / 'site.db'}", tmp_path)
    served = app.http(gateway={"per_minute": 2})

    async def asked(address: str) -> int:
        way = httpx.ASGITransport(served, client=(address, 1))
        async with httpx.AsyncClient(transport=way, base_url="http://gateway.test") as client:
            return (await client.get("/version")).status_code

    async def all_asked() -> list[int]:
        line = [f"2001:db8:0:1::{number:x}" for number in range(3)]
        mapped = ["192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201"]
        return [await asked(each) for each in (*line, "2001:db8:0:2::1", *mapped, "192.0.2.2")]

    assert asyncio.run(all_asked()) == [200, 200, 429, 200, 200, 200, 429, 200]
    app.store.close()


@pytest.mark.timeout(300)
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    app = build(f"sqlite:///{tmp_path}/store.db", tmp_path)
    try:
        with served(app) as (url, key):
            attack(url, key, tmp_path)
    finally:
        app.store.close()
