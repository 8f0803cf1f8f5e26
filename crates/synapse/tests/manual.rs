//! Completions, manual pages and help are generated from the command line itself, and cost nothing
//! when unused (CLI-9).

use crate::world;
use std::path::Path;
use std::process::Command;
use synapse_testkit::{Ran, golden};

#[test]
fn every_shell_completes_every_command() {
    let world = world();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.ok(&["completions", shell]);
        for word in ["upgrade-agents", "doctor", "response", "uninstall", "keys"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        // Former names work, but nobody should learn them.
        assert!(!script.contains("unfollow"), "{shell} completes former names");
        assert!(!script.contains("__node"), "inner words are nobody's to complete");
    }
    world.synapse(&["completions", "csh"]).exits(2);
    assert!(!world.home().exists(), "nothing was made");
    // Bash accepts the script and completes a command.
    world.write("synapse.bash", &world.ok(&["completions", "bash"]));
    let script = "set -e; source ./synapse.bash; COMP_WORDS=(synapse upg); COMP_CWORD=1; \
                  _synapse synapse upg synapse; echo \"${COMPREPLY[@]}\"";
    let output = world.prepare(Command::new("bash"), &["-c", script]).output().unwrap();
    assert_eq!(Ran::new(&["bash"], output).ok().out(), "upgrade-agents");
}

#[test]
fn every_command_has_a_page() {
    let world = world();
    let first = world.ok(&["man"]);
    assert!(first.contains(".TH synapse 1") && first.contains("First steps"), "{first}");
    world.ok(&["man", "--dir", "pages/man1"]);
    let mut pages: Vec<String> = std::fs::read_dir(world.file("pages/man1"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let commands = [
        "send",
        "init",
        "doctor",
        "clean",
        "keys-token-rotate",
        "keys-certs-make",
        "a2a-add",
        "profile-record",
        "upgrade-agents",
        "completions",
        "man",
    ];
    for command in commands {
        assert!(pages.contains(&format!("synapse-{command}.1")), "{command}: {pages:?}");
        let page = world.read(&format!("pages/man1/synapse-{command}.1"));
        let has_own = command.contains('-') && !command.starts_with("upgrade");
        assert!(has_own || page.contains("Examples:"), "{command} has no examples: {page}");
    }
    assert!(!pages.iter().any(|page| page.contains("unfollow") || page.contains("uninstall")), "{pages:?}");
    assert!(pages.contains(&"synapse.1".to_owned()));
    world.synapse(&["man", "--dir", "/proc/none"]).fails(2, &["/proc/none"]);
}

/// Finding 27: bash asks the binary for names where a name may stand.
#[test]
fn bash_completes_agents_and_clis() {
    let world = world();
    world.run("shout", "tr a-z A-Z", &[]);
    world.run("gone", "cat", &[]);
    world.ok(&["kill", "gone"]);
    world.write("synapse.bash", &world.ok(&["completions", "bash"]));
    std::os::unix::fs::symlink(world.exe(), world.file("synapse")).unwrap();
    let complete = |words: &str, cword: usize| {
        let script = format!(
            "PATH=\"$PWD:$PATH\"; source ./synapse.bash; COMP_WORDS=({words}); COMP_CWORD={cword}; \
             _synapse_with_names synapse \"${{COMP_WORDS[{cword}]}}\" synapse; echo \" ${{COMPREPLY[*]}} \""
        );
        let output = world.prepare(Command::new("bash"), &["-c", &script]).output().unwrap();
        Ran::new(&["bash", &script], output).ok().stdout.trim_end_matches('\n').to_owned()
    };
    assert_eq!(complete("synapse cla", 1), " claude ");
    assert_eq!(complete("synapse send sh", 2), " shout ");
    assert_eq!(complete("synapse kill shout s", 3), " shout ");
    assert_eq!(complete("synapse send shout sh", 3), "  ", "the second word is the message");
    assert_eq!(complete("synapse keys token rotate sh", 4), " shout ");
    assert_eq!(complete("synapse profile record sh", 3), " shout ");
    assert_eq!(complete("synapse profile rec", 2), " record ");
    assert!(!complete("synapse ''", 1).contains("unfollow"));
    let all = complete("synapse attach ''", 2);
    assert!(all.contains(" shout ") && !all.contains("<AGENT>") && !all.contains("gone"), "{all}");
    let start = complete("synapse start ''", 2);
    assert!(start.ends_with(" gone ") && !start.contains("shout"), "{start}");
    assert!(complete("synapse rename ''", 2).ends_with(" gone shout "));
    assert!(complete("synapse run --na", 2).contains("--name"));
    for (shell, asks) in [
        ("zsh", ["_synapse_agents'", "Agent to start:_synapse_stopped'", "or stopped:_synapse_known'"]),
        ("fish", ["(synapse __complete agents", "(synapse __complete stopped", "(synapse __complete known"]),
    ] {
        let script = world.ok(&["completions", shell]);
        assert!(asks.iter().all(|asks| script.contains(asks)), "{shell}: {script}");
        assert!(script.contains("synapse __complete clis"), "{shell}");
        assert!(
            shell != "fish" || script.contains("profile; and __fish_seen_subcommand_from record\" -f -a")
        );
    }
}

/// Findings 14 and 26: the help page in groups, with the CLIs by name and without the flags of
/// calls by URL.
#[test]
fn golden_the_first_page_of_help() {
    let world = world();
    let first = world.ok(&["--help"]);
    golden::check(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help.txt"),
        &format!("{first}\n"),
    );
    assert!(first.lines().all(|line| line.chars().count() <= 100));
    assert_eq!(world.ok(&["-h"]), first);
    assert_eq!(world.ok(&["help"]), first);
    assert!(!first.contains("upgrade-agents") && world.ok(&["help", "--all"]).contains("upgrade-agents"));
    assert_eq!(world.ok(&["help", "remote", "add"]), world.ok(&["remote", "add", "--help"]));
    assert!(world.ok(&["send", "--help"]).contains("--token-file"));
    assert!(!world.ok(&["list", "--help"]).contains("--token-file"));
    world.synapse(&["help", "frobnicate"]).fails(2, &["frobnicate", "synapse --help"]);
}
