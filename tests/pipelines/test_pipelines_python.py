"""The Python API: graphs built with operators, programs in files, and a pipeline as an action on every surface."""

import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from fairlead import App, Failure
from fairlead.agents.models.script import ScriptModel
from fairlead.agents.models.script import call as tool_call
from fairlead.pipelines import CheckError, F, Pipeline, add_pipeline, call, call_sync, check, run
from fairlead.pipelines import building as p
from fairlead.surfaces.client import Client

DOUBLE = "let main : !int -> !int = plumb(i, o) { i ; map(value * 2) ; o }"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "double.plumb"
    path.write_text(f"(* Doubles a number. *)\n{DOUBLE}\n")
    return path


def shop() -> App:
    app = App("shop")

    @app.action
    def length(text: str) -> int:
        """How long a text is."""
        return len(text)

    return app


async def test_a_graph_is_built_with_two_operators() -> None:
    graph = Pipeline(
        "!int -> !int", p.map(F.value + 1) @ p.map(F.value * 2) >> p.barrier >> p.map("value.0 + value.1")
    )
    assert await graph.call(3) == 10
    assert [each async for each in graph.results([1, 2])] == [4, 7]
    assert "input ; (map((value + 1)) * map((value * 2))) ; barrier" in graph.text()


async def test_a_loop_is_built_of_several_wires() -> None:
    step = p.exec(
        "step", "!int -> !int", sys.executable, ["-u", "-c", "while True: print(int(input()) * 2)"], settle=5
    )
    graph = Pipeline(
        "!int -> !int",
        p.input >> step,
        step >> p.filter(F.value < 10) >> step,
        step >> p.filter(F.value >= 10) >> p.output,
    )
    async with graph.run() as running:
        await running.send(3)
        assert await running.recv() == 12


async def test_agents_tools_types_and_fields_of_any_name_can_be_built() -> None:
    model = ScriptModel([tool_call("plus", value=1), '{"id": 7, "ok": true}'])
    plus = p.Named("plus", "int -> int", "map(value + 1)")
    worker = p.agent("worker", "!string -> !Answer", tools=[plus], model="default", max_retries=1)
    graph = Pipeline(
        "!string -> !int", worker >> p.filter(F.ok & (F["id"] > 1)) >> p.map(F["id"]),
        types={"Answer": '{ "id": int, ok: bool }'}, app=App("shop", models=model),
    )  # fmt: skip
    assert await graph.call("hi") == 7
    assert model.requests[1].messages[-1].content == "2"


async def test_an_action_of_the_app_is_a_part() -> None:
    graph = Pipeline("!string -> !int", p.map({"text": F.value}) >> p.action("length"), app=shop())
    assert await graph.call("four") == 4


def test_a_graph_that_does_not_check_tells_all_that_is_wrong() -> None:
    graph = Pipeline("!int -> !string", p.map("value + true"))
    with pytest.raises(CheckError) as caught:
        graph.check()
    assert [each.rule for each in caught.value.problems] == ["expression"]


@pytest.mark.parametrize("format", ["svg", "dot", "mermaid", "json"])
def test_a_graph_can_be_drawn(format: str) -> None:
    assert "map" in Pipeline("!int -> !int", p.map("value")).render(format)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (F.complete == False, "(complete = false)"),  # noqa: E712
        ((F.a > 1) | ~F.b, "((a > 1) or (not b))"),
        (-F.a / 2, "((-a) / 2)"),
        (F.state == p.Text("done"), '(state = "done")'),
        (F.value[0], "value.0"),
        (F.a.b["id"], 'a.b."id"'),
    ],
)
def test_expressions_are_written_with_python_s_signs(expression: Any, text: str) -> None:
    assert str(expression) == text


async def test_a_program_in_a_file_is_checked_called_and_run(file: Path) -> None:
    assert check(file).main is not None
    assert await call(file, 4) == 8
    async with run(file) as running:
        await running.send(1)
        running.close_input()
        assert [each async for each in running] == [2]
    with pytest.raises(Failure) as caught:
        await call(file, "text")
    assert caught.value.code == "validation_error"


def test_a_program_is_called_without_an_event_loop(file: Path) -> None:
    assert call_sync(file, 4) == 8
    assert Pipeline("!int -> !int", p.map("value + 1")).call_sync(1) == 2


async def test_a_pipeline_is_an_action_with_a_schema_and_words(file: Path) -> None:
    app = App("shop")
    action = add_pipeline(app, file)
    assert (action.name, action.description) == ("double", "Doubles a number.")
    assert action.input.json_schema["properties"]["value"] == {"type": "integer"}
    result = await app.invoke("double", {"value": 4})
    assert result.data == 8
    assert (await app.invoke("double", {"value": "x"})).failure is not None


async def test_a_pipeline_over_records_takes_their_fields_as_its_own() -> None:
    app = shop()
    graph = Pipeline("!{ text: string } -> !{ n: int }", p.action("length") >> p.map({"n": F.value}), app=app)
    app.catalogue.add(graph.action("measure"))
    assert (await app.invoke("measure", {"text": "abc"})).data == {"n": 3}
    assert (await app.client().measure(text="abc")) == {"n": 3}


async def test_a_message_that_a_pipeline_lets_go_is_not_sent_again(tmp_path: Path) -> None:
    app, asked = App("shop"), []

    @app.action
    def price(item: str) -> float:
        """Tell what an item costs."""
        asked.append(item)
        return 5.0

    costly = tmp_path / "costly.plumb"
    costly.write_text(
        "let main : !{ item: string } -> !number = plumb(i, o) { i ; action price ; filter(value > 9) ; o }"
    )
    add_pipeline(app, costly)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app.http())) as http:
        reply = await Client(url="http://shop", http=http).invoke("costly", {"item": "pen"}, raw=True)
    assert reply.failure is not None
    assert (reply.failure.retryable, asked) == (False, ["pen"])


def test_a_pipeline_that_does_not_check_shows_when_the_app_is_made(tmp_path: Path) -> None:
    (tmp_path / "bad.plumb").write_text("let main : !int -> !string = id")
    with pytest.raises(CheckError):
        add_pipeline(App("shop"), tmp_path / "bad.plumb")
