//! Runs a story: turns each order into an input, runs a cycle, and describes the outcome in words.
//!
//! Names in stories (`m1`, `a`) stand for ids; a message gets its name when it is accepted.
//! Not here: the stories (`scripts.rs`).

// Part of a test: a malformed story may panic.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use synapse_core::agents::Agent;
use synapse_core::cycle::{self, Journal, Turned};
use synapse_core::effect::{Draft, EndedTask, Place, Prior, Replied, Report, Serves};
use synapse_core::ids::{AskId, TaskRef, WatcherId};
use synapse_core::message::{Content, Expects, Proof};
use synapse_core::policy::{Caller, Rules};
use synapse_core::receipt::Step;
use synapse_core::record::Entry;
use synapse_core::routes::Target;
use synapse_core::state::State;
use synapse_core::watch::Topic;
use synapse_core::*;

/// Runs a story. Each line must have exactly the outcome after its `=>`.
#[track_caller]
pub(crate) fn check(story: &str) {
    let mut teller = Teller::default();
    let (mut told, mut expected) = (Vec::new(), Vec::new());
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (order, result) = line.split_once("=>").map_or((line, ""), |(o, r)| (o.trim(), r.trim()));
        let came = teller.follow(order);
        told.push(if came.is_empty() { order.to_owned() } else { format!("{order} => {came}") });
        expected.push(if result.is_empty() { order.to_owned() } else { format!("{order} => {result}") });
    }
    let (told, expected) = (told.join("\n"), expected.join("\n"));
    assert!(told == expected, "it was told:\n{expected}\n\nit happened:\n{told}\n");
    teller.compare();
}

#[derive(Default)]
struct Disk {
    entries: Vec<Arc<Entry>>,
    full: bool,
}

impl Journal for Disk {
    type Error = String;

    fn commit(&mut self, entries: &[Arc<Entry>]) -> Result<(), String> {
        if self.full {
            return Err("disk full".into());
        }
        self.entries.extend(entries.iter().cloned());
        Ok(())
    }

    fn recover(&mut self) -> Result<State, String> {
        let mut state = State::default();
        self.entries.iter().try_for_each(|e| state.apply(e)).map_err(|unfit| unfit.to_string())?;
        Ok(state)
    }
}

#[derive(Default)]
struct Teller {
    limits: Limits,
    hub: Option<Hub>,
    disk: Disk,
    now: u64,
    ids: u8,
    batch: Option<Vec<Input>>,
    agents: BTreeMap<String, AgentId>,
    links: BTreeMap<u64, AgentId>,
    messages: BTreeMap<String, (MessageId, TaskId)>,
    names: BTreeMap<MessageId, String>,
    /// The name for the answer to each request.
    asked: BTreeMap<AskId, String>,
    shows_presence: bool,
}

impl Teller {
    fn follow(&mut self, order: &str) -> String {
        let words: Vec<&str> = order.split_whitespace().collect();
        match words.as_slice() {
            ["limit", "mailbox", n] => self.limits.mailbox_max = n.parse().unwrap(),
            ["limit", "repeats", n] => self.limits.repeats_max = n.parse().unwrap(),
            ["limit", "ring", n] => self.limits.ring_events_max = n.parse().unwrap(),
            ["limit", "asking", n] => self.limits.asking_tasks_max = n.parse().unwrap(),
            ["limit", "answer", ms] => self.limits.asking_ms = ms.parse().unwrap(),
            ["show", "presence"] => self.shows_presence = true,
            ["disk", how] => self.disk.full = *how == "full",
            ["batch"] => self.batch = Some(Vec::new()),
            ["end"] => {
                let batch = self.batch.take().expect("a batch was begun");
                return self.turn(batch);
            }
            ["restart"] => return self.restart(),
            _ => {
                let input = self.input(&words);
                if let Some(batch) = &mut self.batch {
                    batch.push(input);
                } else {
                    return self.turn(vec![input]);
                }
            }
        }
        String::new()
    }

    fn input(&mut self, words: &[&str]) -> Input {
        match words {
            ["agent", name] => Input::AgentUp { agent: self.agent(name), restarted: false },
            ["link", link, agent, window, kind, rest @ ..] => {
                let serves = match *kind {
                    "hand" => Serves::UntilEnded { hears: false },
                    "terminal" => Serves::Typed,
                    "listener" => Serves::UntilEnded { hears: true },
                    kind => Serves::UntilSeen { notes: kind == "notes" },
                };
                let running = rest.iter().skip(1).map(|name| self.messages[*name].1).collect();
                let (link, agent) = (link.parse().unwrap(), self.agents[*agent]);
                self.links.insert(link, agent);
                Input::LinkOpened {
                    link: LinkId(link),
                    agent,
                    window: window.parse().unwrap(),
                    serves,
                    running,
                }
            }
            ["gate", link, held] => {
                let held = (*held != "open").then(|| (*held).to_owned());
                Input::Gate { link: LinkId(link.parse().unwrap()), held }
            }
            ["close", link] => Input::LinkClosed { link: LinkId(link.parse().unwrap()) },
            ["clock", ms] => {
                self.now += ms.parse::<u64>().unwrap();
                Input::Clock
            }
            ["rule", role, verbs @ ..] => {
                let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
                Input::Rules(Rules::with(&[((*role).to_owned(), verbs)].into()).unwrap())
            }
            ["unwatch", who] => Input::WatcherLeft { watcher: watcher(who) },
            _ => self.ask(words),
        }
    }

    fn agent(&mut self, name: &str) -> Agent {
        let id = AgentId::from_bytes([u8::try_from(self.agents.len()).unwrap() + 1; 32]);
        let id = *self.agents.entry(name.to_owned()).or_insert(id);
        let kind = AgentType::parse("exec").unwrap();
        Agent { id, kind, name: Label::parse(name).ok(), role: None, capabilities: Vec::new(), port: None }
    }

    fn ask(&mut self, words: &[&str]) -> Input {
        self.ids += 1;
        let ask = AskId(u64::from(self.ids));
        self.asked.insert(ask, words.get(1).map_or(String::new(), ToString::to_string));
        let value =
            |name: &str| words.iter().position(|w| *w == name).and_then(|at| words.get(at + 1)).copied();
        let mut caller = self.caller(value("by").unwrap_or("user"));
        let command = match words {
            ["send", ..] => Command::Send(Box::new(self.draft(words, &value))),
            ["reply", name, ..] => {
                let task = self.messages.get(*name).map(|(_, task)| TaskRef::from(*task));
                Command::Reply { task, body: Body::of(&Content::text("answer")), failed: false }
            }
            ["say", link, name, what] => {
                let link = link.parse().unwrap();
                self.asked.insert(ask, (*name).to_owned());
                caller = Caller::Hand { link: LinkId(link), agent: self.links[&link] };
                Command::Report { message: self.messages[*name].0.clone(), report: report(what) }
            }
            ["keep", name, ..] => {
                let answer = Body::of(&Content::text("answer"));
                Command::KeepAnswer { task: self.messages[*name].1.into(), answer }
            }
            ["cancel", name, ..] => {
                Command::Cancel { task: self.messages[*name].1.into(), why: "enough".into() }
            }
            ["interrupt", name, ..] => {
                let agent = self.agents[value("at").unwrap()];
                let draft = (*name != "-").then(|| {
                    let mut draft = self.draft(words, &value);
                    draft.to = Target::parse(value("at").unwrap()).unwrap();
                    Box::new(draft)
                });
                Command::Interrupt { agent, why: "look up".into(), draft }
            }
            ["share", agent, text, ..] => Command::Share {
                agent: self.agents[*agent],
                text: (*text != "-").then(|| (*text).to_owned()),
            },
            [what @ ("follow" | "unfollow"), agent, ..] => {
                Command::Follow { agent: self.agents[*agent], on: *what == "follow" }
            }
            ["place", name] => {
                self.asked.insert(ask, "where".into());
                Command::Receipt { message: self.messages[*name].0.clone() }
            }
            ["receipt", name, ..] => Command::Receipt { message: self.messages[*name].0.clone() },
            ["inbox", agent, ..] => Command::Inbox { agent: self.agents[*agent], max: 10 },
            ["watch", who, topic, ..] => {
                let topic = if *topic == "alerts" { Topic::Alerts } else { Topic::All };
                let after = value("after").map(|n| Seq(n.parse().unwrap()));
                Command::Watch { watcher: watcher(who), topic, after }
            }
            other => panic!("no such order: {other:?}"),
        };
        let fresh = Fresh { message: [self.ids; 16], task: [self.ids; 16] };
        let facts = self.facts(&caller, &command);
        Input::Asked { ask, caller, command, facts, fresh }
    }

    fn draft<'a>(&self, words: &[&str], value: &dyn Fn(&str) -> Option<&'a str>) -> Draft {
        let hops = value("hops").map(|n| n.parse().unwrap());
        Draft {
            to: value("to").map_or(Target::Here, |to| Target::parse(to).unwrap()),
            sender_id: value("key").map(|key| MessageId::parse(key).unwrap()),
            body: Body::of(&Content::text(value("text").unwrap_or("hello"))),
            priority: Priority::new(value("prio").map_or(6, |n| n.parse().unwrap())).unwrap(),
            expects: if words.contains(&"oneway") { Expects::Receipt } else { Expects::Answer },
            chain: hops.map(|hops| Chain {
                correlation: MessageId::parse("root").unwrap(),
                parent: None,
                hops,
            }),
            continues: value("continues").map(|name| self.messages[name].1.into()),
            caller_task_id: None,
            context: None,
            tenant: None,
            timeout_ms: value("timeout").map(|ms| ms.parse().unwrap()),
            sent_at: None,
            watcher: value("tells").map(watcher),
        }
    }

    fn caller(&self, who: &str) -> Caller {
        match who {
            "user" => Caller::User { proof: Proof::Socket },
            "token" => Caller::User { proof: Proof::Token },
            "stranger" => Caller::Stranger,
            name => {
                let id = self.agents.get(name).copied().unwrap_or(AgentId::from_bytes([9; 32]));
                Caller::Agent { id, label: name.into(), role: None, proof: Proof::Socket }
            }
        }
    }

    /// Looks up facts, as a driver asks its store.
    fn facts(&self, caller: &Caller, command: &Command) -> Facts {
        let mut facts = Facts::default();
        let key = match command {
            Command::Send(draft) | Command::Interrupt { draft: Some(draft), .. } => {
                draft.key(caller.sender().who).map(|key| key.text())
            }
            _ => None,
        };
        let named = match command {
            Command::Send(draft) => draft.continues.as_ref(),
            Command::Reply { task, .. } => task.as_ref(),
            Command::KeepAnswer { task, .. } | Command::Cancel { task, .. } => Some(task),
            _ => None,
        };
        for entry in &self.disk.entries {
            match &entry.record {
                Record::Accepted { letter, .. } if Some(letter.key().text()) == key => {
                    facts.prior = Some(Prior {
                        agent: letter.to,
                        message: letter.id.clone(),
                        task: letter.task,
                        digest: letter.digest,
                    });
                }
                Record::Ended { task, ending, archive } if named.is_some_and(|name| name.names(task)) => {
                    facts.ended = Some(EndedTask {
                        agent: archive.task.agent,
                        id: *task,
                        state: ending.state,
                        requester: archive.task.requester.clone(),
                        message: archive.task.messages[0].clone(),
                    });
                }
                _ => {}
            }
        }
        facts
    }

    fn turn(&mut self, batch: Vec<Input>) -> String {
        let before = self.disk.entries.len();
        let mut hub = self.hub.take().unwrap_or_else(|| Hub::new(self.limits.clone()));
        let seq = hub.state().seq;
        let turned = cycle::turn(&mut hub, Timestamp(self.now), batch, &mut self.disk).unwrap();
        assert!(turned.failed.is_none() || hub.state().seq == seq, "a failed batch left something behind");
        self.hub = Some(hub);
        self.words(before, turned)
    }

    fn restart(&mut self) -> String {
        let before = self.disk.entries.len();
        let mut hub = Hub::with_state(self.limits.clone(), self.disk.recover().unwrap());
        let turned = cycle::restart(&mut hub, Timestamp(self.now), &mut self.disk).unwrap();
        self.hub = Some(hub);
        self.words(before, turned)
    }

    /// Checks that the journal rebuilds the live state.
    fn compare(&mut self) {
        let mut states = [self.disk.recover().unwrap(), self.hub.as_ref().unwrap().state().clone()];
        for state in &mut states {
            state.mailboxes.values_mut().for_each(synapse_core::mailbox::Mailbox::wake_all);
        }
        assert_eq!(states[0], states[1], "the journal makes another state than the live one");
    }

    fn words(&mut self, before: usize, turned: Turned) -> String {
        for effect in &turned.effects {
            let Effect::Reply { ask, answer } = effect else { continue };
            match &**answer {
                Ok(Answer::Accepted(taken)) => self.name(&self.asked[ask].clone(), taken),
                Ok(Answer::Interrupted { taken: Some(taken), .. }) => {
                    self.name(&self.asked[ask].clone(), std::slice::from_ref(taken));
                }
                _ => {}
            }
        }
        let fresh = self.disk.entries[before..].to_vec();
        let mut words: Vec<String> = fresh.iter().filter_map(|entry| self.written(&entry.record)).collect();
        words.extend(turned.effects.into_iter().filter_map(|effect| self.done(effect)));
        words.join(", ")
    }

    /// Names the messages of a send: the first has the given name, the others of a broadcast
    /// get a letter after it.
    fn name(&mut self, name: &str, taken: &[synapse_core::effect::Taken]) {
        for (one, more) in taken.iter().zip(["", "b", "c"]) {
            let name = format!("{name}{more}");
            self.messages.insert(name.clone(), (one.message.clone(), one.task));
            self.names.entry(one.message.clone()).or_insert(name);
        }
    }

    fn written(&self, record: &Record) -> Option<String> {
        let task_name =
            |id: &TaskId| self.messages.iter().find(|(_, (_, task))| task == id).map(|(n, _)| n.clone());
        match record {
            Record::Returned { message, .. } => Some(format!("{} back", self.names[message])),
            Record::Moved { task, to, .. } => Some(format!("{} {}", task_name(task)?, to.to.name())),
            Record::CancelAsked { task, .. } => Some(format!("{} cancel asked", task_name(task)?)),
            Record::Ended { task, ending, archive } => {
                let dead = if archive.dead_letter { " as a dead letter" } else { "" };
                Some(format!("{} ended {}{dead}", task_name(task)?, ending.state.name()))
            }
            Record::Interrupted { task, .. } => Some(format!("{} interrupted", task_name(task)?)),
            Record::Shared { context: Some(context), .. } => Some(format!("shared {}", context.text)),
            Record::Shared { context: None, .. } => Some("shared nothing".into()),
            Record::Followed { follower, on, .. } => {
                Some(format!("{} {}", follower.label, if *on { "follows" } else { "unfollows" }))
            }
            Record::Said { task, what } if what.as_late_answer().is_some() => {
                Some(format!("{} answer kept", task_name(task)?))
            }
            Record::Tripped { .. } => Some("loop".into()),
            _ => None,
        }
    }

    fn done(&self, effect: Effect) -> Option<String> {
        match effect {
            Effect::Deliver { link, letter, tries, notes, .. } => {
                let again = if tries > 1 { format!("#{tries}") } else { String::new() };
                let notes = if notes > 0 { format!(" beside {notes} notes") } else { String::new() };
                Some(format!("{}>{}{again}{notes}", self.names[&letter.id], link.0))
            }
            Effect::Stop { link, task, .. } => {
                let (name, _) = self.messages.iter().find(|(_, (_, id))| *id == task)?;
                Some(format!("stop {name} at {}", link.0))
            }
            Effect::Urge { link, .. } => Some(format!("urge {}", link.0)),
            Effect::Interrupt { link, task, .. } => {
                let (name, _) = self.messages.iter().find(|(_, (_, id))| *id == task)?;
                Some(format!("tell {name} at {}", link.0))
            }
            Effect::Notify { watcher, entry } => Some(format!("w{} saw {}", watcher.0, entry.record.name())),
            Effect::Presence { agent, presence } if self.shows_presence => {
                let (name, _) = self.agents.iter().find(|(_, id)| **id == agent)?;
                Some(format!("{name} is {}", presence.state.name()))
            }
            Effect::Presence { .. } | Effect::Context { .. } => None,
            Effect::Reply { ask, answer } => Some(match *answer {
                Ok(answer) => self.answer(&self.asked[&ask], answer),
                Err(refusal) => format!("refused {}", refusal.code()),
            }),
        }
    }

    fn answer(&self, name: &str, answer: Answer) -> String {
        let names = |letters: &[(std::sync::Arc<Letter>, _)]| -> String {
            letters.iter().map(|(letter, _)| format!(" {}", self.names[&letter.id])).collect()
        };
        match answer {
            Answer::Accepted(taken) => {
                let told =
                    taken.iter().zip(["", "b", "c"]).map(|(one, more)| match (one.duplicate, one.ahead) {
                        (true, _) => format!("{name}{more} again"),
                        (false, 0) => format!("{name}{more} accepted"),
                        (false, ahead) => format!("{name}{more} accepted, {ahead} ahead"),
                    });
                told.collect::<Vec<_>>().join(", ")
            }
            Answer::Replied(Replied::Completed { task }) => {
                let (name, _) = self.messages.iter().find(|(_, (_, id))| *id == task).unwrap();
                format!("replied {name}")
            }
            Answer::Replied(Replied::Send { to, .. }) => format!("send on to {}", to.label),
            Answer::Interrupted { tasks, taken } => {
                let again = if taken.is_some_and(|taken| taken.duplicate) { ", again" } else { "" };
                format!("{} interrupted{again}", tasks.len())
            }
            Answer::Shared { followers, .. } => {
                let who: Vec<&str> = followers.iter().map(|follower| follower.label.as_str()).collect();
                format!("followed by [{}]", who.join(" "))
            }
            Answer::Receipt { place, .. } if name == "where" => match place {
                Place::Waiting { ahead, tries } => format!("waits behind {ahead}, tried {tries}"),
                Place::Resting { until, tries } => format!("rests until {}, tried {tries}", until.0),
                Place::Leased { until, tries } => format!("leased until {}, try {tries}", until.0),
                Place::Handed => "with its agent".into(),
            },
            Answer::Receipt { trail, .. } => format!("{name} reached {}", trail.reached().unwrap().name()),
            Answer::Inbox(view) => {
                format!("{} waiting, {} notes:{}", view.waiting, view.notes, names(&view.letters))
            }
            Answer::Following { missed, .. } if missed.is_empty() => "following".into(),
            Answer::Following { missed, .. } => {
                let missed: Vec<&str> = missed.iter().map(|entry| entry.record.name()).collect();
                format!("following, missed {}", missed.join(" "))
            }
            Answer::Behind(behind) => format!("behind {}", behind.oldest_in_memory.0),
            _ => "ok".into(),
        }
    }
}

fn watcher(name: &str) -> WatcherId {
    WatcherId(name[1..].parse().unwrap())
}

fn report(what: &str) -> Report {
    let done = |state: TaskState| Report::Done {
        answer: (state == TaskState::Completed).then(|| Body::of(&Content::text("done"))),
        state,
        why: "so it went".into(),
    };
    match what {
        "working" => Report::Working,
        "writing" => Report::Writing,
        "missed" => Report::NotSubmitted { why: "a dialog".into(), rest_ms: 60_000 },
        "held" => Report::Held { why: "a draft".into() },
        "unsure" => Report::Unsure { why: "who knows".into() },
        "refused" => Report::Refused { why: "not now".into() },
        "asks" => Report::NeedsInput { prompt: Body::of(&Content::text("which?")), auth: false },
        "may-i" => Report::NeedsInput { prompt: Body::of(&Content::text("may I?")), auth: true },
        other => match Step::parse(other) {
            Some(step) => Report::Step(step),
            None => done(TaskState::parse(other).unwrap()),
        },
    }
}
