"""`fairlead plugin`: write, build, install and look after native plugins."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead.failures import Failure, Kind
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import BOLD, CYAN, DIM, YELLOW, harmless, harmless_line
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.cli.spans import choose_store

if TYPE_CHECKING:
    from fairlead.plugins.installing import Draft
    from fairlead.plugins.layout import Layout
    from fairlead.surfaces.cli.program import Program


class Desk(NamedTuple):
    """Where a verb does its work."""

    program: Program
    options: Options

    @property
    def layout(self) -> Layout:
        from fairlead.plugins.layout import Layout

        return Layout.of()

    @property
    def json(self) -> bool:
        return "--json" in self.options.on

    def word(self, number: int, what: str) -> str:
        words = self.options.words
        if len(words) <= number or not words[number].strip():
            raise wrong_option(f"argument {number + 2}", f"expected {what}.")
        return words[number]

    def path(self, number: int, what: str) -> Path:
        return _path(self.word(number, what))

    def tell(self, told: Any, *lines: str, code: int = 0) -> int:
        """The result: as JSON for programs, in lines for people."""
        if self.json or not self.program.console.out_tty:
            self.program.write_json(told)
        else:
            self.program.console.write("\n".join(lines) + "\n")
        return code

    def table(self, rows: list[dict[str, Any]], nothing: str) -> str:
        from fairlead.surfaces.cli.render import table

        return table(rows, self.program.console) if rows else nothing

    def agreed(self, question: str) -> bool:
        """Whether the person says yes: on the command line, or now."""
        if "--yes" in self.options.on:
            return True
        console = self.program.console
        if not console.interactive:
            return False
        console.say(f"{question} [y/N] ", end="")
        return console.stdin.readline().strip().lower() in ("y", "yes")


class Verb(NamedTuple):
    """One word after `plugin`: what it does, and what it takes."""

    run: Callable[[Desk], int]
    words: int = 0
    switches: tuple[str, ...] = ()
    valued: tuple[str, ...] = ()


def _plugin(program: Program, arguments: list[str]) -> int:
    if not arguments:
        return program.help_for("plugin")
    name, *rest = arguments
    verb = _VERBS.get(name)
    if verb is None:
        expected = f"expected one of {', '.join(_VERBS)}."
        raise wrong_option("argument 1", f"{expected}{near_miss(name[:20], _VERBS)}")
    options = Options(rest, ("--json", *verb.switches), ("--data", *verb.valued), verb.words)
    choose_store(options.values.get("--data"))
    try:
        return verb.run(Desk(program, options))
    except Failure as failure:
        way_out = failure.details.get("wayOut")
        if way_out is None or way_out in failure.message:
            raise
        raise Failure(failure.kind, f"{failure.message} {way_out}", details=failure.details) from failure


# --- writing one ---


def _create(desk: Desk) -> int:
    from importlib import import_module

    folder = desk.path(0, "a name for the plugin")
    # The room of projects stands above this one, so it is found by name.
    create: Callable[..., dict[str, Any]] = import_module("fairlead.project.plugins").create_plugin
    switches = desk.options.on
    made = create(
        folder,
        id=desk.options.values.get("--id"),
        force="--force" in switches,
        python="--python" in switches,
    )
    steps = [f"  {step}" for step in (f"cd {desk.options.words[0]}", *made["nextSteps"])]
    lines = [f"Made the plugin {made['id']} in {made['cwd']}.", "Next:", *steps]
    return desk.tell(made, *map(harmless_line, lines))


def _build(desk: Desk) -> int:
    from fairlead.plugins.building import build_plugin

    folder = desk.path(0, "the plugin's folder") if desk.options.words else Path()
    out = desk.options.values.get("--out")
    built = build_plugin(
        folder,
        out=None if out is None else _path(out),
        archive="--archive" in desk.options.on,
        debug="--debug" in desk.options.on,
    )
    told = built.describe()
    if built.warnings and not desk.json:
        desk.program.console.say(harmless(built.warnings))
    lines = [f"Built {told['id']} {told['version'] or ''}".rstrip() + f" in {told['folder']}."]
    lines += [f"Packed it: {told['archive']}"] if built.archive else []
    lines.append(f"Install it: {desk.program.spelled} plugin install {told['folder']}")
    return desk.tell(told, *map(harmless_line, lines))


def _header(desk: Desk) -> int:
    from fairlead.plugins.building import HEADER, INCLUDE

    if desk.json:
        return desk.program.write_json(
            {"path": str(HEADER), "include": str(INCLUDE), "text": HEADER.read_text()}
        )
    desk.program.console.write(f"{INCLUDE}\n" if "--path" in desk.options.on else HEADER.read_text())
    return 0


def _extract(desk: Desk) -> int:
    from fairlead import _json
    from fairlead.plugins.extracting import extract_now
    from fairlead.plugins.finding import check, chosen_library, extracted, fit

    source = desk.path(0, "a library, a plugin's folder, or a manifest")
    if not source.exists():
        raise Failure(Kind.not_found, f"There is no file or folder {str(source)!r}.")
    if source.suffix == ".json":
        text = source.read_text("utf-8", "replace")
    else:
        library = chosen_library(source) if source.is_dir() else fit(source)
        text = extract_now(library, source if source.is_dir() else None).manifest
    manifest = extracted(text)
    check(manifest, manifest.plugin_id)
    return desk.program.write_json(_json.loads(text))


def _run(desk: Desk) -> int:
    from fairlead import _json
    from fairlead.runtime import App

    source, tool = desk.word(0, "a plugin: its id, folder or library"), desk.word(1, "the name of a tool")
    given = desk.options.words[2] if len(desk.options.words) > 2 else "{}"
    try:
        input = _json.loads(given)
    except ValueError:
        raise wrong_option("argument 4", "expected the tool's arguments as JSON.") from None
    app = desk.program.find_app() or App("fairlead")
    plugin = app.plugins.get(source)
    if plugin is None:
        plugin = _added(app, source)
    name = tool if plugin.namespace is None else f"{plugin.namespace}_{tool}"
    known = [each.id for each in plugin.manifest.tools]
    if tool not in known:
        hint = near_miss(tool, known) or f" It has {', '.join(known) or 'none'}."
        raise Failure(Kind.unknown_action, f"The plugin {plugin.id!r} has no tool {tool!r}.{hint}")
    if not desk.program.console.out_tty:
        desk.program.form = "json"
    user, auth = desk.program.identity
    try:
        result = app.invoke_sync(name, input, surface="cli", confirm=True, user=user, auth=auth)
    finally:
        app.close()
    return desk.program.outcome("plugin").show(result.to_dict())


def _added(app: Any, source: str) -> Any:
    from fairlead.actions import DefinitionError
    from fairlead.plugins.plugin import Options as Wanted

    try:
        plugin = app.plugins.add(source, Wanted())
    except DefinitionError as exc:
        raise Failure(Kind.not_found, str(exc)) from None
    except ModuleNotFoundError as exc:
        words = "To run plugins, packages are needed that are not installed: pip install 'fairlead[plugins]'"
        raise Failure(Kind.misconfigured, words, cause=exc) from exc
    if plugin is None:
        failed = next(reversed(app.plugins.failed.values()))
        raise Failure(Kind.unavailable, f"{failed.message} {failed.way_out}", details=failed.describe())
    return plugin


def _test(desk: Desk) -> int:
    from importlib import import_module

    report = import_module("fairlead.plugins.conformance").check(
        desk.path(0, "a library or a plugin's folder")
    )
    return desk.tell(report.describe(), *map(harmless_line, report.lines()), code=0 if report.ok else 1)


# --- having one ---


def _install(desk: Desk) -> int:
    from fairlead.plugins.installing import install, prepared

    source = desk.path(0, "a folder, a library (.so) or an archive (.zip, .tar.gz)")
    grants = [each.strip() for each in desk.options.values.get("--allow", "").split(",") if each.strip()]
    with prepared(source, desk.layout, grants=grants, sha256=desk.options.values.get("--sha256")) as draft:
        if not desk.json or desk.program.console.interactive:
            _show_wants(desk, draft)
        if not desk.agreed(f"Install {draft.id} {draft.version}?"):
            raise Failure(
                Kind.refused_by_user,
                f"The plugin {draft.id!r} was not installed: nobody agreed to what it wants. To agree, add --yes.",
                details={"wants": [want.describe() for want in draft.wants]},
            )
        before = draft.replaces
        receipt = install(draft)
    told = {**receipt.describe(), "ok": True, "replaced": before, "grants": sorted(draft.grants)}
    del told["files"]
    instead = f", in place of {before}" if before not in (None, receipt.version) else ""
    return desk.tell(
        told,
        f"{receipt.plugin_id} {receipt.version} is installed{instead}.",
        "Apps that call app.add_plugins() have it; those that run take it in by themselves.",
    )


def _show_wants(desk: Desk, draft: Draft) -> None:
    say, paint = desk.program.console.say, desk.program.console.err
    manifest = draft.manifest
    by = f" by {', '.join(manifest.authors)}" if manifest.authors else ""
    say(f"{paint(harmless_line(manifest.name or draft.id), BOLD)} {draft.version}{harmless_line(by)}")
    say(paint(harmless_line(f"{draft.id}, from {draft.source}"), DIM))
    if manifest.description:
        say(harmless_line(manifest.description))
    say("It would be able to:")
    for want in draft.wants:
        say(f"  {paint('!', YELLOW) if want.risky else '-'} {harmless_line(want.text)}")


def _list(desk: Desk) -> int:
    from fairlead.plugins.diagnosis import listed

    found = listed(desk.layout)
    rows = [
        {
            "plugin": each["id"],
            "version": each["version"],
            "state": each["state"],
            "about": each.get("message") or each.get("description") or "",
        }
        for each in found
    ]
    nothing = f"No plugins are installed in {desk.layout.root}."
    lines = [desk.table(rows, nothing)]
    lines += [harmless_line(f"{each['id']}: {each['wayOut']}") for each in found if each.get("wayOut")]
    return desk.tell(found, *lines)


def _info(desk: Desk) -> int:
    from fairlead.plugins.diagnosis import listed
    from fairlead.plugins.installing import installed_version
    from fairlead.plugins.receipts import read_receipt

    layout, id = desk.layout, desk.word(0, "a plugin's id")
    version = installed_version(layout, id)
    folder = layout.version_folder(id, version)
    told = next(each for each in listed(layout) if each["id"] == id)
    with contextlib.suppress(Failure):
        receipt = read_receipt(folder)
        told |= {
            "library": receipt.library,
            "dylib_sha256": receipt.dylib_sha256,
            "installed_at": receipt.installed_at,
            "source": receipt.source,
        }
    told |= {"folder": str(folder), **_about(folder, told.get("grants", ()))}
    paint = desk.program.console.out
    lines = [f"{paint(id, BOLD)} {version}, {told['state']}"]
    lines += [harmless_line(told[key]) for key in ("description", "message", "wayOut") if told.get(key)]
    facts = ("folder", "source", "installed_at", "dylib_sha256")
    lines += [f"  {paint(key, CYAN)}: {harmless_line(told[key])}" for key in facts if told.get(key)]
    lines += [f"  {paint('versions', CYAN)}: {', '.join(told['versions'])}"]
    lines += [
        f"  {'!' if want['risky'] else '-'} {harmless_line(want['text'])}" for want in told.get("wants", ())
    ]
    return desk.tell(told, *lines)


def _about(folder: Path, grants: Any) -> dict[str, Any]:
    from fairlead.plugins.consent import wants
    from fairlead.plugins.finding import read_manifest
    from fairlead.plugins.layout import skills

    try:
        manifest = read_manifest(folder)
    except Failure:
        return {}
    return {
        "authors": list(manifest.authors),
        "license": manifest.license,
        "secrets": [{"id": each.id, "required": each.required} for each in manifest.secrets],
        "skills": [path.name for path in skills(folder)],
        "wants": [want.describe() for want in wants(manifest, grants)],
    }


def _verify(desk: Desk) -> int:
    from fairlead.plugins.consent import consented
    from fairlead.plugins.installing import installed_version
    from fairlead.plugins.receipts import Seal, verify

    layout, id = desk.layout, desk.word(0, "a plugin's id")
    version = desk.options.values.get("--version") or installed_version(layout, id)
    folder, seal = layout.version_folder(id, version), Seal(layout.root)
    receipt = verify(folder, id, version, seal)
    grants = sorted(consented(folder, receipt, seal))
    told = {"ok": True, "id": id, "version": version, "dylib_sha256": receipt.dylib_sha256, "grants": grants}
    return desk.tell(
        told,
        f"{id} {version} is as it was installed: {len(receipt.files)} files, sealed by this host, and agreed to.",
        f"SHA-256 of {receipt.library}: {receipt.dylib_sha256}",
    )


def _reload(desk: Desk) -> int:
    from fairlead.plugins.finding import announce, build, find
    from fairlead.plugins.installing import installed_version
    from fairlead.plugins.quarantine import Quarantine
    from fairlead.plugins.receipts import Seal

    layout, id = desk.layout, desk.word(0, "a plugin's id")
    version = installed_version(layout, id)
    find(layout, id, Quarantine(layout.root, build()), Seal(layout.root))
    announce(layout, id)
    return desk.tell({"ok": True, "id": id, "version": version}, f"Running apps load {id} {version} again.")


def _rollback(desk: Desk) -> int:
    from fairlead.plugins.installing import roll_back

    id = desk.word(0, "a plugin's id")
    before, now = roll_back(desk.layout, id, desk.options.values.get("--version"))
    return desk.tell(
        {"ok": True, "id": id, "before": before, "version": now}, f"{id} is {now} again; it was {before}."
    )


def _uninstall(desk: Desk) -> int:
    from fairlead.plugins.installing import installed_version, uninstall

    layout, id = desk.layout, desk.word(0, "a plugin's id")
    installed_version(layout, id)
    version = desk.options.values.get("--version")
    keep = "--keep-data" in desk.options.on
    data = "" if keep or version else " and all that it keeps"
    what = f"{id} {version}" if version else id
    if not desk.agreed(f"Remove {what}{data}? This cannot be undone."):
        raise Failure(Kind.refused_by_user, f"{what!r} was not removed: nobody agreed. To agree, add --yes.")
    gone = uninstall(layout, id, version=version, keep_data=keep)
    if not keep and not layout.versions(id):
        _forget(desk, id)
    return desk.tell({"ok": True, "id": id, "removed": gone}, f"{id} {', '.join(gone)} is removed.")


def _forget(desk: Desk, id: str) -> None:
    """Its settings, its chats and the key of its database are in the store of the app, if there is one."""
    import asyncio

    from fairlead.plugins.installing import forget

    with contextlib.suppress(Failure):
        app = desk.program.find_app(whole=False)
        if app is not None and app.has_store:
            asyncio.run(forget(app, id))


def _doctor(desk: Desk) -> int:
    from fairlead.plugins.diagnosis import diagnose
    from fairlead.plugins.installing import installed_version
    from fairlead.plugins.manifest import is_id

    id = desk.options.words[0] if desk.options.words else None
    if id is not None and not (is_id(id) and desk.layout.holds(id)):
        installed_version(desk.layout, id)
    found = diagnose(desk.layout, id)
    warnings = [each for each in found if each.level == "warning"]
    paint = desk.program.console.out
    lines = []
    for each in found:
        mark = paint("!", YELLOW) if each.level == "warning" else paint("-", CYAN)
        lines.append(f"{mark} {paint(each.code, BOLD)}: {harmless_line(each.message)}")
        lines += [f"    {harmless_line(each.way_out)}"] if each.way_out else []
    lines.append(f"{len(warnings)} to look at." if warnings else "All is well.")
    told = {"ok": not warnings, "checks": [each.describe() for each in found]}
    return desk.tell(told, *lines, code=1 if warnings else 0)


def _retry(desk: Desk) -> int:
    from fairlead.plugins.finding import announce, build
    from fairlead.plugins.manifest import is_id
    from fairlead.plugins.quarantine import Quarantine

    layout, id = desk.layout, desk.word(0, "a plugin's id")
    quarantine = Quarantine(layout.root, build())
    quarantine.promote(lambda each: layout.current(each) if is_id(each) else None)
    if not quarantine.remove(id):
        rows = [row.id for row in quarantine.rows()]
        held = f" In quarantine: {', '.join(rows)}." if rows else " Nothing is."
        raise Failure(Kind.not_found, f"The plugin {id[:80]!r} is not in quarantine.{held}")
    if is_id(id) and layout.holds(id):
        announce(layout, id)
    return desk.tell({"ok": True, "id": id}, f"{id} gets another try at its next call.")


def _policy(desk: Desk) -> int:
    from fairlead.plugins.installing import installed_version
    from fairlead.plugins.preferences import Preferences

    layout, id = desk.layout, desk.word(0, "a plugin's id")
    folder = layout.version_folder(id, installed_version(layout, id))
    tool, policy = desk.word(1, "the name of a tool"), desk.word(2, "auto, ask, deny or default")
    from fairlead.plugins.finding import read_manifest

    known = [each.id for each in read_manifest(folder).tools]
    if tool not in known:
        raise Failure(Kind.not_found, f"The plugin {id!r} has no tool {tool[:80]!r}.{near_miss(tool, known)}")
    Preferences(layout.home(id)).set_policy(tool, None if policy == "default" else policy)
    return desk.tell({"ok": True, "id": id, "tool": tool, "policy": policy}, f"{tool} of {id}: {policy}.")


def _config(desk: Desk) -> int:
    from fairlead.surfaces.cli.plugin_config import config

    return config(desk)


def _instructions(desk: Desk) -> int:
    from fairlead.surfaces.cli.plugin_config import instructions

    return instructions(desk)


def _forget_agent(desk: Desk) -> int:
    from fairlead.surfaces.cli.plugin_config import forget

    return forget(desk)


def _path(text: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(text)))


_VERBS: Final = {
    "create": Verb(_create, 1, ("--force", "--python"), ("--id",)),
    "build": Verb(_build, 1, ("--archive", "--debug"), ("--out",)),
    "install": Verb(_install, 1, ("--yes",), ("--allow", "--sha256")),
    "list": Verb(_list),
    "info": Verb(_info, 1),
    "verify": Verb(_verify, 1, (), ("--version",)),
    "reload": Verb(_reload, 1),
    "rollback": Verb(_rollback, 1, (), ("--version",)),
    "uninstall": Verb(_uninstall, 1, ("--yes", "--keep-data"), ("--version",)),
    "doctor": Verb(_doctor, 1),
    "retry": Verb(_retry, 1),
    "policy": Verb(_policy, 3),
    "config": Verb(_config, 1, (), ("--agent", "--set", "--unset")),
    "instructions": Verb(_instructions, 2, ("--reset",), ("--agent",)),
    "forget": Verb(_forget_agent, 1, ("--yes",)),
    "run": Verb(_run, 3),
    "test": Verb(_test, 1),
    "extract": Verb(_extract, 1),
    "header": Verb(_header, 0, ("--path",)),
}

PLUGIN = Command(
    "plugin VERB [OPTIONS]",
    (
        ("create NAME", "Make a plugin in C that builds and runs as it is. --python, --id ID, --force"),
        ("build [DIR]", "Compile a plugin and check it. --archive packs it, --debug, --out DIR"),
        ("test LIB", "Try a library or a built folder against a host that watches it."),
        ("run PLUGIN TOOL [JSON]", "Call a tool of an installed plugin, a folder or a library."),
        (
            "install PATH",
            "Install a folder, a library or an archive. It shows what the plugin wants, and asks. --yes agrees, "
            "--allow network,processes grants more, --sha256 HEX is what the file must be",
        ),
        ("list", "List what is installed: a table on a terminal, else JSON."),
        ("info ID", "Tell all about an installed plugin."),
        ("verify ID", "Check that it is as it was installed, and agreed to. --version VERSION"),
        ("reload ID", "Have running apps load it again."),
        ("rollback ID", "Use the version before, or --version VERSION."),
        ("uninstall ID", "Remove it and what it keeps. --keep-data, --version VERSION, --yes"),
        ("doctor [ID]", "Look closely at plugins and at what this machine offers them."),
        ("retry ID", "Take a plugin out of quarantine, where those go that bring their process down."),
        ("policy ID TOOL POLICY", "Let a tool be used by agents: auto, ask, deny, or default."),
        (
            "config ID",
            "List what an agent has set for a plugin. --agent NAME, --set KEY asks for the value or reads it from "
            "stdin, --unset KEY",
        ),
        (
            "instructions ID [TEXT]",
            "Tell models TEXT for an agent in place of the plugin's own words. --agent NAME, --reset",
        ),
        ("forget AGENT", "Forget all that plugins keep for an agent that the app has no more. --yes"),
        ("extract LIB", "Print the manifest of a library, or check one in a file."),
        ("header", "Print osaurus_plugin.h; --path prints the folder it is in."),
        ("--data DIR", "The folder that plugins are kept in, as `plugins`. [env: FAIRLEAD_DATA]"),
        ("--json", "Print JSON; so it is where the output is not a terminal."),
    ),
    _plugin,
    (
        "plugin create greeter",
        "plugin build greeter --archive",
        "plugin install greeter/build/com.example.greeter",
        'plugin run com.example.greeter hello \'{"name": "Ada"}\'',
    ),
)
