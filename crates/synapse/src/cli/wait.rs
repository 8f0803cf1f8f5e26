//! Waiting for a task: follows its events, across restarts of its node, and misses none.

use super::WaitFor;
use super::pending::Pending;
use super::there::There;
use crate::agents::Roll;
use crate::fail::{self, Fail};
use crate::show;
use std::time::Duration;
use synapse_core::ids::{AgentId, TaskId};
use synapse_core::receipt::Step;
use synapse_core::record::Said;
use synapse_dialects::api::{AnswerView, TaskView};
use synapse_dialects::event::EventView;
use synapse_dialects::message::MessageAccepted;
use synapse_peer::{CallError, Client};
use synapse_store::History;
use synapse_store::browse::What;
use tokio::time::Instant;

pub(super) enum Reached {
    Step(String),
    /// The agent asks for something before it goes on.
    Asks(Asked),
    Ended {
        state: String,
        why: String,
        answer: Option<AnswerView>,
    },
    TimedOut {
        after: Duration,
        last: Option<String>,
    },
}

/// What an agent asks for before it goes on.
pub(super) struct Asked {
    /// In its own words.
    pub question: String,
    /// Set if it is a prompt of a terminal: only its user can decide it, and a message would be typed later.
    pub pending: Option<Pending>,
}

impl Asked {
    /// The question, and how it is answered.
    fn hint(&self, whom: &str, task: &str) -> String {
        match &self.pending {
            Some(pending) => pending.hint(whom),
            None => {
                let question = &self.question;
                format!("it asks: {question}\n  answer with `synapse send {whom} '…' --task {task}`")
            }
        }
    }
}

/// What is done with what happens meanwhile.
pub(super) struct Ears<'a> {
    pub hear: &'a dyn Fn(&str),
    /// A question ends the waiting; else somebody else is to answer it.
    pub stop_when_asked: bool,
}

impl Ears<'_> {
    pub(super) const DEAF: Self = Ears { hear: &|_| {}, stop_when_asked: false };
    const PRINTING: Self = Ears { hear: &print, stop_when_asked: false };

    /// A person reads what happens, a program does not.
    pub(super) fn of_person(json: bool) -> Self {
        if json { Self::DEAF } else { Self::PRINTING }
    }
}

/// A line about what happens, while a person waits.
pub(super) fn print(text: &str) {
    eprintln!("{}", show::paint_err("2", &format!("… {}", show::safe(text))));
}

/// Whose events are followed.
pub(super) enum Place<'a> {
    Here(&'a Roll, &'a AgentId),
    There(&'a There),
}

impl Place<'_> {
    async fn connect(&self) -> Result<Client, CallError> {
        match self {
            Self::Here(roll, agent) => roll.connect(agent).await,
            Self::There(there) => there.connect().await,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Here(roll, agent) => roll.label(agent),
            Self::There(there) => there.to_string(),
        }
    }

    /// Between two connections. Through an outbox each costs files.
    fn pause(&self) -> Duration {
        let is_boxed = matches!(self, Self::Here(roll, _) if roll.sandboxed().is_some());
        Duration::from_millis(if is_boxed { 500 } else { 50 })
    }

    /// The agent's name if it was stopped for good. Of one elsewhere we cannot know: it is waited for.
    fn stopped(&self) -> Option<String> {
        let Self::Here(roll, agent) = self else { return None };
        // Who lives cannot be seen from a sandbox; there the limit of time ends the wait.
        (!roll.is_held(agent)).then(|| roll.label(agent))
    }
}

pub(super) async fn until(
    roll: &Roll,
    agent: &AgentId,
    accepted: &MessageAccepted,
    wait_for: WaitFor,
    timeout: Duration,
    ears: Ears<'_>,
) -> Result<Reached, Fail> {
    until_at(&Place::Here(roll, agent), accepted, wait_for, timeout, ears).await
}

pub(super) async fn until_at(
    place: &Place<'_>,
    accepted: &MessageAccepted,
    wait_for: WaitFor,
    timeout: Duration,
    ears: Ears<'_>,
) -> Result<Reached, Fail> {
    let task = accepted.task_id.clone().unwrap_or_default();
    // A repeat may be answered long ago: its events begin before this acceptance.
    let after = if accepted.duplicate { Some(0) } else { accepted.event_id.map(|id| id.saturating_sub(1)) };
    let mut follower = Follower {
        task,
        message: accepted.message_id.clone(),
        wait_for,
        after,
        last: None,
        ears,
        whom: place.name(),
    };
    match tokio::time::timeout(timeout, follower.follow(place)).await {
        Ok(reached) => reached,
        Err(_) => Ok(Reached::TimedOut { after: timeout, last: follower.last }),
    }
}

struct Follower<'a> {
    task: String,
    message: String,
    wait_for: WaitFor,
    after: Option<u64>,
    last: Option<String>,
    ears: Ears<'a>,
    /// As the person would call it.
    whom: String,
}

impl Follower<'_> {
    async fn follow(&mut self, place: &Place<'_>) -> Result<Reached, Fail> {
        loop {
            let path = format!("/api/v1/events?task={}", self.task);
            let opened = match place.connect().await {
                Ok(client) => client.lines(&path, self.after).await,
                Err(e) => Err(e),
            };
            match opened {
                Ok(mut events) => {
                    while let Some(event) = events.next_event().await {
                        self.after = event.id.or(self.after);
                        let Ok(view) = serde_json::from_str::<EventView>(&event.data) else { continue };
                        match self.see(&view) {
                            // An old question, which somebody has answered.
                            Some(Reached::Asks(_)) if !self.still_asks(place).await => {}
                            Some(Reached::Asks(asked)) if !self.ears.stop_when_asked => {
                                self.say(&asked.hint(&self.whom, &self.task[..8.min(self.task.len())]));
                            }
                            Some(Reached::Ended { state, why, answer: None }) if state == "completed" => {
                                let answer = self.artifacts(place).await;
                                return Ok(Reached::Ended { state, why, answer });
                            }
                            Some(reached) => return Ok(reached),
                            None => {}
                        }
                    }
                }
                Err(e) if e.may_work_later() => {}
                Err(e) => return Err(e.into()),
            }
            if let Some(label) = place.stopped() {
                // Its last events may have come too late for us.
                if let Some(ended) = self.ended(place) {
                    return Ok(ended);
                }
                let message =
                    format!("{label} was stopped; what it had not finished is kept for its next start");
                return Err(Fail::new(fail::TIMED_OUT, "stopped", message));
            }
            // The node was stopped or killed; its holder starts the next one, and the journal has the rest.
            tokio::time::sleep(place.pause()).await;
        }
    }

    /// How the task ended, as the journal of an agent has it that runs no more.
    fn ended(&self, place: &Place<'_>) -> Option<Reached> {
        let Place::Here(roll, agent) = place else { return None };
        let history = History::look_into(&roll.home.agent(agent).journal()).ok()??;
        let past = history.ended(&TaskId::parse(&self.task).ok()?).ok()??;
        let What::Ended { ending, .. } = past.what else { return None };
        let answer = ending.answer.as_ref().map(AnswerView::of);
        Some(Reached::Ended { state: ending.state.name().to_owned(), why: ending.why, answer })
    }

    fn see(&mut self, view: &EventView) -> Option<Reached> {
        let text = |name: &str| view.data.get(name).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
        match view.event.as_str() {
            "progress" => self.say(&text("text")),
            "task" => {
                let prompt = view.data.get("prompt")?;
                let question = prompt.get("text")?.as_str()?.to_owned();
                let pending = Pending::of_task(&self.whom, prompt);
                return Some(Reached::Asks(Asked { question, pending }));
            }
            "returned" => self.say(&format!("not taken: {}", text("why"))),
            "receipt" | "handed" if text("message_id") == self.message || self.message.is_empty() => {
                let reached = text("receipt");
                self.last = Some(reached.clone());
                let wanted = match self.wait_for {
                    WaitFor::Stored => Step::Stored,
                    WaitFor::Submitted => Step::Submitted,
                    WaitFor::Seen => Step::Seen,
                    WaitFor::Answer => return None,
                };
                if Step::parse(&reached).is_some_and(|step| step >= wanted) {
                    return Some(Reached::Step(reached));
                }
            }
            "ended" => {
                let answer = view.data.get("answer").filter(|a| !a.is_null());
                let answer = answer.and_then(|a| serde_json::from_value(a.clone()).ok());
                return Some(Reached::Ended { state: text("state"), why: text("why"), answer });
            }
            _ => {}
        }
        None
    }

    /// What the task made, for an agent that answers with artifacts alone.
    async fn artifacts(&self, place: &Place<'_>) -> Option<AnswerView> {
        let mut client = place.connect().await.ok()?;
        let task = client.get::<TaskView>(&format!("/api/v1/tasks/{}", self.task)).await.ok()?;
        answer_of(task.artifacts)
    }

    async fn still_asks(&self, place: &Place<'_>) -> bool {
        let Ok(mut client) = place.connect().await else { return false };
        let task = client.get::<TaskView>(&format!("/api/v1/tasks/{}", self.task)).await;
        task.is_ok_and(|task| matches!(task.state.as_str(), "input-required" | "auth-required"))
    }

    fn say(&self, text: &str) {
        (self.ears.hear)(text);
    }
}

/// Artifacts as one answer: each begins on a line of its own, and chunks of one follow each other.
fn answer_of(artifacts: Vec<serde_json::Value>) -> Option<AnswerView> {
    let (mut text, mut parts) = (String::new(), Vec::new());
    for made in artifacts {
        let Ok(Said::Artifact { content, append, .. }) = serde_json::from_value(made) else { continue };
        let content = AnswerView::of(&content);
        if !append && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&content.text);
        parts.extend(content.content["parts"].as_array().cloned().unwrap_or_default());
    }
    (!parts.is_empty()).then(|| AnswerView { text, content: serde_json::json!({ "parts": parts }) })
}

/// Tries again while the node is between two lives.
pub(super) async fn patiently<T>(
    limit: Duration,
    mut ask: impl AsyncFnMut() -> Result<T, CallError>,
) -> Result<T, CallError> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(5);
    loop {
        match ask().await {
            Err(e) if e.is_passing() && Instant::now() + pause < deadline => {
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(Duration::from_millis(250));
            }
            other => return other,
        }
    }
}
