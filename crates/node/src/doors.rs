//! The HTTP server of a node: its router, and what every request passes through.
//!
//! A door is a thin handler: it reads a request, calls a dialect, asks the driver and writes the
//! response. Every request passes `admit` first, which checks its origin, its caller and its size.
//! Each handler carries its own route annotation, and tests compare `/openapi.json` with the served
//! routes (`describe`).

mod a2a;
mod api;
mod approve;
mod cors;
mod describe;
mod events;
mod extract;
mod files;
mod inbox;
mod interrupt;
mod keys;
mod message;
mod ops;
mod rename;
mod screen;
mod share;
mod signal;
mod stream;
mod unread;
mod well_known;

use self::a2a::Spoken;
use crate::audit::{self, Audit};
use crate::auth::{Gate, Peer, is_public};
use crate::card::{Called, Cards};
use crate::connection::Crowded;
use crate::conversation;
use crate::handle::{Handle, Heard};
use crate::hands::acp::AcpDesk;
use crate::hands::terminal::Seat;
use crate::metrics::{Metrics, Unproven};
use crate::own_agent::OwnAgent;
use crate::push::Push;
use crate::registrar::Shown;
use crate::uploads;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{self, MethodRouter};
use http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use synapse_a2a::fault::{Fault, Kind};
use synapse_core::Refusal;
use synapse_core::message::{Body, Letter, Piece};
use synapse_core::policy::Caller;
use synapse_core::routes::NearFolders;
use synapse_dialects::api::{MessageView, TurnView};
use synapse_dialects::error::{self, ErrorBody};
use synapse_dialects::level::{self, Levels};
use synapse_store::attachments::Attachments;
use synapse_store::home::Home;
use synapse_store::{History, JournalError};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

/// State shared by all doors.
pub struct App {
    pub handle: Handle,
    /// Whether an answer of the agent may be a message without a task.
    pub answers_directly: bool,
    /// The agent's terminal, if it has one.
    pub seat: Option<Seat>,
    /// The state of the agent's ACP program, if it has one.
    pub acp: Option<AcpDesk>,
    pub gate: Gate,
    pub agent: OwnAgent,
    /// The folders whose agents are preferred when a target names more than one.
    pub near: NearFolders,
    pub shown: Shown,
    pub metrics: Arc<Metrics>,
    pub history: Mutex<History>,
    pub home: Home,
    pub settings: crate::settings::Current,
    pub stop: CancellationToken,
    /// Whether to start a new node of the same agent after the stop.
    pub restart: AtomicBool,
    pub body_bytes_max: usize,
    /// Permits for request bodies larger than `body_bytes_max`.
    pub uploads: Arc<Semaphore>,
    /// The budget of large responses that are still being written.
    pub unread: unread::UnreadAnswers,
    /// The followers of events, and their number of streams.
    pub followers: Arc<crate::follow::Followers>,
    /// Files received with messages.
    pub attachments: Attachments,
    pub audit: Audit,
    pub cards: Cards,
    pub push: Push,
}

pub type Shared = Arc<App>;

impl App {
    /// Queries the archive on a blocking thread, since it may have to wait for the disk.
    pub async fn archive<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(&History) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let app = self.clone();
        let asked = tokio::task::spawn_blocking(move || {
            ask(&app.history.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
        });
        let answer = asked.await.map_err(|_| Refusal::Stopping)?;
        answer.map_err(|e| Refusal::NotStored { why: e.to_string() })
    }

    /// Returns earlier turns of a message's conversation. A program can work without them, so a
    /// read error is only logged.
    pub(crate) async fn turns_before(self: &Arc<Self>, letter: &Letter, max: usize) -> Vec<TurnView> {
        if max == 0 {
            return Vec::new();
        }
        let asked = letter.clone();
        let turns = self.archive(move |history| conversation::earlier_turns(history, &asked, max)).await;
        turns.unwrap_or_else(|refusal| {
            tracing::warn!(task = %letter.task, %refusal, "earlier turns cannot be read");
            Vec::new()
        })
    }

    /// Adds the local paths of a message's files, for a program on this machine.
    pub(crate) fn show_files(&self, view: &mut MessageView, body: &Body) {
        let Ok(content) = body.content() else { return };
        let shown = view.content.as_mut().and_then(|shown| shown.get_mut("parts")?.as_array_mut());
        for (part, shown) in content.parts.iter().zip(shown.into_iter().flatten()) {
            if let Piece::File(file) = &part.piece {
                shown["file"]["path"] = self.attachments.path(file).display().to_string().into();
            }
        }
    }

    /// Sends new rules to the driver if the settings have changed.
    pub fn look_at_settings(&self) {
        if let Some(rules) = self.gate.refresh() {
            self.handle.tell(synapse_core::effect::Input::Rules((*rules).clone()));
        }
    }

    pub async fn ask(&self, caller: Caller, command: synapse_core::Command) -> Heard {
        self.handle.ask(caller, command).await
    }
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Synapse node", description = "One agent: its mailbox, tasks, receipts and events."),
    components(schemas(ErrorBody))
)]
struct Description;

pub fn router(app: Shared) -> Router {
    let (router, _) = described().split_for_parts();
    let router = by_hand().into_iter().fold(router, |router, (path, door)| router.route(path, door));
    router
        .fallback(ops::nowhere)
        .method_not_allowed_fallback(ops::wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), admit))
        .with_state(app)
}

/// The routes that no annotation can describe; `describe` and its `a2a.json` describe them.
fn by_hand() -> [(&'static str, MethodRouter<Shared>); 4] {
    [
        (a2a::rpc::PATH_WITH_SLASH, routing::post(a2a::rpc::serve)),
        ("/a2a/v1/{*path}", routing::any(a2a::rest::serve)),
        (a2a::grpc::ROUTES[0], routing::post(a2a::grpc::serve)),
        (a2a::grpc::ROUTES[1], routing::post(a2a::grpc::serve)),
    ]
}

fn described() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(message::send))
        .routes(routes!(ops::status))
        .routes(routes!(ops::healthz))
        .routes(routes!(ops::metrics))
        .routes(routes!(ops::openapi))
        .routes(routes!(ops::stop))
        .routes(routes!(ops::restart))
        .routes(routes!(inbox::inbox))
        .routes(routes!(inbox::stream))
        .routes(routes!(inbox::report))
        .routes(routes!(api::receipt))
        .routes(routes!(api::tasks))
        .routes(routes!(api::task))
        .routes(routes!(api::cancel))
        .routes(routes!(api::reply))
        .routes(routes!(interrupt::interrupt))
        .routes(routes!(share::shared))
        .routes(routes!(share::share))
        .routes(routes!(share::follow))
        .routes(routes!(rename::rename))
        .routes(routes!(api::agents))
        .routes(routes!(events::events))
        .routes(routes!(files::file))
        .routes(routes!(stream::stream))
        .routes(routes!(screen::screen))
        .routes(routes!(screen::terminal))
        .routes(routes!(signal::signal))
        .routes(routes!(approve::prompt))
        .routes(routes!(approve::approve))
        .routes(routes!(keys::press))
        .routes(routes!(well_known::agent_card))
        .routes(routes!(well_known::agent_json))
        .routes(routes!(well_known::keys))
        .routes(routes!(a2a::rpc::serve))
}

/// Returns the OpenAPI document generated from the annotations.
fn generated() -> utoipa::openapi::OpenApi {
    described().into_openapi()
}

/// Returns the complete OpenAPI document.
pub fn description() -> serde_json::Value {
    describe::document(generated())
}

/// Wraps every request, so that its outcome is always written to the audit log (REST-9).
async fn admit(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let (method, uri, audit) = (request.method().clone(), request.uri().clone(), app.audit.clone());
    a2a::grpc::finish(audit.request(method, uri, look_at(app, request, next)).await)
}

/// Checks the origin, the caller and the size of a request, then passes it to its door.
async fn look_at(app: Shared, mut request: Request, next: Next) -> Response {
    app.look_at_settings();
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_else(Peer::unknown);
    audit::note(|facts| facts.from(peer.address()));
    let spoken = Spoken::of(&request);
    let page = cors::listed_origin(&app, request.headers());
    let is_http1 = request.version() < Version::HTTP_2;
    if let Err(refusal) = Gate::check_head(request.uri(), request.headers()) {
        return bad_head(&app, spoken, refusal, is_http1);
    }
    let bytes_max = match spoken {
        Some(spoken) => uploads::body_bytes_max(&app, spoken.encoding()),
        None => app.body_bytes_max,
    };
    let admitted = match may_enter(&app, &peer, &request, bytes_max) {
        Ok(()) => match app.gate.caller(&peer, request.headers()).await {
            Ok(Caller::Stranger) if spoken.is_some() => app.gate.anyone(&peer).await,
            // Public content does not depend on the caller.
            Err(Refusal::SystemLimit { .. }) if is_public(&peer, request.method(), request.uri().path()) => {
                Ok(Caller::Stranger)
            }
            caller => caller,
        },
        Err(refusal) => Err(refusal),
    };
    let mut answer = match admitted {
        Ok(_)
            if page.is_some()
                && let Some(answer) = cors::preflight(&request) =>
        {
            answer
        }
        Ok(_) if let Some(refusal) = other_version(&request) => refusal,
        Ok(Caller::Stranger) if !is_public(&peer, request.method(), request.uri().path()) => {
            app.metrics.unproven(Unproven::Missing);
            refuse(spoken, app.gate.unnamed(&peer))
        }
        Ok(caller) => {
            audit::note(|facts| facts.caller(&caller));
            let called = Called::of(&peer, &request);
            request.extensions_mut().insert(called.clone());
            request.extensions_mut().insert(caller);
            let method = request.method().clone();
            let answer = next.run(request).await;
            let counted = app.unread.count(&method, answer).await;
            let mut answer = counted.unwrap_or_else(|refusal| refuse(spoken, refusal));
            if spoken.is_some() {
                a2a::tell_extensions(&app, &called, answer.headers_mut());
            }
            answer
        }
        Err(Refusal::BadField { field, why }) => bad_origin(spoken, format!("{field}: {why}")),
        Err(refusal) => last_answer(spoken, refusal, is_http1),
    };
    app.metrics.request(answer.status().is_client_error() || answer.status().is_server_error());
    sign(answer.headers_mut());
    if let Some(origin) = page {
        cors::let_read(origin, answer.headers_mut());
    }
    answer
}

/// Refuses a request without reading its body. An HTTP/1.1 connection is closed, since the body is
/// still on it; HTTP/2 keeps the connection.
fn last_answer(spoken: Option<Spoken>, refusal: Refusal, is_http1: bool) -> Response {
    closing(refuse(spoken, refusal), is_http1)
}

fn closing(mut answer: Response, is_http1: bool) -> Response {
    if is_http1 {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Refuses a request with an ambiguous head. In A2A this is an invalid request, not an invalid
/// parameter.
fn bad_head(app: &App, spoken: Option<Spoken>, refusal: Refusal, is_http1: bool) -> Response {
    let answer = match spoken {
        Some(spoken) => {
            let answer = spoken.refuse(Fault { kind: Kind::Request, ..Fault::of(&refusal) });
            audit::note(|facts| facts.refusal(&refusal));
            answer
        }
        None => Refused(refusal).into_response(),
    };
    let mut answer = closing(answer, is_http1);
    app.metrics.request(true);
    sign(answer.headers_mut());
    answer
}

/// Puts a refusal into the form that the caller reads.
fn refuse(spoken: Option<Spoken>, refusal: Refusal) -> Response {
    match spoken {
        Some(spoken) => {
            let answer = spoken.refuse(Fault::of(&refusal));
            audit::note(|facts| facts.refusal(&refusal));
            answer
        }
        None => Refused(refusal).into_response(),
    }
}

fn bad_origin(spoken: Option<Spoken>, why: String) -> Response {
    let answer = match spoken {
        Some(spoken) => spoken.refuse(Fault::new(Kind::Denied, &why)),
        None => (StatusCode::FORBIDDEN, axum::Json(ErrorBody::new("bad_origin", why))).into_response(),
    };
    audit::note(|facts| facts.code("bad_origin"));
    answer
}

/// Adds the headers of every response: our version, and what a browser may do with it. A
/// browser must not sniff the content type, must not share the response with other origins, and
/// caches it only if the door allows it (L19).
fn sign(headers: &mut HeaderMap) {
    headers.insert(level::VERSION_HEADER, HeaderValue::from_static(level::VERSION));
    headers.insert(level::LEVEL_HEADER, HeaderValue::from(level::OWN.newest));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// Refuses a caller whose version does not understand ours. Every version may read the status and
/// may stop or restart the node, because an upgrade needs that.
fn other_version(request: &Request) -> Option<Response> {
    const FOR_ALL: &[&str] = &["/status", "/healthz", "/openapi.json", "/api/v1/stop", "/api/v1/restart"];
    let given = request.headers().get(level::LEVEL_HEADER)?.to_str().unwrap_or("?");
    if FOR_ALL.contains(&request.uri().path()) {
        return None;
    }
    let Some(caller) = Levels::parse(given) else {
        let why = "it is not a level of the interface, such as 1 or 1-2";
        return Some(Refused(Refusal::bad_field(level::LEVEL_HEADER, why)).into_response());
    };
    let version = request.headers().get(level::VERSION_HEADER).and_then(|v| v.to_str().ok()).unwrap_or("");
    let refusal = level::check_caller(level::OWN, level::VERSION, caller, version).err()?;
    let status = StatusCode::from_u16(level::UPGRADE_REQUIRED).unwrap_or(StatusCode::BAD_REQUEST);
    Some((status, axum::Json(refusal)).into_response())
}

/// Checks what is known before the body is read: the address, the origin and the declared length.
fn may_enter(app: &App, peer: &Peer, request: &Request, bytes_max: usize) -> Result<(), Refusal> {
    app.gate.check_address(peer)?;
    app.gate.check_origin(peer, request.headers())?;
    if request.extensions().get::<Crowded>().is_some() {
        return Err(Refusal::Busy);
    }
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    match length {
        Some(bytes) if bytes > bytes_max => Err(Refusal::TooLarge { bytes, max: bytes_max }),
        _ => Ok(()),
    }
}

/// Reads a body within its limits of size and time.
pub(crate) async fn read_body(app: &App, body: axum::body::Body) -> Result<bytes::Bytes, Refusal> {
    const BODY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
    use http_body_util::BodyExt as _;
    let max = app.body_bytes_max;
    let limited = http_body_util::Limited::new(body, max);
    match tokio::time::timeout(BODY_TIMEOUT, limited.collect()).await {
        Ok(Ok(collected)) => {
            let bytes = collected.to_bytes();
            audit::note(|facts| facts.raw(&bytes));
            Ok(bytes)
        }
        Ok(Err(e)) if e.is::<http_body_util::LengthLimitError>() => {
            Err(Refusal::TooLarge { bytes: max + 1, max })
        }
        Ok(Err(e)) => Err(Refusal::bad_field("body", format!("it broke off: {e}"))),
        Err(_) => Err(Refusal::bad_field("body", "it did not arrive within 30 s")),
    }
}

/// A refusal as an HTTP response.
pub struct Refused(pub Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        audit::note(|facts| facts.refusal(&self.0));
        let status =
            StatusCode::from_u16(error::status(&self.0)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut answer = (status, axum::Json(ErrorBody::from(&self.0))).into_response();
        if let Some(seconds) = error::retry_after_s(&self.0) {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }
}

/// Reports an answer of the wrong kind from the driver, which is a bug.
pub(crate) fn unexpected() -> Refused {
    Refused(Refusal::NotStored { why: "the node answered something else; see its log".into() })
}
