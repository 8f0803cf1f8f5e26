//! The error for an ambiguous target: which agents it could mean, and what to type for each.
//!
//! Not here: which agents a target could mean (`synapse_core::routes`).

use super::Roll;
use crate::fail::Fail;
use crate::show;
use serde_json::{Value, json};
use synapse_core::Refusal;
use synapse_core::routes::{Candidate, Choice, NoRoute, Target};

/// The error for an ambiguous target, with details that distinguish the agents.
pub(super) fn ambiguous(roll: &Roll, target: &Target, choices: &[Choice]) -> Fail {
    let mut fail = Fail::from(Refusal::from((target, NoRoute::Ambiguous { choices: choices.to_vec() })));
    let found: Vec<(&Choice, &Candidate)> = choices
        .iter()
        .filter_map(|choice| Some((choice, roll.candidates.iter().find(|c| c.id == choice.id)?)))
        .collect();
    let of_choice = |(choice, one): &(&Choice, &Candidate)| {
        json!({
            "target": choice.target,
            "name": one.plain_label(),
            "type": one.kind.as_str(),
            "agent_id": one.id.to_string(),
            "state": state(roll, one),
            "running": one.live,
            "folder": one.folder,
        })
    };
    if let Some(details) = fail.info.details.as_mut().and_then(Value::as_object_mut) {
        details.insert("choices".into(), found.iter().map(of_choice).collect());
    }
    fail
}

fn state(roll: &Roll, one: &Candidate) -> &'static str {
    let entry = roll.scan.agents.iter().find(|entry| entry.agent_id == one.id);
    match entry {
        Some(entry) => entry.status.name(),
        None if one.live => "running",
        None => "stopped",
    }
}

/// The error for people: the choices are a table, not also part of a sentence.
pub fn shown(details: &Value) -> Option<String> {
    if details.get("stopped").is_some() {
        return crate::cli::several_stopped_shown(details);
    }
    let choices = details.get("choices")?.as_array()?;
    let target = show::safe(details.get("target")?.as_str()?);
    let cell = |choice: &Value, name: &str| show::cell_err(choice[name].as_str().unwrap_or_default(), 60);
    let rows: Vec<Vec<String>> = choices
        .iter()
        .map(|choice| {
            let folder = show::folder(choice["folder"].as_str().unwrap_or_default());
            vec![
                cell(choice, "name"),
                cell(choice, "state"),
                show::cell_err(&folder, 60),
                cell(choice, "target"),
            ]
        })
        .collect();
    let table = show::table(&["NAME", "STATE", "FOLDER", "TARGET"], &rows);
    Some(format!("{target:?} could mean any of these agents\n{table}\nhint: use a target of the last column"))
}
