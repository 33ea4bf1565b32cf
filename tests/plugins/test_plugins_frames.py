"""What goes over a lane: whole both ways, and rubbish from the other side is found out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.plugins import frames

STRINGS = st.lists(st.none() | st.binary(max_size=200), max_size=8).map(tuple)
BYTE = st.integers(0, 255)


@given(BYTE, BYTE, STRINGS)
def test_a_frame_arrives_as_it_was_sent(kind: int, number: int, strings: tuple[bytes | None, ...]) -> None:
    data = frames.pack(kind, number, strings)
    assert frames.size(data) == len(data)
    assert frames.unpack(data) == (kind, number, list(strings))
    if len(strings) == 1 and strings[0] is not None:
        assert frames.unpack_one(data) == (kind, number, list(strings))
    else:
        assert frames.unpack_one(data) is None


@given(BYTE, BYTE, STRINGS)
def test_an_order_arrives_as_it_was_sent(kind: int, number: int, strings: tuple[bytes | None, ...]) -> None:
    data = frames.pack_order(kind, number, strings)
    assert frames.size(data) == len(data)
    assert frames.unpack_order(data) == (kind, number, strings)


@given(st.binary(max_size=64))
def test_rubbish_is_malformed_or_a_frame_that_says_no_more_than_it_holds(data: bytes) -> None:
    one = frames.unpack_one(data)
    try:
        whole = frames.unpack(data)
    except frames.Malformed:
        assert one is None
        return
    assert one in (None, whole)
    assert sum(len(each) for each in whole[2] if each is not None) <= len(data)


@given(BYTE, BYTE, STRINGS, st.integers(0, 2**16), BYTE)
def test_a_frame_with_one_byte_changed_is_never_read_beyond_its_end(
    kind: int, number: int, strings: tuple[bytes | None, ...], at: int, byte: int
) -> None:
    data = bytearray(frames.pack(kind, number, strings))
    data[at % len(data)] = byte
    try:
        _kind, _number, found = frames.unpack(bytes(data))
    except frames.Malformed:
        return
    assert sum(len(each) for each in found if each is not None) <= len(data)


@pytest.mark.parametrize("length", range(7))
def test_a_frame_that_has_hardly_begun_is_malformed(length: int) -> None:
    with pytest.raises(frames.Malformed):
        frames.unpack(frames.pack(5, 2, (b"text",))[:length])
