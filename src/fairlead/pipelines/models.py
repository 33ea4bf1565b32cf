"""The models of a pipeline's agents: those of the app, by provider and name, and two that only pipelines know."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any, Final

from fairlead import _json
from fairlead.agents.models.model import Delta, Model, Reply, Request, Usage
from fairlead.agents.models.registry import Models
from fairlead.failures.runtime import ClaudeCodeError
from fairlead.pipelines.host import Host

#: The variable that names the coding agent's program.
COMMAND: Final = "FAIRLEAD_CLAUDE_CODE"
SCRIPT: Final = "script/"
_MIRROR: Final = {
    "i": "you", "me": "you", "my": "your", "mine": "yours", "am": "are", "you": "I", "your": "my", "yours": "mine",
    "are": "am", "myself": "yourself", "yourself": "myself",
}  # fmt: skip


def model_for(settings: dict[str, Any], host: Host, agent: str = "") -> Model:
    """The model of an agent. Raises Failure when there is none of that name.

    A folder of scripts has one for each agent, by its name.
    """
    provider, name = settings.get("provider"), settings.get("model")
    if provider == "eliza":
        return Eliza()
    if provider == "claude_code":
        return ClaudeCode(str(name or ""), host.environ.get(COMMAND, "claude"), dict(host.environ))
    full = f"{provider}/{name}" if provider and name else name
    if full and full.startswith(SCRIPT) and os.path.isdir(full.removeprefix(SCRIPT)):
        full = os.path.join(full, f"{agent}.toml")
    endpoint = settings.get("endpoint") or host.environ.get("PLUMB_ENDPOINT")
    if endpoint and provider:
        return Models(providers={provider: {"base_url": endpoint}}, environ=host.environ).resolve(full)
    if host.app is not None:
        return host.app.models.resolve(full)
    return Models(environ=host.environ).resolve(full)


class _Whole(Model):
    """A model that cannot stream."""

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """The whole reply at once."""
        yield await self.reply(request)


class Eliza(_Whole):
    """The doctor: turns what one says into a question. For tries without a model."""

    name = "eliza/doctor"

    async def reply(self, request: Request) -> Reply:
        """A question about what was said last."""
        said = next((each.content for each in reversed(request.messages) if each.role == "user"), "")
        words = [_MIRROR.get(word.lower(), word) for word in said.strip().strip(".!?").split()]
        text = f"Why do you say that {' '.join(words)}?" if words else "Please go on."
        return Reply(text, usage=Usage(len(said.split()), len(text.split())), model="doctor")


class ClaudeCode(_Whole):
    """A coding agent's own program, asked once a turn."""

    def __init__(self, model: str, command: str, environ: dict[str, str]) -> None:
        self.name = f"claude_code/{model}"
        self._command = [command, "-p", "--output-format", "json", *(["--model", model] if model else [])]
        self._environ = environ

    async def reply(self, request: Request) -> Reply:
        """What the program answers. Raises ClaudeCodeError when it dies or says nothing that can be read."""
        said = "\n\n".join(f"[{each.role}]\n{each.content}" for each in request.messages)
        try:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environ,
            )
        except OSError as error:
            message = f"The coding agent {self._command[0]!r} cannot be started: {error.strerror}."
            raise ClaudeCodeError(message, cause=error) from error
        try:
            out, _ = await child.communicate(said.encode())
        except OSError as error:
            raise ClaudeCodeError(
                "The coding agent could not be written to or read from.", cause=error
            ) from error
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
        if child.returncode != 0:
            message = f"The coding agent died with exit code {child.returncode}."
            raise ClaudeCodeError(message, details={"exit_code": child.returncode})
        try:
            told = _json.loads(out)
            text = told["result"]
        except (ValueError, KeyError, TypeError) as error:
            raise ClaudeCodeError("The coding agent's answer cannot be read.", cause=error) from error
        usage = told.get("usage") or {}
        read, written = (int(usage.get(name, 0)) for name in ("input_tokens", "output_tokens"))
        counted = Usage(read, written, cost=float(told.get("total_cost_usd") or 0))
        return Reply(str(text), usage=counted, model=self.name)
