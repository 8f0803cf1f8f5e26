//! What the doors see of an agent over ACP: what it asks, which program it is, and the way for a person's word.

use super::question::Question;
use super::session::NotDecided;
use crate::launch::Hand;
use crate::registrar::Cli;
use std::sync::{Arc, Mutex, PoisonError};
use synapse_dialects::terminal::PromptView;
use synapse_store::registry::PendingPrompt;
use tokio::sync::{mpsc, oneshot, watch};

/// More people than this do not decide at once.
const DECISIONS_MAX: usize = 8;

#[derive(Clone)]
pub struct AcpDesk {
    prompt: Arc<Mutex<Option<PromptView>>>,
    pending: Arc<watch::Sender<Option<PendingPrompt>>>,
    cli: Arc<watch::Sender<Cli>>,
    decisions: mpsc::Sender<Decision>,
    /// Taken by the hand.
    decided: Arc<Mutex<Option<mpsc::Receiver<Decision>>>>,
}

/// Allow or deny, but only the question with this hash.
pub(super) struct Decision {
    pub hash: String,
    pub allow: bool,
    pub reply: oneshot::Sender<Result<(), NotDecided>>,
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// The program was told.
    Taken,
    /// It asks for something else now, or for nothing.
    Changed,
    /// It must not be allowed from here, and why.
    Doubtful(String),
}

impl AcpDesk {
    /// None for an agent whose work is done by something else.
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

    /// What it asks.
    pub fn prompt(&self) -> Option<PromptView> {
        self.prompt.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same as the registry tells it, now and later.
    pub fn pending(&self) -> watch::Receiver<Option<PendingPrompt>> {
        self.pending.subscribe()
    }

    /// What is known of the program's version, now and later.
    pub fn cli(&self) -> watch::Receiver<Cli> {
        self.cli.subscribe()
    }

    /// Decides a question; none if nobody is there to tell the program.
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

    /// What it asks from now on.
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
