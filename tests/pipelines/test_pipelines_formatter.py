"""The formatter: the same program, its comments kept, and nothing changes the second time."""

import os
import re

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fairlead.pipelines.checking import check_text
from fairlead.pipelines.formatting import WIDTH, format_text
from fairlead.pipelines.problems import CheckError, Problems, Source
from fairlead.pipelines.tokens import lex
from pipeline_texts import TOP

EXAMPLES = int(os.environ.get("FAIRLEAD_FUZZ", "100"))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

GIVEN = """\
(* head *)
use fs
type A={a:int,b?:string} (* trailing *)
type Long = { aaaaaaaaaaaaaaaaaaaaaaaa: int, bbbbbbbbbbbbbbbbbbbbbbbbb: string, ccccccccccccccccccccc: [int], d: int }


(* about f *)
let f:!A→!A=filter(a>-1 and b!="x")
let s:!( A|{summary:string} )->!A=agent{provider:"x" model:"y", tools:[Fs.read Fs.list,] max_retries:2}
let main:!A->!A=plumb(input,output){ (* start *)
input;(f*g);barrier;map({a:1,b:"x"}).a;discard
   (* own *)
f@telemetry(int).x ; output (* end *)

  spawn f(input=input,output = output) let c:!int=channel
  budget{calls:3}{ input;output }
  (* last *)
}
protocol P=send int.recv A.{more:loop,stop:end}
(* tail *)
"""
WRITTEN = """\
(* head *)
use fs
type A = { a: int, b?: string } (* trailing *)
type Long = {
  aaaaaaaaaaaaaaaaaaaaaaaa: int,
  bbbbbbbbbbbbbbbbbbbbbbbbb: string,
  ccccccccccccccccccccc: [int],
  d: int
}

(* about f *)
let f : !A -> !A = filter(a > -1 and b != "x")
let s : !(A | { summary: string }) -> !A = agent {
  provider: "x",
  model: "y",
  tools: [Fs.read, Fs.list],
  max_retries: 2
}

let main : !A -> !A = plumb(input, output) {
  (* start *)
  input ; (f * g) ; barrier ; map({ a: 1, b: "x" }).a ; discard
  (* own *)
  f@telemetry(int).x ; output (* end *)

  spawn f(input=input, output=output)
  let c : !int = channel
  budget { calls: 3 } {
    input ; output
  }
  (* last *)
}

protocol P = send int . recv A . { more: loop, stop: end }
(* tail *)
"""


def words(text: str) -> tuple[list[str], list[str]]:
    """What a text says: its tokens without commas, and its comments."""
    lexed = lex(Source("", text), Problems())
    spelled = {"→": "->", "⊗": "*", "≠": "!="}
    return [spelled.get(each.value, each.value) for each in lexed.tokens if each.type != "COMMA"], [
        each.text for each in lexed.comments
    ]


def test_a_program_is_written_the_one_way() -> None:
    assert format_text(GIVEN) == WRITTEN


def test_formatting_twice_changes_nothing() -> None:
    assert format_text(WRITTEN) == WRITTEN


def test_a_chain_that_is_too_long_goes_on_at_its_signs() -> None:
    chain = " ; ".join(["input", *(f"process_number_{n}" for n in range(8)), "output"])
    text = format_text(f"let main : !int -> !int = plumb(input, output) {{ {chain} }}")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert words(text) == words(f"let main : !int -> !int = plumb(input, output) {{ {chain} }}")


def test_what_is_no_program_is_not_formatted() -> None:
    with pytest.raises(CheckError):
        format_text("let let let")


@many
@given(st.lists(TOP, max_size=4).map("\n".join), st.data())
def test_no_word_and_no_comment_is_lost_and_the_second_time_changes_nothing(
    text: str, data: st.DataObject
) -> None:
    places = [each.end() for each in re.finditer(r"[ \n]", text)]
    for place in sorted(
        data.draw(st.lists(st.sampled_from(places), max_size=3)) if places else [], reverse=True
    ):
        note = data.draw(st.sampled_from(["(* note *) ", "(* note *)\n", "\n(* note *)\n", "\n\n", "\n"]))
        text = text[:place] + note + text[place:]
    try:
        once = format_text(text)
    except CheckError:
        assume(False)
    assert words(once) == words(text)
    assert format_text(once) == once


@pytest.mark.parametrize(
    ("body", "formatted"),
    [
        ("input ; map(Total.Net.amount) ; output", "input ; map(Total.Net.amount) ; output"),
        ("input ; map(value.Total .Net .amount) ; output", "input ; map(value.Total.Net.amount) ; output"),
        ("input ; filter(true).Total.Net.amount ; output", "input ; filter(true).Total.Net.amount ; output"),
        ("input ; Same .Total.Net .amount ; output", "input ; Same .Total.Net.amount ; output"),
    ],
)
def test_fields_with_capitals_lead_to_others_before_and_after_formatting(body: str, formatted: str) -> None:
    head = """type T = { Total: { Net: { amount: int } } }
let Same : !T -> !T = id
let main : !T -> !int = plumb(input, output) {
"""
    assert check_text(f"{head}  {body}\n}}\n").errors == []
    assert format_text(f"{head}{body} }}").endswith(f"\n  {formatted}\n}}\n")
    assert check_text(format_text(f"{head}{body} }}")).errors == []


def test_a_protocol_keeps_the_signs_between_its_steps() -> None:
    text = "protocol Talk = send Ask . recv Answer . end\n"
    assert format_text(text) == text
