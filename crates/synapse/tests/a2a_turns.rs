//! What an agent sends over A2A besides a result: a direct message, a question, a prompt to decide.

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::cli::Cli;
use synapse_testkit::world::Agent;

const VERSION: (&str, &str) = ("A2A-Version", "1.0");

fn message(id: &str, part: Value) -> Value {
    json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [part] } })
}

fn rpc(agent: &Agent, method: &str, params: &Value) -> Value {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    agent.unix().ask("POST", "/api/v1/agent", &[VERSION], call.as_bytes()).json()
}

fn sent(agent: &Agent, params: &Value) -> Value {
    let answer = rpc(agent, "SendMessage", params);
    answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone()
}

fn streamed(agent: &Agent, params: &Value) -> Vec<Value> {
    let body = params.to_string();
    let answer = agent.unix().ask("POST", "/a2a/v1/message:stream", &[VERSION], body.as_bytes());
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|d| serde_json::from_str(d).unwrap())
        .collect()
}

/// S1, S5, S14, G15: an answer that is a message creates no task, over each binding and in a
/// stream.
#[test]
fn a_message_as_the_answer_leaves_no_task_behind() {
    let world = world();
    let script = "if 'task' in message['text']:\n    say('progress', text='hm')\n    say('completed', text='did it')\nelse:\n    say('message', text='just so', data={'n': 1})";
    let agent = world.run_lines("direct", script, &[]);
    let answer = sent(&agent, &message("d1", json!({ "text": "hello" })));
    let said = &answer["message"];
    assert_eq!(said["role"], "ROLE_AGENT", "{answer}");
    assert_eq!(said["parts"], json!([{ "text": "just so" }, { "data": { "n": 1 } }]));
    assert!(said["contextId"].is_string() && said.get("taskId").is_none(), "{answer}");
    assert!(answer.get("task").is_none(), "{answer}");
    // The same message sent again gets the same answer.
    assert_eq!(sent(&agent, &message("d1", json!({ "text": "hello" }))), answer);
    let events = streamed(&agent, &message("d2", json!({ "text": "hello" })));
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["message"]["parts"][0]["text"], "just so", "{events:?}");
    let listed = rpc(&agent, "ListTasks", &json!({}));
    assert_eq!(listed["result"]["totalSize"], 0, "{listed}");
    // A message that needs a task gets the task first, as usual.
    let events = streamed(&agent, &message("d3", json!({ "text": "a task" })));
    assert!(events[0]["task"]["id"].is_string(), "{events:?}");
    assert_eq!(
        events.last().unwrap()["statusUpdate"]["status"]["state"],
        "TASK_STATE_COMPLETED",
        "{events:?}"
    );
    assert_eq!(rpc(&agent, "ListTasks", &json!({}))["result"]["totalSize"], 1);
    // Callers of the other APIs read it as an answer.
    let told = world.json(&["send", "direct", "hello", "--response"]);
    assert!(told.to_string().contains("just so"), "{told}");
}

/// E14–E16, S17: a task asks for credentials, which are brought out of band. The message that
/// continues it is plain text for the program, and nothing in it is taken for a credential.
#[test]
fn a_task_that_needs_credentials_says_so_and_goes_on() {
    let world = world();
    let script =
        "say('auth_required', text='log in at the desk')\nsay('completed', text='thanks: ' + hear()['text'])";
    let agent = world.run_lines("guard", script, &[]);
    let first = sent(&agent, &message("a1", json!({ "text": "go" })))["task"].clone();
    assert_eq!(first["status"]["state"], "TASK_STATE_AUTH_REQUIRED", "{first}");
    assert_eq!(first["status"]["message"]["parts"][0]["text"], "log in at the desk");
    // The same message in a stream returns the current task, and ends while the task waits.
    let events = streamed(&agent, &message("a1", json!({ "text": "go" })));
    assert_eq!(events.len(), 1, "{events:?}");
    let mut more = message("a2", json!({ "text": "done" }));
    more["message"]["taskId"] = first["id"].clone();
    let task = sent(&agent, &more)["task"].clone();
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "thanks: done", "{task}");
    // Finding A12: resuming after an unknown id returns the current task and ends the stream.
    let path = format!("/a2a/v1/tasks/{}:subscribe", first["id"].as_str().unwrap());
    let answer = agent.unix().ask("GET", &path, &[VERSION, ("Last-Event-ID", "99999999-1")], b"");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let ids: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    assert_eq!((answer.status, ids.len()), (200, 1), "{text}");
    assert!(text.starts_with(": some events are gone") && text.contains("TASK_STATE_COMPLETED"), "{text}");
    // That event has the id of the end: resuming after it returns nothing more.
    assert!(ids[0].split('-').next().unwrap().parse::<u64>().unwrap() < 1_000, "{text}");
    let answer = agent.unix().ask("GET", &path, &[VERSION, ("Last-Event-ID", ids[0])], b"");
    assert_eq!((answer.status, answer.body.len()), (200, 0), "{}", answer.text());
}

/// C11, X-10: a prompt of a wrapped agent is input-required with its hash. Only a decision by an
/// authorized caller resolves it.
#[test]
fn a_prompt_is_decided_by_a_decision_and_by_nothing_else() {
    let world = world();
    let cli = Cli::start(&world, "a", &["turn=50"]);
    let agent = world.agent("a");
    let task = sent(&agent, &message("p1", json!({ "text": "ASK me" })))["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    let asked = &task["status"]["message"]["parts"];
    let hash = asked[1]["data"]["prompt_hash"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    assert!(asked[1]["data"]["choices"].is_array(), "{task}");
    let say = |id: &str, part: Value| {
        let mut more = message(id, part);
        more["message"]["taskId"] = task["id"].clone();
        more
    };
    // Text presses no keys. It waits until the prompt is decided.
    let mut words = say("p2", json!({ "text": "y" }));
    words["configuration"] = json!({ "returnImmediately": true });
    assert_eq!(sent(&agent, &words)["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let wrong = rpc(&agent, "SendMessage", &say("p3", json!({ "data": { "approve": "0123456789ab" } })));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    assert!(cli.all("approved").is_empty() && cli.all("denied").is_empty(), "{:?}", cli.log());
    let done = sent(&agent, &say("p4", json!({ "data": { "approve": hash } })))["task"].clone();
    assert_eq!(cli.all("approved"), [1], "{:?}", cli.log());
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    let given = cli.was_given(2);
    assert!(given[1].contains("] y"), "{given:?}");
    // A prompt that is gone cannot be decided again.
    let again = rpc(&agent, "SendMessage", &say("p5", json!({ "data": { "deny": hash } })));
    assert_eq!(again["error"]["code"], -32004, "{again}");
}

/// X-10, E7: an agent cannot approve its own request, over any API.
#[test]
fn an_agent_cannot_approve_what_it_asked_for() {
    let world = world();
    let cli = Cli::start(&world, "a", &["turn=50"]);
    let script = r#"
import json, os, socket
def rpc(params):
    body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': 'SendMessage', 'params': params})
    line = socket.socket(socket.AF_UNIX)
    os.chdir(os.path.dirname('SOCKET'))  # its whole path may be too long
    line.connect('node.sock')
    head = f'POST /api/v1/agent HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n'
    line.sendall((head + body).encode())
    heard = b''
    while (more := line.recv(65536)):
        heard += more
    return json.loads(heard.split(b'\r\n\r\n', 1)[1])
def said(id, part, task=''):
    return {'message': {'messageId': id, 'role': 'ROLE_USER', 'taskId': task, 'parts': [part]}}
task = rpc(said('x1', {'text': 'ASK me'}))['result']['task']
hash = task['status']['message']['parts'][1]['data']['prompt_hash']
say('completed', text=json.dumps(rpc(said('x2', {'data': {'approve': hash}}, task['id']))['error']))
"#;
    let socket = world.agent("a").socket.display().to_string();
    world.run_lines("helper", &script.replace("SOCKET", &socket), &[]);
    let told = world.json(&["send", "helper", "go", "--response", "--timeout", "60s"]).to_string();
    assert!(told.contains("PERMISSION_DENIED"), "{told}");
    assert!(cli.all("approved").is_empty(), "{:?}", cli.log());
    let hash = cli.prompt();
    world.ok(&["deny", "a", "--prompt", &hash]);
}

/// G16: the file name and media type of a part survive both ways between client and script, in 1.0
/// and in 0.3. Finding A7.
#[test]
fn parts_keep_their_filename_and_media_type() {
    let world = world();
    let script = "
part = message['content']['parts'][0]
say('artifact', artifact_id='a', name='report', text='a,b', filename='report.csv', media_type='text/csv')
say('completed', parts=[{'raw': 'aGk=', 'filename': 'hi.txt', 'mediaType': 'text/plain'}, {'text': json.dumps(part)}])";
    let agent = world.run_lines("names", script, &[]);
    let part = json!({ "raw": "aGVsbG8=", "filename": "hello.txt", "mediaType": "text/plain" });
    let told = sent(&agent, &message("f1", part.clone()));
    let artifacts = &told["task"]["artifacts"];
    let csv = json!({ "text": "a,b", "filename": "report.csv", "mediaType": "text/csv" });
    assert_eq!((&artifacts[0]["name"], &artifacts[0]["parts"][0]), (&json!("report"), &csv), "{told}");
    let hi = json!({ "raw": "aGk=", "filename": "hi.txt", "mediaType": "text/plain" });
    assert_eq!(artifacts[1]["parts"][0], hi, "{told}");
    let heard: Value = serde_json::from_str(artifacts[1]["parts"][1]["text"].as_str().unwrap()).unwrap();
    assert_eq!(heard, part, "{told}");
    assert_eq!(told["task"]["history"][0]["parts"][0], part, "{told}");

    let file = json!({ "kind": "file", "file": { "bytes": "aGVsbG8=", "name": "hello.txt", "mimeType": "text/plain" } });
    let params =
        json!({ "message": { "kind": "message", "messageId": "f2", "role": "user", "parts": [file] } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params }).to_string();
    let told = agent.unix().ask("POST", "/api/v1/agent", &[], call.as_bytes()).json();
    let artifacts = &told["result"]["artifacts"];
    let hi = json!({ "bytes": "aGk=", "name": "hi.txt", "mimeType": "text/plain" });
    assert_eq!(artifacts[1]["parts"][0]["file"], hi, "{told}");
    let heard: Value = serde_json::from_str(artifacts[1]["parts"][1]["text"].as_str().unwrap()).unwrap();
    assert_eq!(heard, part, "{told}");
    assert_eq!(told["result"]["history"][0]["parts"][0], file, "{told}");
}
