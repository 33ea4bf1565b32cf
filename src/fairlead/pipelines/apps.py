"""Pipelines and an app: its actions as typed processes, and a pipeline as one of its actions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from fairlead.pipelines.checking import ActionTypes, Options, check_file, check_text, require
from fairlead.pipelines.host import Host
from fairlead.pipelines.live import MARK, known_as, watch_for
from fairlead.pipelines.program import Checked
from fairlead.pipelines.schemas import type_of
from fairlead.pipelines.shapes import Shape
from fairlead.pipelines.types import JSON, Field, Record, resolve
from fairlead.schema import Schema

if TYPE_CHECKING:
    from fairlead.actions import Action
    from fairlead.runtime import App


def options_for(app: App | None, environ: Mapping[str, str] | None = None, **given: Any) -> Options:
    """What a check for an app depends on; `provider`, `model`, `search_path` and the like as `Options` has them."""
    known = os.environ if environ is None else environ
    given.setdefault("provider", known.get("PLUMB_PROVIDER") or None)
    given.setdefault("model", known.get("PLUMB_MODEL") or known.get("FAIRLEAD_MODEL") or None)
    if app is None:
        return Options(environ=known, **given)
    names = tuple(each.name for each in app.actions)
    return Options(actions=action_types(app), action_names=names, environ=known, **given)


def action_types(app: App) -> Any:
    """The types of an app's actions, by name; each is read once."""

    @cache
    def types(name: str) -> ActionTypes | None:
        action = app.get(name)
        return None if action is None else types_of(action)

    return types


def types_of(action: Action[..., Any]) -> ActionTypes:
    """What an action takes and gives, as types."""
    given = type_of(action.input.json_schema)
    output = None if action.output is None else type_of(action.output.output_json_schema).type
    idempotent = action.side_effects == "read" or action.idempotency == "idempotent"
    return ActionTypes(given.type, output, given.beyond, idempotent)


def load(source: str | os.PathLike[str], app: App | None = None, **given: Any) -> Checked:
    """Read and check a program. Raises CheckError, or Failure when the file cannot be read."""
    return require(check_file(source, options_for(app, **given)))


def action_of(
    app: App, source: str | os.PathLike[str], name: str | None = None, *, text: bool = False, **options: Any
) -> Action[..., Any]:
    """A pipeline as an action: called with one message, it gives the first result.

    The program is checked here, so what is wrong with it shows when the app is made. Raises CheckError.
    """
    from fairlead.actions import Action, DefinitionError
    from fairlead.pipelines.running import call
    from fairlead.runtime import Context

    settings = {key: options.pop(key) for key in ("docroot", "auto_approve") if key in options}
    checked = require(
        check_text(os.fspath(source), options=options_for(app))
        if text
        else check_file(source, options_for(app))
    )
    main = checked.main
    assert main is not None
    if not main.inputs:
        raise DefinitionError("A pipeline without an input cannot be an action.")
    whole = isinstance(resolve(main.inputs[0].type), Record)
    stem = os.path.splitext(os.path.basename(os.fspath(source)))[0] if not text else "pipeline"

    async def run(ctx: Context, given: Any) -> Any:
        journal = None
        if ctx.task is not None:
            from fairlead.pipelines.durable import journal_of

            journal = await journal_of(app, ctx)
        watch = watch_for(app, ctx.action.name)
        host = Host(app=app, user=ctx.user, auth=ctx.auth, journal=journal, watch=watch, **settings)
        return await call(main, given if whole else given["value"], host)

    run.__doc__ = options.pop("description", None) or _about(checked) or f"Run the pipeline {stem}."
    taken = main.inputs[0].type if whole else Record((Field("value", main.inputs[0].type),))
    given: dict[str, Any] = {"side_effects": "write", "name": name or stem.replace("-", "_"), **options}
    given["input"], output = Schema(Shape(taken)), main.outputs[0].type
    if resolve(output) != JSON:
        given["output"] = Schema(Shape(output))
    given["metadata"] = {**options.get("metadata", {}), MARK: True}
    made: Action[..., Any] = Action(run, **given)
    known_as(made, main)
    return made


def add_pipeline(
    app: App, source: str | os.PathLike[str], name: str | None = None, **options: Any
) -> Action[..., Any]:
    """Give an app a pipeline as an action."""
    made = action_of(app, source, name, **options)
    app.catalogue.add(made)
    return made


def _about(checked: Checked) -> str:
    """The comment that a program begins with."""
    text = checked.source.text.lstrip()
    if not text.startswith("(*"):
        return ""
    said = text[2:].partition("*)")[0].split("\n\n")[0]
    return " ".join(said.split())
