//! `GET /api/v1/terminal`: what an agent in a terminal does, and all the evidence for it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TerminalView {
    pub state: String,
    /// RFC 3339.
    pub since: String,
    /// Which kind of evidence decided: exit, hook, status, title, screen, typed or silence.
    pub source: String,
    pub why: String,
    /// Every source with an opinion, best first.
    pub evidence: Vec<Evidence>,
    pub profile: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether the profile was checked with this version; absent if the version is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tested: Option<bool>,
    pub title: String,
    pub columns: u16,
    pub rows: u16,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Evidence {
    pub source: String,
    /// `idle`, `busy` or `waiting`.
    pub says: String,
    pub since: String,
    pub why: String,
}
