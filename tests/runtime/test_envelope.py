"""What a call gives back, and what an action may know and say during it."""

import asyncio
import re
from typing import Any

import pytest

from fairlead import Action, App, Context, Failure, Kind, Runtime
from fairlead._json import dumps, loads
from fairlead.runtime import Result
from fairlead.testing import FixedClock, SequentialIds

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def board(**options: Any) -> App:
    app = App("board", **options)

    @app.action
    async def add(a: int, b: int, ctx: Context) -> int:
        """Add two numbers."""
        ctx.logger.info("Adding", a=a)
        return a + b

    @app.action
    async def fail(code: str, ctx: Context) -> None:
        """Fail."""
        ctx.logger.warn("Failing")
        raise Failure(Kind(code), "as asked", field="code", retry_after=2.5, details={"n": 1})

    return app


async def test_a_success_has_exactly_these_keys() -> None:
    result = await board().invoke("add", {"a": 1, "b": 2}, surface="json", invocation_id="i-1")
    envelope = result.to_dict()
    assert list(envelope) == ["ok", "data", "artifacts", "logs", "meta"]
    assert (envelope["ok"], envelope["data"], envelope["artifacts"]) == (True, 3, [])
    assert envelope["meta"] == {
        "action": "add",
        "invocationId": "i-1",
        "surface": "json",
        "durationMs": envelope["meta"]["durationMs"],
    }
    assert isinstance(envelope["meta"]["durationMs"], int)
    assert [entry["message"] for entry in envelope["logs"]] == ["Adding"]
    assert (result.ok, result.data, result.failure, result.replayed) == (True, 3, None, False)
    assert result.unwrap() == 3


async def test_a_failure_has_exactly_these_keys() -> None:
    result = await board().invoke("fail", {"code": "conflict"})
    envelope = result.to_dict()
    assert list(envelope) == ["ok", "error", "artifacts", "logs", "meta"]
    assert envelope["error"] == {
        "code": "CONFLICT",
        "message": "as asked",
        "issues": [],
        "retryable": False,
        "field": "code",
        "details": {"n": 1},
        "retryAfter": 2.5,
    }
    assert len(envelope["logs"]) == 1
    assert (result.ok, result.data) == (False, None)
    with pytest.raises(Failure) as caught:
        result.unwrap()
    assert caught.value.kind is Kind.conflict


async def test_a_validation_failure_names_the_path() -> None:
    result = await board().invoke("add", {"a": "x", "b": 2})
    error = result.to_dict()["error"]
    assert (error["code"], error["message"]) == ("VALIDATION_ERROR", "Invalid action input.")
    assert [issue["path"] for issue in error["issues"]] == [["a"]]
    assert error["issues"][0]["code"]
    assert error["field"] == "a"


async def test_a_rejected_value_is_never_echoed() -> None:
    result = await board().invoke("add", {"a": "s3cr3t-value", "b": {"deep": "s3cr3t-value"}, "s3cr3t": 1})
    assert "s3cr3t-value" not in dumps(result.to_dict())


async def test_an_unknown_action_is_named_with_the_near_miss() -> None:
    result = await board().invoke("ad", {})
    assert result.failure is not None
    assert result.failure.code == "ACTION_NOT_FOUND"
    assert "'add'" in result.failure.message
    assert result.meta["action"] == "ad"


@pytest.mark.parametrize("name", [None, 5, {}, [], {"name": "add"}, object(), b"add", "", "add@9.9.9"])
async def test_what_is_no_name_finds_no_action(name: Any) -> None:
    result = await board().invoke(name, {})
    assert result.failure is not None
    assert result.failure.code == "ACTION_NOT_FOUND"


async def test_an_object_that_cannot_be_shown_finds_no_action() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("no")

        def __hash__(self) -> int:
            raise RuntimeError("no")

    result = await board().invoke(Hostile(), {})  # type: ignore[arg-type]
    assert result.failure is not None
    assert result.failure.code == "ACTION_NOT_FOUND"


async def test_an_action_need_not_be_registered() -> None:
    async def triple(n: int) -> int:
        """Triple."""
        return 3 * n

    assert (await Runtime().invoke(Action(triple), {"n": 2})).data == 6


async def test_no_input_is_an_empty_object() -> None:
    app = App("x")

    @app.action
    async def ping(n: int = 5) -> int:
        """Ping."""
        return n

    assert (await app.invoke("ping")).data == 5
    assert (await app.invoke("ping", {})).data == 5


async def test_ids_are_random_uuids_unless_given() -> None:
    app = board()
    first, second = [await app.invoke("add", {"a": 1, "b": 2}) for _ in range(2)]
    assert first.invocation_id != second.invocation_id
    assert UUID4.fullmatch(first.meta["invocationId"])
    assert first.meta["invocationId"] == first.invocation_id
    given = await app.invoke("add", {"a": 1, "b": 2}, invocation_id="mine")
    assert given.meta["invocationId"] == "mine"


@pytest.mark.parametrize("surface", ["unknown", "http", "mcp", "json"])
@pytest.mark.parametrize("id", [None, "mine"])
async def test_a_call_whose_context_nobody_asks_for_is_told_of_as_any_other(
    surface: str, id: str | None
) -> None:
    app = App("quiet")

    @app.action
    async def half(number: int) -> int:
        """Halve a number."""
        if number % 2:
            raise Failure(Kind.conflict, "odd")
        return number // 2

    async def told(number: object, code: str | None) -> dict[str, Any]:
        result = await app.invoke(
            half, {"number": number}, surface=surface, invocation_id=id, metadata={"known": True}
        )
        known = result.invocation_id
        meta: dict[str, Any] = result.to_dict()["meta"]
        assert known == meta["invocationId"] == result.invocation_id
        assert known == id if id else UUID4.fullmatch(known)
        assert (meta["action"], meta["surface"], result.surface) == ("half", surface, surface)
        assert (None if result.failure is None else result.failure.code) == code
        return meta

    assert "warnings" not in await told(4, None)
    assert (await told("4", None))["warnings"]
    await told(3, "CONFLICT")
    await told("four", "VALIDATION_ERROR")


@pytest.mark.parametrize("surface", ["nowhere", [], None])
async def test_a_surface_that_is_none_is_refused_in_an_envelope(surface: Any) -> None:
    app = App("quiet")

    @app.action
    async def half(number: int) -> int:
        """Halve a number."""
        return number // 2

    assert not (await app.invoke(half, {"number": 4}, surface=surface)).ok


async def test_time_and_ids_can_be_fixed(fixed_clock: FixedClock, sequential_ids: SequentialIds) -> None:
    app = board(clock=fixed_clock, new_id=sequential_ids)
    result = await app.invoke("add", {"a": 1, "b": 2})
    assert result.meta["invocationId"] == "id-1"
    assert result.meta["durationMs"] == 0
    assert result.logs[0]["time"] == "2023-11-14T22:13:20.000Z"


async def test_duration_is_measured_by_the_monotonic_clock(fixed_clock: FixedClock) -> None:
    app = App("x", clock=fixed_clock)

    @app.action
    async def wait() -> None:
        """Wait."""
        fixed_clock.move(1.25)

    result = await app.invoke("wait")
    assert (result.meta["durationMs"], result.duration) == (1250, 1.25)


async def test_the_context_has_the_calls_facts() -> None:
    app = App("x", services={"db": "database"}, env="production")
    seen: list[Context] = []

    @app.action(side_effects="write")
    async def look(ctx: Context) -> None:
        """Look."""
        seen.append(ctx)

    user, auth, metadata = {"id": 1}, {"permissions": ["a"]}, {"trace": "t"}
    await app.invoke(
        "look",
        surface="json",
        invocation_id="i-1",
        user=user,
        auth=auth,
        metadata=metadata,
        idempotency_key="k",
    )
    ctx = seen[0]
    assert (ctx.invocation_id, ctx.surface, ctx.env, ctx.idempotency_key) == (
        "i-1",
        "json",
        "production",
        "k",
    )
    assert (ctx.user, ctx.auth, ctx.metadata) == (user, auth, metadata)
    assert ctx.services["db"] == ctx.services.db == "database"
    assert ctx.signal.cancelled is False
    for name in ("logger", "artifacts", "progress"):
        assert getattr(ctx, name) is not None


async def test_the_context_of_a_bare_call_has_quiet_defaults() -> None:
    app = App("x")
    seen: list[Context] = []

    @app.action
    async def look(ctx: Context) -> None:
        """Look."""
        seen.append(ctx)

    await app.invoke("look")
    ctx = seen[0]
    assert (ctx.surface, ctx.env, ctx.user, ctx.auth) == ("unknown", "development", None, None)
    assert (dict(ctx.metadata), dict(ctx.services), ctx.idempotency_key) == ({}, {}, None)


async def test_services_of_a_call_replace_the_apps() -> None:
    app = App("x", services={"a": 1, "b": 2})
    seen: list[Any] = []

    @app.action
    async def look(ctx: Context) -> None:
        """Look."""
        seen.append(dict(ctx.services))

    await app.invoke("look", services={"c": 3})
    await app.invoke("look")
    assert seen == [{"c": 3}, {"a": 1, "b": 2}]


async def test_a_missing_service_is_a_wiring_failure_that_names_the_known_ones() -> None:
    app = App("x", services={"db": 1})

    @app.action
    async def look(ctx: Context) -> Any:
        """Look."""
        return ctx.services.cache

    result = await app.invoke("look")
    assert result.failure is not None
    assert result.failure.kind is Kind.misconfigured
    assert "db" in result.failure.message


async def test_logs_have_level_message_time_and_fields() -> None:
    app = App("x", clock=FixedClock(0.5))

    @app.action
    async def talk(ctx: Context) -> None:
        """Talk."""
        ctx.logger.debug("one")
        ctx.logger.info("two", {"a": 1}, b=2)
        ctx.logger.warn("three", level="mine", message="mine too")
        ctx.logger.warning("four")
        await ctx.logger.error("five", {"nested": {"list": [1]}})

    logs = (await app.invoke("talk")).logs
    assert [entry["level"] for entry in logs] == ["debug", "info", "warn", "warn", "error"]
    assert logs[0] == {"level": "debug", "message": "one", "time": "1970-01-01T00:00:00.500Z", "fields": {}}
    assert logs[1]["fields"] == {"a": 1, "b": 2}
    assert logs[2]["fields"] == {"level": "mine", "message": "mine too"}
    assert logs[4]["fields"] == {"nested": {"list": [1]}}


async def test_log_fields_become_json_and_harm_nobody() -> None:
    app = App("x")
    shared = {"n": 1}
    loop: dict[str, Any] = {}
    loop["self"] = loop

    @app.action(side_effects="write")
    async def talk(ctx: Context) -> str:
        """Talk."""
        ctx.logger.info("odd", function=talk, thing=object(), number={1, 2}, error=ValueError("bad"))
        ctx.logger.info("shared", first=shared, second=shared)
        ctx.logger.info("loop", loop=loop)
        ctx.logger.info("keys", {1: "one"})  # type: ignore[dict-item]
        ctx.logger.info("nan", nan=float("nan"), inf=float("inf"), big=10**30)
        return "done"

    result = await app.invoke("talk", idempotency_key="k")
    assert result.data == "done"
    assert result.logs[1]["fields"] == {"first": {"n": 1}, "second": {"n": 1}}
    assert loads(dumps(result.to_dict()))["ok"] is True
    assert (await app.invoke("talk", idempotency_key="k")).replayed


async def test_later_changes_of_logged_objects_are_not_seen() -> None:
    app = App("x")

    @app.action
    async def talk(ctx: Context) -> None:
        """Talk."""
        state = {"step": 1}
        ctx.logger.info("now", state=state)
        state["step"] = 2

    assert (await app.invoke("talk")).logs[0]["fields"] == {"state": {"step": 1}}


async def test_progress_is_told_as_a_log_entry() -> None:
    app = App("x")

    @app.action
    async def work(ctx: Context) -> None:
        """Work."""
        ctx.progress.report(message="Half", percent=50, fields={"rows": 3})
        await ctx.progress.report()
        ctx.progress.report(fields={"type": "mine"})

    logs = (await app.invoke("work")).logs
    assert (logs[0]["level"], logs[0]["message"]) == ("info", "Half")
    assert logs[0]["fields"] == {"type": "progress", "percent": 50, "rows": 3}
    assert logs[1]["message"] == "Progress update."
    assert logs[2]["fields"]["type"] == "mine"


async def test_artifacts_are_recorded_with_defaults() -> None:
    app = App("x", new_id=SequentialIds("a"))
    given: list[Any] = []

    @app.action
    async def make(ctx: Context) -> None:
        """Make."""
        given.append(ctx.artifacts.add(name="r.csv", mime_type="text/csv", uri="file:///r.csv", size_bytes=5))
        given.append(ctx.artifacts.add(type="image", id="mine", metadata={"w": 1}))

    artifacts = (await app.invoke("make", invocation_id="i")).artifacts
    assert artifacts[0] == {
        "id": "a-1",
        "type": "file",
        "mimeType": "text/csv",
        "sizeBytes": 5,
        "name": "r.csv",
        "uri": "file:///r.csv",
        "metadata": {},
    }
    assert artifacts[1] == {"id": "mine", "type": "image", "metadata": {"w": 1}}
    assert given == artifacts


async def test_what_is_said_after_the_end_is_not_heard() -> None:
    app = App("x", grace=0.01)
    ended = asyncio.Event()
    spoken = asyncio.Event()

    @app.action
    async def linger(ctx: Context) -> None:
        """Linger."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await ended.wait()
            ctx.logger.info("late")
            ctx.progress.report(message="late")
            ctx.artifacts.add(name="late")
            spoken.set()

    result = await app.invoke("linger", timeout=0.01)
    assert result.failure is not None
    assert result.failure.code == "TIMEOUT"
    before = result.to_dict()
    ended.set()
    await spoken.wait()
    assert result.to_dict() == before
    assert (result.logs, result.artifacts) == ([], [])


async def test_a_task_left_behind_cannot_speak_after_a_success() -> None:
    app = App("x")
    go = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    @app.action
    async def spawn(ctx: Context) -> int:
        """Spawn."""

        async def later() -> None:
            await go.wait()
            ctx.logger.info("late")
            ctx.artifacts.add(name="late")

        tasks.append(asyncio.create_task(later()))
        return 1

    result = await app.invoke("spawn")
    go.set()
    await tasks[0]
    assert (result.logs, result.artifacts) == ([], [])


async def test_an_envelope_keeps_the_newest_logs_only() -> None:
    app = App("x")

    @app.action
    async def talk(ctx: Context) -> None:
        """Talk."""
        for n in range(10_010):
            ctx.logger.info(str(n))

    logs = (await app.invoke("talk")).logs
    assert len(logs) == 10_000
    assert logs[-1]["message"] == "10009"


async def test_odd_numbers_in_progress_and_artifacts_do_not_lose_a_success() -> None:
    from decimal import Decimal

    app = App("x")

    @app.action(side_effects="write")
    async def act(ctx: Context) -> str:
        """Act."""
        ctx.progress.report(percent=Decimal("50"))  # type: ignore[arg-type]
        ctx.artifacts.add(name="x", size_bytes=Decimal(5))  # type: ignore[arg-type]
        return "done"

    result = await app.invoke("act", idempotency_key="k")
    assert result.ok
    dumps(result.to_dict())


async def test_every_envelope_is_json() -> None:
    app = board()
    results: list[Result] = [
        await app.invoke("add", {"a": 1, "b": 2}),
        await app.invoke("add", {"a": None, "b": object()}),
        await app.invoke("fail", {"code": "internal"}),
        await app.invoke("none"),
        await app.invoke("add", {"a": 1, "b": 2}, surface="pigeon"),
    ]
    for result in results:
        assert loads(dumps(result.to_dict()))["ok"] is result.ok


async def test_details_that_are_not_json_are_told_as_text() -> None:
    from datetime import UTC, datetime

    app = App("x")

    @app.action
    async def fail() -> None:
        """Fail."""
        raise Failure(
            Kind.conflict,
            "m",
            details={"at": datetime(2024, 1, 1, tzinfo=UTC), "set": {1}, "thing": object()},
        )

    envelope = (await app.invoke("fail")).to_dict()
    assert loads(dumps(envelope))["error"]["code"] == "CONFLICT"


async def test_the_repr_of_a_result_says_how_it_ended_and_no_data() -> None:
    app = board()
    assert repr(await app.invoke("add", {"a": 1, "b": 2})) == "Result('add', ok)"
    assert repr(await app.invoke("fail", {"code": "timeout"})) == "Result('fail', TIMEOUT)"


async def test_a_small_artifact_can_carry_its_bytes() -> None:
    app = App("app")

    @app.action
    async def draw(ctx: Context) -> None:
        """Draw a picture."""
        ctx.artifacts.add("dot.png", data=b"\x89PNG", mime_type="image/png")
        ctx.artifacts.add("note", data="é")

    png, note = (await app.invoke("draw")).artifacts
    assert (png["uri"], png["sizeBytes"]) == ("data:image/png;base64,iVBORw==", 4)
    assert (note["uri"], note["sizeBytes"]) == ("data:application/octet-stream;base64,w6k=", 2)
