//! X-12, finding 6: "stored" can be relied on. A message that the agent would refuse is refused at
//! once, and its sender is notified if a stored message is refused after all.

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::World;
use synapse_testkit::world::Agent;

const LEDGER: &str = "cat >> ledger; echo >> ledger";

/// An agent that was started once and is stopped now.
fn away(world: &World, exec: &str) -> Agent {
    let agent = world.run("away", exec, &[]);
    world.ok(&["kill", "away"]);
    agent
}

fn letters(world: &World, agent: &Agent) -> Vec<Value> {
    let new = world.agent_dir(&agent.id).join("spool/new");
    let files = std::fs::read_dir(new).into_iter().flatten().flatten();
    files.map(|file| serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap()).collect()
}

#[test]
fn message_over_the_limit_is_refused_for_an_agent_that_does_not_run() {
    let world = world();
    let agent = away(&world, "wc -c > size");
    let large = world.write("large.txt", &"a".repeat(3_000_000));
    let large = large.to_str().unwrap();
    let ran = world.synapse(&["send", "away", "--file", large]);
    ran.fails(5, &["the message has 3000023 bytes, more than the 1048576 allowed", "send the path"]);
    let ran = world.synapse(&["send", "away", "--file", large, "--json"]).exits(5);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["code"], "too_large", "{error}");
    assert_eq!(letters(&world, &agent).len(), 0);

    // A message of exactly the maximum size is stored and arrives whole.
    let whole = world.write("whole.txt", &"a".repeat((1 << 20) - 23));
    world.ok(&["send", "away", "--file", whole.to_str().unwrap()]);
    world.run("away", "wc -c > size", &[]);
    world.wait_until("it arrived", || world.read("size").trim() == "1048553");
    world.ok(&["kill", "away"]);

    // The user may raise the limit.
    world.ok(&["config", "set", "limits.message_bytes_max", "4000000"]);
    world.ok(&["send", "away", "--file", large]);
    world.run("away", "wc -c > size", &[]);
    world.wait_until("all of it arrived", || world.read("size").trim() == "3000000");
    // The same holds for a running agent: nothing is cut.
    std::fs::remove_file(world.file("size")).unwrap();
    world.ok(&["send", "away", "--file", large]);
    world.wait_until("all of it arrived again", || world.read("size").trim() == "3000000");
}

#[test]
fn sender_is_told_when_a_stored_message_is_refused_later() {
    let world = world();
    let agent = away(&world, LEDGER);
    for text in ["one", "two"] {
        let told = world.json(&["send", "away", text, "--message-id", "m-1"]);
        assert_eq!(told["status"], "spooled", "{told}");
    }
    assert_eq!(letters(&world, &agent).len(), 2);
    world.run("away", LEDGER, &[]);
    let note = world.wait_for("the user is told", || {
        let told = world.ok(&["inbox", "--peek", "--json"]);
        serde_json::from_str::<Value>(&told).ok().filter(Value::is_object)
    });
    let text = note["text"].as_str().unwrap();
    assert!(text.starts_with("not delivered to away: \"two\", because message id m-1 was already"), "{note}");
    assert_eq!((&note["from"]["label"], &note["from"]["proof"]), (&json!("away"), &json!("token")), "{note}");
    world.ok(&["send", "away", "the last one", "--response"]);
    assert_eq!(world.lines("ledger"), ["one", "the last one"]);
    assert_eq!(world.ok(&["inbox"]).lines().count(), 2, "a head and one note");
}

#[test]
fn agent_is_told_when_its_stored_message_is_refused_later() {
    let world = world();
    away(&world, LEDGER);
    // The agent sends two contents under one id while the receiver is stopped.
    let exec = format!(
        "for text in one two; do '{}' send away $text --message-id m-1 > /dev/null; done; echo sent",
        world.exe().display()
    );
    world.run("talker", &exec, &[]);
    assert_eq!(world.ok(&["send", "talker", "go", "--response"]), "sent");
    world.run("away", LEDGER, &[]);
    world.wait_until("the agent has a note", || {
        let page = world.json(&["inbox", "talker"]);
        let first = &page["messages"][0];
        first["priority"] == 2
            && first["text"].as_str().is_some_and(|text| text.contains("not delivered to away"))
    });
}

#[test]
fn time_stamp_is_checked_when_a_message_is_stored_for_another_agent() {
    let world = world();
    let agent = away(&world, LEDGER);
    let relay = world.run("relay", "cat", &[]);
    let old = json!({ "target": "away", "message": "old", "timestamp": "2020-01-01T00:00:00Z" });
    let answer = relay.post("/message", &old);
    assert_eq!((answer.status, answer.code().as_str()), (400, "bad_field"), "{}", answer.text());
    let at = relay.get("/status").json()["since"].clone();
    let fresh = json!({ "target": "away", "message": "fresh", "timestamp": at });
    let answer = relay.post("/message", &fresh);
    assert_eq!(answer.status, 200, "{}", answer.text());
    // A spooled letter has no time stamp, so it does not become too old while it waits.
    let letters = letters(&world, &agent);
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert!(letters[0]["request"].get("timestamp").is_none(), "{letters:?}");
    let large = json!({ "target": "away", "message": "a".repeat(1 << 20) });
    let answer = relay.post("/message", &large);
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"), "{}", answer.text());
}
