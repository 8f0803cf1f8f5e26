//! The chores of this workspace, run as `cargo xtask <chore>`.
//!
//! `test` is the one command that says whether a change is good; the other
//! chores are its parts, or what happens after it said yes. A laptop and a
//! build server run the same ones.
//!
//! Exit codes: 0 all is well, 1 a chore found something, 2 the command line
//! made no sense.

mod audit;
mod bench;
mod dist;
mod golden;
mod interop;
mod mock_llm;
mod needs;
mod proto;
mod real_agents;
mod record;
mod rows;
mod sbom;
mod sdk;
mod shell;
mod sim;
mod steps;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test [--full]     every check there is, with the time each took; --full adds the long rounds
  tidy              the rules of the tree: arrows, purity, sizes, words, links
  sim [--seeds N] [--first-seed M] [--steps K] [--break NAME]
                    worlds with crashes and faults, each from one seed, and a checker over them
  bench spine|people|terminal|delivery|a2a|bounds [--json] [--quick] [--only NAME] [--sends N]
       [--binary FILE]
                    how fast it is, beside what limits it, into target/bench/<set>.json
  real-agents [--watch-only] [--agents codex,claude,qwen@0.15.10] [--rounds N] [--size 80x24]
              [--only NAME,NAME] [--more] [--load] [--retry] [--json] [--keep] [--write]
                    real CLIs, wrapped, against a mock of their model: is what they do seen truly, and
                    does what is sent to them arrive; --write into docs/real-clis.md
  mock-llm [--port N] [--log FILE] [--script FILE]
                    that mock alone, until it is ended
  sdk               fetch the official SDKs of A2A that the tests are called by, into target/sdk
  interop [--write] [NAME]...
                    other makers' frameworks call us and are called by us; --write into docs/a2a-interop.md
  audit [--refresh] licences, advisories and duplicates among the dependencies; --refresh fetches the advisories
  proto [--check]   write the code of the A2A messages from their protos; --check compares instead
  rows              which test holds which row of A2A, into docs/a2a-rows.md
  golden [--bless]  compare the golden files; --bless writes what the code says now
  record [--panes [--redraw]]
                    the demo in a real terminal, into docs/demo.cast and docs/demo.svg; --panes records
                    Claude Code and Codex with a mock of their models, into docs/panes.svg and two casts;
                    --redraw only draws those casts
  dist [--target TRIPLE]... [--check] [--sizes]
                    the files of a release, into target/packages: a static binary as archive, .deb, packages of
                    npm and wheel; --check installs and runs each; --sizes shows what the binary consists of
  help              this text
";

/// What was asked for on the command line.
#[derive(Debug, PartialEq, Eq)]
enum Chore {
    Test { full: bool },
    Tidy,
    Sim { words: Vec<String> },
    Bench { words: Vec<String> },
    Agent { words: Vec<String> },
    RealAgents { words: Vec<String> },
    CliSpeed { words: Vec<String> },
    MockLlm { words: Vec<String> },
    Sdk,
    Interop { words: Vec<String> },
    Audit { refresh: bool },
    Proto { check: bool },
    Rows,
    Golden { bless: bool },
    Record { words: Vec<String> },
    Panes { words: Vec<String> },
    Dist { words: Vec<String> },
    EmptyRoot { words: Vec<String> },
    Help,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let chore = match parse(&words) {
        Ok(chore) => chore,
        Err(wrong) => {
            eprint!("{wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[&str]) -> Result<Chore, String> {
    match words {
        ["test"] => Ok(Chore::Test { full: false }),
        ["test", "--full"] => Ok(Chore::Test { full: true }),
        ["tidy"] => Ok(Chore::Tidy),
        ["sim", words @ ..] => Ok(Chore::Sim { words: words.iter().map(ToString::to_string).collect() }),
        ["bench", words @ ..] => Ok(Chore::Bench { words: words.iter().map(ToString::to_string).collect() }),
        [bench::delivery::AGENT, words @ ..] => {
            Ok(Chore::Agent { words: words.iter().map(ToString::to_string).collect() })
        }
        ["real-agents", words @ ..] => {
            Ok(Chore::RealAgents { words: words.iter().map(ToString::to_string).collect() })
        }
        [real_agents::speed::INSIDE, words @ ..] => {
            Ok(Chore::CliSpeed { words: words.iter().map(ToString::to_string).collect() })
        }
        ["mock-llm", words @ ..] => {
            Ok(Chore::MockLlm { words: words.iter().map(ToString::to_string).collect() })
        }
        ["sdk"] => Ok(Chore::Sdk),
        ["interop", words @ ..] => {
            Ok(Chore::Interop { words: words.iter().map(ToString::to_string).collect() })
        }
        ["audit"] => Ok(Chore::Audit { refresh: false }),
        ["audit", "--refresh"] => Ok(Chore::Audit { refresh: true }),
        ["proto"] => Ok(Chore::Proto { check: false }),
        ["proto", "--check"] => Ok(Chore::Proto { check: true }),
        ["rows"] => Ok(Chore::Rows),
        ["golden"] => Ok(Chore::Golden { bless: false }),
        ["golden", "--bless"] => Ok(Chore::Golden { bless: true }),
        ["record", words @ ..] => {
            Ok(Chore::Record { words: words.iter().map(ToString::to_string).collect() })
        }
        [real_agents::panes::INSIDE, words @ ..] => {
            Ok(Chore::Panes { words: words.iter().map(ToString::to_string).collect() })
        }
        ["dist", words @ ..] => Ok(Chore::Dist { words: words.iter().map(ToString::to_string).collect() }),
        [dist::INSIDE, words @ ..] => {
            Ok(Chore::EmptyRoot { words: words.iter().map(ToString::to_string).collect() })
        }
        [] | ["help" | "--help" | "-h"] => Ok(Chore::Help),
        _ => Err(format!("`cargo xtask {}` is not a chore", words.join(" "))),
    }
}

fn run(chore: Chore) -> anyhow::Result<()> {
    let root = shell::root();
    match chore {
        Chore::Test { full } => steps::run(&root, full),
        Chore::Tidy => tidy::run(&root),
        Chore::Sim { words } => sim::run(&root, &words),
        Chore::Bench { words } => bench::run(&root, &words),
        Chore::Agent { words } => bench::delivery::agent::run(&words),
        Chore::RealAgents { words } => real_agents::run(&root, &words),
        Chore::CliSpeed { words } => real_agents::speed::inside(&root, &words),
        Chore::MockLlm { words } => mock_llm::run(&words),
        Chore::Sdk => sdk::ensure_all(&root),
        Chore::Interop { words } => interop::run(&root, &words),
        Chore::Audit { refresh } => audit::run(&root, refresh),
        Chore::Proto { check } => proto::run(&root, check),
        Chore::Rows => rows::run(&root),
        Chore::Golden { bless } => golden::run(&root, bless),
        Chore::Record { words } => record::run(&root, &words),
        Chore::Panes { words } => real_agents::panes::inside(&root, &words),
        Chore::Dist { words } => dist::run(&root, &words),
        Chore::EmptyRoot { words } => dist::inside(&words),
        Chore::Help => {
            print!("{USAGE}");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_chores() {
        assert_eq!(parse(&["test"]), Ok(Chore::Test { full: false }));
        assert_eq!(parse(&["test", "--full"]), Ok(Chore::Test { full: true }));
        assert_eq!(parse(&["golden", "--bless"]), Ok(Chore::Golden { bless: true }));
        let words = ["--seeds", "5"].map(String::from).to_vec();
        assert_eq!(parse(&["sim", "--seeds", "5"]), Ok(Chore::Sim { words }));
        assert_eq!(parse(&[]), Ok(Chore::Help));
    }

    #[test]
    fn a_word_too_many_is_not_swallowed() {
        assert!(parse(&["tidy", "--full"]).is_err());
        assert!(parse(&["tset"]).unwrap_err().contains("tset"));
    }
}
