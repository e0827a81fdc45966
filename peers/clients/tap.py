"""Stands between a client and a server and writes down what passes: tap.py FOLDER COMMAND ARGS…

Each process becomes one file in FOLDER, one JSON line for each line that passed and one for the end. Bytes are
handed on as they come; the tap has no opinion. What the client hides from its user can be read there.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

folder, command = sys.argv[1], sys.argv[2:]
log = open(os.path.join(folder, f"{time.time_ns()}-{os.getpid()}.ndjson"), "w", encoding="utf-8")
lock = threading.Lock()
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
signal.signal(signal.SIGTERM, lambda *_: server.terminate())


def note(entry):
    with lock:
        log.write(json.dumps(entry) + "\n")
        log.flush()


def pump(source, sink, sender):
    try:
        while line := source.readline():
            note({"from": sender, "line": json.loads(line)})
            sink.write(line)
            sink.flush()
    except (BrokenPipeError, ValueError) as error:
        note({"from": sender, "broken": repr(error)})
    finally:
        sink.close()


threading.Thread(target=pump, args=(sys.stdin.buffer, server.stdin, "client"), daemon=True).start()
answers = threading.Thread(target=pump, args=(server.stdout, sys.stdout.buffer, "server"))
answers.start()
code = server.wait()
answers.join()
note({"exit": code})
os._exit(code if code >= 0 else 1)
