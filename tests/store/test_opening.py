"""Which database the settings name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.failures import Failure, Kind
from fairlead.store import data_folder, open_store
from fairlead.store.opening import slug
from fairlead.store.postgres import shown


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAIRLEAD_DATA", "FAIRLEAD_DATABASE_URL", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def name_of(app: str = "", **settings: str) -> str:
    with open_store(app, **settings) as store:  # type: ignore[arg-type]
        return store.name


def test_without_settings_it_is_a_file_of_the_app_in_the_platforms_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert name_of("My App") == str(tmp_path / "home/.local/share/fairlead/my-app.db")
    assert name_of() == str(tmp_path / "home/.local/share/fairlead/fairlead.db")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "shared"))
    assert data_folder() == tmp_path / "shared" / "fairlead"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert data_folder() == tmp_path / "home/.local/share/fairlead"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data_folder() == tmp_path / "home/Library/Application Support/fairlead"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert data_folder() == tmp_path / "local" / "fairlead"


def test_a_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_DATA", "from-environment")
    assert name_of() == str(tmp_path / "from-environment" / "fairlead.db")
    assert name_of(data="given") == str(tmp_path / "given" / "fairlead.db")
    assert data_folder("~/there") == tmp_path / "home" / "there"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///some/file.db", "some/file.db"),
        ("sqlite:///with%20space.db", "with space.db"),
        ("sqlite:///~/mine.db", "home/mine.db"),
        ("sqlite:////{here}/absolute.db", "absolute.db"),
    ],
)
def test_a_file_can_be_named(url: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = url.replace("/{here}", str(tmp_path))
    assert name_of(url=url) == str(tmp_path / path)
    monkeypatch.setenv("FAIRLEAD_DATABASE_URL", url)
    assert name_of(data="elsewhere") == str(tmp_path / path)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://root:secret@host/db",
        "secret",
        "sqlite:///",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite://secret/file.db",
        "sqlite:///file.db?mode=secret",
        "postgresql://user:sec@ret@host/db",
        "postgresql://user:sec/ret@host/db",
        "postgresql://user:secret@host:port/db",
        "postgresql://user:secret@host/db?secret=1",
        "postgresql://[user:secret@host/db",
        "postgresql://user:%zzsecret@host/db",
    ],
)
def test_a_wrong_url_is_told_without_what_may_be_secret(url: str) -> None:
    with pytest.raises(Failure) as caught:
        open_store(url=url)
    assert caught.value.kind is Kind.misconfigured
    assert "secret" not in caught.value.message
    assert "ret@" not in caught.value.message


def test_an_address_is_not_taken_for_the_name_of_an_app(tmp_path: Path) -> None:
    for address in ("sqlite:///store.db", "postgres://me:hunter2@db/tea", "postgresql://me:hunter2@db/tea"):
        with pytest.raises(Failure) as refused:
            open_store(address, data=tmp_path)
        assert refused.value.kind is Kind.misconfigured
        assert "hunter2" not in str(refused.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgres://me:secret@host:5432/db", "postgresql://me@host:5432/db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://me:secret@a:1,b:2/db?sslmode=require", "postgresql://me@a:1,b:2/db?sslmode=require"),
        ("postgresql:///db?host=/tmp&password=secret&user=me", "postgresql:///db?host=/tmp&user=me"),
        ("postgresql:///db?sslpassword=secret&passfile=x", "postgresql:///db"),
    ],
)
def test_the_name_of_a_database_hides_its_password(url: str, name: str) -> None:
    assert shown(url) == name


@pytest.mark.parametrize(
    ("name", "file"),
    [("", "fairlead"), ("My App!", "my-app"), ("../../etc", "etc"), ("日本", "日本"), ("a" * 200, "a" * 60)],
)
def test_an_apps_name_becomes_a_files_name(name: str, file: str) -> None:
    assert slug(name) == file


def test_a_missing_psycopg_is_told() -> None:
    program = """
import sys
sys.modules["psycopg"] = None
from fairlead.failures import Failure
from fairlead.store import open_store
try:
    open_store(url="postgresql://host/db")
except Failure as failure:
    print(failure.kind, failure.message)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("misconfigured")
    assert "pip install 'fairlead[postgres]'" in done.stdout


def test_opening_a_file_does_not_load_psycopg() -> None:
    program = """
import sys, tempfile
from fairlead.store import open_store
with tempfile.TemporaryDirectory() as folder:
    open_store(data=folder).close()
print("psycopg" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
