"""FastMCP as a client of ours: see session.py. Modes: those of the Python SDK on which it is built."""

from contextlib import asynccontextmanager

import anyio
from fastmcp.client import Client as FastClient
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp import types
from mcp.client import advertise
from mcp.client.subscriptions import listen

from session import FORM, HEARD, ROOT, SAID, VIEW, leave_scope, run

STATELESS = "2026-07-28"


def transport(kind, target):
    if kind == "stdio":
        return StdioTransport(target[0], target[1:], keep_alive=False)
    return {"http": StreamableHttpTransport, "sse": SSETransport}[kind](target)


async def elicit(message, response_type, params, context):
    HEARD.ask("elicit", params)
    # What is left out of the form is to be left out, and not null.
    return ElicitResult(action="accept", content=FORM)


async def sample(messages, params, context):
    HEARD.ask("sample", params)
    return SAID


async def list_roots(context):
    HEARD.ask("roots", None)
    return [types.Root(**ROOT)]


class Client:
    def __init__(self, client, updated, changes):
        self.changes = changes
        self.client = client
        self.session = client.session
        self.updated = updated
        self.protocol = client.protocol_version
        self.tools = client.list_tools
        self.read = client.read_resource
        self.prompt = client.get_prompt
        self.give_up = leave_scope

    def identity(self):
        return {"info": self.client.server_info, "instructions": self.client.instructions}

    def capabilities(self):
        return self.client.server_capabilities

    def reference(self, reference):
        kinds = {"ref/prompt": types.PromptReference, "ref/resource": types.ResourceTemplateReference}
        return kinds[reference["type"]](**reference)

    async def call(self, name, arguments, progress):
        return await self.client.call_tool(name, arguments, progress_handler=progress)

    @asynccontextmanager
    async def watch(self, uri):
        """FastMCP has no way of its own to watch a resource; the session of the SDK beneath it has."""
        if self.protocol != STATELESS:
            await self.client.session.subscribe_resource(uri)
            yield
            await self.client.session.unsubscribe_resource(uri)
            return
        async with (
            listen(self.client.session, resource_subscriptions=[uri]) as events,
            anyio.create_task_group() as group,
        ):

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
        async with listen(self.client.session, tools_list_changed=True) as events, anyio.create_task_group() as group:

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
    answers = {"elicitation_handler": elicit, "sampling_handler": sample, "message_handler": message}
    if "trials" in plan:
        info = types.Implementation(name="fastmcp", title="A client", version="1")
        answers |= {"roots": list_roots, "log_handler": HEARD.log, "client_info": info}
        answers |= {"extensions": [advertise(*VIEW)]}
    async with FastClient(transport(plan["transport"], target), mode=plan["mode"], **answers) as client:
        yield Client(client, updated, changes)


run(connect)
