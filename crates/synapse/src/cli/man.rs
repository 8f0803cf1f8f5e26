//! `synapse completions` and `synapse man`: both are made from the command line itself, so they cannot differ from it.
//!
//! Not here: names of agents in completions (`cli/complete`).

use super::help::command;
use crate::fail::{Done, Fail};
use crate::show;
use clap::Args;

#[derive(Args)]
pub(super) struct Completions {
    /// Shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

#[derive(Args)]
pub(super) struct Man {
    /// Write one page per command to this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

pub(super) fn completions(args: &Completions) -> Done {
    print(super::complete::script(args.shell, &command()).as_bytes());
    Ok(())
}

pub(super) fn man(args: &Man, json: bool) -> Done {
    let Some(dir) = &args.dir else {
        let mut text = Vec::new();
        clap_mangen::Man::new(command()).render(&mut text)?;
        print(&text);
        return Ok(());
    };
    let failed = |e: std::io::Error| Fail::usage(format!("{}: {e}", dir.display()));
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(command(), dir).map_err(failed)?;
    if json {
        show::json(&serde_json::json!({ "dir": dir }));
        return Ok(());
    }
    show::out(&format!("the pages are in {}; `man -l {0}/synapse.1` shows the first", dir.display()));
    Ok(())
}

fn print(text: &[u8]) {
    show::out(String::from_utf8_lossy(text).trim_end());
}
