"""The trace that a request belongs to (W3C Trace Context): into the call's metadata, and on into its span."""

from __future__ import annotations

import re
import sys
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_PARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_LONGEST_STATE = 512


def trace_of(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """The request's `traceparent` and `tracestate`; nothing where the first is missing or malformed."""
    parent = headers.get(b"traceparent")
    if parent is None or not _PARENT.fullmatch(parent):
        return {}
    trace = {"traceparent": parent.decode("ascii")}
    state = headers.get(b"tracestate")
    if state and len(state) <= _LONGEST_STATE:
        trace["tracestate"] = state.decode("latin-1")
    return trace


async def traced(trace: Mapping[str, str], work: Coroutine[Any, Any, T]) -> T:
    """Await `work` with its spans in the caller's trace, unless the host's instrumentation has seen to that."""
    if "opentelemetry.sdk" not in sys.modules:
        return await work
    from opentelemetry import context, propagate
    from opentelemetry.trace import get_current_span

    if get_current_span().get_span_context().is_valid:
        return await work
    token = context.attach(propagate.extract(trace))
    try:
        return await work
    finally:
        context.detach(token)
