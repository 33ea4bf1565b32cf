"""The verbs as a person at a terminal sees them, and as a program that reads their output does."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.project.bundle import TARGETS

Look = Callable[..., Any]
VERBS = ("init", "doctor", "lint", "diff", "docs", "build", "package", "publish")
#: A call of each that works in the project, and what it ends with there.
CALLS = {
    "init": (("init", "--cwd", "made", "--name", "tea", "--force"), 0),
    "doctor": (("doctor",), 1),  # the project has no pyproject.toml
    "lint": (("lint",), 0),
    "diff": (("diff", "old.json"), 0),
    "docs": (("docs", "--out-dir", "out"), 0),
    "build": (("build", "docs"), 0),
    "package": (("package", "--dry-run"), 0),
    "publish": (("publish",), 0),
}
ESCAPE = "\x1b["


@pytest.fixture
def saved(project: Path, look: Look) -> Path:
    """The project, with its manifest kept as old.json."""
    (project / "old.json").write_text(look("manifest", tty=False).out)
    return project


def change(project: Path, old: str, new: str) -> None:
    path = project / "app.py"
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_says_what_the_verb_does_what_it_takes_and_how_it_is_typed(look: Look, verb: str) -> None:
    page = look(verb, "--help", TERM="dumb")
    assert page.code == 0
    assert re.match(r"[A-Z][^\n]+\.\n\nUsage: fairlead " + verb, page.out)
    assert "--json " in page.out
    assert f"\nExamples:\n  fairlead {verb}" in page.out
    assert max(map(len, page.out.splitlines())) <= 80


@pytest.mark.parametrize("verb", VERBS)
def test_colours_are_for_terminals_that_want_them(look: Look, saved: Path, verb: str) -> None:
    arguments, code = CALLS[verb]
    for environ in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):  # the next test looks without a terminal
        seen = look(*arguments, **environ)
        assert seen.code == code, seen
        assert ESCAPE not in seen.out + seen.err


@pytest.mark.parametrize("verb", VERBS)
def test_a_program_gets_json_and_so_does_a_person_who_asks(look: Look, saved: Path, verb: str) -> None:
    arguments, code = CALLS[verb]
    for seen in (look(*arguments, tty=False), look(*arguments, "--json")):
        assert (seen.code, seen.err) == (code, "")
        assert ESCAPE not in seen.out
        assert json.loads(seen.out)["ok"] is (code == 0)


@pytest.mark.parametrize("verb", ["doctor", "lint", "diff", "docs", "build", "package", "publish"])
def test_a_verb_is_a_command_that_ends_with_its_code(
    look: Look, execute: Callable[..., Any], saved: Path, verb: str
) -> None:
    """A process of its own tells what other tests see in theirs. (That of `init` is elsewhere.)"""
    (saved / "fairlead.toml").write_text("[package]\nprivate = true\n[lint]\nshortest_description = 200\n")
    arguments = CALLS[verb][0] + {"lint": ("--strict",), "publish": ("--live",)}.get(verb, ())
    seen = look(*arguments, tty=False)
    done = execute([sys.executable, "-m", "fairlead", *arguments], saved)
    assert (done.returncode, done.stderr) == (seen.code, seen.err)
    if verb != "doctor":  # which tells how long the import took
        assert done.stdout == seen.out
    assert seen.code == {"doctor": 1, "lint": 1, "publish": 3}.get(verb, 0)


@pytest.mark.parametrize("verb", VERBS)
def test_a_misspelt_option_is_refused_with_the_near_miss_and_the_verbs_own_page(
    look: Look, verb: str
) -> None:
    seen = look(verb, "--jsn")
    assert (seen.code, seen.out) == (2, "")
    assert "'--json'" in seen.err
    assert seen.err.endswith(f"Try 'fairlead {verb} --help'.\n")


def test_init_tells_the_next_steps(look: Look, tmp_path: Path) -> None:
    seen = look("init", "--cwd", "tea notes", cwd=tmp_path)
    assert seen.out.splitlines() == [
        "Made 6 files in tea notes.",
        "Next:",
        "  cd 'tea notes'",
        "  pip install '.[dev]'",
        '  fairlead add-note --text "Buy tea"',
        "  pytest",
    ]
    here = look("init", "--name", "tea", cwd=tmp_path)
    assert "  cd " not in here.out


def test_init_that_finds_files_says_which_and_what_to_do(look: Look) -> None:
    seen = look("init", "--name", "tea")
    assert (seen.code, seen.out) == (1, "")
    assert "Already there: app.py. Nothing was written." in seen.err
    assert "--force" in seen.err


def test_a_template_that_is_misspelt_is_told_with_the_others(look: Look) -> None:
    seen = look("init", "fastapy")
    assert seen.code == 2
    assert "Did you mean 'fastapi'? Templates are app, agent, fastapi, mcp" in seen.err
    assert "Try 'fairlead init --help'." in seen.err


def test_doctor_marks_what_to_look_at_and_gives_the_way_out(look: Look, project: Path) -> None:
    seen = look("doctor", NO_COLOR="1")
    assert seen.code == 1
    assert "! MISSING_PYPROJECT: There is no pyproject.toml" in seen.out
    assert "- APP_IMPORTABLE: It has 3 actions." in seen.out
    assert seen.out.endswith("1 thing to look at.\n")
    (project / "pyproject.toml").write_text("[project]\nname = 'tea'\n")
    well = look("doctor")
    assert (well.code, well.out.splitlines()[-1]) == (0, "All is well.")


def test_doctor_lists_every_setting_that_is_wrong(look: Look, project: Path) -> None:
    (project / "fairlead.toml").write_text("ap = 'x'\n[lint]\nignor = []\n")
    seen = look("doctor", NO_COLOR="1")
    assert "ap: There is no such setting. Did you mean 'app'?" in seen.out
    assert "lint.ignor: There is no such setting. Did you mean 'ignore'?" in seen.out


def test_broken_settings_are_told_once_each_a_line(look: Look, project: Path) -> None:
    (project / "fairlead.toml").write_text("ap = 'x'\n[lint]\nignor = []\n")
    seen = look("build", NO_COLOR="1")
    assert (seen.code, seen.out) == (1, "")
    first, *issues = seen.err.splitlines()
    assert first.startswith("error: fairlead.toml has settings that cannot be used.")
    assert [issue.split(":")[0].strip() for issue in issues] == ["lint.ignor", "ap"]


def test_lint_names_the_line_and_counts(look: Look, project: Path) -> None:
    change(project, "Count what is on the shelf.", "Count.")
    seen = look("lint", NO_COLOR="1")
    assert seen.code == 0
    assert re.search(r"^warning WEAK_DESCRIPTION stock: .* app\.py:\d+$", seen.out, re.MULTILINE)
    assert seen.out.endswith("1 warning found.\n")
    assert look("lint", "--strict").code == 1
    assert look("lint", "--ignore", "WEAK_DESCRIPTION").out == "Nothing found.\n"


def test_diff_tells_each_change_why_it_matters_and_the_version_it_asks_for(look: Look, saved: Path) -> None:
    assert look("diff", "old.json").out == "Nothing changed for callers.\n"
    change(saved, "def buy(", "def purchase(")
    seen = look("diff", "old.json", NO_COLOR="1")
    assert seen.code == 1
    assert re.search(r"^breaking buy: ", seen.out, re.MULTILINE)
    assert "This asks for a new major version." in seen.out


def test_diff_where_nothing_was_committed_says_what_to_compare_with(look: Look) -> None:
    seen = look("diff")
    assert seen.code == 2
    assert "no git commit" in seen.err
    assert "fairlead manifest > old.json" in seen.err


def test_diff_lets_a_foreign_manifest_do_nothing_to_the_terminal(look: Look, project: Path) -> None:
    evil = {"actions": [{"name": "x\x1b]0;owned\x07\x9b31m", "description": "\u202eevil", "inputSchema": {}}]}
    (project / "evil.json").write_text(json.dumps(evil))
    seen = look("diff", "evil.json", NO_COLOR="1")
    assert not set(seen.out + seen.err) & set("\x1b\x07\x9b\u202e")


def test_docs_say_where_they_are(look: Look, project: Path) -> None:
    assert look("docs").out.startswith("# Tea Shop Guide\n")
    seen = look("docs", "--html")
    assert seen.out.splitlines()[:2] == ["Wrote:", "  dist/fairlead/GUIDE.md"]
    assert seen.out.endswith("Open dist/fairlead/site/index.html in a browser.\n")


def test_build_lists_what_it_wrote(look: Look) -> None:
    seen = look("build", "docs")
    assert seen.out.splitlines() == [
        "Wrote 4 files to dist/fairlead:",
        "  GUIDE.md              guide-doc",
        "  llms.txt              llms",
        "  fairlead.bundle.json  bundle-report",
        "  SHA256SUMS            checksums",
    ]


def test_an_unknown_target_is_told_with_the_others(look: Look) -> None:
    seen = look("build", "bundel", NO_COLOR="1")
    assert seen.code == 2
    assert "No target is named 'bundel'. Did you mean 'bundle'? Targets are manifest, cli" in seen.err


def test_package_and_publish_say_what_can_be_done_next(look: Look) -> None:
    wheel = "dist/fairlead/tea_shop_fairlead-1.2.0-py3-none-any.whl"
    assert "thrown away" in look("package", "--dry-run").out
    assert look("package").out.endswith(f"Made {wheel}.\nNext:\n  pip install {wheel}\n")
    published = look("publish").out
    assert published.endswith("Checked, and not uploaded: `fairlead publish --live` uploads it.\n")


def test_a_verb_without_an_app_says_where_one_is_looked_for(look: Look, tmp_path: Path) -> None:
    for verb in ("lint", "docs", "build", "package", "publish"):
        seen = look(verb, cwd=tmp_path)
        assert seen.code == 2
        assert "app.py" in seen.err
        assert seen.err.endswith("Try 'fairlead --help'.\n")


def test_the_page_of_build_lists_every_target(look: Look) -> None:
    listed = re.findall(
        r"^  ([a-z]+) ", look("build", "--help", NO_COLOR="1").out.partition("Examples:")[0], re.MULTILINE
    )
    assert listed == list(TARGETS)
