//! Hooks: events that a CLI tells us by running a program of ours, and what each means.
//!
//! An event comes from a process under the agent, so a tool that the agent runs could have sent it: it tells a state
//! and is never a reason to press a key. Texts are cut before they get here and again here.
//! Not here: how hooks are set up, and who may send an event (the node and the binary).

use crate::request::{PermissionRequest, RequestSource};
use crate::rules::Sees;
use synapse_core::ids::Timestamp;

/// Longest text kept of a prompt or an answer.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
const NAME_CHARS_MAX: usize = 120;

/// One event, as the CLI named it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub session: Option<String>,
    /// The tool that it is about, or the kind of a notification.
    pub about: Option<String>,
    /// What the CLI was given, exactly.
    pub prompt: Option<Text>,
    /// The last thing the model said in the turn that ended.
    pub answer: Option<Text>,
    /// What a tool is to run, if the event asks for permission.
    pub command: Option<Text>,
}

impl Event {
    /// The permission that it asks for; `nth` tells it from others.
    pub(crate) fn request(&self, nth: u64) -> Option<PermissionRequest> {
        (self.name == "PermissionRequest").then(|| PermissionRequest {
            source: RequestSource::Hook,
            id: nth.to_string(),
            tool: name(self.about.as_deref().unwrap_or_default()),
            command: self.command.clone().map(Text::cut),
        })
    }
}

/// A text that may have been cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    pub text: String,
    /// How long it was before it was cut.
    pub bytes: u64,
}

impl Text {
    pub fn is_whole(&self) -> bool {
        self.bytes == self.text.len() as u64
    }

    pub(crate) fn cut(mut self) -> Self {
        self.bytes = self.bytes.max(self.text.len() as u64);
        self.text.truncate(self.text.floor_char_boundary(TEXT_BYTES_MAX));
        self
    }
}

/// What is kept of the events of one program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    pub events: u64,
    /// The name of the last event, and when it came.
    pub last: Option<(String, Timestamp)>,
    pub session: Option<String>,
    /// The last prompt it took, and when: proof that it was seen.
    pub prompt: Option<(Text, Timestamp)>,
    pub answer: Option<(Text, Timestamp)>,
}

impl Heard {
    pub(crate) fn take(&mut self, now: Timestamp, event: &Event) {
        self.events += 1;
        self.last = Some((name(&event.name), now));
        if let Some(session) = &event.session {
            self.session = Some(name(session));
        }
        if let Some(prompt) = &event.prompt {
            self.prompt = Some((prompt.clone().cut(), now));
        }
        if let Some(answer) = &event.answer {
            self.answer = Some((answer.clone().cut(), now));
        }
    }
}

/// What an event says of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Says(Sees),
    /// Hooks say nothing more.
    Silent,
    /// It changes nothing.
    Nothing,
}

/// What an event of Claude Code means. There is none for a turn that was ended with Esc.
pub fn claude(event: &Event) -> Meaning {
    let about = event.about.as_deref().unwrap_or_default();
    match event.name.as_str() {
        // These tools put a question to the person.
        "PreToolUse" if matches!(about, "AskUserQuestion" | "ExitPlanMode") => Meaning::Says(Sees::Waiting),
        "PermissionRequest" => Meaning::Says(Sees::Waiting),
        "UserPromptSubmit" | "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "PreCompact" => {
            Meaning::Says(Sees::Busy)
        }
        "Stop" | "StopFailure" => Meaning::Says(Sees::Idle),
        // That of a permission comes six seconds after the prompt, which may have been answered by then.
        "Notification" => match about {
            "idle_prompt" => Meaning::Says(Sees::Idle),
            "elicitation_dialog" => Meaning::Says(Sees::Waiting),
            _ => Meaning::Nothing,
        },
        "SessionEnd" => Meaning::Silent,
        // A session begins before input is taken, and also in the middle of a turn, when a text was made shorter.
        _ => Meaning::Nothing,
    }
}

/// What an event says of the session that the program is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChange {
    /// It has something to go on with.
    In(String),
    /// Its user left it, and the new one is empty.
    Left,
}

/// What an event of Claude Code or Codex says of its session. One that has begun and was given nothing yet cannot be
/// resumed, and does not count.
pub fn session_change(event: &Event) -> Option<SessionChange> {
    match (event.name.as_str(), event.about.as_deref()) {
        ("UserPromptSubmit", _) | ("SessionStart", Some("resume" | "compact")) => {
            event.session.clone().map(SessionChange::In)
        }
        ("SessionStart", Some("clear")) => Some(SessionChange::Left),
        _ => None,
    }
}

/// The event as a reason for a state.
pub fn why(event: &Event) -> String {
    match &event.about {
        Some(about) => format!("hook, {} ({})", name(&event.name), name(about)),
        None => format!("hook, {}", name(&event.name)),
    }
}

fn name(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_events_of_claude_mean() {
        let (idle, busy, waiting) =
            (Meaning::Says(Sees::Idle), Meaning::Says(Sees::Busy), Meaning::Says(Sees::Waiting));
        for (name, about, means) in [
            ("SessionStart", Some("startup"), Meaning::Nothing),
            ("SessionStart", Some("compact"), Meaning::Nothing),
            ("UserPromptSubmit", None, busy),
            ("PreToolUse", Some("Bash"), busy),
            ("PreToolUse", Some("AskUserQuestion"), waiting),
            ("PermissionRequest", Some("Bash"), waiting),
            ("PostToolUse", Some("Bash"), busy),
            ("Notification", Some("permission_prompt"), Meaning::Nothing),
            ("Notification", Some("idle_prompt"), idle),
            ("Notification", None, Meaning::Nothing),
            ("Stop", None, idle),
            ("StopFailure", None, idle),
            ("PreCompact", Some("auto"), busy),
            ("SessionEnd", Some("other"), Meaning::Silent),
            ("stop", None, Meaning::Nothing),
            ("", None, Meaning::Nothing),
        ] {
            let event = Event { name: name.into(), about: about.map(str::to_owned), ..Event::default() };
            assert_eq!(claude(&event), means, "{name} {about:?}");
        }
    }

    #[test]
    fn session_that_was_given_something_can_be_resumed() {
        let (id, left) = (Some(SessionChange::In("s-1".into())), Some(SessionChange::Left));
        for (name, about, change) in [
            ("SessionStart", Some("startup"), None),
            ("SessionStart", Some("resume"), id.clone()),
            ("SessionStart", Some("compact"), id.clone()),
            ("SessionStart", Some("clear"), left),
            ("UserPromptSubmit", None, id),
            ("Stop", None, None),
            ("SessionEnd", Some("clear"), None),
            // Of OpenCode, whose sessions may be those of agents below it.
            ("message", None, None),
        ] {
            let session = Some("s-1".to_owned());
            let event =
                Event { name: name.into(), about: about.map(str::to_owned), session, ..Event::default() };
            assert_eq!(session_change(&event), change, "{name} {about:?}");
            let nameless = Event { session: None, ..event };
            assert!(!matches!(session_change(&nameless), Some(SessionChange::In(_))), "{name} {about:?}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_says_so() {
        let long = "ä".repeat(TEXT_BYTES_MAX);
        let event = Event {
            name: format!("Stop\u{1b}{}", "x".repeat(1_000)),
            answer: Some(Text { text: long.clone(), bytes: 0 }),
            prompt: Some(Text { text: "short".into(), bytes: 5 }),
            ..Event::default()
        };
        let mut heard = Heard::default();
        heard.take(Timestamp(7), &event);
        let (answer, at) = heard.answer.unwrap();
        assert_eq!((answer.text.len(), answer.bytes, at), (TEXT_BYTES_MAX, long.len() as u64, Timestamp(7)));
        assert!(!answer.is_whole() && heard.prompt.unwrap().0.is_whole());
        assert_eq!(heard.last.unwrap().0.len(), NAME_CHARS_MAX);
        assert!(!why(&event).contains('\u{1b}'));
    }
}
