//! The audit log of a real agent (REST-9): what it records, what it never records, and how it shows
//! tampering.

use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use synapse_testkit::World;
use synapse_testkit::http::{Answer, Connection, Door};

const EXE: &str = env!("CARGO_BIN_EXE_synapse");
const SECRET: &str = "the-launch-code-is-0000";

fn small(world: &World, bodies: bool) {
    std::fs::create_dir_all(world.home()).unwrap();
    let chosen = json!({ "audit": { "file_bytes_max": 16384, "files_max": 4, "bodies": bodies } });
    std::fs::write(world.home().join("settings.json"), chosen.to_string()).unwrap();
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(world.home(), closed).unwrap();
}

/// The lines that `synapse audit` prints.
fn lines(world: &World, more: &[&str]) -> Vec<Value> {
    let mut args = vec!["audit", "--json"];
    args.extend(more);
    let lines = world.ok(&args);
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    // `[]` if there is none.
    lines.filter(Value::is_object).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = all.filter(|path| path.extension().is_some_and(|e| e == "jsonl")).collect();
    all.sort();
    all
}

fn verify(world: &World, name: &str) -> Value {
    let ran = world.synapse(&["audit", "verify", name, "--json"]);
    assert_eq!(ran.code, Some(if ran.json()["ok"] == true { 0 } else { 1 }), "{ran}");
    ran.json()
}

/// Sends one more request on an open connection.
fn on(connection: &mut Connection, door: &Door, method: &str, path: &str, body: &[u8]) -> Answer {
    connection.say(&door.head(method, path, &[], Some(body.len())));
    connection.say_bytes(body);
    connection.answer()
}

#[test]
fn who_did_what_is_written_down_and_what_was_said_is_not() {
    let world = World::new(EXE);
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    world.ok(&["send", "shout", SECRET, "--response"]);
    world.ok(&["send", "shout", "again", "--message-id", "m-1"]);
    world.synapse(&["cancel", "00000000"]).exits(5);
    let bearer = agent.bearer();
    let long = json!({ "message": SECRET, "priority": 77 }).to_string();
    let path = format!("/message?token={SECRET}");
    assert_eq!(agent.tcp().ask("POST", &path, &[("Authorization", &bearer)], long.as_bytes()).status, 400);
    let answer = agent.tcp().ask("POST", "/api/v1/stop", &[("Authorization", "Bearer no")], b"");
    assert_eq!(answer.status, 401);
    assert_eq!(agent.get("/status").status, 200);
    world.wait_until("all of it is written down", || lines(&world, &["shout", "--verb", "stop"]).len() == 1);

    let all = lines(&world, &["shout"]);
    let of = |verb: &str| all.iter().filter(|l| l["verb"] == verb).cloned().collect::<Vec<_>>();
    assert_eq!(of("start").len(), 1, "{all:?}");
    assert_eq!(of("read").len(), 0, "reads are only counted");
    let sent = of("send");
    assert_eq!(sent.len(), 3, "{all:?}");
    let (first, second, bad) = (&sent[0], &sent[1], &sent[2]);
    assert_eq!(
        (&first["who"], &first["proof"], &first["status"]),
        (&json!("user"), &json!("socket"), &json!(200))
    );
    assert!(first["bytes"].as_u64().unwrap() > 0 && first["digest"].as_str().unwrap().len() == 64, "{first}");
    assert!(
        first["took_us"].is_u64() && first["request"].is_string() && first["task"].is_string(),
        "{first}"
    );
    assert_eq!(second["path"], "/message");
    assert_eq!(
        (&bad["status"], &bad["code"], &bad["proof"]),
        (&json!(400), &json!("bad_field"), &json!("token"))
    );
    let stopped = &of("stop")[0];
    assert_eq!((&stopped["who"], &stopped["status"]), (&json!("stranger"), &json!(401)));
    assert_eq!(of("ended")[0]["note"], "completed");
    let refused = lines(&world, &["shout", "--refused"]);
    assert!(refused.iter().all(|line| line["code"].is_string()) && refused.len() >= 2, "{refused:?}");
    assert_eq!(lines(&world, &["--who", "STRANGER"]).len(), 1);
    assert_eq!(lines(&world, &["--max", "2"]).len(), 2);
    assert!(lines(&world, &["--since", "2200-01-01T00:00:00Z"]).is_empty());
    let shown = world.ok(&["audit", "shout"]);
    assert!(shown.contains("401 not_proven") && shown.contains("start"), "{shown}");

    world.ok(&["kill", "shout"]);
    let dir = world.agent_dir(&agent.id).join("audit");
    let text = std::fs::read_to_string(&files(&dir)[0]).unwrap();
    assert!(!text.contains(SECRET) && !text.contains(&world.token()), "{text}");
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&last["door"], &last["verb"]), (&json!("node"), &json!("stop")));
    let report = verify(&world, "shout");
    assert_eq!((&report["after_head"], &report["notes"]), (&json!(0), &json!([])));
    assert!(world.ok(&["audit", "verify", "--all"]).starts_with("shout: ok, "));
}

#[test]
fn bodies_are_written_down_if_the_person_chose_so() {
    let world = World::new(EXE);
    small(&world, true);
    world.run("shout", "tr a-z A-Z", &[]);
    world.ok(&["send", "shout", SECRET, "--response"]);
    world.wait_until("the answer is there as well", || {
        let all = lines(&world, &["shout"]);
        let says =
            |text: &str| all.iter().any(|line| line["body"].as_str().is_some_and(|b| b.contains(text)));
        says(SECRET) && says(&SECRET.to_uppercase())
    });
    assert_eq!(verify(&world, "shout")["ok"], true);
}

#[test]
fn letters_of_a_stream_and_of_the_spool_have_a_line_each() {
    let world = World::new(EXE);
    let agent = world.run("keeper", "cat", &[]);
    let mut connection = agent.unix().connect();
    connection.say(&agent.unix().head("POST", "/api/v1/stream", &[("Transfer-Encoding", "chunked")], None));
    let good: Vec<String> =
        (0..5).map(|n| json!({ "message": "x", "message_id": format!("s-{n}") }).to_string()).collect();
    for line in good.iter().map(String::as_str).chain(["{broken", r#"{"message":"x","target":"nobody"}"#]) {
        connection.say(&format!("{:x}\r\n{line}\n\r\n", line.len() + 1));
    }
    connection.say("0\r\n\r\n");
    assert_eq!(connection.answer().status, 200);
    let new = world.agent_dir(&agent.id).join("spool").join("new");
    // Writes as every writer of a spool does: with a rename, so that the node never reads half a
    // file.
    let put = |name: &str, text: &str| {
        let whole = world.write(name, text);
        std::fs::rename(whole, new.join(name)).unwrap();
    };
    put("no-letter", "what?");
    let letter = json!({
        "v": 1, "from": { "who": "user", "label": "user", "proof": "socket" }, "request": { "message": "by file" },
    });
    put("a-letter", &letter.to_string());
    world.wait_until("each has its line", || {
        let all = lines(&world, &[]);
        let count =
            |door: &str, code: &Value| all.iter().filter(|l| l["door"] == door && l["code"] == *code).count();
        let none = &Value::Null;
        (
            count("stream", none),
            count("stream", &json!("bad_field")),
            count("stream", &json!("no_such_agent")),
        ) == (5, 1, 1)
            && (count("spool", none), count("spool", &json!("bad_field"))) == (1, 1)
    });
    let by_file = lines(&world, &["--verb", "send"]).into_iter().find(|l| l["door"] == "spool").unwrap();
    assert_eq!((&by_file["proof"], by_file["task"].is_string()), (&json!("spool"), true));
}

#[test]
fn load_rotates_the_files_and_what_is_done_to_them_afterwards_shows() {
    let world = World::new(EXE);
    small(&world, false);
    let agent = world.run("sink", "cat", &["--parallel", "8"]);
    let dir = world.agent_dir(&agent.id).join("audit");
    std::thread::scope(|scope| {
        for sender in 0..4 {
            let agent = &agent;
            scope.spawn(move || {
                let mut connection = agent.unix().connect();
                for n in 0..60 {
                    let body = json!({ "message": format!("{sender} {n}"), "priority": 1 }).to_string();
                    let answer = on(&mut connection, &agent.unix(), "POST", "/message", body.as_bytes());
                    assert_eq!(answer.status, 200, "{}", answer.text());
                }
            });
        }
    });
    world.wait_until("it is written down, in as many files as may be", || files(&dir).len() == 4);
    assert_eq!(verify(&world, "sink")["ok"], true);
    world.ok(&["kill", "sink"]);
    let report = verify(&world, "sink");
    assert_eq!((&report["ok"], report["last"]["seq"].as_u64() > Some(240)), (&json!(true), true), "{report}");

    let all = files(&dir);
    let damage = |path: &Path, change: &dyn Fn(&mut Vec<String>), what: &str| {
        let before = std::fs::read(path).unwrap();
        let text = String::from_utf8(before.clone()).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        std::fs::write(path, lines.iter().map(|l| format!("{l}\n")).collect::<String>()).unwrap();
        let report = verify(&world, "sink");
        assert_eq!(report["problem"]["what"], what, "{report}");
        std::fs::write(path, before).unwrap();
        report["problem"].clone()
    };
    let edited = damage(&all[1], &|l| l[2] = l[2].replace("user", "nobody"), "edited");
    assert_eq!((&edited["line"], edited["file"].as_str()), (&json!(3), all[1].file_name().unwrap().to_str()));
    damage(&all[1], &|l| l.truncate(5), "missing");
    damage(&all[1], &|l| drop(l.drain(3..6)), "missing");
    damage(&all[1], &|l| l.swap(1, 2), "reordered");
    damage(&all[3], &|l| drop(l.pop()), "cut_off");
    damage(
        &all[3],
        &|l| {
            let last = l.len() - 1;
            l[last] = l[last].replace("node", "user")
        },
        "edited",
    );
    assert_eq!(verify(&world, "sink")["ok"], true, "all is as it was");
    let kept = std::fs::read(&all[2]).unwrap();
    std::fs::remove_file(&all[2]).unwrap();
    let told = world.synapse(&["audit", "verify", "sink"]).exits(1);
    assert!(told.stdout.contains("missing lines"), "{told}");
    std::fs::write(&all[2], kept).unwrap();
    world.synapse(&["audit", "verify", "--file", all[2].to_str().unwrap()]).exits(0);
}

#[test]
fn a_kill_in_the_middle_breaks_no_chain() {
    let world = World::new(EXE);
    let agent = world.run("sink", "cat", &[]);
    let dir = world.agent_dir(&agent.id).join("audit");
    world.wait_until("it has begun", || !files(&dir).is_empty());
    for _ in 0..3 {
        world.send("sink", "x", &["-p", "1"]);
        world.kill_node("sink");
        world.send("sink", "y", &["-p", "1"]);
    }
    // A kill hardly ever tears a line, so tear one by hand.
    let before = world.agent("sink").node_pid;
    let torn = b"{\"seq\":99,\"prev\":\"5e";
    let last = files(&dir).pop().unwrap();
    world.wait_until("the next node has begun its log", || lines(&world, &["--verb", "start"]).len() == 4);
    synapse_testkit::processes::kill9(world.agent("sink").pid);
    world.wait_until("all of it is gone", || !synapse_testkit::processes::is_alive(before));
    std::fs::OpenOptions::new().append(true).open(&last).unwrap().write_all(torn).unwrap();
    let report = verify(&world, "sink");
    assert!(report["notes"].to_string().contains("torn"), "{report}");
    world.run("sink", "cat", &[]);
    world.wait_until("the next node has chained over it", || lines(&world, &["--verb", "start"]).len() == 5);
    let report = verify(&world, "sink");
    assert_eq!(report["ok"], true, "{report}");
    assert!(report["notes"].to_string().contains("torn: 20 bytes"), "{report}");
    let starts = lines(&world, &["--verb", "start"]);
    assert!(
        starts[1..4].iter().all(|l| l["note"].as_str().unwrap().contains("did not stop in order")),
        "{starts:?}"
    );
}

#[test]
fn strangers_are_counted_rather_than_fill_the_log() {
    let world = World::new(EXE);
    let agent = world.run("shout", "cat", &[]);
    let door = agent.tcp();
    let mut connection = door.connect();
    for _ in 0..200 {
        let answer = on(&mut connection, &door, "GET", "/api/v1/tasks", b"");
        assert_eq!(answer.status, 401);
    }
    world.ok(&["kill", "shout"]);
    let refused = lines(&world, &["--refused"]);
    assert!((50..120).contains(&refused.len()), "{}", refused.len());
    let all = lines(&world, &[]);
    let told: u64 = all.iter().map(|line| line["more"].as_u64().unwrap_or(0)).sum();
    assert_eq!(refused.len() as u64 + told, 200, "the others are counted");
}
