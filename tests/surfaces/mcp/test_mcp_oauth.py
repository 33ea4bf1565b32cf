"""The endpoint as an OAuth resource server: where tokens come from, and what a client without a good one is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from fairlead import App, Context
from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.http.asgi import Request
from fairlead.surfaces.mcp.oauth import ProtectedResource

ISSUER = "https://id.example.com"
Start = Callable[..., Any]


def resolve(request: Request) -> Caller | None:
    """Tokens are the scopes they grant; one that starts with `bad` is refused."""
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not given:
        return None
    if given.startswith("bad"):
        raise Failure(Kind.unauthenticated, "The token is not valid. token=abcdefghijklmnop")
    return Caller(user={"id": "ann"}, auth={"scope": given})


def protected(**options: Any) -> Any:
    app = App("shop")

    @app.action
    async def look(ctx: Context) -> Any:
        """Look around."""
        return ctx.user

    @app.action(permissions=["till:open"])
    async def pay() -> str:
        """Pay."""
        return "paid"

    resource = ProtectedResource([ISSUER], scopes=["mcp"], scopes_supported=["mcp", "till:open"])
    return app.mcp().http(resolve_context=resolve, oauth=resource, **options)


def challenge(response: Any) -> dict[str, str]:
    header = response.headers["www-authenticate"]
    assert header.startswith("Bearer ")
    return dict(re.findall(r'(\w+)="([^"]*)"', header))


@pytest.mark.parametrize("suffix", ["", "/mcp"])
async def test_the_metadata_says_where_tokens_come_from(site: Start, suffix: str) -> None:
    place = await site(protected())
    url = place.url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource" + suffix
    said = await place.http.get(url)
    assert said.status_code == 200
    assert said.json() == {
        "resource": place.url,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "resource_name": "shop",
        "scopes_supported": ["mcp", "till:open"],
    }
    assert (await place.http.post(url, json={})).status_code == 405
    assert (await place.http.get(url + "/other")).status_code == 404


async def test_a_request_without_a_token_is_told_where_to_get_one(site: Start) -> None:
    place = await site(protected())
    for said in (
        await place.stateless("tools/list"),
        await place.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}),
        await place.http.get(place.url),
        await place.http.delete(place.url),
    ):
        assert said.status_code == 401
        told = challenge(said)
        assert told["scope"] == "mcp"
        assert "error" not in told
        assert (await place.http.get(told["resource_metadata"])).json()["resource"] == place.url


async def test_a_token_that_is_not_good_is_refused_without_repeating_it(site: Start) -> None:
    place = await site(protected())
    said = await place.stateless("tools/list", headers={"authorization": "Bearer bad-abcdefgh"})
    assert said.status_code == 401
    assert challenge(said)["error"] == "invalid_token"
    assert "abcdefgh" not in said.text


async def test_a_token_that_lacks_a_scope_is_told_which(site: Start) -> None:
    place = await site(protected())
    said = await place.stateless("tools/list", headers={"authorization": "Bearer other"})
    assert said.status_code == 403
    assert challenge(said)["error"] == "insufficient_scope"
    assert challenge(said)["scope"] == "mcp"


async def test_a_call_that_needs_more_is_told_what_before_it_is_refused(site: Start) -> None:
    place = await site(protected())
    token = {"authorization": "Bearer mcp"}
    call = {"name": "pay", "arguments": {}}
    visit = await place.session(headers=token)
    for said in (await place.stateless("tools/call", call, token), await visit.ask("tools/call", call)):
        assert said.status_code == 403
        told = challenge(said)
        assert (told["error"], told["scope"]) == ("insufficient_scope", "mcp till:open")
    better = {"authorization": "Bearer mcp till:open"}
    assert (await place.stateless("tools/call", call, better)).json()["result"]["structuredContent"] == "paid"
    look = await place.stateless("tools/call", {"name": "look"}, token)
    assert look.json()["result"]["structuredContent"] == {"id": "ann"}


async def test_an_app_with_its_own_checker_decides_by_itself(site: Start) -> None:
    app = App("shop", permission_checker=lambda *about: "Not today.")
    app.add({"pay": lambda: "paid"}, permissions=["till:open"])
    place = await site(app.mcp().http(resolve_context=resolve, oauth=ProtectedResource([ISSUER])))
    said = await place.stateless("tools/call", {"name": "pay"}, {"authorization": "Bearer x"})
    assert said.status_code == 200
    assert "Not today." in said.text


async def test_without_oauth_a_refused_credential_is_a_plain_401_and_none_is_anonymous(site: Start) -> None:
    app = App("shop")
    app.add({"look": lambda: "around"})
    place = await site(app.mcp().http(resolve_context=resolve))
    said = await place.stateless("tools/list", headers={"authorization": "Bearer bad"})
    assert (said.status_code, said.headers["www-authenticate"]) == (401, "Bearer")
    assert (await place.stateless("tools/list")).status_code == 200
    where = place.url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource"
    assert (await place.http.get(where)).status_code == 404


async def test_the_url_of_the_resource_can_be_given(site: Start) -> None:
    app = App("shop")
    resource = ProtectedResource(
        [ISSUER], resource="https://mcp.example.com/mcp", documentation="https://d.example"
    )
    place = await site(app.mcp().http(resolve_context=resolve, oauth=resource))
    said = (
        await place.http.get(place.url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource")
    ).json()
    assert said["resource"] == "https://mcp.example.com/mcp"
    assert said["resource_documentation"] == "https://d.example"


def test_oauth_without_somebody_who_checks_tokens_is_refused() -> None:
    with pytest.raises(DefinitionError, match="resolve_context"):
        App("shop").mcp().http(oauth=ProtectedResource([ISSUER]))


async def test_an_app_served_whole_says_where_tokens_for_its_mcp_come_from(site: Start) -> None:
    app = App("shop")
    app.add({"look": lambda: "around"})
    resource = ProtectedResource([ISSUER], scopes=["mcp"])
    place = await site(app.http(resolve_context=resolve, mcp_oauth=resource))
    said = await place.stateless("tools/list")
    assert said.status_code == 401
    told = challenge(said)
    assert told["scope"] == "mcp"
    metadata = (await place.http.get(told["resource_metadata"])).json()
    assert (metadata["resource"], metadata["authorization_servers"]) == (place.url, [ISSUER])
    good = await place.stateless("tools/call", {"name": "look"}, {"authorization": "Bearer mcp"})
    assert good.json()["result"]["structuredContent"] == "around"
    actions = place.url.removesuffix("/mcp") + "/fairlead/actions"
    assert (await place.http.get(actions)).status_code == 200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mcp_oauth": ProtectedResource([ISSUER])}, "resolve_context"),
        ({"mcp_oauth": ProtectedResource([ISSUER]), "resolve_context": resolve, "mcp": False}, "mcp=False"),
        ({"mcp_oauth": {"authorization_servers": [ISSUER]}, "resolve_context": resolve}, "ProtectedResource"),
    ],
)
def test_oauth_for_the_mcp_of_an_app_is_checked_when_it_is_given(options: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        App("shop").http(**options)


async def test_a_refused_look_at_the_metadata_opens_no_way_in_for_other_bodies(site: Start) -> None:
    place = await site(protected())
    where = place.url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource"
    plain = {"content-type": "text/plain", "accept": "*/*", "authorization": "Bearer mcp"}
    assert (await place.http.post(where, content=b"{}", headers=plain)).status_code == 405
    assert (await place.http.post(place.url, content=b"{}", headers=plain)).status_code == 415
