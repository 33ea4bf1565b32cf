"""`plumb`: JSON Lines in and out, exit codes, problems for people and for programs, pictures."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import pytest

from effort import effort
from warm import Warm

FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))

TRIAGE = """\
(* Sorts tickets. *)
type Ticket = { n: int, text: string }

let main : !Ticket -> !{ n: int } = plumb(input, output) {
  input ; map({ n: n * 2 }) ; filter(n > 2) ; output
}
"""


pytestmark = pytest.mark.usefixtures("warm_python")


def plumb(
    *arguments: str, stdin: str = "", cwd: Path | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        Warm.python.command(FAIRLEAD, "plumb", *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environ},
        timeout=60,
        check=False,
    )


@pytest.fixture
def triage(tmp_path: Path) -> str:
    path = tmp_path / "triage.plumb"
    path.write_text(TRIAGE)
    return str(path)


def test_lines_go_in_and_come_out(triage: str) -> None:
    done = plumb("run", triage, stdin='{"n": 1, "text": "a"}\n\n{"n": 2, "text": "b"}\n{"n": 3, "text": "c"}')
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"n":4}\n{"n":6}\n', "")


def test_run_may_be_left_out(triage: str) -> None:
    assert plumb(triage, stdin='{"n": 2, "text": ""}\n').stdout == '{"n":4}\n'


def test_a_call_prints_the_first_result(triage: str) -> None:
    assert plumb("call", triage, '{"n": 9, "text": ""}').stdout == '{"n":18}\n'
    assert plumb("call", triage, stdin='{"n": 9, "text": ""}').stdout == '{"n":18}\n'


@pytest.mark.parametrize(
    ("stdin", "code", "exit"),
    [('{"n": "x", "text": ""}', "validation_error", 1), ("{", "parse_error", 1)],
)
def test_what_is_wrong_with_the_input_is_one_line_of_json_and_an_exit_code(
    triage: str, stdin: str, code: str, exit: int
) -> None:
    done = plumb("run", triage, stdin=f'{{"n": 2, "text": ""}}\n{stdin}\n')
    assert (done.returncode, done.stdout) == (exit, '{"n":4}\n')
    error = json.loads(done.stderr)
    assert error["error"] == code
    assert list(error)[:3] == ["error", "category", "detail"]


@pytest.mark.parametrize("words", [[], ["--record", "rec"]])
def test_a_message_of_another_type_is_told_by_its_line(triage: str, tmp_path: Path, words: list[str]) -> None:
    given = '\n{"n": 2, "text": ""}\n\n{"n": "x", "text": ""}\n{"n": 3, "text": ""}\n'
    done = plumb("run", triage, *words, stdin=given, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, '{"n":4}\n')
    told = json.loads(done.stderr)
    assert (told["error"], told["line"]) == ("validation_error", 4)


@pytest.mark.parametrize("words", [["-4"], ["--", "-4"], ["--telemetry", "-4"]])
def test_a_call_takes_a_negative_number(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.plumb").write_text("let main : !int -> !int = map(value + 1)")
    assert plumb("call", str(tmp_path / "a.plumb"), *words).stdout == "-3\n"


@pytest.mark.parametrize("words", [["run"], ["call"], ["run", "--record", "a.rec.jsonl"]])
def test_json_that_is_nested_too_deeply_is_told_so(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.plumb").write_text("let main : !json -> !json = id")
    verb, *more = words
    done = plumb(verb, "a.plumb", *more, stdin="[" * 5000 + "]" * 5000 + "\n", cwd=tmp_path)
    told = json.loads(done.stderr)
    assert (done.returncode, told["error"]) == (1, "parse_error")
    assert "nested too deeply" in told["detail"]


def test_a_result_that_is_nested_too_deeply_to_be_written_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "a.plumb").write_text("let main : !json -> !json = id")
    for verb in ("run", "call"):
        done = plumb(verb, "a.plumb", stdin="[" * 1020 + "]" * 1020 + "\n", cwd=tmp_path)
        assert (done.returncode, json.loads(done.stderr)["error"]) == (1, "validation_error")


def test_no_result_is_a_pipeline_error(triage: str) -> None:
    done = plumb("call", triage, '{"n": 1, "text": ""}')
    assert (done.returncode, json.loads(done.stderr)["error"]) == (1, "pipeline_error")


def test_a_program_that_does_not_check_is_never_run(tmp_path: Path) -> None:
    (tmp_path / "bad.plumb").write_text("let main : !int -> !string = id\nlet x : !Y -> !int = id\n")
    done = plumb("run", "bad.plumb", stdin="1\n", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "bad.plumb:1:5: error: " in done.stderr
    assert "bad.plumb:2:10: error: " in done.stderr


@pytest.mark.parametrize("words", [["run"], [], ["call"]])
def test_a_run_of_what_does_not_check_ends_with_the_error_for_programs(
    words: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "wrong.plumb"
    path.write_text("let main : !int -> !string = id\nlet other : !int -> !int = nothing")
    done = plumb(*words, str(path), stdin="1\n")
    assert done.returncode == 2
    *shown, last = done.stderr.splitlines()
    assert shown[-1] == "2 problems."
    told = json.loads(last)
    assert (told["error"], told["category"], told["line"]) == ("config_error", "config", 1)
    assert told["detail"]


def test_check_tells_programs_each_problem_as_an_error(tmp_path: Path) -> None:
    path = tmp_path / "wrong.plumb"
    path.write_text("let main : !int -> !string = id")
    (problem,) = json.loads(plumb("check", str(path), "--json").stdout)["problems"]
    assert (problem["error"], problem["category"]) == ("config_error", "config")
    assert problem["detail"] == problem["message"]


def test_a_file_that_is_not_there_is_a_config_error(tmp_path: Path) -> None:
    done = plumb("run", str(tmp_path / "none.plumb"))
    assert (done.returncode, json.loads(done.stderr)["error"]) == (2, "config_error")


def test_check_says_how_much_there_is(triage: str) -> None:
    done = plumb("check", triage)
    assert (done.returncode, done.stdout) == (0, "ok (1 types, 1 bindings)\n")


def test_check_tells_programs_bindings_types_and_problems(triage: str, tmp_path: Path) -> None:
    told = json.loads(plumb("check", triage, "--json").stdout)
    assert told["ok"] is True
    assert told["types"] == [{"name": "Ticket", "type": "{ n: int, text: string }"}]
    (main,) = told["bindings"]
    assert (main["name"], main["impl"], main["input_type"], main["output_type"]) == (
        "main", "plumb", "!Ticket", "!{ n: int }",
    )  # fmt: skip
    (tmp_path / "bad.plumb").write_text("let main : !int -> !string = id")
    done = plumb("check", str(tmp_path / "bad.plumb"), "--json")
    problem = json.loads(done.stdout)["problems"][0]
    assert (done.returncode, problem["rule"], problem["line"], problem["column"]) == (2, "mismatch", 1, 5)


def test_a_module_needs_no_main(tmp_path: Path) -> None:
    (tmp_path / "m.plumb").write_text("type T = int")
    assert plumb("check", str(tmp_path / "m.plumb")).returncode == 2
    assert plumb("check", "--module", str(tmp_path / "m.plumb")).returncode == 0


def test_fmt_rewrites_files_and_can_only_look(tmp_path: Path) -> None:
    path = tmp_path / "a.plumb"
    path.write_text("let main:!int->!int=id")
    assert plumb("fmt", "--check", str(path)).returncode == 1
    assert path.read_text() == "let main:!int->!int=id"
    assert plumb("fmt", str(path)).returncode == 0
    assert path.read_text() == "let main : !int -> !int = id\n"
    assert plumb("fmt", "--check", str(path)).returncode == 0
    assert plumb("fmt", "--stdout", str(path)).stdout == "let main : !int -> !int = id\n"


def test_a_picture_has_every_node_and_the_type_on_every_wire(triage: str, tmp_path: Path) -> None:
    dot = plumb("render", triage, "--format", "dot").stdout
    assert dot.startswith("digraph")
    assert 'label="!Ticket"' in dot
    assert plumb("render", triage, "--format", "mermaid").stdout.startswith("flowchart LR")
    target = tmp_path / "triage.svg"
    assert plumb("render", triage, "--out", str(target)).returncode == 0
    drawn = ElementTree.fromstring(target.read_text())
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"input", "output", "filter(n > 2)", "!Ticket", "!{ n: int }"} <= set(texts)


def test_actions_are_those_of_the_app_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "from fairlead import App\napp = App('shop')\n@app.action\ndef double(n: int) -> int:\n"
        "    '''Double.'''\n    return n * 2\n"
    )
    (tmp_path / "a.plumb").write_text("let main : !{ n: int } -> !int = action double")
    assert plumb("run", "a.plumb", stdin='{"n": 4}\n', cwd=tmp_path).stdout == "8\n"
    (tmp_path / "b.plumb").write_text("let main : !{ n: int } -> !int = action duoble")
    done = plumb("check", "b.plumb", cwd=tmp_path)
    assert done.returncode == 2
    assert "Did you mean 'double'?" in done.stderr


def test_what_nobody_foresaw_is_one_line_of_json_and_a_traceback_for_who_asks(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "from fairlead import App\nfrom fairlead.agents.models.script import ScriptModel\n"
        "def reply(request):\n    raise KeyError('password=hunter2')\n"
        "app = App('shop', models=ScriptModel(reply))\n@app.action\ndef same(n: int) -> int:\n"
        "    '''Same.'''\n    return n\n"
    )
    (tmp_path / "a.plumb").write_text(
        'let asked : !int -> !int = agent { model: "default" }\n'
        "let main : !{ n: int } -> !int = plumb(i, o) { i ; action same ; asked ; o }"
    )
    given = '{"n": 1}\n'
    done = plumb("run", "a.plumb", stdin=given, cwd=tmp_path)
    told = json.loads(done.stderr)
    assert (done.returncode, told["error"], told["category"]) == (1, "internal_error", "internal")
    assert "hunter2" not in done.stderr
    assert "Traceback" in plumb("run", "a.plumb", stdin=given, cwd=tmp_path, FAIRLEAD_DEBUG="1").stderr


def test_a_prompt_that_is_no_text_is_a_wrong_configuration(tmp_path: Path) -> None:
    (tmp_path / "prompt").write_bytes(b"\xff\xfe")
    agent = 'agent { provider: "eliza", model: "doctor", prompts: ["./prompt"] }'
    (tmp_path / "a.plumb").write_text(f"let main : !string -> !string = {agent}")
    done = plumb("run", "a.plumb", stdin='"hi"\n', cwd=tmp_path)
    assert (done.returncode, json.loads(done.stderr)["error"]) == (2, "config_error")


def test_telemetry_goes_to_stderr_when_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.plumb"
    path.write_text('let main : !string -> !string = agent { provider: "eliza", model: "doctor" }')
    done = plumb("run", str(path), stdin='"I am sad."\n', PIPELINE_DEBUG="1")
    assert done.stdout == '"Why do you say that you are sad?"\n'
    assert "usage" in [json.loads(line)["telemetry"] for line in done.stderr.splitlines()]
    assert plumb("run", str(path), stdin='"I am sad."\n').stderr == ""


def test_ctrl_c_ends_a_run_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.plumb"
    code = "import sys, time; print(1, flush=True); time.sleep(600)"
    path.write_text(f'let main : !int -> !int = exec {{ cmd: "{sys.executable}", args: ["-c", "{code}"] }}')
    command = [sys.executable, "-m", "fairlead", "plumb", "run", str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"1\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130


def test_ctrl_c_ends_a_run_whose_reader_does_not_read(triage: str) -> None:
    command = Warm.python.command(FAIRLEAD, "plumb", "run", triage)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        os.set_blocking(running.stdin.fileno(), False)
        block = b'{"n": 2, "text": ""}\n' * 100
        end = time.monotonic() + 30
        # Until nothing goes in any more, as nothing comes out.
        while select.select([], [running.stdin], [], 0.3)[1] and time.monotonic() < end:
            os.write(running.stdin.fileno(), block)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130


STUBBORN = """
import os, signal, sys, time
out = os.open(sys.argv[1], os.O_WRONLY)
signal.signal(signal.SIGTERM, lambda *_: os.write(out, b"asked"))
os.write(out, b"began")
end = time.monotonic() + 10
while time.monotonic() < end:
    time.sleep(end - time.monotonic())
os.write(out, b"still there")
"""


def test_no_program_outlives_a_second_ctrl_c(tmp_path: Path) -> None:
    told, path = tmp_path / "told", tmp_path / "a.plumb"
    os.mkfifo(told)
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    args = f'["{tmp_path}/stubborn.py", "{told}"]'
    path.write_text(f'let main : !int -> !int = exec {{ cmd: "{sys.executable}", args: {args} }}')
    command = [sys.executable, "-m", "fairlead", "plumb", "run", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as running, open(told, "rb", buffering=0) as said:
        for word in (b"began", b"asked"):
            assert said.read(5) == word
            running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
        # Nobody has it open any more.
        assert said.read() == b""


def test_an_endless_stream_is_answered_as_it_comes_and_in_constant_memory(triage: str) -> None:
    command = [sys.executable, "-m", "fairlead", "plumb", "run", triage]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b'{"n": 2, "text": ""}\n')
        running.stdin.flush()
        assert running.stdout.readline() == b'{"n":4}\n'
        before = memory(running.pid)
        block = b'{"n": 1, "text": "dropped by the filter"}\n' * 1000
        for _ in range(200):
            running.stdin.write(block)
        running.stdin.write(b'{"n": 3, "text": ""}\n')
        running.stdin.flush()
        assert running.stdout.readline() == b'{"n":6}\n'
        assert memory(running.pid) < before + 30_000
        running.stdin.close()
        assert running.wait(30) == 0


def memory(process: int) -> int:
    """KiB that a process has."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    return int(status.read_text().partition("VmRSS:")[2].split()[0])


def test_a_program_of_ten_times_the_bindings_takes_ten_times_as_long_to_check(tmp_path: Path) -> None:
    from fairlead.pipelines import check_file

    def bindings(count: int) -> Path:
        lines = ["type Ticket = { subject: string, n: int }"]
        for index in range(0, count, 2):
            lines.append(f'let p{index} : !Ticket -> !Ticket = filter(n > {index} and subject != "x")')
            wires = f"{{ i ; p{index} ; map(n * 2 + {index}) ; o }}"
            lines.append(f"let p{index + 1} : !Ticket -> !int = plumb(i, o) {wires}")
        lines.append("let main : !Ticket -> !Ticket = p0")
        path = tmp_path / f"{count}.plumb"
        path.write_text("\n".join(lines))
        return path

    small, big = bindings(100), bindings(1000)
    assert len(check_file(big).processes) == 1001
    short = min(effort(lambda: check_file(small)) for _ in range(3))
    assert effort(lambda: check_file(big)) < 25 * short


def test_importing_fairlead_loads_no_part_of_pipelines_and_never_the_grammar_s_tool() -> None:
    program = "import sys, fairlead; assert not [m for m in sys.modules if 'pipelines' in m]\n"
    program += "from fairlead.pipelines import check_text; check_text('let main : !int -> !int = id')\n"
    program += "assert 'lark' not in sys.modules and 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_tables_are_those_of_the_grammar() -> None:
    from fairlead.pipelines import tabling

    pytest.importorskip("lark")
    assert json.loads(tabling.TABLES.read_text()) == json.loads(json.dumps(tabling.tables()))


def test_help_lists_every_verb_and_flag() -> None:
    page: Any = plumb("--help").stdout
    for word in (
        "run FILE",
        "call FILE",
        "check FILE",
        "fmt FILE",
        "render FILE",
        "--docroot",
        "--auto-approve",
    ):
        assert word in page


def test_plumb_is_a_program_of_its_own(triage: str) -> None:
    code = f"from fairlead.surfaces.cli.plumb import main; main(['check', {triage!r}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok (1 types, 1 bindings)\n")


def test_a_file_that_cannot_be_written_is_one_line_of_json(tmp_path: Path) -> None:
    (tmp_path / "x.plumb").write_text("let main : !int -> !int = id")
    for words in (
        ["render", "x.plumb", "--out", "no/such/x.svg"],
        ["render", "x.plumb", "--format", "svg", "--out", "folder/"],
        ["run", "x.plumb", "--record", "no/such/x.rec.jsonl"],
    ):
        done = plumb(*words, stdin="1\n", cwd=tmp_path)
        assert done.returncode == 2
        assert [json.loads(line)["error"] for line in done.stderr.splitlines()] == ["config_error"]
    assert [each.name for each in tmp_path.iterdir()] == ["x.plumb"]


LONG = "let main:!int->!int=id\n" + "(* It says much. *)\n" * 100
#: No file may become longer than half a kilobyte, as on a disk that is full.
FULL_DISK = """
import resource, sys
from fairlead.surfaces.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
main(["plumb", *sys.argv[1:]])
"""


@pytest.mark.parametrize("words", [["fmt", "x.plumb"], ["render", "x.plumb", "--out", "x.svg"]])
def test_a_file_that_cannot_be_written_whole_is_left_as_it_was(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.plumb").write_text(LONG)
    (tmp_path / "x.svg").write_text("drawn before")
    command = [sys.executable, "-c", FULL_DISK, *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, json.loads(done.stderr)["error"]) == (2, "config_error")
    left = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert left == {"x.plumb": LONG, "x.svg": "drawn before"}


def test_a_file_that_is_written_anew_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    path = tmp_path / "there" / "x.plumb"
    path.parent.mkdir()
    path.write_text(LONG)
    path.chmod(0o640)
    (tmp_path / "link.plumb").symlink_to(path)
    assert plumb("fmt", "link.plumb", cwd=tmp_path).returncode == 0
    assert (tmp_path / "link.plumb").is_symlink()
    assert (path.read_text() == LONG, path.stat().st_mode & 0o777) == (False, 0o640)
    assert plumb(
        "render", "link.plumb", "--format", "dot", "--out", "/dev/stdout", cwd=tmp_path
    ).stdout.startswith("digraph")


@pytest.mark.parametrize("file", [tempfile.TemporaryFile, tempfile.NamedTemporaryFile])
def test_a_drawing_for_the_output_comes_to_whoever_has_it_open(
    file: Callable[[], IO[bytes]], tmp_path: Path
) -> None:
    (tmp_path / "x.plumb").write_text(LONG)
    with file() as output:
        draw = ("render", "x.plumb", "--format", "dot", "--out", "/dev/stdout")
        subprocess.run(Warm.python.command(FAIRLEAD, "plumb", *draw), stdout=output, cwd=tmp_path, check=True)
        output.seek(0)
        assert output.read().startswith(b"digraph")


def test_a_file_may_be_called_as_the_shell_calls_the_home(tmp_path: Path) -> None:
    (tmp_path / "x.plumb").write_text(LONG)
    assert plumb("render", "x.plumb", "--format", "dot", "--out", "~", cwd=tmp_path).returncode == 0
    assert (tmp_path / "~").read_text().startswith("digraph")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["run"], ["call"], ["run", "--record", "x.rec.jsonl"]])
def test_results_that_cannot_be_written_are_told_in_a_line(
    words: list[str], triage: str, tmp_path: Path
) -> None:
    verb, *more = words
    with open("/dev/full", "w") as full:
        command = Warm.python.command(FAIRLEAD, "plumb", verb, triage, *more)
        given = b'{"n": 2, "text": "a"}\n'
        done = subprocess.run(
            command, input=given, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, timeout=60, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: The output cannot be written: No space left")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("count", [1, 2000])
def test_a_recording_that_cannot_be_written_is_one_line_of_json(count: int, triage: str) -> None:
    done = plumb("run", triage, "--record", "/dev/full", stdin='{"n": 2, "text": "a"}\n' * count)
    told = json.loads(done.stderr)
    assert (done.returncode, told["error"], told["file"]) == (2, "config_error", "/dev/full")


def test_a_test_without_a_recording_is_a_wrong_configuration(tmp_path: Path) -> None:
    (tmp_path / "x.plumb").write_text("let main : !int -> !int = id")
    done = plumb("test", "x.plumb", cwd=tmp_path)
    assert done.returncode == 2
    assert json.loads(done.stderr)["error"] == "config_error"
