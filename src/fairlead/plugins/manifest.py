"""What a plugin says of itself: its manifest, decoded whole or refused whole.

Unknown keys are left alone. A required key that is missing, or a value of another type anywhere, refuses all of it;
the failure names every such place, not only the first.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, cast

from fairlead import _json
from fairlead.failures import Failure, Issue, Kind

Policy = Literal["auto", "ask", "deny"]
Auth = Literal["none", "verify", "owner"]
FieldType = Literal["text", "secret", "toggle", "select", "multiselect", "number", "readonly", "status"]

POLICIES: Final = ("auto", "ask", "deny")
AUTHS: Final = ("none", "verify", "owner")
FIELD_TYPES: Final = ("text", "secret", "toggle", "select", "multiselect", "number", "readonly", "status")
#: Bytes. What is longer is no description.
LARGEST: Final = 4 * 1024 * 1024
_ID: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?", re.ASCII)
_MOST_ISSUES: Final = 50

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tool:
    """Something a model can call; `permission_policy` is one of auto, ask and deny."""

    id: str
    description: str
    parameters: Mapping[str, Any] | None = None
    requirements: tuple[str, ...] = ()
    permission_policy: Policy = "ask"


@dataclass(frozen=True, slots=True)
class Route:
    """An address under `/plugins/<id>/` that the plugin answers itself."""

    id: str
    path: str
    methods: tuple[str, ...]
    auth: Auth
    description: str | None = None
    tunnel_exposed: bool = False


@dataclass(frozen=True, slots=True)
class Web:
    """Files that are served as they are, below `mount`."""

    static_dir: str
    entry: str
    mount: str
    auth: Auth
    api_mount: str = "/api"
    tunnel_exposed: bool = False


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that a person gives to the plugin."""

    id: str
    label: str
    required: bool
    description: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """One choice of a field."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Validation:
    """What a field's value has to be like."""

    required: bool | None = None
    pattern: str | None = None
    pattern_hint: str | None = None
    min: float | None = None
    max: float | None = None
    min_length: int | None = None
    max_length: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectAction:
    """What connects an account."""

    type: str | None = None
    url_route: str | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """One setting; `default` is in the form in which it is delivered."""

    key: str
    type: FieldType
    label: str
    placeholder: str | None = None
    default: str | None = None
    options: tuple[Option, ...] = ()
    validation: Validation | None = None
    connected_when: str | None = None
    connect_action: ConnectAction | None = None
    #: The keys that are cleared when an account is disconnected.
    disconnect_keys: tuple[str, ...] = ()
    value_template: str | None = None
    copyable: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Settings under one title."""

    title: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """The settings that a person can change."""

    sections: tuple[Section, ...]
    title: str | None = None

    @property
    def fields(self) -> Iterator[Field]:
        """All of them, in order."""
        for section in self.sections:
            yield from section.fields


@dataclass(frozen=True, slots=True)
class Link:
    """A page elsewhere."""

    label: str
    url: str


@dataclass(frozen=True, slots=True)
class Docs:
    """Where the plugin is explained."""

    readme: str | None = None
    changelog: str | None = None
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """A plugin's own description. Two are equal when they say the same, however they were written."""

    plugin_id: str
    name: str | None = None
    version: str | None = None
    description: str | None = None
    license: str | None = None
    authors: tuple[str, ...] = ()
    min_macos: str | None = None
    min_osaurus: str | None = None
    instructions: str | None = None
    secrets: tuple[Secret, ...] = ()
    docs: Docs | None = None
    tools: tuple[Tool, ...] = ()
    routes: tuple[Route, ...] = ()
    config: Config | None = None
    web: Web | None = None
    artifact_handler: bool = False


def decode(text: str | bytes) -> Manifest:
    """The manifest in a JSON text.

    Raises:
        Failure: it is not JSON, too long, or breaks a rule; `issues` names each place.
    """
    if len(text) > LARGEST:
        raise _refused(f"The manifest is longer than {LARGEST} bytes. Shorten it.")
    try:
        value = _json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise _refused(f"The manifest is not JSON: {exc}.") from None
    issues: list[Issue] = []
    if not isinstance(value, dict):
        raise _refused(f"The manifest is {_called(value)}; it has to be an object.")
    manifest = _manifest(_Object(value, (), issues))
    issues += _broken_rules(manifest) if not issues else []
    if issues:
        raise _listed(issues)
    return manifest


def is_id(text: str) -> bool:
    """Whether a plugin, and its folder, can be called so."""
    return _ID.fullmatch(text) is not None and ".." not in text


def check_id(id: str) -> str:
    """The id, if it is one. Raises Failure."""
    if not is_id(id):
        raise _refused(
            f"A plugin cannot have the id {id[:80]!r}. Use letters, digits, '.', '_' and '-', 128 at most, with a "
            "letter or digit at both ends: com.example.notes."
        )
    return id


def normalised_mount(mount: str) -> str:
    """A mount as it is compared: `ui`, `/ui` and `/ui/` are all `/ui`."""
    return "/" + "/".join(part for part in mount.strip().split("/") if part)


def below_mount(path: str, mount: str) -> bool:
    """Whether a path is a mount itself or lies below it, by whole segments."""
    prefix, inner = normalised_mount(mount), normalised_mount(path)
    return prefix == "/" or inner == prefix or inner.startswith(f"{prefix}/")


def shadowed_routes(manifest: Manifest) -> list[Route]:
    """The routes that nobody could reach, because the web mount is asked first."""
    web = manifest.web
    return [] if web is None else [route for route in manifest.routes if below_mount(route.path, web.mount)]


class _Object:
    """A JSON object that is read key by key; what is wrong is written down, and reading goes on."""

    def __init__(self, value: Mapping[str, Any], path: tuple[str | int, ...], issues: list[Issue]) -> None:
        self._value = value
        self._path = path
        self._issues = issues

    def text(self, key: str) -> str | None:
        return self._typed(key, str, "a string")

    def the_text(self, key: str) -> str:
        return self._needed(key, self.text(key), "")

    def flag(self, key: str) -> bool | None:
        return self._typed(key, bool, "true or false")

    def the_flag(self, key: str) -> bool:
        return self._needed(key, self.flag(key), False)

    def number(self, key: str) -> float | None:
        value = self._value.get(key)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return None if value is None else float(value)
        self._wrong(key, value, "a number")
        return None

    def whole(self, key: str) -> int | None:
        number = self.number(key)
        if number is None or number.is_integer():
            return None if number is None else int(number)
        self._wrong(key, number, "a whole number")
        return None

    def word(self, key: str, words: tuple[str, ...]) -> str:
        given = self.the_text(key)
        if isinstance(self._value.get(key), str) and given not in words:
            expected = f"one of {', '.join(words)}"
            self._note((key,), "invalid_value", f"expected {expected}", expected)
        return given

    def texts(self, key: str) -> tuple[str, ...] | None:
        values = self._typed(key, list, "an array of strings")
        if values is None:
            return None
        for index, each in enumerate(values):
            if not isinstance(each, str):
                self._note((key, index), "invalid_type", "expected a string", "a string", each)
        return tuple(each for each in values if isinstance(each, str))

    def the_texts(self, key: str) -> tuple[str, ...]:
        return self._needed(key, self.texts(key), ())

    def object(self, key: str, read: Callable[[_Object], T]) -> T | None:
        value = self._typed(key, dict, "an object")
        return None if value is None else read(_Object(value, (*self._path, key), self._issues))

    def objects(self, key: str, read: Callable[[_Object], T], *, needed: bool = False) -> tuple[T, ...]:
        values = self._typed(key, list, "an array of objects")
        if needed:
            self._needed(key, values, [])
        found = []
        for index, each in enumerate(values or ()):
            if isinstance(each, dict):
                found.append(read(_Object(each, (*self._path, key, index), self._issues)))
            else:
                self._note((key, index), "invalid_type", "expected an object", "an object", each)
        return tuple(found)

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        return self._typed(key, dict, "an object")

    def delivered(self, key: str) -> str | None:
        """A default as it is handed to the plugin: true or false, a number with its point, a text, an array."""
        value = self._value.get(key)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return repr(float(value))
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        self._wrong(key, value, "true, false, a number, a string or an array of strings")
        return None

    def _typed(self, key: str, kind: type[T], expected: str) -> T | None:
        value = self._value.get(key)
        if value is None or isinstance(value, kind):
            return value
        self._wrong(key, value, expected)
        return None

    def _needed(self, key: str, value: T | None, instead: T) -> T:
        if value is None:
            if self._value.get(key) is None:
                self._note((key,), "required", "is missing")
            return instead
        return value

    def _wrong(self, key: str, value: Any, expected: str) -> None:
        self._note((key,), "invalid_type", f"expected {expected}", expected, value)

    def _note(
        self,
        path: tuple[str | int, ...],
        code: str,
        message: str,
        expected: str | None = None,
        value: Any = None,
    ) -> None:
        received = None if code != "invalid_type" else _called(value)
        told = message if received is None else f"{message}, found {received}"
        self._issues.append(Issue((*self._path, *path), code, told, expected, received))


def _manifest(given: _Object) -> Manifest:
    seen = given.object("capabilities", _capabilities)
    given._needed("capabilities", seen, {})
    return Manifest(
        plugin_id=given.the_text("plugin_id"),
        name=given.text("name"),
        version=given.text("version"),
        description=given.text("description"),
        license=given.text("license"),
        authors=given.texts("authors") or (),
        min_macos=given.text("min_macos"),
        min_osaurus=given.text("min_osaurus"),
        instructions=given.text("instructions"),
        secrets=given.objects("secrets", _secret),
        docs=given.object("docs", _docs),
        **(seen or {}),
    )


def _capabilities(given: _Object) -> dict[str, Any]:
    return {
        "tools": given.objects("tools", _tool),
        "routes": given.objects("routes", _route),
        "config": given.object("config", _config),
        "web": given.object("web", _web),
        "artifact_handler": given.flag("artifact_handler") or False,
    }


def _tool(given: _Object) -> Tool:
    policy = (given.text("permission_policy") or "").lower()
    return Tool(
        id=given.the_text("id"),
        description=given.the_text("description"),
        parameters=given.mapping("parameters"),
        requirements=given.texts("requirements") or (),
        permission_policy=cast("Policy", policy if policy in ("auto", "deny") else "ask"),
    )


def _route(given: _Object) -> Route:
    return Route(
        id=given.the_text("id"),
        path=given.the_text("path"),
        methods=given.the_texts("methods"),
        auth=cast("Auth", given.word("auth", AUTHS)),
        description=given.text("description"),
        tunnel_exposed=given.flag("tunnel_exposed") or False,
    )


def _web(given: _Object) -> Web:
    api_mount = given.text("api_mount")
    return Web(
        static_dir=given.the_text("static_dir"),
        entry=given.the_text("entry"),
        mount=given.the_text("mount"),
        auth=cast("Auth", given.word("auth", AUTHS)),
        api_mount="/api" if api_mount is None else api_mount,
        tunnel_exposed=given.flag("tunnel_exposed") or False,
    )


def _secret(given: _Object) -> Secret:
    return Secret(
        id=given.the_text("id"),
        label=given.the_text("label"),
        required=given.the_flag("required"),
        description=given.text("description"),
        url=given.text("url"),
    )


def _docs(given: _Object) -> Docs:
    return Docs(given.text("readme"), given.text("changelog"), given.objects("links", _link))


def _link(given: _Object) -> Link:
    return Link(given.the_text("label"), given.the_text("url"))


def _config(given: _Object) -> Config:
    return Config(given.objects("sections", _section, needed=True), given.text("title"))


def _section(given: _Object) -> Section:
    return Section(given.the_text("title"), given.objects("fields", _field, needed=True))


def _field(given: _Object) -> Field:
    disconnect = given.object("disconnect_action", lambda action: action.texts("clear_keys"))
    return Field(
        key=given.the_text("key"),
        type=cast("FieldType", given.word("type", FIELD_TYPES)),
        label=given.the_text("label"),
        placeholder=given.text("placeholder"),
        default=given.delivered("default"),
        options=given.objects("options", _option),
        validation=given.object("validation", _validation),
        connected_when=given.text("connected_when"),
        connect_action=given.object("connect_action", _connect_action),
        disconnect_keys=disconnect or (),
        value_template=given.text("value_template"),
        copyable=given.flag("copyable") or False,
    )


def _option(given: _Object) -> Option:
    return Option(given.the_text("value"), given.the_text("label"))


def _connect_action(given: _Object) -> ConnectAction:
    return ConnectAction(given.text("type"), given.text("url_route"))


def _validation(given: _Object) -> Validation:
    return Validation(
        required=given.flag("required"),
        pattern=given.text("pattern"),
        pattern_hint=given.text("pattern_hint"),
        min=given.number("min"),
        max=given.number("max"),
        min_length=given.whole("min_length"),
        max_length=given.whole("max_length"),
    )


def _broken_rules(manifest: Manifest) -> list[Issue]:
    """What cannot be seen key by key: ids that are blank or used twice."""
    issues = []
    for kind, ids in (
        ("tools", [tool.id for tool in manifest.tools]),
        ("routes", [route.id for route in manifest.routes]),
    ):
        counts = Counter(ids)
        for index, id in enumerate(ids):
            path = ("capabilities", kind, index, "id")
            if not id.strip():
                issues.append(Issue(path, "blank", "is blank"))
            elif counts[id] > 1 and ids.index(id) != index:
                issues.append(Issue(path, "duplicate", f"{id!r} is used twice"))
    return issues


def _listed(issues: list[Issue]) -> Failure:
    shown = "; ".join(f"{_spelled(issue.path)} {issue.message}" for issue in issues[:5])
    more = f" (and {len(issues) - 5} more)" if len(issues) > 5 else ""
    return _refused(f"The manifest is not valid: {shown}{more}.", issues[:_MOST_ISSUES])


def _spelled(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _refused(message: str, issues: list[Issue] | None = None) -> Failure:
    return Failure(Kind.invalid_input, message, issues=issues or ())


def _called(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
