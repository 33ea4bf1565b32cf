"""Who gets at the console: its own page with its session, and nobody else, whatever they send."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import App
from fairlead.surfaces.console import Console
from fairlead.surfaces.console.gate import Gate
from fairlead.surfaces.console.guard import SESSION_HEADER, Keys
from fairlead.surfaces.console.serving import Serving
from fairlead.testing.asgi import request

INVOKE = "/api/actions/whisper/invoke"


def test_the_page_is_given_to_anyone_on_this_machine_and_holds_no_data(console: Any) -> None:
    page = console.send("GET", "/", session=False)
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert b"harbour" not in page.body


async def test_what_goes_wrong_is_logged_as_the_app_would_show_it(caplog: pytest.LogCaptureFixture) -> None:
    app = App("harbour", redact={"keys": ["customer_code"]})

    async def broken(*request: Any) -> None:
        raise RuntimeError("not with customer_code=CANARY")

    keys = Keys(session="s")
    gate = Gate(keys, broken, app.redactor)
    headers = {"host": "127.0.0.1", SESSION_HEADER: "s"}
    answer = await request(gate, "GET", "/api/actions", headers=headers)
    assert answer.status == 500
    assert "customer_code=[REDACTED]" in caplog.text
    assert "CANARY" not in caplog.text + answer.body.decode()


@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/api/actions", "/nowhere", "/api/nowhere"])
def test_every_answer_keeps_the_browser_in_its_fence(console: Any, path: str) -> None:
    headers = console.send("GET", path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert not [name for name in headers if name.startswith("access-control")]


def test_what_is_asked_is_not_kept_by_the_browser_and_files_are_asked_for_again(console: Any) -> None:
    assert console.send("GET", "/api/actions").headers["cache-control"] == "no-store"
    first = console.send("GET", "/assets/app.js")
    assert first.headers["cache-control"] == "no-cache"
    again = console.send("GET", "/assets/app.js", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert "content-length" not in again.headers


def test_files_that_the_page_names_are_kept_under_a_name_that_changes_with_them(console: Any) -> None:
    named = re.findall(r'"(assets/[^"]+)"', console.send("GET", "/").body.decode())
    assert len(named) > 5
    for place in named:
        kept = console.send("GET", f"/{place}")
        assert "immutable" in kept.headers["cache-control"]
        assert kept.headers["cross-origin-resource-policy"] == "same-origin"
        folder, version, name = place.split("/")
        assert kept.body == console.send("GET", f"/{folder}/{name}").body
        assert console.send("GET", f"/{folder}/{version[::-1]}/{name}").status == 404


@pytest.mark.parametrize("path", ["/api/actions", "/api/failures", "/api/nowhere", "/api", "/api/changes"])
def test_without_the_session_nothing_is_told(console: Any, path: str) -> None:
    answer = console.send("GET", path, session=False)
    assert (answer.status, answer.code) == (401, "AUTHENTICATION_ERROR")
    assert console.send("GET", path, session=False, fairlead_session="wrong").status == 401


def test_without_the_session_nothing_is_done(console: Any) -> None:
    assert console.send("POST", INVOKE, {}, session=False).status == 401
    assert console.send("POST", INVOKE, {}, session=False, cookie=f"session={console.session}").status == 401
    assert console.send("POST", INVOKE, {}).json["ok"]


def test_the_links_token_works_once(serve: Callable[[Any], Any]) -> None:
    made = Console(App("small"))
    served = serve(made)
    token = made.link(served.address).partition("#token=")[2]
    assert served.send("POST", "/api/session", {"token": token[:-1]}).code == "AUTHENTICATION_ERROR"
    assert served.send("POST", "/api/session", {"token": token}, origin="http://evil.example").status == 403
    first = served.send("POST", "/api/session", {"token": token})
    assert first.json["ok"]
    assert served.send("POST", "/api/session", {"token": token}).code == "AUTHENTICATION_ERROR"
    assert served.send("GET", "/api/actions", fairlead_session=first.json["session"]).status == 200
    assert served.send("GET", "/api/actions", fairlead_session=token).status == 401


def test_a_token_of_ones_own_opens_the_page(serve: Callable[[Any], Any]) -> None:
    served = serve(Console(App("small"), token="a word & another"))
    assert Console(App("small"), token="a b").link("http://x/") == "http://x/#token=a%20b"
    assert served.send("POST", "/api/session", {"token": "a word & another"}).json["ok"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"token": 5}', b'{"token": "\xff"}', b"{}" * 4096]
)
def test_a_token_that_is_none_is_refused_as_what_it_is(console: Any, body: bytes) -> None:
    answer = console.send("POST", "/api/session", body, content_type="application/json")
    assert answer.status in (400, 401, 413)
    assert not answer.json["ok"]


HOSTS = [
    "evil.example:{}",
    "127.0.0.1",
    "localhost:1",
    "127.0.0.1.evil.example:{}",
    "localhost.:{}",
    "0.0.0.0:{}",
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/api/actions"])
def test_a_name_that_was_pointed_at_this_machine_gets_nothing(console: Any, host: str, path: str) -> None:
    answer = console.send("GET", path, host=host.format(console.port))
    assert (answer.status, answer.code) == (403, "AUTHORIZATION_ERROR")


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost:{}", "LOCALHOST:{}", "[::1]:{}"])
def test_the_machines_own_names_are_answered_to(console: Any, host: str) -> None:
    assert console.send("GET", "/api/actions", host=host.format(console.port)).status == 200


def test_two_hosts_are_none(console: Any) -> None:
    mine = f"127.0.0.1:{console.port}"
    assert console.send("GET", "/api/actions", host=[mine, "evil.example"]).status in (400, 403)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{}", "http://127.0.0.1:1"]
)
def test_a_page_of_another_origin_is_refused_even_with_the_session(console: Any, origin: str) -> None:
    answer = console.send("POST", INVOKE, {}, origin=origin.format(console.port))
    assert (answer.status, answer.code) == (403, "AUTHORIZATION_ERROR")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_browser_says_comes_from_elsewhere_is_refused(console: Any, site: str) -> None:
    assert console.send("POST", INVOKE, {}, sec_fetch_site=site).status == 403
    assert console.send("GET", "/api/actions", sec_fetch_site=site).status == 403


def test_the_own_page_is_let_in(console: Any) -> None:
    own = {"origin": console.address, "sec_fetch_site": "same-origin"}
    assert console.send("POST", INVOKE, {}, **own).status == 200


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
    ],
)
def test_only_json_is_read_even_with_the_session(console: Any, content_type: str) -> None:
    for path in (INVOKE, "/api/actions/whisper/stream", "/api/batch", "/api/session"):
        answer = console.send("POST", path, b'{"input":{}}', content_type=content_type)
        assert (answer.status, answer.code) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_preflight_allows_nothing(console: Any) -> None:
    answer = console.send(
        "OPTIONS",
        INVOKE,
        session=False,
        origin="http://evil.example",
        access_control_request_method="POST",
        access_control_request_headers="fairlead-session",
    )
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_the_page_can_only_be_read(console: Any, method: str) -> None:
    assert console.send(method, "/", {}).status == 405


def test_looking_at_an_actions_address_does_not_call_it(console: Any) -> None:
    assert console.send("GET", INVOKE).status == 405


def scope_of(**changes: Any) -> dict[str, Any]:
    usual = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:4321")],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 4321),
    }
    return usual | changes


def status_of(scope: dict[str, Any], body: bytes = b"") -> int:
    """What a console says to a request, without a server."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    asyncio.run(SMALL(scope, receive, send))
    status: int = sent[0].get("status", 0)
    return status


SMALL = Console(App("small"))


@pytest.mark.parametrize(
    "peer", [("10.0.0.5", 1), ("192.168.1.2", 1), ("2001:db8::1", 1), ("unknown", 1), None]
)
def test_a_peer_on_another_machine_gets_nothing_whatever_it_says(peer: Any) -> None:
    assert status_of(scope_of(client=peer)) == 403


def test_a_peer_on_this_machine_gets_the_page() -> None:
    assert status_of(scope_of()) == 200
    assert status_of(scope_of(client=("::1", 1))) == 200
    assert status_of(scope_of(server=("127.0.0.1", 80), headers=[(b"host", b"localhost")])) == 200


def test_mounted_in_another_app_it_finds_its_way() -> None:
    assert status_of(scope_of(path="/tools/", root_path="/tools")) == 200
    assert status_of(scope_of(path="/tools", root_path="/tools")) == 307
    assert status_of(scope_of(path="/tools/api/actions", root_path="/tools")) == 401


@given(st.binary(max_size=40))
def test_no_other_host_is_answered_to(host: bytes) -> None:
    known = {b"127.0.0.1:4321", b"localhost:4321", b"[::1]:4321"}
    assert (status_of(scope_of(headers=[(b"host", host)])) == 200) == (host.lower() in known)


@given(
    st.binary(max_size=60), st.sampled_from(["GET", "POST", "PUT", "OPTIONS", "HEAD"]), st.text(max_size=30)
)
def test_whatever_is_sent_the_answer_is_no_failure_of_ours(body: bytes, method: str, path: str) -> None:
    headers = [(b"host", b"localhost:4321"), (b"content-type", b"application/json")]
    assert status_of(scope_of(method=method, path=f"/api/{path}", headers=headers), body) in (400, 401, 405)


def test_a_websocket_is_closed() -> None:
    sent: list[Any] = []

    async def talk() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await SMALL({"type": "websocket"}, receive, send)

    asyncio.run(talk())
    assert sent == [{"type": "websocket.close", "code": 1008}]


def as_caller(console: Any, who: str) -> Any:
    return console.send("POST", INVOKE, {}, fairlead_act_as=quote(who))


def test_calls_are_made_for_whoever_runs_the_console(console: Any) -> None:
    told = console.send("POST", INVOKE, {"user": {"id": "mallory"}, "auth": {"permissions": []}}).json
    assert told["data"]["auth"] == {"permissions": ["*"]}
    assert told["data"]["user"]["id"] != "mallory"
    assert told["data"]["surface"] == "dev"


def test_one_can_act_as_another_caller(console: Any) -> None:
    who = '{"user": {"id": "Zoë"}, "auth": {"permissions": ["x"]}}'
    assert as_caller(console, who).json["data"]["user"] == {"id": "Zoë"}
    assert as_caller(console, "{}").json["data"] == {"user": None, "auth": None, "surface": "dev"}
    nobody = console.send("POST", "/api/actions/burn_down/invoke", {}, fairlead_act_as="{}")
    assert nobody.json["error"]["code"] in ("AUTHENTICATION_ERROR", "AUTHORIZATION_ERROR")


@pytest.mark.parametrize("who", ["", "{", "[]", '"ada"', '{"usr": 1}', "%ff"])
def test_a_caller_that_makes_no_sense_is_refused(console: Any, who: str) -> None:
    answer = console.send("POST", INVOKE, {}, fairlead_act_as=who)
    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")


def test_a_program_for_others_says_who_they_are(serve: Callable[[Any], Any]) -> None:
    app = App("garden")

    @app.action(permissions=["flowers:pick"])
    async def pick() -> str:
        """Pick a flower."""
        return "rose"

    made = app.console(user="guest", auth={"permissions": []})
    served = serve(made)
    served.open(made.link(served.address))
    assert served.send("POST", "/api/actions/pick/invoke", {}).code == "AUTHORIZATION_ERROR"


def test_headers_and_trailers_without_end_are_not_kept() -> None:
    """Any program on this machine, and any page in its browser, may try."""
    flood = 50_000_000
    at = socket.create_server(("127.0.0.1", 0))
    serving = Serving(Console(App("harbour")))
    thread = threading.Thread(target=serving.run, args=[at])
    thread.start()
    try:
        for beginning in (b"", b"transfer-encoding: chunked\r\n\r\n0\r\n"):
            sent = 0
            with socket.create_connection(at.getsockname(), timeout=20) as line, suppress(OSError):
                line.sendall(b"POST / HTTP/1.1\r\nhost: x\r\n" + beginning)
                while sent < flood:
                    sent += line.send(b"x: %b\r\n" % (b"y" * 1000))
            assert sent < flood
    finally:
        serving.stop()
        thread.join(20)
        at.close()
