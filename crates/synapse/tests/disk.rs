//! Full disks, and journals that are damaged or too new: the error is clear, and nothing is lost.

use std::collections::BTreeSet;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use synapse_testkit::World;

const EXE: &str = env!("CARGO_BIN_EXE_synapse");
const SMALL_DISK: &str = "SYNAPSE_TEST_SMALL_DISK";

/// Damages a journal and checks that the start is refused with these words.
fn refused(damage: impl Fn(&Path), words: &[&str]) {
    let world = World::new(EXE);
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    for n in 0..20 {
        world.send("shout", &format!("letter {n}"), &[]);
    }
    world.ok(&["send", "shout", "last", "--response"]);
    world.ok(&["kill", "shout"]);
    let journal = world.agent_dir(&agent.id).join("journal.db");
    damage(&journal);
    let before = std::fs::read(&journal).unwrap();
    let ran = world.synapse(&["run", "-d", "--name", "shout", "--exec", "tr a-z A-Z"]);
    let ran = ran.fails(1, words);
    assert!(ran.stderr.contains("journal.db"), "{ran}");
    world.wait_until("nothing of it runs", || world.processes().is_empty());
    assert!(std::fs::read(&journal).unwrap() == before, "the file was changed");
    assert_eq!(world.registry().len(), 0);
    world.ok(&["list", "--all"]);
    let told = world.ok(&["send", "shout", "x"]);
    assert!(told.contains("not running"), "mail for it is still kept: {told}");
}

#[test]
fn a_damaged_journal_is_refused_and_left_as_it_is() {
    refused(
        |journal| {
            let file = std::fs::OpenOptions::new().write(true).open(journal).unwrap();
            file.write_all_at(&[0x5a; 64], 0).unwrap();
        },
        &["damaged", "nothing was changed"],
    );
    refused(|journal| std::fs::write(journal, "not a database").unwrap(), &["damaged"]);
}

#[test]
fn a_journal_that_is_damaged_inside_is_refused_and_left_as_it_is() {
    refused(
        |journal| {
            // The WAL holds some pages. Move them into the file before it is damaged.
            let script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('pragma wal_checkpoint(truncate)')";
            let put =
                Command::new(synapse_testkit::world::python()).args(["-c", script]).arg(journal).status();
            assert!(put.unwrap().success());
            let file = std::fs::OpenOptions::new().write(true).open(journal).unwrap();
            let length = file.metadata().unwrap().len();
            let mut at = 4096;
            while at + 4096 <= length {
                file.write_all_at(&[0xa5; 3000], at + 100).unwrap();
                at += 4096;
            }
        },
        &["damaged"],
    );
}

#[test]
fn a_journal_of_a_newer_version_is_refused_and_left_as_it_is() {
    refused(
        |journal| {
            let file = std::fs::OpenOptions::new().write(true).open(journal).unwrap();
            file.write_all_at(&9_999_u32.to_be_bytes(), 60).unwrap();
        },
        &["newer version", "upgrade"],
    );
}

/// Runs this test again in a mount namespace with a small disk. False if that is not possible.
fn on_a_small_disk(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: a small disk can only be mounted by root");
        return false;
    }
    let disk = tempfile::Builder::new().prefix("synapse-disk-").tempdir().unwrap();
    let script = "mount -t tmpfs -o size=3m,mode=0700 tmpfs \"$0\" || exit 99; exec \"$@\"";
    let own = std::env::current_exe().unwrap();
    let ran = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(disk.path())
        .arg(own)
        .args(["--exact", test, "--nocapture"])
        .env(SMALL_DISK, disk.path())
        .status();
    match ran.map(|status| status.code()) {
        Ok(Some(0)) => true,
        Ok(Some(99)) | Err(_) => {
            eprintln!("left out: this system does not allow mounting a small disk");
            false
        }
        Ok(code) => panic!("it failed on the small disk: {code:?}"),
    }
}

/// Fills the disk.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    for size in [64 << 10, 4 << 10, 1 << 10, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
        file.seek(SeekFrom::End(0)).unwrap();
    }
}

#[test]
fn heavy_a_full_disk_refuses_and_loses_nothing() {
    let Some(disk) = std::env::var_os(SMALL_DISK).map(PathBuf::from) else {
        on_a_small_disk("heavy_a_full_disk_refuses_and_loses_nothing");
        return;
    };
    let outside = tempfile::tempdir().unwrap();
    let world = World::at(EXE, &disk.join("home"), outside.path());
    let exec = "printf '%s\\n' \"$SYNAPSE_MESSAGE_ID $(wc -c)\" >> ledger; cat > /dev/null";
    let agent = world.run("ledger", exec, &[]);
    let text = "x".repeat(20_000);
    let taken = std::cell::RefCell::new(BTreeSet::new());
    let send = |n: usize| {
        let id = format!("full-{n}");
        let ran = world.synapse_reading(&["send", "ledger", "--message-id", &id, "--json"], text.as_bytes());
        if ran.code == Some(0) {
            assert_eq!(ran.json()["status"], "stored", "{ran}");
            taken.borrow_mut().insert(ran.json()["message_id"].as_str().unwrap().to_owned());
        }
        ran
    };
    for n in 0..5 {
        send(n).ok();
    }
    fill(&disk.join("filler"));
    let refusal = (5..500).map(send).find(|ran| ran.code != Some(0)).expect("a full disk refuses");
    refusal.fails(5, &["not_stored", "nothing was stored"]);
    let body = serde_json::json!({ "message": text }).to_string();
    let answer = agent.tcp().ask("POST", "/message", &[("Authorization", &agent.bearer())], body.as_bytes());
    assert_eq!((answer.status, answer.code().as_str()), (507, "not_stored"), "{}", answer.text());
    let listed = world.ok(&["list"]);
    assert!(listed.contains("ledger"), "{listed}");
    assert!(world.ok(&["status", "ledger"]).contains("ledger"));
    assert_eq!(agent.get("/status").status, 200);

    std::fs::remove_file(disk.join("filler")).unwrap();
    world.wait_until("new mail is taken again", || send(1_000).code == Some(0));
    world.wait_until("nothing is open", || agent.get("/api/v1/tasks").json() == serde_json::json!([]));
    let ledger = world.read("ledger");
    if let Some(id) = taken.borrow().iter().find(|id| !ledger.contains(*id)) {
        let receipt = agent.get(&format!("/api/v1/receipts/{id}")).json();
        let task = agent.task(receipt["task_id"].as_str().unwrap());
        panic!("an acknowledged message was not worked on: {receipt} {task}\n{}", world.show());
    }
    let mut worked = world.lines("ledger");
    assert!(worked.iter().all(|line| line.ends_with(" 20000")), "{worked:?}");
    worked.sort();
    let count = worked.len();
    worked.dedup();
    assert_eq!((count, worked.len()), (taken.borrow().len(), taken.borrow().len()), "each exactly once");
    world.kill_node("ledger");
    assert_eq!(send(0).ok().json()["duplicate"], true, "what was acknowledged is still known");
}

#[test]
fn heavy_what_waits_when_the_disk_fills_is_worked_on_when_there_is_room() {
    let Some(disk) = std::env::var_os(SMALL_DISK).map(PathBuf::from) else {
        on_a_small_disk("heavy_what_waits_when_the_disk_fills_is_worked_on_when_there_is_room");
        return;
    };
    let outside = tempfile::tempdir().unwrap();
    let world = World::at(EXE, &disk.join("home"), outside.path());
    let exec =
        "echo done; printf '%s\\n' \"$SYNAPSE_PROMPT\" >> ledger; while [ ! -e go ]; do sleep 0.02; done";
    let agent = world.run("ledger", exec, &[]);
    let tasks: Vec<String> = (0..6).map(|n| world.send("ledger", &format!("letter {n}"), &[])).collect();
    world.wait_until("the first is at work", || world.lines("ledger").len() == 1);
    let out = world.agent_dir(&agent.id).join("runs").join(&tasks[0]).join("out");
    world.wait_until("its output is kept", || out.metadata().is_ok_and(|out| out.len() > 0));
    fill(&disk.join("filler"));
    world.write("go", "");
    let failures = || -> u64 {
        let text = agent.get("/metrics").text();
        let line =
            text.lines().find(|line| line.starts_with("synapse_commit_failures_total ")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    // Writes are retried every 250 ms. By now all tries of a message would be used up.
    world.wait_until("it has failed to write for a while", || failures() >= 30);
    assert_eq!(agent.get("/status").status, 200);
    std::fs::remove_file(disk.join("filler")).unwrap();
    world.wait_until("nothing is open", || agent.get("/api/v1/tasks").json() == serde_json::json!([]));
    let states: Vec<String> =
        tasks.iter().map(|task| agent.task(task)["state"].as_str().unwrap().to_owned()).collect();
    // The first task ended while its end could not be stored, and is complete too (A1).
    assert_eq!(states, ["completed"; 6], "{}", world.show());
    assert!(agent.task(&tasks[0]).to_string().contains("done"), "{}", agent.task(&tasks[0]));
    let expected: Vec<String> = (0..6).map(|n| format!("letter {n}")).collect();
    assert_eq!(world.lines("ledger"), expected, "each once");
}

/// Finding A1: 11 of 44 accepted tasks failed because the disk was full when their command wrote or
/// ended.
#[test]
fn heavy_no_accepted_task_fails_while_the_disk_fills_and_empties() {
    const TEST: &str = "heavy_no_accepted_task_fails_while_the_disk_fills_and_empties";
    let Some(disk) = std::env::var_os(SMALL_DISK).map(PathBuf::from) else {
        on_a_small_disk(TEST);
        return;
    };
    let outside = tempfile::tempdir().unwrap();
    let world = World::at(EXE, &disk.join("home"), outside.path());
    let plain = world.run("plain", "head -c 30000 /dev/zero | tr '\\0' x; cat", &["--parallel", "4"]);
    let program = "read line; head -c 20000 /dev/zero | tr '\\0' y; echo; sleep 0.3; echo '{\"type\":\"completed\",\"text\":\"ok\"}'";
    let lines = world.run("lines", program, &["--jsonl", "--parallel", "4"]);
    let mut tasks = Vec::new();
    for round in 0..4 {
        for n in 0..6 {
            for agent in [&plain, &lines] {
                let told = agent
                    .post("/message", &serde_json::json!({ "message": format!("{round} {n}\n") }))
                    .json();
                tasks.extend(told["task_id"].as_str().map(|task| (agent, task.to_owned())));
            }
            if n == round {
                fill(&disk.join("filler"));
            }
        }
        let full = std::time::Instant::now();
        world.wait_until("the disk was full for a while", || full.elapsed().as_secs() >= 3);
        std::fs::remove_file(disk.join("filler")).unwrap();
        let open = |(agent, task): &(&synapse_testkit::Agent, String)| {
            let state = agent.task(task)["state"].clone();
            state == "submitted" || state == "working"
        };
        world.wait_until("nothing is open", || !tasks.iter().any(open));
    }
    assert!(tasks.len() >= 8, "{}", tasks.len());
    for (agent, task) in &tasks {
        assert_eq!(agent.task(task)["state"], "completed", "{}", agent.task(task));
    }
}

/// Finding L13: after the home was removed, connected callers no longer hear "stored", and no empty
/// journal replaces the lost one.
#[test]
fn removed_home_stops_saying_stored() {
    let world = World::new(EXE);
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    world.ok(&["send", "shout", "first", "--response"]);
    let dir = world.agent_dir(&agent.id);
    let mut connection = agent.unix().connect();
    let mut send = || {
        let body = r#"{"message":"x","priority":1}"#;
        connection.say(&agent.unix().head("POST", "/message", &[], Some(body.len())));
        connection.say(body);
        connection.answer()
    };
    assert_eq!(send().status, 200);
    std::fs::remove_dir_all(&dir).unwrap();
    let answer = send();
    assert_eq!((answer.status, answer.code().as_str()), (507, "not_stored"), "{}", answer.text());
    assert!(answer.text().contains("removed or replaced"), "{}", answer.text());
    world.wait_until("the agent has ended", || world.processes().is_empty());
    assert!(!dir.join("journal.db").exists(), "no journal was made in its place");
}

/// Finding L14: the start is refused. The doctor explains why and restores what it can.
#[test]
fn lost_journal_is_explained_and_repaired() {
    let world = World::new(EXE);
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    world.ok(&["send", "shout", "first", "--response"]);
    world.ok(&["kill", "shout"]);
    let dir = world.agent_dir(&agent.id);
    let journal = dir.join("journal.db");
    std::fs::rename(&journal, dir.join("elsewhere")).unwrap();
    let start = || world.synapse(&["run", "-d", "--name", "shout", "--exec", "tr a-z A-Z"]);
    start().fails(1, &["has lost records", "synapse doctor --fix"]);
    assert!(!journal.exists(), "no empty one was made");
    std::fs::write(&journal, b"").unwrap();
    std::fs::set_permissions(&journal, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    start().fails(1, &["has lost records"]);
    world.synapse(&["doctor"]).fails(1, &["one thing is bad"]);
    let fixed = world.synapse(&["doctor", "--fix"]).ok();
    assert!(fixed.stdout.contains("mended") && fixed.stdout.contains("has lost records"), "{fixed}");
    assert!(fixed.stdout.contains("nothing could be restored; "), "{fixed}");
    assert!(
        fixed.stdout.contains("records are lost; the damaged files are kept as journal.db.damaged-"),
        "{fixed}"
    );
    let told = world.ok(&["doctor", "--json"]);
    assert!(told.contains("records are lost; the damaged files are kept as"), "{told}");
    let kept = std::fs::read_dir(&dir).unwrap().flatten();
    assert!(kept.filter(|entry| entry.file_name().to_string_lossy().contains(".damaged-")).count() >= 2);
    start().ok();
    assert_eq!(world.ok(&["send", "shout", "again", "--response"]), "AGAIN");
}

/// Finding L14: a damaged WAL is repaired, and the doctor says how much was restored.
#[test]
fn damaged_log_is_restored() {
    let world = World::new(EXE);
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    world.ok(&["send", "shout", "first", "--response"]);
    let dir = world.agent_dir(&agent.id);
    // Copies the files as a kill would leave them: an orderly stop moves the WAL into the database.
    // The head comes first, so that it is not ahead of the journal.
    let names = ["journal.db-head", "journal.db", "journal.db-wal"];
    let files = names.map(|name| (name, std::fs::read(dir.join(name)).unwrap()));
    world.ok(&["kill", "shout"]);
    for (name, mut bytes) in files {
        if name.ends_with("-wal") {
            bytes[..32].fill(0x5a);
        }
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    let start = || world.synapse(&["run", "-d", "--name", "shout", "--exec", "tr a-z A-Z"]);
    start().fails(1, &["is damaged", "synapse doctor --fix"]);
    let fixed = world.synapse(&["doctor", "--fix"]).ok();
    assert!(fixed.stdout.contains("restored up to record "), "{fixed}");
    assert!(fixed.stdout.contains("; no record is lost; "), "{fixed}");
    start().ok();
    assert!(world.ok(&["history", "--json"]).contains("first"));
}

/// Finding L13: after `damage` removed stored records, the node stores nothing more, and the next
/// start does not silently begin empty.
#[track_caller]
fn stops_until_repaired(damage: impl Fn(&Path)) {
    let world = World::new(EXE);
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    world.ok(&["send", "shout", "first", "--response"]);
    let dir = world.agent_dir(&agent.id);
    let mut connection = agent.unix().connect();
    damage(&dir);
    let body = r#"{"message":"x","priority":1}"#;
    connection.say(&agent.unix().head("POST", "/message", &[], Some(body.len())));
    connection.say(body);
    let answer = connection.answer();
    assert_eq!((answer.status, answer.code().as_str()), (507, "not_stored"), "{}", answer.text());
    world.wait_until("the agent has ended", || world.processes().is_empty());
    let start = || world.synapse(&["run", "-d", "--name", "shout", "--exec", "tr a-z A-Z"]);
    start().fails(1, &["is incomplete", "synapse doctor --fix"]);
    world.synapse(&["doctor", "--fix"]).ok();
    start().ok();
    assert_eq!(world.ok(&["send", "shout", "again", "--response"]), "AGAIN");
}

#[test]
fn journal_that_is_removed_with_its_head_prevents_the_next_start() {
    stops_until_repaired(|dir| {
        for name in ["journal.db", "journal.db-wal", "journal.db-shm", "journal.db-head"] {
            std::fs::remove_file(dir.join(name)).unwrap();
        }
    });
}

#[test]
fn journal_that_is_truncated_stops_saying_stored() {
    for name in ["journal.db-wal", "journal.db"] {
        stops_until_repaired(|dir| {
            std::fs::OpenOptions::new().write(true).open(dir.join(name)).unwrap().set_len(0).unwrap();
        });
    }
}
