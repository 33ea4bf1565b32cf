"""Plugins in Python: what a file says and does, through the same process, fence and lanes as one in C."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fairlead.plugins
from fairlead import App
from fairlead.failures import Failure
from fairlead.plugins import sdk, slots
from fairlead.plugins.building import build_plugin
from fairlead.plugins.conformance import check
from fairlead.plugins.kit import AGENT, MockHost, TriedPlugin, open_plugin
from fairlead.project.plugins import create_plugin
from fairlead.testing import expect_ok
from plugins.installed_kit import install_from
from warm import Warm

HEAD = """
from fairlead.plugins.sdk import *
plugin = Plugin("test.py", version="1.0.0")
"""
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a plugin; gives its folder."""

    def make(text: str, *, head: str = HEAD, **others: str) -> Path:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        (folder / "plugin.py").write_text(head + textwrap.dedent(text))
        for name, content in others.items():
            (folder / f"{name}.py").write_text(textwrap.dedent(content))
        return folder

    return make


def tool_of(plugin: TriedPlugin, id: str) -> Any:
    return next(each for each in plugin.manifest.tools if each.id == id)


# --- what it says of itself ---


def test_the_manifest_comes_of_what_is_declared(write: Write) -> None:
    folder = write(
        """
        from typing import Annotated, Any, Literal

        plugin.setting("theme", "select", label="Theme", section="Looks", default="dark", options={"dark": "Dark"})
        plugin.setting("size", "number", label="Size", section="Looks", default=3)
        plugin.secret("key", "API key", url="https://example.com")
        plugin.web("pages", mount="/app", tunnel=True)

        @plugin.tool(policy="auto", requirements=["contacts"])
        def find(
            words: Annotated[str, "What to look for"], most: int = 5, exact: bool = False, *,
            kind: Literal["a", "b"] | None = None,
            weights: list[float] = [], about: dict[str, Any] = {}, anything=None, _secrets: dict = {},
        ) -> list[str]:
            '''Find something
            in the attic.

            More words for programmers.
            '''
            return []

        @plugin.tool(id="open-end", description="Takes what comes.")
        def open_end(**rest):
            return rest

        @plugin.tool(parameters={"type": "object", "properties": {"x": {"type": "integer"}}})
        def raw(x):
            "Raw."

        @plugin.route("/hook/:name", ["post", "PUT"], auth="verify", tunnel=True)
        def hook(request): ...

        @plugin.on_artifact
        def shared(artifact): ...
        """
    )
    with open_plugin(folder) as plugin:
        told = json.loads(plugin.started.manifest)
        manifest = plugin.manifest
        assert plugin.started.abi == 6
        assert (plugin.started.routes, plugin.started.config, plugin.started.events) == (True, False, False)
    find = tool_of(plugin, "find")
    assert find.description == "Find something in the attic."
    assert (find.permission_policy, find.requirements) == ("auto", ("contacts",))
    assert find.parameters == {
        "type": "object",
        "properties": {
            "words": {"type": "string", "description": "What to look for"},
            "most": {"type": "integer"},
            "exact": {"type": "boolean"},
            "kind": {"type": ["string", "null"], "enum": ["a", "b", None]},
            "weights": {"type": "array", "items": {"type": "number"}},
            "about": {"type": "object"},
            "anything": {},
        },
        "required": ["words"],
        "additionalProperties": False,
    }
    assert tool_of(plugin, "open-end").parameters == {"type": "object", "properties": {}}
    assert tool_of(plugin, "open-end").permission_policy == "ask"
    assert tool_of(plugin, "raw").parameters == {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert told["capabilities"]["routes"] == [
        {
            "id": "hook",
            "path": "/hook/:name",
            "methods": ["POST", "PUT"],
            "auth": "verify",
            "tunnel_exposed": True,
        }
    ]
    assert manifest.artifact_handler
    assert manifest.web is not None
    assert (manifest.web.static_dir, manifest.web.mount) == ("pages", "/app")
    assert manifest.secrets[0].required
    assert manifest.config is not None
    assert [field.default for field in manifest.config.sections[0].fields] == ["dark", "3.0"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", "plugin.py fails in line 4: ZeroDivisionError"),
        ("def broken(:", "plugin.py fails in line 4: SyntaxError"),
        ("import numpy", "No module named 'numpy'"),
        ("plugin = None", "has to make one Plugin, and makes no Plugin"),
        ('other = Plugin("test.other")', "makes 2 of them"),
        ("@plugin.tool\ndef t(): ...", "has no description"),
        ("@plugin.tool\ndef t(x: set): 'T.'", "has no form in JSON"),
        ("@plugin.tool(policy='always')\ndef t(): 'T.'", "'always' is no policy; there are: auto, ask, deny"),
        ("@plugin.tool\ndef t(): 'T.'\n@plugin.tool\ndef t(): 'T.'", "two tools 't'"),
        ("@plugin.tool\nasync def t(): 'T.'", "'t' is async. Write a plain function"),
        ("@plugin.route('/x')\nasync def r(request): ...", "'r' is async"),
        ("@plugin.tool\ndef t(x, /): 'T.'", "parameters without names"),
        ("plugin.tool(id='t', description='T.')(print)", "is no function"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("plugin.on_task('finished')", "'finished' is no event; there are: started"),
        ("@plugin.on_start\ndef begin(): raise OSError('no')", "OSError: no"),
    ],
)
def test_what_is_wrong_with_the_file_is_said_with_its_line(write: Write, text: str, words: str) -> None:
    with pytest.raises(Failure) as failed, open_plugin(write(text)):
        pass
    assert words in failed.value.message


# --- tools ---


def test_a_tool_takes_its_parameters_and_gives_its_result(write: Write) -> None:
    folder = write(
        """
        @plugin.tool
        def add(a: int, b: int = 2):
            "Add."
            return {"sum": a + b}

        @plugin.tool
        def words():
            "Say something."
            return "sch\\u00f6n"
        """
    )
    with open_plugin(folder) as plugin:
        assert plugin.tool("add", {"a": 1}) == {"sum": 3}
        assert plugin.tool("add", {"a": 1, "b": 5}) == {"sum": 6}
        assert plugin.tool("words") == "schön"
        # What the host adds is not given to a function that does not ask for it.
        assert plugin.tool("add", {"a": 1, "_secrets": {"k": "v"}, "_context": {}}) == {"sum": 3}


def test_what_the_host_adds_is_given_to_those_who_ask(write: Write) -> None:
    folder = write(
        """
        @plugin.tool
        def look(_secrets: dict, _context: dict):
            "Look."
            return [_secrets, _context]
        """
    )
    with open_plugin(folder) as plugin:
        assert plugin.tool("look") == [{}, {}]
        assert plugin.tool("look", {"_secrets": {"k": "v"}}) == [{"k": "v"}, {}]
        assert tool_of(plugin, "look").parameters["properties"] == {}


@pytest.mark.parametrize(
    ("payload", "kind", "field"),
    [
        ("{}", "invalid_args", "a"),
        ('{"a": 1, "c": 2}', "invalid_args", "c"),
        ("[]", "invalid_args", None),
        ("not JSON", "invalid_args", None),
        ('{"a": 0}', "execution_error", None),
        ('{"a": -1}', "rejected", "a"),
    ],
)
def test_a_tool_fails_with_an_envelope(write: Write, payload: str, kind: str, field: str | None) -> None:
    folder = write(
        """
        @plugin.tool
        def divide(a: int):
            "Divide."
            if a < 0:
                raise ToolError("Not below zero.", kind="rejected", field="a")
            return 1 / a
        """
    )
    with open_plugin(folder) as plugin:
        told = json.loads(plugin.invoke("tool", "divide", payload))
        if kind == "execution_error":
            assert "in line 10: ZeroDivisionError" in plugin.host.logs[-1].message
            assert plugin.host.logs[-1].level == "ERROR"
    assert (told["ok"], told["kind"], told.get("field")) == (False, kind, field)
    assert told["retryable"] is (kind != "rejected")


def test_nothing_that_a_tool_does_leaves_its_caller_waiting(write: Write) -> None:
    folder = write(
        """
        import sys, functools

        def loud(function):
            @functools.wraps(function)
            def wrapped(*args, **kwargs):
                return function(*args, **kwargs)
            return wrapped

        @plugin.tool
        @loud
        def act(how: str):
            "Act."
            if how == "exit":
                sys.exit("gone")
            if how == "deep":
                return act(how=how)
            return {"nan": float("nan"), "cycle": how, "key": {(1, 2): 3}}[how]

        @plugin.route("/:how", auth="none")
        def route(request):
            if request.params["how"] == "exit":
                sys.exit("gone")
            return float("nan")

        @plugin.on_config()
        def told(key, value):
            sys.exit("gone")
        """
    )
    with open_plugin(folder) as plugin:
        assert tool_of(plugin, "act").parameters["required"] == ["how"]
        said = {
            how: json.loads(plugin.invoke("tool", "act", f'{{"how": "{how}"}}'))
            for how in ("exit", "deep", "nan", "key")
        }
        assert {each["kind"] for each in said.values()} == {"execution_error"}
        assert said["exit"]["message"] == "SystemExit: gone"
        assert plugin.tool("act", {"how": "cycle"}) == "cycle"
        assert json.loads(plugin.invoke("tool", "act", "[" * 100_000))["kind"] == "invalid_args"
        assert plugin.route("route", params={"how": "exit"})["status"] == 500
        assert plugin.route("route", params={"how": "nan"})["status"] == 500
        plugin.set("a", "b")
        assert "SystemExit" in plugin.host.logs[-1].message


def test_a_tool_that_is_not_there_is_not_found(write: Write) -> None:
    with open_plugin(write("")) as plugin:
        assert json.loads(plugin.invoke("tool", "x", "{}"))["kind"] == "tool_not_found"
        assert json.loads(plugin.invoke("odd", "x", "{}"))["kind"] == "tool_not_found"


# --- routes, values, events, artifacts ---


def test_a_route_answers_in_the_form_of_what_it_returns(write: Write) -> None:
    folder = write(
        """
        @plugin.route("/:what", ["GET", "POST"], auth="none")
        def answer(request):
            what = request.params["what"]
            if what == "echo":
                return {"method": request.method, "query": request.query, "json": request.json(), "agent": host.agent}
            if what == "bytes":
                return request.body[::-1]
            if what == "none":
                return None
            if what == "teapot":
                return Response("short and stout", 418, {"X-Spout": "here"})
            raise OSError("no such thing")
        """
    )
    with open_plugin(folder) as plugin:
        echoed = plugin.route(
            "answer", params={"what": "echo"}, method="POST", query={"q": "1"}, body={"n": 1}
        )
        assert json.loads(echoed["body"]) == {
            "method": "POST",
            "query": {"q": "1"},
            "json": {"n": 1},
            "agent": AGENT,
        }
        assert echoed["headers"] == {"Content-Type": "application/json"}
        raw = plugin.route("answer", params={"what": "bytes"}, body=b"\x00\xff")
        assert (raw["body"], raw["body_encoding"]) == ("/wA=", "base64")
        assert plugin.route("answer", params={"what": "none"})["status"] == 204
        teapot = plugin.route("answer", params={"what": "teapot"})
        assert (teapot["status"], teapot["body"], teapot["headers"]["X-Spout"]) == (
            418,
            "short and stout",
            "here",
        )
        assert plugin.route("answer", params={"what": "echo"}, body="not JSON")["status"] == 400
        failed = plugin.route("answer", params={"what": "x"})
        assert failed["status"] == 500
        assert "no such thing" not in failed["body"], "who asks may be anybody"
        assert "OSError: no such thing" in plugin.host.logs[-1].message


def test_values_and_events_are_told_to_those_who_listen(write: Write) -> None:
    folder = write(
        """
        @plugin.on_config("theme")
        def theme(key, value):
            host.log(f"theme {value} for {host.agent}")

        @plugin.on_config()
        def any(key, value):
            host.log(f"any {key}")

        @plugin.on_task("completed", "failed")
        def over(event):
            host.log(f"{event.name} {event.task} {event.data}")

        @plugin.on_task()
        def every(event):
            host.log(f"every {event.number}")

        @plugin.on_artifact
        def shared(artifact):
            host.log(f"shared {artifact['filename']}")

        @plugin.on_config("bad")
        def bad(key, value):
            raise KeyError(key)
        """
    )
    with open_plugin(folder) as plugin:
        plugin.set("theme", "dark")
        plugin.set("__osaurus_abi_probe__", "x")
        plugin.set("bad", "x")
        plugin.event("T", "started", {})
        plugin.event("T", "completed", {"success": True})
        plugin.artifact({"filename": "a.txt"})
        said = [each.message for each in plugin.host.logs]
    assert said[:3] == [f"theme dark for {AGENT}", "any theme", "any bad"]
    assert said[3].startswith("on_config of 'bad' failed: plugin.py fails in line")
    assert said[4:] == ["every 0", "completed T {'success': True}", "every 4", "shared a.txt"]


def test_a_plugin_is_told_of_its_start_and_its_end(write: Write) -> None:
    folder = write(
        """
        @plugin.on_start
        def begin():
            host.log(f"begin for {host.agent}")

        @plugin.on_stop
        def end():
            host.log("end")
        """
    )
    with open_plugin(folder) as plugin:
        host = plugin.host
        assert [each.message for each in host.logs] == ["begin for None"]
    assert [each.message for each in host.logs] == ["begin for None", "end"]


# --- the host ---

EVERYTHING = """
import json, threading

@plugin.tool
def ask(code: str):
    "Evaluate."
    try:
        return eval(code)
    except HostError as error:
        return [error.code, error.message, sorted(error.data)]

@plugin.tool
def complete():
    "Complete."
    return host.complete("Hi").text

@plugin.tool
def elsewhere():
    "On a thread of our own."
    found = []
    def look():
        try:
            found.extend([host.agent, host.config.get("k")])
        except HostError as error:
            found.append(error.code)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found

@plugin.tool
def streamed(fails: bool = False):
    "Stream."
    pieces = []
    def take(piece):
        pieces.append(piece)
        if fails:
            raise ValueError("enough")
    try:
        answer = host.complete_stream("Hi", take, stream_id="s1")
    except ValueError as exc:
        return [str(exc), pieces]
    return [answer.text, pieces]
"""


@pytest.fixture
def asking(write: Write) -> Path:
    return write(EVERYTHING)


def test_every_slot_has_a_method(asking: Path) -> None:
    reply = {"choices": [{"message": {"role": "assistant", "content": "Yes."}}]}
    host = MockHost(
        answers={
            "complete": reply,
            "embed": {"data": [{"embedding": [0.5]}]},
            "http_request": {"status": 200, "headers": {"a": "b"}, "body": "AP8=", "body_encoding": "base64"},
            "file_read": {"data": "AP8=", "size": 2, "mime_type": "x"},
        },
        config={"k": "v"},
    )
    with open_plugin(asking, host) as plugin:

        def ask(code: str) -> Any:
            return plugin.tool("ask", {"code": code})

        assert ask('host.config.get("k")') == "v"
        assert ask('host.config.get("none", "other")') == "other"
        ask('host.config.set("a", "1")')
        ask('host.config.delete("a")')
        ask('host.db.exec("CREATE TABLE t (a, b)")')
        assert ask('host.db.exec("INSERT INTO t VALUES (?, ?)", 1, None).changes') == 1
        assert ask('host.db.exec("INSERT INTO t VALUES (:a, :b)", a=2, b="x").last_insert_rowid') == 2
        assert ask('host.db.query("SELECT * FROM t WHERE a > ?", 0)') == [
            {"a": 1, "b": None},
            {"a": 2, "b": "x"},
        ]
        assert ask('host.complete("Hi", max_tokens=5).text') == "Yes."
        assert ask('host.embed(["a"])') == [[0.5]]
        assert ask("host.models()") == []
        assert ask('host.http("POST", "https://x.example", json_body={"n": 1}).body[1]') == 255
        assert ask('host.read_file("/a")[0]') == 0
        task = ask('host.dispatch("Go.", title="T", session_id="s", tools=["ask"])')
        assert ask(f'host.task("{task}")["title"]') == "T"
        assert ask("len(host.tasks())") == 1
        ask(f'host.draft("{task}", "So far.", parse_mode="HTML")')
        ask(f'host.interrupt("{task}")')
        ask(f'host.interrupt("{task}", "Stop.")')
        ask(f'host.cancel("{task}")')
        ask('host.complete_cancel("s")')
        ask('host.log("words", "warn", n=1)')
        assert ask("host.agent") == AGENT
        assert ask('host.ask("config_get", "k")') == "v"
        assert ask('host.told("dispatch_add_issue", "t", "{}")')[0] == "not_supported"
    sent = host.asked("complete")[0].request
    assert sent == {"model": "", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    http = host.asked("http_request")[0].request
    assert (http["body"], http["headers"], http["timeout_ms"]) == (
        '{"n": 1}',
        {"Content-Type": "application/json"},
        30000,
    )
    assert host.asked("dispatch")[0].request == {
        "prompt": "Go.",
        "title": "T",
        "session_id": "s",
        "tools": ["ask"],
    }
    assert [each.args[1] for each in host.asked("dispatch_interrupt")] == [None, "Stop."]
    assert json.loads(str(host.asked("send_draft")[0].args[1])) == {"text": "So far.", "parse_mode": "HTML"}
    asked = {each.slot for each in host.calls} | {
        "complete_stream",
        "get_active_agent_id",
        "free_string",
        "log",
    }
    assert asked == set(slots.BY_NAME) - {"dispatch_clarify"}


def test_what_the_host_refuses_is_an_error_with_its_code(asking: Path) -> None:
    with open_plugin(asking) as plugin:
        told = plugin.tool("ask", {"code": 'host.http("GET", "https://x.example")'})
        assert told[0] == "network_error"
        assert told[2] == ["elapsed_ms", "error", "message"]
        assert plugin.tool("ask", {"code": 'host.db.query("SELEKT")'})[0] == "database_error"
        # One that is not caught is the tool's failure.
        with pytest.raises(Failure, match="context_unavailable"):
            plugin.tool("complete")


def test_a_thread_of_the_plugins_own_has_a_host_and_no_agent(asking: Path) -> None:
    with open_plugin(asking, MockHost(config={"k": "v"})) as plugin:
        assert plugin.tool("elsewhere") == [None, "v"]


def test_a_stream_comes_in_pieces(asking: Path) -> None:
    reply = {"choices": [{"message": {"role": "assistant", "content": "Yes."}}]}
    with open_plugin(
        asking, MockHost(answers={"complete_stream": reply}, chunks=[{"n": 1}, {"n": 2}])
    ) as plugin:
        assert plugin.tool("streamed") == ["Yes.", [{"n": 1}, {"n": 2}]]
        # Who fails at a piece gets no more of them, and the stream is told to stop.
        assert plugin.tool("streamed", {"fails": True}) == ["enough", [{"n": 1}]]
        assert [each.args for each in plugin.host.asked("complete_cancel")] == [("s1",)]


def test_calls_run_side_by_side(write: Write) -> None:
    folder = write(
        """
        import threading

        together = threading.Barrier(4, timeout=20)

        @plugin.tool
        def meet():
            "Meet."
            return together.wait() >= 0
        """
    )
    met: list[Any] = []
    with open_plugin(folder) as plugin:
        threads = [threading.Thread(target=lambda: met.append(plugin.tool("meet"))) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert met == [True] * 4


# --- where it runs ---


def test_files_beside_the_plugin_can_be_imported(write: Write) -> None:
    folder = write(
        """
        from words import greeting

        @plugin.tool
        def greet():
            "Greet."
            return greeting()
        """,
        words="""
        def greeting():
            return "Ahoy"
        """,
    )
    with open_plugin(folder) as plugin:
        assert plugin.tool("greet") == "Ahoy"


def test_it_runs_within_the_fence(write: Write, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = write(
        """
        import os, socket, sys

        @plugin.tool
        def tries(path: str):
            "Try."
            found = []
            for attempt in (
                lambda: open(path).read(),
                lambda: open(os.path.join(os.path.dirname(__file__), "new"), "w"),
                lambda: socket.socket(),
                lambda: os.fork(),
            ):
                try:
                    found.append(repr(attempt()))
                except OSError as exc:
                    found.append("refused")
            return found + ["site" in sys.modules, sorted(name for name in sys.modules if name.startswith("fairlead"))]
        """
    )
    with open_plugin(folder) as plugin:
        told = plugin.tool("tries", {"path": str(tmp_path / "secret")})
    assert told[:4] == ["refused"] * 4
    assert told[4:] == [False, ["fairlead", "fairlead.plugins", "fairlead.plugins.sdk"]]


def test_files_of_its_own_need_no_change_of_modes(write: Write) -> None:
    """The fence refuses those for every file; temporary files, databases, archives and copies do without."""
    folder = write(
        """
        import shutil, sqlite3, tempfile, zipfile

        @plugin.tool
        def keep():
            "Keep."
            with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile("w+", dir=folder) as file:
                file.write("kept")
                file.flush()
                with zipfile.ZipFile(f"{folder}/a.zip", "w") as archive:
                    archive.write(file.name, "a.txt")
                with zipfile.ZipFile(f"{folder}/a.zip") as archive:
                    shutil.copyfile(archive.extract("a.txt", folder), f"{folder}/b.txt")
                base = sqlite3.connect(f"{folder}/a.db")
                mode = base.execute("pragma journal_mode = wal").fetchone()[0]
                with base:
                    base.execute("create table t (x)")
                    base.execute("insert into t values (?)", (open(f"{folder}/b.txt").read(),))
                found = base.execute("select x from t").fetchone()[0]
                base.close()
            return [mode, found]
        """
    )
    with open_plugin(folder) as plugin:
        assert plugin.tool("keep") == ["wal", "kept"]


@pytest.mark.parametrize("in_process", [False, True])
async def test_its_tools_are_actions_of_an_app(
    write: Write, in_process: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    install_from(
        write(
            """
            @plugin.tool(policy="auto")
            def add(a: int, b: int = 2):
                "Add."
                host.log("added", sum=a + b)
                return a + b
            """
        )
    )
    app = App("demo", store=f"sqlite:///{tmp_path}/store.db")
    assert app.add_plugin("test.py", in_process=in_process) is not None, app.plugins.failed
    async with app:
        assert expect_ok(await app.invoke("add", {"a": "1"})) == 3


async def test_an_installed_one_stays_as_it_is_when_its_own_modules_are_imported(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytecode that Python keeps beside a module would be a file that nobody installed."""
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    project = write(
        """
        import words_beside

        @plugin.tool(policy="auto")
        def greet():
            "Greet."
            from words_beside import later
            return later.WORD
        """
    )
    (project / "words_beside").mkdir()
    (project / "words_beside" / "__init__.py").write_text("")
    (project / "words_beside" / "later.py").write_text("WORD = 'hello'")
    install_from(project)
    app = App("demo", store=f"sqlite:///{tmp_path}/store.db")
    assert app.add_plugin("test.py", in_process=True) is not None
    async with app:
        assert expect_ok(await app.invoke("greet")) == "hello"
    assert App("demo").add_plugin("test.py", in_process=True) is not None
    assert not list((tmp_path / "data" / "plugins").rglob("__pycache__"))


def test_several_in_one_program_each_have_their_own_modules(write: Write, tmp_path: Path) -> None:
    first = write(
        """
        import named_alike

        @plugin.tool
        def word():
            "Say a word."
            return named_alike.WORD
        """
    )
    second = tmp_path / "second"
    second.mkdir()
    (second / "plugin.py").write_text((first / "plugin.py").read_text().replace("test.py", "test.two"))
    for folder, word in ((first, "one"), (second, "two")):
        (folder / "named_alike.py").write_text(f"WORD = {word!r}")
    with open_plugin(first, in_process=True) as a, open_plugin(second, in_process=True) as b:
        assert [a.tool("word"), b.tool("word")] == ["one", "two"]


def test_several_that_are_loaded_at_once_each_have_their_own_modules(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting: Any = type(sys)("meeting")
    meeting.first, meeting.second, meeting.done = threading.Event(), threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "meeting", meeting)
    said = """
        @plugin.tool
        def word():
            "Say a word."
            return named_alike.WORD
        """
    begins = """
        import meeting
        meeting.first.set()
        meeting.second.wait(0.2)
        import named_alike
        meeting.done.set()
        """
    first = write(begins + said)
    second = tmp_path / "second"
    second.mkdir()
    begins = """
        import meeting
        meeting.second.set()
        meeting.done.wait(5)
        import named_alike
        """
    (second / "plugin.py").write_text(HEAD.replace("test.py", "test.two") + textwrap.dedent(begins + said))
    for folder, word in ((first, "one"), (second, "two")):
        (folder / "named_alike.py").write_text(f"WORD = {word!r}")
    told: list[str] = []

    def load() -> None:
        with open_plugin(first, in_process=True) as plugin:
            told.append(plugin.tool("word"))

    thread = threading.Thread(target=load)
    thread.start()
    assert meeting.first.wait(5)
    with open_plugin(second, in_process=True) as plugin:
        thread.join()
        assert [*told, plugin.tool("word")] == ["one", "two"]


def test_several_in_one_program_each_have_their_own_host(write: Write, tmp_path: Path) -> None:
    first = write(EVERYTHING)
    second = tmp_path / "second"
    second.mkdir()
    (second / "plugin.py").write_text((first / "plugin.py").read_text().replace("test.py", "test.two"))
    one, two = MockHost(config={"k": "one"}), MockHost(config={"k": "two"})
    with open_plugin(first, one, in_process=True) as a, open_plugin(second, two, in_process=True) as b:
        assert a.tool("ask", {"code": 'host.config.get("k")'}) == "one"
        assert b.tool("ask", {"code": 'host.config.get("k")'}) == "two"
        assert b.tool("ask", {"code": 'plugin.host.config.get("k")'}) == "two"
        # On a thread of the plugin's own nobody can tell which is meant.
        assert a.tool("elsewhere") == ["context_unavailable"]
    with pytest.raises(sdk.HostError, match=r"use `plugin\.host`"):
        sdk.host.config.get("k")


def test_what_a_plugin_in_c_needs_is_not_loaded_with_the_sdk() -> None:
    """The helper loads the SDK only for a plugin in Python."""
    here = Path(fairlead.plugins.__file__).parent
    program = f"import sys; sys.path.append({str(here)!r}); import helper; print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"sdk", "sdk_host", "json", "typing"} & set(eval(done.stdout))


# --- its project ---


def test_a_plugin_in_python_is_created_tried_built_and_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_python: Warm
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    made = create_plugin(tmp_path / "greeter", python=True)
    assert made["id"] == "com.example.greeter"
    assert made["files"] == [".gitignore", "README.md", "plugin.py", "test_plugin.py"]
    folder = tmp_path / "greeter"
    report = check(folder)
    assert {each.status for each in report.checks} <= {"passed", "skipped"}, "\n".join(report.lines())
    # Plugins for pytest that came with a dependency take longer than the tests.
    tests = warm_python.command(
        "-m",
        "pytest",
        "-q",
        *(f"-pno:{name}" for name in ("cacheprovider", "langsmith_plugin", "schemathesis")),
        str(folder),
    )
    done = subprocess.run(tests, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    built = build_plugin(folder, archive=True)
    assert built.compiler is None
    assert sorted(path.name for path in built.folder.iterdir()) == ["README.md", "manifest.json", "plugin.py"]
    # Built again it is the same: what was built before is no part of it.
    assert built.archive is not None
    before = built.archive.read_bytes()
    assert build_plugin(folder, archive=True).folder == built.folder
    assert built.archive.read_bytes() == before
    assert install_from(built.archive).plugin_id == "com.example.greeter"


def test_a_plugin_in_python_that_is_wrong_is_not_built(write: Write) -> None:
    with pytest.raises(Failure, match="ZeroDivisionError"):
        build_plugin(write("1 / 0"))
