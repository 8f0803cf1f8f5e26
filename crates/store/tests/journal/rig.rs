//! A hub over a real journal, driven by random numbers: the same seed gives the same story.
//!
//! Not here: what is expected of it (the stories).

use std::path::{Path, PathBuf};

use synapse_core::Hub;
use synapse_core::agents::Agent;
use synapse_core::cycle;
use synapse_core::effect::{Command, Draft, Effect, Facts, Fresh, Input, Report, Serves};
use synapse_core::ids::{AgentId, AgentType, AskId, Label, LinkId, MessageId, TaskRef, Timestamp};
use synapse_core::message::{Body, Content, Expects, Key, Letter, Priority, Proof, Who};
use synapse_core::policy::Caller;
use synapse_core::receipt::Step;
use synapse_core::record::Said;
use synapse_core::routes::Target;
use synapse_core::settings::Limits;
use synapse_core::state::State;
use synapse_core::task::TaskState;
use synapse_store::{Journal, Retention};

pub(crate) const DAY_MS: u64 = 24 * 3_600_000;
/// The start time of every story.
pub(crate) const MORNING: Timestamp = Timestamp(1_790_000_000_000);
const AGENTS: u8 = 3;

/// splitmix64.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    fn bytes(&mut self) -> [u8; 16] {
        (u128::from(self.roll()) << 64 | u128::from(self.roll())).to_be_bytes()
    }
}

pub(crate) struct Rig {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) journal: Journal,
    pub(crate) hub: Hub,
    pub(crate) dice: Dice,
    pub(crate) now: Timestamp,
    pub(crate) retention: Retention,
    /// Messages that were delivered to links and are not finished.
    pub(crate) delivered: Vec<(LinkId, Letter)>,
    links: u64,
    asks: u64,
}

pub(crate) fn agent_id(n: u8) -> AgentId {
    AgentId::from_bytes([n + 1; 32])
}

pub(crate) fn user() -> Caller {
    Caller::User { proof: Proof::Socket }
}

/// Normalizes a state for comparison: wakes resting messages and rebuilds the indexes.
pub(crate) fn normal(state: &State) -> State {
    let mut state = state.clone();
    state.rebuild_indexes();
    state.mailboxes.values_mut().for_each(|mailbox| mailbox.wake_all());
    state
}

#[track_caller]
pub(crate) fn assert_same(found: &State, expected: &State, when: &str) {
    let (found, expected) = (normal(found), normal(expected));
    assert_eq!(found.seq, expected.seq, "{when}");
    assert!(found == expected, "{when}: record {:?} is the same, the state is not", found.seq);
}

impl Rig {
    pub(crate) fn new(seed: u64, retention: Retention) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        let (journal, state) = Journal::open(&path, retention.clone()).unwrap();
        assert_same(&state, &State::default(), "a new journal");
        let hub = Hub::with_state(Limits::default(), state);
        let (dice, delivered) = (Dice(seed), Vec::new());
        let mut rig =
            Self { dir, path, journal, hub, dice, now: MORNING, retention, delivered, links: 0, asks: 0 };
        rig.agents_come_up();
        rig
    }

    fn agents_come_up(&mut self) {
        for n in 0..AGENTS {
            let agent = Agent {
                id: agent_id(n),
                kind: AgentType::parse("echo").unwrap(),
                name: Some(Label::parse(&format!("agent{n}")).unwrap()),
                role: None,
                capabilities: Vec::new(),
                port: Some(8100 + u16::from(n)),
            };
            self.turn(vec![Input::AgentUp { agent, restarted: false }]);
        }
    }

    pub(crate) fn open_link(&mut self, agent: u8, window: usize, serves: Serves) {
        self.links += 1;
        let (link, agent) = (LinkId(self.links), agent_id(agent));
        self.turn(vec![Input::LinkOpened { link, agent, window, serves, running: Vec::new() }]);
    }

    /// Runs one batch through `cycle` and remembers what it delivers.
    pub(crate) fn turn(&mut self, batch: Vec<Input>) -> Vec<Effect> {
        let turned = cycle::turn(&mut self.hub, self.now, batch, &mut self.journal).unwrap();
        assert_eq!(turned.failed, None);
        for effect in &turned.effects {
            if let Effect::Deliver { link, letter, .. } = effect {
                self.delivered.push((*link, (**letter).clone()));
            }
        }
        turned.effects
    }

    pub(crate) fn ask(&mut self, caller: Caller, command: Command) -> Input {
        self.asks += 1;
        let facts = self.facts(&caller, &command);
        let fresh = Fresh { message: self.dice.bytes(), task: self.dice.bytes() };
        Input::Asked { ask: AskId(self.asks), caller, command, facts, fresh }
    }

    /// Looks up what the journal knows about a command's message and task, as a node does.
    fn facts(&self, caller: &Caller, command: &Command) -> Facts {
        let ended = |name: &TaskRef| self.journal.ended(name, self.now).unwrap();
        match command {
            Command::Send(draft) => {
                let key = draft.key(caller.sender().who);
                let prior = key.and_then(|key| self.journal.prior(&key.text()).unwrap());
                Facts { prior, ended: draft.continues.as_ref().and_then(ended) }
            }
            Command::Reply { task: Some(task), .. } | Command::Cancel { task, .. } => {
                Facts { prior: None, ended: ended(task) }
            }
            _ => Facts::default(),
        }
    }

    pub(crate) fn send(&mut self, text: &str, to: u8, sender_id: Option<&str>, expects: Expects) -> Input {
        let draft = Draft {
            to: Target::Named(format!("agent{to}")),
            sender_id: sender_id.map(|id| MessageId::parse(id).unwrap()),
            body: Body::of(&Content::text(text)),
            priority: Priority::from_five(1 + self.dice.below(5)).unwrap(),
            expects,
            chain: None,
            continues: None,
            caller_task_id: None,
            context: None,
            tenant: None,
            timeout_ms: (self.dice.below(4) == 0).then_some(30_000),
            sent_at: None,
            watcher: None,
        };
        self.ask(user(), Command::Send(Box::new(draft)))
    }

    pub(crate) fn report(&mut self, link: LinkId, letter: &Letter, report: Report) -> Input {
        let caller = Caller::Hand { link, agent: letter.to };
        self.ask(caller, Command::Report { message: letter.id.clone(), report })
    }

    /// Makes one random step.
    pub(crate) fn step(&mut self) {
        let batch = match self.dice.below(100) {
            0..40 => {
                let many = 1 + self.dice.below(4);
                (0..many).map(|_| self.any_send()).collect()
            }
            40..75 => self.any_report(),
            75..82 => self.any_order(),
            82..86 => {
                let (agent, window) =
                    (self.dice.below(u64::from(AGENTS)) as u8, 1 + self.dice.below(4) as usize);
                let notes = Serves::UntilSeen { notes: true };
                let serves =
                    if self.dice.below(2) == 0 { Serves::UntilEnded { hears: false } } else { notes };
                return self.open_link(agent, window, serves);
            }
            86..89 => vec![Input::LinkClosed { link: LinkId(1 + self.dice.below(self.links.max(1))) }],
            _ => {
                self.now = self.now.plus_ms(self.dice.below(40_000));
                vec![Input::Clock]
            }
        };
        self.turn(batch);
    }

    fn any_send(&mut self) -> Input {
        let (word, to) = (self.dice.below(50), self.dice.below(u64::from(AGENTS)) as u8);
        let expects = if self.dice.below(2) == 0 { Expects::Answer } else { Expects::Receipt };
        // A few ids are used again: mostly with the same text, sometimes with another.
        let id = (self.dice.below(3) == 0).then(|| format!("mine-{}", word / 2));
        let text = format!("word {} \u{0} \u{202e} 世界", if id.is_some() { word / 2 * 2 } else { word });
        self.send(&text, to, id.as_deref(), expects)
    }

    fn any_report(&mut self) -> Vec<Input> {
        if self.delivered.is_empty() {
            return vec![Input::Clock];
        }
        let at = self.dice.below(self.delivered.len() as u64) as usize;
        let (link, letter) = self.delivered[at].clone();
        let body = Body::of(&Content::text("an answer"));
        let report = match self.dice.below(8) {
            0 => Report::Working,
            1 => Report::Step(Step::Seen),
            2 => Report::Step(Step::Written),
            3 => Report::Said(Said::Progress { text: "half way".into(), percent: Some(50) }),
            4 => Report::Said(Said::Artifact {
                id: "a".into(),
                name: None,
                content: body,
                append: false,
                last: true,
            }),
            5 => Report::NeedsInput { prompt: body, auth: false },
            6 => Report::Refused { why: "not now".into() },
            _ => Report::Done { state: TaskState::Completed, answer: Some(body), why: "done".into() },
        };
        if matches!(report, Report::Done { .. } | Report::Refused { .. }) {
            self.delivered.swap_remove(at);
        }
        vec![self.report(link, &letter, report)]
    }

    fn any_order(&mut self) -> Vec<Input> {
        let tasks: Vec<_> = self.hub.state().tasks.values().map(|t| (t.id, t.agent)).collect();
        if tasks.is_empty() {
            return vec![Input::Clock];
        }
        let (task, agent) = tasks[self.dice.below(tasks.len() as u64) as usize];
        let body = Body::of(&Content::text("an order"));
        let command = match self.dice.below(3) {
            0 => Command::Reply { task: Some(task.into()), body, failed: self.dice.below(2) == 0 },
            1 => Command::Cancel { task: task.into(), why: "no longer wanted".into() },
            _ => {
                let Input::Asked { command: Command::Send(mut draft), .. } =
                    self.send("more", 0, None, Expects::Answer)
                else {
                    unreachable!("a send is a send")
                };
                (draft.to, draft.continues) = (Target::Here, Some(task.into()));
                Command::Send(draft)
            }
        };
        let worker = Caller::Agent { id: agent, label: "worker".into(), role: None, proof: Proof::Socket };
        let caller = if matches!(command, Command::Reply { .. }) { worker } else { user() };
        vec![self.ask(caller, command)]
    }

    /// Sends messages and reports them as seen, five hundred per batch; all their
    /// tasks have ended on return.
    pub(crate) fn deliver(&mut self, count: usize) {
        const BATCH: usize = 500;
        for done in (0..count).step_by(BATCH) {
            let many = BATCH.min(count - done);
            let sends =
                (0..many).map(|n| self.send(&format!("{done} {n}"), 0, None, Expects::Receipt)).collect();
            self.turn(sends);
            while !self.delivered.is_empty() {
                let seen = std::mem::take(&mut self.delivered);
                let seen =
                    seen.iter().map(|(link, letter)| self.report(*link, letter, Report::Step(Step::Seen)));
                let seen = seen.collect();
                self.turn(seen);
            }
        }
    }

    /// Closes the journal, opens it again and compares; the new hub continues from there.
    pub(crate) fn restart(&mut self, when: &str) {
        let (journal, state) = self.reopened();
        assert_same(&state, self.hub.state(), when);
        self.journal = journal;
        self.hub = Hub::with_state(Limits::default(), state);
        cycle::restart(&mut self.hub, self.now, &mut self.journal).unwrap();
        self.delivered.clear();
        self.agents_come_up();
    }

    fn reopened(&mut self) -> (Journal, State) {
        // Another journal stands in for the moment, because opening the same file twice
        // would make two writers.
        let elsewhere = self.dir.path().join("elsewhere.db");
        let (other, _) = Journal::open(&elsewhere, self.retention.clone()).unwrap();
        drop(std::mem::replace(&mut self.journal, other));
        Journal::open(&self.path, self.retention.clone()).unwrap()
    }

    /// Ends the story; returns the closed file, with the folder that contains it.
    pub(crate) fn close(self) -> (tempfile::TempDir, PathBuf, State) {
        let state = self.hub.state().clone();
        drop(self.journal);
        (self.dir, self.path, state)
    }
}

pub(crate) fn sql(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

pub(crate) fn number(path: &Path, ask: &str) -> u64 {
    sql(path).query_row(ask, [], |row| row.get(0)).unwrap()
}

pub(crate) fn key_of(id: &str) -> String {
    Key { who: Who::User, tenant: None, message: MessageId::parse(id).unwrap() }.text()
}
