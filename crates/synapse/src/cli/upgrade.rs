//! `synapse upgrade-agents`: nodes are replaced by ones of the installed version, under their holders.
//!
//! The agent stays: its holder, its port, its mail, and the commands it runs, which are processes of their own. A
//! node that does not answer is killed; its holder starts the next one, which takes over from the journal.
//!
//! Not here: which program a holder starts (`program`), what a node does with what runs (`synapse-node`'s hands).

use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::{program, show};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use synapse_core::ids::AgentId;
use synapse_dialects::level::VERSION;
use synapse_holder::ProcessMark;
use synapse_peer::{CallError, Client};
use synapse_store::registry::{self, Entry};

#[derive(Args)]
pub(super) struct UpgradeAgents {
    /// Names, types, handles or id prefixes
    #[arg(required_unless_present = "all")]
    agents: Vec<String>,
    /// Upgrade all running agents
    #[arg(long, conflicts_with = "agents")]
    all: bool,
    /// Show what would be done
    #[arg(long)]
    dry_run: bool,
}

/// How long a node may take to finish what is under way, and the next one to open its journal.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to say that it will.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// One agent of `upgrade-agents --json`; stable.
#[derive(Serialize)]
struct Row {
    agent_id: AgentId,
    name: String,
    /// `current`, `would_restart`, `restarted` or `failed`.
    outcome: &'static str,
    from: String,
    to: String,
    /// Older than the node: `synapse kill` and `run` renew it.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// Whether a node has to be replaced.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Current,
    /// Another version, or the same from another file: a rebuilt one.
    Outdated,
}

pub(super) async fn upgrade(args: UpgradeAgents, json: bool) -> Done {
    let roll = Roll::call()?;
    if roll.caller("restart nodes")?.is_some() {
        return Err(Fail::refused("an agent may not restart nodes; only a person may"));
    }
    let installed = program::installed()?;
    let entries = wanted(&roll, &args)?;
    let mut failed = 0;
    let mut rows = Vec::new();
    for entry in entries {
        let row = one(&roll, entry, &installed, args.dry_run).await;
        failed += usize::from(row.outcome == "failed");
        if !json {
            tell(&row);
        }
        rows.push(row);
    }
    if json {
        show::json(&rows);
    } else if rows.is_empty() {
        show::out("no agent is running; the next start uses this version");
    }
    if failed > 0 {
        let message = format!("{failed} of {} were not replaced; what is above says why", rows.len());
        return Err(Fail::new(fail::ERROR, "not_upgraded", message));
    }
    Ok(())
}

fn wanted<'a>(roll: &'a Roll, args: &UpgradeAgents) -> Result<Vec<&'a Entry>, Fail> {
    if args.all {
        return Ok(roll.scan.agents.iter().collect());
    }
    let mut entries = Vec::new();
    for raw in &args.agents {
        let id = roll.find_one(raw)?.id;
        match roll.scan.agents.iter().find(|entry| entry.agent_id == id) {
            Some(entry) => entries.push(entry),
            None => {
                show::out(&format!("{} is not running; its next start uses this version", roll.label(&id)))
            }
        }
    }
    Ok(entries)
}

async fn one(roll: &Roll, entry: &Entry, installed: &Path, dry_run: bool) -> Row {
    let mut row = Row {
        agent_id: entry.agent_id,
        name: roll.label(&entry.agent_id),
        outcome: "current",
        from: entry.version.clone(),
        to: VERSION.to_owned(),
        holder: older_holder(entry),
        why: None,
    };
    if standing(&entry.version, program_of(entry.node_pid).as_deref(), installed) == Standing::Current {
        return row;
    }
    // What this version cannot open it must not be started on: the node that runs would be lost for it.
    let opens = synapse_store::schema::look(&roll.home.agent(&entry.agent_id).journal());
    let replaced = match opens {
        Err(e) => Err(e.to_string()),
        Ok(()) if dry_run => {
            row.outcome = "would_restart";
            return row;
        }
        Ok(()) => replace(roll, entry, installed).await,
    };
    match replaced {
        Ok(after) => {
            row.outcome = "restarted";
            row.holder = older_holder(&after);
        }
        Err(why) => (row.outcome, row.why) = ("failed", Some(why)),
    }
    row
}

fn standing(version: &str, runs: Option<&Path>, installed: &Path) -> Standing {
    let same_file = runs.is_none_or(|runs| runs == installed);
    if version == VERSION && same_file { Standing::Current } else { Standing::Outdated }
}

/// The file that a process runs, ` (deleted)` and all; none where the system does not tell.
fn program_of(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The version of the holder, if it is not ours.
pub(super) fn older_holder(entry: &Entry) -> Option<String> {
    (entry.holder_version != VERSION).then(|| match entry.holder_version.as_str() {
        "" => "unknown".to_owned(),
        version => version.to_owned(),
    })
}

/// Ends the node and waits for the next; its entry.
async fn replace(roll: &Roll, entry: &Entry, installed: &Path) -> Result<Entry, String> {
    let dir = roll.home.agent(&entry.agent_id);
    program::write_down(&dir, installed).map_err(|e| e.to_string())?;
    let node = ProcessMark::of(entry.node_pid).filter(|mark| mark.start_time == entry.node_start_time);
    let asked = async { Client::connect(&dir.socket()).await?.post::<()>("/api/v1/restart", &()).await };
    match tokio::time::timeout(ANSWER_PATIENCE, asked).await {
        Ok(Ok(())) => {}
        Ok(Err(CallError::Refused { status, info })) if status != 404 => return Err(info.message),
        // Too old to be asked, or not able to answer. Its death is like any other: nothing stored is lost.
        _ => drop(node.map(|node| node.kill())),
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let now = registry::scan(&roll.home).agents.into_iter().find(|now| now.agent_id == entry.agent_id);
        let Some(now) = now else {
            return Err(format!("the agent has ended; its log tells why: {}", dir.log().display()));
        };
        if now.node_pid != entry.node_pid && answers(&dir.socket()).await {
            return if now.version == VERSION {
                Ok(now)
            } else {
                Err(format!(
                    "its holder started version {} again; `synapse kill` and `run` renew it",
                    now.version
                ))
            };
        }
        if Instant::now() > until {
            let why = format!("no new node within {} s; its holder goes on trying", PATIENCE.as_secs());
            return Err(format!("{why}, and its log tells more: {}", dir.log().display()));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn answers(socket: &Path) -> bool {
    match Client::connect(socket).await {
        Ok(mut client) => client.get::<serde_json::Value>("/status").await.is_ok(),
        Err(_) => false,
    }
}

/// What `list` says below its table if not all that runs is of this version.
pub(super) fn hints(roll: &Roll) -> Vec<String> {
    let names = |is_meant: fn(&Entry) -> bool| -> Vec<String> {
        let meant = roll.scan.agents.iter().filter(|entry| is_meant(entry));
        meant.map(|entry| roll.label(&entry.agent_id)).collect()
    };
    let nodes = names(|entry| entry.version != VERSION);
    let holders = names(|entry| entry.version == VERSION && older_holder(entry).is_some());
    let mut hints = Vec::new();
    if !nodes.is_empty() {
        let nodes = nodes.join(", ");
        hints.push(format!(
            "of another version than this one ({VERSION}): {nodes}; `synapse upgrade-agents --all`"
        ));
    }
    if !holders.is_empty() {
        let holders = holders.join(", ");
        hints.push(format!(
            "with a holder of another version: {holders}; `synapse kill` and `synapse run` renew it"
        ));
    }
    hints
}

fn tell(row: &Row) {
    let name = &row.name;
    let line = match row.outcome {
        "current" => format!("{name} is of this version ({})", row.to),
        "would_restart" => format!("{name} would be restarted: {} → {}", show::cell(&row.from, 32), row.to),
        "restarted" => format!("{name} restarted: {} → {}", show::cell(&row.from, 32), row.to),
        _ => format!("{name}: {}", show::safe(row.why.as_deref().unwrap_or_default())),
    };
    show::out(&line);
    if let Some(holder) = &row.holder {
        let holder = show::cell(holder, 32);
        let hint =
            format!("  its holder is still {holder}; `synapse kill {name}` and `synapse run` renew it");
        show::out(&show::paint("2", &hint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_current_if_version_and_file_are() {
        let installed = Path::new("/opt/synapse");
        let table = [
            (VERSION, Some("/opt/synapse"), Standing::Current),
            (VERSION, None, Standing::Current),
            (VERSION, Some("/opt/synapse (deleted)"), Standing::Outdated),
            (VERSION, Some("/usr/bin/synapse"), Standing::Outdated),
            ("0.0.1", Some("/opt/synapse"), Standing::Outdated),
            ("", None, Standing::Outdated),
        ];
        for (version, runs, expected) in table {
            assert_eq!(standing(version, runs.map(Path::new), installed), expected, "{version} {runs:?}");
        }
    }
}
