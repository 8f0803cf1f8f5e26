//! Synapse A2A, the Python rival, with the same program and a profile that detects its screen.
//!
//! It reads profiles only from its package's folder, so ours is put there. The settings favour it:
//! it takes the next task as soon as the program is quiet.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::json;

use super::log::Log;
use super::post::Post;
use super::{AGENT, ms_between, now_ns};
use crate::bench::{Bench, venv};

const PACKAGE: &str = "synapse-a2a";
const PROFILE: &str = "benched";
const PATIENCE: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(1_500);

pub(super) struct SynapseA2a {
    program: PathBuf,
    home: PathBuf,
    port: u16,
    server: Child,
    log: Log,
    sent: usize,
}

/// The times of one message, in milliseconds since it was about to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) first: f64,
    pub(super) enter: f64,
}

impl SynapseA2a {
    pub(super) fn start(bench: &Bench) -> anyhow::Result<Self> {
        let folder = bench.folder.join("rivals");
        let program = venv::program(&folder, PACKAGE, "synapse")?;
        let home = bench.stage.home().root().join(PACKAGE);
        std::fs::create_dir_all(&home).with_context(|| format!("making {}", home.display()))?;
        let file = home.join("agent.log");
        profile(&venv::of(&folder, PACKAGE), &file)?;
        let log = Log::new(&file)?;
        let port = free_port()?;
        let said = std::fs::File::create(home.join("server.out"))?;
        // The process that `synapse start` starts. Started directly, it ends when we kill it.
        let mut command = command(&program.with_file_name("python3"), &home);
        command.args(["-m", "synapse.server", "--profile", PROFILE, "--port", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        let server = command.spawn()?;
        let mut a2a = Self { program, home, port, server, log, sent: 0 };
        a2a.log.wait(0, "idle", "", PATIENCE).context("the program did not start in Synapse A2A")?;
        Ok(a2a)
    }

    fn text(&mut self) -> String {
        self.sent += 1;
        format!("message a2a-{:05}, of no great length", self.sent)
    }

    /// Sends a request to its server on an open connection. A refused request is retried until it
    /// is accepted.
    pub(super) fn post(&mut self) -> anyhow::Result<Arrival> {
        let text = self.text();
        let message = json!({ "role": "user", "parts": [{ "type": "text", "text": text }] });
        let (from, tried) = (self.log.events.len(), Instant::now());
        loop {
            let connected = Post::tcp(self.port);
            let began = now_ns();
            let told = connected.and_then(|mut post| {
                post.ask("/tasks/send-priority?priority=3", &json!({ "message": message }))
            });
            match told {
                Ok((200 | 201, _)) => return self.arrival(from, &text, began),
                other if tried.elapsed() > PATIENCE => bail!("it takes no message: {other:?}"),
                _ => std::thread::sleep(RETRY),
            }
        }
    }

    /// Runs its own command, without any optional waiting.
    pub(super) fn send(&mut self) -> anyhow::Result<Arrival> {
        let text = self.text();
        let from = self.log.events.len();
        let mut command = command(&self.program, &self.home);
        command.args(["send", PROFILE, &text, "--silent", "--force"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let began = now_ns();
        let output = command.spawn()?.wait_with_output()?;
        if !output.status.success() {
            bail!("its `synapse send`: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        self.arrival(from, &text, began)
    }

    fn arrival(&mut self, from: usize, text: &str, began: u64) -> anyhow::Result<Arrival> {
        let given = self.log.wait(from, "given", text, PATIENCE)?;
        let first = ms_between(began, self.log.last_before(given, "first")?);
        let enter = ms_between(began, self.log.last_before(given, "enter")?);
        self.log.wait(given, "idle", "", PATIENCE)?;
        std::thread::sleep(PAUSE);
        Ok(Arrival { first, enter })
    }
}

impl Drop for SynapseA2a {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn command(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(home).env("HOME", home).env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    command
}

/// Finds a free port. If another process takes it before it is used, the start fails.
fn free_port() -> anyhow::Result<u16> {
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port")?;
    Ok(socket.local_addr()?.port())
}

fn profile(venv: &Path, log: &Path) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("where this program is")?;
    let lib = venv.join("lib");
    let packages = std::fs::read_dir(&lib).with_context(|| format!("reading {}", lib.display()))?;
    let mut folders = packages.flatten().map(|entry| entry.path().join("site-packages/synapse/profiles"));
    let folder = folders.find(|folder| folder.is_dir()).context("its package has no folder of profiles")?;
    let text = format!(
        "command: {own:?}\nargs: [{AGENT}, {log:?}, silent]\nsubmit_sequence: \"\\r\"\nenv: {{ TERM: xterm-256color }}\n\
         idle_detection:\n  strategy: hybrid\n  pattern: BRACKETED_PASTE_MODE\n  pattern_use: startup_only\n  \
         timeout: 0.3\n  task_protection_timeout: 0\nwaiting_detection: {{ heuristic_fallback: false }}\n"
    );
    Ok(std::fs::write(folder.join(format!("{PROFILE}.yaml")), text)?)
}
