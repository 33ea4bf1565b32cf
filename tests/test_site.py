"""The docs as a site: every link inside leads to a page and a heading that are there, and nothing is fetched."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.timeout(180)  # whichever comes first makes the site
#: What a browser fetches by itself when it shows a page.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The links, the headings and the parts of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.parts: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {name for name in (given.get("id"), given.get("name")) if name}
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if part := given.get(FETCHED.get(tag, "")):
            self.parts.append(part)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    folder = tmp_path_factory.mktemp("site") / "site"
    # No proxy leads anywhere: what the generator would fetch, it cannot.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    command = [sys.executable, "docs/site.py", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | nowhere, capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stderr
    return {file: Page(file) for file in folder.rglob("*.html") if file.name != "404.html"}


def outside(link: str) -> bool:
    parts = urlsplit(link)
    return bool(parts.scheme or parts.netloc)


def test_every_page_of_the_docs_is_in_the_site(site: dict[Path, Page]) -> None:
    assert len(site) == len(list((ROOT / "docs").rglob("*.md"))) + 3


def test_links_lead_to_pages_and_headings_that_are_there(site: dict[Path, Page]) -> None:
    broken = []
    for file, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            if outside(link):
                continue
            if target not in site or (parts.fragment and unquote(parts.fragment) not in site[target].anchors):
                broken.append(f"{file.name}: {link}")
    assert broken == []
    assert sum(len(page.links) for page in site.values()) > 1000


def test_a_browser_fetches_nothing_from_elsewhere(site: dict[Path, Page]) -> None:
    parts = {part for page in site.values() for part in page.parts}
    assert [part for part in parts if outside(part) and not part.startswith("data:")] == []
    assert len(parts) > 3


def test_diagrams_are_pictures_with_their_words(site: dict[Path, Page]) -> None:
    drawn = {
        file.parent / part for file, page in site.items() for part in page.parts if part.endswith(".svg")
    }
    texts = [file.read_text(encoding="utf-8") for file in (ROOT / "docs").rglob("*.md")]
    assert len(drawn) == sum(text.count("```mermaid") for text in texts) > 0
    pictures = "".join(file.read_text(encoding="utf-8") for file in drawn)
    assert all(words in pictures for words in ("fairlead-serve@8001", "is answered", "FAIRLEAD_BUS_URL"))
    assert not any("stateDiagram" in file.read_text(encoding="utf-8") for file in site)
