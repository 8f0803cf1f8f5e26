//! The Model Context Protocol over two pipes: makes the commands of `synapse` available to agents
//! as tools.
//!
//! rmcp implements the protocol. This crate has the tools and their descriptions (`tools`), the
//! answers to calls (`server`), and the loop that ends when the client is gone. A clerk, which the
//! binary provides, executes the tools with the same code as the commands.
//!
//! Invariant: only JSON-RPC is written to the output. A call that fails returns a result with a
//! hint, not a protocol error.
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

/// Executes tool calls.
///
/// Its futures stay on one thread, like those of the commands.
#[allow(async_fn_in_trait)]
pub trait Clerk {
    async fn carry_out(&self, call: ToolCall, waiting: Waiting) -> Result<Told, ErrorInfo>;
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// For the model, in a few words.
    pub text: String,
    /// The same and more, for programs; a JSON object.
    pub data: Value,
    /// The call was carried out, but without success.
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

/// How a client waits for a call: where progress goes, and what ends the wait early.
#[derive(Clone)]
pub struct Waiting {
    news: mpsc::Sender<String>,
    /// The client gets progress, so it knows that the call is still running.
    pub is_told: bool,
    /// The client has canceled the call.
    pub canceled: CancellationToken,
    /// The client is gone.
    pub closed: CancellationToken,
}

impl Waiting {
    /// Sends progress to the client; if there is too much at once, some of it is dropped.
    pub fn say(&self, news: impl Into<String>) {
        // The channel is full: the client has not read the last ones yet.
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

/// Serves one client until it is gone.
pub async fn serve(
    clerk: impl Clerk + 'static,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServeError> {
    tokio::task::LocalSet::new().run_until(server::run(clerk, input, output)).await
}
