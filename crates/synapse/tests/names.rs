//! Names across folders: running before stopped, then this folder before others, then names before
//! types (X-3, CLI-4).

use serde_json::Value;
use synapse_testkit::{Ran, World};

/// A home with three folders.
struct Folders {
    world: World,
    p1: World,
    p2: World,
}

fn folders() -> Folders {
    let exe = env!("CARGO_BIN_EXE_synapse");
    let world = World::new(exe);
    let at = |name: &str| World::at(exe, world.home(), &world.file(name));
    let (p1, p2) = (at("p1"), at("p2"));
    Folders { world, p1, p2 }
}

fn start(world: &World, more: &[&str]) {
    world.ok(&[&["run", "-d", "--exec", "cat"], more].concat());
}

/// Sends a message to a target and returns the folder of the agent that got it.
fn goes_to(world: &World, target: &str) -> String {
    let sent = world.json(&["send", target, "hi"]);
    let all = world.json(&["list", "--all"]);
    let found = all.as_array().unwrap().iter().find(|row| row["agent_id"] == sent["agent_id"]);
    let folder = found.unwrap_or_else(|| panic!("{sent} in {all}"))["folder"].as_str().unwrap();
    folder.rsplit('/').next().unwrap().to_owned()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

/// Measured (a new user's day, 1 and 7): for an agent stopped in two folders, the choice showed
/// hashes.
#[test]
fn stopped_agents_of_one_name_are_told_apart_by_their_folders() {
    let Folders { world, p1, p2 } = folders();
    for folder in [&p1, &p2] {
        start(folder, &["--name", "shout"]);
        folder.ok(&["kill", "shout"]);
    }
    let refused = world.synapse(&["send", "shout", "hi"]).fails(5, &["\"shout\" could mean any of"]);
    let lines: Vec<Vec<&str>> =
        refused.stderr.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["NAME", "STATE", "FOLDER", "TARGET"], "{refused}");
    for (n, place) in [(2, "p1"), (3, "p2")] {
        assert_eq!((lines[n][0], lines[n][1]), ("shout", "stopped"), "{refused}");
        assert!(lines[n][2].ends_with(&format!("/{place}")), "{refused}");
        assert_eq!(lines[n][3], format!("shout@{place}"), "{refused}");
    }
    let told = world.synapse(&["send", "shout", "hi", "--json"]).exits(5);
    let told: Value = serde_json::from_str(told.stderr.trim()).unwrap();
    assert_eq!(told["error"]["code"], "ambiguous_target");
    assert_eq!(told["error"]["details"]["candidates"], serde_json::json!(["shout@p1", "shout@p2"]));
    assert_eq!(told["error"]["details"]["choices"][1]["state"], "stopped", "{told}");
    assert_eq!(names(&world.json(&["list", "--all"])), ["shout@p1", "shout@p2"]);
    // From its own folder, or with the place, each name is unambiguous.
    for (from, target, place) in
        [(&p1, "shout", "p1"), (&p2, "shout", "p2"), (&p2, "shout@p1", "p1"), (&world, "shout@work/p2", "p2")]
    {
        assert_eq!(goes_to(from, target), place, "{target}");
    }
    let unknown = world.synapse(&["send", "shuot", "hi"]);
    unknown.fails(5, &["did you mean shout@p1 or shout@p2?"]);
}

/// Measured (2): a stopped agent's name won over a running agent's type.
#[test]
fn running_type_wins_over_stopped_name() {
    let Folders { world, p1, p2 } = folders();
    start(&p1, &["--name", "codex"]);
    p1.ok(&["kill", "codex"]);
    start(&p2, &["--type", "codex"]);
    assert_eq!(goes_to(&world, "codex"), "p2");
    assert_eq!(goes_to(&p1, "codex"), "p2");
    assert_eq!(goes_to(&p2, "codex@p1"), "p1");
}

/// Measured (7): two agents of one type in two projects were ambiguous even from inside either
/// project.
#[test]
fn agent_of_this_project_is_meant_before_others() {
    let Folders { world, p1, p2 } = folders();
    for folder in [&p1, &p2] {
        std::fs::create_dir(folder.file(".git")).unwrap();
        start(folder, &["--type", "claude"]);
    }
    let deep = p1.file("src/deep");
    std::fs::create_dir_all(&deep).unwrap();
    let deep = World::at(env!("CARGO_BIN_EXE_synapse"), world.home(), &deep);
    assert_eq!(goes_to(&p1, "claude"), "p1");
    assert_eq!(goes_to(&p2, "claude"), "p2");
    assert_eq!(goes_to(&deep, "claude"), "p1", "a parent up to the root of the repository");
    world.synapse(&["send", "claude", "hi"]).fails(5, &["claude@p1", "claude@p2"]);
    // People see names that work in this folder. Programs get names that work in any folder.
    let shown = p1.ok(&["list"]);
    let first: Vec<&str> = shown.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(first, ["claude", "claude@p2"], "{shown}");
    assert_eq!(names(&p1.json(&["list"])), ["claude@p1", "claude@p2"]);
    // A parent folder that is no repository is another place.
    let outer = World::at(env!("CARGO_BIN_EXE_synapse"), world.home(), world.folder());
    outer.synapse(&["status", "claude"]).fails(5, &["claude@p1"]);
}

#[test]
fn skill_means_an_agent_of_this_folder_first() {
    let Folders { world, p1, p2 } = folders();
    start(&p1, &["--name", "ana", "--skill", "review"]);
    start(&p2, &["--name", "bob", "--skill", "review"]);
    assert_eq!(goes_to(&p1, "skill:review"), "p1");
    assert_eq!(goes_to(&p2, "skill:review"), "p2");
    p1.ok(&["kill", "ana"]);
    assert_eq!(goes_to(&p1, "skill:review"), "p2", "one that runs");
    drop(world);
}

/// Without a name, the second agent of a folder gets a number, not a hash.
#[test]
fn second_agent_of_a_folder_is_called_by_its_number() {
    let Folders { world, p1, .. } = folders();
    start(&p1, &["--type", "claude"]);
    start(&p1, &["--type", "claude"]);
    assert_eq!(names(&world.json(&["list"])), ["claude#1", "claude#2"]);
    p1.synapse(&["send", "claude", "hi"]).fails(5, &["claude#1", "claude#2"]);
    assert_eq!(goes_to(&p1, "claude#2"), "p1");
    p1.ok(&["kill", "--all"]);
    assert_eq!(names(&world.json(&["list", "--all"])), ["claude#1", "claude#2"]);
    let all = p1.ok(&["list", "--all"]);
    assert!(all.contains("claude#1") && all.contains("claude#2"), "{all}");
}

/// `start` starts the stopped agent of this folder, whatever runs elsewhere.
#[test]
fn start_means_the_stopped_agent_of_this_folder() {
    let Folders { world, p1, p2 } = folders();
    for folder in [&p1, &p2] {
        start(folder, &["--type", "claude"]);
    }
    p1.ok(&["kill", "claude"]);
    p1.ok(&["start", "claude"]);
    assert_eq!(names(&world.json(&["list"])), ["claude@p1", "claude@p2"]);
    p1.synapse(&["start", "claude"]).fails(5, &["already runs"]);
}

/// A message comes from the agent that the name means in this folder, although a node would resolve
/// the name without a folder.
#[test]
fn speaker_is_the_agent_of_this_folder() {
    let Folders { world, p1, p2 } = folders();
    start(&p1, &["--type", "claude"]);
    start(&p2, &["--name", "claude"]);
    world.run("who", "echo $SYNAPSE_SENDER", &[]);
    let said = |from: &World| from.ok(&["send", "who", "hi", "--from", "claude", "--response"]);
    assert_eq!(said(&p2), "claude (by user)");
    let unnamed = said(&p1);
    assert!(unnamed.starts_with("claude-") && unnamed.ends_with(" (by user)"), "{unnamed}");
    // Programs get names that mean the same agent in each folder.
    for name in names(&world.json(&["list"])) {
        let place = goes_to(&world, name);
        assert_eq!((goes_to(&p1, name), goes_to(&p2, name)), (place.clone(), place), "{name}");
    }
}

/// Words that mean others cannot be the name of an agent: `[A2A:…:user]` is the header of the user.
#[test]
fn agent_is_not_started_with_a_reserved_name() {
    let Folders { world, .. } = folders();
    for name in ["user", "USER", "node", "broadcast"] {
        world.synapse(&["run", "-d", "--name", name, "--exec", "cat"]).fails(2, &["reserved"]);
        world.synapse(&["join", "--name", name]).fails(2, &["reserved"]);
    }
    assert_eq!(world.json(&["list", "--all"]), serde_json::json!([]));
}

#[test]
fn started_agent_is_called_as_the_list_calls_it() {
    let Folders { world, p1, p2 } = folders();
    let begun = |at: &World| at.ok(&["run", "-d", "--type", "claude", "--exec", "cat"]);
    assert!(begun(&p1).starts_with("claude runs as synapse-claude-"));
    assert!(begun(&p1).starts_with("claude#2 runs as synapse-claude-"));
    assert!(begun(&p2).starts_with("claude runs as synapse-claude-"));
    p1.ok(&["kill", "claude#2"]);
    let again = p1.ok(&["start", "claude#2"]);
    assert!(again.starts_with("claude#2 runs as ") && again.contains("mailbox"), "{again}");
    drop(world);
}

/// Messages keep the name that their sender had, such as `claude-8100`. People see the present one.
#[test]
fn history_and_inbox_show_agents_as_the_list_does() {
    let Folders { world, p1, p2 } = folders();
    start(&p1, &["--type", "claude"]);
    start(&p2, &["--type", "claude"]);
    assert_eq!(p1.ok(&["send", "claude@p2", "hello", "--from", "claude", "--response"]), "hello");
    let listed = world.ok(&["history"]);
    assert!(listed.contains("claude@p1 (by user) → claude@p2"), "{listed}");
    let found = world.ok(&["history", "search", "hello"]);
    assert!(found.contains("claude@p2 ⇢ claude@p1 (by user)"), "{found}");
    let task = world.json(&["history"])[0]["task_id"].as_str().unwrap()[..8].to_owned();
    let shown = world.ok(&["history", "show", &task]);
    assert!(shown.contains("claude@p1 (by user) → claude@p2"), "{shown}");
    assert!(![listed, found, shown].concat().contains("claude-"), "no port where a name exists");
    p2.ok(&["kill", "claude"]);
    p1.ok(&["send", "claude@p2", "later", "--from", "claude"]);
    let held = world.ok(&["run", "-d", "--name", "slow", "--exec", "cat > taken; sleep 600"]);
    assert!(held.starts_with("slow runs as "), "{held}");
    p1.ok(&["send", "slow", "first", "--from", "claude"]);
    p1.ok(&["send", "slow", "second", "--from", "claude"]);
    world.wait_until("the second message waits", || {
        let inbox = world.ok(&["inbox", "slow"]);
        inbox.contains(" claude (by user) ") && inbox.contains("second")
    });
}

#[test]
fn follower_is_the_agent_of_this_folder() {
    let Folders { world, p1, p2 } = folders();
    start(&p1, &["--type", "claude"]);
    start(&p2, &["--type", "claude"]);
    let lead = world.run("lead", "cat", &[]);
    p1.ok(&["follow", "lead", "--from", "claude"]);
    let followers = lead.get("/api/v1/shared").json()["followers"].clone();
    assert_eq!(followers[0]["sender_id"], p1.json(&["list"])[0]["agent_id"], "{followers}");
    p1.ok(&["unfollow", "lead", "--from", "claude"]);
    assert_eq!(lead.get("/api/v1/shared").json()["followers"], serde_json::json!([]));
}

#[test]
fn watch_is_known_by_the_present_name_of_its_agent() {
    let Folders { world, p1, .. } = folders();
    start(&p1, &["--name", "shout"]);
    world.ok(&["watch", "-d", "shout"]);
    world.ok(&["rename", "shout", "loud"]);
    world.wait_until("the watch has begun", || world.json(&["watch", "--list"])[0]["process"].is_object());
    let listed = world.ok(&["watch", "--list"]);
    assert!(listed.contains(" loud ") && !listed.contains("shout"), "{listed}");
    assert_eq!(world.ok(&["watch", "--stop", "loud"]), "1 stopped");
}

/// A stopped agent is shown with its folder, as a person writes it.
#[test]
fn handle_of_a_stopped_agent_is_described_by_name_and_folder() {
    let Folders { world, p1, p2 } = folders();
    let port = world.port();
    start(&p1, &["--name", "shout", "--port", &port]);
    p1.ok(&["kill", "shout"]);
    start(&p2, &["--type", "other", "--port", &port]);
    let args = ["send", &*format!("cat-{port}"), "hi"];
    let mut command = world.command(&args);
    let ran = Ran::new(&args, command.env("HOME", world.folder()).output().unwrap());
    ran.fails(5, &["was shout (~/p1, stopped)", "belongs to other;"]);
}
