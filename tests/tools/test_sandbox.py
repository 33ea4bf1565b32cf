"""`sandbox_exec` and `sandbox_process`: commands in front and in the background, with and without confinement."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Kind
from fairlead.actions import DefinitionError
from fairlead.failures import tool
from fairlead.runtime import Result, Signal
from fairlead.tools import processes
from fairlead.tools.bubblewrap import Bubblewrap, bubblewrap
from fairlead.tools.processes_census import marked
from fairlead.tools.sandbox import sandbox
from fairlead.tools.sandbox_jobs import RUNNING
from fairlead.tools.sandbox_tmp import PREFIX, PrivateTmp
from fairlead.tools.session import SESSION, Session

CONFINED = [
    pytest.param(
        "require",
        marks=pytest.mark.skipif(not isinstance(bubblewrap(), Bubblewrap), reason="no bubblewrap that works"),
    ),
    "off",
]


@pytest.fixture(params=CONFINED)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> App:
    """An app with a sandbox: each test runs once confined and once not."""
    return app_of(tmp_path, confine=request.param)


def app_of(root: Path, **options: Any) -> App:
    app = App("workshop")
    app.add(sandbox(root, **options))
    return app


async def run(app: App, command: str, **input: Any) -> Result:
    return await app.invoke("sandbox_exec", {"command": command, **input}, confirm=True)


async def process(app: App, action: str, pid: int | None = None, **input: Any) -> Result:
    return await app.invoke("sandbox_process", {"action": action, "pid": pid, **input})


async def started(app: App, command: str) -> dict[str, Any]:
    data: dict[str, Any] = (await run(app, command, background=True)).unwrap()
    return data


def kind_of(done: Result) -> str:
    assert done.failure is not None, done.data
    return str(tool.render(done.failure)["kind"])


@contextmanager
def conversation(name: str, **facts: Any) -> Iterator[Session]:
    session = Session(name, **facts)
    token = SESSION.set(session)
    try:
        yield session
    finally:
        SESSION.reset(token)


def fifo(root: Path) -> Path:
    path = root / "told"
    os.mkfifo(path)
    return path


def gone(pid: int) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 20)[0])
    finally:
        os.close(descriptor)


def real(path: Path) -> str:
    return os.path.realpath(path)


def text_of(path: str) -> str:
    return Path(path).read_text()


async def test_a_command_in_front_tells_output_code_and_folder(app: App, tmp_path: Path) -> None:
    done = await run(app, "echo out; echo err >&2; exit 3")
    where = real(tmp_path)
    assert done.data == {"stdout": "out\n", "stderr": "err\n", "exit_code": 3, "cwd": where}


async def test_a_pipeline_fails_when_its_first_part_fails(app: App) -> None:
    assert (await run(app, "false | cat")).data["exit_code"] == 1


async def test_a_command_that_a_signal_ended_has_the_shells_code(app: App) -> None:
    assert (await run(app, "kill -KILL $$")).data["exit_code"] == 137


async def test_the_folder_is_relative_to_the_sandbox(app: App, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    done = await run(app, "pwd", cwd="a/b")
    assert done.data["stdout"].strip() == done.data["cwd"] == real(tmp_path / "a" / "b")


@pytest.mark.parametrize("cwd", ["..", "/", "a/../../..", "/etc", "out", "nul\0"])
async def test_a_folder_outside_is_refused(app: App, tmp_path: Path, cwd: str) -> None:
    (tmp_path / "out").symlink_to("/usr")
    done = await run(app, "pwd", cwd=cwd)
    assert kind_of(done) == "invalid_args"
    assert done.failure is not None
    assert done.failure.field == "cwd"


async def test_a_folder_that_is_missing_is_not_found(app: App) -> None:
    assert kind_of(await run(app, "pwd", cwd="nowhere")) == "not_found"


async def test_silence_for_too_long_is_a_time_out(app: App) -> None:
    done = await run(app, "echo begun; sleep 1000", timeout=1)
    assert kind_of(done) == "timeout"
    assert done.failure is not None
    assert done.failure.details["stdout"] == "begun\n"


async def test_long_output_keeps_its_beginning_and_its_end(app: App) -> None:
    done = await run(app, "echo first; seq 1 100000; echo last; seq 1 100000 >&2")
    out, err = done.data["stdout"], done.data["stderr"]
    assert out.startswith("first\n1\n")
    assert out.endswith("\nlast\n")
    assert tool.CAPS["exec_stdout"] < len(out) < tool.CAPS["exec_stdout"] + 200
    assert tool.CAPS["exec_stderr"] < len(err) < tool.CAPS["exec_stderr"] + 200


async def test_the_environment_holds_no_key_of_the_program(
    app: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-commands")
    done = await run(app, "env; echo $HOME")
    assert "sk-not-for-commands" not in done.data["stdout"]
    assert done.data["stdout"].endswith(f"{real(tmp_path)}\n")


async def test_temporary_files_last_from_one_command_to_the_next(app: App) -> None:
    await run(app, "echo kept > $TMPDIR/note")
    assert (await run(app, "cat $TMPDIR/note")).data["stdout"] == "kept\n"


async def test_a_command_sees_the_same_python(app: App) -> None:
    done = await run(app, "python3 -c 'import sys, pydantic; print(sys.version)'")
    assert done.data["stdout"].strip() == sys.version


@pytest.mark.parametrize("confine", CONFINED)
async def test_a_secret_that_arrives_in_pieces_is_masked_also_while_it_runs(
    tmp_path: Path, confine: Any
) -> None:
    app = app_of(tmp_path, confine=confine, secrets={"TOKEN": "opensesame-42"})
    os.mkfifo(tmp_path / "go")
    command = "printf 'key opense'; cat go; printf 'same-42 end\n'; cat go"
    events = []
    async for event in app.stream("sandbox_exec", {"command": command}, confirm=True):
        events.append(event)
        if event["type"] == "progress":
            await asyncio.to_thread((tmp_path / "go").write_text, "")
    told = [event for event in events if event["type"] == "progress"]
    assert told[0]["fields"]["tail"] == "key "
    assert "opense" not in str(events)
    assert events[-1]["envelope"]["data"]["stdout"] == "key [REDACTED:TOKEN] end\n"


async def test_each_command_of_a_turn_counts_until_the_limit(tmp_path: Path) -> None:
    app = app_of(tmp_path, confine="off", limit=2)
    with conversation("c1") as session:
        assert (await run(app, "true")).ok
        assert (await run(app, "true")).ok
        assert kind_of(await run(app, "touch third")) == "rejected"
        session.commands = 0
        assert (await run(app, "true")).ok
    assert not (tmp_path / "third").exists()
    for _ in range(4):
        assert (await run(app, "true")).ok, "outside a conversation there are no turns"


async def test_a_secret_in_a_background_command_is_shown_nowhere(tmp_path: Path) -> None:
    app = app_of(tmp_path, secrets={"TOKEN": "hunter2hunter2"}, confine="off")
    job = await started(app, "echo hunter2hunter2")
    waited = (await process(app, "wait", job["pid"])).unwrap()
    listed = (await process(app, "list")).unwrap()
    assert waited["command"] == "echo [REDACTED:TOKEN]"
    assert waited["output"].strip() == "[REDACTED:TOKEN]"
    assert "hunter2" not in str(listed)


async def test_a_background_command_gives_its_pid_and_log(app: App, tmp_path: Path) -> None:
    told = fifo(tmp_path)
    data = await started(app, "echo hello; echo oops >&2; cat told; exit 5")
    assert set(data) == {"pid", "log_file", "cwd", "background"}
    assert data["background"] is True
    assert data["cwd"] == real(tmp_path)
    assert Path(data["log_file"]).is_relative_to(real(tmp_path))
    assert os.getsid(data["pid"]) == data["pid"], "it has a session of its own"
    assert (await process(app, "poll", data["pid"])).data["running"] is True
    await asyncio.to_thread(told.write_text, "go\n")
    done = (await process(app, "wait", data["pid"])).data
    assert (done["running"], done["exit_code"], done["output"]) == (False, 5, "hello\noops\ngo\n")
    assert text_of(data["log_file"]) == "hello\noops\ngo\n"


async def test_a_background_command_is_killed_with_all_it_started(app: App, tmp_path: Path) -> None:
    told = fifo(tmp_path)
    data = await started(
        app, "trap 'echo cleaned; exit 3' TERM; echo up > told; while :; do sleep 0.05; done"
    )
    await asyncio.to_thread(told.read_text)
    done = (await process(app, "kill", data["pid"])).data
    assert (done["running"], done["exit_code"], done["killed_by"]) == (False, 3, "user")
    assert "cleaned" in done["output"]
    assert gone(data["pid"])
    again = (await process(app, "kill", data["pid"])).data
    assert again == done, "killing it twice changes nothing"


async def test_waiting_ends_after_its_time_and_leaves_the_command(app: App) -> None:
    data = await started(app, "sleep 1000")
    waited = await process(app, "wait", data["pid"], timeout=1)
    assert waited.data["running"] is True
    assert any("still runs" in text for text in waited.warnings)
    await process(app, "kill", data["pid"])


async def test_a_cancelled_wait_leaves_the_command(app: App) -> None:
    data, stop = await started(app, "sleep 1000"), Signal()
    waiting = asyncio.ensure_future(
        app.invoke("sandbox_process", {"action": "wait", "pid": data["pid"]}, signal=stop)
    )
    await asyncio.sleep(0)
    stop.cancel()
    assert (await waiting).failure is not None
    assert (await process(app, "poll", data["pid"])).data["running"] is True
    await process(app, "kill", data["pid"])


async def test_list_shows_what_this_conversation_started_and_nothing_else(app: App) -> None:
    with conversation("mine"):
        mine = await started(app, "sleep 1000")
    with conversation("yours"):
        assert (await process(app, "list")).data == {"processes": []}
        assert kind_of(await process(app, "poll", mine["pid"])) == "not_found"
        assert kind_of(await process(app, "kill", mine["pid"])) == "not_found"
    with conversation("mine"):
        (listed,) = (await process(app, "list")).data["processes"]
        assert (listed["pid"], listed["running"], listed["command"]) == (mine["pid"], True, "sleep 1000")
        await process(app, "kill", mine["pid"])


async def test_a_process_must_be_named(app: App) -> None:
    for action in ("poll", "wait", "kill"):
        done = await process(app, action)
        assert kind_of(done) == "invalid_args"
        assert done.failure is not None
        assert done.failure.field == "pid"


async def test_a_process_of_somebody_else_is_not_found(app: App) -> None:
    assert kind_of(await process(app, "kill", os.getpid())) == "not_found"


async def test_where_the_background_is_off_it_is_rejected(tmp_path: Path) -> None:
    app = app_of(tmp_path, confine="off", background=False)
    assert kind_of(await run(app, "touch made", background=True)) == "rejected"
    assert not (tmp_path / "made").exists()


async def test_where_the_background_is_off_the_foreground_works(tmp_path: Path) -> None:
    assert (await run(app_of(tmp_path, confine="off", background=False), "true")).data["exit_code"] == 0


async def test_too_many_background_commands_are_rejected(tmp_path: Path) -> None:
    app = app_of(tmp_path, confine="off")
    pids = [(await started(app, "exec sleep 1000"))["pid"] for _ in range(RUNNING)]
    assert kind_of(await run(app, "sleep 1", background=True)) == "rejected"
    await asyncio.gather(*(process(app, "kill", pid) for pid in pids))
    assert (await run(app, "true", background=True)).ok


async def test_a_log_stays_within_its_limit(tmp_path: Path) -> None:
    app = app_of(tmp_path, confine="off", log_limit=10_000)
    data = await started(app, "seq 1 50000")
    done = (await process(app, "wait", data["pid"])).data
    log = text_of(data["log_file"])
    assert len(log) <= 10_000
    assert log.endswith("49999\n50000\n")
    assert done["output"].startswith("1\n2\n3\n")


async def test_a_secret_is_masked_in_the_log(tmp_path: Path) -> None:
    app = app_of(tmp_path, confine="off", secrets={"TOKEN": "opensesame-42"})
    data = await started(app, "printf opense; printf same-42")
    done = (await process(app, "wait", data["pid"])).data
    assert done["output"] == text_of(data["log_file"]) == "[REDACTED:TOKEN]"


@pytest.mark.parametrize("where", [".fairlead", ".fairlead/logs"])
async def test_a_link_in_place_of_the_log_folder_is_not_followed(tmp_path: Path, where: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / where).parent.mkdir(parents=True)
    (outside / "logs").mkdir(parents=True)
    (root / where).symlink_to(outside)
    done = await run(app_of(root, confine="off"), "echo x", background=True)
    assert kind_of(done) == "execution_error"
    assert [path for path in outside.rglob("*") if path.is_file()] == []


async def test_a_cancelled_command_leaves_no_process(app: App, tmp_path: Path) -> None:
    told, stop = fifo(tmp_path), Signal()
    call = asyncio.ensure_future(
        app.invoke(
            "sandbox_exec",
            {"command": "(trap '' TERM; echo x > told; sleep 1000) & sleep 1000"},
            confirm=True,
            signal=stop,
            invocation_id="cancelled-one",
        )
    )
    await asyncio.to_thread(told.read_text)
    (running,) = [each for each in processes._RUNNING if each.call == "cancelled-one"]
    stop.cancel()
    done = await call
    assert done.failure is not None
    assert done.failure.kind is Kind.cancelled
    assert await running.wait(20)
    assert gone(running.pid)


async def test_a_command_that_is_cancelled_while_it_is_prepared_leaves_nothing(app: App) -> None:
    """Bubblewrap needs a moment to set up, in which its end would leave an orphan."""
    seen: set[processes.Process] = set()
    for turns in range(25):
        stop = Signal()
        call = asyncio.ensure_future(
            app.invoke(
                "sandbox_exec", {"command": "setsid sleep 1000 & sleep 1000"}, confirm=True, signal=stop
            )
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        seen |= processes._RUNNING
        stop.cancel()
        assert (await call).failure is not None
    assert seen
    for each in seen:
        assert await each.wait(20)
        assert marked(processes.MARK, each._mark) == []


async def test_a_users_button_ends_a_command_and_the_result_says_so(app: App, tmp_path: Path) -> None:
    told = fifo(tmp_path)
    call = asyncio.ensure_future(
        app.invoke(
            "sandbox_exec",
            {"command": "echo x > told; sleep 1000"},
            confirm=True,
            invocation_id="stopped-one",
        )
    )
    await asyncio.to_thread(told.read_text)
    assert processes.terminate("stopped-one")
    assert (await call).data["killed_by"] == "user"


@pytest.mark.parametrize("confine", CONFINED)
@pytest.mark.parametrize("way", [None, signal.SIGTERM, signal.SIGKILL])
def test_background_commands_end_with_the_program(
    tmp_path: Path, confine: Any, way: signal.Signals | None
) -> None:
    program = (
        "import asyncio, sys\nfrom fairlead import App\nfrom fairlead.tools.sandbox import sandbox\n"
        f"app = App('x')\napp.add(sandbox('.', confine={confine!r})[0])\n"
        "call = {'command': 'trap \"\" TERM; echo up; while :; do sleep 0.1; done', 'background': True}\n"
        "done = asyncio.run(app.invoke('sandbox_exec', call, confirm=True))\n"
        "print(done.data['pid'], flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as host:
        assert host.stdout is not None
        assert host.stdin is not None
        pid = int(host.stdout.readline())
        os.kill(pid, 0)
        if way is None:
            host.stdin.write(b"\n")
            host.stdin.flush()
        else:
            host.send_signal(way)
        host.wait(30)
    assert gone(pid)


async def test_background_commands_end_with_the_app_that_nobody_has_any_more(tmp_path: Path) -> None:
    app = app_of(tmp_path, confine="off")
    pid = (await started(app, "sleep 1000"))["pid"]
    del app
    gc.collect()
    assert await asyncio.to_thread(gone, pid)


async def test_waiting_tells_what_the_command_prints(app: App, tmp_path: Path) -> None:
    told = fifo(tmp_path)
    data = await started(app, "echo step 1; cat told")
    heard = []
    async for event in app.stream("sandbox_process", {"action": "wait", "pid": data["pid"]}):
        if event["type"] == "progress":
            heard.append(event["message"])
            # Who is told an id may end the command by it, and this call has none to end.
            assert "pid" not in event["fields"]
            await asyncio.to_thread(told.write_text, "")
    assert heard == ["step 1"]


def test_temporary_files_of_a_killed_program_are_removed_later_and_those_in_use_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"{PREFIX}abandoned" / "deep").mkdir(parents=True)
    earlier, used = PrivateTmp(), PrivateTmp()
    earlier.sweeping.join(20)
    used.sweeping.join(20)
    earlier.remove()
    assert list(tmp_path.iterdir()) == [used.path]
    used.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_sandbox_of_everything_is_refused() -> None:
    with pytest.raises(DefinitionError):
        sandbox("/")


def test_a_mode_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError):
        sandbox(tmp_path, confine="maybe")  # type: ignore[arg-type]


async def test_a_root_that_is_missing_makes_the_tool_unavailable(tmp_path: Path) -> None:
    assert kind_of(await run(app_of(tmp_path / "nowhere", confine="off"), "ls")) == "unavailable"
