"""Shapes made at run time with `s`, and shapes that come as JSON Schema."""

import asyncio
from typing import Any

from fairlead import App, s
from fairlead.schema import schema_of

app = App("survey", description="Ask people.")

answer = s.object(
    {
        "name": s.string().min(1).max(40).describe("Who answers."),
        "age": s.number().int().min(0).optional(),
        "colours": s.array(s.enum(["red", "green", "blue"])).max(3).default([]),
        "contact": s.union([s.string().url(), s.literal(None)]).optional(),
        "extra": s.record(s.any()).optional(),
    }
)

assert answer.parse({"name": "Ada"}) == {"name": "Ada", "colours": []}
assert not answer.validate({"name": "", "colours": ["pink"]}).ok
assert answer.to_json_schema()["required"] == ["name"]


@app.action(input=answer)
def record_answer(input: dict[str, Any]) -> int:
    """Record an answer."""
    return len(input)


# A JSON Schema is a shape too; it needs the extra fairlead[jsonschema].
point = schema_of({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]})
assert point.validate({"x": 1.5}) == {"x": 1.5}

result = asyncio.run(app.invoke("record_answer", {"name": "Ada", "age": "36"}))
assert result.data == 3
assert len(result.warnings) == 1  # the age came as text
