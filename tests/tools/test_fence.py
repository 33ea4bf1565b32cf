"""Nothing outside the fence is reached: by no spelling, through no link, and in no race."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fairlead.tools.fence import TEMPORARY, Changed, Fence, NotAFile, Outside

SECRET = b"the secret outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_bytes(SECRET)
    return folder


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "note.txt").write_bytes(b"inside")
    (folder / "a" / "deep.txt").write_bytes(b"deep")
    return folder


@pytest.fixture(autouse=True)
def _no_descriptor_is_left_open() -> Iterator[None]:
    before = os.listdir("/proc/self/fd")
    yield
    assert len(os.listdir("/proc/self/fd")) <= len(before)


def exchange(one: Path, other: Path) -> None:
    """Let two names change places, at once."""
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    assert ctypes.CDLL(None).renameat2(here, os.fsencode(one), here, os.fsencode(other), swap) == 0


def one_more(data: bytes) -> bytes:
    return b"%d" % (int(data) + 1)


def read(fence: Fence, path: str) -> bytes:
    return fence.read(path, 1 << 20)[0]


@pytest.mark.parametrize(
    "path",
    [
        "note.txt",
        "./note.txt",
        ".//note.txt",
        "a/../note.txt",
        "a/b/../../note.txt",
        "missing/../note.txt",
        "note.txt/",
        "{root}/note.txt",
        "/{root}/note.txt",
        "{root}//a/..//note.txt",
        "{root}/../root/note.txt",
    ],
)
def test_every_spelling_of_a_path_inside_reaches_the_file(root: Path, path: str) -> None:
    assert read(Fence(root), path.format(root=root)) == b"inside"


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret.txt",
        "a/../../outside/secret.txt",
        "a/b/../../../outside/secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "{root}/../outside/secret.txt",
        "{root}x/secret.txt",
        "/proc/self/cwd/note.txt",
        "/proc/self/root/etc/passwd",
        "/dev/zero",
        "/dev/stdin",
        "~/secret.txt",
        "~",
        "note.txt\0",
        "\0",
        "a\0/../../outside/secret.txt",
        "lone \ud800 surrogate",
    ],
)
@pytest.mark.parametrize("operation", ["read", "write", "delete", "stat", "folder", "rename", "remove_tree"])
def test_no_spelling_leads_outside(root: Path, outside: Path, path: str, operation: str) -> None:
    fence, path = Fence(root), path.format(root=root)
    operations: dict[str, Callable[[], object]] = {
        "read": lambda: read(fence, path),
        "write": lambda: fence.write(path, b"changed"),
        "delete": lambda: fence.delete(path),
        "stat": lambda: fence.stat(path),
        "folder": lambda: ExitStack().enter_context(fence.folder(path)),
        "rename": lambda: fence.rename("note.txt", path),
        "remove_tree": lambda: fence.remove_tree(path),
    }
    with pytest.raises(Outside):
        operations[operation]()
    assert (outside / "secret.txt").read_bytes() == SECRET
    assert sorted(os.listdir(outside)) == ["secret.txt"]


@pytest.mark.parametrize("path", ["a" * 5000, "a/" * 5000, "é" * 3000])
def test_a_path_that_is_too_long_is_refused_as_that(root: Path, path: str) -> None:
    with pytest.raises(OSError) as caught:
        read(Fence(root), path)
    assert caught.value.errno == errno.ENAMETOOLONG


def test_a_link_inside_is_followed(root: Path) -> None:
    (root / "relative").symlink_to("a/deep.txt")
    (root / "absolute").symlink_to(root / "a")
    (root / "a" / "up").symlink_to("../note.txt")
    (root / "a" / "round").symlink_to("b/../../a/./deep.txt")
    fence = Fence(root)
    assert read(fence, "relative") == b"deep"
    assert read(fence, "absolute/deep.txt") == b"deep"
    assert read(fence, "a/up") == b"inside"
    assert read(fence, "absolute/round") == b"deep"


@pytest.mark.parametrize(
    "target",
    ["{outside}", "../outside", "a/../../outside", "/proc/self/cwd", "/proc/self/root", "{root}/../outside"],
)
@pytest.mark.parametrize("depth", ["", "a/b/"])
def test_a_link_that_leads_outside_is_refused_for_everything(
    root: Path, outside: Path, target: str, depth: str
) -> None:
    up = "../" * depth.count("/") if target.startswith(("..", "a")) else ""
    (root / depth / "way").symlink_to(up + target.format(outside=outside, root=root))
    (root / "file").symlink_to(outside / "secret.txt")
    fence = Fence(root)
    for path in (f"{depth}way/secret.txt", f"{depth}way", "file"):
        with pytest.raises(Outside):
            read(fence, path)
        with pytest.raises(Outside):
            fence.stat(path)
        with pytest.raises(Outside):
            fence.write(path, b"changed")
    with pytest.raises(Outside):
        fence.delete(f"{depth}way/secret.txt")
    with pytest.raises(Outside):
        fence.write(f"{depth}way/new/file.txt", b"new")
    assert (outside / "secret.txt").read_bytes() == SECRET
    assert sorted(os.listdir(outside)) == ["secret.txt"]


def test_what_is_said_of_a_link_outside_does_not_depend_on_what_is_there(root: Path, outside: Path) -> None:
    (root / "there").symlink_to(outside / "secret.txt")
    (root / "not-there").symlink_to(outside / "nothing.txt")
    said = []
    for path in ("there", "not-there"):
        with pytest.raises(Outside) as caught:
            read(Fence(root), path)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    (root / "self").symlink_to("self/self")
    for path in ("one", "self", "one/x"):
        with pytest.raises(OSError) as caught:
            read(Fence(root), path)
        assert caught.value.errno == errno.ELOOP


def test_links_that_multiply_end(root: Path) -> None:
    (root / "l0").symlink_to("a")
    for number in range(1, 20):
        (root / f"l{number}").symlink_to("/".join([f"l{number - 1}", ".."] * 10) + f"/l{number - 1}")
    with pytest.raises(OSError) as caught:
        Fence(root).stat("l19")
    assert caught.value.errno == errno.ELOOP


def test_pipes_devices_and_sockets_are_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe")
    fence = Fence(root)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(root / "socket"))
        for name in ("pipe", "socket"):
            with pytest.raises(NotAFile):
                read(fence, name)
            with pytest.raises(NotAFile):
                fence.write(name, b"x")


def test_a_folder_is_no_file(root: Path) -> None:
    fence = Fence(root)
    for path in (".", "a"):
        with pytest.raises(IsADirectoryError):
            read(fence, path)
        with pytest.raises(IsADirectoryError):
            fence.write(path, b"x")
        with pytest.raises(IsADirectoryError):
            fence.delete(path)


def test_a_file_on_the_way_is_no_folder(root: Path) -> None:
    with pytest.raises(NotADirectoryError):
        read(Fence(root), "note.txt/inner")
    with pytest.raises(NotADirectoryError):
        Fence(root).write("note.txt/inner", b"x")


def test_writing_makes_the_folders_on_the_way(root: Path) -> None:
    done = Fence(root).write("new/deep/er/file.txt", [b"in ", b"parts"])
    assert done == (8, True)
    assert (root / "new/deep/er/file.txt").read_bytes() == b"in parts"


def test_writing_keeps_the_mode_and_the_link(root: Path) -> None:
    (root / "note.txt").chmod(0o640)
    (root / "link").symlink_to("note.txt")
    done = Fence(root).write("link", b"new")
    assert done == (3, False)
    assert (root / "link").is_symlink()
    assert (root / "note.txt").read_bytes() == b"new"
    assert (root / "note.txt").stat().st_mode & 0o7777 == 0o640


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(root: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError):
        Fence(root).write("note.txt", pieces())
    assert (root / "note.txt").read_bytes() == b"inside"
    assert [name for name in os.listdir(root) if name.startswith(TEMPORARY)] == []


def test_an_edit_over_a_change_that_was_not_seen_is_refused(root: Path) -> None:
    def change(data: bytes) -> bytes:
        (root / "note.txt").write_bytes(b"by another")
        return b"mine"

    with pytest.raises(Changed):
        Fence(root).edit("note.txt", 100, change)
    assert (root / "note.txt").read_bytes() == b"by another"
    assert [name for name in os.listdir(root) if name.startswith(TEMPORARY)] == []


def test_edits_at_the_same_time_are_all_made_whatever_the_spelling(root: Path) -> None:
    (root / "link").symlink_to("count")
    (root / "count").write_bytes(b"0")
    spellings = ["count", f"{root}/count", "link", "a/../count"]

    def work(spelling: str) -> None:
        for _ in range(25):
            Fence(root).edit(spelling, 100, one_more)

    threads = [threading.Thread(target=work, args=(each,)) for each in spellings]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert read(Fence(root), "count") == b"100"


def test_edits_of_two_programs_at_the_same_time_are_all_made(root: Path) -> None:
    (root / "count").write_bytes(b"0")
    other = (
        "import sys\nfrom fairlead.tools.fence import Fence\nprint(flush=True)\n"
        "for _ in range(50):\n    Fence(sys.argv[1]).edit('count', 100, lambda data: b'%d' % (int(data) + 1))"
    )
    with subprocess.Popen([sys.executable, "-c", other, str(root)], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        for _ in range(50):
            Fence(root).edit("count", 100, one_more)
    assert program.returncode == 0
    assert read(Fence(root), "count") == b"100"


def test_a_folder_that_somebody_never_lets_go_of_is_written_all_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.tools.fence_turns._PATIENCE", 0.01)
    handle = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        Fence(root).write("count", b"0")
        Fence(root).edit("count", 100, one_more)
    finally:
        os.close(handle)
    assert read(Fence(root), "count") == b"1"


def test_readers_see_the_old_or_the_new_and_never_a_part(root: Path) -> None:
    fence = Fence(root)
    contents = [bytes([letter]) * 200_000 for letter in b"abc"]
    fence.write("big", contents[0])
    done = threading.Event()
    seen: set[bytes] = set()

    def look() -> None:
        while not done.is_set():
            seen.add(read(fence, "big"))

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(60):
        fence.write("big", contents[number % 3])
    done.set()
    reader.join()
    assert seen <= set(contents)


def test_deleting_a_link_leaves_what_it_leads_to(root: Path, outside: Path) -> None:
    (root / "way").symlink_to(outside / "secret.txt")
    Fence(root).delete("way")
    assert not os.path.lexists(root / "way")
    assert (outside / "secret.txt").read_bytes() == SECRET


def test_removing_a_tree_follows_no_link(root: Path, outside: Path) -> None:
    (root / "a" / "way").symlink_to(outside)
    Fence(root).remove_tree("a")
    assert not (root / "a").exists()
    assert (outside / "secret.txt").read_bytes() == SECRET


def test_a_tree_has_its_files_in_order_and_follows_no_link(root: Path, outside: Path) -> None:
    (root / "way").symlink_to(outside)
    (root / "back").symlink_to(".")
    os.mkfifo(root / "pipe")
    found = [each.path for each in Fence(root).tree(".", lambda path, is_folder, folder: False)]
    assert found == ["a/deep.txt", "note.txt"]


def test_a_root_that_is_a_link_is_what_it_leads_to(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    fence = Fence(tmp_path / "alias")
    assert read(fence, str(tmp_path / "alias" / "note.txt")) == b"inside"
    assert read(fence, str(root / "note.txt")) == b"inside"


_PIECES = st.sampled_from(
    ["..", ".", "", "a", "b", "note.txt", "out", "in", "up", "~", "\0", "é", "\u202e", "\uff0f", "..\u2215"]
) | st.text(max_size=4)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    names=st.lists(_PIECES, max_size=8), lead=st.sampled_from(["", "/", "//", "~/", "{root}/", "{outside}/"])
)
@example(names=["out", "..", "root", "note.txt"], lead="")
@example(names=["secret.txt"], lead="{outside}/")
def test_whatever_the_spelling_nothing_outside_is_read_or_written(
    root: Path, outside: Path, names: list[str], lead: str
) -> None:
    for name, target in (("out", str(outside)), ("in", "a"), ("up", "..")):
        if not os.path.lexists(root / name):
            (root / name).symlink_to(target)
    fence = Fence(root)
    path = lead.format(root=root, outside=outside) + "/".join(names)
    try:
        assert read(fence, path) != SECRET
        fence.write(path, b"written")
    except (Outside, OSError):
        pass
    assert (outside / "secret.txt").read_bytes() == SECRET
    assert sorted(os.listdir(outside)) == ["secret.txt"]
    assert sorted(os.listdir(root.parent)) == ["outside", "root"]


def test_a_folder_that_is_swapped_for_a_link_in_a_loop_never_leads_outside(root: Path, outside: Path) -> None:
    """One thread swaps, others read, write, list and delete through the name that is swapped."""
    (root / "door").mkdir()
    (root / "door" / "secret.txt").write_bytes(b"inside")
    (root / "way").symlink_to(outside)
    fence, done = Fence(root), threading.Event()
    wrong: list[object] = []
    reached = {"inside": 0, "refused": 0}

    def swap() -> None:
        while not done.is_set():
            exchange(root / "door", root / "way")

    def use(number: int) -> None:
        for turn in range(400):
            try:
                if read(fence, "door/secret.txt") == SECRET:
                    wrong.append("read")
                reached["inside"] += 1
            except (Outside, OSError):
                reached["refused"] += 1
            try:
                fence.write(f"door/new-{number}/{turn}.txt", b"x")
                fence.write("door/secret.txt", b"inside")
            except (Outside, OSError):
                pass
            try:
                with fence.folder("door") as handle:
                    if "marker" in os.listdir(handle):
                        wrong.append("list")
                fence.delete("door/marker")
            except (Outside, OSError):
                pass

    (outside / "marker").write_bytes(b"")
    swapping = threading.Thread(target=swap)
    users = [threading.Thread(target=use, args=(number,)) for number in range(3)]
    for thread in (swapping, *users):
        thread.start()
    for thread in users:
        thread.join()
    done.set()
    swapping.join()
    assert wrong == []
    assert sorted(os.listdir(outside)) == ["marker", "secret.txt"]
    assert (outside / "secret.txt").read_bytes() == SECRET
    assert reached["inside"] > 0


def test_a_file_that_is_swapped_for_a_pipe_never_blocks(root: Path) -> None:
    os.mkfifo(root / "pipe")
    fence, done = Fence(root), threading.Event()

    def swap() -> None:
        while not done.is_set():
            exchange(root / "note.txt", root / "pipe")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(2000):
            with suppress(NotAFile):
                assert read(fence, "note.txt") == b"inside"
    finally:
        done.set()
        swapping.join()
