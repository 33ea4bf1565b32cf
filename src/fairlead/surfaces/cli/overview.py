"""The program's own help page: what it can do. It is the page people wait for, so it imports little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fairlead.surfaces.cli.console import Console, harmless
from fairlead.surfaces.cli.pages import Page, Row

if TYPE_CHECKING:
    from fairlead.actions import Action
    from fairlead.runtime import App

_ENVIRONMENT: tuple[Row, ...] = (
    ("FAIRLEAD_DEBUG=1", "Show tracebacks."),
    ("NO_COLOR, FORCE_COLOR", "Never colour, or always."),
    ("COLUMNS", "How wide pages and tables are. [default: as the terminal]"),
)


def root_page(
    console: Console, program: str, app: App | None, builtins: Mapping[str, list[Row]], options: Iterable[Row]
) -> str:
    """The page of the program: what it can do."""
    page = Page(console)
    page.paragraph(_headline(app))
    page.usage(f"{program} ACTION [OPTIONS]", f"{program} COMMAND [OPTIONS]")
    if app is not None:
        page.section("Actions", _actions(app))
    for title, rows in builtins.items():
        page.section(title, rows)
    page.section("Options", options)
    page.section("Environment", _ENVIRONMENT)
    if app is not None and app.attribution.get("text"):
        page.lines("Attribution", _attribution(app.attribution))
    page.paragraph(f"Run '{program} COMMAND --help' for the options of a command or an action.")
    return page.text()


def _actions(app: App) -> list[Row]:
    from fairlead.surfaces.exposed import shown

    return [(action.command_name, _summary(action)) for action in shown(app, "cli")]


def _headline(app: App | None) -> str:
    if app is None:
        return "Fairlead: write an action once, and every caller gets it."
    return harmless(f"{app.name} {app.version}" + (f": {app.description}" if app.description else ""))


def _summary(action: Action[..., Any]) -> str:
    marks = ["destructive"] if action.side_effects == "destructive" else []
    marks += ["deprecated"] if action.deprecated else []
    return harmless(action.description) + (f" [{', '.join(marks)}]" if marks else "")


_CREDITS = {
    "vendor": "Vendor",
    "product": "Product",
    "license_notice": "License",
    "url": "URL",
    "docs_url": "Docs",
}


def _attribution(given: dict[str, Any]) -> Iterator[str]:
    yield harmless(given["text"])
    for key, word in _CREDITS.items():
        if given.get(key):
            yield harmless(f"{word}: {given[key]}")
