//! `synapse send-keys`: named keys reach a program as bytes, only from its user, and never in the
//! middle of a message.

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::cli::Cli;
use synapse_testkit::pty::Pty;

/// All keys that it read, in order.
fn typed(cli: &Cli<'_>) -> String {
    cli.all("keys").iter().filter_map(Value::as_str).collect()
}

#[test]
fn names_are_keys_and_anything_else_is_text() {
    let world = world();
    let cli = Cli::start(&world, "a", &["keys=1"]);
    let told = world.json(&["send-keys", "a", "hi", "Space", "you", "Left", "Enter"]);
    assert_eq!(
        told["pressed"],
        json!(["text(2 characters)", "Space", "text(3 characters)", "Left", "Enter"])
    );
    assert_eq!(told["agent_id"], world.agent("a").id.as_str());
    assert_eq!(cli.was_given(1), ["hi you"]);
    assert_eq!(typed(&cli), "hi you\u{1b}[D\r");
    // Each key was written separately.
    assert!(cli.all("keys").len() >= 5, "{:?}", cli.log());
    world.wait_until("it is idle", || world.ok(&["list"]).contains("idle"));
    world.ok(&["send-keys", "a", "-l", "--", "Enter", "-x"]);
    world.wait_until("the text is read", || typed(&cli).ends_with("Enter-x"));
    world.ok(&["send-keys", "a", "C-u", "M-f", "F5", "PageUp"]);
    world.wait_until("the keys are read", || typed(&cli).ends_with("\u{15}\u{1b}f\u{1b}[15~\u{1b}[5~"));
    for (keys, says) in [
        (&["C-Enter"][..], "no code"),
        (&["a\rb"], "control character"),
        (&[""], "nothing to press"),
        (&["a"; 33], "more than the 32"),
    ] {
        let words: Vec<&str> = ["send-keys", "a"].iter().chain(keys).copied().collect();
        world.synapse(&words).fails(2, &[says]);
    }
    assert!(cli.all("approved").is_empty() && cli.all("ctrl_c").is_empty(), "{:?}", cli.log());
}

#[test]
fn cursor_keys_are_told_in_the_mode_that_the_program_asked_for() {
    let world = world();
    let cli = Cli::start(&world, "a", &["keys=1", "cursor=1"]);
    world.ok(&["send-keys", "a", "Up", "Home", "C-Up", "Delete"]);
    world.wait_until("they are read", || typed(&cli) == "\u{1b}OA\u{1b}OH\u{1b}[1;5A\u{1b}[3~");
}

#[test]
fn a_prompt_can_be_answered_and_it_is_written_down_who_did() {
    let world = world();
    // Finding L15: even where the texts of messages are logged, keys are not.
    world.ok(&["config", "set", "audit.bodies", "true"]);
    let cli = Cli::start(&world, "a", &[]);
    world.send("a", "ASK me", &[]);
    let hash = cli.prompt();
    world.ok(&["send-keys", "a", "y"]);
    world.wait_until("it is approved", || cli.all("approved") == [1]);
    world.synapse(&["approve", "a", "--prompt", &hash]).fails(2, &["or for nothing"]);
    world.wait_until("it is idle", || world.ok(&["list"]).contains("idle"));
    world.ok(&["send-keys", "a", "hunter2", "C-u"]);
    let line = world.wait_for("it is written down", || {
        let lines = world.ok(&["audit", "a", "--verb", "keys", "--json"]);
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.into_iter().nth(1)
    });
    assert_eq!((&line["who"], &line["status"]), (&json!("user"), &json!(200)), "{line}");
    assert_eq!(line["note"], "text(7 characters) C-u");
    assert!(!line.to_string().contains("hunter2"), "{line}");
    assert!(line["body"].is_null() && line["digest"].is_null() && line["bytes"].is_u64(), "L15: {line}");
    world.synapse(&["send-keys", "a", "hunter2\u{7}"]).exits(2);
    let dir = world.agent_dir(&world.agent("a").id).join("audit");
    let log = || -> String {
        let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
    };
    world.wait_until("the refusal is written down", || log().matches("\"verb\":\"keys\"").count() >= 3);
    assert!(log().contains("ASK me") && !log().contains("hunter2"), "{}", log());
    assert!(line["code"].is_null(), "what went well is no refusal: {line}");
}

/// X-10: a key can approve anything, so no agent may press one, whatever its role.
#[test]
fn an_agent_cannot_press_keys_not_even_in_its_own_terminal() {
    let world = world();
    let cli = Cli::start(&world, "a", &["keys=1"]);
    let exe = world.exe().display().to_string();
    world.run("helper", &format!("{exe} send-keys a y Enter 2>&1; echo exit $?"), &["--role", "Coordinator"]);
    let said = world.ok(&["send", "helper", "go", "--response", "--timeout", "60s"]);
    assert!(said.contains("exit 5") && said.contains("may not press keys"), "{said}");
    assert!(said.contains("a process that no agent started"), "{said}");
    // With the user's token, but over TCP.
    let agent = world.agent("a");
    let body = json!({ "keys": ["y"] }).to_string();
    let bearer = agent.bearer();
    let answer = agent.tcp().ask("POST", "/api/v1/keys", &[("Authorization", &bearer)], body.as_bytes());
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(typed(&cli), "");
    world.wait_until("both refusals are written down", || {
        let refused = world.ok(&["audit", "a", "--refused", "--verb", "keys"]);
        refused.contains("helper") && refused.contains("user")
    });
}

/// A key that ends the program counts as pressed. The keys after it do not.
#[test]
fn keys_that_end_the_program_are_told_as_they_were() {
    let world = world();
    let cli = Cli::start(&world, "a", &[]);
    assert!(world.ok(&["send-keys", "a", "C-c"]).contains("pressed C-c"));
    assert_eq!(cli.all("ctrl_c").len(), 1);
    world.wait_until("it has ended", || world.entry("a").is_none());
    let cli = Cli::start(&world, "b", &[]);
    let more = [&["send-keys", "b", "C-c"][..], &["x"; 25]].concat();
    world.synapse(&more).fails(5, &["only C-c", "its program has ended"]);
    assert_eq!(cli.all("ctrl_c").len(), 1);
}

#[test]
fn who_has_no_terminal_or_does_not_run_gets_the_reason() {
    let world = world();
    world.run("plain", "cat", &[]);
    world.synapse(&["send-keys", "plain", "Enter"]).fails(2, &["it has no terminal"]);
    world.ok(&["kill", "plain"]);
    world.synapse(&["send-keys", "plain", "Enter"]).fails(5, &["plain is not running"]);
    world.synapse(&["send-keys", "nobody", "Enter"]).fails(5, &["no agent is called"]);
    world.synapse(&["send-keys", "plain"]).fails(2, &["KEY"]);
}

/// Keys do not come between a paste and its Enter. With --wait they come after it.
#[test]
fn while_a_message_is_typed_keys_are_refused_or_wait() {
    let world = world();
    // The pasted text is shown late, so that typing it takes a while.
    let cli = Cli::start(&world, "a", &["keys=1", "echo=4000", "turn=50"]);
    world.send("a", "from afar", &[]);
    world.wait_until("it is being typed", || typed(&cli).contains("from afar"));
    world
        .synapse(&["send-keys", "a", "x"])
        .fails(5, &["nothing was pressed", "a message is being typed into it", "--wait"]);
    world.ok(&["send-keys", "a", "z", "--wait"]);
    let given = cli.was_given(1);
    assert!(given[0].ends_with("from afar\n"), "{given:?}");
    assert!(typed(&cli).ends_with("\rz"), "after Enter, and not before: {:?}", typed(&cli));
    assert!(!typed(&cli).contains('x'));
}

/// A person who types meanwhile loses nothing: their keys follow ours.
#[test]
fn the_keys_of_a_person_are_kept_meanwhile() {
    let world = world();
    let cli = Cli::start(&world, "a", &["keys=1"]);
    let mut person = Pty::start(&world.command(&["attach", "a"]), 100, 30);
    person.wait_for("ready");
    let mut pressing = world.program(&["send-keys", "a", "one", "two", "three", "four"]);
    world.wait_until("the first is pressed", || typed(&cli).contains("one"));
    person.keys("!");
    assert!(pressing.wait().success());
    world.wait_until("all of it is there", || {
        let typed = typed(&cli);
        typed.contains("four") && typed.contains('!')
    });
    assert_eq!(typed(&cli), "onetwothreefour!");
}
