"""What comes out where: envelopes and renderings on stdout, the rest on stderr, and the exit code."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from fairlead import Action, App, Context, Failure, Kind, s
from fairlead._json import dumps
from fairlead.failures.runtime import ConfigError, MaxTokens
from fairlead.surfaces.cli import Console

Cli = Callable[..., Any]


def board() -> App:
    app = App("board")

    @app.action
    async def rows() -> list[dict[str, Any]]:
        """List rows."""
        return [{"id": 1, "title": "First"}, {"id": 22, "done": True}]

    @app.action
    async def one() -> dict[str, Any]:
        """Show one."""
        return {"id": 1, "note": "two\nlines"}

    @app.action
    async def word() -> str:
        """Say a word."""
        return "word"

    @app.action
    async def count(n: int = 3) -> AsyncIterator[Any]:
        """Count."""
        for i in range(n):
            yield i

    @app.action(side_effects="write")
    async def write_log(ctx: Context) -> str:
        """Log and report."""
        print("printed")
        ctx.logger.debug("fine detail")
        await ctx.logger.info("hello", number=3)
        ctx.progress.report(message="half", percent=50)
        return "done"

    @app.action(side_effects="destructive")
    async def wipe(password: str = "") -> str:
        """Wipe it all."""
        return "wiped"

    @app.action
    async def fail(kind: str) -> None:
        """Fail."""
        raise Failure(Kind(kind), "It failed.")

    return app


EXITS = {
    "invalid_input": 2, "invalid_output": 2, "unserializable": 2, "unauthenticated": 3, "forbidden": 3,
    "needs_confirmation": 3, "unknown_action": 4, "unsupported": 4, "upstream": 5, "busy": 5, "rate_limited": 5,
    "timeout": 124, "cancelled": 130, "conflict": 1, "internal": 1,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "code"), EXITS.items())
def test_the_exit_code_tells_the_kind_of_failure(cli: Cli, kind: str, code: int) -> None:
    assert cli(board(), "fail", "--kind", kind).code == code


def test_piped_results_are_envelopes(cli: Cli) -> None:
    ran = cli(board(), "word")
    assert ran.code == 0
    assert ran.json["data"] == "word"
    assert ran.json["meta"]["surface"] == "cli"
    assert ran.out.startswith('{\n  "ok": true')
    assert ran.err == ""


def test_piped_failures_are_envelopes_and_a_message_for_people(cli: Cli) -> None:
    ran = cli(board(), "fail", "--kind", "conflict")
    assert ran.json["error"]["code"] == "CONFLICT"
    assert "It failed." in ran.err
    assert "board errors CONFLICT" in ran.err


def test_failures_on_a_terminal_are_told_on_stderr_only(cli: Cli) -> None:
    ran = cli(board(), "fail", "--kind", "conflict", tty=True)
    assert ran.out == ""
    assert "It failed." in ran.err


def test_people_get_a_table_for_rows(cli: Cli) -> None:
    ran = cli(board(), "rows", tty=True, env={"NO_COLOR": "1"})
    assert ran.out == "id  title  done\n1   First\n22         true\n"


def test_people_get_lines_for_an_object_and_text_for_a_value(cli: Cli) -> None:
    assert cli(board(), "one", tty=True, env={"NO_COLOR": "1"}).out == "id    1\nnote  two\n      lines\n"
    assert cli(board(), "word", tty=True).out == "word\n"


@pytest.mark.parametrize(
    ("action", "output", "expected"),
    [
        ("rows", "text", '{"id":1,"title":"First"}\n{"id":22,"done":true}\n'),
        ("one", "text", "id: 1\nnote: two\nlines\n"),
        ("word", "text", "word\n"),
        ("word", "table", "word\n"),
        ("count", "table", "value\n0\n1\n2\n"),
        ("count", "text", "0\n1\n2\n"),
        ("one", "table", "field  value\nid     1\nnote   two lines\n"),
    ],
)
def test_output_chooses_the_rendering(cli: Cli, action: str, output: str, expected: str) -> None:
    assert cli(board(), action, "--output", output).out == expected


def test_output_json_gives_the_envelope_on_a_terminal_too(cli: Cli) -> None:
    assert cli(board(), "word", "--output", "json", tty=True).json["data"] == "word"


def test_a_streaming_action_gives_its_items_as_data(cli: Cli) -> None:
    assert cli(board(), "count").json["data"] == [0, 1, 2]
    assert cli(board(), "count", tty=True).out == "0\n1\n2\n"


@pytest.mark.parametrize(("form", "shown"), [("text", "0\n1\n2\n"), ("table", "value\n0\n1\n2\n")])
def test_the_items_of_a_stream_with_a_key_are_shown_once(cli: Cli, form: str, shown: str) -> None:
    assert cli(board(), "count", "--idempotency-key", "k", "--output", form).out == shown


def test_a_stream_without_items_gives_an_empty_list(cli: Cli) -> None:
    assert cli(board(), "count", "--n", "0").json["data"] == []
    assert cli(board(), "count", "--n", "0", "--output", "text").out == ""


def test_57_ndjson_gives_each_event_a_line_and_the_result_the_last(cli: Cli) -> None:
    lines = cli(board(), "write-log", "--ndjson").lines
    assert [line["type"] for line in lines] == ["log", "log", "progress", "result"]
    assert lines[-1].keys() == {"type", "ok", "data", "meta"}
    assert lines[-1]["data"] == "done"


def test_ndjson_of_a_failure_ends_with_the_error(cli: Cli) -> None:
    ran = cli(board(), "fail", "--kind", "conflict", "--ndjson")
    assert ran.code == 1
    assert ran.lines[-1]["error"]["code"] == "CONFLICT"


def test_what_an_action_prints_does_not_mix_with_the_result(cli: Cli) -> None:
    ran = cli(board(), "write-log")
    assert ran.json["data"] == "done"
    assert ran.err == "printed\n"


def test_log_lines_are_shown_when_asked_for(cli: Cli) -> None:
    ran = cli(board(), "write-log", "-v")
    assert ran.err == "printed\ndebug fine detail\ninfo  hello  number=3\ninfo  50% half\n"


def test_on_a_terminal_log_lines_are_shown_without_debug(cli: Cli) -> None:
    err = cli(board(), "write-log", tty=True, env={"NO_COLOR": "1"}).err
    assert "info  hello  number=3" in err
    assert "fine detail" not in err


def test_repaired_input_is_told_on_stderr(cli: Cli) -> None:
    ran = cli(board(), "count", "--json", '{"n": "2"}', "-v")
    assert ran.json["data"] == [0, 1]
    assert ran.json["meta"]["warnings"]
    assert "warn" in ran.err


def test_validation_issues_name_the_flag(cli: Cli) -> None:
    ran = cli(board(), "fail")
    assert ran.code == 2
    assert "  --kind: " in ran.err


def test_issues_of_a_result_name_the_place_in_it_and_no_flag(cli: Cli) -> None:
    app = App("app")
    shape = s.object({"rows": s.array(s.object({"name": s.string()}).strict())})
    wrong = {"rows": [{"name": "a"}, {"name": "b", "extra": 1}]}
    app.add(Action(lambda: wrong, name="list_rows", description="List rows.", output=shape))
    ran = cli(app, "list-rows")
    assert (ran.code, ran.json["error"]["code"]) == (2, "OUTPUT_VALIDATION_ERROR")
    assert "\n  result.rows[1].extra: " in ran.err
    assert "--rows" not in ran.err


def test_validation_issues_name_the_path_where_json_gave_the_input(cli: Cli) -> None:
    ran = cli(board(), "fail", "--json", '{"kind": []}')
    assert "  kind: " in ran.err


@pytest.mark.parametrize(
    ("env", "tty", "coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour_follows_the_terminal_and_the_environment(
    cli: Cli, env: dict[str, str], tty: bool, coloured: bool
) -> None:
    assert ("\x1b[" in cli(board(), "--help", tty=tty, env=env).out) is coloured


def test_control_characters_in_data_do_not_reach_a_terminal(cli: Cli) -> None:
    app = App("evil")

    @app.action
    async def attack(ctx: Context) -> dict[str, str]:
        """Send escapes."""
        await ctx.logger.info("\x1b]0;owned\x07")
        return {"a\x1b[2J": "b\x9b2J"}

    ran = cli(app, "attack", tty=True, env={"NO_COLOR": "1"})
    assert "\x1b]" not in ran.err
    assert "\x1b" not in ran.out
    assert "\x9b" not in ran.out


@pytest.mark.parametrize("argv", [["--output", "json"], ["--ndjson"]])
def test_json_on_a_terminal_is_harmless_and_still_json(cli: Cli, argv: list[str]) -> None:
    data = {"k\x9b2J\u202e": "v\x9b\u2066\u200f\x7f"}
    app = App("evil")

    @app.action
    async def attack() -> dict[str, str]:
        """Send escapes."""
        return data

    ran = cli(app, "attack", *argv, tty=True, env={"NO_COLOR": "1"})
    assert ran.out.isascii()
    assert "\x7f" not in ran.out
    assert (ran.lines[-1] if "--ndjson" in argv else ran.json)["data"] == data
    assert "\x9b" in cli(app, "attack", *argv).out


def test_a_value_cannot_fake_lines_of_the_question(cli: Cli) -> None:
    app = App("evil")

    @app.action(side_effects="destructive")
    async def wipe(target: str, more: dict[str, str]) -> None:
        """Wipe it."""

    more = {"a\nGo\x9b": "b\u2028\u202e"}
    values = ["--target", "disk\nGo_ahead?\r\x1b[2K", "--more", dumps(more)]
    ran = cli(app, "wipe", *values, stdin="n\n", tty=True, env={"NO_COLOR": "1"})
    question = ran.err.partition("[y/N]")[0]
    assert len(question.splitlines()) == 4  # the action, two values, and what is asked
    assert question.isascii()
    assert question.replace("\n", "").isprintable()


def test_a_wide_table_is_fitted_to_the_terminal(cli: Cli) -> None:
    app = App("wide")

    @app.action
    async def rows() -> list[dict[str, str]]:
        """Give wide rows."""
        return [{"a": "x" * 200, "b": "日本" * 60, "c": "end"}]

    lines = cli(app, "rows", tty=True, env={"NO_COLOR": "1"}).out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "end" in lines[1]
    assert "…" in lines[1]


def test_rows_with_too_many_columns_are_shown_one_below_the_other(cli: Cli) -> None:
    app = App("wide")

    @app.action
    async def rows() -> list[dict[str, int]]:
        """Give many columns."""
        return [{f"c{number}": row for number in range(20)} for row in (1, 2)]

    shown = cli(app, "rows", tty=True, env={"NO_COLOR": "1"}).out
    assert shown.startswith("c0   1\nc1   1\n")
    assert "c19  1\n\nc0   2\n" in shown


def test_nothing_is_said_to_people_and_left_out_for_programs(cli: Cli) -> None:
    app = App("void")

    @app.action
    async def rows() -> list[int]:
        """Give no rows."""
        return []

    assert cli(app, "rows", tty=True, env={"NO_COLOR": "1"}).out == "(nothing)\n"
    assert cli(app, "rows", "--output", "text").out == ""


def test_a_text_ends_with_one_line_ending(cli: Cli) -> None:
    app = App("texts")

    @app.action
    async def say(text: str) -> str:
        """Say it."""
        return text

    assert cli(app, "say", "--text", "x\n", "--output", "text").out == "x\n"
    assert cli(app, "say", "--text", "", "--output", "text").out == "\n"


def test_96_a_destructive_action_needs_confirm(cli: Cli) -> None:
    refused = cli(board(), "wipe")
    assert refused.code == 3
    assert refused.json["error"]["code"] == "CONFIRMATION_REQUIRED"
    assert "--confirm" in refused.err
    assert cli(board(), "wipe", "--confirm").json["data"] == "wiped"
    assert cli(board(), "wipe", "--confirm", "no").code == 3


def test_a_wrong_token_does_not_confirm(cli: Cli) -> None:
    assert cli(board(), "wipe", "--confirm", "1~2~3").code == 3


def test_someone_at_a_terminal_is_asked_first(cli: Cli) -> None:
    ran = cli(board(), "wipe", "--password", "hunter2", stdin="y\n", tty=True)
    assert (ran.code, ran.out) == (0, "wiped\n")
    assert "Wipe it all." in ran.err
    assert "[y/N]" in ran.err
    assert "hunter2" not in ran.err


@pytest.mark.parametrize("answer", ["\n", "n\n", "", "sure\n"])
def test_anything_but_yes_is_no(cli: Cli, answer: str) -> None:
    ran = cli(board(), "wipe", stdin=answer, tty=True)
    assert (ran.code, ran.out) == (3, "")


def test_a_prompt_comes_after_validation(cli: Cli) -> None:
    ran = cli(board(), "wipe", "--json", '{"password": []}', stdin="y\n", tty=True)
    assert ran.code == 2
    assert "[y/N]" not in ran.err


def test_a_token_action_is_confirmed_at_the_prompt(cli: Cli) -> None:
    app = App("tokens")

    @app.action(requires_confirmation="token")
    async def pay(amount: int) -> int:
        """Pay."""
        return amount

    assert cli(app, "pay", "--amount", "5", "--confirm").code == 3
    assert cli(app, "pay", "--amount", "5", stdin="yes\n", tty=True).out == "5\n"


def test_58_an_idempotency_key_runs_an_action_one_time(cli: Cli) -> None:
    app = App("keys")
    runs = []

    @app.action(side_effects="write")
    async def create() -> int:
        """Create."""
        runs.append(1)
        return len(runs)

    assert cli(app, "create", "--idempotency-key", "k").json["data"] == 1
    again = cli(app, "create", "--idempotency-key", "k").json
    assert (again["data"], again["meta"]["idempotent"], len(runs)) == (1, "replayed", 1)


def test_timeout_ms_stops_the_action(cli: Cli) -> None:
    import asyncio

    app = App("slow")

    @app.action
    async def wait() -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    ran = cli(app, "wait", "--timeout-ms", "20")
    assert (ran.code, ran.json["error"]["code"]) == (124, "TIMEOUT")


def test_the_person_at_the_terminal_may_do_everything(cli: Cli) -> None:
    app = App("owned")

    @app.action(permissions=["tasks:write"])
    async def whoami(ctx: Context) -> Any:
        """Say who calls."""
        return ctx.user

    assert cli(app, "whoami").json["data"].keys() == {"id"}


def test_a_host_program_can_give_another_identity(cli: Cli) -> None:
    app = App("hosted")

    @app.action(permissions=["tasks:write"])
    async def create(ctx: Context) -> Any:
        """Create."""
        return ctx.user

    assert cli(app, "create", user="ada", auth={"permissions": []}).code == 3
    assert cli(app, "create", user="ada", auth={"permissions": ["tasks:*"]}).json["data"] == "ada"


def test_services_are_started_and_stopped_around_a_call(cli: Cli) -> None:
    app = App("served")
    seen: list[str] = []

    @app.service
    async def db() -> AsyncIterator[str]:
        seen.append("open")
        yield "db"
        seen.append("closed")

    @app.action
    async def use(ctx: Context, fail: bool = False) -> str:
        """Use it."""
        if fail:
            raise RuntimeError("no")
        return str(ctx.services.db)

    assert cli(app, "use").json["data"] == "db"
    assert cli(app, "use", "--fail").code == 1
    assert seen == ["open", "closed"] * 2


def test_a_service_that_does_not_start_is_a_failure(cli: Cli) -> None:
    app = App("broken")

    @app.service
    async def db() -> AsyncIterator[str]:
        raise RuntimeError("no database")
        yield ""

    @app.action
    async def use() -> None:
        """Use it."""

    ran = cli(app, "use")
    assert (ran.code, ran.json["error"]["code"]) == (1, "INTERNAL_ERROR")


def test_a_service_that_does_not_stop_is_told_and_fails_the_command(cli: Cli) -> None:
    app = App("sticky")

    @app.service
    async def db() -> AsyncIterator[str]:
        yield ""
        raise RuntimeError("password=hunter2")

    @app.action
    async def use() -> str:
        """Use it."""
        return "used"

    ran = cli(app, "use")
    assert (ran.code, ran.json["data"]) == (1, "used")
    assert "did not stop" in ran.err
    assert "hunter2" not in ran.err


def test_a_crash_shows_no_traceback_and_says_how_to_see_it(cli: Cli) -> None:
    app = App("crash")

    @app.action
    async def boom() -> None:
        """Crash."""
        raise ValueError("broken inside")

    ran = cli(app, "boom")
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert "FAIRLEAD_DEBUG" in ran.err


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ConfigError("no key"), "config_error"),
        (Failure(Kind.misconfigured, "no package"), "config_error"),
        (MaxTokens("too long"), "max_tokens"),
        (Failure(Kind.exhausted, "The well is dry."), "budget_exceeded"),
    ],
)
def test_what_is_set_up_wrongly_or_used_up_is_told_by_its_own_code_and_not_as_a_crash(
    cli: Cli, failure: Failure, code: str
) -> None:
    app = App("poor")

    @app.action
    async def ask() -> None:
        """Ask."""
        raise failure

    ran = cli(app, "ask", "--output", "text")
    assert f"({code})" in ran.err
    assert f"errors {code}" in ran.err
    assert "INTERNAL_ERROR" not in ran.err
    assert "FAIRLEAD_DEBUG" not in ran.err
    assert code in cli(app, "errors", code).out
    assert cli(app, "ask").json["error"]["code"] == "INTERNAL_ERROR"


@pytest.mark.parametrize("arguments", [["--nope", "x"], ["--kind"], ["stray"]])
@pytest.mark.parametrize("form", [["--output", "text"], ["--output=table"]])
def test_a_refused_command_line_keeps_to_the_form_that_was_asked_for(
    cli: Cli, arguments: list[str], form: list[str]
) -> None:
    ran = cli(board(), "fail", *arguments, *form)
    assert (ran.code, ran.out) == (2, "")
    assert "Try 'board fail --help'." in ran.err


@pytest.mark.parametrize("argv", [["fail", "--nope"], ["nonsense"]])
def test_ndjson_stays_one_line_when_the_command_line_is_refused(cli: Cli, argv: list[str]) -> None:
    [line] = cli(board(), *argv, "--ndjson").lines
    assert (line["type"], line["ok"]) == ("result", False)


def test_an_unknown_action_is_told_to_people_only_when_text_is_asked_for(cli: Cli) -> None:
    ran = cli(board(), "nonsense", "--output", "text")
    assert (ran.code, ran.out) == (4, "")


def test_a_token_action_shows_the_token_that_confirms_it(cli: Cli) -> None:
    app = App("tokens", confirmation_secret=b"s" * 32)

    @app.action(requires_confirmation="token")
    async def pay(amount: int) -> int:
        """Pay."""
        return amount

    refused = cli(app, "pay", "--amount", "5", "--output", "text")
    token = refused.err.split("--confirm=", 1)[1].split()[0]
    assert cli(app, "pay", "--amount", "5", f"--confirm={token}").json["data"] == 5
    assert "new token" in cli(app, "pay", "--amount", "6", f"--confirm={token}").err


def test_a_log_of_several_lines_stays_under_its_level(cli: Cli) -> None:
    app = App("lines")

    @app.action
    async def talk(ctx: Context) -> None:
        """Talk."""
        ctx.logger.info("one\ntwo")

    assert cli(app, "talk", "-v").err == "info  one\n      two\n"


@pytest.mark.parametrize(
    ("columns", "wide"), [("60", 60), ("", 80), ("0", 80), ("-5", 80), ("x", 80), ("9" * 9, 80)]
)
def test_columns_says_how_wide_a_page_is(cli: Cli, columns: str, wide: int) -> None:
    assert Console(io.StringIO(), io.StringIO(), io.StringIO(), {"COLUMNS": columns}).width == wide
    page = cli(board(), "--help", env={"COLUMNS": columns}).out
    assert wide - 25 < max(map(len, page.splitlines())) <= wide


@pytest.mark.parametrize(
    "form", [[], ["--output", "json"], ["--output", "table"], ["--output", "text"], ["--ndjson"]]
)
@pytest.mark.parametrize("tty", [False, True])
def test_a_result_that_cannot_be_written_is_a_failure(cli: Cli, form: list[str], tty: bool) -> None:
    app = App("x")

    @app.action
    def power(digits: int) -> int:
        """Raise ten to a power."""
        return int(10**digits)

    ran = cli(app, "power", "--digits", "5000", *form, tty=tty)
    assert ran.code == 2
    assert "OUTPUT_SERIALIZATION_ERROR" in ran.out + ran.err
    assert "Traceback" not in ran.err
