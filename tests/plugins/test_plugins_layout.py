"""Where plugins are kept, and which version is in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.failures import Failure
from fairlead.plugins.layout import Layout, libraries, skills


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "plugins")


def made(layout: Layout, id: str, *versions: str) -> Layout:
    for version in versions:
        layout.version_folder(id, version).mkdir(parents=True)
    return layout


def test_plugins_are_in_the_folder_for_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path))
    assert Layout.of().database("a") == tmp_path / "plugins" / "a" / "data" / "data.db"


def test_no_folder_is_no_plugins(layout: Layout) -> None:
    assert layout.ids() == []
    assert layout.versions("a") == []
    assert layout.current("a") is None


def test_hidden_folders_and_files_are_no_plugins(layout: Layout) -> None:
    made(layout, "b", "1.0.0")
    made(layout, "a", "1.0.0")
    (layout.root / ".quarantine").write_text("[]")
    (layout.root / ".staging-1").mkdir()
    assert layout.ids() == ["a", "b"]


def test_the_highest_version_is_in_use_where_nothing_says_otherwise(layout: Layout) -> None:
    made(layout, "a", "1.0.9", "1.0.10", "1.0.10-beta", "0.9.0")
    assert layout.current("a") == "1.0.10"
    assert layout.versions("a") == ["1.0.10", "1.0.10-beta", "1.0.9", "0.9.0"]


def test_the_link_says_which_version_is_in_use(layout: Layout) -> None:
    made(layout, "a", "1.0.0", "2.0.0")
    layout.point("a", "1.0.0")
    assert layout.current("a") == "1.0.0"
    layout.point("a", "2.0.0")
    assert layout.current("a") == "2.0.0"
    assert sorted(path.name for path in layout.home("a").iterdir()) == ["1.0.0", "2.0.0", "current"]


@pytest.mark.parametrize("target", ["9.9.9", "../b", "/etc", ".", "data", "current", "1.0.0/x"])
def test_a_link_that_leads_nowhere_or_elsewhere_is_not_followed(layout: Layout, target: str) -> None:
    made(layout, "a", "1.0.0")
    layout.data("a").mkdir()
    (layout.home("a") / "current").symlink_to(target)
    assert layout.current("a") == "1.0.0"


def test_folders_that_are_no_versions_are_left_alone(layout: Layout) -> None:
    made(layout, "a", "1.0.0", "data", "old", "1.0")
    assert layout.versions("a") == ["1.0.0"]


@pytest.mark.parametrize("id", ["..", "a/b", "", ".x"])
def test_an_id_that_leads_out_has_no_folder(layout: Layout, id: str) -> None:
    with pytest.raises(Failure):
        layout.home(id)


def test_every_library_below_is_found_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("a.so", "lib/b.so", ".c.so", ".hidden/d.so", "README.md", "e.so.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link.so").symlink_to(tmp_path / "a.so")
    assert [path.relative_to(tmp_path).as_posix() for path in libraries(tmp_path)] == ["a.so", "lib/b.so"]


def test_a_plugin_in_python_is_found_where_there_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").touch()
    assert [path.name for path in libraries(tmp_path)] == ["plugin.py"]
    (tmp_path / "a.so").touch()
    assert [path.name for path in libraries(tmp_path)] == ["a.so"]


def test_skills_are_what_ends_in_skill_md(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    for name in ("SKILL.md", "notes-SKILL.md", "other.md"):
        (tmp_path / "skills" / name).touch()
    assert [path.name for path in skills(tmp_path)] == ["SKILL.md", "notes-SKILL.md"]


def test_data_that_a_plugin_left_behind_is_no_plugin(layout: Layout) -> None:
    made(layout, "a", "data")
    (layout.home("a") / "settings.json").write_text("{}")
    assert not layout.holds("a")
    made(layout, "a", "1.0.0")
    assert layout.holds("a")


def test_a_folder_that_no_plugin_can_have_is_a_stranger(layout: Layout) -> None:
    (layout.root / "a b").mkdir(parents=True)
    assert layout.ids() == []
    assert layout.strangers() == ["a b"]


def test_a_version_that_is_a_link_is_not_followed(layout: Layout, tmp_path: Path) -> None:
    made(layout, "a", "1.0.0")
    (layout.home("a") / "2.0.0").symlink_to(tmp_path)
    (layout.home("a") / "current").symlink_to("2.0.0")
    assert layout.current("a") == "1.0.0"
