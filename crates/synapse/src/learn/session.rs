//! A program in its own terminal, driven from this process: keys go in, screens come out, and
//! everything is recorded.
//!
//! The program gets a session and a controlling terminal, as from a shell, through a small process
//! of ours that becomes the program (`__tty`). It ends with this session.

use crate::fail::{self, Fail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use synapse_terminal::cast::Cast;
use synapse_terminal::learn::Shot;
use synapse_terminal::{Screen, Seen, Size};

/// How a text is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    Typed,
    Pasted,
    /// The first character, and then the rest at once, as messages are typed to programs that know no pastes.
    Line,
}

pub struct Session {
    child: Child,
    master: File,
    screen: Screen,
    began: Instant,
    cast: Cast,
    recorded: String,
    shots: Vec<Shot>,
    /// The rows that were last seen, and since when.
    shown: Option<Vec<String>>,
    changed: Instant,
    apps: Vec<String>,
}

/// The largest recording. A program that prints more is cut off.
const RECORDED_BYTES_MAX: usize = 32 << 20;
/// The most screens that are kept of one turn. Beyond that, every second earlier one is dropped.
const SHOTS_MAX: usize = 2_000;
/// When output pauses for this long, the screen is complete.
const SETTLE: Duration = Duration::from_millis(40);
/// A screen is captured at most this long after a change.
const LOOK_MAX: Duration = Duration::from_millis(250);
/// The pause between keys that are typed one by one.
const KEY_PAUSE: Duration = Duration::from_millis(15);
/// How long the first character of a line may take until it is shown.
const FIRST_SHOWN_MAX: Duration = Duration::from_secs(2);
/// How long a program may take to exit.
const END_MAX: Duration = Duration::from_secs(3);

/// `__tty PROGRAM ARGS`: becomes the program, as the leader of a session whose terminal is standard
/// input.
pub fn run_in_terminal(program: &OsStr, args: impl Iterator<Item = OsString>) -> ExitCode {
    let done = rustix::process::setsid().and_then(|_| rustix::process::ioctl_tiocsctty(std::io::stdin()));
    if let Err(e) = done {
        eprintln!("no terminal: {e}");
        return ExitCode::from(fail::ERROR);
    }
    // Processes of the program are not the user: they count as being below an agent that no node
    // knows.
    if let Err(e) = synapse_holder::depth::descend() {
        eprintln!("{}: it could not be set apart from you: {e}", program.display());
        return ExitCode::from(fail::ERROR);
    }
    let error = Command::new(program).args(args).exec();
    eprintln!("{}: {error}", program.display());
    ExitCode::from(fail::NOT_FOUND)
}

impl Session {
    pub fn start(argv: &[String], env: &BTreeMap<String, Option<String>>, size: Size) -> Result<Self, Fail> {
        let (master, slave) = open(size)?;
        let end = || slave.try_clone().map(Stdio::from);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("__tty").args(argv).stdin(end()?).stdout(end()?).stderr(end()?);
        crate::program::withhold_secrets(&mut command);
        for (name, value) in env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = synapse_holder::cores::spawn(&mut command)?;
        drop((command, slave));
        let now = Instant::now();
        Ok(Self {
            child,
            master: File::from(master),
            screen: Screen::new(size, 0),
            began: now,
            cast: Cast::default(),
            recorded: Cast::head(size.columns(), size.rows(), 0, "synapse profile learn"),
            shots: Vec::new(),
            shown: None,
            changed: now,
            apps: Vec::new(),
        })
    }

    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The current screen, and since when it is shown.
    pub fn shot(&self) -> Shot {
        let now = Shot::of(&self.screen, self.now_ms());
        let ms = u64::try_from(self.changed.elapsed().as_millis()).unwrap_or(u64::MAX);
        Shot { at_ms: now.at_ms.saturating_sub(ms), ms, ..now }
    }

    pub fn takes_pastes(&self) -> bool {
        self.screen.pastes_are_bracketed()
    }

    /// The names that the program gives itself in its status reports.
    pub fn apps(&self) -> Vec<String> {
        self.apps.clone()
    }

    pub fn forget_shots(&mut self) {
        self.shots.clear();
    }

    /// The screens since `forget_shots`, each with the time it was shown.
    pub fn take_shots(&mut self) -> Vec<Shot> {
        std::mem::take(&mut self.shots)
    }

    pub fn press(&mut self, keys: &[u8]) -> Result<(), Fail> {
        let at = self.now_ms();
        let line = self.cast.input(at, keys);
        self.record(&line);
        self.master.write_all(keys)?;
        Ok(())
    }

    pub fn write(&mut self, text: &str, keys: Keys) -> Result<(), Fail> {
        match keys {
            Keys::Pasted => self.press(format!("\u{1b}[200~{text}\u{1b}[201~").as_bytes()),
            Keys::Typed => self.one_by_one(text.chars().map(|c| if c == '\n' { ' ' } else { c })),
            Keys::Line => {
                let line = text.replace('\n', " ");
                let (first, rest) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
                self.press(first.as_bytes())?;
                self.wait_until(FIRST_SHOWN_MAX, |shot| shot.rows.iter().any(|row| row.contains(first)))?;
                self.pump(KEY_PAUSE)?;
                self.press(rest.as_bytes())
            }
        }
    }

    /// Presses Backspace this many times.
    pub fn erase(&mut self, count: usize) -> Result<(), Fail> {
        self.one_by_one(std::iter::repeat_n('\u{7f}', count))
    }

    fn one_by_one(&mut self, keys: impl Iterator<Item = char>) -> Result<(), Fail> {
        for key in keys {
            self.press(key.encode_utf8(&mut [0; 4]).as_bytes())?;
            self.pump(KEY_PAUSE)?;
        }
        Ok(())
    }

    /// Runs the program until its screen has not changed for this long. Returns false at the limit.
    pub fn wait_for_rest(&mut self, quiet: Duration, limit: Duration) -> Result<bool, Fail> {
        self.wait_for_rest_or(quiet, limit, |_, _| false)
    }

    /// The same, or until a condition on the screen and the time holds.
    pub fn wait_for_rest_or(
        &mut self,
        quiet: Duration,
        limit: Duration,
        mut holds: impl FnMut(&Shot, u64) -> bool,
    ) -> Result<bool, Fail> {
        let began = Instant::now();
        // What this waits for needs a moment to show on the screen.
        self.pump(SETTLE)?;
        loop {
            let since = self.changed.max(began);
            let left = quiet.saturating_sub(since.elapsed());
            if left.is_zero() || holds(&self.shot(), self.now_ms()) {
                return Ok(true);
            }
            if began.elapsed() > limit {
                return Ok(false);
            }
            self.pump(left.min(LOOK_MAX))?;
        }
    }

    /// Runs the program until a condition on its screen holds. Returns false at the limit.
    pub fn wait_until(
        &mut self,
        limit: Duration,
        mut holds: impl FnMut(&Shot) -> bool,
    ) -> Result<bool, Fail> {
        let began = Instant::now();
        loop {
            if holds(&self.shot()) {
                return Ok(true);
            }
            if began.elapsed() > limit {
                return Ok(false);
            }
            self.pump(SETTLE)?;
        }
    }

    /// Reads output for this long, and captures each screen that came to rest.
    fn pump(&mut self, time: Duration) -> Result<(), Fail> {
        let end = Instant::now() + time;
        let mut unseen: Option<Instant> = None;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let due =
                unseen.map(|since| (since + LOOK_MAX).saturating_duration_since(Instant::now()).min(SETTLE));
            if self.has_output(due.unwrap_or(left).min(left.max(SETTLE)))? {
                self.read()?;
                let since = *unseen.get_or_insert_with(Instant::now);
                if since.elapsed() < LOOK_MAX {
                    continue;
                }
            }
            if unseen.take().is_some() {
                self.look();
            }
            if end <= Instant::now() {
                return Ok(());
            }
        }
    }

    fn has_output(&self, wait: Duration) -> Result<bool, Fail> {
        let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.master, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(std::io::Error::from(e).into()),
        }
    }

    fn read(&mut self) -> Result<(), Fail> {
        let mut buffer = [0; 64 << 10];
        let Ok(read @ 1..) = self.master.read(&mut buffer) else { return Err(self.ended()) };
        let (at, bytes) = (self.now_ms(), &buffer[..read]);
        let line = self.cast.output(at, bytes);
        self.record(&line);
        let mut seen = Vec::new();
        self.screen.feed(bytes, &mut seen);
        for seen in seen {
            match seen {
                Seen::Answer(text) => self.master.write_all(text.as_bytes())?,
                Seen::Status(report) => {
                    let app = report.app.unwrap_or_default();
                    if !app.is_empty() && !self.apps.contains(&app) && self.apps.len() < 4 {
                        self.apps.push(app);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn look(&mut self) {
        let shot = Shot::of(&self.screen, self.now_ms());
        // Only rows count, because some programs change their title all the time.
        let is_new = self.shown.as_ref() != Some(&shot.rows);
        if is_new {
            self.changed = Instant::now();
            self.shown = Some(shot.rows.clone());
        }
        if let Some(last) = self.shots.last_mut() {
            last.ms = shot.at_ms.saturating_sub(last.at_ms);
            if last.is_like(&shot) {
                // The cursor may have moved.
                (last.cursor, last.drawn, last.faint) = (shot.cursor, shot.drawn, shot.faint);
                return;
            }
        }
        if self.shots.len() >= SHOTS_MAX {
            let mut keep = false;
            self.shots.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.shots.push(shot);
    }

    fn record(&mut self, line: &str) {
        if self.recorded.len() + line.len() <= RECORDED_BYTES_MAX {
            self.recorded.push_str(line);
        }
    }

    fn ended(&mut self) -> Fail {
        let status = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        let rows = self.screen.rows();
        let words: Vec<&str> = rows.iter().map(String::as_str).filter(|row| !row.is_empty()).collect();
        let words = crate::show::safe(&words[words.len().saturating_sub(6)..].join("\n"));
        Fail::new(fail::ERROR, "program_ended", format!("the program ended ({status}):\n{words}"))
    }

    /// Ends the program and returns the recording.
    pub fn end(mut self) -> String {
        self.stop();
        std::mem::take(&mut self.recorded)
    }

    /// Acts like a closed terminal: sends SIGHUP, and kills the program if that does not help.
    fn stop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let (Some(pid), Ok(None)) = (pid, self.child.try_wait()) {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::HUP);
            let began = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < END_MAX {
                std::thread::sleep(Duration::from_millis(10));
            }
            if matches!(self.child.try_wait(), Ok(None)) {
                let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
            }
        }
        let _ = self.child.wait();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}

fn open(size: Size) -> Result<(OwnedFd, OwnedFd), Fail> {
    let opened = || -> rustix::io::Result<(OwnedFd, OwnedFd)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = rustix::pty::ptsname(&master, Vec::new())?;
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let slave = rustix::fs::open(name, flags, rustix::fs::Mode::empty())?;
        let window = Winsize { ws_row: size.rows(), ws_col: size.columns(), ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, window)?;
        Ok((master, slave))
    };
    opened().map_err(|e| std::io::Error::from(e).into())
}
