//! The agent card of a real node: who may read it, what it contains, caching, and its signatures.

use crate::world;
use serde_json::{Value, json};
use std::process::Command;
use synapse_a2a::signing::{self, Covers, Jwks};
use synapse_testkit::cli::Cli;
use synapse_testkit::http::Answer;
use synapse_testkit::world::{Agent, Ran};

const CARD: &str = "/.well-known/agent-card.json";
const AGENT_JSON: &str = "/.well-known/agent.json";
const VERSION: (&str, &str) = ("A2A-Version", "1.0");

/// Sends a GET without credentials.
fn get(agent: &Agent, path: &str, headers: &[(&str, &str)]) -> Answer {
    agent.tcp().ask("GET", path, headers, b"")
}

fn interfaces(card: &Value) -> Vec<String> {
    let all = card["supportedInterfaces"].as_array().unwrap();
    let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    all.iter()
        .map(|one| {
            format!("{} {} {}", text(one, "protocolBinding"), text(one, "protocolVersion"), text(one, "url"))
        })
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn skills(card: &Value) -> Vec<&str> {
    card["skills"].as_array().unwrap().iter().map(|skill| skill["id"].as_str().unwrap()).collect()
}

/// A1–A8, A12, A13, A26, L3, L4, DIR-2: without a secret, at the root, for both versions.
#[test]
fn anybody_reads_the_card_and_it_is_true() {
    let world = world();
    let words = ["--skill", "letters", "--description", "Says it louder \u{202e}", "--role", "Developer"];
    let agent = world.run("shout", "tr a-z A-Z # hunter2", &words);
    let answer = get(&agent, CARD, &[]);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(answer.header("access-control-allow-origin"), None);
    let card = answer.json();
    let base = format!("http://localhost:{}", agent.port);
    assert_eq!((&card["name"], &card["description"]), (&json!("shout"), &json!("Says it louder")));
    assert_eq!(card["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        card["capabilities"],
        json!({ "streaming": true, "pushNotifications": true, "extendedAgentCard": true })
    );
    let accepted = card["defaultInputModes"].as_array().unwrap();
    for common in
        ["text/plain", "application/json", "application/octet-stream", "application/pdf", "image/png"]
    {
        assert!(accepted.contains(&json!(common)), "{common}: {accepted:?}");
    }
    assert_eq!(card["defaultOutputModes"], json!(["text/plain", "application/json"]));
    assert_eq!(skills(&card), ["tr", "letters"]);
    assert_eq!(
        interfaces(&card),
        [
            format!("JSONRPC 1.0 {base}/api/v1/agent"),
            format!("HTTP+JSON 1.0 {base}/a2a/v1"),
            format!("JSONRPC 0.3 {base}/api/v1/agent"),
            format!("HTTP+JSON 0.3 {base}/a2a"),
        ]
    );
    assert_eq!(card["securityRequirements"], json!([{ "schemes": { "bearer": { "list": [] } } }]));
    assert_eq!(card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"], "Bearer");
    // The fields of 0.3.
    assert_eq!(
        (&card["url"], &card["preferredTransport"]),
        (&json!(format!("{base}/api/v1/agent")), &json!("JSONRPC"))
    );
    assert_eq!((&card["protocolVersion"], &card["security"]), (&json!("0.3.0"), &json!([{ "bearer": [] }])));
    assert_eq!(
        card["additionalInterfaces"][1],
        json!({ "transport": "HTTP+JSON", "url": format!("{base}/a2a") })
    );
    assert_eq!(card["supportsAuthenticatedExtendedCard"], true);
    // The public card reveals no private data.
    let text = String::from_utf8(answer.body).unwrap();
    for secret in ["hunter2", &world.token(), &world.folder().display().to_string(), "Developer"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    // DIR-2.
    let old = get(&agent, AGENT_JSON, &[]).json();
    assert_eq!(old["agent_id"], format!("0x{}", agent.id));
    assert_eq!(
        old["endpoints"],
        json!([{ "url": format!("{base}/api/v1/agent"), "spec": format!("{base}/openapi.json") }])
    );
    assert_eq!((&old["url"], &old["name"]), (&card["url"], &card["name"]));
    let spec = get(&agent, "/openapi.json", &[]).json();
    assert!(spec["paths"]["/api/v1/agent"]["post"].is_object(), "{}", spec["paths"]);
    // Pages of other origins cannot read the card.
    assert_eq!(get(&agent, CARD, &[("Origin", "https://evil.example")]).status, 403);
    assert_eq!(agent.tcp().ask("POST", CARD, &[("Authorization", &agent.bearer())], b"").status, 405);
}

/// A24: an unchanged card has the same bytes, and a client that has it gets 304.
#[test]
fn what_a_client_has_is_not_sent_again() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    for path in [CARD, AGENT_JSON] {
        let first = get(&agent, path, &[]);
        let header = |name: &str| first.header(name).unwrap().to_owned();
        let (etag, modified) = (header("etag"), header("last-modified"));
        assert!(header("cache-control").contains("max-age="), "{:?}", first.headers);
        let second = get(&agent, path, &[]);
        assert_eq!((&second.body, second.header("etag")), (&first.body, Some(etag.as_str())));
        let weak = format!("\"x\", W/{etag}");
        let old = "Sun, 06 Nov 1994 08:49:37 GMT";
        let cases: &[(&[(&str, &str)], u16)] = &[
            (&[("If-None-Match", &etag)], 304),
            (&[("If-None-Match", &weak)], 304),
            (&[("If-None-Match", "*")], 304),
            (&[("If-None-Match", "\"x\"")], 200),
            (&[("If-Modified-Since", &modified)], 304),
            (&[("If-Modified-Since", old)], 200),
            (&[("If-Modified-Since", "soon")], 200),
            (&[("If-None-Match", "\"x\""), ("If-Modified-Since", &modified)], 200),
            (&[("If-None-Match", &etag), ("If-Modified-Since", old)], 304),
        ];
        for (headers, status) in cases {
            let answer = get(&agent, path, headers);
            assert_eq!(answer.status, *status, "{headers:?}");
            assert_eq!(answer.header("etag"), Some(etag.as_str()), "{headers:?}");
            assert_eq!(answer.body.is_empty(), *status == 304, "{headers:?}");
        }
        // HEAD returns the same headers and no body.
        let mut connection = agent.tcp().connect();
        connection.say(&agent.tcp().head("HEAD", path, &[("Connection", "close")], None));
        let (status, headers) = connection.read_head().unwrap();
        let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        assert_eq!(
            (status, length.map(|(_, n)| n.as_str())),
            (200, Some(first.body.len().to_string().as_str()))
        );
        assert!(headers.contains(&("etag".into(), etag.clone())), "{headers:?}");
        assert!(connection.is_closed(), "no body");
    }
}

/// A6: the URL comes from the host that was called or from the settings, with a sensible fallback.
#[test]
fn the_card_tells_where_the_agent_is_reached() {
    let world = world();
    let port = world.port();
    let words = ["--port", &port, "--host", "box.example"];
    let agent = world.run("shout", "tr a-z A-Z", &words);
    let url = |answer: Answer| answer.json()["url"].as_str().unwrap().to_owned();
    let named = |host: &str| url(get(&agent, CARD, &[("Host", host)]));
    assert_eq!(named(&format!("127.0.0.1:{port}")), format!("http://127.0.0.1:{port}/api/v1/agent"));
    assert_eq!(named(&format!("Box.Example:{port}")), format!("http://box.example:{port}/api/v1/agent"));
    assert_eq!(get(&agent, CARD, &[("Host", "evil.example")]).status, 403);
    assert_eq!(url(agent.get(CARD)), format!("http://box.example:{port}/api/v1/agent"), "over the socket");
    // Behind a reverse proxy: the public URL is set while the agent runs.
    world.ok(&["config", "set", "--user", "network.public_url", "https://agents.example/shout/"]);
    world.ok(&["config", "set", "--user", "provider.organization", "Example"]);
    world.ok(&["config", "set", "--user", "provider.url", "https://example.org"]);
    let expected = "https://agents.example/shout/api/v1/agent";
    world.wait_until("the settings are taken up", || url(get(&agent, CARD, &[])) == expected);
    let card = get(&agent, CARD, &[("Host", "agents.example")]).json();
    assert_eq!(card["url"], expected);
    assert_eq!(card["provider"], json!({ "organization": "Example", "url": "https://example.org" }));
    assert!(!interfaces(&card).iter().any(|one| one.starts_with("GRPC")), "not behind a path");
    // Flags at the start of an agent override the settings.
    let words = ["--public-url", "https://other.example", "--interfaces", "jsonrpc,http,grpc"];
    let other = world.run("other", "cat", &words);
    let card = get(&other, CARD, &[("Host", "other.example")]).json();
    assert_eq!(card["url"], "https://other.example/api/v1/agent");
    assert_eq!(interfaces(&card)[2], "GRPC 1.0 other.example:443");
    let bad = world.synapse(&["run", "-d", "--exec", "cat", "--public-url", "https://a:b@box"]);
    bad.fails(2, &["--public-url", "https://agents.example.org/review"]);
}

/// Measured A4: clients refuse a card if it has one address that they cannot parse. So a card lists
/// gRPC only on request.
#[test]
fn interfaces_of_the_card_can_be_chosen() {
    let world = world();
    let listed = |agent: &Agent| -> Vec<String> {
        let all = interfaces(&get(agent, CARD, &[]).json());
        let new = all.iter().filter_map(|one| one.split_once(" 1.0 "));
        new.map(|(binding, _)| binding.to_owned()).collect()
    };
    let plain = world.run("plain", "cat", &[]);
    assert_eq!(listed(&plain), ["JSONRPC", "HTTP+JSON"]);
    let chosen = world.run("chosen", "cat", &["--interfaces", "grpc,jsonrpc"]);
    assert_eq!(listed(&chosen), ["GRPC", "JSONRPC"]);
    // The settings apply only to agents that were started without the flag.
    world.ok(&["config", "set", "--user", "card.interfaces", "http"]);
    world.wait_until("the settings are read again", || listed(&plain) == ["HTTP+JSON"]);
    assert_eq!(listed(&chosen), ["GRPC", "JSONRPC"]);
    world.ok(&["run", "-d", "--name", "wrapped", "--interfaces", "jsonrpc", "--", "cat"]);
    assert_eq!(listed(&world.agent("wrapped")), ["JSONRPC"]);
    world.synapse(&["run", "-d", "--exec", "cat", "--interfaces", "soap"]).fails(2, &["jsonrpc, http, grpc"]);
}

/// Files of other types are accepted once the card lists them, by a flag or by the settings.
#[test]
fn media_types_of_the_card_can_be_chosen() {
    let world = world();
    let send = |agent: &Agent, id: &str, part: Value, accepted: Value| -> Value {
        let message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [part] });
        let params = json!({ "message": message, "configuration": { "acceptedOutputModes": accepted } });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
        let headers = [VERSION, ("Authorization", &agent.bearer())];
        agent.tcp().ask("POST", "/api/v1/agent", &headers, call.to_string().as_bytes()).json()
    };
    let code = |told: Value| told["error"]["code"].as_i64();
    let video = || json!({ "raw": "AAAA", "filename": "a.mp4", "mediaType": "video/mp4" });
    let picture = || json!({ "raw": "AAAA", "filename": "a.png", "mediaType": "image/png" });
    let plain = world.run("plain", "cat > /dev/null; echo ok", &[]);
    let told = send(&plain, "m1", picture(), json!([]));
    assert_eq!(told["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{told}");
    assert_eq!(told["result"]["task"]["history"][0]["parts"][0]["mediaType"], "image/png", "{told}");
    let told = send(&plain, "m2", video(), json!([]));
    let why = told["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(told["error"]["code"], -32005, "{told}");
    assert!(why.contains("video/mp4 is not accepted here"), "{told}");
    assert_eq!(code(send(&plain, "m3", json!({ "text": "draw" }), json!(["image/png"]))), Some(-32005));

    let flags = ["--input-modes", "text/plain,video/*", "--output-modes", "image/png"];
    let chosen = world.run("chosen", "cat > /dev/null; echo ok", &flags);
    let card = get(&chosen, CARD, &[]).json();
    assert_eq!(card["defaultInputModes"], json!(["text/plain", "video/*"]));
    assert_eq!(card["defaultOutputModes"], json!(["image/png"]));
    assert_eq!(code(send(&chosen, "m1", video(), json!([]))), None);
    assert_eq!(code(send(&chosen, "m2", picture(), json!([]))), Some(-32005));
    assert_eq!(code(send(&chosen, "m3", json!({ "text": "draw" }), json!(["image/png"]))), None);

    // The settings apply to agents that were started without the flags.
    world.ok(&["config", "set", "--user", "card.input_modes", "video/mp4"]);
    world.wait_until("the settings are read again", || {
        get(&plain, CARD, &[]).json()["defaultInputModes"] == json!(["video/mp4"])
    });
    assert_eq!(code(send(&plain, "m4", video(), json!([]))), None);
    assert_eq!(code(send(&plain, "m5", json!({ "text": "hi" }), json!([]))), Some(-32005));
    for wrong in ["png", "text/plain,text/plain", "image/png;q=1"] {
        world.synapse(&["run", "-d", "--exec", "cat", "--input-modes", wrong]).fails(2, &["--input-modes"]);
    }
}

/// Measured A8: readers that reject unknown fields can ask for a card without the fields of 0.3. A
/// setting leaves these fields out for everyone.
#[test]
fn strict_card_has_no_fields_of_03() {
    const OLD: [&str; 6] = [
        "url",
        "preferredTransport",
        "additionalInterfaces",
        "protocolVersion",
        "security",
        "supportsAuthenticatedExtendedCard",
    ];
    let world = world();
    let agent = world.run("shout", "cat", &[]);
    let has = |card: &Value| OLD.iter().filter(|name| card.get(**name).is_some()).count();
    for headers in [[].as_slice(), &[VERSION], &[("A2A-Version", "0.3")]] {
        assert_eq!(has(&get(&agent, CARD, headers).json()), OLD.len(), "{headers:?}");
    }
    let strict = get(&agent, &format!("{CARD}?A2A-Version=1.0"), &[]).json();
    assert_eq!(has(&strict), 0, "{strict}");
    assert_eq!(strict["securitySchemes"]["bearer"].as_object().unwrap().len(), 1, "{strict}");
    let jwks = get(&agent, "/.well-known/jwks.json", &[]).json();
    let verified = signing::verify(&strict, &Jwks::read(&jwks, 0)).unwrap();
    assert_eq!(verified.covers, Covers::Document);
    world.ok(&["config", "set", "--user", "card.v03", "false"]);
    world.wait_until("the settings are read again", || has(&get(&agent, CARD, &[]).json()) == 0);
    // Cards at the path of 0.2 keep the old fields, for clients of 0.2 and 0.3.
    assert_eq!(has(&get(&agent, AGENT_JSON, &[]).json()), OLD.len());
}

/// Finding A13: clients of 0.3 that reject unknown fields can ask for a card with only the fields
/// of 0.3, signed in that form.
#[test]
fn old_card_has_no_fields_of_10() {
    let world = world();
    let agent = world.run("shout", "cat", &[]);
    let old = get(&agent, &format!("{CARD}?A2A-Version=0.3"), &[]).json();
    for name in ["supportedInterfaces", "securityRequirements"] {
        assert_eq!(old.get(name), None, "{old}");
    }
    assert_eq!(old["protocolVersion"], "0.3.0", "{old}");
    let bearer = &old["securitySchemes"]["bearer"];
    assert_eq!((&bearer["type"], bearer.get("httpAuthSecurityScheme")), (&json!("http"), None), "{old}");
    assert!(old["capabilities"].get("extendedAgentCard").is_none(), "{old}");
    let jwks = get(&agent, "/.well-known/jwks.json", &[]).json();
    let verified = signing::verify(&old, &Jwks::read(&jwks, 0)).unwrap();
    assert_eq!(verified.covers, Covers::Document);
}

/// Measured A8: requests for a capability that the card does not declare get the protocol's error.
#[test]
fn undeclared_capabilities_are_refused() {
    let world = world();
    let call = |agent: &Agent, method: &str, params: Value| {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers = [VERSION, ("Authorization", &agent.bearer())];
        agent.tcp().ask("POST", "/api/v1/agent", &headers, call.to_string().as_bytes()).json()
    };
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }] });
    let hook = json!({ "taskId": "t", "url": "https://hooks.example.org/" });
    let with_hook = json!({ "message": message, "configuration": { "taskPushNotificationConfig": hook } });
    let quiet = world.run("quiet", "cat", &["--no-streaming", "--no-push"]);
    let card = get(&quiet, CARD, &[]).json();
    let declared = (&card["capabilities"]["streaming"], &card["capabilities"]["pushNotifications"]);
    assert_eq!(declared, (&json!(false), &json!(false)));
    for (method, params, code) in [
        ("SendStreamingMessage", json!({ "message": message }), -32004),
        ("SubscribeToTask", json!({ "id": "t" }), -32004),
        ("CreateTaskPushNotificationConfig", hook.clone(), -32003),
        ("GetTaskPushNotificationConfig", json!({ "taskId": "t", "id": "h" }), -32003),
        ("ListTaskPushNotificationConfigs", json!({ "taskId": "t" }), -32003),
        ("DeleteTaskPushNotificationConfig", json!({ "taskId": "t", "id": "h" }), -32003),
        ("SendMessage", with_hook, -32003),
    ] {
        let told = call(&quiet, method, params);
        assert_eq!(told["error"]["code"], code, "{method}: {told}");
    }
    assert!(call(&quiet, "SendMessage", json!({ "message": message }))["result"]["task"].is_object());
    // The settings turn a capability off for all agents, while they run.
    let loud = world.run("loud", "cat", &[]);
    world.ok(&["config", "set", "--user", "card.streaming", "false"]);
    world.wait_until("streams are refused", || {
        call(&loud, "SubscribeToTask", json!({ "id": "t" }))["error"]["code"] == -32004
    });
    assert_eq!(get(&loud, CARD, &[]).json()["capabilities"]["streaming"], false);
}

/// Measured A8: fasta2a's clients add a slash to the URL of JSON-RPC.
#[test]
fn trailing_slash_of_json_rpc_is_accepted() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }] });
    let call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } });
    let ask = |headers: &[(&str, &str)]| {
        agent.tcp().ask("POST", "/api/v1/agent/", headers, call.to_string().as_bytes())
    };
    let told = ask(&[VERSION, ("Authorization", &agent.bearer())]).json();
    assert_eq!(told["result"]["task"]["artifacts"][0]["parts"][0]["text"], "HI", "{told}");
    let refused = ask(&[VERSION]);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (401, &json!(-32010)));
}

/// The card describes the kind of agent that is running.
#[test]
fn each_kind_of_agent_says_what_it_is() {
    let world = world();
    let lines = world.run_lines("lines", "say('completed', text='x')", &[]);
    let card = get(&lines, CARD, &[]).json();
    assert!(card["description"].as_str().unwrap().contains("tells how far it is"), "{card}");
    let _cli = Cli::start(&world, "wrapped", &[]);
    let agent = world.agent("wrapped");
    let card = get(&agent, CARD, &[]).json();
    assert_eq!((&card["name"], skills(&card)), (&json!("wrapped"), vec!["scripted"]));
    assert!(card["description"].as_str().unwrap().starts_with("scripted, in a terminal"), "{card}");
    let extended = extended_rest(&agent, &[("Authorization", &agent.bearer())]);
    let extended = extended.json();
    assert!(skills(&extended).contains(&"interrupt"), "{extended}");
    // The card lists the `approve` skill only for callers who may approve: the person at the
    // socket, not the holder of a token.
    assert!(!skills(&extended).contains(&"approve"), "{extended}");
    let person = agent.unix().ask("GET", "/a2a/v1/extendedAgentCard", &[VERSION], b"").json();
    assert!(skills(&person).contains(&"approve"), "{person}");
}

fn extended_rest(agent: &Agent, headers: &[(&str, &str)]) -> Answer {
    let headers: Vec<_> = headers.iter().copied().chain([VERSION]).collect();
    agent.tcp().ask("GET", "/a2a/v1/extendedAgentCard", &headers, b"")
}

fn extended_rpc(agent: &Agent, headers: &[(&str, &str)]) -> Answer {
    let headers: Vec<_> = headers.iter().copied().chain([VERSION]).collect();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", "params": {} });
    agent.tcp().ask("POST", "/api/v1/agent", &headers, call.to_string().as_bytes())
}

/// A12: where a client certificate is required, the card says so, and its URLs use https.
#[test]
fn certificates_are_told_of() {
    let world = world();
    world.ok(&["certs", "make", "--client", "alice"]);
    let dir = world.home().join("certs").display().to_string();
    let file = |name: &str| format!("{dir}/{name}");
    let (cert, key, ca) = (file("server.pem"), file("server.key"), file("ca.pem"));
    let agent = world.run("shout", "cat", &["--tls-cert", &cert, "--tls-key", &key, "--client-ca", &ca]);
    let ask = |path: &str| {
        let (alice, its_key) = (file("alice.pem"), file("alice.key"));
        let url = format!("https://localhost:{}{path}", agent.port);
        let words = ["-sS", "--cacert", &ca, "--cert", &alice, "--key", &its_key, &url];
        Ran::new(&words, Command::new("curl").args(words).output().unwrap()).ok().json()
    };
    let card = ask(CARD);
    assert_eq!(card["url"], format!("https://localhost:{}/api/v1/agent", agent.port));
    assert_eq!(card["security"], json!([{ "mtls": [] }, { "bearer": [], "mtls": [] }]));
    assert_eq!(card["securitySchemes"]["mtls"]["type"], "mutualTLS");
    assert!(card["securitySchemes"]["mtls"]["mtlsSecurityScheme"].is_object(), "{card}");
    // Clients of 0.2 fail on security schemes that they do not know.
    assert_eq!(ask(AGENT_JSON)["security"], json!([{ "bearer": [] }]));
}

/// A14–A16, E2, E3: over each binding, only authenticated callers get the extended card.
#[test]
fn the_extended_card_is_for_known_callers() {
    let world = world();
    let agent =
        world.run("shout", "tr a-z A-Z", &["--time-limit", "90s", "--parallel", "3", "--role", "Developer"]);
    let public = get(&agent, CARD, &[]).json();
    let rest = extended_rest(&agent, &[("Authorization", &agent.bearer())]);
    assert_eq!(rest.status, 200, "{}", rest.text());
    let rest = rest.json();
    let rpc = extended_rpc(&agent, &[("Authorization", &agent.bearer())]).json()["result"].clone();
    for card in [&rest, &rpc] {
        assert_eq!(interfaces(card), interfaces(&public));
        assert_eq!(skills(card), ["tr", "interrupt"]);
        let node = &card["capabilities"]["extensions"][0];
        assert!(node["uri"].as_str().unwrap().ends_with("/extensions/node/v1"), "{node}");
        let told = &node["params"];
        assert_eq!(told["agentId"], format!("0x{}", agent.id));
        assert_eq!((told["tasksAtOnce"].as_f64(), told["timeLimitMs"].as_f64()), (Some(3.0), Some(90_000.0)));
        assert_eq!((&told["role"], &told["agentType"]), (&json!("Developer"), &json!("tr")));
        assert!(told["rights"].as_array().unwrap().contains(&json!("message")), "{told}");
    }
    let without = |mut card: Value| {
        card.as_object_mut().unwrap().remove("signatures");
        card
    };
    assert_eq!(without(rest), without(rpc));
    for headers in [vec![], vec![("Authorization", "Bearer nothing")], vec![("Authorization", "Basic eA==")]]
    {
        let rest = extended_rest(&agent, &headers);
        assert_eq!((rest.status, rest.header("www-authenticate")), (401, Some("Bearer")), "{headers:?}");
        assert_eq!(rest.json()["error"]["details"][0]["reason"], "UNAUTHENTICATED");
        let rpc = extended_rpc(&agent, &headers);
        assert_eq!((rpc.status, &rpc.json()["error"]["code"]), (401, &json!(-32010)), "{headers:?}");
    }
}

/// A18–A21: the key is created once, readable only by its owner, and signs the served cards.
#[test]
fn the_card_is_signed_with_a_key_that_stays() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let key = world.home().join("card.key");
    assert!(!key.exists(), "nobody has asked yet");
    let card = get(&agent, CARD, &[]).json();
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let jwks = get(&agent, "/.well-known/jwks.json", &[]).json();
    assert_eq!(jwks["keys"][0]["alg"], "ES256");
    assert_eq!(jwks["keys"][0].get("d"), None);
    assert_eq!(card["signatures"].as_array().unwrap().len(), 3);
    for path in [CARD, AGENT_JSON] {
        let verified = signing::verify(&get(&agent, path, &[]).json(), &Jwks::read(&jwks, 0)).unwrap();
        assert_eq!((verified.kid, verified.covers), (text(&jwks["keys"][0]["kid"]), Covers::Document));
    }
    let extended = extended_rest(&agent, &[("Authorization", &agent.bearer())]).json();
    assert!(signing::verify(&extended, &Jwks::read(&jwks, 0)).is_ok(), "{extended}");
    world.kill_node("shout");
    let agent = world.agent("shout");
    let other = world.run("other", "cat", &[]);
    for agent in [&agent, &other] {
        assert_eq!(get(agent, "/.well-known/jwks.json", &[]).json(), jwks, "of one home");
    }
    // An unreadable key costs only the signatures.
    std::fs::write(&key, "damaged").unwrap();
    world.kill_node("shout");
    let agent = world.agent("shout");
    let unsigned = get(&agent, CARD, &[]).json();
    assert_eq!((&unsigned["name"], unsigned.get("signatures")), (&json!("shout"), None));
    assert_eq!(get(&agent, "/.well-known/jwks.json", &[]).json(), json!({ "keys": [] }));
    // A new key restores the signatures without a restart.
    std::fs::remove_file(&key).unwrap();
    let card = get(&agent, CARD, &[]).json();
    let new = get(&agent, "/.well-known/jwks.json", &[]).json();
    assert_ne!(new, jwks);
    assert!(signing::verify(&card, &Jwks::read(&new, 0)).is_ok(), "{card}");
}
