"""Loading, through the app's own doors: what is loaded, what is not and why, and how a plugin ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.actions import DefinitionError
from fairlead.failures import Failure
from fairlead.plugins.finding import announce, build
from fairlead.plugins.inference import Inference
from fairlead.plugins.installing import roll_back
from fairlead.plugins.layout import Layout
from fairlead.plugins.library import this_machine
from fairlead.plugins.plugin import CRASHES
from fairlead.plugins.quarantine import Quarantine
from plugins.installed_kit import ID, compiled_loader, install_from, macro, manifest, own_helpers, said
from plugins.native_kit import SOURCES, compile_c


@pytest.fixture(autouse=True)
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    return Layout.of()


@pytest.fixture
def quarantine(layout: Layout) -> Quarantine:
    return Quarantine(layout.root, build())


def made(folder: Path, *options: str, **more: Any) -> Path:
    return compiled_loader(folder / "project", *options, **more).parent


async def refusal(app: App, tool: str, input: dict[str, Any] | None = None) -> str:
    result = await app.invoke(tool, input or {})
    assert result.failure is not None
    return result.failure.message


# --- what is loaded ---


async def test_an_installed_plugin_gives_its_tools_to_the_app_and_starts_at_the_first_call(
    tmp_path: Path,
) -> None:
    install_from(made(tmp_path, tools=["work"]))
    app = App("demo")
    [plugin] = app.add_plugins()
    assert (plugin.id, plugin.state, plugin.abi) == (ID, "ready", None)
    async with app:
        result = await app.invoke("work", {})
        assert result.ok, result.failure
        assert (plugin.state, plugin.abi) == ("running", 6)


async def test_one_plugin_is_added_by_its_id(tmp_path: Path) -> None:
    install_from(made(tmp_path, tools=["work"]))
    app = App("demo")
    assert app.add_plugin(ID) is app.plugins.get(ID)
    async with app:
        assert (await app.invoke("work", {})).ok


async def test_a_folder_or_a_library_is_added_by_its_path_without_being_installed(tmp_path: Path) -> None:
    folder = made(tmp_path, tools=["work"])
    for source in (folder, folder / "loader.so"):
        app = App("demo")
        assert app.add_plugin(source) is not None
        async with app:
            assert (await app.invoke("work", {})).ok


async def test_the_in_process_form_gives_the_same(tmp_path: Path) -> None:
    app = App("demo")
    before = own_helpers()
    plugin = app.add_plugin(made(tmp_path, tools=["work"]), in_process=True)
    assert plugin is not None
    async with app:
        assert (await app.invoke("work", {})).ok
        assert own_helpers() == before
    assert (await said(app))[-1] == "destroy"


def test_a_plugin_that_does_not_exist_is_the_developer_s_mistake() -> None:
    with pytest.raises(DefinitionError, match="fairlead plugin install"):
        App("demo").add_plugin("com.example.nowhere")


@pytest.mark.parametrize("options", [{"allow": ["everything"]}, {"allow": "network"}, {"namespace": "A b"}])
def test_options_that_make_no_sense_are_the_developer_s_mistake(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(DefinitionError):
        App("demo").add_plugin(tmp_path, **options)


def test_a_plugin_is_added_once(tmp_path: Path) -> None:
    app = App("demo")
    app.add_plugin(made(tmp_path))
    with pytest.raises(DefinitionError, match="already"):
        app.add_plugin(tmp_path / "project")


def test_importing_an_app_with_plugins_runs_none_of_them(tmp_path: Path) -> None:
    install_from(made(tmp_path, tools=["work"]))
    before = own_helpers()
    app = App("demo")
    app.add_plugins()
    assert app.get("work") is not None
    assert own_helpers() == before


# --- names ---


def test_a_tool_never_takes_the_place_of_another_action(tmp_path: Path) -> None:
    app = App("demo")

    @app.action
    def work() -> str:
        """Work."""
        return "ours"

    assert app.add_plugin(made(tmp_path, tools=["work"])) is None
    failed = app.plugins.failed[ID]
    assert failed.reason == "name_taken"
    assert "namespace" in failed.way_out
    assert app.get("work") is not None
    assert app.invoke_sync("work").data == "ours"
    app.close()


async def test_a_namespace_goes_before_the_names_of_tools(tmp_path: Path) -> None:
    app = App("demo")

    @app.action
    def work() -> str:
        """Work."""
        return "ours"

    assert app.add_plugin(made(tmp_path, tools=["work"]), namespace="toy") is not None
    async with app:
        assert (await app.invoke("toy_work", {})).ok


# --- what is not loaded, and why ---


def failed_reason(app: App) -> str:
    return app.plugins.failed[ID].reason


def test_every_failure_has_a_reason_a_sentence_and_a_way_out(layout: Layout, tmp_path: Path) -> None:
    install_from(made(tmp_path))
    (layout.version_folder(ID, "1.0.0") / "loader.so").write_bytes(b"changed")
    app = App("demo")
    assert app.add_plugins() == []
    [told] = app.plugins.describe()
    assert told["state"] == "failed"
    assert (told["id"], told["version"], told["reason"]) == (ID, "1.0.0", "receipt_invalid")
    assert told["message"]
    assert told["wayOut"]


def test_a_library_that_was_changed_is_not_loaded(layout: Layout, tmp_path: Path) -> None:
    install_from(made(tmp_path))
    with open(layout.version_folder(ID, "1.0.0") / "loader.so", "ab") as file:
        file.write(b"x")
    app = App("demo")
    app.add_plugins()
    assert failed_reason(app) == "receipt_invalid"


def test_a_plugin_without_consent_is_not_loaded(layout: Layout, tmp_path: Path) -> None:
    install_from(made(tmp_path))
    (layout.version_folder(ID, "1.0.0") / ".user_consent").unlink()
    app = App("demo")
    app.add_plugins()
    assert failed_reason(app) == "consent_required"
    assert app.plugins.failed[ID].manifest is not None


def test_a_folder_that_was_put_there_by_hand_is_not_loaded(layout: Layout, tmp_path: Path) -> None:
    folder = layout.version_folder(ID, "1.0.0")
    shutil.copytree(made(tmp_path), folder)
    app = App("demo")
    app.add_plugins()
    assert failed_reason(app) == "receipt_invalid"


def test_a_version_without_a_library_is_a_failure(layout: Layout) -> None:
    layout.version_folder(ID, "1.0.0").mkdir(parents=True)
    app = App("demo")
    app.add_plugins()
    assert failed_reason(app) == "no_library"


def test_a_plugin_in_quarantine_is_not_loaded_and_carries_what_it_said_of_itself(
    layout: Layout, tmp_path: Path, quarantine: Quarantine
) -> None:
    install_from(made(tmp_path, tools=["work"]))
    quarantine.put(ID, "1.0.0", "It fell.")
    app = App("demo")
    app.add_plugins()
    failed = app.plugins.failed[ID]
    assert (failed.reason, failed.manifest is not None) == ("quarantined", True)
    assert "fairlead plugin retry" in failed.way_out


def test_a_stale_mark_is_promoted_by_the_next_scan(
    layout: Layout, tmp_path: Path, quarantine: Quarantine
) -> None:
    install_from(made(tmp_path))
    (layout.root / ".currently_loading").write_text(f"{ID}\n")
    app = App("demo")
    app.add_plugins()
    assert failed_reason(app) == "quarantined"
    row = quarantine.find(ID)
    assert row is not None
    assert (row.version, row.build) == ("1.0.0", build())


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"plugin_id": "test.other"}, "id_mismatch"),
        ({"min_osaurus": "99.0.0"}, "incompatible"),
        (
            {
                "capabilities": {
                    "routes": [{"id": "r", "path": "/ui/x", "methods": ["GET"], "auth": "none"}],
                    "web": {"static_dir": "web", "entry": "i", "mount": "/ui", "auth": "owner"},
                }
            },
            "route_overlap",
        ),
        ({"capabilities": {"tools": [{"id": "a"}]}}, "manifest_invalid"),
    ],
)
def test_a_manifest_that_breaks_a_rule_is_not_loaded(
    layout: Layout, tmp_path: Path, more: dict[str, Any], reason: str
) -> None:
    """As another host, or an older one of ours, may have installed it."""
    from fairlead.plugins import consent, receipts

    folder = layout.version_folder(ID, "1.0.0")
    shutil.copytree(made(tmp_path), folder)
    (folder / "manifest.json").write_text(json.dumps(manifest() | more))
    seal, files = receipts.Seal(layout.root), receipts.digests(folder)
    receipt = receipts.Receipt(ID, "1.0.0", "loader.so", files["loader.so"], files, "now", "here")
    receipts.write_receipt(folder, receipt, seal)
    consent.give_consent(folder, receipt, [], seal, "now")
    app = App("demo")
    app.add_plugins()
    assert failed_reason(app) == reason


async def test_one_that_fails_stops_no_other(layout: Layout, tmp_path: Path) -> None:
    install_from(made(tmp_path, tools=["work"]))
    layout.version_folder("test.aaa", "1.0.0").mkdir(parents=True)
    layout.version_folder("test.zzz", "1.0.0").mkdir(parents=True)
    app = App("demo")
    assert [plugin.id for plugin in app.add_plugins()] == [ID]
    assert sorted(app.plugins.failed) == ["test.aaa", "test.zzz"]
    async with app:
        assert (await app.invoke("work", {})).ok


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "not a library"), (b"\x7fELF", "damaged"), (b"#!/bin/sh\n", "not a library")]
)
def test_a_file_that_is_no_library_is_told_so(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    app = App("demo")
    assert app.add_plugin(path) is None
    failed = app.plugins.failed["x"]
    assert failed.reason == "bad_library"
    assert words in failed.message


def headed(sections: list[tuple[int, ...]], at: int = 64) -> bytes:
    """A file that begins as a library does, with these section headers."""
    head = bytearray(b"\x7fELF\x02\x01".ljust(64, b"\0"))
    struct.pack_into("<HH", head, 16, 3, {"x86_64": 62, "aarch64": 183}.get(this_machine(), 0))
    struct.pack_into("<Q", head, 40, at)
    struct.pack_into("<HH", head, 58, 64, max(1, len(sections)))
    return bytes(head) + b"".join(struct.pack("<IIQQQQIIQQ", *each) for each in sections)


@pytest.mark.parametrize(
    "content",
    [
        headed([], at=2**64 - 1),
        headed([(0, 11, 0, 0, 2**63, 24, 0, 0, 0, 0)]),
        headed([(0, 11, 0, 0, 192, 24, 1, 0, 0, 0), (0, 3, 0, 0, 2**64 - 1, 0, 0, 0, 0, 0)])
        + b"\1\0\0\0\0\0\1\0".ljust(24, b"\0"),
    ],
    ids=["sections", "symbols", "names"],
)
def test_a_library_that_points_beyond_itself_is_told_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    app = App("demo")
    assert app.add_plugin(path) is None
    assert "damaged" in app.plugins.failed["x"].message


def test_a_library_with_thousands_of_tables_is_looked_at_soon(tmp_path: Path) -> None:
    symbols = bytes(24 * 100_000)
    path = tmp_path / "x.so"
    count = 2000
    path.write_bytes(headed([(0, 11, 0, 0, 64 + 64 * count, len(symbols), 0, 0, 0, 0)] * count) + symbols)
    began = time.monotonic()
    app = App("demo")
    assert app.add_plugin(path) is None
    assert "osaurus_plugin_entry_v2" in app.plugins.failed["x"].message
    assert time.monotonic() - began < 10


def test_a_library_without_an_entry_is_told_so_and_not_run(tmp_path: Path) -> None:
    source = tmp_path / "plain.c"
    source.write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) static void run(void) { abort(); }\n"
    )
    library = compile_c(source, tmp_path / "plain.so")
    app = App("demo")
    app.add_plugin(library)
    assert "osaurus_plugin_entry_v2" in app.plugins.failed["plain"].message


def test_a_library_for_another_machine_is_told_so(tmp_path: Path) -> None:
    library = made(tmp_path) / "loader.so"
    content = bytearray(library.read_bytes())
    content[18:20] = (243).to_bytes(2, "little")
    library.write_bytes(content)
    app = App("demo")
    app.add_plugin(library)
    assert "riscv64" in app.plugins.failed["loader"].message


def test_a_library_beside_the_plugin_may_be_what_it_needs(tmp_path: Path) -> None:
    folder = made(tmp_path)
    source = tmp_path / "needed.c"
    source.write_text("int needed(void) { return 1; }\n")
    (folder / "lib").mkdir()
    compile_c(source, folder / "lib" / "needed.so")
    assert App("demo").add_plugin(folder) is not None


def test_two_plugins_in_one_folder_are_told_so(tmp_path: Path) -> None:
    folder = made(tmp_path)
    shutil.copy(folder / "loader.so", folder / "second.so")
    app = App("demo")
    app.add_plugin(folder)
    assert app.plugins.failed["project"].reason == "several_libraries"


# --- falling ---


@pytest.mark.parametrize("option", ["-DFALLS_WHEN_OPENED", "-DFALLS_IN_INIT"])
async def test_a_plugin_that_falls_while_it_is_loaded_is_in_quarantine_at_once(
    tmp_path: Path, quarantine: Quarantine, option: str, layout: Layout
) -> None:
    folder = made(tmp_path, option, tools=["work"])
    (folder / "manifest.json").write_text(json.dumps(manifest(tools=["work"])))
    app = App("demo")
    plugin = app.add_plugin(folder)
    assert plugin is not None
    async with app:
        assert "terminated" in await refusal(app, "work")
        row = quarantine.find(ID)
        assert row is not None
        assert (row.version, row.build) == ("1.0.0", build())
        assert "quarantine" in await refusal(app, "work")
        told = (await app.invoke("work")).to_dict()["error"]
        assert told["retryable"] is False  # it is for a person to let it try again
    assert plugin.state == "failed"
    assert not (layout.root / ".currently_loading").exists()


async def test_a_plugin_that_hangs_while_it_is_loaded_is_ended_and_in_quarantine(
    tmp_path: Path, quarantine: Quarantine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.plugins.child.LOADING", 0.5)
    folder = made(tmp_path, "-DHANGS_IN_INIT", tools=["work"])
    (folder / "manifest.json").write_text(json.dumps(manifest(tools=["work"])))
    app = App("demo")
    app.add_plugin(folder)
    before = own_helpers()
    async with app:
        await refusal(app, "work")
        assert quarantine.find(ID) is not None
        assert own_helpers() <= before


async def test_a_plugin_that_fails_without_falling_is_not_in_quarantine(
    tmp_path: Path, quarantine: Quarantine
) -> None:
    folder = made(tmp_path, "-DINIT_FAILS", tools=["work"])
    (folder / "manifest.json").write_text(json.dumps(manifest(tools=["work"])))
    app = App("demo")
    app.add_plugin(folder)
    async with app:
        await refusal(app, "work")
        assert quarantine.find(ID) is None


async def test_a_plugin_that_falls_later_is_started_again_until_it_falls_too_often(
    tmp_path: Path, quarantine: Quarantine
) -> None:
    app = App("demo")
    plugin = app.add_plugin(made(tmp_path, tools=["fall", "work"]))
    assert plugin is not None
    async with app:
        for count in range(CRASHES):
            assert quarantine.find(ID) is None, count
            assert (await app.invoke("work", {})).ok
            assert "terminated" in await refusal(app, "fall")
        assert "quarantine" in await refusal(app, "work")
        row = quarantine.find(ID)
        assert row is not None
        assert str(CRASHES) in (row.reason or "")
        quarantine.remove(ID)
        assert (await app.invoke("work", {})).ok


async def test_a_fall_right_after_a_call_that_took_too_long_is_not_blamed_on_the_start(
    tmp_path: Path, quarantine: Quarantine
) -> None:
    folder = made(tmp_path, tools=["hold", "fall", "work"])
    gate = folder / "gate"
    os.mkfifo(gate)
    app = App("demo")
    plugin = app.add_plugin(folder)
    assert plugin is not None
    async with app:
        assert (await app.invoke("work", {})).ok
        for _ in range(CRASHES - 1):
            with pytest.raises(Failure, match="within"):
                await plugin.invoke("tool", "hold", json.dumps({"path": str(gate)}), agent=None, timeout=0.1)
            with pytest.raises(Failure, match="terminated"):
                await plugin.invoke("tool", "fall", "{}", agent=None, timeout=10)
            assert quarantine.find(ID) is None
        assert (await app.invoke("work", {})).ok
        await refusal(app, "fall")
        row = quarantine.find(ID)
        assert row is not None
        assert (row.reason or "").startswith(f"It fell {CRASHES} times")


async def test_a_plugin_that_falls_at_the_probe_is_in_quarantine_for_that(
    tmp_path: Path, quarantine: Quarantine
) -> None:
    app = App("demo")
    app.add_plugin(made(tmp_path, "-DFALLS_AT_THE_PROBE", tools=["work"]))
    async with app:
        await refusal(app, "work")
    row = quarantine.find(ID)
    assert row is not None
    assert (row.reason or "").startswith(
        "It failed at the first value it was given: its process ended by SIGSEGV. "
    )


async def test_a_fall_is_a_line_in_insights(tmp_path: Path) -> None:
    from fairlead.plugins.logs import Wanted
    from fairlead.plugins.services import Shared

    app = App("demo")
    app.add_plugin(made(tmp_path, tools=["fall"]))
    async with app:
        await refusal(app, "fall")
        insights = Shared.of(app).insights
        await asyncio.to_thread(insights.flush)
        lines = await insights.page(Wanted(plugin=ID, text="fell"))
    assert [line.title for line in lines] == ["LOG [ERROR] The plugin fell: its process ended by SIGABRT"]


async def test_falls_that_are_far_apart_are_forgiven(tmp_path: Path, quarantine: Quarantine) -> None:
    from fairlead.testing import FixedClock

    clock = FixedClock()
    app = App("demo", clock=clock)
    app.add_plugin(made(tmp_path, tools=["fall", "work"]))
    async with app:
        for _ in range(CRASHES + 2):
            await refusal(app, "fall")
            clock.now += 61 / (CRASHES - 1)
        assert quarantine.find(ID) is None


async def test_a_plugin_that_is_mended_gets_another_try(tmp_path: Path, quarantine: Quarantine) -> None:
    install_from(made(tmp_path, tools=["work"]))
    quarantine.put(ID, "1.0.0", "It fell.")
    install_from(made(tmp_path / "new", tools=["work"], version="1.0.1"))
    app = App("demo")
    assert [plugin.version for plugin in app.add_plugins()] == ["1.0.1"]
    assert quarantine.find(ID) is not None  # nobody has tried yet
    async with app:
        assert (await app.invoke("work", {})).ok
    assert quarantine.find(ID) is None


async def test_retry_takes_it_out_of_quarantine_and_loads_it(tmp_path: Path, quarantine: Quarantine) -> None:
    install_from(made(tmp_path, tools=["work"]))
    quarantine.put(ID, "1.0.0", "It fell.")
    app = App("demo")
    assert app.add_plugins() == []
    async with app:
        assert await app.plugins.retry(ID) is not None
        assert (await app.invoke("work", {})).ok
        assert app.plugins.failed == {}


async def test_what_it_says_of_itself_must_be_what_was_agreed_to(tmp_path: Path) -> None:
    other = manifest(tools=["work", "more"])
    install_from(made(tmp_path, macro("LIES", other), tools=["work"]))
    app = App("demo")
    app.add_plugins()
    async with app:
        assert "something else" in await refusal(app, "work")


async def test_a_plugin_that_was_changed_after_the_app_began_is_not_run(
    tmp_path: Path, layout: Layout
) -> None:
    install_from(made(tmp_path, tools=["work"]))
    app = App("demo")
    app.add_plugins()
    (layout.version_folder(ID, "1.0.0") / "manifest.json").write_text("{}")
    async with app:
        assert "not as it was installed" in await refusal(app, "work")


IN_PROCESS = """
import os, resource, sys
from fairlead import App
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
app = App("demo")
app.add_plugin(sys.argv[1], in_process=True)
app.invoke_sync("work")
"""


async def test_a_plugin_that_takes_its_host_along_is_in_quarantine_at_the_next_start(
    tmp_path: Path, quarantine: Quarantine
) -> None:
    folder = made(tmp_path, "-DFALLS_IN_INIT", tools=["work"])
    (folder / "manifest.json").write_text(json.dumps(manifest(tools=["work"])))
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", IN_PROCESS, str(folder)], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGABRT
    app = App("demo")
    assert app.add_plugin(folder, in_process=True) is None
    assert failed_reason(app) == "quarantined"
    assert quarantine.find(ID) is not None


async def test_a_plugin_that_hangs_at_the_probe_is_in_quarantine(
    tmp_path: Path, quarantine: Quarantine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.plugins.process import ProcessRunner

    tell = ProcessRunner.config_changed

    async def hurried(self: ProcessRunner, key: str, value: str, **more: Any) -> None:
        await tell(self, key, value, **more | {"timeout": 0.3})

    monkeypatch.setattr(ProcessRunner, "config_changed", hurried)
    app = App("demo")
    app.add_plugin(made(tmp_path, "-DHANGS_AT_THE_PROBE", tools=["work"]))
    async with app:
        await refusal(app, "work")
        assert quarantine.find(ID) is not None


async def test_the_mark_is_on_disk_while_a_plugin_is_loaded(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.plugins.process import ProcessRunner

    seen: list[str] = []
    start = ProcessRunner.start

    async def looking(self: ProcessRunner) -> Any:
        seen.append((layout.root / ".currently_loading").read_text().split()[0])
        return await start(self)

    monkeypatch.setattr(ProcessRunner, "start", looking)
    folder = made(tmp_path, tools=["work"])
    (folder / "manifest.json").write_text(json.dumps(manifest(tools=["work"])))
    app = App("demo")
    app.add_plugin(folder)
    async with app:
        assert (await app.invoke("work", {})).ok
        assert seen == [ID]
        assert not (layout.root / ".currently_loading").exists()


# --- the end ---


async def test_the_end_waits_for_calls_in_flight_and_destroys_once(tmp_path: Path) -> None:
    folder = made(tmp_path, tools=["hold"])
    gate = folder / "gate"
    os.mkfifo(gate)
    app = App("demo")
    plugin = app.add_plugin(folder)
    assert plugin is not None
    async with app:
        call = asyncio.ensure_future(app.invoke("hold", {"path": str(gate)}))
        opened = await asyncio.to_thread(open, gate, "wb")
        ends = [asyncio.ensure_future(plugin.unload()) for _ in range(3)]
        done, _ = await asyncio.wait(ends, timeout=0)
        assert not done
        opened.write(b"x")
        opened.close()
        assert (await call).ok
        await asyncio.gather(*ends)
        assert [line for line in await said(app) if line in ("held", "destroy")] == ["held", "destroy"]


async def test_an_app_that_stops_ends_its_plugins_and_starts_them_again(tmp_path: Path) -> None:
    app = App("demo")
    app.add_plugin(made(tmp_path, tools=["work"]))
    before = own_helpers()
    for _ in range(2):
        async with app:
            assert (await app.invoke("work", {})).ok
            assert len(own_helpers() - before) == 1
        assert own_helpers() <= before
    assert [line for line in await said(app) if line in ("init", "destroy")] == ["init", "destroy"] * 2


def test_calls_without_a_loop_of_their_own_share_one_plugin(tmp_path: Path) -> None:
    app = App("demo")
    app.add_plugin(made(tmp_path, tools=["work"]))
    before = own_helpers()
    try:
        assert app.invoke_sync("work").ok
        assert app.invoke_sync("work").ok
        assert len(own_helpers() - before) == 1
    finally:
        app.close()
    assert own_helpers() <= before


async def test_a_call_from_another_loop_reaches_the_same_plugin(tmp_path: Path) -> None:
    app = App("demo")
    plugin = app.add_plugin(made(tmp_path, tools=["work"]))
    assert plugin is not None

    def elsewhere() -> str:
        return asyncio.run(plugin.invoke("tool", "work", "{}", agent=None, timeout=20))

    before = own_helpers()
    async with app:
        assert (await app.invoke("work", {})).ok
        assert json.loads(await asyncio.to_thread(elsewhere))["ok"]
        assert len(own_helpers() - before) == 1


async def test_a_plugin_that_was_removed_is_shut_down_and_its_tools_are_gone(tmp_path: Path) -> None:
    app = App("demo")
    plugin = app.add_plugin(made(tmp_path, tools=["work"]))
    assert plugin is not None
    async with app:
        assert (await app.invoke("work", {})).ok
        await app.plugins.remove(ID)
        assert app.get("work") is None
        assert (await app.invoke("work", {})).failure is not None
        with pytest.raises(Failure, match="shut down"):
            await plugin.invoke("tool", "work", "{}", agent=None, timeout=5)


async def test_a_reload_loads_what_is_installed_now(tmp_path: Path) -> None:
    install_from(made(tmp_path, tools=["work"]))
    app = App("demo")
    app.add_plugins()
    async with app:
        assert (await app.invoke("work", {})).ok
        install_from(made(tmp_path / "new", tools=["work", "more"], version="1.1.0"))
        plugin = await app.plugins.reload(ID)
        assert plugin is not None
        assert plugin.version == "1.1.0"
        assert (await app.invoke("more", {})).ok


WAITS = """
from fairlead.plugins.sdk import Plugin, host
plugin = Plugin("test.waits", version="{version}")

@plugin.tool(policy="auto")
def wait() -> str:
    "Wait for the host."
    host.models()
    return "{version}"

@plugin.tool(policy="auto")
def which() -> str:
    "Say the version."
    return "{version}"
"""


async def test_a_tool_is_there_while_calls_of_the_version_before_come_to_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def list_models(self: Inference) -> str:
        asked.set()
        await go.wait()
        return '{"models": []}'

    monkeypatch.setattr(Inference, "list_models", list_models)
    waits = tmp_path / "waits"
    waits.mkdir()
    (waits / "plugin.py").write_text(WAITS.format(version="1.0.0"))
    install_from(waits)
    app = App("demo", store=f"sqlite:///{tmp_path}/store.db")
    app.add_plugins()
    async with app:
        waiting = asyncio.ensure_future(app.invoke("wait", {}))
        await asked.wait()
        taken_in = asyncio.ensure_future(app.plugins.taken_in())
        (waits / "plugin.py").write_text(WAITS.format(version="1.1.0"))
        install_from(waits)
        await asyncio.wait_for(taken_in, 20)
        # Nor are others held up by it.
        taken_in = asyncio.ensure_future(app.plugins.taken_in())
        install_from(made(tmp_path, tools=["work"]))
        await asyncio.wait_for(taken_in, 20)
        assert (await app.invoke("work", {})).ok
        which = asyncio.ensure_future(app.invoke("which", {}))
        await asyncio.sleep(0)
        assert not waiting.done()
        go.set()
        assert (await waiting).data == "1.0.0"
        assert (await which).data == "1.1.0"


async def test_what_a_reload_has_loaded_is_not_loaded_once_more(tmp_path: Path) -> None:
    install_from(made(tmp_path, tools=["work"]))
    app = App("demo")
    app.add_plugins()
    async with app:
        install_from(made(tmp_path / "new", tools=["work", "more"], version="1.1.0"))
        reloaded, _ = await asyncio.gather(app.plugins.reload(ID), app.plugins.take_in())
        assert app.plugins.get(ID) is reloaded
        assert (await app.invoke("more", {})).ok


async def test_a_running_app_takes_in_what_is_installed_and_rolled_back(
    tmp_path: Path, layout: Layout
) -> None:
    app = App("demo")
    assert app.add_plugins() == []
    async with app:
        taken_in = asyncio.ensure_future(app.plugins.taken_in())
        install_from(made(tmp_path, tools=["work"]))
        await taken_in
        assert (await app.invoke("work", {})).ok
        taken_in = asyncio.ensure_future(app.plugins.taken_in())
        install_from(made(tmp_path / "new", tools=["work", "more"], version="1.1.0"))
        await taken_in
        assert (await app.invoke("more", {})).ok
        taken_in = asyncio.ensure_future(app.plugins.taken_in())
        roll_back(layout, ID)
        await taken_in
        assert app.get("more") is None
        assert (await app.invoke("work", {})).ok


async def test_a_running_app_takes_in_that_one_is_to_be_loaded_again(tmp_path: Path, layout: Layout) -> None:
    install_from(made(tmp_path, tools=["work"]))
    app = App("demo")
    [first] = app.add_plugins()
    async with app:
        assert (await app.invoke("work", {})).ok
        taken_in = asyncio.ensure_future(app.plugins.taken_in())
        announce(layout, ID)
        await taken_in
        assert app.plugins.get(ID) is not first
        assert (await app.invoke("work", {})).ok


async def test_what_fails_is_in_the_log(
    tmp_path: Path, layout: Layout, caplog: pytest.LogCaptureFixture
) -> None:
    layout.version_folder(ID, "1.0.0").mkdir(parents=True)
    with caplog.at_level(logging.WARNING, "fairlead.plugins"):
        App("demo").add_plugins()
    assert ID in caplog.text


def test_the_first_version_of_the_interface_still_loads(tmp_path: Path) -> None:
    library = compile_c(
        SOURCES / "toy.c", tmp_path / "toy.so", "-DV1", macro("MANIFEST", manifest(tools=["echo"]))
    )
    app = App("demo")
    plugin = app.add_plugin(library)
    assert plugin is not None
    try:
        assert app.invoke_sync("echo").ok
        assert plugin.abi == 1
    finally:
        app.close()


async def test_an_app_that_is_stopped_from_another_loop_still_ends_its_plugins(tmp_path: Path) -> None:
    app = App("demo")
    app.add_plugin(made(tmp_path, tools=["work"]))
    before = own_helpers()
    result = await asyncio.to_thread(app.invoke_sync, "work")
    assert result.ok
    assert len(own_helpers() - before) == 1
    await app.stop()
    assert own_helpers() <= before
    await asyncio.to_thread(app.close)


def test_a_loop_that_ended_without_a_word_leaves_no_process_behind(tmp_path: Path) -> None:
    app = App("demo")
    app.add_plugin(made(tmp_path, tools=["work"]))
    before = own_helpers()

    async def once() -> set[int]:
        assert (await app.invoke("work", {})).ok
        return own_helpers() - before

    first = asyncio.run(once())
    second = asyncio.run(once())
    assert len(second - first) == 1
    asyncio.run(app.stop())
