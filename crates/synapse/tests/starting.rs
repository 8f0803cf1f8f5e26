//! X-2, X-3, PTY-1: how a CLI is started: with which words, beside one that runs, and again after it stopped.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use synapse_testkit::World;
use synapse_testkit::pty::Pty;

/// A CLI that writes down its arguments and stays.
const CLI: &str = "#!/bin/sh
case \"$*\" in
    --help) echo 'Usage: fake [--cd DIR] [--name NAME]'; exit ;;
    --version) echo 'fake 1.0'; exit ;;
esac
echo \"$@\" >> args
echo \"${CODEX_HOME-unset} in $PWD\" >> env
echo ready
exec cat
";

/// A world with a profile `fake`.
fn world() -> World {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let cli = world.write("fake-cli", CLI);
    std::fs::set_permissions(&cli, std::fs::Permissions::from_mode(0o755)).unwrap();
    let profiles = world.home().join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("fake.yaml"), format!("name: fake\ncommand: {}\n", cli.display())).unwrap();
    world
}

fn viewer(world: &World, args: &[&str]) -> Pty {
    Pty::start(&world.prepare(Command::new(world.exe()), args), 100, 30)
}

/// The arguments of each start of the CLI.
fn starts(world: &World, count: usize) -> Vec<String> {
    world.wait_until("the CLI has started", || world.lines("args").len() >= count);
    world.lines("args")
}

fn running(world: &World) -> usize {
    world.json(&["list"]).as_array().unwrap().len()
}

/// Finding 14.
#[test]
fn flags_of_ours_work_beside_those_of_the_cli() {
    let world = world();
    let mut count = 0;
    let mut check = |args: &[&str], given: &str| {
        world.ok(args);
        count += 1;
        assert_eq!(starts(&world, count).last().unwrap(), given, "{args:?}");
    };
    check(&["fake", "-d", "--name", "a", "--", "--model", "sonnet"], "--model sonnet");
    check(&["fake", "--model", "sonnet", "-d", "--name", "b"], "--model sonnet");
    check(&["fake", "-d", "--name=c", "--", "--name", "theirs", "-d"], "--name theirs -d");
    check(&["fake", "--cd", "/tmp", "-d", "--name", "d"], "--cd /tmp");
    world
        .synapse(&["fake", "-d", "--nmae", "e"])
        .fails(2, &["did you mean --name?", "synapse fake -- --nmae"]);
    world.synapse(&["fake", "-d", "--name"]).fails(2, &["--name"]);
    assert_eq!(running(&world), 4);
    let told = world.synapse(&["fake", "-d", "--name", "f", "--json"]).ok().json();
    assert_eq!(told["name"], "f", "{told}");
    world.synapse(&["fake"]).fails(5, &["already runs"]);
}

#[test]
fn help_of_a_profile_is_ours_and_that_of_the_cli_is_one_step_further() {
    let world = world();
    for words in [&["fake", "--help"][..], &["fake", "-h"], &["help", "fake"], &["fake", "-d", "--help"]] {
        let page = world.ok(words);
        assert!(page.contains("--detach") && page.contains("synapse fake -- --help"), "{words:?}: {page}");
    }
    assert!(world.ok(&["fake", "--", "--help"]).starts_with("Usage: fake"));
    assert_eq!(world.ok(&["fake", "--version"]), "fake 1.0");
    assert_eq!(running(&world), 0, "nothing was started");
    assert!(world.ok(&["help", "send"]).contains("synapse send"), "commands have their own");
    world.synapse(&["help", "fakk"]).fails(2, &["did you mean fake?"]);
}

/// Finding 8.
#[test]
fn a_second_one_in_the_folder_is_not_started_unasked() {
    let world = world();
    world.ok(&["fake", "-d"]);
    starts(&world, 1);
    for args in [&["fake", "-d"][..], &["fake"], &["fake", "-d", "--model", "x"]] {
        world.synapse(args).fails(5, &["already runs", "`synapse attach fake`", "`synapse fake --new`"]);
    }
    let ran = world.synapse(&["fake", "-d", "--json"]).exits(5);
    let told: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    let error = &told["error"];
    assert_eq!(error["code"], "already_running", "{told}");
    let commands = (&error["details"]["attach"], &error["details"]["start_another"]);
    assert_eq!(commands, (&json!("synapse attach fake"), &json!("synapse fake --new")), "{told}");
    // The same program by its path has the profile only under its own name.
    std::fs::rename(world.file("fake-cli"), world.file("fake")).unwrap();
    world.synapse(&["run", "-d", "--", "./fake", "a b"]).fails(5, &["synapse run --new -- ./fake 'a b'"]);
    assert_eq!((running(&world), world.lines("args").len()), (1, 1));
    world.ok(&["run", "-d", "--new", "--", "./fake", "--second"]);
    assert_eq!(starts(&world, 2)[1], "--second");
    // In another folder it is the first.
    std::fs::create_dir(world.file("sub")).unwrap();
    let sub = world.file("sub").display().to_string();
    world.ok(&["run", "-d", "--cwd", &sub, "--", world.file("fake").to_str().unwrap()]);
    assert_eq!(running(&world), 3);
}

#[test]
fn a_name_that_runs_here_is_not_started_twice() {
    let world = world();
    world.ok(&["fake", "-d", "--name", "review"]);
    starts(&world, 1);
    let ran = world.synapse(&["fake", "-d", "--name", "review"]);
    ran.fails(5, &["named review already runs", "synapse attach review"]);
    world.ok(&["fake", "-d", "--name", "second"]);
    world.ok(&["kill", "second"]);
    world.synapse(&["fake", "-d"]).fails(5, &["synapse attach review"]);
    world.ok(&["kill", "review"]);
    world.ok(&["fake", "-d"]);
    assert_eq!(starts(&world, 3).len(), 3);
}

/// Programs without a profile are not of one kind, whatever they are called.
#[test]
fn programs_without_a_profile_may_run_side_by_side() {
    let world = world();
    world.ok(&["run", "-d", "--", "sh", "-c", "sleep 600"]);
    world.ok(&["run", "-d", "--", "sh", "-c", "sleep 600"]);
    assert_eq!(running(&world), 2);
}

#[test]
fn a_person_is_asked_whether_to_attach() {
    let world = world();
    world.ok(&["fake", "-d"]);
    starts(&world, 1);
    let asked = |args: &[&str]| {
        let person = viewer(&world, args);
        person.wait_for("fake already runs in this folder");
        person.wait_for("Enter = attach");
        person
    };
    let mut person = asked(&["fake"]);
    person.keys("\r");
    person.wait_for("ready");
    person.keys("\u{2}d");
    let (status, text) = person.end();
    assert!(status.success(), "{text}");
    assert_eq!((running(&world), world.lines("args").len()), (1, 1), "{text}");

    let mut person = asked(&["fake", "--model", "x"]);
    person.wait_for("only if you start another one");
    person.keys("what?\r");
    person.keys("q\r");
    let (status, text) = person.end();
    assert!(status.code() == Some(5) && text.contains("nothing was started"), "{text}");

    let mut person = asked(&["fake"]);
    person.keys("\u{3}");
    assert!(!person.status().success());
    assert_eq!((running(&world), world.lines("args").len()), (1, 1));

    let mut person = asked(&["fake", "--model", "y"]);
    person.keys("n\r");
    assert_eq!(starts(&world, 2)[1], "--model y");
    person.wait_for("ready");
    person.keys("\u{2}d");
    person.end();
    assert_eq!(running(&world), 2);
}
