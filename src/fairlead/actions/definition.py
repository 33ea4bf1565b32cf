"""`Action`: one callable with its contract. Everything about it is checked here, once.

It knows nothing of how calls are run or who makes them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, ParamSpec, TypedDict, TypeVar, Unpack

from fairlead.actions import policy
from fairlead.actions.binding import Binding, bind
from fairlead.actions.policy import (
    Concurrency,
    DefinitionError,
    Deprecation,
    Idempotency,
    Preflight,
    RateLimit,
    Retry,
    SideEffects,
    Visibility,
)
from fairlead.actions.surfaces import surface_names
from fairlead.schema import Schema

P = ParamSpec("P")
R = TypeVar("R")

#: Command names of the command line; an action may not take one.
RESERVED_NAMES: Final = frozenset(
    """
    actions build chat client dev diff docs doctor errors help init json keys lint manifest mcp
    models openapi package plugin plumb publish schema serve store tasks tools version worker
    """.split()  # noqa: SIM905  # a table reads better than a list of strings
)
ACTION_DOC_KEYS: Final = ("when_to_use", "when_not_to_use", "usage_notes", "input_example", "output_example")

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VERSION = re.compile(r"\d+(\.\d+){0,2}([-+][0-9A-Za-z.-]+)?")


class ActionOptions(TypedDict, total=False):
    """What an action may be declared with; `@action`, `App.action` and groups take the same."""

    name: str
    title: str
    description: str
    version: str
    input: Any
    output: Any
    visibility: Visibility
    side_effects: SideEffects
    idempotency: Idempotency
    permissions: Sequence[str]
    supported_surfaces: Sequence[str]
    timeout: float | None
    deadline: float | None
    retry: bool | int | Mapping[str, Any] | Retry
    concurrency: int | Mapping[str, Any] | Concurrency
    rate_limit: str | Mapping[str, Any] | RateLimit | None
    requires_confirmation: Any
    metadata: Mapping[str, Any]
    public_metadata: Mapping[str, Any]
    docs: Mapping[str, Any]
    deprecated: bool
    deprecation: str | Mapping[str, Any] | Deprecation
    preflight: Preflight | None


OPTIONS: Final = tuple(ActionOptions.__annotations__)


class Action(Generic[P, R]):
    """A function with a contract: its schemas, its policy and its words.

    Calling an action calls the bare function, as if it had not been wrapped; `App.invoke` is the way
    through validation, permission and all the rest.
    """

    name: str
    title: str
    description: str
    version: str
    function: Callable[P, R]
    binding: Binding
    visibility: Visibility
    side_effects: SideEffects
    idempotency: Idempotency
    permissions: tuple[str, ...]
    supported_surfaces: tuple[str, ...]
    #: Seconds for one attempt.
    timeout: float | None
    #: Seconds for the whole call: waiting, attempts and pauses between them.
    deadline: float | None
    retry: Retry
    concurrency: Concurrency
    rate_limit: RateLimit | None
    requires_confirmation: Any
    metadata: dict[str, Any]
    public_metadata: dict[str, Any]
    docs: dict[str, Any]
    deprecation: Deprecation | None
    preflight: Preflight | None
    _options: dict[str, Any]

    def __init__(self, function: Callable[P, R], **options: Unpack[ActionOptions]) -> None:
        if not callable(function):
            raise DefinitionError(
                f"{function!r} is not callable; give a function, and options by keyword, such as name='create_task'."
            )
        put = self.__dict__.__setitem__
        given: dict[str, Any] = dict(options)
        name = str(given.get("name") or getattr(function, "__name__", ""))
        owner = f"Action {name!r}"
        policy.known_keys(owner, given, OPTIONS)
        put("function", function)
        put("_options", given)
        put("name", _checked_name(owner, name))
        put("description", _description(owner, given.get("description"), function))
        put("title", policy.text(owner, "title", given.get("title") or _title(name)))
        put("version", _checked_version(owner, given.get("version", "1.0.0")))
        put("binding", bind(owner, function, given.get("input"), given.get("output")))
        put(
            "visibility",
            policy.one_of(owner, "visibility", given.get("visibility", "public"), policy.VISIBILITIES),
        )
        effects = policy.one_of(owner, "side_effects", given.get("side_effects", "read"), policy.SIDE_EFFECTS)
        put("side_effects", effects)
        kind = policy.one_of(
            owner, "idempotency", given.get("idempotency", "unspecified"), policy.IDEMPOTENCIES
        )
        put("idempotency", kind)
        put("permissions", policy.names(owner, "permissions", given.get("permissions", ())))
        put("supported_surfaces", _checked_surfaces(owner, given.get("supported_surfaces")))
        put("timeout", policy.seconds(owner, "timeout", given.get("timeout")))
        put("deadline", policy.seconds(owner, "deadline", given.get("deadline")))
        put("retry", policy.retry(owner, given.get("retry")))
        put("concurrency", policy.concurrency(owner, given.get("concurrency")))
        put("rate_limit", policy.rate_limit(owner, given.get("rate_limit")))
        put("requires_confirmation", policy.confirmation(owner, given.get("requires_confirmation"), effects))
        put("metadata", policy.mapping(owner, "metadata", given.get("metadata", {})))
        put("public_metadata", policy.public(owner, "public_metadata", given.get("public_metadata", {})))
        put("docs", _checked_docs(owner, given.get("docs", {})))
        put(
            "deprecation", policy.deprecation(owner, given.get("deprecated", False), given.get("deprecation"))
        )
        preflight = given.get("preflight")
        put("preflight", preflight and policy.one_of(owner, "preflight", preflight, policy.PREFLIGHTS))

    @property
    def input(self) -> Schema:
        return self.binding.input

    @property
    def output(self) -> Schema | None:
        return self.binding.output

    @property
    def deprecated(self) -> bool:
        return self.deprecation is not None

    @property
    def command_name(self) -> str:
        return self.name.replace("_", "-")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Action[..., Any]:
        """A method that was made an action, bound to its instance: `self` is not part of the input."""
        if instance is None:
            return self
        bound: Action[..., Any] = Action(self.function.__get__(instance, owner), **self._options)
        if hasattr(instance, "__dict__"):
            instance.__dict__[self.function.__name__] = bound
        return bound

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "__orig_class__":
            return  # typing's own mark on `Action[..., Any](function)`
        raise DefinitionError(f"{self!r} is final: {name!r} cannot be changed after the definition.")

    def __repr__(self) -> str:
        return f"Action({self.name!r}, version={self.version!r})"


def _checked_name(owner: str, name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(f"{owner}: a name is lower-case snake_case, such as 'create_task'; pass name=.")
    if name in RESERVED_NAMES:
        raise DefinitionError(
            f"{owner}: the name is a command of the command line. Choose another, such as '{name}_all'."
        )
    return name


def _checked_version(owner: str, version: object) -> str:
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise DefinitionError(f"{owner}: version is {version!r}; give digits and dots, such as '1.0.0'.")
    return version


def _description(owner: str, given: object, function: object) -> str:
    if given is None:
        while isinstance(function, functools.partial):
            function = function.func
        given = _first_paragraph(getattr(function, "__doc__", None))
    if not isinstance(given, str) or not given.strip():
        raise DefinitionError(f"{owner} has no description: write a docstring, or pass description=.")
    return given.strip()


def _first_paragraph(doc: str | None) -> str | None:
    return " ".join(doc.strip().split("\n\n")[0].split()) if doc else None


def _title(name: str) -> str:
    return " ".join(part.capitalize() for part in name.split("_") if part)


def _checked_surfaces(owner: str, given: object) -> tuple[str, ...]:
    known = surface_names()
    if given is None:
        return known
    listed = policy.names(owner, "supported_surfaces", given)
    return tuple(policy.one_of(owner, "supported_surfaces", item, known) for item in listed)


def _checked_docs(owner: str, given: object) -> dict[str, Any]:
    docs = policy.public(owner, "docs", given)
    policy.known_keys(f"{owner}: docs", docs, ACTION_DOC_KEYS)
    return docs
