//! TLS, with the real binary on one side and curl, openssl and Python on the other (REST-8).
//!
//! Not here: our client's error messages when trust fails (`tls_trust.rs`).

use crate::world;
use serde_json::json;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use synapse_testkit::stranger::{CARD, Stranger, json_answer, not_found};
use synapse_testkit::world::python;
use synapse_testkit::{Agent, Ran, World};
use synapse_tls::make::{Authority, Pair, Span};
use synapse_tls::now_s;

/// Creates the folder with a CA and certificates for `server` and `alice`.
fn certs(world: &World) -> PathBuf {
    world.ok(&["certs", "make", "--client", "alice"]);
    world.home().join("certs")
}

fn file(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

/// Starts an agent that uses TLS and requires client certificates.
fn run_strict(world: &World, dir: &Path) -> Agent {
    let [cert, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|name| file(dir, name));
    world.run("shout", "tr a-z A-Z", &["--tls-cert", &cert, "--tls-key", &key, "--client-ca", &ca])
}

fn put(dir: &Path, name: &str, pair: &Pair) {
    for (end, text) in [("key", &pair.key), ("pem", &pair.cert)] {
        let draft = dir.join("draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::set_permissions(&draft, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::rename(draft, dir.join(format!("{name}.{end}"))).unwrap();
    }
}

fn sh(world: &World, script: &str) -> Ran {
    Ran::new(&[script], world.prepare(Command::new("sh"), &["-c", script]).output().unwrap())
}

#[test]
fn the_dev_certificates_are_made_with_one_command_and_kept() {
    let world = world();
    let dir = certs(&world);
    for name in ["ca.key", "server.key", "alice.key"] {
        let mode = std::fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
    let read = |name: &str| std::fs::read(dir.join(name)).unwrap();
    let (ca, server, alice) = (read("ca.pem"), read("server.pem"), read("alice.pem"));

    let again = world.json(&["certs", "make", "--client", "alice", "--client", "bob"]);
    let made: Vec<bool> =
        again["certificates"].as_array().unwrap().iter().map(|c| c["made"].as_bool().unwrap()).collect();
    assert_eq!(made, [false, false, false, true], "{again}");
    assert_eq!((&read("ca.pem"), &read("server.pem"), &read("alice.pem")), (&ca, &server, &alice));

    world
        .synapse(&["certs", "make", "--name", "box.example"])
        .fails(5, &["server.pem", "for other names", "--force"]);
    assert_eq!(read("server.pem"), server, "nothing was written");
    world.ok(&["certs", "make", "--name", "box.example", "--force"]);
    assert_eq!(read("ca.pem"), ca, "the authority stays");
    assert!(world.ok(&["certs", "show", &file(&dir, "server.pem")]).contains("box.example"));

    std::fs::write(dir.join("ca.key"), read("alice.key")).unwrap();
    world.synapse(&["certs", "make", "--client", "carol"]).fails(5, &["ca.pem", "--dir"]);
    world.synapse(&["certs", "make", "--client", "server"]).fails(2, &["server"]);
    world.synapse(&["certs", "make", "--client", "../x"]).fails(2, &["../x"]);
}

/// If several start at once, all use the same CA.
#[test]
fn two_who_make_an_authority_at_once_get_the_same() {
    let world = world();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (world, name) = (&world, format!("client-{n}"));
            scope.spawn(move || {
                world.ok(&["certs", "make", "--dir", "together", "--client", &name, "--force"])
            });
        }
    });
    let dir = world.file("together");
    for n in 0..4 {
        sh(&world, &format!("openssl verify -CAfile {0}/ca.pem {0}/client-{n}.pem", dir.display())).ok();
    }
}

#[test]
fn what_is_in_a_certificate_is_shown_and_an_expired_one_fails() {
    let world = world();
    let dir = certs(&world);
    let shown = world.ok(&["certs", "show", &file(&dir, "server.pem")]);
    for part in ["localhost", "127.0.0.1", "::1", "expires in 36", "Synapse on"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let authority = Authority::make("Old", Span::days(now_s(), 1)).unwrap();
    let old = Span { from_s: now_s() - 20 * 86_400, to_s: now_s() - 3 * 86_400 };
    put(&dir, "old", &authority.client("old", old).unwrap());
    let ran = world.synapse(&["certs", "show", &file(&dir, "old.pem")]).fails(1, &["has expired", "--force"]);
    assert!(ran.stdout.contains("expired 3 days ago"), "{ran}");
    let json = world.synapse(&["certs", "show", "--json", &file(&dir, "old.pem")]).exits(1).json();
    assert_eq!((json["state"].as_str(), json["common_name"].as_str()), (Some("expired"), Some("old")));
    world.synapse(&["certs", "show", &file(&dir, "ca.key")]).fails(2, &["holds no certificate"]);
    world.write("garbage.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    world.synapse(&["certs", "show", "garbage.pem"]).fails(2, &["cannot be read"]);
}

#[test]
fn curl_openssl_and_python_call_it_and_only_with_a_good_certificate() {
    let world = world();
    let dir = certs(&world);
    let shout = run_strict(&world, &dir);
    let span = Span::days(now_s(), 1);
    put(&dir, "foreign", &Authority::make("Other", span).unwrap().client("alice", span).unwrap());
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let own = Authority::open(&read("ca.pem"), &read("ca.key")).unwrap();
    put(&dir, "late", &own.client("alice", Span { from_s: now_s() - 9_000, to_s: now_s() - 60 }).unwrap());

    let (d, port) = (dir.display(), shout.port);
    let curl = |more: &str| sh(&world, &format!("curl -sS --cacert {d}/ca.pem {more}"));
    for version in ["--tlsv1.3", "--tlsv1.2 --tls-max 1.2"] {
        let alice = format!("{version} --cert {d}/alice.pem --key {d}/alice.key");
        let status = curl(&format!("{alice} https://localhost:{port}/status")).ok().json();
        assert_eq!(status["agentName"], "shout");
        for (who, said) in [
            ("", "required"),
            ("--cert {d}/foreign.pem --key {d}/foreign.key", "unknown ca"),
            ("--cert {d}/late.pem --key {d}/late.key", "expired"),
        ] {
            let who = who.replace("{d}", &d.to_string());
            let ran = curl(&format!("{version} {who} https://localhost:{port}/status"));
            assert!(ran.code != Some(0) && ran.stdout.is_empty(), "{version} {who}: {ran}");
            // With older versions of TLS, curl gives fewer details.
            assert!(version != "--tlsv1.3" || ran.stderr.contains(said), "{version} {who}: {ran}");
        }
    }
    let verified =
        format!("-connect 127.0.0.1:{port} -servername localhost -verify_return_error -CAfile {d}/ca.pem");
    let alice = format!("-cert {d}/alice.pem -key {d}/alice.key");
    let ask = format!(
        "printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost:{port}\\r\\nConnection: close\\r\\n\\r\\n'"
    );
    let told =
        sh(&world, &format!("{ask} | openssl s_client -ign_eof -alpn http/1.1 {verified} {alice}")).ok();
    for part in ["Verify return code: 0", "ALPN protocol: http/1.1", "TLSv1.3", "HTTP/1.1 200 OK"] {
        assert!(told.stdout.contains(part), "{part} is not in {told}");
    }
    let old =
        sh(&world, &format!("{ask} | openssl s_client -tls1_1 -cipher ALL:@SECLEVEL=0 {verified} {alice}"));
    assert!(old.code != Some(0) && !old.stdout.contains("200 OK"), "{old}");

    let script = "
import http.client, ssl, sys
dir, port = sys.argv[1], int(sys.argv[2])
context = ssl.create_default_context(cafile=dir + '/ca.pem')
context.load_cert_chain(dir + '/alice.pem', dir + '/alice.key')
connection = http.client.HTTPSConnection('localhost', port, context=context, timeout=20)
for path in ['/status', '/api/v1/tasks']:
    connection.request('GET', path)
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
";
    let mut call = world.prepare(Command::new(python()), &["-c", script, &d.to_string(), &port.to_string()]);
    let ran = Ran::new(&["python"], call.output().unwrap()).ok();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("200 "), "{ran}");
    // The certificate is valid but unknown: the error names it and the setting that gives it
    // rights.
    assert!(lines[1].starts_with("403 "), "{ran}");
    for part in ["alice", "tls.identities"] {
        assert!(lines[1].contains(part), "{ran}");
    }
}

#[test]
fn the_token_still_makes_the_caller_the_user() {
    let world = world();
    let dir = certs(&world);
    let shout = run_strict(&world, &dir);
    let url = format!("https://localhost:{}", shout.port);
    assert_eq!(world.entry("shout").unwrap()["endpoint"], url.as_str());
    let [ca, cert, key] = ["ca.pem", "alice.pem", "alice.key"].map(|name| file(&dir, name));
    let token = world.home().join("token").display().to_string();
    let as_alice = ["--ca", &ca, "--cert", &cert, "--key", &key];
    let all = |words: &[&str], more: &[&str]| {
        let args: Vec<&str> = words.iter().chain(&as_alice).chain(more).copied().collect();
        world.synapse(&args)
    };
    assert_eq!(all(&["send", &url, "hello", "--response"], &["--token-file", &token]).ok().out(), "HELLO");
    all(&["send", &url, "hello"], &[]).fails(5, &["alice", "tls.identities"]);
    all(&["status", &url], &[]).ok();
    all(&["inbox", &url], &["--token-file", &token]).ok();
    let loose = world.write("loose", &world.token());
    std::fs::set_permissions(&loose, PermissionsExt::from_mode(0o644)).unwrap();
    all(&["send", &url, "hello"], &["--token-file", "loose"]).fails(2, &["chmod 600"]);
    let mut command = world.command(&["send", &url, "from the environment", "--response"]);
    command.env("SYNAPSE_CA", &ca).env("SYNAPSE_CERT", &cert).env("SYNAPSE_KEY", &key);
    let ran = Ran::new(&["send"], command.env("SYNAPSE_TOKEN_FILE", &token).output().unwrap()).ok();
    assert_eq!(ran.out(), "FROM THE ENVIRONMENT");
}

/// R2: the handshake selects HTTP/2, and callers are identified by certificate, as over HTTP/1.1.
#[test]
fn grpc_is_called_over_tls() {
    let world = world();
    let dir = certs(&world);
    let shout = run_strict(&world, &dir);
    let at = format!("https://localhost:{}", shout.port);
    let card = json!({
        "name": "x", "capabilities": { "streaming": true },
        "supportedInterfaces": [{ "url": at, "protocolBinding": "GRPC", "protocolVersion": "1.0" }],
    });
    let card =
        Stranger::new(move |heard, _| if heard.path == CARD { json_answer(&card) } else { not_found() });
    let [ca, cert, key] = ["ca.pem", "alice.pem", "alice.key"].map(|name| file(&dir, name));
    let token = world.home().join("token").display().to_string();
    let host = format!("localhost:{}", shout.port);
    let send = |more: &[&str]| {
        let args =
            ["send", &card.url(), "hello", "--response", "--token-file", &token, "--allow-host", &host];
        world.synapse(&[&args[..], more].concat())
    };
    assert_eq!(send(&["--ca", &ca, "--cert", &cert, "--key", &key]).ok().out(), "HELLO");
    let stranger = send(&["--ca", &ca]);
    assert!(stranger.code != Some(0) && stranger.stderr.contains("certificate"), "{stranger}");
    let untrusted = send(&["--cert", &cert, "--key", &key]);
    assert!(untrusted.code != Some(0) && untrusted.stderr.contains(&host), "{untrusted}");
}

/// Connections survive a change of the certificate, new ones get the new one, and a broken one is
/// ignored.
#[test]
fn changed_certificates_are_taken_while_connections_are_open() {
    let world = world();
    let dir = certs(&world);
    let shout = run_strict(&world, &dir);
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let authority = Authority::open(&read("ca.pem"), &read("ca.key")).unwrap();
    let names = ["localhost", "second.example"].map(String::from);
    put(&dir, "next", &authority.server(&names, Span::days(now_s(), 1)).unwrap());
    let script = "
import http.client, os, ssl, sys, time
dir, port = sys.argv[1], int(sys.argv[2])
def connect():
    context = ssl.create_default_context(cafile=dir + '/ca.pem')
    context.load_cert_chain(dir + '/alice.pem', dir + '/alice.key')
    made = http.client.HTTPSConnection('localhost', port, context=context, timeout=20)
    made.connect()
    return made
def names(c): return [name for _, name in c.sock.getpeercert()['subjectAltName']]
def ask(c):
    c.request('GET', '/healthz')
    answer = c.getresponse()
    answer.read()
    assert answer.status == 200
def wait(what, holds):
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)
first = connect(); ask(first)
assert 'second.example' not in names(first)
os.rename(dir + '/next.key', dir + '/server.key')
os.rename(dir + '/next.pem', dir + '/server.pem')
wait('the new certificate is shown', lambda: 'second.example' in names(connect()))
ask(first)
open(dir + '/server.pem', 'w').write('garbage')
log = open(sys.argv[3])
def warned():
    ask(connect())
    return 'server.pem holds no certificate' in log.read()
wait('the log names the broken file', warned)
ask(first)
assert 'second.example' in names(connect())
";
    let log = world.agent_dir(&shout.id).join("log").display().to_string();
    let args = ["-c", script, &dir.display().to_string(), &shout.port.to_string(), &log];
    Ran::new(&["python"], world.prepare(Command::new(python()), &args).output().unwrap()).ok();
}

#[test]
fn what_cannot_work_or_would_not_be_safe_does_not_start() {
    let world = world();
    let dir = certs(&world);
    let d = dir.display();
    std::fs::copy(dir.join("server.key"), dir.join("open.key")).unwrap();
    std::fs::set_permissions(dir.join("open.key"), PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::write(dir.join("garbage.pem"), "-----BEGIN CERTIFICATE-----\nnonsense").unwrap();
    std::fs::set_permissions(dir.join("garbage.pem"), PermissionsExt::from_mode(0o600)).unwrap();
    let table: [(&str, &[&str]); 10] = [
        (
            "--listen 0.0.0.0",
            &["0.0.0.0 can be reached", "--tls-cert", "synapse keys certs make", "--insecure"],
        ),
        ("--listen ::", &["--insecure"]),
        ("--tls-cert D/server.pem", &["--tls-cert was given without --tls-key"]),
        ("--client-ca D/ca.pem", &["--tls-cert"]),
        ("--tls-cert D/server.pem --tls-key D/alice.key", &["alice.key does not belong to the certificate"]),
        ("--tls-cert D/server.pem --tls-key D/open.key", &["chmod 600", "open.key"]),
        ("--tls-cert D/garbage.pem --tls-key D/server.key", &["garbage.pem is damaged"]),
        ("--tls-cert D/server.pem --tls-key D/server.pem", &["server.pem holds no private key"]),
        ("--tls-cert D/none.pem --tls-key D/server.key", &["none.pem cannot be read"]),
        ("--tls-cert D/server.pem --tls-key D/server.key --client-ca D/garbage.pem", &["garbage.pem"]),
    ];
    for (flags, words) in table {
        let flags = flags.replace('D', &d.to_string());
        let args = ["run", "--detach", "--name", "never", "--exec", "cat"];
        let args: Vec<&str> = args.into_iter().chain(flags.split(' ')).collect();
        world.synapse(&args).fails(1, words);
    }
    assert!(world.registry().is_empty());

    let [cert, key] = ["server.pem", "server.key"].map(|name| file(&dir, name));
    // A fixed port: the next node must have it too.
    let port = world.port();
    let safe = [
        "--port",
        &port,
        "--listen",
        "0.0.0.0",
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
        "--host",
        "box.example",
    ];
    let open = world.run("open", "cat", &safe);
    assert_eq!(world.entry("open").unwrap()["endpoint"], format!("https://box.example:{}", open.port));
    // The agent listens on all local addresses, not only on the default one.
    let port = open.port;
    let call = format!(
        "curl -sS --cacert {d}/ca.pem --connect-to localhost:{port}:127.0.0.2:{port} https://localhost:{port}/healthz"
    );
    assert_eq!(sh(&world, &call).ok().out(), "ok");
    let by_host = |host: &str| {
        let call = format!("curl -sS --cacert {d}/ca.pem -H 'Host: {host}' https://localhost:{port}/healthz");
        sh(&world, &call).ok().out()
    };
    assert_eq!(by_host(&format!("box.example:{port}")), "ok");
    assert!(by_host(&format!("evil.example:{port}")).contains("bad_origin"));
    world.kill_node("open");
    assert_eq!(sh(&world, &call).ok().out(), "ok", "the next node is as the one before");
    world.run("plain", "cat", &["--listen", "0.0.0.0", "--insecure"]);
}

#[test]
fn plain_http_on_a_tls_port_is_told_so() {
    let world = world();
    let dir = certs(&world);
    let shout = run_strict(&world, &dir);
    let answer = shout.tcp().ask("GET", "/status", &[], b"");
    assert_eq!((answer.status, answer.code().as_str()), (400, "tls_required"), "{}", answer.text());
    // Garbage does not disturb the port.
    for bytes in [&b"\x00\x01\x02"[..], b"\x16\x03\x01\xff\xff garbage", b"SSH-2.0-x\r\n", &[0x80; 3000]] {
        let mut stream = TcpStream::connect(("127.0.0.1", shout.port)).unwrap();
        stream.write_all(bytes).unwrap();
    }
    let d = dir.display();
    let call = format!(
        "curl -sS --cacert {d}/ca.pem --cert {d}/alice.pem --key {d}/alice.key https://localhost:{}/healthz",
        shout.port
    );
    assert_eq!(sh(&world, &call).ok().out(), "ok");
    world.wait_until("REST-9: those who were sent away are written down", || {
        let told = world.ok(&["audit", "--verb", "connect", "--refused"]);
        told.contains("handshake_failed") && told.contains("from 127.0.0.1")
    });
}

/// More half-open handshakes than the limit: the oldest are dropped, and honest callers get
/// through.
#[test]
fn half_open_handshakes_keep_nobody_out() {
    const HALF_OPEN: usize = 300;
    let world = world();
    let dir = certs(&world);
    let shout = run_strict(&world, &dir);
    let mut open = Vec::new();
    for n in 0..HALF_OPEN {
        let mut stream = TcpStream::connect(("127.0.0.1", shout.port)).unwrap();
        // A third sends nothing, a third starts a record, a third starts a handshake.
        let begun: [&[u8]; 3] = [b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"];
        stream.write_all(begun[n % 3]).unwrap();
        open.push(stream);
    }
    let d = dir.display();
    let call = format!(
        "curl -sS --max-time 9 --cacert {d}/ca.pem --cert {d}/alice.pem --key {d}/alice.key https://localhost:{}/healthz",
        shout.port
    );
    for _ in 0..5 {
        assert_eq!(sh(&world, &call).ok().out(), "ok");
    }
    let metrics = shout.get("/metrics").text();
    let line = metrics.lines().find(|line| line.starts_with("synapse_tls_handshakes_failed_total")).unwrap();
    let failed: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(failed >= HALF_OPEN - 128, "only so many at once: {line}");
    drop(open);
}

/// REST-4, REST-8: the user's settings map a name in a certificate to a caller with a role, also
/// while the node runs.
#[test]
fn a_certificate_that_the_settings_name_is_a_caller_with_rights() {
    let world = world();
    let dir = certs(&world);
    let agent = run_strict(&world, &dir);
    let message = format!(
        "curl -sS --cacert {0}/ca.pem --cert {0}/alice.pem --key {0}/alice.key -d '{{\"message\": \"hello\"}}' https://localhost:{1}/message",
        dir.display(),
        agent.port
    );
    let refused = sh(&world, &message).ok();
    assert!(refused.stdout.contains("tls.identities") && refused.stdout.contains("alice"), "{refused}");
    let [ca, cert, key] = ["ca.pem", "server.pem", "server.key"].map(|name| file(&dir, name));
    let settings = format!(
        "{{ \"tls\": {{ \"cert\": {cert:?}, \"key\": {key:?}, \"client_ca\": {ca:?}, \"identities\": {{ \"alice\": {{ \"role\": \"Developer\" }} }} }} }}"
    );
    std::fs::write(world.home().join("settings.json"), settings).unwrap();
    std::fs::set_permissions(world.home().join("settings.json"), PermissionsExt::from_mode(0o600)).unwrap();
    world.wait_until("the new settings are followed", || sh(&world, &message).stdout.contains("\"stored\""));
    let told = world.ok(&["history", "shout"]);
    assert!(told.contains("alice"), "{told}");
}
