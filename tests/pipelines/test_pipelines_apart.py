"""Agents in processes of their own: how they begin, what their death is, and what is left of them."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Failure
from fairlead.agents.models.registry import Models
from fairlead.agents.models.script import ScriptModel
from fairlead.failures import runtime as wire
from fairlead.pipelines.apps import options_for
from fairlead.pipelines.checking import check_text, require
from fairlead.pipelines.host import Host
from fairlead.pipelines.program import Process
from fairlead.pipelines.running import Run, run_all
from model_servers import Answer, ModelServer, Silence

ELIZA = 'agent { provider: "eliza", model: "doctor" }'


def program(text: str) -> Process:
    main = require(check_text(text, options=options_for(None, {}))).main
    assert main is not None
    return main


def asking(server: ModelServer, settings: str = "") -> Process:
    return program(
        'let main : !string -> !string = agent { provider: "openai", model: "x", '
        f'endpoint: "{server.url}/v1", backoff: 0 {settings} }}'
    )


def reply(text: str) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return Answer(
        {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "x",
            "choices": [choice],
            "usage": usage,
        }
    )


class Heard:
    """A host that hears which processes begin."""

    def __init__(self, **more: Any) -> None:
        self.processes: list[tuple[str, int]] = []
        environ = {**os.environ, "OPENAI_API_KEY": "sk-test"}
        self.host = Host(environ=environ, listener=self._hear, **more)

    def _hear(self, event: dict[str, Any]) -> None:
        if event["telemetry"] == "process":
            self.processes.append((event["source"], event["pid"]))


def alive(pid: int) -> bool:
    """Whether there is a process that is not over."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


async def gone(pid: int) -> None:
    async with asyncio.timeout(20):
        while alive(pid):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # nobody but its parent is told


async def test_each_agent_is_asked_in_a_process_of_its_own() -> None:
    text = f"let a : !string -> !string = {ELIZA} let b : !string -> !string = {ELIZA} "
    text += "let main : !string -> !(string, string) = plumb(i, o) { i ; (a * b) ; barrier ; o }"
    heard = Heard()
    async with Run(program(text), heard.host) as run:
        await run.send("hello")
        assert await run.recv() == ["Why do you say that hello?"] * 2
        (a, first), (b, second) = sorted(heard.processes)
        assert (a, b) == ("a", "b")
        assert len({first, second, os.getpid()}) == 3
        assert alive(first)
        assert alive(second)


async def test_a_run_after_another_has_the_process_that_is_there() -> None:
    heard = Heard()
    main = program(f"let main : !string -> !string = {ELIZA}")
    for _ in range(3):
        await run_all(main, ["hello"], heard.host)
    assert len(heard.processes) == 3
    assert len(set(heard.processes)) == 1


async def test_a_process_that_is_killed_is_replaced_and_asked_the_same() -> None:
    async with ModelServer(reply("one"), Silence(), reply("two")).run() as server:
        heard = Heard()
        async with Run(asking(server), heard.host) as run:
            await run.send("first")
            assert await run.recv() == "one"
            server.came.clear()
            await run.send("second")
            await server.came.wait()
            os.kill(heard.processes[-1][1], signal.SIGKILL)
            # What was said before is not lost with the process.
            assert await run.recv() == "two"
    asked = [[each["content"] for each in one.body["messages"]] for one in server.asked]
    assert asked == [["first"], ["first", "one", "second"], ["first", "one", "second"]]
    assert len({pid for _, pid in heard.processes}) == 2


async def test_a_death_that_is_not_tried_again_is_a_process_error() -> None:
    async with ModelServer(Silence()).run() as server:
        heard = Heard()
        async with Run(asking(server, ", retry: 0"), heard.host) as run:
            await run.send("hello")
            await server.came.wait()
            os.kill(heard.processes[-1][1], signal.SIGSEGV)
            with pytest.raises(Failure) as caught:
                await run.recv()
    told = wire.render(caught.value)
    assert (told["error"], told["category"]) == ("process_error", "unavailable")
    assert (told["source"], told["signal"]) == ("main", signal.SIGSEGV)


async def test_one_agent_s_death_is_not_another_s() -> None:
    async with ModelServer(Silence()).run() as server:
        text = (
            f'let a : !string -> !string = {ELIZA} let b : !string -> !string = agent {{ provider: "openai", '
        )
        text += f'model: "x", endpoint: "{server.url}/v1", retry: 0 }} '
        text += "let main : !string -> !string = plumb(i, o) { i ; a ; o  i ; b }"
        heard = Heard()
        async with Run(program(text), heard.host) as run:
            await run.send("hello")
            assert await run.recv() == "Why do you say that hello?"
            await server.came.wait()
            pids = dict(heard.processes)
            os.kill(pids["b"], signal.SIGKILL)
            with pytest.raises(Failure) as caught:
                await run.recv()
            assert caught.value.details["source"] == "b"
            # The first one has nothing to do with it, and may be used again.
        assert await run_all(program(f"let main : !string -> !string = {ELIZA}"), ["again"], heard.host)
        assert heard.processes[-1][1] == pids["a"]


async def test_leaving_in_the_middle_of_a_question_ends_the_process() -> None:
    async with ModelServer(Silence()).run() as server:
        heard = Heard()
        async with Run(asking(server), heard.host) as run:
            await run.send("hello")
            await server.came.wait()
        await gone(heard.processes[-1][1])


async def test_a_failure_comes_from_there_as_it_is() -> None:
    async with ModelServer(Answer({"error": {"message": "no such model"}}, 404)).run() as server:
        with pytest.raises(Failure) as caught:
            await run_all(asking(server, ", retry: 0"), ["hello"], Heard().host)
    told = wire.render(caught.value)
    assert told["error"] == "api_error"
    assert "sk-test" not in str(told)


async def test_a_model_that_the_app_made_is_asked_in_the_app_s_process() -> None:
    heard = Heard(app=App("shop", models=ScriptModel(["yes"])))
    main = program('let main : !string -> !string = agent { model: "default" }')
    assert await run_all(main, ["hello"], heard.host) == ["yes"]
    assert heard.processes == []


async def test_a_provider_that_the_app_configured_is_asked_in_the_app_s_process() -> None:
    async with ModelServer(reply("yes")).run() as server:
        mine = {"base_url": f"{server.url}/v1", "api_key_env": "OPENAI_API_KEY"}
        models = Models("mine/x", providers={"mine": mine}, environ={"OPENAI_API_KEY": "sk-test"})
        heard = Heard(app=App("shop", models=models))
        main = program('let main : !string -> !string = agent { model: "default" }')
        assert await run_all(main, ["hello"], heard.host) == ["yes"]
        assert heard.processes == []
        await models.close()


async def test_a_model_that_the_app_only_names_has_a_process() -> None:
    heard = Heard(app=App("shop", models="script/nothing.toml"))
    main = program('let main : !string -> !string = agent { model: "default" }')
    with pytest.raises(Failure) as caught:
        await run_all(main, ["hello"], heard.host)
    assert wire.render(caught.value)["category"] in ("config", "not_found")
    assert len(heard.processes) == 1


def test_nothing_is_left_of_a_program_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "x.plumb").write_text(f"let main : !string -> !string = {ELIZA}")
    with subprocess.Popen(
        [sys.executable, "-m", "fairlead", "plumb", "run", "x.plumb", "--telemetry"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write('"hello"\n')
        process.stdin.flush()
        assert process.stdout.readline() == '"Why do you say that hello?"\n'
        pid = next(
            int(line.rpartition(":")[2].strip("}\n")) for line in process.stderr if '"process"' in line
        )
        assert alive(pid)
        process.kill()
    asyncio.run(gone(pid))
