"""Building a plugin from its C sources: compiled, loaded once in its fence, checked, and put together in one folder.

One in Python is not compiled; the rest is the same.

The compiler is the system's, or the one in the package `ziglang` where there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from fairlead.failures import Failure, Kind
from fairlead.plugins.compatibility import semver
from fairlead.plugins.extracting import extract_now
from fairlead.plugins.finding import check, extracted, fit
from fairlead.plugins.layout import MANIFEST, PYTHON, files_of
from fairlead.plugins.manifest import Manifest, check_id

PROJECT: Final = "plugin.toml"
OUT: Final = "build"
#: The header that plugins are written against.
INCLUDE: Final = Path(__file__).parent / "include"
HEADER: Final = INCLUDE / "osaurus_plugin.h"
#: What goes along with the library, where a project has it.
FILES: Final = ("web", "skills", "README.md", "CHANGELOG.md", "LICENSE")

_KEYS: Final = {"name": str, "sources": list, "flags": list, "libraries": list, "files": list}
_CPP: Final = (".cc", ".cpp", ".cxx")
_TIMEOUT: Final = 600
#: Lines of a compiler's complaint that are passed on.
_LINES: Final = 40


@dataclass(frozen=True, slots=True)
class Project:
    """What `plugin.toml` says."""

    folder: Path
    name: str
    sources: tuple[Path, ...]
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Built:
    """A plugin that was built."""

    folder: Path
    library: Path
    manifest: Manifest
    abi: int
    #: None for a plugin in Python.
    compiler: str | None
    archive: Path | None
    #: What the compiler said though it went well.
    warnings: str = ""

    def describe(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "ok": True,
            "id": self.manifest.plugin_id,
            "version": self.manifest.version,
            "abi": self.abi,
            "folder": str(self.folder),
            "library": str(self.library),
            "archive": None if self.archive is None else str(self.archive),
            "compiler": self.compiler,
            "warnings": self.warnings,
        }


def read_project(folder: Path) -> Project:
    """The project in a folder. Raises Failure when there is none, or it makes no sense."""
    path = folder / PROJECT
    try:
        told = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise Failure(
            Kind.not_found,
            f"There is no {PROJECT} in {str(folder)!r}. Name the plugin's folder, or make one: "
            "fairlead plugin create NAME",
        ) from None
    except (OSError, ValueError) as exc:
        raise Failure(Kind.invalid_input, f"{PROJECT} cannot be read: {exc}.") from None
    given = told.get("build")
    if not isinstance(given, dict):
        raise Failure(
            Kind.invalid_input, f'{PROJECT} has no table [build]. Write: [build] sources = ["src/*.c"]'
        )
    _check_keys(given)
    sources = tuple(
        path for pattern in given.get("sources", ["src/*.c"]) for path in sorted(folder.glob(pattern))
    )
    if not sources:
        wanted = given.get("sources", ["src/*.c"])
        raise Failure(Kind.not_found, f"No source was found: {PROJECT} names {wanted} in {str(folder)!r}.")
    name = given.get("name", folder.resolve().name)
    files = tuple(given.get("files", FILES))
    return Project(
        folder, name, sources, tuple(given.get("flags", ())), tuple(given.get("libraries", ())), files
    )


def build_plugin(
    folder: Path, *, out: Path | None = None, archive: bool = False, debug: bool = False
) -> Built:
    """Build the project in a folder; what was built before is replaced when all went well.

    Raises:
        Failure: there is no compiler, it complains, or what came of it is not a plugin.
    """
    folder = folder.absolute()
    in_python = (folder / PYTHON).is_file() and not (folder / PROJECT).exists()
    project = None if in_python else read_project(folder)
    place = (out or folder / OUT).absolute()
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise Failure(
            Kind.invalid_input, f"{str(place)!r} cannot be written: {exc.strerror}. Name another: --out DIR"
        ) from exc
    with tempfile.TemporaryDirectory(prefix=".building-", dir=place) as staging:
        draft = Path(staging, "plugin")
        draft.mkdir(mode=0o755)
        if project is None:
            library, compiler, warnings = draft / PYTHON, None, ""
            _copy_python(folder, draft, place)
        else:
            library = draft / f"{project.name}.so"
            compiler, warnings = compiled(project, library, debug=debug)
        started = extract_now(fit(library), draft)
        manifest = extracted(started.manifest)
        check(manifest, check_id(manifest.plugin_id))
        (draft / MANIFEST).write_text(started.manifest, "utf-8")
        if project is not None:
            _copy_files(project, draft)
        made = place / manifest.plugin_id
        if made.exists():
            os.rename(made, Path(staging, "old"))
        os.rename(draft, made)
    packed = _packed(made, manifest, place) if archive else None
    return Built(made, made / library.name, manifest, started.abi, compiler, packed, warnings)


def compiled(project: Project, library: Path, *, debug: bool = False) -> tuple[str, str]:
    """Compile a project into a library; gives the compiler and what it warned of. Raises Failure with its complaint."""
    cpp = any(source.suffix in _CPP for source in project.sources)
    compiler = find_compiler(os.environ, cpp=cpp)
    command = [
        *compiler,
        "-shared",
        "-fPIC",
        *(("-O0", "-g") if debug else ("-O2",)),
        *(() if cpp else ("-std=gnu11",)),
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        f"-I{INCLUDE}",
        *project.flags,
        *(str(source) for source in project.sources),
        *(f"-l{name}" for name in project.libraries),
        "-o",
        str(library),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT, cwd=project.folder
        )
    except OSError as exc:
        raise Failure(
            Kind.misconfigured,
            f"The compiler {compiler[0]!r} cannot be run: {exc.strerror}. "
            f"Set {'CXX' if cpp else 'CC'} to another, or unset it.",
        ) from exc
    except subprocess.TimeoutExpired as exc:
        raise Failure(Kind.timeout, f"{compiler[0]} did not finish within {_TIMEOUT} seconds.") from exc
    shown = "\n".join((done.stderr or done.stdout).strip().splitlines()[:_LINES])
    if done.returncode:
        raise Failure(Kind.invalid_input, f"{compiler[0]} could not compile {project.name!r}:\n{shown}")
    return " ".join(compiler), shown


def find_compiler(environ: Mapping[str, str], *, cpp: bool = False) -> list[str]:
    """The command of a C compiler: CC, else one of the system, else the one in `ziglang`. Raises Failure."""
    named = environ.get("CXX" if cpp else "CC", "").split()
    if named:
        return named
    for name in ("c++", "g++", "clang++") if cpp else ("cc", "gcc", "clang"):
        if shutil.which(name, path=environ.get("PATH")):
            return [name]
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "c++" if cpp else "cc"]
    raise Failure(
        Kind.misconfigured,
        "There is no C compiler: none of cc, gcc and clang was found. Install one, or: pip install ziglang",
    )


def _check_keys(given: Mapping[str, Any]) -> None:
    from fairlead.actions.policy import near_miss

    for key, value in given.items():
        kind = _KEYS.get(key)
        if kind is None:
            raise Failure(
                Kind.invalid_input, f"{PROJECT}: [build] has no key {key!r}.{near_miss(key, _KEYS)}"
            )
        right = isinstance(value, kind) and (kind is str or all(isinstance(each, str) for each in value))
        if not right:
            wanted = "a string" if kind is str else "a list of strings"
            raise Failure(Kind.invalid_input, f"{PROJECT}: {key!r} in [build] has to be {wanted}.")
    name = given.get("name")
    if name is not None and ("/" in name or name.startswith(".") or not name.strip()):
        raise Failure(Kind.invalid_input, f"{PROJECT}: {name!r} in [build] cannot be the name of a file.")


def _copy_files(project: Project, draft: Path) -> None:
    home = project.folder.resolve()
    for name in project.files:
        source = project.folder / name
        if not source.resolve().is_relative_to(home):
            raise Failure(Kind.invalid_input, f"{PROJECT}: {name!r} leads out of the project.")
        if source.is_dir():
            for path in files_of(source):
                place = draft / name / path.relative_to(source)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
        elif source.is_file():
            shutil.copyfile(source, draft / name)


def _copy_python(folder: Path, draft: Path, out: Path) -> None:
    """All of a plugin in Python but its tests and what was built before."""
    for path in files_of(folder):
        inside = path.relative_to(folder)
        if path.is_relative_to(out) or "__pycache__" in inside.parts or _is_test(path.name):
            continue
        place = draft / inside
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def _is_test(name: str) -> bool:
    return name.startswith("test_") or name in ("conftest.py", "manifest.json")


def _packed(folder: Path, manifest: Manifest, out: Path) -> Path:
    """One archive of all files, the same bytes for the same files."""
    if manifest.version is None or semver(manifest.version) is None:
        raise Failure(
            Kind.invalid_input,
            f"The manifest has no version like 1.0.3, which an archive is named after: {manifest.version!r}.",
        )
    archive = out / f"{manifest.plugin_id}-{manifest.version}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in files_of(folder):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, path.read_bytes())
    return archive
