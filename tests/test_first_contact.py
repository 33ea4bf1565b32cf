"""The mistakes that newcomers make most: each is provoked for real, and told with its code and a way out."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from servers import ends_with_us, free_port, until

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
APP = '''from fairlead import App

app = App("shop", description="Sell things.")


@app.action
def price(item: str, count: int = 1) -> int:
    """Tell the price."""
    return 3 * count
'''
FILES = {
    "app.py": APP,
    "broken.py": 'from fairlead import App\napp = App("x"\n',
    "lacking.py": "import requets\n",
    "twice.py": "from app import app, price\n\n\n"
    "@app.action(name='price')\ndef cost() -> int:\n    'Tell.'\n    return 1\n",
    "without.py": "import sys\nsys.modules['uvicorn'] = None\n"
    "from fairlead.surfaces.cli import main\nmain(sys.argv[1:])\n",
}


class Mistake(NamedTuple):
    command: str
    exit_code: int
    code: str
    #: What is said, as the page on troubleshooting has it for a heading.
    heading: str


MISTAKES = [
    Mistake("cd empty && fairlead actions", 2, "VALIDATION_ERROR", "No app was found."),
    Mistake("fairlead --app ap.py actions", 2, "VALIDATION_ERROR", "There is no file 'ap.py'."),
    Mistake("fairlead --app app:shop actions", 2, "VALIDATION_ERROR", "In module 'app', nothing"),
    Mistake("fairlead --app broken.py actions", 1, "config_error", "Importing 'broken'"),
    Mistake("fairlead --app lacking.py actions", 1, "config_error", "Importing 'lacking'"),
    Mistake("fairlead --app twice.py actions", 1, "config_error", "Importing 'twice'"),
    Mistake("fairlead prise --item rope", 4, "ACTION_NOT_FOUND", "No action or command is named"),
    Mistake("fairlead price --itme rope", 2, "VALIDATION_ERROR", "--itme: "),
    Mistake("fairlead price", 2, "VALIDATION_ERROR", "--item: "),
    Mistake("fairlead price rope", 2, "VALIDATION_ERROR", "argument 1: stands alone"),
    Mistake("fairlead price --item rope --count two", 2, "VALIDATION_ERROR", "--count: "),
    Mistake("fairlead serve app:app", 2, "VALIDATION_ERROR", "argument 1: an app is named before"),
    Mistake("fairlead serve --host 0.0.0.0", 2, "VALIDATION_ERROR", "Without keys or tokens"),
    Mistake("fairlead serve --port $TAKEN", 5, "EXTERNAL_SERVICE_ERROR", "Cannot listen on"),
    Mistake("python without.py serve", 1, "config_error", "Serving needs uvicorn"),
    Mistake(
        "echo hi | env -u OPENAI_API_KEY fairlead chat --model openai/gpt-5-mini",
        *(1, "config_error", "The model provider 'openai'"),
    ),
    Mistake("fairlead chat", 4, "NOT_FOUND", "The app 'shop' has no agent"),
    Mistake(
        "FAIRLEAD_DATABASE_URL=postgresql://127.0.0.1:$FREE/shop fairlead store status",
        *(5, "EXTERNAL_SERVICE_ERROR", "The store ... cannot be reached"),
    ),
    Mistake(
        "FAIRLEAD_DATABASE_URL=mysql://localhost/shop fairlead store status",
        *(1, "config_error", "The database's URL is not one"),
    ),
    Mistake("fairlead init --cwd .", 1, "CONFLICT", "Already there: app.py."),
    Mistake("fairlead tasks show abc", 4, "NOT_FOUND", "There is no task 'abc'."),
]
#: What is sent, as curl would, and the status, the code and the heading of what comes back.
REQUESTS = [
    (
        "application/x-www-form-urlencoded",
        '{"input": {}}',
        415,
        "UNSUPPORTED_MEDIA_TYPE",
        "The request's content",
    ),
    ("application/json", '{"item": "rope"}', 400, "VALIDATION_ERROR", "A call has no such member."),
]


def headings() -> list[str]:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    return re.findall(r"^## (.+)$", page.partition("# On first contact")[2], re.MULTILINE)


def heading(start: str) -> str:
    [found] = [each for each in headings() if each.startswith(start)]
    return found


def says(text: str, heading: str) -> bool:
    """Whether a text has all of a heading, in which dots stand for what differs."""
    return re.search(".*".join(map(re.escape, heading.split("..."))), text) is not None


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A newcomer's folder, with an app and some that are broken."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
    return tmp_path


def surroundings(place: Path, **more: str) -> dict[str, str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    plain = {"PATH": path, "NO_COLOR": "1", "HOME": str(place), "FAIRLEAD_DATA": str(place / "data")}
    return os.environ | plain | more


def shell(line: str, place: Path, **more: str) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=place,
        env=surroundings(place, **more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=50,
    )
    return done.returncode, done.stdout


def test_every_mistake_on_the_page_is_provoked_here() -> None:
    provoked = [heading(each.heading) for each in MISTAKES] + [heading(each[-1]) for each in REQUESTS]
    assert sorted(provoked) == sorted(headings())
    assert len(provoked) >= 20


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.heading)
def test_a_mistake_is_told_with_its_code_and_a_way_out(mistake: Mistake, place: Path, warm_path: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = {"TAKEN": str(taken.getsockname()[1]), "FREE": str(free_port())}
        exit_code, said = shell(mistake.command, place, PATH=warm_path, **ports)
    assert exit_code == mistake.exit_code, said
    assert mistake.code in said
    assert says(said, heading(mistake.heading)), said
    assert "Traceback" not in said


@contextmanager
def serving(place: Path) -> Iterator[str]:
    port = free_port()
    command = [str(BIN / "fairlead"), "serve", "--port", str(port)]
    log = (place / "log").open("wb")
    with (
        log,
        subprocess.Popen(
            command, cwd=place, env=surroundings(place), stdout=log, stderr=log, preexec_fn=ends_with_us()
        ) as server,
    ):
        until(lambda: b"Serving" in (place / "log").read_bytes(), "nothing is served")
        yield f"http://127.0.0.1:{port}"
        server.terminate()


def test_a_mistaken_request_is_told_with_its_code_and_a_way_out(place: Path) -> None:
    with serving(place) as url, httpx.Client(base_url=url) as client:
        until(lambda: client.get("/readyz").status_code == 200, "nothing is ready")
        for kind, body, status, code, start in REQUESTS:
            answer = client.post(
                "/fairlead/actions/price/invoke", content=body, headers={"Content-Type": kind}
            )
            assert answer.status_code == status
            assert answer.json()["error"]["code"] == code
            assert heading(start) in answer.text
