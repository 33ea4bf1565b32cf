"""What goes over a lane: frames of a kind, a number and a few strings, in little-endian binary.

The helper process loads this file alone, so it imports next to nothing. What a frame means is not known here.
"""

import marshal
import struct

# host to helper
CALL = 1  # number: what to call; strings: agent, arguments
REPLY = 2  # strings: the answer of a host call
CHUNK = 3  # strings: one piece of a stream
# helper to host
HOST = 4  # number: the slot; strings: its arguments
RETURN = 5  # strings: what the call gave
CHUNK_DONE = 6  # the plugin has taken the piece
NOTE = 7  # number: the slot; nobody waits for an answer
FAILED = 8  # strings: why the call could not be made

# what to call
LOAD = 1
INVOKE = 2
ROUTE = 3
CONFIG = 4
EVENT = 5
DESTROY = 6

# over the control socket, from the host: a lane for calls, one for host calls, and the end
LANE = b"L"
LOAN = b"B"
QUIT = b"Q"
# and from the helper: a thread of the plugin needs a lane
BORROW = b"b"

#: Host calls that threads of the plugin's own may have open; more of them wait.
MOST_BORROWED = 64
#: Bytes. A file of 50 MB in base64 fits, with room for what is said of it.
LARGEST = 80 * 1024 * 1024
#: Bytes that are left of each string of a call that has no answer and is larger: more than any such call may have.
CUT = 2 * 1024 * 1024

_HEAD = struct.Struct("<IBBB")
_ONE = struct.Struct("<IBBBi")
_TWO = struct.Struct("<IBBBii")
_HEADS = tuple(struct.Struct(f"<IBBB{count}i") for count in range(16))
_LENGTHS = tuple(struct.Struct(f"<{count}i") for count in range(16))
_HEAD_SIZE, _ONE_SIZE, _TWO_SIZE = _HEAD.size, _ONE.size, _TWO.size
_LENGTH_SIZE = 4


class TooLarge(Exception):
    """More than fits one frame."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes are more than the {LARGEST} that fit")


class Malformed(Exception):
    """These bytes are no frame."""


def size(data: "bytes | bytearray") -> int:
    """How many bytes the frame at the beginning of `data` takes, whichever way it goes; 0 while that is not known."""
    return int.from_bytes(data[:4], "little") + _LENGTH_SIZE if len(data) >= _LENGTH_SIZE else 0


# --- from the host: it is trusted, so the quickest form will do ---


def pack_order(kind: int, number: int, strings: "tuple[bytes | None, ...]" = ()) -> bytes:
    """The bytes of a frame from the host."""
    body = marshal.dumps((kind, number, strings))
    return len(body).to_bytes(_LENGTH_SIZE, "little") + body


def unpack_order(data: bytes) -> "tuple[int, int, tuple[bytes | None, ...]]":
    """What the host said, in exactly one frame."""
    order: tuple[int, int, tuple[bytes | None, ...]] = marshal.loads(data[_LENGTH_SIZE:])  # noqa: S302  # of the host only
    return order


# --- from the helper: it is not trusted, so each length is checked ---


def pack(kind: int, number: int, strings: "tuple[bytes | None, ...]" = ()) -> bytes:
    """The bytes of a frame from the helper."""
    count = len(strings)
    if count == 1 and (only := strings[0]) is not None:
        length = len(only)
        return _ONE.pack(length + 7, kind, number, 1, length) + only
    if count == 2 and (first := strings[0]) is not None and (second := strings[1]) is not None:
        one, two = len(first), len(second)
        return _TWO.pack(one + two + 11, kind, number, 2, one, two) + first + second
    lengths = [-1 if each is None else len(each) for each in strings]
    body = b"".join([each for each in strings if each is not None])
    return _HEADS[count].pack(len(body) + 4 * count + 3, kind, number, count, *lengths) + body


def unpack_one(data: bytes) -> "tuple[int, int, list[bytes | None]] | None":
    """The same, if `data` is exactly one frame with one string, as most are; it is asked first."""
    if len(data) < _ONE_SIZE:
        return None
    length, kind, number, count, only = _ONE.unpack_from(data)
    if count != 1 or only != len(data) - _ONE_SIZE or length != len(data) - _LENGTH_SIZE:
        return None
    return kind, number, [data[_ONE_SIZE:]]


def unpack_two(data: bytes) -> "tuple[int, int, list[bytes | None]] | None":
    """The same, with two strings."""
    if len(data) < _TWO_SIZE:
        return None
    length, kind, number, count, first, second = _TWO.unpack_from(data)
    if count != 2 or first < 0 or second < 0 or first + second != len(data) - _TWO_SIZE:
        return None
    if length != len(data) - _LENGTH_SIZE:
        return None
    return kind, number, [data[_TWO_SIZE : _TWO_SIZE + first], data[_TWO_SIZE + first :]]


def unpack(data: bytes) -> "tuple[int, int, list[bytes | None]]":
    """The kind, number and strings of exactly one frame. Raises `Malformed`; never reads beyond `data`."""
    try:
        length, kind, number, count = _HEAD.unpack_from(data)
        lengths = _LENGTHS[count].unpack_from(data, _HEAD_SIZE)
    except (struct.error, IndexError):
        raise Malformed from None
    at = _HEAD_SIZE + 4 * count
    strings: list[bytes | None] = []
    for each in lengths:
        if each < 0:
            strings.append(None)
            continue
        strings.append(data[at : at + each])
        at += each
    if at != len(data) or at != length + _LENGTH_SIZE:
        raise Malformed
    return kind, number, strings
