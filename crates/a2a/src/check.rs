//! What a request must have before anything is done with it (G7, G8, G14, G16, T8).

use crate::fault::{Fault, Kind};
use crate::pb;
use synapse_core::ids::Timestamp;

/// Tasks in a page, unless asked otherwise, and at most.
pub const PAGE: usize = 50;
pub const PAGE_MAX: i32 = 100;

/// Parts of a message: each takes far more room in memory than it may have on the wire.
pub const PARTS_MAX: usize = 1_000;

/// The message of a request, with all that it needs.
pub fn message(request: &pb::SendMessageRequest) -> Result<&pb::Message, Fault> {
    let message = request.message.as_ref().ok_or_else(|| Fault::params("message", "it is missing"))?;
    if message.message_id.is_empty() {
        return Err(Fault::params("message.messageId", "it is missing; make one up that you have not used"));
    }
    match message.role() {
        pb::Role::User => {}
        pb::Role::Unspecified => return Err(Fault::params("message.role", "it is missing; send ROLE_USER")),
        pb::Role::Agent => {
            return Err(Fault::params("message.role", "only the agent sends as ROLE_AGENT; send ROLE_USER"));
        }
    }
    if message.parts.is_empty() {
        return Err(Fault::params("message.parts", "at least one is needed"));
    }
    if message.parts.len() > PARTS_MAX {
        return Err(Fault::params("message.parts", format!("at most {PARTS_MAX} are taken")));
    }
    for (n, part) in message.parts.iter().enumerate() {
        if part.content.is_none() {
            let why = "exactly one of text, raw, url, data is needed";
            return Err(Fault::params(format!("message.parts[{n}]"), why));
        }
    }
    if let Some(configuration) = &request.configuration {
        history_length("configuration.historyLength", configuration.history_length)?;
    }
    Ok(message)
}

/// How many messages of a task's history are wanted; none if the caller does not say.
pub fn history_length(field: &str, asked: Option<i32>) -> Result<Option<usize>, Fault> {
    let Some(asked) = asked else { return Ok(None) };
    match usize::try_from(asked) {
        Ok(length) => Ok(Some(length)),
        Err(_) => Err(Fault::params(field, "it must not be negative")),
    }
}

pub fn page_size(asked: Option<i32>) -> Result<usize, Fault> {
    match asked {
        None => Ok(PAGE),
        Some(size @ 1..=PAGE_MAX) => Ok(usize::try_from(size).unwrap_or(PAGE)),
        Some(_) => Err(Fault::params("pageSize", format!("it must be 1 to {PAGE_MAX}"))),
    }
}

/// Since when a status must hold.
pub fn after(asked: Option<&pbjson_types::Timestamp>) -> Result<Option<Timestamp>, Fault> {
    let Some(asked) = asked else { return Ok(None) };
    let bad = || Fault::params("statusTimestampAfter", "it must be a time after 1970");
    let seconds = u64::try_from(asked.seconds).map_err(|_| bad())?;
    let ms = u64::try_from(asked.nanos).map_err(|_| bad())? / 1_000_000;
    seconds
        .checked_mul(1_000)
        .and_then(|all| all.checked_add(ms))
        .map(|all| Some(Timestamp(all)))
        .ok_or_else(bad)
}

/// An id that must be there.
pub fn id<'a>(field: &str, id: &'a str) -> Result<&'a str, Fault> {
    if id.is_empty() { Err(Fault::params(field, "it is missing")) } else { Ok(id) }
}

/// The versions of the protocol that are spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// What a caller speaks who says nothing (V9).
    V03,
    V10,
}

impl Version {
    /// As `A2A-Version` says it: major and minor; of a patch number nothing is made (V6–V10).
    pub fn parse(asked: Option<&str>) -> Result<Self, Fault> {
        let asked = asked.map(str::trim).unwrap_or_default();
        let mut numbers = asked.split('.');
        match (numbers.next(), numbers.next()) {
            (Some(""), None) | (Some("0"), Some("3")) => Ok(Self::V03),
            (Some("1"), Some("0")) => Ok(Self::V10),
            _ => {
                let message = format!("version {asked:?} of A2A is not spoken here; 1.0 and 0.3 are");
                Err(Fault { field: Some("A2A-Version".into()), ..Fault::new(Kind::Version, message) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::from_json;
    use serde_json::json;

    /// G8, G14, G16: what lacks something is refused, and the field is named; so is a message from "the agent" (finding A8).
    #[test]
    fn messages_that_lack_something() {
        let whole = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }] });
        let without = |name: &str| {
            let mut some = whole.clone();
            some.as_object_mut().unwrap().remove(name);
            json!({ "message": some })
        };
        let with = |name: &str, value: serde_json::Value| {
            let mut some = whole.clone();
            some[name] = value;
            json!({ "message": some })
        };
        let cases = [
            (json!({}), "message"),
            (without("messageId"), "message.messageId"),
            (without("role"), "message.role"),
            (with("role", json!("ROLE_AGENT")), "message.role"),
            (without("parts"), "message.parts"),
            (with("parts", json!([])), "message.parts"),
            (with("parts", json!(vec![json!({ "text": "a" }); PARTS_MAX + 1])), "message.parts"),
            (with("parts", json!([{ "text": "a" }, { "mediaType": "text/plain" }])), "message.parts[1]"),
            (
                json!({ "message": whole, "configuration": { "historyLength": -1 } }),
                "configuration.historyLength",
            ),
        ];
        for (request, field) in cases {
            let read: pb::SendMessageRequest = from_json(request.clone()).unwrap();
            let fault = message(&read).unwrap_err();
            assert_eq!((fault.kind, fault.field.as_deref()), (Kind::Params, Some(field)), "{request}");
        }
        let read: pb::SendMessageRequest = from_json(json!({ "message": whole })).unwrap();
        assert_eq!(message(&read).unwrap().message_id, "m");
        // Two kinds in one part are refused while it is read.
        let two = with("parts", json!([{ "text": "a", "url": "b" }]));
        assert_eq!(from_json::<pb::SendMessageRequest>(two).unwrap_err().kind, Kind::Params);
    }

    /// T8.
    #[test]
    fn absurd_pages_are_refused() {
        assert_eq!(page_size(None).unwrap(), 50);
        assert_eq!(page_size(Some(1)).unwrap(), 1);
        assert_eq!(page_size(Some(100)).unwrap(), 100);
        for wrong in [0, -1, 101, i32::MAX, i32::MIN] {
            assert_eq!(page_size(Some(wrong)).unwrap_err().field.as_deref(), Some("pageSize"), "{wrong}");
        }
    }

    /// V6, V8, V9, V10.
    #[test]
    fn versions() {
        for (asked, version) in [
            (None, Version::V03),
            (Some(""), Version::V03),
            (Some("0.3"), Version::V03),
            (Some("0.3.0"), Version::V03),
            (Some("1.0"), Version::V10),
            (Some(" 1.0 "), Version::V10),
            (Some("1.0.1"), Version::V10),
        ] {
            assert_eq!(Version::parse(asked).unwrap(), version, "{asked:?}");
        }
        for wrong in ["2.0", "1", "1.1", "0.2", "x", "1.x", ".", "10.0"] {
            assert_eq!(Version::parse(Some(wrong)).unwrap_err().kind, Kind::Version, "{wrong}");
        }
    }
}
