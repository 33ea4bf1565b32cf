"""What every slot has in common: NULL arguments, reserved slots, failures as JSON, and the lines that calls leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.failures import Failure, Kind
from fairlead.failures.host import PluginBusy, TaskLimitReached
from fairlead.failures.redaction import Redactor
from fairlead.plugins import slots
from fairlead.plugins.runner import Frame
from fairlead.store import open_store
from plugins.plugin_host import ANN, BOB, Host

TASK = "33333333-3333-4333-8333-333333333333"
Make = Callable[..., Host]


class Handler:
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self, answer: str | Failure | Exception | None = '{"id":"x"}') -> None:
        self.answer = answer
        self.asked: list[tuple[int, tuple[str | None, ...], str | None]] = []

    def call(
        self, slot: int, args: tuple[str | None, ...], frame: Frame
    ) -> str | Awaitable[str | None] | None:
        self.asked.append((slot, args, frame.agent))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def stream(
        self, request: str, frame: Frame, chunk: Callable[[str], Awaitable[None]] | None
    ) -> str | None:
        if chunk is not None:
            await chunk('{"delta":1}')
        return '{"id":"s"}'


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Host] = []
    with open_store(url=f"sqlite:///{tmp_path}/store.db") as store:

        def one(**options: Any) -> Host:
            made.append(Host(store, tmp_path, **options))
            return made[-1]

        yield one
        for each in made:
            await each.close()


@pytest.mark.parametrize("slot", slots.ALL, ids=lambda slot: slot.name)
async def test_a_slot_whose_first_argument_is_null_gives_null_and_does_nothing(
    make: Make, slot: slots.Slot
) -> None:
    handler = Handler()
    host = make(inference=handler, dispatch=handler)
    if not slot.required:
        return
    assert await host.ask(slot.number, *([None] * len(slot.args.replace("c", "")))) is None
    assert handler.asked == []
    assert await host.lines() == []


async def test_a_set_without_a_value_and_a_log_without_words_do_nothing(make: Make) -> None:
    host = make()
    await host.ask(slots.CONFIG_SET, "k", None)
    await host.ask(slots.LOG, "2", None)
    await host.ask(slots.LOG_STRUCTURED, "2", None, "{}")
    assert await host.ask(slots.CONFIG_GET, "k") is None
    assert await host.lines() == []


async def test_an_interrupt_without_words_is_one(make: Make) -> None:
    handler = Handler(None)
    host = make(dispatch=handler)
    await host.ask(slots.DISPATCH_INTERRUPT, TASK, None)
    assert handler.asked == [(slots.DISPATCH_INTERRUPT, (TASK, None), ANN)]


async def test_the_agent_of_a_call_is_the_one_of_its_frame(make: Make) -> None:
    host = make()
    assert await host.ask(slots.GET_ACTIVE_AGENT_ID) == ANN
    assert await host.ask(slots.GET_ACTIVE_AGENT_ID, agent=None) is None


async def test_clarify_is_reserved_and_does_nothing(make: Make) -> None:
    host = make(dispatch=Handler())
    assert await host.ask(slots.DISPATCH_CLARIFY, TASK, "yes") is None
    (line,) = await host.lines()
    assert (line.title, line.status) == (f"POST /host-api/tasks/{TASK}/clarify", 410)


async def test_add_issue_is_reserved_and_says_so(make: Make) -> None:
    host = make(dispatch=Handler())
    told = await host.told(slots.DISPATCH_ADD_ISSUE, TASK, "{}")
    assert told["error"] == "not_supported"
    (line,) = await host.lines()
    assert (line.title, line.status) == (f"POST /host-api/tasks/{TASK}/issues", 410)


@pytest.mark.parametrize(
    ("slot", "args", "title", "status"),
    [
        (slots.DISPATCH, ('{"prompt":"x"}',), "POST /host-api/dispatch", 202),
        (slots.TASK_STATUS, (TASK,), f"GET /host-api/tasks/{TASK}", 200),
        (slots.DISPATCH_CANCEL, (TASK,), f"DELETE /host-api/tasks/{TASK}", 200),
        (slots.SEND_DRAFT, (TASK, "{}"), f"POST /host-api/tasks/{TASK}/draft", 200),
        (slots.DISPATCH_INTERRUPT, (TASK, "stop"), f"POST /host-api/tasks/{TASK}/interrupt", 200),
        (slots.LIST_ACTIVE_TASKS, (), "GET /host-api/tasks", 200),
        (slots.COMPLETE, ("{}",), "POST /host-api/chat/completions", 200),
        (slots.EMBED, ("{}",), "POST /host-api/embeddings", 200),
        (slots.LIST_MODELS, (), "GET /host-api/models", 200),
        (slots.COMPLETE_CANCEL, ("stream-1",), "DELETE /host-api/streams/stream-1", 204),
    ],
)
async def test_a_call_leaves_a_line_in_insights(
    make: Make, slot: int, args: tuple[str, ...], title: str, status: int
) -> None:
    handler = Handler()
    host = make(inference=handler, dispatch=handler)
    await host.ask(slot, *args)
    assert handler.asked == [(slot, args, ANN)]
    (line,) = await host.lines()
    assert (line.title, line.status, line.agent) == (title, status, ANN)
    assert line.took_ms is not None


async def test_a_stream_leaves_a_line_and_gives_its_chunks(make: Make) -> None:
    host = make(inference=Handler())
    chunks: list[str] = []

    async def chunk(text: str) -> None:
        chunks.append(text)

    assert await host.services.stream("{}", host.frame, chunk) == '{"id":"s"}'
    assert chunks == ['{"delta":1}']
    assert [line.title for line in await host.lines()] == ["POST /host-api/chat/completions"]


async def test_a_stream_without_a_request_is_null(make: Make) -> None:
    assert await make(inference=Handler()).services.stream(None, Frame("acme.notes"), None) is None


async def test_a_failure_is_json_with_a_code_and_a_message(make: Make) -> None:
    host = make(inference=Handler(PluginBusy("Two calls run already.")))
    text = await host.ask(slots.COMPLETE, "{}")
    assert text == '{"error":"plugin_busy","message":"Two calls run already."}'


async def test_a_failure_of_another_family_is_told_in_the_host_s_words(make: Make) -> None:
    host = make(inference=Handler(Failure(Kind.rate_limited, "Later.", retry_after=2.0)))
    told = await host.told(slots.COMPLETE, "{}")
    assert (told["error"], told["retry_after_ms"]) == ("rate_limit_exceeded", 2000)


async def test_what_goes_wrong_in_the_host_is_told_and_not_raised(make: Make) -> None:
    host = make(inference=Handler(ZeroDivisionError("in the host")))
    told = await host.told(slots.COMPLETE, "{}")
    assert told["error"] == "inference_error"


async def test_a_void_slot_that_fails_gives_nothing_and_leaves_a_line(make: Make) -> None:
    host = make(dispatch=Handler(TaskLimitReached()))
    assert await host.ask(slots.SEND_DRAFT, TASK, "{}") is None
    (line,) = await host.lines()
    assert line.status == 429


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("invalid_request", 400),
        ("invalid_task_id", 400),
        ("unauthorized", 401),
        ("consent_required", 401),
        ("forbidden", 403),
        ("access_denied", 403),
        ("not_found", 404),
        ("rate_limit_exceeded", 429),
        ("plugin_busy", 429),
        ("task_limit_reached", 429),
        ("not_supported", 501),
        ("cancelled", 500),
        ("made_up", 500),
    ],
)
async def test_an_error_that_a_call_gives_is_the_status_of_its_line(
    make: Make, code: str, status: int
) -> None:
    host = make(dispatch=Handler(f'{{"elapsed_ms":1,"error":"{code}","message":"words"}}'))
    await host.ask(slots.DISPATCH, "{}")
    (line,) = await host.lines()
    assert line.status == status
    assert line.to_dict()["fields"]["error"] == code


async def test_words_about_errors_within_an_answer_are_none(make: Make) -> None:
    host = make(inference=Handler('{"choices":[{"content":"say \\"error\\":\\"x\\""}],"n":{"error":"y"}}'))
    await host.ask(slots.COMPLETE, "{}")
    assert [line.status for line in await host.lines()] == [200]


async def test_calls_are_answered_side_by_side(make: Make) -> None:
    both = asyncio.Barrier(2)

    class Meeting(Handler):
        async def _met(self) -> str:
            async with asyncio.timeout(20):
                await both.wait()
            return "{}"

        def call(
            self, slot: int, args: tuple[str | None, ...], frame: Frame
        ) -> str | Awaitable[str | None] | None:
            return self._met()

    host = make(inference=Meeting())
    both_asked = host.ask(slots.COMPLETE, "{}"), host.ask(slots.EMBED, "{}")
    assert list(await asyncio.gather(*both_asked)) == ["{}", "{}"]


async def test_without_an_app_the_context_is_unavailable(make: Make) -> None:
    host = make()
    for slot in (slots.DISPATCH, slots.COMPLETE, slots.TASK_STATUS):
        assert (await host.told(slot, "{}"))["error"] == "context_unavailable"
    assert (await host.told(slots.LIST_MODELS))["error"] == "context_unavailable"
    assert await host.ask(slots.DISPATCH_CANCEL, TASK) is None


# Through a plugin, in both forms


class Asking:
    """A plugin that makes the host calls that a test asks for."""

    def __init__(self, host: Host, runner: Any) -> None:
        self.host = host
        self.runner = runner

    async def __call__(self, slot: int, *args: str | None, agent: str | None = ANN) -> str:
        payload = "\n".join([str(slot), *("(null)" if each is None else each for each in args)])
        told: str = await self.runner.invoke("tool", "host", payload, agent=agent, timeout=20)
        return told


@pytest.fixture
async def asking(make: Make, runner: Callable[..., Any], toy: Path) -> Asking:
    host = make(plugin="test.toy")
    made = runner(toy, host.services)
    await made.start()
    return Asking(host, made)


async def test_a_plugin_keeps_its_configuration_for_the_agent_that_called_it(asking: Asking) -> None:
    await asking(slots.CONFIG_SET, "token", "s3cret")
    assert await asking(slots.CONFIG_GET, "token") == "s3cret"
    assert await asking(slots.CONFIG_GET, "token", agent=BOB) == "NULL"
    assert await asking(slots.CONFIG_GET, "token", agent=None) == "NULL"
    await asking(slots.CONFIG_DELETE, "token")
    assert await asking(slots.CONFIG_GET, "token") == "NULL"


async def test_a_plugin_uses_its_database(asking: Asking) -> None:
    await asking(slots.DB_EXEC, "CREATE TABLE t (x)", None)
    for number in range(20):
        told = await asking(slots.DB_EXEC, "INSERT INTO t VALUES (?)", f"[{number}]")
        assert told == f'{{"changes":1,"last_insert_rowid":{number + 1}}}'
    told = await asking(slots.DB_QUERY, "SELECT sum(x) AS s FROM t", None)
    assert told == '{"columns":["s"],"rows":[{"s":190}]}'
    assert "Forbidden" in await asking(slots.DB_EXEC, "ATTACH 'x' AS y", None)


async def test_a_plugin_logs_asks_and_reads(asking: Asking) -> None:
    host = asking.host
    (host.artifacts / "a.txt").write_text("hello")
    await asking(slots.LOG, "2", "from C")
    await asking(slots.LOG_STRUCTURED, "3", "with fields", '{"event":"hook"}')
    assert "ssrf_blocked" in await asking(slots.HTTP_REQUEST, '{"method":"GET","url":"http://127.1/"}')
    assert '"size":5' in await asking(slots.FILE_READ, f'{{"path":"{host.artifacts}/a.txt"}}')
    assert "not_supported" in await asking(slots.DISPATCH_ADD_ISSUE, "task", "{}")
    assert [line.title for line in await host.lines()][-5:] == [
        "LOG [INFO] from C",
        "LOG [WARN] with fields",
        "GET /host-api/http → http://127.1/",
        f"GET /host-api/file_read → {host.artifacts}/a.txt",
        "POST /host-api/tasks/task/issues",
    ]


async def test_the_transaction_of_a_process_that_is_gone_is_undone(make: Make) -> None:
    host = make()
    await host.exec("CREATE TABLE t (x)")
    await host.exec("BEGIN")
    await host.exec("INSERT INTO t VALUES (1)")
    host.services.abandoned()
    assert (await host.query("SELECT count(*) AS n FROM t"))["rows"] == [{"n": 0}]
    assert "error" not in await host.exec("BEGIN")


async def test_what_goes_wrong_with_a_call_is_logged_as_the_app_would_show_it(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    host = make(inference=Handler(RuntimeError("not with customer_code=CANARY")))
    host.insights.redactor = Redactor(["customer_code"])
    assert "error" in await host.told(slots.LIST_MODELS)
    assert "customer_code=[REDACTED]" in caplog.text
    assert "CANARY" not in caplog.text
