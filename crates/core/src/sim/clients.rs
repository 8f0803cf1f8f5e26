//! Clients: users and agents that send, repeat, contradict, continue, cancel and
//! query, over a bad network.
//!
//! An *errand* is one request from a client to one node. A request with a key is retried until it
//! is answered; each try may be lost, delayed or duplicated, in both directions.

use super::world::{Asker, Event, Reply, World};
use super::{Broken, Rule};
use crate::effect::{Answer, Command, Draft, Facts, Fresh, Input};
use crate::ids::{Label, MessageId, TaskId, TaskRef};
use crate::message::{Body, Chain, Content, Expects, Priority, Proof};
use crate::policy::Caller;
use crate::refusal::Refusal;
use crate::routes::Target;

#[derive(Debug)]
pub(super) struct Client {
    node: usize,
    caller: Caller,
    /// The longest pause between two requests.
    pace_ms: u64,
    sent: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub(super) node: usize,
    client: usize,
    command: Command,
    tries: u32,
    tries_max: u32,
    done: bool,
    /// The messages that the node acknowledged to the client.
    pub(super) acknowledged: Vec<MessageId>,
    task: Option<TaskId>,
}

impl Errand {
    /// Returns the sender's id and the body, for a message to one agent.
    fn single(&self) -> Option<(&MessageId, &Body)> {
        match &self.command {
            Command::Send(draft) if draft.to != Target::Everyone => {
                Some((draft.sender_id.as_ref()?, &draft.body))
            }
            _ => None,
        }
    }
}

const TRIES_MAX: u32 = 25;

impl World {
    pub(super) fn settle_clients(&mut self) {
        for client in 0..usize::try_from(self.dice.within(2, 5)).expect("five at most") {
            let node = self.dice.index(self.nodes.len());
            let agent = self.dice.index(self.nodes[node].agents.len());
            let agent = &self.nodes[node].agents[agent];
            let caller = match self.dice.below(4) {
                0 | 1 => Caller::User { proof: Proof::Socket },
                2 => Caller::UserAs { agent: agent.id, label: agent.label(), proof: Proof::Token },
                _ => Caller::Agent { id: agent.id, label: agent.label(), role: None, proof: Proof::Socket },
            };
            let pace_ms = *self.dice.pick(&[60, 1_500, 4_000, 12_000]);
            self.clients.push(Client { node, caller, pace_ms, sent: 0 });
            self.after(50, Event::Client(client));
        }
    }

    pub(super) fn client_thinks(&mut self, client: usize) {
        if self.calm {
            return;
        }
        let pace = self.clients[client].pace_ms;
        // A flooding client pauses now and then, so that others get through.
        let pause = if pace < 100 && self.dice.percent(10) { 60_000 } else { self.dice.within(1, pace) };
        self.after(pause, Event::Client(client));
        let command = match self.dice.below(107) {
            0..=61 => Some(self.new_message(client)),
            62..=69 => self.repeat(client),
            70..=74 => self.contradict(client),
            75..=80 => {
                self.known_task(client).map(|task| Command::Cancel { task, why: "changed my mind".into() })
            }
            81..=86 => self.continuation(client),
            87..=91 => self.known_message(client).map(|message| Command::Receipt { message }),
            92..=93 => self.known_task(client).map(|task| Command::Task { task }),
            94..=95 => self.known_task(client).map(|task| Command::Reply {
                task: Some(task),
                body: Body::of(&Content::text("take this")),
                failed: false,
            }),
            96 => Some(Command::Tasks { max: 5 }),
            97 => Some(Command::Agents),
            100..=102 => Some(self.interruption(client)),
            103..=105 => Some(self.sharing(client)),
            106 => Some(self.following(client)),
            _ => self.own_inbox(client),
        };
        let Some(command) = command else { return };
        let keyed = matches!(&command, Command::Send(draft) if draft.sender_id.is_some());
        let errand = Errand {
            node: self.clients[client].node,
            client,
            command,
            tries: 0,
            tries_max: if keyed { TRIES_MAX } else { 1 },
            done: false,
            acknowledged: Vec::new(),
            task: None,
        };
        self.errands.push(errand);
        self.try_errand(self.errands.len() - 1);
    }

    fn new_message(&mut self, client: usize) -> Command {
        self.clients[client].sent += 1;
        let n = self.clients[client].sent;
        let agents = &self.nodes[self.clients[client].node].agents;
        let to = match self.dice.below(20) {
            0 => Target::Everyone,
            1 => Target::Skill(Label::parse("review").expect("a plain word is a label")),
            2 => Target::Named("nobody".into()),
            _ => Target::Named(self.dice.pick(agents).label()),
        };
        let chain = self.dice.percent(8).then(|| Chain {
            correlation: MessageId::parse("root").expect("a plain word is an id"),
            parent: None,
            hops: u8::try_from(self.dice.below(20)).expect("twenty fits"),
        });
        let length = *self.dice.pick(&[1, 20, 60, 300, 500]);
        let text = if self.dice.percent(10) { "thanks!".to_owned() } else { format!("{n:0>length$}") };
        let timeout_ms = self.dice.percent(15).then(|| self.dice.within(1_000, 90_000));
        Command::Send(Box::new(Draft {
            to,
            sender_id: self.dice.percent(90).then(|| key(client, n)),
            body: Body::of(&Content::text(text)),
            priority: Priority::new(self.dice.within(1, 10)).expect("one to ten is a priority"),
            expects: if self.dice.percent(50) { Expects::Answer } else { Expects::Receipt },
            chain,
            continues: None,
            caller_task_id: None,
            context: None,
            tenant: None,
            timeout_ms,
            sent_at: None,
            watcher: None,
        }))
    }

    /// Picks an errand of this client that was acknowledged.
    fn known(&mut self, client: usize) -> Option<usize> {
        let own = |e: &Errand| e.client == client && !e.acknowledged.is_empty();
        let known: Vec<usize> =
            (0..self.errands.len()).rev().filter(|n| own(&self.errands[*n])).take(12).collect();
        if known.is_empty() { None } else { Some(*self.dice.pick(&known)) }
    }

    fn repeat(&mut self, client: usize) -> Option<Command> {
        let known = self.known(client)?;
        self.errands[known].single()?;
        Some(self.errands[known].command.clone())
    }

    fn contradict(&mut self, client: usize) -> Option<Command> {
        let Command::Send(mut draft) = self.repeat(client)? else { return None };
        draft.body = Body::of(&Content::text("something else entirely"));
        Some(Command::Send(draft))
    }

    fn known_task(&mut self, client: usize) -> Option<TaskRef> {
        let known = self.known(client)?;
        let task = self.errands[known].task?;
        let short = self.dice.percent(50);
        if short { TaskRef::parse(&task.short()).ok() } else { Some(TaskRef::from(task)) }
    }

    fn known_message(&mut self, client: usize) -> Option<MessageId> {
        let known = self.known(client)?;
        self.errands[known].acknowledged.first().cloned()
    }

    fn continuation(&mut self, client: usize) -> Option<Command> {
        let task = self.known_task(client)?;
        let Command::Send(mut draft) = self.new_message(client) else { return None };
        (draft.to, draft.continues, draft.timeout_ms) = (Target::Here, Some(task), None);
        Some(Command::Send(draft))
    }

    fn interruption(&mut self, client: usize) -> Command {
        let agents = &self.nodes[self.clients[client].node].agents;
        let agent = self.dice.pick(agents).clone();
        let mut draft = None;
        if self.dice.percent(60)
            && let Command::Send(mut said) = self.new_message(client)
        {
            (said.to, said.priority) = (Target::Named(agent.label()), Priority::new(10).expect("ten is one"));
            draft = Some(said);
        }
        Command::Interrupt { agent: agent.id, why: "look up".into(), draft }
    }

    /// Shares mostly for its own agent; the node refuses it for others.
    fn sharing(&mut self, client: usize) -> Command {
        let agents = &self.nodes[self.clients[client].node].agents;
        let any = self.dice.pick(agents).id;
        let agent = self.clients[client].caller.agent().filter(|_| self.dice.percent(80)).unwrap_or(any);
        let text = self.dice.percent(85).then(|| format!("step {}", self.dice.below(6)));
        Command::Share { agent, text }
    }

    fn following(&mut self, client: usize) -> Command {
        let agents = &self.nodes[self.clients[client].node].agents;
        let agent = self.dice.pick(agents).id;
        Command::Follow { agent, on: self.dice.percent(70) }
    }

    fn own_inbox(&mut self, client: usize) -> Option<Command> {
        let agents = &self.nodes[self.clients[client].node].agents;
        let agent = self.dice.pick(agents).id;
        let agent = self.clients[client].caller.agent().unwrap_or(agent);
        Some(Command::Inbox { agent, max: 3 })
    }

    /// Sends the request, and schedules a retry in case no answer comes.
    pub(super) fn try_errand(&mut self, errand: usize) {
        let this = &mut self.errands[errand];
        if this.done || this.tries >= this.tries_max {
            return;
        }
        this.tries += 1;
        let again = self.dice.within(1_000, 20_000);
        self.after(again, Event::Try(errand));
        if self.calm {
            return self.after(1, Event::Arrives(errand));
        }
        for _ in 0..self.copies() {
            let delay = self.delay();
            self.after(delay, Event::Arrives(errand));
        }
    }

    /// Returns how many copies of one packet arrive: lost, once or duplicated.
    fn copies(&mut self) -> u64 {
        match self.dice.below(20) {
            0..=2 => 0,
            3 | 4 => 2,
            _ => 1,
        }
    }

    fn delay(&mut self) -> u64 {
        if self.dice.percent(5) { self.dice.within(1_000, 60_000) } else { self.dice.within(1, 40) }
    }

    pub(super) fn errand_arrives(&mut self, errand: usize) {
        let (node, client) = (self.errands[errand].node, self.errands[errand].client);
        if !self.nodes[node].is_up() {
            return;
        }
        let ask = self.new_ask(node, Asker::Errand(errand));
        let (caller, command) = (self.clients[client].caller.clone(), self.errands[errand].command.clone());
        let fresh = Fresh { message: self.dice.bytes(), task: self.dice.bytes() };
        self.arrive(node, Input::Asked { ask, caller, command, facts: Facts::default(), fresh });
    }

    /// Whether this repeats a request that is on disk, with the same content: the
    /// node must then answer it.
    pub(super) fn is_known_repeat(&self, node: usize, input: &Input) -> bool {
        let Input::Asked { caller, command: Command::Send(draft), .. } = input else { return false };
        let Some(key) = draft.key(caller.sender().who) else { return false };
        let key = key.text();
        self.nodes[node].disk.priors.get(&key).is_some_and(|prior| prior.digest == draft.body.digest())
    }

    pub(super) fn answer_errand(&mut self, errand: usize, reply: Reply) {
        if self.calm {
            return self.after(1, Event::Answered(errand, Box::new(reply)));
        }
        for _ in 0..self.copies() {
            let delay = self.delay();
            self.after(delay, Event::Answered(errand, Box::new(reply.clone())));
        }
    }

    pub(super) fn errand_answered(&mut self, errand: usize, reply: Reply) -> Result<(), Broken> {
        let node = self.errands[errand].node;
        match reply {
            Ok(Answer::Accepted(taken)) => {
                if !self.errands[errand].done {
                    self.report.accepted += taken.len() as u64;
                    let ids: Vec<&str> = taken.iter().map(|t| t.message.as_str()).collect();
                    self.tell(|| format!("errand {errand}: accepted as {}", ids.join(" ")));
                }
                self.errands[errand].done = true;
                self.errands[errand].task = taken.first().map(|t| t.task);
                for one in taken {
                    self.same_message(errand, &one.message)?;
                    if !self.errands[errand].acknowledged.contains(&one.message) {
                        self.errands[errand].acknowledged.push(one.message);
                    }
                }
            }
            Ok(Answer::Receipt { letter, trail, .. }) => {
                self.nodes[node].checker.honest(&letter.id, letter.task, &trail)?;
            }
            Err(Refusal::NotStored { .. } | Refusal::Busy) => {}
            Err(refusal) => {
                self.report.refused += 1;
                self.tell(|| format!("errand {errand}: refused: {}", refusal.code()));
                // A full mailbox may have room later; other refusals are final.
                self.errands[errand].done |= !matches!(refusal, Refusal::MailboxFull { .. });
            }
            Ok(_) => self.errands[errand].done = true,
        }
        Ok(())
    }

    /// Checks that one key and one content stay one message, however often it is sent.
    fn same_message(&self, errand: usize, message: &MessageId) -> Result<(), Broken> {
        let this = &self.errands[errand];
        let Some((_, body)) = this.single() else { return Ok(()) };
        if let Some(before) = this.acknowledged.first().filter(|before| *before != message) {
            let what = format!("errand {errand} was told {before}, and now {message}");
            return Err(Broken::new(Rule::OneEffectPerKey, what));
        }
        let stored = self.nodes[this.node].disk.accepted.get(message);
        if stored.is_some_and(|(_, digest)| *digest != body.digest()) {
            let what = format!("errand {errand} was acknowledged with the content of another");
            return Err(Broken::new(Rule::OneEffectPerKey, what));
        }
        Ok(())
    }

    /// Checks at the end that every client that retried got an answer.
    pub(super) fn check_errands(&self) -> Result<(), Broken> {
        let forgotten = |e: &&Errand| !e.done && e.tries_max > 1 && e.tries < e.tries_max;
        match self.errands.iter().find(forgotten) {
            Some(errand) => {
                let what = format!("an errand of client {} was never answered", errand.client);
                Err(Broken::new(Rule::TheWorldComesToRest, what))
            }
            None => Ok(()),
        }
    }
}

fn key(client: usize, n: u64) -> MessageId {
    MessageId::parse(&format!("c{client}-{n}")).expect("letters, digits and a dash are an id")
}
