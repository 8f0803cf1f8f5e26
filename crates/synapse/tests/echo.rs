//! The built-in echo: an agent without a program, to try a client or a machine out.

use crate::world;
use serde_json::json;

#[test]
fn an_echo_says_each_message_back_also_after_its_node_was_killed() {
    let world = world();
    world.ok(&["run", "-d", "--name", "parrot", "--echo"]);
    for round in 0..3 {
        let text = format!("hello {round} \u{1b}[31m 世界");
        let told = world.json(&["send", "parrot", &text, "--response"]);
        assert_eq!(told["answer"]["text"], text, "{told}");
        world.kill_node("parrot");
    }
    let listed = world.ok(&["list"]);
    assert!(listed.contains("parrot") && listed.contains("echo"), "{listed}");
}

#[test]
fn every_kind_of_part_comes_back_over_a2a() {
    let world = world();
    world.ok(&["a2a", "serve", "-d", "--name", "parrot", "--echo", "--auth", "none"]);
    let agent = world.agent("parrot");
    let parts = json!([
        { "text": "see", "metadata": { "n": 1 } },
        { "data": { "rows": [1, null] }, "mediaType": "application/json" },
        { "url": "https://example.org/x", "filename": "x", "mediaType": "text/plain" },
        { "raw": "AAEC", "mediaType": "text/plain" },
    ]);
    let message = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": parts } }).to_string();
    let headers = [("A2A-Version", "1.0")];
    let task = agent.tcp().ask("POST", "/a2a/v1/message:send", &headers, message.as_bytes()).json();
    assert_eq!(task["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    assert_eq!(task["task"]["artifacts"][0]["parts"], parts, "{task}");
}

/// The doctor accepts an agent whose tasks end before it can look at them.
#[test]
fn the_doctor_finds_nothing_wrong_with_it() {
    let world = world();
    world.ok(&["run", "-d", "--name", "parrot", "--echo"]);
    let url = format!("http://localhost:{}", world.agent("parrot").port);
    let token = world.home().join("token");
    let report =
        world.json(&["a2a", "doctor", &url, "--send", "hello", "--token-file", token.to_str().unwrap()]);
    for finding in report["findings"].as_array().unwrap() {
        assert!(!["wrong", "warning"].contains(&finding["level"].as_str().unwrap()), "{finding:#}");
    }
}

#[test]
fn a_command_and_an_echo_are_one_too_many() {
    let world = world();
    for words in [
        &["run", "--echo", "--exec", "cat"][..],
        &["run", "--echo", "--jsonl"],
        &["run", "--echo", "--", "sh"],
        &["a2a", "serve", "--echo", "--exec", "cat"],
        &["a2a", "serve"],
    ] {
        world.synapse(words).exits(2);
    }
}
