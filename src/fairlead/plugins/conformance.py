"""Whether a plugin keeps the contract: it is tried in a process of its own, and every problem is told.

A step that brings the process down is one problem; the steps after it are tried in another process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from fairlead.failures import Failure
from fairlead.failures import tool as envelopes
from fairlead.plugins import fences, slots
from fairlead.plugins.child import Limits
from fairlead.plugins.compatibility import semver
from fairlead.plugins.finding import check as check_manifest
from fairlead.plugins.kit import library_of
from fairlead.plugins.library import facts
from fairlead.plugins.manifest import Manifest, check_id, decode
from fairlead.plugins.samples import sample
from fairlead.plugins.trial import ROUNDS

Status = Literal["passed", "warned", "failed", "skipped"]
#: Seconds without a word after which a step is given up.
STALLED: Final = 20.0
#: Bytes in so many rounds: less is how memory breathes.
_BREATH: Final = 24 * ROUNDS
_MOST_RUNS: Final = 12

_EVENTS: Final = (
    {"status": "running", "title": "Chat"},
    {"kind": "tool", "title": "Tool", "timestamp": "2030-01-01T00:00:00Z", "detail": "file_read"},
    {"progress": 0.5, "title": "Chat"},
    {"question": "Which one?", "allow_multiple": False, "options": ["a", "b"]},
    {"success": True, "summary": "Chat completed", "title": "Chat", "session_id": "s", "output": "Done."},
    {"success": False, "summary": "It failed.", "title": "Chat"},
    {"title": "Chat"},
    {"text": "So far.", "title": "Chat"},
    {"title": "Chat", "draft": {"text": "So far."}},
)
_ARTIFACT: Final = {
    "filename": "a.txt",
    "mime_type": "text/plain",
    "size": 1,
    "host_path": "/nowhere/a.txt",
    "is_directory": False,
}

#: What each step tries, in words for a person.
STEPS: Final = {
    "library": "what the file is",
    "load": "entry, table, init and manifest",
    "entry_v1": "the entry for hosts of the first version",
    "manifest": "the manifest, again and again",
    "rules": "what the manifest says",
    "table": "the table against the manifest",
    "probe": f"{ROUNDS} probes of the host's table",
    "tools": "each tool, with arguments good and bad",
    "nothing": "a host that gives NULL and errors",
    "odd": "a host that gives texts nobody expects",
    "routes": "each route, with requests good and bad",
    "settings": "values: empty, long, unknown",
    "events": "each event of a task, and one from the future",
    "memory": f"each tool, {ROUNDS} times",
    "threads": "calls from several threads at once",
    "strings": "the strings that the host gave",
    "end": "destroy",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried: how it went, what was found, and what would help."""

    name: str
    status: Status
    message: str
    way_out: str | None = None


@dataclass
class Report:
    """All that was tried."""

    library: Path
    id: str | None = None
    version: str | None = None
    abi: int | None = None
    checks: list[Check] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing failed; warnings are no failures."""
        return all(check.status != "failed" for check in self.checks)

    def count(self, status: Status) -> int:
        """How many checks went so."""
        return sum(check.status == status for check in self.checks)

    def describe(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "ok": self.ok,
            "library": str(self.library),
            "id": self.id,
            "version": self.version,
            "abi": self.abi,
            "checks": [
                {"wayOut" if key == "way_out" else key: value for key, value in asdict(check).items()}
                for check in self.checks
            ],
        }

    def lines(self) -> list[str]:
        """The same for a person."""
        who = f"{self.id or 'A plugin'} {self.version or ''}".strip()
        lines = [f"{who}{f', interface {self.abi}' if self.abi else ''}: {self.library}"]
        for check in self.checks:
            lines.append(f"  {check.status:<8}{STEPS[check.name]}: {check.message}")
            if check.way_out is not None:
                lines.append(f"          {check.way_out}")
        lines.append(
            f"{self.count('passed')} passed, {self.count('warned')} warned, {self.count('failed')} failed."
        )
        return lines


def check(source: Path) -> Report:
    """Try a plugin: a library, a `plugin.py`, or a folder with one of them.

    Raises:
        Failure: there is no such plugin.
    """
    library = library_of(source)
    report = Report(library)
    report.checks.append(_file(library))
    trial = _Trial(library)
    first = trial.run(entry=slots.ENTRY_V2, skip=sorted(STEPS))
    if not _loaded(report, first):
        return report
    manifest = _rules(report, first.told["load"]["manifest"])
    if manifest is None:
        return report
    _table(report, first.told["load"], manifest)
    _steps(report, trial, manifest)
    if not trial.python and slots.ENTRY_V1 in facts(library).entries and report.abi != 1:
        report.checks.append(_first_entry(trial.run(entry=slots.ENTRY_V1)))
    return report


def _file(library: Path) -> Check:
    if library.suffix == ".py":
        return Check("library", "passed", "It is written in Python.")
    about = facts(library)
    return Check(
        "library", "passed", f"It is made for {about.machine} and defines {' and '.join(about.entries)}."
    )


def _loaded(report: Report, run: _Run) -> bool:
    told = run.told.get("load", {})
    if run.ended is not None:
        report.checks.append(_fallen("load", run))
        return False
    if "failed" in told:
        way_out = (
            "Mend it there."
            if report.library.suffix == ".py"
            else "`fairlead plugin header` has both tables."
        )
        report.checks.append(Check("load", "failed", f"It cannot be loaded: {told['failed']}.", way_out))
        return False
    report.abi = told["abi"]
    report.checks.append(Check("load", "passed", f"It speaks version {report.abi} of the interface."))
    return True


def _rules(report: Report, text: str) -> Manifest | None:
    try:
        manifest = decode(text)
        report.id, report.version = manifest.plugin_id, manifest.version
        check_manifest(manifest, check_id(manifest.plugin_id))
    except Failure as failure:
        way_out = "Each place that is named has to be mended; the guide to plugins has the rules."
        report.checks.append(Check("rules", "failed", failure.message, way_out))
        return None
    lacking = []
    if manifest.version is None or semver(manifest.version) is None:
        lacking.append("it has no version like 1.0.3")
    lacking += [
        f"the tool {tool.id!r} says nothing of its parameters"
        for tool in manifest.tools
        if not tool.parameters
    ]
    if lacking:
        report.checks.append(Check("rules", "warned", f"It can be read, but {'; '.join(lacking)}."))
    else:
        offers = f"{_counted(len(manifest.tools), 'tool')} and {_counted(len(manifest.routes), 'route')}"
        report.checks.append(Check("rules", "passed", f"It has {offers}, and breaks no rule."))
    return manifest


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _table(report: Report, told: Mapping[str, Any], manifest: Manifest) -> None:
    routes, config, _events = told["offers"]
    problems = []
    if manifest.routes and not routes:
        problems.append("the manifest has routes, and handle_route is NULL")
    if manifest.artifact_handler and told["abi"] < 2:
        problems.append("artifact_handler is for plugins with the second entry")
    if problems:
        report.checks.append(
            Check(
                "table",
                "failed",
                f"They do not agree: {'; '.join(problems)}.",
                "Give the function, or take it out.",
            )
        )
    elif manifest.config is not None and manifest.config.sections and not config:
        words = "The manifest has settings, and on_config_changed is NULL: changes are not told."
        report.checks.append(Check("table", "warned", words))
    else:
        report.checks.append(Check("table", "passed", "They agree."))


def _steps(report: Report, trial: _Trial, manifest: Manifest) -> None:
    """Every step; those that bring the process down are left out of the next run."""
    done: list[str] = []
    plan = _plan(manifest)
    for _ in range(_MOST_RUNS):
        run = trial.run(entry=slots.ENTRY_V2, skip=done, **plan)
        for name, told in run.told.items():
            if name in _JUDGES and name not in done:
                report.checks.append(_JUDGES[name](told))
                done.append(name)
        if run.ended is None:
            return
        report.checks.append(_fallen(run.step, run))
        if run.step in done or run.step == "load":
            return
        done.append(run.step)


def _plan(manifest: Manifest) -> dict[str, Any]:
    tools = []
    for tool in manifest.tools:
        schema = tool.parameters or {}
        least = sample(schema)
        least = least if isinstance(least, dict) else {}
        most = sample(schema, full=True)
        added = {**least, "_secrets": {"a": "b"}, "_context": {"working_directory": "/work"}}
        given: list[Any] = [least, most, added, {}, [], {"no": {"such": ["thing"]}}]
        payloads = [json.dumps(each) for each in given]
        tools.append({"id": tool.id, "payloads": [*payloads, "not JSON", "", "null", '{"a":' * 200]})
    fields = [
        each.key
        for section in (manifest.config.sections if manifest.config else ())
        for each in section.fields
    ]
    return {
        "tools": tools,
        "routes": [_request(manifest, number) for number in range(len(manifest.routes))],
        "settings": fields,
        "events": [json.dumps(each) for each in _EVENTS],
        "artifact": json.dumps(_ARTIFACT),
    }


def _request(manifest: Manifest, number: int) -> str:
    route = manifest.routes[number]
    params = {part[1:]: "x" for part in route.path.split("/") if part.startswith(":")}
    return json.dumps(
        {
            "route_id": route.id,
            "method": route.methods[0] if route.methods else "GET",
            "path": "/".join("x" if part.startswith(":") else part for part in route.path.split("/")),
            "query": {},
            "path_params": params,
            "headers": {"content-type": "application/json"},
            "body": "{}",
            "body_encoding": "utf8",
            "remote_addr": "",
            "plugin_id": manifest.plugin_id,
            "osaurus": {
                "base_url": "http://127.0.0.1",
                "plugin_url": "http://127.0.0.1/x",
                "agent_address": "",
            },
        }
    )


# --- what is made of what was seen ---


def _fallen(step: str, run: _Run) -> Check:
    words = f"{run.ended} It was doing: {run.doing or STEPS[step]}."
    if run.printed:
        words += f" It printed: {run.printed}"
    way_out = "Run it under a debugger: fairlead.plugins.kit.open_plugin(LIB, in_process=True)"
    return Check(step, "failed", words, way_out)


def _same(told: Mapping[str, Any]) -> Check:
    if not told["same"]:
        return Check(
            "manifest",
            "failed",
            "get_manifest says another thing each time.",
            "It has to be the same always.",
        )
    if told["grown"] > _BREATH:
        words = f"{ROUNDS} manifests left {told['grown']} bytes behind."
        return Check("manifest", "failed", words, "free_string has to free what get_manifest made.")
    return Check("manifest", "passed", "It is the same each time, and nothing is left behind.")


def _probed(told: Mapping[str, Any]) -> Check:
    if not told["rounds"]:
        return Check("probe", "skipped", "It does not listen to values: on_config_changed is NULL.")
    if told["grown"] > _BREATH:
        words = f"{told['kept']} strings of the host were not given back, and {told['grown']} bytes are lost."
        return Check(
            "probe", "failed", words, "Give each string that a host function returns to host->free_string."
        )
    return Check("probe", "passed", "It stood them all.")


def _answered(told: Mapping[str, Any]) -> Check:
    answers: dict[str, str | None] = told["answers"]
    empty = sorted(
        {name.rpartition(" ")[0] for name, text in answers.items() if text is None and name[-1:].isdigit()}
    )
    wrong = sorted(
        {name for name, text in answers.items() if text is not None and text.startswith("not UTF-8")}
    )
    plain = sorted(
        {name.rpartition(" ")[0] for name, text in answers.items() if name.endswith(" 0") and _is_plain(text)}
    )
    if wrong:
        return Check("tools", "failed", f"What {', '.join(wrong)} gave is not UTF-8.", "Strings are UTF-8.")
    if empty:
        words = f"NULL came from {', '.join(empty)}: callers are told that it failed, and not why."
        return Check(
            "tools",
            "warned",
            words,
            'Give an envelope instead: {"ok":false,"kind":"invalid_args","message":"..."}',
        )
    if plain:
        words = f"{', '.join(plain)} gave no envelope; the host makes one, with the text as the result."
        return Check(
            "tools",
            "warned",
            words,
            'Give {"ok":true,"result":...} or {"ok":false,"kind":...,"message":...}.',
        )
    return Check("tools", "passed", f"{len(answers)} calls were answered.")


def _is_plain(text: str | None) -> bool:
    return text is not None and not envelopes.is_error(text) and not envelopes.is_success(text)


def _served(told: Mapping[str, Any]) -> Check:
    answers = told["answers"]
    if not answers:
        return Check("routes", "skipped", "It answers no requests.")
    bad = [number for number, text in answers.items() if not _is_answer(text)]
    # The last three requests were no requests; whatever is said to them will do.
    wrong = [number for number in bad if int(number) < len(answers) - 3]
    if wrong:
        words = f"{len(wrong)} of {len(answers) - 3} routes gave no answer with a status."
        return Check("routes", "failed", words, 'An answer is {"status":200,"headers":{},"body":"..."}.')
    return Check("routes", "passed", f"{len(answers)} requests were answered.")


def _is_answer(text: str | None) -> bool:
    try:
        told = json.loads(text or "")
    except ValueError:
        return False
    return isinstance(told, dict) and isinstance(told.get("status"), int)


def _grown(told: Mapping[str, Any]) -> Check:
    more = {name: size for name, size in told["grown"].items() if size > _BREATH}
    if not more:
        return Check("memory", "passed", "Nothing is left behind.")
    words = ", ".join(f"{name} {size} bytes" for name, size in more.items())
    way_out = "Where it does not keep them on purpose, it leaks: free what you make, and give back what the host gave."
    return Check("memory", "warned", f"More memory is in use after {ROUNDS} calls: {words}.", way_out)


def _threaded(told: Mapping[str, Any]) -> Check:
    if told["wrong"]:
        return Check(
            "threads", "failed", f"Calls failed: {'; '.join(told['wrong'])}.", "Guard what threads share."
        )
    return Check("threads", "passed", f"{told['threads']} threads called it {told['rounds']} times each.")


def _given_back(told: Mapping[str, Any]) -> Check:
    if told["strays"]:
        words = f"host->free_string was given {told['strays']} strings that the host did not give, or had back already."
        way_out = "Each string goes back once. What the plugin made itself is not the host's to free."
        return Check("strings", "failed", words, way_out)
    if told["kept"]:
        words = f"{told['kept']} did not come back through host->free_string."
        way_out = "libc's free is allowed, too, and cannot be counted. Where neither is called, it is a leak."
        return Check("strings", "warned", words, way_out)
    return Check("strings", "passed", "All of them came back, once each.")


def _survived(name: str) -> Callable[[Mapping[str, Any]], Check]:
    return lambda told: Check(name, "passed", "It stood that.")


def _heard(name: str) -> Callable[[Mapping[str, Any]], Check]:
    survived, skipped = _survived(name), Check(name, "skipped", "It does not listen to them.")
    return lambda told: survived(told) if told["listens"] else skipped


def _first_entry(run: _Run) -> Check:
    if run.ended is not None:
        return _fallen("entry_v1", run)
    lacking = run.told["entry_v1"]["lacking"]
    if lacking:
        words = f"{slots.ENTRY_V1} gives a table that lacks {', '.join(lacking)}."
        return Check("entry_v1", "failed", words, "Give the five functions, or do not export that entry.")
    return Check("entry_v1", "passed", "Its table has the five functions that every plugin has.")


_JUDGES: Final[dict[str, Callable[[Mapping[str, Any]], Check]]] = {
    "manifest": _same,
    "probe": _probed,
    "tools": _answered,
    "nothing": _survived("nothing"),
    "odd": _survived("odd"),
    "routes": _served,
    "settings": _heard("settings"),
    "events": _heard("events"),
    "memory": _grown,
    "threads": _threaded,
    "strings": _given_back,
    "end": _survived("end"),
}


# --- the process ---


@dataclass
class _Run:
    """What one process said, and how it ended; None where it came to its own end."""

    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    step: str = "load"
    doing: str = ""
    ended: str | None = None
    printed: str = ""


class _Trial:
    """Starts processes in which a library is tried."""

    def __init__(self, library: Path) -> None:
        self.library = library
        self.python = library.suffix == ".py"

    def run(self, *, entry: str, skip: list[str] | None = None, **plan: Any) -> _Run:
        """One process, from its start to its end."""
        with tempfile.TemporaryDirectory(prefix="fairlead-trial-") as scratch:
            return self._run(Path(scratch), {"entry": entry, "skip": skip or [], **plan})

    def _run(self, scratch: Path, plan: dict[str, Any]) -> _Run:
        here = os.path.dirname(__file__)
        limits = Limits()
        plan |= {
            "library": str(self.library),
            "landlock": fences.fence_here().kind == "landlock",
            "limits": {name: getattr(limits, name) for name in ("data", "fsize", "nofile", "core")},
            "readable": fences.readable(self.library.parent, frozenset()),
            "writable": fences.writable(scratch),
        }
        ours, theirs = os.pipe()
        program = f"import sys; sys.path.append({here!r}); import trial; trial.main()"
        python = getattr(sys, "_base_executable", None) or sys.executable
        with open(scratch / "printed", "wb+") as printed, open(scratch / "plan", "wb+") as given:
            given.write(json.dumps(plan).encode())
            given.seek(0)
            process = subprocess.Popen(
                (python, "-I", "-S", "-c", program, str(theirs)),
                stdin=given,
                stdout=printed,
                stderr=printed,
                pass_fds=(theirs,),
                env=fences.environment(scratch),
                cwd=scratch,
                start_new_session=True,
            )
            os.close(theirs)
            try:
                run = _followed(ours, process)
            finally:
                os.close(ours)
                process.kill()
                process.wait()
            printed.seek(0)
            run.printed = printed.read()[-400:].decode("utf-8", "replace").strip()
            return run


def _followed(pipe: int, process: subprocess.Popen[bytes]) -> _Run:
    run = _Run()
    for line in _lines(pipe):
        if line is None:
            run.ended = f"It said nothing for {STALLED:.0f} seconds and was ended."
            return run
        told = json.loads(line)
        if told.get("step") == "over":
            return run
        if told.get("done"):
            run.told[told["step"]] = told
        elif "step" in told:
            run.step, run.doing = told["step"], ""
        else:
            run.doing = told["doing"]
    status = process.wait()
    run.ended = (
        f"The process fell with {signal.Signals(-status).name}."
        if status < 0
        else f"The process ended with {status}."
    )
    if run.told.get("load", {}).get("failed"):
        run.ended = None
    return run


def _lines(pipe: int) -> Iterator[bytes | None]:
    """The lines that come over a pipe; None when none came for too long."""
    rest = b""
    while True:
        until = time.monotonic() + STALLED
        if not select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
            yield None
            return
        data = os.read(pipe, 65536)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
