"""A diff tells what breaks callers, and nothing else as a break."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field

from fairlead import App, Failure
from fairlead.project.compatibility import gaps
from fairlead.project.diff import diff_manifests


class Tree(BaseModel):
    name: str
    branches: list[Tree] = []


class TallTree(BaseModel):
    name: str
    height: int = 0
    branches: list[TallTree] = []


class Small(TypedDict):
    a: int


class Large(TypedDict):
    a: int
    b: str


Closed = Literal["a", "b"]
Open = Literal["a", "b", "c"]


def manifest(takes: Any = int, gives: Any = str, **options: Any) -> list[dict[str, Any]]:
    def act(x: Any) -> Any: ...

    act.__annotations__ = {"x": takes, "return": gives}
    app = App("app")
    app.add(act, **{"name": "act", "description": "Act on a thing.", **options})
    return app.action_manifest(include_private=True, include_local=True)


def with_second(annotation: Any, *, required: bool) -> list[dict[str, Any]]:
    def act(x: int, y: Any) -> str:
        raise NotImplementedError

    act.__annotations__["y"] = annotation
    if not required:
        act.__defaults__ = (1,)
    app = App("app")
    app.add(act, name="act", description="Act on a thing.")
    return app.action_manifest()


PLAIN = manifest()
CASES: list[tuple[str, Any, Any, str, str | None]] = [
    ("nothing changed", PLAIN, manifest(), "none", None),
    ("removed action", PLAIN, [], "breaking", None),
    ("added action", [], PLAIN, "info", None),
    ("description", PLAIN, manifest(description="Act on a thing, gently."), "info", "description"),
    ("added optional field", PLAIN, with_second(int, required=False), "info", "inputSchema.y"),
    ("added required field", PLAIN, with_second(int, required=True), "breaking", "inputSchema.y"),
    ("removed field", with_second(int, required=False), PLAIN, "breaking", "inputSchema.y"),
    (
        "field became required",
        with_second(int, required=False),
        with_second(int, required=True),
        "breaking",
        "inputSchema.y",
    ),
    (
        "field became optional",
        with_second(int, required=True),
        with_second(int, required=False),
        "info",
        "inputSchema.y",
    ),
    ("wider input type", PLAIN, manifest(int | str), "info", "inputSchema.x"),
    ("narrower input type", manifest(int | str), PLAIN, "breaking", "inputSchema.x"),
    ("other input type", PLAIN, manifest(str), "breaking", "inputSchema.x"),
    ("integer to number", PLAIN, manifest(float), "info", "inputSchema.x"),
    ("number to integer", manifest(float), PLAIN, "breaking", "inputSchema.x"),
    ("nullable input", PLAIN, manifest(int | None), "info", "inputSchema.x"),
    ("no longer nullable input", manifest(int | None), PLAIN, "breaking", "inputSchema.x"),
    ("removed choice", manifest(Open), manifest(Closed), "breaking", "inputSchema.x"),
    ("added choice", manifest(Closed), manifest(Open), "info", "inputSchema.x"),
    (
        "choices in another order",
        manifest(Literal["a", "b"]),
        manifest(Literal["b", "a"]),
        "info",
        "inputSchema",
    ),
    ("higher minimum", PLAIN, manifest(Annotated[int, Field(ge=1)]), "breaking", "inputSchema.x"),
    ("lower minimum", manifest(Annotated[int, Field(ge=1)]), PLAIN, "info", "inputSchema.x"),
    (
        "new pattern",
        manifest(str),
        manifest(Annotated[str, Field(pattern="^a")]),
        "breaking",
        "inputSchema.x",
    ),
    (
        "new format",
        manifest(str),
        manifest(Annotated[str, Field(json_schema_extra={"format": "email"})]),
        "breaking",
        "inputSchema.x",
    ),
    ("narrower items", manifest(list[int | str]), manifest(list[int]), "breaking", "inputSchema.x.*"),
    (
        "fewer items",
        manifest(list[int]),
        manifest(Annotated[list[int], Field(max_length=3)]),
        "breaking",
        "inputSchema.x",
    ),
    ("deeper optional field", manifest(Tree), manifest(TallTree), "info", "inputSchema.height"),
    ("wider output", PLAIN, manifest(gives=str | None), "breaking", "outputSchema"),
    ("narrower output", manifest(gives=str | None), PLAIN, "info", "outputSchema"),
    ("added output field", manifest(gives=Small), manifest(gives=Large), "info", "outputSchema.b"),
    ("removed output field", manifest(gives=Large), manifest(gives=Small), "breaking", "outputSchema.b"),
    ("added output value", manifest(gives=Closed), manifest(gives=Open), "breaking", "outputSchema"),
    ("removed output value", manifest(gives=Open), manifest(gives=Closed), "info", "outputSchema"),
    ("stronger permission", PLAIN, manifest(permissions=["x"]), "breaking", "permissions"),
    ("weaker permission", manifest(permissions=["x"]), PLAIN, "info", "permissions"),
    ("new confirmation", PLAIN, manifest(requires_confirmation=True), "breaking", "requiresConfirmation"),
    ("no more confirmation", manifest(requires_confirmation=True), PLAIN, "warning", "requiresConfirmation"),
    ("more side effects", PLAIN, manifest(side_effects="write"), "warning", "sideEffects"),
    (
        "map of other values",
        manifest(gives=dict[str, int]),
        manifest(gives=dict[str, str]),
        "breaking",
        "outputSchema.*",
    ),
    ("fewer surfaces", PLAIN, manifest(supported_surfaces=["cli"]), "warning", "supportedSurfaces"),
    ("hidden", PLAIN, manifest(visibility="private"), "breaking", "visibility"),
    ("shown", manifest(visibility="private"), PLAIN, "info", "visibility"),
    ("deprecated", PLAIN, manifest(deprecated=True), "warning", "deprecated"),
    ("another version", PLAIN, manifest(version="1.1.0"), "info", "version"),
    ("shorter time", PLAIN, manifest(timeout=1), "warning", "timeoutMs"),
    ("weaker idempotency", manifest(idempotency="idempotent"), PLAIN, "warning", "idempotency"),
]


@pytest.mark.parametrize(
    ("previous", "following", "severity", "field"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_each_change_has_its_weight(previous: Any, following: Any, severity: str, field: str | None) -> None:
    diff = diff_manifests(previous, following)
    worst = next(
        (
            level
            for level in ("breaking", "warning", "info")
            if any(c["severity"] == level for c in diff["changes"])
        ),
        "none",
    )
    assert worst == severity
    assert diff["ok"] is (severity != "breaking")
    if field is not None:
        assert field in [change.get("field") for change in diff["changes"]]


def test_the_summary_counts_and_asks_for_a_version() -> None:
    diff = diff_manifests({"actions": manifest(int | str)}, {"actions": manifest(deprecated=True)})
    assert diff["summary"] == {"breaking": 1, "warnings": 1, "info": 0}
    assert diff["bump"] == "major"
    [narrowed] = [change for change in diff["changes"] if change["severity"] == "breaking"]
    assert narrowed["before"] != narrowed["after"]
    assert narrowed["why"]


@pytest.mark.parametrize("wrong", [None, 1, "text", {}, {"actions": 1}, [1], [{}], [{"name": 1}]])
def test_what_is_no_manifest_is_refused(wrong: Any) -> None:
    with pytest.raises(Failure) as refused:
        diff_manifests(wrong, [])
    assert refused.value.code == "VALIDATION_ERROR"
    assert refused.value.field == "previous"


def test_an_unknown_keyword_that_appears_is_taken_for_a_break() -> None:
    assert gaps({"type": "string"}, {"type": "string", "contentSchema": {"type": "object"}})
    assert not gaps({"type": "string", "contentSchema": {}}, {"type": "string"})


@pytest.mark.parametrize("odd", [0, -1, True, "x", [1], [None], [["x"]], {"a": 1}, {"$ref": 3}])
def test_a_member_of_another_type_is_refused_or_compared(odd: Any) -> None:
    plain = manifest(dict[str, int], permissions=["a"], timeout=1)
    for member in plain[0]:
        for changed in (
            {member: odd},
            {"inputSchema": {"type": "object", "properties": odd, "required": odd}},
        ):
            mangled = [{**plain[0], **changed}]
            for pair in ((plain, mangled), (mangled, plain), (mangled, mangled)):
                with suppress(Failure):
                    diff_manifests(*pair)


def side_by_side(takes: Any = int, *rest: str) -> Any:
    """The manifest of an app with a version 1.0.0 that takes something, and more versions."""

    def old(x: Any) -> str:
        return ""

    def new(y: int) -> str:
        return ""

    old.__annotations__["x"] = takes
    app = App("app", description="An app.")
    options: Any = {"name": "ver", "description": "Be one of many."}
    if takes is not None:
        app.add(old, version="1.0.0", **options)
    for version in rest:
        app.add(new, version=version, **options)
    return app.manifest()


BOTH = side_by_side(int, "2.0.0")
BESIDE = [
    ("nothing", BOTH, BOTH, []),
    ("an older one is gone", BOTH, side_by_side(None, "2.0.0"), [("ver@1.0.0", "removed", "breaking")]),
    ("it takes less", side_by_side(int | str, "2.0.0"), BOTH, [("ver@1.0.0", "changed", "breaking")]),
    ("it takes more", BOTH, side_by_side(int | str, "2.0.0"), [("ver@1.0.0", "changed", "info")]),
    (
        "it comes back",
        side_by_side(None, "2.0.0"),
        BOTH,
        [("ver@1.0.0", "added", "info")],
    ),
    (
        "the newest grew old, and changed",
        side_by_side(int | str),
        BOTH,
        [
            ("ver", "changed", "breaking"),
            ("ver", "changed", "breaking"),
            ("ver", "version", "info"),
            ("ver@1.0.0", "changed", "breaking"),
        ],
    ),
    (
        "the newest is gone",
        side_by_side(None, "1.0.0", "2.0.0"),
        side_by_side(None, "1.0.0"),
        [("ver", "version", "info")],
    ),
    (
        "a newer one",
        BOTH,
        side_by_side(int, "2.0.0", "3.0.0"),
        [("ver", "version", "info")],
    ),
]


@pytest.mark.parametrize(
    ("previous", "following", "changes"), [case[1:] for case in BESIDE], ids=[case[0] for case in BESIDE]
)
def test_versions_side_by_side_are_compared_one_by_one(previous: Any, following: Any, changes: Any) -> None:
    diff = diff_manifests(previous, following)
    told = [(each["action"], each["type"], each["severity"]) for each in diff["changes"]]
    assert sorted(told) == changes


@pytest.mark.parametrize("wrong", [1, "text", [1], [{}]])
def test_older_versions_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(Failure):
        diff_manifests({"actions": [], "olderVersions": wrong}, [])
