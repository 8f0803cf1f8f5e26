//! `cargo xtask real-agents`: the real CLIs of others, wrapped by our binary, what we say of them, and mail for them.
//!
//! Each CLI is installed in its exact version, and goes through a start, a turn, a permission prompt and an interrupt,
//! typed as a person would. Behind it is a mock of its model, whose log is the truth; the states that the node tells are
//! compared with that. Then messages are sent to it, and two of them talk. All of it runs with an empty environment, a home that is thrown away and a network that has
//! only loopback.
//!
//! Not here: what a CLI needs to start (`catalog`), fetching it (`install`), what is a fault (`judge`, `deliver`).

mod catalog;
mod deliver;
mod inside;
mod install;
mod judge;
mod page;
pub(crate) mod panes;
mod report;
mod scenario;
pub(crate) mod speed;
mod stage;
mod talk;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::{sdk, shell};
use catalog::{Cli, Source};

/// What was asked for.
#[derive(Debug)]
struct Wish {
    clis: Vec<&'static Cli>,
    rounds: usize,
    json: bool,
    /// Nothing is sent to them.
    watch_only: bool,
    /// The steps beyond the first four as well.
    more: bool,
    /// Only these, if any are named. The start is always among them.
    only: Vec<String>,
    /// All cores have something else to do meanwhile.
    load: bool,
    /// A round that fails is repeated once, and only its repetition has to pass.
    retry: bool,
    /// What was recorded stays also when all is well.
    keep: bool,
    /// The table goes into the docs.
    write: bool,
    /// Rounds are added to those in the docs instead of replacing them.
    add: bool,
    /// How many CLIs run side by side.
    at_once: usize,
    /// Columns and rows of the person's terminal.
    size: (u16, u16),
    /// What the step `sizes` makes of it half-way.
    resize_to: Option<(u16, u16)>,
    /// In the network of its own already: the word that only this chore says to itself.
    inside: bool,
}

const ROUNDS_MAX: usize = 1_000;
/// CLIs wait more than they work. With many more of them at once, the rounds would measure the machine.
const AT_ONCE: usize = 3;
const AT_ONCE_MAX: usize = 20;
/// The size of a person's terminal unless another is asked for.
const SIZE: (u16, u16) = (120, 40);

fn wish(words: &[String]) -> anyhow::Result<Wish> {
    let mut wish = Wish {
        clis: catalog::ALL.iter().collect(),
        rounds: 1,
        json: false,
        watch_only: false,
        more: false,
        only: Vec::new(),
        load: false,
        retry: false,
        keep: false,
        write: false,
        add: false,
        at_once: AT_ONCE,
        size: SIZE,
        resize_to: None,
        inside: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--watch-only" => wish.watch_only = true,
            "--json" => wish.json = true,
            "--more" => wish.more = true,
            "--keep" => wish.keep = true,
            "--load" => wish.load = true,
            "--retry" => wish.retry = true,
            "--write" => wish.write = true,
            "--add" => wish.add = true,
            "--at-once" => wish.at_once = number(words.next(), "--at-once", AT_ONCE_MAX)?,
            "--only" => {
                let names = words.next().context("--only needs names, such as exact,hostile")?;
                wish.only = names.split(',').map(known_step).collect::<anyhow::Result<_>>()?;
            }
            "--inside" => wish.inside = true,
            "--size" => {
                let size = words.next().and_then(|word| size(word));
                wish.size = size.context("--size needs columns and rows, such as 80x24")?;
            }
            "--resize" => {
                let size = words.next().and_then(|word| size(word));
                wish.resize_to = Some(size.context("--resize needs columns and rows, such as 80x24")?);
            }
            "--agents" => {
                let names = words.next().context("--agents needs names, such as codex,claude")?;
                wish.clis = names.split(',').map(catalog::find).collect::<anyhow::Result<_>>()?;
            }
            "--rounds" => wish.rounds = number(words.next(), "--rounds", ROUNDS_MAX)?,
            _ => bail!("`{word}` is not a word of real-agents"),
        }
    }
    if wish.write && (wish.watch_only || !wish.only.is_empty()) {
        bail!("--write needs a whole run: leave out --only and --watch-only");
    }
    if wish.add && !wish.write {
        bail!("--add needs --write");
    }
    Ok(wish)
}

fn number(word: Option<&String>, flag: &str, max: usize) -> anyhow::Result<usize> {
    let number = word.and_then(|word| word.parse().ok()).filter(|number| (1..=max).contains(number));
    number.with_context(|| format!("{flag} needs a number from 1 to {max}"))
}

fn size(word: &str) -> Option<(u16, u16)> {
    let (columns, rows) = word.split_once('x')?;
    let (columns, rows) = (columns.parse().ok()?, rows.parse().ok()?);
    ((20..=500).contains(&columns) && (10..=200).contains(&rows)).then_some((columns, rows))
}

impl Wish {
    fn wants(&self, step: &str) -> bool {
        step == "start" || self.only.is_empty() || self.only.iter().any(|name| name == step)
    }

    /// What one CLI goes through.
    fn steps(&self) -> Vec<&'static str> {
        let watched = scenario::names(self.more || !self.only.is_empty()).into_iter();
        let delivered = deliver::names().filter(|_| !self.watch_only);
        watched.chain(delivered).filter(|step| self.wants(step)).collect()
    }
}

impl Wish {
    /// Which talks of two are to be had.
    fn talks(&self) -> Vec<&'static str> {
        let here = |name: &str| self.clis.iter().any(|cli| cli.name == name);
        let may = !self.watch_only && here("codex") && here("claude");
        talk::names().filter(|talk| may && self.wants(talk)).collect()
    }
}

fn known_step(name: &str) -> anyhow::Result<String> {
    let known: Vec<&str> =
        scenario::names(true).into_iter().chain(deliver::names()).chain(talk::names()).collect();
    if !known.contains(&name) {
        bail!("{name:?} is none of {}", known.join(", "));
    }
    Ok(name.to_owned())
}

/// Runs the CLIs; the error says where to look if one of them was seen wrongly, or mail for it went wrong.
pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<()> {
    let wish = wish(words)?;
    let folder = root.join("target/agents");
    if wish.inside {
        return inside::run(root, &folder, &wish);
    }
    for cli in &wish.clis {
        install::ensure(&folder, cli)?;
    }
    if wish.steps().contains(&"a2a") {
        sdk::ensure(root, &sdk::PYTHON_1)?;
    }
    shell::show(root, &["cargo", "build", "--quiet", "--package", "synapse", "--locked"], &[])?;
    let own = std::env::current_exe().context("finding this program")?;
    let network = own_network(root)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let status = Command::new(network[0])
        .args(&network[1..])
        .arg(own)
        .args(["real-agents", "--inside"])
        .args(words)
        .env_clear()
        .env("PATH", path)
        .current_dir(root)
        .status()
        .context("starting in a network of its own")?;
    if !status.success() {
        bail!("not all is well with every CLI; the table tells which");
    }
    Ok(())
}

/// How a program gets a network that has only loopback; where that can be had, all that it starts ends with it.
pub(crate) fn own_network(root: &Path) -> anyhow::Result<&'static [&'static str]> {
    const WAYS: [&[&str]; 3] = [
        &["unshare", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"],
        &["unshare", "--map-root-user", "--net"],
        &["unshare", "--net"],
    ];
    let works = |way: &&&[&str]| shell::works(root, &[way, &["ip", "link", "set", "lo", "up"][..]].concat());
    let way = WAYS.iter().find(works).copied();
    way.context(
        "no network of its own can be made here, and without one a CLI could reach the world: \
         `unshare --map-root-user --net ip link set lo up` has to work (packages util-linux and iproute2; \
         on some systems `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or run as root)",
    )
}

/// Where a CLI is installed.
fn folder_of(folder: &Path, cli: &Cli) -> PathBuf {
    folder.join(format!("{}-{}", cli.name, cli.version))
}

/// Where the commands of an installed CLI are.
fn commands_of(folder: &Path, cli: &Cli) -> PathBuf {
    let commands = match cli.source {
        Source::Npm { .. } => "node_modules/.bin",
        Source::Pip { .. } => "bin",
    };
    folder_of(folder, cli).join(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str) -> Result<Wish, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        wish(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn words_become_a_wish() {
        let wish = check("--watch-only --agents codex,gemini --rounds 3 --json").unwrap();
        let names: Vec<&str> = wish.clis.iter().map(|cli| cli.name).collect();
        assert_eq!((names.as_slice(), wish.rounds, wish.json), (["codex", "gemini"].as_slice(), 3, true));
        assert_eq!(check("--watch-only").unwrap().clis.len(), catalog::ALL.len());
        assert!(!check("--watch-only").unwrap().steps().contains(&"exact"));
        assert_eq!(check("--only exact").unwrap().steps(), ["start", "exact"]);
        assert!(check("--only exat").unwrap_err().contains("exact"));
        assert!(check("--watch-only --agents clade").unwrap_err().contains("claude"));
        assert!(check("--watch-only --rounds 0").unwrap_err().contains("number"));
        assert_eq!(check("--size 80x24").unwrap().size, (80, 24));
        assert_eq!(check("--only sizes --resize 80x24").unwrap().resize_to, Some((80, 24)));
        assert!(check("--resize 80").unwrap_err().contains("80x24"));
        assert!(check("--size 80").unwrap_err().contains("80x24"));
        assert_eq!(check("--agents qwen@0.15.10").unwrap().clis[0].version, "0.15.10");
        assert_eq!(check("--agents qwen@0.1.2").unwrap().clis[0].version, "0.1.2");
        assert!(check("--agents quen@1").unwrap_err().contains("qwen@0.15.10"));
        assert!(check("--only exact --write").unwrap_err().contains("whole run"));
        assert!(check("--add").unwrap_err().contains("--write"));
        assert_eq!(check("--at-once 6").unwrap().at_once, 6);
        assert!(check("--watch-only --quick").unwrap_err().contains("--quick"));
    }
}
