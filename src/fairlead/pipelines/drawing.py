"""SVG of a picture: layers from left to right, few crossings, the type on every wire. Loops go back underneath."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from fairlead.pipelines.rendering import Box, Picture, Wire

_CHAR: Final = 7.2
_SMALL: Final = 6.0
_HEIGHT: Final = 36
_ROW: Final = 64
_MARGIN: Final = 24
_TITLE: Final = 36
_SWEEPS: Final = 8
_COLOURS: Final = {
    "input": "#e8f0fe", "output": "#e8f0fe", "agent": "#fde7f3", "action": "#e6f4ea", "exec": "#fff4e5",
    "filter": "#f1f3f4", "map": "#f1f3f4", "plumb": "#ede7f6", "barrier": "#f1f3f4",
}  # fmt: skip


@dataclass(eq=False, slots=True)
class _Place:
    """A box, or a bend of a wire that passes a layer."""

    box: Box | None
    layer: int
    order: float = 0
    x: float = 0
    y: float = 0
    before: list[_Place] = field(default_factory=list)
    after: list[_Place] = field(default_factory=list)

    @property
    def width(self) -> float:
        return 0 if self.box is None else max(48, len(self.box.label) * _CHAR + 24)


def svg(picture: Picture) -> str:
    """The picture as SVG."""
    back = _backward(picture)
    layers = _layers(picture, back)
    places = {box.id: _Place(box, layers[box.id]) for box in picture.boxes}
    columns: list[list[_Place]] = [[] for _ in range(max(layers.values(), default=0) + 1)]
    for place in places.values():
        columns[place.layer].append(place)
    routes: list[tuple[Wire, list[_Place]]] = []
    for index, wire in enumerate(picture.wires):
        if index in back:
            routes.append((wire, [places[wire.source], places[wire.target]]))
        else:
            routes.append((wire, _route(places[wire.source], places[wire.target], columns)))
    _order(columns)
    width, height = _coordinates(columns, picture)
    below = height
    parts = []
    for index, (wire, route) in enumerate(routes):
        if index in back:
            below += 26
            parts.append(_loop(wire, route[0], route[-1], below))
        else:
            parts.append(_wire(wire, route))
    boxes = [_box(place) for place in places.values()]
    size = (
        f'width="{width:.0f}" height="{below + _MARGIN:.0f}" viewBox="0 0 {width:.0f} {below + _MARGIN:.0f}"'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="13">'
        f"<title>{escape(picture.title)}</title>"
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#5f6368"/></marker></defs>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="{_MARGIN}" y="24" font-weight="600">{escape(picture.title)}</text>'
    )
    return "\n".join([head, *parts, *boxes, "</svg>", ""])


def _backward(picture: Picture) -> set[int]:
    """The wires that lead back, so that without them nothing is a loop."""
    leaving: dict[str, list[tuple[int, str]]] = {}
    for index, wire in enumerate(picture.wires):
        leaving.setdefault(wire.source, []).append((index, wire.target))
    state: dict[str, int] = {}
    back: set[int] = set()
    roots = sorted(picture.boxes, key=lambda box: box.kind != "input")
    for root in roots:
        stack = [(root.id, 0)] if root.id not in state else []
        while stack:
            at, next_ = stack.pop()
            state[at] = 1
            outgoing = leaving.get(at, [])
            if next_ >= len(outgoing):
                state[at] = 2
                continue
            stack.append((at, next_ + 1))
            index, target = outgoing[next_]
            if state.get(target) == 1:
                back.add(index)
            elif target not in state:
                stack.append((target, 0))
    return back


def _layers(picture: Picture, back: set[int]) -> dict[str, int]:
    """How far from the beginning each box is; outputs are last."""
    entering: dict[str, int] = {box.id: 0 for box in picture.boxes}
    leaving: dict[str, list[str]] = {}
    for index, wire in enumerate(picture.wires):
        if index not in back:
            entering[wire.target] += 1
            leaving.setdefault(wire.source, []).append(wire.target)
    layers = dict.fromkeys(entering, 0)
    ready = [id for id, count in entering.items() if count == 0]
    while ready:
        at = ready.pop()
        for target in leaving.get(at, []):
            layers[target] = max(layers[target], layers[at] + 1)
            entering[target] -= 1
            if entering[target] == 0:
                ready.append(target)
    last = max(layers.values(), default=0)
    for box in picture.boxes:
        if box.kind == "output":
            layers[box.id] = last
    return layers


def _route(source: _Place, target: _Place, columns: list[list[_Place]]) -> list[_Place]:
    route = [source]
    for layer in range(source.layer + 1, target.layer):
        bend = _Place(None, layer)
        columns[layer].append(bend)
        route.append(bend)
    route.append(target)
    for one, other in pairwise(route):
        one.after.append(other)
        other.before.append(one)
    return route


def _order(columns: list[list[_Place]]) -> None:
    """Order each layer by the middle of its neighbours, back and forth."""
    for column in columns:
        for index, place in enumerate(column):
            place.order = index
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        for column in columns if forth else reversed(columns):
            for place in column:
                near = place.before if forth else place.after
                if near:
                    place.order = sum(each.order for each in near) / len(near)
            column.sort(key=lambda place: place.order)
            for index, place in enumerate(column):
                place.order = index


def _coordinates(columns: list[list[_Place]], picture: Picture) -> tuple[float, float]:
    tallest = max((len(column) for column in columns), default=1)
    longest = max((len(wire.label) for wire in picture.wires), default=0) * _SMALL + 40
    x: float = _MARGIN
    for column in columns:
        width = max((place.width for place in column), default=0)
        top = _TITLE + _MARGIN + (tallest - len(column)) * _ROW / 2
        for index, place in enumerate(column):
            place.x = x + width / 2
            place.y = top + index * _ROW + _HEIGHT / 2
        x += width + longest
    title = len(picture.title) * _CHAR + 2 * _MARGIN
    return max(x - longest + _MARGIN, title), _TITLE + _MARGIN + tallest * _ROW


def _wire(wire: Wire, route: list[_Place]) -> str:
    first, last = route[0], route[-1]
    points = [
        (first.x + first.width / 2, first.y),
        *((each.x, each.y) for each in route[1:-1]),
        (last.x - last.width / 2, last.y),
    ]
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = (x1 + x2) / 2
        path += f" C{middle:.1f},{y1:.1f} {middle:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
    (x1, y1), (x2, y2) = points[0], points[1]
    return _drawn(path, wire) + _label(wire, (x1 + x2) / 2, (y1 + y2) / 2 - 5)


def _loop(wire: Wire, source: _Place, target: _Place, below: float) -> str:
    x1, y1 = source.x + source.width / 2, source.y
    x2, y2 = target.x - target.width / 2, target.y
    right, left = x1 + 26, x2 - 26
    path = f"M{x1:.1f},{y1:.1f} C{right:.1f},{y1:.1f} {right:.1f},{below:.1f} {x1 - 20:.1f},{below:.1f} "
    path += f"L{x2 + 20:.1f},{below:.1f} C{left:.1f},{below:.1f} {left:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
    return _drawn(path, wire) + _label(wire, (x1 + x2) / 2, below - 5)


def _drawn(path: str, wire: Wire) -> str:
    ends = f"data-from={quoteattr(wire.source)} data-to={quoteattr(wire.target)}"
    return (
        f'<path {ends} d="{path}" fill="none" stroke="#5f6368" stroke-width="1.2" marker-end="url(#arrow)"/>'
    )


def _label(wire: Wire, x: float, y: float) -> str:
    halo = 'stroke="#ffffff" stroke-width="3" paint-order="stroke"'
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="10.5" fill="#3c4043" text-anchor="middle" {halo}>'
        f"{escape(wire.label)}</text>"
    )


def _box(place: _Place) -> str:
    box = place.box
    assert box is not None
    x, y = place.x - place.width / 2, place.y - _HEIGHT / 2
    round_ = _HEIGHT / 2 if box.kind in ("input", "output") else 5
    fill = _COLOURS.get(box.kind, "#ffffff")
    return (
        f"<g data-node={quoteattr(box.id)} data-kind={quoteattr(box.kind)}><title>{escape(box.note)}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{place.width:.1f}" height="{_HEIGHT}" rx="{round_:g}" '
        f'fill="{fill}" stroke="#5f6368"/>'
        f'<text x="{place.x:.1f}" y="{place.y + 4.5:.1f}" text-anchor="middle">{escape(box.label)}</text></g>'
    )
