"""Conversations when processes die, when there are several of them, and when time passes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.gateway.channels_said import KEPT_PIECES, Entry, append
from fairlead.store import Tx
from fairlead.store.statements import Statement
from fairlead.testing import FixedClock
from gateway import conversations_under_test
from gateway.conversations_under_test import Talk, build, served
from servers import Nats
from warm import Warm
from warm_child import Child


@contextmanager
def _process(warm: Warm, role: str, url: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process of its own, and the first line it says."""
    program = (conversations_under_test.__file__, role, url, str(folder))
    with Child(warm, *program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def app(store_url: str, tmp_path: Path) -> Iterator[App]:
    made = build(store_url, str(tmp_path))
    yield made
    made.store.close()


def test_a_turn_whose_worker_was_killed_is_taken_up_again(
    app: App, store_url: str, tmp_path: Path, warm_python: Warm
) -> None:
    with served(app, worker=False) as address:
        talk = Talk(address, "slow")
        id = talk.create()
        with _process(warm_python, "worker", store_url, tmp_path) as (worker, word):
            assert word == "ready"
            message = talk.send(id, "gate")
            seen = _until(talk, id, lambda told: told.get("parts"))
            worker.kill()
            worker.wait()
        (tmp_path / "gate").touch()
        # Whoever reads goes on from where they were.
        with _process(warm_python, "worker", store_url, tmp_path):
            seen += _until(talk, id, lambda told: told.get("state") == "completed", seen[-1]["offset"])
        offsets = [told["offset"] for told in seen]
        assert offsets == sorted(set(offsets))
        assert [each["type"] for each in talk.messages(id)] == ["chat_message", "agent_reply"]
        reply = talk.messages(id)[-1]
        assert (reply["in_reply_to"], reply["body"]) == (message, "It is done now.")


def test_messages_that_wait_behind_a_turn_whose_worker_was_killed_are_all_replied_to_once(
    tmp_path: Path, warm_python: Warm
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    app = build(url, str(tmp_path))
    with served(app, worker=False) as address:
        talk = Talk(address, "slow")
        id = talk.create()
        with _process(warm_python, "worker", url, tmp_path) as (worker, _):
            sent = [talk.send(id, name) for name in ("a", "b", "c")]
            _until(talk, id, lambda told: told.get("parts"))
            worker.kill()
            worker.wait()
        for name in ("a", "b", "c"):
            (tmp_path / name).touch()
        with _process(warm_python, "worker", url, tmp_path):
            for message in sent:
                assert talk.reply(id, message)["body"] == "It is done now."
        replies = [each["in_reply_to"] for each in talk.messages(id) if each["type"] == "agent_reply"]
        assert sorted(replies) == sorted(sent)
    app.store.close()


def test_pieces_that_another_server_carries_are_in_the_log(
    nats: Nats, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAIRLEAD_BUS_URL", nats.url)
    url = f"sqlite:///{tmp_path}/store.db"
    here, there = build(url, str(tmp_path)), build(url, str(tmp_path))
    with served(here) as working, served(there, worker=False) as reading:
        talk = Talk(reading, "slow")
        id = talk.create()
        message = talk.send(id, "gate")
        seen = _until(talk, id, lambda told: told.get("parts"))
        (tmp_path / "gate").touch()
        seen += _until(talk, id, lambda told: told.get("state") == "completed", seen[-1]["offset"])
        pieces = [told["payload"]["text"] for told in seen if told["type"] == "agent_reply_delta"]
        assert "".join(pieces) == "Let me look. It is done now."
        assert Talk(working, "slow").reply(id, message)["body"] == "It is done now."
    here.store.close()
    there.store.close()


def test_a_message_that_was_accepted_outlives_the_server_that_accepted_it(
    app: App, store_url: str, tmp_path: Path, warm_python: Warm
) -> None:
    with _process(warm_python, "server", store_url, tmp_path) as (server, address):
        talk = Talk(address)
        id = talk.create()
        message = talk.send(id, "hello")
        server.kill()
        server.wait()
    with served(app) as address:
        assert Talk(address).reply(id, message)["body"] == "You said 1: hello"


def test_two_replicas_show_the_same_log(app: App, store_url: str, tmp_path: Path) -> None:
    other = build(store_url, str(tmp_path))
    with served(app) as here, served(other, worker=False) as there:
        id = Talk(here).create()
        readers = [Talk(here), Talk(there), Talk(there)]
        with ThreadPoolExecutor() as pool:
            watching = [pool.submit(_whole, reader, id) for reader in readers]
            for number in range(4):
                talk = Talk(here if number % 2 else there)
                talk.reply(id, talk.send(id, f"message {number}"))
            Talk(there).http.delete(f"/api/v1/agents/echo/conversations/{id}")
            seen = [each.result() for each in watching]
        assert seen[0] == _whole(Talk(there), id)
        for each in seen:
            offsets = [told["offset"] for told in each if told["type"] != "agent_reply"]
            assert offsets == sorted(set(offsets))
            whole = [told for told in each if told["type"] == "chat_message" or told.get("stop_reason")]
            assert [told["body"] for told in whole if told["type"] == "agent_reply"] == [
                f"You said {number + 1}: message {number}" for number in range(4)
            ]
    other.store.close()


def test_the_same_message_sent_to_two_replicas_at_once_is_one(
    app: App, store_url: str, tmp_path: Path
) -> None:
    other = build(store_url, str(tmp_path))
    with served(app) as here, served(other) as there:
        id = Talk(here).create()
        with ThreadPoolExecutor(8) as pool:
            sending = [
                pool.submit(Talk(here if each % 2 else there).send, id, f"m{key}", idempotency_key=str(key))
                for key in range(6)
                for each in range(4)
            ]
            ids = {each.result() for each in sending}
        assert len(ids) == 6
        talk = Talk(there)
        for message in ids:
            assert talk.reply(id, message)["state"] == "completed"
        types = [each["type"] for each in talk.messages(id)]
        assert sorted(types) == ["agent_reply"] * 6 + ["chat_message"] * 6
        replies = sorted(each["body"] for each in talk.messages(id) if each["type"] == "agent_reply")
        # Two that are told by two replicas may be told in the other order.
        assert [each[:11] for each in replies] == [f"You said {number}:" for number in range(1, 7)]
    other.store.close()


def test_a_message_that_waited_already_answers_a_question(app: App) -> None:
    with served(app, worker=False) as address:
        talk = Talk(address, "asker")
        id = talk.create()
        first, second = talk.send(id, "paint it"), talk.send(id, "red")
    with served(app) as address:
        talk = Talk(address, "asker")
        assert talk.reply(id, first)["body"] == "Which colour?"
        assert "red" in talk.reply(id, second)["body"]
        third = talk.send(id, "paint another")
        assert talk.reply(id, third)["body"] == "Which colour?"
        by_message = {each["message_id"]: each for each in talk.messages(id)}
        assert by_message[f"{first}-reply"]["state"] == "completed"


def test_a_reply_of_an_agent_that_is_gone_for_good_ends_as_lost(app: App, store_url: str) -> None:
    empty = App("talks", store=store_url)
    with served(app, worker=False) as address, served(empty):
        talk = Talk(address)
        id = talk.create()
        ended = talk.reply(id, talk.send(id, "hello"))
        assert (ended["state"], ended["stop_reason"]) == ("failed", "agent_lost")
    empty.store.close()


def test_a_turn_whose_task_is_not_there_any_more_ends_as_lost(app: App) -> None:
    with served(app, worker=False) as address:
        talk = Talk(address)
        id = talk.create()
        message = talk.send(id, "hello")
        app.store.write_now(lambda tx: tx.run(Statement.of("DELETE FROM tasks")))
        ended = talk.reply(id, message)
        assert (ended["state"], ended["stop_reason"]) == ("failed", "agent_lost")


def test_what_nobody_touches_is_forgotten(store_url: str, tmp_path: Path) -> None:
    clock = FixedClock()
    app = build(store_url, str(tmp_path), clock)
    with served(app, worker=False, retention=1000.0) as address:
        talk = Talk(address)
        old, kept = talk.create(), talk.create()
        clock.move(900)
        assert talk.http.patch(
            f"{talk.base}/{kept}", json={"title": "x"}, headers={"Idempotency-Key": "k"}
        ).is_success
        clock.move(200)
        gone = talk.http.get(f"{talk.base}/{old}")
        assert (gone.status_code, gone.json()["error"]["message"]) == (404, "conversation not found")
        listed = talk.http.get(talk.base).json()["data"]["conversations"]
        assert [each["conversation_id"] for each in listed] == [kept]
        rows = app.store.read_now(lambda tx: tx.all(Statement.of("SELECT id FROM channels")))
        assert rows == [(kept,)]
        # One in which a turn still waits is kept with it.
        talk.send(kept, "wait")
        clock.move(2000)
        talk.create()
        assert talk.http.get(f"{talk.base}/{kept}").is_success
    app.store.close()


def test_a_server_that_is_about_to_stop_sends_its_readers_elsewhere(tmp_path: Path) -> None:
    app = build(f"sqlite:///{tmp_path}/store.db", str(tmp_path))
    site = app.http(gateway={})
    with served(app, site=site) as address:
        talk = Talk(address)
        id = talk.create()
        message = talk.send(id, "hello")
        stream = talk.frames(id)
        last = next(told for _, told in stream if told.get("state") == "completed")
        site.draining = True
        assert list(stream) == [("end", {"reason": "stream_closed"})]
    with served(app) as address:
        talk = Talk(address)
        talk.http.delete(f"{talk.base}/{id}")
        assert list(talk.frames(id, last["offset"])) == [("end", {"reason": "channel_closed"})]
        assert last["in_reply_to"] == message
    app.store.close()


def test_replicas_that_forget_at_once_do_not_disturb_each_other(store_url: str, tmp_path: Path) -> None:
    clock = FixedClock()
    apps = [build(store_url, str(tmp_path), clock) for _ in range(3)]
    with served(apps[0], worker=False, retention=1000.0) as address:
        talk = Talk(address)
        for _ in range(20):
            talk.create()
    clock.move(1100)
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        at = [stack.enter_context(served(each, worker=False, retention=1000.0)) for each in apps]
        begun = [pool.submit(Talk(each).create) for each in at for _ in range(3)]
        ids = {each.result() for each in begun}
        rows = apps[0].store.read_now(lambda tx: tx.all(Statement.of("SELECT id FROM channels")))
        assert {id for (id,) in rows} == ids
    for each in apps:
        each.store.close()


def test_a_question_that_nobody_answers_does_not_keep_a_conversation_for_ever(
    store_url: str, tmp_path: Path
) -> None:
    with served(first := build(store_url, str(tmp_path))) as address:
        talk = Talk(address, "asker")
        id = talk.create()
        talk.reply(id, talk.send(id, "paint it"))
    first.store.close()
    app = build(store_url, str(tmp_path), FixedClock(time.time()))
    clock = app.clock
    assert isinstance(clock, FixedClock)
    with served(app, worker=False, retention=1000.0) as address:
        talk = Talk(address, "asker")
        for _ in range(2):
            clock.move(1100)
            talk.create()
        assert talk.http.get(f"{talk.base}/{id}").status_code == 404
    app.store.close()


def test_pieces_are_kept_for_a_while_and_readers_are_told_when_some_are_gone(app: App) -> None:
    with served(app) as address:
        talk = Talk(address)
        id = talk.create()
        message = talk.send(id, "hello")
        talk.reply(id, message)
        piece = {"type": "agent_reply_delta", "message_id": "p", "payload": {"text": "x"}}
        for _ in range(KEPT_PIECES // 1000 + 2):
            app.store.write_now(partial(_said, id, [Entry(piece, True, 1e9)] * 1000))
        talk.http.delete(f"{talk.base}/{id}")
        first, *rest = talk.frames(id, 0)
        assert first[0] == "backfill_truncated"
        oldest = first[1]["oldest_redis_offset"]
        assert first[1]["since"] == 0
        assert oldest > 1000
        # Whole messages stay.
        assert [told["type"] for _, told in rest[:2]] == ["chat_message", "agent_reply"]
        later = list(talk.frames(id, oldest))
        assert {name for name, _ in later} == {"message", "end"}


def _said(id: str, entries: list[Entry], tx: Tx) -> None:
    append(tx, id, entries, 1e9)


def _until(talk: Talk, id: str, wanted: Any, since: int | None = None) -> list[dict[str, Any]]:
    seen = []
    for _, told in talk.frames(id, since):
        seen.append(told)
        if wanted(told):
            return seen
    raise AssertionError("the stream ended too soon")


def _whole(talk: Talk, id: str) -> list[dict[str, Any]]:
    """All messages until the end, each as it was last."""
    newest: dict[str, dict[str, Any]] = {}
    for name, told in talk.frames(id):
        if name == "message":
            newest.pop(told["message_id"], None)
            newest[told["message_id"]] = told
    return list(newest.values())
