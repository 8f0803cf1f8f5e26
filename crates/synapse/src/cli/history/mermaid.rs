//! A conversation as a sequence diagram in the language of Mermaid. Pure.
//!
//! Invariant: whatever agents are called and whatever they said, it is text in the diagram and nothing else: all
//! but letters, digits and a few harmless signs is written as a character code.

use std::fmt::Write as _;
use synapse_dialects::history::ConversationMessage;

const TEXT_CHARS: usize = 80;
/// More would be no picture any more.
pub(super) const MESSAGES_MAX: usize = 500;

pub(super) fn diagram(messages: &[ConversationMessage]) -> String {
    let shown = &messages[..messages.len().min(MESSAGES_MAX)];
    let mut who = Vec::new();
    let mut events = Vec::new();
    for (n, message) in shown.iter().enumerate() {
        let view = &message.line.record.message;
        let from = participant(&mut who, &view.from.sender_id, &view.from.label);
        let to = participant(&mut who, &view.to, &message.line.record.to_label);
        let text = view.text.as_deref().unwrap_or_default();
        events.push(((view.accepted_at.as_str(), n, 0), format!("p{from}->>p{to}: {}", plain(text))));
        let outcome = &message.line.outcome;
        let Some(ended) = outcome.ended_at.as_deref() else {
            let state = plain(&outcome.state);
            events.push(((view.accepted_at.as_str(), n, 1), format!("Note over p{to}: {state}")));
            continue;
        };
        let arrow = if outcome.state == "completed" { "-->>" } else { "--x" };
        let said = match &outcome.answer {
            Some(answer) if !answer.text.trim().is_empty() => answer.text.as_str(),
            _ => outcome.why.as_deref().unwrap_or_default(),
        };
        let said = plain(&format!("{}: {said}", outcome.state));
        events.push(((ended, n, 1), format!("p{to}{arrow}p{from}: {said}")));
    }
    events.sort();
    let mut text = String::from("sequenceDiagram\n");
    for (n, (_, label)) in who.iter().enumerate() {
        let _ = writeln!(text, "    participant p{n} as {}", plain(label));
    }
    for (_, event) in events {
        let _ = writeln!(text, "    {event}");
    }
    text
}

fn participant(who: &mut Vec<(String, String)>, id: &str, label: &str) -> usize {
    who.iter().position(|(known, _)| known == id).unwrap_or_else(|| {
        who.push((id.to_owned(), label.to_owned()));
        who.len() - 1
    })
}

/// One line of text that means nothing to Mermaid.
fn plain(text: &str) -> String {
    let line = crate::show::line(text, TEXT_CHARS);
    let mut out = String::new();
    for word in line.split(' ') {
        if !out.is_empty() {
            out.push(' ');
        }
        for (n, c) in word.chars().enumerate() {
            // `end` closes a block wherever it stands alone.
            let is_keyword = n == 0 && word.eq_ignore_ascii_case("end");
            let is_harmless = c.is_alphanumeric()
                || matches!(c, '.' | ',' | '!' | '?' | '_' | '(' | ')' | '\'' | '/' | '…');
            if is_harmless && !is_keyword {
                out.push(c);
            } else {
                let _ = write!(out, "#{};", c as u32);
            }
        }
    }
    // A line must not end with nothing.
    if out.is_empty() { "#8230;".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::message;
    use super::*;
    use serde_json::json;

    #[test]
    fn names_and_texts_are_only_text() {
        for (text, expected) in [
            ("hello world", "hello world"),
            ("", "#8230;"),
            ("a;b#c", "a#59;b#35;c"),
            ("end", "#101;nd"),
            ("the End of it", "the #69;nd of it"),
            ("%%{init: x}%%", "#37;#37;#123;init#58; x#125;#37;#37;"),
            ("p0->>p1: x\nNote over p0: y", "p0#45;#62;#62;p1#58; x Note over p0#58; y"),
            ("<script>", "#60;script#62;"),
            ("会議 \u{1b}[31m", "会議 #65533;#91;31m"),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_diagram_tells_who_said_what_in_time() {
        let mut asked = message(1, "a", None, "user", "lead");
        asked.line.outcome = serde_json::from_value(json!({
            "state": "completed", "ended_at": "2026-11-16T09:30:09.000Z", "by": "lead", "why": "done",
            "answer": { "text": "all done", "content": {} },
        }))
        .unwrap();
        let mut failed = message(2, "b", Some("a"), "lead", "worker");
        failed.line.outcome = serde_json::from_value(json!({
            "state": "failed", "ended_at": "2026-11-16T09:30:03.000Z", "by": "worker", "why": "exit code 1",
        }))
        .unwrap();
        let open = message(4, "c", Some("a"), "lead", "other");
        assert_eq!(
            diagram(&[asked, failed, open]),
            "sequenceDiagram\n    participant p0 as user\n    participant p1 as lead\n    participant p2 as worker\n    \
             participant p3 as other\n    p0->>p1: text of a\n    p1->>p2: text of b\n    \
             p2--xp1: failed#58; exit code 1\n    p1->>p3: text of c\n    Note over p3: working\n    \
             p1-->>p0: completed#58; all done\n"
        );
    }
}
