"""`.mcp.json`: the MCP servers of a project, in the shape that other MCP clients read and write.

`{"mcpServers": {"NAME": {"command": …, "args": […], "env": {…}}}}`, or `"type": "http"` with `url` and `headers`.
Keys of our own stand beside them: `trust`, `prefix`, `include`, `timeout`, `reconnect`, `disabled`. Keys of others
are left as they are.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.tools.mcp.server import McpServer
from fairlead.tools.remote import is_secret, looks_secret

SERVERS_FILE: Final = ".mcp.json"
SECTION: Final = "mcpServers"
_TEXTS: Final = {"command": str, "args": list, "env": dict, "cwd": str, "url": str, "headers": dict}
_OWN: Final = {"trust": bool, "prefix": str, "include": list, "timeout": (int, float), "reconnect": int}


def configured_servers(folder: str | os.PathLike[str] = ".") -> list[McpServer]:
    """The servers that the project in a folder names; none when it has no such file.

    Raises:
        Failure: the file cannot be read, or an entry makes no sense.
    """
    entries = read_entries(folder)
    return [server_of(name, entry) for name, entry in entries.items() if not entry.get("disabled")]


def server_of(name: str, entry: Mapping[str, Any]) -> McpServer:
    """The server of one entry. Raises Failure when it makes no sense."""
    for key, kind in {**_TEXTS, **_OWN}.items():
        if key in entry and not isinstance(entry[key], kind):  # type: ignore[arg-type]  # types and tuples of them
            raise _wrong(name, f"{key!r} has the wrong type")
    for key in ("env", "headers"):
        if not all(isinstance(value, str) for value in entry.get(key, {}).values()):
            raise _wrong(name, f"the values of {key!r} must be text")
    kind = entry.get("type", "http" if "url" in entry else "stdio")
    if kind not in ("stdio", "http", "streamable-http", "streamableHttp"):
        raise _wrong(name, f"its type {kind!r} is not one that is spoken here: stdio or http")
    command = [entry["command"], *map(str, entry.get("args", ()))] if "command" in entry else []
    options = {key: entry[key] for key in ("env", "cwd", "url", "headers", *_OWN) if key in entry}
    try:
        return McpServer(name, command, **options)
    except DefinitionError as error:
        raise _wrong(name, str(error)) from error


def entry_of(
    command: list[str],
    url: str | None,
    env: Mapping[str, str],
    headers: Mapping[str, str],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """An entry as it is written."""
    entry: dict[str, Any]
    if url is None:
        entry = {"type": "stdio", "command": command[0], "args": command[1:]}
    else:
        entry = {"type": "http", "url": url}
    entry |= {"env": dict(env)} if env else {}
    entry |= {"headers": dict(headers)} if headers else {}
    return {**entry, **options}


def plain_secrets(entry: Mapping[str, Any]) -> list[str]:
    """The variables and headers of an entry whose values look like secrets, and are there as they are."""
    return [
        name
        for key in ("env", "headers")
        if isinstance(entry.get(key), dict)
        for name, value in entry[key].items()
        if isinstance(value, str) and is_secret(name, value)
    ]


def _holds_secrets(section: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(
        plain_secrets(entry)
        or looks_secret(str(entry.get("url", "")))
        or (isinstance(args := entry.get("args"), list) and looks_secret(" ".join(map(str, args))))
        for entry in section.values()
    )


def read_entries(folder: str | os.PathLike[str] = ".") -> dict[str, dict[str, Any]]:
    """The entries of the file by name, unchecked beyond their shape."""
    section = _document(Path(folder, SERVERS_FILE)).get(SECTION, {})
    if not isinstance(section, dict) or not all(isinstance(entry, dict) for entry in section.values()):
        raise Failure(Kind.misconfigured, f"{SERVERS_FILE}: {SECTION!r} must be an object of objects.")
    return section


def write_entry(folder: str | os.PathLike[str], name: str, entry: Mapping[str, Any] | None) -> None:
    """Put an entry into the file, or take it out; everything else stays. The file is replaced in one step.

    One that has a secret in it is for its owner alone.
    """
    path = Path(folder, SERVERS_FILE)
    document = _document(path)
    read_entries(folder)
    section = document.setdefault(SECTION, {})
    if entry is None:
        del section[name]
    else:
        section[name] = dict(entry)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    _replace(path, text, private=_holds_secrets(section))


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Failure(Kind.misconfigured, f"{str(path)!r} cannot be read: {reason}.") from error
    except json.JSONDecodeError as error:
        raise Failure(Kind.misconfigured, f"{path.name} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise Failure(
            Kind.misconfigured, f"{path.name} must hold one object, with the servers in {SECTION!r}."
        )
    return found


def _replace(path: Path, text: str, *, private: bool) -> None:
    path = path.resolve()
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        if private:
            mode &= 0o700
        handle, made = tempfile.mkstemp(prefix=path.name, dir=path.parent)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(made, mode)
            os.replace(made, path)
        except BaseException:
            os.unlink(made)
            raise
    except OSError as error:
        words = f"{str(path)!r} cannot be written: {error.strerror}. Look at its folder, or work in another."
        raise Failure(Kind.misconfigured, words, cause=error) from error


def _wrong(name: str, why: str) -> Failure:
    return Failure(Kind.misconfigured, f"{SERVERS_FILE}: the server {name!r} cannot be used: {why}.")
