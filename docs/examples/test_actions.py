"""Tests of actions with fairlead.testing."""

from fairlead import Context, action
from fairlead.testing import (
    FixedClock,
    SequentialIds,
    collect_stream,
    create_test_runtime,
    expect_error,
    expect_log,
    expect_ok,
    stub_action,
)


@action(side_effects="write", permissions=["mail:send"])
async def send_mail(ctx: Context, to: str) -> str:
    """Send a mail."""
    ctx.logger.info("Sending.", to=to)
    return await ctx.invoke("render_mail", {"to": to})  # type: ignore[no-any-return]


async def test_a_mail_is_rendered_and_sent() -> None:
    runtime = create_test_runtime([send_mail, stub_action("render_mail", returns="Dear Ada")])
    result = await runtime.invoke("send_mail", {"to": "ada"})
    assert expect_ok(result) == "Dear Ada"
    assert expect_log(result, "Sending")["fields"] == {"to": "ada"}


async def test_a_refusal_is_told() -> None:
    runtime = create_test_runtime([send_mail], allow="Not on Sundays.")
    failure = expect_error(await runtime.invoke("send_mail", {"to": "ada"}), "AUTHORIZATION_ERROR")
    assert failure.message == "Not on Sundays."


async def test_events_carry_the_time_and_the_result_its_id() -> None:
    runtime = create_test_runtime(
        [send_mail, stub_action("render_mail")], clock=FixedClock(0), new_id=SequentialIds("call")
    )
    events = await collect_stream(runtime.stream("send_mail", {"to": "ada"}))
    assert events[0]["time"] == "1970-01-01T00:00:00.000Z"
    assert events[-1]["envelope"]["meta"]["invocationId"].startswith("call-")
