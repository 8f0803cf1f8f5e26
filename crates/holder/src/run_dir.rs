//! The run directory: one command, from prepared to ended, on disk.
//!
//! The node prepares it and reads it, the runner carries it out; they share
//! nothing else. So either may die, and the other finds all it needs here.
//!
//! Files: `spec.json` what to run; `in` its input, `in.closed` no more of it;
//! `out` and `err` what it said; `lock` held by the runner; `started` who the
//! runner is; `wake` a FIFO that tells the runner of more input; `cancelled` it is no longer wanted; `waits` its output
//! waits for room on the disk; `exit.json` how it ended, with its room taken before the command starts;
//! `runner.log` what the runner itself had to say.
//!
//! Invariant: `spec.json` and `in` are whole before the directory has its
//! name; `started` is on disk before the command starts; `exit.json` is last.
//! Not here: carrying it out (`runner`).

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::disk;
use crate::os;
use crate::process::ProcessMark;

/// What to run, and within which bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    pub argv: Vec<String>,
    pub cwd: PathBuf,
    /// Added to the environment of the runner.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub mode: RunMode,
    #[serde(default)]
    pub time_limit_ms: Option<u64>,
    /// How many bytes of standard output are kept before the command is ended.
    pub output_limit: u64,
    /// How many files the command may open (the soft limit); as many as the runner if absent.
    #[serde(default)]
    pub open_files: Option<u64>,
}

/// How the command gets its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunMode {
    /// All of it at the start, then end of file.
    Plain,
    /// Lines may be appended while it runs, until the input is closed.
    Jsonl,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub how: How,
    /// Set for `Exited`.
    pub code: Option<i32>,
    /// Set for `Signaled`.
    pub signal: Option<i32>,
    /// The last it said on standard error, safe to show.
    pub stderr_tail: String,
    /// The same in words, for people.
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Exited,
    Signaled,
    TimedOut,
    /// It said more than may be kept, or than the disk could take.
    OutputLimit,
    Cancelled,
    NotStarted,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// No runner has begun; one may be on its way.
    Prepared,
    Running {
        pid: u32,
    },
    Ended(Exit),
    /// A runner began and is gone without a word; what the command did is
    /// unknown.
    Vanished,
}

/// A prepared run; the node's hand on it.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: PathBuf,
    spec: RunSpec,
}

impl RunDir {
    /// Makes the run `parent/name`, or opens it if it was made before; then
    /// `spec` and `first_input` are not looked at.
    pub fn prepare(parent: &Path, name: &str, spec: &RunSpec, first_input: &[u8]) -> io::Result<Self> {
        Self::prepare_with(parent, name, spec, first_input, &[])
    }

    /// As `prepare`, with further files for the command, each a name and its bytes.
    pub fn prepare_with(
        parent: &Path,
        name: &str,
        spec: &RunSpec,
        first_input: &[u8],
        files: &[(&str, &[u8])],
    ) -> io::Result<Self> {
        let path = parent.join(checked(name)?);
        if path.try_exists()? {
            return Self::open(&path);
        }
        let draft = draft_of(parent, name);
        remove_if_there(&draft)?;
        let run = Self { path, spec: spec.clone() };
        // On a full disk the draft gives back its room: nobody may come to try again.
        run.fill(&draft, first_input, files).inspect_err(|_| drop(remove_if_there(&draft)))?;
        disk::sync_folder(parent)?;
        Ok(run)
    }

    /// Writes all files into `draft`, then gives it the name of the run.
    fn fill(&self, draft: &Path, first_input: &[u8], files: &[(&str, &[u8])]) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(draft)?;
        disk::write(&draft.join(SPEC), &serde_json::to_vec(&self.spec)?)?;
        disk::write(&draft.join(IN), first_input)?;
        disk::write(&draft.join(LOCK), b"")?;
        for (file, bytes) in files {
            disk::write(&draft.join(checked(file)?), bytes)?;
        }
        disk::sync_folder(draft)?;
        fs::rename(draft, &self.path)
    }

    pub fn open(path: &Path) -> io::Result<Self> {
        let spec = serde_json::from_slice(&fs::read(path.join(SPEC))?)?;
        Ok(Self { path: path.to_owned(), spec })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn spec(&self) -> &RunSpec {
        &self.spec
    }

    pub fn state(&self) -> io::Result<RunState> {
        if let Some(exit) = self.exit()? {
            return Ok(RunState::Ended(exit));
        }
        let Some(runner) = self.runner()? else {
            return Ok(RunState::Prepared);
        };
        if runner.check_alive()? {
            return Ok(RunState::Running { pid: runner.pid });
        }
        // It may have ended well between the two looks.
        Ok(self.exit()?.map_or(RunState::Vanished, RunState::Ended))
    }

    /// Starts `command`, which must lead to `runner::run` for this directory.
    /// The caller has to wait for the child some time, or it stays a zombie.
    pub fn spawn_runner(&self, mut command: Command) -> io::Result<Child> {
        let log = disk::private().append(true).create(true).open(self.path.join(LOG))?;
        crate::cores::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log))
    }

    /// Gives a running command more input; only in `Jsonl` mode, and not after
    /// `close_input`.
    pub fn append_input(&self, bytes: &[u8]) -> io::Result<()> {
        if self.spec.mode != RunMode::Jsonl {
            let why = "a plain command gets all its input at the start; use jsonl mode for more";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        if self.is_input_closed() {
            let why = "the input of this command was closed before";
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, why));
        }
        let mut input = disk::private().append(true).open(self.path.join(IN))?;
        let before = input.metadata()?.len();
        if let Err(error) = input.write_all(bytes) {
            // No half line: the caller may try again.
            let _ = input.set_len(before);
            return Err(error);
        }
        input.sync_data()?;
        drop(input);
        os::wake_input(&self.wake_path());
        Ok(())
    }

    /// Says that no more input will come.
    pub fn close_input(&self) -> io::Result<()> {
        self.leave_note(IN_CLOSED)?;
        os::wake_input(&self.wake_path());
        Ok(())
    }

    /// Ends the command if it runs, and keeps it from starting if it does not
    /// yet. Returns at once; `state` tells when it has ended.
    pub fn cancel(&self) -> io::Result<()> {
        // The note before the look: a runner marks itself before it reads the
        // note, so at least one of us sees the other.
        let noted = self.leave_note(CANCELLED);
        match self.runner()? {
            // Then the signal is enough, also where the disk has no room for the note.
            Some(runner) if runner.terminate() => Ok(()),
            _ => noted,
        }
    }

    /// Removes the directory and all in it; not while the command runs.
    pub fn remove(self) -> io::Result<()> {
        if matches!(self.state()?, RunState::Running { .. }) {
            let why = "the command still runs; cancel it first";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
        }
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        // Renamed first, so that a crash in the midst leaves no half run.
        let draft = draft_of(parent, &name.to_string_lossy());
        remove_if_there(&draft)?;
        fs::rename(&self.path, &draft)?;
        fs::remove_dir_all(&draft)
    }

    /// At most `max` bytes of the output from `offset` on; fewer or none if
    /// there are not as many yet.
    pub fn read_out_from(&self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match File::open(self.path.join(OUT)) {
            Ok(mut out) => {
                out.seek(SeekFrom::Start(offset))?;
                out.take(max as u64).read_to_end(&mut bytes)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(bytes)
    }

    pub(crate) fn is_input_closed(&self) -> bool {
        self.path.join(IN_CLOSED).exists()
    }

    pub fn is_cancelled(&self) -> bool {
        self.path.join(CANCELLED).exists()
    }

    /// Whether the command's output waits for room on the disk.
    pub fn waits_for_room(&self) -> bool {
        self.path.join(WAITS).exists()
    }

    /// An empty file: on most file systems it needs no room.
    pub(crate) fn note_wait_for_room(&self, waits: bool) {
        let note = self.path.join(WAITS);
        // Only shown to people; without it the wait is the same.
        let _ = match waits {
            true => disk::private().write(true).create(true).truncate(true).open(note).map(drop),
            false => disk::remove_file_if_there(&note),
        };
    }

    pub(crate) fn input_path(&self) -> PathBuf {
        self.path.join(IN)
    }

    pub(crate) fn wake_path(&self) -> PathBuf {
        self.path.join(WAKE)
    }

    /// The last line that a runner wrote about itself; empty if there is none.
    pub fn runner_said(&self) -> String {
        let Ok(log) = fs::read(self.path.join(LOG)) else { return String::new() };
        let from = log.len().saturating_sub(SAID_MAX);
        let said = String::from_utf8_lossy(&log[from..]).into_owned();
        said.lines().last().unwrap_or_default().to_owned()
    }

    pub(crate) fn create_out(&self) -> io::Result<File> {
        disk::private().write(true).create(true).truncate(true).open(self.path.join(OUT))
    }

    pub(crate) fn write_err(&self, tail: &[u8]) -> io::Result<()> {
        disk::write(&self.path.join(ERR), tail)
    }

    /// The runner's lock, for its life; `None` if another runner has it.
    pub(crate) fn lock(&self) -> io::Result<Option<File>> {
        let lock = disk::private().read(true).write(true).open(self.path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Names this process as the runner; `false` if there was one before.
    pub(crate) fn mark_started(&self) -> io::Result<bool> {
        let mark = serde_json::to_vec(&ProcessMark::own()?)?;
        disk::create_once(&self.path, STARTED, &mark)
    }

    /// Takes the mark back: nothing was started, and the next runner may try.
    pub(crate) fn unmark_started(&self) -> io::Result<()> {
        disk::remove_file_if_there(&self.path.join(STARTED))?;
        disk::sync_folder(&self.path)
    }

    /// Takes the room for `exit.json` while there is some: how a command ended must not get lost on a full disk.
    pub(crate) fn reserve_exit(&self) -> io::Result<()> {
        disk::reserve(&self.path, EXIT, EXIT_BYTES)
    }

    pub(crate) fn release_exit(&self) -> io::Result<()> {
        disk::release(&self.path, EXIT)
    }

    /// May be called again after an error.
    pub(crate) fn write_exit(&self, exit: &Exit) -> io::Result<()> {
        // The last try may have failed at its very last step.
        if self.exit()?.is_some() {
            return disk::sync_folder(&self.path);
        }
        disk::replace(&self.path, EXIT, &serde_json::to_vec(exit)?)
    }

    fn runner(&self) -> io::Result<Option<ProcessMark>> {
        read_json(&self.path.join(STARTED))
    }

    fn exit(&self) -> io::Result<Option<Exit>> {
        read_json(&self.path.join(EXIT))
    }

    fn leave_note(&self, name: &str) -> io::Result<()> {
        disk::write(&self.path.join(name), b"")?;
        disk::sync_folder(&self.path)
    }
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A name is one plain step down, and not one of our hidden drafts.
fn checked(name: &str) -> io::Result<&str> {
    let mut steps = Path::new(name).components();
    let is_one_step = matches!(steps.next(), Some(Component::Normal(step)) if step == name);
    if is_one_step && steps.next().is_none() && !name.starts_with('.') {
        return Ok(name);
    }
    let why = format!("{name:?} is no name for a run; use letters, digits and dashes");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

fn draft_of(parent: &Path, name: &str) -> PathBuf {
    parent.join(format!(".{name}.tmp"))
}

fn remove_if_there(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

const SPEC: &str = "spec.json";
const IN: &str = "in";
const IN_CLOSED: &str = "in.closed";
const WAKE: &str = "wake";
const OUT: &str = "out";
const ERR: &str = "err";
const LOCK: &str = "lock";
const STARTED: &str = "started";
const CANCELLED: &str = "cancelled";
const EXIT: &str = "exit.json";
const WAITS: &str = "waits";
/// More than an `Exit` with a full tail of standard error takes.
const EXIT_BYTES: usize = 12 << 10;
const LOG: &str = "runner.log";
const SAID_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn spec(argv: &str) -> RunSpec {
        RunSpec {
            argv: vec![argv.into()],
            cwd: "/".into(),
            env: BTreeMap::new(),
            mode: RunMode::Plain,
            time_limit_ms: None,
            output_limit: 1000,
            open_files: None,
        }
    }

    #[test]
    fn a_run_is_prepared_once() {
        let parent = tempfile::tempdir().unwrap();
        // What a node left that died while preparing.
        fs::create_dir(parent.path().join(".one.tmp")).unwrap();
        fs::write(parent.path().join(".one.tmp/in"), "stale").unwrap();

        let first = RunDir::prepare(parent.path(), "one", &spec("a"), b"input").unwrap();
        assert_eq!(first.state().unwrap(), RunState::Prepared);
        let mode = fs::metadata(first.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);

        let again = RunDir::prepare(parent.path(), "one", &spec("b"), b"other").unwrap();
        assert_eq!(again.spec(), &spec("a"));
        assert_eq!(fs::read(again.path().join(IN)).unwrap(), b"input");
        assert_eq!(again.read_out_from(0, 10).unwrap(), b"");
        again.remove().unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_name_cannot_leave_its_parent() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["", ".", "..", "a/b", "../a", "/a", "a/", ".hidden"] {
            let error = RunDir::prepare(parent.path(), name, &spec("a"), b"").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }

    #[test]
    fn only_an_open_line_by_line_input_takes_more() {
        let parent = tempfile::tempdir().unwrap();
        let plain = RunDir::prepare(parent.path(), "plain", &spec("a"), b"").unwrap();
        assert_eq!(plain.append_input(b"x").unwrap_err().kind(), io::ErrorKind::Unsupported);

        let jsonl = RunSpec { mode: RunMode::Jsonl, ..spec("a") };
        let lines = RunDir::prepare(parent.path(), "lines", &jsonl, b"1\n").unwrap();
        lines.append_input(b"2\n").unwrap();
        lines.close_input().unwrap();
        lines.close_input().unwrap();
        assert_eq!(lines.append_input(b"3\n").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(fs::read(lines.path().join(IN)).unwrap(), b"1\n2\n");
    }

    #[test]
    fn an_exit_reads_as_promised() {
        let exit = Exit {
            how: How::TimedOut,
            code: None,
            signal: None,
            stderr_tail: "slow".into(),
            why: "late".into(),
        };
        let text = r#"{"how":"timed_out","code":null,"signal":null,"stderr_tail":"slow","why":"late"}"#;
        assert_eq!(serde_json::to_string(&exit).unwrap(), text);
        assert_eq!(serde_json::from_str::<Exit>(text).unwrap(), exit);
    }
}
