//! A prompt that waits for a person: what it asks, and the keys that decide it.
//!
//! A decision names the prompt it is about. It is pressed only if, with the keyboard in our hands, the same prompt is
//! still there: a key for one question never answers another. The hash covers everything that a person is shown:
//! every row, the command as the program itself tells it, and whether anything is missing.
//!
//! Invariant: nothing is allowed that its approver could not see; denying is always possible.

use crate::choice;
use crate::frame::{self, Extent, Frame, FrameText};
use crate::pattern::PatternText;
use crate::request::{self, Agreement, PermissionRequest};
use crate::rules::BadRule;
use crate::screen::Screen;
use crate::summary::{self, Summary};
use crate::turn::{Held, Sight};
use regex_lite::Regex;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use synapse_core::ids::Timestamp;
use synapse_core::invisible::revealed;

/// What is asked, as the screen shows it and as the program tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The rows of the question.
    pub text: String,
    /// Names this one question.
    pub hash: String,
    pub choices: Vec<String>,
    /// What it asks for, in one line.
    pub summary: Summary,
    /// All that an approver has to read, without frames, answers and the names of keys.
    pub details: String,
    /// The profile knows the keys that decide it.
    pub is_decidable: bool,
    /// Which of choices that stand side by side is marked, and taken by Enter; none if that cannot be told.
    pub marked: Option<usize>,
    /// The command, as the program itself tells it.
    pub command: Option<String>,
    /// Where the command comes from: `hook` or `server`; `screen` if it is only in the text.
    pub source: &'static str,
    /// Why it must not be allowed without a look at the terminal.
    pub doubt: Option<Doubt>,
}

/// Why a prompt does not show what it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Its beginning is not on the screen, or something is left out.
    Incomplete,
    /// The program says that it waits; the question is not drawn.
    NotDrawn,
    /// The screen shows something else than the program tells.
    Disagrees,
    /// Different commands fit what is visible.
    Ambiguous,
}

impl Doubt {
    pub fn name(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::NotDrawn => "not drawn",
            Self::Disagrees => "disagrees",
            Self::Ambiguous => "ambiguous",
        }
    }

    /// For people.
    pub fn why(self) -> &'static str {
        match self {
            Self::Incomplete => "the beginning is not visible, or a part is left out",
            Self::NotDrawn => "its program says that it waits, but shows no question",
            Self::Disagrees => "its screen shows something else than its program tells",
            Self::Ambiguous => "different commands fit the part that is visible",
        }
    }
}

const HASH_DIGITS: usize = 24;
/// Rows above the screen that are shown with a question whose beginning is not on it.
const ROWS_ABOVE: usize = 200;
/// Longest text that is shown; a screen can be larger.
const TEXT_BYTES_MAX: usize = 64 << 10;

impl Prompt {
    /// `since` is when it began to wait: the same question asked again is another prompt.
    pub fn read(
        screen: &Screen,
        since: Timestamp,
        approve: Option<&Approve>,
        requests: &[PermissionRequest],
    ) -> Self {
        let rows = screen.revealed_rows();
        let extent = frame::extent(approve.and_then(|approve| approve.frame.as_ref()), screen, &rows);
        let shown = &rows[extent.rows.clone()];
        let side_by_side = approve.map_or(&[][..], |approve| &approve.side_by_side);
        let marked = rows.iter().rposition(|row| places_in(row, side_by_side).is_some()).and_then(|row| {
            let places = places_in(&rows[row], side_by_side)?;
            let papers: Vec<_> = places.iter().map(|column| screen.paper(row, *column)).collect();
            odd_one(&papers)
        });
        let choices = choices_in(shown, side_by_side);
        let has_frame = approve.is_some_and(|approve| approve.frame.is_some());
        let (request, doubt) = judge(&extent, shown, has_frame && choices.is_empty(), requests);
        let command = request.and_then(|request| request.command.as_ref());
        // What has left the screen at its top may be old. It is shown, and proves nothing.
        let is_all = extent.is_framed || extent.is_complete;
        let above = if is_all { Vec::new() } else { screen.revealed_rows_above(ROWS_ABOVE) };
        let text = [&above, shown].concat().join("\n");
        let text = text.trim_matches('\n');
        let hash = hash_of(&[
            &since.0.to_string(),
            text,
            doubt.map_or("", Doubt::name),
            request.map_or("", |request| &request.id),
            command.map_or("", |command| &command.text),
        ]);
        let doubt = doubt.or((text.len() > TEXT_BYTES_MAX).then_some(Doubt::Incomplete));
        let told = command.map(|command| command.text.as_str());
        Self {
            summary: summarize(told, doubt, shown, extent.is_framed),
            details: details(told, shown),
            is_decidable: approve.is_some(),
            text: text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned(),
            hash,
            choices,
            marked,
            source: request.filter(|_| command.is_some()).map_or("screen", |request| request.source.name()),
            command: command.map(|command| command.text.clone()),
            doubt,
        }
    }

    /// All that an approver has to read, in one text.
    pub fn question(&self) -> String {
        let mut all = String::new();
        if let Some(command) = &self.command {
            all.push_str(&format!("command, as its {} tells it:\n{command}\n\n", self.source));
        }
        all.push_str(&self.text);
        if let Some(doubt) = self.doubt {
            all.push_str(&format!("\n\nnot to be approved from here: {}", doubt.why()));
        }
        all
    }
}

/// The request that the question is about, and why it must not be allowed.
fn judge<'a>(
    extent: &Extent,
    shown: &[String],
    is_blank: bool,
    requests: &'a [PermissionRequest],
) -> (Option<&'a PermissionRequest>, Option<Doubt>) {
    if is_blank {
        return (requests.last(), Some(Doubt::NotDrawn));
    }
    let incomplete = (!extent.is_complete).then_some(Doubt::Incomplete);
    match request::compare(requests, shown, extent.is_complete) {
        Agreement::Silent => (None, incomplete),
        Agreement::Agrees(request) => (Some(request), None),
        Agreement::Disagrees(request) => (Some(request), Some(Doubt::Disagrees)),
        Agreement::Ambiguous(request) => (Some(request), Some(Doubt::Ambiguous)),
    }
}

/// What the program reports counts unless the screen shows something else.
fn summarize(command: Option<&str>, doubt: Option<Doubt>, shown: &[String], is_framed: bool) -> Summary {
    match (command, doubt) {
        (Some(command), None | Some(Doubt::NotDrawn)) => summary::of_command(command, doubt.is_none()),
        _ => summary::of_screen(shown, is_framed, doubt.is_none()),
    }
}

fn details(command: Option<&str>, shown: &[String]) -> String {
    let rows = summary::only_question(shown);
    // A command of one line is among the rows.
    let command = command.map(str::trim).filter(|command| !rows.contains(command));
    let all = command.map_or_else(|| rows.clone(), |command| format!("{}\n{rows}", revealed(command)));
    all[..all.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

fn choices_in(shown: &[String], side_by_side: &[String]) -> Vec<String> {
    let choices: Vec<String> =
        choice::answers(shown).into_iter().map(|row| trimmed(&shown[row]).to_owned()).collect();
    match choices.is_empty() && shown.iter().any(|row| places_in(row, side_by_side).is_some()) {
        true => side_by_side.to_vec(),
        false => choices,
    }
}

/// The hash that a decision about a prompt must carry. Each part counts with its length, so that no two lists of parts
/// give the same bytes.
pub fn hash_of(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digits = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    digits[..HASH_DIGITS].to_owned()
}

/// The columns at which these words stand in a row, if all of them do, in this order.
fn places_in(row: &str, words: &[String]) -> Option<Vec<usize>> {
    let mut from = 0;
    let places = words.iter().map(|word| {
        let at = from + row[from..].find(word.as_str())?;
        from = at + word.len();
        Some(row[..at].chars().count())
    });
    places.collect::<Option<Vec<usize>>>().filter(|places| !places.is_empty())
}

/// The one that is unlike all others, which are alike.
fn odd_one<T: PartialEq>(all: &[T]) -> Option<usize> {
    let is_odd = |n: &usize| {
        let mut others = all.iter().enumerate().filter(|(m, _)| m != n).map(|(_, other)| other);
        others.next().is_some_and(|first| *first != all[*n] && others.all(|other| other == first))
    };
    (0..all.len()).find(is_odd).filter(|_| all.len() > 2)
}

fn trimmed(row: &str) -> &str {
    row.trim_matches(|c: char| c.is_whitespace() || "│┃|❯›>●▶".contains(c))
}

/// How a prompt of this program is decided.
#[derive(Debug, Clone)]
pub struct Approve {
    pub allow: Key,
    pub deny: Key,
    /// The answers, if it writes them side by side into one row. Enter takes the marked one: it allows only while that
    /// is the first.
    pub side_by_side: Vec<String>,
    /// What it asks before it believes that a prompt is denied.
    pub confirm_deny: Option<Confirmation>,
    /// Where its questions begin; without it all of the screen is the question.
    pub frame: Option<Frame>,
}

/// As written in a profile.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApproveText {
    allow: Key,
    deny: Key,
    #[serde(default)]
    side_by_side: Vec<String>,
    #[serde(default)]
    confirm_deny: Option<ConfirmationText>,
    #[serde(default)]
    frame: Option<FrameText>,
}

impl ApproveText {
    pub(crate) fn compile(self) -> Result<Approve, BadRule> {
        let frame = self.frame.map(FrameText::compile).transpose()?;
        let confirm = |text: ConfirmationText| {
            Ok(Confirmation { shows: text.shows.compile("approve", "confirm_deny")?, key: text.key })
        };
        let confirm_deny = self.confirm_deny.map(confirm).transpose()?;
        let (allow, deny, side_by_side) = (self.allow, self.deny, self.side_by_side);
        Ok(Approve { allow, deny, side_by_side, confirm_deny, frame })
    }
}

/// A second question, about the answer to the first.
#[derive(Debug, Clone)]
pub struct Confirmation {
    /// Fits the rows of the second question.
    shows: Regex,
    key: Key,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfirmationText {
    shows: PatternText,
    key: Key,
}

/// One key of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Key {
    Enter,
    Escape,
    Letter(u8),
}

impl TryFrom<String> for Key {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        match (written.as_str(), written.as_bytes()) {
            ("enter", _) => Ok(Self::Enter),
            ("escape", _) => Ok(Self::Escape),
            (_, [letter @ b'!'..=b'~']) => Ok(Self::Letter(*letter)),
            _ => Err(format!("{written:?} is no key: give enter, escape or one character")),
        }
    }
}

impl Key {
    pub fn bytes(self) -> Vec<u8> {
        vec![match self {
            Self::Enter => b'\r',
            Self::Escape => 0x1b,
            Self::Letter(letter) => letter,
        }]
    }
}

/// One decision on its way to the program.
#[derive(Debug)]
pub struct Deciding {
    hash: String,
    allows: bool,
    key: Key,
    /// Enter is to take the first of answers that stand side by side.
    takes_first: bool,
    /// The second question, until it is answered.
    confirmation: Option<Confirmation>,
    /// When the prompt was first seen to be the one that is meant.
    seen_at: Option<Timestamp>,
    pressed_at: Option<Timestamp>,
    outcome: Option<Decided>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decide {
    Wait { until: Option<Timestamp>, held: Option<Held> },
    TakeKeyboard { ms: u32 },
    ReleaseKeyboard,
    Press(Vec<u8>),
    Done(Decided),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// The key was pressed, and the prompt is gone.
    Taken,
    /// Another prompt is there, or none.
    Changed,
    /// The key was pressed, and the prompt is still there.
    Ignored,
    /// Enter would take another answer than the one that is meant, or nobody knows which: nothing was pressed.
    Unmarked,
    /// It was to be allowed, and does not show all that it asks: nothing was pressed.
    Doubtful(Doubt),
}

const KEYBOARD_MS: u32 = 3_000;
const PATIENCE_MS: u64 = 5_000;
/// A prompt stands so long before a key is pressed. Claude Code 2.1.325 drops keys in the first 0.1 s after it drew one:
/// whoever is typing just then does not answer it unread.
const STANDS_MS: u64 = 500;
/// After the key that denies, a second question is drawn within this time.
const CONFIRMATION_MS: u64 = 1_500;

impl Deciding {
    /// Allows or denies the prompt with this hash.
    pub fn new(hash: String, allows: bool, keys: &Approve) -> Self {
        let key = if allows { keys.allow } else { keys.deny };
        let takes_first = key == Key::Enter && !keys.side_by_side.is_empty();
        let confirmation = keys.confirm_deny.clone().filter(|_| !allows);
        Self { hash, allows, key, takes_first, confirmation, seen_at: None, pressed_at: None, outcome: None }
    }

    /// Whether it is to be allowed.
    pub fn allows(&self) -> bool {
        self.allows
    }

    /// `prompt` is what it waits for, if it waits.
    pub fn next(&mut self, sight: &Sight, prompt: Option<&Prompt>) -> Decide {
        if let Some(outcome) = self.outcome {
            return if sight.keyboard { Decide::ReleaseKeyboard } else { Decide::Done(outcome) };
        }
        let same = prompt.is_some_and(|prompt| prompt.hash == self.hash);
        let stands_at = self.seen_at.get_or_insert(sight.now).plus_ms(STANDS_MS);
        let doubt = prompt.and_then(|prompt| prompt.doubt).filter(|_| self.allows && same);
        if let (None, Some(doubt)) = (self.pressed_at, doubt) {
            return self.ends(sight, prompt, Decided::Doubtful(doubt));
        }
        match self.pressed_at {
            None if !same => self.ends(sight, prompt, Decided::Changed),
            None if self.takes_first && prompt.is_some_and(|prompt| prompt.marked != Some(0)) => {
                self.ends(sight, prompt, Decided::Unmarked)
            }
            None if stands_at > sight.now => Decide::Wait { until: Some(stands_at), held: None },
            None if !sight.keyboard => Decide::TakeKeyboard { ms: KEYBOARD_MS },
            None => {
                self.pressed_at = Some(sight.now);
                Decide::Press(self.key.bytes())
            }
            Some(at) if !same => match (self.confirmation.take(), prompt) {
                (Some(asked), Some(prompt)) if asked.shows.is_match(&prompt.text) => {
                    if !sight.keyboard {
                        self.confirmation = Some(asked);
                        return Decide::TakeKeyboard { ms: KEYBOARD_MS };
                    }
                    // From here on, the second question is the one that has to go away.
                    (self.hash, self.key) = (prompt.hash.clone(), asked.key);
                    self.pressed_at = Some(sight.now);
                    Decide::Press(self.key.bytes())
                }
                // It may not be drawn yet.
                (Some(asked), _) if at.plus_ms(CONFIRMATION_MS) > sight.now => {
                    self.confirmation = Some(asked);
                    Decide::Wait { until: Some(at.plus_ms(CONFIRMATION_MS)), held: None }
                }
                _ => self.ends(sight, prompt, Decided::Taken),
            },
            Some(_) if sight.keyboard => Decide::ReleaseKeyboard,
            Some(at) if at.plus_ms(PATIENCE_MS) > sight.now => {
                Decide::Wait { until: Some(at.plus_ms(PATIENCE_MS)), held: None }
            }
            Some(_) => self.ends(sight, prompt, Decided::Ignored),
        }
    }

    /// The key was not pressed: the program had printed something that was not seen yet. All is looked at again.
    pub fn not_pressed(&mut self) {
        self.pressed_at = None;
    }

    pub fn is_pressed(&self) -> bool {
        self.pressed_at.is_some()
    }

    fn ends(&mut self, sight: &Sight, prompt: Option<&Prompt>, outcome: Decided) -> Decide {
        self.outcome = Some(outcome);
        self.next(sight, prompt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::composer::Holds;
    use crate::hooks::Text;
    use crate::profile::shipped;
    use crate::request::RequestSource;
    use crate::screen::Size;
    use std::collections::BTreeSet;
    use synapse_core::agents::AgentState;

    const CLAUDE: &str = "● Bash(touch x)\n  ⎿  Waiting…\nRULE\n Bash command\n touch x\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel";

    fn keys(profile: &str) -> Approve {
        shipped(profile).and_then(|profile| profile.approve).unwrap()
    }

    fn screen_of(text: &str) -> Screen {
        let mut screen = Screen::new(Size::new(80, 30), 0);
        let text = text.replace("RULE", &"─".repeat(80)).replace('\n', "\r\n");
        screen.feed(text.as_bytes(), &mut Vec::new());
        screen
    }

    fn asked(profile: &str, text: &str, since: u64, requests: &[PermissionRequest]) -> Prompt {
        Prompt::read(&screen_of(text), Timestamp(since), Some(&keys(profile)), requests)
    }

    fn prompt_of(text: &str) -> Prompt {
        asked("claude", text, 1, &[])
    }

    /// On a screen that keeps what scrolled off.
    fn prompt_above(text: &str) -> Prompt {
        let mut screen = Screen::new(Size::new(80, 30), 100);
        screen.feed(text.replace('\n', "\r\n").as_bytes(), &mut Vec::new());
        Prompt::read(&screen, Timestamp(1), Some(&keys("claude")), &[])
    }

    fn request(id: &str, command: &str) -> PermissionRequest {
        let command = Some(Text { text: command.into(), bytes: command.len() as u64 });
        PermissionRequest { source: RequestSource::Hook, id: id.into(), tool: "Bash".into(), command }
    }

    #[test]
    fn answers_that_stand_side_by_side_are_answers_if_all_of_them_stand_there() {
        let words = ["Allow once", "Allow always", "Reject"];
        let asks = |row: &str| {
            let text = format!("\n  ┃ △ Permission required\n  ┃ $ mktemp x\n  ┃ {row}");
            asked("opencode", &text, 1, &[])
        };
        assert_eq!(asks("Allow once   Allow always   Reject      enter confirm").choices, words);
        for other in ["", "Allow once   Reject", "Reject   Allow always   Allow once", "1. Allow once"] {
            assert_ne!(asks(other).choices, words, "{other:?}");
        }
        assert_eq!(asks("").doubt, Some(Doubt::NotDrawn));
        assert_eq!(prompt_of("Allow once   Allow always   Reject").choices, [""; 0]);
    }

    #[test]
    fn what_blinks_above_the_frame_is_no_part_of_a_prompt() {
        let prompt = prompt_of(CLAUDE);
        assert_eq!((&*prompt.choices, prompt.doubt), (&["1. Yes".to_owned(), "2. No".to_owned()][..], None));
        assert!(!prompt.text.contains("Waiting…"), "{}", prompt.text);
        assert_eq!(prompt_of(&CLAUDE.replace('●', "◦")).hash, prompt.hash);
        assert_ne!(asked("claude", CLAUDE, 2, &[]).hash, prompt.hash, "asked again");
    }

    /// Finding H4: only letters and digits of the lowest rows were counted.
    #[test]
    fn different_questions_have_different_hashes() {
        let asks = |command: &str| prompt_of(&CLAUDE.replace(" touch x\n", &format!(" {command}\n")));
        let commands = [
            "rm -rf /",
            "rm -rf .",
            "rm -rf ./",
            "rm -rf ~",
            "rm -r f/",
            "rm-rf /",
            "a;b",
            "a|b",
            "a&&b",
            "a & b",
            "a\n b",
            "a\n\n b",
            "a b",
            "a  b",
            "─\n a b",
            "x\n ────────────\n a b",
            "y\n ────────────\n a b",
            "1. Yes",
            "❯ 1. Yes",
        ];
        let hashes: BTreeSet<String> = commands.iter().map(|command| asks(command).hash).collect();
        assert_eq!(hashes.len(), commands.len());
        // What the program tells counts too.
        let prompt = prompt_of(CLAUDE);
        let told = asked("claude", CLAUDE, 1, &[request("1", "touch x")]);
        assert_eq!((told.command.as_deref(), told.source, told.doubt), (Some("touch x"), "hook", None));
        assert!(told.hash != prompt.hash && told.text == prompt.text);
        assert_ne!(asked("claude", CLAUDE, 1, &[request("2", "touch x")]).hash, told.hash, "asked again");
        assert!(told.question().contains("touch x") && told.question().contains(&told.text));
    }

    /// Finding H4: concealed text was hashed as blanks, and blanks at the end of a row not at all.
    #[test]
    fn text_that_is_not_visible_is_shown_and_hashed() {
        let asks = |command: &str| prompt_of(&CLAUDE.replace(" touch x\n", &format!(" {command}\n")));
        let concealed = asks("ls \x1b[8m;rm -rf ~\x1b[0m a");
        assert!(concealed.text.contains("ls ;rm -rf ~ a"), "{}", concealed.text);
        assert_eq!(concealed.doubt, None);
        let commands = [
            "ls \x1b[8m;rm -rf ~\x1b[0m a",
            "ls \x1b[8m;rm -rf /\x1b[0m a",
            "ls           a",
            "ls a\x1b[8m;rm -rf ~\x1b[0m",
            "ls a",
            "rm foo",
            "rm foo\u{a0}",
            "rm foo\u{3000}",
            "rm foo\u{2003}",
            "rm foo \u{a0}",
            "rm foo\u{a0}\u{a0}",
            "rm foo\n \u{a0}",
        ];
        let hashes: BTreeSet<String> = commands.iter().map(|command| asks(command).hash).collect();
        assert_eq!(hashes.len(), commands.len());
    }

    /// Programs repaint a question as it is, by other means: blanks written or erased, the whole or only a part.
    #[test]
    fn repainted_question_keeps_its_hash() {
        let hash = prompt_of(CLAUDE).hash;
        let blanks = CLAUDE.replace(" touch x\n", &format!(" touch x{}\n", " ".repeat(72)));
        for text in [
            format!("{CLAUDE}\x1b[H\x1b[2J{CLAUDE}"),
            format!("{CLAUDE}\x1b[H\x1b[J{CLAUDE}"),
            format!("{CLAUDE}\x1b[H{}", CLAUDE.replace('\n', "\x1b[K\n")),
            format!("{CLAUDE}\x1b[5;1H touch x      \x1b[K\x1b[10;15H"),
            format!("{CLAUDE}\x1b[H{}", blanks),
        ] {
            assert_eq!(prompt_of(&text).hash, hash, "{text:?}");
        }
    }

    /// Finding H4: a hook or a server that tells another command than the screen shows.
    #[test]
    fn screen_that_disagrees_with_the_hook_is_not_approved() {
        let prompt = asked("claude", CLAUDE, 1, &[request("1", "rm -rf /")]);
        assert_eq!((prompt.command.as_deref(), prompt.doubt), (Some("rm -rf /"), Some(Doubt::Disagrees)));
        assert!(prompt.question().contains("not to be approved"), "{}", prompt.question());
    }

    /// Finding H4: the beginning is above the screen. The hook knows it, or nobody does.
    #[test]
    fn long_command_is_approved_only_as_its_hook_tells_it() {
        let rest = (0..40).map(|n| format!("echo this is line {n} of the command\n")).collect::<String>();
        let command = format!("rm -rf /\n{rest}");
        let shown = format!("RULE\n Bash command\n {}", command.replace('\n', "\n "));
        let text = format!("{shown}Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel");
        let blind = prompt_of(&text);
        assert_eq!((blind.doubt, blind.text.contains("rm -rf")), (Some(Doubt::Incomplete), false));
        let told = asked("claude", &text, 1, &[request("1", &command)]);
        assert_eq!((told.doubt, told.source), (None, "hook"));
        assert!(told.question().contains("rm -rf /"));
        let other = prompt_above(&text);
        assert!(other.doubt.is_some() && other.text.contains("rm -rf /"), "what scrolled off is shown");
        assert_ne!(other.hash, prompt_above(&text.replace("rm -rf /", "true")).hash);
        let forged = format!("true\n{rest}");
        let both = asked("claude", &text, 1, &[request("1", &command), request("2", &forged)]);
        assert_eq!(both.doubt, Some(Doubt::Ambiguous));
        for (prompt, allows, refused) in [(&blind, true, true), (&blind, false, false), (&told, true, false)]
        {
            let mut deciding = Deciding::new(prompt.hash.clone(), allows, &keys("claude"));
            let first = deciding.next(&sight(0, AgentState::Waiting, false), Some(prompt));
            assert_eq!(first == Decide::Done(Decided::Doubtful(Doubt::Incomplete)), refused, "{first:?}");
        }
    }

    fn sight(now: u64, state: AgentState, keyboard: bool) -> Sight {
        Sight { composer: Holds::Unknown, keyboard, ..Sight::at(now, state) }
    }

    #[test]
    fn a_key_is_pressed_once_and_only_for_the_prompt_it_was_meant_for() {
        use AgentState::{Busy, Waiting};
        let (prompt, other) = (prompt_of(CLAUDE), prompt_of(&CLAUDE.replace("touch x", "rm -rf y")));
        let deciding = || Deciding::new(prompt.hash.clone(), true, &keys("claude"));
        let stood = |deciding: &mut Deciding| {
            let waits = Decide::Wait { until: Some(Timestamp(STANDS_MS)), held: None };
            assert_eq!(deciding.next(&sight(0, Waiting, false), Some(&prompt)), waits);
            assert_eq!(deciding.next(&sight(STANDS_MS - 1, Waiting, true), Some(&prompt)), waits);
            let takes = Decide::TakeKeyboard { ms: KEYBOARD_MS };
            assert_eq!(deciding.next(&sight(STANDS_MS, Waiting, false), Some(&prompt)), takes);
        };
        let mut taken = deciding();
        stood(&mut taken);
        assert_eq!(taken.next(&sight(501, Waiting, true), Some(&prompt)), Decide::Press(b"1".to_vec()));
        assert_eq!(taken.next(&sight(502, Waiting, true), Some(&prompt)), Decide::ReleaseKeyboard);
        assert!(matches!(taken.next(&sight(503, Waiting, false), Some(&prompt)), Decide::Wait { .. }));
        assert_eq!(taken.next(&sight(504, Busy, false), None), Decide::Done(Decided::Taken));
        // Another prompt came between the question and the key.
        let mut changed = deciding();
        stood(&mut changed);
        assert_eq!(changed.next(&sight(501, Waiting, true), Some(&other)), Decide::ReleaseKeyboard);
        assert_eq!(changed.next(&sight(502, Waiting, false), Some(&other)), Decide::Done(Decided::Changed));
        // Nothing waits.
        assert_eq!(deciding().next(&sight(0, Busy, false), None), Decide::Done(Decided::Changed));
        let mut ignored = deciding();
        stood(&mut ignored);
        ignored.next(&sight(501, Waiting, true), Some(&prompt));
        assert_eq!(
            ignored.next(&sight(9_000, Waiting, false), Some(&prompt)),
            Decide::Done(Decided::Ignored)
        );
    }

    /// Kilo asks what to do instead. Its Enter is pressed for that question and for no other.
    #[test]
    fn denial_is_confirmed_where_the_program_asks_again() {
        use AgentState::{Busy, Waiting};
        let keys = keys("kilo");
        let asks = |text: &str| {
            let text = format!("talk\n\n  ┃\n  ┃  {text}\n  ┃\n");
            Prompt::read(&screen_of(&text), Timestamp(1), Some(&keys), &[])
        };
        let first = asks("△ Permission required\n  ┃  $ touch x\n  ┃   Allow once   Allow always   Reject");
        let second = asks("△ Reject permission\n  ┃  Tell Kilo what to do differently");
        let other = asks("△ Permission required\n  ┃  $ Reject permission");
        let denied = |allows: bool| {
            let mut deciding = Deciding::new(first.hash.clone(), allows, &keys);
            deciding.next(&sight(0, Waiting, false), Some(&first));
            deciding.next(&sight(STANDS_MS, Waiting, false), Some(&first));
            (deciding.next(&sight(501, Waiting, true), Some(&first)), deciding)
        };
        let (pressed, mut deciding) = denied(false);
        assert_eq!(pressed, Decide::Press(vec![0x1b]));
        assert!(matches!(deciding.next(&sight(510, Busy, false), None), Decide::Wait { .. }));
        let takes = Decide::TakeKeyboard { ms: KEYBOARD_MS };
        assert_eq!(deciding.next(&sight(600, Waiting, false), Some(&second)), takes);
        assert_eq!(deciding.next(&sight(601, Waiting, true), Some(&second)), Decide::Press(vec![b'\r']));
        deciding.not_pressed();
        assert_eq!(deciding.next(&sight(602, Waiting, true), Some(&second)), Decide::Press(vec![b'\r']));
        assert_eq!(deciding.next(&sight(700, Busy, false), None), Decide::Done(Decided::Taken));
        // Another question instead, or none at all.
        for prompt in [Some(&other), None] {
            let (_, mut deciding) = denied(false);
            assert!(matches!(deciding.next(&sight(600, Waiting, false), prompt), Decide::Wait { .. }));
            let late = sight(501 + CONFIRMATION_MS, Waiting, false);
            assert_eq!(deciding.next(&late, prompt), Decide::Done(Decided::Taken), "{prompt:?}");
        }
    }

    /// As OpenCode draws it: the marked answer has another paper.
    #[test]
    fn enter_is_pressed_only_for_the_answer_that_is_meant() {
        let keys = keys("opencode");
        let words = &keys.side_by_side;
        let drawn = |papers: [u8; 3]| {
            let mut screen = Screen::new(crate::screen::Size::new(80, 10), 0);
            let row: String = words
                .iter()
                .zip(papers)
                .map(|(word, paper)| format!("\x1b[{paper}m {word} \x1b[0m  "))
                .collect();
            screen.feed(
                format!("\r\n┃ △ Permission required\r\n┃ $ mktemp x\r\n┃ {row}").as_bytes(),
                &mut Vec::new(),
            );
            Prompt::read(&screen, Timestamp(1), Some(&keys), &[])
        };
        for (papers, marked) in [
            ([43, 49, 49], Some(0)),
            ([49, 43, 49], Some(1)),
            ([44, 44, 7], Some(2)),
            ([49, 49, 49], None),
            ([41, 42, 43], None),
        ] {
            let prompt = drawn(papers);
            assert_eq!((prompt.marked, &*prompt.choices), (marked, &words[..]), "{papers:?}");
            let mut allows = Deciding::new(prompt.hash.clone(), true, &keys);
            let first = allows.next(&sight(0, AgentState::Waiting, false), Some(&prompt));
            let refused = first == Decide::Done(Decided::Unmarked);
            assert_eq!(refused, marked != Some(0), "{papers:?}: {first:?}");
            let mut denies = Deciding::new(prompt.hash.clone(), false, &keys);
            let first = denies.next(&sight(0, AgentState::Waiting, false), Some(&prompt));
            assert!(matches!(first, Decide::Wait { .. }), "{papers:?}: {first:?}");
        }
    }

    #[test]
    fn keys_are_named() {
        for (written, key) in [("enter", Key::Enter), ("escape", Key::Escape), ("y", Key::Letter(b'y'))] {
            assert_eq!(Key::try_from(written.to_owned()), Ok(key));
        }
        for wrong in ["", "yes", "\u{1b}", "é"] {
            assert!(Key::try_from(wrong.to_owned()).is_err(), "{wrong:?}");
        }
    }
}
