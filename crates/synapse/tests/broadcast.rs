//! `synapse broadcast`: who gets it, who does not and why, and that a repeat has no second effect
//! (CLI-9).

use crate::world;
use serde_json::Value;

fn status_of<'a>(told: &'a Value, name: &str) -> &'a Value {
    let sent = told["sent"].as_array().unwrap();
    sent.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name} is not in {told}"))
}

#[test]
fn everyone_gets_it_once_under_one_id() {
    let world = world();
    let one = world.run("one", "cat >> one.txt; echo >> one.txt", &["--type", "writer"]);
    world.run("two", "cat >> two.txt; echo >> two.txt", &["--skill", "review"]);
    world.run("away", "cat >> away.txt; echo >> away.txt", &[]);
    world.ok(&["kill", "away"]);
    let told = world.json(&["broadcast", "hello", "--message-id", "b-1", "--all"]);
    assert_eq!((&told["taken"], &told["not_taken"]), (&3.into(), &0.into()), "{told}");
    assert_eq!(status_of(&told, "away")["status"], "spooled");
    let again = world.json(&["broadcast", "hello", "--message-id", "b-1", "--all"]);
    assert_eq!(status_of(&again, "one")["duplicate"], true, "{again}");
    world.run("away", "cat >> away.txt; echo >> away.txt", &[]);
    world.ok(&["wait", "one", "two", "away"]);
    for name in ["one.txt", "two.txt", "away.txt"] {
        world.wait_until("each has worked on it", || !world.lines(name).is_empty());
        assert_eq!(world.lines(name), ["hello"], "{name}");
    }
    let task = status_of(&told, "one")["task_id"].as_str().unwrap();
    let message = one.task(task)["messages"][0].as_str().unwrap().to_owned();
    assert_ne!(message, "b-1", "the id of a sender is not the id of a node");

    // Only some agents are addressed, and one does not accept the message.
    let writers = world.json(&["broadcast", "to writers", "--to", "WRITER"]);
    assert_eq!(writers["sent"].as_array().unwrap().len(), 1);
    let skilled = world.json(&["broadcast", "to reviewers", "--to", "skill:review"]);
    assert_eq!(skilled["sent"][0]["name"], "two");
    world.send("one", "another text", &["--message-id", "b-2"]);
    let refused =
        world.synapse(&["broadcast", "one text", "--message-id", "b-2"]).fails(5, &["1 of 3", "b-2"]);
    assert!(refused.stdout.contains("already used") && refused.stdout.contains("stored"), "{refused}");
    world.synapse(&["broadcast", "x", "--to", "nobody-here"]).fails(5, &["no nobody-here runs"]);
}

#[test]
fn answers_come_back_with_the_agents_they_are_from() {
    let world = world();
    world.run("upper", "tr a-z A-Z", &[]);
    world.run("broken", "cat >/dev/null; echo no >&2; exit 3", &[]);
    let ran = world.synapse(&["broadcast", "hello", "--response"]).fails(3, &["1 could not do it"]);
    assert!(ran.stdout.contains("upper: HELLO") && ran.stdout.contains("exit code 3"), "{ran}");
    let ran = world.synapse(&["broadcast", "hello", "--to", "tr", "--response", "--json"]).ok();
    assert_eq!(ran.json()["sent"][0]["answer"]["text"], "HELLO");
    world.run("silent", "sleep 60", &[]);
    let late = world.synapse(&["broadcast", "hi", "--to", "sleep", "--response", "--timeout", "300ms"]);
    let late = late.fails(4, &["1 have not answered"]);
    assert!(late.stdout.contains("has worked on task"), "{late}");
}

/// An agent that broadcasts is the sender and does not get its own message.
#[test]
fn an_agent_does_not_hear_its_own_broadcast() {
    let world = world();
    let exe = world.exe().display();
    let caller =
        format!("cat >> caller.txt; echo >> caller.txt; {exe} broadcast 'from inside' --json > told.json");
    world.run("caller", &caller, &[]);
    world.run("other", "printenv SYNAPSE_SENDER > sender.txt; cat > heard.txt", &[]);
    world.ok(&["send", "caller", "go", "--response"]);
    world.wait_until("the other has heard it", || world.read("heard.txt") == "from inside");
    assert!(world.read("sender.txt").contains("caller"), "{}", world.read("sender.txt"));
    let told: Value = serde_json::from_str(&world.read("told.json")).unwrap();
    assert_eq!(told["sent"].as_array().unwrap().len(), 1, "{told}");
    assert_eq!(world.lines("caller.txt"), ["go"]);
}
