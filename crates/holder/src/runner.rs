//! The runner: carries out one run directory, then ends.
//!
//! It starts the command in a session of its own, feeds it, keeps its output,
//! and ends it when it is cancelled, late or too loud. Whatever the command
//! leaves running is ended too, before the run counts as ended.
//!
//! Invariant: a command is started at most once per run directory, whoever is
//! killed when; all that can fail by itself is done before it starts.
//! Not here: the files and their order (`run_dir`), ending trees (`reaper`).

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limit::SystemLimit;
use crate::os::InputWatch;
use crate::reaper::{Death, Reaper, TreeStands};
use crate::run_dir::{Exit, How, RunDir, RunMode, RunSpec};
use crate::tail::{Tail, readable};

mod output;

use output::{Fault, OutputPump, RoomWait};

/// Why a run could not be carried out or its end not be written down.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("could not open the run {}: {source}; was it prepared?", dir.display())]
    Open { dir: PathBuf, source: io::Error },
    #[error("could not begin the run {}: {source}; nothing was started", dir.display())]
    Begin { dir: PathBuf, source: io::Error },
    #[error(
        "the command of {} has ended ({why}), but that could not be written down: {source}",
        dir.display()
    )]
    End { dir: PathBuf, why: String, source: io::Error },
}

impl RunError {
    /// The limit of the system that kept the command from starting; later it may start.
    pub fn limit(&self) -> Option<SystemLimit> {
        match self {
            Self::Begin { source, .. } | Self::Open { source, .. } => SystemLimit::of(source),
            Self::End { .. } => None,
        }
    }
}

/// What a runner exits with if a limit of the system kept it from starting the command (`EX_TEMPFAIL` of sysexits).
pub const EXIT_WANT_OF_ROOM: u8 = 75;

/// Carries out the run in `dir`. Does nothing if a runner did or does already.
pub fn run(dir: &Path) -> Result<(), RunError> {
    let run = RunDir::open(dir).map_err(|source| RunError::Open { dir: dir.into(), source })?;
    let failed = |source| RunError::Begin { dir: dir.into(), source };
    let Some(_lock) = run.lock().map_err(failed)? else {
        return Ok(());
    };
    // Before the mark: who reads the mark may send SIGTERM at once.
    let reaper = Reaper::stand().map_err(failed)?;
    run.reserve_exit().map_err(failed)?;
    if !run.mark_started().map_err(failed)? {
        return run.release_exit().map_err(failed);
    }
    // Fails only if we lead a process group already, which serves as well.
    let _ = rustix::process::setsid();
    let exit = match carry_out(&run, &reaper) {
        Ok(exit) => exit,
        Err(source) => {
            past_limits(&reaper, || run.unmark_started()).map_err(failed)?;
            return Err(failed(source));
        }
    };
    past_limits(&reaper, || run.write_exit(&exit)).map_err(|source| {
        let why = exit.why.clone();
        RunError::End { dir: dir.into(), why, source }
    })
}

/// Tries again for as long as a limit of the system is what it fails for, and nobody tells this process to stop.
fn past_limits(reaper: &Reaper, mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let mut pause = ROOM_PAUSE_MIN;
    loop {
        match attempt() {
            Err(error) if SystemLimit::of(&error).is_some() && !reaper.told_to_stop() => {}
            other => return other,
        }
        // The bell rather than a sleep: a stop rings it.
        if reaper.wait(Some(Instant::now() + pause)).is_err() {
            thread::sleep(pause);
        }
        pause = (pause * 2).min(ROOM_PAUSE_MAX);
    }
}

/// What made the runner stop waiting.
enum Cause<'a> {
    Died(Death),
    Cancelled,
    TimedOut,
    Cut(&'a Fault),
    LostSight(io::Error),
}

/// An error is a limit of the system that kept the command from starting.
fn carry_out(run: &RunDir, reaper: &Reaper) -> io::Result<Exit> {
    if run.is_cancelled() || reaper.told_to_stop() {
        let why = "cancelled before it started".to_owned();
        return Ok(Exit { how: How::Cancelled, code: None, signal: None, stderr_tail: String::new(), why });
    }
    let (command, pumps) = match start(run, reaper) {
        Ok(started) => started,
        Err(StartError::Limit(error)) => return Err(error),
        Err(StartError::Refused(why)) => {
            let stderr_tail = String::new();
            return Ok(Exit { how: How::NotStarted, code: None, signal: None, stderr_tail, why });
        }
    };
    let cause = wait_for_end(run.spec(), reaper, command, &pumps);
    let grace = match cause {
        Cause::Died(_) => LEFTOVER_GRACE,
        _ => GRACE,
    };
    // The tree before the pumps: a leftover may hold the output open for ever.
    let ended = reaper.end_tree(grace);
    if !matches!(cause, Cause::Died(_)) {
        // Its output is cut anyway.
        pumps.room.give_up();
    }
    pumps.finish(reaper);
    let stderr = pumps.stderr.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = pumps.out.sync_data().and_then(|()| run.write_err(stderr.bytes()));
    let mut exit = told(cause, pumps.fault.get(), run.spec(), readable(stderr.bytes(), SHOWN_MAX));
    add_trouble(&mut exit.why, ended, kept);
    Ok(exit)
}

/// Why the command did not start.
enum StartError {
    /// A limit of the system: the same may work later.
    Limit(io::Error),
    /// It would fail the next time too; in words.
    Refused(String),
}

impl StartError {
    fn new(error: io::Error, words: impl FnOnce(&io::Error) -> String) -> Self {
        if SystemLimit::of(&error).is_some() { Self::Limit(error) } else { Self::Refused(words(&error)) }
    }
}

/// Starts the pumps and then the command.
fn start(run: &RunDir, reaper: &Reaper) -> Result<(u32, Pumps), StartError> {
    let spec = run.spec();
    let Some((program, arguments)) = spec.argv.split_first() else {
        return Err(StartError::Refused("no command was given".to_owned()));
    };
    let missing = |_: &io::Error| format!("the folder {} to run in does not exist", spec.cwd.display());
    match spec.cwd.metadata() {
        Ok(folder) if folder.is_dir() => {}
        Ok(_) => return Err(StartError::new(io::ErrorKind::NotADirectory.into(), missing)),
        Err(error) => return Err(StartError::new(error, missing)),
    }
    let (pumps, ends) = Pumps::start(run, reaper).map_err(|error| {
        StartError::new(error, |error| format!("could not prepare the input and output: {error}"))
    })?;
    limit_open_files(spec);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(&spec.cwd)
        .envs(&spec.env)
        // A group of its own: what it sends to its group does not reach us.
        .process_group(0)
        .stdin(ends.stdin)
        .stdout(ends.stdout)
        .stderr(ends.stderr);
    let child = crate::cores::spawn(&mut command).map_err(|error| {
        StartError::new(error, |error| match error.kind() {
            io::ErrorKind::NotFound => format!("command not found: {program}; is it on the PATH?"),
            io::ErrorKind::PermissionDenied => format!("{program} may not be executed: {error}"),
            _ => format!("could not start {program}: {error}"),
        })
    })?;
    Ok((child.id(), pumps))
}

/// The command inherits our limit, and the node raised its own: programs that use `select` cannot have more than 1,024.
fn limit_open_files(spec: &RunSpec) {
    let Some(soft) = spec.open_files else { return };
    let limit = getrlimit(Resource::Nofile);
    let soft = limit.maximum.map_or(soft, |hard| soft.min(hard));
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(soft), ..limit });
}

fn wait_for_end<'a>(spec: &RunSpec, reaper: &Reaper, command: u32, pumps: &'a Pumps) -> Cause<'a> {
    let deadline =
        spec.time_limit_ms.and_then(|limit| Instant::now().checked_add(Duration::from_millis(limit)));
    loop {
        let harvest = match reaper.reap() {
            Ok(harvest) => harvest,
            Err(error) => return Cause::LostSight(error),
        };
        // Before the death: when a whole tree is told to end, the command may
        // well be gone first, and that is no result of its own.
        if reaper.told_to_stop() {
            return Cause::Cancelled;
        }
        if let Some(death) = harvest.death_of(command) {
            return Cause::Died(death);
        }
        if let Some(fault) = pumps.fault.get() {
            return Cause::Cut(fault);
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Cause::TimedOut;
        }
        match reaper.wait(deadline) {
            Err(error) if SystemLimit::of(&error).is_some() => thread::sleep(ROOM_PAUSE_MIN),
            Err(error) => return Cause::LostSight(error),
            Ok(()) => {}
        }
    }
}

fn told(cause: Cause<'_>, fault: Option<&Fault>, spec: &RunSpec, stderr_tail: String) -> Exit {
    let (how, code, signal, why) = match (cause, fault) {
        (Cause::Cancelled, _) => (How::Cancelled, None, None, "cancelled".to_owned()),
        (Cause::TimedOut, _) => {
            let limit = spec.time_limit_ms.unwrap_or_default();
            (How::TimedOut, None, None, format!("did not end within {limit} ms"))
        }
        // Also if it died first: a cut output must not pass for a whole one.
        (Cause::Cut(Fault::OverLimit), _) | (_, Some(Fault::OverLimit)) => {
            let why = format!("wrote more than {} bytes of output", spec.output_limit);
            (How::OutputLimit, None, None, why)
        }
        (Cause::Cut(Fault::NotKept(error)), _) | (_, Some(Fault::NotKept(error))) => {
            (How::OutputLimit, None, None, format!("its output could not be kept: {error}"))
        }
        (Cause::Cut(Fault::GivenUp(limit)), _) | (_, Some(Fault::GivenUp(limit))) => {
            (How::Cancelled, None, None, format!("cancelled while its output could not be kept: {limit}"))
        }
        (Cause::Died(death @ Death::Exited(code)), None) => {
            (How::Exited, Some(code), None, death.to_string())
        }
        (Cause::Died(death @ Death::Signaled(signal)), None) => {
            (How::Signaled, None, Some(signal), death.to_string())
        }
        (Cause::LostSight(error), None) => {
            let why = format!("ended because it could not be watched: {error}");
            (How::Cancelled, None, None, why)
        }
    };
    Exit { how, code, signal, stderr_tail, why }
}

fn add_trouble(why: &mut String, ended: Result<(), TreeStands>, kept: io::Result<()>) {
    if let Err(stands) = ended {
        why.push_str(&format!("; {stands}"));
    }
    if let Err(error) = kept {
        why.push_str(&format!("; its output may be lost in a power cut: {error}"));
    }
}

/// The threads between the run's files and the command's pipes.
struct Pumps {
    out: File,
    stderr: Arc<Mutex<Tail>>,
    fault: Arc<OnceLock<Fault>>,
    room: Arc<RoomWait>,
    done: Receiver<()>,
}

/// The command's ends of the pipes.
struct Ends {
    stdin: PipeReader,
    stdout: PipeWriter,
    stderr: PipeWriter,
}

impl Pumps {
    fn start(run: &RunDir, reaper: &Reaper) -> io::Result<(Self, Ends)> {
        let (stdin, feed) = io::pipe()?;
        let (said, stdout) = io::pipe()?;
        let (warned, stderr) = io::pipe()?;
        let out = run.create_out()?;
        let (finished, done) = mpsc::channel();
        let pumps = Self {
            out: out.try_clone()?,
            stderr: Arc::new(Mutex::new(Tail::new(STDERR_KEPT))),
            fault: Arc::default(),
            room: Arc::default(),
            done,
        };
        start_feeding(run, feed)?;
        let keeper = OutputPump {
            out,
            limit: run.spec().output_limit,
            run: run.clone(),
            room: Arc::clone(&pumps.room),
            fault: Arc::clone(&pumps.fault),
            ringer: reaper.ringer()?,
            finished: finished.clone(),
        };
        thread::Builder::new().name("stdout".into()).spawn(move || keeper.keep(said))?;
        let tail = Arc::clone(&pumps.stderr);
        thread::Builder::new().name("stderr".into()).spawn(move || keep_tail(warned, &tail, &finished))?;
        Ok((pumps, Ends { stdin, stdout, stderr }))
    }

    /// Waits for what is still in the pipes. Not for ever: a command may have
    /// handed its output to a process that is none of its children. Time in which the disk has no room does not count.
    fn finish(&self, reaper: &Reaper) {
        let mut until = Instant::now() + LAST_WORDS_MAX;
        let mut open = OUTPUT_PUMPS;
        while open > 0 && Instant::now() < until {
            match self.done.recv_timeout(STOP_LOOK_EVERY) {
                Ok(()) => open -= 1,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.room.is_waiting() {
                until = Instant::now() + LAST_WORDS_MAX;
                if reaper.told_to_stop() {
                    self.room.give_up();
                }
            }
        }
    }
}

/// Feeds the command from `in`. Never waited for: a command need not read its
/// input, and the thread ends with the process.
fn start_feeding(run: &RunDir, feed: PipeWriter) -> io::Result<()> {
    let input = File::open(run.input_path())?;
    let feeder: Box<dyn FnOnce() -> io::Result<()> + Send> = match run.spec().mode {
        RunMode::Plain => Box::new(move || copy_all(&input, &feed)),
        RunMode::Jsonl => {
            let watch = InputWatch::new(&run.wake_path())?;
            let run = run.clone();
            Box::new(move || follow(&run, &input, &feed, &watch))
        }
    };
    thread::Builder::new().name("stdin".into()).spawn(move || {
        // A broken pipe is a command that has read enough.
        if let Err(error) = feeder()
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            let _ = writeln!(io::stderr(), "runner: the input ended early: {error}");
        }
    })?;
    Ok(())
}

fn follow(run: &RunDir, input: &File, feed: &PipeWriter, watch: &InputWatch) -> io::Result<()> {
    loop {
        // The look before the copy: what was appended before the input was
        // closed is then sure to be copied.
        let is_closed = run.is_input_closed();
        copy_all(input, feed)?;
        if is_closed {
            return Ok(());
        }
        watch.wait()?;
    }
}

/// Copies from where `input` stands to its present end.
fn copy_all(mut input: &File, mut feed: &PipeWriter) -> io::Result<()> {
    io::copy(&mut input, &mut feed).map(|_| ())
}

fn keep_tail(mut warned: PipeReader, tail: &Mutex<Tail>, finished: &Sender<()>) {
    let mut buffer = vec![0; PIPE_PIECE];
    loop {
        match warned.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                tail.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..count]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let _ = finished.send(());
}

/// For a command that is ended from outside.
const GRACE: Duration = Duration::from_secs(2);
/// For what a command that ended by itself has left running.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);
const LAST_WORDS_MAX: Duration = Duration::from_secs(2);
/// Between two looks whether to stop, while the last output is written.
const STOP_LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between two tries while a limit of the system is reached; doubled each time.
const ROOM_PAUSE_MIN: Duration = Duration::from_millis(250);
const ROOM_PAUSE_MAX: Duration = Duration::from_secs(5);
const OUTPUT_PUMPS: usize = 2;
const PIPE_PIECE: usize = 16 * 1024;
const STDERR_KEPT: usize = 64 * 1024;
const SHOWN_MAX: usize = 4 * 1024;
