//! Agents on disk: known ones and running ones.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use synapse_core::agents::AgentState;
use synapse_core::ids::{AgentId, AgentType, Label};
use synapse_store::known::{Known, KnownError};
use synapse_store::registry::{self, Entry, Life, Place};

use crate::{chmod, give_away, mode, names, pipe, temp};

fn known(n: u8, kind: &str, port: Option<u16>) -> Known {
    Known {
        id: AgentId::from_bytes([n; 32]),
        kind: AgentType::parse(kind).unwrap(),
        name: None,
        former_names: Vec::new(),
        suffix: Some("2".into()),
        assigned_number: None,
        role: None,
        capabilities: vec![Label::parse("review").unwrap()],
        working_dir: "/w".into(),
        hostname: "host".into(),
        port,
        first_seen_ms: 1,
        last_started_ms: 2,
        started_by: None,
    }
}

fn entry(known: &Known, holder: u32, port: u16) -> Entry {
    Entry::starting(known, holder, port, "/w/node.sock".into(), 5).unwrap()
}

/// Starts a process that waits until its input ends.
fn waiting_process() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn what_is_known_comes_back_and_damage_stays_with_its_agent() {
    let temp = temp();
    let (no_agents, no_problems) = Known::all(&temp.home);
    assert!(no_agents.is_empty() && no_problems.is_empty());

    let (a, b) = (known(1, "claude", Some(8100)), known(2, "codex", None));
    b.save(&temp.home).unwrap();
    a.save(&temp.home).unwrap();
    let a_dir = temp.home.agent(&a.id);
    assert_eq!(Known::load(&a_dir).unwrap().unwrap(), a);
    let text = fs::read_to_string(a_dir.known()).unwrap();
    assert!(text.contains(r#""schema": "synapse.known.v1""#) && text.contains(r#""type": "claude""#));
    assert_eq!(mode(&a_dir.known()), 0o600);

    // Truncated, of another agent, of a later version, a symbolic link, a foreign name, and an
    // agent that has only mail.
    let file = |n: u8| {
        let dir = temp.home.agent(&AgentId::from_bytes([n; 32]));
        dir.ensure().unwrap();
        dir.known()
    };
    fs::write(file(3), &text[..text.len() / 2]).unwrap();
    fs::write(file(4), &text).unwrap();
    fs::write(file(5), text.replace("known.v1", "known.v2")).unwrap();
    symlink(a_dir.known(), file(6)).unwrap();
    fs::create_dir(temp.home.agents_dir().join("stranger")).unwrap();
    file(7);
    let (agents, problems) = Known::all(&temp.home);
    assert_eq!(agents, [a.clone(), b]);
    assert_eq!(problems.len(), 5, "{problems:#?}");
    let later = Known::load(&temp.home.agent(&AgentId::from_bytes([5; 32])));
    assert!(matches!(later, Err(KnownError::Version { found, .. }) if found == "synapse.known.v2"));

    Known::forget(&temp.home, &a.id).unwrap();
    Known::forget(&temp.home, &a.id).unwrap();
    assert_eq!(Known::load(&a_dir).unwrap(), None);
}

#[test]
fn the_living_are_listed_and_our_dead_are_removed() {
    let temp = temp();
    assert_eq!(registry::scan(&temp.home), registry::Scan::default());
    let (a, b, c) = (known(1, "claude", None), known(2, "codex", None), known(3, "gemini", None));
    let child = waiting_process();
    let mut live = entry(&a, std::process::id(), 8100);
    live.write(&temp.home).unwrap();
    live.status = AgentState::Busy;
    live.write(&temp.home).unwrap();
    let dying = entry(&b, child.id(), 8101);
    dying.write(&temp.home).unwrap();
    // The same pid, but of an earlier process.
    let earlier = entry(&c, std::process::id(), 8102);
    Entry { start_time: earlier.start_time - 1, ..earlier }.write(&temp.home).unwrap();

    let scan = registry::scan(&temp.home);
    assert_eq!(scan.agents, [live.clone(), dying.clone()]);
    assert_eq!((scan.dead_removed, scan.problems.len()), (1, 0), "{:?}", scan.problems);
    end(child);
    let scan = registry::scan(&temp.home);
    assert_eq!((scan.agents, scan.dead_removed), (vec![live.clone()], 1));

    let name = format!("{}.json", a.id);
    let file = temp.home.registry_dir().join(&name);
    assert_eq!(names(temp.home.registry_dir()), [name]);
    assert_eq!(mode(&file), 0o600);
    let text: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for (key, value) in [
        ("schema", "synapse.registry.v1"),
        ("agent_type", "claude"),
        ("endpoint", "http://localhost:8100"),
        ("status", "busy"),
    ] {
        assert_eq!(text[key], value);
    }
    for key in ["agent_id", "pid", "start_time", "boot", "node_pid", "socket", "working_dir", "capabilities"]
    {
        assert!(!text[key].is_null(), "{key}");
    }

    assert!(!registry::remove(&temp.home, &a.id, 1).unwrap(), "it is another process's");
    assert!(registry::remove(&temp.home, &a.id, std::process::id()).unwrap());
    assert!(!registry::remove(&temp.home, &a.id, std::process::id()).unwrap());
    assert!(names(temp.home.registry_dir()).is_empty());
}

#[test]
fn what_cannot_be_known_from_here_is_never_removed() {
    let temp = temp();
    let here = Place::here();
    let mut gone = entry(&known(1, "claude", None), std::process::id(), 8100);
    gone.start_time -= 1;
    let check = |boot: &str, machine: &str, pid_space: &str, expected: Life| {
        let place = Place { boot: boot.into(), machine: machine.into(), pid_space: pid_space.into() };
        let entry = Entry { place, ..gone.clone() };
        assert_eq!(entry.life(&here), expected, "{:?}", entry.place);
        entry.write(&temp.home).unwrap();
        let scan = registry::scan(&temp.home);
        let seen = (scan.agents.len(), scan.dead_removed, scan.problems.len());
        let wanted = match expected {
            Life::Alive | Life::Unknown => (1, 0, 0),
            Life::Gone => (0, 1, 0),
            Life::Elsewhere => (0, 0, 1),
        };
        assert_eq!(seen, wanted, "{:?}", entry.place);
    };
    check(&here.boot, &here.machine, &here.pid_space, Life::Gone);
    check(&here.boot, "renamed", &here.pid_space, Life::Gone);
    check("earlier", &here.machine, &here.pid_space, Life::Gone);
    check(&here.boot, &here.machine, "pid:[1]", Life::Unknown);
    check("", &here.machine, &here.pid_space, Life::Unknown);
    check("other", "other", &here.pid_space, Life::Elsewhere);
}

#[test]
fn strangers_in_the_registry_are_read_or_told_and_never_touched() {
    let temp = temp();
    entry(&known(1, "claude", None), std::process::id(), 8100).write(&temp.home).unwrap();
    let dir = temp.home.registry_dir();
    let ours = fs::read_to_string(dir.join(format!("{}.json", "01".repeat(32)))).unwrap();
    // As another tool with a loose umask would create it.
    chmod(dir, 0o775);
    let put = |name: &str, text: &str| {
        fs::write(dir.join(name), text).unwrap();
        chmod(&dir.join(name), 0o664);
    };
    put(
        "synapse-gemini-8110.json",
        r#"{"agent_id":"synapse-gemini-8110","agent_type":"gemini","port":"8110","pid":1,"status":7,"x":[]}"#,
    );
    put("empty.json", "{}");
    put("text.json", "no json");
    put("list.json", "[1]");
    put("misnamed.json", &ours);
    put("later.json", &ours.replace("registry.v1", "registry.v2"));
    put("cut.json", &ours.replace("\"endpoint\"", "\"endpiont\""));
    put("huge.json", &format!("{{\"a\":\"{}\"}}", "x".repeat(70_000)));
    put("readme.txt", "no entry at all");
    symlink(dir.join("empty.json"), dir.join("link.json")).unwrap();
    fs::create_dir(dir.join("dir.json")).unwrap();
    pipe(&dir.join("pipe.json"));
    put("foreign.json", "{}");
    let is_foreign = give_away(&dir.join("foreign.json"));
    let before = names(dir);

    let scan = registry::scan(&temp.home);
    assert_eq!((scan.agents.len(), scan.dead_removed), (1, 0));
    let told = scan.problems.len();
    assert_eq!(told, 9 + usize::from(is_foreign), "{:#?}", scan.problems);
    assert_eq!(scan.foreign.len(), 3 - usize::from(is_foreign));
    let gemini = scan.foreign.iter().find(|f| f.agent_type.is_some()).unwrap();
    assert_eq!(gemini.agent_id.as_deref(), Some("synapse-gemini-8110"));
    assert_eq!((gemini.port, gemini.pid, gemini.status.as_deref()), (Some(8110), Some(1), None));
    assert!(gemini.path.ends_with("synapse-gemini-8110.json"));
    assert_eq!(names(dir), before);
}

#[test]
fn old_drafts_are_cleared_from_the_registry_and_fresh_ones_left() {
    let temp = temp();
    temp.home.ensure().unwrap();
    let dir = temp.home.registry_dir();
    for (name, age_s) in [(".synapse-draft-1-old", 7200), (".synapse-draft-1-new", 60), (".other", 7200)] {
        let file = fs::File::create(dir.join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
    }
    registry::scan(&temp.home);
    assert_eq!(names(dir), [".other", ".synapse-draft-1-new"]);
}

#[test]
fn a_registry_that_is_not_ours_is_told_and_not_read() {
    let temp = temp();
    fs::create_dir_all(temp.path.join("real")).unwrap();
    fs::create_dir_all(temp.path.join("a2a")).unwrap();
    symlink(temp.path.join("real"), temp.home.registry_dir()).unwrap();
    let scan = registry::scan(&temp.home);
    assert_eq!((scan.agents.len(), scan.problems.len()), (0, 1));
    assert!(temp.home.ensure().is_err());
}

#[test]
fn candidates_are_the_living_first_and_then_the_known() {
    let temp = temp();
    let (a, b) = (known(1, "claude", Some(8100)), known(2, "codex", Some(8100)));
    a.save(&temp.home).unwrap();
    b.save(&temp.home).unwrap();
    entry(&b, std::process::id(), 8105).write(&temp.home).unwrap();
    let found = registry::candidates(&temp.home);
    let told: Vec<_> = found.iter().map(|c| (c.kind.as_str(), c.port, c.live)).collect();
    assert_eq!(told, [("codex", Some(8105), true), ("claude", Some(8100), false)]);
}

#[test]
fn heavy_a_hundred_entries_are_a_quick_look() {
    let temp = temp();
    let children: Vec<Child> = (0..100).map(|_| waiting_process()).collect();
    for (n, child) in (0..100).zip(&children) {
        entry(&known(n, "claude", None), child.id(), 8100).write(&temp.home).unwrap();
    }
    let start = std::time::Instant::now();
    let scan = registry::scan(&temp.home);
    let took = start.elapsed();
    children.into_iter().for_each(end);
    assert_eq!(scan.agents.len(), 100);
    println!("100 entries: {took:?}");
    // Far above the normal time, for busy machines and debug builds; a sync per
    // entry would exceed it.
    assert!(took < Duration::from_millis(500), "{took:?}");
}
