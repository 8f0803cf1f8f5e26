//! The table of the results, as Markdown.

use std::fmt::Write as _;

use super::{Cases, Row, Verdict};

const HEAD: &str = "\
# A2A with other makers' software

Written by `cargo xtask interop --write`; do not edit.

Each framework runs in the version shown here, with a function in place of a model. \"Calls us\": its
client calls `synapse a2a serve` with the default card. The scripts of the official SDKs also test
every binding. \"Called by us\": `synapse send`, `explain`, `cancel` and `a2a` call its server. The
scripts are in `crates/synapse/tests/interop` and `crates/synapse/tests/sdk`.

| framework | calls us | called by us |
|---|---|---|
";

pub(super) fn written(rows: &[Row]) -> String {
    let mut page = HEAD.to_owned();
    for row in rows {
        let name = row.framework.name;
        let _ = writeln!(page, "| {name} | {} | {} |", summed(&row.calls_us), summed(&row.called_by_us));
    }
    let known = rows.iter().filter_map(|row| Some((row.framework.name, row.framework.known?)));
    for (name, why) in known {
        let _ = write!(page, "\n- **{name}**: {why}.\n");
    }
    page
}

/// The cases that passed, then those that failed, then those that are missing.
fn summed(cases: &Cases) -> String {
    let passed: Vec<&str> =
        cases.iter().filter(|(_, verdict)| *verdict == Verdict::Ok).map(|(case, _)| case.as_str()).collect();
    let mut parts = Vec::new();
    match passed.len() {
        0 => {}
        // The official SDKs have many cases, over several bindings.
        many if many > 12 => parts.push(format!("{many} cases pass")),
        _ => parts.push(format!("{} pass", passed.join(", "))),
    }
    for (case, verdict) in cases.iter().filter(|(_, verdict)| *verdict != Verdict::Ok) {
        let words = words(verdict).replace('|', "/");
        parts.push(if case == "all" { words } else { format!("{case}: {words}") });
    }
    parts.join("; ")
}

pub(super) fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Ok => "ok".to_owned(),
        Verdict::Lacks(why) => why.clone(),
        Verdict::Failed(why) => format!("**fails** ({})", why.chars().take(80).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_in_one_cell() {
        let case = |name: &str, verdict| (name.to_owned(), verdict);
        let few = vec![
            case("send", Verdict::Ok),
            case("stream", Verdict::Lacks("has none".into())),
            case("get", Verdict::Failed("a|b".into())),
        ];
        assert_eq!(summed(&few), "send pass; stream: has none; get: **fails** (a/b)");
        let many: Cases = (0..20).map(|n| case(&n.to_string(), Verdict::Ok)).collect();
        assert_eq!(summed(&many), "20 cases pass");
        assert_eq!(summed(&vec![case("all", Verdict::Lacks("none".into()))]), "none");
    }
}
