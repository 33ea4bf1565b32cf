"""The surface inside other people's apps, and `fairlead serve` as a process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from fairlead import App, Context
from warm import Warm

PATIENCE = 30.0
FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))
APP = '''
import asyncio
from fairlead import App

app = App("quay")
print("a stray line while importing")


@app.action
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@app.action
async def slow(seconds: float) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "done"


@app.action
def block(seconds: float) -> str:
    """Take a while, and listen to nobody."""
    import time
    time.sleep(seconds)
    return "done"


@app.action
async def talk() -> object:
    """Talk without end."""
    while True:
        yield "word"
        await asyncio.sleep(0.05)
'''


MATE = """
from fairlead import App

app = App("quay", store="sqlite:///quay.db")
site = app.http(gateway={"files_quota": 4, "required": True})


@app.agent
async def mate(message: str) -> str:
    \"\"\"Help.\"\"\"
"""


TOKENS = '''
import os
from fairlead import App

app = App("safe", store="sqlite:///safe.db", confirmation_secret=b"0123456789abcdef0123456789abcdef")


@app.action
async def where() -> int:
    """Say which process this is."""
    return os.getpid()


@app.action(side_effects="write", requires_confirmation="token")
async def burn(count: int) -> int:
    """Burn some letters."""
    return count
'''


TALKING = '''
import asyncio
from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel, call

app = App("quay", store="sqlite:///quay.db")
log = open("log", "w", buffering=1)


@app.service
def crane():
    yield "crane"
    log.write("the crane is gone\\n")


@app.action
async def wait_here() -> None:
    """Wait until it is cancelled."""
    log.write("waiting\\n")
    try:
        await asyncio.sleep(60)
    finally:
        log.write("the run is over\\n")


model = ScriptModel([call("wait_here")], name="script/quay")
app.add(Agent("mate", model=model, instructions="Help.", tools=["wait_here"]).action)
'''


BROKEN = """

@app.service
def pier():
    raise ValueError("the pier is closed, password=hunter2hunter2")
    yield
"""


def mounted(site: Any, host: str) -> Any:
    if host == "starlette":
        return Starlette(routes=[Mount("/tools", site)])
    fast = FastAPI()
    fast.mount("/tools", site)
    return fast


@pytest.mark.parametrize("host", ["starlette", "fastapi"])
def test_it_can_be_mounted_in_another_app(harbour: Any, host: str) -> None:
    with TestClient(mounted(harbour.app.http(), host)) as client:
        answer = client.post("/tools/fairlead/actions/add/invoke", json={"input": {"a": 1}})
        assert answer.json()["data"] == {"sum": 2}
        assert client.get("/tools/openapi.json").json()["servers"] == [{"url": "/tools"}]
        assert client.get("/tools/docs").status_code == 200
        assert client.post("/tools/fairlead/actions/nope/invoke", json={}).status_code == 404
        message = client.get("/tools/").json()["error"]["message"]
        assert re.findall(r"/[a-z/]+", message) == ["/tools/fairlead/actions", "/tools/docs"]


def test_services_live_as_long_as_the_server(harbour: Any) -> None:
    seen: list[str] = []
    app: App = harbour.app

    @app.service
    def pier() -> Iterator[str]:
        seen.append("open")
        yield "pier"
        seen.append("closed")

    with TestClient(harbour.app.http()) as client:
        assert seen == ["open"]
        client.post("/fairlead/actions/add/invoke", json={"input": {"a": 1}})
    assert seen == ["open", "closed"]


@pytest.fixture
def quay(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


class Started:
    """How `fairlead` is started. A fixture cannot be asked for by helpers, so it leaves the warm Python here."""

    warm: Warm


@pytest.fixture(autouse=True)
def _warm(warm_python: Warm) -> None:
    Started.warm = warm_python


def fairlead(*arguments: str) -> list[str]:
    return Started.warm.command(FAIRLEAD, *arguments)


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], httpx.Client, str]]:
    """`fairlead serve` on a free port, ready; gives the process, a client and what it said."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FAIRLEAD_")}
    serve = ["serve", "--port", "0", *options]
    # What starts processes of its own is started as anybody does it.
    alone = not {"--workers", "--reload"} & set(options)
    process = subprocess.Popen(
        fairlead(*serve) if alone else [sys.executable, "-m", "fairlead", *serve],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = ""
    url = None
    try:
        while url is None:
            line = process.stderr.readline()
            assert line, said
            said += line
            found = re.search(r"actions\s+(http://\S+)/fairlead/actions", line)
            url = found[1] if found else None
        with httpx.Client(base_url=url, timeout=PATIENCE) as client:
            for _ in range(400):
                try:
                    if client.get("/readyz").status_code == 200:
                        break
                except httpx.TransportError:
                    threading.Event().wait(0.02)
            yield process, client, said
    finally:
        # Twice: at once, with the workers, which would outlive a supervisor that is killed.
        process.terminate()
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.stderr.close()


def test_serve_says_where_it_is_and_that_it_knows_nobody(quay: Path) -> None:
    with served(quay) as (process, client, said):
        assert client.post("/fairlead/actions/add/invoke", json={"input": {"a": 1}}).json()["data"] == 2
        places = re.findall(r"/[a-z/]+", client.get("/").json()["error"]["message"])
        assert [client.get(place).status_code for place in places] == [200, 200]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert "anonymous" in said + process.stderr.read()


@pytest.mark.parametrize("options", [[], ["--workers", "2"]])
def test_what_the_app_tells_its_gateway_holds_for_serve(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "app.py").write_text(MATE)
    key = subprocess.run(
        fairlead("keys", "new", "ann"), cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.strip()
    about = {"filename": "a.txt", "content_type": "text/plain"}
    with served(tmp_path, *options) as (_, client, _):
        for content, status in ((b"four", 200), (b"", 413)):
            file = client.post(
                "/api/v1/files/presign-upload", json=about, headers={"Authorization": f"Bearer {key}"}
            ).json()["data"]
            told = client.put(file["upload_url"], content=content, headers={"Content-Type": "text/plain"})
            assert told.status_code == status
        # Who may come in, each server says for itself.
        assert client.get("/fairlead/actions").status_code == 200


def test_a_running_call_ends_before_the_server_does(quay: Path) -> None:
    with served(quay) as (process, client, _):
        answers: list[httpx.Response] = []
        body = {"input": {"seconds": 1}}
        caller = threading.Thread(
            target=lambda: answers.append(client.post("/fairlead/actions/slow/invoke", json=body))
        )
        caller.start()
        with httpx.Client(base_url=client.base_url) as other:
            while "slow" not in other.get("/metrics").text:
                threading.Event().wait(0.02)
            process.send_signal(signal.SIGTERM)
            while other.get("/readyz").status_code != 503:
                threading.Event().wait(0.02)
        caller.join(PATIENCE)
        assert answers[0].json()["data"] == "done"
        assert process.wait(PATIENCE) == 0


def test_each_of_several_processes_answers_mcp_clients(quay: Path) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    add = {"name": "add", "arguments": {"a": 1}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": add}
    accept = {"accept": "application/json, text/event-stream"}
    with served(quay, "--workers", "2") as (_, client, _):
        # A session would be known to one of them.
        assert "mcp-session-id" not in client.post("/mcp", json=begin, headers=accept).headers
        said = client.post("/mcp", json=call, headers={**accept, "mcp-protocol-version": "2025-11-25"})
        assert said.json()["result"]["structuredContent"] == {"result": 2}


def ask_anew(url: httpx.URL, action: str, **body: Any) -> Any:
    """A call by a connection of its own, which any of the processes may take."""
    with httpx.Client(base_url=url, timeout=PATIENCE) as client:
        return client.post(f"/fairlead/actions/{action}/invoke", json=body).json()


def test_a_token_works_once_in_all_processes_together_and_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(TOKENS)
    done: list[bool] = []
    token = None
    for _ in range(2):
        with served(tmp_path, "--workers", "2") as (_, client, _):
            url = client.base_url
            asked = ask_anew(url, "burn", input={"count": 3})
            token = token or asked["error"]["details"]["confirmation"]["code"]
            processes: set[int] = set()
            with ThreadPoolExecutor(8) as pool:
                while len(processes) < 2:
                    found = [pool.submit(ask_anew, url, "where") for _ in range(8)]
                    processes.update(each.result()["data"] for each in found)
                burn = {"input": {"count": 3}, "confirm": token}
                burnt = [pool.submit(ask_anew, url, "burn", **burn) for _ in range(40)]
            done += [each.result()["ok"] for each in burnt]
    assert (sum(done), len(done)) == (1, 80)


def test_keys_let_others_in_and_several_processes_serve(quay: Path) -> None:
    new = fairlead("keys", "new", "ann", "--file", str(quay / "keys.json"), "--json")
    key = json.loads(subprocess.run(new, cwd=quay, capture_output=True, check=True).stdout)["key"]
    with served(quay, "--api-keys", "keys.json", "--workers", "2") as (_, client, said):
        assert "anonymous" not in said
        bearer = {"authorization": f"Bearer {key}"}
        assert (
            client.post("/fairlead/actions/add/invoke", json={"input": {"a": 1}}, headers=bearer).status_code
            == 200
        )
        wrong = {"authorization": "Bearer flk_000000000000_" + "x" * 43}
        refused = client.post("/fairlead/actions/add/invoke", json={"input": {"a": 1}}, headers=wrong)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "options",
    [
        ("--host", "0.0.0.0"),
        ("--host", "::"),
        ("--port", "x"),
        ("--port", "70000"),
        ("--workers", "0"),
        ("--workers", "2", "--reload"),
        ("--issuer", "x"),
        ("--log-level", "loud"),
        ("--api-keys", "nowhere.json"),
        ("--jwks", "nowhere.json"),
        ("--drain", "-1"),
        ("--cors", "nonsense"),
        ("--cors", "nonsense", "--workers", "2"),
        ("--root-path", "tools"),
        ("--prot", "1"),
        ("--console=http",),
        ("--console", "--workers", "2"),
        ("--console", "--reload"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(quay: Path, options: tuple[str, ...]) -> None:
    done = subprocess.run(
        fairlead("serve", *options),
        cwd=quay,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode in (1, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_keys_that_are_not_there_are_told_with_the_command_that_makes_them(quay: Path) -> None:
    done = subprocess.run(
        fairlead("serve", "--api-keys", "none.json"),
        cwd=quay,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "keys new NAME --file none.json" in done.stderr


def test_a_port_that_is_taken_is_told(quay: Path) -> None:
    with served(quay) as (_, client, _said):
        taken = ["--port", str(client.base_url.port)]
        done = subprocess.run(
            fairlead("serve", *taken),
            cwd=quay,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 5
    assert "--port 0" in done.stderr


def test_the_console_is_in_the_same_process_and_ends_with_it(quay: Path) -> None:
    with served(quay, "--console=0") as (process, client, said):
        found = re.search(r"console\s+(http://127\.0\.0\.1:\d+)/#token=(\S+)", said)
        assert found, said
        with httpx.Client(base_url=found[1], timeout=PATIENCE) as console:
            assert console.get("/api/actions").status_code == 401
            session = console.post("/api/session", json={"token": found[2]}).json()["session"]
            told = console.get("/api/actions", headers={"fairlead-session": session}).json()
        assert told["ok"]
        assert client.get("/api/actions").status_code == 404, "it is at a port of its own"
        process.terminate()
        assert process.wait(PATIENCE) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(found[1])


def test_a_run_in_the_console_ends_before_the_services_that_it_uses(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(TALKING)
    log = tmp_path / "log"
    with served(tmp_path, "--console=0") as (process, _, said):
        found = re.search(r"console\s+(http://127\.0\.0\.1:\d+)/#token=(\S+)", said)
        assert found, said
        with httpx.Client(base_url=found[1], timeout=PATIENCE) as console:
            session = console.post("/api/session", json={"token": found[2]}).json()["session"]
            console.headers["fairlead-session"] = session
            words = {"id": "talk", "input": {"prompt": "Wait."}}
            with console.stream("POST", "/api/agents/mate/say", json=words):
                while not log.read_text():
                    threading.Event().wait(0.02)
                process.terminate()
                assert process.wait(PATIENCE) == 0
    assert log.read_text().splitlines() == ["waiting", "the run is over", "the crane is gone"]


def test_the_document_is_printed_or_written(quay: Path) -> None:
    command = fairlead("openapi")
    printed = subprocess.run(command, cwd=quay, capture_output=True, text=True, check=True)
    assert json.loads(printed.stdout)["openapi"].startswith("3.1")
    subprocess.run([*command, "--out", "o.json"], cwd=quay, capture_output=True, check=True)
    assert json.loads((quay / "o.json").read_text()) == json.loads(printed.stdout)


@contextmanager
def calling(client: httpx.Client, name: str, input: Any) -> Iterator[list[httpx.Response]]:
    """A call in a thread of its own, which the server has begun; its answer, when it comes."""
    answers: list[httpx.Response] = []

    def call() -> None:
        with suppress(httpx.TransportError):
            answers.append(client.post(f"/fairlead/actions/{name}/invoke", json={"input": input}))

    caller = threading.Thread(target=call)
    caller.start()
    with httpx.Client(base_url=client.base_url) as other:
        while f'in_flight{{action="{name}"}} 1' not in other.get("/metrics").text:
            threading.Event().wait(0.02)
    yield answers
    caller.join(PATIENCE)


def test_a_stream_without_end_is_cut_when_the_time_is_up(quay: Path) -> None:
    with (
        served(quay, "--drain", "1") as (process, client, _),
        client.stream("POST", "/fairlead/actions/talk/stream", json={}) as answer,
    ):
        words = answer.iter_lines()
        assert next(words) == "event: chunk"
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        told = [line for line in words if line.startswith("data:")]
        last = json.loads(told[-1].removeprefix("data:"))
        assert (last["type"], last["envelope"]["error"]["code"]) == ("result", "CANCELLED")
        assert last["envelope"]["meta"]["action"] == "talk"
        assert process.wait(PATIENCE) == 0
        assert time.monotonic() - asked < 10


def test_an_idle_listener_does_not_keep_the_server(quay: Path) -> None:
    with served(quay, "--drain", "30") as (process, client, _):
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        }
        accept = {"accept": "application/json, text/event-stream"}
        began = client.post("/mcp", json=hello, headers=accept)
        session = {"mcp-session-id": began.headers["mcp-session-id"], **accept}
        asked = time.monotonic()
        with suppress(httpx.TransportError), client.stream("GET", "/mcp", headers=session) as listening:
            assert listening.status_code == 200
            process.send_signal(signal.SIGTERM)
            for _line in listening.iter_lines():
                pass
        assert process.wait(PATIENCE) == 0
        assert time.monotonic() - asked < 20


@pytest.mark.parametrize(("name", "options"), [("slow", ()), ("block", ()), ("slow", ("--workers", "2"))])
def test_a_second_signal_stops_it_at_once(quay: Path, name: str, options: tuple[str, ...]) -> None:
    with (
        served(quay, "--drain", "60", *options) as (process, client, _),
        # Each worker counts its own calls, so nobody can be asked whether one has begun.
        nullcontext() if options else calling(client, name, {"seconds": 60}),
    ):
        asked = time.monotonic()
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            threading.Event().wait(0.2)
        assert process.wait(PATIENCE) == 0
        assert time.monotonic() - asked < 20


def test_a_call_that_may_not_end_is_told_so(quay: Path) -> None:
    with served(quay, "--drain", "0") as (process, client, _):
        with calling(client, "slow", {"seconds": 60}) as answers:
            process.send_signal(signal.SIGTERM)
        assert (answers[0].status_code, answers[0].json()["error"]["code"]) == (503, "CANCELLED")
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_workers_end_their_calls_and_say_nothing_odd(quay: Path) -> None:
    with served(quay, "--workers", "2") as (process, client, _):
        answers: list[httpx.Response] = []
        body = {"input": {"seconds": 1}}
        caller = threading.Thread(
            target=lambda: answers.append(client.post("/fairlead/actions/slow/invoke", json=body))
        )
        caller.start()
        threading.Event().wait(0.4)
        process.send_signal(signal.SIGTERM)
        caller.join(PATIENCE)
        assert answers[0].json()["data"] == "done"
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read().splitlines()[3:] == []


def test_a_change_is_served_without_starting_again_by_hand(quay: Path) -> None:
    with served(quay, "--reload") as (process, client, _):
        assert client.post("/fairlead/actions/add/invoke", json={"input": {"a": 1}}).json()["data"] == 2
        end = time.monotonic() + PATIENCE
        answer, written = None, 0.0
        while answer != 102:
            assert time.monotonic() < end
            if time.monotonic() - written > 5:
                # Again, where the first came before the reloader's first look.
                written = time.monotonic()
                (quay / "app.py").write_text(APP.replace("return a + b", "return a + b + 100"))
            threading.Event().wait(0.1)
            with suppress(httpx.TransportError):
                body = {"input": {"a": 1}}
                answer = client.post("/fairlead/actions/add/invoke", json=body).json()["data"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_it_is_served_on_ipv6_too(quay: Path) -> None:
    with served(quay, "--host", "::1") as (_, client, said):
        assert "http://[::1]:" in said
        assert client.get("/fairlead/actions").status_code == 200


def test_a_proxys_path_is_told_to_those_who_come_by_it(quay: Path) -> None:
    with served(quay, "--root-path", "/tools/") as (_, client, _said):
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/tools"}]
        assert client.post("/fairlead/actions/add/invoke", json={"input": {"a": 1}}).json()["data"] == 2


def test_a_page_whose_name_points_here_does_not_get_in(quay: Path) -> None:
    body = {"input": {"a": 1}}
    rebound = {"host": "evil.example:8000", "origin": "http://evil.example:8000"}
    with served(quay) as (_, client, _said):
        for path in ("/fairlead/actions/add/invoke", "/ageniti/actions/add/invoke", "/fairlead/batch"):
            answer = client.post(path, json=body, headers=rebound)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "AUTHORIZATION_ERROR")
        for path in ("/docs", "/openapi.json", "/fairlead/actions", "/metrics", "/mcp"):
            assert client.get(path, headers=rebound).status_code == 403
    with served(quay, "--allowed-host", "evil.example") as (_, client, _said):
        assert client.post("/fairlead/actions/add/invoke", json=body, headers=rebound).status_code == 200


def test_keys_are_taken_and_refused_while_it_runs(quay: Path) -> None:
    def key(*arguments: str) -> Any:
        command = fairlead("keys", *arguments, "--file", "keys.json", "--json")
        return json.loads(subprocess.run(command, cwd=quay, capture_output=True, check=True).stdout)

    key("new", "first")
    with served(quay, "--api-keys", "keys.json") as (_, client, _said):
        made = key("new", "late")
        bearer = {"authorization": f"Bearer {made['key']}"}
        body = {"input": {"a": 1}}
        assert client.post("/fairlead/actions/add/invoke", json=body, headers=bearer).status_code == 200
        key("revoke", "late")
        assert client.post("/fairlead/actions/add/invoke", json=body, headers=bearer).status_code == 401


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_service_that_cannot_start_says_why(quay: Path, workers: str) -> None:
    (quay / "app.py").write_text(APP + BROKEN)
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "serve", "--port", "0", "--workers", workers],
        cwd=quay,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert "Service 'pier' did not start: the pier is closed, password=[REDACTED]" in done.stderr


def test_without_uvicorn_it_says_what_to_install(
    quay: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    hollow = tmp_path_factory.mktemp("hollow")
    (hollow / "uvicorn.py").write_text("raise ImportError('not here')")
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "serve"],
        cwd=quay,
        env={**os.environ, "PYTHONPATH": str(hollow)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode != 0
    assert "pip install 'fairlead[serve]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_mounted_without_a_lifespan_the_first_call_starts_the_services(harbour: Any) -> None:
    app: App = harbour.app
    seen: list[str] = []

    @app.service
    def pier() -> Iterator[str]:
        seen.append("open")
        yield "pier"

    @app.action
    async def moor(ctx: Context) -> str:
        """Moor at the pier."""
        return str(ctx.services["pier"])

    client = TestClient(mounted(app.http(), "starlette"))
    assert client.get("/tools/healthz").status_code == 200
    assert seen == []
    for _ in range(2):
        assert client.post("/tools/fairlead/actions/moor/invoke", json={}).status_code == 200
    assert seen == ["open"]
