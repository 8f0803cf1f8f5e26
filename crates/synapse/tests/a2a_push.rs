//! Push notifications of a real node: webhooks get every event, in order and authenticated, despite
//! failures.

use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::Path;
use synapse_testkit::World;
use synapse_testkit::webhook::{Heard, Site};
use synapse_testkit::world::Agent;

const VERSION: (&str, &str) = ("A2A-Version", "1.0");
const STEPS: &str = "say('progress', text='one')\n\
say('artifact', artifact_id='log', text='a')\n\
say('artifact', artifact_id='log', text='b', append=True, last=True)\n\
say('completed', text='done')";
const ASKER: &str =
    "say('input_required', text='which one?')\nsay('completed', text='you said ' + hear()['text'])";

/// A world where webhooks on this machine are allowed.
fn world() -> World {
    world_with(r#"{ "network": { "push_private": true }, "audit": { "bodies": true } }"#)
}

fn world_with(settings: &str) -> World {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    std::fs::create_dir_all(world.home()).unwrap();
    std::fs::set_permissions(world.home(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(world.home().join("settings.json"), settings).unwrap();
    world
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Binding {
    Rpc,
    Rest,
}

const BINDINGS: [Binding; 2] = [Binding::Rpc, Binding::Rest];

impl Binding {
    /// Returns the result, or the error's reason and the field at fault.
    fn call(self, agent: &Agent, operation: &str, params: &Value) -> Result<Value, (String, String)> {
        let answer = match self {
            Self::Rpc => {
                let call = json!({ "jsonrpc": "2.0", "id": 7, "method": operation, "params": params });
                agent.unix().ask("POST", "/api/v1/agent", &[VERSION], call.to_string().as_bytes())
            }
            Self::Rest => {
                let (method, path) = rest(operation, params);
                let body = if method == "POST" { params.to_string() } else { String::new() };
                agent.unix().ask(method, &path, &[VERSION], body.as_bytes())
            }
        };
        let value = answer.json();
        let details = match self {
            Self::Rpc => value.pointer("/error/data"),
            Self::Rest => value.pointer("/error/details"),
        };
        let Some(details) = details else {
            return Ok(if self == Self::Rpc { value["result"].clone() } else { value });
        };
        let text = |path: &str| details.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        Err((text("/0/reason"), text("/1/fieldViolations/0/field")))
    }
}

fn rest(operation: &str, params: &Value) -> (&'static str, String) {
    let (task, id) =
        (params["taskId"].as_str().unwrap_or_default(), params["id"].as_str().unwrap_or_default());
    let configs = format!("/a2a/v1/tasks/{task}/pushNotificationConfigs");
    match operation {
        "SendMessage" => ("POST", "/a2a/v1/message:send".into()),
        "CreateTaskPushNotificationConfig" => ("POST", configs),
        "GetTaskPushNotificationConfig" => ("GET", format!("{configs}/{id}")),
        "ListTaskPushNotificationConfigs" => ("GET", configs),
        "DeleteTaskPushNotificationConfig" => ("DELETE", format!("{configs}/{id}")),
        other => panic!("{other}"),
    }
}

fn message(id: &str, config: Option<Value>) -> Value {
    let mut asked =
        json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "go" }] } });
    if let Some(config) = config {
        asked["configuration"] = json!({ "taskPushNotificationConfig": config });
    }
    asked
}

/// Sends a message and returns the id of its task.
fn task_of(binding: Binding, agent: &Agent, asked: &Value) -> String {
    let answer = binding.call(agent, "SendMessage", asked).unwrap();
    answer["task"]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Answers a task that asked for input.
fn go_on(agent: &Agent, task: &str) {
    let mut more = message(&format!("more {task}"), None);
    more["message"]["taskId"] = task.into();
    let answer = Binding::Rpc.call(agent, "SendMessage", &more).unwrap();
    assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
}

fn hears_the_end(world: &World, site: &Site) {
    world.wait_until("the webhook has heard of the end of the task", || {
        site.words().last().is_some_and(|word| word == "TASK_STATE_COMPLETED")
    });
}

/// Returns the path of a file in the folder that contains the text.
fn is_kept(folder: &Path, text: &str) -> Option<String> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().find_map(|entry| {
        let path = entry.path();
        let kind = entry.file_type().ok()?;
        if kind.is_dir() {
            return is_kept(&path, text);
        }
        // Opening a named pipe blocks until another process opens it for writing.
        if !kind.is_file() {
            return None;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes()).then(|| path.display().to_string())
    })
}

/// S8, P3, P8–P11, P15, P20.
#[test]
fn a_webhook_hears_all_of_a_task_in_order_and_with_its_credentials() {
    let world = world();
    let agent = world.run_lines("steps", STEPS, &[]);
    for binding in BINDINGS {
        let site = Site::open();
        let config = json!({
            "url": site.url("/hook?for=us"),
            "token": "s3cr3t-token",
            "authentication": { "scheme": "Bearer", "credentials": "s3cr3t-bearer" },
        });
        let task = task_of(binding, &agent, &message(&format!("m{binding:?}"), Some(config)));
        hears_the_end(&world, &site);
        let end = ["one", "a", "b", "done", "TASK_STATE_COMPLETED"];
        assert!(site.words().ends_with(&end.map(str::to_owned)), "{:?}", site.words());
        for heard in site.heard() {
            assert_eq!(heard.line, "POST /hook?for=us HTTP/1.1");
            assert_eq!(heard.header("content-type"), "application/a2a+json");
            assert_eq!(heard.header("authorization"), "Bearer s3cr3t-bearer");
            assert_eq!(heard.header("x-a2a-notification-token"), "s3cr3t-token");
            let (_, update) = heard.body.as_object().unwrap().iter().next().unwrap();
            assert_eq!((&update["taskId"], heard.body.as_object().unwrap().len()), (&json!(task), 1));
        }
        // The config ends with its task, and none of its secrets stay in a log or in the audit log.
        let list = json!({ "taskId": task });
        world.wait_until("the config is over", || {
            let all = binding.call(&agent, "ListTaskPushNotificationConfigs", &list).unwrap();
            all["configs"].as_array().is_none_or(Vec::is_empty)
        });
    }
    // Nor do those of requests that could not be parsed.
    let credentials = r#""authentication": { "scheme": "Bearer", "credentials": "s3cr3t" }"#;
    for (path, body) in [
        ("/api/v1/agent", format!("{{ {credentials} ")),
        (
            "/api/v1/agent",
            format!(r#"{{ "jsonrpc": "2.0", "id": 1, "method": "Unheard", "params": {{ {credentials} }} }}"#),
        ),
        ("/a2a/v1/message:send", format!(r#"{{ "message": 7, "configuration": {{ {credentials} }} }}"#)),
        ("/a2a/v1/tasks/1/pushNotificationConfigs", format!("{{ {credentials}, }}")),
    ] {
        let refused = agent.unix().ask("POST", path, &[VERSION], body.as_bytes()).json();
        assert!(refused.get("error").is_some(), "{refused}");
    }
    world.wait_until("the last of them is in the audit", || {
        is_kept(world.home(), "tasks/1/pushNotificationConfigs").is_some()
    });
    world.wait_until("nothing keeps a secret", || is_kept(world.home(), "s3cr3t").is_none());
    let metrics = agent.get("/metrics").text();
    assert!(
        metrics.contains("\nsynapse_push_webhooks 0\n")
            && metrics.contains("\nsynapse_push_failures_total 0\n")
    );
}

/// S8 for streams: a webhook gets the same events as the stream.
#[test]
fn a_webhook_hears_what_a_stream_tells() {
    let world = world();
    let agent = world.run_lines("steps", STEPS, &[]);
    let site = Site::open();
    let asked = message("m", Some(json!({ "url": site.url("/") })));
    let answer = agent.unix().ask("POST", "/a2a/v1/message:stream", &[VERSION], asked.to_string().as_bytes());
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let told: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert!(told.len() > 4 && told[0].get("task").is_some(), "{text}");
    hears_the_end(&world, &site);
    let heard: Vec<Value> = site.heard().into_iter().map(|heard| heard.body).collect();
    // The stream begins with the task, which may already include the first steps.
    assert!(heard.ends_with(&told[1..]), "{heard:?} does not end with {told:?}");
}

/// P13: a failed request is retried, in order. A redirect is not followed (P14).
#[test]
fn a_webhook_that_fails_is_tried_again_and_a_redirect_is_not_followed() {
    let world = world();
    let agent = world.run_lines("steps", STEPS, &[]);
    let (site, elsewhere) = (Site::open(), Site::open());
    let redirect = format!("307 Temporary Redirect\r\nlocation: {}", elsewhere.url("/"));
    site.will_answer(&["500 Internal Server Error", "404 Not Found", &redirect]);
    task_of(Binding::Rest, &agent, &message("m", Some(json!({ "url": site.url("/") }))));
    hears_the_end(&world, &site);
    let words = site.words();
    assert_eq!(words[..3], vec![words[3].clone(); 3], "{words:?}");
    assert_eq!(words.iter().filter(|word| *word == "done").count(), 1, "{words:?}");
    assert!(
        words.ends_with(&["one", "a", "b", "done", "TASK_STATE_COMPLETED"].map(str::to_owned)),
        "{words:?}"
    );
    assert_eq!(elsewhere.words(), [""; 0]);
    assert!(agent.get("/metrics").text().contains("\nsynapse_push_failures_total 3\n"));
}

/// P3: neither a webhook that is down nor a killed node loses an event.
#[test]
fn a_webhook_that_was_down_hears_all_after_the_node_was_killed() {
    let world = world();
    let agent = world.run_lines("asker", ASKER, &[]);
    let port: u16 = world.port().parse().unwrap();
    let config = json!({ "url": format!("http://127.0.0.1:{port}/"), "token": "t" });
    let task = task_of(Binding::Rpc, &agent, &message("m", Some(config)));
    world.kill_node("asker");
    let agent = world.agent("asker");
    go_on(&agent, &task);
    world.kill_node("asker");
    let site = Site::at(TcpListener::bind(("127.0.0.1", port)).unwrap());
    hears_the_end(&world, &site);
    let words = site.words();
    let place = |wanted: &str| {
        words.iter().position(|word| word == wanted).unwrap_or_else(|| panic!("{wanted}: {words:?}"))
    };
    let (asked, said, ended) = (place("which one?"), place("you said go"), place("TASK_STATE_COMPLETED"));
    assert!(asked < said && said < ended, "{words:?}");
    assert!(site.heard().iter().all(|heard| heard.header("x-a2a-notification-token") == "t"));
}

/// P3, at least once: a busy task, a node that is killed repeatedly, a webhook that fails now and
/// then.
#[test]
fn nothing_is_lost_by_a_node_that_is_killed_over_and_over() {
    const COUNT: usize = 60;
    let world = world();
    let script = format!(
        "import os, time\nfor n in range({COUNT}):\n    say('artifact', artifact_id='n%d' % n, text='n%d' % n)\n    \
         while n % 20 == 19 and not os.path.exists('go%d' % n): time.sleep(0.01)\nsay('completed', text='done')"
    );
    let agent = world.run_lines("busy", &script, &[]);
    let site = Site::open();
    site.will_answer(&["200 OK", "503 Busy", "200 OK", "200 OK", "500 No"]);
    let mut asked = message("m", Some(json!({ "url": site.url("/") })));
    asked["configuration"]["returnImmediately"] = true.into();
    task_of(Binding::Rest, &agent, &asked);
    for stop in [19, 39, 59] {
        world.wait_until("the webhook hears of what is made", || {
            site.words().contains(&format!("n{}", stop - 15))
        });
        world.kill_node("busy");
        world.write(&format!("go{stop}"), "");
    }
    hears_the_end(&world, &site);
    // Some events arrive twice, but their first arrivals are in order.
    let mut first: Vec<String> = Vec::new();
    for word in site.words().into_iter().filter(|word| word.starts_with('n') || word == "done") {
        if !first.contains(&word) {
            first.push(word);
        }
    }
    let all: Vec<String> = (0..COUNT).map(|n| format!("n{n}")).chain(["done".to_owned()]).collect();
    assert_eq!(first, all);
}

/// A repeated message does not create a second config.
#[test]
fn a_message_that_is_sent_twice_has_one_webhook() {
    let world = world();
    let agent = world.run_lines("asker", ASKER, &[]);
    let site = Site::open();
    let asked = message("m", Some(json!({ "url": site.url("/") })));
    let task = task_of(Binding::Rpc, &agent, &asked);
    assert_eq!(task_of(Binding::Rest, &agent, &asked), task);
    let all =
        Binding::Rpc.call(&agent, "ListTaskPushNotificationConfigs", &json!({ "taskId": task })).unwrap();
    assert_eq!(all["configs"].as_array().map(Vec::len), Some(1), "{all}");
    go_on(&agent, &task);
    hears_the_end(&world, &site);
    assert_eq!(site.words().iter().filter(|word| *word == "you said go").count(), 1);
}

/// P12: a slow webhook delays neither tasks nor other webhooks.
#[test]
fn a_webhook_that_never_answers_slows_no_task() {
    let world = world();
    let agent = world.run_lines("steps", STEPS, &[]);
    let (slow, quick) = (Site::open(), Site::open());
    slow.will_answer(&["wait"; 20]);
    for n in 0..3 {
        task_of(Binding::Rpc, &agent, &message(&format!("slow {n}"), Some(json!({ "url": slow.url("/") }))));
    }
    task_of(Binding::Rpc, &agent, &message("quick", Some(json!({ "url": quick.url("/") }))));
    hears_the_end(&world, &quick);
    assert!(!slow.words().contains(&"TASK_STATE_COMPLETED".to_owned()), "{:?}", slow.words());
}

/// P2, P4–P7.
#[test]
fn configs_are_made_shown_listed_and_deleted_over_each_binding() {
    let world = world();
    world.run_lines("asker", ASKER, &[]);
    let other = world.run("other", "cat", &[]);
    for binding in BINDINGS {
        // The node is killed below, and the next one may have to use another port.
        let agent = world.agent("asker");
        let (kept, gone) = (Site::open(), Site::open());
        let task = task_of(binding, &agent, &message(&format!("m{binding:?}"), None));
        let create = |config: Value| binding.call(&agent, "CreateTaskPushNotificationConfig", &config);
        let first = create(json!({ "taskId": task, "id": "mine", "url": kept.url("/") })).unwrap();
        assert_eq!((&first["id"], &first["url"]), (&json!("mine"), &json!(kept.url("/"))));
        let login = json!({ "scheme": "Basic", "credentials": "dTpw" });
        let second =
            create(json!({ "taskId": task, "url": gone.url("/"), "authentication": login })).unwrap();
        let id = second["id"].as_str().unwrap();
        assert!(id.len() >= 16 && second["authentication"] == login, "{second}");
        // A caller that may not see the task cannot list its configs either.
        let theirs = std::fs::read_to_string(world.agent_dir(&other.id).join("token")).unwrap();
        let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "ListTaskPushNotificationConfigs",
            "params": { "taskId": task } });
        let login = format!("Bearer {}", theirs.trim());
        let headers = [VERSION, ("Authorization", login.as_str())];
        let told = agent.tcp().ask("POST", "/api/v1/agent", &headers, call.to_string().as_bytes()).json();
        assert_eq!(told["error"]["code"], -32001, "{told}");
        let named = json!({ "taskId": task, "id": id });
        for other in BINDINGS {
            assert_eq!(other.call(&agent, "GetTaskPushNotificationConfig", &named).unwrap(), second);
            let all =
                other.call(&agent, "ListTaskPushNotificationConfigs", &json!({ "taskId": task })).unwrap();
            let all = all["configs"].as_array().unwrap().clone();
            assert!(all.len() == 2 && all.contains(&first) && all.contains(&second), "{all:?}");
        }
        // A restarted node still has them.
        world.kill_node("asker");
        let agent = world.agent("asker");
        assert_eq!(binding.call(&agent, "GetTaskPushNotificationConfig", &named).unwrap(), second);
        for _ in 0..2 {
            binding.call(&agent, "DeleteTaskPushNotificationConfig", &named).unwrap();
        }
        let none = binding.call(&agent, "GetTaskPushNotificationConfig", &named).unwrap_err();
        assert_eq!(none.0, "TASK_NOT_FOUND");
        go_on(&agent, &task);
        hears_the_end(&world, &kept);
        assert_eq!(gone.words(), [""; 0]);
        // A config for an ended task gets the end.
        let late = Site::open();
        let config = json!({ "taskId": task, "url": late.url("/") });
        binding.call(&agent, "CreateTaskPushNotificationConfig", &config).unwrap();
        hears_the_end(&world, &late);
        assert_eq!(late.heard()[0].body["task"]["artifacts"][0]["parts"][0]["text"], "you said go");
    }
}

/// P4, P5, and configs that are too many or malformed.
#[test]
fn bad_configs_are_refused_and_the_field_is_named() {
    let world = world();
    let agent = world.run_lines("asker", ASKER, &[]);
    let unknown = "0123456789abcdef0123456789abcdef";
    let operations = [
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
    ];
    let url = "https://hook.example.org/";
    for binding in BINDINGS {
        for operation in operations {
            let asked = json!({ "taskId": unknown, "id": "c", "url": url });
            assert_eq!(
                binding.call(&agent, operation, &asked).unwrap_err().0,
                "TASK_NOT_FOUND",
                "{operation}"
            );
        }
        let task = task_of(binding, &agent, &message(&format!("m{binding:?}"), None));
        let create = |more: Value| {
            let mut config = json!({ "taskId": task, "url": url });
            config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            binding.call(&agent, "CreateTaskPushNotificationConfig", &config)
        };
        let table = [
            (json!({ "url": "" }), "url"),
            (json!({ "url": "ftp://hook.example.org" }), "url"),
            (json!({ "url": "http://hook.example.org" }), "url"),
            (json!({ "token": "a\nb" }), "token"),
            (json!({ "authentication": { "credentials": "x" } }), "authentication.scheme"),
            (json!({ "id": "x".repeat(200) }), "id"),
        ];
        for (wrong, field) in table {
            let told = create(wrong.clone()).unwrap_err();
            assert_eq!(told, ("INVALID_PARAMS".to_owned(), field.to_owned()), "{wrong}");
        }
        let site = Site::open();
        for n in 0..10 {
            create(json!({ "id": format!("c{n}"), "url": site.url("/") })).unwrap();
        }
        assert_eq!(create(json!({ "url": site.url("/") })).unwrap_err().0, "RATE_LIMITED");
        create(json!({ "id": "c0", "url": site.url("/again") })).unwrap();
        // Each config gets the end, the replaced one at its new URL.
        go_on(&agent, &task);
        let ends = |line: &str| {
            let ended = |heard: &&Heard| heard.word() == "TASK_STATE_COMPLETED" && heard.line.contains(line);
            site.heard().iter().filter(ended).count()
        };
        world.wait_until("all ten have heard of the end", || ends(" / ") == 9 && ends(" /again ") == 1);
    }
}

/// P14: private targets are refused by default, however they are spelled.
#[test]
fn private_targets_are_refused_by_default_in_every_spelling() {
    let world = world_with("{}");
    let agent = world.run_lines("asker", ASKER, &[]);
    let site = Site::open();
    let port = site.port;
    let hosts = [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "a.localhost",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "127.0.0.1.",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "metadata.google.internal",
        "[fd00::1]",
        "[fe80::1]",
        "hook.example.org@127.0.0.1",
        "%31%32%37.0.0.1",
    ];
    let open = task_of(Binding::Rpc, &agent, &message("open", None));
    for binding in BINDINGS {
        for host in hosts {
            for scheme in ["http", "https"] {
                let url = format!("{scheme}://{host}:{port}/");
                let config = json!({ "taskId": open, "url": url });
                let told = binding.call(&agent, "CreateTaskPushNotificationConfig", &config).unwrap_err();
                assert_eq!(told, ("INVALID_PARAMS".to_owned(), "url".to_owned()), "{url}");
                let asked = message(&format!("{binding:?} {url}"), Some(json!({ "url": url })));
                let told = binding.call(&agent, "SendMessage", &asked).unwrap_err();
                let field = "configuration.taskPushNotificationConfig.url".to_owned();
                assert_eq!(told, ("INVALID_PARAMS".to_owned(), field), "{url}");
            }
        }
    }
    assert_eq!(site.words(), [""; 0]);
    let tasks = agent.get("/api/v1/tasks").json();
    assert_eq!(
        tasks.as_array().or(tasks["tasks"].as_array()).unwrap().len(),
        1,
        "no task was begun: {tasks}"
    );
}
