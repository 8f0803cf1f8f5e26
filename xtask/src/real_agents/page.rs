//! The page of the docs with what came of whole runs.
//!
//! A whole run of all CLIs takes hours, so a run replaces only the rows of those that were in it. The rows are kept in
//! a file beside the page, from which the page is written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::report::Round;

const PAGE: &str = "docs/real-clis.md";
const ROWS: &str = "docs/real-clis.json";

const HEAD: &str = "# Real CLIs

Written by `cargo xtask real-agents --write`; do not edit. A run replaces the rows of its own CLIs,
or adds its rounds to them (`--add`).

Each CLI runs in the version shown, wrapped by Synapse, against a mock model on this machine whose
log is the truth. [CONTRIBUTING.md](../CONTRIBUTING.md#real-clis) says what each case checks. A cell
says how many parts of a case passed, of how many, over all rounds.
";

/// All rounds of one CLI in one version, or of two CLIs that talk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    /// Columns and rows of the terminal.
    size: (u16, u16),
    rounds: usize,
    /// All cores had something else to do.
    load: bool,
    /// Of each case: parts that passed, of how many.
    cases: BTreeMap<String, (usize, usize)>,
    /// Of the states that were compared: how many were right, of how many.
    states: (usize, usize),
}

/// The rows that were on the page before this run.
pub(super) struct Page {
    before: Vec<Row>,
    /// Whether rounds of this run are added to those of earlier runs, or replace them.
    add: bool,
}

impl Page {
    pub fn open(root: &Path, add: bool) -> anyhow::Result<Self> {
        let before = match fs::read_to_string(root.join(ROWS)) {
            Ok(text) => serde_json::from_str(&text).with_context(|| format!("reading {ROWS}"))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("reading {ROWS}")),
        };
        Ok(Self { before, add })
    }

    /// Writes the page with all rounds of this run so far.
    pub fn write(&self, root: &Path, size: (u16, u16), load: bool, rounds: &[Round]) -> anyhow::Result<()> {
        let rows = merge(&self.before, rows_of(size, load, rounds), self.add);
        let text = serde_json::to_string_pretty(&rows).context("writing rows")?;
        fs::write(root.join(ROWS), text + "\n").with_context(|| format!("writing {ROWS}"))?;
        fs::write(root.join(PAGE), page(&rows)).with_context(|| format!("writing {PAGE}"))
    }
}

fn merge(before: &[Row], new: Vec<Row>, add: bool) -> Vec<Row> {
    let mut rows = before.to_vec();
    for mut row in new {
        let is_same = |old: &Row| (&old.name, old.size) == (&row.name, row.size);
        let old = rows.iter().position(is_same).map(|place| rows.remove(place));
        if let Some(old) = old.filter(|old| add && old.load == row.load) {
            row.add(&old);
        }
        rows.push(row);
    }
    rows.sort_by(|a, b| (&a.name, a.size).cmp(&(&b.name, b.size)));
    rows
}

impl Row {
    /// Adds the rounds of an earlier run.
    fn add(&mut self, old: &Self) {
        self.rounds += old.rounds;
        self.states = (self.states.0 + old.states.0, self.states.1 + old.states.1);
        for (name, (done, all)) in &old.cases {
            let case = self.cases.entry(name.clone()).or_default();
            *case = (case.0 + done, case.1 + all);
        }
    }
}

fn rows_of(size: (u16, u16), load: bool, rounds: &[Round]) -> Vec<Row> {
    let names: BTreeSet<String> = rounds.iter().map(Round::name).collect();
    let row = |name: String| {
        let of: Vec<&Round> = rounds.iter().filter(|round| round.name() == name).collect();
        let steps: BTreeSet<&str> = of.iter().flat_map(|round| round.steps.iter().copied()).collect();
        let cases = steps.into_iter().map(|step| (step.to_owned(), passed(step, &of))).collect();
        let cells = || of.iter().flat_map(|round| &round.cells);
        let states = (cells().map(|cell| cell.right).sum(), cells().map(|cell| cell.samples).sum());
        // A talk is a round of its own for each kind of talk.
        let rounds = of.iter().map(|round| round.n).collect::<BTreeSet<_>>().len();
        Row { name, size, rounds, load, cases, states }
    };
    names.into_iter().map(row).collect()
}

/// How many parts of a case passed, of how many.
fn passed(step: &str, rounds: &[&Round]) -> (usize, usize) {
    let (mut done, mut all) = (0, 0);
    for round in rounds.iter().filter(|round| round.steps.contains(&step)) {
        let cell = round.cells.iter().find(|cell| cell.step == step);
        let (passed, parts) = match cell.map(|cell| (cell.parts, cell.is_good())) {
            Some((Some((done, of)), is_good)) => (if is_good { of } else { done.min(of - 1) }, of),
            Some((None, is_good)) => (usize::from(is_good), 1),
            None => (0, 1),
        };
        (done, all) = (done + passed, all + parts);
    }
    (done, all)
}

/// The cases in the order in which they run.
fn order() -> Vec<&'static str> {
    let watched = super::scenario::names(false).into_iter();
    watched.chain(super::deliver::names()).chain(super::talk::names()).collect()
}

fn page(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    let (talks, alone): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.name.contains(" to "));
    for rows in [alone, talks].into_iter().filter(|rows| !rows.is_empty()) {
        let steps: Vec<&str> =
            order().into_iter().filter(|step| rows.iter().any(|row| row.cases.contains_key(*step))).collect();
        let _ = writeln!(text, "\n| CLI | terminal | rounds | {} | states that agree |", steps.join(" | "));
        let _ = writeln!(text, "|---|---|---|{}", "---|".repeat(steps.len() + 1));
        for row in rows {
            let cells: Vec<String> = steps.iter().map(|step| cell(row.cases.get(*step).copied())).collect();
            let (columns, lines) = row.size;
            let load = if row.load { ", loaded" } else { "" };
            let head = format!("{} | {columns}×{lines} | {}{load}", row.name, row.rounds);
            let _ = writeln!(text, "| {head} | {} | {} |", cells.join(" | "), agreement(row.states));
        }
    }
    text
}

fn cell(passed: Option<(usize, usize)>) -> String {
    match passed {
        None | Some((_, 0)) => "–".to_owned(),
        Some((done, all)) if done == all => format!("{done}/{all}"),
        Some((done, all)) => format!("**{done}/{all}**"),
    }
}

fn agreement((right, samples): (usize, usize)) -> String {
    if samples == 0 { "–".to_owned() } else { format!("{:.1} %", 100.0 * right as f64 / samples as f64) }
}

#[cfg(test)]
mod tests {
    use super::super::catalog;
    use super::super::judge::Cell;
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
        let rounds = [round(1, vec![turn(), exact(3)]), round(2, vec![turn(), exact(1)])];
        let text = page(&rows_of((80, 24), true, &rounds));
        assert!(
            text.contains("| CLI | terminal | rounds | turn | exact | answer | states that agree |"),
            "{text}"
        );
        let row = text.lines().find(|line| line.starts_with("| codex ")).unwrap();
        assert!(row.ends_with("| 80×24 | 2, loaded | 2/2 | **4/6** | **0/2** | 99.0 % |"), "{row}");
    }

    #[test]
    fn run_replaces_or_adds_to_only_the_rows_of_its_own_clis() {
        let row = |name: &str, size, rounds| Row {
            name: name.into(),
            size,
            rounds,
            load: false,
            cases: BTreeMap::from([("exact".into(), (rounds, rounds))]),
            states: (0, 0),
        };
        let before = [row("codex 1", (80, 24), 2), row("claude 2", (80, 24), 2)];
        let new = || vec![row("codex 1", (80, 24), 10), row("codex 1", (120, 40), 3)];
        let rounds = |rows: &[Row]| -> Vec<_> {
            rows.iter().map(|row| (row.name.clone(), row.size.0, row.rounds)).collect()
        };
        let (claude, codex) = (|n| ("claude 2".to_owned(), 80, n), |size, n| ("codex 1".to_owned(), size, n));
        let rows = merge(&before, new(), false);
        assert_eq!(rounds(&rows), [claude(2), codex(80, 10), codex(120, 3)]);
        assert_eq!(rows[1].cases["exact"], (10, 10));
        let rows = merge(&before, new(), true);
        assert_eq!(rounds(&rows), [claude(2), codex(80, 12), codex(120, 3)]);
        assert_eq!(rows[1].cases["exact"], (12, 12));
        let text = serde_json::to_string(&rows).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Row>>(&text).unwrap(), rows);
    }
}
