//! `synapse kill`: ends an agent with everything it started. Its mail and its history stay.

use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::Args;
use serde_json::json;
use std::time::Duration;
use synapse_core::ids::AgentId;
use synapse_holder::{ProcessMark, descendants};
use synapse_store::should_run;

const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Args)]
pub(super) struct Kill {
    /// Names, types, handles or id prefixes
    #[arg(required_unless_present = "all")]
    agents: Vec<String>,
    /// Stop all running agents
    #[arg(long, conflicts_with = "agents")]
    all: bool,
}

pub(super) async fn kill(args: Kill, json: bool) -> Done {
    let roll = Roll::call()?;
    let ids: Vec<AgentId> = if args.all {
        roll.scan.agents.iter().map(|entry| entry.agent_id).collect()
    } else {
        args.agents.iter().map(|raw| roll.find_one(raw).map(|c| c.id)).collect::<Result<_, _>>()?
    };
    if let Some(own) = roll.caller("stop agents")?
        && ids.iter().any(|id| *id != own)
    {
        return Err(Fail::refused("an agent may not stop another; only a person may"));
    }
    if ids.is_empty() {
        if json { show::json_none() } else { show::out("no agent is running") }
    }
    for id in ids {
        // Before it is stopped: whatever happens then, `synapse start --all` leaves it alone.
        let _ = should_run::forget(&roll.home.agent(&id));
        let label = roll.label(&id);
        let Some(entry) = roll.scan.agents.iter().find(|entry| entry.agent_id == id) else {
            if json {
                show::json(&json!({ "agent_id": id, "stopped": false }));
            } else {
                show::out(&format!("{label} is not running"));
            }
            continue;
        };
        stop(entry.pid, entry.start_time, &label).await?;
        if json {
            show::json(&json!({ "agent_id": id, "stopped": true }));
        } else {
            show::out(&format!("{label} stopped"));
        }
    }
    Ok(())
}

/// Asks the holder to end the agent, and waits until it has.
pub(super) async fn stop(pid: u32, start_time: u64, label: &str) -> Done {
    let mark = ProcessMark::of(pid).filter(|mark| mark.start_time == start_time);
    let Some(mark) = mark else { return Ok(()) };
    let below: Vec<ProcessMark> = descendants(pid).into_iter().filter_map(ProcessMark::of).collect();
    mark.terminate();
    let gone = async {
        let mut pause = Duration::from_millis(2);
        while mark.is_alive() {
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(Duration::from_millis(100));
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.map_err(|_| {
        let message =
            format!("{label} has not stopped within {} s; its holder is process {pid}", PATIENCE.as_secs());
        Fail::new(fail::TIMED_OUT, "timed_out", message)
    })?;
    let left: Vec<u32> = below.iter().filter(|mark| mark.is_alive()).map(|mark| mark.pid).collect();
    if left.is_empty() { Ok(()) } else { Err(survivors(label, &left)) }
}

/// The holder gave up on these: they hang in the kernel, or belong to another user.
fn survivors(label: &str, left: &[u32]) -> Fail {
    let named = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        format!("{pid} ({})", show::cell_err(line.trim(), 60))
    };
    let pids: Vec<String> = left.iter().map(ToString::to_string).collect();
    let message = format!(
        "{label} stopped, but not all it had started: {} outlived SIGKILL; `kill -9 {}` as their user, or reboot",
        left.iter().map(named).collect::<Vec<_>>().join(", "),
        pids.join(" ")
    );
    Fail::new(fail::ERROR, "survivors", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survivors_are_named() {
        let own = std::process::id();
        let message = survivors("ana", &[own]).info.message;
        assert!(
            message.contains(&format!("{own} (")) && message.contains(&format!("kill -9 {own}")),
            "{message}"
        );
        assert!(message.contains("synapse") || cfg!(not(target_os = "linux")), "{message}");
    }
}
