"""Installing, rolling back and removing: from folders, libraries and archives; whole or not at all."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairlead.failures import Failure, Kind
from fairlead.plugins import archives, installing
from fairlead.plugins.building import build_plugin
from fairlead.plugins.consent import consented
from fairlead.plugins.finding import NotLoaded, build, find
from fairlead.plugins.installing import install, prepared, roll_back, uninstall
from fairlead.plugins.layout import Layout
from fairlead.plugins.quarantine import Quarantine
from fairlead.plugins.receipts import Seal, verify
from fairlead.project.plugins import create_plugin
from plugins.installed_kit import ID, compiled_loader, install_from, manifest


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "plugins")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A plugin's folder with a library, a page and what does not belong into it."""
    folder = compiled_loader(tmp_path / "project", tools=["work"]).parent
    (folder / "web").mkdir()
    (folder / "web" / "index.html").write_text("<p>hi")
    (folder / "README.md").write_text("# hi")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("secret")
    return folder


def zipped(folder: Path, to: Path, prefix: str = "") -> Path:
    with zipfile.ZipFile(to, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and ".git" not in path.parts:
                archive.write(path, prefix + path.relative_to(folder).as_posix())
    return to


def tarred(folder: Path, to: Path) -> Path:
    with tarfile.open(to, "w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and ".git" not in path.parts:
                archive.add(path, f"plugin/{path.relative_to(folder).as_posix()}")
    return to


def installed(layout: Layout) -> list[str]:
    folder = layout.version_folder(ID, "1.0.0")
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


WHOLE = [".user_consent", "README.md", "loader.so", "manifest.json", "receipt.json", "web/index.html"]


def ready(layout: Layout) -> None:
    find(layout, ID, Quarantine(layout.root, build()), Seal(layout.root))


def test_a_folder_is_installed_without_what_is_hidden(layout: Layout, project: Path) -> None:
    receipt = install_from(project, layout)
    assert installed(layout) == WHOLE
    assert (receipt.plugin_id, receipt.version, receipt.library) == (ID, "1.0.0", "loader.so")
    assert receipt.dylib_sha256 == hashlib.sha256((project / "loader.so").read_bytes()).hexdigest()
    assert layout.current(ID) == "1.0.0"
    assert os.readlink(layout.home(ID) / "current") == "1.0.0"
    ready(layout)


def test_a_library_alone_is_installed(layout: Layout, project: Path) -> None:
    install_from(project / "loader.so", layout)
    assert installed(layout) == [".user_consent", "loader.so", "manifest.json", "receipt.json"]
    ready(layout)


@pytest.mark.parametrize(
    "pack",
    [
        lambda folder, out: zipped(folder, out / "p.zip"),
        lambda folder, out: zipped(folder, out / "p.ZIP", "inner/"),
        lambda folder, out: tarred(folder, out / "p.tar.gz"),
        lambda folder, out: tarred(folder, out / "p.tgz"),
    ],
)
def test_an_archive_is_installed(
    layout: Layout, project: Path, tmp_path: Path, pack: Callable[[Path, Path], Path]
) -> None:
    install_from(pack(project, tmp_path), layout)
    assert installed(layout) == WHOLE
    ready(layout)


def test_a_receipt_or_consent_that_came_along_counts_for_nothing(
    layout: Layout, project: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(zipped(project, tmp_path / "p.zip"), "a") as archive:
        archive.writestr("receipt.json", json.dumps({"plugin_id": "forged"}))
        archive.writestr(".user_consent", "yes")
    with prepared(tmp_path / "p.zip", layout) as draft:
        assert not (draft.folder / "receipt.json").exists()
        assert not (draft.folder / ".user_consent").exists()


def test_nothing_is_installed_until_somebody_agrees(layout: Layout, project: Path) -> None:
    with prepared(project, layout) as draft:
        assert [want.kind for want in draft.wants] == ["tool", "host"]
        assert layout.ids() == []
    assert [path.name for path in layout.root.iterdir()] == []


def test_one_that_brings_its_manifest_is_not_run_before_somebody_agreed(
    layout: Layout, tmp_path: Path
) -> None:
    library = compiled_loader(tmp_path / "p", "-DFALLS_WHEN_OPENED", tools=["work"])
    (library.parent / "manifest.json").write_text(json.dumps(manifest(tools=["work"])))
    with prepared(library.parent, layout) as draft:
        assert [want.kind for want in draft.wants] == ["tool", "host"]
        with pytest.raises(Failure):
            install(draft)
    assert layout.ids() == []


def test_a_library_that_says_something_else_than_its_manifest_is_not_installed(
    layout: Layout, project: Path
) -> None:
    (project / "manifest.json").write_text(json.dumps(manifest(tools=[])))
    with pytest.raises(Failure, match="something else"):
        install_from(project, layout)
    assert layout.ids() == []


def test_what_was_granted_is_kept_with_the_consent(layout: Layout, project: Path) -> None:
    receipt = install_from(project, layout, grants=["network"])
    assert consented(layout.version_folder(ID, "1.0.0"), receipt, Seal(layout.root)) == {"network"}


def test_an_unknown_grant_is_refused(layout: Layout, project: Path) -> None:
    with pytest.raises(Failure, match="network"):
        install_from(project, layout, grants=["root"])


def test_a_download_is_checked_against_its_digest(layout: Layout, project: Path, tmp_path: Path) -> None:
    archive = zipped(project, tmp_path / "p.zip")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    with pytest.raises(Failure, match="SHA-256"):
        install_from(archive, layout, sha256="0" * 64)
    install_from(archive, layout, sha256=digest.upper())


def test_installing_the_same_version_again_replaces_it(layout: Layout, project: Path) -> None:
    install_from(project, layout)
    (project / "README.md").write_text("# new")
    install_from(project, layout)
    assert (layout.version_folder(ID, "1.0.0") / "README.md").read_text() == "# new"
    assert sorted(path.name for path in layout.home(ID).iterdir() if not path.name.startswith(".")) == [
        "1.0.0",
        "current",
        "data",
    ]
    ready(layout)


def test_the_same_version_with_another_library_leaves_quarantine_and_the_same_library_does_not(
    layout: Layout, project: Path
) -> None:
    install_from(project, layout)
    quarantine = Quarantine(layout.root, build())
    quarantine.put(ID, "1.0.0", "It fell.")
    install_from(project, layout)
    assert quarantine.find(ID) is not None
    compiled_loader(project, "-O2", tools=["work"])
    install_from(project, layout)
    assert quarantine.find(ID) is None


def test_an_update_keeps_the_older_version_and_the_data(
    layout: Layout, project: Path, tmp_path: Path
) -> None:
    install_from(project, layout)
    layout.database(ID).write_text("notes")
    install_from(compiled_loader(tmp_path / "new", version="1.1.0"), layout)
    assert (layout.current(ID), layout.versions(ID)) == ("1.1.0", ["1.1.0", "1.0.0"])
    assert layout.database(ID).read_text() == "notes"


def test_a_plugin_that_names_no_version_is_installed_as_the_first(layout: Layout, tmp_path: Path) -> None:
    install_from(compiled_loader(tmp_path / "p", version=None), layout)
    assert layout.current(ID) == "0.0.0"


@pytest.mark.parametrize("version", ["1", "1.0", "latest", "../1.0.0", "1.0.0/../../x"])
def test_a_version_that_is_none_is_refused(layout: Layout, tmp_path: Path, version: str) -> None:
    with pytest.raises(Failure, match=r"1\.0\.3"):
        install_from(compiled_loader(tmp_path / "p", version=version), layout)
    assert layout.ids() == []


@pytest.mark.parametrize("id", ["../evil", "a/b", "", ".hidden"])
def test_an_id_that_leads_elsewhere_is_refused(layout: Layout, tmp_path: Path, id: str) -> None:
    with pytest.raises(Failure):
        install_from(compiled_loader(tmp_path / "p", plugin_id=id), layout)
    assert layout.ids() == []


@pytest.mark.parametrize("option", ["-DFALLS_WHEN_OPENED", "-DFALLS_IN_INIT", "-DINIT_FAILS"])
def test_a_plugin_that_cannot_be_loaded_is_not_installed(layout: Layout, tmp_path: Path, option: str) -> None:
    with pytest.raises(Failure):
        install_from(compiled_loader(tmp_path / "p", option), layout)
    assert [path.name for path in layout.root.iterdir()] == []


def test_a_plugin_that_needs_a_newer_host_is_not_installed(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="osaurus"):
        install_from(compiled_loader(tmp_path / "p", min_osaurus="99.0.0"), layout)
    assert layout.ids() == []


@pytest.mark.parametrize("name", ["x.txt", "x.rar", "plugin"])
def test_a_file_that_is_no_plugin_is_refused(layout: Layout, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(Failure, match="no plugin"):
        install_from(tmp_path / name, layout)


def test_a_source_that_is_not_there_is_told_so(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="no file or folder"):
        install_from(tmp_path / "nowhere", layout)


# --- bad archives ---


def bad_zip(path: Path, name: str, content: bytes = b"x", mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("good.txt", "x")
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        archive.writestr(entry, content)
    return path


def bad_tar(path: Path, **about: Any) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo(about.pop("name", "x"))
        for key, value in about.items():
            setattr(entry, key, value)
        archive.addfile(entry, io.BytesIO(b"x" * entry.size))
    return path


@pytest.mark.parametrize(
    "name", ["../evil.so", "/etc/evil", "a/../../evil", "..\\evil", "C:evil", "a\nb", "x/" * 40 + "y"]
)
def test_an_archive_whose_names_lead_out_is_refused_whole(layout: Layout, tmp_path: Path, name: str) -> None:
    with pytest.raises(Failure, match="refused"):
        install_from(bad_zip(tmp_path / "p.zip", name), layout)
    with pytest.raises(Failure, match="refused"):
        install_from(bad_tar(tmp_path / "p.tar.gz", name=name), layout)
    assert [path.name for path in layout.root.iterdir()] == []
    assert not (tmp_path / "evil.so").exists()
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_an_archive_with_links_or_devices_is_refused_whole(
    layout: Layout, tmp_path: Path, kind: bytes
) -> None:
    with pytest.raises(Failure, match="link"):
        install_from(bad_tar(tmp_path / "p.tar.gz", type=kind, linkname="/etc/passwd"), layout)


def test_a_link_in_a_zip_is_refused(layout: Layout, tmp_path: Path) -> None:
    archive = bad_zip(tmp_path / "p.zip", "link", b"/etc/passwd", stat.S_IFLNK | 0o777)
    with pytest.raises(Failure, match="link"):
        install_from(archive, layout)


def test_an_entry_that_comes_twice_is_refused(layout: Layout, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("a", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", "2")
    with pytest.raises(Failure, match="twice"):
        install_from(tmp_path / "p.zip", layout)


@pytest.mark.parametrize("content", [b"", b"PK", b"\x1f\x8b", b"x" * 1000])
@pytest.mark.parametrize("name", ["p.zip", "p.tar.gz"])
def test_a_damaged_archive_is_refused(layout: Layout, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Failure, match="refused"):
        install_from(tmp_path / name, layout)


def test_an_archive_that_is_cut_short_is_refused(layout: Layout, project: Path, tmp_path: Path) -> None:
    archive = tarred(project, tmp_path / "p.tar.gz")
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(Failure, match="refused"):
        install_from(archive, layout)
    assert layout.ids() == []


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_that_was_changed_on_its_way_is_refused(layout: Layout, tmp_path: Path, how: int) -> None:
    archive = tmp_path / "p.zip"
    with zipfile.ZipFile(archive, "w", how) as opened:
        opened.writestr("plugin.py", random.Random(1).randbytes(5000).hex())
        start = len("plugin.py") + 30
    content = bytearray(archive.read_bytes())
    # Behind the few bytes that say how it is packed.
    content[start + 8 : start + 200] = b"\xff" * 192
    archive.write_bytes(content)
    with pytest.raises(Failure, match="refused"):
        install_from(archive, layout)
    assert layout.ids() == []


def test_a_tar_that_was_changed_on_its_way_is_refused(layout: Layout, project: Path, tmp_path: Path) -> None:
    (project / "data").write_bytes(random.Random(1).randbytes(50_000))
    archive = tarred(project, tmp_path / "p.tar.gz")
    content = bytearray(archive.read_bytes())
    at = content.find((project / "data").read_bytes()[20_000:20_016])
    assert at > 0, "what is random is packed as it is"
    content[at] ^= 1
    archive.write_bytes(content)
    with pytest.raises(Failure, match="refused"):
        install_from(archive, layout)
    assert layout.ids() == []


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_full_disk_is_not_taken_for_a_damaged_archive(
    layout: Layout,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pack: Callable[[Path, Path], Path],
) -> None:
    archive = pack(project, tmp_path / ("p.zip" if pack is zipped else "p.tgz"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(Failure, match="No space left") as failed:
        install_from(archive, layout)
    assert failed.value.kind is Kind.misconfigured
    assert layout.ids() == []


def test_a_bomb_behind_the_end_of_a_tar_is_refused(
    layout: Layout, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "LARGEST", 10 * 1024 * 1024)
    archive = tarred(project, tmp_path / "p.tar.gz")
    plain = gzip.decompress(archive.read_bytes())
    archive.write_bytes(gzip.compress(plain + bytes(25 * 1024 * 1024)))
    with pytest.raises(Failure, match="unpacks to more"):
        install_from(archive, layout)


def test_a_bomb_is_refused_before_it_is_unpacked(layout: Layout, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "p.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"\0" * (20 * 1024 * 1024))
    with pytest.raises(Failure, match="beyond all measure"):
        install_from(tmp_path / "p.zip", layout)


def test_a_bomb_in_what_is_written_about_an_entry_is_refused(layout: Layout, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "p.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo("x")
        entry.pax_headers = {"comment": "x" * (20 * 1024 * 1024)}
        archive.addfile(entry)
    with pytest.raises(Failure, match="more is written"):
        install_from(tmp_path / "p.tar.gz", layout)


def test_an_archive_that_is_too_large_is_refused(
    layout: Layout, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "LARGEST", 1000)
    for archive in (zipped(project, tmp_path / "p.zip"), tarred(project, tmp_path / "p.tar.gz")):
        with pytest.raises(Failure, match=r"larger than|unpacks to more"):
            install_from(archive, layout)


def test_an_archive_of_too_many_files_is_refused(
    layout: Layout, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST_FILES", 2)
    for archive in (zipped(project, tmp_path / "p.zip"), tarred(project, tmp_path / "p.tar.gz")):
        with pytest.raises(Failure, match="more than 2 files"):
            install_from(archive, layout)


def test_a_hidden_file_of_an_archive_is_installed_and_checked(
    layout: Layout, project: Path, tmp_path: Path
) -> None:
    (project / "web" / ".well-known").write_text("known")
    install_from(tarred(project, tmp_path / "p.tar.gz"), layout)
    assert installed(layout) == sorted([*WHOLE, "web/.well-known"])
    ready(layout)
    (layout.version_folder(ID, "1.0.0") / "web" / ".well-known").write_text("changed")
    with pytest.raises(Failure, match="well-known"):
        ready(layout)


def test_code_that_was_never_installed_does_not_run(layout: Layout, tmp_path: Path) -> None:
    """A module beside `plugin.py` stands before one of Python's own, wherever a link of its name leads."""
    (tmp_path / "p").mkdir()
    plugin = "import colorsys\nfrom fairlead.plugins.sdk import Plugin\nplugin = Plugin('test.loader', version='1.0.0')"
    (tmp_path / "p" / "plugin.py").write_text(plugin)
    install_from(tmp_path / "p", layout)
    ready(layout)
    folder = layout.version_folder(ID, "1.0.0")
    (folder / ".x.py").write_text("never installed")
    (folder / "colorsys.py").symlink_to(".x.py")
    with pytest.raises(Failure, match="changed") as refused:
        ready(layout)
    assert isinstance(refused.value, NotLoaded)
    assert refused.value.reason == "receipt_invalid"


def test_a_link_in_a_folder_is_not_followed(layout: Layout, project: Path) -> None:
    (project / "passwd").symlink_to("/etc/passwd")
    install_from(project, layout)
    assert "passwd" not in installed(layout)


@pytest.mark.parametrize("renames", [1, 2, 3])
def test_a_program_that_ends_while_it_installs_leaves_a_version_that_is_whole(
    layout: Layout, project: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """Whichever of its steps was the last: the same version is installed again, and the power fails."""
    install_from(project, layout)
    rename, done = os.rename, []

    def last(source: Any, target: Any) -> None:
        rename(source, target)
        done.append(target)
        if len(done) >= renames:
            raise SystemExit

    with monkeypatch.context() as patch, suppress(SystemExit):
        patch.setattr(os, "rename", last)
        install_from(project, layout)
    ready(layout)


def test_a_failure_half_way_leaves_what_was_there(
    layout: Layout, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(project, layout)
    rename = os.rename
    place = layout.version_folder(ID, "1.0.0")

    def failing(source: Any, target: Any) -> None:
        if Path(target) == place and Path(source).name == "plugin":
            raise OSError("no space")
        rename(source, target)

    # As where two folders cannot change places at once.
    monkeypatch.setattr(installing, "_exchanged", lambda *_: False)
    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(Failure, match="no space"):
        install_from(project, layout)
    assert installed(layout) == WHOLE
    ready(layout)


def test_a_folder_that_cannot_be_written_is_told_so(tmp_path: Path, project: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Failure, match="FAIRLEAD_DATA"):
        install_from(project, Layout(tmp_path / "file" / "plugins"))


# --- rolling back and removing ---


def two_versions(layout: Layout, project: Path, tmp_path: Path) -> None:
    install_from(project, layout)
    install_from(compiled_loader(tmp_path / "new", version="1.1.0"), layout)


def test_rolling_back_uses_the_version_before(layout: Layout, project: Path, tmp_path: Path) -> None:
    two_versions(layout, project, tmp_path)
    assert roll_back(layout, ID) == ("1.1.0", "1.0.0")
    assert layout.current(ID) == "1.0.0"
    assert roll_back(layout, ID, "1.1.0") == ("1.0.0", "1.1.0")


def test_rolling_back_further_than_there_are_versions_is_refused(layout: Layout, project: Path) -> None:
    install_from(project, layout)
    with pytest.raises(Failure, match="no version"):
        roll_back(layout, ID)
    with pytest.raises(Failure, match="not installed"):
        roll_back(layout, ID, "9.9.9")


def test_rolling_back_to_a_version_that_was_changed_is_refused(
    layout: Layout, project: Path, tmp_path: Path
) -> None:
    two_versions(layout, project, tmp_path)
    (layout.version_folder(ID, "1.0.0") / "README.md").write_text("changed")
    with pytest.raises(Failure, match="changed"):
        roll_back(layout, ID)
    assert layout.current(ID) == "1.1.0"


def test_uninstalling_leaves_nothing_behind(layout: Layout, project: Path) -> None:
    install_from(project, layout)
    Quarantine(layout.root, build()).put(ID, "1.0.0", "It fell.")
    assert uninstall(layout, ID) == ["1.0.0"]
    assert layout.ids() == []
    assert sorted(path.name for path in layout.root.iterdir()) == [".changed", ".receipt-key"]


def test_uninstalling_can_leave_the_data(layout: Layout, project: Path) -> None:
    install_from(project, layout)
    layout.database(ID).write_text("notes")
    uninstall(layout, ID, keep_data=True)
    assert not layout.holds(ID)
    install_from(project, layout)
    assert layout.database(ID).read_text() == "notes"


def test_uninstalling_one_version_uses_another(layout: Layout, project: Path, tmp_path: Path) -> None:
    two_versions(layout, project, tmp_path)
    assert uninstall(layout, ID, version="1.1.0") == ["1.1.0"]
    assert layout.current(ID) == "1.0.0"
    ready(layout)


def test_what_is_not_installed_cannot_be_removed_and_the_near_miss_is_told(
    layout: Layout, project: Path
) -> None:
    install_from(project, layout)
    with pytest.raises(Failure, match=ID):
        uninstall(layout, "test.loadr")
    with pytest.raises(Failure):
        uninstall(layout, "../x")


def test_a_version_that_was_installed_can_be_verified(layout: Layout, project: Path) -> None:
    receipt = install_from(project, layout)
    assert verify(layout.version_folder(ID, "1.0.0"), ID, "1.0.0", Seal(layout.root)) == receipt


# --- building ---


def test_a_created_project_builds_and_installs(layout: Layout, tmp_path: Path) -> None:
    made = create_plugin(tmp_path / "greeter")
    assert made["id"] == "com.example.greeter"
    built = build_plugin(tmp_path / "greeter", archive=True)
    assert built.abi == 6
    assert built.archive is not None
    assert install_from(built.archive, layout).plugin_id == "com.example.greeter"
    again = build_plugin(tmp_path / "greeter", archive=True)
    assert again.archive is not None
    assert sorted(path.name for path in (tmp_path / "greeter" / "build").iterdir()) == [
        "com.example.greeter",
        "com.example.greeter-0.1.0.zip",
    ]


def test_the_example_is_what_create_writes(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "plugins" / "hello"
    made = create_plugin(tmp_path / "hello")
    for name in made["files"]:
        assert (example / name).read_text() == (tmp_path / "hello" / name).read_text(), name


def test_a_name_that_is_taken_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    create_plugin(tmp_path / "a")
    (tmp_path / "a" / "src" / "plugin.c").write_text("mine")
    with pytest.raises(Failure, match="Already there"):
        create_plugin(tmp_path / "a")
    assert (tmp_path / "a" / "src" / "plugin.c").read_text() == "mine"


def test_what_the_compiler_says_is_passed_on(tmp_path: Path) -> None:
    create_plugin(tmp_path / "a")
    (tmp_path / "a" / "src" / "plugin.c").write_text("int x = ;\n")
    with pytest.raises(Failure, match=r"plugin\.c"):
        build_plugin(tmp_path / "a")
    assert list((tmp_path / "a" / "build").iterdir()) == []


def test_what_the_compiler_warns_of_is_told_though_it_went_well(tmp_path: Path) -> None:
    create_plugin(tmp_path / "a")
    source = tmp_path / "a" / "src" / "plugin.c"
    assert build_plugin(tmp_path / "a").warnings == ""
    source.write_text(source.read_text() + "static int unused(void) { return 1; }\n")
    assert "unused" in build_plugin(tmp_path / "a").warnings


def test_a_compiler_that_is_not_there_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_plugin(tmp_path / "a")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(Failure, match="no-such-compiler"):
        build_plugin(tmp_path / "a")


def test_a_relative_folder_builds_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create_plugin(Path("a"))
    assert build_plugin(Path("a"), out=Path("out")).library.is_file()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"\[build\]"),
        ("[build]\nsource = []", "sources"),
        ("[build]\nsources = 'x'", "list of strings"),
        ("[build]\nsources = ['none/*.c']", "No source"),
        ("[build]\nname = '../x'", "cannot be the name"),
        ("[build]\nfiles = ['../../etc']", "leads out"),
        ("not toml", "cannot be read"),
    ],
)
def test_a_project_that_makes_no_sense_is_told_so(tmp_path: Path, text: str, words: str) -> None:
    create_plugin(tmp_path / "a")
    (tmp_path / "a" / "plugin.toml").write_text(text)
    with pytest.raises(Failure, match=words):
        build_plugin(tmp_path / "a")


def test_a_folder_that_is_no_project_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="fairlead plugin create"):
        build_plugin(tmp_path)


def test_where_there_is_no_compiler_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.plugins import building

    monkeypatch.setattr(building, "find_spec", lambda name: None)
    with pytest.raises(Failure, match="pip install ziglang"):
        building.find_compiler({"PATH": str(tmp_path)})
    monkeypatch.setattr(building, "find_spec", lambda name: object())
    assert building.find_compiler({"PATH": str(tmp_path)})[1:] == ["-m", "ziglang", "cc"]
    assert building.find_compiler({"CC": "ccache gcc"}) == ["ccache", "gcc"]


def test_an_installation_that_was_cut_short_is_swept_away_later(layout: Layout, project: Path) -> None:
    left = layout.root / ".staging-old"
    left.mkdir(parents=True)
    os.utime(left, (0, 0))
    install_from(project, layout)
    assert not left.exists()
    shutil.rmtree(layout.root)


def test_installing_a_prepared_plugin_makes_it_the_one_in_use(layout: Layout, project: Path) -> None:
    with prepared(project, layout) as draft:
        assert (draft.id, draft.version, draft.replaces) == (ID, "1.0.0", None)
        install(draft)
        assert draft.replaces == "1.0.0"
