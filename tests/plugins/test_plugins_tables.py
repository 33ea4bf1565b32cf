"""The two tables, as a C compiler lays them out, as we read and write them, and as the contract has them."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from fairlead.plugins import native, slots
from plugins.native_kit import INCLUDE, SOURCES, compile_c, compiler

#: The contract's own list, in its frozen order; (name, offset, since).
HOST_TABLE = [
    ("config_get", 8, 2),
    ("config_set", 16, 2),
    ("config_delete", 24, 2),
    ("db_exec", 32, 2),
    ("db_query", 40, 2),
    ("log", 48, 2),
    ("dispatch", 56, 2),
    ("task_status", 64, 2),
    ("dispatch_cancel", 72, 2),
    ("dispatch_clarify", 80, 2),
    ("complete", 88, 2),
    ("complete_stream", 96, 2),
    ("embed", 104, 2),
    ("list_models", 112, 2),
    ("http_request", 120, 2),
    ("file_read", 128, 2),
    ("list_active_tasks", 136, 2),
    ("send_draft", 144, 2),
    ("dispatch_interrupt", 152, 2),
    ("dispatch_add_issue", 160, 2),
    ("complete_cancel", 168, 3),
    ("get_active_agent_id", 176, 4),
    ("log_structured", 184, 5),
    ("free_string", 192, 6),
]
PLUGIN_TABLE = [
    ("free_string", 0),
    ("init", 8),
    ("destroy", 16),
    ("get_manifest", 24),
    ("invoke", 32),
    ("version", 40),
    ("handle_route", 48),
    ("on_config_changed", 56),
    ("on_task_event", 64),
]
EVENTS = [
    "STARTED",
    "ACTIVITY",
    "PROGRESS",
    "CLARIFICATION",
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "OUTPUT",
    "DRAFT",
]
LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], int]:
    """What the compiler says of our header."""
    program = compile_c(SOURCES / "layout.c", tmp_path_factory.mktemp("layout") / "layout", shared=False)
    lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    return {(kind, name): int(number) for kind, name, number in (line.split() for line in lines)}


def test_the_compiler_puts_each_host_slot_where_the_contract_has_it(told: dict[tuple[str, str], int]) -> None:
    found = {name: at for (kind, name), at in told.items() if kind == "host"}
    expected = {"sizeof": 200, "alignof": 8, "version": 0, **{name: at for name, at, _since in HOST_TABLE}}
    assert found == expected


def test_the_compiler_puts_each_plugin_field_where_the_contract_has_it(
    told: dict[tuple[str, str], int],
) -> None:
    found = {name: at for (kind, name), at in told.items() if kind == "plugin"}
    assert found == {"sizeof": 72, "alignof": 8, **dict(PLUGIN_TABLE)}


def test_the_constants_are_the_contract_s(told: dict[tuple[str, str], int]) -> None:
    found = {name: value for (kind, name), value in told.items() if kind == "constant"}
    assert found == {
        **{f"OSR_ABI_VERSION_{number}": number for number in range(1, 7)},
        **{f"OSR_TASK_EVENT_{name}": number for number, name in enumerate(EVENTS)},
        **{f"OSR_LOG_{name}": number for number, name in enumerate(LEVELS)},
    }
    assert list(slots.TASK_EVENTS) == EVENTS
    assert list(slots.LOG_LEVELS) == LEVELS


def test_the_table_we_give_has_each_slot_where_the_contract_has_it() -> None:
    offsets = [(field[0], getattr(native.HostApi, field[0]).offset) for field in native.HostApi._fields_]
    assert offsets == [("version", 0), *((name, at) for name, at, _since in HOST_TABLE)]
    assert ctypes.sizeof(native.HostApi) == slots.HOST_API_SIZE == 200


def test_the_table_we_read_has_each_field_where_the_contract_has_it() -> None:
    offsets = [(field[0], getattr(native.PluginApi, field[0]).offset) for field in native.PluginApi._fields_]
    assert offsets == PLUGIN_TABLE
    assert [(name, at) for name, at, _required in slots.PLUGIN_FIELDS] == PLUGIN_TABLE
    assert ctypes.sizeof(native.PluginApi) == slots.PLUGIN_API_SIZE == 72


def test_the_slots_are_numbered_named_and_dated_as_in_the_contract() -> None:
    assert [(slot.name, slot.offset, slot.since) for slot in slots.ALL] == HOST_TABLE
    assert [slot.number for slot in slots.ALL] == list(range(1, 25))
    assert all(slots.SLOTS[slot.number] is slot for slot in slots.ALL)
    assert [slot.name for slot in slots.ALL if slot.reserved] == ["dispatch_clarify", "dispatch_add_issue"]


def test_a_first_version_s_table_is_exactly_the_five_required_pointers() -> None:
    names = [field[0] for field in native.PluginApiV1._fields_]
    assert names == ["free_string", "init", "destroy", "get_manifest", "invoke"]
    assert ctypes.sizeof(native.PluginApiV1) == slots.PLUGIN_API_V1_SIZE == 40
    assert [name for name, _at, required in slots.PLUGIN_FIELDS if required] == names


@pytest.mark.parametrize(
    ("language", "options"),
    [("c", ["-std=c99"]), ("c", ["-std=c17"]), ("c++", ["-std=c++11"]), ("c++", ["-std=c++20"])],
)
def test_the_header_compiles_without_a_warning(language: str, options: list[str]) -> None:
    command = [*compiler(), "-x", language, "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    source = '#include "osaurus_plugin.h"\nint main(void) { return OSR_ABI_VERSION_6 - 6; }\n'
    done = subprocess.run(
        [*command, *options, f"-I{INCLUDE}", "-"], input=source, capture_output=True, text=True, check=False
    )
    if "cc1plus" in done.stderr:
        pytest.skip("there is no C++ compiler here")
    assert done.returncode == 0, done.stderr


def test_the_header_is_shipped_with_the_package() -> None:
    assert (INCLUDE / "osaurus_plugin.h").is_file()
    assert Path(native.__file__).parent / "include" == INCLUDE
