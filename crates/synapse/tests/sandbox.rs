//! Commands of agents in sandboxes: without sockets, with a read-only or hidden home, they can
//! still communicate (CLI-10).

use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;
use synapse_testkit::World;
use synapse_testkit::world::python;

const EXE: &str = env!("CARGO_BIN_EXE_synapse");

/// Denies sockets with seccomp, as agents' sandboxes do, and then executes the command.
const NO_SOCKETS: &str = r#"
import ctypes, os, platform, struct, sys
x86 = {"socket": 41, "socketpair": 53, "connect": 42}
arm = {"socket": 198, "socketpair": 199, "connect": 203}
arch, numbers = {"x86_64": (0xC000003E, x86), "aarch64": (0xC00000B7, arm)}[platform.machine()]
denied = [numbers[name] for name in sys.argv[1].split(",")]
def op(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
program = [op(0x20, 0, 0, 4), op(0x15, 1, 0, arch), op(0x06, 0, 0, 0x7FFF0000), op(0x20, 0, 0, 0)]
for n in denied: program += [op(0x15, 0, 1, n), op(0x06, 0, 0, 0x00050001)]
program.append(op(0x06, 0, 0, 0x7FFF0000))
text = ctypes.create_string_buffer(b"".join(program))
class Fprog(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
fprog = Fprog(len(program), ctypes.cast(text, ctypes.c_void_p))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(fprog), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[2], sys.argv[2:])
"#;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The system calls that sandboxes deny: creating sockets, creating socket pairs too, or only
/// connecting.
const SOCKETS: &str = "socket";
const PAIRS_TOO: &str = "socket,socketpair";
const CONNECTING: &str = "connect";

/// The start of a command line that runs the rest in a sandbox: which system calls it denies, and
/// what it does to the home (only root can).
fn sandbox(world: &World, denied: &str, home: Option<&str>) -> String {
    let script = world.write("no_sockets.py", NO_SOCKETS);
    let inner = format!("{} {} {denied} ", python(), script.display());
    match home {
        Some(done) if is_root() => format!("unshare -m sh -c '{done}; exec \"$@\"' sh {inner}"),
        _ => inner,
    }
}

const READ_ONLY: &str =
    r#"mount --bind "$SYNAPSE_HOME" "$SYNAPSE_HOME" && mount -o remount,ro,bind "$SYNAPSE_HOME" || exit 99"#;
const HIDDEN: &str = r#"mount -t tmpfs tmpfs "$SYNAPSE_HOME" || exit 99"#;

/// A sandbox like that of Codex (workspace-write): a read-only home, a PID namespace, no connecting
/// of sockets.
fn codex_sandbox(world: &World) -> String {
    let inner = sandbox(world, CONNECTING, None);
    match is_root() {
        true => format!("unshare -m -p -f --mount-proc sh -c '{READ_ONLY}; exec \"$@\"' sh {inner}"),
        false => inner,
    }
}

/// All sandboxes in which a command can write to the working folder.
fn sandboxes(world: &World) -> [(&'static str, String); 5] {
    [
        ("seccomp", sandbox(world, SOCKETS, None)),
        ("connect", sandbox(world, CONNECTING, None)),
        ("read-only", sandbox(world, SOCKETS, Some(READ_ONLY))),
        ("hidden", sandbox(world, PAIRS_TOO, Some(HIDDEN))),
        ("codex", codex_sandbox(world)),
    ]
}

/// Sends from inside an agent's sandbox. Returns the command's output and the agent's task.
fn send_from(world: &World, name: &str, under: &str, args: &str) -> (Value, Value) {
    world.run(name, &format!("{under}{EXE} {args} --json"), &[]);
    let ran = world.synapse(&["send", name, "go", "--response", "--json"]);
    let task = ran.json();
    let said = task["answer"]["text"].as_str().unwrap_or_else(|| panic!("{ran}\n{}", world.show()));
    (serde_json::from_str(said).unwrap_or_else(|e| panic!("{e}: {said}")), task)
}

fn outbox_of(world: &World, id: &str) -> PathBuf {
    world.file(".synapse").join("outbox").join(&id[..16])
}

/// MCP tools work the same way.
#[test]
fn tools_are_called_from_every_sandbox() {
    let world = World::new(EXE);
    world.run("ledger", "echo \"$SYNAPSE_SENDER: $(cat)\" >> got", &[]);
    let call = |id: u8, tool: &str, arguments: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": arguments } });
    let client = json!({ "name": "test", "version": "1" });
    let begin = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin }),
        call(2, "send_message", json!({ "to": "ledger", "message": "boxed" })),
        call(3, "list_agents", json!({})),
        call(4, "share_context", json!({ "text": "in a box" })),
    ];
    world.write("calls", &lines.map(|line| format!("{line}\n")).concat());
    for (name, under) in [
        ("seccomp", sandbox(&world, SOCKETS, None)),
        ("read-only", sandbox(&world, SOCKETS, Some(READ_ONLY))),
        ("hidden", sandbox(&world, PAIRS_TOO, Some(HIDDEN))),
    ] {
        let agent = world.run(name, &format!("{under}{EXE} mcp serve < calls"), &[]);
        let told = world.json(&["send", name, "go", "--response"]);
        let said = told["answer"]["text"].as_str().unwrap_or_else(|| panic!("{told}\n{}", world.show()));
        let answers: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let data = |id: u8| {
            let answer =
                answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{id}: {said}"));
            answer["result"]["structuredContent"].clone()
        };
        assert_eq!(
            (&data(2)["status"], &data(2)["via"]),
            (&json!("stored"), &json!("outbox")),
            "{name}: {said}"
        );
        assert_eq!(data(3)["you"]["agent_id"], agent.id, "{name}: {said}");
        assert!(data(3)["agents"].to_string().contains("ledger"), "{name}: {said}");
        assert_eq!(data(4)["context"]["text"], "in a box", "{name}: {said}");
        world.wait_until("it has arrived", || world.lines("got").contains(&format!("{name}: boxed")));
    }
}

#[test]
fn an_agent_is_heard_from_every_sandbox() {
    let world = World::new(EXE);
    let shout = world.run("shout", "tr a-z A-Z", &[]);
    let send = "send shout hello --response";
    let table = [
        ("free", String::new(), "socket"),
        ("seccomp", sandbox(&world, SOCKETS, None), "outbox"),
        ("read-only", sandbox(&world, SOCKETS, Some(READ_ONLY)), "outbox"),
        ("hidden", sandbox(&world, PAIRS_TOO, Some(HIDDEN)), "outbox"),
    ];
    for (name, under, way) in table {
        let (heard, _) = send_from(&world, name, &under, send);
        assert_eq!(
            (&heard["answer"]["text"], &heard["state"], &heard["via"]),
            (&json!("HELLO"), &json!("completed"), &json!(way)),
            "{name}: {heard}"
        );
        let task = shout.task(heard["task_id"].as_str().unwrap());
        assert_eq!(
            (&task["requester"]["label"], &task["requester"]["proof"]),
            (&json!(name), &json!(way)),
            "{task}"
        );
    }
}

#[test]
fn from_a_sandbox_tasks_are_answered_and_mail_waits_for_the_stopped() {
    let world = World::new(EXE);
    let under = sandbox(&world, PAIRS_TOO, Some(HIDDEN));
    world.run("later", "cat > got", &[]);
    world.ok(&["kill", "later"]);
    let (heard, _) = send_from(&world, "early", &under, "send later greetings");
    assert_eq!((&heard["status"], &heard["via"]), (&json!("spooled"), &json!("outbox")), "{heard}");
    world.run("later", "cat > got", &[]);
    world.wait_until("it has its mail", || world.read("got") == "greetings");

    world.run("answers", &format!("{under}{EXE} reply 'from inside' > told; exec sleep 60"), &[]);
    assert_eq!(world.ok(&["send", "answers", "?", "--response"]), "from inside");
    let ran = world.run("nobody", &format!("{under}{EXE} send shuot hi 2>&1"), &[]);
    assert!(ran.port > 0);
    world.synapse(&["send", "nobody", "go", "--response"]).fails(3, &["exit code 5"]);
}

/// Issue 15 F: commands without a target are about the agent, as outside of a sandbox.
#[test]
fn bare_commands_in_a_sandbox_are_about_their_agent() {
    let world = World::new(EXE);
    world.run("shout", "tr a-z A-Z", &[]);
    // Messages to the person, which the agent may not read.
    world.run("writer", &format!("{EXE} reply 'for your eyes only'"), &[]);
    world.ok(&["send", "writer", "write to me"]);
    let person_has_mail = || world.ok(&["inbox", "--peek"]).contains("for your eyes only");
    world.wait_until("the person has mail", person_has_mail);
    let are_idle = || world.json(&["list"]).as_array().unwrap().iter().all(|row| row["state"] == "idle");
    world.wait_until("both are idle", are_idle);
    for (name, under) in sandboxes(&world) {
        let exe = format!("{under}{EXE}");
        let script = format!(
            "exec 2>&1; unset SYNAPSE_TASK_ID
            # What an agent does comes into the registry a moment later.
            for n in $(seq 100); do {exe} list --json > {name}.list; grep -q busy {name}.list && break; done
            {exe} inbox > {name}.inbox; {exe} share 'in a box' > {name}.share
            {exe} explain shout --json > {name}.shout; {exe} explain {name} --json > {name}.self
            {exe} reply 'from inside'; exec sleep 60"
        );
        let script = world.write(&format!("{name}.sh"), &script);
        world.run(name, &format!("sh {}", script.display()), &[]);
        world.ok(&["send", name, "a note for the agent", "--priority", "1"]);
        assert_eq!(world.ok(&["send", name, "go", "--response"]), "from inside", "{name}\n{}", world.show());
        let said = |what: &str| world.read(&format!("{name}.{what}"));
        let json = |what: &str| {
            serde_json::from_str::<Value>(&said(what))
                .unwrap_or_else(|e| panic!("{name} {what}: {e}: {}", said(what)))
        };
        let list = json("list");
        let state = |of: &str| {
            let row = list.as_array().unwrap().iter().find(|row| row["name"] == of);
            row.map_or(Value::Null, |row| row["state"].clone())
        };
        assert_eq!((state("shout"), state(name)), (json!("idle"), json!("busy")), "{name}: {list}");
        assert!(said("inbox").contains(":user] a note for the agent"), "{name}: {}", said("inbox"));
        assert!(said("share").contains(&format!("shared by {name}")), "{name}: {}", said("share"));
        let (shout, own) = (json("shout"), json("self"));
        assert_eq!((&shout["state"], &shout["code"]), (&json!("idle"), &json!("idle")), "{name}: {shout}");
        assert_eq!(shout["port_open"], Value::Null, "no port can be seen from there: {shout}");
        assert_eq!((&own["state"], &own["running"]), (&json!("busy"), &json!(true)), "{name}: {own}");
        assert_eq!(own["context"]["text"], "in a box", "{name}: {own}");
        world.ok(&["kill", name]);
    }
    assert!(person_has_mail(), "nobody else read it");
}

/// The agent's own node checks processes that the sandbox hides.
#[test]
fn stopped_node_is_seen_from_a_sandbox() {
    let world = World::new(EXE);
    world.run("shout", "tr a-z A-Z", &[]);
    let node = u32::try_from(world.entry("shout").unwrap()["node_pid"].as_u64().unwrap()).unwrap();
    synapse_testkit::processes::stop(node);
    world.wait_until("it is stopped", || synapse_testkit::processes::is_stopped(node));
    for (name, under) in [("connect", sandbox(&world, CONNECTING, None)), ("codex", codex_sandbox(&world))] {
        let (list, _) = send_from(&world, name, &under, "list");
        let row = list.as_array().unwrap().iter().find(|row| row["name"] == "shout").unwrap();
        let why = format!("not responding: process {node} is stopped");
        assert_eq!((&row["state"], &row["why"]), (&json!("unknown"), &json!(why)), "{name}: {list}");
    }
}

/// If not even the working folder is writable, a command says so. It neither blames the agent nor
/// acts as the person.
#[test]
fn sandbox_without_a_way_out_is_named_as_the_cause() {
    if !is_root() {
        eprintln!("skipped: only root can make a folder read-only for itself");
        return;
    }
    let world = World::new(EXE);
    world.run("shout", "tr a-z A-Z", &[]);
    let folder = world.folder().display().to_string();
    let frozen = format!("mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} || exit 99");
    let inner = sandbox(&world, CONNECTING, None);
    let exe =
        format!("unshare -m -p -f --mount-proc sh -c '{READ_ONLY}; {frozen}; exec \"$@\"' sh {inner}{EXE}");
    let script = format!(
        "exec 2>&1; unset SYNAPSE_TASK_ID
        for c in inbox 'share x' 'reply x' 'reply x --task 12345678' 'explain shout'; do {exe} $c; echo \"exit $?\"; done"
    );
    let script = world.write("frozen.sh", &script);
    world.run("frozen", &format!("sh {}", script.display()), &[]);
    let said = world.ok(&["send", "frozen", "go", "--response"]);
    for words in [
        "cannot tell whose mail to show: the sandbox hides",
        "cannot tell which agent shares this",
        "cannot tell which task to answer",
        "cannot look for task 12345678",
        "shout cannot be asked from this sandbox",
        "let the sandbox write to the agent's working folder",
        "Read-only file system",
    ] {
        assert!(said.contains(words), "{words:?} is not in\n{said}");
    }
    assert!(said.contains("idle (no task)"), "explain has the last state\n{said}");
}

#[test]
fn an_outbox_is_private_and_ignored_and_what_is_forged_in_it_is_set_aside() {
    let world = World::new(EXE);
    let agent = world.run("boxed", "cat", &[]);
    let outbox = outbox_of(&world, &agent.id);
    let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&outbox), mode(&outbox.join("key"))), (0o700, 0o600));
    assert_eq!(world.read(".synapse/outbox/.gitignore"), "*\n");

    let secret = world.write("secret", "do not move");
    let new = outbox.join("new");
    symlink(&secret, new.join("1-link")).unwrap();
    std::fs::hard_link(&secret, new.join("2-hard")).unwrap();
    let put = |name: &str, text: &[u8]| {
        let path = outbox.join("tmp").join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        if name.ends_with("foreign") {
            std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
        }
        std::fs::rename(path, new.join(name)).unwrap();
    };
    put("3-garbage", b"garbage");
    put("4-large", &vec![b'x'; 2 << 20]);
    let call = json!({ "v": 1, "id": "0".repeat(32), "at_ms": 1, "agent": agent.id, "ask": "post",
                       "path": "/api/v1/stop", "body": {} });
    put("5-forged", format!("{}\n{call}", "0".repeat(64)).as_bytes());
    if is_root() {
        put("6-foreign", b"x");
    }
    let count = if is_root() { 6 } else { 5 };
    let whys = || {
        let all = std::fs::read_dir(outbox.join("bad")).unwrap().map(|e| e.unwrap().path());
        let mut all: Vec<PathBuf> = all.filter(|p| p.extension().is_some_and(|e| e == "why")).collect();
        all.sort();
        all.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect::<Vec<_>>()
    };
    world.wait_until("each is set aside", || {
        whys().len() == count && std::fs::read_dir(&new).unwrap().count() == 0
    });
    let told = whys().join("\n");
    for why in ["symbolic link", "hard link", "code of this agent's key", "larger than"] {
        assert!(told.contains(why), "{why} is not in\n{told}");
    }
    assert_eq!(
        (world.read("secret"), std::fs::metadata(&secret).unwrap().nlink()),
        ("do not move".into(), 2)
    );
    world.wait_until("it is written down", || {
        let all = world.ok(&["audit", "boxed", "--verb", "set_aside", "--json"]);
        all.lines().filter(|line| line.contains("\"door\":\"outbox\"")).count() == count
    });
    assert_eq!(agent.get("/status").status, 200, "nothing was obeyed");
}

#[test]
fn a_key_that_came_with_the_project_opens_nothing_and_a_link_in_its_place_is_not_followed() {
    let world = World::new(EXE);
    let agent = world.run("boxed", "cat", &[]);
    let key = outbox_of(&world, &agent.id).join("key");
    let right = std::fs::read_to_string(&key).unwrap();
    world.ok(&["kill", "boxed"]);
    std::fs::write(&key, "5".repeat(64)).unwrap();
    world.run("boxed", "cat", &[]);
    assert_eq!(std::fs::read_to_string(&key).unwrap(), right);
    world.ok(&["kill", "boxed"]);

    let elsewhere = world.file("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::remove_dir_all(world.file(".synapse")).unwrap();
    symlink(&elsewhere, world.file(".synapse")).unwrap();
    world.run("boxed", "cat", &[]);
    assert_eq!(world.ok(&["send", "boxed", "it works without", "--response"]), "it works without");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}
