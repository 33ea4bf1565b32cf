"""Run by pytest; the kit stands for the host."""

from pathlib import Path

from fairlead.plugins.kit import open_plugin


def test_somebody_is_greeted() -> None:
    with open_plugin(Path(__file__).parent) as plugin:
        assert plugin.tool("hello", {"name": "Ada"}) == "Hello, Ada!"
        assert plugin.host.logs[-1].message == "Somebody was greeted."


def test_it_is_well() -> None:
    with open_plugin(Path(__file__).parent) as plugin:
        assert plugin.route("health")["body"] == '{"well": true}'
