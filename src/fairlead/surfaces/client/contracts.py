"""What a written client says about each action, whatever the language: its types' names and its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fairlead.actions import Action
from fairlead.surfaces.client.shapes import UNKNOWN, Definition, Fields, Names, pascal, read


class Contract(NamedTuple):
    """An action and its types, by name."""

    action: Action[..., Any]
    input: Definition
    output: Definition
    #: What these two refer to.
    others: tuple[Definition, ...]

    @property
    def definitions(self) -> tuple[Definition, ...]:
        return (self.input, self.output, *self.others)

    @property
    def needs_no_input(self) -> bool:
        """Whether a call without input is a good one."""
        shape = self.input.shape
        if isinstance(shape, Fields):
            return not any(field.required for field in shape.fields)
        return shape == UNKNOWN

    @property
    def deprecation(self) -> str | None:
        """What to say of a deprecated action; None for one that is not."""
        about = self.action.deprecation
        if about is None:
            return None
        instead = f"Use `{about.replacement}` instead." if about.replacement else None
        return one_line(" ".join(part for part in (about.message, instead) if part))


def contracts(actions: Sequence[Action[..., Any]], names: Names) -> list[Contract]:
    """The actions' contracts, in their order."""
    return [_contract(action, names) for action in actions]


def one_line(text: str) -> str:
    """Text without line ends of any kind: in a comment, what follows one would be code."""
    return " ".join(text.split())


def _contract(action: Action[..., Any], names: Names) -> Contract:
    taken, given = names.take(f"{pascal(action.name)}Input"), names.take(f"{pascal(action.name)}Output")
    output = True if action.output is None else action.output.output_json_schema
    inputs = read(action.input.json_schema, taken, names, f"What `{action.name}` takes.")
    outputs = read(output, given, names, f"What `{action.name}` gives.")
    return Contract(action, inputs[0], outputs[0], (*inputs[1:], *outputs[1:]))
