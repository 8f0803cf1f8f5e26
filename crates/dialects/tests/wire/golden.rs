//! Every shape that we send, as a golden file: a change of the wire is a diff in `tests/golden`.
//!
//! Not here: requests (`message_in`), that nothing is lost on the way (`round_trips`).

use crate::samples::{T0, agent, content, letter, sender, task, trail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use synapse_core::Refusal;
use synapse_core::agents::{AgentState, Presence};
use synapse_core::effect::{Interruption, Place, Report, Taken};
use synapse_core::ids::{AgentId, LinkId, MessageId, Seq, Timestamp};
use synapse_core::message::{Body, Content, Proof};
use synapse_core::receipt::{Happened, Step};
use synapse_core::record::{Archive, Entry, Opens, Record, Said};
use synapse_core::routes::Choice;
use synapse_core::task::{CancelAsked, Ending, Move, TaskState};
use synapse_dialects::api::{
    AgentView, AnswerView, InboxPage, MarkView, MessageView, MoveView, PlaceView, ReceiptView, ReplyAnswer,
    TaskView,
};
use synapse_dialects::error::{ErrorBody, retry_after_s, status};
use synapse_dialects::event::EventView;
use synapse_dialects::history::{
    AgentRecord, ArtifactRecord, ConversationMessage, ConversationView, EndedRecord, HistoryLine,
    HistoryRecord, MessageRecord, Outcome, SearchHit, SearchView,
};
use synapse_dialects::jsonl::{self, Line, ToProgram};
use synapse_dialects::message::MessageAccepted;
use synapse_dialects::share::{InterruptAnswer, InterruptedTask, NotTold, SharedView};
use synapse_dialects::status::StatusView;
use synapse_testkit::golden;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[track_caller]
fn check(name: &str, view: impl serde::Serialize) {
    golden::check_json(&file(&format!("{name}.json")), &serde_json::to_value(view).unwrap());
}

#[test]
fn golden_message_accepted() {
    let letter = letter();
    let taken = Taken { message: letter.id, task: letter.task, agent: letter.to, duplicate: false, ahead: 2 };
    check("message_accepted", MessageAccepted::stored(&taken, Seq(42)));
    let again = Taken { duplicate: true, ahead: 0, ..taken.clone() };
    check("message_accepted_again", MessageAccepted::stored(&again, Seq(42)));
    let (id, agent) = (taken.message.to_string(), taken.agent.to_string());
    check("message_accepted_spooled", MessageAccepted::spooled(id, agent, Some("not running".into())));
}

#[test]
fn golden_task_open() {
    check("task_open", TaskView::new(&task(TaskState::InputRequired), None));
    let mut canceling = task(TaskState::Working);
    canceling.cancel = Some(CancelAsked { by: "user".into(), why: "changed my mind".into() });
    check("task_canceling", TaskView::new(&canceling, None));
}

#[test]
fn golden_task_ended() {
    let ending = Ending {
        state: TaskState::Completed,
        by: "ana".into(),
        why: "replied".into(),
        answer: Some(Body::of(&content())),
        direct: false,
    };
    let mut view = TaskView::new(&task(TaskState::Completed), Some(&ending));
    view.artifacts =
        vec![json!({ "artifact_id": "report", "content": AnswerView::of(&Body::of(&content())).content })];
    check("task_ended", view);
}

#[test]
fn golden_receipt() {
    let letter = letter();
    check("receipt", ReceiptView::new(&letter.id, &letter.task.to_string(), &trail()));
    let mut held = trail();
    held.add(Timestamp(T0 + 9_000), Happened::Held("it waits for an approval".into()));
    check("receipt_held", ReceiptView::new(&letter.id, &letter.task.to_string(), &held));
}

#[test]
fn golden_inbox_page() {
    let (body, mut reply) = (Body::of(&content()), letter());
    reply.chain.parent = Some(MessageId::parse("msg-0").unwrap());
    reply.follow_up = true;
    let messages = vec![
        MessageView::new(&letter(), Some(&body), Some(&trail())),
        MessageView::new(&reply, Some(&Body::of(&Content::text("yes"))), None),
        MessageView::new(&letter(), None, None),
    ];
    check(
        "inbox_page",
        InboxPage { agent_id: letter().to.to_string(), waiting: 3, notes: 1, leased: 0, messages },
    );
}

#[test]
fn golden_agent() {
    let presence = Presence::new(Timestamp(T0), AgentState::Busy, "task 0123abcd");
    check("agent_running", AgentView::new(&agent(), Some(&presence), 3));
    let mut plain = agent();
    (plain.name, plain.role, plain.port, plain.capabilities) = (None, None, None, Vec::new());
    check("agent_stopped", AgentView::new(&plain, None, 0));
}

#[test]
fn golden_status() {
    let full = crate::samples::status();
    check("status", &full);
    let plain = StatusView {
        role: None,
        current_task: None,
        available_tools: Vec::new(),
        context: None,
        asks: None,
        context_since: None,
        ..full
    };
    check("status_for_strangers", plain);
}

#[test]
fn golden_shared() {
    let (agent_id, followers) = (letter().to.to_string(), vec![(&sender(Proof::Own)).into()]);
    let context = Some((&crate::samples::context()).into());
    let not_told = vec![NotTold { follower: (&sender(Proof::Own)).into(), why: "the disk is full".into() }];
    let full = SharedView { agent_id, context, followers, not_told };
    check("shared", &full);
    check(
        "shared_nothing",
        SharedView { context: None, followers: Vec::new(), not_told: Vec::new(), ..full },
    );
}

#[test]
fn golden_interrupted() {
    let task = |what| InterruptedTask::from(&(letter().task, what));
    let message = MessageAccepted {
        message_id: letter().id.to_string(),
        task_id: Some(letter().task.to_string()),
        agent_id: letter().to.to_string(),
        status: "stored".into(),
        duplicate: false,
        ahead: 0,
        event_id: Some(7),
        why: None,
    };
    let tasks = vec![task(Interruption::Told), task(Interruption::Stopping)];
    check("interrupted", InterruptAnswer { tasks, message: Some(message) });
    check("interrupted_nothing", InterruptAnswer { tasks: Vec::new(), message: None });
}

#[test]
fn golden_places() {
    let until = Timestamp(T0 + 60_000);
    let places = [
        Place::Waiting { ahead: 2, tries: 0 },
        Place::Resting { until, tries: 1 },
        Place::Leased { until, tries: 2 },
        Place::Handed,
    ];
    check("places", places.iter().map(PlaceView::from).collect::<Vec<_>>());
}

#[test]
fn golden_reply_answer() {
    let sent_to = Some((&sender(Proof::Socket)).into());
    let task_id = letter().task.to_string();
    check(
        "reply_completed",
        ReplyAnswer { status: "completed".into(), task_id: task_id.clone(), sent_to: None },
    );
    check("reply_sent", ReplyAnswer { status: "sent".into(), task_id, sent_to });
}

/// Returns one of each refusal; a new one does not compile until `is_listed` has it.
// tidy: table
fn refusals() -> Vec<Refusal> {
    let text = |text: &str| text.to_owned();
    let choice = |target: &str| Choice { id: AgentId::from_bytes([1; 32]), target: text(target) };
    let all = vec![
        Refusal::NoSuchAgent { target: text("anna"), nearest: vec![text("ana")], renamed: false },
        Refusal::NoSuchAgent { target: text("zoe"), nearest: Vec::new(), renamed: false },
        Refusal::NoSuchAgent { target: text("shout"), nearest: vec![text("loud")], renamed: true },
        Refusal::NameTaken { name: text("ana"), by: text("ana@p1") },
        Refusal::Ambiguous { target: text("claude"), choices: vec![choice("claude@p1"), choice("ana")] },
        Refusal::HandleMoved {
            target: text("codex-8100"),
            was: text("bo (stopped)"),
            now: text("claude-8100"),
        },
        Refusal::MailboxFull { agent: text("ana"), waiting: 10_000 },
        Refusal::bad_field("message.parts[0]", "a part must be an object"),
        Refusal::TooLarge { bytes: 2_000_000, max: 1 << 20 },
        Refusal::Conflict { message: MessageId::parse("mine-1").unwrap() },
        Refusal::NoSuchTask { task: text("0123abcd") },
        Refusal::AmbiguousTask { task: text("0123abcd") },
        Refusal::NoSuchMessage { message: text("mine-1") },
        Refusal::TaskEnded { task: text("0123abcd"), state: TaskState::Completed },
        Refusal::NotNow { task: text("0123abcd"), state: TaskState::Submitted },
        Refusal::NotAllowed { who: text("ana"), verb: "approve", need: "being the user" },
        Refusal::NotProven { why: text("a caller without a token may not send messages") },
        Refusal::SystemLimit {
            limit: text("the limit of open files is reached (RLIMIT_NOFILE, `ulimit -n`)"),
        },
        Refusal::AddressRefused { address: text("192.0.2.7") },
        Refusal::TooManyGuesses { address: text("192.0.2.7"), retry_after_ms: 41_000 },
        Refusal::ChainTooLong { hops: 17, max: 16 },
        Refusal::TooFast { to: text("ana"), max: 60, retry_after_ms: 1_500 },
        Refusal::NoProgress { to: text("ana"), repeats: 5 },
        Refusal::TooManyTasks { max: 20_000 },
        Refusal::TooManyFollowers { who: "ana".into(), max: 256 },
        Refusal::AnswersUnread,
        Refusal::NotPressed { why: text("nothing was pressed: a message is being typed into it") },
        Refusal::Busy,
        Refusal::Stopping,
        Refusal::NotStored { why: text("the disk is full; free some space, then try again") },
    ];
    assert!(all.iter().all(is_listed));
    all
}

// tidy: table
fn is_listed(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::NoSuchAgent { .. } | Refusal::Ambiguous { .. } | Refusal::HandleMoved { .. } => true,
        Refusal::MailboxFull { .. } | Refusal::BadField { .. } | Refusal::TooLarge { .. } => true,
        Refusal::Conflict { .. } | Refusal::NoSuchTask { .. } | Refusal::AmbiguousTask { .. } => true,
        Refusal::NoSuchMessage { .. } | Refusal::TaskEnded { .. } | Refusal::NotNow { .. } => true,
        Refusal::NotAllowed { .. } | Refusal::ChainTooLong { .. } | Refusal::TooFast { .. } => true,
        Refusal::NoProgress { .. }
        | Refusal::TooManyTasks { .. }
        | Refusal::TooManyFollowers { .. }
        | Refusal::AnswersUnread
        | Refusal::Busy => true,
        Refusal::Stopping | Refusal::NotStored { .. } | Refusal::NotProven { .. } => true,
        Refusal::AddressRefused { .. } | Refusal::TooManyGuesses { .. } => true,
        Refusal::SystemLimit { .. } | Refusal::NameTaken { .. } => true,
        Refusal::NotPressed { .. } => true,
    }
}

/// REST-7: every refusal with its status, its code and its message.
#[test]
fn golden_errors() {
    let told: Vec<Value> = refusals()
        .iter()
        .map(|refusal| {
            let body = serde_json::to_value(ErrorBody::from(refusal)).unwrap();
            json!({ "http": status(refusal), "retry_after_s": retry_after_s(refusal), "body": body })
        })
        .collect();
    check("errors", told);
}

fn records() -> Vec<Record> {
    let (letter, body) = (letter(), Body::of(&content()));
    let (message, id) = (letter.id.clone(), letter.task);
    let opens = Some(Box::new(Opens { caller_id: None, context: None, timeout_ms: Some(60_000) }));
    let to = |to, why: &str| Move { at: Timestamp(T0), to, by: "ana".into(), why: why.into() };
    let ending =
        |state, why: &str, answer| Ending { state, by: "ana".into(), why: why.into(), answer, direct: false };
    let archive = |state, dead_letter| {
        Box::new(Archive { task: task(state), trails: vec![(message.clone(), trail())], dead_letter })
    };
    let mark = |what| Record::Marked { message: message.clone(), task: id, what };
    let artifact = Said::Artifact {
        id: "report".into(),
        name: Some("report.md".into()),
        content: body.clone(),
        append: true,
        last: false,
    };
    vec![
        Record::Known(agent()),
        Record::Accepted { letter: std::sync::Arc::new(letter.clone()), body: body.clone(), opens },
        Record::Leased { message: message.clone(), task: id, link: LinkId(7), until: Timestamp(T0 + 60_000) },
        Record::Returned {
            message: message.clone(),
            task: id,
            why: "its lease ran out".into(),
            rest_until: None,
            counted: true,
        },
        mark(Happened::Step(Step::Written)),
        mark(Happened::Held("it waits for an approval".into())),
        mark(Happened::Returned("it was not taken".into())),
        mark(Happened::Failed("it was canceled".into())),
        mark(Happened::Unknown("the node was killed while it wrote".into())),
        Record::Handed { message: message.clone(), task: id, what: Happened::Step(Step::Seen) },
        Record::Moved { task: id, to: to(TaskState::Working, "started"), said: None },
        Record::Moved {
            task: id,
            to: to(TaskState::InputRequired, "it asks"),
            said: Some(Body::of(&Content::text("which?"))),
        },
        Record::Said { task: id, what: Said::Progress { text: "half way".into(), percent: Some(50) } },
        Record::Said { task: id, what: artifact },
        Record::Interrupted { task: id, by: "bo".into(), why: "the tests moved".into() },
        Record::Shared { agent: letter.to, context: Some(crate::samples::context()) },
        Record::Shared { agent: letter.to, context: None },
        Record::Followed { agent: letter.to, follower: sender(Proof::Own), on: true },
        Record::CancelAsked {
            task: id,
            asked: CancelAsked { by: "user".into(), why: "changed my mind".into() },
        },
        Record::Ended {
            task: id,
            ending: ending(TaskState::Completed, "replied", Some(body)),
            archive: archive(TaskState::Completed, false),
        },
        Record::Ended {
            task: id,
            ending: ending(TaskState::Failed, "not taken after 3 tries", None),
            archive: archive(TaskState::Failed, true),
        },
        Record::Tripped { from: "bo".into(), to: letter.to, why: "more than 60 messages a minute".into() },
    ]
}

/// Returns the event name of every kind of record; a new kind does not compile until it is here.
fn kind(record: &Record) -> &'static str {
    match record {
        Record::Known(_) | Record::Accepted { .. } | Record::Leased { .. } | Record::Returned { .. } => {
            record.name()
        }
        Record::Marked { .. } | Record::Handed { .. } | Record::Moved { .. } | Record::Said { .. } => {
            record.name()
        }
        Record::CancelAsked { .. } | Record::Ended { .. } | Record::Tripped { .. } => record.name(),
        Record::Interrupted { .. } | Record::Shared { .. } | Record::Followed { .. } => record.name(),
    }
}

#[test]
fn golden_events() {
    let mut lines = String::new();
    let mut kinds = std::collections::BTreeSet::new();
    for (n, record) in records().into_iter().enumerate() {
        kinds.insert(kind(&record));
        let entry = Entry { seq: Seq(n as u64 + 1), at: Timestamp(T0 + n as u64), record };
        lines.push_str(&serde_json::to_string(&EventView::from(&entry)).unwrap());
        lines.push('\n');
    }
    let all = "accepted agent artifact cancel ended followed handed interrupt leased loop progress receipt returned \
               shared task";
    assert_eq!(kinds.into_iter().collect::<Vec<_>>().join(" "), all);
    golden::check(&file("events.jsonl"), &lines);
}

#[test]
fn golden_lines_to_programs() {
    let view = || Box::new(MessageView::new(&letter(), Some(&Body::of(&content())), Some(&trail())));
    let all = [
        ToProgram::Hello {
            agent_id: letter().to.to_string(),
            label: "ana".into(),
            token_file: Some("/agents/ana/token".into()),
        },
        ToProgram::Message(view()),
        ToProgram::Input(view()),
        ToProgram::Cancel { task_id: letter().task.to_string(), why: "changed my mind".into() },
        ToProgram::Interrupt {
            task_id: letter().task.to_string(),
            from: "bo".into(),
            why: "the tests moved".into(),
        },
        ToProgram::Error { message: "type: this is not JSON".into(), line: "hello".into() },
        ToProgram::Ok { of: "send".into() },
    ];
    let lines: String = all.iter().map(ToProgram::line).collect();
    assert_eq!(lines.lines().count(), all.len(), "one line each, whatever is in it");
    golden::check(&file("lines_to_programs.jsonl"), &lines);
}

/// Returns the body of a parsed line, which its `Debug` form does not show.
fn bodies(line: &Line) -> String {
    let body = match line {
        Line::Report { report: Report::Done { answer: Some(body), .. }, .. } => body,
        Line::Report { report: Report::NeedsInput { prompt, .. }, .. } => prompt,
        Line::Report { report: Report::Said(Said::Artifact { content, .. }), .. } => content,
        _ => return String::new(),
    };
    format!("\nsays {}", body.as_str())
}

/// Lines from programs, good and bad, and the parsed result.
#[test]
fn golden_lines_from_programs() {
    let mut told = String::new();
    for line in include_str!("../golden/lines_from_programs.in").lines().filter(|line| !line.is_empty()) {
        let read = match jsonl::to_core(line.as_bytes()) {
            Ok(line) => format!("{line:?}{}", bodies(&line)),
            Err(refusal) => format!("refused: {refusal}"),
        };
        told.push_str(&format!("> {line}\n{read}\n\n"));
    }
    golden::check(&file("lines_from_programs.txt"), &told);
}

/// One of each kind of export record, as a line, and the output of the other commands.
#[test]
fn golden_history() {
    let (body, letter) = (Body::of(&content()), letter());
    let ending = Ending {
        state: TaskState::Completed,
        by: "ana".into(),
        why: "replied".into(),
        answer: Some(body.clone()),
        direct: false,
    };
    let archive = Archive {
        task: task(TaskState::Completed),
        trails: vec![(letter.id.clone(), trail())],
        dead_letter: false,
    };
    let message = || MessageRecord::new(Seq(7), "ana", &letter, &body, Some(&trail()));
    let ended = || EndedRecord::new(Seq(9), Timestamp(T0 + 5_000), &ending, &archive);
    let said = Said::Artifact {
        id: "report".into(),
        name: Some("report.md".into()),
        content: body.clone(),
        append: false,
        last: true,
    };
    let artifact =
        ArtifactRecord::new(Seq(8), letter.to.to_string(), letter.task.to_string(), &said).unwrap();
    let agent = AgentRecord {
        agent_id: letter.to.to_string(),
        label: "ana".into(),
        kind: Some("claude".into()),
        name: Some("ana".into()),
        folder: Some("/srv/project".into()),
    };
    let records = [
        HistoryRecord::Agent(agent),
        HistoryRecord::Message(Box::new(message())),
        HistoryRecord::Artifact(artifact),
        HistoryRecord::Ended(Box::new(ended())),
    ];
    let mut lines = String::new();
    for record in &records {
        let line = serde_json::to_string(record).unwrap();
        assert_eq!(serde_json::from_str::<HistoryRecord>(&line).unwrap(), *record, "it comes back as it was");
        lines.push_str(&line);
        lines.push('\n');
    }
    golden::check(&file("history_export.jsonl"), &lines);
    let line = |outcome| HistoryLine { record: message(), outcome };
    let done = line(Outcome::ended(Timestamp(T0 + 5_000), &ending));
    let open = line(Outcome::open(Some(&task(TaskState::InputRequired))));
    check("history_list", vec![done.clone(), open, line(Outcome::open(None))]);
    let hit = |record, snippet: &str, matches| SearchHit { record, snippet: snippet.into(), matches };
    let hits = vec![
        hit(HistoryRecord::Message(Box::new(message())), "…hello 世界", vec![(7, 2)]),
        hit(HistoryRecord::Ended(Box::new(ended())), "hello 世界", vec![(6, 2)]),
    ];
    let note = Some("these are the newest 2".into());
    check("history_search", SearchView { query: "世界".into(), hits, complete: false, note });
    let shown = ConversationMessage {
        depth: 0,
        line: done,
        trail: trail().marks().iter().map(MarkView::from).collect(),
        moves: archive.task.history.iter().map(MoveView::from).collect(),
    };
    let correlation_id = letter.chain.correlation.to_string();
    check("history_show", ConversationView { correlation_id, messages: vec![shown], complete: true });
}
