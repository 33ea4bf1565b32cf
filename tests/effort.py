"""How much work something is, whatever else this process and this machine do."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def effort(work: Callable[[], object]) -> float:
    """Processor seconds of this thread, without looking through what other tests have left in memory."""
    gc.disable()
    began = time.thread_time()
    try:
        work()
        return time.thread_time() - began
    finally:
        gc.enable()
