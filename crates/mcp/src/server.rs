//! Serves one client: passes its calls to the clerk, and sends progress meanwhile.
//!
//! The protocol runs in tasks that may move between threads, but the clerk stays on one thread: a
//! queue connects them.

use crate::input::Input;
use crate::{Clerk, ServeError, Told, ToolCall, Waiting, tools};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ServerCapabilities, ServerConfig,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::json;
use std::rc::Rc;
use std::time::{Duration, Instant};
use synapse_dialects::error::{ErrorBody, ErrorInfo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// The maximum number of concurrent calls; each may hold a connection.
const CALLS_MAX: usize = 64;
/// Large enough for a message of the maximum size with every character escaped.
const LINE_BYTES_MAX: usize = 8 << 20;
/// Clients give up on calls without progress.
const HEARTBEAT: Duration = Duration::from_secs(5);
const NEWS_MAX: usize = 32;

/// A call in the queue for the clerk.
struct Job {
    call: ToolCall,
    waiting: Waiting,
    done: oneshot::Sender<Result<Told, ErrorInfo>>,
    _one_of_many: tokio::sync::OwnedSemaphorePermit,
}

pub(crate) async fn run<C: Clerk + 'static>(
    clerk: C,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServeError> {
    let closed = CancellationToken::new();
    let (jobs, queue) = mpsc::channel(CALLS_MAX);
    tokio::task::spawn_local(work(Rc::new(clerk), queue));
    let room = std::sync::Arc::new(tokio::sync::Semaphore::new(CALLS_MAX));
    let server = Server { jobs, room, closed: closed.clone() };
    let input = Input::new(input, closed);
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(LINE_BYTES_MAX);
    let running = server.serve(transport).await.map_err(|e| ServeError::Begin(e.to_string()))?;
    let ended = running.waiting().await.map_err(|e| ServeError::Ended(e.to_string()))?;
    tracing::debug!(?ended, "the client is gone");
    Ok(())
}

async fn work<C: Clerk + 'static>(clerk: Rc<C>, mut queue: mpsc::Receiver<Job>) {
    while let Some(job) = queue.recv().await {
        let clerk = clerk.clone();
        tokio::task::spawn_local(async move {
            let told = clerk.carry_out(job.call, job.waiting).await;
            // If the call was canceled, there is no receiver any more.
            let _ = job.done.send(told);
        });
    }
}

struct Server {
    jobs: mpsc::Sender<Job>,
    room: std::sync::Arc<tokio::sync::Semaphore>,
    closed: CancellationToken,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("synapse", env!("CARGO_PKG_VERSION"));
        info.server_info.title = Some("Synapse".into());
        info.with_instructions(tools::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(call) = tools::understand(&request.name, request.arguments) else {
            let known = tools::names().join(", ");
            let message = format!("there is no tool {:?}; there are {known}", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let told = match call {
            Ok(call) => self.hand_over(call, context).await,
            Err(info) => Err(info),
        };
        Ok(answer(told).into())
    }
}

impl Server {
    async fn hand_over(
        &self,
        call: ToolCall,
        context: RequestContext<RoleServer>,
    ) -> Result<Told, ErrorInfo> {
        let busy = || {
            let message = format!("{CALLS_MAX} calls are under way; wait until some of them are done");
            ErrorBody::new("busy", message).error
        };
        let permit = self.room.clone().try_acquire_owned().map_err(|_| busy())?;
        let token = context.meta.get_progress_token();
        let (news, told_of) = mpsc::channel(NEWS_MAX);
        let waiting = Waiting {
            news,
            is_told: token.is_some(),
            canceled: context.ct.clone(),
            closed: self.closed.clone(),
        };
        let (done, answer) = oneshot::channel();
        let job = Job { call, waiting, done, _one_of_many: permit };
        self.jobs.try_send(job).map_err(|_| busy())?;
        let teller = Teller { peer: context.peer, token, count: 0, since: Instant::now() };
        teller.tell_until(answer, told_of).await
    }
}

/// Sends progress of a call, if the client requested it.
struct Teller {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    count: u32,
    since: Instant,
}

impl Teller {
    async fn tell_until(
        mut self,
        mut answer: oneshot::Receiver<Result<Told, ErrorInfo>>,
        mut news: mpsc::Receiver<String>,
    ) -> Result<Told, ErrorInfo> {
        let mut is_news = true;
        loop {
            let text = tokio::select! {
                biased;
                text = news.recv(), if is_news => match text {
                    Some(text) => text,
                    None => {
                        is_news = false;
                        continue;
                    }
                },
                told = &mut answer => {
                    let lost = || ErrorBody::new("lost", "the call ended without an answer; try it again").error;
                    return told.unwrap_or_else(|_| Err(lost()));
                }
                () = tokio::time::sleep(HEARTBEAT) => format!("waiting for {} s", self.since.elapsed().as_secs()),
            };
            self.tell(text).await;
        }
    }

    async fn tell(&mut self, text: String) {
        let Some(token) = self.token.clone() else { return };
        self.count += 1;
        let mut progress = ProgressNotificationParam::new(token, f64::from(self.count));
        progress.message = Some(text);
        if let Err(e) = self.peer.notify_progress(progress).await {
            tracing::debug!("the client cannot be told: {e}");
        }
    }
}

fn answer(told: Result<Told, ErrorInfo>) -> CallToolResult {
    match told {
        Ok(Told { text, data, failed }) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = Some(data);
            result.is_error = Some(failed);
            result
        }
        Err(info) => {
            let mut result = CallToolResult::error(vec![ContentBlock::text(in_words(&info))]);
            result.structured_content = Some(json!({ "error": info }));
            result
        }
    }
}

/// Formats an error with the names to use instead, if there are some.
fn in_words(info: &ErrorInfo) -> String {
    let candidates = info.details.as_ref().and_then(|details| details.get("candidates")?.as_array());
    let mut text = info.message.clone();
    for candidate in candidates.into_iter().flatten().filter_map(|candidate| candidate.as_str()) {
        text.push_str("\n  ");
        text.push_str(candidate);
    }
    text
}
