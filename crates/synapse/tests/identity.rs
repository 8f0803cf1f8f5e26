//! Caller identity: a process below an agent is that agent, whatever its environment says.

use crate::world;
use serde_json::json;
use synapse_testkit::World;

/// Starts an agent that records who sent what.
fn ledger(world: &World) {
    world.run("ledger", "echo \"$SYNAPSE_SENDER: $(cat)\" >> got", &[]);
}

/// Sets what the agent `inner` does from now on. `@` is the binary under test.
fn script(world: &World, text: &str) {
    world.write("inside.sh", &text.replace('@', &world.exe().display().to_string()));
}

/// Runs a script as the command of an agent and returns its output.
fn inside(world: &World, text: &str) -> String {
    script(world, text);
    let told = world.synapse(&["send", "inner", "go", "--response", "--json"]);
    let told = told.json();
    assert_eq!(told["state"], "completed", "{told}");
    told["answer"]["text"].as_str().unwrap_or_default().to_owned()
}

fn inner(world: &World) {
    world.run("inner", "sh inside.sh 2>&1", &[]);
}

#[test]
fn a_process_below_an_agent_is_that_agent() {
    let world = world();
    ledger(&world);
    inner(&world);
    let home = world.home().display();
    let scripts = [
        ("plain".to_owned(), "@ send ledger plain".to_owned()),
        ("cleared".into(), format!("env -i SYNAPSE_HOME={home} @ send ledger cleared")),
        ("session".into(), "setsid -w @ send ledger session".into()),
        (
            "forked".into(),
            format!(
                "(setsid sh -c '(setsid env -i PATH=\"$PATH\" SYNAPSE_HOME={home} sh -c \"@ send ledger forked; touch sent\" &)' &)
                while [ ! -e sent ]; do sleep 0.02; done"
            ),
        ),
        ("claims".into(), "SYNAPSE_AGENT_ID=ffff SYNAPSE_TASK_ID= @ send ledger claims".into()),
    ];
    for (name, text) in scripts {
        let told = inside(&world, &text);
        world.wait_until("it has arrived", || world.read("got").contains(&name));
        let line = format!("inner: {name}");
        assert!(world.lines("got").contains(&line), "{:?} {told}", world.lines("got"));
    }
    world.ok(&["send", "ledger", "outside", "--response"]);
    assert!(world.lines("got").contains(&"user: outside".to_owned()));
}

#[test]
fn an_agent_may_not_speak_for_another_and_a_person_may() {
    let world = world();
    ledger(&world);
    inner(&world);
    let refused = inside(&world, "@ send ledger forged --from ledger; echo $?");
    assert!(refused.contains("inner may not speak for another agent"), "{refused}");
    assert!(refused.ends_with('5'), "{refused}");
    let itself = inside(&world, "@ send ledger honest --from inner > /dev/null; echo $?");
    assert_eq!(itself, "0");
    world.ok(&["send", "ledger", "spoken", "--from", "inner"]);
    world.wait_until("both have arrived", || world.lines("got").len() == 2);
    assert_eq!(world.lines("got"), ["inner: honest", "inner (by user): spoken"]);
    world.synapse(&["send", "ledger", "x", "--from", "nobody"]).fails(5, &["nobody"]);
    let inbox = world.run("box", "while :; do sleep 1; done", &[]);
    world.send("box", "first", &[]);
    world.send("box", "second", &["--from", "inner"]);
    world.wait_until("the second waits", || inbox.get("/api/v1/inbox").json()["waiting"] == 1);
    let shown = world.ok(&["inbox", "box"]);
    assert!(shown.contains("inner (by user)"), "{shown}");
}

#[test]
fn a_stopped_agent_cannot_be_fooled_either() {
    let world = world();
    ledger(&world);
    inner(&world);
    world.ok(&["kill", "ledger"]);
    let refused = inside(&world, "@ send ledger forged --from ledger; echo $?");
    assert!(refused.ends_with('5'), "{refused}");
    assert_eq!(inside(&world, "@ send ledger honest > /dev/null; echo $?"), "0");
    ledger(&world);
    world.wait_until("the honest one has arrived", || !world.lines("got").is_empty());
    world.ok(&["send", "ledger", "end", "--response"]);
    assert_eq!(world.lines("got"), ["inner: honest", "user: end"]);
}

#[test]
fn an_agent_may_not_manage_others() {
    let world = world();
    let other = world.run("other", "while [ ! -e go ]; do sleep 0.05; done; echo done", &[]);
    inner(&world);
    let task = world.send("other", "of the user", &[]);
    let told = inside(
        &world,
        &format!("@ kill other; echo $?; @ cancel {task}; echo $?; @ reply forged --task {task}; echo $?"),
    );
    let codes: Vec<&str> = told.lines().filter(|line| line.len() == 1).collect();
    assert_eq!(codes, ["5", "5", "5"], "{told}");
    let knock = "import os, socket, sys
os.chdir(sys.argv[1])
door = socket.socket(socket.AF_UNIX)
door.connect('node.sock')
door.send(b'POST /api/v1/stop HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 0\\r\\n\\r\\n')
print(door.recv(1000).split()[1].decode())";
    world.write("knock.py", knock);
    let folder = world.agent_dir(&other.id);
    let python = synapse_testkit::world::python();
    assert_eq!(inside(&world, &format!("{python} knock.py {}", folder.display())), "403");
    assert_eq!(other.task(&task)["state"], "working");
    world.write("go", "");
    world.wait_until("it ends by itself", || other.task(&task)["answer"]["text"] == "done");
}

#[test]
fn a_command_can_reply_to_the_task_it_works_on() {
    let world = world();
    inner(&world);
    script(&world, "@ reply 'by reply'; echo by output");
    let told = world.json(&["send", "inner", "x", "--response"]);
    assert_eq!(told["answer"]["text"], "by reply");
    script(&world, "@ reply --fail 'cannot'");
    world.synapse(&["send", "inner", "x", "--response"]).fails(3, &["failed"]);
}

#[test]
fn an_agent_reads_its_own_notes_once() {
    let world = world();
    inner(&world);
    world.send("inner", "a note", &["-p", "1"]);
    assert!(world.ok(&["inbox", "inner"]).contains("a note"), "a person looks over its shoulder");
    let first = inside(&world, "@ inbox");
    assert!(first.contains("a note"), "{first}");
    let second = inside(&world, "@ inbox");
    assert!(!second.contains("a note"), "what was shown is seen: {second}");
}

#[test]
fn an_answer_to_an_agent_goes_back_to_it() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    inner(&world);
    assert_eq!(inside(&world, "@ send shout 'by way of inner' --response"), "BY WAY OF INNER");
    let shout = world.agent("shout");
    let direct = shout.post("/message", &json!({ "message": "x", "from": "inner" }));
    assert_eq!(direct.status, 200, "{}", direct.text());
}

/// Finding L11: where `/proc` is empty, the CLI cannot see that an agent started it, and refuses
/// what only the user may do.
#[test]
#[cfg(target_os = "linux")]
fn cli_that_cannot_see_its_ancestors_is_not_the_user() {
    let world = world();
    inner(&world);
    let before = world.token();
    let blind = "unshare -rm sh -c 'mount -t tmpfs none /proc || exit 99; shift; exec $*' sh";
    if inside(&world, &format!("{blind} x true; echo $?")).trim() != "0" {
        eprintln!("not tried: this system lets nobody make a sandbox with `unshare`");
        return;
    }
    let told = inside(
        &world,
        &format!(
            "unset SYNAPSE_AGENT_ID SYNAPSE_OUTBOX
            for what in 'token rotate' 'config set a2a.flow oneway --user' 'clean --yes' 'uninstall --yes' 'trust --yes'; do
                {blind} x @ $what; echo $?
            done"
        ),
    );
    let codes: Vec<&str> = told.lines().filter(|line| line.len() == 1).collect();
    assert_eq!(codes, ["5", "5", "5", "5", "5"], "{told}");
    assert!(told.contains("cannot see whether an agent started it"), "{told}");
    assert_eq!(world.token(), before);
    assert!(!world.home().join("settings.json").exists());
    // In its own PID namespace it sees some ancestors, and the environment from its agent names the
    // agent.
    let own = format!("{} -p -f --mount-proc @ token rotate; echo $?", "unshare -rm");
    assert!(inside(&world, &own).trim().ends_with('5'));
    // Clearing the environment does not help either: the process keeps its depth below agents.
    // Without SYNAPSE_HOME, the test's home must be mounted in the user's.
    let told = inside(
        &world,
        "mkdir -p own/.synapse
        unshare -rm -p -f --mount-proc sh -c 'mount --bind \"$SYNAPSE_HOME\" own/.synapse
            exec env -i HOME=\"$PWD/own\" PATH=\"$PATH\" @ token rotate'
        echo $?",
    );
    assert!(told.trim().ends_with('5') && told.contains("cannot see whether"), "{told}");
    assert_eq!(world.token(), before);
}
