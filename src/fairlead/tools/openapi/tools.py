"""`openapi_tools`: the operations of an HTTP API as actions, called with httpx and fenced to the API's own host.

GET, HEAD and OPTIONS read, DELETE destroys and needs confirmation, everything else writes. Redirects are followed
on the same origin only. Credentials are headers that the developer gives; no input can change them.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

from fairlead.actions import Action, DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.runtime import App, Context
from fairlead.tools.openapi.answers import data_of, failure_of
from fairlead.tools.openapi.document import Document, Operation, Unusable, load_httpx, read_document
from fairlead.tools.openapi.requests import Takes, takes_of
from fairlead.tools.openapi.shapes import Shapes
from fairlead.tools.remote import (
    LONGEST_DESCRIPTION,
    Lookup,
    is_reference,
    quoted,
    resolved,
    secrets_of,
    unique_names,
)

AnyAction = Action[..., Any]

_READS: Final = ("get", "head", "options", "trace")
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_SEE_OTHER: Final = 303
_MOST_REDIRECTS: Final = 5
_IDEMPOTENCY: Final = "Idempotency-Key"
_LARGEST: Final = 16 * 1024 * 1024


class OpenApi:
    """An API and its operations as actions.

    Args:
        document: The OpenAPI document: a dict, a file (JSON, or YAML where pyyaml is there), or its URL.
        base_url: Where the API is; by default where the document says. Nothing else is ever called.
        headers: Sent with every request; `secret:NAME` stands for a secret, looked up with `secrets`.
        include: Patterns of the operations to take, by operationId, or as `GET /users/*`.
        prefix: What the actions' names begin with.
        timeout: Seconds for one call.
        check_output: Refuse answers that do not fit the document. Off by default: many documents are wrong about
            answers, and an answer that came is worth more than a refusal.
        secrets: Gives a secret's value by its name.
    """

    def __init__(
        self,
        document: Mapping[str, Any] | str | os.PathLike[str],
        *,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        include: Iterable[str] = ("*",),
        prefix: str = "",
        timeout: float | None = 60.0,
        check_output: bool = False,
        secrets: Lookup | None = None,
    ) -> None:
        self.headers = dict(headers or {})
        plain = {key: value for key, value in self.headers.items() if not is_reference(value)}
        self._document = read_document(document, plain)
        self.base_url = _base(base_url or self._document.base_url())
        #: Where that is, without a name and a password in it.
        self._host = urlsplit(self.base_url).netloc.rpartition("@")[2]
        self.timeout = timeout
        self.check_output = check_output
        self.secrets = secrets
        #: Operations that cannot be tools, and why.
        self.left_out: dict[str, str] = {}
        wanted = [each for each in self._document.operations() if _wanted(each, tuple(include))]
        self.actions = self._made(wanted, prefix)

    def _made(self, operations: list[Operation], prefix: str) -> list[AnyAction]:
        # Two operations may have one operationId by mistake: each still needs a name of its own.
        keys: dict[str, Operation] = {}
        for each in operations:
            keys[each.id if each.id not in keys else f"{each.id} {each.method} {each.path}"] = each
        actions = []
        for key, name in unique_names(keys, prefix).items():
            try:
                actions.append(self._action(keys[key], name))
            except (Unusable, DefinitionError, RecursionError) as error:
                self.left_out[key] = quoted(str(error), 500)
                logging.getLogger("fairlead.openapi").warning("%s is left out: %s", key, error)
        return actions

    def _action(self, operation: Operation, name: str) -> AnyAction:
        takes = takes_of(self._document, operation, frozenset(each.lower() for each in self.headers))

        async def call(input: Any, ctx: Context) -> Any:
            return await self._call(operation, takes, input, ctx)

        summary, words = (operation.spec.get(key) for key in ("summary", "description"))
        told = "\n\n".join(each for each in (summary, words) if isinstance(each, str) and each.strip())
        return Action(
            call,
            name=name,
            description=quoted(told, LONGEST_DESCRIPTION) or f"{operation.method.upper()} {operation.path}",
            input=takes.schema,
            output=_output(self._document, operation) if self.check_output else None,
            timeout=self.timeout,
            deprecated=operation.spec.get("deprecated") is True,
            metadata={"openapi": {"method": operation.method.upper(), "path": operation.path}},
            **_policy(operation.method),
        )

    async def _call(self, operation: Operation, takes: Takes, input: Mapping[str, Any], ctx: Context) -> Any:
        request = takes.request(input)
        fixed, hidden = await resolved(self.headers, self.secrets, f"The API at {self._host}")
        headers = {"Accept": "application/json, */*;q=0.5", **request.headers}
        known = {key.lower() for key in headers}
        if (
            ctx.idempotency_key is not None
            and operation.method not in _READS
            and _IDEMPOTENCY.lower() not in known
        ):
            headers[_IDEMPOTENCY] = ctx.idempotency_key
        # What the developer gave stands for what has the same name, however either is spelled.
        given = {key.lower() for key in fixed}
        headers = {**{key: value for key, value in headers.items() if key.lower() not in given}, **fixed}
        url = self.base_url + request.path + (f"?{request.query}" if request.query else "")
        name = ctx.action.name
        status, answered, body = await self._sent(operation.method.upper(), url, headers, request.body, name)
        if status >= 400:
            raise failure_of(status, answered, body, name, tuple(hidden), time.time())
        return data_of(answered.get("content-type", ""), name, body, ctx)

    async def _sent(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, name: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        httpx = load_httpx()
        try:
            async with httpx.AsyncClient(timeout=self.timeout, verify=_certificates()) as client:
                for _ in range(_MOST_REDIRECTS + 1):
                    async with client.stream(method, url, headers=dict(headers), content=body) as response:
                        if response.status_code not in _REDIRECTS or "location" not in response.headers:
                            return response.status_code, response.headers, await _read(response, name)
                        url = self._next(method, response, name)
                        if response.status_code == _SEE_OTHER:
                            # It is done, and what came of it is to be read there.
                            method, body = "GET", None
                            headers = {key: headers[key] for key in headers if key.lower() != "content-type"}
        except httpx.TimeoutException as error:
            raise Failure(Kind.timeout, f"{name!r} got no answer in time.", cause=error) from error
        except httpx.DecodingError as error:
            words = f"{name!r} answered with what cannot be unpacked as its Content-Encoding says."
            raise Failure(Kind.upstream, words, cause=error) from error
        except httpx.TransportError as error:
            words = f"{name!r} did not reach {self._host}: {type(error).__name__}."
            raise Failure(Kind.unavailable, words, cause=error) from error
        raise Failure(Kind.upstream, f"{name!r} was redirected more than {_MOST_REDIRECTS} times.")

    def _next(self, method: str, response: Any, name: str) -> str:
        """Where a redirect leads, if it may be followed: on the same origin, and to what only reads."""
        target = response.url.join(response.headers["location"])
        here = response.url  # the one before, which was on the origin of base_url
        reads = method.lower() in _READS or response.status_code == _SEE_OTHER
        if (target.scheme, target.host, target.port) != (here.scheme, here.host, here.port) or not reads:
            raise Failure(
                Kind.upstream,
                f"{name!r} was redirected to {target.host}, which is not followed: it is another host, or the call "
                "changes things. Give the API's own address as base_url.",
            )
        return str(target)


def openapi_tools(document: Mapping[str, Any] | str | os.PathLike[str], **options: Any) -> list[AnyAction]:
    """The operations of an API as actions; `OpenApi` has the options, and says what was left out."""
    return OpenApi(document, **options).actions


def add_openapi(app: App, document: Mapping[str, Any] | str | os.PathLike[str], **options: Any) -> OpenApi:
    """Give an app the operations of an API as actions, with the app's secrets for `secret:NAME` in headers."""
    api = OpenApi(document, **{"secrets": secrets_of(app), **options})
    app.catalogue.add_all(api.actions)
    return api


def _base(url: str | None) -> str:
    if url is None:
        raise Failure(
            Kind.misconfigured, "The OpenAPI document does not say where the API is. Pass base_url=."
        )
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    except ValueError:
        good = False
    if not good:
        raise Failure(Kind.misconfigured, "base_url must be like https://host/path, with nothing behind it.")
    return url.rstrip("/")


def _wanted(operation: Operation, include: tuple[str, ...]) -> bool:
    spelled = f"{operation.method.upper()} {operation.path}"
    return any(fnmatchcase(operation.id, each) or fnmatchcase(spelled, each) for each in include)


def _policy(method: str) -> Any:
    if method in _READS:
        return {"side_effects": "read", "idempotency": "idempotent"}
    if method == "delete":
        return {"side_effects": "destructive", "requires_confirmation": True, "idempotency": "idempotent"}
    return {"side_effects": "write", "idempotency": "idempotent" if method == "put" else "unspecified"}


def _output(document: Document, operation: Operation) -> Any:
    """The schema of the good answer, where there is one and it is JSON."""
    responses = operation.spec.get("responses")
    for status, each in responses.items() if isinstance(responses, Mapping) else ():
        if not str(status).startswith("2"):
            continue
        known = document.resolved(each)
        content = known.get("content") if isinstance(known, Mapping) else None
        media = content.get("application/json") if isinstance(content, Mapping) else None
        if isinstance(media, Mapping) and "schema" in media:
            return Shapes(document, request=False).whole(media["schema"])
    return None


async def _read(response: Any, name: str) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _LARGEST:
            raise Failure(Kind.too_large, f"The answer to {name!r} is larger than {_LARGEST} bytes.")
    return bytes(body)


@cache
def _certificates() -> ssl.SSLContext:
    """Loaded once: that takes longer than many a call."""
    return ssl.create_default_context()
