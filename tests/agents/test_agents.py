"""An agent is an action whose body is a model using actions: what goes in, what comes out, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, SecretStr

from fairlead import App, Context
from fairlead.actions import Action, DefinitionError
from fairlead.agents import OPERATOR, Agent, Approval, Clarification, Limits, Policy, Verdict
from fairlead.agents.models.model import Delta, Message, Reply, Request, Usage
from fairlead.agents.models.script import ScriptModel, Turn, call
from fairlead.agents.running import CHAT
from fairlead.failures.runtime import ApiError
from fairlead.runtime.clock import Clock


class Triage(BaseModel):
    urgency: int
    team: Literal["sales", "support"]


class Person:
    """Somebody who answers as they were told to, and remembers what they were asked."""

    def __init__(self, verdict: Verdict | None = None, answer: str | list[str] | None = None) -> None:
        self.verdict = verdict or Verdict(True)
        self.answer = answer
        self.approvals: list[Approval] = []
        self.questions: list[Clarification] = []

    async def approve(self, ask: Approval) -> Verdict:
        self.approvals.append(ask)
        return self.verdict

    async def clarify(self, ask: Clarification) -> str | list[str] | None:
        self.questions.append(ask)
        return self.answer


@pytest.fixture
def app(tmp_path: Path) -> App:
    made = App("shop", store=f"sqlite:///{tmp_path}/shop.db")

    @made.action
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @made.action(side_effects="destructive", requires_confirmation=True)
    async def wipe(name: str) -> str:
        """Wipe a shelf."""
        return f"wiped {name}"

    return made


def agent(app: App, *turns: Any, tools: Any = "*", **options: Any) -> ScriptModel:
    """An agent named `clerk` that follows a script."""
    model = ScriptModel(turns)
    app.add(Agent("clerk", model=model, instructions="You are a clerk.", tools=tools, **options).action)
    return model


async def ask(app: App, prompt: str = "Go.", **options: Any) -> Any:
    return await app.invoke("clerk", {"prompt": prompt, **options.pop("input", {})}, **options)


def told(model: ScriptModel) -> Message:
    """What the model was told last."""
    return model.requests[-1].messages[-1]


async def test_an_agent_uses_actions_and_answers_in_words(app: App) -> None:
    model = agent(app, call("add", a=1, b=2), "It is 3.")
    result = await ask(app)
    assert result.data == "It is 3."
    assert told(model).content == '{"ok":true,"result":3,"tool":"add"}'
    assert result.meta["agent"]["exit"] == "final_response"
    assert [each["name"] for each in result.meta["agent"]["toolCalls"]] == ["add"]


async def test_a_model_is_told_its_instructions_and_its_tools(app: App) -> None:
    model = agent(app, "Hello.", tools=["add"])
    await ask(app, "Hi.")
    request = model.requests[0]
    assert [(each.role, each.content) for each in request.messages] == [
        ("system", "You are a clerk."),
        ("user", "Hi."),
    ]
    assert [each.name for each in request.tools] == ["add", "todo", "complete", "clarify"]
    assert request.tools[0].parameters["required"] == ["a", "b"]


async def test_slips_in_a_model_s_arguments_are_mended_and_told(app: App) -> None:
    model = agent(app, call("add", a="1", b=2), "It is 3.")
    assert (await ask(app)).ok
    assert '"result":3' in told(model).content
    assert '"warnings"' in told(model).content


async def test_a_wrong_call_is_told_to_the_model_and_not_to_the_caller(app: App) -> None:
    model = agent(app, call("add", a="many"), "I cannot.")
    assert (await ask(app)).data == "I cannot."
    assert '"kind":"invalid_args"' in told(model).content


async def test_a_tool_that_there_is_not_is_told_to_the_model(app: App) -> None:
    model = agent(app, call("subtract", a=1), "I cannot.")
    assert (await ask(app)).ok
    assert '"kind":"tool_not_found"' in told(model).content


async def test_an_action_that_models_may_not_use_is_refused_to_an_agent(app: App) -> None:
    @app.action(supported_surfaces=["cli"])
    async def secret() -> str:
        """Say it."""
        return "42"

    model = agent(app, call("secret"), "I cannot.", tools=["secret"])
    assert (await ask(app)).ok
    assert '"ok":false' in told(model).content


def test_a_tool_that_the_app_has_not_is_a_mistake_with_its_near_miss(app: App) -> None:
    made = Agent("clerk", instructions="You are a clerk.", tools=["ad"])
    with pytest.raises(DefinitionError, match="Did you mean 'add'"):
        made.belt(app)


def test_what_is_no_function_cannot_be_decorated() -> None:
    with pytest.raises(DefinitionError, match=r"'helper' cannot be an agent of an app: .* app\.add\(\) it"):
        App("x").agent("helper", model="script/x")  # type: ignore[call-overload]


def test_a_gate_that_there_is_not_is_a_mistake() -> None:
    with pytest.raises(DefinitionError, match="gates"):
        Agent("clerk", instructions="You are a clerk.", gates={"add": "maybe"})  # type: ignore[dict-item]


def test_a_gate_for_a_tool_that_the_agent_has_not_is_a_mistake_with_its_near_miss(app: App) -> None:
    made = Agent("clerk", instructions="You are a clerk.", tools=["add"], gates={"ad": "deny"})
    with pytest.raises(DefinitionError, match="Did you mean 'add'"):
        made.belt(app)


async def test_a_function_gives_an_agent_its_types_and_its_docstring_its_instructions(app: App) -> None:
    model = ScriptModel(['{"urgency": 3, "team": "sales"}'])

    @app.agent(model=model)
    def sort_ticket(subject: str, body: str) -> Triage:  # type: ignore[empty-body]
        """Sort a ticket.

        Urgency goes from 1 to 5.
        """

    result = await app.invoke("sort_ticket", {"subject": "Broken", "body": "It does not start."})
    assert result.data == {"urgency": 3, "team": "sales"}
    system, user = model.requests[0].messages
    assert system.content == "Sort a ticket.\n\nUrgency goes from 1 to 5."
    assert '"subject": "Broken"' in user.content
    action = app.get("sort_ticket")
    assert action is not None
    assert action.description == "Sort a ticket."


async def test_a_function_may_write_the_prompt(app: App) -> None:
    model = ScriptModel(["Yes."])

    @app.agent(model=model)
    async def judge(text: str, *, ctx: Context) -> str:
        """Judge texts."""
        return f"Is this good? {text} ({ctx.surface})"

    assert (await app.invoke("judge", {"text": "Rain."})).data == "Yes."
    assert model.requests[0].messages[-1].content == "Is this good? Rain. (unknown)"


async def test_a_lone_model_is_the_whole_input(app: App) -> None:
    model = ScriptModel(["Fine."])

    @app.agent(model=model)
    def look(ticket: Triage) -> str:  # type: ignore[empty-body]
        """Look at it."""

    assert (await app.invoke("look", {"urgency": 1, "team": "sales"})).data == "Fine."
    assert '"urgency": 1' in model.requests[0].messages[-1].content


async def test_a_reply_of_the_wrong_type_is_corrected_without_a_trace(app: App) -> None:
    model = agent(
        app,
        "No idea.",
        '{"urgency": "high"}',
        '```json\n{"urgency": 2, "team": "support"}\n```',
        output=Triage,
    )
    result = await ask(app, input={"conversation": "c1"})
    assert result.data == {"urgency": 2, "team": "support"}
    assert len(model.requests[2].messages) == len(model.requests[1].messages)
    _, kept = await app.conversations.get("c1", "")
    assert [each.role for each in kept] == ["user", "assistant"]


async def test_replies_without_json_end_in_output_extraction_failed(app: App) -> None:
    agent(app, *["No idea."] * 4, output=Triage)
    result = await ask(app)
    assert result.failure.code == "output_extraction_failed"
    assert result.failure.details["attempts"] == 4


async def test_replies_of_the_wrong_type_end_in_output_validation_failed(app: App) -> None:
    agent(app, *['{"urgency": 1}'] * 2, output=Triage, policy=Policy(corrections=1))
    assert (await ask(app)).failure.code == "output_validation_failed"


async def test_a_failure_of_the_model_is_the_call_s(app: App) -> None:
    agent(app, ApiError("The model is away."))
    result = await ask(app)
    assert result.failure.code == "api_error"
    assert result.to_dict()["error"]["code"] == "EXTERNAL_SERVICE_ERROR"


async def test_a_reply_that_was_cut_off_is_max_tokens(app: App) -> None:
    agent(app, Turn("And then", stop="length"))
    assert (await ask(app)).failure.code == "max_tokens"


async def test_an_agent_that_never_stops_is_stopped(app: App) -> None:
    agent(app, *[call("add", a=1, b=n) for n in range(9)], policy=Policy(limits=Limits(iterations=3)))
    result = await ask(app)
    assert result.failure.code == "max_iterations_reached"
    assert len(result.failure.details["tool_calls_executed"]) == 3


async def test_a_chat_that_has_no_steps_left_sums_up_without_tools(app: App) -> None:
    model = agent(app, call("add", a=1, b=2), "I added.", policy=Policy(limits=Limits(iterations=1)))
    result = await ask(app, metadata={CHAT: True})
    assert result.data == "I added."
    assert model.requests[-1].tools == ()
    assert result.meta["agent"]["exit"] == "iteration_cap"


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(tokens=100), "budget_exceeded"),
        (Limits(cost=0.5), "budget_exceeded"),
        (Limits(tool_calls=1), "max_tool_calls"),
    ],
)
async def test_a_run_that_used_up_what_it_may_is_ended(app: App, limits: Limits, code: str) -> None:
    usage = Usage(input=90, output=10, cost=1.0)
    turns = [Turn(calls=(call("add", a=1, b=n),), usage=usage) for n in range(5)]
    agent(app, *turns, policy=Policy(limits=limits))
    assert (await ask(app)).failure.code == code


async def test_a_conversation_that_does_not_fit_the_model_is_context_overflow(app: App) -> None:
    model = ScriptModel(["Fine."], window=1000)
    app.add(Agent("clerk", model=model, instructions="Short.", loop_tools=False).action)
    result = await ask(app, "word " * 4000)
    assert result.failure.code == "context_overflow"
    assert model.requests == []


async def test_a_tool_that_needs_a_yes_is_rejected_where_nobody_can_be_asked(app: App) -> None:
    model = agent(app, call("wipe", name="a"), "It was declined.", tools=["wipe"])
    assert (await ask(app)).data == "It was declined."
    assert '"kind":"rejected"' in told(model).content
    assert "nobody can be asked" in told(model).content


async def test_a_person_is_asked_with_what_the_tool_would_get(app: App) -> None:
    person = Person()
    OPERATOR.set(person)
    model = agent(app, call("wipe", name="a"), "Done.", tools=["wipe"])
    assert (await ask(app)).ok
    assert '"result":"wiped a"' in told(model).content
    assert [(each.tool, each.input, each.agent, each.effects) for each in person.approvals] == [
        ("wipe", {"name": "a"}, "clerk", "destructive")
    ]


@pytest.mark.parametrize("inside", [False, True])
async def test_the_time_in_which_a_person_is_asked_is_not_the_runs(tmp_path: Path, inside: bool) -> None:
    now = 0.0
    app = App("shop", store=f"sqlite:///{tmp_path}/shop.db", clock=Clock(monotonic=lambda: now))

    class Slow(Person):
        async def approve(self, ask: Approval) -> Verdict:
            nonlocal now
            now += 3600.0
            return await super().approve(ask)

    @app.action(requires_confirmation=True)
    async def wipe(name: str) -> str:
        """Wipe a shelf."""
        return f"wiped {name}"

    helper = Agent("helper", model=ScriptModel([call("wipe", name="a"), "Wiped."]), tools=["wipe"])
    app.add(helper.action)
    OPERATOR.set(person := Slow())
    asked = call("helper", prompt="Wipe it.") if inside else call("wipe", name="a")
    agent(app, asked, "Done.", tools=[helper, "wipe"], policy=Policy(limits=Limits(seconds=60.0)))
    result = await ask(app)
    assert (result.data, len(person.approvals)) == ("Done.", 1)


async def test_nobody_is_asked_about_a_call_that_could_not_be_made(app: App) -> None:
    person = Person()
    OPERATOR.set(person)
    model = agent(app, call("wipe"), "I cannot.", tools=["wipe"])
    assert (await ask(app)).ok
    assert person.approvals == []
    assert '"kind":"invalid_args"' in told(model).content


async def test_a_person_who_says_no_is_heard_and_their_reason_too(app: App) -> None:
    OPERATOR.set(Person(Verdict(False, "Not on a Monday.")))
    model = agent(app, call("wipe", name="a"), "All right.", tools=["wipe"])
    assert (await ask(app)).data == "All right."
    assert "Not on a Monday." in told(model).content


async def test_a_person_who_says_always_is_asked_once_in_a_conversation(app: App) -> None:
    person = Person(Verdict(True, always=True))
    OPERATOR.set(person)
    agent(app, call("wipe", name="a"), "Done.", call("wipe", name="b"), "Done.", tools=["wipe"])
    await ask(app, input={"conversation": "c1"})
    await ask(app, input={"conversation": "c1"})
    assert len(person.approvals) == 1


async def test_in_a_chat_a_no_ends_the_run(app: App) -> None:
    OPERATOR.set(Person(Verdict(False)))
    model = agent(app, call("wipe", name="a"), tools=["wipe"])
    result = await ask(app, metadata={CHAT: True})
    assert result.failure.code == "tool_denied"
    assert len(model.requests) == 1


async def test_gates_decide_before_the_tool_s_own_wish(app: App) -> None:
    person = Person()
    OPERATOR.set(person)
    calls = [call("wipe", name="a"), call("add", a=1, b=2)]
    model = agent(app, *calls, "Done.", tools=["add", "wipe"], gates={"wipe": "auto", "add": "deny"})
    assert (await ask(app)).ok
    assert person.approvals == []
    results = [each.content for each in model.requests[-1].messages if each.role == "tool"]
    assert '"result":"wiped a"' in results[0]
    assert '"kind":"rejected"' in results[1]


async def test_after_a_no_the_later_calls_of_the_turn_are_not_made(app: App) -> None:
    OPERATOR.set(Person(Verdict(False)))
    calls = [call("add", a=1, b=1), call("wipe", name="a"), call("add", a=2, b=2)]
    model = agent(app, calls, "All right.", tools=["add", "wipe"])
    assert (await ask(app)).ok
    results = [each.content for each in model.requests[-1].messages if each.role == "tool"]
    assert ['"ok":true' in each for each in results] == [True, False, False]
    assert '"kind":"rejected"' in results[2]


async def test_a_question_is_answered_by_the_person_and_the_run_goes_on(app: App) -> None:
    person = Person(answer="The red one.")
    OPERATOR.set(person)
    model = agent(app, call("clarify", question="Which?", options=["red", "blue"]), "Red it is.")
    assert (await ask(app)).data == "Red it is."
    assert person.questions[0].options == ("red", "blue")
    assert "The red one." in told(model).content


async def test_a_question_that_nobody_answers_pauses_the_run_and_the_answer_resumes_it(app: App) -> None:
    model = agent(app, call("clarify", question="Which?"), "Red it is.")
    paused = await ask(app)
    assert paused.failure.code == "clarify_requested"
    assert paused.failure.details["question"] == "Which?"
    id = paused.failure.details["conversation"]
    resumed = await ask(app, "The red one.", input={"conversation": id})
    assert resumed.data == "Red it is."
    assert [each.role for each in model.requests[-1].messages] == ["system", "user", "assistant", "tool"]


async def test_complete_ends_the_run_with_its_summary(app: App) -> None:
    summary = "All three shelves were wiped and checked."
    model = agent(app, call("complete", summary=summary), "And more.")
    result = await ask(app, input={"conversation": "c1"})
    assert result.data == summary
    assert len(model.requests) == 1
    assert result.meta["agent"]["exit"] == "ended_by_surface"
    # The conversation can be gone on with.
    assert (await ask(app, input={"conversation": "c1"})).data == "And more."


async def test_a_conversation_goes_on_where_it_was(app: App) -> None:
    model = agent(app, "Hello.", "You said hi.")
    await ask(app, "Hi.", input={"conversation": "c1"})
    await ask(app, "What did I say?", input={"conversation": "c1"})
    assert [each.content for each in model.requests[-1].messages[1:]] == ["Hi.", "Hello.", "What did I say?"]


async def test_a_call_without_a_conversation_leaves_nothing_behind(app: App) -> None:
    agent(app, "Hello.")
    await ask(app, "Hi.")
    assert await app.conversations.page("") == []


async def test_another_s_conversation_is_not_there(app: App) -> None:
    agent(app, "Hello.", "Hello.")
    await ask(app, input={"conversation": "c1"}, user={"id": "ada"})
    result = await ask(app, input={"conversation": "c1"}, user={"id": "bob"})
    assert result.failure.code in ("NOT_FOUND", "not_found")


async def test_two_runs_of_one_conversation_do_not_interleave(app: App) -> None:
    gate = asyncio.Event()
    model = agent(app, Turn("First.", after=gate), "Second.")
    first = asyncio.ensure_future(ask(app, "One.", input={"conversation": "c1"}))
    await model.asked(1)
    second = asyncio.ensure_future(ask(app, "Two.", input={"conversation": "c1"}))
    gate.set()
    await asyncio.gather(first, second)
    _, kept = await app.conversations.get("c1", "")
    assert [each.content for each in kept] == ["One.", "First.", "Two.", "Second."]


async def test_what_was_said_before_a_cancel_is_kept(app: App) -> None:
    agent(app, Turn("One two three four", pieces=("One ", "two ", "three ", "four")), "Go on.")
    async with app.stream("clerk", {"prompt": "Count.", "conversation": "c1"}) as events:
        async for event in events:
            if event.get("data") == "two ":
                break
    _, kept = await app.conversations.get("c1", "")
    assert kept[0].content == "Count."
    assert kept[-1].role == "assistant"
    assert kept[-1].content.startswith("One two")


async def test_a_stream_tells_text_as_it_comes_and_tools_as_they_are_used(app: App) -> None:
    agent(app, call("add", a=1, b=2), Turn("It is 3.", reasoning="Easy.", usage=Usage(5, 7)))
    events = [event async for event in app.stream("clerk", {"prompt": "Go."})]
    kinds = [event.get("kind") or event["type"] for event in events]
    assert kinds == ["tool_call", "tool_result", "thinking", "delta", "delta", "delta", "usage", "result"]
    assert "".join(event["data"] for event in events if event["type"] == "delta") == "It is 3."
    assert events[0]["data"] == {"id": "call_1", "name": "add", "arguments": {"a": 1, "b": 2}}
    assert events[-1]["envelope"]["data"] == "It is 3."


async def test_a_thought_that_comes_with_text_is_told_before_it(app: App) -> None:
    class Both(ScriptModel):
        async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
            yield Delta("It is 3.", reasoning="Easy.")
            yield Reply("It is 3.", reasoning="Easy.")

    app.add(Agent("clerk", model=Both([])))
    events = [event async for event in app.stream("clerk", {"prompt": "Go."})]
    assert [event.get("kind") or event["type"] for event in events] == ["thinking", "delta", "result"]


async def test_what_a_tool_says_is_told_as_part_of_the_agent_s_run(app: App) -> None:
    @app.action
    async def crawl(*, ctx: Context) -> str:
        """Crawl."""
        await ctx.progress.report("half way", percent=50)
        ctx.artifacts.add("map.txt", data="x")
        return "there"

    agent(app, call("crawl"), "Arrived.", tools=["crawl"])
    events = [event async for event in app.stream("clerk", {"prompt": "Go."})]
    progress = next(event for event in events if event.get("kind") == "tool_progress")
    assert progress["data"]["event"]["message"] == "half way"
    assert events[-1]["envelope"]["artifacts"][0]["name"] == "map.txt"


async def test_an_agent_can_be_another_agent_s_tool(app: App) -> None:
    expert = Agent("expert", model=ScriptModel(["It is blue."]), instructions="You know colours.")
    model = agent(app, call("expert", prompt="What colour is it?"), "Blue.", tools=[expert])
    assert (await ask(app)).data == "Blue."
    assert '"result":"It is blue."' in told(model).content


async def test_secrets_in_what_is_said_are_not_kept(app: App) -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    agent(app, f"I see {key}.")
    await ask(app, f"Use {key}.", input={"conversation": "c1"})
    _, kept = await app.conversations.get("c1", "")
    assert key not in str(kept)


async def test_what_a_tool_declares_to_be_secret_is_neither_told_nor_kept(app: App) -> None:
    got: list[str] = []

    @app.action
    async def unlock(door: str, code: SecretStr) -> str:
        """Unlock a door."""
        got.append(code.get_secret_value())
        return door

    model = ScriptModel([call("unlock", door="front", code="4711-4712"), "Open."])
    app.add(Agent("porter", model=model, instructions="You open doors.", tools=["unlock"]).action)
    events = [each async for each in app.stream("porter", {"prompt": "Open.", "conversation": "c1"})]
    assert got == ["4711-4712"]
    assert "4711" not in str(events)
    _, kept = await app.conversations.get("c1", "")
    assert "4711" not in str(kept)
    assert "front" in kept[1].calls[0].arguments


def without_pins(value: Any) -> Any:
    """A developer's own function, which changes what it is given."""
    if isinstance(value, dict):
        value.pop("pin", None)
    return value


@pytest.mark.parametrize(
    ("redact", "given"),
    [
        (without_pins, {"pin": "4711-4712"}),
        ({"keys": ["pin"]}, {"pin": "4711-4712"}),
        (None, {"env": [{"name": "API_KEY", "value": "4711-4712"}]}),
    ],
)
async def test_what_the_app_would_hide_of_a_call_is_not_kept(tmp_path: Path, redact: Any, given: Any) -> None:
    app = App("shop", store=f"sqlite:///{tmp_path}/shop.db", redact=redact)
    got: list[Any] = []

    @app.action
    async def start(pin: str = "", env: list[dict[str, str]] | None = None) -> str:
        """Start something."""
        got.append({"pin": pin} if pin else {"env": env})
        return "started"

    agent(app, call("start", **given), "Done.", tools=["start"])
    assert (await ask(app, input={"conversation": "c1"})).ok
    assert got == [given]
    _, kept = await app.conversations.get("c1", "")
    assert "4711" not in str(kept)


async def test_the_input_that_a_person_is_shown_is_redacted(app: App) -> None:
    @app.action(requires_confirmation=True, side_effects="write")
    async def log_in(password: str) -> str:
        """Log in."""
        return "in"

    person = Person()
    OPERATOR.set(person)
    agent(app, call("log_in", password="hunter2"), "Done.", tools=["log_in"])
    assert (await ask(app)).ok
    assert "hunter2" not in str(person.approvals)


async def test_many_runs_at_once_all_end(app: App) -> None:
    model = ScriptModel([call("add", a=1, b=2), "It is 3."], follow="conversation", record=False)
    app.add(Agent("clerk", model=model, instructions="Add.", tools=["add"]).action)
    results = await asyncio.gather(*(ask(app) for _ in range(1000)))
    assert {each.data for each in results} == {"It is 3."}


async def test_many_tools_are_found_and_loaded_on_demand_and_usable_at_once(app: App) -> None:
    for number in range(60):
        app.add(
            Action(
                _shelf(number), name=f"count_shelf_{number}", description=f"Count what is on shelf {number}."
            )
        )
    model = agent(
        app,
        call("capabilities_search", query="count shelf 42"),
        call("capabilities_load", names=["count_shelf_42"]),
        call("count_shelf_42"),
        "There are 42.",
        "And 42 again.",
    )
    assert (await ask(app, input={"conversation": "c1"})).data == "There are 42."
    offered = [[each.name for each in request.tools] for request in model.requests]
    assert "count_shelf_42" not in offered[0]
    assert len(offered[0]) < 10
    assert "count_shelf_42" in offered[2]
    assert '"result":42' in told(model).content
    # What was loaded stays so in the conversation.
    assert (await ask(app, input={"conversation": "c1"})).ok
    assert "count_shelf_42" in [each.name for each in model.requests[-1].tools]


def _shelf(number: int) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        return number

    return count


async def test_a_caller_who_cannot_be_told_apart_from_others_is_refused_each_time(app: App) -> None:
    agent(app, "Hello.", "Hello.", "Hello.")
    async with app:
        await ask(app)
        refused = [await ask(app, user=object()) for _ in range(2)]
    assert [result.failure.code for result in refused] == ["INTERNAL_ERROR"] * 2


def test_the_conversation_of_an_agent_is_described_whether_it_is_a_function_or_not(app: App) -> None:
    app.add(Agent("plain", model=ScriptModel(["Yes."]), instructions="Answer."))

    @app.agent(model=ScriptModel(["Yes."]))
    def shaped(topic: str, length: int) -> str:
        """Write about a topic."""
        return topic

    inputs = [
        each.input.json_schema["properties"] for each in app.actions if each.name in ("plain", "shaped")
    ]
    described = [each["conversation"].get("description") for each in inputs]
    assert described == ["The one to go on with; a new id begins one. Without it, nothing is kept."] * 2


@pytest.mark.parametrize(
    ("given", "meant"), [("tool", "tools"), ("modell", "model"), ("time_out", "timeout")]
)
def test_a_misspelt_option_of_an_agent_is_told_with_the_one_that_was_meant(given: str, meant: str) -> None:
    options: dict[str, Any] = {given: 1}
    with pytest.raises(DefinitionError, match=f"unknown option '{given}'. Did you mean '{meant}'"):
        Agent("helper", **options)
