//! `@agent …` in a terminal: who may be meant, and the message on its way, as `synapse send` would have it.
//!
//! Nothing is printed: what comes of it is told in one line, which the viewer shows.
//! Not here: which keys are such a line (`viewer::at`).

use super::{TIMEOUT, hand_over, nothing_came, request, stored_line};
use crate::agents::Roll;
use crate::cli::WaitFor;
use crate::cli::wait::{self, Ears, Reached};
use crate::fail::{self, Fail};
use crate::profiles;
use crate::viewer::{Message, Name};
use std::cell::Cell;
use std::path::Path;
use synapse_core::ids::AgentId;
use synapse_core::routes::Candidate;
use synapse_dialects::message::{MessageAccepted, request_to_core};
use synapse_settings::{Loaded, Places};
use synapse_store::home::Home;
use synapse_store::registry::near_folders;

const PRIORITY: u64 = 3;
const PRIORITY_URGENT: u64 = 5;
/// An answer that most terminals show whole beside the agent's name.
const NOTICE_CHARS: usize = 60;

/// By which words every agent but this one may be called; none if that is turned off.
pub fn names(home: &Home, own: &AgentId) -> Vec<Name> {
    if !settings(home).is_ok_and(|loaded| loaded.settings.terminal.at) {
        return Vec::new();
    }
    let roll = others(home, own);
    let mut names: Vec<Name> = Vec::new();
    let mut add = |typed: String, to: &str, is_offered: bool| {
        if !names.iter().any(|name| name.typed.eq_ignore_ascii_case(&typed)) {
            names.push(Name { typed, to: to.to_owned(), is_offered });
        }
    };
    // When Tab offers, those that run and work here come first.
    let mut all: Vec<&Candidate> = roll.candidates.iter().collect();
    all.sort_by_key(|one| (!one.live, roll.near.rank(&one.folder)));
    for one in &all {
        let label = one.call_it(&roll.candidates, &roll.near);
        add(label.clone(), &label, one.live);
    }
    // What others are called too goes to the nearest, or is refused with the list of those that it could mean.
    for one in &all {
        let labels = one.name.iter().map(ToString::to_string).chain([one.kind.to_string()]);
        labels.for_each(|label| add(label.clone(), &label, one.live));
    }
    for (one, port) in all.iter().filter_map(|one| Some((one, one.port?))) {
        let handle = format!("{}-{port}", one.kind);
        add(handle.clone(), &handle, one.live);
        add(format!("synapse-{handle}"), &handle, false);
    }
    let here = std::env::current_dir().unwrap_or_default();
    for found in profiles::all(home, &here).unwrap_or_default().0 {
        let profile = found.profile;
        if all.iter().any(|one| one.kind.as_str() == profile.name) {
            profile.aliases.iter().for_each(|alias| add(alias.clone(), &profile.name, false));
        }
    }
    names
}

/// Whether the person wants to know of mail that waits for them.
pub fn are_notices_wanted(home: &Home) -> bool {
    settings(home).is_ok_and(|loaded| loaded.settings.terminal.notices)
}

/// What came of a line.
pub enum Outcome {
    Told(String),
    /// It was refused, for this reason: nothing of it is on its way.
    Refused(String),
}

/// Sends it, and gives what came of it. If the answer is waited for, that it is stored is told first.
pub fn send(home: &Home, own: &AgentId, message: Message, tell: &dyn Fn(String)) -> Outcome {
    let (mut came, is_stored) = (String::new(), Cell::new(false));
    let done = super::super::block_on(async {
        came = carry(&others(home, own), message, &is_stored, tell).await?;
        Ok(())
    });
    let is_certain = |fail: &Fail| [fail::REFUSED, fail::USAGE].contains(&fail.code) && !is_stored.get();
    match done {
        Ok(()) => Outcome::Told(came),
        Err(fail) if is_certain(&fail) => Outcome::Refused(told(&fail)),
        Err(fail) => Outcome::Told(told(&fail)),
    }
}

async fn carry(
    roll: &Roll,
    message: Message,
    is_stored: &Cell<bool>,
    tell: &dyn Fn(String),
) -> Result<String, Fail> {
    // A person who asks wants to read the answer where they asked, unless the settings forbid it.
    let waits = settings(&roll.home)?.settings.a2a.flow.waits(true);
    let wait_for = if waits { WaitFor::Answer } else { WaitFor::Stored };
    let priority = if message.is_urgent { PRIORITY_URGENT } else { PRIORITY };
    let request = request(message.text, priority, wait_for);
    request_to_core(request.clone())?;
    let to = roll.find_one(&message.to)?;
    let label = roll.label(&to.id);
    let slow = |accepted: &MessageAccepted| tell(stored_line(accepted, &label));
    let accepted = hand_over(roll, to, &request, &slow).await?;
    is_stored.set(true);
    let stored = stored_line(&accepted, &label);
    if !waits || accepted.status == "spooled" {
        return Ok(stored);
    }
    tell(stored);
    let hear = |words: &str| tell(format!("{label}: {words}"));
    let ears = Ears { hear: &hear, stop_when_asked: false };
    Ok(match wait::until(roll, &to.id, &accepted, wait_for, TIMEOUT, ears).await? {
        Reached::Asks(asked) => format!("{label} asks: {}", asked.question),
        Reached::Step(step) => format!("{step} by {label}"),
        Reached::Ended { answer: Some(answer), .. } => {
            answer_notice(&label, &answer.text, accepted.task_id.as_deref().unwrap_or_default())
        }
        Reached::Ended { state, why, answer: None } => format!("{label}: {state}, {why}"),
        Reached::TimedOut { after, last } => {
            let last = last.as_deref().unwrap_or("stored");
            nothing_came(roll, to, &accepted, after, last).await.info.message
        }
    })
}

/// An answer in one line; where the rest of it is stands in front, since the end of a notice may be cut.
fn answer_notice(label: &str, text: &str, task: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines[..] {
        [] => format!("{label} has answered without text"),
        [one] if one.chars().count() <= NOTICE_CHARS => format!("{label}: {one}"),
        [first, ..] => {
            format!("{label} (all of it: synapse history show {}): {first}", &task[..8.min(task.len())])
        }
    }
}

fn others(home: &Home, own: &AgentId) -> Roll {
    let (mut roll, _) = Roll::look(home.clone());
    if let Some(own) = roll.candidates.iter().find(|one| one.id == *own) {
        roll.near = near_folders(Path::new(&own.folder));
    }
    roll.candidates.retain(|one| one.id != *own);
    roll
}

fn settings(home: &Home) -> Result<Loaded, Fail> {
    let here = std::env::current_dir()?;
    Ok(synapse_settings::load(&Places::here(home.root(), &here)).faultless()?)
}

fn told(fail: &Fail) -> String {
    format!("not sent: {}", fail.info.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answer_names_the_command_that_shows_all_of_it() {
        let task = "0123abcd4567";
        assert_eq!(answer_notice("ana", "\n42\n", task), "ana: 42");
        assert_eq!(answer_notice("ana", " ", task), "ana has answered without text");
        let all = "ana (all of it: synapse history show 0123abcd): one";
        assert_eq!(answer_notice("ana", "one\ntwo", task), all);
        assert!(answer_notice("ana", &"x".repeat(61), task).starts_with("ana (all of it: "));
    }
}
