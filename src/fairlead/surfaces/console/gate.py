"""The door of the console: the page's files for anyone on this machine, all the rest for the session only.

What is inside is another ASGI app: an app's actions, or the reason why there are none at the moment.
"""

from __future__ import annotations

from typing import Final

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.failures import action as wire
from fairlead.failures.action import DevServerError, InvalidJsonBody
from fairlead.failures.redaction import Redactor
from fairlead.runtime.hooks import report
from fairlead.surfaces.console.assets import SAFETY, assets, serve
from fairlead.surfaces.console.guard import SESSION_HEADER, Keys, admit, admit_own_page
from fairlead.surfaces.http.asgi import (
    Asgi,
    Disconnected,
    Message,
    Receive,
    Request,
    Scope,
    Send,
    read_body,
    respond,
    route_path,
)
from fairlead.surfaces.refusal import refusal

BASE: Final = "/api"
_SESSION: Final = f"{BASE}/session"
_LONGEST_TOKEN = 1024


class Gate:
    """Lets in what may come in, and sees to it that nothing but an envelope goes out."""

    def __init__(self, keys: Keys, inside: Asgi, redactor: Redactor) -> None:
        self._keys = keys
        self._redactor = redactor
        self._inside = inside
        self._assets = assets()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        try:
            admit(scope)
            await self._enter(scope, receive, answer)
        except Disconnected:
            return
        except Failure as failure:
            await answer.refuse(failure)
        except Exception as exc:
            report("The console failed.", self._redactor)
            await answer.refuse(DevServerError(cause=exc))

    async def _enter(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        path = route_path(scope)
        request = Request(scope)
        if path == BASE or path.startswith(f"{BASE}/"):
            admit_own_page(request)
            if path == _SESSION:
                await self._open(request, receive, answer)
                return
            self._keys.check(request.headers.get(SESSION_HEADER))
            await self._inside(scope, receive, answer)
        elif request.method not in ("GET", "HEAD"):
            raise Failure(Kind.unsupported, "The page is only there to be read: use GET.")
        elif path in self._assets:
            await serve(self._assets[path], request, answer.raw)
        elif path == "":
            there = f"{scope.get('root_path', '')}/".encode()
            await respond(answer.raw, 307, headers=((b"location", there), *SAFETY))
        else:
            raise Failure(Kind.not_found, "The console has no such page.")

    async def _open(self, request: Request, receive: Receive, answer: _Answer) -> None:
        if request.method != "POST":
            raise Failure(Kind.unsupported, "A session is opened by POST.")
        given = object_in(await read_body(request.scope, receive, _LONGEST_TOKEN))
        session = self._keys.redeem(given.get("token"))
        await answer.tell({"ok": True, "session": session})


class _Answer:
    """Sends what the inside says, with the safety headers on it."""

    def __init__(self, send: Send) -> None:
        self.raw = send
        self._begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            told = [each for each in message.get("headers", ()) if each[0] != b"cache-control"]
            headers = [*told, (b"cache-control", b"no-store"), *SAFETY]
            message = {**message, "headers": headers}
        await self.raw(message)

    async def tell(self, value: object, status: int = 200) -> None:
        await respond(self, status, _json.encode(value))

    async def refuse(self, failure: Failure) -> None:
        if not self._begun:
            await self.tell(refusal(failure, "dev", None, None), wire.http_status(failure))


def object_in(body: bytes) -> dict[str, object]:
    """The object in a request's body. Raises Failure when it is not one."""
    try:
        value = _json.loads(body)
    except ValueError as exc:
        raise InvalidJsonBody(f"The request's body is not JSON: {exc}.") from exc
    if not isinstance(value, dict) or _json.is_deep(value, body):
        raise InvalidJsonBody(
            f"The request's body must be a JSON object of at most {_json.DEEPEST} levels of lists and objects."
        )
    return value
