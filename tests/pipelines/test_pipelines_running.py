"""Runs: what goes in comes out as the wiring says, loops end, and nothing but a filter drops."""

import asyncio
import gc
import itertools
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from effort import effort
from fairlead import App, Failure, Kind
from fairlead.pipelines.apps import options_for
from fairlead.pipelines.checking import check_file, check_text, require
from fairlead.pipelines.host import Host
from fairlead.pipelines.lines import between
from fairlead.pipelines.program import Process
from fairlead.pipelines.running import Ended, Run, call, run_all

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


def program(text: str, app: App | None = None) -> Process:
    checked = require(check_text(text, options=options_for(app, {})))
    assert checked.main is not None
    return checked.main


async def given(text: str, values: list[Any], app: App | None = None, host: Host | None = None) -> list[Any]:
    return await run_all(program(text, app), values, host or Host(app=app))


def execute(code: str, more: str = "") -> str:
    escaped = code.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'exec {{ cmd: "{sys.executable}", args: ["-c", "{escaped}"] {more} }}'


async def code_of(text: str, values: list[Any], app: App | None = None) -> Failure:
    with pytest.raises(Failure) as caught:
        await given(text, values, app)
    return caught.value


@pytest.mark.parametrize(
    ("body", "values", "results"),
    [
        ("i ; o", [1, 2, 3], [1, 2, 3]),
        ("i ; map(value + 1) ; o", [1, 2], [2, 3]),
        ("i ; filter(value > 1) ; o", [1, 2, 3], [2, 3]),
        ("i ; map(value * 2) ; filter(value > 2) ; map(value + 1) ; o", [1, 2, 3], [5, 7]),
        ("i ; (map(value + 1) * map(value * 2)) ; barrier ; map(value.0 + value.1) ; o", [1, 2], [4, 7]),
        ("i ; (id * id) ; barrier ; project(1) ; o", [1, 2], [1, 2]),
        ("i ; (id * id) ; merge ; o", [1], [1, 1]),
        ("i ; copy ; (o * discard)", [1, 2], [1, 2]),
        ("i ; o i ; discard", [1, 2], [1, 2]),
        ("i ; o empty ; o", [1, 2], [1, 2]),
        ("let c : !int = channel i ; c c ; o", [1, 2], [1, 2]),
        ("let twice : !int -> !int = map(value * 2) i ; twice ; o", [1, 2], [2, 4]),
        ("let f : !int -> !int = plumb(a, b) { a ; map(value + 1) ; b } spawn f(i, o)", [1, 2], [2, 3]),
        ("i ; map({ a: value, b: { c: value } }) ; filter(b.c = 2).a ; o", [1, 2], [2]),
        ("i ; filter(false) ; map(1 / 0) ; map(1) ; o", [1], []),
    ],
)
async def test_wiring_means_what_it_says(body: str, values: list[int], results: list[int]) -> None:
    text = f"let main : !int -> !int = plumb(i, o) {{ {body} }}"
    assert await given(text, values) == results


async def test_arithmetic_of_whole_numbers_is_whole_and_of_numbers_is_not() -> None:
    assert repr(await given("let main : !int -> !int = map(value * 2)", [5])) == "[10]"
    assert repr(await given("let main : !number -> !number = map(value * 2)", [5])) == "[10.0]"
    assert repr(await given("let main : !int -> !number = map(value / 2)", [4])) == "[2.0]"


async def test_a_name_used_twice_is_one_process_whose_output_is_copied() -> None:
    text = "let f : !int -> !int = map(value + 1) let main : !int -> !int = plumb(i, o) { i ; f f ; o f ; o }"
    assert await given(text, [1]) == [2, 2]


async def test_a_feedback_loop_ends_when_nothing_is_left_in_it() -> None:
    text = """
    let main : !int -> !int = plumb(i, o) {
      let c : !int = channel
      i ; c
      c ; filter(value < 100) ; map(value * 2) ; c
      c ; filter(value >= 100) ; o
    }"""
    assert sorted(await given(text, [1, 2, 3])) == [128, 128, 192]


async def test_a_loop_that_makes_more_than_its_channels_hold_does_not_lock_up() -> None:
    text = """
    let main : !int -> !int = plumb(i, o) {
      let c : !int = channel
      i ; c
      c ; filter(value > 0) ; map(value - 1) ; c
      c ; filter(value > 0) ; map(value - 1) ; c
      c ; filter(value = 0) ; o
    }"""
    assert len(await given(text, [14])) == 2**14


async def test_a_barrier_waits_for_a_slow_side_and_tells_what_is_left_over() -> None:
    told: list[dict[str, Any]] = []
    text = "let main : !int -> !(int, int) = plumb(i, o) { i ; (id * filter(value > 1)) ; barrier ; o }"
    assert await given(text, [1, 2, 3], host=Host(listener=told.append)) == [[1, 2], [2, 3]]
    assert [each["messages"] for each in told if each["telemetry"] == "leftover"] == [[1, 0]]


async def test_a_barrier_with_sides_of_very_different_length_does_not_lock_up() -> None:
    text = "let main : !int -> !(int, int) = plumb(i, o) { i ; (id * filter(value > 4999)) ; barrier ; o }"
    assert await given(text, list(range(5001))) == [[0, 5000]]


async def test_a_barrier_takes_batches_that_are_many_times_larger_than_a_channel() -> None:
    text = """
    let main : !int -> !(int, int) = plumb(i, o) {
      i ; (filter(value >= 12000) * filter(value < 12000)) ; barrier ; o
    }
    """
    async with Run(program(text)) as run:
        async with asyncio.timeout(30):
            for start in range(0, 24_000, 6000):
                await run.send_batch(list(range(start, start + 6000)))
            run.close_input()
            results = [each async for each in run]
    assert results == [[12_000 + each, each] for each in range(12_000)]


async def test_a_filter_with_a_type_lets_go_of_everything_else() -> None:
    text = """
    let small : !{ n: int } -> !{ n: int } = filter(n < 10)
    let main : !json -> !{ n: int } = plumb(i, o) { i ; small ; o }"""
    values = [{"n": 1}, {"n": "1"}, {"n": 50}, None, {"n": 2, "m": 1}, [1]]
    assert await given(text, values) == [{"n": 1}]


@pytest.mark.parametrize("more", ["", "i ; map(1) ; discard"])
async def test_a_filter_with_a_type_whose_output_nobody_wants_lets_go_of_everything_else(more: str) -> None:
    text = f"""
    let small : !{{ n: int }} -> !{{ n: int }} = filter(n < 10)
    let main : !json -> !json = plumb(i, o) {{ i ; small ; discard  i ; o  {more} }}"""
    assert await given(text, ["x", {"n": 1}]) == ["x", {"n": 1}]


@pytest.mark.parametrize(
    ("text", "value", "source"),
    [
        ("let main : !int -> !number = map(1 / value)", 0, "main"),
        ("let main : !{ a?: int } -> !int = plumb(i, o) { i ; map(a) ; o }", {}, "map"),
        ("let main : !number -> !number = map(value * value)", 1e200, "main"),
        ("let main : !int -> !int = id", "text", "main"),
        ("let main : !{ a: int } -> !int = map(a)", {"a": 1, "b": 2}, "main"),
    ],
)
async def test_what_is_not_of_the_type_or_cannot_be_computed_ends_the_run(
    text: str, value: Any, source: str
) -> None:
    failure = await code_of(text, [value])
    assert (failure.code, failure.details["source"]) == ("validation_error", source)


async def test_any_ratio_of_messages_goes_through_a_program() -> None:
    code = "import sys\nfor line in sys.stdin:\n for _ in range(int(line)): print(line, end='', flush=True)"
    text = f"let main : !int -> !int = {execute(code)}"
    assert await given(text, [0, 3, 1]) == [3, 3, 3, 1]


async def test_a_program_in_a_loop_lets_the_loop_end() -> None:
    code = "import sys\nfor line in sys.stdin: print(int(line) * 2, flush=True)"
    text = f"""
    let double : !int -> !int = {execute(code, ", settle: 0.2")}
    let main : !int -> !int = plumb(i, o) {{
      i ; double
      double ; filter(value < 50) ; double
      double ; filter(value >= 50) ; o
    }}"""
    assert sorted(await given(text, [1, 40])) == [64, 80]


@pytest.mark.parametrize(
    ("code", "expected", "extras"),
    [
        ("import sys; print('bad news', "
         "file=sys.stderr); sys.exit(3)", "process_error", {"exit_code": 3, "stderr": "bad news"}),
        ("import os; os.kill(os.getpid(), 9)", "process_error", {"signal": 9}),
        ("print('{')", "parse_error", {}),
        ("print('[]')", "validation_error", {"expected": "int"}),
        ("print('1' * (65 << 20))", "parse_error", {}),
    ],
)  # fmt: skip
async def test_a_program_that_goes_wrong_ends_the_run(
    code: str, expected: str, extras: dict[str, Any]
) -> None:
    failure = await code_of(
        f"let worker : !int -> !int = {execute(code)} let main : !int -> !int = worker", [1]
    )
    assert failure.code == expected
    assert {key: failure.details[key] for key in extras} == extras
    assert failure.details["source"] == "main"


async def test_a_program_may_say_on_stderr_what_it_likes() -> None:
    code = "import sys\nprint('x' * (65 << 20), file=sys.stderr)\nprint('after', file=sys.stderr)\nprint(1)"
    told: list[dict[str, Any]] = []
    assert await given(
        f"let main : !int -> !int = {execute(code)}", [1], host=Host(listener=told.append)
    ) == [1]
    lines = [each["line"] for each in told if each["telemetry"] == "stderr"]
    assert lines[-1] == "after"
    assert all(len(each) <= 10_000 for each in lines)


@pytest.mark.parametrize("settings", ['cmd: "cat\\u0000x"', 'cmd: "cat", args: ["\\u0000"]'])
async def test_a_program_that_no_system_can_start_is_a_process_error(settings: str) -> None:
    failure = await code_of(f"let main : !int -> !int = exec {{ {settings} }}", [1])
    assert (failure.code, failure.details["source"]) == ("process_error", "main")


@pytest.mark.parametrize(
    ("first", "next", "main"),
    [
        ("type f0 = int", "type f{} = {{ x: f{} }}", "!f{} -> !f{} = id"),
        ("type f0 = int", "type f{} = [f{}]", "!f{} -> !f{} = id"),
        ("let f0 : !int -> !int = id", "let f{} : !int -> !int = plumb(i, o) {{ i ; f{} ; o }}", "!int -> !int = f{}"),
        ("let f0 : !int -> !int = id", "let f{} : !int -> !int = f{}", "!int -> !int = f{}"),
    ],
)  # fmt: skip
async def test_what_leads_too_deep_to_run_is_refused_by_the_checker(first: str, next: str, main: str) -> None:
    def text(depth: int) -> str:
        lines = [first, *(next.format(each + 1, each) for each in range(depth))]
        return "\n".join([*lines, f"let main : {main.format(depth, depth)}"])

    async with Run(program(text(190))) as run:
        run.close_input()
        await run.wait()
    assert {each.rule for each in check_text(text(500)).errors} == {"recursive"}


async def test_a_program_whose_folder_is_not_there_is_told_so() -> None:
    failure = await code_of('let main : !int -> !int = exec { cmd: "cat", cwd: "no_such_folder" }', [1])
    assert failure.code == "process_error"
    assert "no_such_folder" in failure.message


async def test_a_program_that_is_not_there_is_a_process_error() -> None:
    failure = await code_of('let main : !int -> !int = exec { cmd: "/no/such/program" }', [1])
    assert failure.code == "process_error"


def shop() -> App:
    app = App("shop")

    @app.action
    def create_task(title: str, notes: str = "") -> dict[str, int]:
        """Create a task.

        Args:
            title: What it is.
            notes: More about it.
        """
        if title == "refuse":
            raise Failure(Kind.conflict, "It exists already.")
        return {"length": len(title) + len(notes)}

    return app


async def test_an_action_is_a_process_without_any_declaration() -> None:
    text = """
    let main : !{ title: string } -> !json = plumb(i, o) { i ; action create_task ; o }"""
    assert await given(text, [{"title": "abc"}], shop()) == [{"length": 3}]


async def test_an_action_that_fails_ends_the_run_with_its_failure() -> None:
    failure = await code_of(
        "let main : !{ title: string } -> !json = action create_task", [{"title": "refuse"}], shop()
    )
    assert failure.kind is Kind.conflict
    assert failure.details["source"] == "main"


async def test_transient_failures_are_tried_again_as_often_as_the_settings_say() -> None:
    app, calls = App("shop"), []

    @app.action
    def flaky(n: int) -> int:
        """Fail twice."""
        calls.append(n)
        if len(calls) < 3:
            raise Failure(Kind.unavailable, "Not now.")
        return n

    assert await given("let main : !{ n: int } -> !int = action flaky { retry: 2 }", [{"n": 7}], app) == [7]
    calls.clear()
    failure = await code_of("let main : !{ n: int } -> !int = action flaky { retry: 1 }", [{"n": 7}], app)
    assert failure.kind is Kind.unavailable


async def test_an_action_that_takes_too_long_is_ended() -> None:
    app = App("shop")

    @app.action
    async def forever(n: int) -> int:
        """Wait."""
        await asyncio.Event().wait()
        return n

    failure = await code_of(
        "let main : !{ n: int } -> !int = action forever { timeout: 0.05 }", [{"n": 1}], app
    )
    assert failure.code == "process_error"


async def test_a_session_passes_each_message_when_it_is_its_turn() -> None:
    text = """
    protocol P = send int . recv string . loop
    let main : !int -> !string = plumb(i, o) {
      let c : P = channel
      i ; c
      c@peer ; filter(value > 0) ; map("yes") ; c@peer
      c ; o
    }"""
    assert await given(text, [1, 2, 3]) == ["yes", "yes", "yes"]


async def test_a_session_whose_other_end_says_no_more_ends_where_it_is() -> None:
    text = """
    protocol P = send int . recv string . loop
    let main : !int -> !string = plumb(i, o) {
      let c : P = channel
      i ; c
      c@peer ; filter(value > 1) ; map("yes") ; c@peer
      c ; o
    }"""
    told: list[dict[str, Any]] = []
    async with asyncio.timeout(10):
        results = await given(text, [2, 1, 3, *range(2000)], host=Host(listener=told.append))
    assert results == ["yes"]
    assert [each["messages"] for each in told if each["telemetry"] == "leftover"] == [[2001]]


async def test_results_can_be_had_while_messages_are_still_sent() -> None:
    async with Run(program("let main : !int -> !int = map(value + 1)")) as run:
        await run.send(1)
        assert await run.recv() == 2
        await run.send(2)
        run.close_input()
        assert [each async for each in run] == [3]
        with pytest.raises(Ended):
            await run.recv()


async def test_a_call_gives_the_first_result_and_no_result_is_a_pipeline_error() -> None:
    assert await call(program("let main : !int -> !int = plumb(i, o) { i ; o i ; o }"), 1) == 1
    with pytest.raises(Failure) as caught:
        await call(program("let main : !int -> !int = filter(false)"), 1)
    assert caught.value.code == "pipeline_error"


async def test_a_slow_reader_holds_the_writers_back() -> None:
    async with Run(program("let main : !int -> !int = map(value + 1)")) as run:
        sent = 0

        async def feed() -> None:
            nonlocal sent
            while True:
                await run.send_batch(list(range(100)))
                sent += 100

        feeding = asyncio.get_running_loop().create_task(feed())
        for _ in range(2000):
            await asyncio.sleep(0)
        assert 0 < sent < 5000
        assert await run.recv() == 1
        feeding.cancel()


async def test_leaving_a_run_leaves_nothing_behind() -> None:
    before = len(asyncio.all_tasks())
    async with Run(program(f"let main : !json -> !json = {execute(ECHO)}")) as run:
        await run.send({"a": 1})
        assert await run.recv() == {"a": 1}
    gc.collect()
    assert len(asyncio.all_tasks()) == before


SAYS_GOODBYE = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(open(sys.argv[1], "w").write("goodbye")))
print("ready", flush=True)
signal.pause()
"""


async def test_a_program_whose_run_ends_while_it_starts_is_asked_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started, left = asyncio.create_subprocess_exec, asyncio.Event(), asyncio.Event()

    async def slowly(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        child = await start(*command, **options)
        assert child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"
        started.set()
        await left.wait()
        return child

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)
    (tmp_path / "says_goodbye.py").write_text(SAYS_GOODBYE)
    args = f'["{tmp_path}/says_goodbye.py", "{tmp_path}/said"]'
    async with Run(program(f'let main : !int -> !int = exec {{ cmd: "{sys.executable}", args: {args} }}')):
        await started.wait()
        asyncio.get_running_loop().call_soon(left.set)
    assert (tmp_path / "said").read_text() == "goodbye"


async def test_a_chain_of_many_processes_is_as_good_as_a_short_one() -> None:
    chain = " ; ".join(["i", *(["map(value + 1)"] * 500), "o"])
    assert await given(f"let main : !int -> !int = plumb(i, o) {{ {chain} }}", [0, 1]) == [500, 501]


async def test_many_branches_that_meet_again_do_not_make_the_code_grow_without_end() -> None:
    layer = "(filter(value = 1) * filter(value = 2)) ; merge"
    chain = " ; ".join(["i", *([layer] * 40), "o"])
    assert await given(f"let main : !int -> !int = plumb(i, o) {{ {chain} }}", [1, 2, 3]) == [1, 2]


async def test_a_budget_of_calls_is_enforced_for_the_block_it_stands_before() -> None:
    text = """
    let main : !{ title: string } -> !json = plumb(i, o) {
      budget { calls: 2 } { i ; action create_task ; o }
    }"""
    assert len(await given(text, [{"title": "a"}] * 2, shop())) == 2
    failure = await code_of(text, [{"title": "a"}] * 3, shop())
    assert (failure.code, failure.details["budget"]) == ("budget_exceeded", "calls")


async def test_in_a_session_whoever_began_chooses_how_it_goes_on() -> None:
    text = """
    protocol P = { more: send int . loop, stop: end }
    let main : !int -> !int = plumb(i, o) {
      let c : P = channel
      i ; filter(value < 3) ; c@more
      i ; filter(value = 3) ; map(unit) ; c@stop
      c@peer_more ; o
      c@peer_stop ; discard
    }"""
    assert await given(text, [1, 2]) == [1, 2]


async def test_messages_of_many_writers_come_in_the_order_of_arrival() -> None:
    text = """
    let main : !int -> !int = plumb(i, o) {
      i ; filter(value > 2) ; o
      i ; filter(value < 2) ; o
    }"""
    assert sorted(await given(text, list(range(5)))) == [0, 1, 3, 4]


async def test_a_program_runs_in_the_folder_that_is_named_from_where_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    code = "import os; print(len(input()) * 0 + len(os.path.basename(os.getcwd())))"
    path = tmp_path / "a.plumb"
    command = f'exec {{ cmd: "{sys.executable}", args: ["-c", "{code}"], cwd: "inner" }}'
    path.write_text(f"let main : !int -> !int = {command}")
    main = check_file(path).main
    assert main is not None
    assert await run_all(main, [1]) == [len("inner")]


def between_lines(chunks: Iterable[bytes]) -> list[bytes]:
    """What a program writes that gives 1 for each text it reads, in these pieces."""

    async def read() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    written: list[bytes] = []
    asyncio.run(between(program("let main : !string -> !int = map(1)"), read, written.append))
    return written


def test_a_long_line_is_read_in_time_that_grows_with_its_length() -> None:
    def pieces(count: int) -> list[bytes]:
        return [b'"', *[b"x" * (1 << 16)] * count, b'"\n"y"']

    assert between_lines(pieces(10)) == [b"1\n", b"1\n"]
    short = min(effort(lambda: between_lines(pieces(50))) for _ in range(3))
    assert effort(lambda: between_lines(pieces(900))) < 90 * short


def test_a_line_without_an_end_is_refused_when_it_is_too_long() -> None:
    with pytest.raises(Failure) as caught:
        between_lines(itertools.chain([b'"a"\n"'], itertools.repeat(b"x" * (1 << 20))))
    assert (caught.value.code, caught.value.details["line"]) == ("parse_error", 2)
