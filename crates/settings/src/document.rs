//! Parses one settings text: its settings with their lines, and everything that is wrong with it.
//!
//! JSON with comments and trailing commas. Valid settings are kept even if others are not, so that
//! a node can continue with them; a caller that wants all or nothing checks the faults.
//!
//! Invariant: pure, and no text makes it panic; the work is bounded by the length of the text.
//! Not here: the file (`disk`), how texts are layered (`layers`).

use crate::fault::{Fault, Source, Wrong};
use crate::keys::{self, Key, Step};
use crate::kinds::{Ground, Kind, Misfit, Raw, Value};
use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions};
use std::collections::HashMap;
use std::path::Path;
use synapse_core::ids::Label;

/// The content of a settings text.
#[derive(Debug, Default)]
pub struct Document {
    pub entries: Vec<Entry>,
    pub faults: Vec<Fault>,
}

/// One setting in a text.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: &'static Key,
    /// The name in place of the `*`; empty if the key has none.
    pub name: String,
    pub value: Value,
    pub line: usize,
}

/// The context in which a text is parsed.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    pub source: Source,
    pub ground: Ground<'a>,
    /// The file for guarded settings, for error messages.
    pub user_file: &'a Path,
}

/// The most faults that are reported; a file with more is probably another kind of file.
const FAULTS_MAX: usize = 20;
/// The most roles, secrets or identities.
const NAMES_MAX: usize = 256;
/// The most nested brackets. The parser recurses once per level, and its stack may be small.
const DEPTH_MAX: usize = 64;
/// Names under which people write a secret itself.
const SECRET_WORDS: &[&str] = &["secret", "value", "token", "password", "key", "bearer", "text"];

pub fn read(text: &str, context: &Context<'_>) -> Document {
    let text = without_mark(text);
    let mut reader = Reader { lines: Lines::new(text), context, document: Document::default() };
    if let Some(offset) = too_deep(text) {
        reader.fault(offset, None, Wrong::Syntax(format!("more than {DEPTH_MAX} brackets are open")));
        return reader.document;
    }
    match jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &form()) {
        Err(error) => {
            let wrong = Wrong::Syntax(error.kind().to_string().to_lowercase());
            reader.fault(error.range().start, None, wrong);
        }
        Ok(parsed) => match parsed.value {
            None => {}
            Some(ast::Value::Object(root)) => reader.object(&root, "", ""),
            Some(other) => {
                let found = kind_of(&other);
                reader.fault(other.start(), None, Wrong::NoObject { found });
            }
        },
    }
    reader.document
}

/// Allows comments and trailing commas, nothing else beyond JSON: editors and other
/// tools read these files too.
pub fn form() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Removes the byte order mark that some editors write.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

struct Reader<'t, 'c> {
    lines: Lines<'t>,
    context: &'c Context<'c>,
    document: Document,
}

impl Reader<'_, '_> {
    /// Reads an object in the tree of settings; `name` replaces the `*` in `pattern`.
    fn object(&mut self, object: &ast::Object<'_>, pattern: &str, name: &str) {
        let children = keys::children(pattern);
        let opens = children.contains(&"*");
        let mut seen: HashMap<String, usize> = HashMap::new();
        for property in &object.properties {
            let step = property.name.as_str();
            let at = property.start();
            let shown = join(&pattern.replacen('*', name, 1), step);
            // Roles ignore case, so two that differ only in case would be the same role twice.
            let seen_as = if opens { step.to_ascii_lowercase() } else { step.to_owned() };
            if let Some(first) = seen.insert(seen_as, at) {
                let first = self.lines.line(first);
                self.fault(at, Some(&shown), Wrong::Twice { key: plain(&shown), first });
                continue;
            }
            if opens && seen.len() > NAMES_MAX {
                let key = pattern.to_owned();
                return self.fault(at, Some(pattern), Wrong::TooManyNames { key, max: NAMES_MAX });
            }
            if pattern.is_empty() && step == "$schema" {
                continue;
            }
            let within = pattern.to_owned();
            let (pattern, name) = match opens {
                true => (join(pattern, "*"), step),
                false => (join(pattern, step), name),
            };
            if opens && let Err(rule) = check_name(&pattern, step) {
                self.fault(at, Some(&shown), Wrong::BadName { key: plain(&shown), rule });
                continue;
            }
            // A path as one key (`"a2a.flow"`) must not be taken for the setting itself.
            if opens || children.contains(&step) {
                self.property(property, &pattern, name, &shown);
            } else {
                self.unknown(property, &within, name, &shown);
            }
        }
    }

    fn property(&mut self, property: &ast::ObjectProp<'_>, pattern: &str, name: &str, shown: &str) {
        let at = property.start();
        let step = keys::at(pattern);
        let rows = || keys::below(pattern);
        let guarded = match step {
            Step::Key(key) => key.guarded,
            _ => rows().next().is_some() && rows().all(|key| key.guarded),
        };
        if guarded && matches!(self.context.source, Source::Project(_)) {
            let user_file = self.context.user_file.to_owned();
            return self.fault(at, Some(shown), Wrong::Guarded { key: plain(shown), user_file });
        }
        match (step, &property.value) {
            (Step::Key(key), value) => self.leaf(key, name, value, at),
            (Step::Section, ast::Value::Object(object)) => self.object(object, pattern, name),
            (Step::Section, _) if pattern == "secrets.*" => self.literal_secret(at, shown, name),
            (Step::Section, other) => {
                let found = kind_of(other).to_owned();
                let allowed = format!("an object with {}", in_words(pattern));
                self.fault(
                    other.start(),
                    Some(shown),
                    Wrong::Misfit { key: plain(shown), found, allowed, kind: None },
                );
            }
            // Only children of the table reach this.
            (Step::Nowhere, _) => {}
        }
    }

    fn unknown(&mut self, property: &ast::ObjectProp<'_>, within: &str, name: &str, shown: &str) {
        let step = property.name.as_str();
        let says_secret = SECRET_WORDS.contains(&step.to_ascii_lowercase().as_str());
        if within == "secrets.*" && says_secret {
            return self.literal_secret(property.start(), shown, name);
        }
        let nearest = keys::nearest(within, step).map(|nearest| nearest.replacen('*', name, 1));
        self.fault(property.start(), Some(shown), Wrong::Unknown { key: plain(shown), nearest });
    }

    fn literal_secret(&mut self, at: usize, shown: &str, name: &str) {
        let wrong = Wrong::LiteralSecret { key: plain(shown), name: name.to_owned() };
        self.fault(at, Some(shown), wrong);
    }

    fn leaf(&mut self, key: &'static Key, name: &str, value: &ast::Value<'_>, at: usize) {
        let line = self.lines.line(at);
        match key.kind.check(&raw(value), self.context.ground) {
            Ok(value) => self.document.entries.push(Entry { key, name: name.to_owned(), value, line }),
            Err(misfit) => {
                let path = key.named(name);
                let wrong = wrong_of(misfit, key, &path);
                self.fault(value.start(), Some(&path), wrong);
                // A role whose rights are invalid gets none; if it were left out, it would have the
                // rights of every agent.
                if key.kind == Kind::Verbs {
                    let value = Value::List(Vec::new());
                    self.document.entries.push(Entry { key, name: name.to_owned(), value, line });
                }
            }
        }
    }

    fn fault(&mut self, offset: usize, key: Option<&str>, wrong: Wrong) {
        let told = self.document.faults.len();
        if told > FAULTS_MAX {
            return;
        }
        // The last fault is about the whole file, since it hides which other settings are wrong.
        let (key, wrong) = if told == FAULTS_MAX { (None, Wrong::TooMany) } else { (key, wrong) };
        let (at, key) = (Some(self.lines.place(offset)), key.map(str::to_owned));
        self.document.faults.push(Fault { source: self.context.source.clone(), at, key, wrong });
    }
}

pub(crate) fn wrong_of(misfit: Misfit, key: &Key, path: &str) -> Wrong {
    let path = plain(path);
    match misfit {
        Misfit::Other { found, allowed } => Wrong::Misfit { key: path, found, allowed, kind: Some(key.kind) },
        Misfit::Approve => Wrong::Approve { key: path },
    }
}

/// Returns the rule that a name breaks. Roles and names of secrets are labels; a certificate may
/// name its holder in many ways.
pub fn check_name(pattern: &str, name: &str) -> Result<(), &'static str> {
    if pattern.starts_with("tls.identities.") {
        let fits = !name.trim().is_empty() && name.trim() == name && name.len() <= 253;
        return if fits && !name.chars().any(char::is_control) {
            Ok(())
        } else {
            Err("1 to 253 characters without control characters, and no space before or after")
        };
    }
    match Label::parse(name) {
        Ok(_) => Ok(()),
        Err(_) => Err("1 to 64 letters, digits or - _ . and start with a letter or digit"),
    }
}

fn in_words(pattern: &str) -> String {
    let children = keys::children(pattern);
    let words: Vec<&str> =
        children.iter().map(|name| if *name == "*" { "a name for each" } else { name }).collect();
    words.join(", ")
}

fn join(pattern: &str, step: &str) -> String {
    if pattern.is_empty() { step.to_owned() } else { format!("{pattern}.{step}") }
}

/// Makes a path from a file safe to print: short, and without control characters.
fn plain(path: &str) -> String {
    const CHARS_MAX: usize = 120;
    let mut plain: String = path.chars().take(CHARS_MAX).collect::<String>().escape_debug().collect();
    if path.chars().nth(CHARS_MAX).is_some() {
        plain.push('…');
    }
    plain
}

fn raw(value: &ast::Value<'_>) -> Raw {
    match value {
        ast::Value::StringLit(text) => Raw::Text(text.value.to_string()),
        ast::Value::NumberLit(number) => Raw::Number(number.value.to_owned()),
        ast::Value::BooleanLit(truth) => Raw::Bool(truth.value),
        ast::Value::NullKeyword(_) => Raw::Null,
        ast::Value::Object(_) => Raw::Object,
        ast::Value::Array(list) => Raw::List(list.elements.iter().map(raw).collect()),
    }
}

fn kind_of(value: &ast::Value<'_>) -> &'static str {
    match value {
        ast::Value::StringLit(_) => "a text",
        ast::Value::NumberLit(_) => "a number",
        ast::Value::BooleanLit(_) => "true or false",
        ast::Value::NullKeyword(_) => "null",
        ast::Value::Object(_) => "an object",
        ast::Value::Array(_) => "a list",
    }
}

/// Returns where brackets are nested too deep, ignoring those in strings and comments.
pub fn too_deep(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let end_of_line = |from: usize| bytes[from..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
    let end_of_block = |from: usize| bytes[from..].windows(2).position(|two| two == b"*/");
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'{' | b'[', _) if depth == DEPTH_MAX => return Some(at),
            (b'{' | b'[', _) => depth += 1,
            (b'}' | b']', _) => depth = depth.saturating_sub(1),
            (b'/', Some(b'/')) => at += end_of_line(at)?,
            (b'/', Some(b'*')) => at += 3 + end_of_block(at + 2)?,
            (b'"', _) => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Converts offsets in a text to lines and columns.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// Returns line and column, both from 1; the column counts characters.
    fn place(&self, offset: usize) -> (usize, usize) {
        let line = self.line(offset);
        let start = self.starts[line - 1];
        let column = self.text.get(start..offset).map_or(0, |before| before.chars().count());
        (line, column + 1)
    }
}
