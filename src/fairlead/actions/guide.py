"""The guide of an app: one Markdown page for people and models, made from what the actions say of themselves.

The same app gives the same bytes. It tells only what it is given: the caller chooses the actions that are shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlead.actions.definition import Action

_STEPS = (
    "Look through the actions below and choose one.",
    "Build an input that fits its schema.",
    "Call it on the surface you are on: the command line, HTTP, MCP or a model's tools.",
    "Read `ok` first: it says whether `data` or `error` tells the rest.",
)
#: The app's words, by heading: a paragraph, bullets or numbered steps.
_SECTIONS = (
    ("Intended User", "audience", "text"),
    ("When To Use", "when_to_use", "bullets"),
    ("Setup", "setup", "steps"),
    ("How To Use", "quick_start", "steps"),
    ("Operational Notes", "operational_notes", "bullets"),
)


def guide(
    name: str,
    actions: Iterable[Action[..., Any]],
    *,
    description: str = "",
    docs: Mapping[str, Any] | None = None,
    attribution: Mapping[str, Any] | None = None,
) -> str:
    """The guide as Markdown, with one final newline."""
    words = {"quick_start": list(_STEPS), **(docs or {})}
    summary = words.get("summary") or description or f"{name} offers its operations as actions."
    blocks = [f"# {name} Guide", f"## Overview\n\n{_line(summary)}"]
    blocks += [_section(heading, words[key], form) for heading, key, form in _SECTIONS if words.get(key)]
    if attribution and attribution.get("text"):
        blocks.append("## Attribution\n\n" + "\n".join(_attribution(attribution)))
    told = list(actions)
    blocks.append("## Available Actions" + ("" if told else "\n\nNone."))
    blocks += ["\n".join(_action(action)).rstrip() for action in told]
    if words.get("examples"):
        blocks.append("## Usage Examples")
        blocks += ["\n".join(_example(each)).rstrip() for each in words["examples"]]
    for section in words.get("sections") or ():
        blocks.append(f"## {_line(section.get('title', 'Notes'))}\n\n{section.get('body', '').strip()}")
    lines = "\n\n".join(blocks).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip() + "\n"


def _section(heading: str, content: Any, form: str) -> str:
    if form == "text" and isinstance(content, str):
        return f"## {heading}\n\n{_line(content)}"
    listed = [content] if isinstance(content, str) else list(content)
    marks = [f"{index}." if form == "steps" else "-" for index in range(1, len(listed) + 1)]
    return f"## {heading}\n\n" + "\n".join(
        f"{mark} {_line(each)}" for mark, each in zip(marks, listed, strict=True)
    )


def _attribution(given: Mapping[str, Any]) -> Iterator[str]:
    labels = (("text", ""), ("vendor", "Vendor: "), ("product", "Product: "), ("license_notice", "License: "))
    for key, label in (*labels, ("url", ""), ("docs_url", "Docs: ")):
        if given.get(key):
            yield f"- {label}{_line(given[key])}"


def _action(action: Action[..., Any]) -> Iterator[str]:
    yield f"### {action.title}\n"
    yield f"- Name: `{action.name}`"
    yield f"- Version: {action.version}"
    yield f"- Description: {_line(action.description)}"
    yield f"- Side effects: {action.side_effects}"
    yield f"- Idempotency: {action.idempotency}"
    yield f"- Visibility: {action.visibility}"
    yield f"- Permissions: {', '.join(action.permissions) or 'none'}"
    yield f"- Confirmation: {_confirmation(action.requires_confirmation)}"
    yield f"- Surfaces: {', '.join(action.supported_surfaces)}"
    yield from _deprecation(action)
    labels = (("when_to_use", "Best for"), ("when_not_to_use", "Avoid when"), ("usage_notes", "Notes"))
    for key, label in labels:
        if action.docs.get(key):
            yield f"- {label}: {_listed(action.docs[key])}"
    yield ""
    yield from _fenced("Input schema", action.input.json_schema)
    yield from _fenced("Output schema", action.output and action.output.output_json_schema)
    yield from _fenced("Public metadata", action.public_metadata or None)
    yield from _fenced("Example input", action.docs.get("input_example"))
    yield from _fenced("Example output", action.docs.get("output_example"))


def _confirmation(needed: Any) -> str:
    if needed == "token":
        return "a token that is bound to the input"
    return "required" if needed is True else "when the input asks for it" if needed else "not required"


def _deprecation(action: Action[..., Any]) -> Iterator[str]:
    deprecation = action.deprecation
    if deprecation is None:
        return
    told = [
        f"use `{deprecation.replacement}` instead" if deprecation.replacement else None,
        deprecation.message,
    ]
    told += [f"since {deprecation.since}" if deprecation.since else None]
    yield f"- Deprecated: {'; '.join(_line(each) for each in told if each) or 'yes'}"


def _example(example: Any) -> Iterator[str]:
    given = example if isinstance(example, Mapping) else {"title": str(example)}
    yield f"### {_line(given.get('title', 'Example'))}\n"
    if given.get("description"):
        yield f"{_line(given['description'])}\n"
    if given.get("action"):
        yield f"- Action: `{given['action']}`\n"
    if "input" in given:
        yield from _fenced("Input", given["input"])


def _fenced(label: str, content: Any) -> Iterator[str]:
    if content is None:
        return
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # A fence longer than any inside it, so that no content can end it.
    fence = "```"
    while fence in text:
        fence += "`"
    yield f"{label}:\n\n{fence}json\n{text}\n{fence}\n"


def _listed(words: Any) -> str:
    return _line(words) if isinstance(words, str) else "; ".join(_line(each) for each in words)


def _line(words: Any) -> str:
    return " ".join(str(words).split())
