//! The doctor for A2A servers: asks one what clients ask, and a few things that they should not, and says what is not
//! as the protocol has it.
//!
//! `table` has all that is looked at, `steps` asks, `judge` thinks, `probe` keeps time, number and words of what is asked.
//!
//! Invariant: the agent itself has work to do only if a text to send is given, and then once for each case. No redirect
//! is followed, no host is called that the user or the card's own host does not stand for.
//! Not here: how it is shown (`synapse`).

mod finding;
mod judge;
mod probe;
mod steps;
mod table;

pub use finding::{Finding, Level};
pub use probe::Exchange;

use super::card::{Binding, Card, GrpcInterface, Interface, Version};
use super::error::AskError;
use super::find::Found;
use super::url::HttpUrl;
use crate::{Credentials, web};
use finding::{Verdict, cut};
use judge::answer::Tally;
use judge::card::{Declared, interfaces, minor};
use probe::Probe;
use serde_json::Value;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use steps::Desk;

/// What is to be looked at.
#[derive(Debug, Clone)]
pub struct Options {
    /// Makes the agent work; without it, what becomes of a message is not looked at.
    pub send: Option<String>,
    /// For everything together.
    pub within: Duration,
    pub allow_hosts: Vec<String>,
}

/// All that was found.
#[derive(Debug)]
pub struct Report {
    pub url: String,
    /// Where the card is, if there is one.
    pub card_at: Option<String>,
    /// Its own word.
    pub name: Option<String>,
    pub findings: Vec<Finding>,
    pub requests: usize,
    /// Not everything was asked: the time was over, or there were too many questions.
    pub ran_out: bool,
    pub took: Duration,
    pub wire: Vec<Exchange>,
}

impl Report {
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

/// Examines whoever is at a URL. `hear` is told of each exchange as it happens. An error if nobody could be called.
pub async fn examine(
    url: &HttpUrl,
    with: &Credentials,
    options: &Options,
    hear: Box<dyn FnMut(&Exchange) + Send>,
) -> Result<Report, AskError> {
    let begun = Instant::now();
    let secret = with.secret().map_err(|e| AskError::Unusable { why: e.to_string() })?;
    let mut probe = Probe::new(super::client(url, with), secret, options.within, hear);
    // A URL that cannot be called is not the server's fault.
    probe.web().check(&url.to_string()).map_err(web::WebError::from)?;
    let read = steps::card::look(&mut probe, url).await;
    if let Some(read) = &read {
        for declared in interfaces(&read.value) {
            interface(&mut probe, read, &declared, with, options).await;
        }
    }
    let text = |name: &str| Some(cut(read.as_ref()?.value[name].as_str()?, 80));
    Ok(Report {
        url: url.to_string(),
        name: text("name"),
        card_at: read.as_ref().map(|read| read.at.to_string()),
        requests: probe.requests,
        ran_out: probe.ran_out,
        findings: probe.findings,
        wire: probe.wire,
        took: begun.elapsed(),
    })
}

async fn interface(
    probe: &mut Probe,
    read: &steps::card::Read,
    declared: &Declared,
    with: &Credentials,
    options: &Options,
) {
    let shown = format!("{} {} at {}", declared.binding, minor(&declared.version), declared.url);
    let about = cut(&shown, 160);
    let is_grpc = declared.binding == "GRPC";
    let at = match place(read, declared, is_grpc) {
        Ok(at) => at,
        Err(verdict) => {
            let check =
                if matches!(verdict, Verdict::Off(_)) { &table::REACHED } else { &table::OTHER_BINDING };
            return probe.find(check, &about, "the interface of the card", verdict);
        }
    };
    probe.over_http = at.binding == Binding::HttpJson;
    let Some(found) = allowed(read, &at, options) else {
        let why =
            format!("it is at another host than the card, {}; nothing was sent there", read.at.origin());
        return probe.find(&table::CARD_HOSTS, &about, "the URL of the interface", Verdict::Off(why));
    };
    match super::secret(&found.card, &at.url, with) {
        Ok(secret) => probe.show(secret),
        Err(e) => {
            probe.show(None);
            probe.find(&table::LET_IN, &about, "the credentials", Verdict::Skipped(e.to_string()));
        }
    }
    // Nothing in it can be guessed to be anybody's.
    let mark = format!("{:x}", SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos());
    if is_grpc {
        let at = GrpcInterface { url: at.url, version: at.version, tenant: at.tenant };
        return steps::others::grpc(&at, &about, probe, &mark, options.send.as_deref()).await;
    }
    if at.version == Version::V03 {
        return steps::others::old(&at, probe, &mark, options.send.as_deref()).await;
    }
    let (card, tally) = (&read.value, Tally::default());
    let speaks_old = speaks_old(card, &at);
    let mut desk = Desk { at, about, card, speaks_old, tally, mark };
    if !steps::ask::ask(&mut desk, probe).await {
        return;
    }
    match &options.send {
        Some(text) => steps::sent::sent(&mut desk, probe, text).await,
        None => {
            let why = "--send sends one: the agent then works on it, once for each case".to_owned();
            probe.find(&table::MESSAGE, &desk.about, "nothing", Verdict::Skipped(why));
        }
    }
    steps::ask::sum_up(&desk, probe);
}

/// Where it is, if it can be looked at.
fn place(read: &steps::card::Read, declared: &Declared, is_grpc: bool) -> Result<Interface, Verdict> {
    let binding = match declared.binding.as_str() {
        "HTTP+JSON" => Binding::HttpJson,
        "JSONRPC" | "GRPC" => Binding::JsonRpc,
        _ => return Err(Verdict::Skipped("the binding is not known here".into())),
    };
    let version = match minor(&declared.version).as_str() {
        "1.0" => Version::V10,
        "0.3" => Version::V03,
        _ => return Err(Verdict::Skipped("the version is not known here".into())),
    };
    let raw = if is_grpc && !declared.url.contains("://") {
        // gRPC has its own way to write addresses; it is as safe as the card.
        let scheme = if read.at.origin().is_https { "https" } else { "http" };
        format!("{scheme}://{}", declared.url)
    } else {
        declared.url.clone()
    };
    let url = HttpUrl::parse(&raw).map_err(Verdict::Off)?;
    Ok(Interface { url, binding, version, tenant: declared.tenant.clone() })
}

/// The card with this interface alone, if it may be called.
fn allowed(read: &steps::card::Read, at: &Interface, options: &Options) -> Option<Found> {
    let mut value = read.value.clone();
    if !value["name"].is_string() {
        value["name"] = "?".into();
    }
    let mut card = Card::read(value).ok()?;
    (card.interfaces, card.grpc) = (vec![at.clone()], Vec::new());
    let found = Found { card, at: read.at.clone(), meant: None, etag: None, max_age_s: 0 };
    found.place(&options.allow_hosts).is_ok().then_some(found)
}

fn speaks_old(card: &Value, at: &Interface) -> bool {
    let is_old = |one: &Declared| minor(&one.version) == "0.3" && one.binding == at.binding.name();
    let same_host =
        |one: &Declared| HttpUrl::parse(&one.url).is_ok_and(|url| url.origin() == at.url.origin());
    interfaces(card).iter().any(|one| is_old(one) && same_host(one))
}
