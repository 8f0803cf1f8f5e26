//! `synapse --help` and `synapse help`: the commands in groups, the most used ones first.
//!
//! The first page leaves out rare commands; `synapse help --all` shows every one. The descriptions are those of the
//! command line itself. Flags for calls by URL are shown only where they apply, and work everywhere.
//!
//! Not here: examples of each command (`cli/examples`).

use super::{Cli, usage};
use crate::fail::{Done, Fail};
use crate::show;
use clap::builder::StyledStr;
use clap::{Arg, Args, Command, CommandFactory as _, FromArgMatches as _};
use std::fmt::Write as _;

#[derive(Args)]
pub(super) struct Help {
    /// Show all commands, also rare ones
    #[arg(long, conflicts_with = "command")]
    all: bool,
    /// Command to show the help of
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

/// Where a command is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    OnFirstPage,
    /// Only with `help --all`.
    Rarely,
}

use Shown::{OnFirstPage, Rarely};

/// What stands at the top of the first page, instead of in its group.
const MOST_USED: [&str; 10] =
    ["run", "list", "send", "reply", "inbox", "wait", "attach", "approve", "explain", "kill"];

/// CLIs that have a profile and are named on the first page.
const CLIS: &str = "claude|codex|gemini|opencode|copilot|qwen";

// tidy: table
const GROUPS: &[(&str, &[(&str, Shown)])] = &[
    (
        "Agents",
        &[
            ("run", OnFirstPage),
            ("start", OnFirstPage),
            ("rename", OnFirstPage),
            ("list", OnFirstPage),
            ("kill", OnFirstPage),
            ("explain", OnFirstPage),
            ("interrupt", OnFirstPage),
            ("watch", OnFirstPage),
            ("join", Rarely),
        ],
    ),
    (
        "Messages",
        &[
            ("send", OnFirstPage),
            ("reply", OnFirstPage),
            ("inbox", OnFirstPage),
            ("wait", OnFirstPage),
            ("broadcast", OnFirstPage),
            ("cancel", OnFirstPage),
            ("share", OnFirstPage),
            ("follow", OnFirstPage),
        ],
    ),
    (
        "Terminals",
        &[
            ("attach", OnFirstPage),
            ("approve", OnFirstPage),
            ("deny", OnFirstPage),
            ("screen", OnFirstPage),
            ("send-keys", OnFirstPage),
            ("profile", Rarely),
        ],
    ),
    ("History", &[("history", OnFirstPage), ("logs", OnFirstPage), ("audit", OnFirstPage)]),
    (
        "Set-up",
        &[
            ("init", OnFirstPage),
            ("doctor", OnFirstPage),
            ("config", OnFirstPage),
            ("trust", OnFirstPage),
            ("clean", OnFirstPage),
            ("demo", OnFirstPage),
            ("keys", Rarely),
            ("upgrade-agents", Rarely),
            ("completions", Rarely),
            ("man", Rarely),
            ("help", Rarely),
        ],
    ),
    ("Protocols", &[("a2a", OnFirstPage), ("mcp", OnFirstPage)]),
];

/// Commands that may call a node or an A2A agent by its URL.
const CALL_BY_URL: &[&[&str]] = &[
    &["send"],
    &["inbox"],
    &["explain"],
    &["status"],
    &["cancel"],
    &["a2a", "add"],
    &["a2a", "refresh"],
    &["a2a", "doctor"],
    &["remote", "add"],
    &["remote", "refresh"],
];

/// The command line with its help.
pub(super) fn command() -> Command {
    let root = Cli::command();
    let is_calling = |arg: &Arg| arg.get_id().as_str().starts_with("calling_");
    let calling: Vec<Arg> = root.get_arguments().filter(|arg| is_calling(arg)).cloned().collect();
    let root = root.mut_args(|arg| if is_calling(&arg) { arg.hide(true) } else { arg });
    let root = show_where_used(root, &[], &calling);
    let first = page(&root, false);
    root.override_help(first)
}

fn show_where_used(command: Command, above: &[&str], calling: &[Arg]) -> Command {
    command.mut_subcommands(|sub| {
        let name = sub.get_name().to_owned();
        let path: Vec<&str> = above.iter().copied().chain([name.as_str()]).collect();
        let sub = if CALL_BY_URL.contains(&&*path) { sub.args(calling) } else { sub };
        if CALL_BY_URL.iter().any(|known| known.len() > path.len() && known.starts_with(&path)) {
            show_where_used(sub, &path, calling)
        } else {
            sub
        }
    })
}

/// What was typed; says itself what is wrong, and ends.
pub(super) fn parse() -> Cli {
    let line = super::wrap::command_line();
    let matches = command().try_get_matches_from(line).unwrap_or_else(|e| usage::exit(&e));
    Cli::from_arg_matches(&matches).unwrap_or_else(|e| usage::exit(&e))
}

/// The commands in groups, as text with styles.
fn page(root: &Command, all: bool) -> StyledStr {
    let mut text = String::new();
    let about = root.get_about().map(ToString::to_string).unwrap_or_default();
    let heading = |text: &mut String, name: &str| {
        let _ = write!(text, "\n{}\n", styled(&format!("{name}:"), HEADING));
    };
    let _ = writeln!(text, "{about}\n\n{} synapse [OPTIONS] <COMMAND>", styled("Usage:", HEADING));
    let line = |text: &mut String, name: &str| {
        let about = root.find_subcommand(name).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "  {}  {about}", styled(&format!("{name:<14}"), LITERAL));
    };
    heading(&mut text, "Most used");
    let _ = writeln!(
        text,
        "  {}\n{:18}Start this CLI as an agent, with its own arguments",
        styled(CLIS, LITERAL),
        ""
    );
    if !all {
        MOST_USED.iter().for_each(|name| line(&mut text, name));
    }
    for (group, commands) in GROUPS {
        heading(&mut text, group);
        let is_shown = |name: &&str, shown| all || shown == OnFirstPage && !MOST_USED.contains(name);
        let shown = commands.iter().filter(|(name, shown)| is_shown(name, *shown));
        shown.for_each(|(name, _)| line(&mut text, name));
    }
    heading(&mut text, "Options");
    for (flag, about) in
        [("--json", "Print JSON"), ("-h, --help", "Print help"), ("-V, --version", "Print version")]
    {
        let _ = writeln!(text, "  {}  {about}", styled(&format!("{flag:<14}"), LITERAL));
    }
    let _ = write!(text, "\n{}\n\n{MORE}", super::examples::FIRST_STEPS);
    StyledStr::from(text)
}

const MORE: &str = "\
`synapse help --all` shows all commands, `synapse help <COMMAND>` explains one.";

const HEADING: &str = "1;4";
const LITERAL: &str = "1";

/// The styles are removed where the output is not a terminal.
fn styled(text: &str, code: &str) -> String {
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

pub(super) fn help(args: &Help) -> Done {
    let mut root = command();
    if args.all {
        let all = page(&root, true);
        root = root.override_help(all);
    }
    root.build();
    let mut at = &mut root;
    for word in &args.command {
        at = at.find_subcommand_mut(word).ok_or_else(|| {
            Fail::usage(format!("unknown command {word:?}; `synapse help --all` shows all commands"))
        })?;
    }
    let page = at.render_long_help();
    let page = if show::colours(show::on_terminal()) { page.ansi().to_string() } else { page.to_string() };
    show::out(page.trim_end());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, commands)| *commands).map(|c| c.0).collect();
        grouped.sort_unstable();
        let root = command();
        let mut commands: Vec<&str> =
            root.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name).collect();
        commands.sort_unstable();
        assert_eq!(grouped, commands);
        assert!(MOST_USED.iter().all(|name| grouped.contains(name)));
    }

    #[test]
    fn the_clis_that_are_named_have_profiles() {
        for cli in CLIS.split('|') {
            assert!(synapse_terminal::profile::shipped(cli).is_some(), "{cli}");
        }
    }

    /// As people read them: one line, no full stop.
    #[test]
    fn descriptions_are_short() {
        fn check(command: &Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(
                !about.is_empty() && about.chars().count() <= 60 && !about.ends_with('.'),
                "{path}: {about}"
            );
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(
                    help.chars().count() <= 80 && !help.ends_with('.'),
                    "{path} {}: {help}",
                    arg.get_id()
                );
            }
            command.get_subcommands().for_each(|sub| check(sub, &path));
        }
        let init_apart = |sub: &&Command| sub.get_name() != "init";
        command().get_subcommands().filter(init_apart).for_each(|sub| check(sub, "synapse"));
    }

    /// Finding 25: `-n` was a limit in one command and unknown in the next.
    #[test]
    fn n_is_the_limit_in_every_command() {
        fn check(command: &Command, count: &mut usize) {
            for arg in command.get_arguments() {
                let (is_n, is_limit) = (arg.get_short() == Some('n'), arg.get_long() == Some("limit"));
                assert_eq!(is_n, is_limit, "{} {}", command.get_name(), arg.get_id());
                *count += usize::from(is_n);
            }
            command.get_subcommands().for_each(|sub| check(sub, count));
        }
        let mut count = 0;
        check(&command(), &mut count);
        assert!(count >= 5, "{count}");
    }

    /// Finding 26.
    #[test]
    fn flags_for_calls_by_url_are_shown_where_they_apply() {
        let mut root = command();
        root.build();
        let shows = |path: &[&str]| {
            let mut at = &root;
            for name in path {
                at = at.find_subcommand(name).unwrap();
            }
            at.clone().render_long_help().to_string().contains("--token-env")
        };
        assert!(CALL_BY_URL.iter().all(|path| shows(path)));
        for path in [&["list"][..], &["run"], &["kill"], &["a2a", "list"], &["a2a", "serve"]] {
            assert!(!shows(path), "{path:?}");
        }
        let parsed = |words: &[&str]| {
            let matches = command().try_get_matches_from(words).unwrap();
            Cli::from_arg_matches(&matches).unwrap().calling.token_env
        };
        for words in [
            &["synapse", "--token-env", "T", "send", "a", "b"][..],
            &["synapse", "send", "a", "b", "--token-env", "T"],
            &["synapse", "a2a", "add", "a", "b", "--token-env", "T"],
            &["synapse", "--token-env", "T", "remote", "add", "a", "b"],
            &["synapse", "remote", "--token-env", "T", "add", "a", "b"],
            &["synapse", "remote", "add", "a", "b", "--token-env", "T"],
            &["synapse", "list", "--token-env", "T"],
        ] {
            assert_eq!(parsed(words).as_deref(), Some("T"), "{words:?}");
        }
    }
}
