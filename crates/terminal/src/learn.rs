//! Proposes a profile for a program that nobody has described, from what it showed while it was tried out.
//!
//! Patterns are made of three things only: what stood around a probe text of ours, what was on the screen before any
//! model was asked, and a fixed vocabulary (`Esc to interrupt`, `Enter to confirm`, glyphs that move). Text of a model is
//! never part of a rule. Every proposal is checked against all screens that were seen; what fits none is left out and
//! named.
//! Not here: running the program (the binary), whether the profile is saved.

mod composer;
mod pattern;
mod states;

use crate::profile::Profile;
use crate::rules::Sees;
use crate::screen::{DrawnCursor, Screen};
use std::fmt::Write as _;

/// One screen, from when on it was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shot {
    pub at_ms: u64,
    /// How long it was shown.
    pub ms: u64,
    pub rows: Vec<String>,
    pub cursor: (usize, usize),
    /// Where the program may have drawn a cursor of its own.
    pub drawn: Vec<DrawnCursor>,
    /// Of each row the faint text.
    pub faint: Vec<String>,
    pub title: String,
}

impl Shot {
    pub fn of(screen: &Screen, at_ms: u64) -> Self {
        Self {
            at_ms,
            ms: 0,
            rows: screen.rows(),
            cursor: screen.cursor(),
            drawn: screen.drawn_cursors(),
            faint: screen.faint_rows(),
            title: screen.title().to_owned(),
        }
    }

    /// Whether both show the same.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.rows, &self.title) == (&other.rows, &other.title)
    }
}

/// All that was seen of a program.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    /// While it took input and none had been typed: before and after its turns.
    pub empty: Vec<Shot>,
    /// With this text typed and not submitted.
    pub typed: Vec<(Shot, String)>,
    pub working: Vec<Shot>,
    pub waiting: Vec<Shot>,
    /// What it calls itself in its own status reports.
    pub apps: Vec<String>,
    /// It knows bracketed pastes.
    pub takes_pastes: bool,
}

/// A pattern, and the row that it was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    pub pattern: String,
    pub seen: String,
}

/// Where text is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProposedComposer {
    pub begin: Option<Proposed>,
    pub mark: Option<Proposed>,
    pub frame: Option<Proposed>,
    pub right: Option<Proposed>,
    pub end: Option<Proposed>,
    pub placeholders: Vec<Proposed>,
    /// The program draws its own cursor, and that of the terminal is elsewhere.
    pub is_cursor_drawn: bool,
}

/// A rule for a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedRule {
    pub state: &'static str,
    /// `any` or `all` of these.
    pub quantifier: &'static str,
    pub patterns: Vec<Proposed>,
    /// How much of the time in which it should fit it did, in percent.
    pub fits_percent: u64,
}

/// A profile as proposed, and what could not be found.
#[derive(Debug, Clone, Default)]
pub struct Proposal {
    pub apps: Vec<String>,
    pub title: Vec<ProposedRule>,
    pub screen: Vec<ProposedRule>,
    pub composer: Option<ProposedComposer>,
    /// Its composer was filled with keys, since it knows no pastes.
    pub takes_keys: bool,
    pub missing: Vec<String>,
}

impl Proposal {
    pub fn of(seen: &Observations) -> Self {
        let mut missing = Vec::new();
        let composer = composer::find(seen).map_err(|why| missing.push(format!("composer: {why}"))).ok();
        let states = states::find(seen, composer.as_ref());
        missing.extend(states.missing);
        let apps = seen.apps.iter().filter(|app| is_plain(app)).cloned().collect();
        let takes_keys = composer.is_some() && !seen.takes_pastes;
        Self { apps, title: states.title, screen: states.screen, composer, takes_keys, missing }
    }

    /// The profile with its evidence. `name` is a name of a profile, `argv` the program and its arguments.
    pub fn to_yaml(&self, name: &str, argv: &[String]) -> String {
        let mut text = format!(
            "# Proposed by `synapse profile learn`. Read it before you rely on it: the comments are what was seen.\n\
             name: {name}\nabout: {}\ncommand: {}\n",
            quoted(&format!("{name}, as learned")),
            argv.first().map_or_else(|| quoted("unknown"), |command| quoted(command))
        );
        if argv.len() > 1 {
            let args: Vec<String> = argv[1..].iter().map(|arg| quoted(arg)).collect();
            let _ = writeln!(text, "# It was tried with these arguments.\nargs: [{}]", args.join(", "));
        }
        if !self.apps.is_empty() {
            let apps: Vec<String> = self.apps.iter().map(|app| quoted(app)).collect();
            let _ = writeln!(text, "status: {{ apps: [{}] }}", apps.join(", "));
        }
        for (part, rules) in [("title", &self.title), ("screen", &self.screen)] {
            if !rules.is_empty() {
                let _ = writeln!(text, "{part}:");
                rules.iter().for_each(|rule| rule.write(&mut text));
            }
        }
        if let Some(composer) = &self.composer {
            composer.write(&mut text);
        }
        if self.takes_keys {
            text.push_str(
                "# It knows no bracketed pastes, so text is typed as one line.\nsubmit: { keys: true }\n",
            );
        }
        for missing in &self.missing {
            let _ = writeln!(text, "# Not found: {}", comment(missing));
        }
        text
    }

    /// Whether it has a rule for questions that wait for a person.
    pub fn sees_questions(&self) -> bool {
        self.screen.iter().chain(&self.title).any(|rule| rule.state == "waiting")
    }

    /// Whether messages would be typed with it.
    pub fn can_type(&self) -> bool {
        let tells_idle = self.screen.iter().chain(&self.title).any(|rule| rule.state == "idle");
        self.composer.is_some() && (tells_idle || !self.apps.is_empty())
    }
}

/// A rule that fits the screens of one state and none of the others, if there is one. Rows of `shown` for `idle` become
/// patterns as they are, so they must not be a model's words.
pub fn rule_for(state: Sees, shown: &[Shot], others: &[Shot]) -> Option<ProposedRule> {
    let (shown, others): (Vec<&Shot>, Vec<&Shot>) = (shown.iter().collect(), others.iter().collect());
    let rule = states::of_state(state, &shown, &others)?;
    (rule.fits_percent == 100).then_some(rule)
}

impl ProposedRule {
    /// As lines of a list of rules in a profile, with their evidence.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "  # fits {} % of the time that it was {}", self.fits_percent, self.state);
        let _ = writeln!(text, "  - state: {}\n    {}:", self.state, self.quantifier);
        for one in &self.patterns {
            let _ = writeln!(text, "      # seen: {}\n      - {}", comment(&one.seen), quoted(&one.pattern));
        }
    }
}

impl ProposedComposer {
    fn write(&self, text: &mut String) {
        text.push_str("composer:\n");
        let parts = [
            ("begin", &self.begin),
            ("mark", &self.mark),
            ("frame", &self.frame),
            ("right", &self.right),
            ("end", &self.end),
        ];
        for (part, one) in parts.into_iter().filter_map(|(part, one)| Some((part, one.as_ref()?))) {
            let _ = writeln!(text, "  # seen: {}\n  {part}: {}", comment(&one.seen), quoted(&one.pattern));
        }
        if !self.placeholders.is_empty() {
            text.push_str("  placeholders:\n");
            for one in &self.placeholders {
                let _ = writeln!(text, "    # seen: {}\n    - {}", comment(&one.seen), quoted(&one.pattern));
            }
        }
        if self.is_cursor_drawn {
            text.push_str(
                "  # It draws its own cursor; that of the terminal is elsewhere.\n  cursor: drawn\n",
            );
        }
    }

    /// The same as the code reads it; none if it is not valid.
    fn compile(&self) -> Option<crate::composer::Composer> {
        let mut text = "name: x\ncommand: x\n".to_owned();
        self.write(&mut text);
        Profile::parse(&text).ok()?.composer
    }
}

/// A text as YAML takes it literally.
fn quoted(text: &str) -> String {
    if text.chars().any(pattern::is_odd) {
        // JSON is YAML.
        return serde_json::Value::from(text).to_string();
    }
    format!("'{}'", text.replace('\'', "''"))
}

const COMMENT_CHARS_MAX: usize = 100;

/// A row as part of a comment: in one line, and nothing hidden in it.
fn comment(row: &str) -> String {
    let shown = synapse_core::invisible::revealed(row);
    let one = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    one.chars().filter(|c| !pattern::is_odd(*c)).take(COMMENT_CHARS_MAX).collect()
}

/// A name that needs no quotes and hides nothing.
fn is_plain(name: &str) -> bool {
    (1..=40).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::drawn::CursorLook;

    /// A screen as drawn; `▮` is the cursor of the terminal, `▯` one that the program draws. What is in `«»` is faint.
    pub(super) fn shot(drawn: &str) -> Shot {
        let mut is_faint = false;
        let mut faint = |c: char| {
            is_faint = c == '«' || is_faint && c != '»';
            if is_faint || c == '\n' { c } else { ' ' }
        };
        let bare = drawn.replace(['▮', '▯'], "");
        let faint: String = bare.chars().map(&mut faint).filter(|c| *c != '«').collect();
        let drawn = &drawn.replace(['«', '»'], "");
        let plain = drawn.replace(['▮', '▯'], "");
        let rows = plain.lines().map(|row| row.trim_end().to_owned()).collect();
        let place = |mark: char| {
            let other = if mark == '▮' { '▯' } else { '▮' };
            let rows = drawn.lines().map(|row| row.replace(other, "")).enumerate();
            rows.into_iter().find_map(|(n, row)| Some((n, row.chars().position(|c| c == mark)?)))
        };
        let own = place('▯').map(|(row, column)| DrawnCursor {
            row,
            column,
            characters: column,
            look: CursorLook::Inverse,
        });
        let (cursor, drawn) = (place('▮').unwrap_or((0, 0)), own.into_iter().collect());
        let faint = faint.lines().map(str::to_owned).collect();
        Shot { at_ms: 0, ms: 100, rows, cursor, drawn, faint, title: String::new() }
    }

    pub(super) fn with_title(drawn: &str, title: &str) -> Shot {
        Shot { title: title.to_owned(), ..shot(drawn) }
    }

    #[test]
    fn proposal_is_a_whole_profile_with_its_evidence() {
        let seen = Observations {
            empty: vec![shot("Tool's 1.0\n────────────\n> ▮\n────────────\n ? for help")],
            typed: vec![(
                shot("Tool's 1.0\n────────────\n> zqprobe▮\n────────────\n ? for help"),
                "zqprobe".into(),
            )],
            working: vec![shot(
                "> hi\n⠋ Working (esc to interrupt)\n────────────\n> ▮\n────────────\n ? for help",
            )],
            apps: vec!["tool".into(), "bad\u{1b}app".into()],
            ..Observations::default()
        };
        let proposal = Proposal::of(&seen);
        let yaml =
            proposal.to_yaml("tool", &["/opt/it's/tool".into(), "-x 'y'".into(), "two\nlines\u{1b}".into()]);
        let profile = Profile::parse(&yaml).unwrap_or_else(|e| panic!("{e}\n{yaml}"));
        assert_eq!((profile.name.as_str(), profile.command.as_str()), ("tool", "/opt/it's/tool"));
        assert_eq!(
            (profile.status.apps, profile.args),
            (vec!["tool".into()], vec!["-x 'y'".to_owned(), "two\nlines\u{1b}".to_owned()])
        );
        assert!(profile.composer.is_some() && proposal.can_type(), "{yaml}");
        assert!(!proposal.sees_questions());
        assert!(yaml.contains("# seen: ⠋ Working (esc to interrupt)"), "{yaml}");
        assert!(yaml.contains("# Not found: waiting"), "{yaml}");
    }

    #[test]
    fn nothing_seen_gives_a_profile_that_types_nothing() {
        let proposal = Proposal::of(&Observations::default());
        let yaml = proposal.to_yaml("tool", &["tool".into()]);
        assert!(Profile::parse(&yaml).is_ok(), "{yaml}");
        assert!(!proposal.can_type());
        assert!(yaml.contains("# Not found: composer"), "{yaml}");
    }

    /// Rows of a program that wants to be written into a file.
    #[test]
    fn any_screens_give_a_profile_that_can_be_read() {
        type Screens = (Vec<String>, Vec<String>, Vec<String>, Vec<String>, u8, String);
        bolero::check!().with_type::<Screens>().for_each(|(empty, typed, working, waiting, at, title)| {
            let shot = |rows: &Vec<String>| Shot {
                at_ms: 0,
                ms: 10,
                rows: rows.iter().map(|row| row.replace(['\n', '\r'], " ")).collect(),
                cursor: (usize::from(*at), usize::from(*at)),
                drawn: vec![DrawnCursor {
                    row: usize::from(*at) / 2,
                    column: 2,
                    characters: 2,
                    look: if *at > 9 { CursorLook::Inverse } else { CursorLook::Block },
                }],
                faint: rows.clone(),
                title: title.clone(),
            };
            let seen = Observations {
                empty: vec![shot(empty)],
                typed: vec![(shot(typed), typed.first().cloned().unwrap_or_default())],
                working: vec![shot(working)],
                waiting: vec![shot(waiting)],
                apps: vec![title.clone()],
                takes_pastes: *at > 3,
            };
            let yaml = Proposal::of(&seen).to_yaml("tool", &["tool".into()]);
            assert!(Profile::parse(&yaml).is_ok(), "{yaml}");
        });
    }
}
