//! PTY-1, PTY-4, PTY-5, PTY-8: a program in a terminal survives its viewer and its node, and its
//! screen is exact.

use crate::world;
use serde_json::Value;
use std::process::Command;
use synapse_testkit::pty::Pty;
use synapse_testkit::{World, processes};

/// A program that draws a frame for each key and prints what it gets.
const ECHO: &str = r#"
import os, sys, termios, tty, signal, shutil
tty.setraw(0)
def draw(text):
    os.write(1, ("\x1b[?2026h\x1b[2J\x1b[H" + text + "\x1b[?2026l").encode())
def size(*_):
    columns, rows = os.get_terminal_size(0)
    draw(f"size {columns}x{rows}")
signal.signal(signal.SIGWINCH, size)
os.write(1, b"\x1b[?1049h")
size()
while True:
    key = os.read(0, 100)
    if key == b"q":
        os.write(1, b"\x1b[?1049l")
        os.write(1, b"last words\r\n")
        sys.exit(7)
    draw("key " + key.hex())
"#;

/// Runs `synapse` in a terminal.
fn viewer(world: &World, args: &[&str]) -> Pty {
    let command = world.prepare(Command::new(world.exe()), args);
    Pty::start(&command, 100, 30)
}

fn screen(world: &World, name: &str) -> String {
    world.ok(&["screen", name])
}

fn program_of(world: &World, name: &str) -> u32 {
    let holder = u32::try_from(world.entry(name).unwrap()["pid"].as_u64().unwrap()).unwrap();
    let node = world.agent(name).node_pid;
    let children = processes::children_of(holder);
    *children.iter().find(|pid| **pid != node).unwrap_or_else(|| panic!("{children:?}\n{}", world.show()))
}

#[test]
fn a_person_notices_nothing_and_may_leave_and_come_back() {
    let world = world();
    world.write("echo.py", ECHO);
    let mut first = viewer(&world, &["run", "--name", "tui", "--", "python3", "echo.py"]);
    first.wait_for("size 100x30");
    first.resize(90, 20);
    first.wait_for("size 90x20");
    first.keys("\u{1b}[A");
    first.wait_for("key 1b5b41");
    // Pressing the prefix key twice sends it once.
    first.keys("\u{1c}\u{1c}");
    first.wait_for("key 1c");
    first.keys("\u{1c}d");
    let (status, text) = first.end();
    assert!(status.success() && text.ends_with("detached; back with `synapse attach tui`\r\n"), "{text:?}");
    world.wait_until("unseen, the window is not small", || screen(&world, "tui").contains("size 120x40"));

    let mut second = viewer(&world, &["attach", "tui"]);
    second.wait_for("size 100x30");
    let reader = viewer(&world, &["attach", "tui", "--read-only"]);
    reader.wait_for("size 100x30");
    second.keys("x");
    reader.wait_for("key 78");
    second.keys("q");
    let (status, text) = second.end();
    assert!(status.success() && text.contains("has ended with code 7"), "{text}");
    let (_, text) = reader.end();
    assert!(text.contains("last words"), "{text}");
    world.wait_until("the agent has ended with its program", || world.entry("tui").is_none());
}

/// Commands in its sandbox have no other way to find their agent.
#[test]
fn a_program_knows_its_agent_and_its_outbox() {
    let world = world();
    let script =
        "echo id=$SYNAPSE_AGENT_ID; until test -f $SYNAPSE_OUTBOX/key; do sleep 0.1; done; echo has-key; cat";
    world.ok(&["run", "--detach", "--name", "a", "--", "sh", "-c", script]);
    let id = format!("id={}", world.agent("a").id);
    world.wait_until("both are there", || {
        let shown = screen(&world, "a").replace('\n', "");
        shown.contains(&id) && shown.contains("has-key")
    });
}

#[test]
fn the_exit_code_is_the_programs() {
    let world = world();
    let pty = viewer(&world, &["run", "--", "sh", "-c", "echo goodbye; exit 42"]);
    let (status, text) = pty.end();
    assert_eq!(status.code(), Some(42), "{text}");
    assert!(text.contains("goodbye"), "{text}");
}

/// The final screen equals the last frame that the program drew.
#[test]
fn kill_9_of_the_node_and_the_viewer_leaves_the_program_and_its_screen() {
    let world = world();
    world.write("echo.py", ECHO);
    world.ok(&["run", "-d", "--name", "tui", "--", "python3", "echo.py"]);
    world.wait_until("its first frame is seen", || screen(&world, "tui").contains("size 120x40"));
    let program = program_of(&world, "tui");
    for key in ["a", "b", "c"] {
        let mut pty = viewer(&world, &["attach", "tui"]);
        pty.wait_for("size 100x30");
        pty.keys(key);
        let frame = format!("key {}", key.as_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>());
        pty.wait_for(&frame);
        world.kill_node("tui");
        world.wait_until("the new node shows the same frame", || screen(&world, "tui").trim() == frame);
        processes::kill9(pty.pid());
        drop(pty);
        world.wait_until("unseen again", || screen(&world, "tui").contains("size 120x40"));
        assert_eq!(program_of(&world, "tui"), program, "the same program");
    }
    world.ok(&["kill", "tui"]);
    world.wait_until("nothing is left", || !processes::is_alive(program));
}

#[test]
fn queries_are_answered_in_order_with_nobody_there() {
    let world = world();
    let script = r#"
import os, tty, select
tty.setraw(0)
os.write(1, b"\x1b[>0q\x1b[?u\x1b]7501;?\x07\x1b[c")
got = b""
while not got.endswith(b"c"):
    got += os.read(0, 1000)
os.write(1, b"\x1b]7501;state=blocked:kind=permission\x07" + repr(got).encode())
os.read(0, 1)
"#;
    world.write("ask.py", script);
    world.ok(&["run", "-d", "--name", "ask", "--", "python3", "ask.py"]);
    world.wait_until("its answers are shown", || screen(&world, "ask").contains("x1b]7501;?"));
    let shown = screen(&world, "ask").replace('\n', "");
    let order: Vec<usize> =
        ["x1bP>|synapse", "[?0u", "]7501;?", "[?6c"].iter().map(|part| shown.find(part).unwrap()).collect();
    assert!(order.is_sorted(), "{shown}");
    world.wait_until("what it reports is its state", || {
        world.entry("ask").is_some_and(|entry| entry["status"] == "waiting")
    });
    let view = world.agent("ask").get("/api/v1/terminal").json();
    assert_eq!((&view["state"], &view["source"]), (&Value::from("waiting"), &Value::from("status")));
}

#[test]
fn a_viewer_that_does_not_read_stops_nobody() {
    let world = world();
    world.ok(&["run", "-d", "--name", "flood", "--", "sh"]);
    let stuck = viewer(&world, &["attach", "flood"]);
    world.wait_until("it is shown", || stuck.text().contains('$') || stuck.text().contains('#'));
    processes::stop(stuck.pid());
    let mut driver = viewer(&world, &["attach", "flood", "--take"]);
    driver.keys("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); echo line $i of a flood; done; echo all $((1+1)) done\r");
    driver.wait_for("all 2 done");
    world.wait_until("the node has seen the end too", || screen(&world, "flood").contains("all 2 done"));
    processes::go_on(stuck.pid());
    world.ok(&["kill", "flood"]);
}

/// Repeats the same terminal queries without reading the answers. Then reads up to a `q`.
const ASKS: &str = r#"
import os, tty
tty.setraw(0)
for _ in range(1500):
    os.write(1, b"\x1b[>q\x1b[c\x1b[6n" * 300)
os.write(1, b"\x1b[2J\x1b[Hall asked\r\n")
while b"q" not in os.read(0, 4096): pass
os.write(1, b"got the key\r\n")
while b"x" not in os.read(0, 4096): pass
"#;

/// Finding L12: terminal answers that a program never read blocked its screen and its viewers.
#[test]
fn a_program_that_asks_much_and_reads_nothing_stops_nobody() {
    let world = world();
    world.write("asks.py", ASKS);
    world.ok(&["run", "-d", "--name", "asks", "--", synapse_testkit::world::python(), "asks.py"]);
    let mut person = viewer(&world, &["attach", "asks"]);
    world.wait_until("the node has seen the end", || screen(&world, "asks").contains("all asked"));
    person.wait_for("all asked");
    person.keys("q");
    person.wait_for("got the key");
    world.ok(&["kill", "asks"]);
}

#[test]
fn what_cannot_be_started_says_why() {
    let world = world();
    world
        .synapse(&["run", "-d", "--", "no-such-program-here"])
        .fails(127, &["no program called \"no-such-program-here\"", "on PATH", "synapse run -- /path/to/"]);
    world.synapse(&["run", "-d", "--", "./no-such-file"]).fails(127, &["there is no program ./no-such-file"]);
    world.write("plain.txt", "no program");
    world.synapse(&["run", "-d", "--", "./plain.txt"]).fails(126, &["./plain.txt", "chmod +x ./plain.txt"]);
    assert!(world.registry().is_empty(), "{}", world.show());
    world.synapse(&["run", "--", "cat"]).fails(2, &["not a terminal", "--detach"]);
    world.synapse(&["clade"]).fails(2, &["clade", "did you mean claude?"]);
    world.synapse(&["hisotry"]).fails(2, &["did you mean history?"]);
    world.synapse(&["frobnicate"]).fails(2, &["codex", "synapse run -- frobnicate", "synapse --help"]);
    world.ok(&["run", "-d", "--name", "plain", "--exec", "cat"]);
    world.synapse(&["screen", "plain"]).fails(2, &["no terminal"]);
    std::fs::create_dir_all(world.home().join("profiles")).unwrap();
    std::fs::write(world.home().join("profiles/mine.yaml"), "name: mine\ncommand: cat\nsceen: []\n").unwrap();
    world.synapse(&["mine", "-d"]).fails(2, &["mine.yaml", "sceen"]);
    let profile = "name: mine\nabout: a test\ncommand: cat\nscreen:\n  - {state: idle, any: ['ready']}\n";
    std::fs::write(world.home().join("profiles/mine.yaml"), profile).unwrap();
    assert!(world.ok(&["profile", "list"]).contains("a test"));
    world.ok(&["profile", "check", world.home().join("profiles/mine.yaml").to_str().unwrap()]);
}

#[test]
fn a_profile_is_tested_with_a_recording() {
    let world = world();
    let recordings = concat!(env!("CARGO_MANIFEST_DIR"), "/../terminal/recordings");
    let recording = format!("{recordings}/codex__permission.cast");
    let score = world.json(&["profile", "test", "codex", "--recording", &recording]);
    assert!(score["agreement"].as_f64().unwrap() >= 0.97, "{score}");
    assert_eq!(score["waiting_missed_ms"], 0);
    assert!(score["delay_ms_p95"].is_u64() && score["confusions"].is_object(), "{score}");
    let bad = world.write("bad.cast", "{\"version\": 2, \"width\": 80, \"height\": 24}\n[1, \"o\"]\n");
    let ran = world.synapse(&["profile", "test", "codex", "--recording", bad.to_str().unwrap()]);
    ran.fails(2, &["bad.cast", "line 2"]);
}

/// `knock.py <folder> <role> <keys>`: connects to the terminal of the agent in a folder as no
/// viewer would. Prints the first response, and then everything until the connection ends.
const KNOCK: &str = r#"
import os, socket, struct, sys
os.chdir(sys.argv[1])
door = socket.socket(socket.AF_UNIX)
door.connect('term.sock')
def say(kind, content):
    try:
        door.sendall(kind + struct.pack('<I', len(content)) + content)
    except OSError:
        pass
def heard(count):
    data = b''
    while len(data) < count:
        more = door.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data
say(b'h', sys.argv[2].encode() + struct.pack('<HH', 33, 11) + b'\x01')
try:
    kind, length = struct.unpack('<cI', heard(5))
    content = heard(length)
    print(kind.decode(), content.decode() if kind == b'F' else '', flush=True)
    for ask in [(b'i', sys.argv[3].encode()), (b't', b''), (b'd', b''), (b'r', struct.pack('<HH', 33, 11)), (b'i', sys.argv[3].encode())]:
        say(*ask)
    # Once this is answered, all before it was heard.
    say(b'g', b'')
    while True:
        kind, length = struct.unpack('<cI', heard(5))
        heard(length)
        if kind == b'W':
            break
except (EOFError, OSError):
    print('closed', flush=True)
"#;

/// Starts a program that draws its input, and an agent that runs `inside.sh`.
fn victim(world: &World) -> std::path::PathBuf {
    world.write("echo.py", ECHO);
    world.write("knock.py", KNOCK);
    world.ok(&["run", "-d", "--name", "victim", "--", "python3", "echo.py"]);
    world.wait_until("its first frame is seen", || screen(world, "victim").contains("size 120x40"));
    world.run("inner", "sh inside.sh 2>&1", &[]);
    world.agent_dir(&world.agent("victim").id)
}

fn inside(world: &World, script: &str) -> String {
    world.write("inside.sh", script);
    let told = world.json(&["send", "inner", "go", "--response"]);
    told["answer"]["text"].as_str().unwrap_or_default().to_owned()
}

fn audited(world: &World, verb: &str) -> Vec<Value> {
    let told = world.ok(&["audit", "victim", "--json", "--verb", verb]);
    let lines = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["door"] == "terminal").collect()
}

/// Finding H1: a process below an agent cannot press keys in a terminal, whatever it claims to be.
/// The attempt is audited.
#[test]
fn agent_cannot_type_in_a_terminal() {
    let world = world();
    let folder = victim(&world).display().to_string();
    for role in ["v", "l", "c", "n"] {
        let told = inside(&world, &format!("python3 knock.py {folder} {role} Y"));
        assert!(told.starts_with("F ") && told.ends_with("closed"), "{role}: {told}");
    }
    let told = inside(&world, &format!("python3 knock.py {folder} r Y"));
    assert_eq!(told.trim(), "W", "to look is its right, as it is over HTTP");
    let exe = world.exe().display().to_string();
    for (args, words) in [("attach victim --take", "may only look"), ("attach victim", "may only look")] {
        let pty = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
        let told = inside(&world, &format!("python3 -c '{pty}' {exe} {args} < /dev/null; echo $?"));
        assert!(told.contains(words) && told.contains("inner") && told.trim().ends_with('5'), "{told}");
    }
    let shown = screen(&world, "victim");
    assert!(shown.contains("size 120x40") && !shown.contains("key"), "{shown}");
    world.wait_until("all of it is written down", || audited(&world, "attach").len() == 5);
    let lines = audited(&world, "attach");
    for (line, role) in lines.iter().zip(["viewer", "leader", "recorder", "node", "reader"]) {
        let note = line["note"].as_str().unwrap_or_default();
        assert_eq!(line["who"], "inner", "{line}");
        assert!(note.starts_with("process ") && note.ends_with(&format!("(python3) as {role}")), "{line}");
        assert_eq!(line["code"] == "not_allowed", role != "reader", "{line}");
    }
    assert!(audited(&world, "type").is_empty() && audited(&world, "take").is_empty());
}

/// Finding H1: an agent without the right to read cannot see a terminal, not even while its rights
/// are unknown.
#[test]
fn agent_without_the_right_to_read_sees_no_terminal() {
    let world = world();
    std::fs::create_dir_all(world.home()).unwrap();
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(world.home(), closed).unwrap();
    let chosen = serde_json::json!({ "rights": { "agent": ["read_status", "message"] } });
    std::fs::write(world.home().join("settings.json"), chosen.to_string()).unwrap();
    let folder = victim(&world).display().to_string();
    let told = inside(&world, &format!("python3 knock.py {folder} r Y"));
    assert!(told.starts_with("F inner may not"), "{told}");
    let node = world.agent("victim").node_pid;
    let stop = |signal| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(node).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    };
    stop(rustix::process::Signal::STOP);
    let told = inside(&world, &format!("python3 knock.py {folder} r Y"));
    stop(rustix::process::Signal::CONT);
    assert_eq!(told.trim(), "closed", "a node that says nothing has not said yes");
}

/// Finding H1: the audit log records who attached, who took the lead and who typed, but not what.
#[test]
fn what_a_person_does_at_a_terminal_is_in_the_audit_log() {
    let world = world();
    victim(&world);
    let mut first = viewer(&world, &["attach", "victim"]);
    first.wait_for("size 100x30");
    first.keys("secret");
    first.wait_for("key ");
    world.wait_until("that is written down", || audited(&world, "type").len() == 1);
    world.kill_node("victim");
    let second = viewer(&world, &["attach", "victim", "--take"]);
    second.wait_for("key ");
    world.wait_until("both are written down", || audited(&world, "attach").len() == 2);
    for (verb, roles) in [("attach", &["viewer", "leader"][..]), ("type", &["viewer"]), ("take", &["leader"])]
    {
        let lines = audited(&world, verb);
        let found: Vec<&str> =
            lines.iter().filter_map(|line| line["note"].as_str()?.rsplit(' ').next()).collect();
        assert_eq!(found, roles, "{verb}: {lines:?}");
        let by_user =
            |line: &Value| line["who"] == "user" && line["proof"] == "socket" && line["status"] == 200;
        assert!(lines.iter().all(by_user), "{lines:?}");
    }
    assert!(!world.ok(&["audit", "victim", "--json"]).contains("secret"));
}

/// Finding L18: core dumps of our processes would contain tokens. Programs keep the user's own
/// limit.
#[test]
#[cfg(target_os = "linux")]
fn core_dumps_are_off_for_synapse_and_unchanged_for_programs() {
    let world = world();
    world.write("echo.py", ECHO);
    world.ok(&["run", "-d", "--name", "victim", "--", "python3", "echo.py"]);
    world.run("shell", "cat /proc/self/limits /proc/self/coredump_filter", &[]);
    let read = |pid: &str, file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let limit = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        line.split_whitespace().skip(4).map(str::to_owned).collect::<Vec<_>>()
    };
    let own = (limit(&read("self", "limits")), read("self", "coredump_filter"));
    let program = program_of(&world, "victim").to_string();
    assert_eq!((limit(&read(&program, "limits")), read(&program, "coredump_filter")), own);
    let told =
        world.json(&["send", "shell", "x", "--response"])["answer"]["text"].as_str().unwrap().to_owned();
    assert_eq!(limit(&told), own.0);
    assert!(told.trim().ends_with(own.1.trim()), "{told}");
    let holder = world.entry("victim").unwrap()["pid"].to_string();
    for pid in [holder, world.agent("victim").node_pid.to_string()] {
        assert_eq!(limit(&read(&pid, "limits"))[0], "0");
        assert_eq!(read(&pid, "coredump_filter").trim(), "00000000");
    }
}
