//! Starts the runner of a run, and another one if the first could not begin.
//!
//! Invariant: a task fails because of its runner only if the next runner would fail too, or if the
//! command may have been started.
//! Not here: what a runner does (`synapse-holder`), how a run continues (`exec`).

use super::limits::{LIMIT_PAUSE, past_limits};
use super::{ExecHand, Run};
use crate::doors::Shared;
use std::io;
use std::process::{Child, Command, ExitStatus};
use synapse_holder::{EXIT_WANT_OF_ROOM, RunDir, RunState, SystemLimit};

impl ExecHand {
    /// Makes sure that a run which has not begun has a runner. Its runner is starting, was never
    /// started, or could not begin. Since the command was not started, another runner tries, unless
    /// this one reported that a retry would fail too.
    pub(super) async fn see_to_runner(&self, run: &mut Run) -> Result<(), String> {
        if let Some(child) = &mut run.child {
            let status = match child.try_wait() {
                Ok(Some(status)) => status,
                Ok(None) => return Ok(()),
                Err(e) => return Err(format!("its runner cannot be watched: {e}")),
            };
            // It may have begun, and even ended, after the last look.
            if !matches!(past_limits(|| run.dir.state()).await, Ok(RunState::Prepared)) {
                return Ok(());
            }
            run.child = None;
            match RunnerEnd::of(status) {
                RunnerEnd::Refused => return Err(format!("its runner could not begin ({status})")),
                RunnerEnd::LeftToAnother => tokio::time::sleep(LIMIT_PAUSE).await,
                RunnerEnd::Hindered => {
                    let why = why_hindered(&run.dir.runner_said(), status);
                    tokio::time::sleep(self.gate.close(self.link(), &why)).await;
                }
            }
            // The task may have been canceled meanwhile.
            return Ok(());
        }
        match self.spawn_runner(&run.dir) {
            Ok(child) => run.child = Some(child),
            Err(e) => match SystemLimit::of(&e) {
                Some(limit) => tokio::time::sleep(self.gate.close(self.link(), &limit.to_string())).await,
                None => return Err(format!("no runner could be started: {e}")),
            },
        }
        Ok(())
    }

    pub(super) fn spawn_runner(&self, dir: &RunDir) -> io::Result<Child> {
        dir.spawn_runner(runner_command(&self.app, dir)?)
    }
}

/// Builds the command of a runner. The runner must not inherit the secrets from this node's
/// variables.
pub(crate) fn runner_command(app: &Shared, dir: &RunDir) -> io::Result<Command> {
    let mut command = synapse_holder::same_program()?;
    command.arg("__run").arg(dir.path());
    // What the holder passed to its node does not concern the command.
    for variable in [crate::serve::RESTART_VARIABLE, crate::serve::HOLDER_VERSION_VARIABLE] {
        command.env_remove(variable);
    }
    for variable in app.gate.secret_variables() {
        command.env_remove(variable);
    }
    Ok(command)
}

impl Run {
    /// Whether a runner that we started is still running.
    pub(super) fn has_runner(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }
}

/// How a runner ended that did not begin the command.
#[derive(Debug, PartialEq, Eq)]
enum RunnerEnd {
    /// It failed for a permanent cause.
    Refused,
    /// Another runner had the folder.
    LeftToAnother,
    /// It failed because of a system limit, or before it could report anything. The loader ends a
    /// program with 127 if no descriptor is left for its libraries, and the kernel kills a program
    /// if there is no memory for it.
    Hindered,
}

impl RunnerEnd {
    fn of(status: ExitStatus) -> Self {
        match status.code() {
            Some(0) => Self::LeftToAnother,
            Some(1) => Self::Refused,
            _ => Self::Hindered,
        }
    }
}

/// Returns why a runner was hindered. On a full disk it cannot report anything but its exit code.
fn why_hindered(said: &str, status: ExitStatus) -> String {
    match said {
        "" if status.code() == Some(i32::from(EXIT_WANT_OF_ROOM)) => SystemLimit::Disk.to_string(),
        "" => format!("its runner ended before it began ({status})"),
        said => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    /// Finding A1: a runner that ended before it began the command was treated as a failure of the
    /// command.
    #[test]
    fn only_a_runner_that_says_so_will_not_begin() {
        let table = [
            (0, RunnerEnd::LeftToAnother),
            (1 << 8, RunnerEnd::Refused),
            (75 << 8, RunnerEnd::Hindered),
            (127 << 8, RunnerEnd::Hindered),
            (9, RunnerEnd::Hindered),
        ];
        for (raw, end) in table {
            assert_eq!(RunnerEnd::of(ExitStatus::from_raw(raw)), end, "{raw}");
        }
    }

    #[test]
    fn a_runner_that_cannot_write_its_log_is_explained() {
        let (want_of_room, killed) = (ExitStatus::from_raw(75 << 8), ExitStatus::from_raw(9));
        assert_eq!(why_hindered("", want_of_room), "the disk is full");
        assert_eq!(why_hindered("no memory", want_of_room), "no memory");
        assert!(why_hindered("", killed).contains("signal: 9"));
    }
}
