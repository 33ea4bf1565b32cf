"""Everything shown to anyone is redacted: fields, messages, progress, artifacts, errors, issues, hook input."""

from typing import Any

import pytest

from fairlead import App, Context, Failure, Kind
from fairlead._json import dumps
from fairlead.failures import Issue
from fairlead.runtime import Invocation, Result

SECRETS = {
    "bearer": ("Authorization: Bearer 0paque-t0ken-value", "0paque-t0ken-value"),
    "bearer short": ("Bearer abc123xyz", "abc123xyz"),
    "jwt": ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl here", "eyJhbGciOiJIUzI1NiJ9"),
    "sk": ("key sk-proj-abcdefghijklmnop1234 refused", "abcdefghijklmnop1234"),
    "github": ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz"),
    "slack": ("xoxb-1234567890-abcdefghij", "1234567890-abcdefghij"),
    "aws": ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    "dsn": ("postgres://admin:p4ssw0rd@db.internal/prod", "p4ssw0rd"),
    "pair": ("password=hunter2hunter2", "hunter2hunter2"),
    "quoted": ('password: "two words secret"', "two words secret"),
    "api key": ("x-api-key: k3y-value-123", "k3y-value-123"),
}


async def everything(secret: str, **options: Any) -> tuple[Result, list[dict[str, Any]], list[Invocation]]:
    """A call that says a secret in every way there is."""
    told: list[Invocation] = []
    app = App("x", hooks={"on_invocation_start": told.append, "on_invocation_end": told.append}, **options)

    @app.action
    async def leak(text: str, ctx: Context) -> None:
        """Leak."""
        ctx.logger.info(secret, note=secret, nested={"deep": [secret]})
        ctx.logger.error(secret, {secret: 1})
        ctx.progress.report(message=secret, fields={"note": secret})
        ctx.artifacts.add(name=secret, uri=f"https://x/?q={secret}", metadata={"note": secret})
        raise Failure(
            Kind.conflict,
            secret,
            field=secret,
            expected=secret,
            details={"note": secret, "deep": {"list": [secret]}},
            issues=[Issue(("a", secret), "code", secret, secret, secret)],
        )

    events = [event async for event in app.stream("leak", {"text": secret})]
    result = await app.invoke("leak", {"text": secret})
    return result, events, told


@pytest.mark.parametrize("name", SECRETS)
async def test_a_secret_is_shown_nowhere(name: str) -> None:
    text, secret = SECRETS[name]
    result, events, told = await everything(text)
    assert secret not in dumps(result.to_dict())
    assert secret not in dumps(events)
    for invocation in told:
        assert secret not in str(invocation.input)
    assert "[REDACTED]" in dumps(result.to_dict())


async def logged(fields: dict[str, Any], **options: Any) -> Any:
    app = App("x", **options)

    @app.action
    async def talk(ctx: Context) -> None:
        """Talk."""
        ctx.logger.info("said", fields)

    return (await app.invoke("talk")).logs[0]["fields"]


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "passwd",
        "secret",
        "token",
        "apikey",
        "api_key",
        "authorization",
        "cookie",
        "session",
        "x-api-key",
        "access_token",
        "refresh_token",
        "private_key",
        "client_secret",
        "Password",
        "API_KEY",
        "userToken",
        "X-Api-Key",
    ],
)
async def test_fields_with_the_name_of_a_secret_are_hidden_nested_too(key: str) -> None:
    fields = await logged({key: "v", "user": {key: ["v"], "name": "ann"}, "list": [{key: 5}]})
    assert fields == {
        key: "[REDACTED]",
        "user": {key: "[REDACTED]", "name": "ann"},
        "list": [{key: "[REDACTED]"}],
    }


async def test_harmless_things_are_left_alone() -> None:
    fields = {"max_tokens": 5, "title": "The secretary's password policy", "n": 1.5, "none": None, "ok": True}
    assert await logged(fields) == fields


async def test_own_keys_and_placeholder() -> None:
    redact = {"keys": ["iban", "employeeNumber"], "placeholder": "***"}
    fields = await logged(
        {"iban": "DE1", "employee_number": 5, "password": "x", "name": "ann"}, redact=redact
    )
    assert fields == {"iban": "***", "employee_number": "***", "password": "***", "name": "ann"}


async def test_own_keys_hold_for_messages_and_errors_too() -> None:
    app = App("x", redact={"keys": ["iban"], "placeholder": "***"})

    @app.action
    async def fail(ctx: Context) -> None:
        """Fail."""
        ctx.logger.info("iban=DE123456")
        raise Failure(Kind.conflict, "iban: DE123456", details={"iban": "DE123456"})

    told = dumps((await app.invoke("fail")).to_dict())
    assert "DE123456" not in told
    assert told.count("***") >= 3


async def test_own_keys_hold_for_what_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    def stumble(invocation: Invocation) -> None:
        raise ValueError(f"hook stumbled over iban={'DE123456'}")

    app = App("x", redact={"keys": ["iban"]}, hooks={"on_invocation_end": stumble})

    @app.action
    async def fail() -> None:
        """Fail."""
        raise ValueError(f"bad iban={'DE123456'}")

    await app.invoke("fail")
    assert "iban=[REDACTED]" in caplog.text
    assert "hook stumbled" in caplog.text
    assert "DE123456" not in caplog.text.replace("{'DE123456'}", "")


async def test_warnings_are_redacted() -> None:
    app = App("x", redact={"keys": ["iban"]})

    @app.action
    async def act(ctx: Context) -> None:
        """Act."""
        ctx.warn("token=hunter2 iban=DE123456")

    result = await app.invoke("act")
    assert result.warnings == result.meta["warnings"] == ["token=[REDACTED] iban=[REDACTED]"]


async def test_what_an_action_adds_to_the_meta_is_redacted() -> None:
    app = App("x", redact={"keys": ["iban"]})

    @app.action
    async def act(ctx: Context) -> None:
        """Act."""
        ctx.told_meta = {"agent": {"iban": "DE123456", "note": "token=hunter2", "steps": 3}}

    result = await app.invoke("act")
    told = {"agent": {"iban": "[REDACTED]", "note": "token=[REDACTED]", "steps": 3}}
    assert result.told_meta == told
    assert result.to_dict()["meta"].items() >= told.items()


@pytest.mark.parametrize("label", ["name", "key", "header", "variable"])
async def test_a_value_that_is_listed_under_the_name_of_a_secret_is_hidden_in_log_fields(label: str) -> None:
    app = App("x")

    @app.action
    async def leak(ctx: Context) -> None:
        """Leak."""
        ctx.logger.info("Set a variable.", {label: "API_KEY", "value": "hunter2hunter2"})
        ctx.progress.report(message="Half", fields={label: "API_KEY", "value": "hunter2hunter2"})

    events = [event async for event in app.stream("leak", {})]
    assert "hunter2hunter2" not in dumps([events, (await app.invoke("leak", {})).to_dict()])


async def test_a_text_under_pass_is_hidden_in_log_fields_and_a_number_is_not() -> None:
    assert await logged({"pass": "x"}) == {"pass": "[REDACTED]"}
    assert await logged({"pass": 12, "fail": 3}) == {"pass": 12, "fail": 3}


async def test_a_function_replaces_the_redaction_of_structures_and_patterns_still_hold() -> None:
    def shout(value: Any) -> Any:
        return {"seen": True}

    fields = await logged({"name": "ann"}, redact=shout)
    assert fields == {"seen": True}
    app = App("x", redact=shout)

    @app.action
    async def fail() -> None:
        """Fail."""
        raise Failure(Kind.conflict, "password=hunter2hunter2")

    assert "hunter2" not in dumps((await app.invoke("fail")).to_dict())


async def test_a_function_that_fails_shows_nothing() -> None:
    def broken(value: Any) -> Any:
        raise RuntimeError("x")

    app = App("x", redact=broken)

    @app.action
    async def talk(ctx: Context) -> int:
        """Talk."""
        ctx.logger.info("said", password="hunter2hunter2")
        return 1

    result = await app.invoke("talk")
    assert "hunter2" not in dumps(result.to_dict())


async def test_data_is_the_callers_and_is_not_redacted() -> None:
    app = App("x")

    @app.action
    async def issue_token() -> dict[str, str]:
        """Issue a token."""
        return {"token": "abc"}

    assert (await app.invoke("issue_token")).data == {"token": "abc"}


async def test_what_stays_inside_is_not_redacted() -> None:
    app = App("x")
    seen: list[str] = []

    @app.action
    async def login(password: str, ctx: Context) -> None:
        """Log in."""
        seen.append(password)

    assert (await app.invoke("login", {"password": "hunter2"})).ok
    assert seen == ["hunter2"]


async def test_a_secret_key_in_bad_input_is_not_told() -> None:
    app = App("x")

    @app.action
    async def act(n: int) -> None:
        """Act."""

    result = await app.invoke("act", {"n": 1, "ghp_abcdefghijklmnopqrstuvwxyz0123456789": 1})
    assert "abcdefghijklmnop" not in dumps(result.to_dict())


async def test_an_unknown_actions_name_is_redacted() -> None:
    result = await App("x").invoke("password=hunter2hunter2")
    assert "hunter2" not in dumps(result.to_dict())
