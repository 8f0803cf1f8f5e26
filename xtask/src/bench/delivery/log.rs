//! The log of the program, read while it runs.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) at: u64,
    pub(super) what: String,
    pub(super) text: String,
}

pub(super) struct Log {
    file: PathBuf,
    read: u64,
    /// The beginning of an incomplete line.
    rest: String,
    pub(super) events: Vec<Event>,
}

const LOOK: Duration = Duration::from_millis(1);

impl Log {
    /// Creates an empty log.
    pub(super) fn new(file: &Path) -> anyhow::Result<Self> {
        File::create(file).with_context(|| format!("making {}", file.display()))?;
        Ok(Self { file: file.to_owned(), read: 0, rest: String::new(), events: Vec::new() })
    }

    /// Reads what was written since the last call.
    pub(super) fn look(&mut self) -> anyhow::Result<()> {
        let mut file = File::open(&self.file).with_context(|| format!("opening {}", self.file.display()))?;
        file.seek(SeekFrom::Start(self.read))?;
        self.read += file.read_to_string(&mut self.rest)? as u64;
        while let Some(end) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=end).collect();
            let mut words = line.trim_end_matches('\n').splitn(3, ' ');
            let mut word = || words.next().with_context(|| format!("a line of the log: {line:?}"));
            let (at, what) = (word()?.parse()?, word()?.to_owned());
            self.events.push(Event { at, what, text: words.next().unwrap_or_default().to_owned() });
        }
        Ok(())
    }

    /// Waits for the first such event from number `from` on.
    pub(super) fn wait(
        &mut self,
        from: usize,
        what: &str,
        part: &str,
        patience: Duration,
    ) -> anyhow::Result<usize> {
        let (began, mut seen) = (Instant::now(), from);
        loop {
            self.look()?;
            while seen < self.events.len() {
                let event = &self.events[seen];
                if event.what == what && event.text.contains(part) {
                    return Ok(seen);
                }
                seen += 1;
            }
            if began.elapsed() > patience {
                let last: Vec<&Event> = self.events.iter().rev().take(4).collect();
                bail!(
                    "the program did not note `{what}` with {part:?} within {} s; last: {last:?}",
                    patience.as_secs()
                );
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The time of the last such event before number `index`.
    pub(super) fn last_before(&self, index: usize, what: &str) -> anyhow::Result<u64> {
        let found = self.events[..index].iter().rev().find(|event| event.what == what);
        Ok(found.with_context(|| format!("no `{what}` in the log"))?.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn events_are_found_as_they_come() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Log::new(&path).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"5 first \n7 enter \n9 given one two\n11 id").unwrap();
        let given = log.wait(0, "given", "two", Duration::ZERO).unwrap();
        assert_eq!(log.events[given], Event { at: 9, what: "given".into(), text: "one two".into() });
        assert_eq!(log.last_before(given, "first").unwrap(), 5);
        assert!(log.wait(given, "idle", "", Duration::ZERO).is_err());
        file.write_all(b"le \n").unwrap();
        assert_eq!(log.wait(given, "idle", "", Duration::ZERO).unwrap(), 3);
        assert!(log.last_before(0, "first").is_err());
    }
}
