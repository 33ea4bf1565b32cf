"""Manifests from wherever a developer can point: a file, a git revision, an installed package, the app here.

Code of another time or place is run in a process of its own, never in this one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairlead._json import loads
from fairlead.failures import Failure, Kind

#: How a wheel made by `fairlead package` says which app it has.
APPS = "fairlead.apps"
_INSTALLED = "installed:"
#: Tells where the app is, if anybody says.
Target = Callable[[], str | None]


def manifest_of(source: str, cwd: Path, target: Target) -> Any:
    """The manifest that `source` names; of a revision, that of the app at the target.

    Raises:
        Failure: there is no such file, revision or package, or its app cannot be loaded.
    """
    if source.startswith(_INSTALLED):
        return _installed(source.removeprefix(_INSTALLED))
    path = Path(cwd, source)
    if path.is_file():
        return _read(path)
    if source.endswith(".json") or os.sep in source:
        raise Failure(
            Kind.invalid_input, f"There is no manifest file {source!r}. `fairlead manifest > FILE` makes one."
        )
    return _revision(source, cwd, target())


def has_commits(cwd: Path) -> bool:
    """Whether there is a git commit to compare with."""
    return _git(cwd, "rev-parse", "--verify", "--quiet", "HEAD") is not None


def _read(path: Path) -> Any:
    try:
        return loads(path.read_bytes())
    except OSError as exc:
        raise Failure(Kind.invalid_input, f"{path.name} cannot be read: {exc.strerror}.") from exc
    except ValueError as exc:
        raise Failure(
            Kind.malformed, f"{path.name} is not JSON. `fairlead manifest > {path.name}` makes it."
        ) from exc


def _revision(revision: str, cwd: Path, target: str | None) -> Any:
    commit = _git(cwd, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit is None:
        where = "a file, installed:PACKAGE, or a git revision such as HEAD~1"
        raise Failure(Kind.invalid_input, f"{revision!r} is none of these: {where}.")
    root = _git(cwd, "rev-parse", "--show-toplevel") or str(cwd)
    with tempfile.TemporaryDirectory(prefix="fairlead-diff-") as folder:
        archive = subprocess.run(
            ["git", "-C", root, "archive", "--format=tar", commit], capture_output=True, check=False
        )
        if archive.returncode:
            raise Failure(
                Kind.invalid_input, f"git could not read {revision!r}: {archive.stderr.decode().strip()}"
            )
        _unpack(archive.stdout, folder)
        here = os.path.realpath(cwd)
        inside = Path(folder, os.path.relpath(here, os.path.realpath(root)))
        if not inside.is_dir():
            raise Failure(Kind.invalid_input, f"This folder does not exist in {revision!r}.")
        if target is not None and os.path.isabs(target):
            target = os.path.relpath(os.path.realpath(target), here)
        given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        path = [os.path.abspath(each) for each in given if each]
        return _run(inside, target, f"in {revision}", ("fairlead.project.revision", root, folder), path)


def _unpack(archive: bytes, folder: str) -> None:
    """Files, then links, so that nothing is written through one. Those that lead out of the project are left out.

    By hand: Python has a filter for this since 3.11.4, and Debian has 3.11.2.
    """
    import io
    import tarfile

    top = os.path.realpath(folder)
    links: list[tuple[str, str]] = []
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            place = os.path.join(top, member.name)
            if not _within(top, place):
                continue
            if member.isdir():
                os.makedirs(place, exist_ok=True)
            elif member.issym():
                links.append((place, member.linkname))
            elif (content := tar.extractfile(member)) is not None:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with content, open(place, "wb") as file:
                    file.write(content.read())
                os.chmod(place, member.mode & 0o755 | 0o600)
    for place, target in links:
        if _within(top, os.path.join(os.path.dirname(place), target)):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(target, place)


def _within(top: str, place: str) -> bool:
    return os.path.realpath(place).startswith(f"{top}{os.sep}")


def _git(cwd: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(cwd), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError as exc:
        raise Failure(Kind.misconfigured, "Comparing revisions needs git, which is not installed.") from exc
    if done.returncode == 0:
        return done.stdout.strip()
    # What is not there it is quiet about. Its words are in the language of the person who reads them.
    said = done.stderr.strip()
    if said and _git_folder(cwd):
        raise Failure(Kind.misconfigured, f"git cannot read the commits of this folder: {said}")
    return None


def _git_folder(cwd: Path) -> bool:
    here = Path(os.path.realpath(cwd))
    return any((each / ".git").exists() for each in (here, *here.parents))


def _installed(name: str) -> Any:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        entries = distribution(name).entry_points.select(group=APPS)
    except PackageNotFoundError as exc:
        raise Failure(
            Kind.invalid_input, f"No package {name!r} is installed here. `pip install {name}` installs it."
        ) from exc
    targets = [entry.value for entry in entries]
    if not targets:
        raise Failure(
            Kind.invalid_input, f"Package {name!r} has no app: its wheel was not made by `fairlead package`."
        )
    with tempfile.TemporaryDirectory(prefix="fairlead-diff-") as folder:
        return _run(Path(folder), targets[0], f"of package {name}")


def _run(
    folder: Path,
    target: str | None,
    whose: str,
    program: Sequence[str] = ("fairlead",),
    path: Sequence[str] = (),
) -> Any:
    chosen = ["--app", target] if target else []
    environment = {key: value for key, value in os.environ.items() if key != "FAIRLEAD_APP"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", *program, *chosen, "manifest"],
        cwd=folder,
        env=environment | {"PYTHONPATH": os.pathsep.join(path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Failure(
            Kind.invalid_input, f"The app {whose} cannot be loaded: {said[0] if said else 'no reason given'}"
        )
    return loads(done.stdout)
