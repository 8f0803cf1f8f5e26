//! `synapse profile learn`: what it proposes for CLIs of several shapes, and that messages can be
//! typed with the result.

use serde_json::Value;
use synapse_testkit::World;
use synapse_testkit::world::python;

fn world() -> World {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    world.write("cli.py", include_str!("../../testkit/src/cli.py"));
    world
}

/// What the log of the CLI has under a name, such as the messages it was given.
fn logged(world: &World, name: &str) -> Vec<Value> {
    world
        .lines("log")
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?.get(name).cloned())
        .collect()
}

fn learn(world: &World, more: &[&str], how: &[&str]) -> Value {
    world.write("log", "");
    let mut words = vec!["profile", "learn", "--name", "fake", "--prompt", "please ASK", "--json"];
    words.extend(more);
    words.extend(["--", python(), "cli.py", "log", "mute=1", "turn=1500"]);
    words.extend(how);
    world.synapse(&words).ok().json()
}

fn parts(profile: &str) -> Vec<&str> {
    let begins = profile.split_once("\ncomposer:\n").map_or("", |(_, composer)| composer);
    let words = begins.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(':'));
    words.map(|(word, _)| word).filter(|word| word.chars().all(char::is_alphabetic)).collect()
}

fn check(how: &[&str], composer: &[&str]) {
    let world = world();
    let learned = learn(&world, &["--yes", "--save"], how);
    let profile = learned["profile"].as_str().unwrap();
    assert_eq!(parts(profile), composer, "{profile}");
    assert!(learned["score"]["agreement"].as_f64().unwrap() > 0.95, "{learned:#}");
    assert_eq!(learned["score"]["waiting_as_idle_ms"], 0, "{learned:#}");
    assert_eq!(learned["missing"].as_array().unwrap().len(), 0, "{learned:#}");
    assert_eq!(
        logged(&world, "given"),
        ["Reply with the single word ready.\nDo nothing else.", "please ASK"]
    );
    assert_eq!((logged(&world, "denied").len(), logged(&world, "approved").len()), (1, 0));
    assert!(logged(&world, "empty_enter").is_empty());
    // The saved profile works as it is.
    world.ok(&["fake", "-d", "--name", "it"]);
    world.send("it", "two\nlines", &[]);
    world.wait_until("it is given the message", || logged(&world, "given").len() == 3);
    let given = logged(&world, "given")[2].as_str().unwrap().to_owned();
    assert!(given.starts_with("[A2A:") && given.ends_with("] two\nlines\n"), "{given}");
}

#[test]
fn composer_with_a_mark_is_learned() {
    check(&[], &["mark", "end"]);
}

#[test]
fn composer_in_a_box_with_an_example_is_learned() {
    check(&["shape=1"], &["mark", "frame", "right", "end", "placeholders"]);
}

#[test]
fn composer_between_lines_is_learned() {
    check(&["shape=2"], &["begin", "end"]);
}

#[test]
fn composer_with_a_mark_in_every_row_is_learned() {
    check(&["shape=3"], &["frame"]);
}

#[test]
fn nothing_is_submitted_unless_the_user_agrees() {
    let world = world();
    let learned = learn(&world, &[], &[]);
    assert_eq!(learned["types"], false, "{learned:#}");
    assert!(learned["saved"].is_null() && !world.home().join("profiles/fake.yaml").exists());
    let missing = learned["missing"].to_string();
    assert!(missing.contains("busy: no turn was watched"), "{missing}");
    assert_eq!(world.read("log"), "", "nothing was submitted");
}

#[test]
fn program_that_shows_nothing_is_left_alone() {
    let world = world();
    let hides = "import getpass; getpass.getpass('say> ')";
    let ran = world
        .synapse(&["profile", "learn", "--yes", "--name", "x", "--json", "--", python(), "-c", hides])
        .ok();
    let learned = ran.json();
    assert!(learned["missing"].to_string().contains("did not appear"), "{learned:#}");
    assert_eq!(learned["types"], false);
    let asks = "print('Trust this folder?\\n> 1. Yes\\n  2. No\\nEnter to confirm, Esc to cancel'); input()";
    let ran = world.synapse(&["profile", "learn", "--yes", "--name", "x", "--", python(), "-c", asks]);
    ran.fails(5, &["it asks something before it can be used", "Trust this folder?"]);
    world.synapse(&["profile", "learn", "--yes", "--", "bash"]).fails(5, &["is a shell"]);
    world.synapse(&["profile", "learn", "--yes", "--", "claude"]).fails(5, &["shipped profile"]);
    let ran =
        world.synapse(&["profile", "learn", "--yes", "--name", "x", "--", python(), "-c", "print('bye')"]);
    ran.fails(1, &["the program ended", "bye"]);
}

#[test]
fn agent_cannot_save_a_profile() {
    let world = world();
    let python = python();
    let learn = format!(
        "{} profile learn --yes --save --name fake -- {python} cli.py log 2>&1; true",
        world.exe().display()
    );
    world.run("agent", &learn, &[]);
    let answer = world.ok(&["send", "agent", "learn it", "--response"]);
    assert!(answer.contains("an agent may not save profiles"), "{answer}");
    assert!(!world.home().join("profiles/fake.yaml").exists());
}
