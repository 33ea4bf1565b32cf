"""JSON-RPC over stdio with no protocol: a line is read, the tool called, a line written. The limit."""

import sys

from servers.bare import answered


def main() -> None:
    read, write, flush = sys.stdin.buffer.readline, sys.stdout.buffer.write, sys.stdout.buffer.flush
    while line := read():
        # The function never waits, so it needs no event loop.
        try:
            answered(line).send(None)
        except StopIteration as done:
            write(done.value + b"\n")
            flush()


if __name__ == "__main__":
    main()
