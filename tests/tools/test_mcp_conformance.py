"""The official conformance suite against our MCP client: a program that calls every tool through `McpServer`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from warm import Warm

HERE = Path(__file__).parent
SUITE = HERE.parent / "node/node_modules/@modelcontextprotocol/conformance/dist/index.js"
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


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The client, started warm for each scenario, and not at all for those of authorization."""
    warm = Warm(HERE / "mcp_conformance_client.py")
    script = tmp_path_factory.mktemp("conformance") / "client"
    ours = f'auth/*) ;; *) exec {warm.line()} "$@";;'
    script.write_text(f'#!/bin/sh\ncase "$MCP_CONFORMANCE_SCENARIO" in {ours} esac\n')
    script.chmod(0o755)
    yield script
    warm.close()


@pytest.mark.skipif(not SUITE.is_file(), reason="run `npm install` in tests/node for these")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_client_conforms(revision: str, client: Path, tmp_path: Path) -> None:
    ours = Path(sys.executable).with_name("node")
    node = ours if ours.exists() else shutil.which("node")
    command = [str(node), str(SUITE), "client", "--command", str(client)]
    command += ["--suite", "all", "--spec-version", revision]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=55, cwd=tmp_path)
    said = ran.stdout + ran.stderr
    told = dict(
        re.findall(r"^. (\S+): (\d+ passed, \d+ failed)", said[said.find("=== SUITE SUMMARY") :], re.M)
    )
    scenarios = [name for name, when in SCENARIOS if when == revision]
    failed = [name for name in scenarios if not re.match("[1-9].* 0 failed", told.get(name, ""))]
    assert failed == [], said[-6000:]
