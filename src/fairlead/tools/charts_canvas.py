"""What SVG charts are drawn on: shapes as text, with every word escaped, and the frame that marks are placed in."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from fairlead.tools.charts_scale import Scale


@dataclass(frozen=True, slots=True)
class Frame:
    """Where marks go: the plot's sides, its y scale, and its x scale if that has numbers."""

    left: float
    right: float
    y: Scale
    x: Scale | None

    def place(self, index: int, count: int, *, banded: bool) -> float:
        """The middle of a value's place among `count`; bands fill the width, points begin and end near its edges."""
        width = self.right - self.left
        if banded or count == 1:
            return self.left + (index + 0.5) * width / count
        return self.left + 10 + index * (width - 20) / (count - 1)


class Canvas:
    """Collects shapes; as text it is what goes inside the document."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def __str__(self) -> str:
        return "".join(self._parts)

    @staticmethod
    def escaped(text: str) -> str:
        return escape(text, quote=True)

    def text(
        self,
        x: float,
        y: float,
        said: str,
        style: str,
        *,
        anchor: str = "start",
        turned: int = 0,
        whole: str = "",
    ) -> None:
        """Words; `whole` is shown to who points at them, where they were shortened."""
        turn = f' transform="rotate({turned} {short(x)} {short(y)})"' if turned else ""
        hint = f"<title>{escape(whole)}</title>" if whole and whole != said else ""
        self._parts.append(
            f'<text class="{style}" x="{short(x)}" y="{short(y)}" text-anchor="{anchor}"{turn}>'
            f"{hint}{escape(said)}</text>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        self._parts.append(
            f'<line class="{style}" x1="{short(x1)}" y1="{short(y1)}" x2="{short(x2)}" y2="{short(y2)}"/>'
        )

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        style: str,
        *,
        corner: float = 0,
        hint: str = "",
    ) -> None:
        round_off = f' rx="{short(corner)}"' if corner else ""
        place = f'x="{short(x)}" y="{short(y)}" width="{short(width)}" height="{short(height)}"'
        self._closed(f'rect class="{style}" {place}{round_off}', "rect", hint)

    def circle(self, x: float, y: float, radius: float, style: str, *, hint: str = "") -> None:
        self._closed(
            f'circle class="{style}" cx="{short(x)}" cy="{short(y)}" r="{short(radius)}"', "circle", hint
        )

    def path(self, steps: str, style: str, *, hint: str = "") -> None:
        self._closed(f'path class="{style}" d="{steps}"', "path", hint)

    def _closed(self, start: str, name: str, hint: str) -> None:
        self._parts.append(f"<{start}><title>{escape(hint)}</title></{name}>" if hint else f"<{start}/>")


def short(value: float) -> str:
    """A coordinate: a tenth of a pixel is finer than anyone sees."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
