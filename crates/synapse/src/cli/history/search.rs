//! `synapse history search`: words in messages and answers.

use super::Search;
use super::shelf::{Book, Filling, Shelf, note, warn};
use super::{snippet, when};
use crate::fail::{Done, Fail};
use crate::show;
use jiff::tz::TimeZone;
use synapse_core::Timestamp;
use synapse_dialects::history::{EndedRecord, HistoryRecord, MessageRecord, SearchHit, SearchView};
use synapse_store::browse::{Past, What};
use synapse_store::grams::Query;
use synapse_store::search::{self, Cut, Hits, IndexError, Wish};

const SNIPPET_CHARS: usize = 160;

pub(super) fn search(args: &Search, json: bool) -> Done {
    let query = Query::parse(&args.text).map_err(|bad| Fail::usage(bad.to_string()))?;
    let shelf = Shelf::open(args.agent.as_deref())?;
    let max = args.limit as usize;
    let wish = Wish { max, since: args.span.since, until: args.span.until };
    let (mut found, mut cuts) = (Vec::new(), Vec::new());
    for book in &shelf.books {
        let hits = ask(book, &query, wish);
        book.told_bad(&hits.bad);
        cuts.extend(hits.cut);
        found.extend(hits.found.into_iter().map(|past| (book, past)));
    }
    found.sort_by_key(|(book, past)| (past.at, book.id, past.seq));
    let cut = found.len().saturating_sub(max);
    found.drain(..cut);
    cuts.extend((cut > 0).then_some(Cut::Enough));
    let why = why_not_all(&cuts, max);
    let hits: Vec<(Timestamp, SearchHit)> =
        found.iter().filter_map(|(book, past)| Some((past.at, hit(book, past, &query)?))).collect();
    if json {
        let hits = hits.into_iter().map(|(_, hit)| hit).collect();
        show::json(&SearchView { query: args.text.clone(), hits, complete: why.is_none(), note: why });
        return Ok(());
    }
    if hits.is_empty() {
        note("nothing that is kept has all of that");
    } else {
        show::out(&table(&shelf, &hits));
    }
    if let Some(why) = why {
        note(&why);
    }
    Ok(())
}

/// Why there may be more than is shown, and what helps.
fn why_not_all(cuts: &[Cut], max: usize) -> Option<String> {
    let scanned = cuts.iter().find_map(|cut| if let Cut::Scanned(n) = cut { Some(n) } else { None });
    let looked = cuts.iter().find_map(|cut| if let Cut::Looked(n) = cut { Some(n) } else { None });
    match (scanned, looked) {
        (Some(count), _) => Some(format!(
            "only the newest {count} records of an agent were read one by one; give a word of three letters or more, \
             or --since and --until"
        )),
        (None, Some(count)) => Some(format!(
            "{count} places that nearly fit were looked at and there are more; add a rarer word, or --since and --until"
        )),
        (None, None) if !cuts.is_empty() => {
            Some(format!("these are the newest {max}; there may be more: --limit, --since, or another word"))
        }
        (None, None) => None,
    }
}

/// Asks the index of one agent; without one, what is newest is read.
fn ask(book: &Book, query: &Query, wish: Wish) -> Hits {
    let mut filling = Filling::of(&book.label);
    let asked =
        search::search(&book.index, &book.history, query, wish, &mut |done, all| filling.tell(done, all));
    drop(filling);
    let asked = match asked {
        Err(IndexError::Unusable { .. }) => {
            if let Err(e) = &asked {
                warn(&format!("{e}; only what is newest is searched now"));
            }
            search::scan(&book.history, query, wish).map_err(IndexError::from)
        }
        other => other,
    };
    asked.unwrap_or_else(|e| {
        book.warn(&e);
        Hits::default()
    })
}

fn hit(book: &Book, past: &Past, query: &Query) -> Option<SearchHit> {
    let record = match &past.what {
        What::Message { letter, body } => {
            HistoryRecord::Message(Box::new(MessageRecord::new(past.seq, &book.label, letter, body, None)))
        }
        What::Ended { ending, archive } => {
            HistoryRecord::Ended(Box::new(EndedRecord::new(past.seq, past.at, ending, archive)))
        }
        What::Artifact { .. } => return None,
    };
    let text = search::text_of(past)?;
    let (snippet, matches) = snippet::around(&text, &query.places(&text), SNIPPET_CHARS);
    Some(SearchHit { record, snippet, matches })
}

/// Who ended a task, by its present name if it is the agent that worked on it.
fn ended_by(shelf: &Shelf, ended: &EndedRecord) -> String {
    let worker = shelf.books.iter().find(|book| book.id.to_string() == ended.task.agent_id);
    match (worker, &ended.task.answer) {
        (Some(book), Some(_)) => book.label.clone(),
        _ => ended.by.clone(),
    }
}

fn table(shelf: &Shelf, hits: &[(Timestamp, SearchHit)]) -> String {
    let zone = TimeZone::system();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (at, hit) in hits {
        let (who, task) = match &hit.record {
            HistoryRecord::Message(message) => {
                let from = show::cell(&shelf.roll.sender(&message.message.from), 32);
                (format!("{from} → {}", message.to_label), &message.message.task_id)
            }
            HistoryRecord::Ended(ended) => {
                let to = show::cell(&shelf.roll.sender(&ended.task.requester), 32);
                (format!("{} ⇢ {to}", show::cell(&ended_by(shelf, ended), 32)), &ended.task.task_id)
            }
            HistoryRecord::Agent(_) | HistoryRecord::Artifact(_) => continue,
        };
        let task = task.get(..8).unwrap_or_default().to_owned();
        rows.push(vec![when::show(*at, &zone), who, task]);
    }
    let widest = |n: usize| rows.iter().map(|row| show::visible(&row[n])).max().unwrap_or(0);
    let room = show::columns().saturating_sub((0..3).map(|n| widest(n).max(9) + 2).sum()).max(24);
    for (row, (_, hit)) in rows.iter_mut().zip(hits) {
        // Made anew for the width of this screen; half as many characters if they are two wide.
        let wide = show::visible(&hit.snippet) > hit.snippet.chars().count() * 3 / 2;
        let fits = if wide { room / 2 } else { room }.saturating_sub(2);
        let (piece, places) = snippet::around(&hit.snippet, &hit.matches, fits);
        let safe = show::plain(&piece);
        row.push(snippet::marked(&safe, &places, |found| show::paint("31;1", found)));
    }
    show::table(&["TIME", "WHO", "TASK", "TEXT"], &rows)
}
