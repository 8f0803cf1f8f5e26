//! The echo hand: answers each message with its own parts, in this process. For testing a client, a
//! route or a machine without a program.

use crate::doors::Shared;
use crate::handle::ToHand;
use synapse_core::Refusal;
use synapse_core::effect::{Command, Report, Serves};
use synapse_core::policy::Caller;
use synapse_core::task::TaskState;

/// The maximum number of messages in progress before one of their answers is on disk.
const WINDOW: usize = 64;

/// Takes messages until the node stops.
pub async fn work(app: Shared, ready: tokio::sync::oneshot::Sender<()>) -> Result<(), Refusal> {
    let agent = app.agent.id;
    let serves = Serves::UntilEnded { hears: false };
    let (link, mut orders) = app.handle.link(agent, WINDOW, serves, Vec::new()).await?;
    let _ = ready.send(());
    while let Some(order) = orders.recv().await {
        // A message is answered at once, so there is nothing to stop or interrupt.
        let ToHand::Deliver { letter, body, .. } = order else { continue };
        let report =
            Report::Done { state: TaskState::Completed, answer: Some(body), why: "said it back".into() };
        let command = Command::Report { message: letter.id.clone(), report };
        // Nothing waits for the result: if the answer could not be stored, the message is delivered
        // again when its lease expires.
        drop(app.handle.ask_when_there_is_room(Caller::Hand { link, agent }, command).await?);
    }
    Ok(())
}
