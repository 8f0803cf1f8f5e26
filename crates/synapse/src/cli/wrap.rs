//! `synapse claude`, `synapse run -- COMMAND`: a program in a terminal that outlives this one.

use super::Who;
use crate::fail::{self, Done, Fail};
use crate::launch::{self, Started, Wish};
use crate::profiles::{self, Found};
use crate::show;
use crate::tells;
use crate::viewer::{self, Left};
use clap::Parser;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use synapse_core::ids::AgentType;
use synapse_holder::terminal::wire::Role;
use synapse_node::Hand;
use synapse_node::launch::InTerminal;
use synapse_store::home::Home;
use synapse_terminal::Size;

/// What may follow `synapse claude`: our own flags first, then whatever the program takes.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words {
    #[command(flatten)]
    who: Who,
    #[arg(short, long)]
    detach: bool,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// A first word that is no command of ours may name a profile.
pub(super) fn external(words: Vec<String>, json: bool) -> Done {
    let (name, rest) = words.split_first().ok_or_else(|| Fail::usage("no command"))?;
    let home = Home::from_env()?;
    let here = std::env::current_dir()?;
    let Some(found) = profiles::find(&home, &here, name)? else {
        let known = profiles::all(&home, &here)?;
        let names: Vec<&str> = known.iter().map(|found| found.profile.name.as_str()).collect();
        return Err(Fail::usage(match nearest(name, &names) {
            Some(near) => format!("there is no command and no profile called {name:?}; did you mean {near}?"),
            None => format!(
                "there is no command and no profile called {name:?}; profiles: {}. Any other program: `synapse run -- {name} …`; commands: `synapse --help`",
                names.join(", ")
            ),
        }));
    };
    let words = Words::try_parse_from(rest).map_err(|e| Fail::usage(e.to_string()))?;
    let argv = [vec![found.profile.command.clone()], found.profile.args.clone(), words.args].concat();
    start(words.who, found, argv, words.detach, json)
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
pub(super) fn command(who: Who, argv: Vec<String>, detach: bool, json: bool) -> Done {
    let home = Home::from_env()?;
    let here = std::env::current_dir()?;
    let program = argv.first().map(String::as_str).unwrap_or_default();
    let file = program.rsplit('/').next().unwrap_or_default();
    let found = profiles::find(&home, &here, file)?;
    let found = match found {
        Some(found) => Some(found),
        None => profiles::find(&home, &here, "generic")?,
    };
    let found = found.ok_or_else(|| Fail::usage("there is no generic profile"))?;
    start(who, found, argv, detach, json)
}

fn start(who: Who, found: Found, argv: Vec<String>, detach: bool, json: bool) -> Done {
    let attach = !detach && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !detach && !attach {
        return Err(Fail::usage(
            "this is no terminal, so the program would have none to show itself in; add --detach",
        ));
    }
    let size = match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if attach => (size.ws_col.max(1), size.ws_row.max(1)),
        _ => (Size::DETACHED.columns(), Size::DETACHED.rows()),
    };
    let hand = Hand::Terminal(InTerminal {
        env: environment(&found.profile.env.remove, &found.profile.env.set),
        tells: tells::choose(&found.profile, &argv),
        argv: argv.clone(),
        profile: found.text,
        profile_folder: std::env::current_dir().ok(),
        columns: size.0,
        rows: size.1,
    });
    let kind =
        if found.profile.name == "generic" { None } else { AgentType::parse(&found.profile.name).ok() };
    let mut wish: Wish = super::run::wish(who, &argv[0], hand)?;
    if let Some(kind) = kind {
        wish.kind = kind;
    }
    let home = Home::from_env()?;
    let started = launch::start(&home, wish)?;
    if !attach {
        super::run::tell(&started, json);
        return Ok(());
    }
    let left = viewer::view(&home.agent(&started.id).terminal(), Role::Viewer)?;
    tell_left(&started, &left)
}

/// What must not be inherited is taken out, and what a terminal program expects is set.
fn environment(remove: &[String], set: &BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
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
        let goes = remove.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(front) => name.starts_with(front),
            None => name == pattern,
        });
        if goes || always.contains(&name) || name.starts_with("SYNAPSE_TASK") || name == "SYNAPSE_CHAIN" {
            env.insert(name.to_owned(), None);
        }
    }
    env.insert("TERM".into(), Some("xterm-256color".into()));
    env.insert("COLORTERM".into(), Some("truecolor".into()));
    let speaks_utf8 = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| std::env::var(name).ok());
    if !speaks_utf8.into_iter().any(|value| value.to_lowercase().replace('-', "").contains("utf8")) {
        env.insert("LANG".into(), Some("C.UTF-8".into()));
    }
    env.extend(set.iter().map(|(name, value)| (name.clone(), Some(value.clone()))));
    env
}

fn tell_left(started: &Started, left: &Left) -> Done {
    let name = &started.label;
    match left {
        Left::Ended(0) => Ok(()),
        Left::Ended(code) => Err(Fail::ended(u8::try_from(*code).unwrap_or(1))),
        Left::Detached => {
            show::out(&format!("{name} goes on; `synapse attach {name}` brings it back"));
            Ok(())
        }
        Left::Lost => Err(Fail::new(
            fail::ERROR,
            "terminal_lost",
            format!("the terminal of {name} is gone; `synapse list` tells whether it still runs"),
        )),
    }
}
