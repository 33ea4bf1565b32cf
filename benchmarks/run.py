"""Fairlead side by side with its peers: `make bench`, or `python benchmarks/run.py --help`.

Sets up what it needs, measures, prints tables to stdout and writes them to `docs/benchmarks.md`.
"""

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import load
from environments import ROOT
from report import GLANCE, Section, as_markdown, as_text, at_a_glance
from rounds import QUICK, Failures, Pace
from sections import (
    agents,
    gateway,
    growth,
    http,
    install,
    invoke,
    mcp_http,
    mcp_stdio,
    memory,
    pipelines,
    plugins,
    preflight,
    sse,
    start,
    streams,
    tasks,
)

PAGE = ROOT / "docs" / "benchmarks.md"

MEASUREMENTS: dict[str, Callable[[Pace, Failures], Section]] = {
    "invoke": invoke.measure,
    "streams": streams.measure,
    "preflight": preflight.measure,
    "http": http.measure,
    "sse": sse.measure,
    "mcp-stdio": mcp_stdio.measure,
    "mcp-http": mcp_http.measure,
    "tasks": tasks.measure,
    "agents": agents.measure,
    "gateway": gateway.measure,
    "plugins": plugins.measure,
    "pipelines": pipelines.measure,
    "start": start.measure,
    "install": install.measure,
    "memory": memory.measure,
    "growth": growth.measure,
}

#: Those that put servers under load.
LOADED = ("http", "mcp-http", "gateway")

INTRODUCTION = """\
# Benchmarks

Fairlead beside the libraries that offer the same thing: a typed function that others may call.
`make bench` measures anew, prints these tables and writes this page, section by section.
`.venv/bin/python benchmarks/run.py --help` shows the options.

Absolute times differ from machine to machine, ratios much less, so the targets are ratios within one run.
Every contender has a process of its own.
They are timed in turns, {rounds} rounds of {milliseconds:.0f} ms each after a warm-up.
Times are medians over the rounds; ratios of calls are medians of each round's ratio, other ratios are of medians.
"Spread" is half the distance between the quartiles.
Each library is called by its own way to invoke a tool in process, shown in `benchmarks/contenders/`.

Measured on {machine}."""


def main() -> int:
    options = _options()
    if not load.can_make_requests() and (without := [name for name in options.only if name in LOADED]):
        # Before hours of work, and before the page loses what was measured with it.
        print(f"{', '.join(without)}: {load.NEEDED}", file=sys.stderr)
        return 2
    pace = QUICK if options.quick else Pace()
    os.environ["PYTHONHASHSEED"] = "0"
    failures = Failures()
    sections = []
    for name in options.only:
        print(f"measuring {name} ...", file=sys.stderr)
        known = set(failures.reasons)
        section = MEASUREMENTS[name](pace, failures)
        # The reasons went to stderr: they may speak of one machine's files.
        unmeasured = [each for each in failures.reasons if each not in known]
        section.notes += [f"Not measured: {each}." for each in unmeasured]
        sections.append(section)
        print(as_text(section), end="\n\n", flush=True)
        if _ours(unmeasured):  # the page keeps what was measured before
            continue
        if options.write and not pace.quick:  # at once: what is measured is not lost when the rest is not
            _write(section, pace)
    if options.json:
        options.json.write_text(json.dumps(_numbers(sections, failures), indent=2) + "\n")
    return 1 if _ours(failures.reasons) else 0


def _ours(names: Iterable[str]) -> bool:
    return any("fairlead" in name for name in names)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Fairlead beside its peers.")
    parser.add_argument(
        "--quick", action="store_true", help="shorter rounds, to try things out; writes no page"
    )
    parser.add_argument(
        "--only",
        type=_names,
        default=list(MEASUREMENTS),
        metavar="NAME,...",
        help=f"measure only these: {', '.join(MEASUREMENTS)}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE")
    parser.add_argument(
        "--no-write", dest="write", action="store_false", help="leave docs/benchmarks.md as it is"
    )
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in MEASUREMENTS:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(MEASUREMENTS)}")
    return names


def _machine() -> str:
    return f"{os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}"


def _numbers(sections: list[Section], failures: Failures) -> dict[str, object]:
    return {
        "machine": _machine(),
        "not_measured": failures.reasons,
        "sections": {section.name: section.numbers for section in sections},
        "targets": [vars(target) for section in sections for target in section.targets],
    }


def _write(section: Section, pace: Pace) -> None:
    """Put a section into the page, in the place of the one that was measured before."""
    head = INTRODUCTION.format(rounds=pace.rounds, milliseconds=pace.batch_seconds * 1000, machine=_machine())
    parts = re.split(r"^## ", PAGE.read_text() if PAGE.exists() else "", flags=re.MULTILINE)[1:]
    titled = {part.partition("\n")[0]: f"## {part.strip()}" for part in parts}
    titled.pop(GLANCE, None)
    titled[section.title] = as_markdown(section)
    PAGE.write_text("\n\n".join([head, at_a_glance(titled), *titled.values()]) + "\n")
    for file, (_, drawing) in section.drawings.items():
        (PAGE.parent / file).write_text(drawing)


if __name__ == "__main__":
    sys.exit(main())
