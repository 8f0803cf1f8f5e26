//! Times as people write them: `2h` ago, a day, a time of day, RFC 3339.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp as Instant, ToSpan as _, Zoned};
use synapse_core::Timestamp;

/// From when on, for `--since`.
pub(super) fn since(raw: &str) -> Result<Timestamp, String> {
    span(raw, &Zoned::now()).map(|(first, _)| first)
}

/// Up to when, for `--until`; a day is meant to its end.
pub(super) fn until(raw: &str) -> Result<Timestamp, String> {
    span(raw, &Zoned::now()).map(|(_, last)| last)
}

const HOW: &str = "use 2h, 30m or 3d (ago), today, 2026-11-16, 2026-11-16T09:30 or 2026-11-16T09:30:00Z";

/// The first and the last millisecond of what a text means; times without a zone are local.
fn span(raw: &str, now: &Zoned) -> Result<(Timestamp, Timestamp), String> {
    let zone = now.time_zone();
    let one = |at: Instant| millis(at).map(|at| (at, at));
    let found = if let Some(ms) = ago(raw) {
        let now = u64::try_from(now.timestamp().as_millisecond()).unwrap_or(0);
        Some((Timestamp(now.saturating_sub(ms)), Timestamp(now.saturating_sub(ms))))
    } else if raw == "today" {
        day(now.date(), zone)
    } else if raw == "yesterday" {
        now.date().yesterday().ok().and_then(|date| day(date, zone))
    } else if let Ok(at) = raw.parse::<Instant>() {
        one(at)
    } else if let Some(date) = raw.parse::<Date>().ok().filter(|_| !raw.contains([':', 'T', 't', ' '])) {
        day(date, zone)
    } else if let Ok(at) = raw.parse::<DateTime>() {
        at.to_zoned(zone.clone()).ok().and_then(|at| one(at.timestamp()))
    } else {
        None
    };
    found.ok_or_else(|| HOW.to_owned())
}

fn day(date: Date, zone: &TimeZone) -> Option<(Timestamp, Timestamp)> {
    let begins = |date: Date| millis(date.to_zoned(zone.clone()).ok()?.timestamp());
    let next = date.checked_add(1.day()).ok()?;
    Some((begins(date)?, Timestamp(begins(next)?.0.saturating_sub(1))))
}

/// `90s`, `30m`, `2h`, `3d`, `1w` in milliseconds.
fn ago(raw: &str) -> Option<u64> {
    let unit = raw.chars().last()?;
    let number: u64 = raw[..raw.len() - unit.len_utf8()].parse().ok()?;
    let ms = match unit {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        'w' => 7 * 86_400_000,
        _ => return None,
    };
    Some(number.saturating_mul(ms))
}

fn millis(at: Instant) -> Option<Timestamp> {
    u64::try_from(at.as_millisecond()).ok().map(Timestamp)
}

/// As a person reads it, in the zone of this machine.
pub(super) fn show(at: Timestamp, zone: &TimeZone) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    let time = Instant::from_millisecond(millis).map(|at| at.to_zoned(zone.clone()));
    time.map_or_else(|_| "unknown".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        let zone = TimeZone::fixed(jiff::tz::offset(9));
        "2026-11-16T12:00:00Z".parse::<Instant>().unwrap().to_zoned(zone)
    }

    #[test]
    fn times_as_people_write_them() {
        let shown = |at: Timestamp| synapse_dialects::time::show(at);
        for (raw, first, last) in [
            ("2h", "2026-11-16T10:00:00.000Z", "2026-11-16T10:00:00.000Z"),
            ("30m", "2026-11-16T11:30:00.000Z", "2026-11-16T11:30:00.000Z"),
            ("1d", "2026-11-15T12:00:00.000Z", "2026-11-15T12:00:00.000Z"),
            ("today", "2026-11-15T15:00:00.000Z", "2026-11-16T14:59:59.999Z"),
            ("yesterday", "2026-11-14T15:00:00.000Z", "2026-11-15T14:59:59.999Z"),
            ("2026-11-01", "2026-10-31T15:00:00.000Z", "2026-11-01T14:59:59.999Z"),
            ("2026-11-16T09:30", "2026-11-16T00:30:00.000Z", "2026-11-16T00:30:00.000Z"),
            ("2026-11-16 09:30:15", "2026-11-16T00:30:15.000Z", "2026-11-16T00:30:15.000Z"),
            ("2026-11-16T09:30:00Z", "2026-11-16T09:30:00.000Z", "2026-11-16T09:30:00.000Z"),
            ("2026-11-16T09:30:00+01:00", "2026-11-16T08:30:00.000Z", "2026-11-16T08:30:00.000Z"),
        ] {
            let (from, to) = span(raw, &now()).unwrap_or_else(|e| panic!("{raw}: {e}"));
            assert_eq!((shown(from).as_str(), shown(to).as_str()), (first, last), "{raw}");
        }
        for raw in
            ["", "h", "2x", "-2h", "１h", "2026-13-01", "soon", "2026-11-16T25:00", "1969-01-01T00:00:00Z"]
        {
            assert_eq!(span(raw, &now()).unwrap_err(), HOW, "{raw}");
        }
        assert_eq!(shown(span(&format!("{}w", u64::MAX), &now()).unwrap().0), "1970-01-01T00:00:00.000Z");
        assert_eq!(show(Timestamp(1_794_735_000_123), now().time_zone()), "2026-11-15 18:30:00");
    }
}
