"""A glossary as an MCP server on stdin and stdout: `python glossary.py`."""

from fairlead import App

app = App("glossary")

WORDS = {"fairlead": "a ring that guides a line", "cleat": "a fitting to which a line is made fast"}


@app.action
def define(word: str) -> str:
    """What a word means."""
    return WORDS.get(word.lower(), f"{word} is not in the glossary.")


if __name__ == "__main__":
    app.cli(["mcp", "--stdio"])
