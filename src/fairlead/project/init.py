"""`fairlead init`: a project that runs and passes its own tests as it is written.

Templates are whole projects about an app called my-app; making one is copying it under another name.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Kind
from fairlead.project.identity import requirement_name, slug_of
from fairlead.project.writing import write_files

FOLDER: Final = Path(__file__).parent / "templates"
#: What every template has, unless it has its own.
BASE: Final = "app"
TEMPLATES: Final = {
    "app": "a plain app",
    "agent": "an agent that uses the actions, with a script in place of a model",
    "fastapi": "an app inside a FastAPI host, with API keys",
    "mcp": "an MCP server with resources and prompts of its own",
    "openai": "a host that gives the actions to an OpenAI model",
    "ai-sdk": "a TypeScript host that gives the actions to a model by the AI SDK",
    "react": "a React front end with the generated client",
}
#: Names that existing users know.
ALIASES: Final = {
    "host-http": "fastapi",
    "host-mcp": "mcp",
    "host-openai": "openai",
    "host-ai-sdk": "ai-sdk",
    "expo": "react",
    "next": "react",
}
_STEPS: Final = {
    "app": ("pip install '.[dev]'", 'fairlead add-note --text "Buy tea"', "pytest"),
    "agent": ("pip install '.[dev]'", "fairlead keeper --prompt 'We need tea.'", "fairlead chat keeper"),
    "fastapi": (
        "pip install '.[dev]' && pytest",
        "fairlead keys new me --permissions 'notes:*'",
        "uvicorn main:host --reload",
    ),
    "mcp": ("pip install '.[dev]'", "fairlead mcp install", "pytest"),
    "openai": (
        "pip install '.[dev]'",
        "OPENAI_API_KEY=... python host.py 'What did I note about tea?'",
        "pytest",
    ),
    "ai-sdk": (
        "pip install '.[dev]' && npm install --prefix host",
        "fairlead serve",
        "npm test --prefix host",
    ),
    "react": (
        "pip install '.[dev]' && npm install --prefix web",
        "fairlead serve",
        "npm test --prefix web",
    ),
}


def init_project(
    cwd: str | Path = ".", *, template: str = BASE, name: str | None = None, force: bool = False
) -> dict[str, Any]:
    """Make a project in a folder; gives `{ok, template, cwd, files, appModule, nextSteps}`.

    Raises:
        Failure: there is no such template, the name cannot be used, or a file is there already: then nothing is
            written.
    """
    chosen = _template(template)
    folder = Path(cwd)
    slug = slug_of(name if name is not None else folder.resolve().name)
    _check_name(slug if name is None or re.search(r"[A-Za-z0-9]", name) else name)
    files = {place: _renamed(text, slug) for place, text in _contents(chosen).items()}
    _check_needs(slug, files["pyproject.toml"])
    taken = sorted(place for place in files if os.path.lexists(folder / place))
    if taken and not force:
        raise Failure(
            Kind.conflict,
            f"Already there: {', '.join(taken)}. Nothing was written. "
            "Choose an empty folder, or --force to replace them.",
        )
    write_files(folder, files)
    return {
        "ok": True,
        "template": chosen,
        "cwd": str(folder),
        "files": sorted(files),
        "appModule": tomllib.loads(files["pyproject.toml"])["tool"]["fairlead"]["app"],
        "nextSteps": list(_STEPS[chosen]),
    }


def _check_name(slug: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,63}", slug):
        raise Failure(
            Kind.invalid_input,
            f"A project cannot be called {slug[:70]!r}: begin with a letter, and use 64 at most. --name names it.",
        )


def _check_needs(slug: str, project_file: str) -> None:
    """A package cannot need another of its own name, which a folder called after its template would."""
    project = tomllib.loads(project_file)["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    if slug in {slug_of(requirement_name(each)) for each in needed}:
        raise Failure(
            Kind.invalid_input,
            f"A project cannot be called {slug!r}: it needs the package of that name. "
            f"Name it otherwise: --name my-{slug}.",
        )


def _template(given: str) -> str:
    chosen = ALIASES.get(given, given)
    if chosen not in TEMPLATES:
        known = ", ".join(TEMPLATES)
        raise Failure(
            Kind.invalid_input,
            f"No template is named {given!r}.{near_miss(given, [*TEMPLATES, *ALIASES])} Templates are {known}.",
        )
    return chosen


@cache
def _contents(template: str) -> dict[str, str]:
    return {**dict(_read(BASE)), **dict(_read(template))}


def _read(template: str) -> Iterator[tuple[str, str]]:
    root = FOLDER / template
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if path.is_file() and "__pycache__" not in inside.parts:
            # Written without its dot here, where it would hide the templates' own files.
            place = ".gitignore" if inside.name == "gitignore" else inside.as_posix()
            yield place, path.read_text("utf-8")


def _renamed(text: str, slug: str) -> str:
    plain = slug.replace("-", "_")
    names = {
        "my-app": slug,
        "my_app": plain,
        "MY_APP": plain.upper(),
        "MyApp": plain.title().replace("_", ""),
    }
    for placeholder, name in names.items():
        text = text.replace(placeholder, name)
    return text
