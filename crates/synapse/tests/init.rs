//! `synapse init` (PTY-13): files of others are changed only as was shown and agreed, and given back to the byte.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use synapse_testkit::{Ran, World, world::python};

const LESSON: &str = "synapse send <AGENT>";

fn world() -> World {
    World::new(env!("CARGO_BIN_EXE_synapse"))
}

fn mode(world: &World, name: &str) -> u32 {
    std::fs::metadata(world.file(name)).unwrap().permissions().mode() & 0o777
}

fn set_mode(world: &World, name: &str, mode: u32) {
    std::fs::set_permissions(world.file(name), std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_lesson_is_shown_then_written_then_taken_out() {
    let world = world();
    let shown = world.ok(&["init", "--dry-run"]);
    assert!(shown.contains("+++") && shown.contains(LESSON), "{shown}");
    assert!(!world.file("AGENTS.md").exists(), "a dry run writes nothing");
    world.synapse(&["init"]).fails(2, &["--yes", "nothing was written"]);
    assert!(!world.file("AGENTS.md").exists(), "nor does a pipe that nobody can be asked through");

    assert!(world.ok(&["init", "--yes"]).contains("created"));
    assert!(world.read("AGENTS.md").contains(LESSON));
    let before = world.read("AGENTS.md");
    assert!(world.ok(&["init", "--yes"]).contains("nothing to change"));
    assert!(world.ok(&["init"]).contains("nothing to change"), "and then nothing is asked");
    assert_eq!(world.read("AGENTS.md"), before);

    let rows = world.json(&["init", "--remove", "--yes"]);
    assert_eq!((&rows[0]["action"], &rows[0]["written"]), (&json!("deleted"), &json!(true)));
    assert!(!world.file("AGENTS.md").exists(), "it was made for the lesson alone");
    assert_eq!(world.json(&["init", "--remove", "--yes"]), json!([]));
}

#[test]
fn files_that_are_there_are_used_and_given_back() {
    let world = world();
    let (claude, gemini) = ("# Rules\r\n\r\nBe kind.", "\u{feff}Be brief.\n");
    world.write("CLAUDE.md", claude);
    world.write("GEMINI.md", gemini);
    set_mode(&world, "CLAUDE.md", 0o640);
    world.ok(&["init", "--yes"]);
    assert!(!world.file("AGENTS.md").exists());
    let taught = world.read("CLAUDE.md");
    assert!(
        taught.starts_with(claude) && taught.contains(LESSON) && !taught.replace("\r\n", "").contains('\n')
    );
    assert_eq!(mode(&world, "CLAUDE.md"), 0o640);
    // An older lesson becomes today's, and what was written around it stays.
    world.write("GEMINI.md", "a\n\n<!-- synapse:begin before=1 -->\nold\n<!-- synapse:end -->\nb\n");
    let updated = world.ok(&["init", "--yes", "--cli", "gemini"]);
    assert!(updated.contains("-old") && updated.contains("updated"), "{updated}");
    assert!(
        world.read("GEMINI.md").starts_with("a\n\n<!--") && world.read("GEMINI.md").ends_with("-->\nb\n")
    );
    world.ok(&["init", "--remove", "--yes"]);
    assert_eq!(world.read("CLAUDE.md"), claude);
    assert_eq!(world.read("GEMINI.md"), "a\nb\n");
    assert_eq!(mode(&world, "CLAUDE.md"), 0o640);
    let left: Vec<_> = std::fs::read_dir(world.folder()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "no draft is left: {left:?}");
}

#[test]
fn what_must_not_be_written_is_not() {
    let world = world();
    world.write("AGENTS.md", "mine\n");
    set_mode(&world, "AGENTS.md", 0o444);
    world.synapse(&["init", "--yes"]).fails(1, &["AGENTS.md", "read-only", "chmod u+w"]);
    assert_eq!(world.read("AGENTS.md"), "mine\n");
    set_mode(&world, "AGENTS.md", 0o644);

    world.write("AGENTS.md", "mine\n<!-- synapse:begin before=1 -->\n");
    for flags in [&["init", "--yes"][..], &["init", "--remove", "--yes"]] {
        world.synapse(flags).fails(1, &["AGENTS.md", "line 2", "ends nowhere"]);
    }
    // One bad file, and none is written.
    world.write("CLAUDE.md", "other\n");
    world.synapse(&["init", "--yes"]).exits(1);
    assert_eq!(world.read("CLAUDE.md"), "other\n");
    std::fs::remove_file(world.file("CLAUDE.md")).unwrap();

    let outside = world.home().with_file_name("outside.md");
    std::fs::write(&outside, "not yours\n").unwrap();
    std::fs::remove_file(world.file("AGENTS.md")).unwrap();
    symlink(&outside, world.file("AGENTS.md")).unwrap();
    world.synapse(&["init", "--yes"]).fails(1, &["AGENTS.md", "outside"]);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "not yours\n");
    std::fs::remove_file(&outside).unwrap();
    world.synapse(&["init", "--yes"]).fails(1, &["leads nowhere"]);
    world.synapse(&["init", "--cli", "emacs"]).exits(2);
}

#[test]
fn a_link_stays_a_link_and_its_file_has_one_lesson() {
    let world = world();
    world.write("AGENTS.md", "shared\n");
    symlink("AGENTS.md", world.file("CLAUDE.md")).unwrap();
    world.ok(&["init", "--yes"]);
    assert!(world.file("CLAUDE.md").symlink_metadata().unwrap().file_type().is_symlink());
    assert_eq!(world.read("AGENTS.md").matches("synapse:begin").count(), 1);
    world.ok(&["init", "--remove", "--yes"]);
    assert_eq!(world.read("AGENTS.md"), "shared\n");
}

#[test]
fn a_user_is_taught_once_for_all_projects() {
    let world = world();
    let person = world.file("person");
    std::fs::create_dir_all(person.join(".codex")).unwrap();
    let run = |args: &[&str]| {
        let mut command = world.command(args);
        for unset in ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"] {
            command.env_remove(unset);
        }
        Ran::new(args, command.env("HOME", &person).output().unwrap())
    };
    run(&["init", "--user", "--yes"]).ok();
    assert!(world.read("person/.codex/AGENTS.md").contains(LESSON));
    assert!(!person.join(".claude").exists(), "what is not installed is not taught");
    run(&["init", "--user", "--yes", "--cli", "claude,copilot,opencode,gemini"]).ok();
    let files = [
        ".claude/CLAUDE.md",
        ".copilot/copilot-instructions.md",
        ".config/opencode/AGENTS.md",
        ".gemini/GEMINI.md",
    ];
    for file in files {
        assert!(world.read(&format!("person/{file}")).contains(LESSON), "{file}");
    }
    run(&["init", "--user", "--remove", "--yes"]).ok();
    assert!(files.iter().all(|file| !person.join(file).exists()));
}

/// On a terminal a person is asked, and only a yes is a yes.
#[test]
fn a_person_is_asked() {
    const SCRIPT: &str = "\
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
seen = b''
while b'[y/N]' not in seen:
    seen += os.read(fd, 4096)
os.write(fd, sys.argv[1].encode() + b'\\n')
try:
    while os.read(fd, 4096):
        pass
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
    let world = world();
    let script = world.write("asked.py", SCRIPT);
    for (answer, code) in [("n", 5), ("", 5), ("yes", 0)] {
        let args = [script.to_str().unwrap(), answer, world.exe().to_str().unwrap(), "init"];
        let ran = world.prepare(Command::new(python()), &args).output().unwrap();
        Ran::new(&args, ran).exits(code);
        assert_eq!(world.file("AGENTS.md").exists(), code == 0, "{answer:?}");
    }
}
