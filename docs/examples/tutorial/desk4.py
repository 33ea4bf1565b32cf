from desk3 import app

from fairlead.agents import Agent

clerk = Agent(
    "clerk",
    model="script/clerk.toml",
    instructions="You are the clerk of a lending desk. Lend and take back books, and say in one sentence what you did.",
    tools=["lend_book", "return_book", "list_loans"],
)
app.add(clerk)

if __name__ == "__main__":
    app.cli()
