//! Round trips: contents, views and times are the same after writing and reading.

use crate::samples::{agent, letter, sender, status, task, trail};
use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use synapse_core::Refusal;
use synapse_core::agents::{AgentState, Presence};
use synapse_core::effect::{Report, Taken};
use synapse_core::ids::{Seq, Timestamp};
use synapse_core::message::{Body, Content, Part, Piece, Proof};
use synapse_core::receipt::Happened;
use synapse_core::record::{Entry, Record, Said};
use synapse_core::task::{Ending, TaskState};
use synapse_dialects::api::{AgentView, InboxPage, MessageView, ReceiptView, ReplyAnswer, TaskView};
use synapse_dialects::error::ErrorBody;
use synapse_dialects::event::EventView;
use synapse_dialects::jsonl::{Line, ToProgram, to_core as line_to_core};
use synapse_dialects::message::{MessageAccepted, MessageRequest, request_to_core, to_core};
use synapse_dialects::{parse, time};

fn a_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

fn a_part() -> impl Strategy<Value = Part> {
    let piece = prop_oneof![
        any::<String>().prop_map(Piece::Text),
        a_value().prop_map(Piece::Data),
        any::<String>().prop_map(Piece::Url),
        "[A-Za-z0-9+/]{4}([A-Za-z0-9+/]{4}){0,5}".prop_map(Piece::Raw),
    ];
    (piece, any::<Option<String>>(), any::<Option<String>>()).prop_map(|(piece, media_type, filename)| Part {
        piece,
        media_type,
        filename,
    })
}

fn a_content() -> impl Strategy<Value = Content> {
    let metadata = prop::collection::btree_map("[a-z_]{1,8}", a_value(), 0..3);
    (prop::collection::vec(a_part(), 1..4), metadata)
        .prop_map(|(parts, metadata)| Content { parts, metadata: metadata.into_iter().collect() })
}

fn says_something(content: &Content) -> bool {
    content.parts.iter().any(|p| !matches!(&p.piece, Piece::Text(text) if text.trim().is_empty()))
}

/// Writes it and reads it back, through the same parser as every request.
#[track_caller]
fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(view: &T) {
    let text = serde_json::to_vec(view).unwrap();
    assert_eq!(&parse::json::<T>(&text).unwrap(), view);
}

proptest! {
    #[test]
    fn a_content_comes_back_from_its_body(content in a_content()) {
        prop_assert_eq!(Body::of(&content).content().unwrap(), content);
    }

    #[test]
    fn what_is_asked_is_what_the_body_says(content in a_content().prop_filter("says something", says_something)) {
        let metadata = ["priority", "response_expected", "sender"];
        prop_assume!(metadata.iter().all(|name| !content.metadata.contains_key(*name)));
        let request = MessageRequest {
            message: json!({ "role": "user", "parts": content.parts }),
            metadata: content.metadata.clone(),
            ..MessageRequest::default()
        };
        let asked = to_core(&serde_json::to_vec(&request).unwrap()).unwrap();
        prop_assert_eq!(&asked.draft.body.content().unwrap(), &content);
        prop_assert_eq!(asked.draft.body, request_to_core(request).unwrap().draft.body);
    }

    #[test]
    fn a_text_arrives_letter_for_letter(text in any::<String>()) {
        prop_assume!(!text.trim().is_empty());
        let asked = to_core(json!({ "message": text }).to_string().as_bytes()).unwrap();
        prop_assert_eq!(asked.draft.body.content().unwrap().as_text(), text);
    }

    #[test]
    fn messages_come_back_from_their_views(content in a_content(), why in any::<String>()) {
        let (letter, mut trail, body) = (letter(), trail(), Body::of(&content));
        trail.add(Timestamp(0), Happened::Held(why.clone()));
        let view = MessageView::new(&letter, Some(&body), Some(&trail));
        check(&view);
        check(&ReceiptView::new(&letter.id, &why, &trail));
        check(&ToProgram::Message(Box::new(view.clone())));
        check(&ToProgram::Error { message: why.clone(), line: why.clone() });
        let line = ToProgram::Input(Box::new(view.clone())).line();
        prop_assert_eq!(line.matches('\n').count(), 1, "a line is one line");
        check(&InboxPage { agent_id: why, waiting: 1, notes: 0, leased: 0, messages: vec![view] });
    }

    #[test]
    fn tasks_and_events_come_back_from_their_views(content in a_content(), why in any::<String>(), at in 0..u64::MAX / 2) {
        let ending = Ending { state: TaskState::Failed, by: why.clone(), why: why.clone(), answer: Some(Body::of(&content)), direct: false };
        let mut view = TaskView::new(&task(TaskState::Failed), Some(&ending));
        view.artifacts.push(json!(content));
        check(&view);
        let artifact = Said::Artifact { id: why.clone(), name: None, content: Body::of(&content), append: false, last: true };
        for record in [Record::Said { task: letter().task, what: artifact }, Record::Known(agent()),
            Record::Accepted { letter: std::sync::Arc::new(letter()), body: Body::of(&content), opens: None }] {
            check(&EventView::from(&Entry { seq: Seq(at), at: Timestamp(at), record }));
        }
        check(&ErrorBody::from(&Refusal::bad_field(why.clone(), why.clone())));
        check(&AgentView::new(&agent(), Some(&Presence::new(Timestamp(at), AgentState::Idle, why)), 7));
    }

    #[test]
    fn times_come_back_to_the_millisecond(at in 0..253_402_207_200_000u64) {
        prop_assert_eq!(time::read("t", &time::show(Timestamp(at))), Ok(Timestamp(at)));
    }
}

#[test]
fn the_views_without_variety_come_back() {
    check(&status());
    check(&AgentView::new(&agent(), None, 0));
    check(&TaskView::new(&task(TaskState::Working), None));
    let taken =
        Taken { message: letter().id, task: letter().task, agent: letter().to, duplicate: true, ahead: 0 };
    check(&MessageAccepted::stored(&taken, Seq(u64::MAX)));
    for proof in [
        Proof::Socket,
        Proof::Token,
        Proof::Secret,
        Proof::Certificate,
        Proof::Spool,
        Proof::Outbox,
        Proof::Own,
    ] {
        check(&ReplyAnswer {
            status: "sent".into(),
            task_id: "x".into(),
            sent_to: Some((&sender(proof)).into()),
        });
    }
    check(&ToProgram::Hello { agent_id: "x".into(), label: "ana".into(), token_file: None });
}

#[test]
fn the_deepest_data_that_is_taken_can_be_read_again_in_every_view() {
    let deepest = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let mut taken = 0;
    for levels in 1..130 {
        let deep = deepest(levels);
        let sent = to_core(format!(r#"{{"message": {{"parts": [{{"data": {deep}}}]}}}}"#).as_bytes()).ok();
        let beside = to_core(format!(r#"{{"message": "x", "metadata": {{"k": {deep}}}}}"#).as_bytes()).ok();
        let done = line_to_core(format!(r#"{{"type": "completed", "data": {deep}}}"#).as_bytes()).ok();
        let made = line_to_core(format!(r#"{{"type": "artifact", "data": {deep}}}"#).as_bytes()).ok();
        let answer = done.map(|line| match line {
            Line::Report { report: Report::Done { answer: Some(body), .. }, .. } => body,
            other => panic!("{other:?}"),
        });
        let artifact = made.map(|line| match line {
            Line::Report { report: Report::Said(Said::Artifact { content, .. }), .. } => content,
            other => panic!("{other:?}"),
        });
        let drafts = sent.into_iter().chain(beside).map(|asked| asked.draft.body);
        for body in drafts.chain(answer).chain(artifact) {
            taken = levels;
            assert!(body.content().is_ok(), "{levels} levels went in and do not come out");
            let view = MessageView::new(&letter(), Some(&body), None);
            check(&InboxPage {
                agent_id: "x".into(),
                waiting: 1,
                notes: 0,
                leased: 0,
                messages: vec![view.clone()],
            });
            check(&ToProgram::Message(Box::new(view)));
        }
    }
    assert_eq!(taken, 64);
}
