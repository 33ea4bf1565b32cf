"""Who is at the other end: the revision it speaks, what it can do, and how much it wants to hear."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice
from typing import Any, Final

from fairlead.surfaces.mcp.revisions import R2025_11, R2026_07, REVISIONS, STATELESS, SUPPORTED, Revision
from fairlead.surfaces.mcp.rpc import INVALID_PARAMS, UNSUPPORTED_VERSION, RpcError

RESERVED: Final = "io.modelcontextprotocol/"
VERSION: Final = RESERVED + "protocolVersion"
CLIENT_INFO: Final = RESERVED + "clientInfo"
CLIENT_CAPABILITIES: Final = RESERVED + "clientCapabilities"
LOG_LEVEL: Final = RESERVED + "logLevel"
SERVER_INFO: Final = RESERVED + "serverInfo"
SUBSCRIPTION: Final = RESERVED + "subscriptionId"

#: From the most talkative on, with the words of our own logs among them.
LEVELS: Final = {
    name: rank
    for rank, names in enumerate((
        ("debug",), ("info",), ("notice",), ("warning", "warn"), ("error",), ("critical",), ("alert",),
        ("emergency",),
    ))
    for name in names
}  # fmt: skip
SILENT: Final = len(LEVELS)
#: What is kept of a client for as long as its session: these of its words, so long at most.
_WORDS: Final = ("name", "title", "version", "description", "websiteUrl")
_LONGEST_WORD: Final = 200
#: And so many names of capabilities and their modes, beginning with those that are read here.
_MOST_FLAGS: Final = 64
_LONGEST_FLAG: Final = 64
_READ: Final = ("elicitation", "sampling", "roots")


class Peer:
    """A client, as far as it has said who it is."""

    __slots__ = ("capabilities", "info", "revision", "threshold")

    def __init__(
        self,
        revision: Revision = R2025_11,
        capabilities: Mapping[str, Any] | None = None,
        info: Mapping[str, Any] | None = None,
        threshold: int = LEVELS["info"],
    ) -> None:
        self.revision = revision
        self.capabilities: Mapping[str, Any] = capabilities or {}
        self.info: Mapping[str, Any] = info or {}
        #: Logs below this rank are not sent.
        self.threshold = threshold

    def can(self, capability: str) -> bool:
        """Whether the client has said that it can; `elicitation` means by a form, `elicitation.url` by a link."""
        name, _, mode = capability.partition(".")
        said = self.capabilities.get(name)
        if not isinstance(said, Mapping):
            return False
        if name != "elicitation":
            return not mode or isinstance(said.get(mode), Mapping)
        if not self.revision.elicits:
            return False
        return "url" in said if mode == "url" else "form" in said or "url" not in said


def session_peer(revision: Revision, capabilities: object, info: object) -> Peer:
    """The client that begins a session. What it says is cut down: a stranger may begin thousands."""
    return Peer(revision, _flags(capabilities), _words(info))


def _flags(said: object) -> dict[str, dict[str, Any]]:
    """Which capabilities there are, and which modes of each; what is said of those is not kept."""
    if type(said) is not dict:
        return {}
    kept: dict[str, dict[str, Any]] = {}
    left = _MOST_FLAGS
    for name in chain((name for name in _READ if name in said), islice(said, _MOST_FLAGS)):
        modes = said[name]
        if left > 0 and name not in kept and type(modes) is dict and len(name) <= _LONGEST_FLAG:
            kept[name] = {
                mode: {} if type(value) is dict else value
                for mode, value in islice(modes.items(), left)
                if type(value) in (dict, bool) and len(mode) <= _LONGEST_FLAG
            }
            left -= 1 + len(kept[name])
    return kept


def _words(said: object) -> dict[str, str]:
    if type(said) is not dict:
        return {}
    return {word: said[word][:_LONGEST_WORD] for word in _WORDS if type(said.get(word)) is str}


def names_itself(meta: object) -> bool:
    """Whether a request's `_meta` has what only stateless requests have."""
    return type(meta) is dict and (VERSION in meta or CLIENT_CAPABILITIES in meta)


def stateless_peer(meta: Any) -> Peer:
    """The client that a stateless request describes. Raises RpcError where it does not."""
    if type(meta) is not dict:
        raise _incomplete("_meta")
    version = meta.get(VERSION)
    if type(version) is not str:
        raise _incomplete(VERSION)
    revision = STATELESS.get(version)
    if revision is None:
        raise unsupported(version)
    capabilities = meta.get(CLIENT_CAPABILITIES)
    if type(capabilities) is not dict:
        raise _incomplete(CLIENT_CAPABILITIES)
    info = meta.get(CLIENT_INFO)
    level = meta.get(LOG_LEVEL)
    if level is not None and (type(level) is not str or level not in LEVELS):
        raise RpcError(INVALID_PARAMS, f"{LOG_LEVEL} is no log level. Levels are {', '.join(LEVELS)}.")
    return Peer(
        revision,
        capabilities,
        info if type(info) is dict else None,
        SILENT if level is None else LEVELS[level],
    )


def unsupported(version: str) -> RpcError:
    known = "it begins with initialize" if version in REVISIONS else "it is not known here"
    return RpcError(
        UNSUPPORTED_VERSION,
        f"Unsupported protocol version: {known}. Requests that name theirs can name {R2026_07.name}.",
        {"supported": list(SUPPORTED), "requested": version[:100]},
    )


def _incomplete(what: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"Invalid params: the request's {what} is missing or of the wrong type.")
