//! The program behind an ACP session: its pipes, its last words, and its end.
//!
//! It is a child of the node in its own process group. A node that is killed cannot end it, so its
//! `ProcessMark` is kept in a file and the next node ends it: two programs of one agent would both
//! work.
//!
//! Invariant: no line longer than `LINE_BYTES_MAX` is kept; output waits in a bounded queue, so no
//! writer waits for the program.
//! Not here: what the lines mean (`session`).

use crate::doors::Shared;
use crate::launch::OverAcp;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use synapse_core::invisible::revealed;
use synapse_holder::ProcessMark;
use synapse_store::files::{self, Access};
use synapse_store::home::AgentDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// The longest line accepted from the program. A line can contain the whole of a file that the
/// program changes.
pub(super) const LINE_BYTES_MAX: usize = 8 << 20;
/// A line buffer larger than this is freed after use.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// The maximum number of lines waiting to be written to the program.
const WAITING_MAX: usize = 256;
/// How long the program may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How many lines of its standard error are logged per minute.
const LOGGED_LINES_MAX: usize = 120;
const LOGGED_CHARS_MAX: usize = 500;
/// How many of its last lines are reported when it dies.
const LAST_WORDS_LINES: usize = 3;
const MARK_BYTES_MAX: usize = 4 << 10;

pub(super) struct Program {
    pub(super) child: Child,
    pub(super) lines: Lines,
    waiting: mpsc::Sender<Waiting>,
    last_words: Arc<Mutex<VecDeque<String>>>,
    mark_file: PathBuf,
}

/// A line for the program, and whom to notify once it is written.
struct Waiting {
    line: String,
    written: Option<oneshot::Sender<()>>,
}

/// The program does not read its input.
#[derive(Debug)]
pub(super) struct DoesNotRead;

impl Program {
    /// Starts the program in this folder, after ending one that an earlier node left.
    pub(super) async fn start(
        app: &Shared,
        acp: &OverAcp,
        folder: &Path,
        outbox: Option<&Path>,
    ) -> io::Result<Self> {
        let dir = app.home.agent(&app.agent.id);
        end_earlier(&dir).await;
        let (name, args) = acp.argv.split_first().ok_or_else(|| io::Error::other("no program was named"))?;
        let mut command = Command::new(name);
        command.args(args).current_dir(folder).kill_on_drop(true).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The program must not get the secrets from this node's variables, nor what the holder
        // passed to the node.
        for variable in [crate::serve::RESTART_VARIABLE, crate::serve::HOLDER_VERSION_VARIABLE] {
            command.env_remove(variable);
        }
        for variable in app.gate.secret_variables() {
            command.env_remove(variable);
        }
        for (name, value) in &acp.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("SYNAPSE_AGENT_ID", app.agent.id.to_string());
        if let Some(outbox) = outbox {
            command.env(crate::serve::OUTBOX_VARIABLE, outbox);
        }
        let mut child = command.spawn()?;
        let mark_file = dir.acp_program();
        if let Some(mark) = child.id().and_then(ProcessMark::of) {
            crate::open_files::limit(mark.pid);
            let text = serde_json::to_vec(&mark).unwrap_or_default();
            if let Err(e) = files::write_volatile(&mark_file, &text) {
                tracing::warn!(error = %e, "the process of its program could not be written down");
            }
        }
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("it has no pipes"));
        };
        let (waiting, lines) = mpsc::channel(WAITING_MAX);
        tokio::spawn(write(stdin, lines));
        let last_words = Arc::default();
        tokio::spawn(log(stderr, Arc::clone(&last_words)));
        Ok(Self { child, lines: Lines::new(stdout), waiting, last_words, mark_file })
    }

    /// Puts a line into the queue.
    pub(super) fn write(&self, line: String) -> Result<(), DoesNotRead> {
        self.waiting.try_send(Waiting { line, written: None }).map_err(|_| DoesNotRead)
    }

    /// Like `write`; the receiver resolves when the program's pipe has the whole line, and fails if
    /// it never will.
    pub(super) fn write_told(&self, line: String) -> Result<oneshot::Receiver<()>, DoesNotRead> {
        let (written, told) = oneshot::channel();
        self.waiting.try_send(Waiting { line, written: Some(written) }).map_err(|_| DoesNotRead)?;
        Ok(told)
    }

    /// Ends the program and everything it started, and returns how it ended.
    pub(super) async fn end(mut self) -> String {
        let pid = self.child.id();
        let started = || pid.map(started_by).unwrap_or_default();
        let before = started();
        // Closing its input tells the program that its client is gone.
        drop(self.waiting);
        let mut ended = tokio::time::timeout(Duration::from_millis(200), self.child.wait()).await;
        if ended.is_err() {
            terminate(&before);
            ended = tokio::time::timeout(GRACE, self.child.wait()).await;
        }
        // Whatever it did not end itself.
        kill(&before);
        kill(&started());
        if ended.is_err() {
            ended = tokio::time::timeout(GRACE, self.child.wait()).await;
        }
        let _ = std::fs::remove_file(&self.mark_file);
        let mut why = match ended {
            Ok(Ok(status)) => shown(status),
            Ok(Err(e)) => format!("nobody knows how: {e}"),
            Err(_) => "it could not be ended".to_owned(),
        };
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        if !words.is_empty() {
            why.push_str(": ");
            why.push_str(&words.iter().map(String::as_str).collect::<Vec<_>>().join(" / "));
        }
        why
    }
}

fn shown(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Returns the program, all its descendants, and, once it is gone, the members of its process group
/// below the holder.
fn started_by(pid: u32) -> Vec<ProcessMark> {
    let below = synapse_holder::descendants(pid);
    let holder = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
    let is_of_group = |one: &u32| synapse_holder::job_of(*one).is_some_and(|job| job.group == pid);
    let left = synapse_holder::descendants(holder).into_iter().filter(is_of_group);
    let all: BTreeSet<u32> = std::iter::once(pid).chain(below).chain(left).collect();
    all.into_iter().filter_map(ProcessMark::of).collect()
}

/// Asks the live ones among them to end.
fn terminate(marks: &[ProcessMark]) {
    for mark in marks {
        mark.terminate();
    }
}

fn kill(marks: &[ProcessMark]) {
    for mark in marks {
        mark.kill();
    }
}

/// Ends the program of an earlier node and what that program left running.
async fn end_earlier(dir: &AgentDir) {
    let Ok(bytes) = files::read_private(&dir.acp_program(), MARK_BYTES_MAX, Access::Plain) else { return };
    let Ok(mark) = serde_json::from_slice::<ProcessMark>(&bytes) else { return };
    // Another process may have its pid by now, but then nothing is left of its group.
    let left = match ProcessMark::of(mark.pid) {
        Some(now) if now != mark => Vec::new(),
        _ => started_by(mark.pid),
    };
    if !left.is_empty() {
        tracing::info!(pid = mark.pid, "the program of the node before this one is ended");
        terminate(&left);
        let until = Instant::now() + GRACE;
        while left.iter().any(ProcessMark::is_alive) && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        kill(&left);
    }
    let _ = std::fs::remove_file(dir.acp_program());
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Waiting>) {
    while let Some(Waiting { line, written }) = lines.recv().await {
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
        if let Some(written) = written {
            let _ = written.send(());
        }
    }
}

/// Logs the program's standard error, within a limit per minute.
async fn log(stderr: ChildStderr, last_words: Arc<Mutex<VecDeque<String>>>) {
    const MINUTE: Duration = Duration::from_secs(60);
    let mut lines = Lines::new(stderr);
    let (mut since, mut logged) = (Instant::now(), 0usize);
    while let Some(piece) = lines.next().await {
        let Piece::Line(line) = piece else { continue };
        let text = revealed(String::from_utf8_lossy(&line[..line.len().min(4 * LOGGED_CHARS_MAX)]).trim());
        let text: String = text.chars().take(LOGGED_CHARS_MAX).collect();
        if text.is_empty() {
            continue;
        }
        if since.elapsed() >= MINUTE {
            if logged > LOGGED_LINES_MAX {
                tracing::info!(
                    lines = logged - LOGGED_LINES_MAX,
                    "more of what its program said is left out"
                );
            }
            (since, logged) = (Instant::now(), 0);
        }
        logged += 1;
        if logged <= LOGGED_LINES_MAX {
            tracing::info!(%text, "its program says");
        }
        let mut words = last_words.lock().unwrap_or_else(PoisonError::into_inner);
        words.push_back(text);
        if words.len() > LAST_WORDS_LINES {
            words.pop_front();
        }
    }
}

/// Reads lines from a pipe.
pub(super) struct Lines<R = ChildStdout> {
    from: R,
    read: Vec<u8>,
    /// The bytes before this offset were returned.
    begin: usize,
    /// Bytes before this offset contain no line end.
    searched: usize,
    /// The current line is too long and is being skipped.
    skips: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Line(Vec<u8>),
    /// A line was too long.
    TooLong,
}

impl<R: tokio::io::AsyncRead + Unpin> Lines<R> {
    fn new(from: R) -> Self {
        Self { from, read: Vec::new(), begin: 0, searched: 0, skips: false }
    }

    /// Returns the next line, or `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Piece> {
        const CHUNK: usize = 64 << 10;
        loop {
            if let Some(piece) = self.taken() {
                return Some(piece);
            }
            self.tidy_up();
            self.read.reserve(CHUNK);
            match self.from.read_buf(&mut self.read).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    fn taken(&mut self) -> Option<Piece> {
        let Some(end) = self.read[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.read.len();
            return None;
        };
        let end = self.searched + end;
        let line = &self.read[self.begin..end];
        let is_long = std::mem::take(&mut self.skips) || line.len() > LINE_BYTES_MAX;
        let piece = if is_long { Piece::TooLong } else { Piece::Line(line.to_vec()) };
        (self.begin, self.searched) = (end + 1, end + 1);
        Some(piece)
    }

    /// Before the next read, drops what was returned and what is already too long.
    fn tidy_up(&mut self) {
        if self.read.len() - self.begin > LINE_BYTES_MAX {
            (self.read, self.skips) = (Vec::new(), true);
        } else if self.begin == self.read.len() && self.read.capacity() > KEPT_BYTES_MAX {
            self.read = Vec::new();
        } else {
            self.read.drain(..self.begin);
        }
        (self.begin, self.searched) = (0, self.read.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pieces(bytes: &[u8]) -> Vec<Piece> {
        let mut lines = Lines::new(bytes);
        let mut all = Vec::new();
        while let Some(piece) = lines.next().await {
            all.push(piece);
        }
        all
    }

    #[tokio::test]
    async fn lines_are_cut_at_their_ends_and_long_ones_passed_over() {
        let line = |text: &str| Piece::Line(text.as_bytes().to_vec());
        assert_eq!(pieces(b"a\n\nbc\nrest").await, [line("a"), line(""), line("bc")]);
        let mut long = vec![b'x'; 3 * LINE_BYTES_MAX];
        long.extend(b"\nafter\n");
        assert_eq!(pieces(&long).await, [Piece::TooLong, line("after")]);
        let just = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(pieces(&[&just[..], b"\nb\n"].concat()).await, [Piece::Line(just), line("b")]);
    }
}
