"""Which plumbs are total: exactly one message out for each that goes in. Only those can be tools."""

from __future__ import annotations

from fairlead.pipelines.program import Graph, Node


def total(graph: Graph) -> bool:
    """Whether each message that goes in makes exactly one come out."""
    incoming: dict[int, dict[str, list[Node | None]]] = {}
    leaving: dict[int, list[Node]] = {}
    waiting = dict.fromkeys((each.number for each in graph.nodes), 0)
    for edge in graph.edges:
        taking, giving = edge.target.process, edge.source.process
        if taking is not None and any(each.name == edge.into for each in taking.side_inputs):
            continue  # what steers a process is no message that it answers
        beside = giving is not None and any(each.name == edge.out for each in giving.side_outputs)
        source = None if beside else edge.source
        incoming.setdefault(edge.target.number, {}).setdefault(edge.into, []).append(source)
        leaving.setdefault(edge.source.number, []).append(edge.target)
        waiting[edge.target.number] += 1
    counts: dict[int, int | None] = {}
    ready = [each for each in graph.nodes if waiting[each.number] == 0]
    while ready:
        node = ready.pop()
        counts[node.number] = _count(node, incoming.get(node.number, {}), counts)
        for target in leaving.get(node.number, ()):
            waiting[target.number] -= 1
            if waiting[target.number] == 0:
                ready.append(target)
    outputs = graph.of("output")
    return len(outputs) == 1 and counts.get(outputs[0].number) == 1


def _sum(nodes: list[Node | None], counts: dict[int, int | None]) -> int | None:
    """None among the nodes is a side port, which gives any number of messages."""
    total = 0
    for node in nodes:
        number = None if node is None else counts.get(node.number)
        if number is None:
            return None
        total += number
    return total


def _count(node: Node, incoming: dict[str, list[Node | None]], counts: dict[int, int | None]) -> int | None:
    """How many messages come out for one that goes into the plumb; None where it cannot be known."""
    if node.kind == "input":
        return 1
    if node.kind in ("discard", "empty"):
        return 0
    if node.kind == "session":
        return None
    sides = [_sum(nodes, counts) for nodes in incoming.values()]
    if node.kind == "barrier":
        return 1 if len(sides) > 1 and all(each == 1 for each in sides) else None
    ways = ("project", "channel", "merge", "output")
    if node.kind not in ways and (node.process is None or not node.process.total):
        return None
    return None if any(each is None for each in sides) else sum(each or 0 for each in sides)
