"""The docs page: one HTML page that reads `openapi.json` beside it and needs nothing else.

Its style and script stand in the page, named by their hashes in its content security policy: nothing else can run
there, and it talks to this server only.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files


@cache
def docs_page() -> bytes:
    """The page, in UTF-8."""
    style, script = _asset("page.css"), _asset("page.js")
    page = _asset("page.html")
    page = page.replace("{policy}", content_security_policy())
    return page.replace("{style}", style).replace("{script}", script).encode()


@cache
def content_security_policy() -> str:
    """What the page may do, as its header `Content-Security-Policy` has it."""
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src '{_hash(_asset('page.css'))}'",
            f"script-src '{_hash(_asset('page.js'))}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _asset(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
