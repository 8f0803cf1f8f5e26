//! `synapse run --acp -- PROGRAM`: a program without a terminal, spoken with over the Agent Client Protocol.

use super::wrap::{Chosen, as_before, check_program, environment, with_places};
use super::{Who, run};
use crate::fail::{Done, Fail};
use crate::program;
use std::collections::BTreeMap;
use synapse_node::Hand;
use synapse_node::launch::OverAcp;

pub(super) fn command(mut who: Who, argv: Vec<String>, detach: bool, json: bool) -> Done {
    let name = argv.first().cloned().ok_or_else(|| Fail::usage("name a program after `--`"))?;
    let chosen = Chosen::of(&argv, None)?;
    check_program(&name, who.cwd.as_deref())?;
    if chosen.profile() != "generic" && who.kind.is_none() {
        who.kind = Some(chosen.profile().to_owned());
    }
    let env = with_places(without_terminal(&chosen));
    let hand = Hand::Acp(OverAcp { argv, env, synapse: program::installed()? });
    run::start_plain(who, &name, hand, detach, json)
}

/// The same program once more.
pub(super) fn renewed(before: &OverAcp) -> Result<OverAcp, Fail> {
    let env = without_terminal(&Chosen::of(&before.argv, None)?);
    let env = as_before(env, &before.env);
    Ok(OverAcp { argv: before.argv.clone(), env, synapse: program::installed()? })
}

fn without_terminal(chosen: &Chosen) -> BTreeMap<String, Option<String>> {
    let mut env = environment(chosen.env());
    for name in ["TERM", "COLORTERM"] {
        env.remove(name);
    }
    env
}
