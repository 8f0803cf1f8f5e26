//! Simulates a whole world from one seed: clients, nodes, agents, watchers,
//! and every kind of fault.
//!
//! [`run`] builds nodes out of the real `Hub` and the real `cycle`. Below them is a simulated disk,
//! before them a bad network, behind them unreliable programs; and time jumps. Then the faults
//! stop, everything restarts, and the checker compares the result with every promise.
//!
//! Always: the same seed and options give the same report; a broken promise is a
//! [`Violation`] with its story.
//! Not here: threads and real time (`examples/sim.rs` runs many seeds), stories by
//! hand (`tests/scripts.rs`).

mod checker;
mod clients;
mod dice;
mod disk;
mod ending;
mod faults;
mod held;
mod node;
mod programs;
mod watchers;
mod world;

use std::fmt;

#[derive(Clone, Debug)]
pub struct Options {
    /// How many events to run before the faults stop.
    pub steps: u64,
    /// A promise to break on purpose, to test that the checker notices.
    pub breakage: Option<Breakage>,
}

impl Default for Options {
    fn default() -> Self {
        Self { steps: 4_000, breakage: None }
    }
}

/// Ways to break the node under test; the checker must detect each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breakage {
    /// Effects are carried out before their records are on disk.
    ReplyBeforeJournal,
    /// A crash loses the last committed batch.
    LoseOnCrash,
    /// The store forgets the dedupe keys it has seen.
    ForgetDedupe,
    /// A delivered message is also delivered to a second link.
    DeliverTwice,
    /// The node reports a message as seen as soon as it is delivered.
    ClaimSeen,
    /// Messages age a thousand times too fast.
    AgeTooFast,
    /// Mailboxes accept twice their limit.
    Overfill,
    /// A watcher misses an event now and then.
    SkipEvent,
}

impl Breakage {
    pub const ALL: [Self; 8] = [
        Self::ReplyBeforeJournal,
        Self::LoseOnCrash,
        Self::ForgetDedupe,
        Self::DeliverTwice,
        Self::ClaimSeen,
        Self::AgeTooFast,
        Self::Overfill,
        Self::SkipEvent,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::ReplyBeforeJournal => "reply-before-journal",
            Self::LoseOnCrash => "lose-on-crash",
            Self::ForgetDedupe => "forget-dedupe",
            Self::DeliverTwice => "deliver-twice",
            Self::ClaimSeen => "claim-seen",
            Self::AgeTooFast => "age-too-fast",
            Self::Overfill => "overfill",
            Self::SkipEvent => "skip-event",
        }
    }

    pub fn parse(raw: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|breakage| breakage.name() == raw)
    }
}

/// Counts of what happened in one world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    pub steps: u64,
    pub turns: u64,
    pub records: u64,
    pub accepted: u64,
    pub refused: u64,
    pub deliveries: u64,
    pub begun: u64,
    pub ended: u64,
    pub dead_letters: u64,
    pub crashes: u64,
    pub commit_failures: u64,
    pub clock_jumps: u64,
    pub events_watched: u64,
    /// A hash of all records ever written; equal for equal worlds.
    pub fingerprint: u64,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Violation {
    pub seed: u64,
    pub step: u64,
    pub rule: Rule,
    pub what: String,
    /// The last things that happened, oldest first.
    pub story: Vec<String>,
}

/// The promises that the checker verifies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    NothingAcknowledgedIsLost,
    NoMessageInTwoPlaces,
    OneEffectPerKey,
    HigherGoesFirst,
    TerminalStatesStay,
    NoQueuePassesItsBound,
    ReplayIsTheLiveState,
    WatchersSeeEverythingOnce,
    ReceiptsAreHonest,
    NothingIsSaidOfARolledBackBatch,
    TheWorldComesToRest,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} step {}: {:?}: {}", self.seed, self.step, self.rule, self.what)
    }
}

/// Runs the world of this seed to its end.
pub fn run(seed: u64, options: &Options) -> Result<Report, Violation> {
    let mut world = world::World::new(seed, options.clone());
    match world.live() {
        Ok(()) => Ok(world.report),
        Err(Broken { rule, what }) => {
            let story = world.story.into_iter().collect();
            Err(Violation { seed, step: world.report.steps, rule, what, story })
        }
    }
}

/// A violation before the world adds its seed and story.
#[derive(Debug)]
struct Broken {
    rule: Rule,
    what: String,
}

impl Broken {
    fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}
