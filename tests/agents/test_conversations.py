"""Conversations are kept in the store: found again, gone on with by one run at a time, and forgotten when asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.agents import Conversations
from fairlead.agents.conversations import LEASE, failure_in, remember_failure
from fairlead.agents.models.model import Message, ToolCall
from fairlead.failures import Failure, Kind
from fairlead.store import Store, open_store
from fairlead.store.moving import copy


class Time:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = open_store("shop", url=store_url)
    yield opened
    opened.close()


@pytest.fixture
def conversations(store: Store, time: Time) -> Conversations:
    return Conversations(store, time)


async def say(
    conversations: Conversations, id: str, *texts: str, owner: str = "ada", agent: str = "clerk"
) -> None:
    async with conversations.open(id, agent, owner) as opened:
        for text in texts:
            await opened.keep(Message("user", text))


async def test_what_was_said_is_there_again_as_it_was(conversations: Conversations) -> None:
    said = [
        Message("user", "Hi.\nThere – ünïcode \U0001f600"),
        Message("assistant", "", (ToolCall("add", '{"a":1}', "call_1"),), reasoning="Hm.", kept={"x": [1]}),
        Message("tool", '{"ok":true}', call_id="call_1", name="add"),
    ]
    async with conversations.open("c1", "clerk", "ada") as opened:
        for message in said:
            await opened.keep(message)
        opened.state["todo"] = "- [ ] x"
        await opened.note()
    async with conversations.open("c1", "clerk", "ada") as opened:
        assert opened.transcript == said
        assert opened.state == {"todo": "- [ ] x"}


async def test_a_failure_is_known_until_more_is_said_and_does_not_disturb_another_run(
    conversations: Conversations, store: Store
) -> None:
    async def fail(message: str, before: int = 0) -> Any:
        error = {"message": message}
        await store.write(lambda tx: remember_failure(tx, "c1", "ada", error, before, "Hi."))
        return await known()

    async def known() -> Any:
        return failure_in((await conversations.get("c1", "ada"))[0])

    with pytest.raises(Failure):
        await fail("There is no such conversation.")
    await say(conversations, "c1", "Hi.")
    assert await fail("whale \x00 song") == {
        "error": {"message": "whale \x00 song"},
        "said": "",
        "messages": 1,
    }
    assert (await fail("Nothing was kept.", before=1))["said"] == "Hi."
    async with conversations.open("c1", "clerk", "ada") as opened:
        assert (await fail("It comes late."))["error"]["message"] == "Nothing was kept."
        await opened.keep(Message("user", "More."))
        assert await known() is None
        opened.state["awaiting"] = {"id": "1", "question": "Which?"}
        await opened.note()
    assert await fail("It asks.") is None


async def test_words_that_no_database_can_keep_are_kept_as_far_as_can_be(
    conversations: Conversations,
) -> None:
    await say(conversations, "c1", "whale \x00 \ud800 song")
    _, (kept,) = await conversations.get("c1", "ada")
    assert kept.content.startswith("whale")
    assert len(await conversations.find("whale", "ada")) == 1


async def test_a_conversation_is_titled_by_its_first_message(conversations: Conversations) -> None:
    await say(conversations, "c1", "  Wipe\nthe shelf " + "x" * 200, "And more.")
    about, _ = await conversations.get("c1", "ada")
    assert about.title is not None
    assert about.title.startswith("Wipe the shelf x")
    assert len(about.title) == 80
    await conversations.rename("c1", "ada", "Shelves")
    assert (await conversations.get("c1", "ada"))[0].title == "Shelves"


async def test_pages_of_conversations_go_from_the_newest_to_the_oldest(
    conversations: Conversations, time: Time
) -> None:
    for number in range(5):
        time.now += 1
        await say(conversations, f"c{number}", "Hi.")
    await say(conversations, "other", "Hi.", owner="bob")
    first = await conversations.page("ada", limit=3)
    rest = await conversations.page("ada", limit=3, before=first[-1])
    assert [each.id for each in first + rest] == ["c4", "c3", "c2", "c1", "c0"]
    assert await conversations.page("ada", agent="nobody") == []


@pytest.mark.parametrize("id", ["", "x" * 201, "a\nb"])
async def test_an_id_that_cannot_be_one_is_refused(conversations: Conversations, id: str) -> None:
    with pytest.raises(Failure) as refused:
        await say(conversations, id, "Hi.")
    assert refused.value.kind is Kind.invalid_input


async def test_a_conversation_with_another_agent_is_not_gone_on_with(conversations: Conversations) -> None:
    await say(conversations, "c1", "Hi.")
    with pytest.raises(Failure) as refused:
        await say(conversations, "c1", "Hi.", agent="cook")
    assert refused.value.kind is Kind.conflict
    await say(conversations, "c1", "And it is free again.")


async def test_another_s_conversation_is_as_good_as_missing(conversations: Conversations) -> None:
    await say(conversations, "c1", "Hi.")
    for attempt in (
        say(conversations, "c1", "Hi.", owner="bob"),
        conversations.get("c1", "bob"),
        conversations.rename("c1", "bob", "Mine"),
        conversations.clear("c1", "bob"),
        conversations.delete("c1", "bob"),
    ):
        with pytest.raises(Failure) as refused:
            await attempt
        assert refused.value.kind is Kind.not_found
    _, kept = await conversations.get("c1", "ada")
    assert len(kept) == 1


async def test_one_who_waits_too_long_is_told_so(conversations: Conversations) -> None:
    async with conversations.open("c1", "clerk", "ada"):
        with pytest.raises(Failure) as refused:
            async with conversations.open("c1", "clerk", "ada", patience=0.01):
                pass
    assert refused.value.kind is Kind.busy


async def test_the_next_one_begins_as_soon_as_the_first_ends(conversations: Conversations) -> None:
    order: list[str] = []
    started = asyncio.Event()

    async def first() -> None:
        async with conversations.open("c1", "clerk", "ada") as opened:
            started.set()
            await opened.keep(Message("user", "One."))
            order.append("first ends")

    async def second() -> None:
        await started.wait()
        async with conversations.open("c1", "clerk", "ada") as opened:
            order.append("second begins")
            assert [each.content for each in opened.transcript] == ["One."]

    await asyncio.gather(first(), second())
    assert order == ["first ends", "second begins"]


async def test_one_who_is_cancelled_while_it_is_given_a_conversation_does_not_keep_it(
    conversations: Conversations, store: Store
) -> None:
    await say(conversations, "c1", "Hi.")
    asked, go = asyncio.Event(), threading.Event()
    loop, submit = asyncio.get_running_loop(), store._put

    def slowly(outlet: Any, work: Any, write: bool) -> None:
        def late(tx: Any) -> Any:
            loop.call_soon_threadsafe(asked.set)
            assert go.wait(30)
            return work(tx)

        submit(outlet, late, write)

    store._put = slowly  # type: ignore[method-assign]
    opening = asyncio.create_task(say(conversations, "c1"))
    await asked.wait()
    store._put = submit  # type: ignore[method-assign]
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    go.set()
    async with conversations.open("c1", "clerk", "ada", patience=10):
        pass


async def test_one_who_cannot_read_a_conversation_does_not_keep_it(
    conversations: Conversations, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(work: Any) -> Any:
        raise Failure(Kind.unavailable, "The store is away.")

    with monkeypatch.context() as patch:
        patch.setattr(store, "read", away)
        with pytest.raises(Failure):
            await say(conversations, "c1")
    async with conversations.open("c1", "clerk", "ada", patience=0.5):
        pass


async def test_a_conversation_whose_run_is_gone_is_taken_over_and_the_ghost_cannot_write(
    conversations: Conversations, time: Time
) -> None:
    async with conversations.open("c1", "clerk", "ada") as ghost:
        time.now += LEASE + 1
        await say(conversations, "c1", "I am alive.")
        with pytest.raises(Failure) as refused:
            await ghost.keep(Message("user", "I am not."))
        assert refused.value.kind is Kind.conflict
        with pytest.raises(Failure):
            await ghost.note()
    _, kept = await conversations.get("c1", "ada")
    assert [each.content for each in kept] == ["I am alive."]


async def test_a_run_of_a_task_takes_a_conversation_from_an_earlier_one_and_never_from_a_later(
    conversations: Conversations,
) -> None:
    async with (
        conversations.open("c1", "clerk", "ada", task="t-1", run=2) as earlier,
        conversations.open("c1", "clerk", "ada", task="t-1", run=10) as newest,
    ):
        with pytest.raises(Failure) as refused:
            await earlier.keep(Message("user", "I am lost."))
        assert refused.value.kind is Kind.conflict
        # As of a process that stood still before it had the conversation.
        with pytest.raises(Failure) as late:
            async with conversations.open("c1", "clerk", "ada", patience=0.01, task="t-1", run=9):
                pass
        assert late.value.kind is Kind.busy
        await newest.keep(Message("user", "I am the one that counts."))
    _, kept = await conversations.get("c1", "ada")
    assert [each.content for each in kept] == ["I am the one that counts."]


async def test_what_is_forgotten_is_found_no_more(conversations: Conversations) -> None:
    await say(conversations, "c1", "The blue whale.")
    await say(conversations, "c2", "The blue bird.")
    await conversations.clear("c1", "ada")
    await conversations.delete("c2", "ada")
    assert await conversations.find("blue", "ada") == []
    about, kept = await conversations.get("c1", "ada")
    assert (about.messages, kept) == (0, [])


async def test_old_conversations_are_pruned_and_those_in_use_are_not(
    conversations: Conversations, time: Time
) -> None:
    await say(conversations, "old", "Hi.")
    async with conversations.open("used", "clerk", "ada"):
        time.now += 10
        await say(conversations, "new", "Hi.")
        assert await conversations.prune(5) == 1
    assert sorted(each.id for each in await conversations.page("ada")) == ["new", "used"]


async def test_words_find_what_was_said_with_all_of_them_in_any_case(conversations: Conversations) -> None:
    await say(conversations, "c1", "The Blue whale sings.", "Nothing here.")
    await say(conversations, "c2", "Whales are not fish.", owner="bob")
    (found,) = await conversations.find("whale BLUE", "ada")
    assert (found.conversation, found.position, found.role) == ("c1", 0, "user")
    assert found.text == "The Blue whale sings."
    assert await conversations.find("whale red", "ada") == []


@pytest.mark.parametrize(
    "words", ['"', "AND OR", "a* NEAR(", "'; DROP TABLE messages; --", "\x00", "  ", "-x", "col:y"]
)
async def test_words_have_no_grammar(conversations: Conversations, words: str) -> None:
    await say(conversations, "c1", "The blue whale sings.")
    assert await conversations.find(words, "ada") == []


async def test_what_tools_said_is_not_found(conversations: Conversations) -> None:
    async with conversations.open("c1", "clerk", "ada") as opened:
        await opened.keep(Message("tool", "the blue whale", call_id="x", name="t"))
    assert await conversations.find("whale", "ada") == []


async def test_what_was_said_is_found_after_a_move_to_another_database(
    conversations: Conversations, store: Store, time: Time, tmp_path: Path
) -> None:
    await say(conversations, "c1", "The blue whale sings.")
    with open_store(url=f"sqlite:///{tmp_path}/moved.db") as moved:
        copy(store, moved, lambda *_: None)
        (found,) = await Conversations(moved, time).find("whale", "ada")
    assert found.conversation == "c1"
