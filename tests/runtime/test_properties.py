"""Whatever is put into a call, a well-formed envelope comes out."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from fairlead import App, Context, Failure, Kind
from fairlead._json import dumps, loads
from fairlead.failures import action as wire
from fairlead.runtime import Result

TEXT = st.text(st.characters(), max_size=12)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.dictionaries(
    st.sampled_from(["n", "name", "tags", "task", "mode", "Name", "properties", "input"]) | TEXT,
    JSON,
    max_size=5,
)


class Task(BaseModel):
    title: str
    points: Annotated[int, Field(ge=0)] = 0
    parts: list["Task"] = []


@dataclass
class Size:
    w: float
    h: float = 1.0


app = App("x")


@app.action
async def several(
    n: int,
    name: str = "",
    tags: list[str] | None = None,
    task: Task | None = None,
    mode: Literal["fast", "slow"] = "fast",
    size: Size | None = None,
) -> dict[str, Any]:
    """Take several."""
    return {"n": n, "name": name, "tags": tags, "mode": mode}


@app.action
async def model(task: Task) -> Task:
    """Take a model."""
    return task


@app.action(input=Any)
async def echo(value: Any) -> Any:
    """Give back."""
    return value


@app.action(side_effects="destructive")
async def delete(n: int) -> int:
    """Delete."""
    return n


def check(result: Result, action: str) -> None:
    envelope = loads(dumps(result.to_dict()))
    assert envelope["ok"] is result.ok
    assert isinstance(envelope["logs"], list)
    assert isinstance(envelope["artifacts"], list)
    assert isinstance(envelope["meta"]["durationMs"], int)
    assert {"action", "invocationId", "surface", "durationMs"} <= envelope["meta"].keys()
    if result.ok:
        assert "error" not in envelope
        return
    error = envelope["error"]
    assert error["code"] == error["code"].upper()
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["retryable"], bool)
    for issue in error["issues"]:
        assert {"path", "code", "message"} <= issue.keys()
    assert result.failure is not None
    assert wire.parse(envelope).kind is result.failure.kind


@given(action=st.sampled_from(["several", "model", "echo", "delete"]), input=JSON | FIELDS)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_any_input_gives_a_well_formed_envelope(action: str, input: Any) -> None:
    result = await app.invoke(action, input)
    check(result, action)
    if result.failure is not None:
        assert result.failure.code in (
            "VALIDATION_ERROR",
            "CONFIRMATION_REQUIRED",
            "OUTPUT_SERIALIZATION_ERROR",
            "OUTPUT_VALIDATION_ERROR",
        )


ODD = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | JSON


@given(
    action=ODD,
    options=st.fixed_dictionaries(
        {},
        optional={
            "surface": st.text(max_size=8),
            "user": ODD,
            "auth": ODD,
            "metadata": st.none() | FIELDS,
            "timeout": ODD.filter(
                lambda value: not isinstance(value, float | int) or value > 1 or value <= 0
            ),
            "deadline": ODD.filter(
                lambda value: not isinstance(value, float | int) or value > 1 or value <= 0
            ),
            "retry": ODD,
            "confirm": ODD,
            "idempotency_key": st.none() | TEXT,
        },
    ),
    known=st.booleans(),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_any_options_give_a_well_formed_envelope(
    action: Any, options: dict[str, Any], known: bool
) -> None:
    check(await app.invoke("delete" if known else action, {"n": 1}, **options), "any")


@given(
    kind=st.sampled_from(list(Kind)),
    message=TEXT,
    field=st.none() | TEXT,
    expected=st.none() | TEXT,
    details=st.dictionaries(TEXT, JSON, max_size=3),
    retry_after=st.none() | st.floats(),
    retryable=st.none() | st.booleans(),
)
@settings(max_examples=200, deadline=None)
async def test_any_failure_gives_a_well_formed_envelope(kind: Kind, **parts: Any) -> None:
    failing = App("x")

    @failing.action
    async def fail() -> None:
        """Fail."""
        raise Failure(kind, **parts)

    check(await failing.invoke("fail"), "fail")


@given(
    message=TEXT,
    fields=st.dictionaries(TEXT, JSON, max_size=3),
    percent=st.none() | st.floats() | st.integers(),
)
@settings(max_examples=200, deadline=None)
async def test_anything_said_gives_a_well_formed_envelope(
    message: str, fields: dict[str, Any], percent: float | None
) -> None:
    talking = App("x")

    @talking.action(side_effects="write")
    async def talk(ctx: Context) -> int:
        """Talk."""
        ctx.logger.info(message, fields)
        ctx.progress.report(message=message, percent=percent, fields=fields)
        ctx.artifacts.add(name=message, uri=message, metadata=fields)
        return 1

    result = await talking.invoke("talk", idempotency_key="k")
    assert result.ok
    check(result, "talk")
    replay = await talking.invoke("talk", idempotency_key="k")
    assert replay.replayed
    check(replay, "talk")
