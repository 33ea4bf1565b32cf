"""Modules of which each uses two, that use the same two: few files, and many ways to the last."""

from pathlib import Path

STEPS = 40


def ladder(folder: Path) -> str:
    """Write the modules; gives a program that uses them."""
    for step in range(STEPS):
        uses = f"use ./a{step + 1} use ./b{step + 1} " if step + 1 < STEPS else ""
        for side in "ab":
            (folder / f"{side}{step}.plumb").write_text(f"{uses}let same : !int -> !int = id")
    return "use ./a0 use ./b0 let main : !int -> !int = A0.same"
