//! How a program in a terminal reports its state besides its screen: which way, and how it must be
//! started for that.
//!
//! Nothing of the user's is changed: it uses only arguments, variables, and files in the agent's
//! folder that only this user can read. Settings of the user win: then that way is not used, and
//! `explain` says so. Not here: what is reported (`hook`, the node), what it means
//! (`synapse-terminal`).

mod ask;
mod codex;

use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use synapse_holder::Program;
use synapse_node::hands::opencode::USER as SERVER_USER;
use synapse_node::launch::Tells;
use synapse_store::files;
use synapse_store::home::AgentDir;
use synapse_terminal::Profile;
use synapse_terminal::profile::{Hooks, version_in};
use synapse_terminal::session_log::LogFormat;

/// The events for which Claude Code runs our hook.
const CLAUDE_EVENTS: [&str; 10] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "Notification",
    "Stop",
    "StopFailure",
    "PreCompact",
    "SessionEnd",
];
/// After this, Claude Code continues without the hook program, which exits long before.
const CLAUDE_TIMEOUT_S: u64 = 5;

/// Subcommands of OpenCode that start something other than its screen.
const OPENCODE_COMMANDS: [&str; 23] = [
    "completion",
    "acp",
    "mcp",
    "attach",
    "run",
    "debug",
    "providers",
    "auth",
    "agent",
    "upgrade",
    "uninstall",
    "serve",
    "web",
    "models",
    "stats",
    "export",
    "import",
    "github",
    "pr",
    "session",
    "db",
    "plugin",
    "plug",
];

/// Subcommands of Kilo that OpenCode does not have.
const KILO_COMMANDS: [&str; 9] =
    ["help", "console", "cloud", "roll-call", "profile", "remote", "daemon", "config", "worktree"];

/// Chooses the way for a program that is started with this command line in this folder.
pub fn choose(profile: &Profile, argv: &[String], folder: &Path) -> Tells {
    let given = |flag: &str| {
        argv.iter()
            .any(|word| word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
    };
    match profile.hooks {
        None => Tells::Nothing,
        Some(Hooks::Opencode) => opencode(profile, argv, &[]),
        Some(Hooks::Kilo) => opencode(profile, argv, &KILO_COMMANDS),
        Some(Hooks::Codex) => codex::choose(profile, argv),
        Some(Hooks::Claude) if given("--settings") => {
            Tells::Unused("it was started with --settings, which has the hooks otherwise".into())
        }
        Some(Hooks::Claude) => Tells::ClaudeHooks,
        Some(Hooks::Gemini) => session_log(LogFormat::Gemini, &variable),
        Some(Hooks::Qwen) => session_log(LogFormat::Qwen, &variable),
        Some(Hooks::Copilot) => session_log(LogFormat::Copilot, &variable),
        Some(Hooks::Cline) if given("--data-dir") => {
            Tells::Unused("it was started with --data-dir, so its session log is elsewhere".into())
        }
        Some(Hooks::Cline) => session_log(LogFormat::Cline, &variable),
        Some(Hooks::Aider)
            if given("--chat-history-file") || variable("AIDER_CHAT_HISTORY_FILE").is_some() =>
        {
            Tells::Unused("it was started with another file for its chat history".into())
        }
        Some(Hooks::Aider) => session_log(LogFormat::Aider, &|_| std::path::absolute(folder).ok()),
    }
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Where the program logs its sessions.
fn session_log(format: LogFormat, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Tells {
    let below_home = |name: &str| Some(variable("HOME")?.join(name));
    let folder = match format {
        LogFormat::Gemini => {
            variable("GEMINI_CLI_HOME").or_else(|| variable("HOME")).map(|home| home.join(".gemini/tmp"))
        }
        LogFormat::Qwen => variable("QWEN_RUNTIME_DIR")
            .or_else(|| variable("QWEN_HOME"))
            .or_else(|| below_home(".qwen"))
            .map(|folder| folder.join("projects")),
        LogFormat::Copilot => variable("COPILOT_HOME")
            .or_else(|| below_home(".copilot"))
            .map(|folder| folder.join("session-state")),
        LogFormat::Cline => variable("CLINE_SESSION_DATA_DIR").or_else(|| {
            let data = variable("CLINE_DATA_DIR").or_else(|| {
                let folder = variable("CLINE_DIR").or_else(|| below_home(".cline"))?;
                Some(folder.join("data"))
            });
            data.map(|data| data.join("sessions"))
        }),
        // The folder in which it is started.
        LogFormat::Aider => variable("PWD"),
    };
    match folder.filter(|folder| folder.is_absolute()) {
        Some(folder) => Tells::SessionLog { format, folder },
        None => Tells::Unused("its session log is not found without an absolute HOME".into()),
    }
}

/// The arguments of a profile that the program supports. For an untested version, the long ones are
/// used only if its help names them.
pub fn known_args(profile: &Profile) -> Vec<String> {
    let is_checked = || {
        let said = ask::version(profile, &profile.command).unwrap_or_default();
        profile.version.is_tested(&said) == Some(true)
    };
    let is_any_long = profile.args.iter().any(|arg| arg.starts_with("--"));
    if !is_any_long || profile.version.tested.is_empty() || is_checked() {
        return profile.args.clone();
    }
    match ask::printed(&profile.command, &["--help".to_owned()]) {
        Some(help) => args_in(&profile.args, &help),
        None => profile.args.clone(),
    }
}

/// Whether the profile was checked with this version of the program.
pub fn is_checked(profile: &Profile, program: &str) -> bool {
    let said = ask::npm_version(program).or_else(|| ask::version(profile, program)).unwrap_or_default();
    profile.version.is_tested(&said) == Some(true)
}

/// Whether the program's own help names a flag.
pub fn help_names(program: &str, flag: &str) -> bool {
    ask::printed(program, &["--help".to_owned()]).is_some_and(|help| words_of(&help).contains(&flag))
}

fn words_of(help: &str) -> Vec<&str> {
    help.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c))).collect()
}

/// The arguments whose flags are in the help, with their values.
fn args_in(args: &[String], help: &str) -> Vec<String> {
    let words = words_of(help);
    let mut is_known = true;
    let known = args.iter().filter(|arg| {
        if let Some(flag) = arg.split('=').next().filter(|flag| flag.starts_with('-')) {
            is_known = !flag.starts_with("--") || words.contains(&flag);
        }
        is_known
    });
    known.cloned().collect()
}

/// Before this version, OpenCode's own screen cannot log in to its server: it ends with "401
/// Unauthorized".
const OPENCODE_GUARDED: (u32, u32) = (1, 18);

/// Whether a text contains a version, and that version is older.
fn is_before(said: &str, (major, minor): (u32, u32)) -> bool {
    let mut numbers = version_in(said).unwrap_or_default().split('.').map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(a), Some(b)) => (a, b) < (major, minor),
        _ => false,
    }
}

/// Its server uses the port that the user gave, or one that is free now.
fn opencode(profile: &Profile, argv: &[String], more_commands: &[&str]) -> Tells {
    let words = argv.get(1..).unwrap_or_default();
    let is_command = |word: &str| OPENCODE_COMMANDS.contains(&word) || more_commands.contains(&word);
    if words.iter().any(|word| is_command(word)) {
        return Tells::Unused("this command of it has no server for its screen".into());
    }
    let given = words.iter().enumerate().find_map(|(n, word)| match word.strip_prefix("--port")? {
        "" => words.get(n + 1).cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    });
    match given.map(|port| port.parse()) {
        Some(Ok(port @ 1..)) => Tells::OpencodeServer { port, guarded: false },
        Some(_) => Tells::Unused("it was started with a --port that is not known beforehand".into()),
        None if profile.hooks == Some(Hooks::Opencode)
            && argv
                .first()
                .and_then(|program| ask::version(profile, program))
                .is_some_and(|said| is_before(&said, OPENCODE_GUARDED)) =>
        {
            Tells::Unused("before version 1.18 it cannot use a server of its own that has a password".into())
        }
        None => match TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr()) {
            Ok(address) => Tells::OpencodeServer { port: address.port(), guarded: true },
            Err(e) => Tells::Unused(format!("there is no free port for its server: {e}")),
        },
    }
}

/// Writes the files that the program needs into the agent's folder, and extends its command line
/// and environment.
pub fn prepare(dir: &AgentDir, tells: &Tells, synapse: &Path, program: &mut Program) -> Result<(), String> {
    match tells {
        Tells::Nothing | Tells::Unused(_) | Tells::SessionLog { .. } => Ok(()),
        Tells::OpencodeServer { guarded: false, .. } => Ok(()),
        Tells::OpencodeServer { port, guarded: true } => {
            let key = make_key(dir)?;
            program.argv.splice(1..1, ["--port".to_owned(), port.to_string()]);
            // Kilo is OpenCode with other names for these variables. Neither reads those of the
            // other.
            for program_name in ["OPENCODE", "KILO"] {
                let name = |what: &str| format!("{program_name}_SERVER_{what}");
                program.env.insert(name("USERNAME"), Some(SERVER_USER.into()));
                program.env.insert(name("PASSWORD"), Some(key.clone()));
            }
            Ok(())
        }
        Tells::CodexHooks => {
            make_key(dir)?;
            program.argv.splice(1..1, codex::words(synapse, dir.path()));
            Ok(())
        }
        Tells::ClaudeHooks => {
            make_key(dir)?;
            let file = dir.hooks().join("claude.json");
            let text = claude_settings(synapse, dir.path());
            files::write_volatile(&file, text.to_string().as_bytes()).map_err(|e| e.to_string())?;
            let words = ["--settings".to_owned(), file.display().to_string()];
            program.argv.splice(1..1, words);
            Ok(())
        }
    }
}

/// Creates a new secret for this start of the program.
fn make_key(dir: &AgentDir) -> Result<String, String> {
    files::private_dir(&dir.hooks()).map_err(|e| e.to_string())?;
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| format!("no random bytes for the key of its hooks: {e}"))?;
    let key: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    files::write_volatile(&dir.hook_key(), key.as_bytes()).map_err(|e| e.to_string())?;
    Ok(key)
}

/// The hooks for Claude Code. Their shell always succeeds and prints nothing, with one exception:
/// after the conversation was compacted, one prints the lesson again.
fn claude_settings(synapse: &Path, dir: &Path) -> Value {
    let command = format!("{} __hook {} >/dev/null 2>&1 || :", quoted(synapse), quoted(dir));
    let hook = json!([{ "hooks": [{ "type": "command", "command": command, "timeout": CLAUDE_TIMEOUT_S }] }]);
    let mut hooks: serde_json::Map<String, Value> =
        CLAUDE_EVENTS.iter().map(|event| ((*event).to_owned(), hook.clone())).collect();
    let command = format!("{} __teach 2>/dev/null || :", quoted(synapse));
    let again = json!({
        "matcher": "compact", "hooks": [{ "type": "command", "command": command, "timeout": CLAUDE_TIMEOUT_S }],
    });
    if let Some(Value::Array(session)) = hooks.get_mut("SessionStart") {
        session.push(again);
    }
    json!({ "hooks": hooks })
}

/// A path quoted as one word for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(profile: &Profile, argv: &[String]) -> Tells {
        super::choose(profile, argv, Path::new("/w"))
    }
    use synapse_terminal::profile::shipped;

    #[test]
    fn what_the_user_gave_wins() {
        let claude = shipped("claude").unwrap();
        let argv = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(choose(&claude, &argv("claude --model x")), Tells::ClaudeHooks);
        assert_eq!(choose(&claude, &argv("claude --settings-x y")), Tells::ClaudeHooks);
        for words in ["claude --settings x.json", "claude --settings={}"] {
            assert!(matches!(choose(&claude, &argv(words)), Tells::Unused(_)), "{words}");
        }
        let opencode = shipped("opencode").unwrap();
        let port = |words: &str| match choose(&opencode, &argv(words)) {
            Tells::OpencodeServer { port, guarded } => Some((port, guarded)),
            _ => None,
        };
        assert!(matches!(port("opencode -m x"), Some((1.., true))));
        for (words, told) in [
            ("opencode --port 4096", Some((4096, false))),
            ("opencode --port=4096", Some((4096, false))),
            ("opencode --port 0", None),
            ("opencode --port x", None),
            ("opencode --port", None),
            ("opencode run --port 4096", None),
        ] {
            assert_eq!(port(words).filter(|(_, guarded)| !guarded), told, "{words}");
        }
        let kilo = shipped("kilo").unwrap();
        assert!(matches!(choose(&kilo, &argv("kilo -m x")), Tells::OpencodeServer { guarded: true, .. }));
        assert!(matches!(choose(&kilo, &argv("kilo daemon")), Tells::Unused(_)));
        assert_eq!(choose(&shipped("generic").unwrap(), &argv("sh")), Tells::Nothing);
    }

    #[test]
    fn arguments_that_a_version_does_not_have_are_left_out() {
        let help = "Options:\n  -c, --config <key=value>\n      --no-daemon\n          Run without";
        let args = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (given, kept) in [
            ("--no-daemon", "--no-daemon"),
            ("--no-daemon --gone", "--no-daemon"),
            ("--gone value --no-daemon", "--no-daemon"),
            ("-c a=b", "-c a=b"),
            ("-x a=b --gone", "-x a=b"),
            ("--config=a=b --gone=x", "--config=a=b"),
            ("resume --last", "resume"),
        ] {
            assert_eq!(args_in(&args(given), help), args(kept), "{given}");
        }
        assert!(args_in(&args("--no-daemon"), "Usage: codex").is_empty());
    }

    #[test]
    fn versions_are_compared_by_number() {
        for (said, before) in [
            ("1.17.0", true),
            ("opencode 1.9.33", true),
            ("0.20.1", true),
            ("1.18.0", false),
            ("1.100.0-beta", false),
            ("2.0.0", false),
            ("", false),
            ("nothing", false),
        ] {
            assert_eq!(is_before(said, OPENCODE_GUARDED), before, "{said}");
        }
    }

    #[test]
    fn session_log_is_where_the_program_writes_it() {
        let found = |format, set: &[(&str, &str)]| {
            let variable =
                |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(*value));
            match session_log(format, &variable) {
                Tells::SessionLog { folder, .. } => folder.display().to_string(),
                _ => String::new(),
            }
        };
        let home = ("HOME", "/h");
        for (format, set, folder) in [
            (LogFormat::Gemini, vec![home], "/h/.gemini/tmp"),
            (LogFormat::Gemini, vec![home, ("GEMINI_CLI_HOME", "/g")], "/g/.gemini/tmp"),
            (LogFormat::Qwen, vec![home], "/h/.qwen/projects"),
            (LogFormat::Qwen, vec![home, ("QWEN_HOME", "/q")], "/q/projects"),
            (LogFormat::Qwen, vec![home, ("QWEN_HOME", "/q"), ("QWEN_RUNTIME_DIR", "/r")], "/r/projects"),
            (LogFormat::Copilot, vec![home], "/h/.copilot/session-state"),
            (LogFormat::Copilot, vec![home, ("COPILOT_HOME", "/c")], "/c/session-state"),
            (LogFormat::Copilot, vec![("COPILOT_HOME", "c")], ""),
            (LogFormat::Gemini, vec![], ""),
            (LogFormat::Cline, vec![home], "/h/.cline/data/sessions"),
            (LogFormat::Cline, vec![home, ("CLINE_DIR", "/c")], "/c/data/sessions"),
            (LogFormat::Cline, vec![("CLINE_DIR", "/c"), ("CLINE_DATA_DIR", "/d")], "/d/sessions"),
            (LogFormat::Cline, vec![home, ("CLINE_SESSION_DATA_DIR", "/s")], "/s"),
            (LogFormat::Aider, vec![("PWD", "/p")], "/p"),
        ] {
            assert_eq!(found(format, &set), folder, "{format:?} {set:?}");
        }
    }

    /// A path with special characters is still one word, and a failing hook program stays silent.
    #[test]
    fn the_command_of_a_hook_ends_well_whatever_the_path() {
        let root = tempfile::tempdir().unwrap();
        let odd = root.path().join("a 'b' $c `d` \"e\"");
        std::fs::create_dir(&odd).unwrap();
        std::fs::write(
            odd.join("told.sh"),
            "#!/bin/sh\nprintf '%s|' \"$@\" > \"$2/args\"\necho noise; exit 2\n",
        )
        .unwrap();
        let program = odd.join("told.sh");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        for program in [program, odd.join("gone")] {
            let settings = claude_settings(&program, &odd);
            let command = settings["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap();
            let ran = std::process::Command::new("sh").arg("-c").arg(command).output().unwrap();
            assert!(ran.status.success() && ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:?}");
        }
        let args = std::fs::read_to_string(odd.join("args")).unwrap();
        assert_eq!(args, format!("__hook|{}|", odd.display()));
    }
}
