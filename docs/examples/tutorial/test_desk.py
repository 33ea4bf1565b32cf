import pytest
from desk3 import app

from fairlead.testing import TestRuntime, create_test_runtime, expect_error, expect_ok


@pytest.fixture
def desk() -> TestRuntime:
    return create_test_runtime(app.actions, services={"loans": {}})


async def test_a_lent_book_is_on_the_list(desk: TestRuntime) -> None:
    loan = expect_ok(await desk.invoke("lend_book", {"title": "Moby-Dick"}))
    assert expect_ok(await desk.invoke("list_loans")) == [loan]


async def test_a_book_is_lent_once(desk: TestRuntime) -> None:
    expect_ok(await desk.invoke("lend_book", {"title": "Moby-Dick"}))
    failure = expect_error(await desk.invoke("lend_book", {"title": "Moby-Dick"}), "already_lent")
    assert failure.field == "title"


async def test_lending_twice_with_one_key_lends_once(desk: TestRuntime) -> None:
    first = await desk.invoke("lend_book", {"title": "Moby-Dick"}, idempotency_key="k1")
    second = await desk.invoke("lend_book", {"title": "Moby-Dick"}, idempotency_key="k1")
    assert expect_ok(second) == expect_ok(first)
    assert second.replayed


async def test_forgetting_needs_a_yes(desk: TestRuntime) -> None:
    expect_error(await desk.invoke("forget_loans", confirm=False), "CONFIRMATION_REQUIRED")
