//! Generated agent output: the same bytes on every machine.
//!
//! A mix modelled on real agents: coloured build lines, diffs in true colour, prose, Japanese,
//! boxes, spinners that redraw a line, blocks that are redrawn inside a synchronized frame. It
//! contains no queries, because their cost is not throughput.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A byte that does not occur in the output, so that markers are found cheaply.
pub(super) const MARK: u8 = b'~';

/// A file with this many megabytes of output. Created once and reused.
pub(super) fn file(folder: &Path, megabytes: usize) -> anyhow::Result<PathBuf> {
    let path = folder.join(format!("output-{megabytes}.txt"));
    let bytes_min = (megabytes * 1_000_000) as u64;
    if std::fs::metadata(&path).is_ok_and(|found| found.len() >= bytes_min) {
        return Ok(path);
    }
    let half = path.with_extension("part");
    let mut out = BufWriter::new(File::create(&half).with_context(|| format!("making {}", half.display()))?);
    let (mut made, mut writer, mut text) = (0, Writer::default(), String::new());
    while made < bytes_min {
        text.clear();
        writer.paragraph(&mut text);
        out.write_all(text.as_bytes())?;
        made += text.len() as u64;
    }
    // Reset all attributes, so that every wrapper shows the end alike.
    out.write_all(b"\x1b[0m\n")?;
    out.flush()?;
    std::fs::rename(&half, &path)?;
    Ok(path)
}

/// Generates the output, piece by piece.
#[derive(Default)]
struct Writer {
    seed: u64,
    line: usize,
}

const WORDS: &[&str] = &[
    "the",
    "node",
    "reads",
    "a",
    "message",
    "from",
    "its",
    "journal",
    "and",
    "hands",
    "it",
    "to",
    "whoever",
    "asked",
    "before",
    "anything",
    "else",
    "is",
    "done",
    "with",
    "src/driver.rs",
    "error",
    "warning",
    "fn",
    "let",
    "return",
    "match",
    "Some(value)",
    "=>",
    "{",
    "}",
    "0x7f3a",
    "12.5%",
    "async",
];
const UNICODE: &[&str] =
    &["設定", "を", "読む", "│", "├──", "└──", "✓", "•", "é", "→", "🦀", "―", "日本語", "…"];

impl Writer {
    /// A pseudo-random number below `bound`, the same in every run.
    fn pick(&mut self, bound: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % bound
    }

    fn words(&mut self, out: &mut String, count: usize) {
        for n in 0..count {
            if n > 0 {
                out.push(' ');
            }
            out.push_str(WORDS[self.pick(WORDS.len())]);
        }
    }

    fn paragraph(&mut self, out: &mut String) {
        self.line += 1;
        match self.pick(20) {
            0..=6 => self.build_line(out),
            7..=11 => self.prose(out),
            12..=15 => self.difference(out),
            16 => self.tree(out),
            17 | 18 => self.spinner(out),
            _ => self.frame(out),
        }
    }

    fn build_line(&mut self, out: &mut String) {
        let (line, colour) = (self.line, 31 + self.pick(6));
        out.push_str(&format!(
            "\u{1b}[1m\u{1b}[{colour}m{:>12}\u{1b}[0m part-{line} v0.{}.3 ",
            "Compiling",
            line % 40
        ));
        let count = 3 + self.pick(8);
        self.words(out, count);
        out.push('\n');
    }

    fn prose(&mut self, out: &mut String) {
        let count = 10 + self.pick(30);
        self.words(out, count);
        out.push_str(".\n");
    }

    fn difference(&mut self, out: &mut String) {
        let paper = if self.pick(2) == 0 { "48;2;33;58;43" } else { "48;2;74;34;29" };
        let ink = 16 + self.pick(216);
        out.push_str(&format!("\u{1b}[{paper}m\u{1b}[38;5;{ink}m{:>5} + \u{1b}[39m", self.line % 1000));
        let count = 4 + self.pick(10);
        self.words(out, count);
        out.push_str("\u{1b}[K\u{1b}[0m\n");
    }

    fn tree(&mut self, out: &mut String) {
        for _ in 0..4 {
            let (mark, name) = (self.pick(UNICODE.len()), self.pick(UNICODE.len()));
            out.push_str(&format!("\u{1b}[2m│  {}\u{1b}[22m {} ", UNICODE[mark], UNICODE[name]));
            self.words(out, 3);
            out.push('\n');
        }
    }

    fn spinner(&mut self, out: &mut String) {
        for frame in ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴"] {
            let seconds = self.line % 90;
            out.push_str(&format!(
                "\r\u{1b}[2K\u{1b}[36m{frame}\u{1b}[0m Working ({seconds}s • esc to interrupt)"
            ));
        }
        out.push_str("\r\u{1b}[K");
    }

    /// Draws five rows twice in the same place.
    fn frame(&mut self, out: &mut String) {
        for again in [false, true] {
            out.push_str("\u{1b}[?2026h");
            if again {
                out.push_str("\u{1b}[5A");
            }
            for row in 0..5 {
                out.push_str(&format!("\u{1b}[2K\u{1b}[{}G\u{1b}[38;2;{};120;200m", 1 + row, 40 * row));
                let count = 2 + self.pick(6);
                self.words(out, count);
                out.push_str("\u{1b}[0m\n");
            }
            out.push_str("\u{1b}[?2026l");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_every_time_and_without_the_mark() {
        let make = || {
            let (mut writer, mut text) = (Writer::default(), String::new());
            (0..2_000).for_each(|_| writer.paragraph(&mut text));
            text
        };
        let text = make();
        assert_eq!(text, make());
        assert!(!text.as_bytes().contains(&MARK));
        for part in ["\u{1b}[?2026h", "\u{1b}[5A", "日本語", "48;2;", "esc to interrupt", "\u{1b}[1m"] {
            assert!(text.contains(part), "{part:?}");
        }
    }
}
