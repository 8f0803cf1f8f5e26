//! An echo on the official Rust server crate. `bench a2a` builds it in its own crate and measures
//! it beside us.
//!
//! It completes its task with the first event, which is the least work for the crate. It is not a
//! module of xtask.

use std::sync::Arc;

use a2a::{A2AError, Artifact, StreamResponse, Task, TaskState, TaskStatus};
use a2a_server::{AgentExecutor, DefaultRequestHandler, ExecutorContext, InMemoryTaskStore};
use futures::stream::{self, BoxStream, StreamExt};

struct Echo;

fn told(ctx: ExecutorContext, state: TaskState) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
    let parts = ctx.message.as_ref().map(|message| message.parts.clone()).unwrap_or_default();
    let answer = Artifact {
        artifact_id: "answer".into(),
        name: Some("answer".into()),
        description: None,
        parts,
        metadata: None,
        extensions: None,
    };
    let task = Task {
        id: ctx.task_id,
        context_id: ctx.context_id,
        status: TaskStatus { state, message: None, timestamp: Some(chrono::Utc::now()) },
        artifacts: Some(vec![answer]),
        history: ctx.message.map(|message| vec![message]),
        metadata: None,
    };
    stream::once(async move { Ok(StreamResponse::Task(task)) }).boxed()
}

impl AgentExecutor for Echo {
    fn execute(&self, ctx: ExecutorContext) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        told(ctx, TaskState::Completed)
    }

    fn cancel(&self, ctx: ExecutorContext) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        told(ctx, TaskState::Canceled)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let handler = Arc::new(DefaultRequestHandler::new(Echo, InMemoryTaskStore::new()));
    let routes = a2a_server::jsonrpc::jsonrpc_router(handler);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("ready http://{}", listener.local_addr()?);
    axum::serve(listener, routes).await?;
    Ok(())
}
