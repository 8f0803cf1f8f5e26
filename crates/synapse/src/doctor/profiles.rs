//! A program that contradicts the screen rules of its profile: the finding, and what a person may
//! change.
//!
//! Pure. It changes nothing by itself, because only a person can say which of the two is wrong.

use super::facts::Facts;
use super::{Finding, Mark, ProfileProposal, typed};
use crate::show;
use std::path::{Path, PathBuf};
use synapse_store::disagreement::RuleDisagreement;

pub(super) fn disagreement(facts: &Facts, agent: &str, found: &RuleDisagreement) -> Finding {
    let told = match found.source.as_str() {
        "hook" => "its hooks say",
        "native" => "its server says",
        "status" => "its status reports say",
        "title" => "its title says",
        _ => "it says",
    };
    let RuleDisagreement { says, why, profile, .. } = found;
    let screen = match &found.rule {
        Some(rule) => format!("the rule '{}' of the profile {profile} says {}", rule.name, rule.state),
        None => format!("no rule of the profile {profile} fits its screen"),
    };
    let version = found.cli_version.as_ref().map_or_else(String::new, |v| format!(", with version {v}"));
    let (first, longest) =
        (show::ago(facts.clock.now_ms.saturating_sub(found.since_ms)), show::ago(found.longest_ms));
    let times = if found.times == 1 { "once".to_owned() } else { format!("{} times", found.times) };
    let what = format!(
        "{agent}: {told} {says} ({why}), but {screen}: {times} for long, first {first} ago, at most {longest}{version}"
    );
    let why = "what it does may be told wrongly, and messages may come late; only you change a profile";
    let finding = Finding::new(Mark::Warn, "profiles", what, why);
    let proposal = found.proposal.as_ref().map(|proposed| {
        let (file, is_new) = file(facts, found);
        let steps = steps(agent, &found.profile, &file, is_new);
        ProfileProposal { file, place: proposed.place.clone(), lines: proposed.lines.clone(), steps }
    });
    let finding = match &proposal {
        Some(proposal) => finding.help(proposal.steps.last().cloned().unwrap_or_default()),
        None => finding.help(format!("synapse profile learn -- {}", typed(Path::new(&found.program)))),
    };
    Finding { proposal, rows: found.rows.clone(), ..finding }
}

/// The file to change, and whether it must be created first.
fn file(facts: &Facts, found: &RuleDisagreement) -> (PathBuf, bool) {
    let from = found.profile_from.split_once(", with rules of ").map_or(&*found.profile_from, |(own, _)| own);
    if from.starts_with('/') {
        return (PathBuf::from(from), false);
    }
    (facts.home.join("profiles").join(format!("{}.yaml", found.profile)), true)
}

fn steps(agent: &str, profile: &str, file: &Path, is_new: bool) -> Vec<String> {
    let (file, cast) = (typed(file), typed(Path::new(&format!("{agent}.cast"))));
    let make = is_new.then(|| format!("synapse profile show {profile} > {file}"));
    let test = [
        format!("synapse profile check {file}"),
        format!("synapse profile record {} -o {cast}", typed(Path::new(agent))),
        format!("synapse profile test {file} --recording {cast}"),
    ];
    make.into_iter().chain(test).collect()
}
