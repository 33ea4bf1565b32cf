"""What is built runs: launchers, the one-file program, and above all the installed wheel."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import chdir
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from fairlead import App, Failure
from fairlead.project.identity import slug_of

Fairlead = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.timeout(180)

SRC = Path(__file__).parents[2] / "src"

KINDS = {
    "fairlead.manifest.json": "manifest",
    "fairlead.actions.json": "actions",
    "cli.py": "cli",
    "tea-shop.pyz": "zipapp",
    "mcp_stdio.py": "mcp",
    "fairlead.mcp.json": "mcp-descriptor",
    "server.json": "mcp-registry",
    "GUIDE.md": "guide-doc",
    "llms.txt": "llms",
    "openapi.json": "openapi",
    "client.ts": "client",
    "client.py": "client",
    "Containerfile": "container",
    "sbom.cdx.json": "sbom",
    "README.md": "readme",
    "fairlead.bundle.json": "bundle-report",
    "SHA256SUMS": "checksums",
}


def told(run: Fairlead, *arguments: str) -> dict[str, Any]:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_build_without_a_target_is_the_bundle(run: Fairlead, project: Path) -> None:
    built = told(run, "build")
    out = project / "dist" / "fairlead"
    assert (built["ok"], built["name"], built["outDir"], built["targets"]) == (
        True,
        "Tea Shop",
        str(out),
        ["bundle"],
    )
    assert {Path(file["path"]).name: file["kind"] for file in built["files"]} == KINDS
    assert sorted(contents(out)) == sorted(KINDS)
    runnable = {file["path"] for file in built["files"] if file["executable"]}
    assert runnable == {str(path) for path in out.iterdir() if path.stat().st_mode & stat.S_IXUSR}


def test_the_report_names_the_files_the_source_and_the_commands(run: Fairlead) -> None:
    report = told(run, "build")["report"]
    assert report["source"] == {"appModule": "app", "appExport": "app"}
    assert set(report["commands"]) == {"cli", "mcp", "pack"}
    assert report["attribution"]["vendor"] == "Tea Ltd"
    assert {file["filename"] for file in report["files"]} >= {"cli.py", "GUIDE.md"}


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("manifest", {"fairlead.manifest.json"}),
        ("docs", {"GUIDE.md", "llms.txt"}),
        ("openapi", {"openapi.json"}),
        ("client", {"client.ts", "client.py"}),
        ("container", {"Containerfile"}),
    ],
)
def test_a_target_alone_writes_its_files_and_the_report(
    run: Fairlead, project: Path, target: str, names: set[str]
) -> None:
    told(run, "build", target, "--out-dir", "out")
    assert set(contents(project / "out")) == names | {"fairlead.bundle.json", "SHA256SUMS"}


def test_91_the_guide_can_be_called_otherwise(run: Fairlead, project: Path) -> None:
    told(run, "build", "docs", "--filename", "TEA.md")
    assert "TEA.md" in contents(project / "dist" / "fairlead")


@pytest.mark.parametrize(
    ("arguments", "ready"),
    [(("dev", "--no-open"), "actions"), (("serve", "--workers", "2"), "There are no keys")],
)
def test_processes_that_a_launcher_starts_run_no_code_of_the_folder_either(
    run: Fairlead, project: Path, tmp_path: Path, arguments: tuple[str, ...], ready: str
) -> None:
    told(run, "build", "cli")
    (tmp_path / "app.py").write_text("raise ValueError('code of the folder that it is run in')")
    command = [sys.executable, str(project / "dist/fairlead/cli.py"), *arguments, "--port", "0"]
    environ = {**os.environ, "PYTHONPATH": str(SRC)}
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        said = ""
        for line in started.stderr:
            said += line
            if "/docs" in line:
                site = line.split()[1].removesuffix("/docs")
            if ready in line or "ValueError" in line:
                break
        try:
            assert "ValueError" not in said
            if "serve" in arguments:
                assert httpx.get(f"{site}/fairlead/actions", timeout=20).status_code == 200
        finally:
            started.terminate()
        assert "ValueError" not in started.stderr.read()


def test_nothing_that_is_hidden_is_built(run: Fairlead, project: Path) -> None:
    told(run, "build")
    for name, content in contents(project / "dist" / "fairlead").items():
        if not name.endswith(".pyz"):
            assert b"audit" not in content.lower(), name


def test_launchers_run_from_anywhere(run: Fairlead, execute: Fairlead, project: Path, tmp_path: Path) -> None:
    told(run, "build")
    out = project / "dist" / "fairlead"
    (tmp_path / "app.py").write_text("raise ValueError('code of the folder that it is run in')")
    python = ["env", f"PYTHONPATH={SRC}", sys.executable]
    for program in ("cli.py", "tea-shop.pyz"):
        done = execute([*python, out / program, "stock", "--output", "json"], tmp_path)
        assert json.loads(done.stdout)["data"] == 2, done.stderr


def test_checksums_hold_for_every_file(run: Fairlead, project: Path) -> None:
    told(run, "package")
    out = contents(project / "dist" / "fairlead")
    lines = out.pop("SHA256SUMS").decode().splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    assert sums == {name: hashlib.sha256(content).hexdigest() for name, content in out.items()}


def test_two_builds_are_equal_to_the_byte(run: Fairlead, project: Path) -> None:
    told(run, "package", "--out-dir", "one")
    os.utime(project / "app.py", (1, 1))
    told(run, "package", "--out-dir", "two")
    assert contents(project / "one") == contents(project / "two")


def test_the_descriptor_has_a_snippet_for_each_client(run: Fairlead, project: Path) -> None:
    (project / "fairlead.toml").write_text("[mcp.env]\nTEA = 'green'\n[package]\nmcp_server_name = 'teas'\n")
    told(run, "build", "mcp")
    descriptor = json.loads((project / "dist/fairlead/fairlead.mcp.json").read_text())
    server = {"command": "tea-shop-mcp", "args": [], "env": {"TEA": "green"}}
    assert descriptor["snippets"]["claudeDesktop"] == {"mcpServers": {"teas": server}}
    assert descriptor["snippets"]["vscode"]["servers"]["teas"]["type"] == "stdio"
    registry = json.loads((project / "dist/fairlead/server.json").read_text())
    assert registry["packages"][0]["identifier"] == "tea-shop-fairlead"


def judge_of_boms() -> jsonschema_rs.Validator:
    """CycloneDX's own schema, with those that it refers to."""

    def schema(name: str) -> Any:
        return json.loads((files("cyclonedx") / f"schema/_res/{name}.SNAPSHOT.schema.json").read_text())

    address = "http://cyclonedx.org/schema/{}.SNAPSHOT.schema.json".format
    others = ("spdx", "jsf-0.82", "cryptography-defs")
    registry = jsonschema_rs.Registry([(address(name), schema(name)) for name in others])
    return jsonschema_rs.validator_for(schema("bom-1.6"), registry=registry, validate_formats=True)


def test_the_bill_of_materials_is_one_and_lists_what_the_app_stands_on(run: Fairlead, project: Path) -> None:
    (project / "pyproject.toml").write_text(
        "[project]\nname = 'shop'\ndependencies = ['fairlead[serve]', 'httpx', 'not-installed-here']\n"
    )
    told(run, "build")
    text = (project / "dist/fairlead/sbom.cdx.json").read_text()
    bom = json.loads(text)
    assert [str(error) for error in judge_of_boms().iter_errors(bom)] == []
    names = {each["name"] for each in bom["components"]}
    assert {"fairlead", "pydantic", "orjson", "uvicorn", "httpx", "httpcore"} <= names
    assert not {"twine", "pytest", "not-installed-here"} & names
    needs = {each["ref"].partition("@")[0]: each["dependsOn"] for each in bom["dependencies"]}
    assert {each.partition("@")[0] for each in needs["tea-shop-fairlead"]} == {
        "pkg:pypi/fairlead",
        "pkg:pypi/httpx",
    }
    assert "pkg:pypi/uvicorn" in {each.partition("@")[0] for each in needs["pkg:pypi/fairlead"]}


def test_settings_flags_and_the_project_file_name_the_package(run: Fairlead, project: Path) -> None:
    (project / "pyproject.toml").write_text(
        "[project]\nname = 'shop'\nversion = '3.0'\ndependencies = ['orjson']\n"
    )
    (project / "fairlead.toml").write_text("[package]\nname = 'fine-teas'\nbin_name = 'teas'\n")
    packaged = told(run, "package", "--package-version", "4.5")
    assert Path(packaged["packageFile"]).name == "fine_teas-4.5-py3-none-any.whl"
    assert told(run, "package", "--dry-run")["packageFile"] is None


async def test_the_installed_wheel_runs_its_commands(
    run: Fairlead, execute: Fairlead, install: Callable[..., Path], tmp_path: Path
) -> None:
    commands = install(Path(told(run, "package")["packageFile"]), "fairlead", by="pip")
    (tmp_path / "app.py").write_text("raise ValueError('code of the folder that it is run in')")
    done = execute([commands / "tea-shop", "stock", "--of", "cup", "--output", "json"], tmp_path)
    assert json.loads(done.stdout)["data"] == 1, done.stderr
    where = execute([commands / "python", "-c", "import fairlead; print(fairlead.__file__)"], tmp_path)
    assert str(tmp_path) in where.stdout
    taken = "import sys; sys.modules['app'] = sys; from tea_shop_fairlead import app"
    assert "is another module here" in execute([commands / "python", "-c", taken], tmp_path).stderr
    page = execute([commands / "tea-shop", "--help"], tmp_path).stdout
    assert f"Usage: {commands / 'tea-shop'} ACTION" in page
    assert "--app" not in page
    lacking = execute([commands / "tea-shop", "package"], tmp_path)
    assert "pip install 'fairlead[package]'" in lacking.stderr
    assert not (tmp_path / "dist").exists()
    same = ["installed:tea-shop-fairlead"] * 2
    manifest = execute([commands / "fairlead", "diff", *same], tmp_path)
    assert json.loads(manifest.stdout)["changes"] == [], manifest.stderr
    server = StdioServerParameters(command=str(commands / "tea-shop-mcp"), cwd=tmp_path)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        assert [tool.name for tool in (await session.list_tools()).tools] == ["stock", "buy"]
        answer = await session.call_tool("stock", {"of": "tea"})
        assert answer.structured_content == {"result": 2}


HUT = """
from fairlead import App

app = App("hut", description="Rest.")
shed = App("shed", description="Keep tools.")
"""


def test_a_build_is_about_the_app_and_the_project_that_were_named(
    run: Fairlead, project: Path, tmp_path: Path
) -> None:
    (project / "hut.py").write_text(HUT)
    assert told(run, "build", "manifest", "--app-module", "hut")["name"] == "hut"
    assert told(run, "build", "manifest", "--app-module", "hut", "--app-export", "shed")["name"] == "shed"
    (tmp_path / "app.py").write_text(HUT)
    built = run("build", "manifest", "--cwd", "shop", cwd=tmp_path)
    assert json.loads(built.stdout)["name"] == "Tea Shop"
    assert json.loads((project / "dist/fairlead/fairlead.manifest.json").read_text())["name"] == "Tea Shop"
    (project / "old.json").write_text(run("manifest").stdout)
    assert run("diff", "--cwd", "shop", "old.json", cwd=tmp_path).returncode == 0


@pytest.mark.usefixtures("parts_are_warm")
def test_a_build_refuses_files_of_another_app(project: Path) -> None:
    with chdir(project), pytest.raises(Failure, match="not 'hut'"):
        App("hut").build(targets=["manifest"])
    assert not (project / "dist").exists()


def test_publishing_is_a_dry_run_unless_told_otherwise(run: Fairlead) -> None:
    published = told(run, "publish")
    assert published["published"] == "dry-run"
    assert published["stdout"].rstrip().endswith(": PASSED")
    assert published["packageFile"].endswith("tea_shop_fairlead-1.2.0-py3-none-any.whl")


def test_a_private_package_is_not_published(run: Fairlead, project: Path) -> None:
    (project / "fairlead.toml").write_text("[package]\nprivate = true\n")
    done = run("publish", "--live")
    assert done.returncode == 3
    assert "package.private" in done.stderr
    assert not (project / "dist").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("build", "bundel"), 2),
        (("build", "--out-dir", "app.py"), 2),
        (("build", "--app-module", "nowhere"), 2),
        (("build", "--app-export", "x"), 2),
        (("build", "--cwd", "nowhere"), 2),
        (("build", "--nope"), 2),
        (("package", "--package-name", "../x"), 2),
        (("docs", "--filename", "../GUIDE.md"), 2),
        (("docs", "--out-dir", "app.py"), 2),
        (("docs", "--cwd", "nowhere"), 2),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    run: Fairlead, project: Path, arguments: tuple[str, ...], code: int
) -> None:
    before = sorted(path for path in project.rglob("*") if "__pycache__" not in path.parts)
    done = run(*arguments)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert sorted(path for path in project.rglob("*") if "__pycache__" not in path.parts) == before


def test_a_name_of_odd_characters_does_no_harm(run: Fairlead, execute: Fairlead, project: Path) -> None:
    app = (project / "app.py").read_text()
    odd = app.replace('"Tea Shop"', repr('Tea "" \\N Shop 🍵"')).replace('"Sell tea."', repr('Sell\n"🍵"'))
    (project / "app.py").write_text(odd)
    told(run, "package", "--out-dir", "out")
    done = execute([sys.executable, project / "out" / "cli.py", "stock", "--output", "json"], project)
    assert json.loads(done.stdout)["data"] == 2, done.stderr


def test_a_package_does_not_hide_what_the_app_imports(run: Fairlead, project: Path) -> None:
    wheel = told(run, "package", "--package-name", "shelf")["packageFile"]
    with zipfile.ZipFile(wheel) as archive:
        assert {name.split("/")[0] for name in archive.namelist()} == {
            "shelf_package",
            "shelf-1.2.0.dist-info",
        }


def test_hidden_files_and_broken_links_stay_behind(run: Fairlead, project: Path) -> None:
    (project / "shelf" / ".env").write_text("SECRET=1")
    (project / "shelf" / "gone").symlink_to("nowhere")
    told(run, "build", "cli", "--out-dir", "out")
    with zipfile.ZipFile(project / "out" / "tea-shop.pyz") as archive:
        assert not [name for name in archive.namelist() if name.endswith((".env", "gone"))]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("[build]\ninclude = ['../../../../etc/hostname']", "not inside"),
        ("[build]\ninclude = ['/etc/hostname']", "not inside"),
        ("[build]\ninclude = ['nothing.txt']", "no such file"),
        ("[package]\nbin_name = '../x'", "command's name"),
        ("[mcp]\ntransport = 'http'", "mcp.url"),
    ],
)
def test_settings_that_lead_astray_are_refused(
    run: Fairlead, project: Path, settings: str, said: str
) -> None:
    (project / "fairlead.toml").write_text(settings)
    done = run("build")
    assert done.returncode != 0
    assert said in done.stderr
    assert not (project / "dist").exists()


def test_a_remote_server_is_named_by_its_address(run: Fairlead, project: Path) -> None:
    (project / "fairlead.toml").write_text("[mcp]\ntransport = 'http'\nurl = 'https://tea.example/mcp'\n")
    told(run, "build", "mcp", "--out-dir", "out")
    registry = json.loads((project / "out" / "server.json").read_text())
    assert registry["name"] == "com.example/tea-shop"
    assert registry["remotes"] == [{"type": "streamable-http", "url": "https://tea.example/mcp"}]
    assert "packages" not in registry


def test_the_same_verbs_are_methods_of_the_app(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fairlead.surfaces.cli import locate

    monkeypatch.syspath_prepend(str(project))
    app = locate.load(locate.Place("app.py", "test"), str(project))
    monkeypatch.delitem(sys.modules, "app")
    monkeypatch.delitem(sys.modules, "shelf")
    built = app.build(targets=["docs"], cwd=project, out_dir="out")
    assert built["ok"] is True
    exported = app.export_docs(cwd=project, out_dir="docs", html=True, llms=True)
    assert [file["kind"] for file in exported["files"]] == ["guide-doc", "llms", "html", "html", "html"]
    assert app.publish(cwd=project)["published"] == "dry-run"


def test_a_wheel_has_the_facts_of_the_app_and_a_command_for_each_way_to_start_it(run: Fairlead) -> None:
    with zipfile.ZipFile(told(run, "package")["packageFile"]) as archive:
        inside = {name.rpartition("/")[2]: archive.read(name).decode() for name in archive.namelist()}
    facts = inside["METADATA"].partition("\n\n")[0].splitlines()
    assert {"Name: tea-shop-fairlead", "Version: 1.2.0", "Summary: Sell tea.", "Author: Tea Ltd"} <= set(
        facts
    )
    assert "Project-URL: Homepage, https://example.com" in facts
    assert "# Tea Shop Guide" in inside["METADATA"]
    assert "tea-shop = tea_shop_fairlead:cli\n" in inside["entry_points.txt"]
    assert "tea-shop-mcp = tea_shop_fairlead:mcp\n" in inside["entry_points.txt"]


def test_the_readme_of_a_build_says_how_to_run_package_publish_and_connect_it(
    run: Fairlead, project: Path
) -> None:
    told(run, "build")
    text = (project / "dist/fairlead/README.md").read_text()
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "Attribution",
        "Files",
        "1. Run Locally",
        "2. Package For Distribution",
        "3. Publish",
        "4. Connect As MCP",
        "5. Ship CLI Only",
        "6. HTTP Deployment",
    ]
    files = {path.name for path in (project / "dist/fairlead").iterdir()} - {"README.md"}
    assert {name for name in files if name not in text} == set()


@pytest.mark.parametrize(
    ("name", "slug"),
    [("  Tea Shop! ", "tea-shop"), ("a--b__c", "a-b-c"), ("🍵", "fairlead-app"), ("../../x", "x")],
)
def test_a_name_becomes_one_that_files_and_commands_can_have(name: str, slug: str) -> None:
    assert slug_of(name) == slug
