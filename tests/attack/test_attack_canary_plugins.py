"""The canary in a plugin that is careless with it: values, its database, its log, what it says when it falls."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from attack.canary import CANARY, files_in, leaks
from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.model import Request
from fairlead.agents.models.script import ScriptModel, call
from fairlead.plugins.config import Config
from fairlead.plugins.identity import agent_uuid
from fairlead.plugins.logs import Wanted
from fairlead.plugins.services import Shared
from fairlead.store import Secrets
from plugins.installed_kit import install_from

ID = "test.careless"
WAYS = ("log", "keep", "tell", "raise", "refuse", "say", "fall")
PLUGIN = """
import os, sys
from fairlead.plugins.sdk import Plugin, ToolError, host
plugin = Plugin("test.careless", version="1.0.0")
plugin.secret("key", "Key")

@plugin.tool(policy="auto")
def spill(how: str, api_key: str, _secrets: dict[str, str]) -> str:
    "Do something with a secret that one should not."
    key = _secrets["key"]
    if how == "log":
        host.log(f"password={key} was used", token=key, headers={"authorization": f"Bearer {key}"})
    elif how == "keep":
        host.db.exec("CREATE TABLE IF NOT EXISTS kept (value TEXT)")
        host.db.exec("INSERT INTO kept VALUES (?)", key)
        host.config.set("copy", key)
    elif how == "tell":
        return f"token={key}"
    elif how == "raise":
        raise RuntimeError(f"api_key={key} is wrong")
    elif how == "refuse":
        raise ToolError(f"password={key} is wrong", kind="invalid_args", field="api_key")
    elif how == "say":
        print(f"token={key}", flush=True)
        print(f"It is {key}.", file=sys.stderr, flush=True)
    elif how == "fall":
        print(f"It was {key}.", file=sys.stderr, flush=True)
        os.abort()
    return "done"

@plugin.on_config("key")
def changed(key: str, value: str) -> None:
    host.log(f"secret={value}", key=value)
"""


def script(asked: Request) -> Any:
    """Spill it in the way that the user says."""
    last = asked.messages[-1]
    return "Sorry." if last.role == "tool" else call("spill", how=last.content, api_key=CANARY)


async def spilled(app: App) -> list[str]:
    """What callers are told, and what the host wrote down of the plugin."""
    shared = Shared.of(app)
    config = Config(ID, app.store, shared.secrets, shared.warnings)
    await config.save(agent_uuid("aviary", "ann"), {"key": CANARY})
    told = []
    for how in WAYS:
        told += [repr(event) async for event in app.stream("ann", {"prompt": how})]
        told.append(repr((await app.invoke("spill", {"how": how, "api_key": CANARY})).to_dict()))
    await asyncio.to_thread(shared.insights.flush)
    lines = await shared.insights.page(Wanted(plugin=ID), most=1000)
    assert any(line.method == "LOG" for line in lines)
    told += [json.dumps(line.to_dict()) for line in lines]
    told += [repr(vars(each) if hasattr(each, "__dict__") else each) for each in shared.warnings.all()]
    return told


def test_a_secret_is_found_in_nothing_that_comes_of_a_plugin(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PLUGIN_TOKEN", CANARY)
    project = tmp_path / "project"
    project.mkdir()
    (project / "plugin.py").write_text(PLUGIN)
    install_from(project)
    app = App("aviary", store=f"sqlite:///{tmp_path}/store.db")
    Secrets(app.store).set_now("stripe", CANARY)
    model = ScriptModel(script, record=False)
    app.add(Agent("ann", model=model, instructions="Help.", tools=["spill"]))
    app.add_plugins()
    told = asyncio.run(spilled(app))
    app.close()
    app.store.close()
    out, err = capfd.readouterr()
    places = {f"answer {number}": text for number, text in enumerate(told)}
    places |= {"stdout": out, "stderr": err, "logs": caplog.text, **files_in(tmp_path)}
    assert "printed: 'token=[REDACTED]" in caplog.text
    assert "said before it ended: token=[REDACTED]\nIt is [REDACTED].\nIt was [REDACTED]." in caplog.text
    assert leaks(places) == {}
