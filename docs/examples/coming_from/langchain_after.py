"""The same as an action, given back to LangChain as a tool; and a tool that stays where it is."""

import asyncio
import json

from langchain_core.tools import tool

from fairlead import App

app = App("shop", description="Sell things.")


@app.action
def price(item: str, count: int = 1) -> int:
    """Tell the price."""
    return 3 * count


@tool
def weigh(item: str) -> int:
    """Tell the weight, in kilograms."""
    return len(item)


# A tool that has to stay a LangChain tool is an action, too: its function is what counts.
app.add(weigh.func, name=weigh.name, description=weigh.description)


async def main() -> None:
    tools = {each.name: each for each in app.tools().langchain()}
    assert json.loads(await tools["price"].ainvoke({"item": "rope", "count": 2}))["result"] == 6
    assert (await app.invoke("weigh", {"item": "rope"})).data == 4


if __name__ == "__main__":
    asyncio.run(main())
