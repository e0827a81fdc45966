"""The echo tool on the current line of the Python SDK: both eras."""

from mcp.server import MCPServer

server = MCPServer("py-v2", log_level="ERROR")


@server.tool(structured_output=False)
def echo(message: str) -> str:
    """Returns its message."""
    return message


server.run("stdio")
