"""What the console's page can ask: the app, calls, failures explained, and an action as others see it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from fairlead import App, Context, Failure, Kind, action
from fairlead.actions import describe_action
from fairlead.failures import catalogue
from fairlead.failures.redaction import Redactor
from fairlead.surfaces.console.advice import ADVICE
from fairlead.surfaces.console.keep import keepable


def ask(console: Any, path: str, body: Any = None) -> Any:
    answer = console.send("GET" if body is None else "POST", f"/api/{path}", body)
    assert answer.status == 200, answer.body
    return answer.json


def test_the_app_is_told_with_all_its_actions(console: Any) -> None:
    told = ask(console, "actions")
    assert told["app"] == "harbour"
    by_name = {each["name"]: each for each in told["actions"]}
    assert by_name["whisper"]["visibility"] == "private"
    assert by_name["old_echo"]["visibility"] == "local"
    assert by_name["burn_down"]["sideEffects"] == "destructive"
    assert set(by_name["echo"]) > {"inputSchema", "outputSchema", "docs", "commandName", "permissions"}
    assert told["about"]["version"] == "2.1.0"


def test_an_action_is_called_over_http(console: Any) -> None:
    told = ask(console, "actions/echo/invoke", {"input": {"value": [1, "two"]}})
    assert (told["ok"], told["data"], told["meta"]["surface"]) == (True, [1, "two"], "dev")


def test_a_failure_has_its_status_and_is_a_whole_envelope(console: Any) -> None:
    answer = console.send("POST", "/api/actions/fail/invoke", {"input": {"kind": "conflict"}})
    assert (answer.status, answer.code) == (409, "CONFLICT")
    answer = console.send("POST", "/api/actions/echo_o/invoke", {})
    assert (answer.status, answer.code) == (404, "ACTION_NOT_FOUND")
    answer = console.send("POST", "/api/actions/echo/invoke", b"{", content_type="application/json")
    assert (answer.status, answer.code) == (400, "INVALID_JSON_BODY")


def test_an_action_is_called_as_a_stream_of_events(console: Any) -> None:
    answer = console.send("POST", "/api/actions/drip/stream", {"input": {"n": 2}}, accept="text/event-stream")
    events = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: ")]
    assert [each["type"] for each in events] == ["chunk", "chunk", "result"]


def test_an_action_that_the_console_does_not_support_is_not_there(serve: Any) -> None:
    app = App("small")

    @app.action(supported_surfaces=["http"])
    async def elsewhere() -> None:
        """Be elsewhere."""

    made = app.console()
    served = serve(made)
    served.open(made.link(served.address))
    assert ask(served, "actions")["actions"] == []
    for path in ("invoke", "snippets", "keep"):
        assert served.send("POST", f"/api/actions/elsewhere/{path}", {}).code == "ACTION_NOT_FOUND"


def test_a_bare_runtime_has_a_console_too(serve: Any) -> None:
    from fairlead import Runtime
    from fairlead.surfaces.console import Console

    @action
    async def hello() -> str:
        """Say hello."""
        return "hello"

    made = Console(Runtime([hello]))
    served = serve(made)
    served.open(made.link(served.address))
    assert [each["name"] for each in ask(served, "actions")["actions"]] == ["hello"]
    assert ask(served, "actions/hello/invoke", {})["data"] == "hello"
    assert ask(served, "actions/hello/surfaces")["surfaces"]


def test_code_names_the_address_that_the_app_is_served_at(serve: Any) -> None:
    from fairlead.surfaces.console import Console

    app = App("small")

    @app.action
    async def hello() -> str:
        """Say hello."""
        return "hello"

    made = Console(app, address="http://127.0.0.1:9")
    served = serve(made)
    served.open(made.link(served.address))
    code = ask(served, "actions/hello/snippets", {})["snippets"]
    assert [each["name"] for each in code if "http://127.0.0.1:9" in each["text"]] == [
        "curl",
        "Python",
        "TypeScript",
    ]


def test_services_live_with_the_server(serve: Any) -> None:
    app, log = App("small"), list[str]()

    @app.service
    def lamp() -> Any:
        log.append("on")
        yield "light"
        log.append("off")

    @app.action
    async def look(ctx: Context) -> str:
        """Look."""
        seen: str = ctx.services.lamp
        return seen

    made = app.console()
    served = type(serve(App("other").console()))(made)
    served.open(made.link(served.address))
    assert log == []
    assert ask(served, "actions/look/invoke", {})["data"] == "light"
    served.stop()
    assert log == ["on", "off"]


# Failures, explained.


def test_every_kind_of_failure_has_advice() -> None:
    assert set(ADVICE) == set(Kind)
    assert all(advice.steps for advice in ADVICE.values())


def test_every_code_is_explained_also_the_apps_own(console: Any) -> None:
    class OutOfRope(Failure, code="out_of_rope", kind=Kind.exhausted):
        """The rope is used up."""

    told = {each["code"]: each for each in ask(console, "failures")["failures"]}
    assert told.keys() >= {each.code for each in catalogue()}
    assert told[OutOfRope.code]["message"] == "The rope is used up."
    assert told["TIMEOUT"]["httpStatus"] == 504
    assert told["TIMEOUT"]["retryable"] is True
    assert all(each["steps"] and each["turn"] for each in told.values())


# What may be kept.


def test_secrets_are_not_kept(console: Any) -> None:
    given_ = {"user": "ada", "password": "hunter2", "pin": "1234", "api_key": "k"}
    kept = ask(console, "actions/log_in/keep", {"input": given_})["input"]
    assert kept == {"user": "ada", "password": "[REDACTED]", "pin": "[REDACTED]", "api_key": "[REDACTED]"}


def test_names_of_secrets_are_told_so_that_the_form_hides_them(console: Any) -> None:
    told = {each["name"]: each["secretFields"] for each in ask(console, "actions")["actions"]}
    assert told["log_in"] == ["api_key", "password", "pin"]
    assert told["echo"] == []


class Inner(BaseModel):
    code: SecretStr
    name: str = ""


class Deep(BaseModel):
    one: Inner
    keys: list[SecretStr] = []
    within: Deep | None = None
    many: list[Inner] = []
    named: dict[str, Inner] = {}
    perhaps: Inner | int | None = None


@action
async def take(deep: Deep) -> None:
    """Take something deep."""


@given(st.text(alphabet="abcxyz0189", min_size=8).map("hidden-".__add__))
def test_a_secret_is_found_wherever_the_schema_puts_it(secret: str) -> None:
    inner = {"code": secret, "name": "open"}
    value: dict[str, Any] = {
        "one": inner,
        "keys": [secret],
        "many": [inner],
        "named": {"a": inner},
        "perhaps": inner,
    }
    kept = keepable({**value, "within": value, "unknown": [value]}, take.input.json_schema, Redactor())
    assert secret not in json.dumps(kept)
    assert json.dumps(kept).count("open") == 12


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_what_does_not_fit_the_schema_is_kept_all_the_same(value: Any) -> None:
    json.dumps(keepable(value, take.input.json_schema, Redactor()))


# The action as others see it.

SHOWN = ["cli", "http", "mcp", "json", "typescript", "openai", "openai-responses", "anthropic", "gemini"]


def views(console: Any, action: str) -> dict[str, Any]:
    told = ask(console, f"actions/{action}/surfaces")["surfaces"]
    assert [each["id"] for each in told] == SHOWN
    return {each["id"]: each for each in told}


def test_every_surface_shows_an_action_in_its_own_words(console: Any) -> None:
    told = views(console, "echo")
    assert all(each["shown"] and each["why"] is None and each["text"] for each in told.values())
    assert "--value" in told["cli"]["text"]
    assert "/fairlead/actions/echo/invoke" in json.loads(told["http"]["text"])
    assert json.loads(told["mcp"]["text"])["inputSchema"]["properties"].keys() == {"value"}
    assert json.loads(told["openai"]["text"])[0]["function"]["name"] == "echo"
    assert json.loads(told["anthropic"]["text"])[0]["name"] == "echo"
    assert "EchoInput" in told["typescript"]["text"]


@pytest.mark.parametrize(
    ("action", "word"), [("whisper", "private"), ("old_echo", "local"), ("burn_down", "destructive")]
)
def test_a_surface_that_hides_an_action_says_why_and_what_it_would_show(
    console: Any, action: str, word: str
) -> None:
    told = views(console, action)
    assert not told["mcp"]["shown"]
    assert f"include_{word}" in told["mcp"]["why"]
    assert action in told["mcp"]["text"]
    assert told["cli"]["shown"] == (word != "private")


def test_the_views_of_everything_can_be_made(console: Any) -> None:
    assert all(each["text"] for each in views(console, "everything").values())


def test_the_console_shows_what_the_manifest_says(console: Any) -> None:
    from fairlead.surfaces.console.api import EXPOSURE

    told = ask(console, "actions")["actions"]
    assert EXPOSURE.include_private
    app = App("small")

    @app.action
    async def one(n: int = 1) -> int:
        """One."""
        return n

    assert set(told[0]) - set(describe_action(one)) == {"secretFields"}
