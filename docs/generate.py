"""Write the parts of the docs that come from code: `make docs`, or `python docs/generate.py --check`.

The same code gives the same bytes. `--check` writes nothing and ends with 1 when a page is stale.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from contextvars import ContextVar
from enum import Enum
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ForwardRef

if TYPE_CHECKING:
    from fairlead.failures import Entry

ROOT = Path(__file__).parents[1]
NOTE = "<!-- Written by docs/generate.py: change the code, then run `make docs`. -->\n"
ROOMS = (
    "fairlead",
    "fairlead.failures",
    "fairlead.schema",
    "fairlead.actions",
    "fairlead.runtime",
    "fairlead.store",
    "fairlead.tasks",
    "fairlead.tools.files",
    "fairlead.tools.shell",
    "fairlead.tools.sandbox",
    "fairlead.tools.documents",
    "fairlead.tools.artifacts_sharing",
    "fairlead.tools.charts",
    "fairlead.tools.mcp",
    "fairlead.tools.openapi",
    "fairlead.agents",
    "fairlead.agents.models",
    "fairlead.pipelines",
    "fairlead.pipelines.building",
    "fairlead.plugins.sdk",
    "fairlead.plugins.kit",
    "fairlead.surfaces.cli",
    "fairlead.surfaces.json",
    "fairlead.surfaces.http",
    "fairlead.surfaces.auth",
    "fairlead.surfaces.mcp",
    "fairlead.surfaces.llm",
    "fairlead.surfaces.client",
    "fairlead.surfaces.console",
    "fairlead.gateway",
    "fairlead.testing",
)
FAMILIES = {
    "action": "Told by every surface but those of models, in the `error` of an envelope.",
    "tool": "Told to models that call tools. Retry says whether the model may try again, corrected.",
    "host": "Told to native plugins by their host. HTTP is the number that the host's own log shows.",
    "gateway": "Told by the agents' HTTP API, in JSON bodies and in event streams.",
    "runtime": "Told by pipelines, in error objects and tool responses.",
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated docs.")
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    check = parser.parse_args().check
    stale = [(path, text) for path, text in pages() if not path.exists() or path.read_text("utf-8") != text]
    for path, text in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is stale: run `make docs`.", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return 1 if check and stale else 0


def pages() -> Iterator[tuple[Path, str]]:
    reference = ROOT / "docs" / "reference"
    # Before the taskboard is imported, which has a code of its own.
    yield reference / "errors.md", errors()
    yield reference / "cli.md", command_line()
    yield reference / "api.md", api()
    yield reference / "manifest.md", manifest()
    yield reference / "pipelines.md", pipelines()
    design = ROOT / "docs" / "design.md"
    yield design, with_pivot(design.read_text(encoding="utf-8"))
    scale = ROOT / "docs" / "scale.md"
    yield scale, with_model(scale.read_text(encoding="utf-8"))


# Scale


def with_model(page: str) -> str:
    """The page with the tables of the model in benchmarks/scale.py."""
    model = _loaded("scale", ROOT / "benchmarks" / "scale.py")
    for name, table in model.tables().items():
        page = _between(name, table, page)
    return page


def _between(name: str, text: str, page: str) -> str:
    """The page with this text between the marks of that name."""
    marks = rf"(<!-- {name}: [^\n]*-->\n).*(<!-- /{name} -->)"
    return re.sub(marks, lambda match: f"{match[1]}\n{text}\n\n{match[2]}", page, flags=re.DOTALL)


# The language of pipelines


def pipelines() -> str:
    from fairlead.pipelines.reference import reference

    title, _, rest = reference().partition("\n")
    return f"{title}\n\n{NOTE}{rest}"


# Errors


def errors() -> str:
    from fairlead.failures import catalogue

    lines = [
        "# Failure codes\n",
        NOTE,
        "Every code of every family, by its [kind](../guides/failures.md).",
        "The same is shown in a terminal by `fairlead errors`.\n",
    ]
    for family, words in FAMILIES.items():
        lines += [f"## {family}\n", words, ""]
        for entry in catalogue(family):
            lines += [f"### `{entry.code}`\n", f"{entry.message}\n", f"{_facts(entry)}\n"]
    return "\n".join(lines)


def _facts(entry: Entry) -> str:
    facts = {"Kind": f"`{entry.kind}`", "HTTP": entry.http_status, "exit": entry.exit_code}
    facts |= {"retry": "yes" if entry.retryable else "no", "told in": entry.where or None}
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None) + "."


def with_pivot(page: str) -> str:
    from fairlead.failures import PIVOT, lookup

    wires = ("action code (HTTP, exit, retry)", "tool kind", "host code", "gateway code (HTTP)")
    rows = [_row("kind", *wires, "runtime code / category"), _row(*["---"] * 6)]
    for kind, words in PIVOT.items():
        retry = ", retry" if words.retryable else ""
        status = lookup("gateway", words.gateway).facts["http_status"]
        action = f"{words.action} ({words.http_status}, {words.exit_code}{retry})"
        gateway = f"{words.gateway} ({status})"
        rows.append(
            _row(kind, action, words.tool, words.host, gateway, f"{words.runtime} / {words.category}")
        )
    return _between("pivot", "\n".join(rows), page)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


# Command line


def command_line() -> str:
    lines = [
        "# Command line\n",
        NOTE,
        "The help of every command, and that of an app, as the taskboard example shows it.",
        "An app's own program has the commands of `fairlead`, too.",
        "`taskboard` stands for the way you start it, such as `python examples/taskboard/app.py`.",
        "[The guide](../guides/command-line.md) says how to use them.\n",
        *_shown("fairlead", fairlead_help()),
    ]
    from fairlead.surfaces.cli.builtin import BUILTINS

    for command in (name for name in BUILTINS if name != "help"):
        lines += _shown(f"fairlead {command}", fairlead_help(command))
    lines += _help()
    for action in json.loads(run("actions", "--json")):
        lines += _help(action["commandName"])
    return "\n".join(lines)


def _help(*command: str) -> list[str]:
    return _shown(" ".join(["taskboard", *command]), run(*command, "--help"))


def _shown(command: str, text: str) -> list[str]:
    return [f"## `{command}`\n", "```text", text.strip(), "```\n"]


def run(*arguments: str) -> str:
    """What a command of the taskboard prints, to nobody in particular."""
    from fairlead.surfaces import cli

    return _printed(lambda console: cli.run(taskboard(), arguments, console=console))


def fairlead_help(*command: str) -> str:
    """What `fairlead --help` prints where there is no app, or the help of one of its commands."""
    from fairlead.surfaces import cli

    with TemporaryDirectory() as empty, chdir(empty):
        return _printed(lambda console: cli.main([*command, "--help"], console=console))


def _printed(command: Callable[[Any], object]) -> str:
    from fairlead.surfaces.cli.console import Console

    printed, complaints = StringIO(), StringIO()
    code: object = None
    try:
        command(Console(StringIO(), printed, complaints, environ={}))
    except SystemExit as ended:
        code = ended.code
    if code:
        raise RuntimeError(complaints.getvalue())
    return printed.getvalue()


@cache
def taskboard() -> Any:
    return _loaded("taskboard", ROOT / "examples" / "taskboard" / "app.py").app


def _loaded(name: str, file: Path) -> Any:
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Python


def api() -> str:
    lines = [
        "# Python names\n",
        NOTE,
        "What each module promises.",
        "Names with a leading underscore, and modules not listed here, may change at any time.\n",
    ]
    for name in ROOMS:
        module = importlib.import_module(name)
        lines += [f"## `{name}`\n", f"{inspect.getdoc(module)}\n"]
        if name == "fairlead":
            lines += [_listed(module)]
            continue
        for member in sorted(_names(module), key=str.lower):
            lines += _described(member, getattr(module, member))
    return "\n".join(lines)


def _names(module: Any) -> list[str]:
    """What a module offers; one without `__all__` offers the public classes and functions it defines."""
    offered: list[str] | None = getattr(module, "__all__", None)
    if offered is not None:
        return offered
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _listed(module: Any) -> str:
    """The root's names live in rooms, where they are described."""
    return "".join(f"- `{name}`, from {_home(getattr(module, name))}\n" for name in module.__all__)


def _home(value: Any) -> str:
    where = getattr(value, "__module__", None) or type(value).__module__
    room = max((name for name in ROOMS if where == name or where.startswith(f"{name}.")), key=len)
    return f"[`{room}`](#{room.replace('.', '')})"


def _described(name: str, value: Any) -> list[str]:
    if inspect.ismodule(value):
        return [f"### `{name}`\n", f"Module. {_words(value)}\n"]
    if isinstance(value, type) and issubclass(value, Enum):
        members = ", ".join(f"`{member.name}`" for member in value)
        return [f"### `{name}`\n", f"{_words(value)}\n", f"Members: {members}.\n"]
    if inspect.isclass(value) or inspect.isroutine(value):
        words = [f"{_words(value)}\n"] if _words(value) else []
        lines = [f"### `{name}`\n", "```text", f"{_how(value)}{name}{_signature(value)}", "```\n", *words]
        return lines + ([*_members(value), ""] if inspect.isclass(value) and _members(value) else [])
    return [f"### `{name}`\n", f"{_constant(value)}\n"]


def _how(value: Any) -> str:
    return "async " if inspect.iscoroutinefunction(value) else "class " if inspect.isclass(value) else ""


def _members(cls: type) -> list[str]:
    return [
        f"- `{'async ' * inspect.iscoroutinefunction(member)}{name}{_call(member)}`{_dashed(member)}"
        for name, member in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ]


def _call(member: Any) -> str:
    return "" if isinstance(member, property) else _signature(member)


def _dashed(member: Any) -> str:
    words = _words(member)
    return f": {words}" if words else ""


def _words(value: Any) -> str:
    """The first paragraph of its own docstring; what Python or a base class wrote is left out."""
    doc = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    if not doc or doc.startswith(f"{getattr(value, '__name__', '')}("):
        return ""
    return " ".join(inspect.cleandoc(doc).split("\n\n")[0].split())


def _constant(value: Any) -> str:
    if isinstance(value, frozenset):
        return "One of " + ", ".join(f"`{item}`" for item in sorted(value)) + "."
    if isinstance(value, str):
        return f"`{value!r}`"
    if isinstance(value, dict):
        return f"A dict of {len(value)}, by `{type(next(iter(value))).__name__}`."
    if isinstance(value, list):
        return f"A list of {len(value)}."
    if isinstance(value, ContextVar):
        return "A context variable, which is set for the length of a call."
    if type(value).__module__.startswith("fairlead."):
        return "\n".join([f"{_words(type(value))}\n", *_members(type(value))])
    return f"A type: `{re.sub(r'[a-z_.]+[.](?=[A-Z])', '', str(value))}`."


class _Raw:
    """An annotation, shown as it was written."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [
        parameter.replace(annotation=_written(parameter.annotation), default=_default(parameter.default))
        for name, parameter in signature.parameters.items()
        if name != "self" and not name.startswith("_")
    ]
    if [parameter.name for parameter in parameters] == ["args", "kwargs"]:
        return ""
    gives = inspect.Signature.empty if inspect.isclass(value) else _written(signature.return_annotation)
    return str(signature.replace(parameters=parameters, return_annotation=gives))


def _written(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    if isinstance(annotation, str):
        return _Raw(annotation)
    if isinstance(annotation, ForwardRef):
        return _Raw(annotation.__forward_arg__)
    return _Raw(getattr(annotation, "__name__", None) or str(annotation))


def _default(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return default
    if inspect.isroutine(default):
        return _Raw(default.__name__)
    plain = default is None or isinstance(default, str | int | float | tuple)
    return default if plain else _Raw("...")


# Manifest


def manifest() -> str:
    told = json.loads(run("manifest"))
    [create] = [action for action in told["actions"] if action["name"] == "create_task"]
    short = {**told, "actions": [create], "surfaces": told["surfaces"][:1]}
    return "\n".join(
        [
            "# Manifest\n",
            NOTE,
            "An app as data, for tools that read contracts.",
            "In Python it is `app.manifest()`, at the command line `manifest`.",
            "Equal apps give equal bytes, so a manifest can be kept beside the code and compared.",
            "`generatedAt` is null for that reason.",
            "`actions` has the newest version of each name; where there are others that callers can reach, as "
            "`name@version`, they are under `olderVersions`, in the same form.\n",
            "The taskboard's, with one of its actions and one of its surfaces:\n",
            "```json",
            json.dumps(short, indent=2),
            "```\n",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
