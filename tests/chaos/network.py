"""A network of this process's own: places with an address each, and lines between them that can be cut.

Each place is a network namespace. All lines meet in this process's, which passes packets on; what is cut there is
dropped without a word, as when a switch dies: nobody gets an RST, and a connection looks alive from both ends.
It needs root, and is to be used in namespaces that were unshared for it (`be_apart`).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_CLONE_NEWNS = 0x00020000
_MS_PRIVATE = 0x4000 | 1 << 18  # and all that is mounted below
_NAMES = Path("/run/netns")


def lacking() -> str | None:
    """Why there can be no such network here; None when there can."""
    try:
        subprocess.run(
            ["unshare", "--net", "--mount", "sh", "-c", f"{_ENTER} && ip netns add a && ip rule list"],
            check=True,
            capture_output=True,
            timeout=30,
        )
    except FileNotFoundError:
        return "it needs `unshare` and `ip`: apt-get install util-linux iproute2, on Linux"
    except subprocess.CalledProcessError as failed:
        words = failed.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return f"it needs root (CAP_SYS_ADMIN) for network namespaces and mounts: {' '.join(words)}"
    except subprocess.TimeoutExpired:
        return "network namespaces cannot be made in time"
    return None


#: Names of namespaces that nobody else sees, which go with this process.
_ENTER = f"mount -t tmpfs none /run && mkdir -p {_NAMES}"


def be_apart() -> None:
    """From now on, networks and mounts of this process are its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET | _CLONE_NEWNS) or libc.mount(b"none", b"/", None, _MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no networks and mounts of its own can be had")


class Place:
    """A machine: what is started there knows its network alone."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        # A namespace is a thread's, and so are the children that are to end with it: it stays to the end.
        self._thread = ThreadPoolExecutor(1, f"at-{name}", self._enter)

    def do(self, work: Callable[[], T]) -> T:
        """Do something there: what it starts and connects to."""
        return self._thread.submit(work).result()

    def close(self) -> None:
        self._thread.shutdown()

    def _enter(self) -> None:
        file = os.open(_NAMES / self.name, os.O_RDONLY)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"the namespace {self.name} cannot be entered")
        os.close(file)


class Network:
    """The places, by name, and the lines between them."""

    def __init__(self) -> None:
        subprocess.run(["sh", "-c", _ENTER], check=True)
        _ip("link", "set", "lo", "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self.places: dict[str, Place] = {}
        self._cuts: set[tuple[str, str]] = set()

    def add(self, name: str) -> Place:
        number = len(self.places) + 1
        here, there = f"10.9.{number}.1", f"10.9.{number}.2"
        _ip("netns", "add", name)
        _ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("addr", "add", f"{here}/30", "dev", f"to-{name}")
        _ip("link", "set", f"to-{name}", "up")
        _ip("-n", name, "addr", "add", f"{there}/30", "dev", "eth0")
        for device in ("eth0", "lo"):
            _ip("-n", name, "link", "set", device, "up")
        _ip("-n", name, "route", "add", "default", "via", here)
        place = self.places[name] = Place(name, there)
        return place

    def cut(self, one: str, other: str, ways: int = 2) -> None:
        """Drop what goes from `other` to `one`; by default, what goes the other way as well."""
        for pair in ((other, one), (one, other))[:ways]:
            if pair not in self._cuts:
                self._cuts.add(pair)
                _ip("rule", "add", *self._rule(pair))

    def heal(self, one: str, other: str) -> None:
        for pair in {(one, other), (other, one)} & self._cuts:
            self._cuts.discard(pair)
            _ip("rule", "del", *self._rule(pair))

    def close(self) -> None:
        for place in self.places.values():
            place.close()

    def _rule(self, pair: tuple[str, str]) -> list[str]:
        start, end = (self.places[name].address for name in pair)
        return ["from", start, "to", end, "blackhole"]


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
