"""An agent to chat with. Its model is a written one, so that this runs anywhere; name a real one instead."""

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel, call

HIGH_WATER = {"Bergen": "04:12 and 16:40", "Oslo": "05:31 and 17:58"}

app = App("harbour", description="Know the tides.")


@app.action
def high_water(port: str) -> str:
    """Tell when the water is high in a port.

    Args:
        port: The port's name.
    """
    return HIGH_WATER[port]


written = ScriptModel(
    [call("high_water", port="Bergen"), "High water in Bergen is at **04:12** and **16:40**."],
    follow="conversation",
    repeat=True,
)
pilot = Agent("pilot", model=written, instructions="You know the tides.", tools=["high_water"])
app.add(pilot.action)

if __name__ == "__main__":
    app.cli()
