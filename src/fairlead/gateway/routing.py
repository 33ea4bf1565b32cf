"""From a method and a path to a route. The path is matched as it was sent: an encoded slash is part of an id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from fairlead.gateway.call import Route

#: The branch for any step: what no step can be, as steps are what is between slashes.
_ANY: Final = "/"
#: Paths that are remembered, and how long one of them may be.
_MOST: Final = 1000
_LONGEST: Final = 200


class Match(NamedTuple):
    """A route, and the parts of the path that it names."""

    route: Route
    params: dict[str, str]


class Router:
    """Routes in a tree, by the steps of their paths."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root: dict[str, Any] = {}
        #: Routes of paths that came before.
        self._known: dict[tuple[str, str], Match] = {}
        for route in routes:
            node = self._root
            for step in route.path.strip("/").split("/"):
                node = node.setdefault(_ANY if step.startswith("{") else step, {})
            names = [step[1:-1] for step in route.path.strip("/").split("/") if step.startswith("{")]
            node.setdefault("", {})[route.method] = (route, names)

    def find(self, method: str, path: str) -> Match | list[str] | None:
        """The route; the methods that the path does take, where it does not take this one; None for no such path."""
        known = self._known.get((method, path))
        if known is not None:
            return known
        node, values = self._root, []
        for step in path.strip("/").split("/"):
            following = node.get(step) if step else None
            if following is None:
                following = node.get(_ANY)
                if following is None or not step:
                    return None
                values.append(unquote(step))
            node = following
        served = node.get("")
        if not served:
            return None
        found = served.get(method)
        if found is None:
            return sorted(served)
        route, names = found
        match = Match(route, dict(zip(names, values, strict=True)))
        if len(path) <= _LONGEST:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[method, path] = match
        return match
