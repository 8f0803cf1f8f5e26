//! Measures the delays that the machine itself causes: a thread that repeatedly sleeps, wakes and
//! syncs a small file.
//!
//! A gap that is no longer than this thread's delay is caused by the machine, not by us.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;

use super::{Times, ms_between, now_ns};

/// How often it wakes; rarely enough to cause no load.
const EVERY: Duration = Duration::from_millis(25);

pub(super) struct Witness {
    file: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::io::Result<Times>>>,
}

impl Witness {
    /// Starts the thread, with its file in this folder on the disk that is measured.
    pub(super) fn start(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("witness.tmp");
        let mut file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        let over = Arc::new(AtomicBool::new(false));
        let asked = over.clone();
        let thread = std::thread::spawn(move || {
            let mut times = Times::default();
            while !asked.load(Ordering::Acquire) {
                let began = now_ns();
                std::thread::sleep(EVERY);
                file.write_all(&[7; 4096])?;
                file.sync_data()?;
                let late = ms_between(began, now_ns()) - EVERY.as_secs_f64() * 1e3;
                times.push(late.max(0.0));
            }
            Ok(times)
        });
        Ok(Self { file: path, over, thread: Some(thread) })
    }

    /// Ends the thread. Returns how late each wake-up with its sync was.
    pub(super) fn end(mut self) -> anyhow::Result<Times> {
        self.over.store(true, Ordering::Release);
        let thread = self.thread.take().context("it ends once")?;
        Ok(thread.join().map_err(|_| anyhow::anyhow!("the witness panicked"))??)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = std::fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_how_late_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let witness = Witness::start(folder.path()).unwrap();
        let times = witness.end().unwrap();
        assert!(times.at(1.0) >= 0.0);
        assert!(!folder.path().join("witness.tmp").exists());
    }
}
