"""The `/` commands of a chat: what is typed there for the chat itself, and not for the agent."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead import _json
from fairlead.agents.conversations import Conversation
from fairlead.agents.models.model import Message
from fairlead.failures import Failure, Kind
from fairlead.surfaces.cli import chat_cards as cards
from fairlead.surfaces.cli.console import BOLD, CYAN, DIM, harmless, harmless_line
from fairlead.surfaces.cli.hints import near_miss
from fairlead.surfaces.cli.spans import ago

if TYPE_CHECKING:
    from fairlead.surfaces.cli.chat_session import Chat

_SHOWN: Final = 20
#: How many conversations are looked through for one whose id was cut short.
_LOOKED_AT: Final = 1000
_OTHER_NAMES: Final = {
    "quit": "exit",
    "q": "exit",
    "?": "help",
    "h": "help",
    "conversation": "conversations",
    "sessions": "conversations",
}


class Told(NamedTuple):
    """A command: what it takes, what it does, and how."""

    takes: str
    summary: str
    run: Callable[[Chat, str], None]


def run_command(chat: Chat, text: str) -> None:
    """Do what a line that begins with a slash says.

    Raises:
        Failure: it makes no sense, or cannot be done.
    """
    name, _, rest = text[1:].strip().partition(" ")
    name = name.lower()
    command = COMMANDS.get(_OTHER_NAMES.get(name, name))
    if command is None:
        hint = near_miss(name, COMMANDS).replace('"', "'").replace("'", "'/", 1)
        raise Failure(
            Kind.invalid_input,
            f"There is no command /{name[:40]}.{hint} /help lists them.",
        )
    command.run(chat, rest.strip())


def _help(chat: Chat, rest: str) -> None:
    from fairlead.surfaces.cli.pages import Page

    page = Page(chat.console, chat.console.err)
    page.section(
        "Commands", [(f"/{name} {each.takes}".rstrip(), each.summary) for name, each in COMMANDS.items()]
    )
    page.paragraph("A line that ends in \\ goes on in the next; // begins a message with a slash.")
    chat.console.say(page.text(), end="")


def _new(chat: Chat, rest: str) -> None:
    from fairlead.surfaces.cli.chat import fresh

    chat.use(fresh())
    _say(chat, f"A new conversation: {chat.talk.conversation}")


def _sessions(chat: Chat, rest: str) -> None:
    found = chat.engine.run(
        lambda signal: chat.talk.app.conversations.page(chat.owner, agent=chat.talk.agent.name, limit=_SHOWN)
    )
    if not found:
        _say(chat, "There are no conversations yet.")
    now, paint = time.time(), chat.console.err
    for each in found:
        here = "*" if each.id == chat.talk.conversation else " "
        about = f"{ago(now - each.updated):>4}  {each.messages:>4} messages"
        title = harmless_line(each.title or "")
        chat.console.say(f"{here} {paint(harmless_line(each.id), CYAN)}  {paint(about, DIM)}  {title}")


def _resume(chat: Chat, rest: str) -> None:
    if not rest:
        raise Failure(
            Kind.invalid_input, "/resume takes the id of a conversation; /conversations lists them."
        )
    conversations = chat.talk.app.conversations
    listed = chat.engine.run(
        lambda signal: conversations.page(chat.owner, agent=chat.talk.agent.name, limit=_LOOKED_AT)
    )
    found = [each for each in listed if each.id == rest] or [
        each for each in listed if each.id.startswith(rest)
    ]
    if len(found) != 1:
        several = "could be several conversations" if found else "is no conversation with this agent"
        raise Failure(Kind.not_found, f"{rest[:80]!r} {several}. /conversations lists them.")
    chat.use(found[0].id, found[0].state.get("awaiting"))
    _say(chat, f"Session {found[0].id}: {harmless_line(found[0].title or '')}")
    _history(chat, "2")


def _title(chat: Chat, rest: str) -> None:
    if not rest:
        about, _ = _kept(chat)
        _say(chat, harmless_line((about and about.title) or "It has no title yet."))
        return
    chat.engine.run(
        lambda signal: chat.talk.app.conversations.rename(chat.talk.conversation, chat.owner, rest)
    )
    _say(chat, "Renamed.")


def _clear(chat: Chat, rest: str) -> None:
    about, _ = _kept(chat)
    if about is not None:
        chat.engine.run(lambda signal: chat.talk.app.conversations.clear(chat.talk.conversation, chat.owner))
    chat.use(chat.talk.conversation)
    _say(chat, "What was said in this conversation is forgotten.")


def _history(chat: Chat, rest: str) -> None:
    if rest and not (rest.isascii() and rest.isdigit()):
        raise Failure(Kind.invalid_input, "/history takes how many messages to show, or nothing.")
    _, messages = _kept(chat)
    said = [each for each in messages if each.role in ("user", "assistant")]
    if not said:
        _say(chat, "Nothing has been said yet.")
    for message in said[-int(rest) :] if rest and int(rest) else said:
        _shown(chat, message)


def _shown(chat: Chat, message: Message) -> None:
    console = chat.console
    who = "you" if message.role == "user" else chat.talk.agent.name
    if message.content.strip():
        text = harmless(message.content.strip()).replace("\n", "\n  ")
        console.say(f"{console.err(harmless_line(who), BOLD)}\n  {text}")
    for call in message.calls:
        words = cards.short_arguments(_arguments(call.arguments), console.width - len(call.name) - 8)
        console.say(console.err(f"  {harmless_line(call.name)} {words}", DIM))


def _arguments(text: str) -> Any:
    try:
        return _json.loads(text)
    except ValueError:
        return text


def _model(chat: Chat, rest: str) -> None:
    agent, models = chat.talk.agent, chat.talk.app.models
    if rest:
        models.resolve(rest)
        agent.model = rest
    _say(chat, f"The model is {harmless_line(models.resolve(agent.model).name)}")


def _tools(chat: Chat, rest: str) -> None:
    agent, paint = chat.talk.agent, chat.console.err
    actions = agent.belt(chat.talk.app).actions.values()
    if not actions:
        _say(chat, "This agent has no tools.")
    wide = max((len(each.name) for each in actions), default=0)
    for each in actions:
        gate = (
            agent.gates.get(each.name)
            or agent.gates.get("*")
            or ("ask" if each.requires_confirmation else "auto")
        )
        first = harmless_line(each.description.split("\n")[0])
        room = chat.console.width - wide - 10
        chat.console.say(
            f"  {paint(each.name.ljust(wide), CYAN)}  {gate:<4}  {paint(cards.cut(first, room), DIM)}"
        )


def _usage(chat: Chat, rest: str) -> None:
    spent = chat.spent
    turns = f"{spent.turns} turn{'' if spent.turns == 1 else 's'}"
    _say(
        chat,
        cards.usage_line(
            {**spent.used, "input": int(spent.used["input"]), "output": int(spent.used["output"])},
            None,
            [turns],
        ),
    )


def _save(chat: Chat, rest: str) -> None:
    if not rest:
        raise Failure(Kind.invalid_input, "/save takes a file: notes.md, or notes.json for all there is.")
    about, messages = _kept(chat)
    if about is None:
        raise Failure(Kind.not_found, "There is nothing to save: nothing has been said yet.")
    path = Path(rest).expanduser()
    text = _as_json(about, messages) if path.suffix == ".json" else _as_markdown(chat, about, messages)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Failure(
            Kind.conflict, f"{rest!r} is there already, and is left as it is. Name another file."
        ) from None
    except OSError as exc:
        raise Failure(Kind.invalid_input, f"{rest!r} cannot be written: {exc.strerror}.") from exc
    _say(chat, f"Saved to {harmless_line(rest)}")


def _as_json(about: Conversation, messages: list[Message]) -> str:
    told = []
    for each in messages:
        entry: dict[str, Any] = {"role": each.role, "content": each.content}
        if each.calls:
            entry["calls"] = [
                {"id": call.id, "name": call.name, "arguments": _arguments(call.arguments)}
                for call in each.calls
            ]
        if each.call_id is not None:
            entry |= {"call_id": each.call_id, "name": each.name}
        told.append(entry)
    return _json.dumps({**about.to_dict(), "transcript": told}, indent=True) + "\n"


def _as_markdown(chat: Chat, about: Conversation, messages: list[Message]) -> str:
    parts = [f"# {about.title or about.id}"]
    for each in messages:
        if each.role == "tool":
            continue
        if each.content.strip():
            parts.append(
                f"## {'You' if each.role == 'user' else chat.talk.agent.name}\n\n{each.content.strip()}"
            )
        parts += [f"- `{call.name}` `{call.arguments}`" for call in each.calls]
    return "\n\n".join(parts) + "\n"


def _thoughts(chat: Chat, rest: str) -> None:
    if rest not in ("on", "off", ""):
        raise Failure(Kind.invalid_input, "/thoughts takes on or off.")
    if rest:
        chat.screen.thoughts = rest == "on"
    _say(chat, f"Thoughts are {'shown' if chat.screen.thoughts else 'not shown'}.")


def _output(chat: Chat, rest: str) -> None:
    chat.console.say(chat.screen.output or "No tool has been used yet.")


def _exit(chat: Chat, rest: str) -> None:
    chat.over = True


def _kept(chat: Chat) -> tuple[Conversation | None, list[Message]]:
    """The conversation as it is stored; nothing where nothing has been said."""
    try:
        return chat.engine.run(
            lambda signal: chat.talk.app.conversations.get(chat.talk.conversation, chat.owner)
        )
    except Failure as failure:
        if failure.kind is not Kind.not_found:
            raise
        return None, []


def _say(chat: Chat, text: str) -> None:
    chat.console.say(chat.console.err(text, DIM))


COMMANDS: Final = {
    "help": Told("", "List these commands.", _help),
    "new": Told("", "Begin a new conversation.", _new),
    "conversations": Told("", "List the conversations with this agent.", _sessions),
    "resume": Told("ID", "Go on with a conversation; the beginning of its id will do.", _resume),
    "title": Told("TEXT", "Give this conversation a title.", _title),
    "clear": Told("", "Forget what was said in this conversation.", _clear),
    "history": Told("[N]", "Show what was said, or the last N messages.", _history),
    "model": Told("[NAME]", "Use another model, or show which one it is.", _model),
    "tools": Told("", "List the agent's tools, and which of them are asked about.", _tools),
    "output": Told("", "Show the whole output of the last tool.", _output),
    "usage": Told("", "Show what this chat has used.", _usage),
    "save": Told("FILE", "Write the conversation to a file: Markdown, or JSON if it ends so.", _save),
    "thoughts": Told("on|off", "Show what the model thinks, or do not.", _thoughts),
    "exit": Told("", "Leave.", _exit),
}
