"""Raising failures, and reading them."""

import asyncio

from fairlead import App, Failure, Kind
from fairlead.failures import action, lookup

app = App("quota", description="Count calls.")


class QuotaExceeded(Failure, code="quota_exceeded", kind=Kind.rate_limited):
    """The quota for today is used up."""


@app.action
async def find_user(id: int) -> str:
    """Find a user by number."""
    if id == 7:
        raise QuotaExceeded(retry_after=60, details={"limit": 100})
    if id != 1:
        raise Failure(Kind.not_found, "No user has this number.", field="id")
    return "Ada"


async def main() -> None:
    result = await app.invoke("find_user", {"id": 2})
    assert not result.ok
    assert result.failure is not None
    assert result.failure.kind is Kind.not_found
    assert result.failure.code == "NOT_FOUND"
    assert action.exit_code(result.failure) == 4
    assert action.http_status(result.failure) == 404

    result = await app.invoke("find_user", {"id": 7})
    assert result.to_dict()["error"] == {
        "code": "quota_exceeded",
        "message": "The quota for today is used up.",
        "issues": [],
        "retryable": True,
        "details": {"limit": 100},
        "retryAfter": 60,
    }
    assert lookup("action", "quota_exceeded") is QuotaExceeded

    # unwrap() gives the data, or raises the failure.
    try:
        result.unwrap()
    except QuotaExceeded as failure:
        print(failure)


if __name__ == "__main__":
    asyncio.run(main())
