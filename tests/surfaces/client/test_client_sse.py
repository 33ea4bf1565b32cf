"""Reading server-sent events: the same whatever the pieces, as another reader reads them, and within bounds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import httpx
import pytest
from httpx_sse import EventSource
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fairlead.surfaces.client.sse import Message, Reader, TooLong

quick = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LINE_ENDS = st.sampled_from(["\n", "\r", "\r\n"])
#: Characters that other ways of splitting lines fall for, and those that the format itself uses.
TEXT = st.text(st.sampled_from("ab :\u2028\u0085\x0b\x1c€𝄞\ufeff\0"), max_size=6)
FIELDS = st.builds("{}{}{}".format, st.sampled_from(["data", "event", "id", "retry", "", "Data", "x"]),
                   st.sampled_from([":", ": ", ""]), TEXT)  # fmt: skip
STREAMS = st.lists(
    st.one_of(
        st.tuples(FIELDS, LINE_ENDS),
        st.tuples(st.just(""), LINE_ENDS),
        st.tuples(st.just("data: x"), LINE_ENDS),
    ),
    max_size=12,
)


def read(stream: bytes, cuts: list[int] | None = None) -> list[Message]:
    reader = Reader()
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts or ()), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    return [message for piece in pieces for message in reader.feed(piece)]


@quick
@given(STREAMS, st.lists(st.integers(0, 1000), max_size=8), st.booleans())
@example([("data: x", "\r\n"), ("", "\r\n")], [8, 10], True)
def test_the_pieces_a_stream_comes_in_do_not_matter(
    lines: list[tuple[str, str]], cuts: list[int], marked: bool
) -> None:
    stream = ("\ufeff" * marked + "".join(line + end for line, end in lines)).encode()
    assert read(stream, cuts) == read(stream) == list(by_the_book(stream.decode()))


def by_the_book(text: str) -> Iterator[Message]:
    """The algorithm of the HTML standard, step by step, on the whole text."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    data, type, id = "", "", ""
    for line in text.split("\n")[:-1]:
        name, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            if data != "":
                yield Message(type or "message", data.removesuffix("\n"), id)
            data, type = "", ""
        elif colon and not name:
            continue
        elif name == "data":
            data += value + "\n"
        elif name == "event":
            type = value
        elif name == "id" and "\0" not in value:
            id = value


PLAIN = st.text(st.sampled_from("ab€𝄞\u2028 :"), max_size=5)


@quick
@given(
    st.lists(
        st.tuples(st.sampled_from(["", "log", "result"]), st.lists(PLAIN, min_size=1, max_size=3), LINE_ENDS)
    )
)
def test_another_reader_reads_the_same(events: list[tuple[str, list[str], str]]) -> None:
    stream = b""
    for number, (kind, data, end) in enumerate(events, start=1):
        lines = [
            *([f"event: {kind}"] if kind else []),
            f"id: {number}",
            *(f"data: {each}" for each in data),
            "",
            "",
        ]
        stream += end.join(lines).encode()
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stream)
    theirs = [(each.event, each.data, each.id) for each in EventSource(response).iter_sse()]
    assert [tuple(message) for message in read(stream)] == theirs


def test_what_is_not_utf8_does_not_stop_the_stream() -> None:
    [first, second] = read(b"data: \xff\xfe\n\ndata: ok\n\n")
    assert first.data == "��"
    assert second.data == "ok"


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 2000, b"x" * 2000, b"data: xxxxxx\n" * 200])
def test_an_event_that_is_too_long_is_refused(stream: bytes) -> None:
    reader = Reader(largest=1000)

    def feed_all() -> None:
        for byte in stream:
            reader.feed(bytes([byte]))

    with pytest.raises(TooLong):
        feed_all()


def test_a_stream_that_never_ends_is_read_in_bounded_memory() -> None:
    reader = Reader(largest=1000)
    told = b": keep-alive\n\n" * 50 + b"event: log\nid: 7\nunknown\ndata: x\n\n" * 50
    reader.feed(told)
    peaks = []
    for _ in range(3):  # threads that other tests left may take some just then
        tracemalloc.start()
        for _ in range(200):
            assert len(reader.feed(told)) == 50
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert min(peaks) < 200_000
