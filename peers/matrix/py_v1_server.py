"""The matrix's tools on the first line of the Python SDK: python py_v1_server.py stdio | http PORT | sse PORT

Version 1.8 knows no elicitation yet and is served by the same script without it.
"""

import sys

import anyio
from mcp import types
from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

way, port = (*sys.argv[1:], "0")[:2]
server = FastMCP("py-v1", log_level="ERROR", port=int(port))
cancelled = 0


class Form(BaseModel):
    name: str


@server.tool()
def echo(message: str) -> str:
    return message


@server.tool()
async def count(context: Context) -> str:
    for step in (1, 2, 3):
        await context.report_progress(step, 3)
        # Over HTTP an old version reports on a stream beside the one of the call, which the reply could overtake.
        await anyio.sleep(0.1)
    return "counted"


@server.tool()
async def linger(context: Context) -> str:
    global cancelled
    try:
        await context.report_progress(1, 100)
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        cancelled += 1
        raise
    return "lingered"


@server.tool()
def lingered() -> str:
    return str(cancelled)


if hasattr(Context, "elicit"):

    @server.tool()
    async def ask(context: Context) -> str:
        answer = await context.elicit("Who are you?", Form)
        return f"Hello, {answer.data.name}!"


@server.tool()
async def think(context: Context) -> str:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Which city?"))
    answer = await context.session.create_message([message], max_tokens=5)
    return answer.content.text


@server.tool()
async def touch(context: Context) -> str:
    await context.session.send_resource_updated("test://watched")
    return "touched"


@server.tool()
async def grow(context: Context) -> str:
    def grown() -> str:
        return "here"

    server.add_tool(grown)
    await context.session.send_tool_list_changed()
    return "grown"


@server.resource("test://watched")
def watched() -> str:
    return "still water"


@server.prompt()
def greeting(name: str) -> str:
    return f"Greet {name}."


server.run({"http": "streamable-http"}.get(way, way))
