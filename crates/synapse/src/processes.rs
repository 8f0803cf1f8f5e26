//! The processes under an agent: holder, node, runner. Same binary, short paths, no command line parser.

use crate::{launch, program, tells};
use std::ffi::OsString;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;
use synapse_core::ids::{AgentId, Label};
use synapse_holder::depth;
use synapse_holder::terminal::visitors::{Doorkeeper, Visitor};
use synapse_holder::{Claim, Death, Ended, HoldError, Program, StartTerminal, Terminal};
use synapse_node::ancestry::{self, Kin};
use synapse_node::launch::InTerminal;
use synapse_node::{Hand, Launch, Ready};
use synapse_store::disagreement::RuleDisagreement;
use synapse_store::home::{AgentDir, Home, socket_address};
use synapse_store::known::Known;
use synapse_store::lifetime::{EndedBy, Lifetime};
use synapse_store::{ended as program_ended, files, holders, registry, should_run};

/// Runs an inner process if the first argument names one.
pub fn inner(name: &str, mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let first = args.next();
    let id = || first.as_ref().and_then(|raw| AgentId::parse(raw.to_str()?).ok());
    match name {
        "__hook" => Some(crate::hook::tell(Path::new(&first.unwrap_or_default()))),
        "__teach" => Some(teach()),
        "__run" => Some(run(Path::new(&first.unwrap_or_default()))),
        "__hold" => Some(id().map_or(ExitCode::from(2), |id| hold(&id))),
        "__node" => Some(id().map_or(ExitCode::from(2), |id| node(&id))),
        "__watch" => Some(crate::cli::watch_detached(first.unwrap_or_default().to_str().unwrap_or_default())),
        "__tty" => Some(crate::learn::run_in_terminal(&first.unwrap_or_default(), args)),
        "__complete" => Some(crate::cli::complete(first.unwrap_or_default().to_str().unwrap_or_default())),
        "__demo" => Some(crate::demo::program(first.unwrap_or_default().to_str().unwrap_or_default())),
        _ => None,
    }
}

/// What a CLI adds to its conversation; see `tells`.
fn teach() -> ExitCode {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{}", crate::teach::after_compaction());
    ExitCode::SUCCESS
}

fn run(dir: &Path) -> ExitCode {
    match synapse_holder::run(dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            use std::io::Write as _;
            // Unlike `eprintln!` this survives a full disk under the log.
            let _ = writeln!(std::io::stderr(), "{e}");
            let Some(limit) = e.limit() else { return ExitCode::FAILURE };
            // The node shows this last line.
            let _ = writeln!(std::io::stderr(), "{limit}");
            ExitCode::from(synapse_holder::EXIT_WANT_OF_ROOM)
        }
    }
}

fn node(id: &AgentId) -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SYNAPSE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let home = Home::from_env();
    let log = home.as_ref().map(|home| home.agent(id).log()).unwrap_or_default();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::sync::Mutex::new(crate::logfile::Bounded::new(log, std::io::stderr())))
        .with_ansi(false)
        // A log that cannot be written, on a full disk, must not end whoever writes it.
        .log_internal_errors(false)
        .init();
    match home {
        Ok(home) => synapse_node::run(home, id),
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(78)
        }
    }
}

/// The holder: claims the agent, writes down what it is, and stands under its node until it ends.
fn hold(id: &AgentId) -> ExitCode {
    // A session of its own: closing the terminal it was started from ends nothing.
    let _ = rustix::process::setsid();
    let (home, launch) = match read_launch() {
        Ok(read) => read,
        Err(why) => return cannot_run(why),
    };
    if launch.id != *id {
        return cannot_run("the launch file is of another agent".into());
    }
    let dir = home.agent(id);
    if let Err(e) = dir.ensure() {
        return cannot_run(e.to_string());
    }
    let started_by = match starter(&home, &launch) {
        Ok(agent) => agent,
        Err(why) => {
            launch::say(&Ready::OfAnother { why });
            return ExitCode::FAILURE;
        }
    };
    let claim = match synapse_holder::claim(dir.path()) {
        Ok(claim) => claim,
        Err(HoldError::AlreadyHeld { pid }) => {
            launch::say(&Ready::AlreadyHeld { pid });
            return ExitCode::FAILURE;
        }
        Err(e) => return cannot_run(e.to_string()),
    };
    match write_down(&home, &launch, started_by) {
        Ok(lifetime) => supervise(&home, &launch, &claim, lifetime),
        Err(why) => cannot_run(why),
    }
}

fn cannot_run(why: String) -> ExitCode {
    launch::say(&Ready::CannotRun { why });
    ExitCode::FAILURE
}

/// Watches over the agent's node, and over its program if it has a terminal, until it ends.
fn supervise(home: &Home, launch: &Launch, claim: &Claim, lifetime: Lifetime) -> ExitCode {
    let (dir, id, began) = (home.agent(&launch.id), &launch.id, Instant::now());
    let own = std::process::id();
    let mut starts = 0u64;
    let node = || {
        starts += 1;
        node_command(&dir, id, starts - 1)
    };
    let terminal = match &launch.hand {
        Hand::Terminal(inner) => match serve_terminal(home, launch, inner) {
            Ok(start) => Some(start),
            Err(why) => {
                note_end(&dir, lifetime, EndedBy::Node, began);
                return cannot_run(why);
            }
        },
        _ => None,
    };
    let ended = synapse_holder::hold(claim, node, terminal);
    if matches!(ended, Ok(Ended::CannotRun | Ended::Program(_))) {
        let _ = should_run::forget(&dir);
    }
    let _ = std::fs::remove_file(dir.terminal());
    let _ = holders::forget(home, own);
    let _ = registry::remove(home, id, own);
    if let Some(by) = ended_by(&ended) {
        note_end(&dir, lifetime, by, began);
    }
    match ended {
        Ok(Ended::Stopped) => ExitCode::SUCCESS,
        Ok(Ended::CannotRun) => ExitCode::from(78),
        Ok(Ended::Program(death)) => {
            remember(&dir, death);
            ExitCode::SUCCESS
        }
        Err(e @ HoldError::Program(_)) => cannot_run(e.to_string()),
        Err(e) => {
            eprintln!("holder: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Who ended the agent; none if its holder failed, so that nobody knows.
fn ended_by(ended: &Result<Ended, HoldError>) -> Option<EndedBy> {
    match ended {
        Ok(Ended::Stopped) => Some(EndedBy::Request),
        Ok(Ended::Program(_)) => Some(EndedBy::Program),
        Ok(Ended::CannotRun) | Err(HoldError::Program(_)) => Some(EndedBy::Node),
        Err(_) => None,
    }
}

/// Notes how long the agent ran, while its lock still keeps others from starting it.
fn note_end(dir: &AgentDir, lifetime: Lifetime, by: EndedBy, began: Instant) {
    let now = synapse_node::driver::now().0;
    if let Err(e) = lifetime.end(dir, by, began.elapsed(), now) {
        eprintln!("holder: how long the agent ran could not be written down: {e}");
    }
}

/// What starts a node, after so many before it.
fn node_command(dir: &AgentDir, id: &AgentId, starts: u64) -> Command {
    let mut command = program::next_node(dir);
    command.arg("__node").arg(id.to_string()).stdin(std::process::Stdio::null());
    command.env(synapse_node::serve::HOLDER_VERSION_VARIABLE, env!("CARGO_PKG_VERSION"));
    if starts > 0 {
        command.env(synapse_node::serve::RESTART_VARIABLE, starts.to_string());
    }
    command
}

/// The node has written down how the program ended, with its last words, if there was a node.
fn remember(dir: &AgentDir, death: Death) {
    if program_ended::Ended::load(dir).is_some() {
        return;
    }
    let (failed, why) = match death {
        Death::Exited(code) => (code != 0, format!("exit code {code}")),
        Death::Signaled(number) => (true, format!("killed by signal {number}")),
    };
    let at_ms = synapse_node::driver::now().0;
    if let Err(e) = (program_ended::Ended { failed, why, at_ms }).save(dir) {
        eprintln!("holder: how the program ended could not be written down: {e}");
    }
}

/// The terminal's socket is there before its program is, so that nobody comes too early.
fn serve_terminal(home: &Home, launch: &Launch, inner: &InTerminal) -> Result<StartTerminal, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, id, folder) = (home.agent(&launch.id), &launch.id, &launch.working_dir);
    let path = dir.terminal();
    let told = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    // We hold the agent's lock: whatever is there is left from a holder that was killed.
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(told(&e)),
        _ => {}
    }
    let (address, _guard) = socket_address(&path).map_err(|e| told(&e))?;
    let socket = UnixListener::bind(address).map_err(|e| told(&e))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(|e| told(&e))?;
    let mut program = Program {
        argv: inner.argv.clone(),
        folder: folder.clone(),
        env: inner.env.clone(),
        columns: inner.columns,
        rows: inner.rows,
    };
    // Secrets that came to us in variables are for the node alone (M6).
    for variable in program::secret_variables(home, folder) {
        program.env.insert(variable, None);
    }
    // What it runs in a sandbox finds its outbox by these.
    let outbox = synapse_store::outbox::place(folder, id).to_string_lossy().into_owned();
    program.env.insert("SYNAPSE_AGENT_ID".into(), Some(id.to_string()));
    program.env.insert(synapse_node::serve::OUTBOX_VARIABLE.into(), Some(outbox));
    let synapse = program::installed().map_err(|e| e.to_string())?;
    tells::prepare(&dir, &inner.tells, &synapse, &mut program)?;
    let doorkeeper = doorkeeper(home.clone());
    Ok(Box::new(move || Terminal::start(&program, socket, doorkeeper)))
}

/// Tells the terminal whose process has connected to it.
fn doorkeeper(home: Home) -> Doorkeeper {
    Box::new(move |process| match ancestry::of_process(&home, process) {
        Kin::Person => Visitor::User,
        Kin::Under(agents) => Visitor::Agents(agents.iter().map(AgentId::to_string).collect()),
        Kin::Gone | Kin::Limited(_) => Visitor::Nobody,
    })
}

fn read_launch() -> Result<(Home, Launch), String> {
    const LAUNCH_BYTES_MAX: u64 = 1 << 20;
    use std::io::Read as _;
    let mut text = Vec::new();
    std::io::stdin().take(LAUNCH_BYTES_MAX).read_to_end(&mut text).map_err(|e| e.to_string())?;
    let launch: Launch = serde_json::from_slice(&text).map_err(|e| format!("the launch file: {e}"))?;
    if let Some(name) = &launch.name {
        Label::parse_agent_name(name.as_str()).map_err(|bad| bad.to_string())?;
    }
    let home = Home::from_env().map_err(|e| e.to_string())?;
    Ok((home, launch))
}

/// The agent below which this one is started, if it may be: an agent starts new agents and those that it started before.
/// With another's name or mailbox it would read that one's mail and speak in its name.
fn starter(home: &Home, launch: &Launch) -> Result<Option<AgentId>, String> {
    let starter = match ancestry::own(home) {
        Kin::Person if depth::own() == 0 || !home.is_default() => return Ok(None),
        Kin::Under(agents) => agents.first().copied(),
        Kin::Person | Kin::Gone | Kin::Limited(_) => None,
    };
    let (known, _) = Known::all(home);
    let same_name = |known: &Known| launch.name.is_some() && known.name == launch.name;
    let mut others = known.iter().filter(|known| known.id == launch.id || same_name(known));
    match others.find(|known| known.started_by.is_none() || known.started_by != starter) {
        None => Ok(starter),
        Some(known) => Err(format!(
            "{} is an agent that somebody else started; an agent may start only new agents and those that it \
             started before: choose another --name",
            registry::label(home, &known.id)
        )),
    }
}

/// Only the holder that has the lock writes these: a second one changes nothing.
fn write_down(home: &Home, launch: &Launch, started_by: Option<AgentId>) -> Result<Lifetime, String> {
    let told = |e: &dyn std::fmt::Display| e.to_string();
    let dir = home.agent(&launch.id);
    program_ended::Ended::forget(&dir);
    RuleDisagreement::forget(&dir);
    let before = Known::load(&dir).ok().flatten();
    // It may have been renamed after the command that starts it looked.
    let name = before.as_ref().map_or_else(|| launch.name.clone(), |known| known.name.clone());
    let launch = &Launch { name, ..launch.clone() };
    let text = serde_json::to_vec_pretty(launch).map_err(|e| told(&e))?;
    files::write_private(&dir.launch(), &text).map_err(|e| told(&e))?;
    let installed = program::installed().map_err(|e| told(&e))?;
    program::write_down(&dir, &installed).map_err(|e| told(&e))?;
    let now = synapse_node::driver::now().0;
    // One whose `known.json` was removed has still left its journal.
    let is_new = before.is_none() && !dir.known().exists() && !dir.journal().exists();
    let known = Known {
        id: launch.id,
        kind: launch.kind.clone(),
        name: launch.name.clone(),
        former_names: before.as_ref().map(|known| known.former_names.clone()).unwrap_or_default(),
        suffix: launch.suffix.clone(),
        assigned_number: before.as_ref().and_then(|known| known.assigned_number),
        role: launch.role.clone(),
        capabilities: launch.capabilities.clone(),
        working_dir: launch.working_dir.display().to_string(),
        hostname: launch.hostname.clone(),
        port: before.as_ref().and_then(|known| known.port),
        first_seen_ms: before.as_ref().map_or(now, |known| known.first_seen_ms),
        last_started_ms: now,
        started_by,
    };
    let lifetime = Lifetime::begin(&dir, is_new, now).map_err(|e| told(&e))?;
    known.save(home).map_err(|e| told(&e))?;
    should_run::note(&dir).map_err(|e| told(&e))?;
    holders::note(home, std::process::id(), &launch.id).map_err(|e| told(&e))?;
    Ok(lifetime)
}
