//! Settings, as far as `send` needs them: `a2a.flow` (CLI-7), from the project's `.synapse/settings.json`, else
//! the user's. Comments are allowed.
//!
//! Not here yet: other keys, and `synapse config`.

use crate::fail::Fail;
use serde_json::Value;
use std::path::{Path, PathBuf};
use synapse_store::home::Home;

/// Whether `send` waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    /// Always; flags are ignored.
    Roundtrip,
    /// Never; flags are ignored.
    Oneway,
    /// The flag decides.
    #[default]
    Auto,
}

impl Flow {
    pub fn waits(self, response: bool) -> bool {
        match self {
            Self::Roundtrip => true,
            Self::Oneway => false,
            Self::Auto => response,
        }
    }

    fn parse(raw: &str) -> Option<Self> {
        match raw {
            "roundtrip" => Some(Self::Roundtrip),
            "oneway" => Some(Self::Oneway),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }
}

/// The flow that holds in a folder, and the file that says so.
pub fn flow(home: &Home, folder: &Path) -> Result<(Flow, Option<PathBuf>), Fail> {
    let projects = folder.ancestors().map(|dir| dir.join(".synapse").join("settings.json"));
    for file in projects.chain([home.root().join("settings.json")]) {
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => continue,
            Err(e) => return Err(Fail::usage(format!("{} cannot be read: {e}", file.display()))),
        };
        if let Some(flow) = flow_in(&text).map_err(|why| Fail::usage(format!("{}: {why}", file.display())))? {
            return Ok((flow, Some(file)));
        }
    }
    Ok((Flow::default(), None))
}

fn flow_in(text: &str) -> Result<Option<Flow>, String> {
    let parsed = jsonc_parser::parse_to_serde_value::<Value>(text, &jsonc_parser::ParseOptions::default());
    let settings = parsed.map_err(|e| e.to_string())?;
    match settings.get("a2a").and_then(|a2a| a2a.get("flow")) {
        None => Ok(None),
        Some(Value::String(raw)) => match Flow::parse(raw) {
            Some(flow) => Ok(Some(flow)),
            None => Err(format!("a2a.flow is {raw:?}; it must be roundtrip, oneway or auto")),
        },
        Some(other) => Err(format!("a2a.flow is {other}; it must be \"roundtrip\", \"oneway\" or \"auto\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-7's table: flow, no flag, --response (--no-response is the same as no flag).
    #[test]
    fn the_table_of_flows() {
        let table = [(Flow::Roundtrip, true, true), (Flow::Oneway, false, false), (Flow::Auto, false, true)];
        for (flow, without, with) in table {
            assert_eq!((flow.waits(false), flow.waits(true)), (without, with), "{flow:?}");
        }
    }

    #[test]
    fn what_a_file_says() {
        assert_eq!(flow_in("{ // a comment\n \"a2a\": { \"flow\": \"oneway\", } }"), Ok(Some(Flow::Oneway)));
        assert_eq!(flow_in("{}"), Ok(None));
        assert_eq!(flow_in(""), Ok(None));
        assert!(
            flow_in("{\"a2a\": {\"flow\": \"both\"}}").unwrap_err().contains("roundtrip, oneway or auto")
        );
        assert!(flow_in("{\"a2a\": {\"flow\": 1}}").is_err());
        assert!(flow_in("{\"a2a\":").is_err());
    }
}
