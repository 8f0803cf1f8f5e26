//! One notifier command, from its run folder to its end.
//!
//! Not here: the information for the command, and who learns of its end (`notify`).

use crate::doors::Shared;
use crate::folders::FolderWatcher;
use crate::hands::exec::runner_command;
use crate::hands::watch::RunWatch;
use std::process::Child;
use std::time::Duration;
use synapse_holder::{Exit, How, RunDir, RunState};

/// How many runners are started for a command at most.
const RUNNERS_MAX: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// How a command ended.
#[derive(Debug)]
pub(super) struct CommandEnd {
    /// `None` if unknown.
    pub how: Option<How>,
    pub code: Option<i32>,
    pub why: String,
    pub stderr: String,
}

impl CommandEnd {
    fn unknown(why: &str) -> Self {
        Self { how: None, code: None, why: why.to_owned(), stderr: String::new() }
    }

    fn not_started(why: String) -> Self {
        Self { how: Some(How::NotStarted), code: None, why, stderr: String::new() }
    }
}

impl From<Exit> for CommandEnd {
    fn from(exit: Exit) -> Self {
        Self { how: Some(exit.how), code: exit.code, why: exit.why, stderr: exit.stderr_tail }
    }
}

pub(super) struct Run {
    dir: RunDir,
    /// The runner, if this node started it.
    child: Option<Child>,
    runners: usize,
}

impl Run {
    pub(super) fn resume(dir: RunDir) -> Self {
        Self { dir, child: None, runners: 0 }
    }

    pub(super) fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// Starts the command unless it was started before. Returns when it has ended.
    pub(super) async fn finish(&mut self, app: &Shared, folders: &FolderWatcher) -> CommandEnd {
        loop {
            let runner = match self.dir.state() {
                Ok(RunState::Ended(exit)) => return exit.into(),
                Ok(RunState::Vanished) => {
                    return CommandEnd::unknown("its runner was killed; its result is unknown");
                }
                Ok(RunState::Running { pid }) => Some(pid),
                Ok(RunState::Prepared) => match self.see_to_runner(app).await {
                    Ok(pid) => Some(pid),
                    Err(why) => return CommandEnd::not_started(why),
                },
                // A system limit; once its folder is readable again, the end is in there.
                Err(_) => None,
            };
            match runner {
                Some(pid) => {
                    let mut watch = RunWatch::new(folders, self.dir.path(), Some(pid));
                    // It may have ended before it was watched.
                    if !self.has_ended() {
                        let _ = tokio::time::timeout(PAUSE, watch.news()).await;
                    }
                }
                None => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Makes sure that a run which has not begun has a runner.
    async fn see_to_runner(&mut self, app: &Shared) -> Result<u32, String> {
        if let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(None) => return Ok(child.id()),
                Ok(Some(_)) if self.runners < RUNNERS_MAX => tokio::time::sleep(PAUSE).await,
                Ok(Some(status)) => return Err(format!("its runner could not begin ({status})")),
                Err(e) => return Err(format!("its runner cannot be watched: {e}")),
            }
        }
        self.runners += 1;
        let child = start(app, &self.dir).map_err(|e| format!("no runner could be started: {e}"))?;
        let pid = child.id();
        self.child = Some(child);
        Ok(pid)
    }

    fn has_ended(&self) -> bool {
        matches!(self.dir.state(), Ok(RunState::Ended(_) | RunState::Vanished))
    }

    pub(super) fn give_up(&self) -> CommandEnd {
        let _ = self.dir.cancel();
        CommandEnd::unknown("its end was not waited for any longer")
    }

    pub(super) fn remove(self) {
        if let Some(mut child) = self.child {
            tokio::task::spawn_blocking(move || child.wait());
        }
        let path = self.dir.path().to_owned();
        if let Err(e) = self.dir.remove() {
            tracing::warn!(error = %e, folder = %path.display(), "the run of a notifier command could not be removed");
        }
    }
}

/// Starts the runner. The command gets the environment of the user's programs, without the
/// variables for nodes and agents.
fn start(app: &Shared, dir: &RunDir) -> std::io::Result<Child> {
    let mut command = runner_command(app, dir)?;
    for (name, _) in std::env::vars_os() {
        let is_ours =
            name.to_str().is_some_and(|name| name.starts_with("SYNAPSE_") && name != "SYNAPSE_HOME");
        if is_ours {
            command.env_remove(name);
        }
    }
    dir.spawn_runner(command)
}
