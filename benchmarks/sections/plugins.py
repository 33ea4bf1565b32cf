"""What it costs that a plugin has a process of its own: calls, host calls, SQL and the start."""

from environments import PLUGINS
from report import Section, micros, millis, percent, times
from rounds import Contender, Failures, Pace, Timing, contest, workers

PIPE, HELPER, ASK = (
    "a bare round trip over pipes",
    "a tool call through the helper",
    "a host call from the helper",
)
BARE, THREAD, LOOP = "a bare ctypes call", "in process, from a thread", "in process, from the loop"
PLAIN, SQL, SQL_HERE = "an insert by sqlcipher3", "an insert by db_exec", "an insert by db_exec, in process"
INTERPRETER, START = "python, ctypes and sqlite3", "a helper, loaded, and its end"

#: Each group is compared with its first.
GROUPS = [
    {PIPE: "pipe", HELPER: "helper", ASK: "host_calls"},
    {BARE: "bare_ctypes", THREAD: "on_thread", LOOP: "in_process"},
    {PLAIN: "plain_insert", SQL: "plugin_insert", SQL_HERE: "in_process_insert"},
    {INTERPRETER: "bare_start", START: "helper_start"},
]
MOST_PIPES, LEAST_A_SECOND, MOST_CTYPES, LEAST_SQL, MOST_STARTS = 3.0, 8_000, 2.0, 0.6, 1.5

WHAT = """\
A compiled plugin whose tool gives back what it gets, some 200 bytes, with the same strings both ways.
In its own process it stands behind the whole fence; the limit is an interpreter that echoes the same bytes over pipes.
In ours it is beside the bare function by ctypes, which encodes, copies and frees the same strings.
Called from the loop it runs on a thread, since native code may block.
Rows are inserted by single statements into an encrypted database, by the plugin and by SQLCipher's own module,
both with the same safety; the module's pages are as it makes them.
A helper's start counts from nothing to a plugin that has said what it is, and its end is counted, too."""


def measure(pace: Pace, failures: Failures) -> Section:
    columns = ("what", "µs", "spread", "a second", "cost")
    section = Section("plugins", "Plugins", WHAT, columns)
    found: dict[str, Timing] = {}
    for group in GROUPS:
        contenders = [Contender(name, "contenders.plugins", maker, PLUGINS) for name, maker in group.items()]
        with workers(contenders, failures) as running:
            timings = contest(running, pace)
        base = timings.get(next(iter(group)))
        for name, timing in timings.items():
            cost = times(timing.cost(base)) if base else "-"
            rate = f"{1 / timing.median:,.0f}"
            section.rows.append((name, micros(timing.median), percent(timing.spread), rate, cost))
        found |= timings
    section.numbers = {"microseconds": {name: timing.median * 1e6 for name, timing in found.items()}}
    section.notes = ["cost is in multiples of the first of each group"]
    _judge(section, found)
    return section


def _judge(section: Section, found: dict[str, Timing]) -> None:
    if {PIPE, HELPER} <= found.keys():
        cost, rate = found[HELPER].cost(found[PIPE]), 1 / found[HELPER].median
        section.require(
            f"a call through the helper costs at most {MOST_PIPES:g} round trips",
            times(cost),
            cost <= MOST_PIPES,
        )
        section.require(
            f"at least {LEAST_A_SECOND:,} of them a second", f"{rate:,.0f}", rate >= LEAST_A_SECOND
        )
    if {BARE, THREAD} <= found.keys():
        cost = found[THREAD].cost(found[BARE])
        section.require(
            f"a call in process costs at most {MOST_CTYPES:g} bare calls", times(cost), cost <= MOST_CTYPES
        )
    if {PLAIN, SQL, SQL_HERE} <= found.keys():
        here, there = (1 / found[each].cost(found[PLAIN]) for each in (SQL_HERE, SQL))
        for where, share in (("through the helper", there), ("in process", here)):
            section.require(
                f"db_exec {where} inserts at least {LEAST_SQL:g} of what sqlcipher3 does",
                times(share),
                share >= LEAST_SQL,
            )
    if {INTERPRETER, START} <= found.keys():
        cost = found[START].cost(found[INTERPRETER])
        told = f"{times(cost)} ({millis(found[START].median)} ms)"
        section.require(
            f"a helper starts within {MOST_STARTS:g} bare interpreters", told, cost <= MOST_STARTS
        )
