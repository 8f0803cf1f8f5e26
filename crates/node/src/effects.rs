//! Carries out effects after the commit: answers callers, delivers to hands, wakes watchers.
//!
//! Invariant: nothing here waits. A receiver that is gone or too slow is dropped, and the core is
//! notified.

use crate::handle::{EventSender, Heard, ToHand};
use crate::registrar::Registrar;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Effect, Input};
use synapse_core::ids::{AskId, LinkId, Seq, WatcherId};
use synapse_core::message::{Body, Letter};
use synapse_core::record::{Entry, Record};
use synapse_store::Journal;
use tokio::sync::{mpsc, oneshot};

/// The answers of one batch.
type Answers = Vec<(oneshot::Sender<Heard>, Heard)>;

/// Batches of answers that may wait for the socket thread; further answers are sent one by one.
const BATCHES_MAX: usize = 16;

/// The receiver of a watcher's events.
pub(crate) struct Watching {
    pub(crate) events: EventSender,
    /// It watches one task, and is dropped when that ends.
    pub(crate) ends_with_task: bool,
}

pub struct Effects {
    pub(crate) replies: BTreeMap<AskId, oneshot::Sender<Heard>>,
    answers: Answers,
    to_sockets: mpsc::Sender<Answers>,
    pub(crate) follow_replies: HashMap<AskId, (WatcherId, oneshot::Sender<(WatcherId, Heard)>)>,
    pub(crate) links: HashMap<LinkId, mpsc::Sender<ToHand>>,
    pub(crate) watchers: HashMap<WatcherId, Watching>,
    /// Inputs for the core, to be handled with the next batch.
    pub(crate) later: Vec<Input>,
    /// The last committed event.
    pub(crate) latest: Seq,
    registrar: Registrar,
}

impl Effects {
    /// Creates the effects, and the receiver of answer batches for `hand_out`.
    pub fn new(registrar: Registrar) -> (Self, mpsc::Receiver<Answers>) {
        let (to_sockets, batches) = mpsc::channel(BATCHES_MAX);
        let effects = Self {
            replies: BTreeMap::new(),
            answers: Vec::new(),
            to_sockets,
            follow_replies: HashMap::new(),
            links: HashMap::new(),
            watchers: HashMap::new(),
            later: Vec::new(),
            latest: Seq(0),
            registrar,
        };
        (effects, batches)
    }

    /// Carries out all effects. Returns inputs for the core about receivers that are gone.
    pub(crate) fn carry_out(&mut self, effects: Vec<Effect>, journal: &Journal) -> Vec<Input> {
        let mut news = Vec::new();
        for effect in effects {
            match effect {
                Effect::Reply { ask, answer } => self.reply(ask, answer.map(|a| (a, self.latest))),
                Effect::Deliver { link, letter, tries, notes, body } => {
                    let body = body.or_else(|| read_body(&letter, journal));
                    let order = body.map(|body| ToHand::Deliver { letter, body, tries, notes });
                    news.extend(order.and_then(|order| self.deliver(link, order)));
                }
                Effect::Stop { link, task, why } => {
                    if let Some(sender) = self.links.get(&link) {
                        let _ = sender.try_send(ToHand::Stop { task, why });
                    }
                }
                Effect::Urge { link, by } => {
                    if let Some(sender) = self.links.get(&link) {
                        let _ = sender.try_send(ToHand::Urge { by });
                    }
                }
                Effect::Interrupt { link, task, by, why } => {
                    if let Some(sender) = self.links.get(&link) {
                        let _ = sender.try_send(ToHand::Interrupt { task, by, why });
                    }
                }
                Effect::Notify { watcher, entry } => news.extend(self.notify(watcher, entry)),
                Effect::Presence { agent, presence } => self.registrar.show(agent, presence),
                Effect::Context { agent, context } => self.registrar.show_context(agent, context),
            }
        }
        self.send_answers();
        news
    }

    /// Answers a job that never reached the core.
    pub(crate) fn refuse(&mut self, ask: AskId, reply: oneshot::Sender<Heard>, refusal: Refusal) {
        self.watchers.remove(&WatcherId(ask.0));
        let _ = reply.send(Err(refusal));
    }

    fn reply(&mut self, ask: AskId, answer: Heard) {
        if let Some(reply) = self.replies.remove(&ask) {
            // Nothing new was accepted, so there are no events for its sender, whose watcher has
            // the id of the ask.
            let taken =
                matches!(&answer, Ok((Answer::Accepted(taken), _)) if taken.iter().any(|one| !one.duplicate));
            if !taken && self.watchers.remove(&WatcherId(ask.0)).is_some() {
                self.later.push(Input::WatcherLeft { watcher: WatcherId(ask.0) });
            }
            self.answers.push((reply, answer));
        } else if let Some((watcher, reply)) = self.follow_replies.remove(&ask) {
            let follows = matches!(answer, Ok((Answer::Following { .. }, _)));
            if reply.send((watcher, answer)).is_err() || !follows {
                self.watchers.remove(&watcher);
                self.later.push(Input::WatcherLeft { watcher });
            }
        }
    }

    /// Sends all answers in one batch: waking another thread costs more than an answer.
    fn send_answers(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        use mpsc::error::TrySendError::{Closed, Full};
        if let Err(Full(answers) | Closed(answers)) =
            self.to_sockets.try_send(std::mem::take(&mut self.answers))
        {
            for (reply, answer) in answers {
                let _ = reply.send(answer);
            }
        }
    }

    fn deliver(&mut self, link: LinkId, order: ToHand) -> Option<Input> {
        let sent = self.links.get(&link).map(|to| to.try_send(order));
        if matches!(sent, Some(Ok(()))) {
            return None;
        }
        self.links.remove(&link);
        Some(Input::LinkClosed { link })
    }

    fn notify(&mut self, watcher: WatcherId, entry: Arc<Entry>) -> Option<Input> {
        let watching = self.watchers.get(&watcher);
        let is_last =
            matches!(entry.record, Record::Ended { .. }) && watching.is_some_and(|to| to.ends_with_task);
        let sent = watching.map(|to| to.events.try_send(entry));
        if sent == Some(true) && !is_last {
            return None;
        }
        self.watchers.remove(&watcher);
        Some(Input::WatcherLeft { watcher })
    }
}

/// Reads a message's body from the journal. Without it the message is not delivered: its lease
/// expires, and it is tried again.
fn read_body(letter: &Letter, journal: &Journal) -> Option<Body> {
    match journal.body(&letter.id) {
        Ok(Some(body)) => return Some(body),
        Ok(None) => tracing::error!(message = %letter.id, "its body is not in the journal"),
        Err(e) => tracing::error!(message = %letter.id, error = %e, "its body cannot be read"),
    }
    None
}

/// Runs on the socket thread: sends each waiting door its answer.
pub(crate) async fn hand_out(mut batches: mpsc::Receiver<Answers>) {
    while let Some(answers) = batches.recv().await {
        for (reply, answer) in answers {
            // The receiver is gone if the caller has disconnected.
            let _ = reply.send(answer);
        }
    }
}
