//! One sample of each type, with every field set.

use serde_json::json;
use synapse_core::agents::{Agent, Context};
use synapse_core::ids::{AgentId, AgentType, Label, MessageId, TaskId, Timestamp};
use synapse_core::message::{
    Body, Chain, Content, Expects, Letter, Part, Piece, Priority, Proof, Sender, Who,
};
use synapse_core::receipt::{Happened, Step, Trail};
use synapse_core::task::{Move, Task, TaskState};
use synapse_dialects::status::StatusView;

/// The morning of 2026-11-15.
pub(crate) const T0: u64 = 1_794_735_000_123;

pub(crate) fn sender(proof: Proof) -> Sender {
    Sender { who: Who::Agent(AgentId::from_bytes([0xbb; 32])), label: "bo".into(), by_user: true, proof }
}

pub(crate) fn content() -> Content {
    let part = |piece| Part { piece, media_type: None, filename: None };
    let mut content = Content::text("hello\u{0} \u{202e}世界\n\"quoted\"");
    content.parts.push(part(Piece::Data(json!({ "rows": [1, -2.5, null, true] }))));
    content.parts.push(part(Piece::Url("https://example.org/a.png".into())));
    let (media_type, filename) = (Some("text/plain".into()), Some("hello.txt".into()));
    content.parts.push(Part { piece: Piece::Raw("aGVsbG8=".into()), media_type, filename });
    content.metadata.insert("ticket".into(), json!(17));
    content
}

pub(crate) fn letter() -> Letter {
    let (id, body) =
        (MessageId::parse("01234567-89ab-7def-8123-456789abcdef").unwrap(), Body::of(&content()));
    Letter {
        sender_id: MessageId::parse("mine-1").unwrap(),
        from: sender(Proof::Socket),
        to: AgentId::from_bytes([0xaa; 32]),
        task: TaskId::from_bytes([0x0f; 16]),
        priority: Priority::from_five(4).unwrap(),
        expects: Expects::Answer,
        chain: Chain { correlation: id.clone(), parent: None, hops: 2 },
        digest: body.digest(),
        bytes: body.bytes() as u64,
        accepted_at: Timestamp(T0),
        follow_up: false,
        context: None,
        tenant: None,
        id,
    }
}

pub(crate) fn trail() -> Trail {
    let mut trail = Trail::accepted(Timestamp(T0));
    trail.add(Timestamp(T0 + 1_000), Happened::Step(Step::Leased));
    trail.add(Timestamp(T0 + 2_000), Happened::Returned("its lease ran out".into()));
    trail.add(Timestamp(T0 + 3_000), Happened::Step(Step::Leased));
    trail.add(Timestamp(T0 + 4_000), Happened::Step(Step::Submitted));
    trail
}

pub(crate) fn task(state: TaskState) -> Task {
    let to = |after, to, why: &str| Move { at: Timestamp(T0 + after), to, by: "ana".into(), why: why.into() };
    let mut history = vec![to(1_000, TaskState::Working, "started")];
    if state != TaskState::Working {
        history.push(to(2_000, state, "it goes on"));
    }
    Task {
        id: letter().task,
        caller_id: Some("theirs".into()),
        context: None,
        tenant: None,
        asks: None,
        questions: Vec::new(),
        agent: letter().to,
        requester: sender(Proof::Token),
        expects: Expects::Answer,
        state,
        messages: vec![letter().id, MessageId::parse("mine-2").unwrap()],
        history,
        timeout_ms: Some(60_000),
        deadline: Some(Timestamp(T0 + 61_000)),
        cancel: None,
        said_bytes: 12,
        artifacts: synapse_core::task::ArtifactCount::default(),
    }
}

pub(crate) fn agent() -> Agent {
    let label = |text| Label::parse(text).unwrap();
    Agent {
        id: letter().to,
        kind: AgentType::parse("claude").unwrap(),
        name: Some(label("ana")),
        role: Some(label("Reviewer")),
        capabilities: vec![label("review"), label("rust")],
        port: Some(8100),
    }
}

pub(crate) fn context() -> Context {
    Context { text: "reads the tests".into(), since: Timestamp(T0), by_user: true }
}

pub(crate) fn status() -> StatusView {
    StatusView {
        agent_name: "ana".into(),
        role: Some("Reviewer".into()),
        status: "busy".into(),
        current_task: Some(letter().task.to_string()),
        available_tools: vec!["review".into()],
        state: "waiting".into(),
        why: "it waits for an approval".into(),
        since: synapse_dialects::time::show(Timestamp(T0)),
        agent_id: letter().to.to_string(),
        agent_type: "claude".into(),
        waiting: 3,
        version: "0.1.0".into(),
        context: Some("reads the tests".into()),
        asks: Some("asks to run: touch notes.txt".into()),
        context_since: Some(synapse_dialects::time::show(Timestamp(T0))),
    }
}
