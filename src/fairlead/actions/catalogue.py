"""Where actions are kept, and the ways to get many in at once: decorators, groups, modules, classes, dicts."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from fairlead.actions import policy
from fairlead.actions.definition import Action, ActionOptions
from fairlead.actions.policy import DefinitionError

P = ParamSpec("P")
R = TypeVar("R")
AnyAction = Action[..., Any]
#: A name from elsewhere as an action's name.
Rename = Callable[[str], str]


@overload
def action(function: Callable[P, R], /, **options: Unpack[ActionOptions]) -> Action[P, R]: ...
@overload
def action(**options: Unpack[ActionOptions]) -> Callable[[Callable[P, R]], Action[P, R]]: ...
def action(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function an action, to be added to an app later; with and without parentheses."""
    if function is not None:
        return Action(function, **options)
    return lambda wrapped: Action(wrapped, **options)


class Catalogue:
    """Actions by name, in the order they came. Versions of one name stand side by side."""

    def __init__(self, added: Callable[[AnyAction], object] = lambda new: None) -> None:
        self._latest: dict[str, AnyAction] = {}
        self._versions: dict[str, AnyAction] = {}
        #: Told of each action that came or went, so that nothing is kept under its name.
        self._added = added
        self._changes = 0
        self._watchers: list[Callable[[AnyAction], object]] = []

    def watch(self, listener: Callable[[AnyAction], object]) -> Callable[[], None]:
        """Tell a listener of each action that is added from now on; what it gives back ends that."""
        self._watchers.append(listener)
        return lambda: self._watchers.remove(listener)

    @property
    def revision(self) -> int:
        """Another number after each change."""
        return self._changes

    def add(self, new: AnyAction) -> AnyAction:
        return self.add_all([new])[0]

    def add_all(self, new: list[AnyAction]) -> list[AnyAction]:
        """Add all of them, or none if one has a name and version that is taken."""
        taken = set(self._versions)
        for each in new:
            _check_bound(each)
            key = f"{each.name}@{each.version}"
            if key in taken:
                raise DefinitionError(
                    f"Duplicate action name {each.name!r}: version {each.version} is there already. "
                    "Rename one, or give it another version=."
                )
            taken.add(key)
        return [self._put(each) for each in new]

    def remove_all(self, gone: list[AnyAction]) -> None:
        """Take actions out, those that are there; of a name with other versions, the newest of them is found."""
        for each in gone:
            if self._versions.get(f"{each.name}@{each.version}") is not each:
                continue
            del self._versions[f"{each.name}@{each.version}"]
            if self._latest[each.name] is each:
                self._find_latest(each.name)
            self._changes += 1
            self._added(each)

    def _find_latest(self, name: str) -> None:
        others = [other for other in self._versions.values() if other.name == name]
        if others:
            self._latest[name] = max(others, key=lambda other: _order(other.version))
        else:
            del self._latest[name]

    def _put(self, new: AnyAction) -> AnyAction:
        self._changes += 1
        self._versions[f"{new.name}@{new.version}"] = new
        current = self._latest.get(new.name)
        if current is None or _order(new.version) > _order(current.version):
            self._latest[new.name] = new
        self._added(new)
        for listener in list(self._watchers):
            listener(new)
        return new

    def find(self, name: str) -> AnyAction | None:
        """The newest action of this name, or the one of `name@version`."""
        return self._latest.get(name) or self._versions.get(name)

    def versions(self) -> list[AnyAction]:
        """Every version of every name, in the order they came."""
        return list(self._versions.values())

    def older(self) -> list[AnyAction]:
        """The versions that only `name@version` finds."""
        return [each for each in self._versions.values() if self._latest[each.name] is not each]

    def names(self) -> list[str]:
        return list(self._latest)

    def __iter__(self) -> Iterator[AnyAction]:
        return iter(self._latest.values())

    def __len__(self) -> int:
        return len(self._latest)


def _check_bound(new: AnyAction) -> None:
    """A method as it stands in its class would ask callers for its instance."""
    function = new.function
    if not inspect.isfunction(function) or function.__code__.co_varnames[:1] != ("self",):
        return
    owner = function.__qualname__.rpartition(".")[0].rpartition(".")[2]
    if owner and owner != "<locals>":
        raise DefinitionError(
            f"Action {new.name!r} is a method of {owner}, and no caller can give its 'self'. "
            f"Mark it with @action instead, and add an instance: app.add({owner}(...))."
        )


def _order(version: str) -> tuple[Any, ...]:
    """Versions by age, as semver has it: 2.0.0-rc.2 is older than 2.0.0-rc.10, and that than 2.0.0, which 2 is, too."""
    numbers, _, stage = version.partition("+")[0].partition("-")
    whole = [int(part) for part in numbers.split(".")]
    while whole and not whole[-1]:
        whole.pop()
    steps = [(0, int(step), "") if step.isdecimal() else (1, 0, step) for step in stage.split(".")]
    return whole, not stage, steps


class Group:
    """A door to a catalogue that fills in defaults, and a prefix for names, for what passes through it."""

    def __init__(self, catalogue: Catalogue, prefix: str, defaults: ActionOptions) -> None:
        self._catalogue = catalogue
        self._prefix = prefix
        self._defaults = defaults

    @overload
    def action(self, function: Callable[P, R], /, **options: Unpack[ActionOptions]) -> Action[P, R]: ...
    @overload
    def action(self, /, **options: Unpack[ActionOptions]) -> Callable[[Callable[P, R]], Action[P, R]]: ...
    def action(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Define an action and add it; with and without parentheses."""
        if function is not None:
            return self._catalogue.add(self._define(function, options))
        return lambda wrapped: self._catalogue.add(self._define(wrapped, options))

    def add(
        self, source: object, *, rename: Rename | None = None, **defaults: Unpack[ActionOptions]
    ) -> list[AnyAction]:
        """Add an action, a function, an agent, or all of a module, class, instance, dict or list; all or nothing.

        `rename` makes an action's name of a key of a dict, or of the name that a module or class has for it.
        """
        merged: ActionOptions = {**self._defaults, **defaults}
        new = [
            found if isinstance(found, Action) else self._define(found, {**merged, **options})
            for found, options in collect(source, rename)
        ]
        return self._catalogue.add_all(new)

    def group(self, prefix: str = "", **defaults: Unpack[ActionOptions]) -> Group:
        return Group(self._catalogue, self._prefix + prefix, {**self._defaults, **defaults})

    def _define(self, function: Callable[..., Any], options: Mapping[str, Any]) -> AnyAction:
        merged: dict[str, Any] = {**self._defaults, **options}
        if self._prefix:
            merged["name"] = self._prefix + str(merged.get("name") or getattr(function, "__name__", ""))
        return Action(function, **merged)


Found = tuple[AnyAction | Callable[..., Any], ActionOptions]


def collect(source: object, rename: Rename | None = None) -> list[Found]:
    """What a module, class, instance, dict, list or function offers, each with the options its place gives it."""
    rename = snake_case if rename is None else policy.function("add", "rename", rename)
    if isinstance(source, Action):
        return [(source, {})]
    if isinstance(source, list | tuple):
        return [found for each in source for found in collect(each, rename)]
    whole = getattr(source, "action", None)
    if isinstance(whole, Action) and not isinstance(source, ModuleType):
        return [(whole, {})]  # an agent, or whatever else is one action
    if isinstance(source, Mapping):
        return [_entry(key, value, rename) for key, value in source.items()]
    if isinstance(source, ModuleType):
        own = [each for each in vars(source).items() if _belongs(*each, source)]
        return [_member(name, value, rename) for name, value in own]
    if inspect.isroutine(source) or isinstance(source, functools.partial):
        return [(source, {})]
    instance = _instance(source)
    found = [_member(name, getattr(instance, name), rename) for name in _methods(type(instance))]
    if not found:
        raise DefinitionError(f"{source!r} offers no actions: it has no public functions.")
    return found


def _methods(cls: type) -> list[str]:
    """Public functions and actions of a class and its bases, in the order they were written. Nothing is run."""
    seen: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        if base.__module__ == "builtins":
            continue
        seen |= {name: value for name, value in vars(base).items() if not name.startswith("_")}
    wrapped = (staticmethod, classmethod)
    return [
        name
        for name, value in seen.items()
        if isinstance(value, (Action, *wrapped)) or inspect.isroutine(value)
    ]


def _instance(source: object) -> object:
    if not isinstance(source, type):
        return source
    try:
        return source()
    except TypeError as exc:
        raise DefinitionError(
            f"{source.__name__} needs arguments: pass an instance of it instead. ({exc})"
        ) from exc


def _belongs(name: str, value: object, module: ModuleType) -> bool:
    if name.startswith("_"):
        return False
    if isinstance(value, Action):
        return True
    return inspect.isfunction(value) and value.__module__ == module.__name__


def _member(name: str, value: Any, rename: Rename) -> Found:
    if isinstance(value, Action):
        return value, {}
    return value, {"name": rename(name), **_described(name, value)}


def _entry(key: object, value: Any, rename: Rename) -> Found:
    """One entry of a dict: an action, a function, or a dict of options with the function under `run`."""
    if not isinstance(key, str):
        raise DefinitionError(f"A dict of actions has names as keys, not {key!r}.")
    if isinstance(value, Action):
        return value, {}
    if isinstance(value, Mapping):
        options = {"name": value["name"] if "name" in value else rename(key), **value}
        run = options.pop("run", None)
        if not callable(run):
            raise DefinitionError(f"Action {key!r}: the dict needs the function under 'run'.")
        return run, options  # type: ignore[return-value]  # checked by Action itself
    if callable(value):
        return _member(key, value, rename)
    raise DefinitionError(
        f"Action {key!r}: expected a function, an Action or a dict, not {type(value).__name__}."
    )


def _described(name: str, function: object) -> ActionOptions:
    return {} if getattr(function, "__doc__", None) else {"description": f"Action {name}."}


def snake_case(name: str) -> str:
    """`getHTTPStatus` becomes `get_http_status`; hyphens and spaces become underscores."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"[-\s_]+", "_", spaced).lower()
