"""Pipelines while they run, for those who watch: what flows, what waits, what was spent, what went wrong and where.

An app is watched once somebody asks to; then each process of a pipeline counts its messages, which costs some speed.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from fairlead.failures import Failure
from fairlead.failures import runtime as wire
from fairlead.pipelines.program import Process

if TYPE_CHECKING:
    from fairlead.actions import Action
    from fairlead.pipelines.running import Run
    from fairlead.runtime import App

#: What an action's metadata says of a pipeline.
MARK: Final = "pipeline"
#: Runs and events of a pipeline that are remembered.
_RUNS: Final = 20
_EVENTS: Final = 50

_PROCESSES: WeakKeyDictionary[Action[..., Any], Process] = WeakKeyDictionary()
_WATCHED: WeakKeyDictionary[App, Live] = WeakKeyDictionary()


def known_as(action: Action[..., Any], process: Process) -> None:
    """Remember which pipeline an action runs."""
    _PROCESSES[action] = process


@dataclass(eq=False, slots=True)
class Watch:
    """One run that is watched."""

    number: int
    started: float
    run: Run | None = None
    failure: Failure | None = None
    #: Whether it was ended before it was over: its call was cancelled, or its time was up.
    stopped: bool = False
    last: dict[str, Any] = field(default_factory=dict)
    events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_EVENTS))

    def stop(self) -> None:
        """The run is ended from outside."""
        self.stopped = self.run is not None

    def ended(self, failure: Failure | None) -> None:
        """The run is over; what it was like stays."""
        self.failure = failure
        self.last = self._now()
        self.run = None

    def _now(self) -> dict[str, Any]:
        run = self.run
        return self.last if run is None else {"nodes": run.nodes(), "budgets": run.accounts()}

    def _state(self) -> str:
        if self.run is not None:
            return "running"
        if self.failure is not None:
            return "failed"
        return "stopped" if self.stopped else "done"

    def told(self) -> dict[str, Any]:
        """The run as it is now."""
        told = {"number": self.number, "started": self.started, "state": self._state(), **self._now()}
        if self.failure is not None:
            told["failure"] = wire.render(self.failure)
            where = self.failure.details.get("source")
            for node in told["nodes"].values():
                if where is not None and where in node["names"]:
                    node["failure"] = told["failure"]["error"]
        return {**told, "events": list(self.events)}


class View:
    """A pipeline, its picture, and its latest runs."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.runs: deque[Watch] = deque(maxlen=_RUNS)

    @cached_property
    def picture(self) -> list[Any]:
        """The picture as a tree: tag, attributes, children; a text is a text."""
        from xml.etree import ElementTree

        from fairlead.pipelines.rendering import render

        return _tree(ElementTree.fromstring(render(self.process, "svg")))  # noqa: S314 - we have just written it


class Live:
    """The pipelines of an app that is watched."""

    def __init__(self, app: App) -> None:
        self._wall = app.wall
        self._numbers = itertools.count(1)
        self._views: dict[str, View] = {}

    @classmethod
    def of(cls, app: App) -> Live:
        """Watch an app, from now on."""
        found = _WATCHED.get(app)
        if found is None:
            found = _WATCHED[app] = cls(app)
        return found

    def views(self, app: App) -> list[View]:
        """The pipelines that the app has now."""
        views = {}
        for action in app.catalogue:
            process = _PROCESSES.get(action)
            if process is not None:
                known = self._views.get(action.name)
                same = known is not None and known.process is process
                views[action.name] = known if known is not None and same else View(action.name, process)
        self._views = views
        return list(views.values())

    def begin(self, view: View) -> Watch:
        """A run begins."""
        watch = Watch(next(self._numbers), self._wall())
        view.runs.append(watch)
        return watch


def watch_for(app: App, name: str) -> Watch | None:
    """The watch for a run of a pipeline that begins now; None where nobody watches."""
    live = _WATCHED.get(app)
    if live is None:
        return None
    view = next((each for each in live.views(app) if each.name == name), None)
    return None if view is None else live.begin(view)


def _tree(element: Any) -> list[Any]:
    tag = element.tag.rpartition("}")[2]
    children: list[Any] = [element.text] if element.text and element.text.strip() else []
    return [tag, dict(element.attrib), [*children, *(_tree(each) for each in element)]]
