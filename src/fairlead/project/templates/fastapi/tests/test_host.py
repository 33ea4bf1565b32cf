"""The host serves its own pages and the actions, and knows callers by their keys."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A key that may write, in a file of its own."""
    file = tmp_path / "keys.json"
    monkeypatch.setenv("MY_APP_KEYS", str(file))
    monkeypatch.setenv("MY_APP_NOTES", str(tmp_path / "notes.jsonl"))
    new = [sys.executable, "-m", "fairlead", "keys", "new", "tester", "--permissions", "notes:*"]
    done = subprocess.run([*new, "--file", str(file), "--json"], capture_output=True, check=True)
    made: str = json.loads(done.stdout)["key"]
    return made


@pytest.fixture
def client(key: str) -> Iterator[TestClient]:
    sys.modules.pop("main", None)
    from main import host

    with TestClient(host) as client:
        yield client


def test_the_hosts_own_pages_are_there(client: TestClient) -> None:
    assert client.get("/").json()["docs"] == "/api/docs"


def test_actions_are_called_over_http(client: TestClient, key: str) -> None:
    bearer = {"Authorization": f"Bearer {key}"}
    path = "/api/fairlead/actions/add_note/invoke"
    made = client.post(path, json={"input": {"text": "Buy tea"}}, headers=bearer)
    assert made.json()["data"] == {"id": 1, "text": "Buy tea"}
    found = client.post("/api/fairlead/actions/find_notes/invoke", json={"input": {"word": "tea"}})
    assert [note["id"] for note in found.json()["data"]] == [1]


def test_who_has_no_key_cannot_write(client: TestClient) -> None:
    refused = client.post(
        "/api/fairlead/actions/add_note/invoke",
        json={"input": {"text": "x"}, "auth": {"permissions": ["*"]}},
    )
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "AUTHENTICATION_ERROR"
