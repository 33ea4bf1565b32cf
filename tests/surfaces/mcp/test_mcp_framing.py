"""Frames: the same ones however the bytes are cut, in linear time, and no mistake costs more than its own frame."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.surfaces.mcp.framing import (
    Frame,
    Framer,
    Framing,
    Refused,
    decoded,
)
from fairlead.surfaces.mcp.rpc import INVALID_REQUEST, PARSE_ERROR

BOM = b"\xef\xbb\xbf"


def sized(body: bytes, head: bytes = b"Content-Length") -> bytes:
    return b"%b: %d\r\n\r\n%b" % (head, len(body), body)


def told(frames: list[Frame]) -> list[Any]:
    """Messages as they are, refusals by their code."""
    return [each.code if isinstance(each, Refused) else each for each in map(decoded, frames)]


def read(*pieces: bytes, framing: Framing = "auto", largest: int = 1 << 20) -> list[Any]:
    framer = Framer(framing, largest)
    frames = [frame for piece in pieces for frame in framer.feed(piece)]
    return told([*frames, *framer.finish()])


def bytewise(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


# What is detected, and what is answered in.


@pytest.mark.parametrize(
    ("start", "framing"),
    [
        (b'{"a":1}\n', "newline"),
        (b"[1]\n", "newline"),
        (b"\r\n  \n {}\n", "newline"),
        (b"good morning\n", "newline"),
        (b"contented\n", "newline"),
        (BOM + b"{}\n", "newline"),
        (b"content-length: 2\r\n\r\n{}", "content-length"),
        (b"\n\nCONTENT-LENGTH:2\n\n{}", "content-length"),
        (b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", "content-length"),
        (BOM + b"Content-Length: 2\r\n\r\n{}", "content-length"),
    ],
)
def test_the_framing_is_detected_by_the_first_bytes(start: bytes, framing: str) -> None:
    whole, slow = Framer(), Framer()
    whole.feed(start)
    for piece in bytewise(start):
        slow.feed(piece)
    assert (whole.framing, slow.framing) == (framing, framing)


@pytest.mark.parametrize("start", [b"", b" \r\n", b"Conte", b"\xef\xbb", BOM])
def test_nothing_is_decided_before_it_can_be(start: bytes) -> None:
    framer = Framer()
    assert framer.feed(start) == []
    assert framer.framing == "auto"


def test_answers_are_framed_like_the_questions() -> None:
    lines, headers = Framer(), Framer()
    lines.feed(b"{}\n")
    headers.feed(sized(b"{}"))
    assert lines.wrap(b'"\xc3\xa9"') == b'"\xc3\xa9"\n'
    assert headers.wrap(b'"\xc3\xa9"') == b'Content-Length: 4\r\n\r\n"\xc3\xa9"'


def test_a_framing_that_was_asked_for_is_not_detected() -> None:
    assert read(b"Content-Length: 2\r\n", framing="newline") == [PARSE_ERROR]
    assert read(b"{}\n", framing="content-length") == [PARSE_ERROR]  # the input ended in the headers
    assert Framer("content-length").wrap(b"{}").startswith(b"Content-Length: 2")


# One message a line.


def test_line_ends_may_be_those_of_windows_and_empty_lines_are_nothing() -> None:
    assert read(b'{"a":1}\r\n\r\n \n{"b":2}\n') == [{"a": 1}, {"b": 2}]


def test_a_last_line_needs_no_line_end() -> None:
    assert read(b'{"a":1}\n{"b"', b":2}") == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    "line", [b"{", b"nonsense", b'{"a":\xff}', b'"\xed\xa0\x80"', b"NaN", b"\x00", b"[" * 5000, b"Conte"]
)
def test_66_a_line_that_is_not_json_is_a_parse_error_and_the_next_is_read(line: bytes) -> None:
    assert read(line + b'\n{"a":1}\n') == [PARSE_ERROR, {"a": 1}]


def test_a_parse_error_answers_nobody_in_particular() -> None:
    (refused,) = map(decoded, Framer().feed(b"{nope\n"))
    answer = json.loads(refused.answer)
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", None, PARSE_ERROR)


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_69_a_line_that_is_too_long_gives_one_error_however_it_is_split(size: int) -> None:
    data = b'{"a":"' + b"x" * 500 + b'"}\n{"b":2}\n'
    pieces = [data[index : index + size] for index in range(0, len(data), size)]
    assert read(*pieces, largest=100) == [INVALID_REQUEST, {"b": 2}]


def test_69_the_error_says_that_the_limit_is_exceeded() -> None:
    (refused,) = Framer(largest=10).feed(b'"' + b"x" * 20)
    assert isinstance(refused, Refused)
    assert "exceeds limit" in refused.message


def test_a_line_of_exactly_the_limit_is_read() -> None:
    assert read(b'"12345678"\n', largest=10) == ["12345678"]
    assert read(b'"123456789"\n', largest=10) == [INVALID_REQUEST]


def test_a_line_that_is_too_long_is_not_kept() -> None:
    framer = Framer(largest=1000)
    for _ in range(200):
        framer.feed(b"x" * 1000)
    assert framer._cut is not None
    assert framer._cut._parts == []  # type: ignore[union-attr]


# A length before each message.


def test_65_a_sized_message_is_read() -> None:
    assert read(sized(b'{"a":1}') + sized('{"b":"é"}'.encode())) == [{"a": 1}, {"b": "é"}]


def test_67_a_header_split_over_pieces_is_detected() -> None:
    assert read(b"Content-Le", b"ngth: 7\r", b"\n\r\n{", b'"a":1}') == [{"a": 1}]


def test_bodies_may_hold_line_ends_and_what_looks_like_headers() -> None:
    body = json.dumps({"text": "Content-Length: 5"}, indent=2).encode()
    assert read(sized(body) + sized(b"{}")) == [json.loads(body), {}]


@pytest.mark.parametrize("size", [1, 9, 1000])
def test_70_a_body_that_is_too_long_is_skipped_precisely(size: int) -> None:
    data = sized(b'"' + b"\nContent-Length: 1\r\n\r\n" * 20 + b'"') + sized(b'{"b":2}')
    pieces = [data[index : index + size] for index in range(0, len(data), size)]
    assert read(*pieces, largest=100) == [INVALID_REQUEST, {"b": 2}]


@pytest.mark.parametrize(
    "block",
    [
        b"Content-Type: application/json",
        b"Content-Length: many",
        b"Content-Length: -1",
        b"Content-Length: 1e3",
        b"Content-Length: 0x10",
        "Content-Length: ٣".encode(),
        b"Content-Length: 2\r\nContent-Length: 3",
        b"Content-Length: " + b"9" * 5000,
        b"Content-Type: " + b"x" * 9000,
    ],
)
def test_headers_without_a_length_are_refused_once_and_the_next_frame_is_found(block: bytes) -> None:
    data = sized(b"1") + block + b'\r\n\r\n{"lost": true}' + sized(b'{"b":2}') + sized(b"3")
    assert read(data) == [1, INVALID_REQUEST, {"b": 2}, 3]
    assert read(*bytewise(data)) == [1, INVALID_REQUEST, {"b": 2}, 3]


def test_a_length_that_was_too_short_costs_its_own_message_only() -> None:
    """Characters counted for bytes: the usual mistake."""
    data = 'Content-Length: 9\r\n\r\n{"a":"éé"}'.encode() + sized(b'{"b":2}')
    assert read(data) == [PARSE_ERROR, INVALID_REQUEST, {"b": 2}]


def test_a_broken_body_is_a_parse_error_and_the_next_is_read() -> None:
    assert read(sized(b"{") + sized(b"") + sized(b"{}")) == [PARSE_ERROR, PARSE_ERROR, {}]


def test_line_ends_between_frames_are_nothing() -> None:
    assert read(sized(b"{}") + b"\r\n\n" + sized(b"[]") + b"\r\n") == [{}, []]


@pytest.mark.parametrize("rest", [b"Content-Le", b"Content-Length: 5\r\n", b"Content-Length: 5\r\n\r\n{"])
def test_input_that_ends_within_a_message_is_told(rest: bytes) -> None:
    assert read(sized(b"{}") + rest) == [{}, PARSE_ERROR]


# Whatever comes.

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
framings: st.SearchStrategy[Framing] = st.sampled_from(("newline", "content-length"))
#: Bytes that mean something to a framer, mixed with bytes that do not.
words = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b"\r\n\r\n",
        BOM,
        b"{}",
        b"[1]",
        b"Content-Length: ",
        b"content-length:3\r\n\r\n",
        b"2",
        b" ",
        b"x" * 40,
    ]
)
noise = st.lists(words | st.binary(max_size=6), max_size=25).map(b"".join)
cuts = st.lists(st.integers(0, 400), max_size=12)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    marks = [0, *sorted(min(each, len(data)) for each in at), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(marks)]


@given(st.lists(values, max_size=5), framings, cuts)
def test_messages_come_out_as_they_went_in(messages: list[Any], framing: Framing, at: list[int]) -> None:
    sender = Framer(framing)
    sender.feed(b"")
    data = b"".join(sender.wrap(json.dumps(each).encode()) for each in messages)
    assert read(*cut(data, at)) == messages


@given(noise, cuts, st.sampled_from(("auto", "newline", "content-length")))
@example(b"\xef\xbb\xbf\xef", [1, 3], "auto")
@example(b"content-length:3\r\n\r\n" + b"x" * 40 + b"\n\n", [17, 40], "auto")
def test_any_cutting_gives_the_same_frames(data: bytes, at: list[int], framing: Framing) -> None:
    whole = read(data, framing=framing, largest=30)
    assert read(*cut(data, at), framing=framing, largest=30) == whole
    assert read(*bytewise(data), framing=framing, largest=30) == whole


@given(noise)
def test_after_any_noise_the_next_line_is_read(data: bytes) -> None:
    framer = Framer("newline", largest=30)
    framer.feed(data + b"\n")
    assert told(framer.feed(b'{"last": 1}\n')) == [{"last": 1}]


@pytest.mark.parametrize("framing", ["newline", "content-length"])
def test_bytes_one_by_one_take_linear_time(framing: Framing) -> None:
    """A buffer copied for each byte would copy 80 gigabytes here."""
    message = Framer(framing).wrap(b'"' + b"x" * 400_000 + b'"')
    assert [len(each) for each in read(*bytewise(message))] == [400_000]


def test_headers_one_by_one_take_linear_time() -> None:
    assert read(*bytewise(b"Content-Length: 2\r\nX: " + b"x" * 400_000 + b"\r\n\r\n{}")) == [INVALID_REQUEST]
