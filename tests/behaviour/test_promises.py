"""Each promise once, over every surface: what a caller may rely on wherever the call comes from."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Context, Failure, Kind, s
from fairlead._json import dumps, loads
from fairlead.failures import action as wire
from fairlead.failures import lookup
from fairlead.store.statements import Statement
from fairlead.testing import Outcome, SurfaceDriver


class OutOfPaper(Failure, code="TEST_OUT_OF_PAPER", kind=Kind.unavailable):
    """The printer is out of paper."""


class Board:
    """A small app that has something for every promise."""

    def __init__(self) -> None:
        self.app = App("board")
        self.effects: list[Any] = []
        app = self.app

        @app.action
        async def add(a: int, ctx: Context, b: int = 10, note: str | None = None) -> dict[str, int]:
            """Add two numbers."""
            ctx.logger.info("Adding", a=a, password="hunter2hunter2")
            return {"sum": a + b}

        @app.action
        def slow_sum(numbers: list[int], ctx: Context) -> int:
            """Add many numbers in a thread."""
            ctx.progress.report(message="Adding", percent=50)
            return sum(numbers)

        @app.action(input=s.literal(None))
        async def nothing(value: None) -> str:
            """Take null."""
            return "null"

        @app.action(side_effects="destructive")
        async def delete(id: int) -> int:
            """Delete."""
            self.effects.append(("delete", id))
            return id

        @app.action(side_effects="write", requires_confirmation="token")
        async def wire_money(amount: int) -> int:
            """Wire money."""
            self.effects.append(("wire", amount))
            return amount

        @app.action(side_effects="write", permissions=["tasks:write"])
        async def write(title: str, auth: Any = None, user: Any = None) -> str:
            """Write."""
            self.effects.append(("write", title))
            return title

        @app.action(side_effects="write")
        async def pay(amount: int) -> dict[str, int]:
            """Pay."""
            self.effects.append(("pay", amount))
            return {"paid": amount, "number": len(self.effects)}

        @app.action(timeout=0.02)
        async def hang() -> None:
            """Hang."""
            await asyncio.Event().wait()

        @app.action
        async def leave() -> None:
            """Cancel itself."""
            raise asyncio.CancelledError

        @app.action
        async def fail(kind: str) -> None:
            """Fail as asked."""
            raise Failure(Kind(kind), "As asked.", field="kind", details={"n": 1})

        @app.action
        async def paper() -> None:
            """Print."""
            raise OutOfPaper(retry_after=5)

        @app.action
        async def leak() -> None:
            """Leak."""
            raise RuntimeError(
                "cannot reach postgres://admin:hunter2hunter2@db/prod with Bearer abcdef0123456789"
            )

        @app.action(supported_surfaces=["react"])
        async def elsewhere() -> int:
            """Be offered elsewhere."""
            return 1

        @app.action(visibility="private")
        async def hidden() -> int:
            """Be hidden."""
            return 1

        @app.action(visibility="local")
        async def near() -> int:
            """Be near."""
            return 1

        @app.action(deprecation={"message": "Use add.", "replacement": "add"})
        async def old() -> int:
            """Be old."""
            return 1

        @app.action
        async def export(ctx: Context) -> int:
            """Export."""
            ctx.artifacts.add(
                name="tasks.csv", mime_type="text/csv", uri="file:///tmp/tasks.csv", size_bytes=5
            )
            ctx.logger.info("Exported", rows=3)
            return 3

        @app.action
        async def count(n: int) -> Any:
            """Count up."""
            for each in range(n):
                yield each

        @app.action
        async def spoil() -> int:
            """Return the wrong thing."""
            return "text"  # type: ignore[return-value]

        @app.action
        async def unserializable() -> Any:
            """Return a thing."""
            return object()


@pytest.fixture
def board() -> Board:
    return Board()


#: Drivers whose calls come by a surface of another name.
NAMES = {"python": "unknown", "client": "http"}


def well_formed(told: Outcome, surface: str) -> None:
    envelope = told.envelope
    assert loads(dumps(envelope)) == envelope
    wanted = ["ok", "data" if told.ok else "error", "artifacts", "logs", "meta"]
    assert sorted(envelope) == sorted(wanted)
    assert envelope["meta"]["surface"] == NAMES.get(surface, surface)
    if surface == "cli":
        expected = 0 if told.ok else wire.exit_code(wire.parse(envelope))
        assert told.exit_code == expected
    if surface == "http":
        assert told.status == (200 if told.ok else wire.http_status(wire.parse(envelope)))


async def call(
    surface: SurfaceDriver, board: Board, action: str, input: Any = None, **options: Any
) -> Outcome:
    told = await surface.call(board.app, action, {} if input is None else input, **options)
    well_formed(told, surface.name)
    return told


async def test_a_success_is_an_envelope_with_data(every_surface: SurfaceDriver, board: Board) -> None:
    told = await call(every_surface, board, "add", {"a": 1, "b": 2})
    assert (told.ok, told.data) == (True, {"sum": 3})
    assert told.envelope["meta"]["action"] == "add"
    assert told.envelope["meta"]["invocationId"]
    assert isinstance(told.envelope["meta"]["durationMs"], int)


async def test_a_sync_action_is_like_any_other(every_surface: SurfaceDriver, board: Board) -> None:
    told = await call(every_surface, board, "slow_sum", {"numbers": [1, 2, 3]})
    assert told.data == 6
    assert told.envelope["logs"][0]["fields"] == {"type": "progress", "percent": 50}


async def test_invalid_input_is_told_by_path_and_code(every_surface: SurfaceDriver, board: Board) -> None:
    told = await call(every_surface, board, "add", {"a": "s3cr3t", "extra": 1})
    assert told.code == "VALIDATION_ERROR"
    issues = {tuple(issue["path"]): issue for issue in told.envelope["error"]["issues"]}
    assert set(issues) == {("a",), ("extra",)}
    assert all(issue["code"] and issue["message"] for issue in issues.values())
    assert "s3cr3t" not in dumps(told.envelope) + told.stderr


async def test_missing_input_is_told_by_path(every_surface: SurfaceDriver, board: Board) -> None:
    told = await call(every_surface, board, "add", {})
    assert told.code == "VALIDATION_ERROR"
    assert [issue["path"] for issue in told.envelope["error"]["issues"]] == [["a"]]


async def test_a_null_root_stays_null(every_surface: SurfaceDriver, board: Board) -> None:
    told = await every_surface.call(board.app, "nothing", None)
    assert (told.ok, told.data) == (True, "null")
    assert (await call(every_surface, board, "nothing", {})).code == "VALIDATION_ERROR"


async def test_repaired_input_is_told(every_surface: SurfaceDriver, board: Board) -> None:
    told = await call(every_surface, board, "add", {"a": "5"})
    assert told.data == {"sum": 15}
    assert told.envelope["meta"]["warnings"]
    assert "warnings" not in (await call(every_surface, board, "add", {"a": 5})).envelope["meta"]


async def test_an_unknown_action_is_told_with_the_near_miss(
    every_surface: SurfaceDriver, board: Board
) -> None:
    told = await every_surface.call(board.app, "expot", {})
    assert told.code == "ACTION_NOT_FOUND"
    # A model's tools are all it may know of: the tool contract forbids suggestions there.
    if every_surface.name != "ai-sdk":
        assert "export" in dumps(told.envelope) + told.stderr
    assert told.exit_code in (None, 4)


async def test_an_action_offered_elsewhere_is_not_offered_here(
    every_surface: SurfaceDriver, board: Board
) -> None:
    told = await every_surface.call(board.app, "elsewhere", {})
    if every_surface.name == "python":
        assert told.ok
    else:
        assert told.code == (
            "UNSUPPORTED_SURFACE" if every_surface.name in ("cli", "json") else "ACTION_NOT_FOUND"
        )
        assert told.exit_code in (None, 4)


async def test_a_private_action_is_for_code_alone(every_surface: SurfaceDriver, board: Board) -> None:
    told = await every_surface.call(board.app, "hidden", {})
    # The console is the developer's own: it shows everything.
    if every_surface.name in ("python", "dev"):
        assert told.ok
    else:
        assert told.code == "ACTION_NOT_FOUND"


async def test_a_local_action_is_for_local_surfaces(every_surface: SurfaceDriver, board: Board) -> None:
    assert (await call(every_surface, board, "near")).ok


async def test_a_destructive_action_asks_first(every_surface: SurfaceDriver, board: Board) -> None:
    # The console's page asks the person before it calls.
    if every_surface.name != "dev":
        refused = await call(every_surface, board, "delete", {"id": 1})
        assert refused.code == "CONFIRMATION_REQUIRED"
    assert board.effects == []
    assert (await call(every_surface, board, "delete", {"id": 1}, confirm=True)).data == 1
    assert board.effects == [("delete", 1)]


async def test_bad_input_is_told_before_confirmation(every_surface: SurfaceDriver, board: Board) -> None:
    assert (await call(every_surface, board, "delete", {"id": "x"})).code == "VALIDATION_ERROR"


async def test_a_token_confirms_the_very_call_it_was_given_for(
    every_surface: SurfaceDriver, board: Board
) -> None:
    asked = await call(every_surface, board, "wire_money", {"amount": 5})
    token = asked.envelope["error"]["details"]["confirmation"]["code"]
    assert (await call(every_surface, board, "wire_money", {"amount": 6}, confirm=token)).code == (
        "CONFIRMATION_REQUIRED"
    )
    assert (await call(every_surface, board, "wire_money", {"amount": 5}, confirm=True)).code == (
        "CONFIRMATION_REQUIRED"
    )
    assert (await call(every_surface, board, "wire_money", {"amount": 5}, confirm=token)).data == 5
    assert (await call(every_surface, board, "wire_money", {"amount": 5}, confirm=token)).code == (
        "CONFIRMATION_REQUIRED"
    )
    assert board.effects == [("wire", 5)]


async def test_permission_follows_from_the_identity_the_host_gives(
    every_surface: SurfaceDriver, board: Board
) -> None:
    nobody = await call(every_surface, board, "write", {"title": "a"})
    somebody = await call(
        every_surface, board, "write", {"title": "a"}, user="ann", auth={"permissions": ["x"]}
    )
    allowed = await call(every_surface, board, "write", {"title": "a"}, auth={"permissions": ["tasks:*"]})
    assert (nobody.code, somebody.code) == ("AUTHENTICATION_ERROR", "AUTHORIZATION_ERROR")
    assert allowed.data == "a"
    assert board.effects == [("write", "a")]


async def test_identity_is_never_taken_from_the_input(every_surface: SurfaceDriver, board: Board) -> None:
    claims = {"permissions": ["*"]}
    told = await call(every_surface, board, "write", {"title": "a", "auth": claims, "user": claims})
    assert told.code == "AUTHENTICATION_ERROR"
    assert board.effects == []


async def test_the_same_key_has_one_effect(every_surface: SurfaceDriver, board: Board) -> None:
    first = await call(every_surface, board, "pay", {"amount": 5}, idempotency_key="k 1")
    again = await call(every_surface, board, "pay", {"amount": 5}, idempotency_key="k 1")
    assert first.data == again.data == {"paid": 5, "number": 1}
    assert "idempotent" not in first.envelope["meta"]
    assert again.envelope["meta"]["idempotent"] == "replayed"
    assert again.envelope["meta"]["invocationId"] != first.envelope["meta"]["invocationId"]
    assert board.effects == [("pay", 5)]


async def test_a_key_used_for_another_request_is_a_conflict(
    every_surface: SurfaceDriver, board: Board
) -> None:
    await call(every_surface, board, "pay", {"amount": 5}, idempotency_key="k")
    told = await call(every_surface, board, "pay", {"amount": 6}, idempotency_key="k")
    assert told.code == "CONFLICT"
    assert board.effects == [("pay", 5)]


async def test_a_key_holds_across_surfaces(board: Board) -> None:
    from fairlead.testing import SURFACES

    for surface in SURFACES:
        assert (await surface.call(board.app, "pay", {"amount": 5}, idempotency_key="k", user="ann")).ok
    assert board.effects == [("pay", 5)]


async def test_a_call_that_takes_too_long_is_stopped(every_surface: SurfaceDriver, board: Board) -> None:
    told = await call(every_surface, board, "hang")
    assert told.code == "TIMEOUT"
    assert told.envelope["error"]["retryable"] is True
    assert told.exit_code in (None, 124)


async def test_a_cancelled_call_is_told_as_cancelled(every_surface: SurfaceDriver, board: Board) -> None:
    told = await call(every_surface, board, "leave")
    assert told.code == "CANCELLED"
    assert told.exit_code in (None, 130)


@pytest.mark.parametrize("kind", list(Kind))
async def test_every_kind_of_failure_is_told_in_its_own_words(
    every_surface: SurfaceDriver, board: Board, kind: Kind
) -> None:
    told = await call(every_surface, board, "fail", {"kind": kind.value})
    expected = Failure(kind, "x")
    error = told.envelope["error"]
    assert (told.code, told.message) == (expected.code, "As asked.")
    assert (error["field"], error["details"], error["retryable"]) == (
        "kind",
        {"n": 1},
        wire.retryable(expected),
    )
    assert wire.parse(told.envelope).kind is kind
    assert told.exit_code in (None, wire.exit_code(expected))


async def test_a_code_of_ones_own_is_told_as_it_is(every_surface: SurfaceDriver, board: Board) -> None:
    told = await call(every_surface, board, "paper")
    assert (told.code, told.message) == ("TEST_OUT_OF_PAPER", "The printer is out of paper.")
    assert told.envelope["error"]["retryAfter"] == 5
    assert lookup("action", "TEST_OUT_OF_PAPER") is OutOfPaper


async def test_no_secret_leaves_by_any_way_out(every_surface: SurfaceDriver, board: Board) -> None:
    for action, input in (("leak", {}), ("add", {"a": 1})):
        told = await call(every_surface, board, action, input)
        for secret in ("hunter2", "abcdef0123456789"):
            assert secret not in dumps(told.envelope)
            assert secret not in told.stderr
    assert (await call(every_surface, board, "leak")).code == "INTERNAL_ERROR"


async def test_where_the_store_is_is_told_to_who_runs_the_program_alone(
    every_surface: SurfaceDriver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "harbour.db").write_bytes(b"no database at all" * 100)
    app = App("board", store=f"sqlite:///{tmp_path}/harbour.db")

    @app.action
    async def look() -> None:
        """Look."""
        await app.store.read(lambda tx: tx.one(Statement.of("SELECT 1")))

    told = await every_surface.call(app, "look", {})
    assert told.code == "INTERNAL_ERROR"
    near = every_surface.name in ("python", "json", "cli", "dev")
    assert ("harbour.db" in dumps(told.envelope)) is near
    assert near or "harbour.db" in caplog.text


async def test_where_the_store_is_is_not_told_to_whom_a_program_calls_for(tmp_path: Path) -> None:
    (tmp_path / "harbour.db").write_bytes(b"no database at all" * 100)
    app = App("board", store=f"sqlite:///{tmp_path}/harbour.db")

    @app.action
    async def look() -> None:
        """Look."""
        await app.store.read(lambda tx: tx.one(Statement.of("SELECT 1")))

    for caller in ({"user": {"id": "ann"}}, {"auth": {"id": "key"}}):
        told = (await app.invoke("look", **caller)).to_dict()  # type: ignore[arg-type]
        assert told["error"]["code"] == "INTERNAL_ERROR"
        assert "harbour.db" not in dumps(told)
    assert "harbour.db" in dumps((await app.invoke("look")).to_dict())


async def test_no_traceback_is_shown_to_a_caller(every_surface: SurfaceDriver, board: Board) -> None:
    told = await call(every_surface, board, "leak")
    assert "Traceback" not in dumps(told.envelope) + told.stderr


async def test_a_deprecated_action_warns(every_surface: SurfaceDriver, board: Board) -> None:
    told = await call(every_surface, board, "old")
    entry = told.envelope["logs"][0]
    assert (told.data, entry["level"], entry["message"]) == (1, "warn", "Action is deprecated.")
    assert entry["fields"]["replacement"] == "add"


async def test_logs_and_artifacts_are_told(every_surface: SurfaceDriver, board: Board) -> None:
    told = await call(every_surface, board, "export")
    artifact = dict(told.envelope["artifacts"][0])
    assert artifact.pop("id")
    assert artifact == {
        "type": "file",
        "name": "tasks.csv",
        "mimeType": "text/csv",
        "uri": "file:///tmp/tasks.csv",
        "sizeBytes": 5,
        "metadata": {},
    }
    assert [(entry["message"], entry["fields"]) for entry in told.envelope["logs"]] == [
        ("Exported", {"rows": 3})
    ]


async def test_a_generators_items_are_its_data(every_surface: SurfaceDriver, board: Board) -> None:
    assert (await call(every_surface, board, "count", {"n": 3})).data == [0, 1, 2]


async def test_wrong_output_is_told(every_surface: SurfaceDriver, board: Board) -> None:
    assert (await call(every_surface, board, "spoil")).code == "OUTPUT_VALIDATION_ERROR"
    assert (await call(every_surface, board, "unserializable")).code == "OUTPUT_SERIALIZATION_ERROR"


async def test_a_name_may_carry_its_version(every_surface: SurfaceDriver, board: Board) -> None:
    board.app.add(lambda: 2, name="versioned", description="New.", version="2.0.0")
    board.app.add(lambda: 1, name="versioned", description="Old.", version="1.0.0")
    assert (await call(every_surface, board, "versioned")).data == 2
    assert (await call(every_surface, board, "versioned@1.0.0")).data == 1


@pytest.mark.parametrize(
    "text", ["", "é✓ \u2028", "--flag", "@file", '"quoted" \\ back', "a\nb\tc", "x" * 10_000]
)
async def test_any_text_arrives_as_it_was_sent(every_surface: SurfaceDriver, board: Board, text: str) -> None:
    @board.app.action(preflight="strict")
    async def same(text: str) -> str:
        """Give back."""
        return text

    assert (await call(every_surface, board, "same", {"text": text})).data == text


@pytest.mark.parametrize("number", [0, -1, 2**63, 10**30, 1.5, 1e300, -0.0])
async def test_any_number_arrives_as_it_was_sent(
    every_surface: SurfaceDriver, board: Board, number: Any
) -> None:
    @board.app.action
    async def same(number: int | float) -> Any:
        """Give back."""
        return number

    assert (await call(every_surface, board, "same", {"number": number})).data == number
