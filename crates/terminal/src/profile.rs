//! Profiles: what is known of one CLI, as data. How to start it, how it shows its state, how it takes input.
//!
//! Written in YAML. Shipped ones are part of the binary; a user's own win over them. A project's are merged in (`added`).
//! Invariant: a profile that was read is whole: every pattern compiles, every name is known.
//! Not here: where profile files are looked for (the binary), what the evidence adds up to (`fold`).

use crate::added::AddedRules;
use crate::composer::{Composer, ComposerText};
use crate::pattern::Line;
use crate::pause::{Limit, LimitText};
use crate::prompt::{Approve, ApproveText};
use crate::quiet::TypeWhen;
use crate::resume::{Resume, ResumeText};
use crate::rules::{BadRule, Rule, RuleText};
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};
use std::collections::BTreeMap;

/// Largest profile that is read.
pub const PROFILE_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone)]
pub struct Profile {
    pub name: String,
    pub about: String,
    pub command: String,
    pub args: Vec<String>,
    pub aliases: Vec<String>,
    pub version: Version,
    pub env: Env,
    pub status: Status,
    pub title: Vec<Rule>,
    pub screen: Vec<Rule>,
    /// How it says that its usage limit is reached.
    pub limits: Vec<Limit>,
    pub timing: Timing,
    /// Where text is written; without it nothing is typed unless `type_when` says so.
    pub composer: Option<Composer>,
    /// When messages are typed though it has no composer.
    pub type_when: Option<TypeWhen>,
    pub submit: Submit,
    pub interrupt: Interrupt,
    /// The keys that decide a prompt; without them only the person at the keyboard can.
    pub approve: Option<Approve>,
    pub hooks: Option<Hooks>,
    /// How it goes on with an earlier conversation.
    pub resume: Option<Resume>,
    /// What a project that is not trusted adds; empty for a profile by itself.
    pub added: AddedRules,
}

/// A profile as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Spanned<String>,
    #[serde(default)]
    about: String,
    command: Spanned<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    version: Version,
    #[serde(default)]
    env: Env,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    title: Vec<RuleText>,
    #[serde(default)]
    screen: Vec<RuleText>,
    #[serde(default)]
    limits: Vec<LimitText>,
    #[serde(default)]
    timing: Timing,
    #[serde(default)]
    composer: Option<Spanned<ComposerText>>,
    #[serde(default)]
    type_when: Option<TypeWhen>,
    #[serde(default)]
    submit: Submit,
    #[serde(default)]
    interrupt: Option<Spanned<Interrupt>>,
    #[serde(default)]
    approve: Option<ApproveText>,
    #[serde(default)]
    hooks: Option<Hooks>,
    #[serde(default)]
    resume: Option<Spanned<ResumeText>>,
}

/// Which versions the rules were checked against.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// How to ask for it.
    #[serde(default)]
    pub ask: Vec<String>,
    /// Beginnings of versions, such as `2.1.`.
    #[serde(default)]
    pub tested: Vec<String>,
}

impl Version {
    /// Whether the rules were checked with the version found in this text. None if the text has no version.
    pub fn is_tested(&self, text: &str) -> Option<bool> {
        let found = version_in(text)?;
        Some(self.tested.iter().any(|tested| found == *tested || found.starts_with(&format!("{tested}."))))
    }
}

/// The first thing that looks like a version.
pub fn version_in(text: &str) -> Option<&str> {
    let word = |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+')));
    words.find_map(|raw| Some(raw.trim_start_matches('v').trim_end_matches('.')).filter(word))
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Env {
    /// Variables that the program must not inherit; `NAME*` means all that begin so.
    #[serde(default)]
    pub remove: Vec<String>,
    /// What a person sets for it: inherited although `remove` fits.
    #[serde(default)]
    pub keep: Vec<String>,
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

impl Env {
    /// Whether the program must not inherit this variable.
    pub fn removes(&self, name: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(front) => name.starts_with(front),
            None => name == pattern,
        };
        self.remove.iter().any(fits) && !self.keep.iter().any(fits)
    }
}

/// Whether the program reports its status itself (OSC 7501).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// What it calls itself there; reports of others are not believed. Empty: any.
    #[serde(default)]
    pub apps: Vec<String>,
}

/// How long things take with this program, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// How long a first sign of readiness must hold.
    pub ready_ms: u64,
    /// After Enter: how long it may take until it shows that it works.
    pub assume_busy_ms: u64,
    /// While it works it repaints at least this often; silence beyond it means that we do not know.
    pub repaint_ms: u64,
    /// How long the screen must say idle before we believe it after a turn.
    pub idle_ms: u64,
    /// It says that it works, and nothing at all has come from it for this long: it is stuck.
    pub wedged_ms: u64,
    /// The rules for its screen contradict what it tells itself for this long: `synapse doctor` may say so.
    pub disagree_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            ready_ms: 300,
            assume_busy_ms: 3_000,
            repaint_ms: 3_000,
            idle_ms: 150,
            wedged_ms: 600_000,
            disagree_ms: 30_000,
        }
    }
}

/// How text is given to it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Submit {
    /// What happens to text that is submitted while it works.
    pub while_busy: WhileBusy,
    /// Longest text given directly; longer ones go as a file.
    pub inline_chars_max: usize,
    /// The same for lines: some programs never show the beginning of a text that is taller than their screen.
    pub inline_lines_max: usize,
    /// Between a paste and Enter, at least.
    pub settle_ms: u64,
    /// The same between the moment in which the text is seen in the composer and Enter. A program that is slow to take a
    /// paste is waited for by this, and not by `settle_ms`.
    pub echo_ms: u64,
    /// It knows no bracketed pastes: text is typed as one line, as keys.
    pub keys: bool,
}

impl Default for Submit {
    fn default() -> Self {
        let (inline_chars_max, inline_lines_max) = (8_000, 8_000);
        let (settle_ms, echo_ms) = (150, 0);
        let while_busy = WhileBusy::Unknown;
        Self { while_busy, inline_chars_max, inline_lines_max, settle_ms, echo_ms, keys: false }
    }
}

impl Submit {
    /// Whether a text is short enough to be given directly.
    pub fn fits_inline(&self, text: &str) -> bool {
        text.chars().count() <= self.inline_chars_max && text.lines().count() <= self.inline_lines_max
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhileBusy {
    /// It waits for its turn.
    Queues,
    /// It ends what runs and starts anew.
    Steers,
    #[default]
    Unknown,
}

/// How a running turn is stopped.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Interrupt {
    pub key: InterruptKey,
    pub times: u8,
    pub gap_ms: u64,
    /// Whether one Ctrl+C may follow if it goes on in spite of it.
    pub escalates: bool,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self { key: InterruptKey::CtrlC, times: 1, gap_ms: 250, escalates: true }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKey {
    Escape,
    CtrlC,
}

/// How the program can be made to tell us what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hooks {
    /// `--settings` with commands for its events.
    Claude,
    /// `-c` with commands for its events, and with the word that they are trusted.
    Codex,
    /// An HTTP server of its own, at a port we choose.
    Opencode,
    /// That of OpenCode under another name.
    Kilo,
    /// No hooks, but files in which it records its sessions.
    Gemini,
    Qwen,
    Copilot,
    Cline,
    /// The same, in the folder where it works.
    Aider,
}

/// Why a profile cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadProfile {
    #[error("it has more than {PROFILE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("{0}")]
    Written(String),
    #[error("{line}`{what}` is {found:?}; {rule}")]
    Value { line: Line, what: &'static str, found: String, rule: &'static str },
    #[error("{0}")]
    Rule(#[from] BadRule),
}

impl Profile {
    /// Reads a profile; the error says where, and what would be right.
    pub fn parse(text: &str) -> Result<Self, BadProfile> {
        if text.len() > PROFILE_BYTES_MAX {
            return Err(BadProfile::TooLarge);
        }
        let options = serde_saphyr::options! { strict_booleans: true };
        let written: Written = serde_saphyr::from_str_with_options(text, options)
            .map_err(|e| BadProfile::Written(e.to_string().trim().to_owned()))?;
        written.checked()
    }
}

impl Written {
    fn checked(self) -> Result<Profile, BadProfile> {
        let is_name = |name: &str| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            (1..=32).contains(&name.len()) && name.chars().all(plain)
        };
        let bad =
            |at: Location, what, found, rule| Err(BadProfile::Value { line: at.into(), what, found, rule });
        if !is_name(&self.name.value) {
            let rule = "it must be 1 to 32 lower-case letters, digits or dashes";
            return bad(self.name.referenced, "name", self.name.value, rule);
        }
        if self.command.value.is_empty() || self.command.value.contains(['\0', '\n']) {
            let rule = "it must be the name or path of a program, without arguments";
            return bad(self.command.referenced, "command", self.command.value, rule);
        }
        let interrupt = match self.interrupt {
            Some(written) if !(1..=3).contains(&written.value.times) => {
                let rule = "it must be 1 to 3: more would make some programs quit";
                return bad(written.referenced, "interrupt.times", written.value.times.to_string(), rule);
            }
            written => written.map(|written| written.value).unwrap_or_default(),
        };
        let compile = |part: &'static str, rules: Vec<RuleText>| {
            rules.into_iter().map(|rule| rule.compile(part)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Profile {
            title: compile("title", self.title)?,
            screen: compile("screen", self.screen)?,
            limits: self.limits.into_iter().map(LimitText::compile).collect::<Result<_, _>>()?,
            composer: self.composer.map(ComposerText::compile).transpose()?,
            type_when: self.type_when,
            name: self.name.value,
            about: self.about,
            command: self.command.value,
            args: self.args,
            aliases: self.aliases,
            version: self.version,
            env: self.env,
            status: self.status,
            timing: self.timing,
            submit: self.submit,
            interrupt,
            approve: self.approve.map(ApproveText::compile).transpose()?,
            hooks: self.hooks,
            resume: self
                .resume
                .map(|written| written.value.compile(written.referenced.into()))
                .transpose()?,
            added: AddedRules::default(),
        })
    }
}

impl Profile {
    /// Whether it has any way to see that the program is ready for input.
    pub fn can_tell_idle(&self) -> bool {
        let idle = |rules: &[Rule]| rules.iter().any(|rule| rule.state == crate::rules::Sees::Idle);
        !self.status.apps.is_empty() || idle(&self.title) || idle(&self.screen)
    }
}

/// The profiles that are part of the program, by name.
// tidy: table
pub const SHIPPED: &[(&str, &str)] = &[
    ("aider", include_str!("../profiles/aider.yaml")),
    ("claude", include_str!("../profiles/claude.yaml")),
    ("cline", include_str!("../profiles/cline.yaml")),
    ("codex", include_str!("../profiles/codex.yaml")),
    ("copilot", include_str!("../profiles/copilot.yaml")),
    ("gemini", include_str!("../profiles/gemini.yaml")),
    ("generic", include_str!("../profiles/generic.yaml")),
    ("kilo", include_str!("../profiles/kilo.yaml")),
    ("opencode", include_str!("../profiles/opencode.yaml")),
    ("qwen", include_str!("../profiles/qwen.yaml")),
];

/// A shipped profile.
pub fn shipped(name: &str) -> Option<Profile> {
    let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
    Some(Profile::parse(text).expect("shipped profiles are read by a test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_is_whole_and_called_as_its_file() {
        for (name, text) in SHIPPED {
            let profile = Profile::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(profile.name, *name);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let table = [
            ("name: x\n", "command"),
            ("name: X Y\ncommand: x\n", "lower-case"),
            ("name: x\ncommand: x\ncolour: red\n", "colour"),
            ("name: x\ncommand: x\nscreen:\n  - state: sleepy\n    any: [a]\n", "sleepy"),
            ("name: x\ncommand: x\nscreen:\n  - state: idle\n    any: ['(']\n", "screen rule 'idle'"),
            ("name: x\ncommand: x\nscreen:\n  - state: idle\n", "any, all or none"),
            ("name: x\ncommand: x\nlimits: [{ shows: '(' }]\n", "limits rule 'usage limit'"),
            ("name: x\ncommand: x\ninterrupt: {times: 9}\n", "1 to 3"),
            (
                "name: x\ncommand: x\nresume:\n  args: [--resume]\n  session: uuid\n",
                "line 4: resume: `args` must have",
            ),
            ("name: x\ncommand: x\nresume: { args: ['{session}'], session: any }\n", "any"),
            (
                "name: x\ncommand: x\nresume: { args: ['{session}'], session: uuid, new: ['--a b c'] }\n",
                "--flag",
            ),
            (
                "name: x\ncommand: x\nresume: { args: ['{session}'], session: uuid, choose: [--id] }\n",
                "`choose`",
            ),
            ("name: [\n", "line"),
            ("name: x\ncommand: x\ncomposer:\n  end: x\n", "line 4: composer: give mark"),
            ("name: x\ncommand: x\ncomposer:\n  mark: x\n  end: '('\n", "line 5: composer rule 'end'"),
            (
                "name: x\ncommand: x\ncomposer: { mark: x,\n  placeholders: [a,\n  '('] }\n",
                "line 5: composer",
            ),
            ("name: x\ncommand: x\nscreen:\n- state: idle\n  any:\n  - a\n  - '('\n", "line 7: screen rule"),
            ("name: x\ncommand: x\nscreen:\n- state: idle\n", "line 4: screen rule 'idle' has no pattern"),
            ("name: x\ncommand: x\nlimits:\n- shows: '('\n", "line 4: limits rule"),
            ("command: x\nname: X\n", "line 2: `name`"),
            ("name: x\ncommand: x\ninterrupt:\n  times: 9\n", "line 4: `interrupt.times`"),
            (
                "name: x\ncommand: x\napprove: { allow: y, deny: n,\n  frame: { top: bar } }\n",
                "line 4: approve",
            ),
        ];
        for (text, part) in table {
            let said = Profile::parse(text).unwrap_err().to_string();
            assert!(said.contains(part), "{text}\n{said}");
        }
        assert_eq!(Profile::parse(&"#".repeat(PROFILE_BYTES_MAX + 1)).unwrap_err(), BadProfile::TooLarge);
    }

    #[test]
    fn text_with_many_characters_or_lines_is_not_inline() {
        let submit = Submit { inline_chars_max: 10, inline_lines_max: 2, ..Submit::default() };
        for (text, fits) in
            [("0123456789", true), ("0123456789a", false), ("a\nb\n", true), ("a\nb\nc", false)]
        {
            assert_eq!(submit.fits_inline(text), fits, "{text:?}");
        }
    }

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (said, found) in [
            ("codex-cli 0.166.0", Some("0.166.0")),
            ("2.1.325 (Claude Code)", Some("2.1.325")),
            ("v1.18.33\n", Some("1.18.33")),
            ("GitHub Copilot CLI 1.0.102.\nCommit: abc", Some("1.0.102")),
            ("no version here", None),
        ] {
            assert_eq!(version_in(said), found, "{said}");
        }
        let version = Version { ask: vec![], tested: vec!["2.1".into(), "0.166.0".into()] };
        for (said, tested) in
            [("2.1.9", Some(true)), ("0.166.0", Some(true)), ("2.10.1", Some(false)), ("?", None)]
        {
            assert_eq!(version.is_tested(said), tested, "{said}");
        }
    }

    #[test]
    fn what_a_person_sets_for_a_program_is_inherited() {
        for (profile, name, goes) in [
            ("claude", "CLAUDECODE", true),
            ("claude", "CLAUDE_CODE_ENTRYPOINT", true),
            ("claude", "CLAUDE_CONFIG_DIR", false),
            ("claude", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", false),
            ("codex", "CODEX_SANDBOX", true),
            ("codex", "CODEX_HOME", false),
            ("opencode", "OPENCODE_SERVER_PASSWORD", true),
            ("opencode", "OPENCODE_CONFIG", false),
            ("codex", "PATH", false),
        ] {
            assert_eq!(shipped(profile).unwrap().env.removes(name), goes, "{profile} {name}");
        }
    }

    #[test]
    fn any_text_is_read_or_refused() {
        bolero::check!().with_type::<String>().for_each(|text| drop(Profile::parse(text)));
    }
}
