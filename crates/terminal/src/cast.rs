//! Writing recordings: an asciinema cast, version 2, line by line, and the states beside it.
//!
//! What is written here is what `replay` reads. Text that is cut within a character waits for the rest of it.
//! Not here: files, and where output and states come from.

use crate::utf8::Utf8;
use serde_json::json;

/// Makes the lines of a cast.
#[derive(Debug, Default)]
pub struct Cast {
    output: Utf8,
    input: Utf8,
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

impl Cast {
    /// The first line. `began` is in seconds since 1970.
    pub fn head(columns: u16, rows: u16, began: u64, title: &str) -> String {
        let env = json!({ "TERM": "xterm-256color" });
        let head = json!({
            "version": 2, "width": columns, "height": rows, "timestamp": began, "title": title, "env": env,
        });
        format!("{head}\n")
    }

    /// What was printed at this time; nothing if no character is whole yet.
    pub fn output(&mut self, at_ms: u64, bytes: &[u8]) -> String {
        event(at_ms, "o", &whole(&mut self.output, bytes))
    }

    /// What was typed.
    pub fn input(&mut self, at_ms: u64, bytes: &[u8]) -> String {
        event(at_ms, "i", &whole(&mut self.input, bytes))
    }

    /// A marker: a note that players list but do not show on the screen.
    pub fn marker(at_ms: u64, text: &str) -> String {
        event(at_ms, "m", text)
    }

    pub fn resize(at_ms: u64, columns: u16, rows: u16) -> String {
        event(at_ms, "r", &format!("{columns}x{rows}"))
    }
}

fn whole(utf8: &mut Utf8, bytes: &[u8]) -> String {
    let mut text = String::new();
    utf8.feed(bytes, |piece| text.push_str(piece));
    text
}

fn event(at_ms: u64, kind: &str, data: &str) -> String {
    if data.is_empty() { String::new() } else { format!("{}\n", json!([seconds(at_ms), kind, data])) }
}

/// A state, from when on, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stated {
    pub at_ms: u64,
    pub state: String,
    pub why: String,
}

/// The file beside a cast: the states in order, each once.
pub fn states(all: &[Stated]) -> String {
    let mut told: Vec<&Stated> = Vec::new();
    for one in all {
        if told.last().is_none_or(|last| last.state != one.state) {
            told.push(one);
        }
    }
    let rows: Vec<String> = told
        .iter()
        .map(|one| json!({ "t": seconds(one.at_ms), "state": one.state, "note": one.why }).to_string())
        .collect();
    format!("[\n{}\n]\n", rows.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Event, Recording, What, parse_truth};
    use crate::screen::Size;

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut cast = Cast::default();
        let mut text = Cast::head(80, 24, 1_700_000_000, "a \"title\"");
        text += &cast.output(0, b"one \xe4\xb8");
        text += &cast.output(12, b"");
        text += &cast.output(20, b"\x96\x1b[31m\xff");
        text += &cast.input(30, b"y\r");
        text += &Cast::resize(1500, 100, 30);
        text += &Cast::marker(1600, "typed");
        let read = Recording::parse(&text).unwrap();
        assert_eq!(read.size, Size::new(80, 24));
        let event = |at_ms, what| Event { at_ms, what };
        assert_eq!(
            read.events,
            [
                event(0, What::Output("one ".into())),
                event(20, What::Output("世\u{1b}[31m\u{fffd}".into())),
                event(30, What::Input("y\r".into())),
                event(1500, What::Resize(Size::new(100, 30))),
                event(1600, What::Marker("typed".into())),
            ]
        );
    }

    #[test]
    fn states_are_told_once_each() {
        let stated = |at_ms, state: &str, why: &str| Stated { at_ms, state: state.into(), why: why.into() };
        let all = [
            stated(0, "starting", ""),
            stated(700, "idle", "a"),
            stated(900, "idle", "b"),
            stated(950, "busy", "c"),
        ];
        let text = states(&all);
        assert_eq!(parse_truth(&text).unwrap().len(), 3, "{text}");
        assert!(text.contains(r#""t":0.7"#) && !text.contains("\"b\""), "{text}");
        assert_eq!(states(&[]), "[\n\n]\n");
        assert!(parse_truth(&states(&[])).unwrap().is_empty());
    }
}
