"""An ordinary server on FastMCP, as its documentation shows how to write one: python fastmcp_server.py [http PORT], else on stdio.

`greet`, `think` and `where` ask in the middle of a call, which only the handshake era has.
"""

import json
import sys
from dataclasses import dataclass

import anyio
from fastmcp import Context, FastMCP
from fastmcp.server.extensions import ServerExtension
from mcp import types

way, port = (*sys.argv[1:], "stdio", "0")[:2]
ICON = types.Icon(src="https://example.org/icon.png", mime_type="image/png", sizes=["48x48"])
server = FastMCP(
    "ordinary",
    instructions="Ask before you greet.",
    version="1.2.3",
    website_url="https://example.org/ordinary",
    icons=[ICON],
    experimental_capabilities={"org.example/trial": {"depth": 2}},
)
cancelled = 0


class View(ServerExtension):
    identifier = "org.example/view"

    def settings(self):
        return {"mimeTypes": ["text/html"]}


server.add_extension(View())


@dataclass
class Person:
    name: str


@server.tool
def echo(message: str) -> str:
    return message


@server.tool
async def count(ctx: Context) -> str:
    for step in (1, 2, 3):
        await ctx.report_progress(step, 4, f"step {step}")
        # Some clients lose a report that comes together with the reply.
        await anyio.sleep(0.1)
    return "counted"


@server.tool
async def linger(ctx: Context) -> str:
    global cancelled
    try:
        await ctx.report_progress(1, 100)
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        cancelled += 1
        raise
    return "lingered"


@server.tool
def lingered() -> str:
    return str(cancelled)


@server.tool
async def greet(ctx: Context) -> str:
    answer = await ctx.elicit("Who are you?", Person)
    return f"{answer.action}: {answer.data.name}"


@server.tool
async def think(ctx: Context) -> str:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Which city?"))
    answer = await ctx.session.create_message([message], max_tokens=5)
    return f"{answer.model}: {answer.content.text}"


@server.tool
async def where(ctx: Context) -> str:
    roots = (await ctx.session.list_roots()).roots
    return json.dumps([root.model_dump(mode="json", by_alias=True, exclude_none=True) for root in roots])


@server.tool
async def note(ctx: Context) -> str:
    await ctx.debug("said debug")
    await ctx.info("said info", logger_name="notes")
    await ctx.warning("said warning", extra={"depth": 2})
    await ctx.error("said error")
    return "noted"


@server.tool
async def whoami(ctx: Context) -> str:
    client = ctx.session.client_params
    return client.model_dump_json(by_alias=True, exclude_none=True)


@server.tool
async def touch(ctx: Context) -> str:
    params = types.ResourceUpdatedNotificationParams(uri="story://one")
    await ctx.send_notification(types.ResourceUpdatedNotification(params=params))
    return "touched"


@server.tool
async def grow(ctx: Context) -> str:
    def grown() -> str:
        return "here"

    server.tool(grown)
    await ctx.send_notification(types.ToolListChangedNotification())
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


@server.completion
async def complete(ref, argument, context):
    cities = [city for city in ("Basel", "Bern", "Brig", "Chur") if city.startswith(argument.value)]
    return types.Completion(values=cities)


if way == "stdio":
    server.run("stdio", show_banner=False)
else:
    server.run(way, host="127.0.0.1", port=int(port), show_banner=False)
