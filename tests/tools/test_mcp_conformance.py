"""The official conformance suite against our MCP client: a program that calls every tool through `McpServer`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SUITE = HERE.parent / "node/node_modules/@modelcontextprotocol/conformance/dist/index.js"
CLIENT = HERE / "mcp_conformance_client.py"
#: All that are neither about authorization, which is left to headers, nor about extensions.
SCENARIOS = [
    ("initialize", "2025-11-25"),
    ("tools_call", "2025-11-25"),
    ("tools_call", "2026-07-28"),
    ("elicitation-sep1034-client-defaults", "2025-11-25"),
    ("sse-retry", "2025-11-25"),
    ("request-metadata", "2026-07-28"),
    ("sep-2322-client-request-state", "2026-07-28"),
    ("http-standard-headers", "2026-07-28"),
    ("http-custom-headers", "2026-07-28"),
    ("http-invalid-tool-headers", "2026-07-28"),
    ("json-schema-ref-no-deref", "2026-07-28"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
]


@pytest.mark.skipif(not SUITE.is_file(), reason="run `npm install` in tests/node for these")
@pytest.mark.parametrize(("scenario", "revision"), SCENARIOS)
def test_the_client_conforms(scenario: str, revision: str, tmp_path: Path) -> None:
    ours = Path(sys.executable).with_name("node")
    node = ours if ours.exists() else shutil.which("node")
    command = [str(node), str(SUITE), "client", "--command", f"{sys.executable} {CLIENT}"]
    command += ["--scenario", scenario, "--spec-version", revision]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=55, cwd=tmp_path)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-3000:]
    assert "OVERALL: PASSED" in ran.stdout + ran.stderr
