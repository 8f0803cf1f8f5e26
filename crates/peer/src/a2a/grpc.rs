//! gRPC as a caller, for agents that have nothing else: the same questions and answers, as messages over HTTP/2 (R1–R6).
//!
//! What is asked comes as JSON of 1.0 and what is answered goes on as such, so that nothing else has to know of it.

use super::call::{Ask, not_understood, unusable};
use super::card::{GrpcInterface, Version};
use super::error::AskError;
use crate::web;
use http::HeaderMap;
use prost::Message;
use serde_json::{Value, json};
use synapse_a2a::grpc::{CONTENT_TYPE, Messages, PREFIX, Told, frame};
use synapse_a2a::wire::{from_json, to_json};
use synapse_a2a::{pb, v03};

/// The request without credentials.
pub(super) fn request(ask: &Ask<'_>, at: &GrpcInterface) -> Result<web::Request, AskError> {
    let (prefix, method, message) = match at.version {
        Version::V10 => (PREFIX, ask.method(), message(ask, at)?),
        Version::V03 => {
            let (method, message) = v03::grpc::write_request(&ask.operation()?).map_err(unusable)?;
            (v03::grpc::PREFIX, method, message)
        }
    };
    let url = at.url.at_root(&format!("{}{method}", prefix.trim_start_matches('/'))).to_string();
    let request = web::Request::post(&url, CONTENT_TYPE, message);
    let request = request.header("te", "trailers", false)?;
    Ok(request.header("a2a-version", at.version.name(), false)?)
}

fn message(ask: &Ask<'_>, at: &GrpcInterface) -> Result<Vec<u8>, AskError> {
    let mut params = ask.params();
    if let Some(tenant) = &at.tenant {
        params["tenant"] = tenant.as_str().into();
    }
    let message = match ask {
        Ask::Send(_) | Ask::SendStreaming(_) => framed::<pb::SendMessageRequest>(params),
        Ask::Get(_) => framed::<pb::GetTaskRequest>(params),
        Ask::List { .. } => framed::<pb::ListTasksRequest>(params),
        Ask::Cancel(_) => framed::<pb::CancelTaskRequest>(params),
        Ask::ExtendedCard => framed::<pb::GetExtendedAgentCardRequest>(params),
        Ask::Subscribe { .. } => framed::<pb::SubscribeToTaskRequest>(params),
    };
    message.map_err(unusable)
}

fn framed<T: Message + serde::de::DeserializeOwned>(params: Value) -> Result<Vec<u8>, synapse_a2a::Fault> {
    from_json::<T>(params).map(|message| frame(&message))
}

/// The one message of a whole answer, as JSON of 1.0.
pub(super) async fn answer(
    ask: &Ask<'_>,
    version: Version,
    stream: &mut web::Streaming,
    bytes_max: usize,
) -> Result<Value, AskError> {
    let mut messages = Messages::default();
    while let Some(bytes) = stream.chunk().await? {
        messages.take_in(&bytes);
    }
    ended(stream)?;
    let message = messages.next(bytes_max).map_err(|why| not_understood(&why))?;
    let message = message.ok_or_else(|| not_understood("it says that all is well, and nothing else"))?;
    answer_of(ask, version, message)
}

pub(super) fn answer_of(ask: &Ask<'_>, version: Version, message: &[u8]) -> Result<Value, AskError> {
    if version == Version::V03 {
        let json = match ask.is_stream() {
            true => v03::grpc::read_event(message).and_then(|(told, _)| to_json(&told)),
            false => v03::grpc::read_reply(&ask.operation()?, message).and_then(|reply| reply.to_json()),
        };
        return json.map_err(|fault| not_understood(&fault.message));
    }
    let json = match ask {
        Ask::Send(_) => to_json(&read::<pb::SendMessageResponse>(message)?),
        Ask::List { .. } => to_json(&read::<pb::ListTasksResponse>(message)?),
        Ask::ExtendedCard => to_json(&read::<pb::AgentCard>(message)?),
        Ask::Get(_) | Ask::Cancel(_) => to_json(&read::<pb::Task>(message)?),
        Ask::SendStreaming(_) | Ask::Subscribe { .. } => to_json(&read::<pb::StreamResponse>(message)?),
    };
    json.map_err(|fault| not_understood(&fault.message))
}

pub(super) fn event(version: Version, message: &[u8]) -> Result<pb::StreamResponse, AskError> {
    match version {
        Version::V10 => read(message),
        Version::V03 => {
            let told = v03::grpc::read_event(message).map(|(told, _)| told);
            told.map_err(|fault| not_understood(&fault.message))
        }
    }
}

fn read<T: Message + Default>(message: &[u8]) -> Result<T, AskError> {
    T::decode(message).map_err(|e| not_understood(&e.to_string()))
}

/// How the call ended, when its body has.
pub(super) fn ended(stream: &web::Streaming) -> Result<(), AskError> {
    let told = told(&stream.headers, &stream.trailers);
    match told {
        Some(told) if told.code == 0 => Ok(()),
        Some(told) => Err(AskError::of_grpc(told)),
        None if stream.status.is_success() => Err(not_understood("it does not say how the call ended")),
        None => Err(AskError::of_http(stream.status.as_u16(), &json!(null))),
    }
}

fn told(headers: &HeaderMap, trailers: &HeaderMap) -> Option<Told> {
    Told::read(trailers).or_else(|| Told::read(headers))
}

/// Whether it is an answer of gRPC at all.
pub(super) fn is_grpc(media: &str) -> bool {
    media.strip_prefix(CONTENT_TYPE).is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::super::url::HttpUrl;
    use super::*;

    /// R1, A10: each operation has its path and its message, with the tenant of the interface.
    #[test]
    fn every_operation_on_the_wire() {
        let message =
            json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] } });
        let at = GrpcInterface {
            url: HttpUrl::parse("https://a.example:50051").unwrap(),
            version: Version::V10,
            tenant: Some("acme".into()),
        };
        for ask in [
            Ask::Send(message.clone()),
            Ask::SendStreaming(message.clone()),
            Ask::Get("t"),
            Ask::List { page_size: 7 },
            Ask::Cancel("t"),
            Ask::ExtendedCard,
            Ask::Subscribe { task: "t", by_post: false },
        ] {
            let made = request(&ask, &at).unwrap();
            let url = format!("https://a.example:50051/lf.a2a.v1.A2AService/{}", ask.method());
            assert_eq!((made.url.as_str(), made.method.as_str()), (url.as_str(), "POST"));
            assert_eq!(made.headers["te"], "trailers");
            assert_eq!(made.headers["a2a-version"], "1.0");
            let bytes = synapse_a2a::grpc::unframe(&made.body).unwrap();
            use synapse_a2a::operation::Request;
            let (tenant, id) = match synapse_a2a::grpc::request(ask.method(), bytes).unwrap() {
                Request::Send(r) | Request::SendStreaming(r) => (r.tenant, r.message.unwrap().message_id),
                Request::Get(r) => (r.tenant, r.id),
                Request::List(r) => (r.tenant, r.page_size.unwrap_or_default().to_string()),
                Request::Cancel(r) => (r.tenant, r.id),
                Request::ExtendedCard(r) => (r.tenant, String::new()),
                Request::Subscribe(r) => (r.tenant, r.id),
                other => panic!("{other:?}"),
            };
            let named = match ask {
                Ask::Send(_) | Ask::SendStreaming(_) => "m",
                Ask::List { .. } => "7",
                Ask::ExtendedCard => "",
                _ => "t",
            };
            assert_eq!((tenant.as_str(), id.as_str()), ("acme", named));
        }
        let wrong = request(&Ask::Send(json!({ "message": { "messageId": 7 } })), &at).unwrap_err();
        assert!(matches!(wrong, AskError::Unusable { .. }), "{wrong:?}");
    }

    /// L1: in 0.3 another service, other names, and the same questions; but for the list, which it has not.
    #[test]
    fn every_operation_of_03_on_the_wire() {
        let message = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] }, "configuration": {} });
        let url = HttpUrl::parse("http://localhost:50051").unwrap();
        let at = GrpcInterface { url, version: Version::V03, tenant: None };
        for (ask, method) in [
            (Ask::Send(message.clone()), "SendMessage"),
            (Ask::SendStreaming(message.clone()), "SendStreamingMessage"),
            (Ask::Get("t"), "GetTask"),
            (Ask::Cancel("t"), "CancelTask"),
            (Ask::ExtendedCard, "GetAgentCard"),
            (Ask::Subscribe { task: "t", by_post: false }, "TaskSubscription"),
        ] {
            let made = request(&ask, &at).unwrap();
            assert_eq!(made.url, format!("http://localhost:50051/a2a.v1.A2AService/{method}"));
            assert_eq!(made.headers["a2a-version"], "0.3");
            let bytes = synapse_a2a::grpc::unframe(&made.body).unwrap();
            assert_eq!(v03::grpc::request(method, bytes).unwrap(), ask.operation().unwrap());
        }
        let list = request(&Ask::List { page_size: 7 }, &at).unwrap_err();
        assert!(list.to_string().contains("no list of tasks"), "{list}");
    }

    #[test]
    fn what_an_answer_of_grpc_is() {
        for (media, is) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc-web", false),
            ("application/json", false),
            ("", false),
        ] {
            assert_eq!(is_grpc(media), is, "{media}");
        }
    }
}
