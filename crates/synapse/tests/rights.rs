//! Rights, secrets and addresses in the user's settings, with the real binary (REST-4, REST-5,
//! REST-6).

use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use synapse_testkit::http::Answer;
use synapse_testkit::{Agent, World};

const SECRET: &str = "of-the-builder-0123456789";

fn stage(settings: &Value) -> (World, Agent) {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    std::fs::create_dir_all(world.home()).unwrap();
    std::fs::set_permissions(world.home(), PermissionsExt::from_mode(0o700)).unwrap();
    set(&world, settings);
    let shout = world.run("shout", "tr a-z A-Z", &[]);
    (world, shout)
}

fn set(world: &World, settings: &Value) {
    private(&world.home().join("settings.json"), &settings.to_string());
}

fn private(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

fn ask(agent: &Agent, secret: &str, method: &str, path: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {secret}");
    agent.tcp().ask(method, path, &[("Authorization", &bearer)], body.to_string().as_bytes())
}

fn say(agent: &Agent, secret: &str) -> Answer {
    ask(agent, secret, "POST", "/message", &json!({ "message": "hi" }))
}

/// REST-4 and REST-5: a secret has the rights of its role, and changes apply while the node runs.
#[test]
fn a_role_may_what_its_row_says_and_rows_change_without_a_restart() {
    let file =
        |rights: Value| json!({ "rights": rights, "secrets": { "ci": { "file": "ci", "role": "Builder" } } });
    let (world, shout) = stage(&file(json!({})));
    private(&world.home().join("ci"), SECRET);
    let sent = say(&shout, SECRET);
    assert_eq!(sent.status, 200, "{}", sent.text());
    let task = sent.json()["task_id"].as_str().unwrap().to_owned();
    let shown = shout.task(&task);
    assert_eq!(
        (&shown["requester"]["label"], &shown["requester"]["proof"]),
        (&json!("ci"), &json!("secret"))
    );
    let stop = ask(&shout, SECRET, "POST", "/api/v1/stop", &json!({}));
    assert_eq!((stop.status, stop.code().as_str()), (403, "not_allowed"), "{}", stop.text());

    set(&world, &file(json!({ "builder": ["read"] })));
    world.wait_until("the new row holds", || say(&shout, SECRET).status == 403);
    let refused = say(&shout, SECRET);
    assert!(refused.text().contains("ci (role Builder) may not send messages"), "{}", refused.text());
    assert_eq!(ask(&shout, SECRET, "GET", "/api/v1/tasks", &json!({})).status, 200);
    assert_eq!(say(&shout, &world.token()).status, 200, "the user may do all");
    // Relaying through this node to another does not circumvent the rights.
    world.run("other", "cat", &[]);
    let relayed = ask(&shout, SECRET, "POST", "/message", &json!({ "message": "hi", "target": "other" }));
    assert_eq!(relayed.status, 403, "{}", relayed.text());

    private(&world.home().join("ci"), "another-one-0123456789");
    world.wait_until("the old secret is out", || {
        ask(&shout, SECRET, "GET", "/status", &json!({})).status == 401
    });
    assert_eq!(ask(&shout, "another-one-0123456789", "GET", "/api/v1/tasks", &json!({})).status, 200);
}

/// REST-6: a caller from an unlisted address is refused before the body is read. The Unix socket
/// has no address.
#[test]
fn an_address_that_is_not_listed_may_not_call() {
    let (world, shout) = stage(&json!({ "network": { "allow": ["127.0.0.0/8", "::1"] } }));
    let right = world.token();
    assert_eq!(say(&shout, &right).status, 200);
    set(&world, &json!({ "network": { "allow": ["192.0.2.0/24"] } }));
    world.wait_until("the list holds", || say(&shout, &right).status == 403);
    let bearer = format!("Bearer {right}");
    let mut connection = shout.tcp().connect();
    let head = [("Authorization", bearer.as_str()), ("Content-Length", "1000")];
    connection.say(&shout.tcp().head("POST", "/message", &head, None));
    let answer = connection.answer();
    assert_eq!((answer.status, answer.code().as_str()), (403, "address_refused"), "{}", answer.text());
    assert!(connection.is_closed(), "and nobody waited for the body");
    assert_eq!(shout.tcp().ask("GET", "/status", &[], b"").status, 403, "not even the status");
    assert_eq!(world.ok(&["send", "shout", "hi", "--response"]), "HI");
    assert!(shout.get("/metrics").text().contains("synapse_unproven_total{why=\"address\"} "));
}

/// A secret in a variable is not passed to the agent's commands.
#[test]
fn a_secret_in_a_variable_is_not_in_the_environment_of_commands() {
    let settings = json!({ "secrets": { "ci": { "env": "CI_SECRET", "role": "Builder" } } });
    let (world, _) = stage(&settings);
    let mut start =
        world.command(&["run", "--detach", "--name", "look", "--exec", "env; cat /proc/$PPID/environ"]);
    assert!(start.env("CI_SECRET", SECRET).status().unwrap().success());
    let look = world.agent("look");
    let sent = say(&look, SECRET);
    assert_eq!(sent.status, 200, "{}", sent.text());
    let seen = world.ok(&["send", "look", "x", "--response"]);
    assert!(seen.contains("SYNAPSE_TASK_ID") && !seen.contains(SECRET), "{seen}");
}
