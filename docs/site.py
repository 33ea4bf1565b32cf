"""Make a site of static pages from the docs: `make site`, or `python docs/site.py FOLDER`.

The pages are those of the repository, with README.md as the first. A link to a file that is no page, such as an
example, becomes its text, and a diagram a picture. The site needs no network, neither to be made nor to be read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pictures import drawn

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SETTINGS = """[project]
site_name = "Fairlead"
site_description = "Write an action once, and every caller gets it."
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = [
NAV
]

[project.theme]
font = false
features = ["navigation.top", "content.code.copy", "search.highlight"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
"""
_FENCE = re.compile(r"(^```.*?^```\n?)", re.MULTILINE | re.DOTALL)
#: What is said of a block beyond its language is for tests.
_OPENED = re.compile(r"^```(\w+) [^\n]*")
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def main() -> int:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()
    with TemporaryDirectory() as folder:
        work = Path(folder)
        for source, page in pages().items():
            file = work / "pages" / page
            file.parent.mkdir(parents=True, exist_ok=True)
            text = moved(source.read_text(encoding="utf-8"), source, page)
            file.write_text(pictured(text, file), encoding="utf-8")
        (work / "zensical.toml").write_text(SETTINGS.replace("NAV", navigation()), encoding="utf-8")
        command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
        done = subprocess.run(
            command, cwd=work, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}
        )
        if done.returncode:
            print(done.stdout + done.stderr, file=sys.stderr)
            return 1
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(work / "site", target)
    print(f"The site is in {target}: open index.html.")
    return 0


@cache
def pages() -> dict[Path, str]:
    """The files that are pages, and what they are called in the site."""
    found = {ROOT / "README.md": "index.md"}
    found |= {ROOT / name: name.lower() for name in ("CHANGELOG.md", "CONTRIBUTING.md")}
    return found | {file: file.relative_to(DOCS).as_posix() for file in sorted(DOCS.rglob("*.md"))}


def moved(text: str, source: Path, page: str) -> str:
    """A page's text with links as they are in the site; code has none."""

    def link(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        path, hash, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return found[0]
        place = pages().get((source.parent / path).resolve())
        if place is None:
            return words
        return f"[{words}]({os.path.relpath(place, Path(page).parent)}{hash}{anchor})"

    parts = _FENCE.split(text)
    return "".join(
        _OPENED.sub(r"```\1", part) if part.startswith("```") else _LINK.sub(link, part) for part in parts
    )


def pictured(text: str, file: Path) -> str:
    """A page's text with its diagrams drawn, as files beside it."""

    def picture(found: re.Match[str]) -> str:
        heading = re.findall(r"^#+ (.+)$", text[: found.start()], re.MULTILINE)[-1]
        name = f"{file.stem}-{found.start()}.svg"
        file.with_name(name).write_text(drawn(found[1], heading), encoding="utf-8")
        return f"![{heading}]({name})\n"

    return _DIAGRAM.sub(picture, text)


def navigation() -> str:
    """The order of the pages: guides as README lists them, whatever it leaves out after them."""
    listed = re.findall(r"\]\(docs/(guides/[\w-]+\.md)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    every = sorted(pages().values())
    guides = [
        *dict.fromkeys(listed),
        *(each for each in every if each.startswith("guides/") and each not in listed),
    ]
    reference = [each for each in every if each.startswith("reference/")]
    first = ["index.md", "tutorial.md"]
    rest = [each for each in every if "/" not in each and each not in first]
    groups = [("Guides", guides), ("Reference", reference), ("More", rest)]
    lines = [f'  "{each}",' for each in first]
    lines += [f'  {{ "{name}" = [{", ".join(f"{each!r}" for each in group)}] }},' for name, group in groups]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
