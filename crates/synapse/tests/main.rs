//! Tests of the real binary in a fresh home, as users and other programs use it.
//!
//! They are one program: each of its own would be linked with everything else anew. A file is a group of tests:
//! `cargo nextest run -p synapse a2a_list::` runs one of them.

#![allow(clippy::unwrap_used)]

mod a2a;
mod a2a_card;
mod a2a_card_sdk;
mod a2a_client;
mod a2a_client_lenient;
mod a2a_conversation;
mod a2a_doctor;
mod a2a_doctor_faults;
mod a2a_list;
mod a2a_push;
mod a2a_remote;
mod a2a_serve;
mod a2a_turns;
mod a2a_v03;
mod a2a_wire;
mod acp;
mod approvals;
mod at;
mod audit;
mod broadcast;
mod config;
mod crash;
mod delivery;
mod demo;
mod disagreement;
mod disk;
mod docs_everyday;
mod doctor;
mod doors;
mod echo;
mod events;
mod exec;
mod first_day;
mod flood;
mod flow;
mod former_names;
mod grpc;
mod history;
mod hooks;
mod http2;
mod identity;
mod impersonation;
mod init;
mod init_mcp;
mod interrupt;
mod join;
mod json_output;
mod jsonl;
mod keys;
mod learn;
mod leaving;
mod limits;
mod looking;
mod manual;
mod mcp;
mod mishaps;
mod names;
mod notify;
mod one_way;
mod openapi;
mod opencode;
mod pending;
mod person;
mod prefix;
mod quiet;
mod record;
mod refusals;
mod registry;
mod remove;
mod rename;
mod restart;
mod resume;
mod rights;
mod sandbox;
mod sdk;
mod send;
mod send_waiting;
mod share;
mod short_tries;
mod starting;
mod stopped;
mod stream;
mod terminal;
mod tls;
mod tls_trust;
mod token;
mod trust;
mod undelivered;
mod unnoticed;
mod upgrade;
mod wait;
mod watchdog;

/// A client of gRPC that is not ours.
#[path = "a2a/grpc.rs"]
mod grpc_client;
/// A CLI with hooks, played by a script.
#[path = "hooks/stage.rs"]
mod stage;

use synapse_testkit::World;

fn world() -> World {
    World::new(env!("CARGO_BIN_EXE_synapse"))
}

/// A file that no line above names would not be compiled, and its tests would never run.
#[test]
fn every_file_of_tests_is_part_of_this_program() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let named = include_str!("main.rs");
    let files = std::fs::read_dir(folder).expect("the folder of tests");
    let files = files.map(|file| file.expect("a file").file_name().into_string().expect("a name"));
    let groups: Vec<String> = files.filter_map(|file| file.strip_suffix(".rs").map(str::to_owned)).collect();
    assert!(groups.len() > 80, "{groups:?}");
    for group in groups.iter().filter(|group| !["main", "pages"].contains(&group.as_str())) {
        assert!(named.contains(&format!("\nmod {group};\n")), "tests/{group}.rs is not in tests/main.rs");
    }
}
