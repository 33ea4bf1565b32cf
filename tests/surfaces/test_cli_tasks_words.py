"""What the commands about tasks read and say, run in process on a store of their own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Context, Failure, Kind
from fairlead.surfaces.cli import Console
from fairlead.surfaces.cli.builtin import BUILTINS

Cli = Callable[..., Any]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App("desk", store=f"sqlite:///{tmp_path}/desk.db")

    @app.action(side_effects="write")
    async def add(a: int, b: int = 1, title: str = "none") -> str:
        """Add."""
        return f"{a + b} {title}"

    @app.action(side_effects="destructive")
    async def wipe(target: str) -> str:
        """Wipe it."""
        return f"wiped {target}"

    @app.action
    async def count(ctx: Context) -> Any:
        """Count."""
        yield "one "
        await ctx.logger.warn("careful")
        yield "two"

    @app.action
    async def pick(ctx: Context) -> list[str]:
        """Ask for several."""
        assert ctx.task is not None
        chosen: list[str] = ctx.task.ask("Which ones?", ["a", "b", "c"], allow_multiple=True)
        return chosen

    @app.action
    async def refuse() -> None:
        """Fail."""
        raise Failure(Kind.conflict, "It is taken.")

    yield app
    app.store.close()


@pytest.fixture
def submit(app: App, cli: Cli) -> Callable[..., str]:
    def submitted(*argv: str) -> str:
        ran = cli(app, "run", *argv, "--detach")
        assert ran.code == 0, ran.err
        return str(ran.out.strip())

    return submitted


def work(app: App, id: str) -> None:
    """Run a task until it has ended or paused."""

    async def main() -> None:
        async with app.tasks.worker():
            await app.tasks.wait(id, 30)

    asyncio.run(main())


def test_run_calls_an_action_as_its_own_name_does(app: App, cli: Cli) -> None:
    by_name, by_run = cli(app, "add", "--a", "1"), cli(app, "run", "add", "--a", "1")
    assert by_name.json["data"] == by_run.json["data"] == "2 none"
    assert cli(app, "run", "add", "--a", "x").code == 2
    assert cli(app, "run", "ad").code == 4
    assert cli(app, "run").out == cli(app, "help", "run").out
    assert cli(app, "run", "add", "--help").out == cli(app, "add", "--help").out


def test_detach_prints_the_id_and_json_prints_the_task(app: App, cli: Cli) -> None:
    ran = cli(app, "run", "add", "--a", "1", "--detach")
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n", ran.out)
    assert ran.err == ""
    for argv in (("add", "--a", "1", "--detach", "--json"), ("--json", "--detach", "add", "--a", "1")):
        assert cli(app, "run", *argv).json["state"] == "queued"
    assert (
        cli(app, "run", "add", "--detach", "--output", "json", "--json", '{"a": 1}').json["action"] == "add"
    )


def test_on_a_terminal_it_is_said_how_to_go_on(app: App, cli: Cli) -> None:
    ran = cli(app, "run", "add", "--a", "1", "--detach", tty=True)
    assert f"desk tasks watch {ran.out.strip()}" in ran.err


def test_options_of_the_task_are_kept(app: App, cli: Cli) -> None:
    options = ("--delay", "10m", "--deadline", "1.5h", "--priority=-3", "--title", "Later")
    told = cli(app, "run", *options, "add", "--a", "1", "--detach", "--json").json
    assert (told["priority"], told["title"]) == (-3, "Later")
    assert told["dueAt"] - told["createdAt"] == pytest.approx(600)
    assert told["deadlineAt"] - told["createdAt"] == pytest.approx(5400)


def test_after_the_name_a_field_of_the_action_goes_before_an_option_of_the_task(
    app: App, cli: Cli, submit: Callable[..., str]
) -> None:
    task = submit("--title", "Ours", "add", "--a", "1", "--title", "theirs", "--priority", "2")
    work(app, task)
    told = cli(app, "tasks", "show", task).json
    assert (told["title"], told["priority"], told["data"]) == ("Ours", 2, "2 theirs")


def test_a_key_gives_the_same_task_again_and_no_other_request(app: App, cli: Cli) -> None:
    argv = ("run", "add", "--detach", "--key", "may")
    first, again = cli(app, *argv, "--a", "1"), cli(app, *argv, "--a", "1")
    assert first.out == again.out
    other = cli(app, *argv, "--a", "2")
    assert (other.code, other.out, "CONFLICT" in other.err) == (1, "", True)


def test_a_detached_call_is_confirmed_as_a_call_is(app: App, cli: Cli) -> None:
    argv = ("run", "wipe", "--target", "disk", "--detach")
    refused = cli(app, *argv)
    assert (refused.code, "desk run wipe ..." in refused.err) == (3, True)
    assert cli(app, *argv, "--confirm").code == 0
    assert cli(app, *argv, stdin="y\n", tty=True).code == 0
    assert cli(app, *argv, stdin="n\n", tty=True).code == 3
    assert len(cli(app, "tasks", "list").json) == 2


def test_what_a_call_would_refuse_is_not_submitted(app: App, cli: Cli) -> None:
    assert cli(app, "run", "add", "--detach", "--a", "x").code == 2
    assert cli(app, "run", "add", "--detach").code == 2
    assert (
        cli(app, "run", "wipe", "--target", "x", "--detach", user="guest", auth={"permissions": []}).code == 3
    )
    assert cli(app, "tasks", "list").json == []


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("add", "--a", "1", "--detahc"), "Did you mean '--detach'?"),
        (("--detahc", "add", "--a", "1"), "Did you mean '--detach'?"),
        (("add", "--a", "1", "--key", "k"), "goes with --detach"),
        (("add", "--a", "1", "--detach", "--delay", "10q"), "expected a time such as"),
        (("add", "--a", "1", "--detach", "--priority", "high"), "whole number"),
        (("add", "--a", "1", "--detach", "--deadline", "8d"), "7 days"),
        (("add", "--a", "1", "--detach", "--key"), "needs a value"),
        (("add", "--a", "1", "--detach", "--key", "k", "--key", "l"), "given twice"),
        (("add", "--a", "1", "--detach", "--timeout-ms", "5"), "--deadline limits a task"),
        (("add", "--a", "1", "--batch", "x.jsonl"), "no other flag"),
        (("add", "--batch", "missing.jsonl"), "cannot be read"),
        (("add", "--batch", "-", "--key", "k"), "--batch makes many"),
        (("--detach",), "the name of an action"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_a_way_out(
    app: App, cli: Cli, argv: tuple[str, ...], words: str
) -> None:
    ran = cli(app, "run", *argv)
    assert (ran.code, words in ran.err) == (2, True), ran.err
    assert cli(app, "tasks", "list").json == []


def test_a_batch_is_submitted_line_by_line(app: App, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text('{"a": 1}\n\n{"a": 2}\n')
    ids = cli(app, "run", "add", "--batch", str(file)).out.split()
    listed = cli(app, "tasks", "list").json
    assert sorted(ids) == sorted(task["id"] for task in listed)
    assert len(cli(app, "run", "add", "--batch", "-", "--json", stdin='{"a": 1}').json) == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [('{"a": "x"}', "--a: Expected integer"), ("{", "not JSON"), ("[]", "Invalid action input")],
)
def test_a_wrong_line_of_a_batch_is_named_and_nothing_is_submitted(
    app: App, cli: Cli, line: str, words: str
) -> None:
    ran = cli(app, "run", "add", "--batch", "-", stdin=f'{{"a": 1}}\n\n{line}\n')
    assert (ran.code, ran.out) == (2, "")
    assert "Line 3: " in ran.err
    assert words in ran.err
    assert cli(app, "tasks", "list").json == []


def test_a_batch_shows_a_bar_on_a_terminal_and_asks_once(app: App, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "targets.jsonl"
    file.write_text('{"target": "a"}\n{"target": "b"}\n')
    ran = cli(app, "run", "wipe", "--batch", str(file), stdin="y\n", tty=True)
    assert ran.code == 0
    assert "2 checked, writing them" in ran.err
    assert ran.err.count("[y/N]") == 1
    assert ran.err.endswith("shows how it goes.\n")
    assert "Submitted 2 tasks." in ran.err


def test_lists_are_by_state(app: App, cli: Cli, submit: Callable[..., str]) -> None:
    done, waiting = submit("add", "--a", "1"), submit("add", "--a", "2", "--delay", "1h")
    work(app, done)
    for state, ids in {"completed": [done], "open": [waiting], "all": [waiting, done], "failed": []}.items():
        assert [task["id"] for task in cli(app, "tasks", "list", "--state", state).json] == ids
    assert [task["id"] for task in cli(app, "tasks", "list", "--limit", "1").json] == [waiting]
    wrong = cli(app, "tasks", "list", "--state", "complete")
    assert (wrong.code, "Did you mean 'completed'?" in wrong.err) == (2, True)


def test_a_table_of_tasks_has_whole_ids_and_fits_the_terminal(
    app: App, cli: Cli, submit: Callable[..., str]
) -> None:
    task = submit(
        "--title", "A title that is much too long for what is left of the line " * 2, "add", "--a", "1"
    )
    ran = cli(app, "tasks", "list", tty=True, env={"NO_COLOR": "1"})
    assert task in ran.out
    assert all(len(line) <= 80 for line in ran.out.splitlines())
    assert "\x1b" not in ran.out
    assert "\x1b[1m" in cli(app, "tasks", "list", tty=True).out


def test_on_a_terminal_that_is_too_narrow_tasks_stand_one_below_the_other(
    app: App, cli: Cli, submit: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = submit("add", "--a", "1")
    monkeypatch.setattr(Console, "width", 50)
    ran = cli(app, "tasks", "list", tty=True, env={"NO_COLOR": "1"})
    assert ran.out.splitlines()[:2] == [f"id      {task}", "state   queued"]


def test_a_task_is_shown_by_the_beginning_of_its_id(app: App, cli: Cli, submit: Callable[..., str]) -> None:
    task, other = submit("add", "--a", "1"), submit("add", "--a", "1")
    cut = next(at for at, pair in enumerate(zip(task, other, strict=True), start=1) if len(set(pair)) == 2)
    assert cli(app, "tasks", "show", task[:cut]).json["id"] == task
    several = cli(app, "tasks", "show", task[:4])
    assert (several.code, other in several.err) == (1, True)
    for unknown in ("nothing", "%", "00000000-0000-7000-8000-000000000000"):
        assert cli(app, "tasks", "show", unknown).code == 4
    assert cli(app, "tasks", "show").code == 2
    shown = cli(app, "tasks", "show", task, tty=True)
    assert "queued" in shown.out
    assert "ago)" in shown.out


def test_a_verb_that_is_mistyped_is_guessed(app: App, cli: Cli) -> None:
    ran = cli(app, "tasks", "wach")
    assert (ran.code, "Did you mean 'watch'?" in ran.err) == (2, True)
    assert cli(app, "tasks", "show", "x", "--since", "3").code == 2
    assert cli(app, "tasks").out == cli(app, "tasks", "--help").out


def test_a_finished_task_is_watched_from_any_offset_with_its_result(
    app: App, cli: Cli, submit: Callable[..., str]
) -> None:
    task = submit("count")
    work(app, task)
    *events, result = cli(app, "tasks", "watch", task, "--json").lines
    offsets = [event["offset"] for event in events]
    assert offsets == sorted(set(offsets))
    assert (events[0]["type"], events[-1]["type"]) == ("started", "terminal")
    assert (result["type"], result["ok"]) == ("result", True)
    rest = cli(app, "tasks", "watch", task, "--json", "--since", str(offsets[-2])).lines
    assert [line["type"] for line in rest] == ["terminal", "result"]
    assert "".join(cli(app, "tasks", "watch", task).json["data"]) == "one two"


def test_answers_are_checked_and_may_be_json(app: App, cli: Cli, submit: Callable[..., str]) -> None:
    task = submit("pick")
    work(app, task)
    assert cli(app, "tasks", "answer", task, "z").code == 2
    assert cli(app, "tasks", "answer", task, "--json-value", "{").code == 2
    assert cli(app, "tasks", "answer", task, "a", "--json-value", '"b"').code == 2
    unsaid = cli(app, "tasks", "answer", task)
    assert (unsaid.code, "Which ones?" in unsaid.err) == (2, True)
    assert cli(app, "tasks", "answer", task, "--json-value", '["a", "c"]').code == 0
    assert cli(app, "tasks", "answer", task, "b").code == 1  # it waits no more
    work(app, task)
    assert cli(app, "tasks", "show", task).json["data"] == ["a", "c"]


def test_the_person_who_answers_without_a_value_is_asked(
    app: App, cli: Cli, submit: Callable[..., str]
) -> None:
    task = submit("pick")
    work(app, task)
    assert cli(app, "tasks", "answer", task, stdin="", tty=True).code == 130
    ran = cli(app, "tasks", "answer", task, stdin="\n1, c\n", tty=True)
    assert (ran.code, "several with commas between" in ran.err) == (0, True)
    work(app, task)
    assert cli(app, "tasks", "show", task).json["data"] == ["a", "c"]


def test_a_cancelled_task_ends_with_its_reason_and_the_code_of_a_cancelled_call(
    app: App, cli: Cli, submit: Callable[..., str]
) -> None:
    task = submit("add", "--a", "1")
    told = cli(app, "tasks", "cancel", task, "--reason", "not needed", "--json").json
    assert (told["state"], told["reason"]) == ("canceled", "not needed")
    watched = cli(app, "tasks", "watch", task)
    assert (watched.code, "not needed" in watched.err) == (130, True)
    assert cli(app, "tasks", "cancel", task).code == 1


def test_a_failed_task_ends_the_watch_with_the_code_of_its_failure(
    app: App, cli: Cli, submit: Callable[..., str]
) -> None:
    task = submit("refuse")
    work(app, task)
    watched = cli(app, "tasks", "watch", task)
    assert (watched.code, watched.json["error"]["code"]) == (1, "CONFLICT")
    assert "It is taken." in watched.err


def test_an_overdue_task_ends_the_watch_with_the_code_of_a_timeout(
    app: App, cli: Cli, submit: Callable[..., str]
) -> None:
    task = submit("add", "--a", "1", "--delay", "1h", "--deadline", "1ms")
    work(app, task)
    assert cli(app, "tasks", "watch", task).code == 124


def test_an_ended_task_is_retried_as_a_new_one(app: App, cli: Cli, submit: Callable[..., str]) -> None:
    task = submit("add", "--a", "4")
    assert cli(app, "tasks", "retry", task).code == 1  # not before it has ended
    work(app, task)
    again = cli(app, "tasks", "retry", task).out.strip()
    assert again != task
    work(app, again)
    assert cli(app, "tasks", "show", again).json["data"] == "5 none"


def test_who_may_not_do_everything_sees_their_own_tasks_only(
    app: App, cli: Cli, submit: Callable[..., str]
) -> None:
    ours = submit("add", "--a", "1")
    guest: dict[str, Any] = {"user": {"id": "guest"}, "auth": {"permissions": []}}
    theirs = cli(app, "run", "add", "--a", "1", "--detach", **guest).out.strip()
    assert [task["id"] for task in cli(app, "tasks", "list", **guest).json] == [theirs]
    assert {task["id"] for task in cli(app, "tasks", "list").json} == {ours, theirs}
    for verb in ("show", "cancel", "watch", "answer", "retry"):
        assert cli(app, "tasks", verb, ours, **guest).code == 4


@pytest.mark.parametrize(
    "argv",
    [("--concurrency", "0"), ("--drain", "soon"), ("--lease", "0"), ("--queue=",), ("--nap",), ("word",)],
)
def test_a_worker_refuses_options_that_make_no_sense(app: App, cli: Cli, argv: tuple[str, ...]) -> None:
    assert cli(app, "worker", *argv).code == 2


def test_a_store_that_cannot_be_had_is_told(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    app = App("desk", store=f"sqlite:///{tmp_path}/file/desk.db")
    ran = cli(app, "tasks", "list")
    assert ran.code != 0
    assert "error: " in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("name", ["run", "tasks", "worker"])
def test_every_command_about_tasks_has_a_page_with_examples(app: App, cli: Cli, name: str) -> None:
    page = cli(app, name, "--help")
    assert page.code == 0
    assert all(f"desk {line}" in page.out for line in BUILTINS[name].command.examples)


def test_who_runs_tasks_is_listed(app: App, cli: Cli) -> None:
    assert cli(app, "tasks", "workers", "--json").json == []

    async def with_a_worker() -> Any:
        async with app.tasks.worker(concurrency=3):
            while not await app.tasks.workers():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            return await asyncio.to_thread(cli, app, "tasks", "workers", "--json")

    (worker,) = asyncio.run(with_a_worker()).json
    assert (worker["queue"], worker["busy"], worker["room"]) == ("desk", 0, 3)
    assert cli(app, "tasks", "workers", "--json").json == []
