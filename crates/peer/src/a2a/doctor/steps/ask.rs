//! What an interface of 1.0 says to questions for which the agent has nothing to do: versions, errors, rights.

use super::super::finding::Verdict;
use super::super::judge::answer::{Outcome, Tally, read};
use super::super::judge::card::requires_credentials;
use super::super::probe::{NoAnswer, Patience, Probe};
use super::super::table;
use super::Desk;
use super::call::{self, V10, operation};
use crate::a2a::card::Binding;
use crate::a2a::content_type;
use crate::a2a::sse::Reader;
use crate::web;
use http::{HeaderMap, header};
use serde_json::json;
use synapse_a2a::fault::Kind;

/// Whether the interface can be looked at further.
pub(in super::super) async fn ask(desk: &mut Desk<'_>, probe: &mut Probe) -> bool {
    if !first(desk, probe).await {
        return false;
    }
    versions(desk, probe).await;
    strangers(desk, probe).await;
    nonsense(desk, probe).await;
    unknown_tasks(desk, probe).await;
    extended_card(desk, probe).await;
    true
}

/// What can be said once everything has been asked.
pub(in super::super) fn sum_up(desk: &Desk<'_>, probe: &mut Probe) {
    let tally = &desk.tally;
    probe.find(&table::ERROR_SHAPE, &desk.about, "all errors", tally.shape());
    probe.find(&table::ERROR_INFO, &desk.about, "all errors of A2A", tally.info());
    probe.find(&table::MEDIA, &desk.about, "all answers", tally.media());
}

/// A6, T1: is anybody there, and are we let in?
async fn first(desk: &mut Desk<'_>, probe: &mut Probe) -> bool {
    let asked = "GetTask of a task that never was";
    let request = operation(&desk.at, "GetTask", json!({ "id": desk.nobody() }), V10);
    let answer = match probe.ask(probe.as_known(request), Patience::Short).await {
        Ok(answer) => answer,
        Err(none) => {
            probe.find(&table::REACHED, &desk.about, asked, none.verdict());
            return false;
        }
    };
    let status = answer.status.as_u16();
    if matches!(status, 401 | 403) {
        probe.find(&table::REACHED, &desk.about, asked, Verdict::Ok(format!("status {status}")));
        not_let_in(desk, probe, &answer, asked);
        return false;
    }
    // Read on its own: what is no answer at all is told once, as not reached.
    if let Outcome::Strange(why) = read(desk.binding(), &answer) {
        probe.find(&table::REACHED, &desk.about, asked, Verdict::Off(why));
        return false;
    }
    probe.find(
        &table::REACHED,
        &desk.about,
        asked,
        Verdict::Ok(format!("it answers in {}", desk.binding().name())),
    );
    let verdict = desk.tally.refused(desk.binding(), asked, &answer, &[Kind::TaskNotFound]);
    probe.find(&table::GET_UNKNOWN, &desk.about, asked, verdict);
    true
}

fn not_let_in(desk: &Desk<'_>, probe: &mut Probe, answer: &web::Response, asked: &str) {
    let status = answer.status.as_u16();
    let verdict = if probe.has_secret() {
        Verdict::Off(format!("status {status}, with the credentials that were given"))
    } else {
        Verdict::Skipped(format!(
            "status {status}: it wants credentials, so nothing more was asked; give them with --token-file or --token-env"
        ))
    };
    probe.find(&table::LET_IN, &desk.about, asked, verdict);
    if status == 401 {
        probe.find(&table::CHALLENGE, &desk.about, asked, challenge(&answer.headers));
    }
    let declared = if desk.card["securitySchemes"].as_object().is_some_and(|all| !all.is_empty()) {
        Verdict::Ok("the card has schemes".into())
    } else {
        Verdict::Off(format!("status {status}, and the card has no scheme"))
    };
    probe.find(&table::AUTH_DECLARED, &desk.about, asked, declared);
}

fn challenge(headers: &HeaderMap) -> Verdict {
    match headers.get(header::WWW_AUTHENTICATE) {
        Some(_) => Verdict::Ok("it is there".into()),
        None => Verdict::Off("it is not there".into()),
    }
}

/// V8, V9.
async fn versions(desk: &mut Desk<'_>, probe: &mut Probe) {
    let task = json!({ "id": desk.nobody() });
    let asked = "GetTask without A2A-Version";
    let request = operation(&desk.at, "GetTask", task.clone(), None);
    let verdict = match probe.ask(probe.as_known(request), Patience::Short).await {
        Ok(answer) => without_version(desk, &answer, asked),
        Err(none) => none.verdict(),
    };
    probe.find(&table::NO_VERSION, &desk.about, asked, verdict);
    let request = operation(&desk.at, "GetTask", task, Some("9.9"));
    desk.refused(probe, &table::OTHER_VERSION, "GetTask with A2A-Version: 9.9", request, &[Kind::Version])
        .await;
}

fn without_version(desk: &mut Desk<'_>, answer: &web::Response, asked: &str) -> Verdict {
    let binding = desk.binding();
    // What 0.3 says has another form, and is not counted.
    let outcome = match read(binding, answer) {
        Outcome::Error(told) if told.is(binding, Kind::Version) => desk.tally.read(binding, asked, answer),
        other => other,
    };
    match outcome {
        Outcome::Error(told) if told.is(binding, Kind::Version) => Verdict::Ok(told.words(binding)),
        // The methods of 0.3 have other names, so that it does not know this one.
        Outcome::Error(told) if binding == Binding::JsonRpc && told.is(binding, Kind::Method) => {
            Verdict::Ok(format!("{}, as of 0.3", told.words(binding)))
        }
        // Over HTTP+JSON both versions may have the same path.
        Outcome::Error(told) if binding == Binding::HttpJson && desk.speaks_old => {
            Verdict::Ok(format!("{}, as of 0.3", told.words(binding)))
        }
        Outcome::Error(told) => Verdict::Off(format!("it was taken for 1.0: {}", told.words(binding))),
        Outcome::Result(_) => Verdict::Off("it was taken for 1.0, and answered".into()),
        // What errors over HTTP+JSON look like was left open in 0.3.
        Outcome::Strange(why) if desk.speaks_old && answer.status.is_client_error() => {
            Verdict::Ok(format!("{why}, as of 0.3"))
        }
        Outcome::Strange(why) if answer.status == 404 => {
            Verdict::Note(format!("{why}; whether 0.3 was meant cannot be told"))
        }
        Outcome::Strange(why) => Verdict::Off(why),
    }
}

/// E2, E3.
async fn strangers(desk: &mut Desk<'_>, probe: &mut Probe) {
    let asked = "GetTask without credentials";
    if !requires_credentials(desk.card) {
        let why = "the card requires none".to_owned();
        return probe.find(&table::STRANGERS, &desk.about, asked, Verdict::Skipped(why));
    }
    if !probe.has_secret() {
        let why = "the card requires credentials, and without any we were let in".to_owned();
        return probe.find(&table::STRANGERS, &desk.about, asked, Verdict::Off(why));
    }
    let request = operation(&desk.at, "GetTask", json!({ "id": desk.nobody() }), V10);
    let answer = match probe.ask(request, Patience::Short).await {
        Ok(answer) => answer,
        Err(none) => return probe.find(&table::STRANGERS, &desk.about, asked, none.verdict()),
    };
    let status = answer.status.as_u16();
    if status == 401 {
        probe.find(&table::CHALLENGE, &desk.about, asked, challenge(&answer.headers));
    }
    let binding = desk.binding();
    let verdict = match read(binding, &answer) {
        _ if matches!(status, 401 | 403) => Verdict::Ok(format!("status {status}")),
        Outcome::Error(told) if told.is(binding, Kind::TaskNotFound) => {
            Verdict::Off(format!("let in: {}", told.words(binding)))
        }
        Outcome::Error(told) => Verdict::Ok(told.words(binding)),
        Outcome::Result(_) => Verdict::Off("let in, and answered".into()),
        Outcome::Strange(why) => Verdict::Off(why),
    };
    probe.find(&table::STRANGERS, &desk.about, asked, verdict);
}

/// J9, E6: what no client should send.
async fn nonsense(desk: &mut Desk<'_>, probe: &mut Probe) {
    let (binding, at) = (desk.binding(), desk.at.clone());
    let asked = match binding {
        Binding::JsonRpc => "the method NoSuchOperation",
        Binding::HttpJson => "GET /NoSuchOperation",
    };
    let request = operation(&at, "NoSuchOperation", json!({}), V10);
    match binding {
        Binding::JsonRpc => {
            desk.refused(probe, &table::UNKNOWN_METHOD, asked, request, &[Kind::Method]).await
        }
        Binding::HttpJson => {
            let verdict = match probe.ask(probe.as_known(request), Patience::Short).await {
                Ok(answer) if matches!(answer.status.as_u16(), 404 | 405) => {
                    Verdict::Ok(format!("status {}", answer.status.as_u16()))
                }
                Ok(answer) => Verdict::Off(format!("status {}", answer.status.as_u16())),
                Err(none) => none.verdict(),
            };
            probe.find(&table::UNKNOWN_METHOD, &desk.about, asked, verdict);
        }
    }
    let broken = [Kind::Parse, Kind::Request, Kind::Params];
    let wanted = if binding == Binding::JsonRpc { &broken[..1] } else { &broken[..] };
    desk.refused(probe, &table::BROKEN_JSON, "a message whose JSON breaks off", call::broken(&at), wanted)
        .await;
    let wrong = [Kind::Params, Kind::Request];
    let request = operation(&at, "SendMessage", json!({}), V10);
    desk.refused(probe, &table::NO_MESSAGE, "SendMessage without a message", request, &wrong).await;
    let id = format!("synapse-doctor-{}-empty", desk.mark);
    let empty = json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [] } });
    let request = operation(&at, "SendMessage", empty, V10);
    desk.refused(probe, &table::EMPTY_PARTS, "SendMessage with an empty list of parts", request, &wrong)
        .await;
    let request = operation(&at, "ListTasks", json!({ "pageSize": 101 }), V10);
    desk.refused(probe, &table::PAGE_SIZE, "ListTasks with pageSize 101", request, &wrong).await;
}

/// T13, T18, T19, P1, P4.
async fn unknown_tasks(desk: &mut Desk<'_>, probe: &mut Probe) {
    let (at, task) = (desk.at.clone(), json!({ "id": desk.nobody() }));
    let request = operation(&at, "CancelTask", task.clone(), V10);
    desk.refused(
        probe,
        &table::CANCEL_UNKNOWN,
        "CancelTask of a task that never was",
        request,
        &[Kind::TaskNotFound],
    )
    .await;
    let asked = "SubscribeToTask of a task that never was";
    let wanted: &[Kind] = if desk.declares("streaming") {
        &[Kind::TaskNotFound]
    } else {
        &[Kind::Unsupported, Kind::TaskNotFound]
    };
    let verdict = match subscribe(desk, probe, &desk.nobody()).await {
        Ok(answer) => refused_stream(&mut desk.tally, at.binding, asked, answer, wanted),
        Err(none) => none.verdict(),
    };
    probe.find(&table::SUBSCRIBE_UNKNOWN, &desk.about, asked, verdict);
    let wanted = if desk.declares("pushNotifications") { Kind::TaskNotFound } else { Kind::PushNotSupported };
    let request = operation(&at, "ListTaskPushNotificationConfigs", json!({ "taskId": desk.nobody() }), V10);
    let asked = "ListTaskPushNotificationConfigs of a task that never was";
    desk.refused(probe, &table::PUSH, asked, request, &[wanted]).await;
}

/// H10: by the one verb, and by the other where that one is not known.
pub(in super::super) async fn subscribe(
    desk: &Desk<'_>,
    probe: &mut Probe,
    id: &str,
) -> Result<web::Response, NoAnswer> {
    let request = operation(&desk.at, "SubscribeToTask", json!({ "id": id }), V10);
    let answer = probe.ask(probe.as_known(request), Patience::Short).await?;
    if desk.binding() == Binding::HttpJson && answer.status == 405 {
        return probe.ask(probe.as_known(call::subscribe_by_get(&desk.at, id)), Patience::Short).await;
    }
    Ok(answer)
}

/// An error where a stream was asked for may come in the stream; it is better without one.
pub(in super::super) fn refused_stream(
    tally: &mut Tally,
    binding: Binding,
    asked: &str,
    mut answer: web::Response,
    wanted: &[Kind],
) -> Verdict {
    if content_type(&answer.headers) != "text/event-stream" {
        return tally.refused(binding, asked, &answer, wanted);
    }
    let mut reader = Reader::default();
    let read = reader.take_in(&answer.body).and_then(|()| reader.take_in(b"\n\n"));
    let Some(event) = read.ok().and_then(|()| reader.next()) else {
        return Verdict::Off("a stream without events".into());
    };
    answer.body = event.data.into();
    answer.headers.remove(header::CONTENT_TYPE);
    // Its form is that of an event, not of an answer: another tally.
    match Tally::default().refused(binding, asked, &answer, wanted) {
        Verdict::Ok(words) => Verdict::Note(format!("{words}, as an event of a stream")),
        other => other,
    }
}

/// A14–A16.
async fn extended_card(desk: &mut Desk<'_>, probe: &mut Probe) {
    let (at, asked) = (desk.at.clone(), "GetExtendedAgentCard");
    let request = operation(&at, "GetExtendedAgentCard", json!({}), V10);
    if !desk.declares("extendedAgentCard") {
        return desk.refused(probe, &table::EXTENDED_CARD, asked, request, &[Kind::Unsupported]).await;
    }
    let verdict = if probe.has_secret() {
        match probe.ask(probe.as_known(request.clone()), Patience::Short).await {
            Ok(answer) => match desk.tally.read(at.binding, asked, &answer) {
                Outcome::Result(card) if card["name"].is_string() => Verdict::Ok("a card".into()),
                Outcome::Result(_) => Verdict::Off("something that is no card".into()),
                Outcome::Error(told) if told.is(at.binding, Kind::NoExtendedCard) => {
                    Verdict::Ok(told.words(at.binding))
                }
                Outcome::Error(told) => Verdict::Off(told.words(at.binding)),
                Outcome::Strange(why) => Verdict::Off(why),
            },
            Err(none) => none.verdict(),
        }
    } else {
        Verdict::Skipped(
            "it is for callers with credentials; give them with --token-file or --token-env".into(),
        )
    };
    probe.find(&table::EXTENDED_CARD, &desk.about, asked, verdict);
    let verdict = match probe.ask(request, Patience::Short).await {
        Ok(answer) if matches!(answer.status.as_u16(), 401 | 403) => {
            Verdict::Ok(format!("status {}", answer.status.as_u16()))
        }
        Ok(answer) => match read(at.binding, &answer) {
            Outcome::Error(told) => Verdict::Ok(told.words(at.binding)),
            Outcome::Result(_) => Verdict::Off("it was given out".into()),
            Outcome::Strange(why) => Verdict::Off(why),
        },
        Err(none) => none.verdict(),
    };
    probe.find(&table::EXTENDED_CARD_OPEN, &desk.about, "GetExtendedAgentCard without credentials", verdict);
}
