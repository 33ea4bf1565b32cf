"""Webhooks of a task: whom to tell of its status, what was told, and telling it again."""

from __future__ import annotations

import asyncio
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from fairlead.failures import Failure, Kind
from fairlead.failures.gateway import AgentNotFound, Conflict, InvalidBody, InvalidParam
from fairlead.failures.host import SsrfBlocked
from fairlead.gateway import changes
from fairlead.gateway.call import Answer, Call, Route
from fairlead.gateway.changes import SQL, Delivery, Webhook
from fairlead.gateway.invoke import text_of
from fairlead.gateway.sealed import Sealed
from fairlead.gateway.tasks import task_of
from fairlead.outgoing import Guard
from fairlead.runtime.clock import random_id
from fairlead.store import Store, Tx
from fairlead.tasks import Task

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway

#: Characters of a secret.
SHORTEST, LONGEST = 16, 256
LONGEST_TOKEN: Final = 4096
#: Deliveries on a page.
PAGE, MOST = 50, 200
#: Seconds that a name has to be resolved while somebody waits. One that takes longer is checked when it is called.
_PATIENCE: Final = 3.0
_TOKEN: Final = re.compile(r"[\x21-\x7e]+(?: +[\x21-\x7e]+)*")
_OPENAPI: Final = "openapi"
#: From which deliveries may be made again.
_REPEATED: Final = ("failed", "dead_letter")
_SEALED: Final[WeakKeyDictionary[Store, Sealed]] = WeakKeyDictionary()


async def add(
    gateway: Gateway,
    task: Task,
    url: str,
    *,
    token: str | None = None,
    secret: str | None = None,
    renderer: str = _OPENAPI,
) -> Webhook:
    """`enter`, of an address that `check` lets be told. Raises what that one does."""
    await check(gateway, url, token, secret)
    return await enter(gateway, task, url, token=token, secret=secret, renderer=renderer)


async def check(gateway: Gateway, url: str, *sealing: str | None) -> None:
    """See to it that an address can be told, and that what goes with it can be sealed.

    Raises:
        InvalidParam: the address may not be called.
        Failure: something that is needed is not installed or not set up.
    """
    if find_spec("httpx") is None:
        raise Failure(Kind.misconfigured, "Webhooks need a package: pip install 'fairlead[client]'")
    await _callable(gateway.guard, url)
    for each in sealing:
        await _sealed(gateway).sealed(each, "", url)


async def enter(
    gateway: Gateway,
    task: Task,
    url: str,
    *,
    token: str | None = None,
    secret: str | None = None,
    renderer: str = _OPENAPI,
) -> Webhook:
    """Tell an address of a task from now on. The same one again gives the same webhook; what is given anew counts."""
    app, sealed = gateway.app, _sealed(gateway)
    row: dict[str, Any] = {
        "id": random_id(),
        "url": url,
        "renderer": renderer,
        "token": await sealed.sealed(token, task.id, url),
        "secret": await sealed.sealed(secret, task.id, url),
    }
    webhook: Webhook = await app.store.write(lambda tx: changes.register(tx, row, task, app.wall()))
    return webhook


def _sealed(gateway: Gateway) -> Sealed:
    store = gateway.app.store
    return _SEALED.setdefault(store, Sealed(store))


async def _callable(guard: Guard, url: str) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            await guard.check(url)
    except SsrfBlocked as failure:
        raise InvalidParam(failure.message, field="url") from failure
    except TimeoutError:
        pass
    except Failure as failure:
        # A name that has no address just now may have one when it is called, and is checked then.
        if failure.kind is not Kind.unavailable:
            raise InvalidParam(failure.message, field="url") from failure


async def register_task_webhook(call: Call) -> Answer:
    task = await task_of(call)
    body = call.json()
    url = text_of(body, "url")
    webhook = await add(call.gateway, task, url, token=_token(body), secret=_secret(body))
    return Answer(webhook.to_dict(), 201)


def _token(body: dict[str, Any]) -> str | None:
    token = body.get("token")
    if token is None or token == "":
        return None
    if not isinstance(token, str) or not sendable(token):
        words = f"token must be a text of plain characters, {LONGEST_TOKEN} at most: it is sent in a header."
        raise InvalidBody(words, field="token")
    return token


def sendable(value: str) -> bool:
    """Whether a header may have this value, as it is."""
    return len(value) <= LONGEST_TOKEN and _TOKEN.fullmatch(value) is not None


def _secret(body: dict[str, Any]) -> str | None:
    secret = body.get("secret")
    if secret is None or secret == "":
        return None
    if not isinstance(secret, str) or not SHORTEST <= len(secret) <= LONGEST:
        raise InvalidBody(f"secret must be a text of {SHORTEST} to {LONGEST} characters.", field="secret")
    try:
        secret.encode()
    except UnicodeEncodeError:
        raise InvalidBody("secret must be a text of whole characters.", field="secret") from None
    return secret


async def list_task_webhooks(call: Call) -> Answer:
    task = await task_of(call)
    rows = await call.gateway.app.store.read(
        lambda tx: tx.all(SQL.webhooks_of, task=task.id, renderer=_OPENAPI)
    )
    return Answer({"webhooks": [Webhook(*row).to_dict() for row in rows]})


async def delete_task_webhook(call: Call) -> Answer:
    task = await task_of(call)
    id = call.id("webhookId")

    def work(tx: Tx) -> None:
        changes.remove(tx, _webhook(tx, task, id).id)

    await call.gateway.app.store.write(work)
    return Answer(status=204, flat=True)


async def list_webhook_deliveries(call: Call) -> Answer:
    task = await task_of(call)
    id = call.id("webhookId")
    limit = min(max(call.number("limit", PAGE, -(2**31), 2**31), 1), MOST)

    def work(tx: Tx) -> list[Delivery]:
        webhook = _webhook(tx, task, id)
        return [Delivery(*row) for row in tx.all(SQL.deliveries_of, webhook=webhook.id, size=limit)]

    found = await call.gateway.app.store.read(work)
    return Answer({"deliveries": [each.to_dict() for each in found]})


async def redeliver_webhook(call: Call) -> Answer:
    task = await task_of(call)
    id, which = call.id("webhookId"), call.id("deliveryId")
    app, new = call.gateway.app, random_id()

    def work(tx: Tx) -> Delivery:
        webhook = _webhook(tx, task, id)
        row = tx.one(SQL.delivery, id=which)
        if row is None or Delivery(*row).webhook != webhook.id:
            raise AgentNotFound("delivery not found")
        delivery = Delivery(*row)
        if delivery.status not in _REPEATED:
            raise Conflict(
                f"The delivery is {delivery.status}. Only one that is failed or dead_letter is made again."
            )
        return changes.again(tx, delivery, new, app.wall())

    made = await app.store.write(work)
    return Answer(made.to_dict(), 202)


def _webhook(tx: Tx, task: Task, id: str) -> Webhook:
    """A webhook of this task. Raises AgentNotFound."""
    row = tx.one(SQL.webhook, id=id)
    if row is None or Webhook(*row).task != task.id or Webhook(*row).renderer != _OPENAPI:
        raise AgentNotFound("webhook not found")
    return Webhook(*row)


_TASK: Final = "/api/v1/agents/{agentId}/tasks/{taskId}/webhooks"
_ONE: Final = f"{_TASK}/{{webhookId}}"
ROUTES: Final = (
    Route("POST", _TASK, register_task_webhook, "registerTaskWebhook"),
    Route("GET", _TASK, list_task_webhooks, "listTaskWebhooks"),
    Route("DELETE", _ONE, delete_task_webhook, "deleteTaskWebhook"),
    Route("GET", f"{_ONE}/deliveries", list_webhook_deliveries, "listWebhookDeliveries"),
    Route("POST", f"{_ONE}/deliveries/{{deliveryId}}/redeliver", redeliver_webhook, "redeliverWebhook"),
)
