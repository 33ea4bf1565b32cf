"""The pivot is total, no code changes at home, and a failure comes back from every wire as what it was."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from types import ModuleType

import pytest

from fairlead import _json
from fairlead.failures import (
    PIVOT,
    Entry,
    Failure,
    Issue,
    Kind,
    Origin,
    action,
    catalogue,
    families,
    from_exception,
    gateway,
    host,
    lookup,
    runtime,
    tool,
)

WIRES: dict[str, ModuleType] = {
    "action": action,
    "tool": tool,
    "host": host,
    "gateway": gateway,
    "runtime": runtime,
}
CODES = [(entry.family, entry.code) for entry in catalogue()]
IDS = ["-".join(code) for code in CODES]


class QuotaExceeded(Failure, code="quota_exceeded", kind=Kind.rate_limited):
    """The quota of this month is used up."""


class PumpStuck(Failure, code="pump_stuck", kind=Kind.busy, family="gateway", http_status=423):
    """The pump is stuck."""


def told_code(family: str, body: dict[str, object]) -> object:
    error = body["error"] if family == "gateway" else body
    key = {"action": "code", "tool": "kind", "host": "error", "gateway": "code", "runtime": "error"}[family]
    assert isinstance(error, dict)
    return error[key]


def born(family: str, code: str) -> Failure:
    return lookup(family, code)(f"what happened with {code}")


def test_there_are_five_families() -> None:
    assert families() == ("action", "tool", "host", "gateway", "runtime")


def test_every_family_has_every_code_of_its_contract() -> None:
    ours = [e.family for e in catalogue() if lookup(e.family, e.code).__module__.startswith("fairlead.")]
    assert {family: ours.count(family) for family in families()} == {
        "action": 28,
        "tool": 8,
        "host": 34 + 1,  # one of our own
        "gateway": 22,
        "runtime": 23 + 2,  # two of our own
    }


def test_every_kind_has_a_registered_word_on_every_wire() -> None:
    for kind in Kind:
        for family in families():
            word = PIVOT[kind].on(family)
            assert lookup(family, word).code == word, (kind, family)


def test_every_kind_is_the_kind_of_some_code() -> None:
    assert {entry.kind for entry in catalogue()} == set(Kind)


@pytest.mark.parametrize(("family", "code"), CODES, ids=IDS)
def test_every_code_is_documented(family: str, code: str) -> None:
    doc = lookup(family, code).__doc__
    assert doc
    assert doc.endswith(".")
    assert lookup(family, code)().message == " ".join(doc.split())


@pytest.mark.parametrize(("family", "code"), CODES, ids=IDS)
def test_every_code_renders_on_every_wire_and_comes_back_as_itself(family: str, code: str) -> None:
    failure = born(family, code)
    for name, wire in WIRES.items():
        body = wire.render(failure)
        assert _json.loads(_json.encode(body)) == body
        back = wire.parse(body)
        assert (back.family, back.code, back.kind) == (family, code, failure.kind), name
        assert back.message == failure.message
        assert type(back) is type(failure)


@pytest.mark.parametrize(("family", "code"), CODES, ids=IDS)
def test_no_code_changes_on_its_home_wire(family: str, code: str) -> None:
    failure = born(family, code)
    if code == "agent_reply_error":
        assert gateway.done_frame(failure)["code"] == code
        return
    body = WIRES[family].render(failure)
    assert told_code(family, body) == code
    assert "origin" not in str(body)


@pytest.mark.parametrize(("family", "code"), CODES, ids=IDS)
def test_on_a_foreign_wire_a_code_is_told_by_the_pivot_word_and_carries_its_origin(
    family: str, code: str
) -> None:
    failure = born(family, code)
    for name, wire in WIRES.items():
        if name == family:
            continue
        body = wire.render(failure)
        assert told_code(name, body) == PIVOT[failure.kind].on(name)
        assert wire.parse(body).origin == Origin(family, code)


@pytest.mark.parametrize("first", WIRES)
@pytest.mark.parametrize("second", WIRES)
def test_origin_survives_a_trip_over_any_two_wires(first: str, second: str) -> None:
    for family, code in CODES:
        failure = born(family, code)
        once = WIRES[first].parse(WIRES[first].render(failure))
        twice = WIRES[second].parse(WIRES[second].render(once))
        if code == "agent_reply_error":
            assert gateway.done_frame(twice) == gateway.done_frame(failure)
        else:
            assert told_code(family, WIRES[family].render(twice)) == code
        assert (twice.kind, twice.message) == (failure.kind, failure.message)


@pytest.mark.parametrize("kind", Kind)
def test_a_failure_of_a_kind_alone_keeps_kind_and_message_over_every_pair_of_wires(kind: Kind) -> None:
    failure = Failure(kind, "what happened")
    for first in WIRES.values():
        for second in WIRES.values():
            back = second.parse(second.render(first.parse(first.render(failure))))
            assert (back.kind, back.code, back.message) == (kind, failure.code, "what happened")


@pytest.mark.parametrize("family", WIRES)
def test_a_family_s_base_class_speaks_that_family_s_words(family: str) -> None:
    base = lookup(family, "no_such_code")
    for kind in Kind:
        failure = base(kind, "what happened")
        assert failure.family == family
        assert failure.code == PIVOT[kind].on(family)
        back = WIRES[family].parse(WIRES[family].render(failure))
        assert (back.kind, back.code) == (kind, failure.code)


def test_a_user_s_code_of_one_line_works_on_all_wires() -> None:
    failure = QuotaExceeded(field="plan", retry_after=30)
    assert failure.message == "The quota of this month is used up."
    assert action.render(failure) == {
        "code": "quota_exceeded",
        "message": "The quota of this month is used up.",
        "issues": [],
        "retryable": True,
        "field": "plan",
        "retryAfter": 30,
    }
    assert action.http_status(failure) == 429
    assert action.exit_code(failure) == 5
    for name, wire in WIRES.items():
        back = wire.parse(wire.render(failure))
        assert type(back) is QuotaExceeded, name
        assert back.field == "plan"
        assert back.retry_after == 30


def test_a_user_s_code_in_a_foreign_family_states_its_own_numbers() -> None:
    failure = PumpStuck()
    assert gateway.http_status(failure) == 423
    assert gateway.render(failure)["error"]["type"] == "rate_limit_error"
    assert action.http_status(failure) == 429
    assert type(action.parse(action.render(failure))) is PumpStuck


def test_a_peer_that_does_not_know_a_user_s_code_still_knows_its_kind() -> None:
    body = {"ok": False, "kind": "unavailable", "message": "m", "retryable": True}
    carried = {"family": "action", "code": "never_heard_of", "kind": "busy"}
    failure = tool.parse({**body, "origin": carried})
    assert (failure.kind, failure.code, failure.family) == (Kind.busy, "never_heard_of", "action")
    assert action.render(failure)["code"] == "never_heard_of"


def test_a_user_s_constructor_does_not_stand_in_the_way_of_reading() -> None:
    class DiskFull(Failure, code="disk_full", kind=Kind.exhausted):
        """The disk is full."""

        def __init__(self, free: int) -> None:
            super().__init__(f"{free} bytes are left")

    back = host.parse(host.render(DiskFull(3)))
    assert type(back) is DiskFull
    assert back.message == "3 bytes are left"


def test_a_second_class_with_the_same_code_is_refused() -> None:
    with pytest.raises(TypeError, match="QuotaExceeded"):

        class QuotaAgain(Failure, code="quota_exceeded", kind=Kind.rate_limited):
            """Again."""


@pytest.mark.parametrize(
    "options",
    [
        {"code": "", "kind": Kind.conflict},
        {"code": "no_kind_at_all"},
        {"code": "odd_family", "kind": Kind.conflict, "family": "gatway"},
        {"code": "odd_option", "kind": Kind.conflict, "http_stats": 402},
        {"code": "odd_type", "kind": Kind.conflict, "http_status": "402"},
    ],
    ids=lambda options: options["code"] or "empty",
)
def test_a_badly_defined_code_is_refused_where_it_is_defined(options: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        type("Odd", (Failure,), {}, **options)


def test_near_misses_are_suggested() -> None:
    with pytest.raises(LookupError, match="gateway"):
        lookup("gatway", "conflict")
    with pytest.raises(TypeError, match="http_status"):
        type("Odd", (Failure,), {}, code="odd", kind=Kind.conflict, http_stats=402)


def test_a_failure_without_a_kind_is_refused_with_the_way_out() -> None:
    with pytest.raises(TypeError, match="Kind first"):
        Failure("something broke")


def test_a_failure_is_an_exception_and_a_value() -> None:
    cause = ValueError("inner")
    failure = Failure(
        Kind.conflict,
        "taken",
        field="name",
        expected="a free name",
        issues=[Issue(("name",), "taken", "is taken")],
        details={"by": 7},
        retry_after=2,
        retryable=True,
        cause=cause,
    )
    assert str(failure) == failure.message == "taken"
    assert (failure.code, failure.family) == ("CONFLICT", "action")
    assert failure.__cause__ is cause
    assert "CONFLICT" in repr(failure)
    for again in (copy.copy(failure), pickle.loads(pickle.dumps(failure))):
        assert action.render(again) == action.render(failure)


def test_a_missing_message_is_the_code_s_docstring() -> None:
    assert Failure(Kind.conflict).message == action.Conflict.__doc__
    assert QuotaExceeded("").message == QuotaExceeded.__doc__


def test_an_unknown_code_gives_the_family_s_base_class() -> None:
    assert lookup("action", "NOPE") is Failure
    assert lookup("gateway", "nope") is gateway.GatewayFailure


def test_the_catalogue_tells_status_exit_code_and_retry_advice() -> None:
    entries = {(e.family, e.code): e for e in catalogue()}
    assert entries["action", "TIMEOUT"] == Entry(
        "action", "TIMEOUT", Kind.timeout, str(action.Timeout.__doc__), 504, 124, True, ""
    )
    offline = entries["gateway", "agent_offline"]
    assert (offline.http_status, offline.exit_code, offline.where) == (503, None, "JSON, SSE")
    assert entries["runtime", "load_error"].exit_code == 2
    assert entries["tool", "invalid_args"].retryable is True
    assert entries["host", "plugin_busy"].http_status == 429
    assert entries["gateway", "agent_reply_error"].http_status is None
    with pytest.raises(TypeError):
        list(catalogue("hosts"))


def test_an_exception_becomes_the_failure_it_stands_for() -> None:
    import asyncio
    import concurrent.futures

    failure = Failure(Kind.conflict, "as is")
    assert from_exception(failure) is failure
    assert from_exception(asyncio.CancelledError()).kind is Kind.cancelled
    assert from_exception(concurrent.futures.CancelledError()).kind is Kind.cancelled
    assert from_exception(TimeoutError()).code == "TIMEOUT"
    for exc in (PermissionError("no"), FileNotFoundError("gone"), KeyError("k"), KeyboardInterrupt()):
        internal = from_exception(exc)
        assert internal.code == "INTERNAL_ERROR"
        assert internal.__cause__ is exc


def test_an_exception_s_text_is_redacted_and_never_in_the_way() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "hunter2" not in from_exception(ValueError("password=hunter2")).message
    assert from_exception(Mute()).message == action.InternalError.__doc__
    assert from_exception(ValueError()).message == action.InternalError.__doc__


def test_importing_failures_loads_no_foreign_family_and_nothing_heavy() -> None:
    program = """
import sys, types
package = types.ModuleType("fairlead"); package.__path__ = [{path!r}]; sys.modules["fairlead"] = package
import fairlead.failures as failures
loaded = [n for n in ("tool", "host", "gateway", "runtime") if "fairlead.failures." + n in sys.modules]
heavy = [n for n in ("pydantic", "asyncio", "click", "logging", "difflib") if n in sys.modules]
failures.lookup("gateway", "conflict")
print(loaded, heavy, "fairlead.failures.gateway" in sys.modules, failures.runtime.CATEGORIES["config"])
"""
    import fairlead

    [path] = fairlead.__path__
    done = subprocess.run(
        [sys.executable, "-c", program.format(path=path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[] [] True misconfigured"


def test_large_integers_survive_json_both_ways() -> None:
    value = {"n": 2**70, "m": -(2**64), "text": "1234567890123456789012"}
    assert _json.loads(_json.dumps(value)) == value
    assert _json.loads(_json.dumps(value, indent=True, sort_keys=True)) == value
    for text in ("NaN", "[12345678901234567890123, NaN]", "[" * 5000 + "1" * 30, "{"):
        with pytest.raises(ValueError):
            _json.loads(text)
    with pytest.raises(TypeError):
        _json.dumps({"n": 2**70, "o": object()})
    assert _json.loads(_json.dumps({"n": 2**70, "o": {1}}, default=list)) == {"n": 2**70, "o": [1]}
