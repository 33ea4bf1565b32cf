"""Receipts and consent: what was installed is still that, and a person agreed to it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fairlead.failures import Failure
from fairlead.plugins.consent import consented, give_consent, wants
from fairlead.plugins.manifest import Manifest, Route, Secret, Tool, Web
from fairlead.plugins.receipts import KEY, Receipt, Seal, digests, verify, write_receipt

NOW = "2026-11-16T10:00:00Z"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "a" / "1.0.0"
    (place / "web").mkdir(parents=True)
    (place / "a.so").write_bytes(b"library")
    (place / "web" / "index.html").write_text("<p>hi")
    return place


@pytest.fixture
def seal(tmp_path: Path) -> Seal:
    return Seal(tmp_path)


def received(folder: Path, seal: Seal) -> Receipt:
    files = digests(folder)
    receipt = Receipt("a", "1.0.0", "a.so", files["a.so"], files, NOW, "here")
    write_receipt(folder, receipt, seal)
    return receipt


def test_a_receipt_holds_for_what_was_installed(folder: Path, seal: Seal) -> None:
    receipt = received(folder, seal)
    assert verify(folder, "a", "1.0.0", seal) == receipt
    assert json.loads((folder / "receipt.json").read_text())["dylib_sha256"] == receipt.dylib_sha256


def test_the_key_of_the_seal_is_its_owner_s_alone(folder: Path, seal: Seal, tmp_path: Path) -> None:
    received(folder, seal)
    assert (tmp_path / KEY).stat().st_mode & 0o777 == 0o600


def test_a_missing_receipt_is_refused(folder: Path, seal: Seal) -> None:
    with pytest.raises(Failure, match="no receipt"):
        verify(folder, "a", "1.0.0", seal)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"plugin_id": 1}', "\xff"])
def test_a_receipt_that_cannot_be_read_is_refused(folder: Path, seal: Seal, content: str) -> None:
    (folder / "receipt.json").write_text(content, "latin-1")
    with pytest.raises(Failure):
        verify(folder, "a", "1.0.0", seal)


def test_a_changed_library_is_refused(folder: Path, seal: Seal) -> None:
    received(folder, seal)
    (folder / "a.so").write_bytes(b"another")
    with pytest.raises(Failure, match=r"a\.so"):
        verify(folder, "a", "1.0.0", seal)


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_any_changed_file_is_refused(folder: Path, seal: Seal, change: str) -> None:
    received(folder, seal)
    page = folder / "web" / "index.html"
    if change == "changed":
        page.write_text("x")
    elif change == "added":
        (folder / "b.so").touch()
    else:
        page.unlink()
    with pytest.raises(Failure, match="changed"):
        verify(folder, "a", "1.0.0", seal)


@pytest.mark.parametrize("name", [".x.py", ".x/y.so", "web/.user_consent", ".user_consent/y.py"])
def test_no_file_can_be_added_that_nobody_counts(folder: Path, seal: Seal, name: str) -> None:
    received(folder, seal)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).touch()
    with pytest.raises(Failure, match="changed"):
        verify(folder, "a", "1.0.0", seal)


@pytest.mark.parametrize("target", ["a.so", "web", "/usr", "/etc/hostname", "nowhere", None])
def test_no_link_or_pipe_can_be_added(folder: Path, seal: Seal, target: str | None) -> None:
    received(folder, seal)
    if target is None:
        os.mkfifo(folder / "colorsys.py")
    else:
        (folder / "colorsys.py").symlink_to(target)
    with pytest.raises(Failure, match="changed"):
        verify(folder, "a", "1.0.0", seal)


def test_a_file_that_becomes_a_link_to_what_it_was_is_refused(folder: Path, seal: Seal) -> None:
    page = folder / "web" / "index.html"
    received(folder, seal)
    page.rename(folder.parent / "index.html")
    page.symlink_to(folder.parent / "index.html")
    with pytest.raises(Failure, match="changed"):
        verify(folder, "a", "1.0.0", seal)


def test_hidden_files_that_were_installed_are_counted(folder: Path, seal: Seal) -> None:
    hidden = folder / "web" / ".well-known"
    hidden.write_text("known")
    receipt = received(folder, seal)
    give_consent(folder, receipt, [], seal, NOW)
    assert verify(folder, "a", "1.0.0", seal) == receipt
    hidden.write_text("changed")
    with pytest.raises(Failure, match="well-known"):
        verify(folder, "a", "1.0.0", seal)


def test_a_receipt_that_was_rewritten_with_the_library_is_refused(folder: Path, seal: Seal) -> None:
    received(folder, seal)
    (folder / "a.so").write_bytes(b"malice")
    told = json.loads((folder / "receipt.json").read_text())
    told["files"] = digests(folder)
    told["dylib_sha256"] = told["files"]["a.so"]
    (folder / "receipt.json").write_text(json.dumps(told))
    with pytest.raises(Failure, match="not written by this host"):
        verify(folder, "a", "1.0.0", seal)


def test_a_receipt_of_another_host_is_refused(folder: Path, tmp_path: Path, seal: Seal) -> None:
    (tmp_path / "elsewhere").mkdir()
    received(folder, Seal(tmp_path / "elsewhere"))
    with pytest.raises(Failure, match="not written by this host"):
        verify(folder, "a", "1.0.0", seal)


@pytest.mark.parametrize(("id", "version"), [("b", "1.0.0"), ("a", "2.0.0")])
def test_a_receipt_of_another_plugin_or_version_is_refused(
    folder: Path, seal: Seal, id: str, version: str
) -> None:
    received(folder, seal)
    with pytest.raises(Failure, match="is one of"):
        verify(folder, id, version, seal)


def test_consent_holds_with_what_was_granted(folder: Path, seal: Seal) -> None:
    receipt = received(folder, seal)
    give_consent(folder, receipt, ["network"], seal, NOW)
    assert consented(folder, receipt, seal) == {"network"}


def test_without_consent_it_is_consent_required(folder: Path, seal: Seal) -> None:
    receipt = received(folder, seal)
    with pytest.raises(Failure) as caught:
        consented(folder, receipt, seal)
    assert caught.value.code == "consent_required"
    assert caught.value.message.startswith("consent_required:")


def test_consent_is_for_one_library_only(folder: Path, seal: Seal) -> None:
    give_consent(folder, received(folder, seal), [], seal, NOW)
    (folder / "a.so").write_bytes(b"another")
    with pytest.raises(Failure, match="other files"):
        consented(folder, received(folder, seal), seal)


def test_nobody_can_widen_a_consent_by_hand(folder: Path, seal: Seal) -> None:
    receipt = received(folder, seal)
    give_consent(folder, receipt, [], seal, NOW)
    told = json.loads((folder / ".user_consent").read_text()) | {"grants": ["network"]}
    (folder / ".user_consent").write_text(json.dumps(told))
    with pytest.raises(Failure):
        consented(folder, receipt, seal)


def test_a_consent_that_is_an_empty_file_is_none(folder: Path, seal: Seal) -> None:
    (folder / ".user_consent").touch()
    with pytest.raises(Failure):
        consented(folder, received(folder, seal), seal)


def test_what_a_plugin_wants_is_told_before_anybody_agrees() -> None:
    manifest = Manifest(
        "a",
        instructions="x",
        secrets=(Secret("token", "Token", True),),
        tools=(Tool("t", "d", permission_policy="auto"),),
        routes=(Route("r", "/hook", ("POST",), "none"),),
        web=Web("web", "i", "/ui", "owner"),
        artifact_handler=True,
    )
    found = wants(manifest, ["network"])
    assert [want.kind for want in found] == [
        "tool", "route", "web", "secret", "artifacts", "instructions", "host", "network",
    ]  # fmt: skip
    assert {want.kind for want in found if want.risky} == {
        "tool",
        "route",
        "artifacts",
        "instructions",
        "network",
    }
