"""An A2E agent of its own, on the standard library alone: a whole session with a host, over pipes or over HTTP.

`a2e.py stdio COMMAND…` starts the host; `a2e.py http URL` reaches one. The host must know the token `dev-secret`, and may
start `cat`. Prints `PEER-OK` if everything was as an agent wants it.
"""

import http.client
import json
import queue
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid

PATIENCE = 30
EVENTS = {"tool/event", "skill/event", "chain/event", "proc/read/event", "invoke/event"}
WANTED = ["tools", "memory", "env", "proc", "planning", "chains"]
TEXT = "grüezi 🤝 \u2028 \u0085 \\"


class Stdio:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def lines(self):
        yield from self.process.stdout

    def check_end(self):
        assert self.process.wait(PATIENCE) == 0, "a host that was told to leave leaves well"


class Http:
    def __init__(self, url):
        self.address = urllib.parse.urlsplit(url).netloc
        status, body = self.ask("POST", "/session")
        assert status == 200, body
        self.headers = {"X-Session-Id": body["session_id"], "Content-Type": "text/plain"}

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def send(self, line):
        status, body = self.ask("POST", "/send", line.encode(), self.headers)
        assert (status, body) == (200, {"ok": True}), (status, body)

    def lines(self):
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        connection.request("GET", "/stream", headers={**self.headers, "Accept": "text/event-stream"})
        response = connection.getresponse()
        assert response.getheader("content-type") == "text/event-stream; charset=utf-8"
        for line in response:
            if line.startswith(b"data: "):
                yield line.removeprefix(b"data: ")

    def check_end(self):
        until = time.monotonic() + PATIENCE
        while self.ask("POST", "/send", b"{}", self.headers)[0] != 404:
            assert time.monotonic() < until, "a session that was shut down is forgotten"
            time.sleep(0.05)


class Refused(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.code, self.error = error["code"], error


class Agent:
    def __init__(self, transport):
        self.transport = transport
        self.heard = queue.Queue()
        self.events = []
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.transport.lines():
            self.heard.put(json.loads(line))
        self.heard.put(None)

    def hear(self):
        message = self.heard.get(timeout=PATIENCE)
        assert message is not None, "the host is gone"
        assert message["a2e"] == message["version"] == "1.0" and message["id"] and message["ts"] > 0, message
        return message

    def send(self, kind, **fields):
        request = uuid.uuid4().hex
        message = {"a2e": "1.0", "version": "1.0", "type": kind, "id": request, "ts": time.time(), **fields}
        self.transport.send(json.dumps(message, ensure_ascii=False))
        return request

    def ask(self, kind, **fields):
        """The one answer to a request; the events before it are kept."""
        request = self.send(kind, **fields)
        while True:
            message = self.hear()
            if message["type"] in EVENTS:
                self.events.append(message)
                continue
            assert message["req_id"] == request, message
            if message["type"] == "error":
                raise Refused(message)
            return message

    def refusal(self, kind, **fields):
        try:
            raise AssertionError(self.ask(kind, **fields))
        except Refused as refused:
            return refused.code

    def event(self):
        return self.events.pop(0) if self.events else self.hear()


def handshake(agent):
    assert agent.ask("ping")["type"] == "pong"
    assert agent.refusal("tool/list/req") == "unauthorized"
    opening = {"agent_id": "peer", "agent_caps": WANTED + ["toolkits", "no_such_thing"]}
    refused = agent.ask("handshake/req", **opening, auth_token="guessed")
    assert (refused["ok"], refused["reason"], refused["accepted_caps"]) == (False, "auth_failed", []), refused
    opened = agent.ask("handshake/req", **opening, auth_token="dev-secret")
    assert opened["ok"] and opened["session_id"] and opened["max_parallel"] >= 1, opened
    granted = {entry["capability"]: entry["enabled"] for entry in opened["accepted_caps"]}
    assert granted == {**dict.fromkeys(WANTED, True), "toolkits": False}, granted
    assert agent.refusal("learn/stats/req") == "capability_missing"
    assert agent.refusal("no/such/type") == "parse_error"
    assert agent.refusal("tool/call/req", tool_name="echo") == "parse_error"
    return opened["session_id"]


def tools(agent, session):
    names = [tool["name"] for tool in agent.ask("tool/list/req")["tools"]]
    assert "echo" in names, names
    said = agent.ask("tool/call/req", session_id=session, tool_name="echo", arguments={"message": TEXT})
    assert said["data"]["success"] and said["data"]["data"] == {"value": TEXT}, said
    assert agent.refusal("tool/call/req", tool_name="no_such_tool", arguments={}) == "unknown_tool"
    assert agent.refusal("tool/call/req", session_id="stolen", tool_name="echo", arguments={}) == "unauthorized"


def memory(agent):
    place = {"memory_id": agent.ask("memory/init/req", namespace="peer", scope={"run": uuid.uuid4().hex})["memory_id"]}
    entries = [
        {"key": {"k": 1, "of": "x"}, "content": {"text": "likes python"}, "tier": "semantic", "tags": ["taste"]},
        {"key": {"k": 2}, "content": TEXT, "tier": "working"},
    ]
    stored = agent.ask("memory/store/req", **place, entries=entries)
    assert (stored["stored"], stored["errors"]) == ([entry["key"] for entry in entries], []), stored
    found = agent.ask("memory/retrieve/req", **place, keys=[{"of": "x", "k": 1}])
    assert [entry["content"] for entry in found["entries"]] == [{"text": "likes python"}], found
    assert agent.ask("memory/retrieve/req", **place, query="PYTHON")["total"] == 1
    assert agent.ask("memory/retrieve/req", **place, limit=1)["total"] == 2
    assert agent.ask("memory/forget/req", **place, keys=[{"k": 2}], tier="")["deleted"] == 1
    assert agent.ask("memory/retrieve/req", **place)["total"] == 1
    assert agent.refusal("memory/retrieve/req", memory_id="nope") == "memory_not_found"


def env(agent):
    assert agent.refusal("env/reset/req", env_name="no_such_env") == "reset_denied"
    episode = {"episode_id": agent.ask("env/reset/req", env_name="counter_env")["obs"]["episode_id"]}
    seen = [agent.ask("env/step/req", **episode, action={"type": "inc"})["obs"] for _ in range(5)]
    assert [obs["state"]["count"] for obs in seen] == [1, 2, 3, 4, 5], seen
    assert [obs["step_num"] for obs in seen] == [1, 2, 3, 4, 5], seen
    assert (seen[-1]["done"], seen[-1]["reward"]) == (True, 1.0), seen[-1]
    assert agent.refusal("env/step/req", **episode, action={"type": "inc"}) == "runtime_error"
    assert agent.ask("env/close/req", **episode)["closed"] is True
    assert agent.refusal("env/observe/req", **episode) == "runtime_error"


def proc(agent, session):
    refused = agent.ask("proc/spawn/req", cmd=["rm", "-rf", "/nothing"])
    assert (refused["ok"], refused["error"]) == (False, "Command not allowed"), refused
    started = agent.ask("proc/spawn/req", session_id=session, cmd=["cat"])
    assert started["ok"] and started["pid"] > 0 and not agent.events, "the answer comes before any event"
    process = {"proc_id": started["proc_id"]}
    assert agent.ask("proc/status/req", **process)["status"] == "running"
    written = agent.ask("proc/write/req", **process, data="one\ntwo", eof=True)
    assert (written["ok"], written["error"]) == (True, ""), written
    told = [agent.event() for _ in range(3)]
    assert [event["data"] for event in told] == [{"text": "one\n"}, {"text": "two"}, {"code": 0}], told
    assert [event["seq"] for event in told] == [0, 1, 2], told
    assert {event["req_id"] for event in told} == {started["req_id"]}, told
    assert agent.ask("proc/status/req", **process)["status"] == "completed"
    assert agent.ask("proc/write/req", **process, data="three")["error"] == "proc_dead"
    sleeper = agent.ask("proc/spawn/req", cmd=["cat"])
    killed = agent.ask("proc/kill/req", proc_id=sleeper["proc_id"], signal="SIGKILL")
    assert (killed["ok"], killed["state"]) == (True, "killed"), killed
    assert agent.event()["data"] == {"code": -9}


def planning(agent):
    plan = {"plan_id": agent.ask("planning/plan/create", name="release")["plan_id"]}
    task = agent.ask("planning/task/add", **plan, title="write", status="todo")["task_id"]
    assert agent.ask("planning/task/update", **plan, task_id=task, status="done")["success"]
    (board,) = agent.ask("planning/plan/board", **plan)["boards"]
    assert [task["title"] for task in board["tasks"]["done"]] == ["write"], board
    assert board["columns"] == ["backlog", "todo", "in_progress", "done"], board


def chains(agent, session):
    nodes = [
        {"node_id": "a", "kind": "tool", "name": "echo", "input_map": {"message": "$.text"}, "next_node": "b"},
        {"node_id": "b", "kind": "branch", "condition": "$.a.value == hi", "true_node": "c", "false_node": ""},
        {"node_id": "c", "kind": "proc", "input": {"cmd": ["cat"]}},
    ]
    request = {"session_id": session, "chain_id": "ch", "nodes": nodes, "entry_node": "a", "initial_input": {"text": "hi"}}
    walked = agent.ask("chain/req", **request)
    assert walked["success"] and walked["chain_id"] == "ch" and walked["nodes_run"] == 2, walked
    assert walked["outputs"]["a"] == {"value": "hi"}, walked
    assert walked["outputs"]["c"]["status"] == "completed", walked
    phases = [(event["node_id"], event["phase"]) for event in agent.events if event["type"] == "chain/event"]
    assert phases == [("a", "start"), ("a", "done"), ("c", "start"), ("c", "done")], phases
    agent.events.clear()
    lost = agent.ask("chain/req", **{**request, "entry_node": "z", "streaming": False})
    assert (lost["success"], lost["error"]["code"]) == (False, "bad_entry") and not agent.events, lost


def main():
    way, *host = sys.argv[1:]
    transport = Stdio(host) if way == "stdio" else Http(*host)
    agent = Agent(transport)
    session = handshake(agent)
    tools(agent, session)
    memory(agent)
    env(agent)
    proc(agent, session)
    planning(agent)
    chains(agent, session)
    agent.send("shutdown", timeout=5)
    transport.check_end()
    print("PEER-OK")


main()
