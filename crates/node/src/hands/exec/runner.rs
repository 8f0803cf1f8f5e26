//! The runner of a run: starts one, and another if it could not begin.
//!
//! Invariant: a task fails for its runner only if the next one would fail too, or the command may have been started.
//! Not here: what a runner does (`synapse-holder`), how a run goes on (`exec`).

use super::limits::{LIMIT_PAUSE, past_limits};
use super::{ExecHand, Run};
use crate::doors::Shared;
use std::io;
use std::process::{Child, Command, ExitStatus};
use synapse_holder::{EXIT_WANT_OF_ROOM, RunDir, RunState, SystemLimit};

impl ExecHand {
    /// A run that nobody has begun: its runner is on its way, was never started, or could not begin. As nothing was
    /// started, another runner tries, unless this one says that it would fail the next time too.
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
            // Canceled meanwhile?
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

/// Secrets that came to this node in variables are not for what it runs.
pub(crate) fn runner_command(app: &Shared, dir: &RunDir) -> io::Result<Command> {
    let mut command = synapse_holder::same_program()?;
    command.arg("__run").arg(dir.path());
    // What the holder says to its node is none of the command's business.
    for variable in [crate::serve::RESTART_VARIABLE, crate::serve::HOLDER_VERSION_VARIABLE] {
        command.env_remove(variable);
    }
    for variable in app.gate.secret_variables() {
        command.env_remove(variable);
    }
    Ok(command)
}

impl Run {
    /// Whether a runner that we started is on its way.
    pub(super) fn has_runner(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }
}

/// How a runner ended that did not begin the command.
#[derive(Debug, PartialEq, Eq)]
enum RunnerEnd {
    /// For a cause that stays.
    Refused,
    /// Another runner had the folder.
    LeftToAnother,
    /// By a limit of the system, or before it could say anything: the loader ends a program with 127 that has no
    /// descriptor left for its libraries, and the kernel kills one for which there is no memory.
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

/// On a full disk a runner cannot say anything.
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

    /// Finding A1: a runner that ended before it began the command was taken for a failure of the command.
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
