"""The program: its own options, the choice of a command, and the failures of the command line itself.

It starts with next to nothing imported, so that `--help` is quick; each command brings what it needs.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from fairlead.failures import Failure, Kind
from fairlead.failures.typed import typed_as
from fairlead.surfaces.cli import locate
from fairlead.surfaces.cli.builtin import BUILTINS, GROUPS
from fairlead.surfaces.cli.console import RED, Console, Unwritable
from fairlead.surfaces.cli.hints import misuse, near_miss, wrong_option
from fairlead.surfaces.cli.identity import Identity, local
from fairlead.surfaces.cli.start import Start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fairlead.actions import Action
    from fairlead.runtime import App
    from fairlead.surfaces.cli.arguments import Request
    from fairlead.surfaces.cli.fields import Fields
    from fairlead.surfaces.cli.outcome import Form, Outcome
    from fairlead.surfaces.cli.telling import Label

    #: What is done with an action and a request that was read; gives the exit code.
    Do = Callable[[App, Action[..., Any], Request, Identity, Outcome], int]

SURFACE = "cli"
SHELLS = ("bash", "zsh", "fish")
_OPTIONS = (
    ("--completion SHELL", f"Print the completion script for {', '.join(SHELLS)}."),
    ("--version", "Print the versions."),
    ("-h, --help", "Print this page."),
)
_APP_OPTION = (
    "--app MODULE:NAME",
    "The app, in a module or a file. [env: FAIRLEAD_APP] "
    "[default: app in pyproject.toml or fairlead.toml, or app.py]",
)
_BROKEN_PIPE = 141


class Program:
    """One run of `fairlead`, or of an app's own command line."""

    def __init__(
        self,
        start: Start,
        console: Console,
        app: App | None = None,
        identity: Identity | None = None,
        *,
        home: str | None = None,
    ) -> None:
        self.start = start
        self.console = console
        self._identity = identity
        self._app = app
        #: Where the app is, in the program of one that is not imported yet.
        self._home = home
        #: Whether this is one app's own program, which looks for no other.
        self.owned = app is not None or home is not None
        self._given: str | None = None
        #: Where an app is looked for, if not in the working directory.
        self._folder: str | None = None
        #: Whether an app was looked for in vain.
        self._astray = False
        #: Whether the process is this program's, and nobody else's.
        self.alone = False
        #: How results and refusals are shown.
        self.form: Form = "people"

    @property
    def identity(self) -> Identity:
        """Who the calls are made for."""
        if self._identity is None:
            self._identity = local()
        return self._identity

    @property
    def spelled(self) -> str:
        """The program as one types it, for hints."""
        if self._given is None:
            return self.start.typed
        given = self._given if " " not in self._given else f'"{self._given}"'
        return f"{self.start.typed} --app {given}"

    def run(self, argv: Sequence[str]) -> int:
        """Run a command to its exit code."""
        try:
            with typed_as(lambda: self.spelled):
                return self._run(argv)
        except BrokenPipeError:
            self.console.abandon_stdout()
            return _BROKEN_PIPE
        except Unwritable as exc:
            self.console.abandon_stdout()
            self.console.say(f"{self.console.err('error:', RED)} {exc}")
            return 1
        except KeyboardInterrupt:
            self.console.say("")
            return 130

    def _run(self, argv: Sequence[str]) -> int:
        try:
            code = self._completed(argv)
            return self._dispatch(list(argv)) if code is None else code
        except Failure as failure:
            return self._refuse(failure)

    def find_app(self, *, whole: bool = True, guess: bool = True) -> App | None:
        """The app, or None when nothing says where it is. Raises Failure when it cannot be had.

        Where the whole is not needed, the shapes of its actions are compiled when they are first used.
        Without a guess, an app.py that nobody named is left alone.
        """
        if self._app is not None:
            return self._app
        directory = self._directory()
        place = self._place(directory)
        if place is None or (place.guessed and not guess):
            return None
        from contextlib import redirect_stdout

        from fairlead.actions.binding import deferred

        try:
            with redirect_stdout(self.console.stderr), nullcontext() if whole else deferred():
                self._app = locate.load(place, directory)
        except Failure as failure:
            self._show_traceback(failure)
            self._astray = True
            self._given = None  # hints must not repeat it
            raise
        return self._app

    def the_app(self) -> App:
        """The app. Raises Failure when there is none."""
        app = self.find_app()
        if app is None:
            self._astray = True
            raise locate.not_found()
        return app

    @property
    def target(self) -> str | None:
        """Where the person said that the app is, if they did."""
        return self._home or self._given or self.console.environ.get("FAIRLEAD_APP")

    def import_target(self) -> str:
        """Where another process finds the app. Raises Failure when nothing says."""
        if self.owned and self._home is None:
            from fairlead.surfaces.cli.whereabouts import whereabouts

            home = whereabouts(self.the_app())
            if home is None:
                raise Failure(
                    Kind.invalid_input, "Other processes cannot find the app: no module has it by a name."
                )
            return home
        place = self._place(self._directory())
        if place is None:
            raise locate.not_found()
        return place.target

    def _place(self, directory: str) -> locate.Place | None:
        if self._home is not None:
            return locate.Place(self._home, "the program itself", packaged=True)
        return locate.locate(self._given, self.console.environ, directory)

    def use(self, target: str) -> None:
        """Work with this app from here on."""
        self._given = target

    def work_in(self, folder: str | os.PathLike[str]) -> None:
        """Look for the app in this folder from here on."""
        self._folder = os.path.abspath(folder)

    def _directory(self) -> str:
        return self._folder or _here()

    def help(self) -> int:
        """Print the program's page; an app that cannot be had is told about after it."""
        from fairlead.surfaces.cli.overview import root_page

        app, failure = None, None
        try:
            app = self.find_app(whole=False)
        except Failure as exc:
            failure = exc
        rows = {title: [(name, BUILTINS[name].summary) for name in names] for title, names in GROUPS.items()}
        options = _OPTIONS if self.owned else (_APP_OPTION, *_OPTIONS)
        self.console.write(root_page(self.console, self.spelled, app, rows, options))
        if failure is not None:
            return self._refuse(failure)
        if app is None:
            self.console.say(locate.not_found().message)
        return 0

    def help_for(self, name: str) -> int:
        """Print a command's page."""
        if name in BUILTINS:
            self.console.write(BUILTINS[name].page(self))
            return 0
        return self.call(self.find_action(name), ["--help"])

    def write_json(self, value: Any) -> int:
        """Print a value as JSON, for programs and for people."""
        self.console.write_json(value, indent=True)
        return 0

    def _dispatch(self, arguments: list[str]) -> int:
        wants_help = False
        while arguments and arguments[0].startswith("-"):
            flag, equals, value = arguments.pop(0).partition("=")
            if flag in ("-h", "--help") and not equals:
                wants_help = True
            elif flag == "--version" and not equals:
                return BUILTINS["version"].run(self, [])
            elif flag == "--app" and not self.owned:
                self._given = value if equals else self._value(flag, arguments)
            elif flag == "--completion":
                return self._completion(value if equals else self._value(flag, arguments))
            else:
                self._unknown_option(flag)
        if not arguments:
            return self.help()
        name, *rest = arguments
        if wants_help:
            return self.help_for(name)
        if name in BUILTINS:
            return self._builtin(name, rest)
        from fairlead.surfaces.cli.outcome import form_of

        self.form = form_of(rest, self.console)
        with _uncollected() if self.alone else nullcontext():
            action = self.find_action(name)
        return self.call(action, rest)

    def _builtin(self, name: str, arguments: list[str]) -> int:
        asked = "-h" in arguments or "--help" in arguments
        if asked and not BUILTINS[name].command.helps:
            return self.help_for(name)
        if "--json" in arguments:
            self.form = "json"  # also of a refusal
        try:
            return BUILTINS[name].run(self, arguments)
        except Failure as failure:
            # The command's own page explains what it takes, the program's page where an app is looked for.
            taken = failure.kind == Kind.invalid_input and not self._astray
            if taken and not self.owned and (target := _misplaced(failure, arguments)):
                spelled = f"{self.start.typed} --app {target} {name}"
                where = str(failure.issues[0].path[0])
                failure = wrong_option(where, f"an app is named before the command: {spelled}")
            return self._refuse(failure, name if taken else "")

    def call(
        self,
        action: Action[..., Any],
        arguments: list[str],
        do: Do | None = None,
        more_flags: Sequence[str] = (),
        *,
        elsewhere: bool = False,
    ) -> int:
        """Read the arguments of an action and do what they ask for: call it, or what `do` does with them.

        `more_flags` are those that were read before, for hints. The input may be `elsewhere`.
        """
        from fairlead.surfaces.cli.arguments import Arguments
        from fairlead.surfaces.cli.fields import Fields
        from fairlead.surfaces.exposed import full_name

        app = self.the_app()
        # No version has an underscore.
        command = full_name(app, action).replace("_", "-")
        fields = cache(lambda: Fields(action.input.json_schema))
        read = Arguments(arguments, fields, self.console, more_flags)
        if read.request.help:
            from fairlead.surfaces.cli.help import action_page

            self.console.write(action_page(self.console, self.spelled, action, fields(), command))
            return 0
        if read.request.schema:
            return self.write_json(action.input.json_schema)
        label = _Label(fields, read.request.whole)
        if read.issues:
            if not elsewhere:
                read.judge(action.input, repair=(action.preflight or app.preflight) == "repair")
            return self._refuse(misuse(*read.issues), command, label)
        by_token = action.requires_confirmation == "token"
        outcome = self.outcome(command if do is None else f"run {command}", label, by_token=by_token)
        if do is None:
            from fairlead.surfaces.cli.call import call

            do = call
        return do(app, action, read.request, self.identity, outcome)

    def find_action(self, name: str) -> Action[..., Any]:
        """The action that is called so here. Raises Failure when there is none."""
        from fairlead.surfaces.exposed import find, shown
        from fairlead.surfaces.refusal import LONGEST

        app = self.find_app(whole=False)
        said = name[:LONGEST]
        if app is None:
            hint = near_miss(said, BUILTINS)
            if hint:
                raise Failure(Kind.unknown_action, f"No command is named {said!r}.{hint}")
            raise locate.not_found()
        try:
            return _compiled(find(app, name, SURFACE))
        except Failure as failure:
            if failure.kind != Kind.unknown_action:
                raise
        hint = near_miss(
            said.replace("_", "-"), [*(each.command_name for each in shown(app, SURFACE)), *BUILTINS]
        )
        raise Failure(
            Kind.unknown_action,
            f"No action or command is named {said!r}.{hint} '{self.spelled} --help' lists them.",
        )

    def _refuse(self, failure: Failure, command: str = "", label: _Label | None = None) -> int:
        """Tell a failure of the command line itself: to people, and as an envelope where JSON is read."""
        from fairlead.surfaces.refusal import refusal

        name = command.partition("@")[0].replace("-", "_")
        envelope = refusal(failure, SURFACE, self._app, name or None)
        return self.outcome(command, label).show(envelope)

    def outcome(self, command: str, label: Label | None = None, *, by_token: bool = False) -> Outcome:
        """What shows how a command ended, in the form that was asked for."""
        from fairlead.surfaces.cli.outcome import Outcome
        from fairlead.surfaces.cli.telling import Teller

        teller = Teller(self.console, self.spelled, command, label or _spell, by_token=by_token)
        return Outcome(self.console, self.form, teller)

    def _show_traceback(self, failure: Failure) -> None:
        if self.console.debug and failure.__cause__ is not None:
            import traceback

            self.console.say("".join(traceback.format_exception(failure.__cause__)), end="")

    def _completed(self, argv: Sequence[str]) -> int | None:
        """Answer the shell if it asks for completions."""
        from fairlead.surfaces.cli.builtin import completion_variable

        instruction = self.console.environ.get(completion_variable(self.start.name))
        if not instruction:
            return None
        from fairlead.surfaces.cli.completion import complete

        return complete(self, instruction)

    def _completion(self, shell: str) -> int:
        if shell not in SHELLS:
            expected = f"expected one of {', '.join(SHELLS)}.{near_miss(shell, SHELLS)}"
            raise wrong_option("--completion", expected)
        from fairlead.surfaces.cli.completion import script

        self.console.write(script(self, shell))
        return 0

    def _value(self, flag: str, arguments: list[str]) -> str:
        if not arguments:
            raise wrong_option(flag, "needs a value")
        return arguments.pop(0)

    def _unknown_option(self, flag: str) -> NoReturn:
        known = ["--help", "--version", "--completion", *([] if self.owned else ["--app"])]
        hint = near_miss(flag, known) or " Options of an action come after its name."
        raise wrong_option(flag, f"there is no such option.{hint}")


@contextmanager
def _uncollected() -> Iterator[None]:
    """Load without garbage collection: it would look through all that is made and stays, again and again.

    What an app sets for itself meanwhile is left as it is.
    """
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        yield
    finally:
        gc.freeze()
        if gc.get_threshold()[0] == 0:
            gc.set_threshold(*before)


def _misplaced(failure: Failure, arguments: list[str]) -> str:
    """The app that a refused argument names, after the command, as other programs have it; empty if none does."""
    where = str(failure.issues[0].path[0]) if failure.issues and failure.issues[0].path else ""
    _, _, number = where.partition("argument ")
    # One that is missing has a number, too.
    refused = "".join(arguments[int(number) - 1 : int(number)]) if number.isdecimal() else where
    if refused.partition("=")[0] == "--app":
        return _after("--app", arguments) or "MODULE:NAME"
    return refused if _names_an_app(refused) else ""


def _after(flag: str, arguments: list[str]) -> str:
    """The value of an option, as it was written."""
    for name, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if name.partition("=")[0] == flag:
            return name.partition("=")[2] or value
    return ""


def _names_an_app(word: str) -> bool:
    module, _, name = word.partition(":")
    return module.endswith(".py") or all(each.isidentifier() for each in (*module.split("."), name))


def _here() -> str:
    try:
        return os.getcwd()
    except OSError as exc:
        message = f"The working directory cannot be read: {exc.strerror}. Change to one that exists."
        raise Failure(Kind.misconfigured, message, cause=exc) from exc


def _compiled(action: Action[..., Any]) -> Action[..., Any]:
    from fairlead.actions import DefinitionError

    try:
        action.binding.compile()
    except DefinitionError as exc:
        raise Failure(Kind.misconfigured, str(exc), cause=exc) from exc
    return action


class _Label:
    """Names the place of an issue: the flag that sets it, or the path where `--json` gave the input."""

    def __init__(self, fields: Callable[[], Fields], whole: bool) -> None:
        self._fields = fields
        self._whole = whole

    def __call__(self, path: Iterable[str | int]) -> str:
        steps = list(path)
        if self._whole or (len(steps) == 1 and str(steps[0]).startswith(("--", "argument "))):
            return _spell(steps)
        return self._fields().flag(steps)


def _spell(path: Iterable[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
