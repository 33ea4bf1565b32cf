"""Pins with hashes, in `requirements/`: what `make lock` writes.

Only names, versions and hashes are kept: where packages come from is for whoever installs them to say.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Files, and the extras that are in them.
LOCKS = {"core": (), "all": ("all",), "dev": ("dev",)}


def main(uv: str) -> None:
    (ROOT / "requirements").mkdir(exist_ok=True)
    for name, extras in LOCKS.items():
        chosen = [word for extra in extras for word in ("--extra", extra)]
        quiet = ["--quiet", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
        command = [uv, "pip", "compile", "pyproject.toml", "--universal", "--python-version", "3.11"]
        output = ["--generate-hashes", "--no-emit-package", "fairlead", "-o", f"requirements/{name}.txt"]
        subprocess.run([*command, *quiet, *chosen, *output], cwd=ROOT, check=True)


if __name__ == "__main__":
    main(sys.argv[1])
