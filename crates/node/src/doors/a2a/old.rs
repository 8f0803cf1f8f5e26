//! Where version 0.3 of A2A behaves differently from 1.0, beyond the format (L1, L2).

use crate::a2a::{Done, Engine, Event, Mark, Stream};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::operation::{Reply, Request};
use synapse_a2a::{pb, v03};
use tokio::sync::mpsc;

const EVENTS: &str = "text/event-stream";

pub(super) async fn perform(engine: &Engine, request: Request, after: Option<Mark>) -> Result<Done, Fault> {
    match request {
        Request::GetPush(asked) if asked.id.is_empty() => {
            any_webhook(engine, asked.tenant, asked.task_id).await
        }
        Request::ExtendedCard(_) => engine.perform(request, after).await.map_err(|fault| match fault.kind {
            // 0.3 has one error for both cases.
            Kind::Unsupported => Fault { kind: Kind::NoExtendedCard, ..fault },
            _ => fault,
        }),
        Request::Subscribe(_) => match engine.perform(request, after).await? {
            Done::Stream(events) => Ok(Done::Stream(until_final(events))),
            reply => Ok(reply),
        },
        request => engine.perform(request, after).await,
    }
}

/// Returns a task's webhook without a given name, which 0.3 allows: the one without a name of its
/// own, or the first.
async fn any_webhook(engine: &Engine, tenant: String, task: String) -> Result<Done, Fault> {
    let list =
        pb::ListTaskPushNotificationConfigsRequest { tenant, task_id: task.clone(), ..Default::default() };
    let Done::Reply(Reply::Pushes(page)) = engine.perform(Request::ListPush(list), None).await? else {
        return Err(Fault::new(Kind::Internal, "the node answered something else; see its log"));
    };
    let mut configs = page.configs;
    let nth = configs.iter().position(|config| config.id == task).unwrap_or_default();
    if nth >= configs.len() {
        let message = format!("task {task:?} has no push notification config");
        return Err(Fault::new(Kind::TaskNotFound, message));
    }
    Ok(Done::Reply(Reply::Push(configs.swap_remove(nth))))
}

/// Ends a subscription with the event that asks for input. In 1.0 the subscriber continues to get
/// events after it; in 0.3 that event is the last one.
fn until_final(mut events: Stream) -> Stream {
    let (told, reader) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = told.closed() => return,
            };
            let Some(event) = event else { return };
            let is_last = matches!(&event, Event::Told { response, .. } if v03::is_final(response));
            if told.send(event).await.is_err() || is_last {
                return;
            }
        }
    });
    reader
}

/// Whether a JSON-RPC call comes from a 0.3 client that reads its answer, even an error, only from
/// a stream.
pub(super) fn reads_events(method: &str, headers: &HeaderMap) -> bool {
    let is_stream = matches!(method, "message/stream" | "tasks/resubscribe");
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    is_stream && accepted.contains(EVENTS)
}

/// Returns a stream with one event.
pub(super) fn one_event(data: &Value) -> Response {
    let mut response = format!("data: {data}\n\n").into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
