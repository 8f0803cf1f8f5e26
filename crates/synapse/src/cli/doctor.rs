//! `synapse doctor`: shows what was found, and mends what is safe to mend.

use crate::doctor::{Finding, Mark, ProfileProposal, facts, judge, mend};
use crate::fail::{self, Done, Fail};
use crate::show;
use clap::Args;
use serde_json::json;
use synapse_node::ancestry::{self, Kin};
use synapse_store::home::Home;

#[derive(Args)]
pub(super) struct Doctor {
    /// Fix permissions and remove stale files
    #[arg(long)]
    fix: bool,
}

pub(super) async fn doctor(args: &Doctor, json: bool) -> Done {
    let home = Home::from_env()?;
    // Not by `Roll`, which a damaged home may not have.
    if args.fix && ancestry::own(&home) != Kin::Person {
        return Err(Fail::refused(
            "an agent may not repair anything; only the user may, in a process that no agent started",
        ));
    }
    let mut findings = judge::judge(&facts::gather(&home).await);
    let mut mended = Vec::new();
    if args.fix {
        for finding in findings.iter().filter(|finding| finding.fix.is_some()) {
            let done = finding.fix.as_ref().map_or(Ok(()), |fix| mend::mend(&home, fix));
            mended.push((finding.what.clone(), done.err()));
        }
        if !mended.is_empty() {
            findings = judge::judge(&facts::gather(&home).await);
        }
    }
    if json {
        let mended: Vec<_> =
            mended.iter().map(|(what, why)| json!({ "what": what, "failed": why })).collect();
        show::json(&json!({ "findings": findings, "mended": mended, "ok": bad(&findings) == 0 }));
    } else {
        tell(&findings, &mended);
    }
    match bad(&findings) {
        0 => Ok(()),
        1 => Err(Fail::new(fail::ERROR, "not_well", "one thing is bad; what helps is above")),
        n => Err(Fail::new(fail::ERROR, "not_well", format!("{n} things are bad; what helps is above"))),
    }
}

fn bad(findings: &[Finding]) -> usize {
    findings.iter().filter(|finding| finding.mark == Mark::Bad).count()
}

fn tell(findings: &[Finding], mended: &[(String, Option<String>)]) {
    for (what, failed) in mended {
        match failed {
            None => show::out(&format!("{}  {}", show::paint("32", "mended"), show::safe(what))),
            Some(why) => show::out(&format!(
                "{}  {}: {}",
                show::paint("31", "not mended"),
                show::safe(what),
                show::safe(why)
            )),
        }
    }
    let width = findings.iter().map(|finding| finding.area.len()).max().unwrap_or(0);
    let mut last = "";
    for finding in findings {
        let (colour, mark) = match finding.mark {
            Mark::Ok => ("32", "ok  "),
            Mark::Warn => ("33;1", "warn"),
            Mark::Bad => ("31;1", "bad "),
        };
        let area = if finding.area == last { "" } else { finding.area };
        last = finding.area;
        show::out(&format!("{}  {area:<width$}  {}", show::paint(colour, mark), show::safe(&finding.what)));
        let indent = " ".repeat(width + 8);
        if !finding.why.is_empty() {
            show::out(&show::paint("2", &format!("{indent}{}", finding.why)));
        }
        let steps = finding.proposal.as_ref().map(|proposal| tell_proposal(finding, proposal, &indent));
        for step in steps.unwrap_or(finding.help.as_slice()) {
            show::out(&format!("{indent}→ {}", show::safe(step)));
        }
    }
}

/// The screen and the lines that are proposed; gives the commands that test them.
fn tell_proposal<'a>(finding: &Finding, proposal: &'a ProfileProposal, indent: &str) -> &'a [String] {
    let out = |line: &str| show::out(format!("{indent}{}", show::safe(line)).trim_end());
    out("the lowest rows of its screen then:");
    finding.rows.iter().for_each(|row| out(&format!("  | {row}")));
    out(&format!("proposed for {}, {}:", proposal.file.display(), proposal.place));
    proposal.lines.iter().for_each(|line| out(&format!("  {line}")));
    &proposal.steps
}
