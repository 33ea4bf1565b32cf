"""A command line for guests, who may look and not touch."""

from fairlead import App
from fairlead.surfaces.cli import run

app = App("garden", description="Look at flowers.")


@app.action
def list_flowers() -> list[str]:
    """List the flowers."""
    return ["rose", "tulip"]


@app.action(side_effects="write", permissions=["flowers:pick"])
def pick_flower(name: str) -> str:
    """Pick a flower."""
    return name


if __name__ == "__main__":
    run(app, user="guest", auth={"permissions": []})
