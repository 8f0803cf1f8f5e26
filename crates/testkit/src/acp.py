"""An agent over the Agent Client Protocol for tests: one JSON object per line, both ways.

Every line that it is given is in the file that is its first argument. The words of a prompt, after its header, are
commands; `;` is between them:

`say TEXT`, `think`, `tool TITLE`, `ask COMMAND` and `ask-only-always COMMAND` (a permission), `wait FILE` (until the file
is there, or a cancel), `deaf FILE` (the same, and a cancel is not heard), `stop REASON`, `error TEXT`, `garbage N`, `long N`,
`flood N`, `read PATH` (asks us for a file), `silent FILE` (nothing is said until the file is there), `shell COMMAND`,
`stderr TEXT`, `exit CODE`, `pester N` (asks so often for a file, and reads nothing any more).

Its other arguments: `login` (it wants a login first), `version N`, `mute` (it answers nothing), `plain` (it speaks no ACP).
"""

import json
import os
import subprocess
import sys
import threading
import time

log = open(sys.argv[1], "a", buffering=1)
mood = sys.argv[2:]
lock = threading.Lock()
answers, arrived, canceled, asked = {}, threading.Condition(), threading.Event(), 0
blind = threading.Event()


def out(message):
    with lock:
        sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
        sys.stdout.flush()


def update(**fields):
    out({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": fields}})


def say(text):
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def request(method, params):
    global asked
    asked += 1
    key = f"q{asked}"
    out({"jsonrpc": "2.0", "id": key, "method": method, "params": params})
    with arrived:
        arrived.wait_for(lambda: key in answers)
        return answers.pop(key)


def ask(command, kinds):
    options = [{"optionId": f"id-{kind}", "name": kind.replace("_", " "), "kind": kind} for kind in kinds]
    tool = {"toolCallId": "t1", "title": command, "kind": "execute", "status": "pending"}
    answer = request("session/request_permission", {"sessionId": "s1", "toolCall": tool, "options": options})
    outcome = answer["result"]["outcome"]
    return outcome.get("optionId", outcome["outcome"])


def until(path, hears=True):
    while not os.path.exists(path):
        if hears and canceled.is_set():
            return False
        time.sleep(0.01)
    return True


def turn(text):
    """The stop reason, or an error."""
    for step in text.split(";"):
        word, _, rest = step.strip().partition(" ")
        if word == "say":
            say(rest)
        elif word == "think":
            update(sessionUpdate="agent_thought_chunk", content={"type": "text", "text": "hm"})
        elif word == "tool":
            update(sessionUpdate="tool_call", toolCallId="t2", title=rest, kind="execute", status="in_progress")
        elif word in ("ask", "ask-only-always"):
            kinds = ["allow_always", "reject_always"] if word != "ask" else ["allow_always", "allow_once", "reject_once"]
            chosen = ask(rest, kinds)
            if chosen == "id-allow_once":
                say(f"ran {rest}")
            elif chosen == "cancelled":
                return "cancelled"
            else:
                update(sessionUpdate="tool_call_update", toolCallId="t1", status="failed")
                if chosen != "id-reject_once":
                    say(f"took {chosen}")
        elif word in ("wait", "silent", "deaf"):
            if word == "wait":
                update(sessionUpdate="plan", entries=[])
            if not until(rest, word != "deaf"):
                return "cancelled"
        elif word == "stop":
            return rest
        elif word == "error":
            return {"code": -32603, "message": "Internal error", "data": {"details": rest}}
        elif word == "garbage":
            for n in range(int(rest)):
                out(["not json {", '{"id": 99, "result": {}}', '{"jsonrpc": "2.0"}', "[]", "\x1b[2J\x07"][n % 5])
        elif word == "long":
            out("x" * int(rest))
        elif word == "flood":
            for n in range(int(rest)):
                update(sessionUpdate="agent_thought_chunk", content={"type": "text", "text": f"{n} " * 50})
        elif word == "read":
            say(f"read: {request('fs/read_text_file', {'sessionId': 's1', 'path': rest})['error']['code']}")
        elif word == "shell":
            done = subprocess.run(rest, shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            say((done.stdout + done.stderr).strip())
        elif word == "stderr":
            print(rest, file=sys.stderr, flush=True)
        elif word == "pester":
            blind.set()
            for n in range(int(rest)):
                out({"jsonrpc": "2.0", "id": n, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}})
            threading.Event().wait()
        elif word == "exit":
            os._exit(int(rest))
    return "end_turn"


def prompt(message):
    text = message["params"]["prompt"][0]["text"]
    canceled.clear()
    ended = turn(text.partition("] ")[2].removeprefix("(may repeat) ").removeprefix("URGENT: "))
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    out(answer | ({"error": ended} if isinstance(ended, dict) else {"result": {"stopReason": ended}}))


def handle(message):
    method = message.get("method")
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    if method is None:
        with arrived:
            answers[message["id"]] = message
            arrived.notify_all()
    elif method == "initialize":
        version = int(mood[1]) if mood[:1] == ["version"] else 1
        out(answer | {"result": {"protocolVersion": version, "agentInfo": {"name": "scripted", "version": "1.2.3"},
                                 "authMethods": [{"id": "key", "name": "Use a key"}]}})
    elif method == "session/new" and "login" in mood:
        out(answer | {"error": {"code": -32000, "message": "Authentication required"}})
    elif method == "session/new":
        out(answer | {"result": {"sessionId": "s1"}})
        update(sessionUpdate="available_commands_update", availableCommands=[])
    elif method == "session/prompt":
        threading.Thread(target=prompt, args=(message,), daemon=True).start()
    elif method == "session/cancel":
        canceled.set()
    else:
        out(answer | {"error": {"code": -32601, "message": "no such method"}})


if "plain" in mood:
    while True:
        print("I am no agent", flush=True)
for line in sys.stdin:
    log.write(line)
    if blind.is_set():
        threading.Event().wait()
    if "mute" not in mood:
        handle(json.loads(line))
