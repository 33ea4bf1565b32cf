"""Agents in pipelines: typed replies, tools, memory, commands, the operator, and budgets."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from fairlead import App, Failure
from fairlead.agents import Approval, Verdict
from fairlead.agents.models.model import Reply, Request, ToolCall, Usage
from fairlead.agents.models.script import ScriptModel, Turn, call
from fairlead.pipelines.apps import options_for
from fairlead.pipelines.checking import check_text, require
from fairlead.pipelines.host import Host
from fairlead.pipelines.program import Process
from fairlead.pipelines.running import Run, run_all

AGENT = 'agent {{ model: "default" {} }}'


def program(text: str, app: App) -> Process:
    main = require(check_text(text, options=options_for(app, {}))).main
    assert main is not None
    return main


async def said(text: str, values: list[Any], *script: Any, **host: Any) -> tuple[list[Any], ScriptModel]:
    model = ScriptModel(list(script)) if not callable(script[0]) else ScriptModel(script[0])
    app = App("shop", models=model)
    return await run_all(program(text, app), values, Host(app=app, **host)), model


async def refused(text: str, values: list[Any], *script: Any, **host: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        await said(text, values, *script, **host)
    return caught.value


TRIAGE = "type T = {{ urgency: int, complete: bool }} let main : !string -> !T = " + AGENT


async def test_a_reply_is_a_value_of_the_declared_type() -> None:
    results, model = await said(
        TRIAGE.format(', prompt: "Sort."'), ["help"], 'Sure: {"urgency": 3, "complete": true}'
    )
    assert results == [{"urgency": 3, "complete": True}]
    system, user = model.requests[0].messages
    assert system.content.startswith("Sort.")
    assert user.content == "help"


async def test_a_reply_for_text_is_taken_as_it_is() -> None:
    text = "let main : !string -> !string = " + AGENT.format("")
    assert (await said(text, ["hi"], "plain words"))[0] == ["plain words"]


async def test_a_reply_of_the_wrong_type_is_asked_for_again_and_that_is_not_remembered() -> None:
    right = '{"urgency": 1, "complete": false}'
    results, model = await said(TRIAGE.format(""), ["a", "b"], "no json", '{"urgency": "x"}', right, right)
    assert len(results) == 2
    assert [len(each.messages) for each in model.requests] == [2, 4, 4, 4]


@pytest.mark.parametrize(
    ("reply", "code"), [("no json", "output_extraction_failed"), ('{"a": 1}', "output_validation_failed")]
)
async def test_after_the_last_retry_the_run_fails(reply: str, code: str) -> None:
    failure = await refused(TRIAGE.format(", max_retries: 1"), ["a"], reply, reply, reply)
    assert (failure.code, failure.details["attempts"], failure.details["source"]) == (code, 2, "main")


async def test_an_agent_remembers_and_an_amnesiac_does_not() -> None:
    text = "let main : !string -> !string = " + AGENT
    _, model = await said(text.format(""), ["a", "b"], "1", "2")
    assert [len(each.messages) for each in model.requests] == [1, 3]
    _, model = await said(text.format(", amnesiac: true"), ["a", "b"], "1", "2")
    assert [len(each.messages) for each in model.requests] == [1, 1]


async def test_an_agent_ends_after_the_messages_it_may_take() -> None:
    text = "let main : !string -> !string = " + AGENT.format(", max_messages: 1")
    assert (await said(text, ["a", "b", "c"], "1", "2"))[0] == ["1"]


TOOLS = """
let double : int -> int = map(value * 2)
let count : !{ text: string } -> !int = map(1)
let counter : { text: string } -> int = tool { process: count, description: "Count." }
let main : !string -> !string = agent { model: "default", tools: [double, counter] }
"""


async def test_a_model_uses_tools_and_sees_their_results() -> None:
    turn = [call("double", value=21), call("counter", text="x")]
    results, model = await said(TOOLS, ["go"], turn, "done")
    assert results == ["done"]
    assert [each.content for each in model.requests[1].messages[-2:]] == ["42", "1"]
    assert [each.name for each in model.requests[0].tools] == ["double", "counter"]
    assert model.requests[0].tools[1].description == "Count."


async def test_a_tool_that_goes_wrong_is_told_to_the_model_and_the_run_goes_on() -> None:
    turn = [ToolCall("double", "{"), call("double", value="x"), call("nothing"), call("counter", text=1)]
    results, model = await said(TOOLS, ["go"], turn, "sorry")
    assert results == ["sorry"]
    contents = [each.content for each in model.requests[1].messages[-4:]]
    assert [content.split('"')[3] for content in contents] == [
        "parse_error", "validation_error", "unknown_tool", "validation_error",
    ]  # fmt: skip


async def test_more_tool_calls_than_allowed_end_the_run() -> None:
    text = TOOLS.replace("tools:", "max_tool_calls: 1, tools:")
    failure = await refused(text, ["go"], [call("double", value=1), call("double", value=2)], "x")
    assert failure.code == "max_tool_calls"


class Person:
    def __init__(self, answer: bool) -> None:
        self.answer, self.asked = answer, []  # type: ignore[var-annotated]

    async def approve(self, ask: Approval) -> Verdict:
        self.asked.append(ask)
        return Verdict(self.answer, "because")

    async def clarify(self, ask: Any) -> None:
        return None


WRITING = 'use fs let main : !string -> !string = agent { model: "default", tools: [Fs.write, Fs.read] }'


async def test_a_tool_that_changes_things_asks_the_operator(tmp_path: Path) -> None:
    script = (call("Fs_write", path="a.txt", content="hello"), "done")
    person = Person(True)
    await said(WRITING, ["go"], *script, docroot=str(tmp_path), operator=person)
    assert (tmp_path / "a.txt").read_text() == "hello"
    assert [(each.tool, each.agent) for each in person.asked] == [("Fs_write", "main")]
    (tmp_path / "a.txt").unlink()
    for host in ({"operator": Person(False)}, {}):
        _, model = await said(WRITING, ["go"], *script, docroot=str(tmp_path), **host)
        assert '"error":"tool_denied"' in model.requests[1].messages[-1].content
        assert not (tmp_path / "a.txt").exists()
    await said(WRITING, ["go"], *script, docroot=str(tmp_path), auto_approve=True)
    assert (tmp_path / "a.txt").exists()


async def test_a_late_yes_is_to_no_later_question(tmp_path: Path) -> None:
    person = Person(True)
    asking = call("Fs_write", path="a.txt", content="hello")
    await said(
        WRITING, ["go", "again"], asking, "done", asking, "done", docroot=str(tmp_path), operator=person
    )
    assert len({each.id for each in person.asked}) == 2


async def test_an_operator_may_be_a_part_of_the_pipeline(tmp_path: Path) -> None:
    text = """
    use fs
    let a : !string -> !string = agent { model: "default", tools: [Fs.write] }
    let main : !string -> !string = plumb(i, o) {
      i ; a ; o
      a@operator_out ; map({ "id": value."id", approve: true }) ; a@operator_in
    }"""
    script = (call("Fs_write", path="a.txt", content="hello"), "done")
    await said(text, ["go"], *script, docroot=str(tmp_path))
    assert (tmp_path / "a.txt").exists()


async def test_commands_on_the_side_change_an_agent() -> None:
    text = """
    let a : !string -> !string = agent { model: "default", temperature: 0.5 }
    let main : !string -> !string = plumb(i, o) {
      i ; a ; o
      a ; map({ set_temp: 0.1 }) ; a@ctrl_in
    }"""
    app = App("shop", models=(model := ScriptModel(["1", "2"])))
    async with Run(program(text, app), Host(app=app)) as run:
        for _ in range(2):
            await run.send("x")
            await run.recv()
    assert [each.settings.temperature for each in model.requests] == [0.5, 0.1]


async def test_an_agent_that_nobody_can_resume_any_more_goes_on() -> None:
    text = """
    let a : !string -> !string = agent { model: "default" }
    let main : !string -> !json = plumb(i, o) {
      i ; filter(value != "pause") ; a ; o
      i ; filter(value = "pause") ; map({ pause: true }) ; a@ctrl_in
      a@ctrl_out ; o
    }"""
    app = App("shop", models=ScriptModel(["answered"]))
    async with asyncio.timeout(10), Run(program(text, app), Host(app=app)) as run:
        await run.send("pause")
        assert await run.recv() == {"ack": "pause"}
        await run.send("hello")
        run.close_input()
        assert [each async for each in run] == ["answered"]


async def test_an_agent_that_only_its_own_answer_could_resume_goes_on_at_the_end() -> None:
    text = """
    let a : !string -> !string = agent { model: "default" }
    let main : !string -> !json = plumb(i, o) {
      i ; filter(value != "pause") ; a ; o
      i ; filter(value = "pause") ; map({ pause: true }) ; a@ctrl_in
      a ; filter(value = "resume") ; map({ resume: true }) ; a@ctrl_in
      a@ctrl_out ; o
    }"""
    app = App("shop", models=ScriptModel(["first", "second"]))
    async with asyncio.timeout(10), Run(program(text, app), Host(app=app)) as run:
        await run.send("pause")
        assert await run.recv() == {"ack": "pause"}
        await run.send("hello")
        await run.send("again")
        run.close_input()
        assert [each async for each in run] == ["first", "second"]


async def test_memory_can_be_read_and_replaced_through_the_ports() -> None:
    text = """
    let a : !string -> !string = agent { model: "default" }
    let main : !({ say: string } | { get_memory: bool }) -> !(string | json) = plumb(i, o) {
      i ; filter(say != "").say ; a
      i ; filter(get_memory) ; a@ctrl_in
      a@ctrl_out ; o
    }""".replace("!(string | json)", "!json")
    heard: list[dict[str, Any]] = []
    answered = asyncio.Event()

    def listen(event: dict[str, Any]) -> None:
        heard.append(event)
        if event["telemetry"] == "output":
            answered.set()

    app = App("shop", models=ScriptModel(["one"]))
    async with Run(program(text, app), Host(app=app, listener=listen)) as run:
        await run.send({"say": "hello"})
        await answered.wait()
        await run.send({"get_memory": True})
        memory = (await run.recv())["memory"]
    assert [each["content"] for each in memory] == ["hello", "one"]


async def test_what_happens_is_told_on_the_telemetry_port_and_to_who_listens() -> None:
    heard: list[dict[str, Any]] = []
    text = """
    let a : !string -> !string = agent { model: "default" }
    let main : !string -> !json = plumb(i, o) { i ; a a@telemetry ; o }"""
    results, _ = await said(text, ["x"], Turn("y", usage=Usage(3, 4)), listener=heard.append)
    usage = {
        "telemetry": "usage",
        "source": "a",
        "input": 3,
        "output": 4,
        "cache_read": 0,
        "cache_create": 0,
        "cost": 0.0,
    }
    assert usage in results
    assert usage in heard


async def test_telemetry_of_a_tool_has_its_result_in_short_or_the_code_of_its_failure() -> None:
    heard: list[dict[str, Any]] = []
    text = """
    let say : { text: string } -> { said: string, password: string } = map({ said: text, password: text })
    let main : !string -> !string = agent { model: "default", tools: [say] }"""
    turn = [call("say", text="hello"), call("say", text="x" * 5000), call("say"), call("nothing")]
    await said(text, ["go"], turn, "done", listener=heard.append)
    short, long, wrong, unknown = [each for each in heard if each["telemetry"] == "tool"]
    assert (short["is_error"], short["result"]) == (False, '{"said":"hello","password":"[REDACTED]"}')
    assert (len(long["result"]), len(long["input"])) == (200, 2000)
    assert (wrong["is_error"], wrong["error"], wrong["category"]) == (True, "validation_error", "invalid")
    assert (unknown["error"], unknown["category"]) == ("unknown_tool", "not_found")


async def test_telemetry_tells_no_result_of_an_action_that_is_told_secrets() -> None:
    heard: list[dict[str, Any]] = []
    app = App("shop", models=ScriptModel([call("keep", pin="4711"), "done"]))

    @app.action
    def keep(pin: SecretStr) -> str:
        """Keep."""
        return f"kept {pin.get_secret_value()}"

    text = """let keep : { pin: string } -> string = action keep
    let main : !string -> !string = agent { model: "default", tools: [keep] }"""
    await run_all(program(text, app), ["go"], Host(app=app, listener=heard.append))
    (told,) = [each for each in heard if each["telemetry"] == "tool"]
    assert (told["is_error"], told["result"]) == (False, "[REDACTED]")
    assert "4711" not in str(heard)


async def test_a_budget_of_tokens_is_enforced() -> None:
    text = """
    let a : !string -> !string = agent { model: "default" }
    let main : !string -> !string = plumb(i, o) { budget { tokens: 10 } { i ; a ; o } }"""
    failure = await refused(text, ["x", "y"], Turn("1", usage=Usage(3, 4)), Turn("2", usage=Usage(3, 4)))
    assert (failure.code, failure.details["spent"]) == ("budget_exceeded", 14)


async def test_a_triage_loop_repairs_what_is_not_complete() -> None:
    text = """
    type Ticket = { subject: string, body: string }
    type Triage = { urgency: int, summary: string, complete: bool }
    let sorter : !(Ticket | { summary: string }) -> !Triage = agent { model: "default" }
    let main : !Ticket -> !string = plumb(input, output) {
      input ; sorter
      sorter ; filter(complete = false) ; map({ summary: summary }) ; sorter
      sorter ; filter(complete = true).summary ; output
    }"""

    def answer(request: Request) -> Reply:
        again = "subject" not in request.messages[-1].content
        return Reply('{"urgency": 1, "summary": "s", "complete": %s}' % ("true" if again else "false"))

    results, model = await said(text, [{"subject": "a", "body": "b"}] * 3, answer)
    assert results == ["s"] * 3
    assert len(model.requests) == 6


async def test_eliza_needs_no_model() -> None:
    app = App("shop")
    text = 'let main : !string -> !string = agent { provider: "eliza", model: "doctor" }'
    assert await run_all(program(text, app), ["I am sad."]) == ["Why do you say that you are sad?"]


async def test_an_agent_s_tool_may_be_an_agent_a_program_or_an_action() -> None:
    app = App("shop")

    @app.action
    def price(item: str) -> int:
        """The price."""
        return len(item)

    text = f"""
    let upper : !string -> !string = exec {{ cmd: "{sys.executable}", args: ["-c", "print(input().upper())"] }}
    let shout : string -> string = tool {{ process: upper }}
    let doctor : !string -> !string = agent {{ provider: "eliza", model: "doctor" }}
    let consult : string -> string = tool {{ process: doctor }}
    let cost : {{ item: string }} -> int = action price
    let main : !string -> !string = agent {{ model: "default", tools: [shout, consult, cost] }}
    """
    model = ScriptModel(
        [[call("shout", value="hi"), call("consult", value="hi"), call("cost", item="abc")], "ok"]
    )
    app._models = model
    assert await run_all(program(text, app), ["go"], Host(app=app)) == ["ok"]
    assert [each.content for each in model.requests[1].messages[-3:]] == [
        '"HI"',
        '"Why do you say that hi?"',
        "3",
    ]


ODD_TOOL = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    method, answer = asked["method"], {}
    if method == "initialize":
        answer = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "odd", "version": "1"}}
    elif method == "tools/list":
        properties = {"filter[city]": {"type": "string"}, "all": {"type": "boolean"}}
        either = [{"required": ["filter[city]"]}, {"required": ["all"]}]
        schema = {"type": "object", "properties": properties, "anyOf": either}
        answer = {"tools": [{"name": "find", "inputSchema": schema, "annotations": {"readOnlyHint": True}}]}
    elif method == "tools/call":
        answer = {"content": [{"type": "text", "text": json.dumps(asked["params"]["arguments"])}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


async def test_a_remote_tool_is_told_as_every_provider_takes_it_and_called_as_it_is_meant(
    tmp_path: Path,
) -> None:
    (tmp_path / "odd.py").write_text(ODD_TOOL)
    served = f'mcp: [{{ name: "odd", command: "{sys.executable}", args: ["{tmp_path / "odd.py"}"] }}]'
    text = f'let main : !string -> !string = agent {{ model: "default", {served} }}'
    _, model = await said(text, ["hi"], call("find", filter_city_="Bergen"), "done", auto_approve=True)
    (spec,) = model.requests[0].tools
    assert list(spec.parameters["properties"]) == ["filter_city_", "all"]
    assert "anyOf" not in spec.parameters
    assert '"filter[city]' in model.requests[1].messages[-1].content.replace("\\", "")
