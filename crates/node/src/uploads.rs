//! Uploads: bodies of A2A requests that contain files, and the files in them.
//!
//! Text and data of a message must fit into `limits.message_bytes_max`. Its files may have
//! `limits.file_bytes_max` more bytes. They are stored as files by digest before the message is
//! accepted; the core and the journal hold references. Only a few large bodies are in memory at
//! once; the others wait a short time, unread.
//! Not here: where files are kept (`synapse_store::attachments`).

use crate::doors::{App, Shared};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use std::time::Duration;
use synapse_a2a::fault::Fault;
use synapse_a2a::operation::Request;
use synapse_a2a::pb::part::Content as Inside;
use synapse_a2a::to_core::Files;
use synapse_core::Refusal;
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_dialects::api::MessageView;
use synapse_store::attachments::AttachError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// The maximum number of large bodies in memory at once.
pub const AT_ONCE: usize = 2;
/// Larger raw parts of a message are stored as files.
const INLINE_BYTES_MAX: usize = 32 << 10;
/// The time limit of a body, and the new one once it turns out to be large.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
const LARGE_PATIENCE: Duration = Duration::from_secs(120);
/// How long a large body waits for its turn.
const TURN_PATIENCE: Duration = Duration::from_secs(20);

/// A body, and the permit that a large one holds until its files are stored.
pub struct Upload {
    pub bytes: Bytes,
    pub(crate) room: Room,
}

/// Released when it is dropped.
#[derive(Default)]
pub struct Room(#[allow(dead_code)] Option<OwnedSemaphorePermit>);

/// How the files of a message are encoded in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Base64,
    /// The encoding of 0.3 clients over HTTP+JSON: base64 of base64.
    Base64Twice,
}

/// Returns the maximum size of a body: a message, and its encoded files.
pub fn body_bytes_max(app: &App, encoding: Encoding) -> usize {
    let files = usize::try_from(app.settings.get().limits.file_bytes_max).unwrap_or(usize::MAX);
    app.body_bytes_max.saturating_add(encoding.bytes(files)).saturating_add(1 << 10)
}

impl Encoding {
    /// Returns the encoded size of this many bytes.
    fn bytes(self, raw: usize) -> usize {
        match self {
            Self::Base64 => raw.saturating_mul(4) / 3,
            Self::Base64Twice => raw.saturating_mul(16) / 9,
        }
    }
}

pub async fn read(app: &App, mut body: axum::body::Body, encoding: Encoding) -> Result<Upload, Refusal> {
    let max = body_bytes_max(app, encoding);
    let (mut bytes, mut room) = (BytesMut::new(), None);
    let mut deadline = Instant::now() + BODY_PATIENCE;
    loop {
        let late = || Refusal::bad_field("body", "it did not arrive in time");
        let frame = tokio::time::timeout_at(deadline, body.frame()).await.map_err(|_| late())?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|e| Refusal::bad_field("body", format!("it broke off: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > max {
            return Err(Refusal::TooLarge { bytes: length, max });
        }
        if length > app.body_bytes_max && room.is_none() {
            let turn = tokio::time::timeout(TURN_PATIENCE, app.uploads.clone().acquire_owned()).await;
            room = Some(turn.ok().and_then(Result::ok).ok_or(Refusal::Busy)?);
            deadline = Instant::now() + LARGE_PATIENCE;
        }
        bytes.extend_from_slice(&data);
    }
    let bytes = bytes.freeze();
    if room.is_none() {
        crate::audit::note(|facts| facts.raw(&bytes));
    }
    Ok(Upload { bytes, room: Room(room) })
}

/// Removes files whose messages are gone from the journal, on a blocking thread.
pub fn start_sweep(app: &Shared) {
    let app = app.clone();
    tokio::task::spawn_blocking(move || sweep(&app));
}

/// Removes files whose messages are gone from the journal. May wait for a disk.
fn sweep(app: &App) {
    let history = app.history.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match app.attachments.sweep(|sha256| history.is_attached(sha256).unwrap_or(true)) {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "files of removed messages were removed"),
        Err(error) => tracing::warn!(%error, "files of removed messages could not be removed"),
    }
}

/// The number of a part, and its bytes, which are to be stored as a file.
type LargePart = (usize, Vec<u8>);

/// Takes the bytes of large parts out of a message, and leaves those parts empty.
pub fn take_large_parts(request: &mut Request) -> Vec<LargePart> {
    let (Request::Send(send) | Request::SendStreaming(send)) = request else { return Vec::new() };
    let parts = send.message.iter_mut().flat_map(|message| message.parts.iter_mut()).enumerate();
    parts
        .filter_map(|(n, part)| match &mut part.content {
            Some(Inside::Raw(bytes)) if bytes.len() > INLINE_BYTES_MAX => Some((n, std::mem::take(bytes))),
            _ => None,
        })
        .collect()
}

pub fn may_upload(app: &App, caller: &Caller) -> Result<(), Fault> {
    policy::may(&app.gate.rules(), caller, Verb::Message, About::default()).map_err(|no| Fault::of(&no))
}

/// Stores the bytes of large parts as files.
pub async fn store_files(app: &Shared, large: Vec<LargePart>) -> Result<Files, Fault> {
    let limits = app.settings.get().limits;
    let bytes: usize = large.iter().map(|(_, bytes)| bytes.len()).sum();
    if bytes as u64 > limits.file_bytes_max {
        let max = usize::try_from(limits.file_bytes_max).unwrap_or(usize::MAX);
        return Err(Fault::of(&Refusal::TooLarge { bytes, max }));
    }
    let app = app.clone();
    let stored = tokio::task::spawn_blocking(move || {
        let put = |(n, bytes): (usize, _)| {
            let bytes = AsRef::<[u8]>::as_ref(&bytes);
            let file = match app.attachments.put(bytes, limits.files_bytes_max) {
                Err(AttachError::NoRoom { .. }) => {
                    sweep(&app);
                    app.attachments.put(bytes, limits.files_bytes_max)?
                }
                other => other?,
            };
            Ok((n, file))
        };
        large.into_iter().map(put).collect::<Result<Files, AttachError>>()
    });
    let stored = stored.await.map_err(|_| Fault::of(&Refusal::Stopping))?;
    stored.map_err(|error| Fault::of(&Refusal::NotStored { why: error.to_string() }))
}

/// Returns the files of a message as a JSON list, or `None` if it has none.
pub(crate) fn files_of(view: &MessageView) -> Option<String> {
    let parts = view.content.as_ref()?.get("parts")?.as_array()?;
    let files: Vec<_> = parts.iter().filter(|part| part.get("file").is_some()).collect();
    (!files.is_empty()).then(|| serde_json::to_string(&files).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    /// Finding A10: a file of the largest size fits, also in the encoding of 0.3 clients over
    /// HTTP+JSON.
    #[test]
    fn bounds_hold_what_is_encoded() {
        for bytes in [0, 1, 100, 32 << 10, 3 << 20] {
            let once = STANDARD.encode(vec![7; bytes]);
            let twice = STANDARD.encode(&once);
            assert!(once.len() <= Encoding::Base64.bytes(bytes) + 1024);
            assert!(twice.len() <= Encoding::Base64Twice.bytes(bytes) + 1024);
        }
    }
}
