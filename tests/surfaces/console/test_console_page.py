"""The page in a real browser: finding an action, filling it in, running it, and reading what came of it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from fairlead import App
from held import Held

TASKBOARD = Path(__file__).parents[3] / "examples" / "taskboard" / "app.py"
Visit = Callable[[str], Page]


def run(page: Page) -> None:
    page.keyboard.press("Control+Enter")


def outcome(page: Page) -> Locator:
    return page.get_by_role("region", name="Outcome", exact=True)


def editor(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Input as JSON")


def input_of(page: Page) -> Any:
    return json.loads(editor(page).input_value())


def write(page: Page, value: Any) -> None:
    editor(page).fill(json.dumps(value))


def form(page: Page) -> Locator:
    return page.get_by_role("region", name="Input as a form")


def member(page: Page, name: str) -> Locator:
    return form(page).locator(f'[data-field="{name}"]').first


def ran(page: Page, state: str = "ok") -> Locator:
    shown = outcome(page)
    expect(shown).to_have_attribute("data-state", state)
    return shown


def result_of(page: Page) -> Any:
    """The envelope of the call that was made, as the page shows it."""
    ran(page)
    page.get_by_role("tab", name="Envelope").click()
    return json.loads(outcome(page).locator("pre").inner_text())["data"]


def until(page: Page, script: str) -> None:
    """Wait for something that is not drawn. (The page's policy forbids Playwright's own way of waiting.)"""
    for _ in range(500):
        if page.evaluate(script):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"never came true: {script}")


# Finding an action.


def test_actions_are_listed_with_what_one_should_know_first(visit: Visit) -> None:
    page = visit("echo")
    listed = page.get_by_role("navigation", name="Actions")
    expect(listed.get_by_role("link", name="burn_down")).to_contain_text("destructive")
    expect(listed.get_by_role("link", name="whisper")).to_contain_text("private")
    expect(listed.get_by_role("link", name="old_echo")).to_contain_text("deprecated")
    expect(listed.get_by_role("link", name="sign")).to_contain_text("asks first")
    page.goto(page.url.replace("echo", "burn_down"))
    pills = page.locator(".pills")
    for word in ("destructive", "public", "non-idempotent", "asks first", "needs harbour:burn"):
        expect(pills).to_contain_text(word)


def test_search_finds_by_name_description_and_pill_and_enter_opens_the_first(visit: Visit) -> None:
    page = visit("echo")
    page.keyboard.press("/")
    search = page.get_by_role("searchbox", name="Search actions")
    expect(search).to_be_focused()
    search.fill("pier destructive")
    expect(page.locator(".count")).to_have_text(re.compile(r"^1 of \d+$"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Burn Down", level=1)).to_be_visible()
    expect(page.get_by_role("link", name="burn_down")).to_have_attribute("aria-current", "page")
    search.fill("nothing like it")
    expect(page.locator(".count")).to_have_text(re.compile("^0 of"))
    search.press("Escape")
    search.press("ArrowDown")
    search.page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="echo", exact=False).first).to_be_focused()


def test_an_unknown_action_is_said_to_be_none(visit: Visit) -> None:
    page = visit("echoo")
    expect(page.get_by_role("heading", name="No such action")).to_be_visible()


def test_an_address_that_cannot_be_read_is_that_of_no_action(visit: Visit) -> None:
    page = visit("%zz")
    expect(page.get_by_role("heading", name="No such action")).to_be_visible()


def test_actions_and_the_consoles_own_pages_may_have_the_same_names(
    browser: Browser, serve: Callable[[Any], Any]
) -> None:
    app = App("twins", description="Actions that are called like pages.")

    async def twin() -> str:
        """Be called like a page."""
        return "twin"

    for name in ("history", "failures", "pipelines"):
        app.action(twin, name=name, title=f"The action {name}")
    page = opened(browser, serve, app)
    for name, title in (("history", "History"), ("failures", "Failure codes")):
        page.get_by_role("navigation").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"The action {name}")
        page.get_by_role("banner").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
    page.context.close()


def test_what_is_deprecated_points_to_its_replacement(visit: Visit) -> None:
    page = visit("old_echo")
    expect(page.get_by_text("It is slow.")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="echo").click()
    expect(page.get_by_role("heading", name="Echo", exact=True)).to_be_visible()


# The form and the JSON beside it.

GIVEN = {
    "text": "two\nlines",
    "count": 3,
    "ratio": 0.5,
    "day": "2026-02-03",
    "moment": "2026-02-03T10:00:00Z",
    "clock": "10:00:00",
    "span": "PT1H",
    "key": "123e4567-e89b-12d3-a456-426614174000",
    "pet": {"kind": "dog", "good": False},
    "either": ["x", "y"],
    "maybe": None,
    "tags": ["a", "b"],
    "pair": [1, "one"],
    "stock": {"rope": 2, "tar": 5},
    "anything": {"any": ["thing"]},
    "node": {"name": "root", "children": [{"name": "leaf", "children": []}]},
    "address": {"street": "Bryggen 1", "city": "Bergen"},
    "size": "m",
    "colour": "ultramarine",
    "flag": True,
}


def test_json_goes_into_the_form_and_comes_back_the_same(visit: Visit) -> None:
    page = visit("everything")
    write(page, GIVEN)
    expect(member(page, "text").get_by_role("textbox")).to_have_value("two\nlines")
    expect(member(page, "day").locator("input")).to_have_value("2026-02-03")
    expect(member(page, "pet").get_by_role("combobox")).to_have_value("1")
    expect(member(page, "good").get_by_role("switch")).not_to_be_checked()
    expect(member(page, "either").locator("textarea")).to_have_count(2)
    expect(member(page, "stock").get_by_label("Name", exact=True)).to_have_count(2)
    expect(member(page, "size").get_by_role("radio", name="m")).to_be_checked()
    expect(member(page, "colour").get_by_role("combobox")).to_have_value("6")
    expect(member(page, "flag").get_by_role("switch")).to_be_checked()
    expect(member(page, "maybe").get_by_role("button", name="maybe is null")).to_have_attribute(
        "aria-pressed", "true"
    )
    # A change of one field leaves all the others as they were.
    member(page, "count").get_by_role("textbox").fill("4")
    assert input_of(page) == {**GIVEN, "count": 4}


def test_members_that_every_object_has_are_empty_until_they_are_given(visit: Visit) -> None:
    page = visit("race")
    for name in ("constructor", "__proto__"):
        expect(member(page, name).get_by_role("textbox")).to_have_value("")
    member(page, "driver").get_by_role("textbox").fill("Ada")
    assert input_of(page) == {"driver": "Ada"}
    given = json.loads('{"driver": "Ada", "constructor": "Babbage", "__proto__": "engine"}')
    for name in ("constructor", "__proto__"):
        member(page, name).get_by_role("textbox").fill(given[name])
    assert input_of(page) == given
    run(page)
    assert result_of(page) == given


def test_every_kind_of_field_can_be_filled_in_by_hand(visit: Visit) -> None:
    page = visit("everything")
    member(page, "text").get_by_role("textbox").fill("hello")
    member(page, "count").get_by_role("textbox").fill("7")
    member(page, "ratio").get_by_role("textbox").fill("-1.5e3")
    member(page, "day").locator("input").fill("2026-02-03")
    member(page, "moment").get_by_role("button", name="Now").click()
    member(page, "clock").get_by_role("textbox").fill("10:00:00")
    member(page, "span").get_by_role("textbox").fill("PT2H")
    member(page, "key").get_by_role("textbox").fill("123e4567-e89b-12d3-a456-426614174000")
    member(page, "pet").get_by_role("combobox").select_option("dog")
    member(page, "good").get_by_role("switch").click()
    member(page, "either").get_by_role("combobox").select_option("list of text")
    member(page, "either").get_by_role("button", name="Add an item").click()
    page.keyboard.type("first")
    member(page, "maybe").get_by_role("button", name="maybe is null").click()
    page.keyboard.type("perhaps")
    tags = member(page, "tags")
    for word in ("a", "b", "c"):
        tags.get_by_role("button", name="Add an item").click()
        page.keyboard.type(word)
    tags.get_by_role("button", name="Remove this item").nth(1).click()
    member(page, "pair").get_by_role("textbox").first.fill("5")
    member(page, "pair").get_by_role("textbox").last.fill("five")
    member(page, "stock").get_by_role("button", name="Add a name").click()
    page.keyboard.type("rope")
    member(page, "stock").get_by_role("textbox", name="value").fill("12")
    expect(member(page, "anything").get_by_role("textbox")).to_have_value("null")
    member(page, "anything").get_by_role("textbox").fill("[1, 2]")
    member(page, "name").get_by_role("textbox").fill("root")
    member(page, "children").get_by_role("button", name="Set children").click()
    member(page, "children").get_by_role("button", name="Add an item").click()
    page.keyboard.type("leaf")
    member(page, "street").get_by_role("textbox").fill("Bryggen 1")
    member(page, "city").get_by_role("textbox").fill("Bergen")
    member(page, "size").get_by_role("radio", name="l").check()
    member(page, "colour").get_by_role("combobox").select_option("blue")
    member(page, "second").get_by_role("button", name="Set second").click()
    member(page, "second").locator('[data-field="city"] textarea').fill("Oslo")
    member(page, "flag").get_by_role("switch").click()
    moment = input_of(page).pop("moment")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", moment)
    assert {key: value for key, value in input_of(page).items() if key != "moment"} == {
        "text": "hello",
        "count": 7,
        "ratio": -1500,
        "day": "2026-02-03",
        "clock": "10:00:00",
        "span": "PT2H",
        "key": "123e4567-e89b-12d3-a456-426614174000",
        "pet": {"kind": "dog", "good": False},
        "either": ["first"],
        "maybe": "perhaps",
        "tags": ["a", "c"],
        "pair": [5, "five"],
        "stock": {"rope": 12},
        "anything": [1, 2],
        "node": {"name": "root", "children": [{"name": "leaf"}]},
        "address": {"street": "Bryggen 1", "city": "Bergen"},
        "size": "l",
        "colour": "blue",
        "second": {"street": "", "city": "Oslo"},
        "flag": True,
    }
    run(page)
    assert result_of(page)["node"]["children"][0]["name"] == "leaf"


def test_what_is_optional_can_be_left_out_again(visit: Visit) -> None:
    page = visit("everything")
    write(page, {**GIVEN, "limit": 5, "second": GIVEN["address"], "note": ""})
    member(page, "limit").get_by_role("textbox").fill("")
    member(page, "second").get_by_role("button", name="Leave out second").click()
    member(page, "flag").get_by_role("button", name="Leave out flag").click()
    assert input_of(page).keys() & {"limit", "second", "flag", "note"} == {"note"}
    expect(member(page, "limit").get_by_role("textbox")).to_have_attribute("placeholder", "20")


def test_what_the_schema_does_not_know_stays_in_the_json(visit: Visit) -> None:
    page = visit("boats")
    write(page, {"n": 2, "more": {"x": 1}})
    expect(form(page)).to_contain_text("unknown to the schema: more")
    member(page, "n").get_by_role("textbox").fill("3")
    assert input_of(page) == {"n": 3, "more": {"x": 1}}


def test_an_input_that_is_no_object_has_a_form_too(visit: Visit) -> None:
    page = visit("total")
    assert input_of(page) == []
    for number in ("1.5", "2"):
        form(page).get_by_role("button", name="Add an item").click()
        page.keyboard.press("Control+A")
        page.keyboard.type(number)
    assert input_of(page) == [1.5, 2]
    run(page)
    expect(ran(page)).to_contain_text("3.5")
    page = visit("shout")
    page.get_by_role("textbox", name="input", exact=True).fill("a")
    run(page)
    expect(form(page).locator(".issue:visible")).to_have_count(1)
    page.keyboard.type("hoy")
    run(page)
    expect(ran(page)).to_contain_text("AHOY")


def test_a_form_starts_from_the_docs_example_and_shows_defaults(visit: Visit) -> None:
    page = visit("echo")
    assert input_of(page) == {"value": {"boats": [1, 2]}}
    write(page, {"value": 1})
    page.get_by_role("button", name="Start over").click()
    assert input_of(page) == {"value": {"boats": [1, 2]}}
    page = visit("boats")
    assert input_of(page) == {}
    expect(member(page, "n")).to_contain_text("default 150")


def test_json_that_is_none_is_complained_about_and_not_sent(visit: Visit) -> None:
    page = visit("echo")
    editor(page).fill('{"value": [1,\n 2}')
    expect(editor(page)).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".editor-box .issue")).to_contain_text("line 2")
    run(page)
    expect(outcome(page)).to_have_attribute("data-state", "idle")
    expect(editor(page)).to_be_focused()
    editor(page).fill('{"value": [1, 2]}')
    expect(page.locator(".editor-box .issue")).to_be_hidden()


def test_issues_stand_at_their_fields_and_go_when_they_are_mended(visit: Visit) -> None:
    page = visit("everything")
    wrong = {**GIVEN, "count": 11, "pair": [1, 2], "stock": {"rope": "many"}, "address": {"street": "x"}}
    write(page, {**wrong, "pet": {"kind": "cat", "lives": "x"}, "tags": ["a", 5], "note": 1})
    page.get_by_role("button", name="Run").click()
    ran(page, "failed")
    for name in ("count", "lives", "city"):
        expect(member(page, name).locator(".issue").first).to_be_visible()
        expect(member(page, name).locator("[aria-invalid]").first).to_be_visible()
    for name in ("pair", "stock", "tags", "note"):
        expect(member(page, name).locator(".issue:visible")).to_have_count(1)
    expect(member(page, "count").get_by_role("textbox")).to_be_focused()
    page.keyboard.type("0")
    expect(member(page, "count").locator(".issue")).to_be_hidden()
    outcome(page).get_by_role("button", name="address.city").click()
    expect(member(page, "city").get_by_role("textbox")).to_be_focused()


def test_a_number_that_is_none_yet_is_said_at_once(visit: Visit) -> None:
    page = visit("boats")
    member(page, "n").get_by_role("textbox").fill("12x")
    expect(member(page, "n").locator(".issue")).to_have_text("Not a number yet.")
    member(page, "n").get_by_role("textbox").fill("12")
    expect(member(page, "n").locator(".issue")).to_be_hidden()


def test_a_number_that_is_too_large_does_not_become_null(visit: Visit) -> None:
    page = visit("echo")
    editor(page).fill('{"value": 1e400}')
    expect(page.get_by_text("Not JSON: A number is too large.")).to_be_visible()
    editor(page).fill(f'{{"value": {"9" * 400}}}')
    assert input_of(page) == {"value": int("9" * 400)}
    page = visit("everything")
    member(page, "ratio").locator("input").fill("1e400")
    expect(member(page, "ratio")).to_contain_text("Not a number yet.")
    assert input_of(page)["ratio"] == "1e400"


def test_numbers_that_a_double_cannot_hold_are_neither_lost_in_nor_out(visit: Visit) -> None:
    page = visit("boats")
    member(page, "n").get_by_role("textbox").fill("9007199254740993")
    assert editor(page).input_value() == '{\n  "n": 9007199254740993\n}'
    page = visit("echo")
    write(page, {"value": 2**63 + 1})
    run(page)
    assert result_of(page) == 2**63 + 1
    page = visit("big")
    run(page)
    expect(outcome(page).get_by_role("tree")).to_contain_text("9007199254740993")


def test_types_that_contain_themselves_have_a_form(browser: Browser, serve: Callable[[Any], Any]) -> None:
    nested = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/nested"}}]}
    sum_ = {"prefixItems": [{"$ref": "#/$defs/term"}] * 2, "type": "array", "minItems": 2, "maxItems": 2}
    term = {"anyOf": [sum_, {"type": "integer"}]}
    members = {"nested": {"$ref": "#/$defs/nested"}, "term": {"$ref": "#/$defs/term"}}
    app = App("trees", description="Types that contain themselves.")

    @app.action(
        input={
            "type": "object",
            "properties": members,
            "required": ["nested", "term"],
            "$defs": {"nested": nested, "term": term},
        }
    )
    async def grow(input: Any) -> Any:
        """Give it back."""
        return input

    page = opened(browser, serve, app)
    write(page, {"nested": [1, [2]], "term": [[1, 2], 3]})
    expect(member(page, "nested").locator("select").first).to_have_value("1")
    run(page)
    assert result_of(page) == {"nested": [1, [2]], "term": [[1, 2], 3]}
    page.context.close()


# Running.


def test_logs_progress_and_artifacts_are_shown_while_it_runs(visit: Visit, console: Any) -> None:
    page = visit("load")
    run(page)
    shown = ran(page, "running")
    expect(shown.get_by_role("progressbar")).to_have_attribute("value", "50")
    expect(shown).to_contain_text("Half of it · 50 %")
    expect(shown.get_by_label("Logs")).to_contain_text("The first crate crate=1")
    expect(shown.get_by_role("link", name="bill.csv")).to_have_attribute(
        "href", "https://example.com/bill.csv"
    )
    expect(page.get_by_role("button", name="Run")).to_be_disabled()
    console.app.go.set()
    ran(page)
    page.get_by_role("tab", name="Logs 3").click()
    expect(shown.get_by_role("list", name="Logs")).to_contain_text("It is heavy")
    page.get_by_role("tab", name="Artifacts 2").click()
    with page.expect_download() as download:
        shown.get_by_role("link", name="stamp.txt").click()
    assert download.value.path().read_text() == "stamp"


def test_a_page_stays_as_it_is_while_its_action_runs(visit: Visit) -> None:
    page = visit("wait_here")
    parts = page.locator(".heading, .tabs, .inputs")
    places = "all => all.map((each) => each.getBoundingClientRect().toJSON())"
    before = parts.evaluate_all(places)
    run(page)
    ran(page, "running")
    assert parts.evaluate_all(places) == before
    page.keyboard.press("Escape")
    ran(page, "failed")


def test_cancelling_stops_the_work(visit: Visit, console: Any) -> None:
    page = visit("wait_here")
    console.app.stopped.clear()
    run(page)
    page.get_by_role("button", name="Cancel").click()
    expect(ran(page, "failed")).to_contain_text("CANCELLED")
    assert console.app.stopped.wait(10)
    console.app.stopped.clear()
    run(page)
    ran(page, "running")
    page.keyboard.press("Escape")
    ran(page, "failed")
    assert console.app.stopped.wait(10)


def test_a_destructive_action_asks_first(visit: Visit, console: Any) -> None:
    page = visit("burn_down")
    console.app.done.clear()
    run(page)
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("may not be undone")
    expect(asked.get_by_role("button", name="Do not run")).to_be_focused()
    page.keyboard.press("Enter")
    expect(asked).to_be_hidden()
    run(page)
    page.keyboard.press("Escape")
    expect(asked).to_be_hidden()
    expect(outcome(page)).to_have_attribute("data-state", "idle")
    assert console.app.done == []
    run(page)
    asked.get_by_role("button", name="Run burn_down").click()
    ran(page)
    assert console.app.done == ["burnt 1"]


def test_an_action_that_asks_for_a_token_is_asked_about_once(visit: Visit, console: Any) -> None:
    page = visit("sign")
    console.app.done.clear()
    run(page)
    expect(page.get_by_role("dialog")).to_contain_text("Sign a text")
    page.get_by_role("dialog").get_by_role("button", name="Run sign").click()
    ran(page)
    assert console.app.done == ["signed I agree"]


def test_all_of_what_is_to_be_confirmed_is_seen_as_it_is(visit: Visit, console: Any) -> None:
    page = visit("sign")
    write(page, {"text": f"I agree {'.' * 300} to pay \u202e100"})
    run(page)
    shown = page.get_by_role("dialog").locator("pre")
    expect(shown).to_contain_text("to pay \\u202e100")
    assert shown.evaluate("each => each.scrollWidth <= each.clientWidth")
    page.keyboard.press("Escape")


def test_what_is_streamed_is_the_result(visit: Visit) -> None:
    page = visit("drip")
    run(page)
    expect(ran(page)).to_contain_text("3 streamed")
    expect(outcome(page).get_by_role("table")).to_contain_text("2")


def test_a_call_carries_its_key_and_its_time_limit(visit: Visit) -> None:
    page = visit("whisper")
    page.get_by_text("Options").click()
    page.get_by_label("Idempotency key").fill("one")
    run(page)
    ran(page)
    run(page)
    expect(ran(page)).to_contain_text("replayed")
    page = visit("wait_here")
    page.get_by_text("Options").click()
    page.get_by_label("Time limit, ms").fill("20")
    run(page)
    expect(ran(page, "failed")).to_contain_text("TIMEOUT")
    expect(outcome(page).get_by_role("button", name="Try again")).to_be_visible()


def test_one_acts_as_another_caller_until_one_is_oneself_again(visit: Visit) -> None:
    page = visit("burn_down")
    page.get_by_role("button", name="Acting as").click()
    who = page.get_by_role("dialog")
    who.get_by_label("user").fill('{"id": "zoë"}')
    who.get_by_label("auth").fill("{")
    who.get_by_role("button", name="Act as this caller").click()
    expect(who).to_contain_text("Not JSON")
    who.get_by_label("auth").fill('{"permissions": []}')
    who.get_by_role("button", name="Act as this caller").click()
    expect(page.get_by_role("button", name="Acting as zoë")).to_be_visible()
    run(page)
    page.get_by_role("button", name="Run burn_down").click()
    expect(ran(page, "failed")).to_contain_text("AUTHORIZATION_ERROR")
    page.get_by_role("button", name="Acting as").click()
    page.get_by_role("button", name="Act as yourself").click()
    run(page)
    page.get_by_role("dialog").get_by_role("button", name="Run burn_down").click()
    ran(page)


# Reading what came of it.


def test_a_list_of_objects_is_a_table_that_sorts_and_grows(visit: Visit) -> None:
    page = visit("boats")
    run(page)
    ran(page)
    rows = outcome(page).locator("tbody tr")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Show 50 more of 150 rows").click()
    expect(rows).to_have_count(150)
    page.get_by_role("button", name="name", exact=True).click()
    expect(rows.first).to_contain_text("Boat 000")
    page.get_by_role("button", name="name", exact=True).click()
    expect(rows.first).to_contain_text("Boat 149")
    page.get_by_role("button", name="Raw").click()
    expect(outcome(page).locator("pre")).to_contain_text('"name": "Boat 007"')


def test_a_table_shows_nothing_where_a_row_has_nothing(visit: Visit) -> None:
    page = visit("echo")
    write(page, {"value": [{"id": 1, "constructor": "Renault", "__proto__": "old"}, {"id": 2}]})
    run(page)
    ran(page)
    cells = outcome(page).get_by_role("row").nth(2).get_by_role("cell")
    expect(cells).to_have_text(["2", "", ""])


def test_a_tree_opens_and_closes_from_the_keyboard(visit: Visit) -> None:
    page = visit("echo")
    write(page, {"value": {"a": {"b": [1, 2]}, "c": None}})
    run(page)
    ran(page)
    tree = outcome(page).get_by_role("tree")
    tree.get_by_role("treeitem").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(tree.get_by_role("treeitem", name="a:").first).to_have_attribute("aria-expanded", "false")
    expect(tree.get_by_text("[ 2 items ]")).to_be_hidden()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(tree.get_by_role("treeitem", name="b:").first).to_be_focused()
    page.keyboard.press("End")
    expect(tree.get_by_role("treeitem", name="c:").last).to_be_focused()


def test_the_result_can_be_copied(visit: Visit) -> None:
    page = visit("echo")
    run(page)
    ran(page)
    page.get_by_role("button", name="Copy the result").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == {"boats": [1, 2]}


def test_a_failure_explains_itself_and_its_code_has_a_page(visit: Visit) -> None:
    page = visit("fail")
    write(page, {"kind": "rate_limited", "retry_after": 3})
    run(page)
    card = ran(page, "failed").get_by_role("region", name="Failure")
    expect(card).to_contain_text("RATE_LIMITED")
    expect(card).to_contain_text("What to do")
    expect(card).to_contain_text("The same call may succeed")
    expect(card.get_by_role("button", name="Try again (after 3 s)")).to_be_visible()
    card.get_by_role("link", name="RATE_LIMITED").click()
    expect(page.get_by_role("heading", name="RATE_LIMITED", level=1)).to_be_visible()
    expect(page.locator("main")).to_contain_text("429")
    page.get_by_role("link", name="All failure codes").click()
    expect(page.get_by_role("link", name="OUTPUT_VALIDATION_ERROR")).to_be_visible()
    page.go_back()
    page.go_back()
    expect(outcome(page)).to_contain_text("RATE_LIMITED")


def test_a_page_that_comes_late_does_not_replace_what_one_has_gone_on_to(visit: Visit) -> None:
    page = visit("boats")
    codes = Held(page, "**/api/failures")
    page.get_by_role("link", name="Failures").click()
    codes.asked()
    page.evaluate("location.hash = '#/echo'")
    expect(page.get_by_role("heading", name="Echo", level=1)).to_be_visible()
    with page.expect_response("**/api/failures"):
        codes.go()
    run(page)
    ran(page)
    expect(page).to_have_title("Echo · harbour")
    # What was held back is not asked for again.
    page.get_by_role("link", name="Failures").click()
    expect(page.get_by_role("heading", name="Failure codes")).to_be_visible()


def test_what_an_action_gives_is_never_html(visit: Visit) -> None:
    page = visit("wicked")
    run(page)
    ran(page)
    for name in ("Tree", "Raw"):
        page.get_by_role("button", name=name).click()
        expect(outcome(page)).to_contain_text("<script>window.bad = 1</script>")
    assert page.evaluate("window.bad") is None
    assert page.locator("main img, main script").count() == 0


def test_text_cannot_become_html_whoever_tries(visit: Visit, wrong: list[str]) -> None:
    page = visit("echo")
    tried = page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>'; return 'made' } catch (error) { return error.name } }"
    )
    assert tried == "TypeError"
    wrong.clear()


# The action in other words.


def test_surfaces_that_could_not_be_had_are_asked_for_again(visit: Visit) -> None:
    page = visit("boats")
    refused = {"code": "INTERNAL_ERROR", "message": "The app is away.", "issues": []}
    page.route(
        "**/boats/surfaces", lambda route: route.fulfill(json={"ok": False, "error": refused}), times=1
    )
    page.get_by_role("tab", name="Surfaces").click()
    expect(page.get_by_text("The app is away.")).to_be_visible()
    page.get_by_role("tab", name="Schema").click()
    page.get_by_role("tab", name="Surfaces").click()
    expect(page.get_by_role("heading", name="MCP tool")).to_be_visible()


def test_the_code_is_that_of_the_newest_input(visit: Visit) -> None:
    page = visit("boats")
    older = Held(page, "**/boats/snippets")
    page.get_by_role("tab", name="Code").click()
    older.asked()
    page.get_by_role("tab", name="Call").click()
    member(page, "n").get_by_role("textbox").fill("12")
    page.get_by_role("tab", name="Code").click()
    expect(page.get_by_text("harbour boats --n 12")).to_be_visible()
    with page.expect_response("**/boats/snippets"):
        older.go()
    expect(page.get_by_text("harbour boats --n 12")).to_be_visible()


def test_the_same_call_is_shown_as_code(visit: Visit) -> None:
    page = visit("boats")
    member(page, "n").get_by_role("textbox").fill("12")
    page.get_by_role("tab", name="Code").click()
    expect(page.get_by_text("harbour boats --n 12")).to_be_visible()
    for name in ("curl", "Python", "TypeScript", "MCP"):
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    page.get_by_role("button", name="Copy Command line").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "harbour boats --n 12"


def test_surfaces_stand_side_by_side(visit: Visit) -> None:
    page = visit("burn_down/surfaces")
    shown = page.locator(".columns")
    expect(shown.get_by_role("heading")).to_have_text(
        ["Command line", "HTTP (OpenAPI)", "MCP tool", "OpenAI"]
    )
    expect(shown).to_contain_text("--pier INTEGER")
    expect(shown).to_contain_text("include_destructive=True")
    chip = page.get_by_role("button", name="Anthropic", exact=True)
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    expect(shown.get_by_role("heading", name="Anthropic")).to_be_visible()


def test_the_schemas_are_shown(visit: Visit) -> None:
    page = visit("boats/schema")
    expect(page.get_by_role("heading", name="Input")).to_be_visible()
    expect(page.locator("pre").first).to_contain_text('"default": 150')
    expect(page.get_by_role("heading", name="Output")).to_be_visible()


# What is remembered.


def kept(page: Page) -> Any:
    return json.loads(page.evaluate("localStorage.getItem('fairlead:history:harbour') ?? '[]'"))


def test_a_secret_is_veiled_in_the_json_unless_that_is_edited(visit: Visit) -> None:
    page = visit("log_in")
    write(page, {"user": "ada", "password": ["hunter2", {"x": 5}], "pin": "1234", "api_key": "s3cr3t"})
    veiled = page.locator(".editor-behind .veiled")
    clear = "all => all.every(each => getComputedStyle(each).color === 'rgba(0, 0, 0, 0)')"
    assert not veiled.evaluate_all(clear)
    member(page, "user").locator("input, textarea").click()
    assert veiled.all_inner_texts() == ['"hunter2"', "5", '"1234"', '"s3cr3t"']
    assert veiled.evaluate_all(clear)


def test_whatever_is_a_secret_by_its_name_is_masked(browser: Browser, serve: Callable[[Any], Any]) -> None:
    app = App("keys")

    @app.action
    async def keep(api_key: list[str], password: int, token: Any, names: list[str]) -> None:
        """Keep some keys."""

    page = opened(browser, serve, app)
    page.get_by_role("navigation").get_by_role("link", name="keep").click()
    write(page, {"api_key": ["s3cr3t"], "password": 4711, "token": 5, "names": ["ada"]})
    expect(page.locator(".form .masked")).to_have_count(3)
    assert [each.input_value() for each in page.locator(".form .masked").all()] == ["s3cr3t", "4711", "5"]
    page.context.close()


def test_the_history_is_listened_to_once_however_often_it_is_looked_at(visit: Visit) -> None:
    page = visit("boats")
    page.evaluate(
        """() => {
            const add = window.addEventListener;
            window.added = 0;
            window.addEventListener = (...given) => { window.added += 1; return add.apply(window, given); };
        }"""
    )
    for _ in range(2):
        page.get_by_role("banner").get_by_role("link", name="History").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("History")
        page.get_by_role("banner").get_by_role("link", name="Failures").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Failure codes")
    assert page.evaluate("window.added") == 0


def test_calls_are_remembered_without_their_secrets(visit: Visit) -> None:
    page = visit("log_in")
    write(page, {"user": "ada", "password": "hunter2", "pin": "1234", "api_key": "s3cr3t"})
    expect(member(page, "password").locator("input")).to_have_class(re.compile("masked"))
    run(page)
    ran(page)
    page.get_by_role("tab", name="History").click()
    expect(page.locator(".past-entry")).to_have_count(1)
    everything = page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    assert kept(page)[0]["input"]["user"] == "ada"
    assert not [word for word in ("hunter2", "1234", "s3cr3t") if word in everything]
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_text("Secrets were not kept")).to_be_visible()
    assert input_of(page) == {"user": "ada"}


def test_a_remembered_call_is_run_again_and_forgotten(visit: Visit) -> None:
    page = visit("boats")
    write(page, {"n": 3})
    run(page)
    ran(page)
    until(page, "localStorage.getItem('fairlead:history:harbour')")
    write(page, {"n": 5})
    page.goto(page.url.replace("#/boats", "#/history"))
    entry = page.locator(".past-entry")
    expect(entry).to_contain_text('{"n":3}')
    entry.get_by_role("button", name="Run again").click()
    expect(outcome(page).locator("tbody tr")).to_have_count(3)
    page.get_by_role("link", name="History").click()
    expect(entry).to_have_count(2)
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_text("No calls yet.")).to_be_visible()
    assert kept(page) == []


def test_what_was_typed_is_there_after_the_page_is_loaded_again(visit: Visit) -> None:
    page = visit("boats")
    write(page, {"n": 77})
    until(page, "sessionStorage.getItem('fairlead:draft:harbour:boats')")
    page.reload()
    expect(member(page, "n").get_by_role("textbox")).to_have_value("77")


# By keyboard, in the dark, on a narrow screen.


def test_the_newest_of_what_was_typed_is_kept_whichever_answer_comes_last(visit: Visit) -> None:
    page = visit("echo")
    older = Held(page, "**/echo/keep")
    write(page, {"value": "older"})
    older.asked()
    with page.expect_response("**/echo/keep"):
        write(page, {"value": "newer"})
    until(page, "JSON.stringify(sessionStorage).includes('newer')")
    with page.expect_response("**/echo/keep"):
        older.go()
    page.reload()
    expect(editor(page)).to_have_value(re.compile("newer"))


def test_everything_is_reached_by_keyboard(visit: Visit) -> None:
    page = visit("boats")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the action")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("tab", name="Call")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Code")).to_be_focused()
    page.keyboard.press("Home")
    page.get_by_role("tab", name="Call").blur()
    page.keyboard.press("f")
    expect(member(page, "n").get_by_role("textbox")).to_be_focused()
    page.keyboard.type("2")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Format")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(editor(page)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Run")).to_be_focused()
    page.keyboard.press("Enter")
    ran(page)
    expect(page.get_by_role("button", name="Run")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("r")
    expect(outcome(page)).to_be_focused()
    page.keyboard.press("j")
    expect(editor(page)).to_be_focused()


SEEN = """() => {
    const at = document.activeElement;
    const style = (e) => getComputedStyle(e);
    const drawn = (e) => style(e).outlineStyle !== 'none' && parseFloat(style(e).outlineWidth) > 0;
    const near = [at, at.closest('.editor'), at.nextElementSibling].filter(Boolean);
    return at === document.body || near.some(drawn);
}"""


def test_the_focus_is_seen_wherever_it_is(visit: Visit) -> None:
    page = visit("boats")
    for _ in range(25):
        page.keyboard.press("Tab")
        seen = page.evaluate(SEEN)
        assert seen, page.evaluate("document.activeElement.outerHTML")


NAMELESS = """() => [...document.querySelectorAll('button, a, input, select, textarea, [role=tab], [tabindex="0"]')]
    .filter((e) => e.checkVisibility() && !e.ariaLabel && !e.title && !e.labels?.length && !e.textContent.trim())
    .filter((e) => !e.getAttribute('aria-labelledby'))
    .map((e) => e.outerHTML.slice(0, 120))"""

#: Texts whose contrast with what is behind them is below 4.5 (WCAG AA).
FAINT = """() => {
    const parse = (colour) => {
        const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
        return colour.startsWith('color(srgb') ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
    };
    const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
    const behind = (e) =>
        e ? over(parse(getComputedStyle(e).backgroundColor), behind(e.parentElement)) : [255, 255, 255, 1];
    const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const faint = new Set();
    while (texts.nextNode()) {
        const e = texts.currentNode.parentElement;
        const said = texts.currentNode.data.trim();
        if (!said || !e.checkVisibility() || e.closest(':disabled, [aria-disabled=true], noscript, .toasts')) continue;
        const under = behind(e);
        const found = ratio(over(parse(getComputedStyle(e).color), under), under);
        if (found < 4.5) faint.add(`${found.toFixed(2)} ${e.className} ${said.slice(0, 30)}`);
    }
    return [...faint];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_can_be_read_in_light_and_dark(visit: Visit, scheme: Any) -> None:
    page = visit("everything")
    page.emulate_media(color_scheme=scheme)
    for place in ("everything", "burn_down", "old_echo", "boats/code", "boats/surfaces", "failures/TIMEOUT"):
        page.goto(page.url.partition("#")[0] + f"#/{place}")
        page.wait_for_selector("main article, main .box")
        if place in ("everything", "old_echo"):
            run(page)
            page.wait_for_selector(".outcome:not([data-state=idle]):not([data-state=running])")
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate(FAINT) == []
    page.emulate_media(color_scheme=None)


def test_light_and_dark_are_chosen_and_kept(visit: Visit) -> None:
    page = visit("echo")
    page.emulate_media(color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Light or dark").click()
    dark = page.evaluate(background)
    assert light != dark
    page.reload()
    page.wait_for_selector("main article")
    assert page.evaluate(background) == dark
    page.keyboard.press("t")
    assert page.evaluate(background) == light
    page.evaluate("localStorage.removeItem('fairlead:theme')")
    page.emulate_media(color_scheme=None)


def test_a_narrow_screen_has_everything_and_scrolls_one_way(visit: Visit) -> None:
    page = visit("everything")
    page.set_viewport_size({"width": 360, "height": 700})
    try:
        sideways = (
            "document.documentElement.scrollWidth > 360 || document.querySelector('main').scrollWidth > 360"
        )
        for place in ("everything", "boats", "boats/code", "burn_down/surfaces", "failures", "history"):
            page.goto(page.url.partition("#")[0] + f"#/{place}")
            page.wait_for_selector("main article")
            assert not page.evaluate(sideways), place
        page.get_by_role("button", name="Actions", exact=True).click()
        page.get_by_role("link", name="boats").click()
        expect(page.get_by_role("navigation", name="Actions")).to_be_hidden()
        page.get_by_role("button", name="Run").click()
        ran(page)
        assert not page.evaluate(sideways)
    finally:
        page.set_viewport_size({"width": 1280, "height": 860})


def test_long_names_and_words_are_seen_to_their_end(browser: Browser, serve: Callable[[Any], Any]) -> None:
    app = App("long", description="Long names.")
    name = "maximum_number_of_connections_at_the_same_time_and_then_some"
    number = {"type": "integer", "description": "y" * 300}

    @app.action(description="x" * 300, input={"type": "object", "properties": {name: number}})
    async def connect(input: Any) -> None: ...

    page = opened(browser, serve, app)
    write(page, {name: 1})
    parts = page.locator(".lead, .field .name, .field .about, .field-head button:visible")
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 700})
        assert parts.count() == 4
        for part in parts.all():
            assert part.evaluate(
                "each => { const whole = document.createRange(); whole.selectNodeContents(each);"
                " const box = each.closest('.heading, .form-card').getBoundingClientRect();"
                " return whole.getBoundingClientRect().right <= box.right }"
            )
    page.close()


def test_the_page_never_scrolls_sideways_with_all_that_the_bar_can_hold(visit: Visit) -> None:
    page = visit("everything")
    name = "somebody with a name that is longer than most"
    # An app may have pipelines, plugins, insights and a gateway at once.
    page.evaluate("document.querySelectorAll('.bar-link, .who').forEach((link) => (link.hidden = false))")
    page.evaluate("(name) => (document.querySelector('.who span').textContent = `Acting as ${name}`)", name)
    try:
        for width in (320, 360, 700, 760, 761, 768, 834, 868, 900, 1000, 1080, 1081, 1280):
            page.set_viewport_size({"width": width, "height": 700})
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, width
    finally:
        page.set_viewport_size({"width": 1280, "height": 860})
        page.reload()


def test_the_page_needs_nothing_from_elsewhere(visit: Visit, console: Any) -> None:
    asked: list[str] = []
    page = visit("echo")
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    page.wait_for_selector("main article")
    run(page)
    ran(page)
    assert asked
    assert [url for url in asked if not url.startswith(console.address)] == []


# Other apps.


def opened(browser: Browser, serve: Callable[[Any], Any], app: App) -> Page:
    """An app's console in a window of its own, by its link."""
    made = app.console()
    page = browser.new_page(viewport={"width": 1280, "height": 860}, reduced_motion="reduce")
    page.set_default_timeout(10_000)
    page.goto(made.link(serve(made).address))
    page.wait_for_selector("main article")
    return page


def test_five_hundred_actions_are_found_and_opened(browser: Browser, serve: Callable[[Any], Any]) -> None:
    app = App("many")

    def made(number: int) -> Any:
        def thing(n: int = number) -> int:
            return n

        thing.__name__ = f"thing_{number}"
        return thing

    for number in range(500):
        app.action(description=f"Do thing number {number}.")(made(number))
    page = opened(browser, serve, app)
    expect(page.locator(".count")).to_have_text("500 actions")
    page.keyboard.press("/")
    page.keyboard.type("thing_49")
    expect(page.locator(".count")).to_have_text("11 of 500")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Thing 490", exact=True)).to_be_visible()
    run(page)
    expect(ran(page)).to_contain_text("490")
    page.close()


def test_the_taskboard_is_run_from_its_console(
    browser: Browser, serve: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKBOARD_DB", str(tmp_path / "board.sqlite"))
    spec = spec_from_file_location("taskboard_of_the_console", TASKBOARD)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    page = opened(browser, serve, module.app)
    assert input_of(page)["title"] == "Mend the net"
    run(page)
    ran(page)
    page.get_by_role("link", name="import_tasks").click()
    member(page, "text").get_by_role("textbox").fill("title,priority\nTar the hull,low\n,low\n")
    run(page)
    ran(page)
    page.get_by_role("tab", name="Logs 3").click()
    expect(outcome(page)).to_contain_text("Skipped row 2")
    page.get_by_role("link", name="list_tasks").click()
    member(page, "status").get_by_role("radio", name="all").check()
    run(page)
    expect(ran(page).locator("tbody tr")).to_have_count(2)
    page.get_by_role("link", name="delete_task").click()
    member(page, "id").get_by_role("textbox").fill("99")
    run(page)
    page.get_by_role("dialog").get_by_role("button", name="Run delete_task").click()
    expect(ran(page, "failed")).to_contain_text("No task has number 99.")
    page.get_by_role("link", name="Failures").click()
    page.get_by_role("link", name="board_full").click()
    expect(page.get_by_role("main")).to_contain_text("Delete some tasks first.")
    page.close()
