//! `synapse run --acp`: a program without a terminal, played by a scripted agent
//! (`testkit/src/acp.py`).

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::acp::AcpAgent;
use synapse_testkit::program::Program;
use synapse_testkit::pty::Pty;
use synapse_testkit::{World, processes};

/// A world with one agent, `a`, whose session is open.
fn agent() -> (World, AcpAgent) {
    let world = world();
    let agent = AcpAgent::new(&world, "a");
    agent.run(&world);
    (world, agent)
}

/// Sends a message, waits for the end, and returns the JSON output.
fn ask(world: &World, text: &str) -> Value {
    world.synapse(&["send", "a", text, "--response", "--json"]).json()
}

/// Starts a `send` that waits for the answer. Returns it and the id of its task.
fn asking(world: &World, text: &str) -> (Program, String) {
    let program = world.program(&["send", "a", text, "--response", "--json"]);
    let task = world.wait_for("its task is there", || {
        let tasks = world.agent("a").get("/api/v1/tasks").json();
        tasks[0]["task_id"].as_str().map(str::to_owned)
    });
    (program, task)
}

fn state(world: &World, task: &str) -> String {
    world.agent("a").task(task)["state"].as_str().unwrap_or_default().to_owned()
}

/// The receipt of a task's first message, as text.
fn trail(world: &World, task: &str) -> String {
    let message = world.agent("a").task(task)["messages"][0].as_str().unwrap_or_default().to_owned();
    world.agent("a").get(&format!("/api/v1/receipts/{message}")).text()
}

fn has_step(world: &World, task: &str, step: &str) -> bool {
    trail(world, task).contains(&format!("\"{step}\""))
}

fn pending(world: &World) -> Value {
    world.wait_for("it asks", || {
        let pending = world.entry("a")?["pending"].clone();
        (!pending.is_null()).then_some(pending)
    })
}

#[test]
fn message_is_a_prompt_and_what_is_said_until_the_end_is_the_answer() {
    let (world, agent) = agent();
    let told = ask(&world, "say Hel; say lo; tool ls; say Bye");
    assert_eq!(
        (&told["state"], &told["answer"]["text"]),
        (&json!("completed"), &json!("Hello\n\nBye")),
        "{told}"
    );
    let metadata = &told["answer"]["content"]["metadata"];
    assert_eq!((&metadata["source"], &metadata["complete"]), (&json!("acp"), &json!(true)), "{told}");
    let short = &told["task_id"].as_str().unwrap()[..8];
    assert_eq!(agent.prompts(&world), [format!("[A2A:{short}:user] say Hel; say lo; tool ls; say Bye")]);
    agent.wait_for(&world, "idle");
    let entry = world.entry("a").unwrap();
    assert_eq!(entry["cli_version"], "1.2.3", "{entry}");
}

#[test]
fn session_has_our_mcp_server_and_offers_nothing_of_this_machine() {
    let (world, agent) = agent();
    let given = agent.given(&world);
    let offered = &given[0]["params"]["clientCapabilities"];
    assert_eq!(
        offered,
        &json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false })
    );
    let server = &given[1]["params"]["mcpServers"][0];
    assert_eq!((&server["name"], &server["args"]), (&json!("synapse"), &json!(["mcp", "serve"])), "{server}");
    assert!(std::path::Path::new(server["command"].as_str().unwrap()).is_file(), "{server}");
    assert_eq!(given[1]["params"]["cwd"], world.folder().to_str().unwrap());
    assert_eq!(ask(&world, "read /etc/passwd")["answer"]["text"], "read: -32601");
}

/// Processes below the program act as the agent.
#[test]
fn agent_speaks_as_itself() {
    let (world, agent) = agent();
    world.run("b", "cat", &[]);
    let synapse = env!("CARGO_BIN_EXE_synapse");
    let told = ask(&world, &format!("shell '{synapse}' send b hello"));
    assert_eq!(told["state"], "completed", "{told}");
    world.wait_until("b has it from a", || {
        let history = world.json(&["history", "b"]).to_string();
        history.contains("hello") && history.contains(r#""label":"a""#)
    });
    // It may reply before its turn has ended.
    let told = ask(&world, &format!("shell '{synapse}' reply from-inside; wait go"));
    assert_eq!(told["answer"]["text"], "from-inside", "{told}");
    agent.wait_for(&world, "busy");
    world.write("go", "");
    assert_eq!(ask(&world, "say next")["answer"]["text"], "next");
}

#[test]
fn receipts_tell_what_is_proven() {
    let (world, agent) = agent();
    // The program has read the message and does not respond.
    let task = world.send("a", "silent go; say done", &[]);
    world.wait_until("it is written", || has_step(&world, &task, "written"));
    world.wait_until("it has it", || agent.prompts(&world).len() == 1);
    agent.wait_for(&world, "busy");
    assert_eq!(state(&world, &task), "working");
    assert!(!has_step(&world, &task, "submitted"), "{}", trail(&world, &task));
    world.write("go", "");
    world.wait_until("it is completed", || state(&world, &task) == "completed");
    assert!(has_step(&world, &task, "submitted"), "{}", trail(&world, &task));
    world.wait_until("the answer is in the history", || {
        world.json(&["history", "a"]).to_string().contains(r#""text":"done""#)
    });
}

#[test]
fn turn_that_does_not_finish_fails_with_its_reason() {
    let (world, _agent) = agent();
    let table = [
        ("say part; stop max_tokens", "limit of tokens", json!("part")),
        ("stop refusal", "refused", Value::Null),
        ("error no quota left", "no quota left", Value::Null),
    ];
    for (text, why, answer) in table {
        let told = ask(&world, text);
        assert_eq!((&told["state"], &told["answer"]["text"]), (&json!("failed"), &answer), "{told}");
        assert!(told["why"].as_str().unwrap().contains(why), "{told}");
    }
    let told = ask(&world, "stop cancelled");
    assert_eq!(told["state"], "canceled", "{told}");
}

#[test]
fn messages_wait_for_the_end_of_the_turn_and_keep_their_order() {
    let (world, agent) = agent();
    let first = world.send("a", "wait go; say one", &[]);
    world.wait_until("it works", || state(&world, &first) != "submitted");
    let second = world.send("a", "say two", &[]);
    assert_eq!(state(&world, &second), "submitted");
    world.write("go", "");
    world.wait_until("both are done", || state(&world, &second) == "completed");
    let prompts = agent.prompts(&world);
    assert!(prompts.len() == 2 && prompts[1].ends_with("say two"), "{prompts:?}");
}

#[test]
fn garbage_floods_and_long_lines_do_no_harm() {
    let (world, _agent) = agent();
    let told = ask(&world, "garbage 500; flood 3000; say still here");
    assert_eq!(told["answer"]["text"], "still here", "{told}");
    assert_eq!(told["answer"]["content"]["metadata"]["complete"], true, "{told}");
    let told = ask(&world, "say before; long 9000000; say  after");
    assert_eq!(told["state"], "completed", "{told}");
    assert!(told["answer"]["text"].as_str().unwrap().starts_with("before after\n[a line of"), "{told}");
    assert_eq!(told["answer"]["content"]["metadata"]["complete"], false, "{told}");
    assert_eq!(ask(&world, "say fine")["answer"]["text"], "fine");
    let told = ask(&world, "garbage 2000");
    assert_eq!(told["state"], "failed", "{told}");
    assert!(told["why"].as_str().unwrap().contains("does not speak ACP"), "{told}");
}

#[test]
fn program_that_asks_and_does_not_read_the_answers_is_ended() {
    let (world, _agent) = agent();
    let told = ask(&world, "say I begin; pester 5000");
    assert_eq!(told["state"], "failed", "{told}");
    assert!(told["why"].as_str().unwrap().contains("does not read"), "{told}");
    world.wait_until("nothing of it is left", || world.processes().is_empty());
}

/// The node answers others while a program writes without a pause.
#[test]
fn program_that_floods_does_not_keep_others_waiting() {
    let (world, _agent) = agent();
    let (sending, task) = asking(&world, "flood 100000; say all");
    world.wait_until("it is begun", || has_step(&world, &task, "seen"));
    let mut asked = 0;
    while state(&world, &task) == "working" && asked < 20 {
        asked += 1;
        let began = std::time::Instant::now();
        world.ok(&["status", "a"]);
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }
    assert!(asked > 0, "{}", state(&world, &task));
    assert_eq!(sending.next()["answer"]["text"], "all");
}

#[test]
fn what_the_program_says_of_its_troubles_is_in_the_log() {
    let (world, _agent) = agent();
    ask(&world, "stderr the key \x1b[31mis missing; say ok");
    world.wait_until("it is in the log", || {
        let log = world.ok(&["logs", "a"]);
        log.contains("the key") && log.contains("is missing") && !log.contains('\x1b')
    });
}

#[test]
fn there_is_no_terminal_and_that_is_said_with_what_helps() {
    let (world, _agent) = agent();
    world.synapse(&["screen", "a"]).fails(2, &["no terminal", "ACP", "synapse logs"]);
    world.synapse(&["send-keys", "a", "Enter"]).fails(2, &["no terminal", "ACP"]);
    let attach = Pty::start(&world.command(&["attach", "a"]), 120, 24);
    attach.wait_for("synapse send a '…' --response");
    let (status, shown) = attach.end();
    assert!(!status.success() && shown.contains("it was started with --acp"), "{shown}");
    world.synapse(&["run", "--acp", "--exec", "cat"]).fails(2, &["--exec"]);
    let page = world.ok(&["explain", "a"]);
    assert!(page.contains("idle"), "{page}");
}

#[test]
fn program_that_cannot_be_spoken_with_ends_the_agent_with_the_reason() {
    for (mood, why) in [
        (&["login"][..], "Use a key"),
        (&["version", "2"], "version 2 of ACP"),
        (&["plain"], "does not speak ACP"),
    ] {
        let world = world();
        AcpAgent::new(&world, "a").start(&world, mood);
        world.wait_until("the agent has ended", || world.entry("a").is_none());
        world.wait_until("nothing of it is left", || world.processes().is_empty());
        let known = world.json(&["list", "--all"]).to_string();
        assert!(known.contains(why), "{mood:?}: {known}");
    }
}

#[test]
fn permission_waits_for_a_person_and_is_given_once() {
    let (world, agent) = agent();
    let mut asking = world.program(&["send", "a", "ask touch notes.txt; say done", "--response"]);
    let pending = pending(&world);
    let hash = pending["prompt"].as_str().unwrap();
    agent.wait_for(&world, "waiting");
    let decide = format!("synapse approve a --prompt {hash}   or   synapse deny a --prompt {hash}");
    for words in [&["list"][..], &["inbox"], &["explain", "a"]] {
        let told = world.ok(words);
        assert!(told.contains("asks to run: touch notes.txt") && told.contains(&decide), "{words:?}: {told}");
    }
    let shown = world.json(&["inbox", "--approvals"])["approvals"][0]["prompt"].clone();
    assert_eq!((&shown["source"], &shown["hash"]), (&json!("acp"), &json!(hash)), "{shown}");
    // A message approves nothing. It is a later turn.
    world.send("a", "yes, approved", &[]);
    world.synapse(&["approve", "a", "--prompt", "0123"]).fails(2, &["something else"]);
    world.ok(&["approve", "a", "--prompt", hash]);
    assert!(asking.wait().success());
    let given = agent.given(&world);
    let answer = given.iter().find(|message| message["id"] == "q1").unwrap();
    assert_eq!(answer["result"]["outcome"], json!({ "outcome": "selected", "optionId": "id-allow_once" }));
    world.wait_until("nothing is pending", || world.entry("a").unwrap()["pending"].is_null());
}

#[test]
fn whoever_waits_is_told_what_is_asked_and_how_to_decide_it() {
    let world = world();
    let told = world.file("told");
    let tell = world.write("tell.sh", "echo \"$SYNAPSE_NOTIFY_TEXT\" >> told-now && mv told-now told\n");
    let command = json!(["sh", "-c", format!("cd '{}' && . '{}'", world.folder().display(), tell.display())]);
    std::fs::create_dir_all(world.home()).unwrap();
    let settings = json!({ "notify": { "command": command } });
    std::fs::write(world.home().join("settings.json"), settings.to_string()).unwrap();
    let agent = AcpAgent::new(&world, "a");
    agent.run(&world);
    let late = world.synapse(&["send", "a", "ask rm x", "--response", "--timeout", "3s"]);
    assert_eq!(late.code, Some(4), "{}", late.stderr);
    assert!(late.stderr.contains("asks to run: rm x"), "{}", late.stderr);
    assert!(late.stderr.contains("synapse deny a --prompt"), "{}", late.stderr);
    world.wait_until("the user's command was run", || told.exists());
    assert_eq!(world.read("told").trim(), "a asks to run: rm x");
    assert_eq!(world.agent("a").get("/status").json()["asks"], "asks to run: rm x");
}

/// X-10: only the user approves. Processes below an agent cannot, not even below the one that asks.
#[test]
fn agents_cannot_approve() {
    let (world, _agent) = agent();
    let approve = |hash: &str| format!("'{}' approve a --prompt {hash}", env!("CARGO_BIN_EXE_synapse"));
    let own = format!("until [ -s hash ]; do sleep 0.05; done\n{} > said 2>&1\n", approve("$(cat hash)"));
    world.write("own.sh", &format!("{own}echo \"ended with $?\" >> said\n"));
    world.send("a", "shell sh own.sh > /dev/null 2>&1 &; ask rm x", &[]);
    let hash = pending(&world)["prompt"].as_str().unwrap().to_owned();
    world.write("hash", &hash);
    let ended = |line: &String| line.starts_with("ended with ");
    let end = world.wait_for("it has tried", || world.lines("said").into_iter().find(ended));
    assert_ne!(end, "ended with 0", "{:?}", world.lines("said"));
    world.run("b", &approve(&hash), &[]);
    let told = world.synapse(&["send", "b", "do it", "--response", "--json"]).json();
    assert_eq!(told["state"], "failed", "{told}");
    assert_eq!(pending(&world)["prompt"], hash, "it still waits");
}

/// A message that continues a task waits for the end of the turn and becomes the next one.
#[test]
fn message_to_a_task_that_asks_is_the_next_turn_and_decides_nothing() {
    let (world, agent) = agent();
    let (sending, task) = asking(&world, "ask rm x");
    let hash = pending(&world)["prompt"].as_str().unwrap().to_owned();
    world.wait_until("its task waits", || state(&world, &task) == "input-required");
    world.ok(&["send", "a", "say yes, go on", "--task", &task]);
    assert_eq!(pending(&world)["prompt"], hash, "nothing is approved by mail");
    world.ok(&["approve", "a", "--prompt", &hash]);
    let told = sending.next();
    assert_eq!(
        (&told["state"], &told["answer"]["text"]),
        (&json!("completed"), &json!("yes, go on")),
        "{told}"
    );
    assert_eq!(agent.prompts(&world).len(), 2);
}

#[test]
fn denied_task_is_rejected_unless_its_turn_goes_on() {
    let (world, agent) = agent();
    for (text, end) in [("ask rm a", "rejected"), ("ask rm a; say so I do not", "completed")] {
        let (sending, task) = asking(&world, text);
        let hash = pending(&world)["prompt"].as_str().unwrap().to_owned();
        world.wait_until("its task waits", || state(&world, &task) == "input-required");
        world.ok(&["deny", "a", "--prompt", &hash]);
        let told = sending.next();
        assert_eq!(told["state"], end, "{told}");
        world.wait_until("nothing is pending", || world.entry("a").unwrap()["pending"].is_null());
    }
    let outcomes: Vec<Value> = agent
        .given(&world)
        .into_iter()
        .filter(|message| message["result"].is_object())
        .map(|message| message["result"]["outcome"]["optionId"].clone())
        .collect();
    assert_eq!(outcomes, ["id-reject_once", "id-reject_once"]);
}

#[test]
fn what_can_only_be_allowed_for_good_is_not_approved_from_here() {
    let (world, agent) = agent();
    world.send("a", "ask-only-always rm a", &[]);
    let pending = pending(&world);
    assert_eq!(pending["complete"], false, "{pending}");
    let hash = pending["prompt"].as_str().unwrap();
    let why = &["allow_once", "allow_always", "told nothing"][..];
    world.synapse(&["approve", "a", "--prompt", hash]).fails(2, why);
    world.ok(&["deny", "a", "--prompt", hash]);
    agent.wait_for(&world, "idle");
    let answer = agent.given(&world).into_iter().find(|message| message["id"] == "q1").unwrap();
    assert_eq!(answer["result"]["outcome"], json!({ "outcome": "cancelled" }));
}

#[test]
fn canceled_task_cancels_the_turn_and_the_next_message_is_served() {
    let (world, agent) = agent();
    let (mut sending, task) = asking(&world, "wait never");
    world.wait_until("it is begun", || has_step(&world, &task, "seen"));
    world.ok(&["cancel", &task]);
    assert!(!sending.wait().success());
    assert_eq!(state(&world, &task), "canceled");
    assert!(agent.given(&world).iter().any(|message| message["method"] == "session/cancel"));
    assert_eq!(ask(&world, "say next")["answer"]["text"], "next");
}

#[test]
fn interrupt_stops_the_turn_and_its_message_is_next() {
    let (world, agent) = agent();
    let (_sending, task) = asking(&world, "wait never");
    world.wait_until("it is begun", || has_step(&world, &task, "seen"));
    world.ok(&["interrupt", "a", "say stopped"]);
    world.wait_until("the first is canceled", || state(&world, &task) == "canceled");
    world.wait_until("the next was given", || agent.prompts(&world).len() == 2);
    let canceled = agent.given(&world).iter().filter(|message| message["method"] == "session/cancel").count();
    assert_eq!(canceled, 1);
    assert!(agent.prompts(&world)[1].ends_with("URGENT: say stopped"), "{:?}", agent.prompts(&world));
    // An urgent message does the same.
    let (sending, _) = asking(&world, "wait never");
    world.wait_until("the third was given", || agent.prompts(&world).len() == 3);
    world.send("a", "say urgent", &["--priority", "5"]);
    let told = sending.next();
    assert_eq!(told["state"], "canceled", "{told}");
    assert!(told["why"].as_str().unwrap().contains("urgent message"), "{told}");
    world.wait_until("it was given", || agent.prompts(&world).len() == 4);
}

#[test]
fn cancel_withdraws_what_is_asked() {
    let (world, agent) = agent();
    let (_sending, task) = asking(&world, "ask rm a");
    pending(&world);
    world.ok(&["cancel", &task]);
    world.wait_until("nothing is pending", || world.entry("a").unwrap()["pending"].is_null());
    agent.wait_for(&world, "idle");
    let answer = agent.given(&world).into_iter().find(|message| message["id"] == "q1").unwrap();
    assert_eq!(answer["result"]["outcome"], json!({ "outcome": "cancelled" }));
}

#[test]
fn program_that_ignores_a_cancel_does_not_keep_its_task() {
    let (world, agent) = agent();
    let (sending, task) = asking(&world, "think; deaf go");
    world.wait_until("it is begun", || has_step(&world, &task, "seen"));
    let mut canceling = world.program(&["cancel", &task]);
    world.wait_until("its task has ended", || state(&world, &task) == "canceled");
    let told = sending.next();
    assert_eq!(told["state"], "canceled", "{told}");
    canceling.wait();
    agent.wait_for(&world, "busy");
    world.write("go", "");
    agent.wait_for(&world, "idle");
}

#[test]
fn task_of_a_program_that_dies_says_so_and_mail_stays() {
    for (text, why) in [("say part; exit 3", "before it answered"), ("exit 3", "unknown whether it arrived")]
    {
        let (world, agent) = agent();
        let told = ask(&world, &format!("stderr out of memory; {text}"));
        assert_eq!(told["state"], "failed", "{told}");
        let said = told["why"].as_str().unwrap();
        assert!(said.contains(why) && said.contains("exit code 3: out of memory"), "{told}");
        world.wait_until("nothing of the agent is left", || world.processes().is_empty());
        let known = world.json(&["list", "--all"]).to_string();
        assert!(known.contains("exit code 3"), "{known}");
        world.send("a", "say later", &[]);
        agent.run(&world);
        world.wait_until("the mail was given", || {
            agent.prompts(&world).last().is_some_and(|prompt| prompt.ends_with("say later"))
        });
    }
}

/// The program dies with its node. The next node starts it again and reports tasks whose outcome is
/// unknown.
#[test]
fn killed_node_neither_loses_a_message_nor_repeats_it_unsaid() {
    let (world, agent) = agent();
    let (sending, silent) = asking(&world, "silent go; say done");
    world.wait_until("it is written", || has_step(&world, &silent, "written"));
    world.wait_until("it has it", || agent.prompts(&world).len() == 1);
    let program = program_of(&world);
    world.kill_node("a");
    world.wait_until("it is given again", || agent.prompts(&world).len() == 2);
    assert!(agent.prompts(&world)[1].contains("(may repeat) silent go"), "{:?}", agent.prompts(&world));
    let known = trail(&world, &silent);
    assert!(known.contains("unknown") && known.contains("its node ended"), "{known}");
    assert!(!processes::is_alive(program), "two programs of one agent");
    world.write("go", "");
    assert_eq!(sending.next()["answer"]["text"], "done");

    // Processes started by its tools end with it.
    let (sending, begun) = asking(&world, "think; shell echo $$ > pid-now && mv pid-now pid && sleep 600");
    world.wait_until("it is begun", || has_step(&world, &begun, "seen"));
    let tool = world.wait_for("its tool runs", || std::fs::read_to_string(world.file("pid")).ok());
    world.kill_node("a");
    let told = sending.next();
    assert_eq!(told["state"], "failed", "{told}");
    assert!(told["why"].as_str().unwrap().contains("whether it did its work is unknown"), "{told}");
    agent.wait_for(&world, "idle");
    assert!(!processes::is_alive(tool.trim().parse().unwrap()), "its tool goes on");
    assert_eq!(agent.prompts(&world).len(), 3, "it is not given again");
    assert_eq!(ask(&world, "say fine")["answer"]["text"], "fine");
}

/// A `send` that waits still gets the end of its task if the agent stops right after it.
#[test]
fn end_of_a_task_is_told_although_the_agent_has_stopped_meanwhile() {
    let (world, _agent) = agent();
    let (sending, task) = asking(&world, "wait never");
    world.wait_until("it is begun", || has_step(&world, &task, "seen"));
    processes::suspend(sending.pid());
    world.kill_node("a");
    world.wait_until("its task has failed", || state(&world, &task) == "failed");
    world.ok(&["kill", "a"]);
    processes::go_on(sending.pid());
    let told = sending.next();
    assert_eq!(told["state"], "failed", "{told}");
    assert!(told["why"].as_str().unwrap().contains("unknown"), "{told}");
}

fn program_of(world: &World) -> u32 {
    let id = world.entry("a").unwrap()["agent_id"].as_str().unwrap().to_owned();
    let mark: Value =
        serde_json::from_slice(&std::fs::read(world.agent_dir(&id).join("acp.json")).unwrap()).unwrap();
    u32::try_from(mark["pid"].as_u64().unwrap()).unwrap()
}
