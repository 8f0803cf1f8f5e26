//! `cargo xtask test`: every check, one after the other, with the time each took.
//!
//! A step that fails does not stop the ones after it: one run tells everything
//! there is to mend. The rules of the tree (`tidy`) have no step of their own;
//! they are ordinary tests of this crate and run with the others.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::tidy::tree::Tree;
use crate::{needs, real_agents, shell};

/// One line of the table below.
struct Step {
    name: &'static str,
    act: Act,
    when: When,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// Not with `--full`, which does the same for longer.
    Quick,
    /// Only with `--full`.
    Full,
}

enum Act {
    /// A command line, and what is added to its environment.
    Run(&'static [&'static str], &'static [(&'static str, &'static str)]),
    Call(fn(&Path) -> anyhow::Result<Outcome>),
}

enum Outcome {
    Done,
    Skipped(&'static str),
}

/// What was fetched is used: a test that misses an SDK fails here, where it is skipped elsewhere.
const SDKS: &[(&str, &str)] = &[("SYNAPSE_SDKS", "required")];

/// All steps in the order they run, quick answers first. A new round is one more row.
const STEPS: &[Step] = &[
    always("needs", Act::Call(meet_needs)),
    always("format", Act::Run(&["cargo", "fmt", "--all", "--check"], &[])),
    always(
        "lints",
        Act::Run(
            &["cargo", "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
            &[],
        ),
    ),
    always("audit", Act::Run(&["cargo", "xtask", "audit"], &[])),
    always("generated code", Act::Run(&["cargo", "xtask", "proto", "--check"], &[])),
    always("compiles for macOS", Act::Call(check_for_macos)),
    always("build", Act::Run(&["cargo", "build", "--workspace", "--locked"], &[])),
    quick("tests", Act::Run(&["cargo", "nextest", "run", "--workspace", "--locked", "--no-fail-fast"], SDKS)),
    quick("simulation", Act::Run(&["cargo", "xtask", "sim", "--seeds", "200"], &[])),
    quick("real CLIs", Act::Call(two_real_clis)),
    always("doc tests", Act::Call(doc_tests)),
    always(
        "docs",
        Act::Run(
            &["cargo", "doc", "--no-deps", "--workspace", "--document-private-items", "--locked"],
            &[("RUSTDOCFLAGS", "-D warnings")],
        ),
    ),
    only_full(
        "tests, five times over",
        Act::Run(&["cargo", "nextest", "run", "--workspace", "--locked", "--stress-count", "5"], SDKS),
    ),
    only_full(
        "twenty rounds of crashes",
        Act::Run(
            // With `--package` other features of the dependencies would be chosen, and all of them built again.
            &["cargo", "nextest", "run", "--workspace", "--locked", "-E", "package(synapse) & test(heavy_)"],
            &[("SYNAPSE_CRASH_ROUNDS", "20")],
        ),
    ),
    only_full("frameworks of other makers", Act::Run(&["cargo", "xtask", "interop"], &[])),
    only_full("all real CLIs", Act::Call(all_real_clis)),
    only_full(
        "sixty rounds of kills that nobody notices",
        Act::Run(
            &["cargo", "nextest", "run", "--workspace", "--locked", "-E", "test(/^unnoticed::/)"],
            &[("SYNAPSE_KILL_ROUNDS", "15")],
        ),
    ),
    only_full("a thousand worlds", Act::Run(&["cargo", "xtask", "sim", "--seeds", "1000"], &[])),
    only_full("packages", Act::Run(&["cargo", "xtask", "dist", "--check"], &[])),
];

const fn always(name: &'static str, act: Act) -> Step {
    Step { name, act, when: When::Always }
}

const fn quick(name: &'static str, act: Act) -> Step {
    Step { name, act, when: When::Quick }
}

const fn only_full(name: &'static str, act: Act) -> Step {
    Step { name, act, when: When::Full }
}

/// Runs the quick steps, or with `full` the long ones instead; the error names those that failed.
pub(crate) fn run(root: &Path, full: bool) -> anyhow::Result<()> {
    let other = if full { When::Quick } else { When::Full };
    run_table(root, STEPS.iter().filter(|step| step.when != other))
}

fn run_table<'a>(root: &Path, steps: impl Iterator<Item = &'a Step>) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut count = 0;
    let mut failed = Vec::new();
    for step in steps {
        count += 1;
        println!("== {}{}", step.name, spelled(&step.act));
        let step_began = Instant::now();
        let outcome = act(root, &step.act);
        let took = seconds(step_began.elapsed());
        match outcome {
            Ok(Outcome::Done) => println!("== {}: passed in {took} s\n", step.name),
            Ok(Outcome::Skipped(why)) => println!("== {}: skipped, {why}\n", step.name),
            Err(error) => {
                println!("{error:#}\n== {}: FAILED after {took} s\n", step.name);
                failed.push(step.name);
            }
        }
    }
    let took = seconds(began.elapsed());
    if !failed.is_empty() {
        bail!("{} of {count} steps failed in {took} s: {}", failed.len(), failed.join("; "));
    }
    println!("all {count} steps passed in {took} s");
    Ok(())
}

fn act(root: &Path, act: &Act) -> anyhow::Result<Outcome> {
    match act {
        Act::Run(line, env) => shell::show(root, line, env).map(|()| Outcome::Done),
        Act::Call(call) => call(root),
    }
}

/// The command line as a person would type it, so that a failed step can be run alone.
fn spelled(act: &Act) -> String {
    let Act::Run(line, env) = act else { return String::new() };
    let env = env.iter().map(|(name, value)| format!("{name}='{value}' "));
    format!(": {}{}", env.collect::<String>(), line.join(" "))
}

fn seconds(took: Duration) -> String {
    format!("{:.1}", took.as_secs_f64())
}

fn meet_needs(root: &Path) -> anyhow::Result<Outcome> {
    needs::meet(root).map(|()| Outcome::Done)
}

/// Nothing is linked, so any machine can do it: all that is needed is Rust's own library for that system.
fn check_for_macos(root: &Path) -> anyhow::Result<Outcome> {
    const TARGET: &str = "aarch64-apple-darwin";
    let folder = shell::read(root, &["rustc", "--print", "target-libdir", "--target", TARGET])?;
    if !Path::new(folder.trim()).is_dir() {
        return Ok(Outcome::Skipped("`rustup target add aarch64-apple-darwin` was not run here"));
    }
    // What is written in C is not compiled: `true` says yes to everything, and a check never looks at the result.
    let no_c = [("CC_aarch64_apple_darwin", "true"), ("AR_aarch64_apple_darwin", "true")];
    shell::show(root, &["cargo", "check", "--package", "synapse", "--target", TARGET, "--locked"], &no_c)?;
    Ok(Outcome::Done)
}

/// Mail for two of them, one round; two agents that talk are in the full rounds.
fn two_real_clis(root: &Path) -> anyhow::Result<Outcome> {
    const CASES: &str = "turn,permission,interrupt,exact,hostile,prompt,kept draft,urgent,crash,answer,at";
    real_clis(root, &["--agents", "codex,claude", "--only", CASES, "--retry"])
}

fn all_real_clis(root: &Path) -> anyhow::Result<Outcome> {
    real_clis(root, &["--rounds", "2", "--load", "--retry"])
}

/// They run in a network that has only loopback, or not at all.
fn real_clis(root: &Path, more: &[&str]) -> anyhow::Result<Outcome> {
    if real_agents::own_network(root).is_err() {
        return Ok(Outcome::Skipped(
            "no network of its own can be made here: `unshare -rn true` has to work",
        ));
    }
    let line = [&["cargo", "xtask", "real-agents"], more].concat();
    println!("{}", line.join(" "));
    shell::show(root, &line, &[])?;
    Ok(Outcome::Done)
}

/// Doc tests are linked one by one and cost a minute even when there are none, so they are looked for first.
fn doc_tests(root: &Path) -> anyhow::Result<Outcome> {
    let tree = Tree::list(root)?;
    for path in tree.paths().filter(|path| path.ends_with(".rs") && path.contains("/src/")) {
        let text = fs::read_to_string(root.join(path)).with_context(|| format!("reading {path}"))?;
        if has_doc_test(&text) {
            shell::show(root, &["cargo", "test", "--workspace", "--doc", "--locked"], &[])?;
            return Ok(Outcome::Done);
        }
    }
    Ok(Outcome::Skipped("there are none"))
}

fn has_doc_test(text: &str) -> bool {
    let mut inside = false;
    for line in text.lines().map(str::trim_start) {
        let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            inside = false;
            continue;
        };
        let Some(language) = doc.trim().strip_prefix("```") else { continue };
        let runs =
            language.split(',').all(|word| ["", "rust", "no_run", "should_panic"].contains(&word.trim()));
        if !inside && runs {
            return true;
        }
        inside = !inside;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSES: Step = always("passes", Act::Run(&["true"], &[]));
    const FAILS: Step = always("fails", Act::Run(&["false"], &[]));
    const SKIPS: Step = always("skips", Act::Call(|_| Ok(Outcome::Skipped("nothing to do"))));

    fn check(steps: &[Step]) -> Result<(), String> {
        run_table(&shell::root(), steps.iter()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_failed_step_is_named_and_the_rest_still_runs() {
        assert_eq!(check(&[PASSES, SKIPS]), Ok(()));
        let said = check(&[FAILS, PASSES, always("fails too", Act::Run(&["false"], &[]))]).unwrap_err();
        assert!(said.starts_with("2 of 3 steps failed"), "{said}");
        assert!(said.ends_with("fails; fails too"), "{said}");
    }

    #[test]
    fn a_step_sees_its_environment() {
        const ENV: Step =
            always("env", Act::Run(&["sh", "-c", "test \"$COLOUR\" = red"], &[("COLOUR", "red")]));
        assert_eq!(check(&[ENV]), Ok(()));
        assert!(spelled(&ENV.act).contains("COLOUR='red' sh"));
    }

    #[test]
    fn the_long_rounds_come_last() {
        let first_full = STEPS.iter().position(|step| step.when == When::Full).unwrap();
        assert!(STEPS[first_full..].iter().all(|step| step.when == When::Full));
    }

    #[test]
    fn only_rust_in_a_doc_comment_is_a_doc_test() {
        assert!(has_doc_test("/// ```\n/// let x = 1;\n/// ```\n"));
        assert!(has_doc_test("//! ```text\n//! a\n//! ```\n//! ```rust,no_run\n"));
        assert!(!has_doc_test("//! ```text\n//! a\n//! ```\n"));
        assert!(!has_doc_test("/// ```json\n/// {}\n/// ```\nfn a() { \"```\"; }\n"));
    }
}
