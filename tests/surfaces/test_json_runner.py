"""The JSON runner, in process and on stdin."""

from __future__ import annotations

import fcntl
import json
import signal
import sys
import termios
from collections.abc import Callable
from typing import Any

import pytest

from fairlead import App, Context
from fairlead.runtime import Signal
from servers import until

Cli = Callable[..., Any]


def desk() -> App:
    app = App("desk")

    @app.action
    async def echo(value: Any = "absent") -> Any:
        """Echo."""
        return value

    @app.action
    async def who(ctx: Context) -> list[Any]:
        """Say who calls."""
        return [ctx.user, ctx.auth, dict(ctx.metadata), ctx.surface]

    @app.action(side_effects="destructive")
    async def wipe() -> str:
        """Wipe."""
        return "wiped"

    @app.action(visibility="private")
    async def hidden() -> None:
        """Hide."""

    @app.action(supported_surfaces=["cli"])
    async def typed() -> None:
        """Be typed."""

    return app


@pytest.mark.parametrize("payload", [None, 3, [], "[]", b"3", "", "{", "nonsense", b"\xff"])
async def test_what_is_no_object_is_an_invalid_payload(payload: Any) -> None:
    told = await desk().json_runner().invoke(payload)
    assert told["error"]["code"] == "INVALID_JSON_RUNNER_PAYLOAD"
    assert told["meta"] == {"surface": "json", "durationMs": 0}
    assert told["error"]["issues"]


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({}, ["action"]),
        ({"action": {"name": "echo"}}, ["action"]),
        ({"action": ""}, ["action"]),
        ({"action": None}, ["action"]),
        ({"action": "echo", "confirm": 1}, ["confirm"]),
        ({"action": "echo", "metadata": []}, ["metadata"]),
        ({"action": "echo", "idempotencyKey": 5}, ["idempotencyKey"]),
        ({"action": "echo", "timeoutMs": -1}, ["timeoutMs"]),
        ({"action": "echo", "timeoutMs": True}, ["timeoutMs"]),
        ({"action": "echo", "timeoutMs": 1, "timeout_ms": 2}, ["timeout_ms"]),
        ({"action": "echo", "idempotencykey": "k"}, ["idempotencykey"]),
        ({"action": "echo", 3: 4}, ["3"]),
    ],
)
async def test_wrong_members_are_told_by_their_path(payload: Any, path: list[str]) -> None:
    told = await desk().json_runner().invoke(payload)
    assert told["error"]["code"] == "INVALID_JSON_RUNNER_PAYLOAD"
    assert [issue["path"] for issue in told["error"]["issues"]] == [path]


async def test_every_wrong_member_is_told_at_once() -> None:
    told = await desk().json_runner().invoke({"confirm": 1, "metadata": 2})
    assert len(told["error"]["issues"]) == 3


@pytest.mark.parametrize(
    "wrap", [lambda payload: payload, json.dumps, lambda payload: json.dumps(payload).encode()]
)
async def test_a_payload_is_an_object_or_its_text(wrap: Callable[[Any], Any]) -> None:
    told = await desk().json_runner().invoke(wrap({"action": "echo", "input": {"value": [1]}}))
    assert told["data"] == [1]
    assert told["meta"]["surface"] == "json"


async def test_24_an_explicit_null_input_is_kept_and_an_absent_one_is_empty() -> None:
    app = App("roots")

    @app.action(input={"type": ["null", "object"]})
    async def root(value: Any) -> Any:
        """Give the input back."""
        return {"got": value}

    runner = app.json_runner()
    assert (await runner.invoke({"action": "root", "input": None}))["data"] == {"got": None}
    assert (await runner.invoke({"action": "root"}))["data"] == {"got": {}}


async def test_identity_is_the_hosts_word_and_never_the_payloads() -> None:
    runner = desk().json_runner(user={"id": "ada"}, auth={"permissions": []})
    payload = {
        "action": "who",
        "user": {"id": "mallory"},
        "auth": {"permissions": ["*"]},
        "metadata": {"trace": "t"},
    }
    told = await runner.invoke(payload)
    assert told["data"] == [{"id": "ada"}, {"permissions": []}, {"trace": "t"}, "json"]
    assert len(told["meta"]["warnings"]) == 2
    assert "mallory" not in str(told)


async def test_exposure_applies() -> None:
    runner = desk().json_runner()
    hidden = await runner.invoke({"action": "hidden"})
    missing = await runner.invoke({"action": "missing"})
    assert hidden["error"]["code"] == missing["error"]["code"] == "ACTION_NOT_FOUND"
    assert hidden["meta"]["action"] == "hidden"
    assert (await runner.invoke({"action": "typed"}))["error"]["code"] == "UNSUPPORTED_SURFACE"
    assert "hidden" not in (await runner.invoke({"action": "hiden"}))["error"]["message"].replace(
        "'hiden'", ""
    )


async def test_confirmation_and_its_token_pass_through() -> None:
    runner = desk().json_runner(user="ada")
    refused = await runner.invoke({"action": "wipe"})
    assert refused["error"]["code"] == "CONFIRMATION_REQUIRED"
    token = refused["error"]["details"]["confirmation"]["code"]
    assert (await runner.invoke({"action": "wipe", "confirm": token}))["data"] == "wiped"
    assert (await runner.invoke({"action": "wipe", "confirm": True}))["data"] == "wiped"
    assert not (await runner.invoke({"action": "wipe", "confirm": False}))["ok"]


@pytest.mark.parametrize("key", ["idempotencyKey", "idempotency_key"])
async def test_an_idempotency_key_runs_an_action_one_time(key: str) -> None:
    app = App("keys")
    runs: list[int] = []

    @app.action(side_effects="write")
    async def create() -> int:
        """Create."""
        runs.append(1)
        return len(runs)

    runner = app.json_runner(user="ada")
    for _ in range(2):
        assert (await runner.invoke({"action": "create", key: "k"}))["data"] == 1


@pytest.mark.parametrize("key", ["timeoutMs", "timeout_ms"])
async def test_a_time_limit_is_in_milliseconds(key: str) -> None:
    import asyncio

    app = App("slow")

    @app.action
    async def wait() -> None:
        """Wait."""
        await asyncio.Event().wait()

    told = await app.json_runner().invoke({"action": "wait", key: 20})
    assert told["error"]["code"] == "TIMEOUT"


async def test_a_signal_cancels_the_call() -> None:
    signal = Signal()
    signal.cancel()
    told = await desk().json_runner().invoke({"action": "echo"}, signal=signal)
    assert told["error"]["code"] == "CANCELLED"


def test_invoke_sync_gives_the_same_envelopes() -> None:
    runner = desk().json_runner()
    assert runner.invoke_sync({"action": "echo", "input": {"value": 1}})["data"] == 1
    assert runner.invoke_sync([])["error"]["code"] == "INVALID_JSON_RUNNER_PAYLOAD"
    assert runner.invoke_sync({"action": "nope"})["error"]["code"] == "ACTION_NOT_FOUND"


def lines(ran: Any) -> list[Any]:
    return [envelope["data"] if envelope["ok"] else envelope["error"]["code"] for envelope in ran.lines]


def test_a_byte_order_mark_before_the_first_payload_is_no_part_of_it(cli: Cli) -> None:
    ran = cli(desk(), "json", stdin='\ufeff{"action": "echo", "input": {"value": 1}}\n')
    assert ran.lines[0]["data"] == 1


def test_the_json_command_answers_one_payload(cli: Cli) -> None:
    ran = cli(desk(), "json", stdin='{\n  "action": "echo",\n  "input": {\n    "value": {"a": 1}\n  }\n}\n')
    assert (ran.code, lines(ran)) == (0, [{"a": 1}])


def test_the_json_command_answers_each_line(cli: Cli) -> None:
    stdin = '{"action": "echo"}\n\nnonsense\n{"action": "nope"}\n{\n"action": "echo"\n}\n{"action": "echo"'
    ran = cli(desk(), "json", stdin=stdin)
    codes = [
        "absent",
        "INVALID_JSON_RUNNER_PAYLOAD",
        "ACTION_NOT_FOUND",
        "absent",
        "INVALID_JSON_RUNNER_PAYLOAD",
    ]
    assert (ran.code, lines(ran)) == (2, codes)


def test_the_json_command_speaks_for_the_local_person(cli: Cli) -> None:
    told = cli(desk(), "json", stdin='{"action": "who"}', user="ada").lines[0]["data"]
    assert told == ["ada", {"permissions": ["*"]}, {}, "json"]


def test_another_program_can_hold_a_conversation(program: Any, spawn: Any) -> None:
    path = program("@app.action\nasync def add(a: int, b: int) -> int:\n    'Add.'\n    return a + b\n")
    process = spawn(path, "json")
    for number in range(3):
        process.stdin.write(json.dumps({"action": "add", "input": {"a": number, "b": 1}}) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["data"] == number + 1
    process.stdin.close()
    assert process.wait(timeout=20) == 0


def test_what_the_json_command_reads_at_once_may_be_many_lines_and_parts_of_them(
    program: Any, spawn: Any
) -> None:
    path = program("@app.action\nasync def echo(text: str) -> int:\n    'Echo.'\n    return len(text)\n")
    texts = ["", "a" * 200_000, "é" * 100_000, "b"]
    calls = [json.dumps({"action": "echo", "input": {"text": text}}, ensure_ascii=False) for text in texts]
    out, _ = spawn(path, "json").communicate("\n".join(calls), timeout=20)
    assert [json.loads(line)["data"] for line in out.splitlines()] == [len(text) for text in texts]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_json_command_quietly_while_it_waits_for_the_rest_of_a_line(
    program: Any, spawn: Any, number: int, code: int
) -> None:
    # Only an interpreter that ends for itself shows whether it can.
    path = program("@app.action\nasync def one() -> int:\n    'One.'\n    return 1\n")
    process = spawn(path, "json", cold=True)
    process.stdin.write('{"action": "one"}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["data"] == 1
    process.stdin.write('{"action": ')
    process.stdin.flush()
    until(lambda: unread(process.stdin) == 0, "the beginning of a line is not read")
    process.send_signal(number)
    assert process.wait(timeout=20) == code
    assert process.stderr.read() == ""


def unread(pipe: Any) -> int:
    """How many bytes nobody has taken from a pipe yet."""
    told = fcntl.ioctl(pipe.fileno(), termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(told, sys.byteorder)


def test_a_result_that_cannot_be_written_does_not_end_the_others(cli: Callable[..., Any]) -> None:
    app = App("x")

    @app.action
    def power(digits: int) -> int:
        """Raise ten to a power."""
        return int(10**digits)

    calls = [{"action": "power", "input": {"digits": digits}} for digits in (5000, 2)]
    ran = cli(app, "json", stdin="\n".join(map(json.dumps, calls)))
    assert (ran.code, lines(ran)) == (2, ["OUTPUT_SERIALIZATION_ERROR", 100])
