"""The testing kit, as users of it see it."""

import re
import sys
from typing import Any

import pytest

from fairlead import Action, App, Context, Failure, Kind, action
from fairlead.runtime import Invocation
from fairlead.testing import (
    SURFACES,
    FixedClock,
    SequentialIds,
    SurfaceDriver,
    collect_stream,
    create_test_runtime,
    expect_error,
    expect_log,
    expect_ok,
    stub_action,
)

pytest_plugins = ["pytester"]

#: Plugins of others, which are found as ours is, and take most of a second to load.
WITHOUT = ("-pno:cacheprovider", "-pno:langsmith_plugin", "-pno:schemathesis")


@action
async def add(a: int, b: int, ctx: Context) -> int:
    """Add two numbers."""
    ctx.logger.info("Adding numbers", a=a)
    return a + b


@action
async def crash() -> None:
    """Crash."""
    raise RuntimeError("boom")


@action(side_effects="destructive", permissions=["x"])
async def delete(ctx: Context) -> Any:
    """Delete."""
    return ctx.services.get("db")


async def test_expect_ok_gives_the_data() -> None:
    assert expect_ok(await create_test_runtime([add]).invoke("add", {"a": 1, "b": 2})) == 3


async def test_expect_ok_shows_the_failure_that_was_there() -> None:
    result = await create_test_runtime([add]).invoke("add", {"a": "x", "b": 2})
    with pytest.raises(AssertionError, match="VALIDATION_ERROR"):
        expect_ok(result)


async def test_expect_error_gives_the_failure() -> None:
    runtime = create_test_runtime([add, crash])
    failure = expect_error(await runtime.invoke("add", {"a": "x", "b": 2}), "VALIDATION_ERROR")
    assert failure.issues[0].path == ("a",)
    assert expect_error(await runtime.invoke("crash"), "INTERNAL_ERROR").message == "boom"
    assert isinstance(expect_error(await runtime.invoke("crash")), Failure)


async def test_expect_error_shows_what_was_there_instead() -> None:
    runtime = create_test_runtime([add, crash])
    with pytest.raises(AssertionError, match="succeeded"):
        expect_error(await runtime.invoke("add", {"a": 1, "b": 2}), "CONFLICT")
    with pytest.raises(AssertionError, match="INTERNAL_ERROR"):
        expect_error(await runtime.invoke("crash"), "CONFLICT")


async def test_expect_log_finds_by_text_pattern_or_function() -> None:
    result = await create_test_runtime([add]).invoke("add", {"a": 1, "b": 2})
    for wanted in ("Adding", re.compile("^Add.*s$"), lambda entry: entry["fields"]["a"] == 1):
        assert expect_log(result, wanted)["fields"] == {"a": 1}
    with pytest.raises(AssertionError, match="no log entry"):
        expect_log(result, "Subtracting")


async def test_everything_is_allowed_and_confirmed_by_default() -> None:
    runtime = create_test_runtime([delete])
    result = await runtime.invoke("delete")
    assert result.ok
    assert result.meta["surface"] == "json"


@pytest.mark.parametrize(
    ("allow", "message"),
    [(False, "denied by test runtime"), ("only on Mondays", "only on Mondays"), (lambda a, i, c: "no", "no")],
    ids=["False", "text", "checker"],
)
async def test_a_test_may_deny(allow: Any, message: str) -> None:
    failure = expect_error(await create_test_runtime([add], allow=allow).invoke("add", {"a": 1, "b": 2}))
    assert (failure.code, failure.message) == ("AUTHORIZATION_ERROR", message)


async def test_a_test_may_choose_the_surface_and_not_confirm() -> None:
    runtime = create_test_runtime([delete])
    expect_error(await runtime.invoke("delete", confirm=None), "CONFIRMATION_REQUIRED")
    assert (await runtime.invoke("delete", surface="cli")).meta["surface"] == "cli"


async def test_services_hooks_and_middleware_are_injected() -> None:
    words: list[str] = []

    async def layer(call: Any, next: Any) -> Any:
        words.append("layer")
        return await next()

    def end(invocation: Invocation) -> None:
        words.append("end")

    runtime = create_test_runtime(
        [delete],
        services={"db": "fake"},
        hooks={"on_invocation_end": end},
        middleware=[layer],
        redact={"keys": ["iban"]},
    )
    assert expect_ok(await runtime.invoke("delete")) == "fake"
    assert words == ["layer", "end"]


async def test_a_stream_is_collected_with_the_result_last() -> None:
    events = await collect_stream(create_test_runtime([add]).stream("add", {"a": 1, "b": 2}))
    assert [event["type"] for event in events] == ["log", "result"]
    assert events[-1]["envelope"]["data"] == 3


async def test_a_stub_answers_whatever_it_is_asked() -> None:
    runtime = create_test_runtime(
        [
            stub_action("ping"),
            stub_action("load", returns=[1, 2]),
            stub_action("zero", returns=0),
            stub_action("strict", input=int, side_effects="write"),
        ]
    )
    assert expect_ok(await runtime.invoke("ping", {"any": "thing"})) == {"ok": True}
    assert expect_ok(await runtime.invoke("ping")) == {"ok": True}
    assert expect_ok(await runtime.invoke("ping", None)) == {"ok": True}
    assert expect_ok(await runtime.invoke("load")) == [1, 2]
    assert expect_ok(await runtime.invoke("zero")) == 0
    assert expect_error(await runtime.invoke("strict", "x")).code == "VALIDATION_ERROR"
    stub = runtime.get("strict")
    assert stub is not None
    assert (stub.version, stub.side_effects) == ("0.0.0-test", "write")


def test_a_fixed_clock_moves_only_when_told(fixed_clock: FixedClock) -> None:
    assert fixed_clock.time() == fixed_clock.monotonic() == 1_700_000_000
    assert fixed_clock.stamp(fixed_clock.time()) == "2023-11-14T22:13:20.000Z"
    fixed_clock.move(1.5)
    assert fixed_clock.stamp(fixed_clock.time()) == "2023-11-14T22:13:21.500Z"


def test_sequential_ids_count(sequential_ids: SequentialIds) -> None:
    assert [sequential_ids(), sequential_ids()] == ["id-1", "id-2"]
    assert SequentialIds("task")() == "task-1"


async def test_a_promise_runs_over_each_surface(every_surface: SurfaceDriver) -> None:
    app = App("x", actions=[add])
    told = await every_surface.call(app, "add", {"a": 1, "b": 2})
    assert (told.ok, told.data, told.code, told.message) == (True, 3, None, None)
    assert told.exit_code == (0 if every_surface.name == "cli" else None)
    failed = await every_surface.call(app, "add", {"a": 1})
    assert (failed.ok, failed.data, failed.code) == (False, None, "VALIDATION_ERROR")
    assert failed.envelope["error"]["message"] == failed.message


def test_every_surface_has_a_name_of_its_own() -> None:
    names = [driver.name for driver in SURFACES]
    assert names[:3] == ["python", "json", "cli"]
    assert len(set(names)) == len(names)


def test_the_plugin_gives_its_fixtures_to_any_project(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        def test_clock(fixed_clock):
            fixed_clock.move(1)

        def test_ids(sequential_ids):
            assert sequential_ids() == "id-1"

        def test_surface(every_surface):
            assert every_surface.name
        """
    )
    done = pytester.runpytest_subprocess(*WITHOUT, "-q")
    done.assert_outcomes(passed=2 + len(SURFACES))


def test_a_surface_whose_callers_need_more_than_is_installed_is_skipped(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    pytester.makepyfile("def test_surface(every_surface): assert every_surface.name != 'client'")
    done = pytester.runpytest_inprocess(*WITHOUT, "-p", "no:asyncio", "-q")
    done.assert_outcomes(passed=len(SURFACES) - 1, skipped=1)


def test_the_plugin_imports_nothing_of_ours_until_it_is_used(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The plugins of others bring what they like.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import sys

        def test_nothing():
            ours = sorted(name for name in sys.modules if name.startswith("fairlead."))
            assert "pydantic" not in sys.modules
            assert not any(name.startswith(("fairlead.surfaces", "fairlead.testing.surfaces")) for name in ours)
        """
    )
    done = pytester.runpytest_subprocess(
        "-q", "-p", "no:cacheprovider", "-p", "fairlead.testing.pytest_plugin"
    )
    done.assert_outcomes(passed=1)


def test_kinds_and_actions_of_tests_are_the_real_ones() -> None:
    assert isinstance(add, Action)
    assert Kind("conflict") is Kind.conflict
