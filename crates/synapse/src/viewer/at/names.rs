//! What a line that begins with `@` means: which agent it names, and which names it could still become.

/// A name for an agent that can be typed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub typed: String,
    /// The name as a target of `synapse send`.
    pub to: String,
    /// Whether Tab offers it.
    pub is_offered: bool,
}

/// What the text typed so far is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading<'a> {
    /// No name begins like this.
    Nothing,
    /// It may become a name.
    Begins,
    Line {
        to: &'a str,
        text: &'a str,
        is_urgent: bool,
    },
}

/// Treats full-width forms as their ASCII characters, and ignores case.
pub(super) fn fold(c: char) -> char {
    const APART: u32 = 0xfee0;
    let plain = match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - APART).unwrap_or(c),
        _ => c,
    };
    plain.to_ascii_lowercase()
}

pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace()
}

pub(super) fn read<'a>(text: &'a str, names: &'a [Name]) -> Reading<'a> {
    let mut chars = text.chars();
    match chars.next() {
        None => return Reading::Begins,
        Some(c) if fold(c) == '@' => {}
        Some(_) => return Reading::Nothing,
    }
    let all = chars.as_str();
    let (word, rest) = match all.find(is_blank) {
        Some(at) => (&all[..at], Some(&all[at..])),
        None => (all, None),
    };
    let mut called: String = word.chars().map(fold).collect();
    let is_urgent = called.ends_with('!');
    if is_urgent {
        called.pop();
    }
    let exact = names.iter().find(|name| name.typed.eq_ignore_ascii_case(&called));
    let begins =
        || !is_urgent && names.iter().any(|name| name.typed.to_ascii_lowercase().starts_with(&called));
    match (rest, exact) {
        (Some(rest), Some(name)) => Reading::Line { to: &name.to, text: rest.trim(), is_urgent },
        (None, Some(_)) => Reading::Begins,
        (None, None) if begins() => Reading::Begins,
        _ => Reading::Nothing,
    }
}

/// The names that Tab offers for this text.
pub(super) fn offered<'a>(text: &str, names: &'a [Name]) -> impl Iterator<Item = &'a str> {
    let stem: String = text.chars().skip(1).map(fold).collect();
    let fits = move |name: &&Name| name.is_offered && name.typed.to_ascii_lowercase().starts_with(&stem);
    names.iter().filter(fits).map(|name| name.typed.as_str())
}
