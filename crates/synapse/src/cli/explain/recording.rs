//! `synapse explain --recording`: every state that is seen in a recording and the rule behind it, or all signals at
//! one moment of it.

use crate::cli::profile::{played, profile_of};
use crate::fail::{Done, Fail};
use crate::show;
use serde_json::json;
use std::path::Path;
use synapse_terminal::fold::Verdict;
use synapse_terminal::replay::{self, Recording};
use synapse_terminal::{Profile, Watch};

pub(super) fn explain(file: &Path, profile: Option<&str>, at: Option<f64>, json: bool) -> Done {
    let profile = match profile {
        Some(name) => profile_of(name)?,
        None => by_name(file)?,
    };
    let recording = played(file)?;
    match at {
        None => timeline(&recording, profile, json),
        Some(at) if at.is_finite() && at >= 0.0 => {
            moment(&recording, profile, (at * 1000.0).round() as u64, json)
        }
        Some(at) => Err(Fail::usage(format!("--at {at}: give seconds from the beginning, such as 12.5"))),
    }
}

/// `codex__turn.cast` is of Codex.
fn by_name(file: &Path) -> Result<Profile, Fail> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let end = stem.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(stem.len());
    let unknown = || {
        let file = file.display();
        Fail::usage(format!(
            "{file}: its name does not begin with that of a profile; say which with --profile"
        ))
    };
    if end == 0 { Err(unknown()) } else { profile_of(&stem[..end]).map_err(|_| unknown()) }
}

fn seconds(ms: u64) -> String {
    format!("{:>9.3} s", ms as f64 / 1000.0)
}

fn timeline(recording: &Recording, profile: Profile, json: bool) -> Done {
    let name = profile.name.clone();
    let told = replay::verdicts(recording, profile);
    if json {
        let rows: Vec<_> = told.iter().map(|(ms, verdict)| as_json(*ms, verdict)).collect();
        show::json(&json!({ "profile": name, "timeline": rows }));
        return Ok(());
    }
    for (ms, verdict) in &told {
        show::out(&format!("{}  {}", seconds(*ms), in_words(verdict)));
    }
    Ok(())
}

fn as_json(ms: u64, verdict: &Verdict) -> serde_json::Value {
    json!({
        "ms": ms, "state": verdict.state.name(), "source": verdict.source.name(), "why": verdict.why,
        "because": verdict.because,
    })
}

fn in_words(verdict: &Verdict) -> String {
    let state = show::state_column(verdict.state.name(), 8);
    format!("{state}  by {:<7}  {}", verdict.source.name(), show::cell(&verdict.why, 100))
}

fn moment(recording: &Recording, profile: Profile, at: u64, json: bool) -> Done {
    let watch = replay::watched(recording, profile, at, |_, _| {});
    if json {
        let mut told = as_json(at, watch.verdict());
        let rows: Vec<_> = watch
            .readings()
            .into_iter()
            .map(|(rank, reading)| {
                json!({ "source": rank.name(), "says": reading.sees.name(), "since_ms": reading.since.0,
                        "confidence": rank.confidence(), "why": reading.why })
            })
            .collect();
        told["profile"] = json!(watch.profile().name);
        told["since_ms"] = json!(watch.verdict().since.0);
        told["evidence"] = json!(rows);
        show::json(&told);
        return Ok(());
    }
    show::out(&page(&watch, at));
    Ok(())
}

fn page(watch: &Watch, at: u64) -> String {
    let verdict = watch.verdict();
    let mut lines = vec![
        format!("{}  {}", seconds(at), in_words(verdict)),
        format!("             since {}; {}", seconds(verdict.since.0).trim(), verdict.because),
    ];
    for (rank, reading) in watch.readings() {
        lines.push(format!(
            "           {} {:<6}  {}  since {}  {:<4}  {}",
            if rank == verdict.source { "*" } else { " " },
            rank.name(),
            show::state_column(reading.sees.name(), 7),
            seconds(reading.since.0),
            rank.confidence(),
            show::cell(&reading.why, 80)
        ));
    }
    lines.join("\n")
}
