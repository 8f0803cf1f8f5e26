//! A terminal for tests: a program runs in it, keys go in, and what it shows is waited for.

use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A program in a terminal of its own.
pub struct Pty {
    master: File,
    child: Child,
    shown: Arc<(Mutex<Shown>, Condvar)>,
}

#[derive(Default)]
struct Shown {
    text: String,
    is_closed: bool,
}

impl Pty {
    /// Starts it as a shell would: the terminal is its own, so signals of the terminal reach it.
    pub fn start(program: &Command, columns: u16, rows: u16) -> Self {
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(folder) = program.get_current_dir() {
            command.current_dir(folder);
        }
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&master).expect("its grant");
        unlockpt(&master).expect("its lock");
        let name = rustix::pty::ptsname(&master, Vec::new()).expect("its name");
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let slave = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("its other end");
        resize(&master, columns, rows);
        let end = || Stdio::from(slave.try_clone().expect("a copy"));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the program starts");
        drop((command, slave));
        let shown: Arc<(Mutex<Shown>, Condvar)> = Arc::default();
        let (mut from, to) = (File::from(master.try_clone().expect("a copy")), shown.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..read]);
                to.0.lock().unwrap_or_else(PoisonError::into_inner).text.push_str(&text);
                to.1.notify_all();
            }
            to.0.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
            to.1.notify_all();
        });
        Self { master: File::from(master), child, shown }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("keys go in");
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        resize(&self.master, columns, rows);
    }

    /// All that was shown, colours and all.
    pub fn text(&self) -> String {
        self.shown.0.lock().unwrap_or_else(PoisonError::into_inner).text.clone()
    }

    /// Waits until `part` has been shown.
    pub fn wait_for(&self, part: &str) {
        self.wait_until(&format!("{part:?} is shown"), |shown| shown.text.contains(part));
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&Shown) -> bool) {
        let began = Instant::now();
        let mut shown = self.shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !holds(&shown) {
            let left = PATIENCE.saturating_sub(began.elapsed());
            assert!(
                !left.is_zero() && !shown.is_closed,
                "not within {PATIENCE:?}: {what}; shown:\n{:?}",
                shown.text
            );
            shown = self.shown.1.wait_timeout(shown, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the program has ended.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("its end");
        // What it printed last may still be on its way.
        let began = Instant::now();
        let mut shown = self.shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !shown.is_closed && began.elapsed() < PATIENCE {
            shown = self.shown.1.wait_timeout(shown, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        let text = shown.text.clone();
        drop(shown);
        (status, text)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resize(master: &impl std::os::fd::AsFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).expect("a size");
}
