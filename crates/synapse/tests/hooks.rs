//! PTY-2: hooks report a program's state at once, the screen shows what they miss, and forged or
//! broken events change nothing. Uses the real binary and a program that calls its hooks as Claude
//! Code does.

use crate::stage;
use serde_json::{Value, json};
use stage::{PROFILE, Stage};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use synapse_testkit::World;
use synapse_testkit::world::python;

fn said(state: &str, source: &str) -> (String, String) {
    (state.to_owned(), source.to_owned())
}

#[test]
fn a_turn_is_told_by_hooks_and_waiting_ends_with_the_prompt() {
    let mut stage = Stage::new(&[]);
    stage.hook("SessionStart", &json!({ "source": "startup" }));
    assert_eq!(stage.decided(), said("idle", "screen"));
    stage.hook("UserPromptSubmit", &json!({ "prompt": "please\nwork" }));
    assert_eq!(stage.decided(), said("busy", "hook"), "a hook that has returned has told");
    stage.becomes("busy");
    stage.hook("PreToolUse", &json!({ "tool_name": "Bash", "tool_input": { "command": "ls" } }));
    stage.hook("PermissionRequest", &json!({ "tool_name": "Bash" }));
    assert_eq!(stage.decided(), said("waiting", "hook"));
    stage.becomes("waiting");
    // Before the prompt is drawn, and while it is shown, no event ends the waiting: any tool could
    // send one.
    stage.hook("Stop", &json!({}));
    assert_eq!(stage.decided().0, "waiting");
    stage.order(&json!(["show", "Allow this? y/n"]));
    stage.screen_says("waiting");
    for event in ["PostToolUse", "Stop", "SessionEnd"] {
        stage.hook(event, &json!({ "tool_name": "Bash" }));
        assert_eq!(stage.decided().0, "waiting", "{event}");
    }
    stage.order(&json!(["show", "> working"]));
    stage.becomes("busy");
    stage.hook("Stop", &json!({ "last_assistant_message": "it is done" }));
    assert_eq!(stage.decided(), said("idle", "hook"));
    let tells = stage.view()["tells"].clone();
    assert_eq!((&tells["way"], &tells["session_id"]), (&json!("hooks"), &json!("s-1")));
    assert_eq!(tells["events"], 9, "{tells}");
    assert!(tells["prompt_at"].is_string() && tells["answer_at"].is_string(), "{tells}");
}

/// Codex reports its state itself. Its hooks report what it was given and what it answered.
#[test]
fn what_codex_was_given_is_told_by_hooks_that_come_with_their_trust() {
    let profile = PROFILE.replace("hooks: claude", "hooks: codex").replace("'1.2'", "'9.9'");
    let mut stage = Stage::with(&profile, &[]);
    let words: Vec<String> = serde_json::from_str(&stage.world.read("words")).unwrap();
    assert_eq!(words.iter().filter(|word| *word == "-c").count(), 3, "{words:?}");
    assert!(words[5].starts_with("hooks.state={\"/<session-flags>/config.toml:"), "{words:?}");
    stage.hook("UserPromptSubmit", &json!({ "prompt": "please work" }));
    assert_eq!(stage.decided(), said("idle", "screen"), "its own reports tell the state");
    stage.order(&json!(["show", "> working"]));
    stage.becomes("busy");
    stage.hook("Stop", &json!({ "last_assistant_message": "it is done" }));
    assert_eq!(stage.decided(), said("busy", "screen"));
    let tells = stage.view()["tells"].clone();
    assert!(tells["prompt_at"].is_string() && tells["answer_at"].is_string(), "{tells}");
    assert_eq!((&tells["way"], &tells["events"]), (&json!("hooks"), &json!(2)));
    assert!(stage.world.ok(&["explain", "cli"]).contains("2 events"));
    // An untested version gets no hooks unless it says that it trusts them.
    let stage = Stage::with(&PROFILE.replace("hooks: claude", "hooks: codex"), &[]);
    assert_eq!(stage.world.read("words"), "[]");
    assert!(stage.world.ok(&["explain", "cli"]).contains("this is 9.9.9"));
}

/// No hook reports an Esc.
#[test]
fn what_no_hook_tells_is_seen_on_the_screen() {
    let mut stage = Stage::new(&[]);
    stage.hook("UserPromptSubmit", &json!({ "prompt": "x" }));
    stage.order(&json!(["show", "> working"]));
    stage.screen_says("busy");
    // The registry lags behind. Wait, so that its old state is not taken for the next one.
    stage.becomes("busy");
    stage.order(&json!(["show", "> ready"]));
    stage.becomes("idle");
    assert_eq!(stage.decided(), said("idle", "screen"));
    stage.hook("UserPromptSubmit", &json!({ "prompt": "y" }));
    assert_eq!(stage.decided(), said("busy", "hook"));
}

#[test]
fn what_is_broken_or_large_disturbs_nobody() {
    let mut stage = Stage::new(&[]);
    stage.hook("UserPromptSubmit", &json!({ "prompt": "x" }));
    for broken in
        ["", "{", "[]", "\u{0}", "{\"hook_event_name\": 7}", "{\"hook_event_name\": \"Stop\", \"x\": "]
    {
        assert_eq!(stage.order(&json!(["broken", broken])), json!([[0, "", ""]]), "{broken:?}");
    }
    assert_eq!(stage.view()["tells"]["events"], 1);
    assert_eq!(stage.order(&json!(["large", "PostToolUse"])), json!([[0, "", ""]]));
    assert_eq!(stage.view()["tells"]["last_event"], "PostToolUse", "ten megabytes that are not kept");
    // With no node, and after the node restarts.
    stage.world.kill_node("cli");
    assert_eq!(stage.order(&json!(["hook", { "hook_event_name": "Stop" }])), json!([[0, "", ""]]));
    let world = &stage.world;
    world.wait_until("the next node answers", || {
        world.agent("cli").unix().try_connect().is_ok() && world.synapse(&["status", "cli"]).code == Some(0)
    });
    stage.hook("UserPromptSubmit", &json!({ "prompt": "after" }));
    // The state is withheld until the restarted node has read the screen.
    let decided = || stage.decided() == said("busy", "hook");
    stage.world.wait_until("the key is that of the program, not of the node", decided);
}

/// The hook program exits soon, successfully and silently: without a node, a folder, or an end of
/// its input.
#[test]
fn the_hook_program_alone_ends_well() {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let nowhere = world.file("nowhere").display().to_string();
    for words in [vec!["__hook"], vec!["__hook", ""], vec!["__hook", &nowhere]] {
        let ran = world.synapse_reading(&words, b"{\"hook_event_name\":\"Stop\"}");
        assert!(ran.code == Some(0) && ran.stdout.is_empty() && ran.stderr.is_empty(), "{words:?}");
    }
    let mut command = world.command(&["__hook", &nowhere]);
    let mut endless = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    endless.stdin.as_mut().unwrap().write_all(b"{\"hook_event_name\":").unwrap();
    assert!(endless.wait().unwrap().success(), "its input never ends");
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// `signal.py <agent's folder> <body>`: prints the status of the response.
const SIGNAL: &str = r#"
import os, socket, sys
os.chdir(sys.argv[1])
door = socket.socket(socket.AF_UNIX)
door.connect("node.sock")
head = "POST /api/v1/signal HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
door.sendall(f"{head}content-length: {len(sys.argv[2])}\r\n\r\n{sys.argv[2]}".encode())
print(door.recv(4000).split()[1].decode(), end="")
"#;

#[test]
fn only_the_program_itself_may_tell() {
    let mut stage = Stage::new(&[]);
    let dir = stage.dir();
    let key = std::fs::read_to_string(dir.join("hooks/key")).unwrap();
    let mode = |file: &str| {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(dir.join(file)).unwrap().mode() & 0o777
    };
    assert_eq!((mode("hooks/key"), mode("hooks/claude.json")), (0o600, 0o600));
    let body = json!({ "key": key, "event": "PermissionRequest" });
    // The user with the right key, over the Unix socket and over TCP with the token.
    let agent = stage.world.agent("cli");
    let refused = agent.post("/api/v1/signal", &body);
    assert_eq!((refused.status, refused.code().as_str()), (403, "not_allowed"), "{}", refused.text());
    let bearer = agent.bearer();
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let by_tcp = agent.tcp().ask("POST", "/api/v1/signal", &headers, body.to_string().as_bytes());
    assert_eq!(by_tcp.status, 403, "{}", by_tcp.text());
    // Another agent with the right key, by the hook program and by hand.
    stage.world.write("signal.py", SIGNAL);
    let by_hand = format!("{} signal.py {} '{body}'", python(), dir.display());
    let exe = stage.world.exe().display().to_string();
    stage.world.write(
        "forge.sh",
        &format!(
            "echo '{{\"hook_event_name\":\"PermissionRequest\"}}' | {exe} __hook {}\n{by_hand}\n",
            dir.display()
        ),
    );
    stage.world.run("other", "sh forge.sh", &[]);
    let told = stage.world.synapse(&["send", "other", "go", "--response", "--json"]).json();
    assert_eq!(told["answer"]["text"].as_str().map(str::trim), Some("403"), "{told}");
    // A process below the agent itself, without the key.
    let wrong = by_hand.replace(&key, &"0".repeat(64));
    assert_eq!(stage.order(&json!(["run", wrong])), "401");
    let view = stage.view();
    assert_eq!((&view["state"], &view["tells"]["events"]), (&json!("idle"), &json!(0)), "{view}");
    // With the key it is accepted: any tool of the agent could report this.
    assert_eq!(stage.order(&json!(["run", by_hand])), "204");
    assert_eq!(stage.decided(), said("waiting", "hook"));
}

#[test]
fn settings_that_the_user_gave_stay_theirs() {
    let stage = Stage::new(&["--settings", "mine.json"]);
    let words: Value = serde_json::from_str(&stage.world.read("words")).unwrap();
    assert_eq!(words, json!(["--settings", "mine.json"]));
    let tells = stage.view()["tells"].clone();
    assert_eq!(tells["way"], "nothing");
    assert!(tells["why"].as_str().unwrap().contains("--settings"), "{tells}");
    assert!(!stage.dir().join("hooks/claude.json").exists());
}

/// `explain` shows every signal, the deciding one, the profile, and whether the version was tested.
#[test]
fn explain_tells_every_signal_and_list_an_untested_version() {
    let mut stage = Stage::new(&[]);
    stage.hook("UserPromptSubmit", &json!({ "prompt": "x" }));
    let page = stage.world.ok(&["explain", "cli"]);
    for part in [
        "by hook: it is the best source",
        "* hook ",
        "UserPromptSubmit",
        "screen",
        "scripted.yaml",
        "hooks, 1 events",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    assert!(!page.contains("loop guard"), "{page}");
    let told = stage.world.json(&["explain", "cli"]);
    let terminal = &told["terminal"];
    assert_eq!((&terminal["source"], &terminal["tells"]["events"]), (&json!("hook"), &json!(1)), "{told}");
    let sources: Vec<&str> =
        terminal["evidence"].as_array().unwrap().iter().map(|e| e["source"].as_str().unwrap()).collect();
    assert_eq!(sources, ["hook", "screen"]);
    // The profile says how to ask the program for its version.
    stage.world.wait_until("its version is told", || stage.view()["version"] == "9.9.9");
    assert_eq!((&stage.view()["tested"], &told["terminal"]["profile"]), (&json!(false), &json!("scripted")));
    let list = || stage.world.ok(&["list"]);
    stage.world.wait_until("the list says so", || list().contains("untested version: scripted 9.9.9"));
    let row = &stage.world.json(&["list"])[0];
    assert_eq!((&row["cli_version"], &row["cli_tested"]), (&json!("9.9.9"), &json!(false)), "{row}");
    assert!(stage.world.ok(&["explain", "cli"]).contains("checked with 1.2"));
}

/// A changed file is reloaded, a broken one is reported and changes nothing, and the state is kept.
#[test]
fn a_profile_that_changes_is_taken_up_while_its_program_runs() {
    let mut stage = Stage::new(&[]);
    let file = stage.world.home().join("profiles/scripted.yaml");
    let whole = std::fs::read_to_string(&file).unwrap();
    stage.order(&json!(["show", "hard at it"]));
    std::fs::write(&file, whole.replace("'working'", "'hard at it'")).unwrap();
    stage.becomes("busy");
    assert_eq!(stage.view()["profile_from"], file.display().to_string());
    // A broken or missing file leaves the old profile in place.
    let fault = |stage: &Stage| stage.view()["profile_fault"].as_str().unwrap_or_default().to_owned();
    for (text, said) in
        [("name: [", "scripted.yaml"), ("name: scripted\ncommand: x\ncolour: red\n", "colour")]
    {
        std::fs::write(&file, text).unwrap();
        stage.world.wait_until("the fault is told", || fault(&stage).contains(said));
        assert_eq!(stage.decided(), said_busy(), "{text}");
    }
    assert!(stage.world.ok(&["explain", "cli"]).contains("what is there now is not used"));
    assert!(stage.world.ok(&["logs", "cli"]).contains("the previous one stays in use"));
    stage.world.synapse(&["profile", "check", &file.display().to_string()]).fails(1, &["colour"]);
    std::fs::remove_file(&file).unwrap();
    stage.world.wait_until("the missing file is reported", || fault(&stage).contains("was removed"));
    assert_eq!(stage.decided(), said_busy());
    // The folder is deleted and created again with another file. A restarted node finds that one.
    std::fs::remove_dir(file.parent().unwrap()).unwrap();
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, whole.replace("'^> ready'", "'hard at it'")).unwrap();
    stage.becomes("idle");
    assert_eq!(fault(&stage), "");
    stage.world.kill_node("cli");
    let world = &stage.world;
    world.wait_until("the next node goes by the same profile", || {
        world.agent("cli").unix().try_connect().is_ok()
            && world.synapse(&["explain", "cli", "--json"]).json()["terminal"]["state"] == "idle"
    });
}

fn said_busy() -> (String, String) {
    said("busy", "screen")
}

#[test]
fn a_recording_is_explained_as_it_was_seen() {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let cast =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../terminal/recordings/codex__permission.cast");
    let cast = cast.display().to_string();
    let page = world.ok(&["explain", "--recording", &cast]);
    assert!(page.lines().any(|line| line.contains("waiting") && line.contains("by status")), "{page}");
    let told = world.json(&["explain", "--recording", &cast, "--profile", "codex"]);
    let rows = told["timeline"].as_array().unwrap();
    let waiting = rows.iter().find(|row| row["state"] == "waiting").unwrap();
    let at = format!("{}", waiting["ms"].as_f64().unwrap() / 1000.0 + 0.5);
    let told = world.json(&["explain", "--recording", &cast, "--at", &at]);
    assert_eq!((&told["state"], &told["since_ms"]), (&json!("waiting"), &waiting["ms"]), "{told}");
    let sources: Vec<&Value> = told["evidence"].as_array().unwrap().iter().map(|e| &e["source"]).collect();
    assert_eq!(sources, ["status", "title", "screen"], "{told}");
    let page = world.ok(&["explain", "--recording", &cast, "--at", &at]);
    assert!(page.contains("any sign that it waits is enough") && page.contains("* status"), "{page}");
    let odd =
        world.write("odd.cast", "{\"version\": 2, \"width\": 80, \"height\": 24}\n").display().to_string();
    world.synapse(&["explain", "--recording", &odd]).fails(2, &["--profile"]);
    world.synapse(&["explain", "--recording", &cast, "--at", "nan"]).fails(2, &["seconds"]);
    world.synapse(&["explain"]).fails(2, &[]);
}

/// PTY-12: after its conversation was compacted, an agent gets the instructions for reaching others
/// again, without anything typed.
#[test]
fn after_a_compaction_the_lesson_is_given_again() {
    let mut stage = Stage::new(&[]);
    for source in ["startup", "resume", "clear"] {
        stage.hook("SessionStart", &json!({ "source": source }));
    }
    let event = json!({ "hook_event_name": "SessionStart", "session_id": "s-1", "source": "compact" });
    let ran = stage.order(&json!(["hook", event]));
    assert_eq!((&ran[0], &ran[1][0], &ran[1][2]), (&json!([0, "", ""]), &json!(0), &json!("")), "{ran}");
    let told: Value = serde_json::from_str(ran[1][1].as_str().unwrap()).unwrap();
    let told = &told["hookSpecificOutput"];
    assert_eq!(told["hookEventName"], "SessionStart");
    for part in ["shortened", "synapse inbox", "synapse reply", "synapse send"] {
        assert!(told["additionalContext"].as_str().unwrap().contains(part), "{part}: {told}");
    }
    assert_eq!(stage.view()["tells"]["last_event"], "SessionStart");
}
