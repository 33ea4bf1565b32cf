"""Agents: types that go in and out, tools and who agrees to them, limits, conversations and streams."""

import asyncio
from typing import Literal

from library import app
from pydantic import BaseModel

from fairlead import Context
from fairlead.agents import OPERATOR, Agent, Approval, Clarification, Limits, Policy, Settings, Verdict
from fairlead.agents.memory import memory
from fairlead.testing import ScriptModel, call


async def call_it() -> None:
    result = await app.invoke("clerk", {"prompt": "May I have Moby-Dick?"})
    assert result.data == "Moby-Dick is yours now."
    assert result.meta["agent"]["iterations"] == 3
    assert [each["name"] for each in result.meta["agent"]["toolCalls"]] == ["find_book", "lend_book"]


# The same without a function.

guide = Agent(
    "guide",
    model=ScriptModel(["Turn left at the globe."], repeat=True),
    instructions="You show people around a library.",
    tools=["find_book"],
    settings=Settings(temperature=0.2, max_tokens=500),
    timeout=60,
)
app.add(guide)


# Types. The reply is not any text: it is a Ticket.


class Ticket(BaseModel):
    urgency: Literal[1, 2, 3]
    desk: Literal["loans", "returns"]


sorting = ScriptModel(["I would say loans.", '{"urgency": 2, "desk": "loans"}'])


@app.agent(model=sorting)
def sort_letter(subject: str, body: str) -> Ticket:
    """Sort letters to the library by desk and urgency; 1 can wait, 3 cannot."""


async def typed() -> None:
    result = await app.invoke("sort_letter", {"subject": "Card", "body": "I lost my card."})
    assert result.data == {"urgency": 2, "desk": "loans"}


# A function may write the prompt itself.


@app.agent(model=ScriptModel(["A whale, and a captain who is after it."]))
async def sum_up(title: str, ctx: Context) -> str:
    """Sum up books in one sentence, without saying how they end."""
    return f"Sum up {title!r}. It is {await ctx.invoke('find_book', {'title': title})}."


# Who agrees to a tool.

tidying = ScriptModel([call("discard_book", title="Emma"), "Emma stays."])
keeper = Agent(
    "keeper",
    model=tidying,
    instructions="You keep the shelves tidy.",
    tools=["find_book", "lend_book", "discard_book"],
    gates={"find_book": "auto", "lend_book": "deny", "*": "ask"},
)
app.add(keeper)


class Librarian:
    """Somebody who can be asked. A surface with a person at it is one by itself."""

    async def approve(self, ask: Approval) -> Verdict:
        return Verdict(ask.effects != "destructive", reason="We throw nothing away on Mondays.")

    async def clarify(self, ask: Clarification) -> str | None:
        return ask.options[0] if ask.options else None


async def asked() -> None:
    OPERATOR.set(Librarian())
    result = await app.invoke("keeper", {"prompt": "Tidy up."})
    assert result.data == "Emma stays."
    assert "on Mondays" in tidying.requests[-1].messages[-1].content


# Limits.

careful = Agent(
    "careful",
    model=ScriptModel([call("find_book", title="Emma")], repeat=True),
    instructions="You look for books until you find them.",
    tools=[app.get("find_book")],
    policy=Policy(limits=Limits(iterations=4, tool_calls=20, tokens=50_000, cost=0.10, seconds=120)),
)
app.add(careful)


async def stopped() -> None:
    failure = (await app.invoke("careful", {"prompt": "Find Emma."})).failure
    assert failure.code == "max_iterations_reached"
    assert len(failure.details["tool_calls_executed"]) == 4


# Conversations, and a question that pauses one.

lender = Agent(
    "lender",
    model=ScriptModel(
        [call("clarify", question="For how long?", options=["a week", "a month"]), "A week it is."]
    ),
    instructions="You lend books.",
)
app.add(lender)


async def conversing() -> None:
    OPERATOR.set(None)
    paused = await app.invoke("lender", {"prompt": "I want Emma.", "conversation": "ada-1"})
    assert paused.failure.code == "clarify_requested"
    assert paused.failure.details["question"] == "For how long?"
    assert paused.failure.details["options"] == ["a week", "a month"]

    resumed = await app.invoke("lender", {"prompt": "a week", "conversation": "ada-1"})
    assert resumed.data == "A week it is."

    conversation, messages = await app.conversations.get("ada-1", "")
    assert conversation.agent == "lender"
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]


# Memory, and agents that use agents.

app.add(memory())
host = Agent(
    "host",
    model=ScriptModel(
        [
            call("search_memory", query="Emma"),
            call("guide", prompt="Where are novels?"),
            "Left, at the globe.",
        ]
    ),
    instructions="You answer people at the door.",
    tools=["search_memory", guide],
)
app.add(host)


async def remembering() -> None:
    result = await app.invoke("host", {"prompt": "Where is what I asked for?"})
    assert result.data == "Left, at the globe."


# Streams.


async def streaming() -> None:
    text, steps = "", []
    async for event in app.stream("clerk", {"prompt": "May I have Moby-Dick?"}):
        match event:
            case {"type": "delta", "data": piece}:
                text += piece
            case {"type": "activity", "kind": kind, "title": title}:
                steps.append((kind, title))
            case {"type": "result", "envelope": envelope}:
                assert envelope["data"] == text == "Moby-Dick is yours now."
    assert steps == [
        ("tool_call", "find_book"),
        ("tool_result", "find_book"),
        ("tool_call", "lend_book"),
        ("tool_result", "lend_book"),
    ]


async def main() -> None:
    await call_it()
    assert (await app.invoke("guide", {"prompt": "Where are maps?"})).ok
    await typed()
    assert (await app.invoke("sum_up", {"title": "Moby-Dick"})).ok
    await asked()
    await stopped()
    await conversing()
    await remembering()
    await streaming()


asyncio.run(main())
