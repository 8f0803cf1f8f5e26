//! Kinds of values: what a setting may be, and how errors describe that.
//!
//! Invariant: a `Value` returned by `Kind::check` fits its kind.
//! Not here: which setting has which kind (`keys`), the position of a value (`document`).

mod value;

pub use value::Value;

use crate::keys::{APPROVE, VERBS};
use crate::prefix::{NO_PREFIX, PrefixKey};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use synapse_core::ids::Label;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Choice(&'static [&'static str]),
    Bool,
    Number {
        min: u64,
        max: u64,
    },
    /// A list of some of these words, whose order matters; never empty.
    Words(&'static [&'static str]),
    /// The verbs of a role.
    Verbs,
    Path,
    /// The name of an environment variable.
    Variable,
    /// The name of a role or an agent.
    Label,
    Address,
    /// Addresses and address ranges.
    Ranges,
    Hosts,
    /// Origins of web pages: scheme, host and port.
    Origins,
    /// Media types, such as `image/png` or `image/*`; never empty.
    MediaTypes,
    /// A web address without a query.
    Url,
    /// One line of text.
    Line,
    /// A program and its arguments, started without a shell.
    Command,
    /// A key with Ctrl, or none.
    PrefixKey,
}

/// A value from a file, before it is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raw {
    Null,
    Bool(bool),
    /// Its digits, as written.
    Number(String),
    Text(String),
    List(Vec<Raw>),
    Object,
}

/// Why a value does not fit its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// What was found and what is allowed.
    Other {
        found: String,
        allowed: String,
    },
    Approve,
}

/// What relative paths and `~` refer to.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// The folder of the settings file.
    pub folder: &'a Path,
    /// The user's home folder, for `~/`.
    pub user: Option<&'a Path>,
}

/// The most elements in a list.
const LIST_MAX: usize = 256;
const LINE_CHARS_MAX: usize = 100;
const URL_BYTES_MAX: usize = 1024;
/// The most words of a command: the program and its arguments.
const COMMAND_WORDS_MAX: usize = 64;
const COMMAND_WORD_BYTES_MAX: usize = 4096;

impl Kind {
    pub fn is_list(self) -> bool {
        matches!(
            self,
            Self::Words(_)
                | Self::Verbs
                | Self::Ranges
                | Self::Hosts
                | Self::Origins
                | Self::MediaTypes
                | Self::Command
        )
    }

    /// Returns what is allowed, in words that follow "it must be".
    pub fn allowed(self) -> String {
        match self {
            Self::Choice(words) => one_of(words),
            Self::Bool => "true or false".into(),
            Self::Number { min, max } => format!("a whole number from {min} to {max}"),
            Self::Words(words) => format!("a list of {}", one_of(words)),
            Self::Verbs => format!("a list of {}", one_of(VERBS)),
            Self::Path => {
                "a path; `~/` is your folder, a relative path starts at the folder of the settings file"
                    .into()
            }
            Self::Variable => "the name of a variable, such as CI_SECRET".into(),
            Self::Label => {
                "a name of 1 to 64 letters, digits or - _ . that starts with a letter or digit".into()
            }
            Self::Address => "an address, such as 0.0.0.0 or ::1".into(),
            Self::Ranges => "a list of addresses and ranges, such as [\"10.0.0.0/8\", \"::1\"]".into(),
            Self::Hosts => "a list of host names without port, such as [\"box.example.org\"]".into(),
            Self::Origins => {
                "a list of origins without a path, such as [\"https://app.example.org\"]; `*` is not one"
                    .into()
            }
            Self::MediaTypes => "a list of media types, such as [\"text/plain\", \"image/*\"]".into(),
            Self::Url => "an address on the web, such as https://agents.example.org/review".into(),
            Self::Line => format!("one line of 1 to {LINE_CHARS_MAX} characters"),
            Self::Command => {
                "a list of a program and its arguments, such as [\"~/bin/tell-me\", \"--sound\"]; the program is a \
                 name on the PATH, or a path that begins with / or ~/"
                    .into()
            }
            Self::PrefixKey => {
                "Ctrl and a key, such as C-b, C-] or ctrl-a, or none; C-h, C-i, C-j, C-m and C-[ are other keys"
                    .into()
            }
        }
    }

    /// Returns a valid value, for the advice in errors and for tests.
    pub fn example(self) -> Value {
        let text = |text: &str| Value::Text(text.to_owned());
        let list = |one: &str| Value::List(vec![one.to_owned()]);
        match self {
            Self::Choice(words) => text(words.last().copied().unwrap_or_default()),
            Self::Bool => Value::Bool(true),
            Self::Number { min, max } => Value::Number(if (min..=max).contains(&30) { 30 } else { min }),
            Self::Words(words) => list(words.last().copied().unwrap_or_default()),
            Self::Verbs => list("message"),
            Self::Path => Value::Path("/etc/synapse/file.pem".into()),
            Self::Variable => text("CI_SECRET"),
            Self::Label => text("Developer"),
            Self::Address => text("127.0.0.1"),
            Self::Ranges => list("10.0.0.0/8"),
            Self::Hosts => list("box.example.org"),
            Self::Origins => list("https://app.example.org"),
            Self::MediaTypes => list("image/png"),
            Self::Url => text("https://agents.example.org/review"),
            Self::Line => text("Example Corporation"),
            Self::PrefixKey => text("C-a"),
            Self::Command => Value::Command(vec!["/usr/local/bin/tell-me".to_owned(), "--sound".to_owned()]),
        }
    }

    pub(crate) fn check(self, raw: &Raw, ground: Ground<'_>) -> Result<Value, Misfit> {
        let other = || Misfit::Other { found: self.found(raw), allowed: self.allowed() };
        match (self, raw) {
            (Self::Bool, Raw::Bool(truth)) => Ok(Value::Bool(*truth)),
            (Self::Number { min, max }, Raw::Number(digits)) => match digits.parse() {
                Ok(number) if (min..=max).contains(&number) => Ok(Value::Number(number)),
                _ => Err(other()),
            },
            (Self::Choice(words), Raw::Text(text)) if words.contains(&text.as_str()) => {
                Ok(Value::Text(text.clone()))
            }
            (Self::Variable, Raw::Text(text)) if is_variable(text) => Ok(Value::Text(text.clone())),
            (Self::Label, Raw::Text(text)) if Label::parse(text).is_ok() => Ok(Value::Text(text.clone())),
            (Self::Address, Raw::Text(text)) => match text.parse::<IpAddr>() {
                Ok(address) => Ok(Value::Text(address.to_string())),
                Err(_) => Err(other()),
            },
            (Self::Url, Raw::Text(text)) => parse_url(text).map(Value::Text).ok_or_else(other),
            (Self::Line, Raw::Text(text)) if is_line(text) => Ok(Value::Text(text.clone())),
            (Self::PrefixKey, Raw::Text(text)) if text == NO_PREFIX => Ok(Value::Text(text.clone())),
            (Self::PrefixKey, Raw::Text(text)) => match PrefixKey::parse(text) {
                Some(key) => Ok(Value::Text(key.to_string())),
                None => Err(other()),
            },
            (Self::Path, Raw::Text(text)) => match resolve(text, ground) {
                Ok(path) => Ok(Value::Path(path)),
                Err(allowed) => Err(Misfit::Other { found: self.found(raw), allowed }),
            },
            (Self::Words(_) | Self::MediaTypes, Raw::List(elements)) if elements.is_empty() => {
                Err(Misfit::Other { found: "an empty list".into(), allowed: self.allowed() })
            }
            (Self::Command, Raw::List(elements)) => {
                let misfit = |found| Misfit::Other { found, allowed: self.allowed() };
                command(elements, ground).map(Value::Command).map_err(misfit)
            }
            (_, Raw::List(elements)) if self.is_list() => self.check_list(elements),
            _ => Err(other()),
        }
    }

    fn check_list(self, elements: &[Raw]) -> Result<Value, Misfit> {
        let other = |found: String, allowed: String| Misfit::Other { found, allowed };
        if elements.len() > LIST_MAX {
            let found = format!("a list of {}", elements.len());
            return Err(other(found, format!("{}, {LIST_MAX} at most", self.allowed())));
        }
        let mut list: Vec<String> = Vec::new();
        for element in elements {
            let found = format!("a list with {}", self.found(element));
            let Raw::Text(text) = element else { return Err(other(found, self.allowed())) };
            let fits = match self {
                Self::Words(words) => words.contains(&text.as_str()).then(|| text.clone()),
                Self::Verbs if text == APPROVE => return Err(Misfit::Approve),
                Self::Verbs => VERBS.contains(&text.as_str()).then(|| text.clone()),
                Self::Ranges => Some(range(text).map_err(|allowed| other(found.clone(), allowed))?),
                Self::Origins => parse_origin(text),
                Self::MediaTypes => parse_media_type(text),
                _ => host(text),
            };
            let Some(one) = fits else { return Err(other(found, self.allowed())) };
            if list.contains(&one) {
                return Err(other(format!("{found} twice"), self.allowed()));
            }
            list.push(one);
        }
        Ok(Value::List(list))
    }

    /// Describes a wrong value without repeating what may be a secret: a variable's name
    /// may be the secret itself.
    fn found(self, raw: &Raw) -> String {
        const CHARS_MAX: usize = 60;
        match raw {
            Raw::Null => "null".into(),
            Raw::Bool(truth) => truth.to_string(),
            Raw::Number(digits) => {
                digits.chars().take(CHARS_MAX).collect::<String>().escape_debug().collect()
            }
            Raw::Text(text) if self == Self::Variable => {
                format!("a text of {} characters", text.chars().count())
            }
            Raw::Text(text) if text.chars().count() > CHARS_MAX => {
                format!("{:?}", text.chars().take(CHARS_MAX).chain(['…']).collect::<String>())
            }
            Raw::Text(text) => format!("{text:?}"),
            Raw::List(_) => "a list".into(),
            Raw::Object => "an object".into(),
        }
    }

    /// Converts text from a command line or a variable to what a file would contain.
    pub(crate) fn raw_of(self, text: &str) -> Raw {
        match self {
            Self::Bool if text == "true" || text == "false" => Raw::Bool(text == "true"),
            Self::Number { .. } => Raw::Number(text.trim().to_owned()),
            // Written as JSON, because plain text does not show where the words of a command end.
            Self::Command => match serde_json::from_str::<Vec<String>>(text) {
                Ok(words) => Raw::List(words.into_iter().map(Raw::Text).collect()),
                Err(_) => Raw::Text(text.to_owned()),
            },
            _ if self.is_list() => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                Raw::List(words.map(|word| Raw::Text(word.to_owned())).collect())
            }
            _ => Raw::Text(text.to_owned()),
        }
    }
}

/// Parses an address or a range for `network.allow` (REST-6); the error says what it must be.
pub fn parse_range(raw: &str) -> Result<IpNet, String> {
    const FORM: &str = "an address or a range, such as 10.0.0.0/8, 192.168.1.7 or fd00::/8";
    let net = match raw.parse::<IpNet>() {
        Ok(net) => net,
        Err(_) => IpNet::from(raw.parse::<IpAddr>().map_err(|_| FORM.to_owned())?),
    };
    if let IpAddr::V6(address) = net.addr()
        && let Some(inner) = mapped(address)
    {
        return Err(format!("in the form of its own family: {inner}"));
    }
    if net.addr() != net.network() {
        return Err(format!("{} for the range or {} for the address", net.trunc(), net.addr()));
    }
    Ok(net)
}

/// Parses an origin as browsers send it: lower case, and without the scheme's default port.
fn parse_origin(raw: &str) -> Option<String> {
    let raw = raw.to_ascii_lowercase();
    let (scheme, authority) = raw.split_once("://")?;
    let usual_port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => return None,
    };
    let authority = authority.strip_suffix(usual_port).unwrap_or(authority);
    // An origin has no path, query or user name, unlike other URLs.
    let is_plain = !authority.contains(['/', '?', '#', '@', '*', ',', ' ']);
    let url = format!("{scheme}://{authority}");
    parse_url(&url).filter(|_| is_plain).map(|_| url)
}

/// Parses a media type without parameters, in lower case. The subtype, or both parts, may be `*`.
pub fn parse_media_type(raw: &str) -> Option<String> {
    const BYTES_MAX: usize = 127;
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let (kind, subtype) = raw.split_once('/')?;
    let is_type = match (kind, subtype) {
        ("*", "*") => true,
        (kind, "*") => is_name(kind),
        (kind, subtype) => is_name(kind) && is_name(subtype),
    };
    (is_type && raw.len() <= BYTES_MAX).then(|| raw.to_ascii_lowercase())
}

fn mapped(address: Ipv6Addr) -> Option<std::net::Ipv4Addr> {
    address.to_ipv4_mapped()
}

fn range(raw: &str) -> Result<String, String> {
    let net = parse_range(raw)?;
    let single = net.prefix_len() == net.max_prefix_len();
    Ok(if single { net.addr().to_string() } else { net.to_string() })
}

/// Parses a host as in a Host header, without port; returns it in lower case.
fn host(raw: &str) -> Option<String> {
    let bare = raw.strip_prefix('[').and_then(|raw| raw.strip_suffix(']')).unwrap_or(raw);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let part = |part: &str| {
        (1..=63).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    (raw.len() <= 253 && raw.split('.').all(part)).then(|| raw.to_ascii_lowercase())
}

/// Parses an `http` or `https` URL with its path and returns it without a trailing slash. It must
/// not contain user name, password or query, because others get to see it.
pub fn parse_url(raw: &str) -> Option<String> {
    let (scheme, rest) = raw.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port.parse::<u16>().ok()?)),
        _ => (authority, None),
    };
    let in_path = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/".contains(&b);
    let is_whole = matches!(scheme.as_str(), "http" | "https") && path.bytes().all(in_path);
    // IPv6 addresses must be in brackets.
    let name = if name.contains(':') && !name.starts_with('[') { None } else { host(name) }?;
    if !is_whole || raw.len() > URL_BYTES_MAX {
        return None;
    }
    let name = if name.contains(':') { format!("[{name}]") } else { name };
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("{scheme}://{name}{port}/{path}").trim_end_matches('/').to_owned())
}

fn is_line(raw: &str) -> bool {
    (1..=LINE_CHARS_MAX).contains(&raw.chars().count())
        && raw.trim() == raw
        && !raw.chars().any(char::is_control)
}

fn is_variable(raw: &str) -> bool {
    let first = raw.bytes().next().is_some_and(|b| b.is_ascii_uppercase() || b == b'_');
    // Upper case only: a secret put here by mistake almost always has other characters.
    first
        && raw.len() <= 128
        && raw.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Resolves a path; the error says what it must be.
fn resolve(raw: &str, ground: Ground<'_>) -> Result<PathBuf, String> {
    if raw.is_empty() || raw.len() > 4096 || raw.chars().any(char::is_control) {
        return Err(Kind::Path.allowed());
    }
    match raw.strip_prefix('~') {
        Some("") => Err("a file, not a folder".into()),
        Some(rest) if rest.starts_with('/') => match ground.user {
            Some(user) => Ok(user.join(rest.trim_start_matches('/'))),
            None => Err("a path without `~`, since HOME is not set".into()),
        },
        Some(_) => Err("a path; only your own folder is known as `~/`, write others in full".into()),
        None => Ok(ground.folder.join(raw)),
    }
}

/// Parses the words of a command; the error says what was found instead. A relative program path is
/// refused, because it would be resolved in the folder of a project.
fn command(elements: &[Raw], ground: Ground<'_>) -> Result<Vec<String>, String> {
    if elements.len() > COMMAND_WORDS_MAX {
        return Err(format!("a list of {}", elements.len()));
    }
    let mut words = Vec::with_capacity(elements.len());
    for element in elements {
        match element {
            Raw::Text(text)
                if text.len() <= COMMAND_WORD_BYTES_MAX && !text.chars().any(char::is_control) =>
            {
                words.push(text.clone());
            }
            other => return Err(format!("a list with {}", Kind::Command.found(other))),
        }
    }
    let Some(program) = words.first_mut() else { return Ok(words) };
    let bad = |program: &str| Err(format!("a list with the program {program:?}"));
    match (program.strip_prefix("~/"), ground.user) {
        (Some(rest), Some(user)) => *program = user.join(rest).to_string_lossy().into_owned(),
        (Some(_), None) => return bad(program),
        (None, _) if program.trim().is_empty() || program.contains('/') && !program.starts_with('/') => {
            return bad(program);
        }
        (None, _) => {}
    }
    Ok(words)
}

fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [all @ .., last] => format!("{} or {last}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground() -> Ground<'static> {
        Ground { folder: Path::new("/s"), user: Some(Path::new("/u")) }
    }

    #[test]
    fn every_kind_takes_its_own_example() {
        for key in crate::KEYS {
            let value = key.kind.example();
            assert_eq!(key.kind.check(&key.kind.raw_of(&value.shown()), ground()), Ok(value), "{}", key.path);
        }
    }

    /// REST-6: IPv4 and IPv6 addresses and ranges.
    #[test]
    fn ranges() {
        let good = [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.168.1.7", "192.168.1.7"),
            ("192.168.1.7/32", "192.168.1.7"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::1", "::1"),
            ("FD00::/8", "fd00::/8"),
            ("2001:db8::/32", "2001:db8::/32"),
        ];
        for (raw, shown) in good {
            assert_eq!(range(raw).as_deref(), Ok(shown), "{raw}");
        }
        let bad = [
            ("", "an address or a range"),
            ("10.0.0.0/33", "an address or a range"),
            ("10.0.0/8", "an address or a range"),
            ("10.0.0.0/", "an address or a range"),
            ("010.0.0.1", "an address or a range"),
            ("localhost", "an address or a range"),
            ("10.0.0.1:80", "an address or a range"),
            ("fe80::1%eth0", "an address or a range"),
            ("*", "an address or a range"),
            ("10.0.0.5/8", "10.0.0.0/8 for the range or 10.0.0.5 for the address"),
            ("::ffff:10.0.0.1", "in the form of its own family: 10.0.0.1"),
        ];
        for (raw, told) in bad {
            assert!(range(raw).unwrap_err().starts_with(told), "{raw}: {:?}", range(raw));
        }
    }

    #[test]
    fn hosts() {
        for (raw, expected) in [
            ("Box.example.org", Some("box.example.org")),
            ("localhost", Some("localhost")),
            ("192.168.1.7", Some("192.168.1.7")),
            ("[::1]", Some("::1")),
            ("box:8100", None),
            ("http://box", None),
            ("", None),
            ("a..b", None),
            ("-a", None),
            ("a b", None),
            ("böx", None),
        ] {
            assert_eq!(host(raw).as_deref(), expected, "{raw}");
        }
    }

    #[test]
    fn urls() {
        for (raw, expected) in [
            ("https://Box.example", Some("https://box.example")),
            ("HTTPS://box.example/", Some("https://box.example")),
            ("http://box:8100/a/b/", Some("http://box:8100/a/b")),
            ("https://[::1]:8443/x%20y", Some("https://[::1]:8443/x%20y")),
            ("box.example", None),
            ("ftp://box", None),
            ("https://", None),
            ("https:///x", None),
            ("https://a:b@box", None),
            ("https://box?x=1", None),
            ("https://box/#x", None),
            ("https://box/x?y", None),
            ("https://box/a b", None),
            ("https://box:99999", None),
            ("https://::1", None),
            ("https://box/\u{e9}", None),
        ] {
            assert_eq!(parse_url(raw).as_deref(), expected, "{raw}");
        }
    }

    #[test]
    fn paths() {
        let path = |raw| resolve(raw, ground());
        assert_eq!(path("/a/b"), Ok("/a/b".into()));
        assert_eq!(path("~/b"), Ok("/u/b".into()));
        assert_eq!(path("~//b"), Ok("/u/b".into()));
        assert_eq!(path("a/b"), Ok("/s/a/b".into()));
        for raw in ["", "~", "~ana/b", "a\nb", "a\0b", &"x".repeat(5000)] {
            assert!(path(raw).is_err(), "{raw}");
        }
        let nobody = Ground { user: None, ..ground() };
        assert!(resolve("~/b", nobody).unwrap_err().contains("HOME is not set"));
    }

    #[test]
    fn command_is_a_list_whose_program_no_project_can_provide() {
        let check = |words: &[&str]| {
            let raw = Raw::List(words.iter().map(|word| Raw::Text((*word).to_owned())).collect());
            Kind::Command.check(&raw, ground()).map(Value::list)
        };
        assert_eq!(
            check(&["notify-send", "a", "a", ""]),
            Ok(["notify-send", "a", "a", ""].map(str::to_owned).into())
        );
        assert_eq!(check(&["~/bin/tell"]), Ok(vec!["/u/bin/tell".to_owned()]));
        assert_eq!(check(&["/usr/bin/tell", "./x"]), Ok(["/usr/bin/tell", "./x"].map(str::to_owned).into()));
        assert_eq!(check(&[]), Ok(vec![]), "no command");
        let long = "x".repeat(5000);
        let bad: [&[&str]; 7] =
            [&["./tell"], &["bin/tell"], &["../tell"], &[""], &[" "], &["a\0"], &["a", &long]];
        for words in bad {
            assert!(check(words).is_err(), "{words:?}");
        }
        let shell = Kind::Command.check(&Kind::Command.raw_of("notify-send Synapse; id"), ground());
        assert!(shell.is_err(), "a line for a shell");
    }

    #[test]
    fn a_secret_in_place_of_its_variable_is_not_repeated() {
        let found = Kind::Variable.check(&Raw::Text("hunter2".into()), ground()).unwrap_err();
        assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
    }
}
