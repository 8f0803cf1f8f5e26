//! The cost of TLS: requests on a TLS connection compared with the same on a plain one, and
//! handshakes.
//!
//! Both ends use certificates. Measured is the node's CPU time, in alternating rounds, so that a
//! busy machine affects both alike.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use synapse_tls::client::{self, ClientFiles};
use tokio_rustls::rustls::ClientConfig;

use super::client::{Ask, Door, Line, Round, Until};
use super::report::{Row, median};
use super::{Bench, proc};

/// 0.05 ms.
const EXTRA_US_MAX: f64 = 50.0;
const CONNECTIONS: usize = 16;
const ROUNDS: usize = 5;
const MB: f64 = (1 << 20) as f64;

pub(super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    bench.stage.must(&["certs", "make", "--client", "bench"])?;
    let certs = bench.stage.certs();
    let file = |name: &str| certs.join(name);
    let [cert, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|name| file(name).display().to_string());
    bench.stage.start("plain")?;
    let flags = ["--tls-cert", &cert, "--tls-key", &key, "--client-ca", &ca];
    let mut secured = vec!["run", "--detach", "--name", "secured", "--exec", "cat"];
    secured.extend(flags);
    bench.stage.must(&secured)?;
    let plain = bench.stage.wait_for("plain", |_| true)?;
    let secured = bench.stage.wait_for("secured", |_| true)?;
    let idle = [plain.node_pid, secured.node_pid].map(proc::private_bytes);
    let files =
        ClientFiles { ca: Some(file("ca.pem")), cert: Some(file("bench.pem")), key: Some(file("bench.key")) };
    let config = client::config(&files)?;

    let span = bench.pick(Duration::from_secs(2), Duration::from_millis(500));
    let (mut without, mut with, mut p99) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(load(Door::Tcp(plain.port), plain.node_pid, span)?.0);
        let (us, latency) = load(Door::Tls(secured.port, config.clone()), secured.node_pid, span)?;
        with.push(us);
        p99.push(latency);
    }
    let (without, with) = (median(&without), median(&with));
    let shaken = handshakes(secured.port, &config, secured.node_pid, 2 * span)?;
    let [plain_bytes, secured_bytes] = idle;
    Ok(vec![
        Row::at_most("mTLS adds to GET /status, CPU of the node", with - without, "µs", EXTRA_US_MAX)
            .beside("with", with, "µs")
            .beside("without", without, "µs")
            .beside("p99 with", median(&p99), "ms"),
        Row::told("full handshakes with client certificates", shaken.per_second, "/s").beside(
            "CPU of the node for each",
            shaken.cpu_ms,
            "ms",
        ),
        Row::told("idle node with mTLS, private memory", secured_bytes? as f64 / MB, "MB").beside(
            "without",
            plain_bytes? as f64 / MB,
            "MB",
        ),
    ])
}

/// Returns the node's CPU time per request in microseconds, and the 99th percentile of the latency
/// in milliseconds.
fn load(door: Door, node: u32, span: Duration) -> anyhow::Result<(f64, f64)> {
    let round = Round { door, connections: CONNECTIONS, ask: Ask::Status, until: Until::Elapsed(span) };
    let mut before = Duration::ZERO;
    let mut tally = round.run(|| {
        before = proc::cpu_of(node)?;
        Ok(())
    })?;
    let spent = proc::cpu_of(node)? - before;
    anyhow::ensure!(tally.answered > 0, "no answers");
    Ok((spent.as_secs_f64() * 1e6 / tally.answered as f64, tally.latency_ms(0.99)))
}

struct Shaken {
    per_second: f64,
    cpu_ms: f64,
}

/// Opens connections one after another on a few lines. Each makes a request, since only a response
/// proves that the server accepted our certificate.
fn handshakes(port: u16, config: &Arc<ClientConfig>, node: u32, span: Duration) -> anyhow::Result<Shaken> {
    const LINES: usize = 4;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (began, before) = (Instant::now(), proc::cpu_of(node)?);
    let count = runtime.block_on(async {
        let lines = (0..LINES).map(|_| {
            let door = Door::Tls(port, config.clone());
            tokio::spawn(async move {
                let request = format!("GET /healthz HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
                let mut count = 0_u64;
                while began.elapsed() < span {
                    Line::connect(&door).await?.ask(request.as_bytes()).await?;
                    count += 1;
                }
                anyhow::Ok(count)
            })
        });
        let mut count = 0;
        for line in lines.collect::<Vec<_>>() {
            count += line.await.context("a line of handshakes")??;
        }
        anyhow::Ok(count)
    })?;
    anyhow::ensure!(count > 0, "no handshakes");
    let spent = proc::cpu_of(node)? - before;
    Ok(Shaken {
        per_second: count as f64 / began.elapsed().as_secs_f64(),
        cpu_ms: spent.as_secs_f64() * 1e3 / count as f64,
    })
}
