"""What schemathesis cannot know from a document, told to it."""

import gc
from typing import Any

import schemathesis

# It ends within seconds, and is through with little of what the collector would look at again and again.
gc.disable()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Two ways to give one key do not differ, and a number is written as JavaScript writes it: 2, not 2.0."""
    if isinstance(case.body, dict):
        if case.body.get("idempotencyKey") is not None and case.headers:
            case.headers.pop("Idempotency-Key", None)
        case.body = written(case.body)


def written(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: written(each) for key, each in value.items()}
    if isinstance(value, list):
        return [written(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
