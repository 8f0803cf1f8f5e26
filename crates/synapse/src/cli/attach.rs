//! `synapse attach`, `synapse screen`: shows an agent's terminal, live or once.

use crate::agents::Roll;
use crate::fail::{Done, Fail};
use crate::show;
use crate::viewer::{self, Left, Person};
use clap::{Args, ValueEnum};
use std::io::IsTerminal as _;
use synapse_core::ids::AgentId;
use synapse_holder::terminal::wire::Role;
use synapse_node::{Hand, Launch};

#[derive(Args)]
pub(super) struct Attach {
    /// Agent whose terminal to attach to
    agent: String,
    /// Only watch: your keys and the size of your window do not count
    #[arg(long)]
    read_only: bool,
    /// Take the keyboard from the viewer that has it
    #[arg(long, conflicts_with = "read_only")]
    take: bool,
}

#[derive(Args)]
pub(super) struct Screen {
    /// Agent whose screen to print
    agent: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = ScreenFormat::Text)]
    format: ScreenFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ScreenFormat {
    /// Plain text
    Text,
    /// Escape sequences that redraw it
    Ansi,
    /// SVG image
    Svg,
}

pub(super) fn attach(args: Attach) -> Done {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let name = &args.agent;
        return Err(Fail::usage(format!(
            "cannot attach to {name}: standard input or output is not a terminal\nhint: synapse screen {name}"
        )));
    }
    let roll = Roll::call()?;
    let id = roll.find_one(&args.agent)?.id;
    let (label, socket) = (roll.label(&id), roll.home.agent(&id).terminal());
    if !socket.exists() {
        return Err(no_terminal(&roll, &id));
    }
    if !args.read_only {
        refuse_agents(&roll, &label, "attach to")?;
    }
    let role = match (args.read_only, args.take) {
        (true, _) => Role::Reader,
        (_, true) => Role::Leader,
        _ => Role::Viewer,
    };
    viewer::warn_of_prefix(&roll.home);
    let left = match viewer::view(Person::meet()?, &roll.home, id, role) {
        Ok(left) => left,
        // The socket of a holder that was killed.
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => Left::Lost,
        Err(e) => return Err(e.into()),
    };
    let label = crate::agents::label_now(&id);
    match left {
        Left::Detached => show::out(&super::wrap::detached(&label)),
        Left::Stopped(why) => show::out(&super::wrap::stopped(&label, &why)),
        Left::Ended(code) => show::out(&format!("{label} has ended with code {code}")),
        Left::Signaled(_) | Left::Lost | Left::Refused(_) => return super::wrap::tell_left(&label, &left),
    }
    Ok(())
}

/// Why there is nothing to attach to, with a command that works instead.
pub(super) fn no_terminal(roll: &Roll, id: &AgentId) -> Fail {
    let label = roll.label(id);
    let text = std::fs::read(roll.home.agent(id).launch()).unwrap_or_default();
    let launch = serde_json::from_slice::<Launch>(&text).ok();
    if launch.is_some_and(|launch| matches!(launch.hand, Hand::Acp(_))) {
        return Fail::refused(format!(
            "{label} has no terminal: it was started with --acp\n\
             hint: synapse send {label} '…' --response, synapse logs {label} -f, synapse inbox --approvals"
        ));
    }
    Fail::refused(format!(
        "{label} has no terminal: it was not started as a program in one\nhint: synapse run -- PROGRAM, or a profile such as synapse claude"
    ))
}

/// Keys and recordings of a terminal are the user's; the holder checks it again.
pub(super) fn refuse_agents(roll: &Roll, label: &str, to: &str) -> Done {
    match roll.caller(&format!("{to} {label}"))? {
        None => Ok(()),
        Some(id) => Err(Fail::refused(format!(
            "cannot {to} {label}: {} is an agent, and a process that an agent started may only look\n\
             hint: synapse attach {label} --read-only, or synapse screen {label}",
            roll.label(&id)
        ))),
    }
}

pub(super) async fn screen(args: Screen, json: bool) -> Done {
    let roll = Roll::call()?;
    let id = roll.find_one(&args.agent)?.id;
    let mut client = roll.connect(&id).await?;
    let format = match args.format {
        ScreenFormat::Text => "text",
        ScreenFormat::Ansi => "ansi",
        ScreenFormat::Svg => "svg",
    };
    let text = client.get_text(&format!("/api/v1/screen?format={format}")).await?;
    if json {
        show::json(&serde_json::json!({ "agent": roll.label(&id), "format": format, "screen": text }));
    } else if args.format == ScreenFormat::Text {
        show::out(show::safe(&text).trim_end());
    } else {
        use std::io::Write as _;
        std::io::stdout().write_all(text.as_bytes())?;
    }
    Ok(())
}
