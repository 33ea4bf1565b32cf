"""Fairlead's agents with a model that answers at once: long runs, long replies, and many runs at a time."""

from fairlead import App
from fairlead.agents import Agent, Limits, Policy
from fairlead.agents.models import Message, Reply, Request, ScriptModel, ToolCall, Turn
from task import Batch
from waiting import Waiting

ARGUMENTS = '{"a":1,"b":2}'


def steps_20() -> Batch:
    return _steps(20)


def steps_200() -> Batch:
    return _steps(200)


def bare_stream() -> Batch:
    """What the model says, with nobody between."""
    model = _talker()

    async def batch(count: int) -> None:
        heard = 0
        async for _ in model.stream(Request([Message("user", str(count))])):
            heard += 1
        if heard != count + 1:
            raise RuntimeError(f"{heard} pieces of {count} and a reply")

    return batch


def agent_stream() -> Batch:
    app = _app(_talker())

    async def batch(count: int) -> None:
        heard = 0
        async for event in app.stream("adder", {"prompt": str(count)}):
            heard += event["type"] == "delta"
        if heard != count:
            raise RuntimeError(f"{heard} pieces of {count}")

    return batch


def held_runs() -> Batch:
    """So many runs at once, each after five steps; 0 lets all of them end."""
    waiting = Waiting()

    async def answer(request: Request) -> Reply:
        steps = len(request.messages) // 2
        if steps < 5:
            return _calling(steps)
        await waiting.wait()
        return Reply("Done.")

    app = _app(ScriptModel(answer, record=False))

    async def run() -> None:
        (await app.invoke("adder", {"prompt": "Add."})).unwrap()

    return waiting.batch(run)


def _steps(steps: int) -> Batch:
    """Runs of so many steps with a call each, and a last one with words."""

    def answer(request: Request) -> Reply:
        done = len(request.messages) // 2
        return Reply("Done.") if done >= steps else _calling(done)

    app = _app(ScriptModel(answer, record=False))

    async def batch(count: int) -> None:
        for _ in range(count):
            result = await app.invoke("adder", {"prompt": "Add."})
            if len(result.meta["agent"]["toolCalls"]) != steps or result.unwrap() != "Done.":
                raise RuntimeError(f"not {steps} calls: {result.to_dict()}")

    return batch


def _calling(step: int) -> Reply:
    return Reply(calls=(ToolCall("add", ARGUMENTS, f"call_{step}"),), stop="tool_calls")


def _talker() -> ScriptModel:
    """Says as many words as it is told."""
    said: dict[str, Turn] = {}

    def answer(request: Request) -> Turn:
        count = request.messages[-1].content
        if count not in said:
            said[count] = Turn(pieces=("word ",) * int(count))
        return said[count]

    return ScriptModel(answer, record=False)


def _app(model: ScriptModel) -> App:
    app = App("bench")

    @app.action
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    policy = Policy(limits=Limits(iterations=1_000))
    app.add(Agent("adder", model=model, tools=["add"], policy=policy, description="Add numbers."))
    return app
