//! The holder: stands under one agent for as long as the agent lives.
//!
//! It holds the agent's lock, starts the node, starts it again when it dies,
//! reaps what the agent leaves behind, and ends it all when the agent ends.
//! What a dead node had started stays alive: the next node takes it over.
//!
//! Invariant: one agent folder has one holder; while it holds, its lock names
//! it.
//! Not here: what the node does, the bytes of a terminal (`terminal`), the launcher that
//! sends our stderr to the agent's log.

use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::cores;
use crate::depth;
use crate::disk;
use crate::process::ProcessMark;
use crate::reaper::{Death, Reaper, TreeStands};
use crate::terminal::Terminal;

/// How holding an agent came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The node or the holder was asked to stop.
    Stopped,
    /// The node said that starting it again would not help.
    CannotRun,
    /// The program in the agent's terminal ended by itself.
    Program(Death),
}

/// Why an agent could not be held, or not be ended.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    #[error("this agent is running already{}; stop it first", by(*pid))]
    AlreadyHeld { pid: Option<u32> },
    #[error("could not take the agent's lock {}: {source}", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("could not start the node {program}: {source}; is it installed and executable?")]
    NodeNotStarted { program: String, source: io::Error },
    #[error("could not start the program in a terminal: {0}; is it installed, and on PATH?")]
    Program(io::Error),
    #[error("the agent ended, but not all it had started: {0}")]
    TreeStands(#[from] TreeStands),
    #[error("the system would not let the holder watch over its children: {0}")]
    System(#[from] io::Error),
}

/// The right to hold an agent; gone when dropped or when its process ends.
#[derive(Debug)]
pub struct Claim {
    lock: File,
    path: PathBuf,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing would not do while another thread starts a process: until
        // that one executes its program it shares the lock.
        let _ = self.lock.unlock();
    }
}

/// Claims the agent of `agent_dir`, or says who has it.
pub fn claim(agent_dir: &Path) -> Result<Claim, HoldError> {
    let path = agent_dir.join(LOCK_NAME);
    let failed = |source| HoldError::Lock { path: path.clone(), source };
    let lock = disk::private()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false) // it names the holder if there is one
        .open(&path)
        .map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let pid = read_mark(&lock).map(|mark| mark.pid);
            return Err(HoldError::AlreadyHeld { pid });
        }
        Err(std::fs::TryLockError::Error(source)) => return Err(failed(source)),
    }
    lock.set_permissions(Permissions::from_mode(0o600)).map_err(failed)?;
    let claim = Claim { lock, path: path.clone() };
    claim.sign().map_err(failed)?;
    Ok(claim)
}

/// Who holds the agent of `agent_dir` now. Looks only: unlike `claim` it never
/// stands in the way of a holder that is just starting.
pub fn holder_of(agent_dir: &Path) -> Option<ProcessMark> {
    recorded_holder(agent_dir).ok()?.filter(ProcessMark::is_alive)
}

/// The process that the lock of `agent_dir` names, dead or alive; `None` if nobody ever held the agent.
pub fn recorded_holder(agent_dir: &Path) -> io::Result<Option<ProcessMark>> {
    match disk::private().read(true).open(agent_dir.join(LOCK_NAME)) {
        Ok(lock) => {
            let garbled = || io::Error::new(io::ErrorKind::InvalidData, "the lock does not name its holder");
            read_mark(&lock).map(Some).ok_or_else(garbled)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Holds the agent until it ends. `node` makes the command that starts a node;
/// it is asked anew for every start. `terminal` starts the agent's program, if
/// it has one: the agent ends with it. The claim stays with the caller, who may have
/// something to write down before the next holder comes.
pub fn hold(
    claim: &Claim,
    mut node: impl FnMut() -> Command,
    terminal: Option<StartTerminal>,
) -> Result<Ended, HoldError> {
    // The claim may be older than this process, if the launcher forked.
    claim.sign().map_err(|source| HoldError::Lock { path: claim.path.clone(), source })?;
    // Before anything is started: all of it shall inherit this.
    depth::descend()?;
    let reaper = Reaper::stand()?;
    let mut terminal = terminal.map(|start| start().map_err(HoldError::Program)).transpose()?;
    let ended = hold_until_end(&reaper, &mut node, terminal.as_mut());
    if let Some(terminal) = &mut terminal {
        terminal.stopped(match &ended {
            Ok(Ended::CannotRun) => CANNOT_RUN,
            Ok(_) => "",
            Err(_) => "its holder failed; `synapse logs` has the reason",
        });
    }
    ended
}

/// Opens the agent's terminal and starts its program.
pub type StartTerminal = Box<dyn FnOnce() -> io::Result<Terminal>>;

fn hold_until_end(
    reaper: &Reaper,
    node: &mut impl FnMut() -> Command,
    mut terminal: Option<&mut Terminal>,
) -> Result<Ended, HoldError> {
    let mut delay = None;
    let mut is_first = true;
    loop {
        let started = Instant::now();
        let death = match start(node()) {
            Ok(pid) => match watch_node(reaper, pid, terminal.as_deref_mut())? {
                Over::Node(death) => death,
                Over::Paused => continue,
                Over::Told => return stop(reaper, Some(pid)),
                Over::Program(death) => {
                    stop(reaper, Some(pid))?;
                    return Ok(Ended::Program(death));
                }
            },
            Err(error) if is_first => return Err(error),
            // The binary may be in the midst of an upgrade.
            Err(error) => {
                say(&error.to_string());
                Death::Exited(127)
            }
        };
        is_first = false;
        let wait = match after_death(death, started.elapsed(), delay) {
            Next::Stop => {
                say("the node was asked to stop");
                reaper.end_tree(GRACE)?;
                return Ok(Ended::Stopped);
            }
            Next::CannotRun => {
                say("the node cannot run and will not be started again; see above for why");
                reaper.end_tree(GRACE)?;
                return Ok(Ended::CannotRun);
            }
            Next::Restart { delay } => delay,
        };
        say(&format!("the node {death} after {:?}; next start in {wait:?}", started.elapsed()));
        delay = Some(wait);
        match watch(reaper, None, Some(Instant::now() + wait), terminal.as_deref_mut())? {
            Over::Paused | Over::Node(_) => {}
            Over::Told => return stop(reaper, None),
            Over::Program(death) => {
                stop(reaper, None)?;
                return Ok(Ended::Program(death));
            }
        }
    }
}

/// What follows from a node's death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Restart { delay: Duration },
    Stop,
    CannotRun,
}

/// Decides whether and when a node that died is started again.
pub fn after_death(death: Death, uptime: Duration, last_delay: Option<Duration>) -> Next {
    match death {
        Death::Exited(EXIT_STOPPED) => Next::Stop,
        Death::Exited(EXIT_CANNOT_RUN) => Next::CannotRun,
        Death::Exited(_) | Death::Signaled(_) => {
            let delay = match last_delay {
                Some(last) if uptime < UPTIME_THAT_FORGIVES => (last * 2).min(DELAY_MAX),
                _ => DELAY_MIN,
            };
            Next::Restart { delay }
        }
    }
}

fn start(mut command: Command) -> Result<u32, HoldError> {
    match cores::spawn(&mut command) {
        // Not waited for through this handle: the reaper sees every death.
        Ok(child) => {
            say(&format!("node {} started", child.id()));
            Ok(child.id())
        }
        Err(source) => {
            let program = command.get_program().to_string_lossy().into_owned();
            Err(HoldError::NodeNotStarted { program, source })
        }
    }
}

/// Watches over a node that was just started; only that process may be the terminal's node.
fn watch_node(reaper: &Reaper, node: u32, mut terminal: Option<&mut Terminal>) -> io::Result<Over> {
    if let Some(terminal) = &terminal {
        // Not reaped yet, so the pid is its own.
        terminal.node_is(ProcessMark::of(node));
    }
    let over = watch(reaper, Some(node), None, terminal.as_deref_mut());
    if let (Ok(Over::Node(_)), Some(terminal)) = (&over, &terminal) {
        terminal.node_is(None);
    }
    over
}

/// What ended a time of watching.
enum Over {
    Node(Death),
    Program(Death),
    /// We were told to stop.
    Told,
    /// The time is over.
    Paused,
}

/// Reaps until the node or the program dies, we are told to stop, or `until` has come.
fn watch(
    reaper: &Reaper,
    node: Option<u32>,
    until: Option<Instant>,
    mut terminal: Option<&mut Terminal>,
) -> io::Result<Over> {
    loop {
        if reaper.told_to_stop() {
            return Ok(Over::Told);
        }
        let harvest = reaper.reap()?;
        if let Some(terminal) = &mut terminal {
            if let Some(death) = harvest.death_of(terminal.program()) {
                say(&format!("the program {death}"));
                terminal.ended(death);
                return Ok(Over::Program(death));
            }
            if harvest.stopped.contains(&terminal.program()) {
                terminal.suspended();
            }
        }
        if let Some(death) = node.and_then(|node| harvest.death_of(node)) {
            return Ok(Over::Node(death));
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Over::Paused);
        }
        reaper.wait(until)?;
    }
}

/// The node goes first and alone, so that it can end its own affairs while
/// what it talks to still lives.
fn stop(reaper: &Reaper, node: Option<u32>) -> Result<Ended, HoldError> {
    say("told to stop");
    // Not reaped yet, so its pid cannot mean another process.
    if let Some(node) = node.and_then(crate::os::pid_of) {
        let _ = rustix::process::kill_process(node, rustix::process::Signal::TERM);
    }
    let until = Instant::now() + NODE_GRACE;
    let mut is_up = node.is_some();
    while is_up && Instant::now() < until {
        let harvest = reaper.reap()?;
        is_up = node.is_some_and(|node| harvest.death_of(node).is_none());
        if is_up {
            reaper.wait(Some(until))?;
        }
    }
    reaper.end_tree(GRACE)?;
    Ok(Ended::Stopped)
}

impl Claim {
    /// Writes who we are into the lock, for whoever is refused.
    fn sign(&self) -> io::Result<()> {
        let text = serde_json::to_vec(&ProcessMark::own()?)?;
        let mut file = &self.lock;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&text)
    }
}

fn read_mark(mut lock: &File) -> Option<ProcessMark> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn by(pid: Option<u32>) -> String {
    pid.map(|pid| format!(", held by process {pid}")).unwrap_or_default()
}

/// Unlike `eprintln!` this survives a full disk under the log.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "holder: {line}");
}

/// Why viewers see the terminal close when the node will not be started again.
const CANNOT_RUN: &str = "its node cannot run";
const LOCK_NAME: &str = "holder.lock";

/// The node was asked to stop, and did.
const EXIT_STOPPED: i32 = 0;
/// `EX_CONFIG` of sysexits: starting the node again would not help.
const EXIT_CANNOT_RUN: i32 = 78;

const DELAY_MIN: Duration = Duration::from_millis(50);
const DELAY_MAX: Duration = Duration::from_secs(5);
const UPTIME_THAT_FORGIVES: Duration = Duration::from_secs(10);

const NODE_GRACE: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_started_again_unless_it_asked_not_to_be() {
        let ms = Duration::from_millis;
        let restart = |delay| Next::Restart { delay: ms(delay) };
        let table = [
            (Death::Exited(0), 0, None, Next::Stop),
            (Death::Exited(0), 99_000, Some(5_000), Next::Stop),
            (Death::Exited(78), 0, None, Next::CannotRun),
            (Death::Exited(78), 99_000, Some(50), Next::CannotRun),
            (Death::Exited(1), 0, None, restart(50)),
            (Death::Exited(75), 60_000, None, restart(50)), // it makes room for a newer one
            (Death::Exited(1), 9_999, Some(50), restart(100)),
            (Death::Exited(77), 0, Some(100), restart(200)),
            (Death::Signaled(9), 0, Some(3_200), restart(5_000)),
            (Death::Signaled(9), 0, Some(5_000), restart(5_000)),
            (Death::Signaled(78), 0, Some(5_000), restart(5_000)),
            (Death::Signaled(11), 10_000, Some(5_000), restart(50)),
            (Death::Signaled(15), 3_600_000, None, restart(50)),
        ];
        for (death, uptime, last, expected) in table {
            let next = after_death(death, ms(uptime), last.map(ms));
            assert_eq!(next, expected, "{death} after {uptime} ms, last delay {last:?}");
        }
    }

    #[test]
    fn a_claim_excludes_others_until_it_is_dropped() {
        let agent = tempfile::tempdir().unwrap();
        let first = claim(agent.path()).unwrap();
        let mode = first.lock.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let own = std::process::id();
        match claim(agent.path()) {
            Err(error @ HoldError::AlreadyHeld { pid: Some(pid) }) => {
                assert_eq!(pid, own);
                assert!(error.to_string().contains(&own.to_string()), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(holder_of(agent.path()).unwrap().pid, own);
        drop(first);
        claim(agent.path()).unwrap();
    }

    #[test]
    fn a_lock_that_is_a_link_is_not_followed() {
        let agent = tempfile::tempdir().unwrap();
        let elsewhere = agent.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, agent.path().join(LOCK_NAME)).unwrap();
        assert!(matches!(claim(agent.path()), Err(HoldError::Lock { .. })));
        assert!(!elsewhere.exists());
    }
}
