"""`Toolbox`: tools on demand, for a model that would otherwise be told of too many.

Few tools are all shown. Many are put away: the model is told of two actions, one that searches the box and one
that takes tools out of it. What is taken out stays out for the conversation, and can be used at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from fairlead._json import encode
from fairlead.actions import Action
from fairlead.actions.policy import near_miss
from fairlead.failures.tool import NotFound, Unavailable
from fairlead.runtime import Context
from fairlead.tools.session import SESSION, Session
from fairlead.tools.toolbox_index import Index

AnyAction = Action[..., Any]

SEARCH: Final = "capabilities_search"
LOAD: Final = "capabilities_load"
#: What a session keeps is found under this name: the names of the tools that were taken out, the oldest first.
KEPT: Final = "toolbox"
_BYTES_PER_TOKEN: Final = 4
_LONGEST_LINE: Final = 300
_MOST_AT_ONCE: Final = 16


class Toolbox:
    """Actions, and which of them a conversation sees.

    Args:
        actions: All tools.
        always: Names of those that are always shown.
        most: More tools than this are put away.
        budget: So are tools whose definitions take more tokens than this.
        most_loaded: At most so many are out at a time; the oldest goes back in.
    """

    def __init__(
        self,
        actions: Iterable[AnyAction],
        *,
        always: Iterable[str] = (),
        most: int = 40,
        budget: int = 12_000,
        most_loaded: int = 32,
    ) -> None:
        self.most = most
        self.budget = budget
        self.most_loaded = most_loaded
        self._always = tuple(always)
        #: The two actions by which a model reaches the others.
        self.actions: list[AnyAction] = [
            Action(self._search, name=SEARCH, side_effects="read", idempotency="idempotent"),
            Action(self._load, name=LOAD, side_effects="read", idempotency="idempotent"),
        ]
        self.replace(actions)

    def replace(self, actions: Iterable[AnyAction]) -> None:
        """Have other tools from now on; those that were taken out and are still there stay out."""
        self._all = {action.name: action for action in actions}
        self._index: Index | None = None
        #: About how many tokens the definitions of all of them take.
        self.tokens = sum(map(_tokens, self._all.values()))
        #: Whether the tools are put away.
        self.needed = len(self._all) > self.most or self.tokens > self.budget
        shown = [self._all[name] for name in self._always if name in self._all]
        self._shown = tuple([*shown, *self.actions] if self.needed else self._all.values())
        self._offers: dict[tuple[str, ...], tuple[AnyAction, ...]] = {}

    def find(self, name: str) -> AnyAction | None:
        """A tool by its name, out of the box or not."""
        return self._all.get(name)

    def loaded(self, session: Session | None) -> tuple[AnyAction, ...]:
        """The tools that the conversation has taken out, the oldest first."""
        names = () if session is None else session.kept.get(KEPT, ())
        return tuple(self._all[name] for name in names if name in self._all)

    def offered(self, session: Session | None) -> tuple[AnyAction, ...]:
        """What a model is to be told of now. As long as nothing changes, the very same tuple."""
        if not self.needed or session is None or not session.kept.get(KEPT):
            return self._shown
        names = tuple(session.kept[KEPT])
        offer = self._offers.get(names)
        if offer is None:
            if len(self._offers) > 1_000:
                self._offers.clear()
            known = {action.name for action in self._shown}
            more = tuple(each for each in self.loaded(session) if each.name not in known)
            offer = self._offers[names] = self._shown + more
        return offer

    def search(self, query: str, limit: int = 8) -> list[AnyAction]:
        """The tools that a query means, the best first."""
        if self._index is None:
            self._index = Index(self._all.values())
        return [self._all[name] for name in self._index.search(query, limit)]

    def load(self, session: Session, names: Sequence[str]) -> list[AnyAction]:
        """Take tools out for a conversation; gives those that there are."""
        found = [self._all[name] for name in dict.fromkeys(names) if name in self._all]
        taken = [action.name for action in found]
        before = [name for name in session.kept.get(KEPT, ()) if name not in taken]
        session.kept[KEPT] = [*before, *taken][-self.most_loaded :]
        return found

    async def _search(
        self,
        query: Annotated[
            str, Field(min_length=1, max_length=500, description="What you want to do, in a few words.")
        ],
        limit: Annotated[int, Field(ge=1, le=50, description="At most so many results.")] = 8,
    ) -> dict[str, Any]:
        """Search for tools that you have not been given yet, by what they do. Load the fitting ones then."""
        session = SESSION.get()
        out = {action.name for action in (*self._shown, *self.loaded(session))}
        found = [
            {"name": action.name, "description": _line(action.description), "loaded": action.name in out}
            for action in self.search(query, limit)
        ]
        told: dict[str, Any] = {"results": found, "total": len(self._all)}
        if not found:
            told["hint"] = "Nothing fits. Try other words for what you want to do: a verb and a thing."
        return told

    async def _load(
        self,
        names: Annotated[
            list[str],
            Field(
                min_length=1, max_length=_MOST_AT_ONCE, description="The names of tools that a search gave."
            ),
        ],
        ctx: Context,
    ) -> dict[str, Any]:
        """Load tools by name, so that you can call them from now on."""
        session = SESSION.get()
        if session is None:
            raise Unavailable(
                "Tools are loaded for a conversation, and this call is not part of one. Call them directly."
            )
        before = {action.name for action in self.loaded(session)}
        found = self.load(session, names)
        missing = [name for name in dict.fromkeys(names) if name not in self._all]
        hints = [f"{name!r} is no tool.{near_miss(name, self._all)}" for name in missing]
        if not found:
            raise NotFound(" ".join([*hints, f"Search with {SEARCH} first."]), field="names")
        for hint in hints:
            ctx.warn(hint)
        back = before - set(session.kept[KEPT])
        told: dict[str, Any] = {
            "loaded": [{"name": each.name, "description": _line(each.description)} for each in found]
        }
        return {**told, "unloaded": sorted(back)} if back else told


def _line(text: str) -> str:
    first = " ".join(text.split("\n\n")[0].split())
    return first if len(first) <= _LONGEST_LINE else f"{first[: _LONGEST_LINE - 1]}…"


def _tokens(action: AnyAction) -> int:
    size = len(action.name) + len(action.description) + len(encode(action.input.json_schema))
    return -(-size // _BYTES_PER_TOKEN)
