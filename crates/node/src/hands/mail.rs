//! Files that belong to typed messages, private to the agent. Only the newest are kept.
//!
//! They hold a text that is too long to be typed, and the number of notes a message mentions, so
//! that after a crash the next node knows what was written.

use std::io;
use std::path::{Path, PathBuf};
use synapse_core::ids::TaskId;
use synapse_store::files;

/// The maximum number of files kept. An agent that has not read one by then will not.
const FILES_MAX: usize = 100;

/// Writes the text for this task and returns its path.
pub(super) fn keep(folder: &Path, task: &TaskId, text: &str) -> io::Result<PathBuf> {
    files::private_dir(folder).map_err(io::Error::other)?;
    prune(folder)?;
    let path = folder.join(format!("{}.txt", task.short()));
    files::write_private(&path, text.as_bytes()).map_err(io::Error::other)?;
    Ok(path)
}

/// Stores how many notes the message of this task mentions. Returns 0 if that cannot be stored.
pub(super) fn count(folder: &Path, task: &TaskId, notes: usize) -> usize {
    let path = counts(folder, task);
    if notes == 0 {
        let _ = std::fs::remove_file(path);
        return 0;
    }
    let write = || -> io::Result<()> {
        files::private_dir(folder).map_err(io::Error::other)?;
        prune(folder)?;
        files::write_volatile(&path, notes.to_string().as_bytes()).map_err(io::Error::other)
    };
    match write() {
        Ok(()) => notes,
        Err(e) => {
            tracing::warn!(error = %e, "a message does not say how many notes wait");
            0
        }
    }
}

/// Returns how many notes the message mentioned.
pub(super) fn counted(folder: &Path, task: &TaskId) -> usize {
    let text = std::fs::read_to_string(counts(folder, task)).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn counts(folder: &Path, task: &TaskId) -> PathBuf {
    folder.join(format!("{}.notes", task.short()))
}

fn prune(folder: &Path) -> io::Result<()> {
    let mut kept: Vec<(std::time::SystemTime, PathBuf)> = std::fs::read_dir(folder)?
        .flatten()
        .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())))
        .collect();
    kept.sort_unstable();
    let old = kept.len().saturating_sub(FILES_MAX - 1);
    kept.into_iter().take(old).try_for_each(|(_, path)| std::fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_for_the_agent_alone_and_do_not_pile_up() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mail = folder.path().join("mail");
        let mut last = None;
        for n in 0..FILES_MAX + 20 {
            let task = TaskId::from_bytes([u8::try_from(n).unwrap(); 16]);
            last = Some(keep(&mail, &task, &format!("text {n}")).unwrap());
        }
        let last = last.unwrap();
        assert_eq!(std::fs::read_to_string(&last).unwrap(), format!("text {}", FILES_MAX + 19));
        assert_eq!(std::fs::metadata(&last).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&mail).unwrap().count(), FILES_MAX);
    }

    #[test]
    fn what_a_message_told_of_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mail, task) = (folder.path().join("mail"), TaskId::from_bytes([7; 16]));
        assert_eq!(counted(&mail, &task), 0);
        assert_eq!((count(&mail, &task, 0), count(&mail, &task, 3)), (0, 3));
        assert_eq!(counted(&mail, &task), 3);
        assert_eq!(
            (count(&mail, &task, 0), counted(&mail, &task)),
            (0, 0),
            "it is handed out again without any"
        );
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!(count(&folder.path().join("file"), &task, 3), 0, "what cannot be kept is not said");
    }
}
