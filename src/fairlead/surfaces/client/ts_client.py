"""A client in TypeScript, in one file: the app's types, and the code that is the same for every app."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from fairlead.actions import Action
from fairlead.failures import catalogue
from fairlead.surfaces.client.contracts import Contract, contracts
from fairlead.surfaces.client.shapes import Names
from fairlead.surfaces.client.ts_types import comment, declaration

_IMPORT = 'import { useCallback, useEffect, useRef, useState } from "react";\n'


def typescript(actions: Sequence[Action[..., Any]], *, name: str, header: str, react: bool = False) -> str:
    """The file's text; the same actions give the same text."""
    found = contracts(actions, Names([name]))
    parts = [f"// {header}\n", _codes()]
    if react:
        parts.insert(1, _IMPORT)
    parts += [declaration(each) for contract in found for each in contract.definitions]
    parts += [_actions(found), _interface(found, name)]
    parts += [_asset(file).replace("__Client__", name) for file in ("client.ts", "react.ts")[: 1 + react]]
    return "\n".join(parts)


def taken_names() -> set[str]:
    """The names that the file has already, whatever the app."""
    declared = r"^(?:export )?(?:type|interface|class|const|function) (\w+)"
    fixed = "".join(map(_asset, ("client.ts", "react.ts")))
    return {"Actions", "ActionName", "ACTION_NAMES", "KnownCode", *re.findall(declared, fixed, re.MULTILINE)}


def _asset(file: str) -> str:
    return (files(__package__) / "typescript" / file).read_text(encoding="utf-8").strip() + "\n"


def _codes() -> str:
    codes = "".join(f'\n  | "{entry.code}"' for entry in catalogue("action"))
    return f"/** The codes of failures that are known. */\nexport type KnownCode ={codes};\n"


def _actions(found: list[Contract]) -> str:
    members = "".join(
        f"  {each.action.name}: {{ input: {each.input.name}; output: {each.output.name} }};\n"
        for each in found
    )
    names = "".join(f'  "{each.action.name}",\n' for each in found)
    return f"""/** Every action by name: what it takes and what it gives. */
export interface Actions {{
{members}}}

export type ActionName = keyof Actions;

const ACTION_NAMES: ReadonlyArray<ActionName> = [
{names}];
"""


def _interface(found: list[Contract], name: str) -> str:
    # An object with a `then` would be taken for a promise; that action is called with $invoke.
    methods = "".join(_method(each) for each in found if each.action.name != "then")
    return f"""/** The app's actions as methods; `createClient` makes one. */
export interface {name} {{
{methods}  $invoke<Name extends ActionName>(
    name: Name,
    input: Actions[Name]["input"],
    options: RawInvokeOptions,
  ): Promise<Envelope<Actions[Name]["output"]>>;
  $invoke<Name extends ActionName>(
    name: Name,
    ...call: Arguments<Actions[Name]["input"], InvokeOptions>
  ): Promise<Actions[Name]["output"]>;
  $stream<Name extends ActionName>(
    name: Name,
    ...call: Arguments<Actions[Name]["input"], StreamOptions>
  ): AsyncIterable<StreamEvent<Actions[Name]["output"]>>;
  readonly $transport: Transport;
}}
"""


def _method(contract: Contract) -> str:
    takes, gives = contract.input.name, contract.output.name
    # Without quotes, `new` would say how to construct one.
    name = '"new"' if contract.action.name == "new" else contract.action.name
    about = comment(contract.action.description, contract.deprecation, "  ")
    given = f"input: {takes} | undefined" if contract.needs_no_input else f"input: {takes}"
    usual = f"input?: {takes}" if contract.needs_no_input else f"input: {takes}"
    return (
        f"{about}  {name}({given}, options: RawInvokeOptions): Promise<Envelope<{gives}>>;\n"
        f"{about}  {name}({usual}, options?: InvokeOptions): Promise<{gives}>;\n"
    )
