"""Waking other processes on one SQLite file, whatever state they are in."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fairlead.store.doorbell import Doorbell
from others import Other
from servers import PATIENCE, until

HEARING = """
from pathlib import Path
from fairlead.store.doorbell import Doorbell
bell = Doorbell(Path(url), lambda topics: say(*sorted(topics)))
say("ready")
hear()
bell.close()
"""


class Rung:
    """What a doorbell has heard."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, topics: Sequence[str]) -> None:
        with self._changed:
            self.topics += topics
            self._changed.notify_all()

    def wait(self, topic: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: topic in self.topics, PATIENCE)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def bell(file: Path) -> Iterator[Doorbell]:
    bell = Doorbell(file, Rung())
    yield bell
    bell.close()


def test_neighbours_hear_of_topics(bell: Doorbell, file: Path, other: Callable[..., Other]) -> None:
    processes = [other(HEARING, str(file)) for _ in range(2)]
    assert [process.hear() for process in processes] == ["ready", "ready"]
    bell.ring(["b", "a"])
    assert [process.hear() for process in processes] == ["a b", "a b"]


def test_a_neighbour_that_comes_just_now_is_heard(file: Path) -> None:
    """The folder's clock is coarse: one that came in the same tick as the last look must be seen too."""
    heard = [Rung() for _ in range(20)]
    first = Doorbell(file, Rung())
    bells = [first]
    try:
        for number, rung in enumerate(heard):
            bells.append(Doorbell(file, rung))
            first.ring([f"topic {number}"])
            rung.wait(f"topic {number}")
    finally:
        for each in bells:
            each.close()


def test_a_dead_neighbours_socket_is_removed(bell: Doorbell, file: Path, other: Callable[..., Other]) -> None:
    process = other(HEARING, str(file))
    assert process.hear() == "ready"
    process.kill()
    assert len(os.listdir(bell.folder)) == 2
    bell.ring(["topic"])
    assert os.listdir(bell.folder) == [bell.name]


def test_the_last_to_leave_removes_the_folder(file: Path) -> None:
    bells = [Doorbell(file, Rung()) for _ in range(2)]
    for bell in bells:
        bell.close()
    assert not bells[0].folder.exists()


def test_a_neighbour_that_stands_still_holds_nobody_up_and_is_woken_when_it_goes_on(
    bell: Doorbell, file: Path, other: Callable[..., Other]
) -> None:
    awake, still = other(HEARING, str(file)), other(HEARING, str(file))
    assert [awake.hear(), still.hear()] == ["ready", "ready"]
    still.stop()
    # More than any queue of datagrams holds.
    for _ in range(3000):
        bell.ring(["flood"])
    bell.ring(["last"])
    heard: set[str] = set()
    while not heard & {"last", "*"}:
        heard.update(awake.hear().split())
    still.go_on()
    heard = set()
    while "*" not in heard:
        heard.update(still.hear().split())


def test_a_socket_that_somebody_removed_is_hung_up_again(file: Path) -> None:
    rung = Rung()
    one, two = Doorbell(file, Rung()), Doorbell(file, rung, look=0.01)
    try:
        os.unlink(two.folder / two.name)
        rung.wait("*")
        one.ring(["topic"])
        rung.wait("topic")
    finally:
        one.close()
        two.close()


def test_a_long_path_has_its_sockets_elsewhere(tmp_path: Path) -> None:
    file = tmp_path.joinpath(*["a-rather-long-name-of-a-folder"] * 4) / "s.db"
    file.parent.mkdir(parents=True)
    rung = Rung()
    one, two = Doorbell(file, Rung()), Doorbell(file, rung)
    try:
        one.ring(["topic"])
        rung.wait("topic")
        assert os.listdir(file.parent) == []
    finally:
        one.close()
        two.close()


def test_a_folder_others_can_write_to_is_not_used(file: Path) -> None:
    usual = Doorbell(file, Rung())
    usual.close()
    usual.folder.mkdir()
    usual.folder.chmod(0o777)
    try:
        bell = Doorbell(file, Rung())
    except OSError:
        pass
    else:
        bell.close()
        assert bell.folder != usual.folder
    finally:
        usual.folder.rmdir()


def test_many_topics_become_everything(file: Path) -> None:
    rung = Rung()
    one, two = Doorbell(file, Rung()), Doorbell(file, rung)
    try:
        one.ring([f"topic {number}" for number in range(5000)])
        rung.wait("*")
        until(lambda: rung.topics == ["*"], "more than everything was heard")
    finally:
        one.close()
        two.close()
