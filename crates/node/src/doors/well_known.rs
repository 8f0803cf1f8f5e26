//! `/.well-known/…`: public information about the agent, without authentication (A1, A2, A24,
//! DIR-2).
//!
//! Web pages may read it only if the user's settings list their origin, as for every other path
//! (`cors`).

use super::Shared;
use crate::card::{self, Called, Made, Which};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use synapse_a2a::check::Version;
use synapse_a2a::{Fault, jcs};

/// Long enough that clients do not fetch it for every message, short enough that a change spreads
/// soon.
const MAX_AGE: &str = "public, max-age=300";

/// The agent card of A2A 1.0. With `?A2A-Version=1.0` or `0.3` it has the fields of that version alone. Anybody may ask.
#[utoipa::path(
    get,
    path = "/.well-known/agent-card.json",
    responses((status = 200, body = serde_json::Value), (status = 304, description = "It is as you know it"))
)]
pub(super) async fn agent_card(
    State(app): State<Shared>,
    Extension(called): Extension<Called>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    // The `A2A-Version` header is ignored: the JavaScript SDK sends it, and its verifier loses the
    // security schemes of a card without 0.3 fields.
    let which = card::for_version(&app, super::a2a::version_in_query(&uri));
    answer(card::document(&app, &called, which).await, &headers)
}

/// How to connect, for whoever found the agent in a directory; with the card beside it. Anybody may ask.
#[utoipa::path(
    get,
    path = "/.well-known/agent.json",
    responses((status = 200, body = serde_json::Value), (status = 304, description = "It is as you know it"))
)]
pub(super) async fn agent_json(
    State(app): State<Shared>,
    Extension(called): Extension<Called>,
    headers: HeaderMap,
) -> Response {
    answer(card::document(&app, &called, Which::AgentJson).await, &headers)
}

/// The public key that signs the card (RFC 7517). Anybody may ask.
#[utoipa::path(get, path = "/.well-known/jwks.json", responses((status = 200, body = serde_json::Value)))]
pub(super) async fn keys(State(app): State<Shared>) -> Response {
    let keys = jcs::canonical(&card::keys(&app).await).unwrap_or_default();
    let head = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, MAX_AGE)];
    (head, keys).into_response()
}

fn answer(made: Result<std::sync::Arc<Made>, Fault>, asked: &HeaderMap) -> Response {
    let made = match made {
        Ok(made) => made,
        Err(fault) => return super::a2a::rest::failed(&fault, Version::V10),
    };
    let mut response = match is_known(&made, asked) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, "application/json")], made.bytes.clone()).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, made.etag.clone());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(MAX_AGE));
    if let Some(modified) = http_date(made.modified_s) {
        headers.insert(header::LAST_MODIFIED, modified);
    }
    response
}

/// Compares the `ETag`; the modification time counts only if no tag is given (RFC 9110, 13.2.2).
fn is_known(made: &Made, asked: &HeaderMap) -> bool {
    let mut tags = asked.get_all(header::IF_NONE_MATCH).iter().peekable();
    if tags.peek().is_some() {
        let own = made.etag.to_str().unwrap_or_default();
        let list = tags.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        return list.map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == own);
    }
    let since = asked.get(header::IF_MODIFIED_SINCE).and_then(|value| read_date(value.to_str().ok()?));
    since.is_some_and(|since| i64::try_from(made.modified_s).is_ok_and(|modified| modified <= since))
}

fn http_date(seconds: u64) -> Option<HeaderValue> {
    let at = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    let text = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).ok()?;
    HeaderValue::from_str(&text).ok()
}

fn read_date(text: &str) -> Option<i64> {
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok().map(Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(http_date(784_111_777).unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(read_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        for bad in ["", "yesterday", "784111777", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            assert_eq!(read_date(bad), None, "{bad}");
        }
    }
}
