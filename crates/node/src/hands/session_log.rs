//! Finding the answer to a message in the session logs of its CLI.
//!
//! All sessions of the user are in one folder, and those of two programs may change at the same time. So the log is
//! chosen by what it says: ours is the one that holds the text we typed, which no other has.
//!
//! Files of an agent may be anything: only regular files of this user are read, links are not followed, and no more
//! than the end of each.
//! Not here: what the lines mean (`synapse_terminal::session_log`), where the folder is (`synapse::tells`).

use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use synapse_terminal::session_log::{LogFormat, LoggedTurn};

/// Folders of projects, or of sessions, that are looked at.
const FOLDERS_MAX: usize = 4_096;
/// Logs that are read: the ones that changed last.
const LOGS_MAX: usize = 8;
/// What is read of one. A turn that is longer is read off the screen.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// The session logs of one CLI.
#[derive(Debug, Clone)]
pub(super) struct SessionLogs {
    pub format: LogFormat,
    pub folder: PathBuf,
}

impl SessionLogs {
    /// The turn of the last prompt that begins with this header, and the log that holds it. Blocks.
    pub(super) fn turn(&self, header: &str, known: Option<&Path>) -> Option<(LoggedTurn, PathBuf)> {
        let is_ours = |prompt: &str| prompt.trim_start().starts_with(header);
        let newest = || self.newest_logs().into_iter();
        if let Some(turn) = known.and_then(|log| self.format.turn(&read_end(log)?, is_ours)) {
            return Some((turn, known?.to_owned()));
        }
        let mut found = newest().filter_map(|log| Some((self.format.turn(&read_end(&log)?, is_ours)?, log)));
        let turn = found.next()?;
        // Another session was given the same header. Nobody can tell which of them is ours.
        found.next().is_none().then_some(turn)
    }

    /// The logs that changed last, newest first.
    fn newest_logs(&self) -> Vec<PathBuf> {
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
            }
        }
        logs.sort_unstable_by(|a, b| b.cmp(a));
        logs.into_iter().map(|(_, path)| path).take(LOGS_MAX).collect()
    }
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

/// The last bytes of a file, from the beginning of a line.
fn read_end(path: &Path) -> Option<Vec<u8>> {
    // Not blocking: opening a pipe would otherwise wait for someone to write to it.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let about = file.metadata().ok()?;
    if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let begins = about.len().saturating_sub(LOG_BYTES_MAX);
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
        SessionLogs { format: LogFormat::Copilot, folder: root.to_owned() }
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
        // Many newer sessions do not hide the one that is known.
        for n in 0..2 * LOGS_MAX {
            write(root.path(), &format!("later {n}"), "hello", "wrong");
        }
        assert_eq!(logs(root.path()).turn(OURS, Some(&ours)).unwrap().0.answer, "well");
    }

    #[test]
    fn only_the_end_of_regular_files_is_read() {
        let root = tempfile::tempdir().unwrap();
        let real = write(root.path(), "real", &format!("{OURS} hello"), "well");
        let link = root.path().join("link").join("events.jsonl");
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(read_end(&link).is_none());
        assert!(read_end(root.path()).is_none(), "a folder");
        let pipe = root.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(read_end(&pipe).is_none());

        let turn = fs::read(&real).unwrap();
        let before = vec![b'x'; usize::try_from(LOG_BYTES_MAX).unwrap()];
        fs::write(&real, [before.as_slice(), b"\n", &turn].concat()).unwrap();
        assert_eq!(read_end(&real).unwrap(), turn);
    }
}
