//! The ended tasks of one caller in pages, in the order of `synapse_core::listing`.

use crate::history::{History, KeptTask};
use crate::journal::JournalError;
use crate::rows;
use rusqlite::{Row, params};
use synapse_core::ids::{Seq, Timestamp};
use synapse_core::listing::Listing;
use synapse_core::message::{Who, owner};
use synapse_core::record::Archive;
use synapse_core::task::Ending;

/// An ended task with its sort key in the listing.
#[derive(Debug, Clone)]
pub struct Own {
    pub place: Timestamp,
    pub ending: Ending,
    pub archive: Archive,
}

/// The value of the state column for tasks that are not listed: they were
/// answered with a plain message.
pub(crate) const DIRECT: &str = "direct";

/// How many tasks that ended while a caller pages are still considered for the next page.
const LATE_MAX: u32 = 10_000;

/// Filters by owner, context, state, the record of the end, and the time since.
const WANTED: &str = "who = ?1 AND seq <= ?2 AND (?3 IS NULL OR context = ?3)
                      AND state <> 'direct' AND (?4 IS NULL OR state = ?4) AND at >= ?5";

impl History {
    /// Returns the tasks that had ended by the record `upto`, in the order of the listing, and the
    /// total number of matches.
    pub fn own_tasks(
        &self,
        who: &Who,
        listing: &Listing,
        upto: Seq,
    ) -> Result<(Vec<Own>, u64), JournalError> {
        let (who, upto) = (owner(who, listing.tenant.as_ref()), number(upto.0));
        let state = listing.state.map(synapse_core::task::TaskState::name);
        let since = number(listing.since.map_or(0, |since| since.0));
        let count = format!("SELECT count(*) FROM task WHERE {WANTED}");
        let wanted = params![who, upto, listing.context, state, since];
        let total = self.db.prepare_cached(&count)?.query_row(wanted, |row| row.get(0))?;
        let max = u32::try_from(listing.max).unwrap_or(u32::MAX);
        let (below_at, below_id, as_of) = match listing.below {
            Some(below) => (number(below.at.0), below.id.to_string(), number(below.as_of.0)),
            None => (i64::MAX, String::new(), i64::MAX),
        };
        let page = format!(
            "SELECT seq, body, crc FROM task WHERE {WANTED} AND at <= ?6 AND (at < ?7 OR (at = ?7 AND id < ?8))
             ORDER BY at DESC, id DESC LIMIT ?9"
        );
        let wanted = params![who, upto, listing.context, state, since, as_of, below_at, below_id, max];
        let mut found = self.own(&page, wanted, listing)?;
        if listing.below.is_some() {
            let late = format!(
                "SELECT seq, body, crc FROM task WHERE {WANTED} AND at > ?6 ORDER BY at, id LIMIT {LATE_MAX}"
            );
            let wanted = params![who, upto, listing.context, state, since, as_of];
            found.extend(self.own(&late, wanted, listing)?);
            found.sort_by_key(|own| std::cmp::Reverse((own.place, own.archive.task.id)));
            found.truncate(listing.max);
        }
        Ok((found, total))
    }

    /// Returns ended tasks of one caller in one context, newest first, including those that were
    /// answered with a message.
    pub fn conversation(
        &self,
        owner: &str,
        context: &str,
        max: usize,
    ) -> Result<Vec<(Ending, Archive)>, JournalError> {
        // `context <> id` matches the index: most tasks name no context, and are their own context.
        let named = "SELECT seq, body, crc FROM task WHERE context = ?1 AND context <> id AND who = ?2
                     ORDER BY seq DESC LIMIT ?3";
        let first = "SELECT seq, body, crc FROM task WHERE id = ?1 AND substr(id, 21) = substr(?1, 21)
                     AND context = id AND who = ?2 LIMIT ?3";
        let mut found = Vec::new();
        for sql in [named, first] {
            let left = u32::try_from(max - found.len()).unwrap_or(u32::MAX);
            let mut ask = self.db.prepare_cached(sql)?;
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            for row in ask.query_map(params![context, owner, left], read)? {
                let (seq, body, crc): (u64, String, u32) = row?;
                let KeptTask { ending, archive } = rows::read("task", seq, &body, crc)?;
                found.push((ending, archive));
            }
        }
        Ok(found)
    }

    fn own(
        &self,
        sql: &str,
        wanted: &[&dyn rusqlite::ToSql],
        listing: &Listing,
    ) -> Result<Vec<Own>, JournalError> {
        let mut ask = self.db.prepare_cached(sql)?;
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let mut found = Vec::new();
        for row in ask.query_map(wanted, read)? {
            let (seq, body, crc): (u64, String, u32) = row?;
            let KeptTask { ending, archive } = rows::read("task", seq, &body, crc)?;
            let opened = archive.trails.first().and_then(|(_, trail)| trail.marks().first());
            let opened = opened.map_or(Timestamp(0), |mark| mark.at);
            let place = listing.place(&archive.task, opened);
            found.extend(place.map(|place| Own { place, ending, archive }));
        }
        Ok(found)
    }
}

/// Clamps to the largest number of SQLite.
fn number(raw: u64) -> i64 {
    i64::try_from(raw).unwrap_or(i64::MAX)
}
