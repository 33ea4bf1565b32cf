"""What an action says is kept as it was said, whatever happens to it before somebody looks."""

from typing import Any

import pytest

from fairlead import App, Context
from fairlead.runtime import MemoryIdempotency


class Elsewhere(MemoryIdempotency):
    """A store that is given bytes, as one in a database is."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Any] = []

    def settle(self, key: str, record: bytes | None, shared: bytes | None = None) -> None:
        self.kept.append(record)
        super().settle(key, record, shared)


def diary(said: dict[str, Any], **options: Any) -> App:
    app = App("diary", **options)

    @app.action(side_effects="write")
    async def write(ctx: Context) -> int:
        """Write it down."""
        ctx.logger.info("password: hunter2", said)
        await ctx.progress.report(message="half", percent=50, fields=said)
        for value in said.values():
            if isinstance(value, list):
                value.append("later")
        said["later"] = True
        return 1

    return app


async def fields(app: App, **options: Any) -> list[dict[str, Any]]:
    return [entry["fields"] for entry in (await app.invoke("write", **options)).logs]


async def test_fields_are_told_as_they_were_when_they_were_said() -> None:
    log, progress = await fields(diary({"n": 1, "list": [1], "token": "abc"}))
    assert log == {"n": 1, "list": [1], "token": "[REDACTED]"}
    assert progress == {"type": "progress", "percent": 50.0, **log}


@pytest.mark.parametrize("said", [{"n": 1}, {"list": [[1]]}, {1: 0.5}])
async def test_whoever_reads_the_logs_gets_a_copy(said: dict[str, Any]) -> None:
    result = await diary(said).invoke("write")
    before = repr(result.logs)
    for entry in result.logs:
        entry["fields"]["n"] = "changed"
        entry["fields"].get("list", [[]])[0].append("changed")
    assert repr(result.logs) == before


@pytest.mark.parametrize("store", [MemoryIdempotency, Elsewhere])
@pytest.mark.parametrize("redact", [None, lambda value: {"seen": value}])
async def test_a_replay_says_what_the_first_call_said(store: Any, redact: Any) -> None:
    app = diary({"n": 1, "list": [1]}, idempotency=store(), redact=redact)
    first = await app.invoke("write", idempotency_key="k")
    again = await app.invoke("write", idempotency_key="k")
    assert again.replayed
    assert (again.logs, again.data) == (first.logs, first.data)
    assert "hunter2" not in repr(again.logs)


async def test_a_store_elsewhere_keeps_bytes_without_secrets() -> None:
    store = Elsewhere()
    await diary({"token": "abc"}, idempotency=store).invoke("write", idempotency_key="k")
    (kept,) = store.kept
    assert type(kept) is bytes
    assert b"hunter2" not in kept
    assert b"abc" not in kept
