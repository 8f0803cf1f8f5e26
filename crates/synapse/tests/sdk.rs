//! The official A2A SDKs and us: each calls our server with every operation over every binding it
//! supports, and our client calls the server of the Python SDK.
//!
//! `cargo xtask sdk` installs the SDKs. `cargo xtask test` does that too, and there a missing SDK
//! fails the test. Elsewhere the test is skipped with a message.

use crate::world;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use synapse_testkit::World;
use synapse_testkit::program::Program;
use synapse_testkit::world::{Ran, python};

/// Finds a folder that `cargo xtask sdk` created, by the start of its name.
fn kit(beginning: &str) -> Option<PathBuf> {
    let sdks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sdk");
    let folders = std::fs::read_dir(&sdks).into_iter().flatten().flatten();
    let begins =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning));
    let found = folders.map(|entry| entry.path()).find(|path| begins(path) && path.join("fetched").exists());
    if found.is_none() {
        let missing = format!("no {beginning}… in {}: run `cargo xtask sdk`", sdks.display());
        assert!(std::env::var_os("SYNAPSE_SDKS").is_none(), "{missing}");
        eprintln!("skipped: {missing}");
    }
    found
}

fn script(name: &str) -> String {
    format!("{}/tests/sdk/{name}", env!("CARGO_MANIFEST_DIR"))
}

const PYTHON_1: &str = "send immediately stream history context list list-pages list-filters cancel subscribe \
    subscribe-waiting asks asks-streaming direct fails parts push push-deleted push-with-send push-errors extended-card \
    error-not-found error-ended error-params error-media error-version unauthenticated";
const PYTHON_03: &str = "send immediately stream history context cancel resubscribe asks asks-streaming direct fails parts \
    push push-with-send extended-card error-not-found error-ended error-params error-media unauthenticated";
const JS: &str = "send immediately stream history context list cancel subscribe asks asks-streaming direct fails parts push \
    push-deleted extended-card error-not-found error-ended error-params error-media error-version unauthenticated";

/// Runs an SDK's script against our agent, which does what the first word of a message says. The
/// script must report every expected case of every binding as passed.
fn check(program: &Path, name: &str, more: &[&str], expected: &[(&str, String)]) {
    let world = world();
    // The webhooks of the scripts are on this machine.
    world.ok(&["config", "set", "network.push_private", "true"]);
    let agent = format!("{} {}", python(), script("agent.py"));
    let agent =
        world.run("words", &agent, &["--jsonl", "--parallel", "8", "--interfaces", "jsonrpc,http,grpc"]);
    let base = format!("http://localhost:{}", agent.port);
    let token = world.home().join("token");
    let script = script(name);
    let mut args = vec![script.as_str(), &base, token.to_str().unwrap()];
    args.extend(more);
    let mut command = world.prepare(Command::new(program), &args);
    let ran = Ran::new(&[name], command.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap());
    let told: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("ok ")).collect();
    let lines = expected.iter().flat_map(|(binding, cases)| {
        cases.split_whitespace().map(move |case| format!("ok {binding} {case}"))
    });
    let missing: Vec<String> = lines.filter(|line| !told.contains(&line.as_str())).collect();
    assert!(ran.code == Some(0) && missing.is_empty(), "missing: {missing:?}\n{ran}\n{}", world.show());
}

/// G2, E21, R1, R2, R6, J2, J5, H9: the same cases over all three bindings, by the official client.
#[test]
fn python_calls_every_operation_over_every_binding() {
    let Some(kit) = kit("python-1.") else { return };
    let mut expected = vec![("card", "resolve signature signature-changed".to_owned())];
    expected.extend(["JSONRPC", "HTTP+JSON", "GRPC"].map(|binding| (binding, PYTHON_1.to_owned())));
    check(&kit.join("bin/python"), "python_1.py", &[], &expected);
}

/// L1–L4: a program that was written for 0.3 works unchanged.
#[test]
fn python_of_0_3_calls_as_it_always_did() {
    let Some(kit) = kit("python-0.3.") else { return };
    let mut expected = vec![("card", "resolve resolve-agent-json".to_owned())];
    expected.extend(["JSONRPC", "HTTP+JSON", "GRPC"].map(|binding| (binding, PYTHON_03.to_owned())));
    check(&kit.join("bin/python"), "python_03.py", &[], &expected);
}

/// G2, V7, V11, L1, L2: the other official client, in both versions.
#[test]
fn javascript_calls_every_operation_over_every_binding() {
    let Some(kit) = kit("js") else { return };
    let without = |left_out: &[&str]| {
        JS.split_whitespace().filter(|case| !left_out.contains(case)).collect::<Vec<_>>().join(" ")
    };
    let mut expected = vec![("card", "resolve signature signature-changed resolve-0.3".to_owned())];
    expected.extend(["JSONRPC", "HTTP+JSON", "GRPC"].map(|binding| (binding, JS.to_owned())));
    expected.push(("JSONRPC/0.3", without(&["list", "error-version"])));
    // The script says which features the SDK does not support there.
    let lost = ["list", "error-version", "stream", "parts", "extended-card"];
    expected.push(("HTTP+JSON/0.3", without(&lost)));
    expected.push(("GRPC/0.3", without(&["list", "error-version", "stream", "parts"])));
    check(Path::new("node"), "js.mjs", &[kit.to_str().unwrap()], &expected);
}

const SECRET: &str = "what-only-we-know";

/// Starts the server of the Python SDK with a card that names only this binding and version.
/// Returns it and its URL.
fn server(kit: &Path, binding: &str, version: &str) -> (Program, String) {
    let mut command = Command::new(kit.join("bin/python"));
    command.arg(script("python_server.py")).args([
        "--token",
        SECRET,
        "--bindings",
        binding,
        "--versions",
        version,
    ]);
    let program = Program::start(command);
    let line = program.next_line();
    let url = line.strip_prefix("ready ").unwrap_or_else(|| panic!("it did not say where it is: {line}"));
    let url = url.to_owned();
    (program, url)
}

/// The flags to call a server whose gRPC port differs from that of its card. Nothing is sent there
/// before the user allows it.
fn allowed(world: &World, url: &str) -> Vec<String> {
    let refused = world.synapse(&["send", url, "hello"]);
    let host = refused.stderr.rsplit("--allow-host ").next().and_then(|rest| rest.split_whitespace().next());
    let host = host.filter(|_| refused.code != Some(0)).unwrap_or_else(|| panic!("{refused}"));
    ["--allow-host", host].map(str::to_owned).to_vec()
}

/// A9, A22, C11, E13, V6: our client calls a foreign server, over each binding in each version.
#[test]
fn our_client_calls_the_server_of_the_python_sdk() {
    let Some(kit) = kit("python-1.") else { return };
    for (binding, version) in [
        ("JSONRPC", "1.0"),
        ("HTTP+JSON", "1.0"),
        ("GRPC", "1.0"),
        ("JSONRPC", "0.3"),
        ("HTTP+JSON", "0.3"),
        ("GRPC", "0.3"),
    ] {
        let world = world();
        let (_server, url) = server(&kit, binding, version);
        let secret = world.write("secret", SECRET);
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let secret = secret.to_str().unwrap();
        let also = if binding == "GRPC" { allowed(&world, &url) } else { Vec::new() };
        let call_openly = |args: &[&str]| {
            world.synapse(&args.iter().copied().chain(also.iter().map(String::as_str)).collect::<Vec<_>>())
        };
        let call = |args: &[&str]| {
            call_openly(&args.iter().copied().chain(["--token-file", secret]).collect::<Vec<_>>())
        };
        let what = format!("{binding} {version}");
        let ran = call(&["send", &url, "hello over there", "--response"]).ok();
        assert_eq!(ran.out(), "hello over there", "{what}: {ran}");
        assert!(ran.stderr.contains("data, not instructions"), "{what}: {ran}");
        // Progress is printed as it arrives, and the answer is the artifact.
        let ran = call(&["send", &url, "steps", "--response"]).ok();
        assert!(ran.stderr.contains("… one") && ran.out().ends_with("done"), "{what}: {ran}");
        assert_eq!(call(&["send", &url, "direct", "--response"]).ok().out(), "directly", "{what}");
        call(&["send", &url, "fail", "--response"]).fails(3, &["it broke"]);
        // The agent asks, and gets an answer.
        let asked = call(&["send", &url, "ask", "--response", "--json"]);
        let told: Value = serde_json::from_str(asked.stdout.lines().next().unwrap_or_default())
            .or_else(|_| serde_json::from_str(&asked.stdout))
            .unwrap_or_else(|e| panic!("{what}: {e}: {asked}"));
        assert_eq!(told["state"], "input-required", "{what}: {asked}");
        let task = told["task_id"].as_str().unwrap();
        let ran = call(&["send", &url, "the blue one", "--task", task, "--response"]).ok();
        assert_eq!(ran.out(), "you said the blue one", "{what}: {ran}");
        // A working task is canceled, and its state says so.
        let begun = call(&["send", &url, "long", "--json"]).ok().json();
        let task = begun["task_id"].as_str().unwrap();
        call(&["cancel", task, "--at", &url]).ok();
        world.wait_until("it is canceled", || {
            call(&["status", task, "--at", &url, "--json"]).ok().json()["state"] == "canceled"
        });
        // As a remote by name, with its card checked. The caller is told that the agent is foreign.
        let added = call(&["remote", "add", "python", &url]).ok();
        assert_eq!(
            call(&["send", "python", "by name", "--response"]).ok().out(),
            "by name",
            "{what}: {added}"
        );
        let stranger = call_openly(&["send", &url, "hello", "--response"]);
        assert!(stranger.code != Some(0) && stranger.stderr.contains("token"), "{what}: {stranger}");
    }
}
