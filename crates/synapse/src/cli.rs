//! The command line: what the user typed, in words that clap checks. Each command is a file in `cli/`.

mod audit;
mod cancel;
mod config;
mod doctor;
mod inbox;
mod init;
mod join;
mod kill;
mod list;
mod reply;
mod run;
mod send;
mod status;
mod upgrade;
mod wait;

use crate::fail::{Done, Fail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::process::ExitCode;
use std::time::Duration;

/// Lets AI agents of every kind talk to each other: reliably, safely, and with honest receipts.
#[derive(Parser)]
#[command(
    name = "synapse",
    version,
    max_term_width = 100,
    after_help = "\
First steps:
  synapse demo                                   see it work, in a throw-away home
  synapse run --name shout --exec 'tr a-z A-Z'   make any command an agent
  synapse send shout 'hello' --response          give it a task and wait for the answer
  synapse list                                   who is here

Targets are a name, a type (`claude`), a handle (`claude-8100`) or the start of an id.
Exit codes: 0 ok, 1 error, 2 usage, 3 the task failed, 4 timed out, 5 refused or ambiguous."
)]
struct Cli {
    /// Print JSON, for programs
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a command an agent: one process per task
    Run(Run),
    /// Join as an agent: messages on stdout, answers on stdin, one JSON per line
    Join(Join),
    /// Send a message to an agent
    Send(Send),
    /// Answer a task, by default the last one you were given
    Reply(Reply),
    /// Show the mail that waits
    Inbox(Inbox),
    /// List the agents on this machine
    #[command(visible_alias = "ls")]
    List(List),
    /// Show how an agent is
    Status(Status),
    /// Stop a task
    Cancel(Cancel),
    /// Stop an agent and everything it started; its mail stays
    #[command(visible_alias = "stop")]
    Kill(Kill),
    /// Show who did what, or check that the log of it is whole
    Audit(audit::Audit),
    /// Show and change settings: each value, and where it came from
    Config(config::Config),
    /// Teach agents, in CLAUDE.md, GEMINI.md or AGENTS.md, how to reach each other
    Init(Init),
    /// Look whether everything is as it should be, and say what helps
    Doctor(Doctor),
    /// Restart nodes with the version that is installed now; agents, mail and running commands stay
    UpgradeAgents(UpgradeAgents),
    /// See it work: three agents, a streamed task, a kill -9 with mail waiting, nothing lost
    Demo(Demo),
}

/// What an agent is called and can do.
#[derive(Args)]
struct Who {
    /// A name of its own, by which it is found again
    #[arg(long)]
    name: Option<String>,
    /// Its type, part of its handle; default: from the command
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Its role, e.g. Developer, Reviewer, Coordinator
    #[arg(long)]
    role: Option<String>,
    /// Something it can do; may be given several times, found as `skill:<NAME>`
    #[arg(long = "skill", value_name = "NAME")]
    skills: Vec<String>,
    /// The TCP port on loopback; default: the one it had, or the first free from 8100
    #[arg(long)]
    port: Option<u16>,
    /// The folder it works in; default: this one
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    who: Who,
    /// The command, run by the shell for each task: prompt on stdin, answer on stdout, exit code = outcome
    #[arg(long, value_name = "COMMAND", required = true)]
    exec: String,
    /// The command speaks events, one JSON per line, both ways
    #[arg(long)]
    jsonl: bool,
    /// Tasks at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// How long one task may take, e.g. 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time_limit: Option<Duration>,
    /// How much one task may print, bytes
    #[arg(long, value_name = "BYTES")]
    output_limit: Option<u64>,
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
}

#[derive(Args)]
struct Send {
    /// Who: a name, type, handle, start of an id, `skill:<NAME>`
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
struct Reply {
    /// What; `-` or nothing reads it from stdin
    message: Option<String>,
    /// The task; default: the last one that reached the agent you run under
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// It could not be done; the message says why
    #[arg(long)]
    fail: bool,
}

#[derive(Args)]
struct Inbox {
    /// Whose; default: the agent you run under, or else yours
    agent: Option<String>,
    /// Only look: what is shown stays unread
    #[arg(long)]
    peek: bool,
    /// At most this many
    #[arg(long, default_value_t = 50)]
    max: usize,
}

#[derive(Args)]
struct List {
    /// Also those that are known but not running
    #[arg(short, long)]
    all: bool,
}

#[derive(Args)]
struct Status {
    agent: String,
}

#[derive(Args)]
struct Cancel {
    /// The task's id, or its first eight digits
    task: String,
    /// Why, for the task's history
    #[arg(long, default_value = "canceled by the user")]
    why: String,
}

#[derive(Args)]
struct Kill {
    /// Which
    #[arg(required_unless_present = "all")]
    agents: Vec<String>,
    /// All that run
    #[arg(long, conflicts_with = "agents")]
    all: bool,
}

#[derive(Args)]
struct Init {
    /// For these programs only; default: the files that are there
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CLI")]
    cli: Vec<AgentCli>,
    /// In your own files, for all projects
    #[arg(long, conflicts_with = "project")]
    user: bool,
    /// In the files of this folder (default)
    #[arg(long)]
    project: bool,
    /// Take it out again
    #[arg(long)]
    remove: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

/// The programs that read instructions from files.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AgentCli {
    Claude,
    Codex,
    Gemini,
    Opencode,
    Copilot,
}

impl AgentCli {
    const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode, Self::Copilot];
}

#[derive(Args)]
struct Doctor {
    /// Mend what is safe to mend: permissions, and files that nobody uses any more
    #[arg(long)]
    fix: bool,
}

#[derive(Args)]
struct UpgradeAgents {
    /// Which
    #[arg(required_unless_present = "all")]
    agents: Vec<String>,
    /// All that run
    #[arg(long, conflicts_with = "agents")]
    all: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
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
    let cli = Cli::parse();
    let json = cli.json;
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
        Command::Join(args) => block_on(join::join(args)),
        Command::Send(args) => block_on(send::send(args, json)),
        Command::Reply(args) => block_on(reply::reply(args, json)),
        Command::Inbox(args) => block_on(inbox::inbox(args, json)),
        Command::List(args) => list::list(&args, json),
        Command::Status(args) => block_on(status::status(args, json)),
        Command::Cancel(args) => block_on(cancel::cancel(args, json)),
        Command::Kill(args) => block_on(kill::kill(args, json)),
        Command::Audit(args) => audit::audit(args, json),
        Command::Config(args) => config::config(&args, json),
        Command::Init(args) => init::init(&args, json),
        Command::Doctor(args) => block_on(doctor::doctor(&args, json)),
        Command::UpgradeAgents(args) => block_on(upgrade::upgrade(args, json)),
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

/// The message: given, from a file, or from stdin.
fn text_of(message: Option<String>, file: Option<&std::path::Path>) -> Result<String, Fail> {
    use std::io::{IsTerminal as _, Read as _};
    const BYTES_MAX: u64 = (1 << 20) + 1;
    let text = match (message, file) {
        (Some(text), _) if text != "-" => return Ok(text),
        (_, Some(path)) => {
            let opened = std::fs::File::open(path);
            let file = opened.map_err(|e| Fail::usage(format!("{} cannot be read: {e}", path.display())))?;
            let mut bytes = Vec::new();
            file.take(BYTES_MAX).read_to_end(&mut bytes)?;
            bytes
        }
        (None, None) if std::io::stdin().is_terminal() => {
            return Err(Fail::usage("no message: give one, or --file, or pipe one in"));
        }
        _ => {
            let mut bytes = Vec::new();
            std::io::stdin().take(BYTES_MAX).read_to_end(&mut bytes)?;
            bytes
        }
    };
    String::from_utf8(text).map_err(|_| Fail::usage("the message is not UTF-8 text"))
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
