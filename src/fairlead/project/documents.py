"""The app's documents as files: GUIDE.md, llms.txt, a static site. Written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.project.writing import write_files

if TYPE_CHECKING:
    from fairlead.runtime import App

OUT_DIR = "dist/fairlead"
GUIDE = "GUIDE.md"
LLMS = "llms.txt"


def export_docs(
    app: App,
    *,
    out_dir: str = OUT_DIR,
    filename: str = GUIDE,
    cwd: str | Path = ".",
    html: bool = False,
    llms: bool = False,
    **exposure: Any,
) -> dict[str, Any]:
    """Write the guide, and a site or llms.txt if asked for; gives `{ok, outDir, files: [{kind, path}]}`."""
    folder = Path(cwd, out_dir)
    files = [("guide-doc", filename, app.create_guide_doc(**exposure))]
    if llms:
        files.append(("llms", LLMS, llms_text(app, filename, **exposure)))
    if html:
        from fairlead.project.site import site

        files += [("html", f"site/{name}", text) for name, text in site(app, **exposure).items()]
    write_files(folder, {name: text for _, name, text in files})
    told = [{"kind": kind, "path": str(folder / name)} for kind, name, _ in files]
    return {"ok": True, "outDir": str(folder), "files": told}


def llms_text(app: App, guide: str = GUIDE, **exposure: Any) -> str:
    """The app in the form that models look for: a heading, a summary, and links."""
    lines = [f"# {app.name}", ""]
    summary = app.docs.get("summary") or app.description
    if summary:
        lines += [f"> {' '.join(summary.split())}", ""]
    lines += [
        "## Docs",
        "",
        f"- [Guide]({guide}): every action with its schemas and examples",
        "",
        "## Actions",
        "",
    ]
    for action in app.action_manifest(**exposure):
        notes = [action["sideEffects"], *(["needs confirmation"] if action["requiresConfirmation"] else [])]
        notes += ["deprecated"] if action["deprecated"] else []
        lines.append(f"- `{action['name']}` ({', '.join(notes)}): {' '.join(action['description'].split())}")
    return "\n".join(lines) + "\n"
