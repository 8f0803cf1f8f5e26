//! Whether tasks, messages and lists of tasks are what they have to be (G5, G7, G11–G17, S2, T5–T9). Pure.

use super::super::finding::{Verdict, cut};
use super::{list, text_of};
use serde_json::Value;

/// States of 1.0; the first ones are the end of a task, the next ones a question to the caller.
const ENDED: [&str; 4] =
    ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"];
const ASKING: [&str; 2] = ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"];
const GOING_ON: [&str; 2] = ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"];

pub(in super::super) fn state(task: &Value) -> &str {
    task.pointer("/status/state").and_then(Value::as_str).unwrap_or_default()
}

pub(in super::super) fn has_ended(state: &str) -> bool {
    ENDED.contains(&state)
}

/// It has ended, or nothing happens until the caller says something.
pub(in super::super) fn rests(state: &str) -> bool {
    has_ended(state) || ASKING.contains(&state)
}

/// What SendMessage answered: the one of the two, or why it is neither.
pub(in super::super) enum Sent<'a> {
    Task(&'a Value),
    Message(&'a Value),
    Neither(String),
}

/// S1.
pub(in super::super) fn sent(result: &Value) -> Sent<'_> {
    match (result.get("task").filter(|v| v.is_object()), result.get("message").filter(|v| v.is_object())) {
        (Some(task), None) => Sent::Task(task),
        (None, Some(message)) => Sent::Message(message),
        (Some(_), Some(_)) => Sent::Neither("both a task and a message".into()),
        (None, None) if result["kind"].is_string() => Sent::Neither(format!(
            "an answer of 0.3 (kind {:?}), without `task` or `message` around it",
            text_of(result, "kind")
        )),
        (None, None) if result["id"].is_string() => Sent::Neither("a task without `task` around it".into()),
        (None, None) => Sent::Neither(cut(&result.to_string(), 160)),
    }
}

/// S2.
pub(in super::super) fn waited(task: &Value) -> Verdict {
    match state(task) {
        state if rests(state) => Verdict::Ok(format!("a task, {state}")),
        state if GOING_ON.contains(&state) => Verdict::Off(format!("a task that goes on, {state}")),
        other => Verdict::Off(format!("a task in the state {:?}", cut(other, 40))),
    }
}

/// G11–G17: what is wrong with the fields of a task.
pub(in super::super) fn task_faults(task: &Value, at: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text_of(task, "id").is_empty() {
        wrong.push(format!("{at}.id is missing"));
    }
    status_faults(&task["status"], &format!("{at}.status"), &mut wrong);
    if task.get("kind").is_some() {
        wrong.push(format!("{at}.kind is of 0.3"));
    }
    let mut ids: Vec<&str> = Vec::new();
    for (n, artifact) in list(&task["artifacts"]).iter().enumerate() {
        artifact_faults(artifact, &format!("{at}.artifacts[{n}]"), &mut wrong);
        let id = text_of(artifact, "artifactId");
        if !id.is_empty() && ids.contains(&id) {
            wrong.push(format!("{at}.artifacts[{n}].artifactId {:?} is there twice", cut(id, 40)));
        }
        ids.push(id);
    }
    for (n, message) in list(&task["history"]).iter().enumerate() {
        message_faults(message, &format!("{at}.history[{n}]"), &mut wrong);
    }
    wrong
}

pub(in super::super) fn status_faults(status: &Value, at: &str, wrong: &mut Vec<String>) {
    let known = |state: &str| rests(state) || GOING_ON.contains(&state);
    match status["state"].as_str() {
        Some(state) if known(state) => {}
        Some(state) => wrong.push(format!("{at}.state is {:?}", cut(state, 40))),
        None => wrong.push(format!("{at}.state is missing")),
    }
    if status["message"].is_object() {
        message_faults(&status["message"], &format!("{at}.message"), wrong);
    }
}

pub(in super::super) fn artifact_faults(artifact: &Value, at: &str, wrong: &mut Vec<String>) {
    if text_of(artifact, "artifactId").is_empty() {
        wrong.push(format!("{at}.artifactId is missing"));
    }
    part_faults(artifact, at, wrong);
}

pub(in super::super) fn message_faults(message: &Value, at: &str, wrong: &mut Vec<String>) {
    if text_of(message, "messageId").is_empty() {
        wrong.push(format!("{at}.messageId is missing"));
    }
    if !matches!(text_of(message, "role"), "ROLE_USER" | "ROLE_AGENT") {
        wrong.push(format!("{at}.role is {}", cut(&message["role"].to_string(), 40)));
    }
    part_faults(message, at, wrong);
}

fn part_faults(of: &Value, at: &str, wrong: &mut Vec<String>) {
    let parts = list(&of["parts"]);
    if parts.is_empty() {
        wrong.push(format!("{at}.parts is missing or empty"));
    }
    for (n, part) in parts.iter().enumerate() {
        let count =
            ["text", "raw", "url", "data"].into_iter().filter(|name| part.get(name).is_some()).count();
        if count != 1 {
            wrong.push(format!("{at}.parts[{n}] has {count} of text, raw, url, data"));
        } else if part.get("kind").is_some() {
            wrong.push(format!("{at}.parts[{n}].kind is of 0.3"));
        }
    }
}

/// G5, G6.
pub(in super::super) fn timestamp(task: &Value) -> Verdict {
    match task.pointer("/status/timestamp") {
        None | Some(Value::Null) => Verdict::Note("the status has no time".into()),
        Some(Value::String(at)) if is_utc(at) => match at.split_once('.') {
            Some(_) => Verdict::Ok(at.clone()),
            None => Verdict::Warning(format!("{at}, without milliseconds")),
        },
        Some(other) => Verdict::Off(cut(&other.to_string(), 60)),
    }
}

fn is_utc(at: &str) -> bool {
    let Some(rest) = at.strip_suffix('Z') else { return false };
    let (whole, fraction) = rest.split_once('.').unwrap_or((rest, "0"));
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit()) && !fraction.is_empty();
    let form = "dddd-dd-ddTdd:dd:dd";
    let fits = |(c, f): (char, char)| if f == 'd' { c.is_ascii_digit() } else { c == f };
    digits && whole.len() == form.len() && whole.chars().zip(form.chars()).all(fits)
}

/// C1.
pub(in super::super) fn context(answer: &Value) -> Verdict {
    match text_of(answer, "contextId") {
        "" => Verdict::Off("there is none".into()),
        id => Verdict::Ok(cut(id, 60)),
    }
}

/// G21.
pub(in super::super) fn results(task: &Value) -> Verdict {
    match (state(task), list(&task["artifacts"]).len()) {
        ("TASK_STATE_COMPLETED", 0) => Verdict::Off("the task is completed and has no artifact".into()),
        (_, 0) => Verdict::Skipped("the task is not completed".into()),
        (_, 1) => Verdict::Ok("1 artifact".into()),
        (_, n) => Verdict::Ok(format!("{n} artifacts")),
    }
}

/// S6.
pub(in super::super) fn no_history(task: &Value) -> Verdict {
    match list(&task["history"]).len() {
        0 => Verdict::Ok("none".into()),
        n => Verdict::Off(format!("{n} messages")),
    }
}

/// T6, T7.
pub(in super::super) fn list_fields(page: &Value) -> Verdict {
    let mut wrong = Vec::new();
    for (name, is_right) in [
        ("tasks", page["tasks"].is_array()),
        ("nextPageToken", page["nextPageToken"].is_string()),
        ("pageSize", page["pageSize"].is_u64()),
        ("totalSize", page["totalSize"].is_u64()),
    ] {
        if !is_right {
            wrong.push(format!(
                "{name} is {}",
                if page.get(name).is_none() { "missing" } else { "of another type" }
            ));
        }
    }
    if wrong.is_empty() { Verdict::Ok("all there".into()) } else { Verdict::Off(wrong.join("; ")) }
}

pub(in super::super) fn list_contains(page: &Value, id: &str) -> Verdict {
    let all = list(&page["tasks"]);
    match all.iter().position(|task| task["id"] == id) {
        Some(n) => Verdict::Ok(format!("it is number {} of {}", n + 1, all.len())),
        None => Verdict::Off(format!("it is not among {} tasks", all.len())),
    }
}

/// T5. Times that are written alike sort as text.
pub(in super::super) fn list_sorted(page: &Value) -> Verdict {
    let times: Vec<&str> =
        list(&page["tasks"]).iter().filter_map(|task| task.pointer("/status/timestamp")?.as_str()).collect();
    if times.len() < 2 {
        return Verdict::Skipped("there are no two tasks with times".into());
    }
    // To the second: beyond it, some write more digits than others.
    let to_second = |at: &str| at.chars().take(19).collect::<String>();
    let pairs = times.iter().zip(times.iter().skip(1));
    match pairs.into_iter().find(|(a, b)| to_second(a) < to_second(b)) {
        Some((a, b)) => Verdict::Off(format!("{} stands before {}", cut(a, 40), cut(b, 40))),
        None => Verdict::Ok(format!("{} tasks", times.len())),
    }
}

/// T9.
pub(in super::super) fn list_artifacts(page: &Value) -> Verdict {
    let all = list(&page["tasks"]);
    let with = all.iter().filter(|task| task.get("artifacts").is_some()).count();
    match (all.len(), with) {
        (0, _) => Verdict::Skipped("the list is empty".into()),
        (n, 0) => Verdict::Ok(format!("none in a list of {n}")),
        (n, with) => Verdict::Off(format!("{with} of {n} tasks have the field")),
    }
}

/// T4: the first page of one, and whether there is a next.
pub(in super::super) fn first_page(page: &Value) -> Result<&str, Verdict> {
    let (tasks, token) = (list(&page["tasks"]), text_of(page, "nextPageToken"));
    let total = page["totalSize"].as_u64().unwrap_or_default();
    match (tasks.len(), token) {
        (0, _) => Err(Verdict::Off("the first page is empty".into())),
        (1, "") if total > 1 => {
            Err(Verdict::Off(format!("no nextPageToken, though there are {total} tasks")))
        }
        (1, "") => Err(Verdict::Skipped("there is one task only".into())),
        (1, token) => Ok(token),
        (n, _) => Err(Verdict::Off(format!("{n} tasks on a page of one"))),
    }
}

pub(in super::super) fn second_page(first: &Value, second: &Value) -> Verdict {
    let id = |page: &Value| list(&page["tasks"]).first().map(|task| text_of(task, "id").to_owned());
    match (id(first), id(second)) {
        (_, None) => Verdict::Off("the second page is empty".into()),
        (a, b) if a == b => Verdict::Off("the second page begins with the task of the first".into()),
        _ => Verdict::Ok("two pages of one, with two tasks".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn task() -> Value {
        json!({
            "id": "t", "contextId": "c",
            "status": { "state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-31T12:00:00.000Z" },
            "artifacts": [{ "artifactId": "a", "parts": [{ "text": "x" }] }],
            "history": [{ "messageId": "m", "role": "ROLE_USER", "parts": [{ "data": null }] }],
        })
    }

    #[test]
    fn what_a_task_lacks_is_named() {
        assert_eq!(task_faults(&task(), "task"), Vec::<String>::new());
        let table = [
            ("/id", json!(""), "task.id is missing"),
            ("/status/state", json!("completed"), "task.status.state is \"completed\""),
            ("/status", Value::Null, "task.status.state is missing"),
            ("/artifacts/0/artifactId", Value::Null, "task.artifacts[0].artifactId is missing"),
            ("/artifacts/0/parts", json!([]), "task.artifacts[0].parts is missing or empty"),
            ("/artifacts/0/parts/0", json!({ "kind": "text", "text": "x" }), "kind is of 0.3"),
            ("/artifacts/0/parts/0", json!({ "text": "x", "url": "y" }), "has 2 of text"),
            ("/history/0/role", json!("user"), "task.history[0].role is \"user\""),
            ("/history/0/messageId", Value::Null, "task.history[0].messageId is missing"),
        ];
        for (at, value, words) in table {
            let mut task = task();
            *task.pointer_mut(at).unwrap() = value;
            let wrong = task_faults(&task, "task");
            assert!(wrong.iter().any(|why| why.contains(words)), "{at}: {wrong:?}");
        }
    }

    /// G5.
    #[test]
    fn times_are_utc() {
        for (at, is_right) in [
            ("2026-01-31T12:00:00.000Z", true),
            ("2026-01-31T12:00:00Z", true),
            ("2026-01-31T12:00:00.000+00:00", false),
            ("2026-01-31 12:00:00Z", false),
            ("now", false),
            ("2026-01-31T12:00:00.Z", false),
        ] {
            assert_eq!(is_utc(at), is_right, "{at}");
        }
    }

    /// T4–T9.
    #[test]
    fn lists() {
        let of = |id: &str, at: &str| json!({ "id": id, "status": { "state": "TASK_STATE_WORKING", "timestamp": at } });
        let (a, b) = (of("a", "2026-01-31T12:00:02.000Z"), of("b", "2026-01-31T12:00:01.000Z"));
        let page =
            |tasks: Value| json!({ "tasks": tasks, "nextPageToken": "", "pageSize": 50, "totalSize": 2 });
        assert!(matches!(list_sorted(&page(json!([a, b]))), Verdict::Ok(_)));
        assert!(matches!(list_sorted(&page(json!([b, a]))), Verdict::Off(_)));
        assert!(matches!(list_sorted(&page(json!([a]))), Verdict::Skipped(_)));
        assert!(matches!(list_fields(&page(json!([]))), Verdict::Ok(_)));
        assert_eq!(
            list_fields(&json!({ "tasks": [], "totalSize": "2" })),
            Verdict::Off(
                "nextPageToken is missing; pageSize is missing; totalSize is of another type".into()
            )
        );
        assert!(matches!(list_contains(&page(json!([a])), "b"), Verdict::Off(_)));
        assert!(matches!(list_artifacts(&page(json!([a]))), Verdict::Ok(_)));
        let with = json!({ "id": "a", "artifacts": [] });
        assert!(matches!(list_artifacts(&page(json!([with]))), Verdict::Off(_)));
        assert!(matches!(first_page(&page(json!([a, b]))), Err(Verdict::Off(_))));
        assert!(matches!(first_page(&page(json!([a]))), Err(Verdict::Off(_))));
        assert!(matches!(second_page(&page(json!([a])), &page(json!([b]))), Verdict::Ok(_)));
        assert!(matches!(second_page(&page(json!([a])), &page(json!([a]))), Verdict::Off(_)));
    }
}
