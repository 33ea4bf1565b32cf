"""bubblewrap: a command that sees a read-only system, one folder it may write, and nothing else of the machine.

Inside there are new process, IPC, host-name, cgroup and (unless allowed) network namespaces, a private /tmp, no
capabilities, no way to gain privileges, and no further user namespaces where bubblewrap can forbid them. All of it
ends with the thread that started it. Whether that works here is found out by trying it, once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

#: What of the system is shown, read-only. Homes, /root, /var, /run and other people's files are not in it.
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
#: What of /etc programs need to run; keys, shadow files and other configuration stay outside.
_ETC: Final = """
    alternatives bash.bashrc ca-certificates crypto-policies debian_version dotnet fonts gai.conf group host.conf hosts
    java* ld.so.cache ld.so.conf ld.so.conf.d locale.alias locale.conf localtime magic mime.types nsswitch.conf
    os-release passwd perl pki/ca-trust pki/tls/certs profile protocols python3* resolv.conf services shells
    ssl/cert.pem ssl/certs ssl/openssl.cnf terminfo timezone
""".split()  # noqa: SIM905  # a table reads better than a list of strings
#: The strictest that works is used.
_VARIANTS: Final = (("--unshare-user", "--disable-userns"), ())


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A bubblewrap that was found to work here."""

    program: str
    variant: tuple[str, ...]

    def wrap(
        self,
        argv: Iterable[str],
        *,
        root: Path,
        cwd: Path,
        tmp: Path,
        network: bool = False,
        readable: Iterable[Path] = (),
    ) -> tuple[str, ...]:
        """The arguments that run `argv` inside."""
        return (
            self.program,
            *_basics(self.variant, network),
            *("--bind", str(tmp), "/tmp"),  # noqa: S108  # the private folder takes the place of the shared one
            *(part for path in readable for part in ("--ro-bind-try", str(path), str(path))),
            *("--bind", str(root), str(root)),
            *("--remount-ro", "/", "--chdir", str(cwd), "--", *argv),
        )


def bubblewrap() -> Bubblewrap | str:
    """The bubblewrap of this machine, or why there is none that works."""
    return _tried(shutil.which("bwrap"))


@cache
def _tried(program: str | None) -> Bubblewrap | str:
    if not sys.platform.startswith("linux"):
        return "commands can be confined on Linux only"
    if program is None:
        return "bubblewrap is not installed (on Debian: apt-get install bubblewrap)"
    said = ""
    for variant in _VARIANTS:
        said = _trouble([program, *_basics(variant, False), "--", "/bin/sh", "-c", ":"])
        if not said:
            return Bubblewrap(program, variant)
    return f"bubblewrap cannot make a confinement on this machine ({said})"


def _trouble(argv: list[str]) -> str:
    """What went wrong when this was run; nothing if it went well."""
    try:
        done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return type(exc).__name__
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {done.returncode}"


def _basics(variant: tuple[str, ...], network: bool) -> list[str]:
    sharing = ["--share-net"] if network else []
    return [
        *("--unshare-all", *sharing, *variant),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"),
        *_shown(_SYSTEM),
        *_shown(_etc()),
        *(("--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve") if network else ()),
        *("--proc", "/proc", "--dev", "/dev"),
    ]


def _etc() -> list[str]:
    etc = Path("/etc")
    return sorted(str(path) for pattern in _ETC for path in etc.glob(pattern))


def _shown(paths: Iterable[str]) -> list[str]:
    """Binds for those that exist; a link is made again as a link, so that it leads to the same place inside."""
    told: list[str] = []
    for path in paths:
        if os.path.islink(path) and not path.startswith("/etc/"):
            told += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            told += ["--ro-bind", path, path]
    return told
