"""Fairlead's pipelines: `map ; filter` over records, chains of nodes, in one process with checks; and the checker."""

from fairlead.pipelines import Run, check_text
from task import Batch

PAIR = """
type Order = { n: int, text: string }
let main : !Order -> !Order = plumb(input, output) {
  input ; map({ n: n * 2, text: text }) ; filter(n >= 0) ; output
}
"""
NODE = "map({ n: n + 1, text: text })"
BINDINGS = 1000


def pair() -> Batch:
    return _batch(PAIR)


def short_chain() -> Batch:
    return _chain(10)


def chain() -> Batch:
    return _chain(100)


def _chain(nodes: int) -> Batch:
    text = PAIR.partition("let main")[0]
    wiring = " ; ".join(["input", *([NODE] * nodes), "output"])
    return _batch(f"{text} let main : !Order -> !Order = plumb(input, output) {{ {wiring} }}")


def checking() -> Batch:
    """Check a program of a thousand bindings, all of which are wired."""
    names = [f"step{number}" for number in range(BINDINGS - 1)]
    bindings = "\n".join(f"let {name} : !Order -> !Order = {NODE}" for name in names)
    wiring = " ; ".join(["input", *names, "output"])
    text = f"{PAIR.partition('let main')[0]}\n{bindings}\n"
    text += f"let main : !Order -> !Order = plumb(input, output) {{ {wiring} }}"

    async def batch(times: int) -> None:
        for _ in range(times):
            if len(check_text(text).processes) != BINDINGS:
                raise RuntimeError("the program does not check")

    return batch


def _batch(text: str) -> Batch:
    main = check_text(text).main
    if main is None:
        raise RuntimeError("the program does not check")

    async def batch(messages: int) -> None:
        seen = 0

        def write(values: list[object]) -> None:
            nonlocal seen
            seen += len(values)

        async with Run(main, write=write) as run:
            for start in range(0, messages, 512):
                last = min(start + 512, messages)
                await run.send_batch([{"n": number, "text": "x"} for number in range(start, last)])
            run.close_input()
            await run.wait()
        if seen != messages:
            raise RuntimeError(f"{seen} messages of {messages}")

    return batch
