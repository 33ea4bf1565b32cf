"""Secrets are kept, rotated and sealed; who has the disk, or changes it, learns and achieves nothing."""

from __future__ import annotations

import asyncio
import base64
import io
import logging
import os
import pickle
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring

from fairlead import App, Failure, Kind
from fairlead.store import KeyInFile, KeyInKeyring, KeyInText, Secrets, Statement, Store, open_store
from fairlead.store.master import VARIABLE, MasterKey, master_key
from fairlead.store.secrets import LARGEST
from fairlead.surfaces.cli import Console, main, run

VALUE = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"


@pytest.fixture(autouse=True)
def _no_key_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> KeyInFile:
    return KeyInFile(tmp_path / "keys" / "secret.key")


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with open_store(url=store_url) as store:
        yield store


@pytest.fixture
def secrets(store: Store, file: KeyInFile) -> Secrets:
    return Secrets(store, file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def local(folder: Path) -> Iterator[Store]:
    """A store that is a file."""
    with open_store("shop", data=folder) as store:
        yield store


def refused(failure: pytest.ExceptionInfo[Failure], kind: Kind = Kind.misconfigured) -> str:
    """The message of a failure of this kind, which gives nothing away."""
    assert failure.value.kind is kind
    assert VALUE not in repr(failure.value) + str(failure.value.details)
    return failure.value.message


def change(store: Store, sql: str, **values: Any) -> int:
    return store.write_now(lambda tx: tx.run(Statement.of(sql), **values))


async def test_a_secret_comes_back_as_it_was_set(secrets: Secrets, store: Store, file: KeyInFile) -> None:
    await secrets.set("stripe", VALUE)
    await secrets.set("deploy/key", "ünï 🚢\n\x00 lone \ud800")
    assert await secrets.get("stripe") == VALUE
    await secrets.set("stripe", "another")
    again = Secrets(store, KeyInFile(file.path))
    assert await again.get("stripe") == "another"
    assert await again.get("deploy/key") == "ünï 🚢\n\x00 lone \ud800"
    assert [each.name for each in await again.names()] == ["deploy/key", "stripe"]


async def test_a_removed_secret_is_gone(secrets: Secrets) -> None:
    await secrets.set("stripe", VALUE)
    await secrets.remove("stripe")
    for gone in (secrets.get("stripe"), secrets.remove("stripe")):
        with pytest.raises(Failure) as failure:
            await gone
        refused(failure, Kind.not_found)


def test_a_near_miss_is_suggested(local: Store) -> None:
    secrets = Secrets(local)
    secrets.set_now("stripe", VALUE)
    with pytest.raises(Failure) as failure:
        secrets.get_now("strip")
    assert "'stripe'" in refused(failure, Kind.not_found)


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", "a\n", "a=b", "ä", "x" * 201, "../x", "\x00"])
def test_a_name_that_could_be_mistaken_is_refused(local: Store, name: str) -> None:
    secrets = Secrets(local)
    for act in (lambda: secrets.set_now(name, VALUE), lambda: secrets.get_now(name)):
        with pytest.raises(Failure) as failure:
            act()
        refused(failure, Kind.invalid_input)


@pytest.mark.parametrize("value", ["", "x" * (LARGEST + 1)], ids=["empty", "too long"])
def test_a_value_has_a_sensible_size(local: Store, value: str) -> None:
    secrets = Secrets(local)
    with pytest.raises(Failure) as failure:
        secrets.set_now("a", value)
    refused(failure, Kind.invalid_input)


def test_asking_makes_no_key(local: Store, file: KeyInFile) -> None:
    secrets = Secrets(local, file)
    assert secrets.names_now() == []
    with pytest.raises(Failure):
        secrets.get_now("stripe")
    assert not file.path.exists()


def test_many_first_secrets_at_once_share_one_key_file(store: Store, file: KeyInFile) -> None:
    everyone = [Secrets(store, KeyInFile(file.path)) for _ in range(6)]
    threads = [
        threading.Thread(target=each.set_now, args=(f"s{number}", VALUE))
        for number, each in enumerate(everyone)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = Secrets(store, file)
    assert {last.get_now(f"s{number}") for number in range(6)} == {VALUE}


def scanned(*folders: Path) -> bytes:
    return b"".join(path.read_bytes() for each in folders for path in each.rglob("*") if path.is_file())


def test_no_plain_text_is_ever_on_disk(local: Store, folder: Path) -> None:
    secrets = Secrets(local)
    for number in range(50):
        secrets.set_now("stripe", f"{VALUE}{number}")
    secrets.seal(VALUE.encode(), "task 1")
    secrets.rotate_now()
    secrets.remove_now("stripe")
    secrets.set_now("stripe", VALUE)
    found = scanned(folder)
    assert b"stripe" in found
    for spelled in (VALUE, VALUE[:12], VALUE[8:20], VALUE.encode().hex()):
        assert spelled.encode() not in found
    assert base64.b64encode(VALUE.encode())[:16] not in found
    local.close()
    assert VALUE[:12].encode() not in scanned(folder)


def test_the_master_key_is_not_in_the_store(local: Store, folder: Path) -> None:
    Secrets(local).set_now("stripe", VALUE)
    spelled = (folder / "shop.secret.key").read_text().split()[1]
    files = b"".join(path.read_bytes() for path in folder.iterdir() if "db" in path.name and path.is_file())
    assert spelled.encode() not in files
    assert base64.b64decode(spelled) not in files


def test_nothing_is_shown_in_logs_or_by_repr(
    local: Store, file: KeyInFile, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = Secrets(local, file)
    caplog.set_level(logging.DEBUG)
    secrets.set_now("stripe", VALUE)
    secrets.rotate_now()
    key = file.path.read_text().split()[1]
    text = KeyInText(key)
    read = text.read()
    assert read is not None
    shown = f"{secrets!r} {secrets} {file!r} {text!r} {read!r} {caplog.text}"
    assert VALUE not in shown
    assert key not in shown
    with pytest.raises(TypeError):
        pickle.dumps(read)


def test_the_key_file_is_for_its_owner_only_whatever_the_umask(local: Store, file: KeyInFile) -> None:
    secrets = Secrets(local, file)
    before = os.umask(0)
    try:
        secrets.set_now("stripe", VALUE)
        secrets.rotate_now()
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [path.name for path in file.path.parent.iterdir()] == ["secret.key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610, 0o644])
def test_a_key_file_that_others_can_use_is_refused(local: Store, file: KeyInFile, mode: int) -> None:
    Secrets(local, file).set_now("stripe", VALUE)
    file.path.chmod(mode)
    with pytest.raises(Failure) as failure:
        Secrets(local, file).get_now("stripe")
    message = refused(failure)
    assert f"{mode:04o}" in message
    assert "chmod 600" in message
    file.path.chmod(0o600)
    assert Secrets(local, file).get_now("stripe") == VALUE


def test_a_key_file_that_is_a_link_is_refused(local: Store, file: KeyInFile, tmp_path: Path) -> None:
    Secrets(local, file).set_now("stripe", VALUE)
    link = tmp_path / "link.key"
    link.symlink_to(file.path)
    for act in (Secrets(local, KeyInFile(link)).rotate_now, KeyInFile(link).read):
        with pytest.raises(Failure) as failure:
            act()
        assert "link" in refused(failure)
    assert link.is_symlink()


def test_a_link_to_nowhere_is_not_written_through(local: Store, tmp_path: Path) -> None:
    link, target = tmp_path / "link.key", tmp_path / "elsewhere"
    link.symlink_to(target)
    with pytest.raises(Failure) as failure:
        Secrets(local, KeyInFile(link)).set_now("stripe", VALUE)
    refused(failure)
    assert not target.exists()


def test_a_key_file_that_is_no_file_is_refused(local: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("pipe", "folder"):
        with pytest.raises(Failure) as failure:
            Secrets(local, KeyInFile(tmp_path / name)).set_now("stripe", VALUE)
        refused(failure)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_key_file_of_another_user_is_refused(local: Store, file: KeyInFile) -> None:
    Secrets(local, file).set_now("stripe", VALUE)
    os.chown(file.path, 65534, 65534)
    with pytest.raises(Failure) as failure:
        Secrets(local, file).get_now("stripe")
    refused(failure)


def test_a_truncated_key_file_is_refused_and_left_alone(local: Store, file: KeyInFile) -> None:
    Secrets(local, file).set_now("stripe", VALUE)
    whole = file.path.read_bytes()
    for length in range(len(whole)):
        file.path.write_bytes(whole[:length])
        for act in (lambda: Secrets(local, file).get_now("stripe"), Secrets(local, file).rotate_now):
            with pytest.raises(Failure) as failure:
                act()
            assert "damaged" in refused(failure)
        assert file.path.read_bytes() == whole[:length]
    file.path.write_bytes(whole)
    assert Secrets(local, file).get_now("stripe") == VALUE


@pytest.mark.parametrize("verb", ["get", "set", "rotate", "seal"])
@pytest.mark.parametrize("key", ["another", "gone"])
def test_with_a_wrong_key_nothing_is_read_written_or_lost(
    store: Store, file: KeyInFile, tmp_path: Path, verb: str, key: str
) -> None:
    Secrets(store, file).set_now("stripe", VALUE)
    place = KeyInFile(tmp_path / "another.key")
    if key == "another":
        place.made()
    before = place.path.read_bytes() if place.path.exists() else None
    wrong = Secrets(store, place)
    acts: dict[str, Any] = {
        "get": lambda: wrong.get_now("stripe"),
        "set": lambda: wrong.set_now("other", VALUE),
        "rotate": wrong.rotate_now,
        "seal": lambda: wrong.seal(b"x", "y"),
    }
    with pytest.raises(Failure) as failure:
        acts[verb]()
    message = refused(failure)
    assert file.path.read_text().split()[0] in message
    assert str(place.path) in message
    assert (place.path.read_bytes() if place.path.exists() else None) == before
    assert Secrets(store, file).get_now("stripe") == VALUE


@pytest.mark.parametrize("column", ["nonce", "value"])
@pytest.mark.parametrize("table", ["secrets", "secret_keys"])
def test_what_was_tampered_with_does_not_open(store: Store, file: KeyInFile, table: str, column: str) -> None:
    Secrets(store, file).set_now("stripe", VALUE)
    rows = store.read_now(lambda tx: tx.all(Statement.of(f"SELECT {column} FROM {table}")))
    original = bytes(rows[0][0])
    changed = [original[:-1], original + b"\x00", b"", bytes([original[0] ^ 1]) + original[1:]]
    for value in changed:
        change(store, f"UPDATE {table} SET {column} = :value", value=value)
        with pytest.raises(Failure) as failure:
            Secrets(store, file).get_now("stripe")
        refused(failure)
    change(store, f"UPDATE {table} SET {column} = :value", value=original)
    assert Secrets(store, file).get_now("stripe") == VALUE


def test_rows_cannot_be_swapped(store: Store, secrets: Secrets) -> None:
    secrets.set_now("mine", "mine")
    secrets.set_now("admin", VALUE)
    change(store, "DELETE FROM secrets WHERE name = 'mine'")
    change(store, "UPDATE secrets SET name = 'mine' WHERE name = 'admin'")
    with pytest.raises(Failure) as failure:
        secrets.get_now("mine")
    refused(failure)


def test_a_rotation_changes_every_key_and_no_value(store: Store, secrets: Secrets, file: KeyInFile) -> None:
    names = [f"s{number}" for number in range(20)]
    for name in names:
        secrets.set_now(name, f"{VALUE} {name}")
    dates = secrets.names_now()
    sealed = secrets.seal(b"input", "task 1")
    other = Secrets(store, file)
    assert other.get_now("s1") == f"{VALUE} s1"
    old_file = file.path.read_bytes()
    old = store.read_now(lambda tx: tx.all(Statement.of("SELECT key, value FROM secrets")))
    assert secrets.rotate_now() == 20
    new = store.read_now(lambda tx: tx.all(Statement.of("SELECT key, value FROM secrets")))
    assert {row[0] for row in old}.isdisjoint({row[0] for row in new})
    assert {bytes(row[1]) for row in old}.isdisjoint({bytes(row[1]) for row in new})
    assert len(file.path.read_text().splitlines()) == 1
    # One that was there before the rotation goes on, too.
    for each in (secrets, other, Secrets(store, file)):
        assert [each.get_now(name) for name in names] == [f"{VALUE} {name}" for name in names]
        assert each.names_now() == dates
        assert each.open(sealed, "task 1") == b"input"
        assert each.open(other.seal(b"more", "task 2"), "task 2") == b"more"
    file.path.write_bytes(old_file)
    with pytest.raises(Failure) as failure:
        Secrets(store, file).get_now("s1")
    refused(failure)


#: Rotates copies of a store; each time it is killed one step later, at every step that leaves a trace.
ROTATOR = """
import os, shutil, signal, sys
from fairlead.store import KeyInFile, Secrets, open_store
from fairlead.store.sqlite import SqliteTx

base, copy, value, sealed = sys.argv[1:]

def opened():
    store = open_store(url=f"sqlite:///{copy}/s.db")
    return store, Secrets(store, KeyInFile(f"{copy}/secret.key"))

def mortal(owner, name, step):
    real = getattr(owner, name)
    def call(*arguments, **named):
        step()
        done = real(*arguments, **named)
        step()
        return done
    setattr(owner, name, call)

def rotate(left):
    def step():
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    store, secrets = opened()
    for owner, name in ((os, "replace"), (os, "fsync"), (SqliteTx, "run"), (store, "write_now")):
        mortal(owner, name, step)
    secrets.rotate_now()

def check(left):
    store, secrets = opened()
    assert secrets.get_now("stripe") == secrets.get_now("other") == value
    assert secrets.open(sealed, "task 1") == b"input"
    secrets.set_now("another", value)
    secrets.rotate_now()
    assert secrets.get_now("stripe") == secrets.get_now("another") == value
    assert secrets.open(sealed, "task 1") == b"input"
    assert len(open(f"{copy}/secret.key").readlines()) == 1
    store.close()

def apart(act, step):
    child = os.fork()
    if child == 0:
        try:
            act(step)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

ended, step = -9, 0
while ended == -9:
    step += 1
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(base, copy)
    ended = apart(rotate, step)
    assert apart(check, step) == 0, step
assert ended == 0
print(step)
"""


def test_a_rotation_that_is_killed_at_any_step_loses_nothing(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with open_store(url=f"sqlite:///{base}/s.db") as store:
        secrets = Secrets(store, KeyInFile(base / "secret.key"))
        secrets.set_now("stripe", VALUE)
        secrets.set_now("other", VALUE)
        sealed = secrets.seal(b"input", "task 1")
    arguments = [str(base), str(tmp_path / "copy"), VALUE, sealed]
    done = subprocess.run([sys.executable, "-c", ROTATOR, *arguments], stdout=subprocess.PIPE, check=True)
    assert int(done.stdout) > 20


def test_two_rotations_at_once_lose_nothing(store: Store, file: KeyInFile) -> None:
    Secrets(store, file).set_now("stripe", VALUE)
    threads = [threading.Thread(target=Secrets(store, file).rotate_now) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Secrets(store, file).get_now("stripe") == VALUE
    assert len(file.path.read_text().splitlines()) == 1


@pytest.fixture(scope="module")
def sealing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secrets]:
    folder = tmp_path_factory.mktemp("sealing")
    with open_store(data=folder) as store:
        yield Secrets(store, KeyInFile(folder / "k"))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(plain=st.binary(max_size=2000), context=st.text(max_size=50), other=st.text(max_size=50))
def test_what_is_sealed_opens_in_its_own_context_only(
    sealing: Secrets, plain: bytes, context: str, other: str
) -> None:
    sealed = sealing.seal(plain, context)
    assert sealed.isascii()
    assert sealed != sealing.seal(plain, context)
    assert sealing.open(sealed, context) == plain
    if other != context:
        with pytest.raises(Failure):
            sealing.open(sealed, other)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(at=st.integers(0, 200), by=st.characters(codec="ascii"), cut=st.integers(0, 3))
def test_a_sealed_text_that_was_changed_does_not_open(sealing: Secrets, at: int, by: str, cut: int) -> None:
    sealed = sealing.seal(b"0123456789" * 6, "task")
    at %= len(sealed)
    changed = sealed[:at] + by + sealed[at + 1 :] if cut == 0 else sealed[: -min(cut, at + 1)]
    # Another spelling of the same bytes may open, and nothing else may.
    failure: Failure | None = None
    try:
        assert sealing.open(changed, "task") == b"0123456789" * 6
    except Failure as refusal:
        failure = refusal
    assert failure is None or failure.kind is Kind.misconfigured


def test_a_secret_cannot_be_passed_off_as_something_sealed(store: Store, secrets: Secrets) -> None:
    secrets.set_now("stripe", VALUE)
    (key, nonce, value), *_ = store.read_now(
        lambda tx: tx.all(Statement.of("SELECT key, nonce, value FROM secrets"))
    )
    forged = f"sealed1.{key}.{base64.urlsafe_b64encode(bytes(nonce) + bytes(value)).decode()}"
    for context in ("stripe", "secret\nstripe", ""):
        with pytest.raises(Failure):
            secrets.open(forged, context)


class Drawer(KeyringBackend):
    """A keyring in memory."""

    priority = 1

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password


@pytest.fixture
def drawer() -> Iterator[Drawer]:
    before = keyring.get_keyring()
    drawer = Drawer()
    keyring.set_keyring(drawer)
    yield drawer
    keyring.set_keyring(before)


def test_the_key_may_be_in_the_systems_keyring(
    local: Store, folder: Path, drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "keyring")
    Secrets(local).set_now("stripe", VALUE)
    Secrets(local).rotate_now()
    assert Secrets(local).get_now("stripe") == VALUE
    assert list(drawer.entries) == [("fairlead", local.name)]
    assert not list(folder.glob("*.key"))
    drawer.entries["fairlead", local.name] = "scribble"
    with pytest.raises(Failure) as failure:
        Secrets(local).get_now("stripe")
    assert "scribble" not in refused(failure)


def test_a_machine_without_a_keyring_says_what_else_would_do(local: Store, drawer: Drawer) -> None:
    keyring.set_keyring(NoKeyring())  # type: ignore[no-untyped-call]
    with pytest.raises(Failure) as failure:
        Secrets(local, KeyInKeyring("x")).set_now("stripe", VALUE)
    assert f"{VARIABLE}=file:" in refused(failure)


@pytest.mark.parametrize("package", ["cryptography.hazmat.primitives.ciphers.aead", "keyring"])
def test_a_package_that_is_missing_is_named(
    local: Store, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Failure) as failure:
        Secrets(local, KeyInKeyring("x")).set_now("stripe", VALUE)
    assert "pip install" in refused(failure)


def key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


def test_a_container_is_given_its_key_and_rotates_in_two_steps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = key(), key()
    monkeypatch.setenv(VARIABLE, old)
    Secrets(store).set_now("stripe", VALUE)
    with pytest.raises(Failure) as failure:
        Secrets(store).rotate_now()
    message = refused(failure)
    assert "NEW,OLD" in message
    assert old not in message
    monkeypatch.setenv(VARIABLE, f"{new},{old}")
    assert Secrets(store).get_now("stripe") == VALUE
    assert Secrets(store).rotate_now() == 1
    monkeypatch.setenv(VARIABLE, new)
    assert Secrets(store).get_now("stripe") == VALUE
    monkeypatch.setenv(VARIABLE, old)
    with pytest.raises(Failure) as failure:
        Secrets(store).get_now("stripe")
    refused(failure)


KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@pytest.mark.parametrize("text", ["keyrnig", "files:", "c2hvcnQ=", "x" * 44, KEY + ",", "ä", KEY[:-2]])
def test_a_setting_that_makes_no_sense_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(Failure) as failure:
        master_key({VARIABLE: text}, Path("x"), "x")
    message = refused(failure)
    assert "file:PATH" in message
    assert text not in message


def test_the_settings_name_the_place(tmp_path: Path) -> None:
    places: list[MasterKey] = [
        master_key({VARIABLE: f"file:{tmp_path}/k"}, None, "x"),
        master_key({VARIABLE: " keyring:prod "}, None, "x"),
        master_key({}, tmp_path / "default", "x"),
    ]
    assert [place.name for place in places] == [f"{tmp_path}/k", "keyring:prod", f"{tmp_path}/default"]


def test_a_shared_database_needs_to_be_told_where_its_key_is(postgres_url: str) -> None:
    with open_store(url=postgres_url) as store, pytest.raises(Failure) as failure:
        Secrets(store)
    assert VARIABLE in refused(failure)


def test_apps_in_one_folder_have_keys_of_their_own(folder: Path) -> None:
    with open_store("one", data=folder) as one, open_store("two", data=folder) as two:
        Secrets(one).set_now("stripe", VALUE)
        Secrets(two).set_now("stripe", "two")
        Secrets(one).rotate_now()
        assert Secrets(two).get_now("stripe") == "two"


class Ran:
    """One run of `fairlead secrets`, in process."""

    def __init__(self, folder: Path, *argv: str, stdin: Any = "", app: App | None = None) -> None:
        typed = io.StringIO(stdin) if isinstance(stdin, str) else stdin
        console = Console(typed, io.StringIO(), io.StringIO(), {})
        arguments = ["secrets", *argv, "--data", str(folder)]
        with pytest.raises(SystemExit) as exit:
            main(arguments, console=console) if app is None else run(app, arguments, console=console)
        self.code = exit.value.code
        assert isinstance(console.stdout, io.StringIO)
        assert isinstance(console.stderr, io.StringIO)
        self.out, self.err = console.stdout.getvalue(), console.stderr.getvalue()
        assert VALUE not in self.out + self.err


def stored(folder: Path, name: str, app: str = "") -> str:
    with open_store(app, data=folder) as store:
        return Secrets(store).get_now(name)


def test_the_command_line_keeps_what_comes_on_stdin(folder: Path) -> None:
    assert Ran(folder, "set", "stripe", stdin=f"{VALUE}\n").code == 0
    assert stored(folder, "stripe") == VALUE
    assert Ran(folder, "set", "pem", "--json", stdin="two\nlines\r\n").out == '{\n  "name": "pem"\n}\n'
    assert stored(folder, "pem") == "two\nlines"


def test_the_command_line_lists_names_and_dates_only(folder: Path) -> None:
    Ran(folder, "set", "stripe", stdin=VALUE)
    listed = Ran(folder, "list", "--json")
    assert '"name": "stripe"' in listed.out
    assert '"updated": "20' in listed.out
    assert listed.out == Ran(folder, "list").out


def test_the_command_line_removes_and_rotates(folder: Path) -> None:
    Ran(folder, "set", "stripe", stdin=VALUE)
    Ran(folder, "set", "other", stdin="x")
    assert Ran(folder, "remove", "other").code == 0
    assert Ran(folder, "remove", "other").code == 4
    assert Ran(folder, "rotate").err.startswith("1 secret encrypted anew")
    assert Ran(folder, "rotate", "--json").out == '{\n  "secrets": 1\n}\n'
    assert stored(folder, "stripe") == VALUE


def test_a_value_on_the_command_line_is_refused_and_not_repeated(folder: Path) -> None:
    for argv in (("set", "stripe", VALUE), ("set", f"stripe={VALUE}"), ("set",), ("sett",), ("list", "x")):
        assert Ran(folder, *argv, stdin=VALUE).code == 2


def test_no_value_or_no_text_is_refused(folder: Path) -> None:
    assert Ran(folder, "set", "stripe", stdin="\n").code == 2
    raw = io.TextIOWrapper(io.BytesIO(VALUE.encode() + b"\xff"), encoding="utf-8")
    assert Ran(folder, "set", "stripe", stdin=raw).code == 2
    assert Ran(folder, "list").out == "[]\n"


def test_the_secrets_of_an_app_are_in_its_own_store(folder: Path) -> None:
    assert Ran(folder, "set", "stripe", stdin=VALUE, app=App("shop")).code == 0
    assert stored(folder, "stripe", "shop") == VALUE


def test_a_typed_value_is_asked_for_without_showing_it(folder: Path) -> None:
    """On a real terminal: what is typed does not come back."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "fairlead", "secrets", "set", "stripe", "--data", str(folder)]
    started = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, cwd=folder.parent
    )
    os.close(theirs)
    seen = b""
    with started, os.fdopen(ours, "r+b", buffering=0) as terminal:
        while b"not shown" not in seen:
            seen += terminal.read(4096)
        terminal.write(f"{VALUE}\n".encode())
        try:
            while part := terminal.read(4096):
                seen += part
        except OSError:
            pass  # Linux says so when the last writer has gone
        assert started.wait(40) == 0
    assert VALUE.encode() not in seen
    assert stored(folder, "stripe") == VALUE


async def test_secrets_serve_several_loops_and_threads(secrets: Secrets) -> None:
    await secrets.set("stripe", VALUE)
    found = await asyncio.gather(
        *(asyncio.to_thread(asyncio.run, secrets.get("stripe")) for _ in range(5)), secrets.get("stripe")
    )
    assert found == [VALUE] * 6
