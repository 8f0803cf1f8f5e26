//! The card: where it is, what is in it, how it is kept, who has signed it (A1–A6, A18–A26, L3).

use super::super::finding::{Verdict, cut};
use super::super::judge::card as judge;
use super::super::probe::{NoAnswer, Patience, Probe};
use super::super::table;
use crate::a2a::find::places;
use crate::a2a::url::HttpUrl;
use crate::web;
use http::header;
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};
use synapse_a2a::signing::{self, Covers, Jwks, Untrusted};

/// A card that could be read.
pub(in super::super) struct Read {
    pub value: Value,
    pub at: HttpUrl,
}

const ABOUT: &str = "card";
/// A page that has no business with the agent; the name can belong to nobody.
const FOREIGN_ORIGIN: &str = "https://page.invalid";
const CARD: &str = ".well-known/agent-card.json";
const OLD_CARD: &str = ".well-known/agent.json";

pub(in super::super) async fn look(probe: &mut Probe, url: &HttpUrl) -> Option<Read> {
    let (at, answer) = find(probe, url).await?;
    let asked = format!("GET {at}");
    probe.find(&table::CARD_CONTENT_TYPE, ABOUT, &asked, judge::content_type(&answer));
    let value = match serde_json::from_slice::<Value>(&answer.body) {
        Ok(value) if value.is_object() => value,
        Ok(_) => {
            probe.find(&table::CARD_JSON, ABOUT, &asked, Verdict::Off("JSON, but no object".into()));
            return None;
        }
        Err(e) => {
            let body = String::from_utf8_lossy(answer.body.get(..500).unwrap_or(&answer.body));
            let why = format!("no JSON ({e}): {}", cut(body.trim(), 120));
            probe.find(&table::CARD_JSON, ABOUT, &asked, Verdict::Off(why));
            return None;
        }
    };
    probe.find(&table::CARD_JSON, ABOUT, &asked, Verdict::Ok(format!("{} bytes", answer.body.len())));
    for (check, judged) in [
        (&table::CARD_FIELDS, judge::fields(&value)),
        (&table::CARD_SKILLS, judge::skills(&value)),
        (&table::CARD_INTERFACES, judge::interface_fields(&value)),
        (&table::CARD_PROVIDER, judge::provider(&value)),
        (&table::CARD_SECURITY, judge::security(&value)),
        (&table::CARD_SECRETS, judge::secrets(&value)),
        (&table::CARD_ENCRYPTED, encrypted(&at)),
        (&table::CARD_CACHE, judge::cache(&answer)),
    ] {
        probe.find(check, ABOUT, &asked, judged);
    }
    unchanged(probe, &at, &answer).await;
    foreign(probe, &at).await;
    signature(probe, &at, &value).await;
    Some(Read { value, at })
}

/// Where cards are looked for, in the order of clients.
async fn find(probe: &mut Probe, url: &HttpUrl) -> Option<(HttpUrl, web::Response)> {
    let mut misses = Vec::new();
    let all = places(url);
    for (at, _) in &all {
        let asked = format!("GET {at}");
        match get(probe, at, None).await {
            Ok(answer) if answer.status == 200 => {
                let verdict = if url.is_bare() && at.path() != format!("/{CARD}") {
                    Verdict::Off(format!("{}; there is one at {at}", misses.join("; ")))
                } else if !url.is_bare() && all.len() > 1 && at.path() != format!("/{CARD}") {
                    Verdict::Note(format!("it is at {at}; who knows only the host looks at /{CARD}"))
                } else {
                    Verdict::Ok(format!("it is at {at}"))
                };
                probe.find(&table::CARD_FOUND, ABOUT, &asked, verdict);
                old_place(probe, at).await;
                return Some((at.clone(), answer));
            }
            Ok(answer) => misses.push(format!("{at}: {}", refusal(&answer))),
            Err(none @ NoAnswer::Stopped(_)) => {
                probe.find(&table::CARD_FOUND, ABOUT, &asked, none.verdict());
                return None;
            }
            // Who does not answer here does not answer there.
            Err(none @ NoAnswer::Web(_)) => {
                probe.find(&table::CARD_FOUND, ABOUT, &asked, none.verdict());
                return None;
            }
        }
    }
    probe.find(&table::CARD_FOUND, ABOUT, format!("the card of {url}"), Verdict::Off(misses.join("; ")));
    None
}

fn refusal(answer: &web::Response) -> String {
    let status = answer.status.as_u16();
    match answer.headers.get(header::LOCATION).and_then(|to| to.to_str().ok()) {
        Some(to) if answer.status.is_redirection() => {
            format!("status {status} to {}, which is not followed", cut(to, 120))
        }
        _ => format!("status {status}"),
    }
}

async fn old_place(probe: &mut Probe, at: &HttpUrl) {
    if at.path() != format!("/{CARD}") {
        return;
    }
    let old = at.at_root(OLD_CARD);
    let verdict = match get(probe, &old, None).await {
        Ok(answer) if answer.status == 200 => Verdict::Ok("there is one too".into()),
        Ok(answer) => Verdict::Note(format!("there is none ({})", refusal(&answer))),
        Err(none) => none.verdict(),
    };
    probe.find(&table::CARD_OLD_PLACE, ABOUT, format!("GET {old}"), verdict);
}

/// E11.
fn encrypted(at: &HttpUrl) -> Verdict {
    match (at.origin().is_https, at.origin().is_loopback()) {
        (true, _) => Verdict::Ok("https".into()),
        (false, true) => Verdict::Note("http, on this machine".into()),
        (false, false) => Verdict::Off("http: others can read and change what is said".into()),
    }
}

/// A24, A25.
async fn unchanged(probe: &mut Probe, at: &HttpUrl, before: &web::Response) {
    let asked = format!("GET {at} with If-None-Match");
    let Some(tag) = before.headers.get(header::ETAG) else {
        let why = "there is no ETag to ask with".to_owned();
        return probe.find(&table::CARD_UNCHANGED, ABOUT, asked, Verdict::Skipped(why));
    };
    let verdict = match get(probe, at, Some((header::IF_NONE_MATCH, tag.clone()))).await {
        Ok(answer) if answer.status == 304 => Verdict::Ok("status 304".into()),
        Ok(answer) => Verdict::Off(refusal(&answer)),
        Err(none) => none.verdict(),
    };
    probe.find(&table::CARD_UNCHANGED, ABOUT, asked, verdict);
}

async fn foreign(probe: &mut Probe, at: &HttpUrl) {
    let origin = http::HeaderValue::from_static(FOREIGN_ORIGIN);
    let verdict = match get(probe, at, Some((header::ORIGIN, origin))).await {
        Ok(answer) => judge::cors(&answer, FOREIGN_ORIGIN),
        Err(none) => none.verdict(),
    };
    probe.find(&table::CARD_CORS, ABOUT, format!("GET {at} with Origin: {FOREIGN_ORIGIN}"), verdict);
}

/// A18–A23: with the keys of the card's own host, and no others.
async fn signature(probe: &mut Probe, at: &HttpUrl, card: &Value) {
    let claims = signing::claims(card);
    let asked = "the signatures of the card";
    if claims.is_empty() {
        let verdict = match card["signatures"].as_array().map(Vec::len) {
            None | Some(0) => Verdict::Note("it is not signed; only the connection says whose it is".into()),
            Some(n) => Verdict::Off(format!(
                "{n}, and none can be read (protected header with alg and kid, signature)"
            )),
        };
        return probe.find(&table::CARD_SIGNATURE, ABOUT, asked, verdict);
    }
    let mut keys = claims.iter().filter_map(|claim| HttpUrl::parse(claim.jku.as_deref()?).ok());
    let Some(keys) = keys.find(|keys| keys.origin() == at.origin()) else {
        let why = "it is signed, with keys that are not at its host; they were not fetched".to_owned();
        return probe.find(&table::CARD_SIGNATURE, ABOUT, asked, Verdict::Note(why));
    };
    let asked = format!("the signatures of the card, with the keys at {keys}");
    let verdict = match get(probe, &keys, None).await {
        Ok(answer) if answer.status == 200 => verify(card, &answer.body),
        Ok(answer) => Verdict::Off(format!("the keys: {}", refusal(&answer))),
        Err(none) => none.verdict(),
    };
    probe.find(&table::CARD_SIGNATURE, ABOUT, asked, verdict);
}

fn verify(card: &Value, keys: &[u8]) -> Verdict {
    let Ok(set) = serde_json::from_slice::<Value>(keys) else {
        return Verdict::Off("the keys are no JSON".into());
    };
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match signing::verify(card, &Jwks::read(&set, now_s)) {
        Ok(verified) => {
            let covers = match verified.covers {
                Covers::Document => "all of it",
                Covers::Fields => "the fields of 1.0",
            };
            Verdict::Ok(format!("right, by the key {}; it covers {covers}", cut(&verified.thumbprint, 16)))
        }
        Err(e @ (Untrusted::Broken | Untrusted::UnknownKey { .. } | Untrusted::Unsigned)) => {
            Verdict::Off(e.to_string())
        }
    }
}

async fn get(
    probe: &mut Probe,
    at: &HttpUrl,
    more: Option<(http::HeaderName, http::HeaderValue)>,
) -> Result<web::Response, NoAnswer> {
    let mut request = web::Request::get(&at.to_string());
    request.headers.insert(header::ACCEPT, http::HeaderValue::from_static("application/json"));
    if let Some((name, value)) = more {
        request.headers.insert(name, value);
    }
    probe.ask(request, Patience::Short).await
}
