"""For tests of your own actions: an easy runtime, assertions, and time and ids that hold still."""

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.agents.models.script import ScriptModel, Turn, call
    from fairlead.testing.expect import collect_stream, expect_error, expect_log, expect_ok
    from fairlead.testing.fixed import FixedClock, SequentialIds
    from fairlead.testing.runtime import TestRuntime, create_test_runtime, stub_action
    from fairlead.testing.surfaces import SURFACES, Outcome, SurfaceDriver

__all__ = [
    "SURFACES",
    "FixedClock",
    "Outcome",
    "ScriptModel",
    "SequentialIds",
    "SurfaceDriver",
    "TestRuntime",
    "Turn",
    "call",
    "collect_stream",
    "create_test_runtime",
    "expect_error",
    "expect_log",
    "expect_ok",
    "stub_action",
]

__getattr__ = on_demand(
    __name__,
    {
        "SURFACES": "surfaces",
        "FixedClock": "fixed",
        "Outcome": "surfaces",
        "ScriptModel": "scripts",
        "SequentialIds": "fixed",
        "SurfaceDriver": "surfaces",
        "TestRuntime": "runtime",
        "Turn": "scripts",
        "call": "scripts",
        "collect_stream": "expect",
        "create_test_runtime": "runtime",
        "expect_error": "expect",
        "expect_log": "expect",
        "expect_ok": "expect",
        "stub_action": "runtime",
    },
)
