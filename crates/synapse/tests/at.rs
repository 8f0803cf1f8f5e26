//! PTY-11: `@agent …` typed by a person at the empty composer of a program goes to that agent, and the program sees none of it.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use synapse_testkit::World;
use synapse_testkit::cli::Cli;
use synapse_testkit::pty::Pty;

/// A program with a composer, a command that shouts, and a person at the program.
fn check(settings: &str, story: impl FnOnce(&World, &Cli<'_>, &mut Pty)) {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    world.run("shout", "tr a-z A-Z", &[]);
    let cli = Cli::start(&world, "a", &["turn=50"]);
    world.write(".synapse/settings.json", settings);
    let mut person = Pty::start(&world.command(&["attach", "a"]), 100, 30);
    person.wait_for("ready");
    story(&world, &cli, &mut person);
}

/// Waits until an `@` is kept back, and types on behind it. Before the viewer was told that the composer is empty it
/// is the program's, and is taken away there again.
fn at(world: &World, person: &mut Pty, keys: &str) {
    world.wait_until("an @ is kept back", || {
        person.forget();
        person.keys("@");
        let kept = world.wait_for("the @ is somewhere", || {
            let shown = person.text();
            (shown.contains("@▏") || shown.contains("> @")).then(|| shown.contains("@▏"))
        });
        if !kept {
            person.forget();
            person.keys("\u{7f}");
            person.wait_for("> ");
        }
        kept
    });
    person.keys(keys);
}

/// What the command was sent, once that is so many.
fn sent(world: &World, count: usize) -> Vec<Value> {
    world.wait_for(&format!("{count} messages"), || {
        let history = world.json(&["history", "shout"]);
        let all = history["messages"].as_array().unwrap_or_else(|| panic!("{history:#}")).clone();
        (all.len() >= count).then_some(all)
    })
}

#[test]
fn a_line_for_an_agent_goes_to_it_and_the_program_sees_nothing() {
    check("{}", |world, cli, person| {
        at(world, person, "SHOUT hello\r");
        person.wait_for("stored for shout, task ");
        let all = sent(world, 1);
        assert_eq!(all[0].to_string(), "");
        // What comes next is the program's, and all it ever got.
        person.keys("for the program\r");
        assert_eq!(cli.was_given(1), ["for the program"]);
        assert_eq!(cli.log().len(), 1, "{:?}", cli.log());
    });
}
