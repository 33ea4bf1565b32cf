"""What `fairlead build` writes, as text: each target is a function from the product to its files.

The same project gives the same bytes: nothing has a time or a place in it.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from fairlead.failures import Failure, Kind, Redactor
from fairlead.project.identity import Product, slug_of


class File(NamedTuple):
    """One file of a build."""

    kind: str
    name: str
    content: str | bytes
    executable: bool = False


Make = Callable[[Product, Path], Iterator[File]]

MANIFEST: Final = "fairlead.manifest.json"
ACTIONS: Final = "fairlead.actions.json"
DESCRIPTOR: Final = "fairlead.mcp.json"
REPORT: Final = "fairlead.bundle.json"
SUMS: Final = "SHA256SUMS"


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def manifest(product: Product, _: Path) -> Iterator[File]:
    yield File("manifest", MANIFEST, pretty(product.app.manifest()))


def actions(product: Product, _: Path) -> Iterator[File]:
    yield File("actions", ACTIONS, pretty(product.app.action_manifest()))


def cli(product: Product, folder: Path) -> Iterator[File]:
    run = run_cli(product.source.target)
    yield File("cli", "cli.py", _launcher(product, folder, "command line", run), executable=True)
    yield File("zipapp", f"{product.slug}.pyz", _zipapp(product), executable=True)


def mcp(product: Product, folder: Path) -> Iterator[File]:
    run = run_mcp(product, product.source.target)
    yield File("mcp", "mcp_stdio.py", _launcher(product, folder, "MCP server", run), executable=True)
    yield File("mcp-descriptor", DESCRIPTOR, pretty(_descriptor(product)))
    yield File("mcp-registry", "server.json", pretty(_registry(product)))


def docs(product: Product, _: Path) -> Iterator[File]:
    from fairlead.project.documents import LLMS, llms_text

    yield File("guide-doc", product.guide, product.app.create_guide_doc())
    yield File("llms", LLMS, llms_text(product.app, product.guide))


def openapi(product: Product, _: Path) -> Iterator[File]:
    from fairlead.surfaces.http.openapi import openapi_document

    yield File("openapi", "openapi.json", pretty(openapi_document(product.app)))


def client(product: Product, _: Path) -> Iterator[File]:
    from fairlead.surfaces.client.py_client import python
    from fairlead.surfaces.client.ts_client import typescript

    shown = product.app.list_actions("http")
    header = f"A typed client of {product.app.name}, written by `fairlead build`."
    yield File("client", "client.ts", typescript(shown, name="Client", header=header))
    yield File("client", "client.py", python(shown, name="Client", header=header))


def container(product: Product, _: Path) -> Iterator[File]:
    wheel = f"{product.distribution}-*-py3-none-any.whl"
    lines = [
        "# Put two wheels here first: fairlead package, and Fairlead's own: pip wheel --no-deps /path/to/fairlead",
        f"# Then: podman build -t {product.slug} .",
        "FROM docker.io/library/python:3.13-slim",
        f"COPY {wheel} fairlead-*-py3-none-any.whl /tmp/",
        f'RUN pip install --no-cache-dir "$(echo /tmp/fairlead-*.whl)[serve]" /tmp/{wheel} && rm /tmp/*.whl',
        "USER nobody",
        "EXPOSE 8000",
        "# Give it keys: -v ./fairlead-keys.json:/keys.json:ro",
        f'CMD ["{product.bin_name}", "serve", "--host", "0.0.0.0", "--api-keys", "/keys.json"]',
    ]
    yield File("container", "Containerfile", "\n".join(lines) + "\n")


def sbom(product: Product, _: Path) -> Iterator[File]:
    from fairlead.project.sbom import bill_of_materials

    yield File("sbom", "sbom.cdx.json", pretty(bill_of_materials(product)))


def readme(product: Product, _: Path) -> Iterator[File]:
    yield File("readme", "README.md", _readme(product))


TARGETS: Final[dict[str, tuple[Make, ...]]] = {
    "manifest": (manifest,),
    "cli": (cli,),
    "mcp": (mcp,),
    "docs": (docs,),
    "openapi": (openapi,),
    "client": (client,),
    "container": (container,),
    "bundle": (manifest, actions, cli, mcp, docs, openapi, client, container, sbom, readme),
}


def files_of(product: Product, targets: list[str], folder: Path) -> list[File]:
    """All files of the targets, each once."""
    makers = dict.fromkeys(make for target in targets for make in TARGETS[target])
    files = [file for make in makers for file in make(product, folder)]
    taken = Counter([*(file.name for file in files), REPORT, SUMS])
    for name, times in taken.items():
        if times > 1:
            raise Failure(
                Kind.conflict,
                f"Two files of the build would be called {name!r}. Call the guide otherwise: --filename NAME.",
            )
    return files


_NEEDS: Final = """if find_spec("fairlead") is None:
    sys.exit(f"{sys.executable} has no Fairlead, which this needs. Install it: pip install /path/to/fairlead")
"""


def run_cli(target: str, *command: str) -> tuple[str, ...]:
    """The lines that run the command line of the app that a target names."""
    words = ", ".join(map(json.dumps, (target, *command)))
    return ("from fairlead.surfaces.cli import run_packaged", "", f"run_packaged({words})")


def run_mcp(product: Product, target: str) -> tuple[str, ...]:
    """The lines that serve MCP over stdio."""
    if product.server is None:
        return run_cli(target, "mcp", "--stdio")
    module, name = map(json.dumps, product.server)
    return (
        "from importlib import import_module",
        "",
        "from fairlead.surfaces.mcp.stdio import Pipes, run",
        "",
        "pipes = Pipes()  # what the app's modules print must not reach the client",
        f"sys.exit(run(getattr(import_module({module}), {name}), pipes=pipes))",
    )


def _launcher(product: Product, folder: Path, what: str, run: tuple[str, ...]) -> str:
    root = os.path.relpath(product.source.root, folder).replace(os.sep, "/")
    lines = indented(run)
    # Processes that it starts to serve with import it under another name.
    return f'''#!/usr/bin/env python3
"""The {what} of {plainly(product.app.name)}, from the project it was built in."""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / {json.dumps(root)}))
{_NEEDS}
if __name__ == "__main__":
{lines}
'''


def indented(lines: Iterable[str]) -> str:
    """Lines as they stand inside a block."""
    return "\n".join(f"    {line}" if line else "" for line in lines)


def _zipapp(product: Product) -> bytes:
    """One file with the app's own code; fairlead itself has to be installed where it runs."""
    import io
    import zipfile

    lines = "\n".join(run_cli(product.source.target))
    # Unpacked for the time of the run, so that code finds the data beside it.
    start = f"""import atexit
import shutil
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

folder = tempfile.mkdtemp(prefix="{product.slug}-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)
with zipfile.ZipFile(Path(__file__).parent) as archive:
    archive.extractall(folder)
sys.path[0] = folder
{_NEEDS}
{lines}
"""
    buffer = io.BytesIO()
    buffer.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        contents = {name: (product.source.root / name).read_bytes() for name in product.source.files}
        for name, content in sorted({**contents, "__main__.py": start.encode()}.items()):
            entry = zipfile.ZipInfo(name.replace(os.sep, "/"), (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def plainly(name: str) -> str:
    """A name as it can stand in a docstring."""
    return " ".join(name.replace("\\", "/").replace('"', "'").split())


def _server_name(product: Product) -> str:
    name: str = product.package.get("mcp_server_name") or product.slug
    return name.rpartition("/")[2] or product.slug


def registry_name(product: Product) -> str:
    """The server's name in a registry: its owner's domain backwards, a slash, its own name."""
    from urllib.parse import urlsplit

    given = str(product.package.get("mcp_server_name", ""))
    if re.fullmatch(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+", given):
        return given
    home = urlsplit(str(product.package.get("homepage", "")))
    host = (home.hostname or f"{product.slug}.local").removeprefix("www.")
    owner = home.path.strip("/").split("/")[0]
    domain = f"{owner}.github.io" if host == "github.com" and owner else host
    return f"{'.'.join(reversed(domain.split('.')))}/{slug_of(_server_name(product))}"


def _descriptor(product: Product) -> dict[str, Any]:
    from fairlead.actions.manifest import describe_attribution

    settings = product.config.section("mcp")
    env = shareable(settings.get("env", {}))
    attribution = describe_attribution(product.app.attribution)
    installed = {"command": f"{product.bin_name}-mcp", "args": []}
    stdio = installed | ({"env": env} if env else {})
    remote = {"type": "http", "url": _url(product)} if settings.get("transport") == "http" else None
    servers = {"mcpServers": {_server_name(product): remote or stdio}}
    return {
        "schemaVersion": 1,
        "name": product.app.name,
        **({"attribution": attribution} if attribution else {}),
        "transport": settings.get("transport", "stdio"),
        "command": ["python3", "./mcp_stdio.py"],
        "cwd": ".",
        "env": env,
        "snippets": {
            "stdio": stdio,
            "claudeDesktop": servers,
            "codex": servers,
            "vscode": {"servers": {_server_name(product): remote or {"type": "stdio", **stdio}}},
        },
    }


def shareable(env: Mapping[str, str]) -> dict[str, str]:
    """Variables as they can be given away: what looks like a secret is left for the reader to fill in."""
    redactor = Redactor()
    secret = {name for name, value in env.items() if redactor.value({name: value}) != {name: value}}
    filled = {name for name in secret if not re.fullmatch(r"\$\{[\w:]+\}", env[name])}
    return {name: f"${{{name}}}" if name in filled else value for name, value in env.items()}


def _registry(product: Product) -> dict[str, Any]:
    """The entry that an MCP registry takes."""
    package = {
        "registryType": "pypi",
        "identifier": product.package["name"],
        "version": product.package["version"],
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": word} for word in ("mcp", "--stdio")],
    }
    # Names only: a registry is public, and what a project sets may be a secret.
    needed = sorted(product.config.section("mcp").get("env", {}))
    package |= {"environmentVariables": [{"name": name} for name in needed]} if needed else {}
    reached: dict[str, Any] = {"packages": [package]}
    if product.config.section("mcp").get("transport") == "http":
        reached = {"remotes": [{"type": "streamable-http", "url": _url(product)}]}
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": registry_name(product),
        "description": product.package["description"][:100],
        "version": product.package["version"],
        **reached,
    }


def _url(product: Product) -> str:
    url: str | None = product.config.section("mcp").get("url")
    if url is None:
        raise Failure(
            Kind.misconfigured, "mcp.transport is 'http', and mcp.url does not say where the server is."
        )
    return url


def _readme(product: Product) -> str:
    package, name = product.package["name"], product.bin_name
    snippet = pretty(_descriptor(product)["snippets"]["claudeDesktop"]).strip()
    vscode = pretty(_descriptor(product)["snippets"]["vscode"]).strip()
    text = product.app.attribution.get("text")
    attribution = f"## Attribution\n\n{text}\n\n" if text else ""
    listed = "\n".join(
        f"- `{file}`: {what}"
        for file, what in (
            (MANIFEST, "the app, its actions and its surfaces"),
            (ACTIONS, "the actions alone"),
            ("cli.py", "the command line, run from the project"),
            (f"{product.slug}.pyz", "the same in one file; needs fairlead where it runs"),
            ("mcp_stdio.py", "the MCP server, run from the project"),
            (DESCRIPTOR, "settings for MCP clients"),
            ("server.json", "an entry for an MCP registry"),
            (product.guide, "the guide for people and models"),
            ("llms.txt", "the same in short, where models look for it"),
            ("openapi.json", "the HTTP surface"),
            ("client.ts, client.py", "typed clients"),
            ("Containerfile", "an image that serves it"),
            ("sbom.cdx.json", "what it is made of"),
            (REPORT, "what was built"),
            ("SHA256SUMS", "checksums of all of these"),
        )
    )
    return f"""# {product.app.name}

{product.package["description"]}

{attribution}## Files

{listed}

## 1. Run Locally

```sh
python3 cli.py --help
```

## 2. Package For Distribution

```sh
fairlead package
```

makes a wheel of `{package}`, which installs the commands `{name}` and `{name}-mcp`.

## 3. Publish

```sh
fairlead publish          # a dry run
fairlead publish --live   # uploads with twine
```

## 4. Connect As MCP

```json
{snippet}
```

```json
{vscode}
```

## 5. Ship CLI Only

```sh
fairlead build cli
```

## 6. HTTP Deployment

```sh
fairlead keys new ci --permissions '*'
{name} serve --host 0.0.0.0 --api-keys fairlead-keys.json
```
"""
