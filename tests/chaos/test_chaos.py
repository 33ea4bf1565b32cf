"""Whatever is killed, paused, cut off, filled up or moved under load: what was accepted ends, once, and clients go on.

FAIRLEAD_CHAOS_ROUNDS says how often something goes wrong; the default is quick, `make chaos` is thorough.
FAIRLEAD_CHAOS_SEED gives other faults than those of the suite.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.network import lacking
from servers import ends_with_us

ROUNDS = int(os.environ.get("FAIRLEAD_CHAOS_ROUNDS", "5"))
SEED = os.environ.get("FAIRLEAD_CHAOS_SEED", "1")


@pytest.fixture(scope="module", autouse=True)
def _a_network_can_be_made() -> None:
    reason = lacking()
    if reason is not None:
        pytest.skip(f"No network can be cut here: {reason}.")


def played(program: str, *options: str) -> None:
    """Play a scenario where networks and mounts are its own."""
    run = [sys.executable, str(Path(__file__).with_name(program)), *options]
    done = subprocess.run(
        ["unshare", "--net", "--mount", *run],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=ends_with_us(signal.SIGTERM),
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout


@pytest.mark.timeout(150 + 15 * ROUNDS)
@pytest.mark.parametrize("form", ["postgres", "nats"])
def test_whatever_goes_wrong_nothing_is_lost_nothing_is_done_twice_and_clients_resume(form: str) -> None:
    played("run.py", "--form", form, "--seed", SEED, "--rounds", str(ROUNDS))


def test_a_machine_that_vanishes_leaves_nothing_behind_in_the_database() -> None:
    played("vanish.py")


def test_a_server_on_a_full_or_read_only_disk_says_so_and_goes_on_when_it_is_mended() -> None:
    played("disk.py")
