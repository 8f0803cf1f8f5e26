//! The operations of A2A as questions to the driver and the archive: one engine below all bindings
//! (G2).
//!
//! Results are scoped to the caller: a task of another caller is not found, as if it did not exist
//! (E4, E5, E8).
//! Not here: wire formats (`doors/a2a`), translation (`synapse-a2a`).

mod list;
mod push;
mod stream;
mod view;

pub use stream::{Event, Mark, Stream};

use crate::card::{self, Called};
use crate::decide;
use crate::doors::Shared;
use crate::follow::{self, Item};
use crate::handle::QueuedEntry;
use crate::uploads;
use std::sync::Arc;
use std::time::Duration;
use synapse_a2a::check::{self, Version};
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::from_core::Much;
use synapse_a2a::operation::{Reply, Request};
use synapse_a2a::pb;
use synapse_a2a::to_core::{self, Decision};
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command, Draft, Taken};
use synapse_core::ids::{LinkId, Seq, TaskId, TaskRef, Tenant};
use synapse_core::policy::Caller;
use synapse_core::record::Record;
use synapse_core::task::{Task, TaskState};
use synapse_core::watch::Topic;
use synapse_terminal::prompt::Decided;
use tokio::sync::mpsc;
use view::{Heard, Known};

/// Performs the requests of one caller.
#[derive(Clone)]
pub struct Engine {
    app: Shared,
    caller: Caller,
    called: Called,
    /// The version the caller speaks; its webhooks use it later.
    speaks: Version,
    /// The namespace of the request: tasks of other tenants are not found (finding A8).
    tenant: Option<Tenant>,
    /// The files of the message being sent.
    files: Arc<to_core::Files>,
}

/// The result of a request.
pub enum Done {
    Reply(Reply),
    Stream(Stream),
}

/// An accepted message.
struct Sent {
    task: TaskId,
    /// Events about the message have higher sequence numbers than this.
    at: Seq,
    /// The number of the task's moves before the message.
    moves: usize,
    /// The message was already known, and its task may have ended.
    is_repeat: bool,
    /// The events of its task, beginning with the message.
    events: Option<mpsc::Receiver<QueuedEntry>>,
}

impl Engine {
    pub fn new(app: Shared, caller: Caller) -> Self {
        Self {
            app,
            caller,
            called: Called::default(),
            speaks: Version::V10,
            tenant: None,
            files: Arc::default(),
        }
    }

    /// Sets how the node was called, if the binding knows it; the content of a card depends on it.
    pub fn called(self, called: Called) -> Self {
        Self { called, ..self }
    }

    /// Sets the version the caller speaks, if it is not the newest.
    pub fn speaking(self, speaks: Version) -> Self {
        Self { speaks, ..self }
    }

    /// Sets the tenant, for requests that do not name one themselves.
    pub fn within(self, tenant: Option<Tenant>) -> Self {
        Self { tenant, ..self }
    }

    /// Sets the files of the message being sent.
    pub fn bringing(self, files: to_core::Files) -> Self {
        Self { files: Arc::new(files), ..self }
    }

    /// Creates an engine for this node itself, which may see all of its tasks.
    pub fn of_node(app: Shared) -> Self {
        let caller = Caller::Hand { link: LinkId(0), agent: app.agent.id };
        Self::new(app, caller)
    }

    /// Performs a request. `after` is where a broken stream ended, if the request resumes one.
    pub async fn perform(&self, request: Request, after: Option<Mark>) -> Result<Done, Fault> {
        if !matches!(request, Request::ExtendedCard(_)) {
            self.called.active(&self.app.cards)?;
        }
        self.check_declared(&request)?;
        let within = Self { tenant: to_core::tenant(request.tenant())?, ..self.clone() };
        within.perform_within(request, after).await
    }

    /// Like `perform`, for the tenant of this engine.
    async fn perform_within(&self, request: Request, after: Option<Mark>) -> Result<Done, Fault> {
        crate::audit::note(|facts| match push::has_secrets(&request) {
            true => facts.secret(),
            false => facts.veil(false),
        });
        let reply = match request {
            Request::Send(request) => Reply::Sent(self.send(request).await?),
            Request::SendStreaming(request) => return self.send_streaming(request).await.map(Done::Stream),
            Request::Get(request) => Reply::Task(self.get(request).await?),
            Request::List(request) => Reply::Tasks(self.list(request).await?),
            Request::Cancel(request) => Reply::Task(self.cancel(request).await?),
            Request::Subscribe(request) => return self.subscribe(request, after).await.map(Done::Stream),
            Request::CreatePush(config) => Reply::Push(self.create_push(config).await?),
            Request::GetPush(request) => Reply::Push(self.get_push(request).await?),
            Request::ListPush(request) => Reply::Pushes(self.list_push(request).await?),
            Request::DeletePush(request) => {
                self.delete_push(request).await?;
                Reply::Nothing
            }
            Request::ExtendedCard(_) => {
                let card = card::extended(&self.app, &self.caller, &self.called).await?;
                Reply::Card(Box::new(card))
            }
        };
        Ok(Done::Reply(reply))
    }

    /// Refuses an operation of a capability that the card does not declare, as if it did not exist
    /// (V1).
    fn check_declared(&self, request: &Request) -> Result<(), Fault> {
        let has_push = |send: &pb::SendMessageRequest| {
            send.configuration.as_ref().is_some_and(|some| some.task_push_notification_config.is_some())
        };
        let (streams, pushes) = match request {
            Request::SendStreaming(send) => (true, has_push(send)),
            Request::Send(send) => (false, has_push(send)),
            Request::Subscribe(_) => (true, false),
            Request::CreatePush(_) | Request::GetPush(_) | Request::ListPush(_) | Request::DeletePush(_) => {
                (false, true)
            }
            Request::Get(_) | Request::List(_) | Request::Cancel(_) | Request::ExtendedCard(_) => {
                (false, false)
            }
        };
        if streams && !card::declares_streaming(&self.app) {
            return Err(Fault::new(
                Kind::Unsupported,
                "this agent does not stream; use SendMessage and GetTask",
            ));
        }
        if pushes && !card::declares_push(&self.app) {
            return Err(Fault::new(Kind::PushNotSupported, "this agent sends no push notifications"));
        }
        Ok(())
    }

    /// Stores a message's large parts as files, after checking that the message can be accepted.
    pub async fn store_files(&self, request: &mut Request) -> Result<to_core::Files, Fault> {
        let large = uploads::take_large_parts(request);
        if large.is_empty() {
            return Ok(to_core::Files::new());
        }
        uploads::may_upload(&self.app, &self.caller)?;
        self.check_send(request).await?;
        uploads::store_files(&self.app, large).await
    }

    /// Checks a message as `perform` does before accepting it.
    async fn check_send(&self, request: &Request) -> Result<(), Fault> {
        let (Request::Send(send) | Request::SendStreaming(send)) = request else { return Ok(()) };
        self.called.active(&self.app.cards)?;
        self.check_declared(request)?;
        let within = Self { tenant: to_core::tenant(request.tenant())?, ..self.clone() };
        to_core::draft(send, &card::modes(&self.app), &self.files)?;
        within.push_of(send).await?;
        match send.message.as_ref().filter(|message| !message.task_id.is_empty()) {
            Some(message) => {
                let known = within.known_by_name(&message.task_id).await?;
                within.may_continue(&known, &message.context_id)
            }
            None => Ok(()),
        }
    }

    /// SendMessage (S1–S6).
    async fn send(&self, request: pb::SendMessageRequest) -> Result<pb::SendMessageResponse, Fault> {
        let configuration = request.configuration.clone().unwrap_or_default();
        let history = check::history_length("configuration.historyLength", configuration.history_length)?;
        let sent = self.take(&request, !configuration.return_immediately).await?;
        let known = if configuration.return_immediately {
            self.known(sent.task).await?
        } else {
            self.wait(sent).await?
        };
        let payload = match known.direct().filter(|_| !configuration.return_immediately) {
            Some(message) => pb::send_message_response::Payload::Message(message),
            None => {
                let task = self.tell(&known, Much { history, artifacts: true }).await?;
                pb::send_message_response::Payload::Task(task)
            }
        };
        Ok(pb::SendMessageResponse { payload: Some(payload) })
    }

    /// GetTask (T1, T2).
    pub(crate) async fn get(&self, request: pb::GetTaskRequest) -> Result<pb::Task, Fault> {
        let history = check::history_length("historyLength", request.history_length)?;
        let known = self.known_by_name(check::id("id", &request.id)?).await?;
        self.tell(&known, Much { history, artifacts: true }).await
    }

    /// CancelTask (T12–T14). The agent decides how it stops a task, so the task in the response may
    /// not have ended yet.
    async fn cancel(&self, request: pb::CancelTaskRequest) -> Result<pb::Task, Fault> {
        let known = self.known_by_name(check::id("id", &request.id)?).await?;
        // A question it asked before does not count as the result of this cancel.
        let (id, moves) = (known.task().id, known.task().history.len());
        if let Some(state) = known.ended() {
            return Err(not_cancelable(id, state));
        }
        let command = Command::Cancel { task: reference(id)?, why: "canceled over A2A".into() };
        let (_, at) = match self.app.ask(self.caller.clone(), command).await {
            Ok(heard) => heard,
            Err(Refusal::TaskEnded { state, .. }) => return Err(not_cancelable(id, state)),
            Err(refusal) => return Err(Fault::of(&refusal)),
        };
        self.wait_a_moment(Sent { task: id, at, moves, is_repeat: false, events: None }).await?;
        let known = self.known(id).await?;
        self.tell(&known, Much { history: None, artifacts: true }).await
    }

    /// Accepts the message of a request; it is on disk when this returns. With `waits`, the result
    /// includes the task's events.
    async fn take(&self, request: &pb::SendMessageRequest, waits: bool) -> Result<Sent, Fault> {
        let mut draft = to_core::draft(request, &card::modes(&self.app), &self.files)?;
        let mut push = self.push_of(request).await?;
        let mut moves = 0;
        if let Some(message) = request.message.as_ref().filter(|message| !message.task_id.is_empty()) {
            let known = self.known_by_name(&message.task_id).await?;
            self.may_continue(&known, &message.context_id)?;
            if let Some(decision) = to_core::decision(message).filter(|_| self.app.may_ask()) {
                return self.decide(&known, decision).await;
            }
            // A webhook the task already has stays as it is. Replaced by a new one, it would get
            // the latest events again.
            push = push.filter(|config| !self.has_push(config, known.task().id));
            (draft.context, moves) = (None, known.task().history.len());
        }
        let (taken, at, events) = self.put(Box::new(draft), waits).await.map_err(|e| Fault::of(&e))?;
        let taken = taken.first().ok_or_else(other_answer)?;
        if taken.duplicate {
            self.check_repeat(request, taken).await?;
        }
        if let Some(config) = push {
            self.keep_push(config, taken.task, Mark::after(at)).await?;
        }
        Ok(Sent { task: taken.task, at, moves, is_repeat: taken.duplicate, events })
    }

    /// Rejects a repeated id with the same content but another task or context. A message that
    /// names neither is a repeat.
    async fn check_repeat(&self, request: &pb::SendMessageRequest, taken: &Taken) -> Result<(), Fault> {
        let Some(message) = &request.message else { return Ok(()) };
        if message.task_id.is_empty() && message.context_id.is_empty() {
            return Ok(());
        }
        let known = self.known(taken.task).await?;
        let task = known.task();
        let is_other_task = !message.task_id.is_empty()
            && (message.task_id != task.id.to_string() || task.messages.first() == Some(&taken.message));
        let is_other_context = !message.context_id.is_empty() && message.context_id != task.conversation();
        if is_other_task || is_other_context {
            let message = to_core::message_id(&message.message_id)?;
            return Err(Fault::of(&Refusal::Conflict { message }));
        }
        Ok(())
    }

    async fn put(
        &self,
        draft: Box<Draft>,
        waits: bool,
    ) -> Result<(Vec<Taken>, Seq, Option<mpsc::Receiver<QueuedEntry>>), Refusal> {
        if waits {
            let (taken, at, events) = self.app.handle.send(self.caller.clone(), draft).await?;
            return Ok((taken, at, Some(events)));
        }
        match self.app.ask(self.caller.clone(), Command::Send(draft)).await? {
            (Answer::Accepted(taken), at) => Ok((taken, at, None)),
            _ => Err(Refusal::Stopping),
        }
    }

    /// Decides the prompt of a wrapped agent. Only a decision does that; other messages are
    /// delivered later.
    async fn decide(&self, known: &Known, decision: Decision) -> Result<Sent, Fault> {
        let (task, moves) = (known.task().id, known.task().history.len());
        let sent = Sent { task, at: known.at(), moves, is_repeat: false, events: None };
        let decided = decide::decide(&self.app, &self.caller, decision.allow, decision.prompt).await;
        match decided {
            Ok(Decided::Ignored) => {
                let why = "the key was pressed, and the agent still waits for it; decide again, or answer at its terminal";
                Err(Fault::new(Kind::Internal, why))
            }
            Ok(_) => Ok(sent),
            Err(refusal @ Refusal::BadField { .. }) => {
                let field = Some("message.parts[0].data".to_owned());
                Err(Fault { field, ..Fault::of(&refusal) })
            }
            Err(refusal) => Err(Fault::of(&refusal)),
        }
    }

    /// Checks whether a message may continue a task (S9, C8, C9).
    fn may_continue(&self, known: &Known, context: &str) -> Result<(), Fault> {
        let task = known.task();
        if let Some(state) = known.ended() {
            let message = format!("task {} is {}; send a message without a taskId", task.id, state.name());
            return Err(Fault {
                field: Some("message.taskId".into()),
                ..Fault::new(Kind::Unsupported, message)
            });
        }
        if !context.is_empty() && context != task.conversation() {
            return Err(Fault::params("message.contextId", "it is not the context of this task"));
        }
        Ok(())
    }

    /// Waits until the task has ended or asks for something (S2).
    async fn wait(&self, mut sent: Sent) -> Result<Known, Fault> {
        if let Some(events) = sent.events.take().filter(|_| !sent.is_repeat)
            && let Some(known) = self.heard_out(&sent, events).await?
        {
            return Ok(known);
        }
        // The message is a repeat or a decision, or some events were lost.
        loop {
            let known = self.known(sent.task).await?;
            if known.ended().is_some() || known.asks_since(sent.moves) {
                return Ok(known);
            }
            if self.app.stop.is_cancelled() {
                return Err(Fault::of(&Refusal::Stopping));
            }
            let mut items = self.follow(sent.task, known.at()).await?;
            if first_pause(&mut items).await {
                return self.known(sent.task).await;
            }
        }
    }

    /// Builds the task from its own events. Returns `None` if some of them were lost.
    async fn heard_out(
        &self,
        sent: &Sent,
        mut events: mpsc::Receiver<QueuedEntry>,
    ) -> Result<Option<Known>, Fault> {
        let mut heard = Heard::default();
        loop {
            let next = tokio::select! {
                next = events.recv() => next,
                () = self.app.stop.cancelled() => None,
            };
            let Some(entry) = next else { return Ok(None) };
            heard.take(&entry.record);
            match &entry.record {
                Record::Ended { ending, archive, .. } => {
                    let (ending, archive) = (ending.clone(), archive.clone());
                    return Ok(Some(Known::Ended { ending, archive, at: entry.seq, heard: Some(heard) }));
                }
                record if is_pause(record) => return self.known(sent.task).await.map(Some),
                _ => {}
            }
        }
    }

    /// Waits a short time for the end, so that a task which stops at once is reported as stopped.
    async fn wait_a_moment(&self, sent: Sent) -> Result<(), Fault> {
        const MOMENT: Duration = Duration::from_secs(10);
        match tokio::time::timeout(MOMENT, self.wait(sent)).await {
            Ok(Err(fault)) => Err(fault),
            Ok(Ok(_)) | Err(_) => Ok(()),
        }
    }

    async fn follow(&self, task: TaskId, after: Seq) -> Result<mpsc::Receiver<Item>, Fault> {
        let followed = follow::follow(&self.app, self.caller.clone(), Topic::Task(task), Some(after)).await;
        followed.map_err(|refusal| Fault::of(&refusal))
    }
}

fn not_cancelable(task: TaskId, state: TaskState) -> Fault {
    Fault::new(Kind::TaskNotCancelable, format!("task {task} is already {}", state.name()))
}

fn reference(task: TaskId) -> Result<TaskRef, Fault> {
    TaskRef::parse(&task.to_string()).map_err(|_| Fault::no_such_task(&task.to_string()))
}

fn other_answer() -> Fault {
    Fault::new(Kind::Internal, "the node answered something else; see its log")
}

/// Waits for an event that ends or pauses the task. Returns false if events were lost.
async fn first_pause(items: &mut mpsc::Receiver<Item>) -> bool {
    while let Some(Item::Entry(entry)) = items.recv().await {
        if is_pause(&entry.record) {
            return true;
        }
    }
    false
}

/// Whether a record ends or pauses the task.
fn is_pause(record: &Record) -> bool {
    match record {
        Record::Ended { .. } => true,
        Record::Moved { to, .. } => is_interrupted(to.to),
        _ => false,
    }
}

fn is_interrupted(state: TaskState) -> bool {
    matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

/// Whether the caller may see this task under this tenant.
fn is_own(caller: &Caller, tenant: Option<&Tenant>, task: &Task) -> bool {
    let is_own = caller.sender().who == task.requester.who && tenant == task.tenant.as_ref();
    is_own || matches!(caller, Caller::Hand { .. })
}
