//! Forbidden words: unfinished work, tests that sleep or are ignored, paths of one machine.

use super::Violation;
use super::source::{Source, words};

const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];
const WAIT: &str = "// tidy: wait";

pub(super) fn leaves_nothing_unfinished(file: &Source<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, code) in file.numbered() {
        for name in UNFINISHED {
            if words(code, name).any(|at| code[at + name.len()..].starts_with("!(")) {
                let what = format!("`{name}!` left behind: finish it or take it out");
                found.push(Violation::new(file.path, line, what));
            }
        }
    }
    found
}

pub(super) fn runs_every_test(file: &Source<'_>) -> Vec<Violation> {
    let ignored = file.numbered().filter(|(_, code)| {
        let plain = code.trim_start().starts_with("#[ignore");
        let conditional = code.contains("#[cfg_attr(") && words(code, "ignore").next().is_some();
        plain || conditional
    });
    let what = "an ignored test: assert what happens today, or take the test out";
    ignored.map(|(line, _)| Violation::new(file.path, line, what)).collect()
}

pub(super) fn sleeps_in_no_test(file: &Source<'_>) -> Vec<Violation> {
    let sleeping = file.test_lines().filter(|(line, code)| {
        let sleeps = words(code, "sleep").any(|at| {
            let (before, after) = (&code[..at], &code[at + "sleep".len()..]);
            let of_a_clock = before.ends_with("thread::") || before.ends_with("time::");
            let called = after.starts_with('(') && !before.ends_with(['.', ':']) && !before.ends_with("fn ");
            of_a_clock || called
        });
        sleeps && !file.written(*line).contains(WAIT)
    });
    let what = "a test that sleeps: wait for what it wishes for (`wait_until` of the testkit)";
    sleeping.map(|(line, _)| Violation::new(file.path, line, what)).collect()
}

/// Finds paths that exist on only one machine. Checks every text file, including comments.
pub(super) fn names_no_machine(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(named) = machine_path(line) {
            let what = format!("`{named}` names one machine: write `~` or a path from the root of the tree");
            found.push(Violation::new(path, index + 1, what));
        }
    }
    found
}

/// Folders that are private themselves, and folders whose children are.
const OWN: &[&str] = &["work", "root"];
const OWNED: &[&str] = &["home", "Users"];

fn machine_path(line: &str) -> Option<&str> {
    for (slash, _) in line.match_indices('/') {
        // Inside a longer path or a URL, such a folder is fine.
        let before = line[..slash].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || "_-.~/}*".contains(c))
            && !line[..slash].ends_with("file://")
        {
            continue;
        }
        let mut parts = line[slash + 1..].split('/');
        let (first, second) = (parts.next()?, parts.next());
        let Some(second) = second else { continue };
        let name = &second[..second.find(|c: char| !is_name(c)).unwrap_or(second.len())];
        if OWN.contains(&first) {
            return Some(&line[slash..slash + first.len() + 2]);
        }
        if OWNED.contains(&first) && !name.is_empty() {
            return Some(&line[slash..slash + first.len() + name.len() + 2]);
        }
    }
    None
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || "_-.".contains(c)
}

#[cfg(test)]
mod tests {
    use super::super::Rule;
    use super::*;

    #[track_caller]
    fn check(rule: Rule, path: &str, text: &str, lines: &[usize]) {
        let found = rule(&Source::new(path, text));
        assert_eq!(found.iter().map(|v| v.line).collect::<Vec<_>>(), lines, "{text}: {found:?}");
    }

    #[test]
    fn unfinished_work_is_seen() {
        check(leaves_nothing_unfinished, "a.rs", "fn f() {\n  todo!()\n}\n", &[2]);
        check(leaves_nothing_unfinished, "a.rs", "unimplemented!(\"x\");\ndbg!(x);\n", &[1, 2]);
        check(leaves_nothing_unfinished, "a.rs", "// todo!()\nlet s = \"todo!(\"; not_todo!(x);\n", &[]);
    }

    #[test]
    fn no_test_is_set_aside() {
        check(runs_every_test, "a.rs", "#[test]\n#[ignore]\nfn a() {}\n", &[2]);
        check(
            runs_every_test,
            "a.rs",
            "#[ignore = \"slow\"]\n#[cfg_attr(unix, ignore)]\nfn a() {}\n",
            &[1, 2],
        );
        check(runs_every_test, "a.rs", "// #[ignore]\nlet ignore = 1;\n", &[]);
    }

    #[test]
    fn no_test_sleeps() {
        let test = "crates/a/tests/a.rs";
        check(sleeps_in_no_test, test, "std::thread::sleep(x);\ntokio::time::sleep(x).await;\n", &[1, 2]);
        check(sleeps_in_no_test, test, "use tokio::time::{Duration, sleep};\nsleep(x).await;\n", &[2]);
        check(sleeps_in_no_test, test, "let mut sleep = Command::new(\"sleep\"); sleep.kill();\n", &[]);
        check(sleeps_in_no_test, test, "thread::sleep(STEP); // tidy: wait\n", &[]);
        let unit = "fn f() { thread::sleep(x) }\n#[cfg(test)]\nmod tests {\n  thread::sleep(x)\n}\n";
        check(sleeps_in_no_test, "crates/a/src/a.rs", unit, &[4]);
        check(sleeps_in_no_test, "crates/testkit/src/lib.rs", "thread::sleep(x);\n", &[1]);
    }

    #[track_caller]
    fn names(line: &str, expected: Option<&str>) {
        let found = names_no_machine("a.md", line);
        assert_eq!(found.first().map(|v| v.what.split('`').nth(1).unwrap()), expected, "{line}");
    }

    #[test]
    fn paths_of_one_machine_are_seen() {
        names(concat!("cd /wo", "rk/main"), Some(concat!("/wo", "rk/")));
        names(concat!("\"/ro", "ot/.cargo\""), Some(concat!("/ro", "ot/")));
        names(concat!("see (/ho", "me/user/x)"), Some(concat!("/ho", "me/user")));
        names(concat!("/Use", "rs/ana"), Some(concat!("/Use", "rs/ana")));
        names(concat!("file:///ho", "me/ana/x"), Some(concat!("/ho", "me/ana")));
    }

    #[test]
    fn other_paths_are_nobodys() {
        names(concat!("~/wo", "rk/a and ./ro", "ot/b and https://example.org/ho", "me/ana/"), None);
        names(
            concat!("/homework/a, /ho", "me/ alone, /ho", "me/{name}/x, GET /ro", "ot, network/wo", "rk/x"),
            None,
        );
    }
}
