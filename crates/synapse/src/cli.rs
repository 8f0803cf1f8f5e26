//! The command line: what the user typed, in words that clap checks. Each command is a file in `cli/`.

mod a2a;
mod acp;
pub mod alerts;
mod approve;
mod attach;
mod audit;
mod bell;
mod broadcast;
mod cancel;
mod certs;
mod clean;
mod complete;
mod config;
mod doctor;
mod elsewhere;
mod examples;
mod explain;
mod facts;
mod follow;
mod former;
mod help;
mod history;
mod inbox;
mod init;
mod input;
mod interrupt;
mod join;
mod keys;
mod kill;
mod list;
mod live;
mod logs;
mod man;
mod mcp;
mod pending;
mod profile;
mod reason;
mod record;
mod remote;
mod rename;
mod reply;
mod run;
pub mod send;
mod send_keys;
mod share;
mod start;
mod status;
mod there;
mod token;
mod trust;
mod uninstall;
mod upgrade;
mod usage;
mod wait;
mod wait_command;
mod watchdog;
mod who;
mod wrap;

pub use complete::names as complete;
pub use watchdog::detached as watch_detached;
pub use wrap::several_stopped_shown;

use crate::fail::{self, Done};
use clap::{Args, Parser, Subcommand, ValueEnum};
use input::{confirm, text_of};
use std::process::ExitCode;
use std::time::Duration;
use who::{Network, Who};

/// Let AI agents of every kind message each other
#[derive(Parser)]
#[command(
    name = "synapse",
    version,
    max_term_width = 100,
    after_help = examples::FIRST_STEPS,
    disable_help_subcommand = true
)]
struct Cli {
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    calling: Calling,
    #[command(subcommand)]
    command: Command,
}

/// What is brought to a node that is called by its URL (REST-8).
#[derive(Args, Default)]
struct Calling {
    /// Trust only this CA certificate (PEM) [or SYNAPSE_CA; default: public CAs]
    #[arg(id = "calling_ca", help_heading = CALLING, long = "ca", global = true, hide_short_help = true, value_name = "FILE")]
    ca: Option<std::path::PathBuf>,
    /// Client certificate (PEM) [or SYNAPSE_CERT]
    #[arg(id = "calling_cert", help_heading = CALLING, long = "cert", global = true, hide_short_help = true, value_name = "FILE")]
    cert: Option<std::path::PathBuf>,
    /// Key of the client certificate (PEM) [or SYNAPSE_KEY]
    #[arg(id = "calling_key", help_heading = CALLING, long = "key", global = true, hide_short_help = true, value_name = "FILE")]
    key: Option<std::path::PathBuf>,
    /// Read the bearer token from this file [or SYNAPSE_TOKEN_FILE]
    #[arg(id = "calling_token_file", help_heading = CALLING, long = "token-file", global = true, hide_short_help = true, value_name = "FILE")]
    token_file: Option<std::path::PathBuf>,
    /// Read the bearer token from this environment variable
    #[arg(id = "calling_token_env", help_heading = CALLING, long = "token-env", global = true, hide_short_help = true, value_name = "NAME", conflicts_with = "calling_token_file")]
    token_env: Option<String>,
    /// Allow the A2A card to name this other host (repeatable)
    #[arg(id = "calling_allow_host", help_heading = CALLING, long = "allow-host", global = true, hide_short_help = true, value_name = "HOST[:PORT]")]
    allow_hosts: Vec<String>,
}

const CALLING: &str = "Calls by URL (https://HOST:PORT) and to A2A agents";

#[derive(Subcommand)]
enum Command {
    /// Run a command or program as an agent
    #[command(after_help = examples::RUN)]
    Run(Run),
    /// Attach to an agent's terminal; Ctrl-\ d detaches
    #[command(after_help = examples::ATTACH)]
    Attach(attach::Attach),
    /// Print the screen of an agent's terminal
    #[command(after_help = examples::SCREEN)]
    Screen(attach::Screen),
    /// Start a stopped agent again, with its last conversation
    #[command(after_help = examples::START)]
    Start(start::Start),
    /// Give an agent a name, or another one
    #[command(after_help = examples::RENAME)]
    Rename(rename::Rename),
    /// Record terminals; show, check and test CLI profiles
    #[command(after_help = examples::PROFILE)]
    Profile(profile::Profile),
    /// Join as an agent over standard input and output (JSONL)
    #[command(after_help = examples::JOIN)]
    Join(Join),
    /// Send a message to an agent
    #[command(after_help = examples::SEND)]
    Send(Send),
    /// Send a message to all running agents
    #[command(after_help = examples::BROADCAST)]
    Broadcast(broadcast::Broadcast),
    /// Interrupt what an agent is doing
    #[command(after_help = examples::INTERRUPT)]
    Interrupt(interrupt::Interrupt),
    /// Approve an agent's pending prompt
    #[command(after_help = examples::APPROVE)]
    Approve(approve::Decision),
    /// Deny an agent's pending prompt
    #[command(after_help = examples::DENY)]
    Deny(approve::Decision),
    /// Press keys in an agent's terminal
    #[command(after_help = examples::SEND_KEYS)]
    SendKeys(send_keys::SendKeys),
    /// Wait until agents are idle or tasks are done
    #[command(after_help = examples::WAIT)]
    Wait(wait_command::Wait),
    /// Reply to a task, by default the last one received
    #[command(after_help = examples::REPLY)]
    Reply(reply::Reply),
    /// Show waiting messages and approvals
    #[command(after_help = examples::INBOX)]
    Inbox(inbox::Inbox),
    /// List the agents on this machine
    #[command(visible_alias = "ls", after_help = examples::LIST)]
    List(List),
    /// Serve an agent over A2A, add remote agents, check servers
    #[command(subcommand, after_help = examples::A2A)]
    A2a(a2a::A2aCommand),
    /// Show and explain the state of an agent, task or message
    #[command(after_help = examples::EXPLAIN)]
    Explain(explain::Explain),
    /// Show an agent's log or the output of a task
    #[command(after_help = examples::LOGS)]
    Logs(logs::Logs),
    /// Publish what this agent is doing
    #[command(after_help = examples::SHARE)]
    Share(share::Share),
    /// Subscribe to what an agent shares; --stop unsubscribes
    #[command(after_help = examples::FOLLOW)]
    Follow(follow::Follow),
    /// Nudge an agent that has stopped mid-task
    #[command(after_help = examples::WATCH)]
    Watch(watchdog::Watch),
    /// Show, search and export past messages
    #[command(after_help = examples::HISTORY)]
    History(history::History),
    /// Cancel a task
    #[command(after_help = examples::CANCEL)]
    Cancel(cancel::Cancel),
    /// Stop agents and their processes; messages are kept
    #[command(visible_alias = "stop", after_help = examples::KILL)]
    Kill(kill::Kill),
    /// Show or verify the audit log
    #[command(after_help = examples::AUDIT)]
    Audit(audit::Audit),
    /// Show and change settings
    #[command(after_help = examples::CONFIG)]
    Config(config::Config),
    /// Trust a project's settings and profiles
    #[command(after_help = examples::TRUST)]
    Trust(trust::Trust),
    /// Teach CLIs how to message each other
    #[command(after_help = examples::INIT)]
    Init(init::Init),
    /// Serve Synapse as tools over MCP
    #[command(subcommand, after_help = examples::MCP)]
    Mcp(mcp::Mcp),
    /// Diagnose problems and suggest fixes
    #[command(after_help = examples::DOCTOR)]
    Doctor(doctor::Doctor),
    /// Remove stale files and unused agents, or uninstall
    #[command(after_help = examples::CLEAN)]
    Clean(clean::Clean),
    /// Move running agents to the installed version
    #[command(after_help = examples::UPGRADE_AGENTS)]
    UpgradeAgents(upgrade::UpgradeAgents),
    /// Print shell completions
    #[command(after_help = examples::COMPLETIONS)]
    Completions(man::Completions),
    /// Print or write manual pages
    #[command(after_help = examples::MAN)]
    Man(man::Man),
    /// Manage tokens and TLS certificates
    #[command(subcommand, after_help = examples::KEYS)]
    Keys(keys::Keys),
    /// Run a demonstration in a temporary home
    #[command(after_help = examples::DEMO)]
    Demo(Demo),
    /// Show the help of a command, or all commands with --all
    #[command(after_help = examples::HELP)]
    Help(help::Help),
    #[command(flatten)]
    Former(former::Former),
    /// A profile: `synapse claude`, `synapse codex`, …
    #[command(external_subcommand)]
    External(Vec<String>),
}

/// When messages are typed to a program whose profile has no composer.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TypeWhen {
    /// Type while the screen is quiet; press Enter only if the text appears; refuse shells
    Quiet,
    /// Like quiet, but allow shells, which run each message as a command
    QuietShell,
}

impl From<TypeWhen> for synapse_terminal::quiet::TypeWhen {
    fn from(when: TypeWhen) -> Self {
        match when {
            TypeWhen::Quiet => Self::Quiet,
            TypeWhen::QuietShell => Self::QuietShell,
        }
    }
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    who: Who,
    /// Run this shell command for each task (prompt on stdin, reply on stdout)
    #[arg(long, value_name = "COMMAND", required_unless_present_any = ["program", "echo"], conflicts_with = "program")]
    exec: Option<String>,
    /// Echo every message back
    #[arg(long, conflicts_with_all = ["exec", "program", "jsonl", "parallel", "time_limit", "output_limit", "history"])]
    echo: bool,
    /// Run this program in its own terminal
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
    /// Talk to the program over the Agent Client Protocol, without a terminal
    #[arg(long, requires = "program", conflicts_with_all = ["exec", "echo", "type_when", "jsonl", "history"])]
    acp: bool,
    /// Exchange events with the command, one JSON object per line
    #[arg(long)]
    jsonl: bool,
    /// Start another one, even if one with this profile already runs in this folder
    #[arg(long, requires = "program", conflicts_with = "acp")]
    new: bool,
    /// When to type messages to a program whose profile has no composer
    #[arg(long, value_name = "WHEN", requires = "program")]
    type_when: Option<TypeWhen>,
    /// Maximum number of concurrent tasks
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// Time limit of a task, e.g. 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time_limit: Option<Duration>,
    /// Output limit of a task, in bytes
    #[arg(long, value_name = "BYTES")]
    output_limit: Option<u64>,
    /// Include this many earlier turns of the conversation
    #[arg(long, value_name = "TURNS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=200))]
    history: u16,
    /// Run in the background
    #[arg(short, long)]
    detach: bool,
}

#[derive(Args)]
struct Join {
    #[command(flatten)]
    who: Who,
    /// Maximum number of unacknowledged messages
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    window: u16,
    /// Include this many earlier turns of the conversation
    #[arg(long, value_name = "TURNS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=200))]
    history: u16,
}

#[derive(Args)]
struct Send {
    /// Name, type, handle, id prefix, `skill:<NAME>`, remote or URL
    agent: String,
    /// Text of the message; read from stdin if `-` or omitted
    message: Option<String>,
    /// Read the message from a file
    #[arg(long, value_name = "PATH", conflicts_with = "message")]
    file: Option<std::path::PathBuf>,
    /// Send on behalf of one of your agents
    #[arg(short, long, value_name = "AGENT")]
    from: Option<String>,
    /// Priority from 1 (note) to 5 (emergency)
    #[arg(short, long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=5))]
    priority: u64,
    /// Wait for the reply and print it
    #[arg(long, overrides_with = "no_response")]
    response: bool,
    /// Do not wait for the reply (default)
    #[arg(long, overrides_with = "response")]
    no_response: bool,
    /// Reply to this task, even if it has already ended
    #[arg(long, value_name = "TASK")]
    reply_to: Option<String>,
    /// Continue this task, which asked for input
    #[arg(long, value_name = "TASK", conflicts_with = "reply_to")]
    task: Option<String>,
    /// Wait until the message reaches this step
    #[arg(long, value_enum, value_name = "STEP")]
    wait_for: Option<WaitFor>,
    /// Maximum time to wait, e.g. 30s, 5m [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Use this message id; sending it again has no effect
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    /// Print the A2A traffic and its oddities to stderr
    #[arg(long)]
    wire: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum WaitFor {
    /// The message is on disk
    Stored,
    /// The agent has been given the message
    Submitted,
    /// The agent has read the message
    Seen,
    /// The agent has replied
    Answer,
}

#[derive(Args)]
struct List {
    /// Include agents that are not running
    #[arg(short, long)]
    all: bool,
    /// Print tab-separated values without a header
    #[arg(long, conflicts_with = "json")]
    plain: bool,
    /// Keep running and show each change
    #[arg(short, long)]
    watch: bool,
}

#[derive(Args)]
pub struct Demo {
    /// Keep the temporary home and print its path
    #[arg(long)]
    pub keep: bool,
}

/// `90`, `90s`, `5m`, `1h`, `500ms`.
fn duration(raw: &str) -> Result<Duration, String> {
    let split = raw.find(|c: char| !c.is_ascii_digit()).unwrap_or(raw.len());
    let (number, unit) = raw.split_at(split);
    let number: u64 =
        number.parse().map_err(|_| "use a number with ms, s, m or h, such as 90s".to_owned())?;
    let ms = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("{unit:?} is no unit of time; use ms, s, m or h")),
    };
    Ok(Duration::from_millis(number.saturating_mul(ms)))
}

pub fn main() -> ExitCode {
    let cli = help::parse();
    // An unknown word takes all that follows it as arguments of its own.
    let is_unknown = matches!(cli.command, Command::External(_));
    let json = cli.json || matches!(&cli.command, Command::External(words) if wrap::ask_for_json(words));
    match dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => {
            fail.tell(json || is_unknown && fail.code == fail::USAGE && usage::wants_json());
            ExitCode::from(fail.code)
        }
    }
}

fn dispatch(cli: Cli) -> Done {
    let json = cli.json;
    match cli.command {
        Command::Run(args) => run::run(args, json),
        Command::Start(args) => start::start(&args, json),
        Command::Rename(args) => block_on(rename::rename(args, json)),
        Command::Attach(args) => attach::attach(args),
        Command::Screen(args) => block_on(attach::screen(args, json)),
        Command::Profile(args) => profile::profile(args, json),
        Command::Former(former) => former::dispatch(former, &cli.calling, json),
        Command::External(words) => wrap::external(words, json),
        Command::Join(args) => block_on(join::join(args)),
        Command::Send(args) => block_on(send::send(args, &cli.calling, json)),
        Command::Broadcast(args) => block_on(broadcast::broadcast(args, json)),
        Command::Interrupt(args) => block_on(interrupt::interrupt(args, json)),
        Command::Approve(args) => block_on(approve::decide(args, true, json)),
        Command::Deny(args) => block_on(approve::decide(args, false, json)),
        Command::SendKeys(args) => block_on(send_keys::send_keys(args, json)),
        Command::Wait(args) => block_on(wait_command::wait(args, json)),
        Command::Explain(args) => block_on(explain::explain(args, &cli.calling, json)),
        Command::Logs(args) => block_on(logs::logs(args, json)),
        Command::Share(args) => block_on(share::share(args, json)),
        Command::Follow(args) => block_on(follow::follow(args, json)),
        Command::Watch(args) => watchdog::watch(args, json),
        Command::Reply(args) => block_on(reply::reply(args, json)),
        Command::Inbox(args) => block_on(inbox::inbox(args, &cli.calling, json)),
        Command::List(args) if args.watch => block_on(live::live(args, json)),
        Command::List(args) => block_on(list::list(args, json)),
        Command::A2a(args) => a2a::a2a(args, &cli.calling, json),
        Command::History(args) => history::history(args, json),
        Command::Cancel(args) => block_on(cancel::cancel(args, &cli.calling, json)),
        Command::Kill(args) => block_on(kill::kill(args, json)),
        Command::Audit(args) => audit::audit(args, json),
        Command::Config(args) => config::config(&args, json),
        Command::Trust(args) => trust::trust(&args, json),
        Command::Init(args) => init::init(&args, json),
        Command::Mcp(args) => block_on(mcp::mcp(args)),
        Command::Doctor(args) => block_on(doctor::doctor(&args, json)),
        Command::Clean(args) => clean::clean(&args, json),
        Command::Completions(args) => man::completions(&args),
        Command::Man(args) => man::man(&args, json),
        Command::UpgradeAgents(args) => block_on(upgrade::upgrade(args, json)),
        Command::Keys(args) => keys::keys(args, json),
        Command::Help(args) => help::help(&args),
        Command::Demo(args) => crate::demo::demo(&args, json),
    }
}

/// Most commands are one question and one answer: a single thread is enough.
fn block_on(work: impl Future<Output = Done>) -> Done {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time();
    // The runtime needs sockets for itself; in a sandbox without any, there is only the outbox to wait for.
    if synapse_peer::sockets_work() {
        runtime.enable_io();
    }
    let runtime = runtime.build()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        help::command().debug_assert();
    }

    #[test]
    fn durations() {
        for (raw, ms) in [("90", 90_000), ("90s", 90_000), ("5m", 300_000), ("1h", 3_600_000), ("500ms", 500)]
        {
            assert_eq!(duration(raw), Ok(Duration::from_millis(ms)), "{raw}");
        }
        for raw in ["", "s", "1d", "-1s", "1.5s"] {
            assert!(duration(raw).is_err(), "{raw}");
        }
    }
}
