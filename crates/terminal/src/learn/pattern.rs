//! Patterns from rows: escaped, anchored, and open only where a row may differ another time.

use super::Proposed;
use std::fmt::Write as _;
use synapse_core::invisible::is_ignorable;

/// Longest row that a pattern is made from; what follows may be anything.
const CHARS_MAX: usize = 60;
/// Characters of lines and boxes.
pub(super) fn is_line(c: char) -> bool {
    matches!(c, '\u{2500}'..='\u{259f}' | '-' | '=' | '_' | '~')
}

/// One character, literally.
pub(super) fn literal(c: char) -> String {
    match c {
        c if c.is_whitespace() => r"\s".to_owned(),
        c if is_odd(c) => format!(r"\x{{{:X}}}", u32::from(c)),
        c => regex_lite::escape(c.encode_utf8(&mut [0; 4])),
    }
}

/// What cannot be seen, or cannot be in a file of YAML.
pub(super) fn is_odd(c: char) -> bool {
    c.is_control()
        || is_ignorable(c)
        || u32::from(c) & 0xfffe == 0xfffe
        || matches!(c, '\u{e000}'..='\u{f8ff}')
}

/// A text, with every number and every run of blanks open.
pub(super) fn text(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text.chars().peekable());
    while let Some(c) = rest.next() {
        let same = |next: &char| {
            (c.is_ascii_digit() && next.is_ascii_digit()) || (c.is_whitespace() && next.is_whitespace())
        };
        let is_run = c.is_ascii_digit() || c.is_whitespace();
        while is_run && rest.next_if(|next| same(next)).is_some() {}
        match c {
            c if c.is_ascii_digit() => out.push_str(r"\d+"),
            c if c.is_whitespace() => out.push_str(r"\s+"),
            c => out.push_str(&literal(c)),
        }
    }
    out
}

/// Whether a row is a line across, perhaps with a title in it.
pub(super) fn is_rule(row: &str) -> bool {
    let row = row.trim();
    let (all, lines) = (row.chars().count(), row.chars().filter(|c| is_line(*c)).count());
    all >= 8 && lines * 10 >= all * 6 && row.starts_with(is_line)
}

/// The pattern of a line across: its first run, however long, and its last character if that is a corner.
pub(super) fn rule(row: &str) -> Proposed {
    let indent = row.chars().take_while(|c| c.is_whitespace()).count();
    let mut pattern = if indent > 0 { r"^\s*".to_owned() } else { "^".to_owned() };
    let mut rest = row.trim().chars().peekable();
    let mut is_whole = true;
    while let Some(c) = rest.next() {
        if !is_line(c) {
            is_whole = false;
            break;
        }
        let mut run = 1;
        while rest.next_if_eq(&c).is_some() {
            run += 1;
        }
        // A window may be narrower the next time.
        match run {
            1 => pattern.push_str(&literal(c)),
            _ => drop(write!(pattern, "{}{{{},}}", literal(c), run.min(4))),
        }
    }
    if is_whole {
        pattern.push('$');
    }
    Proposed { pattern, seen: row.to_owned() }
}

/// The pattern of what begins a row. It may be indented otherwise another time, and blanks at its end may be missing:
/// rows have lost theirs.
pub(super) fn front(front: &str) -> Proposed {
    let visible = front.trim_end();
    let blanks = front.chars().count() - visible.chars().count();
    let indent = if visible.starts_with(char::is_whitespace) { r"\s*" } else { "" };
    let mut pattern = format!("^{indent}{}", text(visible.trim_start()));
    match blanks {
        0 => {}
        1 => pattern.push_str(r"\s?"),
        n => drop(write!(pattern, r"\s{{0,{n}}}")),
    }
    Proposed { pattern, seen: front.to_owned() }
}

/// The pattern of what ends a row.
pub(super) fn back(back: &str) -> Proposed {
    Proposed { pattern: format!(r"\s*{}$", text(back.trim())), seen: back.trim().to_owned() }
}

/// The pattern of a whole row that a program draws: folders, numbers and quoted examples are open.
pub(super) fn row(row: &str) -> Proposed {
    let shown: String = row.chars().take(CHARS_MAX).collect();
    let is_whole = shown.len() == row.len();
    let mut pattern = String::from("^");
    if shown.starts_with(char::is_whitespace) {
        pattern.push_str(r"\s*");
    }
    let words: Vec<String> = shown.split_whitespace().map(word).collect();
    pattern.push_str(&words.join(r"\s+"));
    if is_whole {
        pattern.push('$');
    }
    Proposed { pattern, seen: row.to_owned() }
}

/// The pattern of the first words of a row, whatever follows them.
pub(super) fn row_begin(row: &str) -> Proposed {
    let words: Vec<String> = row.split_whitespace().take(2).map(word).collect();
    let indent = if row.starts_with(char::is_whitespace) { r"\s+" } else { "" };
    Proposed { pattern: format!("^{indent}{}", words.join(r"\s+")), seen: row.to_owned() }
}

fn word(word: &str) -> String {
    let is_path = word.contains('/') && word.chars().count() > 2 || word.starts_with('~');
    if is_path { r"\S+".to_owned() } else { text(word) }
}

/// The pattern of an example that a program shows in its empty composer: what it quotes changes.
pub(super) fn placeholder(shown: &str) -> Proposed {
    let mut parts = shown.split('"');
    let mut pattern = format!("^{}", text(parts.next().unwrap_or_default()));
    let rest: Vec<&str> = parts.collect();
    for pair in rest.chunks(2) {
        match pair {
            [_, after] => drop(write!(pattern, r#""[^"]*"{}"#, text(after))),
            _ => drop(write!(pattern, r#""{}"#, text(pair.first().copied().unwrap_or_default()))),
        }
    }
    pattern.push('$');
    Proposed { pattern, seen: shown.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex_lite::Regex;

    fn fits(proposed: &Proposed, row: &str) -> bool {
        Regex::new(&proposed.pattern).unwrap().is_match(row)
    }

    #[test]
    fn patterns_fit_what_may_differ_and_nothing_else() {
        for (proposed, same, other) in [
            (rule("────────────"), "──────", "─ text"),
            (rule("╭──────────╮"), "╭────────────────╮", "╰──────────╯"),
            (rule("╭─ main ─────"), "╭─ other", "── main"),
            (rule("  ╹▀▀▀▀▀▀▀▀"), "    ╹▀▀▀▀▀▀", "╹"),
            (front("│ > "), "│ >", "  > "),
            (front("In [12]: "), "In [3]: x", "In x: "),
            (front("(.*) "), "(.*) x", "anything"),
            (front("   ❯ "), "❯ x", "x ❯ "),
            (back("   │"), "text │", "text"),
            (row("  gpt-5 · /tmp/a b · 97% left"), "  gpt-5 · /srv/u b · 3% left", "  gpt-5"),
            (row("a+b"), "a+b", "aab"),
            (row("a\u{7}\u{200b}b"), "a\u{7}\u{200b}b", "ab"),
            (row_begin("  gpt-5 high · /tmp"), "  gpt-6 high · 97% left", "gpt-5 high"),
            (placeholder("Try \"fix it\" (a+b)"), "Try \"write tests\" (a+b)", "Try it"),
        ] {
            assert!(fits(&proposed, &proposed.seen), "{proposed:?}");
            assert!(fits(&proposed, same), "{proposed:?} {same:?}");
            assert!(!fits(&proposed, other), "{proposed:?} {other:?}");
        }
    }

    #[test]
    fn lines_are_told_from_text() {
        for row in ["────────────", "╭─ title ──────────╮", "  ╹▀▀▀▀▀▀▀▀▀▀", "------------"]
        {
            assert!(is_rule(row), "{row}");
        }
        for row in ["", "── a", "> text -------", "a sentence - with a dash", "----"] {
            assert!(!is_rule(row), "{row}");
        }
    }
}
