"""Building, packaging and publishing an app: what the verbs and `app.build()` and its like do."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead.actions.manifest import describe_attribution
from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Kind
from fairlead.project.bundle import REPORT, SUMS, TARGETS, File, files_of, pretty
from fairlead.project.identity import Product, product_of
from fairlead.project.wheel import build_wheel
from fairlead.project.writing import write_files

if TYPE_CHECKING:
    from fairlead.runtime import App

OUT_DIR: Final = "dist/fairlead"
_LONGEST_REASON: Final = 500


def build_artifacts(
    app: App,
    *,
    targets: Sequence[str] | None = None,
    out_dir: str | None = None,
    cwd: str | Path = ".",
    app_module: str | None = None,
    package: Mapping[str, Any] | None = None,
    filename: str | None = None,
) -> dict[str, Any]:
    """Write the targets' files; `filename` is the guide's. Gives `{ok, name, outDir, targets, files, report}`.

    Raises:
        Failure: a target is unknown, the app cannot be found, or a file cannot be written; nothing is then.
    """
    product = product_of(app, cwd=Path(cwd), app_module=app_module, package=package)
    if filename is not None:
        product = product._replace(guide=filename)
    return _write(_planned(product, targets, out_dir, Path(cwd)))


def package_artifacts(app: App, *, dry_run: bool = False, **options: Any) -> dict[str, Any]:
    """Build the bundle and a wheel of it; gives `{ok, outDir, packageDir, packageFile, build}`."""
    product, chosen = _chosen(app, options)
    plan = _planned(product, ["bundle"], **chosen)
    with tempfile.TemporaryDirectory(prefix="fairlead-package-") as staging:
        wheel = build_wheel(plan.product, Path(staging))
        built = _write(plan, {} if dry_run else {wheel.name: wheel.read_bytes()})
    folder = built["outDir"]
    made = None if dry_run else str(Path(folder, wheel.name))
    return {"ok": True, "outDir": folder, "packageDir": folder, "packageFile": made, "build": built}


def publish_artifacts(
    app: App, *, dry_run: bool = True, repository: str | None = None, **options: Any
) -> dict[str, Any]:
    """Package, then upload with twine, which only checks unless `dry_run` is False."""
    product, _ = _chosen(app, options)
    if not dry_run and product.package.get("private"):
        raise Failure(
            Kind.forbidden, "The package is private: package.private is set in the project's settings."
        )
    packaged = package_artifacts(app, **options)
    command = ["check", "--strict"] if dry_run else ["upload", "--non-interactive"]
    chosen = ["--repository", repository] if repository and not dry_run else []
    done = subprocess.run(
        [sys.executable, "-m", "twine", "--no-color", *command, *chosen, packaged["packageFile"]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if "No module named twine" in done.stderr:
        raise Failure(Kind.misconfigured, "Publishing needs twine: pip install 'fairlead[publish]'.")
    if done.returncode:
        raise _not_taken(done.stderr or done.stdout, packaged["packageFile"], dry_run)
    told = {"published": "dry-run" if dry_run else "live", "stdout": done.stdout, "stderr": done.stderr}
    return packaged | told


def _not_taken(said: str, package: str, dry_run: bool) -> Failure:
    # It breaks its words into lines as if for a terminal; the last of them is seldom the reason.
    why = " ".join(said.split())[:_LONGEST_REASON].removesuffix(".") or "no reason given"
    if dry_run:
        return Failure(Kind.invalid_input, f"twine would not upload {package}: {why}.")
    way_out = "Who uploads and where to is twine's to know: TWINE_USERNAME and TWINE_PASSWORD, or .pypirc."
    return Failure(Kind.upstream, f"twine did not upload {package}: {why}. {way_out}")


def _chosen(app: App, options: dict[str, Any]) -> tuple[Product, dict[str, Any]]:
    cwd = Path(options.get("cwd", "."))
    named = {"app_module": options.get("app_module"), "package": options.get("package")}
    return product_of(app, cwd=cwd, **named), {"out_dir": options.get("out_dir"), "cwd": cwd}


class _Plan(NamedTuple):
    """What a build will write, and where."""

    product: Product
    targets: list[str]
    folder: Path
    files: list[File]
    report: dict[str, Any]


def _planned(product: Product, targets: Sequence[str] | None, out_dir: str | None, cwd: Path) -> _Plan:
    settings = product.config.section("build")
    wanted = list(targets or settings.get("targets") or ["bundle"])
    for target in wanted:
        if target not in TARGETS:
            hint = near_miss(target, TARGETS)
            raise Failure(
                Kind.invalid_input, f"No target is named {target!r}.{hint} Targets are {', '.join(TARGETS)}."
            )
    folder = (cwd / (out_dir or settings.get("out_dir") or OUT_DIR)).resolve()
    product = product.without(folder)
    files = files_of(product, wanted, folder)
    report = _report(product, wanted, files)
    files.append(File("bundle-report", REPORT, pretty(report)))
    return _Plan(product, wanted, folder, files, report)


def _write(plan: _Plan, beside: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """Write the files, what stands beside them, and the checksums of all."""
    contents = {file.name: _bytes(file) for file in plan.files} | dict(beside or {})
    files = [*plan.files, File("checksums", SUMS, _sums(contents))]
    runnable = frozenset(file.name for file in files if file.executable)
    write_files(plan.folder, contents | {SUMS: _bytes(files[-1])}, executable=runnable)
    told = [{"kind": f.kind, "path": str(plan.folder / f.name), "executable": f.executable} for f in files]
    return {
        "ok": True,
        "name": plan.product.app.name,
        "outDir": str(plan.folder),
        "targets": plan.targets,
        "files": told,
        "report": plan.report,
    }


def _report(product: Product, targets: list[str], files: list[File]) -> dict[str, Any]:
    attribution = describe_attribution(product.app.attribution)
    names = {file.name for file in files}
    commands = {"cli": "python3 cli.py --help"} if "cli.py" in names else {}
    commands |= {"mcp": "python3 mcp_stdio.py"} if "mcp_stdio.py" in names else {}
    commands |= {"pack": "fairlead package"} if "bundle" in targets else {}
    return {
        "schemaVersion": 1,
        "name": product.app.name,
        **({"attribution": attribution} if attribution else {}),
        "targets": targets,
        "source": {"appModule": product.source.module, "appExport": product.source.attribute},
        "files": [
            {
                "kind": file.kind,
                "filename": file.name,
                "relativePath": file.name,
                "executable": file.executable,
            }
            for file in files
        ],
        "commands": commands,
    }


def _bytes(file: File) -> bytes:
    return file.content.encode() if isinstance(file.content, str) else file.content


def _sums(contents: Mapping[str, bytes]) -> str:
    return "".join(f"{hashlib.sha256(contents[name]).hexdigest()}  {name}\n" for name in sorted(contents))
