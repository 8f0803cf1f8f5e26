//! Permission requests: what a program itself says that it asks about, told by its hook or by its server.
//!
//! A request can be longer than the screen. But tools run as processes of the agent and could send a hook's event too,
//! so a request never replaces what the screen shows: it has to agree with it.
//! Not here: how requests arrive (`hooks`, `opencode`), what a person is shown (`prompt`).

use crate::hooks::Text;

/// One permission that a program asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRequest {
    pub source: RequestSource,
    /// Tells it from the same request asked again.
    pub id: String,
    pub tool: String,
    /// What is to be run; none for tools that run nothing.
    pub command: Option<Text>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestSource {
    Hook,
    Server,
}

impl RequestSource {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Server => "server",
        }
    }
}

/// How requests compare with a question on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Agreement<'a> {
    /// No request names a command.
    Silent,
    Agrees(&'a PermissionRequest),
    /// The screen shows something else.
    Disagrees(&'a PermissionRequest),
    /// Different requests are open, and the screen does not tell which of them it shows.
    Ambiguous(&'a PermissionRequest),
}

/// Requests kept for one question; programs ask a few at once.
pub(crate) const REQUESTS_MAX: usize = 16;
/// So much of a command has to be visible before the rest is believed.
const PART_CHARS_MIN: usize = 40;

/// Compares requests with the rows of a question, of which a part may be missing.
pub(crate) fn compare<'a>(
    requests: &'a [PermissionRequest],
    rows: &[String],
    is_complete: bool,
) -> Agreement<'a> {
    let rows: Vec<String> = rows.iter().map(|row| squeezed(inside(row))).collect();
    let fits = |request: &&PermissionRequest| {
        let Some(command) = request.command.as_ref() else { return false };
        let whole = squeezed(&command.text);
        match is_complete {
            true => command.is_whole() && has_run(&rows, &whole),
            false => command.is_whole() && has_part(&rows, &whole),
        }
    };
    let Some(one) = requests.iter().find(fits) else {
        return match requests.last() {
            Some(last) if requests.iter().all(|request| request.command.is_some()) => {
                Agreement::Disagrees(last)
            }
            _ => Agreement::Silent,
        };
    };
    // Text of one request may quote another. What is not visible could be any of them. Of what is visible in full,
    // only those that fit count, and those whose own text is cut, so that nobody knows whether they fit.
    let may_be_meant = |other: &&PermissionRequest| {
        !is_complete || fits(other) || other.command.as_ref().is_some_and(|command| !command.is_whole())
    };
    match requests.iter().filter(may_be_meant).any(|other| other.command != one.command) {
        true => Agreement::Ambiguous(one),
        false => Agreement::Agrees(one),
    }
}

/// Whether some rows, put together, are this text. The first may have a prompt sign in front.
fn has_run(rows: &[String], text: &str) -> bool {
    !text.is_empty()
        && (0..rows.len()).any(|first| {
            starts(&rows[first]).into_iter().any(|start| {
                let mut left = text.strip_prefix(start);
                let mut more = rows[first + 1..].iter();
                while let Some(rest) = left.filter(|rest| !rest.is_empty()) {
                    left = more.next().and_then(|row| rest.strip_prefix(row.as_str()));
                }
                left.is_some() && !start.is_empty()
            })
        })
}

/// Whether the uppermost rows are the end of this text, or some rows its beginning.
fn has_part(rows: &[String], text: &str) -> bool {
    let mut seen = String::new();
    let is_end = rows.iter().any(|row| {
        seen.push_str(row);
        seen.chars().count() >= PART_CHARS_MIN && text.ends_with(&seen)
    });
    is_end
        || (0..rows.len()).any(|first| {
            starts(&rows[first]).into_iter().any(|start| {
                let Some(mut left) = text.strip_prefix(start).filter(|_| !start.is_empty()) else {
                    return false;
                };
                for row in &rows[first + 1..] {
                    let Some(rest) = left.strip_prefix(row.as_str()) else { break };
                    left = rest;
                }
                text.chars().count() - left.chars().count() >= PART_CHARS_MIN
            })
        })
}

fn starts(row: &str) -> [&str; 2] {
    [row, row.strip_prefix('$').unwrap_or(row)]
}

/// A row without the edges of boxes around it.
fn inside(row: &str) -> &str {
    row.trim_matches(|c: char| c.is_whitespace() || "│┃║".contains(c))
}

/// Programs wrap and indent: only what is not blank is compared.
fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: &str, command: Option<&str>) -> PermissionRequest {
        let command = command.map(|text| Text { text: text.into(), bytes: text.len() as u64 });
        PermissionRequest { source: RequestSource::Hook, id: id.into(), tool: "Bash".into(), command }
    }

    fn told(commands: &[Option<&str>], rows: &str, is_complete: bool) -> String {
        let all: Vec<_> = commands.iter().enumerate().map(|(n, c)| request(&n.to_string(), *c)).collect();
        let rows: Vec<String> = rows.lines().map(str::to_owned).collect();
        match compare(&all, &rows, is_complete) {
            Agreement::Silent => "silent".into(),
            Agreement::Agrees(one) => format!("agrees {}", one.id),
            Agreement::Disagrees(one) => format!("disagrees {}", one.id),
            Agreement::Ambiguous(_) => "ambiguous".into(),
        }
    }

    #[test]
    fn command_must_be_whole_rows_of_the_question() {
        let rows = "────────\n Bash command\n echo one\n two three\n Do you want to proceed?\n ❯ 1. Yes";
        for (command, expected) in [
            ("echo one\ntwo three", "agrees 0"),
            ("echo onetwo   three", "agrees 0"),
            ("echo one", "agrees 0"),
            ("echo", "disagrees 0"),
            ("echo one\ntwo three four", "disagrees 0"),
            ("rm -rf /\necho one\ntwo three", "disagrees 0"),
            ("", "disagrees 0"),
        ] {
            assert_eq!(told(&[Some(command)], rows, true), expected, "{command:?}");
        }
        assert_eq!(told(&[Some("ls"), Some("echo one\ntwo three")], rows, true), "agrees 1");
        assert_eq!(told(&[Some("ls"), None], rows, true), "silent", "another tool may be asked about");
        assert_eq!(told(&[], rows, true), "silent");
        for boxed in ["│ │ touch x     │ │", "  ┃  $ touch x", "  $ touch\n    x"] {
            assert_eq!(told(&[Some("touch x")], boxed, true), "agrees 0", "{boxed}");
        }
    }

    /// Finding H4: what is above the screen is taken from the hook, if that is not in doubt.
    #[test]
    fn part_that_is_visible_must_fit_exactly_one_request() {
        let tail = "line eight of a long command here\n line nine of a long command here";
        let rows = format!(" {tail}\n Do you want to proceed?\n ❯ 1. Yes");
        let (good, evil) = (format!("echo hello\n{tail}"), format!("rm -rf /\n{tail}"));
        assert_eq!(told(&[Some(&good)], &rows, false), "agrees 0");
        assert_eq!(told(&[Some(&good), Some(&good)], &rows, false), "agrees 0");
        assert_eq!(told(&[Some(&good), Some(&evil)], &rows, false), "ambiguous");
        assert_eq!(told(&[Some("ls")], &rows, false), "disagrees 0");
        assert_eq!(told(&[Some("x\nshort")], " short\n 1. Yes", false), "disagrees 0");
        // A question that is cut at its end.
        let rows = format!("  ┃ △ Permission required\n  ┃ $ {tail}\n  ┃ Allow once");
        assert_eq!(told(&[Some(&format!("{tail}\nmore"))], &rows, false), "agrees 0");
        let cut = PermissionRequest {
            command: Some(Text { text: good.clone(), bytes: 1 << 20 }),
            ..request("0", None)
        };
        assert!(matches!(compare(&[cut], &[tail.replace('\n', "")], false), Agreement::Disagrees(_)));
    }

    /// Finding H4: the description of one command quoted another that was asked at the same time, and the quoted
    /// one was shown as the command.
    #[test]
    fn quoted_request_does_not_replace_the_one_that_is_asked() {
        let tail = "line eight of a long command here\n line nine of a long command here";
        let rows = format!(" {tail}\n Do you want to proceed?\n ❯ 1. Yes");
        let (long, evil) = (format!("echo hello\n{tail}"), "rm -rf ~");
        for others in [vec![Some("ls")], vec![None], vec![Some(&*long), None], vec![Some(""), Some(&*long)]] {
            for at in 0..=others.len() {
                let mut all = others.clone();
                all.insert(at, Some(&*long));
                assert_eq!(told(&all, &rows, false), "ambiguous", "{all:?}");
            }
        }
        let quoted = "echo a perfectly harmless command that is long";
        let rows = format!(" Bash command\n {evil}\n {quoted}\n Do you want to proceed?\n ❯ 1. Yes");
        for all in [[Some(evil), Some(quoted)], [Some(quoted), Some(evil)]] {
            assert_eq!(told(&all, &rows, true), "ambiguous", "{all:?}");
        }
        assert_eq!(told(&[Some(evil), Some("ls")], &rows, true), "agrees 0");
        assert_eq!(told(&[None, Some(evil), Some(evil)], &rows, true), "agrees 1");
        let cut = PermissionRequest {
            command: Some(Text { text: evil.into(), bytes: 1 << 20 }),
            ..request("0", None)
        };
        let rows: Vec<String> = rows.lines().map(str::to_owned).collect();
        let both = [cut, request("1", Some(quoted))];
        assert!(matches!(compare(&both, &rows, true), Agreement::Ambiguous(_)));
    }
}
