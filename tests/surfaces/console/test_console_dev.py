"""`fairlead dev` as a process: the link it prints, what it does when files change, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fairlead import App

PATIENCE = 20.0
SOURCE = '''
import asyncio
from fairlead import App

app = App("hot")


@app.action
def greet(name: str = "you", times: int = 1) -> str:
    """Say hello."""
    return f"Hello, {name}!" * times


@app.action
async def wait_here() -> None:
    """Wait for a long time."""
    open("begun", "w").close()
    await asyncio.sleep(60)
'''
AGENT = '''
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel


def asked(question: str) -> str:
    """Answer."""
    return question


model = ScriptModel(lambda request: f"You said: {request.messages[-1].content}", name="script/hot")
app.add(Agent("mate", model=model, instructions="Answer.", function=asked).action)
'''
MAIN = "\nif __name__ == '__main__':\n    app.cli()\n"


class Dev:
    """A running `dev` command, and requests to it in its session."""

    def __init__(self, folder: Path, *command: str) -> None:
        self.folder = folder
        self.errors = folder / "errors.txt"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *command], cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().strip()
        assert self.link, self.said
        self.address, _, self.token = self.link.partition("/#token=")
        self.session = ""

    @property
    def said(self) -> str:
        return self.errors.read_text()

    def ask(self, path: str, body: Any = None) -> Any:
        line = http.client.HTTPConnection(self.address.partition("//")[2], timeout=PATIENCE)
        headers = {"content-type": "application/json", "fairlead-session": self.session}
        text = None if body is None else json.dumps(body)
        line.request("GET" if body is None else "POST", f"/api/{path}", text, headers)
        answer = json.loads(line.getresponse().read())
        line.close()
        return answer

    def open(self) -> None:
        self.session = self.ask("session", {"token": self.token})["session"]

    def generation(self) -> str:
        told = self.ask("actions")
        found: str = told["about"]["generation"] if told["ok"] else told["error"]["details"]["generation"]
        return found

    def change(self, source: str, file: str = "hot.py") -> Any:
        """Write a file, and wait for the generation that has it; gives what the page is told of the app."""
        before = self.generation()
        (self.folder / file).write_text(source)
        wait_for(lambda: self._is_after(before))
        return self.ask("actions")

    def restore(self) -> None:
        """Have the app as it was at first."""
        if (self.folder / "hot.py").read_text() != SOURCE:
            self.change(SOURCE)

    def _is_after(self, generation: str) -> bool:
        try:
            return self.generation() != generation
        except (ConnectionError, http.client.HTTPException):
            return False  # the old one closed the door while we were in it

    def knows(self, action: str) -> bool:
        try:
            return action in str(self.ask("actions"))
        except (ConnectionError, http.client.HTTPException):
            return False

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def listens(address: str) -> bool:
    host, _, port = address.rpartition("//")[2].partition(":")
    with socket.socket() as line:
        return line.connect_ex((host, int(port))) == 0


@pytest.fixture(scope="module")
def hot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """The command on an app of its own, shared by the tests that change the app's file."""
    folder = tmp_path_factory.mktemp("hot")
    (folder / "hot.py").write_text(SOURCE)
    running = Dev(folder, "-m", "fairlead", "--app", "hot.py", "dev", "--port", "0")
    running.open()
    yield running
    running.close()


@pytest.fixture(scope="module")
def page(hot: Dev, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    opened = context.new_page()
    opened.add_init_script(
        f"if (origin !== 'null') localStorage.setItem('fairlead:session', '{hot.session}')"
    )
    yield opened
    context.close()


def test_the_link_is_all_that_goes_to_stdout(hot: Dev) -> None:
    assert hot.link.startswith("http://127.0.0.1:")
    assert len(hot.token) >= 43
    assert "works once" in hot.said


def test_a_reloaded_page_keeps_what_was_typed_and_what_came_of_it(hot: Dev, page: Page) -> None:
    hot.restore()
    page.goto(f"{hot.address}/#/greet")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.get_by_role("textbox", name="name").fill("Ada")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="Text")).to_have_text("Hello, Ada!")
    hot.change(
        SOURCE.replace("times: int = 1", "times: int = 2, loud: bool = False").replace("wait_here", "sing")
    )
    # The one that `restore` brought may still be there.
    expect(page.get_by_text("Reloaded: 2 actions").first).to_be_visible(timeout=PATIENCE * 1000)
    expect(page.get_by_role("link", name="sing")).to_be_visible()
    expect(page.get_by_role("link", name="wait_here")).to_have_count(0)
    expect(page.get_by_role("switch", name="loud")).to_be_visible()
    expect(page.get_by_role("textbox", name="name")).to_have_value("Ada")
    expect(page.get_by_role("region", name="Text")).to_have_text("Hello, Ada!")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="Text")).to_have_text("Hello, Ada!Hello, Ada!")
    assert hot.ask("session", {"token": hot.token})["error"]["code"] == "AUTHENTICATION_ERROR"


def test_code_that_cannot_be_imported_is_shown_and_mended_without_a_new_start(hot: Dev, page: Page) -> None:
    hot.restore()
    page.goto(f"{hot.address}/#/greet")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    told = hot.change(SOURCE + "\nimport lost_rope\n")
    assert told["error"]["code"] == "INTERNAL_ERROR"
    assert 'hot.py", line' in told["error"]["details"]["traceback"]
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("No module named 'lost_rope'", timeout=PATIENCE * 1000)
    expect(page.get_by_role("button", name="Run")).to_be_disabled()
    expect(page.get_by_role("link", name="wait_here")).to_be_visible()
    assert "No module named 'lost_rope'" in hot.said
    assert hot.change("", "lost_rope.py")["ok"]
    expect(alert).to_be_hidden(timeout=PATIENCE * 1000)
    expect(page.get_by_role("button", name="Run")).to_be_enabled()
    assert "SyntaxError" in hot.change(SOURCE + "\ndef (:\n")["error"]["message"]
    page.reload()
    expect(alert).to_contain_text("SyntaxError")
    expect(page.get_by_role("heading", name="The app is not there yet")).to_be_visible()
    hot.change(SOURCE)
    expect(page.get_by_role("link", name="greet")).to_be_visible(timeout=PATIENCE * 1000)


def test_an_agent_that_is_changed_is_talked_with_as_it_is_now(hot: Dev, page: Page) -> None:
    hot.restore()
    hot.change(SOURCE + AGENT)
    page.goto(f"{hot.address}/#/mate")
    page.reload()
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=PATIENCE * 1000)
    field = page.get_by_role("textbox", name="Message Mate")
    field.fill("first")
    page.keyboard.press("Enter")
    said = page.get_by_role("log", name="What was said")
    expect(said).to_contain_text("You said: first")
    field.fill("second")
    hot.change(SOURCE + AGENT.replace("question", "wish"))
    expect(page.get_by_text("Reloaded: 3 actions").first).to_be_visible(timeout=PATIENCE * 1000)
    expect(said).to_contain_text("You said: first")
    expect(field).to_have_value("second")
    field.press("Enter")
    expect(said).to_contain_text("You said: second")


def test_a_file_that_changes_while_the_app_is_imported_is_imported_again(hot: Dev) -> None:
    hot.restore()
    slow = (
        SOURCE
        + "\nimport os, time\nopen('reads', 'w').close()\nwhile not os.path.exists('on'):\n    time.sleep(0.01)\n"
    )
    (hot.folder / "hot.py").write_text(slow)
    wait_for((hot.folder / "reads").exists)
    (hot.folder / "hot.py").write_text(slow.replace("wait_here", "sing"))
    (hot.folder / "on").touch()
    wait_for(lambda: hot.knows("sing"))


def test_more_tabs_than_a_browser_has_connections_can_be_open(hot: Dev, browser: Browser) -> None:
    hot.restore()
    context = browser.new_context()
    context.add_init_script(
        f"if (origin !== 'null') localStorage.setItem('fairlead:session', '{hot.session}');"
        "let unseen = false; Object.defineProperty(document, 'hidden', { get: () => unseen });"
        "addEventListener('test:look', (event) => {"
        " unseen = !event.detail; document.dispatchEvent(new Event('visibilitychange')); });"
    )

    def look(page: Page, seen: str) -> None:
        page.evaluate(f"dispatchEvent(new CustomEvent('test:look', {{ detail: {seen} }}))")

    tabs = [context.new_page()]
    for _ in range(7):
        tabs[-1].goto(f"{hot.address}/#/greet")
        expect(tabs[-1].get_by_text("live", exact=True)).to_be_visible()
        # What one goes away from is hidden by the browser, which has windows.
        look(tabs[-1], "false")
        tabs.append(context.new_page())
    hot.change(SOURCE.replace("wait_here", "sing"))
    look(tabs[0], "true")
    expect(tabs[0].get_by_role("link", name="sing")).to_be_visible(timeout=PATIENCE * 1000)
    context.close()


def test_an_app_that_ends_its_process_does_not_end_the_console(hot: Dev) -> None:
    told = hot.change(SOURCE + "\nimport os\nos._exit(9)\n")
    assert "code 9" in told["error"]["message"]
    assert hot.change(SOURCE)["ok"]


def test_a_call_that_a_reload_cut_off_says_so(hot: Dev, page: Page) -> None:
    hot.restore()
    page.goto(f"{hot.address}/#/wait_here")
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=PATIENCE * 1000)
    expect(page.get_by_role("heading", name="Wait Here")).to_be_visible()
    expect(page.get_by_role("button", name="Run")).to_be_enabled(timeout=PATIENCE * 1000)
    page.keyboard.press("Control+Enter")
    shown = page.get_by_role("region", name="Outcome", exact=True)
    wait_for((hot.folder / "begun").exists)
    hot.change(SOURCE + "\n")
    expect(shown).to_have_attribute("data-state", "failed", timeout=PATIENCE * 1000)
    # The server's last word, or the page's own where it could not say one.
    expect(shown).to_contain_text(re.compile("CANCELLED|TRANSPORT_ERROR"))


def test_a_program_of_ones_own_is_reloaded_too_and_ends_on_sigterm(tmp_path: Path) -> None:
    (tmp_path / "hot.py").write_text(SOURCE + MAIN)
    running = Dev(tmp_path, "hot.py", "dev", "--port", "0")
    try:
        running.open()
        assert running.change(SOURCE.replace("greet", "meet") + MAIN)["actions"][0]["name"] == "meet"
        assert running.end(signal.SIGTERM) == 143
        assert not listens(running.address)
    finally:
        running.close()


def test_a_worker_without_its_supervisor_goes(tmp_path: Path) -> None:
    (tmp_path / "hot.py").write_text(SOURCE)
    running = Dev(tmp_path, "-m", "fairlead", "--app", "hot:app", "dev", "--port", "0")
    try:
        running.open()
    finally:
        running.close()
    wait_for(lambda: not listens(running.address))


def test_an_app_that_no_module_names_is_served_as_it_is(tmp_path: Path) -> None:
    nested = (
        "def main():\n" + "".join(f"    {line}\n" for line in SOURCE.splitlines()) + "    app.cli()\nmain()\n"
    )
    (tmp_path / "hot.py").write_text(nested)
    running = Dev(tmp_path, "hot.py", "dev", "--port=0")
    try:
        running.open()
        told = running.ask("actions")
        assert [each["name"] for each in told["actions"]] == ["greet", "wait_here"]
        assert told["about"]["generation"] is None
        assert running.end(signal.SIGINT) == 130
        assert "not reloaded" in running.said
    finally:
        running.close()


def test_a_browser_is_opened_for_someone_at_a_screen_and_ctrl_c_ends_it(
    tmp_path: Path, on_terminal: Callable[..., Any]
) -> None:
    (tmp_path / "hot.py").write_text(SOURCE + MAIN)
    (tmp_path / "browse").write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    (tmp_path / "browse").chmod(0o755)
    screen = {"DISPLAY": ":0", "BROWSER": str(tmp_path / "browse")}
    console = on_terminal(tmp_path / "hot.py", "dev", "--port", "0", **screen)
    console.wait_for("#token=")
    wait_for(lambda: (tmp_path / "opened").exists() and "\n" in (tmp_path / "opened").read_text())
    assert (tmp_path / "opened").read_text().strip() in console.seen
    address = (tmp_path / "opened").read_text().partition("/#")[0]
    console.wait_for("hot: 2 actions")
    console.type("\x03")
    assert console.finish()[0] == 130
    assert not listens(address)


# What cannot be started.


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.com", "127.0.0.2", ""])
def test_other_machines_are_refused(cli: Callable[..., Any], host: str) -> None:
    ran = cli(App("small"), "dev", "--host", host)
    assert (ran.code, ran.out) == (2, "")
    assert "this machine" in ran.err
    assert "serve" in ran.err


@pytest.mark.parametrize("port", ["x", "-1", "65536", "1e3", "99999999999999999999"])
def test_a_port_is_a_number(cli: Callable[..., Any], port: str) -> None:
    assert cli(App("small"), "dev", f"--port={port}").code == 2


def test_a_port_that_is_taken_is_said(cli: Callable[..., Any]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ran = cli(App("small"), "dev", "--no-reload", "--port", str(other.getsockname()[1]))
    assert ran.code == 5
    assert "--port 0" in ran.err


def test_a_port_of_the_console_that_is_taken_is_said_with_the_option_that_is_the_console_s(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.py").write_text("from fairlead import App\n\napp = App('small')\n")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        wanted = f"--console={other.getsockname()[1]}"
        ran = cli(None, "--app", "small.py", "serve", "--port", "0", wanted)
    assert ran.code == 5
    assert "--console=0" in ran.err
    assert "--port" not in ran.err


def test_what_is_missing_is_named(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ran = cli(App("small"), "dev")
    assert ran.code == 1
    assert "pip install 'fairlead[serve]'" in ran.err


def test_without_an_app_there_is_nothing_to_show(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli(None, "dev").code == 2
    assert os.listdir(tmp_path) == []


def test_help_says_what_there_is(cli: Callable[..., Any]) -> None:
    told = cli(App("small"), "dev", "--help").out
    assert all(flag in told for flag in ("--port", "--host", "--no-open", "--no-reload", "4321"))
