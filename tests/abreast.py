"""Runs the tests in several processes, each a copy of one that has collected them all.

Tests of one file stay together, so that what they share is made once. A copy says of a test how it went, and asks for
the next file before the last test of its own: what only the next needs is kept for it. One that dies fails the test
that it ran, and another takes the rest.
"""

from __future__ import annotations

import atexit
import mmap
import os
import signal
import struct
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

import pytest
from _pytest.capture import FDCapture


@dataclass
class Copy:
    """A process that runs tests, as the first one knows it."""

    pid: int
    #: What is being run, as a number that the process writes.
    at: mmap.mmap
    #: Files that it has been given, as their tests: the one that it is at, and the one that comes next.
    given: list[range] = field(default_factory=list)

    @property
    def running(self) -> int:
        """The test that it began last; -1 before the first."""
        number: int = struct.unpack("i", self.at[:4])[0]
        return number

    def give(self, tests: range) -> None:
        self.given = [*self.given[-1:], tests]

    def left(self) -> list[range]:
        """What it was given and has not begun."""
        for place, tests in enumerate(self.given):
            if self.running in tests:
                return [range(self.running + 1, tests.stop), *self.given[place + 1 :]]
        return self.given


def add_option(parser: pytest.Parser) -> None:
    words = "Run the tests in so many processes; `auto` is three more than there are processors."
    parser.addoption("--processes", metavar="N", default="1", help=words)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    if config.option.collectonly or session.testsfailed or (count := _count(config)) < 2:
        return None
    # Each process has a folder of its own in this one.
    config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    First(session).run(count)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


def _count(config: pytest.Config) -> int:
    """Some tests wait for what others do, or for a clock: three processes more than processors keep these busy."""
    given: str = config.option.processes
    return (os.cpu_count() or 1) + 3 if given == "auto" else int(given)


class First:
    """Gives out the tests, and hears how they went."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._hook = session.config.hook
        self._todo = deque(_files(session.items))
        self._copies: dict[Connection, Copy] = {}
        self._made = 0

    def run(self, count: int) -> None:
        try:
            for _ in range(min(count, len(self._todo))):
                self._start()
            while self._copies:
                for line in wait(list(self._copies)):
                    assert isinstance(line, Connection)
                    self._hear(line)
        finally:  # it was interrupted
            for copy in self._copies.values():
                os.kill(copy.pid, signal.SIGINT)
                os.waitpid(copy.pid, 0)

    def _start(self) -> None:
        ours, theirs = Pipe()
        at = mmap.mmap(-1, 4)
        at[:4] = struct.pack("i", -1)
        process, self._made = self._made, self._made + 1
        pid = os.fork()
        if pid == 0:
            for line in (ours, *self._copies):
                line.close()
            _serve(self._session, theirs, at, process)
        theirs.close()
        self._copies[ours] = Copy(pid, at)

    def _hear(self, line: Connection) -> None:
        copy = self._copies[line]
        try:
            told = line.recv()
        except (EOFError, OSError):
            self._ended(line, copy)
            return
        if told is not None:
            report = self._hook.pytest_report_from_serializable(config=self._session.config, data=told)
            self._hook.pytest_runtest_logreport(report=report)
            return
        over = not self._todo or self._session.shouldfail or self._session.shouldstop
        tests = range(0) if over else self._todo.popleft()
        copy.give(tests)
        with suppress(OSError):  # it died just now, which is seen next
            line.send(tests)

    def _ended(self, line: Connection, copy: Copy) -> None:
        del self._copies[line]
        line.close()
        _, status = os.waitpid(copy.pid, 0)
        if status == 0:
            return
        self._todo.extendleft(tests for tests in reversed(copy.left()) if tests)
        if copy.running < 0:
            raise self._session.Interrupted("A test process ended before its first test.")
        code = os.waitstatus_to_exitcode(status)
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        item = self._session.items[copy.running]
        report = pytest.TestReport(
            item.nodeid,
            item.location,
            {},
            "failed",
            f"The process that ran this test ended by {how}.",
            "call",
        )
        self._hook.pytest_runtest_logreport(report=report)
        if self._todo:
            self._start()


def _files(items: list[pytest.Item]) -> Iterator[range]:
    """The tests of each file, from one to another."""
    start = 0
    for _, tests in groupby(items, lambda item: item.path):
        stop = start + sum(1 for _ in tests)
        yield range(start, stop)
        start = stop


class Told:
    """Says how tests went: each that was called, and others where something is to be told of them."""

    def __init__(self, config: pytest.Config, line: Connection) -> None:
        self._config = config
        self._line = line

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            told = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
            self._line.send(told)


def _serve(session: pytest.Session, line: Connection, at: mmap.mmap, process: int) -> NoReturn:
    """Run tests for the first process, which this is a copy of, and end."""
    code = 1
    try:
        _settle(session.config, line, process)
        for test, following in _pairs(line):
            at[:4] = struct.pack("i", test)
            item, after = session.items[test], None if following is None else session.items[following]
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        atexit._run_exitfuncs()
        code = 0
    finally:
        os._exit(code)


def _settle(config: pytest.Config, line: Connection, process: int) -> None:
    """Have nothing in common with the first process: no screen, no file of what was printed, no folder."""
    plugins: Any = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(Told(config, line))
    for stream in vars(plugins.getplugin("capturemanager")._global_capturing).values():
        if isinstance(stream, FDCapture) and stream.targetfd:
            # The same numbers: modules have kept what was their stderr.
            with tempfile.TemporaryFile() as file:
                for number in (stream.tmpfile.fileno(), stream.targetfd):
                    os.dup2(file.fileno(), number)
    folders: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    folders._basetemp = folders.getbasetemp() / f"process-{process}"
    folders._basetemp.mkdir(mode=0o700)
    # Folders of earlier runs are taken away by the first process alone.
    folders._exit_stack.pop_all()


def _pairs(line: Connection) -> Iterator[tuple[int, int | None]]:
    """Each test with the one that follows it."""
    tests = _more(line)
    while tests:
        for test in tests[:-1]:
            yield test, test + 1
        following = _more(line)
        yield tests[-1], following[0] if following else None
        tests = following


def _more(line: Connection) -> range:
    line.send(None)
    tests: range = line.recv()
    return tests
