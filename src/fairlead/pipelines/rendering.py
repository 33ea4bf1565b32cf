"""A program as a picture: what is drawn, and the pictures that are text (DOT, Mermaid, JSON). SVG is in `drawing`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fairlead import _json
from fairlead.pipelines.program import Graph, Process
from fairlead.pipelines.types import shown

#: Types on wires are cut after so many characters.
LONGEST: Final = 36


@dataclass(frozen=True, slots=True)
class Box:
    """A node of the picture."""

    id: str
    label: str
    kind: str
    #: What is told when one points at it.
    note: str


@dataclass(frozen=True, slots=True)
class Wire:
    """An edge of the picture, with the type of what flows."""

    source: str
    target: str
    type: str
    #: The ports where they are not the usual ones.
    out: str = ""
    into: str = ""

    @property
    def label(self) -> str:
        """The type, and the ports that have to be named."""
        ports = "".join((f"@{self.out} " if self.out else "", f"→@{self.into} " if self.into else ""))
        return f"{ports}!{self.type}"


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn."""

    title: str
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]


def picture(process: Process) -> Picture:
    """The picture of a process: its inside, or itself between its ports."""
    title = f"{process.name} : {process.signature()}"
    if process.graph is None:
        return _alone(title, process)
    return _inside(title, process.graph)


def _alone(title: str, process: Process) -> Picture:
    boxes = [Box("n0", process.name, process.kind, process.signature())]
    wires = []
    for index, port in enumerate(process.inputs):
        boxes.append(Box(f"i{index}", port.name, "input", ""))
        wires.append(Wire(f"i{index}", "n0", shown(port.type, inside=True, limit=LONGEST)))
    for index, port in enumerate(process.outputs):
        boxes.append(Box(f"o{index}", port.name, "output", ""))
        wires.append(Wire("n0", f"o{index}", shown(port.type, inside=True, limit=LONGEST)))
    return Picture(title, tuple(boxes), tuple(wires))


def _inside(title: str, graph: Graph) -> Picture:
    boxes = []
    for node in graph.nodes:
        label = node.label
        if node.process is not None and node.process.kind in ("map", "filter") and not label.startswith("."):
            written = node.process.source.text[node.at : node.at + 60].partition("\n")[0]
            label = _call(written) if written.startswith(node.process.kind) else label
        note = node.process.signature() if node.process is not None else shown(node.type) if node.type else ""
        boxes.append(Box(f"n{node.number}", label, node.kind, note))
    usual = {"input", "output"}
    wires = []
    for edge in graph.edges:
        inputs = [each.name for each in edge.target.process.inputs] if edge.target.process else []
        outputs = [each.name for each in edge.source.process.outputs] if edge.source.process else []
        out = "" if edge.out in usual or edge.out in outputs else edge.out
        into = "" if edge.into in usual or edge.into in inputs else edge.into
        type = shown(edge.type, inside=True, limit=LONGEST)
        wires.append(Wire(f"n{edge.source.number}", f"n{edge.target.number}", type, out, into))
    return Picture(title, tuple(boxes), tuple(wires))


def _call(text: str) -> str:
    """A call as far as its brackets go."""
    depth = 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == ")" and depth == 0:
            text = text[: index + 1]
            break
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def dot(made: Picture) -> str:
    """The picture for Graphviz."""
    shapes = {"input": "circle", "output": "doublecircle", "agent": "component", "filter": "invtrapezium"}
    lines = [
        "digraph pipeline {",
        "  rankdir=LR;",
        f"  label={_json.dumps(made.title)};",
        "  node [shape=box];",
    ]
    for box in made.boxes:
        shape = shapes.get(box.kind, "box")
        label, note = _json.dumps(box.label), _json.dumps(box.note)
        lines.append(f"  {box.id} [label={label}, shape={shape}, tooltip={note}];")
    for wire in made.wires:
        lines.append(f"  {wire.source} -> {wire.target} [label={_json.dumps(wire.label)}];")
    return "\n".join([*lines, "}", ""])


def mermaid(made: Picture) -> str:
    """The picture for Mermaid."""
    shapes = {"input": ("([", "])"), "output": ("([", "])"), "agent": ("[[", "]]"), "filter": ("{{", "}}")}
    lines = ["flowchart LR"]
    for box in made.boxes:
        before, after = shapes.get(box.kind, ("[", "]"))
        lines.append(f'  {box.id}{before}"{_entities(box.label)}"{after}')
    for wire in made.wires:
        lines.append(f'  {wire.source} -->|"{_entities(wire.label)}"| {wire.target}')
    return "\n".join([*lines, ""])


def _entities(text: str) -> str:
    return "".join(char if char.isalnum() or char in " .,:_-()=+*/@!?" else f"#{ord(char)};" for char in text)


def data(made: Picture) -> dict[str, Any]:
    """The picture as data."""
    boxes = [{"id": box.id, "label": box.label, "kind": box.kind, "note": box.note} for box in made.boxes]
    wires = [
        {"source": wire.source, "target": wire.target, "type": wire.type, "out": wire.out, "into": wire.into}
        for wire in made.wires
    ]
    return {"title": made.title, "nodes": boxes, "wires": wires}


def _svg(made: Picture) -> str:
    from fairlead.pipelines.drawing import svg

    return svg(made)


FORMATS: Final[dict[str, Callable[[Picture], str]]] = {
    "svg": _svg,
    "dot": dot,
    "mermaid": mermaid,
    "json": lambda made: _json.dumps(data(made), indent=True) + "\n",
}


def render(process: Process, format: str = "svg") -> str:
    """A process as a picture in one of the formats."""
    return FORMATS[format](picture(process))
