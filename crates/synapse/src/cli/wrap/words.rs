//! The words after `synapse claude`: which are flags of ours, and which are for the CLI.
//!
//! Before `--` a flag of ours is ours wherever it stands. Every other word, and all words after `--`, go to the CLI
//! in their order. An unknown flag that looks like a mistyped one of ours is refused, unless the help of the CLI
//! names it.
//!
//! Not here: what is done with them (`wrap`).

use super::super::{TypeWhen, Who};
use crate::fail::Fail;
use clap::{ArgAction, CommandFactory as _, Parser};
use synapse_core::routes::distance;

/// Flags of ours after the name of a profile.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub(in super::super) struct Flags {
    #[command(flatten)]
    pub(super) who: Who,
    /// Run in the background
    #[arg(short, long)]
    pub(super) detach: bool,
    /// Start another one, even if one already runs in this folder
    #[arg(long)]
    pub(super) new: bool,
    /// When to type messages to a program whose profile has no composer
    #[arg(long, value_name = "WHEN")]
    pub(super) type_when: Option<TypeWhen>,
    /// Print JSON, for programs
    #[arg(long)]
    pub(super) json: bool,
    /// Print this page
    #[arg(short, long)]
    pub(super) help: bool,
}

/// What was said after the name of a profile.
pub(super) struct Words {
    pub(super) flags: Flags,
    /// For the CLI.
    pub(super) args: Vec<String>,
}

/// The words of both, and those that may be a flag of ours with a typing error.
#[derive(Debug, Default, PartialEq, Eq)]
struct Split {
    ours: Vec<String>,
    cli: Vec<String>,
    /// The word before `=`, and the flag that was probably meant.
    near: Vec<(String, String)>,
}

impl Words {
    /// `cli_has` says whether the help of the CLI names a flag.
    pub(super) fn read(
        profile: &str,
        words: &[String],
        cli_has: impl Fn(&str) -> bool,
    ) -> Result<Self, Fail> {
        let split = split(words);
        if let Some((word, meant)) = split.near.iter().find(|(word, _)| !cli_has(word)) {
            return Err(Fail::usage(format!(
                "unknown flag {word:?}: did you mean {meant}?\n\
                 hint: `synapse {profile} -- {word}` gives it to {profile} as it is"
            )));
        }
        let flags = Flags::try_parse_from(&split.ours).map_err(|e| Fail::usage(e.to_string()))?;
        Ok(Self { flags, args: split.cli })
    }

    /// Whether the CLI is only asked for its help or its version, so that there is nothing to keep running.
    pub(super) fn only_ask(&self) -> bool {
        match &self.args[..] {
            [one] if matches!(one.as_str(), "-h" | "-V") => true,
            args => args.last().is_some_and(|last| matches!(last.as_str(), "--help" | "--version")),
        }
    }
}

/// Whether JSON is asked for by these words.
pub(in super::super) fn ask_for_json(words: &[String]) -> bool {
    words.get(1..).is_some_and(|rest| split(rest).ours.iter().any(|word| word == "--json"))
}

fn split(words: &[String]) -> Split {
    let command = Flags::command();
    let mut split = Split::default();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            split.cli.extend(words.cloned());
            break;
        }
        let Some(arg) = flag(&command, word) else {
            split.near.extend(meant(&command, word));
            split.cli.push(word.clone());
            continue;
        };
        split.ours.push(word.clone());
        let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        if takes_value && !word.contains('=') {
            split.ours.extend(words.next_if(|value| *value != "--").cloned());
        }
    }
    split
}

/// The flag of ours that this word is.
fn flag<'a>(command: &'a clap::Command, word: &str) -> Option<&'a clap::Arg> {
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split('=').next();
        return command.get_arguments().find(|arg| arg.get_long() == name);
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let (letter, rest) = (letters.next()?, letters.next());
    command.get_arguments().find(|arg| rest.is_none() && arg.get_short() == Some(letter))
}

/// A flag of ours that differs from this word by a slip of the finger.
fn meant(command: &clap::Command, word: &str) -> Option<(String, String)> {
    let name = word.strip_prefix("--")?.split('=').next().filter(|name| !name.is_empty())?;
    let slips_max = if name.chars().count() < 5 { 1 } else { 2 };
    let ours = command.get_arguments().filter_map(clap::Arg::get_long);
    let (slips, near) = ours.map(|long| (distance(name, long), long)).min()?;
    (slips <= slips_max).then(|| (format!("--{name}"), format!("--{near}")))
}

/// Our page on a profile.
pub(super) fn help(profile: &str, command: &str) -> String {
    let command = command.rsplit('/').next().unwrap_or(command);
    let after = format!(
        "These options may stand anywhere before `--`. All other words, and all words after `--`, go to {command}.\n\n\
         Examples:\n  \
         synapse {profile} -d                    in the background; `synapse attach {profile}` shows it\n  \
         synapse {profile} --new                 another one, if one already runs in this folder\n  \
         synapse {profile} --name review ARGS    under a name of its own, with arguments for {command}\n  \
         synapse {profile} -- --name x           a flag that both have: the one of {command}\n  \
         synapse {profile} -- --help             the help of {command} itself"
    );
    let about = format!("Run {command} in a terminal as an agent");
    let page =
        Flags::command().name("synapse").about(about).after_help(after).max_term_width(100).override_usage(
            format!("synapse {profile} [OPTIONS] [ARGS OF {command}] [-- ARGS OF {command}]"),
        );
    page.mut_arg("help", |arg| arg.display_order(1000)).render_long_help().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn check(line: &str, ours: &str, cli: &str) {
        let found = split(&words(line));
        assert_eq!((found.ours, found.cli), (words(ours), words(cli)), "{line}");
    }

    #[test]
    fn flags_of_ours_are_ours_before_two_dashes_and_of_the_cli_after_them() {
        Flags::command().debug_assert();
        check("-d --name x -- --model sonnet", "-d --name x", "--model sonnet");
        check("--model sonnet -d", "-d", "--model sonnet");
        check("--model sonnet --name=x --continue", "--name=x", "--model sonnet --continue");
        check("resume --last --port 8200", "--port 8200", "resume --last");
        check("-- -d --name y -- z", "", "-d --name y -- z");
        check("--name -- x", "--name", "x");
        check("-c a=b -dv -p --", "", "-c a=b -dv -p");
        check("--json -h", "--json -h", "");
        assert!(ask_for_json(&words("claude -d --json")) && !ask_for_json(&words("claude -- --json")));
    }

    #[test]
    fn mistyped_flags_of_ours_are_refused_unless_the_cli_has_them() {
        let read = |line: &str, cli: &[&str]| {
            Words::read("codex", &words(line), |flag| cli.contains(&flag)).map(|read| read.args)
        };
        for (line, meant) in [("--detatch", "--detach"), ("--nmae x", "--name"), ("--skil=a", "--skill")] {
            let told = read(line, &[]).unwrap_err().info.message;
            assert!(told.contains(&format!("did you mean {meant}?")), "{told}");
            assert_eq!(read(&format!("-- {line}"), &[]).unwrap(), words(line), "after `--` nobody is asked");
        }
        assert_eq!(read("--cd /tmp", &["--cd"]).unwrap(), words("--cd /tmp"));
        for line in ["--model x", "--print", "--resume", "--ide", "--yolo", "-c x", "--prompt p", "--debug"] {
            assert_eq!(read(line, &[]).unwrap(), words(line), "far from all flags of ours");
        }
        assert!(read("--name", &[]).is_err());
    }

    #[test]
    fn questions_about_the_cli_are_known() {
        let only_ask = |line: &str| Words::read("codex", &words(line), |_| false).unwrap().only_ask();
        for line in ["-- --help", "-- -h", "-V", "--version", "exec -- --help"] {
            assert!(only_ask(line), "{line}");
        }
        for line in ["", "-v", "--help x", "-- -h x", "x --model y"] {
            assert!(!only_ask(line), "{line}");
        }
    }
}
