"""`shell_run`: real commands, their outputs, limits, signals, and nothing left of them."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Kind
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel, call
from fairlead.failures import tool
from fairlead.runtime import Result, Signal
from fairlead.store import Secrets
from fairlead.tools import processes
from fairlead.tools.processes_watch import idle_limit
from fairlead.tools.sandbox import sandbox
from fairlead.tools.session import SESSION, Session
from fairlead.tools.shell import shell


def app_of(root: Path, **options: Any) -> App:
    app = App("workshop")
    app.add(shell(root, **options))
    return app


async def run(app: App, command: str, **input: Any) -> Result:
    return await app.invoke("shell_run", {"command": command, **input}, confirm=True)


async def line_of(path: Path) -> str:
    """What a command writes to a named pipe: waits until it does."""
    return (await asyncio.to_thread(path.read_text)).strip()


def fifo(root: Path) -> Path:
    path = root / "told"
    os.mkfifo(path)
    return path


def gone(pid: int) -> bool:
    """Whether a process is over, waiting for its end if need be."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 20)[0])
    finally:
        os.close(descriptor)


async def test_output_and_exit_code_are_told_apart(tmp_path: Path) -> None:
    done = await run(app_of(tmp_path), "echo out; echo err >&2; exit 3")
    assert done.data == {"stdout": "out", "stderr": "err", "exit_code": 3}


async def test_a_command_begins_in_the_root(tmp_path: Path) -> None:
    await run(app_of(tmp_path), "echo x > here")
    assert (tmp_path / "here").exists()


async def test_a_pipeline_fails_when_its_first_part_fails(tmp_path: Path) -> None:
    assert (await run(app_of(tmp_path), "false | cat")).data["exit_code"] == 1


async def test_output_is_trimmed(tmp_path: Path) -> None:
    done = await run(app_of(tmp_path), r"printf '\n\n  hello  \n\n'; printf ' \n' >&2")
    assert (done.data["stdout"], done.data["stderr"]) == ("hello", "")


async def test_nobody_types_for_a_command(tmp_path: Path) -> None:
    assert (await run(app_of(tmp_path), "cat; echo $?")).data["stdout"] == "0"


async def test_the_tool_asks_first_and_says_what_it_requires(tmp_path: Path) -> None:
    app = app_of(tmp_path)
    refused = await app.invoke("shell_run", {"command": "touch made"})
    assert refused.failure is not None
    assert refused.failure.kind is Kind.needs_confirmation
    assert not (tmp_path / "made").exists()
    (action,) = shell(tmp_path)
    assert action.requires_confirmation is True
    assert action.side_effects == "destructive"
    assert action.timeout is None
    assert action.metadata == {"unlimited": True}
    assert not {"http", "mcp"} & set(action.supported_surfaces)
    assert action.public_metadata == {"requirements": ["permission:shell"]}


@pytest.mark.parametrize(
    ("input", "field"),
    [({}, "command"), ({"command": " "}, "command"), ({"command": "ls", "shell": "zsh"}, "shell")],
)
async def test_wrong_arguments_are_refused_by_name(tmp_path: Path, input: dict[str, Any], field: str) -> None:
    done = await app_of(tmp_path).invoke("shell_run", input, confirm=True)
    assert done.failure is not None
    told = tool.render(done.failure, "shell_run")
    assert (told["kind"], told["field"]) == ("invalid_args", field)


async def test_a_command_that_no_shell_can_read_is_refused(tmp_path: Path) -> None:
    for command in ("echo a\0b", "echo " + "x" * 200_000):
        done = await run(app_of(tmp_path), command)
        assert done.failure is not None
        assert tool.render(done.failure)["kind"] == "invalid_args"


async def test_a_root_that_is_missing_is_not_found(tmp_path: Path) -> None:
    done = await run(app_of(tmp_path / "nowhere"), "ls")
    assert done.failure is not None
    assert tool.render(done.failure)["kind"] == "not_found"


async def test_long_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    done = await run(app_of(tmp_path), "echo first; seq 1 2000000; echo last")
    said = done.data["stdout"]
    assert said.startswith("first\n1\n2\n")
    assert said.endswith("2000000\nlast")
    assert "characters omitted" in said
    assert len(said) < tool.CAPS["shell"] + 200
    assert said.index("\n...") == int(tool.CAPS["shell"] * 0.4)


async def test_output_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    program = (
        "import asyncio, resource\nfrom fairlead import App\nfrom fairlead.tools.shell import shell\n"
        "app = App('x')\napp.add(shell('.')[0])\n"
        "async def main():\n"
        "    await app.invoke('shell_run', {'command': 'echo'}, confirm=True)\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    call = {'command': 'head -c 300000000 /dev/zero'}\n"
        "    done = await app.invoke('shell_run', call, confirm=True)\n"
        "    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    print(done.data['exit_code'], after - before)\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    code, grown = map(int, done.stdout.split())
    assert code == 0
    assert grown < 30_000  # kilobytes, for 300 megabytes


async def test_output_that_is_no_text_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    done = await run(app_of(tmp_path), r"printf 'a\xff\xc3(b\xe2\x82'")
    assert done.data["stdout"] == "a\ufffd\ufffd(b\ufffd"


async def test_a_character_split_between_two_writes_stays_whole(tmp_path: Path) -> None:
    told = fifo(tmp_path)
    writing = asyncio.ensure_future(run(app_of(tmp_path), r"printf '\xe2\x82'; cat told; printf '\xac'"))
    # The command waits for the pipe, so its first write has gone out by then.
    await asyncio.to_thread(told.write_text, "")
    assert (await writing).data["stdout"] == "€"


@pytest.mark.parametrize(
    ("asked", "default", "applies"),
    [
        (0.2, None, 1.0),
        (5, None, 5.0),
        (99_999, None, 3600.0),
        (0, 600, None),
        (-3, 600, None),
        (None, None, None),
        (None, 600, 600.0),
        (7, 600, 7.0),
    ],
)
def test_an_idle_time_out_is_clamped_and_what_is_asked_beats_the_default(
    asked: float | None, default: float | None, applies: float | None
) -> None:
    assert idle_limit(asked, default) == applies


async def test_an_idle_command_is_ended_and_that_is_said(tmp_path: Path) -> None:
    done = await run(app_of(tmp_path), "echo begun; sleep 1000", timeout=1)
    assert done.ok
    assert done.data == {
        "stdout": "begun",
        "stderr": "",
        "exit_code": 143,
        "killed_by": "idle_timeout",
        "idle_timeout_seconds": 1.0,
    }
    assert any("printed nothing for 1 seconds" in text for text in done.warnings)


async def test_the_default_idle_time_out_holds_when_nobody_asks_for_another(tmp_path: Path) -> None:
    done = await run(app_of(tmp_path, idle=1.0), "sleep 1000")
    assert (done.data["killed_by"], done.data["idle_timeout_seconds"]) == ("idle_timeout", 1.0)


async def test_an_explicit_time_out_beats_the_default(tmp_path: Path) -> None:
    # Silent for longer than the default allows, and within what the call allows.
    done = await run(app_of(tmp_path, idle=1.0), "sleep 1.5; echo done", timeout=30)
    assert done.data == {"stdout": "done", "stderr": "", "exit_code": 0}


async def test_output_keeps_a_command_alive(tmp_path: Path) -> None:
    done = await run(app_of(tmp_path), "for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done", timeout=1)
    assert done.data["exit_code"] == 0


async def test_who_does_not_end_when_asked_is_ended(tmp_path: Path) -> None:
    told = fifo(tmp_path)
    call = asyncio.ensure_future(
        run(app_of(tmp_path), "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > told; sleep 1000'", timeout=1)
    )
    inner = int(await line_of(told))
    done = await call
    assert (done.data["killed_by"], done.data["exit_code"]) == ("idle_timeout", 137)
    assert gone(inner)


async def test_who_ends_when_asked_may_clean_up(tmp_path: Path) -> None:
    done = await run(
        app_of(tmp_path), "trap 'echo cleaned; exit 9' TERM; echo up; while :; do sleep 0.05; done", timeout=1
    )
    assert done.data["killed_by"] == "idle_timeout"
    assert (done.data["stdout"], done.data["exit_code"]) == ("up\ncleaned", 9)


@pytest.mark.parametrize("start", ["", "setsid ", "setsid setsid "])
async def test_a_cancelled_call_leaves_no_process(tmp_path: Path, start: str) -> None:
    told, stop = fifo(tmp_path), Signal()
    command = f"{start}sh -c 'echo $$ > told; exec sleep 1000' & sleep 1000"
    call = asyncio.ensure_future(
        app_of(tmp_path).invoke("shell_run", {"command": command}, confirm=True, signal=stop)
    )
    inner = int(await line_of(told))
    stop.cancel()
    done = await call
    assert done.failure is not None
    assert done.failure.kind is Kind.cancelled
    assert await asyncio.to_thread(gone, inner)


async def test_a_cancelled_task_leaves_no_process(tmp_path: Path) -> None:
    told = fifo(tmp_path)
    call = asyncio.ensure_future(run(app_of(tmp_path), "echo $$ > told; sleep 1000"))
    pid = int(await line_of(told))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(gone, pid)


async def test_whoever_leaves_the_stream_leaves_no_process(tmp_path: Path) -> None:
    pid = 0
    stream = app_of(tmp_path).stream("shell_run", {"command": "echo $$; sleep 1000"}, confirm=True)
    async for event in stream:
        if event["type"] == "progress":
            pid = int(event["message"])
            break
    await stream.aclose()
    assert pid
    assert await asyncio.to_thread(gone, pid)


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL])
def test_commands_end_with_the_program_however_it_ends(tmp_path: Path, way: signal.Signals) -> None:
    program = (
        "import asyncio\nfrom fairlead import App\nfrom fairlead.tools.shell import shell\n"
        "app = App('x')\napp.add(shell('.')[0])\n"
        "call = {'command': \"sh -c 'echo $$ > told; exec sleep 1000' & sleep 1000\"}\n"
        "asyncio.run(app.invoke('shell_run', call, confirm=True))\n"
    )
    told = fifo(tmp_path)
    with subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path) as host:
        inner = int(told.read_text())
        host.send_signal(way)
    assert gone(inner)


async def test_what_a_command_leaves_running_ends_with_it(tmp_path: Path) -> None:
    done = await run(app_of(tmp_path), "sleep 1000 >/dev/null 2>&1 & echo $!")
    assert done.data["exit_code"] == 0
    assert gone(int(done.data["stdout"]))
    assert any("left 1 of its processes running" in text for text in done.warnings)


async def test_a_left_process_that_holds_the_output_does_not_hold_the_call(tmp_path: Path) -> None:
    done = await run(app_of(tmp_path), "setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.2; exit 4")
    assert done.data["exit_code"] == 4
    os.kill(int(done.data["stdout"]), signal.SIGKILL)


async def test_a_users_button_ends_a_command_and_the_result_says_so(tmp_path: Path) -> None:
    told = fifo(tmp_path)
    call = asyncio.ensure_future(
        app_of(tmp_path).invoke(
            "shell_run", {"command": "echo $$ > told; sleep 1000"}, confirm=True, invocation_id="call-1"
        )
    )
    pid = int(await line_of(told))
    assert processes.terminate("call-1")
    done = await call
    assert (done.data["killed_by"], done.data["exit_code"]) == ("user", 143)
    assert gone(pid)
    assert not processes.terminate("call-1")


async def test_the_end_of_the_output_is_told_while_the_command_runs(tmp_path: Path) -> None:
    stream = app_of(tmp_path).stream(
        "shell_run", {"command": "mkfifo go; echo 10%; echo 20%; cat go; echo done"}, confirm=True
    )
    heard = None
    async for event in stream:
        if event["type"] == "progress" and heard is None:
            heard = event
            await asyncio.to_thread((tmp_path / "go").write_text, "")
    assert heard is not None
    assert heard["message"] == "20%"
    assert heard["fields"]["tail"] == "10%\n20%\n"
    assert heard["fields"]["pid"] > 0


async def test_secrets_of_the_conversation_and_of_the_tool_are_masked(tmp_path: Path) -> None:
    app = app_of(tmp_path, secrets={"OWN": "tool-secret-1"})
    token = SESSION.set(Session("c1", secrets={"API_KEY": "hunter2hunter2"}))
    try:
        done = await run(app, "echo hunter2hunter2; echo tool-secret-1 >&2")
    finally:
        SESSION.reset(token)
    assert done.data["stdout"] == "[REDACTED:API_KEY]"
    assert done.data["stderr"] == "[REDACTED:OWN]"


async def test_what_the_apps_store_keeps_secret_is_masked(tmp_path: Path) -> None:
    app = App("workshop", store=f"sqlite:///{tmp_path}/app.db")
    (tmp_path / "conf.txt").write_text("token zq81-plainvalue-77")
    model = ScriptModel(
        [call("shell_run", command="cat conf.txt"), call("sandbox_exec", command="cat conf.txt"), "Read."]
    )
    tools = [*shell(tmp_path), *sandbox(tmp_path)]
    app.add(Agent("clerk", model=model, tools=tools, gates={"*": "auto"}))
    await Secrets(app.store).set("stripe", "zq81-plainvalue-77")
    assert (await app.invoke("clerk", {"prompt": "Go."})).data == "Read."
    heard = [each.content for each in model.requests[-1].messages if each.role == "tool"]
    assert [tool.payload(each)["stdout"] for each in heard] == ["token [REDACTED:stripe]"] * 2


async def test_secrets_that_cannot_be_read_are_told_and_a_store_is_not_made_for_them(tmp_path: Path) -> None:
    app = App("workshop", store=f"sqlite:///{tmp_path}/app.db")
    app.add(shell(tmp_path))
    assert (await run(app, "echo hello")).warnings == []
    assert not (tmp_path / "app.db").exists()
    await Secrets(app.store).set("stripe", "zq81-plainvalue-77")
    (tmp_path / "app.secret.key").unlink()
    done = await run(app, "echo hello")
    assert done.data["stdout"] == "hello"
    assert "not masked" in done.warnings[0]


@pytest.mark.parametrize("conversation", ["c1", None])
async def test_a_user_ends_one_command_of_an_agent_and_the_run_goes_on(
    tmp_path: Path, conversation: str | None
) -> None:
    app = App("workshop", store=f"sqlite:///{tmp_path}/app.db")
    model = ScriptModel([call("shell_run", command="echo begun; sleep 1000"), "Ended, then."])
    app.add(Agent("clerk", model=model, tools=shell(tmp_path), gates={"*": "auto"}))
    input = {"prompt": "Go."} if conversation is None else {"prompt": "Go.", "conversation": conversation}
    ended: list[bool] = []
    async with app.stream("clerk", input) as stream:
        async for event in stream:
            if event.get("kind") == "tool_progress" and not ended:
                id = event["data"]["id"]
                ended = [processes.terminate(id, "another"), processes.terminate(id, conversation)]
            last = event
    assert ended == [False, True]
    assert last["envelope"]["data"] == "Ended, then."
    [heard] = [each.content for each in model.requests[-1].messages if each.role == "tool"]
    assert tool.payload(heard)["stdout"] == "begun"
    assert tool.payload(heard)["killed_by"] == "user"


async def test_a_button_ends_what_an_agent_that_is_a_tool_runs(tmp_path: Path) -> None:
    app = App("workshop", store=f"sqlite:///{tmp_path}/app.db")
    inner = ScriptModel([call("shell_run", command="echo begun; sleep 1000"), "Ended."])
    app.add(Agent("clerk", model=inner, tools=shell(tmp_path), gates={"*": "auto"}))
    app.add(Agent("boss", model=ScriptModel([call("clerk", prompt="Go."), "Done."]), tools=["clerk"]))
    ended = False
    async with app.stream("boss", {"prompt": "Go.", "conversation": "c1"}) as stream:
        async for event in stream:
            inside = event.get("kind") == "tool_progress" and event["data"]["event"].get("kind")
            if inside == "tool_progress" and not ended:
                ended = processes.terminate(event["data"]["id"], "c1")
            last = event
    assert ended
    assert last["envelope"]["data"] == "Done."


async def test_many_commands_at_once_do_not_mix(tmp_path: Path) -> None:
    app = app_of(tmp_path)
    done = await asyncio.gather(*(run(app, f"echo {number}; echo e{number} >&2") for number in range(40)))
    assert [each.data["stdout"] for each in done] == [str(number) for number in range(40)]
    assert [each.data["stderr"] for each in done] == [f"e{number}" for number in range(40)]


async def test_a_bash_that_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = await run(app_of(tmp_path), "ls")
    assert done.failure is not None
    assert tool.render(done.failure)["kind"] == "unavailable"
