"""Calls between host and plugin, both ways, in both forms: loading, strings, agents, NULLs, threads and streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fairlead.failures import Failure, Kind
from fairlead.failures.host import NotFound
from fairlead.plugins import slots
from fairlead.plugins.runner import Answer, Frame, Runner
from plugins.conftest import Compiled
from plugins.native_kit import ANN, BOB, Answering

Make = Callable[..., Runner]


async def invoke(runner: Runner, id: str, payload: str = "", agent: str | None = ANN) -> str:
    return await runner.invoke("tool", id, payload, agent=agent, timeout=20)


async def ask(runner: Runner, slot: str, *args: str | None, agent: str | None = ANN) -> str:
    lines = [str(slots.BY_NAME[slot].number), *("(null)" if each is None else each for each in args)]
    return await invoke(runner, "host", "\n".join(lines), agent)


# --- loading ----------------------------------------------------------------------------------------------------------


async def test_a_plugin_is_loaded_with_its_version_its_manifest_and_what_it_offers(
    runner: Make, toy: Path
) -> None:
    started = await runner(toy).start()
    assert started.abi == 6
    assert json.loads(started.manifest) == {"plugin_id": "test.toy", "capabilities": {}}
    assert (started.routes, started.config, started.events) == (True, True, True)


async def test_the_newer_entry_is_preferred_where_a_library_has_both(
    runner: Make, compiled: Compiled
) -> None:
    started = await runner(compiled("toy", "-DBOTH")).start()
    assert started.abi == 6


@pytest.mark.parametrize(("stated", "effective"), [(0, 2), (1, 2), (2, 2), (4, 4), (6, 6), (9, 9)])
async def test_a_plugin_with_a_host_speaks_at_least_the_second_version(
    in_process_runner: Make, compiled: Compiled, stated: int, effective: int
) -> None:
    started = await in_process_runner(compiled("toy", f"-DABI={stated}")).start()
    assert started.abi == effective


async def test_of_a_first_version_s_table_nothing_beyond_the_prefix_is_read(
    runner: Make, compiled: Compiled
) -> None:
    old = runner(compiled("toy", "-DV1"))
    started = await old.start()
    assert started.abi == 1
    assert (started.routes, started.config, started.events) == (False, False, False)
    assert await invoke(old, "raw", "hello") == "hello"


async def test_a_plugin_without_the_optional_functions_is_accepted(runner: Make, compiled: Compiled) -> None:
    bare = runner(compiled("toy", "-DBARE"))
    started = await bare.start()
    assert (started.routes, started.config, started.events) == (False, False, False)
    await bare.config_changed("key", "value", agent=ANN)
    await bare.task_event("task", 0, "{}", agent=ANN)
    with pytest.raises(Failure) as refused:
        await bare.handle_route("{}", agent=ANN, timeout=5)
    assert refused.value.kind is Kind.unsupported
    assert await invoke(bare, "seen") == ""


@pytest.mark.parametrize("lacking", ["free_string", "init", "destroy", "get_manifest", "invoke"])
async def test_a_table_without_a_required_function_is_refused_by_name(
    in_process_runner: Make, compiled: Compiled, lacking: str
) -> None:
    services = Answering()
    with pytest.raises(Failure, match=f"lacks what every plugin has: {lacking}\\.") as refused:
        await in_process_runner(compiled("toy", f"-DLACKING_{lacking}=0"), services).start()
    assert refused.value.kind is Kind.misconfigured
    assert [args[1] for name, args, _agent in services.asked if name == "log"] == ["entry"]


async def test_all_functions_that_a_table_lacks_are_named(runner: Make, compiled: Compiled) -> None:
    library = compiled("toy", "-DLACKING_init=0", "-DLACKING_destroy=0", "-DLACKING_invoke=0")
    with pytest.raises(Failure, match="init, destroy, invoke"):
        await runner(library).start()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-DNO_TABLE"], "gave NULL instead of its table"),
        (["-DINIT_FAILS"], "init gave NULL"),
        (["-DNO_MANIFEST"], "get_manifest gave NULL"),
        (["-DNO_ENTRY"], "neither osaurus_plugin_entry_v2 nor osaurus_plugin_entry"),
    ],
)
async def test_a_library_that_is_no_plugin_is_refused_with_the_reason(
    runner: Make, compiled: Compiled, options: list[str], why: str
) -> None:
    services = Answering()
    with pytest.raises(Failure, match=why) as refused:
        await runner(compiled("toy", *options), services).start()
    assert refused.value.kind is Kind.misconfigured


async def test_a_plugin_without_a_manifest_is_destroyed_again(runner: Make, compiled: Compiled) -> None:
    services = Answering()
    with pytest.raises(Failure):
        await runner(compiled("toy", "-DNO_MANIFEST"), services).start()
    assert ("config_get", ("destroying",), None) in services.asked


async def test_a_file_that_is_no_library_is_refused(runner: Make, tmp_path: Path) -> None:
    file = tmp_path / "text.so"
    file.write_text("not a library")
    with pytest.raises(Failure, match="cannot be opened"):
        await runner(file).start()


# --- strings ----------------------------------------------------------------------------------------------------------


async def test_a_call_carries_its_strings_there_and_back(runner: Make, toy: Path) -> None:
    toy_runner = runner(toy)
    assert await invoke(toy_runner, "echo", '{"n":1}') == '{"echo":{"n":1}}'
    assert (
        await toy_runner.invoke("artifact", "say", "grüße 🚢", agent=None, timeout=5) == "artifact grüße 🚢"
    )


@pytest.mark.parametrize("length", [0, 1, 4096, 65_529, 65_536, 70_000, 5_000_000])
async def test_a_string_of_any_length_arrives_whole(runner: Make, toy: Path, length: int) -> None:
    text = ("abcdefghij" * (length // 10 + 1))[:length]
    toy_runner = runner(toy, Answering(config_get=text))
    assert await invoke(toy_runner, "raw", text) == text
    assert await ask(toy_runner, "config_get", "key") == text


async def test_bytes_that_are_no_text_are_replaced_and_not_an_error(runner: Make, toy: Path) -> None:
    assert await invoke(runner(toy), "bytes") == "\ufffd\ufffd not UTF-8"


async def test_null_from_invoke_is_a_failure_of_the_plugin(runner: Make, toy: Path) -> None:
    toy_runner = runner(toy)
    with pytest.raises(Failure) as failed:
        await invoke(toy_runner, "null")
    assert failed.value.kind is Kind.upstream
    assert failed.value.details == {"null": True}
    assert await invoke(toy_runner, "raw", "still here") == "still here"


# --- host calls -------------------------------------------------------------------------------------------------------

#: Each slot that the host answers, with arguments and what the plugin gets.
ASKED: list[tuple[str, list[str], str]] = [
    ("config_get", ["key"], "key"),
    ("config_set", ["key", "value"], "VOID"),
    ("config_delete", ["key"], "VOID"),
    ("db_exec", ["sql", "[1]"], "sql"),
    ("db_query", ["sql", "[1]"], "sql"),
    ("log", ["2", "message"], "VOID"),
    ("dispatch", ["{}"], "{}"),
    ("task_status", ["id"], "id"),
    ("dispatch_cancel", ["id"], "VOID"),
    ("dispatch_clarify", ["id", "answer"], "VOID"),
    ("complete", ["{}"], "{}"),
    ("embed", ["{}"], "{}"),
    ("list_models", [], "NULL"),
    ("http_request", ["{}"], "{}"),
    ("file_read", ["{}"], "{}"),
    ("list_active_tasks", [], "NULL"),
    ("send_draft", ["id", "{}"], "VOID"),
    ("dispatch_interrupt", ["id", "message"], "VOID"),
    ("dispatch_add_issue", ["id", "{}"], "{}"),
    ("complete_cancel", ["id"], "VOID"),
    ("log_structured", ["3", "message", "{}"], "VOID"),
]


async def test_every_slot_reaches_the_services_with_its_arguments_and_agent(runner: Make, toy: Path) -> None:
    services = Answering(dispatch_add_issue="{}")
    toy_runner = runner(toy, services)
    for slot, args, expected in ASKED:
        assert await ask(toy_runner, slot, *args) == expected, slot
    assert await ask(toy_runner, "complete_stream", "{}") == "done"
    asked = [each for each in services.asked if each[1] not in (("2", "entry"), ("2", "init"))]
    assert asked == [
        *((slot, tuple(args), ANN) for slot, args, _ in ASKED),
        ("complete_stream", ("{}",), ANN),
    ]
    carried = {slot for slot, _args, _ in ASKED} | {"complete_stream", "get_active_agent_id", "free_string"}
    assert carried == set(slots.BY_NAME)


async def test_the_table_that_a_plugin_gets_is_of_the_sixth_version(runner: Make, toy: Path) -> None:
    assert await invoke(runner(toy), "version") == "6"


async def later(answer: str) -> str:
    await asyncio.sleep(0)
    return answer


def by_a_thread(answer: str) -> Future[str | None]:
    future: Future[str | None] = Future()
    Thread(target=lambda: future.set_result(answer)).start()
    return future


@pytest.mark.parametrize(
    "answer", [lambda _: "at once", lambda _: later("later"), lambda _: by_a_thread("thread")]
)
async def test_an_answer_may_come_at_once_later_or_from_a_thread(
    runner: Make, toy: Path, answer: Any
) -> None:
    toy_runner = runner(toy, Answering(file_read=answer))
    assert await ask(toy_runner, "file_read", "{}") in ("at once", "later", "thread")


class WithSql(Answering):
    """Services with a thread for SQL, which may also answer on the spot."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = ThreadPoolExecutor(1)
        self.statements: list[str | None] = []

    def run(self, slot: int, args: tuple[str | None, ...], frame: Frame) -> str | None:
        assert frame.agent == ANN
        self.statements.append(args[0])
        return args[0]

    def sql_waiting(self) -> bool:
        return False

    def call(self, slot: int, args: tuple[str | None, ...], frame: Frame) -> Answer:
        if slot in (slots.DB_EXEC, slots.DB_QUERY):
            return self.thread.submit(self.run, slot, args, frame)
        return super().call(slot, args, frame)


async def test_statements_in_a_row_are_answered_in_order_also_between_other_calls(
    runner: Make, toy: Path
) -> None:
    services = WithSql()
    with services.thread:
        toy_runner = runner(toy, services)
        assert await invoke(toy_runner, "sql", "1000") == "1100"
        assert services.statements == [f"statement {n}" for n in range(1000)]
        for _ in range(100):
            assert await invoke(toy_runner, "sql", "1") == "1"
        told = await asyncio.gather(*(invoke(toy_runner, "sql", "50") for _ in range(4)))
        assert told == ["55"] * 4
        assert len(services.statements) == 1300


async def raising_later(exc: Exception) -> str:
    raise exc


def raising(exc: Exception) -> Any:
    def answer(*_: object) -> str:
        raise exc

    return answer


@pytest.mark.parametrize("late", [False, True])
async def test_a_service_that_fails_is_told_as_a_coded_error(runner: Make, toy: Path, late: bool) -> None:
    failure, mistake = NotFound("There is no such file."), ValueError("a secret detail")
    answers = {"file_read": failure, "embed": mistake, "config_get": failure, "config_set": mistake}
    made = {
        slot: (lambda *_, exc=exc: raising_later(exc)) if late else raising(exc)
        for slot, exc in answers.items()
    }
    toy_runner = runner(toy, Answering(**made))
    assert json.loads(await ask(toy_runner, "file_read", "{}")) == {
        "error": "not_found",
        "message": "There is no such file.",
    }
    told = json.loads(await ask(toy_runner, "embed", "{}"))
    assert told["error"] == "inference_error"
    assert "secret" not in told["message"]
    assert await ask(toy_runner, "config_get", "key") == "NULL"
    assert await ask(toy_runner, "config_set", "key", "value") == "VOID"


async def test_a_json_slot_whose_first_pointer_is_null_gives_null_and_asks_nobody(
    runner: Make, toy: Path
) -> None:
    services = Answering()
    toy_runner = runner(toy, services)
    for slot in slots.ALL:
        if slot.gives == slots.JSON and slot.args:
            assert await ask(toy_runner, slot.name, None, "second") == "NULL", slot.name
    assert services.names() == ["log", "log"]


async def test_a_void_slot_ignores_a_null_that_it_needs(runner: Make, toy: Path) -> None:
    services = Answering()
    toy_runner = runner(toy, services)
    lacking: list[tuple[str, list[str | None]]] = [
        ("config_set", [None, "value"]),
        ("config_set", ["key", None]),
        ("config_delete", [None]),
        ("log", ["2", None]),
        ("dispatch_cancel", [None]),
        ("dispatch_clarify", [None, "answer"]),
        ("send_draft", [None, "{}"]),
        ("send_draft", ["id", None]),
        ("dispatch_interrupt", [None, "message"]),
        ("complete_cancel", [None]),
        ("log_structured", ["2", None, "{}"]),
    ]
    for slot, args in lacking:
        assert await ask(toy_runner, slot, *args) == "VOID"
    assert await ask(toy_runner, "config_get", None) == "NULL"
    assert services.names() == ["log", "log"]


async def test_a_null_that_is_allowed_reaches_the_services(runner: Make, toy: Path) -> None:
    services = Answering()
    toy_runner = runner(toy, services)
    await ask(toy_runner, "db_exec", "sql", None)
    await ask(toy_runner, "db_query", "sql", None)
    await ask(toy_runner, "dispatch_interrupt", "id", None)
    await ask(toy_runner, "log_structured", "2", "message", None)
    assert [args for _name, args, _agent in services.asked[2:]] == [
        ("sql", None),
        ("sql", None),
        ("id", None),
        ("2", "message", None),
    ]


# --- agents -----------------------------------------------------------------------------------------------------------


async def test_the_active_agent_is_that_of_the_call(runner: Make, toy: Path) -> None:
    toy_runner = runner(toy)
    assert await invoke(toy_runner, "agents", agent=ANN) == ANN
    assert await invoke(toy_runner, "agents", agent=BOB) == BOB
    assert await toy_runner.handle_route("{}", agent=ANN, timeout=5) == f"{{}} for {ANN}"


async def test_outside_an_agent_s_call_there_is_no_active_agent(runner: Make, toy: Path) -> None:
    toy_runner = runner(toy)
    assert await invoke(toy_runner, "agents", agent=ANN) == ANN
    assert await invoke(toy_runner, "agents", agent=None) == "NULL"


async def test_agents_of_calls_at_the_same_time_are_kept_apart(runner: Make, toy: Path) -> None:
    services = Answering(complete=lambda _: later("{}"))
    toy_runner = runner(toy, services)
    await toy_runner.start()
    agents = [ANN, BOB, None] * 10
    told = await asyncio.gather(*(invoke(toy_runner, "agents", agent=agent) for agent in agents))
    assert told == [agent or "NULL" for agent in agents]
    await asyncio.gather(*(ask(toy_runner, "complete", str(agent), agent=agent) for agent in agents))
    completed = [(args[0], agent) for name, args, agent in services.asked if name == "complete"]
    assert len(completed) == 30
    assert all(text == str(agent) for text, agent in completed)


async def test_entry_and_init_are_called_for_the_plugin_without_an_agent(runner: Make, toy: Path) -> None:
    services = Answering()
    await runner(toy, services).start()
    assert services.asked == [("log", ("2", "entry"), None), ("log", ("2", "init"), None)]


async def test_freeing_null_does_nothing(runner: Make, toy: Path) -> None:
    assert await ask(runner(toy), "free_string") == "VOID"


# --- callbacks --------------------------------------------------------------------------------------------------------


async def test_values_and_events_reach_the_plugin_with_their_agent(runner: Make, toy: Path) -> None:
    toy_runner = runner(toy)
    await toy_runner.config_changed("token", "", agent=ANN)
    await toy_runner.task_event("some-task", 8, '{"draft":{}}', agent=BOB)
    await toy_runner.task_event("some-task", 4, "{}", agent=None)
    seen = await invoke(toy_runner, "seen")
    assert seen == f'config token=@{ANN};event8 some-task={{"draft":{{}}}}@{BOB};event4 some-task={{}}@-;'


async def test_values_are_delivered_one_at_a_time(runner: Make, toy: Path) -> None:
    toy_runner = runner(toy, Answering(config_get=lambda key: later(key)))
    await asyncio.gather(*(toy_runner.config_changed(f"k{n}", "v", agent=ANN) for n in range(20)))
    assert await invoke(toy_runner, "overlap") == "1"
    assert (await invoke(toy_runner, "seen")).count(";") == 20


async def test_an_event_of_a_task_comes_after_the_plugin_knows_the_task(runner: Make, toy: Path) -> None:
    told = asyncio.Event()
    answered = asyncio.Event()

    async def dispatch(_: str) -> str:
        told.set()
        await answered.wait()
        return "{}"

    toy_runner = runner(toy, Answering(dispatch=dispatch))
    dispatching = asyncio.create_task(ask(toy_runner, "dispatch", "{}"))
    await told.wait()
    event = asyncio.create_task(toy_runner.task_event("task", 0, "{}", agent=ANN))
    assert await invoke(toy_runner, "seen") == ""
    assert not event.done()
    answered.set()
    assert await dispatching == "{}"
    await event
    assert "event0 task" in await invoke(toy_runner, "seen")


# --- threads, streams, calls within calls -----------------------------------------------------------------------------


async def test_threads_of_the_plugin_can_ask_and_have_no_agent(runner: Make, toy: Path) -> None:
    services = Answering()
    told = await invoke(runner(toy, services), "threads", "20 10")
    assert told == "right 200, with an agent 0"
    await services.until("log", 202)
    assert {agent for name, _args, agent in services.asked if name == "config_get"} == {None}


async def test_more_threads_than_lanes_take_turns(process_runner: Make, toy: Path) -> None:
    slow = Answering(config_get=later)
    assert await invoke(process_runner(toy, slow), "threads", "150 3") == "right 450, with an agent 0"


async def test_a_thread_can_ask_after_the_call_that_made_it(runner: Make, toy: Path) -> None:
    services = Answering()
    assert await invoke(runner(toy, services), "log_later", "from the background") == "started"
    await services.until("log", 3)
    assert services.asked[-1] == ("log", ("2", "from the background"), None)


async def test_a_stream_gives_its_pieces_in_order_and_then_its_answer(runner: Make, toy: Path) -> None:
    assert await invoke(runner(toy), "stream", "{}") == "one|two|three|=done"


async def test_a_stream_without_a_callback_gives_only_its_answer(runner: Make, toy: Path) -> None:
    assert await ask(runner(toy), "complete_stream", "{}") == "done"


async def test_a_stream_can_be_cancelled_from_inside_a_piece(runner: Make, toy: Path) -> None:
    services = Answering()
    assert await invoke(runner(toy, services), "stream_cancel", "my-stream") == "one|=cancelled"
    assert services.cancelled == {"my-stream"}


async def test_a_piece_can_ask_the_host(runner: Make, toy: Path) -> None:
    assert await invoke(runner(toy), "stream_calls_back", "{}") == "one|onetwo|twothree|three=done"


async def test_a_piece_can_start_a_stream_of_its_own(runner: Make, toy: Path) -> None:
    services = Answering()
    services.pieces = ["a", "b"]
    told = await invoke(runner(toy, services), "stream_in_stream", "outer")
    assert told == "a|a[a|ab|bdone]b|b[a|ab|bdone]=done"


async def test_a_thread_of_the_plugin_can_stream(runner: Make, toy: Path) -> None:
    assert await invoke(runner(toy), "stream_elsewhere", "{}") == "one|onetwo|twothree|three=done"


async def test_the_host_can_call_a_plugin_that_waits_for_the_host(runner: Make, toy: Path) -> None:
    async def nested(depth: str) -> str:
        if depth == "0":
            return "bottom"
        return await ask(toy_runner, "complete", str(int(depth) - 1), agent=BOB) + f"<{depth}"

    toy_runner: Runner = runner(toy, Answering(complete=nested))
    assert await ask(toy_runner, "complete", "5") == "bottom<1<2<3<4<5"


async def test_many_calls_run_in_the_plugin_at_once(runner: Make, toy: Path) -> None:
    inside, all_inside = 0, asyncio.Event()

    async def together(_: str) -> str:
        nonlocal inside
        inside += 1
        if inside == 16:
            all_inside.set()
        await all_inside.wait()
        return "{}"

    toy_runner = runner(toy, Answering(complete=together))
    assert await asyncio.gather(*(ask(toy_runner, "complete", "{}") for _ in range(16))) == ["{}"] * 16


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_stopping_destroys_once_within_the_plugin_s_context(runner: Make, toy: Path) -> None:
    services = Answering()
    toy_runner = runner(toy, services)
    await toy_runner.start()
    await asyncio.gather(*(toy_runner.stop() for _ in range(5)))
    await toy_runner.stop()
    assert services.asked[2:] == [("config_get", ("destroying",), None), ("log", ("2", "destroying"), None)]


async def test_stopping_waits_for_calls_in_flight(runner: Make, toy: Path) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slowly(_: str) -> str:
        asked.set()
        await answered.wait()
        return "{}"

    services = Answering(complete=slowly)
    toy_runner = runner(toy, services)
    calling = asyncio.create_task(ask(toy_runner, "complete", "{}"))
    await asked.wait()
    stopping = asyncio.create_task(toy_runner.stop())
    await asyncio.sleep(0)
    assert ("config_get", ("destroying",), None) not in services.asked
    answered.set()
    assert await calling == "{}"
    await stopping
    assert services.asked[-2:] == [("config_get", ("destroying",), None), ("log", ("2", "destroying"), None)]


async def test_stopping_waits_for_a_callback_that_is_inside_the_plugin(runner: Make, toy: Path) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slowly(key: str) -> str:
        if key == "slow":
            asked.set()
            await answered.wait()
        return key

    services = Answering(config_get=slowly)
    toy_runner = runner(toy, services)
    telling = asyncio.create_task(toy_runner.config_changed("slow", "value", agent=ANN))
    await asked.wait()
    stopping = asyncio.create_task(toy_runner.stop())
    await asyncio.sleep(0)
    assert ("config_get", ("destroying",), None) not in services.asked
    answered.set()
    await telling
    await stopping
    assert services.names().count("config_get") == 2


async def test_a_stopped_plugin_takes_no_calls(runner: Make, toy: Path) -> None:
    toy_runner = runner(toy)
    await toy_runner.start()
    await toy_runner.stop()
    for call in (
        toy_runner.start(),
        invoke(toy_runner, "raw"),
        toy_runner.handle_route("{}", agent=ANN, timeout=5),
        toy_runner.config_changed("key", "value", agent=ANN),
        toy_runner.task_event("task", 0, "{}", agent=ANN),
    ):
        with pytest.raises(Failure, match="shut down"):
            await call


async def test_stopping_a_plugin_that_never_ran_does_nothing(runner: Make, toy: Path) -> None:
    services = Answering()
    await runner(toy, services).stop()
    assert services.asked == []
