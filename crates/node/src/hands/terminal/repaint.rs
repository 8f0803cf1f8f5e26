//! Asks the program to repaint when mail waits only because its composer cannot be read.
//!
//! A program that draws only changes never repairs a damaged screen, for example after another
//! process wrote to its terminal. A repaint flickers, so we request it rarely, and only while a
//! message waits for it.

use std::time::Duration;
use synapse_terminal::turn::Held;
use tokio::time::Instant;

/// The composer is often covered for a moment, by a menu or between two frames.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// The pause between two requests; a dialog that a person left open covers the composer for long.
const PAUSE: Duration = Duration::from_secs(30);
const REQUESTS_MAX: u8 = 3;

#[derive(Default)]
pub(super) struct Repaint {
    pub(super) due: Option<Instant>,
    requests: u8,
}

impl Repaint {
    /// Whether to ask now, given why mail waits: "2 messages wait: its composer is not to be seen".
    pub(super) fn is_due(&mut self, mail: Option<&str>, now: Instant) -> bool {
        let reason = mail.and_then(|mail| mail.split_once(": ")).map(|(_, reason)| reason);
        if reason != Some(Held::NoComposer.to_string().as_str()) {
            *self = Self::default();
            return false;
        }
        if self.requests == REQUESTS_MAX {
            self.due = None;
            return false;
        }
        let due = *self.due.get_or_insert(now + PATIENCE);
        if due > now {
            return false;
        }
        self.requests += 1;
        self.due = Some(now + PAUSE);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Defect K: mail waited behind a damaged screen until somebody resized the terminal.
    #[test]
    fn repaint_is_asked_for_while_mail_waits_for_a_composer() {
        let hidden = format!("1 message waits: {}", Held::NoComposer);
        let (mut repaint, start) = (Repaint::default(), Instant::now());
        let mut at =
            |seconds: u64, mail: Option<&str>| repaint.is_due(mail, start + Duration::from_secs(seconds));
        assert!(!at(0, Some("1 message waits: it is busy")) && !at(9, None));
        assert!(!at(10, Some(&hidden)) && !at(11, Some(&hidden)));
        assert!(at(12, Some(&hidden)) && !at(13, Some(&hidden)));
        assert!(at(43, Some(&hidden)) && at(80, Some(&hidden)));
        assert!(!at(900, Some(&hidden)), "not for ever");
        assert!(
            !at(901, None) && !at(902, Some(&hidden)) && at(904, Some(&hidden)),
            "it was to be seen again"
        );
    }
}
