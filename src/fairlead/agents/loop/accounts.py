"""`Account`: what a run has used of what it may, together with the runs of agents that are its tools."""

from __future__ import annotations

from fairlead.agents.loop.policy import Limits, Spent
from fairlead.agents.models.model import Usage


class Account:
    """The account of one run. What a run that is its tool uses counts here from its first step on."""

    # Most runs need none of these: what is not set on the way keeps its default here.
    #: About how many tokens the model is being asked with.
    asked = 0
    #: The limit that was found used up: its own, or that of a run above.
    limit: float = 0
    above: Account | None = None
    _below: tuple[Account, ...] = ()

    def __init__(self, limits: Limits, spent: Spent, above: Account | None = None) -> None:
        self._limits = limits
        #: What is paid for already: its own steps, and runs that are over.
        self.usage = spent.usage
        #: Calls of tools that were let through.
        self.calls = spent.calls
        if above is not None:
            self.above = above
            above._below += (self,)

    @property
    def bounded(self) -> bool:
        """Whether anything but the steps is counted, here or above."""
        return self._limits.bounded or (self.above is not None and self.above.bounded)

    @property
    def priced(self) -> bool:
        """Whether it counts what a step costs."""
        return self._limits.cost is not None or (self.above is not None and self.above.priced)

    def close(self, *, paid: bool) -> None:
        """The run is over, and the one above pays for it; one that is only paused pays when it goes on."""
        above = self.above
        if above is not None:
            above._below = tuple(each for each in above._below if each is not self)
            if paid:
                above.usage += self._used()
                above.calls += self._called()

    def over(self) -> str | None:
        """Whether the tokens or the cost are used up, here or above."""
        account: Account | None = self
        while account is not None:
            tokens, cost = account._limits.tokens, account._limits.cost
            if tokens is not None and account._used().tokens + account._asking() >= tokens:
                self.limit = tokens
                return "tokens"
            if cost is not None and account._used().cost >= cost:
                self.limit = cost
                return "cost"
            account = account.above
        return None

    def no_more_calls(self) -> bool:
        """Whether the calls of tools are used up, here or above."""
        account: Account | None = self
        while account is not None:
            most = account._limits.tool_calls
            if most is not None and account._called() >= most:
                self.limit = most
                return True
            account = account.above
        return False

    def _used(self) -> Usage:
        return sum((each._used() for each in self._below), self.usage)

    def _called(self) -> int:
        return sum((each._called() for each in self._below), self.calls)

    def _asking(self) -> int:
        return sum((each._asking() for each in self._below), self.asked)
