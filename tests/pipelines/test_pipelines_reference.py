"""The language reference, line by line: every way to build a sentence, every word, every setting, every side port."""

from typing import Any

import pytest

from fairlead.pipelines import parsing
from fairlead.pipelines.checking import ActionTypes, Options, check_text
from fairlead.pipelines.program import SIDE_INPUTS, SIDE_OUTPUTS
from fairlead.pipelines.settings import KEYS
from fairlead.pipelines.tokens import KEYWORDS, PRIMITIVES
from fairlead.pipelines.types import INT, shown

OPTIONS = Options(
    actions={"save": ActionTypes(INT, INT)}.get,
    action_names=("save",),
    provider="anthropic",
    model="x",
    environ={},
)
MAIN = "let main : !int -> !int = id"
#: Processes that may stand in a binding or in a chain, with all that may be left out.
PLUMBS = [
    *(
        f"plumb({ports}) {{ {body} }}"
        for ports in ("", "a", "a, b", "a, b, c")
        for body in ("", "a ; b", "a ; b b ; a")
    ),
    *(
        f"action {name} {config}"
        for name in ("save", "Mod.save", '"save"')
        for config in ("", "{ retry: 1 }", "{}")
    ),
    "exec {}",
]
#: Programs that parse, and together use every line of the grammar.
LANGUAGE = [
    "let main : !int -> !int = id",
    'use fs use ./beside use "elsewhere" let main : !int -> !Fs.Match = id',
    'type T = { a: int, b?: [string], "id": (int, json), } type U = T | unit | (bool) type N = {} '
    "let main : (!T, !U) -> !(T | U) = merge",
    "protocol P = send int . recv string . { more: loop, stop: end, } let main : !int -> !int = id",
    "let e : -> !int = empty let d : !int -> !unit = discard let c : !int -> (!int, !int) = copy "
    "let b : (!int, !int) -> !(int, int) = barrier let p : !(int, int) -> !int = project(1) "
    "let g : !int -> !int = main let f : !int -> !int = filter(value > 1) let main : !int -> !int = map(value)",
    'let a : !int -> !int = agent { model: "x", provider: "p" temperature: 0.5, max_tokens: 5, amnesiac: true, '
    'runtime_context: false, tools: [t, Fs.read], mcp: [{ name: "m", command: "c", args: ["x", "y"] }], '
    '"prompt": "p", retry: -1, backoff: -1.5, } let t : int -> int = tool { process: f } '
    'let x : !int -> !int = exec { cmd: "c" } let s : !int -> !int = action save { retry: 1 } '
    'let s2 : !int -> !int = action "save" let s3 : !int -> !int = action Mod.save '
    "let z : !int -> !int = plumb() {} let main : !int -> !int = id",
    "let m : !int -> !int = agent { tool: 1, exec: 1, agent: 1, action: 1, budget: 1, mcp: [], tools: [a b] }",
    "let main : !int -> !int = plumb(input, output) { let c : !int = channel let d : P = channel "
    "let n : !int -> !int = map(value) spawn n(input, c) spawn n(input=c, output=output) spawn Fs.read() "
    "budget { calls: 5 } { input ; n ; (id * (copy ; merge) * (barrier)) ; discard } "
    'input ; n@telemetry ; n@telemetry(int) ; id@telemetry ; map(value)@telemetry(string) ; n.a.0."b" ; output '
    'input ; agent { model: "x" } ; tool { builtin: "read" } ; exec { cmd: "c" } ; action save ; '
    'action "save" { retry: 1 } ; action Mod.save ; filter(true) ; project(0) ; empty ; '
    "plumb(a, b) { a ; b } ; plumb() {} ; Fs.read ; output }",
    "let main : !int -> !int = map(not a or b and c = 1 + 2 - 3 * 4 / -5 or a != 2.5)",
    "let main : !int -> !int = map((a < b, a <= b, a > b, a >= b, true, false, unit, (x), []))",
    'let main : !int -> !int = map({ a: value.b.0."c", "id": [1, "x",], d, } )',
    "let main : !int -> !int = map({}) let n : !int -> !int = map([1, 2]) let o : !int -> !int = map({ a: 1, b })",
    # Lists of none, one and more, with and without a comma at the end.
    *(
        f"let main : !int -> !int = map({each})"
        for each in (
            "[]",
            "[1]",
            "[1,]",
            "[1, 2]",
            "[1, 2, 3,]",
            "{}",
            "{ a }",
            "{ a, }",
            "{ a, b }",
            "{ a, b: 1, c, }",
            "(a)",
            "(a, b)",
            "(a, b, c)",
        )
    ),
    *(
        f"type T = {each} {MAIN}"
        for each in (
            "{ a: int }",
            "{ a: int, }",
            "{ a: int, b: int, c: int, }",
            "{ a: int, b: int }",
            "(int, int, int)",
            "int | string | bool",
        )
    ),
    *(
        f"protocol P = {{ {each} }} {MAIN}"
        for each in (
            "a: end",
            "a: end,",
            "a: end, b: end",
            "a: end, b: end, c: end,",
            "a: end, b: end, c: end",
        )
    ),
    *(f"let {name} : !int -> !int = {each} {MAIN}" for name in ("f",) for each in PLUMBS),
    *(f"let f : !int -> !int = plumb(i, o) {{ i ; {each} ; o }} {MAIN}" for each in PLUMBS),
    f"let f : !int -> !int = plumb(i, o) {{ spawn g() spawn g(i) spawn g(i, o, c) budget {{}} {{}} "
    f"budget {{ calls: 1, time: 2 }} {{ i ; o }} i.0 ; o i.0.1.a ; o }} {MAIN}",
    f"let f : !int -> !int = agent {{ tools: [a, b, c] mcp: [{{}}], }} {MAIN}",
]


class _Noted(list[Any]):
    """The rules of the grammar; notes which are used."""

    used: set[int]

    def __getitem__(self, number: Any) -> Any:
        self.used.add(number)
        return super().__getitem__(number)


def test_every_line_of_the_grammar_is_used_by_a_program_that_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = parsing._tables()
    noted = _Noted(tables.rules)
    noted.used = set()
    monkeypatch.setattr(parsing, "_tables", lambda: tables._replace(rules=noted))
    for text in LANGUAGE:
        problems = check_text(text, options=OPTIONS).problems
        assert [each.shown() for each in problems if each.rule == "syntax"] == []
    # What a list is gathered with is lark's, and no line of the reference.
    unused = [
        (number, *rule[:2])
        for number, rule in enumerate(tables.rules)
        if number not in noted.used and not rule[0].startswith("__")
    ]
    assert unused == []


@pytest.mark.parametrize("word", [*KEYWORDS, *PRIMITIVES])
def test_a_word_of_the_language_is_a_name_only_in_quotes(word: str) -> None:
    bare = f"type T = {{ {word}: int }} let main : !T -> !T = id"
    assert check_text(bare).errors[0].rule == "syntax"
    quoted = f'type T = {{ "{word}": int }} let main : !T -> !int = map(value."{word}")'
    assert check_text(quoted).errors == []


#: What a setting of each kind may be, and what not.
VALUES = {
    "string": ('"text"', "5"), "int": ("5", '"text"'), "number": ("0.5", "true"), "bool": ("true", "1"),
    "strings": ('["text"]', '"text"'), "reference": ("p", '"p"'), "references": ("[t]", "t"),
    "configs": ('[{ name: "m", command: "c" }]', '["m"]'),
}  # fmt: skip
SETTINGS = [(kind, key) for kind, keys in KEYS.items() for key in keys]


def _with(kind: str, key: str, value: str) -> list[str]:
    text = "let p : !int -> !int = id let t : int -> int = tool { process: p } "
    given = f"{key}: {value}"
    rest = {
        "agent": "" if key in ("model",) else 'model: "x"',
        "exec": "" if key == "cmd" else 'cmd: "x"',
        "tool": "" if key in ("process", "builtin") else "process: p",
    }.get(kind, "")
    config = f"{{ {given} {rest} }}"
    if kind == "budget":
        text += f"let main : !int -> !int = plumb(i, o) {{ budget {config} {{ i ; p ; o }} }}"
    elif kind == "tool":
        text += f"let u : int -> int = tool {config} let main : !int -> !int = id"
    else:
        name = "action save" if kind == "action" else kind
        text += f"let main : !int -> !int = {name} {config}"
    return [each.shown() for each in check_text(text, options=OPTIONS).errors if each.rule == "config"]


@pytest.mark.parametrize(("kind", "key"), SETTINGS)
def test_a_setting_takes_what_the_reference_says_and_nothing_else(kind: str, key: str) -> None:
    right, wrong = VALUES[KEYS[kind][key].kind]
    # These two are looked for, and not only looked at.
    if key not in ("prompts", "builtin"):
        assert _with(kind, key, right) == []
    assert any(f"'{key}' has to be" in each for each in _with(kind, key, wrong))


@pytest.mark.parametrize("kind", sorted(SIDE_OUTPUTS))
def test_side_ports_of_the_reference_can_be_wired(kind: str) -> None:
    made = {"agent": 'agent { model: "x" }', "action": "action save", "exec": 'exec { cmd: "x" }'}[kind]
    wires = [f"p@{port.name} ; discard" for port in SIDE_OUTPUTS[kind]]
    wires += [f"c{n} ; p@{port.name}" for n, port in enumerate(SIDE_INPUTS.get(kind, ()))]
    ports = [f"let c{n} : !{shown(port.type)} = channel" for n, port in enumerate(SIDE_INPUTS.get(kind, ()))]
    body = " ".join([*ports, "i ; p ; o", *wires])
    text = f"let p : !int -> !int = {made} let main : !int -> !int = plumb(i, o) {{ {body} }}"
    assert [each.shown() for each in check_text(text, options=OPTIONS).errors] == []
