//! Identifiers: validated once at the boundary, trusted from then on.
//!
//! Invariant: a value of one of these types is well formed; none can hold a path separator, a
//! control character or an unbounded string.
//! Not here: making fresh ids (randomness is an argument, see `effect::Fresh`).

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// A time in milliseconds since the Unix epoch. The core never reads the clock itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    pub fn since_ms(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The position of a record in a node's journal; also the id of its event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A connection over which an agent takes its messages: a hand of this node, or a `join`ed program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkId(pub u64);

/// A caller that waits for the answer to one command.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AskId(pub u64);

/// A subscriber to events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WatcherId(pub u64);

/// Why a text is not a valid id, with the rule for valid ones.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
#[error("{what} {raw:?} is not valid: {rule}")]
pub struct BadId {
    pub what: &'static str,
    pub raw: String,
    pub rule: &'static str,
}

fn bad(what: &'static str, raw: &str, rule: &'static str) -> BadId {
    BadId { what, raw: raw.chars().take(80).collect(), rule }
}

/// An agent's identity: 32 bytes, shown as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId([u8; 32]);

impl AgentId {
    /// Returns `SHA256(hostname + working_dir + agent_type)`; `#suffix` is appended for a
    /// named or further agent.
    pub fn derive(hostname: &str, working_dir: &str, agent_type: &AgentType, suffix: Option<&str>) -> Self {
        let mut hash = Sha256::new();
        hash.update(hostname.as_bytes());
        hash.update(working_dir.as_bytes());
        hash.update(agent_type.as_str().as_bytes());
        if let Some(suffix) = suffix {
            hash.update(b"#");
            hash.update(suffix.as_bytes());
        }
        Self(hash.finalize().into())
    }

    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn to_bytes(self) -> [u8; 32] {
        self.0
    }

    pub fn parse(raw: &str) -> Result<Self, BadId> {
        let mut bytes = [0u8; 32];
        if hex_into(raw, &mut bytes) {
            Ok(Self(bytes))
        } else {
            Err(bad("agent id", raw, "it must be 64 lower-case hex digits"))
        }
    }

    /// Returns the first 12 digits: readable for people, and longer than the 8
    /// that any command needs.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

/// A task's identity: 10 random bytes, then the time at which it began, in milliseconds. Its first
/// 8 hex digits are unique among a node's open tasks (CLI-5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId([u8; 16]);

impl TaskId {
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Makes an id that is random at its front, where the short name is, and ordered by time at its
    /// end. An index on the end stays compact.
    pub fn begun(at: Timestamp, random: [u8; 16]) -> Self {
        let mut bytes = random;
        bytes[10..].copy_from_slice(&at.0.to_be_bytes()[2..]);
        Self(bytes)
    }

    pub fn parse(raw: &str) -> Result<Self, BadId> {
        let mut bytes = [0u8; 16];
        if hex_into(raw, &mut bytes) {
            Ok(Self(bytes))
        } else {
            Err(bad("task id", raw, "it must be 32 lower-case hex digits"))
        }
    }

    pub fn short(&self) -> String {
        self.to_string()[..TaskRef::SHORT].to_owned()
    }

    /// Returns the first and the last id with the same short form.
    pub fn same_short(&self) -> (Self, Self) {
        let (mut first, mut last) = (self.0, self.0);
        first[TaskRef::SHORT / 2..].fill(0);
        last[TaskRef::SHORT / 2..].fill(0xff);
        (Self(first), Self(last))
    }
}

/// How a caller names a task: the whole id or a prefix of at least 8 hex digits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TaskRef(String);

impl TaskRef {
    pub const SHORT: usize = 8;

    pub fn parse(raw: &str) -> Result<Self, BadId> {
        let fits = (Self::SHORT..=32).contains(&raw.len());
        if fits && raw.bytes().all(is_lower_hex) {
            Ok(Self(raw.to_owned()))
        } else {
            Err(bad("task id", raw, "it must be 8 to 32 lower-case hex digits"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn names(&self, id: &TaskId) -> bool {
        id.to_string().starts_with(&self.0)
    }
}

impl From<TaskId> for TaskRef {
    fn from(id: TaskId) -> Self {
        Self(id.to_string())
    }
}

/// A message's identity. The node's own ids are UUIDs; a sender may bring its own, unique for that
/// sender. Shared memory, because state, index, task and record all name it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct MessageId(Arc<str>);

impl MessageId {
    pub const BYTES_MAX: usize = 128;

    pub fn parse(raw: &str) -> Result<Self, BadId> {
        let fits = (1..=Self::BYTES_MAX).contains(&raw.len());
        let plain = raw.bytes().all(|b| {
            b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':' | b'@' | b'+' | b'~')
        });
        if fits && plain && !raw.starts_with('.') {
            Ok(Self(raw.into()))
        } else {
            Err(bad(
                "message id",
                raw,
                "it must be 1 to 128 letters, digits or - _ : @ + ~ . and not start with a dot",
            ))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id as its sender wrote it. Over A2A, bytes that an id cannot hold are encoded as
    /// `~` and two hex digits.
    pub fn as_sent(&self) -> String {
        let mut bytes = Vec::new();
        let mut rest = self.as_str().as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            let code = (byte == b'~').then(|| after.get(..2)).flatten();
            let code = code.and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
            bytes.push(code.unwrap_or(byte));
            rest = if code.is_some() { &after[2..] } else { after };
        }
        String::from_utf8(bytes).unwrap_or_else(|_| self.to_string())
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = std::borrow::Cow::<'_, str>::deserialize(from)?;
        Self::parse(&raw).map_err(serde::de::Error::custom)
    }
}

/// Groups the tasks of one conversation; a caller may bring its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ContextId(Box<str>);

impl ContextId {
    pub const BYTES_MAX: usize = 256;

    pub fn parse(raw: &str) -> Result<Self, BadId> {
        let fits = (1..=Self::BYTES_MAX).contains(&raw.len());
        if fits && !raw.chars().any(char::is_control) {
            Ok(Self(raw.into()))
        } else {
            Err(bad("context id", raw, "it must be 1 to 256 bytes without control characters"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ContextId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = std::borrow::Cow::<'_, str>::deserialize(from)?;
        Self::parse(&raw).map_err(serde::de::Error::custom)
    }
}

/// A namespace of an A2A caller; callers use it to keep the tasks of several tenants apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Tenant(Box<str>);

impl Tenant {
    pub const BYTES_MAX: usize = 128;

    /// Parses a tenant. It cannot contain `/`, which separates it from other names in
    /// dedupe keys and task rows.
    pub fn parse(raw: &str) -> Result<Self, BadId> {
        let fits = (1..=Self::BYTES_MAX).contains(&raw.len());
        if fits && !raw.chars().any(|c| c.is_control() || c == '/') {
            Ok(Self(raw.into()))
        } else {
            Err(bad("tenant", raw, "it must be 1 to 128 bytes without `/` and control characters"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Tenant {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = std::borrow::Cow::<'_, str>::deserialize(from)?;
        Self::parse(&raw).map_err(serde::de::Error::custom)
    }
}

/// A short name: an agent's name, a role, a capability.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Label(Box<str>);

impl Label {
    pub fn parse(raw: &str) -> Result<Self, BadId> {
        if is_label(raw) {
            Ok(Self(raw.into()))
        } else {
            Err(bad(
                "name",
                raw,
                "it must be 1 to 64 letters, digits or - _ . and start with a letter or digit",
            ))
        }
    }

    /// Parses the name of an agent. Words that mean somebody else are not names: an agent called
    /// `user` would be taken for the user wherever a sender is shown.
    pub fn parse_agent_name(raw: &str) -> Result<Self, BadId> {
        const RESERVED: [&str; 3] = ["user", "node", "broadcast"];
        let name = Self::parse(raw)?;
        match RESERVED.iter().any(|word| raw.eq_ignore_ascii_case(word)) {
            true => Err(bad("name", raw, "`user`, `node` and `broadcast` are reserved")),
            false => Ok(name),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = std::borrow::Cow::<'_, str>::deserialize(from)?;
        Self::parse(&raw).map_err(serde::de::Error::custom)
    }
}

/// The kind of an agent: `claude`, `codex`, `exec` … Lower case, so that handles have one spelling.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AgentType(Box<str>);

impl AgentType {
    pub fn parse(raw: &str) -> Result<Self, BadId> {
        if raw.len() <= 32 && is_label(raw) && !raw.bytes().any(|b| b.is_ascii_uppercase()) {
            Ok(Self(raw.into()))
        } else {
            Err(bad("agent type", raw, "it must be 1 to 32 lower-case letters, digits or - _ ."))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for AgentType {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = std::borrow::Cow::<'_, str>::deserialize(from)?;
        Self::parse(&raw).map_err(serde::de::Error::custom)
    }
}

fn is_label(raw: &str) -> bool {
    (1..=64).contains(&raw.len())
        && raw.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && raw.as_bytes()[0].is_ascii_alphanumeric()
}

fn is_lower_hex(b: u8) -> bool {
    matches!(b, b'0'..=b'9' | b'a'..=b'f')
}

fn hex_into(raw: &str, into: &mut [u8]) -> bool {
    let raw = raw.as_bytes();
    if raw.len() != into.len() * 2 || !raw.iter().copied().all(is_lower_hex) {
        return false;
    }
    let digit = |b: u8| if b <= b'9' { b - b'0' } else { b - b'a' + 10 };
    for (pair, byte) in raw.chunks_exact(2).zip(into) {
        *byte = digit(pair[0]) << 4 | digit(pair[1]);
    }
    true
}

/// Formats bytes as hex. Each message has several ids written; with the formatter this
/// was a tenth of its cost.
fn hex_of<'a>(bytes: &[u8], text: &'a mut [u8; 64]) -> &'a str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    std::str::from_utf8(&text[..2 * bytes.len()]).expect("hex digits are text")
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(hex_of(bytes, &mut [0; 64]))
}

/// Serializes bytes as hex digits, without an intermediate string.
pub(crate) fn serialize_hex<S: serde::Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(hex_of(bytes, &mut [0; 64]))
}

macro_rules! shown_as_hex {
    ($id:ident) => {
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }
        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }
        impl Serialize for $id {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                serialize_hex(&self.0, to)
            }
        }
        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let raw = std::borrow::Cow::<'_, str>::deserialize(from)?;
                Self::parse(&raw).map_err(serde::de::Error::custom)
            }
        }
    };
}

macro_rules! shown_as_text {
    ($id:ident) => {
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

shown_as_hex!(AgentId);
shown_as_hex!(TaskId);
shown_as_text!(ContextId);
shown_as_text!(Tenant);
shown_as_text!(MessageId);
shown_as_text!(Label);
shown_as_text!(AgentType);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_id_is_the_hash_of_its_plain_concatenation() {
        let kind = AgentType::parse("claude").unwrap();
        let plain = AgentId::derive("host", "/w", &kind, None);
        let expected: [u8; 32] = Sha256::digest(b"host/wclaude").into();
        assert_eq!(plain, AgentId::from_bytes(expected));
        let named: [u8; 32] = Sha256::digest(b"host/wclaude#ana").into();
        assert_eq!(AgentId::derive("host", "/w", &kind, Some("ana")), AgentId::from_bytes(named));
        assert_eq!(AgentId::parse(&plain.to_string()), Ok(plain));
    }

    #[test]
    fn what_is_not_an_id_is_refused() {
        for raw in ["", "a/b", "../x", ".hidden", "a b", "x\n", "é", &"x".repeat(129)] {
            assert!(MessageId::parse(raw).is_err(), "{raw:?}");
        }
        for raw in ["", "-a", "a/b", "a b", "ａ", &"x".repeat(65)] {
            assert!(Label::parse(raw).is_err(), "{raw:?}");
        }
        for raw in ["", "user", "User", "node", "BROADCAST"] {
            assert!(Label::parse_agent_name(raw).is_err(), "{raw:?}");
        }
        assert!(Label::parse_agent_name("users").is_ok());
        for raw in ["Claude", "", "a#2", &"x".repeat(33)] {
            assert!(AgentType::parse(raw).is_err(), "{raw:?}");
        }
        for raw in ["1234567", "1234567G", "ABCDEF12", &"a".repeat(33)] {
            assert!(TaskRef::parse(raw).is_err(), "{raw:?}");
        }
        assert!(serde_json::from_str::<MessageId>("\"a/b\"").is_err());
    }

    proptest::proptest! {
        #[test]
        fn ids_come_back_from_their_text(a in proptest::array::uniform32(0u8..), t in proptest::array::uniform16(0u8..)) {
            let (agent, task) = (AgentId::from_bytes(a), TaskId::from_bytes(t));
            proptest::prop_assert_eq!(AgentId::parse(&agent.to_string()), Ok(agent));
            proptest::prop_assert_eq!(TaskId::parse(&task.to_string()), Ok(task));
            proptest::prop_assert!(TaskRef::parse(&task.short()).unwrap().names(&task));
        }
    }
}
