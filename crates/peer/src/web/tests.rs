//! The client against real servers on this machine that answer badly, slowly, too much, or elsewhere.

use super::dial::Lookup;
use super::*;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use synapse_store::files::create_private;
use synapse_tls::make::{Authority, Span};
use synapse_tls::{Server, ServerFiles};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// How a server goes on when it has read the request.
#[derive(Clone, Copy)]
enum Way {
    Says(&'static [u8]),
    /// Says this, and then nothing more for ever.
    SaysAndWaits(&'static [u8]),
    /// Says this, and then `a` without an end.
    Floods(&'static [u8]),
    /// Says this to whoever comes, and hangs up.
    Greets(&'static [u8]),
    /// Sends back what it was sent.
    Echoes,
}

struct Site {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
}

impl Site {
    async fn open(way: Way) -> Self {
        Self::with_tls(way, None).await
    }

    async fn with_tls(way: Way, tls: Option<Arc<Server>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let tls = tls.clone();
                tokio::spawn(async move {
                    match tls {
                        None => answer(stream, way).await,
                        Some(server) => {
                            let config = server.current(std::time::Instant::now()).config.clone();
                            if let Ok(stream) = tokio_rustls::TlsAcceptor::from(config).accept(stream).await {
                                answer(stream, way).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, calls }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, way: Way) {
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    if let Way::Greets(words) = way {
        let _ = stream.write_all(words).await;
        let _ = stream.read(&mut piece).await;
        return;
    }
    // Up to the end of the head; the bodies here are small enough to come with it, or of no interest.
    while !got.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(n) if n > 0 => got.extend_from_slice(&piece[..n]),
            _ => return,
        }
    }
    match way {
        Way::Says(words) | Way::Greets(words) => drop(stream.write_all(words).await),
        Way::SaysAndWaits(words) => {
            let _ = stream.write_all(words).await;
            let _ = stream.read(&mut piece).await;
        }
        Way::Floods(words) => {
            let _ = stream.write_all(words).await;
            while stream.write_all(&[b'a'; 4096]).await.is_ok() {}
        }
        Way::Echoes => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", got.len());
            let _ = stream.write_all(&[head.as_bytes(), &got].concat()).await;
        }
    }
    let _ = stream.shutdown().await;
}

fn near() -> Client {
    Client::new(Options { rules: Rules { reach: Reach::Private, plain_http: false }, ..Options::default() })
}

fn impatient() -> Limits {
    let short = Duration::from_millis(200);
    Limits { connect: Duration::from_secs(5), whole: short, quiet: short, answer_bytes_max: 10_000 }
}

fn request(url: &str, limits: Limits) -> Request {
    Request { limits, ..Request::get(url) }
}

#[tokio::test]
async fn a_call_says_what_it_was_told_to_and_where() {
    let site = Site::open(Way::Echoes).await;
    let call = Request::post(&site.url("/a/b?c=d#e"), "application/a2a+json", "{}");
    let call = call.header("authorization", "Bearer s3cr3t", true).unwrap();
    assert!(!format!("{call:?}").contains("s3cr3t"));
    let answer = near().fetch(call).await.unwrap().success().unwrap();
    let heard = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(heard.starts_with("POST /a/b?c=d HTTP/1.1\r\n"), "{heard}");
    for line in [
        &format!("host: {}", site.address),
        "authorization: Bearer s3cr3t",
        "content-type: application/a2a+json",
        "content-length: 2",
        "connection: close",
    ] {
        assert!(heard.contains(&format!("\r\n{line}\r\n")), "{line} in {heard}");
    }
    let split = Request::get(&site.url("/")).header("x-token", "a\r\nx-evil: 1", true);
    assert_eq!(split.unwrap_err().code(), "request_invalid");
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let site = Site::open(Way::Says(
        b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
    ))
    .await;
    let answer = near().fetch(Request::get(&site.url("/"))).await.unwrap();
    assert_eq!(answer.status, 302);
    let error = answer.success().unwrap_err();
    assert!(
        matches!(&error, WebError::Redirected { to: Some(to), .. } if to.contains("169.254")),
        "{error:?}"
    );
    assert!(!error.is_passing() && error.code() == "redirect_refused");
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn answers_that_are_no_good_have_names() {
    let table: &[(&str, Way)] = &[
        ("too_large", Way::Floods(b"HTTP/1.1 200 OK\r\n\r\n")),
        // What it promises is not believed.
        ("too_large", Way::Floods(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4e20\r\n")),
        ("too_large", Way::Floods(b"HTTP/1.1 200 OK\r\nx-long: ")),
        ("timeout", Way::SaysAndWaits(b"")),
        ("timeout", Way::SaysAndWaits(b"HTTP/1.1 200 OK\r\n")),
        ("timeout", Way::SaysAndWaits(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhal")),
        ("dropped", Way::Says(b"")),
        ("dropped", Way::Says(b"HTTP/1.1 200 OK\r\n")),
        ("dropped", Way::Says(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhal")),
        ("not_http", Way::Says(b"220 mail.example.org ESMTP\r\n")),
    ];
    for (index, (code, way)) in table.iter().enumerate() {
        let site = Site::open(*way).await;
        let limits = Limits {
            whole: if *code == "timeout" { impatient().whole } else { Duration::from_secs(20) },
            ..impatient()
        };
        let error = near().fetch(request(&site.url("/"), limits)).await.expect_err(code);
        assert_eq!(error.code(), *code, "row {index}: {error}");
        assert!(error.to_string().contains(&site.address.to_string()), "{error}");
    }
}

#[tokio::test]
async fn nobody_there_is_a_passing_trouble() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = near().fetch(Request::get(&format!("http://{address}/"))).await.unwrap_err();
    assert!(error.code() == "unreachable" && error.is_passing(), "{error}");
}

#[tokio::test]
async fn a_private_target_is_not_called_by_a_public_client() {
    let site = Site::open(Way::Echoes).await;
    let port = site.address.port();
    for host in
        ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0177.0.0.1", "127.1"]
    {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{port}/");
            let error = Client::new(Options::default()).fetch(Request::get(&url)).await.expect_err(&url);
            assert!(matches!(error, WebError::Target(_)), "{url}: {error}");
        }
    }
    assert_eq!(site.calls(), 0);
}

/// A name of the public kind, whatever it leads to.
fn leading_to(addresses: &[&str], rules: Rules) -> Client {
    let addresses = addresses.iter().map(|raw| raw.parse::<IpAddr>().unwrap()).collect();
    Client { lookup: Lookup::Fixed(addresses), ..Client::new(Options { rules, ..Options::default() }) }
}

#[tokio::test]
async fn a_name_is_judged_by_every_address_it_has() {
    let site = Site::open(Way::Echoes).await;
    let plain = Rules { reach: Reach::Public, plain_http: true };
    let url = format!("http://hook.example.org:{}/", site.address.port());
    for addresses in
        [&["127.0.0.1"][..], &["::1"], &["8.8.8.8", "10.0.0.1"], &["::ffff:127.0.0.1"], &["169.254.169.254"]]
    {
        let client = leading_to(addresses, plain);
        for error in [
            client.fetch(Request::get(&url)).await.expect_err(&url),
            client.check_name(&url, Limits::default()).await.expect_err(&url),
        ] {
            assert_eq!(error.code(), "address_blocked", "{addresses:?}: {error}");
            assert!(error.to_string().contains("hook.example.org"), "{error}");
        }
    }
    assert_eq!(site.calls(), 0);
    // The system's own answer for a name that is this machine.
    let local = format!("http://localhost:{}/", site.address.port());
    let heard = near().fetch(Request::get(&local)).await.unwrap();
    assert_eq!((heard.status.as_u16(), site.calls()), (200, 1));
}

#[tokio::test]
async fn a_stream_comes_in_pieces_and_has_its_patience() {
    let site = Site::open(Way::SaysAndWaits(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n",
    ))
    .await;
    let mut stream = near().stream(request(&site.url("/"), impatient())).await.unwrap().success().unwrap();
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "data: 1\n\n");
    let error = stream.chunk().await.unwrap_err();
    assert!(matches!(error, WebError::Slow { wait: Wait::Piece, .. }), "{error}");

    let flood = Site::open(Way::Floods(b"HTTP/1.1 200 OK\r\n\r\n")).await;
    let mut stream = near().stream(request(&flood.url("/"), impatient())).await.unwrap();
    let error = loop {
        match stream.chunk().await {
            Ok(piece) => assert!(piece.is_some()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), "too_large");
}

#[tokio::test]
async fn a_server_has_to_prove_the_name_in_the_url() {
    let dir = tempfile::tempdir().unwrap();
    let span = Span::days(synapse_tls::now_s(), 1);
    let authority = Authority::make("test authority", span).unwrap();
    let pair = authority.server(&["hook.example.org".to_owned()], span).unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        create_private(&path, text.as_bytes()).unwrap();
        path
    };
    let files = ServerFiles { cert: file("cert", &pair.cert), key: file("key", &pair.key), client_ca: None };
    let site = Site::with_tls(Way::Echoes, Some(Arc::new(Server::load(files).unwrap()))).await;
    let rules = Rules { reach: Reach::Private, plain_http: false };
    let tls = ClientFiles { ca: Some(file("ca", authority.cert_pem())), ..ClientFiles::default() };
    let client =
        Client { lookup: Lookup::Fixed(vec![site.address.ip()]), ..Client::new(Options { rules, tls }) };
    let port = site.address.port();
    let heard = client.fetch(Request::get(&format!("https://hook.example.org:{port}/"))).await.unwrap();
    let heard = String::from_utf8(heard.body.to_vec()).unwrap();
    assert!(heard.contains(&format!("host: hook.example.org:{port}\r\n")), "{heard}");
    let error = client.fetch(Request::get(&format!("https://other.example.org:{port}/"))).await.unwrap_err();
    assert_eq!(error.code(), "wrong_host", "{error}");
    let plain = Site::open(Way::Greets(b"HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    let url = format!("https://hook.example.org:{}/", plain.address.port());
    let error = client.fetch(Request::get(&url)).await.unwrap_err();
    assert_eq!(error.code(), "not_tls", "{error}");
}
