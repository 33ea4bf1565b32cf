"""The console as an ASGI app: what its page does with the link, and what others get without one."""

import asyncio

import httpx

from fairlead import App

app = App("notes", description="Keep notes.")
notes: list[str] = []


@app.action(side_effects="write", permissions=["notes:write"])
async def add_note(text: str) -> int:
    """Add a note, and say how many there are."""
    notes.append(text)
    return len(notes)


# Run it with any ASGI server, on loopback: uvicorn.run(console, host="127.0.0.1", port=4321)
console = app.console(user="ada", auth={"permissions": ["notes:*"]})
print(console.link("http://127.0.0.1:4321"))


async def main() -> None:
    browser = httpx.AsyncClient(transport=httpx.ASGITransport(console), base_url="http://127.0.0.1:4321")
    call = {"input": {"text": "Buy rope"}}
    stranger = await browser.post("/api/actions/add_note/invoke", json=call)
    assert stranger.status_code == 401

    token = console.link("").partition("#token=")[2]
    opened = await browser.post("/api/session", json={"token": token})
    session = {"fairlead-session": opened.json()["session"]}
    assert (await browser.post("/api/session", json={"token": token})).status_code == 401

    mine = await browser.post("/api/actions/add_note/invoke", json=call, headers=session)
    assert mine.json()["data"] == 1

    elsewhere = {**session, "origin": "https://example.com"}
    assert (await browser.get("/api/actions", headers=elsewhere)).status_code == 403


asyncio.run(main())
