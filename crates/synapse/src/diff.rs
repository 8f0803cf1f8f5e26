//! The difference of two texts that differ in one place, for people to read.
//!
//! Not here: the general case. What is changed here is one block, so the lines before and after it are the same.

/// As `diff -u` writes it, with three lines of what is around; empty if there is none.
pub fn lines(name: &str, old: &str, new: &str) -> Vec<String> {
    const AROUND: usize = 3;
    if old == new {
        return Vec::new();
    }
    let (a, b): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let head = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let rest = a.len().min(b.len()) - head;
    let tail = a.iter().rev().zip(b.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let from = head.saturating_sub(AROUND);
    let end = |lines: &[&str]| (lines.len() - tail + AROUND).min(lines.len());
    let mut out = vec![
        format!("--- {name}"),
        format!("+++ {name}"),
        format!("@@ -{} +{} @@", span(from, end(&a)), span(from, end(&b))),
    ];
    let mut say = |sign: char, line: &str| {
        out.push(format!("{sign}{}", line.trim_end_matches(['\n', '\r'])));
        if !line.ends_with('\n') {
            out.push("\\ no line break at the end".to_owned());
        }
    };
    a[from..head].iter().for_each(|line| say(' ', line));
    a[head..a.len() - tail].iter().for_each(|line| say('-', line));
    b[head..b.len() - tail].iter().for_each(|line| say('+', line));
    b[b.len() - tail..end(&b)].iter().for_each(|line| say(' ', line));
    out
}

fn span(from: usize, end: usize) -> String {
    let count = end - from;
    format!("{},{count}", if count == 0 { from } else { from + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_shown() {
        let table: &[(&str, &str, &[&str])] = &[
            ("a\n", "a\n", &[]),
            ("", "x\n", &["@@ -0,0 +1,1 @@", "+x"]),
            ("x\n", "", &["@@ -1,1 +0,0 @@", "-x"]),
            ("1\n2\n3\n4\n5\n", "1\n2\n3\n4\n5\nx\n", &["@@ -3,3 +3,4 @@", " 3", " 4", " 5", "+x"]),
            (
                "1\nold\n3\n4\n5\n6\n",
                "1\nnew\n3\n4\n5\n6\n",
                &["@@ -1,5 +1,5 @@", " 1", "-old", "+new", " 3", " 4", " 5"],
            ),
            ("a", "a\nb\n", &["@@ -1,1 +1,2 @@", "-a", "\\ no line break at the end", "+a", "+b"]),
            ("a\na\n", "a\na\na\n", &["@@ -1,2 +1,3 @@", " a", " a", "+a"]),
        ];
        for (old, new, expected) in table {
            let said = lines("f", old, new);
            let said: Vec<&str> = said.iter().map(String::as_str).skip(2).collect();
            assert_eq!(said, *expected, "{old:?} {new:?}");
        }
    }
}
