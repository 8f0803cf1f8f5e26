//! Real CLIs with a mock of their model: the time from `synapse send` to the request to the model,
//! and from the end of the model's answer to the printed one.

use super::Times;
use crate::bench::Bench;
use crate::bench::report::Row;
use crate::real_agents::speed::{self, CliSpeed};

const REQUEST_MS_MAX: f64 = 300.0;
const ANSWER_MS_MAX: f64 = 300.0;
const SENDS: usize = 10;

pub(in crate::bench) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let sends = bench.wish.sends.unwrap_or(bench.pick(SENDS, 2));
    let all = speed::measure(&bench.root, bench.stage.synapse(), sends)?;
    Ok(all.iter().flat_map(rows).collect())
}

fn rows(cli: &CliSpeed) -> [Row; 2] {
    let [request, written, submitted, answer, idle] =
        [&cli.request_ms, &cli.written_ms, &cli.submitted_ms, &cli.answer_ms, &cli.idle_ms]
            .map(|times| Times(times.clone()));
    let row = |what: &str, times: &Times, bar: f64| {
        Row::at_most(format!("{}: {what}, p50", cli.name), times.at(0.5), "ms", bar)
            .beside("p90", times.at(0.9), "ms")
            .beside("best", times.at(0.0), "ms")
            .beside("of the bar", times.at(0.5) / bar, "×")
    };
    let sent = row("`send` to the model's request", &request, REQUEST_MS_MAX)
        .beside("accepted to written p50", written.at(0.5), "ms")
        .beside("to submitted p50", submitted.at(0.5), "ms");
    let answered = row("end of the model's answer to the printed answer", &answer, ANSWER_MS_MAX).beside(
        "to idle p50",
        idle.at(0.5),
        "ms",
    );
    match &cli.failed {
        Some(why) => [sent.without(why), answered.without(why)],
        None => [sent, answered],
    }
}
