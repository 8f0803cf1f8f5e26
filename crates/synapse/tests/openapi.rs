//! `/openapi.json`, checked by third-party tools (A9, DIR-3).
//!
//! `cargo xtask sdk` installs the tools. `cargo xtask test` does that too, and there a missing tool
//! fails the test. Elsewhere the test is skipped with a message.

use crate::world;
use std::path::{Path, PathBuf};
use std::process::Command;
use synapse_testkit::world::Ran;
use synapse_testkit::{Agent, World};

const KIT: &str = "python-openapi";

fn echo(world: &World) -> Agent {
    world.ok(&["run", "--detach", "--echo", "--name", "echo", "--port", &world.port()]);
    world.agent("echo")
}

fn kit() -> Option<PathBuf> {
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sdk").join(KIT);
    if kit.join("fetched").exists() {
        return Some(kit);
    }
    let missing = format!("no {KIT} in target/sdk: run `cargo xtask sdk`");
    assert!(std::env::var_os("SYNAPSE_SDKS").is_none(), "{missing}");
    eprintln!("skipped: {missing}");
    None
}

fn run(world: &World, program: &Path, args: &[&str]) -> Ran {
    let mut command = world.prepare(Command::new(program), args);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("NO_COLOR", "1").env("COLUMNS", "160");
    Ran::new(args, command.output().unwrap())
}

/// Finding A9 (DIR-3): an independent validator accepts the document as OpenAPI.
#[test]
fn openapi_document_is_valid() {
    let Some(kit) = kit() else { return };
    let world = world();
    let echo = echo(&world);
    let document = echo.tcp().ask("GET", "/openapi.json", &[], b"");
    let file = world.write("openapi.json", &document.json().to_string());
    let args = ["-m", "openapi_spec_validator", file.to_str().unwrap()];
    let ran = run(&world, &kit.join("bin/python"), &args);
    assert!(ran.code == Some(0), "{ran}");
}

/// Finding A9: the node accepts what the document allows, refuses what it forbids, and answers as
/// described. Schemathesis makes about two thousand requests from the document.
#[test]
fn schemathesis_finds_no_difference_between_document_and_node() {
    let Some(kit) = kit() else { return };
    let world = world();
    let echo = echo(&world);
    let base = format!("http://127.0.0.1:{}", echo.port);
    let config = format!("{}/tests/openapi/schemathesis.toml", env!("CARGO_MANIFEST_DIR"));
    let header = format!("Authorization: {}", echo.bearer());
    let location = format!("{base}/openapi.json");
    let args = ["--config-file", &config, "run", &location, "--url", &base, "--header", &header];
    let ran = run(&world, &kit.join("bin/schemathesis"), &args);
    assert!(ran.code == Some(0) && ran.stdout.contains("generated"), "{ran}\n{}", world.show());
}
