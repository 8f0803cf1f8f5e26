//! Commands that were merged into others: the new names do the same, and the former ones still work
//! and print the same, with `--json` too.

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::stranger::{CARD, Stranger, card, here, json_answer, not_found, result, task, text};
use synapse_testkit::{Ran, World};

fn run(world: &World, words: &str, json: bool) -> Ran {
    let args: Vec<&str> = words.split(' ').chain(json.then_some("--json")).collect();
    Ran::new(&args, world.command(&args).env("TMPDIR", world.folder()).output().unwrap())
}

/// Both names print the same and exit with the same code.
fn same(world: &World, former: &str, current: &str) {
    for json in [false, true] {
        let (old, new) = (run(world, former, json), run(world, current, json));
        assert_eq!((old.code, &old.stdout, &old.stderr), (new.code, &new.stdout, &new.stderr), "{former}");
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn former_names_do_the_same() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    world.ok(&["share", "busy", "--from", "shout"]);
    for (former, current) in [
        ("token show", "keys token show"),
        ("token show --path", "keys token show --path"),
        ("token rotate nobody", "keys token rotate nobody"),
        ("certs make --dir made", "keys certs make --dir made"),
        ("certs show made/server.pem", "keys certs show made/server.pem"),
        ("certs show nothing.pem", "keys certs show nothing.pem"),
        ("remote list", "a2a list"),
        ("remote show nothing", "a2a show nothing"),
        ("remote remove nothing", "a2a remove nothing"),
        ("remote refresh", "a2a refresh"),
        ("remote add x not-a-url", "a2a add x not-a-url"),
        ("record nobody", "profile record nobody"),
        ("record shout", "profile record shout"),
        ("unfollow shout", "follow shout --stop"),
        ("unfollow nobody", "follow nobody --stop"),
        ("uninstall", "clean --uninstall"),
        ("uninstall --dry-run", "clean --uninstall --dry-run"),
        ("uninstall --keep-mail --dry-run", "clean --uninstall --keep-mail --dry-run"),
    ] {
        // The first `certs make` writes the files, the next ones find them.
        if former.starts_with("certs make") {
            run(&world, former, false).ok();
        }
        same(&world, former, current);
    }
    assert_eq!(world.json(&["list"])[0]["name"], "shout", "nothing was removed");
}

/// Finding 11: one command has all there is to know of an agent.
#[test]
fn explain_shows_what_status_shows() {
    let world = world();
    let busy = "cat >/dev/null; while [ ! -e go ]; do sleep 0.02; done";
    let agent = world.run("slow", busy, &["--role", "Reviewer", "--skill", "rust"]);
    let task = world.send("slow", "one", &[]);
    world.send("slow", "two", &[]);
    world.wait_until("it works", || agent.task(&task)["state"] == "working");
    let (status, explained) = (world.json(&["status", "slow"]), world.json(&["explain", "slow"]));
    for (of_status, of_explain) in [
        ("agent_name", "agent"),
        ("agent_id", "agent_id"),
        ("agent_type", "type"),
        ("state", "state"),
        ("why", "why"),
        ("since", "since"),
        ("role", "role"),
        ("handle", "handle"),
        ("endpoint", "endpoint"),
        ("folder", "folder"),
        ("version", "version"),
        ("waiting", "waiting_count"),
        ("running", "running"),
        ("tasks", "tasks"),
    ] {
        assert!(!status[of_status].is_null(), "{of_status}: {status}");
        assert_eq!(status[of_status], explained[of_explain], "{of_status}: {explained}");
    }
    let page = world.ok(&["explain", "slow"]);
    for line in world.ok(&["status", "slow"]).lines() {
        let (name, value) = line.split_once("  ").unwrap();
        let value = if name == "state" { "busy" } else { value.trim() };
        let is_shown = |row: &str| row.starts_with(name) && row.contains(value);
        assert!(page.lines().any(is_shown), "{line:?} is not in\n{page}");
    }
    world.write("go", "");
    world.ok(&["kill", "slow"]);
    world.ok(&["send", "slow", "three"]);
    let stopped = world.json(&["explain", "slow"]);
    assert_eq!(
        (&stopped["running"], &stopped["type"], &stopped["waiting_count"], stopped.get("tasks")),
        (&json!(false), &json!("cat"), &json!(1), None),
        "{stopped}"
    );
    assert!(stopped["folder"].is_string() && stopped["log"].is_string(), "{stopped}");
}

#[test]
fn explain_knows_remotes_their_tasks_and_nodes() {
    let world = world();
    let stranger = Stranger::new(|heard, port| match (heard.path.as_str(), heard.method()) {
        (CARD, _) => json_answer(&card(&here(port, "/rpc"), false)),
        (_, "SendMessage" | "GetTask") => result(&match heard.method() {
            "GetTask" => task("TASK_STATE_COMPLETED", text("later")),
            _ => json!({ "task": task("TASK_STATE_SUBMITTED", json!([])) }),
        }),
        (_, "ListTasks") => {
            result(&json!({ "tasks": [task("TASK_STATE_WORKING", json!([]))], "totalSize": 1 }))
        }
        _ => not_found(),
    });
    world.ok(&["a2a", "add", "far", &stranger.url()]);
    let (status, explained) = (world.json(&["status", "far"]), world.json(&["explain", "far"]));
    assert_eq!((&explained["kind"], &explained["agent"]), (&json!("remote"), &json!("far")));
    for name in keys(&status).into_iter().filter(|name| *name != "agentName") {
        assert_eq!(status[name], explained[name], "{name}");
    }
    assert_eq!((&status["agentName"], explained.get("agentName")), (&json!("far"), None));
    assert_eq!(world.ok(&["status", "far"]), world.ok(&["explain", "far"]));

    let id = explained["tasks"][0]["task_id"].as_str().unwrap().to_owned();
    let of_task = world.json(&["explain", &format!("far/{id}")]);
    assert_eq!(
        (&of_task["kind"], &of_task["answer"]["text"]),
        (&json!("task"), &json!("later")),
        "{of_task}"
    );
    let url = stranger.url();
    assert_eq!(world.json(&["explain", &id, "--remote", &url])["state"], "completed");
    assert_eq!(world.json(&["status", &id, "--at", &url])["state"], "completed");
    world.synapse(&["cancel", &id, "--at", "nothing"]).fails(5, &["no remote", "synapse a2a list"]);

    let node = world.run("near", "cat", &[]);
    let url = format!("http://localhost:{}", node.port);
    let near = world.json(&["explain", &url]);
    assert_eq!((&near["kind"], &near["agent"]), (&json!("agent"), &json!("near")), "{near}");
    assert!(keys(&near).iter().all(|name| !name.contains(char::is_uppercase)), "{near}");
    assert_eq!(world.ok(&["status", &url]), world.ok(&["explain", &url]));
}

/// Finding 23: `uninstall --json` printed a sentence where there was nothing to remove.
#[test]
fn uninstalling_can_be_tried_and_is_json() {
    let world = world();
    let nothing = world.json(&["clean", "--uninstall", "--yes"]);
    assert_eq!((&nothing["stopped"], &nothing["removed"]), (&json!(0), &json!([])), "{nothing}");
    world.run("shout", "tr a-z A-Z", &[]);
    let plan = world.json(&["clean", "--uninstall", "--dry-run"]);
    assert_eq!((&plan["dry_run"], &plan["stopped"]), (&json!(true), &json!(1)), "{plan}");
    assert_eq!(world.json(&["list"])[0]["name"], "shout");
    world.synapse(&["clean", "--uninstall", "--stopped"]).fails(2, &["--stopped"]);
    world.synapse(&["clean", "--keep-mail"]).fails(2, &["--uninstall"]);
    let done = world.json(&["clean", "--uninstall", "--yes"]);
    assert_eq!((&done["stopped"], done.get("dry_run")), (&json!(1), None), "{done}");
    assert!(!world.home().exists());
}
