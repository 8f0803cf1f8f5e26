//! Earlier turns of a conversation, for programs that ask for them (finding A3).
//!
//! A conversation consists of one caller's messages and their answers in one context, under one
//! tenant. Another caller with the same context id has a separate conversation. Only ended tasks
//! count: the messages of a running one are delivered anyway.

use synapse_core::message::{Letter, owner};
use synapse_core::task::Question;
use synapse_dialects::api::TurnView;
use synapse_store::{History, JournalError};

/// The maximum number of turns that can be requested.
pub const TURNS_MAX: usize = 200;
/// The maximum size of all turns together. Turns older than the first one that does not fit are
/// omitted too.
const BYTES_MAX: usize = 256 << 10;

/// Returns at most `max` turns before this message, oldest first.
pub(crate) fn earlier_turns(
    history: &History,
    letter: &Letter,
    max: usize,
) -> Result<Vec<TurnView>, JournalError> {
    let owner = owner(&letter.from.who, letter.tenant.as_ref());
    let tasks = history.conversation(&owner, &letter.context_id(), max.min(TURNS_MAX))?;
    let (mut turns, mut bytes) = (Vec::new(), 0);
    'tasks: for (ending, archive) in &tasks {
        let task = &archive.task;
        let mut of_task: Vec<TurnView> = TurnView::answered(task, ending).into_iter().collect();
        let mut questions = task.questions.iter().rev().peekable();
        for (n, message) in task.messages.iter().enumerate().rev() {
            let Some((letter, body)) = history.message(message)? else { continue };
            // A question always follows the first message, whatever the clock says.
            let is_later = |question: &&Question| n == 0 || question.at > letter.accepted_at;
            while let Some(question) = questions.next_if(is_later) {
                of_task.push(TurnView::questioned(task, question));
            }
            of_task.push(TurnView::asked(&letter, &body));
        }
        for turn in of_task {
            bytes += serde_json::to_string(&turn).map_or(0, |text| text.len());
            if turns.len() == max || bytes > BYTES_MAX {
                break 'tasks;
            }
            turns.push(turn);
        }
    }
    turns.reverse();
    Ok(turns)
}

/// Formats turns as one JSON object per line, for a plain command.
pub(crate) fn as_lines(turns: &[TurnView]) -> String {
    turns.iter().filter_map(|turn| serde_json::to_string(turn).ok()).map(|line| line + "\n").collect()
}
