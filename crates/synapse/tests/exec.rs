//! Command agents: one process per task, its limits, its environment, and the cleanup of everything
//! it started.

use crate::world;
use synapse_testkit::processes::is_alive;
use synapse_testkit::{Agent, World};

/// Starts an agent whose command leaves behind a process that tries hard to escape. Returns that
/// process's pid.
fn runaway(world: &World, more: &[&str]) -> (Agent, String, u32) {
    let script = "\
        #!/bin/sh\n\
        (setsid sh -c '(setsid env -i sh -c \"echo \\$\\$ > deep; trap \\\"\\\" TERM HUP INT; while :; do sleep 1; done\" &)' &)\n\
        while :; do sleep 1; done\n";
    world.write("runaway.sh", script);
    let agent = world.run("runaway", "sh runaway.sh", more);
    let task = world.send("runaway", "go", &[]);
    let deep = world.wait_for("the runaway has said its pid", || world.read("deep").trim().parse().ok());
    assert!(is_alive(deep));
    (agent, task, deep)
}

#[test]
fn a_canceled_task_leaves_no_process_behind() {
    let world = world();
    let (agent, task, deep) = runaway(&world, &[]);
    let told = world.ok(&["cancel", &task[..8]]);
    assert_eq!(told, format!("task {} is canceled", &task[..8]));
    assert!(!is_alive(deep), "a process outlived the cancel\n{}", world.show());
    assert_eq!(agent.task(&task)["state"], "canceled");
    world.synapse(&["cancel", &task]).fails(5, &["already canceled"]);
    assert!(agent.get("/healthz").status == 200, "the agent itself goes on");
}

#[test]
fn a_task_that_waits_can_be_canceled_before_it_starts() {
    let world = world();
    let (agent, running, _) = runaway(&world, &[]);
    let waiting = world.send("runaway", "later", &[]);
    assert_eq!(world.json(&["cancel", &waiting, "--why", "not needed"])["state"], "canceled");
    let task = agent.task(&waiting);
    assert_eq!(task["history"].as_array().unwrap().last().unwrap()["why"], "not needed");
    assert_eq!(agent.task(&running)["state"], "working");
}

#[test]
fn a_task_that_takes_too_long_is_ended_with_all_it_started() {
    let world = world();
    let (agent, task, deep) = runaway(&world, &["--time-limit", "1s"]);
    world.wait_until("the task has ended", || agent.task(&task)["state"] == "failed");
    assert!(!is_alive(deep), "{}", world.show());
    let ran = world.synapse(&["send", "runaway", "again", "--response"]);
    ran.fails(3, &["failed", "1"]);
}

#[test]
fn kill_ends_the_agent_and_every_descendant() {
    let world = world();
    let (agent, _, deep) = runaway(&world, &[]);
    assert_eq!(world.ok(&["kill", "runaway"]), "runaway stopped");
    assert!(!is_alive(deep) && !is_alive(agent.pid) && !is_alive(agent.node_pid), "{}", world.show());
    assert_eq!(world.processes(), [0_u32; 0], "{}", world.show());
    assert_eq!(world.registry().len(), 0);
    assert_eq!(world.ok(&["kill", "runaway"]), "runaway is not running");
}

#[test]
fn a_task_that_prints_too_much_is_ended() {
    let world = world();
    world.run("chatty", "yes", &["--output-limit", "10000"]);
    world.synapse(&["send", "chatty", "talk", "--response"]).fails(3, &["failed", "10000"]);
    world.run("after", "echo fine", &[]);
    assert_eq!(world.ok(&["send", "after", "x", "--response"]), "fine");
}

#[test]
fn a_command_that_is_not_there_is_a_failed_task() {
    let world = world();
    world.run("ghost", "no-such-command-anywhere", &[]);
    let ran = world.synapse(&["send", "ghost", "boo", "--response"]);
    ran.fails(3, &["127", "no-such-command-anywhere", "not found"]);
}

#[test]
fn a_large_prompt_and_a_large_answer_go_through_whole() {
    let world = world();
    world.run("echo", "cat", &[]);
    world.run("count", "wc -c; echo prompt in the environment: ${#SYNAPSE_PROMPT}", &[]);
    let text = "0123456789".repeat(100_000);
    let counted = world.synapse_reading(&["send", "count", "--response"], text.as_bytes()).ok();
    assert_eq!(counted.out(), "1000000\nprompt in the environment: 0");
    let echoed = world.synapse_reading(&["send", "echo", "--response"], text.as_bytes()).ok();
    assert!(echoed.out() == text, "{} bytes came back", echoed.out().len());
    let too_long = "0123456789".repeat(105_000);
    let refused = world.synapse_reading(&["send", "echo", "--response"], too_long.as_bytes());
    refused.fails(5, &["more than", "allowed"]);
}

#[test]
fn a_command_knows_what_it_works_on() {
    let world = world();
    let print =
        "echo \"$SYNAPSE_PROMPT|$SYNAPSE_TASK_ID|$SYNAPSE_SENDER|$SYNAPSE_NOTES|$SYNAPSE_AGENT_ID|$(pwd)\"";
    let agent = world.run("aware", print, &[]);
    world.send("aware", "a note", &["-p", "1"]);
    let told = world.json(&["send", "aware", "a 'quoted' $HOME `x`", "--response"]);
    let task = told["task_id"].as_str().unwrap();
    let folder = world.folder().display();
    let expected = format!("a 'quoted' $HOME `x`|{task}|user|1|{}|{folder}", agent.id);
    assert_eq!(told["answer"]["text"], expected.as_str());
}

#[test]
fn three_at_once_when_asked_for_three() {
    let world = world();
    let exec = "cat > /dev/null; echo x >> begun; while [ ! -e go ]; do sleep 0.02; done; echo x >> ended";
    let agent = world.run("crew", exec, &["--parallel", "3"]);
    for n in 0..5 {
        world.send("crew", &format!("job {n}"), &[]);
    }
    world.wait_until("three are at work", || world.lines("begun").len() == 3);
    assert_eq!(agent.get("/api/v1/inbox").json()["waiting"], 2);
    let tasks = agent.get("/api/v1/tasks").json();
    let working = tasks.as_array().unwrap().iter().filter(|task| task["state"] == "working").count();
    assert!(working <= 3, "{tasks}");
    world.write("go", "");
    world.wait_until("all five have ended", || world.lines("ended").len() == 5);
}

#[test]
fn output_that_is_no_text_breaks_nothing() {
    let world = world();
    world.run("binary", r"printf '\377\376ok\000\033[2J\r\342\202'", &[]);
    let ran = world.synapse(&["send", "binary", "x", "--response"]).ok();
    assert!(ran.stdout.contains("ok"), "{ran}");
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\0'), "a terminal was driven: {ran:?}");
    let told = world.json(&["send", "binary", "x", "--response"]);
    assert!(told["answer"]["text"].as_str().unwrap().contains("ok\u{0}\u{1b}[2J"), "{told}");
    world.run("random", "head -c 200000 /dev/urandom", &[]);
    assert_eq!(world.json(&["send", "random", "x", "--response"])["state"], "completed");
}

#[test]
fn a_foreground_agent_shows_its_work_and_ends_with_ctrl_c() {
    let world = world();
    let mut shout = world.program(&["run", "--name", "shout", "--exec", "tr a-z A-Z"]);
    assert!(shout.next_line().starts_with("shout runs as synapse-tr-"));
    let task = world.send("shout", "hello", &[]);
    let task = &task[..8];
    assert_eq!(shout.next_line(), format!("{task} ← user: hello"));
    assert_eq!(shout.next_line(), format!("{task} → completed HELLO"));
    synapse_testkit::processes::terminate(shout.pid());
    assert!(shout.wait().success());
    assert_eq!(world.processes(), [0_u32; 0], "{}", world.show());
}

#[test]
fn a_killed_runner_is_an_unknown_outcome_not_a_silent_one() {
    let world = world();
    let agent = world.run("fragile", "echo $PPID > runner; while :; do sleep 1; done", &[]);
    let task = world.send("fragile", "x", &[]);
    let runner = world.wait_for("the runner's pid", || world.read("runner").trim().parse().ok());
    synapse_testkit::processes::kill9(runner);
    world.wait_until("the task has ended", || agent.task(&task)["state"] == "failed");
    let why = agent.task(&task)["history"].to_string();
    assert!(why.contains("unknown"), "{why}");
}
