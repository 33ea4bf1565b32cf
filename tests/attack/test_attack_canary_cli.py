"""The canary in a shell: what the command line prints, logs and leaves on disk, backups included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attack.canary import CANARY, files_in, leaks
from attack.canary_shell import Shell
from warm import Warm

APP = (
    "import os, pathlib\nfrom attack.canary import aviary\napp = aviary(pathlib.Path(os.environ['AVIARY']))\n"
)
GIVEN = ["--user", "ann", "--password", CANARY, "--pin", CANARY]


@pytest.mark.timeout(120)
def test_a_secret_is_found_in_nothing_that_the_command_line_says_or_keeps(
    tmp_path: Path, warm_python: Warm
) -> None:
    shell = Shell(tmp_path, warm_python)
    shell.run("secrets", "set", "stripe", stdin=CANARY)
    shell.run("secrets", "list")
    for more in ({}, {"FAIRLEAD_DEBUG": "1"}):
        shell.run("login", *GIVEN, "--confirm", ok=False, **more)
        shell.run("login", *GIVEN, "--confirm", "--json", ok=False, **more)
        shell.run("login", "--user", "ann", "--pasword", CANARY, ok=False, **more)
    shell.run("keep", "--user", "ann", "--api-key", CANARY, "--pin", CANARY)
    shell.run("keep", "--user", "ann", f"--api_key={CANARY}", "--pin", "", "--bogus", CANARY, ok=False)
    call = {
        "action": "login",
        "input": {"user": "ann", "password": CANARY, "pin": CANARY},
        "confirm": True,
        "auth": {"token": CANARY},
    }
    shell.run("json", stdin=json.dumps(call), ok=False)
    keep = ["keep", "--user", "ann", "--api-key", CANARY, "--pin", CANARY]
    tasks = [
        shell.run("run", "--detach", *keep, "--json"),
        shell.run("run", "--detach", "login", *GIVEN, "--confirm", "--json"),
    ]
    with shell.working():
        for task in tasks:
            id = json.loads(task)["id"]
            shell.run("tasks", "watch", id, "--json", ok=None)
            shell.run("tasks", "show", id)
            shell.run("tasks", "show", id, "--json")
    shell.run("tasks", "list")
    shell.run("chat", "helper", "--verbose", stdin=f"Log in with password={CANARY}\n")
    shell.run("chat", "helper", "--json", stdin=f"Log in with password={CANARY}\n")
    shell.run("store", "backup", str(tmp_path / "backup.db"))
    shell.run("store", "status")
    shell.run("audit")
    shell.run("doctor", "--json", ok=None)
    shell.run("manifest")
    places = {**shell.said, **files_in(tmp_path)}
    assert "backup.db" in places
    assert leaks(places) == {}
