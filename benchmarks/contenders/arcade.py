"""arcade: a tool of its development kit, from the catalogue through the executor that its worker uses."""

from typing import Any

from arcade_core.catalog import ToolCatalog
from arcade_core.executor import ToolExecutor
from arcade_core.schema import ToolContext
from arcade_tdk import tool

from task import Call


def make_call(function: Any) -> Call:
    catalog = ToolCatalog()
    catalog.add_tool(tool(function), "bench")
    (entry,) = catalog
    parts = (entry.tool, entry.definition, entry.input_model, entry.output_model)

    def call(arguments: dict[str, Any]) -> Any:
        return ToolExecutor.run(*parts, ToolContext(), **arguments)

    return call


def shown(output: Any) -> str:
    """The value only: an error quotes the value it refuses."""
    return repr(output.value)
