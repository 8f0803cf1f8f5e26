//! `--sizes`: what the binary consists of, by section and by crate.
//!
//! A function counts for the crate that its name begins with; `<A as B>::c` counts for the crate of
//! A. So code that was generated from generic functions of a crate counts for that crate, also if
//! another one caused it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

use super::build::Built;
use crate::shell;

/// How many crates are shown; the rest is one line.
const ROWS_MAX: usize = 25;

pub(super) fn print(root: &Path, built: &Built) -> anyhow::Result<()> {
    let path = built.path.display().to_string();
    println!("{}, stripped: {} bytes\n", built.target.triple, built.binary.len());
    let sections = shell::read(root, &["size", "--format=sysv", &path])?;
    println!("{}", table("section", sections_of(&sections)));
    let symbols = shell::read(root, &["nm", "--print-size", "--defined-only", "--demangle", &path])?;
    println!("{}", table("code of", crates_of(&symbols)?));
    Ok(())
}

/// Section and size from `size --format=sysv`, without those that are not loaded (address 0).
fn sections_of(listed: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, size, address] = words[..] else { return None };
        (address != "0").then_some((name.to_owned(), size.parse().ok()?))
    };
    listed.lines().filter_map(row).collect()
}

/// The size of the functions of each crate, from the output of `nm`. Functions that the linker made
/// one are listed with the same address, and count once.
fn crates_of(listed: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut functions = BTreeMap::new();
    for line in listed.lines() {
        let mut words = line.splitn(4, ' ');
        let (Some(address), Some(size), Some("t" | "T" | "w" | "W"), Some(name)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let size = u64::from_str_radix(size, 16).with_context(|| format!("a line of nm: {line}"))?;
        functions.entry(address).or_insert((size, crate_of(name)));
    }
    let mut crates = BTreeMap::new();
    for (size, name) in functions.into_values() {
        *crates.entry(name).or_default() += size;
    }
    Ok(crates)
}

/// The crate of a demangled name: `a` of `a::b` and of `<&mut a::B as c::D>::e`.
fn crate_of(name: &str) -> String {
    if !name.contains("::") {
        return "C and assembler".to_owned();
    }
    let mut rest = name;
    while let Some(inner) = ["<", "&", "(", "[", "*const ", "*mut ", "mut ", "dyn ", "impl "]
        .iter()
        .find_map(|open| rest.strip_prefix(open))
    {
        rest = inner;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    match &rest[..end] {
        // A type parameter, or a type that is built in.
        name if is_parameter(name) || ["str", "bool", "u8"].contains(&name) => "core".to_owned(),
        name => name.to_owned(),
    }
}

/// `T`, or nothing: a name that begins with a symbol.
fn is_parameter(name: &str) -> bool {
    name.len() < 2 && name.chars().all(|c| c.is_ascii_uppercase())
}

fn table(head: &str, sizes: BTreeMap<String, u64>) -> String {
    let sum: u64 = sizes.values().sum();
    let mut rows: Vec<(String, u64)> = sizes.into_iter().collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let rest: u64 = rows.iter().skip(ROWS_MAX).map(|row| row.1).sum();
    rows.truncate(ROWS_MAX);
    if rest > 0 {
        rows.push(("others".to_owned(), rest));
    }
    rows.push(("sum".to_owned(), sum));
    let line = |(name, size): &(String, u64)| format!("| {name} | {size} |\n");
    format!("| {head} | bytes |\n|---|---:|\n{}", rows.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_counts_for_the_crate_of_its_type() {
        let cases = [
            ("synapse_core::hub::Hub::handle::h35e2", "synapse_core"),
            ("<&mut serde_json::de::Deserializer<R> as serde_core::de::Deserializer>::f", "serde_json"),
            ("<<a1::Card as serde::de::Deserialize>::deserialize::V as serde::de::Visitor>::visit", "a1"),
            ("<T as alloc::string::ToString>::to_string", "core"),
            ("sqlite3VdbeExec", "C and assembler"),
        ];
        for (name, wanted) in cases {
            assert_eq!(crate_of(name), wanted, "{name}");
        }
    }

    #[test]
    fn folded_functions_count_once() {
        let listed = "0000000000001000 0000000000000010 t a::b\n\
                      0000000000001000 0000000000000010 t c::d\n\
                      0000000000002000 0000000000000020 T a::e\n\
                      0000000000003000 0000000000000400 r TABLE\n\
                      0000000000004000 A _end\n";
        assert_eq!(crates_of(listed).unwrap(), BTreeMap::from([("a".to_owned(), 0x30)]));
    }

    #[test]
    fn the_biggest_come_first_and_all_add_up() {
        let sizes = (0..30).map(|n: u64| (format!("crate{n}"), n + 1)).collect();
        let table = table("code of", sizes);
        assert!(table.contains("| crate29 | 30 |\n| crate28 | 29 |"), "{table}");
        assert!(table.ends_with("| others | 15 |\n| sum | 465 |\n"), "{table}");
        let listed = "synapse  :\nsection size addr\n.text 70 4096\n.comment 9 0\nTotal 79\n";
        assert_eq!(sections_of(listed), BTreeMap::from([(".text".to_owned(), 70)]));
    }
}
