"""The app in a page of Markdown, for a model that is to use it: what it is for, and each tool that is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead import _json
from fairlead.actions import Action


def guide(name: str, description: str, docs: Mapping[str, Any], actions: Iterable[Action[..., Any]]) -> str:
    lines = [f"# {name}", "", docs.get("summary") or description or f"Tools of {name}."]
    for heading, key in (
        ("Who it is for", "audience"),
        ("When to use it", "when_to_use"),
        ("Setup", "setup"),
        ("How to use it", "quick_start"),
        ("Notes", "operational_notes"),
    ):
        lines += _section(heading, docs.get(key))
    lines += ["", "## Tools"]
    for action in actions:
        lines += _tool(action)
    for section in docs.get("sections") or ():
        if isinstance(section, Mapping):
            lines += _section(str(section.get("title", "")), section.get("body") or section.get("content"))
    return "\n".join(lines).rstrip() + "\n"


def _tool(action: Action[..., Any]) -> list[str]:
    lines = ["", f"### {action.title}", "", f"`{action.name}`: {action.description}", ""]
    lines.append(f"- Side effects: {action.side_effects}")
    if action.requires_confirmation:
        lines.append("- Asks for confirmation")
    if action.permissions:
        lines.append(f"- Permissions: {', '.join(action.permissions)}")
    docs = action.docs
    for heading, key in (
        ("Use it when", "when_to_use"),
        ("Do not use it when", "when_not_to_use"),
        ("Notes", "usage_notes"),
    ):
        lines += [f"- {heading}: {item}" for item in _items(docs.get(key))]
    for heading, key in (("Example input", "input_example"), ("Example output", "output_example")):
        if key in docs:
            lines += ["", f"{heading}:", "", "```json", _json.dumps(docs[key], indent=True), "```"]
    return lines


def _section(heading: str, said: Any) -> list[str]:
    items = _items(said)
    if not items:
        return []
    if isinstance(said, str):
        return ["", f"## {heading}", "", said]
    return ["", f"## {heading}", "", *(f"- {item}" for item in items)]


def _items(said: Any) -> list[str]:
    if not said:
        return []
    return [said] if isinstance(said, str) else [str(item) for item in said]
