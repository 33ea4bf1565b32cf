"""Resources, prompts, completions, content and artifacts: what a server offers besides tools."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import App, Context
from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.surfaces.mcp import (
    Audio,
    Block,
    Embedded,
    Image,
    Link,
    Server,
    Text,
    audio,
    embedded,
    image,
    link,
    message,
    text,
)
from fairlead.surfaces.mcp.templates import Template

ALL = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
PNG = b"\x89PNG\r\n\x1a\n\x00"
Connect = Callable[..., Any]


def documented() -> App:
    app = App(
        "shop",
        description="A small shop.",
        docs={"summary": "Sells things.", "when_to_use": ["Something is needed"], "audience": "Everybody"},
    )

    @app.action(
        docs={
            "when_to_use": ["A lamp is needed"],
            "when_not_to_use": "It is day",
            "usage_notes": ["Mind the bulb"],
            "input_example": {"size": "small"},
        }
    )
    async def order(size: Literal["small", "large"], lit: bool = False) -> str:
        """Order a lamp."""
        return size

    @app.action(visibility="private", docs={"usage_notes": ["Psst"]})
    async def hidden() -> None:
        """Do what nobody may see."""

    @app.action
    async def plain() -> None:
        """Say nothing about itself."""

    return app


# The app's own resources


@pytest.mark.parametrize("revision", ALL)
async def test_the_manifest_and_the_guide_can_be_read(talk: Connect, revision: str) -> None:
    client = await talk(documented(), revision)
    listed = {each["uri"]: each for each in (await client.ask("resources/list"))["resources"]}
    assert set(listed) == {"fairlead://manifest", "fairlead://guide"}
    manifest = (await client.ask("resources/read", {"uri": "fairlead://manifest"}))["contents"][0]
    assert manifest["mimeType"] == "application/json"
    assert [action["name"] for action in json.loads(manifest["text"])["actions"]] == ["order", "plain"]
    guide = (await client.ask("resources/read", {"uri": "fairlead://guide"}))["contents"][0]["text"]
    assert all(
        words in guide
        for words in ("Sells things.", "A lamp is needed", "It is day", "Mind the bulb", '"small"')
    )
    assert "Psst" not in guide
    assert "nobody may see" not in guide


@pytest.mark.parametrize("uri", ["nope://x", "fairlead://artifacts/x/y", "fairlead://nothing", "", "x"])
async def test_a_resource_that_is_not_there_is_told_by_its_uri(talk: Connect, uri: str) -> None:
    for revision in ALL:
        client = await talk(documented(), revision)
        with pytest.raises(Exception) as refused:
            await client.ask("resources/read", {"uri": uri})
        assert refused.value.code == (-32602 if revision == "2026-07-28" else -32002)  # type: ignore[attr-defined]
        assert refused.value.data == {"uri": uri}  # type: ignore[attr-defined]


# Resources of the server


async def test_functions_become_resources_by_what_they_give(talk: Connect) -> None:
    server: Server = documented().mcp()

    @server.resource("notes://text", title="Notes")
    def notes() -> str:
        """Some notes."""
        return "a note"

    @server.resource("notes://bytes", mime_type="image/png")
    async def picture() -> bytes:
        """A picture."""
        return PNG

    @server.resource("notes://data", name="all-data")
    async def data(ctx: Context) -> dict[str, Any]:
        """Data."""
        return {"user": ctx.user}

    client = await talk(server, user="ann")
    listed = {each["uri"]: each for each in (await client.ask("resources/list"))["resources"]}
    assert listed["notes://text"] == {
        "uri": "notes://text",
        "name": "notes",
        "title": "Notes",
        "description": "Some notes.",
    }
    assert listed["notes://data"]["name"] == "all-data"
    read = {uri: (await client.ask("resources/read", {"uri": uri}))["contents"] for uri in listed}
    assert read["notes://text"] == [{"uri": "notes://text", "mimeType": "text/plain", "text": "a note"}]
    blob = base64.b64encode(PNG).decode()
    assert read["notes://bytes"] == [{"uri": "notes://bytes", "mimeType": "image/png", "blob": blob}]
    assert read["notes://data"][0]["mimeType"] == "application/json"
    assert json.loads(read["notes://data"][0]["text"]) == {"user": "ann"}


async def test_a_template_takes_its_variables_from_the_uri(talk: Connect) -> None:
    server: Server = App("t").mcp()

    @server.resource("files://{owner}/{+path}", mime_type="text/plain")
    def file(owner: str, path: str) -> str:
        """A file of somebody."""
        return f"{owner}: {path}"

    @server.resource("days://{n}")
    def day(n: int) -> str:
        """A day by its number."""
        return f"day {n + 1}"

    client = await talk(server)
    templates = (await client.ask("resources/templates/list"))["resourceTemplates"]
    assert [each["uriTemplate"] for each in templates][:2] == ["files://{owner}/{+path}", "days://{n}"]
    read = await client.ask("resources/read", {"uri": "files://ann%20b/a/b.txt"})
    assert read["contents"] == [
        {"uri": "files://ann%20b/a/b.txt", "mimeType": "text/plain", "text": "ann b: a/b.txt"}
    ]
    assert (await client.ask("resources/read", {"uri": "days://3"}))["contents"][0]["text"] == "day 4"
    for uri, code in (("days://x", -32602), ("days://3/4", -32002), ("files://ann", -32002)):
        with pytest.raises(Exception) as refused:
            await client.ask("resources/read", {"uri": uri})
        assert refused.value.code == code  # type: ignore[attr-defined]


async def test_a_long_uri_takes_no_longer_than_its_length(talk: Connect) -> None:
    server: Server = App("t").mcp()

    @server.resource("files://{name}.{kind}.{packed}")
    def file(name: str, kind: str, packed: str) -> str:
        """A file that was packed."""
        return f"{name} {kind} {packed}"

    client = await talk(server)
    read = await client.ask("resources/read", {"uri": "files://a.b.tar.gz"})
    assert read["contents"][0]["text"] == "a.b tar gz"
    # Every way to split it among the variables would take minutes.
    for uri in ("files://" + "." * 10_000 + "/", "files://" + "." * 1_000_000 + "/"):
        with pytest.raises(Exception) as refused:
            await client.ask("resources/read", {"uri": uri})
        assert refused.value.code == -32002  # type: ignore[attr-defined]


TEMPLATES = st.lists(st.sampled_from(["{%s}", "{+%s}", "/", ".", "a", "ab"]), min_size=1, max_size=6)


@given(TEMPLATES, st.text("/.ab%", max_size=12))
def test_a_variable_takes_as_much_as_it_can(words: list[str], rest: str) -> None:
    said = [word % f"v{at}" if "%" in word else word for at, word in enumerate(words)]
    pattern = [
        f"(?P<v{at}>{'.+' if '+' in word else '[^/]+'})" if "%" in word else re.escape(word)
        for at, word in enumerate(words)
    ]
    found = re.fullmatch("x:" + "".join(pattern), f"x:{rest}")
    expected = None if found is None else {name: unquote(each) for name, each in found.groupdict().items()}
    assert Template("x:" + "".join(said)).match(f"x:{rest}") == expected


async def test_a_resource_that_fails_is_an_error_without_secrets(talk: Connect) -> None:
    server: Server = App("t").mcp()

    @server.resource("x://broken")
    def broken() -> str:
        """Break."""
        raise RuntimeError("password=hunter2")

    @server.resource("x://denied", permissions=["x:read"])
    def denied() -> str:
        """Be closed."""
        return "secret"

    @server.resource("x://gone")
    def gone() -> str:
        """Be gone."""
        raise Failure(Kind.not_found, "It is gone.")

    client = await talk(server)
    for name, told in (
        ("broken", "INTERNAL_ERROR"),
        ("denied", "AUTHENTICATION_ERROR"),
        ("gone", "NOT_FOUND"),
    ):
        with pytest.raises(Exception) as refused:
            await client.ask("resources/read", {"uri": f"x://{name}"})
        assert refused.value.code == -32603  # type: ignore[attr-defined]
        assert refused.value.data["error"]["code"] == told  # type: ignore[attr-defined]
        assert "hunter2" not in str(refused.value)


async def test_subscribers_hear_of_updates_until_they_leave(talk: Connect) -> None:
    server: Server = App("t").mcp()
    client = await talk(server)
    other = await talk(server)
    assert await client.ask("resources/subscribe", {"uri": "x://a"}) == {}
    for uri in ("x://a", "x://b", "x://a"):
        server.updated(uri)
    await client.until(lambda: client.of("notifications/resources/updated"))
    assert client.of("notifications/resources/updated") == [{"uri": "x://a"}]
    assert await client.ask("resources/unsubscribe", {"uri": "x://a"}) == {}
    server.updated("x://a")
    await client.ask("ping")
    assert len(client.of("notifications/resources/updated")) == 1
    assert other.heard == []


async def test_what_a_client_subscribes_to_has_a_bound(talk: Connect) -> None:
    server: Server = App("t").mcp()
    client = await talk(server)

    async def refused(method: str, params: dict[str, Any]) -> bool:
        try:
            await client.ask(method, params)
        except Exception as wrong:
            return bool(wrong.code == -32602)  # type: ignore[attr-defined]
        return False

    assert await refused("resources/subscribe", {"uri": "x://" + "a" * 16_384})
    long = [f"x://{number:04}" + "a" * 10_000 for number in range(200)]
    taken = [uri for uri in long if not await refused("resources/subscribe", {"uri": uri})]
    assert 50 < len(taken) < 150
    # Those that are there may be named again, and make room when they are left.
    assert not await refused("resources/subscribe", {"uri": taken[0]})
    for _ in range(2):
        assert not await refused("resources/unsubscribe", {"uri": taken[0]})
    assert not await refused("resources/subscribe", {"uri": long[-1]})
    assert await refused("resources/subscribe", {"uri": taken[0]})


async def test_what_all_clients_subscribe_to_has_a_bound(
    talk: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.surfaces.mcp.subscriptions._ROOM_OF_ALL", 20)
    server: Server = App("t").mcp()
    first, second = await talk(server), await talk(server)
    assert await first.ask("resources/subscribe", {"uri": "x://" + "a" * 8}) == {}
    with pytest.raises(Exception, match="Try later") as refused:
        await second.ask("resources/subscribe", {"uri": "x://" + "b" * 8})
    assert refused.value.code == -32603  # type: ignore[attr-defined]
    # Whoever goes makes room.
    await first.connection.close()
    assert await second.ask("resources/subscribe", {"uri": "x://" + "b" * 8}) == {}


async def test_clients_hear_of_new_resources_and_prompts(talk: Connect) -> None:
    server: Server = App("t").mcp()
    client = await talk(server)

    @server.resource("x://new")
    def new() -> str:
        """New."""
        return "new"

    @server.prompt
    def ask() -> str:
        """Ask."""
        return "ask"

    await client.until(lambda: len(client.heard) == 2)
    assert {each["method"] for each in client.heard} == {
        "notifications/resources/list_changed",
        "notifications/prompts/list_changed",
    }
    assert "x://new" in [each["uri"] for each in (await client.ask("resources/list"))["resources"]]
    assert [each["name"] for each in (await client.ask("prompts/list"))["prompts"]] == ["ask"]


def test_a_resource_without_a_uri_is_refused_where_it_is_defined() -> None:
    server = App("tides").mcp()
    with pytest.raises(DefinitionError, match=r"Resource 'table' has no URI: write @server.resource\("):

        @server.resource  # type: ignore[arg-type]
        def table() -> str:
            """The table."""
            return ""


@pytest.mark.parametrize("uri", ["no-scheme", "x://{", "x://{a b}", "x://{id}", "x://{other}/{other}", 7, ""])
def test_a_resource_that_cannot_be_is_refused_where_it_is_defined(uri: Any) -> None:
    server: Server = App("t").mcp()
    with pytest.raises(DefinitionError):

        @server.resource(uri)
        def wrong(other: str) -> str:
            """Wrong."""
            return ""


def test_two_of_one_kind_are_refused() -> None:
    server: Server = App("t").mcp()
    for _ in range(2):
        if server.own_resources:
            with pytest.raises(DefinitionError, match="Duplicate"):
                server.resource("x://a")(_thing)
            with pytest.raises(DefinitionError, match="Duplicate"):
                server.prompt(_thing)
        else:
            server.resource("x://a")(_thing)
            server.prompt(_thing)


def _thing() -> str:
    """A thing."""
    return "thing"


# Prompts and completions


@pytest.mark.parametrize("revision", ALL)
async def test_an_action_that_says_how_it_is_used_has_a_prompt(talk: Connect, revision: str) -> None:
    client = await talk(documented(), revision)
    listed = (await client.ask("prompts/list"))["prompts"]
    assert [prompt["name"] for prompt in listed] == ["order"]
    assert [(each["name"], each["required"]) for each in listed[0]["arguments"]] == [
        ("size", False),
        ("lit", False),
    ]
    got = await client.ask("prompts/get", {"name": "order", "arguments": {"size": "large"}})
    said = got["messages"][0]["content"]["text"]
    assert all(
        words in said
        for words in ("`order`", "A lamp is needed", "It is day", "Mind the bulb", "size: large")
    )


async def test_functions_become_prompts(talk: Connect) -> None:
    server: Server = App("t").mcp()

    @server.prompt
    def one(name: str, times: int = 1) -> str:
        """Greet."""
        return f"Greet {name} {times + 1} times."

    @server.prompt(name="many-things", title="Many", description="Things.")
    async def many(ctx: Context) -> list[Any]:
        return ["a", image(PNG), message("b", "assistant")]

    client = await talk(server)
    listed = {prompt["name"]: prompt for prompt in (await client.ask("prompts/list"))["prompts"]}
    assert listed["many-things"] == {
        "name": "many-things",
        "title": "Many",
        "description": "Things.",
        "arguments": [],
    }
    got = await client.ask("prompts/get", {"name": "one", "arguments": {"name": "Ann", "times": "2"}})
    assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "Greet Ann 3 times."}}]
    got = await client.ask("prompts/get", {"name": "many-things"})
    assert [(each["role"], each["content"]["type"]) for each in got["messages"]] == [
        ("user", "text"),
        ("user", "image"),
        ("assistant", "text"),
    ]


@pytest.mark.parametrize(
    "params",
    [
        {"name": "nope"},
        {},
        {"name": 7},
        {"name": "one"},
        {"name": "one", "arguments": {"name": 7}},
        {"name": "one", "arguments": []},
        {"name": "one", "arguments": {"name": "x", "other": "y"}},
    ],
)
async def test_a_prompt_that_cannot_be_given_is_refused(talk: Connect, params: Any) -> None:
    server: Server = App("t").mcp()

    @server.prompt
    def one(name: str) -> str:
        """Greet."""
        return name

    client = await talk(server)
    with pytest.raises(Exception) as refused:
        await client.ask("prompts/get", params)
    assert refused.value.code == -32602  # type: ignore[attr-defined]


async def test_a_prompt_that_gives_nonsense_is_our_mistake(talk: Connect) -> None:
    server: Server = App("t").mcp()

    @server.prompt
    def wrong() -> int:
        """Give a number."""
        return 7

    client = await talk(server)
    with pytest.raises(Exception) as refused:
        await client.ask("prompts/get", {"name": "wrong"})
    assert refused.value.code == -32603  # type: ignore[attr-defined]


async def test_arguments_with_known_values_are_completed(talk: Connect) -> None:
    app = documented()
    server: Server = app.mcp()

    @server.resource("days://{day}/{n}")
    def day(day: Literal["monday", "tuesday", "wednesday"], n: int) -> str:
        """A day."""
        return day

    client = await talk(server)

    async def complete(ref: dict[str, str], name: str, value: str) -> Any:
        asked = {"ref": ref, "argument": {"name": name, "value": value}}
        return (await client.ask("completion/complete", asked))["completion"]

    order = {"type": "ref/prompt", "name": "order"}
    assert await complete(order, "size", "") == {"values": ["small", "large"], "total": 2, "hasMore": False}
    assert (await complete(order, "size", "LA"))["values"] == ["large"]
    assert (await complete(order, "lit", "t"))["values"] == ["true"]
    assert (await complete(order, "nothing", ""))["values"] == []
    days = {"type": "ref/resource", "uri": "days://{day}/{n}"}
    assert (await complete(days, "day", "ues"))["values"] == ["tuesday"]
    assert (await complete(days, "n", ""))["values"] == []
    for ref in (
        {"type": "ref/prompt", "name": "nope"},
        {"type": "ref/resource", "uri": "x://"},
        {"type": "x"},
        {},
    ):
        with pytest.raises(Exception) as refused:
            await complete(ref, "a", "")
        assert refused.value.code == -32602  # type: ignore[attr-defined]


async def test_no_more_than_a_hundred_completions_are_given(talk: Connect) -> None:
    app = App("t")

    @app.action(
        input={"type": "object", "properties": {"n": {"enum": list(range(150))}}}, docs={"usage_notes": ["n"]}
    )
    async def pick(input: dict[str, int]) -> int:
        """Pick a number."""
        return input["n"]

    asked = {"ref": {"type": "ref/prompt", "name": "pick"}, "argument": {"name": "n", "value": ""}}
    got = (await (await talk(app)).ask("completion/complete", asked))["completion"]
    assert (len(got["values"]), got["total"], got["hasMore"]) == (100, 150, True)


# Content and artifacts


async def test_declared_blocks_are_the_content(talk: Connect) -> None:
    app = App("b")

    @app.action
    async def picture() -> Image:
        """A picture."""
        return image(PNG)

    @app.action
    async def mixed() -> list[Text | Audio | Embedded | Link]:
        """Several things."""
        return [
            text("t"),
            audio(b"x"),
            embedded("x://a", b"\x00"),
            link("x://b", "b", mime_type="text/plain"),
        ]

    @app.action
    async def either(words: bool) -> Block:
        """A text or a picture."""
        return text("w") if words else image(PNG)

    client = await talk(app)
    tools = {tool["name"]: tool for tool in (await client.ask("tools/list"))["tools"]}
    assert all("outputSchema" not in tool for tool in tools.values())
    said = await client.call("picture")
    assert said["content"] == [image(PNG)]
    assert "structuredContent" not in said
    assert [block["type"] for block in (await client.call("mixed"))["content"]] == [
        "text",
        "audio",
        "resource",
        "resource_link",
    ]
    assert (await client.call("either", {"words": False}))["content"][0]["type"] == "image"
    assert (await app.invoke("picture")).data == image(PNG)


async def test_data_that_only_looks_like_blocks_stays_data(talk: Connect) -> None:
    app = App("b")

    @app.action
    async def looks() -> list[dict[str, str]]:
        """Look like a block."""
        return [{"type": "text", "text": "x"}]

    said = await (await talk(app)).call("looks")
    assert said["structuredContent"] == {"result": [{"type": "text", "text": "x"}]}


def maker() -> App:
    app = App("m")

    @app.action
    async def make(ctx: Context) -> str:
        """Make things."""
        ctx.artifacts.add("p.png", data=PNG, mime_type="image/png")
        ctx.artifacts.add("s.wav", data=b"\x00\x01", mime_type="audio/wav")
        ctx.artifacts.add("report.csv", data="a,b", mime_type="text/csv")
        ctx.artifacts.add("raw", data=b"\xff", mime_type="application/octet-stream")
        ctx.artifacts.add("page", uri="https://example.com/page", mime_type="text/html", size_bytes=7)
        ctx.artifacts.add("only a name")
        return "made"

    return app


async def test_artifacts_are_content_of_their_kind(talk: Connect) -> None:
    kinds = {
        "2024-11-05": ["text", "image", "resource", "resource", "resource", "text"],
        "2025-03-26": ["text", "image", "audio", "resource", "resource", "text"],
        "2025-11-25": ["text", "image", "audio", "resource", "resource", "resource_link"],
        "2026-07-28": ["text", "image", "audio", "resource", "resource", "resource_link"],
    }
    for revision, expected in kinds.items():
        said = await (await talk(maker(), revision)).call("make")
        assert [block["type"] for block in said["content"]] == expected
        envelope = said["_meta"]["fairlead/envelope"]
        assert [artifact["name"] for artifact in envelope["artifacts"]][-1] == "only a name"
        assert "data:" not in json.dumps(envelope)
    link = said["content"][-1]
    assert link == {
        "type": "resource_link",
        "uri": "https://example.com/page",
        "name": "page",
        "mimeType": "text/html",
        "size": 7,
    }


async def test_artifacts_can_be_read_by_who_made_them(talk: Connect) -> None:
    server = maker().mcp()
    ann, bob = await talk(server, user="ann"), await talk(server, user="bob")
    artifacts = (await ann.call("make"))["_meta"]["fairlead/envelope"]["artifacts"]
    report = next(artifact for artifact in artifacts if artifact["name"] == "report.csv")
    listed = (await ann.ask("resources/list"))["resources"]
    assert report["uri"] in [each["uri"] for each in listed]
    read = (await ann.ask("resources/read", {"uri": report["uri"]}))["contents"][0]
    assert (read["mimeType"], read["text"]) == ("text/csv", "a,b")
    raw = next(artifact for artifact in artifacts if artifact["name"] == "raw")
    assert (await ann.ask("resources/read", {"uri": raw["uri"]}))["contents"][0]["blob"] == "/w=="
    assert report["uri"] not in [each["uri"] for each in (await bob.ask("resources/list"))["resources"]]
    with pytest.raises(Exception) as refused:
        await bob.ask("resources/read", {"uri": report["uri"]})
    assert refused.value.code == -32002  # type: ignore[attr-defined]


async def test_what_nobody_in_particular_made_is_read_by_its_uri_and_listed_to_nobody(talk: Connect) -> None:
    server = maker().mcp()
    client = await talk(server)
    artifacts = (await client.call("make"))["_meta"]["fairlead/envelope"]["artifacts"]
    assert len((await client.ask("resources/list"))["resources"]) == 2
    assert (await client.ask("resources/read", {"uri": artifacts[0]["uri"]}))["contents"][0][
        "mimeType"
    ] == "image/png"


async def test_large_artifacts_are_linked_and_the_oldest_are_let_go(talk: Connect) -> None:
    app = App("large")

    @app.action
    async def make(ctx: Context, size: int) -> None:
        """Make something large."""
        ctx.artifacts.add("big", data=b"x" * size, mime_type="text/plain")

    client = await talk(app, user="ann")
    first = (await client.call("make", {"size": 2 << 20}))["content"][1]
    assert first["type"] == "resource_link"
    assert len((await client.ask("resources/read", {"uri": first["uri"]}))["contents"][0]["text"]) == 2 << 20
    for _ in range(16):
        await client.call("make", {"size": 2 << 20})
    with pytest.raises(Exception) as refused:
        await client.ask("resources/read", {"uri": first["uri"]})
    assert refused.value.code == -32002  # type: ignore[attr-defined]
    assert sum(each.get("size", 0) for each in (await client.ask("resources/list"))["resources"]) <= 32 << 20


async def test_schemas_have_no_bare_booleans(talk: Connect) -> None:
    app = App("s")
    schema = {
        "type": "object",
        "properties": {"a": True, "b": {"items": False, "type": "array"}},
        "anyOf": [True],
    }

    @app.action(input=schema)
    async def take(input: dict[str, Any]) -> dict[str, Any]:
        """Take anything."""
        return input

    told = (await (await talk(app)).ask("tools/list"))["tools"][0]["inputSchema"]
    assert told["properties"] == {"a": {}, "b": {"items": {"not": {}}, "type": "array"}}
    assert told["anyOf"] == [{}]
