"""Answers that come late, for tests of pages whose questions may be answered in another order than they were asked."""

from __future__ import annotations

from playwright.sync_api import APIResponse, Page, Route


class Held:
    """The answer to a page's next question at an address, as it was when that was asked, until it is let go."""

    def __init__(self, page: Page, address: str) -> None:
        self._page = page
        self._route: Route | None = None
        self._answer: APIResponse | None = None
        page.route(address, self._hold, times=1)

    def _hold(self, route: Route) -> None:
        self._route = route

    def asked(self) -> Held:
        """Wait until the question has been asked, and answered by the server."""
        while self._route is None:
            self._page.wait_for_timeout(10)
        self._answer = self._route.fetch()
        return self

    def go(self) -> None:
        assert self._route is not None
        assert self._answer is not None
        self._route.fulfill(response=self._answer)
