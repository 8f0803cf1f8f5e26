//! Messages: content, sender, priority, and cause.
//!
//! A message is a *letter* (the head: small, kept in memory while it waits) and a *body* (the
//! content: up to 1 MB, kept only in the journal). The core decides on heads alone.
//! Not here: how a body looks on any wire (`synapse-dialects`).

use crate::ids::{AgentId, BadId, ContextId, Label, MessageId, TaskId, Tenant, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// 1 (note) to 10 (emergency); higher leaves the mailbox first (X-4, ENV-6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct Priority(u8);

impl Priority {
    pub const NORMAL: Self = Self(6);

    pub fn new(level: u64) -> Result<Self, BadId> {
        match u8::try_from(level) {
            Ok(level @ 1..=10) => Ok(Self(level)),
            _ => Err(BadId { what: "priority", raw: level.to_string(), rule: "it must be 1 to 10" }),
        }
    }

    /// Converts from the 1–5 scale of `synapse send`, `POST /message` and A2A metadata.
    pub fn from_five(level: u64) -> Result<Self, BadId> {
        match level {
            1..=5 => Self::new(level * 2),
            _ => Err(BadId { what: "priority", raw: level.to_string(), rule: "it must be 1 to 5" }),
        }
    }

    pub fn level(self) -> u8 {
        self.0
    }

    /// Converts to the 1–5 scale that people and scripts use; levels in between round up.
    pub fn to_five(self) -> u8 {
        self.0.div_ceil(2)
    }

    /// Whether it is a note: kept and shown when the agent asks, but never pushed to it.
    pub fn is_note(self) -> bool {
        self.0 <= 2
    }

    /// Whether it is an emergency, which no message overtakes, however long that one has waited.
    pub fn is_urgent(self) -> bool {
        self.0 >= 9
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(u64::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// The sender of a message, as far as it could be authenticated.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sender {
    pub who: Who,
    /// The name that the receiver reads: a handle, a name, `user`.
    pub label: String,
    /// Set when the user sent it on behalf of this agent (`--from`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_user: bool,
    pub proof: Proof,
}

impl Sender {
    pub fn user(proof: Proof) -> Self {
        Self { who: Who::User, label: "user".into(), by_user: false, proof }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    User,
    Agent(AgentId),
    /// A named caller, e.g. the holder of a token.
    Named(Label),
}

/// How the sender was authenticated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// The kernel identified the process at the other end of a Unix socket.
    Socket,
    /// A secret that only this user can read.
    Token,
    /// A shared secret from the user's settings.
    Secret,
    /// A certificate of an authority from the user's settings.
    Certificate,
    /// A file in the spool, owned by this user; the name in it is only a claim.
    Spool,
    /// A file in the agent's outbox, under the key that its node gave to its processes.
    Outbox,
    /// No proof: the agent was started for anyone on this machine.
    Open,
    /// This node itself.
    Own,
}

/// The position of a message in a conversation: the message that began it, its
/// cause, and the steps since.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Chain {
    pub correlation: MessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<MessageId>,
    pub hops: u8,
}

/// What the sender waits for; decides when the task ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expects {
    Answer,
    Receipt,
}

/// The content of a message, as text in the one form that the journal keeps. Cheap to clone.
#[derive(Clone)]
pub struct Body(Arc<Said>);

struct Said {
    text: Box<str>,
    /// Computed once, on first use; a door does it before the driver needs it.
    digest: OnceLock<Digest>,
}

impl Body {
    pub fn of(content: &Content) -> Self {
        let text = serde_json::to_string(content).expect("content is plain data and always has a JSON form");
        Self(Arc::new(Said { text: text.into(), digest: OnceLock::new() }))
    }

    /// Wraps text from a journal without checking it; parsing happens when the content is read.
    pub fn kept(text: &str) -> Self {
        Self(Arc::new(Said { text: text.into(), digest: OnceLock::new() }))
    }

    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    pub fn bytes(&self) -> usize {
        self.0.text.len()
    }

    pub fn content(&self) -> Result<Content, serde_json::Error> {
        serde_json::from_str(&self.0.text)
    }

    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| Digest(Sha256::digest(self.0.text.as_bytes()).into()))
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Body {}

impl Serialize for Body {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self::kept(&std::borrow::Cow::<'_, str>::deserialize(from)?))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.bytes())
    }
}

/// A parsed body: what every dialect translates from and to.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Content {
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

impl Content {
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)], metadata: serde_json::Map::new() }
    }

    /// Returns the files that are kept beside the journal.
    pub fn files(&self) -> impl Iterator<Item = (&Part, &FileRef)> {
        self.parts.iter().filter_map(|part| match &part.piece {
            Piece::File(file) => Some((part, file)),
            _ => None,
        })
    }

    /// Returns all text parts, one after another.
    pub fn as_text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|p| if let Piece::Text(text) = &p.piece { Some(text.as_str()) } else { None })
            .collect();
        texts.join("\n")
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Part {
    #[serde(flatten)]
    pub piece: Piece,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "mediaType")]
    pub media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
}

impl Part {
    pub fn text(text: impl Into<String>) -> Self {
        Self { piece: Piece::Text(text.into()), media_type: None, filename: None }
    }
}

/// The content of a part: exactly one kind of thing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Piece {
    Text(String),
    Data(serde_json::Value),
    Url(String),
    /// Bytes, in base64.
    Raw(String),
    /// Bytes that are kept in a separate file. Only a node makes these; they
    /// never appear on a wire.
    File(FileRef),
}

/// A file too large to be kept in its message: its digest, which is its
/// file name, and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileRef {
    pub sha256: Digest,
    pub bytes: u64,
}

/// Tells same content from different content under one key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// 64 hex digits.
    pub fn hex(&self) -> String {
        AgentId::from_bytes(self.0).to_string()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        crate::ids::serialize_hex(&self.0, to)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let hex = AgentId::deserialize(from)?.to_string();
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(serde::de::Error::custom)?;
        }
        Ok(Self(bytes))
    }
}

/// The dedupe key: the sender and its own id for a message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    pub who: Who,
    /// Two tenants of one caller may use the same id for two messages.
    pub tenant: Option<Tenant>,
    pub message: MessageId,
}

impl Key {
    /// Returns the key as text. A character that no id contains separates the senders, and one
    /// sender's ids sort in order.
    pub fn text(&self) -> String {
        let mut text = owner(&self.who, self.tenant.as_ref());
        text.push('/');
        text.push_str(self.message.as_str());
        text
    }
}

/// Returns a caller and its tenant as one text: the owner of messages and tasks.
pub fn owner(who: &Who, tenant: Option<&Tenant>) -> String {
    let mut text = match who {
        Who::User => "u".to_owned(),
        Who::Agent(id) => format!("a{id}"),
        Who::Named(name) => format!("n{name}"),
    };
    if let Some(tenant) = tenant {
        text.push('/');
        text.push_str(tenant.as_str());
    }
    text
}

/// The head of one accepted message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Letter {
    pub id: MessageId,
    /// The sender's id for it; the same as `id` if the sender gave none.
    pub sender_id: MessageId,
    pub from: Sender,
    pub to: AgentId,
    pub task: TaskId,
    pub priority: Priority,
    pub expects: Expects,
    pub chain: Chain,
    pub digest: Digest,
    pub bytes: u64,
    pub accepted_at: Timestamp,
    /// Set when it continues a running task (an answer to input-required).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow_up: bool,
    /// The conversation of its task, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextId>,
    /// The tenant under which it was sent over A2A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
}

impl Letter {
    pub fn key(&self) -> Key {
        let (who, message) = (self.from.who.clone(), self.sender_id.clone());
        Key { who, tenant: self.tenant.clone(), message }
    }

    /// Returns the context that callers see: the task id if none was named.
    pub fn context_id(&self) -> String {
        self.context.as_ref().map_or_else(|| self.task.to_string(), ToString::to_string)
    }

    /// Returns 32 hex digits that identify the conversation among all callers and tenants, who may
    /// use the same context id.
    pub fn conversation(&self) -> String {
        let owner = owner(&self.from.who, self.tenant.as_ref());
        let hash = Sha256::digest(format!("{owner}/{}", self.context_id()).as_bytes());
        hash[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_of_both_scales() {
        for (five, ten) in [(1, 2), (2, 4), (3, 6), (4, 8), (5, 10)] {
            assert_eq!(Priority::from_five(five).unwrap().level(), ten);
            assert_eq!(Priority::new(u64::from(ten)).unwrap().to_five(), u8::try_from(five).unwrap());
        }
        for wrong in [0, 6, u64::MAX] {
            assert!(Priority::from_five(wrong).is_err());
        }
        assert!(Priority::new(11).is_err() && Priority::new(0).is_err());
        assert_eq!(Priority::from_five(3).unwrap(), Priority::NORMAL);
    }

    #[test]
    fn a_body_comes_back_as_the_content_it_was_made_of() {
        let mut content = Content::text("hello\u{0}\u{202e} 世界");
        content.parts.push(Part {
            piece: Piece::Data(serde_json::json!({"a": [1, null]})),
            media_type: Some("application/json".into()),
            filename: None,
        });
        content.metadata.insert("k".into(), serde_json::json!(1));
        let body = Body::of(&content);
        assert_eq!(body.content().unwrap(), content);
        assert_eq!(body.digest(), Body::kept(body.as_str()).digest());
    }

    /// Finding A8: each tenant has message ids of its own.
    #[test]
    fn tenants_do_not_share_message_ids() {
        let message = MessageId::parse("m1").unwrap();
        let key = |tenant: Option<&str>| Key {
            who: Who::User,
            tenant: tenant.map(|name| Tenant::parse(name).unwrap()),
            message: message.clone(),
        };
        assert_eq!(key(None).text(), "u/m1");
        assert_eq!(key(Some("acme")).text(), "u/acme/m1");
        assert_ne!(key(Some("acme")).text(), key(Some("evil")).text());
        assert!(Tenant::parse("a/b").is_err() && Tenant::parse("").is_err());
    }

    #[test]
    fn a_digest_comes_back_from_its_text() {
        let digest = Body::of(&Content::text("x")).digest();
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
    }
}
