//! A prompt that waits for a person: what every command says of it.

#![allow(clippy::unwrap_used)]

#[path = "hooks/stage.rs"]
mod stage;

use serde_json::{Value, json};
use stage::{PROFILE, Stage};

/// A program that asks as Claude Code does.
fn asking() -> Stage {
    let screen = "screen:\n  - state: waiting\n    any: ['❯ 1\\. Yes']";
    let frame = "approve: { allow: '1', deny: escape, frame: { top: rule, title: '^ \\S' } }";
    Stage::with(&format!("{}{frame}\n", PROFILE.replace("screen:", screen)), &[])
}

impl Stage {
    /// Tells by its hook and shows on its screen that it wants to run this; the registry's word on it.
    fn wants_to_run(&mut self, command: &str) -> Value {
        self.hook("PermissionRequest", &json!({ "tool_name": "Bash", "tool_input": { "command": command } }));
        self.shows(command)
    }

    fn shows(&mut self, command: &str) -> Value {
        let rule = "─".repeat(120);
        self.order(&json!(["show", format!(
            "some talk\n{rule}\n Bash command\n {command}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel"
        )]));
        self.world.wait_for("the prompt is in the registry", || {
            let pending = self.world.entry("cli")?["pending"].clone();
            pending["asks"].as_str().is_some_and(|asks| asks.contains(command)).then_some(pending)
        })
    }
}

/// Finding 3: `send` and `explain` advised a message, which presses nothing and is typed later as a new turn.
#[test]
fn every_command_names_the_question_and_the_exact_decision() {
    let mut stage = asking();
    let pending = stage.wants_to_run("touch notes.txt");
    let hash = pending["prompt"].as_str().unwrap().to_owned();
    assert_eq!(pending["asks_all"], true, "{pending}");
    let decide = format!("synapse approve cli --prompt {hash}   or   synapse deny cli --prompt {hash}");
    for words in [&["list"][..], &["list", "--all"], &["inbox"], &["inbox", "cli"], &["explain", "cli"]] {
        let told = stage.world.ok(words);
        assert!(told.contains("asks to run: touch notes.txt"), "{words:?}: {told}");
        assert!(told.contains(&decide) && !told.contains("--task"), "{words:?}: {told}");
        assert!(!told.contains("Esc to cancel") && !told.contains("────"), "only the question: {told}");
    }
    assert!(stage.world.ok(&["status", "cli"]).contains("asks to run: touch notes.txt"));
    assert!(stage.world.ok(&["list", "--plain"]).contains("\tasks to run: touch notes.txt\t"));
    let row = stage.world.json(&["list"])[0].clone();
    assert_eq!(row["asks"], "asks to run: touch notes.txt", "{row}");
    assert_eq!((&row["prompt"], &row["state"]), (&json!(hash), &json!("waiting")), "{row}");
    assert_eq!(row["approve"], format!("synapse approve cli --prompt {hash}"), "{row}");
    assert!(row["why"].as_str().unwrap().contains("PermissionRequest"), "the field keeps its meaning: {row}");
    let explained = stage.world.json(&["explain", "cli"]);
    assert_eq!((&explained["code"], &explained["asks"]), (&json!("approval"), &row["asks"]), "{explained}");
    assert_eq!(explained["deny"], format!("synapse deny cli --prompt {hash}"));
    assert_eq!(stage.world.agent("cli").get("/status").json()["asks"], row["asks"]);
    // It is over once it is decided.
    let mut denying = stage.world.program(&["deny", "cli", "--prompt", &hash]);
    stage.world.wait_until("it is denied", || stage.world.read("keys").ends_with('\u{1b}'));
    stage.hook("PostToolUse", &json!({ "tool_name": "Bash" }));
    stage.order(&json!(["show", "> ready"]));
    assert!(denying.wait().success());
    stage.world.wait_until("nothing is pending", || stage.world.entry("cli").unwrap()["pending"].is_null());
    assert!(!stage.world.ok(&["inbox"]).contains("asks to run"));
}

/// Without a hook the line is from the screen, which a model can shape. Then `approve` shows all of it first.
#[test]
fn summary_from_the_screen_is_not_approved_unread() {
    let mut stage = asking();
    let pending = stage.shows("touch notes.txt");
    assert_eq!(
        (&pending["asks"], &pending["asks_all"]),
        (&json!("asks to run: touch notes.txt"), &json!(false))
    );
    let hash = pending["prompt"].as_str().unwrap().to_owned();
    for words in ["list", "inbox"] {
        let told = stage.world.ok(&[words]);
        assert!(
            told.contains(&format!("synapse approve cli   or   synapse deny cli --prompt {hash}")),
            "{told}"
        );
    }
    // The page has all of the question.
    let page = stage.world.ok(&["explain", "cli"]);
    assert!(page.contains(&format!("synapse approve cli --prompt {hash}")), "{page}");
}
