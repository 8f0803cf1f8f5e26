//! `POST /api/v1/stream`: many messages over one request. Each line in is a message as `/message`
//! takes it. Each line out is its answer, in the same order and after its commit. Meant for bridges
//! and hubs that send continuously.

use super::{Shared, events};
use crate::audit::{self, Record};
use crate::handle::Heard;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::Response;
use http_body_util::BodyExt as _;
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command};
use synapse_core::policy::Caller;
use synapse_core::routes::Target;
use synapse_dialects::audit::Actor;
use synapse_dialects::error::ErrorBody;
use synapse_dialects::message::{self, MessageAccepted};
use tokio::sync::{mpsc, oneshot};

/// Messages of one stream that may be waiting for their commit.
const IN_FLIGHT_MAX: usize = 64;

/// Answers are batched into chunks of this size.
const PIECE_BYTES: usize = 16 << 10;

/// The state of a line: refused at once, or waiting for its answer.
type Coming = Result<oneshot::Receiver<Heard>, Refusal>;

/// A line's state and its audit record.
type Asked = (Coming, Record);

/// Send many messages to this agent: one JSON per line in, one answer per line out, in order.
#[utoipa::path(post, path = "/api/v1/stream",
    request_body(content = String, content_type = "application/x-ndjson"),
    responses(
        (status = 200, content_type = "application/x-ndjson", body = MessageAccepted),
        (status = "default", body = ErrorBody),
))]
pub(super) async fn stream(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Response {
    audit::note(|facts| facts.line_each = true);
    let (coming, mut answers) = mpsc::channel::<Asked>(IN_FLIGHT_MAX);
    let (lines, out) = mpsc::channel::<String>(IN_FLIGHT_MAX);
    let log = app.audit.clone();
    tokio::spawn(read_lines(app, caller, body, coming));
    tokio::spawn(async move {
        let mut next = answers.recv().await;
        while let Some((coming, record)) = next.take() {
            let mut text = String::new();
            let mut told = vec![push_line(&mut text, heard(coming).await, record)];
            // One commit answers many messages, so all answers that are ready go out in one chunk.
            while text.len() < PIECE_BYTES
                && let Ok((coming, record)) = answers.try_recv()
            {
                match ready(coming) {
                    Ok(heard) => told.push(push_line(&mut text, heard, record)),
                    Err(coming) => {
                        next = Some((coming, record));
                        break;
                    }
                }
            }
            for line in told.into_iter().flatten() {
                log.write(line).await;
            }
            if lines.send(text).await.is_err() {
                return;
            }
            if next.is_none() {
                next = answers.recv().await;
            }
        }
    });
    events::lines_response(out, "application/x-ndjson")
}

async fn read_lines(app: Shared, caller: Caller, mut body: Body, coming: mpsc::Sender<Asked>) {
    let who = Actor::of(&caller);
    let mut rest = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        rest.extend_from_slice(&data);
        let mut from = 0;
        while let Some(end) = rest[from..].iter().position(|b| *b == b'\n') {
            let line = &rest[from..from + end];
            from += end + 1;
            if !line.iter().all(u8::is_ascii_whitespace)
                && coming.send(take(&app, &caller, &who, line).await).await.is_err()
            {
                return;
            }
        }
        rest.drain(..from);
        if rest.len() > app.body_bytes_max {
            let refusal = Refusal::TooLarge { bytes: rest.len(), max: app.body_bytes_max };
            let _ = coming.send((Err(refusal), app.audit.message(&who, "stream"))).await;
            return;
        }
    }
}

async fn take(app: &Shared, caller: &Caller, who: &Actor, line: &[u8]) -> Asked {
    let mut record = app.audit.message(who, "stream");
    let coming = send(app, caller, line, &mut record).await;
    (coming, record)
}

async fn send(app: &Shared, caller: &Caller, line: &[u8], record: &mut Record) -> Coming {
    app.look_at_settings();
    let asked = message::to_core(line)?;
    let mut draft = asked.draft;
    record.add(|facts| facts.draft(&draft));
    let caller = app.gate.speaking_for(caller.clone(), asked.speak_for.as_deref())?;
    if asked.speak_for.is_some() {
        record.add(|facts| facts.caller(&caller));
    }
    if super::message::elsewhere(app, &draft.to)?.is_some() {
        return Err(Refusal::bad_field("target", "a stream is for the agent of this node; leave it out"));
    }
    draft.to = Target::Here;
    app.handle.ask_when_there_is_room(caller, Command::Send(Box::new(draft))).await
}

async fn heard(coming: Coming) -> Heard {
    match coming {
        Ok(heard) => heard.await.unwrap_or(Err(Refusal::Stopping)),
        Err(refusal) => Err(refusal),
    }
}

/// Returns the answer if it is ready, or else the receiver that waits for it.
fn ready(coming: Coming) -> Result<Heard, Coming> {
    use oneshot::error::TryRecvError;
    match coming {
        Err(refusal) => Ok(Err(refusal)),
        Ok(mut heard) => match heard.try_recv() {
            Ok(answer) => Ok(answer),
            Err(TryRecvError::Closed) => Ok(Err(Refusal::Stopping)),
            Err(TryRecvError::Empty) => Err(Ok(heard)),
        },
    }
}

/// Appends the answer as a line and returns the audit line.
fn push_line(text: &mut String, heard: Heard, mut record: Record) -> Option<synapse_dialects::audit::Line> {
    if let Ok((Answer::Accepted(taken), _)) = &heard
        && let Some(first) = taken.first()
    {
        record.add(|facts| facts.taken(first));
    }
    let written = record.end("send", heard.as_ref().err());
    let line = match heard {
        Ok((Answer::Accepted(taken), latest)) => {
            taken.first().and_then(|one| serde_json::to_string(&MessageAccepted::stored(one, latest)).ok())
        }
        Ok(_) => None,
        Err(refusal) => serde_json::to_string(&ErrorBody::from(&refusal)).ok(),
    };
    text.push_str(&line.unwrap_or_default());
    text.push('\n');
    written
}
