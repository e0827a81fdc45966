"""FastMCP as a gateway: `fastmcp_proxy.py stdio COMMAND…`, or `fastmcp_proxy.py http COMMAND… PORT`."""

import logging
import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

logging.disable(logging.CRITICAL)
way, *command = sys.argv[1:]
options = {}
if way == "http":
    options = {"host": "127.0.0.1", "port": int(command.pop()), "json_response": True}
proxy = create_proxy(StdioTransport(command[0], command[1:]), name="proxy")
proxy.run(way, show_banner=False, **options)
