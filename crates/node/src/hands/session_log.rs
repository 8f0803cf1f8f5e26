//! Finds the answer to a message in the session logs of its CLI.
//!
//! All sessions of the user are in one folder, and two programs may write theirs at the same time.
//! So the log is chosen by its content: ours contains the text we typed, which no other log has.
//!
//! The files of an agent are not trusted: only regular files of this user are read, links are not
//! followed, and only the end of each file is read. While an answer is awaited, the logs are
//! checked ten times a second; a file that has not changed is not read again.
//! Not here: what the lines mean (`synapse_terminal::session_log`), where the folder is
//! (`synapse::tells`).

use crate::launch::Tells;
use rustix::fs::{Mode, OFlags};
use std::collections::VecDeque;
use std::fs::{self, File, Metadata};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use synapse_terminal::session_log::{LogFormat, LoggedTurn};

/// The maximum number of project or session folders searched.
const FOLDERS_MAX: usize = 4_096;
/// The maximum number of logs read, those that changed last.
const LOGS_MAX: usize = 8;
/// The number of bytes read of each log. The answer of a longer turn is read from the screen.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// The maximum number of remembered results, and the longest answer among them.
const REMEMBERED_MAX: usize = 2 * LOGS_MAX;
const REMEMBERED_BYTES_MAX: usize = 256 << 10;
/// The resolution of file times. A file that changed this shortly before it was read may change
/// again and keep the same time.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// The session logs of one CLI. All clones share their memory.
#[derive(Debug, Clone)]
pub(super) struct SessionLogs {
    format: LogFormat,
    folder: PathBuf,
    remembered: Arc<Mutex<VecDeque<LogResult>>>,
}

/// What a log had for a header, valid while the log is unchanged.
#[derive(Debug, Clone)]
struct LogResult {
    log: PathBuf,
    header: String,
    version: LogVersion,
    turn: Option<LoggedTurn>,
}

/// The metadata that changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogVersion {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: SystemTime,
}

impl LogVersion {
    fn of(about: &Metadata) -> Option<Self> {
        let (device, inode, bytes) = (about.dev(), about.ino(), about.len());
        Some(Self { device, inode, bytes, modified: about.modified().ok()? })
    }

    /// Whether any later change will have another time. Not for a time in the future.
    fn is_distinct(&self, now: SystemTime) -> bool {
        now.duration_since(self.modified).is_ok_and(|age| age > CLOCK_STEP)
    }
}

impl SessionLogs {
    fn new(format: LogFormat, folder: PathBuf) -> Self {
        Self { format, folder, remembered: Arc::default() }
    }

    /// Returns the session logs of a program that reports its answers in this way.
    pub(super) fn of(tells: &Tells) -> Option<Self> {
        match tells {
            Tells::SessionLog { format, folder } => Some(Self::new(*format, folder.clone())),
            _ => None,
        }
    }

    /// Returns the turn of the last prompt that begins with this header, and its log. Blocks.
    pub(super) fn turn(&self, header: &str, known: Option<&Path>) -> Option<(LoggedTurn, PathBuf)> {
        if let Some(turn) = known.and_then(|log| self.turn_in(log, header)) {
            return Some((turn, known?.to_owned()));
        }
        let newest = self.newest_logs().into_iter();
        let mut found = newest.filter_map(|log| Some((self.turn_in(&log, header)?, log)));
        let turn = found.next()?;
        // Another session has the same header, so we cannot tell which one is ours.
        found.next().is_none().then_some(turn)
    }

    /// Returns the id of the session that a log belongs to, as the program accepts it.
    pub(super) fn session_of(&self, log: &Path) -> Option<String> {
        let name = |path: Option<&Path>| Some(path?.file_name()?.to_str()?.to_owned());
        match self.format {
            LogFormat::Gemini => gemini_session(log),
            LogFormat::Qwen => Some(log.file_stem()?.to_str()?.to_owned()),
            LogFormat::Copilot | LogFormat::Cline => name(log.parent()),
            LogFormat::Aider => None,
        }
    }

    /// Whether there is a log of this session, among those that changed last. Blocks.
    pub(super) fn has(&self, session: &str) -> bool {
        self.newest_logs().iter().any(|log| self.session_of(log).is_some_and(|found| found == session))
    }

    /// Like `turn`, in one log.
    fn turn_in(&self, log: &Path, header: &str) -> Option<LoggedTurn> {
        let (file, about) = open(log)?;
        let version = LogVersion::of(&about)?;
        if let Some(known) = self.recall(log, header, version) {
            return known.turn;
        }
        let is_ours = |prompt: &str| prompt.trim_start().starts_with(header);
        let turn = self.format.turn(&read_end(file, about.len())?, is_ours);
        let is_short = turn.as_ref().is_none_or(|turn| turn.answer.len() <= REMEMBERED_BYTES_MAX);
        if is_short && version.is_distinct(SystemTime::now()) {
            let (log, header) = (log.to_owned(), header.to_owned());
            self.remember(LogResult { log, header, version, turn: turn.clone() });
        }
        turn
    }

    fn recall(&self, log: &Path, header: &str, version: LogVersion) -> Option<LogResult> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |one: &&LogResult| one.log == log && one.header == header && one.version == version;
        remembered.iter().find(is_same).cloned()
    }

    fn remember(&self, result: LogResult) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.retain(|one| (&one.log, &one.header) != (&result.log, &result.header));
        remembered.truncate(REMEMBERED_MAX - 1);
        remembered.push_front(result);
    }

    /// Returns the logs that changed last, newest first.
    fn newest_logs(&self) -> Vec<PathBuf> {
        if self.format == LogFormat::Aider {
            return aider_logs(&self.folder);
        }
        let mut logs: Vec<(SystemTime, PathBuf)> = Vec::new();
        for folder in entries(&self.folder) {
            if logs.len() > FOLDERS_MAX {
                break;
            }
            match self.format {
                LogFormat::Gemini | LogFormat::Qwen => logs.extend(
                    entries(&folder.join("chats"))
                        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
                        .filter_map(with_time),
                ),
                LogFormat::Copilot => logs.extend(with_time(folder.join("events.jsonl"))),
                LogFormat::Cline => {
                    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    logs.extend(with_time(folder.join(format!("{name}.messages.json"))));
                }
                LogFormat::Aider => {}
            }
        }
        logs.sort_unstable_by(|a, b| b.cmp(a));
        logs.into_iter().map(|(_, path)| path).take(LOGS_MAX).collect()
    }
}

/// The first line of Gemini's log names its session.
fn gemini_session(log: &Path) -> Option<String> {
    const HEAD_BYTES_MAX: u64 = 4 << 10;
    let (file, _) = open(log)?;
    let mut head = Vec::new();
    file.take(HEAD_BYTES_MAX).read_to_end(&mut head).ok()?;
    let line = head.split(|byte| *byte == b'\n').next()?;
    let line: serde_json::Value = serde_json::from_slice(line).ok()?;
    line["sessionId"].as_str().map(str::to_owned)
}

/// Whether there is a chat history of Aider for a program that is started in this folder.
pub fn has_chat_history(started_in: &Path) -> bool {
    !aider_logs(started_in).is_empty()
}

/// Aider's logs: in the folder where it was started, or at the root of its repository.
fn aider_logs(started_in: &Path) -> Vec<PathBuf> {
    let root = started_in.ancestors().find(|folder| folder.join(".git").exists());
    let folders = std::iter::once(started_in).chain(root.filter(|root| *root != started_in));
    let logs = folders.map(|folder| folder.join(".aider.chat.history.md"));
    logs.filter(|log| fs::symlink_metadata(log).is_ok()).collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir());
    let entries = is_folder.then(|| fs::read_dir(folder).ok()).flatten();
    entries.into_iter().flatten().flatten().take(FOLDERS_MAX).map(|entry| entry.path())
}

fn with_time(path: PathBuf) -> Option<(SystemTime, PathBuf)> {
    let changed = fs::symlink_metadata(&path).ok()?.modified().ok()?;
    Some((changed, path))
}

/// Opens a regular file of this user.
fn open(path: &Path) -> Option<(File, Metadata)> {
    // Not blocking: opening a pipe would otherwise wait for someone to write to it.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let about = file.metadata().ok()?;
    (about.is_file() && about.uid() == rustix::process::geteuid().as_raw()).then_some((file, about))
}

/// Reads the last bytes of a file of this length, from the beginning of a line.
fn read_end(mut file: File, length: u64) -> Option<Vec<u8>> {
    let begins = length.saturating_sub(LOG_BYTES_MAX);
    file.seek(SeekFrom::Start(begins)).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    if begins > 0 {
        let first = bytes.iter().position(|byte| *byte == b'\n')?;
        bytes.drain(..=first);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "[A2A:0b78765b:user]";

    fn logs(root: &Path) -> SessionLogs {
        SessionLogs::new(LogFormat::Copilot, root.to_owned())
    }

    fn write(root: &Path, session: &str, prompt: &str, answer: &str) -> PathBuf {
        let path = root.join(session).join("events.jsonl");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let user = serde_json::json!({ "type": "user.message", "data": { "content": prompt } });
        let said = serde_json::json!({ "type": "assistant.message", "data": { "content": answer } });
        fs::write(&path, format!("{user}\n{said}\n")).unwrap();
        path
    }

    #[test]
    fn log_is_chosen_by_the_text_that_was_typed() {
        let root = tempfile::tempdir().unwrap();
        assert!(logs(&root.path().join("absent")).turn(OURS, None).is_none());
        let ours = write(root.path(), "a", "[A2A:0b78765b:user]\n how are you?", "well");
        write(root.path(), "b", "[A2A:00000000:user] somebody else's", "wrong");
        let (turn, log) = logs(root.path()).turn(OURS, None).unwrap();
        assert_eq!((turn.answer.as_str(), turn.is_final, &log), ("well", true, &ours));
        write(root.path(), "c", "[A2A:0b78765b:user] forged", "wrong");
        assert!(logs(root.path()).turn(OURS, None).is_none(), "nobody can tell which one is ours");
        // Many newer sessions do not hide a known one.
        for n in 0..2 * LOGS_MAX {
            write(root.path(), &format!("later {n}"), "hello", "wrong");
        }
        assert_eq!(logs(root.path()).turn(OURS, Some(&ours)).unwrap().0.answer, "well");
    }

    #[test]
    fn log_of_cline_is_named_after_its_session() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("17950_x/17950_x.messages.json");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let message = |role: &str, text: &str| serde_json::json!({ "role": role, "content": text });
        let messages = [message("user", &format!("{OURS} hello")), message("assistant", "well")];
        fs::write(&path, serde_json::json!({ "messages": messages }).to_string()).unwrap();
        fs::write(path.with_file_name("17950_x.json"), "{}").unwrap();
        let logs = SessionLogs::new(LogFormat::Cline, root.path().to_owned());
        assert_eq!(logs.turn(OURS, None).unwrap().0.answer, "well");
    }

    #[test]
    fn log_of_aider_is_in_its_folder_or_at_the_root_of_the_repository() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let logs = SessionLogs::new(LogFormat::Aider, inner.clone());
        let answer = || logs.turn(OURS, None).map(|(turn, _)| turn.answer);
        let text = |said: &str| format!("#### {OURS} hello  \n\n{said}\n\n> Tokens: 1 sent, 1 received.  \n");
        fs::write(root.path().join(".aider.chat.history.md"), text("well")).unwrap();
        assert_eq!(answer(), None, "nothing says that both folders belong together");
        fs::create_dir(root.path().join(".git")).unwrap();
        assert_eq!(answer().as_deref(), Some("well"));
        fs::write(inner.join(".aider.chat.history.md"), text("evil")).unwrap();
        assert_eq!(answer(), None, "nobody can tell which one is ours");
    }

    #[test]
    fn log_names_its_session() {
        let root = tempfile::tempdir().unwrap();
        let id = "2ec608f8-729b-4ccc-911d-29d574df113e";
        let gemini = "work/chats/session-2026-11-19T03-34-2ec608f8.jsonl".to_owned();
        let head = format!("{{\"sessionId\":\"{id}\",\"kind\":\"main\"}}\n{{}}\n");
        for (format, path, text, session) in [
            (LogFormat::Gemini, gemini.clone(), head.as_str(), Some(id)),
            (LogFormat::Gemini, gemini.clone(), "{}\n", None),
            (LogFormat::Gemini, gemini, "\u{0}", None),
            (LogFormat::Qwen, format!("-w/chats/{id}.jsonl"), "{}", Some(id)),
            (LogFormat::Copilot, format!("{id}/events.jsonl"), "{}", Some(id)),
            (LogFormat::Cline, "17_x/17_x.messages.json".into(), "{}", Some("17_x")),
            (LogFormat::Aider, ".aider.chat.history.md".into(), "", None),
        ] {
            let folder = root.path().join(format!("{format:?}"));
            let log = folder.join(&path);
            fs::create_dir_all(log.parent().unwrap()).unwrap();
            fs::write(&log, text).unwrap();
            let logs = SessionLogs::new(format, folder);
            assert_eq!(logs.session_of(&log).as_deref(), session, "{format:?} {text:?}");
            assert_eq!(logs.has(session.unwrap_or("other")), session.is_some(), "{format:?} {text:?}");
        }
    }

    #[test]
    fn only_the_end_of_regular_files_is_read() {
        let root = tempfile::tempdir().unwrap();
        let real = write(root.path(), "real", &format!("{OURS} hello"), "well");
        let link = root.path().join("link").join("events.jsonl");
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(open(&link).is_none());
        assert!(open(root.path()).is_none(), "a folder");
        let pipe = root.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(open(&pipe).is_none());

        let turn = fs::read(&real).unwrap();
        let before = vec![b'x'; usize::try_from(LOG_BYTES_MAX).unwrap()];
        fs::write(&real, [before.as_slice(), b"\n", &turn].concat()).unwrap();
        let (file, about) = open(&real).unwrap();
        assert_eq!(read_end(file, about.len()).unwrap(), turn);
    }

    /// Overwrites a file and sets this modification time.
    fn write_over(log: &Path, from: &str, to: &str, modified: SystemTime) {
        fs::write(log, fs::read_to_string(log).unwrap().replace(from, to)).unwrap();
        File::options().append(true).open(log).unwrap().set_modified(modified).unwrap();
    }

    #[test]
    fn unchanged_log_is_not_read_again() {
        let root = tempfile::tempdir().unwrap();
        let log = write(root.path(), "a", &format!("{OURS} hello"), "well");
        let (logs, long_ago) = (logs(root.path()), SystemTime::now() - Duration::from_secs(60));
        let answer = || logs.turn(OURS, None).map(|(turn, _)| turn.answer);
        write_over(&log, "", "", long_ago);
        assert_eq!(answer().as_deref(), Some("well"));
        // The same length and time, so the new content must not be noticed.
        write_over(&log, "well", "evil", long_ago);
        assert_eq!(answer().as_deref(), Some("well"), "it was read again");
        assert_eq!(logs.clone().turn(OURS, Some(&log)).unwrap().0.answer, "well", "by the same memory");
        // Another header is another query; a log with another length or time is read again.
        assert!(logs.turn("[A2A:00000000:user]", Some(&log)).is_none());
        write_over(&log, "evil", "better", long_ago);
        assert_eq!(answer().as_deref(), Some("better"));
        write_over(&log, "better", "worse!", long_ago + Duration::from_secs(1));
        assert_eq!(answer().as_deref(), Some("worse!"));
        // The time is in the future: another change may have the same time.
        let ahead = SystemTime::now() + Duration::from_secs(600);
        write_over(&log, "worse!", "anew 1", ahead);
        assert_eq!(answer().as_deref(), Some("anew 1"));
        write_over(&log, "anew 1", "worse!", ahead);
        assert_eq!(answer().as_deref(), Some("worse!"));
    }

    #[test]
    fn change_within_a_step_of_the_clock_is_not_told_by_its_time() {
        let now = SystemTime::now();
        for (modified, is_distinct) in
            [(now - 2 * CLOCK_STEP, true), (now - CLOCK_STEP, false), (now, false), (now + CLOCK_STEP, false)]
        {
            let version = LogVersion { device: 1, inode: 1, bytes: 1, modified };
            assert_eq!(version.is_distinct(now), is_distinct, "{modified:?}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        let log = write(root.path(), "a", &format!("{OURS} hello"), &"x".repeat(REMEMBERED_BYTES_MAX + 1));
        let logs = logs(root.path());
        write_over(&log, "", "", SystemTime::now() - Duration::from_secs(60));
        assert!(logs.turn(OURS, None).is_some());
        assert!(logs.remembered.lock().unwrap().is_empty(), "an answer that is too long");
        for n in 0..10 * REMEMBERED_MAX {
            assert!(logs.turn(&format!("[A2A:{n:08}:user]"), None).is_none());
        }
        assert_eq!(logs.remembered.lock().unwrap().len(), REMEMBERED_MAX);
    }
}
