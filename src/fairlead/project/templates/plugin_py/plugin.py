"""my-app: one tool that greets, and one route that says that the plugin is well."""

from typing import Annotated

from fairlead.plugins.sdk import Plugin, Request, host

plugin = Plugin("com.example.my-app", version="0.1.0", name="my-app", description="Says hello.")


@plugin.tool
def hello(name: Annotated[str, "Whom to greet."]) -> str:
    """Say hello to somebody."""
    host.log("Somebody was greeted.")
    return f"Hello, {name}!"


@plugin.route("/health", auth="owner")
def health(request: Request) -> dict[str, bool]:
    return {"well": True}
