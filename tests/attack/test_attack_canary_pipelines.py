"""The canary in typed pipelines: actions, agents and their tools, programs, telemetry, durable steps.

A recording is left out: it is made to have the messages as they were.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attack.canary import CANARY, files_in, leaks
from attack.canary_shell import Shell
from warm import Warm

PROGRAMS = {
    "keep": "let main : !{ user: string, api_key: string, pin: string } -> !string = action keep",
    "login": """
let main : !{ user: string, password: string, pin: string } -> !null = plumb(input, output) {
  input ; action login ; output
}""",
    "agent": """
let keep : { user: string, api_key: string, pin: string } -> string = action keep
let main : !string -> !string = agent { model: "default", tools: [keep] }
""",
    "exec": """
let main : !{ user: string, password: string } -> !string = exec { cmd: "sh", args: ["failing.sh"] }
""",
}
FAILING = f'read line; echo "password={CANARY} is wrong: $line" >&2; exit 3\n'
GIVEN = {"user": "ann", "api_key": CANARY, "pin": CANARY}
LOGIN = {"user": "ann", "password": CANARY, "pin": CANARY}


@pytest.mark.timeout(120)
def test_a_secret_is_found_in_nothing_that_pipelines_say_or_keep(tmp_path: Path, warm_python: Warm) -> None:
    shell = Shell(tmp_path, warm_python)
    for name, text in PROGRAMS.items():
        (tmp_path / f"{name}.plumb").write_text(text)

    def plumb(name: str, given: object, *words: str, ok: bool | None = True) -> None:
        line = json.dumps(given) + "\n"
        shell.run("plumb", "run", f"{name}.plumb", "--telemetry", *words, stdin=line, ok=ok)

    plumb("keep", GIVEN)
    plumb("keep", GIVEN, "--durable", "monday")
    plumb("keep", {**GIVEN, "user": 1}, ok=False)
    plumb("login", LOGIN, ok=False)
    plumb("login", LOGIN, "--auto-approve", ok=False)
    plumb("login", LOGIN, "--auto-approve", "--durable", "tuesday", ok=False)
    plumb("agent", f"Keep password={CANARY}")
    plumb("agent", "Keep it.", "--durable", "wednesday")
    (tmp_path / "failing.sh").write_text(FAILING)
    plumb("exec", {"user": "ann", "password": CANARY}, ok=False)
    (tmp_path / "failing.sh").unlink()
    assert leaks({**shell.said, **files_in(tmp_path)}) == {}
