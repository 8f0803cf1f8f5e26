//! Messages that are too long to be typed: files for the agent alone, of which the newest are kept.

use std::io;
use std::path::{Path, PathBuf};
use synapse_core::ids::TaskId;
use synapse_store::files;

/// So many files are kept; an agent that has not read one by then will not.
const FILES_MAX: usize = 100;

/// Writes the text for this task and gives its place.
pub(super) fn keep(folder: &Path, task: &TaskId, text: &str) -> io::Result<PathBuf> {
    files::private_dir(folder).map_err(io::Error::other)?;
    prune(folder)?;
    let path = folder.join(format!("{}.txt", task.short()));
    files::write_private(&path, text.as_bytes()).map_err(io::Error::other)?;
    Ok(path)
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
}
