//! gRPC: the services `lf.a2a.v1.A2AService` and, for 0.3, `a2a.v1.A2AService`, over HTTP/2 on the port and the socket of
//! everything else (R1–R6).
//!
//! Messages are framed and read here by hand, since a call is one body in and one or more messages out; so it has the
//! bounds, the log and the rights of every other request. What other requests say with their status is said in
//! `grpc-status`; the status of HTTP is put right last (`finish`), when it is written down what became of the request.

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

/// A version of the protocol, which over gRPC is a service: its path tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Service(check::Version);

impl Service {
    /// The service, and the operation that is called.
    fn of(path: &str) -> (Self, &str) {
        match path.strip_prefix(v03::grpc::PREFIX) {
            Some(method) => (Self(check::Version::V03), method),
            None => (Self(check::Version::V10), path.strip_prefix(grpc::PREFIX).unwrap_or_default()),
        }
    }

    /// Whoever says a version must mean the one that is spoken there. Callers of 0.3 never say one.
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

    /// The operation by which a stream is taken up.
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
