//! How a person learns that an agent waits: the user's command, attached terminals, `synapse list
//! --watch`.

use crate::stage;
use serde_json::{Value, json};
use stage::Stage;
use std::path::PathBuf;
use synapse_terminal::{Screen, Size};
use synapse_testkit::pty::Pty;
use synapse_testkit::{World, processes};

/// A world whose user has a notifier: a shell script with this text, called with one argument.
fn world(script: &str) -> World {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let tell = executable(&world, "tell.sh", script);
    set(&world, &json!({ "notify": { "command": [tell, "-x"] } }));
    world
}

fn executable(world: &World, name: &str, script: &str) -> PathBuf {
    let file = world.write(name, &format!("#!/bin/sh\nfolder='{}'\n{script}\n", world.folder().display()));
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    file
}

fn set(world: &World, settings: &Value) {
    std::fs::create_dir_all(world.home()).unwrap();
    std::fs::write(world.home().join("settings.json"), settings.to_string()).unwrap();
}

impl Stage {
    /// Waits for this many audit lines about the notifier and returns them.
    fn notified(&self, count: usize) -> Vec<Value> {
        self.world.wait_for(&format!("{count} lines about the notifier"), || {
            let lines = self.world.ok(&["audit", "cli", "--verb", "notify", "--json"]);
            let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            // `[]` if there is none.
            let lines: Vec<Value> = lines.filter(Value::is_object).collect();
            (lines.len() >= count).then_some(lines)
        })
    }

    /// The prompt is answered, and the program continues.
    fn is_answered(&mut self) {
        self.hook("PostToolUse", &json!({ "tool_name": "Bash" }));
        self.order(&json!(["show", "working"]));
        self.becomes("busy");
    }
}

const TELL: &str = r#"printf '%s|' "$SYNAPSE_NOTIFY_KIND" "$SYNAPSE_NOTIFY_AGENT" "$SYNAPSE_NOTIFY_TEXT" \
    "$SYNAPSE_NOTIFY_APPROVE" "$SYNAPSE_NOTIFY_DENY" "$*" "$PWD" "${SYNAPSE_AGENT_ID-none}" "${CI_SECRET-none}" >> "$folder/told"
echo >> "$folder/told"
cat >> "$folder/input""#;

#[test]
fn command_runs_once_for_each_prompt_also_when_the_node_is_killed() {
    let world = world(TELL);
    let secret = json!({ "ci": { "env": "CI_SECRET", "role": "Lead" } });
    set(&world, &json!({ "notify": { "command": [world.file("tell.sh"), "-x"] }, "secrets": secret }));
    let mut stage = Stage::asking(world);
    let first = stage.wants_to_run("touch notes.txt");
    let hash = first["prompt"].as_str().unwrap();
    let line = stage.notified(1)[0].clone();
    assert_eq!(
        (&line["who"], &line["note"]),
        (&json!("node"), &json!("approval: tell.sh exited with code 0")),
        "{line}"
    );
    assert!(line["took_us"].as_u64().is_some() && line.get("code").is_none(), "{line}");
    let home = stage.world.home().canonicalize().unwrap();
    let told = format!(
        "approval|cli|cli asks to run: touch notes.txt|synapse approve cli --prompt {hash}|\
         synapse deny cli --prompt {hash}|-x|{}|none|none|",
        home.display()
    );
    assert_eq!(stage.world.lines("told"), [told]);
    let input: Value = serde_json::from_str(&stage.world.read("input")).unwrap();
    assert_eq!(
        (&input["kind"], &input["agent"], &input["prompt"]),
        (&json!("approval"), &json!("cli"), &first["prompt"])
    );
    assert_eq!(input["text"], "cli asks to run: touch notes.txt");
    // Kill the node twice, the second time before the new node can have seen the prompt again.
    for _ in 0..2 {
        stage.world.kill_node("cli");
    }
    stage.becomes("waiting");
    let again = stage.world.wait_for("the prompt is seen again", || {
        let pending = stage.world.entry("cli")?["pending"].clone();
        pending.is_object().then_some(pending)
    });
    assert_eq!(again["told_at_ms"], first["told_at_ms"]);
    stage.is_answered();
    stage.wants_to_run("touch other.txt");
    let lines = stage.notified(2);
    assert_eq!(lines.len(), 2, "{lines:?}");
    let told = stage.world.lines("told");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains("touch other.txt"), "{told:?}");
    let explained = stage.world.ok(&["explain", "cli"]);
    assert!(explained.contains("tell.sh exited with code 0"), "{explained}");
    assert!(
        !stage
            .world
            .home()
            .join("agents")
            .join(stage.world.agent("cli").id)
            .join("notify")
            .read_dir()
            .unwrap()
            .any(|_| true)
    );
}

/// The next node waits for the command that the killed node had started, and starts no second one.
#[test]
fn command_that_outlives_its_node_is_not_started_again() {
    let script =
        "echo started >> \"$folder/told\"\nread line < \"$folder/gate\"\necho $line >> \"$folder/told\"";
    let world = world(script);
    let made = std::process::Command::new("mkfifo").arg(world.file("gate")).status().unwrap();
    assert!(made.success());
    let mut stage = Stage::asking(world);
    stage.wants_to_run("touch notes.txt");
    stage.world.wait_until("the command runs", || stage.world.lines("told") == ["started"]);
    stage.world.kill_node("cli");
    // Open it at once: the command has only 10 seconds.
    std::fs::write(stage.world.file("gate"), "opened\n").unwrap();
    stage.becomes("waiting");
    let lines = stage.notified(1);
    assert_eq!(lines[0]["note"], "approval: tell.sh exited with code 0", "{lines:?}");
    stage.is_answered();
    stage.wants_to_run("touch other.txt");
    stage.world.wait_until("the next command runs", || stage.world.lines("told").len() == 3);
    assert_eq!(stage.world.lines("told"), ["started", "opened", "started"]);
    std::fs::write(stage.world.file("gate"), "opened\n").unwrap();
    assert_eq!(stage.notified(2).len(), 2);
}

/// The command runs below the agent, so it has only the agent's rights.
#[test]
fn command_cannot_approve_or_change_settings() {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let script = format!(
        "'{0}' approve cli --prompt \"${{SYNAPSE_NOTIFY_APPROVE##* }}\" > \"$folder/approve\" 2>&1; echo $? >> \"$folder/codes\"\n\
         '{0}' config set notify.bell false > \"$folder/config\" 2>&1; echo $? >> \"$folder/codes\"",
        world.exe().display()
    );
    let tell = executable(&world, "tell.sh", &script);
    set(&world, &json!({ "notify": { "command": [tell] } }));
    let mut stage = Stage::asking(world);
    let pending = stage.wants_to_run("touch notes.txt");
    stage.notified(1);
    let codes = stage.world.lines("codes");
    assert!(
        codes.len() == 2 && codes.iter().all(|code| code != "0"),
        "{codes:?} {}",
        stage.world.read("approve")
    );
    assert!(stage.world.read("approve").contains("cli may not approve"), "{}", stage.world.read("approve"));
    let settings = std::fs::read_to_string(stage.world.home().join("settings.json")).unwrap();
    assert!(!settings.contains("bell"), "{settings} {}", stage.world.read("config"));
    assert_eq!(stage.world.read("keys"), "", "nothing was pressed");
    assert_eq!(stage.world.entry("cli").unwrap()["pending"]["prompt"], pending["prompt"]);
}

/// A project may be cloned from anywhere, and its agents can write in it (H3).
#[test]
fn project_cannot_set_the_command() {
    let world = world("echo user >> \"$folder/told\"");
    let bad = executable(&world, "bad.sh", "echo project >> \"$folder/told\"");
    let mut stage = Stage::asking(world);
    let project = stage.world.file(".synapse");
    std::fs::create_dir_all(&project).unwrap();
    let settings = json!({ "notify": { "command": [bad], "bell": false } });
    std::fs::write(project.join("settings.json"), settings.to_string()).unwrap();
    let file = stage.world.agent_dir(&stage.world.agent("cli").id).join("log");
    let log = || std::fs::read_to_string(&file).unwrap_or_default();
    stage.world.wait_until("the node names what it ignores", || {
        // A node reloads its settings when it handles a request.
        stage.world.ok(&["status", "cli"]);
        log().contains("notify guards this machine")
    });
    stage.wants_to_run("touch notes.txt");
    stage.notified(1);
    assert_eq!(stage.world.lines("told"), ["user"]);
    let named = log().lines().filter(|line| line.contains("notify guards this machine")).count();
    assert_eq!(named, 1, "{}", log());
    let shown = stage.world.synapse(&["config", "show", "notify.command"]);
    assert!(!shown.stdout.contains("bad.sh"), "{shown:?}");
}

#[test]
fn failure_is_recorded_and_a_command_that_hangs_is_ended() {
    let script = "case \"$SYNAPSE_NOTIFY_TEXT\" in\n*fail*) echo 'no \u{1b}[31mbus' >&2; exit 3;;\nesac\n\
                  sleep 600 & echo $! > \"$folder/left\"; echo $$ > \"$folder/hangs\"; exec sleep 600";
    let mut stage = Stage::asking(world(script));
    stage.wants_to_run("fail");
    let line = stage.notified(1)[0].clone();
    assert_eq!(line["code"], "notify_failed", "{line}");
    assert_eq!(line["note"], "approval: tell.sh exited with code 3", "{line}");
    let explained = stage.world.ok(&["explain", "cli"]);
    assert!(explained.contains("tell.sh exited with code 3: no bus"), "{explained}");
    stage.is_answered();
    stage.wants_to_run("hang");
    let line = stage.notified(2)[1].clone();
    assert_eq!(line["note"], "approval: tell.sh did not end within 10000 ms", "{line}");
    for file in ["left", "hangs"] {
        let pid = stage.world.read(file).trim().parse().unwrap();
        assert!(!processes::is_alive(pid), "{file}");
    }
}

#[test]
fn command_that_cannot_be_started_is_recorded() {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    set(&world, &json!({ "notify": { "command": ["/no/such/tell"] } }));
    let mut stage = Stage::asking(world);
    stage.wants_to_run("touch notes.txt");
    let line = stage.notified(1)[0].clone();
    assert_eq!(line["code"], "notify_failed", "{line}");
    assert!(line["note"].as_str().unwrap().contains("command not found"), "{line}");
}

/// A person at the terminal of another agent, which prints something and waits.
fn person_at_another(stage: &Stage) -> Pty {
    let program = "printf 'hello\\r\\n'; while read line; do printf 'got %s\\r\\n' \"$line\"; done";
    stage.world.ok(&["run", "-d", "--name", "other", "--", "sh", "-c", program]);
    let person = Pty::start(&stage.world.command(&["attach", "other"]), 100, 30);
    person.wait_for("hello");
    person
}

fn bells(person: &Pty) -> usize {
    person.bytes().iter().filter(|byte| **byte == 7).count()
}

/// The rows that the person sees after these bytes.
fn rows(bytes: &[u8]) -> Vec<String> {
    let mut screen = Screen::new(Size::new(100, 30), 0);
    screen.feed(bytes, &mut Vec::new());
    screen.rows()
}

#[test]
fn attached_terminal_of_another_agent_rings_and_shows_a_notice_once_per_prompt() {
    let mut stage = Stage::asking(World::new(env!("CARGO_BIN_EXE_synapse")));
    let mut person = person_at_another(&stage);
    let own = Pty::start(&stage.world.command(&["attach", "cli"]), 120, 40);
    own.wait_for("> ready");
    stage.wants_to_run("touch notes.txt");
    person.wait_for("cli waits for you (synapse approve cli): asks to run: touch notes.txt");
    own.wait_until("its own terminal rings", |bytes| {
        bytes.contains(&7).then_some(()).ok_or_else(String::new)
    });
    assert!(!own.text().contains("waits for you"), "it shows the prompt itself");
    let shown = rows(&person.bytes());
    assert!(shown[0].starts_with("hello"), "{shown:?}");
    assert!(shown[29].contains("cli waits for you"), "{shown:?}");
    assert_eq!(bells(&person), 1);
    // The program continues below the notice, and a restart of the node does not repeat it.
    person.keys("abc\r");
    person.wait_for("got abc");
    stage.world.kill_node("cli");
    stage.becomes("waiting");
    stage.is_answered();
    stage.wants_to_run("touch other.txt");
    person.wait_for("asks to run: touch other.txt");
    assert_eq!(bells(&person), 2);
    stage.world.wait_until("its own terminal has rung again", || bells(&own) == 2);
    person.wait_until("the notice goes, and the program's line is there again", |bytes| {
        let rows = rows(bytes);
        if rows[29].trim().is_empty() && rows[0].starts_with("hello") { Ok(()) } else { Err(rows.join("\n")) }
    });
}

#[test]
fn bell_can_be_turned_off() {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let tell = executable(&world, "tell.sh", "echo told >> \"$folder/told\"");
    set(&world, &json!({ "notify": { "bell": false, "command": [tell] } }));
    let mut stage = Stage::asking(world);
    let mut person = person_at_another(&stage);
    stage.wants_to_run("touch notes.txt");
    stage.notified(1);
    stage.is_answered();
    // Only the second prompt rings the bell.
    stage.world.ok(&["config", "set", "notify.bell", "true"]);
    stage.wants_to_run("touch other.txt");
    person.wait_for("cli waits for you (synapse approve cli): asks to run: touch other.txt");
    assert_eq!(bells(&person), 1);
    assert!(!person.text().contains("notes.txt"));
    person.keys("\u{1c}d");
}

/// A bell inside an image or a title would end the sequence, and its rest would be shown as text.
#[test]
fn bell_is_not_put_into_a_sequence_of_the_program() {
    const BEGIN: &str = "\u{1b}]52;c;";
    let mut stage = Stage::asking(World::new(env!("CARGO_BIN_EXE_synapse")));
    let program = "stty -echo; printf 'hello\\r\\n'; read line; printf '\\033]52;c;'; head -c 5000 /dev/zero | tr '\\0' x
                   read line; printf 'xxxx\\007done\\r\\n'; read line";
    stage.world.ok(&["run", "-d", "--name", "other", "--", "sh", "-c", program]);
    let mut person = Pty::start(&stage.world.command(&["attach", "other"]), 100, 30);
    person.wait_for("hello");
    person.keys("\r");
    person.wait_for(&format!("{BEGIN}{}", "x".repeat(4000)));
    let own: Vec<Pty> =
        (0..3).map(|_| Pty::start(&stage.world.command(&["attach", "cli"]), 120, 40)).collect();
    own.iter().for_each(|own| own.wait_for("> ready"));
    stage.wants_to_run("touch notes.txt");
    // By then the person's viewer has the notice too.
    own.iter().for_each(|own| {
        own.wait_until("it rings", |bytes| bytes.contains(&7).then_some(()).ok_or_else(String::new))
    });
    person.keys("\r");
    person.wait_for("cli waits for you");
    let text = person.text();
    let (_, after) = text.split_once(BEGIN).unwrap();
    let (within, _) = after.split_once('\u{7}').unwrap();
    assert!(
        within.bytes().all(|byte| byte == b'x') && within.len() == 5004,
        "{} {:?}",
        within.len(),
        within.get(4990..)
    );
}

#[test]
fn list_that_watches_shows_what_is_asked_and_the_commands() {
    let mut stage = Stage::asking(World::new(env!("CARGO_BIN_EXE_synapse")));
    let program = stage.world.program(&["list", "--watch", "--json"]);
    assert_eq!(program.next()["change"], "here");
    let mut person = Pty::start(&stage.world.command(&["list", "--watch"]), 200, 30);
    person.wait_for("cli");
    let pending = stage.wants_to_run("touch notes.txt");
    let hash = pending["prompt"].as_str().unwrap();
    let row = loop {
        let change = program.next();
        if change["agent"]["asks"].is_string() {
            break change["agent"].clone();
        }
    };
    assert_eq!(
        (&row["asks"], &row["state"]),
        (&json!("asks to run: touch notes.txt"), &json!("waiting")),
        "{row}"
    );
    assert_eq!(row["approve"], format!("synapse approve cli --prompt {hash}"), "{row}");
    assert_eq!(row["deny"], format!("synapse deny cli --prompt {hash}"), "{row}");
    person.wait_for("asks to run: touch notes.txt");
    person.wait_for(&format!("synapse approve cli --prompt {hash}   or   synapse deny cli --prompt {hash}"));
    person.wait_until("it rings", |bytes| bytes.contains(&7).then_some(()).ok_or_else(String::new));
    assert_eq!(bells(&person), 1);
    person.keys("\u{3}");
}
