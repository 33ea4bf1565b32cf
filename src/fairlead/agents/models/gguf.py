"""Files in GGUF, llama.cpp's format: reading what one says of itself, and writing one.

No numbers are computed here: tensors are copied as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from fairlead.failures import Failure, Kind

_MAGIC: Final = b"GGUF"
_VERSION: Final = 3
_ALIGNMENT: Final = 32
#: More than any real file has: a damaged one must not make us read for ever.
_MOST: Final = 10_000_000
_LONGEST: Final = 16 << 20
#: Lists of lists, which no real file has.
_DEEPEST: Final = 8

# Types of values, by number: their struct code, or a word.
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9


class Damaged(Exception):
    """The file is not GGUF, or cut off."""


@dataclass(frozen=True, slots=True)
class About:
    """What a file says of itself."""

    architecture: str
    name: str
    #: Tokens that it was made for.
    window: int
    #: Numbers in a vector, for embeddings.
    dimensions: int
    #: Whether it makes vectors of texts rather than texts.
    embedding: bool
    #: Whether the file brings a template for conversations.
    template: bool


def about(path: Path) -> About:
    """Read the head of a file.

    Raises:
        Failure: it is not there, or not GGUF.
    """
    try:
        with path.open("rb") as file:
            values = dict(_head(file))
    except FileNotFoundError:
        raise Failure(Kind.not_found, f"There is no file {str(path)!r}.") from None
    except OSError as exc:
        raise Failure(Kind.unavailable, f"{str(path)!r} cannot be read: {exc.strerror}.") from exc
    except (Damaged, struct.error, UnicodeDecodeError) as exc:
        words = f"{str(path)!r} is not a whole GGUF file ({exc}). Expected weights for llama.cpp, NAME.gguf."
        raise Failure(Kind.invalid_input, words) from exc
    kind = str(values.get("general.architecture", ""))
    pooling = values.get(f"{kind}.pooling_type")
    return About(
        architecture=kind,
        name=str(values.get("general.name", "")),
        window=_whole(values.get(f"{kind}.context_length")),
        dimensions=_whole(values.get(f"{kind}.embedding_length")),
        embedding="bert" in kind or (isinstance(pooling, int) and pooling > 0),
        template="tokenizer.chat_template" in values,
    )


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _head(file: BinaryIO) -> Iterator[tuple[str, Any]]:
    if file.read(4) != _MAGIC:
        raise Damaged("it does not begin with GGUF")
    version, _, count = struct.unpack("<IQQ", _exactly(file, 20))
    if not 2 <= version <= _VERSION:
        raise Damaged(f"version {version} is not known")
    if count > _MOST:
        raise Damaged("too many fields")
    for _ in range(count):
        key = _text(file)
        yield key, _value(file, _number(file, "I"))


def _exactly(file: BinaryIO, size: int) -> bytes:
    if size > _LONGEST:
        raise Damaged("a field is too long")
    found = file.read(size)
    if len(found) != size:
        raise Damaged("it is cut off")
    return found


def _number(file: BinaryIO, code: str) -> Any:
    return struct.unpack(f"<{code}", _exactly(file, struct.calcsize(code)))[0]


def _text(file: BinaryIO) -> str:
    return _exactly(file, _number(file, "Q")).decode(errors="replace")


def _value(file: BinaryIO, kind: int, deep: int = 0) -> Any:
    if kind in _SCALARS:
        return _number(file, _SCALARS[kind])
    if kind == _STRING:
        return _text(file)
    if kind != _ARRAY:
        raise Damaged(f"type {kind} is not known")
    inner, count = _number(file, "I"), _number(file, "Q")
    if count > _MOST or deep > _DEEPEST:
        raise Damaged("a list is too long" if count > _MOST else "its lists are nested too deeply")
    if inner in _SCALARS:
        _exactly(file, struct.calcsize(_SCALARS[inner]) * count)
    else:
        for _ in range(count):
            _value(file, inner, deep + 1)
    # Vocabularies are long, and nobody asks for them.
    return count


class Tensor(NamedTuple):
    """Numbers to be written: how they lie, and what copies them."""

    name: str
    #: As in other libraries, outermost first; GGUF has it the other way round.
    shape: tuple[int, ...]
    #: 0 is 32-bit floats, 1 is 16-bit.
    type: int
    size: int
    copy: Callable[[BinaryIO], None]


def write(file: BinaryIO, values: Mapping[str, Any], tensors: Sequence[Tensor]) -> None:
    """Write a file: what it says of itself, then the tensors."""
    file.write(_MAGIC + struct.pack("<IQQ", _VERSION, len(tensors), len(values)))
    for key, value in values.items():
        file.write(_spelled(key) + _typed(value))
    offset = 0
    for tensor in tensors:
        shape = tuple(reversed(tensor.shape))
        file.write(_spelled(tensor.name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
        file.write(struct.pack("<IQ", tensor.type, offset))
        offset += _padded(tensor.size)
    file.write(bytes(_padded(file.tell()) - file.tell()))
    for tensor in tensors:
        tensor.copy(file)
        file.write(bytes(_padded(tensor.size) - tensor.size))


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _spelled(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _typed(value: Any) -> bytes:
    if isinstance(value, list):
        if isinstance(value[0], str):
            return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_spelled, value))
        return struct.pack(f"<IIQ{len(value)}i", _ARRAY, _INT32, len(value), *value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _spelled(value)
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, float):
        return struct.pack("<If", _FLOAT32, value)
    return struct.pack("<II", _UINT32, value)
