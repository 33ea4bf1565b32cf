"""`mcp install`: the settings that make an MCP client start this app, printed, or written into the client's file.

A file is touched only after someone has seen the change and said yes. Then it is replaced in one step, with its
mode kept and a copy of what it was beside it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from fairlead.failures import Failure, Kind
from fairlead.surfaces.mcp.settings import Entry, Uneditable, put_json, put_toml, toml_lines

if TYPE_CHECKING:
    from fairlead.surfaces.cli.console import Console

_YES: Final = frozenset({"y", "yes"})


class Client(NamedTuple):
    """An MCP client: what its settings look like, and in which file they are."""

    name: str
    title: str
    #: The member that holds the servers.
    section: str
    #: The file, by platform; "" stands for all others. The first step names a folder of `_folder`.
    files: Mapping[str, str]
    #: Whether an entry says that the server is spoken to over stdio.
    typed: bool = False
    toml: bool = False

    def entry(self, command: list[str]) -> Entry:
        kind = {"type": "stdio"} if self.typed else {}
        return {**kind, "command": command[0], "args": command[1:]}

    def snippet(self, name: str, entry: Entry) -> str:
        """The settings by themselves."""
        if self.toml:
            return "\n".join(toml_lines(self.section, name, entry)) + "\n"
        return json.dumps({self.section: {name: entry}}, indent=2, ensure_ascii=False) + "\n"

    def put(self, text: str, name: str, entry: Entry) -> str:
        """The text of a settings file with the entry in it. Raises Uneditable."""
        edit = put_toml if self.toml else put_json
        return edit(text, self.section, name, entry)

    def file(self, environ: Mapping[str, str], platform: str = sys.platform) -> str:
        folder, _, rest = self.files.get(platform, self.files[""]).partition("/")
        return os.path.join(_folder(folder, environ), *rest.split("/"))


def _folder(name: str, environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") or os.path.expanduser("~")
    folders = {
        "here": os.getcwd(),
        "home": home,
        "config": environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"),
        "appdata": environ.get("APPDATA") or os.path.join(home, "AppData", "Roaming"),
        "codex": environ.get("CODEX_HOME") or os.path.join(home, ".codex"),
    }
    return folders[name]


_SUPPORT: Final = "home/Library/Application Support"

CLIENTS: Final = {
    client.name: client
    for client in (
        Client(
            "claude-desktop",
            "Claude Desktop",
            "mcpServers",
            {
                "": "config/Claude/claude_desktop_config.json",
                "darwin": f"{_SUPPORT}/Claude/claude_desktop_config.json",
                "win32": "appdata/Claude/claude_desktop_config.json",
            },
        ),
        Client(
            "claude-code", "Claude Code, in this folder", "mcpServers", {"": "here/.mcp.json"}, typed=True
        ),
        Client("cursor", "Cursor", "mcpServers", {"": "home/.cursor/mcp.json"}),
        Client(
            "vscode",
            "VS Code",
            "servers",
            {
                "": "config/Code/User/mcp.json",
                "darwin": f"{_SUPPORT}/Code/User/mcp.json",
                "win32": "appdata/Code/User/mcp.json",
            },
            typed=True,
        ),
        Client("codex", "Codex", "mcp_servers", {"": "codex/config.toml"}, toml=True),
    )
}


def slug(name: str) -> str:
    """A name that every client takes."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-") or "fairlead"


def start_command(app: object, *, owned: bool) -> list[str]:
    """The command that starts this app's program again, from whichever folder. Raises Failure.

    `owned` says that the program is the app's own; else it is `fairlead`, which is told where the app is.
    """
    if not owned:
        return [sys.executable, "-m", "fairlead", "--app", _target(app)]
    script = os.path.abspath(sys.argv[0])
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None:
        return [sys.executable, "-m", spec.name.removesuffix(".__main__")]
    if not script.endswith(".py") and os.access(script, os.X_OK):
        return [script]
    return [sys.executable, script]


def _target(app: object) -> str:
    """Where the app is, for `--app`: the module's file, or its name where it is installed."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or name == "__main__":
            continue
        for key, value in list(vars(module).items()):
            if value is app:
                installed = "site-packages" in file.split(os.sep)
                return f"{name if installed else os.path.abspath(file)}:{key}"
    raise Failure(
        Kind.misconfigured,
        "The app is in no module's variable, so that no command can name it. Assign it to one, such as `app`.",
    )


class Change(NamedTuple):
    """A settings file before and after. `before` is None where there is no file."""

    path: str
    before: str | None
    after: str

    @classmethod
    def of(cls, client: Client, path: str, name: str, entry: Entry) -> Change:
        """Raises Failure when the file cannot be read, or not be edited without losing something."""
        before = _read(path)
        try:
            return cls(path, before, client.put(before or "", name, entry))
        except Uneditable as exc:
            raise Failure(
                Kind.conflict,
                f"{path} cannot be changed safely: {exc}. Nothing was written. "
                "Without --write the settings are printed, to be put there by hand.",
            ) from exc

    @property
    def needed(self) -> bool:
        return self.before != self.after

    def shown(self) -> str:
        """The change as a diff. What else is in the file, and may be secret, is not shown."""
        import difflib

        from fairlead.surfaces.cli.console import harmless

        before, after = (self.before or "").splitlines(), self.after.splitlines()
        return harmless(
            "\n".join(difflib.unified_diff(before, after, self.path, self.path, lineterm="", n=0))
        )

    def write(self) -> str | None:
        """Replace the file in one step; gives the path of the copy of what it was. Raises Failure."""
        import tempfile

        path = os.path.realpath(self.path)  # a link to the settings stays a link
        if _read(path) != self.before:
            raise Failure(
                Kind.conflict, f"{path} has changed meanwhile. Nothing was written; run this again."
            )
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            kept = None if self.before is None else _copied(path)
            descriptor, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".fairlead-")
            try:
                with open(descriptor, "w", encoding="utf-8", newline="") as file:
                    file.write(self.after)
                    file.flush()
                    os.fsync(file.fileno())
                os.chmod(new, _mode(path))
                os.replace(new, path)
            except BaseException:
                os.unlink(new)
                raise
        except OSError as exc:
            raise Failure(Kind.misconfigured, f"{path} cannot be written: {exc.strerror}.") from exc
        return kept


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise Failure(Kind.misconfigured, f"{path} cannot be read: {exc}.") from exc


def _copied(path: str) -> str:
    import shutil

    kept = f"{path}.bak"
    shutil.copy2(path, kept)
    return kept


def _mode(path: str) -> int:
    """The file's mode; a new one is for its owner, for it may come to hold secrets."""
    try:
        return os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        return 0o600


def agreed(change: Change, console: Console) -> bool:
    """Show the change and wait for a yes. Raises Failure where there is nobody to ask."""
    console.say(change.shown())
    if not console.interactive:
        raise Failure(
            Kind.refused_by_user,
            f"{change.path} was left as it is: there is no terminal to ask at. Add --yes to write it.",
        )
    console.say("Write this? [y/N] ", end="")
    answer = console.stdin.readline()
    if not answer:
        console.say("")
    return answer.strip().lower() in _YES
