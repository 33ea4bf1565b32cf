"""The app's guide as a static site: one page, one stylesheet, one small script for the search box.

It needs no network and no build. Everything an app says is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.runtime import App


def site(app: App, **exposure: Any) -> dict[str, str]:
    """The site's files by name."""
    actions = app.action_manifest(**exposure)
    return {"index.html": "\n".join(_page(app, actions)) + "\n", "style.css": _STYLE, "search.js": _SEARCH}


def _page(app: App, actions: list[dict[str, Any]]) -> Iterator[str]:
    name = escape(app.name)
    yield f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{name}</title>
<link rel="stylesheet" href="style.css">
<script src="search.js" defer></script>
</head>
<body>
<nav aria-label="Actions">
<h1><a href="#top">{name}</a></h1>
<input type="search" id="search" placeholder="Search actions" aria-label="Search actions">
<ul>"""
    for action in actions:
        effects = escape(action["sideEffects"])
        link = f'<a href="#{_anchor(action)}">{escape(action["name"])}</a>'
        yield f'<li data-action>{link} <i class="{effects}">{effects}</i></li>'
    yield """</ul>
</nav>
<main id="top">"""
    yield from _overview(app)
    for action in actions:
        yield from _action(action)
    yield """</main>
</body>
</html>"""


def _overview(app: App) -> Iterator[str]:
    yield f"<header><h2>{escape(app.name)}</h2>"
    summary = app.docs.get("summary") or app.description
    if summary:
        yield f"<p>{escape(summary)}</p>"
    for heading, key in (
        ("Who it is for", "audience"),
        ("When to use it", "when_to_use"),
        ("Setting up", "setup"),
    ):
        yield from _words(heading, app.docs.get(key))
    yield from _words("How to use it", app.docs.get("quick_start"))
    yield from _words("Good to know", app.docs.get("operational_notes"))
    if app.attribution.get("text"):
        yield f"<p><small>{escape(app.attribution['text'])}</small></p>"
    yield "</header>"


def _words(heading: str, words: Any) -> Iterator[str]:
    if not words:
        return
    listed = [words] if isinstance(words, str) else list(words)
    items = "".join(f"<li>{escape(str(each))}</li>" for each in listed)
    yield f"<h3>{heading}</h3>" + (
        f"<p>{escape(words)}</p>" if isinstance(words, str) else f"<ul>{items}</ul>"
    )


def _action(action: Mapping[str, Any]) -> Iterator[str]:
    yield f'<section id="{_anchor(action)}" data-action>'
    yield f"<h2>{escape(action['title'])} <code>{escape(action['name'])}</code></h2>"
    yield f'<p>{escape(action["description"])}</p><p class="pills">'
    for pill in _pills(action):
        yield f"<span>{escape(pill)}</span>"
    yield "</p>"
    docs = action["docs"]
    for heading, key in (("Best for", "whenToUse"), ("Avoid when", "whenNotToUse"), ("Notes", "usageNotes")):
        yield from _words(heading, docs.get(key))
    yield from _fields(action["inputSchema"])
    examples = (("Example input", docs.get("inputExample")), ("Example output", docs.get("outputExample")))
    for heading, example in examples:
        if example is not None:
            yield f"<h3>{heading}</h3><pre>{_json(example)}</pre>"
    shapes = (("Input schema", action["inputSchema"]), ("Output schema", action["outputSchema"]))
    for heading, shape in shapes:
        if shape is not None:
            yield f"<details><summary>{heading}</summary><pre>{_json(shape)}</pre></details>"
    yield "</section>"


def _pills(action: Mapping[str, Any]) -> Iterator[str]:
    yield f"version {action['version']}"
    yield action["sideEffects"]
    yield str(action["idempotency"]).replace("_", "-")
    if action["requiresConfirmation"]:
        yield "needs confirmation"
    yield from (f"needs {permission}" for permission in action["permissions"])
    if action["deprecated"]:
        instead = (action["deprecation"] or {}).get("replacement")
        yield f"deprecated, use {instead}" if instead else "deprecated"


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    members = schema.get("properties", {})
    if not members:
        return
    yield "<h3>Input</h3><table><thead><tr><th>field</th><th>type</th><th>what it is</th></tr></thead><tbody>"
    required = set(schema.get("required", ()))
    for name, member in members.items():
        need = "" if name in required else " <i>optional</i>"
        about = member.get("description", "") if isinstance(member, Mapping) else ""
        cells = (f"<code>{escape(name)}</code>{need}", escape(_type(member)), escape(about))
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table>"


def _type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(_type(each) for each in schema[key])
    named = schema.get("type", "any")
    text = named if isinstance(named, str) else " | ".join(named)
    if text == "array":
        return f"array of {_type(schema.get('items', {}))}"
    return f"{text} ({schema['format']})" if "format" in schema else text


def _json(value: Any) -> str:
    return escape(json.dumps(value, indent=2, ensure_ascii=False))


def _anchor(action: Mapping[str, Any]) -> str:
    return f"action-{escape(action['name'])}"


_STYLE = """:root { --ink: #1b2430; --faint: #5c6b7a; --paper: #fff; --edge: #d9e0e7; --soft: #f4f7fa;
  --sea: #0b6e8f; --red: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4eaf0; --faint: #9aa8b5; --paper: #12181f; --edge: #2a3540; --soft: #1a222b;
    --sea: #5cc3e0; --red: #ff8a80; }
}
* { box-sizing: border-box; }
body { margin: 0; display: grid; grid-template-columns: 17rem 1fr; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, sans-serif; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1.25rem; border-right: 1px solid var(--edge);
  background: var(--soft); }
nav h1 { font-size: 1.2rem; margin: 0 0 1rem; }
nav ul { list-style: none; margin: 1rem 0 0; padding: 0; }
nav li { padding: .2rem 0; overflow-wrap: anywhere; }
a { color: var(--sea); text-decoration: none; }
a:hover { text-decoration: underline; }
:focus-visible { outline: 2px solid var(--sea); outline-offset: 2px; }
input { width: 100%; padding: .5rem .7rem; font: inherit; color: inherit; background: var(--paper);
  border: 1px solid var(--edge); border-radius: .5rem; }
i { font-style: normal; font-size: .75rem; color: var(--faint); }
i.destructive { color: var(--red); }
main { padding: 2rem clamp(1rem, 4vw, 4rem); max-width: 60rem; min-width: 0; }
section { border-top: 1px solid var(--edge); padding: 1.5rem 0; scroll-margin-top: 1rem; }
h2 code { font-size: .7em; color: var(--faint); }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { padding: 1rem; overflow: auto; background: var(--soft); border: 1px solid var(--edge); border-radius: .5rem; }
table { width: 100%; border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--edge); }
.pills span { display: inline-block; margin: 0 .4rem .4rem 0; padding: .05rem .6rem; font-size: .8rem;
  border: 1px solid var(--edge); border-radius: 1rem; color: var(--faint); }
[hidden] { display: none; }
@media (max-width: 48rem) {
  body { display: block; }
  nav { position: static; height: auto; max-height: 40vh; border-right: 0; border-bottom: 1px solid var(--edge); }
}
"""

_SEARCH = """const box = document.getElementById("search");
const entries = [...document.querySelectorAll("[data-action]")];
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  for (const entry of entries) {
    const text = entry.textContent.toLowerCase();
    entry.hidden = !words.every((word) => text.includes(word));
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== box) {
    event.preventDefault();
    box.focus();
  }
});
"""
