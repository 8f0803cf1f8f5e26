//! Words that resume an earlier conversation are for the agent that had it: the same id, mailbox, history and name.
//!
//! A session id names the agent that was in this session last. Without one, it is the only stopped agent of this type in
//! the folder. Of several, nobody but the user knows which one is meant.
//! Not here: which words resume a conversation (`synapse_terminal::resume`), agents that run (`another`).

use super::super::{Who, start};
use super::{Chosen, How};
use crate::agents::Roll;
use crate::fail::{self, Fail};
use crate::remove;
use crate::show;
use serde_json::json;
use std::path::Path;
use synapse_core::ids::{AgentId, AgentType, Label};
use synapse_node::Hand;
use synapse_store::cli_session::CliSession;
use synapse_store::known::Known;
use synapse_terminal::resume::AskedSession;

/// The agent whose conversation the words resume.
pub(super) struct Meant {
    known: Known,
    label: String,
}

impl Meant {
    /// The agent that was last in the session which the words name, whether it runs or not.
    pub(super) fn by_session(who: &Who, chosen: &Chosen, how: &How) -> Result<Option<Self>, Fail> {
        let AskedSession::This(id) = asked(who, chosen, how) else { return Ok(None) };
        let was_in_it = |roll: &Roll, known: &Known| {
            let last = CliSession::load(&roll.home.agent(&known.id));
            last.is_some_and(|session| session.id == id.as_str())
        };
        let (roll, found) = candidates(who, chosen, was_in_it)?;
        match &found[..] {
            [one] => Ok(Some(Self { label: roll.label(&one.id), known: one.clone() })),
            _ => Ok(None),
        }
    }

    /// The only stopped agent of this type in the folder; an error if there are several.
    pub(super) fn by_folder(who: &Who, chosen: &Chosen, how: &How) -> Result<Option<Self>, Fail> {
        if asked(who, chosen, how) == AskedSession::None {
            return Ok(None);
        }
        let now = synapse_node::driver::now().0;
        let is_stopped = |roll: &Roll, known: &Known| {
            let launch = start::read_quietly(&roll.home, &known.id);
            let has_terminal = launch.is_some_and(|launch| matches!(launch.hand, Hand::Terminal(_)));
            has_terminal && !roll.is_held(&known.id) && !remove::is_short_try(roll, known, now)
        };
        let (roll, mut found) = candidates(who, chosen, is_stopped)?;
        match &found[..] {
            [] => Ok(None),
            [one] => Ok(Some(Self { label: roll.label(&one.id), known: one.clone() })),
            _ => {
                found.sort_by_key(|known| std::cmp::Reverse(known.last_started_ms));
                Err(several(&roll, &found, &how.start_another))
            }
        }
    }

    pub(super) fn id(&self) -> AgentId {
        self.known.id
    }

    /// Says who it is, if that is not to be expected.
    pub(super) fn tell(&self) {
        if self.known.suffix.is_some() {
            let note = format!("this goes on as {}, with its mailbox and its history", self.label);
            eprintln!("{}", show::paint_err("2", &note));
        }
    }

    /// Its name, or its number among the unnamed ones.
    pub(super) fn into_identity(self) -> (Option<Label>, Option<u32>) {
        let number = self.known.reserved_number().filter(|_| self.known.name.is_none());
        (self.known.name, number)
    }
}

fn asked(who: &Who, chosen: &Chosen, how: &How) -> AskedSession {
    let resume = chosen.found.profile.resume.as_ref().filter(|_| who.name.is_none() && !how.new);
    resume.map_or(AskedSession::None, |resume| resume.asked(chosen.user_words()))
}

/// The agents of this type in this folder that the caller may start, and that are wanted.
fn candidates(
    who: &Who,
    chosen: &Chosen,
    wanted: impl Fn(&Roll, &Known) -> bool,
) -> Result<(Roll, Vec<Known>), Fail> {
    let (roll, _) = Roll::call_quietly()?;
    let folder = who.cwd.as_deref().unwrap_or(Path::new(".")).canonicalize().ok();
    let (Some(folder), Some(kind)) = (folder, chosen.kind()) else { return Ok((roll, Vec::new())) };
    let own = roll.own_agent();
    let is_here = |known: &Known, kind: &AgentType| {
        known.kind == *kind && Path::new(&known.working_dir) == folder && known.started_by == own
    };
    let found: Vec<Known> =
        roll.known.iter().filter(|known| is_here(known, &kind) && wanted(&roll, known)).cloned().collect();
    Ok((roll, found))
}

/// Which one is meant is not known: a table of them, with the command for each.
fn several(roll: &Roll, found: &[Known], start_another: &str) -> Fail {
    let kind = &found[0].kind;
    let names: Vec<String> = found.iter().map(|known| roll.label(&known.id)).collect();
    let message = format!(
        "{kind} was not started: several stopped agents of this type are in this folder ({})\n\
         hint: `synapse start NAME` starts one of them, `{start_another}` starts another one",
        names.join(", ")
    );
    let mut fail = Fail::new(fail::REFUSED, "several_stopped", message);
    let choice = |known: &Known| {
        let session = CliSession::load(&roll.home.agent(&known.id)).map(|session| session.id);
        json!({
            "name": roll.label(&known.id),
            "agent_id": known.id,
            "last_started_ms": known.last_started_ms,
            "session": session,
            "start": start::command_for(roll, known).ok().map(|how| how.command),
        })
    };
    let stopped: Vec<serde_json::Value> = found.iter().map(choice).collect();
    fail.info.details = Some(json!({ "type": kind, "stopped": stopped, "start_another": start_another }));
    fail
}

/// The same for people.
pub fn shown(details: &serde_json::Value) -> Option<String> {
    let (kind, another) = (details.get("type")?.as_str()?, details.get("start_another")?.as_str()?);
    let now = synapse_node::driver::now().0;
    let rows: Vec<Vec<String>> = details
        .get("stopped")?
        .as_array()?
        .iter()
        .map(|one| {
            let started = one["last_started_ms"].as_u64().unwrap_or_default();
            let conversation = if one["session"].is_string() { "known" } else { "not known" };
            vec![
                show::line(one["name"].as_str().unwrap_or_default(), 60),
                format!("{} ago", show::ago(now.saturating_sub(started))),
                conversation.to_owned(),
                one["start"].as_str().unwrap_or("-").to_owned(),
            ]
        })
        .collect();
    let table = show::table(&["NAME", "LAST STARTED", "CONVERSATION", "START IT WITH"], &rows);
    Some(format!(
        "several stopped agents of type {kind} are in this folder; which one is to go on?\n{table}\n\
         hint: use a command of the last column, or --name NAME with these arguments; `{another}` starts another agent"
    ))
}
