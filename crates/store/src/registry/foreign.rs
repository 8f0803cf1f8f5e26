//! Entries of other tools in the same folder.

use std::path::PathBuf;

/// Longer texts are treated as damage.
const FOREIGN_TEXT_MAX: usize = 256;

/// The readable fields of another tool's file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForeignEntry {
    pub path: PathBuf,
    pub agent_id: Option<String>,
    pub agent_type: Option<String>,
    pub endpoint: Option<String>,
    pub port: Option<u16>,
    pub pid: Option<u32>,
    pub status: Option<String>,
}

impl ForeignEntry {
    pub(super) fn read(fields: &serde_json::Map<String, serde_json::Value>) -> Self {
        let text = |key: &str| {
            let text = fields.get(key)?.as_str()?;
            let fits = text.len() <= FOREIGN_TEXT_MAX && !text.chars().any(char::is_control);
            fits.then(|| text.to_owned())
        };
        // Some tools write numbers as text.
        let number = |key: &str| {
            let value = fields.get(key)?;
            value.as_u64().or_else(|| value.as_str()?.parse().ok())
        };
        Self {
            path: PathBuf::new(),
            agent_id: text("agent_id"),
            agent_type: text("agent_type"),
            endpoint: text("endpoint"),
            port: number("port").and_then(|port| u16::try_from(port).ok()),
            pid: number("pid").and_then(|pid| u32::try_from(pid).ok()),
            status: text("status"),
        }
    }
}
