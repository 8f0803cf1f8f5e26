//! The limit to compare the node with: one thread, one SQLite connection, rows like the journal's,
//! nothing else.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use rusqlite::{Connection, OpenFlags, params};

/// The size of an accepted message on disk, and how many are in one commit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) head_bytes: usize,
    pub(super) body_bytes: usize,
    pub(super) batch: usize,
}

/// The mean lengths of head and body in a journal that no node has open.
pub(super) fn lengths(journal: &Path) -> anyhow::Result<(usize, usize)> {
    let db = Connection::open_with_flags(journal, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .with_context(|| format!("opening {}", journal.display()))?;
    let sql = "SELECT avg(length(head)), avg(length(body)) FROM message";
    let (head, body): (f64, f64) = db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((head.round() as usize, body.round() as usize))
}

/// Inserts `rows` rows in commits of the given size, each on disk before the next. Returns rows per
/// second.
///
/// SQLite checkpoints within the commits, because a node's time includes its checkpoints too.
pub(super) fn rows_per_second(folder: &Path, rows: usize, shape: Shape) -> anyhow::Result<f64> {
    let path = folder.join("raw.db");
    let files = ["raw.db", "raw.db-wal", "raw.db-shm"].map(|name| folder.join(name));
    files.iter().for_each(|file| drop(std::fs::remove_file(file)));
    let mut db = Connection::open(&path)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "cache_size", -4000)?;
    // The same tables as in the journal (`store::schema`).
    db.execute_batch(
        "CREATE TABLE message (
            seq  INTEGER PRIMARY KEY,
            at   INTEGER NOT NULL,
            id   TEXT NOT NULL,
            key  TEXT NOT NULL,
            head TEXT NOT NULL,
            body TEXT NOT NULL,
            crc  INTEGER NOT NULL
        );
        CREATE UNIQUE INDEX message_by_key ON message (key);
        CREATE INDEX message_by_id ON message (id);",
    )?;
    let (head, body) = ("h".repeat(shape.head_bytes), "b".repeat(shape.body_bytes));
    let began = Instant::now();
    let mut seq = 0;
    while seq < rows {
        let batch = db.transaction()?;
        {
            let sql =
                "INSERT INTO message (seq, at, id, key, head, body, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let mut insert = batch.prepare_cached(sql)?;
            for n in seq..rows.min(seq + shape.batch.max(1)) {
                let id = format!("01990000-0000-7000-8000-{n:012x}");
                let key = format!("u/{id}");
                insert.execute(params![
                    n as i64,
                    1_750_000_000_000_i64,
                    id,
                    key,
                    head,
                    body,
                    3_000_000_000_i64
                ])?;
            }
        }
        batch.commit()?;
        seq += shape.batch.max(1);
    }
    let per_second = rows as f64 / began.elapsed().as_secs_f64();
    drop(db);
    files.iter().for_each(|file| drop(std::fs::remove_file(file)));
    Ok(per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_in_whatever_the_batch() {
        let folder = std::env::temp_dir().join(format!("synapse-raw-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for batch in [0, 1, 7, 100] {
            let shape = Shape { head_bytes: 600, body_bytes: 330, batch };
            assert!(rows_per_second(&folder, 20, shape).unwrap() > 0.0);
        }
        std::fs::remove_dir(&folder).unwrap();
    }
}
