"""A2A's requests, answered by the engine's tasks. The protocol itself is the A2A library's.

A message is a task; one that names a task answers what that task asked. Whoever reads a stream may leave: the task
goes on, and the stream can be taken up again.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from functools import wraps
from inspect import isasyncgenfunction
from types import NoneType
from typing import Any, Final, NamedTuple

from a2a.compat.v0_3.conversions import to_compat_task
from a2a.server.context import ServerCallContext
from a2a.server.jsonrpc_models import JSONParseError
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.server.request_handlers.response_helpers import agent_card_to_dict, build_error_response
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.task import apply_history_length
from google.protobuf.json_format import MessageToDict
from starlette.requests import Request
from starlette.responses import Response

from fairlead._json import DEEPEST, is_deep, loads
from fairlead.failures import Failure, Kind
from fairlead.failures import gateway as wire
from fairlead.failures.gateway import AgentNotFound, Forbidden, InvalidParam
from fairlead.gateway import a2a_words as words
from fairlead.gateway import changes, webhooks
from fairlead.gateway.a2a_push import BEFORE, NOW, RENDERERS, sealed_token, state_name
from fairlead.gateway.agents import GatewayAgent
from fairlead.gateway.call import LONGEST_ID, Answer, Call, Frames
from fairlead.gateway.changes import SQL, Webhook
from fairlead.gateway.entries import Entry, Wanted
from fairlead.gateway.messages import text_of
from fairlead.gateway.openai_words import LONGEST_WAIT
from fairlead.gateway.tasks import engine_of, submit
from fairlead.gateway.turns import RESERVED, Turn, for_callers, new_id
from fairlead.runtime.hooks import report
from fairlead.store import Tx
from fairlead.tasks import records
from fairlead.tasks.states import State

# The library logs what clients do wrong: that is for those who set up logging, and not for everybody's terminal.
logging.getLogger("a2a").addHandler(logging.NullHandler())
_CALL: Final = "fairlead.a2a"
_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params"})
Event = Task | words.Update
#: Tasks on a page, where the client does not say.
PAGE, MOST = 20, 100


async def answered(call: Call, agent: GatewayAgent, card: AgentCard) -> Answer | Frames:
    """Answer one JSON-RPC request."""
    try:
        asked = loads(call.request.body)
    except ValueError:
        return _unread(JSONParseError(message="The request's body is not JSON."))
    if is_deep(asked, call.request.body):
        told = f"The request's body has more than {DEEPEST} levels of lists and objects."
        return _unread(JSONParseError(message=told))
    if isinstance(asked, dict) and not asked.keys() <= _MEMBERS:
        # The library would name all that it does not know.
        return _unread(
            InvalidRequestError(message=f"A request has {', '.join(sorted(_MEMBERS))}, and no more.")
        )
    method = asked.get("method") if isinstance(asked, dict) else None
    if method == "tasks/list":
        return await _listed(call, agent, asked)
    scope = {**call.request.scope, _CALL: (call, agent, card), "headers": _headers(call, method)}
    response = await _DISPATCHER.handle_requests(Request(scope, _body(call.request.body)))
    events = getattr(response, "body_iterator", None)
    if events is None:
        return Answer(loads(_whole(response)), response.status_code, flat=True)
    return Frames(call.gateway.streams.kept(_frames(events), b"", call.caller))


def _unread(error: A2AError | JSONParseError) -> Answer:
    return Answer(build_error_response(None, error), flat=True)


def card_told(card: AgentCard) -> dict[str, Any]:
    """A card as clients of either version read it."""
    told: dict[str, Any] = agent_card_to_dict(card)
    return told


def _whole(response: Response) -> bytes:
    return bytes(response.body)


def _headers(call: Call, method: Any) -> list[tuple[bytes, bytes]]:
    """The request's headers. A method's name tells the version of its client better than some clients do."""
    headers = [each for each in call.request.scope["headers"] if each[0] != b"a2a-version"]
    given = call.request.headers.get("a2a-version", "").strip()
    if given.startswith(("0.", "1.")) or not given:
        given = "0.3" if isinstance(method, str) and "/" in method else "1.0"
    return [*headers, (b"a2a-version", given.encode("latin-1"))]


def _body(body: bytes) -> Any:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _frames(events: AsyncIterator[dict[str, str]]) -> AsyncIterator[bytes]:
    async with aclosing(events) as following:  # type: ignore[type-var]
        async for event in following:
            name = f"event: {event['event']}\n" if "event" in event else ""
            yield f"{name}data: {event['data']}\n\n".encode()


async def _listed(call: Call, agent: GatewayAgent, asked: dict[str, Any]) -> Answer:
    """A list of tasks for clients of version 0.3, which had none: in our words, with its tasks."""
    given = asked.get("params")
    id = asked.get("id")
    if type(id) not in (str, int, NoneType):
        return _unread(InvalidRequestError(message="A request's id is a text or a whole number."))
    try:
        given = {} if given is None else given
        if not isinstance(given, dict):
            raise InvalidParamsError("params must be an object.")
        size = given.get("limit", given.get("pageSize", PAGE))
        token = str(given.get("pageToken") or "")
        if type(size) is not int or not 1 <= size <= MOST:
            raise InvalidParamsError(f"limit must be a whole number from 1 to {MOST}.")
        found = await _page(call, agent, ListTasksRequest(page_size=size, page_token=token))
    except A2AError as error:
        return Answer(build_error_response(id, error), flat=True)
    tasks = [
        to_compat_task(each).model_dump(mode="json", by_alias=True, exclude_none=True) for each in found.tasks
    ]
    told = {"tasks": tasks, "nextPageToken": found.next_page_token}
    return Answer({"jsonrpc": "2.0", "id": id, "result": told}, flat=True)


class _Contexts(DefaultServerCallContextBuilder):
    """Hands our call to those who answer it."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[_CALL] = request.scope[_CALL]
        return context


def _of(context: ServerCallContext) -> tuple[Call, GatewayAgent, AgentCard]:
    found: tuple[Call, GatewayAgent, AgentCard] = context.state[_CALL]
    return found


@contextmanager
def _told(call: Call) -> Iterator[None]:
    """Failures in the protocol's words."""
    try:
        yield
    except Failure as failure:
        raise _error(failure, call) from failure


def _error(failure: Failure, call: Call) -> A2AError:
    kind, redactor = failure.kind, call.gateway.app.redactor
    told = wire.render(for_callers(failure, redactor), None, redactor)["error"]
    data = {"code": told["code"]}
    if kind in (Kind.not_found, Kind.forbidden):
        # Whose task it is, is nobody else's business.
        return TaskNotFoundError(data={"code": AgentNotFound.code})
    if kind in (Kind.invalid_input, Kind.malformed):
        return InvalidParamsError(told["message"], data)
    if kind is Kind.conflict:
        return UnsupportedOperationError(told["message"], data)
    return InternalError(told["message"], data)


def _answering(method: Any) -> Any:
    """A method whose request is whole, and whose faults are told without what they know of the inside."""
    checked = validate_request_params(method)

    if isasyncgenfunction(method):

        @wraps(method)
        async def following(self: Any, params: Any, context: ServerCallContext) -> AsyncGenerator[Event]:
            with _contained(_of(context)[0]):
                async with aclosing(checked(self, params, context)) as events:
                    async for event in events:
                        yield event

        return following

    @wraps(method)
    async def once(self: Any, params: Any, context: ServerCallContext) -> Any:
        with _contained(_of(context)[0]):
            return await checked(self, params, context)

    return once


@contextmanager
def _contained(call: Call) -> Iterator[None]:
    try:
        yield
    except A2AError:
        raise
    except Failure as failure:
        raise _error(failure, call) from failure
    except Exception as exc:
        report("The gateway failed at an A2A request.", call.gateway.app.redactor)
        raise InternalError from exc


class _Handler(RequestHandler):
    """What the protocol asks, done with tasks of the engine."""

    @_answering
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        call, _, _ = _of(context)
        task, _ = await _sent(params, context)
        if not params.configuration.return_immediately:
            engine = engine_of(call.gateway, task)
            try:
                task = await engine.wait(task.id, LONGEST_WAIT)
            except Failure:
                task = await engine.get(task.id)  # it goes on, and can be asked for
        return apply_history_length(words.task_of(task), params.configuration)

    @_answering
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        task, since = await _sent(params, context)
        async with aclosing(_updates(context, task, since)) as updates:
            async for update in updates:
                yield update

    @_answering
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        entry = await _found(context, params.id)
        if entry.task.state.final:
            raise UnsupportedOperationError("The task has ended. Get it to see how.")
        async with aclosing(_updates(context, entry.task, 0)) as updates:
            async for update in updates:
                yield update

    @_answering
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        entry = await _found(context, params.id)
        return apply_history_length(words.task_of(entry.task), params)

    @_answering
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        call, agent, _ = _of(context)
        return await _page(call, agent, params)

    @_answering
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task | None:
        call, _, _ = _of(context)
        entry = await _found(context, params.id)
        if entry.task.state.final:
            raise TaskNotCancelableError
        with _told(call):
            task = await engine_of(call.gateway, entry.task).cancel(entry.task.id)
        if task.state is not State.canceled:
            raise TaskNotCancelableError
        return words.task_of(task)

    @_answering
    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        entry = await _found(context, params.task_id)
        return await _notified(context, entry.task, await _push(context, params))

    @_answering
    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        found = await _configs(context, params.task_id)
        for each in found:
            if each.id == params.id or (not params.id and len(found) == 1):
                return _config(each)
        raise TaskNotFoundError("There is no such push notification config.")

    @_answering
    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        found = await _configs(context, params.task_id)
        return ListTaskPushNotificationConfigsResponse(configs=[_config(each) for each in found])

    @_answering
    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        call, _, _ = _of(context)
        for each in await _configs(context, params.task_id):
            if each.id == params.id:
                await call.gateway.app.store.write(lambda tx, which=each.id: changes.remove(tx, which))

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        return _of(context)[2]


async def _found(context: ServerCallContext, id: str) -> Entry:
    """A task that the caller has with this agent. Raises TaskNotFoundError."""
    call, agent, _ = _of(context)
    if len(id) > LONGEST_ID or not id.isprintable():
        raise TaskNotFoundError
    with _told(call):
        await call.gateway.recorder.settled(id)
        return await call.gateway.entries.find(id, agent.id, call.caller)


async def _sent(params: SendMessageRequest, context: ServerCallContext) -> tuple[records.Task, int]:
    """The task that a message is or goes to, and the offset after which its updates are new."""
    message = params.message
    prompt = words.words(message)
    if prompt is None:
        raise ContentTypeNotSupportedError("Agents read text and data. Send a file by its url.")
    if not prompt.strip():
        raise InvalidParamsError("The message says nothing.")
    push = None
    if params.configuration.HasField("task_push_notification_config"):
        # Before anything is begun: who is refused sends the message again.
        push = await _push(context, params.configuration.task_push_notification_config)
    if message.task_id:
        task, since = await _gone_on(context, message, prompt)
    else:
        task, since = await _begun(context, message, prompt), 0
    if push is not None:
        await _notified(context, task, push)
    return task, since


async def _begun(context: ServerCallContext, message: Message, prompt: str) -> records.Task:
    call, agent, _ = _of(context)
    for name, given in (("messageId", message.message_id), ("contextId", message.context_id)):
        if len(given) > LONGEST_ID or not given.isprintable():
            raise InvalidParamsError(f"{name} must have 1 to 128 characters.")
    metadata = words.texts(MessageToDict(message.metadata))
    turn = Turn(
        agent,
        call.caller,
        prompt,
        message.context_id,
        continued=bool(message.context_id),
        message_id=message.message_id or new_id(),
        metadata={name: value for name, value in metadata.items() if name not in RESERVED},
    )
    with _told(call):
        if turn.continued:
            try:
                turn = await call.gateway.recorder.opened(turn)
            except (AgentNotFound, Forbidden) as failure:
                raise InvalidParamsError("There is no such context.", {"code": failure.code}) from failure
        return await submit(call.gateway, turn, key=message.message_id or None)


async def _gone_on(context: ServerCallContext, message: Message, prompt: str) -> tuple[records.Task, int]:
    """A task that asked something, with the answer. One that is sent again answers no later question."""
    call, _, _ = _of(context)
    task = (await _found(context, message.task_id)).task
    if message.context_id and message.context_id != words.context_of(task):
        raise InvalidParamsError("contextId is not the one of the task.")
    key, entries = message.message_id or None, call.gateway.entries
    before = None if key is None else await entries.answered(task, key)
    if before is None and not task.state.paused:
        state = "has ended" if task.state.final else "is at work"
        raise UnsupportedOperationError(f"The task {state}: it waits for no message.")
    with _told(call):
        since = task.latest if before is None else before.offset
        return await engine_of(call.gateway, task).answer(task.id, prompt, key=key), since


async def _updates(context: ServerCallContext, task: records.Task, since: int) -> AsyncGenerator[Event]:
    """A task as it is, and what comes, until it ends or asks something."""
    call, _, _ = _of(context)
    engine = engine_of(call.gateway, task)
    yield words.task_of(task)
    if task.state.final:
        return
    begun = False
    async with aclosing(engine.bus.tail(task, since, True)) as events:  # type: ignore[type-var]
        async for event in events:
            if event.type in ("started", "input"):
                yield words.working(task, event.time)
            elif event.type == "delta":
                yield words.piece(task, text_of(event.data.get("data", "")), not begun)
                begun = True
            elif event.type == "artifact":
                yield words.made(task, event)
            elif event.type in ("clarification", "terminal"):
                task = await engine.get(task.id)
                if event.type == "clarification" and not task.state.paused:
                    continue  # it was answered meanwhile
                if task.state is State.completed:
                    yield words.whole_reply(task)
                yield words.status_update(task, words.status_of(task, event.time))
                return


async def _page(call: Call, agent: GatewayAgent, params: ListTasksRequest) -> ListTasksResponse:
    size = params.page_size if params.HasField("page_size") else PAGE
    if not 1 <= size <= MOST:
        raise InvalidParamsError(f"pageSize must be from 1 to {MOST}.")
    wanted, entries = _wanted(params), call.gateway.entries
    with _told(call):
        await call.gateway.recorder.flush()
        try:
            page, more = await entries.page(call.caller, "all", size, params.page_token or None, agent.id)
        except InvalidParam as failure:
            told = "pageToken must be the nextPageToken of the page before."
            raise InvalidParamsError(told, {"code": failure.code}) from failure
        total = await entries.count(call.caller, agent.id, wanted)
    found = [entry.task for entry in page]
    if wanted is not None:
        found = [each for each in found if wanted.fits(each, words.context_of(each))]
    tasks = [words.task_of(each) for each in found]
    for each in tasks:
        if not params.include_artifacts:
            each.ClearField("artifacts")
        each.CopyFrom(apply_history_length(each, params))
    return ListTasksResponse(tasks=tasks, next_page_token=more or "", page_size=len(tasks), total_size=total)


def _wanted(params: ListTasksRequest) -> Wanted | None:
    """Which tasks are asked for; None for all."""
    since = params.HasField("status_timestamp_after")
    if not (params.context_id or params.status or since):
        return None
    return Wanted(
        [each for each in State if not params.status or params.status == TaskState.Value(state_name(each))],
        params.status_timestamp_after.ToNanoseconds() / 1e9 if since else 0.0,
        params.context_id,
    )


class _Push(NamedTuple):
    """An address that is to be told of a task, and what it knows us by."""

    url: str
    token: str | None


async def _push(context: ServerCallContext, config: TaskPushNotificationConfig) -> _Push:
    """What a client wants to be told, if it can be. Raises InvalidParamsError."""
    call, _, _ = _of(context)
    scheme, credentials = config.authentication.scheme, config.authentication.credentials
    authorization = f"{scheme} {credentials}" if scheme and credentials else ""
    for given in (config.token, authorization):
        if given and not webhooks.sendable(given):
            raise InvalidParamsError(
                "token and authentication must be of plain characters: they are headers."
            )
    token = sealed_token(config.token, authorization) if config.token or authorization else None
    with _told(call):
        await webhooks.check(call.gateway, config.url, token)
    return _Push(config.url, token)


async def _notified(
    context: ServerCallContext, task: records.Task, push: _Push
) -> TaskPushNotificationConfig:
    """Have an address told of a task."""
    call, _, _ = _of(context)
    before = "/" in str(context.state.get("method"))
    with _told(call):
        webhook = await webhooks.enter(
            call.gateway, task, push.url, token=push.token, renderer=BEFORE if before else NOW
        )
    return _config(webhook)


async def _configs(context: ServerCallContext, id: str) -> list[Webhook]:
    call, _, _ = _of(context)
    task = (await _found(context, id)).task

    def work(tx: Tx) -> list[Webhook]:
        rows = [row for each in RENDERERS for row in tx.all(SQL.webhooks_of, task=task.id, renderer=each)]
        return [Webhook(*row) for row in rows]

    found: list[Webhook] = await call.gateway.app.store.read(work)
    return found


def _config(webhook: Webhook) -> TaskPushNotificationConfig:
    """What is told of it; what it is known by is not."""
    return TaskPushNotificationConfig(id=webhook.id, task_id=webhook.task, url=webhook.url)


_DISPATCHER: Final = JsonRpcDispatcher(_Handler(), _Contexts(), enable_v0_3_compat=True)
