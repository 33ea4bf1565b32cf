"""`Agent`: an action whose body is a model using actions."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from copy import copy
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final
from weakref import WeakKeyDictionary, ref

from pydantic import Field

from fairlead.actions import Action, DefinitionError, Exposure
from fairlead.actions import policy as checks
from fairlead.actions.binding import hints_of
from fairlead.actions.definition import OPTIONS
from fairlead.agents.conversations import ID_PATTERN, LONGEST_ID
from fairlead.agents.loop.brief import Brief
from fairlead.agents.loop.opening import Opening
from fairlead.agents.loop.policy import Gate, Policy
from fairlead.agents.loop.toolset import MARK, Belt
from fairlead.agents.models.model import Model, Settings
from fairlead.runtime import App, Context
from fairlead.schema import Schema, jsonable
from fairlead.tools.loop import loop_tools

#: What tools may be given as: a name, an action, an agent, an MCP server, "*" for all that models may see, or a list.
ToolSource = Any

CONVERSATION: Final = "conversation"
ConversationId = Annotated[str, Field(min_length=1, max_length=LONGEST_ID, pattern=ID_PATTERN)]
OptionalConversation = Annotated[
    ConversationId | None, "The one to go on with; a new id begins one. Without it, nothing is kept."
]
_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
GATES: Final = ("auto", "ask", "deny")
#: What is an agent's own, beside the options of an action.
_OWN: Final = ("model", "instructions", "tools", "gates", "policy", "settings", "folder", "loop_tools")


class Agent:
    """A model, what it is told, and what it may use. `agent.action` is what callers call.

    What an action may be declared with (`description`, `output`, `permissions`, `timeout` and the like) may be given
    here too.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str | Model | None = None,
        instructions: str = "",
        tools: ToolSource = (),
        gates: Mapping[str, Gate] | None = None,
        policy: Policy | None = None,
        settings: Settings | None = None,
        loop_tools: bool = True,
        folder: str | os.PathLike[str] | None = None,
        function: Callable[..., Any] | None = None,
        **options: Any,
    ) -> None:
        owner = f"Agent {name!r}"
        checks.known_keys(owner, options, (*_OWN, *OPTIONS))
        self.name = name
        self.model = model
        self.instructions = inspect.cleandoc(instructions)
        self.policy = policy or Policy()
        self.settings = settings or Settings()
        self.gates: dict[str, Gate] = dict(gates or {})
        for tool, gate in self.gates.items():
            checks.one_of(owner, f"gates[{tool!r}]", gate, GATES)
        self._tools: list[Any] = list(tools) if isinstance(tools, list | tuple) else [tools]
        #: Remote servers among them, which are connected when the agent is first run.
        self._servers = [each for each in self._tools if hasattr(each, "connect")]
        self._loop_tools = loop_tools
        #: What it works in: for tools of files that were given no root, and for plugins.
        self.folder = None if folder is None else Path(folder)
        #: By app, and what it was made of.
        self._belts: WeakKeyDictionary[App, tuple[tuple[Any, ...], Belt]] = WeakKeyDictionary()
        #: The one that was last asked for: an agent is mostly run in one app.
        self._worn: tuple[ref[App], int, Belt] | None = None
        self._brief: Brief | None = None
        #: What runs began with last, and what it was made of.
        self._opening: tuple[tuple[ref[App], int, Belt], Opening] | None = None
        given: dict[str, Any] = {
            "side_effects": "write",
            "idempotency": "non_idempotent",
            **({} if function is not None else _asking()),
            **options,
        }
        given.setdefault("description", _description(self.instructions))
        if given["description"] is None:
            del given["description"]
        body = self._asked() if function is None else self._shaped(owner, function)
        marks = {**given.pop("metadata", {}), MARK: self}
        self.action: Action[..., Any] = Action(body, **{**given, "name": name, "metadata": marks})
        #: What the reply has to be; None where any text is.
        self.output = (
            None if self.action.output is None or _is_text(self.action.output) else self.action.output
        )

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"

    def extended(self, *, instructions: str = "", tools: Iterable[Any] = ()) -> Agent:
        """The same agent, told more and with more to use; what is said with it is said with this one."""
        more = copy(self)
        more.instructions = "\n\n".join(each for each in (self.instructions, instructions.strip()) if each)
        more._tools = [*self._tools, *tools]
        more._belts, more._worn = WeakKeyDictionary(), None
        return more

    @property
    def brief(self) -> Brief:
        """What each run is told; the very same until something of it is changed."""
        known = self._brief
        if (
            known is None
            or known.instructions is not self.instructions
            or known.settings is not self.settings
            or known.output is not self.output
        ):
            known = self._brief = Brief(self.instructions, self.settings, self.output)
        return known

    async def ready(self, app: App) -> Belt:
        """What this agent may use in an app now; MCP servers that it uses are connected.

        Raises:
            DefinitionError: a tool that was named is not there.
            Failure: a server cannot be reached.
        """
        for server in self._servers:
            if server.status != "connected":
                await server.connect()
        return self.belt(app)

    def worn(self, app: App) -> Belt | None:
        """What `ready` gave last, where that is known to be so still."""
        worn = self._worn
        if worn is not None and worn[1] == app.catalogue.revision and worn[0]() is app:
            return worn[2]
        return None

    def opening(self, app: App) -> Opening | None:
        """What a run in an app begins with, where `worn` is known; the very same until something of it is changed."""
        known, worn = self._opening, self._worn
        if known is not None and known[0] is worn:
            (of, revision, _), opening = known
            brief = opening.brief
            if (
                revision == app.catalogue.revision
                and of() is app
                and opening.policy is self.policy
                and brief.instructions is self.instructions
                and brief.settings is self.settings
                and brief.output is self.output
            ):
                return opening
        belt = self.worn(app)
        if belt is None or worn is None:
            return None
        opening = Opening(self.brief, belt, self.policy)
        self._opening = worn, opening
        return opening

    def belt(self, app: App) -> Belt:
        """What this agent may use in an app. Raises DefinitionError for a tool, or a gate's tool, that there is not."""
        worn = self.worn(app)
        if worn is not None:
            return worn
        revision = app.catalogue.revision
        known, belt = self._belts.get(app, ((), None))
        now = (revision, *(action for server in self._servers for action in server.actions))
        if belt is None or known != now:
            belt = Belt(self._gathered(app), loop_tools() if self._loop_tools else ())
            self._check_gates(belt)
            self._belts[app] = (now, belt)
        if not self._servers:  # the tools of remote servers come and go
            self._worn = ref(app), revision, belt
        return belt

    def _check_gates(self, belt: Belt) -> None:
        """A gate whose tool is misspelled guards nothing. The tools of remote servers come and go."""
        remote = tuple(server.prefix for server in self._servers)
        for name in self.gates:
            if name != "*" and name not in belt.actions and not name.startswith(remote):
                near = checks.near_miss(name, list(belt.actions))
                raise DefinitionError(
                    f"Agent {self.name!r}: gates[{name!r}] is for a tool that it does not have.{near}"
                )

    def _gathered(self, app: App) -> list[Action[..., Any]]:
        found: dict[str, Action[..., Any]] = {}
        sources = list(self._tools)
        while sources:
            source = sources.pop(0)
            whole = source if isinstance(source, Action) else getattr(source, "action", None)
            if isinstance(whole, Action):
                found.setdefault(whole.name, whole)
            elif source == "*":
                shown = app.list_actions("ai-sdk", Exposure())
                sources[:0] = [each for each in shown if each.name != self.name]
            elif isinstance(source, str):
                sources.insert(0, self._named(app, source))
            else:
                sources[:0] = source.actions if source in self._servers else source
        return list(found.values())

    def _named(self, app: App, name: str) -> Action[..., Any]:
        action = app.get(name)
        if action is None:
            near = checks.near_miss(name, [each.name for each in app.actions])
            raise DefinitionError(f"Agent {self.name!r}: there is no tool {name!r} in {app!r}.{near}")
        return action

    def _asked(self) -> Callable[..., Any]:
        """The body of an agent that is asked in words."""

        async def ask(prompt: str, conversation: OptionalConversation = None, *, ctx: Context) -> Any:
            """Ask the agent.

            Args:
                prompt: What to do, or the answer to what the agent asked.
            """
            return await _run()(self, prompt, conversation, ctx)

        return ask

    def _shaped(self, owner: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The body of an agent with a function's input and output. The function may write the prompt."""
        hints = hints_of(function)
        parameters = inspect.signature(function).parameters
        context = next((name for name in parameters if _takes_context(name, hints)), None)
        inputs = {name: each for name, each in parameters.items() if name != context}
        if CONVERSATION in inputs:
            raise DefinitionError(
                f"{owner}: a parameter of its own is named {CONVERSATION!r}; call it otherwise."
            )

        async def ask(*, ctx: Context, conversation: str | None = None, **values: Any) -> Any:
            made = function(**values, **({} if context is None else {context: ctx}))
            if inspect.isawaitable(made):
                made = await made
            return await _run()(self, _prompt(made, values), conversation, ctx)

        annotations = {name: hint for name, hint in hints.items() if name != context} | {"ctx": Context}
        named = [_keyword(each, annotations) for each in inputs.values()]
        if len(inputs) != 1 or hints.get(next(iter(inputs))) is str:
            # A lone model is the whole input, and has no room for another field.
            annotations[CONVERSATION] = OptionalConversation
            named.append(_keyword(inspect.Parameter(CONVERSATION, _KEYWORD, default=None), annotations))
        named.append(_keyword(inspect.Parameter("ctx", _KEYWORD), annotations))
        ask.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        ask.__annotations__ = annotations
        ask.__doc__ = function.__doc__
        ask.__module__ = function.__module__
        ask.__wrapped__ = function  # type: ignore[attr-defined]
        return ask


@cache
def _asking() -> dict[str, Schema]:
    """What agents that are asked in words take and give, which is the same for all of them."""
    template = Action(Agent._asked(None), name="ask", output=str)  # type: ignore[arg-type]
    assert template.output is not None
    return {"input": template.input, "output": template.output}


@cache
def _run() -> Callable[[Agent, str, str | None, Context], Coroutine[Any, Any, Any]]:
    """What runs agents, which is only read where one is run."""
    from fairlead.agents.running import run

    return run


def _keyword(parameter: inspect.Parameter, annotations: Mapping[str, Any]) -> inspect.Parameter:
    hint = annotations.get(parameter.name, inspect.Parameter.empty)
    return parameter.replace(kind=_KEYWORD, annotation=hint)


def _is_text(schema: Schema) -> bool:
    document = schema.json_schema
    return document.get("type") == "string" and not set(document) & {"enum", "const", "pattern", "format"}


def _takes_context(name: str, hints: Mapping[str, Any]) -> bool:
    hint = hints.get(name)
    return hint is Context or (hint is None and name in ("ctx", "context"))


def _prompt(made: Any, values: Mapping[str, Any]) -> str:
    """What the model is asked: what the function wrote, a lone text as it is, or the input as JSON."""
    if isinstance(made, str):
        return made
    if made is not None and made is not ...:
        return json.dumps(jsonable(made), ensure_ascii=False, indent=2)
    only = next(iter(values.values())) if len(values) == 1 else None
    if isinstance(only, str):
        return only
    return json.dumps(jsonable(dict(values) if only is None else only), ensure_ascii=False, indent=2)


def _description(instructions: str) -> str | None:
    first = instructions.strip().split("\n\n")[0]
    return " ".join(first.split()) or None


def agent_of(function: Callable[..., Any], **options: Any) -> Agent:
    """An agent with a function's name, words and types."""
    if not hasattr(function, "__name__"):
        raise DefinitionError(
            f"{function!r} cannot be an agent of an app: decorate a function, or make an Agent and app.add() it."
        )
    said = inspect.getdoc(function) or ""
    settled = {"name": function.__name__, "instructions": said, **options}
    return Agent(settled.pop("name"), function=function, **settled)
