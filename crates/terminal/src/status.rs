//! OSC 7501, the status that some agents report themselves: `state=working:app=codex:msg=…`.
//!
//! Whatever is in it comes from the program, and whoever can print in that terminal can forge it: it tells a
//! state and is never a reason to press a key.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// What a program says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub says: Says,
    /// What a blocked program waits for: `permission`, `question`, `auth`.
    pub kind: Option<String>,
    pub app: Option<String>,
    pub message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    Idle,
    Working,
    Blocked,
    /// A turn is over: as idle.
    Done,
    Error,
    /// It takes back what it said.
    Clear,
}

/// Longest text taken out of a report.
const TEXT_CHARS_MAX: usize = 200;

impl Report {
    /// None if it is not a report: unknown states and broken fields are nothing we could act on.
    pub fn parse(payload: &str) -> Option<Self> {
        let mut report = Self { says: Says::Clear, kind: None, app: None, message: None };
        let mut says = None;
        for field in payload.split(':') {
            let Some((key, value)) = field.split_once('=') else { continue };
            match key {
                "state" => {
                    says = Some(match value {
                        "idle" => Says::Idle,
                        "working" => Says::Working,
                        "blocked" => Says::Blocked,
                        "done" => Says::Done,
                        "error" => Says::Error,
                        "clear" => Says::Clear,
                        _ => return None,
                    });
                }
                "kind" => report.kind = Some(short(value)),
                "app" => report.app = Some(short(value)),
                "msg" => report.message = decoded(value),
                _ => {}
            }
        }
        report.says = says?;
        Some(report)
    }
}

impl Report {
    /// The report as a program would send it.
    pub fn as_sequence(&self) -> String {
        let state = match self.says {
            Says::Idle => "idle",
            Says::Working => "working",
            Says::Blocked => "blocked",
            Says::Done => "done",
            Says::Error => "error",
            Says::Clear => "clear",
        };
        let mut text = format!("\u{1b}]7501;state={state}");
        // A colon would begin another field.
        let plain = |value: &str| value.replace([':', ';'], "");
        for (key, value) in [("kind", &self.kind), ("app", &self.app)] {
            if let Some(value) = value {
                text.push_str(&format!(":{key}={}", plain(value)));
            }
        }
        if let Some(message) = &self.message {
            text.push_str(&format!(":msg={}", STANDARD.encode(message)));
        }
        text + "\u{7}"
    }
}

fn decoded(value: &str) -> Option<String> {
    let bytes = STANDARD.decode(value).or_else(|_| STANDARD_NO_PAD.decode(value)).ok()?;
    Some(short(&String::from_utf8_lossy(&bytes)))
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_as_real_programs_send_them() {
        let codex = Report::parse("state=blocked:app=codex:kind=permission").unwrap();
        assert_eq!(codex.says, Says::Blocked);
        assert_eq!((codex.app.as_deref(), codex.kind.as_deref()), (Some("codex"), Some("permission")));
        let claude = Report::parse("state=working:app=claude-code:msg=UnVubmluZyB0b3VjaA==").unwrap();
        assert_eq!(claude.message.as_deref(), Some("Running touch"));
        for (payload, says) in [
            ("state=idle", Some(Says::Idle)),
            ("state=done:id=7", Some(Says::Done)),
            ("state=error:msg=%%%", Some(Says::Error)),
            ("state=clear", Some(Says::Clear)),
            ("state=", None),
            ("state=approved", None),
            ("app=codex", None),
            ("?", None),
            ("", None),
        ] {
            assert_eq!(Report::parse(payload).map(|r| r.says), says, "{payload}");
        }
    }

    #[test]
    fn a_report_sent_again_is_the_same() {
        for payload in [
            "state=blocked:kind=permission:app=codex",
            "state=done",
            "state=working:msg=UnVubmluZyB0b3VjaA==",
        ] {
            let report = Report::parse(payload).unwrap();
            let sent = report.as_sequence();
            let payload = sent.trim_start_matches("\u{1b}]7501;").trim_end_matches('\u{7}');
            assert_eq!(Report::parse(payload), Some(report));
        }
    }

    #[test]
    fn texts_are_short_and_plain() {
        let long = format!("state=idle:app={}\u{7}\u{1b}", "x".repeat(1000));
        let app = Report::parse(&long).unwrap().app.unwrap();
        assert!(app.len() == TEXT_CHARS_MAX && app.chars().all(|c| c == 'x'));
    }
}
