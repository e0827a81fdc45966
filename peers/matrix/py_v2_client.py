"""The current line of the Python SDK as a client of ours: see session.py. Modes: legacy, auto, or a revision."""

from contextlib import asynccontextmanager

import anyio
from mcp import StdioServerParameters, types
from mcp.client import Client as SdkClient
from mcp.client import advertise
from mcp.client.sse import sse_client

from session import FORM, HEARD, ROOT, SAID, VIEW, leave_scope, run

STATELESS = "2026-07-28"


def transport(kind, target):
    if kind == "stdio":
        return StdioServerParameters(command=target[0], args=target[1:])
    return sse_client(target) if kind == "sse" else target


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
    def __init__(self, client, updated, changes):
        self.changes = changes
        self.client = client
        self.session = client.session
        self.updated = updated
        self.protocol = client.protocol_version
        self.read = client.read_resource
        self.prompt = client.get_prompt
        self.give_up = leave_scope

    async def tools(self):
        return (await self.client.list_tools()).tools

    def identity(self):
        return {"info": self.client.server_info, "instructions": self.client.instructions}

    def capabilities(self):
        return self.client.server_capabilities

    def reference(self, reference):
        kinds = {"ref/prompt": types.PromptReference, "ref/resource": types.ResourceTemplateReference}
        return kinds[reference["type"]](**reference)

    async def call(self, name, arguments, progress):
        return await self.client.call_tool(name, arguments, progress_callback=progress)

    @asynccontextmanager
    async def watch(self, uri):
        if self.protocol != STATELESS:
            await self.client.subscribe_resource(uri)
            yield
            await self.client.unsubscribe_resource(uri)
            return
        async with self.client.listen(resource_subscriptions=[uri]) as events, anyio.create_task_group() as group:

            async def follow():
                async for event in events:
                    self.updated(str(event.uri))

            group.start_soon(follow)
            yield
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def follow(self, changed):
        if self.protocol != STATELESS:
            self.changes.append(changed)
            yield
            return
        async with self.client.listen(tools_list_changed=True) as events, anyio.create_task_group() as group:

            async def listen_to():
                async for _ in events:
                    changed()

            group.start_soon(listen_to)
            yield
            group.cancel_scope.cancel()


@asynccontextmanager
async def connect(target, plan, updated):
    async def message(message):
        # What is heard by listening is told there.
        if isinstance(message, types.ResourceUpdatedNotification) and client.protocol_version != STATELESS:
            updated(str(message.params.uri))
        if isinstance(message, types.ToolListChangedNotification) and client.protocol_version != STATELESS:
            for changed in changes:
                changed()

    changes = []
    answers = {"elicitation_callback": elicit, "sampling_callback": sample, "message_handler": message}
    if "trials" in plan:
        info = types.Implementation(name="py-v2", title="A client", version="1")
        answers |= {"list_roots_callback": list_roots, "logging_callback": HEARD.log, "client_info": info}
        answers |= {"extensions": [advertise(*VIEW)], "log_level": "debug"}
    async with SdkClient(transport(plan["transport"], target), mode=plan["mode"], **answers) as client:
        yield Client(client, updated, changes)


run(connect)
