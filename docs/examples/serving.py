"""An app over HTTP, inside a host of your own, called the way programs call it."""

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from fairlead import App, Context
from fairlead.surfaces.auth import Caller

app = App("locks", description="Open and close locks.")


@app.action(side_effects="write", permissions=["locks:open"])
async def open_lock(number: int, ctx: Context) -> str:
    """Open a lock."""
    ctx.logger.info("Opening", number=number)
    return f"Lock {number} is open."


def who(request):
    """Who is calling follows from what the edge vouches for, never from the body."""
    name = request.headers.get("x-verified-user")
    return Caller({"id": name}, {"permissions": ["locks:*"]}) if name else None


host = Starlette(routes=[Mount("/tools", app.http(resolve_context=who))])

with TestClient(host) as client:
    invoke = "/tools/fairlead/actions/open_lock/invoke"
    trusted = {"X-Verified-User": "ada"}
    once = {**trusted, "Idempotency-Key": "lock-1"}

    answer = client.post(invoke, json={"input": {"number": 1}}, headers=once)
    assert answer.json()["data"] == "Lock 1 is open."

    # The same key again: the first answer again.
    again = client.post(invoke, json={"input": {"number": 1}}, headers=once)
    assert again.json()["meta"]["idempotent"] == "replayed"

    # A stranger is turned away, with the status of the failure.
    stranger = client.post(invoke, json={"input": {"number": 1}, "user": "ada"})
    assert (stranger.status_code, stranger.json()["error"]["code"]) == (401, "AUTHENTICATION_ERROR")

    # What the call says as it runs, as server-sent events.
    stream = client.post(invoke.replace("invoke", "stream"), json={"input": {"number": 2}}, headers=trusted)
    events = [line for line in stream.text.splitlines() if line.startswith("event:")]
    assert events == ["event: log", "event: result"]
