"""The grammar made into tables, by lark: `python -m fairlead.pipelines.tabling` writes `tables.json`.

Only developers need lark. A program that runs a pipeline reads the tables, which takes a hundredth of the time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairlead import _json

HERE = Path(__file__).parent
GRAMMAR = HERE / "grammar.lark"
TABLES = HERE / "tables.json"


def tables() -> dict[str, Any]:
    """States and rules. A number from 0 on is a state to go to, one below 0 the rule `-1 - n` to reduce by."""
    from lark import Lark
    from lark.lexer import Lexer
    from lark.parsers.lalr_analysis import Shift

    class Given(Lexer):
        """Words are made elsewhere."""

        def __init__(self, conf: Any) -> None:
            pass

        def lex(self, lexer_state: Any, parser_state: Any) -> Any:
            return iter(())

    made = Lark(GRAMMAR.read_text(), start="top", parser="lalr", lexer=Given, maybe_placeholders=False)
    table: Any = made.parser.parser._parse_table
    in_order = sorted(made.rules, key=lambda rule: (rule.origin.name, [each.name for each in rule.expansion]))
    numbers = {rule: number for number, rule in enumerate(in_order)}
    rules = [
        [rule.origin.name, len(rule.expansion), rule.alias, bool(rule.options.expand1)] for rule in in_order
    ]
    # Numbered as they are reached, so that equal grammars give equal tables.
    order = {table.start_states["top"]: 0}
    for number in (reached := list(order)):
        for _, (action, argument) in sorted(table.states[number].items()):
            if action is Shift and argument not in order:
                order[argument] = len(order)
                reached.append(argument)
    states = [
        {
            token: order[argument] if action is Shift else -1 - numbers[argument]
            for token, (action, argument) in sorted(table.states[number].items())
        }
        for number in order
    ]
    end = table.end_states["top"]
    return {"end": order[end], "rules": rules, "states": states}


if __name__ == "__main__":
    TABLES.write_bytes(_json.encode(tables()))
