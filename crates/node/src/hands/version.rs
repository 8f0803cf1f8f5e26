//! Asks a program in a terminal for its version, once, in a separate process.
//!
//! Not here: which versions its profile was tested with (`synapse-terminal`).

use super::terminal::Seat;
use std::time::Duration;

/// Asks the program for its version, as its profile says, so that an untested version can be
/// reported. The process does not inherit the `withheld` variables.
pub(super) async fn ask(seat: Seat, program: String, withheld: Vec<String>) {
    const PATIENCE: Duration = Duration::from_secs(10);
    let ask = seat.watch().profile().version.ask.clone();
    if ask.is_empty() {
        return;
    }
    let mut command = tokio::process::Command::new(program);
    command.args(ask).stdin(std::process::Stdio::null()).kill_on_drop(true);
    for variable in &withheld {
        command.env_remove(variable);
    }
    if let Ok(Ok(output)) = tokio::time::timeout(PATIENCE, command.output()).await {
        let said: String = String::from_utf8_lossy(&output.stdout).chars().take(200).collect();
        seat.said_version(&said);
    }
}
