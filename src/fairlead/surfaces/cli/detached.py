"""`run ACTION`: call an action; or, with `--detach`, submit the call as a task that a worker runs.

An option of the task may stand before the action's name, or after it, where the action has no field that is called
the same.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead import _json
from fairlead.failures import Failure, Kind, from_exception
from fairlead.failures.failure import rebuild
from fairlead.surfaces.cli.command import Command
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.cli.spans import DATA_ROW, choose_store, span, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairlead.actions import Action
    from fairlead.runtime import App, Signal
    from fairlead.surfaces.cli.arguments import Request
    from fairlead.surfaces.cli.console import Console
    from fairlead.surfaces.cli.fields import Fields
    from fairlead.surfaces.cli.identity import Identity
    from fairlead.surfaces.cli.outcome import Outcome
    from fairlead.surfaces.cli.program import Program

SURFACE: Final = "cli"
_SWITCHES: Final = ("--detach", "--json")
_VALUED: Final = ("--key", "--delay", "--deadline", "--priority", "--title", "--batch", "--data")
_FLAGS: Final = (*_SWITCHES, *_VALUED)
#: What one task has and many at once have not.
_SINGLE: Final = ("--key", "--title")


class Order(NamedTuple):
    """What `run` was told about the task."""

    options: dict[str, Any]
    batch: str | None
    as_json: bool
    #: How to go on, for hints: the program, and the store.
    program: str
    store: str


def _run(program: Program, arguments: list[str]) -> int:
    own, name, rest = _before(arguments)
    if name is None:
        if {"-h", "--help"} & own.keys() or not arguments:
            return program.help_for("run")
        raise wrong_option("argument 1", "expected the name of an action")
    if _may_detach(own, rest):
        action = program.find_action(name)
        from fairlead.surfaces.cli.fields import Fields

        more, rest = _after(rest, Fields(action.input.json_schema))
        twice = sorted(own.keys() & more.keys() - set(_SWITCHES))
        if twice:
            raise wrong_option(twice[0], "is given twice; it takes one value")
        own |= more
        if "--detach" in own or "--batch" in own:
            return _detach(program, action, own, rest)
    choose_store(own.pop("--data", None))
    if own:
        flag = next(iter(own))
        if flag in ("-h", "--help"):
            return program.help_for("run")
        raise wrong_option(flag, "goes with --detach, which makes the call a task")
    from fairlead.surfaces.cli.outcome import form_of

    program.form = form_of(rest, program.console)
    return program.call(program.find_action(name), rest, more_flags=_FLAGS)


def _before(arguments: list[str]) -> tuple[dict[str, str], str | None, list[str]]:
    """The options before the action's name, the name, and the rest."""
    own: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        token = rest.pop(0)
        if not token.startswith("-"):
            return own, token, rest
        flag, equals, value = token.partition("=")
        if flag in own:
            raise wrong_option(flag, "is given twice; it takes one value")
        if flag in (*_SWITCHES, "-h", "--help") and not equals:
            own[flag] = ""
        elif flag in _VALUED:
            own[flag] = value if equals else _next(flag, rest)
        else:
            hint = near_miss(flag, _FLAGS) or " Options of an action come after its name."
            raise wrong_option(flag, f"there is no such option.{hint}")
    return own, None, []


def _may_detach(own: dict[str, str], rest: list[str]) -> bool:
    """Whether one has to look closer: the options of a task may also be fields of the action."""
    flags = {token.partition("=")[0] for token in rest}
    return bool(own) or not flags.isdisjoint(("--detach", *_VALUED))


def _after(arguments: list[str], fields: Fields) -> tuple[dict[str, str], list[str]]:
    """The options of the task among the arguments of the action, and the others."""
    own: dict[str, str] = {}
    others: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        # With a value it is the whole input, as in a call.
        bare_json = word == "--json" and (not rest or rest[0].startswith("--"))
        if bare_json or (word == "--detach" and fields.find("detach") is None):
            own[flag] = ""
        elif flag in _VALUED and fields.find(flag[2:]) is None:
            if flag in own:
                raise wrong_option(flag, "is given twice; it takes one value")
            own[flag] = value if equals else _next(flag, rest)
        else:
            others.append(word)
    return own, others


def _next(flag: str, rest: list[str]) -> str:
    if not rest or rest[0].startswith("--"):
        raise wrong_option(flag, f"needs a value; write {flag}=VALUE if the value starts with '--'")
    return rest.pop(0)


def _detach(program: Program, action: Action[..., Any], own: dict[str, str], rest: list[str]) -> int:
    if "-h" in rest or "--help" in rest or "-h" in own or "--help" in own:
        return program.call(action, ["--help"])
    as_json = "--json" in own or _asks_json(rest)
    # The id alone is what a script wants, so a failure is told on stderr alone, too.
    program.form = "json" if as_json else "people"
    batch = own.get("--batch")
    if batch is not None:
        for flag in _SINGLE:
            if flag in own:
                raise wrong_option(flag, "is for one task; --batch makes many")
    store = choose_store(own.get("--data"))
    order = Order(_options(own), batch, as_json, program.spelled, store)
    return program.call(action, rest, partial(_submit, order), _FLAGS, elsewhere=batch is not None)


def _asks_json(rest: list[str]) -> bool:
    pairs = pairwise([*rest, ""])
    return any(
        word in ("--ndjson", "--output=json") or (word, next) == ("--output", "json") for word, next in pairs
    )


def _options(own: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for flag in ("--delay", "--deadline"):
        if flag in own:
            options[flag[2:]] = span(flag, own[flag])
    if "--priority" in own:
        options["priority"] = whole("--priority", own["--priority"], -1000, 1000)
    if own.get("--key") == "":
        raise wrong_option("--key", "expected a non-empty text")
    return options | {flag[2:]: own[flag] for flag in _SINGLE if flag in own}


def _submit(
    order: Order,
    app: App,
    action: Action[..., Any],
    request: Request,
    identity: Identity,
    outcome: Outcome,
) -> int:
    if request.timeout is not None:
        raise wrong_option("--timeout-ms", "is for a call that is waited for; --deadline limits a task")
    if request.idempotency_key is not None:
        if order.batch is not None:
            raise wrong_option("--idempotency-key", "is for one task; --batch makes many")
        order.options.setdefault("key", request.idempotency_key)
    lines: list[Line] = []
    if order.batch is not None:
        if request.input or request.whole:
            raise wrong_option("--batch", "gives the inputs, so no other flag can give one")
        lines = _lines(order.batch, outcome.console)
    return Submission(order, app, action, request, identity, outcome, lines).run()


class Line(NamedTuple):
    """One line of a batch that is not blank."""

    number: int
    text: bytes


def _lines(file: str, console: Console) -> list[Line]:
    try:
        if file == "-":
            given = getattr(console.stdin, "buffer", console.stdin).read()
            raw = given.encode() if isinstance(given, str) else given
        else:
            with open(file, "rb") as opened:
                raw = opened.read()
    except OSError as exc:
        raise wrong_option("--batch", f"{file!r} cannot be read: {exc.strerror or exc}") from exc
    return [Line(number, text) for number, text in enumerate(raw.split(b"\n"), start=1) if text.strip()]


class Submission:
    """A call, or a batch of them, on its way into the store."""

    def __init__(
        self,
        order: Order,
        app: App,
        action: Action[..., Any],
        request: Request,
        identity: Identity,
        outcome: Outcome,
        lines: list[Line],
    ) -> None:
        from fairlead.surfaces.cli.live import Live

        self._order = order
        self._app = app
        self._action = action
        self._request = request
        self._identity = identity
        self._outcome = outcome
        self._console = outcome.console
        self._lines = lines
        self._live = Live(self._console, request.verbose)

    def run(self) -> int:
        from fairlead.surfaces.cli import interrupts
        from fairlead.surfaces.cli.call import quiet_tracebacks

        quiet_tracebacks(self._console)
        # What the app's own code prints is not the result.
        with redirect_stdout(self._console.stderr):
            return interrupts.run(self._main)

    async def _main(self, signal: Signal) -> int:
        from fairlead.surfaces.cli.call import started, stopped
        from fairlead.surfaces.refusal import refusal

        told: list[dict[str, Any]] = []
        failure: Failure | None = None
        try:
            await started(self._app, signal)
            told = await self._confirmed(signal)
        except Exception as exc:
            failure = from_exception(exc)
        finally:
            self._live.clear()
            clean = await stopped(self._app, self._console)
        if failure is not None:
            return self._outcome.show(refusal(failure, SURFACE, self._app, self._action.name))
        self._tell(told)
        return 0 if clean else 1

    async def _confirmed(self, signal: Signal) -> list[dict[str, Any]]:
        """Submit; someone at a terminal is asked first when the action wants that."""
        try:
            return await self._submit(signal, self._request.confirm)
        except Failure as failure:
            token = failure.details.get("confirmation", {}).get("code")
            by_token = self._order.batch is not None and self._action.requires_confirmation == "token"
            if token is None or by_token or self._request.confirm is not None:
                raise
            if not self._console.interactive:
                raise
        from fairlead.surfaces.cli.prompt import ask

        self._live.clear()
        shown: Any = self._app.redactor.value(self._request.input)
        if self._order.batch is not None:
            shown = {"inputs": f"{len(self._lines)} from {self._order.batch}"}
        if await ask(self._action, shown, self._console, signal):
            # A token is for one input; a yes is for all that the person was told of.
            return await self._submit(signal, True if self._order.batch is not None else token)
        if signal.cancelled:
            raise Failure(Kind.cancelled, signal.reason)
        raise Failure(Kind.refused_by_user, "Not confirmed: nothing was submitted.")

    async def _submit(self, signal: Signal, confirm: bool | str | None) -> list[dict[str, Any]]:
        who: dict[str, Any] = {"surface": SURFACE, "user": self._identity.user, "auth": self._identity.auth}
        who |= {"confirm": confirm, **self._order.options}
        if self._order.batch is None:
            task = await self._app.tasks.submit(self._action, self._request.input, **who)
            return [task.to_dict()]
        try:
            ids = await self._app.tasks.submit_many(self._action, self._inputs(signal), **who)
        except Failure as failure:
            raise self._at_its_line(failure) from failure
        return [{"id": id} for id in ids]

    def _inputs(self, signal: Signal) -> Iterator[Any]:
        count = len(self._lines)
        for done, line in enumerate(self._lines):
            signal.check()
            self._progress(f"{done} of {count} checked", 100 * done / count)
            try:
                yield _json.loads(line.text)
            except ValueError as exc:
                raise Failure(
                    Kind.malformed, f"This is not JSON: {exc}", details={"index": done}, cause=exc
                ) from exc
        self._progress(f"{count} checked, writing them", 100)

    def _progress(self, message: str, percent: float) -> None:
        self._live.event({"type": "progress", "message": message, "percent": percent})

    def _at_its_line(self, failure: Failure) -> Failure:
        """The same failure, with the line that it is about."""
        index = failure.details.get("index")
        if index is None or failure.kind is Kind.needs_confirmation:
            return failure
        line = self._lines[index].number
        message = f"Line {line}: {failure.message} Nothing was submitted."
        told = {**failure.__dict__, "message": message, "details": {**failure.details, "line": line}}
        return rebuild(type(failure), told)

    def _tell(self, told: list[dict[str, Any]]) -> None:
        console, order = self._console, self._order
        if order.as_json:
            console.write_json(told if order.batch is not None else told[0], indent=True)
            return
        if order.batch is None or not console.out_tty:
            console.write("".join(f"{task['id']}\n" for task in told))
        if not console.err_tty:
            return
        go_on = f"tasks watch {told[0]['id']}{order.store}" if order.batch is None else "tasks list"
        words = "Submitted." if order.batch is None else f"Submitted {len(told)} tasks."
        console.say(
            f"{words} '{order.program} worker{order.store}' runs tasks, '{order.program} {go_on}' shows how it goes."
        )


RUN = Command(
    "run [TASK OPTIONS] ACTION [OPTIONS OF THE ACTION] [TASK OPTIONS]",
    (
        (
            "--detach",
            "Submit the call as a task, print the task's id, and wait for nothing. This and the options below stand "
            "before the action's name; after it, too, where the action has no field that is called the same.",
        ),
        (
            "--key KEY",
            "The same key, action and input give the same task again, however often they are submitted.",
        ),
        ("--delay TIME", "Run it not before this long from now: 30s, 10m, 2h, 7d."),
        ("--deadline TIME", "End it as timeout after this long, 7d at most."),
        ("--priority N", "Higher ones are run first, from -1000 to 1000. [default: 0]"),
        ("--title TEXT", "What lists call it."),
        (
            "--batch FILE",
            "Submit one task for each line of this file of JSON inputs, all or none; - is stdin.",
        ),
        ("--json", "Print the task as JSON."),
        DATA_ROW,
    ),
    _run,
    (
        "run import-orders --file orders.csv --detach --key 2026-11",
        "run --delay 1h --title 'Nightly import' import-orders --file orders.csv --detach",
        "run import-order --batch orders.jsonl",
    ),
    helps=True,
)
