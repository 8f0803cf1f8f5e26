//! `synapse run --acp -- PROGRAM`: a program without a terminal, spoken with over the Agent Client Protocol.

use super::wrap::{Chosen, check_program, environment};
use super::{Who, run};
use crate::fail::{Done, Fail};
use crate::program;
use synapse_node::Hand;
use synapse_node::launch::OverAcp;

pub(super) fn command(mut who: Who, argv: Vec<String>, detach: bool, json: bool) -> Done {
    let name = argv.first().cloned().ok_or_else(|| Fail::usage("name a program after `--`"))?;
    let chosen = Chosen::of(&argv, None)?;
    check_program(&name, who.cwd.as_deref())?;
    if chosen.profile() != "generic" && who.kind.is_none() {
        who.kind = Some(chosen.profile().to_owned());
    }
    let mut env = environment(chosen.env());
    // It has no terminal.
    for name in ["TERM", "COLORTERM"] {
        env.remove(name);
    }
    let hand = Hand::Acp(OverAcp { argv, env, synapse: program::installed()? });
    run::start_plain(who, &name, hand, detach, json)
}
