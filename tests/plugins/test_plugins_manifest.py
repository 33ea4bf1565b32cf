"""What a plugin says of itself: every rule of the manifest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.failures import Failure
from fairlead.plugins.manifest import (
    LARGEST,
    Field,
    Manifest,
    below_mount,
    check_id,
    decode,
    normalised_mount,
    shadowed_routes,
)

LEAST: dict[str, Any] = {"plugin_id": "test.toy", "capabilities": {}}


def manifest(**more: Any) -> Manifest:
    return decode(json.dumps(LEAST | more))


def capable(**capabilities: Any) -> Manifest:
    return manifest(capabilities=capabilities)


def paths_of(text: str) -> list[str]:
    with pytest.raises(Failure) as caught:
        decode(text)
    return [".".join(map(str, issue.path)) for issue in caught.value.issues]


def refused(**more: Any) -> list[str]:
    return paths_of(json.dumps(LEAST | more))


def field(**more: Any) -> Field:
    given = {"key": "k", "type": "text", "label": "K"} | more
    config = capable(config={"sections": [{"title": "S", "fields": [given]}]}).config
    assert config is not None
    return next(config.fields)


def test_the_least_manifest_has_an_id_and_empty_capabilities() -> None:
    found = manifest()
    assert (found.plugin_id, found.tools, found.routes, found.config, found.web) == (
        "test.toy",
        (),
        (),
        None,
        None,
    )
    assert not found.artifact_handler


def test_unknown_keys_are_ignored_everywhere() -> None:
    tool = {"id": "t", "description": "d", "colour": "red"}
    assert manifest(future=1, capabilities={"tools": [tool], "later": []}).tools[0].id == "t"


def test_all_top_level_keys_are_read() -> None:
    found = manifest(
        name="Toy",
        version="1.2.3",
        description="d",
        license="MIT",
        authors=["A", "B"],
        min_macos="15.0",
        min_osaurus="0.9.0",
        instructions="Be brief.",
        secrets=[{"id": "key", "label": "Key", "required": True, "description": "d", "url": "https://x"}],
        docs={"readme": "README.md", "changelog": "C.md", "links": [{"label": "Home", "url": "https://x"}]},
    )
    assert (found.name, found.version, found.license, found.authors) == ("Toy", "1.2.3", "MIT", ("A", "B"))
    assert (found.min_macos, found.min_osaurus, found.instructions) == ("15.0", "0.9.0", "Be brief.")
    assert (found.secrets[0].id, found.secrets[0].required) == ("key", True)
    assert found.docs is not None
    assert found.docs.links[0].url == "https://x"


@pytest.mark.parametrize("key", ["plugin_id", "capabilities"])
def test_a_missing_required_key_refuses_the_manifest(key: str) -> None:
    assert paths_of(json.dumps({name: value for name, value in LEAST.items() if name != key})) == [key]


@pytest.mark.parametrize("key", ["plugin_id", "capabilities"])
def test_null_is_no_value_for_a_required_key(key: str) -> None:
    assert paths_of(json.dumps(LEAST | {key: None})) == [key]


def test_null_is_absence_for_an_optional_key() -> None:
    assert manifest(name=None, secrets=None, docs=None).name is None


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"name": 1}, "name"),
        ({"version": 1.0}, "version"),
        ({"authors": "me"}, "authors"),
        ({"authors": ["me", 2]}, "authors.1"),
        ({"secrets": {}}, "secrets"),
        ({"secrets": [1]}, "secrets.0"),
        ({"docs": []}, "docs"),
        ({"docs": {"links": [{"label": "x"}]}}, "docs.links.0.url"),
        ({"capabilities": []}, "capabilities"),
        ({"capabilities": {"artifact_handler": "yes"}}, "capabilities.artifact_handler"),
        ({"capabilities": {"tools": {}}}, "capabilities.tools"),
        ({"min_osaurus": 1}, "min_osaurus"),
    ],
)
def test_a_wrong_type_anywhere_refuses_the_whole_manifest(given: dict[str, Any], path: str) -> None:
    assert refused(**given) == [path]


def test_every_fault_is_named_not_only_the_first() -> None:
    tools = [{"id": 1}, {"description": "d"}]
    assert refused(name=1, capabilities={"tools": tools}) == [
        "capabilities.tools.0.id",
        "capabilities.tools.0.description",
        "capabilities.tools.1.id",
        "name",
    ]


def test_a_faulty_value_is_not_shown_but_its_type_is() -> None:
    with pytest.raises(Failure) as caught:
        manifest(name={"secret": "hunter2"})
    assert "hunter2" not in caught.value.message
    assert "an object" in caught.value.message


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "null", "NaN", '{"plugin_id": "a",}'])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(Failure):
        decode(text)


def test_a_manifest_without_end_is_refused_unread() -> None:
    with pytest.raises(Failure, match="longer than"):
        decode(" " * (LARGEST + 1))


def test_deep_nesting_is_a_failure_and_no_crash() -> None:
    with pytest.raises(Failure):
        decode("[" * 100_000)


@pytest.mark.parametrize("missing", ["id", "label", "required"])
def test_a_secret_needs_its_three_keys(missing: str) -> None:
    secret = {"id": "k", "label": "K", "required": False}
    del secret[missing]
    assert refused(secrets=[secret]) == [f"secrets.0.{missing}"]


@pytest.mark.parametrize("missing", ["id", "description"])
def test_a_tool_needs_an_id_and_a_description(missing: str) -> None:
    tool = {"id": "t", "description": "d"}
    del tool[missing]
    assert refused(capabilities={"tools": [tool]}) == [f"capabilities.tools.0.{missing}"]


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ("auto", "auto"),
        ("AUTO", "auto"),
        ("Deny", "deny"),
        ("ask", "ask"),
        ("whatever", "ask"),
        ("", "ask"),
        (None, "ask"),
    ],
)
def test_a_tool_asks_unless_it_says_auto_or_deny(given: str | None, policy: str) -> None:
    tool = {"id": "t", "description": "d", "permission_policy": given}
    assert capable(tools=[tool]).tools[0].permission_policy == policy


def test_a_tool_keeps_its_schema_and_requirements() -> None:
    schema = {"type": "object"}
    tool = {"id": "t", "description": "d", "parameters": schema, "requirements": ["disk", "free words"]}
    found = capable(tools=[tool]).tools[0]
    assert (found.parameters, found.requirements) == (schema, ("disk", "free words"))


@pytest.mark.parametrize("missing", ["id", "path", "methods", "auth"])
def test_a_route_needs_its_four_keys(missing: str) -> None:
    route: dict[str, Any] = {"id": "r", "path": "/r", "methods": ["GET"], "auth": "owner"}
    del route[missing]
    assert refused(capabilities={"routes": [route]}) == [f"capabilities.routes.0.{missing}"]


@pytest.mark.parametrize("auth", ["none", "verify", "owner"])
def test_a_route_says_who_may_ask(auth: str) -> None:
    route = {"id": "r", "path": "/r", "methods": ["GET", "post"], "auth": auth}
    found = capable(routes=[route]).routes[0]
    assert (found.auth, found.methods, found.tunnel_exposed) == (auth, ("GET", "post"), False)


@pytest.mark.parametrize("auth", ["Owner", "anyone", ""])
def test_another_word_for_who_may_ask_is_refused(auth: str) -> None:
    route = {"id": "r", "path": "/r", "methods": ["GET"], "auth": auth}
    assert refused(capabilities={"routes": [route]}) == ["capabilities.routes.0.auth"]


def test_a_web_mount_has_the_api_at_api_unless_it_says_otherwise() -> None:
    web = {"static_dir": "web", "entry": "index.html", "mount": "/ui", "auth": "owner"}
    first, second = capable(web=web).web, capable(web=web | {"api_mount": "/v1", "tunnel_exposed": True}).web
    assert first is not None
    assert second is not None
    assert (first.api_mount, first.tunnel_exposed) == ("/api", False)
    assert (second.api_mount, second.tunnel_exposed) == ("/v1", True)


@pytest.mark.parametrize("missing", ["static_dir", "entry", "mount", "auth"])
def test_a_web_mount_needs_its_four_keys(missing: str) -> None:
    web = {"static_dir": "web", "entry": "index.html", "mount": "/ui", "auth": "owner"}
    del web[missing]
    assert refused(capabilities={"web": web}) == [f"capabilities.web.{missing}"]


@pytest.mark.parametrize(
    "type", ["text", "secret", "toggle", "select", "multiselect", "number", "readonly", "status"]
)
def test_a_field_has_one_of_eight_types(type: str) -> None:
    assert field(type=type).type == type


def test_a_field_of_another_type_is_refused() -> None:
    config = {"sections": [{"title": "S", "fields": [{"key": "k", "type": "colour", "label": "K"}]}]}
    assert refused(capabilities={"config": config}) == ["capabilities.config.sections.0.fields.0.type"]


@pytest.mark.parametrize(
    ("default", "delivered"),
    [
        (True, "true"),
        (False, "false"),
        (30, "30.0"),
        (2.5, "2.5"),
        (0, "0.0"),
        ("", ""),
        ("30", "30"),
        (["a", "ü"], '["a","ü"]'),
        ([], "[]"),
        (None, None),
    ],
)
def test_a_default_is_delivered_as_text(default: Any, delivered: str | None) -> None:
    assert field(default=default).default == delivered


@pytest.mark.parametrize("default", [{}, [1], ["a", None]])
def test_a_default_of_another_type_is_refused(default: Any) -> None:
    config = {
        "sections": [
            {"title": "S", "fields": [{"key": "k", "type": "text", "label": "K", "default": default}]}
        ]
    }
    assert refused(capabilities={"config": config}) == ["capabilities.config.sections.0.fields.0.default"]


def test_a_field_keeps_all_that_it_says() -> None:
    found = field(
        placeholder="p",
        options=[{"value": "a", "label": "A"}],
        validation={
            "required": True,
            "pattern": "x",
            "pattern_hint": "h",
            "min": 1,
            "max": 2.5,
            "min_length": 1,
            "max_length": 9,
        },
        connected_when="token",
        connect_action={"type": "oauth", "url_route": "login"},
        disconnect_action={"clear_keys": ["token"]},
        value_template="{{x}}",
        copyable=True,
    )
    assert found.options[0].value == "a"
    assert found.validation is not None
    assert (found.validation.min, found.validation.max, found.validation.max_length) == (1.0, 2.5, 9)
    assert found.connect_action is not None
    assert (found.connect_action.url_route, found.disconnect_keys, found.copyable) == (
        "login",
        ("token",),
        True,
    )


@pytest.mark.parametrize("number", [True, "1"])
def test_true_and_text_are_no_numbers(number: Any) -> None:
    fields = [{"key": "k", "type": "number", "label": "K", "validation": {"min": number}}]
    config = {"sections": [{"title": "S", "fields": fields}]}
    assert refused(capabilities={"config": config}) == [
        "capabilities.config.sections.0.fields.0.validation.min"
    ]


def test_settings_need_sections_and_sections_need_fields() -> None:
    assert refused(capabilities={"config": {}}) == ["capabilities.config.sections"]
    assert refused(capabilities={"config": {"sections": [{"title": "S"}]}}) == [
        "capabilities.config.sections.0.fields"
    ]


@pytest.mark.parametrize("kind", ["tools", "routes"])
@pytest.mark.parametrize("ids", [["a", "a"], ["a", " "], [""]])
def test_ids_of_tools_and_routes_are_not_blank_and_not_used_twice(kind: str, ids: list[str]) -> None:
    more = {"path": "/x", "methods": [], "auth": "none", "description": "d"}
    found = refused(capabilities={kind: [{"id": id, **more} for id in ids]})
    assert found == [f"capabilities.{kind}.{len(ids) - 1}.id"]


def test_a_tool_and_a_route_may_share_an_id() -> None:
    route = {"id": "a", "path": "/a", "methods": [], "auth": "none"}
    assert capable(tools=[{"id": "a", "description": "d"}], routes=[route]).routes[0].id == "a"


def test_manifests_that_say_the_same_are_equal_however_they_are_written() -> None:
    first = decode(
        '{"plugin_id":"a","capabilities":{"tools":[{"id":"t","description":"d","x":1}]},"name":null}'
    )
    second = decode('{ "capabilities": {"tools": [{"description": "d", "id": "t"}]}, "plugin_id": "a" }')
    assert first == second


@pytest.mark.parametrize("id", ["a", "test.toy", "com.example.My-Plugin_2", "9"])
def test_an_id_that_a_folder_can_have_is_taken(id: str) -> None:
    assert check_id(id) == id


@pytest.mark.parametrize(
    "id", ["", ".", "..", "a/b", ".hidden", "a..b", "a\\b", "a b", "ü", "a\n", "a" * 129, "-x", "x."]
)
def test_an_id_that_leads_elsewhere_is_refused(id: str) -> None:
    with pytest.raises(Failure):
        check_id(id)


@pytest.mark.parametrize("mount", ["ui", "/ui", "/ui/", "ui/", " /ui "])
def test_a_mount_has_one_spelling(mount: str) -> None:
    assert normalised_mount(mount) == "/ui"


def test_a_mount_holds_itself_and_what_is_below_it_by_whole_segments() -> None:
    assert below_mount("/ui", "ui")
    assert below_mount("/ui/a", "/ui/")
    assert not below_mount("/ui-other", "/ui")
    assert not below_mount("/UI", "/ui")
    assert below_mount("/anything", "/")


@pytest.mark.parametrize(
    ("path", "shadowed"),
    [("/ui", True), ("ui/x", True), ("/ui/*", True), ("/ui-other", False), ("/*", False)],
)
def test_a_route_at_or_below_the_mount_is_found(path: str, shadowed: bool) -> None:
    web = {"static_dir": "web", "entry": "i", "mount": "ui/", "auth": "owner"}
    route = {"id": "r", "path": path, "methods": [], "auth": "none"}
    assert bool(shadowed_routes(capable(web=web, routes=[route]))) is shadowed
