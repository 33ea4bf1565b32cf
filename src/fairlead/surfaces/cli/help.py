"""The help page of an action: its flags, its effect, an example."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.actions import Action
from fairlead.surfaces.cli.console import Console, harmless
from fairlead.surfaces.cli.fields import Field, Fields
from fairlead.surfaces.cli.pages import Page, Row
from fairlead.surfaces.cli.shapes import Shape, label
from fairlead.surfaces.cli.spelling import flags_for

_TYPES = {
    "boolean": "",
    "integer": "INTEGER",
    "number": "NUMBER",
    "string": "TEXT",
    "object": "JSON",
    "record": "KEY=VALUE",
    "union": "VALUE",
    "any": "JSON",
}
#: How many items an example has at most.
_LONGEST_SAMPLE = 5
_EFFECTS = {
    "read": "Reads only.",
    "write": "Changes data.",
    "destructive": "Destructive: what it does may not be undone.",
}
_CALL_ROWS: tuple[Row, ...] = (
    ("--json JSON", "The whole input as JSON text, instead of the flags above."),
    (
        "--output FORMAT",
        "json (the whole envelope), table or text. [default: for people on a terminal, else json]",
    ),
    ("--ndjson", "Print each event as one line of JSON as it comes; the result is the last line."),
    (
        "--confirm [TOKEN]",
        "Go ahead without being asked; a token confirms exactly the input it was issued for.",
    ),
    (
        "--idempotency-key KEY",
        "Repeat the command safely: the same key gives the first result again, while the app keeps it.",
    ),
    ("--timeout-ms NUMBER", "Stop the action after this many milliseconds."),
    (
        "-v, --verbose",
        "Show every log line on stderr. Without it, a terminal shows info and above, a file nothing.",
    ),
    ("--schema", "Print the JSON Schema of the input."),
    ("-h, --help", "Print this page."),
)
_VALUES = (
    "A value may be @FILE for the text of a file, or - for stdin; @@ stands for a literal @ at the start. "
    "Write --flag=VALUE when the value starts with --."
)


def action_page(
    console: Console, program: str, action: Action[..., Any], fields: Fields, command: str | None = None
) -> str:
    """The page of an action: its flags, its effect, an example. `command` is how the action is typed."""
    command = command or action.command_name
    page = Page(console)
    page.paragraph(harmless(action.description))
    for note in _notes(action):
        page.paragraph(note)
    page.usage(f"{program} {command} {_synopsis(fields)}".rstrip())
    page.section("Input", [_row(fields, field) for field in fields.all()])
    page.section("Options", _CALL_ROWS)
    page.paragraph(_VALUES)
    shown = example(f"{program} {command}", action, fields)
    if shown is not None:
        page.lines("Example", [shown])
    return page.text()


def example(command: str, action: Action[..., Any], fields: Fields) -> str | None:
    """One command that calls the action, from its docs or made up from its schema; None where that would not do."""
    import shlex

    value = action.docs.get("input_example")
    if value is None:
        value = _sample_input(fields)
        if not _fits(action, value):
            return None
    arguments = flags_for(fields, value)
    confirm = ["--confirm"] if action.requires_confirmation is True else []
    return f"{command} {shlex.join([*arguments, *confirm])}".rstrip()


def _notes(action: Action[..., Any]) -> Iterator[str]:
    yield " ".join([_EFFECTS[action.side_effects], *_conditions(action)])
    for key in ("when_to_use", "when_not_to_use", "usage_notes"):
        words = action.docs.get(key)
        if isinstance(words, str):
            yield harmless(words)
        elif isinstance(words, list | tuple):
            yield harmless(" ".join(str(each) for each in words))
    if action.deprecation is not None:
        yield _deprecated(action)


def _conditions(action: Action[..., Any]) -> Iterator[str]:
    if action.requires_confirmation:
        yield "Asks for confirmation; --confirm gives it."
    if action.permissions:
        yield f"Needs: {', '.join(action.permissions)}."


def _deprecated(action: Action[..., Any]) -> str:
    deprecation = action.deprecation
    assert deprecation is not None
    text = "Deprecated"
    if deprecation.since:
        text += f" since {deprecation.since}"
    if deprecation.remove_after:
        text += f", to be removed after {deprecation.remove_after}"
    text += "."
    if deprecation.message:
        text += f" {deprecation.message}"
    if deprecation.replacement:
        text += f" Use {deprecation.replacement.replace('_', '-')} instead."
    return harmless(text)


def _synopsis(fields: Fields) -> str:
    needed = [field for field in fields.top if field.required]
    parts = [f"{field.flag} {_type(field.shape)}".rstrip() for field in needed]
    if not fields.by_flag:
        parts.append("--json JSON")
    return " ".join([*parts, "[OPTIONS]"])


def _row(fields: Fields, field: Field) -> Row:
    shape = field.shape
    switch = shape.kind == "boolean" and fields.find(f"no-{field.flag[2:]}") is None
    flag = field.flag.replace("--", "--[no-]", 1) if switch else field.flag
    return f"{flag} {_type(shape)}".rstrip(), " ".join(_about(field))


def _type(shape: Shape) -> str:
    if shape.kind == "choice":
        listed = "|".join(label(choice) for choice in shape.choices)
        return listed if len(listed) <= 24 else "CHOICE"
    if shape.kind == "array":
        inner = _type(shape.item(0)) or "BOOLEAN"
        return f"{inner} ..."
    if shape.kind == "string" and isinstance(shape.schema.get("format"), str):
        return str(shape.schema["format"]).upper()
    return _TYPES[shape.kind]


def _about(field: Field) -> Iterator[str]:
    schema = field.shape.schema
    if isinstance(schema.get("description"), str):
        yield harmless(schema["description"])
    if field.shape.kind == "choice" and _type(field.shape) == "CHOICE":
        yield f"One of: {', '.join(harmless(label(choice)) for choice in field.shape.choices)}."
    if field.shape.kind in ("array", "record"):
        yield "Repeat the flag for more."
    if field.shape.kind == "object":
        yield "A JSON object, or its members by their flags."
    if field.shape.kind == "union":
        words = harmless(" or ".join(field.shape.words()))
        yield f"{words[:1].upper()}{words[1:]}."
    yield from _limits(schema)
    if field.required:
        yield "[required]"
    elif schema.get("default") not in (None, [], {}, ""):
        yield f"[default: {harmless(label(schema['default']))}]"


def _limits(schema: dict[str, Any]) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        yield f"{low} to {high}."
    elif low is not None:
        yield f"At least {low}."
    elif high is not None:
        yield f"At most {high}."


def _sample_input(fields: Fields) -> Any:
    if not fields.by_flag:
        return _sample(fields.root)
    return {field.path[0]: _sample(field.shape) for field in fields.top if field.required}


def _fits(action: Action[..., Any], value: Any) -> bool:
    try:
        action.input.parse(value, repair=False)
    except ValueError:
        return False
    return True


def _sample(shape: Shape, depth: int = 0) -> Any:
    """A plausible value: an example, a default or a first choice, else one made up from the type."""
    schema = shape.schema
    if isinstance(schema.get("examples"), list) and schema["examples"]:
        return schema["examples"][0]
    if schema.get("default") is not None:
        return schema["default"]
    if shape.choices:
        return shape.choices[0]
    if depth > 4:
        return None
    match shape.kind:
        case "boolean":
            return True
        case "integer" | "number":
            return _sample_number(schema)
        case "array":
            least = max(1, len(schema.get("prefixItems", ())), schema.get("minItems", 0))
            return [_sample(shape.item(at), depth + 1) for at in range(min(least, _LONGEST_SAMPLE))]
        case "object":
            return {
                name: _sample(member, depth + 1)
                for name, member in shape.members.items()
                if name in shape.required
            }
        case "record":
            return {"key": _sample(shape.value, depth + 1)}
        case "union":
            return _sample(shape.branches[0], depth + 1)
    return _SAMPLES.get(schema.get("format", ""), "text")


_SAMPLES = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "email": "ada@example.com",
    "uri": "https://example.com",
    "duration": "PT1H",
}


def _sample_number(schema: dict[str, Any]) -> Any:
    if "minimum" in schema:
        return schema["minimum"]
    if "exclusiveMinimum" in schema:
        return schema["exclusiveMinimum"] + 1
    return min(1, schema.get("maximum", 1))
