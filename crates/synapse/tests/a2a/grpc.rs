//! A gRPC client built on tonic, as third parties would use it: any socket, JSON towards the test.

use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use synapse_a2a::fault::Kind;
use synapse_a2a::grpc::PREFIX;
use synapse_a2a::pb;
use synapse_a2a::wire::{Answer, from_json, to_json};
use synapse_testkit::http::Door;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tonic::client::Grpc;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{AsciiMetadataKey, MetadataMap};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt as _;

/// Longer than any answer should take on a busy machine.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// The error's reason, and all of it as `{code, message, details}`.
pub type Error = (String, Value);

pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

pub type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Io>>> + Send>>;

/// How to connect to a node.
#[derive(Clone)]
pub struct Way {
    /// The port that the client names in the request's authority.
    pub port: u16,
    pub open: Arc<dyn Fn() -> Opening + Send + Sync>,
}

impl From<Door> for Way {
    fn from(door: Door) -> Self {
        match door {
            Door::Unix(path) => Self { port: 80, open: Arc::new(move || Box::pin(unix(path.clone()))) },
            Door::Tcp(port) => Self { port, open: Arc::new(move || Box::pin(tcp(port))) },
        }
    }
}

async fn unix(path: PathBuf) -> io::Result<Box<dyn Io>> {
    // The path of a Unix socket is limited in length. A path through the folder's descriptor
    // always fits.
    let dir = std::fs::File::open(path.parent().unwrap())?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&dir);
    let name = path.file_name().unwrap().to_str().unwrap();
    Ok(Box::new(UnixStream::connect(format!("/proc/self/fd/{fd}/{name}")).await?))
}

async fn tcp(port: u16) -> io::Result<Box<dyn Io>> {
    Ok(Box::new(TcpStream::connect(("127.0.0.1", port)).await?))
}

impl tower_service::Service<Uri> for Way {
    type Response = hyper_util::rt::TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let opening = (self.open)();
        Box::pin(async move { Ok(hyper_util::rt::TokioIo::new(opening.await?)) })
    }
}

/// A client of the A2A service, with the metadata that it sends on every call.
pub struct Client {
    pub way: Way,
    pub metadata: Vec<(String, String)>,
}

impl Client {
    pub fn new(way: impl Into<Way>, metadata: &[(&str, &str)]) -> Self {
        let all = metadata.iter().map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()));
        Self { way: way.into(), metadata: all.collect() }
    }

    // tidy: table
    pub fn call(&self, operation: &str, params: &Value) -> Result<Value, Error> {
        type Config = pb::TaskPushNotificationConfig;
        match operation {
            "SendMessage" => self.unary::<pb::SendMessageRequest, pb::SendMessageResponse>(operation, params),
            "GetTask" => self.unary::<pb::GetTaskRequest, pb::Task>(operation, params),
            "ListTasks" => self.unary::<pb::ListTasksRequest, pb::ListTasksResponse>(operation, params),
            "CancelTask" => self.unary::<pb::CancelTaskRequest, pb::Task>(operation, params),
            "CreateTaskPushNotificationConfig" => self.unary::<Config, Config>(operation, params),
            "GetTaskPushNotificationConfig" => {
                self.unary::<pb::GetTaskPushNotificationConfigRequest, Config>(operation, params)
            }
            "ListTaskPushNotificationConfigs" => self
                .unary::<pb::ListTaskPushNotificationConfigsRequest, pb::ListTaskPushNotificationConfigsResponse>(
                    operation, params,
                ),
            "DeleteTaskPushNotificationConfig" => {
                let deleted = self.run::<pb::DeleteTaskPushNotificationConfigRequest, (), _>(
                    operation,
                    params,
                    async |client, request, path, codec| client.unary(request, path, codec).await,
                );
                deleted.map(|_| json!({}))
            }
            "GetExtendedAgentCard" => {
                self.unary::<pb::GetExtendedAgentCardRequest, pb::AgentCard>(operation, params)
            }
            _ => self.stream(operation, params, None).map(|_| Value::Null),
        }
    }

    fn unary<Req, Res>(&self, operation: &str, params: &Value) -> Result<Value, Error>
    where
        Req: Message + DeserializeOwned + Default + 'static,
        Res: Message + Answer + Default + 'static,
    {
        let answer = self.run::<Req, Res, _>(operation, params, async |client, request, path, codec| {
            client.unary(request, path, codec).await
        });
        Ok(to_json(&answer?.into_inner()).unwrap())
    }

    /// Returns all events, each with the cursor to resume from: the first event's id, and how many
    /// of the events after it were received.
    pub fn stream(
        &self,
        operation: &str,
        params: &Value,
        last: Option<&str>,
    ) -> Result<Vec<(String, Value)>, Error> {
        match operation {
            "SendStreamingMessage" => self.events::<pb::SendMessageRequest>(operation, params, last),
            "SubscribeToTask" => self.events::<pb::SubscribeToTaskRequest>(operation, params, last),
            other => panic!("{other}"),
        }
    }

    fn events<Req>(
        &self,
        operation: &str,
        params: &Value,
        last: Option<&str>,
    ) -> Result<Vec<(String, Value)>, Error>
    where
        Req: Message + DeserializeOwned + Default + 'static,
    {
        let seen = last.map(|last| last.split_once('+').unwrap());
        let seen = seen.map(|(first, count)| (first.to_owned(), count.parse::<usize>().unwrap()));
        let mut own = Self { way: self.way.clone(), metadata: self.metadata.clone() };
        own.metadata.extend(seen.iter().map(|(first, _)| ("last-event-id".to_owned(), first.clone())));
        own.run::<Req, pb::StreamResponse, _>(operation, params, async |client, request, path, codec| {
            let response = client.server_streaming(request, path, codec).await?;
            let told =
                response.metadata().get("first-event-id").map(|mark| mark.to_str().unwrap().to_owned());
            let (first, mut n, skip) = match seen {
                Some((first, count)) => {
                    assert_eq!(told, None, "of a stream that goes on");
                    (first, 1, count)
                }
                None => (told.expect("the first event has its mark"), 0, 0),
            };
            let mut events = Vec::new();
            let mut stream = response.into_inner();
            while let Some(event) = stream.message().await? {
                events.push((format!("{first}+{n}"), to_json(&event).unwrap()));
                n += 1;
            }
            Ok(events.split_off(skip.min(events.len())))
        })
    }

    /// Makes one call on its own connection.
    fn run<Req, Res, T>(
        &self,
        operation: &str,
        params: &Value,
        call: impl AsyncFnOnce(
            &mut Grpc<Channel>,
            Request<Req>,
            PathAndQuery,
            ProstCodec<Req, Res>,
        ) -> Result<T, Status>,
    ) -> Result<T, Error>
    where
        Req: Message + DeserializeOwned + Default + 'static,
        Res: Message + Default + 'static,
    {
        let mut request = Request::new(from_json::<Req>(params.clone()).unwrap());
        *request.metadata_mut() = self.metadata();
        let path = PathAndQuery::try_from(format!("{PREFIX}{operation}")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let called = runtime.block_on(async {
            let endpoint = Endpoint::from_shared(format!("http://localhost:{}", self.way.port)).unwrap();
            let channel = endpoint.connect_with_connector(self.way.clone()).await.unwrap();
            let mut client = Grpc::new(channel);
            client.ready().await.unwrap();
            let called = call(&mut client, request, path, ProstCodec::default());
            tokio::time::timeout(TIMEOUT, called).await.expect("an answer came")
        });
        called.map_err(|status| told(&status))
    }

    fn metadata(&self) -> MetadataMap {
        let mut all = MetadataMap::new();
        for (name, value) in &self.metadata {
            all.insert(AsciiMetadataKey::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        all
    }
}

/// R5: reads the error details. The reason must be that of the other bindings, the code that of the
/// table.
fn told(status: &Status) -> Error {
    let Some(info) = status.get_details_error_info() else { panic!("no ErrorInfo in {status:?}") };
    let kind = Kind::ALL.into_iter().find(|kind| kind.codes().reason == info.reason);
    let kind = kind.unwrap_or_else(|| panic!("{status:?}"));
    assert_eq!((status.code(), info.domain.as_str()), (Code::from(kind.codes().grpc.0), "a2a-protocol.org"));
    let mut details =
        vec![json!({ "reason": info.reason, "domain": info.domain, "metadata": info.metadata })];
    if let Some(bad) = status.get_details_bad_request() {
        let fields = bad.field_violations.iter();
        let fields: Vec<Value> =
            fields.map(|one| json!({ "field": one.field, "description": one.description })).collect();
        details.push(json!({ "fieldViolations": fields }));
    }
    let whole = json!({ "code": i32::from(status.code()), "message": status.message(), "details": details });
    (info.reason, whole)
}
