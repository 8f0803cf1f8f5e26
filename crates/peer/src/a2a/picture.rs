//! What is known of a task elsewhere: each event of its stream put to what came before (G18–G20).
//!
//! A whole task replaces what was known; a piece is added to it. What comes after the end is not heard. What is told to
//! a person is told once.
//!
//! Not here: where events come from (`super::follow`).

use serde_json::Value;
use synapse_a2a::pb;
use synapse_core::task::TaskState;

#[derive(Debug, Clone, Default)]
pub struct Picture {
    task: Option<pb::Task>,
    /// It answered at once, without a task.
    message: Option<pb::Message>,
    /// The last message of a status that was told.
    told: Option<String>,
    /// How often something came that was not known.
    changes: u64,
}

/// What an agent elsewhere has answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub text: String,
    /// The parts as they came, in the form of A2A 1.0.
    pub parts: Value,
}

impl Picture {
    pub fn of_task(task: pb::Task) -> Self {
        Self { task: Some(task), ..Self::default() }
    }

    pub fn of_message(message: pb::Message) -> Self {
        Self { message: Some(message), ..Self::default() }
    }

    pub fn task_id(&self) -> Option<&str> {
        self.task.as_ref().map(|task| task.id.as_str())
    }

    pub fn context_id(&self) -> Option<&str> {
        let task = self.task.as_ref().map(|task| task.context_id.as_str());
        task.or(self.message.as_ref().map(|m| m.context_id.as_str())).filter(|id| !id.is_empty())
    }

    /// A message alone is an answer, and so the end.
    pub fn state(&self) -> TaskState {
        match &self.task {
            None if self.message.is_some() => TaskState::Completed,
            None => TaskState::Submitted,
            Some(task) => state_of(task),
        }
    }

    /// Grows with everything that was not known.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// It will not change, or not without us.
    pub fn is_over(&self) -> bool {
        let state = self.state();
        state.is_terminal() || is_asking(state)
    }

    pub fn is_asking(&self) -> bool {
        is_asking(self.state())
    }

    /// What its status says in words.
    pub fn says(&self) -> Option<String> {
        let message = self.task.as_ref()?.status.as_ref()?.message.as_ref()?;
        Some(text_of(&message.parts)).filter(|text| !text.is_empty())
    }

    /// Its artifacts; of an agent that makes none, what its status says. The last message of the history is an answer only
    /// once the task is completed: before that, and after a failure, it reports progress.
    pub fn answer(&self) -> Option<Answer> {
        if let Some(message) = &self.message {
            return Some(answer_of(&message.parts));
        }
        let task = self.task.as_ref()?;
        let parts: Vec<pb::Part> =
            task.artifacts.iter().flat_map(|artifact| artifact.parts.clone()).collect();
        if !parts.is_empty() {
            let texts = task.artifacts.iter().map(|artifact| text_of(&artifact.parts));
            let text = texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
            return Some(Answer { text, ..answer_of(&parts) });
        }
        let status = task.status.as_ref().and_then(|status| status.message.as_ref());
        let is_completed = self.state() == TaskState::Completed;
        let messages = task.history.iter().filter(|_| is_completed);
        let last = || messages.rev().find(|message| message.role() == pb::Role::Agent);
        status.or_else(last).map(|message| answer_of(&message.parts))
    }

    /// The task is said to be completed, and nothing of its answer has come.
    pub(super) fn ended_without_answer(&self) -> bool {
        self.state() == TaskState::Completed && self.answer().is_none()
    }

    /// Puts an event to what is known. Returns what there is to tell a person.
    pub fn take_in(&mut self, event: pb::StreamResponse) -> Result<Option<String>, String> {
        use pb::stream_response::Payload;
        let payload = event.payload.ok_or("an event that holds nothing")?;
        if self.state().is_terminal() && (self.task.is_some() || self.message.is_some()) {
            return Ok(None);
        }
        match payload {
            Payload::Message(message) if self.task.is_none() => self.message = Some(message),
            // Beside a task, a message is only a word on the way.
            Payload::Message(message) => {
                self.changes += 1;
                return Ok(Some(text_of(&message.parts)).filter(|t| !t.is_empty()));
            }
            Payload::Task(task) => {
                self.is_ours(&task.id)?;
                self.put_task(task);
            }
            Payload::StatusUpdate(update) => {
                self.is_ours(&update.task_id)?;
                let status = Some(update.status.ok_or("a status event without a status")?);
                let task = self.task_of(update.task_id, update.context_id);
                let is_new = task.status != status;
                task.status = status;
                self.changes += u64::from(is_new);
            }
            Payload::ArtifactUpdate(update) => {
                self.is_ours(&update.task_id)?;
                let artifact = update.artifact.ok_or("an artifact event without an artifact")?;
                put_artifact(self.task_of(update.task_id, update.context_id), artifact, update.append)?;
                self.changes += 1;
            }
        }
        Ok(self.news())
    }

    /// Puts what a server answered, as a whole, in the place of what was known.
    pub fn see(&mut self, whole: Self) -> Result<Option<String>, String> {
        match (whole.task, whole.message) {
            (Some(task), _) => {
                self.is_ours(&task.id)?;
                self.put_task(task);
            }
            (None, message) => self.message = message,
        }
        Ok(self.news())
    }

    /// A stream tells of one task.
    fn is_ours(&self, id: &str) -> Result<(), String> {
        match self.task_id() {
            _ if id.is_empty() || id.len() > ID_BYTES_MAX => {
                Err("a task without an id that can be used".into())
            }
            Some(ours) if ours != id => Err("an event of another task than was asked for".into()),
            _ => Ok(()),
        }
    }

    fn task_of(&mut self, id: String, context_id: String) -> &mut pb::Task {
        self.task.get_or_insert_with(|| pb::Task { id, context_id, ..pb::Task::default() })
    }

    fn put_task(&mut self, mut task: pb::Task) {
        let known = self.task.take().unwrap_or_default();
        let is_new =
            known.status != task.status || !task.artifacts.is_empty() && known.artifacts != task.artifacts;
        self.changes += u64::from(is_new);
        // Some leave artifacts out where they tell of a task again.
        if task.artifacts.is_empty() {
            task.artifacts = known.artifacts;
        }
        self.task = Some(task);
    }

    /// What the status says, if that was not told yet. At the end it is part of the answer.
    fn news(&mut self) -> Option<String> {
        let says = self.says()?;
        let message = self.task.as_ref()?.status.as_ref()?.message.as_ref()?;
        let key = if message.message_id.is_empty() { says.clone() } else { message.message_id.clone() };
        if self.is_over() || self.told.as_ref() == Some(&key) {
            return None;
        }
        self.told = Some(key);
        Some(says)
    }
}

/// More than any server of note makes; it goes into paths.
const ID_BYTES_MAX: usize = 1 << 10;
const ARTIFACTS_MAX: usize = 10_000;

fn put_artifact(task: &mut pb::Task, artifact: pb::Artifact, append: bool) -> Result<(), String> {
    let is_full = task.artifacts.len() >= ARTIFACTS_MAX;
    match task.artifacts.iter_mut().find(|known| known.artifact_id == artifact.artifact_id) {
        Some(known) if append => known.parts.extend(artifact.parts),
        Some(known) => *known = artifact,
        None if is_full => return Err("more artifacts than are kept".into()),
        None => task.artifacts.push(artifact),
    }
    Ok(())
}

pub(super) fn state_of(task: &pb::Task) -> TaskState {
    let state = task.status.as_ref().map_or(pb::TaskState::Unspecified, pb::TaskStatus::state);
    match state {
        pb::TaskState::Unspecified | pb::TaskState::Submitted => TaskState::Submitted,
        pb::TaskState::Working => TaskState::Working,
        pb::TaskState::InputRequired => TaskState::InputRequired,
        pb::TaskState::AuthRequired => TaskState::AuthRequired,
        pb::TaskState::Completed => TaskState::Completed,
        pb::TaskState::Failed => TaskState::Failed,
        pb::TaskState::Canceled => TaskState::Canceled,
        pb::TaskState::Rejected => TaskState::Rejected,
    }
}

fn is_asking(state: TaskState) -> bool {
    matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

fn answer_of(parts: &[pb::Part]) -> Answer {
    // Written by the types of the protocol: what a stranger put beside them is left out.
    Answer { text: text_of(parts), parts: serde_json::to_value(parts).unwrap_or_default() }
}

/// The text of parts; of others, that they are there.
fn text_of(parts: &[pb::Part]) -> String {
    use pb::part::Content;
    let one = |part: &pb::Part| match &part.content {
        Some(Content::Text(text)) => text.clone(),
        Some(Content::Data(data)) => serde_json::to_string(data).unwrap_or_default(),
        Some(Content::Url(url)) => format!("[file at {url}]"),
        Some(Content::Raw(bytes)) => {
            let name = if part.filename.is_empty() { "without a name" } else { &part.filename };
            format!("[file {name}, {} bytes; --json has it]", bytes.len())
        }
        None => String::new(),
    };
    parts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use synapse_a2a::wire::from_json;

    fn event(value: Value) -> pb::StreamResponse {
        from_json(value).unwrap()
    }

    fn status(state: &str, says: Option<(&str, &str)>) -> Value {
        let mut status = json!({ "state": format!("TASK_STATE_{state}") });
        if let Some((id, text)) = says {
            status["message"] = json!({ "messageId": id, "role": "ROLE_AGENT", "parts": [{ "text": text }] });
        }
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": status } })
    }

    fn piece(id: &str, text: &str, append: bool) -> Value {
        let artifact = json!({ "artifactId": id, "parts": [{ "text": text }] });
        json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "append": append, "artifact": artifact } })
    }

    fn task(state: &str) -> Value {
        json!({ "task": { "id": "t", "contextId": "c", "status": { "state": format!("TASK_STATE_{state}") } } })
    }

    /// G20, S15: pieces are put together, and what is said is told once.
    #[test]
    fn a_stream_becomes_an_answer() {
        let mut picture = Picture::default();
        let mut told = Vec::new();
        for value in [
            task("SUBMITTED"),
            status("WORKING", Some(("s1", "thinking"))),
            status("WORKING", Some(("s1", "thinking"))),
            piece("a", "one ", false),
            piece("a", "two", true),
            piece("b", "three", true),
            status("COMPLETED", Some(("s2", "done"))),
            // After the end nothing counts.
            piece("a", "four", true),
            status("FAILED", None),
        ] {
            told.extend(picture.take_in(event(value)).unwrap());
        }
        assert_eq!(told, ["thinking"]);
        assert_eq!((picture.task_id(), picture.context_id()), (Some("t"), Some("c")));
        assert_eq!((picture.state(), picture.is_over()), (TaskState::Completed, true));
        assert_eq!(picture.answer().unwrap().text, "one two\nthree");
        assert_eq!(picture.answer().unwrap().parts[2], json!({ "text": "three" }));
    }

    /// What is told again is no change.
    #[test]
    fn only_what_was_not_known_is_a_change() {
        let mut picture = Picture::default();
        let mut whole = task("WORKING");
        whole["task"]["artifacts"] = json!([{ "artifactId": "a", "parts": [{ "text": "x" }] }]);
        for (value, changes) in [
            (task("SUBMITTED"), 1),
            (task("SUBMITTED"), 1),
            (status("WORKING", None), 2),
            (status("WORKING", None), 2),
            (task("WORKING"), 2),
            (piece("a", "x", false), 3),
            (whole, 3),
            (task("WORKING"), 3),
            (task("COMPLETED"), 4),
        ] {
            picture.take_in(event(value.clone())).unwrap();
            assert_eq!(picture.changes(), changes, "{value}");
        }
    }

    #[test]
    fn a_whole_task_counts_more_than_pieces() {
        let mut picture = Picture::default();
        picture.take_in(event(piece("a", "half", false))).unwrap();
        let mut whole = task("WORKING");
        whole["task"]["artifacts"] = json!([{ "artifactId": "a", "parts": [{ "text": "all of it" }] }]);
        picture.take_in(event(whole)).unwrap();
        assert_eq!(picture.answer().unwrap().text, "all of it");
        // One that leaves artifacts out takes none away.
        picture.take_in(event(task("COMPLETED"))).unwrap();
        assert_eq!(picture.answer().unwrap().text, "all of it");
    }

    #[test]
    fn answers_without_artifacts() {
        let message = json!({ "message": { "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "hi" }, { "data": { "n": 1.0 } }] } });
        let mut picture = Picture::default();
        picture.take_in(event(message)).unwrap();
        assert_eq!((picture.state(), picture.task_id()), (TaskState::Completed, None));
        assert_eq!(picture.answer().unwrap().text, "hi{\"n\":1.0}");
        let mut picture = Picture::default();
        picture.take_in(event(status("COMPLETED", Some(("s", "in the status"))))).unwrap();
        assert_eq!(picture.answer().unwrap().text, "in the status");
        let mut asks = Picture::default();
        asks.take_in(event(status("INPUT_REQUIRED", Some(("q", "which?"))))).unwrap();
        assert!(asks.is_asking() && asks.is_over());
        assert_eq!(asks.says().as_deref(), Some("which?"));
    }

    /// Finding A6: a canceled or failed task showed its last progress message as its answer.
    #[test]
    fn only_a_completed_task_is_answered_by_its_history() {
        let said =
            |role: &str, text: &str| json!({ "messageId": text, "role": role, "parts": [{ "text": text }] });
        for (state, answer) in [
            ("COMPLETED", Some("still reading")),
            ("CANCELED", None),
            ("FAILED", None),
            ("REJECTED", None),
            ("WORKING", None),
            ("INPUT_REQUIRED", None),
        ] {
            let mut value = task(state)["task"].take();
            value["history"] = json!([said("ROLE_AGENT", "still reading"), said("ROLE_USER", "hurry")]);
            let picture = Picture::of_task(from_json(value).unwrap());
            assert_eq!(picture.answer().map(|answer| answer.text).as_deref(), answer, "{state}");
        }
        // What the status says about the end is an answer in any state.
        let mut failed = Picture::default();
        failed.take_in(event(status("FAILED", Some(("s", "out of disk"))))).unwrap();
        assert_eq!(failed.answer().unwrap().text, "out of disk");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut picture = Picture::of_task(from_json(task("WORKING")["task"].clone()).unwrap());
        let other = json!({ "statusUpdate": { "taskId": "u", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } } });
        for bad in [
            other,
            json!({}),
            json!({ "statusUpdate": { "taskId": "t" } }),
            json!({ "artifactUpdate": { "taskId": "t" } }),
            json!({ "task": {} }),
        ] {
            assert!(picture.take_in(event(bad.clone())).is_err(), "{bad}");
        }
        assert_eq!(picture.state(), TaskState::Working);
    }
}
