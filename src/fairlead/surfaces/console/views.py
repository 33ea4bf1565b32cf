"""One action as each surface shows it, side by side: in which words, and whether it is shown there at all.

Every text is made by the surface itself, so that the page cannot tell another story. It is made also for surfaces
that do not show the action by default, as they would show it if they were told to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any, NamedTuple

from fairlead import _json
from fairlead.actions import Action, Exposure
from fairlead.actions.surfaces import is_local
from fairlead.failures import from_exception
from fairlead.runtime import Runtime
from fairlead.runtime.hooks import report

_DEFAULT = Exposure()
_BASE = "/fairlead"


class View(NamedTuple):
    """What a surface shows for an action, and why it does not show it unless told to."""

    id: str
    title: str
    language: str
    text: str
    shown: bool
    why: str | None


class Subject(NamedTuple):
    """The action that is looked at."""

    app: Runtime
    action: Action[..., Any]
    program: str

    @property
    def alone(self) -> Exposure:
        """Shows this action and no other, whatever its visibility."""
        return Exposure(True, True, True, lambda each: each is self.action)


Draw = Callable[[Subject], str]


def views(app: Runtime, action: Action[..., Any], program: str) -> list[View]:
    """The action on every surface, in the order in which people look for them."""
    subject = Subject(app, action, program)
    return [_view(subject, *each) for each in _drawn()]


def _view(subject: Subject, id: str, title: str, surface: str, language: str, draw: Draw) -> View:
    why = hidden(subject.action, surface)
    if surface not in subject.action.supported_surfaces:
        return View(id, title, "text", "", False, why)
    try:
        text = draw(subject)
    except Exception as exc:
        # One surface that cannot show it must not hide the others.
        report(f"The surface {id!r} could not show {subject.action.name!r}.", subject.app.redactor)
        return View(id, title, "text", "", False, subject.app.redactor.text(from_exception(exc).message))
    return View(id, title, language, text, why is None, why)


def hidden(action: Action[..., Any], surface: str) -> str | None:
    """Why a surface does not show an action by default; None if it does."""
    if _DEFAULT.allows(action, surface):
        return None
    if surface not in action.supported_surfaces:
        return f"The action does not support this surface: {surface!r} is not in its supported_surfaces."
    if action.visibility == "private":
        return "Private actions are shown nowhere but here. include_private=True shows this one."
    if action.visibility == "local" and not is_local(surface):
        return "Local actions are not shown to callers elsewhere. include_local=True shows this one."
    return "Destructive actions are not shown to callers elsewhere. include_destructive=True shows this one."


def _drawn() -> Iterator[tuple[str, str, str, str, Draw]]:
    yield "cli", "Command line", "cli", "text", _command_line
    yield "http", "HTTP (OpenAPI)", "http", "json", _operation
    yield "mcp", "MCP tool", "mcp", "json", _mcp
    yield "json", "JSON runner", "json", "json", _payload
    yield "typescript", "TypeScript", "react", "typescript", _typescript
    for id, title in (
        ("openai", "OpenAI"),
        ("openai-responses", "OpenAI responses"),
        ("anthropic", "Anthropic"),
        ("gemini", "Gemini"),
    ):
        yield id, title, "ai-sdk", "json", _tool_for(id)


def _command_line(subject: Subject) -> str:
    from fairlead.surfaces.cli.console import Console
    from fairlead.surfaces.cli.fields import Fields
    from fairlead.surfaces.cli.help import action_page

    class Narrow(Console):
        """As wide as a column of the page."""

        width = 56

    plain = Narrow(StringIO(), StringIO(), StringIO(), {})
    return action_page(plain, subject.program, subject.action, Fields(subject.action.input.json_schema))


def _operation(subject: Subject) -> str:
    from fairlead.surfaces.http.openapi import openapi_document

    document = openapi_document(subject.app, exposure=subject.alone, base=_BASE)
    path = f"{_BASE}/actions/{subject.action.name}/invoke"
    return _json.dumps({path: document["paths"][path]}, indent=True)


def _mcp(subject: Subject) -> str:
    from fairlead.surfaces.mcp.manifest import mcp_manifest

    return _json.dumps(mcp_manifest(subject.app, subject.alone)["tools"][0], indent=True)


def _payload(subject: Subject) -> str:
    action = subject.action
    payload: dict[str, Any] = {"action": action.name, "input": action.docs.get("input_example") or {}}
    if action.requires_confirmation:
        payload["confirm"] = True
    return _json.dumps(payload, indent=True)


def _typescript(subject: Subject) -> str:
    from fairlead.surfaces.client.contracts import contracts
    from fairlead.surfaces.client.shapes import Names
    from fairlead.surfaces.client.ts_types import declaration

    [contract] = contracts([subject.action], Names([]))
    return "\n".join(declaration(each) for each in contract.definitions)


def _tool_for(format: str) -> Draw:
    def draw(subject: Subject) -> str:
        from fairlead.surfaces.llm.tools import Tools

        include, local, destructive, only = subject.alone
        tools = Tools(
            subject.app,
            format,
            include_private=include,
            include_local=local,
            include_destructive=destructive,
            filter=only,
        )
        return _json.dumps(tools.definitions, indent=True)

    return draw
