//! The set `a2a`: SendMessage beside the official servers, many streams on one task, and memory over many tasks.
//!
//! All are asked over JSON-RPC on 127.0.0.1 by the same client. Our agent is the built-in echo, as the rivals' echoes are
//! part of their servers. It keeps every task on disk; the rivals keep nothing.

mod flat;
mod inbox;
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

/// How an agent of ours is asked.
fn server_of(stage: &Stage, entry: &Entry) -> anyhow::Result<Server> {
    let file = stage.home().token_file();
    let token = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    Ok(Server { door: Door::Tcp(entry.port), path: "/api/v1/agent".into(), token: Some(token.trim().into()) })
}
