//! The log of an agent, kept within bounds: when it has grown large, it becomes `log.1` and begins anew.
//!
//! Holder, node and runners write to one file that each of them has open. So it is copied and then emptied in
//! place, rather than renamed: everybody's next line is at its beginning. Only the node turns it over while the
//! agent runs, between two of its own lines; a line that another process writes in that very moment may be lost.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// As much as there is of a log, twice.
pub const LOG_BYTES_MAX: u64 = 4 << 20;

/// Writes lines on, and turns the file over before it gets too large.
pub struct Bounded<W> {
    path: PathBuf,
    to: W,
    /// What may still be written before we look at the file again.
    left: u64,
    max: u64,
}

impl<W: Write> Bounded<W> {
    pub fn new(path: PathBuf, to: W) -> Self {
        Self { path, to, left: 0, max: LOG_BYTES_MAX }
    }

    fn make_room(&mut self) {
        let length = std::fs::metadata(&self.path).map_or(0, |meta| meta.len());
        let length = if length >= self.max && turn_over(&self.path).is_ok() { 0 } else { length };
        // Others write here too, so we look again long before we would have filled it alone.
        self.left = (self.max.saturating_sub(length) / 4).max(1 << 10);
    }
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        if self.left < length {
            self.make_room();
        }
        self.left = self.left.saturating_sub(length);
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Before an agent is started: what a start after a start leaves behind is bounded too.
pub fn rotate_if_large(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|meta| meta.len() >= LOG_BYTES_MAX) {
        let _ = turn_over(path);
    }
}

/// Where the lines before the last turn are.
pub fn old(path: &Path) -> PathBuf {
    path.with_extension("1")
}

fn turn_over(path: &Path) -> io::Result<()> {
    let draft = path.with_extension("tmp");
    let mut from = File::open(path)?;
    let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    io::copy(&mut from, &mut to)?;
    std::fs::rename(&draft, old(path))?;
    OpenOptions::new().write(true).open(path)?.set_len(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_never_grows_beyond_its_bound_and_the_last_lines_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let append = || OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let (mut log, mut other) = (Bounded::new(path.clone(), append()), append());
        log.max = 20_000;
        for n in 0..2_000 {
            writeln!(log, "line {n:>6} of the node, which says a little more than that").unwrap();
            if n % 100 == 0 {
                writeln!(other, "another process").unwrap();
            }
        }
        let length = |path: &Path| std::fs::metadata(path).unwrap().len();
        assert!(length(&path) < 24_000 && length(&old(&path)) < 24_000, "{}", length(&old(&path)));
        let text = std::fs::read_to_string(old(&path)).unwrap() + &std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("line")).collect();
        let first: usize = lines[0][5..11].trim().parse().unwrap();
        assert_eq!(lines.len(), 2_000 - first, "no line of the node is lost between the two files");
        assert!(lines.last().unwrap().contains("  1999 of"));
    }
}
