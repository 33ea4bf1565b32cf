"""Who frees what: the C fixtures under valgrind and the address sanitizer, and memory over many calls."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.plugins.process import ProcessRunner
from plugins.native_kit import ANN, SOURCES, Answering, compile_c, compiler

PROGRAM = Path(__file__).parent / "memory_under_test.py"
PYTHON = [sys.executable, "-I", "-S", str(PROGRAM)]
# So that the interpreter's own memory comes from where the tools look.
PLAIN = {"PYTHONMALLOC": "malloc", "PATH": os.environ["PATH"]}


def sanitizer() -> str | None:
    """The runtime of the address sanitizer, where the compiler has it."""
    done = subprocess.run(
        [*compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    )
    found = done.stdout.strip()
    return found if os.path.isabs(found) else None


@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not here: apt-get install valgrind")
def test_valgrind_finds_no_misuse_of_memory_and_no_string_that_is_lost(toy: Path) -> None:
    # The interpreter is not clean of reads that only look uninitialised; ours would be found by their addresses.
    options = [
        "--error-exitcode=99",
        "--undef-value-errors=no",
        "--leak-check=full",
        "--errors-for-leak-kinds=none",
    ]
    command = ["valgrind", *options, "--show-leak-kinds=definite", "--num-callers=30"]
    done = subprocess.run(
        [*command, *PYTHON, str(toy), "2"], env=PLAIN, capture_output=True, text=True, check=False
    )
    assert "through" in done.stdout, done.stderr
    assert done.returncode == 0, done.stderr
    lost = [each for each in re.split(r"==\d+== \n", done.stderr) if "definitely lost in" in each]
    assert [each for each in lost if "strdup" in each or "toy.c" in each] == []


@pytest.mark.timeout(120)
@pytest.mark.skipif(sanitizer() is None, reason="the compiler has no address sanitizer")
@pytest.mark.parametrize("options", [[], ["-DV1"], ["-DBARE"]], ids=["newest", "oldest", "bare"])
def test_the_address_sanitizer_finds_no_misuse_of_memory(tmp_path: Path, options: list[str]) -> None:
    library = compile_c(SOURCES / "toy.c", tmp_path / "toy.so", "-fsanitize=address,undefined", *options)
    runtime = str(sanitizer())
    done = subprocess.run(
        [*PYTHON, str(library), "20"],
        env={**PLAIN, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "through" in done.stdout
    assert "runtime error" not in done.stderr


def resident(pid: int | str) -> int:
    """Bytes of memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_many_calls_leave_no_memory_behind_on_either_side(
    process_runner: Callable[..., ProcessRunner], toy: Path
) -> None:
    services = Answering()
    runner = process_runner(toy, services)
    large = "x" * 200_000

    async def round() -> tuple[int, int]:
        for _ in range(20):
            await runner.invoke("tool", "raw", large, agent=ANN, timeout=20)
            await runner.invoke("tool", "host", f"1\n{large}", agent=ANN, timeout=20)
            await runner.invoke("tool", "stream_in_stream", "x", agent=ANN, timeout=20)
        await asyncio.gather(
            *(runner.invoke("tool", "threads", "4 4", agent=ANN, timeout=20) for _ in range(4))
        )
        services.asked.clear()
        gc.collect()
        assert runner.pid is not None
        return resident("self"), resident(runner.pid)

    for _ in range(3):
        await round()
    ours, theirs = await round()
    for _ in range(6):
        ours_now, theirs_now = await round()
    # A round carries 16 MB: one string in ten that was lost would show.
    assert ours_now - ours < 3_000_000
    assert theirs_now - theirs < 3_000_000


def test_a_library_that_misuses_what_the_host_gave_is_seen_by_the_sanitizer(
    tmp_path: Path,
) -> None:
    """The check above can fail: the same run with a plugin that frees twice does."""
    if sanitizer() is None:
        pytest.skip("the compiler has no address sanitizer")
    library = compile_c(SOURCES / "toy.c", tmp_path / "toy.so", "-fsanitize=address", "-DFREES_TWICE")
    done = subprocess.run(
        [*PYTHON, str(library), "1"],
        env={**PLAIN, "LD_PRELOAD": str(sanitizer()), "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "double-free" in done.stderr
