//! A prompt that waits for a person: what every command says about it, who is notified, and how a
//! denial affects the task.

use crate::stage;
use crate::world;
use serde_json::{Value, json};
use stage::Stage;
use synapse_testkit::cli::Cli;

fn asking() -> Stage {
    Stage::asking(world())
}

/// Finding 3: `send` and `explain` advised sending a message, which presses no key and is typed
/// later as a new turn.
#[test]
fn every_command_names_the_question_and_the_exact_decision() {
    let mut stage = asking();
    let pending = stage.wants_to_run("touch notes.txt");
    let hash = pending["prompt"].as_str().unwrap().to_owned();
    assert_eq!(pending["asks_all"], true, "{pending}");
    let decide = format!("synapse approve cli --prompt {hash}   or   synapse deny cli --prompt {hash}");
    for words in [&["list"][..], &["list", "--all"], &["inbox"], &["inbox", "cli"], &["explain", "cli"]] {
        let told = stage.world.ok(words);
        assert!(told.contains("asks to run: touch notes.txt"), "{words:?}: {told}");
        assert!(told.contains(&decide) && !told.contains("--task"), "{words:?}: {told}");
        assert!(!told.contains("Esc to cancel") && !told.contains("────"), "only the question: {told}");
    }
    assert!(stage.world.ok(&["status", "cli"]).contains("asks to run: touch notes.txt"));
    assert!(stage.world.ok(&["list", "--plain"]).contains("\tasks to run: touch notes.txt\t"));
    let row = stage.world.json(&["list"])[0].clone();
    assert_eq!(row["asks"], "asks to run: touch notes.txt", "{row}");
    assert_eq!((&row["prompt"], &row["state"]), (&json!(hash), &json!("waiting")), "{row}");
    assert_eq!(row["approve"], format!("synapse approve cli --prompt {hash}"), "{row}");
    assert!(row["why"].as_str().unwrap().contains("PermissionRequest"), "the field keeps its meaning: {row}");
    let explained = stage.world.json(&["explain", "cli"]);
    assert_eq!((&explained["code"], &explained["asks"]), (&json!("approval"), &row["asks"]), "{explained}");
    assert_eq!(explained["deny"], format!("synapse deny cli --prompt {hash}"));
    assert_eq!(stage.world.agent("cli").get("/status").json()["asks"], row["asks"]);
    // The notices end once the prompt is decided.
    let mut denying = stage.world.program(&["deny", "cli", "--prompt", &hash]);
    stage.world.wait_until("it is denied", || stage.world.read("keys").ends_with('\u{1b}'));
    stage.hook("PostToolUse", &json!({ "tool_name": "Bash" }));
    stage.order(&json!(["show", "> ready"]));
    assert!(denying.wait().success());
    stage.world.wait_until("nothing is pending", || stage.world.entry("cli").unwrap()["pending"].is_null());
    assert!(!stage.world.ok(&["inbox"]).contains("asks to run"));
}

/// Without a hook the summary comes from the screen, which a model can shape. Then `approve` first
/// shows the whole question.
#[test]
fn summary_from_the_screen_is_not_approved_unread() {
    let mut stage = asking();
    let pending = stage.shows("touch notes.txt");
    assert_eq!(
        (&pending["asks"], &pending["asks_all"]),
        (&json!("asks to run: touch notes.txt"), &json!(false))
    );
    let hash = pending["prompt"].as_str().unwrap().to_owned();
    for words in ["list", "inbox"] {
        let told = stage.world.ok(&[words]);
        assert!(
            told.contains(&format!("synapse approve cli   or   synapse deny cli --prompt {hash}")),
            "{told}"
        );
    }
    // `explain` shows the whole question.
    let page = stage.world.ok(&["explain", "cli"]);
    assert!(page.contains(&format!("synapse approve cli --prompt {hash}")), "{page}");
}

/// Finding 3, and finding 22: a denied task was reported as completed.
#[test]
fn denied_task_is_rejected_and_says_what_was_denied() {
    let world = world();
    let cli = Cli::start(&world, "a", &["turn=50"]);
    let late = world.synapse(&["send", "a", "ASK me", "--response", "--timeout", "4s"]);
    let hash = cli.prompt();
    let told = &late.stderr;
    assert_eq!(late.code, Some(4), "{told}");
    assert!(told.contains("a asks: Run the command number 1?"), "{told}");
    let decide = format!("synapse approve a --prompt {hash}   or   synapse deny a --prompt {hash}");
    assert!(told.contains(&decide) && !told.contains("--task"), "{told}");
    let task = world.json(&["explain", "a"])["timeline"][0].clone();
    assert!(task["what"].as_str().unwrap().contains("input-required"), "{task}");
    let task = world.agent("a").get("/api/v1/tasks").json()[0]["task_id"].as_str().unwrap().to_owned();
    let explained = world.ok(&["explain", &task]);
    assert!(explained.contains("synapse deny a --prompt") && !explained.contains("--task"), "{explained}");
    world.ok(&["deny", "a", "--prompt", &hash]);
    let ended = world.wait_for("the task has ended", || {
        let task = world.agent("a").task(&task);
        (!["input-required", "working"].contains(&task["state"].as_str().unwrap())).then_some(task)
    });
    assert_eq!((&ended["state"], &ended["answer"]), (&json!("rejected"), &Value::Null), "{ended}");
    let why = ended["history"].as_array().unwrap().last().unwrap()["why"].clone();
    assert!(
        why.as_str().unwrap().contains("denied") && why.as_str().unwrap().contains("command number 1"),
        "{why}"
    );
    assert_eq!(cli.all("denied"), [1]);
}

/// If the model continues after a denial, its task completes like any other.
#[test]
fn denied_task_that_goes_on_is_completed() {
    let world = world();
    let cli = Cli::start(&world, "a", &["turn=50", "goes_on=2500"]);
    let mut sending = world.program(&["send", "a", "ASK me", "--response", "--json"]);
    world.ok(&["deny", "a", "--prompt", &cli.prompt()]);
    let ended = sending.next();
    assert_eq!(ended["state"], "completed", "{ended}");
    assert!(ended["answer"]["text"].as_str().unwrap().contains("done with it"), "{ended}");
    assert!(sending.wait().success());
}

/// a denial over A2A has the same effect, and the task is `rejected`.
#[test]
fn task_that_is_denied_over_a2a_is_rejected() {
    let world = world();
    let cli = Cli::start(&world, "a", &["turn=50"]);
    let agent = world.agent("a");
    let send = |message: Value| {
        let call =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } });
        let answer =
            agent.unix().ask("POST", "/api/v1/agent", &[("A2A-Version", "1.0")], call.to_string().as_bytes());
        answer.json()["result"]["task"].clone()
    };
    let asked = send(json!({ "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": "ASK me" }] }));
    let data = &asked["status"]["message"]["parts"][1]["data"];
    assert_eq!(data["asks"], "asks: Run the command number 1?", "{asked}");
    let deny = json!({
        "messageId": "m2", "role": "ROLE_USER", "taskId": asked["id"], "parts": [{ "data": { "deny": data["prompt_hash"] } }],
    });
    let ended = send(deny);
    assert_eq!(ended["status"]["state"], "TASK_STATE_REJECTED", "{ended}");
    assert_eq!(cli.all("denied"), [1]);
}
