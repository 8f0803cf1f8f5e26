//! A flood of output through each wrapper: how fast it reaches the person's terminal, and what that
//! costs.
//!
//! The time runs from the key that starts the output until all of it was shown and, for us, until
//! the node's screen is right too. The CPU time is that of the wrapper's processes, without the
//! program and the reader. Rounds are interleaved and the best of each counts, because other work
//! on the machine only makes a round slower.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use synapse_terminal::{Screen, Size};

use super::output::{self, MARK};
use super::pty::{Came, Pty};
use super::rivals::{AGENT, Rivals, Wrapper};
use super::{COLUMNS, ROWS, wait_for_screen};
use crate::bench::report::Row;
use crate::bench::{Bench, proc};

const OF_SCRIPT_MIN: f64 = 0.5;
const OF_HCOM_MIN: f64 = 2.0;
const OF_TMUX_MIN: f64 = 3.0;

const READY: &str = "~READY~";
const END: &str = "~END~";

/// The result of one wrapper in one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    mb_per_second: f64,
    cpu_ms_per_mb: f64,
}

pub(in crate::bench) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (megabytes, rounds) = bench.pick((200, 3), (20, 2));
    let file = output::file(&bench.folder, megabytes)?;
    let flood = Flood::new(bench, &file)?;
    let all = [Wrapper::Synapse, Wrapper::Script, Wrapper::Hcom, Wrapper::Tmux, Wrapper::Nothing];
    let mut results: Vec<(Wrapper, anyhow::Result<Vec<Round>>)> =
        all.map(|wrapper| (wrapper, flood.rivals.fetch(wrapper).map(|()| Vec::new()))).into();
    for _ in 0..rounds {
        for (wrapper, result) in &mut results {
            let Ok(done) = result else { continue };
            match flood.round(*wrapper) {
                Ok(round) => {
                    eprintln!(
                        "  {}: {:.1} MB/s, {:.1} ms CPU/MB",
                        wrapper.name(),
                        round.mb_per_second,
                        round.cpu_ms_per_mb
                    );
                    done.push(round);
                }
                Err(error) => *result = Err(error.context(wrapper.name())),
            }
        }
    }
    rows(results, megabytes)
}

/// The best values of its rounds, or why there are none.
fn best(result: anyhow::Result<Vec<Round>>) -> Result<Round, String> {
    let rounds = result.map_err(|error| format!("{error:#}"))?;
    let least = |a: f64, b: f64| a.min(b);
    let found = rounds.iter().copied().reduce(|a, b| Round {
        mb_per_second: a.mb_per_second.max(b.mb_per_second),
        cpu_ms_per_mb: least(a.cpu_ms_per_mb, b.cpu_ms_per_mb),
    });
    found.ok_or_else(|| "no round was run".to_owned())
}

fn rows(results: Vec<(Wrapper, anyhow::Result<Vec<Round>>)>, megabytes: usize) -> anyhow::Result<Vec<Row>> {
    let mut best: Vec<(Wrapper, Result<Round, String>)> =
        results.into_iter().map(|(wrapper, result)| (wrapper, best(result))).collect();
    let (_, own) = best.remove(0);
    let own = own.map_err(anyhow::Error::msg)?;
    let mut rows =
        vec![Row::told(format!("{megabytes} MB of output, screen kept"), own.mb_per_second, "MB/s").beside(
            "CPU for a MB",
            own.cpu_ms_per_mb,
            "ms",
        )];
    for (wrapper, rival) in best {
        let bar = match wrapper {
            Wrapper::Script => Some(OF_SCRIPT_MIN),
            Wrapper::Hcom => Some(OF_HCOM_MIN),
            Wrapper::Tmux => Some(OF_TMUX_MIN),
            Wrapper::Synapse | Wrapper::Nothing => None,
        };
        let name = format!("… its speed, of that of {}", wrapper.name());
        let rival = match (rival, bar) {
            (Ok(rival), _) => rival,
            (Err(why), Some(bar)) => {
                rows.push(Row::missing(name, "×", bar, why));
                continue;
            }
            (Err(why), None) => anyhow::bail!(why),
        };
        let ratio = own.mb_per_second / rival.mb_per_second;
        let row = match bar {
            Some(bar) => Row::at_least(name, ratio, "×", bar),
            None => Row::told(name, ratio, "×"),
        };
        let row = row.beside("its speed", rival.mb_per_second, "MB/s");
        rows.push(if wrapper == Wrapper::Nothing {
            row
        } else {
            row.beside("its CPU for a MB", rival.cpu_ms_per_mb, "ms")
        });
    }
    Ok(rows)
}

/// The input of a round, and what it must show.
struct Flood<'a> {
    bench: &'a Bench,
    rivals: Rivals<'a>,
    line: String,
    output: Came,
    /// The screen at the end.
    rows: Vec<String>,
}

impl<'a> Flood<'a> {
    fn new(bench: &'a Bench, file: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        ensure!(!bytes.contains(&MARK), "the output has the byte that marks its end");
        let mut output = Came::default();
        output.add(&bytes);
        // The markers are written as octal escapes, so that the command line itself does not
        // contain them.
        let line = format!(
            "stty -echo; printf '\\176READY~\\n'; read go; cat '{}'; printf '\\176END~\\n'; read end",
            file.display()
        );
        let mut screen = Screen::new(Size::new(COLUMNS, ROWS), 0);
        let mut show = |text: &[u8]| screen.feed(text, &mut Vec::new());
        show(b"~READY~\r\n");
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(piece) => {
                    show(piece);
                    show(b"\r\n");
                }
                None => show(piece),
            }
        }
        show(b"~END~\r\n");
        Ok(Self { bench, rivals: Rivals::new(bench), line, output, rows: screen.rows() })
    }

    fn round(&self, wrapper: Wrapper) -> anyhow::Result<Round> {
        let command = self.rivals.command(wrapper, &self.line)?;
        let mut pty = Pty::start(&command, COLUMNS, ROWS)?;
        let measured = self.measured(wrapper, &mut pty);
        let ended = self.rivals.end(wrapper);
        drop(pty);
        let round = measured?;
        ended?;
        Ok(round)
    }

    fn measured(&self, wrapper: Wrapper, pty: &mut Pty) -> anyhow::Result<Round> {
        pty.read_until(READY)?;
        let processes = self.rivals.processes(wrapper, pty.pid())?;
        let cpu = || processes.iter().map(|pid| proc::cpu_of(*pid)).sum::<anyhow::Result<_>>();
        let (before, began): (std::time::Duration, _) = (cpu()?, Instant::now());
        pty.keys(b"\n")?;
        let came = pty.read_until(END)?;
        if wrapper == Wrapper::Synapse {
            let agent = self.bench.stage.wait_for(AGENT, |_| true)?;
            let rows = wait_for_screen(&agent, END)?;
            let took = began.elapsed();
            ensure!(
                rows == self.rows,
                "the node's screen at the end is:\n{}\nand not:\n{}",
                rows.join("\n"),
                self.rows.join("\n")
            );
            return self.check(wrapper, came).and_then(|()| Ok(self.result(took, cpu()? - before)));
        }
        let took = began.elapsed();
        self.check(wrapper, came)?;
        Ok(self.result(took, cpu()? - before))
    }

    /// Checks that all output was shown. tmux and hcom draw the screen themselves.
    fn check(&self, wrapper: Wrapper, came: Came) -> anyhow::Result<()> {
        // The line end after the first marker arrives after the marker was seen.
        let mut expected = self.output;
        expected.add(b"\n");
        let whole = came == expected || wrapper == Wrapper::Tmux || wrapper == Wrapper::Hcom;
        ensure!(whole, "{} showed {came:?} and not {expected:?}", wrapper.name());
        Ok(())
    }

    fn result(&self, took: std::time::Duration, cpu: std::time::Duration) -> Round {
        let mb = self.output.bytes as f64 / 1e6;
        Round { mb_per_second: mb / took.as_secs_f64(), cpu_ms_per_mb: cpu.as_secs_f64() * 1e3 / mb }
    }
}
