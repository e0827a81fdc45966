"""An ordinary server on the current line of the Python SDK: python py_v2_server.py [http PORT], else on stdio.

`greet`, `think` and `where` ask in the middle of a call, which only the handshake era has; `greet_first` has the SDK
ask before the call runs, in either era.
"""

import json
import sys
from typing import Annotated

import anyio
from mcp import types
from mcp.server import MCPServer
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

way, port = (*sys.argv[1:], "stdio", "0")[:2]
ICON = types.Icon(src="https://example.org/icon.png", mime_type="image/png", sizes=["48x48"])


class View(Extension):
    identifier = "org.example/view"

    def settings(self):
        return {"mimeTypes": ["text/html"]}


server = MCPServer(
    "ordinary",
    title="An ordinary server",
    version="1.2.3",
    extensions=[View()],
    instructions="Ask before you greet.",
    website_url="https://example.org/ordinary",
    icons=[ICON],
    log_level="ERROR",
)
cancelled = 0


class Person(BaseModel):
    name: str


@server.tool()
def echo(message: str) -> str:
    return message


@server.tool()
async def count(ctx: Context) -> str:
    for step in (1, 2, 3):
        await ctx.report_progress(step, 4, f"step {step}")
        # Some clients lose a report that comes together with the reply.
        await anyio.sleep(0.1)
    return "counted"


@server.tool()
async def linger(ctx: Context) -> str:
    global cancelled
    try:
        await ctx.report_progress(1, 100)
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        cancelled += 1
        raise
    return "lingered"


@server.tool()
def lingered() -> str:
    return str(cancelled)


@server.tool()
async def greet(ctx: Context) -> str:
    answer = await ctx.elicit("Who are you?", Person)
    return f"{answer.action}: {answer.data.name}"


def who() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


@server.tool()
async def greet_first(person: Annotated[Person, Resolve(who)]) -> str:
    return f"accept: {person.name}"


@server.tool()
async def think(ctx: Context) -> str:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Which city?"))
    answer = await ctx.session.create_message([message], max_tokens=5)
    return f"{answer.model}: {answer.content.text}"


@server.tool()
async def where(ctx: Context) -> str:
    roots = (await ctx.session.list_roots()).roots
    return json.dumps([root.model_dump(mode="json", by_alias=True, exclude_none=True) for root in roots])


@server.tool()
async def note(ctx: Context) -> str:
    await ctx.debug("said debug")
    await ctx.info("said info", logger_name="notes")
    await ctx.warning("said warning")
    await ctx.error("said error")
    return "noted"


@server.tool()
async def whoami(ctx: Context) -> str:
    return ctx.session.client_params.model_dump_json(by_alias=True, exclude_none=True)


@server.tool()
async def touch(ctx: Context) -> str:
    await ctx.notify_resource_updated("story://one")
    return "touched"


@server.tool()
async def grow(ctx: Context) -> str:
    def grown() -> str:
        return "here"

    server.add_tool(grown)
    await ctx.notify_tools_changed()
    return "grown"


@server.resource("story://one", title="A story")
def story() -> str:
    return "Once."


@server.resource("city://{name}")
def city(name: str) -> str:
    return name


@server.prompt(title="Travel")
def travel(city: str) -> str:
    return f"Travel to {city}."


@server.completion()
async def complete(ref, argument, context):
    cities = [city for city in ("Basel", "Bern", "Brig", "Chur") if city.startswith(argument.value)]
    return types.Completion(values=cities)


if way == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", port=int(port))
