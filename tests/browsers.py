"""The browser in which tests look at pages: which one it is, and one of it for all the tests of a process."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

#: The first of them is Chromium without its windows, which draws the same and starts with half the work.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def _path() -> str:
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.fail("Pages are tested in Chromium, and it is not here: run tests/needs.sh")
    return path


class KeptBrowser:
    """A browser that stays open between the modules that use it, each with contexts of its own."""

    def __init__(self) -> None:
        try:
            self._playwright = sync_playwright().start()
            self._loop = asyncio.get_running_loop()
            self._browser = self._started()
        finally:  # what could not be started fails those who asked for it, and nobody else
            self._let_others_run()

    @contextmanager
    def used(self) -> Iterator[Browser]:
        asyncio._set_running_loop(self._loop)
        try:
            if not self._browser.is_connected():
                self._browser = self._started()
            yield self._browser
            for context in self._browser.contexts:
                context.close()
        finally:
            self._let_others_run()

    def close(self) -> None:
        asyncio._set_running_loop(self._loop)
        self._browser.close()
        self._playwright.stop()

    def _started(self) -> Browser:
        return self._playwright.chromium.launch(
            executable_path=_path(), args=["--no-sandbox", "--disable-gpu"]
        )

    def _let_others_run(self) -> None:
        """Playwright's loop counts as running between its calls too, so that no test could run one of its own."""
        asyncio._set_running_loop(None)
