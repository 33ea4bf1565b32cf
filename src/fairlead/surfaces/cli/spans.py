"""Options that the commands about tasks share: spans of time, whole numbers, and which store is meant."""

from __future__ import annotations

import os
import re
from typing import Final

from fairlead.failures.typed import chosen
from fairlead.surfaces.cli.hints import wrong_option

_UNITS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SPAN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|[smhdw]?)", re.ASCII)

DATA_ROW: Final = (
    "--data DIR",
    "The folder that the store is kept in. [env: FAIRLEAD_DATA; FAIRLEAD_DATABASE_URL names a database instead]",
)


def span(flag: str, text: str) -> float:
    """Seconds, as `10m`, `1.5h`, `2d` or a plain number says them."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise wrong_option(flag, "expected a time such as 30s, 10m, 1.5h or 7d")
    return float(found[1]) * _UNITS[found[2]]


def whole(flag: str, text: str, least: int, most: int) -> int:
    """A whole number within bounds."""
    if re.fullmatch(r"[+-]?\d{1,12}", text, re.ASCII) is None or not least <= int(text) <= most:
        raise wrong_option(flag, f"expected a whole number from {least} to {most}")
    return int(text)


def choose_store(data: str | None) -> str:
    """Have the app, and the processes that it starts, keep their store in this folder; gives the option for hints."""
    if data is None:
        return ""
    if not data.strip():
        raise wrong_option("--data", "expected a folder")
    from fairlead.store.opening import DATA, DATABASE_URL

    os.environ[DATA] = os.path.abspath(os.path.expanduser(data))
    # Who names a folder does not mean the database that the environment names.
    os.environ.pop(DATABASE_URL, None)
    import shlex

    option = f"--data {shlex.quote(data)}"
    chosen(option)
    return f" {option}"


def ago(seconds: float) -> str:
    """A span as people say it, by its largest unit: `3m`, `2h`."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(seconds, 0.0):.0f}s"
