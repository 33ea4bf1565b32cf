"""llama.cpp in this process, through `xllamacpp`: weights are loaded once, whoever uses them.

Each is a server on a loopback address that speaks OpenAI's protocol and takes a key that nobody else knows. So its
answers stream, and leaving early ends the work, without a thread of ours for each request.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead.agents.models.keys import Key
from fairlead.agents.models.weights import Weight
from fairlead.failures import Failure, Kind
from fairlead.failures.runtime import ConfigError

#: Tokens that are held at once, where nobody says more: memory grows with it.
CONTEXT: Final = 8_192
_SILENT: Final = -1
_CHATTY: Final = 3


@dataclass(frozen=True, slots=True)
class Tuning:
    """How weights are run."""

    #: Processor threads. Few: they wait for each other in a loop, which is very slow where other work is done, too.
    threads: int = 1
    context: int = CONTEXT
    #: Whether llama.cpp's own log is shown, on stderr.
    log: bool = False

    @staticmethod
    def of(environ: Mapping[str, str]) -> Tuning:
        """From FAIRLEAD_LOCAL_THREADS, FAIRLEAD_LOCAL_CONTEXT and FAIRLEAD_LOCAL_LOG."""
        threads = max(1, min(8, (os.cpu_count() or 2) // 2))
        return Tuning(
            threads=_whole(environ, "FAIRLEAD_LOCAL_THREADS", threads),
            context=_whole(environ, "FAIRLEAD_LOCAL_CONTEXT", CONTEXT),
            log=environ.get("FAIRLEAD_LOCAL_LOG", "").strip().lower() in ("1", "true", "on", "yes"),
        )


def _whole(environ: Mapping[str, str], name: str, default: int) -> int:
    given = environ.get(name, "").strip()
    if not given:
        return default
    if not given.isascii() or not given.isdigit() or int(given) < 1:
        raise ConfigError(f"{name} is not a whole number above 0.")
    return int(given)


class Engine:
    """Weights that are loaded, and where they are asked."""

    def __init__(self, server: Any, key: Key, window: int) -> None:
        self._server = server
        self.key = key
        self.window = window
        self.base_url = f"{server.listening_address}/v1"

    def stop(self) -> None:
        """Free the memory. Whoever still waits for an answer gets none."""
        self._server = None


class _Seat:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.engine: Engine | None = None
        self.users = 0


_seats: dict[tuple[Path, bool, Tuning, int], _Seat] = {}
_door = threading.Lock()


def hold(weight: Weight, tuning: Tuning) -> Engine:
    """The engine of some weights, loaded if it is not. Takes long: not for an event loop's own thread.

    Raises:
        Failure: llama.cpp is not installed, or cannot load the weights.
    """
    # A process that was forked has the memory of the other, and none of its threads.
    place = (weight.path, weight.about.embedding, tuning, os.getpid())
    with _door:
        seat = _seats.setdefault(place, _Seat())
        seat.users += 1
    try:
        with seat.lock:
            if seat.engine is None:
                seat.engine = _load(weight, tuning)
            return seat.engine
    except BaseException:
        with _door:
            seat.users -= 1
        raise


def release(engine: Engine) -> None:
    """No longer needed by one who held it; the last one frees it."""
    with _door:
        for place, seat in list(_seats.items()):
            if seat.engine is engine:
                seat.users -= 1
                if seat.users <= 0:
                    del _seats[place]
                    break
        else:
            return
    engine.stop()


def _load(weight: Weight, tuning: Tuning) -> Engine:
    try:
        import xllamacpp  # type: ignore[import-untyped]
    except ImportError as exc:
        words = "Running weights on this machine needs llama.cpp: pip install 'fairlead[local]'"
        raise ConfigError(words) from exc
    if not weight.path.is_file():
        raise Failure(
            Kind.not_found, f"The weights {weight.name!r} are gone from {str(weight.path.parent)!r}."
        )
    key = Key(secrets.token_urlsafe(32))
    window = min(tuning.context, weight.about.window or tuning.context)
    params = xllamacpp.CommonParams()
    params.model.path = str(weight.path)
    params.n_ctx = window
    params.n_parallel = 1
    params.cpuparams.n_threads = tuning.threads
    params.cpuparams_batch.n_threads = tuning.threads
    params.use_jinja = True
    params.ui = False
    params.port = 0
    params.api_keys = [key.reveal()]
    params.verbosity = _CHATTY if tuning.log else _SILENT
    params.endpoint_metrics = True
    if weight.about.embedding:
        params.embedding = True
        # A text is taken in at once, so that all of it must fit.
        params.n_batch = params.n_ubatch = window
    try:
        server = xllamacpp.Server(params)
        # It says that it is ready before its loop runs. Freed in between it would wait for that loop for ever, and this
        # whole process with it. What it counts is told by the loop.
        server.handle_metrics()
    except Exception as exc:
        words = f"llama.cpp cannot load the weights {weight.name!r}. Set FAIRLEAD_LOCAL_LOG=1 to see why."
        raise Failure(Kind.unavailable, words) from exc
    return Engine(server, key, window)
