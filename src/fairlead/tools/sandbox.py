"""`sandbox_exec` and `sandbox_process`: commands in a folder that they cannot leave, in front or in the background.

    app.add(sandbox("workspace"))

Bubblewrap confines them where it works. Where it does not, `confine` says what happens: "require" refuses, "auto" runs
the command all the same, says so in a warning, and has the tool ask first; "off" never confines and always asks.
What a confined command uses of the processor, the memory and the disk is not limited; the number of its processes is,
unless this program runs as root, whom the kernel exempts.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fairlead.actions import Action, DefinitionError
from fairlead.actions.policy import one_of
from fairlead.actions.surfaces import near_surfaces, surface_names
from fairlead.failures.tool import CAPS, InvalidArgs, NotFound, Rejected, Timeout, Unavailable
from fairlead.runtime.context import Context
from fairlead.tools.bubblewrap import Bubblewrap, bubblewrap
from fairlead.tools.known import known_secrets
from fairlead.tools.masking import Mask
from fairlead.tools.processes import Launch, Process
from fairlead.tools.processes_output import Kept, Log, Printed, Tail
from fairlead.tools.processes_watch import idle_limit, observe, watch
from fairlead.tools.sandbox_jobs import Job, Jobs, new_log
from fairlead.tools.sandbox_tmp import PrivateTmp
from fairlead.tools.session import SESSION
from fairlead.tools.shell import PLAIN, bash, started, warn_of

__all__ = ["sandbox"]

Confine = Literal["auto", "require", "off"]

#: Commands in one turn of a conversation.
COMMANDS: Final = 100
#: Processes and threads inside one confinement.
PROCESSES: Final = 2048
#: Bytes of a background command's log.
LOG: Final = 8 * 1024 * 1024
#: Seconds that `wait` waits when nobody says how long.
WAIT: Final = 30.0
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: What else of the environment a command may know; the last row where it has a network.
_PASSED: Final = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def sandbox(
    root: str | Path,
    *,
    background: bool = True,
    network: bool = False,
    confine: Confine = "auto",
    limit: int | None = COMMANDS,
    idle: float | None = None,
    secrets: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    readable: Sequence[str | Path] = (),
    log_limit: int = LOG,
) -> list[Action[..., Any]]:
    """The tools `sandbox_exec` and `sandbox_process`, whose commands live in the folder `root`.

    Args:
        root: The folder that commands see and may write. It is their home.
        background: Whether commands may be started in the background.
        network: Whether commands have a network.
        confine: What happens where commands cannot be confined: "auto" warns, "require" refuses; "off" never confines.
        limit: Commands in one turn of a conversation; None for any number.
        idle: Seconds without output after which a command is ended, where the call names none; None for no limit.
        secrets: Values by name that are masked in the output, beside those of the app's secret store.
        env: More of the environment that commands have.
        readable: More paths that commands may read.
        log_limit: Bytes of a background command's log; the newest are kept.
    """
    one_of("sandbox", "confine", confine, ("auto", "require", "off"))
    if Path(root).resolve() == Path("/"):
        raise DefinitionError(
            "sandbox: the root is '/', and a sandbox of everything confines nothing. Name a folder."
        )
    made = Sandbox(Path(root), background, network, confine, limit, idle, secrets, env, readable, log_limit)
    # What runs without asking must be confined; where nothing confines it, somebody is asked.
    asks = confine == "off" or (confine == "auto" and isinstance(bubblewrap(), str))
    return [
        Action(
            made.sandbox_exec,
            side_effects="destructive" if asks else "write",
            idempotency="non_idempotent",
            requires_confirmation=asks,
            supported_surfaces=near_surfaces() if asks else surface_names(),
            metadata={"unlimited": True},
        ),
        Action(
            made.sandbox_process,
            side_effects="write",
            idempotency="conditional",
            metadata={"unlimited": True},
        ),
    ]


class Sandbox:
    """A folder, the commands that run in it, and the rules they run under."""

    def __init__(
        self,
        root: Path,
        background: bool,
        network: bool,
        confine: Confine,
        limit: int | None,
        idle: float | None,
        secrets: Mapping[str, str] | None,
        env: Mapping[str, str] | None,
        readable: Sequence[str | Path],
        log_limit: int,
    ) -> None:
        self._root = root
        self._background = background
        self._network = network
        self._confine = confine
        self._limit = limit
        self._idle = idle
        self._secrets = dict(secrets or {})
        self._env = dict(env or {})
        self._readable = (*_interpreter(), *(Path(each).resolve() for each in readable))
        self._log_limit = log_limit
        self._jobs = Jobs()
        # What nobody can reach any more is ended; what lives to the end of the program is ended there.
        weakref.finalize(self, self._jobs.end).atexit = False
        self._lock = threading.Lock()
        self._tmp: PrivateTmp | None = None

    async def sandbox_exec(
        self,
        ctx: Context,
        command: Annotated[str, "The command, as one types it in bash, such as 'python3 report.py'."],
        cwd: Annotated[str | None, "The folder it runs in, relative to the sandbox's own folder."] = None,
        timeout: Annotated[
            float | None,
            "Seconds without any output after which the command is ended, 1 to 3600; 0 for no limit. "
            "Not for the background.",
        ] = None,
        background: Annotated[
            bool, "Start it and return at once; `sandbox_process` then polls, waits for or kills it."
        ] = False,
    ) -> dict[str, Any]:
        """Run a command in the sandbox and give its output and exit code.

        Pipelines fail when any part of them fails. There is no limit on how long a command runs. What it leaves
        running ends with it, unless it was started in the background.
        """
        if background and not self._background:
            raise Rejected(
                "Commands may not run in the background here. Run it in the foreground.", field="background"
            )
        root = self._existing_root()
        folder = self._folder(root, cwd)
        self._count()
        launch = self._launch(ctx, root, folder, bash(command))
        if background:
            return await self._start_job(ctx, command, root, folder, launch)
        return await self._run(ctx, command, folder, launch, idle_limit(timeout, self._idle))

    async def sandbox_process(
        self,
        ctx: Context,
        action: Annotated[
            Literal["poll", "wait", "kill", "list"],
            "poll: how it is; wait: until it ends; kill: end it; list: all of this conversation.",
        ],
        pid: Annotated[int | None, "The process id that `sandbox_exec` gave; not for list."] = None,
        timeout: Annotated[float | None, "Seconds that wait waits, 1 to 3600; 30 if left out."] = None,
    ) -> dict[str, Any]:
        """Look after the commands that `sandbox_exec` started in the background."""
        scope = _scope(ctx)
        if action == "list":
            return {"processes": [job.describe() for job in self._jobs.all(scope)]}
        if pid is None:
            raise InvalidArgs(
                f"`{action}` needs to know which process.",
                field="pid",
                expected="a process id from sandbox_exec",
            )
        job = self._jobs.get(scope, pid)
        if action == "kill":
            await job.process.end("user")
        elif action == "wait":
            await self._wait(ctx, job, idle_limit(timeout, WAIT) or WAIT)
        return {**job.describe(), "output": job.output.text()}

    async def _run(
        self, ctx: Context, command: str, folder: Path, launch: Launch, idle: float | None
    ) -> dict[str, Any]:
        out, err, tail = Kept(CAPS["exec_stdout"]), Kept(CAPS["exec_stderr"]), Tail()
        mask = await self._mask(ctx)
        process = Process(
            launch, Printed(mask, out, tail), Printed(mask, err, tail), tail, call=ctx.invocation_id
        )
        await started(process)
        await watch(process, ctx, idle)
        stdout, stderr = out.text(), err.text()
        if process.never_ran:
            raise Unavailable(f"The command could not be confined, and was not run: {stderr.strip()[:300]}")
        if process.killed_by == "idle_timeout":
            raise Timeout(
                f"The command printed nothing for {idle:g} seconds and was ended; its work may be half done. "
                "Give a longer `timeout`, make it print as it goes, or run it in the background.",
                details={"stdout": stdout, "stderr": stderr},
            )
        warn_of(process, ctx, command, stdout, stderr)
        told = {"stdout": stdout, "stderr": stderr, "exit_code": process.exit_code, "cwd": str(folder)}
        return told if process.killed_by is None else {**told, "killed_by": process.killed_by}

    async def _start_job(
        self, ctx: Context, command: str, root: Path, folder: Path, launch: Launch
    ) -> dict[str, Any]:
        scope = _scope(ctx)
        self._jobs.make_room(scope)
        mask = await self._mask(ctx)
        descriptor, log_file = new_log(root)
        output, tail, log = Kept(CAPS["exec_first_attempt"]), Tail(), Log(descriptor, self._log_limit)
        process = Process(
            launch,
            Printed(mask, output, tail, log),
            None,
            tail,
            call=ctx.invocation_id,
            closing=log.close,
        )
        await started(process)
        job = Job(process, mask.text(command), str(folder), log_file, output)
        self._jobs.add(scope, job)
        return {"pid": process.pid, "log_file": log_file, "cwd": str(folder), "background": True}

    async def _wait(self, ctx: Context, job: Job, seconds: float) -> None:
        if not await observe(job.process, ctx, seconds):
            ctx.warn(f"Process {job.process.pid} still runs after {seconds:g} seconds of waiting.")

    def _count(self) -> None:
        """One more command of this turn, if there is room for one."""
        session = SESSION.get()
        if session is None or self._limit is None:
            return
        if session.commands >= self._limit:
            raise Rejected(
                f"This turn has run {session.commands} commands, which is its limit. "
                "Answer with what is known, or go on in the next turn."
            )
        session.commands += 1

    def _launch(self, ctx: Context, root: Path, folder: Path, argv: tuple[str, ...]) -> Launch:
        found = "confinement is switched off" if self._confine == "off" else bubblewrap()
        tmp = self._private_tmp()
        if isinstance(found, Bubblewrap):
            inside = found.wrap(
                _bounded(argv), root=root, cwd=folder, tmp=tmp, network=self._network, readable=self._readable
            )
            return Launch(inside, "/", self._environment(root, "/tmp"), confined=True)  # noqa: S108
        if self._confine == "require":
            raise Unavailable(
                f"Commands must be confined here, and cannot be: {found}. "
                "An operator can install bubblewrap, or allow the sandbox to run without it.",
                retryable=False,
            )
        if self._confine == "auto":
            ctx.warn(f"This command is not confined: {found}. It can read and write what this program can.")
        return Launch(argv, str(folder), self._environment(root, str(tmp)))

    def _environment(self, root: Path, tmp: str) -> dict[str, str]:
        """Little: no variable of this program that may hold a key."""
        names = (*_PASSED, *_PROXIES) if self._network else _PASSED
        passed = {name: os.environ[name] for name in names if name in os.environ}
        user = {"HOME": str(root), "USER": "sandbox", "LOGNAME": "sandbox", "TMPDIR": tmp}
        return {"PATH": _path(), "LANG": "C.UTF-8", **passed, **user, **PLAIN, **self._env}

    async def _mask(self, ctx: Context) -> Mask:
        return Mask({**await known_secrets(ctx), **self._secrets})

    def _existing_root(self) -> Path:
        root = self._root.resolve()
        if not root.is_dir():
            raise Unavailable(
                f"The sandbox's folder {str(root)!r} does not exist. Create it.", retryable=False
            )
        return root

    def _folder(self, root: Path, cwd: str | None) -> Path:
        if cwd is not None and "\0" in cwd:
            raise InvalidArgs("The folder's name contains a NUL character.", field="cwd", expected="a path")
        folder = (root / (cwd or ".")).resolve()
        if not folder.is_relative_to(root):
            raise InvalidArgs(
                f"The folder {cwd!r} is outside the sandbox.",
                field="cwd",
                expected="a folder inside the sandbox, relative to its own folder",
            )
        if not folder.is_dir():
            raise NotFound(f"There is no folder {cwd!r} in the sandbox.", field="cwd")
        return folder

    def _private_tmp(self) -> Path:
        """A folder for temporary files that lasts as long as this sandbox."""
        with self._lock:
            if self._tmp is None or not self._tmp.path.is_dir():
                self._tmp = PrivateTmp()
                weakref.finalize(self, self._tmp.remove)
            return self._tmp.path


def _bounded(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The same, with a limit on how many processes there may be inside. The kernel exempts root from it."""
    return (
        argv[0],
        "--noprofile",
        "--norc",
        "-c",
        'ulimit -u "$0" 2>/dev/null; exec "$@"',
        str(PROCESSES),
        *argv,
    )


def _scope(ctx: Context) -> str:
    """Whose commands these are: a conversation's, else a caller's. Nobody sees another's."""
    session = SESSION.get()
    return f"caller {ctx.caller}" if session is None else f"session {session.id}"


def _interpreter() -> list[Path]:
    """Where this Python lives, so that `python3` is the same inside."""
    places = dict.fromkeys((Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve()))
    return [place for place in places if not place.is_relative_to("/usr") and place != Path("/")]


def _path() -> str:
    """The interpreter's own folder first, then the system's."""
    own = Path(sys.prefix) / "bin"
    return f"{own}:{_PATH}" if sys.prefix != "/usr" else _PATH
