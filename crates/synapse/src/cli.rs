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
mod config;
mod doctor;
mod elsewhere;
mod examples;
mod explain;
mod facts;
mod follow;
mod history;
mod inbox;
mod init;
mod input;
mod interrupt;
mod join;
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
mod wait;
mod wait_command;
mod watchdog;
mod who;
mod wrap;

pub use watchdog::detached as watch_detached;

use crate::fail::Done;
use clap::{Args, Parser, Subcommand, ValueEnum};
use input::{confirm, text_of};
use std::process::ExitCode;
use std::time::Duration;
use who::{Network, Who};

/// Lets AI agents of every kind talk to each other: reliably, safely, and with honest receipts.
#[derive(Parser)]
#[command(
    name = "synapse",
    version,
    max_term_width = 100,
    after_help = "\
First steps:
  synapse demo                                      see it work, in a throw-away home
  synapse run -d --name shout --exec 'tr a-z A-Z'   make any command an agent, in the background
  synapse send shout 'hello' --response             give it a task and wait for the answer
  synapse list                                      who is here

Targets are a name or type (`claude`), with a place (`claude@p2`), a handle (`claude-8100`), the start of an id, a remote, or a URL.
Exit codes: 0 ok, 1 error, 2 usage, 3 the task failed, 4 timed out, 5 refused or ambiguous."
)]
struct Cli {
    /// Print JSON, for programs
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
    /// Believe only this authority (PEM); or SYNAPSE_CA. Default: the public ones
    #[arg(id = "calling_ca", help_heading = CALLING, long = "ca", global = true, hide_short_help = true, value_name = "FILE")]
    ca: Option<std::path::PathBuf>,
    /// The certificate to show (PEM); or SYNAPSE_CERT
    #[arg(id = "calling_cert", help_heading = CALLING, long = "cert", global = true, hide_short_help = true, value_name = "FILE")]
    cert: Option<std::path::PathBuf>,
    /// Its key (PEM); or SYNAPSE_KEY
    #[arg(id = "calling_key", help_heading = CALLING, long = "key", global = true, hide_short_help = true, value_name = "FILE")]
    key: Option<std::path::PathBuf>,
    /// The file with the token to bring; or SYNAPSE_TOKEN_FILE
    #[arg(id = "calling_token_file", help_heading = CALLING, long = "token-file", global = true, hide_short_help = true, value_name = "FILE")]
    token_file: Option<std::path::PathBuf>,
    /// The variable that has the token to bring, if no file has it
    #[arg(id = "calling_token_env", help_heading = CALLING, long = "token-env", global = true, hide_short_help = true, value_name = "NAME", conflicts_with = "calling_token_file")]
    token_env: Option<String>,
    /// A host that the card of an A2A agent may point to besides its own; may be given several times
    #[arg(id = "calling_allow_host", help_heading = CALLING, long = "allow-host", global = true, hide_short_help = true, value_name = "HOST[:PORT]")]
    allow_hosts: Vec<String>,
}

const CALLING: &str = "Calling a node by URL (https://HOST:PORT), or an A2A agent";

#[derive(Subcommand)]
enum Command {
    /// Make a command an agent: one process per task with --exec, or a program in a terminal after `--`
    #[command(after_help = examples::RUN)]
    Run(Run),
    /// Bring an agent's terminal to this one; Ctrl-b d leaves it
    #[command(after_help = examples::ATTACH)]
    Attach(attach::Attach),
    /// Show what an agent's terminal shows
    #[command(after_help = examples::SCREEN)]
    Screen(attach::Screen),
    /// Start a stopped agent again, with the command, folder and flags it had
    #[command(after_help = examples::START)]
    Start(start::Start),
    /// Record a program's terminal, and the states it was seen in
    #[command(after_help = examples::RECORD)]
    Record(record::Record),
    /// Look at profiles: what is known of each CLI, and how well it fits a recording
    #[command(after_help = examples::PROFILE)]
    Profile(profile::Profile),
    /// Join as an agent: messages on stdout, answers on stdin, one JSON per line
    #[command(after_help = examples::JOIN)]
    Join(Join),
    /// Send a message to an agent
    #[command(after_help = examples::SEND)]
    Send(Send),
    /// Send a message to all agents, and tell who got it
    #[command(after_help = examples::BROADCAST)]
    Broadcast(broadcast::Broadcast),
    /// Interrupt what an agent is doing
    #[command(after_help = examples::INTERRUPT)]
    Interrupt(interrupt::Interrupt),
    /// Allow what an agent waits for you to approve
    #[command(after_help = examples::APPROVE)]
    Approve(approve::Decision),
    /// Refuse what an agent waits for you to approve
    #[command(after_help = examples::DENY)]
    Deny(approve::Decision),
    /// Press keys in an agent's terminal: Enter, Escape, C-c, F5, …; anything else is text
    #[command(after_help = examples::SEND_KEYS)]
    SendKeys(send_keys::SendKeys),
    /// Wait until agents are idle or tasks are done
    #[command(after_help = examples::WAIT)]
    Wait(wait_command::Wait),
    /// Answer a task, by default the last one you were given
    #[command(after_help = examples::REPLY)]
    Reply(reply::Reply),
    /// Show the mail that waits
    #[command(after_help = examples::INBOX)]
    Inbox(inbox::Inbox),
    /// List the agents on this machine
    #[command(visible_alias = "ls", after_help = examples::LIST)]
    List(List),
    /// Give agents elsewhere a name: any that speak A2A
    #[command(subcommand, after_help = examples::REMOTE)]
    Remote(remote::RemoteCommand),
    /// Serve and check A2A
    #[command(subcommand, after_help = examples::A2A)]
    A2a(a2a::A2aCommand),
    /// Show how an agent is
    #[command(after_help = examples::STATUS)]
    Status(status::Status),
    /// Tell why an agent, a task or a message is where it is, and what to do
    #[command(after_help = examples::EXPLAIN)]
    Explain(explain::Explain),
    /// Show an agent's log, or what a task has said
    #[command(after_help = examples::LOGS)]
    Logs(logs::Logs),
    /// Say what the agent you run under is doing; its followers get a note
    #[command(after_help = examples::SHARE)]
    Share(share::Share),
    /// Hear what an agent shares
    #[command(after_help = examples::FOLLOW)]
    Follow(follow::Follow),
    /// No longer hear what an agent shares
    #[command(after_help = examples::UNFOLLOW)]
    Unfollow(follow::Unfollow),
    /// Poke an agent that stopped half-way
    #[command(after_help = examples::WATCH)]
    Watch(watchdog::Watch),
    /// Look back: what was said, by whom, and what became of it
    #[command(after_help = examples::HISTORY)]
    History(history::History),
    /// Stop a task
    #[command(after_help = examples::CANCEL)]
    Cancel(cancel::Cancel),
    /// Stop an agent and everything it started; its mail stays
    #[command(visible_alias = "stop", after_help = examples::KILL)]
    Kill(kill::Kill),
    /// Show who did what, or check that the log of it is whole
    #[command(after_help = examples::AUDIT)]
    Audit(audit::Audit),
    /// Show and change settings: each value, and where it came from
    #[command(after_help = examples::CONFIG)]
    Config(config::Config),
    /// Allow a project's files to do more than add caution
    #[command(after_help = examples::TRUST)]
    Trust(trust::Trust),
    /// Teach agents, in CLAUDE.md, GEMINI.md or AGENTS.md, how to reach each other
    #[command(after_help = examples::INIT)]
    Init(init::Init),
    /// Give agents the same as tools, over MCP
    #[command(subcommand, after_help = examples::MCP)]
    Mcp(mcp::Mcp),
    /// Look whether everything is as it should be, and say what helps
    #[command(after_help = examples::DOCTOR)]
    Doctor(doctor::Doctor),
    /// Remove what nobody uses any more: stale files, and agents that did not run for long
    #[command(after_help = examples::CLEAN)]
    Clean(clean::Clean),
    /// Restart nodes with the version that is installed now; agents, mail and running commands stay
    #[command(after_help = examples::UPGRADE_AGENTS)]
    UpgradeAgents(upgrade::UpgradeAgents),
    /// Stop all agents and remove everything that synapse keeps
    #[command(after_help = examples::UNINSTALL)]
    Uninstall(uninstall::Uninstall),
    /// Print the completions of a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions(man::Completions),
    /// Print the manual, or write a page for each command
    #[command(after_help = examples::MAN)]
    Man(man::Man),
    /// Replace the secrets by which callers on TCP are known, or see where they are
    #[command(subcommand, after_help = examples::TOKEN)]
    Token(token::Token),
    /// Make and look at certificates for TLS
    #[command(subcommand, after_help = examples::CERTS)]
    Certs(certs::Certs),
    /// See it work: three agents, a streamed task, a kill -9 with mail waiting, nothing lost
    #[command(after_help = examples::DEMO)]
    Demo(Demo),
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
    /// The command, run by the shell for each task: prompt on stdin, answer on stdout, exit code = outcome
    #[arg(long, value_name = "COMMAND", required_unless_present_any = ["program", "echo"], conflicts_with = "program")]
    exec: Option<String>,
    /// No command: answer each message with itself, to try things out
    #[arg(long, conflicts_with_all = ["exec", "program", "jsonl", "parallel", "time_limit", "output_limit", "history"])]
    echo: bool,
    /// A program to run in a terminal of its own, with its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
    /// The program has no terminal and speaks the Agent Client Protocol, as `gemini --acp` does
    #[arg(long, requires = "program", conflicts_with_all = ["exec", "echo", "type_when", "jsonl", "history"])]
    acp: bool,
    /// The command speaks events, one JSON per line, both ways
    #[arg(long)]
    jsonl: bool,
    /// Start another one, even if one with this profile already runs in this folder
    #[arg(long, requires = "program", conflicts_with = "acp")]
    new: bool,
    /// When to type messages to a program whose profile has no composer
    #[arg(long, value_name = "WHEN", requires = "program")]
    type_when: Option<TypeWhen>,
    /// Tasks at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// How long one task may take, e.g. 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time_limit: Option<Duration>,
    /// How much one task may print, bytes
    #[arg(long, value_name = "BYTES")]
    output_limit: Option<u64>,
    /// Earlier turns of the conversation to give with a message
    #[arg(long, value_name = "TURNS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=200))]
    history: u16,
    /// Return when it runs; it goes on in the background
    #[arg(short, long)]
    detach: bool,
}

#[derive(Args)]
struct Join {
    #[command(flatten)]
    who: Who,
    /// Messages you may have in hand before you report one as seen
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    window: u16,
    /// Earlier turns of the conversation to give with a message
    #[arg(long, value_name = "TURNS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=200))]
    history: u16,
}

#[derive(Args)]
struct Send {
    /// Who: a name, type, handle, start of an id, `skill:<NAME>`, a remote, or a URL
    agent: String,
    /// What; `-` or nothing reads it from stdin
    message: Option<String>,
    /// Read the message from a file
    #[arg(long, value_name = "PATH", conflicts_with = "message")]
    file: Option<std::path::PathBuf>,
    /// Speak for an agent of yours
    #[arg(short, long, value_name = "AGENT")]
    from: Option<String>,
    /// 1 note, 3 normal, 5 emergency
    #[arg(short, long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=5))]
    priority: u64,
    /// Wait for the answer and print it
    #[arg(long, overrides_with = "no_response")]
    response: bool,
    /// Do not wait for an answer (default)
    #[arg(long, overrides_with = "response")]
    no_response: bool,
    /// Answer this task; it always works: it completes the task, or is a message linked to it
    #[arg(long, value_name = "TASK")]
    reply_to: Option<String>,
    /// Go on with this task, which asked for input
    #[arg(long, value_name = "TASK", conflicts_with = "reply_to")]
    task: Option<String>,
    /// Return when this is proven
    #[arg(long, value_enum, value_name = "STEP")]
    wait_for: Option<WaitFor>,
    /// How long to wait, e.g. 30s, 5m; default: 10m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// An id of your own: sending the same id again has no second effect
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    /// Show the traffic with an A2A agent on stderr, and what is odd in it
    #[arg(long)]
    wire: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum WaitFor {
    /// It is on disk
    Stored,
    /// The agent has been given it
    Submitted,
    /// The agent has read it
    Seen,
    /// The agent has answered
    Answer,
}

#[derive(Args)]
struct List {
    /// Also those that are known but not running
    #[arg(short, long)]
    all: bool,
    /// Tab-separated, without a head or colours
    #[arg(long, conflicts_with = "json")]
    plain: bool,
    /// Stay, and show each change
    #[arg(short, long)]
    watch: bool,
}

#[derive(Args)]
pub struct Demo {
    /// Keep the throw-away home and say where it is
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
    let cli = Cli::parse_from(wrap::command_line());
    let json = cli.json || matches!(&cli.command, Command::External(words) if wrap::ask_for_json(words));
    match dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => {
            fail.tell(json);
            ExitCode::from(fail.code)
        }
    }
}

fn dispatch(cli: Cli) -> Done {
    let json = cli.json;
    match cli.command {
        Command::Run(args) => run::run(args, json),
        Command::Start(args) => start::start(&args, json),
        Command::Attach(args) => attach::attach(args),
        Command::Screen(args) => block_on(attach::screen(args, json)),
        Command::Record(args) => record::record(args, json),
        Command::Profile(args) => profile::profile(&args, json),
        Command::External(words) => wrap::external(words, json),
        Command::Join(args) => block_on(join::join(args)),
        Command::Send(args) => block_on(send::send(args, &cli.calling, json)),
        Command::Broadcast(args) => block_on(broadcast::broadcast(args, json)),
        Command::Interrupt(args) => block_on(interrupt::interrupt(args, json)),
        Command::Approve(args) => block_on(approve::decide(args, true, json)),
        Command::Deny(args) => block_on(approve::decide(args, false, json)),
        Command::SendKeys(args) => block_on(send_keys::send_keys(args, json)),
        Command::Wait(args) => block_on(wait_command::wait(args, json)),
        Command::Explain(args) => block_on(explain::explain(args, json)),
        Command::Logs(args) => block_on(logs::logs(args, json)),
        Command::Share(args) => block_on(share::share(args, json)),
        Command::Follow(args) => block_on(follow::follow(args, json)),
        Command::Unfollow(args) => block_on(follow::unfollow(args, json)),
        Command::Watch(args) => watchdog::watch(args, json),
        Command::Reply(args) => block_on(reply::reply(args, json)),
        Command::Inbox(args) => block_on(inbox::inbox(args, &cli.calling, json)),
        Command::List(args) if args.watch => block_on(live::live(args, json)),
        Command::List(args) => list::list(&args, json),
        Command::Remote(args) => block_on(remote::remote(args, &cli.calling, json)),
        Command::A2a(args) => a2a::a2a(args, &cli.calling, json),
        Command::Status(args) => block_on(status::status(args, &cli.calling, json)),
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
        Command::Uninstall(args) => block_on(uninstall::uninstall(&args, json)),
        Command::Completions(args) => man::completions(&args),
        Command::Man(args) => man::man(&args),
        Command::UpgradeAgents(args) => block_on(upgrade::upgrade(args, json)),
        Command::Token(args) => token::token(args, json),
        Command::Certs(args) => certs::certs(args, json),
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
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
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
