//! When a failed webhook is retried, and when it is abandoned (P13). Pure.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(300);
/// A webhook that has failed for this long is abandoned.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3_600);

/// Returns the wait after this many failures in a row, the first of them `since` ago; `None` to
/// give up. `luck` is a random byte, so that webhooks that failed together are not retried
/// together.
pub(super) fn wait(failures: u32, since: Duration, luck: u8) -> Option<Duration> {
    if since >= GIVEN_UP_AFTER {
        return None;
    }
    let doubled = FIRST.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1))).min(LONGEST);
    // A value between half of it and all of it.
    Some(doubled / 2 + doubled / 2 * u32::from(luck) / 255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_end() {
        let whole = |failures| wait(failures, Duration::ZERO, 255).unwrap().as_millis();
        let waits: Vec<u128> = (1..=5).map(whole).collect();
        assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000]);
        assert_eq!((whole(12), whole(u32::MAX), whole(0)), (300_000, 300_000, 250));
        let minute = Duration::from_secs(60);
        assert!(wait(20, 59 * minute, 0).is_some());
        assert_eq!(wait(1, 60 * minute, 0), None);
    }

    #[test]
    fn those_that_failed_together_come_back_apart() {
        let waits: Vec<Duration> = (0..=255).map(|luck| wait(3, Duration::ZERO, luck).unwrap()).collect();
        assert!(waits.is_sorted() && waits[0].as_millis() == 500 && waits[255].as_millis() == 1_000);
        assert!(waits.windows(2).all(|two| two[0] < two[1]));
    }
}
