"""A million texts for the parser, the checker and the formatter. Bounded, and the same for the same seed:

    python tests/pipelines/fuzz.py guided -runs=100000 -seed=1
    python tests/pipelines/fuzz.py mutated -runs=900000 -seed=1

First atheris (pip install 'fairlead[fuzz]') looks for bytes that reach new lines of our code, and keeps those in
`build/fuzz-pipelines`; then, without its cost, many more are made of what was kept. Without it, they are made of the
programs of this project. Bytes are read as a text, as a row of words of the language, or as choices of the strategies
that the tests use. The first text that is not answered ends the run.
"""

import random
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
#: What was found to be worth another look.
CORPUS: Final = HERE.parents[1] / "build" / "fuzz-pipelines"
sys.path.insert(0, str(HERE.parent))

GUIDED: Final = sys.argv[1:2] == ["guided"]


def _instrumented() -> Any:
    if not GUIDED:
        return nullcontext()
    return import_module("atheris").instrument_imports(include=["fairlead.pipelines"])


with _instrumented():
    from hypothesis import given, settings
    from hypothesis import strategies as st

    from pipeline_texts import TOP, VOCABULARY, sound

#: Of 16 inputs, how many are read as texts, and as words; the others are choices.
_TEXTS, _WORDS = 7, 15
#: A text has so many bytes, and a row so many words.
_LONGEST, _ROW = 128, 40


@settings(database=None, deadline=None)
@given(st.lists(TOP, max_size=5).map("\n".join))
def _program(text: str) -> None:
    sound(text)


def one(data: bytes) -> None:
    """Try one input."""
    way, rest = data[0] % 16 if data else 0, data[1:]
    if way < _TEXTS:
        sound(rest.decode(errors="replace"))
    elif way < _WORDS:
        sound(" ".join(VOCABULARY[each % len(VOCABULARY)] for each in rest[:_ROW]))
    else:
        _program.hypothesis.fuzz_one_input(rest)  # type: ignore[attr-defined]


def guided(asked: list[str]) -> None:
    """Let atheris choose; it begins with the programs of this project."""
    atheris: Any = import_module("atheris")
    _seed()
    atheris.Setup([sys.argv[0], f"-max_len={_LONGEST}", "-print_final_stats=1", *asked, str(CORPUS)], one)
    atheris.Fuzz()


def _seed() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(sorted(HERE.parents[1].glob("[des]*/**/*.plumb"))):
        (CORPUS / f"program{number}").write_bytes(b"\0" + file.read_bytes()[: _LONGEST - 1])


def mutated(runs: int, seed: int) -> None:
    """Change what was kept, a little, many times."""
    _seed()
    chance = random.Random(seed)
    kept = [file.read_bytes() for file in sorted(CORPUS.iterdir())]
    words = [word.encode() for word in VOCABULARY]
    for number in range(1, runs + 1):
        data = _changed(chance, chance.choice(kept), kept, words)
        try:
            one(data)
        except BaseException:
            print(f"input {number} of seed {seed}: {data!r}", file=sys.stderr)
            raise
        if number % 20_000 == 0 or number == runs:
            print(f"{number} inputs, no crash", flush=True)


def _changed(chance: random.Random, data: bytes, kept: list[bytes], words: list[bytes]) -> bytes:
    for _ in range(chance.randint(1, 4)):
        start = chance.randint(0, len(data))
        stop = min(len(data), start + chance.choice((0, 0, 1, 2, 8, 32)))
        new = chance.choice((b"", chance.randbytes(1), chance.choice(words), chance.choice(kept)[start:]))
        data = data[:start] + new + data[stop:]
    # Choices cost ten times as much as the others.
    way = chance.choices((0, _TEXTS, _WORDS), (49, 49, 2))[0]
    return bytes([way]) + data[1:_LONGEST]


if __name__ == "__main__":
    if GUIDED:
        guided(sys.argv[2:])
    else:
        numbers = dict(each.lstrip("-").split("=") for each in sys.argv[2:])
        mutated(int(numbers.get("runs", "900000")), int(numbers.get("seed", "1")))
