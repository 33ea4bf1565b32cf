"""Fairlead's pipelines: `map ; filter` over records, and a chain of a hundred nodes, in one process with checks."""

from fairlead.pipelines import Run, check_text
from task import Batch

PAIR = """
type Order = { n: int, text: string }
let main : !Order -> !Order = plumb(input, output) {
  input ; map({ n: n * 2, text: text }) ; filter(n >= 0) ; output
}
"""
CHAIN = " ; ".join(["input", *(["map({ n: n + 1, text: text })"] * 100), "output"])


def pair() -> Batch:
    return _batch(PAIR)


def chain() -> Batch:
    text = PAIR.partition("let main")[0]
    return _batch(f"{text} let main : !Order -> !Order = plumb(input, output) {{ {CHAIN} }}")


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
