"""Finding the app that `fairlead` is to work with, and importing it.

Looked for in this order: `--app`, `FAIRLEAD_APP`, `[tool.fairlead] app` in pyproject.toml, `app` in
fairlead.toml, and an `app` in app.py. Files are those of the working directory only: a command must not run
code that happens to lie in a directory above.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from fairlead.failures import Failure, Issue, Kind
from fairlead.surfaces.cli.hints import near_miss

if TYPE_CHECKING:
    from fairlead.runtime import App

_NAME = "app"
_ORDER = (
    "--app MODULE:NAME, FAIRLEAD_APP, [tool.fairlead] app in pyproject.toml, app in fairlead.toml, or app.py"
)
#: What a settings file may have. The verbs of a project look into them; here only names are checked.
SETTINGS = ("app", "build", "lint", "mcp", "package")


class Place(NamedTuple):
    """Where an app is said to be, and who said so."""

    target: str
    said_by: str
    #: Whether nobody said so: the file is only there.
    guessed: bool = False
    #: Whether a program of its own has it, which has seen to its path: what lies where it is run is not its business.
    #: A file is found by where it lies, whoever has it.
    packaged: bool = False


def locate(given: str | None, environ: Mapping[str, str], directory: str) -> Place | None:
    """Where the app is, or None when nothing says. Raises Failure when a settings file cannot be read."""
    if given is not None:
        return Place(given, "--app")
    if environ.get("FAIRLEAD_APP"):
        return Place(environ["FAIRLEAD_APP"], "FAIRLEAD_APP")
    for file, table in (("pyproject.toml", ("tool", "fairlead")), ("fairlead.toml", ())):
        target = _setting(os.path.join(directory, file), table)
        if target is not None:
            return Place(target, file)
    there = os.path.isfile(os.path.join(directory, "app.py"))
    return Place("app.py", "app.py", guessed=True) if there else None


def not_found() -> Failure:
    # A project file that does not seem to be about us is parsed only when something is missing.
    try:
        _document("pyproject.toml", "")
    except Failure as failure:
        return failure
    return Failure(
        Kind.invalid_input, f"No app was found. It is looked for in: {_ORDER}. 'fairlead init' makes one."
    )


def _setting(path: str, table: tuple[str, ...]) -> str | None:
    found = _document(path, table[-1] if table else "")
    for key in table:
        found = found.get(key) if isinstance(found, dict) else None
    if found is None:
        return None
    file = os.path.basename(path)
    if not isinstance(found, dict):
        message = f"{file}: {'.'.join(table)} must be a table, with app = 'shop.main:app' in it."
        raise Failure(Kind.misconfigured, message)
    target = found.get("app")
    if target is None:
        _check_names(file, found)
    elif not isinstance(target, str):
        raise Failure(Kind.misconfigured, f"{file}: app must be text, such as 'shop.main:app'.")
    return target


def _document(path: str, word: str) -> Any:
    """A TOML file; None where there is none, or one without the word: it need not be parsed."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise Failure(Kind.misconfigured, f"{os.path.basename(path)} cannot be read: {exc}.") from exc
    if word not in text:
        return None
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise Failure(Kind.misconfigured, f"{os.path.basename(path)} is not TOML: {exc}.") from exc


def _check_names(file: str, settings: Mapping[str, object]) -> None:
    """Settings that name no app have no misspelt name either: it may be the one that was to."""
    known = ", ".join(SETTINGS)
    issues = [
        Issue(
            (key,), "unexpected", f"There is no such setting.{near_miss(key, SETTINGS)} Settings are {known}."
        )
        for key in settings
        if key not in SETTINGS
    ]
    if issues:
        raise Failure(Kind.misconfigured, f"{file} has settings that cannot be used.", issues=issues)


def load(place: Place, directory: str) -> App:
    """Import the app. Raises Failure, with the exception of the app's own code as its cause."""
    module_part, name = _split(place.target)
    module = _import(module_part, place, directory)
    return _app(module, name, place)


def _split(target: str) -> tuple[str, str]:
    """`MODULE` and `NAME`; a colon may also belong to the path of a file."""
    module, colon, name = target.rpartition(":")
    if colon and all(part.isidentifier() for part in name.split(".")):
        return module, name
    return target.removesuffix(":"), ""


def _import(target: str, place: Place, directory: str) -> ModuleType:
    from importlib import import_module

    name = target
    root = None if place.packaged else directory
    if target.endswith(".py") or "/" in target or "\\" in target:
        name, root = _module_name(os.path.realpath(os.path.join(directory, target)), place)
    elif not all(target.split(".")):
        raise _no_name(target, place, directory)
    if root is not None and sys.path[:1] != [root]:
        sys.path.insert(0, root)  # also where it comes later: another module there may have the same name
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (name == exc.name or name.startswith(exc.name + ".")):
            raise _no_module(name, place, directory) from exc
        raise _broken(name, exc) from exc
    except Exception as exc:  # whatever the app's own code raises while it is imported
        raise _broken(name, exc) from exc
    except SystemExit as exc:
        message = f"Importing {name!r} ended the program. Guard its start with `if __name__ == '__main__':`."
        raise Failure(Kind.misconfigured, message) from exc


def _module_name(path: str, place: Place) -> tuple[str, str]:
    """A file's module name and the directory it is imported from: the one above its outermost package."""
    path = path if path.endswith(".py") else f"{path}.py"
    root, file = os.path.split(path)
    if not os.path.isfile(path):
        hint = near_miss(file, _python_files(root))
        raise _no_app(f"There is no file {_split(place.target)[0]!r}.{hint}", place)
    parts = [] if file == "__init__.py" else [file.removesuffix(".py")]
    while os.path.isfile(os.path.join(root, "__init__.py")):
        root, package = os.path.split(root)
        parts.insert(0, package)
    name = ".".join(parts)
    loaded = sys.modules.get(name)
    if loaded is not None and os.path.realpath(getattr(loaded, "__file__", None) or "") != path:
        raise _no_app(f"The file's module name {name!r} is taken by another module. Rename the file.", place)
    return name, root


def _python_files(directory: str) -> list[str]:
    try:
        return [each for each in os.listdir(directory) if each.endswith(".py")]
    except OSError:
        return []


def _app(module: ModuleType, name: str, place: Place) -> App:
    from fairlead.runtime import App

    apps = {key: value for key, value in vars(module).items() if isinstance(value, App)}
    if not name:
        if _NAME in apps:
            return apps[_NAME]
        if len({id(app) for app in apps.values()}) == 1:
            return next(iter(apps.values()))
        found = (
            f"It has several: {', '.join(apps)}. Name one." if apps else "It has none: write app = App(...)."
        )
        raise _no_app(f"Module {module.__name__!r} has no app called 'app'. {found}", place)
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part, None)
        except Exception as exc:  # a module may make its app when it is asked for, as packaged ones do
            raise _broken(module.__name__, exc) from exc
    if isinstance(value, App):
        return value
    found = (
        f"{name!r} is a {type(value).__name__}, not an App"
        if value is not None
        else f"nothing is called {name!r}"
    )
    offer = f" Apps in it: {', '.join(apps)}." if apps else " It has no App."
    raise _no_app(f"In module {module.__name__!r}, {found}.{near_miss(name, apps)}{offer}", place)


def _no_app(message: str, place: Place) -> Failure:
    return Failure(Kind.invalid_input, f"{message} (The app was named by {place.said_by}.)")


def _no_module(name: str, place: Place, directory: str) -> Failure:
    nearby = [file.removesuffix(".py") for file in _python_files(directory)]
    where = f"in {directory} or among the installed packages"
    return _no_app(f"There is no module {name!r} {where}.{near_miss(name, nearby)}", place)


def _no_name(name: str, place: Place, directory: str) -> Failure:
    """Python would look for what is there relative to another module, or nowhere."""
    way_out = "Write MODULE:NAME, such as 'shop.main:app', or a file, such as 'path/to/app.py'."
    nearby = [file.removesuffix(".py") for file in _python_files(directory)]
    hint = near_miss(name.strip("."), nearby)
    return _no_app(f"{place.target!r} names no module.{hint} {way_out}", place)


def _broken(name: str, exc: Exception) -> Failure:
    import traceback

    where = ""
    frames = traceback.extract_tb(exc.__traceback__)
    theirs = [frame for frame in frames if _is_theirs(frame.filename)] or frames
    if isinstance(exc, SyntaxError):
        where = f" ({exc.filename}, line {exc.lineno})"
    elif theirs:
        where = f" ({theirs[-1].filename}, line {theirs[-1].lineno})"
    said = (exc.msg if isinstance(exc, SyntaxError) else str(exc)).removesuffix(".")
    return Failure(
        Kind.misconfigured,
        f"Importing {name!r} failed: {type(exc).__name__}: {said}{where}. FAIRLEAD_DEBUG=1 shows the traceback.",
        cause=exc,
    )


def _is_theirs(file: str) -> bool:
    """Whether a file is the developer's own, where a mistake can be mended: not ours, and not a library's."""
    ours = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    library = os.path.dirname(os.__file__)
    return "site-packages" not in file and not file.startswith((ours + os.sep, library + os.sep, "<frozen"))
