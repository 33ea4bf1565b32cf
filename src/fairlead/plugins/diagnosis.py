"""A close look at installed plugins and at what this machine offers them. Nothing of a plugin is run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from fairlead.failures import Failure
from fairlead.plugins.consent import consented
from fairlead.plugins.fences import fence_here
from fairlead.plugins.finding import NotLoaded, build, check, find, in_quarantine, read_manifest, unfit
from fairlead.plugins.layout import CURRENT, Layout, libraries
from fairlead.plugins.quarantine import QUARANTINE, Quarantine
from fairlead.plugins.receipts import Seal, verify

Level = Literal["info", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; a warning has a way out."""

    level: Level
    code: str
    message: str
    way_out: str | None = None
    plugin: str | None = None

    def describe(self) -> dict[str, Any]:
        """The same as JSON."""
        told: dict[str, Any] = {"level": self.level, "code": self.code, "message": self.message}
        told |= {"plugin": self.plugin} if self.plugin else {}
        return told | ({"wayOut": self.way_out} if self.way_out else {})


def diagnose(layout: Layout, id: str | None = None) -> list[Finding]:
    """All findings about the machine and the plugins, or about one plugin."""
    ids = [id] if id is not None else [each for each in layout.ids() if layout.holds(each)]
    found = list(_machine(layout)) if id is None else []
    for each in ids:
        found += _plugin(layout, each)
    return found


def listed(layout: Layout) -> list[dict[str, Any]]:
    """What is installed, as it would be loaded: each with its state, failed ones with the reason and the way out."""
    quarantine, seal = Quarantine(layout.root, build()), Seal(layout.root)
    return [_listed(layout, id, quarantine, seal) for id in layout.ids() if layout.holds(id)]


def _listed(layout: Layout, id: str, quarantine: Quarantine, seal: Seal) -> dict[str, Any]:
    told: dict[str, Any] = {"id": id, "version": None, "state": "ready", "versions": []}
    try:
        told |= {"version": layout.current(id), "versions": layout.versions(id)}
        found = find(layout, id, quarantine, seal)
    except NotLoaded as failure:
        return told | {
            "state": "failed",
            "reason": failure.reason,
            "message": failure.message,
            "wayOut": failure.way_out,
        }
    manifest = found.manifest
    return told | {
        "name": manifest.name,
        "description": manifest.description,
        "tools": [tool.id for tool in manifest.tools],
        "routes": [route.id for route in manifest.routes],
        "grants": sorted(found.grants),
    }


def _machine(layout: Layout) -> Iterator[Finding]:
    fence = fence_here()
    level: Level = "info" if fence.kind != "limits" else "warning"
    way_out = None if level == "info" else "Use a newer kernel, or install bubblewrap."
    yield Finding(level, "PLUGIN_FENCE", fence.sentence(), way_out)
    if find_spec("jsonschema_rs") is None:
        yield Finding(
            "warning",
            "PLUGIN_PACKAGE_MISSING",
            "Plugins cannot be run here: jsonschema-rs is missing, which checks what their tools are given.",
            "pip install 'fairlead[plugins]'",
        )
    if find_spec("sqlcipher3") is None:
        yield Finding(
            "warning",
            "PLUGIN_DATABASE_PLAIN",
            "Plugins' databases cannot be encrypted here: sqlcipher3 is missing.",
            "pip install 'fairlead[plugins]'",
        )
    if Quarantine(layout.root, build()).damaged:
        path = layout.root / QUARANTINE
        yield Finding(
            "warning", "PLUGIN_QUARANTINE_DAMAGED", f"{path} cannot be read and is ignored.", f"rm {path}"
        )
    for name in layout.strangers():
        yield Finding(
            "warning",
            "PLUGIN_FOLDER_STRANGE",
            f"The folder {name[:80]!r} in {layout.root} cannot be one of a plugin, and is ignored.",
            "Move it elsewhere; `fairlead plugin install PATH` puts plugins there.",
        )
    if layout.root.is_dir() and os.name == "posix" and layout.root.stat().st_mode & 0o022:
        yield Finding(
            "warning",
            "PLUGIN_FOLDER_OPEN",
            f"Others on this machine can write to {layout.root}.",
            f"chmod 700 {layout.root}",
        )


def _plugin(layout: Layout, id: str) -> list[Finding]:
    found: list[Finding] = []

    def warn(code: str, message: str, way_out: str) -> None:
        found.append(Finding("warning", code, message, way_out, id))

    again = "Install it again: fairlead plugin install PATH"
    version = layout.current(id)
    if version is None:
        warn("PLUGIN_NO_VERSION", f"{id!r} has a folder, but no version in it.", again)
        return found
    if layout.pointed(id) != version:
        link = layout.home(id) / CURRENT
        warn(
            "PLUGIN_LINK_BROKEN",
            f"{link} does not name a version; the highest one, {version}, is used.",
            f"fairlead plugin rollback {id} --version {version}",
        )
    folder = layout.version_folder(id, version)
    row = Quarantine(layout.root, build()).holding(id, version)
    if row is not None:
        failure = in_quarantine(row)
        warn("PLUGIN_QUARANTINED", failure.message, failure.way_out)
    for library in _unfit(folder):
        warn("PLUGIN_LIBRARY", library, again)
    try:
        receipt = verify(folder, id, version, Seal(layout.root))
    except Failure as failure:
        warn("PLUGIN_RECEIPT", failure.message, again)
    else:
        try:
            consented(folder, receipt, Seal(layout.root))
        except Failure as failure:
            warn("PLUGIN_CONSENT", failure.message, again)
    try:
        check(read_manifest(folder), id)
    except NotLoaded as failure:
        warn("PLUGIN_MANIFEST", failure.message, failure.way_out)
    if not found:
        found.append(Finding("info", "PLUGIN_WELL", f"{id} {version} is as it was installed.", None, id))
    return found


def _unfit(folder: Path) -> list[str]:
    """What is wrong with the libraries of a version; those that are no plugins themselves may be what one needs."""
    paths = libraries(folder)
    if not paths:
        return [f"There is no library in {folder}."]
    faults = {path: unfit(path) for path in paths}
    if any(fault is None for fault in faults.values()):
        return []
    return [f"{path.name} is not a plugin that can run here: {fault}." for path, fault in faults.items()]
