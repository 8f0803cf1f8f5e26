//! Impersonation (X-10): every way we know of, tried with the real binary. Each is refused, or the
//! message is attributed to the agent that sent it, or marked as unproven.

use crate::world;
use serde_json::json;
use std::path::PathBuf;
use synapse_testkit::world::python;
use synapse_testkit::{Agent, World};

/// Starts an agent that records who sent what, and one that runs `inside.sh`.
fn stage() -> (World, Agent) {
    let world = world();
    let ledger = world.run("ledger", "echo \"$SYNAPSE_SENDER: $(cat)\" >> got", &[]);
    world.run("inner", "sh inside.sh 2>&1", &[]);
    world.write("call.py", CALL);
    (world, ledger)
}

/// Runs a script as the command of the agent `inner` and returns its output. `@` is the binary.
fn inside(world: &World, text: &str) -> String {
    world.write("inside.sh", &text.replace('@', &world.exe().display().to_string()));
    let told = world.synapse(&["send", "inner", "go", "--response", "--json"]).json();
    assert_eq!(told["state"], "completed", "{told}");
    told["answer"]["text"].as_str().unwrap_or_default().to_owned()
}

/// `call.py <port> <token file> <method> <path> [body] [how]`: prints the status of the response.
/// How: `exit` asks and exits at once; `hide` makes itself unreadable to other processes of its
/// user; `hop` hands its connection from child to child; `thread` keeps it in a thread with its own
/// file table; `flight` sends it to itself over a socket, so that no process holds it until the
/// response is there.
const CALL: &str = r#"
import ctypes, os, select, socket, sys, threading, time
port, secret, method, path = int(sys.argv[1]), open(sys.argv[2]).read().strip(), sys.argv[3], sys.argv[4]
body, how = (sys.argv[5:] + ['', ''])[0], (sys.argv[6:] + [''])[0]
def pass_on():
    if os.fork() > 0:
        os._exit(0)
if how == 'hide':
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
door = socket.create_connection(('127.0.0.1', port))
head = f'{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {secret}\r\n'
head += f'Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n'
if how == 'fork':
    pass_on(); os.setsid(); pass_on()
if how == 'thread':
    apart, closed, number = threading.Event(), threading.Event(), door.detach()
    def ask():
        if ctypes.CDLL(None).unshare(0x400) != 0:
            os._exit(9)
        apart.set(); closed.wait()
        os.write(number, (head + body).encode())
        print(os.read(number, 4000).split()[1].decode(), flush=True)
    asking = threading.Thread(target=ask)
    asking.start(); apart.wait(); os.close(number); closed.set(); asking.join()
    open('answered', 'w').close()
    os._exit(0)
if how == 'flight':
    near, far = socket.socketpair(socket.AF_UNIX)
    news = select.epoll()
    news.register(door.fileno(), select.EPOLLIN)
    socket.send_fds(near, [b'x'], [door.fileno()])
    kept = os.dup(door.fileno())
    door.close()
    os.write(kept, (head + body).encode())
    os.close(kept)
    news.poll(10)
    door = socket.socket(fileno=socket.recv_fds(far, 1, 1)[1][0])
else:
    door.sendall((head + body).encode())
if how == 'exit':
    open('answered', 'w').close()
    os._exit(0)
end = time.time() + 5
while how == 'hop' and time.time() < end and not select.select([door], [], [], 0)[0]:
    pass_on()
print(door.recv(4000).split()[1].decode(), flush=True)
open('answered', 'w').close()
"#;

/// Calls only once its parents are gone and it was reparented.
const ORPHAN: &str = r"
import os, subprocess, sys, time
if os.fork() > 0:
    os._exit(0)
os.setsid()
parent = os.getpid()
if os.fork() > 0:
    os._exit(0)
while os.getppid() == parent:
    time.sleep(0.01)
subprocess.run([sys.argv[1], 'send', 'ledger', 'orphaned'], env={'SYNAPSE_HOME': sys.argv[2]})
open('spoken', 'w').close()
";

fn call(port: u16, token: &std::path::Path, rest: &str) -> String {
    format!("{} call.py {port} {} {rest}", python(), token.display())
}

fn user_token(world: &World) -> PathBuf {
    world.home().join("token")
}

/// The sender that the ledger recorded for this text.
fn sender_of(world: &World, text: &str) -> String {
    world.wait_for("the ledger has it", || {
        let line = world.lines("got").into_iter().find(|line| line.ends_with(&format!(": {text}")));
        line.map(|line| line.rsplit_once(": ").unwrap().0.to_owned())
    })
}

/// (a) to (c), (g): a double fork, a cleared environment, its own session, a lost parent; over the
/// Unix socket.
#[test]
fn a_process_cannot_leave_its_agent() {
    let (world, _) = stage();
    let home = world.home().display().to_string();
    inside(&world, &format!("env -i SYNAPSE_HOME={home} @ send ledger cleared"));
    inside(&world, "setsid -w @ send ledger session");
    inside(&world, "sh -c 'sh -c \"@ send ledger forked\" & wait'");
    for text in ["cleared", "session", "forked"] {
        assert_eq!(sender_of(&world, text), "inner");
    }
    world.write("orphan.py", ORPHAN);
    let start = format!("{} orphan.py @ {home}; while [ ! -e spoken ]; do sleep 0.02; done", python());
    inside(&world, &start);
    assert_eq!(sender_of(&world, "orphaned"), "inner");
}

/// (d), M5: the user's token, stolen and used over TCP from inside an agent, in every way we know
/// to hide.
#[test]
fn a_stolen_user_token_does_not_make_an_agent_the_user() {
    let (world, ledger) = stage();
    let token = user_token(&world);
    let metric = |name: &str| {
        let metrics = ledger.get("/metrics").text();
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{metrics}"));
        line.rsplit_once(' ').unwrap().1.parse::<u32>().unwrap()
    };
    let unseen = || metric("synapse_unproven_total{why=\"unseen\"}");
    for how in ["", "fork", "exit", "hide", "hop", "thread", "flight"] {
        let (text, before) = (format!("stolen-{how}"), unseen());
        let body = json!({ "message": text }).to_string();
        let _ = std::fs::remove_file(world.file("answered"));
        let called = call(ledger.port, &token, &format!("POST /message '{body}' {how}"));
        let told = inside(&world, &format!("{called}; while [ ! -e answered ]; do sleep 0.02; done"));
        world.wait_until("all is heard, but for this very question", || metric("synapse_connections ") == 1);
        // Identified as the agent, rejected, or not handled because the process was gone.
        match how {
            "" | "fork" | "thread" => assert_eq!((told.as_str(), unseen()), ("200", before), "{how}"),
            "exit" => assert_eq!(told, ""),
            _ => assert_eq!(told, if unseen() > before { "401" } else { "200" }, "{how}"),
        }
        assert!(told != "200" || sender_of(&world, &text) == "inner", "{how}: {}", world.read("got"));
    }
    for (method, path) in [("POST", "/api/v1/stop"), ("GET", "/api/v1/tasks")] {
        let told = inside(&world, &call(ledger.port, &token, &format!("{method} {path}")));
        assert_eq!(told, if method == "GET" { "200" } else { "403" }, "as the agent that it is: {path}");
    }
    world.ok(&["send", "ledger", "end", "--response"]);
    let got = world.lines("got");
    let forged: Vec<_> =
        got.iter().filter(|line| line.starts_with("user") && !line.ends_with(": end")).collect();
    assert!(forged.is_empty(), "{forged:?}");
    // From outside, the same token is the user, who still cannot stop an agent over TCP.
    let bearer = ledger.bearer();
    let headers = [("Authorization", bearer.as_str())];
    let sent = ledger.tcp().ask("POST", "/message", &headers, b"{\"message\":\"honest\"}");
    assert_eq!(sent.status, 200, "{}", sent.text());
    assert_eq!(sender_of(&world, "honest"), "user");
    let stop = ledger.tcp().ask("POST", "/api/v1/stop", &headers, b"");
    assert_eq!((stop.status, stop.code().as_str()), (403, "not_allowed"), "{}", stop.text());
    assert!(stop.text().contains("Unix socket"), "{}", stop.text());
}

/// (e): another agent's token, and the agent's own, which is accepted.
#[test]
fn the_token_of_another_agent_does_not_make_an_agent_that_one() {
    let (world, ledger) = stage();
    let other = world.run("other", "cat", &["--role", "Coordinator"]);
    let stolen = world.agent_dir(&other.id).join("token");
    let body = json!({ "message": "stolen" }).to_string();
    inside(&world, &call(ledger.port, &stolen, &format!("POST /message '{body}'")));
    assert_eq!(sender_of(&world, "stolen"), "inner");
    let body = json!({ "message": "own" }).to_string();
    let own = format!("{} call.py {} \"$SYNAPSE_TOKEN_FILE\" POST /message '{body}'", python(), ledger.port);
    assert_eq!(inside(&world, &own), "200");
    assert_eq!(sender_of(&world, "own"), "inner");
    // Outside of all agents, an agent's token makes the caller that agent. Joined programs use
    // this.
    let secret = std::fs::read_to_string(&stolen).unwrap();
    let bearer = format!("Bearer {secret}");
    let headers = [("Authorization", bearer.as_str())];
    let sent = ledger.tcp().ask("POST", "/message", &headers, b"{\"message\":\"joined\"}");
    assert_eq!(sent.status, 200, "{}", sent.text());
    assert_eq!(sender_of(&world, "joined"), "other");
}

/// (f): claiming to be another agent by flag, field or environment.
#[test]
fn saying_to_be_another_is_refused() {
    let (world, ledger) = stage();
    let told = inside(&world, "@ send ledger forged --from ledger; echo $?");
    assert!(told.contains("inner may not speak for another agent") && told.ends_with('5'), "{told}");
    let body = json!({ "message": "forged", "from": "ledger" }).to_string();
    let told = inside(&world, &call(ledger.port, &user_token(&world), &format!("POST /message '{body}'")));
    assert_eq!(told, "403", "also with the user's token");
    let own = world.agent_dir(&ledger.id).join("token");
    let claim =
        format!("SYNAPSE_AGENT_ID={} SYNAPSE_TOKEN_FILE={} @ send ledger claimed", ledger.id, own.display());
    inside(&world, &claim);
    assert_eq!(sender_of(&world, "claimed"), "inner");
    assert!(!world.read("got").contains("forged"));
}

/// (h): a letter with a forged sender in another agent's spool is marked as unproven. What we spool
/// ourselves is proven.
#[test]
fn a_forged_letter_in_a_spool_is_told_as_unproven() {
    let (world, ledger) = stage();
    let spool = world.agent_dir(&ledger.id).join("spool");
    let forge = |name: &str, from: serde_json::Value, text: &str, seal: Option<String>| {
        let mut letter = json!({ "v": 1, "from": from, "request": { "message": text } });
        if let Some(seal) = seal {
            letter["seal"] = seal.into();
        }
        let spool = spool.display();
        inside(
            &world,
            &format!("echo '{letter}' > {spool}/tmp/{name}; mv {spool}/tmp/{name} {spool}/new/{name}"),
        );
        sender_of(&world, text)
    };
    let user = json!({ "who": "user", "label": "user", "proof": "socket" });
    assert_eq!(forge("1", user.clone(), "as-user", None), "user (unproven)");
    assert_eq!(forge("2", user.clone(), "with-a-seal", Some("0".repeat(64))), "user (unproven)");
    let agent = json!({ "who": { "agent": ledger.id }, "label": "user", "proof": "own", "by_user": false });
    assert_eq!(forge("3", agent, "as-ledger", None), "ledger (unproven)", "what it is called is known here");
    let named = json!({ "who": { "named": "ci" }, "label": "ci", "proof": "secret" });
    assert_eq!(forge("4", named, "as-ci", None), "ci (unproven)");
    // The CLI spools for a stopped agent, and seals the letter with its sender's token.
    world.ok(&["kill", "ledger"]);
    world.ok(&["send", "ledger", "from-me"]);
    inside(&world, "@ send ledger from-inner");
    world.run("ledger", "echo \"$SYNAPSE_SENDER: $(cat)\" >> got", &[]);
    assert_eq!(sender_of(&world, "from-me"), "user");
    assert_eq!(sender_of(&world, "from-inner"), "inner");
}

/// A person assigns roles: an agent that starts a Coordinator has not become one.
#[test]
fn an_agent_cannot_give_a_role_that_it_has_not() {
    let (world, _) = stage();
    let busy = world.run("busy", "while [ ! -e go ]; do sleep 0.05; done", &[]);
    let task = world.send("busy", "of the user", &[]);
    world.wait_until("it works", || busy.task(&task)["state"] == "working");
    let exe = world.exe().display().to_string();
    let told = inside(
        &world,
        &format!(
            "@ run --detach --name made --role Coordinator --exec '{exe} cancel {task} 2>&1; echo $?' > /dev/null
            @ send made go --response"
        ),
    );
    assert!(told.contains("made may not cancel this task") && told.ends_with('5'), "{told}");
    assert_eq!(busy.task(&task)["state"], "working");
    // A Coordinator started by a person may cancel.
    world.run("chief", &format!("{exe} cancel {task}"), &["--role", "Coordinator"]);
    world.ok(&["send", "chief", "go", "--response"]);
    world.wait_until("it is canceled", || busy.task(&task)["state"] == "canceled");
}

/// Tokens belong to the user.
#[test]
fn an_agent_may_not_manage_tokens() {
    let (world, _) = stage();
    let before = world.token();
    let told = inside(
        &world,
        "@ token rotate; echo $?; @ token rotate ledger; echo $?; @ token show --reveal; echo $?",
    );
    let codes: Vec<&str> = told.lines().filter(|line| line.len() == 1).collect();
    assert_eq!(codes, ["5", "5", "5"], "{told}");
    assert!(told.contains("inner may not manage tokens"), "{told}");
    assert!(!told.contains(&before));
    assert_eq!(world.token(), before);
}

/// A child connects to the Unix socket, hands the connection to its parent and exits. The parent
/// waits until another process has the child's pid (`reborn`), and only then sends its request.
const PASSED_ON: &str = r#"
import os, socket, sys, time
os.chdir(sys.argv[1])
near, far = socket.socketpair(socket.AF_UNIX)
child = os.fork()
if child == 0:
    door = socket.socket(socket.AF_UNIX)
    door.connect('node.sock')
    socket.send_fds(near, [b'x'], [door.fileno()])
    os._exit(0)
door = socket.socket(fileno=socket.recv_fds(far, 1, 1)[1][0])
os.waitpid(child, 0)
work = sys.argv[2]
with open(work + '/burnt.tmp', 'w') as file:
    file.write(str(child))
os.rename(work + '/burnt.tmp', work + '/burnt')
while not os.path.exists(work + '/reborn'):
    time.sleep(0.02)
body = '{"message": "passed on"}'
door.sendall(f'POST /message HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}'.encode())
print(door.recv(4000).split()[1].decode(), flush=True)
"#;

/// A service outside of all agents that starts a process with a given pid, as happens by chance
/// once all others were used (clone3 with set_tid, which needs root). It lives until standard input
/// closes. Exit code 77 means that it lacks the permission.
const REBORN: &str = r#"
import ctypes, os, signal, sys, time
wanted = ctypes.c_int(int(sys.argv[1]))
class Args(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in
        ('flags', 'pidfd', 'child_tid', 'parent_tid', 'exit_signal', 'stack', 'stack_size', 'tls', 'set_tid', 'set_tid_size', 'cgroup')]
libc = ctypes.CDLL(None, use_errno=True)
args = Args(exit_signal=signal.SIGCHLD, set_tid=ctypes.addressof(wanted), set_tid_size=1)
made = libc.syscall(435, ctypes.byref(args), ctypes.sizeof(args))
if made == 0:
    signal.alarm(120)
    while True:
        time.sleep(60)
if made < 0:
    print(os.strerror(ctypes.get_errno()), flush=True)
    os._exit(77)
print('reborn', flush=True)
sys.stdin.read()
os.kill(made, 9)
"#;

/// Finding H2: the pid of the caller is reused by a process that no agent started.
#[test]
#[cfg(target_os = "linux")]
fn reused_pid_does_not_make_an_agent_the_user() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};
    let (world, ledger) = stage();
    world.write("passed_on.py", PASSED_ON);
    world.write("reborn.py", REBORN);
    let (folder, work) = (world.agent_dir(&ledger.id), world.file(""));
    let script = format!("{} passed_on.py {} {}", python(), folder.display(), work.display());
    world.write("inside.sh", &script);
    let task = world.send("inner", "go", &[]);
    let burnt = world.wait_for("the child has connected and is gone", || {
        std::fs::read_to_string(world.file("burnt")).ok().filter(|pid| !pid.is_empty())
    });
    let mut service = Command::new(python())
        .args([world.file("reborn.py").display().to_string(), burnt])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(service.stdout.take().unwrap()).read_line(&mut said).unwrap();
    world.write("reborn", "");
    let inner = world.agent("inner");
    world.wait_until("it was answered", || inner.task(&task)["state"] == "completed");
    drop(service.stdin.take());
    service.wait().unwrap();
    let told = inner.task(&task)["answer"]["text"].as_str().unwrap_or_default().to_owned();
    // It acts as the agent if the connection was accepted before the child was gone, otherwise as
    // nobody.
    assert!(matches!(told.as_str(), "200" | "401" | "403"), "{told}");
    world.ok(&["send", "ledger", "end", "--response"]);
    let forged = world.lines("got").into_iter().find(|line| line == "user: passed on");
    assert_eq!(forged, None, "{}", world.read("got"));
    if said.trim() != "reborn" {
        eprintln!("not tried with a reused pid, which needs root: {}", said.trim());
    }
}

/// Finding H2: an agent can remove the files that identify its holder. It still does not become the
/// user.
#[test]
#[cfg(target_os = "linux")]
fn agent_that_hides_its_holder_is_not_the_user() {
    let ways = [
        ": > \"$SYNAPSE_HOME/agents/$SYNAPSE_AGENT_ID/holder.lock\"",
        "rm \"$SYNAPSE_HOME/agents/$SYNAPSE_AGENT_ID/holder.lock\"",
        "rm $(grep -l $SYNAPSE_AGENT_ID \"$SYNAPSE_HOME\"/holders/*)",
    ];
    for way in ways {
        let (world, ledger) = stage();
        let told = inside(
            &world,
            &format!("{way}; unset SYNAPSE_AGENT_ID SYNAPSE_OUTBOX; @ send ledger x; echo $?"),
        );
        assert!(!told.trim().ends_with("\n0"), "{way}: {told}");
        assert_eq!(ledger.get("/api/v1/tasks?all=true").json(), json!([]), "{way}");
        assert!(!world.file("got").exists(), "{way}: {:?}", std::fs::read_to_string(world.file("got")));
    }
}

/// Finding H2: an agent of one home is not the user of another. A home that is created below an
/// agent has its user there.
#[test]
#[cfg(target_os = "linux")]
fn agent_is_not_the_user_of_another_home() {
    let (world, _) = stage();
    let (other, _) = stage();
    let home = other.home().display();
    let told =
        inside(&world, &format!("unset SYNAPSE_AGENT_ID; SYNAPSE_HOME={home} @ send ledger x; echo $?"));
    assert!(!told.trim().ends_with("\n0"), "{told}");
    assert!(!other.file("got").exists());
    let own = world.file("own").display().to_string();
    let within = format!("unset SYNAPSE_AGENT_ID SYNAPSE_OUTBOX; export SYNAPSE_HOME={own}");
    let told = inside(
        &world,
        &format!("{within}; @ run -d --name echo --exec cat; @ send echo hello --response; @ kill echo"),
    );
    assert!(told.lines().any(|line| line == "hello"), "{told}");
}

/// An agent cannot take over another agent's mailbox or name by starting it.
#[test]
#[cfg(target_os = "linux")]
fn agent_cannot_take_over_a_stopped_agent() {
    let (world, _) = stage();
    world.run("worker", "cat", &[]);
    world.ok(&["kill", "worker"]);
    world.send("worker", "the password is hunter2", &[]);
    let take = "@ run -d --name worker --exec 'tee stolen'; echo $?";
    let told = inside(&world, take);
    assert!(told.contains("somebody else started") && told.trim().ends_with('5'), "{told}");
    let elsewhere = format!("mkdir -p sub; cd sub; {take}");
    assert!(inside(&world, &elsewhere).contains("somebody else started"));
    let told = inside(&world, "@ run -d --name mine --exec cat; echo $?");
    assert!(told.trim().ends_with('0'), "{told}");
    world.ok(&["kill", "mine"]);
    let told = inside(&world, "@ run -d --name mine --exec cat; echo $?");
    assert!(told.trim().ends_with('0'), "its own, again: {told}");
    // Nor can it start the agent with its old settings: the user did not ask for that now.
    let told = inside(&world, "@ start worker; echo $?; @ start worker --yes; echo $?");
    let codes: Vec<&str> = told.lines().filter(|line| line.len() == 1).collect();
    assert_eq!(codes, ["5", "5"], "{told}");
    assert!(told.contains("somebody else started") && world.entry("worker").is_none(), "{told}");
    // One without a name is called by its type, not by its id.
    world.ok(&["run", "-d", "--type", "claude", "--exec", "cat"]);
    world.ok(&["kill", "claude"]);
    let told = inside(&world, "@ start claude; echo $?");
    assert!(told.contains("claude is an agent that somebody else started"), "{told}");
    world.ok(&["kill", "mine"]);
    let told = inside(&world, "@ start mine; echo $?");
    assert!(told.trim().ends_with('0'), "its own, as it was: {told}");
    assert!(!world.file("stolen").exists());
    world.ok(&["run", "-d", "--name", "worker", "--exec", "cat"]);
}

/// `synapse start` makes an agent that was started by an agent the user's, with its role. So the
/// user is asked first.
#[test]
fn user_is_asked_before_starting_what_an_agent_had_started() {
    let (world, _) = stage();
    let told = inside(&world, "@ run -d --name made --role Coordinator --exec 'tr a-z A-Z'; echo $?");
    assert!(told.trim().ends_with('0'), "{told}");
    world.ok(&["kill", "made"]);
    let ran = world.synapse(&["start", "made"]);
    ran.fails(2, &["started by the agent inner", "with the role Coordinator", "tr a-z A-Z", "--yes"]);
    assert!(world.entry("made").is_none());
    world.ok(&["start", "made", "--yes"]);
    assert_eq!(world.ok(&["send", "made", "hello", "--response"]), "HELLO");
}

/// Only the user may change remotes: where their names lead, and with which token.
#[test]
fn agent_may_not_change_remotes() {
    let (world, ledger) = stage();
    let url = format!("http://localhost:{}", ledger.port);
    for what in
        [&format!("remote add partner {url}"), "remote remove partner", "remote refresh", "doctor --fix"]
    {
        let told = inside(&world, &format!("@ {what}; echo $?"));
        assert!(told.contains("only the user may") && told.trim().ends_with('5'), "{what}: {told}");
    }
}
