"""How a command ended, in the form that was asked for: results on stdout, a failure's words on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, Literal

from fairlead.failures import action as wire
from fairlead.surfaces.cli.console import DIM, Console
from fairlead.surfaces.cli.telling import Teller

Form = Literal["json", "table", "text", "ndjson", "people"]
Envelope = dict[str, Any]

OUTPUTS: Final[tuple[Form, ...]] = ("json", "table", "text")


def form_of(arguments: Sequence[str], console: Console) -> Form:
    """The form that is asked for; else for people on a terminal, and JSON anywhere else.

    It is read before the arguments are known to make sense, because they are refused in this form too.
    """
    if "--ndjson" in arguments:
        return "ndjson"
    asked = [value for flag, value in pairwise(arguments) if flag == "--output"]
    asked += [each.removeprefix("--output=") for each in arguments if each.startswith("--output=")]
    for form in OUTPUTS:
        if form in asked:
            return form
    return "people" if console.out_tty else "json"


class Outcome:
    """Shows an envelope, and gives the exit code."""

    def __init__(self, console: Console, form: Form, teller: Teller) -> None:
        self.console = console
        self.form = form
        self._teller = teller

    def show(self, envelope: Envelope) -> int:
        if self.form == "ndjson":
            self.console.write_json(_last_line(envelope))
        elif self.form == "json":
            self.console.write_json(envelope, indent=True)
        elif envelope["ok"]:
            self._data(envelope)
        if envelope["ok"]:
            return 0
        # A program reads the envelope, people read stderr; on a terminal the envelope is before their eyes.
        if self.form not in ("json", "ndjson") or not self.console.out_tty:
            self._teller.tell(envelope["error"])
        return wire.exit_code(wire.parse(envelope["error"]))

    def _data(self, envelope: Envelope) -> None:
        from fairlead.surfaces.cli import render

        data = envelope["data"]
        if data is None:
            if self.form == "people" and self.console.out_tty and not envelope["meta"].get("chunks"):
                self.console.say(self.console.err("done", DIM))
            return
        how = {"table": render.table, "text": render.text}.get(self.form, render.for_people)
        shown = how(data, self.console)
        if shown or data not in ([], {}):  # no items are no lines
            self.console.write(shown if shown.endswith("\n") else shown + "\n")


def _last_line(envelope: Envelope) -> Envelope:
    told: Envelope = {key: envelope[key] for key in ("ok", "data", "error", "meta") if key in envelope}
    return {"type": "result", **told}
