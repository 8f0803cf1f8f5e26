//! PTY-12: a watch acts on what an agent's terminal shows: it nudges an idle agent, and reports one
//! that waits for a person, is paused by its usage limit, or is wedged.

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::World;
use synapse_testkit::cli::Cli;
use synapse_testkit::program::Program;

fn watch(world: &World) -> Program {
    world.program(&["watch", "a", "--idle", "500ms", "--say", "go on", "--max", "1", "--json"])
}

/// The texts that the program got, without their headers.
fn given(cli: &Cli<'_>) -> Vec<String> {
    cli.given().iter().map(|text| text.split_once("] ").unwrap().1.trim_end().to_owned()).collect()
}

#[test]
fn one_that_is_idle_is_poked_and_only_so_often() {
    let world = world();
    let cli = Cli::start(&world, "a", &[]);
    let mut watch = watch(&world);
    let told = watch.next();
    assert_eq!((&told["poke"], &told["unfinished"]), (&json!(1), &Value::Null), "{told}");
    assert_eq!(watch.next()["pokes"], 1);
    assert!(watch.wait().success());
    cli.was_given(1);
    assert_eq!(given(&cli), ["go on"]);
}

#[test]
fn one_that_waits_for_a_person_is_told_of_and_left_alone() {
    let world = world();
    let cli = Cli::start(&world, "a", &[]);
    world.send("a", "ASK me", &[]);
    let hash = cli.prompt();
    let watch = watch(&world);
    let told = watch.next();
    assert_eq!(told["alert"], json!({ "seen": "waiting" }), "{told}");
    assert!(told["message"].as_str().unwrap().contains("synapse inbox --approvals"), "{told}");
    world.wait_until("the list of watches says so", || {
        world.json(&["watch", "--list"])[0]["seen"] == "waits for a person"
    });
    assert_eq!(given(&cli), ["ASK me"]);
    world.ok(&["deny", "a", "--prompt", &hash]);
    assert_eq!(watch.next()["poke"], 1, "now it is idle");
    cli.was_given(2);
    assert_eq!(given(&cli), ["ASK me", "go on"]);
    assert!(cli.all("approved").is_empty() && cli.all("pasted_into_prompt").is_empty(), "{:?}", cli.log());
}

#[test]
fn one_whose_limit_is_reached_is_paused_until_its_time() {
    let world = world();
    let cli = Cli::start(&world, "a", &[]);
    world.send("a", "LIMIT 15s", &[]);
    world.wait_until("the list says so", || {
        let listed = world.json(&["list"]);
        let why = listed[0]["why"].as_str().unwrap_or_default();
        listed[0]["state"] == "idle" && why.starts_with("paused until 20")
    });
    let watch = watch(&world);
    let told = watch.next();
    assert_eq!(told["alert"]["seen"], "paused", "{told}");
    assert!(told["alert"]["until"].as_str().unwrap().starts_with("20"), "{told}");
    world.send("a", "later", &[]);
    world.wait_until("the mail is held with that reason", || {
        world.ok(&["inbox", "a"]).contains("paused until 20")
    });
    let explained = world.ok(&["explain", "a"]);
    assert!(explained.contains("a is paused until 20") && explained.contains("usage limit"), "{explained}");
    let view = world.agent("a").get("/api/v1/terminal").json();
    assert!(view["paused"]["until"].is_string(), "{view}");
    assert_eq!(given(&cli), ["LIMIT 15s"], "nothing was typed meanwhile");
    cli.was_given(2);
    assert_eq!(given(&cli)[1], "later", "the mail comes first, when its time has come");
    assert_eq!(watch.next()["poke"], 1);
    cli.was_given(3);
    assert_eq!(given(&cli)[2], "go on");
}

#[test]
fn one_that_says_it_works_and_is_silent_is_wedged_and_not_poked() {
    let world = world();
    let cli = Cli::start(&world, "a", &["wedged=1500"]);
    world.send("a", "LONG work", &[]);
    cli.was_given(1);
    let watch = watch(&world);
    let told = watch.next();
    assert_eq!(told["alert"]["seen"], "wedged", "{told}");
    assert!(told["alert"]["silent_ms"].as_u64().unwrap() >= 1_500, "{told}");
    assert!(world.ok(&["list", "--json"]).contains("wedged"));
    let explained = world.ok(&["explain", "a"]);
    assert!(explained.contains("nothing has come from it"), "{explained}");
    // A person interrupts it, and it becomes idle.
    world.ok(&["send-keys", "a", "Escape"]);
    assert_eq!(watch.next()["poke"], 1);
    cli.was_given(2);
    assert_eq!(given(&cli), ["LONG work", "go on"]);
    assert_eq!(cli.all("interrupted").len(), 1);
}
