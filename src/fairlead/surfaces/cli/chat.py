"""`chat`: talk with an agent of the app, or with a model alone. With whom is decided here; `chat_session` talks."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures import Failure, Kind
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.cli.spans import DATA_ROW, choose_store

if TYPE_CHECKING:
    from fairlead.actions import Action
    from fairlead.agents.agent import Agent
    from fairlead.runtime import App
    from fairlead.surfaces.cli.chat_session import Talk
    from fairlead.surfaces.cli.program import Program

_SWITCHES: Final = ("--json", "--resume", "--no-thoughts", "--no-color", "--verbose", "-v")
_VALUED: Final = ("--model", "--conversation", "--data")
#: What the agent is called that is made of a model alone.
_ALONE: Final = "model"
_LISTED: Final = 10


def _chat(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, _SWITCHES, _VALUED, 1)
    if "--conversation" in options.values and "--resume" in options.on:
        raise wrong_option("--resume", "goes on with the latest conversation, so no other can be named")
    choose_store(options.values.get("--data"))
    console = program.console
    if "--no-color" in options.on:
        console.out.on = console.err.on = False
    if "--json" in options.on:
        program.form = "ndjson"
    elif not console.out_tty:
        program.form = "text"
    talk = _talk(program, options)
    from fairlead.surfaces.cli.call import quiet_tracebacks
    from fairlead.surfaces.cli.chat_session import Chat

    quiet_tracebacks(console)
    return Chat(program, talk, options).run()


def _talk(program: Program, options: Options) -> Talk:
    from fairlead.surfaces.cli.chat_session import Talk

    model = options.values.get("--model")
    if not options.words and model is not None:
        app, agent = _bare(model)
    else:
        app = _app(program)
        agent = _agent(program, app, options.words[0] if options.words else None)
        if model is not None:
            agent.model = model
    return Talk(app, agent, _field(program, agent), options.values.get("--conversation") or fresh())


def fresh() -> str:
    """The id of a conversation that is new."""
    return secrets.token_hex(6)


def _bare(model: str) -> tuple[App, Agent]:
    """A model without tools, in an app that is made for it."""
    from fairlead.agents.agent import Agent
    from fairlead.runtime import App

    agent = Agent(_ALONE, model=model, description="Talk with a model.", loop_tools=False)
    app = App("fairlead chat", description="Talk with a model.")
    app.add(agent.action)
    return app, agent


def _app(program: Program) -> App:
    app = program.find_app()
    if app is None:
        from fairlead.surfaces.cli.locate import not_found

        missing = not_found()
        words = f"{missing.message} Or talk with a model alone: '{program.spelled} chat --model local'."
        raise Failure(missing.kind, words)
    return app


def agents_of(app: App) -> list[Action[..., Any]]:
    """The actions that are agents and that the command line shows."""
    from fairlead.agents.loop.toolset import MARK
    from fairlead.surfaces.exposed import shown

    return [action for action in shown(app, "cli") if MARK in action.metadata]


def _agent(program: Program, app: App, name: str | None) -> Agent:
    from fairlead.agents.loop.toolset import MARK

    found = {action.command_name: action for action in agents_of(app)}
    if not found:
        raise Failure(
            Kind.not_found,
            f"The app {app.name!r} has no agent to talk with. Make one with @app.agent, or talk with a model alone: "
            f"'{program.spelled} chat --model local'.",
        )
    names = ", ".join(list(found)[:_LISTED])
    if name is None:
        if len(found) > 1:
            raise wrong_option("argument 1", f"expected an agent, one of {names}")
        name = next(iter(found))
    action = found.get(name.replace("_", "-"))
    if action is None:
        hint = near_miss(name.replace("_", "-"), found)
        raise Failure(Kind.not_found, f"No agent is named {name[:100]!r}.{hint} There are: {names}.")
    agent: Agent = action.metadata[MARK]
    return agent


def _field(program: Program, agent: Agent) -> str:
    """The field of the agent's input that takes what is said."""
    from fairlead.agents.agent import CONVERSATION

    schema = agent.action.input.json_schema
    fields = {name: each for name, each in schema.get("properties", {}).items() if name != CONVERSATION}
    needed = [str(name) for name in schema.get("required", ()) if name in fields] or list(fields)
    kept = CONVERSATION in schema.get("properties", {})
    if kept and len(needed) == 1 and fields[needed[0]].get("type") == "string":
        return needed[0]
    wants = ", ".join(fields) or "nothing"
    raise Failure(
        Kind.invalid_input,
        f"{agent.name!r} cannot be talked with: it takes {wants}, not one text. "
        f"Call it: '{program.spelled} {agent.action.command_name} --help'.",
    )


CHAT = Command(
    "chat [AGENT] [OPTIONS]",
    (
        ("AGENT", "The agent's name; the only one of the app if it is left out."),
        (
            "--model NAME",
            "Without AGENT: talk with this model alone, no app needed. With it: have it use this model.",
        ),
        ("--conversation ID", "Go on with this conversation; a new id begins one. [default: a new one]"),
        ("--resume", "Go on with the latest conversation with this agent."),
        ("--no-thoughts", "Do not show what the model thinks."),
        ("--no-color", "No colours. [env: NO_COLOR]"),
        ("--verbose, -v", "Show tools and log lines also where stderr is no terminal."),
        ("--json", "Print each event as one line of JSON; the last of a turn has the type 'result'."),
        DATA_ROW,
    ),
    _chat,
    ("chat assistant", "chat --resume", "chat --model local", "chat assistant --json < question.txt"),
)
