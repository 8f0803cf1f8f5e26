"""A scripted CLI agent with a composer: takes pastes, works for a while, asks for approval, and can be nasty.

Usage: cli.py LOG [key=number ...]
Every thing that is given to it, and every key that decides something, is a line of JSON in LOG.

  echo=MS      paints what was written so late (a number below 0: at random up to that)
  swallow=N    ignores so many Enters after a paste
  lose=N       loses so many pastes
  garble=1     shows pastes of more than one line without every third letter
  collapse=N   shows pastes of more than N lines as a count only
  turn=MS      how long a turn takes
  goes_on=MS   works on for so long after a denial, as a model that was told no
  keys=1       logs all that is typed to it, as it is read
  cursor=1     asks for cursor keys in application mode
  log=FILE     records its session there, as Copilot does
  shape=N      draws its composer otherwise: 1 in a box with an example in it, 2 between lines and without a mark,
               3 with a mark in every row and nothing below
  mute=1       does not report its status
A message that contains ASK makes it ask for approval in the middle of its turn; one with LONG takes a minute; after one
with LIMIT and a time its usage limit is reached until then.
"""

import json, os, random, re, select, sys, termios, time, tty

LOG, OPTIONS = sys.argv[1], dict(option.split("=") for option in sys.argv[2:])
ECHO, SWALLOW, LOSE, COLLAPSE, TURN = (
    int(OPTIONS.get(name, default))
    for name, default in (("echo", 0), ("swallow", 0), ("lose", 0), ("collapse", 9), ("turn", 300))
)

SHAPE = int(OPTIONS.get("shape", 0))
SHAPES = (
    ("─" * 20, "> ", "  ", "", "─" * 20),
    ("╭" + "─" * 55 + "╮", "│ > ", "│   ", "│", "╰" + "─" * 55 + "╯"),
    ("─" * 20, "", "", "", "─" * 20),
    ("", "ask> ", "ask> ", "", ""),
)


def log(**what):
    with open(LOG, "a") as file:
        file.write(json.dumps(what) + "\n")


def record(kind, **data):
    if "log" in OPTIONS:
        os.makedirs(os.path.dirname(OPTIONS["log"]), exist_ok=True)
        with open(OPTIONS["log"], "a") as file:
            file.write(json.dumps({"type": kind, "data": data}) + "\n")


class Cli:
    def __init__(self):
        self.said, self.draft, self.state = [], "", "idle"
        self.ends = self.asks = self.paint_at = self.limit = None
        self.swallow, self.lose, self.number = SWALLOW, LOSE, 0

    def becomes(self, state):
        self.state = state
        if "mute" in OPTIONS:
            return
        kind = {"idle": "idle", "busy": "working", "waiting": "blocked"}[state]
        os.write(1, b"\x1b]7501;state=%s:app=scripted\x1b\\" % kind.encode())

    def later(self, ms):
        return time.monotonic() + ms / 1000

    def changed(self):
        delay = random.randrange(-ECHO) if ECHO < 0 else ECHO
        at = self.later(delay)
        self.paint_at = at if self.paint_at is None else min(self.paint_at, at)

    def paint(self):
        self.paint_at = None
        columns, rows = os.get_terminal_size(0)
        out = list(self.said)
        if self.state == "waiting":
            out += ["", "Run the command number %d?" % self.number, "> 1. Yes (y)", "  2. No (esc)", "", "enter to confirm, esc to cancel"]
            cursor = None
        else:
            shown = self.draft
            if shown.count("\n") > COLLAPSE:
                shown = "[Pasted %d lines]" % shown.count("\n")
            if "garble" in OPTIONS and "\n" in shown.rstrip("\n"):
                shown = "".join(c for n, c in enumerate(shown) if n % 3 or c == "\n")
            lines = shown.split("\n")
            width = max(1, columns - 4)
            lines = [line[at : at + width] for line in lines for at in range(0, max(1, len(line)), width)]
            above, first, other, right, below = SHAPES[SHAPE]
            out += ["", above] if above else [""]
            if SHAPE == 3:
                out += ["working, esc to interrupt" if self.state == "busy" else "ready"]
            out += [((first if n == 0 else other) + line).ljust(56 if right else 0) + right for n, line in enumerate(lines)]
            cursor = len(out), len(lines[-1]) + len(first if len(lines) == 1 else other) + 1
            if SHAPE == 1 and not shown:
                out[-1] = (first + "Ask me anything").ljust(56) + right
            if below:
                out += [below, "working, esc to interrupt" if self.state == "busy" else "ready"]
        skip = max(0, len(out) - rows)
        out = out[skip:]
        text = "\x1b[?2026h\x1b[H\x1b[2J" + "\r\n".join(line[: columns - 1] for line in out)
        if cursor:
            text += "\x1b[%d;%dH" % (max(1, cursor[0] - skip), cursor[1])
        os.write(1, (text + "\x1b[?2026l").encode())

    def tick(self):
        now = time.monotonic()
        if self.state == "busy" and self.asks and now >= self.asks:
            self.asks, self.number = None, self.number + 1
            self.becomes("waiting")
            self.paint()
        elif self.state == "busy" and now >= self.ends:
            self.said.append("* done with it")
            record("assistant.message", content="done with it\nin **two** lines", toolRequests=[])
            if self.limit:
                self.said.append("* limit reached, until " + self.limit)
            self.becomes("idle")
            self.paint()
        if self.paint_at is not None and now >= self.paint_at:
            self.paint()

    def next_tick(self):
        times = [at for at in (self.paint_at, self.asks, self.ends if self.state == "busy" else None) if at]
        return max(0, min(times) - time.monotonic()) if times else None

    def submit(self):
        text, self.draft = self.draft, ""
        log(given=text)
        record("user.message", content=text)
        self.said += text.rstrip("\n").split("\n")
        self.becomes("busy")
        self.ends = self.later(60_000 if "LONG" in text else TURN)
        limit = re.search("LIMIT (.*)", text)
        self.limit = limit and limit.group(1)
        self.asks = self.later(TURN / 2) if "ASK" in text else None
        self.paint()

    def enter(self):
        if self.state == "waiting":
            log(approved=self.number, by="enter")
            self.decided()
        elif self.swallow and self.draft:
            self.swallow -= 1
            log(swallowed=True)
        elif self.draft.strip():
            if self.state == "busy":
                log(steered=self.draft)
            self.submit()
        else:
            log(empty_enter=True)

    def decided(self):
        self.becomes("busy")
        self.ends = self.later(TURN)
        self.paint()

    def escape(self):
        if self.state == "waiting":
            log(denied=self.number)
            self.said.append("* denied")
            if "goes_on" in OPTIONS:
                self.becomes("busy")
                self.ends = self.later(int(OPTIONS["goes_on"]))
            else:
                self.becomes("idle")
        elif self.state == "busy":
            log(interrupted=True)
            self.said.append("* interrupted")
            self.asks = None
            self.becomes("idle")
        self.paint()

    def key(self, key):
        if key == "\r":
            self.enter()
        elif key == "\x1b":
            self.escape()
        elif key == "\x03":
            log(ctrl_c=True)
            sys.exit(0)
        elif self.state == "waiting":
            if key == "y":
                log(approved=self.number, by="y")
                self.decided()
        elif key == "\x15":
            self.draft = self.draft[: self.draft.rfind("\n") + 1]
            self.changed()
        elif key == "\x7f":
            self.draft = self.draft[:-1]
            self.changed()
        elif key >= " ":
            self.draft += key
            self.changed()

    def paste(self, text):
        if self.state == "waiting":
            log(pasted_into_prompt=True)
        elif self.lose:
            self.lose -= 1
            log(lost=True)
        else:
            self.draft += text
            self.changed()


def main():
    before = termios.tcgetattr(0)
    tty.setraw(0)
    os.write(1, b"\x1b[?2004h\x1b[?1049h" + (b"\x1b[?1h" if "cursor" in OPTIONS else b""))
    cli, rest = Cli(), b""
    cli.becomes("idle")
    cli.paint()
    try:
        while True:
            ready, _, _ = select.select([0], [], [], cli.next_tick())
            if ready:
                read = os.read(0, 65536)
                if not read:
                    return
                if "keys" in OPTIONS:
                    log(keys=read.decode(errors="replace"))
                rest += read
                rest = take(cli, rest)
            cli.tick()
    finally:
        os.write(1, b"\x1b[?1049l\x1b[?2004l")
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def take(cli, data):
    while data:
        if data.startswith(b"\x1b[200~"):
            end = data.find(b"\x1b[201~")
            if end < 0:
                return data
            cli.paste(data[6:end].decode())
            data = data[end + 6 :]
        elif match := re.match(rb"\x1b(\[[0-9;?<>=]*[@-~]|O[A-Z]|\][^\x07\x1b]*(\x07|\x1b\\)|P[^\x1b]*\x1b\\)", data):
            data = data[match.end() :]
        else:
            size = 1 if data[0] < 0x80 else 2 if data[0] < 0xE0 else 3 if data[0] < 0xF0 else 4
            cli.key(data[:size].decode(errors="replace"))
            data = data[size:]
    return data


main()
