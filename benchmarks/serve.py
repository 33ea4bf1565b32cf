"""The process of one server: `python serve.py servers.starlette:site 8000`, by uvicorn unless it has its own.

What is named `..._site` makes the server when it is called.
"""

import importlib
import os
import sys
import threading


def main(target: str, port: int) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    name, _, attribute = target.partition(":")
    module = importlib.import_module(name)
    if hasattr(module, "run"):
        module.run(port)
        return
    import uvicorn

    site = getattr(module, attribute)
    if attribute.endswith("_site"):
        site = site()
    uvicorn.run(
        site,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        log_level="error",
        access_log=False,
        lifespan="auto",
    )


def _end_with_parent() -> None:
    """The other end of stdin is closed when whoever measures is gone, however it went."""
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
