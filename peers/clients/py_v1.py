"""The first line of the Python SDK as a client: python py_v1.py COMMAND ARGS…"""

import sys

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

from session import LONG, SILENCE, report, show


async def main():
    parameters = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        opened = await session.initialize()
        seen = {"protocol": opened.protocolVersion, "server": opened.serverInfo.name}

        async def call(name, arguments, progress):
            return await session.call_tool(name, arguments, progress_callback=progress)

        async def cancelled(call):
            return await give_up(session, call)

        await report(seen, session.list_tools, call, cancelled)
    show(seen)


async def give_up(session, call):
    """This line has no way to cancel a call, so the notification is sent by hand, with the id of the last request."""
    reports = []
    answered = []
    progressed = anyio.Event()

    async def note(progress, total, message):
        reports.append(progress)
        progressed.set()

    async def long_call():
        answered.append(await call("wait", LONG, note))

    async with anyio.create_task_group() as group:
        group.start_soon(long_call)
        await progressed.wait()
        parameters = types.CancelledNotificationParams(requestId=session._request_id - 1, reason="enough")
        await session.send_notification(
            types.ClientNotification(types.CancelledNotification(method="notifications/cancelled", params=parameters))
        )
        await anyio.sleep(SILENCE)
        group.cancel_scope.cancel()
    return {"cancelled": not answered, "reports_of_the_cancelled": len(reports)}


anyio.run(main)
