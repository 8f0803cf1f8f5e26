//! CORS: browser access for web pages whose origin the user's settings list (finding A8).
//!
//! No origin is listed by default. A page on a listed origin still needs a token like any other
//! caller. The token is sent in `Authorization`, never in a cookie. So credentials are not allowed,
//! and the response names the origin instead of `*`.
//! Not here: refusing other origins (`auth::Gate::check_origin`).

use super::App;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

/// The methods a page may use.
const METHODS: &str = "GET, POST, DELETE, OPTIONS";
const REQUEST_HEADERS: &str =
    "Authorization, Content-Type, Accept, A2A-Version, A2A-Extensions, Last-Event-ID, If-None-Match";
/// The headers a page may read besides the CORS-safelisted ones.
const RESPONSE_HEADERS: &str = "A2A-Extensions, ETag, Retry-After, WWW-Authenticate";
/// How long a browser may cache a preflight, in seconds.
const MAX_AGE_S: &str = "600";

/// Returns the origin of a request if the user's settings list it.
pub(super) fn listed_origin(app: &App, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    origin.to_str().ok().filter(|origin| app.gate.lists_origin(origin)).map(|_| origin.clone())
}

/// Answers a preflight, which browsers send without credentials before the request itself.
pub(super) fn preflight(request: &Request) -> Option<Response> {
    const PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
    let headers = request.headers();
    if request.method() != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut answer = StatusCode::NO_CONTENT.into_response();
    let told = answer.headers_mut();
    told.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    told.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(REQUEST_HEADERS));
    told.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE_S));
    if headers.contains_key(PRIVATE) {
        const ALLOW: HeaderName = HeaderName::from_static("access-control-allow-private-network");
        told.insert(ALLOW, HeaderValue::from_static("true"));
    }
    Some(answer)
}

/// Allows a page to read the response, including errors.
pub(super) fn let_read(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}
