"""The current line of the Python SDK as a client: python py_v2.py auto|legacy|REVISION COMMAND ARGS…"""

import sys

import anyio
from mcp import StdioServerParameters
from mcp.client import Client

from session import LONG, SILENCE, report, show


async def main():
    parameters = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:])
    async with Client(parameters, mode=sys.argv[1]) as client:
        server = client.server_info
        seen = {"protocol": client.protocol_version, "server": server.name if server else None}

        async def call(name, arguments, progress):
            return await client.call_tool(name, arguments, progress_callback=progress)

        await report(seen, client.list_tools, call, give_up)
    show(seen)


async def give_up(call):
    """Leaving the scope of a call is how this line cancels it."""
    reports = []
    answered = []
    with anyio.CancelScope() as scope:

        async def note(progress, total, message):
            reports.append(progress)
            scope.cancel()

        answered.append(await call("wait", LONG, note))
    await anyio.sleep(SILENCE)
    return {"cancelled": not answered, "reports_of_the_cancelled": len(reports)}


anyio.run(main)
