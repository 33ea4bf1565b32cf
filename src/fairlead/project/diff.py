"""What changed between two manifests, for those who call: what breaks them, what to look at, what is new.

It compares contracts by meaning. An added optional field, a description or another order breaks nobody; an
input that takes less and an output that gives more kinds of things do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from fairlead.failures import Failure, Kind
from fairlead.project.compatibility import Gap, gaps
from fairlead.project.shapes import Unreadable, equal, item, resolved, text

Severity = Literal["breaking", "warning", "info"]
Described = Mapping[str, Any]

_BUMPS: Final[dict[str, str]] = {"breaking": "major", "warning": "minor", "info": "minor"}
_WORDS: Final = ("description", "title", "docs", "publicMetadata")
_VISIBLE: Final = {"private": 0, "local": 1, "public": 2}
_EFFECTS: Final = {"read": 0, "write": 1, "destructive": 2}


#: What the members are that are looked into; others are only compared.
_MEMBERS: Final = {
    "a string": ("visibility", "sideEffects", "idempotency"),
    "an array of strings": ("permissions", "supportedSurfaces"),
    "a JSON Schema": ("inputSchema", "outputSchema"),
    "an object": ("deprecation",),
    "a number": ("timeoutMs",),
}
_KINDS: Final[dict[str, Callable[[Any], bool]]] = {
    "a string": lambda value: isinstance(value, str),
    "an array of strings": lambda value: (
        isinstance(value, list | tuple) and all(isinstance(x, str) for x in value)
    ),
    "a JSON Schema": lambda value: isinstance(value, Mapping | bool),
    "an object": lambda value: isinstance(value, Mapping),
    "a number": lambda value: isinstance(value, int | float),
}


class Change(NamedTuple):
    """One thing that is not as it was."""

    type: str
    severity: Severity
    action: str
    message: str
    field: str | None = None
    before: Any = None
    after: Any = None
    why: str | None = None
    bump: str | None = None

    def to_dict(self) -> dict[str, Any]:
        told = self._asdict()
        order = ("type", "severity", "action", "field", "before", "after", "message", "why", "bump")
        always = ("type", "severity", "action", "message")
        shown = [key for key in order if key in always or told[key] is not None]
        return {key: told[key] for key in shown}


def diff_manifests(previous: Any, following: Any) -> dict[str, Any]:
    """Compare two manifests: arrays of actions, or objects with `actions`.

    Versions that stand beside the newest are compared each with itself: callers can name them.
    Gives `{ok, summary: {breaking, warnings, info}, bump, changes}`; it is ok when nothing breaks.
    """
    before, after = _actions(previous, "previous"), _actions(following, "next")
    changes = [
        change for name in {**before, **after} for change in _compared(before.get(name), after.get(name))
    ]
    was, now = _older(previous, "previous"), _older(following, "next")
    changes += [
        change._replace(action=label)
        for label in {**was, **now}
        for change in _compared(
            was.get(label) or _newest(before, label), now.get(label) or _newest(after, label), "version"
        )
    ]
    count = {level: sum(change.severity == level for change in changes) for level in _BUMPS}
    bumps = {change.bump for change in changes}
    return {
        "ok": not count["breaking"],
        "summary": {"breaking": count["breaking"], "warnings": count["warning"], "info": count["info"]},
        "bump": next((bump for bump in ("major", "minor", "patch") if bump in bumps), None),
        "changes": [change.to_dict() for change in changes],
    }


def _actions(manifest: Any, which: str) -> dict[str, Described]:
    listed = manifest.get("actions") if isinstance(manifest, Mapping) else manifest
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        raise _not_a_manifest(which, "an array of actions, or an object with one under 'actions'")
    return {each["name"]: each for each in _checked(listed, which)}


def _older(manifest: Any, which: str) -> dict[str, Described]:
    """The versions beside the newest ones, as callers name them."""
    listed = manifest.get("olderVersions") if isinstance(manifest, Mapping) else None
    if listed is None:
        return {}
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        raise _not_a_manifest(which, "'olderVersions' to be an array of actions")
    return {f"{each['name']}@{each.get('version')}": each for each in _checked(listed, which)}


def _newest(actions: Mapping[str, Described], label: str) -> Described | None:
    """The newest of a name, if it is the version that a label says."""
    name, _, version = label.partition("@")
    found = actions.get(name)
    return found if found is not None and found.get("version") == version else None


def _checked(listed: Sequence[Any], which: str) -> Sequence[Described]:
    for each in listed:
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
            raise _not_a_manifest(which, "actions that are objects with a name")
        for kind, members in _MEMBERS.items():
            for member in members:
                if each.get(member) is not None and not _KINDS[kind](each[member]):
                    raise _not_a_manifest(which, f"{member!r} of {each['name']!r} to be {kind}")
    return listed


def _not_a_manifest(which: str, expected: str) -> Failure:
    message = f"The {which} manifest is not one: expected {expected}, as `fairlead manifest` prints."
    return Failure(Kind.invalid_input, message, field=which)


def _compared(old: Described | None, new: Described | None, what: str = "action") -> Iterator[Change]:
    if old is None:
        assert new is not None
        yield Change("added", "info", new["name"], f"The {what} is new.", bump="minor")
    elif new is None:
        why = "Who calls it gets ACTION_NOT_FOUND."
        yield Change("removed", "breaking", old["name"], f"The {what} is gone.", why=why, bump="major")
    else:
        for change in _of_one(old, new):
            yield change if change.bump else change._replace(bump=_BUMPS[change.severity])


def _of_one(old: Described, new: Described) -> Iterator[Change]:
    name = new["name"]
    yield from _input(name, old.get("inputSchema"), new.get("inputSchema"))
    yield from _output(name, old.get("outputSchema"), new.get("outputSchema"))
    yield from _permissions(name, old, new)
    yield from _confirmation(name, old, new)
    yield from _visibility(name, old, new)
    yield from _surfaces(name, old, new)
    yield from _effects(name, old, new)
    yield from _times(name, old, new)
    if new.get("deprecated") and not old.get("deprecated"):
        instead = (new.get("deprecation") or {}).get("replacement")
        hint = f" Use {instead!r} instead." if instead else ""
        yield Change(
            "deprecated", "warning", name, f"The action is deprecated.{hint}", "deprecated", False, True
        )
    if old.get("version") != new.get("version"):
        told = (old.get("version"), new.get("version"))
        yield Change("version", "info", name, "The version changed.", "version", *told, bump="patch")
    for field in _WORDS:
        if old.get(field) != new.get(field):
            yield Change("changed", "info", name, f"The {field} changed.", field, bump="patch")


def _input(name: str, old: Any, new: Any) -> Iterator[Change]:
    old, new = ({} if each is None else each for each in (old, new))
    if text(old) == text(new) and old == new:
        return
    refused = gaps(old, new)
    for gap in refused:
        why = f"A caller that was right before is refused: {_place(gap)} {gap.message}."
        message = f"The input takes less than before at {_place(gap)}."
        at = _field("inputSchema", gap)
        yield Change("changed", "breaking", name, message, at, _at(old, gap), _at(new, gap), why)
    if not refused:
        yield from _harmless(name, "inputSchema", "input", gaps(new, old, unnamed="refused"))
    for path, before, after in _defaults(old, new):
        why = "Callers that leave it out get another behaviour."
        message = f"The default of {path} changed."
        yield Change("changed", "warning", name, message, f"inputSchema.{path}", before, after, why)


def _output(name: str, old: Any, new: Any) -> Iterator[Change]:
    if text(old) == text(new) and old == new:
        return
    if old is None:
        yield Change("changed", "info", name, "The output is declared now.", "outputSchema")
        return
    if new is None:
        why = "Callers can no longer rely on the shape of the answer."
        yield Change(
            "changed", "breaking", name, "The output is no longer declared.", "outputSchema", why=why
        )
        return
    unexpected = gaps(new, old, unnamed="taken")
    for gap in unexpected:
        why = f"A reader of the old shape meets what it does not expect: {_place(gap)} {gap.message}."
        message = f"The output gives more than before at {_place(gap)}."
        at = _field("outputSchema", gap)
        yield Change("changed", "breaking", name, message, at, _at(old, gap), _at(new, gap), why)
    if not unexpected:
        yield from _harmless(
            name, "outputSchema", "output", [*gaps(old, new), *gaps(new, old, unnamed="refused")]
        )


def _harmless(name: str, field: str, word: str, differences: list[Gap]) -> Iterator[Change]:
    if not differences:
        yield Change("changed", "info", name, f"The words of the {word} changed.", field, bump="patch")
        return
    direction = "takes more" if word == "input" else "promises more"
    for path in dict.fromkeys(gap.path for gap in differences):
        gap = Gap(path, "")
        yield Change("changed", "info", name, f"The {word} {direction} at {_place(gap)}.", _field(field, gap))


def _permissions(name: str, old: Described, new: Described) -> Iterator[Change]:
    before, after = list(old.get("permissions") or ()), list(new.get("permissions") or ())
    added, dropped = sorted(set(after) - set(before)), sorted(set(before) - set(after))
    if added:
        why = "Callers without it are refused with AUTHORIZATION_ERROR."
        message = f"The action asks for more: {', '.join(added)}."
        yield Change("changed", "breaking", name, message, "permissions", before, after, why)
    elif dropped:
        message = f"The action asks for less: {', '.join(dropped)} is not needed any more."
        yield Change("changed", "info", name, message, "permissions", before, after)


def _confirmation(name: str, old: Described, new: Described) -> Iterator[Change]:
    before, after = bool(old.get("requiresConfirmation")), bool(new.get("requiresConfirmation"))
    if before == after:
        return
    told = ("requiresConfirmation", before, after)
    if after:
        why = "Callers that do not confirm get CONFIRMATION_REQUIRED."
        yield Change("changed", "breaking", name, "The action asks to be confirmed.", *told, why)
    else:
        yield Change("changed", "warning", name, "The action runs without being confirmed.", *told)


def _visibility(name: str, old: Described, new: Described) -> Iterator[Change]:
    before, after = old.get("visibility", "public"), new.get("visibility", "public")
    if before == after:
        return
    if _VISIBLE.get(after, 0) < _VISIBLE.get(before, 0):
        why = "Surfaces that showed it do not show it any more."
        yield Change("changed", "breaking", name, "The action is hidden.", "visibility", before, after, why)
    else:
        yield Change("changed", "info", name, "The action is shown to more.", "visibility", before, after)


def _surfaces(name: str, old: Described, new: Described) -> Iterator[Change]:
    before, after = list(old.get("supportedSurfaces") or ()), list(new.get("supportedSurfaces") or ())
    gone, added = [x for x in before if x not in after], [x for x in after if x not in before]
    if gone:
        why = "Callers there get UNSUPPORTED_SURFACE."
        message = f"The action is not offered any more on {', '.join(gone)}."
        yield Change("changed", "warning", name, message, "supportedSurfaces", before, after, why)
    elif added:
        message = f"The action is offered on {', '.join(added)} too."
        yield Change("changed", "info", name, message, "supportedSurfaces", before, after)


def _effects(name: str, old: Described, new: Described) -> Iterator[Change]:
    before, after = old.get("sideEffects", "read"), new.get("sideEffects", "read")
    if before != after:
        more = _EFFECTS.get(after, 0) > _EFFECTS.get(before, 0)
        why = (
            "Remote surfaces hide destructive actions unless asked to show them."
            if after == "destructive"
            else None
        )
        message = f"The action does {'more' if more else 'less'} to the world than it did."
        yield Change("changed", "warning", name, message, "sideEffects", before, after, why)
    one, other = old.get("idempotency", "unspecified"), new.get("idempotency", "unspecified")
    if one != other:
        weaker = one == "idempotent"
        severity: Severity = "warning" if weaker else "info"
        why = "Callers that repeat calls freely may act twice." if weaker else None
        yield Change(
            "changed", severity, name, "What repeating does changed.", "idempotency", one, other, why
        )


def _times(name: str, old: Described, new: Described) -> Iterator[Change]:
    before, after = old.get("timeoutMs"), new.get("timeoutMs")
    if before == after:
        return
    shorter = after is not None and (before is None or after < before)
    severity: Severity = "warning" if shorter else "info"
    why = "Calls that ended in time may end with TIMEOUT." if shorter else None
    yield Change(
        "changed", severity, name, "The time-out changed.", "timeoutMs", before, after, why, bump="patch"
    )


def _defaults(old: Any, new: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return
    if place and "default" in old and "default" in new and not equal(old["default"], new["default"]):
        yield place, old["default"], new["default"]
    before, after = (each.get("properties") for each in (old, new))
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return
    for name in before:
        yield from _defaults(before[name], after.get(name), f"{place}.{name}" if place else name)


def _place(gap: Gap) -> str:
    return ".".join(map(str, gap.path)) or "the whole"


def _field(schema: str, gap: Gap) -> str:
    return ".".join([schema, *map(str, gap.path)])


def _at(schema: Any, gap: Gap) -> Any:
    """The part of a schema that a path leads to, if it is plain to see."""
    found = schema
    for step in gap.path:
        if isinstance(found, Mapping) and isinstance(found.get("$ref"), str):
            try:
                found = resolved(found["$ref"], schema)
            except Unreadable:
                return None
        if not isinstance(found, Mapping):
            return None
        found = _inside(found, step)
    return found


def _inside(schema: Mapping[str, Any], step: str | int) -> Any:
    if step == "*":
        return schema.get("items", schema.get("additionalProperties"))
    if isinstance(step, int):
        return item(schema, step)
    members = schema.get("properties")
    return members.get(step) if isinstance(members, Mapping) else None
