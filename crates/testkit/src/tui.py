"""A terminal program for tests: full screen, colours, wide characters, frames, titles, status reports, questions, floods.

It draws piece by piece, never all of it unless the window changes: a byte too few or too many stays visible. Every byte it
was typed is in the file that is its first argument; answers to its queries are counted on the screen instead. What it
shows depends on what it was typed and on the size of the window, and on nothing else.

Typed lines are commands: `turn N`, `flood N`, `ask`, `probe N`, `quit N`; anything else is only shown.
"""

import os
import re
import select
import signal
import sys
import tty

typed_log = open(sys.argv[1], "ab", buffering=0)
columns, rows = os.get_terminal_size(0)
transcript, draft, state, answers, done = [], "", "idle", 0, 0
pending, queue, busy = b"", [], False

ANSWER = re.compile(rb"\x1b\[\?[\d;]*[cu]|\x1b\[\d+;\d+R|\x1b\]1[01];[^\x07\x1b]*(?:\x07|\x1b\\)")
INCOMPLETE = re.compile(rb"\x1b(?:\[[?\d;]*|\](?:1[01]?)?(?:;[^\x07\x1b]*\x1b?)?)?$")


def out(text):
    data = text.encode()
    while data:
        data = data[os.write(1, data):]


def frame(text):
    out("\x1b[?2026h" + text + "\x1b[?2026l")


def to_draft():
    return f"\x1b[{rows - 2};{3 + len(draft)}H\x1b[0m"


def line_of(n, text):
    ink = 16 + n * 7 % 216
    wide = "世界漢字"[n % 4]
    plain = f"{n:06d} {wide} {text} "
    # Every third line fills the window to its last column.
    room = columns - len(plain) - 1
    fill = "▓" * max(0, room) if n % 3 == 0 else ""
    return f"\x1b[38;5;{ink}m{plain}\x1b[48;2;{n % 200};20;60m{fill}\x1b[0m"


def status_line():
    marks = {"idle": "1;32", "busy": "1;33", "waiting": "1;31;7"}
    return f"\x1b[{rows - 4};1H\x1b[2K\x1b[{marks[state]}m{state}\x1b[0m answers {answers} done {done}"


def report():
    said = {"idle": "idle", "busy": "working", "waiting": "blocked:kind=permission"}[state]
    mark = {"idle": "·", "busy": "✻", "waiting": "?"}[state]
    return f"\x1b]7501;state={said}\x07\x1b]2;{mark} scripted {done}\x07"


def question():
    at = rows - 10
    if state != "waiting":
        return "".join(f"\x1b[{at + n};1H\x1b[2K" for n in range(5))
    words = ["Allow the tool to run?", "❯ 1. Yes", "  2. Yes, and do not ask again", "  3. No", "Enter to select · Esc to cancel"]
    return "".join(f"\x1b[{at + n};1H\x1b[2K\x1b[36m{word}\x1b[0m" for n, word in enumerate(words))


def everything():
    shown = transcript[-(rows - 14):]
    text = f"\x1b[r\x1b[0m\x1b[2J\x1b[1;1H\x1b[44;97;1m scripted 端末 {columns}x{rows} \x1b[0m\x1b[3;{rows - 12}r"
    for n, (number, words) in enumerate(shown):
        text += f"\x1b[{rows - 12 - len(shown) + 1 + n};1H" + line_of(number, words)
    text += status_line() + question() + f"\x1b[{rows - 2};1H\x1b[2K> {draft}\x1b[{rows};1H\x1b[2menter sends\x1b[0m"
    frame(text + report() + to_draft())


def say(words):
    number = transcript[-1][0] + 1 if transcript else 0
    transcript.append((number, words))
    del transcript[:-200]
    # Saves and restores the cursor, as many programs do.
    return f"\x1b7\x1b[{rows - 12};1H\r\n{line_of(number, words)}\x1b8"


def become(new):
    global state
    state = new
    return status_line() + question() + report() + to_draft()


def finish(command):
    global done
    done += 1
    frame(say(f"done {done}: {command}") + become("idle"))


def wait(seconds):
    """Lets time pass; takes what is typed meanwhile."""
    ready, _, _ = select.select([0, winch], [], [], seconds)
    if winch in ready:
        os.read(winch, 100)
        size()
    if 0 in ready:
        take(os.read(0, 4096))
    # In a turn a line that is sent waits for the end of it.
    while queue and not (busy and queue[0] == "\r"):
        press(queue.pop(0))


def size():
    global columns, rows
    columns, rows = os.get_terminal_size(0)
    columns, rows = max(columns, 20), max(rows, 18)
    everything()


def take(read):
    global pending, answers
    data = pending + read
    held = INCOMPLETE.search(data)
    if held:
        pending, data = data[held.start():], data[: held.start()]
    else:
        pending = b""
    count = len(ANSWER.findall(data))
    if count:
        answers += count
        data = ANSWER.sub(b"", data)
        frame(status_line() + to_draft())
    if data:
        typed_log.write(data)
        queue.extend(data.decode("utf-8", "replace"))


def press(key):
    global draft
    if state == "waiting":
        if key in "123":
            frame(say(f"chose {key}"))
            finish("ask")
    elif key == "\r":
        command, draft = draft, ""
        frame(f"\x1b[{rows - 2};3H\x1b[K" + to_draft())
        run(command)
    elif key.isprintable():
        draft += key
        out(key)


def run(command):
    word, _, number = command.partition(" ")
    if word == "turn":
        turn(int(number))
    elif word == "flood":
        frame(become("busy"))
        for n in range(int(number)):
            out(say("flood"))
        finish(command)
    elif word == "ask":
        frame(become("waiting"))
    elif word == "probe":
        for _ in range(int(number)):
            out("\x1b[c")
        finish(command)
    elif word == "quit":
        out("\x1b[r\x1b[<u\x1b[?2004l\x1b[?1004l\x1b[?1006l\x1b[?1002l\x1b[?25h\x1b[?1049l")
        sys.exit(int(number))
    else:
        finish(command)


def turn(frames):
    global busy
    busy = True
    frame(become("busy"))
    for n in range(frames):
        spinner = "⠋⠙⠹⠸⠼⠴"[n % 6]
        text = f"\x1b[{rows - 4};40H\x1b[35m{spinner}\x1b[0m"
        if n % 4 == 3:
            text += say(f"step {n}")
        if n % 16 == 7:
            text += "\x1b[c"
        frame(text + to_draft())
        wait(0.004)
    busy = False
    finish(f"turn {frames}")


tty.setraw(0)
winch, ring = os.pipe()
os.set_blocking(ring, False)
signal.set_wakeup_fd(ring)
signal.signal(signal.SIGWINCH, lambda *_: None)
out("\x1b[?1049h\x1b[?25l\x1b[?1002h\x1b[?1006h\x1b[?1004h\x1b[?2004h\x1b[>1u")
size()
while True:
    wait(0 if queue else None)
