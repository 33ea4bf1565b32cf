"""Pipelines from Python: built with operators, read from a file, and as an action of an app."""

from fairlead import App
from fairlead.pipelines import F, Pipeline, add_pipeline, call_sync
from fairlead.pipelines import building as p

app = App("shop")


@app.action
def price(item: str) -> float:
    """What an item costs."""
    return 10.0 * len(item)


graph = Pipeline(
    "!string -> !string",
    p.map({"item": F.value}) >> p.action("price") >> p.filter(F.value > 20) >> p.map(p.Text("expensive")),
    app=app,
)
assert graph.call_sync("lamp") == "expensive"
assert graph.render("mermaid").startswith("flowchart LR")

order = {"id": 1, "items": ["lamp"], "total": 120.5}
assert call_sync("sizing.plumb", order) == {"id": 1, "total": 120.5, "large": True}

size = add_pipeline(app, "sizing.plumb", "size_order")
assert app.invoke_sync(size, order).data["large"] is True
