//! `synapse history`: the newest messages of all, or of some, like a log.

use super::List;
use super::shelf::{Book, Shelf, note, wanted};
use super::when;
use crate::fail::{Done, Fail};
use crate::show;
use jiff::tz::TimeZone;
use synapse_core::ids::TaskRef;
use synapse_dialects::history::HistoryLine;
use synapse_store::browse::{Page, Past, Wanted, What};

pub(super) fn list(args: &List, json: bool) -> Done {
    let task = args.task.as_deref().map(TaskRef::parse).transpose();
    let task = task.map_err(|bad| Fail::usage(bad.to_string()))?;
    let shelf = Shelf::open(args.agent.as_deref())?;
    let from = args.from.as_deref().map(|raw| shelf.sender(raw)).transpose()?;
    let wanted = Wanted { from, ..wanted(args.span) };
    let max = args.limit as usize;
    let mut found: Vec<(&Book, Past)> = Vec::new();
    for book in &shelf.books {
        let page = match &task {
            Some(task) => of_task(book, task, &wanted),
            None => book.told(book.history.newest(&wanted, max)),
        };
        found.extend(page.found.into_iter().map(|past| (book, past)));
    }
    found.sort_by_key(|(book, past)| (past.at, book.id, past.seq));
    let cut = found.len().saturating_sub(max);
    let lines: Vec<HistoryLine> =
        found.drain(cut..).filter_map(|(book, past)| Some(book.line(&past)?.0)).collect();
    if json {
        show::json(&lines);
        return Ok(());
    }
    if lines.is_empty() {
        note("no message is kept that fits; `synapse history --help` shows what can be asked");
        return Ok(());
    }
    show::out(&table(&shelf, &lines));
    Ok(())
}

fn of_task(book: &Book, task: &TaskRef, wanted: &Wanted) -> Page {
    let mut ids = Vec::new();
    for id in book.history.tasks_like(task.as_str()).unwrap_or_default() {
        if let Some(Past { what: What::Ended { archive, .. }, .. }) = book.ended(&id) {
            ids.extend(archive.task.messages);
        }
    }
    if ids.is_empty() {
        let open = book.state().into_iter().flat_map(|state| state.tasks.values());
        ids.extend(open.filter(|open| task.names(&open.id)).flat_map(|open| open.messages.clone()));
    }
    let mut page = Page::default();
    for id in ids {
        let exact = |past: &Past| matches!(&past.what, What::Message { letter, .. } if letter.id == id && task.names(&letter.task));
        page.found.extend(book.told(book.history.messages_like(id.as_str())).found.into_iter().filter(exact));
    }
    page.found.retain(|past| {
        let What::Message { letter, .. } = &past.what else { return false };
        wanted.has_time(past.at) && wanted.from.as_ref().is_none_or(|who| *who == letter.from.who)
    });
    page
}

/// One line for each message, and one below it for its answer.
fn table(shelf: &Shelf, lines: &[HistoryLine]) -> String {
    let zone = TimeZone::system();
    let mut rows = Vec::new();
    for line in lines {
        let message = &line.record.message;
        let at = synapse_dialects::time::read("accepted_at", &message.accepted_at).unwrap_or_default();
        rows.push(vec![
            when::show(at, &zone),
            format!("{} → {}", show::cell(&shelf.roll.sender(&message.from), 32), line.record.to_label),
            message.task_id.get(..8).unwrap_or_default().to_owned(),
            show::state(&line.outcome.state),
            first_line(message.text.as_deref().unwrap_or_default()),
        ]);
        let said = match (&line.outcome.answer, line.outcome.state.as_str(), &line.outcome.why) {
            (Some(answer), _, _) if !answer.text.trim().is_empty() => Some(first_line(&answer.text)),
            (_, "failed" | "rejected" | "canceled", Some(why)) => Some(first_line(why)),
            _ => None,
        };
        if let Some(said) = said {
            rows.push(vec![String::new(), String::new(), String::new(), String::new(), format!("↳ {said}")]);
        }
    }
    let widest = |n: usize| rows.iter().map(|row| show::visible(&row[n])).max().unwrap_or(0);
    let before: usize = (0..4).map(|n| widest(n).max(5) + 2).sum();
    let room = show::columns().saturating_sub(before).max(20);
    for row in &mut rows {
        row[4] = show::fit_here(&row[4], room);
    }
    show::table(&["TIME", "FROM → TO", "TASK", "STATE", "MESSAGE"], &rows)
}

/// The first line that says something, and a sign if there are more.
fn first_line(text: &str) -> String {
    const CHARS_MAX: usize = 400;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = show::cell(lines.next().unwrap_or_default(), CHARS_MAX);
    if lines.next().is_some() && !first.ends_with('…') { format!("{first} …") } else { first }
}
