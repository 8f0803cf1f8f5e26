//! Invisible characters, and which of them a text may keep (L17).
//!
//! They can hide a second text inside the visible one, so terminals and agents get texts without
//! them. Some scripts and joined emoji need a few of them; those stay where they have an effect,
//! one at a time. `revealed` also shows control characters; other callers handle control
//! characters in their own way.

/// Whether Unicode calls the code point default-ignorable, or it is an interlinear annotation mark.
pub fn is_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{00ad}'
            | '\u{034f}'
            | '\u{061c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Whether `c` is hidden between `before`, the last character kept, and
/// `after`, the one that follows.
pub fn is_hidden(c: char, before: Option<char>, after: Option<char>) -> bool {
    match c {
        '\u{200c}' | '\u{200d}' => !(can_join(before, true) && can_join(after, false)),
        '\u{fe0e}' | '\u{fe0f}' => !before.is_some_and(|base| chooses_style(base, after)),
        c => is_ignorable(c),
    }
}

/// Makes untrusted text visible: replaces each control character (except `\n` and `\t`), line
/// separator and hidden character by U+FFFD, one for one.
pub fn revealed(text: &str) -> String {
    let (mut shown, mut before) = (String::with_capacity(text.len()), None);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_line_break = matches!(c, '\u{2028}' | '\u{2029}');
        let drives = (c.is_control() && c != '\n' && c != '\t') || is_line_break;
        let c = if drives || is_hidden(c, before, rest.peek().copied()) { '\u{fffd}' } else { c };
        shown.push(c);
        before = Some(c);
    }
    shown
}

/// Whether a joiner has an effect beside this character: it must be beyond ASCII. A style selector
/// may stand before a joiner, as in 🏳️‍🌈.
fn can_join(neighbour: Option<char>, is_before: bool) -> bool {
    neighbour.is_some_and(|c| {
        let is_style = is_before && matches!(c, '\u{fe0e}' | '\u{fe0f}');
        !c.is_ascii() && !c.is_whitespace() && !c.is_control() && (is_style || !is_ignorable(c))
    })
}

/// Whether the character exists both as text and as emoji; digits only as keycaps.
fn chooses_style(base: char, after: Option<char>) -> bool {
    match base {
        '0'..='9' | '#' | '*' => after == Some('\u{20e3}'),
        '\u{00a9}' | '\u{00ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' => true,
        '\u{2194}'..='\u{21aa}' | '\u{2300}'..='\u{23ff}' | '\u{24c2}' | '\u{25a0}'..='\u{27bf}' => true,
        '\u{2934}'..='\u{2935}' | '\u{2b00}'..='\u{2bff}' => true,
        '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' => true,
        '\u{1f000}'..='\u{1faff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut kept = String::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            if !is_hidden(c, kept.chars().last(), rest.peek().copied()) {
                kept.push(c);
            }
        }
        kept
    }

    #[test]
    fn emoji_and_scripts_that_need_joiners_stay_whole() {
        let whole = [
            "👨‍👩‍👧‍👦",
            "🏳️‍🌈",
            "❤️‍🔥",
            "☎️ and ☎︎",
            "1️⃣ #️⃣",
            "می‌خواهم",
            "क्‍ष",
            "日本語",
            "e\u{301}",
            "👍🏽",
            "🇩🇪",
            "한국어",
        ];
        for text in whole {
            assert_eq!(shown(text), text);
        }
    }

    /// Finding L17.
    #[test]
    fn selectors_fillers_and_tags_cannot_carry_a_hidden_text() {
        let table = [
            ("a\u{fe00}\u{fe01}\u{fe0f}b", "ab"),
            ("😀\u{fe0f}\u{fe0f}\u{fe0e}\u{fe03}", "😀\u{fe0f}"),
            ("1\u{fe0f}", "1"),
            ("x\u{e0100}\u{e01ef}", "x"),
            ("\u{115f}\u{1160}\u{3164}\u{ffa0}", ""),
            ("\u{e0001}\u{e0041}\u{e007f}", ""),
            ("\u{180b}\u{180e}\u{180f}\u{034f}\u{2060}\u{206f}\u{17b4}\u{fff1}", ""),
            ("é\u{200d}\u{200c}\u{200d}é", "é\u{200d}é"),
            ("a\u{200d}b\u{200b}\u{feff}\u{202e}", "ab"),
        ];
        for (text, expected) in table {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }
}
