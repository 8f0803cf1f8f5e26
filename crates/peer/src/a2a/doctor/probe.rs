//! Asking: within a time and a number of requests, with every word of it kept for whoever wants to see it.
//!
//! Invariant: no redirect is followed, and no secret is in what is kept.
//! Not here: what is asked (`steps`), what answers mean (`judge`).

use super::finding::{Check, Finding, Verdict, cut};
use super::judge::stream::{Ending, Heard};
use super::table::over_http;
use crate::a2a::sse::Reader;
use crate::web::{self, Limits, Wait, WebError};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use std::time::{Duration, Instant};
use synapse_a2a::lenient;

/// Whatever a server does, more is not asked of it.
const REQUESTS_MAX: usize = 90;
/// How long an answer may take for which nobody has to work.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 4 << 20;
const EVENTS_MAX: usize = 10_000;
/// What is kept of a body.
const BODY_BYTES_SHOWN: usize = 8 << 10;
const MASK: &str = "***";
/// Headers of answers that may hold secrets.
const SECRET_HEADERS: [&str; 3] = ["set-cookie", "authorization", "proxy-authorization"];

/// One request and what came of it, without secrets. Stable as `a2a doctor --json --wire`.
#[derive(Debug, Clone, Serialize)]
pub struct Exchange {
    pub verb: String,
    pub url: String,
    pub request_headers: Vec<(String, String)>,
    pub request_body: String,
    /// None if there was no answer.
    pub status: Option<u16>,
    pub answer_headers: Vec<(String, String)>,
    pub answer_body: String,
    /// What is not as the protocol has it, and was read all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub odd: Vec<&'static str>,
    /// Why there was no answer, or no whole one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    pub ms: u64,
}

/// Why there is nothing to judge.
#[derive(Debug)]
pub(super) enum NoAnswer {
    Web(WebError),
    /// We stopped to ask.
    Stopped(&'static str),
}

/// How long a question may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Short,
    /// The agent works on it: as long as there is time.
    Long,
}

pub(super) struct Probe {
    web: web::Client,
    /// Shown to nobody but the interface that it is for.
    secret: Option<(HeaderName, HeaderValue)>,
    /// What is never shown.
    masks: Vec<String>,
    until: Instant,
    /// The interface that is looked at now is one of HTTP+JSON.
    pub over_http: bool,
    pub requests: usize,
    pub ran_out: bool,
    pub findings: Vec<Finding>,
    pub wire: Vec<Exchange>,
    hear: Box<dyn FnMut(&Exchange) + Send>,
}

impl Probe {
    pub(super) fn new(
        web: web::Client,
        secret_text: Option<String>,
        within: Duration,
        hear: Box<dyn FnMut(&Exchange) + Send>,
    ) -> Self {
        Self {
            web,
            secret: None,
            masks: secret_text.into_iter().filter(|text| !text.is_empty()).collect(),
            until: Instant::now() + within,
            over_http: false,
            requests: 0,
            ran_out: false,
            findings: Vec::new(),
            wire: Vec::new(),
            hear,
        }
    }

    pub(super) fn web(&self) -> &web::Client {
        &self.web
    }

    /// What is shown to the interface that is looked at now.
    pub(super) fn show(&mut self, secret: Option<(HeaderName, HeaderValue)>) {
        // Also in the form in which it goes over the wire.
        let text = secret.as_ref().and_then(|(_, value)| value.to_str().ok()?.split(' ').next_back());
        if let Some(text) = text.filter(|text| !text.is_empty() && !self.masks.iter().any(|one| one == text))
        {
            self.masks.push(text.to_owned());
        }
        self.secret = secret;
    }

    /// One question that was asked by other means.
    pub(super) fn count(&mut self) -> Result<Limits, NoAnswer> {
        let mut request = web::Request::get("");
        self.begin(&mut request, Patience::Short)?;
        Ok(request.limits)
    }

    pub(super) fn find(&mut self, check: &Check, about: &str, asked: impl Into<String>, verdict: Verdict) {
        let check = if self.over_http { over_http(check) } else { *check };
        let mut finding = check.finding(about, asked, verdict);
        // A server may say back what it was shown.
        finding.came = self.masked(&finding.came);
        finding.asked = self.masked(&finding.asked);
        self.findings.push(finding);
    }

    pub(super) fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// A request of whoever we are.
    pub(super) fn as_known(&self, mut request: web::Request) -> web::Request {
        if let Some((name, value)) = &self.secret {
            request.headers.insert(name.clone(), value.clone());
        }
        request
    }

    /// One request, and its whole answer.
    pub(super) async fn ask(
        &mut self,
        mut request: web::Request,
        patience: Patience,
    ) -> Result<web::Response, NoAnswer> {
        self.begin(&mut request, patience)?;
        let (begun, exchange) = (Instant::now(), self.exchange(&request));
        let came = self.web.fetch(request).await;
        let kept = match &came {
            Ok(answer) => self.answered(exchange, answer.status, &answer.headers, &answer.body, begun),
            Err(e) => Exchange { failure: Some(e.to_string()), ms: ms_since(begun), ..exchange },
        };
        self.keep(kept);
        came.map_err(NoAnswer::Web)
    }

    /// One request over HTTP/2, and its whole answer; what came after the body is among the headers.
    pub(super) async fn call(
        &mut self,
        mut request: web::Request,
        patience: Patience,
    ) -> Result<web::Response, NoAnswer> {
        self.begin(&mut request, patience)?;
        let (begun, exchange, whole) = (Instant::now(), self.exchange(&request), request.limits.whole);
        let answered = async {
            let mut stream = self.web.stream_h2(request).await?;
            let mut body = Vec::new();
            while let Some(piece) = stream.chunk().await? {
                body.extend_from_slice(&piece);
            }
            let (host, status) = (std::mem::take(&mut stream.host), stream.status);
            let mut headers = std::mem::take(&mut stream.headers);
            headers.extend(std::mem::take(&mut stream.trailers));
            Ok(web::Response { host, status, headers, body: body.into() })
        };
        let came = match tokio::time::timeout(whole, answered).await {
            Ok(came) => came,
            Err(_) => Err(WebError::Slow { host: exchange.url.clone(), wait: Wait::Answer, after: whole }),
        };
        let kept = match &came {
            Ok(answer) => self.answered(exchange, answer.status, &answer.headers, &answer.body, begun),
            Err(e) => Exchange { failure: Some(e.to_string()), ms: ms_since(begun), ..exchange },
        };
        self.keep(kept);
        came.map_err(NoAnswer::Web)
    }

    /// One request, and the events that come; an answer that is no stream comes back whole.
    pub(super) async fn listen(
        &mut self,
        mut request: web::Request,
    ) -> Result<(web::Response, Heard), NoAnswer> {
        self.begin(&mut request, Patience::Long)?;
        let (begun, exchange) = (Instant::now(), self.exchange(&request));
        let mut streaming = match self.web.stream(request).await {
            Ok(streaming) => streaming,
            Err(e) => {
                self.keep(Exchange { failure: Some(e.to_string()), ms: ms_since(begun), ..exchange });
                return Err(NoAnswer::Web(e));
            }
        };
        let is_stream = crate::a2a::content_type(&streaming.headers) == "text/event-stream";
        let (mut body, mut reader, mut heard) = (Vec::new(), Reader::default(), Heard::default());
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let piece = match tokio::time::timeout(left, streaming.chunk()).await {
                Err(_) => break,
                Ok(Err(e)) => {
                    heard.ending = Ending::Broken(e.to_string());
                    break;
                }
                Ok(Ok(None)) => {
                    heard.ending = Ending::Closed;
                    break;
                }
                Ok(Ok(Some(piece))) => piece,
            };
            body.extend_from_slice(&piece);
            if is_stream && let Err(e) = reader.take_in(&piece) {
                heard.ending = Ending::Broken(e.to_string());
                break;
            }
            while let Some(event) = reader.next() {
                heard.events.push(event);
            }
            if heard.events.len() > EVENTS_MAX {
                heard.ending = Ending::Broken("more events than are listened to".into());
                break;
            }
        }
        let (status, headers) = (streaming.status, std::mem::take(&mut streaming.headers));
        let mut kept = self.answered(exchange, status, &headers, &body, begun);
        if let Ending::Broken(why) = &heard.ending {
            kept.failure = Some(self.masked(why));
        }
        self.keep(kept);
        let host = std::mem::take(&mut streaming.host);
        Ok((web::Response { host, status, headers, body: body.into() }, heard))
    }

    /// Whether there is anything left to ask with.
    fn begin(&mut self, request: &mut web::Request, patience: Patience) -> Result<(), NoAnswer> {
        if self.requests >= REQUESTS_MAX {
            self.ran_out = true;
            return Err(NoAnswer::Stopped("there were enough requests already"));
        }
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.ran_out = true;
            return Err(NoAnswer::Stopped("the time was over; --timeout gives more"));
        }
        self.requests += 1;
        let whole = match patience {
            Patience::Short => left.min(ANSWER_WITHIN),
            Patience::Long => left,
        };
        // It is told in words.
        let whole = Duration::from_millis(u64::try_from(whole.as_millis()).unwrap_or(u64::MAX).max(1));
        let connect = whole.min(ANSWER_WITHIN);
        request.limits = Limits { connect, whole, quiet: left, answer_bytes_max: ANSWER_BYTES_MAX };
        Ok(())
    }

    fn exchange(&self, request: &web::Request) -> Exchange {
        Exchange {
            verb: request.method.to_string(),
            url: request.url.clone(),
            request_headers: self.headers(&request.headers),
            request_body: self.body(&request.body),
            status: None,
            answer_headers: Vec::new(),
            answer_body: String::new(),
            odd: Vec::new(),
            failure: None,
            ms: 0,
        }
    }

    fn answered(
        &self,
        exchange: Exchange,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        begun: Instant,
    ) -> Exchange {
        let is_10 =
            exchange.request_headers.iter().any(|(name, value)| name == "a2a-version" && value == "1.0");
        let odd = if is_10 { lenient::oddities(&String::from_utf8_lossy(body)) } else { Vec::new() };
        Exchange {
            odd,
            status: Some(status.as_u16()),
            answer_headers: self.headers(headers),
            answer_body: self.body(body),
            ms: ms_since(begun),
            ..exchange
        }
    }

    fn keep(&mut self, exchange: Exchange) {
        (self.hear)(&exchange);
        self.wire.push(exchange);
    }

    fn headers(&self, headers: &HeaderMap) -> Vec<(String, String)> {
        let shown = |(name, value): (&HeaderName, &HeaderValue)| {
            let is_secret = value.is_sensitive() || SECRET_HEADERS.contains(&name.as_str());
            let text = String::from_utf8_lossy(value.as_bytes());
            (name.to_string(), if is_secret { MASK.to_owned() } else { self.masked(&text) })
        };
        headers.iter().map(shown).collect()
    }

    fn body(&self, body: &[u8]) -> String {
        // Masked before it is cut: half of a secret is still a secret.
        let text = self.masked(&String::from_utf8_lossy(body));
        match text.char_indices().nth(BODY_BYTES_SHOWN) {
            Some((end, _)) => {
                format!("{}… ({} bytes in all)", text.get(..end).unwrap_or_default(), body.len())
            }
            None => text,
        }
    }

    fn masked(&self, text: &str) -> String {
        self.masks.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), MASK))
    }
}

impl NoAnswer {
    /// A server that gives no answer is at fault; that we stopped to ask is not its fault.
    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::Web(e) => Verdict::Off(cut(&e.to_string(), 200)),
            Self::Stopped(why) => Verdict::Skipped((*why).into()),
        }
    }
}

fn ms_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::Options;

    /// E18: what is kept and shown has no secret in it, also where a server says it back.
    #[test]
    fn secrets_are_masked() {
        let web = web::Client::new(Options::default());
        let probe = Probe::new(web, Some("s3cr3t".into()), Duration::from_secs(1), Box::new(|_| ()));
        let request = web::Request::post("http://a/", "application/json", "{\"x\": \"s3cr3t\"}");
        let request = request.header("authorization", "Bearer s3cr3t", true).unwrap();
        let kept = probe.exchange(&request);
        let mut headers = HeaderMap::new();
        headers.insert("set-cookie", HeaderValue::from_static("session=1"));
        headers.insert("x-echo", HeaderValue::from_static("Bearer s3cr3t"));
        let long = format!("{}s3cr3t", "x".repeat(BODY_BYTES_SHOWN - 3));
        let kept = probe.answered(kept, StatusCode::OK, &headers, long.as_bytes(), Instant::now());
        let text = serde_json::to_string(&kept).unwrap();
        assert!(!text.contains("s3c") && !text.contains("session=1"), "{text}");
        assert!(kept.request_headers.contains(&("authorization".into(), MASK.into())));
    }

    #[tokio::test]
    async fn there_is_an_end_to_asking() {
        let web = web::Client::new(Options::default());
        let mut probe = Probe::new(web, None, Duration::ZERO, Box::new(|_| ()));
        let came = probe.ask(web::Request::get("http://127.0.0.1:1/"), Patience::Short).await;
        assert!(matches!(came, Err(NoAnswer::Stopped(_))) && probe.ran_out && probe.requests == 0);
    }
}
