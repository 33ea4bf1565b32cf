"""`mcp add`, `list`, `tools`, `test` and `remove`, and a server of the app's own at the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from fairlead import App
from fairlead.failures import Failure, Kind
from fairlead.store import open_store
from fairlead.store.secrets import Secrets
from fairlead.tools.mcp import configured_servers
from servers import ends_with_us, free_port, until
from warm import Warm

app = App("shop")
Cli = Callable[..., Any]
Asked = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRLEAD_STORE", f"sqlite:///{tmp_path}/store.db")
    return tmp_path


def written(project: Path) -> Any:
    return json.loads((project / ".mcp.json").read_text())


# The file.


def test_a_command_is_kept_in_the_common_shape(cli: Cli, project: Path) -> None:
    ran = cli(
        app,
        "mcp",
        "add",
        "files",
        "--env",
        "A=1",
        "--env=B=secret:b",
        "--",
        "npx",
        "-y",
        "server",
        "--root",
        ".",
    )
    assert (ran.code, ran.out) == (0, "")
    assert written(project) == {
        "mcpServers": {
            "files": {
                "type": "stdio",
                "command": "npx",
                "args": ["-y", "server", "--root", "."],
                "env": {"A": "1", "B": "secret:b"},
            }
        }
    }


def test_a_url_is_kept_with_its_headers_and_our_own_settings(cli: Cli, project: Path) -> None:
    flags = [
        "--header",
        "Authorization=Bearer secret:t",
        "--trust",
        "--include",
        "get_*",
        "--include",
        "list_*",
    ]
    flags += ["--prefix", "x_", "--timeout", "2.5", "--reconnect", "1"]
    ran = cli(app, "mcp", "add", "tracker", "--url", "https://x.test/mcp", *flags, "--json")
    assert ran.json["added"]["headers"] == {"Authorization": "Bearer secret:t"}
    assert written(project)["mcpServers"]["tracker"] == {
        "type": "http",
        "url": "https://x.test/mcp",
        "headers": {"Authorization": "Bearer secret:t"},
        "trust": True,
        "include": ["get_*", "list_*"],
        "prefix": "x_",
        "timeout": 2.5,
        "reconnect": 1,
    }
    (server,) = configured_servers(project)
    assert (server.trust, server.timeout, server.reconnect, server.prefix) == (True, 2.5, 1, "x_")


def test_what_others_wrote_into_the_file_stays(cli: Cli, project: Path) -> None:
    theirs = {"mcpServers": {"old": {"command": "x", "autoApprove": ["y"]}}, "inputs": [1]}
    (project / ".mcp.json").write_text(json.dumps(theirs))
    assert cli(app, "mcp", "add", "new", "--", "y").code == 0
    assert cli(app, "mcp", "remove", "new").code == 0
    assert written(project) == theirs


def test_a_name_that_is_taken_is_replaced_by_force_only(cli: Cli, project: Path) -> None:
    assert cli(app, "mcp", "add", "one", "--", "x").code == 0
    refused = cli(app, "mcp", "add", "one", "--", "y")
    assert refused.code == 1
    assert "--force" in refused.err
    assert cli(app, "mcp", "add", "one", "--force", "--", "y").code == 0
    assert written(project)["mcpServers"]["one"]["command"] == "y"


def test_a_secret_in_plain_sight_is_pointed_out_and_not_repeated(cli: Cli) -> None:
    ran = cli(app, "mcp", "add", "one", "--env", "API_TOKEN=hunter2", "--", "x")
    assert ran.code == 0
    assert "secrets set" in ran.err
    assert "hunter2" not in ran.err + cli(app, "mcp", "list", "--offline", "--json").out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--url", "https://x.test/mcp", "--header", "Authorization=Bearer hunter2hunter2"],
        ["--url", "https://x.test/mcp?api_key=hunter2hunter2"],
        ["--env", "API_TOKEN=hunter2", "--", "x"],
        ["--env", "LOGIN=https://ann:hunter2@x.test", "--", "x"],
        ["--", "x", "--token", "hunter2"],
    ],
)
def test_a_file_that_a_secret_is_in_is_its_owners_alone(
    cli: Cli, project: Path, arguments: list[str]
) -> None:
    file = project / ".mcp.json"

    def mode() -> int:
        return file.stat().st_mode & 0o777

    reference = ["--url", "https://x.test/mcp", "--header", "Authorization=Bearer secret:t"]
    assert cli(app, "mcp", "add", "harmless", *reference).code == 0
    assert cli(app, "mcp", "add", "too", "--env", "API_TOKEN=${TOKEN}", "--", "x", "--verbose").code == 0
    assert mode() == 0o644
    assert cli(app, "mcp", "add", "one", *arguments).code == 0
    assert mode() == 0o600
    # Whatever else is written, and whoever opened it meanwhile.
    file.chmod(0o644)
    assert cli(app, "mcp", "add", "two", "--", "y").code == 0
    assert mode() == 0o600
    assert cli(app, "mcp", "remove", "one").code == 0
    assert mode() == 0o600


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["ad"], "argument 1"),
        (
            ["remov", "one"],
            "argument 1: expected one of install, add, list, tools, test, remove. Did you mean 'remove'?",
        ),
        (["ad", "one", "--url", "https://x.test"], "Did you mean 'add'?"),
        (["add"], "argument 2"),
        (["add", "one"], "--url"),
        (["add", "one", "--url", "http://x.test", "--", "y"], "--url"),
        (["add", "one", "--header", "A=1", "--", "y"], "--header"),
        (["add", "one", "--env", "A", "--", "y"], "--env"),
        (["add", "one", "--timeout", "soon", "--", "y"], "--timeout"),
        (["add", "one", "--trusted", "--", "y"], "--trusted"),
        (["list", "one"], "argument 1"),
        (["test"], "argument 2"),
        (["remove"], "argument 2"),
        (["tools", "--jsn"], "--jsn"),
        (["--server", "x:y"], "--server"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(cli: Cli, arguments: list[str], place: str) -> None:
    ran = cli(app, "mcp", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert place in ran.err


@pytest.mark.parametrize("name", ["no spaces", "", "x" * 65, "-x"])
def test_a_name_that_cannot_be_is_refused(cli: Cli, name: str, project: Path) -> None:
    assert cli(app, "mcp", "add", name, "--", "x").code != 0
    assert not (project / ".mcp.json").exists()


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"mcpServers": []}', '{"mcpServers": {"x": 1}}', '{"mcpServers": {"x": {}}}']
)
def test_a_file_that_makes_no_sense_is_told(text: str, project: Path) -> None:
    (project / ".mcp.json").write_text(text)
    with pytest.raises(Failure) as raised:
        configured_servers(project)
    assert raised.value.kind is Kind.misconfigured
    assert ".mcp.json" in raised.value.message


def test_disabled_servers_are_left_alone(project: Path) -> None:
    (project / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "y", "disabled": true}}}')
    assert configured_servers(project) == []


def test_a_name_that_is_none_is_told_with_the_near_miss(cli: Cli) -> None:
    cli(app, "mcp", "add", "tracker", "--", "x")
    for verb in ("test", "tools", "remove"):
        ran = cli(app, "mcp", verb, "traker")
        assert ran.code == 4
        assert "'tracker'" in ran.err


# Real servers.


@pytest.fixture
def bench(warm_bench: Warm) -> list[str]:
    return warm_bench.command("stdio")


def test_servers_are_listed_with_their_state_and_a_dead_one_is_a_row(cli: Cli, bench: list[str]) -> None:
    cli(app, "mcp", "add", "bench", "--", *bench)
    cli(app, "mcp", "add", "gone", "--", "/no/such/program")
    rows = {row["name"]: row for row in cli(app, "mcp", "list", "--json").json}
    assert (rows["bench"]["status"], rows["bench"]["tools"]) == ("connected", 14)
    assert rows["gone"]["status"] == "dead"
    assert "/no/such/program" in rows["gone"]["problem"]
    offline = cli(app, "mcp", "list", "--offline", "--json").json
    assert {row["status"] for row in offline} == {"not asked"}


def test_no_servers_are_an_empty_list(cli: Cli) -> None:
    assert cli(app, "mcp", "list", "--json").json == []


def test_the_tools_of_a_server_are_listed_with_what_they_may_do(cli: Cli, bench: list[str]) -> None:
    cli(app, "mcp", "add", "bench", "--trust", "--", *bench)
    tools = {row["name"]: row for row in cli(app, "mcp", "tools", "bench", "--json").json}
    assert tools["bench_pid"]["effects"] == "read"
    assert tools["bench_wipe"]["confirmation"] is True
    assert tools["bench_add"]["input"]["required"] == ["a"]


def test_a_test_says_that_a_server_works_or_why_not(cli: Cli, bench: list[str]) -> None:
    cli(app, "mcp", "add", "bench", "--", *bench)
    ran = cli(app, "mcp", "test", "bench")
    assert ran.code == 0
    assert "14 tools" in ran.err
    told = cli(app, "mcp", "test", "bench", "--json").json
    assert (told["status"], told["server"]) == ("works", "bench")
    cli(app, "mcp", "add", "gone", "--", "/no/such/program")
    failed = cli(app, "mcp", "test", "gone")
    assert failed.code == 5
    assert "/no/such/program" in failed.err


def test_what_a_server_says_of_itself_and_beside_the_protocol_does_a_terminal_no_harm(
    cli: Cli, caplog: pytest.LogCaptureFixture
) -> None:
    odd = str(Path(__file__).parents[2] / "tools" / "mcp_odd.py")
    cli(app, "mcp", "add", "odd", "--", sys.executable, odd, "loud")
    ran = cli(app, "mcp", "test", "odd")
    assert ran.code == 0
    assert "odd\\x1b[2J 0" in ran.err
    assert "\x1b" not in ran.err
    assert "JSONRPC" in caplog.text
    assert "hunter22" not in caplog.text


def test_secrets_of_the_store_reach_the_server(cli: Cli, bench: list[str], project: Path) -> None:
    store = open_store(url=f"sqlite:///{project}/kept.db")
    Secrets(store).set_now("token", "hunter2")
    keeper = App("keeper", store=store)
    cli(keeper, "mcp", "add", "bench", "--env", "TOKEN=secret:token", "--", *bench)
    assert cli(keeper, "mcp", "test", "bench").code == 0
    cli(keeper, "mcp", "add", "other", "--env", "TOKEN=secret:none", "--", *bench)
    assert cli(keeper, "mcp", "test", "other").code == 4
    store.close()


# A server of the app's own.

OWN = '''
from fairlead import App

app = App("shop")

@app.action
async def greet() -> str:
    """Greet."""
    return "hello"

server = app.mcp()

@server.resource("shop://hours")
async def hours() -> str:
    """When the shop is open."""
    return "always"

not_a_server = 1
'''


@pytest.fixture
def asked(project: Path, warm_path: str) -> Asked:
    """`fairlead` in a project: what comes of it when a client asks for the resources."""
    fairlead = str(shutil.which("fairlead", path=warm_path))
    request = {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}
    return lambda *arguments: subprocess.run(
        [fairlead, *arguments], cwd=project, input=json.dumps(request).encode(), capture_output=True
    )


def resources(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    return [each["uri"] for each in json.loads(done.stdout)["result"]["resources"]]


def test_the_setting_names_the_server_that_is_served(project: Path, asked: Asked) -> None:
    (project / "shop.py").write_text(OWN)
    (project / "fairlead.toml").write_text('app = "shop:app"\n')
    assert "shop://hours" not in resources(asked("mcp", "--stdio"))
    (project / "fairlead.toml").write_text('app = "shop:app"\n[mcp]\nserver = "shop:server"\n')
    assert "shop://hours" in resources(asked("mcp", "--stdio"))
    # The settings are about the app that they name.
    (project / "app.py").write_text(OWN.replace("shop", "other"))
    assert "shop://hours" not in resources(asked("--app", "app.py", "mcp", "--stdio"))


def test_a_server_can_be_named(project: Path, asked: Asked) -> None:
    (project / "shop.py").write_text(OWN)
    done = asked("--app", "shop.py", "mcp", "--stdio", "--server", "shop:server")
    assert "shop://hours" in resources(done)


@pytest.mark.parametrize("target", ["shop:not_a_server", "shop:none", "nowhere:server", "shop"])
def test_a_name_that_leads_to_no_server_is_told(project: Path, asked: Asked, target: str) -> None:
    (project / "shop.py").write_text(OWN)
    done = asked("--app", "shop.py", "mcp", "--stdio", "--server", target)
    assert done.returncode == 1
    assert done.stdout == b""
    assert target.encode() in done.stderr


def test_what_a_server_of_its_own_shows_is_not_widened(project: Path, asked: Asked) -> None:
    (project / "shop.py").write_text(OWN)
    done = asked("--app", "shop.py", "mcp", "--stdio", "--server", "shop:server", "--include-local")
    assert done.returncode == 2
    assert b"--include-local" in done.stderr


def test_installing_names_the_server_of_the_settings(project: Path, asked: Asked) -> None:
    (project / "shop.py").write_text(OWN)
    (project / "fairlead.toml").write_text('app = "shop:app"\n[mcp]\nserver = "shop:server"\n')
    done = asked("mcp", "install", "--client", "cursor")
    (entry,) = json.loads(done.stdout)["mcpServers"].values()
    assert entry["args"][-2:] == ["--server", "shop:server"]
    served = subprocess.run(
        [entry["command"], *entry["args"]],
        cwd="/",
        input=b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}',
        capture_output=True,
    )
    assert "shop://hours" in resources(served)


@contextmanager
def serving(project: Path, *arguments: str) -> Iterator[str]:
    """`fairlead serve` of a project; gives its address."""
    port, log = free_port(), project / "log"
    command = [sys.executable, "-m", "fairlead", *arguments, "--port", str(port)]
    with (
        log.open("wb") as said,
        subprocess.Popen(command, cwd=project, stdout=said, stderr=said, preexec_fn=ends_with_us()) as server,
    ):
        until(lambda: b"Serving" in log.read_bytes(), "nothing is served")
        yield f"http://127.0.0.1:{port}"
        server.terminate()


async def offered(project: Path, *arguments: str) -> list[str]:
    """The resources that are served over HTTP, as the official client hears of them."""
    with serving(project, *arguments) as url:
        async with Client(f"{url}/mcp") as client:
            found = await client.list_resources()
    return [str(each.uri) for each in found.resources]


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
async def test_the_server_that_is_named_is_served_over_http(project: Path, workers: tuple[str, ...]) -> None:
    (project / "shop.py").write_text(OWN)
    named = ("--app", "shop.py", "serve", "--mcp", "shop:server", *workers)
    assert "shop://hours" in await offered(project, *named)


async def test_the_setting_names_the_server_that_is_served_over_http(project: Path) -> None:
    (project / "shop.py").write_text(OWN)
    (project / "fairlead.toml").write_text('app = "shop:app"\n[mcp]\nserver = "shop:server"\n')
    assert "shop://hours" in await offered(project, "serve")


def test_serving_tells_a_name_that_leads_to_no_server(project: Path, asked: Asked) -> None:
    (project / "shop.py").write_text(OWN)
    done = asked("--app", "shop.py", "serve", "--port", "0", "--mcp", "shop:nothing")
    assert done.returncode == 1
    assert b"--mcp" in done.stderr
