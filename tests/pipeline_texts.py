"""Texts that look like pipelines, right and wrong, for tests that try many."""

from hypothesis import strategies as st

from fairlead.pipelines.checking import ActionTypes, Options, check_text
from fairlead.pipelines.formatting import format_text
from fairlead.pipelines.tokens import KEYWORDS, PRIMITIVES
from fairlead.pipelines.types import INT, STRING, Field, Record

ACTIONS = {"save": ActionTypes(Record((Field("a", INT),)), STRING)}
OPTIONS = Options(actions=ACTIONS.get, action_names=("save",), model="script/x", environ={})


def sound(text: str) -> None:
    """A text is answered: every problem has its place, and what parses is written the one way."""
    lines = text.split("\n")
    problems = check_text(text, options=OPTIONS).problems
    for problem in problems:
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        assert problem.shown()
    if not any(problem.rule == "syntax" for problem in problems):
        written = format_text(text)
        assert format_text(written) == written


VOCABULARY = [
    *KEYWORDS,
    *PRIMITIVES,
    *[
        "a",
        "b",
        "T",
        "U",
        "Fs.read",
        "value",
        "main",
        "input",
        "output",
        "plumb(input,",
        "output)",
        "1",
        "2.5",
        ".0",
        "./x",
    ],
    *"{}()[]!?|:;,.*/+-<>=@",
    "->",
    "!=",
    "<=",
    '"text"',
    "@ctrl_in",
    "@telemetry(int)",
    "(*",
    "*)",
    "\n",
    "save",
]
WORDS = st.sampled_from(VOCABULARY)
TYPE = st.recursive(
    st.sampled_from([*PRIMITIVES, "T", "U", "Fs.Match", "Nothing"]),
    lambda inner: st.one_of(
        inner.map(lambda each: f"[{each}]"),
        st.tuples(inner, inner).map(lambda each: f"({each[0]}, {each[1]})"),
        st.tuples(inner, inner).map(lambda each: f"({each[0]} | {each[1]})"),
        st.tuples(inner, inner).map(lambda each: f"{{ a: {each[0]}, b?: {each[1]} }}"),
        inner.map(lambda each: f"!{each}"),
    ),
    max_leaves=4,
)
EXPRESSION = st.recursive(
    st.sampled_from(["value", "a", "b", "1", "2.5", '"x"', "true", "unit", "value.0"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or", "=", "!=", "<", "<=", "+", "-", "*", "/"]), inner)
        .map(" ".join)
        .map("({})".format),
        inner.map(lambda each: f"not {each}"),
        inner.map(lambda each: f"-{each}"),
        inner.map(lambda each: f"{each}.a"),
        st.tuples(inner, inner).map(lambda each: f"{{ a: {each[0]}, b: {each[1]} }}"),
        st.tuples(inner, inner).map(lambda each: f"({each[0]}, {each[1]})"),
    ),
    max_leaves=5,
)
INLINE = st.one_of(
    st.sampled_from(["id", "copy", "merge", "discard", "empty", "barrier", "project(0)", "project(9)"]),
    st.sampled_from(["action save", "action nothing", 'exec { cmd: "x" }', "tool { process: f }"]),
    EXPRESSION.map("map({})".format),
    EXPRESSION.map("filter({})".format),
    st.just('agent { provider: "script", model: "x" }'),
)
ELEMENT = st.recursive(
    INLINE
    | st.sampled_from(
        [
            "i",
            "o",
            "f",
            "g",
            "c",
            "d",
            "f@ctrl_in",
            "f@telemetry(int)",
            "d@peer",
            "d@more",
            "f.a",
            "i.0",
            "nothing",
        ]
    ),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda each: f"({' * '.join(each)})"),
    max_leaves=4,
)
CHAIN = st.lists(ELEMENT, min_size=1, max_size=4).map(" ; ".join)
STATEMENT = st.one_of(
    CHAIN,
    st.sampled_from(
        ["let c : !int = channel", "let d : P = channel", "spawn f(i, o)", "spawn f(input=i, output=c)"]
    ),
    st.tuples(TYPE, TYPE, INLINE).map(lambda each: f"let g : {each[0]} -> {each[1]} = {each[2]}"),
    CHAIN.map(lambda each: f"budget {{ calls: 1 }} {{ {each} }}"),
)
BODY = st.lists(STATEMENT, max_size=4).map(lambda each: "plumb(i, o) {\n" + "\n".join(each) + "\n}")
SESSION = st.recursive(
    st.sampled_from(["end", "loop"]),
    lambda inner: st.one_of(
        inner.map(lambda each: f"send int . {each}"),
        inner.map(lambda each: f"recv T . {each}"),
        st.tuples(inner, inner).map(lambda each: f"{{ more: {each[0]}, stop: {each[1]} }}"),
    ),
    max_leaves=3,
)
TOP = st.one_of(
    st.tuples(st.sampled_from("TU"), TYPE).map(lambda each: f"type {each[0]} = {each[1]}"),
    st.tuples(st.sampled_from(["f", "g", "main"]), TYPE, TYPE, INLINE | BODY | st.sampled_from("fg")).map(
        lambda each: f"let {each[0]} : {each[1]} -> {each[2]} = {each[3]}"
    ),
    SESSION.map("protocol P = {}".format),
    st.sampled_from(["use fs", "use sys", "use nowhere", "use ./x"]),
)
