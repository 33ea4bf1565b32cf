"""A tool of LangChain, as it was."""

from langchain_core.tools import tool


@tool
def price(item: str, count: int = 1) -> int:
    """Tell the price."""
    return 3 * count


assert price.invoke({"item": "rope", "count": 2}) == 6
