//! What becomes of a message: answered, found again, listed, ended, streamed (S1–S16, T2–T18, G5–G21).

use super::super::finding::{Check, Verdict};
use super::super::judge::answer::Outcome;
use super::super::judge::stream::{self, Heard};
use super::super::judge::task::{self, Sent};
use super::super::probe::{Patience, Probe};
use super::super::table;
use super::Desk;
use super::ask::{refused_stream, subscribe};
use super::call::{V10, message, operation};
use crate::a2a::content_type;
use http::HeaderValue;
use serde_json::{Value, json};
use synapse_a2a::fault::Kind;

pub(in super::super) async fn sent(desk: &mut Desk<'_>, probe: &mut Probe, text: &str) {
    let made = blocking(desk, probe, text).await;
    if let Some(made) = &made {
        again(desk, probe, made).await;
        ended(desk, probe, made, text).await;
    }
    at_once(desk, probe, text).await;
    streamed(desk, probe, text).await;
    // Last: there are several tasks by now.
    if let Some(made) = &made {
        listed(desk, probe, made).await;
    }
}

/// A message of ours; each case sends one.
fn say(desk: &Desk<'_>, text: &str, case: &str, task: Option<&str>) -> Value {
    message(text, &format!("synapse-doctor-{}-{case}", desk.mark), task)
}

/// What an operation answered, or why that cannot be said.
async fn result(
    desk: &mut Desk<'_>,
    probe: &mut Probe,
    method: &str,
    params: Value,
    patience: Patience,
) -> Result<Value, Verdict> {
    let request = operation(&desk.at, method, params, V10);
    let answer = probe.ask(probe.as_known(request), patience).await.map_err(|none| none.verdict())?;
    let binding = desk.binding();
    match desk.tally.read(binding, method, &answer) {
        Outcome::Result(value) => Ok(value),
        Outcome::Error(told) => Err(Verdict::Off(told.words(binding))),
        Outcome::Strange(why) => Err(Verdict::Off(why)),
    }
}

/// S1–S3: waits for the end. The task, if it is one.
async fn blocking(desk: &mut Desk<'_>, probe: &mut Probe, text: &str) -> Option<Value> {
    let asked = format!("SendMessage with {text:?}");
    let params = say(desk, text, "send", None);
    let answered = match result(desk, probe, "SendMessage", params, Patience::Long).await {
        Ok(answered) => answered,
        Err(verdict) => {
            probe.find(&table::SEND, &desk.about, asked, verdict);
            return None;
        }
    };
    let about = desk.about.clone();
    match task::sent(&answered) {
        Sent::Task(made) => {
            probe.find(&table::SEND, &about, &asked, task::waited(made));
            probe.find(&table::TASK_FIELDS, &about, &asked, faults(task::task_faults(made, "task")));
            for (check, verdict) in [
                (&table::CONTEXT, task::context(made)),
                (&table::TIMESTAMPS, task::timestamp(made)),
                (&table::RESULTS, task::results(made)),
            ] {
                probe.find(check, &about, &asked, verdict);
            }
            made["id"].is_string().then(|| made.clone())
        }
        Sent::Message(made) => {
            probe.find(&table::SEND, &about, &asked, Verdict::Ok("a message".into()));
            let mut wrong = Vec::new();
            task::message_faults(made, "message", &mut wrong);
            probe.find(&table::TASK_FIELDS, &about, &asked, faults(wrong));
            probe.find(&table::CONTEXT, &about, &asked, task::context(made));
            None
        }
        Sent::Neither(what) => {
            probe.find(&table::SEND, &about, &asked, Verdict::Off(what));
            None
        }
    }
}

fn faults(wrong: Vec<String>) -> Verdict {
    if wrong.is_empty() { Verdict::Ok("all there".into()) } else { Verdict::Off(wrong.join("; ")) }
}

/// T1, T2.
async fn again(desk: &mut Desk<'_>, probe: &mut Probe, made: &Value) {
    let id = &made["id"];
    let verdict = match result(desk, probe, "GetTask", json!({ "id": id }), Patience::Short).await {
        Ok(found) if found["id"] != *id => Verdict::Off("another task".into()),
        Ok(found) if task::state(&found) != task::state(made) => {
            Verdict::Off(format!("{}, and before it was {}", task::state(&found), task::state(made)))
        }
        Ok(found) => Verdict::Ok(format!("the same, {}", task::state(&found))),
        Err(verdict) => verdict,
    };
    probe.find(&table::GET_TASK, &desk.about, "GetTask of the task that was made", verdict);
    let params = json!({ "id": id, "historyLength": 0 });
    let verdict = match result(desk, probe, "GetTask", params, Patience::Short).await {
        Ok(found) => task::no_history(&found),
        Err(verdict) => verdict,
    };
    probe.find(&table::NO_HISTORY, &desk.about, "GetTask with historyLength 0", verdict);
}

/// T4–T9.
async fn listed(desk: &mut Desk<'_>, probe: &mut Probe, made: &Value) {
    let about = desk.about.clone();
    let page = match result(desk, probe, "ListTasks", json!({}), Patience::Short).await {
        Ok(page) => page,
        Err(verdict) => return probe.find(&table::LIST_FIELDS, &about, "ListTasks", verdict),
    };
    let id = made["id"].as_str().unwrap_or_default();
    for (check, verdict) in [
        (&table::LIST_FIELDS, task::list_fields(&page)),
        (&table::LIST_CONTAINS, task::list_contains(&page, id)),
        (&table::LIST_SORTED, task::list_sorted(&page)),
        (&table::LIST_ARTIFACTS, task::list_artifacts(&page)),
    ] {
        probe.find(check, &about, "ListTasks", verdict);
    }
    let first = result(desk, probe, "ListTasks", json!({ "pageSize": 1 }), Patience::Short).await;
    let verdict = match &first {
        Err(verdict) => verdict.clone(),
        Ok(page) => match task::first_page(page) {
            Err(verdict) => verdict,
            Ok(token) => {
                let params = json!({ "pageSize": 1, "pageToken": token });
                match result(desk, probe, "ListTasks", params, Patience::Short).await {
                    Ok(next) => task::second_page(page, &next),
                    Err(verdict) => verdict,
                }
            }
        },
    };
    probe.find(&table::LIST_PAGES, &about, "ListTasks with pageSize 1, twice", verdict);
}

/// S9, T13, T18: what cannot be done any more.
async fn ended(desk: &mut Desk<'_>, probe: &mut Probe, made: &Value, text: &str) {
    let (id, state) = (made["id"].as_str().unwrap_or_default(), task::state(made));
    let cancel = operation(&desk.at, "CancelTask", json!({ "id": id }), V10);
    if !task::has_ended(state) {
        // It is left as tidy as it can be.
        let came = result(desk, probe, "CancelTask", json!({ "id": id }), Patience::Short).await;
        let verdict = match came {
            Ok(found) if found["id"] == id => {
                Verdict::Note(format!("the task was {state}, so it was canceled: {}", task::state(&found)))
            }
            Ok(_) => Verdict::Off("the answer is not the task".into()),
            Err(verdict) => verdict,
        };
        return probe.find(&table::CANCEL_ENDED, &desk.about, "CancelTask", verdict);
    }
    let asked = "CancelTask of the task, which has ended";
    desk.refused(probe, &table::CANCEL_ENDED, asked, cancel, &[Kind::TaskNotCancelable]).await;
    let asked = "SendMessage to the task, which has ended";
    let params = say(desk, text, "ended", Some(id));
    let request = operation(&desk.at, "SendMessage", params, V10);
    desk.refused(probe, &table::SEND_TO_ENDED, asked, request, &[Kind::Unsupported]).await;
    let asked = "SubscribeToTask of the task, which has ended";
    let verdict = match subscribe(desk, probe, id).await {
        Ok(answer) => {
            let binding = desk.binding();
            refused_stream(&mut desk.tally, binding, asked, answer, &[Kind::Unsupported])
        }
        Err(none) => none.verdict(),
    };
    probe.find(&table::SUBSCRIBE_ENDED, &desk.about, asked, verdict);
}

/// S4.
async fn at_once(desk: &mut Desk<'_>, probe: &mut Probe, text: &str) {
    let mut params = say(desk, text, "at-once", None);
    params["configuration"] = json!({ "returnImmediately": true });
    let verdict = match result(desk, probe, "SendMessage", params, Patience::Long).await {
        Ok(answered) => match task::sent(&answered) {
            Sent::Task(made) if task::rests(task::state(made)) => Verdict::Note(format!(
                "the task is already {}; the agent may be fast, or the server waits",
                task::state(made)
            )),
            Sent::Task(made) => Verdict::Ok(format!("a task, {}", task::state(made))),
            Sent::Message(_) => Verdict::Ok("a message, for which there is nothing to wait".into()),
            Sent::Neither(what) => Verdict::Off(what),
        },
        Err(verdict) => verdict,
    };
    probe.find(&table::AT_ONCE, &desk.about, "SendMessage with returnImmediately", verdict);
}

/// S13–S19.
async fn streamed(desk: &mut Desk<'_>, probe: &mut Probe, text: &str) {
    let (binding, about) = (desk.binding(), desk.about.clone());
    let request = operation(&desk.at, "SendStreamingMessage", say(desk, text, "stream", None), V10);
    if !desk.declares("streaming") {
        let asked = "SendStreamingMessage";
        let verdict = match probe.ask(probe.as_known(request), Patience::Long).await {
            Ok(answer) => refused_stream(&mut desk.tally, binding, asked, answer, &[Kind::Unsupported]),
            Err(none) => none.verdict(),
        };
        return probe.find(&table::NO_STREAMING, &about, asked, verdict);
    }
    let asked = format!("SendStreamingMessage with {text:?}");
    let (answer, heard) = match probe.listen(probe.as_known(request)).await {
        Ok(came) => came,
        Err(none) => return probe.find(&table::STREAM_TYPE, &about, asked, none.verdict()),
    };
    let media = content_type(&answer.headers);
    if answer.status != 200 || media != "text/event-stream" {
        let why = match desk.tally.read(binding, &asked, &answer) {
            Outcome::Error(told) => told.words(binding),
            Outcome::Strange(why) => why,
            Outcome::Result(_) => format!("status {}, {media}", answer.status.as_u16()),
        };
        return probe.find(&table::STREAM_TYPE, &about, asked, Verdict::Off(why));
    }
    let all: [(&Check, Verdict); 4] = [
        (&table::STREAM_TYPE, Verdict::Ok(media)),
        (&table::STREAM_EVENTS, stream::events(binding, &heard)),
        (&table::STREAM_FIRST, stream::first(binding, &heard)),
        (&table::STREAM_END, stream::end(binding, &heard)),
    ];
    for (check, verdict) in all {
        probe.find(check, &about, &asked, verdict);
    }
    resumed(desk, probe, &heard).await;
}

/// As if the stream had broken after its first event.
async fn resumed(desk: &mut Desk<'_>, probe: &mut Probe, heard: &Heard) {
    let asked = "SubscribeToTask with Last-Event-ID of the first event";
    let named = heard.events.first().and_then(|event| HeaderValue::from_str(event.id.as_deref()?).ok());
    let (Some(named), Some(id)) = (named, stream::task_id(desk.binding(), heard)) else {
        let verdict = stream::resumed(&Heard::default(), heard);
        return probe.find(&table::STREAM_RESUME, &desk.about, asked, verdict);
    };
    let mut request = operation(&desk.at, "SubscribeToTask", json!({ "id": id }), V10);
    request.headers.insert("last-event-id", named);
    let verdict = match probe.listen(probe.as_known(request)).await {
        Err(none) => none.verdict(),
        Ok((answer, again)) if content_type(&answer.headers) == "text/event-stream" => {
            stream::resumed(heard, &again)
        }
        // As the protocol has it for a task that has ended.
        Ok(_) => Verdict::Note("events have ids; the task has ended, and nothing more is told of it".into()),
    };
    probe.find(&table::STREAM_RESUME, &desk.about, asked, verdict);
}
