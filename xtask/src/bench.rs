//! `cargo xtask bench`: measures speed and cost, in the same run as the limits they are compared
//! with.
//!
//! A benchmark is not a test: a missed bar is reported but fails nothing. What counts are ratios
//! within one run and CPU time, because a busy machine disturbs them least. All traffic stays on
//! this machine: Unix sockets and 127.0.0.1.
//!
//! There are six sets. `spine` measures the path of a message, `people` the safeguards and the
//! commands people use, `terminal` the layer between a program and a person's terminal, `delivery`
//! how messages reach and leave agents' programs, `a2a` that protocol beside its official servers,
//! and `bounds` what hostile neighbours cost. A hub will get its own set.

mod a2a;
mod accept;
mod audit;
mod bounds;
mod client;
mod commands;
pub(crate) mod delivery;
mod idle;
mod machine;
mod mcp;
mod opening;
mod proc;
mod raw;
mod report;
mod responder;
mod search;
mod stage;
mod status;
mod streaming;
mod terminal;
mod tls;
mod venv;

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::shell;
use report::{Report, Row};
use stage::Stage;

pub(crate) const USAGE: &str = "usage: cargo xtask bench spine|people|terminal|delivery|a2a|bounds [--json] [--quick] [--only NAME] [--sends N] [--binary FILE]";

const SENDS_MAX: usize = 1_000;

/// The options of a run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    set: Set,
    /// Print JSON instead of the table.
    json: bool,
    /// Run fewer rounds, only to see that everything works.
    pub(crate) quick: bool,
    only: Option<String>,
    /// The number of messages to each real CLI.
    sends: Option<usize>,
    /// Measure this binary, not the release build: what `dist` packs, or an earlier version.
    binary: Option<PathBuf>,
}

/// Everything that a set of measurements works with.
pub(crate) struct Bench {
    pub(crate) root: PathBuf,
    /// `target/bench`, on the disk that is measured.
    pub(crate) folder: PathBuf,
    pub(crate) stage: Stage,
    pub(crate) wish: Wish,
}

type Measure = fn(&Bench) -> anyhow::Result<Vec<Row>>;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Set {
    #[default]
    Spine,
    People,
    Terminal,
    Delivery,
    A2a,
    Bounds,
}

impl Set {
    fn named(name: &str) -> Option<Self> {
        let all = [Self::Spine, Self::People, Self::Terminal, Self::Delivery, Self::A2a, Self::Bounds];
        all.into_iter().find(|set| set.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Spine => "spine",
            Self::People => "people",
            Self::Terminal => "terminal",
            Self::Delivery => "delivery",
            Self::A2a => "a2a",
            Self::Bounds => "bounds",
        }
    }

    /// The parts of the set, in the order in which they run. Each can be run alone.
    fn parts(self) -> &'static [(&'static str, Measure)] {
        match self {
            Self::Spine => SPINE,
            Self::People => PEOPLE,
            Self::Terminal => TERMINAL,
            Self::Delivery => DELIVERY,
            Self::A2a => A2A,
            Self::Bounds => BOUNDS,
        }
    }
}

const SPINE: &[(&str, Measure)] = &[
    ("accept", accept::measure),
    ("commands", commands::one_process),
    ("idle", idle::measure),
    ("status", status::measure),
    ("list", commands::list),
    ("opening", opening::measure),
];

const BOUNDS: &[(&str, Measure)] =
    &[("followers", bounds::followers), ("pages", bounds::pages), ("resizes", bounds::resizes)];

const PEOPLE: &[(&str, Measure)] =
    &[("tls", tls::measure), ("search", search::measure), ("audit", audit::measure)];

const TERMINAL: &[(&str, Measure)] = &[
    ("flood", terminal::flood),
    ("keys", terminal::keys),
    ("quiet", terminal::quiet),
    ("flat", terminal::flat),
];

const DELIVERY: &[(&str, Measure)] = &[
    ("mcp", mcp::measure),
    ("arrive", delivery::arrive),
    ("drain", delivery::drain),
    ("clis", delivery::clis),
];

const A2A: &[(&str, Measure)] = &[("send", a2a::send), ("streams", a2a::streams), ("flat", a2a::flat)];

pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<()> {
    let wish = parse(words).map_err(|wrong| anyhow::anyhow!("{wrong}\n{USAGE}"))?;
    if cfg!(debug_assertions) {
        // In a debug build the load generator would cost more than the node. Run the release build.
        let mut line = vec!["cargo", "run", "--release", "--quiet", "--package", "xtask", "--", "bench"];
        line.extend(words.iter().map(String::as_str));
        return shell::show(root, &line, &[]);
    }
    let own = std::env::current_exe().context("where this program is")?;
    let built = own.parent().context("a program has a folder")?;
    let folder = built.parent().context("a profile has a folder")?.join("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let stage = Stage::new(&folder, binary(root, built, &wish)?)?;
    let bench = Bench { root: root.to_owned(), folder, stage, wish };
    let report = bench.all()?;
    let file = bench.folder.join(format!("{}.json", bench.wish.set.name()));
    std::fs::write(&file, report.json()).with_context(|| format!("writing {}", file.display()))?;
    if bench.wish.json {
        print!("{}", report.json());
    } else {
        print!("{}", report.table());
    }
    anyhow::ensure!(report.broken.is_empty(), "not measured: {}", report.broken.join("; "));
    Ok(())
}

/// The binary to measure, which is built unless it was given.
fn binary(root: &Path, built: &Path, wish: &Wish) -> anyhow::Result<PathBuf> {
    if let Some(given) = &wish.binary {
        return given.canonicalize().with_context(|| format!("finding {}", given.display()));
    }
    eprintln!("building the release binary");
    shell::show(root, &["cargo", "build", "--release", "--quiet", "--package", "synapse"], &[])?;
    Ok(built.join("synapse"))
}

impl Bench {
    fn all(&self) -> anyhow::Result<Report> {
        let machine = machine::facts(&self.folder)?;
        let mut report = Report { machine, quick: self.wish.quick, ..Report::default() };
        eprint!("{}", report.head());
        let wanted = |name: &str| self.wish.only.as_deref().is_none_or(|only| only == name);
        for (name, measure) in self.wish.set.parts().iter().filter(|(name, _)| wanted(name)) {
            eprintln!("measuring: {name}");
            match measure(self) {
                Ok(rows) => report.rows.extend(rows),
                // A part that fails does not stop the others.
                Err(error) => report.broken.push(format!("{name}: {error:#}")),
            }
            self.stage.stop_all()?;
        }
        Ok(report)
    }

    /// Returns `many`, or `few` for a quick run.
    pub(crate) fn pick<T>(&self, many: T, few: T) -> T {
        if self.wish.quick { few } else { many }
    }
}

fn parse(words: &[String]) -> Result<Wish, String> {
    let mut words = words.iter().map(String::as_str);
    let set = words.next().and_then(Set::named);
    let set = set.ok_or("say which set: `spine`, `people`, `terminal`, `delivery` or `a2a`")?;
    let mut wish = Wish { set, ..Wish::default() };
    while let Some(word) = words.next() {
        match word {
            "--json" => wish.json = true,
            "--quick" => wish.quick = true,
            "--sends" if set == Set::Delivery => {
                let sends = words.next().and_then(|word| word.parse().ok());
                let sends = sends.filter(|sends| (1..=SENDS_MAX).contains(sends));
                wish.sends =
                    Some(sends.ok_or_else(|| format!("--sends takes a number from 1 to {SENDS_MAX}"))?);
            }
            "--only" => {
                let known: Vec<&str> = set.parts().iter().map(|(name, _)| *name).collect();
                let name = words.next().filter(|name| known.contains(name));
                let name = name.ok_or_else(|| format!("--only takes one of {}", known.join(", ")))?;
                wish.only = Some(name.to_owned());
            }
            "--binary" => {
                let file = words.next().ok_or("--binary takes a file")?;
                wish.binary = Some(file.into());
            }
            other => return Err(format!("`{other}` is not understood")),
        }
    }
    Ok(wish)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<Wish, &str>) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let found = parse(&words);
        match expected {
            Ok(wish) => assert_eq!(found, Ok(wish), "{line}"),
            Err(part) => assert!(found.clone().unwrap_err().contains(part), "{line}: {found:?}"),
        }
    }

    #[test]
    fn words_become_a_wish() {
        check("spine", Ok(Wish::default()));
        let wish = Wish { json: true, quick: true, only: Some("idle".into()), ..Wish::default() };
        check("spine --quick --only idle --json", Ok(wish));
        check(
            "people --only tls",
            Ok(Wish { set: Set::People, only: Some("tls".into()), ..Wish::default() }),
        );
        let wish = Wish { set: Set::A2a, binary: Some("dist/synapse".into()), ..Wish::default() };
        check("a2a --binary dist/synapse", Ok(wish));
        check("a2a --binary", Err("takes a file"));
        check("people --only accept", Err("tls"));
        check("", Err("`delivery` or `a2a`"));
        check("a2a --only accept", Err("send, streams, flat"));
        check("delivery --only tls", Err("mcp, arrive, drain, clis"));
        check("delivery --sends 0", Err("from 1 to"));
        check("spine --sends 5", Err("--sends"));
        check("spine --only everything", Err("accept, commands"));
        check("spine --fast", Err("--fast"));
    }
}
