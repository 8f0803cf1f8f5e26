//! Grams: the pieces of a text by which it can be found, in every script. Pure.
//!
//! Text is folded character by character (case, full-width forms), so a position in the folded text
//! is the same position in the original. Words of alphabets become runs of three characters.
//! Chinese, Japanese, Thai and similar scripts write no spaces and have words of one or two
//! characters, so each pair and each single character is a gram there.
//!
//! Invariant: every gram of a term is a gram of every text that contains the term. So an index
//! of grams may return too many texts, but never too few, and the caller checks each text
//! again with `Query::places`.
//! Not here: the index (`search`).

use synapse_core::message::{Content, Piece};

/// A search query: plain words, all of which must be in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    terms: Vec<String>,
}

/// Why a query is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadQuery {
    #[error("there is nothing to search for; give a word")]
    Empty,
    #[error("the text to search for has {0} bytes, and {BYTES_MAX} are allowed; give the words that matter")]
    TooLong(usize),
}

const BYTES_MAX: usize = 2_000;
/// More would not make a query more exact, only slower.
const GRAMS_ASKED_MAX: usize = 32;
const PLACES_MAX: usize = 32;

impl Query {
    /// Parses a query. Only the spaces between its words have a meaning.
    pub fn parse(raw: &str) -> Result<Self, BadQuery> {
        if raw.len() > BYTES_MAX {
            return Err(BadQuery::TooLong(raw.len()));
        }
        let mut terms: Vec<String> = fold(raw).split(' ').filter(|t| !t.is_empty()).map(Into::into).collect();
        terms.dedup();
        if terms.is_empty() { Err(BadQuery::Empty) } else { Ok(Self { terms }) }
    }

    /// Returns the index expression; `None` if no word of the query has a gram.
    pub(crate) fn expression(&self) -> Option<String> {
        let mut asked = Vec::new();
        for term in &self.terms {
            let chars: Vec<char> = term.chars().collect();
            let mut grams = Vec::new();
            of_word(&chars, &mut grams);
            // Drop single characters where there are pairs, which are more exact.
            let longest = grams.iter().map(Gram::len).max().unwrap_or(0);
            grams.retain(|gram| longest == 1 || gram.len() > 1);
            grams.sort_unstable();
            grams.dedup();
            // Sample a long term evenly, so that its whole length is covered.
            let step = grams.len().div_ceil(GRAMS_ASKED_MAX).max(1);
            asked.extend(grams.into_iter().step_by(step));
        }
        asked.truncate(2 * GRAMS_ASKED_MAX);
        let mut text = String::new();
        for gram in &asked {
            text.push_str(if text.is_empty() { "\"" } else { " AND \"" });
            gram.write(&mut text);
            text.push('"');
        }
        (!text.is_empty()).then_some(text)
    }

    pub fn is_in(&self, folded: &str) -> bool {
        self.terms.iter().all(|term| folded.contains(term.as_str()))
    }

    /// Returns where its words are, in characters: start and length, in order, without overlap.
    pub fn places(&self, text: &str) -> Vec<(usize, usize)> {
        let folded = fold(text);
        let mut bytes: Vec<(usize, usize)> = self
            .terms
            .iter()
            .flat_map(|term| {
                folded.match_indices(term.as_str()).take(PLACES_MAX).map(|(at, m)| (at, m.len()))
            })
            .collect();
        bytes.sort_unstable_by_key(|(at, len)| (*at, usize::MAX - len));
        let (mut places, mut end, mut seen, mut count) = (Vec::new(), 0, 0, 0);
        for (at, len) in bytes.into_iter().take(PLACES_MAX) {
            if at < end {
                continue;
            }
            count += folded[seen..at].chars().count();
            seen = at;
            places.push((count, folded[at..at + len].chars().count()));
            end = at + len;
        }
        places
    }
}

/// Returns the searchable text of a content: its texts, its data, the names of its
/// files, but not file bytes.
pub fn searchable(content: &Content) -> String {
    let mut text = String::new();
    let mut add = |more: &str| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(more);
    };
    for part in &content.parts {
        match &part.piece {
            Piece::Text(text) | Piece::Url(text) => add(text),
            Piece::Data(data) => add(&data.to_string()),
            Piece::Raw(_) | Piece::File(_) => {}
        }
        if let Some(name) = &part.filename {
            add(name);
        }
    }
    text
}

pub fn fold(text: &str) -> String {
    text.chars().map(fold_char).collect()
}

/// Folds one character to one character: one whose lower case is longer stays as it is.
fn fold_char(c: char) -> char {
    if c.is_ascii() {
        return if c.is_ascii_whitespace() || c == '\u{b}' { ' ' } else { c.to_ascii_lowercase() };
    }
    let narrow = match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
        c if c.is_whitespace() => return ' ',
        c => c,
    };
    let mut lower = narrow.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => narrow,
    }
}

/// Appends the grams of a folded text as index words, each once.
pub(crate) fn tokens_of(folded: &str, into: &mut String) {
    let mut grams = Vec::new();
    let mut chars = Vec::new();
    for word in folded.split(' ') {
        chars.clear();
        chars.extend(word.chars());
        of_word(&chars, &mut grams);
    }
    grams.sort_unstable();
    grams.dedup();
    for gram in grams {
        if !into.is_empty() {
            into.push(' ');
        }
        gram.write(into);
    }
}

/// Returns the index word for an id; its length keeps it apart from grams.
pub(crate) fn token_of_id(id: &str) -> String {
    format!("x{:08x}", crc32fast::hash(id.as_bytes()))
}

fn of_word(word: &[char], into: &mut Vec<Gram>) {
    for (at, c) in word.iter().enumerate() {
        let next = word.get(at + 1);
        if is_dense(*c) {
            into.push(Gram::of(&word[at..=at]));
        }
        match next {
            Some(next) if is_dense(*c) || is_dense(*next) => into.push(Gram::of(&word[at..at + 2])),
            Some(_) if word.get(at + 2).is_some_and(|third| !is_dense(*third)) => {
                into.push(Gram::of(&word[at..at + 3]));
            }
            _ => {}
        }
    }
}

/// Whether the script uses words of one or two characters.
fn is_dense(c: char) -> bool {
    c >= '\u{e00}' && !matches!(c, '\u{1e00}'..='\u{2e7f}')
}

/// One to three characters, the first in the highest bits; 21 bits each, as Unicode needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Gram(u64);

impl Gram {
    fn of(chars: &[char]) -> Self {
        // The code plus one, so that no character looks like a missing one.
        Self(chars.iter().fold(0, |bits, c| bits << 21 | (u64::from(*c as u32) + 1)))
    }

    fn len(&self) -> usize {
        (0..3).filter(|n| self.0 >> (21 * n) != 0).count()
    }

    /// Writes it as a word of letters, digits and non-ASCII characters. Two grams may share a word,
    /// so matches are checked.
    fn write(self, into: &mut String) {
        for n in (0..3).rev() {
            let code = self.0 >> (21 * n) & 0x1f_ffff;
            let Some(c) = code.checked_sub(1).and_then(|c| char::from_u32(u32::try_from(c).ok()?)) else {
                continue;
            };
            let shifted = || char::from_u32(0x100 + c as u32).unwrap_or(c);
            into.push(if c.is_ascii() && !c.is_ascii_alphanumeric() { shifted() } else { c });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> String {
        let mut all = String::new();
        tokens_of(&fold(text), &mut all);
        all
    }

    #[test]
    fn texts_are_cut_by_their_script() {
        for (text, expected) in [
            ("", ""),
            ("ok", ""),
            ("Hello", "ell hel llo"),
            ("ＡＢＣ　abc", "abc"),
            ("会議", "会 議 会議"),
            ("GPUの値", "の 値 uの の値 gpu"),
            ("a-b c", "aĭb"),
            ("ÉTÉ", "été"),
            ("สวัสดี".get(..6).unwrap_or_default(), "ว ส สว"),
        ] {
            assert_eq!(tokens(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_asked_is_in_every_text_that_has_it() {
        let texts = [
            "Please review the change",
            "会議は十時からです",
            "GPUの値段が100%上がった",
            "a\u{0}b\"c' OR NEAR(x) *",
            "emoji 👩‍💻 and ÄÖÜ ß İstanbul",
            "中文消息：请检查代码",
        ];
        for text in texts {
            let chars: Vec<char> = text.chars().collect();
            let all: Vec<String> = tokens(text).split(' ').map(str::to_owned).collect();
            for from in 0..chars.len() {
                for to in from + 1..=chars.len() {
                    let part: String = chars[from..to].iter().collect();
                    let Ok(query) = Query::parse(&part) else { continue };
                    assert!(query.is_in(&fold(text)), "{part:?} in {text:?}");
                    for asked in query.expression().unwrap_or_default().split(" AND ") {
                        let asked = asked.trim_matches('"').to_owned();
                        assert!(
                            asked.is_empty() || all.contains(&asked),
                            "{asked:?} of {part:?} in {text:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn expressions_are_words_and_nothing_else() {
        for (raw, expected) in [
            ("rev", Some("\"rev\"")),
            ("会議", Some("\"会議\"")),
            ("議", Some("\"議\"")),
            ("ok", None),
            ("a* OR \"", None),
            ("ok 会", Some("\"会\"")),
            ("say \"hi\"", Some("\"say\" AND \"Ģhi\" AND \"hiĢ\"")),
        ] {
            assert_eq!(Query::parse(raw).unwrap().expression().as_deref(), expected, "{raw:?}");
        }
        let long = Query::parse(&"abcdefghijklmnopqrstuvwxyz0123456789".repeat(50)).unwrap();
        assert!(long.expression().unwrap().matches("AND").count() < 2 * GRAMS_ASKED_MAX);
    }

    #[test]
    fn queries_that_are_none() {
        for raw in ["", " ", "\u{3000}\n\t"] {
            assert_eq!(Query::parse(raw), Err(BadQuery::Empty), "{raw:?}");
        }
        assert_eq!(Query::parse(&"x".repeat(3_000)), Err(BadQuery::TooLong(3_000)));
    }

    #[test]
    fn places_are_those_of_the_text_as_it_was_written() {
        let check = |raw: &str, text: &str, expected: &[(usize, usize)]| {
            assert_eq!(Query::parse(raw).unwrap().places(text), expected, "{raw:?} in {text:?}");
        };
        check("review", "Please REVIEW it, review", &[(7, 6), (18, 6)]);
        check("会議 ABC", "ａｂｃの会議", &[(0, 3), (4, 2)]);
        check("aa", "aaaa", &[(0, 2), (2, 2)]);
        check("nothing", "text", &[]);
    }

    #[test]
    fn bytes_are_not_searched_and_data_is() {
        let mut content = Content::text("one");
        let part = |piece, filename: Option<&str>| synapse_core::message::Part {
            piece,
            media_type: None,
            filename: filename.map(Into::into),
        };
        content.parts.push(part(Piece::Data(serde_json::json!({"city": "東京"})), None));
        content.parts.push(part(Piece::Raw("aGVsbG8=".into()), Some("plan.pdf")));
        assert_eq!(searchable(&content), "one\n{\"city\":\"東京\"}\nplan.pdf");
    }
}
