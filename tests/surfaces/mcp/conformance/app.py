"""The app that the official conformance suite is run against: the tools, resources and prompts that it asks for.

What each must do is stated by the suite, in the text of its scenarios.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from fairlead import App, Context
from fairlead.surfaces.mcp import (
    Audio,
    Block,
    Client,
    Elicit,
    Elicited,
    Embedded,
    Image,
    Message,
    Roots,
    Sample,
    Server,
    audio,
    client_of,
    embedded,
    image,
    message,
    text,
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0data\2\0\0\0\x80\x80"

app = App(
    "conformance", description="Tools, resources and prompts for the conformance suite.", version="1.0.0"
)
server: Server = app.mcp()


def client_behind(ctx: Context) -> Client:
    client = client_of(ctx)
    assert client is not None
    return client


class Name(BaseModel):
    name: str


class Consent(BaseModel):
    ok: bool


class Colour(BaseModel):
    color: str


@app.action
async def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@app.action
async def test_image_content() -> Image:
    """Give a picture."""
    return image(PNG, "image/png")


@app.action
async def test_audio_content() -> Audio:
    """Give a sound."""
    return audio(WAV, "audio/wav")


@app.action
async def test_embedded_resource() -> Embedded:
    """Give a resource with its content."""
    return embedded("test://embedded-resource", "This is an embedded resource content.", "text/plain")


@app.action
async def test_multiple_content_types() -> list[Block]:
    """Give content of several kinds."""
    data = '{"test":"data","value":123}'
    return [
        text("Multiple content types test:"),
        image(PNG, "image/png"),
        embedded("test://mixed-content-resource", data, "application/json"),
    ]


@app.action
async def test_tool_with_logging(ctx: Context) -> str:
    """Say what is being done."""
    ctx.logger.info("Tool execution started")
    await asyncio.sleep(0.05)
    ctx.logger.info("Tool processing data")
    await asyncio.sleep(0.05)
    ctx.logger.info("Tool execution completed")
    return "Done."


@app.action
async def test_logging_tool(ctx: Context) -> str:
    """Say something."""
    ctx.logger.warn("Something to hear for those who asked.")
    return "Done."


@app.action
async def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@app.action
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress."""
    for percent in (0, 50, 100):
        await ctx.progress.report(percent=percent)
        await asyncio.sleep(0.05)
    return "Done."


@app.action
async def test_sampling(ctx: Context, prompt: str) -> str:
    """Ask the client's model."""
    said = await client_behind(ctx).sample(prompt, max_tokens=100)
    return f"LLM response: {said.text}"


@app.action
async def test_missing_capability(ctx: Context) -> str:
    """Ask the client's model, which the client may not have."""
    return (await client_behind(ctx).sample("Hello", max_tokens=10)).text


class User(BaseModel):
    username: Annotated[str, Field(description="User's response")]
    email: Annotated[str, Field(description="User's email address")]


@app.action
async def test_elicitation(ctx: Context, message: str) -> str:
    """Ask the user."""
    answer = await client_behind(ctx).elicit(message, User)
    return _told("User response", answer)


@app.action
async def test_streaming_elicitation(ctx: Context) -> str:
    """Ask the user, having said something before."""
    await ctx.progress.report("Asking", 10)
    return _told("User response", await client_behind(ctx).elicit("Go on?", Consent))


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


@app.action
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the user, with an answer to everything."""
    return _told("Elicitation completed", await client_behind(ctx).elicit("Check these.", Defaults))


def _titled(*titles: str) -> list[dict[str, str]]:
    return [{"const": f"value{n}", "title": title} for n, title in enumerate(titles, 1)]


OPTIONS = ["option1", "option2", "option3"]
ENUMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {
            "type": "string",
            "oneOf": _titled("First Option", "Second Option", "Third Option"),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")},
        },
    },
}


@app.action
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask the user to choose."""
    return _told("Elicitation completed", await client_behind(ctx).elicit("Choose.", ENUMS))


@app.action
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask for a name."""
    answer = await client_behind(ctx).elicit("What is your name?", Name, key="user_name")
    return f"Hello, {answer.content.name}!" if answer.accepted else "Hello!"


@app.action
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the model a question."""
    question = "What is the capital of France?"
    return (await client_behind(ctx).sample(question, max_tokens=100, key="capital_question")).text


@app.action
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the client's roots."""
    roots = await client_behind(ctx).roots(key="client_roots")
    return "Roots: " + ", ".join(str(root.get("uri")) for root in roots)


@app.action
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask, with state that has to come back."""
    await client_behind(ctx).elicit("Please confirm", Consent, key="confirm")
    return "state-ok"


@app.action
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask, with state that nobody may change."""
    await client_behind(ctx).elicit("Please confirm", Consent, key="confirm")
    return "state-ok"


@app.action
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask for several things at once."""
    answers = await client_behind(ctx).ask(
        user_name=Elicit("What is your name?", Name),
        greeting=Sample("Generate a greeting", max_tokens=50),
        client_roots=Roots(),
    )
    return f"{answers['greeting'].text} {answers['user_name'].content.name}, {len(answers['client_roots'])} roots"


@app.action
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice, one after the other."""
    client = client_behind(ctx)
    name = await client.elicit("Step 1: What is your name?", Name, key="step1")
    colour = await client.elicit("Step 2: What is your favorite color?", Colour, key="step2")
    return f"{name.content.name} likes {colour.content.color}."


@app.action
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask only what the client can answer."""
    client = client_behind(ctx)
    questions: dict[str, Elicit | Sample | Roots] = {
        "user_name": Elicit("What is your name?", Name),
        "greeting": Sample("Generate a greeting", max_tokens=50),
        "client_roots": Roots(),
    }
    answers = await client.ask(**{key: q for key, q in questions.items() if client.can(q.capability)})
    return ", ".join(answers)


@app.action
async def test_custom_headers(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    priority: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Priority"})],
) -> str:
    """Take arguments that are repeated in headers."""
    return f"{region} {priority}"


SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@app.action(input=SCHEMA)
async def json_schema_2020_12_tool(input: dict[str, Any]) -> dict[str, Any]:
    """Tool with JSON Schema 2020-12 features"""
    return input


@app.action
async def test_trigger_tool_change() -> str:
    """Add a tool."""

    async def more() -> str:
        """One more."""
        return "more"

    app.action(name=f"more_{len(app.actions)}")(more)
    return "There is one more tool."


@app.action
async def test_trigger_prompt_change() -> str:
    """Add a prompt."""

    def more() -> str:
        """One more."""
        return "more"

    server.prompt(name=f"more_{len(server.own_prompts)}")(more)
    return "There is one more prompt."


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A picture that never changes."""
    return PNG


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> dict[str, Any]:
    """Data by its id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@server.resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """A text that one may watch."""
    return "Nothing has happened."


@server.prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(
    arg1: Annotated[str, Field(description="First test argument")],
    arg2: Annotated[str, Field(description="Second test argument")],
) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # the suite's spelling
    """A prompt with a resource in it."""
    return [
        message(embedded(resourceUri, "Embedded resource content for testing.", "text/plain")),
        message("Please process the embedded resource above."),
    ]


@server.prompt
def test_prompt_with_image() -> list[Message]:
    """A prompt with a picture in it."""
    return [message(image(PNG, "image/png")), message("Please analyze the image above.")]


class PromptContext(BaseModel):
    context: str


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks before it is written."""
    asked = "What context should the prompt use?"
    answer = await client_behind(ctx).elicit(asked, PromptContext, key="user_context")
    return f"Use this context: {answer.content.context}" if answer.accepted else "There is no context."


def _told(what: str, answer: Elicited) -> str:
    content = answer.content
    shown = content.model_dump() if isinstance(content, BaseModel) else content
    return f"{what}: action={answer.action}, content={shown}"
