#!/usr/bin/env python3
"""A worker of FlowFabric in plain Python: FLOWFABRIC_SERVER=http://localhost:8080 python3 worker.py"""
import json, os, socket, threading, time, urllib.error, urllib.request

SERVER = os.environ["FLOWFABRIC_SERVER"].rstrip("/") + "/api/v1/tasks/"
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("FLOWFABRIC_TOKEN", "")}
NAME = f"{socket.gethostname()}-{os.getpid()}"
LEASE = float(os.environ.get("LEASE_SECONDS", "30"))

class Suspend(Exception): """Raised to wait for a signal without keeping the task."""

def call(path, body=None):
    request = urllib.request.Request(SERVER + path, json.dumps(body).encode() if body else b"", HEADERS)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read() or b"{}")

def fetch(task):
    if task["attempt"] == 1:
        raise ConnectionError("the source did not answer")  # the retry policy of the node decides what follows
    return {"lines": [f"{task['input']['source']} {n}" for n in range(1, 4)]}

def approve(task):
    if not task.get("signals"):
        raise Suspend({"signals": ["approve"], "title": "Publish the report?"})
    return task["signals"][0]["json"]

def publish(task):
    call(task["token"] + "/logs", {"lines": [{"message": "publishing", "attrs": task["input"]["approval"]}]})
    for line in task["input"]["report"]["lines"]:
        call(task["token"] + "/frames", {"frames": [{"kind": "line", "text": line}]})
    return "published by " + task["input"]["approval"]["by"]
ACTIVITIES = {"fetch": fetch, "approve": approve, "publish": publish}

def renew(task, ended):
    while not ended.wait(LEASE / 3):
        if call(task["token"] + "/renew")["state"] != "held":
            return print("stop:", task["node"], "was cancelled")  # a long activity would look at this

def work(task):
    ended = threading.Event()
    threading.Thread(target=renew, args=(task, ended), daemon=True).start()
    try:
        return "complete", {"result": ACTIVITIES[task["activity"]](task)}
    except Suspend as wait:
        return "suspend", wait.args[0]
    except Exception as error:
        return "fail", {"reason": str(error), "category": type(error).__name__, "non_retryable": isinstance(error, KeyError)}
    finally:
        ended.set()

while True:
    try:
        task = call("claim", {"worker": NAME, "activities": list(ACTIVITIES), "lease": f"{LEASE}s", "wait": "30s"}).get("task")
        if task:
            outcome, body = work(task)
            call(task["token"] + "/" + outcome, body)
    except urllib.error.HTTPError as error:
        print(json.load(error).get("detail"), flush=True)  # such as a lease that was lost: another worker has the node
    except OSError:
        time.sleep(1)  # the server is away
