//! What came of it: a table for people, JSON for programs.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::catalog::Cli;
use super::judge::Cell;

/// One CLI, once through all steps; or two of them, in one talk.
pub(super) struct Round {
    pub clis: Vec<&'static Cli>,
    pub n: usize,
    /// What was to be done.
    pub steps: Vec<&'static str>,
    pub grace_ms: u64,
    pub cells: Vec<Cell>,
    /// The folder with the recording, the log of the mock and the states.
    pub kept: PathBuf,
}

impl Round {
    pub fn is_good(&self) -> bool {
        self.cells.len() == self.steps.len() && self.cells.iter().all(Cell::is_good)
    }

    pub fn name(&self) -> String {
        match self.clis.as_slice() {
            [cli] => format!("{} {}", cli.name, cli.version),
            clis => clis.iter().map(|cli| cli.name).collect::<Vec<_>>().join(" to "),
        }
    }

    fn agreement(&self) -> f64 {
        let (right, samples) =
            self.cells.iter().fold((0, 0), |(r, s), cell| (r + cell.right, s + cell.samples));
        if samples == 0 { 0.0 } else { right as f64 / samples as f64 }
    }

    fn delays(&self) -> Vec<u64> {
        self.cells.iter().flat_map(|cell| cell.delays_ms.iter().copied()).collect()
    }
}

/// The middle one.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Rounds with the same steps stand below each other.
pub(super) fn table(version: &str, rounds: &[Round]) -> String {
    let mut text = format!("{version}\n");
    let mut rest: Vec<&Round> = rounds.iter().collect();
    while let Some(steps) = rest.first().map(|first| first.steps.clone()) {
        let (these, others) = rest.into_iter().partition::<Vec<_>, _>(|round| round.steps == steps);
        rows(&mut text, &steps, &these);
        rest = others;
    }
    for round in rounds.iter().filter(|round| !round.is_good()) {
        for cell in round.cells.iter().filter(|cell| !cell.is_good()) {
            let _ = writeln!(text, "\n✗ {}, {}: {}", round.name(), cell.step, cell.faults.join("; "));
        }
        let kept = round.kept.display();
        let _ = writeln!(text, "  recorded in {kept}");
        if let [cli] = round.clis.as_slice() {
            let _ = writeln!(
                text,
                "  again: synapse profile test {} --recording {kept}/session.cast --truth {kept}/session.json",
                cli.name
            );
        }
    }
    text
}

fn rows(text: &mut String, steps: &[&str], rounds: &[&Round]) {
    let _ = write!(text, "\n{:16} {:>5}", "CLI", "round");
    for step in steps {
        let _ = write!(text, "  {step:^10}");
    }
    let measured = rounds.iter().any(|round| round.cells.iter().any(|cell| cell.samples > 0));
    text.push_str(if measured { "  agreement  seen after (median, most)  grace\n" } else { "\n" });
    for round in rounds {
        let _ = write!(text, "{:16} {:>5}", round.name(), round.n);
        for step in steps {
            let cell = round.cells.iter().find(|cell| cell.step == *step);
            let mark = cell.map_or_else(|| "–".to_owned(), Cell::mark);
            let _ = write!(text, "  {mark:^10}");
        }
        if !measured {
            text.push('\n');
            continue;
        }
        let delays = round.delays();
        let most = delays.iter().max().copied().unwrap_or_default();
        let delays = format!("{} ms, {most} ms", median(delays));
        let agreement = format!("{:.1} %", 100.0 * round.agreement());
        let _ = writeln!(text, "  {agreement:>9}  {delays:>26}  {} ms", round.grace_ms);
    }
}

pub(super) fn json(version: &str, rounds: &[Round]) -> Value {
    let rounds: Vec<Value> = rounds
        .iter()
        .map(|round| {
            json!({
                "clis": round.clis.iter().map(|cli| cli.name).collect::<Vec<_>>(),
                "versions": round.clis.iter().map(|cli| cli.version).collect::<Vec<_>>(),
                "round": round.n, "good": round.is_good(),
                "agreement": round.agreement(), "grace_ms": round.grace_ms,
                "steps": round.cells.iter().map(Cell::json).collect::<Vec<_>>(),
                "kept": (!round.is_good()).then(|| round.kept.display().to_string()),
            })
        })
        .collect();
    json!({ "synapse": version, "rounds": rounds })
}
