//! Usage errors found by clap, printed as JSON if `--json` was given.

use crate::fail::Fail;
use clap::error::{Error, ErrorKind};

/// Whether `--json` was typed, also where the rest could not be parsed. What follows `--` belongs to a program.
pub(super) fn wants_json() -> bool {
    std::env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json")
}

/// Prints help, the version or what is wrong, and ends the process.
pub(super) fn exit(error: &Error) -> ! {
    if !error.use_stderr() || !wants_json() {
        error.exit();
    }
    let fail = Fail::usage(message(error));
    fail.tell(true);
    std::process::exit(error.exit_code());
}

/// What is wrong, in one line: without the usage, which is for people.
fn message(error: &Error) -> String {
    if matches!(
        error.kind(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return "a command is missing; `synapse --help` lists the commands".to_owned();
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut said = String::new();
    for line in text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:")) {
        let tip = line.strip_prefix("tip: ");
        match (said.is_empty(), tip) {
            (_, None) if line.is_empty() || line.starts_with("For more information") => continue,
            (true, _) => {}
            (false, Some(_)) => said.push_str("; "),
            (false, None) => said.push(' '),
        }
        said.push_str(tip.unwrap_or(line));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_one_line() {
        let of =
            |words: &[&str]| message(&super::super::help::command().try_get_matches_from(words).unwrap_err());
        assert_eq!(
            of(&["synapse", "list", "--allx"]),
            "unexpected argument '--allx' found; a similar argument exists: '--all'"
        );
        assert_eq!(of(&["synapse", "send"]), "the following required arguments were not provided: <AGENT>");
        assert!(of(&["synapse", "--json"]).starts_with("a command is missing"));
        assert!(of(&["synapse", "send", "a", "b", "-p", "6"]).starts_with("invalid value '6'"));
    }
}
