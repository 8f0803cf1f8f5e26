//! Times on the wire: RFC 3339; any offset is accepted, UTC with milliseconds is sent.

use jiff::Timestamp as Instant;
use synapse_core::{Refusal, Timestamp};

pub fn show(at: Timestamp) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    Instant::from_millisecond(millis).map_or_else(|_| "unknown".to_owned(), |t| format!("{t:.3}"))
}

pub fn read(field: &str, raw: &str) -> Result<Timestamp, Refusal> {
    let parsed: Result<Instant, _> = raw.parse();
    let millis = parsed.ok().and_then(|t| u64::try_from(t.as_millisecond()).ok());
    millis.map(Timestamp).ok_or_else(|| {
        Refusal::bad_field(field, format!("{:?} is not a time like 2026-11-15T09:30:00Z", cut(raw)))
    })
}

fn cut(raw: &str) -> String {
    raw.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_any_offset_come_in_and_utc_goes_out() {
        let cases = [
            ("2026-11-15T09:30:00Z", "2026-11-15T09:30:00.000Z"),
            ("2026-11-15T18:30:00+09:00", "2026-11-15T09:30:00.000Z"),
            ("2026-11-15T09:30:00.5Z", "2026-11-15T09:30:00.500Z"),
        ];
        for (raw, shown) in cases {
            assert_eq!(show(read("timestamp", raw).unwrap()), shown, "{raw}");
        }
        for raw in ["", "yesterday", "2026-13-01T00:00:00Z", "1969-01-01T00:00:00Z", "2026-11-15"] {
            assert!(read("timestamp", raw).is_err(), "{raw}");
        }
        assert_eq!(show(Timestamp(u64::MAX)), "unknown");
    }
}
