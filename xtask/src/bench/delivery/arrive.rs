//! From the start of the sender to the first byte at an idle program, compared with hcom and
//! Synapse A2A in the same run.
//!
//! The messages of all contenders alternate in rounds, so that other work on the machine affects
//! all of them. Shorter paths show where the time goes: a process that only prints its version, and
//! the same message on an open connection.

use super::hcom::Hcom;
use super::ours::Ours;
use super::synapse_a2a::SynapseA2a;
use super::{Times, ours};
use crate::bench::report::Row;
use crate::bench::{Bench, commands};

/// The minimum of hcom's time divided by ours.
const HCOM_RATIO_MIN: f64 = 1.0;
const A2A_RATIO_MIN: f64 = 10.0;
const OURS_PER_ROUND: usize = 10;
/// The explaining measurements need fewer messages.
const EXPLAINED_PER_ROUND: usize = 5;
const HCOM_PER_ROUND: usize = 3;
const A2A_PER_ROUND: usize = 2;

#[derive(Default)]
struct Found {
    /// `synapse send`.
    sent: Way,
    /// The same, waiting for the proof of delivery.
    proven: Way,
    /// A request on an open connection.
    posted: Way,
    trigger: Times,
    body: Times,
    a2a: Way,
    /// Measured once, because it takes seconds.
    a2a_command: Option<f64>,
}

#[derive(Default)]
struct Way {
    first: Times,
    enter: Times,
    told: Times,
}

impl Way {
    fn push(&mut self, arrival: ours::Arrival) {
        self.first.push(arrival.first);
        self.enter.push(arrival.enter);
        self.told.push(arrival.told);
    }
}

pub(in crate::bench) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    // With the pause before Enter that our profiles have.
    let mut ours = Ours::start(bench, "arrive", "{}", &[])?;
    let mut post = ours.open()?;
    let (mut hcom, mut a2a) = (Hcom::start(bench), SynapseA2a::start(bench));
    let mut found = Found::default();
    // The first round is the warm-up.
    for round in 0..=bench.pick(10, 1) {
        let mut one = Found::default();
        for n in 0..OURS_PER_ROUND {
            one.sent.push(ours.send(&[])?);
            if n < EXPLAINED_PER_ROUND {
                one.proven.push(ours.send(&["--wait-for", "submitted"])?);
                one.posted.push(ours.post(&mut post)?);
            }
        }
        rival(&mut hcom, |hcom| one.ask_hcom(hcom));
        rival(&mut a2a, |a2a| one.ask_a2a(a2a));
        if round > 0 {
            found.add(one);
        }
    }
    if let Ok(a2a) = &mut a2a {
        match a2a.send() {
            Ok(arrival) => found.a2a_command = Some(arrival.enter),
            Err(error) => eprintln!("not measured beside: {error:#}"),
        }
    }
    let version = commands::median_of(50, || bench.stage.command(&["--version"]))?;
    let (hcom, a2a) = (hcom.err(), a2a.err());
    let mut rows = vec![found.beside_hcom(hcom), found.beside_a2a(a2a)];
    rows.extend(found.ours(version.wall_ms));
    Ok(rows)
}

/// If a rival fails, records the reason and does not ask it again. Our measurement continues.
fn rival<T>(rival: &mut anyhow::Result<T>, ask: impl FnOnce(&mut T) -> anyhow::Result<()>) {
    if let Ok(one) = rival
        && let Err(error) = ask(one)
    {
        *rival = Err(error);
    }
}

impl Found {
    fn ask_hcom(&mut self, hcom: &mut Hcom) -> anyhow::Result<()> {
        for _ in 0..HCOM_PER_ROUND {
            let arrival = hcom.send()?;
            self.trigger.push(arrival.trigger);
            self.body.push(arrival.body);
        }
        Ok(())
    }

    fn ask_a2a(&mut self, a2a: &mut SynapseA2a) -> anyhow::Result<()> {
        for _ in 0..A2A_PER_ROUND {
            let arrival = a2a.post()?;
            self.a2a.first.push(arrival.first);
            self.a2a.enter.push(arrival.enter);
        }
        Ok(())
    }

    fn add(&mut self, one: Self) {
        for (all, some) in [
            (&mut self.sent, one.sent),
            (&mut self.proven, one.proven),
            (&mut self.posted, one.posted),
            (&mut self.a2a, one.a2a),
        ] {
            all.first.0.extend(some.first.0);
            all.enter.0.extend(some.enter.0);
            all.told.0.extend(some.told.0);
        }
        self.trigger.0.extend(one.trigger.0);
        self.body.0.extend(one.body.0);
    }

    fn beside_hcom(&self, missing: Option<anyhow::Error>) -> Row {
        const NAME: &str = "hcom's `send` to the text at the program ÷ ours to the first byte, p50";
        if let Some(why) = missing {
            return Row::missing(NAME, "×", HCOM_RATIO_MIN, format!("{why:#}"));
        }
        let first = &self.sent.first;
        Row::at_least(NAME, self.body.at(0.5) / first.at(0.5).max(1e-6), "×", HCOM_RATIO_MIN)
            .beside("ours p50", first.at(0.5), "ms")
            .beside("p99", first.at(0.99), "ms")
            .beside("hcom p50", self.body.at(0.5), "ms")
            .beside("hcom p99", self.body.at(0.99), "ms")
            .beside("hcom's trigger p50", self.trigger.at(0.5), "ms")
    }

    fn beside_a2a(&self, missing: Option<anyhow::Error>) -> Row {
        const NAME: &str = "Synapse A2A's HTTP request to the first byte at the program ÷ ours, p50";
        if let Some(why) = missing {
            return Row::missing(NAME, "×", A2A_RATIO_MIN, format!("{why:#}"));
        }
        let ratio = |theirs: &Times, ours: &Times| theirs.at(0.5) / ours.at(0.5).max(1e-6);
        let row = Row::at_least(NAME, ratio(&self.a2a.first, &self.posted.first), "×", A2A_RATIO_MIN)
            .beside("its request to Enter p50", self.a2a.enter.at(0.5), "ms")
            .beside("to its first byte p50", self.a2a.first.at(0.5), "ms")
            .beside("both requests to Enter", ratio(&self.a2a.enter, &self.posted.enter), "×");
        match self.a2a_command {
            Some(ms) => row.beside("its own `send` to Enter", ms, "ms"),
            None => row,
        }
    }

    fn ours(&self, version_ms: f64) -> Vec<Row> {
        let row =
            |name: &str, times: &Times| {
                Row::told(format!("{name}, p50"), times.at(0.5), "ms")
                    .beside("p99", times.at(0.99), "ms")
                    .beside("best", times.at(0.0), "ms")
            };
        vec![
            row("`synapse send` to the first byte at the program", &self.sent.first),
            row("`synapse send --wait-for submitted` to the proof told", &self.proven.told).beside(
                "to Enter at the program p50",
                self.proven.enter.at(0.5),
                "ms",
            ),
            row("a request on an open connection to the first byte", &self.posted.first)
                .beside("to stored p50", self.posted.told.at(0.5), "ms")
                .beside("`synapse send` to stored and ended", self.sent.told.at(0.5), "ms")
                .beside("`synapse --version`", version_ms, "ms"),
        ]
    }
}
