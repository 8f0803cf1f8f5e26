//! Resume: how a CLI goes on with an earlier conversation, and what the words of its user say about that.
//!
//! A session id comes from the program or from its files, so it may be anything. It becomes an argument only in the form
//! that the profile names: it never begins with a dash, and has only letters, digits, `-` and `_`.
//! Invariant: words that nobody can be sure of are not taken apart; the program is then started as it was before.
//! Not here: which conversation an agent had last (the node), what is started (the binary).

use crate::pattern::{Line, PatternText};
use crate::rules::BadRule;
use regex_lite::Regex;
use serde::Deserialize;

/// Longest session id that is kept.
pub const SESSION_CHARS_MAX: usize = 64;
const PLACE_OF_ID: &str = "{session}";
/// In `prompts`: words that belong to no option.
const PLAIN_WORDS: &str = "...";

/// How one CLI goes on with an earlier conversation.
#[derive(Debug, Clone)]
pub struct Resume {
    args: Vec<String>,
    session: SessionForm,
    choose: Vec<String>,
    shows: Option<Regex>,
    earlier: Vec<Word>,
    new: Vec<Word>,
    prompts: Vec<Word>,
    options: Vec<Word>,
    has_plain_prompts: bool,
}

/// The same as written in a profile. A word is `--flag`, `--flag VALUE`, `--flag [VALUE]`, `--flag ...` (all values up to
/// the next option) or `command`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeText {
    /// Arguments that go on with a conversation; `{session}` is its id.
    args: Vec<String>,
    session: SessionForm,
    /// Arguments that give a new conversation this id.
    #[serde(default)]
    choose: Vec<String>,
    /// A row above its composer that shows that the conversation is loaded; for a program that takes input before that.
    #[serde(default)]
    shows: Option<PatternText>,
    /// Words of its user that choose an earlier conversation.
    #[serde(default)]
    earlier: Vec<String>,
    /// Words of its user that say which new conversation begins.
    #[serde(default)]
    new: Vec<String>,
    /// What is submitted at the start, and not once more; `...` stands for words that belong to no option.
    #[serde(default)]
    prompts: Vec<String>,
    /// Options that do not have exactly one value.
    #[serde(default)]
    options: Vec<String>,
}

/// What the session ids of a CLI look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionForm {
    Uuid,
    /// `ses_` and letters or digits.
    Ses,
    /// Letters, digits and underscores.
    Word,
    /// Sessions have no ids: there is one for each folder.
    Folder,
}

/// A session id in the form of its CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionId(String);

impl SessionId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SessionForm {
    pub fn parse(self, raw: &str) -> Option<SessionId> {
        let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric());
        let fits = match self {
            Self::Uuid => is_uuid(raw),
            Self::Ses => raw.strip_prefix("ses_").is_some_and(is_word),
            Self::Word => raw.split('_').all(is_word),
            Self::Folder => false,
        };
        (fits && raw.len() <= SESSION_CHARS_MAX).then(|| SessionId(raw.to_owned()))
    }
}

fn is_uuid(raw: &str) -> bool {
    let groups: Vec<&str> = raw.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.chars().all(|c| c.is_ascii_hexdigit()))
}

/// A word of a command line, and what follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    name: String,
    values: Values,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    None,
    One,
    Optional,
    /// All up to the next option.
    Many,
}

impl Word {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split_whitespace();
        let name = parts.next()?.to_owned();
        let values = match parts.next() {
            None => Values::None,
            Some("...") => Values::Many,
            Some(value) if value.starts_with('[') => Values::Optional,
            Some(_) => Values::One,
        };
        parts.next().is_none().then_some(Self { name, values })
    }

    /// The value that is written into the same word, if it is this word at all.
    fn attached<'a>(&self, word: &'a str) -> Option<Option<&'a str>> {
        let rest = word.strip_prefix(self.name.as_str())?;
        let is_long = self.name.starts_with("--");
        match (rest, rest.strip_prefix('=')) {
            ("", _) => Some(None),
            (_, Some(value)) if self.name.starts_with('-') => Some(Some(value)),
            (value, None) if !is_long && self.name.starts_with('-') && self.values != Values::None => {
                Some(Some(value))
            }
            _ => None,
        }
    }
}

impl ResumeText {
    pub(crate) fn compile(self, line: Line) -> Result<Resume, BadRule> {
        let shows = self.shows.clone().map(|shows| shows.compile("resume", "shows")).transpose()?;
        self.checked(shows).map_err(|why| BadRule::Resume { line, why })
    }

    fn checked(self, shows: Option<Regex>) -> Result<Resume, &'static str> {
        let words = |texts: &[String]| {
            let texts = texts.iter().filter(|text| *text != PLAIN_WORDS);
            let all: Option<Vec<Word>> = texts.map(|text| Word::parse(text)).collect();
            all.ok_or("a word is `--flag`, `--flag VALUE`, `--flag [VALUE]`, `--flag ...` or `command`")
        };
        let ids = |args: &[String]| args.iter().filter(|arg| arg.contains(PLACE_OF_ID)).count();
        let wanted = usize::from(self.session != SessionForm::Folder);
        if self.args.is_empty() || ids(&self.args) != wanted {
            return Err("`args` must have `{session}` once, and not at all with `session: folder`");
        }
        if !self.choose.is_empty() && ids(&self.choose) != 1 {
            return Err("`choose` must have `{session}` once");
        }
        Ok(Resume {
            earlier: words(&self.earlier)?,
            new: words(&self.new)?,
            prompts: words(&self.prompts)?,
            options: words(&self.options)?,
            has_plain_prompts: self.prompts.iter().any(|text| text == PLAIN_WORDS),
            args: self.args,
            session: self.session,
            choose: self.choose,
            shows,
        })
    }
}

/// What a part of a command line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    /// It chooses an earlier conversation, perhaps by its id.
    Earlier(Option<&'a str>),
    New,
    Prompt,
    Option,
    /// Perhaps another way to run the program.
    Unclear,
}

/// Which earlier conversation words ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedSession {
    None,
    /// One that the program chooses or lets its user choose.
    Any,
    This(SessionId),
}

impl Resume {
    pub fn session(&self) -> SessionForm {
        self.session
    }

    /// The arguments that go on with this conversation; without an id, with that of the folder.
    pub fn args(&self, session: Option<&SessionId>) -> Vec<String> {
        filled(&self.args, session.map_or("", SessionId::as_str))
    }

    /// The arguments that give a new conversation this id, if there is a way.
    pub fn choose(&self, session: &SessionId) -> Option<Vec<String>> {
        (!self.choose.is_empty()).then(|| filled(&self.choose, session.as_str()))
    }

    /// Whether these rows, those above its composer, show that an earlier conversation is loaded. None if it takes no
    /// input before that.
    pub fn is_loaded(&self, rows: &[String]) -> Option<bool> {
        let shows = self.shows.as_ref()?;
        Some(rows.iter().any(|row| shows.is_match(row)))
    }

    /// Which earlier conversation the words of its user ask for.
    pub fn asked(&self, words: &[String]) -> AskedSession {
        let parts = self.parts(words);
        let ids = parts.iter().filter_map(|(part, _)| match part {
            Part::Earlier(id) => Some(id.and_then(|id| self.session.parse(id))),
            _ => None,
        });
        ids.fold(AskedSession::None, |asked, id| match (asked, id) {
            (_, Some(id)) => AskedSession::This(id),
            (AskedSession::None, None) => AskedSession::Any,
            (asked, None) => asked,
        })
    }

    /// The options among the words of its user: without those that choose a conversation, and without prompts. None if
    /// nobody can be sure what the words mean.
    pub fn options_in(&self, words: &[String]) -> Option<Vec<String>> {
        let parts = self.parts(words);
        let is_clear = parts.iter().all(|(part, _)| *part != Part::Unclear);
        is_clear.then(|| kept(&parts, |part| part == Part::Option))
    }

    /// Whether these words begin a new conversation and do not say which.
    pub fn begins_one(&self, words: &[String]) -> bool {
        self.parts(words).iter().all(|(part, _)| matches!(part, Part::Option | Part::Prompt))
    }

    /// All words but those that choose an earlier conversation.
    pub fn without_earlier(&self, words: &[String]) -> Vec<String> {
        kept(&self.parts(words), |part| !matches!(part, Part::Earlier(_)))
    }

    /// The words part by part, each with what belongs to it.
    fn parts<'a>(&self, words: &'a [String]) -> Vec<(Part<'a>, &'a [String])> {
        let mut parts = Vec::new();
        // The command that is the first word that belongs to no option.
        let (mut is_first, mut command) = (true, None);
        let mut at = 0;
        while at < words.len() {
            let (part, taken) = match self.known(&words[at..], is_first) {
                Some(known) => known,
                None => self.guessed(&words[at..], is_first, command),
            };
            if is_first && !is_option(&words[at]) {
                (is_first, command) = (false, Some(part));
            }
            parts.push((part, &words[at..=at + taken]));
            at += 1 + taken;
        }
        parts
    }

    /// The first of these words, if the profile names it; and how many further ones belong to it.
    fn known<'a>(&self, words: &'a [String], is_first: bool) -> Option<(Part<'a>, usize)> {
        let (word, rest) = words.split_first()?;
        let lists: [(&[Word], Part<'a>); 4] = [
            (&self.earlier, Part::Earlier(None)),
            (&self.new, Part::New),
            (&self.prompts, Part::Prompt),
            (&self.options, Part::Option),
        ];
        lists.into_iter().find_map(|(list, part)| {
            let may_be = |known: &&Word| is_option(&known.name) || is_first;
            let (values, attached) =
                list.iter().filter(may_be).find_map(|known| Some((known.values, known.attached(word)?)))?;
            let taken = if attached.is_some() { 0 } else { taken(values, rest) };
            let id = attached.or(rest[..taken].first().map(String::as_str));
            Some((if part == Part::Earlier(None) { Part::Earlier(id) } else { part }, taken))
        })
    }

    fn guessed<'a>(
        &self,
        words: &'a [String],
        is_first: bool,
        command: Option<Part<'_>>,
    ) -> (Part<'a>, usize) {
        let Some((word, rest)) = words.split_first() else { return (Part::Option, 0) };
        let is_id = || self.session.parse(word).is_some();
        match command {
            _ if word == "--" => (Part::Prompt, rest.len()),
            _ if word.contains('=') && is_option(word) => (Part::Option, 0),
            _ if is_option(word) => (Part::Option, taken(Values::Optional, rest)),
            Some(Part::Earlier(_)) if is_id() => (Part::Earlier(Some(word)), 0),
            Some(Part::New) if is_id() => (Part::New, 0),
            _ if is_first && looks_like_a_command(word) => (Part::Unclear, 0),
            _ if self.has_plain_prompts => (Part::Prompt, 0),
            _ => (Part::Option, 0),
        }
    }
}

/// How many of the words after it belong to a word.
fn taken(values: Values, rest: &[String]) -> usize {
    let bare = rest.iter().take_while(|word| !is_option(word)).count();
    match values {
        Values::None => 0,
        Values::One => rest.len().min(1),
        Values::Optional => bare.min(1),
        Values::Many => bare,
    }
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// A single word in lower-case letters may be a command of the program.
fn looks_like_a_command(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

fn kept(parts: &[(Part<'_>, &[String])], keeps: impl Fn(Part<'_>) -> bool) -> Vec<String> {
    parts.iter().filter(|(part, _)| keeps(*part)).flat_map(|(_, words)| words.to_vec()).collect()
}

fn filled(args: &[String], session: &str) -> Vec<String> {
    args.iter().map(|arg| arg.replace(PLACE_OF_ID, session)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::shipped;

    const ID: &str = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";

    fn words(line: &str) -> Vec<String> {
        // A comma stands for a blank within a word.
        line.split_whitespace().map(|word| word.replace(',', " ").replace("ID", ID)).collect()
    }

    fn resume(cli: &str) -> Resume {
        shipped(cli).unwrap().resume.unwrap_or_else(|| panic!("{cli} has no way to resume"))
    }

    #[test]
    fn only_ids_in_the_form_of_the_cli_become_arguments() {
        for (form, good) in [
            (SessionForm::Uuid, ID),
            (SessionForm::Uuid, "01A1F1DD-F123-7633-96DD-587A3D6D52AF"),
            (SessionForm::Ses, "ses_e0e214d44ffeIWKHnxouWjHZno"),
            (SessionForm::Word, "1795059420097_42mwp"),
        ] {
            assert_eq!(form.parse(good).unwrap().as_str(), good);
        }
        let long = format!("ses_{}", "a".repeat(SESSION_CHARS_MAX));
        let bad = [
            "",
            "-",
            "--",
            "--dangerously-skip-permissions",
            "-c",
            "latest x",
            "../../x",
            "a/b",
            "a\nb",
            "a b",
            "ses_",
            "$(touch x)",
            "é",
            "3f2504e0-4f89-41d3-9a0c-0305e82c330",
            "3f2504e0-4f89-41d3-9a0c-0305e82c3301 ",
            "-f2504e0-4f89-41d3-9a0c-0305e82c3301",
            "3f2504e04-f89-41d3-9a0c-0305e82c3301",
            "_",
            "_a",
            &long,
        ];
        for form in [SessionForm::Uuid, SessionForm::Ses, SessionForm::Word] {
            for raw in bad {
                assert_eq!(form.parse(raw), None, "{form:?} {raw:?}");
            }
        }
        assert_eq!(SessionForm::Uuid.parse("latest"), None, "what a CLI would take for something else");
    }

    /// Fuzzed: whatever is accepted cannot be read as an option, a path or more than one word.
    #[test]
    fn no_bytes_become_an_option_or_a_path() {
        bolero::check!().with_type::<String>().for_each(|raw| {
            for form in [SessionForm::Uuid, SessionForm::Ses, SessionForm::Word] {
                let Some(id) = form.parse(raw) else { continue };
                assert!(id.as_str().starts_with(|c: char| c.is_ascii_alphanumeric()), "{id:?}");
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
                assert!(id.as_str().chars().all(is_plain) && raw.len() <= SESSION_CHARS_MAX, "{id:?}");
            }
        });
    }

    #[test]
    fn options_of_the_user_are_kept_and_prompts_and_choices_are_not() {
        for (cli, given, options) in [
            ("claude", "", ""),
            ("claude", "--model sonnet", "--model sonnet"),
            ("claude", "--model=sonnet --continue", "--model=sonnet"),
            ("claude", "-c --verbose fix,the,bug", "--verbose"),
            ("claude", "fix,the,bug --model sonnet", "--model sonnet"),
            (
                "claude",
                "--resume ID --fork-session --add-dir ../a ../b --model x",
                "--add-dir ../a ../b --model x",
            ),
            ("claude", "--resume", ""),
            ("claude", "-r --model x", "--model x"),
            ("claude", "--session-id ID --ide -- --not-ours", "--ide"),
            ("claude", "--some-new-flag value", "--some-new-flag value"),
            ("claude", "--dangerously-skip-permissions do,it", "--dangerously-skip-permissions"),
            ("codex", "resume --last", ""),
            ("codex", "resume ID -m gpt", "-m gpt"),
            ("codex", "-m gpt resume --all ID go,on", "-m gpt"),
            ("codex", "fork ID --search", "--search"),
            ("codex", "-c model=x -i a.png b.png -- look,at,it", "-c model=x"),
            ("codex", "--sandbox read-only Fix", "--sandbox read-only"),
            ("gemini", "-i hello,there -m pro --yolo", "-m pro --yolo"),
            ("gemini", "--resume latest -y look,here", "-y"),
            ("gemini", "-r5 -m pro", "-m pro"),
            ("opencode", "./sub --continue --agent plan", "./sub --agent plan"),
            ("opencode", "-s ses_1 --prompt hello,there", ""),
            ("copilot", "--continue --no-auto-update --model gpt-5", "--no-auto-update --model gpt-5"),
            ("qwen", "--approval-mode default -c", "--approval-mode default"),
        ] {
            assert_eq!(resume(cli).options_in(&words(given)), Some(words(options)), "{cli} {given}");
        }
        // Perhaps commands of the CLI, or prompts of a single word.
        for (cli, given) in [
            ("claude", "mcp list"),
            ("claude", "--model x doctor"),
            ("codex", "exec do,it"),
            ("codex", "review"),
            ("gemini", "mcp"),
            ("opencode", "serve"),
            ("claude", "hello"),
        ] {
            assert_eq!(resume(cli).options_in(&words(given)), None, "{cli} {given}");
            assert!(!resume(cli).begins_one(&words(given)), "{cli} {given}");
        }
    }

    #[test]
    fn words_that_ask_for_an_earlier_conversation_are_known() {
        for (cli, given) in [
            ("claude", "--resume"),
            ("claude", "--model x -r"),
            ("claude", "-c"),
            ("claude", "--continue fix,it"),
            ("claude", "--resume my,title"),
            ("codex", "resume"),
            ("codex", "resume --last"),
            ("codex", "-m x resume some-name"),
            ("gemini", "--resume"),
            ("gemini", "-r latest"),
            ("opencode", "--continue"),
            ("opencode", "-s 7"),
            ("copilot", "--resume"),
            ("qwen", "-c"),
            ("kilo", "-c"),
        ] {
            assert_eq!(resume(cli).asked(&words(given)), AskedSession::Any, "{cli} {given}");
            assert!(!resume(cli).begins_one(&words(given)), "{cli} {given}");
        }
        let id = SessionForm::Uuid.parse(ID).unwrap();
        for (cli, given) in [
            ("claude", "--resume ID"),
            ("claude", "--resume=ID -c"),
            ("claude", "-rID"),
            ("codex", "resume ID"),
            ("codex", "resume --all ID go,on"),
            ("gemini", "--resume ID"),
            ("copilot", "--resume=ID"),
        ] {
            assert_eq!(resume(cli).asked(&words(given)), AskedSession::This(id.clone()), "{cli} {given}");
        }
        for (cli, given) in [
            ("claude", "--model resume"),
            ("claude", "-- --continue"),
            ("claude", "please,resume"),
            ("claude", "--session-id ID"),
            ("codex", "fork ID"),
            ("codex", "-m x please,resume"),
            ("codex", "-m resume"),
            ("gemini", "--session-id ID"),
        ] {
            assert_eq!(resume(cli).asked(&words(given)), AskedSession::None, "{cli} {given}");
        }
    }

    #[test]
    fn new_conversation_gets_an_id_only_if_its_user_chose_none() {
        let id = SessionForm::Uuid.parse(ID).unwrap();
        for cli in ["gemini", "qwen", "copilot"] {
            assert_eq!(resume(cli).choose(&id), Some(words("--session-id ID")), "{cli}");
            assert!(resume(cli).begins_one(&words("--model x say,hello")), "{cli}");
            assert!(!resume(cli).begins_one(&words("--session-id ID")), "{cli}");
        }
        assert_eq!(resume("claude").choose(&id), None);
        assert_eq!(resume("claude").args(Some(&id)), words("--resume ID"));
        assert_eq!(resume("codex").args(Some(&id)), words("resume ID"));
        assert_eq!(resume("aider").args(None), words("--restore-chat-history"));
    }

    #[test]
    fn conversation_is_loaded_when_a_prompt_of_it_is_shown() {
        let rows = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        for (cli, empty, loaded) in [
            ("gemini", "\n ? for shortcuts\n", "▄▄▄▄\n > fix the bug\n▀▀▀▀\n✦ done"),
            ("cline", "  █ █ █\n", " ❯ fix the bug\n * done"),
            ("opencode", "\n", "  ┃\n  ┃  fix the bug\n  ┃\n     done"),
        ] {
            assert_eq!(resume(cli).is_loaded(&rows(empty)), Some(false), "{cli}");
            assert_eq!(resume(cli).is_loaded(&rows(loaded)), Some(true), "{cli}");
        }
        assert_eq!(resume("claude").is_loaded(&rows("")), None, "it draws both at once");
    }

    #[test]
    fn fresh_start_drops_only_what_chooses_a_conversation() {
        for (cli, given, fresh) in [
            ("claude", "--resume ID fix,it --model x", "fix,it --model x"),
            ("claude", "-c --verbose", "--verbose"),
            ("codex", "resume --last -m x", "-m x"),
            ("codex", "exec do,it", "exec do,it"),
        ] {
            assert_eq!(resume(cli).without_earlier(&words(given)), words(fresh), "{cli} {given}");
        }
    }
}
