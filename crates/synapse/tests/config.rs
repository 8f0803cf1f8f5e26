//! `synapse config` and the effective settings, with the real binary in a fresh home.

use crate::world;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

/// CLI-7: a setting is set, shown, overridden by the project and unset, and `send` follows it.
#[test]
fn a_setting_from_its_making_to_its_end() {
    let world = world();
    let user = world.home().join("settings.json");
    let said = world.ok(&["config", "set", "a2a.flow", "oneway"]);
    assert_eq!(said.trim(), format!("a2a.flow is oneway ({})", user.display()));
    assert_eq!(user.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let shown = world.json(&["config", "show", "a2a.flow"]);
    assert_eq!(shown["value"], "oneway");
    assert_eq!(shown["origin"], json!({ "kind": "user", "file": user, "line": 3 }));

    world.run("shout", "tr a-z A-Z", &[]);
    let sent = world.synapse(&["send", "shout", "hi", "--response"]).ok();
    assert!(sent.stderr.contains(&format!("a2a.flow ({}): oneway", user.display())), "{}", sent.stderr);

    let project = world.folder().join(".synapse").join("settings.json");
    world.ok(&["config", "set", "a2a.flow", "roundtrip", "--project"]);
    assert_eq!(world.ok(&["send", "shout", "hi"]).trim(), "HI");
    let stays = world.synapse(&["config", "set", "a2a.flow", "auto"]).ok();
    let told = format!("a2a.flow stays roundtrip: {} has the last word", project.display());
    assert!(stays.stderr.contains(&told), "{}", stays.stderr);
    let mut overruled = world.command(&["send", "shout", "hi", "--response"]);
    let overruled = overruled.env("SYNAPSE_A2A_FLOW", "oneway").output().unwrap();
    assert!(String::from_utf8_lossy(&overruled.stderr).contains("a2a.flow (SYNAPSE_A2A_FLOW): oneway"));

    world.ok(&["config", "unset", "a2a.flow", "--project"]);
    let text = world.ok(&["config", "show"]);
    let row: Vec<&str> =
        text.lines().find(|line| line.starts_with("a2a.flow ")).unwrap().split_whitespace().collect();
    assert_eq!(row, ["a2a.flow", "auto", &format!("{}:3", user.display())]);
    let files = world.json(&["config", "path"]);
    assert_eq!(files["user"], json!({ "path": user, "exists": true }));
    let schema: Value = serde_json::from_str(&world.ok(&["config", "schema"])).unwrap();
    assert_eq!(
        schema["properties"]["a2a"]["properties"]["flow"]["enum"],
        json!(["roundtrip", "oneway", "auto"])
    );
}

/// Only the user's file may hold guarded settings, and a rejected change writes no file.
#[test]
fn refused_changes() {
    let world = world();
    let user = world.home().join("settings.json").display().to_string();
    world
        .synapse(&["config", "set", "network.listen", "::", "--project"])
        .fails(5, &["guards this machine", &user]);
    world
        .synapse(&["config", "set", "a2a.flow", "both"])
        .fails(2, &["roundtrip, oneway or auto", "nothing was changed"]);
    world.synapse(&["config", "set", "a2a.flwo", "auto"]).fails(2, &["did you mean a2a.flow?"]);
    world.synapse(&["config", "set", "rights.Lead", "approve"]).fails(2, &["only the user approves"]);
    world.synapse(&["config", "set", "history.days", "6"]).fails(2, &["from 7 to 3650"]);
    world.synapse(&["config", "set", "a2a.flow"]).fails(2, &[]);
    world
        .synapse(&["config", "set", "a2a.flow", "auto", "history.days"])
        .fails(2, &["history.days has no value"]);
    world
        .synapse(&["config", "unset", "colour"])
        .fails(2, &["colour is no setting", "`synapse config show`"]);
    let secret = world
        .synapse(&["config", "set", "secrets.ci", "hunter2"])
        .fails(2, &["chmod 600", "secrets.NAME.file"]);
    assert!(!secret.stderr.contains("hunter2"), "{}", secret.stderr);
    assert!(!world.home().join("settings.json").exists() && !world.folder().join(".synapse").exists());

    world.write("ci.secret", "x");
    world.ok(&["config", "set", "secrets.ci.file", "./ci.secret", "secrets.ci.role", "Lead"]);
    let shown = world.json(&["config", "show", "secrets.ci"]);
    assert_eq!(
        shown["settings"][0]["value"],
        json!(world.file("ci.secret")),
        "as seen from where it was typed"
    );
}

/// A cloned project cannot set guarded settings. Commands in it say so, with file and line.
#[test]
fn a_project_that_reaches_for_the_machine_is_told_on() {
    let world = world();
    std::fs::create_dir(world.file(".synapse")).unwrap();
    let file = world.write(".synapse/settings.json", "{\n  \"network\": { \"listen\": \"0.0.0.0\" }\n}\n");
    let place = format!("{}:2:3: network guards this machine", file.display());
    let shown = world.synapse(&["config", "show", "network"]).fails(2, &[&place]);
    assert!(
        shown.stdout.lines().any(|line| line.split_whitespace().eq([
            "network.listen",
            "not",
            "set",
            "default"
        ])),
        "it shows what holds all the same: {}",
        shown.stdout
    );
    world.synapse(&["send", "nobody", "hi"]).fails(2, &[&place]);
}

/// an agent cannot change the user's settings. A node starts and works whatever the files
/// contain.
#[test]
fn agents_may_not_and_nodes_go_on() {
    let world = world();
    world.ok(&["config", "set", "history.days", "60"]);
    let user = world.home().join("settings.json");
    std::fs::write(&user, "{ \"network\": ").unwrap();
    let exe = world.exe().display().to_string();
    world.run("busy", &format!("{exe} config set audit.enabled false 2>&1; true"), &[]);
    // The sender is told about the broken file.
    world.synapse(&["send", "busy", "go", "--response"]).fails(2, &["settings.json:1:14", "edit"]);
    std::fs::write(&user, "{}").unwrap();
    let answer = world.ok(&["send", "busy", "go", "--response"]);
    assert!(answer.contains("an agent may not change the user's settings"), "{answer}");
    assert_eq!(std::fs::read_to_string(&user).unwrap(), "{}");
    let log = std::fs::read_to_string(world.home().join("agents").join(world.agent("busy").id).join("log"))
        .unwrap();
    assert!(
        log.contains("a setting is left out") && log.contains("the network is closed to others"),
        "{log}"
    );
}
