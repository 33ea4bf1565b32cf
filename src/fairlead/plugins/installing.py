"""Installing, rolling back and removing plugins. Each is done whole or not at all, also when the power fails.

`prepared` unpacks a plugin and looks at it; `install` puts it in its place once somebody agreed. One that brings its
manifest along is not run before that; what it says of itself then has to be the same.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fairlead.failures import Failure, Kind
from fairlead.plugins.archives import is_archive, unpack
from fairlead.plugins.compatibility import semver
from fairlead.plugins.consent import GRANTS, Want, give_consent, wants
from fairlead.plugins.extracting import extract_now
from fairlead.plugins.finding import announce, build, check, chosen_library, extracted, read_manifest
from fairlead.plugins.layout import (
    LIBRARY_ENDINGS,
    MANIFEST,
    PYTHON,
    Layout,
    files_of,
    sync_folder,
    write_durably,
)
from fairlead.plugins.manifest import Manifest, check_id
from fairlead.plugins.quarantine import Quarantine
from fairlead.plugins.receipts import (
    CONSENT,
    RECEIPT,
    Receipt,
    Seal,
    digest,
    digests,
    read_receipt,
    verify,
    write_receipt,
)
from fairlead.store.folders import alone_in

#: What a plugin that names no version is installed as.
FIRST: Final = "0.0.0"
_STAGING: Final = ".staging-"
#: Folders of a project that are of no use once it is built.
_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules", "target"})
_LARGEST: Final = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Draft:
    """A plugin that could be installed."""

    layout: Layout
    folder: Path
    library: Path
    manifest: Manifest
    source: str
    grants: frozenset[str]
    #: Whether it brought its manifest along; otherwise it was run in its fence, to ask for it.
    described: bool

    @property
    def id(self) -> str:
        return self.manifest.plugin_id

    @property
    def version(self) -> str:
        return self.manifest.version or FIRST

    @property
    def wants(self) -> list[Want]:
        """What installing it agrees to."""
        return wants(self.manifest, self.grants)

    @property
    def replaces(self) -> str | None:
        """The version that is in use now."""
        return self.layout.current(self.id)


@contextlib.contextmanager
def prepared(
    source: Path, layout: Layout, *, grants: Collection[str] = (), sha256: str | None = None
) -> Iterator[Draft]:
    """A plugin from a folder, a library or an archive, copied to where nobody else changes it and looked at.

    Raises:
        Failure: it is not there, not what its digest says, not a plugin, or none that can run here.
    """
    for grant in grants:
        if grant not in GRANTS:
            raise Failure(Kind.invalid_input, f"There is no grant {grant!r}; there are {', '.join(GRANTS)}.")
    if not source.exists():
        raise Failure(Kind.not_found, f"There is no file or folder {str(source)!r}.")
    with contextlib.ExitStack() as stack:
        with _on_disk(layout):
            layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            _sweep(layout)
            staging = stack.enter_context(tempfile.TemporaryDirectory(prefix=_STAGING, dir=layout.root))
            folder = Path(staging, "plugin")
            folder.mkdir(mode=0o755)
            _gather(source, folder, sha256)
            draft = _looked_at(layout, _root_of(folder), str(source), frozenset(grants))
        yield draft


def install(draft: Draft) -> Receipt:
    """Install what was prepared, with the consent of a person, and make it the version in use. Raises Failure."""
    with _on_disk(draft.layout):
        return _install(draft)


def _install(draft: Draft) -> Receipt:
    layout, seal = draft.layout, Seal(draft.layout.root)
    version = draft.version
    if draft.described:
        _check_true(draft)
    home, place = layout.home(draft.id), layout.version_folder(draft.id, version)
    now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    library = draft.library.relative_to(draft.folder).as_posix()
    files = digests(draft.folder)
    receipt = Receipt(draft.id, version, library, files[library], files, now, draft.source)
    write_receipt(draft.folder, receipt, seal)
    give_consent(draft.folder, receipt, draft.grants, seal, now)
    _make_durable(draft.folder)
    home.mkdir(exist_ok=True, mode=0o700)
    layout.data(draft.id).mkdir(exist_ok=True, mode=0o700)
    mended = _library_digest(place) not in (None, receipt.dylib_sha256)
    with alone_in(home):
        old = _put(draft.folder, place)
        sync_folder(home)
        layout.point(draft.id, version)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
    if mended:
        # The same version with another library: what fell is not what is installed now.
        Quarantine(layout.root, build()).remove(draft.id)
    announce(layout, draft.id)
    return receipt


def roll_back(layout: Layout, id: str, version: str | None = None) -> tuple[str, str]:
    """Use an older version again, or the one that is named; gives the version before and now.

    Raises:
        Failure: there is no such version, or it is not as it was installed.
    """
    now, versions = installed_version(layout, id), layout.versions(id)
    if version is None:
        older = versions[versions.index(now) + 1 :] if now in versions else versions
        if not older:
            kept = ", ".join(versions)
            raise Failure(
                Kind.not_found,
                f"There is no version of {id!r} before {now}; installed are: {kept}. Name one: --version VERSION",
            )
        version = older[0]
    elif version not in versions:
        raise Failure(
            Kind.not_found,
            f"Version {version[:40]!r} of {id!r} is not installed; there are: {', '.join(versions)}.",
        )
    with _on_disk(layout):
        verify(layout.version_folder(id, version), id, version, Seal(layout.root))
        with alone_in(layout.home(id)):
            layout.point(id, version)
        announce(layout, id)
    return now, version


def uninstall(layout: Layout, id: str, *, version: str | None = None, keep_data: bool = False) -> list[str]:
    """Remove a plugin, or one version of it; gives the versions that are gone."""
    installed_version(layout, id)
    versions = layout.versions(id)
    home = layout.home(id)
    if version is not None and version not in versions:
        raise Failure(
            Kind.not_found,
            f"Version {version[:40]!r} of {id!r} is not installed; there are: {', '.join(versions)}.",
        )
    gone = versions if version is None else [version]
    with _on_disk(layout), alone_in(home):
        rest = [each for each in versions if each not in gone]
        if rest and layout.current(id) in gone:
            layout.point(id, rest[0])
        elif not rest:
            (home / "current").unlink(missing_ok=True)
        for each in gone:
            shutil.rmtree(_set_aside(layout.version_folder(id, each)) or "", ignore_errors=True)
        if not rest and not keep_data:
            # Under another name first: a plugin is there whole, or not at all.
            away = layout.root / f"{_STAGING}{os.urandom(4).hex()}"
            os.rename(home, away)
            shutil.rmtree(away, ignore_errors=True)
    Quarantine(layout.root, build()).remove(id)
    announce(layout)
    return gone


async def forget(app: Any, id: str) -> None:
    """Forget what an app's store has for a plugin that is gone: settings, a database's key, chats, and its log."""
    from fairlead.plugins import sessions
    from fairlead.plugins.config import Config
    from fairlead.plugins.services import Shared

    shared = Shared.of(app)
    await Config(id, app.store, shared.secrets, shared.warnings).forget_plugin()
    await sessions.forget(app.store, id, app.wall())
    await shared.insights.forget(id)


def installed_version(layout: Layout, id: str) -> str:
    """The version in use. Raises Failure when the plugin is not installed."""
    from fairlead.actions.policy import near_miss

    with contextlib.suppress(Failure):
        version = layout.current(check_id(id))
        if version is not None:
            return version
    hint = near_miss(id[:80], layout.ids())
    raise Failure(
        Kind.not_found, f"No plugin {id[:80]!r} is installed.{hint} `fairlead plugin list` shows what is."
    )


@contextlib.contextmanager
def _on_disk(layout: Layout) -> Iterator[None]:
    """What the disk refuses is told as a failure."""
    try:
        yield
    except OSError as exc:
        place = exc.filename or layout.root
        raise Failure(
            Kind.misconfigured,
            f"{os.fsdecode(place)!r} cannot be used: {exc.strerror or exc}. Nothing was changed. Check the folder's "
            "permissions and the room on the disk, or choose another with FAIRLEAD_DATA.",
            cause=exc,
        ) from exc


def _gather(source: Path, folder: Path, sha256: str | None) -> None:
    if source.is_dir():
        if sha256 is not None:
            raise Failure(
                Kind.invalid_input, "--sha256 is of a file; this is a folder. Give the archive instead."
            )
        _copy_tree(source, folder)
        return
    if sha256 is not None and digest(source) != sha256.strip().lower():
        raise Failure(
            Kind.forbidden,
            f"{source.name!r} is not the file that its SHA-256 says. Get it anew, and do not use this one.",
        )
    if is_archive(source):
        unpack(source, folder)
    elif source.name == PYTHON or source.suffix in LIBRARY_ENDINGS:
        shutil.copyfile(source, folder / source.name)
    else:
        raise Failure(
            Kind.invalid_input,
            f"{source.name!r} is no plugin. Expected a folder, a library (.so), or an archive (.zip, .tar.gz).",
        )


def _copy_tree(source: Path, folder: Path) -> None:
    """Plain files only: links and hidden files stay behind."""
    total = 0
    for path in files_of(source):
        inside = path.relative_to(source)
        if _LEFT_OUT.intersection(inside.parts):
            continue
        total += path.stat().st_size
        if total > _LARGEST:
            raise Failure(Kind.too_large, f"{str(source)!r} has more than {_LARGEST // 1024 // 1024} MiB.")
        place = folder / inside
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def _root_of(folder: Path) -> Path:
    """Archives often hold one folder with everything in it."""
    entries = list(folder.iterdir())
    if len(entries) == 1 and entries[0].is_dir() and not (folder / MANIFEST).exists():
        return entries[0]
    return folder


def _looked_at(layout: Layout, folder: Path, source: str, grants: frozenset[str]) -> Draft:
    # What came along says nothing about this host.
    for name in (RECEIPT, CONSENT):
        (folder / name).unlink(missing_ok=True)
    library = chosen_library(folder, source)
    described = (folder / MANIFEST).is_file()
    if described:
        manifest = read_manifest(folder)
    else:
        started = extract_now(library, folder)
        manifest = extracted(started.manifest)
        write_durably(folder / MANIFEST, started.manifest, 0o644)
    check(manifest, check_id(manifest.plugin_id))
    if manifest.version is not None and semver(manifest.version) is None:
        raise Failure(
            Kind.invalid_input,
            f"The plugin {manifest.plugin_id!r} has the version {manifest.version[:40]!r}; expected one like 1.0.3.",
        )
    return Draft(layout, folder, library, manifest, source, grants, described)


def _check_true(draft: Draft) -> None:
    """What the library says of itself is what the person was shown."""
    if extracted(extract_now(draft.library, draft.folder).manifest) != draft.manifest:
        raise Failure(
            Kind.conflict,
            f"The plugin {draft.id!r} was not installed: its library says something else of itself than the manifest "
            "that came with it. Build it again: fairlead plugin build",
        )


def _library_digest(folder: Path) -> str | None:
    with contextlib.suppress(Failure):
        return read_receipt(folder).dylib_sha256
    return None


def _put(folder: Path, place: Path) -> Path | None:
    """Put a version in its place; gives where the one is that was there."""
    if place.exists() and _exchanged(folder, place):
        return folder
    old = _set_aside(place)
    try:
        os.rename(folder, place)
    except BaseException:
        if old is not None:
            os.rename(old, place)
        raise
    return old


def _exchanged(one: Path, other: Path) -> bool:
    """Have two folders change places, so that there is one at any moment; whether this system can."""
    import ctypes

    try:
        exchange = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, exchanging = -100, 2
    return bool(exchange(here, os.fsencode(one), here, os.fsencode(other), exchanging) == 0)


def _set_aside(place: Path) -> Path | None:
    """Move a version that is in the way; running programs keep what they have open."""
    if not place.exists():
        return None
    aside = place.with_name(f".{place.name}.{os.urandom(4).hex()}")
    os.rename(place, aside)
    return aside


def _make_durable(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            with open(Path(place, name), "rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(place))


def _sweep(layout: Layout) -> None:
    """What an installation that was cut short left behind, once it is old enough to be nobody's."""
    for entry in layout.root.glob(f"{_STAGING}*"):
        with contextlib.suppress(OSError):
            if time.time() - entry.stat().st_mtime > 3600:
                shutil.rmtree(entry, ignore_errors=True)
