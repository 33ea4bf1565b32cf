"""Whether a plugin can run here: the versions that its manifest asks for, against those that this host speaks for."""

from __future__ import annotations

import logging
import platform
import re
from typing import Final, NamedTuple

from fairlead.failures import Failure, Kind
from fairlead.plugins.manifest import Manifest

#: The product version that `min_osaurus` is compared with. We implement version 6 of the host API, so we speak for
#: the first product of that number; a plugin that asks for a later one asks for what we do not have.
HOST_VERSION: Final = "6.0.0"

_STRICT: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)
_LENIENT: Final = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:\.\d+)*(?:[-+].*)?", re.ASCII)
#: So long a number is no version.
_LONGEST: Final = 100

log = logging.getLogger("fairlead.plugins")


class Version(NamedTuple):
    """A semantic version; they sort by precedence, a pre-release before its release."""

    major: int
    minor: int
    patch: int
    #: 1 for a release, which stands above all its pre-releases.
    released: int = 1
    stage: tuple[tuple[int, int, str], ...] = ()


def semver(text: str) -> Version | None:
    """`1.2.3` or `1.2.3-beta.1` as a version; None where it is neither."""
    found = _STRICT.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return None
    numbers = (int(found[1]), int(found[2]), int(found[3]))
    return Version(*numbers) if found[4] is None else Version(*numbers, 0, _stage(found[4]))


def lenient(text: str) -> Version | None:
    """`1`, `1.0` and `1.0.0-beta` as `1.0.0`; None where there is no number."""
    found = _LENIENT.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    return None if found is None else Version(int(found[1]), int(found[2] or 0), int(found[3] or 0))


def _stage(text: str) -> tuple[tuple[int, int, str], ...]:
    """Numbers come before words, and are compared as numbers."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in text.split("."))


def check_compatible(
    manifest: Manifest, *, host: str | None = HOST_VERSION, macos: str | None = None
) -> None:
    """Raises Failure when the plugin needs a newer host, or a newer system. What cannot be read is let pass."""
    for product, wanted, found, read in (
        ("osaurus", manifest.min_osaurus, host, semver),
        ("macOS", manifest.min_macos, macos or platform.mac_ver()[0] or None, lenient),
    ):
        if wanted is None or not wanted.strip():
            continue
        least = read(wanted.strip())
        present = None if found is None else lenient(found)
        if least is None or present is None:
            _pass(manifest.plugin_id, product, wanted, found)
        elif present < least:
            raise Failure(
                Kind.unsupported,
                f"The plugin {manifest.plugin_id!r} needs {product} {wanted.strip()[:40]} or newer; this host speaks "
                f"for {found}. Install a version of the plugin that asks for less, or a newer Fairlead.",
            )


def _pass(id: str, product: str, wanted: str, found: str | None) -> None:
    if found is None:
        why = f"this system has no version of {product}"
    else:
        why = "one of the two is not a version that can be compared"
    log.warning("Plugin %r asks for %s %s; that is not checked: %s.", id, product, wanted.strip()[:40], why)
