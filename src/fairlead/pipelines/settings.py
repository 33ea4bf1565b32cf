"""The settings of agents, tools, programs and budgets: which there are, and what each may be."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fairlead.pipelines import tree
from fairlead.pipelines.problems import near

#: Tells of a problem: offset, message, hint.
Tell = Callable[[int, str, str], None]


@dataclass(frozen=True, slots=True)
class Key:
    """What a setting has to be."""

    kind: str
    words: str
    least: float | None = None


_POLICY: Final = {
    "retry": Key("int", "how often it is tried again after a transient failure", 0),
    "backoff": Key("number", "seconds before it is tried again; twice as long each time", 0),
    "timeout": Key("number", "seconds for one message", 0),
}
KEYS: Final[dict[str, dict[str, Key]]] = {
    "agent": {
        "provider": Key("string", "the model's provider"),
        "model": Key("string", "the model"),
        "prompt": Key("string", "what the agent is told"),
        "prompts": Key("strings", "files that the agent is told"),
        "max_retries": Key("int", "how often a reply of the wrong type is asked for again", 0),
        "max_tokens": Key("int", "tokens of one reply", 1),
        "max_tool_calls": Key("int", "tool calls for one message", 0),
        "thinking_budget": Key("int", "tokens for thoughts", 1),
        "endpoint": Key("string", "the address of the model's API"),
        "temperature": Key("number", "how freely it answers", 0),
        "amnesiac": Key("bool", "whether each message begins a new conversation"),
        "max_messages": Key("int", "messages that are taken before it ends", 1),
        "runtime_context": Key("bool", "whether the agent is told about its run"),
        "tools": Key("references", "the tools that it may use"),
        "mcp": Key("configs", "MCP servers whose tools it may use"),
        **_POLICY,
    },
    "tool": {
        "process": Key("reference", "the process behind the tool"),
        "builtin": Key("string", "the built-in tool"),
        "approve": Key("bool", "whether the operator is asked"),
        "description": Key("string", "what the tool is for"),
    },
    "exec": {
        "cmd": Key("string", "the program"),
        "args": Key("strings", "its arguments"),
        "cwd": Key("string", "the folder it runs in"),
        "settle": Key("number", "seconds of silence after which it counts as idle", 0),
        "timeout": Key("number", "seconds for one message", 0),
    },
    "action": {**_POLICY},
    "budget": {
        "tokens": Key("int", "tokens in and out", 0),
        "cost": Key("number", "US dollars", 0),
        "time": Key("number", "seconds", 0),
        "calls": Key("int", "calls of actions, tools and models", 0),
    },
}
BUILTINS: Final = ("read", "write", "edit", "grep", "list", "delete", "exec", "call")
_WORDS: Final = {
    "string": 'a "text"', "int": "a whole number", "number": "a number", "bool": "true or false",
    "strings": 'a list of "texts"', "reference": "the name of a process", "references": "a list of names",
    "configs": "a list of { ... }",
}  # fmt: skip


def read(kind: str, config: tree.Config, tell: Tell) -> dict[str, tree.Value]:
    """The settings that are right, by key; the others are told."""
    keys, found = KEYS[kind], {}
    for setting in config.settings:
        key = keys.get(setting.key)
        if key is None:
            hint = near(setting.key, keys) or f"There are: {', '.join(keys)}."
            tell(setting.at, f"`{kind}` has no setting {setting.key!r}.", hint)
        elif setting.key in found:
            tell(setting.at, f"The setting {setting.key!r} is given twice.", "")
        elif not _suits(key, setting.value.value):
            least = f" of at least {key.least:g}" if key.least is not None else ""
            tell(
                setting.value.at,
                f"{setting.key!r} has to be {_WORDS[key.kind]}{least}.",
                f"It is {key.words}.",
            )
        else:
            found[setting.key] = setting.value
    return found


def _suits(key: Key, value: Any) -> bool:
    match key.kind:
        case "string":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool)
        case "int" | "number":
            kinds = int if key.kind == "int" else (int, float)
            return isinstance(value, kinds) and not isinstance(value, bool) and value >= (key.least or 0)
        case "reference":
            return isinstance(value, tree.Reference)
        case "strings":
            return isinstance(value, list) and all(isinstance(each.value, str) for each in value)
        case "references":
            return isinstance(value, list) and all(isinstance(each.value, tree.Reference) for each in value)
        case "configs":
            return isinstance(value, list) and all(isinstance(each.value, tree.Config) for each in value)
    return False


def plain(value: Any) -> Any:
    """A setting's value without its places; references are their names."""
    match value:
        case tree.Value(value=inner):
            return plain(inner)
        case tree.Reference(name=name):
            return name
        case tree.Config(settings=settings):
            return {each.key: plain(each.value) for each in settings}
        case list():
            return [plain(each) for each in value]
    return value


def prompt_file(name: str, beside: str | None, resources: tuple[str, ...]) -> str | None:
    """Where a prompt's file is: `./x` beside the program, a bare name in one of the folders for resources."""
    if name.startswith(("./", "../", "/")):
        places = [] if beside is None and name[0] == "." else [os.path.join(beside or "", name)]
    else:
        places = [os.path.join(folder, name) for folder in resources]
    return next((os.path.normpath(each) for each in places if os.path.isfile(each)), None)
