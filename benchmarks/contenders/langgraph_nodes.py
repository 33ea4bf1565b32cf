"""LangGraph: the same messages through the same number of nodes; each message is one run of the graph."""

from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

from task import Batch


class Order(TypedDict):
    n: int
    text: str


def pair() -> Batch:
    graph = StateGraph(Order)
    graph.add_node("double", lambda order: {"n": order["n"] * 2})
    graph.add_node("keep", lambda order: {})
    graph.add_edge(START, "double")
    graph.add_conditional_edges(
        "double", lambda order: "keep" if order["n"] >= 0 else END, {"keep": "keep", END: END}
    )
    graph.add_edge("keep", END)
    return _batch(graph.compile())


def chain() -> Batch:
    graph = StateGraph(Order)
    names = [f"node{number}" for number in range(100)]
    for name in names:
        graph.add_node(name, lambda order: {"n": order["n"] + 1})
    for one, other in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(one, other)
    return _batch(graph.compile())


def _batch(compiled: Any) -> Batch:
    async def batch(messages: int) -> None:
        for number in range(messages):
            await compiled.ainvoke({"n": number, "text": "x"}, {"recursion_limit": 200})

    return batch
