//! `synapse init` (PTY-13): changes other programs' files only as shown and confirmed, and restores
//! them byte for byte.

use crate::world;
use serde_json::json;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;
use synapse_testkit::pty::Pty;
use synapse_testkit::{Ran, World, world::python};

const LESSON: &str = "synapse send <AGENT>";

/// A PATH with only the CLIs of the test.
fn path(world: &World) -> PathBuf {
    world.folder().with_file_name("bin")
}

fn install(world: &World, clis: &[&str]) {
    std::fs::create_dir_all(path(world)).unwrap();
    for cli in clis {
        let file = path(world).join(cli);
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn init(world: &World, args: &[&str]) -> Ran {
    let mut command = world.command(args);
    Ran::new(args, command.env("PATH", path(world)).output().unwrap())
}

fn ok(world: &World, args: &[&str]) -> String {
    init(world, args).ok().out()
}

fn json_of(world: &World, args: &[&str]) -> serde_json::Value {
    init(world, &[args, &["--json"]].concat()).ok().json()
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
    let shown = ok(&world, &["init", "--dry-run"]);
    assert!(shown.contains("+++") && shown.contains(LESSON), "{shown}");
    assert!(!world.file("AGENTS.md").exists(), "a dry run writes nothing");
    init(&world, &["init"]).fails(2, &["--yes", "nothing was written"]);
    assert!(!world.file("AGENTS.md").exists(), "nor does a pipe that nobody can be asked through");

    assert!(ok(&world, &["init", "--yes"]).contains("created"));
    assert!(world.read("AGENTS.md").contains(LESSON));
    let before = world.read("AGENTS.md");
    assert!(ok(&world, &["init", "--yes"]).contains("nothing to change"));
    assert!(ok(&world, &["init"]).contains("nothing to change"), "and then nothing is asked");
    assert_eq!(world.read("AGENTS.md"), before);

    let rows = json_of(&world, &["init", "--remove", "--yes"]);
    assert_eq!((&rows[0]["action"], &rows[0]["written"]), (&json!("deleted"), &json!(true)));
    assert!(!world.file("AGENTS.md").exists(), "it was made for the lesson alone");
    assert_eq!(json_of(&world, &["init", "--remove", "--yes"]), json!([]));
}

#[test]
fn files_that_are_there_are_used_and_given_back() {
    let world = world();
    let (claude, gemini) = ("# Rules\r\n\r\nBe kind.", "\u{feff}Be brief.\n");
    world.write("CLAUDE.md", claude);
    world.write("GEMINI.md", gemini);
    set_mode(&world, "CLAUDE.md", 0o640);
    ok(&world, &["init", "--yes"]);
    assert!(!world.file("AGENTS.md").exists());
    let taught = world.read("CLAUDE.md");
    assert!(
        taught.starts_with(claude) && taught.contains(LESSON) && !taught.replace("\r\n", "").contains('\n')
    );
    assert_eq!(mode(&world, "CLAUDE.md"), 0o640);
    // An older lesson is replaced with today's, and the text around it stays.
    world.write("GEMINI.md", "a\n\n<!-- synapse:begin before=1 -->\nold\n<!-- synapse:end -->\nb\n");
    let updated = ok(&world, &["init", "--yes", "--cli", "gemini"]);
    assert!(updated.contains("-old") && updated.contains("updated"), "{updated}");
    assert!(
        world.read("GEMINI.md").starts_with("a\n\n<!--") && world.read("GEMINI.md").ends_with("-->\nb\n")
    );
    ok(&world, &["init", "--remove", "--yes"]);
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
    init(&world, &["init", "--yes"]).fails(1, &["AGENTS.md", "read-only", "chmod u+w"]);
    assert_eq!(world.read("AGENTS.md"), "mine\n");
    set_mode(&world, "AGENTS.md", 0o644);

    world.write("AGENTS.md", "mine\n<!-- synapse:begin before=1 -->\n");
    for flags in [&["init", "--yes"][..], &["init", "--remove", "--yes"]] {
        init(&world, flags).fails(1, &["AGENTS.md", "line 2", "ends nowhere"]);
    }
    // One bad file, and none is written.
    world.write("CLAUDE.md", "other\n");
    init(&world, &["init", "--yes"]).exits(1);
    assert_eq!(world.read("CLAUDE.md"), "other\n");
    std::fs::remove_file(world.file("CLAUDE.md")).unwrap();

    let outside = world.home().with_file_name("outside.md");
    std::fs::write(&outside, "not yours\n").unwrap();
    std::fs::remove_file(world.file("AGENTS.md")).unwrap();
    symlink(&outside, world.file("AGENTS.md")).unwrap();
    init(&world, &["init", "--yes"]).fails(1, &["AGENTS.md", "outside"]);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "not yours\n");
    std::fs::remove_file(&outside).unwrap();
    init(&world, &["init", "--yes"]).fails(1, &["leads nowhere"]);
    init(&world, &["init", "--cli", "emacs"]).exits(2);
}

#[test]
fn a_link_stays_a_link_and_its_file_has_one_lesson() {
    let world = world();
    world.write("AGENTS.md", "shared\n");
    symlink("AGENTS.md", world.file("CLAUDE.md")).unwrap();
    ok(&world, &["init", "--yes"]);
    assert!(world.file("CLAUDE.md").symlink_metadata().unwrap().file_type().is_symlink());
    assert_eq!(world.read("AGENTS.md").matches("synapse:begin").count(), 1);
    ok(&world, &["init", "--remove", "--yes"]);
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

/// On a terminal a person is asked, and only "yes" confirms.
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
        let mut command = world.prepare(Command::new(python()), &args);
        let ran = command.env("PATH", path(&world)).output().unwrap();
        Ran::new(&args, ran).exits(code);
        assert_eq!(world.file("AGENTS.md").exists(), code == 0, "{answer:?}");
    }
}

/// Finding 13: each installed CLI reads its own file.
#[test]
fn every_installed_cli_is_taught() {
    let world = world();
    install(&world, &["claude", "codex", "gemini", "qwen", "git"]);
    world.write("GEMINI.md", "mine\n");
    let told = ok(&world, &["init", "--yes"]);
    for file in ["CLAUDE.md", "AGENTS.md", "GEMINI.md", "QWEN.md"] {
        assert!(world.read(file).contains(LESSON), "{file}: {told}");
    }
    assert!(told.contains("MCP tools for claude, codex, gemini, qwen: synapse init --mcp"), "{told}");
    assert!(!world.file(".mcp.json").exists(), "tools are only offered");
    ok(&world, &["init", "--remove", "--yes"]);
    assert_eq!(world.read("GEMINI.md"), "mine\n");
    assert!(!world.file("CLAUDE.md").exists() && !world.file("QWEN.md").exists());
    // With `--cli`, only the named ones.
    let told = ok(&world, &["init", "--yes", "--cli", "qwen"]);
    assert!(!world.file("CLAUDE.md").exists() && !told.contains("MCP"), "{told}");
}

#[test]
fn a_person_is_offered_the_tools_once() {
    let world = world();
    install(&world, &["claude", "codex"]);
    // `setsid`, which starts a program in a terminal, must be on the same path.
    let folders = std::env::var_os("PATH").unwrap();
    let setsid = std::env::split_paths(&folders).map(|folder| folder.join("setsid"));
    symlink(setsid.into_iter().find(|file| file.is_file()).unwrap(), path(&world).join("setsid")).unwrap();
    let run = |answers: &[(&str, &str)]| {
        let mut command = world.prepare(Command::new(world.exe()), &["init"]);
        command.env("PATH", path(&world));
        let mut person = Pty::start(&command, 100, 40);
        for (question, answer) in answers {
            person.wait_for(question);
            person.forget();
            person.keys(answer);
        }
        person.end()
    };
    let offer = "Register the MCP tools of Synapse with claude, codex? [y/N]";
    let (status, text) = run(&[("Write this? [y/N]", "y\r"), (offer, "n\r")]);
    assert!(status.success() && text.contains("later: synapse init --mcp"), "{text}");
    assert!(world.read("CLAUDE.md").contains(LESSON) && !world.file(".mcp.json").exists());
    let (status, text) = run(&[(offer, "y\r")]);
    assert!(status.success() && text.contains("created"), "{text}");
    assert!(world.read(".mcp.json").contains("serve") && world.read(".codex/config.toml").contains("serve"));
    let (status, text) = run(&[]);
    assert!(status.success() && !text.contains("MCP tools"), "{text}");
}
