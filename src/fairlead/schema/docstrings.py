"""What a docstring says about each parameter: Google and Sphinx styles, best effort."""

from __future__ import annotations

import re

_SECTION = r"^(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments):\s*$"
_GOOGLE = r"^(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$"
_SPHINX = r"^:(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)$"


def parameters(docstring: str | None) -> dict[str, str]:
    """Description by parameter name."""
    if not docstring or ":" not in docstring:
        return {}
    from inspect import cleandoc

    lines = cleandoc(docstring).splitlines()
    return {**_google(lines), **_sphinx(lines)}


def _google(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    inside = False
    margin = 0
    current: list[str] | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if not indent and line.strip():
            inside, margin, current = bool(re.match(_SECTION, line)), 0, None
            continue
        if not inside or not line.strip():
            continue
        margin = margin or indent
        entry = re.match(_GOOGLE, line.strip()) if indent == margin else None
        if entry:
            current = found.setdefault(entry[1].lstrip("*"), [entry[2]])
        elif current is not None:
            current.append(line.strip())
    return {name: text for name, parts in found.items() if (text := " ".join(parts).strip())}


def _sphinx(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        entry = re.match(_SPHINX, line)
        if entry:
            current = found.setdefault(entry[1], [entry[2]])
        elif not line.strip() or line.startswith(":") or not line.startswith(" "):
            current = None
        elif current is not None:
            current.append(line.strip())
    return {name: text for name, parts in found.items() if (text := " ".join(parts).strip())}
