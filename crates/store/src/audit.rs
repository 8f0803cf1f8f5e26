//! The audit log of one agent: files of lines, each of which contains the hash of the previous one.
//!
//! A line is a JSON object that begins with `seq` and `prev`; the writer chooses the other fields.
//! This module links lines and parses the links.
//!
//! Not here: files (`log`), verification (`verify`), the content of lines (`synapse-dialects`).

mod log;
mod verify;

pub use log::{AuditLog, Bounds, files_in, read_head, verify_folder};
pub use verify::{Head, Note, Problem, Report, Verifier, What};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The door of a line that a command wrote while the agent did not run.
pub const COMMAND_DOOR: &str = "command";

/// SHA-256 of a line without its line end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The `prev` of the very first line.
    pub const NOTHING: Self = Self([0; 32]);

    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub fn parse(hex: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let hex: &[u8; 64] = hex.as_bytes().try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    fn write(self, to: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in self.0 {
            to.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The end of a chain: number and hash of the last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub seq: u64,
    pub hash: Hash,
}

impl Link {
    /// The link before the first line.
    pub const START: Self = Self { seq: 0, hash: Hash::NOTHING };

    /// Appends the next line to `out`: the fields of a JSON object, linked to the previous line.
    pub fn seal(&mut self, fields: &[u8], out: &mut Vec<u8>) {
        use std::io::Write as _;
        debug_assert!(fields.starts_with(b"{\"") && fields.ends_with(b"}"), "fields are an object");
        let begin = out.len();
        self.seq += 1;
        let _ = write!(out, "{FIRST}{}{THEN}", self.seq);
        self.hash.write(out);
        out.extend(b"\",");
        out.extend(&fields[1..]);
        self.hash = Hash::of(&out[begin..]);
        out.push(b'\n');
    }

    pub fn head_text(&self) -> String {
        format!("{{\"seq\":{},\"hash\":\"{}\"}}\n", self.seq, self.hash)
    }

    pub fn parse_head(bytes: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Text {
            seq: u64,
            hash: String,
        }
        let text: Text = serde_json::from_slice(bytes).ok()?;
        Some(Self { seq: text.seq, hash: Hash::parse(&text.hash)? })
    }
}

/// The parts of a line that belong to the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    pub seq: u64,
    pub prev: Hash,
    pub at: Option<String>,
    /// The event, if the log wrote this line about itself.
    pub mark: Option<Mark>,
}

impl Linked {
    /// Returns `None` if it is not a whole line of an audit log.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let rest = text.strip_prefix(FIRST)?;
        let (number, rest) = rest.split_once(THEN)?;
        let plain = !number.starts_with('0') && number.bytes().all(|b| b.is_ascii_digit());
        let seq = plain.then(|| number.parse().ok()).flatten()?;
        let prev = Hash::parse(rest.get(..64)?)?;
        rest[64..].strip_prefix("\",\"")?;
        let fields: Fields = serde_json::from_str(text).ok()?;
        let ours = fields.door.as_deref() == Some(Mark::DOOR);
        Some(Self { seq, prev, at: fields.at, mark: if ours { fields.mark } else { None } })
    }
}

#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    at: Option<String>,
    #[serde(default)]
    door: Option<String>,
    #[serde(flatten, default)]
    mark: Option<Mark>,
}

/// An event that the log writes about itself, in lines like the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Mark {
    /// The bytes before this line are an unfinished line, broken off by a crash.
    Torn { bytes: u64, digest: String },
    /// This many lines could not be written.
    Gap { lost: u64 },
    /// Files with lines up to this one were removed by rotation.
    Dropped { through: u64 },
    /// The head file was missing, so lost lines before this one cannot be detected.
    Headless {},
}

impl Mark {
    /// The door of these lines, which no other line has.
    pub const DOOR: &str = "audit";

    pub fn fields(&self, at: &str) -> Vec<u8> {
        #[derive(Serialize)]
        struct Whole<'a> {
            at: &'a str,
            who: &'static str,
            proof: &'static str,
            door: &'static str,
            #[serde(flatten)]
            mark: &'a Mark,
        }
        let whole = Whole { at, who: "node", proof: "own", door: Self::DOOR, mark: self };
        serde_json::to_vec(&whole).expect("a mark is plain data and always has a JSON form")
    }
}

const FIRST: &str = "{\"seq\":";
const THEN: &str = ",\"prev\":\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_one_before() {
        let (mut link, mut out) = (Link::START, Vec::new());
        link.seal(b"{\"at\":\"t1\"}", &mut out);
        let first = link;
        link.seal(b"{\"at\":\"t2\"}", &mut out);
        let lines: Vec<&[u8]> = out.split(|b| *b == b'\n').collect();
        assert_eq!(lines.len(), 3, "two lines with their ends");
        assert!(lines[0].starts_with(b"{\"seq\":1,\"prev\":\"0000"));
        assert_eq!(first.hash, Hash::of(lines[0]));
        let second = Linked::parse(lines[1]).unwrap();
        assert_eq!((second.seq, second.prev, second.at.as_deref()), (2, first.hash, Some("t2")));
        assert_eq!(Link::parse_head(link.head_text().as_bytes()), Some(link));
    }

    #[test]
    fn what_is_no_line_is_not_taken_for_one() {
        let zeros = "0".repeat(64);
        let good = format!("{{\"seq\":1,\"prev\":\"{zeros}\",\"at\":\"t\"}}");
        assert!(Linked::parse(good.as_bytes()).is_some());
        let cases = [
            String::new(),
            good[..good.len() - 1].to_owned(),
            format!("{good} ") + "x",
            good.replacen("1", "01", 1),
            good.replacen("1", "+1", 1),
            good.replacen("00", "0G", 1),
            good.replacen("seq", "sEq", 1),
            format!(" {good}"),
            format!("{{\"seq\":1,\"prev\":\"{zeros}\"}}"),
        ];
        for wrong in cases {
            assert_eq!(Linked::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn marks_come_back_and_only_from_the_logs_own_door() {
        let marks = [
            Mark::Torn { bytes: 3, digest: "ab".into() },
            Mark::Gap { lost: 7 },
            Mark::Dropped { through: 9 },
            Mark::Headless {},
        ];
        for mark in marks {
            let (mut link, mut out) = (Link::START, Vec::new());
            link.seal(&mark.fields("t"), &mut out);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(Linked::parse(text.trim_end().as_bytes()).unwrap().mark, Some(mark), "{text}");
            let other = text.replace("\"door\":\"audit\"", "\"door\":\"http\"");
            assert_eq!(Linked::parse(other.trim_end().as_bytes()).unwrap().mark, None);
        }
        let (mut link, mut out) = (Link::START, Vec::new());
        link.seal(br#"{"at":"t","door":"audit","verb":"dance"}"#, &mut out);
        assert_eq!(
            Linked::parse(out.trim_ascii_end()).map(|line| line.mark),
            Some(None),
            "a mark of a later day"
        );
    }
}
