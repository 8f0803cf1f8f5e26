//! gRPC: the services `lf.a2a.v1.A2AService` and, for 0.3, `a2a.v1.A2AService`, over HTTP/2 on the
//! same port and socket as all other requests (R1–R6).
//!
//! This module frames messages itself, since a call is one body in and one or more messages out. So
//! calls have the same limits, audit log and rights as every other request. Doors set an HTTP
//! status as for other requests; `finish` replaces it with 200 after the audit log has recorded it,
//! because gRPC reports errors in `grpc-status`.

mod events;

use super::{body_of, last_mark, perform, version, with_fault};
use crate::a2a::{Done, Engine};
use crate::card::Called;
use crate::doors::Shared;
use crate::uploads::{Encoding, Upload};
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, Version, header};
use http_body_util::{BodyExt as _, Full};
use std::convert::Infallible;
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::grpc::{self, CONTENT_TYPE, Status};
use synapse_a2a::operation::{self, Reply};
use synapse_a2a::{check, pb, v03};
use synapse_core::policy::Caller;
use synapse_dialects::error::ErrorBody;
use tokio::time::Instant;

pub(in crate::doors) const ROUTES: [&str; 2] =
    ["/lf.a2a.v1.A2AService/{method}", "/a2a.v1.A2AService/{method}"];

/// A protocol version; in gRPC each version is a service with its own path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Service(check::Version);

impl Service {
    /// Splits a path into the service and the name of the operation.
    fn of(path: &str) -> (Self, &str) {
        match path.strip_prefix(v03::grpc::PREFIX) {
            Some(method) => (Self(check::Version::V03), method),
            None => (Self(check::Version::V10), path.strip_prefix(grpc::PREFIX).unwrap_or_default()),
        }
    }

    /// Checks that a requested version is the one this service speaks. Clients of 0.3 never send
    /// one.
    fn check(self, said: check::Version) -> Result<(), Fault> {
        let message = match self.0 {
            own if own == said => return Ok(()),
            check::Version::V10 => {
                "this service speaks 1.0: send `a2a-version: 1.0`; version 0.3 is spoken by a2a.v1.A2AService"
            }
            check::Version::V03 => "this service speaks 0.3; version 1.0 is spoken by lf.a2a.v1.A2AService",
        };
        Err(Fault { field: Some("A2A-Version".into()), ..Fault::new(Kind::Version, message) })
    }

    /// Returns the name of the operation that resumes a stream.
    fn subscribe(self) -> &'static str {
        match self.0 {
            check::Version::V10 => "SubscribeToTask",
            check::Version::V03 => "TaskSubscription",
        }
    }

    fn request(self, method: &str, message: &[u8]) -> Result<operation::Request, Fault> {
        match self.0 {
            check::Version::V10 => grpc::request(method, message),
            check::Version::V03 => v03::grpc::request(method, message),
        }
    }

    fn reply(self, reply: &Reply) -> Result<Vec<u8>, Fault> {
        match self.0 {
            check::Version::V10 => Ok(grpc::reply(reply)),
            check::Version::V03 => v03::grpc::reply(reply),
        }
    }

    fn event(self, event: &pb::StreamResponse) -> Result<Vec<u8>, Fault> {
        match self.0 {
            check::Version::V10 => Ok(grpc::frame(event)),
            check::Version::V03 => v03::grpc::event(event),
        }
    }
}

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
    let (service, method) = Service::of(uri.path());
    let asked = async {
        service.check(version(&headers, &uri)?)?;
        dispatch(&app, engine, (service, method), &headers, body).await
    };
    let done = match until {
        None => asked.await,
        Some(until) => tokio::time::timeout_at(until, asked).await.unwrap_or(Err(Status::Late)),
    };
    match done {
        Ok(Done::Reply(reply)) => match service.reply(&reply) {
            Ok(message) => {
                let trailers = std::future::ready(Some(Ok::<_, Infallible>(trailers(&Status::Ok))));
                answer(Body::new(Full::from(message).with_trailers(trailers)))
            }
            Err(fault) => refused(&fault.into()),
        },
        Ok(Done::Stream(events)) => {
            let goes_on = last_mark(&headers).is_some() && method == service.subscribe();
            events::told(app, service, events, goes_on, until).await
        }
        Err(status) => refused(&status),
    }
}

async fn dispatch(
    app: &Shared,
    engine: Engine,
    (service, method): (Service, &str),
    headers: &HeaderMap,
    body: Body,
) -> Result<Done, Status> {
    let Upload { bytes, room } = body_of(app, body, Encoding::Base64).await?;
    let request = service.request(method, grpc::unframe(&bytes)?)?;
    drop(bytes);
    Ok(perform(&engine, service.0, request, last_mark(headers), room).await?)
}

/// Whether this is a gRPC call and expects a gRPC response.
pub(in crate::doors) fn is_call(request: &Request<Body>) -> bool {
    request.version() == Version::HTTP_2 && is_protobuf(request.headers())
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|raw| raw.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    [CONTENT_TYPE, "application/grpc+proto"].iter().any(|own| media.eq_ignore_ascii_case(own))
}

/// Refuses a request that is not a gRPC call, with plain HTTP as the gRPC protocol requires.
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

/// Builds a response that consists only of its gRPC status.
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

/// Sets the HTTP status of a gRPC response to 200, whatever its gRPC status.
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
