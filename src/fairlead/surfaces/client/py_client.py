"""A client in Python, in one module: the app's types, and a class with a method for each action, async and sync."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from fairlead import _json
from fairlead.actions import Action
from fairlead.surfaces.client.client import Client
from fairlead.surfaces.client.contracts import Contract, contracts
from fairlead.surfaces.client.py_types import STEP, Types, docstring, is_name
from fairlead.surfaces.client.shapes import Names
from fairlead.surfaces.client.sync import SyncClient

_TYPING = ("Any", "Literal", "Never", "NotRequired", "TypeAlias", "TypedDict", "Unpack", "overload")
_OURS = ("Client", "InvokeOptions", "Reply", "SyncClient")


def python(actions: Sequence[Action[..., Any]], *, name: str, header: str) -> str:
    """The module's text; the same actions give the same text."""
    names = Names([name, f"Sync{name}", *taken_names()])
    found = contracts(actions, names)
    types = Types((each for contract in found for each in contract.definitions), names)
    parts = [
        *types.written,
        _class(name, "Client", found, types, asynchronous=True),
        _class(f"Sync{name}", "SyncClient", found, types, asynchronous=False),
    ]
    return f"# {header}\n" + _head("".join(parts)) + "".join(f"\n\n{part}" for part in parts)


def taken_names() -> set[str]:
    """The names that the module has already, whatever the app."""
    return {"annotations", "deprecated", *_TYPING, *_OURS}


def _head(text: str) -> str:
    imports = f"from typing import {_used(_TYPING, text)}\n\n"
    imports += f"from fairlead.surfaces.client import {_used(_OURS, text)}\n"
    if "@deprecated(" in text:
        imports += "from typing_extensions import deprecated\n"
    return f'"""A typed client."""\n\nfrom __future__ import annotations\n\n{imports}'


def _used(names: tuple[str, ...], text: str) -> str:
    return ", ".join(each for each in names if re.search(rf"\b{each}\b", text))


def _class(name: str, base: str, found: list[Contract], types: Types, *, asynchronous: bool) -> str:
    about = f"The app's actions as methods{'' if asynchronous else ', for code without an event loop'}."
    actions = [contract.action.name for contract in found]
    methods = [_method(each, method_name(each.action.name, actions), types, asynchronous) for each in found]
    return f"class {name}({base}):\n{docstring(about, STEP)}" + "".join(f"\n{each}" for each in methods)


def _method(contract: Contract, name: str, types: Types, asynchronous: bool) -> str:
    define, wait = ("async def", "await ") if asynchronous else ("def", "")
    takes, gives = contract.input.name, contract.output.name
    why = contract.deprecation
    mark = "" if why is None else f"{STEP}@deprecated({_json.dumps(why or 'This action is deprecated.')})\n"
    given = f"input: {takes}"
    options = "**options: Unpack[InvokeOptions]"
    forms: list[tuple[tuple[str, ...], str]] = [
        (("self", given, "/", "*", "raw: Literal[True]", options), f"Reply[{gives}]"),
        (("self", given, "/", "*", "raw: Literal[False] = ...", options), gives),
    ]
    if types.is_keywords(contract.input.shape):
        forms.append((("self", "/", f"**input: Unpack[{takes}]"), gives))
    elif contract.needs_no_input:
        forms.append((("self",), gives))
    overloads = "".join(
        f"{STEP}@overload\n{mark}{STEP}{define} {name}({_parameters(parameters)}) -> {result}: ...\n"
        for parameters, result in forms
    )
    return (
        f"{overloads}{mark}{STEP}{define} {name}(self, *input: Any, **named: Any) -> Any:\n"
        f"{docstring(contract.action.description, STEP * 2)}"
        f'{STEP * 2}return {wait}self._called("{contract.action.name}", input, named)\n'
    )


def _parameters(given: tuple[str, ...]) -> str:
    if len(given) == 1:
        return given[0]
    return "\n" + "".join(f"{STEP * 2}{each},\n" for each in given) + STEP


def method_name(action: str, others: Collection[str] = ()) -> str:
    """The action's name, or one with an underscore where Python or the client has another use for it.

    The name that it gives way to is none of the `others`.
    """
    name = action
    while not is_name(name) or _is_used(name) or (name != action and name in others):
        name += "_"
    return name


def _is_used(name: str) -> bool:
    """Whether clients have something else of that name."""
    return hasattr(Client, name) or hasattr(SyncClient, name) or name in Client.__annotations__
