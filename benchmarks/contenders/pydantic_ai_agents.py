"""pydantic-ai's agents with its function model: the runs that `agents.py` has, by `agent.run`."""

from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from task import Batch
from waiting import Waiting

ARGUMENTS = '{"a":1,"b":2}'
UNLIMITED = UsageLimits(request_limit=None)


def steps_20() -> Batch:
    return _steps(20)


def steps_200() -> Batch:
    return _steps(200)


def held_runs() -> Batch:
    waiting = Waiting()

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        steps = len(messages) // 2
        if steps < 5:
            return _calling(steps)
        await waiting.wait()
        return ModelResponse(parts=[TextPart("Done.")])

    agent = _agent(answer)

    async def run() -> None:
        await agent.run("Add.", usage_limits=UNLIMITED)

    return waiting.batch(run)


def _steps(steps: int) -> Batch:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = len(messages) // 2
        return ModelResponse(parts=[TextPart("Done.")]) if done >= steps else _calling(done)

    agent = _agent(answer)

    async def batch(count: int) -> None:
        for _ in range(count):
            result = await agent.run("Add.", usage_limits=UNLIMITED)
            if len(result.all_messages()) != 2 * steps + 2 or result.output != "Done.":
                raise RuntimeError(f"not {steps} calls: {result.output}")

    return batch


def _calling(step: int) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("add", ARGUMENTS, tool_call_id=f"call_{step}")])


def _agent(answer: Callable[..., Any]) -> Agent[None, str]:
    agent = Agent(FunctionModel(answer))

    @agent.tool_plain
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return agent
