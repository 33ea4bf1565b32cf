"""An app with an agent whose model answers by a script, for the tests of chats: in process and in processes."""

AGENT = '''
from fairlead.agents import Agent
from fairlead.agents.models.model import Usage
from fairlead.agents.models.script import ScriptModel, Turn, call

def answer(request):
    last = request.messages[-1]
    if last.role == "tool":
        return Turn(f"It said {last.content}", usage=Usage(1200, 30, cost=0.002))
    told = {
        "wipe": call("wipe", target="disk"),
        "twice": [call("wipe", target="disk"), call("look", path="b")],
        "look": Turn("I look.", (call("look", path="notes.txt"),)),
        "fail": call("look", path="missing"),
        "hang": call("hang"),
        "plan": call("todo", markdown="- [x] look\\n- [ ] act"),
        "colour": call("clarify", question="Which colour?", options=["red", "blue"]),
        "colours": call("clarify", question="Which colours?", options=["red", "blue"], allow_multiple=True),
        "name": call("clarify", question="What name?"),
        "finish": call("complete", summary="All of it is done now, and it was checked."),
        "think": Turn("I think **so**.", reasoning="Hmm, let me see."),
        "count": Turn("One two ..."),
        "long": Turn("A long answer:\\n\\n```python\\nprint(1)\\n```\\n\\n- one\\n- **two**"),
        "break": Failure(Kind.unavailable, "The model is away."),
    }
    word = last.content.split()[0]
    return told.get(word) or Turn(f"You said: {last.content}", usage=Usage(1200, 30, cost=0.002))

class Script(ScriptModel):
    """A script whose texts that end in dots never end."""

    async def stream(self, request):
        async for piece in super().stream(request):
            yield piece
            if getattr(piece, "text", "").endswith("..."):
                await asyncio.Event().wait()

@app.action(requires_confirmation=True, side_effects="write")
async def wipe(target: str) -> str:
    "Wipe a thing."
    return f"wiped {target}"

@app.action
async def look(path: str, ctx: Context) -> str:
    "Look at a file."
    if path == "missing":
        raise Failure(Kind.not_found, "There is no such file.")
    await ctx.progress.report(message="looking", percent=50)
    return "\\n".join(f"line {number} of {path}" for number in range(1, 21))

@app.action
async def hang(ctx: Context) -> None:
    "Wait for ever."
    await ctx.progress.report(message="hanging on", percent=10)
    await asyncio.Event().wait()

bob = Agent("bob", model=Script(answer), instructions="You are Bob.", tools=["wipe", "look", "hang"])
app.add(bob.action)
'''
