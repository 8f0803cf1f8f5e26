//! Why nothing comes back, and what helps (CLI-11). Pure: what is known in, one sentence and one command out.
//!
//! Not here: finding out what is known (`facts`), and showing all of it (`explain`).

use super::facts::{AgentFacts, NodeFacts};
use super::pending::Pending;
use crate::agents::SANDBOX_HELP;
use crate::show;
use serde::Serialize;
use synapse_core::settings::Limits;
use synapse_dialects::api::{ReceiptView, TaskView};
use synapse_dialects::time;

/// One reason; the code is stable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Reason {
    pub code: &'static str,
    pub because: String,
    pub help: String,
    /// What has to be decided first.
    #[serde(flatten)]
    pub pending: Option<Pending>,
}

impl Reason {
    fn new(code: &'static str, because: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code, because: because.into(), help: help.into(), pending: None }
    }

    /// Both in one line.
    pub(super) fn line(&self) -> String {
        if self.help.is_empty() { self.because.clone() } else { format!("{}; {}", self.because, self.help) }
    }
}

/// How long ago a time of the wire was.
pub(super) fn ago(at: &str, now: u64) -> String {
    time::read("at", at).map_or_else(|_| "?".to_owned(), |at| show::ago(now.saturating_sub(at.0)))
}

/// How long it is until a time of the wire.
fn in_time(at: &str, now: u64) -> String {
    time::read("at", at).map_or_else(|_| "?".to_owned(), |at| show::ago(at.0.saturating_sub(now)))
}

/// What an agent waits for, or why it does nothing.
pub(super) fn of_agent(facts: &AgentFacts, now: u64) -> Reason {
    let label = &facts.label;
    if !facts.held {
        let mail = match facts.spooled {
            0 => String::new(),
            n => format!("; new messages waiting for it: {n}"),
        };
        let again = format!("`synapse start {label}`, or start the program that joined; mail for it is kept");
        return match &facts.ended {
            // The program exited by itself; the log may hold more than its last output.
            Some(ended) => Reason::new(
                "not_running",
                format!(
                    "{label} is not running: its program ended {} ago with {}{mail}",
                    show::ago(now.saturating_sub(ended.at_ms)),
                    show::cell(&ended.why, 160)
                ),
                format!("`synapse logs {label}` shows its log; {again}"),
            ),
            None => Reason::new("not_running", format!("{label} is not running{mail}"), again),
        };
    }
    match (&facts.node, facts.stopped) {
        (Ok(node), _) => of_node(label, node, now),
        (Err(why), Some(pid)) => Reason::new(
            "no_answer",
            format!("{label} is not responding: {why}"),
            format!("`kill -CONT {pid}` resumes it; mail for it is kept"),
        ),
        (Err(why), None) if facts.unasked.is_some() => Reason::new(
            "sandbox",
            format!("{label} cannot be asked from this sandbox ({why})"),
            format!("`synapse list` shows what it said last; {SANDBOX_HELP}"),
        ),
        (Err(why), None) => Reason::new(
            "no_answer",
            format!("{label} is not responding: {why}"),
            format!("`synapse logs {label}` may tell why; mail for it is kept"),
        ),
    }
}

fn of_node(label: &str, node: &NodeFacts, now: u64) -> Reason {
    let status = &node.status;
    let since = ago(&status.since, now);
    // A prompt is decided, and not answered by a message to the task that it stops.
    if let Some(prompt) = &node.prompt {
        let pending = Pending::of_view(label, prompt);
        let because = format!("{label} {}; it has waited for {}", pending.asks(160), ago(&prompt.since, now));
        let help = pending.commands();
        return Reason { pending: Some(pending), ..Reason::new("approval", because, help) };
    }
    let asks = node.tasks.iter().find(|task| task.state == "input-required" || task.state == "auth-required");
    if let Some(task) = asks {
        let since = task.history.last().map_or_else(String::new, |to| format!(" for {}", ago(&to.at, now)));
        return Reason::new(
            "asks",
            format!("{label} has been waiting{since} for an answer to what task {} asked", task.short_id),
            format!("`synapse send {label} '…' --task {}`", task.short_id),
        );
    }
    if let Some(untyped) = node.terminal.as_ref().and_then(|terminal| terminal.untyped.as_ref()) {
        return of_untyped(label, node, untyped);
    }
    let why = show::cell(&status.why, 60);
    let first = node.tasks.iter().find(|task| task.state == "working");
    let task = first.map_or_else(|| "<TASK>".to_owned(), |task| task.short_id.clone());
    match status.state.as_str() {
        "waiting" => Reason::new(
            "approval",
            format!("{label} has been waiting for an approval for {since} ({why})"),
            format!(
                "`synapse approve {label}` or `synapse deny {label}`, after a look with `synapse inbox --approvals`"
            ),
        ),
        "busy" if let Some(sign) = node.terminal.as_ref().and_then(|it| it.wedged_since.as_ref()) => {
            let sign = ago(sign, now);
            Reason::new(
                "wedged",
                format!("{label} says that it works, but nothing has come from it for {sign} ({why})"),
                format!("look with `synapse screen {label}`; `synapse interrupt {label}` stops its turn"),
            )
        }
        "busy" => Reason::new(
            "busy",
            format!("{label} has been busy for {since} ({why})"),
            format!("wait with `synapse wait {label}`, or `synapse cancel {task}`"),
        ),
        "starting" => {
            Reason::new("starting", format!("{label} has been starting for {since}"), "wait a moment")
        }
        "offline" => Reason::new(
            "offline",
            format!("no program takes the messages of {label} for {since}"),
            format!("start its program: `synapse join --name {label}`"),
        ),
        "unknown" if held(node).is_some() => {
            of_held(label, node, &format!("the state of {label} is unknown"))
        }
        "error" | "maintenance" | "unknown" => Reason::new(
            "error",
            format!("{label} is in state {} for {since} ({why})", status.state),
            format!("`synapse logs {label}` tells more"),
        ),
        _ => of_idle(label, node, &since, now),
    }
}

/// Its mail stays in its mailbox.
fn of_untyped(label: &str, node: &NodeFacts, untyped: &str) -> Reason {
    let mail = node.inbox.waiting.saturating_sub(node.inbox.notes) + node.inbox.leased;
    let waits = match mail {
        0 => String::new(),
        1 => ", and 1 message waits".to_owned(),
        n => format!(", and {n} messages wait"),
    };
    let because = format!("mail for {label} {}{waits}", show::cell(untyped, 160));
    Reason::new("no_profile", because, format!("the agent reads it with `synapse inbox {label}`"))
}

fn of_idle(label: &str, node: &NodeFacts, since: &str, now: u64) -> Reason {
    if let Some(paused) = node.terminal.as_ref().and_then(|terminal| terminal.paused.as_ref()) {
        let said = paused.said.as_deref().or(paused.until.as_deref());
        let until = said.map_or_else(String::new, |said| format!(" until {}", show::cell(said, 60)));
        return Reason::new(
            "paused",
            format!("{label} is paused{until}: its {} is reached", show::cell(&paused.limit, 40)),
            format!("mail waits until then; `synapse attach {label}` if you know better"),
        );
    }
    if let Some(task) = node.tasks.iter().find(|task| task.state == "working") {
        let begun = task.history.last().map_or_else(String::new, |to| format!(" {} ago", ago(&to.at, now)));
        return Reason::new(
            "silent",
            format!("{label} took task {}{begun} and has not answered", task.short_id),
            format!("`synapse interrupt {label} '…'` asks it, `synapse cancel {}` ends it", task.short_id),
        );
    }
    if node.inbox.waiting.saturating_sub(node.inbox.notes) + node.inbox.leased > 0 {
        return of_held(label, node, &format!("{label} is idle"));
    }
    match node.inbox.notes {
        0 => Reason::new("idle", format!("{label} has been idle for {since}, and nothing waits for it"), ""),
        notes => Reason::new(
            "idle",
            format!("{label} has been idle for {since}; notes that it has not read: {notes}"),
            format!("`synapse inbox {label}` shows them"),
        ),
    }
}

/// Mail waits, or is on its way.
fn of_held(label: &str, node: &NodeFacts, state: &str) -> Reason {
    let mail = node.inbox.waiting.saturating_sub(node.inbox.notes) + node.inbox.leased;
    let (what, why) = match held(node) {
        Some(why) => {
            (if mail == 1 { "message waits" } else { "messages wait" }, format!(": {}", show::cell(why, 80)))
        }
        None => {
            (if mail == 1 { "message is on its way" } else { "messages are on their way" }, String::new())
        }
    };
    Reason::new(
        "mail",
        format!("{state}, and {mail} {what}{why}"),
        format!("`synapse inbox {label}` shows them"),
    )
}

/// Why mail is not typed now.
fn held(node: &NodeFacts) -> Option<&str> {
    node.inbox.messages.iter().find_map(|message| message.held.as_deref())
}

/// Why a task is not done.
pub(super) fn of_task(
    facts: &AgentFacts,
    task: &TaskView,
    receipt: Option<&ReceiptView>,
    now: u64,
) -> Reason {
    let (label, short) = (&facts.label, &task.short_id);
    if let "completed" | "failed" | "canceled" | "rejected" = task.state.as_str() {
        let end = task.history.last();
        let why = end.map_or_else(String::new, |end| format!(": {}", show::cell(&end.why, 120)));
        let help = if task.state == "completed" { "" } else { "send it again if it is still wanted" };
        return Reason::new("ended", format!("task {short} is {}{why}", task.state), help);
    }
    if !facts.held || facts.node.is_err() {
        return of_agent(facts, now);
    }
    if task.canceling {
        let help = format!("`synapse kill {label}` ends the agent if that does not help");
        return Reason::new("canceling", format!("task {short} is being stopped"), help);
    }
    let place = receipt.and_then(|receipt| receipt.place.as_ref());
    match (task.state.as_str(), place.map(|place| place.place.as_str())) {
        ("input-required" | "auth-required", _) => of_agent(facts, now),
        (_, Some("waiting")) => of_waiting(facts, receipt, now),
        (_, Some("resting")) => {
            let place = place.expect("it was looked at just now");
            let until = place.until.as_deref().map_or_else(String::new, |at| in_time(at, now));
            let last = last_return(receipt);
            Reason::new(
                "resting",
                format!(
                    "it was not taken{last}; try {} of {} is in {until}",
                    place.tries + 1,
                    Limits::default().tries_max
                ),
                format!("`synapse logs {label}` may tell why"),
            )
        }
        (_, Some("leased")) => {
            let until = place
                .and_then(|place| place.until.as_deref())
                .map_or_else(String::new, |at| in_time(at, now));
            Reason::new(
                "leased",
                format!(
                    "it was handed to {label}, which has not said that it has it; it goes back in {until}"
                ),
                "",
            )
        }
        _ => of_begun(facts, task, now),
    }
}

fn of_waiting(facts: &AgentFacts, receipt: Option<&ReceiptView>, now: u64) -> Reason {
    let ahead = receipt.and_then(|receipt| receipt.place.as_ref()?.ahead).unwrap_or(0);
    let agent = of_agent(facts, now);
    let queue = match ahead {
        0 => "it is next in the mailbox".to_owned(),
        1 => "it waits behind 1 other message".to_owned(),
        n => format!("it waits behind {n} other messages"),
    };
    if agent.code == "idle" || agent.code == "mail" {
        let label = &facts.label;
        if is_note(facts, receipt) {
            // Nothing stands in its way but its kind: command agents are not started for notes.
            let help = format!("`synapse inbox {label}` shows it");
            return Reason::new(
                "note",
                format!("{queue}; notes are read when the agent looks for them"),
                help,
            );
        }
        return match receipt.and_then(|receipt| receipt.held.as_deref()) {
            Some(why) => Reason::new(
                "held",
                format!("{queue}, and {label} takes no message now: {}", show::cell(why, 80)),
                format!("`synapse attach {label}` shows its terminal"),
            ),
            None => Reason::new("queued", format!("{queue}, and {label} is about to take it"), ""),
        };
    }
    if agent.code == "no_profile" {
        return agent;
    }
    let because = format!("{queue}, and {}", agent.because);
    Reason { pending: agent.pending, ..Reason::new("queued", because, agent.help) }
}

/// Whether a message that waits is a note. Of one that is not among the first that wait, only the count tells.
fn is_note(facts: &AgentFacts, receipt: Option<&ReceiptView>) -> bool {
    let (Ok(node), Some(receipt)) = (&facts.node, receipt) else { return false };
    let inbox = &node.inbox;
    match inbox.messages.iter().find(|message| message.message_id == receipt.message_id) {
        Some(message) => message.priority <= super::inbox::NOTE_MAX,
        None => inbox.notes > 0 && inbox.notes == inbox.waiting,
    }
}

fn of_begun(facts: &AgentFacts, task: &TaskView, now: u64) -> Reason {
    let (label, short) = (&facts.label, &task.short_id);
    let since = task.history.last().map_or_else(String::new, |to| format!(" for {}", ago(&to.at, now)));
    let oneway =
        if task.response_expected { "" } else { "; it was sent one way, so no answer will come back" };
    Reason::new(
        "working",
        format!("{label} has worked on task {short}{since}{oneway}"),
        format!("`synapse logs {label} --task {short} -f` follows it, `synapse cancel {short}` stops it"),
    )
}

fn last_return(receipt: Option<&ReceiptView>) -> String {
    let marks = receipt.map_or(&[][..], |receipt| receipt.trail.as_slice());
    let back = marks.iter().rev().find(|mark| mark.what == "returned");
    back.and_then(|mark| mark.why.as_deref())
        .map_or_else(String::new, |why| format!(" ({})", show::cell(why, 80)))
}

/// Idle, and with nothing that it took or is about to be handed (CLI-9, `wait --until idle`).
pub(super) fn is_idle(node: &NodeFacts) -> bool {
    let mail = node.inbox.waiting.saturating_sub(node.inbox.notes) + node.inbox.leased;
    let at_work = node.tasks.iter().any(|task| task.state != "submitted");
    node.status.state == "idle" && mail == 0 && !at_work
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use synapse_core::ids::AgentId;
    use synapse_store::ended::Ended;

    const NOW: u64 = 1_794_735_300_000;
    const SINCE: &str = "2026-11-15T09:30:00.000Z";

    fn facts(held: bool, node: Result<NodeFacts, &str>) -> AgentFacts {
        AgentFacts {
            id: AgentId::from_bytes([1; 32]),
            label: "ana".into(),
            ended: None,
            entry: None,
            port_open: None,
            held,
            stopped: None,
            unasked: None,
            spooled: 2,
            node: node.map_err(str::to_owned),
        }
    }

    fn node(state: &str, waiting: usize, notes: usize, tasks: &[Value]) -> NodeFacts {
        let status = json!({
            "agentName": "ana", "status": "busy", "state": state, "why": "task 0123abcd", "since": SINCE,
            "agentId": "a", "agentType": "claude", "waiting": waiting, "version": "0",
        });
        let inbox =
            json!({ "agent_id": "a", "waiting": waiting, "notes": notes, "leased": 0, "messages": [] });
        NodeFacts {
            status: serde_json::from_value(status).unwrap(),
            inbox: serde_json::from_value(inbox).unwrap(),
            tasks: tasks.iter().map(|task| serde_json::from_value(task.clone()).unwrap()).collect(),
            shared: None,
            terminal: None,
            prompt: None,
        }
    }

    fn task(state: &str) -> Value {
        let sender = json!({ "sender_id": "user", "label": "user", "by_user": false, "proof": "socket" });
        json!({
            "task_id": "0123abcd", "short_id": "0123abcd", "agent_id": "a", "requester": sender, "state": state,
            "response_expected": true, "messages": ["m"], "canceling": false,
            "history": [{ "at": SINCE, "to": state, "by": "ana", "why": "so it went" }],
        })
    }

    fn receipt(place: Value) -> ReceiptView {
        let trail = json!([{ "at": SINCE, "what": "returned", "why": "its lease ran out" }]);
        let view = json!({
            "message_id": "m", "task_id": "t", "reached": "stored", "trail": trail, "place": place,
            "held": "its person has a draft",
        });
        serde_json::from_value(view).unwrap()
    }

    /// CLI-11: each cause by its name, and the words that a person reads.
    #[test]
    fn why_an_agent_does_nothing() {
        let ended = Ended { failed: true, why: "exit code 1: no key".into(), at_ms: NOW - 300_000 };
        let cases = [
            (facts(false, Err("")), "not_running", "waiting for it: 2"),
            (
                AgentFacts { ended: Some(ended), ..facts(false, Err("")) },
                "not_running",
                "its program ended 5 min ago with exit code 1: no key",
            ),
            (facts(true, Err("no such socket")), "no_answer", "no such socket"),
            (
                facts(true, Ok(node("busy", 0, 0, &[task("working")]))),
                "busy",
                "busy for 5 min (task 0123abcd)",
            ),
            (
                facts(true, Ok(node("idle", 0, 0, &[task("input-required")]))),
                "asks",
                "has been waiting for 5 min",
            ),
            (facts(true, Ok(node("waiting", 0, 0, &[]))), "approval", "an approval for 5 min"),
            (facts(true, Ok(node("offline", 3, 0, &[]))), "offline", "no program takes"),
            (facts(true, Ok(node("error", 0, 0, &[]))), "error", "in state error"),
            (facts(true, Ok(node("starting", 0, 0, &[]))), "starting", "starting for"),
            (facts(true, Ok(node("idle", 0, 0, &[task("working")]))), "silent", "has not answered"),
            (facts(true, Ok(node("idle", 3, 1, &[]))), "mail", "2 messages are on their way"),
            (facts(true, Ok(node("idle", 0, 0, &[]))), "idle", "nothing waits"),
            (facts(true, Ok(node("idle", 1, 1, &[]))), "idle", "notes that it has not read: 1"),
        ];
        for (facts, code, words) in cases {
            let reason = of_agent(&facts, NOW);
            assert!(reason.code == code && reason.because.contains(words), "{code}: {reason:?}");
        }
    }

    #[test]
    fn silence_of_a_sandbox_is_not_blamed_on_the_agent() {
        let unasked = Some("read-only file system".to_owned());
        let reason = of_agent(&AgentFacts { unasked, ..facts(true, Err("read-only file system")) }, NOW);
        assert_eq!(reason.code, "sandbox");
        assert_eq!(reason.because, "ana cannot be asked from this sandbox (read-only file system)");
        assert!(reason.help.contains("write to the agent's working folder"), "{reason:?}");
    }

    #[test]
    fn why_a_task_is_not_done() {
        let busy = || node("busy", 2, 0, &[]);
        let until = "2026-11-15T09:35:10.000Z";
        let check = |facts: AgentFacts, task: Value, place: Value, code: &str, words: &str| {
            let reason = of_task(&facts, &serde_json::from_value(task).unwrap(), Some(&receipt(place)), NOW);
            assert!(reason.code == code && reason.because.contains(words), "{code}: {reason:?}");
        };
        let handed = || json!({ "place": "handed", "tries": 1 });
        check(facts(true, Ok(busy())), task("failed"), Value::Null, "ended", "is failed: so it went");
        check(facts(false, Err("")), task("submitted"), handed(), "not_running", "not running");
        let queued = json!({ "place": "waiting", "ahead": 2, "tries": 0 });
        check(
            facts(true, Ok(busy())),
            task("submitted"),
            queued.clone(),
            "queued",
            "2 other messages, and ana has been busy",
        );
        check(facts(true, Ok(node("idle", 1, 1, &[]))), task("submitted"), queued, "note", "notes are read");
        let held = json!({ "place": "waiting", "ahead": 0, "tries": 0 });
        check(
            facts(true, Ok(node("idle", 1, 0, &[]))),
            task("submitted"),
            held,
            "held",
            "ana takes no message now: its person has a draft",
        );
        let resting = json!({ "place": "resting", "until": until, "tries": 1 });
        check(
            facts(true, Ok(busy())),
            task("submitted"),
            resting,
            "resting",
            "(its lease ran out); try 2 of 3 is in 10 s",
        );
        let leased = json!({ "place": "leased", "until": until, "tries": 1 });
        check(facts(true, Ok(busy())), task("submitted"), leased, "leased", "goes back in 10 s");
        check(
            facts(true, Ok(busy())),
            task("working"),
            handed(),
            "working",
            "has worked on task 0123abcd for 5 min",
        );
        let mut oneway = task("working");
        oneway["response_expected"] = false.into();
        check(facts(true, Ok(busy())), oneway, handed(), "working", "sent one way");
        let mut canceling = task("working");
        canceling["canceling"] = true.into();
        check(facts(true, Ok(busy())), canceling, handed(), "canceling", "being stopped");
    }

    #[test]
    fn idle_is_without_work_and_without_mail() {
        assert!(is_idle(&node("idle", 0, 0, &[])));
        assert!(is_idle(&node("idle", 1, 1, &[task("submitted")])), "a note is no work");
        assert!(!is_idle(&node("idle", 1, 0, &[task("submitted")])));
        assert!(!is_idle(&node("idle", 0, 0, &[task("working")])));
        assert!(!is_idle(&node("busy", 0, 0, &[])));
    }
}
