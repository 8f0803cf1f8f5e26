//! A pause: the CLI says that its usage limit is reached, and mostly until when.
//!
//! Rules of the profile find the notice on the screen; here is which part of the screen counts, and what time is meant. A
//! notice counts only below the last thing that was submitted: an older one is history.
//! Invariant: a pause ends, by its time, by another try, or by itself. What is on a screen may be anybody's words: all that a
//! false notice does is to delay mail.
//! Not here: the patterns (profiles), what is done about it (`turn`, the node).

use crate::pattern::{PATTERN_BYTES_MAX, PatternText};
use crate::rules::BadRule;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use regex_lite::Regex;
use serde::Deserialize;
use std::fmt;
use synapse_core::ids::Timestamp;

/// How a notice of a limit looks. The group `until` is the time in it.
#[derive(Debug, Clone)]
pub struct Limit {
    pub name: String,
    shows: Regex,
}

/// A limit as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitText {
    #[serde(default)]
    name: Option<String>,
    shows: PatternText,
}

impl LimitText {
    pub(crate) fn pattern(&self) -> &str {
        self.shows.as_str()
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("usage limit")
    }

    pub(crate) fn rename(&mut self, name: String) {
        self.name = Some(name);
    }

    pub(crate) fn compile(self) -> Result<Limit, BadRule> {
        self.compile_within(PATTERN_BYTES_MAX)
    }

    /// As `compile`, with a bound on the size of the compiled pattern.
    pub(crate) fn compile_within(self, bytes_max: usize) -> Result<Limit, BadRule> {
        let name = self.name().to_owned();
        let shows = self.shows.compile_for_rows("limits", &name, bytes_max)?;
        Ok(Limit { name, shows })
    }
}

/// The program is paused, as it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paused {
    pub since: Timestamp,
    /// When it goes on, if it says so.
    pub until: Option<Timestamp>,
    /// That time, in its own words.
    pub said: Option<String>,
    pub limit: String,
    /// All of the notice, to know it again.
    notice: String,
}

impl fmt::Display for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.said {
            Some(said) => write!(f, "paused until {said}: its {} is reached", self.limit),
            None => write!(f, "paused: its {} is reached", self.limit),
        }
    }
}

impl Paused {
    /// When it may be tried again.
    pub fn ends(&self) -> Timestamp {
        self.until.unwrap_or(self.since.plus_ms(TRY_AGAIN_MS))
    }
}

/// A limit without a time is tried again after this.
const TRY_AGAIN_MS: u64 = 15 * 60_000;
/// No limit is longer than a week; what says so is not believed.
const LONGEST_MS: u64 = 8 * 24 * 3_600_000;
/// So many of the lowest rows of the last turn are looked at.
const ROWS: usize = 20;
const SAID_CHARS_MAX: usize = 60;

/// What is seen of pauses, from look to look.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    seen: Option<Paused>,
}

impl Pauses {
    /// `rows` are those below what was submitted last.
    pub(crate) fn look(&mut self, now: Timestamp, limits: &[Limit], rows: &[String], zone: &TimeZone) {
        if limits.is_empty() {
            return self.seen = None;
        }
        // Blanks that must not be broken at are blanks to a pattern.
        let bare = |row: &String| {
            row.trim_matches(|c: char| c.is_whitespace() || "│┃|".contains(c)).replace('\u{a0}', " ")
        };
        let rows: Vec<String> = rows.iter().map(bare).collect();
        let text = crate::rules::lowest(&rows, ROWS);
        let found = limits.iter().find_map(|limit| {
            let last = limit.shows.captures_iter(&text).last()?;
            let said =
                last.name("until").map(|said| said.as_str().split_whitespace().collect::<Vec<_>>().join(" "));
            Some((limit, last[0].to_owned(), said.filter(|said| !said.is_empty())))
        });
        let Some((limit, notice, said)) = found else { return self.seen = None };
        // The same notice still means the same moment, though the clock has gone on.
        if self.seen.as_ref().is_some_and(|seen| seen.notice == notice) {
            return;
        }
        let until = said.as_deref().and_then(|said| until(said, now, zone));
        let said = said.map(|said| lasting(&said, until, zone));
        self.seen = Some(Paused { since: now, until, said, limit: limit.name.clone(), notice });
    }

    pub(crate) fn at(&self, now: Timestamp) -> Option<&Paused> {
        self.seen.as_ref().filter(|seen| seen.ends() > now)
    }

    pub(crate) fn ends(&self) -> Option<Timestamp> {
        self.seen.as_ref().map(Paused::ends)
    }
}

/// Words that mean the same an hour later: a time that is only so far away is told as a time of day.
fn lasting(said: &str, until: Option<Timestamp>, zone: &TimeZone) -> String {
    let at = until.filter(|_| span_ms(said).is_some()).and_then(|at| i64::try_from(at.0).ok());
    let at = at.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    match at {
        Some(at) => at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string(),
        None => said.chars().filter(|c| !c.is_control()).take(SAID_CHARS_MAX).collect(),
    }
}

/// The moment that such words mean: `5:40pm (Europe/Berlin)`, `at Aug 8th, 2026 12:30 PM`, `10:57 PM GMT-3`,
/// `in 2 days 17 hours`, `12h22m45s`. A time without a zone is one of `zone`.
fn until(said: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let said = said.to_ascii_lowercase();
    let said = ["at ", "in ", "after "].iter().find_map(|word| said.strip_prefix(word)).unwrap_or(&said);
    let at = match span_ms(said) {
        Some(ms) => now.plus_ms(ms),
        None => moment(said, now, zone)?,
    };
    (at.since_ms(now) <= LONGEST_MS).then_some(at)
}

/// `2 days 17 hours 14 minutes`, `12h22m45s`, `45 min`.
fn span_ms(said: &str) -> Option<u64> {
    let (mut total, mut rest, mut parts) = (0_u64, said, 0);
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
        if rest.is_empty() {
            return (parts > 0).then_some(total);
        }
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000,
            "d" | "day" | "days" => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        (rest, parts) = (&rest[letters..], parts + 1);
    }
}

/// A time of day, perhaps with a date and a zone.
fn moment(said: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let (said, zone) = match said.split_once('(') {
        Some((before, after)) => {
            let name = after.trim_end_matches([')', '.', ' ']);
            (before, TimeZone::get(name).unwrap_or_else(|_| zone.clone()))
        }
        None => (said, zone.clone()),
    };
    let (mut month, mut day, mut year, mut clock, mut zone) = (None, None, None, None, zone);
    for word in said.split([' ', ',']).filter(|word| !word.is_empty() && *word != "at") {
        if let Some(found) = month_of(word) {
            month = Some(found);
        } else if let Some(offset) = offset_of(word) {
            zone = offset;
        } else if let Some(found) = clock_of(word) {
            clock = Some(found);
        } else if let ("am" | "pm", Some((hour, minute))) = (word, clock) {
            clock = Some((twelve(hour, word == "pm")?, minute));
        } else if let (Ok(found @ 2000..=2200), true) = (word.parse::<i16>(), month.is_some()) {
            year = Some(found);
        } else {
            let number = word.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<i8>().ok()?;
            day = Some(number).filter(|_| month.is_some() && day.is_none());
            day?;
        }
    }
    let (hour, minute) = clock?;
    let time = Time::new(hour, minute, 0, 0).ok()?;
    let here = jiff::Timestamp::from_millisecond(i64::try_from(now.0).ok()?).ok()?.to_zoned(zone.clone());
    let at = |date: Date| {
        let zoned = DateTime::from_parts(date, time).to_zoned(zone.clone()).ok()?;
        u64::try_from(zoned.timestamp().as_millisecond()).ok().map(Timestamp)
    };
    // A time of just now is over; one that is longer ago is the next one.
    let is_ahead = |at: &Timestamp| at.plus_ms(JUST_NOW_MS) > now;
    let Some(month) = month else {
        let today = here.date();
        let dates = [Some(today), today.tomorrow().ok()];
        return dates.into_iter().flatten().filter_map(at).find(is_ahead);
    };
    let years = year.map_or_else(|| vec![here.year(), here.year() + 1], |year| vec![year]);
    let dates = years.into_iter().filter_map(|year| Date::new(year, month, day?).ok());
    dates.filter_map(at).find(is_ahead)
}

/// Seen for the first time by a node that was started again, a notice may be a little old.
const JUST_NOW_MS: u64 = 3_600_000;

fn month_of(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let short = word.get(..3).filter(|_| word.bytes().all(|b| b.is_ascii_alphabetic()))?;
    MONTHS.iter().position(|month| *month == short).and_then(|at| i8::try_from(at + 1).ok())
}

/// `gmt-3`, `utc+5:30`, `utc`.
fn offset_of(word: &str) -> Option<TimeZone> {
    let rest = word.strip_prefix("gmt").or_else(|| word.strip_prefix("utc"))?;
    if rest.is_empty() {
        return Some(TimeZone::UTC);
    }
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = hours * 3_600 + minutes * 60 * if rest.starts_with('-') { -1 } else { 1 };
    Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

/// `5:40pm`, `3am`, `2:51`, `15:04`. A bare number is no time of day.
fn clock_of(word: &str) -> Option<(i8, i8)> {
    let (digits, half) = match (word.strip_suffix("am"), word.strip_suffix("pm")) {
        (Some(digits), _) => (digits, Some(false)),
        (_, Some(digits)) => (digits, Some(true)),
        _ => (word, None),
    };
    let (hour, minute) = match digits.split_once(':') {
        Some((hour, minute)) => (hour.parse().ok()?, minute.parse().ok()?),
        None if half.is_some() => (digits.parse().ok()?, 0),
        None => return None,
    };
    let hour = half.map_or(Some(hour), |after_noon| twelve(hour, after_noon))?;
    ((0..24).contains(&hour) && (0..60).contains(&minute)).then_some((hour, minute))
}

fn twelve(hour: i8, after_noon: bool) -> Option<i8> {
    (1..=12).contains(&hour).then_some(hour % 12 + if after_noon { 12 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::shipped;

    /// 2026-11-16 12:00 UTC.
    const NOW: Timestamp = Timestamp(1_794_830_400_000);
    const HOUR: u64 = 3_600_000;

    fn berlin() -> TimeZone {
        TimeZone::fixed(jiff::tz::offset(1))
    }

    #[test]
    fn the_words_that_clis_use_for_a_time() {
        let minutes = |hours: u64, minutes: u64| Some(hours * 60 + minutes);
        for (said, ahead) in [
            ("5:40pm", minutes(4, 40)),
            ("5:40pm (Europe/Berlin)", minutes(4, 40)),
            ("9:10pm (Asia/Tokyo)", minutes(0, 10)),
            ("3am", minutes(14, 0)),
            ("12am", minutes(11, 0)),
            ("at 2:51 PM", minutes(1, 51)),
            ("at 1:30 PM", minutes(0, 30)),
            ("10:57 AM GMT-3", minutes(1, 57)),
            ("6:15 PM GMT+5:30", minutes(0, 45)),
            ("15:04", minutes(2, 4)),
            ("Nov 18, 3am (Europe/Dublin)", minutes(39, 0)),
            ("at Nov 17th, 2026 12:30 PM", minutes(23, 30)),
            ("in 2 days 17 hours 14 minutes", minutes(65, 14)),
            ("12h22m45s", Some(12 * 60 + 22)),
            ("in 45 minutes", minutes(0, 45)),
            ("1 hour, and 5 min", minutes(1, 5)),
        ] {
            let found = until(said, NOW, &berlin()).map(|at| at.since_ms(NOW) / 60_000);
            assert_eq!(found, ahead, "{said}");
        }
        for nonsense in [
            "",
            "soon",
            "25:00",
            "13pm",
            "0am",
            "in 3",
            "Nov 40, 3am",
            "in 400 days",
            "5",
            "Jan 5th, 2019 3am",
        ] {
            assert_eq!(until(nonsense, NOW, &berlin()), None, "{nonsense}");
        }
        bolero::check!().with_type::<String>().for_each(|said| {
            let _ = until(said, NOW, &berlin());
        });
    }

    /// A node that is started again an hour after the notice does not wait for a whole day.
    #[test]
    fn a_time_of_just_now_is_over_and_not_a_day_ahead() {
        let at = until("12:30pm", NOW, &berlin()).unwrap();
        assert!(at < NOW && at.plus_ms(HOUR) > NOW);
        let at = until("11:30am", NOW, &berlin()).unwrap();
        assert_eq!(at.since_ms(NOW) / 60_000, 22 * 60 + 30);
    }

    fn rows(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn seen(profile: &str, text: &str) -> Option<(String, Option<String>)> {
        let mut pauses = Pauses::default();
        pauses.look(NOW, &shipped(profile).unwrap().limits, &rows(text), &berlin());
        pauses.at(NOW).map(|paused| (paused.limit.clone(), paused.said.clone()))
    }

    /// As people have reported them, and as they were seen with a server that refuses.
    // tidy: table
    #[test]
    fn the_notices_of_real_clis() {
        for (profile, text, limit, said) in [
            (
                "claude",
                "  ⎿ \u{a0}You've hit your limit · resets 10:21am (Europe/Berlin)\n● Usage limit reached · continuing automatically at 10:21am · esc to cancel\n✻ Worked for 0s · done 8:21 AM",
                "usage limit",
                Some("10:21am (Europe/Berlin)"),
            ),
            (
                "claude",
                "  ⎿  You've hit your session limit · resets 5:40pm (Europe/Berlin)\n     /login to switch to an API usage-billed account.\n\n✻ Baked for 2m 4s\n",
                "usage limit",
                Some("5:40pm (Europe/Berlin)"),
            ),
            (
                "claude",
                "● You've hit your weekly limit · resets Nov 18, 3am (Europe/Dublin)\n",
                "usage limit",
                Some("Nov 18, 3am (Europe/Dublin)"),
            ),
            (
                "claude",
                "You've hit your limit · resets 8pm (Africa/Cairo)",
                "usage limit",
                Some("8pm (Africa/Cairo)"),
            ),
            (
                "claude",
                "  ⎿  Claude usage limit reached. Your limit will reset at 9am (America/Chicago).",
                "usage limit",
                Some("9am (America/Chicago)"),
            ),
            (
                "codex",
                "■ You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit\n  https://chatgpt.com/codex/settings/usage to purchase more credits or try again at 2:51 PM.\n",
                "usage limit",
                Some("2:51 PM"),
            ),
            (
                "codex",
                "■ You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try\n  again in 4 days 6 hours 37 minutes.",
                "usage limit",
                Some("2026-11-20 19:37"),
            ),
            (
                "codex",
                "■ You've hit your usage limit. To get more access now, send a request to your admin.",
                "usage limit",
                None,
            ),
            (
                "gemini",
                "│ Usage limit reached for gemini-3-flash-preview.   │\n│ Access resets at 10:57 PM GMT-3.  │\n│ /stats model for usage details │",
                "usage limit",
                Some("10:57 PM GMT-3"),
            ),
            (
                "gemini",
                "✕ [API Error: You have exhausted your capacity on this model. Your quota will reset after 12h22m45s.]",
                "quota",
                Some("2026-11-17 01:22"),
            ),
        ] {
            assert_eq!(seen(profile, text), Some((limit.to_owned(), said.map(str::to_owned))), "{text}");
        }
        for (profile, text) in [
            ("claude", "● The page says: You've hit your limit · resets 8pm when that happens"),
            ("claude", "● I wrote a test for 'You've hit your session limit'."),
            ("codex", "• It prints You've hit your usage limit. Then try again at 2 PM."),
            ("gemini", "✦ When the usage limit is reached, access resets later."),
            ("aider", "You've hit your usage limit."),
        ] {
            assert_eq!(seen(profile, text), None, "{text}");
        }
    }

    #[test]
    fn a_pause_ends_with_its_time_with_another_notice_or_without_one() {
        let limits = shipped("claude").unwrap().limits;
        let notice = |until: &str| rows(&format!("  ⎿  You've hit your limit · resets {until}"));
        let mut pauses = Pauses::default();
        pauses.look(NOW, &limits, &notice("2pm"), &berlin());
        assert_eq!(pauses.at(NOW).unwrap().to_string(), "paused until 2pm: its usage limit is reached");
        assert_eq!(pauses.ends(), Some(NOW.plus_ms(HOUR)));
        // It still stands there after its time: that is no pause until tomorrow.
        let later = NOW.plus_ms(HOUR);
        pauses.look(later, &limits, &notice("2pm"), &berlin());
        assert_eq!(pauses.at(later), None);
        pauses.look(later, &limits, &notice("7pm"), &berlin());
        assert_eq!(pauses.at(later).unwrap().until, Some(NOW.plus_ms(6 * HOUR)));
        pauses.look(later, &limits, &rows("● all is well"), &berlin());
        assert_eq!((pauses.at(later), pauses.ends()), (None, None));
        // Without a time it is tried again after a while.
        pauses.look(NOW, &limits, &rows("  ⎿  You've hit your limit"), &berlin());
        assert_eq!(pauses.ends(), Some(NOW.plus_ms(TRY_AGAIN_MS)));
    }
}
