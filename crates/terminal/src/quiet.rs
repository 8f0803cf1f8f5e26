//! Typing to a program whose profile has no composer: only if its user asked for it, while its screen is quiet, and
//! with proof that the program shows what is typed.
//!
//! Nobody knows where such a program takes text. So its cursor counts as the place, and the text counts as written only
//! if it appears there, directly behind what stood before the cursor. Enter depends on that (`turn`).
//! Invariant: in doubt the text is not there. Nothing here says that a program with a draft is free.
//! Not here: what is done about it (`turn`), how a described composer is read (`composer`).

use crate::held::Held;
use crate::screen::Screen;
use crate::text::{Typed, bones};
use crate::tokens::Token;
use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use synapse_core::ids::Timestamp;

/// When messages are typed to a program whose profile has no composer. Without this they never are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TypeWhen {
    /// While its screen is quiet. Never into a shell.
    Quiet,
    /// The same, also into a shell, which runs each message as a command.
    QuietShell,
}

impl TypeWhen {
    /// Whether messages may be typed to this program, given by its name or path.
    pub fn allows(self, program: &str) -> bool {
        self == Self::QuietShell || !runs_commands(program)
    }
}

/// Shells, and programs that usually start one.
// tidy: table
const SHELLS: &[&str] = &[
    "ash",
    "bash",
    "csh",
    "dash",
    "elvish",
    "fish",
    "ksh",
    "ksh93",
    "mksh",
    "nu",
    "oksh",
    "osh",
    "pdksh",
    "posh",
    "powershell",
    "pwsh",
    "rbash",
    "rc",
    "sh",
    "tcsh",
    "xonsh",
    "yash",
    "ysh",
    "zsh",
    "busybox",
    "chroot",
    "docker",
    "doas",
    "env",
    "kubectl",
    "login",
    "machinectl",
    "mosh",
    "nohup",
    "nsenter",
    "podman",
    "rlwrap",
    "rsh",
    "screen",
    "script",
    "setsid",
    "ssh",
    "stdbuf",
    "su",
    "sudo",
    "telnet",
    "tmux",
    "toybox",
    "unshare",
    "zellij",
];

/// Whether this is a shell or a program that starts one, by its name or path.
pub fn runs_commands(program: &str) -> bool {
    let file = program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    // Versions are part of some names: `bash-5.2`, `zsh5`.
    let stem = file.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '_'));
    let stem = stem.trim_start_matches('-').trim_end_matches(".exe");
    SHELLS.contains(&stem) || SHELLS.contains(&file.as_str())
}

/// Nothing was printed for so long: the screen is quiet.
pub(crate) const QUIET_MS: u64 = 2_000;
/// Behind our text the cursor may be so many columns away: we end it with a blank.
const GAP_MAX: usize = 2;
/// If the text ends so near the right edge, the cursor may be in the next row.
const EDGE_MAX: usize = 6;

static ASKS_SECRET: LazyLock<Regex> = LazyLock::new(|| {
    let words =
        r"password|passphrase|passcode|pin|otp|secret|token|api[ _-]?key|credentials?|kennwort|passwort";
    Regex::new(&format!(r"(?i)\b({words})\b([^:?>]{{0,60}}[:?>])?\s*$"))
        .expect("a constant that a test matches")
});

/// A question that a line, or Enter alone, would answer.
static ASKS: LazyLock<Regex> = LazyLock::new(|| {
    let forms = [
        r"[\[(]\s*(y|yes|n|no)\s*[/|,]",
        r"[/|,]\s*(y|yes|n|no)\s*[\])]",
        r"\[?\(?[\[(]?y[\])]?(es)?\s*/\s*[\[(]?n[\])]?",
        r"\bpress\s+(enter|return|any\s+key)\b",
        r"\?[\s\])>:]*$",
    ];
    Regex::new(&format!("(?i)({})", forms.join("|"))).expect("a constant that a test matches")
});

/// What is known of a line that is being written at the cursor.
#[derive(Debug, Clone, Default)]
pub(crate) struct LineInput {
    draft: Draft,
    /// Our own text, from when it was written until the one after it.
    ours: Option<Written>,
}

/// Whether somebody's text may be in the line.
#[derive(Debug, Clone, Default)]
enum Draft {
    #[default]
    None,
    /// Something was typed; what stood before the cursor until then, if that is known.
    Touched { prompts: Vec<String> },
    /// Then Enter or Ctrl-C was pressed. That may only have chosen a completion: the draft is gone once the same
    /// prompt is before the cursor again.
    Entered { prompts: Vec<String> },
}

/// Prompts that are remembered. A program may ask for something else first.
const PROMPTS_MAX: usize = 2;

#[derive(Debug, Clone)]
struct Written {
    /// What was on the screen up to the cursor before.
    before: String,
    is_entered: bool,
}

/// Where a text of ours is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Echo {
    /// Nothing of ours was written since the last Enter.
    Nothing,
    /// This is new between the old place of the cursor and its new one, without blanks. After Enter it may be
    /// anything.
    Shown { text: String, is_entered: bool },
    /// The cursor is elsewhere now.
    Gone,
}

impl LineInput {
    /// What was typed before is not known.
    pub(crate) fn forget(&mut self) {
        self.draft = Draft::Touched { prompts: Vec::new() };
    }

    /// A key goes to the program, which shows this screen until then.
    pub(crate) fn take(&mut self, token: Token, is_pasted: bool, screen: &Screen) {
        if matches!(token, Token::Report | Token::Release) {
            return;
        }
        let enters = matches!(token, Token::Enter | Token::Cancel) && !is_pasted;
        let prompts = match std::mem::take(&mut self.draft) {
            Draft::Touched { prompts } => prompts,
            // Another prompt, or a draft that Enter has left there: after the next Enter it tells which.
            Draft::Entered { mut prompts } if !is_before_cursor(&prompts, screen) => {
                if !enters {
                    prompts.push(prompt_of(screen));
                    prompts.drain(..prompts.len().saturating_sub(PROMPTS_MAX));
                }
                prompts
            }
            Draft::None | Draft::Entered { .. } => vec![prompt_of(screen)],
        };
        if enters {
            self.ours.iter_mut().for_each(|ours| ours.is_entered = true);
        }
        self.draft = if enters { Draft::Entered { prompts } } else { Draft::Touched { prompts } };
    }

    /// Whether a text of somebody else may be in the line.
    fn is_touched(&self, screen: &Screen) -> bool {
        match &self.draft {
            Draft::None => false,
            Draft::Touched { .. } => true,
            Draft::Entered { prompts } => !is_before_cursor(prompts, screen),
        }
    }

    /// A text of ours is about to be written.
    pub(crate) fn begin(&mut self, screen: &Screen) {
        self.ours = Some(Written { before: text_before_cursor(screen), is_entered: false });
    }

    /// Nobody follows our text any more. What is left of it counts as typed by anybody.
    pub(crate) fn end(&mut self) {
        self.ours = None;
    }

    /// Whether a text of ours was written and not entered.
    fn is_written(&self) -> bool {
        self.ours.as_ref().is_some_and(|ours| !ours.is_entered)
    }

    /// Why nothing may be typed, and when to look again at the latest.
    pub(crate) fn bar(
        &self,
        now: Timestamp,
        printed_at: Timestamp,
        screen: &Screen,
    ) -> Option<(Held, Option<Timestamp>)> {
        let quiet_at = printed_at.plus_ms(QUIET_MS);
        let (row, column) = screen.cursor();
        match () {
            () if self.is_written() => None,
            () if ASKS_SECRET.is_match(&screen.row(row)) => Some((Held::Secret, None)),
            () if ASKS.is_match(&last_words(screen, row, column)) => Some((Held::Waiting, None)),
            () if quiet_at > now => Some((Held::NotQuiet, Some(quiet_at))),
            () if !screen.cursor_is_visible() => Some((Held::NoCursor, None)),
            () if self.is_touched(screen) => Some((Held::Touched, None)),
            () => None,
        }
    }

    pub(crate) fn echo(&self, screen: &Screen) -> Echo {
        let Some(ours) = &self.ours else { return Echo::Nothing };
        if !is_at_cursor(screen) {
            return if ours.is_entered { Echo::Nothing } else { Echo::Gone };
        }
        let now = text_before_cursor(screen);
        // Rows may have left the screen at its top.
        let ends = now.char_indices().map(|(at, _)| at).chain([now.len()]).rev();
        let kept = ends.into_iter().find(|end| ours.before.ends_with(&now[..*end])).unwrap_or(0);
        Echo::Shown { text: now[kept..].to_owned(), is_entered: ours.is_entered }
    }
}

/// The row up to the cursor. Numbers count as one: some prompts count.
fn prompt_of(screen: &Screen) -> String {
    let (row, column) = screen.cursor();
    let text = screen.row_upto(row, column);
    text.trim_end().chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect()
}

/// Whether one of these prompts is before the cursor again. If none is known, nobody can tell.
fn is_before_cursor(prompts: &[String], screen: &Screen) -> bool {
    prompts.is_empty() || prompts.contains(&prompt_of(screen))
}

/// What is before the cursor, or in the last row above it that has text.
fn last_words(screen: &Screen, row: usize, column: usize) -> String {
    let own = screen.row_upto(row, column);
    let above = || (0..row).rev().map(|row| screen.row(row)).find(|text| !text.trim().is_empty());
    if own.trim().is_empty() { above().unwrap_or_default() } else { own }
}

/// Whether a text that was written is all that is new at the cursor.
pub(crate) fn is_whole(shown: &str, typed: &Typed) -> bool {
    shown == plain(typed.as_str())
}

/// Text without blanks and without the edges of boxes, which may be in any row of it.
fn plain(text: &str) -> String {
    bones(text).chars().filter(|c| !matches!(c, '\u{2500}'..='\u{259f}')).collect()
}

fn text_before_cursor(screen: &Screen) -> String {
    let (row, column) = screen.cursor();
    let above: String = (0..row).map(|row| plain(&screen.row(row))).collect();
    above + &plain(&screen.row_upto(row, column))
}

/// Whether text ends at the cursor. After Enter the cursor is in another row.
fn is_at_cursor(screen: &Screen) -> bool {
    let (row, column) = screen.cursor();
    let in_row = screen.row_upto(row, column);
    let text = in_row.trim_end();
    if !plain(text).is_empty() {
        return in_row.chars().count() - text.chars().count() <= GAP_MAX;
    }
    let above = row.checked_sub(1).map(|above| screen.row(above)).unwrap_or_default();
    above.chars().count() + EDGE_MAX >= usize::from(screen.size().columns())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Size;

    #[test]
    fn shells_are_known_by_name() {
        for shell in ["bash", "/bin/sh", "zsh-5.9", "-bash", "fish", "pwsh", "ssh", "sudo", "tmux", "BASH"] {
            assert!(runs_commands(shell), "{shell}");
            assert!(!TypeWhen::Quiet.allows(shell) && TypeWhen::QuietShell.allows(shell), "{shell}");
        }
        for other in ["python3", "./agent", "cn", "/usr/bin/pi", "shout", "screenshot", ""] {
            assert!(!runs_commands(other), "{other}");
        }
    }

    #[test]
    fn questions_for_secrets_are_seen() {
        for row in [
            "Password:",
            "Enter passphrase for key '/a/b': ",
            "[sudo] password for ana:",
            "API key > ",
            "PIN?",
        ] {
            assert!(ASKS_SECRET.is_match(row), "{row}");
        }
        for row in [
            ">>> ",
            "ana> ",
            "spinning",
            "I changed the password. What else?  >",
            "> token counts are fine, he said",
        ] {
            assert!(!ASKS_SECRET.is_match(row), "{row}");
        }
    }

    /// Types one line, as a program with this prompt would show it; what is seen of it.
    fn echoed(rows: u16, before: &str, shown: &str, then: &str) -> Echo {
        let mut screen = Screen::new(Size::new(40, rows), 0);
        screen.feed(before.as_bytes(), &mut Vec::new());
        let mut line = LineInput::default();
        line.begin(&screen);
        screen.feed(shown.as_bytes(), &mut Vec::new());
        if !then.is_empty() {
            line.take(Token::Enter, false, &screen);
        }
        screen.feed(then.as_bytes(), &mut Vec::new());
        line.echo(&screen)
    }

    fn shown(text: &str) -> Echo {
        Echo::Shown { text: text.to_owned(), is_entered: false }
    }

    #[test]
    fn text_is_seen_only_behind_what_stood_before_the_cursor() {
        let typed = Typed::line("[A2A:0011:ana]", "tell me about the weather in Berlin today");
        let text = typed.as_str();
        let whole = |echo: &Echo| matches!(echo, Echo::Shown { text, .. } if is_whole(text, &typed));
        // A line editor, with room and at the bottom of a small screen.
        assert!(whole(&echoed(10, "Python 3\r\n>>> ", text, "")));
        assert!(whole(&echoed(2, "Python 3\r\n>>> ", text, "")));
        // A box that draws all of it again, with a placeholder and its edges.
        let boxed = "\u{1b}[H╭──────╮\r\n│ > Ask anything       │\r\n╰──────╯\u{1b}[2;5H";
        let drawn = format!(
            "\u{1b}[H╭──────╮\r\n│ > {}│\r\n│   {}  │\r\n╰──────╯\u{1b}[3;{}H",
            &text[..30],
            &text[30..],
            5 + text[30..].chars().count()
        );
        assert!(whole(&echoed(10, boxed, &drawn, "")), "{:?}", echoed(10, boxed, &drawn, ""));
        // A password, another text, something else beside it, output that came in between.
        assert_eq!(echoed(10, "> ", "", ""), shown(""));
        assert_eq!(echoed(10, "> ", "***", ""), shown("***"));
        assert!(!whole(&echoed(10, "> ", &format!("{text}draft "), "")));
        assert_eq!(echoed(10, "> ", &format!("{text}\r\n"), ""), Echo::Gone);
        assert!(!whole(&echoed(10, "> ", &format!("{text}\r\nlog line\r\n> "), "")));
        // After Enter.
        assert_eq!(echoed(10, ">>> ", text, "\r\n"), Echo::Nothing);
        assert!(!whole(&echoed(10, ">>> ", text, "\r\n42\r\n>>> ")));
    }

    #[test]
    fn keys_of_a_person_count_until_enter() {
        let screen = Screen::new(Size::new(40, 5), 0);
        let mut line = LineInput::default();
        let bar = |line: &LineInput, at| line.bar(Timestamp(at), Timestamp(0), &screen).map(|(held, _)| held);
        assert_eq!(bar(&line, QUIET_MS - 1), Some(Held::NotQuiet));
        assert_eq!(bar(&line, QUIET_MS), None);
        // An arrow may bring back an earlier line.
        for key in [Token::Key, Token::Text('a'), Token::Tab, Token::Clear] {
            line.take(key, false, &screen);
            assert_eq!(bar(&line, QUIET_MS), Some(Held::Touched), "{key:?}");
            line.take(Token::Enter, false, &screen);
            assert_eq!(bar(&line, QUIET_MS), None);
        }
        line.take(Token::Report, false, &screen);
        assert_eq!(bar(&line, QUIET_MS), None);
        line.forget();
        assert_eq!(bar(&line, QUIET_MS), Some(Held::Touched));
    }

    fn at_cursor(text: &str) -> Screen {
        let mut screen = Screen::new(Size::new(60, 8), 0);
        screen.feed(text.as_bytes(), &mut Vec::new());
        screen
    }

    /// Enter may only choose a completion or continue a line: then the draft is still there.
    #[test]
    fn draft_is_gone_only_once_its_prompt_is_back() {
        let (empty, drafted) = (at_cursor("In [7]: "), at_cursor("In [7]: look at @src/main.rs "));
        let held = |line: &LineInput, screen: &Screen| {
            line.bar(Timestamp(QUIET_MS), Timestamp(0), screen).map(|(held, _)| held)
        };
        let mut line = LineInput::default();
        line.take(Token::Text('l'), false, &empty);
        for key in [Token::Enter, Token::Cancel] {
            line.take(key, false, &drafted);
            assert_eq!(held(&line, &drafted), Some(Held::Touched), "{key:?} left it there");
            assert_eq!(held(&line, &at_cursor("In [7]: x = (\r\n   ...: ")), Some(Held::Touched));
        }
        assert_eq!(held(&line, &at_cursor("In [7]: done\r\nIn [8]: ")), None);
        line.take(Token::Text('l'), false, &at_cursor("In [8]: "));
        assert_eq!(held(&line, &at_cursor("In [8]: l")), Some(Held::Touched));
    }

    /// A program that asks for a name first, and then has another prompt.
    #[test]
    fn second_line_at_a_new_prompt_makes_it_known() {
        let (name, ready) = (at_cursor("Name: "), at_cursor("ready> "));
        let held = |line: &LineInput, screen: &Screen| {
            line.bar(Timestamp(QUIET_MS), Timestamp(0), screen).map(|(held, _)| held)
        };
        let mut line = LineInput::default();
        line.take(Token::Text('a'), false, &name);
        line.take(Token::Enter, false, &at_cursor("Name: a"));
        assert_eq!(held(&line, &ready), Some(Held::Touched), "it may be a draft");
        line.take(Token::Text('x'), false, &ready);
        line.take(Token::Enter, false, &at_cursor("ready> x"));
        assert_eq!(held(&line, &ready), None);
    }

    /// A line, or Enter alone, would answer these, whatever the profile knows.
    #[test]
    fn questions_are_not_answered_by_messages() {
        let line = LineInput::default();
        let held =
            |text: &str| line.bar(Timestamp(QUIET_MS), Timestamp(0), &at_cursor(text)).map(|(held, _)| held);
        for question in [
            "Run rm -rf build? [Y/n] ",
            "Proceed ([y]/n)? ",
            "Add it? (Y)es/(N)o [Yes]: ",
            "Overwrite [y/N/a] ",
            "Sure (yes/no): ",
            "Continue? ",
            "Continue?\r\n",
            "Press Enter to continue",
            "-- press any key --",
        ] {
            assert_eq!(held(question), Some(Held::Waiting), "{question:?}");
        }
        for prompt in [">>> ", "you> ", "In [3]: ", "(venv) agent: ", "[12:30] ana> ", "1/2 > ", ""] {
            assert_eq!(held(prompt), None, "{prompt:?}");
        }
    }
}
