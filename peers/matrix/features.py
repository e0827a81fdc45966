"""One session of a Python client with an ordinary server, feature by feature.

Prints one line of JSON: for each trial what the client saw, whole, or the error that came instead. `trials` of the plan
has the trials in order: a `name`, what is done (`do`), and what that needs.
"""

import json

import anyio
from pydantic import BaseModel

PATIENCE = 20
ROUNDS = 40
PAUSE = 0.05
UNDER_WAY = 0.7


async def features(connect, plan, heard):
    seen = {}
    opened = False
    try:
        async with connect(plan["target"], plan, heard.updates.append) as client:
            opened = True
            looks = Looks(client, heard)
            for trial in plan["trials"]:
                name = trial["name"]
                try:
                    with anyio.fail_after(PATIENCE):
                        seen[name] = plain(await getattr(looks, trial["do"])(trial))
                except Exception as error:
                    seen[name] = {"error": f"{type(error).__name__}: {error}"}
    except Exception as error:
        if not opened:
            seen = {trial["name"]: {"error": f"{type(error).__name__}: {error}"} for trial in plan["trials"]}
    print(json.dumps(seen), flush=True)


def plain(value):
    """As it is on the wire, as far as the SDK shows it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


class Looks:
    def __init__(self, client, heard):
        self.client = client
        self.heard = heard

    async def until(self, look):
        for _ in range(ROUNDS):
            if await look():
                return True
            await anyio.sleep(PAUSE)
        return await look()

    async def make(self, trial, progress=None):
        return await self.client.call(trial["tool"], trial.get("arguments", {}), progress)

    async def has(self, name):
        return any(tool.name == name for tool in await self.client.tools())

    async def open(self, trial):
        return self.client.protocol

    async def identity(self, trial):
        return self.client.identity()

    async def capabilities(self, trial):
        return self.client.capabilities()

    async def tools(self, trial):
        return await self.client.tools()

    async def call(self, trial):
        reports = []

        async def note(progress, total, message):
            reports.append({"progress": progress, "total": total, "message": message})

        self.heard.asked.clear()
        result = shown(await self.make(trial, note if trial.get("reports") else None))
        return {"result": result, "reports": reports, "asked": list(self.heard.asked)}

    async def cancel(self, trial):
        answered = []
        progressed = anyio.Event()

        async def note(progress, total, message):
            progressed.set()

        async def call():
            answered.append(await self.make(trial, note))

        async def is_proven():
            result = await self.client.call(trial["proof"], {}, None)
            return result.content[0].text != "0"

        async def under_way():
            await anyio.sleep(UNDER_WAY)
            progressed.set()

        async with anyio.create_task_group() as group:
            group.start_soon(under_way)
            await self.client.give_up(progressed, call)
            group.cancel_scope.cancel()
        return {"cancelled": not answered, "proven": await self.until(is_proven)}

    async def log(self, trial):
        if "level" in trial:
            await self.client.session.set_logging_level(trial["level"])
        self.heard.logs.clear()
        await self.make(trial)

        async def are_there():
            return len(self.heard.logs) >= trial["lines"]

        await self.until(are_there)
        return list(self.heard.logs)

    async def resources(self, trial):
        return (await self.client.session.list_resources()).resources

    async def templates(self, trial):
        templates = await self.client.session.list_resource_templates()
        return plain(templates)["resourceTemplates"]

    async def read(self, trial):
        return (await self.client.session.read_resource(trial["uri"])).contents

    async def watch(self, trial):
        self.heard.updates.clear()
        async with self.client.watch(trial["uri"]):
            await self.make(trial)

            async def is_told():
                return bool(self.heard.updates)

            await self.until(is_told)
            return self.heard.updates[:1]

    async def prompts(self, trial):
        return (await self.client.session.list_prompts()).prompts

    async def prompt(self, trial):
        return await self.client.session.get_prompt(trial["prompt"], trial["arguments"])

    async def complete(self, trial):
        reference = self.client.reference(trial["ref"])
        return (await self.client.session.complete(reference, trial["argument"])).completion

    async def change(self, trial):
        changes = []
        async with self.client.follow(lambda: changes.append(True)):
            before = await self.has("grown")
            await self.make(trial)

            async def is_told():
                return bool(changes)

            told = await self.until(is_told)
            return {"before": before, "told": told, "after": await self.has("grown")}

    async def task(self, trial):
        """Only the first line of the Python SDK has tasks."""
        tasks = self.client.session.experimental
        created = await tasks.call_tool_as_task(trial["tool"], trial["arguments"], ttl=60_000)
        async for _ in tasks.poll_task(created.task.taskId):
            pass
        return await tasks.get_task_result(created.task.taskId, self.client.tool_result)


def shown(result):
    """FastMCP has a result of its own, with what it made of the data."""
    if isinstance(result, BaseModel):
        return result
    return {"content": result.content, "structuredContent": result.structured_content, "isError": result.is_error}
