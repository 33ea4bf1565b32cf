"""The example plugins, built with the system's compiler, installed, and used end to end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models import Request, ScriptModel, Turn, call
from fairlead.plugins.building import build_plugin
from fairlead.plugins.config import Config
from fairlead.plugins.conformance import check
from fairlead.plugins.identity import agent_uuid
from fairlead.plugins.services import Shared
from fairlead.testing import expect_error, expect_ok
from plugins.installed_kit import install_from
from plugins.messenger_kit import CHAT, ID, talking, token_in
from plugins.native_kit import INCLUDE, SOURCES, children, compile_c, compiler, helpers
from warm import Warm

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
Built = Callable[[str], Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The folder of an example that was built; one in Python needs no building."""
    out = tmp_path_factory.mktemp("built")
    made: dict[str, Path] = {"notes_py": EXAMPLES / "notes_py"}

    def build(name: str) -> Path:
        if name not in made:
            made[name] = build_plugin(EXAMPLES / name, out=out).folder
        return made[name]

    return build


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("FAIRLEAD_PUBLIC_URL", raising=False)


def fairlead(warm: Warm, *words: str) -> Any:
    """What the command says, run as people run it."""
    done = subprocess.run(
        warm.command(str(Path(sys.executable).with_name("fairlead")), *words),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["hello", "notes", "bridge", "notes_py"])
def test_an_example_keeps_the_contract(built: Built, name: str) -> None:
    report = check(built(name))
    assert {each.status for each in report.checks} <= {"passed", "skipped"}, "\n".join(report.lines())


# --- notes ---


def test_notes_are_kept_from_one_command_to_the_next(built: Built, warm_python: Warm) -> None:
    fairlead(warm_python, "plugin", "install", str(built("notes")), "--yes")
    assert [each["id"] for each in fairlead(warm_python, "plugin", "list")] == ["acme.notes"]
    note = {"title": "Tide", "body": 'High at "six"\n\u2693'}
    fairlead(warm_python, "plugin", "run", "acme.notes", "add_note", json.dumps(note))
    told = fairlead(warm_python, "plugin", "run", "acme.notes", "list_notes", '{"words": "tide"}')
    assert json.dumps({"id": 1, **note}, sort_keys=True) in json.dumps(told, sort_keys=True)


def notebook(model: ScriptModel, tmp_path: Path) -> App:
    app = App("harbour", store=f"sqlite:///{tmp_path}/store.db", models=model)
    app.add_plugins()
    tools = [action for action in app.catalogue if action.name.endswith(("_note", "_notes"))]
    app.add(Agent("ann", description="Ann.", instructions="You are Ann.", tools=tools))
    return app


@pytest.mark.parametrize(
    ("name", "id", "add", "show"),
    [
        ("notes", "acme.notes", "add_note", "list_notes"),
        ("notes_py", "acme.notes_py", "add_py_note", "list_py_notes"),
    ],
)
async def test_an_agent_keeps_a_note_with_its_own_signature(
    built: Built, tmp_path: Path, name: str, id: str, add: str, show: str
) -> None:
    install_from(built(name))
    model = ScriptModel([call(add, title="Tide", body="High at six."), call(show), "It is noted."])
    app = notebook(model, tmp_path)
    shared = Shared.of(app)
    config = Config(id, app.store, shared.secrets, shared.warnings)
    await config.save(agent_uuid(app.name, "ann"), {"signature": "-- Ann"})
    async with app:
        assert expect_ok(await app.invoke("ann", {"prompt": "Note the tide."})) == "It is noted."
        rows = expect_ok(await app.invoke(show, {}))
        nobody = expect_ok(await app.invoke(add, {"title": "Wind", "body": "None."}))
    shown = model.requests[-1].messages[-1].content
    assert "High at six." in shown
    assert "-- Ann" in shown
    assert "-- Ann" in json.dumps(rows)
    assert nobody["title"] == "Wind"


async def test_a_note_that_is_not_there_cannot_be_forgotten(built: Built, tmp_path: Path) -> None:
    install_from(built("notes"))
    async with notebook(ScriptModel([]), tmp_path) as app:
        asked = await app.invoke("forget_note", {"title": "Tide"})
        assert expect_error(asked).code == "CONFIRMATION_REQUIRED"
        gone = await app.invoke("forget_note", {"title": "Tide"}, confirm=True)
        assert expect_error(gone).code == "not_found"


async def test_the_route_of_the_notes_in_python_serves_one(built: Built, tmp_path: Path) -> None:
    install_from(built("notes_py"))
    async with notebook(ScriptModel([]), tmp_path) as app:
        expect_ok(await app.invoke("add_py_note", {"title": "Tide", "body": "High at six."}))
        plugin = app.plugins.get("acme.notes_py")
        assert plugin is not None
        request = {"route_id": "read_note", "path_params": {"title": "Tide"}}
        told = json.loads(await plugin.handle_route(json.dumps(request), agent=None, timeout=10))
    assert (told["status"], told["body"]) == (200, "High at six.")


# --- the bridge ---


def replies(*texts: str) -> ScriptModel:
    """A model that says each text with the tool, then is done."""

    def script(request: Request) -> Any:
        said = sum(each.role == "tool" for each in request.messages)
        return call("reply", token=token_in(request), text=texts[said]) if said < len(texts) else "Done."

    return ScriptModel(script)


async def told(messenger: Any, count: int) -> list[str]:
    await asyncio.wait_for(messenger.until(count), 30)
    texts: list[str] = messenger.texts
    return texts


async def settled(app: App) -> None:
    """Until the bridge knows how all of its tasks ended."""
    from fairlead.plugins import sessions

    with app.store.listening(sessions.plugin_topic(ID)) as bell:
        while await app.store.read(lambda tx: sessions.open_runs(tx, ID)):
            await bell.rung(10)


async def test_a_message_becomes_a_task_and_the_agent_answers_with_a_tool(
    built: Built, tmp_path: Path
) -> None:
    model = replies("Six o'clock.")
    async with talking(tmp_path, built("bridge"), model) as talk:
        taken = await talk.write("When is high tide?")
        assert await told(talk.messenger, 1) == ["Six o'clock."]
        await settled(talk.app)
        assert talk.messenger.calls == [("sendMessage", {"chat_id": str(CHAT), "text": "Six o'clock."})]
    assert taken.status_code == 200
    asked = model.requests[0]
    assert {"reply", "reply_typing", "reply_photo"} <= {tool.name for tool in asked.tools}
    words = json.dumps([each.content for each in asked.messages])
    assert "When is high tide?" in words
    # Where the answer goes is not the agent's to know.
    assert str(CHAT) not in words
    assert "777:token" not in words


async def test_a_message_that_comes_twice_is_taken_once(built: Built, tmp_path: Path) -> None:
    async with talking(tmp_path, built("bridge"), replies("Six.")) as talk:
        first = await talk.write("When?", update=9)
        again = await talk.write("When?", update=9)
        await told(talk.messenger, 1)
        await settled(talk.app)
        assert talk.messenger.texts == ["Six."]
    assert (first.text, again.text) == ("Taken.", "Known already.")


@pytest.mark.parametrize(
    ("about", "status"),
    [({"secret": "wrong"}, 401), ({"secret": None}, 401), ({"agent": None}, 401), ({"agent": "ann"}, 401)],
)
async def test_who_shows_no_secret_or_names_no_agent_is_refused(
    built: Built, tmp_path: Path, about: dict[str, Any], status: int
) -> None:
    async with talking(tmp_path, built("bridge"), ScriptModel([])) as talk:
        assert (await talk.write("Let me in.", **about)).status_code == status
        assert talk.messenger.calls == []


async def test_what_the_messenger_refuses_is_told_to_the_agent(built: Built, tmp_path: Path) -> None:
    model = replies("Six.", "Six, again.")
    async with talking(tmp_path, built("bridge"), model) as talk:
        talk.messenger.refusals = [403]
        await talk.write("When?")
        assert await told(talk.messenger, 1) == ["Six, again."]
        await settled(talk.app)
    refused = next(each.content for each in model.requests[1].messages if each.role == "tool")
    assert '"ok":false' in refused
    assert "403" in refused
    assert "blocked by the user" in refused


async def test_a_question_of_the_agent_is_passed_on_and_its_answer_goes_back(
    built: Built, tmp_path: Path
) -> None:
    def script(request: Request) -> Any:
        if len(model.requests) == 1:
            return call("clarify", question="Which harbour?", options=["North", "South"])
        if len(model.requests) == 2:
            return call("reply", token=token_in(request), text="Six at the South.")
        return "Done."

    model = ScriptModel(script)
    async with talking(tmp_path, built("bridge"), model) as talk:
        await talk.write("When is high tide?")
        assert await told(talk.messenger, 1) == ["Which harbour?\n- North\n- South"]
        await talk.write("South")
        assert (await told(talk.messenger, 2))[1:] == ["Six at the South."]
        await settled(talk.app)
        assert len(talk.messenger.texts) == 2
        tasks, _ = await talk.app.tasks.list()
    assert "South" in json.dumps([each.content for each in model.requests[1].messages])
    assert len(tasks) == 1


async def test_what_an_agent_says_without_the_tool_is_sent_in_the_end(built: Built, tmp_path: Path) -> None:
    async with talking(tmp_path, built("bridge"), ScriptModel(["High tide is at six."])) as talk:
        await talk.write("When?")
        assert await told(talk.messenger, 1) == ["High tide is at six."]
        await settled(talk.app)
        assert len(talk.messenger.texts) == 1


async def test_a_task_that_fails_is_no_silence(built: Built, tmp_path: Path) -> None:
    async with talking(tmp_path, built("bridge"), ScriptModel([])) as talk:
        await talk.write("When?")
        assert await told(talk.messenger, 1) == ["That went wrong. Please try again."]


async def test_a_new_message_interrupts_and_the_conversation_goes_on(built: Built, tmp_path: Path) -> None:
    tokens: list[str] = []

    def script(request: Request) -> Any:
        tokens.append(token_in(request))
        if len(model.requests) == 1:
            return Turn("never", after=asyncio.Event())
        if len(model.requests) == 2:
            return call("reply", token=tokens[0], text="To nobody.")
        if len(model.requests) == 3:
            return call("reply", token=tokens[1], text="Seven.")
        return "Done."

    model = ScriptModel(script)
    async with talking(tmp_path, built("bridge"), model) as talk:
        await talk.write("When is high tide?")
        await model.asked()
        await talk.write("At the South, I mean.")
        assert await told(talk.messenger, 1) == ["Seven."]
        await settled(talk.app)
        assert talk.messenger.texts == ["Seven."]
    heard = [each.content for each in model.requests[1].messages if each.role == "user"]
    assert len(heard) == 2
    assert heard[0].startswith("When")
    assert heard[1].startswith("At the South")
    refused = next(each.content for each in model.requests[2].messages if each.role == "tool")
    assert "leads to no conversation" in refused
    assert tokens[0] != tokens[1]


async def test_what_is_sent_to_one_conversation_is_sent_in_turn(built: Built, tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        if len(model.requests) > 1:
            return "Done."
        token = token_in(request)
        said = tuple(call("reply", token=token, text=str(number)) for number in range(8))
        return Turn("", calls=said)

    model = ScriptModel(script)
    async with talking(tmp_path, built("bridge"), model) as talk:
        await talk.write("Count.")
        assert sorted(await told(talk.messenger, 8)) == [str(number) for number in range(8)]
        await settled(talk.app)
        assert talk.messenger.most_at_once == 1


async def test_reset_begins_a_new_session(built: Built, tmp_path: Path) -> None:
    model = ScriptModel(["Six.", "What tide?"])
    async with talking(tmp_path, built("bridge"), model) as talk:
        await talk.write("When is high tide?")
        await told(talk.messenger, 1)
        await settled(talk.app)
        await talk.write("/reset")
        await talk.write("And tomorrow?")
        assert await told(talk.messenger, 3) == ["Six.", "We begin anew.", "What tide?"]
    assert len([each for each in model.requests[1].messages if each.role == "user"]) == 1


async def test_without_a_reset_the_agent_remembers(built: Built, tmp_path: Path) -> None:
    model = ScriptModel(["Six.", "Seven."])
    async with talking(tmp_path, built("bridge"), model) as talk:
        await talk.write("When is high tide?")
        await told(talk.messenger, 1)
        await settled(talk.app)
        await talk.write("And tomorrow?")
        assert await told(talk.messenger, 2) == ["Six.", "Seven."]
    assert len([each for each in model.requests[1].messages if each.role == "user"]) == 2


async def test_a_bridge_that_fell_in_the_middle_still_knows_the_conversation(
    built: Built, tmp_path: Path
) -> None:
    killed: set[int] = set()
    before = helpers() & children()  # those of other tests may take a moment to end

    def script(request: Request) -> Any:
        if len(model.requests) == 1:
            killed.update((helpers() & children()) - before)
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
        sent = any(each.role == "tool" and '"ok":true' in each.content for each in request.messages)
        return "Done." if sent else call("reply", token=token_in(request), text="Six.")

    model = ScriptModel(script)
    async with talking(tmp_path, built("bridge"), model) as talk:
        await talk.write("When?")
        assert await told(talk.messenger, 1) == ["Six."]
        await settled(talk.app)
        assert talk.messenger.texts == ["Six."]
    assert len(killed) == 1


async def test_the_messenger_is_told_where_the_host_is_reached(built: Built, tmp_path: Path) -> None:
    async with talking(tmp_path, built("bridge"), ScriptModel([])) as talk:
        await talk.write("/reset")
        await talk.app.plugins.tunnel("https://harbour.example")
        await asyncio.wait_for(talk.messenger.until(2), 30)
        method, body = talk.messenger.calls[1]
    assert method == "setWebhook"
    assert httpx.URL(body["url"]).params["osr_agent"] == talk.agent
    assert body["url"].startswith("https://harbour.example/plugins/acme.bridge/webhook?")


def test_the_bridge_makes_the_uuids_that_others_make(tmp_path: Path) -> None:
    import uuid

    source = tmp_path / "say.c"
    source.write_text(
        '#include "uuid5.h"\nint main(int n, char **v) { char t[37]; (void)n; uuid5(v[1], t); puts(t); return 0; }\n'
    )
    shutil.copy(EXAMPLES / "bridge" / "src" / "uuid5.h", tmp_path)
    program = compile_c(source, tmp_path / "say", shared=False)
    space = uuid.UUID("3b0d5f52-9a41-4e0b-8c6e-117d24c05ae9")
    for name in ("", "a", "x" * 39, "x" * 40, "x" * 47, "x" * 48, "x" * 200):
        said = subprocess.run([program, name], capture_output=True, text=True, check=True).stdout.strip()
        assert said == str(uuid.uuid5(space, name)).upper()


def test_c_in_the_guide_is_part_of_a_file() -> None:
    guide = (EXAMPLES.parents[1] / "docs" / "guides" / "plugins.md").read_text()
    files = [path.read_text() for path in EXAMPLES.rglob("*.c")]
    shown = re.findall(r"^```c\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert shown
    for block in shown:
        assert any(block.strip() in text for text in files), block


def test_the_guide_has_every_slot_and_every_way_to_write_a_plugin() -> None:
    from fairlead.plugins import sdk, slots

    guide = (EXAMPLES.parents[1] / "docs" / "guides" / "plugins.md").read_text()
    lacking = [name for name in slots.BY_NAME if f"`{name}" not in guide and f"->{name}" not in guide]
    ways = [
        name
        for name in vars(sdk.Plugin)
        if not name.startswith("_") and name not in ("manifest", "manifest_json")
    ]
    lacking += [name for name in ways if f"plugin.{name}" not in guide]
    assert lacking == []


# --- their C, under sanitizers ---

SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g", "-w")


def sanitized(tmp_path: Path, *sources: Path) -> Path:
    """A program of C files that ends at the first access that is none of its business, and says what it leaks."""
    program = tmp_path / "program"
    given = [f"-I{INCLUDE}", f"-I{EXAMPLES / 'common'}", "-o", str(program), *map(str, sources), "-lpthread"]
    done = subprocess.run([*compiler(), *SANITIZED, *given], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this compiler has no sanitizers")
    return program


def fed(program: Path, lines: list[str]) -> list[str]:
    done = subprocess.run(
        [program], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


ANSWERS = [
    '{"changes":1,"last_insert_rowid":1}',
    '{"columns":[],"rows":[{"chat":"4711","task":"T","token":"abcdefgh","agent":"A","waiting":1,"pending":"more"}]}',
    '{"columns":[],"rows":[{"chat":"4711","task":"T","token":"abcdefgh","agent":"A","replied":0}]}',
    '{"id":"T","status":"running"}',
    '{"status":200,"body":"{}"}',
    '{"status":403,"body":"no"}',
    '{"error":"database_error","message":"full"}',
    '"text"',
    "not JSON",
    "{",
    "(null)",
    "secret",
]
TOOLS = ("add_note", "list_notes", "forget_note", "reply", "reply_photo")
WHOLE = '{"title":"t","body":"b","token":"abcdefgh","text":"x","url":"u"}'
PAYLOADS = (WHOLE, "{}", "[", '{"title":"\\ud83d\\ude00\\u0000"}', "")
TOLD = ('{"question":"Which?","options":["a","b",3]}', '{"output":"Done.","summary":"s"}', "no")


def update(text: str) -> str:
    body = json.dumps({"update_id": 1, "message": {"chat": {"id": 4711}, "text": text}})
    return json.dumps({"headers": {"x-telegram-bot-api-secret-token": "secret"}, "body": body})


CALLS = [
    *(f"tool\t{id}\t{payload}" for id in TOOLS for payload in PAYLOADS),
    *(f"route\t{request}" for request in (update("Hi \u2693"), update("/reset"), "{}")),
    "config\ttunnel_url\thttps://x.example",
    "config\tsignature\tAnn",
    *(f"event\t{number}\t{payload}" for number in (0, 3, 4, 5, 6, 99) for payload in TOLD),
]


@pytest.mark.parametrize("name", ["hello", "notes", "bridge"])
def test_the_c_of_an_example_touches_and_loses_nothing(tmp_path: Path, name: str) -> None:
    sources = sorted((EXAMPLES / name / "src").glob("*.c"))
    program = sanitized(tmp_path, SOURCES / "mini_host.c", *sources)
    for shift in range(len(ANSWERS)):
        turned = [*ANSWERS[shift:], *ANSWERS[:shift]]
        fed(program, [*(f"answer\t{each}" for each in turned), *CALLS * 3])
    for only in ANSWERS:
        fed(program, [f"answer\t{only}", *CALLS])


def test_the_examples_read_json_as_others_do(tmp_path: Path) -> None:
    program = sanitized(tmp_path, SOURCES / "little_json_try.c")
    random = Random(8)
    letters = [
        '"',
        "\\",
        "/",
        "\n",
        "\t",
        "\x7f",
        "a",
        "\u00e9",
        "\u2693",
        "\U0001f600",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
    ]
    texts = ["".join(random.choices(letters, k=random.randrange(12))) for _ in range(300)]
    lines = [
        json.dumps({"other": [text, {"key": 1}], "key": text}, ensure_ascii=bool(at % 2))
        for at, text in enumerate(texts)
    ]
    assert [json.loads(each)["text"] for each in fed(program, lines)] == texts
    found = fed(program, ['{"key" : [1, {"a":[2]} , 3]}', '{"nokey":1}', '{"key":tru'])
    assert [json.loads(each)["item"] for each in found] == ['{"a":[2]}', "", ""]


def test_what_is_no_json_does_the_examples_no_harm(tmp_path: Path) -> None:
    program = sanitized(tmp_path, SOURCES / "little_json_try.c")
    random = Random(9)
    whole = json.dumps({"a": [1, {"b": "\u00e9\\"}], "key": ["\U0001f600", None, True], "z": {}})
    cut = [whole[:at] for at in range(1, len(whole))]
    odd = ["".join(random.choices('{}[]",:\\u0a1 tnkey', k=random.randrange(1, 40))) for _ in range(3000)]
    deep = ["[" * 5000, '{"key":' * 5000, '{"key":"\\', '{"key":"\\u', '{"key":"\\ud83d\\u"}']
    assert len(fed(program, [*cut, *odd, *deep])) == len(cut) + len(odd) + len(deep)
