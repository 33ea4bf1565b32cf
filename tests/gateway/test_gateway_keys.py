"""Keys of programs that call agents: made, scoped, limited, expired and revoked, over HTTP and in two processes."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import beeos_sdk as sdk
import httpx
import pytest

from fairlead import App, Context
from fairlead.failures import Failure, Kind
from fairlead.gateway.keys import ApiKey, Keys
from fairlead.store.statements import Statement
from fairlead.surfaces.cli.console import Console
from fairlead.testing import FixedClock
from gateway.site_under_test import (
    OWNER,
    PATIENCE,
    STRANGER,
    Site,
    add_keys,
    await_server,
    build,
    process,
    serving,
)
from servers import free_port
from warm import Warm


class Here:
    """A server in this process, and the keys in its store."""

    def __init__(self, url: str, app: App, folder: Path) -> None:
        self.url = url
        self.app = app
        self.keys = Keys(app.store, app.wall)
        self.site = Site(url, folder)

    def issue(self, name: str = "test", owner: str = "local", **about: Any) -> tuple[str, ApiKey]:
        return self.keys.issue_now(name, owner=owner, **about)

    def get(self, path: str, key: str | None, **options: Any) -> httpx.Response:
        with self.site.raw(key) as client:
            return client.get(path, **options)

    def post(self, path: str, key: str | None, body: Any) -> httpx.Response:
        with self.site.raw(key) as client:
            return client.post(path, json=body)


@pytest.fixture
def here(store_url: str, tmp_path: Path) -> Iterator[Here]:
    app = build(store_url, tmp_path)
    with serving(app.http()) as url:
        yield Here(url, app, tmp_path)
    app.store.close()


@contextmanager
def two_processes(warm: Warm, url: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Two gateway processes on one store; gives their addresses."""
    ports = [free_port(), free_port()]
    running = [process(warm, "serve", url, folder, port) for port in ports]
    try:
        addresses = [f"http://127.0.0.1:{port}" for port in ports]
        for address in addresses:
            await_server(address)
        yield addresses[0], addresses[1]
    finally:
        for each in running:
            each.terminate()
            each.wait(PATIENCE)


def test_a_key_has_its_shape_and_only_its_hash_is_kept(here: Here) -> None:
    token, key = here.issue("ci", per_minute=600)
    assert re.fullmatch("oag_[0-9a-f]{64}", token)
    assert key.prefix == token[:12]
    rows = here.app.store.read_now(lambda tx: tx.all(Statement.of("SELECT * FROM api_keys")))
    spelled = json.dumps(rows, default=str)
    assert hashlib.sha256(token.encode()).hexdigest() in spelled
    assert token[12:] not in spelled
    assert token not in json.dumps([each.to_dict(0.0) for each in here.keys.list_now()])


def test_the_sdk_works_with_a_key_and_is_refused_without(here: Here) -> None:
    token, _ = here.issue()
    assert here.site.agents(token).get_agent("echo").data.id == "echo"
    for bad, code in (
        ("oag_" + "0" * 64, "invalid_token"),
        ("oag_short", "invalid_token"),
        ("x", "invalid_token"),
    ):
        with pytest.raises(sdk.exceptions.UnauthorizedException) as refused:
            here.site.agents(bad).list_agents()
        assert f'"{code}"' in str(refused.value.body)
    assert here.get("/agents", None).json()["error"]["code"] == "unauthorized"
    with httpx.Client(base_url=here.url) as client:
        empty = client.get("/api/v1/agents", headers={"Authorization": "Bearer"})
    assert empty.json()["error"]["code"] == "missing_token"


def test_a_revoked_key_opens_nothing_from_then_on(here: Here) -> None:
    token, key = here.issue()
    assert here.get("/agents", token).status_code == 200
    here.keys.revoke_now(key.id)
    refused = here.get("/agents", token)
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "invalid_token"


def test_an_expired_key_opens_nothing(store_url: str, tmp_path: Path) -> None:
    clock = FixedClock()
    app = build(store_url, tmp_path, clock=clock)
    with serving(app.http()) as url:
        here = Here(url, app, tmp_path)
        token, key = here.issue(expires=clock.time() + 60)
        assert here.get("/agents", token).status_code == 200
        clock.move(60)
        assert here.get("/agents", token).json()["error"]["code"] == "invalid_token"
        assert key.status(clock.time()) == "expired"
    app.store.close()


@contextmanager
def streams_of(here: Here, token: str) -> Iterator[list[Future[list[str]]]]:
    """Streams of a task and a conversation, read with a key to their end; gives their lines to come."""
    with here.site.raw(OWNER) as client:
        task = client.post("/agents/slow/tasks", json={"message": "long"}).json()["data"]["task_id"]
        talk = client.post("/agents/echo/conversations", json={}).json()["data"]["conversation_id"]
    paths = [f"/agents/slow/tasks/{task}/events", f"/agents/echo/conversations/{talk}/events"]
    opened = threading.Barrier(len(paths) + 1)

    def read(path: str) -> list[str]:
        with here.site.raw(token) as client, client.stream("GET", path) as answer:
            assert answer.status_code == 200
            opened.wait(PATIENCE)
            return list(answer.iter_lines())

    with ThreadPoolExecutor() as pool:
        reading = [pool.submit(read, path) for path in paths]
        opened.wait(PATIENCE)
        yield reading


def ended(streams: list[Future[list[str]]]) -> None:
    for each in streams:
        lines = each.result(PATIENCE)
        assert lines[-3:] == ["event: end", 'data: {"reason":"stream_closed"}', ""]
        assert lines.count("event: end") == 1


def test_a_stream_ends_at_once_when_its_key_is_revoked_and_others_go_on(app: App, tmp_path: Path) -> None:
    # Nothing but the word of the revocation comes that soon.
    with serving(app.http(gateway={"heartbeat": 3600.0})) as url:
        here = Here(url, app, tmp_path)
        token, key = here.issue()
        other, stays = here.issue("other")
        with streams_of(here, other) as others, streams_of(here, token) as lines:
            here.keys.revoke_now(key.id)
            ended(lines)
            assert not any(each.done() for each in others)
            here.keys.revoke_now(stays.id)
            ended(others)


def test_an_agents_answer_ends_in_order_when_the_key_that_it_is_for_is_revoked(
    app: App, tmp_path: Path
) -> None:
    """Whichever address it was asked at; the agent is stopped."""
    said = {"messages": [{"role": "user", "content": "chat"}], "stream": True}
    asked: list[tuple[str, str, dict[str, Any], str]] = [
        ("invoke", "/api/v1/agents/slow/invoke", {"message": "invoke"}, '"type":"done"'),
        ("chat", "/v1/chat/completions", {"model": "slow", **said}, "data: [DONE]"),
        (
            "respond",
            "/v1/responses",
            {"model": "slow", "input": "respond", "stream": True},
            "response.failed",
        ),
    ]
    with serving(app.http(gateway={"heartbeat": 3600.0})) as url:
        here = Here(url, app, tmp_path)
        token, key = here.issue()

        def read(path: str, body: dict[str, Any]) -> list[str]:
            headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
            with httpx.stream("POST", url + path, json=body, headers=headers, timeout=PATIENCE) as answer:
                assert answer.status_code == 200
                return [line for line in answer.iter_lines() if line]

        with ThreadPoolExecutor() as pool:
            reading = [pool.submit(read, path, body) for _, path, body, _ in asked]
            for word, *_ in asked:
                here.site.seen(f"begun-{word}")
            here.keys.revoke_now(key.id)
            for each, (word, _, _, end) in zip(reading, asked, strict=True):
                lines = each.result(PATIENCE)
                assert end in lines[-1], word
                assert '"code":"forbidden"' in "".join(lines), word
                here.site.seen(f"stopped-{word}")


def test_a_stream_ends_when_its_key_expires(store_url: str, tmp_path: Path) -> None:
    clock = FixedClock()
    app = build(store_url, tmp_path, clock=clock)
    add_keys(app)
    with serving(app.http(gateway={"heartbeat": 0.05})) as url:
        here = Here(url, app, tmp_path)
        token, _ = here.issue(expires=clock.time() + 60)
        with streams_of(here, token) as lines:
            clock.move(60)
            ended(lines)
    app.store.close()


def test_a_key_of_an_agents_own_is_for_other_agents_and_models_alone(here: Here) -> None:
    token, _ = here.issue(agents=["echo"], of_agent=True)
    assert re.fullmatch("bak_[0-9a-f]{64}", token)
    asked: dict[str, Any] = {"json": {"message": "hi"}, "timeout": PATIENCE}
    url = f"{here.url}/a2a/echo/v1/invoke"
    for headers in ({"Authorization": f"Bearer {token}"}, {"X-Agent-API-Key": token}):
        assert httpx.post(url, headers=headers, **asked).json()["text"] == "You said: hi"
        other = httpx.post(f"{here.url}/a2a/memory/v1/invoke", headers=headers, **asked)
        assert (other.status_code, other.json()["error"]["code"]) == (404, "agent_not_found")
    two = {"Authorization": f"Bearer {here.issue()[0]}", "X-Agent-API-Key": token}
    assert httpx.post(url, headers=two, **asked).status_code == 401
    assert here.post("/agents/echo/invoke", token, {"message": "hi"}).status_code == 401
    for _ in range(2):
        token, key = here.issue(agents=["echo"], of_agent=True)
    with pytest.raises(Failure, match="at most 3 keys of its own"):
        here.issue(agents=["echo"], of_agent=True)
    here.keys.revoke_now(key.id)
    here.issue(agents=["echo"], of_agent=True)
    some: list[dict[str, Any]] = [
        {"agents": ["echo", "memory"]},
        {},
        {"agents": ["echo"], "permissions": ["admin"]},
    ]
    for wrong in some:
        with pytest.raises(Failure, match="Name one agent"):
            here.issue(of_agent=True, **wrong)


def test_a_key_for_some_agents_knows_of_no_others(here: Here) -> None:
    token, _ = here.issue(agents=["echo"], permissions=["admin"])
    assert [each["id"] for each in here.get("/agents", token).json()["data"]] == ["echo"]
    assert here.post("/agents/echo/invoke", token, {"message": "hi"}).status_code == 200
    refused = here.post("/agents/memory/invoke", token, {"message": "hi"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "agent_not_found")
    # Whatever it may do with its agents, it makes no keys and calls nothing else.
    assert here.get("/api-keys", token).status_code == 403
    with httpx.Client(base_url=here.url, headers={"Authorization": f"Bearer {token}"}) as client:
        assert client.post("/fairlead/actions/look/invoke", json={"input": {"where": "x"}}).status_code == 403


@pytest.mark.parametrize("header", ["Authorization", "X-API-Key"])
def test_one_key_serves_the_plain_routes_as_well(here: Here, header: str) -> None:
    @here.app.action(permissions=["piers:read"])
    async def piers(ctx: Context) -> Any:
        """Tell who asks."""
        return ctx.user

    good, _ = here.issue("good", owner="ann", permissions=["piers:*"])
    poor, _ = here.issue("poor", owner="bob")

    def call(token: str) -> httpx.Response:
        value = f"Bearer {token}" if header == "Authorization" else token
        with httpx.Client(base_url=here.url, headers={header: value}) as client:
            return client.post("/fairlead/actions/piers/invoke", json={"input": {}})

    assert call(good).json()["data"] == {"id": "ann"}
    assert call(poor).status_code == 403
    assert call("oag_" + "1" * 64).status_code == 401


def test_a_server_for_everybody_takes_no_anonymous_calls(store_url: str, tmp_path: Path) -> None:
    app = build(store_url, tmp_path)
    with serving(app.http(gateway={"required": True})) as url:
        here = Here(url, app, tmp_path)
        token, _ = here.issue()
        given: list[dict[str, str]] = [
            {},
            {"Authorization": "Bearer other"},
            {"Authorization": f"Bearer {token}"},
        ]
        body = {"input": {"where": "bay"}}
        answers = [
            httpx.post(f"{url}/fairlead/actions/look/invoke", json=body, headers=each) for each in given
        ]
        assert [each.status_code for each in answers] == [401, 401, 200]
        assert httpx.get(f"{url}/healthz").status_code == 200
    app.store.close()


def test_a_key_that_calls_too_often_is_told_to_wait(here: Here) -> None:
    token, _ = here.issue(per_minute=5)
    statuses = [here.get("/agents", token) for _ in range(6)]
    assert [each.status_code for each in statuses] == [200] * 5 + [429]
    assert statuses[-1].json()["error"]["code"] == "rate_limited"
    assert 0 < int(statuses[-1].headers["retry-after"]) <= 60
    other, _ = here.issue(per_minute=5)
    assert here.get("/agents", other).status_code == 200


def test_what_only_looks_is_answered_while_the_store_cannot_be_written(tmp_path: Path) -> None:
    app = build(f"sqlite:///{tmp_path}/full.db", tmp_path)
    token, _ = Keys(app.store, app.wall).issue_now("ci", owner="local", per_minute=20)
    with serving(app.http()) as url, Site(url, tmp_path).raw(token) as client:
        app.store.write_now(lambda tx: tx.run(Statement.of("PRAGMA query_only = ON")))
        assert client.post("/agents/echo/tasks", json={"message": "x"}).status_code == 503
        assert client.get("/agents/echo").status_code == 200
        assert client.get("/tasks").json()["data"]["tasks"] == []
        # It is limited still.
        codes = [client.get("/agents").status_code for _ in range(60)]
        assert set(codes[:20]) == {200}
        assert 429 in codes
        app.store.write_now(lambda tx: tx.run(Statement.of("PRAGMA query_only = OFF")))
        assert client.post("/agents/echo/tasks", json={"message": "x"}).is_success
    app.store.close()


def test_one_caller_leaves_a_quarter_of_the_places_to_others(app: App, tmp_path: Path) -> None:
    with serving(app.http(gateway={"most": 4})) as url, ExitStack() as open_streams:
        site = Site(url, tmp_path)
        with site.raw(OWNER) as owner, site.raw(STRANGER) as stranger:
            owner.patch("/agents/echo", json={"visibility": "public"})
            made = stranger.post("/agents/echo/conversations", json={}).json()["data"]
            events = f"/agents/echo/conversations/{made['conversation_id']}/events"
            opened = [open_streams.enter_context(stranger.stream("GET", events)) for _ in range(3)]
            assert [each.status_code for each in opened] == [200] * 3
            refused = stranger.get("/agents")
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
            assert "One caller may have 3" in refused.json()["error"]["message"]
            assert owner.get("/agents").status_code == 200
            opened[0].close()
            waiting = threading.Event()
            for _ in range(int(PATIENCE / 0.05)):
                if stranger.get("/agents").status_code == 200:
                    return
                waiting.wait(0.05)
    raise AssertionError("a place was not given back")


@pytest.mark.parametrize(
    ("about", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"owner": ""}, "owner"),
        ({"per_minute": 0}, "rate_limit_per_minute"),
        ({"per_minute": True}, "rate_limit_per_minute"),
        ({"expires": 1.0}, "expires_at"),
        ({"agents": []}, "agents"),
    ],
)
def test_what_cannot_be_said_of_a_key_makes_none(here: Here, about: dict[str, Any], field: str) -> None:
    with pytest.raises(Failure) as refused:
        here.issue(**{"name": "test", **about})
    assert (refused.value.kind, refused.value.field) == (Kind.invalid_input, field)
    assert here.keys.list_now() == []


def test_the_admin_api_makes_lists_and_revokes_keys(here: Here) -> None:
    admin, _ = here.issue("root", permissions=["admin"])
    body = {"name": "ci", "rate_limit_per_minute": 600, "expires_at": "2999-01-01T00:00:00Z"}
    made = here.post("/api-keys", admin, body)
    assert made.status_code == 201
    data = made.json()["data"]
    assert (data["name"], data["rate_limit_per_minute"], data["expires_at"]) == (
        "ci",
        600,
        "2999-01-01T00:00:00.000Z",
    )
    token = data["key"]
    assert data["key_prefix"] == token[:12]
    assert here.get("/agents", token).status_code == 200
    listed = here.get("/api-keys", admin)
    assert token not in listed.text
    assert [each["name"] for each in listed.json()["data"]] == ["root", "ci"]
    with here.site.raw(admin) as client:
        for _ in range(2):  # safe to repeat
            gone = client.delete(f"/api-keys/{data['id']}")
            assert (gone.status_code, gone.content) == (204, b"")
        assert client.delete("/api-keys/nothing").status_code == 404
    assert here.get("/agents", token).status_code == 401


def test_the_admin_api_is_for_admins(here: Here) -> None:
    plain, key = here.issue("plain", permissions=["tasks:*"])
    with here.site.raw(plain) as client:
        answers = [
            client.get("/api-keys"),
            client.post("/api-keys", json={"name": "x", "permissions": ["admin"]}),
            client.delete(f"/api-keys/{key.id}"),
        ]
    assert [each.status_code for each in answers] == [403] * 3
    assert len(here.keys.list_now()) == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_param"),
        ({"name": ""}, "invalid_param"),
        ({"name": "x", "rate_limit_per_minute": "600"}, "invalid_param"),
        ({"name": "x", "expires_at": "soon"}, "invalid_param"),
        ({"name": "x", "expires_at": 5}, "invalid_param"),
        ({"name": "x", "expires_at": "1999-01-01T00:00:00Z"}, "invalid_param"),
        ({"name": "x", "agents": "echo"}, "invalid_body"),
        ({"name": "x", "agents": [1]}, "invalid_param"),
        ({"name": "x", "scopes": ["a"]}, "invalid_param"),
        ([], "invalid_body"),
    ],
)
def test_a_wrong_body_makes_no_key(here: Here, body: Any, code: str) -> None:
    admin, _ = here.issue("root", permissions=["admin"])
    refused = here.post("/api-keys", admin, body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, code)
    assert len(here.keys.list_now()) == 1


def test_a_revocation_is_seen_at_once_by_the_other_process(
    store_url: str, tmp_path: Path, warm_python: Warm
) -> None:
    app = build(store_url, tmp_path)
    keys = Keys(app.store)
    admin, _ = keys.issue_now("root", owner="local", permissions=["admin"])
    token, key = keys.issue_now("ci", owner="local")
    with (
        two_processes(warm_python, store_url, tmp_path) as (one, other),
        Site(other, tmp_path).raw(token) as client,
    ):
        assert client.get("/agents").status_code == 200  # it is known there now
        with Site(one, tmp_path).raw(admin) as first:
            assert first.delete(f"/api-keys/{key.id}").status_code == 204
        # It is remembered for seconds; word of the revocation comes within a moment.
        waiting = threading.Event()
        asked = 0
        while client.get("/agents").status_code == 200 and asked < 100:
            asked += 1
            waiting.wait(0.01)
        assert asked < 100
    app.store.close()


def test_a_limit_holds_over_two_processes_together(store_url: str, tmp_path: Path, warm_python: Warm) -> None:
    app = build(store_url, tmp_path)
    token, _ = Keys(app.store).issue_now("ci", owner="local", per_minute=10)
    with two_processes(warm_python, store_url, tmp_path) as addresses:
        clients = [Site(each, tmp_path).raw(token) for each in addresses]
        statuses = [client.get("/agents").status_code for _ in range(8) for client in clients]
        for client in clients:
            client.close()
    # A request may become due again while the test runs.
    assert 10 <= statuses.count(200) <= 12
    assert set(statuses) == {200, 429}
    app.store.close()


Run = Callable[..., Any]


@pytest.fixture
def cli(tmp_path: Path) -> Run:
    """`... keys` of an app with agents."""
    import io

    from fairlead.surfaces.cli import run

    app = build(f"sqlite:///{tmp_path}/cli.db", tmp_path)

    def call(*argv: str, tty: bool = False, env: dict[str, str] | None = None) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        if tty:
            out.isatty = lambda: True  # type: ignore[method-assign]
        with pytest.raises(SystemExit) as exit:
            run(app, argv, console=Console(io.StringIO(), out, err, env or {}))
        assert isinstance(exit.value.code, int)
        return exit.value.code, out.getvalue(), err.getvalue()

    call.app = app  # type: ignore[attr-defined]
    return call


def test_the_command_line_makes_lists_and_revokes_keys_of_the_store(cli: Run, tmp_path: Path) -> None:
    code, out, err = cli(
        "keys",
        "new",
        "ci",
        "--owner",
        "ann",
        "--agents",
        "echo, memory",
        "--per-minute",
        "60",
        "--expires",
        "90d",
    )
    token = out.strip()
    assert (code, bool(re.fullmatch("oag_[0-9a-f]{64}", token))) == (0, True)
    assert token not in err
    assert "the one time" in err
    code, out, _ = cli("keys", "new", "root", "--admin", "--json")
    root = json.loads(out)
    assert root["permissions"] == ["admin"]
    assert root["key"].startswith(root["key_prefix"])
    code, out, _ = cli("keys", "list", "--json")
    first, second = json.loads(out)
    assert (first["owner"], first["agents"], first["rate_limit_per_minute"]) == (
        "ann",
        ["echo", "memory"],
        60,
    )
    assert second["owner"] == "local"
    assert token not in out
    assert "oag_" in cli("keys", "list", tty=True)[1]
    assert cli("keys", "revoke", token)[0] == 0
    assert cli("keys", "revoke", "root", "--json")[0] == 0
    assert {each["status"] for each in json.loads(cli("keys", "list")[1])} == {"revoked"}
    assert cli("keys", "revoke", "nobody")[0] == 4
    assert not (tmp_path / "fairlead-keys.json").exists()


def test_a_new_key_is_told_with_the_agents_that_it_will_not_find(cli: Run) -> None:
    def warnings(*argv: str) -> list[str]:
        return [each for each in cli("keys", "new", "ci", *argv)[2].splitlines() if "warning:" in each]

    [shut] = warnings("--owner", "ann", "--agents", "echo")
    assert "Keys of 'ann' do not find echo" in shut
    assert 'PATCH /api/v1/agents/echo with {"visibility": "unlisted"}' in shut
    assert "echo" in warnings("--owner", "ann", "--json")[0]
    [unknown] = warnings("--agents", "echo,ecko")
    assert "There is no agent 'ecko' yet. Did you mean 'echo'?" in unknown
    assert warnings() == warnings("--agents", "echo") == []

    app: App = cli.app  # type: ignore[attr-defined]
    headers = {"Authorization": f"Bearer {cli('keys', 'new', 'own')[1].strip()}"}
    with serving(app.http()) as url:
        httpx.patch(f"{url}/api/v1/agents/echo", json={"visibility": "unlisted"}, headers=headers)
    assert warnings("--owner", "ann", "--agents", "echo") == []


def test_a_key_file_that_is_named_is_still_used(cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "k.json"
    for argv, env in ((("--file", str(file)), {}), ((), {"FAIRLEAD_KEYS": str(file)})):
        code, out, _ = cli("keys", "new", "ci", *argv, env=env)
        assert (code, out.startswith("flk_")) == (0, True)
    assert len(json.loads(file.read_text())["keys"]) == 2
    code, _, err = cli("keys", "new", "ci", "--file", str(file), "--agents", "echo")
    assert (code, "--agents" in err) == (2, True)


def test_a_name_of_several_keys_revokes_none(cli: Run) -> None:
    for _ in range(2):
        cli("keys", "new", "twin")
    code, _, err = cli("keys", "revoke", "twin")
    assert (code != 0, "by its id" in err) == (True, True)
    assert {each["status"] for each in json.loads(cli("keys", "list")[1])} == {"active"}


def test_a_server_that_everybody_reaches_needs_a_key_in_the_store(cli: Run, tmp_path: Path) -> None:
    from fairlead.surfaces.http.command import _with_stored_keys
    from fairlead.surfaces.http.serving import Plan

    app: App = cli.app  # type: ignore[attr-defined]
    plan = Plan("app:app", str(tmp_path))
    with pytest.raises(Failure) as refused:
        _with_stored_keys(app, plan)
    assert "fairlead keys new NAME" in refused.value.message
    cli("keys", "new", "ci")
    assert _with_stored_keys(app, plan).http == {"gateway": {"required": True}}
    cli("keys", "revoke", "ci")
    with pytest.raises(Failure):
        _with_stored_keys(app, plan)
