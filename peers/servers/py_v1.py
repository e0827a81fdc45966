"""The echo tool on the first line of the Python SDK: handshake era only."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("py-v1", log_level="ERROR")


@server.tool(structured_output=False)
def echo(message: str) -> str:
    """Returns its message."""
    return message


server.run("stdio")
