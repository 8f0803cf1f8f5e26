//! The mock as a CLI meets it: over a socket, in each of the four APIs.

use super::*;
use crate::golden;
use crate::http::{Answer, Door};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

const PATIENCE: Duration = Duration::from_secs(30);

fn mock() -> MockLlm {
    MockLlm::start(0, Script::default(), None).unwrap()
}

fn post(mock: &MockLlm, path: &str, body: &Value) -> Answer {
    Door::Tcp(mock.port()).ask("POST", path, &[], body.to_string().as_bytes())
}

/// The whole stream that answers, up to its end.
fn stream(mock: &MockLlm, path: &str, body: &Value) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", mock.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = body.to_string();
    write!(stream, "POST {path} HTTP/1.1\r\nHost: mock\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
    body.to_owned()
}

fn after(first: Value, more: &[Value]) -> Vec<Value> {
    [&[first], more].concat()
}

/// For each API: where it is asked, a first question, and the same with a tool's answer.
fn questions(text: &str) -> Vec<(&'static str, &'static str, Value, Value)> {
    let schema = json!({ "type": "object", "properties": { "command": { "type": "string" } } });
    let responses = |more: &[Value]| {
        let user = json!({ "role": "user", "content": [{ "type": "input_text", "text": text }] });
        let tool = json!({ "type": "function", "name": "shell_command", "parameters": schema });
        json!({ "model": "m", "stream": true, "input": after(user, more), "tools": [tool] })
    };
    let chat = |more: &[Value]| {
        let user = json!({ "role": "user", "content": text });
        let tool = json!({ "type": "function", "function": { "name": "bash", "parameters": schema } });
        json!({ "model": "m", "stream": true, "messages": after(user, more), "tools": [tool] })
    };
    let messages = |more: &[Value]| {
        let parts = json!([{ "type": "text", "text": "a reminder" }, { "type": "text", "text": text }]);
        let user = json!({ "role": "user", "content": parts });
        let tool = json!({ "name": "Bash", "input_schema": schema });
        json!({ "model": "m", "stream": true, "messages": after(user, more), "tools": [tool] })
    };
    let gemini = |more: &[Value]| {
        let user = json!({ "role": "user", "parts": [{ "text": text }] });
        let tool = json!({ "name": "run_shell_command", "parametersJsonSchema": schema });
        json!({ "contents": after(user, more), "tools": [{ "functionDeclarations": [tool] }] })
    };
    let result = json!({ "type": "tool_result", "tool_use_id": "call_1", "content": "a.txt" });
    let response =
        json!({ "functionResponse": { "name": "run_shell_command", "response": { "output": "a.txt" } } });
    vec![
        (
            "responses",
            "/v1/responses",
            responses(&[]),
            responses(&[json!({ "type": "function_call_output", "call_id": "call_1", "output": "a.txt" })]),
        ),
        (
            "chat",
            "/v1/chat/completions",
            chat(&[]),
            chat(&[json!({ "role": "tool", "tool_call_id": "call_1", "content": "a.txt" })]),
        ),
        (
            "messages",
            "/v1/messages?beta=true",
            messages(&[]),
            messages(&[
                json!({ "role": "user", "content": [result, { "type": "text", "text": "<system-reminder>…" }] }),
            ]),
        ),
        (
            "gemini",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            gemini(&[]),
            gemini(&[json!({ "role": "user", "parts": [response] })]),
        ),
    ]
}

#[test]
fn golden_streams_of_each_api() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/mock_llm");
    for (api, path, first, second) in questions("{{say Let me see.; run ls; say Here:; output}}") {
        let mock = mock();
        let text = stream(&mock, path, &first)
            + "\n--- with the answer of the tool\n\n"
            + &stream(&mock, path, &second);
        golden::check(&folder.join(format!("{api}.sse")), &text);
    }
}

#[test]
fn the_log_is_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    for (api, path, first, second) in questions("list {{run ls; output}}") {
        let file = folder.path().join(api);
        let mock = MockLlm::start(0, Script::default(), Some(&file)).unwrap();
        stream(&mock, path, &first);
        stream(&mock, path, &second);
        mock.log()
            .wait_for(0, PATIENCE, |entry| (entry.what == What::Ended { turn: true }).then_some(()))
            .unwrap();
        let entries = mock.log().entries();
        let [began, asked, again, ended] = entries.as_slice() else { panic!("{api}: {entries:?}") };
        let What::Began { api: told, turn: true, parts, results, tools } = &began.what else {
            panic!("{began:?}")
        };
        assert_eq!((*told, parts.last().unwrap().as_str()), (api, "list {{run ls; output}}"));
        assert!(results.is_empty() && tools.len() == 1, "{began:?}");
        let What::Asked { call } = &asked.what else { panic!("{asked:?}") };
        assert_eq!(call.arguments, json!({ "command": "ls" }));
        let What::Began { parts: same, results, .. } = &again.what else { panic!("{again:?}") };
        assert_eq!((same, results.as_slice()), (parts, ["a.txt".to_owned()].as_slice()));
        assert_eq!((ended.request, &ended.what), (2, &What::Ended { turn: true }));
        let lines = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, entries.iter().map(Entry::json).collect::<Vec<_>>());
    }
}

#[test]
fn what_the_user_said_before_is_recalled() {
    let earlier = |api: &str| match api {
        "gemini" => ("contents", json!({ "role": "user", "parts": [{ "text": "it is blue17" }] })),
        "responses" => {
            let content = json!([{ "type": "input_text", "text": "it is blue17" }]);
            ("input", json!({ "type": "message", "role": "user", "content": content }))
        }
        _ => ("messages", json!({ "role": "user", "content": "it is blue17" })),
    };
    for (api, path, mut body, _) in questions("blue17 {{recall blue17}}") {
        let mock = mock();
        assert!(stream(&mock, path, &body).contains("never told blue17"), "{api}");
        let (list, message) = earlier(api);
        body[list].as_array_mut().unwrap().insert(0, message);
        assert!(stream(&mock, path, &body).contains("recalled blue17"), "{api}");
    }
}

#[test]
fn who_goes_away_in_the_middle_is_noticed_at_once() {
    let mock = mock();
    let (_, path, body, _) = questions("{{stream 60000}}").remove(0);
    let mut stream = TcpStream::connect(("127.0.0.1", mock.port())).unwrap();
    let body = body.to_string();
    write!(stream, "POST {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut some = [0; 2000];
    assert!(stream.read(&mut some).unwrap() > 0);
    drop(stream);
    let gone =
        mock.log().wait_for(0, PATIENCE, |entry| (entry.what == What::Aborted { turn: true }).then_some(()));
    assert_eq!(gone, Some(()), "{:?}", mock.log().entries());
}

#[test]
fn a_text_beside_a_result_is_a_new_turn() {
    let result = json!({ "type": "tool_result", "tool_use_id": "call_1", "content": "refused" });
    let text = json!({ "type": "text", "text": "{{say and now?}}" });
    let broken = json!({ "type": "text", "text": "[Request interrupted by user for tool use]" });
    let (_, path, mut body, _) = questions("{{run ls}}").remove(2);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "user", "content": [result, broken, text] }));
    let mock = mock();
    let answer = stream(&mock, path, &body);
    assert!(answer.contains("and now?"), "{answer}");
    let What::Began { parts, results, .. } = &mock.log().entries()[0].what else { panic!("no question") };
    assert_eq!((parts[1].as_str(), results.len()), ("{{say and now?}}", 0));
}

#[test]
fn errors_and_what_is_no_question() {
    for (api, path, first, _) in questions("{{error 503}}") {
        let mock = mock();
        let answer = post(&mock, path, &first);
        assert_eq!(answer.status, 503, "{api}");
        assert!(
            answer.json()["error"]["message"].as_str().unwrap().contains("503"),
            "{api}: {}",
            answer.text()
        );
        mock.log()
            .wait_for(0, PATIENCE, |entry| (entry.what == What::Failed { status: 503 }).then_some(()))
            .unwrap();
        assert_eq!(post(&mock, "/v1/nothing", &json!({})).status, 404);
        assert_eq!(Door::Tcp(mock.port()).ask("GET", "/v1/models", &[], b"").status, 200);
    }
}

#[test]
fn what_is_asked_on_the_side_is_no_turn() {
    for (api, path, mut body, _) in questions("a title for: {{run ls}}") {
        let mock = mock();
        body["tools"] = json!([]);
        let text = stream(&mock, path, &body);
        assert!(text.contains("mock title"), "{api}: {text}");
        let is_turn =
            mock.log().entries().iter().any(|entry| matches!(entry.what, What::Began { turn: true, .. }));
        assert!(!is_turn, "{api}");
    }
    let (_, path, body, _) = questions("[SUGGESTION MODE: what might the user type?]").remove(1);
    assert!(stream(&mock(), path, &body).contains("mock title"));
    let shape = json!({ "type": "object", "properties": { "next_speaker": { "enum": ["model", "user"] } } });
    let body = json!({ "contents": [], "generationConfig": { "responseJsonSchema": shape } });
    let answer = post(&mock(), "/v1beta/models/m:generateContent", &body).json();
    assert_eq!(answer["candidates"][0]["content"]["parts"][0]["text"], "{\"next_speaker\":\"user\"}");
}

#[test]
fn an_answer_in_one_piece_is_the_same_answer() {
    let texts = ["/output/0/content/0/text", "/choices/0/message/content", "/content/0/text"];
    for ((api, path, mut body, _), at) in questions("{{say hello}}").into_iter().zip(texts) {
        body["stream"] = json!(false);
        let answer = post(&mock(), path, &body).json();
        assert_eq!(answer.pointer(at), Some(&json!("hello")), "{api}: {answer}");
    }
}

#[test]
fn a_body_in_chunks_is_one_body() {
    let mock = mock();
    let (_, path, body, _) = questions("{{say in chunks; mark}}").remove(1);
    let body = body.to_string();
    let (front, back) = body.split_at(body.len() / 2);
    let mut stream = TcpStream::connect(("127.0.0.1", mock.port())).unwrap();
    write!(stream, "POST {path} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    write!(stream, "{:x}\r\n{front}\r\n{:x}\r\n{back}\r\n0\r\n\r\n", front.len(), back.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("in chunks") && answer.contains("mark1"), "{answer}");
}

/// Codex lists the tools of a server together, and has to be told whose tool is called.
#[test]
fn a_tool_of_a_server_is_called_with_its_server() {
    let mock = mock();
    let (_, path, mut body, _) = questions("{{call reply {\"message\": \"yes\"}; output}}").remove(0);
    let tool = json!({ "type": "function", "name": "reply", "parameters": { "type": "object" } });
    let server = json!({ "type": "namespace", "name": "mcp__synapse", "tools": [tool] });
    body["tools"].as_array_mut().unwrap().push(server);
    let answer = stream(&mock, path, &body);
    for part in [r#""name":"reply""#, r#""namespace":"mcp__synapse""#, r#"{\"message\":\"yes\"}"#] {
        assert!(answer.contains(part), "{part} is not in {answer}");
    }
}

/// Aider offers no tools: it looks for commands in the text of an answer.
#[test]
fn model_without_tools_writes_its_commands() {
    let mock = mock();
    let (_, path, mut body, _) = questions("{{say sure; run touch x; say more}}").remove(1);
    body["tools"] = json!([]);
    body["model"] = json!("plain");
    let answer = stream(&mock, path, &body);
    assert!(answer.contains(r"```bash\ntouch x\n```") && !answer.contains("more"), "{answer}");
    let asked = mock.log().wait_for(0, PATIENCE, |entry| match &entry.what {
        What::Asked { call } => Some(call.arguments.clone()),
        _ => None,
    });
    assert_eq!(asked, Some(json!({ "command": "touch x" })));
}
