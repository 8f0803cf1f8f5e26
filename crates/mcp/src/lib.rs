//! The Model Context Protocol over two pipes: what agents do with `synapse` becomes tools that they call.
//!
//! The protocol itself is rmcp's. Here are the tools with their words (`tools`), how a call is answered (`server`),
//! and the loop that ends when the client is gone. Everything that a tool does is done by a clerk, which the binary
//! brings along: the same code as behind its commands.
//!
//! Invariant: nothing but JSON-RPC is written to the output. A call that cannot be done is an answer that says what
//! helps, not an error of the protocol.
//! Not here: nodes, sockets, who is calling (`synapse/cli/mcp`).

mod input;
mod server;
pub mod tools;

pub use tools::ToolCall;

use serde_json::Value;
use synapse_dialects::error::ErrorInfo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Who does what the tools ask for.
///
/// Its futures stay on one thread, as those of the commands do.
#[allow(async_fn_in_trait)]
pub trait Clerk {
    async fn carry_out(&self, call: ToolCall, waiting: Waiting) -> Result<Told, ErrorInfo>;
}

/// What comes back from a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// For the model, in a few words.
    pub text: String,
    /// The same and more, for programs; an object.
    pub data: Value,
    /// It was done, and did not come out well.
    pub failed: bool,
}

impl Told {
    pub fn new(text: impl Into<String>, data: Value) -> Self {
        Self { text: text.into(), data, failed: false }
    }

    #[must_use]
    pub fn failed(mut self) -> Self {
        self.failed = true;
        self
    }
}

/// How a call is waited for: where news go, and what ends it early.
#[derive(Clone)]
pub struct Waiting {
    news: mpsc::Sender<String>,
    /// The client hears news, so that it knows that we are still at it.
    pub is_told: bool,
    /// The client wants no answer any more.
    pub canceled: CancellationToken,
    /// The client is gone.
    pub closed: CancellationToken,
}

impl Waiting {
    /// Tells the client what happens; with too much at once, some of it is left out.
    pub fn say(&self, news: impl Into<String>) {
        // Full: it has not read the last ones yet.
        let _ = self.news.try_send(news.into());
    }
}

/// Why serving ended before the client was done.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the client did not begin as MCP asks for: {0}")]
    Begin(String),
    #[error("the server ended: {0}")]
    Ended(String),
}

/// Serves one client, until it is gone.
pub async fn serve(
    clerk: impl Clerk + 'static,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServeError> {
    tokio::task::LocalSet::new().run_until(server::run(clerk, input, output)).await
}
