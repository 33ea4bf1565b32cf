"""Doctor's look at plugins: what it finds, with a way out for each thing, and without running any of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fairlead.plugins import diagnosis
from fairlead.plugins.diagnosis import diagnose
from fairlead.plugins.fences import Fence
from fairlead.plugins.finding import build
from fairlead.plugins.layout import Layout
from fairlead.plugins.quarantine import Quarantine
from fairlead.project.doctor import doctor_project
from fairlead.project.init import init_project
from plugins.installed_kit import ID, compiled_loader, install_from, own_helpers


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    install_from(compiled_loader(tmp_path / "project", tools=["work"]))
    return Layout.of()


def folder(layout: Layout) -> Path:
    return layout.version_folder(ID, "1.0.0")


def codes(layout: Layout) -> list[str]:
    found = diagnose(layout, ID)
    assert all(each.way_out for each in found if each.level == "warning")
    return [each.code for each in found]


def test_a_plugin_as_it_was_installed_is_well(layout: Layout) -> None:
    assert codes(layout) == ["PLUGIN_WELL"]


def test_a_look_runs_nothing_of_a_plugin(layout: Layout) -> None:
    before = own_helpers()
    diagnose(layout)
    assert own_helpers() == before


def test_a_broken_link_is_found(layout: Layout) -> None:
    (layout.home(ID) / "current").unlink()
    os.symlink("9.9.9", layout.home(ID) / "current")
    assert codes(layout) == ["PLUGIN_LINK_BROKEN"]


def test_a_plugin_without_a_version_is_found(layout: Layout) -> None:
    (layout.root / "test.bare" / "latest").mkdir(parents=True)
    assert [each.code for each in diagnose(layout, "test.bare")] == ["PLUGIN_NO_VERSION"]


def test_a_missing_receipt_is_found(layout: Layout) -> None:
    (folder(layout) / "receipt.json").unlink()
    assert codes(layout) == ["PLUGIN_RECEIPT"]


def test_a_changed_library_is_found(layout: Layout) -> None:
    with open(folder(layout) / "loader.so", "ab") as file:
        file.write(b"x")
    assert codes(layout) == ["PLUGIN_RECEIPT"]


def test_a_missing_consent_is_found(layout: Layout) -> None:
    (folder(layout) / ".user_consent").unlink()
    assert codes(layout) == ["PLUGIN_CONSENT"]


def test_a_library_for_another_machine_is_found(layout: Layout) -> None:
    library = folder(layout) / "loader.so"
    content = bytearray(library.read_bytes())
    content[18:20] = (183 if content[18] != 183 else 62).to_bytes(2, "little")
    library.write_bytes(content)
    assert codes(layout) == ["PLUGIN_LIBRARY", "PLUGIN_RECEIPT"]


def test_a_missing_library_is_found(layout: Layout) -> None:
    (folder(layout) / "loader.so").unlink()
    assert codes(layout)[0] == "PLUGIN_LIBRARY"


@pytest.mark.parametrize("manifest", [None, "{}", '{"plugin_id": "other", "capabilities": {}}'])
def test_a_manifest_that_does_not_fit_is_found(layout: Layout, manifest: str | None) -> None:
    (folder(layout) / "manifest.json").unlink()
    if manifest is not None:
        (folder(layout) / "manifest.json").write_text(manifest)
    assert codes(layout)[-1] == "PLUGIN_MANIFEST"


def test_a_plugin_in_quarantine_is_found(layout: Layout) -> None:
    Quarantine(layout.root, build()).put(ID, "1.0.0", "It fell.")
    [found] = diagnose(layout, ID)
    assert found.code == "PLUGIN_QUARANTINED"
    assert "retry" in (found.way_out or "")


def test_a_damaged_quarantine_is_found(layout: Layout) -> None:
    (layout.root / ".quarantine").write_text("{")
    assert "PLUGIN_QUARANTINE_DAMAGED" in [each.code for each in diagnose(layout)]


def test_a_folder_that_others_can_write_to_is_found(layout: Layout) -> None:
    layout.root.chmod(0o777)
    assert "PLUGIN_FOLDER_OPEN" in [each.code for each in diagnose(layout)]


def test_a_folder_that_no_plugin_can_have_is_found(layout: Layout) -> None:
    (layout.root / "a b").mkdir()
    assert "PLUGIN_FOLDER_STRANGE" in [each.code for each in diagnose(layout)]


def test_a_machine_without_a_fence_is_told_of(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "fence_here", lambda: Fence("limits", 0, True))
    fence = diagnose(layout)[0]
    assert (fence.code, fence.level) == ("PLUGIN_FENCE", "warning")
    assert fence.way_out


def test_a_machine_that_cannot_encrypt_databases_is_told_of(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "find_spec", lambda name: None)
    assert "PLUGIN_DATABASE_PLAIN" in [each.code for each in diagnose(layout)]


def test_a_machine_that_lacks_what_runs_plugins_is_told_of(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "find_spec", lambda name: None)
    [missing] = [each for each in diagnose(layout) if each.code == "PLUGIN_PACKAGE_MISSING"]
    assert missing.way_out == "pip install 'fairlead[plugins]'"


def project_codes(report: dict[str, Any]) -> list[str]:
    return [check["code"] for check in report["checks"] if check["code"].startswith("PLUGIN_")]


def test_the_project_s_doctor_looks_at_plugins_too(layout: Layout, tmp_path: Path) -> None:
    init_project(tmp_path / "app", name="tea-notes")
    report = doctor_project(tmp_path / "app")
    assert project_codes(report) == ["PLUGIN_FENCE", "PLUGIN_WELL"]
    (folder(layout) / ".user_consent").unlink()
    report = doctor_project(tmp_path / "app")
    assert not report["ok"]
    assert "PLUGIN_CONSENT" in project_codes(report)
    json.dumps(report)


def test_a_project_without_plugins_hears_nothing_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "none"))
    init_project(tmp_path / "app", name="tea-notes")
    assert project_codes(doctor_project(tmp_path / "app")) == []
