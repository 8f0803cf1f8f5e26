//! `synapse mcp serve`: the tools of MCP for the program that started it, over standard input and output.
//!
//! Whose calls they are is not said by anyone: the node sees from which process they come. Below an agent they
//! are that agent's, started by a person they are the person's.
//!
//! Not here: the tools and the protocol (`synapse-mcp`), what a tool does (`clerk`).

mod clerk;

use crate::fail::{self, Done, Fail};
use clap::Subcommand;
use clerk::Desk;

#[derive(Subcommand)]
pub(super) enum Mcp {
    /// Serve MCP on standard input and output
    ///
    /// Programs start this themselves; `synapse init --mcp claude,codex,gemini,opencode` tells them to. Standard output has
    /// nothing but JSON-RPC, one message a line; what goes wrong is on standard error, more of it with SYNAPSE_LOG=debug.
    /// The tools are list_agents, send_message, ask_agent, reply, read_inbox, share_context, agent_status and wait_for.
    /// They act as the agent below which this process runs, or as you if it runs below none.
    #[command(after_help = super::examples::MCP_SERVE)]
    Serve,
}

pub(super) async fn mcp(args: Mcp) -> Done {
    match args {
        Mcp::Serve => serve().await,
    }
}

async fn serve() -> Done {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SYNAPSE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // A reader of our errors that has gone must not end us.
        .log_internal_errors(false)
        .init();
    let served = synapse_mcp::serve(Desk, tokio::io::stdin(), tokio::io::stdout()).await;
    served.map_err(|e| Fail::new(fail::ERROR, "mcp", e.to_string()))
}
