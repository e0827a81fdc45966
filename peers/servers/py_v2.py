"""The echo tool on the current line of the Python SDK: both eras; `py_v2.py http PORT` serves them over HTTP."""

import sys

from mcp.server import MCPServer

server = MCPServer("py-v2", log_level="ERROR")


@server.tool(structured_output=False)
def echo(message: str) -> str:
    """Returns its message."""
    return message


if sys.argv[1:2] == ["http"]:
    server.run("streamable-http", port=int(sys.argv[2]), json_response=True)
else:
    server.run("stdio")
