"""What a person has set for a plugin: what its tools may do without asking, and what models are told of it.

One small file beside the plugin's versions, so that it stays when the plugin is updated.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Literal, cast

from fairlead import _json
from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Kind

FILE: Final = "settings.json"
POLICIES: Final = ("auto", "ask", "deny")
_POLICY: Final = "tools"
_INSTRUCTIONS: Final = "instructions"


class Preferences:
    """The settings of one plugin, in its folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._file = Path(folder) / FILE

    def policy(self, tool: str) -> Literal["auto", "ask", "deny"] | None:
        """What was set for a tool; None where the plugin's own word counts."""
        found = self._read()[_POLICY].get(tool)
        return cast("Any", found) if found in POLICIES else None

    def instructions(self, agent: str | None) -> str | None:
        """What models are told for an agent in place of the plugin's own words; None where nothing was set."""
        found = self._read()[_INSTRUCTIONS].get(agent or "")
        return found if isinstance(found, str) and found.strip() else None

    def set_policy(self, tool: str, policy: str | None) -> None:
        """Set what a tool may do, or with None let the plugin's own word count again. Raises Failure."""
        if policy is not None and policy not in POLICIES:
            words = f"{policy!r} is no policy. Expected {', '.join(POLICIES)}.{near_miss(policy, POLICIES)}"
            raise Failure(Kind.invalid_input, words, field="policy")
        self._set(_POLICY, tool, policy)

    def set_instructions(self, agent: str, text: str | None) -> None:
        """Set what models are told for an agent, or with None the plugin's own words again."""
        self._set(_INSTRUCTIONS, agent, text)

    def _set(self, section: str, name: str, value: str | None) -> None:
        settings = self._read()
        settings[section].pop(name, None)
        if value is not None:
            settings[section][name] = value
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._file.with_name(f".{FILE}.{os.getpid()}")
        temporary.write_bytes(_json.encode(settings, sort_keys=True))
        temporary.replace(self._file)

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            found = _json.loads(self._file.read_bytes())
        except FileNotFoundError:
            found = {}
        except (OSError, ValueError) as exc:
            told = exc.strerror if isinstance(exc, OSError) else exc
            raise Failure(Kind.misconfigured, f"{str(self._file)!r} cannot be read: {told}.") from exc
        whole = found if isinstance(found, dict) else {}
        return {
            section: dict(whole[section]) if isinstance(whole.get(section), dict) else {}
            for section in (_POLICY, _INSTRUCTIONS)
        }
