"""`fairlead plugin`: every verb, for people and for programs."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairlead import App
from fairlead.agents import Agent
from fairlead.plugins.finding import build
from fairlead.plugins.layout import Layout
from fairlead.plugins.preferences import Preferences
from fairlead.plugins.quarantine import Quarantine
from fairlead.surfaces.cli import Console, main, run
from fairlead.testing import ScriptModel
from plugins.installed_kit import ID, compiled_loader, install_from


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Plugin = Callable[..., Ran]


@pytest.fixture(autouse=True)
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return Layout.of()


@pytest.fixture
def plugin() -> Plugin:
    """Run `fairlead plugin ...` in process; `tty=True` puts it on a terminal."""

    def call(*argv: str, stdin: str = "", tty: bool = False, app: App | None = None) -> Ran:
        stream = Terminal if tty else io.StringIO
        console = Console(stream(stdin), stream(), stream(), {"NO_COLOR": "1"})
        words = ("plugin", *argv)
        start = (
            partial(main, words, console=console)
            if app is None
            else partial(run, app, words, console=console)
        )
        with pytest.raises(SystemExit) as exit:
            start()
        assert isinstance(exit.value.code, int)
        assert isinstance(console.stdout, io.StringIO)
        assert isinstance(console.stderr, io.StringIO)
        return Ran(exit.value.code, console.stdout.getvalue(), console.stderr.getvalue())

    return call


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return compiled_loader(tmp_path / "project", tools=["work"], description="Loads.", authors=["Ada"])


def test_a_plugin_is_created_built_installed_and_run(plugin: Plugin, tmp_path: Path) -> None:
    assert plugin("create", "greeter", "--json").json["id"] == "com.example.greeter"
    built = plugin("build", "greeter", "--archive", "--json").json
    assert (built["ok"], built["abi"]) == (True, 6)
    installed = plugin("install", built["archive"], "--yes", "--json").json
    assert (installed["plugin_id"], installed["version"]) == ("com.example.greeter", "0.1.0")
    ran = plugin("run", "com.example.greeter", "hello", '{"name": "Ada"}', "--json")
    assert ran.code == 0, ran.err
    assert ran.json["data"] == {"text": "Hello, Ada!"}


def test_people_are_told_what_comes_next(plugin: Plugin) -> None:
    made = plugin("create", "greeter", tty=True)
    assert "cd greeter" in made.out
    assert "fairlead plugin build" in made.out
    assert "plugin install" in plugin("build", "greeter", tty=True).out


def test_a_created_plugin_can_have_another_id(plugin: Plugin, tmp_path: Path) -> None:
    plugin("create", "greeter", "--id", "org.tea.greeter")
    assert '"org.tea.greeter\\"' in (tmp_path / "greeter" / "src" / "plugin.c").read_text()


def test_installing_shows_what_it_wants_and_asks(plugin: Plugin, library: Path, layout: Layout) -> None:
    ran = plugin("install", str(library), stdin="y\n", tty=True)
    assert ran.code == 0
    assert "by Ada" in ran.err
    assert "'work'" in ran.err
    assert "[y/N]" in ran.err
    assert layout.current(ID) == "1.0.0"


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "maybe\n"])
def test_anything_but_a_yes_installs_nothing(
    plugin: Plugin, library: Path, layout: Layout, answer: str
) -> None:
    ran = plugin("install", str(library), stdin=answer, tty=True)
    assert ran.code == 3
    assert layout.ids() == []


def test_without_a_person_and_without_yes_nothing_is_installed(
    plugin: Plugin, library: Path, layout: Layout
) -> None:
    ran = plugin("install", str(library), "--json")
    assert ran.code == 3
    assert "--yes" in ran.json["error"]["message"]
    assert ran.json["error"]["details"]["wants"][0]["kind"] == "tool"
    assert layout.ids() == []


def test_what_is_granted_is_shown_and_kept(plugin: Plugin, library: Path) -> None:
    ran = plugin("install", str(library), "--allow", "network,processes", stdin="y\n", tty=True)
    assert "use the network by itself" in ran.err
    assert plugin("verify", ID).json["grants"] == ["network", "processes"]


def test_control_characters_of_a_plugin_do_not_reach_the_terminal(plugin: Plugin, tmp_path: Path) -> None:
    library = compiled_loader(tmp_path / "p", description="\u001b[2Jgone", name="x\ny")
    ran = plugin("install", str(library), stdin="y\n", tty=True)
    assert "\x1b[2J" not in ran.err + ran.out
    assert "x\\ny" in ran.err
    assert "\x1b[2J" not in plugin("info", ID, tty=True).out


def test_the_list_has_states_with_reason_and_way_out(plugin: Plugin, library: Path, layout: Layout) -> None:
    assert plugin("list").json == []
    assert "No plugins" in plugin("list", tty=True).out
    install_from(library)
    layout.version_folder("test.empty", "1.0.0").mkdir(parents=True)
    empty, loader = plugin("list").json
    assert (loader["id"], loader["version"], loader["state"]) == (ID, "1.0.0", "ready")
    assert (empty["state"], empty["reason"]) == ("failed", "no_library")
    shown = plugin("list", tty=True).out
    assert "ready" in shown
    assert "test.empty: Install it again" in shown


def test_looking_does_not_use_up_the_one_try_of_a_mended_plugin(
    plugin: Plugin, library: Path, layout: Layout
) -> None:
    install_from(library)
    quarantine = Quarantine(layout.root, build())
    quarantine.put(ID, "0.9.0", "It fell.")
    assert plugin("list").json[0]["state"] == "ready"
    plugin("info", ID)
    plugin("doctor")
    assert quarantine.find(ID) is not None


def test_info_tells_all_about_one(plugin: Plugin, library: Path) -> None:
    install_from(library)
    told = plugin("info", ID).json
    assert told["authors"] == ["Ada"]
    assert told["dylib_sha256"]
    assert told["wants"][0]["text"].startswith("give agents the tool")
    shown = plugin("info", ID, tty=True).out
    assert "Loads." in shown
    assert "1.0.0" in shown


@pytest.mark.parametrize("verb", ["info", "verify", "reload", "rollback", "uninstall"])
def test_one_that_is_not_installed_is_told_with_the_near_miss(
    plugin: Plugin, library: Path, verb: str
) -> None:
    install_from(library)
    ran = plugin(verb, "test.loadr")
    assert ran.code == 4
    assert ID in ran.err


def test_verify_finds_a_file_that_was_changed(plugin: Plugin, library: Path, layout: Layout) -> None:
    install_from(library)
    assert plugin("verify", ID).json["ok"] is True
    assert "as it was installed" in plugin("verify", ID, tty=True).out
    (layout.version_folder(ID, "1.0.0") / "more.txt").write_text("x")
    ran = plugin("verify", ID, "--json")
    assert ran.code == 3
    assert "more.txt" in ran.json["error"]["message"]


def test_rollback_uses_the_version_before(plugin: Plugin, library: Path, tmp_path: Path) -> None:
    install_from(library)
    install_from(compiled_loader(tmp_path / "new", version="1.1.0"))
    assert plugin("rollback", ID).json == {"ok": True, "id": ID, "before": "1.1.0", "version": "1.0.0"}
    assert plugin("rollback", ID, "--version", "1.1.0").json["version"] == "1.1.0"
    assert plugin("rollback", ID, "--version", "7.0.0").code == 4


def test_reload_tells_running_apps(plugin: Plugin, library: Path, layout: Layout) -> None:
    from fairlead.plugins.finding import stamp, touched

    install_from(library)
    before = stamp(layout, ID), touched(layout)
    assert plugin("reload", ID).json["ok"] is True
    assert stamp(layout, ID) != before[0]
    assert touched(layout) != before[1]


def test_retry_takes_one_out_of_quarantine(plugin: Plugin, library: Path, layout: Layout) -> None:
    install_from(library)
    quarantine = Quarantine(layout.root, build())
    quarantine.put(ID, "1.0.0", "It fell.")
    assert plugin("retry", ID).json["ok"] is True
    assert quarantine.rows() == []
    ran = plugin("retry", ID)
    assert ran.code == 4
    assert "not in quarantine" in ran.err


def test_uninstall_asks_and_removes(plugin: Plugin, library: Path, layout: Layout) -> None:
    install_from(library)
    assert plugin("uninstall", ID).code == 3
    assert plugin("uninstall", ID, stdin="n\n", tty=True).code == 3
    assert layout.current(ID) == "1.0.0"
    ran = plugin("uninstall", ID, stdin="y\n", tty=True)
    assert "cannot be undone" in ran.err
    assert layout.ids() == []


def test_uninstall_forgets_what_the_app_s_store_has_for_it(plugin: Plugin, library: Path) -> None:
    import asyncio

    from fairlead.plugins.config import Config
    from fairlead.plugins.services import Shared

    install_from(library)
    app = App("demo")
    shared = Shared.of(app)
    config = Config(ID, app.store, shared.secrets, shared.warnings)
    agent = "A1111111-1111-4111-8111-111111111111"
    asyncio.run(config.save(agent, {"token": "x"}))
    assert plugin("uninstall", ID, "--yes", app=app).code == 0
    assert asyncio.run(config.values(agent)) == {}


def test_forget_deletes_what_plugins_keep_for_an_agent_that_is_gone(plugin: Plugin) -> None:
    import asyncio

    from fairlead.plugins.config import Config
    from fairlead.plugins.identity import agent_uuid
    from fairlead.plugins.services import Shared

    app = App("demo")
    app.add(Agent("ann", model=ScriptModel(["hello"])))
    shared = Shared.of(app)
    config = Config(ID, app.store, shared.secrets, shared.warnings)
    ann, bob = (agent_uuid("demo", name) for name in ("ann", "bob"))
    for agent in (ann, bob):
        asyncio.run(config.save(agent, {"token": "x", "url": "y"}))
    assert "--unset KEY" in plugin("forget", "ann", "--yes", app=app).err
    assert plugin("forget", "bob", app=app).code == 3
    assert len(asyncio.run(config.values(bob))) == 2
    assert plugin("forget", "bob", "--yes", app=app).json["forgotten"] == 2
    assert asyncio.run(config.values(bob)) == {}
    assert len(asyncio.run(config.values(ann))) == 2


def test_instructions_are_told_set_and_reset(plugin: Plugin, library: Path, layout: Layout) -> None:
    install_from(library)
    app = App("demo")
    app.add(Agent("ann", model=ScriptModel(["hello"])))
    assert plugin("instructions", ID, app=app).json["own"] is False
    told = plugin("instructions", ID, "Be kind.", "--agent", "ann", app=app).json
    assert (told["instructions"], told["own"]) == ("Be kind.", True)
    assert Preferences(layout.home(ID)).instructions("ann") == "Be kind."
    assert plugin("instructions", ID, "x", "--reset", app=app).code == 2
    assert plugin("instructions", ID, "--reset", app=app).json["own"] is False
    assert "no agent 'an'. Did you mean 'ann'?" in plugin("instructions", ID, "--agent", "an", app=app).err


def test_policy_is_kept_for_a_tool_that_exists(plugin: Plugin, library: Path, layout: Layout) -> None:
    install_from(library)
    assert plugin("policy", ID, "work", "deny").json["policy"] == "deny"
    assert Preferences(layout.home(ID)).policy("work") == "deny"
    assert plugin("policy", ID, "work", "default").code == 0
    assert Preferences(layout.home(ID)).policy("work") is None
    assert plugin("policy", ID, "wrok", "deny").code == 4
    assert plugin("policy", ID, "work", "always").code == 2


def test_extract_prints_the_manifest_of_a_library_a_folder_or_a_file(
    plugin: Plugin, library: Path, tmp_path: Path
) -> None:
    told = plugin("extract", str(library)).json
    assert told["plugin_id"] == ID
    assert plugin("extract", str(library.parent)).json == told
    (tmp_path / "m.json").write_text(json.dumps(told))
    assert plugin("extract", str(tmp_path / "m.json")).json == told
    (tmp_path / "m.json").write_text('{"plugin_id": 1}')
    ran = plugin("extract", str(tmp_path / "m.json"), "--json")
    assert ran.code == 2
    assert "capabilities" in ran.json["error"]["message"]


def test_the_header_is_printed_and_its_folder_told(plugin: Plugin) -> None:
    assert "osr_host_api" in plugin("header").out
    folder = Path(plugin("header", "--path").out.strip())
    assert (folder / "osaurus_plugin.h").is_file()
    assert plugin("header", "--json").json["include"] == str(folder)


def test_run_takes_a_path_and_an_app_s_own_plugin(plugin: Plugin, library: Path) -> None:
    assert plugin("run", str(library), "work").json["ok"] is True
    app = App("demo")
    app.add_plugin(library, namespace="toy")
    assert plugin("run", ID, "work", app=app).json["ok"] is True


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["nowhere", "work"], 4, "fairlead plugin install"),
        ([ID, "wrok"], 4, "Did you mean"),
        ([ID, "work", "{"], 2, "JSON"),
        ([ID], 2, "name of a tool"),
    ],
)
def test_run_says_what_is_missing(
    plugin: Plugin, library: Path, words: list[str], code: int, told: str
) -> None:
    install_from(library)
    ran = plugin("run", *words)
    assert (ran.code, told in ran.err) == (code, True), ran.err


def test_run_of_one_that_is_not_loaded_says_why_and_the_way_out(
    plugin: Plugin, library: Path, layout: Layout
) -> None:
    install_from(library)
    Quarantine(layout.root, build()).put(ID, "1.0.0", "It fell.")
    ran = plugin("run", ID, "work")
    assert ran.code != 0
    assert "It fell." in ran.err
    assert "fairlead plugin retry" in ran.err


def test_run_without_the_packages_for_it_names_the_extra(
    plugin: Plugin, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    ran = plugin("run", str(library), "work")
    assert (ran.code, len(ran.err.splitlines())) == (1, 1), ran.err
    assert "pip install 'fairlead[plugins]'" in ran.err


def test_doctor_tells_each_thing_once_and_how_it_is_mended(
    plugin: Plugin, library: Path, layout: Layout
) -> None:
    install_from(library)
    well = plugin("doctor")
    assert well.code == 0
    assert [each["code"] for each in well.json["checks"] if each.get("plugin")] == ["PLUGIN_WELL"]
    os.unlink(layout.home(ID) / "current")
    ill = plugin("doctor", ID)
    assert ill.code == 1
    assert [each["code"] for each in ill.json["checks"]] == ["PLUGIN_LINK_BROKEN"]
    assert "to look at" in plugin("doctor", tty=True).out


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["instal"], "install"),
        (["install"], "a folder"),
        (["list", "--jsn"], "--json"),
        (["install", "nowhere.zip"], "no file or folder"),
        (["install", "x", "--allow", "root"], "network"),
        (["build", "nowhere"], "fairlead plugin create"),
        (["install", "x"], "Build it first: fairlead plugin build"),
        (["extract", "nowhere.so"], "no file or folder"),
        (["doctor", "nobody"], "fairlead plugin list"),
    ],
)
def test_a_mistake_is_told_without_a_traceback(
    plugin: Plugin, tmp_path: Path, argv: list[str], told: str
) -> None:
    (tmp_path / "x").mkdir()
    ran = plugin(*argv)
    assert ran.code in (2, 4)
    assert told in ran.err
    assert "Traceback" not in ran.err


def test_the_page_lists_every_verb(plugin: Plugin) -> None:
    from fairlead.surfaces.cli import plugin as module

    page = plugin("--help").out
    assert page == plugin().out
    for verb in module._VERBS:
        assert f"  {verb} " in page or f"  {verb}\n" in page, verb


def test_another_folder_can_be_named(plugin: Plugin, library: Path, tmp_path: Path) -> None:
    plugin("install", str(library), "--yes", "--data", str(tmp_path / "other"))
    assert (tmp_path / "other" / "plugins" / ID / "current").is_symlink()


def test_the_command_itself_starts_without_what_plugins_need() -> None:
    program = (
        "import sys; from fairlead.surfaces.cli import main\n"
        "try: main(['plugin', '--help'])\n"
        "except SystemExit: pass\n"
        "mine = [name for name in sys.modules if name.startswith('fairlead.plugins') or name == 'ctypes']\n"
        "print(mine, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"
