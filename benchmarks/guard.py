"""Whether a change made the hot paths heavier, by instructions and not by time: `make guard`.

valgrind counts what the processor does for some calls and for more of them; the difference is what a call takes,
whatever else the machine is doing. It is held as a multiple of what pydantic takes for the same validation, so that
another processor changes both. `--write` keeps what was found as the new bound for the Python that runs this: of the
same code one Python makes a seventh more than another does. One that nothing is kept for is held to the highest.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent
KEPT = BENCHMARKS / "guard.json"
REFERENCE = "contenders.reference:adapter"
#: Each by the module and the function that make its batch, and how many calls are counted.
PATHS = {
    "a call": ("contenders.fairlead:valid", 10_000),
    "a call with every policy": ("contenders.fairlead:policies", 5_000),
    "a call that is repaired": ("contenders.fairlead:repaired", 2_000),
    "a chunk of a stream": ("contenders.fairlead:chunk_stream", 20_000),
    "a log event of a stream": ("contenders.fairlead:log_stream", 10_000),
    "a run of an agent, 20 steps": ("contenders.agents:steps_20", 50),
    "a message through map and filter": ("contenders.pipelines:pair", 20_000),
    "a call over HTTP": ("contenders.surfaces:http", 5_000),
    "a call over MCP": ("contenders.surfaces:mcp", 5_000),
}
#: How much heavier a path may get before it is said.
ALLOWED = 1.10
#: Calls before the ones that are counted. Starting differs by some million instructions, so many calls are counted.
WARM = 50

RUN = """
import asyncio, importlib, sys
module, maker = sys.argv[1].split(":")
async def main():
    batch = getattr(importlib.import_module(module), maker)()
    await batch(1)
    await batch(int(sys.argv[2]))
asyncio.run(main())
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep what was found as the new bound")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("Counting needs valgrind: sudo apt-get install valgrind", file=sys.stderr)
        return 2
    base = _each(REFERENCE, 20_000)
    found = {}
    for name, (maker, count) in PATHS.items():
        found[name] = round(_each(maker, count) / base, 2)
        print(f"{name}: {found[name]:.2f} of pydantic's validate and dump", flush=True)
    bounds = json.loads(KEPT.read_text())
    if options.write:
        KEPT.write_text(json.dumps(bounds | {platform.python_version(): found}, indent=2) + "\n")
        return 0
    highest = {name: max(each.get(name, 0) for each in bounds.values()) for name in PATHS}
    kept = highest | bounds.get(platform.python_version(), {})
    heavier = {name: now / kept[name] for name, now in found.items() if now > kept[name] * ALLOWED}
    for name, ratio in heavier.items():
        print(f"HEAVIER  {name}: {ratio:.2f} times what it was. Make it lighter, or mean it: --write.")
    return 1 if heavier else 0


def _each(maker: str, count: int) -> float:
    """Instructions for one call."""
    return (_instructions(maker, WARM + count) - _instructions(maker, WARM)) / count


def _instructions(maker: str, count: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={folder}/out",
                sys.executable,
                "-X",
                "frozen_modules=on",
                "-c",
                RUN,
                maker,
                str(count),
            ],
            cwd=BENCHMARKS,
            env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(BENCHMARKS)},
            capture_output=True,
            text=True,
        )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f"{maker} could not be counted: {done.stderr.strip().splitlines()[-1]}")
    return int(found[1])


if __name__ == "__main__":
    sys.exit(main())
