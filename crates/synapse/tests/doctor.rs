//! `synapse doctor`: each fault is created for real, found, and repaired where that is safe
//! (CLI-9).

use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use synapse_testkit::processes::kill9;
use synapse_testkit::{Ran, World};

/// A world with only the system's programs on its path, so that no real agent CLI is run.
struct Clinic {
    world: World,
    programs: PathBuf,
    temp: PathBuf,
}

impl Clinic {
    fn new() -> Self {
        let world = World::new(env!("CARGO_BIN_EXE_synapse"));
        let (programs, temp) = (world.file("programs"), world.file("temp"));
        std::fs::create_dir(&programs).unwrap();
        std::fs::create_dir(&temp).unwrap();
        Self { world, programs, temp }
    }

    fn doctor(&self, flags: &[&str]) -> Ran {
        let args: Vec<&str> = ["doctor", "--json"].iter().chain(flags).copied().collect();
        let mut command = self.world.command(&args);
        let path = format!("{}:/usr/bin:/bin", self.programs.display());
        Ran::new(&args, command.env("PATH", path).env("TMPDIR", &self.temp).output().unwrap())
    }

    /// All findings of one area that are not "ok".
    #[track_caller]
    fn found(&self, code: i32, area: &str) -> Vec<Value> {
        let ran = self.doctor(&[]).exits(code);
        let all = ran.json()["findings"].as_array().unwrap().clone();
        all.into_iter().filter(|finding| finding["area"] == area && finding["mark"] != "ok").collect()
    }

    /// Checks that the fault is found with a hint, and that `--fix` repairs it.
    #[track_caller]
    fn finds_and_mends(&self, code: i32, area: &str, word: &str) {
        let found = self.found(code, area);
        assert_eq!(found.len(), 1, "{found:?}");
        let what = found[0]["what"].as_str().unwrap();
        assert!(
            what.contains(word) && found[0]["help"].is_string() && found[0]["why"].is_string(),
            "{found:?}"
        );
        let fixed = self.doctor(&["--fix"]).ok().json();
        assert_eq!(fixed["mended"], json!([{ "what": what, "failed": null }]), "{fixed}");
        assert_eq!(self.found(0, area), [Value::Null; 0]);
    }
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

fn make_old(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(7_200)).unwrap();
}

#[test]
fn a_home_in_use_and_none_at_all_are_well() {
    let clinic = Clinic::new();
    let none = clinic.doctor(&[]).ok().json();
    assert_eq!(none["ok"], true, "{none}");
    assert!(!clinic.world.home().exists(), "a look makes nothing");
    clinic.world.run("shout", "tr a-z A-Z", &[]);
    clinic.world.ok(&["send", "shout", "hi", "--response"]);
    let used = clinic.doctor(&[]).ok().json();
    let marks: Vec<&Value> =
        used["findings"].as_array().unwrap().iter().filter(|f| f["mark"] == "bad").collect();
    assert!(marks.is_empty() && used["ok"] == true, "{used}");
    let text = clinic.world.command(&["doctor"]).env("PATH", "/usr/bin:/bin").output().unwrap();
    let text = Ran::new(&["doctor"], text).ok().out();
    assert!(text.contains("ok    permissions") && !text.contains('\u{1b}'), "no colours in a pipe: {text}");
}

#[test]
fn open_permissions_are_found_and_closed() {
    let clinic = Clinic::new();
    let agent = clinic.world.run("shout", "tr a-z A-Z", &[]);
    let home = clinic.world.home();
    let dir = clinic.world.agent_dir(&agent.id);
    for (path, open, closed) in [
        (home.to_owned(), 0o755, 0o700),
        (home.join("token"), 0o644, 0o600),
        (home.join("registry"), 0o777, 0o700),
        (dir.clone(), 0o770, 0o700),
        (dir.join("journal.db"), 0o666, 0o600),
        (dir.join("launch.json"), 0o622, 0o600),
    ] {
        chmod(&path, open);
        clinic.finds_and_mends(1, "permissions", &path.display().to_string());
        assert_eq!(mode(&path), closed, "{}", path.display());
    }
    std::fs::rename(home.join("token"), home.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(home.join("elsewhere"), home.join("token")).unwrap();
    let found = clinic.found(1, "permissions");
    assert!(found[0]["what"].as_str().unwrap().contains("symbolic link"), "{found:?}");
    clinic.doctor(&["--fix"]).exits(1);
    assert!(home.join("token").symlink_metadata().unwrap().file_type().is_symlink(), "not for us to mend");
}

#[test]
fn what_the_dead_left_is_found_and_removed() {
    let clinic = Clinic::new();
    let world = &clinic.world;
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let entry = world.home().join("registry").join(format!("{}.json", agent.id));
    let text = std::fs::read(&entry).unwrap();
    kill9(agent.node_pid);
    kill9(agent.pid);
    world.wait_until("both are gone", || world.processes().is_empty());
    std::fs::write(&entry, text).unwrap();
    let fixed = clinic.doctor(&["--fix"]).ok().json();
    let mended = fixed["mended"].as_array().unwrap();
    for word in ["entry of an agent that is gone", "socket of a node that is gone", "holder that is gone"] {
        let is_meant = |m: &Value| m["what"].as_str().unwrap().contains(word) && m["failed"].is_null();
        assert!(mended.iter().any(is_meant), "{word}: {fixed}");
    }
    assert!(!entry.exists() && !agent.socket.exists());
    assert_eq!(clinic.found(0, "stale files"), [Value::Null; 0]);

    for draft in [
        world.home().join(".synapse-draft-1-x"),
        world.home().join("registry/.synapse-draft-1-x"),
        world.agent_dir(&agent.id).join("spool/tmp/left"),
    ] {
        std::fs::write(&draft, "half").unwrap();
        assert_eq!(clinic.found(0, "stale files"), [Value::Null; 0], "a young one may be in use");
        make_old(&draft);
        clinic.finds_and_mends(0, "stale files", &draft.display().to_string());
        assert!(!draft.exists());
    }
    let demo = clinic.temp.join("synapse-demo-1");
    std::fs::create_dir_all(demo.join("agents")).unwrap();
    make_old(&demo);
    clinic.finds_and_mends(0, "stale files", "demonstration");
    assert!(!demo.exists());
}

/// A lock that is held is left alone, even if its pid is unreadable.
#[test]
fn nothing_that_is_in_use_is_removed() {
    let clinic = Clinic::new();
    let world = &clinic.world;
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let lock = world.agent_dir(&agent.id).join("holder.lock");
    let mark = std::fs::read(&lock).unwrap();
    std::fs::write(&lock, "?").unwrap();
    let fixed = clinic.doctor(&["--fix"]).ok().json();
    let failed = fixed["mended"].as_array().unwrap().iter().filter(|m| !m["failed"].is_null()).count();
    assert!(failed >= 1, "{fixed}");
    assert!(agent.socket.exists());
    std::fs::write(&lock, mark).unwrap();
    assert_eq!(world.ok(&["send", "shout", "hi", "--response"]), "HI");
}

#[test]
fn a_broken_journal_and_a_clock_that_was_set_back_are_found() {
    let clinic = Clinic::new();
    let world = &clinic.world;
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    world.ok(&["send", "shout", "hi", "--response"]);
    world.ok(&["kill", "shout"]);
    let journal = world.agent_dir(&agent.id).join("journal.db");
    let whole = std::fs::read(&journal).unwrap();

    let tomorrow =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64 + 86_400_000;
    let script = format!(
        "import sqlite3,sys; d=sqlite3.connect(sys.argv[1]); d.execute('update journal set at={tomorrow}'); d.commit()"
    );
    let python = synapse_testkit::world::python();
    let ran = std::process::Command::new(python).args(["-c", &script]).arg(&journal).status().unwrap();
    assert!(ran.success());
    let found = clinic.found(1, "clock");
    assert!(found[0]["what"].as_str().unwrap().contains("behind the last record of shout"), "{found:?}");

    std::fs::write(&journal, [b'x'; 4096]).unwrap();
    let found = clinic.found(1, "journals");
    assert!(
        found[0]["what"].as_str().unwrap().contains("the journal of shout cannot be opened"),
        "{found:?}"
    );
    std::fs::write(&journal, whole).unwrap();
    clinic.doctor(&[]).ok();
}

#[test]
fn nodes_ports_and_programs_are_looked_at() {
    let clinic = Clinic::new();
    let world = &clinic.world;
    let port = world.port();
    let agent = world.run("shout", "tr a-z A-Z", &["--port", &port]);
    world.wait_until("it is idle", || world.entry("shout").is_some_and(|entry| entry["status"] == "idle"));
    let path = world.home().join("registry").join(format!("{}.json", agent.id));
    let entry = std::fs::read(&path).unwrap();
    let write = |field: &str, value: Value| {
        let mut changed: Value = serde_json::from_slice(&entry).unwrap();
        changed[field] = value;
        std::fs::write(&path, changed.to_string()).unwrap();
    };
    for (field, value, code, word) in [
        ("version", json!("0.0.1"), 0, "runs synapse 0.0.1"),
        ("api", json!(0), 1, "does not understand"),
        ("holder_version", json!("0.0.1"), 0, "the holder of shout"),
    ] {
        write(field, value);
        let found = clinic.found(code, "agents");
        assert!(found[0]["what"].as_str().unwrap().contains(word), "{found:?}");
    }
    std::fs::write(&path, &entry).unwrap();
    std::fs::rename(&agent.socket, world.file("away")).unwrap();
    let found = clinic.found(1, "agents");
    assert!(found[0]["what"].as_str().unwrap().contains("does not answer"), "{found:?}");
    std::fs::rename(world.file("away"), &agent.socket).unwrap();
    assert_eq!(clinic.found(0, "agents"), [Value::Null; 0]);

    world.ok(&["kill", "shout"]);
    assert_eq!(clinic.found(0, "ports"), [Value::Null; 0]);
    let _stranger = std::net::TcpListener::bind(("127.0.0.1", port.parse().unwrap())).unwrap();
    let found = clinic.found(0, "ports");
    assert!(found[0]["what"].as_str().unwrap().contains(&format!("port {port}")), "{found:?}");

    // Finding 29: three seconds were not enough for a CLI on Node.js on a busy machine.
    for (name, script) in
        [("claude", "sleep 4; echo '9.9 (Test)'"), ("codex", "exit 1"), ("gemini", "sleep 60 & sleep 60")]
    {
        let program = clinic.programs.join(name);
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        chmod(&program, 0o755);
    }
    let all = clinic.doctor(&[]).ok().json();
    let programs: Vec<&str> = all["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["area"] == "programs")
        .map(|finding| finding["what"].as_str().unwrap())
        .collect();
    for (said, expected) in programs.iter().zip([
        "claude: 9.9 (Test)",
        "codex does not tell its version: `--version` fails",
        "gemini does not tell its version: no answer within 10 s",
        "opencode is not installed",
        "copilot is not installed",
    ]) {
        assert_eq!(*said, expected);
    }
}

/// A malformed file in the registry is ignored and reported.
#[test]
fn what_was_passed_over_is_told() {
    let clinic = Clinic::new();
    clinic.world.run("shout", "tr a-z A-Z", &[]);
    std::fs::write(clinic.world.home().join("registry/garbage.json"), "{{{").unwrap();
    let found = clinic.found(0, "files");
    assert!(found[0]["what"].as_str().unwrap().contains("garbage.json"), "{found:?}");
}
