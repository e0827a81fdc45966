"""One session of a Python client with our fixture, cell by cell, and one with our toolbox to give up a call.

Prints one line of JSON: what was seen in each cell, or the error that came instead.

    python CLIENT '{"transport": "stdio" | "http" | "sse", "mode": …, "fixture": TARGET, "toolbox": TARGET}'

where a TARGET is a URL or the words of a command. A client hands in `connect(target, plan, updated)`, an asynchronous
context whose value has: `protocol`, `tools()`, `call(name, arguments, progress)`, `give_up(progressed, call)`,
`watch(uri)` (another such context), `read(uri)` and `prompt(name, arguments)`; the latter four return what the SDK
returns, except that `watch` sees to it that `updated(uri)` is called. `follow(changed)` is a context too, in which
`changed()` is called when the list of tools changes.

A plan with `steps` is for a server behind our bridge: see coupled.py. One with `trials` compares what a client sees of
an ordinary server with and without a bridge between them: see features.py.
"""

import json
import sys

import anyio

PATIENCE = 20
SILENCE = 1.2
WATCHED = "test://watched-resource"

PLAN = json.loads(sys.argv[1])
FORM = PLAN.get("form", {"username": "ada", "email": "ada@example.org"})
SAID = "Bern"
ROOT = {"uri": PLAN.get("root", "file:///"), "name": "one"}
VIEW = ("org.example/view", {"mimeTypes": ["text/html"]})


class Heard:
    """What a server told and asked a client outside of its answers."""

    def __init__(self):
        self.asked = []
        self.logs = []
        self.updates = []

    async def log(self, message):
        self.logs.append(message)

    def ask(self, kind, params):
        shown = params.model_dump(mode="json", by_alias=True, exclude_none=True) if params else {}
        shown.pop("_meta", None)
        self.asked.append({"kind": kind, "params": shown})


HEARD = Heard()


def run(connect):
    if "steps" in PLAN:
        from coupled import coupled

        return anyio.run(coupled, connect, PLAN)
    if "trials" in PLAN:
        from features import features

        return anyio.run(features, connect, PLAN, HEARD)
    anyio.run(session, connect, PLAN)


async def session(connect, plan):
    seen = {}

    async def cell(name, look):
        try:
            with anyio.fail_after(PATIENCE):
                seen[name] = await look()
        except Exception as error:
            seen[name] = {"error": f"{type(error).__name__}: {error}"}

    updates, update = anyio.create_memory_object_stream(10)

    try:
        async with connect(plan["fixture"], plan, updates.send_nowait) as client:
            seen["open"] = client.protocol
            await cell("list", lambda: has_tool(client))
            await cell("call", lambda: text(client.call("test_simple_text", {}, None)))
            await cell("progress", lambda: progress(client))
            await cell("elicit", lambda: text(client.call("test_elicitation", {"message": "Who are you?"}, None)))
            await cell("sample", lambda: text(client.call("test_sampling", {"prompt": "Which city?"}, None)))
            await cell("subscribe", lambda: watched(client, update))
            await cell("read", lambda: read(client))
            await cell("prompt", lambda: prompt(client))
        seen["close"] = True
    except Exception as error:
        seen.setdefault("open" if "open" not in seen else "close", {"error": f"{type(error).__name__}: {error}"})
    await cell("cancel", lambda: cancelled(connect, plan))
    print(json.dumps(seen), flush=True)


async def has_tool(client):
    return any(tool.name == "test_simple_text" for tool in await client.tools())


async def text(called):
    return ",".join(block.text for block in (await called).content)


async def progress(client):
    reports = []

    async def note(progress, total, message):
        # Not every SDK shows the last report, which comes together with the reply.
        if progress < total:
            reports.append([int(progress), int(total)])

    await client.call("test_tool_with_progress", {}, note)
    return reports


async def watched(client, update):
    async with client.watch(WATCHED):
        await client.call("test_trigger_resource_update", {}, None)
        return await update.receive()


async def read(client):
    contents = await client.read("test://static-text")
    return getattr(contents, "contents", contents)[0].text


async def prompt(client):
    got = await client.prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
    return got.messages[0].content.text


async def cancelled(connect, plan):
    """Gives a long call up at its first sign of progress, then listens whether the server goes on with it."""
    async with connect(plan["toolbox"], plan, lambda _: None) as client:
        reports = []
        answered = []
        progressed = anyio.Event()

        async def note(progress, total, message):
            reports.append(progress)
            progressed.set()

        async def call():
            answered.append(await client.call("wait", {"ms": 60000, "steps": 120}, note))

        await client.give_up(progressed, call)
        await anyio.sleep(SILENCE)
        seen = {"cancelled": not answered, "reports": len(reports)}
        seen["afterwards"] = await text(client.call("echo", {"message": "still here"}, None))
        return seen


async def leave_scope(progressed, call):
    """Leaving the scope of a call cancels it, in the lines that have a way to cancel."""
    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await progressed.wait()
        group.cancel_scope.cancel()
