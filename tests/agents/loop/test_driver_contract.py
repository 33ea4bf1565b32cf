"""The loop as the contract has it: every exit, notices, results given again, batches and cancellation.

Agents are called through an app, with a scripted model and actions that note what is done to them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, _json
from fairlead.agents import OPERATOR, Agent, Approval, Clarification, Limits, Policy, Verdict
from fairlead.agents.loop import notices
from fairlead.agents.models.model import Message, ToolCall
from fairlead.agents.models.script import ScriptModel, Turn, call
from fairlead.agents.running import CHAT
from fairlead.failures import tool
from fairlead.failures.runtime import ApiError

SUMMARY = "Both files were compared, and they are the same."


class Desk:
    """An app with tools that are watched."""

    def __init__(self, folder: Path) -> None:
        self.app = App("desk", store=f"sqlite:///{folder}/desk.db")
        self.done: list[str] = []
        #: What a tool waits for before it goes on, by its argument.
        self.gates: dict[str, asyncio.Event] = {}
        self.begun: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.ended: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.contents: dict[str, str] = {}
        self._declare()

    def _declare(self) -> None:
        app = self.app

        @app.action
        async def file_read(path: str) -> dict[str, Any]:
            """Read a file, or list a folder."""
            await self.work(f"read {path}", path)
            if path.startswith("folder"):
                entries = [{"name": "a", "path": f"{path}/a", "type": "file"}]
                return {
                    "kind": "listing",
                    "path": path,
                    "entries": entries,
                    "entry_count": 1,
                    "truncated": False,
                }
            if path not in self.contents:
                raise tool.NotFound(f"There is no file {path!r}.", field="path")
            return {"kind": "file", "path": path, "text": self.contents[path]}

        @app.action(side_effects="write")
        async def file_write(path: str, content: str) -> str:
            """Write a file."""
            await self.work(f"write {path} {content}", content)
            self.contents[path.removeprefix("./")] = content
            return "written"

        @app.action(side_effects="write")
        async def shell_run(command: str) -> dict[str, Any]:
            """Run a command."""
            await self.work(f"run {command}", command)
            return {"exit_code": 1}

        @app.action
        async def look(at: str) -> str:
            """Look at something."""
            await self.work(f"look {at}", at)
            if at == "broken":
                raise ValueError("It fell apart.")
            return at

        @app.action(side_effects="destructive", requires_confirmation=True)
        async def wipe(name: str) -> str:
            """Wipe something."""
            await self.work(f"wipe {name}", name)
            return name

    async def work(self, what: str, about: str) -> None:
        self.begun[about].set()
        if about in self.gates:
            await self.gates[about].wait()
        self.done.append(what)
        self.ended[about].set()

    def model(self, *turns: Any, **options: Any) -> ScriptModel:
        """An agent named `clerk` that follows a script."""
        model = ScriptModel(turns)
        self.app.add(
            Agent(
                "clerk", model=model, instructions="You are a clerk.", tools=["*", "wipe"], **options
            ).action
        )
        return model

    async def ask(self, prompt: str = "Go.", *, chat: bool = False, conversation: str | None = None) -> Any:
        input = (
            {"prompt": prompt} if conversation is None else {"prompt": prompt, "conversation": conversation}
        )
        return await self.app.invoke("clerk", input, metadata={CHAT: True} if chat else {})

    async def kept(self, conversation: str = "c1") -> list[Message]:
        _, messages = await self.app.conversations.get(conversation, "")
        return list(messages)


class Person:
    """Somebody who agrees to some tools, and remembers what they were asked."""

    def __init__(self, *agreed: str) -> None:
        self.agreed = agreed
        self.asked: list[str] = []

    async def approve(self, ask: Approval) -> Verdict:
        self.asked.append(str(ask.input))
        return Verdict(str(ask.input.get("name")) in self.agreed)

    async def clarify(self, ask: Clarification) -> str | list[str] | None:
        return None


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def kind(envelope: str) -> str:
    """The kind of a failure as the model reads it; nothing for a success."""
    return str(_json.loads(envelope).get("kind", ""))


def results(model: ScriptModel) -> list[str]:
    """The results that the model was told last, in their order."""
    return [message.content for message in model.requests[-1].messages if message.role == "tool"]


def told(model: ScriptModel, number: int = -1) -> str:
    """The last thing that a request says."""
    return model.requests[number].messages[-1].content


def steps(count: int) -> Policy:
    return Policy(limits=Limits(iterations=count))


# Exits


async def test_a_final_answer_in_the_first_step_ends_the_run(desk: Desk) -> None:
    model = desk.model("Hello.")
    result = await desk.ask()
    assert (result.data, result.meta["agent"]["exit"]) == ("Hello.", "final_response")
    assert len(model.requests) == 1


async def test_calls_are_made_and_then_the_run_finishes(desk: Desk) -> None:
    model = desk.model(call("look", at="a"), call("look", at="b"), "Seen.")
    assert (await desk.ask()).data == "Seen."
    assert desk.done == ["look a", "look b"]
    assert [tool.payload(each) for each in results(model)] == ["a", "b"]


async def test_ids_that_the_model_gave_are_kept(desk: Desk) -> None:
    model = desk.model(ToolCall("look", '{"at":"a"}', "toolu_17"), "Seen.")
    await desk.ask()
    assert model.requests[-1].messages[-1].call_id == "toolu_17"


async def test_a_call_without_an_id_gets_one(desk: Desk) -> None:
    class Nameless(ScriptModel):
        async def reply(self, request: Any) -> Any:
            given = await super().reply(request)
            return replace(given, calls=tuple(replace(each, id="") for each in given.calls))

    model = Nameless([call("look", at="a"), "Seen."])
    desk.app.add(Agent("clerk", model=model, instructions="You are a clerk.", tools="*").action)
    assert (await desk.ask()).ok
    last = model.requests[-1].messages[-1].call_id
    assert last is not None
    assert last.startswith("call_")
    assert len(last) == len("call_") + 24


async def test_the_cap_is_reached_when_tools_never_stop_and_the_last_calls_still_run(desk: Desk) -> None:
    desk.model(*(call("look", at=str(n)) for n in range(9)), policy=steps(3))
    result = await desk.ask()
    assert result.failure.code == "max_iterations_reached"
    assert desk.done == ["look 0", "look 1", "look 2"]


async def test_a_declined_tool_stops_a_chat(desk: Desk) -> None:
    OPERATOR.set(Person())
    model = desk.model(call("wipe", name="a"), "Never said.")
    assert (await desk.ask(chat=True)).failure.code == "tool_denied"
    assert len(model.requests) == 1
    assert desk.done == []


async def test_a_declined_tool_does_not_stop_other_runs(desk: Desk) -> None:
    OPERATOR.set(Person())
    model = desk.model(call("wipe", name="a"), "All right.")
    assert (await desk.ask()).data == "All right."
    assert '"kind":"user_denied"' in told(model)


async def test_complete_ends_the_run_and_what_follows_is_not_asked_for(desk: Desk) -> None:
    model = desk.model(call("complete", summary=SUMMARY), "Never said.")
    result = await desk.ask()
    assert (result.data, result.meta["agent"]["exit"]) == (SUMMARY, "ended_by_surface")
    assert len(model.requests) == 1


async def test_a_complete_that_is_refused_lets_the_run_go_on(desk: Desk) -> None:
    model = desk.model(call("complete", summary="Done."), call("complete", summary=SUMMARY))
    assert (await desk.ask()).data == SUMMARY
    assert '"kind":"invalid_args"' in told(model)


async def test_a_question_that_pauses_is_not_recorded_as_answered(desk: Desk) -> None:
    desk.model(call("clarify", question="Which?"))
    paused = await desk.ask(conversation="c1")
    assert paused.failure.code == "clarify_requested"
    assert [each.role for each in await desk.kept()] == ["user", "assistant"]


async def test_a_conversation_that_is_too_long_ends_before_the_model_is_asked(desk: Desk) -> None:
    model = ScriptModel(["Never said."], window=1_000)
    desk.app.add(Agent("clerk", model=model, instructions="Short.", loop_tools=False).action)
    assert (await desk.ask("word " * 4_000)).failure.code == "context_overflow"
    assert model.requests == []


async def test_failures_of_the_model_are_the_callers(desk: Desk) -> None:
    desk.model(call("look", at="a"), ApiError("The model is away."))
    result = await desk.ask()
    assert result.failure.code == "api_error"
    assert desk.done == ["look a"]


# What a step costs


async def test_empty_turns_are_asked_again_with_a_notice_and_cost_nothing(desk: Desk) -> None:
    model = desk.model("", " \n", "Here I am.", policy=steps(1))
    result = await desk.ask()
    assert (result.data, result.meta["agent"]["iterations"]) == ("Here I am.", 1)
    assert notices.EMPTY_TURN not in told(model, 0)
    assert notices.EMPTY_TURN in told(model, 1)
    assert notices.EMPTY_TURN in told(model, 2)


async def test_after_two_more_empty_turns_something_is_said_instead(desk: Desk) -> None:
    model = desk.model("", "", "")
    result = await desk.ask()
    assert (result.data, result.meta["agent"]["exit"]) == (notices.EMPTY_REPLY, "final_response")
    assert len(model.requests) == 3


# Notices


async def test_the_budget_is_told_in_the_last_three_steps(desk: Desk) -> None:
    model = desk.model(*(call("look", at=str(n)) for n in range(5)), "Seen.", policy=steps(6))
    await desk.ask()
    assert ["Only" in request.messages[-1].content for request in model.requests] == [False] * 3 + [True] * 3


async def test_notices_are_told_once_and_never_stored(desk: Desk) -> None:
    model = desk.model(call("look", at="a"), call("look", at="b"), "Seen.", policy=steps(3))
    await desk.ask(conversation="c1")
    assert notices.PREFIX in told(model)
    assert not any(notices.PREFIX in each.content for each in await desk.kept())
    assert [notices.PREFIX in each for each in results(model)] == [False, True]


async def test_a_read_that_was_made_before_is_given_again_without_being_made(desk: Desk) -> None:
    desk.contents["a.txt"] = "hello"
    model = desk.model(call("file_read", path="a.txt"), call("file_read", path="a.txt"), "Read.")
    await desk.ask(chat=True)
    assert desk.done == ["read a.txt"]
    first, second = results(model)
    assert second == f"{first}\n\n{notices.DEDUPE}"


async def test_runs_that_nobody_watches_are_not_told_of_results_given_again(desk: Desk) -> None:
    desk.contents["a.txt"] = "hello"
    model = desk.model(call("file_read", path="a.txt"), call("file_read", path="a.txt"), "Read.")
    await desk.ask()
    assert desk.done == ["read a.txt"]
    assert results(model)[0] == results(model)[1]


async def test_a_read_is_made_again_after_a_write(desk: Desk) -> None:
    desk.contents["a.txt"] = "before"
    turns = [call("file_read", path="a.txt"), call("file_write", path="./a.txt", content="after")]
    model = desk.model(*turns, call("file_read", path="a.txt"), "Read.")
    await desk.ask()
    assert "after" in results(model)[-1]


async def test_a_failure_that_lasts_is_given_again_with_a_notice(desk: Desk) -> None:
    model = desk.model(*[call("file_read", path="missing")] * 3, "I cannot.")
    await desk.ask()
    assert desk.done == ["read missing"]
    assert "failed 3 times" in told(model)


async def test_a_model_that_wanders_is_nudged_in_the_next_step(desk: Desk) -> None:
    calls = [call("file_read", path=f"folder{n}") for n in range(3)]
    model = desk.model(*calls, "Seen.")
    await desk.ask()
    assert ["result.entries" in request.messages[-1].content for request in model.requests] == [
        False,
        False,
        True,
        True,
    ]


async def test_nudges_can_be_switched_off_for_an_agent(desk: Desk) -> None:
    model = desk.model(
        *(call("file_read", path=f"folder{n}") for n in range(3)), "Seen.", policy=Policy(nudges=False)
    )
    await desk.ask()
    assert notices.PREFIX not in told(model)


# A list that is forgotten


def stale(model: ScriptModel) -> list[bool]:
    return ["Your todo list" in request.messages[-1].content for request in model.requests]


async def test_a_forgotten_list_is_told_of_after_four_steps(desk: Desk) -> None:
    turns = [call("todo", markdown="- [ ] a\n- [ ] b"), *(call("look", at=str(n)) for n in range(6)), "Seen."]
    model = desk.model(*turns)
    await desk.ask()
    assert stale(model) == [False] * 5 + [True] + [False] * 2


async def test_touching_the_list_begins_the_count_anew(desk: Desk) -> None:
    look, todo = [call("look", at=str(n)) for n in range(6)], call("todo", markdown="- [x] a\n- [ ] b")
    model = desk.model(todo, *look[:3], todo, *look[3:], "Seen.")
    await desk.ask()
    assert not any(stale(model))


async def test_a_list_without_open_items_is_left_alone(desk: Desk) -> None:
    model = desk.model(
        call("todo", markdown="- [x] a"), *(call("look", at=str(n)) for n in range(6)), "Seen."
    )
    await desk.ask()
    assert not any(stale(model))


# Batches


async def test_a_batch_runs_side_by_side_and_its_results_are_in_the_models_order(desk: Desk) -> None:
    desk.gates["a"] = asyncio.Event()
    model = desk.model([call("look", at="a"), call("look", at="b")], "Seen.")
    run = asyncio.ensure_future(desk.ask())
    await desk.ended["b"].wait()
    desk.gates["a"].set()
    await run
    assert desk.done == ["look b", "look a"]
    assert [tool.payload(each) for each in results(model)] == ["a", "b"]


async def test_every_call_of_a_batch_is_made_where_nobody_has_to_agree(desk: Desk) -> None:
    model = desk.model([call("look", at=each) for each in "abc"], "Seen.")
    await desk.ask()
    assert sorted(desk.done) == ["look a", "look b", "look c"]
    assert all(tool.is_success(each) for each in results(model))


async def test_people_are_asked_in_the_models_order_and_a_no_skips_the_rest(desk: Desk) -> None:
    person = Person("a")
    OPERATOR.set(person)
    model = desk.model(
        [call("wipe", name="a"), call("wipe", name="b"), call("wipe", name="c"), call("look", at="d")], "Ok."
    )
    await desk.ask()
    assert person.asked == ["{'name': 'a'}", "{'name': 'b'}"]
    assert desk.done == ["wipe a"]
    assert [kind(each) for each in results(model)] == ["", "user_denied", "rejected", "rejected"]


async def test_a_no_in_a_batch_stops_a_chat(desk: Desk) -> None:
    OPERATOR.set(Person())
    model = desk.model([call("look", at="a"), call("wipe", name="b")], "Never said.")
    assert (await desk.ask(chat=True)).failure.code == "tool_denied"
    assert desk.done == ["look a"]
    assert len(model.requests) == 1


async def test_a_call_that_fails_is_an_envelope_and_the_others_go_on(desk: Desk) -> None:
    model = desk.model([call("look", at="broken"), call("look", at="b")], "Seen.")
    assert (await desk.ask()).ok
    broken, fine = results(model)
    assert tool.is_error(broken)
    assert tool.payload(fine) == "b"


@pytest.mark.parametrize("change", ["file_write", "shell_run"])
async def test_what_a_turn_reads_beside_a_change_is_read_again_afterwards(desk: Desk, change: str) -> None:
    desk.gates["b"] = asyncio.Event()
    changing = (
        call("file_write", path="a.txt", content="b") if change == "file_write" else call(change, command="b")
    )
    model = desk.model([changing, call("file_read", path="a.txt")], call("file_read", path="a.txt"), "Read.")
    run = asyncio.ensure_future(desk.ask())
    await desk.ended["a.txt"].wait()
    desk.contents["a.txt"] = "b"
    desk.gates["b"].set()
    await run
    assert [kind(each) for each in results(model)] == ["", "not_found", ""]


async def test_a_read_that_follows_a_write_in_its_turn_is_not_answered_from_before(desk: Desk) -> None:
    desk.contents["a.txt"] = "before"
    read = call("file_read", path="a.txt")
    model = desk.model(read, [call("file_write", path="a.txt", content="after"), read], read, "Read.")
    await desk.ask()
    assert desk.done.count("read a.txt") == 3
    assert "after" in results(model)[-1]


async def test_a_read_that_a_turn_repeats_around_a_write_is_made_twice(desk: Desk) -> None:
    desk.contents["a.txt"] = "before"
    read = call("file_read", path="a.txt")
    model = desk.model([read, call("file_write", path="a.txt", content="after"), read], "Read.")
    await desk.ask()
    assert "after" in results(model)[-1]


async def test_writes_to_one_file_happen_in_the_models_order_whatever_the_spelling(desk: Desk) -> None:
    desk.gates["one"] = asyncio.Event()
    inner = {"path": "a", "content": "three"}
    writes = [
        call("file_write", path="/here/a", content="one"),
        call("file_write", path="a", content="two"),
        call("file_write", properties=inner),
    ]
    desk.model([*writes, call("look", at="b")], "Written.")
    run = asyncio.ensure_future(desk.ask())
    await desk.ended["b"].wait()
    desk.gates["one"].set()
    await run
    assert desk.done[1:] == ["write /here/a one", "write a two", "write a three"]


async def test_writes_to_one_path_happen_in_the_models_order(desk: Desk) -> None:
    desk.gates["one"] = asyncio.Event()
    writes = [
        call("file_write", path=path, content=text)
        for path, text in (("a", "one"), ("./a", "two"), ("b", "three"))
    ]
    desk.model(writes, "Written.")
    run = asyncio.ensure_future(desk.ask())
    await desk.ended["three"].wait()
    assert "two" not in desk.begun
    desk.gates["one"].set()
    await run
    assert desk.done == ["write b three", "write a one", "write ./a two"]


async def test_the_same_read_twice_in_a_batch_is_made_once(desk: Desk) -> None:
    desk.contents["a.txt"] = "hello"
    model = desk.model([call("file_read", path="a.txt"), call("file_read", path="a.txt")], "Read.")
    await desk.ask()
    assert desk.done == ["read a.txt"]
    assert results(model)[0] == results(model)[1]


async def test_a_result_of_an_earlier_step_is_given_again_in_a_batch(desk: Desk) -> None:
    desk.contents["a.txt"] = "hello"
    model = desk.model(
        call("file_read", path="a.txt"), [call("file_read", path="a.txt"), call("look", at="b")], "Read."
    )
    await desk.ask()
    assert desk.done == ["read a.txt", "look b"]
    assert len(results(model)) == 3


async def test_complete_in_a_batch_makes_it_serial_and_later_calls_are_not_made(desk: Desk) -> None:
    desk.model([call("look", at="a"), call("complete", summary=SUMMARY), call("look", at="b")])
    assert (await desk.ask()).data == SUMMARY
    assert desk.done == ["look a"]


async def test_a_call_of_a_tool_that_there_is_not_is_told_in_a_batch(desk: Desk) -> None:
    model = desk.model([call("fly"), call("look", at="a")], "Seen.")
    await desk.ask()
    assert [tool.is_error(each) for each in results(model)] == [True, False]
    assert kind(results(model)[0]) == "tool_not_found"


# Cancellation


async def test_a_run_that_is_cancelled_in_the_model_writes_nothing_more(desk: Desk) -> None:
    model = desk.model(Turn("Never said.", after=asyncio.Event()))
    run = asyncio.ensure_future(desk.ask(conversation="c1"))
    await model.asked(1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert [each.content for each in await desk.kept()] == ["Go."]


async def test_a_call_that_is_cancelled_has_a_result_in_the_conversation(desk: Desk) -> None:
    desk.gates["a"] = asyncio.Event()
    desk.model(call("look", at="a"))
    run = asyncio.ensure_future(desk.ask(conversation="c1"))
    await desk.begun["a"].wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    last = (await desk.kept())[-1]
    assert last.role == "tool"
    assert kind(last.content) == "execution_error"


async def test_what_was_done_is_recorded_before_the_run_gives_way(desk: Desk) -> None:
    desk.gates["b"] = asyncio.Event()
    complete = call("complete", summary=SUMMARY)
    desk.model([call("look", at="a"), call("look", at="b"), complete])
    run = asyncio.ensure_future(desk.ask(conversation="c1"))
    await desk.begun["b"].wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    told = [each.content for each in await desk.kept() if each.role == "tool"]
    assert [tool.is_success(each) for each in told] == [True, False, False]


async def test_calls_of_a_batch_that_were_not_done_are_told_so(desk: Desk) -> None:
    desk.gates["one"] = asyncio.Event()
    writes = [call("file_write", path="a", content=each) for each in ("one", "two")]
    desk.model([*writes, call("look", at="c")])
    async with desk.app.stream("clerk", {"prompt": "Go.", "conversation": "c1"}) as events:
        async for event in events:
            if event.get("kind") == "tool_result":
                break
    told = {each.call_id: kind(each.content) for each in await desk.kept() if each.role == "tool"}
    assert "two" not in desk.begun
    assert told == {"call_1": "execution_error", "call_2": "execution_error", "call_3": ""}


# Time, names and permission


async def test_a_tool_that_does_not_yield_is_a_timeout_and_the_run_goes_on(desk: Desk) -> None:
    stuck = threading.Event()

    @desk.app.action
    def dig(deep: bool) -> str:
        """Dig."""
        stuck.wait(30)
        return "dug"

    model = desk.model(
        call("dig", deep=True), "It took too long.", policy=Policy(limits=Limits(tool_seconds=0.05))
    )
    try:
        assert (await desk.ask()).data == "It took too long."
    finally:
        stuck.set()
    assert kind(results(model)[0]) == "timeout"
    assert '"retryable":true' in results(model)[0]


async def test_a_fast_tool_gives_its_own_result(desk: Desk) -> None:
    model = desk.model(call("look", at="a"), "Seen.", policy=Policy(limits=Limits(tool_seconds=5)))
    await desk.ask()
    assert results(model) == ['{"ok":true,"result":"a","tool":"look"}']


async def test_a_tool_that_watches_over_itself_is_not_held_to_the_time(desk: Desk) -> None:
    gate = asyncio.Event()

    @desk.app.action(metadata={"unlimited": True})
    async def build_all(all: bool) -> str:
        """Build."""
        asyncio.get_running_loop().call_later(0.2, gate.set)
        await gate.wait()
        return "built"

    model = desk.model(call("build_all", all=True), "Built.", policy=Policy(limits=Limits(tool_seconds=0.05)))
    await desk.ask()
    assert tool.payload(results(model)[0]) == "built"


async def test_an_unknown_tool_is_told_and_never_raised(desk: Desk) -> None:
    model = desk.model(call("fly", to="moon"), "I cannot.")
    assert (await desk.ask()).data == "I cannot."
    assert kind(results(model)[0]) == "tool_not_found"
    assert '"retryable":false' in results(model)[0]


async def test_a_tool_that_asks_runs_unasked_where_the_agent_says_so(desk: Desk) -> None:
    person = Person()
    OPERATOR.set(person)
    desk.model(call("wipe", name="a"), "Wiped.", gates={"wipe": "auto"})
    await desk.ask()
    assert (desk.done, person.asked) == (["wipe a"], [])


async def test_a_tool_that_is_denied_stays_denied_whoever_would_agree(desk: Desk) -> None:
    person = Person("a")
    OPERATOR.set(person)
    model = desk.model(call("wipe", name="a"), "I may not.", gates={"*": "auto", "wipe": "deny"})
    await desk.ask()
    assert (desk.done, person.asked) == ([], [])
    assert kind(results(model)[0]) == "rejected"


async def test_arguments_that_a_provider_could_not_read_are_told_to_the_model(desk: Desk) -> None:
    sentinel = {
        "_error": "invalid_tool_arguments",
        "_message": "Cut off.",
        "_field": "at",
        "_expected": "text",
    }
    model = desk.model(call("look", **sentinel), "Again, then.")
    await desk.ask()
    failure = tool.parse(results(model)[0])
    assert (failure.code, failure.message, failure.field, failure.expected) == (
        "invalid_args",
        "Cut off.",
        "at",
        "text",
    )


async def test_a_long_run_asks_for_as_much_in_each_step_as_in_the_first(desk: Desk) -> None:
    """Two hundred steps are no trouble: the conversation grows, and nothing else does."""
    model = desk.model(*(call("look", at=str(n)) for n in range(200)), "Seen.", policy=steps(250))
    result = await desk.ask()
    assert result.data == "Seen."
    assert [len(request.messages) for request in model.requests] == [2 + 2 * n for n in range(201)]
