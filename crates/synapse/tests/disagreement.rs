//! The screen rules of a profile contradict the program's hooks: `synapse doctor` reports it and
//! proposes a rule, and nothing changes by itself.

use crate::stage;
use serde_json::{Value, json};
use stage::{PROFILE, Stage};

/// A profile that counts 200 ms as a long disagreement.
fn profile() -> String {
    PROFILE.replace("idle_ms: 1 }", "idle_ms: 1, disagree_ms: 200 }")
}

/// The only finding about profiles, if any.
fn found(told: &Value) -> Option<Value> {
    let all = told["findings"].as_array().unwrap();
    let mut found = all.iter().filter(|finding| finding["area"] == "profiles");
    let first = found.next().cloned();
    assert!(found.next().is_none(), "{told}");
    first
}

#[test]
fn doctor_proposes_a_rule_where_hooks_and_screen_disagree() {
    let mut stage = Stage::with(&profile(), &[]);
    let file = stage.world.home().join("profiles/scripted.yaml");
    let before = std::fs::read_to_string(&file).unwrap();
    let doctor = |stage: &Stage| found(&stage.world.synapse(&["doctor", "--json"]).json());
    stage.world.wait_until("its version is known", || stage.view()["version"] == "9.9.9");
    assert_eq!(doctor(&stage), None);

    // A newer version shows differently that it works, and keeps its composer on the screen.
    stage.order(&json!(["show", "some talk\n⠋ Crunching (esc to stop)\n> ready"]));
    stage.world.wait_until("it is drawn", || stage.world.ok(&["screen", "cli"]).contains("Crunching"));
    stage.hook("UserPromptSubmit", &json!({ "prompt": "work" }));
    let finding = stage.world.wait_for("doctor says so", || doctor(&stage));
    let what = finding["what"].as_str().unwrap();
    for part in
        ["its hooks say busy (hook, UserPromptSubmit)", "the rule 'idle'", "says idle", "version 9.9.9"]
    {
        assert!(what.contains(part), "{part:?} is not in {what}");
    }
    assert_eq!((&finding["mark"], &finding["proposal"]["file"]), (&json!("warn"), &json!(file)), "{finding}");
    let rows = json!(["some talk", "⠋ Crunching (esc to stop)", "> ready"]);
    assert_eq!(finding["rows"], rows);
    let page = stage.world.synapse(&["doctor"]).out();
    for part in
        ["| ⠋ Crunching (esc to stop)", "- state: busy", "right above the rule 'idle'", "profile test"]
    {
        assert!(page.contains(part), "{part:?} is not in {page}");
    }
    // An agent that runs doctor does not get the screen.
    let asks = format!("{} doctor --json", stage.world.exe().display());
    let told = stage.order(&json!(["run", asks]));
    let told = found(&serde_json::from_str(told.as_str().unwrap()).unwrap()).unwrap();
    assert!(told["rows"].is_null() && told["proposal"].is_null() && told["what"].is_string(), "{told}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "nothing changes by itself");

    // With the proposed rule in the proposed place, screen and hooks agree and the finding is gone.
    let lines: Vec<&str> =
        finding["proposal"]["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let changed = before.replace("  - state: idle", &format!("{}\n  - state: idle", lines.join("\n")));
    assert_ne!(changed, before);
    std::fs::write(&file, changed).unwrap();
    stage.world.ok(&["profile", "check", &file.display().to_string()]);
    stage.screen_says("busy");
    stage.world.wait_until("the record is gone", || !stage.dir().join("disagreement.json").exists());
    assert_eq!(doctor(&stage), None);
}
