"""What the page asks besides calls: the app, its failures explained, and one action as others see it.

Calls themselves take the routes that every HTTP caller takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.actions import Action, Exposure, describe_action
from fairlead.failures import Failure, Kind
from fairlead.runtime import Runtime
from fairlead.surfaces.console import advice, keep, snippets, views
from fairlead.surfaces.console.gate import object_in
from fairlead.surfaces.http.asgi import Request
from fairlead.surfaces.refusal import LONGEST

SURFACE = "dev"
#: Whoever runs the app sees all of it here.
EXPOSURE = Exposure(include_private=True, include_local=True, include_destructive=True)


class Api:
    """Answers the page; `about` is what it should know of the console itself."""

    def __init__(self, app: Runtime, program: str, about: dict[str, Any], address: str) -> None:
        self._app = app
        self._program = program
        self._address = address
        self._about = about
        self._asked: dict[tuple[str, str], Callable[[Request], Any]] = {
            ("GET", "/actions"): self._actions,
            ("GET", "/failures"): lambda _: {"failures": advice.explained()},
        }
        self._asked_of_one: dict[tuple[str, str], Callable[[Action[..., Any], Request], Any]] = {
            ("GET", "surfaces"): self._surfaces,
            ("POST", "snippets"): self._snippets,
            ("POST", "keep"): self._keep,
        }

    def handler(self, method: str, path: str) -> Callable[[Request], Any] | None:
        """What answers this request, if it is one of the page's own questions; it may raise Failure."""
        known = self._asked.get((method, path))
        if known is not None:
            return known
        start, actions, *rest = path.split("/")
        if start or actions != "actions" or len(rest) != 2:
            return None
        name, question = rest
        answer = self._asked_of_one.get((method, question))
        return None if answer is None else lambda request: answer(self._find(name), request)

    def _find(self, name: str) -> Action[..., Any]:
        action = self._app.get(name)
        if action is None or not EXPOSURE.allows(action, SURFACE):
            raise Failure(Kind.unknown_action, f"No action is named {name[:LONGEST]!r}.")
        return action

    def _actions(self, _: Request) -> Any:
        app = self._app
        told = {key: getattr(app, key, "") for key in ("description", "version")}
        return {
            "app": getattr(app, "name", "Actions"),
            "actions": [self._described(action) for action in EXPOSURE.select(app.catalogue, SURFACE)],
            "about": {
                **told,
                "placeholder": app.redactor.placeholder,
                "plugins": getattr(app, "has_plugins", False),
                "pipelines": any("pipeline" in action.metadata for action in app.catalogue),
                **self._about,
            },
        }

    def _described(self, action: Action[..., Any]) -> dict[str, Any]:
        described = describe_action(action)
        secrets = keep.secret_names(described["inputSchema"], self._app.redactor)
        told = {**described, "secretFields": sorted(secrets)}
        if "agent" in action.metadata:
            from fairlead.surfaces.console.chat import described as described_agent

            told["agent"] = described_agent(action)
        return told

    def _surfaces(self, action: Action[..., Any], _: Request) -> Any:
        return {"surfaces": [each._asdict() for each in views.views(self._app, action, self._program)]}

    def _snippets(self, action: Action[..., Any], request: Request) -> Any:
        # Code is copied to where others read it: secrets are for whoever runs it to fill in.
        given = keep.keepable(_input(request), action.input.json_schema, self._app.redactor)
        made = snippets.snippets(action, given, self._program, self._address)
        return {"snippets": [{**each._asdict(), "note": views.hidden(action, each.surface)} for each in made]}

    def _keep(self, action: Action[..., Any], request: Request) -> Any:
        return {"input": keep.keepable(_input(request), action.input.json_schema, self._app.redactor)}


def _input(request: Request) -> Any:
    return object_in(request.body).get("input", {})
