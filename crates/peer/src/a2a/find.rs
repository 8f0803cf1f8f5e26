//! Where the card of an agent elsewhere is, and fetching it (A2, A25, L3).
//!
//! A card is public: nothing of ours is shown to whoever has it. No redirect is followed, and what a card points to is
//! the host it came from, or one that the user has named.

use super::card::{At, Card};
use super::error::AskError;
use super::lenient;
use super::url::HttpUrl;
use crate::web;
use http::{HeaderMap, header};
use synapse_dialects::level;

/// Where cards are, below a path or at the top of a host: of 1.0 and 0.3, and the older place.
const PLACES: [&str; 2] = [".well-known/agent-card.json", ".well-known/agent.json"];
/// How long a card is good for if its server does not say.
const MAX_AGE_S: u64 = 300;
const MAX_AGE_S_MAX: u64 = 7 * 24 * 3_600;
const ETAG_BYTES_MAX: usize = 256;

/// What was found at a URL.
#[derive(Debug)]
pub enum Look {
    Found(Box<Found>),
    /// The card that is known is still the one.
    Unchanged {
        max_age_s: u64,
    },
    /// Who answers is a node of Synapse, and says so itself.
    Node,
}

/// A card, and where it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub card: Card,
    pub at: HttpUrl,
    /// The only interface that was meant, if one was called by its own URL.
    pub meant: Option<HttpUrl>,
    pub etag: Option<String>,
    pub max_age_s: u64,
}

/// A place to look, and the interface that a card there must have.
pub(super) type Place = (HttpUrl, Option<HttpUrl>);

pub(super) fn places(url: &HttpUrl) -> Vec<Place> {
    if url.is_bare() {
        return PLACES.map(|place| (url.at_root(place), None)).to_vec();
    }
    if url.path().ends_with(".json") || url.has_query() {
        return vec![(url.clone(), None)];
    }
    // An agent below a path has its card there; else the card of the host has to know the path.
    let below = PLACES.map(|place| (url.below(place), None));
    let top = PLACES.map(|place| (url.at_root(place), Some(url.clone())));
    below.into_iter().chain(top).collect()
}

/// Looks for the card of whoever is called by this URL.
pub async fn look(web: &web::Client, url: &HttpUrl) -> Result<Look, AskError> {
    let mut why = Vec::new();
    for (at, meant) in places(url) {
        let request = web::Request::get(&at.to_string()).header("accept", "application/json", false)?;
        let answer = web.fetch(request).await?;
        if url.is_bare() && answer.headers.contains_key(level::LEVEL_HEADER) {
            return Ok(Look::Node);
        }
        // As servers of TLS answer whoever does not speak it.
        if answer.status == 400 && !url.origin().is_https {
            let why = "status 400; it may speak TLS".to_owned();
            return Err(web::WebError::NotHttp { host: answer.host, why }.into());
        }
        match read(&answer, at.clone(), meant) {
            Ok(found) => return Ok(Look::Found(Box::new(found))),
            Err(not) => why.push(format!("{at} {not}")),
        }
    }
    Err(AskError::NoCard { at: url.to_string(), why: why.join("; ") })
}

/// Asks for a card that is known again.
pub async fn again(
    web: &web::Client,
    at: &HttpUrl,
    meant: Option<HttpUrl>,
    etag: Option<&str>,
) -> Result<Look, AskError> {
    let mut request = web::Request::get(&at.to_string()).header("accept", "application/json", false)?;
    if let Some(etag) = etag {
        request = request.header("if-none-match", etag, false)?;
    }
    let answer = web.fetch(request).await?;
    if answer.status.as_u16() == 304 && etag.is_some() {
        return Ok(Look::Unchanged { max_age_s: max_age_s(&answer.headers) });
    }
    let found = read(&answer, at.clone(), meant);
    let found = found.map_err(|why| AskError::NoCard { at: at.to_string(), why })?;
    Ok(Look::Found(Box::new(found)))
}

fn read(answer: &web::Response, at: HttpUrl, meant: Option<HttpUrl>) -> Result<Found, String> {
    let status = answer.status.as_u16();
    if answer.status.is_redirection() {
        let to = answer.headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("elsewhere");
        let to: String = to.chars().take(200).collect();
        return Err(format!("sends callers to {to}, which is not followed; if that is right, use that URL"));
    }
    if status != 200 {
        return Err(format!("answers with status {status}"));
    }
    let mut notes = Vec::new();
    let value = lenient::json(&answer.body, &mut notes).ok_or("is no JSON")?;
    let mut card = Card::read_from(value, &at).map_err(|why| format!("is no card: {why}"))?;
    card.notes.extend(notes);
    if let Some(meant) = &meant {
        card.pick(Some(meant))?;
    }
    let etag = answer.headers.get(header::ETAG).and_then(|etag| etag.to_str().ok());
    let etag = etag.filter(|etag| etag.len() <= ETAG_BYTES_MAX).map(str::to_owned);
    Ok(Found { card, at, meant, etag, max_age_s: max_age_s(&answer.headers) })
}

/// RFC 9111, as far as a card needs it: what may not be kept is asked for each time.
fn max_age_s(headers: &HeaderMap) -> u64 {
    let values = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let directives: Vec<String> =
        values.flat_map(|value| value.split(',')).map(|one| one.trim().to_ascii_lowercase()).collect();
    if directives.iter().any(|one| one == "no-store" || one.starts_with("no-cache")) {
        return 0;
    }
    let said = directives.iter().find_map(|one| one.strip_prefix("max-age="));
    let said = said.map(|n| n.trim_matches('"').parse::<u64>().unwrap_or(0));
    let age = headers.get(header::AGE).and_then(|age| age.to_str().ok()?.parse::<u64>().ok()).unwrap_or(0);
    said.unwrap_or(MAX_AGE_S).min(MAX_AGE_S_MAX).saturating_sub(age)
}

impl Found {
    /// The interface to call, if it is where the card is from or where the user allows (A9).
    pub fn place(&self, allow_hosts: &[String]) -> Result<At, AskError> {
        let picked = self.card.pick(self.meant.as_ref()).map_err(|why| AskError::NotSpoken { why })?;
        let (ours, theirs) = (self.at.origin(), picked.url().origin());
        let host = match (theirs.is_https, theirs.port) {
            (true, 443) | (false, 80) => theirs.host.clone(),
            (_, port) => format!("{}:{port}", theirs.host),
        };
        let is_allowed = allow_hosts.iter().any(|one| one.eq_ignore_ascii_case(&host));
        // An agent that was called encrypted is not called in the open because its card says so.
        let is_lowered = ours.is_https && !theirs.is_https;
        if ours == theirs || (is_allowed && !is_lowered) {
            return Ok(picked);
        }
        if is_allowed {
            let why = format!(
                "its card at {} says to call {}, which is not encrypted; nothing was sent",
                self.at,
                picked.url()
            );
            return Err(AskError::NotSpoken { why });
        }
        Err(AskError::OtherHost { card: self.at.to_string(), host })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use serde_json::json;

    fn url(raw: &str) -> HttpUrl {
        HttpUrl::parse(raw).unwrap()
    }

    #[test]
    fn where_a_card_is_looked_for() {
        let table = [
            ("https://a", "https://a/.well-known/agent-card.json https://a/.well-known/agent.json"),
            ("https://a/x/card.json", "https://a/x/card.json"),
            (
                "https://a/x",
                "https://a/x/.well-known/agent-card.json https://a/x/.well-known/agent.json \
                 https://a/.well-known/agent-card.json=https://a/x https://a/.well-known/agent.json=https://a/x",
            ),
        ];
        for (raw, expected) in table {
            let show = |(at, meant): &Place| match meant {
                Some(meant) => format!("{at}={meant}"),
                None => at.to_string(),
            };
            let found: Vec<String> = places(&url(raw)).iter().map(show).collect();
            assert_eq!(found.join(" "), expected, "{raw}");
        }
    }

    /// What a card points to is its own host, or one that the user named; never less safe.
    #[test]
    fn where_a_card_may_send_us() {
        let found = |to: &str| {
            let interface = json!({ "url": to, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" });
            let card = Card::read(json!({ "name": "a", "supportedInterfaces": [interface] })).unwrap();
            Found { card, at: url("https://a.example/c.json"), meant: None, etag: None, max_age_s: 0 }
        };
        let none: &[String] = &[];
        let b = &["B.example".to_owned(), "a.example".to_owned()][..];
        let table = [
            ("https://a.example/x", none, ""),
            ("https://a.example:443/x", none, ""),
            ("https://a.example:8443/x", none, "--allow-host a.example:8443"),
            ("http://a.example/x", none, "--allow-host a.example"),
            ("http://a.example/x", b, "not encrypted"),
            ("https://b.example/x", none, "--allow-host b.example"),
            ("https://b.example/x", b, ""),
            ("https://b.example:444/x", b, "--allow-host b.example:444"),
            ("http://169.254.169.254/x", none, "--allow-host 169.254.169.254"),
        ];
        for (to, allowed, words) in table {
            match found(to).place(allowed) {
                Ok(picked) => assert_eq!((picked.url().to_string(), words), (url(to).to_string(), "")),
                Err(why) => assert!(!words.is_empty() && why.to_string().contains(words), "{to}: {why}"),
            }
        }
    }

    /// Finding A6: a card behind a byte order mark was no card.
    #[test]
    fn a_byte_order_mark_does_not_hide_a_card() {
        let interface = json!({ "url": "/x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" });
        let card = json!({ "name": "a", "supportedInterfaces": [interface] });
        let answer = web::Response {
            host: "a.example".into(),
            status: http::StatusCode::OK,
            headers: HeaderMap::new(),
            body: format!("\u{feff}{card}").into(),
        };
        let found = read(&answer, url("https://a.example/c.json"), None).unwrap();
        assert_eq!(found.place(&[]).unwrap().url().to_string(), "https://a.example/x");
        assert_eq!(found.card.notes.len(), 2, "{:?}", found.card.notes);
    }

    /// A25.
    #[test]
    fn how_long_a_card_is_good() {
        let table = [
            (None, None, 300),
            (Some("max-age=60"), None, 60),
            (Some("public, Max-Age=\"60\""), Some("20"), 40),
            (Some("max-age=60, no-store"), None, 0),
            (Some("no-cache"), None, 0),
            (Some("max-age=99999999"), None, MAX_AGE_S_MAX),
            (Some("max-age=-1"), None, 0),
        ];
        for (control, age, expected) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::CACHE_CONTROL, control), (header::AGE, age)] {
                value.map(|value: &str| headers.insert(name, HeaderValue::from_str(value).unwrap()));
            }
            assert_eq!(max_age_s(&headers), expected, "{control:?} {age:?}");
        }
    }
}
