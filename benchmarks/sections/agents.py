"""What an agent's loop costs beside the model: a step, a long run, a token that is streamed, and many runs at once."""

import sys

from environments import PEERS
from report import Section, micros, percent, times
from rounds import Contender, Failures, Pace, Timing, Worker, workers

OURS, THEIRS = "fairlead", "pydantic-ai"
SHORT, LONG = 20, 200
#: One reply's tokens, as a stream of them.
TOKENS = 20_000
FEW, MANY, MOST = 100, 1_000, 3_000
MOST_MICROSECONDS = 50.0

RUNS = [
    Contender(f"{OURS}, {SHORT} steps", "contenders.agents", "steps_20"),
    Contender(f"{OURS}, {LONG} steps", "contenders.agents", "steps_200"),
    Contender(f"{THEIRS}, {SHORT} steps", "contenders.pydantic_ai_agents", "steps_20", PEERS),
    Contender(f"{THEIRS}, {LONG} steps", "contenders.pydantic_ai_agents", "steps_200", PEERS),
]
STREAMS = [
    Contender("the model's stream, bare", "contenders.agents", "bare_stream"),
    Contender(f"{OURS}, streamed", "contenders.agents", "agent_stream"),
]
HELD = [
    Contender(f"{OURS}, runs at once", "contenders.agents", "held_runs"),
    Contender(f"{THEIRS}, runs at once", "contenders.pydantic_ai_agents", "held_runs", PEERS),
]

WHAT = f"""\
A scripted model answers at once, so what is timed is the loop.
In a run of {SHORT} or {LONG} steps each step calls a tool that adds two numbers, and one more answers in words:
the conversation goes to the model whole each time, the arguments are checked, and the result goes back.
Beside it is pydantic-ai's `agent.run` with its `FunctionModel`, which does the same.
A streamed token is told to the caller as an event; its cost is what comes on top of reading the model's own stream.
Runs at once are held in the model after five steps, {MANY:,} and then {MOST:,} of them in one process, and all end;
memory is the growth of the process for each run that is held. pydantic-ai's are held up to {MANY:,}."""

NOTES = [
    "A step is a whole turn of the loop: the model is asked, and its call is run and answered.",
    "pydantic-ai: without instrumentation, and without a limit of requests.",
]


def measure(pace: Pace, failures: Failures) -> Section:
    columns = ("what", "µs", "spread", f"of {OURS}", "KB a run")
    section = Section("agents", "Agents", WHAT, columns, notes=NOTES)
    _steps(section, pace, failures)
    _tokens(section, pace, failures)
    _at_once(section, failures)
    return section


def _steps(section: Section, pace: Pace, failures: Failures) -> None:
    """Seconds for a step. Each contender's turn is of as many steps, in one long run or some short ones."""
    found: dict[str, Timing] = {}
    with workers(RUNS, failures) as running:
        for worker in running:
            worker.time(1)
        for _ in range(pace.rounds):
            for worker in running:
                timing = found.setdefault(worker.contender.name, Timing())
                timing.rounds.append(_step(worker))
    own = found.get(RUNS[0].name)
    for name, timing in found.items():
        cost = times(timing.cost(own)) if own else "-"
        section.rows.append((f"a step: {name}", micros(timing.median), percent(timing.spread), cost, ""))
        section.numbers[name] = {"microseconds_a_step": timing.median * 1e6}
    ours, ours_long, theirs, _ = (found.get(each.name) for each in RUNS)
    if ours and theirs:
        part = ours.cost(theirs)
        section.require(f"a step costs at most 0.1 of {THEIRS}'s", f"{part:.3f}", part <= 0.1)
    if ours and ours_long:
        growth = ours_long.cost(ours)
        section.require(f"a step of {LONG} costs what one of {SHORT} does", times(growth), growth <= 1.2)


def _step(worker: Worker) -> float:
    steps = LONG if str(LONG) in worker.contender.name else SHORT
    runs = LONG // steps
    return worker.time(runs) / (runs * (steps + 1))


def _tokens(section: Section, pace: Pace, failures: Failures) -> None:
    timings = {each.name: Timing() for each in STREAMS}
    with workers(STREAMS, failures) as running:
        for worker in running:
            worker.time(TOKENS // 10)
        for turn in range(pace.streams):
            print(f"  turn {turn + 1} of {pace.streams}", file=sys.stderr)
            for worker in running:
                timings[worker.contender.name].rounds.append(worker.time(TOKENS) / TOKENS)
    bare, streamed = (timings[each.name] for each in STREAMS)
    if not (bare.rounds and streamed.rounds):
        return
    for name, timing in timings.items():
        section.rows.append((f"a token: {name}", micros(timing.median), percent(timing.spread), "", ""))
    pairs = zip(streamed.rounds, bare.rounds, strict=True)
    added = Timing([whole - alone for whole, alone in pairs]).median * 1e6
    section.numbers["microseconds_added_to_a_token"] = added
    promise = f"streaming adds less than {MOST_MICROSECONDS:.0f} µs to a token"
    section.require(promise, f"{added:.2f} µs", added < MOST_MICROSECONDS)


def _at_once(section: Section, failures: Failures) -> None:
    with workers(HELD, failures) as running:
        for worker in running:
            print(f"  {worker.contender.name}", file=sys.stderr)
            _held(section, worker)


def _held(section: Section, worker: Worker) -> None:
    name = worker.contender.name
    ours = name.startswith(OURS)
    worker.time(FEW)
    before = worker.memory()
    worker.time(MANY)
    at_many = worker.memory()
    first = (at_many - before) / (MANY - FEW)
    section.rows.append((f"{name}: the first {MANY:,}", "", "", "", f"{first / 1e3:.1f}"))
    section.numbers[name] = {"bytes_a_run": first}
    if ours:
        worker.time(MOST)
        later = (worker.memory() - at_many) / (MOST - MANY)
        section.rows.append((f"{name}: up to {MOST:,}", "", "", "", f"{later / 1e3:.1f}"))
        section.numbers[f"{name}, later"] = {"bytes_a_run": later}
    worker.time(0)
    if ours:
        promise = f"{MOST:,} runs at once end, and those after {MANY:,} take no more memory each"
        section.require(promise, f"{later / first:.2f} of the first", later <= 1.15 * first)
