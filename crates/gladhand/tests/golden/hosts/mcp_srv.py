"""A small MCP server, as the one that was recorded: a tool, two resources, a prompt.

`mcp_srv.py [--notools]` speaks the handshake era over stdio. After a subscription it says that the resource changed.
"""

import json
import sys

TOOLS = [
    {
        "name": "add",
        "description": "Adds",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    }
]
RESOURCES = [
    {"uri": "mem://greeting", "name": "greeting", "mimeType": "text/plain"},
    {"uri": "mem://blob", "name": "blob", "mimeType": "application/octet-stream"},
]
PROMPTS = [
    {
        "name": "review",
        "description": "Review code",
        "arguments": [{"name": "code", "description": "The code", "required": True}],
    }
]


def result(method, params):
    if method == "initialize":
        offered = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": offered,
            "serverInfo": {"name": "stub", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [] if "--notools" in sys.argv else TOOLS}
    if method == "tools/call":
        arguments = params["arguments"]
        return {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}
    if method == "resources/list":
        return {"resources": RESOURCES}
    if method == "resources/read":
        uri = params["uri"]
        if uri == "mem://blob":
            return {"contents": [{"uri": uri, "mimeType": "application/octet-stream", "blob": "AAEC"}]}
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "hello"}]}
    if method == "prompts/list":
        return {"prompts": PROMPTS}
    if method == "prompts/get":
        text = "Review: " + params["arguments"]["code"]
        return {"description": "Review code", "messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
    if method in ("resources/subscribe", "resources/unsubscribe", "ping"):
        return {}
    return None


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or "method" not in request:
        continue
    answer = result(request["method"], request.get("params", {}))
    if answer is None:
        say(id=request["id"], error={"code": -32601, "message": "Method not found"})
    else:
        say(id=request["id"], result=answer)
    if request["method"] == "resources/subscribe":
        say(method="notifications/resources/updated", params={"uri": request["params"]["uri"]})
