//! Hearing of a task elsewhere until it is over: its stream, taken up again where it broke, or questions where there is
//! no stream.
//!
//! Invariant: what is told in the end is whole. A stream that was taken up again is checked against the task itself, so
//! a server that repeats or forgets events does no harm.

use super::call::{self, Ask, Shape, not_understood};
use super::card::Version;
use super::error::AskError;
use super::picture::Picture;
use super::sse::{EVENT_BYTES_MAX, ID_BYTES_MAX, Reader, SseEvent};
use super::{ANSWER_BYTES_MAX, Agent, At, Interface, SSE, WireEvent, content_type, grpc};
use crate::web::{Limits, Request, Streaming, WebError};
use http::HeaderMap;
use serde_json::Value;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use synapse_a2a::grpc::Messages;
use synapse_a2a::{Kind, pb};

/// Tries to take a stream up again that brought nothing new.
const TRIES_MAX: u32 = 8;
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Between two questions where there is no stream.
const ASK_MIN: Duration = Duration::from_millis(300);
const ASK_MAX: Duration = Duration::from_secs(5);
/// Ids of events that are remembered; a server that repeats more is wrong in other ways too.
const IDS_MAX: usize = 4_096;
/// All that a task may bring, over all its connections.
const STREAM_BYTES_MAX: usize = 256 << 20;
/// Nothing at all for so long: the connection may be dead without anybody having said so.
const QUIET: Duration = Duration::from_secs(90);

const LAST_EVENT: &str = "last-event-id";
const FIRST_EVENT: &str = "first-event-id";

/// What one wants to hear, and when it is enough.
pub struct Ears<'a> {
    /// What the agent says on the way; a stranger's words.
    pub hear: &'a (dyn Fn(&str) + Sync),
    pub enough: &'a (dyn Fn(&Picture) -> bool + Sync),
}

impl Ears<'_> {
    /// Whether that was enough, or the last.
    fn take_in(&self, event: pb::StreamResponse, picture: &mut Picture) -> Result<bool, AskError> {
        if let Some(told) = picture.take_in(event).map_err(|why| not_understood(&why))? {
            (self.hear)(&told);
        }
        Ok(picture.is_over() || (self.enough)(picture))
    }
}

/// How hearing of a task begins.
pub enum Begin<'a> {
    /// With a message that begins it, or goes on with it.
    Send(Value),
    Task(&'a str),
}

/// Where one is in a stream, across its connections.
#[derive(Default)]
struct Place {
    last_id: Option<String>,
    seen: VecDeque<String>,
    /// Of a stream whose events have no ids: how many have come after the first, which is the last id.
    after_first: u64,
    /// Events that have come at all, and their bytes.
    count: u64,
    bytes: usize,
}

impl Place {
    /// The first of events without ids; none of them is known yet.
    fn begin_anew(&mut self, head: &HeaderMap) {
        let first = head.get(FIRST_EVENT).and_then(|first| first.to_str().ok());
        self.last_id = first.filter(|id| id.len() <= ID_BYTES_MAX).map(str::to_owned);
        self.after_first = 0;
    }

    /// Counts one more event.
    fn count(&mut self, bytes: usize) -> Result<(), AskError> {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes > STREAM_BYTES_MAX {
            true => Err(not_understood("the events of one task are larger than is kept")),
            false => Ok(()),
        }
    }

    /// Whether the event is new; remembers it.
    fn is_new(&mut self, event: &SseEvent) -> bool {
        let Some(id) = &event.id else { return true };
        if self.seen.contains(id) {
            return false;
        }
        if self.seen.len() == IDS_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(id.clone());
        self.last_id = Some(id.clone());
        true
    }
}

/// Why a connection is not read on.
enum Ended {
    /// It is over, or enough was heard.
    Over,
    Broken(String),
    /// It said something that cannot be read.
    Unreadable(String),
}

impl Agent {
    /// Follows until the task is over or enough was heard. What is known grows in `picture`, whatever becomes of this.
    pub async fn follow(
        &self,
        begin: Begin<'_>,
        picture: &mut Picture,
        ears: &Ears<'_>,
    ) -> Result<(), AskError> {
        let mut place = Place::default();
        let id = match begin {
            Begin::Task(id) => id.to_owned(),
            Begin::Send(message) if self.card.streaming => {
                let message = self.with_output_modes(message);
                let message_id = message["message"]["messageId"].as_str().unwrap_or_default().to_owned();
                let names_task = message["message"]["taskId"].is_string();
                let ask = Ask::SendStreaming(message.clone());
                let ended = match self.listen(ask, &mut place, picture, ears).await {
                    // Not after an event: it has begun then, and would begin again.
                    Err(e) if e.refuses_stream(names_task) && place.count == 0 => {
                        self.odd("its card declares streaming, but it refuses to stream: polled instead");
                        return self.send_and_poll(message, picture, ears).await;
                    }
                    ended => ended?,
                };
                match (ended, picture.task_id()) {
                    // Some stream the states alone; the answer is in the task.
                    (Ended::Over, Some(id)) if picture.ended_without_answer() => {
                        let id = id.to_owned();
                        self.odd("its stream ended without the answer: asked for the task");
                        return self.make_whole(&id, picture).await;
                    }
                    (Ended::Over, _) => return Ok(()),
                    (Ended::Broken(_), Some(id)) => id.to_owned(),
                    (Ended::Broken(why), None) => return Err(AskError::NotKnown { message_id, why }),
                    (Ended::Unreadable(why), Some(id)) => {
                        let id = id.to_owned();
                        return self.poll_instead(&why, &id, picture, ears).await;
                    }
                    (Ended::Unreadable(why), None) => return Err(not_understood(&why)),
                }
            }
            Begin::Send(message) => return self.send_and_poll(message, picture, ears).await,
        };
        match self.card.streaming {
            true => self.go_on(&id, place, picture, ears).await,
            false => self.ask_until_over(&id, picture, ears).await,
        }
    }

    /// For servers without streams.
    async fn send_and_poll(
        &self,
        message: Value,
        picture: &mut Picture,
        ears: &Ears<'_>,
    ) -> Result<(), AskError> {
        self.send_into(message, true, picture, ears).await?;
        match picture.task_id().map(str::to_owned) {
            Some(id) if !picture.is_over() && !(ears.enough)(picture) => {
                self.ask_until_over(&id, picture, ears).await
            }
            _ => Ok(()),
        }
    }

    /// For a stream that cannot be read: the task itself says what has become of it.
    async fn poll_instead(
        &self,
        why: &str,
        id: &str,
        picture: &mut Picture,
        ears: &Ears<'_>,
    ) -> Result<(), AskError> {
        self.odd(&format!("its stream cannot be read ({why}): polled instead"));
        self.ask_until_over(id, picture, ears).await
    }

    /// Takes a stream up again, and again.
    async fn go_on(
        &self,
        id: &str,
        mut place: Place,
        picture: &mut Picture,
        ears: &Ears<'_>,
    ) -> Result<(), AskError> {
        let (mut tries, mut pause, mut by_post) = (0, PAUSE_MIN, false);
        let mut why = String::new();
        while tries < TRIES_MAX {
            let (count, changes, began) = (place.count, picture.changes(), Instant::now());
            match self.listen(Ask::Subscribe { task: id, by_post }, &mut place, picture, ears).await {
                Ok(Ended::Over) => return self.make_whole(id, picture).await,
                Ok(Ended::Broken(broken)) => why = broken,
                Ok(Ended::Unreadable(why)) | Err(AskError::NotUnderstood { why }) => {
                    return self.poll_instead(&why, id, picture, ears).await;
                }
                Err(e) if e.is_passing() => why = e.to_string(),
                // The verb, or the task: the next question tells which.
                Err(AskError::Refused { code: 404 | 405 | 501, .. }) if !by_post => {
                    by_post = true;
                    continue;
                }
                // It is over, or the server has no such thing: the task itself tells.
                Err(e) if e.is(Kind::Unsupported) || e.is(Kind::Method) || e.is(Kind::TaskNotFound) => {
                    return self.ask_until_over(id, picture, ears).await;
                }
                Err(AskError::Refused { code: 404 | 405 | 501, .. }) => {
                    return self.ask_until_over(id, picture, ears).await;
                }
                Err(e) => return Err(e),
            }
            // Whoever tells of the task is alive; but if that is all it tells, it is asked less and less often.
            if place.count > count {
                tries = 0;
            }
            if picture.changes() > changes || began.elapsed() >= PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            tries += 1;
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
        match self.task(id).await {
            Ok(_) => self.poll_instead(&why, id, picture, ears).await,
            Err(_) => Err(AskError::Lost { tries, why }),
        }
    }

    /// One connection of a stream.
    async fn listen(
        &self,
        ask: Ask<'_>,
        place: &mut Place,
        picture: &mut Picture,
        ears: &Ears<'_>,
    ) -> Result<Ended, AskError> {
        let mut request = self.request(&ask)?;
        let is_first = matches!(ask, Ask::SendStreaming(_));
        if let (Some(id), false) = (&place.last_id, is_first) {
            request = request.header(LAST_EVENT, id, false)?;
        }
        request.limits =
            Limits { quiet: QUIET, answer_bytes_max: STREAM_BYTES_MAX, whole: QUIET, ..Limits::default() };
        let at = match &self.at {
            At::Json(at) => at,
            At::Grpc(at) => return self.listen_grpc(at.version, request, place, picture, ears).await,
        };
        let stream = match self.web.stream(request).await {
            Ok(stream) => stream,
            // Whether it was heard is not known.
            Err(e @ (WebError::Dropped { .. } | WebError::Slow { .. })) => {
                return Ok(Ended::Broken(e.to_string()));
            }
            Err(e) => return Err(e.into()),
        };
        self.check_status(stream.status, &stream.headers)?;
        if content_type(&stream.headers) != SSE || !stream.status.is_success() {
            return self.read_alone(at, stream, picture, ears).await;
        }
        self.hear(at, stream, place, picture, ears).await
    }

    /// The answer to a message that asked for no stream, as a stream of events.
    pub(super) async fn hear_sent(
        &self,
        at: &Interface,
        stream: Streaming,
        message_id: String,
        picture: &mut Picture,
        ears: &Ears<'_>,
    ) -> Result<(), AskError> {
        self.odd("a stream of events, where one answer was asked for: its events are read");
        let ended = self.hear(at, stream, &mut Place::default(), picture, ears).await?;
        match ended {
            Ended::Over => Ok(()),
            // The task can be asked for.
            Ended::Broken(_) | Ended::Unreadable(_) if picture.task_id().is_some() => Ok(()),
            Ended::Broken(why) => Err(AskError::NotKnown { message_id, why }),
            Ended::Unreadable(why) => Err(not_understood(&why)),
        }
    }

    /// The events of one connection.
    async fn hear(
        &self,
        at: &Interface,
        mut stream: Streaming,
        place: &mut Place,
        picture: &mut Picture,
        ears: &Ears<'_>,
    ) -> Result<Ended, AskError> {
        let mut reader = Reader::default();
        loop {
            match stream.chunk().await {
                Ok(Some(bytes)) => reader.take_in(&bytes).map_err(|e| not_understood(&e.to_string()))?,
                Ok(None) => return Ok(Ended::Broken("it ended before the task did".into())),
                Err(e) if e.is_passing() => return Ok(Ended::Broken(e.to_string())),
                Err(e) => return Err(e.into()),
            }
            while let Some(event) = reader.next() {
                if event.data.is_empty() || !place.is_new(&event) {
                    continue;
                }
                let bytes = event.data.len();
                self.see(WireEvent::Received { status: None, body: event.data.as_bytes() });
                let event = match call::read_event(at, &event.data) {
                    Ok(event) => event,
                    Err(AskError::NotUnderstood { why }) => return Ok(Ended::Unreadable(why)),
                    // The server ends the stream before the task, and says why (A5).
                    Err(e) if e.is_passing() && picture.task_id().is_some() => {
                        return Ok(Ended::Broken(e.to_string()));
                    }
                    Err(e) => return Err(e),
                };
                place.count(bytes)?;
                event.notes.iter().for_each(|note| self.odd(note));
                if ears.take_in(event.value, picture)? {
                    return Ok(Ended::Over);
                }
            }
        }
    }

    /// One connection of a stream of gRPC. Its events have no ids. A node of Synapse tells that of the first one, and what
    /// followed it again; of others, what was missed is in the task.
    async fn listen_grpc(
        &self,
        version: Version,
        request: Request,
        place: &mut Place,
        picture: &mut Picture,
        ears: &Ears<'_>,
    ) -> Result<Ended, AskError> {
        let goes_on = request.headers.contains_key(LAST_EVENT);
        let mut stream = match self.web.stream_h2(request).await {
            Ok(stream) => stream,
            Err(e @ (WebError::Dropped { .. } | WebError::Slow { .. })) => {
                return Ok(Ended::Broken(e.to_string()));
            }
            Err(e) => return Err(e.into()),
        };
        self.check_grpc(&stream)?;
        if !goes_on {
            place.begin_anew(&stream.headers);
        }
        let mut known = place.after_first;
        let (mut messages, mut is_first) = (Messages::default(), !goes_on);
        loop {
            match stream.chunk().await {
                Ok(Some(bytes)) => messages.take_in(&bytes),
                Ok(None) => {
                    grpc::ended(&stream).map_err(|e| self.or_not_let_in(e))?;
                    return Ok(Ended::Broken("it ended before the task did".into()));
                }
                Err(e) if e.is_passing() => return Ok(Ended::Broken(e.to_string())),
                Err(e) => return Err(e.into()),
            }
            while let Some(message) = messages.next(EVENT_BYTES_MAX).map_err(|why| not_understood(&why))? {
                let bytes = message.len();
                let event = grpc::event(version, message)?;
                let is_whole = matches!(event.payload, Some(pb::stream_response::Payload::Task(_)));
                if is_whole && goes_on {
                    // Some of what followed is gone: this is all of it, and there is nothing to count from.
                    (known, place.last_id) = (0, None);
                }
                if known > 0 {
                    known -= 1;
                    continue;
                }
                place.after_first += u64::from(!is_first);
                is_first = false;
                place.count(bytes)?;
                if ears.take_in(event, picture)? {
                    return Ok(Ended::Over);
                }
            }
        }
    }

    /// Where a stream was asked for, one answer came: mostly an error.
    async fn read_alone(
        &self,
        at: &Interface,
        mut stream: Streaming,
        picture: &mut Picture,
        ears: &Ears<'_>,
    ) -> Result<Ended, AskError> {
        let body = whole(&mut stream).await?;
        let event = self.read_answer(at, Shape::Response, (stream.status, &stream.headers), &body)?;
        match ears.take_in(event, picture)? {
            true => Ok(Ended::Over),
            false => Ok(Ended::Broken("it answered once, and did not stream".into())),
        }
    }

    /// After a stream that had broken: the task as its server has it. One that does not tell is believed as it streamed.
    async fn make_whole(&self, id: &str, picture: &mut Picture) -> Result<(), AskError> {
        if picture.is_over()
            && let Ok(whole) = self.task(id).await
            && whole.is_over()
        {
            picture.see(whole).map_err(|why| not_understood(&why))?;
        }
        Ok(())
    }

    async fn ask_until_over(&self, id: &str, picture: &mut Picture, ears: &Ears<'_>) -> Result<(), AskError> {
        let (mut pause, mut tries) = (ASK_MIN, 0);
        loop {
            match self.task(id).await {
                Ok(now) => {
                    let before = picture.state();
                    let told = picture.see(now).map_err(|why| not_understood(&why))?;
                    told.iter().for_each(|told| (ears.hear)(told));
                    if picture.is_over() || (ears.enough)(picture) {
                        return Ok(());
                    }
                    tries = 0;
                    if told.is_some() || picture.state() != before {
                        pause = ASK_MIN;
                    }
                }
                Err(e) if e.is_passing() && tries < TRIES_MAX => tries += 1,
                Err(e) => return Err(e),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(ASK_MAX);
        }
    }
}

/// The whole body of one answer.
pub(super) async fn whole(stream: &mut Streaming) -> Result<Vec<u8>, AskError> {
    let mut body = Vec::new();
    while let Some(bytes) = stream.chunk().await? {
        body.extend_from_slice(&bytes);
        if body.len() > ANSWER_BYTES_MAX {
            return Err(not_understood("it is larger than is read"));
        }
    }
    Ok(body)
}
