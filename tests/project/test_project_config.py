"""Settings are found, checked whole, and refused with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead import Failure
from fairlead.project.config import find_default_app_module, load_project_config, settings_schema


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_project_without_settings_has_empty_ones(tmp_path: Path) -> None:
    assert load_project_config(tmp_path) == ({}, None)
    write(tmp_path, "pyproject.toml", "[project]\nname = 'x'\n")
    assert load_project_config(tmp_path) == ({}, None)


def test_settings_are_read_from_either_file(tmp_path: Path) -> None:
    write(
        tmp_path, "pyproject.toml", "[tool.fairlead]\napp = 'a:app'\n[tool.fairlead.build]\nout_dir = 'out'\n"
    )
    config = load_project_config(tmp_path)
    assert config.settings == {"app": "a:app", "build": {"out_dir": "out"}}
    (tmp_path / "pyproject.toml").unlink()
    own = write(tmp_path, "fairlead.toml", "app = 'b:app'\n")
    assert load_project_config(tmp_path) == ({"app": "b:app"}, own)


def test_all_that_is_wrong_is_told_at_once_with_near_misses(tmp_path: Path) -> None:
    write(tmp_path, "fairlead.toml", "app = 3\n[lint]\nignor = []\n[bild]\n")
    with pytest.raises(Failure) as refused:
        load_project_config(tmp_path)
    assert [issue.path for issue in refused.value.issues] == [("app",), ("lint", "ignor"), ("bild",)]
    assert "'ignore'" in refused.value.issues[1].message
    assert "'build'" in refused.value.issues[2].message


@pytest.mark.parametrize("text", ["app = ", "app = 'x'\napp = 'y'", "\x00"])
def test_what_is_not_toml_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path, "fairlead.toml", text)
    with pytest.raises(Failure) as refused:
        load_project_config(tmp_path)
    assert refused.value.kind == "misconfigured"


def test_the_app_is_where_the_settings_say_or_in_the_usual_files(tmp_path: Path) -> None:
    assert find_default_app_module(tmp_path).to_dict() == {
        "found": False,
        "reason": "missing",
        "module": None,
    }
    write(tmp_path, "app.py", "")
    assert find_default_app_module(tmp_path) == (True, "default", "app.py")
    write(tmp_path, "fairlead.toml", "app = 'shop.main:app'")
    assert find_default_app_module(tmp_path) == (True, "configured", "shop.main:app")


def test_editors_get_a_schema_with_every_setting_described() -> None:
    import jsonschema_rs

    schema = settings_schema()
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"app": "a:app", "lint": {"ignore": ["X"]}, "build": {"targets": ["cli"]}})
    assert not validator.is_valid({"lint": {"ignored": []}})
