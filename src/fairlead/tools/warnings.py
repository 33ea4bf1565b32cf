"""Warnings and hints about a command that ended: what a model is told so that it reads the outcome rightly.

They are decided by the command's text, its exit code and its output; nothing is run here.
"""

from __future__ import annotations

import re
from typing import Final

#: What a shell reports for a program that wrote to a pipe which nobody reads any more: 128 + SIGPIPE.
BROKEN_PIPE: Final = 141

_HIDING: Final = re.compile(r"\||2>\s*/dev/null")
_INSTALL: Final = re.compile(
    r"\b(?:apt(?:-get)?|apk|dnf|yum|pacman|brew|pip3?|pipx|uv|poetry|npm|pnpm|yarn|gem|cargo|go|conda)\b"
    r"[^|;&\n]*\s(?:install|add|-S|get)\b"
)
_INLINE: Final = re.compile(
    r"\b(?:python[\d.]*|node|ruby|perl|php|deno)\b[^|;&\n]*\s(?:-[A-Za-z]*[cer]|--eval|--print|eval)\b"
)
_PARSE: Final = re.compile(
    r"SyntaxError|IndentationError|TabError|Unterminated|unexpected token|syntax error|Parse error"
    r"|unexpected end|invalid syntax|EOL while scanning",
    re.IGNORECASE,
)
_HEREDOC: Final = re.compile(r"<<-?\s*['\"\\]?\w+")
_HEREDOC_TROUBLE: Final = re.compile(
    r"here-document|delimited by end-of-file|unexpected end of file", re.IGNORECASE
)
_QUOTE_TROUBLE: Final = re.compile(
    r"unexpected EOF while looking for matching|unterminated quoted string|unmatched ['\"`]", re.IGNORECASE
)


def warnings(command: str, exit_code: int, stdout: str, stderr: str) -> list[str]:
    """What should be said about a command that ended with this code and these outputs."""
    if exit_code == 0:
        return _silent(command, stdout, stderr)
    if exit_code == BROKEN_PIPE:
        return [
            "Exit code 141 means that a program in the pipeline wrote on after its reader had stopped (SIGPIPE). "
            "That is usual with `| head` and the like, and no error by itself."
        ]
    return _hints(command, stdout, stderr)


def _silent(command: str, stdout: str, stderr: str) -> list[str]:
    if stdout.strip() or stderr.strip():
        return []
    if not _HIDING.search(command):
        return []
    return [
        "The command succeeded but printed nothing. A pipe or `2>/dev/null` may hide an error or filter everything "
        "away: run the first part alone, with its errors shown, before concluding that there is nothing."
    ]


def _hints(command: str, stdout: str, stderr: str) -> list[str]:
    """Hints on a command that failed, the likeliest causes only."""
    said, hints = f"{stderr}\n{stdout}", []
    if _INSTALL.search(command):
        hints.append(
            "A package could not be installed. Check its name and version, whether this place has a network, and "
            "whether it may write where packages go; for Python a virtual environment in the working folder may help."
        )
    if _INLINE.search(command) and _PARSE.search(said):
        hints.append(
            "The code inside the command line could not be parsed; the shell may have changed its quotes. "
            "Write it to a file first and run the file."
        )
    if _HEREDOC.search(command) and (_HEREDOC_TROUBLE.search(said) or _PARSE.search(said)):
        hints.append(
            "The here-document may be cut short or expanded: its end mark must stand alone on a line, and a quoted "
            "mark (<<'EOF') keeps `$` and backticks as they are. Writing a file with a file tool avoids both."
        )
    if _QUOTE_TROUBLE.search(said) or _unbalanced(command):
        hints.append(
            "The command seems to have a quote that is not closed. Count the quotes, or write the text to a file "
            "and use the file."
        )
    return hints


def _unbalanced(command: str) -> bool:
    """Whether a quote stays open, as a shell reads it. A here-document's text is not read as quotes."""
    if _HEREDOC.search(command):
        return False
    quote = ""
    signs = iter(command)
    for sign in signs:
        if sign == "\\" and quote != "'":
            next(signs, None)
        elif quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
    return bool(quote)
