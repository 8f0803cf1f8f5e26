//! Who an agent is, where its files and its endpoint are, and the tasks it has.

use crate::agents::Roll;
use crate::cli::facts::AgentFacts;
use crate::show;
use serde::Serialize;
use std::path::PathBuf;
use synapse_core::ids::AgentId;
use synapse_dialects::api::TaskView;

/// Fields of `explain --json` for an agent; stable.
#[derive(Serialize)]
pub(super) struct Details {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    skills: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    folder: String,
    log: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Messages that wait in its mailbox, or in its spool if its node has not read them yet.
    waiting_count: usize,
    /// Its open tasks. Absent if its node did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<Vec<TaskView>>,
}

impl Details {
    pub(super) fn of(roll: &Roll, facts: &AgentFacts) -> Self {
        let known = roll.known.iter().find(|known| known.id == facts.id);
        let entry = facts.entry.as_ref();
        let node = facts.node.as_ref().ok();
        let text = |label: &synapse_core::ids::Label| label.to_string();
        let kind = entry.map(|entry| entry.agent_type.to_string());
        let folder = entry.map(|entry| entry.working_dir.clone());
        let skills = entry.map(|entry| &entry.capabilities).or(known.map(|known| &known.capabilities));
        Self {
            kind: kind.or_else(|| Some(known?.kind.to_string())).unwrap_or_default(),
            role: entry
                .and_then(|entry| entry.role.as_ref())
                .or(known.and_then(|k| k.role.as_ref()))
                .map(text),
            skills: skills.into_iter().flatten().map(text).collect(),
            handle: entry.map(|entry| format!("synapse-{}-{}", entry.agent_type, entry.port)),
            endpoint: entry.map(|entry| entry.endpoint.clone()),
            folder: folder.or_else(|| Some(known?.working_dir.clone())).unwrap_or_default(),
            log: roll.home.agent(&facts.id).log(),
            version: entry.map(|entry| entry.version.clone()),
            waiting_count: facts.spooled + node.map_or(0, |node| node.status.waiting),
            tasks: node.map(|node| node.tasks.clone()),
        }
    }

    /// Rows of the page about its work.
    pub(super) fn work(&self) -> Vec<(&'static str, String)> {
        const TASKS_MAX: usize = 10;
        let open = self.tasks.iter().flatten().filter(|task| task.state != "submitted").take(TASKS_MAX);
        let task = |task: &TaskView| {
            let requester = show::cell(&task.requester.shown(), 40);
            ("task", format!("{} {} for {requester}", task.short_id, show::state(&task.state)))
        };
        let mut rows: Vec<_> = open.map(task).collect();
        let noun = if self.waiting_count == 1 { "message" } else { "messages" };
        rows.push(("waiting", format!("{} {noun}", self.waiting_count)));
        rows
    }

    /// Rows of the page about its names and places.
    pub(super) fn places(&self, id: &AgentId) -> Vec<(&'static str, String)> {
        let rows = [
            ("role", self.role.clone().unwrap_or_default()),
            ("skills", self.skills.join(", ")),
            ("id", id.to_string()),
            ("handle", self.handle.clone().unwrap_or_default()),
            ("endpoint", self.endpoint.clone().unwrap_or_default()),
            ("folder", show::safe(&self.folder)),
            ("log", show::safe(&self.log.display().to_string())),
        ];
        rows.into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }
}
