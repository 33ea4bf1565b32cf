"""Whatever a provider sends, it ends as a reply or as a failure, and never as another exception."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.agents.models import Message, Model, Models, Reply, Request, Retries
from fairlead.failures import Failure
from model_servers import SPEECHES, Answer, ModelServer, Said, Streamed, event

REQUEST = Request([Message("user", "Hello")])
SAID = Said("Good day.", (("c1", "add", {"a": 1}),), reasoning="Hm.", stop="tool_calls", signature="c2lnbmVk")

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from places(item, (*path, at))


def changed(value: Any, path: tuple[Any, ...], new: Any, gone: bool) -> Any:
    """A copy with something else, or nothing, at a place."""
    if not path:
        return new
    value = copy.deepcopy(value)
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    if gone:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return value


@st.composite
def broken(draw: st.DrawFn, whole: Any) -> Any:
    path = draw(st.sampled_from(list(places(whole))))
    return changed(whole, path, draw(JSON), draw(st.booleans()))


def events_of(pieces: list[bytes]) -> list[tuple[Any, str | None]]:
    found: list[tuple[Any, str | None]] = []
    for piece in pieces:
        lines = piece.decode().splitlines()
        name = next((line[7:] for line in lines if line.startswith("event: ")), None)
        data = next(line[6:] for line in lines if line.startswith("data: "))
        found.append((data if data == "[DONE]" else json.loads(data), name))
    return found


class Line:
    """A provider whose next answer can be set, and the model that asks it, on one event loop."""

    def __init__(self, speech: Any) -> None:
        self.speech = speech
        self.runner = asyncio.Runner()
        self.server = ModelServer(Answer({}))
        self.running = self.server.run()
        self.runner.run(self.running.__aenter__())
        base = f"{self.server.url}/v1" if speech.kind == "openai" else self.server.url
        self.models = Models(
            providers={"acme": {"kind": speech.kind, "base_url": base}},
            retries=Retries(attempts=1),
            environ={},
        )

    def outcome(self, answer: Any, *, stream: bool) -> Reply | Failure:
        self.server.answers = [answer]
        model = self.models.resolve("acme/m-1")
        return self.runner.run(_streamed(model) if stream else _whole(model))

    def close(self) -> None:
        self.runner.run(self.models.close())
        self.runner.run(self.running.__aexit__(None, None, None))
        self.runner.close()


async def _whole(model: Model) -> Reply | Failure:
    try:
        return await model.reply(REQUEST)
    except Failure as failure:
        return failure


async def _streamed(model: Model) -> Reply | Failure:
    try:
        events = [each async for each in model.stream(REQUEST)]
    except Failure as failure:
        return failure
    assert isinstance(events[-1], Reply)
    return events[-1]


@pytest.fixture(scope="module", params=SPEECHES, ids=lambda speech: str(speech.kind))
def line(request: pytest.FixtureRequest) -> Iterator[Line]:
    line = Line(request.param)
    yield line
    line.close()


many = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@many
@given(data=st.data())
def test_a_broken_body_ends_as_a_reply_or_a_failure(line: Line, data: st.DataObject) -> None:
    body = data.draw(broken(line.speech.whole(SAID)) | JSON)
    status = data.draw(st.sampled_from([200, 200, 200, 201, 400, 418, 500]))
    line.outcome(Answer(body, status), stream=False)


@many
@given(data=st.data())
def test_a_broken_stream_ends_as_a_reply_or_a_failure(line: Line, data: st.DataObject) -> None:
    events = events_of(line.speech.pieces(SAID))
    at = data.draw(st.integers(0, len(events) - 1))
    value = data.draw(broken(events[at][0]) | st.text(max_size=8))
    pieces = [event(value if at == place else each, name) for place, (each, name) in enumerate(events)]
    dropped = data.draw(st.integers(0, len(pieces)))
    kept = pieces[:dropped] + pieces[dropped + data.draw(st.integers(0, 2)) :]
    line.outcome(Streamed(kept, cut=data.draw(st.booleans())), stream=True)


@many
@given(body=st.binary(max_size=64), stream=st.booleans())
def test_a_body_of_any_bytes_ends_as_a_failure(line: Line, body: bytes, stream: bool) -> None:
    answer = Streamed([body or b" "]) if stream else Answer(body)
    assert isinstance(line.outcome(answer, stream=stream), Failure)
