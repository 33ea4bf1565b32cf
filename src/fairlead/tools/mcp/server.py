"""`McpServer`: a remote MCP server whose tools are actions here, for every caller.

A tool of a server that is not trusted changes things until proven otherwise: it needs confirmation, and what it
says of itself (that it only reads, that it may be repeated) is not believed. For a trusted server it is, and then
only tools that say that they destroy things need confirmation.

A connection that fails is dead: the failing call is told `mcp_transport_error`, later ones `mcp_disconnected`.
`reconnect=N` lets later calls start the server again, N times; no call is sent twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from fairlead.actions import Action, DefinitionError
from fairlead.failures import Failure
from fairlead.failures.runtime import McpDisconnected, McpTransportError
from fairlead.runtime import Context
from fairlead.tools.mcp.connection import THEIRS, Connection, Target
from fairlead.tools.mcp.elicitation import Elicit
from fairlead.tools.remote import (
    LONGEST_DESCRIPTION,
    Lookup,
    described,
    expanded,
    legal_name,
    quoted,
    resolved,
    secret_variables,
    unique_names,
)

AnyAction = Action[..., Any]
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class _Place:
    """What a server is on one event loop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.connection: Connection | None = None
        #: Why it is dead, once a connection failed.
        self.lost: Failure | None = None
        self.restarts = 0


class McpServer:
    """A server and its tools.

    Args:
        name: What it is called here.
        command: The program to start and its arguments, for a server that is spoken to over stdio.
        env: Environment variables for it; `secret:NAME` stands for a secret of the app's store.
        cwd: The folder to start it in.
        url: Where it is, for one that is spoken to over HTTP.
        headers: HTTP headers for it; `secret:NAME` stands for a secret.
        prefix: What its tools' names begin with; the server's name by default.
        include: Patterns of the tools to take, such as `get_*`, by the server's own names.
        trust: Believe what the tools say of themselves, and do not ask before each call.
        timeout: Seconds for one call.
        connect_timeout: Seconds for the server to answer at all.
        reconnect: How often a dead server is started again.
        secrets: Gives a secret's value by its name; an app gives its own.
        elicit: Answers the server's questions; else whoever runs the conversation does.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        prefix: str | None = None,
        include: Sequence[str] = ("*",),
        trust: bool = False,
        timeout: float | None = 300.0,
        connect_timeout: float = 30.0,
        reconnect: int = 0,
        mode: str = "auto",
        secrets: Lookup | None = None,
        elicit: Elicit | None = None,
    ) -> None:
        if isinstance(command, str):
            raise DefinitionError(
                f"MCP server {name!r}: give the command as a list of words, not as one text."
            )
        self.name = name
        self.command = tuple(command)
        self.env = dict(env or {})
        self.cwd = cwd
        self.url = url
        self.headers = dict(headers or {})
        self.prefix = f"{legal_name(name)}_" if prefix is None else prefix
        self.include = tuple(include)
        self.trust = trust
        self.timeout = timeout
        self.connect_timeout = connect_timeout
        self.reconnect = reconnect
        self.mode = mode
        self.secrets = secrets
        self.elicit = elicit
        self._check()
        #: The tools as actions, by the server's own names; as they were when it was last asked.
        self._actions: dict[str, AnyAction] = {}
        self._made: dict[str, tuple[str, int, AnyAction]] = {}
        #: What a tool begins with that is new: more than one that is gone had, which may come back as another.
        self._first_revision = 0
        #: Tools that cannot be offered, and why.
        self.left_out: dict[str, str] = {}
        #: How the server wants its tools to be used; it is not to be believed more than its tools are.
        self.instructions: str | None = None
        self._about: dict[str, Any] = {}
        self._listeners: list[Callable[[list[AnyAction]], object]] = []
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, _Place] = WeakKeyDictionary()
        self._last: Failure | None = None

    def _check(self) -> None:
        owner = f"MCP server {self.name!r}"
        if not NAME.fullmatch(self.name):
            raise DefinitionError(f"{owner}: a name has letters, digits, dots, hyphens and underscores.")
        if bool(self.command) == (self.url is not None):
            raise DefinitionError(f"{owner}: give either a command to start or the url where it is.")
        if self.url is not None and "${" not in self.url:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise DefinitionError(
                    f"{owner}: the url must begin with http:// or https:// and name a host."
                )

    def __repr__(self) -> str:
        return f"McpServer({self.name!r}, {self.status}, {len(self._actions)} tools)"

    @property
    def actions(self) -> list[AnyAction]:
        """The tools as they were when the server was last asked; `connect` asks it."""
        return list(self._actions.values())

    @property
    def status(self) -> str:
        """`new`, `connected`, or `dead`, on this event loop."""
        try:
            place = self._place()
        except RuntimeError:
            return "dead" if self._last else "new"
        if _why_dead(place):
            return "dead"
        return "connected" if place.connection else "new"

    @property
    def problem(self) -> Failure | None:
        """Why the server is dead, if it is."""
        return self._last

    def describe(self) -> dict[str, Any]:
        """The server as somebody may see it: no value of a header or a variable."""
        told: dict[str, Any] = {"name": self.name, "transport": "stdio" if self.url is None else "http"}
        if self.url is None:
            told |= {"command": list(self.command), "env": described(self.env)}
        else:
            told |= {"url": _plain(self.url), "headers": described(self.headers)}
        told |= {"trust": self.trust, "status": self.status, "tools": len(self._actions)}
        return told | self._about

    def watch(self, listener: Callable[[list[AnyAction]], object]) -> Callable[[], None]:
        """Tell a listener the tools, now and whenever they change; what it gives back ends that."""
        self._listeners.append(listener)
        if self._actions:
            listener(self.actions)
        return lambda: self._listeners.remove(listener)

    async def connect(self) -> list[AnyAction]:
        """Reach the server, if that is still to be done; gives its tools.

        Raises:
            McpTransportError: it cannot be started or reached.
            McpDisconnected: it failed before, and is not to be started again.
        """
        await self._connected()
        return self.actions

    async def restart(self) -> list[AnyAction]:
        """Start or reach the server anew, whatever happened before."""
        await self.close()
        return await self.connect()

    async def close(self) -> None:
        """End the connection of this event loop, and forget that it failed."""
        place = self._place()
        async with place.lock:
            connection, place.connection = place.connection, None
            place.lost, place.restarts = None, 0
            self._last = None
            if connection is not None:
                await connection.close()

    async def call(
        self, tool: str, arguments: dict[str, Any], ctx: Context, *, structured: bool = False
    ) -> Any:
        """Call a tool by the server's own name for it; its action does this."""
        connection = await self._connected()
        try:
            return await connection.call(tool, arguments, ctx, structured=structured)
        finally:
            self._last = connection.lost or self._last

    def _place(self) -> _Place:
        loop = asyncio.get_running_loop()
        place = self._places.get(loop)
        if place is None:
            place = self._places[loop] = _Place()
        return place

    async def _connected(self) -> Connection:
        place = self._place()
        async with place.lock:
            lost = _why_dead(place)
            if lost is not None:
                await self._again(place, lost)
            if place.connection is None:
                place.connection = await self._opened(place)
            return place.connection

    async def _again(self, place: _Place, lost: Failure) -> None:
        """Clear the mark of a dead server, where it may be started again. Raises McpDisconnected."""
        if place.restarts >= self.reconnect:
            raise McpDisconnected(
                f"The MCP server {self.name!r} is not connected: it failed before. ({quoted(lost.message, 500)}) "
                "Restart it, or let reconnect=1 do that.",
                details={"server": self.name},
                cause=lost,
            )
        place.restarts += 1
        if place.connection is not None:
            await place.connection.close()
        place.connection = place.lost = self._last = None

    async def _opened(self, place: _Place) -> Connection:
        connection: Connection | None = None
        try:
            connection = Connection(await self._target(), self.elicit, lambda: self._refresh(opened))
            opened = connection
            await connection.open()
            self._take(await connection.list(), connection.unfit)
            self._about, self.instructions = connection.about, connection.instructions
        except Failure as failure:
            if connection is not None:
                await connection.close()
            # What cannot be resolved is no failure of the connection: it may be put right meanwhile.
            if isinstance(failure, McpTransportError):
                place.lost = failure
            self._last = failure
            raise
        return connection

    async def _target(self) -> Target:
        whose = f"MCP server {self.name!r}"
        env, hidden = await resolved(_all_expanded(self.env), self.secrets, whose)
        headers, more = await resolved(_all_expanded(self.headers), self.secrets, whose)
        texts = (*self.command, *self.env.values(), *self.headers.values(), self.url or "")
        return Target(
            self.name,
            tuple(expanded(word) for word in self.command),
            env,
            self.cwd,
            None if self.url is None else expanded(self.url),
            headers,
            (*hidden, *more, *secret_variables(texts)),
            self.connect_timeout,
            self.timeout,
            self.mode,
        )

    async def _refresh(self, connection: Connection) -> None:
        try:
            self._take(await connection.list(), connection.unfit)
        except Failure as failure:
            logging.getLogger(f"fairlead.mcp.{self.name}").warning("The tools were not read: %s", failure)

    def _take(self, tools: list[Any], unfit: Mapping[str, str]) -> None:
        """Make actions of the tools. One that did not change stays the same action."""
        wanted = [tool for tool in tools if self._wants(tool.name)]
        names = unique_names((tool.name for tool in wanted), self.prefix)
        self.left_out = {
            tool: f"It does not fit the protocol{f', at {where}' if where else ''}. {THEIRS}"
            for tool, where in unfit.items()
            if self._wants(tool)
        }
        actions: dict[str, AnyAction] = {}
        for tool in wanted:
            if tool.name in actions:
                continue  # said twice: the first counts, so that it is the same each time
            try:
                actions[tool.name] = self._action(tool, names[tool.name])
            except DefinitionError as error:
                self.left_out[tool.name] = quoted(str(error), 500)
        self._actions = actions
        self._forget({action.name for action in actions.values()})
        for listener in list(self._listeners):
            listener(self.actions)

    def _wants(self, tool: str) -> bool:
        return any(fnmatchcase(tool, each) for each in self.include)

    def _forget(self, names: set[str]) -> None:
        """Keep nothing of tools that are gone: a server may have new ones all the time."""
        for gone in self._made.keys() - names:
            self._first_revision = max(self._first_revision, self._made.pop(gone)[1] + 1)

    def _action(self, tool: Any, name: str) -> AnyAction:
        seen = json.dumps([name, tool.model_dump(mode="json", by_alias=True)], sort_keys=True)
        known = self._made.get(name)
        if known is not None and known[0] == seen:
            return known[2]
        revision = self._first_revision if known is None else known[1] + 1
        try:
            made = self._define(tool, name, f"1.0.{revision}", tool.output_schema)
        except DefinitionError:
            # A tool whose output is described badly is still a tool.
            made = self._define(tool, name, f"1.0.{revision}", None)
        self._made[name] = (seen, revision, made)
        return made

    def _define(self, tool: Any, name: str, version: str, output: Any) -> AnyAction:
        remote: str = tool.name

        async def call(arguments: Any, ctx: Context) -> Any:
            return await self.call(remote, arguments, ctx, structured=output is not None)

        title = tool.title or (tool.annotations.title if tool.annotations else None)
        words = tool.description or title or f"The tool {remote!r} of the MCP server {self.name!r}."
        return Action(
            call,
            name=name,
            version=version,
            description=quoted(words, LONGEST_DESCRIPTION),
            input=tool.input_schema,
            output=output,
            timeout=self.timeout,
            metadata={"mcp": {"server": self.name, "tool": remote}},
            **({"title": title} if title else {}),
            **self._policy(tool.annotations),
        )

    def _policy(self, hints: Any) -> Any:
        destroys = hints is not None and hints.destructive_hint is True and not hints.read_only_hint
        if not self.trust:
            effects = "destructive" if destroys else "write"
            return {"side_effects": effects, "requires_confirmation": True}
        if hints is None:
            return {"side_effects": "write", "requires_confirmation": False}
        effects = "read" if hints.read_only_hint else "destructive" if destroys else "write"
        idempotency = "idempotent" if hints.idempotent_hint else "unspecified"
        return {
            "side_effects": effects,
            "requires_confirmation": effects == "destructive",
            "idempotency": idempotency,
        }


def _why_dead(place: _Place) -> Failure | None:
    return place.lost or (place.connection.lost if place.connection else None)


def _all_expanded(values: Mapping[str, str]) -> dict[str, str]:
    return {key: expanded(value) for key, value in values.items()}


def _plain(url: str) -> str:
    """A URL without what may be secret in it."""
    if "${" in url:
        return url.partition("?")[0]
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="***" if parts.query else "", fragment="").geturl()
