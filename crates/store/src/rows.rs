//! Rows: the format of records on disk. Checksummed when written and verified when read.
//!
//! A row is text with a version and a checksum. An accepted message is one row (`message`) that
//! serves as journal, history and dedupe key, and so is the end of a task (`task`), so that
//! nothing is written twice.
//! Invariant: reading a row returns what was written, or an error that says which row is wrong.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::sync::Arc;
use synapse_core::message::{Body, Letter, Who, owner};
use synapse_core::record::{Opens, Record};

/// The version of the text in a row; a reader knows this one and all earlier ones.
pub(crate) const ROW_VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum BadRow {
    #[error("row {seq} of {table} does not match its checksum")]
    Checksum { table: &'static str, seq: u64 },
    #[error("row {seq} of {table} cannot be read: {why}")]
    Unreadable { table: &'static str, seq: u64, why: String },
    #[error("row {seq} of {table} has version {found}; this program knows up to {ROW_VERSION}")]
    Newer { table: &'static str, seq: u64, found: u32 },
}

pub(crate) fn checksum(parts: &[&str]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    for part in parts {
        crc.update(part.as_bytes());
        crc.update(&[0]);
    }
    crc.finalize()
}

/// Returns the owner as message keys begin with it.
pub(crate) fn who(who: &Who) -> String {
    owner(who, None)
}

/// Selects a task by its full id, through the index on the end of the id. Version 3
/// has an index of full ids.
macro_rules! whole_id {
    ($what:literal) => {
        concat!(
            $what,
            " FROM task WHERE id = ?1 AND substr(id, 21) = substr(?1, 21) ORDER BY seq DESC LIMIT 1"
        )
    };
}
pub(crate) use whole_id;

pub(crate) fn text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("records are plain data and always have a JSON form")
}

pub(crate) fn read<T: DeserializeOwned>(
    table: &'static str,
    seq: u64,
    text: &str,
    crc: u32,
) -> Result<T, BadRow> {
    if checksum(&[text]) != crc {
        return Err(BadRow::Checksum { table, seq });
    }
    serde_json::from_str(text).map_err(|e| BadRow::Unreadable { table, seq, why: e.to_string() })
}

/// The head of an accepted message; its body is in another column.
#[derive(Serialize)]
struct HeadOut<'a> {
    letter: &'a Letter,
    #[serde(skip_serializing_if = "Option::is_none")]
    opens: Option<&'a Opens>,
}

#[derive(Deserialize)]
pub(crate) struct Head {
    pub(crate) letter: Arc<Letter>,
    #[serde(default)]
    opens: Option<Box<Opens>>,
}

/// The text of one row after another, in one buffer, which avoids growing a new one for each row.
#[derive(Default)]
pub(crate) struct Text(Vec<u8>);

impl Text {
    pub(crate) fn of<T: Serialize>(&mut self, value: &T) -> &str {
        self.0.clear();
        serde_json::to_writer(&mut self.0, value)
            .expect("records are plain data and always have a JSON form");
        std::str::from_utf8(&self.0).expect("JSON is UTF-8")
    }

    pub(crate) fn head(&mut self, letter: &Letter, opens: Option<&Opens>) -> &str {
        self.of(&HeadOut { letter, opens })
    }
}

pub(crate) fn read_head(seq: u64, head: &str, body: &str, crc: u32) -> Result<Head, BadRow> {
    if checksum(&[head, body]) != crc {
        return Err(BadRow::Checksum { table: "message", seq });
    }
    serde_json::from_str(head).map_err(|e| BadRow::Unreadable { table: "message", seq, why: e.to_string() })
}

impl Head {
    pub(crate) fn into_record(self, body: &str) -> Record {
        Record::Accepted { letter: self.letter, body: Body::kept(body), opens: self.opens }
    }
}

pub(crate) fn check_version(table: &'static str, seq: u64, found: u32) -> Result<(), BadRow> {
    if found > ROW_VERSION { Err(BadRow::Newer { table, seq, found }) } else { Ok(()) }
}
