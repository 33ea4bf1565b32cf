"""What `make bench` writes: figures that were measured, or those of before."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def scale() -> ModuleType:
    return _module("scale")


def test_what_cannot_be_measured_here_is_refused_before_the_page_is_touched(tmp_path: Path) -> None:
    before = PAGE.read_bytes()
    command = [sys.executable, "benchmarks/run.py", "--only", "http,mcp-http"]
    # Nowhere to find `wrk`.
    env = os.environ | {"PATH": str(tmp_path)}
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=50)
    assert ran.returncode == 2
    assert ran.stderr.startswith("http, mcp-http: ")
    assert "apt-get install wrk" in ran.stderr
    assert PAGE.read_bytes() == before


def test_the_model_reads_each_rate_in_its_own_section(scale: ModuleType) -> None:
    page = PAGE.read_text()
    assert scale.rates(page).http > 100
    head, _, rest = page.partition("\n## HTTP\n")
    emptied = f"{head}\n## HTTP\n\n## Server-sent events\n{rest.partition('## Server-sent events')[2]}"
    with pytest.raises(LookupError):
        scale.rates(emptied)


def test_the_page_says_at_a_glance_which_targets_its_sections_miss() -> None:
    _, *parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    sections = {part.partition("\n")[0]: part for part in parts}
    glance = sections.pop("At a glance")
    assert f"## {glance.strip()}" == _module("report").at_a_glance(sections)
    missed = sum(
        line.endswith("| no |")
        for part in sections.values()
        for line in part.split("| met |")[-1].splitlines()
    )
    met, _, asked = glance.split("| all | ")[1].partition(" |")[0].partition(" of ")
    assert int(asked) - int(met) == missed
