//! Migrations from every earlier version to the current one.

use crate::rig::{Rig, number, sql};
use synapse_core::effect::Serves;
use synapse_core::state::State;
use synapse_store::{Journal, Retention};

/// A new file of each version: `application_id` and tables, step by step. A new migration adds its
/// line here, with a row or two that it has to convert.
const OF_VERSION: &[&str] = &[
    "",
    include_str!("version_1.sql"),
    include_str!("version_2.sql"),
    include_str!("version_3.sql"),
    include_str!("version_4.sql"),
    include_str!("version_5.sql"),
    include_str!("version_6.sql"),
];

#[test]
fn an_empty_file_becomes_a_journal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.db");
    std::fs::write(&path, b"").unwrap();
    let (_, state) = Journal::open(&path, Retention::default()).unwrap();
    assert_eq!(state, State::default());
    assert_eq!(number(&path, "PRAGMA application_id"), 0x53_59_4e_4a);
    assert_eq!(
        number(&path, "PRAGMA user_version"),
        OF_VERSION.len() as u64 - 1,
        "a version without its story"
    );
}

#[test]
fn a_journal_of_every_version_opens_today() {
    let today = {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        drop(Journal::open(&path, Retention::default()).unwrap());
        tables(&path)
    };
    for (version, orders) in OF_VERSION.iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        sql(&path).execute_batch(orders).unwrap();
        let (journal, state) = Journal::open(&path, Retention::default()).unwrap();
        assert_eq!(state.seq.0, u64::from(version > 0), "version {version}: its one record is there");
        drop(journal);
        assert_eq!(tables(&path), today, "version {version} has another shape");
        let (_, again) = Journal::open(&path, Retention::default()).unwrap();
        assert_eq!(again, state, "version {version}, opened twice");
    }
}

/// Version 2 also had the end of a task in the journal, and the trails of its
/// messages in a separate table.
#[test]
fn ends_that_were_written_twice_are_read_once() {
    let mut rig = Rig::new(5, Retention::default());
    rig.open_link(0, 4, Serves::UntilEnded { hears: false });
    (0..200).for_each(|_| rig.step());
    let (dir, path, _) = rig.close();
    let (journal, before) = Journal::open(&path, Retention::default()).unwrap();
    drop(journal);
    let ended = number(&path, "SELECT count(*) FROM task");
    assert!(ended > 0);
    as_of_version_2(&path);
    // A read-only check changes nothing.
    assert_eq!(synapse_store::check::state(&path).unwrap().as_ref(), Some(&before));
    assert_eq!(number(&path, "PRAGMA user_version"), 2);
    let (journal, after) = Journal::open(&path, Retention::default()).unwrap();
    assert_eq!(after, before);
    drop(journal);
    assert_eq!(number(&path, "SELECT count(*) FROM task"), ended);
    drop(dir);
}

#[test]
fn a_start_that_was_killed_before_its_first_table_is_finished() {
    for orders in [
        "PRAGMA journal_mode = WAL;",
        "CREATE TABLE x (y); DROP TABLE x;",
        "PRAGMA page_size = 8192; VACUUM;",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        sql(&path).execute_batch(orders).unwrap();
        let (_, state) = Journal::open(&path, Retention::default()).unwrap();
        assert_eq!(state, State::default(), "{orders}");
    }
}

#[test]
fn an_orderly_end_leaves_the_journal_and_its_head() {
    let mut rig = Rig::new(3, Retention::default());
    rig.open_link(0, 4, Serves::UntilEnded { hears: false });
    (0..20).for_each(|_| rig.step());
    let (dir, _, _) = rig.close();
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["journal.db", "journal.db-head"]);
}

fn as_of_version_2(path: &std::path::Path) {
    let db = sql(path);
    let mut ask = db.prepare("SELECT seq, at, id, body FROM task").unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let ends: Vec<(u64, u64, String, String)> = ask.query_map([], row).unwrap().map(Result::unwrap).collect();
    for (seq, at, id, body) in ends {
        let inside = body.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
        let record = format!(r#"{{"ended":{{"task":"{id}",{inside}}}}}"#);
        let crc = crc32fast::hash(format!("{record}\0").as_bytes());
        let insert = "INSERT INTO journal (seq, at, v, body, crc) VALUES (?1, ?2, 1, ?3, ?4)";
        db.execute(insert, (seq, at, record, crc)).unwrap();
    }
    db.execute_batch(
        "CREATE TABLE trail (message TEXT PRIMARY KEY, task TEXT NOT NULL, body TEXT NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
         DROP INDEX task_by_tail;
         DROP INDEX task_by_context;
         DROP TABLE attachment;
         CREATE INDEX task_by_id ON task (id);
         PRAGMA user_version = 2;",
    )
    .unwrap();
}

fn tables(path: &std::path::Path) -> Vec<String> {
    let db = sql(path);
    let mut ask = db
        .prepare("SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_master ORDER BY name")
        .unwrap();
    let squeeze = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    ask.query_map([], |row| row.get(0)).unwrap().map(|row| squeeze(row.unwrap())).collect()
}
