"""An agent for other people's programs. Its model is a written one, so that this runs anywhere; name a real one."""

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel, Turn, call

app = App("harbour", description="Know the tides, and book berths.")


def answer(request):
    last = request.messages[-1]
    if last.role == "tool":
        return "A berth is booked."
    if "berth" in last.content:
        return call("clarify", question="For which boat?")
    return Turn("High water is at 04:12.", pieces=("High water ", "is at 04:12."))


app.add(Agent("pilot", model=ScriptModel(answer, record=False), instructions="You know the tides."))

if __name__ == "__main__":
    app.cli()
