"""What tools from elsewhere have in common: names made legal and unique, and references to secrets.

It knows neither MCP nor OpenAPI, and calls nothing.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from fairlead.actions.catalogue import snake_case
from fairlead.actions.definition import RESERVED_NAMES
from fairlead.failures import Failure, Kind
from fairlead.failures.redaction import DEFAULT
from fairlead.store.secrets import Secrets

#: Model providers take no longer names.
LONGEST_NAME: Final = 64
#: A description goes to the model with every request.
LONGEST_DESCRIPTION: Final = 4_000
#: What another program says of its failure is quoted up to here.
LONGEST_QUOTE: Final = 2_000
#: Gives the value of a secret by its name.
Lookup = Callable[[str], str | Awaitable[str]]

#: A reference to a secret, with what stands before it in a header, such as `Bearer secret:token`.
_SECRET: Final = re.compile(r"([A-Za-z]+ )?secret:(.+)", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SECRET_NAME: Final = re.compile(r"(?i)key|token|secret|passw|authorization|credential|cookie")


def legal_name(text: str, prefix: str = "") -> str:
    """A name that an action may have, as near to the given one as can be."""
    name = re.sub(r"[^a-z0-9]+", "_", snake_case(prefix + text)).strip("_")
    if not name or not name[0].isalpha():
        name = f"tool_{name}".rstrip("_")
    if name in RESERVED_NAMES:
        name = f"{name}_tool"
    return name if len(name) <= LONGEST_NAME else _shortened(name, text)


def unique_names(given: Iterable[str], prefix: str = "") -> dict[str, str]:
    """A legal name for each of the given ones; of two that would have the same, the later is numbered."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for each in given:
        if each in names:
            continue
        wished = name = legal_name(each, prefix)
        number = 2
        while name in taken:
            name = f"{wished[: LONGEST_NAME - 4]}_{number}"
            number += 1
        taken.add(name)
        names[each] = name
    return names


def _shortened(name: str, text: str) -> str:
    mark = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9].rstrip('_')}_{mark}"


def quoted(text: str, longest: int = LONGEST_QUOTE) -> str:
    """What somebody else wrote, cut to a length."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest} characters more)"


async def resolved(
    values: Mapping[str, str], lookup: Lookup | None, whose: str
) -> tuple[dict[str, str], list[str]]:
    """The values with `secret:NAME` replaced by the secret, and what of them is secret, by reference, name or look.

    Raises:
        Failure: a reference leads nowhere. The message has the name, never a value.
    """
    told: dict[str, str] = {}
    hidden: list[str] = []
    for key, value in values.items():
        reference = _SECRET.fullmatch(value)
        if reference is None:
            told[key] = value
            if is_secret(key, value):
                # Whoever repeats `Bearer TOKEN` may leave the first word out.
                hidden += [value, value.partition(" ")[2]]
            continue
        name = reference[2]
        if lookup is None:
            raise Failure(
                Kind.misconfigured,
                f"{whose}: {key!r} refers to the secret {name!r}, and no secret store is attached. "
                "Add the server to an app, or pass secrets=.",
            )
        found = lookup(name)
        secret = await found if inspect.isawaitable(found) else found
        told[key] = (reference[1] or "") + secret
        hidden.append(secret)
    return told, hidden


def described(values: Mapping[str, str]) -> dict[str, str]:
    """The values as somebody may see them: references as they are, anything else hidden."""
    return {key: value if is_reference(value) else "***" for key, value in values.items()}


def is_reference(value: str) -> bool:
    """Whether a value only says where the real one is."""
    return _SECRET.fullmatch(value) is not None or _VARIABLE.fullmatch(value) is not None


def is_secret(name: str, value: str) -> bool:
    """Whether a value is a secret that stands there as it is: its name says so, or it looks like one."""
    if is_reference(value) or "${" in value:
        return False
    return _SECRET_NAME.search(name) is not None or looks_secret(value)


def looks_secret(text: str) -> bool:
    """Whether there is something in a text that would be hidden wherever it is shown."""
    return DEFAULT.text(text) != text


def secret_variables(texts: Iterable[str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """The values that `${NAME}` in these texts stands for, and that are secret."""
    found = ((each[1], environ.get(each[1], "")) for text in texts for each in _VARIABLE.finditer(text))
    return [value for name, value in found if is_secret(name, value)]


def expanded(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The text with `${NAME}` and `${NAME:-default}` replaced, as other MCP clients do it."""

    def value(match: re.Match[str]) -> str:
        found = environ.get(match[1], match[2])
        if found is None:
            raise Failure(
                Kind.misconfigured,
                f"The environment variable {match[1]!r} is not set. Set it, or write ${{{match[1]}:-DEFAULT}}.",
            )
        return found

    return _VARIABLE.sub(value, text)


def masked(text: str, hidden: Iterable[str]) -> str:
    """The text without the secret values."""
    for value in sorted(hidden, key=len, reverse=True):
        if len(value) >= 4:
            text = text.replace(value, "***")
    return text


def secrets_of(app: Any) -> Lookup:
    """Looks secrets up in an app's store, which is opened when the first is asked for."""
    opened: list[Secrets] = []

    async def lookup(name: str) -> str:
        if not opened:
            opened.append(Secrets(app.store))
        return await opened[0].get(name)

    return lookup
