//! CLI-11: while `send --response` waits, a person at a terminal sees why. Ctrl-C says what
//! remains.

use crate::world;
use synapse_testkit::World;
use synapse_testkit::cli::Cli;
use synapse_testkit::pty::Pty;

/// Runs `synapse send … --response` in its own terminal.
fn asking(world: &World, text: &str) -> Pty {
    Pty::start(&world.command(&["send", "a", text, "--response"]), 200, 30)
}

/// The id of the task that a terminal shows.
fn task_of(shown: &str) -> String {
    let at =
        shown.find("stored for a, task ").unwrap_or_else(|| panic!("{shown}")) + "stored for a, task ".len();
    shown[at..at + 8].to_owned()
}

#[test]
fn draft_is_named_and_ctrl_c_leaves_the_message_in_the_mailbox() {
    let world = world();
    let cli = Cli::start(&world, "a", &[]);
    let mut person = Pty::start(&world.command(&["attach", "a"]), 100, 30);
    person.wait_for("ready");
    person.keys("my draft");
    person.wait_for("> my draft");
    let mut asking = asking(&world, "from afar");
    asking.wait_for("a takes no message now: its person has a draft in the composer");
    asking.keys("\u{3}");
    asking.wait_for("the message stays in the mailbox of a; `synapse cancel ");
    let (status, shown) = asking.end();
    assert_eq!(status.code(), Some(130), "{shown}");
    let lines = shown.lines().filter(|line| line.contains("has a draft")).count();
    assert_eq!(lines, 1, "the same reason is told once: {shown}");

    let task = task_of(&shown);
    assert!(world.ok(&["inbox", "a"]).contains(&task));
    world.ok(&["cancel", &task]);
    person.keys("\u{15}");
    world.wait_until("the composer is free", || world.json(&["inbox", "a"])["waiting"] == 0);
    assert_eq!(cli.given(), [] as [String; 0], "it was withdrawn");
}

#[test]
fn prompt_is_named_with_its_commands() {
    let world = world();
    let cli = Cli::start(&world, "a", &[]);
    world.send("a", "ASK me", &[]);
    let hash = cli.prompt();
    let asking = asking(&world, "and then this");
    asking.wait_for("it is next in the mailbox, and a asks");
    asking.wait_for(&format!("synapse deny a --prompt {hash}"));
    world.ok(&["approve", "a", "--prompt", &hash]);
    let (status, shown) = asking.end();
    assert!(status.success(), "{shown}");
}

#[test]
fn work_is_named_and_ctrl_c_says_that_it_goes_on() {
    let world = world();
    let cli = Cli::start(&world, "a", &[]);
    let mut asking = asking(&world, "LONG work");
    asking.wait_for("a has worked on task ");
    cli.was_given(1);
    asking.keys("\u{3}");
    asking.wait_for("a goes on with task ");
    let (status, shown) = asking.end();
    assert_eq!(status.code(), Some(130), "{shown}");
    let task = task_of(&shown);
    assert_eq!(world.agent("a").task(&task)["state"], "working");
    assert!(cli.all("interrupted").is_empty(), "{:?}", cli.log());
    world.ok(&["cancel", &task]);
    world.wait_until("it is stopped", || !cli.all("interrupted").is_empty());
}

/// An agent that waits reads both streams, so reasons would become part of its tool's output.
#[test]
fn program_that_waits_reads_only_the_answer() {
    let world = world();
    let cli = Cli::start(&world, "a", &["turn=4000"]);
    let ran = world.synapse(&["send", "a", "hello", "--response"]).ok();
    assert!(ran.out().contains("* done with it"), "{ran}");
    assert_eq!(ran.stderr, "");
    assert_eq!(cli.given().len(), 1);
}
