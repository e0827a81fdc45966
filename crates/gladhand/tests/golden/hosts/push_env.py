"""A counter that pushes a status when the action is `push`: an environment that is a program and speaks lines of JSON."""

import json
import sys


def say(**message):
    print(json.dumps(message), flush=True)


count = steps = 0
for line in sys.stdin:
    request = json.loads(line)
    action = request.get("step")
    if action is not None:
        steps += 1
        count += action.get("type") == "inc"
        if action.get("type") == "push":
            say(push={"event_type": "status", "reason": "proc_exit", "delta": {"note": "async"}, "reward": 0.5, "action_id": "a1"})
    if "reset" in request or action is not None:
        say(id=request["id"], obs={"state": {"count": count, "step_num": steps}})
