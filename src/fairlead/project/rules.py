"""The rules of `fairlead lint`, one function each. The code's docstring is what its page in the docs says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any, Final, Literal, NamedTuple

from fairlead.actions import Action
from fairlead.actions.policy import DefinitionError, near_miss, one_of
from fairlead.project.neighbours import Neighbours

AnyAction = Action[..., Any]
Level = Literal["error", "warning", "info"]
LEVELS: Final = ("error", "warning", "info")


class Note(NamedTuple):
    """What a rule says about one action, before it has a level and a place."""

    message: str
    field: str | None = None


class Settings(NamedTuple):
    """How strict to be."""

    ignore: frozenset[str] = frozenset()
    levels: Mapping[str, Level] = {}
    shortest_description: int = 12
    longest_description: int = 1024

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Settings as a project file has them. Raises DefinitionError for what is not one."""
        ignore = frozenset(_code(each) for each in given.get("ignore", ()))
        levels: dict[str, Any] = {
            _code(code): one_of("lint", f"levels.{code}", level, LEVELS)
            for code, level in given.get("levels", {}).items()
        }
        lengths = {
            name: int(given[name])
            for name in ("shortest_description", "longest_description")
            if name in given
        }
        return cls(ignore, levels, **lengths)


Check = Callable[[AnyAction, Settings, Neighbours], Iterator[Note]]


class Rule(NamedTuple):
    """A code, how bad it is by default, and the function that looks for it."""

    code: str
    level: Level
    summary: str
    check: Check


#: By code, in the order in which they are told.
RULES: Final[dict[str, Rule]] = {}

#: What model providers take at most.
LONGEST_NAME = 64
DEEPEST_SCHEMA = 5
MOST_CHOICES = 500
_VAGUE = re.compile(
    r"^(does|do|performs?|handles?|processe?s?|runs?|executes?) (the |this |an? )?"
    r"(thing|stuff|action|operation|task|request|function|it)\b",
    re.IGNORECASE,
)
_EFFECTS = ("write", "destructive")


def rule(level: Level) -> Callable[[Check], Check]:
    """Make a function a rule: its name is the code, its docstring the summary."""

    def register(check: Check) -> Check:
        code = check.__name__.upper()
        RULES[code] = Rule(code, level, " ".join((check.__doc__ or "").split()), check)
        return check

    return register


@rule("error")
def duplicate_action(action: AnyAction, _: Settings, everyone: Neighbours) -> Iterator[Note]:
    """Two actions have one name and version, so callers cannot tell them apart."""
    if everyone.has_twin(action):
        yield Note("Another action has this name and version. Rename one, or give it another version.")


@rule("error")
def invalid_name(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """The name is not one that every caller can use: lower-case snake_case of at most 64 characters."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", action.name):
        yield Note("A name is lower-case snake_case, such as 'create_task'.")
    elif len(action.name) > LONGEST_NAME:
        yield Note(f"The name has {len(action.name)} characters; model providers take {LONGEST_NAME}.")


@rule("warning")
def weak_description(action: AnyAction, settings: Settings, _: Neighbours) -> Iterator[Note]:
    """The description is too short to choose the action by."""
    if len(action.description) < settings.shortest_description:
        yield Note("The description says too little to choose the action by. Say what it does, and to what.")


@rule("warning")
def vague_description(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """The description says that something is done, not what."""
    if _VAGUE.match(action.description) or action.description.lower().rstrip(".") == action.title.lower():
        yield Note("The description repeats the name or says nothing of its own. Say what the caller gets.")


@rule("warning")
def long_description(action: AnyAction, settings: Settings, _: Neighbours) -> Iterator[Note]:
    """The description is longer than model providers take, or than a model should have to read."""
    if len(action.description) > settings.longest_description:
        yield Note(
            f"The description has {len(action.description)} characters, of {settings.longest_description}. "
            "Move the rest to docs={'usage_notes': ...}."
        )


@rule("warning")
def destructive_mcp(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """A destructive action may be shown to models over MCP."""
    if action.side_effects == "destructive" and "mcp" in action.supported_surfaces:
        yield Note(
            "The action destroys things and is offered on mcp. Leave mcp out of supported_surfaces, or mean it."
        )


@rule("warning")
def destructive_without_confirmation(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """A destructive action runs without being confirmed."""
    if action.side_effects == "destructive" and not action.requires_confirmation:
        yield Note("The action destroys things and asks nobody first. Leave requires_confirmation on.")


@rule("warning")
def unspecified_idempotency(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """Callers cannot know whether a failed write may be repeated."""
    if action.side_effects in _EFFECTS and action.idempotency == "unspecified":
        yield Note("Say whether repeating is safe: idempotency='idempotent' or 'non_idempotent'.")


@rule("warning")
def write_without_permission(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """A write that asks for no permission is open to every caller."""
    if action.side_effects in _EFFECTS and not action.permissions:
        yield Note("The action changes things for anybody. Name a permission: permissions=['tasks:write'].")


@rule("warning")
def non_object_input(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """The input is not an object, which tools of models must have."""
    if action.input.json_schema.get("type") != "object":
        yield Note("The input is not an object; models and the command line call by named arguments.")


@rule("info")
def missing_output_schema(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """The output is not declared, so it is neither checked nor told to typed callers."""
    if action.output is None:
        yield Note("The result has no declared type. Annotate what the function returns.")


@rule("warning")
def undescribed_parameter(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """A parameter has no description: a model has to guess what belongs there."""
    if "pipeline" in action.metadata:
        return  # the language of pipelines has no place for one
    for name, member in action.input.json_schema.get("properties", {}).items():
        if isinstance(member, dict) and not member.get("description"):
            yield Note(f"Parameter {name!r} has no description. Write Annotated[..., 'what it is'].", name)


@rule("warning")
def confusable_names(action: AnyAction, _: Settings, everyone: Neighbours) -> Iterator[Note]:
    """Two names are so alike that a model will mix them up."""
    for other in everyone.alike(action.name):
        yield Note(f"The name is easily taken for {other!r}. Make the difference plain.")


@rule("warning")
def provider_schema(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """The input uses what some model providers refuse or ignore."""
    schema = action.input.json_schema
    if _depth(schema) > DEEPEST_SCHEMA:
        yield Note(f"The input is nested more than {DEEPEST_SCHEMA} levels deep; some providers refuse that.")
    for place, part in _parts(schema, ""):
        if len(part.get("enum", ())) > MOST_CHOICES:
            yield Note(f"There are more than {MOST_CHOICES} choices; some providers refuse that.", place)
        if "patternProperties" in part or "not" in part or "if" in part:
            yield Note("patternProperties, not and if are refused by some providers.", place)
        if "$ref" in part:
            yield Note("The shape refers to itself; some providers refuse that.", place)


@rule("error")
def invalid_example(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """An example in the docs is not valid for the schema beside it."""
    shapes = (("input_example", action.input), ("output_example", action.output))
    for key, schema in shapes:
        example = action.docs.get(key)
        if example is None or schema is None:
            continue
        try:
            schema.parse(example, repair=False)
        except ValueError as refused:
            issues = getattr(refused, "issues", ())
            where = ".".join(map(str, issues[0].path)) if issues else ""
            said = issues[0].message if issues else "It does not fit."
            yield Note(
                f"The {key.replace('_', ' ')} is not valid{f' at {where}' if where else ''}: {said}", key
            )


@rule("warning")
def invalid_default(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """A parameter's default is not of its type: a caller who sends it is refused, and one who sends nothing is not."""
    members = action.input.json_schema.get("properties", {})
    given: Any = {
        name: member["default"]
        for name, member in members.items()
        if isinstance(member, dict) and _can_be_sent(member.get("default"))
    }
    if action.input.drop_blanks is not None:
        given, _dropped = action.input.drop_blanks(given)
    if not given:
        return
    said: dict[str, str] = {}
    try:
        action.input.parse(given, repair=False)
    except Exception as refused:  # a check of the author's may raise anything
        for issue in getattr(refused, "issues", ()):
            if issue.path and issue.path[0] in given:
                said.setdefault(issue.path[0], issue.message)
    for name, why in said.items():
        yield Note(
            f"The default of {name!r} does not fit its type. {why} Change the default or the type.", name
        )


@rule("error")
def secret_default(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """A default or an example looks like a secret, and is shown in every manifest."""
    from fairlead._json import dumps
    from fairlead.failures.redaction import DEFAULT

    for name, member in action.input.json_schema.get("properties", {}).items():
        default = member.get("default") if isinstance(member, dict) else None
        if isinstance(default, str) and default and DEFAULT.value({name: default}) != {name: default}:
            yield Note(f"The default of {name!r} looks like a secret. Read it from the environment.", name)
    for key in ("input_example", "output_example"):
        shown = dumps(action.docs.get(key))
        if DEFAULT.text(shown) != shown:
            yield Note(f"The {key.replace('_', ' ')} holds what looks like a secret.", key)


@rule("info")
def deprecated_without_replacement(action: AnyAction, _: Settings, __: Neighbours) -> Iterator[Note]:
    """A deprecated action does not say what to use instead."""
    if action.deprecation is not None and not (action.deprecation.replacement or action.deprecation.message):
        yield Note("Say what to use instead: deprecation={'replacement': '...'}.")


def _can_be_sent(default: Any) -> bool:
    """None is how Python says that nothing was given, JSON has no infinity, and what a model shows it may not take."""
    endless = isinstance(default, float) and not isfinite(default)
    return not (default is None or endless or isinstance(default, dict))


def _code(code: object) -> str:
    if isinstance(code, str) and code in RULES:
        return code
    hint = near_miss(str(code).upper(), RULES)
    raise DefinitionError(f"lint: no rule is named {code!r}.{hint} Rules are {', '.join(RULES)}.")


def _depth(schema: Any) -> int:
    return max((place.count(".") + 1 for place, _ in _parts(schema, "") if place), default=0)


def _parts(schema: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with the path that leads to it."""
    if not isinstance(schema, dict):
        return
    yield place, schema
    for name, member in schema.get("properties", {}).items():
        yield from _parts(member, f"{place}.{name}" if place else name)
    for key in ("items", "additionalProperties"):
        yield from _parts(schema.get(key), f"{place}.*" if place else "*")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for each in schema.get(key, ()):
            yield from _parts(each, place)
