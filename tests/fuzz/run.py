"""Fuzz the parsers for a while: `make fuzz SECONDS=60`, or one of them with TARGET=name.

With atheris, which `pip install 'fairlead[fuzz]'` brings, inputs are found by the lines that they reach; without it,
they are made by hypothesis. What breaks a parser is written to `build/fuzz/NAME`, to be put into `corpus/NAME`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOUND = HERE.parents[1] / "build" / "fuzz"
sys.path.insert(0, str(HERE.parent))


def guided(name: str, seconds: float) -> None:
    """Never returns: libFuzzer ends the process."""
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["fairlead"]):
        from fuzz.targets import TARGETS, seeds
    folder = FOUND / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(name)):
        (folder / f"seed-{number}").write_bytes(data)
    options = [
        f"-max_total_time={seconds:.0f}",
        "-max_len=4096",
        "-timeout=10",
        "-verbosity=0",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/", str(folder)], TARGETS[name])
    atheris.Fuzz()


def blind(name: str, seconds: float) -> None:
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    from fuzz.targets import TARGETS
    from fuzz.test_fuzz import mutated

    @settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.binary(max_size=2_000) | mutated(name))
    def answered(data: bytes) -> None:
        TARGETS[name](data)

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answered()


def main() -> int:
    from fuzz.targets import TARGETS

    seconds = float(os.environ.get("SECONDS", "60"))
    names = [os.environ["TARGET"]] if os.environ.get("TARGET") else sorted(TARGETS)
    broken = []
    for name in names:
        print(f"{name}: {seconds / len(names):.0f} s", flush=True)
        done = subprocess.run(
            [sys.executable, __file__, name, str(max(1.0, seconds / len(names)))], check=False
        )
        if done.returncode:
            broken.append(name)
    print(f"broken: {', '.join(broken)}" if broken else "every input was answered")
    return bool(broken)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        (guided if find_spec("atheris") else blind)(sys.argv[1], float(sys.argv[2]))
    else:
        sys.exit(main())
