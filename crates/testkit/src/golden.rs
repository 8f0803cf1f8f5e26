//! Golden files: what the code says, kept in the tree, so that a change of it is a diff to review.
//!
//! A test that uses this has `golden` in its name: `cargo xtask golden --bless` finds it so.
//! Not here: what is worth keeping; each crate knows its own files.

use std::fmt::Write as _;
use std::path::Path;

const HOW_TO_BLESS: &str = "if this is meant, run `cargo xtask golden --bless` and read `git diff`";

/// Compares a text with its golden file; with `SYNAPSE_BLESS` set, writes the file instead.
///
/// # Panics
/// If they differ: the message shows where, and how to accept it.
#[track_caller]
pub fn check(path: &Path, actual: &str) {
    if std::env::var_os("SYNAPSE_BLESS").is_some() {
        return bless(path, actual);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match std::fs::read_to_string(path) {
        Ok(expected) if expected == actual => {}
        Ok(expected) => {
            panic!("{name} is not what the code says now; {HOW_TO_BLESS}\n{}", diff(&expected, actual))
        }
        Err(e) => panic!("{name} cannot be read ({e}); {HOW_TO_BLESS}\n{}", diff("", actual)),
    }
}

/// As `check`, for a value in its usual JSON form, one field per line.
#[track_caller]
pub fn check_json(path: &Path, actual: &serde_json::Value) {
    let mut text = format!("{actual:#}");
    text.push('\n');
    check(path, &text);
}

fn bless(path: &Path, actual: &str) {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).expect("the folder of golden files can be made");
    std::fs::write(path, actual).expect("a golden file can be written");
}

/// The lines that differ, each with its number, between the beginnings and ends that are the same.
fn diff(expected: &str, actual: &str) -> String {
    const LINES_MAX: usize = 60;
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same_from = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[same_from..], &new[same_from..]);
    let same_to = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let mut text = String::new();
    for (sign, rest) in [('-', old_rest), ('+', new_rest)] {
        let changed = &rest[..rest.len() - same_to];
        for (n, line) in changed.iter().take(LINES_MAX).enumerate() {
            let _ = writeln!(text, "{sign} {:>4}  {line}", same_from + n + 1);
        }
        if changed.len() > LINES_MAX {
            let _ = writeln!(text, "{sign}       and {} lines more", changed.len() - LINES_MAX);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_the_lines_that_changed_and_no_others() {
        assert_eq!(diff("a\nb\nc\n", "a\nx\ny\nc\n"), "-    2  b\n+    2  x\n+    3  y\n");
        assert_eq!(diff("", "a\n"), "+    1  a\n");
        assert_eq!(diff("a\na\n", "a\n"), "-    2  a\n");
    }
}
