"""The matrix's tools on FastMCP: python fastmcp_server.py stdio | http PORT | sse PORT

In the handshake era it asks by a request, in the stateless one by a question in place of a result.
"""

import sys
from dataclasses import dataclass

import anyio
from fastmcp import Context, FastMCP
from mcp import types

way, port = (*sys.argv[1:], "0")[:2]
server = FastMCP("fastmcp")
cancelled = 0


@dataclass
class Form:
    name: str


FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
WHO = types.ElicitRequestFormParams(message="Who are you?", requested_schema=FORM)
MESSAGE = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Which city?"))
CITY = types.CreateMessageRequestParams(messages=[MESSAGE], max_tokens=5)


@server.tool
def echo(message: str) -> str:
    return message


@server.tool
async def count(context: Context) -> str:
    for step in (1, 2, 3):
        await context.report_progress(step, 3)
        # Some clients lose a report that comes together with the reply.
        await anyio.sleep(0.1)
    return "counted"


@server.tool
async def linger(context: Context) -> str:
    global cancelled
    try:
        await context.report_progress(1, 100)
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        cancelled += 1
        raise
    return "lingered"


@server.tool
def lingered() -> str:
    return str(cancelled)


def is_stateless(context):
    return context.session.protocol_version == "2026-07-28"


def question(name, request):
    return types.InputRequiredResult(input_requests={name: request})


@server.tool
async def ask(context: Context) -> str | types.InputRequiredResult:
    if is_stateless(context):
        answers = context.input_responses
        if answers is None:
            return question("ask", types.ElicitRequest(params=WHO))
        return f"Hello, {answers['ask'].content['name']}!"
    answer = await context.elicit(WHO.message, Form)
    return f"Hello, {answer.data.name}!"


@server.tool
async def think(context: Context) -> str | types.InputRequiredResult:
    if is_stateless(context):
        answers = context.input_responses
        if answers is None:
            return question("think", types.CreateMessageRequest(params=CITY))
        return answers["think"].content.text
    answer = await context.session.create_message(CITY.messages, max_tokens=CITY.max_tokens)
    return answer.content.text


@server.tool
async def touch(context: Context) -> str:
    notification = types.ResourceUpdatedNotification(params=types.ResourceUpdatedNotificationParams(uri="test://watched"))
    await context.send_notification(notification)
    return "touched"


@server.resource("test://watched")
def watched() -> str:
    return "still water"


@server.prompt
def greeting(name: str) -> str:
    return f"Greet {name}."


if way == "stdio":
    server.run("stdio", show_banner=False)
else:
    server.run(way, host="127.0.0.1", port=int(port), show_banner=False)
