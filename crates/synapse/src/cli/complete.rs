//! Completions: the scripts that clap makes, and the names of agents and CLIs, which the scripts ask us for.
//!
//! The scripts run `synapse __complete agents` (or `stopped`, or `known`) and `synapse __complete clis` when a name is
//! completed, and at no other time. A script of an older version goes on without names.

use crate::agents::Roll;
use crate::{profiles, remove};
use clap::Command;
use clap_complete::Shell;
use std::process::ExitCode;
use synapse_core::routes::Candidate;
use synapse_store::home::Home;
use synapse_store::remotes::Remote;

/// `synapse __complete WHAT`: one name on a line. Says nothing about what fails: the words are being typed.
pub fn names(what: &str) -> ExitCode {
    let mut names = match what {
        "agents" => agents(),
        "stopped" => local(|roll, one| !one.live && is_offered(roll, one)),
        "known" => local(|roll, one| one.live || is_offered(roll, one)),
        "clis" => clis(),
        _ => return ExitCode::from(crate::fail::USAGE),
    }
    .unwrap_or_default();
    // Scripts split them at blanks.
    names.retain(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@/#".contains(c)));
    names.sort();
    names.dedup();
    if !names.is_empty() {
        crate::show::out(&names.join("\n"));
    }
    ExitCode::SUCCESS
}

/// Those that run, and remotes.
fn agents() -> Option<Vec<String>> {
    let mut names = local(|_, one| one.live)?;
    let home = Home::from_env().ok()?;
    names.extend(Remote::all(&home).0.iter().map(|remote| remote.name.to_string()));
    Some(names)
}

/// Agents of this machine.
fn local(is_meant: impl Fn(&Roll, &Candidate) -> bool) -> Option<Vec<String>> {
    let (roll, _) = Roll::call_quietly().ok()?;
    Some(roll.candidates.iter().filter(|one| is_meant(&roll, one)).map(|one| roll.label(&one.id)).collect())
}

/// Whether a stopped agent is in `list --all`.
fn is_offered(roll: &Roll, one: &Candidate) -> bool {
    let now = synapse_node::driver::now().0;
    let known = roll.known.iter().find(|known| known.id == one.id);
    known.is_none_or(|known| !remove::is_short_try(roll, known, now))
}

fn clis() -> Option<Vec<String>> {
    let (home, here) = (Home::from_env().ok()?, std::env::current_dir().ok()?);
    let (found, _) = profiles::all(&home, &here).ok()?;
    Some(found.into_iter().map(|found| found.profile.name).filter(|name| name != "generic").collect())
}

/// Returns the script for a shell.
pub(super) fn script(shell: Shell, command: &Command) -> String {
    let mut command = without_hidden(command);
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "synapse", &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let takers = takers(&command);
    match shell {
        Shell::Bash => bash(&text, &takers),
        Shell::Zsh => zsh(&text),
        Shell::Fish => text + &fish(&takers),
        _ => text,
    }
}

/// Commands whose first argument is not one of the running agents, and what it is instead.
const OTHERS: [(&str, &str); 2] = [("start", "stopped"), ("rename", "known")];

/// Removes former names and internal commands, which nobody should complete. clap offers hidden commands too.
fn without_hidden(root: &Command) -> Command {
    let visible = root.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("synapse")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(root.get_arguments().cloned())
        .subcommands(visible)
}

/// Commands whose first argument is an agent, such as `profile record`, and whether all of their arguments are.
fn takers(root: &Command) -> Vec<(String, bool)> {
    fn collect(command: &Command, path: &str, found: &mut Vec<(String, bool)>) {
        let first = command.get_positionals().next();
        let name = first.and_then(|first| first.get_value_names()?.first());
        if name.is_some_and(|name| name.starts_with("AGENT")) {
            let counts = first.and_then(clap::Arg::get_num_args);
            found.push((path.to_owned(), counts.is_some_and(|args| args.max_values() > 1)));
        }
        for sub in command.get_subcommands() {
            collect(sub, format!("{path} {}", sub.get_name()).trim_start(), found);
        }
    }
    let mut found = Vec::new();
    collect(root, "", &mut found);
    found
}

fn bash(text: &str, takers: &[(String, bool)]) -> String {
    let list = |all: bool| {
        let names = takers.iter().filter(|(_, several)| !all || *several).map(|(name, _)| name.as_str());
        names.map(|name| format!("{name}|")).collect::<String>()
    };
    let names = BASH.replace("@ONE@", &list(false)).replace("@SEVERAL@", &list(true));
    match text.rfind("\nif [[ \"${BASH_VERSINFO") {
        Some(at) => {
            let (functions, registration) = text.split_at(at);
            let registration =
                registration.replace("complete -F _synapse ", "complete -F _synapse_with_names ");
            format!("{functions}\n{names}{registration}")
        }
        None => text.to_owned(),
    }
}

const BASH: &str = r#"_synapse_with_names() {
    _synapse "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" command="${COMP_WORDS[1]}" what=""
    local before="${COMP_WORDS[*]:1:COMP_CWORD-1}"
    case "$cur" in -*) return 0 ;; esac
    if [[ $COMP_CWORD -eq 1 ]]; then
        what=clis
    elif [[ "${COMP_WORDS[COMP_CWORD-1]}" == --from ]]; then
        what=agents
    elif [[ "$before" == start ]]; then
        what=stopped
    elif [[ "$before" == rename ]]; then
        what=known
    elif [[ "|@ONE@" == *"|$before|"* ]]; then
        what=agents
    elif [[ "|@SEVERAL@" == *"|$command|"* ]]; then
        what=agents
    fi
    [[ -z "$what" ]] && return 0
    local word kept=()
    for word in "${COMPREPLY[@]}"; do
        case "$word" in '<'* | '['*) ;; *) kept+=("$word") ;; esac
    done
    COMPREPLY=("${kept[@]}" $(compgen -W "$(synapse __complete "$what" 2>/dev/null)" -- "$cur" || true))
    return 0
}
"#;

fn zsh(text: &str) -> String {
    const FUNCTION: &str = r#"_synapse_names() {
    local -a names
    names=(${(f)"$(synapse __complete $1 2>/dev/null)"})
    _describe -t agents 'agent' names
}

_synapse_agents() { _synapse_names agents }
_synapse_stopped() { _synapse_names stopped }
_synapse_known() { _synapse_names known }

"#;
    let is_agent = |line: &str| {
        let name = line.trim_start_matches(['\'', '*', ':']);
        line.starts_with('\'')
            && ["agent -- ", "agents -- ", "targets -- ", "what -- "].iter().any(|it| name.starts_with(it))
    };
    let (mut made, mut asks) = (String::new(), "agents");
    for line in text.lines() {
        // The arguments of a command stand below its name.
        if let Some(command) = line.strip_prefix('(').and_then(|line| line.strip_suffix(')')) {
            asks = OTHERS.iter().find(|(name, _)| *name == command).map_or("agents", |(_, asks)| asks);
        }
        if line == "_synapse() {" {
            made.push_str(FUNCTION);
        }
        match is_agent(line) {
            true => made.push_str(&line.replace(":_default'", &format!(":_synapse_{asks}'"))),
            false => made.push_str(line),
        }
        made.push('\n');
    }
    let list = "_synapse_commands() {\n    local commands; commands=(\n";
    made.replacen(list, &format!("{list}${{(f)\"$(synapse __complete clis 2>/dev/null)\"}} \\\n"), 1)
}

fn fish(takers: &[(String, bool)]) -> String {
    let is_other = |name: &&str| OTHERS.iter().any(|(other, _)| other == name);
    let takers = takers.iter().map(|(name, _)| name.as_str()).filter(|name| !is_other(name));
    let (below, names): (Vec<&str>, Vec<&str>) = takers.partition(|name| name.contains(' '));
    let ask = |condition: &str, what: &str| {
        format!(
            "complete -c synapse -n \"{condition}\" -f -a \"(synapse __complete {what} 2>/dev/null)\" -d 'Agent'\n"
        )
    };
    let mut text =
        "complete -c synapse -n \"__fish_synapse_needs_command\" -f -a \"(synapse __complete clis \
                    2>/dev/null)\" -d 'Start this CLI as an agent'\n"
            .to_owned();
    text += &ask(&format!("__fish_synapse_using_subcommand {}", names.join(" ")), "agents");
    for (name, what) in OTHERS {
        text += &ask(&format!("__fish_synapse_using_subcommand {name}"), what);
    }
    for path in below {
        let mut words = path.split(' ');
        let first = words.next().unwrap_or_default();
        let rest: Vec<String> = words.map(|word| format!("__fish_seen_subcommand_from {word}")).collect();
        text +=
            &ask(&format!("__fish_synapse_using_subcommand {first}; and {}", rest.join("; and ")), "agents");
    }
    text
}
