"""Asking first: a plain yes, or a token bound to the very call it was asked for."""

import asyncio
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import App, Context, Kind
from fairlead.runtime import Runtime
from fairlead.store import DurableIdempotency, Statement, Store, open_store
from fairlead.testing import FixedClock


def board(**options: Any) -> App:
    app = App("x", **options)

    @app.action(side_effects="destructive")
    async def delete(id: int) -> int:
        """Delete."""
        return id

    @app.action(side_effects="write", requires_confirmation="token")
    async def wire(amount: int, note: str = "") -> int:
        """Wire money."""
        return amount

    @app.action(side_effects="write", requires_confirmation="token")
    async def other(amount: int) -> int:
        """Do another thing."""
        return amount

    return app


async def code(app: App, action: str, input: Any, **options: Any) -> str | None:
    result = await app.invoke(action, input, **options)
    return result.failure.code if result.failure else None


async def token(app: App, action: str, input: Any, **options: Any) -> str:
    result = await app.invoke(action, input, **options)
    assert result.failure is not None
    assert result.failure.code == "CONFIRMATION_REQUIRED"
    told: str = result.to_dict()["error"]["details"]["confirmation"]["code"]
    return told


REFUSED = "CONFIRMATION_REQUIRED"


async def test_a_yes_confirms() -> None:
    assert await code(board(), "delete", {"id": 1}, confirm=True) is None


@pytest.mark.parametrize(
    "confirm", [None, False, 1, "yes", "true", "True", "", [], {"confirm": True}, 1.0, b"x"]
)
async def test_only_true_is_a_yes(confirm: Any) -> None:
    assert await code(board(), "delete", {"id": 1}, confirm=confirm) == REFUSED


@pytest.mark.parametrize("surface", ["react", "dev"])
async def test_surfaces_that_ask_themselves_need_no_yes(surface: str) -> None:
    assert await code(board(), "delete", {"id": 1}, surface=surface) is None
    assert await code(board(), "wire", {"amount": 1}, surface=surface) == REFUSED


async def test_the_refusal_offers_a_token_that_confirms_the_same_call() -> None:
    app = board()
    offered = await token(app, "delete", {"id": 1})
    assert await code(app, "delete", {"id": 1}, confirm=offered) is None


async def test_a_yes_is_not_enough_where_a_token_is_asked_for() -> None:
    app = board()
    assert await code(app, "wire", {"amount": 5}, confirm=True) == REFUSED
    offered = await token(app, "wire", {"amount": 5})
    assert (await app.invoke("wire", {"amount": 5}, confirm=offered)).data == 5


async def test_a_token_is_for_the_validated_input_however_it_was_spelled() -> None:
    app = board()
    offered = await token(app, "wire", {"amount": "5", "note": "x"})
    assert await code(app, "wire", {"note": "x", "amount": 5}, confirm=offered) is None


@pytest.mark.parametrize(
    ("action", "input", "options"),
    [
        ("wire", {"amount": 6}, {"user": "ann"}),
        ("wire", {"amount": 5, "note": "more"}, {"user": "ann"}),
        ("other", {"amount": 5}, {"user": "ann"}),
        ("wire", {"amount": 5}, {"user": "bob"}),
        ("wire", {"amount": 5}, {}),
        ("wire", {"amount": 5}, {"auth": "ann"}),
    ],
    ids=["input", "more input", "action", "user", "nobody", "auth"],
)
async def test_a_token_is_for_one_input_one_action_and_one_caller(
    action: str, input: Any, options: Any
) -> None:
    app = board()
    offered = await token(app, "wire", {"amount": 5}, user="ann")
    assert await code(app, action, input, confirm=offered, **options) == REFUSED
    assert await code(app, "wire", {"amount": 5}, confirm=offered, user="ann") is None


async def test_a_token_works_once() -> None:
    app = board()
    offered = await token(app, "wire", {"amount": 5})
    assert await code(app, "wire", {"amount": 5}, confirm=offered) is None
    assert await code(app, "wire", {"amount": 5}, confirm=offered) == REFUSED


async def test_a_token_expires(fixed_clock: FixedClock) -> None:
    app = board(clock=fixed_clock, confirmation_ttl=60)
    first, second = await token(app, "wire", {"amount": 5}), await token(app, "wire", {"amount": 5})
    fixed_clock.move(59)
    assert await code(app, "wire", {"amount": 5}, confirm=first) is None
    fixed_clock.move(2)
    assert await code(app, "wire", {"amount": 5}, confirm=second) == REFUSED


async def test_the_refusal_says_when_the_token_expires(fixed_clock: FixedClock) -> None:
    app = board(clock=fixed_clock, confirmation_ttl=60)
    result = await app.invoke("wire", {"amount": 5})
    told = result.to_dict()["error"]["details"]["confirmation"]
    assert told["expiresAt"] == fixed_clock.now + 60


async def test_a_tampered_token_is_refused() -> None:
    app = board()
    offered = await token(app, "wire", {"amount": 5})
    expires, nonce, signature = offered.split("~")
    for forged in (
        f"{float(expires) + 1000}~{nonce}~{signature}",
        f"{expires}~{nonce}x~{signature}",
        f"{expires}~{nonce}~{'0' * len(signature)}",
        f"{expires}~{nonce}~",
        f"{expires}~{nonce}",
        offered + "~",
        offered[:-1],
        offered.upper(),
    ):
        if forged != offered:
            assert await code(app, "wire", {"amount": 5}, confirm=forged) == REFUSED
    assert await code(app, "wire", {"amount": 5}, confirm=offered) is None


async def test_a_token_of_another_process_is_refused_unless_the_secret_is_shared() -> None:
    offered = await token(board(), "wire", {"amount": 5})
    assert await code(board(), "wire", {"amount": 5}, confirm=offered) == REFUSED
    secret = b"0123456789abcdef0123456789abcdef"
    offered = await token(board(confirmation_secret=secret), "wire", {"amount": 5})
    assert await code(board(confirmation_secret=secret), "wire", {"amount": 5}, confirm=offered) is None


# Tokens that are good in several processes


SECRET = b"0123456789abcdef0123456789abcdef"
COUNT = Statement.of("SELECT count(*) FROM idempotency")


@pytest.fixture
def stores(store_url: str) -> Iterator[list[Store]]:
    """One database, as each of two processes has it open."""
    with ExitStack() as open:
        yield [open.enter_context(open_store(url=store_url)) for _ in range(2)]


async def test_of_all_processes_on_one_store_one_takes_a_token(stores: list[Store]) -> None:
    apps = [board(store=store, confirmation_secret=SECRET) for store in stores]
    for _ in range(5):
        offered = await token(apps[0], "wire", {"amount": 5})
        calls = [code(app, "wire", {"amount": 5}, confirm=offered) for app in apps * 4]
        assert sorted(await asyncio.gather(*calls), key=str) == [REFUSED] * 7 + [None]
    # After a restart nothing is in memory.
    again = board(store=stores[0], confirmation_secret=SECRET)
    assert await code(again, "wire", {"amount": 5}, confirm=offered) == REFUSED


async def test_a_token_that_submits_a_task_calls_nothing_in_another_process(stores: list[Store]) -> None:
    one, other = (board(store=store, confirmation_secret=SECRET) for store in stores)
    offered = await token(one, "wire", {"amount": 5})
    await one.tasks.submit("wire", {"amount": 5}, confirm=offered)
    assert await code(other, "wire", {"amount": 5}, confirm=offered) == REFUSED


async def test_a_runtime_without_a_store_uses_tokens_up_where_its_keys_are(stores: list[Store]) -> None:
    actions = board().actions
    one, other = (
        Runtime(actions, confirmation_secret=SECRET, idempotency=DurableIdempotency(store))
        for store in stores
    )
    asked = await one.invoke("wire", {"amount": 5})
    assert asked.failure is not None
    offered = asked.failure.details["confirmation"]["code"]
    assert (await one.invoke("wire", {"amount": 5}, confirm=offered)).ok
    assert not (await other.invoke("wire", {"amount": 5}, confirm=offered)).ok


async def test_used_tokens_are_forgotten_when_they_have_expired(
    stores: list[Store], fixed_clock: FixedClock
) -> None:
    store = stores[0]
    app = board(store=store, clock=fixed_clock, confirmation_secret=SECRET)
    for amount in range(130):
        offered = await token(app, "wire", {"amount": amount})
        assert await code(app, "wire", {"amount": amount}, confirm=offered) is None
        fixed_clock.move(10)
    found = await store.read(lambda tx: tx.one(COUNT))
    assert found is not None
    # Those of the last 360 seconds, and those that came since the last look.
    assert 30 <= found[0] <= 36 + 64


async def test_a_token_that_cannot_be_used_up_confirms_nothing(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    app = board(store=f"sqlite:///{tmp_path}/store.db", confirmation_secret=SECRET)
    offered = await token(app, "wire", {"amount": 5})
    refused = await app.invoke("wire", {"amount": 5}, confirm=offered)
    assert refused.failure is not None
    assert refused.failure.kind is Kind.misconfigured


async def test_no_store_is_made_for_tokens_of_one_process_nor_for_a_yes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    app, sharing = board(store=url), board(store=url, confirmation_secret=SECRET)
    offered = await token(app, "wire", {"amount": 5})
    assert await code(app, "wire", {"amount": 5}, confirm=offered) is None
    assert await code(app, "wire", {"amount": 5}, confirm=offered) == REFUSED
    assert await code(sharing, "delete", {"id": 1}, confirm=True) is None
    assert not app.has_store


@pytest.mark.skipif(not hasattr(os, "fork"), reason="There is no fork.")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_children_that_were_forked_with_the_same_key_take_a_token_once(tmp_path: Path) -> None:
    app = board(store=f"sqlite:///{tmp_path}/store.db")
    offered = asyncio.run(token(app, "wire", {"amount": 5}))
    fork = multiprocessing.get_context("fork")
    told = fork.SimpleQueue()

    def child() -> None:
        told.put(asyncio.run(code(app, "wire", {"amount": 5}, confirm=offered)))

    children = [fork.Process(target=child) for _ in range(3)]
    for each in children:
        each.start()
    answers = [told.get() for _ in children]
    for each in children:
        each.join()
    assert sorted(answers, key=str) == [REFUSED, REFUSED, None]


@given(st.text(st.characters(), max_size=80) | st.text("~0123456789.abc", max_size=80))
@settings(max_examples=60, deadline=None)
async def test_no_text_but_a_token_confirms(text: str) -> None:
    app = board()
    assert await code(app, "wire", {"amount": 5}, confirm=text) == REFUSED
    assert await code(app, "delete", {"id": 5}, confirm=text) == REFUSED


@pytest.mark.parametrize("text", ["\ud800", "a~b~\udfff", "nan~x~y", "é~ü~ß"])
async def test_odd_texts_are_refused_like_any_other(text: str) -> None:
    assert await code(board(), "wire", {"amount": 5}, confirm=text) == REFUSED


async def test_a_token_survives_redaction_and_the_wire() -> None:
    app = board()
    for _ in range(200):
        offered = await token(app, "wire", {"amount": 5})
        assert await code(app, "wire", {"amount": 5}, confirm=offered) is None


async def test_a_call_that_is_not_allowed_does_not_use_the_token_up() -> None:
    allowed: list[bool] = [False]

    def check(action: Any, input: Any, context: Context) -> bool:
        return allowed[0]

    app = board(permission_checker=check)
    offered = await token(app, "wire", {"amount": 5})
    assert await code(app, "wire", {"amount": 5}, confirm=offered) == "AUTHORIZATION_ERROR"
    allowed[0] = True
    assert await code(app, "wire", {"amount": 5}, confirm=offered) is None


async def test_a_keyed_call_with_a_token_can_be_repeated_and_replays() -> None:
    app = board()
    offered = await token(app, "wire", {"amount": 5})
    first = await app.invoke("wire", {"amount": 5}, confirm=offered, idempotency_key="k")
    again = await app.invoke("wire", {"amount": 5}, confirm=offered, idempotency_key="k")
    assert (first.ok, again.ok, again.replayed) == (True, True, True)


async def test_invalid_input_is_told_before_confirmation() -> None:
    assert await code(board(), "delete", {"id": "x"}) == "VALIDATION_ERROR"


async def test_an_input_with_a_huge_number_can_be_confirmed() -> None:
    app = board()
    offered = await token(app, "wire", {"amount": 10**30})
    assert await code(app, "wire", {"amount": 10**30}, confirm=offered) is None


async def test_a_call_refused_for_lack_of_a_slot_does_not_use_the_token_up() -> None:
    app = App("x")
    entered, leave = asyncio.Event(), asyncio.Event()

    @app.action(side_effects="write", requires_confirmation="token", concurrency=1)
    async def act(n: int) -> int:
        """Act."""
        entered.set()
        await leave.wait()
        return n

    first, second = await token(app, "act", {"n": 1}), await token(app, "act", {"n": 2})
    holder = asyncio.create_task(app.invoke("act", {"n": 1}, confirm=first))
    await entered.wait()
    assert await code(app, "act", {"n": 2}, confirm=second) == "CONCURRENCY_LIMIT"
    leave.set()
    await holder
    assert await code(app, "act", {"n": 2}, confirm=second) is None
