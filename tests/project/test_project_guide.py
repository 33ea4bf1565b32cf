"""The guide of an app tells all that is shown, deterministically, and nothing that is hidden."""

from __future__ import annotations

from typing import Annotated, Any

from fairlead import App


def shop() -> App:
    app = App(
        "shop",
        description="Sell things.",
        attribution={"text": "Powered by shop", "vendor": "Shop Ltd", "url": "https://example.com"},
        docs={
            "summary": "A small shop.",
            "audience": "Buyers.",
            "when_to_use": ["To buy."],
            "setup": ["Open an account."],
            "operational_notes": "Closed on Sundays.",
            "sections": [{"title": "Returns", "body": "Within a week."}],
            "examples": [{"title": "Buy one", "action": "buy", "input": {"what": "tea"}}],
        },
    )

    @app.action(
        side_effects="write",
        permissions=["shop:buy"],
        requires_confirmation=True,
        public_metadata={"team": "sales"},
        metadata={"secret_plan": True},
        docs={
            "when_to_use": "You want it.",
            "when_not_to_use": ["You do not."],
            "usage_notes": "Pay later.",
            "input_example": {"what": "tea"},
            "output_example": "tea",
        },
        deprecation={"replacement": "order", "message": "Ordering is better."},
    )
    def buy(what: Annotated[str, "What to buy."]) -> str:
        """Buy a thing."""
        return what

    @app.action(visibility="private")
    def steal() -> None:
        """Take without paying."""

    @app.action(side_effects="destructive", supported_surfaces=["cli"])
    def close_shop() -> None:
        """Close for good."""

    return app


def test_the_guide_has_the_apps_words_in_order() -> None:
    text = shop().create_guide_doc()
    headings = [line for line in text.splitlines() if line.startswith(("# ", "## "))]
    assert headings == [
        "# shop Guide",
        "## Overview",
        "## Intended User",
        "## When To Use",
        "## Setup",
        "## How To Use",
        "## Operational Notes",
        "## Attribution",
        "## Available Actions",
        "## Usage Examples",
        "## Returns",
    ]
    assert text.endswith("Within a week.\n")
    assert all(line == line.rstrip() for line in text.splitlines())


def test_an_actions_contract_is_told_whole() -> None:
    text = shop().create_guide_doc()
    for told in (
        "### Buy",
        "- Name: `buy`",
        "- Version: 1.0.0",
        "- Permissions: shop:buy",
        "- Confirmation: required",
        "- Deprecated: use `order` instead; Ordering is better.",
        "- Best for: You want it.",
        "- Avoid when: You do not.",
        '"description": "What to buy."',
        '"team": "sales"',
        "Example input:",
        "Example output:",
        "- Vendor: Shop Ltd",
    ):
        assert told in text


def test_what_is_not_shown_is_not_told() -> None:
    text = shop().create_guide_doc()
    assert "steal" not in text
    assert "secret_plan" not in text
    assert "Close Shop" in text
    assert "Close Shop" not in shop().create_guide_doc(surface="mcp")
    assert "Steal" in shop().create_guide_doc(include_private=True)


def test_the_same_app_gives_the_same_bytes() -> None:
    assert shop().create_guide_doc() == shop().create_guide_doc()


def test_content_cannot_leave_its_fence() -> None:
    app = App("app")
    example: Any = {"x": "```\n# Not a heading"}

    @app.action(docs={"input_example": example})
    def act(x: str) -> str:
        """Act on a text."""
        return x

    assert "````json" in app.create_guide_doc()


def test_an_app_without_words_still_has_a_guide() -> None:
    assert App("bare").create_guide_doc().startswith("# bare Guide\n\n## Overview\n\n")
