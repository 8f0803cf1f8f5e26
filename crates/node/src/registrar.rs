//! The registrar: keeps the registry file and the answer to `GET /status` up to date.
//!
//! Changes come in bursts. The file is written at most ten times a second, and always with the last
//! state. The first change after the start is written at once.

use crate::doors::Shared;
use crate::folders::FolderWatcher;
use crate::notify::Notifier;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use synapse_core::agents::{AgentState, Context, Presence};
use synapse_core::ids::{AgentId, Timestamp};
use synapse_store::registry::{Entry, PendingPrompt};
use tokio::sync::watch;

/// The agent's state, and what it says it is doing.
#[derive(Clone)]
pub struct Look {
    pub presence: Presence,
    pub context: Option<Context>,
}

/// The current state; every `GET /status` reads it.
#[derive(Clone)]
pub struct Shown {
    look: Arc<RwLock<Look>>,
    news: watch::Receiver<Look>,
}

impl Shown {
    pub fn now(&self) -> Look {
        self.look.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Returns a receiver that is notified of changes.
    pub fn news(&self) -> watch::Receiver<Look> {
        self.news.clone()
    }
}

/// What is known of the CLI that does the work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cli {
    pub version: Option<String>,
    /// Whether its profile was tested with that version.
    pub tested: Option<bool>,
}

pub struct Registrar {
    shown: Shown,
    changed: watch::Sender<Look>,
    agent: AgentId,
}

impl Registrar {
    pub fn new(agent: AgentId, now: Timestamp, restarted: bool) -> (Self, Shown, watch::Receiver<Look>) {
        let (state, why) = Presence::first(restarted);
        let presence = Presence::new(now, state, why);
        let first = Look { presence, context: None };
        let (changed, news) = watch::channel(first.clone());
        let shown = Shown { look: Arc::new(RwLock::new(first)), news: news.clone() };
        (Self { shown: shown.clone(), changed, agent }, shown, news)
    }

    pub(crate) fn show(&self, agent: AgentId, presence: Presence) {
        self.change(agent, |look| look.presence = presence);
    }

    pub(crate) fn show_context(&self, agent: AgentId, context: Option<Context>) {
        self.change(agent, |look| look.context = context);
    }

    fn change(&self, agent: AgentId, change: impl FnOnce(&mut Look)) {
        if agent != self.agent {
            return;
        }
        let mut shown = self.shown.look.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        change(&mut shown);
        let _ = self.changed.send(shown.clone());
    }
}

/// Keeps the registry entry of this node up to date, and notifies the user when it says that the
/// agent waits.
pub fn start(
    app: &Shared,
    entry: Entry,
    news: watch::Receiver<Look>,
    folders: &FolderWatcher,
) -> tokio::task::JoinHandle<()> {
    let (cli, pending) = (app.cli(), app.pending());
    let notifier = Notifier::start(app, folders);
    tokio::spawn(keep_entry(app.clone(), entry, news, cli, pending, notifier))
}

/// Writes the registry entry whenever the presence, the name, the version of the CLI or the pending
/// prompt changes, until the driver is gone. The code that ends the node decides whether to remove the
/// entry.
async fn keep_entry(
    app: Shared,
    mut entry: Entry,
    mut news: watch::Receiver<Look>,
    mut cli: watch::Receiver<Cli>,
    mut pending: watch::Receiver<Option<PendingPrompt>>,
    mut notifier: Option<Notifier>,
) {
    const PAUSE: Duration = Duration::from_millis(100);
    let mut is_first = true;
    let mut names = app.agent.names();
    loop {
        let Look { presence, context } = news.borrow_and_update().clone();
        entry.status = presence.state;
        entry.status_why = match &presence.mail {
            // Why mail waits says more than that the state is unknown.
            Some(mail) if presence.state == AgentState::Unknown => format!("{mail}; {}", presence.why),
            Some(mail) => format!("{}; {mail}", presence.why),
            None => presence.why,
        };
        entry.status_since_ms = presence.since.0;
        entry.context_since_ms = context.as_ref().map(|context| context.since.0);
        entry.context = context.map(|context| context.text.chars().take(Entry::CONTEXT_CHARS_MAX).collect());
        let Cli { version, tested } = cli.borrow_and_update().clone();
        (entry.cli_version, entry.cli_tested) = (version, tested);
        entry.pending = pending.borrow_and_update().clone();
        let naming = names.borrow_and_update().clone();
        (entry.name, entry.number) = (naming.name.clone(), naming.number);
        let (to, copy) = (app.home.clone(), entry.clone());
        let written = tokio::task::spawn_blocking(move || copy.write(&to)).await;
        match written {
            Ok(Ok(())) => app.agent.note_registered(&naming),
            Ok(Err(e)) => tracing::warn!(error = %e, "the registry entry could not be written"),
            Err(_) => {}
        }
        // After the registry: a node that is killed in between notifies after its restart, and one
        // that is killed later finds the prompt there.
        if let Some(notifier) = &mut notifier {
            notifier.written(&entry);
        }
        // The first entry says `starting`, which is over in a moment.
        if !std::mem::replace(&mut is_first, false) {
            tokio::time::sleep(PAUSE).await;
        }
        let ended = tokio::select! {
            changed = news.changed() => changed.is_err(),
            Ok(()) = cli.changed() => false,
            Ok(()) = pending.changed() => false,
            Ok(()) = names.changed() => false,
        };
        if ended {
            break;
        }
    }
}
