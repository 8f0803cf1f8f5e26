//! `synapse wait` (CLI-9): follows events across restarts and stops, and says who is missing and
//! why (CLI-11).

use crate::world;

const PATIENT: &str = "cat >> begun; echo >> begun; while [ ! -e go ]; do sleep 0.02; done; echo done";

#[test]
fn it_waits_for_tasks_and_agents_across_a_kill_of_the_node() {
    let world = world();
    let agent = world.run("patient", PATIENT, &[]);
    world.run("quick", "cat", &[]);
    let task = world.send("patient", "work", &[]);
    world.wait_until("it works", || agent.task(&task)["state"] == "working");
    let any = world.json(&["wait", "patient", "quick", "--any"]);
    assert_eq!(any["reached"][0]["target"], "quick", "{any}");
    let late = world.synapse(&["wait", "patient", &task, "quick", "--timeout", "300ms"]);
    let late = late.fails(4, &["patient has been busy", "has worked on task", &task[..8]]);
    assert!(late.stdout.contains("quick is idle") && !late.stderr.contains("quick"), "{late}");

    let mut done = world.program(&["wait", &task, "--until", "done", "--timeout", "60s"]);
    let mut idle = world.program(&["wait", "patient", "--timeout", "60s", "--json"]);
    world.kill_node("patient");
    world.write("go", "");
    let line = done.next_line();
    assert!(line.contains(&task[..8]) && line.contains("completed") && line.contains("done"), "{line}");
    assert!(done.wait().success() && idle.wait().success());
    assert_eq!(idle.next()["reached"][0]["state"], "idle");
    assert_eq!(world.json(&["wait", &task])["reached"][0]["answer"]["text"], "done", "at once if it is over");
}

#[test]
fn it_waits_for_an_agent_that_is_stopped_and_started_again() {
    let world = world();
    world.run("patient", PATIENT, &[]);
    let task = world.send("patient", "work", &[]);
    world.wait_until("it works", || world.read("begun").contains("work"));
    world.send("patient", "more", &[]);
    let mut waiting = world.program(&["wait", "patient", "--timeout", "60s"]);
    world.ok(&["kill", "patient"]);
    assert!(!waiting.has_ended(), "a stopped agent is not idle");
    world.write("go", "");
    world.run("patient", PATIENT, &[]);
    assert!(waiting.wait().success());
    assert!(waiting.next_line().contains("patient is idle"));
    world.wait_until("it took what had waited", || world.read("begun").contains("more"));
    world.synapse(&["wait", &task, "--until", "done"]).fails(3, &["without what was wanted"]);
}

#[test]
fn what_cannot_be_waited_for_is_said_at_once() {
    let world = world();
    world.run("cat", "cat", &[]);
    world.synapse(&["wait", "cat", "--until", "done"]).fails(2, &["is an agent"]);
    world.synapse(&["wait", "ffffffff", "--until", "idle"]).fails(2, &["for agents"]);
    world.synapse(&["wait", "ffffffff"]).fails(5, &["unknown task"]);
    world.synapse(&["wait", "catt"]).fails(5, &["did you mean", "cat"]);
    world.synapse(&["wait"]).exits(2);
    let task = world.send("cat", "hi", &[]);
    let failing = world.run("failing", "exit 1", &[]);
    world.synapse(&["wait", &task, "--until", "reply"]).ok();
    let task = world.send("failing", "hi", &[]);
    world.synapse(&["wait", &task]).fails(3, &["failed", "exit code 1"]);
    assert_eq!(failing.task(&task)["state"], "failed");
}
