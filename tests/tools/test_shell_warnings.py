"""What is said about a command that ended: from its text, its exit code and its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead import App
from fairlead.tools.shell import shell
from fairlead.tools.warnings import warnings


def test_silence_after_a_pipe_is_pointed_out() -> None:
    (said,) = warnings("grep x file | head", 0, "", "")
    assert "printed nothing" in said


@pytest.mark.parametrize("command", ["ls nowhere 2>/dev/null", "ls nowhere 2> /dev/null"])
def test_silence_after_hidden_errors_is_pointed_out(command: str) -> None:
    assert len(warnings(command, 0, "", "")) == 1


@pytest.mark.parametrize("command", ["true", "touch file", "mkdir -p a && cd a"])
def test_silence_of_a_plain_command_is_not(command: str) -> None:
    assert warnings(command, 0, "", "") == []


def test_a_failing_pipe_without_output_gets_no_warning() -> None:
    assert warnings("grep x file | head", 1, "", "") == []


@pytest.mark.parametrize(("out", "err"), [("x", ""), ("", "x")])
def test_output_is_warning_enough(out: str, err: str) -> None:
    assert warnings("cat file | sort", 0, out, err) == []


def test_a_broken_pipe_is_called_harmless() -> None:
    (said,) = warnings("yes | head -1", 141, "y", "")
    assert "SIGPIPE" in said
    assert "no error by itself" in said


@pytest.mark.parametrize(
    "command",
    [
        "pip install nosuch",
        "python3 -m pip install x",
        "apt-get -y install x",
        "npm install x",
        "cargo add x",
    ],
)
def test_a_failed_install_gets_a_hint(command: str) -> None:
    (said,) = warnings(command, 1, "", "ERROR: no")
    assert "package" in said


def test_inline_code_that_does_not_parse_gets_a_hint() -> None:
    said = warnings('python3 -c "print(1"', 1, "", "SyntaxError: '(' was never closed")
    assert any("Write it to a file" in each for each in said)
    assert warnings('python3 -c "1/0"', 1, "", "ZeroDivisionError: division by zero") == []


def test_a_here_document_that_is_cut_short_gets_a_hint() -> None:
    said = warnings("cat <<EOF\nabc", 1, "", "warning: here-document delimited by end-of-file (wanted `EOF')")
    assert any("here-document" in each for each in said)


@pytest.mark.parametrize("command", ["echo 'it is", 'echo "a', "echo it's"])
def test_a_quote_that_stays_open_gets_a_hint(command: str) -> None:
    assert any("quote" in each for each in warnings(command, 2, "", ""))


@pytest.mark.parametrize("command", ["echo 'a\"b'", r"echo it\'s; false", 'grep "it\'s" f', "false"])
def test_quotes_that_close_get_none(command: str) -> None:
    assert warnings(command, 1, "", "") == []


async def test_warnings_reach_the_result(tmp_path: Path) -> None:
    app = App("workshop")
    app.add(shell(tmp_path)[0])
    real = {
        "cat /dev/null | cat": "printed nothing",
        "yes | head -1": "SIGPIPE",
        "echo 'open": "quote",
        'python3 -c "print(1"': "Write it to a file",
    }
    for command, words in real.items():
        done = await app.invoke("shell_run", {"command": command}, confirm=True)
        assert any(words in said for said in done.warnings), command
