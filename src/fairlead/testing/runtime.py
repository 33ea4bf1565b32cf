"""A runtime for tests: everything is allowed and confirmed unless the test says otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from fairlead.actions import Action, ActionOptions
from fairlead.runtime import Context, PermissionChecker, Result, Runtime, Stream
from fairlead.runtime.app import RuntimeOptions
from fairlead.runtime.runtime import NOTHING


class TestRuntime(Runtime):
    """A runtime whose calls come from the `json` surface, confirmed."""

    __test__ = False

    async def invoke(self, action: str | Action[..., Any], input: Any = NOTHING, **options: Any) -> Result:
        return await super().invoke(action, input, **_easy(options))

    def stream(self, action: str | Action[..., Any], input: Any = NOTHING, **options: Any) -> Stream:
        return super().stream(action, input, **_easy(options))


def _easy(options: dict[str, Any]) -> dict[str, Any]:
    return {"surface": "json", "confirm": True, **options}


def create_test_runtime(
    actions: Iterable[Action[..., Any]],
    *,
    allow: bool | str | PermissionChecker = True,
    services: Mapping[str, Any] | None = None,
    **options: Unpack[RuntimeOptions],
) -> TestRuntime:
    """A runtime for tests. `allow` is True, False, a refusal's message, or a permission checker."""
    if callable(allow):
        checker = allow
    else:
        answer = allow if allow is not False else "denied by test runtime"

        def checker(action: Action[..., Any], input: Any, context: Context) -> bool | str:
            return answer

    options["permission_checker"] = checker
    return TestRuntime(actions, services=services, **options)


def stub_action(name: str, *, returns: Any = None, **options: Any) -> Action[..., Any]:
    """An action that takes anything and returns `returns`, or `{"ok": True}`."""
    answer = {"ok": True} if returns is None else returns

    async def run(input: Any) -> Any:
        return answer

    defaults: ActionOptions = {
        "name": name,
        "description": f"Stub of {name}.",
        "version": "0.0.0-test",
        "input": Any,
    }
    return Action(run, **{**defaults, **options})
