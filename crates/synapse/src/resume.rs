//! Which conversation a CLI is started with: the one that its agent had last, or a new one.
//!
//! The last one is exact: by the session that the program reported (`session.json`), not "the newest in this folder",
//! which may be that of another agent. So two agents in one folder never swap their conversations.
//!
//! Not here: how a session becomes known (the node), how a CLI resumes one (`synapse_terminal::resume`).

use crate::tells;
use std::path::Path;
use synapse_node::Launch;
use synapse_node::launch::{InTerminal, Tells};
use synapse_store::cli_session::CliSession;
use synapse_store::home::Home;
use synapse_store::known::Known;
use synapse_terminal::Profile;
use synapse_terminal::resume::{AskedSession, SessionForm, SessionId};
use synapse_terminal::session_log::LogFormat;

/// An earlier conversation that a CLI can go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Earlier {
    Session(SessionId),
    /// That of the folder: its sessions have no ids.
    OfFolder,
}

impl Earlier {
    pub fn id(&self) -> Option<&SessionId> {
        match self {
            Self::Session(id) => Some(id),
            Self::OfFolder => None,
        }
    }
}

/// What a CLI is started with, after its program's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    pub args: Vec<String>,
    /// The session that they name.
    pub session: Option<String>,
    pub begins: Begins,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begins {
    /// It goes on with an earlier conversation.
    Earlier(Earlier),
    /// A new conversation.
    New(WhyNew),
    /// What the words of its user say; Synapse does not choose.
    AsSaid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyNew {
    /// Its user wants one.
    Wanted,
    /// No earlier one is known.
    NoneKnown,
    /// This version of the CLI does not name the arguments that resume one.
    CannotResume,
}

/// The words for a first start: a new conversation gets an id that is known beforehand, where the CLI has a way.
pub fn first_words(profile: &Profile, program: &str, args: &[String]) -> Words {
    let (more, session) = id_for_new(profile, program, args);
    Words { args: [more, args.to_vec()].concat(), session, begins: Begins::AsSaid }
}

/// Whether these words of its user go on with an earlier conversation.
pub fn asks_for_earlier(profile: &Profile, given: &[String]) -> bool {
    profile.resume.as_ref().is_some_and(|resume| resume.asked(given) != AskedSession::None)
}

/// The words for another start: those of its user, and the conversation that it had last unless `fresh`.
pub fn next_words(
    profile: &Profile,
    program: &str,
    given: &[String],
    last: Option<Earlier>,
    fresh: bool,
) -> Words {
    let Some(resume) = &profile.resume else {
        return Words { args: given.to_vec(), session: None, begins: Begins::AsSaid };
    };
    let (kept, why) = match (last, resume.options_in(given)) {
        _ if fresh => (resume.without_earlier(given), Some(WhyNew::Wanted)),
        (_, None) => (given.to_vec(), None),
        (None, Some(_)) => (given.to_vec(), resume.begins_one(given).then_some(WhyNew::NoneKnown)),
        (Some(last), Some(options)) if knows(profile, program, &resume.args(last.id())) => {
            let args = [resume.args(last.id()), options].concat();
            let session = last.id().map(|id| id.as_str().to_owned());
            return Words { args, session, begins: Begins::Earlier(last) };
        }
        (Some(_), Some(_)) => (resume.without_earlier(given), Some(WhyNew::CannotResume)),
    };
    let begins = why.map_or(Begins::AsSaid, Begins::New);
    Words { begins, ..first_words(profile, program, &kept) }
}

/// The arguments that give a new conversation an id, and the id.
fn id_for_new(profile: &Profile, program: &str, args: &[String]) -> (Vec<String>, Option<String>) {
    let chosen = profile.resume.as_ref().filter(|resume| resume.begins_one(args)).and_then(|resume| {
        let id = resume.session().parse(&random_uuid()?)?;
        let more = resume.choose(&id)?;
        knows(profile, program, &more).then(|| (more, Some(id.as_str().to_owned())))
    });
    chosen.unwrap_or_default()
}

fn random_uuid() -> Option<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

/// Whether this version of the CLI is one that the profile was checked with, or names these words in its help.
fn knows(profile: &Profile, program: &str, words: &[String]) -> bool {
    tells::is_checked(profile, program)
        || words.iter().filter(|word| !is_value(profile, word)).all(|word| tells::help_names(program, word))
}

fn is_value(profile: &Profile, word: &str) -> bool {
    profile.resume.as_ref().is_some_and(|resume| resume.session().parse(word).is_some())
}

/// The conversation that an agent had last, if its CLI can go on with it. `profile` is the one to start it with.
pub fn last_of(home: &Home, launch: &Launch, terminal: &InTerminal, profile: &Profile) -> Option<Earlier> {
    let form = profile.resume.as_ref()?.session();
    if form == SessionForm::Folder {
        return folder_has_one(home, launch, terminal).then_some(Earlier::OfFolder);
    }
    let last = CliSession::load(&home.agent(&launch.id))?;
    form.parse(&last.id).map(Earlier::Session)
}

/// Whether its folder has a conversation that can only be its own: it is the only agent of its type there.
fn folder_has_one(home: &Home, launch: &Launch, terminal: &InTerminal) -> bool {
    let Tells::SessionLog { format: LogFormat::Aider, folder } = &terminal.tells else { return false };
    let is_other = |known: &Known| {
        known.id != launch.id
            && known.kind == launch.kind
            && Path::new(&known.working_dir) == launch.working_dir
    };
    !Known::all(home).0.iter().any(is_other) && synapse_node::hands::has_chat_history(folder)
}

/// Whether `synapse start` would go on with a conversation, as far as can be told without starting the CLI.
pub fn would_resume(home: &Home, launch: &Launch) -> bool {
    let synapse_node::Hand::Terminal(terminal) = &launch.hand else { return false };
    let has_record = home.agent(&launch.id).cli_session().exists()
        || matches!(terminal.tells, Tells::SessionLog { format: LogFormat::Aider, .. });
    // Reading a profile takes longer than all else in a list.
    let profile = has_record.then(|| Profile::parse(&terminal.profile).ok()).flatten();
    let Some(profile) = profile else { return false };
    let given = terminal.given.as_deref().unwrap_or_else(|| terminal.argv.get(1..).unwrap_or_default());
    let is_clear = profile.resume.as_ref().is_some_and(|resume| resume.options_in(given).is_some());
    is_clear && last_of(home, launch, terminal, &profile).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_terminal::profile::shipped;

    const ID: &str = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// A program that prints this version and this help.
    fn program(root: &Path, version: &str, help: &str) -> String {
        let file = root.join("cli");
        let script = format!("#!/bin/sh\ncase $1 in --version) echo {version} ;; *) echo '{help}' ;; esac\n");
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        file.display().to_string()
    }

    #[test]
    fn last_conversation_is_resumed_once_and_without_its_first_prompt() {
        let root = tempfile::tempdir().unwrap();
        let claude = shipped("claude").unwrap();
        let program = program(root.path(), "2.1.325", "");
        let id = SessionForm::Uuid.parse(ID).unwrap();
        let next = |given: &str, known: bool, fresh: bool| {
            let last = known.then(|| Earlier::Session(id.clone()));
            next_words(&claude, &program, &words(given), last, fresh)
        };
        let resumed = next("--model x --continue Fix-it", true, false);
        assert_eq!(resumed.args, words(&format!("--resume {ID} --model x")));
        assert_eq!(resumed.session.as_deref(), Some(ID));
        for (given, known, fresh, args, begins) in [
            ("--model x", false, false, "--model x", Begins::New(WhyNew::NoneKnown)),
            ("--continue", false, false, "--continue", Begins::AsSaid),
            ("-c --model x", true, true, "--model x", Begins::New(WhyNew::Wanted)),
            ("mcp list", true, false, "mcp list", Begins::AsSaid),
        ] {
            let words_of_it = next(given, known, fresh);
            assert_eq!((words_of_it.args, words_of_it.begins), (words(args), begins), "{given}");
        }
        let generic = next_words(&shipped("generic").unwrap(), "sh", &words("-c x"), None, false);
        assert_eq!((generic.args, generic.begins), (words("-c x"), Begins::AsSaid));
    }

    #[test]
    fn version_that_was_not_checked_is_asked_whether_it_can_resume() {
        let root = tempfile::tempdir().unwrap();
        let codex = shipped("codex").unwrap();
        let last = Earlier::Session(SessionForm::Uuid.parse(ID).unwrap());
        let begins = |version: &str, help: &str| {
            next_words(&codex, &program(root.path(), version, help), &[], Some(last.clone()), false).begins
        };
        assert_eq!(begins("0.166.3", ""), Begins::Earlier(last.clone()));
        assert_eq!(begins("0.999.0", "Commands: resume, fork"), Begins::Earlier(last.clone()));
        assert_eq!(begins("0.20.0", "Commands: exec"), Begins::New(WhyNew::CannotResume));
    }

    #[test]
    fn new_conversation_gets_an_id_where_the_cli_takes_one() {
        let root = tempfile::tempdir().unwrap();
        let gemini = shipped("gemini").unwrap();
        let first = |version: &str, help: &str, given: &str| {
            first_words(&gemini, &program(root.path(), version, help), &words(given))
        };
        let words_of_it = first("0.61.0", "", "--model x");
        let id = words_of_it.session.unwrap();
        assert!(SessionForm::Uuid.parse(&id).is_some(), "{id}");
        assert_eq!(words_of_it.args, words(&format!("--session-id {id} --model x")));
        assert_ne!(first("0.61.0", "", "").session, Some(id));
        assert!(first("0.99.0", "--session-id ID", "").session.is_some());
        for (version, given) in
            [("0.20.0", ""), ("0.61.0", "--resume"), ("0.61.0", "--session-id x"), ("0.61.0", "mcp list")]
        {
            let words_of_it = first(version, "Usage: gemini", given);
            assert_eq!((words_of_it.args, words_of_it.session), (words(given), None), "{version} {given}");
        }
        assert_eq!(first_words(&shipped("claude").unwrap(), "claude", &[]).session, None);
    }
}
