"""What goes wrong is told once and leaves nothing half done; what is evil or secret does not get into a package."""

from __future__ import annotations

import hashlib
import http.server
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import Failure
from fairlead.project.doctor import doctor_project
from fairlead.project.init import init_project
from fairlead.project.writing import write_files
from warm import Warm

Fairlead = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.timeout(180)

#: Fairlead, for a warm Python, which is a copy and not yet held to anything.
AND_THEN = """
sys.dont_write_bytecode = True
runpy.run_module("fairlead", run_name="__main__", alter_sys=True)
"""
#: Root may write anywhere; without two of its privileges it is held to the modes of files as anybody is.
PLAINLY = f"""
import ctypes, os, runpy, sys
if os.geteuid() == 0:
    libc = ctypes.CDLL(None)
    for privilege in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: never again for who is started
        if libc.prctl(24, privilege, 0, 0, 0) != 0:
            sys.exit(77)
    version, held = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(version, held):
        sys.exit(77)
    for kind in (0, 1):  # what is in effect, and what may be
        held[kind] &= ~0b110
    if libc.capset(version, held):
        sys.exit(77)
{AND_THEN}"""
#: A disk that takes no changes, seen by this process and those that it starts.
UNCHANGEABLE = f"""
import ctypes, os, runpy, sys
libc = ctypes.CDLL(None)
if libc.unshare(0x20000) or libc.mount(b"none", b"/", None, 0x44000, None):
    sys.exit(77)
if libc.mount(b"tmpfs", os.fsencode(sys.argv.pop(1)), b"tmpfs", 1, None):
    sys.exit(77)
{AND_THEN}"""


def plainly(warm: Warm, execute: Fairlead, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = execute(warm.command("-c", PLAINLY, *arguments), cwd)
    if done.returncode == 77:
        pytest.skip("privileges cannot be dropped here")
    return done


def files(folder: Path) -> dict[str, bytes]:
    """All that is in a folder, besides what running code leaves."""
    found = [path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"/" for path in found}


def refused(run: Fairlead, folder: Path, *arguments: str) -> str:
    """What is said to a call that fails, leaves everything as it was, and shows nobody a traceback."""
    before = files(folder)
    done = run(*arguments)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout or "{}").get("ok", False) is False
    assert files(folder) == before
    return done.stderr


def sums_hold(folder: Path) -> bool:
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    told = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    there = {path.name: path.read_bytes() for path in folder.iterdir() if path.name in told}
    return told == {name: hashlib.sha256(content).hexdigest() for name, content in there.items()}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="privileges are dropped the Linux way")
@pytest.mark.parametrize(
    "arguments",
    [
        ("build",),
        ("package",),
        ("docs", "--html"),
        ("docs", "--html", "--out-dir", "out"),
        ("init", "--cwd", "dist/new", "--name", "tea"),
    ],
)
def test_a_folder_that_cannot_be_written_is_told_and_nothing_is_written(
    project: Path, execute: Fairlead, warm_python: Warm, arguments: tuple[str, ...]
) -> None:
    (project / "dist").mkdir()
    (project / "out" / "site").mkdir(parents=True)
    (project / "dist").chmod(0o555)
    (project / "out" / "site").chmod(0o555)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return plainly(warm_python, execute, project, *arguments)

    assert "cannot be written: Permission denied. Nothing was written." in refused(run, project, *arguments)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="privileges are dropped the Linux way")
@pytest.mark.parametrize(
    ("cwd", "arguments"),
    [
        ("read-only", ("mcp", "add", "files", "--", "true")),
        (".", ("client", "ts", "--out", "read-only/client.ts")),
        (".", ("client", "ts", "--out", "shut/client.ts")),
        (".", ("keys", "new", "ci", "--file", "read-only/keys.json")),
        (".", ("keys", "new", "ci", "--file", "shut/keys.json")),
        (".", ("store", "restore", "unreadable.db")),
    ],
)
def test_a_file_that_cannot_be_read_or_written_is_told_on_one_line_and_as_that(
    project: Path, execute: Fairlead, warm_python: Warm, cwd: str, arguments: tuple[str, ...]
) -> None:
    (project / "unreadable.db").write_bytes(b"SQLite format 3\0")
    (project / "unreadable.db").chmod(0)
    # In a shut folder a draft cannot even be looked for, as on a disk that takes no changes.
    for name, mode in (("read-only", 0o555), ("shut", 0o444)):
        (project / name).mkdir()
        (project / name).chmod(mode)
    done = plainly(warm_python, execute, project / cwd, *arguments)
    for name in ("read-only", "shut"):
        (project / name).chmod(0o755)
        assert list((project / name).iterdir()) == []
    said = done.stderr.splitlines()[0]
    assert done.returncode == 1, done.stderr
    assert said.startswith("error: ")
    assert "Permission denied" in said
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a disk is mounted the Linux way")
@pytest.mark.parametrize(
    "arguments",
    [("client", "ts", "--out", "disk/client.ts"), ("keys", "new", "ci", "--file", "disk/keys.json")],
)
def test_a_disk_that_takes_no_changes_is_told_as_that(
    project: Path, execute: Fairlead, warm_python: Warm, arguments: tuple[str, ...]
) -> None:
    (project / "disk").mkdir()
    done = execute(warm_python.command("-c", UNCHANGEABLE, "disk", *arguments), project)
    if done.returncode == 77:
        pytest.skip("nothing can be mounted here")
    assert done.returncode == 1, done.stderr
    assert "Read-only file system" in done.stderr.splitlines()[0]


def test_two_builds_into_one_folder_leave_the_whole_of_one(project: Path) -> None:
    command = [sys.executable, "-m", "fairlead", "package", "--out-dir", "out", "--package-description"]
    both = [
        subprocess.Popen([*command, said], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for said in ("Green tea.", "Black tea.")
    ]
    for process in both:
        _, err = process.communicate(timeout=150)
        assert process.returncode == 0, err
    assert sums_hold(project / "out")
    assert not list((project / "out").glob(".fairlead-*"))


def test_writers_of_one_folder_come_one_after_the_other(tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(40)]

    def write(said: str) -> None:
        for _ in range(5):
            write_files(tmp_path, dict.fromkeys(names, said))

    writers = [threading.Thread(target=write, args=(said,)) for said in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(set(files(tmp_path).values())) == 1
    assert sorted(files(tmp_path)) == sorted(names)


def test_a_build_that_fails_takes_back_the_folders_that_it_made(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("a file")
    for folder in (tmp_path / "new" / "folder", tmp_path / "there" / "folder"):
        with pytest.raises(Failure):
            write_files(folder, {"a.txt": "a", "a.txt/b.txt": "b"})
    assert files(tmp_path) == {"there": b"a file"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("build", "--filename", "README.md"), "Two files of the build would be called 'README.md'."),
        (("build", "--filename", "cli.py"), "Two files of the build would be called 'cli.py'."),
        (("build", "docs", "--filename", "SHA256SUMS"), "Two files of the build"),
        (("build", "docs", "--filename", "a\nb"), "is not a file name"),
        (("package", "--bin-name", "fairlead"), "would replace Fairlead's own"),
        (("package", "--package-name", "Fairlead"), "would replace Fairlead"),
        (("package", "--package-version", "banana"), "banana"),
        (("package", "--package-license", "not a licence"), "not a licence"),
        (("build", "bundel"), "Did you mean 'bundle'?"),
        (("build", "--app-module", "nowhere"), "There is no module 'nowhere'"),
        (("build", "--app-module", "shelf"), "has no app called 'app'"),
    ],
)
def test_names_that_cannot_be_used_are_told_and_nothing_is_written(
    run: Fairlead, project: Path, arguments: tuple[str, ...], said: str
) -> None:
    assert said in refused(run, project, *arguments)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("app = ", "is not TOML"),
        ("[build]\ntargets = ['bundel']", "build.targets[0]"),
        ("[mcp]\nserver = 'shelf:things'", "no MCP server"),
        ("[mcp]\nserver = 'nowhere:server'", "cannot be imported"),
        ("app = 'nowhere:app'", "There is no module 'nowhere'"),
    ],
)
def test_settings_that_cannot_be_used_are_told_and_nothing_is_written(
    run: Fairlead, project: Path, settings: str, said: str
) -> None:
    (project / "fairlead.toml").write_text(settings)
    assert said in refused(run, project, "build")


def test_a_project_is_not_called_like_a_package_it_needs(tmp_path: Path) -> None:
    for template, name in (
        ("openai", "openai"),
        ("fastapi", "FastAPI"),
        ("app", "fairlead"),
        ("app", "pytest"),
    ):
        with pytest.raises(Failure) as failed:
            init_project(tmp_path, template=template, name=name)
        assert "needs the package of that name" in failed.value.message
    for name in ("é", "", "-", "7 seas", "a" * 65):
        with pytest.raises(Failure):
            init_project(tmp_path, name=name)
    assert files(tmp_path) == {}


def test_a_link_does_not_bring_other_files_along(run: Fairlead, project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hush")
    (project / "shelf" / "data.txt").symlink_to(tmp_path / "secret.txt")
    assert "Links lead out of the project: shelf/data.txt." in refused(run, project, "package")
    (project / "shelf" / "data.txt").unlink()
    (project / "shelf" / "more.txt").symlink_to("things.txt")
    assert run("build", "cli").returncode == 0
    (project / "data.txt").symlink_to(tmp_path / "secret.txt")
    (project / "fairlead.toml").write_text("[build]\ninclude = ['data.txt']\n")
    assert "Links lead out of the project: data.txt." in refused(run, project, "package")


def test_a_link_does_not_lead_what_is_written_elsewhere(run: Fairlead, project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / "out").mkdir()
    (project / "out" / "site").symlink_to(elsewhere)
    said = refused(run, project, "docs", "--html", "--out-dir", "out")
    assert "a link there leads out of the folder" in said
    (project / "out" / "GUIDE.md").symlink_to(elsewhere / "GUIDE.md")
    assert run("docs", "--out-dir", "out").returncode == 0
    assert files(elsewhere) == {}


def test_a_link_that_leads_nowhere_is_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "app.py").symlink_to("nowhere")
    with pytest.raises(Failure) as failed:
        init_project(tmp_path, name="tea")
    assert failed.value.code == "CONFLICT"
    assert [path.name for path in tmp_path.iterdir()] == ["app.py"]


def test_a_pattern_for_everything_leaves_secrets_and_earlier_builds_behind(
    run: Fairlead, project: Path
) -> None:
    (project / "fairlead.toml").write_text("[build]\ninclude = ['**/*']\nout_dir = 'out'\n")
    (project / "fairlead-keys.json").write_text("{}")
    (project / ".env").write_text("TOKEN=hush")
    for _ in range(2):
        wheel = json.loads(run("package").stdout)["packageFile"]
        with zipfile.ZipFile(wheel) as archive:
            packed = {name.partition("/sources/")[2] for name in archive.namelist() if "/sources/" in name}
        assert packed == {
            "app.py",
            "fairlead.toml",
            "notes.md",
            "shelf/__init__.py",
            "shelf/things.txt",
        }


def test_a_hidden_file_is_packed_when_a_pattern_says_so(run: Fairlead, project: Path) -> None:
    (project / ".shown").write_text("1")
    (project / "fairlead.toml").write_text("[build]\ninclude = ['.shown']\n")
    built = json.loads(run("build", "cli").stdout)
    [program] = [each["path"] for each in built["files"] if each["kind"] == "zipapp"]
    with zipfile.ZipFile(program) as archive:
        assert ".shown" in archive.namelist()


def test_secrets_in_the_settings_are_built_into_nothing(run: Fairlead, project: Path) -> None:
    (project / "fairlead.toml").write_text(
        "[mcp.env]\nAPI_TOKEN = 'hush-hush'\nTEA = 'green'\nNEXT = 'sk-abcdefghijklmnopqrstuvwx'\nA_KEY = '${MINE}'\n"
    )
    assert run("package").returncode == 0
    for name, content in files(project / "dist" / "fairlead").items():
        assert b"hush-hush" not in content, name
        assert b"sk-abcdef" not in content, name
    descriptor = json.loads((project / "dist" / "fairlead" / "fairlead.mcp.json").read_text())
    shown = {"API_TOKEN": "${API_TOKEN}", "TEA": "green", "NEXT": "${NEXT}", "A_KEY": "${MINE}"}
    assert descriptor["env"] == shown
    warned = {check["code"]: check["message"] for check in doctor_project(project)["checks"]}
    assert "API_TOKEN, NEXT." in warned["SECRET_SETTING"]
    assert "hush" not in str(warned)


def test_settings_that_do_not_count_are_told(project: Path) -> None:
    (project / "pyproject.toml").write_text("[project]\nname = 'tea'\n[tool.fairlead]\napp = 'app:app'\n")
    (project / "fairlead.toml").write_text("[lint]\nignore = ['WEAK_DESCRIPTION']\n")
    codes = [check["code"] for check in doctor_project(project)["checks"] if check["level"] == "warning"]
    assert codes == ["CONFIG_IGNORED"]


def test_a_module_and_a_folder_of_odd_names_are_built(
    run: Fairlead, execute: Fairlead, project: Path, tmp_path: Path, install: Callable[..., Path]
) -> None:
    odd = tmp_path / 'o"dd \\ $(touch x)'
    project.rename(odd)
    (odd / "app.py").rename(odd / 'a "pp.py')
    done = run("--app", './a "pp.py:app', "package", "--out-dir", str(tmp_path / "out"), cwd=odd)
    assert done.returncode == 0, done.stderr
    for name in ("cli.py", "tea-shop.pyz"):
        ran = execute([sys.executable, tmp_path / "out" / name, "stock", "--output", "json"], tmp_path)
        assert json.loads(ran.stdout)["data"] == 2, ran.stderr
    there = install(json.loads(done.stdout)["packageFile"], "fairlead")
    ran = execute([there / "tea-shop", "stock", "--output", "json"], tmp_path)
    assert json.loads(ran.stdout)["data"] == 2, ran.stderr
    same = execute([there / "fairlead", "diff", *["installed:tea-shop-fairlead"] * 2], tmp_path)
    assert json.loads(same.stdout)["changes"] == [], same.stderr


def test_a_package_whose_app_cannot_be_imported_says_why(run: Fairlead, project: Path) -> None:
    (project / "lazy.py").write_text("def __getattr__(name):\n    import nothing_like_this\n")
    said = refused(run, project, "--app", "lazy:app", "lint")
    assert "No module named 'nothing_like_this'" in said


def test_a_module_named_like_one_of_pythons_own_stands_in_no_verbs_way(project: Path) -> None:
    (project / "types.py").write_text("raise RuntimeError('the wrong one')\n")
    codes = {check["code"] for check in doctor_project(project)["checks"]}
    assert "APP_IMPORTABLE" in codes


def test_a_launcher_where_fairlead_is_not_says_what_it_needs(
    run: Fairlead, execute: Fairlead, project: Path
) -> None:
    assert run("build").returncode == 0
    for name in ("cli.py", "mcp_stdio.py", "tea-shop.pyz"):
        done = execute([sys.executable, "-S", "-E", project / "dist" / "fairlead" / name], project)
        assert done.returncode == 1
        assert "pip install /path/to/fairlead" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_package_needs_the_extras_that_the_project_asks_for(run: Fairlead, project: Path) -> None:
    needs = (
        "['fairlead[serve,jwt]>=0.0.1', 'orjson', 'Fairlead[client]; python_version > \"3\"', 'fairlead-tea']"
    )
    (project / "pyproject.toml").write_text(f"[project]\nname = 'shop'\ndependencies = {needs}\n")
    with zipfile.ZipFile(json.loads(run("package").stdout)["packageFile"]) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith("METADATA")]
        told = archive.read(metadata).decode().splitlines()
    required = sorted(line.partition(": ")[2] for line in told if line.startswith("Requires-Dist: "))
    assert [each.partition(">=")[0] for each in required] == [
        "fairlead-tea",
        "fairlead[client,jwt,serve]",
        "orjson",
    ]


class Index(http.server.BaseHTTPRequestHandler):
    """A package index that takes one password."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        allowed = self.headers.get("authorization") == "Basic X190b2tlbl9fOmdvb2Q="  # __token__:good
        self.server.taken.append(body if allowed else b"")  # type: ignore[attr-defined]
        self.send_response(200 if allowed else 403)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package index of this machine, which is the only one that twine knows of."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    server.taken = []  # type: ignore[attr-defined]
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    for name, value in {
        "TWINE_REPOSITORY_URL": f"http://127.0.0.1:{server.server_port}/",
        "TWINE_USERNAME": "__token__",
        "TWINE_PASSWORD": "good",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    yield server
    server.shutdown()
    serving.join()
    server.server_close()


def test_only_a_live_publish_uploads_and_it_uploads_the_wheel(run: Fairlead, index: Any) -> None:
    assert json.loads(run("publish").stdout)["published"] == "dry-run"
    assert index.taken == []
    done = run("publish", "--live")
    assert done.returncode == 0, done.stderr
    published = json.loads(done.stdout)
    assert published["published"] == "live"
    [sent] = index.taken
    assert Path(published["packageFile"]).read_bytes() in sent


def test_an_upload_that_is_refused_says_whose_settings_count(
    run: Fairlead, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWINE_PASSWORD", "wrong-password")
    done = run("publish", "--live")
    assert done.returncode == 5
    assert "TWINE_PASSWORD" in done.stderr
    assert "wrong-password" not in done.stdout + done.stderr


def test_an_index_that_twine_does_not_know_is_named(
    run: Fairlead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    done = run("publish", "--live", "--repository", "nowhere")
    assert done.returncode == 5
    assert "'nowhere' section" in done.stderr
