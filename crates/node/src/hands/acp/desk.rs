//! The doors' view of an ACP agent: its open question, its program's version, and the channel for
//! decisions.

use super::question::Question;
use super::session::NotDecided;
use crate::launch::Hand;
use crate::registrar::Cli;
use std::sync::{Arc, Mutex, PoisonError};
use synapse_dialects::terminal::PromptView;
use synapse_store::registry::PendingPrompt;
use tokio::sync::{mpsc, oneshot, watch};

/// The number of decisions that can wait at the same time.
const DECISIONS_MAX: usize = 8;

#[derive(Clone)]
pub struct AcpDesk {
    prompt: Arc<Mutex<Option<PromptView>>>,
    pending: Arc<watch::Sender<Option<PendingPrompt>>>,
    cli: Arc<watch::Sender<Cli>>,
    decisions: mpsc::Sender<Decision>,
    /// The receiver of decisions, until the hand takes it.
    decided: Arc<Mutex<Option<mpsc::Receiver<Decision>>>>,
}

/// A decision to allow or deny. It applies only to the question with this hash.
pub(super) struct Decision {
    pub hash: String,
    pub allow: bool,
    pub reply: oneshot::Sender<Result<(), NotDecided>>,
}

/// The outcome of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// The decision was sent to the program.
    Taken,
    /// The program now asks something else, or nothing.
    Changed,
    /// The question must not be approved from here, and why.
    Doubtful(String),
}

impl AcpDesk {
    /// Returns `None` for an agent that does not use ACP.
    pub fn of(hand: &Hand) -> Option<Self> {
        matches!(hand, Hand::Acp(_)).then(Self::new)
    }

    fn new() -> Self {
        let (decisions, decided) = mpsc::channel(DECISIONS_MAX);
        Self {
            prompt: Arc::default(),
            pending: Arc::new(watch::Sender::new(None)),
            cli: Arc::new(watch::Sender::new(Cli::default())),
            decisions,
            decided: Arc::new(Mutex::new(Some(decided))),
        }
    }

    /// Returns the open question.
    pub fn prompt(&self) -> Option<PromptView> {
        self.prompt.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Watches the question in the form that the registry shows.
    pub fn pending(&self) -> watch::Receiver<Option<PendingPrompt>> {
        self.pending.subscribe()
    }

    /// Watches what is known of the program's version.
    pub fn cli(&self) -> watch::Receiver<Cli> {
        self.cli.subscribe()
    }

    /// Decides a question. Returns `None` if no hand is there to tell the program.
    pub async fn decide(&self, hash: String, allow: bool) -> Option<Decided> {
        let (reply, heard) = oneshot::channel();
        self.decisions.try_send(Decision { hash, allow, reply }).ok()?;
        Some(match heard.await.ok()? {
            Ok(()) => Decided::Taken,
            Err(NotDecided::Changed) => Decided::Changed,
            Err(NotDecided::Doubtful(why)) => Decided::Doubtful(why),
        })
    }

    pub(super) fn take_decisions(&self) -> Option<mpsc::Receiver<Decision>> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn said_version(&self, version: String) {
        self.cli.send_replace(Cli { version: Some(version), tested: None });
    }

    /// Replaces the open question.
    pub(super) fn show(&self, question: Option<&Question>) {
        let view = question.map(|question| question.view.clone());
        *self.prompt.lock().unwrap_or_else(PoisonError::into_inner) = view;
        let pending = question.map(Question::pending);
        if let Some(pending) = &pending {
            tracing::info!(asks = %pending.asks, "it waits for a person");
        }
        self.pending.send_replace(pending);
    }
}
