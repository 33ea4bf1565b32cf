"""The chat page in a real browser: what an agent writes and does, what it asks, and how it is stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from fairlead.agents.models.model import Usage
from fairlead.agents.models.script import Turn, call
from fairlead.surfaces.console import Console
from held import Held
from quay import PATIENCE, Quay, quay

Visit = Callable[[str], Page]
Talk = Callable[..., Page]


@pytest.fixture(scope="module")
def console(serve: Callable[[Any], Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The console of the quay, with its session."""
    app = quay(tmp_path_factory.mktemp("quay"))
    made = Console(app, program="quay")
    served = serve(made)
    served.app = app
    served.open(made.link(served.address))
    return served


@pytest.fixture
def app(console: Any) -> Quay:
    """The quay, with nothing done in it."""
    app: Quay = console.app
    app.done.clear()
    for event in (app.go, app.waiting, app.stopped):
        event.clear()
    return app


@pytest.fixture
def talk(visit: Visit, app: Quay) -> Talk:
    """Say something to an agent that answers by this script, in a conversation of its own."""

    def say(text: str, *script: Any) -> Page:
        app.script[:] = script
        page = visit("mate")
        composer(page).fill(text)
        page.keyboard.press("Enter")
        return page

    return say


def composer(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message Mate")


def said(page: Page) -> Locator:
    return page.get_by_role("log", name="What was said")


def tool(page: Page, name: str) -> Locator:
    return page.locator("details.tool").filter(has=page.locator(".tool-name", has_text=name))


def over(page: Page) -> None:
    """The run has ended: one can send again."""
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    expect(page.get_by_text("Working…")).to_have_count(0)


def talks(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Conversations")


# Saying something, and reading the answer.


def test_an_agents_page_begins_with_a_chat_and_other_pages_have_none(visit: Visit, app: Quay) -> None:
    page = visit("mate")
    expect(page.get_by_role("tab", name="Chat")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_text("Talk with Mate")).to_be_visible()
    page = visit("look")
    expect(page.get_by_role("tab", name="Call")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tab", name="Chat")).to_have_count(0)
    links = page.get_by_role("navigation", name="Actions")
    expect(links.get_by_role("link", name="mate")).to_contain_text("agent")


def test_an_answer_is_drawn_as_markdown(talk: Talk) -> None:
    text = "## News\n\nAll is **quiet**, see [the log](https://example.com/log).\n\n- one\n- two\n\n"
    text += '| a | b |\n| --- | ---: |\n| 1 | 2 |\n\n```json\n{"n": 1}\n```\n'
    page = talk("What is new?", Turn(text, usage=Usage(1200, 34, cost=0.5)))
    over(page)
    expect(said(page)).to_contain_text("What is new?")
    expect(said(page).get_by_role("heading", name="News")).to_be_visible()
    expect(said(page).locator("strong")).to_have_text("quiet")
    expect(said(page).locator("li")).to_have_text(["one", "two"])
    expect(said(page).get_by_role("cell", name="2")).to_have_class("right")
    expect(said(page).locator(".md-code pre")).to_contain_text('{"n": 1}')
    link = said(page).get_by_role("link", name="the log")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(said(page).locator(".turn-foot")).to_contain_text("1,200 in · 34 out")
    expect(said(page).locator(".turn-foot")).to_contain_text("$0.50")


def test_nothing_in_an_answer_can_run(talk: Talk) -> None:
    wicked = "<img src=x onerror='window.bad=1'> [x](javascript:window.bad=2) <script>window.bad=3</script> "
    wicked += "![y](https://evil.example/pixel.png) [z](data:text/html,bad) **<b>b</b>**"
    drawing = '<svg xmlns="http://www.w3.org/2000/svg"><script>window.bad=4</script></svg>'
    page = talk("Try.", Turn(wicked, calls=(call("look", where=drawing),)), wicked)
    over(page)
    expect(said(page)).to_contain_text("<script>window.bad=3</script>")
    assert page.evaluate("window.bad") is None
    assert said(page).locator("img, script, b").count() == 0
    addresses = said(page).locator("a").evaluate_all("all => all.map((each) => each.protocol)")
    assert set(addresses) == {"https:"}


def test_an_answer_is_read_out_when_it_is_whole(talk: Talk) -> None:
    page = talk("Hi", "All is quiet.")
    expect(page.locator(".talk [role=status]")).to_have_text("All is quiet.")


def test_enter_sends_and_shift_enter_begins_a_line(visit: Visit, app: Quay) -> None:
    app.script[:] = ["Hello."]
    page = visit("mate")
    composer(page).press_sequentially("one")
    page.keyboard.press("Shift+Enter")
    composer(page).press_sequentially("two")
    page.keyboard.press("Enter")
    over(page)
    assert app.model.requests[-1].messages[-1].content == "one\ntwo"
    expect(composer(page)).to_have_value("")


def test_an_empty_message_is_not_sent(visit: Visit, app: Quay) -> None:
    asked = len(app.model.requests)
    page = visit("mate")
    composer(page).fill("  \n ")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Talk with Mate")).to_be_visible()
    assert len(app.model.requests) == asked


def test_a_failure_is_explained_and_can_be_tried_again(talk: Talk, app: Quay) -> None:
    from fairlead.failures.runtime import ApiError

    page = talk("Hi", ApiError("The model is away."))
    over(page)
    expect(said(page)).to_contain_text("The model is away.")


def test_a_failure_is_there_for_who_comes_back_until_more_is_said(talk: Talk, app: Quay) -> None:
    from fairlead.failures.runtime import ApiError

    page = talk("Is there news?", ApiError("The model is away."))
    over(page)
    card = said(page).get_by_role("region", name="Failure")
    again = card.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_text("Talk with Mate")).to_be_visible()
    talks(page).get_by_role("link", name="Is there news?").click()
    expect(card).to_contain_text("The model is away.")
    page.reload()
    expect(card).to_contain_text("The model is away.")
    # What was said then is not known here as it was given.
    expect(again).to_have_count(0)
    app.script[:] = ["All is quiet."]
    composer(page).fill("And now?")
    page.keyboard.press("Enter")
    over(page)
    page.reload()
    expect(said(page)).to_contain_text("All is quiet.")
    expect(card).to_have_count(0)


# What it does.


def test_a_tool_is_a_card_with_what_went_in_and_came_out(talk: Talk) -> None:
    page = talk("Look.", call("look", where="north"), call("look", where="down"), "Seen.")
    over(page)
    good, bad = tool(page, "look").first, tool(page, "look").last
    expect(good).to_have_attribute("data-state", "ok")
    expect(bad).to_have_attribute("data-state", "failed")
    expect(good.locator(".tool-time")).to_contain_text("ms")
    expect(good.get_by_role("region", name="Arguments")).to_be_hidden()
    good.locator("summary").click()
    expect(good.get_by_role("region", name="Arguments")).to_contain_text('"where": "north"')
    expect(good.get_by_role("region", name="Result")).to_contain_text("Bertha")


def test_a_tool_says_how_far_it_is_while_it_runs(talk: Talk, app: Quay) -> None:
    page = talk("Load.", call("load"), "Loaded.")
    card = tool(page, "load")
    expect(card.locator("summary")).to_contain_text("Half of it")
    card.locator("summary").click()
    expect(card.get_by_role("progressbar")).to_have_attribute("value", "50")
    expect(card.get_by_role("list", name="What it says")).to_contain_text("The first crate")
    app.go.set()
    over(page)
    expect(card).to_have_attribute("data-state", "ok")
    expect(said(page).get_by_role("link", name="bill.txt")).to_have_attribute("download", "bill.txt")


def test_a_chart_is_a_picture(talk: Talk) -> None:
    drawn = call("render_chart", kind="bar", series=[{"values": [1, 2]}], title="Tons")
    page = talk("Draw.", drawn, "Drawn.")
    over(page)
    picture = said(page).locator("figure img")
    expect(picture).to_be_visible()
    assert picture.evaluate("(image) => image.complete && image.naturalWidth > 0")
    page.reload()
    expect(picture).to_be_visible()
    assert picture.get_attribute("src", timeout=1000).startswith("data:image/svg+xml")  # type: ignore[union-attr]


def test_things_to_do_are_listed_with_what_is_done(talk: Talk) -> None:
    page = talk("Plan.", call("todo", markdown="- [x] Look\n- [ ] Report"), "Planned.")
    over(page)
    box = page.locator("details.todo")
    expect(box).to_contain_text("1 of 2 done")
    expect(box.get_by_role("listitem")).to_have_text(["Look", "Report"])


def test_what_it_thinks_is_there_for_those_who_want_to_read_it(talk: Talk) -> None:
    page = talk("Think.", Turn("So.", reasoning="The tide is low."))
    over(page)
    expect(page.get_by_text("The tide is low.")).to_be_hidden()
    page.get_by_text("Thinking").click()
    expect(page.get_by_text("The tide is low.")).to_be_visible()


# What it asks.


def ask_card(page: Page) -> Locator:
    return page.get_by_role("group", name="May mate use burn?")


def test_a_tool_runs_after_it_was_approved(talk: Talk, app: Quay) -> None:
    page = talk("Burn.", call("burn", pier=2), "Burnt.")
    expect(ask_card(page)).to_contain_text('"pier": 2')
    assert app.done == []
    # A key that was meant for something else does not agree to anything.
    page.keyboard.press("Enter")
    page.keyboard.press(" ")
    assert app.done == []
    ask_card(page).get_by_role("button", name="Approve").click()
    over(page)
    assert app.done == [2]
    expect(said(page)).to_contain_text("Approved: burn")
    expect(tool(page, "burn")).to_have_attribute("data-state", "ok")


def test_all_of_what_is_to_be_approved_is_seen_as_it_is(talk: Talk) -> None:
    hidden = f"echo harmless {'.' * 300}; rm -rf \u202e~"
    page = talk("Tidy up.", Turn("", calls=(call("shell_run", command=hidden),)), "Well.")
    shown = page.get_by_role("region", name="What it would be given")
    expect(shown).to_contain_text("; rm -rf \\u202e~")
    assert shown.evaluate("each => each.scrollWidth <= each.clientWidth")
    page.get_by_role("button", name="Deny").click()
    over(page)


def test_always_is_for_the_whole_conversation(talk: Talk, app: Quay) -> None:
    page = talk("Burn.", call("burn", pier=1), call("burn", pier=2), "Burnt.")
    ask_card(page).get_by_role("button", name="Always").click()
    over(page)
    assert app.done == [1, 2]


def test_a_tool_that_was_denied_does_not_run_and_the_agent_hears_why(talk: Talk, app: Quay) -> None:
    page = talk("Burn.", call("burn", pier=2))
    ask_card(page).get_by_role("textbox", name="Why not").fill("It is needed.")
    ask_card(page).get_by_role("button", name="Deny").click()
    over(page)
    assert app.done == []
    expect(tool(page, "burn")).to_have_attribute("data-state", "refused")
    expect(said(page)).to_contain_text("a tool was declined")
    app.script[:] = ["I leave it."]
    composer(page).fill("Leave it.")
    page.keyboard.press("Enter")
    over(page)
    heard = [each.content for each in app.model.requests[-1].messages if each.role == "tool"]
    assert "It is needed." in heard[-1]


def test_a_question_is_answered_by_a_button(talk: Talk, app: Quay) -> None:
    page = talk("Mend.", call("clarify", question="Which pier?", options=["one", "two"]), "Two, then.")
    page.get_by_role("group", name="Which pier?").get_by_role("button", name="two").click()
    over(page)
    assert app.told()["result"]["text"] == "two"
    expect(said(page)).to_contain_text("Which pier? two")
    expect(said(page)).to_contain_text("Two, then.")


def test_a_question_is_answered_in_words_or_by_several_choices(talk: Talk, app: Quay) -> None:
    many = call("clarify", question="Which ships?", options=["Anna", "Bertha", "Clara"], allow_multiple=True)
    page = talk("Go.", call("clarify", question="Where to?"), many, "Good.")
    asked = page.get_by_role("group", name="Where to?")
    asked.get_by_role("textbox", name="Your answer").fill("North")
    page.keyboard.press("Enter")
    asked = page.get_by_role("group", name="Which ships?")
    asked.get_by_label("Anna").check()
    asked.get_by_label("Clara").check()
    asked.get_by_role("button", name="Answer").click()
    over(page)
    heard = [json.loads(each.content) for each in app.model.requests[-1].messages if each.role == "tool"]
    assert [each["result"]["text"] for each in heard] == ["North", "Anna\nClara"]


def test_a_question_that_was_asked_elsewhere_is_answered_here(visit: Visit, app: Quay, console: Any) -> None:
    app.script[:] = [call("clarify", question="Which pier?", options=["one", "two"]), "Two, then."]
    answer = console.send(
        "POST",
        "/api/actions/mate/invoke",
        {"input": {"prompt": "Mend it.", "conversation": "elsewhere"}},
    )
    assert answer.status == 409
    page = visit("mate/chat/elsewhere")
    expect(talks(page)).to_contain_text("asks you")
    page.get_by_role("group", name="Which pier?").get_by_role("button", name="two").click()
    over(page)
    expect(said(page)).to_contain_text("Two, then.")
    assert app.told()["result"]["text"] == "two"


# Stopping it, and coming back to it.


@pytest.mark.parametrize("way", ["button", "escape"])
def test_a_run_is_terminated_with_what_it_does(talk: Talk, app: Quay, way: str) -> None:
    page = talk("Wait.", call("wait_here"), "never")
    assert app.waiting.wait(PATIENCE)
    if way == "button":
        page.get_by_role("button", name="Terminate").click()
    else:
        page.keyboard.press("Escape")
    assert app.stopped.wait(PATIENCE)
    over(page)
    expect(said(page)).to_contain_text("You ended the run.")
    expect(tool(page, "wait_here")).not_to_have_attribute("data-state", "running")


@pytest.mark.parametrize("printed", ["begun", ""])
def test_a_command_is_ended_and_the_run_goes_on(talk: Talk, app: Quay, printed: str) -> None:
    runs = f"{'echo begun; ' if printed else ''}sleep {PATIENCE:g}"
    page = talk("Wait.", Turn("", calls=(call("shell_run", command=runs),)), "It was ended.")
    page.get_by_role("button", name="Approve").click()
    tool(page, "shell_run").get_by_role("button", name="End this command").click()
    over(page)
    expect(said(page)).to_contain_text("It was ended.")
    expect(page.get_by_role("button", name="End this command")).to_be_hidden()
    result = app.told()["result"]
    assert (result["killed_by"], result["stdout"]) == ("user", printed)


def test_a_command_of_an_agent_that_keeps_no_conversations_is_ended(visit: Visit, app: Quay) -> None:
    app.script[:] = [Turn("", calls=(call("shell_run", command=f"sleep {PATIENCE:g}"),)), "It was ended."]
    page = visit("porter")
    page.get_by_role("textbox", name="Message Porter").fill("all of it")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Approve").click()
    tool(page, "shell_run").get_by_role("button", name="End this command").click()
    over(page)
    assert app.told()["result"]["killed_by"] == "user"


def test_a_run_that_no_conversation_keeps_is_there_when_one_comes_back_to_it(visit: Visit, app: Quay) -> None:
    app.script[:] = [call("load"), "Done."]
    page = visit("keeper")
    page.get_by_role("textbox", name="chest").fill("mine")
    page.get_by_role("textbox", name="pin").fill("4711")
    page.get_by_role("button", name="Send").click()
    expect(tool(page, "load")).to_contain_text("Half of it")
    page.get_by_role("tab", name="Schema").click()
    page.get_by_role("tab", name="Chat").click()
    expect(tool(page, "load")).to_be_visible()
    page.goto(page.url.partition("#")[0] + "#/look")
    expect(page.get_by_role("heading", name="Look")).to_be_visible()
    page.go_back()
    expect(tool(page, "load")).to_be_visible()
    page.get_by_role("button", name="Terminate").click()
    expect(said(page)).to_contain_text("You ended the run.")


def test_a_tool_that_runs_no_command_has_none_to_end(talk: Talk, app: Quay) -> None:
    page = talk("Load.", Turn("", calls=(call("load"),)), "Loaded.")
    expect(tool(page, "load")).to_contain_text("Half of it")
    expect(page.get_by_role("button", name="End this command")).to_be_hidden()
    app.go.set()
    over(page)


def test_a_page_that_is_loaded_again_goes_on_with_the_run(talk: Talk, app: Quay) -> None:
    page = talk("Burn.", call("burn", pier=2), "Burnt.")
    expect(ask_card(page)).to_be_visible()
    page.reload()
    expect(said(page)).to_contain_text("Burn.")
    ask_card(page).get_by_role("button", name="Approve").click()
    over(page)
    assert app.done == [2]
    expect(said(page).get_by_text("Burnt.")).to_have_count(1)


def test_a_run_that_ends_before_a_page_that_is_loaded_again_can_follow_it_is_shown(
    talk: Talk, app: Quay
) -> None:
    page = talk("Load.", call("load"), "Loaded.")
    expect(tool(page, "load")).to_contain_text("Half of it")

    def late(route: Route) -> None:
        app.go.set()
        no_run = {"code": "NOT_FOUND", "message": "No run goes on in this conversation.", "issues": []}
        route.fulfill(status=404, json={"ok": False, "error": no_run})

    page.route("**/agents/mate/follow", late, times=1)
    page.reload()
    expect(said(page)).to_contain_text("Loaded.")
    over(page)
    expect(said(page)).not_to_contain_text("NOT_FOUND")
    expect(tool(page, "load")).to_have_attribute("data-state", "ok")


def test_what_is_said_while_a_conversation_is_loaded_is_answered_below_the_rest(
    talk: Talk, app: Quay
) -> None:
    page = talk("Said before.", "One.")
    over(page)
    app.script[:] = ["Two."]
    opened = Held(page, "**/agents/mate/open")
    page.reload()
    opened.asked()
    composer(page).fill("Said early.")
    page.keyboard.press("Enter")
    opened.go()
    expect(said(page)).to_contain_text("Two.")
    over(page)
    expect(said(page).get_by_role("article", name="You")).to_have_text(["Said before.", "Said early."])


def test_a_conversation_is_shown_again_as_it_was(talk: Talk) -> None:
    page = talk("Look north, please.", call("look", where="north"), "All is **quiet**.")
    over(page)
    page.reload()
    expect(said(page).locator("strong")).to_have_text("quiet")
    expect(said(page)).to_contain_text("Look north, please.")
    card = tool(page, "look")
    expect(card).to_have_attribute("data-state", "ok")
    card.locator("summary").click()
    expect(card.get_by_role("region", name="Result")).to_contain_text("Bertha")


def test_another_conversation_can_be_looked_at_while_one_goes_on(talk: Talk, app: Quay) -> None:
    page = talk("Load the Anna.", call("load"), "Loaded.")
    expect(tool(page, "load")).to_be_visible()
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_text("Talk with Mate")).to_be_visible()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    app.go.set()
    talks(page).get_by_role("link", name="Load the Anna.").first.click()
    over(page)
    expect(said(page)).to_contain_text("Loaded.")


def test_a_run_that_one_comes_back_to_again_and_again_is_followed_once(talk: Talk, app: Quay) -> None:
    page = talk("Load the Bertha.", call("load"), "Loaded.")
    expect(tool(page, "load")).to_be_visible()
    page.reload()
    expect(tool(page, "load")).to_be_visible()
    # A browser opens six connections to a server, and no more.
    for _ in range(6):
        page.get_by_role("button", name="New conversation").click()
        expect(page.get_by_text("Talk with Mate")).to_be_visible()
        talks(page).get_by_role("link", name="Load the Bertha.").click()
        expect(tool(page, "load")).to_be_visible()
    app.go.set()
    over(page)
    expect(said(page)).to_contain_text("Loaded.")


def test_a_conversation_that_went_on_elsewhere_is_shown_with_that(
    talk: Talk, app: Quay, console: Any
) -> None:
    page = talk("Begun here.", "One.")
    over(page)
    id = page.url.rpartition("/")[2]
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_text("Talk with Mate")).to_be_visible()
    app.script[:] = ["Two."]
    console.send("POST", "/api/agents/mate/say", {"id": id, "input": {"prompt": "And there?"}})
    talks(page).get_by_role("link", name="Begun here.").click()
    expect(said(page)).to_contain_text("And there?")
    expect(said(page)).to_contain_text("Two.")


# Conversations.


def test_conversations_are_listed_renamed_and_deleted(talk: Talk) -> None:
    page = talk("A talk to remember", "Yes.")
    over(page)
    row = talks(page).get_by_role("listitem").filter(has_text="A talk to remember")
    expect(row.get_by_role("link")).to_have_attribute("aria-current", "page")
    expect(row).to_contain_text("just now")
    row.hover()
    row.get_by_role("button", name="Rename").click()
    page.get_by_role("textbox", name="Title").fill("The best one")
    page.keyboard.press("Enter")
    row = talks(page).get_by_role("listitem").filter(has_text="The best one")
    expect(row).to_be_visible()
    row.hover()
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    expect(page.get_by_text("Talk with Mate")).to_be_visible()


def test_who_acts_as_another_sees_the_others_conversations(talk: Talk) -> None:
    page = talk("For me alone.", "Sure.")
    over(page)
    expect(talks(page).get_by_role("link", name="For me alone.")).to_be_visible()
    act_as = page.get_by_role("button", name="Acting as")
    act_as.click()
    page.get_by_label("user").fill('"ann"')
    page.get_by_role("button", name="Act as this caller").click()
    expect(talks(page).get_by_role("link", name="For me alone.")).to_have_count(0)
    expect(said(page)).not_to_contain_text("Sure.")
    act_as.click()
    page.get_by_role("button", name="Act as yourself").click()
    talks(page).get_by_role("link", name="For me alone.").click()
    expect(said(page)).to_contain_text("Sure.")


def act_as(page: Page, user: str) -> None:
    page.get_by_role("button", name="Acting as").click()
    page.get_by_label("user").fill(json.dumps(user))
    page.get_by_role("button", name="Act as this caller").click()


def test_a_list_of_conversations_that_comes_late_does_not_replace_a_newer_one(talk: Talk) -> None:
    page = talk("Not for Bea.", "Sure.")
    over(page)
    listed = Held(page, "**/agents/mate/conversations")
    page.get_by_role("button", name="Acting as").click()
    page.get_by_role("button", name="Act as yourself").click()
    listed.asked()
    act_as(page, "bea")
    expect(talks(page)).to_contain_text("What you say is kept here.")
    listed.go()
    expect(talks(page)).to_contain_text("What you say is kept here.")


def test_who_acts_as_another_on_another_tab_stays_there(talk: Talk) -> None:
    page = talk("Said by me.", "Sure.")
    over(page)
    page.get_by_role("tab", name="Call").click()
    act_as(page, "cleo")
    expect(page.get_by_text("Acting as another caller")).to_be_visible()
    assert page.evaluate("location.hash") == "#/mate/call"
    page.get_by_role("tab", name="Chat").click()
    expect(talks(page)).to_contain_text("What you say is kept here.")
    expect(page.get_by_text("Talk with Mate")).to_be_visible()


def test_the_tab_of_the_chat_goes_back_to_the_conversation_that_was_there(talk: Talk, app: Quay) -> None:
    page = talk("Load the Clara.", call("load"), "Loaded.")
    expect(tool(page, "load")).to_be_visible()
    page.get_by_role("tab", name="Schema").click()
    page.get_by_role("tab", name="Chat").click()
    expect(page.get_by_role("button", name="Terminate")).to_be_visible()
    expect(tool(page, "load")).to_be_visible()
    app.go.set()
    over(page)


def test_an_agent_that_was_called_can_be_called_again_whatever_its_chat_does(talk: Talk, app: Quay) -> None:
    page = talk("Load the Dora.", call("load"), "Loaded.", "Called.")
    expect(tool(page, "load")).to_be_visible()
    page.get_by_role("tab", name="Call").click()
    page.get_by_role("textbox", name="Input as JSON").fill('{"prompt": "Look."}')
    called = Held(page, "**/actions/mate/stream")
    page.keyboard.press("Control+Enter")
    called.asked()
    page.get_by_role("tab", name="Chat").click()
    expect(tool(page, "load")).to_be_visible()
    called.go()
    app.go.set()
    over(page)
    page.get_by_role("tab", name="Call").click()
    expect(page.get_by_role("region", name="Outcome", exact=True)).to_have_attribute("data-state", "ok")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()


def test_a_draft_is_kept_for_its_conversation(talk: Talk) -> None:
    page = talk("A talk with a draft", "Yes.")
    over(page)
    composer(page).fill("not yet")
    page.get_by_role("button", name="New conversation").click()
    expect(composer(page)).to_have_value("")
    page.go_back()
    expect(composer(page)).to_have_value("not yet")
    page.reload()
    expect(composer(page)).to_have_value("not yet")


def test_an_agent_is_also_called_as_an_action(visit: Visit, app: Quay) -> None:
    app.script[:] = [call("look", where="north"), "All is quiet."]
    page = visit("mate/call")
    page.get_by_role("textbox", name="Input as JSON").fill('{"prompt": "Look."}')
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="Outcome", exact=True)).to_contain_text("All is quiet.")


def test_an_agent_that_needs_more_than_a_text_has_a_form(visit: Visit, app: Quay) -> None:
    app.script[:] = ["She is."]
    page = visit("judge")
    fields = page.locator(".composer-form")
    fields.locator('[data-field="ship"] :is(input, textarea)').fill("Anna")
    fields.locator('[data-field="tons"] :is(input, textarea)').fill("12")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(said(page)).to_contain_text("She is.")
    assert app.model.requests[-1].messages[-1].content == "Is Anna good for 12 tons?"
    expect(said(page)).to_contain_text('"tons": 12')


def test_secrets_that_an_agent_is_given_are_not_shown(visit: Visit, app: Quay) -> None:
    app.script[:] = [Turn("", calls=(call("load"),)), "It is open."]
    page = visit("keeper")
    fields = page.locator(".composer-form")
    fields.locator('[data-field="chest"] :is(input, textarea)').fill("the old one")
    fields.locator('[data-field="pin"] input').fill("4711")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(tool(page, "load")).to_contain_text("Half of it")
    for _ in range(2):  # as it was said, and as it is told to a page that is loaded again
        expect(said(page)).to_contain_text("the old one")
        expect(said(page)).not_to_contain_text("4711")
        page.reload()
    app.go.set()
    # A page that was just loaded can send until it knows that a run goes on.
    expect(said(page)).to_contain_text("It is open.")
    over(page)


@pytest.mark.parametrize("width", [420, 1280])
def test_the_page_fits_its_window(talk: Talk, width: int) -> None:
    page = talk("Look.", call("look", where="north"), "word " * 400)
    page.set_viewport_size({"width": width, "height": 800})
    try:
        over(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        expect(composer(page)).to_be_in_viewport()
        last = said(page).locator(".turn").last
        for _ in range(200):  # the page follows what was said, as soon as it has drawn it
            bottom = last.evaluate("(each) => each.getBoundingClientRect().bottom")
            if bottom <= composer(page).bounding_box()["y"]:  # type: ignore[index]
                return
            page.wait_for_timeout(50)
        raise AssertionError("The last turn is below the text field.")
    finally:
        page.set_viewport_size({"width": 1280, "height": 860})
