//! `synapse init --mcp` (PTY-13): adds our entry to the settings of other programs, and restores
//! them byte for byte.

use crate::world;
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use synapse_testkit::{Ran, World};

const ALL: &str = "claude,codex,gemini,opencode";
const FILES: [&str; 4] = [".mcp.json", ".codex/config.toml", ".gemini/settings.json", "opencode.json"];

/// Runs `init` with `synapse` on the PATH, as after an installation.
fn init(world: &World, args: &[&str]) -> Ran {
    let bin = world.file("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).unwrap();
        symlink(world.exe(), bin.join("synapse")).unwrap();
        std::fs::create_dir(world.file("home")).unwrap();
    }
    let mut command = world.command(&[&["init"], args].concat());
    command.env("PATH", bin).env("HOME", world.file("home"));
    for own in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"] {
        command.env_remove(own);
    }
    Ran::new(args, command.output().unwrap())
}

fn json_of(world: &World, name: &str) -> Value {
    serde_json::from_str(&world.read(name)).unwrap_or_else(|e| panic!("{name}: {e}: {}", world.read(name)))
}

fn mode(world: &World, name: &str) -> u32 {
    std::fs::metadata(world.file(name)).unwrap().permissions().mode() & 0o777
}

#[test]
fn each_program_is_told_in_its_own_settings() {
    let world = world();
    let shown = init(&world, &["--mcp", ALL, "--dry-run"]).ok().out();
    for name in FILES {
        assert!(shown.contains(name) && !world.file(name).exists(), "{name}: {shown}");
    }
    init(&world, &["--mcp", ALL]).fails(2, &["--yes", "nothing was written"]);
    init(&world, &["--mcp", ALL, "--yes"]).ok();
    let args = json!(["mcp", "serve"]);
    let claude = json!({ "type": "stdio", "command": "synapse", "args": args });
    assert_eq!(json_of(&world, ".mcp.json"), json!({ "mcpServers": { "synapse": claude } }));
    let gemini = json!({ "command": "synapse", "args": args });
    assert_eq!(json_of(&world, ".gemini/settings.json"), json!({ "mcpServers": { "synapse": gemini } }));
    let open = json!({ "type": "local", "command": ["synapse", "mcp", "serve"], "enabled": true });
    assert_eq!(json_of(&world, "opencode.json"), json!({ "mcp": { "synapse": open } }));
    let codex = world.read(".codex/config.toml");
    assert!(
        codex.contains("[mcp_servers.synapse]\ncommand = \"synapse\"\nargs = [\"mcp\", \"serve\"]\n"),
        "{codex}"
    );
    let again = init(&world, &["--mcp", ALL]).ok().out();
    assert_eq!(again.matches("nothing to change").count(), 4, "{again}");

    // Without a list, everything is removed, including the lesson.
    init(&world, &["--yes"]).ok();
    init(&world, &["--remove", "--yes"]).ok();
    for name in FILES.into_iter().chain(["AGENTS.md", ".codex", ".gemini"]) {
        assert!(!world.file(name).exists(), "{name}: {}", world.read(name));
    }
}

#[test]
fn what_else_is_in_settings_stays() {
    let world = world();
    let opencode = "{\n  // the model of the house\n  \"model\": \"x/y\", // cheap\n  \"mcp\": {\n    \"other\": { \"type\": \"remote\", \"url\": \"u\" }\n  }\n}\n";
    let codex = "# mine\nmodel = \"x\"\n\n[mcp_servers.docs] # keep\ncommand = \"d\"\n\n[projects.\"/a\"]\ntrust_level = \"trusted\"\n";
    std::fs::create_dir(world.file(".codex")).unwrap();
    // The extension says that this one has comments.
    world.write("opencode.jsonc", opencode);
    world.write(".codex/config.toml", codex);
    std::fs::set_permissions(world.file(".codex/config.toml"), std::fs::Permissions::from_mode(0o600))
        .unwrap();
    let shown = init(&world, &["--mcp", "opencode,codex", "--yes"]).ok().out();
    assert!(shown.contains("updated") && shown.contains("opencode.jsonc"), "{shown}");
    assert!(!world.file("opencode.json").exists());
    for line in opencode.lines().chain(codex.lines()) {
        let all = world.read("opencode.jsonc") + &world.read(".codex/config.toml");
        assert!(all.contains(line.trim_end_matches('}')), "{line:?} is gone from\n{all}");
    }
    assert_eq!(mode(&world, ".codex/config.toml"), 0o600);
    let rows = init(&world, &["--remove", "--mcp", "opencode,codex", "--yes", "--json"]).ok().json();
    assert_eq!((&rows[0]["action"], &rows[1]["action"]), (&json!("removed"), &json!("removed")), "{rows}");
    assert_eq!(world.read("opencode.jsonc"), opencode);
    assert_eq!(world.read(".codex/config.toml"), codex);
    assert_eq!(mode(&world, ".codex/config.toml"), 0o600);
}

#[test]
fn own_settings_are_for_all_projects_and_named_when_all_is_removed() {
    let world = world();
    init(&world, &["--user", "--mcp", ALL, "--yes"]).ok();
    let files =
        [".claude.json", ".codex/config.toml", ".gemini/settings.json", ".config/opencode/opencode.json"];
    for name in files.map(|name| format!("home/{name}")) {
        assert!(world.read(&name).contains("serve"), "{name}");
        assert_eq!(mode(&world, &name), 0o600, "{name}");
    }
    // A server that somebody else registered is not removed.
    world.write(".mcp.json", "{\"mcpServers\":{\"synapse\":{\"command\":\"mine\"}}}\n");
    world.run("one", "cat", &[]);
    let mut uninstall = world.command(&["uninstall", "--yes", "--json"]);
    let left =
        Ran::new(&["uninstall"], uninstall.env("HOME", world.file("home")).output().unwrap()).ok().json();
    assert_eq!(left["registered"].as_array().unwrap().len(), 4, "{left}");
    init(&world, &["--user", "--remove", "--yes"]).ok();
    for name in files.map(|name| format!("home/{name}")) {
        assert!(!world.file(&name).exists(), "{name}");
    }
    init(&world, &["--remove", "--yes"]).ok();
    assert!(world.read(".mcp.json").contains("mine"));
}

#[test]
fn what_must_not_be_written_is_not() {
    let world = world();
    let check = |name: &str, text: &str, words: &[&str]| {
        world.write(name, text);
        let cli = if name == ".mcp.json" { "claude" } else { "opencode" };
        init(&world, &["--mcp", cli, "--yes"]).fails(1, &[&[name], words].concat());
        assert_eq!(world.read(name), text);
        std::fs::remove_file(world.file(name)).unwrap();
    };
    check(".mcp.json", "{\n  \"a\": 1,\n  oops\n", &["line 3"]);
    check(
        ".mcp.json",
        "{\"mcpServers\":{\"synapse\":{\"command\":\"mine\"}}}\n",
        &["mcpServers.synapse", "rename it"],
    );
    check("opencode.json", "[]\n", &["no object"]);

    // One bad file, and none is written.
    world.write("opencode.json", "{");
    init(&world, &["--mcp", ALL, "--yes"]).fails(1, &["opencode.json"]);
    assert!(!world.file(".mcp.json").exists());
    std::fs::remove_file(world.file("opencode.json")).unwrap();

    // Links that lead out of the project: the file, or its folder.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("settings.json"), "{}\n").unwrap();
    symlink(elsewhere.path().join("settings.json"), world.file(".mcp.json")).unwrap();
    symlink(elsewhere.path(), world.file(".gemini")).unwrap();
    init(&world, &["--mcp", "claude", "--yes"]).fails(1, &["link", "outside"]);
    init(&world, &["--mcp", "gemini", "--yes"]).fails(1, &["link", "outside"]);
    assert_eq!(std::fs::read_to_string(elsewhere.path().join("settings.json")).unwrap(), "{}\n");
    init(&world, &["--mcp", "copilot", "--yes"]).fails(2, &["copilot"]);
}

/// Finding 13: `--mcp` without a list registers the installed CLIs.
#[test]
fn without_names_the_installed_clis_are_registered() {
    let world = world();
    init(&world, &["--mcp", "--yes"]).fails(2, &["on PATH", "synapse init --mcp=claude"]);
    for cli in ["claude", "qwen", "aider"] {
        symlink("/bin/sh", world.file("bin").join(cli)).unwrap();
    }
    let rows = init(&world, &["--mcp", "--yes", "--json"]).ok().json();
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    for name in [".mcp.json", ".qwen/settings.json"] {
        assert_eq!(json_of(&world, name)["mcpServers"]["synapse"]["args"], json!(["mcp", "serve"]), "{name}");
    }
    init(&world, &["--mcp=codex,opencode", "--yes"]).ok();
    assert!(world.file(".codex/config.toml").exists() && world.file("opencode.json").exists());
    init(&world, &["--mcp", "--remove", "--yes"]).ok();
    for name in FILES.into_iter().chain([".qwen"]) {
        assert!(!world.file(name).exists(), "{name}");
    }
}
