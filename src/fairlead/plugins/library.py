"""What can be read of a library without running any of it: for which machine it is, and which entries it has."""

from __future__ import annotations

import mmap
import platform
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.plugins.slots import ENTRY_V1, ENTRY_V2

ENTRIES: Final = (ENTRY_V2, ENTRY_V1)
_MACHINES: Final = {
    3: "i386",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    21: "ppc64",
    22: "s390x",
}
_SAME: Final = {"amd64": "x86_64", "arm64": "aarch64", "i686": "i386", "armv7l": "arm", "ppc64le": "ppc64"}
_SHARED: Final = 3
_DYNSYM: Final = 11
_MOST_SYMBOLS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Facts:
    """What a library is. `entries` are those of the two entry symbols that it defines."""

    machine: str
    entries: tuple[str, ...]

    @property
    def native(self) -> bool:
        """Whether it is made for a machine like this one."""
        return self.machine == this_machine()


def this_machine() -> str:
    """The machine that this process runs on, in the words of `Facts`."""
    name = platform.machine().lower()
    return _SAME.get(name, name)


def facts(path: Path) -> Facts:
    """The facts of an ELF library.

    Raises:
        ValueError: it is no such file, or it is damaged.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            raise ValueError("it is not a library of Linux (ELF)")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                return _read(content)
            except (struct.error, IndexError, OverflowError) as exc:
                raise ValueError("it is cut short or damaged") from exc


def _read(content: mmap.mmap) -> Facts:
    order = "<" if content[5] == 1 else ">"
    kind, machine = struct.unpack_from(f"{order}HH", content, 16)
    if kind != _SHARED:
        raise ValueError("it is a program or an object file, not a shared library")
    name = _MACHINES.get(machine, f"machine {machine}")
    if content[4] != 2:
        return Facts(name if name != "x86_64" else "x32", ())
    return Facts(name, tuple(entry for entry in ENTRIES if entry in _defined(content, order)))


def _defined(content: mmap.mmap, order: str) -> set[str]:
    """The names that a 64-bit library defines for others."""
    (table,) = struct.unpack_from(f"{order}Q", content, 40)
    size, count = struct.unpack_from(f"{order}HH", content, 58)
    sections = [
        struct.unpack_from(f"{order}IIQQQQIIQQ", content, table + index * size) for index in range(count)
    ]
    names: set[str] = set()
    # A library has one such table; with many, looking at each would take hours.
    symbols = next((section for section in sections if section[1] == _DYNSYM), None)
    if symbols is not None:
        offset, length, strings = symbols[4], symbols[5], sections[symbols[6]]
        for index in range(min(length // 24, _MOST_SYMBOLS)):
            name, _, _, home = struct.unpack_from(f"{order}IBBH", content, offset + index * 24)
            if home and name:
                names.add(_text(content, strings[4] + name))
    return names


def _text(content: mmap.mmap, start: int) -> str:
    end = content.find(b"\0", start, start + 256)
    return content[start:end].decode("ascii", "replace") if end > start else ""
