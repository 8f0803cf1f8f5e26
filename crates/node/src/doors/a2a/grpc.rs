//! gRPC: the service `lf.a2a.v1.A2AService`, over HTTP/2 on the port and the socket of everything else (R1–R6).
//!
//! Messages are framed and read here by hand, since a call is one body in and one or more messages out; so it has the
//! bounds, the log and the rights of every other request. What other requests say with their status is said in
//! `grpc-status`; the status of HTTP is put right last (`finish`), when it is written down what became of the request.

mod events;

use super::{body_of, last_mark, version, with_fault};
use crate::a2a::{Done, Engine};
use crate::card::Called;
use crate::doors::Shared;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, Version, header};
use http_body_util::{BodyExt as _, Full};
use std::convert::Infallible;
use synapse_a2a::check;
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::grpc::{self, CONTENT_TYPE, Status};
use synapse_core::policy::Caller;
use synapse_dialects::error::ErrorBody;
use tokio::time::Instant;

pub(in crate::doors) const ROUTE: &str = "/lf.a2a.v1.A2AService/{method}";

pub(in crate::doors) async fn serve(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(called): Extension<Called>,
    http: Version,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if let Some(no_call) = no_call(http, &headers) {
        return no_call;
    }
    let timeout = headers.get("grpc-timeout").and_then(|raw| grpc::timeout(raw.to_str().ok()?));
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let engine = Engine::new(app.clone(), caller).called(called);
    let done = dispatch(&app, engine, &uri, &headers, body);
    let done = match until {
        None => done.await,
        Some(until) => tokio::time::timeout_at(until, done).await.unwrap_or(Err(Status::Late)),
    };
    match done {
        Ok(Done::Reply(reply)) => {
            let trailers = std::future::ready(Some(Ok::<_, Infallible>(trailers(&Status::Ok))));
            answer(Body::new(Full::from(grpc::reply(&reply)).with_trailers(trailers)))
        }
        Ok(Done::Stream(events)) => {
            let after = last_mark(&headers).filter(|_| uri.path().ends_with("/SubscribeToTask"));
            events::told(app, events, after.is_some(), until).await
        }
        Err(status) => refused(&status),
    }
}

async fn dispatch(
    app: &Shared,
    engine: Engine,
    uri: &Uri,
    headers: &HeaderMap,
    body: Body,
) -> Result<Done, Status> {
    match version(headers, uri)? {
        check::Version::V10 => {}
        check::Version::V03 => {
            let message = "version 0.3 of A2A is not spoken over gRPC; send `a2a-version: 1.0`";
            let fault = Fault { field: Some("A2A-Version".into()), ..Fault::new(Kind::Version, message) };
            return Err(fault.into());
        }
    }
    let method = uri.path().strip_prefix(grpc::PREFIX).unwrap_or_default();
    let bytes = body_of(app, body).await?;
    let request = grpc::request(method, grpc::unframe(&bytes)?)?;
    drop(bytes);
    Ok(engine.perform(request, last_mark(headers)).await?)
}

/// Whether this is a call of gRPC, and wants to be answered as one.
pub(in crate::doors) fn is_call(request: &Request<Body>) -> bool {
    request.version() == Version::HTTP_2 && is_protobuf(request.headers())
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|raw| raw.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    [CONTENT_TYPE, "application/grpc+proto"].iter().any(|own| media.eq_ignore_ascii_case(own))
}

/// What is no call is told so by plain HTTP, as the protocol says.
fn no_call(http: Version, headers: &HeaderMap) -> Option<Response> {
    let (status, code, why) = if !is_protobuf(headers) {
        let why = "gRPC is spoken here, in messages of protobuf; Content-Type must be application/grpc";
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_grpc", why)
    } else if http != Version::HTTP_2 {
        let why = "gRPC needs HTTP/2; without TLS it is spoken with prior knowledge";
        (StatusCode::HTTP_VERSION_NOT_SUPPORTED, "not_http2", why)
    } else {
        return None;
    };
    crate::audit::note(|facts| facts.code(code));
    Some((status, axum::Json(ErrorBody::new(code, why.to_owned()))).into_response())
}

/// The whole answer is how it ended.
pub(in crate::doors) fn refused(status: &Status) -> Response {
    let mut response = answer(Body::empty());
    status.write(response.headers_mut());
    let http = match status {
        Status::Ok => 200,
        Status::Fault(fault) => fault.kind.codes().http,
        Status::Late => 504,
        Status::Compressed => 415,
    };
    *response.status_mut() = StatusCode::from_u16(http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match status {
        Status::Fault(fault) => with_fault(response, fault),
        Status::Ok | Status::Late | Status::Compressed => response,
    }
}

/// A call was answered by a call: to HTTP that is a success, whatever it says.
pub(in crate::doors) fn finish(mut response: Response) -> Response {
    if response.headers().get(header::CONTENT_TYPE).is_some_and(|own| own == CONTENT_TYPE) {
        *response.status_mut() = StatusCode::OK;
    }
    response
}

fn answer(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    status.write(&mut trailers);
    trailers
}
