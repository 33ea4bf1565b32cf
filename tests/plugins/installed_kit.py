"""Plugins that are compiled and installed for a test, and what they said to their host."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from fairlead import App
from fairlead.plugins.installing import install, prepared
from fairlead.plugins.layout import Layout
from fairlead.plugins.receipts import Receipt
from fairlead.plugins.services import Shared
from plugins.native_kit import SOURCES, compile_c, helpers

ID = "test.loader"


def manifest(**more: Any) -> dict[str, Any]:
    """The manifest of the plugin under test; tools by their ids."""
    tools = [
        {"id": tool, "description": f"Tool {tool}.", "permission_policy": "auto"}
        for tool in more.pop("tools", ())
    ]
    capabilities = {"tools": tools, **more.pop("capabilities", {})}
    return {"plugin_id": ID, "version": "1.0.0", "capabilities": capabilities, **more}


def macro(name: str, value: Any) -> str:
    """JSON as a C string, in a macro."""
    return f"-D{name}={json.dumps(json.dumps(value))}"


def compiled_loader(folder: Path, *options: str, **more: Any) -> Path:
    """The library of `loader.c` in a folder, with a manifest and macros."""
    folder.mkdir(parents=True, exist_ok=True)
    return compile_c(
        SOURCES / "loader.c", folder / "loader.so", macro("MANIFEST", manifest(**more)), *options
    )


def install_from(source: Path, layout: Layout | None = None, **options: Any) -> Receipt:
    """Install a plugin as a person does who agrees."""
    with prepared(source, layout or Layout.of(), **options) as draft:
        return install(draft)


async def said(app: App, id: str = ID) -> list[str]:
    """What the plugin logged, the oldest first."""
    from fairlead.plugins.logs import Wanted

    insights = Shared.of(app).insights
    await asyncio.to_thread(insights.flush)
    lines = await insights.page(Wanted(plugin=id), most=1000)
    return [line.message for line in reversed(lines) if line.method == "LOG"]


def own_helpers() -> set[int]:
    """The processes of plugins that this process is the host of."""
    found = set()
    for pid in helpers():
        try:
            about = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(about[1]) == os.getpid():
            found.add(pid)
    return found
