//! `synapse claude`, `synapse run -- COMMAND`: a program in a terminal that outlives this one.

mod again;
mod another;
mod earlier;
mod places;
mod words;

pub(super) use again::renewed;
pub use earlier::shown as several_stopped_shown;
pub(super) use places::{as_before, restored, with_places};
pub(super) use words::ask_for_json;

use super::{TypeWhen, Who};
use crate::fail::{self, Done, Fail};
use crate::launch::{self, Started, Wish};
use crate::profiles::{self, Found, Notice};
use crate::resume;
use crate::show;
use crate::tells;
use crate::viewer::{self, Left, Person};
use another::{Answer, Running, Wanted};
use earlier::Meant;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::Path;
use synapse_core::ids::AgentType;
use synapse_holder::terminal::wire::Role;
use synapse_node::Hand;
use synapse_node::launch::InTerminal;
use synapse_store::home::Home;
use synapse_terminal::Size;
use synapse_terminal::profile::Env;
use words::Words;

/// A first word that is no command of ours may name a profile.
pub(super) fn external(words: Vec<String>, json: bool) -> Done {
    let (name, rest) = words.split_first().ok_or_else(|| Fail::usage("no command"))?;
    let home = Home::from_env()?;
    let here = std::env::current_dir()?;
    let (found, notices) = profiles::find(&home, &here, name)?;
    let Some(found) = found else {
        profiles::warn(&notices);
        let (known, _) = profiles::all(&home, &here)?;
        let names: Vec<&str> = known.iter().map(|found| found.profile.name.as_str()).collect();
        return Err(Fail::usage(match nearest(name, &names) {
            Some(near) => format!("there is no command and no profile called {name:?}; did you mean {near}?"),
            None => format!(
                "there is no command and no profile called {name:?}; profiles: {}. Any other program: `synapse run -- {name} …`; commands: `synapse --help`",
                names.join(", ")
            ),
        }));
    };
    let program = &found.profile.command;
    let words = Words::read(name, rest, |flag| tells::help_names(program, flag))?;
    if words.flags.help {
        show::out(words::help(name, program).trim_end());
        return Ok(());
    }
    if words.only_ask() {
        return Err(ask(&found, &words));
    }
    let Words { flags, args } = words;
    let argv = [vec![program.clone()], tells::known_args(&found.profile), args.clone()].concat();
    let how = How {
        new: flags.new,
        detach: flags.detach,
        json: json || flags.json,
        start_another: format!("synapse {name} --new"),
    };
    start(flags.who, Chosen { found, argv, given: Some(args), notices, type_when: flags.type_when }, &how)
}

/// The command line; `synapse help claude` is `synapse claude --help`, unless there is a command of that name.
pub(super) fn command_line() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if let [_, help, name] = &mut words[..]
        && *help == "help"
        && let Some(profile) = name.to_str().filter(|name| *name != "help" && !name.starts_with('-'))
        && <super::Cli as clap::CommandFactory>::command().find_subcommand(profile).is_none()
    {
        *help = profile.into();
        *name = "--help".into();
    }
    words
}

/// The CLI itself in place of this process: it only prints something about itself, and no agent comes of it.
fn ask(found: &Found, words: &Words) -> Fail {
    use std::os::unix::process::CommandExt as _;
    let program = &found.profile.command;
    if let Err(fail) = check_program(program, None) {
        return fail;
    }
    let mut command = std::process::Command::new(program);
    command.args(&words.args);
    crate::program::withhold_secrets(&mut command);
    let error = command.exec();
    Fail::new(fail::ERROR, "error", format!("cannot run {program}: {error}"))
}

/// The command or profile that was probably meant.
fn nearest(wrong: &str, profiles: &[&str]) -> Option<String> {
    let cli = <super::Cli as clap::CommandFactory>::command();
    let commands = cli.get_subcommands().map(|command| command.get_name().to_owned());
    let all = commands.chain(profiles.iter().map(|name| (*name).to_owned()));
    let near = all.map(|name| (synapse_core::routes::distance(wrong, &name), name));
    near.filter(|(far, _)| *far <= 1 + wrong.chars().count() / 4).min().map(|(_, name)| name)
}

/// `synapse run -- COMMAND ARGS`: the profile of that name if there is one, else the generic one.
pub(super) fn command(who: Who, argv: Vec<String>, type_when: Option<TypeWhen>, how: &How) -> Done {
    start(who, Chosen { type_when, ..Chosen::of(&argv, None)? }, how)
}

/// How a program is started.
pub(super) struct How {
    /// Even if one of its type already runs in its folder.
    pub(super) new: bool,
    pub(super) detach: bool,
    pub(super) json: bool,
    /// The command that starts another one.
    pub(super) start_another: String,
}

/// A program, and what is known of it.
pub(super) struct Chosen {
    found: Found,
    argv: Vec<String>,
    /// What was said after the arguments of the profile; none if all of `argv` was.
    given: Option<Vec<String>>,
    /// What is not taken from the project.
    notices: Vec<Notice>,
    /// What its user said of typing to it.
    type_when: Option<TypeWhen>,
}

impl Chosen {
    /// With a profile of this name, or else the one of the program's.
    pub(super) fn of(argv: &[String], profile: Option<&str>) -> Result<Self, Fail> {
        let (home, here) = (Home::from_env()?, std::env::current_dir()?);
        let program = argv.first().map(String::as_str).unwrap_or_default();
        let file = program.rsplit('/').next().unwrap_or_default();
        let (found, mut notices) = profiles::find(&home, &here, profile.unwrap_or(file))?;
        let found = match (profile, found) {
            (_, Some(found)) => Some(found),
            (Some(name), None) => {
                profiles::warn(&notices);
                return Err(Fail::refused(format!(
                    "there is no profile called {name:?}; `synapse profile list` shows those there are"
                )));
            }
            (None, None) => {
                let (generic, more) = profiles::find(&home, &here, "generic")?;
                notices.extend(more.into_iter().filter(|notice| notice.profile.is_some()));
                generic
            }
        };
        let found = found.ok_or_else(|| Fail::usage("there is no generic profile"))?;
        Ok(Self { found, argv: argv.to_vec(), given: None, notices, type_when: None })
    }

    pub(super) fn profile(&self) -> &str {
        &self.found.profile.name
    }

    /// The type of its agent, if a profile says so.
    fn kind(&self) -> Option<AgentType> {
        AgentType::parse(self.profile()).ok().filter(|_| self.profile() != "generic")
    }

    /// What its user said after its name.
    fn user_words(&self) -> &[String] {
        self.given.as_deref().unwrap_or_else(|| self.argv.get(1..).unwrap_or_default())
    }

    pub(super) fn env(&self) -> &Env {
        &self.found.profile.env
    }

    /// Says what is not taken from the project.
    pub(super) fn warn(&self) {
        profiles::warn(&self.notices);
        if let (Ok(home), Ok(here)) = (Home::from_env(), std::env::current_dir()) {
            profiles::warn_of_settings(&home, &here);
        }
    }
}

fn start(who: Who, chosen: Chosen, how: &How) -> Done {
    let attach = !how.detach && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let mut meant = Meant::by_session(&who, &chosen, how)?;
    if let Some(running) = already_running(&who, &chosen, how, meant.as_ref())? {
        let may_ask = attach && !how.json && who.name.is_none();
        let has_args = !chosen.user_words().is_empty();
        match if may_ask { running.ask(has_args)? } else { None } {
            Some(Answer::Attach) => return running.attach(),
            Some(Answer::StartAnother) => meant = None,
            None => return Err(running.refusal(who.name.as_deref(), &how.start_another)),
        }
    }
    if meant.is_none() {
        meant = Meant::by_folder(&who, &chosen, how)?;
    }
    if !how.detach && !attach {
        return Err(Fail::usage(
            "standard input and output are not a terminal, which the program needs; use --detach",
        ));
    }
    // Before the terminal is the program's.
    chosen.warn();
    if let Some(meant) = meant.as_ref().filter(|_| attach) {
        meant.tell();
    }
    if attach {
        viewer::warn_of_prefix(&Home::from_env()?);
    }
    // Before it is started: it may ask for our colours at once.
    let person = attach.then(Person::meet).transpose()?;
    let started = launch_as(meant, who, chosen, person.as_ref())?;
    let Some(person) = person else {
        super::run::tell(&started, how.json);
        return Ok(());
    };
    let left = viewer::view(person, &Home::from_env()?, started.id, Role::Viewer)?;
    tell_left(&started.label(), &left)
}

/// What is in the way: an agent of that name, or one of that type unless another one was asked for.
fn already_running(
    who: &Who,
    chosen: &Chosen,
    how: &How,
    meant: Option<&Meant>,
) -> Result<Option<Running>, Fail> {
    if how.new && who.name.is_none() {
        return Ok(None);
    }
    let (kind, folder) = (chosen.kind(), who.cwd.as_deref().unwrap_or(Path::new(".")));
    let (name, id) = (who.name.as_deref(), meant.map(Meant::id));
    Running::find(&Wanted { kind: kind.as_ref(), name, id, folder })
}

/// Starts it in a terminal as large as that of the person, if there is one.
pub(super) fn launch(who: Who, chosen: Chosen, person: Option<&Person>) -> Result<Started, Fail> {
    launch_as(None, who, chosen, person)
}

/// As `launch`, as this stopped agent if one is meant.
fn launch_as(
    meant: Option<Meant>,
    who: Who,
    chosen: Chosen,
    person: Option<&Person>,
) -> Result<Started, Fail> {
    let kind = chosen.kind();
    let Chosen { found, mut argv, given, notices: _, type_when } = chosen;
    check_program(&argv[0], who.cwd.as_deref())?;
    let own = argv.len() - given.as_ref().map_or(argv.len() - 1, Vec::len);
    let resume::Words { args, session, .. } = resume::first_words(&found.profile, &argv[0], &argv[own..]);
    let resumes = resume::asks_for_earlier(&found.profile, &argv[own..]);
    argv.splice(own.., args);
    let size = size(person);
    let folder = who.cwd.clone().unwrap_or_else(|| Path::new(".").to_owned());
    let terminal = InTerminal {
        env: with_places(environment(&found.profile.env)),
        tells: tells::choose(&found.profile, &argv, &folder),
        argv: argv.clone(),
        given,
        profile: found.text,
        project_profile: found.project.map(|part| part.text),
        profile_folder: std::env::current_dir().ok(),
        columns: size.0,
        rows: size.1,
        colours: person.and_then(Person::colours),
        session,
        resumes,
        type_when: type_when.map(Into::into),
    };
    check_typing(&terminal, found.profile.composer.is_some(), &folder)?;
    let hand = Hand::Terminal(terminal);
    let mut wish: Wish = super::run::wish(who, &argv[0], hand)?;
    if let Some(kind) = kind {
        wish.kind = kind;
    }
    if let Some(meant) = meant {
        (wish.name, wish.number) = meant.into_identity();
    }
    launch::start(&Home::from_env()?, wish)
}

/// Of the person's window, if there is one.
fn size(person: Option<&Person>) -> (u16, u16) {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if person.is_some() => (size.ws_col.max(1), size.ws_row.max(1)),
        _ => (Size::DETACHED.columns(), Size::DETACHED.rows()),
    }
}

/// Refuses to type messages into a shell unless the user said so in as many words.
fn check_typing(terminal: &InTerminal, has_composer: bool, folder: &Path) -> Done {
    let Some(when) = terminal.type_when else { return Ok(()) };
    let program = terminal.argv.first().map(String::as_str).unwrap_or_default();
    if has_composer {
        let note = format!("--type-when is ignored: the profile of {program} describes a composer");
        eprintln!("{}", show::paint_err("2", &note));
        return Ok(());
    }
    if when == synapse_terminal::quiet::TypeWhen::Quiet && terminal.is_shell(folder) {
        return Err(Fail::refused(format!(
            "{program:?} is a shell or starts one: it would run every message as a command, with your rights\n\
             hint: use the agent's own program after `--`; if you really want this, pass `--type-when quiet-shell`"
        )));
    }
    Ok(())
}

/// Words as they are typed in a shell.
pub(super) fn in_shell(words: &[String]) -> String {
    let is_plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:=@,+%".contains(c))
    };
    let quoted = |word: &String| match is_plain(word) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Says what a shell would say, before anything is started.
pub(super) fn check_program(program: &str, folder: Option<&Path>) -> Done {
    if program.contains('/') {
        let file = folder.unwrap_or(Path::new(".")).join(program);
        return match (file.exists(), crate::program::may_run(&file)) {
            (_, true) => Ok(()),
            (true, false) => Err(Fail::new(
                fail::NOT_EXECUTABLE,
                "not_executable",
                format!(
                    "{program} is there, but it is no program that may be run; `chmod +x {program}` makes it one"
                ),
            )),
            (false, _) => {
                Err(Fail::new(fail::NOT_FOUND, "not_found", format!("there is no program {program}")))
            }
        };
    }
    if crate::program::on_path(program).is_some() {
        return Ok(());
    }
    Err(Fail::new(
        fail::NOT_FOUND,
        "not_found",
        format!(
            "there is no program called {program:?} on PATH: install it, or say where it is, as in `synapse run -- /path/to/{program}`"
        ),
    ))
}

/// What must not be inherited is taken out, and what a terminal program expects is set.
pub(super) fn environment(of_profile: &Env) -> BTreeMap<String, Option<String>> {
    let mut env = BTreeMap::new();
    let always = [
        "TMUX",
        "TMUX_PANE",
        "STY",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "VTE_VERSION",
        "WT_SESSION",
        "COLUMNS",
        "LINES",
    ];
    for (name, _) in std::env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        if of_profile.removes(name)
            || always.contains(&name)
            || name.starts_with("SYNAPSE_TASK")
            || name == "SYNAPSE_CHAIN"
        {
            env.insert(name.to_owned(), None);
        }
    }
    env.insert("TERM".into(), Some("xterm-256color".into()));
    env.insert("COLORTERM".into(), Some("truecolor".into()));
    let speaks_utf8 = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| std::env::var(name).ok());
    if !speaks_utf8.into_iter().any(|value| value.to_lowercase().replace('-', "").contains("utf8")) {
        env.insert("LANG".into(), Some("C.UTF-8".into()));
    }
    env.extend(of_profile.set.iter().map(|(name, value)| (name.clone(), Some(value.clone()))));
    env
}

pub(super) fn tell_left(name: &str, left: &Left) -> Done {
    match left {
        Left::Ended(0) => Ok(()),
        Left::Ended(code) => Err(Fail::ended(u8::try_from(*code).unwrap_or(1))),
        Left::Detached => {
            show::out(&detached(name));
            Ok(())
        }
        Left::Signaled(signal) => {
            // Perhaps to a terminal that is gone.
            eprint_quietly(&detached(name));
            Err(Fail::ended(u8::try_from(128 + signal).unwrap_or(fail::ERROR)))
        }
        Left::Stopped(why) => {
            eprint_quietly(&stopped(name, why));
            Err(Fail::ended(TERMINATED))
        }
        Left::Refused(why) => {
            Err(Fail::refused(format!("cannot attach to {name}: {why}\nhint: synapse screen {name}")))
        }
        Left::Lost => Err(Fail::new(
            fail::ERROR,
            "terminal_lost",
            format!(
                "lost the terminal of {name}: the process that keeps it has died\nhint: synapse list --all"
            ),
        )),
    }
}

/// As shells tell of a program that was ended by SIGTERM.
const TERMINATED: u8 = 128 + 15;

/// How to come back.
pub(super) fn detached(name: &str) -> String {
    format!("detached; back with `synapse attach {name}`")
}

/// Why the terminal closed, though its program did not end by itself.
pub(super) fn stopped(name: &str, why: &str) -> String {
    let why =
        if why.is_empty() { "by `synapse kill` or a signal".to_owned() } else { format!("because {why}") };
    format!("{name} was stopped {why}; its terminal is closed")
}

fn eprint_quietly(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}
