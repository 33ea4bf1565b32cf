"""`plumb serve`: pipelines as actions over HTTP."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "double.plumb").write_text(
        "(* Doubles. *)\nlet main : !{ n: int } -> !{ n: int } = map({ n: n * 2 })\n"
    )
    (tmp_path / "shout.plumb").write_text('let main : !string -> !string = map(value + "!")\n')
    command = [
        sys.executable,
        "-m",
        "fairlead",
        "plumb",
        "serve",
        "double.plumb",
        "shout.plumb",
        "--port",
        "0",
    ]
    environ = {**os.environ, "FAIRLEAD_DATA": str(tmp_path / "data")}
    child = subprocess.Popen(
        command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert child.stdout is not None
    found = next(word for line in child.stdout for word in line.split() if word.startswith("http://"))
    yield found
    child.terminate()
    child.communicate(timeout=20)


def posted(address: str, name: str, body: object) -> object:
    request = urllib.request.Request(
        f"{address}/{name}/invoke", json.dumps({"input": body}).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())["data"]


def test_each_pipeline_is_an_action(address: str) -> None:
    assert posted(address, "double", {"n": 21}) == {"n": 42}
    assert posted(address, "shout", {"value": "hey"}) == "hey!"
