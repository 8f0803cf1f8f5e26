//! `/api/v1/files/{task}/{sha256}`: a file received with a message, for callers that may see its
//! task (finding A8).

use super::extract::Query;
use super::{Refused, Shared, unexpected};
use crate::a2a::Engine;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use serde::Deserialize;
use std::io::Read as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::to_core;
use synapse_core::Refusal;
use synapse_core::policy::Caller;
use synapse_dialects::error::ErrorBody;
use tokio::sync::mpsc;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Within {
    /// The A2A tenant of the task.
    #[serde(default)]
    tenant: String,
}

/// A file that came with a message of a task, whole. Only whoever may see the task may read it.
#[utoipa::path(get, path = "/api/v1/files/{task}/{sha256}", params(
    ("task" = String, Path, description = "The task"),
    ("sha256" = String, Path, description = "The digest of the file, as the message tells it"),
    Within,
), responses(
    (status = 200, content_type = "application/octet-stream", body = Vec<u8>),
    (status = "default", body = ErrorBody),
))]
pub(super) async fn file(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path((task, sha256)): Path<(String, String)>,
    Query(within): Query<Within>,
) -> Result<Response, Refused> {
    let found = read(&app, caller, &task, &sha256, &within.tenant).await;
    found.map_err(|fault| refused(fault, task))
}

/// Maps an A2A fault to a refusal of this door. An invalid tenant has no such task either.
fn refused(fault: Fault, task: String) -> Refused {
    let refusal = match fault.kind {
        Kind::TaskNotFound | Kind::Params => Refusal::NoSuchTask { task },
        Kind::Unauthenticated => Refusal::NotProven { why: fault.message },
        Kind::Denied => Refusal::NotAllowed {
            who: "this caller".into(),
            verb: "read this file",
            need: "the right `read`",
        },
        Kind::TooMany => Refusal::Busy,
        Kind::Stopping => Refusal::Stopping,
        _ => return unexpected(),
    };
    Refused(refusal)
}

async fn read(
    app: &Shared,
    caller: Caller,
    task: &str,
    sha256: &str,
    tenant: &str,
) -> Result<Response, Fault> {
    let engine = Engine::new(app.clone(), caller).within(to_core::tenant(tenant)?);
    let (part, file) = engine.file_of(task, sha256).await?;
    let gone = || Fault::new(Kind::TaskNotFound, format!("file {sha256} is no longer kept"));
    let opened = app.attachments.open(&file).map_err(|_| gone())?;
    let mut response = Response::new(Body::new(FileBody::new(opened)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(file.bytes));
    // Never with the sender's media type: its content must not become a web page on the agent's
    // origin.
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(media) = part.media_type.and_then(|media| HeaderValue::from_str(&media).ok()) {
        headers.insert("x-media-type", media);
    }
    Ok(response)
}

/// The file in chunks. Each is read once the one before it is taken, so a slow reader costs a few
/// chunks and no thread.
struct FileBody {
    pieces: mpsc::Receiver<std::io::Result<Bytes>>,
}

impl FileBody {
    fn new(file: std::fs::File) -> Self {
        const PIECE: usize = 64 << 10;
        let (pieces, reader) = mpsc::channel(1);
        tokio::spawn(async move {
            let file = Arc::new(file);
            loop {
                let file = file.clone();
                let read = tokio::task::spawn_blocking(move || {
                    let mut piece = vec![0; PIECE];
                    let length = (&*file).read(&mut piece)?;
                    piece.truncate(length);
                    Ok(Bytes::from(piece))
                });
                let read = read.await.unwrap_or_else(|_| Err(std::io::ErrorKind::Interrupted.into()));
                let is_last = !matches!(&read, Ok(piece) if !piece.is_empty());
                if matches!(&read, Ok(piece) if piece.is_empty())
                    || pieces.send(read).await.is_err()
                    || is_last
                {
                    return;
                }
            }
        });
        Self { pieces: reader }
    }
}

impl http_body::Body for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        self.pieces.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(http_body::Frame::data)))
    }
}
