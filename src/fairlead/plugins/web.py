"""A plugin's web pages: files of its folder, served as they are, with a word to the pages about where they are."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from fairlead import _json
from fairlead.plugins.manifest import Web, below_mount, normalised_mount
from fairlead.plugins.routes import AGENT_HEADER, PAGE_QUERY, PREFIX, Answer, Refused, Request

if TYPE_CHECKING:
    from fairlead.plugins.plugin import Plugin

CACHE: Final = "public, max-age=3600"
#: Bytes of one file.
LARGEST: Final = 50_000_000
TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "htm": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "application/javascript; charset=utf-8",
    "mjs": "application/javascript; charset=utf-8",
    "json": "application/json; charset=utf-8",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "svg": "image/svg+xml",
    "webp": "image/webp",
    "ico": "image/x-icon",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "ttf": "font/ttf",
    "otf": "font/otf",
    "map": "application/json",
    "txt": "text/plain; charset=utf-8",
    "xml": "application/xml",
    "wasm": "application/wasm",
}
OTHER: Final = "application/octet-stream"


def mounted(path: str, mount: str) -> str | None:
    """What a path is below a mount, by whole segments; None where it is elsewhere."""
    if not below_mount(path, mount):
        return None
    prefix = normalised_mount(mount)
    return path.lstrip("/") if prefix == "/" else path[len(prefix) :].lstrip("/")


def mime_type(name: str) -> str:
    """The type of a file, by its ending."""
    return TYPES.get(name.rpartition(".")[2].lower() if "." in name else "", OTHER)


async def serve(
    plugin: Plugin, web: Web, inner: str, request: Request, base_url: str, agent: str, token: str
) -> Answer:
    """The file at a path below the mount; the entry page where there is none. Raises Refused."""
    if request.method.upper() not in ("GET", "HEAD"):
        raise Refused(405, "This address takes GET and HEAD.", (("allow", "GET, HEAD"),))
    root = plugin.folder / web.static_dir
    file, content = await asyncio.to_thread(_read, plugin.folder, root, unquote(inner), web.entry)
    kind = mime_type(file.name)
    page = kind.startswith("text/html")
    if page:
        content = _told(content, _script(plugin.id, web, base_url, agent, token))
    # A page has its token in it, which is no other page's to read.
    return Answer(200, content, (("content-type", kind), ("cache-control", CACHE)), shared=not page)


def _read(folder: Path, root: Path, inner: str, entry: str) -> tuple[Path, bytes]:
    if "\x00" in inner:
        raise Refused(400, "An address must not contain a zero byte.")
    file = contained(folder, root, inner)
    if not inner or not file.is_file():
        file = contained(folder, root, entry)
    try:
        if file.stat().st_size > LARGEST:
            raise Refused(413, f"The file is larger than {LARGEST} bytes.")
        return file, file.read_bytes()
    except OSError:
        raise Refused(404, "The plugin has no such file, and no entry page.") from None


def contained(folder: Path, root: Path, inner: str) -> Path:
    """A file below a folder, links followed. Raises Refused where that leads out of it."""
    real = os.path.realpath(root)
    home = os.path.realpath(folder)
    found = os.path.realpath(os.path.join(real, inner))
    inside = found == real or found.startswith(real.rstrip(os.sep) + os.sep)
    if not inside or not (real == home or real.startswith(home.rstrip(os.sep) + os.sep)):
        raise Refused(403, "This address leads out of the plugin's files.")
    return Path(found)


def _script(plugin: str, web: Web, base_url: str, agent: str, token: str) -> bytes:
    """Tells a page which plugin it is of, where that is, and for which agent; its `fetch` says that it is the page."""
    url = f"{base_url}{PREFIX}{plugin}"
    api = normalised_mount(web.api_mount)
    about = {
        "pluginId": plugin,
        "baseUrl": url,
        "apiUrl": url if api == "/" else f"{url}{api}",
        "agentId": agent,
    }
    # What ends a script must not stand in one.
    spelled = (
        _json.dumps(about).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )
    return (
        "<script>(function(){var o=" + spelled + ";"
        "o.fetch=function(p,i){i=Object.assign({},i);"
        'var u=/^https?:/.test(p)?p:o.apiUrl+(p.charAt(0)==="/"?"":"/")+p;'
        "if(u.indexOf(o.baseUrl)===0){var h=new Headers(i.headers||{});"
        f"h.set({_json.dumps(AGENT_HEADER)},o.agentId);i.headers=h;"
        'u=u.split("#")[0];u+=(u.indexOf("?")<0?"?":"&")'
        f'+"{PAGE_QUERY}={token}"}}'
        "return fetch(u,i)};"
        "window.__osaurus=o})();</script>"
    ).encode()


def _told(page: bytes, script: bytes) -> bytes:
    """The page with the script: at the end of its head, or before everything where it has none."""
    at = page.lower().find(b"</head>")
    return script + page if at < 0 else page[:at] + script + page[at:]
