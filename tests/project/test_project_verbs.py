"""lint, diff and docs at the command line: what they print, and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[2]
HUT = '''
from fairlead import App

app = App("hut", description="Rest.")


@app.action
def sit() -> int:
    """Sit down for a while."""
    return 1


if __name__ == "__main__":
    app.cli()
'''


def git(folder: Path, *arguments: str) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "init", "--quiet")
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "more")


def test_lint_ends_with_one_only_for_errors(run: Run, project: Path) -> None:
    done = run("lint")
    assert done.returncode == 0
    assert json.loads(done.stdout)["ok"] is True
    app = (project / "app.py").read_text()
    (project / "app.py").write_text(
        app.replace("@app.action\n", "@app.action(docs={'input_example': {'of': 1}})\n")
    )
    failed = run("lint")
    assert failed.returncode == 1
    assert [each["code"] for each in json.loads(failed.stdout)["findings"]] == ["INVALID_EXAMPLE"]
    assert run("lint", "--ignore", "invalid_example").returncode == 0
    assert run("lint", "--ignore", "invalid_exampel").returncode == 2


def test_lint_follows_the_projects_settings(run: Run, project: Path) -> None:
    (project / "fairlead.toml").write_text(
        "[lint]\nshortest_description = 200\nlevels = {WEAK_DESCRIPTION = 'error'}\n"
    )
    assert run("lint").returncode == 1
    assert json.loads(run("lint", "--sarif").stdout)["runs"][0]["results"][0]["level"] == "error"
    assert "WEAK_DESCRIPTION" in run("lint", "--rules").stdout


def test_diff_compares_files(run: Run, project: Path) -> None:
    (project / "old.json").write_text(run("manifest").stdout)
    assert run("diff", "old.json").returncode == 0
    app = (project / "app.py").read_text()
    (project / "app.py").write_text(app.replace("def stock(of:", "def stock(shelf: int, of:"))
    done = run("diff", "--previous", "old.json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["summary"]["breaking"] == 1


def test_diff_compares_with_a_revision(run: Run, project: Path) -> None:
    commit(project)
    app = (project / "app.py").read_text()
    (project / "app.py").write_text(app.replace("def buy(", "def purchase("))
    changes = json.loads(run("diff").stdout)["changes"]
    assert {(change["type"], change["action"]) for change in changes} == {
        ("removed", "buy"),
        ("added", "purchase"),
    }
    assert run("diff", "HEAD", "HEAD").returncode == 0


def test_diff_takes_the_code_of_a_revision_from_it_and_not_from_the_folder(run: Run, project: Path) -> None:
    commit(project)
    app = (project / "app.py").read_text()
    (project / "app.py").write_text(app.replace("def buy(", "def purchase("))
    assert run("--app", str(project / "app.py"), "diff").returncode == 1
    # The folder with the code is on Python's path, as it is where a project is installed in place.
    (project / "src").mkdir()
    (project / "src" / "hut.py").write_text(HUT)
    (project / "fairlead.toml").write_text("app = 'hut:app'")
    commit(project)
    (project / "src" / "hut.py").write_text(HUT.replace("def sit(", "def stand("))
    path = os.pathsep.join([str(project / "src"), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "diff"],
        cwd=project,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["summary"] == {"breaking": 1, "warnings": 0, "info": 1}


def test_what_git_cannot_read_is_not_taken_for_a_folder_without_commits(run: Run, project: Path) -> None:
    (project / ".git").write_text("gitdir: /nowhere")
    done = run("diff")
    assert done.returncode == 1
    assert "/nowhere" in done.stderr


def test_an_apps_own_program_is_compared_with_itself(project: Path) -> None:
    (project / "hut.py").write_text(HUT)
    commit(project)
    done = subprocess.run(
        [sys.executable, "hut.py", "diff"],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=False,
    )
    assert json.loads(done.stdout)["changes"] == []


def test_a_revision_with_links_out_of_it_can_be_compared(run: Run, project: Path) -> None:
    # It tells of actions only if the link to the app's own file is there, and the one away is not.
    (project / "app.py").rename(project / "real.py")
    (project / "app.py").symlink_to("real.py")
    (project / "real.py").write_text(
        f"import os\nassert not os.path.lexists('away')\n{(project / 'real.py').read_text()}"
    )
    (project / "away").symlink_to("/etc/hostname")
    commit(project)
    done = run("diff", "HEAD", "HEAD")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments", [("nope",), ("--previous=-h",), ("old.json",), ("a", "b", "c"), ("installed:nope",)]
)
def test_what_cannot_be_compared_is_refused(run: Run, arguments: tuple[str, ...]) -> None:
    done = run("diff", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_docs_are_printed_or_written(run: Run, project: Path) -> None:
    assert run("docs").stdout.startswith("# Tea Shop Guide")
    assert run("docs", "--llms").stdout.startswith("# Tea Shop\n")
    written = json.loads(run("docs", "--out-dir", "out", "--filename", "TEA.md", "--html").stdout)
    assert [file["kind"] for file in written["files"]] == ["guide-doc", "html", "html", "html"]
    assert (project / "out" / "TEA.md").read_text() == run("docs").stdout
    page = (project / "out" / "site" / "index.html").read_text()
    assert "Count what is on the shelf." in page
    assert "audit" not in page


def test_a_page_escapes_what_an_app_says(run: Run, project: Path) -> None:
    app = (project / "app.py").read_text()
    (project / "app.py").write_text(app.replace("Sell tea.", "<script>alert(1)</script>"))
    run("docs", "--html", "--out-dir", "out")
    assert "<script>alert" not in (project / "out" / "site" / "index.html").read_text()
