//! HTTP/2 at a real node, in hand-written frames: invalid frames, and floods of valid ones.

use crate::world;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;
use synapse_testkit::{Agent, Ran};

/// Longer than any answer should take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
const PATH: &str = "/lf.a2a.v1.A2AService/GetTask";
const GRPC: &str = "application/grpc";

/// A raw connection for frames that no real client would send.
struct Raw(TcpStream);

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

impl Raw {
    fn open(agent: &Agent) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", agent.port)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        let mut raw = Self(stream);
        assert!(raw.say(SETTINGS, 0, 0, b""));
        raw
    }

    /// Sends a frame. False if the other side has closed or does not read any more.
    fn say(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.say_with_length(u32::try_from(payload.len()).unwrap(), kind, flags, stream, payload)
    }

    fn say_with_length(&mut self, length: u32, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let mut bytes = length.to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        self.0.write_all(&bytes).is_ok()
    }

    /// Sends the head of a request whose body is still to come.
    fn ask(&mut self, agent: &Agent, stream: u32) -> bool {
        let text = |name: &[u8], value: &str| {
            [name, &[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat()
        };
        // POST, http, :path, :authority, content-type; none of it goes into the dynamic table.
        let path = text(&[0x04], PATH);
        let authority = text(&[0x01], &format!("localhost:{}", agent.port));
        let media = text(&[0x0f, 0x10], GRPC);
        self.say(HEADERS, 4, stream, &[&[0x83, 0x86][..], &path, &authority, &media].concat())
    }

    /// The error code with which the node closed the connection; none if it sent no GOAWAY.
    fn end(mut self) -> Option<u32> {
        let mut bytes = Vec::new();
        // If the node closes while we write, the connection may be reset. Bytes received before
        // count.
        let mut chunk = [0; 16 << 10];
        while let Ok(n @ 1..) = self.0.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..n]);
        }
        let mut rest = bytes.as_slice();
        let mut why = None;
        while let Some((head, more)) = rest.split_first_chunk::<9>() {
            let length = usize::try_from(u32::from_be_bytes([0, head[0], head[1], head[2]])).unwrap();
            if head[3] == GOAWAY {
                why = Some(u32::from_be_bytes(more[4..8].try_into().unwrap()));
            }
            rest = more.get(length..).unwrap_or_default();
        }
        why
    }
}

fn private_kb(pid: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let of = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap();
    text.lines().filter(|line| line.starts_with("Private_")).map(of).sum()
}

/// Each flood ends or blocks only its own connection. The node's memory grows little, and others
/// are served.
#[test]
fn floods_end_their_own_connection() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let serves = || {
        let answer = agent.get("/status");
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    serves();
    let before = private_kb(agent.node_pid);
    let mut frame_of_16_mb = Raw::open(&agent);
    frame_of_16_mb.say_with_length(0x00ff_ffff, HEADERS, 4, 1, &[0; 64]);
    assert_eq!(frame_of_16_mb.end(), Some(6), "a frame that is too large");
    serves();
    let mut resets = Raw::open(&agent);
    let taken = (0..20_000_u32)
        .take_while(|n| {
            resets.ask(&agent, 2 * n + 1) && resets.say(RST_STREAM, 0, 2 * n + 1, &8_u32.to_be_bytes())
        })
        .count();
    let why = resets.end();
    assert!(why == Some(11) || taken < 20_000, "{taken} were taken: {why:?}");
    serves();
    let mut heads = Raw::open(&agent);
    heads.say(HEADERS, 0, 1, &[0x83]);
    let taken = (0..10_000).take_while(|_| heads.say(CONTINUATION, 0, 1, &[0; 16 << 10])).count();
    assert!(taken < 10_000, "160 MB of a head were taken");
    heads.end();
    serves();
    let mut pings = Raw::open(&agent);
    let taken = (0..5_000_000).take_while(|_| pings.say(PING, 0, 0, &[0; 8])).count();
    assert!(taken < 5_000_000, "nobody reads the answers, and it goes on");
    serves();
    let grown = private_kb(agent.node_pid).saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} kB more");
    drop(pings);
}

/// curl uses either version on one port, and the whole API is available over both.
#[test]
fn curl_speaks_either_version_on_one_port() {
    let world = world();
    let agent = world.run("shout", "tr a-z A-Z", &[]);
    let url = format!("http://localhost:{}", agent.port);
    let curl = |args: &[&str]| {
        let args = [&["-sS", "-w", "%{stderr}%{http_version} %{http_code}"], args].concat();
        let mut command = world.prepare(Command::new("curl"), &args);
        Ran::new(&args, command.output().unwrap()).ok()
    };
    let bearer = format!("Authorization: {}", agent.bearer());
    for (flag, version) in [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")] {
        let status = curl(&[flag, &format!("{url}/status")]);
        assert_eq!(
            (status.json()["agentName"].as_str(), status.stderr),
            (Some("shout"), format!("{version} 200"))
        );
        let stranger = curl(&[flag, &format!("{url}/api/v1/tasks")]);
        assert_eq!(stranger.stderr, format!("{version} 401"));
        let body = r#"{"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}"#;
        let stream = format!("{url}/a2a/v1/message:stream");
        let json = "Content-Type: application/json";
        let send = [flag, "-H", &bearer, "-H", "A2A-Version: 1.0", "-H", json, "-d", body, &stream];
        let events = curl(&send);
        assert_eq!(events.stderr, format!("{version} 200"));
        assert!(events.stdout.contains("id: ") && events.stdout.contains("TASK_STATE_COMPLETED"), "{events}");
    }
}

/// Over TLS the node offers both versions; curl sends many requests over one connection or over
/// many.
#[test]
fn curl_asks_much_at_once_over_tls() {
    let world = world();
    world.ok(&["certs", "make"]);
    let file = |name: &str| world.home().join("certs").join(name).display().to_string();
    let [ca, cert, key] = ["ca.pem", "server.pem", "server.key"].map(file);
    let agent = world.run("shout", "tr a-z A-Z", &["--tls-cert", &cert, "--tls-key", &key]);
    let urls = vec![format!("https://localhost:{}/healthz", agent.port); 300];
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let mut args = vec!["-sS", "-Z", "-w", "%{http_version} %{http_code}\n", "--cacert", &ca, flag];
        args.extend(urls.iter().map(String::as_str));
        let told = Ran::new(&args, world.prepare(Command::new("curl"), &args).output().unwrap()).ok();
        assert_eq!(told.stdout.matches(&format!("{version} 200")).count(), 300, "{told}");
    }
}
