"""The small part of Mermaid that the docs use, as the pictures that pipelines are drawn with: what reads Markdown
elsewhere draws it, and a site without scripts of others shows these.

A flowchart has `id[words]`, `a & b --> c`, `a -->|words| b`; a state diagram `a --> b: words` and `[*]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fairlead.pipelines.drawing import svg
from fairlead.pipelines.rendering import Box, Picture, Wire

_NODE = re.compile(r"(\w+)(?:\[\(?([^\])]+)\)?\])?")
_ARROW = re.compile(r"\s*-->(?:\|([^|]+)\|)?\s*")
_CHANGE = re.compile(r"(\w+|\[\*\])\s*-->\s*(\w+|\[\*\])(?::\s*(.+))?")


class Undrawn(ValueError):
    """A line that is beyond the part of Mermaid that is drawn."""


@dataclass
class _Sketch:
    labels: dict[str, str] = field(default_factory=dict)
    wires: list[Wire] = field(default_factory=list)

    def node(self, id: str, label: str | None = None) -> str:
        self.labels[id] = label or self.labels.get(id, id)
        return id

    def picture(self, title: str) -> Picture:
        starts = {wire.source for wire in self.wires} - {wire.target for wire in self.wires}
        kinds = {id: "input" if id in starts else "" for id in self.labels}
        boxes = tuple(Box(id, label, kinds[id], label) for id, label in self.labels.items())
        return Picture(title, boxes, tuple(self.wires))


def drawn(text: str, title: str) -> str:
    """The SVG of a diagram. Raises Undrawn for what is beyond us."""
    head, *lines = (line.strip() for line in text.strip().splitlines())
    sketch = _Sketch()
    read = {"flowchart LR": _flow, "stateDiagram-v2": _state}.get(head)
    if read is None:
        raise Undrawn(head)
    for line in filter(None, lines):
        read(sketch, line)
    return svg(sketch.picture(title))


def _flow(sketch: _Sketch, line: str) -> None:
    parts = _ARROW.split(line)
    groups = [[_named(sketch, word) for word in part.split(" & ")] for part in parts[::2]]
    for sources, label, targets in zip(groups, parts[1::2], groups[1:], strict=False):
        sketch.wires += [Wire(source, target, label or "") for source in sources for target in targets]


def _named(sketch: _Sketch, word: str) -> str:
    found = _NODE.fullmatch(word.strip())
    if found is None:
        raise Undrawn(word)
    return sketch.node(found[1], found[2])


def _state(sketch: _Sketch, line: str) -> None:
    found = _CHANGE.fullmatch(line)
    if found is None:
        raise Undrawn(line)
    source = sketch.node("begin", "●") if found[1] == "[*]" else sketch.node(found[1])
    target = sketch.node("end", "◉") if found[2] == "[*]" else sketch.node(found[2])
    sketch.wires.append(Wire(source, target, found[3] or ""))
