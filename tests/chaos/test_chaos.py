"""Whatever is killed, paused, cut off, filled up or moved under load: what was accepted ends, once, and clients go on.

FAIRLEAD_CHAOS_ROUNDS says how often something goes wrong; the default is quick, `make chaos` is thorough.
FAIRLEAD_CHAOS_SEED gives other faults than those of the suite.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from chaos.network import lacking
from warm import Warm
from warm_child import Child

ROUNDS = int(os.environ.get("FAIRLEAD_CHAOS_ROUNDS", "5"))
SEED = os.environ.get("FAIRLEAD_CHAOS_SEED", "1")


@pytest.fixture(scope="module", autouse=True)
def _a_network_can_be_made() -> None:
    reason = lacking()
    if reason is not None:
        pytest.skip(f"No network can be cut here: {reason}.")


def played(warm: Warm, program: str, *options: str) -> None:
    """Play a scenario."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    path = str(Path(__file__).with_name(program))
    with Child(warm, path, *options, stdin=subprocess.DEVNULL, **pipes) as playing:
        words, _ = playing.communicate()
    print(words)
    assert playing.returncode == 0, words


@pytest.mark.timeout(150 + 15 * ROUNDS)
@pytest.mark.parametrize("form", ["postgres", "nats"])
def test_whatever_goes_wrong_nothing_is_lost_nothing_is_done_twice_and_clients_resume(
    form: str, warm_python: Warm
) -> None:
    played(warm_python, "run.py", "--form", form, "--seed", SEED, "--rounds", str(ROUNDS))


def test_a_machine_that_vanishes_leaves_nothing_behind_in_the_database(warm_python: Warm) -> None:
    played(warm_python, "vanish.py")


def test_a_server_on_a_full_or_read_only_disk_says_so_and_goes_on_when_it_is_mended(
    warm_python: Warm,
) -> None:
    played(warm_python, "disk.py")
