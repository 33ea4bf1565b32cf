"""Values of plugins that a person sets: for an agent, by the command line, checked, never shown."""

from __future__ import annotations

import asyncio
import io
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.agents import Agent
from fairlead.failures import Failure
from fairlead.plugins.config import Config
from fairlead.plugins.fields import checked, field_named, fields_of
from fairlead.plugins.identity import DEFAULT_AGENT, agent_uuid
from fairlead.plugins.manifest import Field, Manifest, decode
from fairlead.plugins.services import Shared
from fairlead.surfaces.cli import Console, run
from plugins.installed_kit import install_from

PLUGIN = """
from fairlead.plugins.sdk import Plugin
plugin = Plugin("test.set", version="1.0.0")
plugin.setting("size", "number", label="Size", default=3, validation={"min": 1, "max": 5})
plugin.setting("theme", "select", label="Theme", options=["dark", "light"])
plugin.secret("key", "Key")
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "plugin.py").write_text(PLUGIN)
    install_from(folder)
    return fresh(tmp_path)


def fresh(tmp_path: Path, *more: str) -> App:
    app = App("demo", store=f"sqlite:///{tmp_path}/store.db")
    for name in ("ann", *more):
        app.add(Agent(name, description=f"{name}.", instructions="Help."))
    return app


def config(app: App, *words: str, stdin: str = "") -> tuple[int, Any, str]:
    console = Console(io.StringIO(stdin), io.StringIO(), io.StringIO(), {"NO_COLOR": "1"})
    with pytest.raises(SystemExit) as exit:
        partial(run, app, ("plugin", "config", *words), console=console)()
    assert isinstance(console.stdout, io.StringIO)
    assert isinstance(console.stderr, io.StringIO)
    assert isinstance(exit.value.code, int)
    out = console.stdout.getvalue()
    return exit.value.code, json.loads(out) if out else None, " ".join(console.stderr.getvalue().split())


def kept(tmp_path: Path, agent: str) -> dict[str, str]:
    app = fresh(tmp_path)
    shared = Shared.of(app)
    found = asyncio.run(Config("test.set", app.store, shared.secrets, shared.warnings).values(agent))
    app.close()
    return found


def test_a_value_is_set_and_forgotten_for_an_agent_and_never_shown(app: App, tmp_path: Path) -> None:
    code, told, said = config(app, "test.set", "--set", "key", stdin="s3cret\n")
    assert (code, told["agent"], told["set"]) == (0, "ann", "key")
    assert kept(tmp_path, agent_uuid("demo", "ann")) == {"key": "s3cret"}
    code, listed, _ = config(fresh(tmp_path), "test.set")
    assert {each["key"]: each["state"] for each in listed["settings"]} == {
        "size": "default",
        "theme": "not set",
        "key": "set",
    }
    assert "s3cret" not in json.dumps([told, listed, said])
    config(fresh(tmp_path), "test.set", "--unset", "key")
    assert kept(tmp_path, agent_uuid("demo", "ann")) == {}
    _, listed, _ = config(fresh(tmp_path), "test.set")
    assert listed["settings"][-1]["state"] == "missing"


def test_which_agent_is_meant_has_to_be_said_where_there_are_several(app: App, tmp_path: Path) -> None:
    code, _, said = config(fresh(tmp_path, "bob"), "test.set", "--set", "theme", stdin="dark")
    assert code == 2
    assert "ann, bob, or default" in said
    config(fresh(tmp_path, "bob"), "test.set", "--agent", "bob", "--set", "theme", stdin="dark")
    config(fresh(tmp_path, "bob"), "test.set", "--agent", "default", "--set", "theme", stdin="light")
    assert kept(tmp_path, agent_uuid("demo", "bob")) == {"theme": "dark"}
    assert kept(tmp_path, DEFAULT_AGENT) == {"theme": "light"}
    _, _, said = config(fresh(tmp_path, "bob"), "test.set", "--agent", "bib")
    assert re.search("no agent 'bib'.*bob", said)


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("--set", "them"), "dark", "has no setting 'them'; it has: size, theme, key"),
        (("--set", "theme"), "pink", "expected one of dark, light"),
        (("--set", "size"), "9", "expected at most 5"),
        (("--set", "key"), "", "No value came on stdin"),
        (("--set", "key", "--unset", "key"), "x", "not both"),
    ],
)
def test_what_cannot_be_set_is_refused_with_a_way_out(
    app: App, words: tuple[str, ...], stdin: str, said: str
) -> None:
    code, told, err = config(app, "test.set", *words, stdin=stdin)
    assert code != 0
    assert told is None
    assert said in err


def field(type: str, **more: Any) -> Field:
    fields = [{"key": "k", "type": type, "label": "L", **more}]
    told = {"plugin_id": "a.b", "capabilities": {"config": {"sections": [{"title": "T", "fields": fields}]}}}
    return field_named(decode(json.dumps(told)), "k")


OPTIONS = [{"value": "a", "label": "A"}, {"value": "b", "label": "B"}]


@pytest.mark.parametrize(
    ("wanted", "value", "kept"),
    [
        (field("text"), "", ""),
        (field("toggle"), "TRUE", "true"),
        (field("number", validation={"min": 1}), "1.0", "1.0"),
        (field("select", options=OPTIONS), "b", "b"),
        (field("select"), "anything", "anything"),
        (field("multiselect", options=OPTIONS), '["a"]', '["a"]'),
        (field("text", validation={"pattern": "^x", "min_length": 2, "max_length": 3}), "xyz", "xyz"),
        (field("text", validation={"pattern": "("}), "any", "any"),
    ],
)
def test_a_value_that_fits_its_field_is_kept(wanted: Field, value: str, kept: str) -> None:
    assert checked(wanted, value) == kept


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        (field("readonly"), "x"),
        (field("status"), "x"),
        (field("toggle"), "yes"),
        (field("number"), "many"),
        (field("number"), "nan"),
        (field("number", validation={"min": 1}), "0"),
        (field("select", options=OPTIONS), "c"),
        (field("multiselect", options=OPTIONS), '["c"]'),
        (field("multiselect"), "a"),
        (field("text", validation={"required": True}), ""),
        (field("text", validation={"min_length": 2}), "x"),
        (field("text", validation={"max_length": 1}), "xy"),
        (field("secret", validation={"pattern": "^sk-", "pattern_hint": "Keys begin with sk-"}), "pk-1"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_without_repeating_it(wanted: Field, value: str) -> None:
    with pytest.raises(Failure) as refused:
        checked(wanted, value)
    assert refused.value.field == "k"
    if wanted.type == "secret":
        assert value not in refused.value.message


def test_secrets_can_be_set_as_fields_can() -> None:
    told = {"plugin_id": "a.b", "capabilities": {}, "secrets": [{"id": "s", "label": "S", "required": True}]}
    manifest: Manifest = decode(json.dumps(told))
    assert [(each.key, each.type) for each in fields_of(manifest)] == [("s", "secret")]
