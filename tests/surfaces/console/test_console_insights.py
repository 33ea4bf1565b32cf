"""The console's page of Insights, in a real browser: lines are there, are searched, and come by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fairlead import App
from fairlead.plugins.logs import Insights
from fairlead.surfaces.console import Console
from held import Held

ANN = "A1111111-1111-4111-8111-111111111111"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[[Any], Any]) -> Iterator[Any]:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    app = App("harbour", store=f"sqlite:///{tmp_path}/harbour.db")
    app.add_plugins()
    insights = Insights(app.store)
    insights.log("acme.notes", ANN, 2, "Webhook <b>registered</b>", '{"event":"hook","status":200}')
    insights.log("acme.notes", None, 3, "Slow answer", '{"event":"slow"}')
    insights.call("acme.mail", ANN, "POST /host-api/dispatch", 202, None, 1.5)
    insights.flush()
    made = Console(app)
    served = serve(made)
    served.insights = insights
    served.open(made.link(served.address))
    yield served
    insights.close()


@pytest.fixture
def tab(browser: Browser, served: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1100, "height": 700}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.add_init_script(
        f"if (origin !== 'null') localStorage.setItem('fairlead:session', '{served.session}')"
    )
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.goto(f"{served.address}/#/")
    yield page
    assert wrong == []
    context.close()


def lines(tab: Page) -> Any:
    return tab.get_by_role("log").locator("details")


def test_lines_are_listed_newest_first_and_what_they_say_stays_text(tab: Page) -> None:
    tab.get_by_role("link", name="Insights").click()
    expect(lines(tab)).to_have_count(3)
    expect(lines(tab).first).to_contain_text("POST /host-api/dispatch")
    expect(lines(tab).last).to_contain_text("Webhook <b>registered</b>")


def test_a_line_opens_to_its_payload_and_its_fields_narrow_the_search(tab: Page, served: Any) -> None:
    tab.goto(f"{served.address}/#/insights")
    lines(tab).last.locator("summary").click()
    expect(lines(tab).last).to_contain_text('"event": "hook"')
    expect(lines(tab).last).to_contain_text(ANN)
    lines(tab).last.get_by_role("button", name="event hook").click()
    expect(lines(tab)).to_have_count(1)
    expect(tab.get_by_role("searchbox", name="Search lines")).to_have_value("event=hook")


def test_lines_are_searched_by_words_plugin_level_and_time(tab: Page, served: Any) -> None:
    tab.goto(f"{served.address}/#/insights")
    search = tab.get_by_role("searchbox", name="Search lines")
    search.fill("SLOW answer")
    expect(lines(tab)).to_have_count(1)
    search.fill("nowhere")
    expect(tab.get_by_text("Nothing was found.")).to_be_visible()
    search.fill("")
    tab.get_by_label("Plugin", exact=True).select_option("acme.notes")
    expect(lines(tab)).to_have_count(2)
    tab.get_by_label("Level").select_option("WARN")
    expect(lines(tab)).to_have_count(1)
    tab.get_by_label("Level").select_option("")
    tab.get_by_label("Time").select_option("1")
    expect(lines(tab)).to_have_count(2)


def test_a_new_line_comes_by_itself_and_an_open_one_stays_open(tab: Page, served: Any) -> None:
    tab.goto(f"{served.address}/#/insights/acme.notes")
    expect(lines(tab)).to_have_count(2)
    lines(tab).last.locator("summary").click()
    served.insights.log("acme.notes", None, 4, "Broken")
    expect(lines(tab)).to_have_count(3)
    expect(lines(tab).first).to_contain_text("Broken")
    expect(lines(tab).last).to_have_attribute("open", "")


def test_older_lines_are_there_when_they_are_asked_for(tab: Page, served: Any) -> None:
    for number in range(120):
        served.insights.log("acme.loud", None, 2, f"line {number}")
    served.insights.flush()
    tab.goto(f"{served.address}/#/insights/acme.loud")
    expect(lines(tab)).to_have_count(100)
    tab.get_by_role("button", name="Older").click()
    expect(lines(tab)).to_have_count(120)
    expect(lines(tab).last).to_contain_text("line 0")
    expect(tab.get_by_role("button", name="Older")).to_be_hidden()


def test_numbers_that_a_double_cannot_hold_are_shown_as_they_were_logged(tab: Page, served: Any) -> None:
    served.insights.log("acme.notes", None, 2, "Counted", '{"id":9007199254740993}')
    served.insights.flush()
    tab.goto(f"{served.address}/#/insights/acme.notes")
    lines(tab).first.locator("summary").click()
    expect(lines(tab).first.get_by_role("region", name="Payload")).to_contain_text('"id": 9007199254740993')


def test_the_page_of_a_plugin_that_never_rests_does_not_grow_without_end(tab: Page, served: Any) -> None:
    tab.clock.install()
    tab.goto(f"{served.address}/#/insights/acme.loud")
    expect(tab.get_by_text("Nothing was found.")).to_be_visible()
    for number in range(1100):
        served.insights.log("acme.loud", None, 2, f"line {number};")
        if number % 90 == 0:
            served.insights.flush()
            tab.clock.run_for(2000)
            expect(lines(tab).first).to_contain_text(f"line {number};")
    expect(lines(tab)).to_have_count(500)
    tab.get_by_role("button", name="Older").click()
    expect(lines(tab)).to_have_count(600)


def test_older_lines_come_once_however_often_they_are_asked_for(tab: Page, served: Any) -> None:
    for number in range(250):
        served.insights.log("acme.loud", None, 2, f"line {number}")
    served.insights.flush()
    tab.goto(f"{served.address}/#/insights/acme.loud")
    expect(lines(tab)).to_have_count(100)
    first = Held(tab, "**/api/insights?*before=*")
    tab.get_by_role("button", name="Older").dblclick()
    first.asked().go()
    expect(lines(tab).nth(199)).to_contain_text("line 50")
    tab.get_by_role("button", name="Older").click()
    expect(lines(tab).last).to_contain_text("line 0")
    expect(lines(tab)).to_have_count(250)


def test_more_new_lines_than_are_told_at_once_leave_no_gap(tab: Page, served: Any) -> None:
    served.insights.log("acme.loud", None, 2, "the first line")
    served.insights.flush()
    tab.goto(f"{served.address}/#/insights/acme.loud")
    expect(lines(tab)).to_have_count(1)
    for number in range(120):
        served.insights.log("acme.loud", None, 2, f"line {number}")
    served.insights.flush()
    expect(lines(tab).first).to_contain_text("line 119")
    tab.get_by_role("button", name="Older").click()
    expect(lines(tab)).to_have_count(121)
    expect(lines(tab).last).to_contain_text("the first line")


def test_the_page_s_question_is_for_its_session_and_checked(served: Any) -> None:
    assert served.send("GET", "/api/insights", session=False).status == 401
    told = served.send("GET", "/api/insights?text=event%3Dslow&plugin=acme.notes").json
    assert [line["message"] for line in told["lines"]] == ["Slow answer"]
    assert told["plugins"] == ["acme.mail", "acme.notes"]
    assert served.send("GET", "/api/insights?level=loud").status == 400
    assert served.send("GET", "/api/insights?since=soon").status == 400
    assert served.send("POST", "/api/insights", {}).status == 404
