"""`shell_run`: a command of the shell, with the rights of this program. Nothing confines it: somebody is asked first.

    app.add(shell("."))

It decides nothing about who may call it: that is the policy of whoever offers it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from fairlead.actions import Action
from fairlead.actions.surfaces import near_surfaces
from fairlead.failures.tool import CAPS, ExecutionError, InvalidArgs, NotFound, Unavailable
from fairlead.runtime.context import Context
from fairlead.tools.known import known_secrets
from fairlead.tools.masking import Mask
from fairlead.tools.processes import Launch, Process
from fairlead.tools.processes_output import Kept, Printed, Tail
from fairlead.tools.processes_watch import idle_limit, watch
from fairlead.tools.warnings import warnings

__all__ = ["shell"]

#: Seconds without output after which a command is ended when nobody says otherwise: nobody may be there to do it.
IDLE: Final = 600.0

#: Seconds for the system to start a command.
SPAWN: Final = 10.0

#: What programs should know: nobody types, and nobody looks at colours.
PLAIN: Final = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


def shell(
    root: str | Path,
    *,
    idle: float | None = IDLE,
    secrets: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> list[Action[..., Any]]:
    """The tool `shell_run`, whose commands begin in the folder `root`.

    Args:
        root: The folder that commands begin in. It confines nothing.
        idle: Seconds without output after which a command is ended, where the call names none; None for no limit.
        secrets: Values by name that are masked in the output, beside those of the app's secret store.
        env: The environment of commands; the one of this program if None.
    """
    folder, own = Path(root), dict(secrets or {})

    async def shell_run(
        ctx: Context,
        command: Annotated[str, "The command, as one types it in bash, such as 'git status --short'."],
        timeout: Annotated[
            float | None,
            "Seconds without any output after which the command is ended, 1 to 3600; 0 for no limit.",
        ] = None,
    ) -> dict[str, Any]:
        """Run a command in bash and give its output and exit code.

        Pipelines fail when any part of them fails. There is no limit on how long a command runs, only on how long it
        is silent. What it leaves running in the background ends with it.
        """
        limit = idle_limit(timeout, idle)
        out, err, tail = Kept(CAPS["shell"]), Kept(CAPS["shell"]), Tail()
        mask = Mask({**await known_secrets(ctx), **own})
        launch = Launch(
            bash(command), str(_existing(folder)), {**(os.environ if env is None else env), **PLAIN}
        )
        process = Process(
            launch, Printed(mask, out, tail), Printed(mask, err, tail), tail, call=ctx.invocation_id
        )
        await started(process)
        await watch(process, ctx, limit)
        return _outcome(process, ctx, command, out.text(trim=True), err.text(trim=True), limit)

    return [
        Action(
            shell_run,
            side_effects="destructive",
            idempotency="non_idempotent",
            requires_confirmation=True,
            supported_surfaces=near_surfaces(),
            metadata={"unlimited": True},
            public_metadata={"requirements": ["permission:shell"]},
        )
    ]


def _outcome(
    process: Process, ctx: Context, command: str, stdout: str, stderr: str, limit: float | None
) -> dict[str, Any]:
    told: dict[str, Any] = {"stdout": stdout, "stderr": stderr, "exit_code": process.exit_code}
    if process.killed_by is not None:
        told["killed_by"] = process.killed_by
    if process.killed_by == "idle_timeout":
        told["idle_timeout_seconds"] = limit
        ctx.warn(
            f"The command printed nothing for {limit:g} seconds and was ended; its work may be half done. "
            "Give a longer `timeout`, or make it print as it goes."
        )
    else:
        warn_of(process, ctx, command, stdout, stderr)
    return told


def warn_of(process: Process, ctx: Context, command: str, stdout: str, stderr: str) -> None:
    """What a model should know about a command that ended by itself."""
    if process.killed_by is None:
        for text in warnings(command, process.exit_code or 0, stdout, stderr):
            ctx.warn(text)
    if process.left:
        ctx.warn(
            f"The command left {process.left} of its processes running, and they were ended with it. "
            "A process that should stay needs a tool that starts it in the background."
        )


def bash(command: str) -> tuple[str, ...]:
    """The command as arguments of bash."""
    if not command.strip():
        raise InvalidArgs("The command is empty.", field="command", expected="a command such as 'ls -la'")
    if "\0" in command:
        raise InvalidArgs(
            "The command contains a NUL character, which no shell can read.",
            field="command",
            expected="text without NUL characters",
        )
    program = shutil.which("bash")
    if program is None:
        raise Unavailable(
            "No bash is on this machine's PATH, and commands need one. Install bash.", retryable=False
        )
    return (program, "--noprofile", "--norc", "-c", f"set -o pipefail; {command}")


async def started(process: Process) -> None:
    """Start it, or say why that is not possible."""
    try:
        async with asyncio.timeout(SPAWN):
            await process.start()
    except TimeoutError as exc:
        raise Unavailable(
            f"The system did not start the command within {SPAWN:g} seconds.", cause=exc
        ) from exc
    except OSError as exc:
        if exc.errno == errno.E2BIG:
            raise InvalidArgs(
                "The command is too long for the system. Write the long part to a file and use the file.",
                field="command",
                expected="a command of at most 100 000 characters",
                cause=exc,
            ) from exc
        raise ExecutionError(f"The command could not be started: {exc.strerror or exc}.", cause=exc) from exc


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise NotFound(f"The folder {str(folder)!r}, which commands begin in, does not exist.", field="path")
    return folder.resolve()
