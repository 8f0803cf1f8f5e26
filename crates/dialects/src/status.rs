//! `GET /status` (REST-3, PTY-8): the agent's state, in the three words of the
//! original API and in full.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    pub agent_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// `idle`, `busy` or `error`.
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_task: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available_tools: Vec<String>,
    /// The finer state: starting, idle, busy, waiting, error, maintenance, offline, unknown.
    pub state: String,
    pub why: String,
    /// RFC 3339.
    pub since: String,
    pub agent_id: String,
    pub agent_type: String,
    pub waiting: usize,
    pub version: String,
    /// What the agent is doing, as it last shared it, or else the task it is busy with; only for callers that
    /// are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// What it waits for a person to decide, in one line; only for callers that are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// Since when it has been sharing that (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_since: Option<String>,
}
