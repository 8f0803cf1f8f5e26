//! A terminal agent's answer to a one-way message is in the history, although its task ended
//! before.

use crate::world;
use serde_json::Value;
use synapse_testkit::World;
use synapse_testkit::cli::Cli;
use synapse_testkit::pty::Pty;

/// The state and answer of each message in the history with these words, oldest first.
fn outcomes(world: &World, words: &str) -> Vec<(String, String)> {
    let history = world.json(&["history", "a"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let fits = |one: &&Value| text(&one["text"]).contains(words);
    let told = |one: &Value| (text(&one["outcome"]["state"]), text(&one["outcome"]["answer"]["text"]));
    history.as_array().unwrap().iter().filter(fits).map(told).collect()
}

/// Waits for the answer to the message with these words, and returns it without the line above the
/// composer.
fn answered(world: &World, words: &str) -> String {
    let answer = world.wait_for(&format!("the answer to {words:?} is in the history"), || {
        let found = outcomes(world, words);
        let (state, answer) = found.first().cloned()?;
        (state == "completed" && !answer.is_empty()).then_some(answer)
    });
    answer.trim_end_matches(['\n', '─']).to_owned()
}

#[test]
fn answer_to_a_one_way_message_is_in_the_history() {
    let world = world();
    let _cli = Cli::start(&world, "a", &[]);
    let task = world.send("a", "say something", &[]);
    assert_eq!(answered(&world, "say something"), "* done with it");
    let shown = world.ok(&["history", "show", &task]);
    assert!(shown.contains("↳ * done with it"), "{shown}");
    let table = world.ok(&["history", "a"]);
    assert!(table.contains("↳ * done with it"), "{table}");
    let found = world.ok(&["history", "search", "done with"]);
    assert!(found.contains("* done with it"), "{found}");
    // The task is unchanged: it ended without a result when the message was submitted.
    let view = world.agent("a").task(&task);
    assert_eq!((&view["state"], &view["answer"]), (&"completed".into(), &Value::Null), "{view}");
    // A journal with such an answer can be opened again.
    world.kill_node("a");
    world.wait_until("its next node answers", || world.synapse(&["status", "a"]).code == Some(0));
    assert_eq!(answered(&world, "say something"), "* done with it");
}

#[test]
fn answer_is_kept_by_the_next_node_if_the_turn_still_runs() {
    let world = world();
    let cli = Cli::start(&world, "a", &["turn=4000"]);
    world.send("a", "say something", &[]);
    cli.was_given(1);
    world.wait_until("it works", || world.ok(&["list"]).contains("busy"));
    world.kill_node("a");
    assert_eq!(answered(&world, "say something"), "* done with it");
}

/// The next message does not wait for the previous answer, and does not become part of it.
#[test]
fn each_of_several_messages_has_its_own_answer() {
    let world = world();
    let cli = Cli::start(&world, "a", &["turn=200"]);
    for n in 1..=3 {
        world.send("a", &format!("number {n}"), &[]);
    }
    cli.was_given(3);
    for n in 1..=3 {
        assert_eq!(answered(&world, &format!("number {n}")), "* done with it");
    }
}

#[test]
fn turn_of_a_person_is_not_part_of_the_answer() {
    let world = world();
    let cli = Cli::start(&world, "a", &["turn=200"]);
    let mut person = Pty::start(&world.command(&["attach", "a"]), 100, 30);
    person.wait_for("ready");
    world.send("a", "from afar", &[]);
    cli.was_given(1);
    person.wait_for("* done with it");
    world.wait_until("its turn is over", || world.ok(&["list"]).contains("idle"));
    person.keys("my own question\r");
    cli.was_given(2);
    assert_eq!(answered(&world, "from afar"), "* done with it");
}

#[test]
fn turn_that_was_stopped_has_no_answer() {
    let world = world();
    let cli = Cli::start(&world, "a", &[]);
    world.send("a", "LONG work", &[]);
    cli.was_given(1);
    world.wait_until("it works", || world.ok(&["list"]).contains("busy"));
    world.send("a", "the next", &["--priority", "5"]);
    world.wait_until("it is stopped", || !cli.all("interrupted").is_empty());
    assert_eq!(answered(&world, "the next"), "* done with it");
    assert_eq!(outcomes(&world, "LONG work"), [("completed".into(), String::new())]);
}
