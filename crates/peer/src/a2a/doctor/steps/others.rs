//! Interfaces that are looked at in brief: those of 0.3, and gRPC (L1, L2, R1).

use super::super::finding::Verdict;
use super::super::judge::answer::{Outcome, read};
use super::super::probe::{Patience, Probe};
use super::super::table;
use crate::a2a::call::{self, Ask, Shape};
use crate::a2a::card::{Binding, Interface};
use crate::a2a::url::HttpUrl;
use crate::web;
use serde_json::json;
use synapse_a2a::fault::Kind;
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
                    Ok(sent) if sent.payload.is_some() => Verdict::Ok("a task or a message of 0.3".into()),
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

/// R1: whether HTTP/2 is spoken there; nothing is asked.
pub(in super::super) async fn grpc(at: &HttpUrl, about: &str, probe: &mut Probe) {
    let asked = "the first frames of HTTP/2";
    let verdict = match probe.count() {
        Err(none) => none.verdict(),
        Ok(limits) => match probe.web().speaks_h2(&at.to_string(), limits).await {
            Err(e) => Verdict::Off(e.to_string()),
            Ok(()) if at.origin().is_https => Verdict::Ok("HTTP/2, encrypted".into()),
            Ok(()) if at.origin().is_loopback() => {
                Verdict::Ok("HTTP/2, not encrypted, on this machine".into())
            }
            Ok(()) => Verdict::Warning("HTTP/2, but not encrypted".into()),
        },
    };
    probe.find(&table::GRPC, about, asked, verdict);
}
