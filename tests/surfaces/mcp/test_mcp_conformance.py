"""The official conformance suite, against the app in `conformance/`: all that two revisions require."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

HERE = Path(__file__).parent / "conformance"
SUITE = Path(__file__).parents[2] / "node/node_modules/@modelcontextprotocol/conformance/dist/index.js"
EXPECTED = HERE / "expected-failures.yml"


def endpoint() -> Any:
    spec = importlib.util.spec_from_file_location("conformance_app", HERE / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.server.http()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    server = uvicorn.Server(uvicorn.Config(endpoint(), log_level="critical"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    server.should_exit = server.force_exit = True
    thread.join()
    listening.close()


@pytest.mark.parametrize(
    ("revision", "options"),
    [("2025-11-25", []), ("2026-07-28", ["--expected-failures", str(EXPECTED)])],
)
def test_the_server_conforms_to_what_the_revision_requires(
    url: str, revision: str, options: list[str], tmp_path: Path
) -> None:
    ours = Path(sys.executable).with_name("node")
    node = ours if ours.exists() else shutil.which("node")
    command = [str(node), str(SUITE), "server", "--url", url, "--requirements", revision, *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=55, cwd=tmp_path)
    summary = ran.stdout[ran.stdout.find("=== SUMMARY") :]
    assert ran.returncode == 0, summary or ran.stderr
    failed = [line for line in summary.splitlines() if line.startswith("✗")]
    assert all(line.startswith("✗ tasks-") for line in failed)
    assert summary.count("✓") >= 30
