"""Scripts of the scripted model as files, TOML or JSON.

repeat = true

[[turn]]
reasoning = "I need the tool."
calls = [{ name = "add", arguments = { a = 1, b = 2 } }]

[[turn]]
text = "The sum is 3."
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args

from fairlead import _json
from fairlead.actions.policy import near_miss
from fairlead.agents.models.model import Stop, ToolCall, Usage
from fairlead.agents.models.script import ScriptModel, Turn
from fairlead.failures import Failure, Kind
from fairlead.failures.failure import revive
from fairlead.failures.runtime import ConfigError

_FILE: Final = {"turn": list, "repeat": bool, "follow": str, "window": int}
_TURN: Final = {
    "text": str,
    "reasoning": str,
    "calls": list,
    "stop": str,
    "usage": dict,
    "pieces": list,
    "failure": dict,
}
_CALL: Final = {"name": str, "arguments": (dict, str), "id": str}
_USAGE: Final = {"input": int, "output": int, "cache_read": int, "cache_write": int, "cost": (int, float)}
_FAILURE: Final = {"code": str, "message": str}
_FOLLOW: Final = ("conversation", "order")


def read_script(path: Path, name: str) -> ScriptModel:
    """The model that a file describes. In a file each conversation begins at the first turn by default.

    Raises:
        Failure: the file is not there, or not a script.
    """
    where = f"The script {str(path)!r}"
    given = _checked(where, _content(path, where), _FILE)
    turns = [_turn(f"{where}, turn {at}", turn) for at, turn in enumerate(given.get("turn", ()), 1)]
    if not turns:
        raise ConfigError(f"{where} has no turns. Write one: [[turn]] and below it text = '...'")
    follow = given.get("follow", "conversation")
    if follow not in _FOLLOW:
        raise ConfigError(f"{where}: 'follow' is not one of {', '.join(_FOLLOW)}.")
    return ScriptModel(
        turns,
        name=name,
        follow=follow,
        repeat=given.get("repeat", False),
        window=given.get("window", 128_000),
        record=False,
    )


def _content(path: Path, where: str) -> Any:
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise Failure(Kind.not_found, f"{where} cannot be read: {exc.strerror}.") from exc
    try:
        if path.suffix == ".json":
            return _json.loads(content)
        import tomllib

        return tomllib.loads(content.decode())
    except ValueError as exc:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ConfigError(f"{where} is not {kind}: {exc}.") from exc


def _turn(where: str, given: Any) -> Turn:
    turn = _checked(where, given, _TURN)
    stop = turn.get("stop")
    if stop is not None and stop not in get_args(Stop):
        raise ConfigError(f"{where}: 'stop' is not one of {', '.join(get_args(Stop))}.")
    pieces = turn.get("pieces", ())
    if not all(isinstance(piece, str) for piece in pieces):
        raise ConfigError(f"{where}: 'pieces' is not a list of texts.")
    return Turn(
        text=turn.get("text", ""),
        reasoning=turn.get("reasoning"),
        calls=tuple(_call(f"{where}, call {at}", one) for at, one in enumerate(turn.get("calls", ()), 1)),
        stop=stop,
        usage=Usage(**_checked(f"{where}, usage", turn.get("usage", {}), _USAGE)),
        pieces=tuple(pieces),
        failure=_failure(f"{where}, failure", turn["failure"]) if "failure" in turn else None,
    )


def _call(where: str, given: Any) -> ToolCall:
    one = _checked(where, given, _CALL)
    if not one.get("name"):
        raise ConfigError(f"{where} has no name. Say which tool is called: name = '...'")
    arguments = one.get("arguments", {})
    text = arguments if isinstance(arguments, str) else _json.dumps(arguments)
    return ToolCall(one["name"], text, one.get("id", ""))


def _failure(where: str, given: Any) -> Failure:
    told = _checked(where, given, _FAILURE)
    return revive("runtime", told.get("code", "api_error"), None, message=told.get("message"))


def _checked(where: str, given: Any, allowed: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ConfigError(f"{where} is not a table.")
    for key, value in given.items():
        if key not in allowed:
            raise ConfigError(f"{where} has no key {key!r}.{near_miss(key, allowed)}")
        kind = allowed[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            names = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
            raise ConfigError(f"{where}: {key!r} is {type(value).__name__}, expected {names}.")
    return given
