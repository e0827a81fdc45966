"""One session of a Python client with a server behind `gladhand bridge`, cell by cell.

Prints one line of JSON: what was seen in each cell, or the error that came instead. The plan says what there is to
call: `steps` has a tool with its arguments for each cell that the server has something for; `server` is a file with
the process ids of the server, which is killed in the middle of a call.
"""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import anyio

PATIENCE = 20
ROUNDS = 40
PAUSE = 0.05
UNDER_WAY = 0.7


async def coupled(connect, plan):
    seen = {}

    async def cell(name, look):
        try:
            with anyio.fail_after(PATIENCE):
                seen[name] = await look()
        except Exception as error:
            seen[name] = {"error": f"{type(error).__name__}: {error}"}

    steps = plan["steps"]
    try:
        async with connect(plan["target"], plan, lambda _: None) as client:
            session = Session(client, plan)
            seen["open"] = client.protocol
            await cell("list", lambda: session.has(steps["call"]["tool"]))
            await cell("call", lambda: session.text("call"))
            await cell("error", session.error)
            for name in ("elicit", "sample"):
                if name in steps:
                    await cell(name, lambda name=name: session.text(name))
            for name in ("progress", "change", "cancel"):
                if name in steps:
                    await cell(name, getattr(session, name))
            if "linger" in steps:
                await cell("dies", session.dies)
    except Exception as error:
        seen.setdefault("open", {"error": f"{type(error).__name__}: {error}"})
    print(json.dumps(seen), flush=True)


class Session:
    def __init__(self, client, plan):
        self.client = client
        self.plan = plan

    async def make(self, name, progress=None):
        step = self.plan["steps"][name]
        return await self.client.call(step["tool"], step["arguments"], progress)

    async def text(self, name):
        return ",".join(block.text for block in (await self.make(name)).content)

    async def has(self, name):
        return any(tool.name == name for tool in await self.client.tools())

    async def steadily(self, look):
        for _ in range(ROUNDS):
            if await look():
                return True
            await anyio.sleep(PAUSE)
        return await look()

    async def fails(self, name, progress=None):
        """Whether a call fails, in whichever way the SDK shows that."""
        try:
            result = await self.make(name, progress)
        except Exception:
            return True
        return getattr(result, "is_error", None) or getattr(result, "isError", False)

    async def error(self):
        return {"failed": await self.fails("error"), "afterwards": await self.text("call")}

    async def progress(self):
        reports = []

        async def note(progress, total, message):
            reports.append(progress)

        await self.make("progress", note)
        return reports

    async def change(self):
        changes = []
        async with self.client.follow(lambda: changes.append(True)):
            before = await self.has("grown")
            await self.make("change")

            async def told():
                return bool(changes)

            told = await self.steadily(told)
            return {"before": before, "told": told, "after": await self.has("grown")}

    async def cancel(self):
        answered = []
        progressed = anyio.Event()

        async def note(progress, total, message):
            progressed.set()

        async def call():
            answered.append(await self.make("cancel", note))

        async def is_proven():
            return self.plan["proof"] in await self.text("proof")

        async with anyio.create_task_group() as group:
            group.start_soon(under_way, progressed.set)
            await self.client.give_up(progressed, call)
            group.cancel_scope.cancel()
        return {"cancelled": not answered, "proven": await self.steadily(is_proven)}

    async def dies(self):
        killed = []

        def kill():
            if not killed:
                killed.append(True)
                # Of those that were only asked what they speak, some are gone.
                for process in Path(self.plan["server"]).read_text().split():
                    with suppress(ProcessLookupError):
                        os.kill(int(process), signal.SIGKILL)

        async def note(progress, total, message):
            kill()

        async with anyio.create_task_group() as group:
            group.start_soon(under_way, kill)
            lost = await self.fails("linger", note)
            group.cancel_scope.cancel()
        return {"lost": lost, "afterwards": await self.text("call")}


async def under_way(act):
    """Acts when a call must be under way although nothing tells of its progress."""
    await anyio.sleep(UNDER_WAY)
    act()
