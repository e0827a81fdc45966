"""The matrix's tools on the current line of the Python SDK: python py_v2_server.py stdio | http PORT | sse PORT

What a tool wants to know is a parameter that the SDK resolves by asking: by a request of the handshake era, or by a
question in place of a result.
"""

import sys
from typing import Annotated

import anyio
from mcp import types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from pydantic import BaseModel

way, port = (*sys.argv[1:], "0")[:2]
server = MCPServer("py-v2", log_level="ERROR")
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
        # Some clients lose a report that comes together with the reply.
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


def who() -> Elicit[Form]:
    return Elicit("Who are you?", Form)


def city() -> Sample:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Which city?"))
    return Sample([message], max_tokens=5)


@server.tool()
async def ask(form: Annotated[Form, Resolve(who)]) -> str:
    return f"Hello, {form.name}!"


@server.tool()
async def think(answer: Annotated[types.CreateMessageResult, Resolve(city)]) -> str:
    return answer.content.text


@server.tool()
async def touch(context: Context) -> str:
    await context.notify_resource_updated("test://watched")
    return "touched"


@server.resource("test://watched")
def watched() -> str:
    return "still water"


@server.prompt()
def greeting(name: str) -> str:
    return f"Greet {name}."


if way == "stdio":
    server.run("stdio")
else:
    server.run({"http": "streamable-http"}.get(way, way), port=int(port))
