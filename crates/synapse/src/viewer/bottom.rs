//! The last line of a person's terminal while the viewer covers it: with a line being typed, or
//! with a notice.
//!
//! It is drawn over the program's screen, again after each output, and leaves the cursor where it
//! was. Not here: when to draw it, and restoring what it covered (`viewer`).

use super::at::Shown;
use crate::show;
use std::time::{Duration, Instant};

#[derive(Default)]
pub(super) struct Bottom {
    line: Option<Shown>,
    notice: Option<(String, Instant)>,
    /// Whether a thread already waits for the end of the notice.
    is_watched: bool,
}

impl Bottom {
    pub(super) fn is_covered(&self) -> bool {
        self.line.is_some() || self.notice.is_some()
    }

    /// Sets or removes the line. Returns whether the covered row must be restored.
    pub(super) fn set_line(&mut self, line: Option<Shown>) -> bool {
        let before = std::mem::replace(&mut self.line, line);
        before.is_some() && !self.is_covered()
    }

    /// Sets a notice. Returns whether the caller must wait for its end.
    pub(super) fn set_notice(&mut self, words: String, time: Duration) -> bool {
        self.notice = Some((words, Instant::now() + time));
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// Removes a notice that is no longer true. Returns whether the covered row must be restored.
    pub(super) fn withdraw(&mut self, words: &str) -> bool {
        let is_it = self.notice.as_ref().is_some_and(|(shown, _)| shown == words);
        if is_it {
            self.notice = None;
        }
        is_it && !self.is_covered()
    }

    /// How long the notice stays, or none once it has expired.
    pub(super) fn notice_left(&mut self) -> Option<Duration> {
        let left = self.notice.as_ref().map(|(_, until)| until.saturating_duration_since(Instant::now()));
        let left = left.filter(|left| !left.is_zero());
        if left.is_none() {
            (self.notice, self.is_watched) = (None, false);
        }
        left
    }

    /// The bytes that draw it in a window of this size, or none if nothing is covered.
    pub(super) fn sequence(&self, (columns, rows): (u16, u16)) -> Option<String> {
        let room = usize::from(columns).saturating_sub(3);
        let words = match (&self.line, &self.notice) {
            (Some(line), _) => lay_out(&line.text, &line.hint, room),
            (None, Some((words, _))) => fit(&show::safe(words).replace(['\n', '\t'], " "), room),
            (None, None) => return None,
        };
        Some(format!("\u{1b}7\u{1b}[{rows};1H\u{1b}[0;7m {words} \u{1b}[0m\u{1b}[K\u{1b}8"))
    }
}

/// The end of the typed text, and the hint if both fit.
fn lay_out(text: &str, hint: &str, room: usize) -> String {
    let text = show::safe(text).replace('\n', "↵").replace('\t', " ");
    let taken = width(&text) + 1;
    let apart = 3;
    if taken > room {
        return format!("{}▏", tail(&text, room.saturating_sub(1)));
    }
    let left = room.saturating_sub(taken + apart);
    let hint = if left < 8 { String::new() } else { format!("{:apart$}{}", "", fit(hint, left)) };
    format!("{text}▏{hint}")
}

fn fit(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut used = 1;
    let kept = text.chars().take_while(|c| {
        used += wide(*c);
        used <= room
    });
    kept.chain(['…']).collect()
}

/// The end of the text, if not all of it fits.
fn tail(text: &str, room: usize) -> String {
    let mut used = 1;
    let kept: Vec<char> = text
        .chars()
        .rev()
        .take_while(|c| {
            used += wide(*c);
            used <= room
        })
        .collect();
    std::iter::once('…').chain(kept.into_iter().rev()).collect()
}

fn width(text: &str) -> usize {
    text.chars().map(wide).sum()
}

/// The width of a character, never less than a terminal uses: a row may be a little short, but it
/// must not wrap.
fn wide(c: char) -> usize {
    match c {
        '…' | '↵' | '▏' => 1,
        c if c < '\u{1100}' => 1,
        '\u{2010}'..='\u{2027}' | '\u{2190}'..='\u{21ff}' | '\u{2500}'..='\u{257f}' => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_its_left_and_a_hint_comes_last() {
        for (text, hint, room, expected) in [
            ("@a hi", "Enter: send to a", 40, "@a hi▏   Enter: send to a"),
            ("@a hi", "Enter: send to a", 20, "@a hi▏   Enter: sen…"),
            ("@a hi", "Enter: send to a", 14, "@a hi▏"),
            ("@a hello there", "x", 10, "…lo there▏"),
            ("@a 日本語日本語", "x", 10, "…語日本語▏"),
            ("@a one\ntwo\u{1b}", "x", 30, "@a one↵two\u{fffd}▏   x"),
            ("@a", "x", 0, "…▏"),
        ] {
            let laid = lay_out(text, hint, room);
            assert_eq!(laid, expected, "{text:?} in {room}");
            assert!(width(&laid) <= room.max(2), "{laid}");
        }
    }

    #[test]
    fn a_line_covers_a_notice_and_a_notice_the_program() {
        let mut bottom = Bottom::default();
        assert_eq!(bottom.sequence((80, 24)), None);
        assert!(bottom.set_notice("stored\nfor a".into(), Duration::from_secs(60)));
        assert!(!bottom.set_notice("stored\nfor a".into(), Duration::from_secs(60)), "one waits for its end");
        assert!(bottom.sequence((80, 24)).unwrap().contains("\u{1b}[24;1H\u{1b}[0;7m stored for a "));
        assert!(!bottom.set_line(Some(Shown { text: "@a".into(), hint: "Tab: a".into() })));
        assert!(bottom.sequence((80, 24)).unwrap().contains(" @a▏   "));
        assert!(!bottom.set_line(None), "the notice is still there");
        assert!(bottom.notice_left().is_some());
        assert!(!bottom.withdraw("another") && bottom.withdraw("stored\nfor a"));
        assert!(!bottom.is_covered() && !bottom.withdraw("stored\nfor a"));
        bottom.set_notice(String::new(), Duration::ZERO);
        assert_eq!(bottom.notice_left(), None);
        assert!(!bottom.is_covered());
    }
}
