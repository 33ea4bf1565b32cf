"""Every parser answers whatever bytes it gets: quickly here, and for as long as one likes by `make fuzz`."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import effort
from fuzz.targets import CORPUS, TARGETS, seeds

NAMES: Final = sorted(TARGETS)
_JUNK: Final = [
    b"",
    b"\0",
    b"[",
    b"{",
    b'"',
    b"\\",
    b"\n",
    b"\r",
    b":",
    b"-",
    b"9" * 20,
    b"\xff",
    b'"$ref"',
    b"\\ud800",
]


@st.composite
def mutated(draw: st.DrawFn, name: str) -> bytes:
    """A seed with pieces cut out, doubled and put in."""
    data = draw(st.sampled_from(list(seeds(name))))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        stop = draw(st.integers(start, min(len(data), start + 12)))
        put = draw(st.sampled_from([*_JUNK, data[start:stop] * 2]) | st.binary(max_size=6))
        data = data[:start] + put + data[stop:]
    return data


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_is_answered(name: str) -> None:
    found = list(seeds(name))
    assert found
    for data in found:
        TARGETS[name](data)


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_are_answered(name: str) -> None:
    @settings(max_examples=80, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.binary(max_size=120) | mutated(name))
    def answered(data: bytes) -> None:
        TARGETS[name](data)

    answered()


@pytest.mark.parametrize("name", NAMES)
def test_long_inputs_take_time_in_line_with_their_length(name: str) -> None:
    """Eight times the input is far from the 64 times the work of a parser that looks back at every step."""
    for seed in list(seeds(name))[:3]:
        for piece in {seed, seed[:3] or b"[", seed[-3:] or b"]"}:
            short, long = ((piece * size)[:size] for size in (4_000, 32_000))
            assert spent(name, long) < 0.5 + 24 * spent(name, short), piece


def spent(name: str, data: bytes) -> float:
    return effort(lambda: TARGETS[name](data))


def test_the_corpus_is_of_targets_that_exist() -> None:
    assert {each.name for each in CORPUS.iterdir()} <= set(TARGETS)
