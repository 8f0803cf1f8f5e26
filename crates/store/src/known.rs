//! Known agents: what survives a run, so that a stopped agent still has a name
//! and receives mail.
//!
//! One `known.json` in each agent's directory, replaced whole. A damaged file is reported and
//! skipped: it must never hide the other agents.
//!
//! Invariant: the id in the file is the name of its directory.
//! Not here: which agents run now (`registry`).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use synapse_core::agents::Agent;
use synapse_core::ids::{AgentId, AgentType, Label};
use synapse_core::routes::Candidate;

use crate::files::{self, Access, FileError, Problem};
use crate::home::{AgentDir, Home};

/// What is known about one agent, running or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    pub id: AgentId,
    #[serde(rename = "type")]
    pub kind: AgentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Label>,
    /// The names that it had before, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_names: Vec<Label>,
    /// The suffix that distinguishes it from others of its type in its folder: its first
    /// name, or `2`, `3`, …. It is part of the id, so it stays when the agent is renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
    /// Its number among the unnamed agents of its type and folder, if its name was taken away and
    /// its suffix is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_number: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Label>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Label>,
    pub working_dir: String,
    /// The host name when the agent was first seen; part of its identity.
    pub hostname: String,
    /// Its last port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    pub first_seen_ms: u64,
    pub last_started_ms: u64,
    /// The agent that started it last; `None` if the user did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by: Option<AgentId>,
}

#[derive(Debug, thiserror::Error)]
pub enum KnownError {
    #[error(
        "{} is damaged ({why}); the agent's next start writes it anew, or remove it: `rm {0}`",
        .path.display()
    )]
    Damaged { path: PathBuf, why: String },
    #[error(
        "{} was written by another version of synapse ({found}, this one reads {SCHEMA}); upgrade synapse",
        .path.display()
    )]
    Version { path: PathBuf, found: String },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Known {
    /// Writes it durably into the agent's directory.
    pub fn save(&self, home: &Home) -> Result<(), KnownError> {
        let dir = home.agent(&self.id);
        dir.ensure()?;
        let path = dir.known();
        let written = Written { schema: SCHEMA, known: self };
        let text = serde_json::to_vec_pretty(&written)
            .map_err(|error| KnownError::Damaged { path: path.clone(), why: error.to_string() })?;
        Ok(files::write_private(&path, &text)?)
    }

    /// Loads the file; `None` if nothing is known about that agent.
    pub fn load(dir: &AgentDir) -> Result<Option<Self>, KnownError> {
        let path = dir.known();
        let bytes = match files::read_private(&path, BYTES_MAX, Access::Plain) {
            Ok(bytes) => bytes,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let known = Self::parse(&bytes, &path)?;
        if known.id != dir.id() {
            let why = format!("it speaks of agent {}, whose directory is another", known.id.short());
            return Err(KnownError::Damaged { path, why });
        }
        Ok(Some(known))
    }

    /// Parses the content of a file; `path` is only for error messages.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, KnownError> {
        let damaged = |why: String| KnownError::Damaged { path: path.to_owned(), why };
        let mark: Mark = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if mark.schema != SCHEMA {
            let found = mark.schema.chars().filter(|c| !c.is_control()).take(64).collect();
            return Err(KnownError::Version { path: path.to_owned(), found });
        }
        let mut text = serde_json::Deserializer::from_slice(bytes);
        serde_path_to_error::deserialize(&mut text).map_err(|error| damaged(error.to_string()))
    }

    /// Returns every agent ever seen here, and the files that could not be read.
    pub fn all(home: &Home) -> (Vec<Self>, Vec<Problem>) {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        let dir = home.agents_dir();
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return (found, problems),
            Err(error) => return (found, vec![Problem::new(dir, error)]),
        };
        for entry in entries.flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| AgentId::parse(name).ok()) else {
                problems.push(Problem::new(entry.path(), "its name is not an agent id; it is not ours"));
                continue;
            };
            match Self::load(&home.agent(&id)) {
                Ok(known) => found.extend(known),
                Err(error) => problems.push(Problem::new(entry.path(), error)),
            }
        }
        found.sort_by_key(|known| known.id);
        (found, problems)
    }

    /// Removes what is known about an agent; its journal and mail stay.
    pub fn forget(home: &Home, id: &AgentId) -> Result<(), KnownError> {
        Ok(files::remove(&home.agent(id).known())?)
    }

    /// Returns its number among the unnamed agents of its type and folder; `None` for the
    /// first and for named ones.
    pub fn number(&self) -> Option<u32> {
        self.reserved_number().filter(|number| self.name.is_none() && *number > 1)
    }

    /// Returns the number that it has whenever it has no name.
    pub fn reserved_number(&self) -> Option<u32> {
        match &self.suffix {
            None => Some(1),
            Some(suffix) => suffix.parse().ok().or(self.assigned_number),
        }
    }

    /// Returns it as a stopped candidate for routing.
    pub fn candidate(&self) -> Candidate {
        Candidate {
            id: self.id,
            kind: self.kind.clone(),
            name: self.name.clone(),
            number: self.number(),
            port: self.port,
            capabilities: self.capabilities.clone(),
            live: false,
            folder: self.working_dir.clone(),
            former_names: self.former_names.clone(),
        }
    }

    /// Returns it as the core's `Agent`.
    pub fn agent(&self) -> Agent {
        Agent {
            id: self.id,
            kind: self.kind.clone(),
            name: self.name.clone(),
            role: self.role.clone(),
            capabilities: self.capabilities.clone(),
            port: self.port,
        }
    }
}

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    #[serde(flatten)]
    known: &'a Known,
}

#[derive(Deserialize)]
struct Mark {
    schema: String,
}

const SCHEMA: &str = "synapse.known.v1";
const BYTES_MAX: usize = 64 * 1024;
