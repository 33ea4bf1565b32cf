"""What the loop remembers of calls: outcomes, results given again, failures given again, and nudges."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import _json
from fairlead.agents.loop import paths
from fairlead.agents.loop.state import LISTINGS, Outcome, TaskState, classify
from fairlead.failures import lookup, tool


def file_of(path: str, text: str = "hello") -> str:
    return tool.dumps(tool.success({"kind": "file", "text": text, "path": path}, tool="file_read"))


def listing_of(path: str, names: Sequence[str], *, truncated: bool = False) -> str:
    entries = [{"name": name, "path": f"{path}/{name}", "type": "file"} for name in names]
    told = {"kind": "listing", "path": path, "entries": entries}
    return tool.dumps(tool.success({**told, "entry_count": len(names), "truncated": truncated}))


def failure(kind: str, message: str = "It did not work.") -> str:
    return tool.dumps(tool.render(lookup("tool", kind)(message)))


def call(**arguments: Any) -> str:
    return _json.dumps(arguments)


def listed(
    state: TaskState, path: str, names: Sequence[str] = ("a.txt",), *, truncated: bool = False
) -> None:
    state.record("file_read", call(path=path), listing_of(path, names, truncated=truncated))


EDIT = call(path="f.txt", old_string=" x", new_string="y")
NO_MATCH = failure("invalid_args", "The text was not found in f.txt.")


# Outcomes


def test_a_listing_with_entries_is_populated() -> None:
    assert classify(listing_of(".", ["a.txt", "sub"])) is Outcome.populated_listing


def test_a_listing_without_entries_is_empty() -> None:
    assert classify(listing_of("empty", [])) is Outcome.empty_listing


def test_a_truncated_listing_is_partial() -> None:
    assert classify(listing_of("big", ["a.txt"], truncated=True)) is Outcome.partial_listing


def test_a_file_is_file_content() -> None:
    assert classify(file_of("a.txt")) is Outcome.file_content


def test_a_missing_path_is_not_found() -> None:
    assert classify(failure("not_found")) is Outcome.not_found


@pytest.mark.parametrize("kind", ["invalid_args", "timeout", "execution_error", "rejected", "tool_not_found"])
def test_any_other_failure_is_an_error(kind: str) -> None:
    assert classify(failure(kind)) is Outcome.error


@pytest.mark.parametrize(
    "said", ["[TIMEOUT] too slow", '{"error":"x","retryable":true}', '{"ok":false,"kind":']
)
def test_an_older_or_broken_failure_is_an_error(said: str) -> None:
    assert classify(said) is Outcome.error


@pytest.mark.parametrize("said", [tool.dumps(tool.text("2 matches")), "plain", "", '{"ok":true}', "[1]"])
def test_any_other_result_is_other(said: str) -> None:
    assert classify(said) is Outcome.other


def test_a_search_is_other_and_leaves_the_last_listing_alone() -> None:
    state = TaskState()
    listed(state, "big", truncated=True)
    before, wandering = state.listing, state.wandering
    found = {"kind": "search", "query": "q4", "entries": [{"name": "q4", "path": "q4", "type": "file"}]}
    search = tool.dumps(tool.success({**found, "match_count": 1, "truncated": False}))
    state.record("file_search", call(pattern="q4"), search)
    assert classify(search) is Outcome.other
    assert (state.listing, state.wandering) == (before, wandering)
    state.record("file_read", call(path="big/missing.txt"), failure("not_found"))
    assert "file_search" in (state.nudge() or "")


def test_an_envelope_is_classified_as_data_and_as_text_alike() -> None:
    for said in (listing_of(".", ["a"]), file_of("a"), failure("not_found"), failure("timeout")):
        assert classify(said) is classify(_json.loads(said))


def test_a_result_that_only_speaks_of_listings_is_other() -> None:
    assert (
        classify(tool.dumps(tool.success({"kind": "note", "text": '"listing" and "file"'}))) is Outcome.other
    )


# Paths


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("config.json", "./config.json"),
        ("a/b/", "a/b"),
        ("a//b", "a/b"),
        (" a ", "a"),
        ("a/./b", "a/b"),
        ("a/x/../b", "a/b"),
        ("./", "."),
        ("", "."),
        ("/a/../b", "/b"),
        ("/..", "/"),
        ("~/x/../a/", "~/a"),
        ("~", "~/"),
        ("../a/..", ".."),
    ],
)
def test_a_path_has_one_spelling(one: str, other: str) -> None:
    assert paths.canonical(one) == paths.canonical(other)


@pytest.mark.parametrize(("one", "other"), [("a", "/a"), ("a", "b"), ("../a", "a"), ("~/a", "a"), ("A", "a")])
def test_different_paths_stay_different(one: str, other: str) -> None:
    assert paths.canonical(one) != paths.canonical(other)


@given(st.text(alphabet="ab./", max_size=20))
def test_a_spelling_is_its_own_spelling(path: str) -> None:
    once = paths.canonical(path)
    assert paths.canonical(once) == once
    assert "//" not in once
    assert paths.same(once, once)


@pytest.mark.parametrize(
    ("loose", "same"), [(".env", True), ("b/.env", True), ("../.env", True), ("env", False)]
)
def test_a_short_path_may_be_the_end_of_a_full_one(loose: str, same: bool) -> None:
    assert paths.same("/a/b/.env", loose) is same
    assert paths.same(loose, "/a/b/.env") is same


def test_the_path_of_a_call_is_path_or_else_file_path() -> None:
    assert paths.argument({"path": "./a", "file_path": "b"}) == "a"
    assert paths.argument({"path": " ", "file_path": "b/"}) == "b"
    assert paths.argument({"path": 3}) is None


# Results given again


def test_a_repeated_read_is_given_again() -> None:
    state = TaskState()
    state.record("file_read", call(path="config.json"), file_of("config.json"))
    held = state.held("file_read", call(path="config.json"))
    assert held is not None
    assert (held.envelope, held.notice, held.is_error) == (file_of("config.json"), None, False)


def test_the_order_of_arguments_does_not_matter() -> None:
    state = TaskState()
    state.record("file_read", '{"path":"a.txt","start_line":1}', file_of("a.txt"))
    assert state.held("file_read", '{"start_line": 1, "path": "a.txt"}') is not None


def test_a_read_of_another_path_is_made() -> None:
    state = TaskState()
    state.record("file_read", call(path="a.txt"), file_of("a.txt"))
    assert state.held("file_read", call(path="b.txt")) is None


def test_a_write_is_always_made() -> None:
    state = TaskState()
    state.record("file_write", call(path="a.txt", content="x"), tool.dumps(tool.text("ok")))
    assert state.held("file_write", call(path="a.txt", content="x")) is None


@pytest.mark.parametrize("name", ["file_edit", "file_write", "sandbox_write_file"])
def test_a_write_makes_reads_old_whatever_the_spelling_and_the_links(name: str) -> None:
    state = TaskState()
    state.record("file_read", call(path="config.json"), file_of("config.json", "before"))
    state.record("file_read", call(path="link.json"), file_of("link.json", "before"))
    state.record(name, call(file_path="./x/../config.json"), tool.dumps(tool.text("written")))
    assert state.held("file_read", call(path="config.json")) is None
    assert state.held("file_read", call(path="link.json")) is None


@pytest.mark.parametrize("result", [file_of("a.txt"), failure("not_found")])
def test_what_was_read_beside_a_change_is_not_given_again(result: str) -> None:
    state = TaskState()
    state.record("file_write", call(path="other.txt"), tool.dumps(tool.text("ok")))
    state.record("file_read", call(path="a.txt"), result)
    assert state.held("file_read", call(path="a.txt")) is not None
    state.record("file_read", call(path="a.txt"), result, beside=True)
    assert state.held("file_read", call(path="a.txt")) is None


def test_a_write_makes_every_search_and_listing_old() -> None:
    state = TaskState()
    state.record("file_search", call(pattern="x", path="elsewhere"), tool.dumps(tool.text("none")))
    listed(state, "elsewhere")
    state.record("file_write", call(path="a.txt", content="x"), tool.dumps(tool.text("ok")))
    assert state.held("file_search", call(pattern="x", path="elsewhere")) is None
    assert state.held("file_read", call(path="elsewhere")) is None


def test_a_write_by_the_full_path_makes_reads_by_the_short_one_old() -> None:
    state = TaskState()
    state.record("sandbox_read_file", call(path="src/a.py"), file_of("src/a.py"))
    state.record("sandbox_write_file", call(path="/home/agent/src/a.py"), tool.dumps(tool.text("ok")))
    assert state.held("sandbox_read_file", call(path="src/a.py")) is None


def test_a_write_that_names_no_path_makes_everything_old() -> None:
    state = TaskState()
    state.record("file_read", call(path="a"), file_of("a"))
    state.record("file_write", '{"properties":{"path":"a"}}', tool.dumps(tool.text("ok")))
    assert state.held("file_read", call(path="a")) is None


def test_a_write_that_was_refused_makes_nothing_old() -> None:
    state = TaskState()
    state.record("file_read", call(path="f.txt"), file_of("f.txt"))
    state.record("file_edit", EDIT, NO_MATCH)
    assert state.held("file_read", call(path="f.txt")) is not None
    state.record("file_write", call(path="f.txt"), failure("timeout"))
    assert state.held("file_read", call(path="f.txt")) is None


@pytest.mark.parametrize("name", ["shell_run", "sandbox_exec"])
@pytest.mark.parametrize("result", [tool.dumps(tool.success({"exit_code": 1})), failure("timeout")])
def test_a_command_makes_everything_old_however_it_ends(name: str, result: str) -> None:
    state = TaskState()
    state.record("file_read", call(path="a.txt"), file_of("a.txt"))
    state.record("file_search", call(pattern="x"), tool.dumps(tool.text("none")))
    state.record(name, call(command="make"), result)
    assert state.held("file_read", call(path="a.txt")) is None
    assert state.held("file_search", call(pattern="x")) is None


def test_any_tool_that_declares_effects_makes_everything_old() -> None:
    state = TaskState()
    state.record("file_read", call(path="a.txt"), file_of("a.txt"))
    state.record("todo", call(markdown="- [ ] a"), tool.dumps(tool.text("ok")), effects="write")
    assert state.held("file_read", call(path="a.txt")) is not None
    state.record("checkout", call(branch="main"), tool.dumps(tool.text("ok")), effects="write")
    assert state.held("file_read", call(path="a.txt")) is None


def test_a_result_is_given_again_word_by_word() -> None:
    state = TaskState()
    envelope = listing_of(".", [f"f{n}.txt" for n in range(40)])
    state.record("file_read", call(path="."), envelope)
    held = state.held("file_read", call(path="."))
    assert held is not None
    assert held.envelope is envelope


def test_arguments_that_are_no_json_are_a_call_like_any_other() -> None:
    state = TaskState()
    state.record("file_read", "{broken", failure("invalid_args"))
    assert state.held("file_read", " {broken ") is not None
    assert state.held("file_read", "[1]") is None


# Failures given again


def test_a_lasting_failure_is_given_again_with_a_notice_that_escalates() -> None:
    state = TaskState()
    assert state.held("file_edit", EDIT) is None
    state.record("file_edit", EDIT, NO_MATCH)
    first, second = state.held("file_edit", EDIT), state.held("file_edit", EDIT)
    assert first is not None
    assert second is not None
    assert first.envelope == second.envelope == NO_MATCH
    assert first.is_error
    assert "failed 2 times" in (first.notice or "")
    assert "change the arguments" in (first.notice or "")
    assert "failed 3 times" in (second.notice or "")


def test_a_failed_call_is_the_same_in_another_order() -> None:
    state = TaskState()
    state.record("file_edit", EDIT, NO_MATCH)
    assert state.held("file_edit", call(new_string="y", old_string=" x", path="f.txt")) is not None


def test_a_failure_is_forgotten_when_its_path_is_written() -> None:
    state = TaskState()
    state.record("file_read", call(path="missing.txt"), failure("not_found"))
    assert state.held("file_read", call(path="missing.txt")) is not None
    state.record("file_write", call(path="./missing.txt", content="hi"), tool.dumps(tool.text("ok")))
    assert state.held("file_read", call(path="missing.txt")) is None


def test_a_missing_folder_is_forgotten_when_a_file_is_written_in_it() -> None:
    state = TaskState()
    state.record("file_read", call(path="new"), failure("not_found"))
    state.record("file_write", call(path="new/deep/a.txt", content="hi"), tool.dumps(tool.text("ok")))
    assert state.held("file_read", call(path="new")) is None


def test_a_failure_is_kept_when_another_path_is_written() -> None:
    state = TaskState()
    state.record("file_edit", EDIT, NO_MATCH)
    state.record("file_write", call(path="unrelated.txt", content="hi"), tool.dumps(tool.text("ok")))
    assert state.held("file_edit", EDIT) is not None


def test_a_command_forgets_every_failure() -> None:
    state = TaskState()
    state.record("file_edit", EDIT, NO_MATCH)
    state.record("shell_run", call(command="sed -i s/a/b/ f.txt"), tool.dumps(tool.success({"exit_code": 0})))
    assert state.held("file_edit", EDIT) is None


def test_a_failed_search_is_forgotten_by_any_write() -> None:
    state = TaskState()
    search = call(pattern="TODO", path="missing-dir")
    state.record("file_search", search, failure("not_found"))
    assert state.held("file_search", search) is not None
    state.record("file_write", call(path="missing-dir/new.txt", content="hi"), tool.dumps(tool.text("ok")))
    assert state.held("file_search", search) is None


def test_a_failed_command_is_always_run_again() -> None:
    state = TaskState()
    state.record("shell_run", call(command="curl x"), failure("invalid_args"))
    assert state.held("shell_run", call(command="curl x")) is None


@pytest.mark.parametrize("kind", ["execution_error", "timeout", "unavailable", "rejected", "user_denied"])
def test_a_failure_that_may_pass_is_not_kept(kind: str) -> None:
    state = TaskState()
    state.record("file_read", call(path="f.txt"), failure(kind))
    assert state.held("file_read", call(path="f.txt")) is None


def test_a_success_takes_the_place_of_a_failure() -> None:
    state = TaskState()
    state.record("file_edit", EDIT, NO_MATCH)
    state.record("file_edit", EDIT, tool.dumps(tool.success({"path": "f.txt"})))
    assert state.held("file_edit", EDIT) is None
    state.record("file_read", call(path="g"), failure("not_found"))
    state.record("file_read", call(path="g"), file_of("g"))
    held = state.held("file_read", call(path="g"))
    assert held is not None
    assert not held.is_error


def test_a_read_that_is_given_again_has_no_notice_of_failure() -> None:
    state = TaskState()
    state.record("file_read", call(path="a.txt"), file_of("a.txt"))
    held = state.held("file_read", call(path="a.txt"))
    assert held is not None
    assert held.notice is None


def test_a_new_message_forgets_failures_and_reads_and_keeps_the_last_listing() -> None:
    state = TaskState()
    state.record("file_edit", EDIT, NO_MATCH)
    state.record("file_read", call(path="a.txt"), file_of("a.txt"))
    listed(state, "Desktop")
    state.begin_message()
    assert state.held("file_edit", EDIT) is None
    assert state.held("file_read", call(path="a.txt")) is None
    assert (state.wandering, state.nudge()) == (0, None)
    assert state.listing is not None
    assert state.listing.entries == ("Desktop/a.txt",)


# Nudges


def test_a_second_listing_points_at_entries() -> None:
    state = TaskState()
    listed(state, ".")
    assert state.nudge() is None
    listed(state, "other")
    assert "result.entries" in (state.nudge() or "")


def test_an_empty_listing_does_not_tell_to_pick() -> None:
    state = TaskState()
    listed(state, "empty", [])
    listed(state, "empty2", [])
    told = state.nudge() or ""
    assert "empty" in told
    assert "result.entries" not in told


def test_a_partial_listing_points_at_search() -> None:
    state = TaskState()
    listed(state, "big", truncated=True)
    listed(state, "big2", truncated=True)
    assert "file_search" in (state.nudge() or "")


def test_a_file_has_no_nudge() -> None:
    state = TaskState()
    state.record("file_read", call(path="a.txt"), file_of("a.txt"))
    assert state.nudge() is None


def test_listings_are_nudged_again_while_the_model_is_stuck() -> None:
    state = TaskState()
    listed(state, "d0")
    assert state.nudge() is None
    for number in range(1, 5):
        listed(state, f"d{number}")
        assert "result.entries" in (state.nudge() or "")


def test_a_file_read_ends_wandering() -> None:
    state = TaskState()
    listed(state, ".")
    listed(state, "x")
    assert state.nudge() is not None
    state.record("file_read", call(path="a.txt"), file_of("a.txt"))
    listed(state, "y")
    assert state.nudge() is None
    listed(state, "z")
    assert state.nudge() is not None


def test_a_listing_and_then_a_read_is_never_nudged() -> None:
    state = TaskState()
    listed(state, "Desktop")
    assert state.nudge() is None
    state.record("file_read", call(path="Desktop/a.txt"), file_of("Desktop/a.txt"))
    assert state.nudge() is None


def test_a_missing_path_between_listings_does_not_hide_wandering() -> None:
    state = TaskState()
    listed(state, "A")
    assert state.nudge() is None
    state.record("file_read", call(path="/nope"), failure("not_found"))
    told = state.nudge() or ""
    assert "not found" in told
    assert "listing's entries" in told
    listed(state, "B")
    assert "result.entries" in (state.nudge() or "")


def test_a_missing_path_after_a_truncated_listing_points_at_search() -> None:
    state = TaskState()
    listed(state, "big", truncated=True)
    state.record("file_read", call(path="big/missing.txt"), failure("not_found"))
    told = state.nudge() or ""
    assert "file_search" in told
    assert "listing's entries" not in told


def test_a_missing_path_without_any_listing_points_at_the_folder_above() -> None:
    state = TaskState()
    state.record("file_read", call(path="nope"), failure("not_found"))
    assert "folder above" in (state.nudge() or "")


def test_a_missing_thing_that_is_no_path_is_not_looked_for_in_folders() -> None:
    state = TaskState()
    state.record("get_order", call(id=17), failure("not_found"))
    told = state.nudge() or ""
    assert "`get_order`" in told
    assert "listing" not in told


def test_a_nudge_is_told_once_and_describes_the_last_call() -> None:
    state = TaskState()
    listed(state, "a")
    listed(state, "b")
    assert state.nudge() is not None
    assert state.nudge() is None


def test_nudges_can_be_switched_off_as_a_whole() -> None:
    state = TaskState(nudges=False)
    for number in range(4):
        listed(state, f"d{number}")
        state.record("shell_run", call(command="make"), failure("execution_error"))
        state.record("file_read", call(path="nope"), failure("not_found"))
        assert state.nudge() is None


def test_listing_and_reading_by_fields_alone_takes_two_calls() -> None:
    """The conversation that used to fail: "what is on my desktop?", and then "read the file"."""
    state = TaskState(nudges=False)
    disk = {
        "Desktop": listing_of("Desktop", ["notes.txt"]),
        "Desktop/notes.txt": file_of("Desktop/notes.txt"),
    }
    made: list[str] = []

    def read(path: str) -> str:
        held = state.held("file_read", call(path=path))
        if held is not None:
            return held.envelope
        made.append(path)
        state.record("file_read", call(path=path), disk[path])
        return disk[path]

    state.begin_message()
    assert classify(read("Desktop")) in LISTINGS
    state.begin_message()
    assert state.listing is not None
    assert classify(read(state.listing.entries[0])) is Outcome.file_content
    assert made == ["Desktop", "Desktop/notes.txt"]


# Circles


def fail(state: TaskState, command: str = "make test", name: str = "sandbox_exec") -> None:
    state.record(name, call(command=command), failure("execution_error"))


def test_the_third_identical_call_is_nudged() -> None:
    state = TaskState()
    for _ in range(2):
        fail(state)
        assert state.nudge() is None
    fail(state)
    told = state.nudge() or ""
    assert "sandbox_exec" in told
    assert "change your approach" in told


def test_identical_calls_are_known_in_any_order_of_arguments() -> None:
    state = TaskState()
    for text in ('{"path":"a","content":"x"}', '{"content":"x","path":"a"}', '{"path":"a", "content":"x"}'):
        state.record("file_write", text, failure("execution_error"))
    assert "file_write" in (state.nudge() or "")


def test_long_arguments_are_known_again() -> None:
    state = TaskState()
    for _ in range(3):
        state.record("file_write", call(path="a", content="x" * 5000), failure("execution_error"))
    assert "identical arguments" in (state.nudge() or "")
    state.record("file_write", call(path="a", content="x" * 4999 + "y"), failure("execution_error"))
    assert state.nudge() is None


def test_another_call_takes_the_nudge_back() -> None:
    state = TaskState()
    for _ in range(3):
        fail(state)
    state.record("sandbox_exec", call(command="ls"), tool.dumps(tool.text("ok")))
    assert state.nudge() is None


def test_reads_are_no_circle() -> None:
    state = TaskState()
    for _ in range(3):
        state.record("file_read", call(path="ghost.txt"), failure("not_found"))
    assert "identical arguments" not in (state.nudge() or "")


def test_a_new_message_counts_from_the_start() -> None:
    state = TaskState()
    fail(state)
    fail(state)
    state.begin_message()
    fail(state)
    assert state.nudge() is None


def test_a_circle_is_nudged_for_as_long_as_it_lasts() -> None:
    state = TaskState()
    for number in range(1, 6):
        fail(state)
        assert (state.nudge() is not None) == (number >= 3)


def test_a_circle_is_never_stopped_by_force() -> None:
    state = TaskState()
    for _ in range(4):
        fail(state)
    assert state.held("sandbox_exec", call(command="make test")) is None


def test_running_the_tests_again_after_an_edit_is_no_circle() -> None:
    state = TaskState()
    for number in range(4):
        state.record("file_write", call(path="a.py", content=str(number)), tool.dumps(tool.text("ok")))
        fail(state)
        assert state.nudge() is None


def test_writing_the_same_again_and_again_is_a_circle() -> None:
    state = TaskState()
    for _ in range(3):
        state.record("file_write", call(path="a.py", content="x"), tool.dumps(tool.text("ok")))
        told = state.nudge()
        fail(state)
        state.nudge()
    assert told is not None


def test_a_long_run_costs_as_much_for_each_call_as_a_short_one() -> None:
    def seconds(calls: int) -> float:
        state, started = TaskState(), time.process_time()
        for number in range(calls):
            path = f"folder/{number}.txt"
            state.held("file_read", call(path=path))
            state.record("file_read", call(path=path), file_of(path))
            state.record("file_write", call(path=f"other/{number}.txt"), tool.dumps(tool.text("ok")))
        return time.process_time() - started

    seconds(200)
    short = min(seconds(500) for _ in range(3))
    long = min(seconds(5_000) for _ in range(3))
    assert long < short * 10 * 4
