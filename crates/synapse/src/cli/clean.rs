//! `synapse clean`: removes what nobody uses any more: stale files, agents that did not run for long, and short tries.
//!
//! An agent that mail waits for is kept, unless it is named and its mail is given up in so many words.

use super::uninstall::{self, Uninstall};
use super::{block_on, confirm};
use crate::agents::Roll;
use crate::doctor::{Finding, facts, judge, mend};
use crate::fail::{self, Done, Fail};
use crate::remove::{self, KeptBy};
use crate::show;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;
use synapse_core::ids::AgentId;
use synapse_store::lifetime;

#[derive(Args)]
pub(super) struct Clean {
    /// Remove agents without mail that did not run for this many days
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    older_than: u64,
    /// Remove all stopped agents without mail
    #[arg(long)]
    stopped: bool,
    /// Remove this stopped agent (repeatable)
    #[arg(long, value_name = "AGENT")]
    forget: Vec<String>,
    /// Also remove the mail of the agents named by --forget
    #[arg(long, requires = "forget")]
    with_mail: bool,
    /// Stop all agents and remove all data of Synapse
    #[arg(long, conflicts_with_all = ["older_than", "stopped", "forget"])]
    uninstall: bool,
    /// Keep messages and history for a later installation
    #[arg(long, requires = "uninstall")]
    keep_mail: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Show what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// One thing of `clean --json`; stable.
#[derive(Serialize)]
struct Row {
    what: String,
    removed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(super) fn clean(args: &Clean, json: bool) -> Done {
    if args.uninstall {
        let all = Uninstall::new(args.keep_mail, args.yes, args.dry_run);
        return block_on(uninstall::uninstall(&all, json));
    }
    let roll = Roll::call()?;
    if roll.caller("remove things")?.is_some() {
        return Err(Fail::refused("an agent may not remove things; only a person may"));
    }
    let stale: Vec<Finding> = judge::stale_findings(&facts::stale_files(&roll.home));
    let agents = removals(&roll, args)?;
    if stale.is_empty() && agents.is_empty() {
        if json {
            show::json_none();
        } else {
            show::out("there is nothing to remove; `synapse clean --stopped` removes stopped agents, too");
        }
        return Ok(());
    }
    let what = |gone: &Removal| format!("the agent {} with its history ({})", roll.label(&gone.id), gone.why);
    if !json {
        for finding in &stale {
            show::out(&show::safe(&finding.what));
        }
        agents.iter().for_each(|gone| show::out(&what(gone)));
    }
    if !args.dry_run && !args.yes {
        confirm("Remove this?", "nothing was removed", json)?;
    }
    let mut rows = Vec::new();
    let mut add = |what: String, done: Result<(), String>| {
        let done = if args.dry_run { None } else { Some(done) };
        let removed = matches!(done, Some(Ok(())));
        rows.push(Row { what, removed, why: done.and_then(Result::err) });
    };
    for finding in stale {
        let fix = finding.fix.as_ref().filter(|_| !args.dry_run);
        add(finding.what.clone(), fix.map_or(Ok(()), |fix| mend::mend(&roll.home, fix)));
    }
    for gone in agents {
        let dir = roll.home.agent(&gone.id);
        let done = if args.dry_run { Ok(()) } else { remove::forget(&dir, gone.kept_by) };
        add(what(&gone), done);
    }
    tell(&rows, args.dry_run, json)
}

fn tell(rows: &[Row], dry_run: bool, json: bool) -> Done {
    let failed: Vec<&Row> = rows.iter().filter(|row| row.why.is_some()).collect();
    if json {
        show::json(&rows);
    } else if !dry_run {
        show::out(&format!("{} removed", rows.len() - failed.len()));
        for row in &failed {
            show::out(&show::safe(&format!(
                "not removed: {}: {}",
                row.what,
                row.why.as_deref().unwrap_or_default()
            )));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Fail::new(
        fail::ERROR,
        "not_removed",
        format!("{} of {} could not be removed", failed.len(), rows.len()),
    ))
}

/// Stopped agents that only ran for seconds, and that nobody is about to send anything to.
fn short_tries(roll: &Roll) -> BTreeSet<AgentId> {
    let now = synapse_node::driver::now().0;
    let short = roll.known.iter().filter(|known| remove::is_short_try(roll, known, now));
    let mut tries: BTreeSet<AgentId> = short.map(|known| known.id).collect();
    if tries.is_empty() {
        return tries;
    }
    let Some(awaited) = remove::awaited(roll) else { return BTreeSet::new() };
    // Their journals are looked into once more, so that a wrong record removes nothing.
    tries.retain(|id| !awaited.contains(id) && !lifetime::is_used(&roll.home.agent(id)));
    tries
}

/// An agent that goes.
struct Removal {
    id: AgentId,
    why: String,
    kept_by: KeptBy,
}

/// Which agents go, and why.
fn removals(roll: &Roll, args: &Clean) -> Result<Vec<Removal>, Fail> {
    let mut gone = Vec::new();
    let kept_by = if args.with_mail { KeptBy::Nothing } else { KeptBy::Mail };
    let mut go = |id, why| gone.push(Removal { id, why, kept_by });
    for raw in &args.forget {
        let one = roll.find_stopped(raw)?;
        let label = roll.label(&one.id);
        if one.live {
            return Err(Fail::refused(format!("{label} runs; stop it first: `synapse kill {label}`")));
        }
        match remove::mail_of(&roll.home.agent(&one.id)) {
            Ok(mail) if mail.is_none() => go(one.id, "no mail waits for it".to_owned()),
            Ok(mail) if args.with_mail => go(one.id, format!("and {}", mail.shown())),
            Err(why) if args.with_mail => go(one.id, format!("its mail cannot be read: {why}")),
            Ok(mail) => {
                let message = format!("{} wait for {label}; add --with-mail to give them up", mail.shown());
                return Err(Fail::refused(message));
            }
            Err(why) => {
                let message = format!(
                    "whether mail waits for {label} cannot be told ({why}); add --with-mail to give it up"
                );
                return Err(Fail::refused(message));
            }
        }
    }
    let age = Duration::from_secs(args.older_than.saturating_mul(86_400));
    let tries = short_tries(roll);
    let named: Vec<AgentId> = gone.iter().map(|gone| gone.id).collect();
    for known in &roll.known {
        let dir = roll.home.agent(&known.id);
        let runs = roll.scan.agents.iter().any(|entry| entry.agent_id == known.id);
        if runs || named.contains(&known.id) {
            continue;
        }
        let idle = remove::idle_for(&dir);
        let mut kept_by = KeptBy::Mail;
        let why = match idle {
            Some(idle) if idle >= age => format!("it did not run for {} days", idle.as_secs() / 86_400),
            _ if args.stopped => "it is stopped".to_owned(),
            _ if tries.contains(&known.id) => {
                kept_by = KeptBy::Use;
                "it ran for less than a minute and got no message".to_owned()
            }
            _ => continue,
        };
        if remove::mail_of(&dir).is_ok_and(remove::Mail::is_none) {
            gone.push(Removal { id: known.id, why, kept_by });
        }
    }
    Ok(gone)
}
