//! The echo: answers each message with its own parts, in this process. For trying out a client, a route or a machine
//! without a program of one's own.

use crate::doors::Shared;
use crate::handle::ToHand;
use synapse_core::Refusal;
use synapse_core::effect::{Command, Report, Serves};
use synapse_core::policy::Caller;
use synapse_core::task::TaskState;

/// Messages in hand before an answer to one of them is on disk.
const WINDOW: usize = 64;

/// Takes messages until the node stops.
pub async fn work(app: Shared, ready: tokio::sync::oneshot::Sender<()>) -> Result<(), Refusal> {
    let agent = app.agent.id;
    let serves = Serves::UntilEnded { hears: false };
    let (link, mut orders) = app.handle.link(agent, WINDOW, serves, Vec::new()).await?;
    let _ = ready.send(());
    while let Some(order) = orders.recv().await {
        // It is done at once, so there is nothing to stop or to interrupt.
        let ToHand::Deliver { letter, body, .. } = order else { continue };
        let report =
            Report::Done { state: TaskState::Completed, answer: Some(body), why: "said it back".into() };
        let command = Command::Report { message: letter.id.clone(), report };
        // Nobody waits for the answer: what could not be stored is handed out again when its lease runs out.
        drop(app.handle.ask_when_there_is_room(Caller::Hand { link, agent }, command).await?);
    }
    Ok(())
}
