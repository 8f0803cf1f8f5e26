//! The set `a2a`: SendMessage beside the official servers, many streams on one task, and memory over many tasks.
//!
//! All are asked over JSON-RPC on 127.0.0.1 by the same client. Our agent is a program that stays, written here: what is
//! measured is the node, and not how fast a process can be started. It keeps every task on disk; the rivals keep nothing.

mod echo;
mod flat;
mod load;
mod rivals;
mod send;
mod streams;

pub(super) use flat::measure as flat;
pub(super) use send::measure as send;
pub(super) use streams::measure as streams;

use anyhow::Context;
use synapse_store::registry::Entry;

use super::client::Door;
use super::stage::Stage;
use load::Server;

/// A node without a program, and how it is asked.
fn ours(stage: &Stage, name: &str) -> anyhow::Result<(Entry, Server)> {
    let entry = stage.sink(name)?;
    let file = stage.home().token_file();
    let token = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let server = Server {
        door: Door::Tcp(entry.port),
        path: "/api/v1/agent".into(),
        token: Some(token.trim().into()),
    };
    Ok((entry, server))
}
