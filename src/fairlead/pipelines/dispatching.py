"""Tools of an agent: found by name, agreed to, checked on the way in and out. What goes wrong is data for the model."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fairlead import _json
from fairlead.agents.loop.specs import root_of
from fairlead.agents.operator import Approval, Verdict
from fairlead.failures import Failure, from_exception
from fairlead.failures import runtime as wire
from fairlead.failures.runtime import (
    ConfigError,
    DocstoreDenied,
    InternalError,
    LoadError,
    ParseError,
    PipelineError,
    ToolDenied,
    ToolNestingError,
    ToolNotLowerable,
    UnknownTool,
    ValidationError,
)
from fairlead.pipelines.expressions import ERRORS, Typed, compiled, told
from fairlead.pipelines.host import Host
from fairlead.pipelines.modules import INSTALLED, LARGEST
from fairlead.pipelines.program import Checked, Process
from fairlead.pipelines.running import call
from fairlead.pipelines.validating import checker, refusal

if TYPE_CHECKING:
    from fairlead.actions import Action
    from fairlead.pipelines.journals import Journal
    from fairlead.pipelines.problems import Problem, Source
    from fairlead.tools.mcp import McpServer

#: Built-in tools that ask the operator unless their settings say otherwise.
_ASKING: Final = frozenset(("write", "edit", "delete", "exec", "call"))
#: A pipeline may call another, which calls another, so deep.
_DEEPEST: Final = 8
#: Made by the compiler, never called.
INTERNAL: Final = frozenset(("tagger", "log"))
NOT_LOWERABLE: Final = frozenset(("filter", "merge", "barrier", "project", "empty"))
NESTED: Final = frozenset(("tool", "lower"))

#: Numbers of questions to operators: a late answer is to its own question, and to no later one.
_QUESTIONS: Final = itertools.count(1)

Ask = Callable[[Approval], Awaitable[Verdict]]


class Dispatcher:
    """What an agent may call."""

    def __init__(
        self,
        tools: Mapping[str, Process],
        host: Host,
        *,
        agent: str = "",
        servers: tuple[McpServer, ...] = (),
        ask: Ask | None = None,
    ) -> None:
        self._tools = tools
        self._host = host
        self._agent = agent
        self._servers = servers
        self._ask = ask
        self._documents: dict[str, Action[..., Any]] = {}
        self._runtime: Any = None

    def within(self, journal: Journal) -> Dispatcher:
        """The same for one call, whose own steps are kept there."""
        one = copy(self)
        one._host = replace(self._host, journal=journal)
        return one

    async def respond(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a tool call `{id, name, input}`: its value, or the error object, as text. Never raises."""
        try:
            outcome: Any = await self.call(str(request.get("name", "")), request.get("input"))
        except Failure as failure:
            outcome = failure
        except Exception as error:
            outcome = from_exception(error)
        return wire.tool_response(str(request.get("id", "")), outcome)

    async def call(self, name: str, value: Any) -> Any:
        """Call a tool. A text is what a model wrote, and has to be JSON. Raises Failure."""
        tool = self._tools.get(name)
        if tool is not None:
            return await self._own(name, tool, _parsed(name, value))
        for server in self._servers:
            for action in server.actions:
                if action.name == name:
                    # It is called as a model is told of it, which may be in other words than its own.
                    return await self._remote(action, name, root_of(action).decode(_parsed(name, value)))
        message = f"unknown tool: {name} (not found in any MCP server)"
        raise UnknownTool(message, details={"source": name})

    async def _own(self, name: str, tool: Process, value: Any) -> Any:
        fits = checker(tool.inputs[0].type)(value)
        asks, called = self._asks(tool), None
        if asks:
            self._somebody(name)
        if fits and tool.settings.get("builtin") == "call":
            # A text that a model wrote may take long to check: the run goes on meanwhile, and can be ended.
            called = await asyncio.to_thread(self._looked_at, name, value)
        if asks:
            await self._agreed(name, value if called is None else _shown(value, called))
        if not fits:
            raise refusal(tool.inputs[0].type, value, name, "input")
        if isinstance(called, Failure):
            raise called
        if called is not None:
            result = await self._pipeline(name, called, value.get("input"))
        else:
            result = await self._done(name, tool, value)
        if tool.kind != "discard" and not checker(tool.outputs[0].type)(result):
            raise refusal(tool.outputs[0].type, result, name, "output")
        return result

    def _asks(self, tool: Process) -> bool:
        """Whether the operator is asked first. A pipeline that was called cannot say for itself that it is not."""
        asking = tool.settings.get("builtin") in _ASKING
        said = tool.settings.get("approve", asking)
        return bool(said or (asking and self._host.depth > 0))

    async def _done(self, name: str, tool: Process, value: Any) -> Any:
        if tool.kind != "tool":
            return await self.lowered(name, tool, value)
        if "builtin" in tool.settings:
            return await self._builtin(name, str(tool.settings["builtin"]), value)
        if tool.behind is None:
            raise ConfigError(f"The tool {name!r} has no process.", details={"source": name})
        behind = tool.behind
        while behind.kind == "rebinding" and behind.behind is not None:
            behind = behind.behind
        return await self.lowered(name, behind, value)

    async def lowered(self, name: str, process: Process, value: Any) -> Any:
        """A process as a function: one value in, one out. Raises Failure."""
        kind, source = process.kind, {"source": name}
        if kind in NOT_LOWERABLE:
            message = f"{name!r} is a {kind}, which does not give exactly one output for each input."
            raise ToolNotLowerable(message, details=source)
        if kind in NESTED:
            raise ToolNestingError(f"{name!r} is a tool inside a tool.", details=source)
        if kind in INTERNAL:
            raise InternalError(f"{name!r} is a part of the runtime and not callable.", details=source)
        match kind:
            case "id":
                return value
            case "copy":
                return [value, value]
            case "discard":
                return None
            case "map":
                assert isinstance(process.code, str)
                try:
                    return compiled(Typed(process.outputs[0].type, process.code))(value)
                except ERRORS as error:
                    message = f"{name!r} cannot be computed: {told(error)}."
                    raise ValidationError(message, details=source) from error
        if kind == "rebinding" and process.behind is not None:
            return await self.lowered(name, process.behind, value)
        return await call(process, value, self._host)

    # The operator

    async def _agreed(self, name: str, value: Any) -> None:
        asked = self._somebody(name)
        if asked is None:
            return
        ask = Approval(f"{self._agent or 'call'}-{next(_QUESTIONS)}", name, value, self._agent)
        try:
            verdict = await asked(ask)
        except Exception as error:
            verdict = Verdict(False, f"the operator could not be asked: {type(error).__name__}")
        if not verdict.approve:
            why = f": {verdict.reason}" if verdict.reason else "."
            raise ToolDenied(f"The operator declined the tool {name!r}{why}", details={"source": name})

    def _somebody(self, name: str) -> Ask | None:
        """Who is asked; None where nobody has to be. Raises ToolDenied when somebody has to be and nobody is there."""
        if self._host.auto_approve:
            return None
        asked = self._ask or (self._host.operator.approve if self._host.operator is not None else None)
        if asked is None:
            message = f"The tool {name!r} needs the operator's yes, and no operator is there."
            raise ToolDenied(message, details={"source": name})
        return asked

    # Built-in and remote tools

    def _docroot(self, name: str) -> str:
        if self._host.docroot is None:
            message = "There is no folder of documents here. Give one: --docroot DIR, or docroot= in Python."
            raise DocstoreDenied(message, details={"source": name})
        return self._host.docroot

    async def _builtin(self, name: str, builtin: str, value: Any) -> Any:
        root = self._docroot(name)
        if not self._documents:
            from fairlead.tools.documents import documents

            made = documents(root, exec=True)
            self._documents.update({each.name: each for each in made})
        return await self._invoked(self._documents[builtin], name, value)

    async def _remote(self, action: Action[..., Any], name: str, value: Any) -> Any:
        if action.requires_confirmation:
            await self._agreed(name, value)
        return await self._invoked(action, name, value)

    async def _invoked(self, action: Action[..., Any], name: str, value: Any) -> Any:
        if self._runtime is None:
            from fairlead.runtime import Runtime

            self._runtime = Runtime()
        result = await self._runtime.invoke(action, value, confirm=True)
        if result.failure is None:
            return result.data
        failure: Failure = result.failure
        failure.details.setdefault("source", name)
        raise failure

    # Other pipelines

    async def _pipeline(self, name: str, called: Checked, value: Any) -> Any:
        """`Sys.call`: run a pipeline on one input; its first output is the answer."""
        if self._host.depth >= _DEEPEST:
            raise PipelineError(
                f"Pipelines call each other more than {_DEEPEST} deep.", details={"source": name}
            )
        assert called.main is not None
        inner = replace(self._host, depth=self._host.depth + 1)
        try:
            return await call(called.main, value, inner)
        except Failure as failure:
            if isinstance(failure, PipelineError):
                raise
            details = {"source": name, "error": wire.render(failure)["error"]}
            message = f"The called pipeline failed: {failure.message}"
            raise PipelineError(
                message, details={**details, "cause": wire.render(failure)}, cause=failure
            ) from failure

    def _looked_at(self, name: str, value: Mapping[str, Any]) -> Checked | Failure:
        """The pipeline that would run, or what is wrong with it.

        That says which files there are, so it is told after the operator's yes. Raises Failure at once where there is
        no text, or one that cannot be read, which says nothing of any.
        """
        from fairlead.pipelines.parsing import parse
        from fairlead.pipelines.problems import TEXT, Problems, Source

        given = value.get("source")
        if given is None and not value.get("file"):
            message = (
                f"{name!r} was given no pipeline: say `source`, its text, or `file`, a document that is one."
            )
            raise ValidationError(message, details={"source": name})
        try:
            source = self._document(name, value) if given is None else Source(TEXT, str(given))
        except Failure as failure:
            return failure
        if given is not None:
            problems = Problems()
            parse(source, problems)
            if problems.errors:
                raise _wrong(name, problems.errors, ParseError)
        return self._checked(name, source)

    def _checked(self, name: str, source: Source) -> Checked | Failure:
        from fairlead.pipelines.apps import options_for
        from fairlead.pipelines.checking import check_text
        from fairlead.pipelines.problems import TEXT

        options = options_for(self._host.app, self._host.environ, search_path=self._host.search_path)
        checked = check_text(source.text, source.file, options)
        if not checked.errors:
            return checked
        # Lines are shown of what the caller wrote, not of files that it may not read.
        shown = [each if each.file == TEXT else replace(each, text="") for each in checked.errors]
        return _wrong(name, shown, LoadError)

    def _document(self, name: str, value: Mapping[str, Any]) -> Source:
        """A program among the documents. Raises Failure: it may not be read, or is none."""
        from fairlead.pipelines.problems import Source
        from fairlead.tools.documents import document

        file, root = str(value.get("file", "")), self._docroot(name)
        try:
            data = document(root, file, LARGEST + 1)
            if len(data) > LARGEST:
                raise LoadError(f"{file!r} has more than {LARGEST} bytes, and is no program.")
            # By its place on the disk, where the modules beside it are.
            return Source(os.path.join(root, file), data.decode())
        except DocstoreDenied as failure:
            failure.details.setdefault("source", name)
            raise
        except Failure as failure:
            raise LoadError(failure.message, details={"source": name, "file": file}) from failure
        except UnicodeDecodeError as error:
            raise LoadError(f"{file!r} is not UTF-8 text.", details={"source": name, "file": file}) from error


def _wrong(name: str, errors: list[Problem], kind: type[wire.RuntimeFailure]) -> Failure:
    from fairlead.pipelines.problems import failure_of

    failure = failure_of(errors, kind)
    failure.details["source"] = name
    return failure


def _shown(value: Mapping[str, Any], called: Checked | Failure) -> dict[str, Any]:
    """What the operator agrees to: the whole text of a pipeline and of the modules that it brings, as they will run.

    Of one that cannot run, what would be told of it.
    """
    if isinstance(called, Failure):
        return {**value, "problem": called.message}
    # The library's own are no news.
    modules = {
        file: text
        for file, text in called.texts().items()
        if file != called.source.file and os.path.dirname(file) != INSTALLED
    }
    shown = {**value, "source": called.source.text}
    return {**shown, "modules": modules} if modules else shown


def _parsed(name: str, value: Any) -> Any:
    """What a model wrote as arguments; what is a value already stays as it is."""
    if not isinstance(value, bytes):
        return value
    try:
        return _json.loads(value or b"{}")
    except ValueError as error:
        message = f"The arguments for {name!r} are not JSON."
        raise ParseError(message, details={"source": name}, cause=error) from error
