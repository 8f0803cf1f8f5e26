//! gRPC as bytes: framed messages, the status that ends a call, and how long a caller waits (R1–R6).
//!
//! Not here: HTTP/2 and its connections (`synapse-node`).

use crate::fault::{DOMAIN, Fault, Kind};
use crate::operation::{Reply, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use prost::Message;
use prost_types::Any;
use std::time::Duration;
use tonic_types::pb as rpc;

/// What all paths of this binding begin with; the name of the operation follows.
pub const PREFIX: &str = "/lf.a2a.v1.A2AService/";
pub const CONTENT_TYPE: &str = "application/grpc";

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const ACCEPTS: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// What stands before each message: whether it is compressed, and how long it is.
const HEAD_BYTES: usize = 5;
/// Callers take heads of a few kilobytes, and the words of an error are in them more than once.
const WORDS_BYTES_MAX: usize = 800;

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    Ok,
    Fault(Fault),
    /// The caller's time is over.
    Late,
    /// A message came in a form that only some servers read.
    Compressed,
}

impl Status {
    pub fn code(&self) -> i32 {
        const DEADLINE_EXCEEDED: i32 = 4;
        const UNIMPLEMENTED: i32 = 12;
        match self {
            Self::Ok => 0,
            Self::Fault(fault) => fault.kind.codes().grpc.0,
            Self::Late => DEADLINE_EXCEEDED,
            Self::Compressed => UNIMPLEMENTED,
        }
    }

    fn message(&self) -> &str {
        match self {
            Self::Ok => "",
            Self::Fault(fault) => up_to(&fault.message, WORDS_BYTES_MAX),
            Self::Late => "it was not done within the time that grpc-timeout gave",
            Self::Compressed => "compressed messages are not read here; send them as they are",
        }
    }

    /// As headers, or as the trailers after an answer (R5).
    pub fn write(&self, to: &mut HeaderMap) {
        // All but `%` of what can be printed stays as it is.
        const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
        to.insert(STATUS, HeaderValue::from(self.code()));
        if *self == Self::Ok {
            return;
        }
        let words = utf8_percent_encode(self.message(), ESCAPED).to_string();
        to.extend(HeaderValue::try_from(words).ok().map(|words| (MESSAGE, words)));
        if let Self::Fault(fault) = self {
            let details = STANDARD_NO_PAD.encode(self.details(fault).encode_to_vec());
            to.extend(HeaderValue::try_from(details).ok().map(|details| (DETAILS, details)));
        }
        if *self == Self::Compressed {
            to.insert(ACCEPTS, HeaderValue::from_static("identity"));
        }
    }

    /// The same as [`Fault::details`], as messages.
    fn details(&self, fault: &Fault) -> rpc::Status {
        let metadata = fault.retry_after_s.map(|seconds| ("retryAfterSeconds".into(), seconds.to_string()));
        let info = rpc::ErrorInfo {
            reason: fault.kind.codes().reason.into(),
            domain: DOMAIN.into(),
            metadata: metadata.into_iter().collect(),
        };
        let mut details = vec![any("ErrorInfo", &info)];
        if let Some(field) = &fault.field {
            let violation = rpc::bad_request::FieldViolation {
                field: up_to(field, WORDS_BYTES_MAX).into(),
                description: self.message().into(),
                ..rpc::bad_request::FieldViolation::default()
            };
            details.push(any("BadRequest", &rpc::BadRequest { field_violations: vec![violation] }));
        }
        rpc::Status { code: self.code(), message: self.message().into(), details }
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

fn any(name: &str, message: &impl Message) -> Any {
    Any { type_url: format!("type.googleapis.com/google.rpc.{name}"), value: message.encode_to_vec() }
}

fn up_to(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The one message of a call.
pub fn unframe(body: &[u8]) -> Result<&[u8], Status> {
    let bad = |why: &str| Status::Fault(Fault::new(Kind::Request, why));
    let Some((head, message)) = body.split_first_chunk::<HEAD_BYTES>() else {
        return Err(bad("the call has no message: it is one, with its five bytes before it"));
    };
    let [compressed, length @ ..] = *head;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    match compressed {
        0 => {}
        1 => return Err(Status::Compressed),
        _ => return Err(bad("the first byte of a message must be 0 or 1")),
    }
    match message.len() {
        found if found == length => Ok(message),
        found if found < length => {
            Err(bad(&format!("the message broke off after {found} of {length} bytes")))
        }
        _ => Err(bad("these operations take one message, and more came")),
    }
}

/// A message as it goes out.
pub fn frame(message: &impl Message) -> Vec<u8> {
    let length = message.encoded_len();
    let mut out = Vec::with_capacity(HEAD_BYTES + length);
    out.push(0);
    out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    // A vector grows as it must, so there is always room.
    let _ = message.encode(&mut out);
    out
}

/// What a caller asks for, by the last part of the path.
pub fn request(method: &str, message: &[u8]) -> Result<Request, Fault> {
    Ok(match method {
        "SendMessage" => Request::Send(read(message)?),
        "SendStreamingMessage" => Request::SendStreaming(read(message)?),
        "GetTask" => Request::Get(read(message)?),
        "ListTasks" => Request::List(read(message)?),
        "CancelTask" => Request::Cancel(read(message)?),
        "SubscribeToTask" => Request::Subscribe(read(message)?),
        "CreateTaskPushNotificationConfig" => Request::CreatePush(read(message)?),
        "GetTaskPushNotificationConfig" => Request::GetPush(read(message)?),
        "ListTaskPushNotificationConfigs" => Request::ListPush(read(message)?),
        "DeleteTaskPushNotificationConfig" => Request::DeletePush(read(message)?),
        "GetExtendedAgentCard" => Request::ExtendedCard(read(message)?),
        other => return Err(no_method(other)),
    })
}

pub fn no_method(name: &str) -> Fault {
    Fault::new(Kind::Method, format!("there is no method {:?}", up_to(name, WORDS_BYTES_MAX)))
}

fn read<T: Message + Default>(message: &[u8]) -> Result<T, Fault> {
    T::decode(message).map_err(|e| Fault::new(Kind::Request, format!("the message cannot be read: {e}")))
}

/// An answer, framed.
pub fn reply(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Sent(sent) => frame(sent),
        Reply::Task(task) => frame(task),
        Reply::Tasks(page) => frame(page),
        Reply::Push(push) => frame(push),
        Reply::Pushes(page) => frame(page),
        // `google.protobuf.Empty` (R4).
        Reply::Nothing => frame(&()),
        Reply::Card(card) => frame(&**card),
    }
}

/// How a call of ours ended, as whoever was called says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    pub code: i32,
    pub message: String,
    /// Why, in the words of the protocol.
    pub reason: Option<String>,
    pub field: Option<String>,
    pub retry_after_s: Option<u64>,
}

impl Told {
    /// From the trailers, or from the head of an answer that is nothing else; none if they do not say it.
    pub fn read(from: &HeaderMap) -> Option<Self> {
        let text = |name: &HeaderName| from.get(name).and_then(|raw| raw.to_str().ok());
        let code = text(&STATUS)?.parse().ok()?;
        let message = text(&MESSAGE).map(|raw| percent_decode_str(raw).decode_utf8_lossy().into_owned());
        // Both ways to pad are in use.
        let details = text(&DETAILS).and_then(|raw| STANDARD_NO_PAD.decode(raw.trim_end_matches('=')).ok());
        let details =
            details.and_then(|bytes| rpc::Status::decode(bytes.as_slice()).ok()).unwrap_or_default();
        let mut told = Self { code, message: message.unwrap_or(details.message), ..Self::default() };
        for one in &details.details {
            let bytes = one.value.as_slice();
            match one.type_url.rsplit('/').next() {
                Some("google.rpc.ErrorInfo") => {
                    let info = rpc::ErrorInfo::decode(bytes).unwrap_or_default();
                    if info.domain == DOMAIN && !info.reason.is_empty() {
                        told.retry_after_s =
                            info.metadata.get("retryAfterSeconds").and_then(|raw| raw.parse().ok());
                        told.reason = Some(info.reason);
                    }
                }
                Some("google.rpc.BadRequest") => {
                    let bad = rpc::BadRequest::decode(bytes).unwrap_or_default();
                    told.field = bad.field_violations.into_iter().next().map(|first| first.field);
                }
                _ => {}
            }
        }
        Some(told)
    }
}

/// The messages of an answer, out of pieces of bytes.
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    /// Where the next message begins.
    from: usize,
}

impl Messages {
    pub fn take_in(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.from));
        self.bytes.extend_from_slice(bytes);
    }

    /// The next one that is whole. An error says why there will be none.
    pub fn next(&mut self, bytes_max: usize) -> Result<Option<&[u8]>, String> {
        let rest = &self.bytes[self.from..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [compressed, length @ ..] = *head;
        if compressed != 0 {
            return Err("a message is compressed, which it was not asked to be".into());
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > bytes_max {
            return Err(format!("a message is {length} bytes long; {bytes_max} are read"));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.from + HEAD_BYTES;
        self.from = start + length;
        Ok(Some(&self.bytes[start..start + length]))
    }
}

/// How long the caller waits, as `grpc-timeout` says it: up to eight digits and a unit. What is none is as if it was not there.
pub fn timeout(raw: &str) -> Option<Duration> {
    let (digits, unit) = raw.split_at_checked(raw.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3_600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb;

    fn written(status: &Status) -> (HeaderMap, rpc::Status) {
        let mut headers = HeaderMap::new();
        status.write(&mut headers);
        let details = headers.get(DETAILS).map(|raw| STANDARD_NO_PAD.decode(raw).unwrap());
        let details = rpc::Status::decode(details.unwrap_or_default().as_slice()).unwrap();
        (headers, details)
    }

    /// R5, E1: every row of the table has its status, and its reason among the details.
    #[test]
    fn every_kind_has_its_status_and_details() {
        for kind in Kind::ALL {
            let fault =
                Fault { retry_after_s: Some(7), ..Fault::params("message.parts", "it is 100 % wrong ✗") };
            let status = Status::Fault(Fault { kind, ..fault });
            let (headers, details) = written(&status);
            assert_eq!(headers[STATUS], kind.codes().grpc.0.to_string());
            assert_eq!(headers[MESSAGE], "message.parts: it is 100 %25 wrong %E2%9C%97");
            assert_eq!((details.code, details.details.len()), (kind.codes().grpc.0, 2));
            assert_eq!(details.details[0].type_url, "type.googleapis.com/google.rpc.ErrorInfo");
            let info = rpc::ErrorInfo::decode(details.details[0].value.as_slice()).unwrap();
            assert_eq!((info.reason.as_str(), info.domain.as_str()), (kind.codes().reason, DOMAIN));
            assert_eq!(info.metadata["retryAfterSeconds"], "7");
            let bad = rpc::BadRequest::decode(details.details[1].value.as_slice()).unwrap();
            assert_eq!(bad.field_violations[0].field, "message.parts");
        }
    }

    /// R5: what one side writes, the other reads; and what others write, with or without padding.
    #[test]
    fn a_status_is_read_as_it_was_written() {
        for kind in Kind::ALL {
            let fault =
                Fault { retry_after_s: Some(7), ..Fault::params("message.parts", "it is 100 % wrong ✗") };
            let (headers, _) = written(&Status::Fault(Fault { kind, ..fault.clone() }));
            let told = Told {
                code: kind.codes().grpc.0,
                message: fault.message,
                reason: Some(kind.codes().reason.into()),
                field: fault.field,
                retry_after_s: Some(7),
            };
            assert_eq!(Told::read(&headers), Some(told));
        }
        assert_eq!(Told::read(&written(&Status::Ok).0), Some(Told::default()));
        let other = |pairs: &[(&'static str, &'static str)]| {
            let pair = |(name, value): &(&'static str, &'static str)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            };
            Told::read(&pairs.iter().map(pair).collect())
        };
        assert_eq!(other(&[]), None);
        assert_eq!(other(&[("grpc-status", "fine")]), None);
        let gone = Told { code: 5, message: "gone".into(), ..Told::default() };
        assert_eq!(other(&[("grpc-status", "5"), ("grpc-message", "gone")]), Some(gone.clone()));
        let padded = [("grpc-status", "5"), ("grpc-status-details-bin", "CAUSBGdvbmU=")];
        assert_eq!(other(&padded), Some(gone));
        let garbage = [("grpc-status", "13"), ("grpc-status-details-bin", "%%%")];
        assert_eq!(other(&garbage), Some(Told { code: 13, ..Told::default() }));
    }

    #[test]
    fn messages_come_out_however_their_bytes_are_cut() {
        let tasks = ["a", "", "ccc"].map(|id| pb::Task { id: id.into(), ..pb::Task::default() });
        let bytes: Vec<u8> = tasks.iter().flat_map(frame).collect();
        for size in 1..=bytes.len() {
            let (mut messages, mut found) = (Messages::default(), Vec::new());
            for piece in bytes.chunks(size) {
                messages.take_in(piece);
                while let Some(message) = messages.next(100).unwrap() {
                    found.push(pb::Task::decode(message).unwrap());
                }
            }
            assert_eq!(found, tasks, "in pieces of {size}");
        }
        let told = |bytes: &[u8]| {
            let mut messages = Messages::default();
            messages.take_in(bytes);
            messages.next(100).map(|found| found.map(<[u8]>::to_vec))
        };
        assert!(told(b"\x01\0\0\0\x01x").unwrap_err().contains("compressed"));
        assert!(told(b"\0\0\0\0\x65").unwrap_err().contains("101 bytes"));
        assert_eq!(told(b"\0\0\0\0\x02x"), Ok(None));
    }

    /// Whatever a caller wrote, a head stays within what callers take, and is one.
    #[test]
    fn long_words_are_cut_and_strange_ones_escaped() {
        let (headers, details) = written(&Status::Fault(Fault::params("é".repeat(9_000), "\r\n\0 x")));
        let bytes: usize = headers.values().map(HeaderValue::len).sum();
        assert!(bytes < 8_000 && details.message.len() <= WORDS_BYTES_MAX, "{bytes}");
        let (headers, _) = written(&Status::Fault(Fault::new(Kind::Internal, "a\r\nb\0")));
        assert_eq!(headers[MESSAGE], "a%0D%0Ab%00");
    }

    #[test]
    fn ends_that_are_no_faults() {
        assert_eq!(written(&Status::Ok).0.len(), 1);
        let (late, _) = written(&Status::Late);
        assert_eq!((late[STATUS].as_bytes(), late.get(DETAILS)), (b"4".as_slice(), None));
        let (compressed, _) = written(&Status::Compressed);
        assert_eq!(
            (compressed[STATUS].as_bytes(), compressed[ACCEPTS].as_bytes()),
            (b"12".as_slice(), b"identity".as_slice())
        );
    }

    #[test]
    fn frames_come_back_and_broken_ones_are_told() {
        let task = pb::Task { id: "t".into(), ..pb::Task::default() };
        let framed = frame(&task);
        assert_eq!(pb::Task::decode(unframe(&framed).unwrap()).unwrap(), task);
        assert_eq!(unframe(&frame(&())).unwrap(), b"");
        let told = |bytes: &[u8]| unframe(bytes).unwrap_err();
        assert_eq!(told(b"\x01\0\0\0\x01x"), Status::Compressed);
        for bad in [
            &b""[..],
            b"\0\0\0\0",
            b"\0\0\0\0\x02x",
            b"\0\0\0\0\x01xy",
            b"\x02\0\0\0\0",
            b"\0\xff\xff\xff\xff",
        ] {
            let Status::Fault(fault) = told(bad) else { panic!("{bad:?}") };
            assert_eq!(fault.kind, Kind::Request, "{bad:?}");
        }
    }

    /// J2, R1: all eleven, by their names; garbage is told as such.
    #[test]
    fn requests_by_name() {
        let get =
            pb::GetTaskRequest { id: "t".into(), history_length: Some(0), ..pb::GetTaskRequest::default() };
        assert_eq!(request("GetTask", &get.encode_to_vec()).unwrap(), Request::Get(get));
        for method in [
            "SendMessage",
            "SendStreamingMessage",
            "GetTask",
            "ListTasks",
            "CancelTask",
            "SubscribeToTask",
            "CreateTaskPushNotificationConfig",
            "GetTaskPushNotificationConfig",
            "ListTaskPushNotificationConfigs",
            "DeleteTaskPushNotificationConfig",
            "GetExtendedAgentCard",
        ] {
            assert!(request(method, b"").is_ok(), "{method}");
            assert_eq!(request(method, b"\xff\xff\xff\xff").unwrap_err().kind, Kind::Request, "{method}");
        }
        assert_eq!(request("getTask", b"").unwrap_err().kind, Kind::Method);
    }

    #[test]
    fn times() {
        let cases = [
            ("1H", Some(Duration::from_secs(3_600))),
            ("2M", Some(Duration::from_secs(120))),
            ("99999999S", Some(Duration::from_secs(99_999_999))),
            ("250m", Some(Duration::from_millis(250))),
            ("7u", Some(Duration::from_micros(7))),
            ("7n", Some(Duration::from_nanos(7))),
            ("0S", Some(Duration::ZERO)),
            ("", None),
            ("S", None),
            ("5", None),
            ("-5S", None),
            ("+5S", None),
            ("123456789S", None),
            ("5é", None),
            ("5s", None),
        ];
        for (raw, expected) in cases {
            assert_eq!(timeout(raw), expected, "{raw}");
        }
    }
}
