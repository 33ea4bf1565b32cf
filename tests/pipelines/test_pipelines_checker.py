"""The checker: every rule refuses what it is for, at the right place, and nothing else."""

from pathlib import Path

import pytest

from fairlead.pipelines.checking import ActionTypes, Options, check_file, check_text, require
from fairlead.pipelines.problems import RULES, CheckError
from fairlead.pipelines.schemas import type_of
from fairlead.pipelines.types import INT, STRING, Field, Record

MAIN = "\nlet main : !int -> !int = id\n"
TASK = Record((Field("title", STRING), Field("notes", STRING, optional=True)))
SAVED = Record((Field("count", INT),))
ACTIONS = {"create_task": ActionTypes(TASK, SAVED), "ping": ActionTypes(Record(()), None)}
OPTIONS = Options(actions=ACTIONS.get, action_names=tuple(ACTIONS), model="script/x", environ={})
AGENT = 'agent { provider: "script", model: "x" }'

#: Rule, and a program with `@@` before the place that is to blame.
WRONG = [
    ("syntax", "type T = { @@id: string }"),
    ("syntax", "let f : !int -> !bool = map(value =@@= 2)"),
    ("syntax", "type T = @@[int"),
    ("syntax", 'let f : !int -> !string = map(@@"never closed)'),
    ("syntax", "@@(* never closed"),
    ("syntax", "let f : !int -> !int = @@§id"),
    ("syntax", "let f : !int -> !int = plumb(input, output) { input ; output @@input }"),
    ("duplicate", "type T = int type @@T = string"),
    ("duplicate", "let f : !int -> !int = id let @@f : !int -> !int = id"),
    ("duplicate", "let f : (!int, !int) -> !int = plumb(a, @@a, b) { a ; b }"),
    ("duplicate", "type T = { a: int, @@a: int }"),
    ("duplicate", "let f : !int -> !{ a: int } = map({ a: 1, @@a: 2 })"),
    ("duplicate", "protocol P = { a: end, @@a: end }"),
    ("duplicate", "use fs use @@fs"),
    ("unknown", "type T = @@Nothing"),
    ("unknown", "type T = @@Fs.Nothing"),
    ("unknown", "use @@nowhere"),
    ("unknown", "let f : !int -> !int = @@nothing"),
    ("unknown", "let f : !{ a: int } -> !int = map(@@b)"),
    ("unknown", "let f : !int -> !int = map(@@b)"),
    ("unknown", "let f : !int -> !int = plumb(input, output) { input ; @@nothing ; output }"),
    ("unknown", "let g : !int -> !int = id let f : !int -> !int = plumb(i, o) { i ; g ; o g@@@ctrl_out ; discard }"),
    ("unknown", "let f : !int -> !int = action @@nothing"),
    ("recursive", "type @@T = T"),
    ("recursive", "type @@T = int | T"),
    ("recursive", "type @@T = (T, int)"),
    ("recursive", "let @@f : !int -> !int = plumb(i, o) { i ; f ; o }"),
    ("recursive", "protocol P = @@loop"),
    ("overlap", "type T = @@int | number"),
    ("overlap", "type T = @@{ a: int } | { a: int, b?: int }"),
    ("overlap", "type T = @@[int] | [string]"),
    ("overlap", "type T = @@json | int"),
    ("overlap", "let f : !int -> !int = plumb(i, o) { (i ; map([value]) * i "
     "; map([true])) ; @@merge ; discard i ; o }"),
    ("stream", "type T = { a: @@!int }"),
    ("stream", "let f : (!int, @@int) -> !int = merge"),
    ("signature", "let f : @@int -> int = filter(value > 1)"),
    ("signature", "let f : @@int -> int = merge"),
    ("signature", "let f : @@(int, int) -> int = project(0)"),
    ("signature", "let f : @@int -> int = " + AGENT),
    ("signature", "let f : @@int -> int = plumb(a, b) { a ; b }"),
    ("signature", 'let f : @@int -> int = exec { cmd: "x" }'),
    ("signature", 'let f : @@!int -> !int = tool { builtin: "read" }'),
    ("signature", "let f : @@!int -> int = id"),
    ("signature", "let c : !int -> !int = @@channel"),
    ("mismatch", "let f : !int -> !string = plumb(i, o) { i ; @@o }"),
    ("mismatch", "let @@f : !number -> !int = id"),
    ("mismatch", "type A = { a: int } let g : !A -> !A = id let f : !{ a: int, "
     "b: int } -> !A = plumb(i, o) { i ; @@g ; o }"),
    ("mismatch", "let f : !int -> !int = plumb(i, o) { @@o ; i }"),
    ("mismatch", "let @@f : !{ title: int } -> !{ count: int } = action create_task"),
    ("mismatch", "let @@f : !{ title: string } -> !string = action create_task"),
    ("mismatch", "let k : !string -> !string = filter(true) let f : !int -> !string = plumb(i, o) { i ; @@k ; o }"),
    ("arity", "let f : !int -> !int = plumb(i, o) { (i * i) ; @@o }"),
    ("arity", "let f : !int -> !int = plumb(i, o) { i ; @@barrier ; discard i ; o }"),
    ("arity", "let f : !int -> (!int, !int) = @@plumb(i, o) { i ; o }"),
    ("arity", "let g : !int -> !int = id let f : !int -> !int = plumb(i, o) { @@spawn g(i) i ; o }"),
    ("arity", "let @@f : (!int, !int) -> !int = id"),
    ("arity", "let f : !int -> !int = plumb(i, o) { i ; o @@map(1) ; o }"),
    ("unused", "let f : !int -> !int = plumb(@@i, o) { empty ; o }"),
    ("unused", "let f : !int -> !int = plumb(i, @@o) { i ; discard }"),
    ("expression", "let f : !int -> !int = filter(@@value)"),
    ("expression", 'let f : !int -> !int = @@map("text")'),
    ("expression", 'let f : !int -> !int = map(value @@+ "text")'),
    ("expression", "let f : !int -> !bool = map(value @@= true)"),
    ("expression", "let f : !int -> !bool = map(@@not value)"),
    ("expression", "let f : !json -> !json = map(value.@@a)"),
    ("project", "let f : !(int, int) -> !int = @@project(2)"),
    ("project", "let f : !int -> !int = @@project(0)"),
    ("project", "let f : !(int, int) -> !int = map(value@@.2)"),
    ("tool", "let f : int -> int = tool { process: @@nothing }"),
    ("tool", "let k : !int -> !int = filter(true) let f : int -> int = tool { process: @@k }"),
    ("tool", "let k : (!int, !int) -> !int = merge let f : int -> int = tool { process: @@k }"),
    ("tool", "let k : (!int, !int) -> !(int, int) = barrier let f : int -> int = tool { process: @@k }"),
    ("tool", "let k : !(int, int) -> !int = project(0) let f : int -> int = tool { process: @@k }"),
    ("tool", "let k : -> !int = empty let f : int -> int = tool { process: @@k }"),
    ("tool", "let k : !int -> !int = plumb(i, o) { i ; o i ; o } let f : int -> int = tool { process: @@k }"),
    ("tool", "let k : !int -> !int = plumb(i, o) { i ; filter(true) ; o } let f : int -> int = tool { process: @@k }"),
    ("tool", "let k : !int -> !int = id let t : int -> int = tool { process: "
     "k } let f : int -> int = tool { process: @@t }"),
    ("tool", 'let f : int -> int = tool { builtin: @@"nothing" }'),
    ("config", 'let f : !int -> !int = agent { provider: "script", model: "x", @@colour: 1 }'),
    ("config", 'let f : !int -> !int = agent { provider: "script", model: "x", max_retries: @@"two" }'),
    ("config", 'let f : !int -> !int = agent { provider: "s", model: "x", max_tokens: 10, thinking_budget: @@10 }'),
    ("config", 'let f : !int -> !int = agent { provider: "script", model: "x", prompts: [@@"./not-there.md"] }'),
    ("config", "let f : !int -> !int = @@exec { args: [] }"),
    ("config", "let f : !int -> !int = plumb(i, o) { budget { @@colour: 1 } { i ; o } }"),
    ("linear", "protocol P = send int . end let f : !int -> !int = plumb(i, o) { let @@c : P = channel i ; c i ; o }"),
    ("linear", "protocol P = send int . end let f : !int -> !int = plumb(i, o) { "
     "let c : P = channel i ; c i ; @@c c@peer ; o }"),
    ("linear", "protocol P = recv int . end let f : !int -> !int = plumb(i, o) { "
     "let c : P = channel i ; @@c i ; c@peer c ; o }"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "marked"), WRONG)
def test_the_checker_refuses_at_the_place_that_is_to_blame(rule: str, marked: str) -> None:
    before, _, after = marked.partition("@@")
    found = check_text(before + after + MAIN, options=OPTIONS).errors
    assert (found[0].rule, found[0].line, found[0].column) == (rule, 1, len(before) + 1)
    assert found[0].text == before + after


def test_every_rule_has_a_program_that_breaks_it() -> None:
    elsewhere = {"main", "cycle", "channel", "constraint"}
    assert {rule for rule, _ in WRONG} | elsewhere == set(RULES)


@pytest.mark.parametrize(
    "text",
    [
        "type T = int",
        "let main : int -> int = id",
        "let main : -> (!int, !int) = plumb(a, b) { empty ; a empty ; b }",
    ],
)
def test_a_program_needs_a_main_that_is_a_stream_process(text: str) -> None:
    assert [each.rule for each in check_text(text).errors] == ["main"]
    assert check_text(text, options=Options(require_main=False)).errors == []


def test_an_agent_without_a_model_is_refused() -> None:
    text = "let main : !int -> !int = agent { }"
    assert [each.rule for each in check_text(text, options=Options(environ={})).errors] == ["config"]


def test_modules_that_use_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.plumb").write_text("use ./b\nlet main : !int -> !int = id\n")
    (tmp_path / "b.plumb").write_text("use ./a\n")
    errors = check_file(tmp_path / "a.plumb").errors
    assert [(each.rule, Path(each.file).name) for each in errors] == [("cycle", "b.plumb")]


def test_a_module_s_names_are_used_with_its_name_before_them(tmp_path: Path) -> None:
    (tmp_path / "tools.plumb").write_text("type Pair = (int, int)\nlet first : !Pair -> !int = project(0)\n")
    (tmp_path / "a.plumb").write_text("use tools\nlet main : !Tools.Pair -> !int = Tools.first\n")
    checked = check_file(tmp_path / "a.plumb", Options(search_path=(str(tmp_path),), environ={}))
    assert checked.errors == []
    by_environment = Options(environ={"PLUMB_PATH": str(tmp_path)})
    assert check_file(tmp_path / "a.plumb", by_environment).errors == []


@pytest.mark.parametrize(
    "body",
    [
        "let c : !int = channel i ; c i ; o",
        "let c : !int = channel c ; o i ; o",
        "let g : !int -> !int = id g ; o i ; o",
    ],
)
def test_a_channel_that_nobody_writes_or_reads_is_warned_of(body: str) -> None:
    checked = check_text(f"let main : !int -> !int = plumb(i, o) {{ {body} }}")
    assert checked.errors == []
    assert {each.rule for each in checked.warnings} == {"channel"}


def test_what_an_action_asks_beyond_types_is_warned_of() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
    actions = {"count": ActionTypes(type_of(schema).type, None, type_of(schema).beyond)}
    text = "let main : !{ n: int } -> !json = action count"
    checked = check_text(text, options=Options(actions=actions.get))
    assert checked.errors == []
    assert [each.rule for each in checked.warnings] == ["constraint"]


def test_all_problems_are_told_and_not_only_the_first() -> None:
    text = """\
type T = { id: string }
let f : !Nothing -> !json = id
let main : !int -> !string = plumb(input, output) {
  input ; ; output
  input ; output ] output
  input ; output
}
let g : !int -> !int = map(value == 1)
type U = int | number
"""
    errors = check_text(text).errors
    assert [each.line for each in errors] == [1, 2, 4, 5, 8, 9]


def test_what_follows_from_a_problem_is_not_told_again() -> None:
    text = "type T = {\nlet f : !T -> !T = id\nlet main : !T -> !T = plumb(i, o) { i ; f ; nowhere ; o }"
    assert len({each.line for each in check_text(text).errors}) <= 2


RIGHT = [
    "let main : !int -> !number = id",
    "let main : !int -> !(int | string) = plumb(i, o) { i ; o i ; map(\"text\") ; o }",
    "type L = { head: int, tail: L | unit } let main : !L -> !json = id",
    "let main : !{ a: int } -> !{ a: number, b?: string } = id",
    "let main : !int -> !(int, string) = plumb(i, o) { i ; (id * map(\"a\")) ; barrier ; o }",
    "let main : !int -> !int = plumb(i, o) { i ; copy ; (map(value + 1) ; o * discard) }",
    "let main : !int → !int = plumb(i, o) { i ; merge ; o }",
    "let main : !int -> !int = plumb(i, o) { let c : !int = channel spawn f(i, c) c ; o } let f : !int -> !int = id",
    "let f : !int -> !int = id let main : !int -> !int = plumb(i, o) { spawn f(output=o, input=i) }",
    "let main : !({ a: int } | { b: int }) -> !int = plumb(i, o) { i ; filter(a > 1).a ; o }",
    "let keep : !{ a: int } -> !{ a: int } = filter(a > 1) let main : !json -> !json = plumb(i, o) { i ; keep ; o }",
    f"let a : (!int, !json) -> (!int, !json) = {AGENT} let main : !int -> "
    f"!int = plumb(i, o) {{ i ; a ; o a@ctrl_out ; a@ctrl_in }}",
    f"let a : !int -> !int = {AGENT} let main : !int -> !json = plumb(i, o) "
    f"{{ i ; a a@telemetry({{ tokens: int }}).tokens ; o }}",
    "let main : !{ title: string } -> !{ count: int } = action create_task",
    "let main : !{ title: string } -> !int = plumb(i, o) { i ; action create_task ; map(count) ; o }",
    "let main : !{} -> !string = action ping",
    "protocol P = send int . recv string . loop let main : !int -> !string = plumb(i, o) "
    "{ let c : P = channel i ; c c@peer ; map(\"text\") ; c@peer c ; o }",
    "protocol P = { more: send int . loop, stop: end } let main : !int -> !int = plumb(i, o) { let c : P = channel "
    "i ; c@more c@peer_more ; o i ; map(unit) ; c@stop c@peer_stop ; discard }",
    "let main : !int -> !int = plumb(i, o) { budget { calls: 3, time: 1.5 } { i ; map(value * 2) ; o } }",
    'let main : !{ "id": int } -> !int = map(value."id")',
    'use fs let w : !string -> !string = agent { provider: "script", model: "x", '
    'tools: [Fs.read, Fs.list] } let main : !string -> !string = w',
    "let main : !int -> !int = (* a (* nested *) comment *) id",
]  # fmt: skip


@pytest.mark.parametrize("text", RIGHT)
def test_a_program_that_is_right_is_accepted(text: str) -> None:
    checked = check_text(text, options=OPTIONS)
    assert [each.shown() for each in checked.errors] == []


def test_a_wide_input_is_narrowed_by_a_filter_that_can_only_be_asked_of_some() -> None:
    text = "let main : !({ a: int } | { b: int }) -> !{ a: int } = plumb(i, o) { i ; filter(a > 1) ; o }"
    assert check_text(text).errors == []


def test_a_program_that_does_not_check_is_a_config_error_with_file_line_and_column() -> None:
    with pytest.raises(CheckError) as caught:
        require(check_text("let main : !int -> !string = id", "x.plumb"))
    error = caught.value
    assert (error.code, error.category, error.line, error.column) == ("config_error", "config", 1, 5)
    assert error.failure.details["file"] == "x.plumb"


def test_a_problem_shows_its_line_and_what_would_work() -> None:
    shown = check_text("let main : !int -> !int = map(valeu)\n", "x.plumb").errors[0].shown()
    assert shown.splitlines()[0].startswith("x.plumb:1:31: error: ")
    assert shown.splitlines()[1:3] == ["1 | let main : !int -> !int = map(valeu)", "  | " + " " * 30 + "^"]
    assert "`value`" in shown


def test_equal_problems_of_a_module_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "bad.plumb").write_text("type T = Nothing\n")
    (tmp_path / "b.plumb").write_text("use ./bad\n")
    (tmp_path / "a.plumb").write_text("use ./bad\nuse ./b\nlet main : !int -> !int = id\n")
    assert len(check_file(tmp_path / "a.plumb").errors) == 1


def test_an_expression_that_is_never_closed_does_not_take_the_modules_of_what_follows() -> None:
    text = """
use fs
let a : !int -> !int = map(value + 1
let t : Fs.Nothing -> Fs.Nothing = id
let main : !int -> !int = id
"""
    assert [each.message for each in check_text(text).errors if "Fs" in each.message] == [
        "There is no type 'Fs.Nothing'.",
        "There is no type 'Fs.Nothing'.",
    ]


BOT = """
type Q = { text: string }
let bot : !Q -> !string = agent { provider: "eliza", model: "doctor" }
let main : !int -> !int = id
"""


@pytest.mark.parametrize("port", ["telemetry", "ctrl_out"])
def test_what_comes_by_a_side_port_is_not_one_output_for_each_input(port: str) -> None:
    text = f"""{BOT}
    let p : !Q -> !json = plumb(input, output) {{ input ; bot  bot@{port} ; output }}
    let t : Q -> json = tool {{ process: p }}"""
    assert [each.rule for each in check_text(text).errors] == ["tool"]


@pytest.mark.parametrize(
    "more",
    [
        "input ; map({ set_temp: 0.5 }) ; bot@ctrl_in",
        "bot@telemetry ; discard",
        "bot ; map({ set_temp: 0.5 }) ; bot@ctrl_in",
    ],
)
def test_what_steers_or_watches_an_agent_does_not_keep_a_plumb_from_being_a_tool(more: str) -> None:
    text = f"""{BOT}
    let p : !Q -> !string = plumb(input, output) {{ input ; bot ; output  {more} }}
    let t : Q -> string = tool {{ process: p }}"""
    assert check_text(text).errors == []
