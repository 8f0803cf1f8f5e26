//! `synapse keys token`: replaces tokens without a restart, and prints where they are (REST-5).
//!
//! A node looks at the files again when they change. Not for agents: keys are the user's.

use super::duration;
use crate::agents::Roll;
use crate::fail::{Done, Fail};
use crate::show;
use clap::Subcommand;
use serde_json::json;
use std::time::Duration;
use synapse_core::ids::Timestamp;
use synapse_node::driver::now;
use synapse_store::token::{Replaced, TokenError, TokenFile};

#[derive(Subcommand)]
pub(super) enum Token {
    /// Replace a token; the old one stays valid for a while
    Rotate {
        /// Agent [default: you]
        agent: Option<String>,
        /// How long the old token stays valid, e.g. 10m, 1h, 0s
        #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10m")]
        overlap: Duration,
    },
    /// Show where a token is and when old ones expire
    Show {
        /// Agent [default: you]
        agent: Option<String>,
        /// Print only the path
        #[arg(long)]
        path: bool,
        /// Print the secret (only on a terminal)
        #[arg(long, conflicts_with = "path")]
        reveal: bool,
    },
}

/// Longer than anybody needs to tell all callers.
const OVERLAP_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

pub(super) fn token(args: Token, json: bool) -> Done {
    let roll = Roll::call()?;
    match args {
        Token::Rotate { agent, overlap } => rotate(&roll, agent.as_deref(), overlap, json),
        Token::Show { agent, path, reveal } => {
            let file = file_of(&roll, agent.as_deref())?;
            match (path, reveal) {
                (true, _) => show::out(&file.path().display().to_string()),
                (false, true) => reveal_on_terminal(&roll, &file)?,
                (false, false) => tell(&file, json)?,
            }
            Ok(())
        }
    }
}

fn file_of(roll: &Roll, agent: Option<&str>) -> Result<TokenFile, Fail> {
    Ok(match agent {
        Some(raw) => TokenFile::of_agent(&roll.home.agent(&roll.find_one(raw)?.id)),
        None => TokenFile::of_user(&roll.home),
    })
}

fn refuse_agents(roll: &Roll) -> Done {
    match roll.caller("manage tokens")? {
        Some(id) => Err(Fail::refused(format!(
            "{} may not manage tokens; only the user may, in a process that no agent started",
            roll.label(&id)
        ))),
        None => Ok(()),
    }
}

fn rotate(roll: &Roll, agent: Option<&str>, overlap: Duration, json: bool) -> Done {
    refuse_agents(roll)?;
    if overlap > OVERLAP_MAX {
        return Err(Fail::usage("the overlap cannot exceed 30 days; rotate when all callers are ready"));
    }
    let file = file_of(roll, agent)?;
    let overlap_ms = u64::try_from(overlap.as_millis()).unwrap_or(u64::MAX);
    file.rotate(now().0, overlap_ms)?;
    if json {
        return tell(&file, json);
    }
    let whose = agent.map_or_else(|| "your token".to_owned(), |agent| format!("the token of {agent}"));
    show::out(&format!("{whose} was replaced; the new one is in {}", file.path().display()));
    if overlap.is_zero() {
        show::out("the old token is no longer valid");
    } else {
        show::out(&format!("the old token stays valid for {}", show::ago(overlap_ms)));
    }
    Ok(())
}

/// On a terminal only: in a pipe it would end up in files and logs. Programs read the file.
fn reveal_on_terminal(roll: &Roll, file: &TokenFile) -> Done {
    refuse_agents(roll)?;
    if !show::on_terminal() {
        return Err(Fail::refused(format!(
            "a token is shown on a terminal only; programs read it from {}",
            file.path().display()
        )));
    }
    show::out(file.load()?.as_str());
    Ok(())
}

fn tell(file: &TokenFile, json: bool) -> Done {
    file.load()?;
    let (at, replaced) = (now().0, file.replaced()?);
    let taken: Vec<Replaced> = replaced.into_iter().filter(|old| old.until_ms > at).collect();
    if json {
        let until = |old: &Replaced| synapse_dialects::time::show(Timestamp(old.until_ms));
        let until: Vec<String> = taken.iter().map(until).collect();
        show::json(&json!({ "path": file.path(), "older_taken_until": until }));
        return Ok(());
    }
    show::out(&file.path().display().to_string());
    for old in taken {
        show::out(&format!("an older token stays valid for {}", show::ago(old.until_ms - at)));
    }
    Ok(())
}

impl From<TokenError> for Fail {
    fn from(error: TokenError) -> Self {
        Self::new(crate::fail::ERROR, "token", error.to_string())
    }
}
