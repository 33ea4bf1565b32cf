"""A plugin is tried without an app: the kit stands for the host, and writes down what it is asked."""

from pathlib import Path

import pytest

from fairlead.failures import Failure
from fairlead.plugins.conformance import check
from fairlead.plugins.kit import MockHost, open_plugin

NOTES = Path(__file__).parents[2] / "examples" / "plugins" / "notes_py"


def test_a_note_is_kept_and_found() -> None:
    with open_plugin(NOTES) as plugin:
        plugin.tool("add_py_note", {"title": "Tide", "body": "High at six."})
        assert plugin.tool("list_py_notes", {"words": "six"})[0]["title"] == "Tide"
        assert plugin.route("read_note", params={"title": "Tide"})["body"] == "High at six."
        assert plugin.host.logs[-1].message == "A note was kept."


def test_a_note_without_a_title_is_refused() -> None:
    with open_plugin(NOTES) as plugin, pytest.raises(Failure, match="needs a title"):
        plugin.tool("add_py_note", {"title": " ", "body": "High at six."})


def test_what_the_host_answers_is_up_to_the_test() -> None:
    full = {"error": "database_error", "message": "database or disk is full"}
    host = MockHost(answers={"db_exec": full})
    with open_plugin(NOTES, host) as plugin, pytest.raises(Failure, match="full"):
        plugin.tool("add_py_note", {"title": "Tide", "body": "High at six."})
    assert host.asked("db_exec")[0].args[0].startswith("CREATE TABLE")


def test_the_contract_is_kept() -> None:
    report = check(NOTES)
    assert report.ok, "\n".join(report.lines())
