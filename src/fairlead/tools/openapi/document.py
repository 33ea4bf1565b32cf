"""An OpenAPI document, 3.0 or 3.1: read, its references resolved inside it, its operations listed.

References lead into the document or nowhere. Nothing is called here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urljoin

from fairlead.failures import Failure, Kind

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_LARGEST: Final = 16 * 1024 * 1024
_HOPS: Final = 100


class Unusable(Exception):
    """An operation that cannot be a tool, and why."""


class Operation(NamedTuple):
    """One operation, with the parameters of its path in it."""

    method: str
    path: str
    spec: Mapping[str, Any]
    parameters: tuple[Mapping[str, Any], ...]

    @property
    def id(self) -> str:
        given = self.spec.get("operationId")
        return given if isinstance(given, str) and given else f"{self.method} {self.path}"


class Document:
    """The whole of it, and where it came from."""

    def __init__(self, content: Mapping[str, Any], source: str = "") -> None:
        version = content.get("openapi")
        if not isinstance(version, str) or not version.startswith(("3.0", "3.1", "3.2")):
            said = "a Swagger 2 document" if "swagger" in content else f"openapi: {version!r}"
            raise Failure(
                Kind.misconfigured, f"Tools are made of OpenAPI 3.0 and 3.1 documents, and this is {said}."
            )
        self.content = content
        self.source = source
        #: In 3.0 a schema is not yet JSON Schema.
        self.old = version.startswith("3.0")

    def resolved(self, value: Any) -> Any:
        """The value, or what it refers to. Raises Unusable for a reference that leads nowhere."""
        for _ in range(_HOPS):
            if not isinstance(value, Mapping) or not isinstance(value.get("$ref"), str):
                return value
            value = self.at(value["$ref"])
        raise Unusable("a reference only leads back to itself")

    def at(self, reference: str) -> Any:
        """What a reference inside the document leads to."""
        if not reference.startswith("#/"):
            raise Unusable(f"the reference {reference!r} leads out of the document")
        found: Any = self.content
        for step in reference[2:].split("/"):
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, Mapping) and key in found:
                found = found[key]
            else:
                raise Unusable(f"the reference {reference!r} leads nowhere")
        return found

    def operations(self) -> Iterator[Operation]:
        """Every operation, in the document's order."""
        paths = self.content.get("paths", {})
        if not isinstance(paths, Mapping):
            raise Failure(Kind.misconfigured, "The OpenAPI document's 'paths' is not an object.")
        for path, item in paths.items():
            try:
                known = self.resolved(item)
            except Unusable:
                continue
            if not isinstance(path, str) or not path.startswith("/") or not isinstance(known, Mapping):
                continue
            for method in METHODS:
                spec = known.get(method)
                if isinstance(spec, Mapping):
                    yield Operation(method, path, spec, self._parameters(known, spec))

    def _parameters(self, item: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
        """An operation's own parameters stand for those of its path with the same name and place."""
        found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for each in [*_listed(item.get("parameters")), *_listed(spec.get("parameters"))]:
            try:
                known = self.resolved(each)
            except Unusable:
                known = each  # told where the operation is made a tool
            if isinstance(known, Mapping):
                found[str(known.get("name")), str(known.get("in"))] = known
        return tuple(found.values())

    def base_url(self) -> str | None:
        """Where the API says that it is."""
        servers = self.content.get("servers")
        first: Any = servers[0] if isinstance(servers, list) and servers else {"url": "/"}
        url = first.get("url") if isinstance(first, Mapping) else None
        if not isinstance(url, str):
            return None
        variables = first.get("variables")
        for name, variable in variables.items() if isinstance(variables, Mapping) else ():
            default = variable.get("default", "") if isinstance(variable, Mapping) else ""
            url = url.replace(f"{{{name}}}", str(default))
        try:
            joined = urljoin(self.source, url) if self.source.startswith("http") else url
        except ValueError:
            return None
        return joined if joined.startswith(("http://", "https://")) else None


def _listed(parameters: Any) -> list[Any]:
    """The parameters of a list; for what is none, one that no operation can have."""
    if parameters is None:
        return []
    return parameters if isinstance(parameters, list) else [{}]


def read_document(given: Mapping[str, Any] | str | os.PathLike[str], headers: Mapping[str, str]) -> Document:
    """The document of a dict, a file, or a URL. Raises Failure when it cannot be had or is none."""
    if isinstance(given, Mapping):
        return Document(given)
    if isinstance(given, str) and given.startswith(("http://", "https://")):
        return Document(_parsed(_fetched(given, headers), given), given)
    path = Path(given)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(
            Kind.misconfigured, f"The OpenAPI document {path.name!r} cannot be read: {error}."
        ) from error
    return Document(_parsed(text, path.name))


def _fetched(url: str, headers: Mapping[str, str]) -> str:
    httpx = load_httpx()
    try:
        with httpx.stream("GET", url, headers=dict(headers), timeout=30.0) as response:
            if response.status_code != 200:
                raise Failure(
                    Kind.unavailable,
                    f"The OpenAPI document is not at its URL: status {response.status_code}.",
                )
            body = b""
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > _LARGEST:
                    raise Failure(Kind.too_large, f"The OpenAPI document is larger than {_LARGEST} bytes.")
            return body.decode("utf-8", errors="replace")
    except httpx.HTTPError as error:
        words = f"The OpenAPI document could not be fetched: {type(error).__name__}."
        raise Failure(Kind.unavailable, words, cause=error) from error


def _parsed(text: str, name: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = _yaml(text, name)
    if not isinstance(found, Mapping):
        raise Failure(Kind.misconfigured, f"{name!r} holds no OpenAPI document.")
    return found


def _yaml(text: str, name: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise Failure(
            Kind.misconfigured,
            f"{name!r} is not JSON. For YAML install: pip install pyyaml",
            cause=error,
        ) from error
    try:
        # Through JSON: dates and the like become text, as they were written for.
        return json.loads(json.dumps(yaml.safe_load(text), default=str))
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise Failure(Kind.misconfigured, f"{name!r} is neither JSON nor YAML.", cause=error) from error


def load_httpx() -> Any:
    """The HTTP client. Raises ModuleNotFoundError that says what to install."""
    try:
        import httpx
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "OpenAPI tools need the package httpx. Install it with: pip install 'fairlead[openapi]'"
        ) from error
    return httpx
