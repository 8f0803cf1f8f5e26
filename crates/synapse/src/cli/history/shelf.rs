//! The shelf: the journals of all agents, open for reading, with what their agents are called.

use super::Span;
use crate::agents::Roll;
use crate::fail::Fail;
use crate::show;
use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use synapse_core::ids::{AgentId, Label, TaskId};
use synapse_core::message::Who;
use synapse_core::receipt::Trail;
use synapse_core::record::Said;
use synapse_core::state::State;
use synapse_dialects::api::AnswerView;
use synapse_dialects::history::{HistoryLine, MessageRecord, Outcome};
use synapse_store::browse::{Page, Past, Wanted, What};
use synapse_store::rows::BadRow;
use synapse_store::{History, JournalError};

pub(super) struct Shelf {
    pub(super) roll: Roll,
    pub(super) books: Vec<Book>,
}

/// One agent's journal.
pub(super) struct Book {
    pub(super) id: AgentId,
    pub(super) label: String,
    pub(super) history: History,
    pub(super) index: PathBuf,
    /// What is open in it; worked out when it is first needed.
    state: OnceCell<Option<State>>,
}

impl Shelf {
    /// All journals, or that of one agent.
    pub(super) fn open(agent: Option<&str>) -> Result<Self, Fail> {
        let roll = Roll::call()?;
        let only = agent.map(|raw| roll.find_one(raw).map(|one| one.id)).transpose()?;
        let mut books = Vec::new();
        for id in agents(&roll)?.into_iter().filter(|id| only.is_none_or(|only| only == *id)) {
            let dir = roll.home.agent(&id);
            let label = roll.label(&id);
            match History::look_into(&dir.journal()) {
                Ok(Some(history)) => {
                    let (index, state) = (dir.search_index(), OnceCell::new());
                    books.push(Book { id, label, history, index, state });
                }
                Ok(None) => {}
                Err(e) => warn(&format!("the history of {label} is left out: {e}")),
            }
        }
        books.sort_by(|a, b| (&a.label, a.id).cmp(&(&b.label, b.id)));
        Ok(Self { roll, books })
    }

    /// Who a person means by a sender: an agent, the user, or a caller with a name of its own.
    pub(super) fn sender(&self, raw: &str) -> Result<Who, Fail> {
        if raw == "user" {
            return Ok(Who::User);
        }
        match (self.roll.find_one(raw), Label::parse(raw)) {
            (Ok(one), _) => Ok(Who::Agent(one.id)),
            (Err(_), Ok(name)) if self.has_named(&name) => Ok(Who::Named(name)),
            (Err(fail), _) => Err(fail),
        }
    }

    fn has_named(&self, name: &Label) -> bool {
        let wanted = Wanted { from: Some(Who::Named(name.clone())), ..Wanted::default() };
        self.books.iter().any(|book| book.history.newest(&wanted, 1).is_ok_and(|page| !page.found.is_empty()))
    }
}

/// Everybody who has a folder, known or not.
fn agents(roll: &Roll) -> Result<Vec<AgentId>, Fail> {
    match std::fs::read_dir(roll.home.agents_dir()) {
        Ok(entries) => {
            let names = entries.flatten().map(|entry| entry.file_name());
            Ok(names.filter_map(|name| AgentId::parse(name.to_str()?).ok()).collect())
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e.into()),
    }
}

impl Book {
    /// What is known of the open tasks; nothing if the journal does not fit together.
    pub(super) fn state(&self) -> Option<&State> {
        let read = || match self.history.state() {
            Ok(state) => Some(state),
            Err(e) => {
                self.warn(&e);
                None
            }
        };
        self.state.get_or_init(read).as_ref()
    }

    pub(super) fn ended(&self, task: &TaskId) -> Option<Past> {
        match self.history.ended(task) {
            Ok(past) => past,
            Err(e) => {
                self.warn(&e);
                None
            }
        }
    }

    /// A message with what became of it.
    pub(super) fn line(&self, past: &Past) -> Option<(HistoryLine, Option<Past>)> {
        let What::Message { letter, body } = &past.what else { return None };
        let ended = self.ended(&letter.task);
        let (outcome, trail) = match ended.as_ref().map(|past| (past.at, &past.what)) {
            Some((at, What::Ended { ending, archive })) => {
                let trail = archive.trails.iter().find(|(id, _)| *id == letter.id).map(|(_, trail)| trail);
                let mut outcome = Outcome::ended(at, ending);
                if outcome.answer.is_none() {
                    outcome.answer = self.late_answer(&letter.task);
                }
                (outcome, trail)
            }
            _ => {
                let state = self.state();
                let trail = state.and_then(|s| s.letters.get(&letter.id)).map(|open| &open.trail);
                (Outcome::open(state.and_then(|s| s.tasks.get(&letter.task)).map(|task| &**task)), trail)
            }
        };
        let record = MessageRecord::new(past.seq, &self.label, letter, body, trail);
        Some((HistoryLine { record, outcome }, ended))
    }

    /// What was answered to a one-way message after its task had ended.
    fn late_answer(&self, task: &TaskId) -> Option<AnswerView> {
        match self.history.artifacts(task) {
            Ok(said) => said.iter().find_map(Said::as_late_answer).map(AnswerView::of),
            Err(e) => {
                self.warn(&e);
                None
            }
        }
    }

    /// The receipt of a message, mark by mark.
    pub(super) fn trail(&self, past: &Past, ended: Option<&Past>) -> Trail {
        let What::Message { letter, .. } = &past.what else { return Trail::default() };
        let kept = match ended.map(|past| &past.what) {
            Some(What::Ended { archive, .. }) => {
                archive.trails.iter().find(|(id, _)| *id == letter.id).map(|(_, trail)| trail.clone())
            }
            _ => self.state().and_then(|s| s.letters.get(&letter.id)).map(|open| open.trail.clone()),
        };
        kept.unwrap_or_default()
    }

    pub(super) fn warn(&self, why: &dyn std::fmt::Display) {
        warn(&format!("the history of {} is not complete here: {why}", self.label));
    }

    /// What a read gave; if it failed, that is told, and nothing is lost but this.
    pub(super) fn told(&self, read: Result<Page, JournalError>) -> Page {
        match read {
            Ok(page) => {
                self.told_bad(&page.bad);
                page
            }
            Err(e) => {
                self.warn(&e);
                Page::default()
            }
        }
    }

    pub(super) fn told_bad(&self, bad: &[BadRow]) {
        match bad {
            [] => {}
            [one] => self.warn(one),
            [first, rest @ ..] => self.warn(&format!("{first}; {} more rows like it", rest.len())),
        }
    }
}

pub(super) fn wanted(span: Span) -> Wanted {
    Wanted { since: span.since, until: span.until, from: None }
}

pub(super) fn warn(text: &str) {
    eprintln!("{}: {}", show::paint_err("33", "warning"), show::safe(text));
}

pub(super) fn note(text: &str) {
    eprintln!("{}", show::paint_err("2", text));
}

/// Tells on a terminal that the index is being filled, if that takes long.
pub(super) struct Filling<'a> {
    label: &'a str,
    began: Instant,
    told: Option<Instant>,
}

impl<'a> Filling<'a> {
    const SILENT: Duration = Duration::from_millis(400);
    const PAUSE: Duration = Duration::from_millis(100);

    pub(super) fn of(label: &'a str) -> Self {
        Self { label, began: Instant::now(), told: None }
    }

    pub(super) fn tell(&mut self, done: u64, all: u64) {
        let is_early = self.began.elapsed() < Self::SILENT;
        let is_soon = self.told.is_some_and(|told| told.elapsed() < Self::PAUSE);
        if show::err_on_terminal() && !is_early && !is_soon {
            self.told = Some(Instant::now());
            eprint!("\r… indexing the history of {}: {} %\u{1b}[K", self.label, 100 * done / all.max(1));
        }
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        if self.told.is_some() {
            eprint!("\r\u{1b}[K");
        }
    }
}
