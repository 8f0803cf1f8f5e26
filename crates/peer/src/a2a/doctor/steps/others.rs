//! Interfaces that are looked at in brief: those of 0.3, and gRPC (L1, L2, R1).

use super::super::finding::Verdict;
use super::super::judge::answer::{Outcome, read};
use super::super::probe::{Patience, Probe};
use super::super::table;
use crate::a2a::call::{self, Ask, Shape};
use crate::a2a::card::{Binding, GrpcInterface, Interface, Version};
use crate::a2a::grpc;
use crate::web;
use bytes::Bytes;
use serde_json::{Value, json};
use synapse_a2a::fault::Kind;
use synapse_a2a::grpc::{Messages, Told};
use synapse_a2a::pb;

/// 0.3: does it answer in the words of 0.3?
pub(in super::super) async fn old(at: &Interface, probe: &mut Probe, mark: &str, send: Option<&str>) {
    let about = at.to_string();
    let nobody = format!("synapse-doctor-no-such-task-{mark}");
    let asked = "tasks/get of a task that never was";
    let answer = match made(probe, &Ask::Get(&nobody), at) {
        Ok(request) => probe.ask(request, Patience::Short).await,
        Err(why) => return probe.find(&table::OLD_GET, &about, asked, Verdict::Skipped(why)),
    };
    let verdict = match &answer {
        Err(none) => none.verdict(),
        Ok(answer) if matches!(answer.status.as_u16(), 401 | 403) => {
            let why = format!("status {}: it wants credentials", answer.status.as_u16());
            if probe.has_secret() { Verdict::Off(why) } else { Verdict::Skipped(why) }
        }
        Ok(answer) => match (at.binding, read(at.binding, answer)) {
            (Binding::HttpJson, _) if answer.status == 404 => Verdict::Ok("status 404".into()),
            (Binding::JsonRpc, Outcome::Error(told)) if told.is(at.binding, Kind::TaskNotFound) => {
                Verdict::Ok(told.words(at.binding))
            }
            (_, Outcome::Error(told)) => Verdict::Off(told.words(at.binding)),
            (_, Outcome::Result(_)) => Verdict::Off("no error".into()),
            (_, Outcome::Strange(why)) => Verdict::Off(why),
        },
    };
    let is_there = matches!(verdict, Verdict::Ok(_));
    probe.find(&table::OLD_GET, &about, asked, verdict);
    if !is_there {
        return;
    }
    if at.binding == Binding::JsonRpc {
        unknown_method(at, probe, &about).await;
    }
    if let Some(text) = send {
        message(at, probe, &about, text, mark).await;
    }
}

async fn unknown_method(at: &Interface, probe: &mut Probe, about: &str) {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "no/such", "params": {} }).to_string();
    let request = web::Request::post(&at.url.to_string(), "application/json", body);
    let asked = "the method no/such";
    let verdict = match probe.ask(probe.as_known(request), Patience::Short).await {
        Ok(answer) => match read(at.binding, &answer) {
            Outcome::Error(told) if told.is(at.binding, Kind::Method) => Verdict::Ok(told.words(at.binding)),
            Outcome::Error(told) => Verdict::Off(told.words(at.binding)),
            Outcome::Result(_) => Verdict::Off("no error".into()),
            Outcome::Strange(why) => Verdict::Off(why),
        },
        Err(none) => none.verdict(),
    };
    probe.find(&table::OLD_METHOD, about, asked, verdict);
}

async fn message(at: &Interface, probe: &mut Probe, about: &str, text: &str, mark: &str) {
    let id = format!("synapse-doctor-{mark}-old-{}", at.binding.name().len());
    let ask = Ask::Send(super::call::message(text, &id, None));
    let verdict = match made(probe, &ask, at) {
        Err(why) => Verdict::Skipped(why),
        Ok(request) => match probe.ask(request, Patience::Long).await {
            Err(none) => none.verdict(),
            Ok(answer) => {
                let status = answer.status.as_u16();
                match call::read::<pb::SendMessageResponse>(at, Shape::Response, status, &answer.body) {
                    Ok(sent) if !sent.notes.is_empty() => Verdict::Off(sent.notes.join("; ")),
                    Ok(sent) if sent.value.payload.is_some() => {
                        Verdict::Ok("a task or a message of 0.3".into())
                    }
                    Ok(_) => Verdict::Off("neither a task nor a message".into()),
                    Err(e) => Verdict::Off(e.to_string()),
                }
            }
        },
    };
    probe.find(&table::OLD_SEND, about, format!("message/send with {text:?}"), verdict);
}

fn made(probe: &Probe, ask: &Ask<'_>, at: &Interface) -> Result<web::Request, String> {
    ask.request(at).map(|request| probe.as_known(request)).map_err(|e| e.to_string())
}

/// R1, R5: whether HTTP/2 is spoken there, and gRPC over it.
pub(in super::super) async fn grpc(
    at: &GrpcInterface,
    about: &str,
    probe: &mut Probe,
    mark: &str,
    send: Option<&str>,
) {
    let asked = "the first frames of HTTP/2";
    let origin = at.url.origin();
    let verdict = match probe.count() {
        Err(none) => none.verdict(),
        Ok(limits) => match probe.web().speaks_h2(&at.url.to_string(), limits).await {
            Err(e) => Verdict::Off(e.to_string()),
            Ok(()) if origin.is_https => Verdict::Ok("HTTP/2, encrypted".into()),
            Ok(()) if origin.is_loopback() => Verdict::Ok("HTTP/2, not encrypted, on this machine".into()),
            Ok(()) => Verdict::Warning("HTTP/2, but not encrypted".into()),
        },
    };
    let is_there = matches!(verdict, Verdict::Ok(_) | Verdict::Warning(_));
    probe.find(&table::GRPC, about, asked, verdict);
    if !is_there || !grpc_unknown_task(at, about, probe, mark).await {
        return;
    }
    grpc_unknown_method(at, about, probe).await;
    if let Some(text) = send {
        grpc_message(at, about, probe, text, mark).await;
    }
}

/// Whether calls are answered at all.
async fn grpc_unknown_task(at: &GrpcInterface, about: &str, probe: &mut Probe, mark: &str) -> bool {
    const NOT_FOUND: i32 = 5;
    const DENIED: [i32; 2] = [7, 16];
    let nobody = format!("synapse-doctor-no-such-task-{mark}");
    let asked = "GetTask of a task that never was";
    let told = match called(at, &Ask::Get(&nobody), probe, Patience::Short).await {
        Ok((told, _)) => told,
        Err(verdict) => {
            probe.find(&table::GRPC_GET, about, asked, verdict);
            return false;
        }
    };
    if DENIED.contains(&told.code) {
        let why = format!("{}: it wants credentials", words(&told));
        let verdict = if probe.has_secret() { Verdict::Off(why) } else { Verdict::Skipped(why) };
        probe.find(&table::GRPC_GET, about, asked, verdict);
        return false;
    }
    let is_right = told.code == NOT_FOUND;
    let verdict = if is_right { Verdict::Ok(words(&told)) } else { Verdict::Off(words(&told)) };
    probe.find(&table::GRPC_GET, about, asked, verdict);
    // 0.3 says nothing of details.
    if at.version == Version::V03 {
        return is_right;
    }
    let verdict = match told.reason.as_deref() {
        Some(reason) if reason == Kind::TaskNotFound.codes().reason => Verdict::Ok(reason.to_owned()),
        Some(other) => Verdict::Off(format!("the reason {other:?}")),
        None => Verdict::Off("none".into()),
    };
    probe.find(&table::GRPC_INFO, about, asked, verdict);
    is_right
}

async fn grpc_unknown_method(at: &GrpcInterface, about: &str, probe: &mut Probe) {
    const UNIMPLEMENTED: i32 = 12;
    let asked = "the operation NoSuchOperation";
    let verdict = match grpc::request(&Ask::ExtendedCard, at) {
        Err(e) => Verdict::Skipped(e.to_string()),
        Ok(mut request) => {
            let service = request.url.rsplit_once('/').map_or("", |(service, _)| service);
            request.url = format!("{service}/NoSuchOperation");
            match answered(request, probe, Patience::Short).await {
                Ok((told, _)) if told.code == UNIMPLEMENTED => Verdict::Ok(words(&told)),
                Ok((told, _)) => Verdict::Off(words(&told)),
                Err(verdict) => verdict,
            }
        }
    };
    probe.find(&table::GRPC_METHOD, about, asked, verdict);
}

async fn grpc_message(at: &GrpcInterface, about: &str, probe: &mut Probe, text: &str, mark: &str) {
    let ask = Ask::Send(super::call::message(
        text,
        &format!("synapse-doctor-{mark}-grpc-{}", at.version.name()),
        None,
    ));
    let verdict = match called(at, &ask, probe, Patience::Long).await {
        Err(verdict) => verdict,
        Ok((told, _)) if told.code != 0 => Verdict::Off(words(&told)),
        Ok((_, body)) => {
            let mut messages = Messages::default();
            messages.take_in(&body);
            let sent = match messages.next(usize::MAX) {
                Ok(Some(message)) => grpc::answer_of(&ask, at.version, message).map_err(|e| e.to_string()),
                Ok(None) => Err("no message".to_owned()),
                Err(why) => Err(why),
            };
            let is_one = |sent: &Value| sent["task"].is_object() || sent["message"].is_object();
            match sent {
                Ok(sent) if is_one(&sent) => Verdict::Ok("a task or a message".into()),
                Ok(_) => Verdict::Off("neither a task nor a message".into()),
                Err(why) => Verdict::Off(why),
            }
        }
    };
    probe.find(&table::GRPC_SEND, about, format!("SendMessage with {text:?}"), verdict);
}

/// How a call ended, and what came before that.
async fn called(
    at: &GrpcInterface,
    ask: &Ask<'_>,
    probe: &mut Probe,
    patience: Patience,
) -> Result<(Told, Bytes), Verdict> {
    let request = grpc::request(ask, at).map_err(|e| Verdict::Skipped(e.to_string()))?;
    answered(request, probe, patience).await
}

async fn answered(
    request: web::Request,
    probe: &mut Probe,
    patience: Patience,
) -> Result<(Told, Bytes), Verdict> {
    let answer = probe.call(probe.as_known(request), patience).await.map_err(|none| none.verdict())?;
    let status = answer.status.as_u16();
    let told = Told::read(&answer.headers);
    let told = told.ok_or_else(|| Verdict::Off(format!("status {status} of HTTP, and no grpc-status")))?;
    Ok((told, answer.body))
}

fn words(told: &Told) -> String {
    let reason = told.reason.as_deref().unwrap_or_default();
    format!("status {} {reason} {:?}", told.code, told.message)
}
