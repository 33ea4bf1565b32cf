"""A short tour of the taskboard: real commands on a board of its own, which is gone afterwards.

`make run` runs it. It asks nothing, and fails if a command does not end as the tour says.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = Path(sys.executable).is_relative_to(ROOT)
PYTHON = os.path.relpath(sys.executable, ROOT) if OURS else sys.executable
APP = f"{shlex.quote(PYTHON)} examples/taskboard/app.py"
#: On a terminal results are shown for people, elsewhere as JSON; the tour is always for people.
PLAIN = "" if sys.stdout.isatty() else " --output text"

#: What is said, what is run, and the exit code it ends with.
STEPS = (
    ("Every action is a command.", "create-task --title 'Mend the net' --priority high --due 2030-05-01", 0),
    (
        "Bad input is refused, with all that is wrong.",
        "create-task --title '' --priority hgih",
        2,
    ),
    (
        "A long action reports as it runs.",
        "import-tasks --text @examples/taskboard/tasks.csv --pause 0.05 -v",
        0,
    ),
    ("A list of things is a table.", "list-tasks --limit 5 --output table", 0),
    ("Some actions answer bit by bit; programs read events.", "search-tasks --text MOOR --ndjson", 0),
    ("What an action makes is announced as an artifact.", "export-tasks --filename board.csv -v", 0),
    ("What cannot be undone needs a yes.", "delete-task --id 1", 3),
    ("This is the yes, for scripts; on a terminal you are asked.", "delete-task --id 1 --confirm", 0),
    ("Every failure has a code, and every code an exit status.", "complete-task --id 1", 4),
)
NEXT = (
    (f"{APP} --help", "all commands"),
    (f"{APP} create-task --title 'Learn the ropes'", "a task on your own board, which stays"),
    (
        f"{APP} import-tasks --text @examples/taskboard/tasks.csv --pause 0.5",
        "a progress bar; Ctrl-C cancels",
    ),
    (f"{APP} fail --kind rate_limited --retry-after 3", "any failure you like"),
    (f"{APP} errors board_full", "what a code means"),
    ("docs/tutorial.md", "an app of your own"),
)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="taskboard-") as folder:
        environment = os.environ | {"TASKBOARD_DB": str(Path(folder, "board.sqlite"))}
        for words, command, expected in STEPS:
            shown = "--output" in command or "--ndjson" in command
            ended = step(words, command if shown else command + PLAIN, environment)
            if ended != expected:
                print(f"The tour expected exit code {expected} and got {ended}.", file=sys.stderr)
                return 1
    print(bold("Try next, from this folder:"))
    for command, words in NEXT:
        print(f"  {command}\n      {words}")
    return 0


def step(words: str, command: str, environment: dict[str, str]) -> int:
    print(bold(words))
    print(f"$ {APP} {command}", flush=True)
    run = subprocess.run(
        [*shlex.split(APP), *shlex.split(command)],
        executable=sys.executable,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=None if sys.stderr.isatty() else subprocess.STDOUT,
        check=False,
    )
    print(f"(exit code {run.returncode})\n" if run.returncode else "")
    return run.returncode


def bold(text: str) -> str:
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return f"\033[1m{text}\033[0m" if coloured else text


if __name__ == "__main__":
    sys.exit(main())
