"""The methods of the protocol: which there are in which era, and what each answers.

A method takes the exchange and gives its result, at once or when awaited; or it raises RpcError.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairlead import _json
from fairlead.surfaces.mcp import rpc
from fairlead.surfaces.mcp.artifacts import PREFIX, TEMPLATE
from fairlead.surfaces.mcp.calling import call_tool
from fairlead.surfaces.mcp.exchange import Exchange
from fairlead.surfaces.mcp.paging import Pages
from fairlead.surfaces.mcp.peer import LEVELS, SERVER_INFO, SUBSCRIPTION
from fairlead.surfaces.mcp.revisions import SUPPORTED
from fairlead.surfaces.mcp.rpc import INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError
from fairlead.surfaces.mcp.subscriptions import LISTS, MOST, Subscription

AtOnce = Callable[[Exchange], rpc.Result]
InTime = Callable[[Exchange], Coroutine[Any, Any, rpc.Result]]

MANIFEST: Final = "fairlead://manifest"
GUIDE: Final = "fairlead://guide"
#: For how long a client may go by what it was told, in milliseconds. It hears of changes, if it listens.
_FRESH: Final = 60_000


def discover(exchange: Exchange) -> rpc.Result:
    from fairlead.surfaces.mcp.server import CAPABILITIES

    told: dict[str, Any] = {"supportedVersions": list(SUPPORTED), "capabilities": CAPABILITIES}
    if exchange.server.instructions:
        told["instructions"] = exchange.server.instructions
    return _cacheable(exchange, told)


def ping(exchange: Exchange) -> rpc.Result:
    return {}


def list_tools(exchange: Exchange) -> rpc.Result:
    view = exchange.view
    revision = exchange.peer.revision
    return _listed(
        exchange, "tools", list(view.tools), lambda names: [view.tools[n].describe(revision) for n in names]
    )


def list_prompts(exchange: Exchange) -> rpc.Result:
    from fairlead.surfaces.mcp.prompts import describe

    prompts = exchange.view.prompts
    titled = exchange.peer.revision.structures
    return _listed(
        exchange, "prompts", list(prompts), lambda names: [describe(prompts[n], titled) for n in names]
    )


def list_templates(exchange: Exchange) -> rpc.Result:
    titled = exchange.peer.revision.structures
    own = exchange.server.own_resources
    templates = [uri for uri, resource in own.items() if resource.is_template]
    artifacts = {
        "uriTemplate": TEMPLATE,
        "name": "artifacts",
        "description": "What calls have made; their results say the URIs.",
    }

    def described(uris: Sequence[str]) -> list[dict[str, Any]]:
        return [own[uri].describe(titled) if uri in own else artifacts for uri in uris]

    return _listed(exchange, "resourceTemplates", [*templates, TEMPLATE], described)


def list_resources(exchange: Exchange) -> rpc.Result:
    server = exchange.server
    titled = exchange.peer.revision.structures
    entries = [
        resource.describe(titled) for resource in server.own_resources.values() if not resource.is_template
    ]
    entries += _app_resources(server.name)
    entries += [kept.describe() for kept in server.shelf.of(exchange.caller_key)]
    pages = Pages("resources", entries, [entry["uri"] for entry in entries], server.page_size)
    page, cursor = pages.page(pages.start(exchange.params))
    told: dict[str, Any] = {"resources": list(page)}
    if cursor is not None:
        told["nextCursor"] = cursor
    return _cacheable(exchange, told)


async def read_resource(exchange: Exchange) -> rpc.Result:
    from fairlead.surfaces.mcp.functions import Unanswered

    uri = exchange.params.get("uri")
    if type(uri) is not str:
        raise RpcError(INVALID_PARAMS, "Invalid params: give the URI of the resource to read, as a string.")
    try:
        contents = await _read(exchange, uri)
    except Unanswered:
        return exchange.input_required()
    return _cacheable(exchange, {"contents": [contents]})


async def get_prompt(exchange: Exchange) -> rpc.Result:
    from fairlead.surfaces.mcp.functions import Unanswered
    from fairlead.surfaces.mcp.prompts import given

    name = exchange.params.get("name")
    prompt = exchange.view.prompts.get(name) if type(name) is str else None
    if prompt is None:
        raise RpcError(INVALID_PARAMS, "Unknown prompt: the server has none of this name.")
    arguments = given(exchange.params)
    try:
        messages = await prompt.messages(exchange, arguments)
    except Unanswered:
        return exchange.input_required()
    return _complete(exchange, {"description": prompt.description, "messages": messages})


def complete(exchange: Exchange) -> rpc.Result:
    from fairlead.surfaces.mcp.completion import complete

    return _complete(exchange, {"completion": complete(exchange.view, exchange.params)})


async def listen(exchange: Exchange) -> rpc.Result:
    """Tell the client what it asked to be told, until one of us goes."""
    wanted = exchange.params.get("notifications")
    if type(wanted) is not dict:
        raise RpcError(INVALID_PARAMS, "Invalid params: say which notifications to listen for.")
    uris = wanted.get("resourceSubscriptions", [])
    if type(uris) is not list or len(uris) > MOST or not all(type(uri) is str for uri in uris):
        raise RpcError(INVALID_PARAMS, f"resourceSubscriptions is a list of at most {MOST} URIs.")
    lists = [name for name in LISTS if wanted.get(name) is True]
    subscription = Subscription(exchange.server, lists, exchange.sink, exchange.request[0])
    try:
        for uri in uris:
            subscription.watch(uri)
        pending = exchange.sink(subscription.acknowledge())
        if pending is not None:
            await pending
        await subscription.ended
    finally:
        subscription.close()
    about = {SERVER_INFO: exchange.server.info, SUBSCRIPTION: exchange.request[0]}
    return {"resultType": "complete", "_meta": about}


def set_level(exchange: Exchange) -> rpc.Result:
    level = exchange.params.get("level")
    if type(level) is not str or level not in LEVELS or level == "warn":
        known = ", ".join(name for name in LEVELS if name != "warn")
        raise RpcError(INVALID_PARAMS, f"Invalid params: the log level is one of {known}.")
    exchange.peer.threshold = LEVELS[level]
    return {}


LISTEN: Final = "subscriptions/listen"

_AT_ONCE: Final[dict[str, AtOnce]] = {
    "tools/list": list_tools,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "prompts/list": list_prompts,
    "completion/complete": complete,
}
_IN_TIME: Final[dict[str, InTime]] = {
    "tools/call": call_tool,
    "resources/read": read_resource,
    "prompts/get": get_prompt,
}


class Era(NamedTuple):
    """The methods of one era: those that answer at once, and those that take their time."""

    at_once: Mapping[str, AtOnce]
    in_time: Mapping[str, InTime]


STATELESS_ERA: Final = Era({**_AT_ONCE, "server/discover": discover}, {**_IN_TIME, LISTEN: listen})
#: `initialize` and the subscriptions to resources are the connection's own.
SESSION_ERA: Final = Era({**_AT_ONCE, "ping": ping, "logging/setLevel": set_level}, _IN_TIME)


def _app_resources(name: str) -> list[dict[str, Any]]:
    return [
        {
            "uri": MANIFEST,
            "name": "manifest",
            "description": f"All that {name} offers here, as data.",
            "mimeType": "application/json",
        },
        {
            "uri": GUIDE,
            "name": "guide",
            "description": f"How to use {name}.",
            "mimeType": "text/markdown",
        },
    ]


async def _read(exchange: Exchange, uri: str) -> dict[str, Any]:
    server = exchange.server
    own = server.own_resources.get(uri)
    if own is not None and not own.is_template:
        return await own.read(exchange, uri, {})
    if uri == MANIFEST:
        return {"uri": uri, "mimeType": "application/json", "text": _json.dumps(exchange.view.manifest())}
    if uri == GUIDE:
        return {"uri": uri, "mimeType": "text/markdown", "text": exchange.view.guide()}
    if uri.startswith(PREFIX):
        kept = server.shelf.find(uri, exchange.caller_key)
        if kept is not None:
            return dict(kept.contents())
    for resource in server.own_resources.values():
        variables = resource.match(uri) if resource.is_template else None
        if variables is not None:
            return await resource.read(exchange, uri, variables)
    code = INVALID_PARAMS if exchange.peer.revision.stateless else RESOURCE_NOT_FOUND
    raise RpcError(code, "Resource not found.", {"uri": server.app.redactor.text(uri[:1000])})


def _listed(
    exchange: Exchange, kind: str, names: list[str], describe: Callable[[Sequence[str]], list[dict[str, Any]]]
) -> rpc.Result:
    """A page of what is the same for every client: prepared once, until something is added."""
    server = exchange.server
    prepared = exchange.view.prepared
    pages = Pages(kind, names, names, server.page_size)
    start = pages.start(exchange.params)
    key = (kind, exchange.peer.revision.name, start)
    if key not in prepared:
        page, cursor = pages.page(start)
        told: dict[str, Any] = {kind: describe(page)}
        if cursor is not None:
            told["nextCursor"] = cursor
        prepared[key] = rpc.Prepared(rpc.encoded(_cacheable(exchange, told)))
    return prepared[key]


def _complete(exchange: Exchange, told: dict[str, Any]) -> dict[str, Any]:
    if not exchange.peer.revision.stateless:
        return told
    return {"resultType": "complete", **told, "_meta": {SERVER_INFO: exchange.server.info}}


def _cacheable(exchange: Exchange, told: dict[str, Any]) -> dict[str, Any]:
    if not exchange.peer.revision.stateless:
        return told
    return {**_complete(exchange, told), "ttlMs": _FRESH, "cacheScope": "private"}
