//! Serves one webhook: follows its task, calls its URL for each event, and ends after the last one.

use super::{Push, patience};
use crate::a2a::{Engine, Event, Mark};
use crate::doors::Shared;
use bytes::Bytes;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::operation::Reply;
use synapse_a2a::pb;
use synapse_a2a::pb::stream_response::Payload;
use synapse_a2a::v03::{self, Form};
use synapse_a2a::wire::to_json;
use synapse_peer::web::{Limits, Request, WebError};
use synapse_store::webhooks::Webhook;
use tokio_util::sync::CancellationToken;

/// The name that the SDKs use for the token header; the protocol does not define one (P15).
const TOKEN: &str = "x-a2a-notification-token";
const A2A_JSON: &str = "application/a2a+json";
/// The media type of version 0.3.
const JSON: &str = "application/json";
/// P12: 10 to 30 s.
const CALL: Limits = Limits {
    connect: Duration::from_secs(10),
    whole: Duration::from_secs(15),
    quiet: Duration::from_secs(1),
    answer_bytes_max: 0,
};

pub(super) struct Teller {
    pub(super) app: Shared,
    pub(super) hook: Arc<Webhook>,
    pub(super) told: Arc<Mutex<Mark>>,
}

/// Why reporting ends.
enum Over {
    All,
    /// The task is no longer stored.
    NoTask,
    GivenUp(WebError),
    Stopping,
}

impl Teller {
    pub(super) async fn work(self, stop: CancellationToken) {
        let over = tokio::select! {
            over = self.tell_all() => over,
            () = stop.cancelled() => return,
        };
        let (task, id) = (self.hook.task, &self.hook.id);
        match over {
            Over::Stopping => return,
            Over::All | Over::NoTask => tracing::debug!(%task, %id, "a webhook has been told all"),
            Over::GivenUp(why) => {
                self.app.metrics.push_given_up();
                tracing::warn!(%task, %id, %why, "a webhook is given up: it has failed for an hour");
            }
        }
        if let Err(why) = Push::forget(&self.app, &self.hook).await {
            tracing::warn!(%task, %id, %why, "a webhook that is over could not be removed");
        }
    }

    async fn tell_all(&self) -> Over {
        /// The pause if the node is busy, or the journal cannot be read just now.
        const PAUSE: Duration = Duration::from_secs(1);
        let engine = Engine::of_node(self.app.clone());
        let mut said = Bytes::new();
        loop {
            let before = self.place();
            match self.round(&engine, &mut said).await {
                Ok(Some(over)) => return over,
                Ok(None) if self.place() != before => {}
                Ok(None) => tokio::time::sleep(PAUSE).await,
                Err(fault) if fault.kind == Kind::TaskNotFound => return Over::NoTask,
                Err(fault) if fault.kind == Kind::Stopping => return Over::Stopping,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Reports the available events, until the task has ended or the stream ends because we are
    /// slow.
    async fn round(&self, engine: &Engine, said: &mut Bytes) -> Result<Option<Over>, Fault> {
        /// The events of an ended task are in the journal: they arrive at once, or they no longer
        /// exist.
        const SETTLED: Duration = Duration::from_secs(30);
        let (before, id) = (self.place(), self.hook.task.to_string());
        let whole = engine.whole_if_ended(self.hook.task).await?;
        let request = pb::SubscribeToTaskRequest { id, ..pb::SubscribeToTaskRequest::default() };
        let mut events = engine.subscribe(request, Some(before)).await?;
        loop {
            let next = match &whole {
                Some(_) => tokio::time::timeout(SETTLED, events.recv()).await.unwrap_or(None),
                None => events.recv().await,
            };
            let Some(event) = next else { break };
            let Event::Told { mark, response, .. } = event else { continue };
            if let Err(why) = self.tell(engine, &response, said).await? {
                return Ok(Some(Over::GivenUp(why)));
            }
            self.keep(mark).await;
            if is_end(&response) {
                return Ok(Some(Over::All));
            }
        }
        if self.app.stop.is_cancelled() {
            return Ok(Some(Over::Stopping));
        }
        match whole {
            // The end was before this webhook was created, or is no longer in the journal: report
            // the whole task.
            Some(whole) if self.place() == before => match self.tell(engine, &whole, said).await? {
                Ok(()) => Ok(Some(Over::All)),
                Err(why) => Ok(Some(Over::GivenUp(why))),
            },
            _ => Ok(None),
        }
    }

    /// Returns the body for an event: the event, or in version 0.3 the current task.
    async fn written(&self, engine: &Engine, response: &pb::StreamResponse) -> Result<Value, Fault> {
        if !self.hook.is_of_v03 {
            return to_json(response);
        }
        let request = pb::GetTaskRequest { id: self.hook.task.to_string(), ..pb::GetTaskRequest::default() };
        v03::write_reply(&Reply::Task(engine.get(request).await?), Form::Rpc)
    }

    /// Reports one event until the webhook accepts it or is abandoned. `said` is the last body in
    /// version 0.3: a whole task that has not changed since is not sent again.
    async fn tell(
        &self,
        engine: &Engine,
        response: &pb::StreamResponse,
        said: &mut Bytes,
    ) -> Result<Result<(), WebError>, Fault> {
        let body = match self.written(engine, response).await {
            Ok(value) => Bytes::from(value.to_string()),
            Err(fault) if fault.kind == Kind::Internal => {
                tracing::error!(%fault, "an event could not be written for a webhook");
                return Ok(Ok(()));
            }
            Err(fault) => return Err(fault),
        };
        if self.hook.is_of_v03 {
            if body == *said {
                return Ok(Ok(()));
            }
            said.clone_from(&body);
        }
        Ok(self.call_until_heard(body).await)
    }

    async fn call_until_heard(&self, body: Bytes) -> Result<(), WebError> {
        let (mut failures, mut since) = (0_u32, None);
        loop {
            let error = match self.call(body.clone()).await {
                Ok(()) => {
                    self.app.metrics.push_sent();
                    return Ok(());
                }
                Err(error) => error,
            };
            self.app.metrics.push_failed();
            failures = failures.saturating_add(1);
            let failing = since.get_or_insert_with(Instant::now).elapsed();
            let (task, id) = (self.hook.task, &self.hook.id);
            tracing::debug!(%task, %id, %error, failures, "a webhook failed");
            let mut luck = [0];
            let _ = getrandom::fill(&mut luck);
            let Some(wait) = patience::wait(failures, failing, luck[0]) else { return Err(error) };
            tokio::time::sleep(wait).await;
        }
    }

    async fn call(&self, body: Bytes) -> Result<(), WebError> {
        let media = if self.hook.is_of_v03 { JSON } else { A2A_JSON };
        let mut request = Request::post(&self.hook.url, media, body);
        request.limits = CALL;
        if let Some(login) = self.hook.login.as_ref().filter(|login| !login.credentials.is_empty()) {
            let value = format!("{} {}", login.scheme, login.credentials);
            request = request.header("authorization", &value, true)?;
        }
        if !self.hook.token.is_empty() {
            request = request.header(TOKEN, &self.hook.token, true)?;
        }
        let push = &self.app.push;
        let _room = push.calls.acquire().await;
        // Only the status of the response counts; its body is not read.
        push.client(&self.app).stream(request).await?.success().map(drop)
    }

    fn place(&self) -> Mark {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn keep(&self, mark: Mark) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = mark;
        let (store, hook) = (self.app.push.store.clone(), self.hook.clone());
        let kept = tokio::task::spawn_blocking(move || store.told(&hook, &mark.to_string())).await;
        if let Ok(Err(error)) = kept {
            // After a restart the webhook gets some events twice, which is acceptable.
            tracing::debug!(%error, "how far a webhook has been told could not be written down");
        }
    }
}

/// Whether the task has ended.
fn is_end(response: &pb::StreamResponse) -> bool {
    let status = match &response.payload {
        Some(Payload::Task(task)) => task.status.as_ref(),
        Some(Payload::StatusUpdate(update)) => update.status.as_ref(),
        _ => None,
    };
    status.is_some_and(|status| {
        use pb::TaskState::{Canceled, Completed, Failed, Rejected};
        matches!(status.state(), Completed | Failed | Canceled | Rejected)
    })
}
