"""One failure on five wires, and back."""

from fairlead import Failure, Kind
from fairlead.failures import action, gateway, host, runtime, tool
from fairlead.failures.host import PluginBusy

failure = Failure(Kind.rate_limited, "Try again in a minute.", retry_after=60)

assert action.render(failure)["code"] == "RATE_LIMITED"
assert tool.render(failure)["kind"] == "unavailable"
assert host.render(failure)["error"] == "rate_limit_exceeded"
assert gateway.render(failure)["error"]["code"] == "rate_limited"
assert runtime.render(failure)["error"] == "api_error"

# A failure born on one wire keeps its exact code there, and carries it along on the others.
busy = PluginBusy()
told = action.render(busy)
assert told["code"] == "CONCURRENCY_LIMIT"
assert told["origin"] == {"family": "host", "code": "plugin_busy"}

# What was told can be read again.
heard = action.parse(told)
assert heard.kind is Kind.busy
assert host.render(heard)["error"] == "plugin_busy"
