"""Which fence this machine can put around a plugin's process, and what is shown inside it.

Landlock and seccomp where the kernel has them, bubblewrap in place of Landlock where it does not, and limits on
resources in any case. The fence itself is put up inside, by `confinement.py`.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from fairlead.plugins import confinement

Kind = Literal["landlock", "bubblewrap", "limits"]

#: What of the system a plugin can read: libraries, and what they need to know of the machine. No homes, no keys.
_SYSTEM: Final = """
    /usr /lib /lib32 /lib64 /libx32 /bin /sbin /nix/store
    /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/alternatives /etc/localtime /etc/timezone
    /etc/locale.alias /etc/locale.conf /etc/os-release /etc/nsswitch.conf /etc/mime.types /etc/gai.conf
    /proc/self /proc/cpuinfo /proc/meminfo /proc/stat /proc/sys/vm/overcommit_memory /sys/devices/system/cpu
    /sys/kernel/mm/transparent_hugepage/hpage_pmd_size /dev/zero /dev/random /dev/urandom /dev/full
""".split()  # noqa: SIM905  # a table reads better than a list of strings
#: What is needed to reach other machines, where that was granted.
_FOR_NETWORK: Final = """
    /etc/resolv.conf /etc/hosts /etc/host.conf /etc/services /etc/protocols /etc/ssl/certs /etc/ssl/openssl.cnf
    /etc/ssl/cert.pem /etc/pki/tls/certs /etc/pki/ca-trust /etc/ca-certificates /run/systemd/resolve
""".split()  # noqa: SIM905
_ALWAYS_WRITABLE: Final = ("/dev/null",)


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence that this machine can put up."""

    kind: Kind
    landlock: int
    seccomp: bool

    def sentence(self) -> str:
        """What it holds, for a person."""
        filtered = "" if self.seccomp else " System calls cannot be filtered here."
        if self.kind == "landlock":
            return f"Plugins are fenced by Landlock {self.landlock} and limits on resources.{filtered}"
        if self.kind == "bubblewrap":
            return f"Plugins are fenced by bubblewrap and limits on resources.{filtered}"
        return (
            "Plugins are held by limits on resources only: this machine has neither Landlock nor bubblewrap."
            f" A kernel from 5.13 on has the one, `apt-get install bubblewrap` the other.{filtered}"
        )


@cache
def fence_here() -> Fence:
    """The best fence of this machine, found out once."""
    landlock, seccomp = confinement.landlock_version(), confinement.seccomp_here()
    if landlock:
        return Fence("landlock", landlock, seccomp)
    from fairlead.tools.bubblewrap import bubblewrap

    return Fence("limits" if isinstance(bubblewrap(), str) else "bubblewrap", 0, seccomp)


def readable(folder: Path, allowed: frozenset[str]) -> list[str]:
    """What a plugin with these files can read."""
    python = [os.path.dirname(os.__file__), os.path.join(sys.base_prefix, "lib")]
    own = [str(folder), *python, os.path.dirname(__file__)]
    network = _FOR_NETWORK if confinement.NETWORK in allowed else []
    return [*_SYSTEM, *network, *own]


def writable(scratch: Path) -> list[str]:
    """What a plugin can write to."""
    return [*_ALWAYS_WRITABLE, str(scratch)]


def environment(scratch: Path) -> dict[str, str]:
    """All that a plugin sees of our environment: the language, the time zone, and a folder of its own."""
    kept = {
        name: value for name, value in os.environ.items() if name in ("LANG", "TZ") or name.startswith("LC_")
    }
    own = str(scratch)
    return {**kept, "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": own, "TMPDIR": own}


def command(
    control: int, kind: Kind, folder: Path, scratch: Path, allowed: frozenset[str]
) -> tuple[str, ...]:
    """The arguments that start the helper."""
    here = os.path.dirname(__file__)
    python = getattr(sys, "_base_executable", None) or sys.executable
    program = f"import sys; sys.path.append({here!r}); import helper; helper.main()"
    argv = (python, "-I", "-S", "-c", program, str(control))
    if kind != "bubblewrap":
        return argv
    from fairlead.tools.bubblewrap import bubblewrap

    found = bubblewrap()
    assert not isinstance(found, str)
    shown = [Path(each) for each in (sys.base_prefix, os.path.dirname(os.__file__), here, folder)]
    network = confinement.NETWORK in allowed
    return found.wrap(argv, root=scratch, cwd=scratch, tmp=scratch, network=network, readable=shown)
