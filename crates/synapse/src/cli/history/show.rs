//! `synapse history show`: a whole conversation, from agent to agent.

use super::shelf::{Book, Filling, Shelf, warn};
use super::{Show, mermaid, tree, when};
use crate::fail::{Done, Fail};
use crate::show;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::sync::Arc;
use synapse_core::ids::{MessageId, TaskRef};
use synapse_core::message::{Key, Letter, Who};
use synapse_core::task::Task;
use synapse_dialects::api::{MarkView, MoveView};
use synapse_dialects::history::{ConversationMessage, ConversationView};
use synapse_store::browse::{Past, What};
use synapse_store::search::{self, Hits, IndexError};

/// A conversation of more is cut, and says so.
const MESSAGES_MAX: usize = 5_000;
const TEXT_LINES: usize = 40;

pub(super) fn show(args: &Show, json: bool) -> Done {
    let shelf = Shelf::open(None)?;
    let correlation = find(&shelf, &args.id)?;
    let (mut messages, mut complete) = (Vec::new(), true);
    for book in &shelf.books {
        let hits = ask(book, &correlation);
        book.told_bad(&hits.bad);
        complete &= hits.cut.is_none();
        messages.extend(hits.found.iter().filter_map(|past| message(book, past)));
    }
    let messages = tree::grow(messages);
    if args.mermaid {
        if messages.len() > mermaid::MESSAGES_MAX {
            warn(&format!(
                "only the first {} of {} messages are drawn",
                mermaid::MESSAGES_MAX,
                messages.len()
            ));
        }
        show::out(mermaid::diagram(&messages).trim_end());
    } else if json {
        show::json(&ConversationView { correlation_id: correlation, messages, complete });
    } else {
        show::out(&drawn(&shelf, &messages));
    }
    if !complete {
        warn("this conversation is too long to be shown whole; the newest of it is shown");
    }
    Ok(())
}

/// The conversation that an id belongs to.
fn find(shelf: &Shelf, raw: &str) -> Result<String, Fail> {
    let id = MessageId::parse(raw).map_err(|bad| Fail::usage(bad.to_string()))?;
    let (mut whole, mut begun) = (BTreeMap::new(), BTreeMap::new());
    for book in &shelf.books {
        for (letter, is_whole) in letters(book, &id) {
            let told = format!("{} to {} in task {}", letter.id, book.label, letter.task.short());
            let into = if is_whole { &mut whole } else { &mut begun };
            into.insert(letter.chain.correlation.to_string(), told);
        }
    }
    let found = if whole.is_empty() { begun } else { whole };
    let mut conversations = found.keys();
    match (conversations.next(), conversations.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => {
            let mut fail = Fail::refused(format!("{raw} is the beginning of several ids; write more of it:"));
            fail.info.details = Some(serde_json::json!({ "candidates": found.values().collect::<Vec<_>>() }));
            Err(fail)
        }
        (None, _) => Err(Fail::refused(format!(
            "no message or task that is kept has the id {raw}; `synapse history` lists them. Mail that waits in a \
             spool is not history yet"
        ))),
    }
}

/// What an id, or the beginning of one, may mean in one journal; and whether it is the whole id.
fn letters(book: &Book, id: &MessageId) -> Vec<(Arc<Letter>, bool)> {
    let mut found = Vec::new();
    // What `send --message-id` called it.
    let key = Key { who: Who::User, tenant: None, message: id.clone() }.text();
    if let Ok(Some((letter, _))) = book.history.message_by_key(&key) {
        found.push((letter, true));
    }
    for letter in like(book, id) {
        let is_whole = letter.id == *id;
        if is_whole || id.as_str().len() >= TaskRef::SHORT {
            found.push((letter, is_whole));
        }
    }
    if let Ok(task) = TaskRef::parse(id.as_str()) {
        let of_task = |letter: &Arc<Letter>| task.names(&letter.task);
        let firsts = first_messages(book, &task);
        found.extend(
            firsts.iter().flat_map(|id| like(book, id)).filter(of_task).map(|letter| (letter, false)),
        );
    }
    found
}

fn like(book: &Book, id: &MessageId) -> Vec<Arc<Letter>> {
    let page = book.told(book.history.messages_like(id.as_str()));
    let letter = |past: Past| match past.what {
        What::Message { letter, .. } => Some(letter),
        _ => None,
    };
    page.found.into_iter().filter_map(letter).collect()
}

/// The messages that opened the tasks with such an id, ended ones and open ones.
fn first_messages(book: &Book, task: &TaskRef) -> Vec<MessageId> {
    let ended = book.history.tasks_like(task.as_str()).unwrap_or_default();
    let first = |task: &Task| task.messages.first().cloned();
    let mut found: Vec<MessageId> = ended
        .iter()
        .filter_map(|id| match book.ended(id)?.what {
            What::Ended { archive, .. } => first(&archive.task),
            _ => None,
        })
        .collect();
    if found.is_empty() {
        let open = book.state().into_iter().flat_map(|state| state.tasks.values());
        found.extend(open.filter(|open| task.names(&open.id)).filter_map(|open| first(open)));
    }
    found
}

fn ask(book: &Book, correlation: &str) -> Hits {
    let mut filling = Filling::of(&book.label);
    let tell = &mut |done, all| filling.tell(done, all);
    let asked = search::conversation(&book.index, &book.history, correlation, MESSAGES_MAX, tell);
    drop(filling);
    let asked = match asked {
        Err(IndexError::Unusable { .. }) => {
            if let Err(e) = &asked {
                warn(&format!("{e}; only what is newest is looked at now"));
            }
            let scanned = search::scan_conversation(&book.history, correlation, MESSAGES_MAX);
            scanned.map_err(IndexError::from)
        }
        other => other,
    };
    asked.unwrap_or_else(|e| {
        book.warn(&e);
        Hits::default()
    })
}

fn message(book: &Book, past: &Past) -> Option<ConversationMessage> {
    let (line, ended) = book.line(past)?;
    let trail = book.trail(past, ended.as_ref());
    let What::Message { letter, .. } = &past.what else { return None };
    let moves = match ended.as_ref().map(|past| &past.what) {
        Some(What::Ended { archive, .. }) => archive.task.history.clone(),
        _ => {
            let open = book.state().and_then(|state| state.tasks.get(&letter.task));
            open.map(|task| task.history.clone()).unwrap_or_default()
        }
    };
    Some(ConversationMessage {
        depth: 0,
        line,
        trail: trail.marks().iter().map(MarkView::from).collect(),
        moves: moves.iter().map(MoveView::from).collect(),
    })
}

fn drawn(shelf: &Shelf, messages: &[ConversationMessage]) -> String {
    let zone = TimeZone::system();
    let depths: Vec<usize> = messages.iter().map(|message| message.depth).collect();
    let mut lines = Vec::new();
    for (message, (head, below)) in messages.iter().zip(tree::branches(&depths)) {
        let view = &message.line.record.message;
        let at = synapse_dialects::time::read("accepted_at", &view.accepted_at).unwrap_or_default();
        let who =
            format!("{} → {}", show::cell(&shelf.roll.sender(&view.from), 40), message.line.record.to_label);
        let task = view.task_id.get(..8).unwrap_or_default();
        let state = show::state(&message.line.outcome.state);
        lines.push(format!("{head}{}  {task}  {state}  {}", show::paint("1", &who), when::show(at, &zone)));
        lines.extend(text(view.text.as_deref().unwrap_or_default()).map(|line| format!("{below}{line}")));
        let receipt = format!("{below}{}", receipt(&message.trail));
        lines.push(show::paint("2", &show::fit_here(&receipt, show::columns())));
        let outcome = &message.line.outcome;
        if let Some(answer) = outcome.answer.as_ref().filter(|answer| !answer.text.trim().is_empty()) {
            let said = text(&answer.text).enumerate();
            lines.extend(said.map(|(n, line)| format!("{below}{} {line}", if n == 0 { "↳" } else { " " })));
        } else if let (Some(why), "failed" | "rejected" | "canceled") = (&outcome.why, outcome.state.as_str())
        {
            lines.push(format!("{below}↳ {}", show::cell(why, 400)));
        }
    }
    lines.join("\n")
}

/// What was said, line by line, so that it stays below its branch.
fn text(text: &str) -> impl Iterator<Item = String> + '_ {
    let count = text.lines().count();
    let more = count.saturating_sub(TEXT_LINES);
    let more = (more > 0).then(|| show::paint("2", &format!("… {more} more lines; --json has them")));
    text.lines().take(TEXT_LINES).map(|line| show::safe(line).replace('\t', "    ")).chain(more)
}

/// How far it came, with the time each step took.
fn receipt(trail: &[MarkView]) -> String {
    let time = |mark: &MarkView| synapse_dialects::time::read("at", &mark.at).unwrap_or_default();
    let Some(first) = trail.first().map(time) else {
        return "no receipt is kept".to_owned();
    };
    let told: Vec<String> = trail
        .iter()
        .map(|mark| {
            let why =
                mark.why.as_deref().map_or_else(String::new, |why| format!(" ({})", show::cell(why, 60)));
            match time(mark).since_ms(first) {
                0 => format!("{}{why}", mark.what),
                ms @ ..10_000 => format!("{}{why} +{ms} ms", mark.what),
                ms => format!("{}{why} +{}", mark.what, show::ago(ms)),
            }
        })
        .collect();
    told.join(" · ")
}
