from typing import Annotated

from pydantic import Field

from fairlead import App, Failure, Kind

app = App("greeter", description="Greet people.")


@app.action
def greet(
    name: Annotated[str, Field(min_length=1, description="Whom to greet.")],
    times: Annotated[int, Field(ge=1, le=10, description="How often.")] = 1,
) -> list[str]:
    """Say hello."""
    if name == "Nobody":
        raise Failure(Kind.forbidden, "Nobody cannot be greeted.", field="name")
    return [f"Hello, {name}!"] * times


if __name__ == "__main__":
    app.cli()
