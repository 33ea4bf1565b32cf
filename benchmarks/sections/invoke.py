"""The price of a call: pydantic alone, Fairlead plain and with every policy, and the peers."""

from environments import MCP, PEERS
from report import Section, micros, percent, times
from rounds import Contender, Failures, Pace, Timing, Worker, contest, workers

REFERENCE = "pydantic, TypeAdapter"
PLAIN = "fairlead"
KEY_MADE = "fairlead, a key made"
POLICIES = "fairlead, every policy"

PYDANTIC = [
    Contender(REFERENCE, "contenders.reference", "adapter", package="pydantic"),
    Contender("pydantic, model", "contenders.reference", "model", package="pydantic"),
    Contender("pydantic, compiled parts", "contenders.reference", "core", package="pydantic"),
]
FAIRLEAD = [
    Contender(PLAIN, "contenders.fairlead", package="fairlead"),
    Contender("fairlead, models", "contenders.fairlead", "models", package="fairlead"),
    Contender(KEY_MADE, "contenders.fairlead", "no_policies", package="fairlead"),
    Contender(POLICIES, "contenders.fairlead", "policies", package="fairlead"),
]
BARE = Contender(
    "pydantic-ai, bare toolset", "contenders.pydantic_ai", environment=PEERS, package="pydantic-ai-slim"
)
CHECKED = Contender(
    "pydantic-ai, output checked", "contenders.pydantic_ai", "make_checked_call", PEERS, "pydantic-ai-slim"
)
OTHERS = [
    CHECKED,
    Contender("strands-agents", "contenders.strands", environment=PEERS, package="strands-agents"),
    Contender("google-adk", "contenders.google_adk", environment=PEERS, package="google-adk"),
    Contender("openai-agents", "contenders.openai_agents", environment=PEERS, package="openai-agents"),
    Contender("arcade", "contenders.arcade", environment=PEERS, package="arcade-core"),
    Contender("mcp", "contenders.mcp", environment=MCP, package="mcp"),
    Contender("fastmcp", "contenders.fastmcp", environment=MCP, package="fastmcp"),
    Contender("langchain-core", "contenders.langchain", environment=PEERS, package="langchain-core"),
]
CONTENDERS = [*PYDANTIC, *FAIRLEAD, BARE, *OTHERS]

WHAT = """\
An action that takes a string of at least one character, an integer and a boolean, and returns a typed result
of three fields, called in process again and again with valid arguments.
The function is asynchronous and returns at once, so what is timed is the library.
The pydantic rows call no function: they validate the input, validate the output and dump it to JSON's types.
The reference does that with the methods of a `TypeAdapter` over a `TypedDict`; the other two use the methods
of a model, and the compiled validator and serializer without pydantic's methods around them.
`fairlead, every policy` has a permission checker, a fresh idempotency key for each call, a concurrency limit,
a rate limit, retries, hooks, redaction and one log event.
It is held against `fairlead, a key made`: the plain call, whose caller makes a key for each call, too, and does not
give it, so that what the caller does for itself is on neither side.
The last three columns were found by giving each contender a wrong type, an empty title and a wrong result:
"no" means the function ran, or the wrong result was returned."""

NOTES = [
    "pydantic-ai: the toolset without an agent's tool manager; it returns what the function returned.",
    "strands-agents: no constraints in signatures; the result becomes JSON text, unchecked.",
    "google-adk: looks for missing arguments only; called without a tool context.",
    "openai-agents: takes its arguments as JSON text, as a model sends them, and reads them in the call.",
    "arcade: `arcade-core`'s executor with a tool of `arcade-tdk`.",
    "mcp, fastmcp: `call_tool` of a server without a transport; the result also becomes text content.",
    "langchain-core: `ainvoke` of a tool, with its callbacks and no tracing.",
]


def measure(pace: Pace, failures: Failures) -> Section:
    columns = (
        "call",
        "version",
        "µs",
        "spread",
        "of pydantic",
        "of fairlead",
        "types",
        "constraints",
        "output",
    )
    section = Section("invoke", "A call", WHAT, columns, notes=NOTES)
    with workers(CONTENDERS, failures) as running:
        timings = contest(running, pace)
        facts = {worker.contender.name: worker.facts() for worker in running if worker.contender.is_call}
        versions = {worker.contender.name: _version(worker) for worker in running}
    section.numbers = {
        "microseconds": {name: timing.median * 1e6 for name, timing in timings.items()},
        "facts": facts,
    }
    for name, timing in timings.items():
        section.rows.append(
            (
                name,
                versions[name],
                micros(timing.median),
                percent(timing.spread),
                _speed(timings, REFERENCE, name),
                _speed(timings, PLAIN, name),
                *_answers(facts.get(name)),
            )
        )
    _judge(section, timings)
    return section


def _speed(timings: dict[str, Timing], base: str, name: str) -> str:
    """The speed of a contender as a part of another's."""
    return times(timings[base].cost(timings[name])) if base in timings else "-"


def _version(worker: Worker) -> str:
    return worker.contender.environment.versions()[worker.contender.package]


def _answers(facts: dict[str, bool] | None) -> tuple[str, str, str]:
    if facts is None:
        return ("", "", "")
    types, constraints, output = ("yes" if facts[key] else "no" for key in ("types", "constraints", "output"))
    return types, constraints, output


def _judge(section: Section, timings: dict[str, Timing]) -> None:
    if PLAIN not in timings:
        return
    plain = timings[PLAIN]
    part = timings[REFERENCE].cost(plain)
    section.require("at least 0.5 of pydantic's validate and dump", times(part), part >= 0.5)
    costs = {peer.name: timings[peer.name].cost(plain) for peer in OTHERS if peer.name in timings}
    if costs:
        nearest = min(costs, key=costs.__getitem__)
        measured = f"{times(costs[nearest])} times as fast as {nearest}, the nearest of {len(costs)}"
        section.require("faster than each peer doing the same work", measured, costs[nearest] > 1)
    if BARE.name in timings:
        cost = timings[BARE.name].cost(plain)
        section.require("pydantic-ai's bare call, which checks no output, is caught", times(cost), cost >= 1)
    if POLICIES in timings and KEY_MADE in timings:
        cost = timings[POLICIES].cost(timings[KEY_MADE])
        section.require("every policy costs at most twice the plain call", times(cost), cost <= 2)
