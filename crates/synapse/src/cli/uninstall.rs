//! `synapse clean --uninstall`: stops all agents and removes the home. It names what it leaves in files of others.

use super::init::AgentCli;
use super::{confirm, init};
use crate::agents::Roll;
use crate::fail::{self, Done, Fail};
use crate::remove::{self, Looks, Plan};
use crate::{program, show};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use synapse_core::ids::AgentId;
use synapse_holder::ProcessMark;
use synapse_store::{registry, should_run};

#[derive(Args)]
pub(super) struct Uninstall {
    /// Keep messages and history for a later installation
    #[arg(long)]
    keep_mail: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Show what would be stopped and removed
    #[arg(long)]
    dry_run: bool,
}

impl Uninstall {
    pub(super) fn new(keep_mail: bool, yes: bool, dry_run: bool) -> Self {
        Self { keep_mail, yes, dry_run }
    }
}

pub(super) async fn uninstall(args: &Uninstall, json: bool) -> Done {
    let roll = Roll::call()?;
    if roll.caller("uninstall")?.is_some() {
        return Err(Fail::refused("an agent may not uninstall; only a person may"));
    }
    let root = roll.home.root();
    let looks = Looks::at(root);
    if !looks.is_there {
        if json {
            show::json(&all_told(root, 0, 0, &Plan::default(), &LeftThere::default()));
        } else {
            show::out(&format!("there is nothing at {}", root.display()));
        }
        return Ok(());
    }
    if let Some(why) = looks.objection() {
        let message = format!(
            "{} is not removed: {why}; look at it, and remove it by hand if it is to go",
            root.display()
        );
        return Err(Fail::refused(message));
    }
    let ids: Vec<AgentId> = remove::names_in(&roll.home.agents_dir())
        .iter()
        .filter_map(|name| AgentId::parse(name).ok())
        .collect();
    let held: Vec<(AgentId, ProcessMark)> = ids
        .iter()
        .filter_map(|id| Some((*id, synapse_holder::holder_of(roll.home.agent(id).path())?)))
        .collect();
    let plan = remove::plan(&remove::names_in(root), args.keep_mail);
    let left = LeftThere::look();
    if !json {
        tell(&roll, &held, &ids, &plan, &left);
    }
    if args.dry_run {
        if json {
            let mut value = all_told(root, held.len(), ids.len(), &plan, &left);
            value["dry_run"] = true.into();
            show::json(&value);
        }
        return Ok(());
    }
    if !args.yes {
        confirm("Stop and remove this?", "nothing was stopped or removed", json)?;
    }
    for (id, mark) in &held {
        let _ = should_run::forget(&roll.home.agent(id));
        super::kill::stop(mark.pid, mark.start_time, &roll.label(id)).await?;
    }
    // Entries of ours whose agents are gone now; those of other tools stay.
    registry::scan(&roll.home);
    let told = |why: String| Fail::new(fail::ERROR, "not_removed", why);
    remove::remove_home(&roll.home, &ids, &plan, args.keep_mail).map_err(told)?;
    if json {
        show::json(&all_told(root, held.len(), ids.len(), &plan, &left));
    } else {
        show::out(&format!(
            "stopped {}, removed {}",
            held.len(),
            if root.exists() { "what is ours" } else { "all of it" }
        ));
    }
    Ok(())
}

/// `clean --uninstall --json`; stable.
fn all_told(root: &Path, stopped: usize, agents: usize, plan: &Plan, left: &LeftThere) -> Value {
    json!({
        "home": root, "stopped": stopped, "agents": agents, "removed": plan.goes,
        "kept": plan.stays, "left": plan.not_ours, "lessons": left.lessons, "registered": left.registered,
    })
}

/// What of ours is in files of others.
#[derive(Default)]
struct LeftThere {
    lessons: Vec<PathBuf>,
    /// Settings in which programs are told to start our tools.
    registered: Vec<PathBuf>,
}

impl LeftThere {
    fn look() -> Self {
        Self { lessons: lessons(), registered: [false, true].map(init::registered).concat() }
    }
}

/// Files in which agents are still taught to use this program.
fn lessons() -> Vec<PathBuf> {
    let everywhere = [false, true].map(|user| init::files_of(&AgentCli::ALL, user).unwrap_or_default());
    let files = everywhere.into_iter().flatten();
    files.filter(|path| std::fs::read(path).is_ok_and(|text| init::teaches(&text))).collect()
}

fn tell(roll: &Roll, held: &[(AgentId, ProcessMark)], ids: &[AgentId], plan: &Plan, left: &LeftThere) {
    let root = roll.home.root();
    if !held.is_empty() {
        let mut names: Vec<String> = held.iter().map(|(id, _)| roll.label(id)).collect();
        names.sort();
        show::out(&format!("stops    {}", names.join(", ")));
    }
    for name in &plan.goes {
        let more = match name.as_str() {
            "agents" => format!("  ({} with mail and history)", ids.len()),
            "registry" => "  (entries of ours)".to_owned(),
            _ => String::new(),
        };
        show::out(&show::safe(&format!("removes  {}{more}", root.join(name).display())));
    }
    for name in &plan.stays {
        show::out(&format!("keeps    {}", root.join(name).display()));
    }
    for name in &plan.not_ours {
        show::out(&show::safe(&format!("leaves   {}, which is not ours", root.join(name).display())));
    }
    let lessons = left.lessons.iter().map(|path| ("the lesson", path));
    for (what, path) in lessons.chain(left.registered.iter().map(|path| ("the MCP server", path))) {
        show::out(&format!("leaves   {what} in {}: `synapse init --remove` takes it out", path.display()));
    }
    if let Ok(program) = program::installed() {
        show::out(&format!("leaves   {}, the program itself", program.display()));
    }
}
