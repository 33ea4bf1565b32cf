"""Agents in processes of their own: how they begin, what they keep to themselves, and what their death is."""

import asyncio
import io
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
from fairlead.pipelines import apart, apart_process
from fairlead.pipelines.apps import options_for
from fairlead.pipelines.checking import check_text, require
from fairlead.pipelines.host import Host
from fairlead.pipelines.journals import Journal, Memory
from fairlead.pipelines.program import Process
from fairlead.pipelines.recordings import Recorder, read_record, replay
from fairlead.pipelines.running import Ended, Run, run_all
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


def reply(text: str, *tools: str) -> Answer:
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in tools
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
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
    except (FileNotFoundError, ProcessLookupError):  # it may end while it is looked at
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


async def test_a_process_that_dies_whenever_it_begins_is_not_tried_for_ever() -> None:
    pids: list[int] = []

    def kill(event: dict[str, Any]) -> None:
        if event["telemetry"] == "process":
            pids.append(event["pid"])
            os.kill(event["pid"], signal.SIGKILL)

    with pytest.raises(Failure) as caught:
        await run_all(program(f"let main : !string -> !string = {ELIZA}"), ["hello"], Host(listener=kill))
    told = wire.render(caught.value)
    assert (told["error"], told["attempts"], len(set(pids))) == ("process_error", 3, 3)


async def test_an_agent_that_takes_too_long_is_ended_with_its_process() -> None:
    async with ModelServer(Silence()).run() as server:
        heard = Heard()
        with pytest.raises(Failure) as caught:
            await run_all(asking(server, ", timeout: 0.1"), ["hello"], heard.host)
        told = wire.render(caught.value)
        assert (told["error"], told["timeout"]) == ("process_error", 0.1)
        for _, pid in heard.processes:
            await gone(pid)


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


async def test_where_a_system_cannot_fork_an_agent_is_the_same_in_the_app_s_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apart, "POSSIBLE", False)
    heard = Heard()
    async with Run(program(REMEMBERING.format(agent=ELIZA)), heard.host) as run:
        assert await told(run, say("hello")) == "Why do you say that hello?"
        assert contents(await told(run, command(get_memory=True)))[0] == "hello"
    assert heard.processes == []


async def test_a_script_begins_anew_with_each_run(tmp_path: Path) -> None:
    script = 'follow = "order"\n[[turn]]\ntext = "one"\n[[turn]]\ntext = "two"\n'
    (tmp_path / "two.toml").write_text(script)
    main = program(
        f'let main : !string -> !string = agent {{ provider: "script", model: "{tmp_path}/two.toml" }}'
    )
    for _ in range(2):
        assert await run_all(main, ["a", "b"], Heard().host) == ["one", "two"]


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


# What is in the process

REMEMBERING = """
let a : !string -> !string = {agent}
let main : !{{ say: string, command: json }} -> !json = plumb(i, o) {{
  i ; filter(say != "").say ; a
  i ; filter(say = "").command ; a@ctrl_in
  a ; o
  a@ctrl_out ; o
}}"""


def say(text: str) -> dict[str, Any]:
    return {"say": text, "command": None}


def command(**given: Any) -> dict[str, Any]:
    return {"say": "", "command": given}


async def told(run: Run, value: Any) -> Any:
    await run.send(value)
    return await run.recv()


def contents(said: dict[str, Any]) -> list[str]:
    return [each["content"] for each in said["memory"]]


async def test_memory_is_read_and_replaced_in_the_process() -> None:
    heard = Heard()
    async with Run(program(REMEMBERING.format(agent=ELIZA)), heard.host) as run:
        memory = [{"role": "user", "content": "before"}, {"role": "tool", "content": "no"}]
        assert await told(run, command(set_memory=memory)) == {"ack": "set_memory"}
        await told(run, say("hello"))
        said = await told(run, command(get_memory=True))
        assert contents(said) == ["before", "hello", "Why do you say that hello?"]
    assert len(heard.processes) == 1


async def test_what_is_remembered_outlives_the_process_and_not_the_run() -> None:
    heard = Heard()
    main = program(REMEMBERING.format(agent=ELIZA))
    async with Run(main, heard.host) as run:
        await told(run, say("hello"))
        os.kill(heard.processes[-1][1], signal.SIGKILL)
        said = await told(run, command(get_memory=True))
        assert contents(said) == ["hello", "Why do you say that hello?"]
    async with Run(main, heard.host) as run:
        assert await told(run, command(get_memory=True)) == {"memory": []}
    # The same process, which knows nothing of the run before.
    assert heard.processes[-1] == heard.processes[-2]


async def test_an_amnesiac_begins_anew_in_a_new_process_too() -> None:
    heard = Heard()
    agent = ELIZA.replace("}", ", amnesiac: true }")
    async with Run(program(REMEMBERING.format(agent=agent)), heard.host) as run:
        await told(run, say("one"))
        await told(run, say("two"))
        os.kill(heard.processes[-1][1], signal.SIGKILL)
        said = await told(run, command(get_memory=True))
        assert contents(said) == ["two", "Why do you say that two?"]


async def test_commands_are_heeded_while_the_model_is_asked() -> None:
    async with ModelServer(reply("one"), Silence()).run() as server:
        agent = f'agent {{ provider: "openai", model: "x", endpoint: "{server.url}/v1" }}'
        async with Run(program(REMEMBERING.format(agent=agent)), Heard().host) as run:
            assert await told(run, say("first")) == "one"
            server.came.clear()
            await run.send(say("second"))
            await server.came.wait()
            said = await told(run, command(get_memory=True))
            assert contents(said) == ["first", "one"]


async def test_an_agent_that_is_paused_waits_and_one_that_is_stopped_ends() -> None:
    async with Run(program(REMEMBERING.format(agent=ELIZA)), Heard().host) as run:
        assert await told(run, command(pause=True)) == {"ack": "pause"}
        await run.send(say("hello"))
        assert await told(run, command(get_memory=True)) == {"memory": []}
        assert await told(run, command(resume=True)) == {"ack": "resume"}
        assert await run.recv() == "Why do you say that hello?"
        assert await told(run, command(pause=True)) == {"ack": "pause"}
        await run.send(say("never"))
        await run.send(command(stop=True))
        run.close_input()
        with pytest.raises(Ended):
            await run.recv()


async def test_a_turn_takes_what_is_new_however_long_the_conversation_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    spelled, exactly = apart_process.frame, apart_process._exactly

    def sent(value: Any) -> bytes:
        made = spelled(value)
        sizes.append(len(made))
        return made

    async def received(own: Any, size: int) -> bytes | None:
        sizes.append(size)
        return await exactly(own, size)

    monkeypatch.setattr(apart_process, "frame", sent)
    monkeypatch.setattr(apart_process, "_exactly", received)
    each = []
    async with Run(program(f"let main : !string -> !string = {ELIZA}"), Heard().host) as run:
        for _ in range(40):
            sizes.clear()
            await told(run, "x" * 1000)
            each.append(sum(sizes))
    assert max(each[20:]) < each[1] + 100


TRIAGE = "type T = { urgency: int } let main : !string -> !T = "


async def test_a_reply_of_the_wrong_type_is_corrected_in_the_process() -> None:
    async with ModelServer(reply("none"), reply('{"urgency": "x"}'), reply('{"urgency": 1}')).run() as server:
        text = f'agent {{ provider: "openai", model: "x", endpoint: "{server.url}/v1" }}'
        assert await run_all(program(TRIAGE + text), ["help"], Heard().host) == [{"urgency": 1}]
    assert [len(each.body["messages"]) for each in server.asked] == [2, 4, 4]


async def test_after_the_last_correction_the_failure_says_whose_it_is() -> None:
    async with ModelServer(reply("none")).run() as server:
        text = f'agent {{ provider: "openai", model: "x", endpoint: "{server.url}/v1", max_retries: 1 }}'
        with pytest.raises(Failure) as caught:
            await run_all(program(TRIAGE + text), ["help"], Heard().host)
    failure = caught.value
    assert (failure.code, failure.details["attempts"], failure.details["source"]) == (
        "output_extraction_failed", 2, "main",
    )  # fmt: skip


# What is with the run


def shop(heard: Heard, used: list[str]) -> App:
    """An app with two tools: one that kills the agent's process, one that does not."""
    app = App("shop")

    @app.action
    def strike() -> str:
        """Strike."""
        used.append("strike")
        os.kill(heard.processes[-1][1], signal.SIGKILL)
        return "struck"

    @app.action
    def look() -> str:
        """Look."""
        used.append("look")
        return "seen"

    heard.host.app = app
    return app


def with_tools(server: ModelServer, app: App, settings: str = "") -> Process:
    text = "let strike : {} -> string = action strike let look : {} -> string = action look "
    text += 'let main : !string -> !string = agent { provider: "openai", model: "x", backoff: 0, '
    text += f'endpoint: "{server.url}/v1", tools: [strike, look] {settings} }}'
    main = require(check_text(text, options=options_for(app, {}))).main
    assert main is not None
    return main


async def test_a_process_that_is_killed_in_a_tool_repeats_neither_question_nor_tool() -> None:
    used: list[str] = []
    heard = Heard()
    app = shop(heard, used)
    async with ModelServer(reply("", "look", "strike", "look"), reply("done")).run() as server:
        assert await run_all(with_tools(server, app), ["go"], heard.host) == ["done"]
    assert used == ["look", "strike", "look"]
    assert len(server.asked) == 2
    assert [each["content"] for each in server.asked[1].body["messages"][-3:]] == [
        '"seen"',
        '"struck"',
        '"seen"',
    ]
    assert len({pid for _, pid in heard.processes}) == 2


async def test_deaths_with_answers_between_them_are_counted_apart() -> None:
    used: list[str] = []
    heard = Heard()
    app = shop(heard, used)
    async with ModelServer(reply("", "strike")).run() as server:
        with pytest.raises(Failure) as caught:
            await run_all(with_tools(server, app, ", max_tool_calls: 3"), ["go"], heard.host)
    assert caught.value.code == "max_tool_calls"
    assert used == ["strike"] * 4
    assert len(server.asked) == 4


async def test_the_budget_is_asked_before_each_question_and_told_after_it() -> None:
    async with ModelServer(reply("one")).run() as server:
        text = 'let a : !string -> !string = agent { provider: "openai", model: "x", '
        text += f'endpoint: "{server.url}/v1" }} '
        text += "let main : !string -> !string = plumb(i, o) { budget { tokens: 5 } { i ; a ; o } }"
        with pytest.raises(Failure) as caught:
            await run_all(program(text), ["go"] * 9, Heard().host)
    assert (caught.value.code, caught.value.details["spent"]) == ("budget_exceeded", 6)
    left = [each.body.get("max_tokens", each.body.get("max_completion_tokens")) for each in server.asked]
    assert left == [5, 3, 1]


async def test_what_was_answered_after_a_death_is_known_to_a_run_that_goes_on() -> None:
    steps: dict[str, Any] = {}
    async with ModelServer(Silence(), reply("one")).run() as server:
        heard = Heard(journal=Journal(Memory(steps)))
        async with Run(asking(server), heard.host) as run:
            await run.send("hello")
            await server.came.wait()
            os.kill(heard.processes[-1][1], signal.SIGKILL)
            assert await run.recv() == "one"
        again = Heard(journal=Journal(Memory(steps)))
        assert await run_all(asking(server), ["hello"], again.host) == ["one"]
    assert len(server.asked) == 2


async def test_a_recording_with_a_death_is_replayed_without_a_process() -> None:
    file = io.StringIO()
    recorder = Recorder(file)
    recorder.received(["hello"])
    async with ModelServer(Silence(), reply("one")).run() as server:
        main = asking(server)
        heard = Heard(journal=recorder.journal())
        async with Run(main, heard.host) as run:
            await run.send("hello")
            await server.came.wait()
            os.kill(heard.processes[-1][1], signal.SIGKILL)
            recorder.sent([await run.recv()])
    recorder.ended(None)
    replaying = Heard()
    replayed = await replay(main, read_record(file.getvalue(), "rec"), replaying.host)
    assert (replayed.ok, replayed.outputs, replaying.processes) == (True, ["one"], [])


STUCK = """
import asyncio, pathlib
from fairlead import App

app = App("shop")


@app.action(side_effects="write")
async def pay() -> str:
    "Pay."
    mark = pathlib.Path("stuck")
    if not mark.exists():
        mark.touch()
        print("stuck", flush=True)
        await asyncio.Event().wait()
    return "paid"
"""


@pytest.mark.timeout(300)
async def test_a_durable_run_that_is_killed_in_a_tool_does_not_ask_again(tmp_path: Path) -> None:
    async with ModelServer(reply("", "pay"), reply("done")).run() as server:
        (tmp_path / "app.py").write_text(STUCK)
        (tmp_path / "shop.plumb").write_text(
            "let pay : {} -> string = action pay let main : !string -> !string = agent { "
            f'provider: "openai", model: "x", endpoint: "{server.url}/v1", tools: [pay] }}'
        )
        environ = {"PATH": "/usr/bin:/bin", "FAIRLEAD_DATA": str(tmp_path / "data"), "HOME": str(tmp_path)}
        environ["OPENAI_API_KEY"] = "sk-test"

        async def start() -> asyncio.subprocess.Process:
            command = [sys.executable, "-m", "fairlead", "plumb", "run", "shop.plumb", "--durable", "monday"]
            pipe = asyncio.subprocess.PIPE
            return await asyncio.create_subprocess_exec(
                *command, cwd=tmp_path, env=environ, stdin=pipe, stdout=pipe
            )

        first = await start()
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write(b'"go"\n')
        first.stdin.write_eof()
        assert await first.stdout.readline() == b"stuck\n"
        first.kill()
        await first.communicate()
        out, _ = await (await start()).communicate(b'"go"\n')
    assert out == b'"done"\n'
    assert len(server.asked) == 2
