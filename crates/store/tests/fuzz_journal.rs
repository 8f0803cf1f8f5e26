//! Arbitrary text in a row of the journal: the journal opens or is damaged, and nothing panics.
//!
//! Not here: damage to the database itself (`journal`).

#![allow(clippy::unwrap_used)]

use synapse_store::{Journal, OpenError, Retention};

/// Each try opens a file, so only a few hundred run.
const TRIES: usize = 300;

fn check(table: &str, text: &str, crc: u32) {
    let columns = match table {
        "journal" => "journal (seq, at, v, body, crc) VALUES (1, 1, 1, ?1, ?2)",
        "snapshot" => "snapshot (seq, v, body, crc) VALUES (1, 1, ?1, ?2)",
        _ => "message (seq, at, id, key, head, body, crc) VALUES (1, 1, 'm', 'u/m', ?1, '', ?2)",
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.db");
    std::fs::write(&path, EMPTY.with(Clone::clone)).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "synchronous", "OFF").unwrap();
    db.execute(&format!("INSERT INTO {columns}"), rusqlite::params![text, crc]).unwrap();
    drop(db);
    let opened = Journal::open(&path, Retention::default()).map(|(_, state)| state);
    assert!(matches!(opened, Ok(_) | Err(OpenError::Damaged { .. })), "{:?}", opened.err());
}

thread_local! {
    /// The bytes of an empty journal.
    static EMPTY: Vec<u8> = {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        drop(Journal::open(&path, Retention::default()).unwrap());
        std::fs::read(&path).unwrap()
    };
}

/// Computes the checksum of a row, so that a changed row passes it.
fn crc(parts: &[&str]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    for part in parts {
        crc.update(part.as_bytes());
        crc.update(&[0]);
    }
    crc.finalize()
}

#[test]
fn any_text_as_a_record() {
    bolero::check!().with_iterations(TRIES).with_type::<(String, u32)>().for_each(|(text, wrong)| {
        check("journal", text, crc(&[text]));
        check("journal", text, *wrong);
        check("message", text, crc(&[text, ""]));
        check("snapshot", text, crc(&[text]));
    });
}

/// A valid record, with a few of its bytes changed.
#[test]
fn any_change_of_a_true_record() {
    let hex = "ab".repeat(32);
    let task = "cd".repeat(16);
    let records = [
        format!(r#"{{"known":{{"id":"{hex}","type":"echo"}}}}"#),
        format!(r#"{{"leased":{{"message":"m","task":"{task}","link":1,"until":5}}}}"#),
        format!(r#"{{"marked":{{"message":"m","task":"{task}","what":{{"step":"seen"}}}}}}"#),
        format!(r#"{{"moved":{{"task":"{task}","to":{{"at":1,"to":"working","by":"x","why":"y"}}}}}}"#),
        format!(r#"{{"tripped":{{"from":"a","to":"{hex}","why":"y"}}}}"#),
        r#"{"seq":1,"agents":{},"mailboxes":{},"letters":{},"tasks":{}}"#.to_owned(),
    ];
    bolero::check!().with_iterations(TRIES).with_type::<(u8, u16, char)>().for_each(|(which, at, new)| {
        let mut text: Vec<char> = records[usize::from(*which) % records.len()].chars().collect();
        let at = usize::from(*at) % text.len();
        text[at] = *new;
        let text: String = text.into_iter().collect();
        check("journal", &text, crc(&[&text]));
        check("snapshot", &text, crc(&[&text]));
    });
}
