"""`tasks`: list tasks, and show, watch, answer, cancel or retry one. An id may be cut short where it stays unique."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.cli.spans import DATA_ROW, ago, choose_store, whole

if TYPE_CHECKING:
    from fairlead.runtime import Signal
    from fairlead.surfaces.cli.program import Program
    from fairlead.tasks import Task, Tasks

_LIMIT: Final = 20
_MOST: Final = 1000
_GROUPS: Final = ("open", "closed", "all")
#: Ids that are named when a text could mean several.
_NAMED: Final = 5
_ID: Final = "the id of a task, or its beginning"


class Verb(NamedTuple):
    """One word after `tasks`: its options, and what it does."""

    run: Callable[[Desk, Options, Signal], Awaitable[int]]
    valued: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    words: int = 1


def _tasks(program: Program, arguments: list[str]) -> int:
    if not arguments:
        return program.help_for("tasks")
    name, *rest = arguments
    verb = _VERBS.get(name)
    if verb is None:
        raise wrong_option(
            "argument 1", f"expected one of {', '.join(_VERBS)}.{near_miss(name[:20], _VERBS)}"
        )
    options = Options(rest, ("--json", *verb.switches), ("--data", *verb.valued), verb.words)
    store = choose_store(options.values.get("--data"))
    from fairlead.surfaces.cli import interrupts
    from fairlead.surfaces.cli.call import quiet_tracebacks

    quiet_tracebacks(program.console)
    desk = Desk(program, program.the_app().tasks, _caller(program), store)
    return interrupts.run(lambda signal: _run(verb, desk, options, signal))


async def _run(verb: Verb, desk: Desk, options: Options, signal: Signal) -> int:
    return await verb.run(desk, options, signal)


def _caller(program: Program) -> str | None:
    """Whose tasks are seen: everybody's by who may do everything, as the person at the keyboard; else one's own."""
    user, auth = program.identity
    permissions = auth.get("permissions") if isinstance(auth, Mapping) else None
    if isinstance(permissions, list | tuple | set | frozenset) and "*" in permissions:
        return None
    from fairlead.runtime.identity import caller_of

    return caller_of(user, auth)


class Desk(NamedTuple):
    """Where a verb does its work."""

    program: Program
    tasks: Tasks
    caller: str | None
    #: The option that names the store, for hints.
    store: str

    async def find(self, options: Options) -> Task:
        """The task that the first word means. Raises Failure when it means none, or several."""
        if not options.words or not options.words[0].strip():
            raise wrong_option("argument 2", f"expected {_ID}")
        wanted = options.words[0].strip().lower()
        found = await self.tasks.find(wanted, caller=self.caller, limit=_NAMED + 1)
        exact = [task for task in found if task.id == wanted]
        if len(found) == 1 or exact:
            return (exact or found)[0]
        if not found:
            raise Failure(
                Kind.not_found,
                f"There is no task {wanted[:100]!r}. '{self.program.spelled} tasks list{self.store}' lists them.",
            )
        named = ", ".join(task.id for task in found[:_NAMED])
        more = ", and more" if len(found) > _NAMED else ""
        raise Failure(
            Kind.conflict, f"{wanted[:100]!r} could be several tasks: {named}{more}. Write more of the id."
        )

    def told(self, task: Task, options: Options, words: str) -> int:
        """Say what was done; as JSON, the task as it is now."""
        if "--json" in options.on:
            return self.program.write_json(task.to_dict())
        self.program.console.say(words)
        return 0


async def _list(desk: Desk, options: Options, signal: Signal) -> int:
    state = options.values.get("--state", "all")
    _known_state(state)
    limit = whole("--limit", options.values.get("--limit", str(_LIMIT)), 1, _MOST)
    found, more = await desk.tasks.list(state=state, caller=desk.caller, limit=limit)
    console = desk.program.console
    if options.on or not console.out_tty:
        return desk.program.write_json([task.to_dict() for task in found])
    from fairlead.surfaces.cli.render import table

    now = time.time()
    console.write(table([_row(task, now) for task in found], console, ("id", "state")) + "\n")
    if more is not None:
        console.say(f"There are more; --limit {min(_MOST, limit * 5)} shows more of them.")
    return 0


def _known_state(state: str) -> None:
    from fairlead.tasks import State

    known = (*_GROUPS, *(each.value for each in State))
    if state not in known:
        raise wrong_option("--state", f"expected one of {', '.join(known)}.{near_miss(state, known)}")


def _row(task: Task, now: float) -> dict[str, Any]:
    about = task.title or (task.question or {}).get("question") or task.reason or ""
    return {
        "id": task.id,
        "state": task.state.value,
        "age": ago(now - task.created),
        "action": task.action.replace("_", "-"),
        "about": str(about),
    }


async def _show(desk: Desk, options: Options, signal: Signal) -> int:
    task = await desk.find(options)
    told = task.to_dict()
    console = desk.program.console
    if options.on or not console.out_tty:
        return desk.program.write_json(told)
    from fairlead.surfaces.cli.render import for_people

    console.write(for_people(_for_people(told, time.time()), console) + "\n")
    if task.state.paused:
        console.say(f"Answer it with '{desk.program.spelled} tasks answer {task.id} VALUE{desk.store}'.")
    return 0


def _for_people(told: dict[str, Any], now: float) -> dict[str, Any]:
    """The same, with times that people read, and without what is nothing out of the ordinary."""
    shown: dict[str, Any] = {}
    for name, value in told.items():
        if name.endswith("At"):
            shown[name.removesuffix("At")] = _moment(value, now)
        elif not (name in ("attempt", "priority", "oldestOffset") and value == 0):
            shown[name] = value
    return shown


def _moment(at: float, now: float) -> str:
    from datetime import datetime

    spelled = datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds")
    return f"{spelled} ({ago(now - at)} ago)" if at <= now else f"{spelled} (in {ago(at - now)})"


async def _watch(desk: Desk, options: Options, signal: Signal) -> int:
    since = whole("--since", options.values.get("--since", "0"), 0, 2**53)
    program = desk.program
    as_json = "--json" in options.on
    program.form = "ndjson" if as_json else "people" if program.console.out_tty else "json"
    from fairlead.surfaces.cli.watch import Watch

    task = await desk.find(options)
    verbose = "--verbose" in options.on or "-v" in options.on
    watch = Watch(program, desk.tasks, task, caller=desk.caller, verbose=verbose, store=desk.store)
    return await watch.run(since, signal)


async def _cancel(desk: Desk, options: Options, signal: Signal) -> int:
    task = await desk.find(options)
    ended = task.state.final
    task = await desk.tasks.cancel(task.id, options.values.get("--reason"), caller=desk.caller)
    if ended or task.state.value != "canceled":
        raise Failure(
            Kind.conflict, f"Task {task.id} had ended before ({task.state.value}): it stays as it is."
        )
    return desk.told(task, options, f"Canceled {task.id}.")


async def _answer(desk: Desk, options: Options, signal: Signal) -> int:
    task = await desk.find(options)
    given = options.words[1:]
    if "--json-value" in options.values:
        if given:
            raise wrong_option("--json-value", "gives the answer, so no other can be given")
        answer = _parsed(options.values["--json-value"])
    elif given:
        answer = _meant(given, task.question or {})
    else:
        answer = await _asked(desk, task, signal)
    task = await desk.tasks.answer(task.id, answer, caller=desk.caller)
    return desk.told(task, options, f"Answered {task.id}. It goes on.")


def _parsed(text: str) -> Any:
    try:
        return _json.loads(text)
    except ValueError as exc:
        raise wrong_option("--json-value", f"this is not JSON: {exc}") from None


def _meant(given: list[str], question: Mapping[str, Any]) -> Any:
    if question.get("allow_multiple"):
        return given
    if len(given) > 1:
        raise wrong_option("argument 3", "is one too many: the answer is one text, so quote it")
    return given[0]


async def _asked(desk: Desk, task: Task, signal: Signal) -> Any:
    """What the person at the terminal answers."""
    from fairlead.surfaces.cli import question as asking

    console = desk.program.console
    if not task.state.paused:
        raise Failure(Kind.conflict, f"Task {task.id} is {task.state.value}: it waits for no answer.")
    question = task.question or {}
    if not console.interactive:
        raise wrong_option("argument 3", f"expected the answer to: {question.get('question', '')}")
    console.say(asking.shown(question, console))
    answer = await asking.typed(question, console, signal)
    if answer is None:
        raise Failure(Kind.cancelled, "Nothing was answered: the task goes on waiting.")
    return answer


async def _retry(desk: Desk, options: Options, signal: Signal) -> int:
    task = await desk.find(options)
    again = await desk.tasks.retry(task.id, caller=desk.caller)
    if options.on:
        return desk.program.write_json(again.to_dict())
    console = desk.program.console
    console.write(f"{again.id}\n")
    if console.err_tty:
        console.say(
            f"Submitted again. '{desk.program.spelled} tasks watch {again.id}{desk.store}' watches it."
        )
    return 0


async def _workers(desk: Desk, options: Options, signal: Signal) -> int:
    found = await desk.tasks.workers()
    console = desk.program.console
    if options.on or not console.out_tty:
        return desk.program.write_json([worker._asdict() for worker in found])
    if not found:
        console.say(f"No worker is running. Start one: '{desk.program.spelled} worker{desk.store}'.")
        return 0
    from fairlead.surfaces.cli.render import table

    now = time.time()
    rows = [
        {"id": each.id, "running": f"{each.busy} of {each.room}", "seen": f"{ago(now - each.seen)} ago"}
        for each in found
    ]
    console.write(table(rows, console, ("id",)) + "\n")
    return 0


_VERBS: Final = {
    "list": Verb(_list, ("--state", "--limit"), words=0),
    "show": Verb(_show),
    "watch": Verb(_watch, ("--since",), ("--verbose", "-v")),
    "cancel": Verb(_cancel, ("--reason",)),
    "answer": Verb(_answer, ("--json-value",), words=100),
    "retry": Verb(_retry),
    "workers": Verb(_workers, words=0),
}

TASKS = Command(
    "tasks list | show ID | watch ID | answer ID [VALUE] | cancel ID | retry ID | workers [OPTIONS]",
    (
        ("list", "List tasks, the newest first: a table on a terminal, else JSON."),
        ("show ID", "Show one. The beginning of an id will do where it is the only one."),
        (
            "watch ID",
            "Follow its log until it has ended, and end as a call would have: same output, same exit code. "
            "On a terminal, answer what it asks. Ctrl-C stops watching, not the task.",
        ),
        ("answer ID VALUE", "Answer what a paused task asked; on a terminal without VALUE, be asked."),
        ("cancel ID", "End it and its children, whatever they are doing."),
        ("retry ID", "Submit the call of an ended task again, as a new task."),
        ("workers", "List who runs tasks now, in whatever process."),
        ("--state STATE", "list: only tasks in this state, or open, closed or all. [default: all]"),
        ("--limit N", f"list: how many, {_MOST} at most. [default: {_LIMIT}]"),
        ("--since OFFSET", "watch: only what comes after this offset. [default: 0]"),
        ("--verbose", "watch: every log line, also where stderr is no terminal."),
        ("--json-value JSON", "answer: an answer that is not just text."),
        ("--reason TEXT", "cancel: why, for those who ask later."),
        ("--json", "Print JSON: the tasks, the task, or for watch one event a line and the result at last."),
        DATA_ROW,
    ),
    _tasks,
    (
        "tasks list --state open",
        "tasks watch 0193e5a2",
        "tasks answer 0193e5a2 yes",
        "tasks cancel 0193e5a2 --reason 'not needed any more'",
    ),
)
