//! The page of the docs with what came of the last whole run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::judge::Cell;
use super::report::Round;

/// Where it is written.
pub(super) const PATH: &str = "docs/real-clis.md";

const HEAD: &str = "# Real CLIs

Written by `cargo xtask real-agents --write`; do not edit.

Each CLI runs in the version shown, wrapped by Synapse, against a mock model on this machine whose
log is the truth. [CONTRIBUTING.md](../CONTRIBUTING.md#real-clis) says what each case checks.
";

/// All rounds of one CLI count together.
pub(super) fn written(size: (u16, u16), rounds: &[Round]) -> String {
    let (columns, rows) = size;
    let count = rounds.iter().map(|round| round.n).max().unwrap_or_default();
    let mut text = format!("{HEAD}\nTerminal of {columns}×{rows}, rounds: {count}.\n");
    let (alone, talks): (Vec<&Round>, Vec<&Round>) = rounds.iter().partition(|round| round.clis.len() == 1);
    let steps = longest(&alone);
    let _ = writeln!(text, "\n| CLI | {} | state agreement |", steps.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(steps.len() + 1));
    for (name, rounds) in by_name(&alone) {
        let cells: Vec<String> = steps.iter().map(|step| sum(step, &rounds)).collect();
        let _ = writeln!(text, "| {name} | {} | {} |", cells.join(" | "), agreement(&rounds));
    }
    if !talks.is_empty() {
        text.push_str("\n| two CLIs | passed |\n|---|---|\n");
        let names: BTreeMap<&str, Vec<&Round>> = talks.iter().fold(BTreeMap::new(), |mut all, round| {
            round.steps.iter().for_each(|step| all.entry(*step).or_insert_with(Vec::new).push(*round));
            all
        });
        for (step, rounds) in names {
            let _ = writeln!(text, "| {step} | {} |", sum(step, &rounds));
        }
    }
    text
}

/// The steps of the CLI that has most of them.
fn longest<'a>(rounds: &[&'a Round]) -> &'a [&'static str] {
    rounds.iter().map(|round| round.steps.as_slice()).max_by_key(|steps| steps.len()).unwrap_or_default()
}

/// In the order in which they ran.
fn by_name<'a>(rounds: &[&'a Round]) -> Vec<(String, Vec<&'a Round>)> {
    let mut all: Vec<(String, Vec<&Round>)> = Vec::new();
    for round in rounds {
        match all.iter_mut().find(|(name, _)| *name == round.name()) {
            Some((_, rounds)) => rounds.push(round),
            None => all.push((round.name(), vec![round])),
        }
    }
    all
}

/// How many parts of a step passed, of how many.
fn sum(step: &str, rounds: &[&Round]) -> String {
    let of = rounds.iter().filter(|round| round.steps.contains(&step));
    let (mut done, mut all) = (0, 0);
    for round in of {
        let cell = round.cells.iter().find(|cell| cell.step == step);
        let (passed, parts) = match cell.map(|cell| (cell.parts, cell.is_good())) {
            Some((Some((done, of)), is_good)) => (if is_good { of } else { done.min(of - 1) }, of),
            Some((None, is_good)) => (usize::from(is_good), 1),
            None => (0, 1),
        };
        (done, all) = (done + passed, all + parts);
    }
    match (done, all) {
        (_, 0) => "–".to_owned(),
        (done, all) if done == all => format!("{done}/{all}"),
        (done, all) => format!("**{done}/{all}**"),
    }
}

fn agreement(rounds: &[&Round]) -> String {
    let cells: Vec<&Cell> = rounds.iter().flat_map(|round| &round.cells).collect();
    let samples: usize = cells.iter().map(|cell| cell.samples).sum();
    let right: usize = cells.iter().map(|cell| cell.right).sum();
    if samples == 0 { "–".to_owned() } else { format!("{:.1} %", 100.0 * right as f64 / samples as f64) }
}

#[cfg(test)]
mod tests {
    use super::super::catalog;
    use super::*;

    fn round(n: usize, cells: Vec<Cell>) -> Round {
        let clis = vec![catalog::find("codex").unwrap()];
        let steps = vec!["turn", "exact", "answer"];
        Round { clis, n, steps, grace_ms: 700, cells, kept: Default::default() }
    }

    #[test]
    fn rounds_of_a_cli_are_one_row_and_failures_stand_out() {
        let turn = || Cell { samples: 100, right: 99, ..Cell::new("turn") };
        let exact = |done| {
            let faults = if done == 3 { Vec::new() } else { vec!["lost".to_owned()] };
            Cell { parts: Some((done, 3)), faults, ..Cell::new("exact") }
        };
        let text = written((80, 24), &[round(1, vec![turn(), exact(3)]), round(2, vec![turn(), exact(1)])]);
        assert!(text.contains("Terminal of 80×24, rounds: 2."), "{text}");
        assert!(text.contains("| CLI | turn | exact | answer | state agreement |"), "{text}");
        let row = text.lines().find(|line| line.starts_with("| codex ")).unwrap();
        assert!(row.ends_with("| 2/2 | **4/6** | **0/2** | 99.0 % |"), "{row}");
    }
}
