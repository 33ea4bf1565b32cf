"""Runs that are written down and played again, and runs that have a name."""

import asyncio
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Failure, Kind
from fairlead.agents.models.script import ScriptModel, call
from fairlead.failures import runtime as wire
from fairlead.failures.runtime import ConfigError
from fairlead.pipelines.apps import options_for
from fairlead.pipelines.checking import check_text, require
from fairlead.pipelines.host import Host
from fairlead.pipelines.lines import sent
from fairlead.pipelines.recordings import Recorder, read_record, replay
from fairlead.pipelines.running import Run, run_all
from warm import Warm

pytestmark = pytest.mark.usefixtures("warm_python")

TRIAGE = """
type Triage = { urgency: int, complete: bool }
let sorter : !(string | { again: int }) -> !Triage = agent { model: "script/answers.json" }
let main : !string -> !int = plumb(input, output) {
  input ; sorter
  sorter ; filter(complete = false) ; map({ again: urgency }) ; sorter
  sorter ; filter(complete = true).urgency ; output
}
"""


def plumb(folder: Path, *words: str, given: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        Warm.python.command("-m", "fairlead", "plumb", *words),
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "FAIRLEAD_DATA": str(folder / "data"), "HOME": str(folder), **environ},
        check=False,
    )


def write(folder: Path, *texts: str) -> None:
    script = {"follow": "order", "turn": [{"text": each} for each in texts]}
    (folder / "answers.json").write_text(json.dumps(script))


@pytest.fixture
def triage(tmp_path: Path) -> Path:
    (tmp_path / "triage.plumb").write_text(TRIAGE)
    first, second = ({"urgency": 1, "complete": False}, {"urgency": 2, "complete": True})
    write(tmp_path, json.dumps(first), json.dumps(second))
    return tmp_path


def recorded(folder: Path) -> Path:
    done = plumb(folder, "run", "triage.plumb", "--record", "triage.rec.jsonl", given='"help"\n')
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    return folder / "triage.rec.jsonl"


def test_a_recording_is_replayed_without_the_model(triage: Path) -> None:
    recorded(triage)
    (triage / "answers.json").unlink()
    done = plumb(triage, "test", "triage.plumb")
    assert (done.returncode, done.stdout) == (0, "ok triage.rec.jsonl (1 results, 2 steps)\n"), done.stderr


def test_a_program_that_gives_something_else_is_told_what(triage: Path) -> None:
    recorded(triage)
    (triage / "triage.plumb").write_text(
        TRIAGE.replace(".urgency ; output", ".urgency ; map(value + 1) ; output")
    )
    done = plumb(triage, "test", "triage.plumb", "--replay", "triage.rec.jsonl")
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["not ok triage.rec.jsonl", "  missing: 2", "  new: 3"]


def test_a_program_that_asks_something_else_is_told_where(triage: Path) -> None:
    recorded(triage)
    (triage / "triage.plumb").write_text(TRIAGE.replace("{ again: urgency }", "{ again: urgency + 1 }"))
    done = plumb(triage, "test", "triage.plumb")
    assert done.returncode == 1
    assert "no answer for what 'sorter@model' is asked now" in done.stdout


def test_a_failure_is_a_part_of_a_recording(triage: Path) -> None:
    write(triage, "no json", "nor this", "nor this", "nor this")
    done = plumb(triage, "run", "triage.plumb", "--record", "triage.bad.rec.jsonl", given='"help"')
    assert done.returncode == 1
    assert json.loads(done.stderr)["error"] == "output_extraction_failed"
    assert plumb(triage, "test", "triage.plumb").stdout == "ok triage.bad.rec.jsonl (0 results, 4 steps)\n"


@pytest.mark.parametrize("text", ["", "no json", '{"input": 1}', '{"recording": 1}'])
def test_what_is_no_whole_recording_is_refused(triage: Path, text: str) -> None:
    (triage / "triage.rec.jsonl").write_text(text)
    done = plumb(triage, "test", "triage.plumb")
    assert done.returncode == 2
    assert json.loads(done.stderr)["error"] == "config_error"


@pytest.mark.parametrize(
    "line", ["5", '{"step": ["a"], "place": "a"}', '{"step": "a", "place": "a"}', '{"end": 5}']
)
def test_a_line_of_something_else_is_no_line_of_a_recording(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_record(f'{{"recording": 1}}\n{line}\n{{"end": null}}\n', "rec")
    assert caught.value.details["line"] == 2


def test_bytes_that_are_no_text_are_no_recording(triage: Path) -> None:
    (triage / "bytes").write_bytes(b"\xff\xfe\x00")
    done = plumb(triage, "test", "triage.plumb", "--replay", "bytes")
    assert (done.returncode, json.loads(done.stderr)["error"]) == (2, "config_error")


@pytest.mark.parametrize("words", [["--record", "a.rec.jsonl"], ["--durable", "monday"]])
def test_a_message_may_hold_what_ends_lines_elsewhere(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "a.plumb").write_text("let main : !string -> !string = id")
    given = '"one\u2028two\u0085"\n\n"three"\r\n'
    done = plumb(tmp_path, "run", "a.plumb", *words, given=given)
    assert (done.returncode, done.stdout) == (0, plumb(tmp_path, "run", "a.plumb", given=given).stdout)
    assert len(done.stdout.split("\n")) == 3
    if "--record" in words:
        assert plumb(tmp_path, "test", "a.plumb").stdout == "ok a.rec.jsonl (2 results, 0 steps)\n"


@pytest.mark.parametrize("words", [["run"], ["call"], ["run", "--record", "a.rec.jsonl"]])
def test_a_byte_order_mark_is_no_part_of_the_first_message(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "a.plumb").write_text("let main : !string -> !string = id")
    verb, *more = words
    done = plumb(tmp_path, verb, "a.plumb", *more, given='\ufeff"a"\n')
    assert (done.returncode, done.stdout) == (0, '"a"\n'), done.stderr


@pytest.mark.parametrize("words", [["run"], ["call"], ["run", "--record", "a.rec.jsonl"]])
def test_bytes_that_are_no_text_are_no_messages(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "a.plumb").write_text("let main : !string -> !string = id")
    verb, *more = words
    done = subprocess.run(
        Warm.python.command("-m", "fairlead", "plumb", verb, "a.plumb", *more),
        input=b'"\xff"\n', capture_output=True, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, json.loads(done.stderr)["error"]) == (1, "parse_error")


@pytest.mark.parametrize("last", ["0", '"no number"', "no JSON"])
def test_a_recorded_run_gives_what_a_plain_one_gives_before_it_fails(tmp_path: Path, last: str) -> None:
    (tmp_path / "a.plumb").write_text("let main : !int -> !number = map(6 / value)")
    given = f"1\n2\n3\n{last}\n"
    plain = plumb(tmp_path, "run", "a.plumb", given=given)
    done = plumb(tmp_path, "run", "a.plumb", "--record", "a.rec.jsonl", given=given)
    assert (done.returncode, done.stdout, done.stderr) == (1, plain.stdout, plain.stderr)
    count = len(plain.stdout.splitlines())
    assert plumb(tmp_path, "test", "a.plumb").stdout == f"ok a.rec.jsonl ({count} results, 0 steps)\n"
    if last != "0":
        assert plain.stdout == "6.0\n3.0\n2.0\n"


@pytest.mark.parametrize("tool", ["tool { process: counter }", "action count"])
async def test_what_is_called_within_a_tool_is_a_part_of_its_answer(tool: str) -> None:
    text = f"""
    let counter : !{{ n: int }} -> !int = action count
    let tally : {{ n: int }} -> int = {tool}
    let main : !string -> !string = agent {{ model: "default", tools: [tally] }}"""
    app = App("shop", models=ScriptModel([[call("tally", n=1), call("tally", n=1)], "done"]))

    @app.action
    async def count(n: int) -> int:
        """Count."""
        return n

    main = require(check_text(text, options=options_for(app, {}))).main
    assert main is not None
    file = io.StringIO()
    recorder = Recorder(file)
    recorder.received(["go"])
    recorder.sent(await run_all(main, ["go"], Host(app=app, journal=recorder.journal())))
    recorder.ended(None)
    again = await replay(main, read_record(file.getvalue(), "rec"), Host(app=app))
    assert (again.outputs, again.differences) == (["done"], [])


@pytest.mark.parametrize(
    ("body", "limits", "code"),
    [
        ("input ; action slow { timeout: 0.05 } ; output", None, "process_error"),
        ("input ; action quick ; output", {"calls": 1}, "budget_exceeded"),
        ("input ; (action slow * action wrong) ; barrier ; project(0) ; output", None, "validation_error"),
    ],
)
async def test_a_recording_that_ends_in_the_middle_of_a_step_is_replayed(
    body: str, limits: dict[str, Any] | None, code: str
) -> None:
    app = App("shop")

    @app.action
    async def quick(n: int) -> int:
        """Answer."""
        return n

    @app.action
    async def slow(n: int) -> int:
        """Never answer."""
        await asyncio.Event().wait()
        return n

    @app.action
    async def wrong(n: int) -> int:
        """Fail."""
        await asyncio.sleep(0)
        raise Failure(Kind.conflict, "No.")

    text = f"let main : !{{ n: int }} -> !int = plumb(input, output) {{ {body} }}"
    main = require(check_text(text, options=options_for(app, {}))).main
    assert main is not None
    file, given = io.StringIO(), [{"n": 1}, {"n": 2}]
    recorder = Recorder(file, limits)
    recorder.received(given)
    with pytest.raises(Failure) as caught:
        async with Run(
            main, Host(app=app, journal=recorder.journal(), limits=limits), write=recorder.sent
        ) as run:
            await sent(run, given)
    recorder.ended(caught.value)
    again = await replay(main, read_record(file.getvalue(), "rec"), Host(app=app))
    assert (again.failure and wire.render(again.failure)["error"], again.differences) == (code, [])


def test_without_a_recording_it_is_said_how_to_make_one(triage: Path) -> None:
    done = plumb(triage, "test", "triage.plumb")
    assert done.returncode != 0
    assert "--record triage.rec.jsonl" in done.stderr


def test_a_run_with_a_name_is_done_once(triage: Path) -> None:
    first = plumb(triage, "run", "triage.plumb", "--durable", "monday", given='"help"')
    assert (first.returncode, first.stdout) == (0, "2\n"), first.stderr
    (triage / "answers.json").unlink()
    again = plumb(triage, "run", "triage.plumb", "--durable", "monday", given='"help"')
    assert (again.returncode, again.stdout) == (0, "2\n"), again.stderr
    other = plumb(triage, "run", "triage.plumb", "--durable", "monday", given='"something else"')
    assert other.returncode == 1
    assert "monday" in other.stderr


def test_the_whole_run_may_have_a_budget(triage: Path) -> None:
    done = plumb(triage, "run", "triage.plumb", "--budget", "calls=1", given='"help"')
    assert done.returncode == 1
    told = json.loads(done.stderr)
    assert (told["error"], told["category"], told["budget"]) == ("budget_exceeded", "denied", "calls")


@pytest.mark.parametrize("given", ["token=1", "tokens=-1", "tokens=x", "tokens", "time=inf", ""])
def test_a_budget_that_is_none_is_refused(triage: Path, given: str) -> None:
    done = plumb(triage, "run", "triage.plumb", "--budget", given, given='"help"')
    assert done.returncode == 2
    assert "--budget" in done.stderr
