"""The runtime: carries every call. It knows actions and failures, and no surface."""

from fairlead.runtime.app import App
from fairlead.runtime.clock import Clock
from fairlead.runtime.context import Context, Services
from fairlead.runtime.events import Event
from fairlead.runtime.hooks import Invocation
from fairlead.runtime.idempotency import Claim, IdempotencyStore, MemoryIdempotency
from fairlead.runtime.limits import MemoryRates, RateStore
from fairlead.runtime.options import InvokeOptions
from fairlead.runtime.permissions import PermissionChecker, declared_permissions
from fairlead.runtime.plan import Call, Middleware
from fairlead.runtime.result import Result
from fairlead.runtime.runtime import Runtime
from fairlead.runtime.signal import Signal
from fairlead.runtime.stream import Stream

__all__ = [
    "App",
    "Call",
    "Claim",
    "Clock",
    "Context",
    "Event",
    "IdempotencyStore",
    "Invocation",
    "InvokeOptions",
    "MemoryIdempotency",
    "MemoryRates",
    "Middleware",
    "PermissionChecker",
    "RateStore",
    "Result",
    "Runtime",
    "Services",
    "Signal",
    "Stream",
    "declared_permissions",
]
