//! The block that teaches agents, in a file of instructions that is somebody else's (PTY-13).
//!
//! Between two marker lines; put in, brought up to date and taken out without touching a byte beside it. The first
//! marker remembers what was put before the block, so that taking it out gives back the file as it was, with or
//! without a last line break. Bytes, not text: what the rest of the file is written in is not our concern.
//!
//! Not here: which files, reading and writing them, asking (`cli/init`).

use std::fmt;
use std::ops::Range;

const TEXT: &str = include_str!("teach.md");
const BEGIN: &str = "<!-- synapse:begin";
const END: &str = "<!-- synapse:end";
const CLOSE: &str = "-->";

/// What Claude Code takes from a hook of a session that begins again after its text was made shorter: the lesson once more.
/// Nothing has to be typed for it.
pub fn after_compaction() -> String {
    let again = format!(
        "This conversation was shortened. What follows still holds; `synapse inbox` shows what others sent you.\n\n{TEXT}"
    );
    serde_json::json!({ "hookSpecificOutput": { "hookEventName": "SessionStart", "additionalContext": again } }).to_string()
}

/// Markers that do not belong together. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// From 1.
    pub line: usize,
    pub why: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// What was put before the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The file itself.
    File,
    /// So many line breaks.
    Breaks(usize),
}

impl Before {
    fn word(self) -> String {
        match self {
            Self::File => "new".to_owned(),
            Self::Breaks(count) => count.to_string(),
        }
    }

    /// As the marker says; one that says nothing we know stands alone.
    fn of_marker(marker: &[u8]) -> Self {
        let marker = String::from_utf8_lossy(marker);
        match marker.split_ascii_whitespace().find_map(|word| word.strip_prefix("before=")) {
            Some("new") => Self::File,
            Some("1") => Self::Breaks(1),
            Some("2") => Self::Breaks(2),
            _ => Self::Breaks(0),
        }
    }
}

/// What a file looks like with the block in it, up to date. `None` is a file that is not there.
pub fn put_in(file: Option<&[u8]>) -> Result<Vec<u8>, Broken> {
    let Some(file) = file else { return Ok(block("\n", Before::File)) };
    let ends = line_break(file);
    if let Some(found) = find(file)? {
        let before = Before::of_marker(&file[found.marker.clone()]);
        let mut new = block(ends, before);
        if !file[found.whole.clone()].ends_with(b"\n") {
            new.truncate(new.len() - ends.len());
        }
        return Ok([&file[..found.whole.start], &new, &file[found.whole.end..]].concat());
    }
    let content = file.strip_prefix(BOM).unwrap_or(file);
    let count = match (content.is_empty(), content.ends_with(b"\n")) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    };
    Ok([file, ends.repeat(count).as_bytes(), &block(ends, Before::Breaks(count))].concat())
}

/// What is left of a file without the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// There is none in it.
    AsItIs,
    Rest(Vec<u8>),
    /// The file was made for the block, and holds nothing else.
    Nothing,
}

pub fn take_out(file: &[u8]) -> Result<Left, Broken> {
    let Some(found) = find(file)? else { return Ok(Left::AsItIs) };
    let (mut head, tail) = (&file[..found.whole.start], &file[found.whole.end..]);
    let before = Before::of_marker(&file[found.marker]);
    if before == Before::File && head.is_empty() && tail.is_empty() {
        return Ok(Left::Nothing);
    }
    let Before::Breaks(count) = before else { return Ok(Left::Rest([head, tail].concat())) };
    for n in 0..count {
        // What came after the block meanwhile must not end up on the last line before it.
        if n == 1 && !tail.is_empty() {
            break;
        }
        let Some(less) = head.strip_suffix(b"\n") else { break };
        head = less.strip_suffix(b"\r").unwrap_or(less);
    }
    Ok(Left::Rest([head, tail].concat()))
}

fn block(ends: &str, before: Before) -> Vec<u8> {
    let first = format!(
        "{BEGIN} before={} (put in by `synapse init`, taken out by `synapse init --remove`) {CLOSE}",
        before.word()
    );
    let lines = std::iter::once(first.as_str()).chain(TEXT.lines()).chain(["<!-- synapse:end -->"]);
    lines.flat_map(|line| [line, ends]).collect::<String>().into_bytes()
}

struct Found {
    marker: Range<usize>,
    /// With the line break after its last line, if there is one.
    whole: Range<usize>,
}

/// The one block, or what is wrong with its markers.
fn find(file: &[u8]) -> Result<Option<Found>, Broken> {
    let mut begun: Option<(usize, Range<usize>)> = None;
    let mut found: Option<Found> = None;
    let mut at = 0;
    for (index, line) in file.split_inclusive(|b| *b == b'\n').enumerate() {
        let number = index + 1;
        let range = at..at + line.len();
        at = range.end;
        let plain = line.strip_prefix(BOM).unwrap_or(line).trim_ascii();
        let (is_begin, is_end) = (plain.starts_with(BEGIN.as_bytes()), plain.starts_with(END.as_bytes()));
        let broken = |why| Err(Broken { line: number, why });
        if (is_begin || is_end) && !plain.ends_with(CLOSE.as_bytes()) {
            return broken(
                "a marker of `synapse init` is broken off; mend it so that it ends with `-->`, or remove it",
            );
        }
        match (is_begin, is_end, &begun) {
            (true, _, None) if found.is_some() => {
                return broken("a second block of `synapse init` begins here; remove one of the two");
            }
            (true, _, None) => begun = Some((number, range)),
            (true, _, Some(_)) => {
                return broken(
                    "a block of `synapse init` begins within another; remove one of the two markers",
                );
            }
            (_, true, Some((_, marker))) => {
                let start = marker.start + if file[marker.clone()].starts_with(BOM) { BOM.len() } else { 0 };
                found = Some(Found { marker: marker.clone(), whole: start..range.end });
                begun = None;
            }
            (_, true, None) => {
                return broken("a block of `synapse init` ends here and begins nowhere; remove this line");
            }
            _ => {}
        }
    }
    match begun {
        Some((line, _)) => {
            let why = "a block of `synapse init` begins here and ends nowhere; remove it, or close it with \
                       `<!-- synapse:end -->`";
            Err(Broken { line, why })
        }
        None => Ok(found),
    }
}

/// As the first line of the file ends.
fn line_break(file: &[u8]) -> &'static str {
    let first = file.split_inclusive(|b| *b == b'\n').next().unwrap_or_default();
    if first.ends_with(b"\r\n") { "\r\n" } else { "\n" }
}

const BOM: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(file: &[u8]) -> Vec<u8> {
        match take_out(file).unwrap() {
            Left::Rest(rest) => rest,
            other => panic!("{other:?}"),
        }
    }

    /// PTY-13: idempotent, and removable to the byte, whatever the file is like.
    #[test]
    fn what_was_put_in_comes_out_again() {
        let files: &[&[u8]] = &[
            b"",
            b"\n",
            b"\n\n\n",
            b"# Rules\n",
            b"# Rules\n\nBe kind.",
            b"# Rules\r\n\r\nBe kind.\r\n",
            b"# Rules\r\nBe kind.",
            b"\xef\xbb\xbf",
            b"\xef\xbb\xbf# Rules\n",
            b"\xef\xbb\xbf# Rules",
            b"\xff\xfe not UTF-8\n",
            b"mixed\r\nends\nhere\r\n",
            b"speaks of <!-- synapse:begin and of <!-- synapse:end -->\n",
        ];
        for file in files {
            let with = put_in(Some(file)).unwrap();
            assert!(with.starts_with(file), "{}", file.escape_ascii());
            assert_eq!(put_in(Some(&with)).unwrap(), with, "twice: {}", file.escape_ascii());
            assert_eq!(rest(&with), *file, "{}", with.escape_ascii());
            assert_eq!(take_out(file).unwrap(), Left::AsItIs);
            let in_windows = file.split(|b| *b == b'\n').next().unwrap().ends_with(b"\r");
            let added = &with[file.len()..];
            assert_eq!(added.windows(2).any(|two| two == b"\r\n"), in_windows, "{}", file.escape_ascii());
        }
    }

    #[test]
    fn a_file_that_was_made_for_the_block_goes_with_it() {
        let made = put_in(None).unwrap();
        assert_eq!(take_out(&made).unwrap(), Left::Nothing);
        assert_eq!(put_in(Some(&made)).unwrap(), made);
        let grown = [&made[..], b"mine\n"].concat();
        assert_eq!(rest(&grown), b"mine\n");
    }

    #[test]
    fn what_was_written_around_it_stays() {
        let with = put_in(Some(b"first")).unwrap();
        let grown = [&with[..], b"after\n"].concat();
        assert_eq!(rest(&grown), b"first\nafter\n", "not on one line");
        let with = put_in(Some(b"first\n")).unwrap();
        assert_eq!(rest(&[&with[..], b"\nafter\n"].concat()), b"first\n\nafter\n");
        assert_eq!(rest(&[b"before\n", &with[..]].concat()), b"before\nfirst\n");
    }

    #[test]
    fn an_older_block_is_brought_up_to_date() {
        for (ends, last) in [("\n", "\n"), ("\r\n", "\r\n"), ("\n", "")] {
            let old = format!(
                "a{ends}{ends}<!-- synapse:begin before=1 -->{ends}old words{ends}<!-- synapse:end -->{last}"
            );
            let new = put_in(Some(old.as_bytes())).unwrap();
            let text = String::from_utf8(new.clone()).unwrap();
            assert!(text.contains("synapse send <AGENT>") && !text.contains("old words"), "{text}");
            assert_eq!(text.ends_with('\n'), !last.is_empty());
            assert_eq!(rest(&new), format!("a{ends}").as_bytes());
        }
        let unknown = b"a\n<!-- synapse:begin v9 from=tomorrow -->\nx\n<!-- synapse:end -->\nb\n";
        assert_eq!(rest(unknown), b"a\nb\n");
    }

    #[test]
    fn half_a_marker_is_named_by_its_line() {
        let table: &[(&str, usize, &str)] = &[
            ("a\n<!-- synapse:begin before=1 -->\nx\n", 2, "ends nowhere"),
            ("a\n\n<!-- synapse:end -->\n", 3, "begins nowhere"),
            ("<!-- synapse:begin\nx\n<!-- synapse:end -->\n", 1, "broken off"),
            ("<!-- synapse:begin -->\nx\n<!-- synapse:end", 3, "broken off"),
            ("<!-- synapse:begin -->\n<!-- synapse:begin -->\n<!-- synapse:end -->\n", 2, "within another"),
            (
                "<!-- synapse:begin -->\n<!-- synapse:end -->\n<!-- synapse:begin -->\n<!-- synapse:end -->\n",
                3,
                "a second block",
            ),
            ("<!-- synapse:begin -->\n<!-- synapse:end -->\n<!-- synapse:end -->\n", 3, "begins nowhere"),
        ];
        for (file, line, why) in table {
            for said in [put_in(Some(file.as_bytes())).unwrap_err(), take_out(file.as_bytes()).unwrap_err()] {
                assert_eq!(said.line, *line, "{file}");
                assert!(said.why.contains(why), "{file}: {said}");
            }
        }
    }

    #[test]
    fn the_lesson_is_short_and_names_commands_that_exist() {
        assert!(TEXT.len() < 2_000, "agents read it at every start");
        for command in ["list", "explain", "send", "inbox", "reply"] {
            assert!(TEXT.contains(&format!("synapse {command}")), "{command}");
        }
    }
}
