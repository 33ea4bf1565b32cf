"""The revisions of the protocol that are spoken here, and what each has that others have not."""

from __future__ import annotations

from typing import Final, NamedTuple


class Revision(NamedTuple):
    """One published revision. A flag names the first thing that came with it; its neighbours came along."""

    name: str
    #: JSON-RPC batches, which one revision had.
    batches: bool = False
    #: Tool annotations and audio.
    annotates: bool = False
    #: Titles, output schemas, structured content, resource links, and `_meta` on what is listed.
    structures: bool = False
    #: Questions to the person at the client, by `elicitation/create`.
    elicits: bool = False
    #: Streams that begin with an empty event, so that a client can come back to them.
    primes: bool = False
    #: Requests that carry all there is to know about their client: no handshake, no session.
    stateless: bool = False


R2024_11: Final = Revision("2024-11-05")
R2025_03: Final = Revision("2025-03-26", batches=True, annotates=True)
R2025_06: Final = Revision("2025-06-18", annotates=True, structures=True, elicits=True)
R2025_11: Final = Revision("2025-11-25", annotates=True, structures=True, elicits=True, primes=True)
R2026_07: Final = Revision("2026-07-28", annotates=True, structures=True, elicits=True, stateless=True)

#: Reached by `initialize`, oldest first.
HANDSHAKE: Final = {revision.name: revision for revision in (R2024_11, R2025_03, R2025_06, R2025_11)}
#: Named by every request.
STATELESS: Final = {R2026_07.name: R2026_07}
REVISIONS: Final = {**HANDSHAKE, **STATELESS}
#: Newest first, as they are offered.
SUPPORTED: Final = tuple(reversed(REVISIONS))


def negotiate(asked: object) -> Revision:
    """The revision to speak with a client that asked for one in its handshake: that one, or our newest."""
    return HANDSHAKE.get(asked, R2025_11) if isinstance(asked, str) else R2025_11
