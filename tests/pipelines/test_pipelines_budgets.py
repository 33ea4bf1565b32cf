"""What a part of a graph may spend, and how often and how long its processes try."""

import asyncio
from typing import Any

import pytest

from fairlead import App, Failure, Kind
from fairlead.agents import Agent
from fairlead.agents.models.model import Usage
from fairlead.agents.models.script import ScriptModel, Turn, call
from fairlead.failures.runtime import ApiError, ToolDenied
from fairlead.pipelines.apps import options_for
from fairlead.pipelines.budgets import Budget
from fairlead.pipelines.checking import check_text, require
from fairlead.pipelines.host import Host
from fairlead.pipelines.program import Process
from fairlead.pipelines.running import Run, run_all


def program(text: str, app: App) -> Process:
    main = require(check_text(text, options=options_for(app, {}))).main
    assert main is not None
    return main


def spending(cost: float = 0.0) -> Turn:
    return Turn("x", usage=Usage(3, 4, cost=cost))


async def refused(text: str, app: App, values: list[Any], **host: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        await run_all(program(text, app), values, Host(app=app, **host))
    return caught.value


def budgeted(limits: str) -> str:
    return f"""
    let a : !string -> !string = agent {{ model: "default" }}
    let main : !string -> !string = plumb(i, o) {{ budget {{ {limits} }} {{ i ; a ; o }} }}"""


@pytest.mark.parametrize(
    ("limits", "what", "spent", "asked"),
    [
        ("calls: 2", "calls", 2, 2),
        ("tokens: 13", "tokens", 14, 2),
        ("tokens: 14", "tokens", 14, 2),
        ("cost: 0.5", "cost", 0.6, 3),
    ],
)
async def test_what_is_used_up_ends_the_run_and_nothing_more_is_asked(
    limits: str, what: str, spent: float, asked: int
) -> None:
    model = ScriptModel([spending(0.2)], repeat=True)
    failure = await refused(budgeted(limits), App("shop", models=model), ["m"] * 9)
    assert failure.code == "budget_exceeded"
    assert (failure.details["budget"], failure.details["spent"]) == (what, spent)
    assert len(model.requests) == asked


async def test_a_reply_is_asked_for_within_what_is_left() -> None:
    model = ScriptModel([spending()], repeat=True)
    await run_all(
        program(budgeted("tokens: 100"), App("shop", models=model)),
        ["a", "b"],
        Host(app=App("x", models=model)),
    )
    assert [each.settings.max_tokens for each in model.requests] == [100, 93]


async def test_blocks_within_blocks_spend_from_both_and_are_accounted() -> None:
    app = App("shop", models=ScriptModel([spending()], repeat=True))
    text = """
    let a : !string -> !string = agent { model: "default" }
    let b : !string -> !string = agent { model: "default" }
    let main : !string -> !string = plumb(i, o) {
      budget { tokens: 100 } {
        i ; a
        budget { calls: 5 } { a ; b ; o }
      }
    }"""
    heard: list[dict[str, Any]] = []
    await run_all(program(text, app), ["x"], Host(app=app, listener=heard.append))
    whole, outer, inner = heard[-1]["budgets"]
    assert whole["limits"] == {}
    assert outer["limits"] == {"tokens": 100}
    assert (outer["spent"]["tokens"], outer["spent"]["calls"]) == (14, 2)
    assert (inner["spent"]["tokens"], inner["spent"]["calls"]) == (7, 1)


async def test_what_a_tool_spends_counts_and_its_excess_is_not_only_told_to_the_model() -> None:
    text = """
    let inner : !string -> !string = agent { model: "default" }
    let ask : string -> string = tool { process: inner }
    let a : !string -> !string = agent { model: "default", tools: [ask] }
    let main : !string -> !string = plumb(i, o) { budget { tokens: 10 } { i ; a ; o } }"""
    turns: list[Any] = [Turn(calls=(call("ask", value="y"),), usage=Usage(3, 4)), spending(), "never said"]
    model = ScriptModel(turns)
    failure = await refused(text, App("shop", models=model), ["x"])
    assert (failure.code, failure.details["spent"]) == ("budget_exceeded", 14)
    assert len(model.requests) == 2


async def test_what_an_agent_of_the_app_spends_counts() -> None:
    app = App("shop", models=ScriptModel([]))
    app.add(Agent("clerk", model=ScriptModel([spending()], repeat=True), instructions="Help."))
    text = """let main : !{ prompt: string } -> !json = plumb(i, o) {
      budget { tokens: 10 } { i ; map({ prompt: prompt }) ; action clerk ; o }
    }"""
    failure = await refused(text, app, [{"prompt": "a"}, {"prompt": "b"}])
    assert (failure.code, failure.details["spent"]) == ("budget_exceeded", 14)


@pytest.mark.parametrize("process", ["action wait", 'exec { cmd: "sleep", args: ["600"], settle: 600 }'])
async def test_time_that_is_used_up_ends_what_never_would(process: str) -> None:
    app = App("shop")

    @app.action
    async def wait() -> str:
        """Work."""
        await asyncio.Event().wait()
        return ""

    text = f"""let p : !{{}} -> !string = {process}
    let main : !{{}} -> !string = plumb(i, o) {{ budget {{ time: 0.05 }} {{ i ; p ; o }} }}"""
    failure = await refused(text, app, [{}])
    assert (failure.code, failure.details["budget"]) == ("budget_exceeded", "time")


SPINNING = [
    "i ; again again ; again again ; filter(value < 0) ; o",
    "let c : !int = channel i ; c c ; map(value) ; c c ; filter(value < 0) ; o",
    "let pair : (!int, !int) -> !(int, int) = barrier i ; (id * id) ; pair pair ; map(value.0) ; (id * id) ; pair "
    "pair ; filter(value.0 < 0) ; project(0) ; o",
]


@pytest.mark.parametrize("body", SPINNING)
async def test_time_that_is_used_up_ends_a_loop_of_pure_processes(body: str) -> None:
    text = "let again : !int -> !int = map(value) let main : !int -> !int = plumb(i, o) {{ {} }}"
    pair = body.partition(" i ;")[0] + " " if body.startswith("let") else ""
    block = f"{pair}budget {{ time: 0.05 }} {{ {body.removeprefix(pair)} }}"
    async with asyncio.timeout(30):
        for program, limits in ((text.format(block), None), (text.format(body), {"time": 0.05})):
            failure = await refused(program, App("shop"), [1], limits=limits)
            assert (failure.code, failure.details["budget"]) == ("budget_exceeded", "time")


async def test_a_pipeline_that_waits_for_its_next_message_spends_no_time() -> None:
    text = (
        "let again : !int -> !int = map(value - 1) let main : !int -> !int = plumb(i, o) { i ; again again ; "
    )
    text += "filter(value > 0) ; again again ; o }"
    async with Run(program(text, App("shop")), Host(limits={"time": 0.2})) as run:
        await run.send(3)
        assert [await run.recv() for _ in range(3)] == [2, 1, 0]
        loop = asyncio.get_running_loop()
        waited = loop.create_future()
        loop.call_later(0.4, waited.set_result, None)
        await waited
        assert run.accounts()[0]["spent"]["time"] < 0.2
        run.close_input()
        await run.wait()


async def test_only_time_at_work_counts() -> None:
    now = [0.0]
    budget = Budget({"time": 100}, clock=lambda: now[0])
    with budget.work():
        now[0] += 5
        with budget.work():
            now[0] += 5
    now[0] += 1000
    assert budget.time == 10


async def test_a_caller_may_limit_the_whole_run() -> None:
    app = App("shop", models=ScriptModel([spending()], repeat=True))
    text = 'let main : !string -> !string = agent { model: "default" }'
    failure = await refused(text, app, ["a", "b"], limits={"calls": 1})
    assert failure.code == "budget_exceeded"
    run = Run(program(text, app), Host(app=app))
    assert run.accounts()[0]["spent"] == {"tokens": 0, "cost": 0, "calls": 0, "time": 0.0}


# How often and how long


def failing(*failures: Failure) -> tuple[App, list[int]]:
    app, left, tries = App("shop"), list(failures), [0]

    @app.action
    async def work() -> str:
        """Work."""
        tries[0] += 1
        if left:
            raise left.pop(0)
        return "done"

    return app, tries


def acting(settings: str) -> str:
    return f"let main : !{{}} -> !string = action work {{ {settings} }}"


async def test_a_failure_that_passes_is_tried_again_as_often_as_settings_say() -> None:
    app, tries = failing(*[Failure(Kind.unavailable, "Away.") for _ in range(2)])
    heard: list[dict[str, Any]] = []
    host = Host(app=app, listener=heard.append)
    assert await run_all(program(acting("retry: 2, backoff: 0.001"), app), [{}], host) == ["done"]
    assert [each["attempt"] for each in heard if each["telemetry"] == "retry"] == [1, 2]
    assert tries == [3]


async def test_it_fails_when_it_was_tried_often_enough() -> None:
    app, tries = failing(*[Failure(Kind.unavailable, "Away.") for _ in range(9)])
    failure = await refused(acting("retry: 2, backoff: 0.001"), app, [{}])
    assert failure.details["attempts"] == 3
    assert tries == [3]


@pytest.mark.parametrize(
    "kind", [Kind.invalid_input, Kind.not_found, Kind.forbidden, Kind.internal, Kind.misconfigured]
)
async def test_a_failure_that_stays_is_not_tried_again(kind: Kind) -> None:
    app, tries = failing(Failure(kind, "No."))
    await refused(acting("retry: 5"), app, [{}])
    assert tries == [1]


async def test_a_process_that_takes_too_long_fails_as_one_that_may_be_tried_again() -> None:
    app, tries = App("shop"), [0]

    @app.action
    async def work() -> str:
        """Work."""
        tries[0] += 1
        await asyncio.Event().wait()
        return ""

    failure = await refused(acting("timeout: 0.01, retry: 1, backoff: 0.001"), app, [{}])
    assert (failure.code, failure.details["timeout"]) == ("process_error", 0.01)
    assert tries == [2]


async def test_a_model_is_asked_again_and_tools_are_not_called_twice_for_that() -> None:
    app = App("shop")
    called = [0]

    @app.action
    def count() -> int:
        """Work."""
        called[0] += 1
        return 1

    text = """
    let counting : !{} -> !int = action count
    let counter : {} -> int = tool { process: counting }
    let main : !string -> !string = agent { model: "default", backoff: 0.001, tools: [counter] }"""
    away = ApiError("Away.")
    model = ScriptModel([call("counter"), away, away, "done"])
    host = Host(app=App("x", models=model))
    host.app.catalogue.add(app.get("count"))  # type: ignore[union-attr, arg-type]
    assert await run_all(program(text, host.app), ["go"], host) == ["done"]  # type: ignore[arg-type]
    assert called == [1]
    assert len(model.requests) == 4


async def test_what_was_denied_is_never_tried_again() -> None:
    model = ScriptModel([ToolDenied("No.")] * 5)
    failure = await refused(
        'let main : !string -> !string = agent { model: "default", retry: 4 }',
        App("shop", models=model),
        ["x"],
    )
    assert failure.code == "tool_denied"
    assert len(model.requests) == 1


async def test_a_program_with_a_time_limit_has_to_answer_each_message_in_time() -> None:
    answers_one = "import sys, time; print(sys.stdin.readline(), end='', flush=True); time.sleep(600)"
    text = f"""let main : !int -> !int = exec {{ cmd: "python3", args: ["-c", "{answers_one}"], timeout: 0.3 }}"""
    failure = await refused(text, App("shop"), [1, 2])
    assert (failure.code, failure.details["timeout"]) == ("process_error", 0.3)
