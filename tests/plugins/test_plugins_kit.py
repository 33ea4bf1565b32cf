"""The kit for authors: a host that is none, and the check whether a plugin keeps the contract."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.failures import Failure
from fairlead.plugins import conformance, kit, slots
from fairlead.plugins.conformance import Report, check
from fairlead.plugins.kit import AGENT, MockHost, open_plugin
from fairlead.plugins.samples import sample
from fairlead.surfaces.cli import Console, main
from plugins.conftest import Compiled
from plugins.native_kit import children, helpers


def statuses(report: Report) -> dict[str, str]:
    return {each.name: each.status for each in report.checks}


def found(report: Report, name: str) -> conformance.Check:
    return next(each for each in report.checks if each.name == name)


# --- a host that is none ---


@pytest.mark.parametrize("in_process", [False, True])
def test_a_plugin_is_tried_without_an_app(toy: Path, in_process: bool) -> None:
    with open_plugin(toy, in_process=in_process) as plugin:
        assert plugin.manifest.plugin_id == "test.toy"
        assert plugin.invoke("tool", "echo", "7") == '{"echo":7}'
        plugin.set("theme", "dark")
        plugin.event("TASK", "completed", {"success": True})
        seen = plugin.invoke("tool", "seen", "")
    assert seen == f'config theme=dark@{AGENT};event4 TASK={{"success": true}}@{AGENT};'


def host_call(plugin: kit.TriedPlugin, slot: int, *args: str | None) -> str:
    return plugin.invoke(
        "tool", "host", "\n".join([str(slot), *("(null)" if each is None else each for each in args)])
    )


def test_what_a_plugin_asks_is_written_down(toy: Path) -> None:
    with open_plugin(toy) as plugin:
        host_call(plugin, slots.CONFIG_SET, "a", "1")
        assert host_call(plugin, slots.CONFIG_GET, "a") == "1"
        host_call(plugin, slots.CONFIG_DELETE, "a")
        assert host_call(plugin, slots.CONFIG_GET, "a") == "NULL"
        host_call(plugin, slots.LOG, "3", "careful")
        host_call(plugin, slots.LOG_STRUCTURED, "9", "odd", '{"n": 1}')
        host = plugin.host
        assert host.config_writes == [("a", "1"), ("a", None)]
        assert [each.args for each in host.asked("config_get")] == [("a",), ("a",)]
        assert {each.agent for each in host.calls[-3:]} == {AGENT}
        logged = [(each.level, each.message, each.payload) for each in host.logs]
        assert logged[-2:] == [("WARN", "careful", None), ("LOG", "odd", {"n": 1})]
        with pytest.raises(KeyError, match="no slot 'config_got'"):
            host.asked("config_got")


def test_the_database_of_the_mock_host_is_real(toy: Path) -> None:
    with open_plugin(toy) as plugin:
        host_call(plugin, slots.DB_EXEC, "CREATE TABLE t (a, b BLOB)", None)
        told = json.loads(host_call(plugin, slots.DB_EXEC, "INSERT INTO t VALUES (:a, x'00ff')", '{":a": 7}'))
        rows = json.loads(host_call(plugin, slots.DB_QUERY, "SELECT * FROM t WHERE a = ?", "[7]"))
        wrong = json.loads(host_call(plugin, slots.DB_QUERY, "SELEKT", None))
    assert told == {"changes": 1, "last_insert_rowid": 1}
    assert rows == {"columns": ["a", "b"], "rows": [{"a": 7, "b": "AP8="}]}
    assert wrong["error"] == "database_error"


def test_without_an_answer_the_mock_host_says_what_a_host_without_anything_says(toy: Path) -> None:
    with open_plugin(toy) as plugin:
        task = json.loads(host_call(plugin, slots.DISPATCH, '{"prompt": "Go.", "title": "T"}'))
        assert task["status"] == "running"
        assert plugin.host.tasks[task["id"]]["prompt"] == "Go."
        assert json.loads(host_call(plugin, slots.TASK_STATUS, task["id"]))["title"] == "T"
        host_call(plugin, slots.DISPATCH_CANCEL, task["id"])
        assert json.loads(host_call(plugin, slots.LIST_ACTIVE_TASKS)) == {"tasks": []}
        codes = {
            slot: json.loads(host_call(plugin, slot, "{}", None))["error"]
            for slot in (slots.TASK_STATUS, slots.HTTP_REQUEST, slots.COMPLETE, slots.EMBED, slots.FILE_READ)
        }
        assert json.loads(host_call(plugin, slots.DISPATCH_ADD_ISSUE, "t", "{}"))["error"] == "not_supported"
        agent = plugin.invoke("tool", "agents", "", agent=None)
    assert agent == "NULL"
    assert codes == {
        slots.TASK_STATUS: "not_found",
        slots.HTTP_REQUEST: "network_error",
        slots.COMPLETE: "context_unavailable",
        slots.EMBED: "context_unavailable",
        slots.FILE_READ: "context_unavailable",
    }


def test_answers_are_values_or_functions_of_the_request(toy: Path) -> None:
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request)
        return {"status": 204}

    host = MockHost(
        answers={"http_request": answer, "list_models": "raw", "complete_stream": {"done": True}},
        chunks=[{"n": 1}, "two"],
        config={"two": "of two"},
    )
    with open_plugin(toy, host) as plugin:
        assert host_call(plugin, slots.HTTP_REQUEST, '{"url":"u"}') == '{"status": 204}'
        assert host_call(plugin, slots.LIST_MODELS) == "raw"
        assert plugin.invoke("tool", "stream_calls_back", "{}") == '{"n": 1}|NULLtwo|of two={"done": true}'
    assert asked == [{"url": "u"}]
    assert host.asked("http_request")[0].request == {"url": "u"}


def test_a_route_that_the_plugin_does_not_have_is_named(toy: Path) -> None:
    with open_plugin(toy) as plugin, pytest.raises(Failure, match="no route 'health'; it has: none"):
        plugin.route("health")


def test_a_plugin_that_falls_while_it_is_tried_is_a_failure(compiled: Compiled) -> None:
    before = helpers()
    with pytest.raises(Failure, match="terminated"), open_plugin(compiled("flawed", "-DFALLS_IN_INIT")):
        pass
    assert not (helpers() & children()) - before


# --- the check ---


def test_a_plugin_without_flaws_passes_every_check(compiled: Compiled) -> None:
    report = check(compiled("flawed"))
    assert set(statuses(report).values()) == {"passed"}, "\n".join(report.lines())
    assert set(statuses(report)) == set(conformance.STEPS) - {"entry_v1"}
    assert (report.id, report.version, report.abi) == ("test.flawed", "1.0.0", 6)


def test_a_plugin_of_the_first_version_passes(compiled: Compiled) -> None:
    report = check(compiled("toy", "-DV1"))
    assert report.ok, "\n".join(report.lines())
    assert report.abi == 1
    assert statuses(report)["probe"] == statuses(report)["routes"] == statuses(report)["events"] == "skipped"


@pytest.mark.parametrize(
    ("flaw", "where", "words"),
    [
        ("LACKS_DESTROY", "load", "destroy"),
        ("LACKS_INVOKE", "load", "invoke"),
        ("FALLS_IN_INIT", "load", "SIGABRT"),
        ("CHANGES_ITS_MIND", "manifest", "another thing each time"),
        ("KEEPS_STRINGS", "manifest", "free_string"),
        ("LACKS_ROUTES", "table", "handle_route is NULL"),
        ("FALLS_AT_THE_PROBE", "probe", "SIGABRT"),
        ("LOSES_AGENTS", "probe", "not given back"),
        ("FALLS_ON_BAD_ARGUMENTS", "tools", "the tool 'work' with []"),
        ("IS_NOT_UTF8", "tools", "not UTF-8"),
        ("TRUSTS_ITS_HOST", "nothing", "SIGSEGV"),
        ("READS_BLINDLY", "odd", "SIGSEGV"),
        ("ANSWERS_NOTHING", "routes", "status"),
        ("FALLS_AT_THE_FUTURE", "events", "the event 99"),
        ("FREES_TWICE", "strings", "had back already"),
        ("FREES_ITS_OWN", "strings", "did not give"),
        ("FALLS_AT_THE_END", "end", "SIGABRT"),
    ],
)
def test_a_flaw_is_found_where_it_is(compiled: Compiled, flaw: str, where: str, words: str) -> None:
    report = check(compiled("flawed", f"-D{flaw}"))
    assert not report.ok
    check_of_it = found(report, where)
    assert check_of_it.status == "failed", "\n".join(report.lines())
    assert words in f"{check_of_it.message} {check_of_it.way_out}"


@pytest.mark.parametrize(
    ("flaw", "where", "words"),
    [
        ("GIVES_NULL", "tools", "NULL came from work"),
        ("GIVES_TEXT", "tools", "no envelope"),
        ("LEAKS", "memory", "work"),
        ("LOSES_STRINGS", "strings", "did not come back"),
    ],
)
def test_what_may_be_meant_is_a_warning(compiled: Compiled, flaw: str, where: str, words: str) -> None:
    report = check(compiled("flawed", f"-D{flaw}"))
    assert report.ok
    assert found(report, where).status == "warned", "\n".join(report.lines())
    assert words in found(report, where).message


def test_a_step_that_brings_it_down_does_not_hide_the_others(compiled: Compiled) -> None:
    report = check(compiled("flawed", "-DFALLS_AT_THE_PROBE", "-DFALLS_AT_THE_FUTURE", "-DIS_NOT_UTF8"))
    failed = [each.name for each in report.checks if each.status == "failed"]
    assert set(failed) == {"probe", "events", "tools", "threads"}
    assert found(report, "end").status == "passed"


def test_a_plugin_that_hangs_is_ended(compiled: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "STALLED", 1.0)
    report = check(compiled("flawed", "-DHANGS"))
    assert "said nothing for 1 seconds" in found(report, "tools").message
    assert "the tool 'work'" in found(report, "tools").message
    assert found(report, "routes").status == "passed"


@pytest.mark.parametrize(("entry", "status"), [("&table", "passed"), ("&half", "failed"), ("NULL", "failed")])
def test_the_entry_for_old_hosts_is_tried_where_there_is_one(
    compiled: Compiled, entry: str, status: str
) -> None:
    report = check(compiled("flawed", f"-DFIRST_ENTRY={entry}"))
    assert found(report, "entry_v1").status == status
    assert statuses(report)["load"] == "passed"


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("not JSON", "JSON"),
        ('{"plugin_id":"test.flawed"}', "capabilities"),
        ('{"plugin_id":"../up","capabilities":{}}', "id"),
        (
            '{"plugin_id":"a.b","capabilities":{"tools":[{"id":"x","description":"X."},{"id":"x","description":"X."}]}}',
            "x",
        ),
        ('{"plugin_id":"a.b","capabilities":{},"min_osaurus":"99.0.0"}', "99.0.0"),
    ],
)
def test_the_rules_of_the_manifest_are_checked(compiled: Compiled, manifest: str, words: str) -> None:
    report = check(compiled("flawed", f"-DMANIFEST={json.dumps(manifest)}"))
    assert found(report, "rules").status == "failed"
    assert words in found(report, "rules").message


def test_what_is_no_plugin_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="There is no file or folder"):
        check(tmp_path / "nothing.so")
    (tmp_path / "a.so").write_bytes(b"no library")
    with pytest.raises(Failure, match="not a library of Linux"):
        check(tmp_path / "a.so")


def test_the_library_is_tried_within_its_fence(compiled: Compiled, tmp_path: Path) -> None:
    """It falls where it can read what is none of its business."""
    private = tmp_path / "private"
    private.write_text("secret")
    report = check(compiled("flawed", f"-DREADS={json.dumps(str(private))}"))
    assert report.ok, "\n".join(report.lines())


def test_nothing_is_left_of_a_trial(
    compiled: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    library = compiled("flawed", "-DFALLS_AT_THE_PROBE")
    before = children()
    check(library)
    assert list(tmp_path.iterdir()) == []
    assert children() <= before


def test_a_plugin_in_python_is_checked_as_one_in_c_is(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text("1 / 0")
    report = check(plugin)
    assert found(report, "load").status == "failed"
    assert "plugin.py fails in line 1: ZeroDivisionError" in found(report, "load").message
    plugin.write_text(
        "import os\n"
        "from fairlead.plugins.sdk import Plugin\n"
        "plugin = Plugin('test.py', version='1.0.0')\n"
        "@plugin.tool\n"
        "def leave(): 'Leave.'; os._exit(3)\n"
    )
    report = check(tmp_path)
    assert "The process ended with 3. It was doing: the tool 'leave'" in found(report, "tools").message


def run(*words: str) -> tuple[int, str]:
    out = io.StringIO()
    with pytest.raises(SystemExit) as exit:
        main(words, console=Console(io.StringIO(), out, io.StringIO(), {"NO_COLOR": "1"}))
    assert isinstance(exit.value.code, int)
    return exit.value.code, out.getvalue()


def test_the_command_says_it_in_json_and_by_its_exit_code(compiled: Compiled) -> None:
    code, out = run("plugin", "test", str(compiled("flawed")), "--json")
    assert code == 0
    assert json.loads(out)["ok"] is True
    code, out = run("plugin", "test", str(compiled("flawed", "-DFALLS_AT_THE_PROBE")), "--json")
    told = json.loads(out)
    assert code == 1
    assert told["ok"] is False
    assert {"name", "status", "message", "wayOut"} == set(told["checks"][0])


@pytest.mark.parametrize(
    ("schema", "least", "most"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {}, {"a": "x"}),
        (
            {"type": "object", "properties": {"a": {"enum": ["p", "q"]}}, "required": ["a"]},
            {"a": "p"},
            {"a": "p"},
        ),
        ({"type": "array", "items": {"type": "integer", "minimum": 3}}, [], [3]),
        ({"type": ["null", "boolean"]}, True, True),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, 1.5, 1.5),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string", "minLength": 3}},
                "required": ["a", "b"],
            },
            {"a": "xxx"},
            {"a": "xxx"},
        ),
        (True, None, None),
    ],
)
def test_arguments_are_made_from_a_schema(schema: Any, least: Any, most: Any) -> None:
    assert sample(schema) == least
    assert sample(schema, full=True) == most
