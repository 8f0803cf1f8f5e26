//! When TLS trust fails, our client names the specific reason and a hint (REST-8).

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use synapse_testkit::{Agent, World};
use synapse_tls::make::{Authority, Pair, Span, self_signed};
use synapse_tls::now_s;

struct Scene {
    world: World,
    authority: Authority,
    span: Span,
}

fn scene() -> Scene {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let span = Span::days(now_s(), 1);
    let authority = Authority::make("Test authority", span).unwrap();
    world.write("ca.pem", authority.cert_pem());
    Scene { world, authority, span }
}

impl Scene {
    fn put(&self, name: &str, pair: &Pair) -> [String; 2] {
        let path = |end: &str| -> PathBuf { self.world.file(&format!("{name}.{end}")) };
        for (end, text) in [("pem", &pair.cert), ("key", &pair.key)] {
            std::fs::write(path(end), text).unwrap();
            std::fs::set_permissions(path(end), PermissionsExt::from_mode(0o600)).unwrap();
        }
        ["pem", "key"].map(|end| path(end).display().to_string())
    }

    fn serve(&self, name: &str, pair: &Pair, more: &[&str]) -> Agent {
        let [cert, key] = self.put(name, pair);
        let mut args = vec!["--tls-cert", &cert, "--tls-key", &key];
        args.extend(more);
        self.world.run(name, "cat", &args)
    }

    /// Calls the URL and expects a failure with this code and these words.
    #[track_caller]
    fn fails(&self, url: &str, more: &[&str], code: &str, words: &[&str]) {
        let mut args = vec!["status", url];
        args.extend(more);
        self.world.synapse(&args).fails(1, words);
        args.push("--json");
        let ran = self.world.synapse(&args).exits(1);
        let told: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(told["error"]["code"], code, "{ran}");
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// E12.
#[test]
fn a_server_that_does_not_prove_its_name_is_not_spoken_to() {
    let scene = scene();
    let late = Span { from_s: now_s() - 9_000, to_s: now_s() - 60 };
    let early = Span { from_s: now_s() + 9_000, to_s: now_s() + 90_000 };
    let local = names(&["localhost"]);
    let good = scene.serve("good", &scene.authority.server(&local, scene.span).unwrap(), &[]);
    let good = format!("https://localhost:{}", good.port);
    let ca = ["--ca", "ca.pem"];
    scene.world.ok(&["status", &good, "--ca", "ca.pem"]);

    let cases = [
        ("expired", scene.authority.server(&local, late), "certificate_expired", "has expired"),
        ("early", scene.authority.server(&local, early), "certificate_not_yet_valid", "clocks"),
        (
            "elsewhere",
            scene.authority.server(&names(&["other.example"]), scene.span),
            "wrong_host",
            "other.example",
        ),
        ("alone", self_signed(&local, scene.span), "unknown_issuer", "not made by the authority in ca.pem"),
    ];
    for (name, pair, code, words) in cases {
        let agent = scene.serve(name, &pair.unwrap(), &[]);
        scene.fails(&format!("https://localhost:{}", agent.port), &ca, code, &[words]);
    }
    // An authority with the same name but another key.
    let double = Authority::make("Test authority", scene.span).unwrap().server(&local, scene.span).unwrap();
    let double = scene.serve("double", &double, &[]);
    scene.fails(&format!("https://localhost:{}", double.port), &ca, "unknown_issuer", &["ca.pem"]);

    // Without --ca the system's authorities apply, and ours is not among them until the system
    // lists it.
    let mut command = scene.world.command(&["status", &good]);
    let ran = command.env("SSL_CERT_FILE", scene.world.file("alone.pem")).output().unwrap();
    assert!(String::from_utf8_lossy(&ran.stderr).contains("--ca FILE"), "{ran:?}");
    let mut command = scene.world.command(&["status", &good]);
    assert!(command.env("SSL_CERT_FILE", scene.world.file("ca.pem")).status().unwrap().success());
    scene.world.synapse(&["status", &good, "--ca", "none.pem"]).fails(2, &["none.pem cannot be read"]);
}

#[test]
fn a_server_that_does_not_know_us_says_why() {
    let scene = scene();
    let pair = scene.authority.server(&names(&["localhost"]), scene.span).unwrap();
    let ca = scene.world.file("ca.pem").display().to_string();
    let strict = scene.serve("strict", &pair, &["--client-ca", &ca]);
    let url = format!("https://localhost:{}", strict.port);
    let late = Span { from_s: now_s() - 9_000, to_s: now_s() - 60 };
    scene.put("alice", &scene.authority.client("alice", scene.span).unwrap());
    scene.put("late", &scene.authority.client("alice", late).unwrap());
    for (name, authority) in [("foreign", "Other"), ("double", "Test authority")] {
        let other = Authority::make(authority, scene.span).unwrap();
        scene.put(name, &other.client("alice", scene.span).unwrap());
    }

    let with = |name: &str| {
        ["--ca", "ca.pem", "--cert", &format!("{name}.pem"), "--key", &format!("{name}.key")]
            .map(str::to_owned)
    };
    let cases = [
        ("late", "client_certificate_expired", "has expired"),
        ("foreign", "client_certificate_unknown", "its authority"),
        ("double", "client_certificate_unknown", "its authority"),
        // A server certificate is not valid for clients.
        ("strict", "client_certificate_refused", "certs show"),
    ];
    for (name, code, words) in cases {
        let flags = with(name);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        scene.fails(&url, &flags, code, &[words]);
    }
    scene.fails(&url, &["--ca", "ca.pem"], "client_certificate_required", &["--cert FILE --key FILE"]);
    let flags = with("alice");
    let flags: Vec<&str> = ["status", &url].into_iter().chain(flags.iter().map(String::as_str)).collect();
    scene.world.ok(&flags);

    let half = ["status", &url, "--ca", "ca.pem", "--cert", "alice.pem"];
    scene.world.synapse(&half).fails(2, &["--cert and --key"]);
    let mixed = ["status", &url, "--ca", "ca.pem", "--cert", "alice.pem", "--key", "late.key"];
    scene.world.synapse(&mixed).fails(2, &["late.key does not belong"]);
}

#[test]
fn a_server_that_speaks_otherwise_is_told_apart() {
    let scene = scene();
    let pair = scene.authority.server(&names(&["localhost"]), scene.span).unwrap();
    let tls = scene.serve("tls", &pair, &[]);
    let plain = scene.world.run("plain", "cat", &[]);
    let ca = ["--ca", "ca.pem"];
    scene.fails(
        &format!("https://localhost:{}", plain.port),
        &ca,
        "not_tls",
        &["does not speak TLS", "http://"],
    );
    let to_tls = scene.world.synapse(&["status", &format!("http://localhost:{}", tls.port)]);
    to_tls.fails(2, &["speaks TLS", "https://"]);
    scene.world.ok(&["status", &format!("http://localhost:{}", plain.port)]);

    // A server that hangs up, and one that does not speak TLS.
    for (said, code) in [(&b""[..], "hung_up"), (b"220 mail ready\r\n", "not_tls")] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            for stream in listener.incoming().flatten() {
                let mut stream = stream;
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(said);
            }
        });
        scene.fails(&url, &ca, code, &[]);
    }
    for (url, words) in [
        ("https://me:secret@localhost:1", "--token-file"),
        ("https://localhost:1/path", "port 1 belongs to another protocol"),
        ("ftp://localhost:1", "https://HOST:PORT"),
    ] {
        let ran = scene.world.synapse(&["send", url, "hi"]).fails(2, &[words]);
        assert!(!ran.stderr.contains("secret"), "{ran}");
    }
}
