//! A program that stands in for a CLI agent: a composer, turns of a known length, and a log with
//! times.
//!
//! It is this binary under a hidden subcommand, started by whatever is measured: `__agent LOG
//! [turn=MS] [hold=FILE] [silent] [hooks=PROGRAM]`. It draws its composer like Claude Code's,
//! because rivals can read that.
//!
//! Each line of the log is a time in nanoseconds, an event and a text. The events are `first` (the
//! first byte of a message), `enter`, `given` (the submitted text), `body` (what a hook returned)
//! and `idle` (the turn is over and the program can be typed to). Not here: approvals and
//! misbehaviour; the scripted CLI of the tests has them.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use serde_json::json;

use super::now_ns;

const TURN: Duration = Duration::from_millis(50);
/// How often it checks whether a held turn may end.
const HOLD_LOOK: Duration = Duration::from_millis(5);
/// How many lines of the conversation it shows.
const SHOWN: usize = 20;
const RULE: &str = "────────────────────────────────────────";
const PASTE: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// How the program behaves.
#[derive(Debug, PartialEq, Eq)]
struct How {
    log: PathBuf,
    turn: Duration,
    /// The first turn lasts until this file exists.
    hold: Option<PathBuf>,
    /// Do not report the state. Only the screen shows it.
    silent: bool,
    /// The program to call for hook events, as Claude Code does.
    hooks: Option<String>,
}

impl How {
    fn parse(words: &[String]) -> anyhow::Result<Self> {
        let (log, options) = words.split_first().context("say where its log is")?;
        let mut how = Self { log: log.into(), turn: TURN, hold: None, silent: false, hooks: None };
        for option in options {
            match option.split_once('=').unwrap_or((option, "")) {
                ("turn", ms) => how.turn = Duration::from_millis(ms.parse().context("turn=MS")?),
                ("hold", file) => how.hold = Some(file.into()),
                ("silent", "") => how.silent = true,
                ("hooks", program) => how.hooks = Some(program.to_owned()),
                _ => bail!("`{option}` is not understood"),
            }
        }
        Ok(how)
    }
}

pub(crate) fn run(words: &[String]) -> anyhow::Result<()> {
    let how = How::parse(words)?;
    let input = std::io::stdin();
    let mut modes = tcgetattr(&input).context("its input is no terminal")?;
    cfmakeraw(&mut modes);
    tcsetattr(&input, SetArg::TCSANOW, &modes)?;
    Agent::new(how)?.work()
}

struct Agent {
    how: How,
    log: File,
    output: File,
    said: Vec<String>,
    draft: String,
    /// Bytes of an incomplete key.
    rest: Vec<u8>,
    /// Whether the first byte of the next message has arrived.
    begun: bool,
    busy: bool,
    /// When the turn ends. None while it is held, or while the program is idle.
    ends: Option<Instant>,
    session: String,
}

/// A decoded key.
#[derive(Debug, PartialEq, Eq)]
enum Key {
    Text(String),
    Enter,
    Erase,
    EraseLine,
    Other,
}

impl Agent {
    fn new(how: How) -> anyhow::Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(&how.log);
        let log = log.with_context(|| format!("opening {}", how.log.display()))?;
        let output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
        let session =
            format!("{:08x}-0000-4000-8000-{:012x}", std::process::id(), now_ns() & 0xffff_ffff_ffff);
        Ok(Self {
            how,
            log,
            output,
            said: Vec::new(),
            draft: String::new(),
            rest: Vec::new(),
            begun: false,
            busy: false,
            ends: None,
            session,
        })
    }

    fn work(mut self) -> anyhow::Result<()> {
        self.output.write_all(b"\x1b[?2004h\x1b[?1049h")?;
        self.hook("sessionstart", &json!({ "hook_event_name": "SessionStart", "source": "startup" }))?;
        let at = now_ns();
        self.becomes(false)?;
        self.note(at, "idle", "")?;
        let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, self.patience()?)?;
            if fds[0].any().unwrap_or(false) {
                let at = now_ns();
                match input.read(&mut buffer) {
                    Ok(read @ 1..) => self.take(at, &buffer[..read])?,
                    // The terminal is gone.
                    Ok(0) | Err(_) => return Ok(()),
                }
            }
            self.tick()?;
        }
    }

    fn patience(&self) -> anyhow::Result<PollTimeout> {
        let wait = match (self.busy, self.ends) {
            (false, _) => return Ok(PollTimeout::NONE),
            (true, None) => HOLD_LOOK,
            (true, Some(ends)) => ends.saturating_duration_since(Instant::now()),
        };
        // Rounded up, so that the loop does not spin just before the end of a turn.
        Ok(PollTimeout::try_from(wait + Duration::from_micros(999))?)
    }

    fn note(&mut self, at: u64, event: &str, text: &str) -> anyhow::Result<()> {
        let line = format!("{at} {event} {}\n", text.replace(['\n', '\r'], " "));
        self.log.write_all(line.as_bytes()).context("writing the log")
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        let held = self.how.hold.as_ref().is_some_and(|file| !file.exists());
        let over = match self.ends {
            Some(ends) => ends <= Instant::now(),
            None => !held,
        };
        if !self.busy || !over {
            return Ok(());
        }
        self.how.hold = None;
        self.hook("poll", &json!({ "hook_event_name": "Stop", "stop_hook_active": false }))?;
        self.said.push("* done".to_owned());
        let at = now_ns();
        self.becomes(false)?;
        self.note(at, "idle", "")
    }

    fn becomes(&mut self, busy: bool) -> anyhow::Result<()> {
        self.busy = busy;
        let state = if busy { "working" } else { "idle" };
        let report = format!("\x1b]7501;state={state}:app={}\x1b\\", super::ours::PROFILE);
        let report = if self.how.silent { "" } else { &report };
        let painted = format!("{report}{}", self.painted());
        self.output.write_all(painted.as_bytes()).context("painting")
    }

    fn painted(&self) -> String {
        let from = self.said.len().saturating_sub(SHOWN);
        let mut rows = self.said[from..].to_vec();
        rows.extend([String::new(), RULE.to_owned()]);
        let front = |n: usize| if n == 0 { "❯" } else { " " };
        rows.extend(self.draft.split('\n').enumerate().map(|(n, line)| format!("{} {line}", front(n))));
        let (row, column) = (rows.len(), rows.last().map_or(0, |last| last.chars().count()) + 1);
        rows.extend([RULE.to_owned(), if self.busy { "working" } else { "ready" }.to_owned()]);
        let text = rows.join("\r\n");
        format!("\x1b[?2026h\x1b[H\x1b[2J{text}\x1b[{row};{column}H\x1b[?2026l")
    }

    fn take(&mut self, at: u64, bytes: &[u8]) -> anyhow::Result<()> {
        if !self.begun {
            self.begun = true;
            self.note(at, "first", "")?;
        }
        self.rest.extend_from_slice(bytes);
        let mut written = false;
        while let Some((key, length)) = first_key(&self.rest) {
            self.rest.drain(..length);
            match key {
                Key::Text(text) => self.draft.push_str(&text),
                Key::Erase => drop(self.draft.pop()),
                Key::EraseLine => self.draft.clear(),
                Key::Other => {}
                Key::Enter => {
                    self.enter(at)?;
                    continue;
                }
            }
            written = true;
        }
        if written {
            let painted = self.painted();
            self.output.write_all(painted.as_bytes()).context("painting")?;
        }
        Ok(())
    }

    fn enter(&mut self, at: u64) -> anyhow::Result<()> {
        if self.draft.trim().is_empty() {
            return self.note(at, "empty", "");
        }
        let text = std::mem::take(&mut self.draft);
        self.begun = false;
        self.said.extend(text.trim_end().split('\n').map(str::to_owned));
        self.ends = self.how.hold.is_none().then(|| Instant::now() + self.how.turn);
        self.becomes(true)?;
        self.note(at, "enter", "")?;
        self.note(now_ns(), "given", &text)?;
        let event = json!({ "hook_event_name": "UserPromptSubmit", "prompt": text });
        if let Some(brought) = self.hook("userpromptsubmit", &event)? {
            self.note(now_ns(), "body", &brought)?;
        }
        Ok(())
    }

    /// Calls the hook program for an event and waits for it, as the real CLI does. Returns its
    /// output.
    fn hook(&mut self, word: &str, event: &serde_json::Value) -> anyhow::Result<Option<String>> {
        let Some(program) = &self.how.hooks else { return Ok(None) };
        let mut event = event.clone();
        let folder = std::env::current_dir()?;
        let transcript = folder.join(format!("{}.jsonl", self.session));
        for (key, value) in [
            ("session_id", self.session.as_str()),
            ("cwd", &folder.display().to_string()),
            ("transcript_path", &transcript.display().to_string()),
        ] {
            event[key] = value.into();
        }
        let mut command = Command::new(program);
        command.arg(word).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("starting {program}"))?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(event.to_string().as_bytes())?;
        }
        let output = child.wait_with_output()?;
        Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}

/// The first key in these bytes and its length. None while it is incomplete.
fn first_key(bytes: &[u8]) -> Option<(Key, usize)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let whole = |rest: &[u8], end: &[u8]| rest.windows(end.len()).position(|part| part == end);
    match bytes {
        [] => None,
        [b'\r', ..] => Some((Key::Enter, 1)),
        [0x7f, ..] => Some((Key::Erase, 1)),
        [0x15, ..] => Some((Key::EraseLine, 1)),
        paste if paste.starts_with(PASTE) => {
            let inside = &paste[PASTE.len()..];
            let end = whole(inside, PASTE_END)?;
            Some((Key::Text(text(&inside[..end])), PASTE.len() + end + PASTE_END.len()))
        }
        [0x1b, b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
            Some((Key::Other, end + 3))
        }
        [0x1b, ..] => Some((Key::Other, 1)),
        [first, ..] if *first < 0x20 => Some((Key::Other, 1)),
        _ => {
            let end = bytes.iter().position(|byte| *byte < 0x20 || *byte == 0x7f).unwrap_or(bytes.len());
            // A UTF-8 character may arrive in pieces.
            let valid = match std::str::from_utf8(&bytes[..end]) {
                Ok(_) => end,
                Err(e) if e.valid_up_to() > 0 => e.valid_up_to(),
                Err(e) => e.error_len()?,
            };
            Some((Key::Text(text(&bytes[..valid])), valid))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_keys() {
        let text = |text: &str, length| Some((Key::Text(text.to_owned()), length));
        for (bytes, key) in [
            (&b""[..], None),
            (b"ab\r", text("ab", 2)),
            (b"\rab", Some((Key::Enter, 1))),
            (b"\x1b[200~a\rb\x1b[201~\r", text("a\rb", 15)),
            (b"\x1b[200~a\rb\x1b[201", None),
            (b"\x1b[Ix", Some((Key::Other, 3))),
            (b"\x7f", Some((Key::Erase, 1))),
            (b"\x15", Some((Key::EraseLine, 1))),
            ("é".as_bytes(), text("é", 2)),
            (&"é".as_bytes()[..1], None),
        ] {
            assert_eq!(first_key(bytes), key, "{bytes:?}");
        }
    }

    #[test]
    fn words_say_how() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let how = How::parse(&words("a.log turn=7 hold=go silent hooks=hcom")).unwrap();
        assert_eq!((how.turn, how.hold, how.silent), (Duration::from_millis(7), Some("go".into()), true));
        assert_eq!((how.log, how.hooks), ("a.log".into(), Some("hcom".to_owned())));
        assert!(How::parse(&words("a.log fast")).is_err());
        assert!(How::parse(&[]).is_err());
    }
}
