//! While `send` waits: why no answer has come yet (CLI-11), and what stays after Ctrl-C.
//!
//! Reasons are lines on a person's terminal and nothing elsewhere: a program or an agent that waits reads only the
//! answer.

use crate::agents::Roll;
use crate::cli::{explain, wait};
use crate::fail::{self, Fail};
use crate::show;
use std::time::Duration;
use synapse_core::ids::AgentId;
use synapse_dialects::api::ReceiptView;
use synapse_dialects::message::MessageAccepted;

/// Quick answers come without a word.
const SILENT: Duration = Duration::from_millis(1500);
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The message that is waited for.
pub(super) struct Awaited<'a> {
    pub roll: &'a Roll,
    pub agent: &'a AgentId,
    pub label: &'a str,
    pub accepted: &'a MessageAccepted,
}

impl Awaited<'_> {
    /// Waits for the end of `work`. A person is told meanwhile why it takes so long. Ctrl-C ends the wait.
    pub(super) async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = Result<T, Fail>>,
        tells: bool,
    ) -> Result<T, Fail> {
        // Some agents run their commands in a terminal.
        let tells = tells && show::err_on_terminal() && self.roll.own_agent().is_none();
        tokio::select! {
            done = work => done,
            () = self.tell_reasons(), if tells => unreachable!("it never ends"),
            () = interrupted() => Err(self.what_stays().await),
        }
    }

    fn task(&self) -> &str {
        self.accepted.task_id.as_deref().unwrap_or_default()
    }

    /// Says why nothing has come, and says it again when that changes. Never ends.
    async fn tell_reasons(&self) {
        let mut told = None;
        tokio::time::sleep(SILENT).await;
        loop {
            if !self.task().is_empty() {
                let (reason, state) =
                    explain::reason_of_task(self.roll, self.agent, self.task(), Duration::ZERO).await;
                // A prompt of this very task is told by its event, with all of its question.
                let is_told = state.as_deref() == Some("input-required");
                let kind = without_numbers(&reason.because);
                if !is_told && reason.code != "ended" && told.as_ref() != Some(&kind) {
                    wait::print(&reason.line());
                    told = Some(kind);
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What is left behind when the person no longer waits.
    async fn what_stays(&self) -> Fail {
        let label = self.label;
        let message = match self.accepted.task_id.as_deref() {
            None => {
                format!("the message stays in the spool of {label}, which will get it as soon as it responds")
            }
            Some(task) => {
                let short = &task[..8.min(task.len())];
                match self.is_in_mailbox().await {
                    true => format!(
                        "the message stays in the mailbox of {label}; `synapse cancel {short}` withdraws it"
                    ),
                    false => format!(
                        "{label} goes on with task {short}; `synapse cancel {short}` stops it, `synapse history \
                         --task {short}` shows its answer later"
                    ),
                }
            }
        };
        Fail::new(fail::INTERRUPTED, "interrupted", message)
    }

    /// Whether nobody has taken it yet; if that cannot be known soon, it is taken to be so.
    async fn is_in_mailbox(&self) -> bool {
        const PATIENCE: Duration = Duration::from_secs(1);
        let path = format!("/api/v1/receipts/{}", self.accepted.message_id);
        let asked = async {
            let mut client = self.roll.connect(self.agent).await.ok()?;
            client.get::<ReceiptView>(&path).await.ok()?.place
        };
        let place = tokio::time::timeout(PATIENCE, asked).await.ok().flatten();
        place.is_none_or(|place| place.place != "handed")
    }
}

/// Returns when Ctrl-C is pressed. The runtime hears of signals by a socket; without any, Ctrl-C ends the process.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = synapse_peer::sockets_work().then(|| signal(SignalKind::interrupt()).ok()).flatten();
    match signals {
        Some(mut signals) => drop(signals.recv().await),
        None => std::future::pending().await,
    }
}

/// What stays the same while only time passes: "busy for 3 s" and "busy for 4 s" are one reason.
fn without_numbers(text: &str) -> String {
    let mut kind = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii_digit() {
            true if kind.ends_with('#') => {}
            true => kind.push('#'),
            false => kind.push(c),
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_the_same_while_only_time_passes() {
        let kind = |text: &str| without_numbers(text);
        assert_eq!(kind("ana has been busy for 9 s (why)"), kind("ana has been busy for 10 s (why)"));
        assert_ne!(kind("ana has been busy for 59 s"), kind("ana has been busy for 1 min"));
        assert_ne!(kind("it waits, and ana is busy"), kind("it waits, and ana asks to run: ls"));
    }
}
