//! hcom, with the same program under the name of a CLI that hcom supports.
//!
//! hcom types a short trigger. The program then calls hcom as a hook, as Claude Code does, and the
//! hook returns the text.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;

use super::log::Log;
use super::{AGENT, ms_between, now_ns};
use crate::bench::terminal::{COLUMNS, Pty, ROWS};
use crate::bench::{Bench, venv};

const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two messages. After a turn, hcom types nothing for 1.5 seconds.
const PAUSE: Duration = Duration::from_millis(2_500);
/// The tag that addresses its agents, whatever names it gives them.
const TAG: &str = "bench";

pub(super) struct Hcom {
    program: PathBuf,
    home: PathBuf,
    log: Log,
    /// Reads what a person would see.
    reader: Option<JoinHandle<()>>,
    over: Arc<AtomicBool>,
    sent: usize,
}

/// The times of one message, in milliseconds since the start of its sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// The first byte of the trigger.
    pub(super) trigger: f64,
    /// The program has the text.
    pub(super) body: f64,
}

impl Hcom {
    /// Installs hcom if possible, and starts the program in it.
    pub(super) fn start(bench: &Bench) -> anyhow::Result<Self> {
        let folder = bench.folder.join("rivals");
        let program = venv::program(&folder, "hcom", "hcom")?;
        // On the same disk, and deleted with the other homes.
        let home = bench.stage.home().root().join("hcom");
        std::fs::create_dir_all(&home).with_context(|| format!("making {}", home.display()))?;
        let file = home.join("agent.log");
        let log = Log::new(&file)?;
        let own = std::env::current_exe().context("where this program is")?;
        let line = format!(
            "#!/bin/sh\nexec '{}' {AGENT} '{}' silent 'hooks={}'\n",
            own.display(),
            file.display(),
            program.display()
        );
        named_claude(&home, &line)?;
        let mut command = command(&program, &home);
        // Without this, it uses a plugin that polls four times a second.
        command.args(["claude", "--tag", TAG]).env("HCOM_CLAUDE_DELIVERY", "inject");
        command.env("TERM", "xterm-256color");
        let pty = Pty::start(&command, COLUMNS, ROWS)?;
        let over = Arc::new(AtomicBool::new(false));
        let reader = Some(read_on(pty, over.clone()));
        let mut hcom = Self { program, home, log, reader, over, sent: 0 };
        hcom.log.wait(0, "idle", "", PATIENCE).context("the program did not start in hcom")?;
        std::thread::sleep(PAUSE);
        Ok(hcom)
    }

    pub(super) fn send(&mut self) -> anyhow::Result<Arrival> {
        self.sent += 1;
        let text = format!("message hcom-{:05}, of no great length", self.sent);
        let mut command = command(&self.program, &self.home);
        command.args(["send", &format!("@{TAG}-"), "-b", "--", &text]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let from = self.log.events.len();
        let began = now_ns();
        let output = command.spawn()?.wait_with_output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "`hcom send`: {}", complaint.trim());
        let body = self.log.wait(from, "body", &text, PATIENCE)?;
        let first = self.log.last_before(body, "first")?;
        let arrival =
            Arrival { trigger: ms_between(began, first), body: ms_between(began, self.log.events[body].at) };
        self.log.wait(body, "idle", "", PATIENCE)?;
        std::thread::sleep(PAUSE);
        Ok(arrival)
    }
}

impl Drop for Hcom {
    fn drop(&mut self) {
        // hcom's processes outlive the terminal for a while. Kill everything of hcom in this home.
        let mut command = command(&self.program, &self.home);
        command.args(["kill", "all"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let _ = command.status();
        self.over.store(true, Ordering::Release);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn command(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.current_dir(home).env("HOME", home).env("HCOM_DIR", home.join(".hcom"));
    command.env("PATH", format!("{}:{path}", home.join("programs").display()));
    command
}

fn named_claude(home: &Path, line: &str) -> anyhow::Result<()> {
    let programs = home.join("programs");
    std::fs::create_dir_all(&programs)?;
    let program = programs.join("claude");
    std::fs::write(&program, line)?;
    Ok(std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?)
}

/// Reads until it is told to stop. Then the terminal closes, and everything in it ends.
fn read_on(mut pty: Pty, over: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !over.load(Ordering::Acquire) {
            let _ = pty.drain(Duration::from_millis(20));
            // If the terminal is closed, reading does not block.
            std::thread::sleep(Duration::from_millis(1));
        }
    })
}
