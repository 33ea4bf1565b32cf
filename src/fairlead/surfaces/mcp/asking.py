"""What a person is shown of a call that they are asked about: one line for each argument, which none can forge.

The arguments are a model's, and it may have been talked into them.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead import _json

_LINES: Final = 30


def lines_of(arguments: Any, longest: int) -> list[str]:
    """The arguments, each cut to a length, on lines of their own."""
    # Most calls are asked about by nobody.
    from fairlead.surfaces.cli.console import harmless_line

    def brief(value: Any) -> str:
        said = harmless_line(value if isinstance(value, str) else _json.dumps(value))
        return said if len(said) <= longest else said[: longest - 1] + "…"

    if not isinstance(arguments, dict):
        return [brief(arguments)]
    told = [f"{brief(str(key))}: {brief(value)}" for key, value in list(arguments.items())[:_LINES]]
    more = len(arguments) - _LINES
    return [*told, f"({more} more that are not shown)"] if more > 0 else told
