//! Starts the hand that the launch file names.

use super::{Died, OUTBOX_VARIABLE};
use crate::doors::Shared;
use crate::folders::FolderWatcher;
use crate::hands::acp::AcpHand;
use crate::hands::echo;
use crate::hands::exec::{ExecHand, Places};
use crate::hands::terminal::{Seat, TerminalHand, Typing};
use crate::launch::{Hand, Launch};
use crate::profiles::{assemble, made_of};
use synapse_core::Refusal;
use synapse_core::agents::AgentState;
use synapse_core::effect::Input;
use synapse_store::files::{self, Access};
use synapse_store::home::AgentDir;
use synapse_store::outbox::Outbox;

/// Starts the hand. Returns when it takes messages.
pub(super) async fn start(
    app: &Shared,
    launch: &Launch,
    dir: &AgentDir,
    own_outbox: Option<&Outbox>,
    folders: &FolderWatcher,
) {
    match &launch.hand {
        Hand::Exec(exec) => {
            let mut exec = exec.clone();
            if let Some(path) = own_outbox.and_then(|own| own.path().to_str()) {
                exec.env.insert(OUTBOX_VARIABLE.into(), path.to_owned());
            }
            let places = Places { runs: dir.runs(), working_dir: launch.working_dir.clone() };
            let hand = ExecHand::new(app.clone(), exec, places, folders.clone());
            linked(|ready| hand.work(ready)).await;
        }
        Hand::Echo => linked(|ready| echo::work(app.clone(), ready)).await,
        Hand::Terminal(inner) => {
            let Some(seat) = app.seat.clone() else { return };
            let hand = TerminalHand {
                agent: launch.id,
                dir: dir.clone(),
                seat,
                program: inner.argv.first().cloned().unwrap_or_default(),
                app: app.clone(),
            };
            tokio::spawn(hand.work());
        }
        Hand::Acp(acp) => {
            let Some(desk) = app.acp.clone() else { return };
            let outbox = own_outbox.map(|own| own.path().to_owned());
            let (acp, folder) = (acp.clone(), launch.working_dir.clone());
            let hand = AcpHand { app: app.clone(), acp, folder, outbox, desk };
            linked(|ready| hand.work(ready)).await;
        }
        // Its program joins by itself, through the inbox stream.
        Hand::Mailbox => app.handle.tell(Input::Presence {
            agent: launch.id,
            state: AgentState::Offline,
            why: "no program has joined yet".into(),
        }),
    }
}

/// Starts a hand, and returns once it takes messages.
async fn linked<F>(work: impl FnOnce(tokio::sync::oneshot::Sender<()>) -> F)
where
    F: Future<Output = Result<(), Refusal>> + Send + 'static,
{
    let (ready, linked) = tokio::sync::oneshot::channel();
    let working = work(ready);
    tokio::spawn(async move {
        if let Err(refusal) = working.await {
            tracing::error!(%refusal, "the hand could not start");
        }
    });
    let _ = linked.await;
}

/// Returns the terminal of an agent that has one.
pub(super) fn seat(launch: &Launch, dir: &AgentDir) -> Result<Option<Seat>, Died> {
    const KEY_BYTES_MAX: usize = 256;
    let Hand::Terminal(inner) = &launch.hand else { return Ok(None) };
    let project = inner.project_profile.as_deref();
    let profile =
        assemble(&inner.profile, project).map_err(|e| Died::CannotRun(format!("the profile: {e}")))?;
    let key = files::read_private(&dir.hook_key(), KEY_BYTES_MAX, Access::Secret);
    let key = key.ok().and_then(|bytes| String::from_utf8(bytes).ok()).filter(|key| !key.is_empty());
    let (text, typing) = (made_of(&inner.profile, project), Typing::of(inner, &launch.working_dir));
    let seat = Seat::new(profile, text, inner.tells.clone(), typing, key);
    seat.expect_session(inner.session.clone(), inner.resumes && !super::is_restart());
    if let Some((ink, paper)) = inner.colours {
        seat.watch().set_colours(ink, paper);
    }
    Ok(Some(seat))
}
