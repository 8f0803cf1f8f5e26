//! How long an agent ran in its whole life, so that a short try can be told from an agent that
//! somebody may miss.
//!
//! One `lifetime.json` in the agent's directory. The holder writes it when it starts, and again
//! when the agent has ended. Without the second write, after SIGKILL or a power cut, the length
//! stays unknown for good. Times of files are not used.
//!
//! Invariant: what is not certain does not count as a short try.
//! Not here: how a program ended by itself (`ended`), removing agents.

use crate::files::{self, Access, FileError};
use crate::history::History;
use crate::home::AgentDir;
use crate::outbox;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use synapse_core::ids::Seq;
use synapse_core::record::Record;

/// What is known of all runs of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    pub starts: u32,
    /// When the last run began.
    pub started_ms: u64,
    /// How the last run ended; `None` while it runs, and if nobody could write it down.
    pub ended: Option<RunEnd>,
    /// The length of all runs that have ended.
    pub ran_ms: u64,
    /// Whether nobody knows how long an earlier run was.
    #[serde(default)]
    pub is_incomplete: bool,
    /// Whether its journal has held more than the agent itself: messages, tasks, followers.
    #[serde(default)]
    pub was_used: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    pub at_ms: u64,
    pub by: EndedBy,
}

/// Who ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Somebody asked it to stop.
    Request,
    /// Its program ended.
    Program,
    /// Its node cannot run.
    Node,
}

const BYTES_MAX: usize = 4 << 10;

impl Lifetime {
    /// Runs shorter than this in total are a short try.
    pub const SHORT: Duration = Duration::from_secs(60);
    /// A short try is shown for this long after its end, so that it does not vanish under the eyes
    /// of its user.
    pub const SHOWN_FOR: Duration = Duration::from_secs(600);

    /// Writes down that a run begins. `is_new` says that the agent has never run before.
    pub fn begin(dir: &AgentDir, is_new: bool, now_ms: u64) -> Result<Self, FileError> {
        let fresh = Self {
            starts: 0,
            started_ms: now_ms,
            ended: None,
            ran_ms: 0,
            is_incomplete: !is_new,
            was_used: false,
        };
        let before = Self::load(dir)
            .map(|before| Self { is_incomplete: before.is_incomplete || before.ended.is_none(), ..before });
        let now = before.unwrap_or(fresh);
        let now = Self { starts: now.starts.saturating_add(1), started_ms: now_ms, ended: None, ..now };
        now.save(dir)?;
        Ok(now)
    }

    /// Writes down that the run has ended. Its node must have ended before, so that its journal does
    /// not change any more.
    pub fn end(mut self, dir: &AgentDir, by: EndedBy, ran: Duration, now_ms: u64) -> Result<(), FileError> {
        // The larger of two clocks: one stands still while the machine sleeps, the other can be set.
        let ran_ms = u64::try_from(ran.as_millis()).unwrap_or(u64::MAX);
        let ran_ms = ran_ms.max(now_ms.saturating_sub(self.started_ms));
        self.ran_ms = self.ran_ms.saturating_add(ran_ms);
        self.was_used = self.was_used || is_used(dir);
        self.ended = Some(RunEnd { at_ms: now_ms, by });
        self.save(dir)
    }

    /// Returns `None` if nothing is known, or the file is damaged.
    pub fn load(dir: &AgentDir) -> Option<Self> {
        let bytes = files::read_private(&dir.lifetime(), BYTES_MAX, Access::Plain).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn save(&self, dir: &AgentDir) -> Result<(), FileError> {
        files::write_private(&dir.lifetime(), &serde_json::to_vec(self).unwrap_or_default())
    }

    /// Whether all its runs are over, were short together, and left nothing behind when they
    /// ended, a while ago.
    fn was_short(&self, now_ms: u64) -> bool {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let is_past = |end: RunEnd| now_ms.saturating_sub(end.at_ms) >= ms(Self::SHOWN_FOR);
        !self.is_incomplete
            && !self.was_used
            && self.ran_ms < ms(Self::SHORT)
            && self.ended.is_some_and(is_past)
    }
}

/// Whether a stopped agent only ran for seconds and never got anything: no message, no task, no
/// follower. Takes no lock and writes nothing. `folder` is where it works.
pub fn is_short_try(dir: &AgentDir, folder: &Path, now_ms: u64) -> bool {
    let is_short = Lifetime::load(dir).is_some_and(|lifetime| lifetime.was_short(now_ms));
    is_short && holds_nothing(dir, folder)
}

/// Whether nothing waits for the agent outside of its journal, which no node writes to now.
fn holds_nothing(dir: &AgentDir, folder: &Path) -> bool {
    let outbox = outbox::place(folder, &dir.id());
    let spools = [dir.spool(), outbox].into_iter();
    let mut folders = spools.flat_map(|spool| ["new", "tmp", "bad"].map(|part| spool.join(part)));
    // A conversation of its CLI can be resumed.
    folders.all(|folder| is_empty(&folder)) && is_empty(&dir.attachments()) && !dir.cli_session().exists()
}

fn is_empty(folder: &Path) -> bool {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Whether its journal holds more than the agent itself. A journal that cannot be read does.
pub fn is_used(dir: &AgentDir) -> bool {
    const RECORDS_MAX: u64 = 1_000;
    const BYTES_MAX: usize = 1 << 20;
    let holds_more = |history: History| {
        let (entries, gap) = history.events(Seq(0), RECORDS_MAX, BYTES_MAX).ok()?;
        let is_long = gap || entries.len() as u64 >= RECORDS_MAX;
        Some(is_long || entries.iter().any(|entry| !matches!(entry.record, Record::Known(_))))
    };
    match History::look_into(&dir.journal()) {
        Ok(None) => false,
        Ok(Some(history)) => holds_more(history).unwrap_or(true),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli_session::CliSession;
    use crate::home::Home;
    use synapse_core::ids::{AgentId, AgentType};

    const LATER: u64 = 10_000_000;

    struct Rig {
        root: tempfile::TempDir,
        dir: AgentDir,
    }

    fn rig() -> Rig {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path().join("home"), root.path().join("registry"));
        home.ensure().unwrap();
        let dir = home.agent(&AgentId::derive("host", "/", &AgentType::parse("sh").unwrap(), None));
        dir.ensure().unwrap();
        Rig { root, dir }
    }

    impl Rig {
        fn run(&self, is_new: bool, seconds: u64) -> Lifetime {
            let begun = Lifetime::begin(&self.dir, is_new, 1_000).unwrap();
            begun.end(&self.dir, EndedBy::Request, Duration::from_secs(seconds), 2_000).unwrap();
            Lifetime::load(&self.dir).unwrap()
        }

        fn is_short(&self) -> bool {
            is_short_try(&self.dir, self.root.path(), LATER)
        }
    }

    #[test]
    fn several_short_runs_are_a_try_until_they_are_long_together() {
        let rig = rig();
        assert!(!rig.is_short(), "nothing is known of it");
        assert_eq!((rig.run(true, 25).ran_ms, rig.is_short()), (25_000, true));
        assert!(!is_short_try(&rig.dir, rig.root.path(), 2_000 + 599_999), "it has ended just now");
        assert_eq!((rig.run(false, 34).starts, rig.is_short()), (2, true));
        assert!(
            !{
                rig.run(false, 1);
                rig.is_short()
            },
            "60 s in total"
        );
    }

    #[test]
    fn run_without_an_end_is_never_short() {
        let rig = rig();
        Lifetime::begin(&rig.dir, true, 1_000).unwrap();
        assert!(!rig.is_short());
        assert!(rig.run(false, 1).is_incomplete, "also after another run");
        assert!(!rig.is_short());
    }

    #[test]
    fn agent_of_an_older_version_is_never_short() {
        let rig = rig();
        rig.run(false, 1);
        assert!(!rig.is_short());
    }

    #[test]
    fn clock_that_was_set_does_not_make_a_run_shorter() {
        let rig = rig();
        let begun = Lifetime::begin(&rig.dir, true, 1_000).unwrap();
        begun.end(&rig.dir, EndedBy::Program, Duration::from_secs(1), 3_600_000).unwrap();
        assert_eq!(Lifetime::load(&rig.dir).unwrap().ran_ms, 3_599_000);
        assert!(!rig.is_short());
    }

    #[test]
    fn whatever_may_be_a_message_is_shown() {
        let rig = rig();
        rig.run(true, 1);
        let outbox = outbox::place(rig.root.path(), &rig.dir.id());
        for place in [
            rig.dir.spool().join("new"),
            rig.dir.spool().join("bad"),
            rig.dir.attachments(),
            outbox.join("new"),
        ] {
            std::fs::create_dir_all(&place).unwrap();
            assert!(rig.is_short());
            std::fs::write(place.join("letter"), "x").unwrap();
            assert!(!rig.is_short(), "{}", place.display());
            std::fs::remove_file(place.join("letter")).unwrap();
        }
        std::fs::write(rig.dir.lifetime(), "{").unwrap();
        assert!(!rig.is_short(), "a damaged file says nothing");
    }

    #[test]
    fn agent_with_a_conversation_is_shown() {
        let rig = rig();
        rig.run(true, 1);
        assert!(rig.is_short());
        CliSession { id: "ses_1".into(), since_ms: 1_500 }.save(&rig.dir).unwrap();
        assert!(!rig.is_short());
    }

    #[test]
    fn unreadable_journal_counts_as_used() {
        let rig = rig();
        assert!(!is_used(&rig.dir));
        std::fs::write(rig.dir.journal(), "no database").unwrap();
        assert!(is_used(&rig.dir));
    }
}
