//! The cost of a tool call: from the request line to the response line, over two pipes.
//!
//! Compared with `ping`, which is a bare round trip, and with the same message sent by a command.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};

use super::report::{Row, median};
use super::{Bench, commands};

const SEND_MS_MAX: f64 = 5.0;

pub(super) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let calls = bench.pick(1_000, 100);
    bench.stage.sink("reader")?;
    let mut server = Server::start(bench)?;
    server.ask("initialize", &json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" },
    }))?;
    let (mut sent, mut pinged) = (Vec::with_capacity(calls), Vec::with_capacity(calls));
    let send = json!({ "name": "send_message", "arguments": { "to": "reader", "message": "a message of no great length" } });
    for _ in 0..calls {
        let began = Instant::now();
        let told = server.ask("tools/call", &send)?;
        sent.push(began.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(told["result"]["structuredContent"]["status"] == "stored", "not stored: {told}");
        let began = Instant::now();
        server.ask("ping", &json!({}))?;
        pinged.push(began.elapsed().as_secs_f64() * 1e3);
    }
    drop(server);
    let command = || bench.stage.command(&["send", "reader", "a message of no great length"]);
    let command = commands::median_of(bench.pick(100, 20), command)?;
    Ok(vec![
        Row::at_most("MCP `send_message`, asked to stored", median(&sent), "ms", SEND_MS_MAX)
            .beside("`ping`", median(&pinged), "ms")
            .beside("`synapse send`", command.wall_ms, "ms"),
    ])
}

struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Server {
    fn start(bench: &Bench) -> anyhow::Result<Self> {
        let mut command = bench.stage.command(&["mcp", "serve"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("it was piped")?);
        Ok(Self { input: child.stdin.take(), output, child, asked: 0 })
    }

    fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.asked += 1;
        let line = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        let input = self.input.as_mut().context("its input is open")?;
        input.write_all(format!("{line}\n").as_bytes())?;
        loop {
            let mut told = String::new();
            anyhow::ensure!(self.output.read_line(&mut told)? > 0, "the server ended");
            let told: Value = serde_json::from_str(&told)?;
            if told["id"] == self.asked {
                return Ok(told);
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It exits when its input ends.
        self.input = None;
        let _ = self.child.wait();
    }
}
