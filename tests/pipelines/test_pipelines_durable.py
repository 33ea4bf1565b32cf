"""Pipelines that outlive their process: what a step gave is kept, and what is known is not done again."""

import asyncio
import base64
import hashlib
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Context, Failure, Kind
from fairlead.agents.models.model import Request
from fairlead.agents.models.script import ScriptModel, Turn, call
from fairlead.pipelines.apps import options_for
from fairlead.pipelines.checking import check_file, check_text, require
from fairlead.pipelines.durable import SQL, run_durably
from fairlead.pipelines.host import Host
from fairlead.pipelines.journals import Journal, Memory
from fairlead.pipelines.program import Checked
from fairlead.pipelines.running import run_all
from fairlead.store import open_store
from fairlead.store.statements import Statement
from pipelines.durable_under_test import build
from pipelines.ladder import ladder
from warm import Warm
from warm_child import Child

#: A database that others share says where its key is.
KEY = base64.b64encode(bytes(range(32))).decode()
StartProcess = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", KEY)


@pytest.fixture
def process(tmp_path: Path, store_url: str, warm_python: Warm) -> Iterator[StartProcess]:
    """Start a worker in a process of its own; it is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start() -> "subprocess.Popen[str]":
        program = Path(__file__).with_name("durable_under_test.py")
        new = Child(warm_python, str(program), str(tmp_path), store_url, stdout=subprocess.PIPE, text=True)
        started.append(new)
        return new

    yield start
    for each in started:
        each.kill()
        each.communicate()


def _line(process: "subprocess.Popen[str]", wanted: str) -> bool:
    assert process.stdout is not None
    return any(line.strip() == wanted for line in process.stdout)


def done(folder: Path) -> list[str]:
    return (folder / "done").read_text().splitlines()


WHERES = ["before pay c", "after pay c", "ship sold 5"]


@pytest.mark.parametrize("where", WHERES)
async def test_after_kill_9_each_message_comes_out_and_what_has_a_key_is_done_once(
    tmp_path: Path, store_url: str, process: StartProcess, where: str
) -> None:
    app = build(tmp_path, store_url)
    (tmp_path / "where").write_text(where)
    orders = [{"item": each} for each in "abcd"]
    task = await app.tasks.submit("orders", {"messages": orders}, max_attempts=5)
    first = process()
    assert await asyncio.to_thread(_line, first, "stuck")
    first.kill()
    process()
    ended = await app.tasks.wait(task.id)
    # The agent is asked with all that was said before, in the second process too.
    assert ended.data == ["sold 1", "sold 3", "sold 5", "sold 7"]
    happened = Counter(done(tmp_path))
    # What puts its key beside its effect has it once, wherever the process was killed.
    assert {each: happened[each] for each in happened if each.startswith("pay")} == dict.fromkeys(
        ["pay a", "pay b", "pay c", "pay d"], 1
    )
    numbers = (1, 3, 5, 7)
    assert {f"ask {n}" for n in numbers} | {f"ship sold {n}" for n in numbers} <= set(happened)
    # What was known before is not done again.
    known = ["ask 1", "ask 3", "ask 5", "ship sold 1", "ship sold 3"] if where == "ship sold 5" else []
    assert [happened[each] for each in known] == [1] * len(known)
    app.store.close()


async def test_a_pipeline_s_action_is_durable_as_a_task_without_a_word(
    tmp_path: Path, store_url: str, process: StartProcess
) -> None:
    app = build(tmp_path, store_url)
    (tmp_path / "where").write_text("ship sold 1")
    task = await app.tasks.submit("order", {"item": "a"}, max_attempts=5)
    first = process()
    assert await asyncio.to_thread(_line, first, "stuck")
    first.kill()
    process()
    ended = await app.tasks.wait(task.id)
    assert ended.data == "sold 1"
    assert done(tmp_path) == ["pay a", "ask 1", "ship sold 1"]
    app.store.close()


async def test_steps_are_forgotten_when_their_task_has_ended(tmp_path: Path, store_url: str) -> None:
    app = build(tmp_path, store_url)
    async with app.tasks.worker():
        for item in "ab":
            task = await app.tasks.submit("order", {"item": item})
            assert (await app.tasks.wait(task.id)).data == "sold 1"
    kept = await app.store.read(lambda tx: tx.all(SQL.steps, task=task.id))
    assert len(kept) == 3
    await app.store.write(lambda tx: tx.run(SQL.forget_ended))
    assert await app.store.read(lambda tx: tx.all(SQL.steps, task=task.id)) == []
    app.store.close()


async def test_what_is_remembered_is_not_to_be_read_without_the_key(tmp_path: Path, store_url: str) -> None:
    app = build(tmp_path, store_url)
    async with app.tasks.worker():
        task = await app.tasks.submit("order", {"item": "umbrella"})
        assert (await app.tasks.wait(task.id)).data == "sold 1"
    kept = await app.store.read(lambda tx: tx.all(SQL.steps, task=task.id))
    assert [sealed.split(".")[0] for _, sealed in kept] == ["sealed1"] * 3
    assert not any("umbrella" in str(row) or "sold" in str(row) for row in kept)
    app.store.close()


async def test_a_step_that_was_moved_or_changed_is_refused(
    tmp_path: Path, store_url: str, process: StartProcess
) -> None:
    app = build(tmp_path, store_url)
    (tmp_path / "where").write_text("ship sold 1")
    task = await app.tasks.submit("order", {"item": "a"}, max_attempts=5)
    first = process()
    assert await asyncio.to_thread(_line, first, "stuck")
    first.kill()
    (one, sealed), (other, _) = await app.store.read(lambda tx: tx.all(SQL.steps, task=task.id))
    change = Statement.of("UPDATE pipeline_steps SET result = :result WHERE task = :task AND step = :step")
    await app.store.write(lambda tx: tx.run(change, task=task.id, step=other, result=sealed))
    process()
    ended = await app.tasks.wait(task.id)
    assert ended.failure is not None
    assert one != other
    # Nothing was done on the word of whoever changed it.
    assert done(tmp_path) == ["pay a", "ask 1"]
    app.store.close()


async def test_outside_a_task_nothing_is_kept(tmp_path: Path, store_url: str) -> None:
    app = build(tmp_path, store_url)
    result = await app.invoke("order", {"item": "a"})
    assert result.failure is not None  # the action wants a key, and only tasks give one
    app.store.close()


def test_a_run_with_a_name_goes_on_after_kill_9_with_the_same_command(
    tmp_path: Path, warm_python: Warm
) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "shop.plumb").write_text(
        "let main : !{ item: string } -> !string = plumb(i, o) { i ; action pay ; o }"
    )
    command = ["-m", "fairlead", "plumb", "run", "shop.plumb", "--durable", "monday"]
    environ = {"PATH": "/usr/bin:/bin", "FAIRLEAD_DATA": str(tmp_path / "data"), "HOME": str(tmp_path)}
    messages = tmp_path / "messages.jsonl"
    messages.write_text("".join(json.dumps({"item": each}) + "\n" for each in "abc"))
    with messages.open() as file:
        first = Child(
            warm_python, *command, cwd=tmp_path, env=environ, stdin=file, stderr=subprocess.PIPE, text=True
        )
    assert first.stderr is not None
    assert any("stuck" in line for line in first.stderr)
    first.kill()
    first.communicate()
    with messages.open() as file:
        again = subprocess.run(
            warm_python.command(*command),
            cwd=tmp_path,
            env=environ,
            stdin=file,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    assert (again.returncode, again.stdout) == (0, '"a"\n"b"\n"c"\n'), again.stderr
    assert done(tmp_path) == ["a", "b", "c"]


async def test_a_run_with_a_name_is_left_to_its_own_program(store_url: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    def shop(says: str) -> tuple[App, Checked]:
        app = App("shop", store=open_store(url=store_url))

        @app.action(side_effects="write")
        async def pay(item: str) -> str:
            """Pay."""
            if not begun.is_set():
                begun.set()
                await go_on.wait()
            return says

        text = "let main : !{ item: string } -> !string = plumb(i, o) { i ; action pay ; o }"
        return app, require(check_text(f"{text} (* {says} *)", options=options_for(app, {})))

    (one, first), (other, second) = shop("first"), shop("second")
    running = asyncio.ensure_future(run_durably(one, first, [{"item": "a"}], "monday"))
    await begun.wait()
    # The worker of the first run is there, has room, and is told of each task that it may take.
    assert await run_durably(other, second, [{"item": "b"}], "tuesday") == ["second"]
    go_on.set()
    assert await running == ["first"]
    for app in (one, other):
        app.store.close()


async def test_a_message_that_the_pipeline_refuses_ends_a_run_with_a_name(store_url: str) -> None:
    app = App("shop", store=open_store(url=store_url))
    program = require(check_text("let main : !int -> !int = map(value)"))
    # JSON Schema takes 1.0 for a whole number, and the types of pipelines do not.
    async with asyncio.timeout(20):
        with pytest.raises(Failure) as caught:
            await run_durably(app, program, [1, 1.0], "monday")
    assert caught.value.kind is Kind.invalid_input
    app.store.close()


async def test_a_run_with_a_name_that_was_begun_before_an_upgrade_goes_on(store_url: str) -> None:
    app, text = App("shop", store=open_store(url=store_url)), "let main : !int -> !int = map(value)"
    assert await run_durably(app, require(check_text(text)), [1], "monday") == [1]
    ((given,),) = app.store.read_now(lambda tx: tx.all(Statement.of("SELECT input FROM tasks")))
    # 1.0.0 knew a program by its text alone.
    assert json.loads(given)["program"] == hashlib.sha256(text.encode()).hexdigest()
    app.store.close()


WIRED = """
let a : !string -> !string = AGENT
let main : !string -> !string = plumb(i, o) { i ; a ; o }
"""
AS_A_TOOL = """
let helper : !string -> !string = AGENT
let help : string -> string = tool { process: helper }
let main : !string -> !string = agent { model: "default", tools: [help] }
"""
AS_A_TOOL_WITHIN = """
let main : !string -> !string = plumb(i, o) {
    let helper : !string -> !string = AGENT
    let help : string -> string = tool { process: helper }
    let front : !string -> !string = agent { model: "default", tools: [help] }
    i ; front ; o
}
"""


async def test_a_run_with_a_name_belongs_to_its_modules_too(tmp_path: Path) -> None:
    app = App("shop", store=open_store(url=f"sqlite:///{tmp_path}/store.db"))
    (tmp_path / "main.plumb").write_text("use ./one let main : !int -> !int = plumb(i, o) { i ; One.f ; o }")
    (tmp_path / "one.plumb").write_text("use ./two let f : !Two.n -> !int = map(value)")
    (tmp_path / "two.plumb").write_text("type n = int")

    def program() -> Checked:
        return require(check_file(tmp_path / "main.plumb"))

    assert await run_durably(app, program(), [1], "monday") == [1]
    assert await run_durably(app, program(), [1], "monday") == [1]
    (tmp_path / "two.plumb").write_text("type n = int (* and nothing else *)")
    with pytest.raises(Failure) as caught:
        await run_durably(app, program(), [1], "monday")
    assert caught.value.kind is Kind.conflict
    app.store.close()


async def test_modules_that_are_used_in_many_ways_are_looked_at_once_for_a_name(tmp_path: Path) -> None:
    app = App("shop", store=open_store(url=f"sqlite:///{tmp_path}/store.db"))
    (tmp_path / "main.plumb").write_text(ladder(tmp_path))
    program = require(check_file(tmp_path / "main.plumb"))
    assert await run_durably(app, program, [1], "monday") == [1]
    app.store.close()


@pytest.mark.parametrize(
    "place", ["let main : !string -> !string = AGENT", WIRED, AS_A_TOOL, AS_A_TOOL_WITHIN]
)
async def test_a_run_with_a_name_belongs_to_its_prompts_and_models_too(tmp_path: Path, place: str) -> None:
    app = App(
        "shop",
        store=open_store(url=f"sqlite:///{tmp_path}/store.db"),
        models=ScriptModel(["said"]),
    )
    (tmp_path / "main.plumb").write_text(place.replace("AGENT", 'agent { prompts: ["./how.md"] }'))

    def program(prompt: str, model: str = "default") -> Checked:
        (tmp_path / "how.md").write_text(prompt)
        options = options_for(app, {}, model=model)
        return require(check_file(tmp_path / "main.plumb", options))

    assert await run_durably(app, program("Be kind."), ["a"], "monday") == ["said"]
    assert await run_durably(app, program("Be kind."), ["a"], "monday") == ["said"]
    for other in (["Be brief."], ["Be kind.", "local"]):
        with pytest.raises(Failure) as caught:
            await run_durably(app, program(*other), ["a"], "monday")
        assert caught.value.kind is Kind.conflict
    app.store.close()


HELPED = """
let pay : { amount: int } -> string = action pay
let helper : !string -> !string = agent { model: "default", tools: [pay] }
let help : string -> string = tool { process: helper }
let main : !string -> !string = agent { model: "default", tools: [TOOL] }
"""


def _paying(request: Request) -> Turn:
    """Has five paid twice: for itself, or by a helper who pays five each time."""
    said = request.messages[-1]
    if said.role == "tool":
        return Turn(" and ".join(each.content for each in request.messages if each.role == "tool"))
    if said.content == "five":
        return Turn(calls=(call("pay", amount=5),))
    name, given = ("help", {"value": "five"}) if said.content == "help" else ("pay", {"amount": 5})
    return Turn(calls=(call(name, **given), call(name, **given)))


class Paid(Memory):
    """Steps of a task; after so many, the process is gone."""

    run: str | None = "task-1"

    def __init__(self, steps: dict[str, Any], most: int) -> None:
        super().__init__(steps)
        self.most = most

    async def keep(self, step: str, place: str, result: Any) -> None:
        if len(self.steps) >= self.most:
            raise Failure(Kind.cancelled, "The process is gone.")
        await super().keep(step, place, result)


def _bank(paid: dict[str | None, int]) -> App:
    app = App("shop", models=ScriptModel(_paying))

    @app.action(side_effects="write")
    async def pay(amount: int, ctx: Context) -> str:
        """Pay, once for each key."""
        return f"paid {paid.setdefault(ctx.idempotency_key, len(paid) + 1)}"

    return app


@pytest.mark.parametrize(("tool", "kept"), [("pay", 3), ("help", 0), ("help", 6)])
async def test_what_a_tool_does_twice_is_done_twice_wherever_the_run_was_cut_off(
    tool: str, kept: int
) -> None:
    paid, steps = dict[str | None, int](), dict[str, Any]()
    app = _bank(paid)
    main = require(check_text(HELPED.replace("TOOL", tool), options=options_for(app, {}))).main
    assert main is not None
    with suppress(Failure):
        await run_all(main, [tool], Host(app=app, journal=Journal(Paid(steps, kept))))
    (said,) = await run_all(main, [tool], Host(app=app, journal=Journal(Paid(steps, 99))))
    assert ("paid 1" in said, "paid 2" in said, len(paid)) == (True, True, 2)


async def test_a_payment_that_could_not_be_written_down_is_not_paid_again() -> None:
    app, keys = App("shop"), list[str | None]()

    @app.action(side_effects="write")
    async def pay(amount: int, ctx: Context) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)
        return "paid"

    class Away(Paid):
        async def keep(self, step: str, place: str, result: Any) -> None:
            self.most -= 1
            if self.most == 0:
                raise Failure(Kind.unavailable, "The store is away.")
            self.steps[step] = result

    main = require(check_text(PAYS, options=options_for(app, {}))).main
    assert main is not None
    steps: dict[str, Any] = {}
    given = [{"amount": 5}, {"amount": 5}]
    assert await run_all(main, given, Host(app=app, journal=Journal(Away(steps, 1)))) == ["paid", "paid"]
    assert [key and key.rpartition(":")[2] for key in keys] == ["1", "2"]
    assert len(steps) == 2


APP = """
import asyncio, pathlib, sys
from fairlead import App

app = App("shop")


@app.action(side_effects="write")
async def pay(item: str) -> str:
    "Pay."
    mark = pathlib.Path("stuck")
    if item == "b" and not mark.exists():
        mark.touch()
        print("stuck", file=sys.stderr, flush=True)
        await asyncio.Event().wait()
    with open("done", "a") as file:
        print(item, file=file)
    return item
"""


PAYS = """
type In = { amount: int }
let main : !In -> !string = plumb(input, output) {
  input ; action pay { retry: 2, backoff: 0.01, timeout: 0.5 } ; output
}
"""


@pytest.mark.parametrize("fails", ["failure", "timeout"])
async def test_a_payment_that_was_tried_again_is_not_paid_again_after_a_crash(fails: str) -> None:
    app, keys = App("shop"), list[str | None]()

    @app.action(side_effects="write")
    async def pay(amount: int, ctx: Context) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)
        if len(keys) == 1 and fails == "timeout":
            await asyncio.Event().wait()
        if len(keys) == 1:
            raise Failure(Kind.unavailable, "The bank is away.")
        return "paid"

    class Pages(Memory):
        run: str | None = "task-1"

    main = require(check_text(PAYS, options=options_for(app, {}))).main
    assert main is not None
    steps: dict[str, Any] = {}
    for _ in ("at first", "after a crash"):
        host = Host(app=app, journal=Journal(Pages(steps)))
        assert await run_all(main, [{"amount": 5}], host) == ["paid"]
    assert len(keys) == 2
    assert keys[0] == keys[1]


async def test_the_same_step_side_by_side_keeps_its_number_when_the_other_fails() -> None:
    journal = Journal(Memory())
    failed, steps = asyncio.Event(), list[str]()

    async def fails(step: str) -> None:
        steps.append(step)
        failed.set()
        raise Failure(Kind.unavailable, "Away.")

    async def works(step: str) -> str:
        steps.append(step)
        await failed.wait()
        return step

    async def first() -> Any:
        with pytest.raises(Failure):
            await journal.once("pay", 1, fails)
        return await journal.once("pay", 1, works)

    again, other = await asyncio.gather(first(), journal.once("pay", 1, works))
    assert again == steps[0]
    assert other != again
