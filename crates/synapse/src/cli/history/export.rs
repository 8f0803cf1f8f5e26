//! `synapse history export`: everything, one JSON record per line, for whoever wants to keep or read it elsewhere.
//!
//! A page is read, printed and forgotten, so a history of any size needs the memory of one page; while somebody
//! reads slowly, no journal is held open.

use super::Export;
use super::shelf::{Book, Shelf, wanted};
use crate::fail::Done;
use std::io::{BufWriter, Write as _};
use synapse_core::Timestamp;
use synapse_dialects::history::{AgentRecord, ArtifactRecord, EndedRecord, HistoryRecord, MessageRecord};
use synapse_store::browse::{Past, Wanted, What};

pub(super) fn export(args: &Export) -> Done {
    let shelf = Shelf::open(args.agent.as_deref())?;
    let wanted = wanted(args.span);
    let mut out = BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
    let done = shelf.books.iter().try_for_each(|book| one(&shelf, book, &wanted, &mut out));
    match done.and_then(|()| out.flush()) {
        // A reader that has gone has enough.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

fn one(shelf: &Shelf, book: &Book, wanted: &Wanted, out: &mut impl std::io::Write) -> std::io::Result<()> {
    write(out, &HistoryRecord::Agent(agent(shelf, book)))?;
    let start = wanted.since.map(|since| book.history.place_before(since)).transpose();
    let mut last = start.ok().flatten().unwrap_or_default();
    let mut at = Timestamp(0);
    loop {
        let page = book.told(book.history.after(last));
        for past in &page.found {
            // The time of an artifact is not kept; it is not before that of what came before it.
            at = if matches!(past.what, What::Artifact { .. }) { at } else { past.at };
            if let Some(record) = record(book, past).filter(|_| wanted.has_time(at)) {
                write(out, &record)?;
            }
        }
        match page.last {
            Some(reached) => last = reached,
            None => return Ok(()),
        }
    }
}

fn agent(shelf: &Shelf, book: &Book) -> AgentRecord {
    let known = shelf.roll.known.iter().find(|known| known.id == book.id);
    AgentRecord {
        agent_id: book.id.to_string(),
        label: book.label.clone(),
        kind: known.map(|known| known.kind.to_string()),
        name: known.and_then(|known| known.name.as_ref().map(ToString::to_string)),
        folder: known.map(|known| known.working_dir.clone()),
    }
}

fn record(book: &Book, past: &Past) -> Option<HistoryRecord> {
    Some(match &past.what {
        What::Message { letter, body } => {
            HistoryRecord::Message(Box::new(MessageRecord::new(past.seq, &book.label, letter, body, None)))
        }
        What::Ended { ending, archive } => {
            HistoryRecord::Ended(Box::new(EndedRecord::new(past.seq, past.at, ending, archive)))
        }
        What::Artifact { task, said } => {
            HistoryRecord::Artifact(ArtifactRecord::new(past.seq, book.id.to_string(), task.clone(), said)?)
        }
    })
}

fn write(out: &mut impl std::io::Write, record: &HistoryRecord) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, record)?;
    out.write_all(b"\n")
}
