"""One file from the package index that pip is set to: where it is, and a download that can go on.

pip itself shows no progress to another program, and begins from the start after a break.
"""

from __future__ import annotations

import ast
import html
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.failures.redaction import DEFAULT

_ACCEPT: Final = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
)
_HREF: Final = re.compile(r"""<a\s[^>]*?href\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_SETTING: Final = re.compile(r"(\S+?)\.([a-z-]+)=(.+)")
#: Which of pip's settings counts more, first the most.
_SECTIONS: Final = (":env:", "download", "install", "global")
_TIMEOUT: Final = 60.0
_CHUNK: Final = 1 << 16
#: A page of an index is far smaller.
_LARGEST_PAGE: Final = 50 << 20
_TRIES: Final = 5

# What pip reads may be on disk, too: some indexes are folders.
_SCHEMES: Final = ("http", "https", "file")


@dataclass(frozen=True, slots=True)
class Index:
    """Where packages come from."""

    pages: tuple[str, ...]
    #: Folders, and pages with links.
    links: tuple[str, ...] = ()
    certificates: str | None = None
    proxy: str | None = None

    @staticmethod
    def configured() -> Index:
        """As pip is set: by its environment variables and its files."""
        return index_of(_settings())

    def find(self, package: str, file: str) -> str:
        """The address of a file.

        Raises:
            Failure: no index has it, or none can be reached.
        """
        problems = []
        for place in (*self.links, *(f"{page.rstrip('/')}/{package}/" for page in self.pages)):
            try:
                found = self._look(place, file)
            except (OSError, HTTPException, ValueError) as exc:
                problems.append(f"{_shown(place)}: {_reason(exc)}")
                continue
            if found is not None:
                return found
        tried = ", ".join(_shown(page) for page in (*self.links, *self.pages)) or "none"
        words = f"No package index has {file} (looked at {tried})."
        if problems:
            words += f" Not all could be read: {DEFAULT.text('; '.join(problems))[:500]}."
        raise Failure(Kind.unavailable, f"{words} Set another, as for pip: PIP_INDEX_URL=URL")

    def open(self, url: str, headers: Mapping[str, str] | None = None) -> Any:
        """A response of an address that is HTTP or a file."""
        if urlsplit(url).scheme not in _SCHEMES:
            raise ValueError("it is no address of http, https or file")
        address, told = _credentials(url)
        # Nothing that is compressed on the way: the size must be that of the file.
        plain = {"User-Agent": "fairlead", "Accept-Encoding": "identity"}
        request = urllib.request.Request(address, headers={**plain, **told, **(headers or {})})  # noqa: S310 - checked
        context = ssl.create_default_context(cafile=self.certificates)
        handlers: list[urllib.request.BaseHandler] = [
            urllib.request.HTTPSHandler(context=context),
            _Redirects(),
        ]
        if self.proxy:
            handlers.append(urllib.request.ProxyHandler({"http": self.proxy, "https": self.proxy}))
        return urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT)

    def _look(self, place: str, file: str) -> str | None:
        url = place if "://" in place else Path(place).absolute().as_uri()
        if urlsplit(url).scheme == "file" and os.path.isdir(_path(url)):
            folder = Path(_path(url))
            if (folder / file).is_file():
                return (folder / file).as_uri()
            url = (folder / "index.html").as_uri()
            if not (folder / "index.html").is_file():
                return None
        try:
            with self.open(url, {"Accept": _ACCEPT}) as response:
                content, kind, base = (
                    response.read(_LARGEST_PAGE),
                    response.headers.get_content_type(),
                    response.url,
                )
        except urllib.error.HTTPError as exc:
            exc.close()
            if exc.code in (404, 410):
                return None
            raise
        # What is asked of a file's address may need the name and password of the index's.
        at = urlsplit(url)
        for link in _json_links(content) if kind.endswith("json") else _html_links(content):
            address = urljoin(base, link)
            if unquote(urlsplit(address).path).rpartition("/")[2] == file:
                return _with_credentials(address.partition("#")[0], at.netloc)
        return None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and takes the name and password of an index to nobody else: many lead to a store of files."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> Any:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            made.remove_header("Authorization")
        return made


def fetch(index: Index, url: str, part: Path, size: int, told: Callable[[int, int], None]) -> None:
    """Download to a file that may hold the beginning already. A broken connection is taken up again.

    Raises:
        Failure: it breaks again and again, or the server has no such file.
    """
    for tried in range(1, _TRIES + 1):
        begun = part.stat().st_size if part.exists() else 0
        if begun > size:
            part.unlink()
            begun = 0
        try:
            _more(index, url, part, begun, size, told)
            if part.stat().st_size == size:
                return
            problem = f"{part.stat().st_size} of {size} bytes came"
        except urllib.error.HTTPError as exc:
            exc.close()
            problem = f"status {exc.code}"
            if exc.code == 416:
                part.unlink(missing_ok=True)
            elif exc.code < 500 and exc.code not in (408, 429):
                break
        except (OSError, HTTPException, ValueError) as exc:
            problem = _reason(exc)
        # As long as something comes, a bad connection is only slow.
        if tried < _TRIES:
            time.sleep(min(2.0**tried / 4, 5.0))
    words = f"Downloading {part.name.strip('.').removesuffix('.part')} from {_shown(url)} failed: {problem}."
    raise Failure(
        Kind.unavailable, f"{DEFAULT.text(words)} What came is kept: the same command goes on from there."
    )


def _more(
    index: Index, url: str, part: Path, begun: int, size: int, told: Callable[[int, int], None]
) -> None:
    with index.open(url, {"Range": f"bytes={begun}-"} if begun else {}) as response:
        goes_on = begun > 0 and getattr(response, "status", None) == 206
        with part.open("ab" if goes_on else "wb") as file:
            done = begun if goes_on else 0
            told(done, size)
            while done <= size and (chunk := response.read(_CHUNK)):
                file.write(chunk)
                done += len(chunk)
                told(min(done, size), size)


def default_index() -> str:
    """The index that pip asks when nothing else is set. Raises Failure where there is no pip."""
    try:
        from pip._internal.models.index import PyPI
    except ImportError:
        raise Failure(
            Kind.misconfigured,
            "There is no pip in this environment that could say where packages come from. "
            "Name an index: PIP_INDEX_URL=https://.../simple",
        ) from None
    url: str = PyPI.simple_url
    return url


def index_of(settings: Mapping[str, str]) -> Index:
    """The index that settings of pip name."""
    pages: list[str] | None = (
        [] if settings.get("no-index", "").lower() in ("1", "true", "yes", "on") else None
    )
    if pages is None:
        pages = settings.get("index-url", "").split()[:1] or [default_index()]
        pages += settings.get("extra-index-url", "").split()
    return Index(
        pages=tuple(pages),
        links=tuple(settings.get("find-links", "").split()),
        certificates=settings.get("cert") or None,
        proxy=settings.get("proxy") or None,
    )


def _settings() -> dict[str, str]:
    """What pip says it is set to; without pip, what the environment says."""
    ranked: dict[str, tuple[int, str]] = {}
    for section, name, value in _listed():
        rank = _SECTIONS.index(section) if section in _SECTIONS else len(_SECTIONS)
        if name not in ranked or rank < ranked[name][0]:
            ranked[name] = (rank, value)
    return {name: value for name, (_, value) in ranked.items()}


def _listed() -> Iterator[tuple[str, str, str]]:
    for name, value in os.environ.items():
        if name.startswith("PIP_"):
            yield ":env:", name[4:].lower().replace("_", "-"), value
    command = [sys.executable, "-m", "pip", "config", "list", "--disable-pip-version-check"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return
    for line in said.splitlines():
        found = _SETTING.fullmatch(line.strip())
        if found is None:
            continue
        try:
            yield found[1], found[2], str(ast.literal_eval(found[3]))
        except (ValueError, SyntaxError):
            continue


def _reason(exc: Exception) -> str:
    return str(getattr(exc, "reason", None) or exc) or type(exc).__name__


def _html_links(content: bytes) -> Iterator[str]:
    for found in _HREF.finditer(content.decode(errors="replace")):
        yield html.unescape(found[1])


def _json_links(content: bytes) -> Iterator[str]:
    page = _json.loads(content)
    files = page.get("files") if isinstance(page, dict) else None
    for file in files if isinstance(files, list) else ():
        if isinstance(file, dict) and isinstance(file.get("url"), str):
            yield file["url"]


def _path(url: str) -> str:
    return urllib.request.url2pathname(urlsplit(url).path)


def _credentials(url: str) -> tuple[str, dict[str, str]]:
    """The address without the name and password in it, and the header that says them."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    import base64

    said = base64.b64encode(unquote(user).encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {said}"}


def _with_credentials(address: str, netloc: str) -> str:
    _, at, host = netloc.rpartition("@")
    parts = urlsplit(address)
    return parts._replace(netloc=netloc).geturl() if at and parts.netloc == host else address


def _shown(url: str) -> str:
    """An address without a name or password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
