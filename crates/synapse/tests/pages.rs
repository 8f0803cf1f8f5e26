//! The docs are true: every `sh` block of the README and of each page under `docs/` runs as
//! written.
//!
//! There is one test for each page, and new pages are found automatically. The blocks of a page run
//! in one shell, in their order, in a fresh home and from an empty folder, and must leave no
//! process behind. Two more tests run all pages one after another, as a reader does: in one home and
//! one folder, and in one home with a folder for each page, in the opposite order. No block may
//! remove or stop what is not its own.
//!
//! Not here: blocks in other languages (`text`, `console`, `json`), which are not run.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use synapse_testkit::{Ran, World};

/// Lines that the commands of a page must print, where the output is always the same.
const PRINTS: &[(&str, &[&str])] = &[
    ("heavy_readme", &["HELLO", "WELCOME BACK", "HELLO THERE "]),
    (
        "heavy_docs_five-minutes",
        &["HELLO", "all steps done", "GREETINGS FROM USER", "ARE YOU THERE?", "done: a long job"],
    ),
    (
        "heavy_docs_scripts-as-agents",
        &["3 words", "it is a folder", "the shed is blue", "half of it", "send exits with 3"],
    ),
    (
        "heavy_docs_two-agents",
        &[
            "THE TITLE, PLEASE",
            "yell is called loud now",
            "from user",
            "from asker",
            "from asker (by user)",
            "user: desserts",
            "visitor: diaper",
        ],
    ),
    ("heavy_docs_http", &["\"duplicate\":true", "completed HELLO", "/api/v1/stream"]),
];

struct Page {
    /// `heavy_readme`, `heavy_docs_upgrading`: heavy, because pages start many agents.
    test: String,
    path: PathBuf,
}

/// Replaces the test harness, because the tests depend on which files exist. Supports the arguments
/// that test runners use: list the tests, or run those with these names.
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is = |flag: &str| args.iter().any(|arg| arg == flag);
    let names: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-') && *arg != "terse").collect();
    let wanted = |test: &str| {
        names.is_empty()
            || names.iter().any(|name| if is("--exact") { test == *name } else { test.contains(*name) })
    };
    let mut tests: Vec<(String, Box<dyn FnOnce()>)> = vec![
        ("blocks_are_found".into(), Box::new(blocks_are_found)),
        ("readme_begins_with_what_a_newcomer_needs".into(), Box::new(readme_begins)),
        ("commands_that_pages_name_exist".into(), Box::new(named_commands_exist)),
        ("no_block_harms_the_home_of_its_reader".into(), Box::new(no_block_harms_the_home_of_its_reader)),
        ("heavy_all_pages_in_one_home_and_folder".into(), Box::new(|| run_all(pages(), false))),
        (
            "heavy_all_pages_in_one_home_backwards".into(),
            Box::new(|| run_all(pages().into_iter().rev().collect(), true)),
        ),
    ];
    tests.extend(
        pages()
            .into_iter()
            .map(|page| (page.test.clone(), Box::new(move || run(&page)) as Box<dyn FnOnce()>)),
    );
    for (test, run) in tests.into_iter().filter(|(test, _)| wanted(test)) {
        match (is("--list"), is("--ignored")) {
            // No test is ignored.
            (_, true) => {}
            (true, false) => println!("{test}: test"),
            (false, false) => {
                println!("{test}");
                run();
            }
        }
    }
    ExitCode::SUCCESS
}

/// CLIs for which a page makes a profile.
const OF_A_PROFILE: &[&str] = &["pi"];
/// What GitHub shows without scrolling far.
const FIRST_SCREEN_LINES: usize = 64;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<Page> {
    let root = root();
    let files = std::fs::read_dir(root.join("docs")).into_iter().flatten().flatten().map(|file| file.path());
    let mut pages: Vec<Page> = files
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .map(|path| Page { test: format!("heavy_docs_{}", path.file_stem().unwrap().display()), path })
        .filter(|page| !blocks(&std::fs::read_to_string(&page.path).unwrap()).is_empty())
        .collect();
    pages.push(Page { test: "heavy_readme".into(), path: root.join("README.md") });
    pages.sort_by(|a, b| a.test.cmp(&b.test));
    pages
}

/// A home and a folder of its own for one page.
fn run(page: &Page) {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    // `~` is a folder of this test too, so that commands cannot reach the home of whoever runs the
    // tests.
    let person = world.home().with_file_name("person");
    std::fs::create_dir(&person).unwrap();
    run_in(&world, &person, page);
}

/// Pastes one page after the other into shells of the same person.
fn run_all(pages: Vec<Page>, folder_each: bool) {
    let root = tempfile::Builder::new().prefix("synapse-test-").tempdir().unwrap();
    let person = root.path().join("person");
    std::fs::create_dir(&person).unwrap();
    // Where Synapse puts its home if nothing says otherwise.
    let home = person.join(".synapse");
    for page in pages {
        let folder = if folder_each { person.join(&page.test) } else { person.join("project") };
        let world = World::at(env!("CARGO_BIN_EXE_synapse"), &home, &folder);
        run_in(&world, &person, &page);
    }
}

fn run_in(world: &World, person: &Path, page: &Page) {
    let blocks = blocks(&std::fs::read_to_string(&page.path).unwrap());
    let mut script = String::new();
    for (n, block) in blocks.iter().enumerate() {
        script.push_str(&format!("echo '--- block {} of {}' >&2\n{block}\n", n + 1, page.test));
    }
    let here = world.exe().parent().unwrap().display().to_string();
    let path = format!("{here}:{}", std::env::var("PATH").unwrap_or_default());
    let mut shell = world.prepare(Command::new("sh"), &["-e", "-c", &script]);
    let ran = Ran::new(
        &[&page.test],
        shell.env("PATH", &path).env("HOME", person).env("TMPDIR", person).output().unwrap(),
    )
    .ok();
    let printed = PRINTS.iter().filter(|(test, _)| *test == page.test).flat_map(|(_, lines)| *lines);
    for line in printed {
        assert!(ran.stdout.lines().any(|own| own == *line), "{line} is not in\n{}", ran.stdout);
    }
    world.wait_until("the page has ended all that it started", || world.processes().is_empty());
}

/// Parts of commands that stop, remove or replace what the block did not start itself.
const HARMFUL: &[&str] = &[
    "uninstall",
    "kill --all",
    "stop --all",
    "clean --yes",
    "clean -y",
    "clean --stopped",
    "clean --older-than",
    "upgrade-agents --all",
    "token rotate",
    "init --user",
    "broadcast",
    "rm -rf ~",
    "rm -rf $HOME",
    "rm -rf \"$HOME",
    "rm -rf /",
];

/// The first harmful line of a block, unless the block sets a temporary home before it.
fn harmful_line(block: &str) -> Option<&str> {
    for line in block.lines() {
        let command = line.trim();
        if command.starts_with("export SYNAPSE_HOME=$(mktemp -d)") {
            return None;
        }
        let is_harmful = HARMFUL.iter().any(|words| command.contains(words));
        // A variable that is unset there would make a path of `/`.
        let needs_home = command.contains("$SYNAPSE_HOME");
        if needs_home || is_harmful && !command.contains("--dry-run") {
            return Some(line);
        }
    }
    None
}

/// Finding 17: the page on housekeeping ended in `uninstall --yes` of the reader's own home.
fn no_block_harms_the_home_of_its_reader() {
    for (block, expected) in [
        ("synapse uninstall --yes", Some("synapse uninstall --yes")),
        ("synapse list\nsynapse kill --all", Some("synapse kill --all")),
        ("synapse clean --uninstall --dry-run", None),
        ("(\n  export SYNAPSE_HOME=$(mktemp -d)\n  synapse clean --uninstall --yes\n)", None),
        ("synapse uninstall --yes\nexport SYNAPSE_HOME=$(mktemp -d)", Some("synapse uninstall --yes")),
        ("chmod 755 \"$SYNAPSE_HOME\"", Some("chmod 755 \"$SYNAPSE_HOME\"")),
        ("ls \"${SYNAPSE_HOME:-$HOME/.synapse}\"", None),
        ("synapse kill shout", None),
    ] {
        assert_eq!(harmful_line(block), expected, "{block}");
    }
    for page in pages() {
        for block in blocks(&std::fs::read_to_string(&page.path).unwrap()) {
            assert_eq!(harmful_line(&block), None, "{}:\n{block}", page.test);
        }
    }
}

fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == "```sh") {
        blocks.push(lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>().join("\n"));
    }
    blocks
}

fn readme_begins() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let first: Vec<&str> = text.lines().take(FIRST_SCREEN_LINES).collect();
    let first = first.join("\n");
    for part in [
        "Claude Code, Codex, Gemini CLI or OpenCode",
        "](docs/panes.svg)",
        "](#install)",
        "synapse claude ",
        "synapse codex ",
        "`@codex review this`",
        "**Nothing is lost.**",
        "**No prompt is approved behind your back.**",
        "**Your draft stays yours.**",
        "synapse a2a serve --name shout --exec 'tr a-z A-Z'",
        "| Synapse | hcom |",
        "cargo xtask bench delivery",
        "cargo run --release -- demo",
        "cargo xtask test",
    ] {
        assert!(first.contains(part), "{part:?} is not in the first {FIRST_SCREEN_LINES} lines");
    }
}

/// Every `synapse WORD` in the README and under `docs/`, in code, is a command or a CLI.
fn named_commands_exist() {
    let world = World::new(env!("CARGO_BIN_EXE_synapse"));
    let mut named = BTreeMap::new();
    let files = std::fs::read_dir(root().join("docs")).unwrap().map(|file| file.unwrap().path());
    for path in files.chain([root().join("README.md")]).filter(|path| path.extension() == Some("md".as_ref()))
    {
        for word in named_commands(&std::fs::read_to_string(&path).unwrap()) {
            named.entry(word).or_insert(path.clone());
        }
    }
    assert!(named.len() > 30, "{named:?}");
    named.retain(|word, _| !OF_A_PROFILE.contains(&word.as_str()));
    named.retain(|word, _| world.synapse(&["help", word]).code != Some(0));
    assert!(named.is_empty(), "these are no commands: {named:?}");
}

/// The words that follow `synapse` in inline code and in blocks of commands.
fn named_commands(text: &str) -> Vec<String> {
    let (mut words, mut is_code, mut is_command) = (Vec::new(), false, false);
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_command = !is_code && ["sh", "console"].contains(&language);
            is_code = !is_code;
            continue;
        }
        let parts: Vec<&str> = match (is_code, is_command) {
            (true, true) => line.split(['|', '(', ';', '&']).collect(),
            (true, false) => Vec::new(),
            (false, _) => line.split('`').skip(1).step_by(2).collect(),
        };
        for part in parts {
            let mut rest = part.split_whitespace();
            let word = rest.next().filter(|first| *first == "synapse").and_then(|_| rest.next());
            let is_word =
                |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
            words.extend(word.filter(is_word).filter(|word| !word.starts_with('-')).map(str::to_owned));
        }
    }
    words
}

fn blocks_are_found() {
    let page = "Use `synapse send x` or `synapse <X>`.\n```sh\na && synapse list | cat\n```\n```text\nsynapse 0.1.0\n```\n`synapse kill`";
    assert_eq!(named_commands(page), ["send", "list", "kill"]);
    let pages = pages();
    for (test, _) in PRINTS {
        assert!(pages.iter().any(|page| page.test == *test), "no page is called {test}");
    }
    let page = "```sh\none\ntwo\n```\n```console\nno\n```\n\n```sh\nthree\n```\n";
    assert_eq!(blocks(page), ["one\ntwo", "three"]);
    assert_eq!(blocks("no code"), [""; 0]);
}
