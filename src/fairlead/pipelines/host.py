"""What a run has at hand besides its program: the app, the operator, the document root, and who hears telemetry."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairlead.pipelines.discretion import redactor_of

if TYPE_CHECKING:
    from fairlead.agents.operator import Operator
    from fairlead.pipelines.budgets import Budget
    from fairlead.pipelines.journals import Journal
    from fairlead.pipelines.live import Watch
    from fairlead.runtime import App

Listener = Callable[[dict[str, Any]], None]


@dataclass(eq=False, slots=True)
class Host:
    """The surroundings of a run."""

    app: App | None = None
    docroot: str | None = None
    operator: Operator | None = None
    #: Whether tools that need a yes get it without a question.
    auto_approve: bool = False
    listener: Listener | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    search_path: tuple[str, ...] = ()
    #: Who the calls of actions are made for.
    user: Any = None
    auth: Any = None
    #: The model of agents that name none.
    model: str | None = None
    #: How many pipelines this one was called through.
    depth: int = 0
    #: What the whole run may spend, as a block of `budget` says it; and the budget that it is a part of.
    limits: Mapping[str, Any] | None = None
    budget: Budget | None = None
    #: Where the steps of the run are kept.
    journal: Journal | None = None
    #: Who watches the run.
    watch: Watch | None = None
    counts: Counter[str] = field(default_factory=Counter)

    def counted(self, name: str, messages: int = 1) -> None:
        """Count messages at a place."""
        self.counts[name] += messages

    def tell(self, kind: str, source: str, **facts: Any) -> None:
        """Tell whoever listens what happened, without secrets."""
        if self.watch is None and self.listener is None:
            return
        facts = redactor_of(self.app).value(facts)
        if self.watch is not None:
            self.watch.events.append({"telemetry": kind, "source": source, **facts})
        if self.listener is not None:
            self.listener({"telemetry": kind, "source": source, **facts})
