//! What a watch makes of what it sees: poke now, later, or not at all, and why. Pure.
//!
//! Only an agent is poked that is idle by evidence, has been so for long enough, and has nothing else to wait for. One that works,
//! starts, has ended or is not understood is left alone; one that waits for a person, is paused or is wedged is told of.

use crate::cli::facts::AgentFacts;
use serde::Serialize;
use synapse_dialects::time;

/// What is seen at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// Its node answers.
    pub answers: bool,
    pub state: String,
    /// The state is what something shows, and not what we conclude from silence or from what was typed.
    pub is_shown: bool,
    /// How long it has been in that state.
    pub for_ms: u64,
    /// One of its tasks asked for something.
    pub asks: bool,
    /// A task that it took and has not answered.
    pub unfinished: Option<String>,
    /// Messages that it has not been given yet.
    pub mail: usize,
    /// Its usage limit is reached; until when, as it says.
    pub paused: Option<Option<String>>,
    /// It says that it works, and nothing has come from it for so long.
    pub wedged_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "seen", rename_all = "snake_case")]
pub(super) enum Judged {
    Poke {
        /// The task that it left half done; none if it is only silent.
        #[serde(skip_serializing_if = "Option::is_none")]
        unfinished: Option<String>,
    },
    /// It has not been idle for long enough.
    NotYet {
        ms: u64,
    },
    Left {
        why: &'static str,
    },
    /// A person has to decide.
    Waiting,
    Paused {
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<String>,
    },
    Wedged {
        silent_ms: u64,
    },
}

impl Judged {
    /// What a person has to know of, in words; nothing for what takes care of itself.
    pub(super) fn alert(&self, agent: &str) -> Option<String> {
        match self {
            Self::Poke { .. } | Self::NotYet { .. } | Self::Left { .. } => None,
            Self::Waiting => {
                Some(format!("{agent} waits for you: `synapse inbox --approvals` shows what for"))
            }
            Self::Paused { until } => {
                let until = until.as_ref().map_or_else(String::new, |until| format!(" until {until}"));
                Some(format!("{agent} is paused{until}: its usage limit is reached; it is not poked"))
            }
            Self::Wedged { silent_ms } => Some(format!(
                "{agent} is wedged: it says that it works, but nothing has come from it for {}; look with `synapse screen \
                 {agent}`, and stop its turn with `synapse interrupt {agent}`",
                crate::show::ago(*silent_ms)
            )),
        }
    }

    /// What a list shows.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Poke { .. } => "idle",
            Self::NotYet { .. } => "quiet",
            Self::Left { why } => why,
            Self::Waiting => "waits for a person",
            Self::Paused { .. } => "paused",
            Self::Wedged { .. } => "wedged",
        }
    }
}

impl Sight {
    pub(super) fn of(known: &AgentFacts, now: u64) -> Self {
        let Ok(node) = &known.node else { return Self::default() };
        let terminal = node.terminal.as_ref();
        let (state, since) = match terminal {
            Some(terminal) => (&terminal.state, &terminal.since),
            None => (&node.status.state, &node.status.since),
        };
        let ago = |at: &str| time::read("at", at).map_or(0, |at| now.saturating_sub(at.0));
        let asks = |task: &str| task == "input-required" || task == "auth-required";
        let paused = terminal.and_then(|terminal| terminal.paused.as_ref());
        let unfinished = node.tasks.iter().find(|task| task.state == "working");
        Self {
            answers: true,
            state: state.clone(),
            is_shown: terminal
                .is_none_or(|terminal| !matches!(terminal.source.as_str(), "silence" | "typed")),
            for_ms: ago(since),
            asks: node.tasks.iter().any(|task| asks(&task.state)),
            unfinished: unfinished.map(|task| task.short_id.clone()),
            mail: node.inbox.waiting.saturating_sub(node.inbox.notes) + node.inbox.leased + known.spooled,
            paused: paused.map(|paused| paused.said.clone().or_else(|| paused.until.clone())),
            wedged_ms: terminal.and_then(|terminal| terminal.wedged_since.as_deref()).map(ago),
        }
    }
}

/// What to do about it, if it is to be poked after so long.
pub(super) fn judge(sight: &Sight, idle_ms: u64) -> Judged {
    let left = |why| Judged::Left { why };
    if !sight.answers {
        return left("its node does not answer");
    }
    match (sight.state.as_str(), &sight.paused, sight.wedged_ms) {
        ("waiting", ..) => Judged::Waiting,
        (_, Some(until), _) => Judged::Paused { until: until.clone() },
        ("busy", _, Some(silent_ms)) => Judged::Wedged { silent_ms },
        ("busy", ..) => left("it is busy"),
        ("starting", ..) => left("it is starting"),
        ("offline" | "error", ..) => left("its program has ended"),
        ("idle", ..) if !sight.is_shown => left("nothing shows that it is idle"),
        ("idle", ..) if sight.asks => left("it waits for an answer"),
        ("idle", ..) if sight.mail > 0 => left("mail waits for it"),
        ("idle", ..) if sight.for_ms < idle_ms => Judged::NotYet { ms: idle_ms - sight.for_ms },
        ("idle", ..) => Judged::Poke { unfinished: sight.unfinished.clone() },
        _ => left("it is not known what it does"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE_MS: u64 = 300_000;

    /// One that is idle, for long enough.
    fn idle() -> Sight {
        Sight { answers: true, state: "idle".into(), is_shown: true, for_ms: IDLE_MS, ..Sight::default() }
    }

    fn in_state(state: &str) -> Sight {
        Sight { state: state.into(), ..idle() }
    }

    // tidy: table
    #[test]
    fn who_is_poked_and_who_is_not() {
        let task = || Some("1a2b3c4d".to_owned());
        let until = || Some("5pm".to_owned());
        let left = |why| Judged::Left { why };
        let table = [
            ("idle and silent", idle(), Judged::Poke { unfinished: None }),
            ("half done", Sight { unfinished: task(), ..idle() }, Judged::Poke { unfinished: task() }),
            ("just idle", Sight { for_ms: 1_000, ..idle() }, Judged::NotYet { ms: 299_000 }),
            (
                "just idle, half done",
                Sight { for_ms: 0, unfinished: task(), ..idle() },
                Judged::NotYet { ms: IDLE_MS },
            ),
            ("a guess", Sight { is_shown: false, ..idle() }, left("nothing shows that it is idle")),
            ("unknown", in_state("unknown"), left("it is not known what it does")),
            ("maintenance", in_state("maintenance"), left("it is not known what it does")),
            ("busy", in_state("busy"), left("it is busy")),
            ("busy, half done", Sight { unfinished: task(), ..in_state("busy") }, left("it is busy")),
            ("starting", in_state("starting"), left("it is starting")),
            ("ended", in_state("offline"), left("its program has ended")),
            ("failed", in_state("error"), left("its program has ended")),
            ("waiting", in_state("waiting"), Judged::Waiting),
            ("waiting for a limit", Sight { paused: Some(until()), ..in_state("waiting") }, Judged::Waiting),
            ("asks", Sight { asks: true, ..idle() }, left("it waits for an answer")),
            ("has mail", Sight { mail: 1, ..idle() }, left("mail waits for it")),
            ("paused", Sight { paused: Some(until()), ..idle() }, Judged::Paused { until: until() }),
            (
                "paused with mail",
                Sight { paused: Some(None), mail: 3, ..idle() },
                Judged::Paused { until: None },
            ),
            (
                "wedged",
                Sight { wedged_ms: Some(700_000), ..in_state("busy") },
                Judged::Wedged { silent_ms: 700_000 },
            ),
            ("no node", Sight::default(), left("its node does not answer")),
        ];
        for (name, sight, judged) in table {
            assert_eq!(judge(&sight, IDLE_MS), judged, "{name}");
        }
    }

    #[test]
    fn a_person_is_told_what_only_a_person_can_mend() {
        let told = |judged: Judged| judged.alert("ana").unwrap_or_default();
        assert!(told(Judged::Waiting).contains("synapse inbox --approvals"));
        assert_eq!(
            told(Judged::Paused { until: Some("5pm".into()) }),
            "ana is paused until 5pm: its usage limit is reached; it is not poked"
        );
        assert!(told(Judged::Wedged { silent_ms: 720_000 }).contains("synapse interrupt ana"));
        for quiet in
            [Judged::Poke { unfinished: None }, Judged::NotYet { ms: 1 }, Judged::Left { why: "it is busy" }]
        {
            assert_eq!(quiet.alert("ana"), None);
        }
    }
}
