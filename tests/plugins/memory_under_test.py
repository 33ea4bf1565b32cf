"""Calls a plugin in this process through both tables, all slots and all callbacks; run under valgrind or ASan.

Usage: memory_under_test.py LIBRARY ROUNDS. It loads our files as the helper process does, so that little else runs.
"""

import os
import sys
from collections.abc import Callable

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "src", "fairlead", "plugins"))

import native  # type: ignore[import-not-found]


class Host:
    """Answers with what it was given."""

    def ask(self, slot: int, args: tuple[bytes | None, ...]) -> bytes | None:
        return args[0] if args else b"{}"

    def note(self, slot: int, args: tuple[bytes | None, ...]) -> None:
        return

    def stream(self, request: bytes, chunk: Callable[[bytes], None] | None) -> bytes | None:
        if chunk:
            chunk(b"one")
            chunk(b"two")
        return b"done"

    def agent(self) -> bytes | None:
        return b"A1111111-1111-4111-8111-111111111111"


def main() -> None:
    library = native.Library(sys.argv[1])
    library.load(Host())
    for number in range(int(sys.argv[2])):
        for id in (b"echo", b"agents", b"stream", b"stream_in_stream", b"stream_elsewhere", b"seen", b"null"):
            library.invoke(b"tool", id, b"text")
        library.invoke(b"tool", b"raw", b"x" * 1000 * number)
        library.invoke(b"tool", b"threads", b"3 3")
        for slot in range(1, 25):
            library.invoke(b"tool", b"host", b"%d\n1\n2\n3" % slot)
            if slot not in (6, 23):
                library.invoke(b"tool", b"host", b"%d\n(null)\n(null)\n(null)" % slot)
        if library.routes:
            library.handle_route(b"{}")
            library.config_changed(b"key", b"value")
            library.task_event(b"task", 4, b"{}")
    library.destroy()
    print("through")


main()
