//! Fills a store as a node does: batches through the core's cycle, and snapshots when the journal
//! asks for one.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use synapse_core::agents::Agent;
use synapse_core::effect::{Command, Draft, Effect, Facts, Fresh, Input, Report, Serves};
use synapse_core::ids::AskId;
use synapse_core::message::{Content, Expects, Proof};
use synapse_core::policy::Caller;
use synapse_core::receipt::Step;
use synapse_core::routes::Target;
use synapse_core::{AgentId, AgentType, Body, Hub, Limits, LinkId, MessageId, Priority, Timestamp, cycle};
use synapse_store::{Journal, Retention};

/// Increase this when stores are to be filled differently.
pub(super) const VERSION: u32 = 2;
const BATCH: usize = 1_000;
const LINK: LinkId = LinkId(1);

/// How many messages a store contains.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// Messages that were sent, seen and completed.
    pub(super) delivered: u64,
    /// Messages in the mailbox.
    pub(super) waiting: usize,
    /// How many of the delivered messages come after the last snapshot.
    pub(super) in_tail: u64,
}

/// Creates a store whose last snapshot has a full mailbox, followed by records to replay.
pub(super) fn fill(path: &Path, size: Size) -> anyhow::Result<()> {
    let mut filler = Filler::open(path)?;
    filler.turn(vec![filler.agent_up()])?;
    filler.deliver(size.delivered.saturating_sub(size.in_tail))?;
    for _ in 0..size.waiting / BATCH {
        let batch = (0..BATCH).map(|_| filler.send()).collect();
        filler.turn(batch)?;
    }
    filler.journal.take_snapshot(filler.hub.state()).context("the last snapshot")?;
    filler.deliver(size.in_tail)?;
    let open = filler.hub.state().tasks.len();
    ensure!(open == size.waiting, "{open} tasks are open, not {}", size.waiting);
    Ok(())
}

struct Filler {
    hub: Hub,
    journal: Journal,
    agent: AgentId,
    count: u64,
    dice: u64,
}

impl Filler {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let (journal, state) = Journal::open(path, Retention::default())?;
        let hub = Hub::with_state(Limits::default(), state);
        Ok(Self { hub, journal, agent: AgentId::from_bytes([0x5a; 32]), count: 0, dice: 1 })
    }

    /// Sends this many messages, while a joined agent sees as many. Messages that waited before go
    /// first.
    fn deliver(&mut self, count: u64) -> anyhow::Result<()> {
        let (mut sent, mut seen) = (0, 0);
        let mut in_hand = self.turn(vec![self.link_opened()])?;
        while seen < count {
            let mut batch: Vec<Input> = Vec::with_capacity(2 * BATCH);
            seen += in_hand.len() as u64;
            batch.extend(in_hand.drain(..).map(|message| self.seen(message)));
            for _ in 0..BATCH.min(usize::try_from(count - sent)?) {
                batch.push(self.send());
                sent += 1;
            }
            in_hand = self.turn(batch)?;
        }
        self.turn(vec![Input::LinkClosed { link: LINK }]).map(drop)
    }

    /// Runs one cycle of the core. Returns the messages that were handed out.
    fn turn(&mut self, batch: Vec<Input>) -> anyhow::Result<Vec<MessageId>> {
        let turned = cycle::turn(&mut self.hub, now(), batch, &mut self.journal)?;
        ensure!(turned.failed.is_none(), "a batch was not stored: {:?}", turned.failed);
        let mut handed = Vec::new();
        for effect in turned.effects {
            match effect {
                Effect::Deliver { letter, .. } => handed.push(letter.id.clone()),
                Effect::Reply { answer, .. } => {
                    answer.map_err(|refusal| anyhow::anyhow!("refused: {refusal}"))?;
                }
                _ => {}
            }
        }
        if self.journal.wants_snapshot(self.hub.state()) {
            self.journal.take_snapshot(self.hub.state()).context("a snapshot")?;
            self.journal.prune(now()).context("pruning")?;
        }
        Ok(handed)
    }

    fn agent_up(&self) -> Input {
        let kind = AgentType::parse("mailbox").expect("a plain word is a type");
        let agent =
            Agent { id: self.agent, kind, name: None, role: None, capabilities: Vec::new(), port: None };
        Input::AgentUp { agent, restarted: false }
    }

    fn link_opened(&self) -> Input {
        let serves = Serves::UntilSeen { notes: true };
        Input::LinkOpened { link: LINK, agent: self.agent, window: BATCH, serves, running: Vec::new() }
    }

    fn send(&mut self) -> Input {
        let text = format!("{:0300}", self.count);
        let draft = Draft {
            to: Target::Here,
            sender_id: None,
            body: Body::of(&Content::text(text)),
            priority: Priority::NORMAL,
            expects: Expects::Receipt,
            chain: None,
            continues: None,
            caller_task_id: None,
            context: None,
            tenant: None,
            timeout_ms: None,
            sent_at: None,
            watcher: None,
        };
        let fresh = Fresh { message: self.next_message(), task: self.random() };
        self.ask(Caller::User { proof: Proof::Socket }, Command::Send(Box::new(draft)), fresh)
    }

    fn seen(&mut self, message: MessageId) -> Input {
        let caller =
            Caller::Agent { id: self.agent, label: "mailbox".into(), role: None, proof: Proof::Socket };
        let command = Command::Report { message, report: Report::Step(Step::Seen) };
        self.ask(caller, command, Fresh::default())
    }

    fn ask(&mut self, caller: Caller, command: Command, fresh: Fresh) -> Input {
        self.count += 1;
        Input::Asked { ask: AskId(self.count), caller, command, facts: Facts::default(), fresh }
    }

    /// An id in the order of time, like a UUIDv7.
    fn next_message(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(now().0 << 16 | 0x7000).to_be_bytes());
        bytes[8..].copy_from_slice(&(self.count | 1 << 63).to_be_bytes());
        bytes
    }

    /// Scattered bytes, like the ids of tasks; the same each time a store is filled.
    fn random(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        for half in bytes.chunks_mut(8) {
            self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.dice;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            half.copy_from_slice(&(mixed ^ (mixed >> 31)).to_be_bytes());
        }
        bytes
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_store_is_filled_and_opens_again() {
        let folder = std::env::temp_dir().join(format!("synapse-filling-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("journal.db");
        let size = Size { delivered: 1_500, waiting: 1_000, in_tail: 1_000 };
        fill(&path, size).unwrap();
        let (_journal, state) = Journal::open(&path, Retention::default()).unwrap();
        assert_eq!(state.letters.len(), size.waiting);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
