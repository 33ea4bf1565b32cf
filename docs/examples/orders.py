"""An app with work that may take long, and with a question for a person."""

from fairlead import App, Context, Failure, Kind

app = App("orders", description="Import and refund orders.")


@app.action(side_effects="write", idempotency="idempotent")
async def import_orders(count: int, ctx: Context) -> dict[str, int]:
    """Import so many orders."""
    # A later run of the same task begins where the last one was.
    done = ctx.task.state["done"] if ctx.task and ctx.task.state else 0
    for number in range(done + 1, count + 1):
        await ctx.progress.report(f"Order {number}", percent=100 * number / count)
        await ctx.checkpoint({"done": number})
    return {"imported": count}


@app.action(side_effects="write")
async def refund_order(order: str, ctx: Context) -> str:
    """Refund an order, if a person agrees."""
    if ctx.task is None:
        raise Failure(Kind.unsupported, "A refund waits for a person: submit it as a task.")
    answer = ctx.task.ask(f"Refund order {order}?", ["yes", "no"])
    return f"Order {order} is {'refunded' if answer == 'yes' else 'left alone'}."


if __name__ == "__main__":
    app.cli()
