"""A plugin on disk, looked at without running it: is it whole, agreed to, and able to run here?

What is wrong is told with a word for programs, a sentence, and a way out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from fairlead.failures import Failure, Kind
from fairlead.plugins.compatibility import check_compatible
from fairlead.plugins.consent import consented
from fairlead.plugins.layout import MANIFEST, PYTHON, Layout, libraries, write_durably
from fairlead.plugins.library import ENTRIES, facts, this_machine
from fairlead.plugins.manifest import Manifest, check_id, decode, shadowed_routes
from fairlead.plugins.quarantine import Quarantine, Row
from fairlead.plugins.receipts import RECEIPT, Seal, verify

#: Changed whenever something is installed, removed or to be reloaded, so that running programs look.
CHANGED: Final = ".changed"
RELOAD: Final = ".reload"

_INSTALL_AGAIN: Final = "Install it again: fairlead plugin install PATH"
_ASK_THE_AUTHOR: Final = "Ask its author for a version that is mended."


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin on disk, checked as far as that goes without running it."""

    id: str
    version: str | None
    folder: Path
    library: Path
    manifest: Manifest
    #: What the person who installed it agreed to, beside what the manifest names.
    grants: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Failed:
    """A plugin that is not loaded: why, in a word and in a sentence, and what would help."""

    id: str
    version: str | None
    reason: str
    message: str
    way_out: str
    #: What it says of itself, where that could be read.
    manifest: Manifest | None = None

    def describe(self) -> dict[str, Any]:
        """The same as JSON."""
        known = {} if self.manifest is None else _named(self.manifest)
        return known | {
            "id": self.id,
            "version": self.version,
            "state": "failed",
            "reason": self.reason,
            "message": self.message,
            "wayOut": self.way_out,
        }


class NotLoaded(Failure):
    """A plugin cannot be loaded; `reason` is a word for programs, `way_out` what a person can do."""

    def __init__(
        self, kind: Kind, reason: str, message: str, way_out: str, manifest: Manifest | None = None
    ) -> None:
        super().__init__(kind, message, retryable=False, details={"reason": reason, "wayOut": way_out})
        self.reason = reason
        self.way_out = way_out
        self.manifest = manifest


def _named(manifest: Manifest) -> dict[str, Any]:
    return {"name": manifest.name, "description": manifest.description}


def failed_of(id: str, version: str | None, failure: Failure) -> Failed:
    """What is told of a plugin that was not loaded because of this."""
    if isinstance(failure, NotLoaded):
        return Failed(id, version, failure.reason, failure.message, failure.way_out, failure.manifest)
    way_out = (
        "`fairlead plugin doctor` looks closer; `fairlead plugin test LIB` tries a library that you build."
    )
    return Failed(id, version, "load_failed", failure.message, way_out)


def find(layout: Layout, id: str, quarantine: Quarantine, seal: Seal) -> Found:
    """An installed plugin that may be loaded. Raises NotLoaded."""
    with _reason("not_installed", "`fairlead plugin list` shows what is installed."):
        version = layout.current(check_id(id))
    if version is None:
        raise NotLoaded(Kind.not_found, "not_installed", f"The plugin {id!r} has no version.", _INSTALL_AGAIN)
    folder = layout.version_folder(id, version)
    row = quarantine.holding(id, version)
    if row is not None:
        raise in_quarantine(row, _known_manifest(folder))
    if not libraries(folder):
        raise NotLoaded(
            Kind.not_found, "no_library", f"There is no library in {str(folder)!r}.", _INSTALL_AGAIN
        )
    with _reason("receipt_invalid", _INSTALL_AGAIN):
        receipt = verify(folder, id, version, seal)
    manifest = read_manifest(folder)
    with _reason("consent_required", _INSTALL_AGAIN, manifest):
        grants = consented(folder, receipt, seal)
    check(manifest, id)
    return Found(id, version, folder, folder / receipt.library, manifest, grants)


def recheck(found: Found, seal: Seal) -> None:
    """Look again, before it is run, whether it is still what was found. Raises NotLoaded."""
    assert found.version is not None
    with _reason("receipt_invalid", _INSTALL_AGAIN, found.manifest):
        receipt = verify(found.folder, found.id, found.version, seal)
    with _reason("consent_required", _INSTALL_AGAIN, found.manifest):
        consented(found.folder, receipt, seal)


def read_manifest(folder: Path) -> Manifest:
    """The manifest that was kept when the plugin was installed or built. Raises NotLoaded."""
    try:
        content = (folder / MANIFEST).read_bytes()
    except OSError as exc:
        message = f"The manifest in {str(folder)!r} cannot be read: {exc.strerror}."
        raise NotLoaded(Kind.not_found, "manifest_invalid", message, _INSTALL_AGAIN) from exc
    with _reason("manifest_invalid", _ASK_THE_AUTHOR):
        return decode(content)


def extracted(text: str) -> Manifest:
    """The manifest that a library gave. Raises NotLoaded."""
    with _reason("manifest_invalid", _ASK_THE_AUTHOR):
        return decode(text)


def check(manifest: Manifest, id: str) -> None:
    """What has to hold between a manifest, its folder and this host. Raises NotLoaded."""
    if manifest.plugin_id != id:
        raise NotLoaded(
            Kind.conflict,
            "id_mismatch",
            f"The plugin in the folder {id!r} says that it is {manifest.plugin_id[:80]!r}.",
            _INSTALL_AGAIN,
            manifest,
        )
    with _reason("manifest_invalid", _ASK_THE_AUTHOR, manifest):
        check_id(id)
    with _reason("incompatible", "Install a version that asks for less, or a newer Fairlead.", manifest):
        check_compatible(manifest)
    if shadowed := shadowed_routes(manifest):
        assert manifest.web is not None
        paths = ", ".join(repr(route.path) for route in shadowed)
        raise NotLoaded(
            Kind.conflict,
            "route_overlap",
            f"Nobody could reach the routes {paths}: they are at or below the web mount {manifest.web.mount!r}.",
            _ASK_THE_AUTHOR,
            manifest,
        )


def chosen_library(folder: Path, shown: str | None = None) -> Path:
    """The library in a folder that is a plugin; others beside it may be what it needs. Raises NotLoaded.

    `shown` is what the folder is called in messages.
    """
    name = shown or str(folder)
    found = libraries(folder)
    if not found:
        message = f"There is no library (.so) and no {PYTHON} in {name!r}."
        raise NotLoaded(Kind.not_found, "no_library", message, "Build it first: fairlead plugin build")
    problems = []
    plugins = []
    for path in found:
        trouble = unfit(path)
        if trouble is None:
            plugins.append(path)
        else:
            problems.append(f"{path.relative_to(folder)}: {trouble}")
    if len(plugins) == 1:
        return plugins[0]
    if plugins:
        names = ", ".join(str(path.relative_to(folder)) for path in plugins)
        message = f"{name!r} has more than one plugin: {names}."
        raise NotLoaded(Kind.conflict, "several_libraries", message, "Give each its own folder.")
    raise NotLoaded(
        Kind.unsupported,
        "bad_library",
        f"No library in {name!r} is a plugin that can run here. {'; '.join(problems)}.",
        _ASK_THE_AUTHOR,
    )


def fit(library: Path) -> Path:
    """The library, if it can be a plugin here. Raises NotLoaded."""
    trouble = unfit(library)
    if trouble is not None:
        message = f"{library.name!r} is not a plugin that can run here: {trouble}."
        raise NotLoaded(Kind.unsupported, "bad_library", message, _ASK_THE_AUTHOR)
    return library


def unfit(library: Path) -> str | None:
    """Why a library cannot be a plugin here, or None; nothing of it is run."""
    if library.name == PYTHON or library.suffix == ".dylib":
        return None
    try:
        about = facts(library)
    except (OSError, ValueError) as exc:
        return str(exc)
    if not about.native:
        return f"it is made for {about.machine}, and this machine is {this_machine()}"
    if not about.entries:
        return f"it defines neither {ENTRIES[0]} nor {ENTRIES[1]}"
    return None


def in_quarantine(row: Row, manifest: Manifest | None = None) -> NotLoaded:
    """The failure of a plugin that is not started because of what it did before."""
    why = row.reason or "It brought its host down while it was loaded."
    message = f"The plugin {row.id!r} is in quarantine. {why}"
    return NotLoaded(Kind.unavailable, "quarantined", message, way_out_of_quarantine(row.id), manifest)


def way_out_of_quarantine(id: str) -> str:
    """What a person can do about a plugin that fell."""
    return f"Install a version that is mended, or let it try once more: fairlead plugin retry {id}"


def stamp(layout: Layout, id: str) -> object:
    """Another value when another version is in use, or the plugin is to be loaded again."""
    version = layout.current(id)
    if version is None:
        return None
    receipt = layout.version_folder(id, version) / RECEIPT
    return version, _mtime(receipt), _mtime(layout.home(id) / RELOAD)


def announce(layout: Layout, id: str | None = None) -> None:
    """Tell running programs that something has changed; with an id, that this plugin is to be loaded again."""
    if id is not None:
        write_durably(layout.home(id) / RELOAD, "")
    if layout.root.is_dir():
        write_durably(layout.root / CHANGED, "")


def touched(layout: Layout) -> object:
    """Another value after each change that was told."""
    return _mtime(layout.root / CHANGED)


@cache
def build() -> str:
    """The build of this host, with which plugins in quarantine are stamped."""
    from importlib.metadata import version

    return f"fairlead {version('fairlead')}"


def _known_manifest(folder: Path) -> Manifest | None:
    with contextlib.suppress(Failure):
        return read_manifest(folder)
    return None


def _mtime(path: Path) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


@contextlib.contextmanager
def _reason(reason: str, way_out: str, manifest: Manifest | None = None) -> Iterator[None]:
    try:
        yield
    except NotLoaded:
        raise
    except Failure as failure:
        raise NotLoaded(failure.kind, reason, failure.message, way_out, manifest) from failure
