//! Findings H4 and M10: what an approver sees, and which approvals are refused. Uses the real
//! binary and a program that draws questions and calls hooks as Claude Code does.

use crate::stage;
use serde_json::{Value, json};
use stage::{PROFILE, Stage};

/// A profile that frames questions as Claude Code does.
fn deciding() -> String {
    let screen = "screen:\n  - state: waiting\n    any: ['❯ 1\\. Yes']";
    let frame = "approve: { allow: '1', deny: escape, frame: { top: rule, title: '^ \\S' } }";
    format!("{}{frame}\n", PROFILE.replace("screen:", screen))
}

/// A screen of 120 columns with some text and, below it, a question about a command.
fn asks(command: &str) -> String {
    let rule = "─".repeat(120);
    let command = command.replace('\n', "\n ");
    format!(
        "some talk\n{rule}\n Bash command\n {command}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel"
    )
}

impl Stage {
    /// Draws a question and waits until the node sees it with this part in it.
    fn ask(&mut self, command: &str, part: &str) -> Value {
        self.order(&json!(["show", asks(command)]));
        self.world.wait_for("the question is seen", || {
            let approvals = self.world.json(&["inbox", "--approvals"]);
            let prompt = approvals["approvals"][0]["prompt"].clone();
            prompt["text"].as_str().is_some_and(|text| text.contains(part)).then_some(prompt)
        })
    }

    fn keys(&self) -> String {
        std::fs::read_to_string(self.world.file("keys")).unwrap_or_default()
    }

    /// Approves by hash. Once the key has arrived, the program removes the question.
    fn approve(&mut self, prompt: &Value) {
        let hash = prompt["hash"].as_str().unwrap();
        let mut approving = self.world.program(&["approve", "cli", "--prompt", hash]);
        let keys = self.keys();
        self.world.wait_until("the key has come", || self.keys() == format!("{keys}1"));
        self.order(&json!(["show", "> working"]));
        assert!(approving.wait().success());
    }

    fn is_not_approved(&self, prompt: &Value, why: &str) {
        let hash = prompt["hash"].as_str().unwrap();
        assert_eq!(prompt["complete"], false, "{prompt}");
        self.world.synapse(&["approve", "cli", "--prompt", hash]).fails(2, &[why]);
    }
}

/// Finding H4: a line of `─` in a command hid the lines above it, so commands that differed only
/// there had the same hash.
#[test]
fn a_line_in_a_command_hides_nothing() {
    let mut stage = Stage::with(&deciding(), &[]);
    let line = "─".repeat(119);
    let evil = stage.ask(&format!("rm -rf /\n{line}\necho hi"), "rm -rf /");
    let mild = stage.ask(&format!("rm -rf .\n{line}\necho hi"), "rm -rf .");
    assert_eq!((&evil["complete"], &mild["complete"]), (&json!(true), &json!(true)), "{evil}");
    assert!(!mild["text"].as_str().unwrap().contains("some talk"), "{mild}");
    assert_ne!(evil["hash"], mild["hash"]);
    let hash = evil["hash"].as_str().unwrap();
    stage.world.synapse(&["approve", "cli", "--prompt", hash]).fails(2, &["something else"]);
    assert_eq!(stage.keys(), "");
    stage.approve(&mild);
}

/// Finding H4: of a long command only the end was shown, without a mark. Now it can be denied but
/// not approved.
#[test]
fn a_question_whose_beginning_is_not_visible_is_not_approved() {
    let mut stage = Stage::with(&deciding(), &[]);
    let rest = (0..60).map(|n| format!("echo a harmless line, number {n}\n")).collect::<String>();
    let prompt = stage.ask(&format!("rm -rf /\n{rest}"), "number 59");
    let before = prompt;
    let prompt = stage.ask(&format!("true\n{rest}"), "\n true\n");
    assert_ne!(prompt["hash"], before["hash"], "what left the screen counts too");
    stage.is_not_approved(&before, "something else");
    stage.is_not_approved(&prompt, "the beginning is not visible");
    assert!(stage.world.ok(&["inbox", "--approvals"]).contains("the beginning is not visible"));
    assert!(stage.world.ok(&["explain", "cli"]).contains("the beginning is not visible"));
    assert_eq!(stage.keys(), "");
    let mut denying = stage.world.program(&["deny", "cli", "--prompt", prompt["hash"].as_str().unwrap()]);
    stage.world.wait_until("it is denied", || stage.keys() == "\u{1b}");
    stage.order(&json!(["show", "> ready"]));
    assert!(denying.wait().success());
}

/// Finding H4: a hook reports commands that the screen cannot hold. Its report must match the
/// visible part.
#[test]
fn a_hook_tells_the_command_and_the_screen_has_to_agree() {
    let mut stage = Stage::with(&deciding(), &[]);
    let rest = (0..60).map(|n| format!("echo a harmless line, number {n}\n")).collect::<String>();
    let command = format!("rm -rf /\n{rest}");
    let permission = |command: &str| json!({ "tool_name": "Bash", "tool_input": { "command": command } });
    stage.hook("PermissionRequest", &permission(&command));
    let prompt = stage.ask(&command, "number 59");
    assert_eq!((&prompt["complete"], &prompt["source"]), (&json!(true), &json!("hook")), "{prompt}");
    assert_eq!(prompt["command"], command);
    for words in [&["inbox", "--approvals"][..], &["explain", "cli"]] {
        assert!(stage.world.ok(words).contains("rm -rf /"), "{words:?}");
    }
    // A tool reports another command with the same end, so it is unknown which one is asked about.
    stage.hook("PermissionRequest", &permission(&format!("true\n{rest}")));
    let both = stage.ask(&command, "number 59");
    stage.is_not_approved(&both, "different commands");
    stage.hook("PostToolUse", &json!({ "tool_name": "Bash" }));
    stage.order(&json!(["show", "> working"]));
    stage.becomes("busy");
    // The hook reports another command than the screen shows.
    stage.hook("PermissionRequest", &permission("rm -rf /"));
    let other = stage.ask("ls", " ls");
    stage.is_not_approved(&other, "something else than its program tells");
    assert_eq!(other["command"], "rm -rf /");
    assert_eq!(stage.keys(), "");
    stage.hook("PermissionRequest", &permission("ls"));
    let told = stage.world.wait_for("the right one is told", || {
        let prompt = stage.view()["prompt"].clone();
        (prompt["complete"] == true).then_some(prompt)
    });
    assert_eq!(told["command"], "ls");
    stage.approve(&told);
}

/// Finding H4: only requests that fit the visible part were considered. A description that quotes
/// another open request could therefore pass that one off as the command.
#[test]
fn another_open_request_makes_the_command_ambiguous() {
    let mut stage = Stage::with(&deciding(), &[]);
    let permission = |command: &str| json!({ "tool_name": "Bash", "tool_input": { "command": command } });
    let harmless = (0..60).map(|n| format!("echo a harmless line, number {n}\n")).collect::<String>();
    stage.hook("PermissionRequest", &permission(&harmless));
    stage.hook("PermissionRequest", &permission("rm -rf ~ ; true"));
    let hidden = stage.ask(&format!("rm -rf ~ ; true\n{harmless}"), "number 59");
    stage.is_not_approved(&hidden, "different commands");
    stage.hook("PostToolUse", &json!({ "tool_name": "Bash" }));
    stage.order(&json!(["show", "> working"]));
    stage.becomes("busy");
    let quoted = "echo a perfectly harmless command that is long";
    stage.hook("PermissionRequest", &permission(quoted));
    stage.hook("PermissionRequest", &permission("rm -rf ~"));
    let visible = stage.ask(&format!("rm -rf ~\n{quoted}"), quoted);
    stage.is_not_approved(&visible, "different commands");
    assert_eq!(stage.keys(), "");
}

/// Finding H4: a tool that reports many requests cannot displace the true one. After such a flood
/// the hooks are ignored.
#[test]
fn flood_of_requests_does_not_replace_the_command() {
    let mut stage = Stage::with(&deciding(), &[]);
    let rest = (0..60).map(|n| format!("echo a harmless line, number {n}\n")).collect::<String>();
    let permission = |command: &str| json!({ "tool_name": "Bash", "tool_input": { "command": command } });
    let command = format!("rm -rf /\n{rest}");
    stage.hook("PermissionRequest", &permission(&command));
    stage.ask(&command, "number 59");
    for n in 0..15 {
        stage.hook("PermissionRequest", &permission(&format!("filler {n}")));
    }
    stage.hook("PermissionRequest", &permission(&format!("true\n{rest}")));
    let prompt = stage.world.wait_for("the hooks are not believed", || {
        let prompt = stage.view()["prompt"].clone();
        (prompt["source"] != "hook").then_some(prompt)
    });
    stage.is_not_approved(&prompt, "the beginning is not visible");
    assert_eq!(stage.keys(), "");
}

/// Finding M10: another process of this user draws an idle screen over a question. That does not
/// end the state that a hook reported.
#[test]
fn a_drawn_idle_screen_does_not_end_what_a_hook_asked() {
    let mut stage = Stage::with(&deciding(), &[]);
    stage.hook("PermissionRequest", &json!({ "tool_name": "Bash", "tool_input": { "command": "ls" } }));
    stage.ask("ls", " ls");
    stage.screen_says("waiting");
    stage.order(&json!(["show", "\u{1b}]0;ready\u{7}\u{1b}]7501;state=idle\u{1b}\\> ready"]));
    stage.screen_says("idle");
    assert_eq!(stage.decided().0, "waiting");
    stage.hook("Stop", &json!({}));
    assert_eq!(stage.decided().0, "idle");
}
