"""A short tour of the taskboard: real commands and requests on a board of its own, which is gone afterwards.

`make run` runs it. It asks nothing, and fails if something does not end as the tour says. On a terminal the server
stays up until Ctrl-C.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
OURS = Path(sys.executable).is_relative_to(ROOT)
PYTHON = os.path.relpath(sys.executable, ROOT) if OURS else sys.executable
APP = f"{shlex.quote(PYTHON)} examples/taskboard/app.py"
#: On a terminal results are shown for people, elsewhere as JSON; the tour is always for people.
PLAIN = "" if sys.stdout.isatty() else " --output text"
#: Seconds that anything of the tour may take.
PATIENCE = 60
BUILT = "build/plugins"
SERVE = "serve --port 0 --console=0"

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
    (
        "An agent uses the same actions: here a script plays the model, so it needs none.",
        "steward --prompt 'The winches are greased.' -v",
        0,
    ),
    (
        "A pipeline wires actions and agents; it is checked before it runs, and is an action, too.",
        "file-report --words 'The mooring line is spliced' --done true",
        0,
    ),
    ("What an action makes is announced as an artifact.", "export-tasks --filename board.csv -v", 0),
    ("What cannot be undone needs a yes.", "delete-task --id 1", 3),
    ("This is the yes, for scripts; on a terminal you are asked.", "delete-task --id 1 --confirm", 0),
    ("Every failure has a code, and every code an exit status.", "complete-task --id 1", 4),
    ("A plugin in C is compiled,", f"plugin build examples/plugins/notes --out {BUILT}", 0),
    (
        "and installed; it will run in a process of its own, behind a fence.",
        f"plugin install {BUILT}/acme.notes --yes",
        0,
    ),
    ("Its tools are actions like all others.", "add-note --title Tide --body 'High water is at six.'", 0),
    (
        "A call can be left to whoever works, and outlives every crash.",
        "run create-task --title Rest --detach",
        0,
    ),
)
#: What is said, the path and the body of a request to the server, and the status it ends with.
REQUESTS: tuple[tuple[str, str, dict[str, object], int], ...] = (
    (
        "Programs call the same actions over HTTP.",
        "/fairlead/actions/list_tasks/invoke",
        {"input": {"limit": 2}},
        200,
    ),
    ("They hear of failures by status and code.", "/fairlead/actions/create_task/invoke", {"input": {}}, 400),
    (
        "Models call them as tools, over MCP.",
        "/mcp",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "tour", "version": "1"},
            },
        },
        200,
    ),
)
AGENT = "/api/v1/agents/steward"
NEXT = (
    (f"{APP} serve --console", "the server and the browser console: docs at /docs, MCP at /mcp"),
    (f"{APP} dev", "the console alone; it loads the app again when you change it"),
    (
        f"{APP} chat steward",
        "talk with the agent; FAIRLEAD_MODEL=openai/gpt-5-mini, or local, makes it clever",
    ),
    (f"{APP} mcp install", "settings for MCP clients"),
    (f"{APP} --help", "all commands"),
    (f"{APP} create-task --title 'Learn the ropes'", "a task on your own board, which stays"),
    (
        f"{APP} import-tasks --text @examples/taskboard/tasks.csv --pause 0.5",
        "a progress bar; Ctrl-C cancels",
    ),
    (f"{APP} plumb render examples/taskboard/log.plumb --format mermaid", "a picture of the pipeline"),
    (f"{APP} plugin run {BUILT}/acme.notes list_notes", "a tool of the plugin, without the app"),
    (f"{APP} fail --kind rate_limited --retry-after 3", "any failure you like"),
    (f"{APP} errors board_full", "what a code means"),
    ("docs/tutorial.md", "an app of your own"),
)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="taskboard-") as folder:
        environment = os.environ | {
            "TASKBOARD_DB": str(Path(folder, "board.sqlite")),
            "FAIRLEAD_DATA": folder,
            # The tour's model is the script, whatever model is configured, and its webhook is on this machine.
            "FAIRLEAD_MODEL": "",
            "FAIRLEAD_ALLOW_PRIVATE_HOSTS": "127.0.0.1",
        }
        for words, command, expected in STEPS:
            ended = step(words, command + _plain(command), environment)
            if ended != expected:
                return lost(f"exit code {expected}", ended)
        with server(environment) as url:
            for said, path, body, wanted in REQUESTS:
                status, _ = request(said, url + path, body)
                if status != wanted:
                    return lost(f"status {wanted}", status)
            if not agents_api(url, environment):
                return 1
            tell_next()
            if sys.stdin.isatty():
                stay(url)
    return 0


def _plain(command: str) -> str:
    known = ("--output", "--ndjson", "--detach", "plugin ")
    return "" if any(word in command for word in known) else PLAIN


def agents_api(url: str, environment: dict[str, str]) -> bool:
    """Have the agent do a task for another program, which is told by a webhook when it is done."""
    make = "keys new tour --permissions tasks:write"
    print(bold("Other people's programs have keys, and ask agents."))
    print(f"$ {APP} {make}", flush=True)
    made = subprocess.run(
        [*shlex.split(APP), *shlex.split(make)],
        executable=sys.executable,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    key = made.stdout.split()[-1]
    print(f"{key[:12]}...\n", flush=True)
    with webhook() as (hook, heard):
        body: dict[str, object] = {"message": "The bilge pump is replaced."}
        status, given = request("They leave it a task, and go.", f"{url}{AGENT}/tasks", body, key)
        if status != 202:
            lost("status 202", status)
            return False
        id = given["data"]["task_id"]
        status, _ = request(
            "A webhook tells them of it.", f"{url}{AGENT}/tasks/{id}/webhooks", {"url": hook}, key
        )
        while status == 201:
            told = heard.get(timeout=PATIENCE)
            print(f"The webhook hears: {told['status']}", flush=True)
            if told["status"] == "completed":
                print(flush=True)
                return True
    lost("status 201", status)
    return False


@contextmanager
def webhook() -> Iterator[tuple[str, Queue[dict[str, Any]]]]:
    """A server of somebody else's: its URL, and what it is told."""
    heard: Queue[dict[str, Any]] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}/hook", heard
        listening.shutdown()


def lost(expected: str, found: int) -> int:
    print(f"The tour expected {expected} and got {found}.", file=sys.stderr)
    return 1


def tell_next() -> None:
    print(bold("Try next, from this folder:"))
    for command, words in NEXT:
        print(f"  {command}\n      {words}")


def stay(url: str) -> None:
    print(f"\nThe tour's server stays up: open {url}/docs. Ctrl-C stops it.", flush=True)
    try:
        sys.stdin.read()
    except KeyboardInterrupt:
        print()


@contextmanager
def server(environment: dict[str, str]) -> Iterator[str]:
    """The app's own server on a free port; gives its URL."""
    print(bold("One command serves all the rest."))
    print(f"$ {APP} {SERVE}", flush=True)
    with subprocess.Popen(
        [*shlex.split(APP), *shlex.split(SERVE)],
        executable=sys.executable,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        found: Queue[str] = Queue()
        telling = threading.Thread(target=tell, args=(process, found))
        telling.start()
        try:
            url = found.get(timeout=PATIENCE)
            ready(url)
            print(flush=True)
            yield url
        finally:
            process.terminate()
            telling.join()


def tell(process: subprocess.Popen[str], found: Queue[str]) -> None:
    """Say what the server says, and hand on its URL."""
    assert process.stderr is not None
    for line in process.stderr:
        print(line, end="", flush=True)
        at = re.search(r"(http://\S+)/mcp$", line.rstrip())
        if at:
            found.put(at[1])


def ready(url: str) -> None:
    """Wait until the server answers."""
    for _ in range(PATIENCE * 20):
        try:
            urllib.request.urlopen(f"{url}/readyz", timeout=PATIENCE).close()  # noqa: S310  # our own server
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("The server does not answer.")


def request(words: str, url: str, body: dict[str, object], key: str = "") -> tuple[int, Any]:
    """The status and the answer of a request, which are shown."""
    print(bold(words))
    print(f"POST {urlsplit(url).path}")
    sent = urllib.request.Request(url, json.dumps(body).encode(), method="POST")  # noqa: S310  # our own server
    sent.add_header("Content-Type", "application/json")
    sent.add_header("Accept", "application/json, text/event-stream")
    if key:
        sent.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(sent, timeout=PATIENCE) as answer:  # noqa: S310
            return told(answer.status, answer.read())
    except urllib.error.HTTPError as refused:
        return told(refused.code, refused.read())


def told(status: int, body: bytes) -> tuple[int, Any]:
    text = body.decode()
    print(f"{status} {text[:400]}{'...' if len(text) > 400 else ''}\n", flush=True)
    return status, json.loads(text)


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
