//! Session logs: the files in which a CLI records its conversations: one JSON object per line, one in all, or Markdown.
//!
//! They hold an answer as the model wrote it, where the screen has wrapped, decorated or scrolled it away. A line that
//! cannot be read is skipped: the program may be writing it, and a newer version may know other kinds.
//! Not here: where the files are and who may read them (the node).

mod aider;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whose log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Gemini,
    Qwen,
    Copilot,
    Cline,
    Aider,
}

/// What followed one prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedTurn {
    /// The last text of the model.
    pub answer: String,
    /// The model asked for no tool with it, and nothing came after it. Some programs record the text of a step before
    /// its tools, so this alone does not prove that the turn is over.
    pub is_final: bool,
}

/// One line, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
enum Record {
    Prompt(String),
    Said {
        text: String,
        calls_tools: bool,
    },
    /// The result of a tool: the model has not answered to it yet.
    Step,
}

/// Longer lines are skipped.
const LINE_BYTES_MAX: usize = 1 << 20;
/// The same for a log that is one object.
const OBJECT_BYTES_MAX: usize = 4 << 20;

impl LogFormat {
    /// The turn of the last prompt that `is_ours` accepts, up to the next prompt.
    pub fn turn(self, log: &[u8], is_ours: impl Fn(&str) -> bool) -> Option<LoggedTurn> {
        if self == Self::Aider {
            return aider::turn(&String::from_utf8_lossy(log), is_ours);
        }
        let mut turn = None;
        let is_one = self == Self::Cline;
        let bytes_max = if is_one { OBJECT_BYTES_MAX } else { LINE_BYTES_MAX };
        for line in log.split(|byte| *byte == b'\n' && !is_one) {
            // Much larger in memory than in the file, if somebody means it to be.
            if line.len() > bytes_max {
                continue;
            }
            let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
            for record in self.records(&line) {
                match (record, &mut turn) {
                    (Record::Prompt(text), _) if is_ours(&text) => {
                        turn = Some((LoggedTurn::default(), true));
                    }
                    (Record::Prompt(_), Some((_, is_open))) => *is_open = false,
                    (Record::Said { text, calls_tools }, Some((turn, true))) => turn.say(text, calls_tools),
                    (Record::Step, Some((turn, true))) => turn.is_final = false,
                    _ => {}
                }
            }
        }
        turn.map(|(turn, _)| turn)
    }

    fn records(self, line: &Value) -> Vec<Record> {
        match self {
            // Messages are also written as a list, after the history was changed.
            Self::Gemini => match line["$set"]["messages"].as_array() {
                Some(all) => all.iter().filter_map(gemini).collect(),
                None => gemini(line).into_iter().collect(),
            },
            Self::Qwen => qwen(line).into_iter().collect(),
            Self::Copilot => copilot(line).into_iter().collect(),
            Self::Cline => {
                let messages = line["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
                messages.iter().filter_map(cline).collect()
            }
            // Its log is not JSON.
            Self::Aider => Vec::new(),
        }
    }
}

impl LoggedTurn {
    fn say(&mut self, text: String, calls_tools: bool) {
        let is_empty = text.trim().is_empty();
        self.is_final = !calls_tools && !is_empty;
        if !is_empty {
            self.answer = text;
        }
    }
}

/// A record is written again, whole, when the tools that it asked for are done.
fn gemini(record: &Value) -> Option<Record> {
    let content = &record["content"];
    match record["type"].as_str()? {
        "user" => Some(prompt_or_step(content)),
        "gemini" => {
            let calls_tools = record["toolCalls"].as_array().is_some_and(|calls| !calls.is_empty());
            Some(Record::Said { text: text_of(content), calls_tools })
        }
        _ => None,
    }
}

fn qwen(record: &Value) -> Option<Record> {
    let parts = &record["message"]["parts"];
    match record["type"].as_str()? {
        "user" => Some(prompt_or_step(parts)),
        "tool_result" => Some(Record::Step),
        "assistant" => Some(Record::Said { text: text_of(parts), calls_tools: has(parts, "functionCall") }),
        _ => None,
    }
}

fn copilot(event: &Value) -> Option<Record> {
    let data = &event["data"];
    // Agents below the main one answer to that.
    let is_nested = data["parentToolCallId"].is_string();
    match event["type"].as_str()? {
        "user.message" => Some(Record::Prompt(text_of(&data["content"]))),
        "tool.execution_start" | "tool.execution_complete" => Some(Record::Step),
        "assistant.message" if !is_nested => {
            let calls_tools = data["toolRequests"].as_array().is_some_and(|calls| !calls.is_empty());
            Some(Record::Said { text: text_of(&data["content"]), calls_tools })
        }
        _ => None,
    }
}

fn cline(message: &Value) -> Option<Record> {
    let content = &message["content"];
    let is_kind = |kind: &str| {
        content.as_array().is_some_and(|parts| parts.iter().any(|part| part["type"].as_str() == Some(kind)))
    };
    match message["role"].as_str()? {
        "user" if is_kind("tool_result") => Some(Record::Step),
        // `<user_input mode="act">text</user_input>`
        "user" => {
            let text = text_of(content);
            let inside = text.strip_prefix("<user_input ").and_then(|rest| rest.split_once('>'));
            Some(Record::Prompt(inside.map_or(text.clone(), |(_, inside)| inside.to_owned())))
        }
        "assistant" => Some(Record::Said { text: text_of(content), calls_tools: is_kind("tool_use") }),
        _ => None,
    }
}

fn prompt_or_step(content: &Value) -> Record {
    if has(content, "functionResponse") { Record::Step } else { Record::Prompt(text_of(content)) }
}

fn has(parts: &Value, key: &str) -> bool {
    parts.as_array().is_some_and(|parts| parts.iter().any(|part| part.get(key).is_some()))
}

/// A text, or the texts of several parts. What the model only thought is none of it.
fn text_of(content: &Value) -> String {
    let part = |part: &Value| match part {
        Value::String(text) => text.clone(),
        part if part["thought"] == Value::Bool(true) => String::new(),
        part => part["text"].as_str().unwrap_or_default().to_owned(),
    };
    match content {
        Value::Array(parts) => parts.iter().map(part).collect(),
        one => part(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "[A2A:0b78765b:user]";

    /// Lines as each CLI writes them (Gemini 0.61.0, Qwen 0.15.10, Copilot 1.0.102), without what is not read. Cline
    /// writes one object.
    fn turn_with_a_tool(format: LogFormat) -> Vec<&'static str> {
        match format {
            LogFormat::Gemini => vec![
                r#"{"sessionId":"b713","startTime":"2026-11-18T10:30:30.457Z","kind":"main"}"#,
                r#"{"$set":{"messages":[{"id":"d0","type":"user","content":[{"text":"<session_context>"}]}]}}"#,
                r#"{"id":"88","type":"user","content":[{"text":"[A2A:0b78765b:user] touch it"}]}"#,
                r#"{"$set":{"lastUpdated":"2026-11-18T10:30:30.626Z"}}"#,
                r#"{"id":"41","type":"gemini","content":"looking","thoughts":[]}"#,
                r#"{"id":"41","type":"gemini","content":"looking","toolCalls":[{"name":"run_shell_command"}]}"#,
                r#"{"id":"52","type":"user","content":[{"functionResponse":{"id":"call_8"}}]}"#,
                r#"{"id":"85","type":"gemini","content":[{"text":"all "},{"text":"done"}]}"#,
            ],
            LogFormat::Qwen => vec![
                r#"{"type":"user","message":{"role":"user","parts":[{"text":"[A2A:0b78765b:user] touch it"}]}}"#,
                r#"{"type":"system","subtype":"ui_telemetry","systemPayload":{}}"#,
                r#"{"type":"assistant","message":{"parts":[{"text":"looking"},{"functionCall":{"id":"call_3"}}]}}"#,
                r#"{"type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"call_3"}}]}}"#,
                r#"{"type":"assistant","message":{"parts":[{"text":"hm","thought":true},{"text":"all done"}]}}"#,
            ],
            LogFormat::Copilot => vec![
                r#"{"type":"session.start","data":{"sessionId":"c968"}}"#,
                r#"{"type":"user.message","data":{"content":"[A2A:0b78765b:user] touch it"}}"#,
                r#"{"type":"assistant.message","data":{"content":"looking","toolRequests":[{"name":"bash"}]}}"#,
                r#"{"type":"tool.execution_start","data":{"toolName":"bash"}}"#,
                r#"{"type":"tool.execution_complete","data":{"success":true}}"#,
                r#"{"type":"assistant.message","data":{"content":"all done","toolRequests":[]}}"#,
                r#"{"type":"assistant.turn_end","data":{"turnId":"1"}}"#,
            ],
            LogFormat::Cline | LogFormat::Aider => Vec::new(),
        }
    }

    fn turn(format: LogFormat, lines: &[&str]) -> Option<LoggedTurn> {
        format.turn(lines.join("\n").as_bytes(), |text| text.contains(HEADER))
    }

    fn answered(answer: &str, is_final: bool) -> Option<LoggedTurn> {
        Some(LoggedTurn { answer: answer.into(), is_final })
    }

    /// Defect J: the answer is what the model wrote last, without what its tools printed.
    #[test]
    fn answer_is_the_last_text_of_the_turn() {
        for format in [LogFormat::Gemini, LogFormat::Qwen, LogFormat::Copilot] {
            let lines = turn_with_a_tool(format);
            assert_eq!(turn(format, &lines), answered("all done", true), "{format:?}");
            let before_the_tool = lines.iter().position(|line| line.contains("looking")).unwrap() + 1;
            for end in before_the_tool..lines.len() {
                let found = turn(format, &lines[..end]).unwrap();
                // Gemini tells of a tool only once it is done; its screen and title tell that it works.
                let is_untold = format == LogFormat::Gemini && end == before_the_tool;
                assert_eq!(found.answer == "looking" && found.is_final, is_untold, "{format:?}, {end} lines");
            }
            assert_eq!(turn(format, &lines[..1]).filter(|turn| !turn.answer.is_empty()), None, "{format:?}");
        }
    }

    #[test]
    fn log_that_is_one_object_is_read() {
        let messages = [
            r#"{"role":"user","content":[{"type":"text","text":"<user_input mode=\"act\">[A2A:0b78765b:user] touch it</user_input>"}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"looking"},{"type":"tool_use","id":"call_3"}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","content":"made"}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"all done"}]}"#,
        ];
        let log = |count: usize| format!("{{\n\"messages\": [\n{}\n]}}", messages[..count].join(",\n"));
        let read =
            |log: &str| LogFormat::Cline.turn(log.as_bytes(), |text| text.trim_start().starts_with(HEADER));
        assert_eq!(read(&log(4)), answered("all done", true));
        assert_eq!((read(&log(3)), read(&log(2))), (answered("looking", false), answered("looking", false)));
        assert_eq!(read(&log(1)), answered("", false));
        assert_eq!((read("{"), read("[]"), read(&log(4)[1..])), (None, None, None), "half written");
    }

    #[test]
    fn prompts_of_others_and_damaged_lines_change_nothing() {
        let lines = turn_with_a_tool(LogFormat::Copilot);
        let ours = |more: &[&str]| turn(LogFormat::Copilot, &[lines.as_slice(), more].concat());
        let typed = r#"{"type":"user.message","data":{"content":"and now?"}}"#;
        let said = r#"{"type":"assistant.message","data":{"content":"for somebody else","toolRequests":[]}}"#;
        assert_eq!(ours(&[typed, said]), answered("all done", true));
        assert_eq!(ours(&["", "{", "null", "[1]", r#"{"type":7}"#, "\u{0}"]), answered("all done", true));
        let nested = r#"{"type":"assistant.message","data":{"content":"inner","parentToolCallId":"x"}}"#;
        assert_eq!(ours(&[nested]), answered("all done", true));
        let again =
            r#"{"type":"user.message","data":{"content":"[A2A:0b78765b:user] (may repeat) touch it"}}"#;
        assert_eq!(ours(&[again]), answered("", false), "the later one counts");
        assert_eq!(LogFormat::Copilot.turn(lines.join("\n").as_bytes(), |_| false), None);
    }
}
