"""`file_read`: artifacts, and by no spelling anything else."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairlead._json import dumps
from fairlead.plugins import slots
from fairlead.plugins.files import LARGEST
from fairlead.store import open_store
from fairlead.tools.artifacts import Artifacts
from plugins.plugin_host import Host


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    with open_store(url=f"sqlite:///{tmp_path}/store.db") as store:
        host = Host(store, tmp_path)
        (tmp_path / "secret.txt").write_text("not an artifact")
        (host.artifacts / "run").mkdir()
        (host.artifacts / "run" / "report.csv").write_bytes(b"a,b\n\xff\x00")
        yield host
        await host.close()


async def read(host: Host, path: str) -> Any:
    return await host.told(slots.FILE_READ, dumps({"path": path}))


async def test_an_artifact_comes_as_base64_with_its_size_and_type(host: Host) -> None:
    told = await read(host, f"{host.artifacts}/run/report.csv")
    assert told == {
        "data": base64.b64encode(b"a,b\n\xff\x00").decode(),
        "size": 6,
        "mime_type": "text/csv",
    }
    (line,) = await host.lines()
    assert line.title == f"GET /host-api/file_read → {host.artifacts}/run/report.csv"
    assert line.status == 200


async def test_what_a_call_has_shared_can_be_read_where_it_was_put(host: Host) -> None:
    kept = Artifacts(host.store, host.artifacts)
    artifact = await kept.put("chart.svg", b"<svg/>", owner="ann", context="c 1")
    told = await read(host, str(kept.path(artifact)))
    assert (base64.b64decode(told["data"]), told["mime_type"]) == (b"<svg/>", "image/svg+xml")


@pytest.mark.parametrize(
    "spelling", ["{}/./run/report.csv", "{}//run/../run/report.csv", "{}/x/../run/report.csv"]
)
async def test_a_path_is_read_by_what_it_means(host: Host, spelling: str) -> None:
    assert (await read(host, spelling.format(host.artifacts)))["size"] == 6


@pytest.mark.parametrize(
    "path",
    [
        "{root}/secret.txt",
        "{root}/artifacts/../secret.txt",
        "{root}/artifacts/run/../../secret.txt",
        "{root}/artifacts-other/x.txt",
        "{root}/artifacts",
        "{root}/artifacts/",
        "{root}/artifacts/run/..",
        "run/report.csv",
        "../secret.txt",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "/proc/self/environ",
        "{root}/artifacts/run/report.csv\u0000.txt",
    ],
)
async def test_what_is_not_an_artifact_is_denied(host: Host, tmp_path: Path, path: str) -> None:
    assert (await read(host, path.format(root=tmp_path)))["error"] == "access_denied"


async def test_links_are_followed_within_and_never_out(host: Host, tmp_path: Path) -> None:
    run = host.artifacts / "run"
    (run / "same.csv").symlink_to("report.csv")
    (run / "out.txt").symlink_to(tmp_path / "secret.txt")
    (run / "up").symlink_to("../..")
    (run / "etc").symlink_to("/etc")
    assert (await read(host, f"{run}/same.csv"))["size"] == 6
    for path in ("out.txt", "up/secret.txt", "etc/passwd"):
        assert (await read(host, f"{run}/{path}"))["error"] == "access_denied", path


async def test_what_is_not_there_is_not_found(host: Host) -> None:
    for path in ("run/none.txt", "none/none.txt", "run/report.csv/inside"):
        told = await read(host, f"{host.artifacts}/{path}")
        assert told["error"] == "not_found"
    assert {line.status for line in await host.lines()} == {404}


async def test_a_folder_and_a_pipe_cannot_be_read(host: Host) -> None:
    os.mkfifo(host.artifacts / "run" / "pipe")
    for path in ("run", "run/pipe"):
        assert (await read(host, f"{host.artifacts}/{path}"))["error"] == "read_error"


async def test_a_file_of_50_000_000_bytes_is_read_and_one_byte_more_is_too_large(host: Host) -> None:
    assert LARGEST == 50_000_000
    file = host.artifacts / "run" / "big.bin"
    with file.open("wb") as handle:
        handle.truncate(LARGEST)
    assert (await read(host, str(file)))["size"] == LARGEST
    with file.open("wb") as handle:
        handle.truncate(LARGEST + 1)
    assert (await read(host, str(file)))["error"] == "file_too_large"


@pytest.mark.parametrize("request_json", ["not json", "[]", "{}", '{"path":5}', '{"path":""}'])
async def test_a_request_without_a_path_is_refused(host: Host, request_json: str) -> None:
    assert (await host.told(slots.FILE_READ, request_json))["error"] == "invalid_request"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.png", "image/png"),
        ("a.JPG", "image/jpeg"),
        ("a.md", "text/markdown"),
        ("a.m4a", "audio/mp4"),
        ("a.hpp", "text/x-c++"),
        ("a.yml", "application/yaml"),
        ("a.odd", "application/octet-stream"),
        ("odd", "application/octet-stream"),
    ],
)
async def test_the_type_follows_the_ending(host: Host, name: str, kind: str) -> None:
    (host.artifacts / name).write_text("x")
    assert (await read(host, f"{host.artifacts}/{name}"))["mime_type"] == kind
