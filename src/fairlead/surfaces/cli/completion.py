"""Shell completion by click: a tree of commands that click can walk, made only when a shell asks.

The tree is for completing; commands are run by the program itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from fairlead.failures import Failure
from fairlead.surfaces.cli.builtin import BUILTINS, completion_variable
from fairlead.surfaces.cli.fields import Field, Fields
from fairlead.surfaces.cli.outcome import OUTPUTS
from fairlead.surfaces.cli.program import SHELLS
from fairlead.surfaces.cli.shapes import label
from fairlead.surfaces.exposed import find, shown

if TYPE_CHECKING:
    from fairlead.actions import Action
    from fairlead.surfaces.cli.command import Command
    from fairlead.surfaces.cli.program import Program

_BOOLEAN = click.Choice(["true", "false"])


def script(program: Program, shell: str) -> str:
    """The text that switches completion on in a shell."""
    made = get_completion_class(shell)
    assert made is not None
    name = program.start.name
    source = made(_Root(program), {}, name, completion_variable(name)).source()
    how = {
        "bash": f'eval "$({name} --completion bash)"   # in ~/.bashrc',
        "zsh": f'eval "$({name} --completion zsh)"   # in ~/.zshrc',
        "fish": f"{name} --completion fish | source   # in ~/.config/fish/config.fish",
    }[shell]
    if not program.start.command:
        program.console.say(
            f"The script completes a command called {name!r}, which is not how this program was started: "
            "make one under [project.scripts] in pyproject.toml."
        )
    # zsh wants its #compdef line first.
    return f"{source.rstrip()}\n\n# To have this in every shell: {how}\n"


def complete(program: Program, instruction: str) -> int:
    """Answer a shell's question."""
    name = program.start.name
    return shell_complete(_Root(program), {}, name, completion_variable(name), instruction)


class _Root(click.Group):
    def __init__(self, program: Program) -> None:
        options: list[click.Parameter] = [
            click.Option(["--completion"], type=click.Choice(SHELLS), help="Print a script."),
            click.Option(["--version"], is_flag=True, help="Print the versions."),
        ]
        if not program.owned:
            options.insert(0, click.Option(["--app"], type=click.Path(), help="The app."))
        super().__init__(program.start.name, params=options)
        self._program = program

    def actions(self, ctx: click.Context) -> list[Action[..., Any]]:
        if ctx.params.get("app"):
            self._program.use(ctx.params["app"])
        try:
            # A key that is pressed in a strange directory must not run what lies there.
            app = self._program.find_app(guess=False)
        except Failure:
            return []
        return shown(app, "cli") if app is not None else []

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*(action.command_name for action in self.actions(ctx)), *BUILTINS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in BUILTINS:
            return _builtin(self, cmd_name)
        if not self.actions(ctx):
            return None
        try:
            return _command(find(self._program.the_app(), cmd_name, "cli"))
        except Failure:
            return None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        about = {action.command_name: action.description for action in self.actions(ctx)}
        about |= {name: command.summary for name, command in BUILTINS.items()}
        return [
            CompletionItem(name, help=text) for name, text in about.items() if name.startswith(incomplete)
        ]


def _command(action: Action[..., Any]) -> click.Command:
    fields = Fields(action.input.json_schema)
    options = [option for field in fields.all() for option in _options(fields, field)]
    return click.Command(action.command_name, params=[*options, *_call_options()], help=action.description)


def _options(fields: Fields, field: Field) -> list[click.Parameter]:
    shape = field.shape
    item = shape.item(0) if shape.kind == "array" else shape
    name = "field_" + "_".join(field.path)
    kind: click.ParamType[Any] = click.STRING
    if item.choices:
        kind = click.Choice([label(choice) for choice in item.choices])
    elif item.kind == "boolean":
        kind = _BOOLEAN
    about: str | None = shape.schema.get("description")
    options: list[click.Parameter] = [
        click.Option([field.flag, name], type=kind, multiple=shape.kind == "array", help=about)
    ]
    if shape.kind == "boolean" and fields.find(f"no-{field.flag[2:]}") is None:
        options.append(click.Option([f"--no-{field.flag[2:]}", f"no_{name}"], is_flag=True, help=about))
    return options


def _call_options() -> list[click.Parameter]:
    return [
        click.Option(["--json"], help="The whole input."),
        click.Option(["--output"], type=click.Choice(OUTPUTS), help="How to show the result."),
        click.Option(["--ndjson"], is_flag=True, help="One line for each event."),
        click.Option(["--confirm"], is_flag=True, help="Go ahead."),
        click.Option(["--idempotency-key"], help="Repeat safely."),
        click.Option(["--timeout-ms"], help="Stop after this time."),
        click.Option(["-v", "--verbose"], is_flag=True, help="Show every log line."),
        click.Option(["--schema"], is_flag=True, help="Print the input's schema."),
    ]


def _builtin(root: _Root, name: str) -> click.Command:
    params: list[click.Parameter] = [
        _row_option(left, right) for left, right in BUILTINS[name].command.rows if left.startswith("--")
    ]
    if verbs := _verbs(BUILTINS[name].command):
        params.append(click.Argument(["verb"], type=click.Choice(verbs), required=False))
    if name == "run":
        actions = [action.command_name for action in root.actions(click.Context(root))]
        params.append(click.Argument(["action"], type=click.Choice(actions), required=False))
    if name == "errors":
        from fairlead.failures import catalogue, families

        params = [each for each in params if each.name != "family"]
        params.append(click.Option(["--family"], type=click.Choice(families())))
        params.append(
            click.Argument(["code"], type=click.Choice([entry.code for entry in catalogue()]), required=False)
        )
    if name == "help":
        names = root.list_commands(click.Context(root))
        params.append(click.Argument(["command"], type=click.Choice(names), required=False))
    return click.Command(name, params=params, help=BUILTINS[name].summary)


def _verbs(command: Command) -> list[str]:
    """The words of which one comes first, as the usage and the rows say: `keys new NAME | list`."""
    words = [left.partition(" ")[0] for left, _ in command.rows]
    return [word for word in words if word.isalpha() and word.islower() and word in command.usage.split()]


def _row_option(left: str, right: str) -> click.Option:
    """An option as its row in the help says it: `--port N`, `--json`, `--worker[=N]`."""
    flag, _, value = left.partition(" ")
    flag = flag.partition("[")[0]
    return click.Option([flag], is_flag=not value, help=right)
