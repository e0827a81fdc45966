"""What every Python client does with an open session. Prints one line of JSON: what the client saw.

`call(name, arguments, progress)` is the SDK's way of calling a tool; `cancelled(call)` is the line's own way of
giving a call up at its first sign of progress, and returns what was seen of it.
"""

import json

SILENCE = 1.2
LONG = {"ms": 60000, "steps": 120}


async def report(seen, list_tools, call, cancelled):
    seen["tools"] = sorted(tool.name for tool in (await list_tools()).tools)
    seen["echo"] = content(await call("echo", {"message": 'grüezi "🤝" \u2028 \\ '}, None))
    seen["unknown_tool"] = await outcome(call("no_such_tool", {}, None))
    seen["progress"] = []

    async def note(progress, total, message):
        # Not every SDK shows the last report, which comes together with the reply; the tap sees it.
        if progress < total:
            seen["progress"].append([int(progress), int(total)])

    seen["wait"] = await outcome(call("wait", {"ms": 600, "steps": 3}, note))
    seen.update(await cancelled(call))
    seen["echo_afterwards"] = content(await call("echo", {"message": "still here"}, None))


def show(seen):
    print(json.dumps(seen), flush=True)


def content(result):
    return [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]


async def outcome(called):
    try:
        result = await called
    except Exception as error:
        return {"code": error.error.code}
    return {"failed": bool(getattr(result, "is_error", None) or getattr(result, "isError", None))}
