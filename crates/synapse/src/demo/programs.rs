//! The agents of the demo: small programs that this binary runs as commands.

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Runs the demo agent with this name.
pub fn program(name: &str) -> ExitCode {
    let worked = match name {
        "shout" => shout(),
        "counter" => counter(),
        "planner" => planner(),
        _ => Err(std::io::Error::other("no such demo program")),
    };
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn prompt() -> std::io::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

fn shout() -> std::io::Result<()> {
    let prompt = prompt()?;
    let home = std::env::var("SYNAPSE_HOME").unwrap_or_default();
    let sender = std::env::var("SYNAPSE_SENDER").unwrap_or_default();
    let path = Path::new(&home).join("ledger");
    let mut ledger = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    // Slow enough that a kill -9 finds some messages still waiting.
    std::thread::sleep(Duration::from_millis(20));
    ledger.write_all(format!("{sender}: {prompt}\n").as_bytes())?;
    println!("{}", prompt.to_uppercase());
    Ok(())
}

fn counter() -> std::io::Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let message: Value = serde_json::from_str(&line)?;
    let text = message["text"].as_str().unwrap_or_default();
    let goal: u32 = text.split(' ').next_back().and_then(|n| n.parse().ok()).unwrap_or(3);
    for n in 1..=goal {
        println!(
            "{}",
            serde_json::json!({ "type": "progress", "text": format!("counted {n}"), "percent": 100 * n / goal })
        );
    }
    println!("{}", serde_json::json!({ "type": "completed", "text": format!("done at {goal}") }));
    Ok(())
}

fn planner() -> std::io::Result<()> {
    let prompt = prompt()?;
    match prompt.strip_prefix("pretend to be ") {
        Some(other) => return pretend(other),
        None if prompt == "hide who you are" => return hide(),
        None => {}
    }
    let asked =
        Command::new(std::env::current_exe()?).args(["send", "shout", &prompt, "--response"]).output()?;
    println!("shout says: {}", String::from_utf8_lossy(&asked.stdout).trim());
    std::io::stderr().write_all(&asked.stderr)?;
    if asked.status.success() { Ok(()) } else { Err(std::io::Error::other("shout did not answer")) }
}

/// Tries to speak for another agent, and prints the result.
fn pretend(other: &str) -> std::io::Result<()> {
    let tried = Command::new(std::env::current_exe()?)
        .args(["send", "counter", "count to 1", "--from", other])
        .output()?;
    println!("{} {}", tried.status.code().unwrap_or(-1), String::from_utf8_lossy(&tried.stderr).trim());
    Ok(())
}

/// Sends a message from a process without its environment and its parent.
fn hide() -> std::io::Result<()> {
    let home = std::env::var_os("SYNAPSE_HOME").unwrap_or_default();
    let exe = std::env::current_exe()?;
    // The shell exits at once, so the sender loses its parent. Its output still arrives here.
    let sent = Command::new("/bin/sh")
        .args(["-c", "\"$0\" \"$@\" &"])
        .arg(exe)
        .args(["send", "shout", "guess who", "--response"])
        .env_clear()
        .env("SYNAPSE_HOME", home)
        .output()?;
    println!("{}", String::from_utf8_lossy(&sent.stdout).trim());
    std::io::stderr().write_all(&sent.stderr)?;
    if sent.status.success() { Ok(()) } else { Err(std::io::Error::other("shout did not answer")) }
}
