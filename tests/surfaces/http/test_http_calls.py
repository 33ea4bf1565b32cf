"""Calls over HTTP: the published routes, their statuses, and who is calling."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from fairlead import Failure, Kind
from fairlead.failures import action as wire
from fairlead.failures import catalogue

Open = Callable[..., httpx.Client]
NODE = Path(sys.executable).with_name("node")


def call(
    client: httpx.Client, name: str, body: Any = None, base: str = "/fairlead", **options: Any
) -> httpx.Response:
    answer: httpx.Response = client.post(
        f"{base}/actions/{name}/invoke", json={"input": {}} if body is None else body, **options
    )
    return answer


def code(answer: httpx.Response) -> str:
    told: str = answer.json()["error"]["code"]
    return told


@pytest.mark.parametrize("base", ["/fairlead", "/ageniti"])
def test_94_listing_and_invoking_work_under_both_bases(open_site: Open, base: str) -> None:
    client = open_site()
    listed = client.get(f"{base}/actions")
    assert listed.status_code == 200
    names = [action["name"] for action in listed.json()["actions"]]
    assert "add" in names
    assert not {"raze", "near", "hidden"} & set(names)
    answer = call(client, "add", {"input": {"a": 2, "b": 3}}, base)
    assert (answer.status_code, answer.json()["data"]) == (200, {"sum": 5})
    assert answer.json()["meta"]["surface"] == "http"
    assert call(client, "add", {"arguments": {"a": 2}}, base).json()["data"] == {"sum": 3}


def test_95_a_bare_runtime_can_be_served(harbour: Any) -> None:
    from starlette.testclient import TestClient

    from fairlead import Runtime
    from fairlead.surfaces.http import HttpApp

    client: Any = TestClient(HttpApp(Runtime([harbour.app.get("add")])))
    assert call(client, "add", {"input": {"a": 1}}).json()["data"] == {"sum": 2}


def test_25_a_null_root_stays_null(open_site: Open) -> None:
    client = open_site()
    assert call(client, "nothing", {"input": None}).json()["data"] == "null"
    assert code(call(client, "nothing", {})) == "VALIDATION_ERROR"


@pytest.mark.parametrize("hidden", ["raze", "near", "hidden", "nowhere"])
@pytest.mark.parametrize("verb", ["invoke", "stream"])
def test_123_what_is_hidden_is_as_good_as_missing(open_site: Open, hidden: str, verb: str) -> None:
    client = open_site()
    answer = client.post(f"/fairlead/actions/{hidden}/{verb}", json={"confirm": True})
    assert (answer.status_code, code(answer)) == (404, "ACTION_NOT_FOUND")
    assert client.get(f"/fairlead/actions/{hidden}").status_code == 404


def test_a_filter_holds_for_listing_and_calling_alike(open_site: Open) -> None:
    client = open_site(filter=lambda action: action.name != "add")
    assert "add" not in [action["name"] for action in client.get("/fairlead/actions").json()["actions"]]
    assert call(client, "add", {"input": {"a": 1}}).status_code == 404


def test_a_destructive_action_that_is_shown_asks_first(open_site: Open, harbour: Any) -> None:
    client = open_site(include_destructive=True)
    refused = call(client, "raze")
    assert (refused.status_code, code(refused)) == (409, "CONFIRMATION_REQUIRED")
    for unsure in ("true", 1, "yes"):
        assert call(client, "raze", {"confirm": unsure}).status_code in (400, 409)
    assert harbour.effects == []
    assert call(client, "raze", {"confirm": True}).json()["data"] == "gone"


def test_60_identity_in_a_body_is_ignored(open_site: Open, harbour: Any) -> None:
    client = open_site()
    forged = {"input": {"name": "Ark"}, "user": {"id": "root"}, "auth": {"permissions": ["*"]}}
    answer = call(client, "sink", forged, headers={"x-caller": "ann"})
    assert (answer.status_code, code(answer)) == (403, "AUTHORIZATION_ERROR")
    assert call(client, "sink", forged).status_code == 401
    assert harbour.effects == []


def test_61_identity_comes_from_the_edge(open_site: Open) -> None:
    client = open_site()
    trusted = {"x-caller": "ann", "x-permissions": "ships:*"}
    assert call(client, "sink", {"input": {"name": "Ark"}}, headers=trusted).status_code == 200
    told = call(client, "who", {"metadata": {"edge": "no", "note": 1}}, headers=trusted).json()["data"]
    assert told["user"] == {"id": "ann"}
    assert told["metadata"]["edge"] == "yes"
    assert told["metadata"]["note"] == 1


def test_a_resolver_that_throws_gives_nothing_away(open_site: Open) -> None:
    answer = call(open_site(), "who", headers={"x-caller": "broken"})
    assert answer.status_code == 500
    assert "hunter2" not in answer.text


def test_59_a_failures_status_and_pause_follow_from_its_kind(open_site: Open) -> None:
    client = open_site()
    for kind in Kind:
        answer = call(client, "fail", {"input": {"code": kind.value}})
        expected = Failure(kind, "x")
        assert (answer.status_code, code(answer)) == (wire.http_status(expected), expected.code), kind
        assert answer.headers["retry-after"] == "2"


def test_a_secret_in_an_exception_stays_inside(open_site: Open) -> None:
    answer = call(open_site(), "leak")
    assert (answer.status_code, code(answer)) == (500, "INTERNAL_ERROR")
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("header", ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"])
def test_a_key_makes_repeating_harmless(open_site: Open, harbour: Any, header: str) -> None:
    client = open_site()
    answers = [call(client, "pay", {"input": {"amount": 5}}, headers={header: "k"}) for _ in range(2)]
    assert [answer.json()["data"] for answer in answers] == [1, 1]
    assert answers[1].json()["meta"]["idempotent"] == "replayed"
    assert call(client, "pay", {"input": {"amount": 5}, "idempotencyKey": "k"}).json()["data"] == 1
    other = call(client, "pay", {"input": {"amount": 6}}, headers={header: "k"})
    assert (other.status_code, code(other)) == (409, "CONFLICT")
    both = call(client, "pay", {"input": {"amount": 5}, "idempotencyKey": "other"}, headers={header: "k"})
    assert both.status_code == 400
    assert harbour.effects == [5]


def test_a_time_limit_is_sent_in_milliseconds(open_site: Open, harbour: Any) -> None:
    answer = call(open_site(), "wait", {"timeoutMs": 20})
    assert (answer.status_code, code(answer)) == (504, "TIMEOUT")
    assert harbour.cancelled.is_set()


def test_a_batch_runs_each_call_on_its_own(open_site: Open) -> None:
    client = open_site(max_batch=3)
    calls = [{"action": "add", "input": {"a": 1}}, {"action": "nowhere"}, {"action": "add", "input": {}}]
    answer = client.post("/fairlead/batch", json={"calls": calls})
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [result["ok"] for result in results] == [True, False, False]
    assert [result["error"]["code"] for result in results[1:]] == ["ACTION_NOT_FOUND", "VALIDATION_ERROR"]
    assert client.post("/fairlead/batch", json={"calls": calls * 2}).status_code in (400, 413)


def test_problem_details_are_given_to_those_who_ask(open_site: Open) -> None:
    answer = call(open_site(), "add", {"input": {}}, headers={"accept": "application/problem+json"})
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (400, "VALIDATION_ERROR")
    assert problem["type"].endswith("VALIDATION_ERROR")
    assert problem["issues"][0]["path"] == ["a"]


def test_every_code_of_the_family_has_a_status_of_a_failure() -> None:
    for entry in catalogue("action"):
        assert entry.http_status is not None
        assert 400 <= entry.http_status <= 599


SCRIPT = """
const [url] = process.argv.slice(2);
const invoke = async (name, input, options = {}) => {
  const response = await fetch(`${url}/ageniti/actions/${name}/invoke`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(options.key ? { "idempotency-key": options.key } : {}) },
    body: JSON.stringify({ input, confirm: options.confirm, metadata: options.metadata, idempotencyKey: options.key }),
  });
  const envelope = await response.json();
  if (typeof envelope.ok !== "boolean") throw new Error("INVALID_RESPONSE");
  return envelope;
};
const sum = await invoke("add", { a: 2, b: 3 });
const first = await invoke("pay", { amount: 1 }, { key: "k" });
const again = await invoke("pay", { amount: 1 }, { key: "k" });
const wrong = await invoke("add", {});
const none = await invoke("nothing", null);
console.log(JSON.stringify([sum.data, first.data, again.data, wrong.error.code, none.data]));
"""


def test_the_published_clients_way_of_calling_works_unchanged(open_site: Open, tmp_path: Path) -> None:
    script = tmp_path / "client.mjs"
    script.write_text(SCRIPT)
    url = str(open_site().base_url).rstrip("/")
    done = subprocess.run([NODE, script, url], capture_output=True, text=True, timeout=30, check=False)
    assert json.loads(done.stdout) == [{"sum": 5}, 1, 1, "VALIDATION_ERROR", "null"], done.stderr
