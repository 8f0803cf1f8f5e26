//! Completions: the scripts that clap makes, and the names of agents and CLIs, which the scripts ask us for.
//!
//! The scripts run `synapse __complete agents` and `synapse __complete clis` when a name is completed, and at no other
//! time. A script of an older version goes on without names.

use crate::agents::Roll;
use crate::profiles;
use clap::Command;
use clap_complete::Shell;
use std::process::ExitCode;
use synapse_store::home::Home;
use synapse_store::remotes::Remote;

/// `synapse __complete WHAT`: one name on a line. Says nothing about what fails: the words are being typed.
pub fn names(what: &str) -> ExitCode {
    let mut names = match what {
        "agents" => agents(),
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
    let (roll, _) = Roll::call_quietly().ok()?;
    let mut names: Vec<String> =
        roll.candidates.iter().filter(|one| one.live).map(|one| roll.label(&one.id)).collect();
    names.extend(Remote::all(&roll.home).0.iter().map(|remote| remote.name.to_string()));
    Some(names)
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

/// Removes former names and internal commands, which nobody should complete. clap offers hidden commands too.
fn without_hidden(root: &Command) -> Command {
    let visible = root.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("synapse")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(root.get_arguments().cloned())
        .subcommands(visible)
}

/// Commands whose first argument is an agent, and whether all of their arguments are.
fn takers(root: &Command) -> Vec<(String, bool)> {
    let taker = |command: &Command| {
        let first = command.get_positionals().next()?;
        let is_agent = first.get_value_names()?.first()?.starts_with("AGENT");
        let several = first.get_num_args().is_some_and(|args| args.max_values() > 1);
        is_agent.then(|| (command.get_name().to_owned(), several))
    };
    root.get_subcommands().filter_map(taker).collect()
}

fn bash(text: &str, takers: &[(String, bool)]) -> String {
    let list = |all: bool| {
        let names = takers.iter().filter(|(_, several)| !all || *several).map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>().join(" ")
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
    case "$cur" in -*) return 0 ;; esac
    if [[ $COMP_CWORD -eq 1 ]]; then
        what=clis
    elif [[ "${COMP_WORDS[COMP_CWORD-1]}" == --from ]]; then
        what=agents
    elif [[ $COMP_CWORD -eq 2 && " @ONE@ " == *" $command "* ]]; then
        what=agents
    elif [[ " @SEVERAL@ " == *" $command "* ]]; then
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
    const FUNCTION: &str = r#"_synapse_agents() {
    local -a names
    names=(${(f)"$(synapse __complete agents 2>/dev/null)"})
    _describe -t agents 'agent' names
}

"#;
    let is_agent = |line: &str| {
        let name = line.trim_start_matches(['\'', '*', ':']);
        line.starts_with('\'')
            && ["agent -- ", "agents -- ", "targets -- ", "what -- "].iter().any(|it| name.starts_with(it))
    };
    let mut made = String::new();
    for line in text.lines() {
        if line == "_synapse() {" {
            made.push_str(FUNCTION);
        }
        match is_agent(line) {
            true => made.push_str(&line.replace(":_default'", ":_synapse_agents'")),
            false => made.push_str(line),
        }
        made.push('\n');
    }
    let list = "_synapse_commands() {\n    local commands; commands=(\n";
    made.replacen(list, &format!("{list}${{(f)\"$(synapse __complete clis 2>/dev/null)\"}} \\\n"), 1)
}

fn fish(takers: &[(String, bool)]) -> String {
    let names: Vec<&str> = takers.iter().map(|(name, _)| name.as_str()).collect();
    format!(
        "complete -c synapse -n \"__fish_synapse_needs_command\" -f -a \"(synapse __complete clis 2>/dev/null)\" \
         -d 'Start this CLI as an agent'\n\
         complete -c synapse -n \"__fish_synapse_using_subcommand {}\" -f -a \"(synapse __complete agents \
         2>/dev/null)\" -d 'Agent'\n",
        names.join(" ")
    )
}
