"""langchain-core: a structured tool made from a coroutine function, invoked with a dict."""

from typing import Any

from langchain_core.tools import tool

from task import Call


def make_call(function: Any) -> Call:
    return tool(function).ainvoke
