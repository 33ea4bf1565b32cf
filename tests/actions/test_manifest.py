"""What surfaces show: one exposure policy, and manifests that are the same each time."""

import json
from collections.abc import Callable
from typing import Any, Literal

import pytest

from fairlead import Action, App
from fairlead.actions import Exposure, Surface, describe_action, register_surface, surface_names, surfaces

KEYS = [
    "name",
    "version",
    "commandName",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "visibility",
    "sideEffects",
    "idempotency",
    "permissions",
    "supportedSurfaces",
    "timeoutMs",
    "retry",
    "requiresConfirmation",
    "publicMetadata",
    "docs",
    "deprecated",
    "deprecation",
]
LOCAL = ("cli", "json", "react", "dev", "unknown")
REMOTE = ("http", "mcp", "ai-sdk")


def board() -> App:
    app = App("board", attribution={"text": "By us", "docs_url": "https://docs.example"})

    def add(
        name: str,
        visibility: Literal["public", "local", "private"] = "public",
        side_effects: Literal["read", "write", "destructive"] = "read",
        **more: Any,
    ) -> None:
        app.add(
            lambda: 1, name=name, description="D.", visibility=visibility, side_effects=side_effects, **more
        )

    add("open_read")
    add("open_write", side_effects="write")
    add("open_delete", side_effects="destructive")
    add("near_read", "local")
    add("near_delete", "local", "destructive")
    add("hidden", "private")
    add("only_cli", supported_surfaces=["cli"])
    return app


def shown(app: App, surface: str, **include: Any) -> set[str]:
    return {each["name"] for each in app.action_manifest(surface, **include)}


@pytest.mark.parametrize("surface", LOCAL)
def test_local_surfaces_show_local_and_destructive_actions(surface: str) -> None:
    expected = {"open_read", "open_write", "open_delete", "near_read", "near_delete"}
    expected |= {"only_cli"} if surface in ("cli", "unknown") else set()
    assert shown(board(), surface) == expected


@pytest.mark.parametrize("surface", REMOTE)
def test_remote_surfaces_show_public_actions_that_destroy_nothing(surface: str) -> None:
    assert shown(board(), surface) == {"open_read", "open_write"}


@pytest.mark.parametrize("surface", REMOTE)
def test_each_include_flag_widens_one_thing(surface: str) -> None:
    app = board()
    base = {"open_read", "open_write"}
    assert shown(app, surface, include_private=True) == base | {"hidden"}
    assert shown(app, surface, include_local=True) == base | {"near_read"}
    assert shown(app, surface, include_destructive=True) == base | {"open_delete"}
    everything = dict.fromkeys(("include_private", "include_local", "include_destructive"), True)
    assert shown(app, surface, **everything) == base | {"hidden", "near_read", "open_delete", "near_delete"}


def test_each_include_flag_can_narrow_a_local_surface() -> None:
    app = board()
    assert shown(app, "cli", include_local=False) == {"open_read", "open_write", "open_delete", "only_cli"}
    assert shown(app, "cli", include_destructive=False) == {
        "open_read",
        "open_write",
        "near_read",
        "only_cli",
    }


@pytest.mark.parametrize("flag", ["include_private", "include_local", "include_destructive"])
@pytest.mark.parametrize("value", [1, "yes", "true"])
def test_only_true_widens(flag: str, value: Any) -> None:
    assert shown(board(), "http", **{flag: value}) == {"open_read", "open_write"}


def test_a_filter_has_the_last_word() -> None:
    keep: Callable[[Action[..., Any]], bool] = lambda action: action.side_effects == "write"  # noqa: E731
    app = board()
    assert [each["name"] for each in app.action_manifest("http", Exposure(filter=keep))] == ["open_write"]
    assert [each.name for each in app.list_actions("http", Exposure(filter=keep))] == ["open_write"]


def test_listing_and_manifest_agree_on_every_surface() -> None:
    app = board()
    for surface in (*LOCAL, *REMOTE):
        assert [each.name for each in app.list_actions(surface)] == [
            each["name"] for each in app.action_manifest(surface)
        ]


def test_an_action_is_described_by_nineteen_keys() -> None:
    for described in board().action_manifest(include_private=True):
        assert list(described) == KEYS


def test_a_description_says_what_was_declared() -> None:
    def create(title: str, count: int = 1) -> dict[str, int]:
        """Create a task."""
        return {title: count}

    described = describe_action(
        Action(
            create,
            name="create_task",
            version="2.1.0",
            side_effects="write",
            idempotency="conditional",
            permissions=["tasks:write"],
            supported_surfaces=["cli", "http"],
            timeout=1.5,
            retry=True,
            requires_confirmation="token",
            metadata={"cost": "hidden"},
            public_metadata={"tier": "free"},
            docs={"when_to_use": "Always", "input_example": {"title": "x"}},
            deprecation={"message": "m", "remove_after": "3.0"},
        )
    )
    assert described["commandName"] == "create-task"
    assert described["version"] == "2.1.0"
    assert described["inputSchema"]["required"] == ["title"]
    assert described["inputSchema"]["properties"]["count"]["default"] == 1
    assert described["outputSchema"]["type"] == "object"
    assert described["permissions"] == ["tasks:write"]
    assert described["supportedSurfaces"] == ["cli", "http"]
    assert described["timeoutMs"] == 1500
    assert described["retry"] == {"retries": 2, "delayMs": 100}
    assert described["requiresConfirmation"] is True
    assert described["publicMetadata"] == {"tier": "free"}
    assert described["docs"] == {"whenToUse": "Always", "inputExample": {"title": "x"}}
    assert described["deprecated"] is True
    assert described["deprecation"] == {"message": "m", "removeAfter": "3.0"}
    assert "hidden" not in json.dumps(described)


def test_the_manifest_has_the_contracts_keys_and_all_surfaces() -> None:
    manifest = board().manifest()
    assert list(manifest) == ["name", "generatedAt", "attribution", "actions", "surfaces"]
    assert manifest["name"] == "board"
    assert [each["name"] for each in manifest["surfaces"]][:7] == [
        "cli",
        "json",
        "http",
        "mcp",
        "react",
        "dev",
        "ai-sdk",
    ]
    capabilities = ["jsonInput", "jsonOutput", "streaming", "cancellation", "binaryArtifacts"]
    for each in manifest["surfaces"]:
        assert list(each) == ["name", "description", "capabilities"]
        assert list(each["capabilities"]) == [*capabilities, "interactiveConfirmation"]


def test_attribution_is_told_in_the_manifests_words() -> None:
    assert board().manifest()["attribution"] == {"text": "By us", "docsUrl": "https://docs.example"}


def test_attribution_without_a_text_is_left_out() -> None:
    assert "attribution" not in App("x", attribution={"vendor": "us"}).manifest()
    assert "attribution" not in App("x").manifest()


def test_the_manifest_of_equal_apps_is_equal_to_the_byte() -> None:
    assert json.dumps(board().manifest()) == json.dumps(board().manifest())


def test_the_manifest_is_json() -> None:
    json.dumps(board().manifest(include_private=True), allow_nan=False)


def test_the_manifest_applies_the_surface_and_its_exposure() -> None:
    assert {each["name"] for each in board().manifest("http")["actions"]} == {"open_read", "open_write"}


def test_changing_a_manifest_changes_no_action() -> None:
    app = App("x")

    @app.action(public_metadata={"tier": "free"}, docs={"input_example": {"a": 1}})
    def ping(a: int) -> None:
        """Ping."""

    first = app.action_manifest()[0]
    first["publicMetadata"]["tier"] = "paid"
    first["inputSchema"]["properties"].clear()
    first["docs"]["inputExample"].clear()
    second = app.action_manifest()[0]
    assert second["publicMetadata"] == {"tier": "free"}
    assert list(second["inputSchema"]["properties"]) == ["a"]
    assert second["docs"] == {"inputExample": {"a": 1}}


@pytest.fixture
def pager() -> Any:
    from fairlead.actions import surfaces as _  # noqa: F401
    from fairlead.actions.surfaces import _SURFACES

    register_surface(Surface("pager", "Beeps."))
    yield "pager"
    del _SURFACES["pager"]


def test_a_surface_of_your_own_joins(pager: str) -> None:
    app = App("x")
    app.add(lambda: 1, name="beep", description="Beep.", supported_surfaces=[pager])
    assert pager in surface_names()
    assert shown(app, pager) == {"beep"}
    assert [each.describe()["description"] for each in surfaces() if each.name == pager] == ["Beeps."]


def one_of_many(version: str) -> Callable[[], str]:
    return lambda: version


def versions(*private: str) -> App:
    """Three versions of one name, some of them private."""
    app = App("x")
    for version in ("2.0.0", "1.0.0", "1.1.0"):
        options: Any = {"visibility": "private"} if version in private else {}
        app.add(one_of_many(version), name="ver", version=version, description="Be one of many.", **options)
    return app


def test_versions_that_callers_can_name_stand_apart_in_the_manifest() -> None:
    told = versions().manifest()
    assert list(told) == ["name", "generatedAt", "actions", "olderVersions", "surfaces"]
    assert [each["version"] for each in told["actions"]] == ["2.0.0"]
    assert [each["version"] for each in told["olderVersions"]] == ["1.0.0", "1.1.0"]
    assert all(list(each) == KEYS for each in told["olderVersions"])


def test_an_older_version_is_told_where_it_is_exposed() -> None:
    told = versions("1.0.0", "2.0.0").manifest("http")
    assert (told["actions"], [each["version"] for each in told["olderVersions"]]) == ([], ["1.1.0"])
    assert len(versions("1.0.0").manifest("http", include_private=True)["olderVersions"]) == 2


def test_every_version_can_be_taken_along_to_another_app() -> None:
    other = App("other", actions=versions().catalogue.versions())
    assert other.manifest()["olderVersions"] == versions().manifest()["olderVersions"]
    assert other.invoke_sync("ver").data == "2.0.0"
    assert other.invoke_sync("ver@1.1.0").data == "1.1.0"
