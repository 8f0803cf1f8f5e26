//! PTY-1: how a CLI is started: which words are ours, and which are for the CLI.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;
use synapse_testkit::World;

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
