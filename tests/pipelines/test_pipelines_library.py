"""The programs that are shipped: the library, the examples and those of the docs check, and are written the one way."""

from pathlib import Path

import pytest

from fairlead.pipelines import check_file, check_text, format_text
from fairlead.pipelines.checking import Options
from fairlead.pipelines.modules import INSTALLED

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    path
    for folder in (Path(INSTALLED), ROOT / "docs" / "examples", ROOT / "examples" / "pipelines")
    for path in folder.rglob("*.plumb")
    if "wrong" not in path.name
)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_that_is_shipped_checks_and_is_formatted(path: Path) -> None:
    needs_main = Path(INSTALLED) not in path.parents
    errors = check_file(path, Options(require_main=needs_main, model="script/x")).errors
    assert [each.shown() for each in errors if "action" not in each.message] == []
    text = path.read_text(encoding="utf-8")
    assert format_text(text) == text


def test_the_library_has_documents_memory_and_the_system() -> None:
    text = "use fs use mem use sys let main : !Mem.CtrlResp -> !{ memory: [Mem.Message] } = Mem.memories"
    assert check_text(text).errors == []


def test_a_module_of_the_search_path_comes_before_the_library(tmp_path: Path) -> None:
    (tmp_path / "fs.plumb").write_text("type Ours = int")
    text = "use fs let main : !Fs.Ours -> !int = id"
    assert check_text(text, options=Options(search_path=(str(tmp_path),))).errors == []
