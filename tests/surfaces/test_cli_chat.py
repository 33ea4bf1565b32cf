"""Chats in process: what is typed, what is shown, what is kept."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.agent import agent_of
from fairlead.agents.models.script import ScriptModel, Turn
from talking import AGENT

Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("FAIRLEAD_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


@pytest.fixture
def app(tmp_path: Path) -> App:
    from fairlead import Context, Failure, Kind

    app = App("talking")
    names: dict[str, Any] = {"app": app, "Context": Context, "Failure": Failure, "Kind": Kind}
    import asyncio

    names["asyncio"] = asyncio
    exec(AGENT, names)  # the same that processes run
    return app


@pytest.fixture
def chat(cli: Cli, app: App) -> Callable[..., Any]:
    """Type lines into a chat, and leave."""

    def talk(*lines: str, options: tuple[str, ...] = (), **more: Any) -> Any:
        return cli(app, "chat", "bob", *options, tty=True, stdin="\n".join([*lines, ""]), **more)

    return talk


# A turn.


def test_an_answer_is_shown_and_the_chat_goes_on(chat: Cli) -> None:
    ran = chat("hello", "again")
    assert (ran.code, ran.out) == (0, "You said: hello\nYou said: again\n")
    assert "1.2k in, 30 out · $0.002" in ran.err


def test_markdown_is_styled_where_there_are_colours(chat: Cli) -> None:
    assert "\x1b[36m*\x1b[0m \x1b[1mtwo\x1b[0m" in chat("long").out
    assert "- **two**" in chat("long", env={"NO_COLOR": "1"}).out
    ran = chat("long", "wipe", "n", options=("--no-color",))
    assert "- **two**" in ran.out
    assert "\x1b[3" not in ran.out + ran.err


def test_a_tool_has_a_card_with_a_folded_result(chat: Cli) -> None:
    ran = chat("look", env={"NO_COLOR": "1"})
    assert "+ look notes.txt" in ran.err
    assert "| line 4 of notes.txt\n  | ... 16 more lines" in ran.err
    assert ran.out.startswith("I look.\n")


def test_the_whole_output_of_a_tool_can_be_asked_for(chat: Cli) -> None:
    assert "line 20 of notes.txt" in chat("look", "/output").err


def test_a_tool_that_fails_says_why(chat: Cli) -> None:
    # How long it took is told from ten milliseconds on.
    assert re.search(
        r"x look missing( \d+ms)?\n  \| There is no such file\.", chat("fail", env={"NO_COLOR": "1"}).err
    )


def test_a_plan_is_shown_as_a_list(chat: Cli) -> None:
    assert "To do: 1 of 2 done\n  [x] look\n  [ ] act\n" in chat("plan", env={"NO_COLOR": "1"}).err


def test_a_summary_is_shown_as_the_answer(chat: Cli) -> None:
    assert chat("finish").out == "All of it is done now, and it was checked.\n"


def test_thoughts_are_dimmed_and_can_be_left_out(chat: Cli) -> None:
    assert "\x1b[2mHmm, let me see.\x1b[0m" in chat("think").err
    assert "Hmm" not in chat("think", options=("--no-thoughts",)).err
    assert "Hmm" not in chat("/thoughts off", "think").err


def test_a_failure_is_told_and_the_chat_goes_on(chat: Cli) -> None:
    ran = chat("break", "hello")
    assert (ran.code, ran.out) == (0, "You said: hello\n")
    assert "error: The model is away." in ran.err.replace("\x1b[31m", "").replace("\x1b[0m", "")


def test_control_characters_of_a_model_do_not_reach_the_terminal(chat: Cli) -> None:
    ran = chat("say \x1b]0;title\x07")
    assert ran.out == "You said: say \\x1b]0;title\\x07\n"


# Questions.


def test_a_yes_lets_a_tool_run(chat: Cli) -> None:
    ran = chat("wipe", "y", env={"NO_COLOR": "1"})
    assert "? bob wants to use wipe. It writes.\n    target: disk\n  Allow it? [y]es" in ran.err
    assert "wiped disk" in ran.out


def test_a_no_ends_the_turn(chat: Cli) -> None:
    ran = chat("wipe", "n", "hello")
    assert ran.out == "You said: hello\n"
    assert "Declined." in ran.err


def test_anything_but_a_yes_is_a_no_with_a_reason(chat: Cli) -> None:
    ran = chat("wipe", "use the other disk", options=("--conversation", "s"))
    assert "wiped" not in ran.out
    assert "use the other disk" in ran.err


def test_always_is_asked_once_in_a_session(chat: Cli) -> None:
    ran = chat("wipe", "a", "wipe", "wipe")
    assert ran.err.count("Allow it?") == 1
    assert ran.out.count("wiped disk") == 3


def test_a_long_input_is_cut_and_can_be_seen_whole(cli: Cli) -> None:
    app = App("long")

    @app.action(requires_confirmation=True)
    async def note_down(text: str) -> str:
        """Store a text."""
        return "stored"

    from fairlead.agents.models.script import call

    script = ScriptModel([call("note_down", text="x\n" * 100 + "the end"), "Stored."])
    app.add(Agent("bob", model=script, instructions="Store.", tools=["note_down"]).action)
    ran = cli(app, "chat", tty=True, stdin="go\nv\ny\n")
    before, after = ran.err.split("[v]iew", 1)
    assert "the end" not in before
    assert "more characters" in before
    assert "the end" in after
    assert ran.out == "Stored.\n"


def test_a_question_is_answered_by_number_word_or_text(chat: Cli) -> None:
    assert '"blue"' in chat("colour", "2").out
    assert '"red"' in chat("colour", "red").out
    assert '"Ada"' in chat("name", "Ada").out
    ran = chat("colours", "1, 2")
    assert '"red\\nblue"' in ran.out
    assert "1  red" in ran.err.replace("\x1b[36m", "").replace("\x1b[0m", "")


def test_a_question_that_is_not_answered_waits_for_the_next_line(chat: Cli) -> None:
    ran = chat("colour", "", "2")
    assert "It waits for your answer" in ran.err
    assert '"blue"' in ran.out


# Sessions.


def test_a_session_is_resumed_by_its_id(chat: Cli) -> None:
    chat("hello", options=("--conversation", "mine"))
    ran = chat("/history", options=("--conversation", "mine"))
    assert ran.err.count("You said: hello") == 2  # as a reminder, and because it was asked for
    assert "conversation mine" in ran.err


def test_the_latest_session_is_resumed(chat: Cli) -> None:
    assert "There is no conversation to resume" in chat(options=("--resume",)).err
    chat("hello", options=("--conversation", "first"))
    chat("goodbye", options=("--conversation", "second"))
    ran = chat(options=("--resume",))
    assert "conversation second" in ran.err
    assert "You said: goodbye" in ran.err


def test_a_question_of_an_earlier_chat_is_answered_in_the_next(chat: Cli) -> None:
    chat("colour", "", options=("--conversation", "s"))
    ran = chat("blue", options=("--conversation", "s"))
    assert "Which colour?" in ran.err
    assert '"blue"' in ran.out


def test_sessions_are_listed_titled_and_gone_on_with(chat: Cli) -> None:
    chat("hello", options=("--conversation", "abc123"))
    ran = chat("other", "/title A fine title", "/conversations", "/resume abc", "/history", "/title")
    assert "A fine title" in ran.err
    assert ran.err.index("Session abc123: hello") < ran.err.rindex("You said: hello")


def test_a_new_session_knows_nothing_of_the_last(chat: Cli) -> None:
    ran = chat("hello", "/new", "/history")
    assert "A new conversation: " in ran.err
    assert "Nothing has been said yet." in ran.err


def test_a_session_is_cleared(chat: Cli) -> None:
    assert "Nothing has been said yet." in chat("hello", "/clear", "/history").err


# Commands.


def test_commands_are_listed(chat: Cli) -> None:
    said = chat("/help").err
    words = "help new conversations resume title clear history model tools usage save thoughts exit"
    assert [name for name in words.split() if f"/{name}" not in said] == []


def test_commands_are_listed_in_whole_words_as_wide_as_the_terminal_is(chat: Cli) -> None:
    wide = chat("/help", env={"NO_COLOR": "1"}).err
    narrow = chat("/help", env={"NO_COLOR": "1", "COLUMNS": "44"}).err
    listed = narrow[narrow.index("Commands:") :].splitlines()
    assert max(map(len, listed)) <= 44
    assert narrow[narrow.index("Commands:") :].split() == wide[wide.index("Commands:") :].split()


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("/histroy", "Did you mean '/history'?"),
        ("/resume nothing", "is no conversation with this agent"),
        ("/resume", "takes the id"),
        ("/model nowhere/x", "No model provider is called 'nowhere'"),
        ("/thoughts maybe", "on or off"),
        ("/history x", "how many"),
        ("/save", "takes a file"),
        ("/save x.md", "nothing to save"),
        ("/output", "No tool has been used yet."),
    ],
)
def test_a_command_that_cannot_be_done_says_why(chat: Cli, typed: str, told: str) -> None:
    ran = chat(typed, "hello")
    assert told in ran.err
    assert ran.out == "You said: hello\n"


def test_two_slashes_begin_a_message(chat: Cli) -> None:
    assert chat("//help me").out == "You said: /help me\n"


def test_the_model_is_changed(chat: Cli, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('[[turn]]\ntext = "I am another."\n')
    ran = chat("/model", "/model script/other.toml", "hello")
    assert "The model is script/other.toml" in ran.err
    assert ran.out == "I am another.\n"


def test_tools_and_usage_are_shown(chat: Cli) -> None:
    said = chat("hello", "hello", "/tools", "/usage", env={"NO_COLOR": "1"}).err
    assert "wipe      ask   Wipe a thing." in said
    assert "look      auto  Look at a file." in said
    assert "2 turns · 2.4k in, 60 out · $0.004" in said


def test_a_session_is_saved(chat: Cli, tmp_path: Path) -> None:
    ran = chat("look", "/save notes.md", "/save notes.json", "/save notes.md")
    assert "is there already" in ran.err
    saved = (tmp_path / "notes.md").read_text()
    assert saved.startswith("# look\n\n## You\n\nlook\n\n## bob\n\nI look.\n\n- `look`")
    told = json.loads((tmp_path / "notes.json").read_text())
    assert [each["role"] for each in told["transcript"]] == ["user", "assistant", "tool", "assistant"]


def test_a_line_that_ends_in_a_backslash_goes_on(chat: Cli) -> None:
    assert chat("one\\", "two").out == "You said: one\ntwo\n"


def test_the_history_is_private_and_holds_no_secrets(chat: Cli, data: Path) -> None:
    chat("hello", "my key is sk-ant-REDACTED", "wipe", "n")
    kept = data / "chat_history.jsonl"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [json.loads(line) for line in kept.read_text().splitlines()] == ["hello", "wipe"]


# Pipes.


def test_a_piped_question_is_answered_once(cli: Cli, app: App) -> None:
    ran = cli(app, "chat", "bob", stdin="long\nquestion\n")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("- one\n- **two**\n")


def test_what_is_said_before_and_after_a_tool_are_lines_of_their_own(cli: Cli, app: App) -> None:
    ran = cli(app, "chat", "bob", "--verbose", stdin="look")
    assert ran.out.startswith("I look.\nIt said ")
    assert ran.out.endswith("\n")
    assert "> look notes.txt\n+ look" in ran.err


def test_events_are_printed_as_json(cli: Cli, app: App) -> None:
    ran = cli(app, "chat", "bob", "--json", stdin="look")
    kinds = [line.get("kind", line["type"]) for line in ran.lines]
    assert kinds[:4] == ["delta", "delta", "tool_call", "tool_progress"]
    assert ran.lines[-1]["type"] == "result"
    assert ran.lines[-1]["ok"] is True


def test_nobody_is_asked_in_a_pipe(cli: Cli, app: App) -> None:
    ran = cli(app, "chat", "bob", stdin="wipe")
    assert ran.code == 0
    assert '"kind":"rejected"' in ran.out


def test_a_question_in_a_pipe_says_how_to_answer(cli: Cli, app: App) -> None:
    ran = cli(app, "chat", "bob", "--conversation", "s", stdin="colour")
    assert (ran.code, ran.out) == (3, "")
    assert "Which colour?\n  1  red\n  2  blue\nAnswer it with '" in ran.err
    assert "chat bob --conversation s'" in ran.err
    assert '"blue"' in cli(app, "chat", "bob", "--conversation", "s", stdin="blue").out


def test_a_failure_in_a_pipe_is_the_exit_code(cli: Cli, app: App) -> None:
    ran = cli(app, "chat", "bob", stdin="break")
    assert (ran.code, ran.out) == (5, "")
    assert "The model is away." in ran.err


def test_an_empty_pipe_is_refused(cli: Cli, app: App) -> None:
    assert cli(app, "chat", "bob", stdin=" \n").code == 2


# With whom.


def test_the_only_agent_need_not_be_named(cli: Cli, app: App) -> None:
    assert cli(app, "chat", stdin="hello").out == "You said: hello\n"


def test_one_of_several_agents_has_to_be_named(cli: Cli, app: App) -> None:
    app.add(Agent("alice_two", model=ScriptModel(["I am Alice."]), instructions="Be Alice.").action)
    ran = cli(app, "chat", stdin="hello")
    assert ran.code == 2
    assert "expected an agent, one of bob, alice-two" in ran.err
    assert cli(app, "chat", "alice-two", stdin="hello").out == "I am Alice.\n"


def test_a_wrong_name_gets_a_near_miss(cli: Cli, app: App) -> None:
    ran = cli(app, "chat", "bobb", stdin="hello")
    assert ran.code == 4
    assert "Did you mean 'bob'?" in ran.err


def test_an_app_without_agents_says_what_to_do(cli: Cli) -> None:
    ran = cli(App("empty"), "chat", stdin="hello")
    assert ran.code == 4
    assert "@app.agent" in ran.err
    assert "chat --model local" in ran.err


def test_without_an_app_the_way_out_is_told(cli: Cli) -> None:
    ran = cli(None, "chat", stdin="hello")
    assert ran.code == 2
    assert "chat --model local" in ran.err


def test_a_model_is_talked_with_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "script.toml").write_text('[[turn]]\ntext = "I am alone."\n')
    assert cli(None, "chat", "--model", "script/script.toml", stdin="hello").out == "I am alone.\n"


def test_a_model_that_there_is_not_is_told_before_anybody_types(cli: Cli) -> None:
    ran = cli(None, "chat", "--model", "nowhere/x", tty=True, stdin="hello\n")
    assert ran.code == 4
    assert "nowhere" in ran.err
    assert "> " not in ran.err


def test_an_agent_that_takes_no_text_is_called_otherwise(cli: Cli) -> None:
    app = App("shaped")

    def add(a: int, b: int) -> int:  # type: ignore[empty-body]
        """Add two numbers."""

    app.add(agent_of(add, model=ScriptModel(["3"])).action)
    ran = cli(app, "chat", stdin="hello")
    assert ran.code == 2
    assert "add --help" in ran.err


def test_a_typed_answer_is_shown_as_data(cli: Cli) -> None:
    app = App("shaped")

    def where(prompt: str) -> dict[str, str]:  # type: ignore[empty-body]
        """Say where."""

    app.add(agent_of(where, model=ScriptModel([Turn('{"town": "Bergen"}')])).action)
    assert cli(app, "chat", tty=True, stdin="hello\n", env={"NO_COLOR": "1"}).out == "town  Bergen\n"


# An agent as a plain command.


def test_a_command_streams_the_answer_and_does_not_repeat_it(cli: Cli, app: App) -> None:
    ran = cli(app, "bob", "--prompt", "look", tty=True, env={"NO_COLOR": "1"})
    assert ran.code == 0
    assert ran.out.startswith("I look.\n")
    assert ran.out.count("It said") == 1
    assert "+ look notes.txt" in ran.err


def test_a_command_shows_a_summary_that_was_not_streamed(cli: Cli, app: App) -> None:
    assert cli(app, "bob", "--prompt", "finish", tty=True).out.startswith("All of it is done")


def test_a_command_asks_at_a_terminal_and_else_does_not(cli: Cli, app: App) -> None:
    asked = cli(app, "bob", "--prompt", "wipe", tty=True, stdin="y\n")
    assert "wiped disk" in asked.out
    assert "rejected" in cli(app, "bob", "--prompt", "wipe").out


def test_a_command_passes_events_on_as_json(cli: Cli, app: App) -> None:
    ran = cli(app, "bob", "--prompt", "look", "--ndjson")
    types = {line["type"] for line in ran.lines}
    assert {"delta", "activity", "result"} <= types


def test_a_command_gives_the_envelope_alone_where_that_is_wanted(cli: Cli, app: App) -> None:
    assert cli(app, "bob", "--prompt", "hello").json["data"] == "You said: hello"
    assert cli(app, "bob", "--prompt", "hello", "--output", "text").out == "You said: hello\n"


def test_a_command_that_asks_where_nobody_is_says_how_to_go_on(cli: Cli, app: App) -> None:
    ran = cli(app, "bob", "--prompt", "colour", "--conversation", "c", "--output", "text")
    assert ran.code == 3
    assert "1  red" in ran.err
    assert "--prompt ANSWER --conversation c'" in ran.err
