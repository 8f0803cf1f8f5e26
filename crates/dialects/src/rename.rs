//! Giving an agent a name, another one, or none.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Give this agent a name; without one, take its name away.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct RenameRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The name that the agent has now, and the one that it had before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenamedView {
    pub agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
}
