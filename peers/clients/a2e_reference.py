"""The reference A2E client with a host: `a2e_reference.py stdio COMMAND…` or `a2e_reference.py http URL`.

Runs in an interpreter that has the reference SDK (`import a2e`). The host must know the token `dev-secret`. What the client
cannot do with any host is left out. Prints `PEER-OK` if everything was as its user wants it.
"""

import logging
import sys

from a2e.caps.tools.client import ToolAPI
from a2e.core.client import A2EClient, A2EClientError
from a2e.core.transports import HTTPTransport, SubprocessTransport

TEXT = "grüezi 🤝"


def client(token):
    way, *host = sys.argv[1:]
    log = logging.getLogger("peer")
    if way == "stdio":
        transport = SubprocessTransport(command=host, logger=log)
    else:
        transport = HTTPTransport(base_url=host[0], logger=log)
    return A2EClient(transport=transport, logger=log, agent_id="peer", auth_token=token, agent_caps=["tools"])


stranger = client("guessed")
try:
    stranger.connect()
    raise SystemExit("a stranger was let in")
except ConnectionError as refused:
    assert "auth_failed" in str(refused), refused

agent = client("dev-secret")
agent.connect()
assert [granted.capability.value for granted in agent.capabilities() if granted.enabled] == ["tools"]
agent.ping()
tools = ToolAPI(agent)
assert "echo" in [tool.name for tool in tools.list()]
assert TEXT in str(tools.call("echo", {"message": TEXT}).data)
try:
    tools.call("no_such_tool", {})
    raise SystemExit("an unknown tool was called")
except A2EClientError as refused:
    assert refused.code == "unknown_tool", refused.code
agent.disconnect()
print("PEER-OK")
