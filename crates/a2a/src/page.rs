//! Pages of tasks (T4–T11): what a request asks for, and the token that leads from one page to the next.
//!
//! A token says where the last page ended and as of when the first was made, so pages stay right while tasks change. It
//! fits only the question that it came from. Callers see it as opaque; it holds nothing that they were not told.

use crate::check;
use crate::fault::Fault;
use crate::pb;
use crate::to_core;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use synapse_core::ids::{TaskId, Timestamp};
use synapse_core::listing::{Below, Listing};
use synapse_core::task::TaskState;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// One more than a page has: whether there is a next one.
    pub listing: Listing,
    pub size: usize,
    pub history: Option<usize>,
    pub artifacts: bool,
    question: u64,
}

pub fn read(request: &pb::ListTasksRequest) -> Result<Wanted, Fault> {
    let size = check::page_size(request.page_size)?;
    let history = check::history_length("historyLength", request.history_length)?;
    let since = check::after(request.status_timestamp_after.as_ref())?;
    let state = match pb::TaskState::try_from(request.status) {
        Ok(pb::TaskState::Unspecified) => None,
        Ok(state) => Some(from_pb(state)),
        Err(_) => return Err(Fault::params("status", "it is no state of a task")),
    };
    let context = Some(request.context_id.clone()).filter(|context| !context.is_empty());
    let mut hash = DefaultHasher::new();
    let tenant = to_core::tenant(&request.tenant)?;
    (&tenant, &context, state, since).hash(&mut hash);
    let question = hash.finish();
    let below = match request.page_token.as_str() {
        "" => None,
        token => Some(below(token, question).ok_or_else(|| {
            Fault::params(
                "pageToken",
                "it is none that this agent gave for this question; ask without it for the first page",
            )
        })?),
    };
    let listing = Listing { tenant, context, state, since, below, max: size + 1 };
    let artifacts = request.include_artifacts.unwrap_or(false);
    Ok(Wanted { listing, size, history, artifacts, question })
}

impl Wanted {
    /// The token for what follows a page that was made `now` and ended with this task.
    pub fn next(&self, place: Timestamp, last: TaskId, now: Timestamp) -> String {
        let as_of = self.listing.below.map_or(now, |below| below.as_of);
        let text = format!("1.{}.{}.{last}.{:x}", as_of.0, place.0, self.question);
        URL_SAFE_NO_PAD.encode(text)
    }
}

fn below(token: &str, question: u64) -> Option<Below> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let mut pieces = std::str::from_utf8(&bytes).ok()?.split('.');
    let mut next = || pieces.next();
    let (version, as_of, at, id, asked) = (next()?, next()?, next()?, next()?, next()?);
    let fits = version == "1" && next().is_none() && u64::from_str_radix(asked, 16).ok()? == question;
    let time = |raw: &str| raw.parse().ok().map(Timestamp);
    fits.then_some(Below { at: time(at)?, id: TaskId::parse(id).ok()?, as_of: time(as_of)? })
}

fn from_pb(state: pb::TaskState) -> TaskState {
    match state {
        pb::TaskState::Unspecified | pb::TaskState::Submitted => TaskState::Submitted,
        pb::TaskState::Working => TaskState::Working,
        pb::TaskState::Completed => TaskState::Completed,
        pb::TaskState::Failed => TaskState::Failed,
        pb::TaskState::Canceled => TaskState::Canceled,
        pb::TaskState::InputRequired => TaskState::InputRequired,
        pb::TaskState::Rejected => TaskState::Rejected,
        pb::TaskState::AuthRequired => TaskState::AuthRequired,
    }
}

/// How much a task takes up on its way, about.
pub fn bytes_of(task: &pb::Task) -> usize {
    prost::Message::encoded_len(task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_core;

    fn asked(token: &str) -> pb::ListTasksRequest {
        pb::ListTasksRequest {
            context_id: "c".into(),
            status: pb::TaskState::Working.into(),
            page_token: token.into(),
            ..pb::ListTasksRequest::default()
        }
    }

    /// T4, T8, T11: a token leads on from where it was given, and only for the question that it came from.
    #[test]
    fn tokens() {
        let id = TaskId::parse("0123456789abcdef0123456789abcdef").unwrap();
        let first = read(&asked("")).unwrap();
        assert_eq!((first.listing.max, first.size, first.listing.below), (51, 50, None));
        let token = first.next(Timestamp(7), id, Timestamp(9));
        let second = read(&asked(&token)).unwrap();
        let below = Below { at: Timestamp(7), id, as_of: Timestamp(9) };
        assert_eq!(second.listing, Listing { below: Some(below), ..first.listing });
        // As of when the first page was made, however many there are.
        let token = second.next(Timestamp(3), id, Timestamp(99));
        assert_eq!(read(&asked(&token)).unwrap().listing.below.unwrap().as_of, Timestamp(9));
        let other = pb::ListTasksRequest { context_id: "d".into(), ..asked(&token) };
        assert_eq!(read(&other).unwrap_err().field.as_deref(), Some("pageToken"));
        for wrong in ["x", "2", "%%%", "MQ", &"A".repeat(100_000), &token[..token.len() - 4]] {
            assert_eq!(read(&asked(wrong)).unwrap_err().field.as_deref(), Some("pageToken"), "{wrong:.20}");
        }
    }

    #[test]
    fn every_state_comes_back_as_it_was() {
        for state in TaskState::ALL {
            assert_eq!(from_pb(from_core::state(state)), state);
        }
        let wrong = pb::ListTasksRequest { status: 99, ..asked("") };
        assert_eq!(read(&wrong).unwrap_err().field.as_deref(), Some("status"));
    }
}
