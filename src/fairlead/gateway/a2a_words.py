"""What the gateway knows, in A2A's words: agents as cards, tasks and their logs as tasks, updates and artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Artifact,
    HTTPAuthSecurityScheme,
    Message,
    Part,
    Role,
    SecurityRequirement,
    SecurityScheme,
    StringList,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp

from fairlead._json import dumps
from fairlead.gateway.a2a_push import state_name
from fairlead.gateway.agents import GatewayAgent
from fairlead.gateway.messages import text_of, words_of
from fairlead.tasks import records
from fairlead.tasks.states import State

Update = TaskStatusUpdateEvent | TaskArtifactUpdateEvent
#: What agents read and write.
MODES: Final = ("text/plain", "application/json")
_BEARER: Final = "bearer"


def card_of(agent: GatewayAgent, url: str, version: str, *, whole: bool) -> AgentCard:
    """An agent's card. Who is not to know much of it is told how to reach it, and no more."""
    card = AgentCard(
        name=agent.name,
        description=agent.description or agent.name
        if whole
        else "This agent tells its callers what it does.",
        version=str(agent.about.get("version") or version),
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=protocol)
            for protocol in ("1.0", "0.3")
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        security_schemes={
            _BEARER: SecurityScheme(
                http_auth_security_scheme=HTTPAuthSecurityScheme(
                    scheme="bearer", description="A key that begins with oag_, or a token."
                )
            )
        },
        security_requirements=[SecurityRequirement(schemes={_BEARER: StringList()})],
        default_input_modes=MODES,
        default_output_modes=MODES,
    )
    if whole:
        card.skills.extend(_skills(agent))
    return card


def _skills(agent: GatewayAgent) -> list[AgentSkill]:
    """What an agent says it can do; one that says nothing can do what its description says."""
    own = {"id": agent.id, "name": agent.name, "description": agent.description or agent.name}
    told: list[AgentSkill] = []
    for each in agent.about.get("skills") or [own]:
        name = str(each.get("name") or each.get("id") or agent.name)
        id, description = str(each.get("id") or name), str(each.get("description") or name)
        tags = [str(tag) for tag in each.get("tags") or ["agent"]]
        told.append(AgentSkill(id=id, name=name, description=description, tags=tags))
    return told


def task_of(task: records.Task) -> Task:
    """A task with what was asked and, once it is there, what was answered."""
    about = task.metadata.get("gateway", {})
    told = Task(id=task.id, context_id=context_of(task), status=status_of(task, task.ended or task.started))
    asked = Message(
        message_id=str(about.get("message_id") or f"{task.id}-1"),
        role=Role.ROLE_USER,
        task_id=task.id,
        context_id=told.context_id,
        parts=[Part(text=str(about.get("message", "")))],
    )
    told.history.append(asked)
    if task.state is State.completed:
        told.artifacts.append(reply_of(task))
    if about.get("metadata"):
        ParseDict(dict(about["metadata"]), told.metadata)
    return told


def context_of(task: records.Task) -> str:
    """What a task belongs to; one by itself is its own context."""
    about = task.metadata.get("gateway", {})
    return str(about.get("context_id") or task.id)


def status_of(task: records.Task, time: float | None = None, words: str | None = None) -> TaskStatus:
    """How far a task is, and what it asks or why it ended."""
    status = TaskStatus(state=state_name(task.state), timestamp=_instant(time or task.created))
    if words is None and task.state.paused:
        words = str((task.question or {}).get("question", ""))
    elif words is None and task.state.final and task.state is not State.completed:
        words = words_of(task)
    if words:
        about: Any = {
            "message_id": f"{task.id}-{task.latest}",
            "task_id": task.id,
            "context_id": context_of(task),
        }
        status.message.CopyFrom(Message(role=Role.ROLE_AGENT, parts=[Part(text=words)], **about))
        options = (task.question or {}).get("options") if task.state.paused else None
        if options:
            ParseDict({"options": options}, status.message.metadata)
    return status


def reply_of(task: records.Task) -> Artifact:
    """What a completed task gave."""
    return Artifact(artifact_id=f"{task.id}-reply", name="reply", parts=[_part(task.data)])


def status_update(task: records.Task, status: TaskStatus) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id=task.id, context_id=context_of(task), status=status)


def working(task: records.Task, time: float) -> TaskStatusUpdateEvent:
    """Word that somebody is at it."""
    status = TaskStatus(state=TaskState.TASK_STATE_WORKING, timestamp=_instant(time))
    return status_update(task, status)


def piece(task: records.Task, text: str, first: bool) -> TaskArtifactUpdateEvent:
    """Some of an answer that is being written."""
    artifact = Artifact(artifact_id=f"{task.id}-reply", name="reply", parts=[Part(text=text)])
    return _artifact_update(task, artifact, append=not first, last=False)


def whole_reply(task: records.Task) -> TaskArtifactUpdateEvent:
    """The answer itself. It takes the place of its pieces: some of them may have been said on the way to it."""
    return _artifact_update(task, reply_of(task), append=False, last=True)


def made(task: records.Task, event: records.Event) -> TaskArtifactUpdateEvent:
    """Something that was made on the way."""
    name = str(event.data.get("name") or "artifact")
    artifact = Artifact(artifact_id=f"{task.id}-{event.offset}", name=name, parts=[_part(event.data)])
    return _artifact_update(task, artifact, append=False, last=True)


def _artifact_update(
    task: records.Task, artifact: Artifact, *, append: bool, last: bool
) -> TaskArtifactUpdateEvent:
    about: Any = {"task_id": task.id, "context_id": context_of(task)}
    return TaskArtifactUpdateEvent(artifact=artifact, append=append, last_chunk=last, **about)


def _part(data: Any) -> Part:
    if isinstance(data, str):
        return Part(text=data, media_type="text/plain")
    if not isinstance(data, dict):
        return Part(text=text_of(data), media_type="text/plain")
    return Part(data=ParseDict(data, Value()), media_type="application/json")


def words(message: Message) -> str | None:
    """What a message says to an agent, which reads text; None where there is something that is no text at all."""
    lines: list[str] = []
    for part in message.parts:
        kind = part.WhichOneof("content")
        if kind == "text":
            lines.append(part.text)
        elif kind == "data":
            lines.append(dumps(MessageToDict(part.data)))
        elif kind == "url":
            lines.append(f"{part.filename or part.media_type or 'File'}: {part.url}")
        else:
            return None
    return "\n".join(lines)


def texts(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a message's metadata."""
    return {name: value for name, value in metadata.items() if isinstance(value, str)}


def _instant(time: float) -> Timestamp:
    at = Timestamp()
    at.FromNanoseconds(int(time * 1e9))
    return at
