"""A plain A2E host with one tool, for comparison: threads, queues and the standard library, nothing else.

`host.py stdio` reads lines; `host.py http PORT` serves /session, /send and /stream.
"""

import json
import queue
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORKERS = 16


def envelope(kind, request, **fields):
    return {
        "type": kind,
        "id": uuid.uuid4().hex,
        "version": "1.0",
        "a2e": "1.0",
        "ts": time.time(),
        "req_id": request.get("id", ""),
        **fields,
    }


def answer(request):
    kind = request.get("type")
    if kind == "handshake/req":
        caps = [{"capability": name, "enabled": True, "metadata": {}} for name in request.get("agent_caps", [])]
        return envelope(
            "handshake/resp", request, session_id=uuid.uuid4().hex, accepted_caps=caps, max_parallel=4, ok=True, reason=""
        )
    if kind == "tool/call/req":
        result = {
            "success": True,
            "tool_name": request["tool_name"],
            "data": {"value": request["arguments"]["message"]},
            "summary": None,
            "truncated": False,
            "exit_code": None,
            "error": None,
            "error_code": None,
            "duration_ms": 0,
            "events": [],
        }
        return envelope("tool/call/resp", request, data=result, created_at=time.time())
    return envelope("error", request, code="parse_error", message=f"Unknown type {kind}", detail={}, retryable=False)


def serve(text, put):
    put(json.dumps(answer(json.loads(text)), separators=(",", ":")))


def stdio():
    lock = threading.Lock()

    def put(line):
        with lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    with ThreadPoolExecutor(WORKERS) as pool:
        for line in sys.stdin:
            pool.submit(serve, line, put)


def http(port):
    sessions = {}
    pool = ThreadPoolExecutor(WORKERS)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def log_message(self, *_):
            pass

        def reply(self, status, body):
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            self.wfile.flush()

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.path == "/session":
                session = uuid.uuid4().hex
                sessions[session] = queue.Queue()
                return self.reply(200, {"session_id": session})
            out = sessions.get(self.headers.get("x-session-id"))
            if out is None:
                return self.reply(404, {"detail": "Session not found"})
            self.reply(200, {"ok": True})
            pool.submit(serve, body, out.put)

        def do_GET(self):
            out = sessions.get(self.headers.get("x-session-id"))
            if out is None:
                return self.reply(404, {"detail": "Session not found"})
            self.send_response(200)
            self.send_header("content-type", "text/event-stream; charset=utf-8")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            while True:
                event = f"data: {out.get()}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                self.wfile.flush()

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "http":
        http(int(sys.argv[2]))
    else:
        stdio()
