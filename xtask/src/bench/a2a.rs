//! The set `a2a`: SendMessage compared with the official servers, many streams on one task, and
//! memory over many tasks.
//!
//! The same client calls all servers over JSON-RPC on 127.0.0.1. Our agent is the built-in echo,
//! because the rivals' echoes are part of their servers. It stores every task on disk; the rivals
//! store nothing.

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

/// How to call one of our agents.
fn server_of(stage: &Stage, entry: &Entry) -> anyhow::Result<Server> {
    let file = stage.home().token_file();
    let token = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    Ok(Server { door: Door::Tcp(entry.port), path: "/api/v1/agent".into(), token: Some(token.trim().into()) })
}
