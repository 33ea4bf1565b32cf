"""The commands that every program has besides its actions, by name. Each is loaded when it is used."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fairlead.surfaces.cli.command import Command
    from fairlead.surfaces.cli.program import Program


class Builtin(NamedTuple):
    """What a command does, and where in `fairlead` it is."""

    summary: str
    module: str
    name: str

    @property
    def command(self) -> Command:
        found: Command = getattr(importlib.import_module(f"fairlead.{self.module}"), self.name)
        return found

    def run(self, program: Program, arguments: list[str]) -> int:
        return self.command.run(program, arguments)

    def page(self, program: Program) -> str:
        from fairlead.surfaces.cli.pages import Page

        command = self.command
        page = Page(program.console)
        page.paragraph(self.summary)
        page.usage(f"{program.spelled} {command.usage}")
        page.section("Options", (*command.rows, ("-h, --help", "Print this page.")))
        if command.examples:
            page.lines("Examples", (f"{program.spelled} {line}" for line in command.examples))
        return page.text()


def completion_variable(name: str) -> str:
    """The environment variable by which a shell asks for completions."""
    return f"_{re.sub(r'[^A-Za-z0-9]', '_', name)}_COMPLETE".upper()


BUILTINS: dict[str, Builtin] = {
    "actions": Builtin(
        "List the app's actions: a table on a terminal, else the manifest's array as JSON.",
        "surfaces.cli.standard",
        "ACTIONS",
    ),
    "manifest": Builtin(
        "Print the app, its actions and its surfaces as JSON.", "surfaces.cli.standard", "MANIFEST"
    ),
    "errors": Builtin("List the failure codes, or explain one.", "surfaces.cli.standard", "ERRORS"),
    "json": Builtin(
        "Run JSON calls from stdin, one or one a line; print an envelope a line.",
        "surfaces.cli.standard",
        "JSON",
    ),
    "run": Builtin(
        "Call an action; with --detach, leave the call to a worker as a task.", "surfaces.cli.detached", "RUN"
    ),
    "tasks": Builtin("List tasks, show, watch, answer, cancel or retry one.", "surfaces.cli.tasks", "TASKS"),
    "worker": Builtin("Run tasks until it is told to stop.", "surfaces.cli.worker", "WORKER"),
    "chat": Builtin("Talk with an agent, or with a model alone.", "surfaces.cli.chat", "CHAT"),
    "plumb": Builtin("Run, check, format and draw typed pipelines.", "surfaces.cli.plumb", "PLUMB"),
    "dev": Builtin(
        "Open the app in a browser console, reloading on change.", "surfaces.console.command", "DEV"
    ),
    "serve": Builtin("Serve the app over HTTP, with MCP and OpenAPI.", "surfaces.http.command", "SERVE"),
    "openapi": Builtin("Print the OpenAPI document of the HTTP surface.", "surfaces.http.command", "OPENAPI"),
    "keys": Builtin("Make, list and revoke API keys for the HTTP surface.", "surfaces.auth.command", "KEYS"),
    "audit": Builtin("Show who did what with the agents' API.", "gateway.command", "AUDIT"),
    "insights": Builtin(
        "Show what plugins log and ask of the host: list, search, follow.",
        "surfaces.cli.insights",
        "INSIGHTS",
    ),
    "store": Builtin(
        "Look after the database: status, migrate, backup, restore, vacuum, move.",
        "surfaces.cli.store",
        "STORE",
    ),
    "secrets": Builtin(
        "Keep passwords and tokens in the store, encrypted.", "surfaces.cli.secrets", "SECRETS"
    ),
    "models": Builtin(
        "Get weights for models that run here: pull, add, list, remove.", "surfaces.cli.models", "MODELS"
    ),
    "plugin": Builtin(
        "Write, build, install and look after native plugins.", "surfaces.cli.plugin", "PLUGIN"
    ),
    "mcp": Builtin(
        "Print the MCP manifest, serve over stdio, or set up a client.", "surfaces.mcp.command", "MCP"
    ),
    "tools": Builtin(
        "Print the tools in a model provider's format, or their size.", "surfaces.llm.command", "TOOLS"
    ),
    "client": Builtin("Write a typed client in TypeScript or Python.", "surfaces.client.command", "CLIENT"),
    "init": Builtin("Make a project that runs, from a template.", "project.verbs.init", "INIT"),
    "doctor": Builtin(
        "Look whether the project is set up right, with a way out.", "project.verbs.doctor", "DOCTOR"
    ),
    "lint": Builtin("Find what callers would stumble over in the actions.", "project.verbs.lint", "LINT"),
    "diff": Builtin("Tell what changed for callers, and what breaks them.", "project.verbs.diff", "DIFF"),
    "docs": Builtin("Write the app's guide, a site, or llms.txt.", "project.verbs.docs", "DOCS"),
    "build": Builtin(
        "Write manifests, launchers, docs, clients: all that others need.", "project.verbs.build", "BUILD"
    ),
    "package": Builtin("Make a wheel that runs wherever it is installed.", "project.verbs.build", "PACKAGE"),
    "publish": Builtin("Check the package, and upload it when told to.", "project.verbs.build", "PUBLISH"),
    "version": Builtin(
        "Print the versions of fairlead, Python and the dependencies.", "surfaces.cli.standard", "VERSION"
    ),
    "help": Builtin("Print the help of the program or of a command.", "surfaces.cli.standard", "HELP"),
}

#: The commands as the program's page shows them.
GROUPS: dict[str, tuple[str, ...]] = {
    "Calls and tasks": ("actions", "run", "json", "tasks", "worker", "chat", "plumb"),
    "Serving": ("dev", "serve", "mcp", "keys", "audit", "insights"),
    "For other programs": ("manifest", "openapi", "tools", "client"),
    "What is kept": ("store", "secrets", "models", "plugin"),
    "The project": ("init", "doctor", "lint", "diff", "docs", "build", "package", "publish"),
    "Help": ("errors", "version", "help"),
}
