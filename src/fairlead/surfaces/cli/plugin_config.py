"""`fairlead plugin config`, `instructions` and `forget`: what a plugin has for an agent. No value is ever printed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fairlead.failures import Failure, Kind
from fairlead.surfaces.cli.hints import near_miss, wrong_option

if TYPE_CHECKING:
    from fairlead.plugins.config import Config
    from fairlead.plugins.manifest import Field
    from fairlead.runtime import App
    from fairlead.surfaces.cli.plugin import Desk

#: The agent whose values are under those of every other.
DEFAULT = "default"


def config(desk: Desk) -> int:
    """List, set or forget values."""
    from fairlead.plugins.config import LARGEST
    from fairlead.plugins.fields import checked, field_named, fields_of
    from fairlead.plugins.finding import read_manifest
    from fairlead.plugins.installing import installed_version
    from fairlead.surfaces.cli.hidden import hidden_value

    id, values = desk.word(0, "a plugin's id"), desk.options.values
    manifest = read_manifest(desk.layout.version_folder(id, installed_version(desk.layout, id)))
    app = desk.program.the_app()
    name, agent = _agent(app, values.get("--agent"))
    kept = _config(app, id)
    key, unset = values.get("--set"), values.get("--unset")
    if key is not None and unset is not None:
        raise wrong_option("--unset", "give --set or --unset, not both.")
    try:
        if key is not None:
            command = f"{desk.program.spelled} plugin config {id} --set {key}"
            value = checked(
                field_named(manifest, key), hidden_value(desk.program.console, key, LARGEST, command)
            )
            asyncio.run(kept.save(agent, {key: value}))
            return desk.tell(
                {"ok": True, "id": id, "agent": name, "set": key}, f"{key} of {id} is set for {name}."
            )
        if unset is not None:
            field_named(manifest, unset)
            asyncio.run(kept.save(agent, {unset: None}))
            words = f"{unset} of {id} is forgotten for {name}."
            return desk.tell({"ok": True, "id": id, "agent": name, "unset": unset}, words)
        required = {each.id for each in manifest.secrets if each.required}
        own = asyncio.run(kept.values(agent))
        rows = [_row(each, own, required) for each in fields_of(manifest)]
    finally:
        app.close()
    told = {"id": id, "agent": name, "agentId": agent, "settings": rows}
    return desk.tell(told, f"{id} for {name} ({agent})", desk.table(rows, "It has no settings."))


def instructions(desk: Desk) -> int:
    """Tell, set or reset what models are told of a plugin for an agent."""
    from fairlead.plugins.finding import read_manifest
    from fairlead.plugins.installing import installed_version
    from fairlead.plugins.preferences import Preferences

    layout, id = desk.layout, desk.word(0, "a plugin's id")
    manifest = read_manifest(layout.version_folder(id, installed_version(layout, id)))
    app = desk.program.the_app()
    try:
        name, agent = _agent(app, desk.options.values.get("--agent"))
    finally:
        app.close()
    if name == DEFAULT:
        raise wrong_option("--agent", "instructions are for an agent of the app.")
    settings, text = Preferences(layout.home(id)), desk.options.words[1:]
    if "--reset" in desk.options.on:
        if text:
            raise wrong_option("--reset", "give a text or --reset, not both.")
        settings.set_instructions(name, None)
    elif text:
        settings.set_instructions(name, desk.word(1, "what models are told"))
    own = settings.instructions(name)
    told = own or manifest.instructions or ""
    about = {"id": id, "agent": name, "agentId": agent, "instructions": told, "own": own is not None}
    return desk.tell(about, told or f"{id} has no instructions for {name}.")


def forget(desk: Desk) -> int:
    """Forget all that plugins keep for an agent that the app does not have any more."""
    from fairlead.plugins.identity import agent_uuid, agents_of

    name = desk.word(0, "the name of an agent")
    app = desk.program.the_app()
    try:
        if name in {agent.name for agent in agents_of(app).values()}:
            words = f"The app has the agent {name!r}. Forget single values of it:"
            command = f"{desk.program.spelled} plugin config ID --agent {name} --unset KEY"
            raise Failure(Kind.conflict, f"{words} {command}")
        if not desk.agreed(f"Forget all that plugins keep for {name}? This cannot be undone."):
            raise Failure(Kind.refused_by_user, "Nothing was forgotten: nobody agreed. To agree, add --yes.")
        count = asyncio.run(_config(app, "").forget_agent(agent_uuid(app.name, name)))
    finally:
        app.close()
    told = f"{count} value{'' if count == 1 else 's'} of {name} {'is' if count == 1 else 'are'} forgotten."
    return desk.tell({"ok": True, "agent": name, "forgotten": count}, told)


def _row(field: Field, own: dict[str, str], required: set[str]) -> dict[str, Any]:
    must = field.key in required or bool(field.validation and field.validation.required)
    state = "set" if field.key in own else "missing" if must else "default" if field.default else "not set"
    return {"key": field.key, "type": field.type, "label": field.label, "state": state}


def _agent(app: App, name: str | None) -> tuple[str, str]:
    """The agent that is meant: its name, and its id at the interface."""
    from fairlead.plugins.identity import DEFAULT_AGENT, agents_of

    agents = {agent.name: id for id, agent in agents_of(app).items()}
    if name is None and len(agents) == 1:
        return next(iter(agents.items()))
    if name == DEFAULT:
        return DEFAULT, DEFAULT_AGENT
    known = ", ".join(agents) or "none"
    if name is None:
        raise wrong_option("--agent", f"say which agent: {known}, or {DEFAULT} for all of them.")
    if name not in agents:
        raise Failure(
            Kind.not_found, f"There is no agent {name[:80]!r}.{near_miss(name, agents)} There are: {known}."
        )
    return name, agents[name]


def _config(app: App, id: str) -> Config:
    from fairlead.plugins.config import Config
    from fairlead.plugins.services import Shared

    shared = Shared.of(app)
    return Config(id, app.store, shared.secrets, shared.warnings)
