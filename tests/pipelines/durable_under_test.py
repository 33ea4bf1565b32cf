"""An app with a pipeline, as a worker in a process of its own runs it: `durable_under_test.py FOLDER URL [work]`."""

import asyncio
import sys
from pathlib import Path

from fairlead import App
from fairlead.agents.models.script import ScriptModel
from fairlead.pipelines.apps import add_pipeline, load
from fairlead.pipelines.durable import stream_action
from fairlead.runtime import Context
from fairlead.store import DurableIdempotency, open_store

TEXT = """
type Order = { item: string }
let clerk : !string -> !string = agent { model: "default" }
let main : !Order -> !string = plumb(input, output) {
  input ; action pay ; filter(true) ; clerk ; map({ item: value }) ; action ship ; output
}"""


def build(folder: Path, url: str) -> App:
    """Orders are paid, an agent says something, and they are shipped. The third one gets stuck, the first time."""
    store = open_store(url=url)
    model = ScriptModel(lambda request: f"sold {note('ask', len(request.messages))}")
    app = App("shop", store=store, models=model, idempotency=DurableIdempotency(store, lease=1.0))

    def note(*words: object) -> object:
        with (folder / "done").open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")
        return words[-1]

    async def stuck(where: str) -> None:
        wanted = folder / "where"
        if wanted.exists() and wanted.read_text() == where and not (folder / "stuck").exists():
            (folder / "stuck").touch()
            print("stuck", flush=True)
            await asyncio.Event().wait()

    @app.action(side_effects="write", idempotency="idempotent")
    async def pay(ctx: Context, item: str) -> str:
        """Pay: once for each key, as a bank does it."""
        paid = folder / f"key-{abs(hash_of(ctx.idempotency_key))}"
        await stuck(f"before pay {item}")
        if not paid.exists():
            paid.touch()
            note("pay", item)
        await stuck(f"after pay {item}")
        return item

    @app.action(side_effects="write")
    async def ship(item: str) -> str:
        """Ship."""
        await stuck(f"ship {item}")
        note("ship", item)
        return item

    source = folder / "shop.plumb"
    source.write_text(TEXT)
    add_pipeline(app, source, "order")
    main = load(source, app).main
    assert main is not None
    app.catalogue.add(stream_action(app, main, "orders"))
    return app


def hash_of(key: str | None) -> int:
    """A number for a key that is the same in each process."""
    import hashlib

    assert key is not None
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8])


async def main() -> None:
    app = build(Path(sys.argv[1]), sys.argv[2])
    app.tasks.worker(lease=1.0).start()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
