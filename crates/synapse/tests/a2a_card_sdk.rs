//! The agent card of a real node, read and verified by the official SDKs.

use crate::world;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use synapse_testkit::world::Ran;

const CARD: &str = "/.well-known/agent-card.json";
const AGENT_JSON: &str = "/.well-known/agent.json";

/// Finds the Python with an SDK: from the variable, or where `cargo xtask sdk` installed it. Prints
/// a message if there is none.
fn sdk(variable: &str, version: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/sdk");
    let beginning = format!("python-{version}");
    let installed = std::fs::read_dir(root).into_iter().flatten().flatten();
    let found = std::env::var_os(variable).map(PathBuf::from).or_else(|| {
        let mut dirs = installed.filter(|dir| dir.file_name().to_string_lossy().starts_with(&beginning));
        Some(dirs.next()?.path().join("bin/python"))
    });
    if found.is_none() {
        eprintln!("NOT TESTED: a2a-sdk {version}x of Python is not installed, and {variable} names none");
    }
    found
}

fn python(python: PathBuf, script: &str, args: &[&str]) -> Value {
    let mut command = Command::new(python);
    let output = command.arg("-c").arg(script).args(args).output().unwrap();
    Ran::new(args, output).ok().json()
}

/// A18, A22: the official verifier accepts the signatures and rejects a changed card.
#[test]
fn the_official_sdk_verifies_the_card() {
    let Some(found) = sdk("SYNAPSE_SDK_PYTHON_1", "1.") else { return };
    let world = world();
    let words = ["--description", "Größer — 大きく", "--interfaces", "jsonrpc,http,grpc"];
    let agent = world.run("shout", "tr a-z A-Z", &words);
    let base = format!("http://localhost:{}", agent.port);
    let told = python(found, include_str!("sdk/card_1.py"), &[&base, &world.token()]);
    assert_eq!(
        (&told["name"], &told["old"], &told["broken"]),
        (&json!("shout"), &json!("shout"), &json!(3)),
        "{told}"
    );
    assert_eq!((&told["schemes"], &told["required"]), (&json!(["bearer"]), &json!([["bearer"]])));
    assert_eq!(told["interfaces"].as_array().unwrap().len(), 6);
    // A third-party library verifies every signature, and strict protobuf parsing accepts the card.
    assert_eq!(told["verified"], told["signatures"], "{told}");
    assert_eq!(told["strict"], true, "{told}");
    for seen in told["seen"].as_array().unwrap() {
        assert_eq!(seen[1], format!("{base}/.well-known/jwks.json"));
    }
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC"] {
        assert_eq!(told["extended"][binding], json!(["tr", "interrupt"]), "{told}");
    }
}

/// L3, L4.
#[test]
fn the_sdk_of_03_reads_the_same_card() {
    let Some(found) = sdk("SYNAPSE_SDK_PYTHON_03", "0.3.") else { return };
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &["--interfaces", "jsonrpc,http,grpc"]);
    let base = format!("http://localhost:{}", agent.port);
    let told = python(found, include_str!("sdk/card_03.py"), &[&base]);
    for path in [CARD, AGENT_JSON] {
        let expected = json!({
            "url": format!("{base}/api/v1/agent"), "transport": "JSONRPC", "version": "0.3.0",
            "interfaces": [
                ["JSONRPC", format!("{base}/api/v1/agent")],
                ["HTTP+JSON", format!("{base}/a2a")],
                ["GRPC", format!("localhost:{}", agent.port)],
            ],
            "security": [{ "bearer": [] }], "scheme": "Bearer", "extended": true, "skills": ["tr"],
        });
        assert_eq!(told[path], expected);
    }
}
