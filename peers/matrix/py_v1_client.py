"""The first line of the Python SDK as a client of ours: see session.py."""

from contextlib import asynccontextmanager

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from session import FORM, HEARD, ROOT, SAID, run


def transport(kind, target):
    if kind == "stdio":
        return stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    return {"http": streamable_http_client, "sse": sse_client}[kind](target)


async def elicit(context, params):
    HEARD.ask("elicit", params)
    return types.ElicitResult(action="accept", content=FORM)


async def sample(context, params):
    HEARD.ask("sample", params)
    content = types.TextContent(type="text", text=SAID)
    return types.CreateMessageResult(role="assistant", model="m", content=content)


async def list_roots(context):
    HEARD.ask("roots", None)
    return types.ListRootsResult(roots=[types.Root(**ROOT)])


class Client:
    tool_result = types.CallToolResult

    def __init__(self, session, opened, changes):
        self.changes = changes
        self.session = session
        self.opened = opened
        self.protocol = opened.protocolVersion
        self.read = session.read_resource
        self.prompt = session.get_prompt

    def identity(self):
        return {"info": self.opened.serverInfo, "instructions": self.opened.instructions}

    def capabilities(self):
        return self.opened.capabilities

    def reference(self, reference):
        kinds = {"ref/prompt": types.PromptReference, "ref/resource": types.ResourceTemplateReference}
        return kinds[reference["type"]](**reference)

    async def tools(self):
        return (await self.session.list_tools()).tools

    async def call(self, name, arguments, progress):
        return await self.session.call_tool(name, arguments, progress_callback=progress)

    @asynccontextmanager
    async def watch(self, uri):
        await self.session.subscribe_resource(uri)
        yield
        await self.session.unsubscribe_resource(uri)

    @asynccontextmanager
    async def follow(self, changed):
        self.changes.append(changed)
        yield

    async def give_up(self, progressed, call):
        """This line has no way to cancel a call, so the notification is sent by hand, with the id of the last request."""
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await progressed.wait()
            params = types.CancelledNotificationParams(requestId=self.session._request_id - 1, reason="enough")
            notification = types.CancelledNotification(method="notifications/cancelled", params=params)
            await self.session.send_notification(types.ClientNotification(notification))
            await anyio.sleep(1)
            group.cancel_scope.cancel()


@asynccontextmanager
async def connect(target, plan, updated):
    async def message(message):
        notification = getattr(message, "root", None)
        if isinstance(notification, types.ResourceUpdatedNotification):
            updated(str(notification.params.uri))
        if isinstance(notification, types.ToolListChangedNotification):
            for changed in changes:
                changed()

    changes = []
    answers = {"elicitation_callback": elicit, "sampling_callback": sample, "message_handler": message}
    if "trials" in plan:
        info = types.Implementation(name="py-v1", title="A client", version="1")
        answers |= {"list_roots_callback": list_roots, "logging_callback": HEARD.log, "client_info": info}
    async with transport(plan["transport"], target) as (read, write, *_), ClientSession(read, write, **answers) as session:
        yield Client(session, await session.initialize(), changes)


run(connect)
