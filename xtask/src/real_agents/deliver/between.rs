//! Cases in which something comes between: a question for a person, a draft, a turn that runs, the death of the node.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use synapse_terminal::composer::Holds;
use synapse_terminal::profile::shipped;
use synapse_testkit::mock_llm::What;
use synapse_testkit::processes;

use super::super::stage::{PATIENCE, Stage};
use super::{
    Count, arrivals, arrives, begun, came_once, composer_of, header, same, send, settle, wait_until,
};

/// What has to stay as it is stays so for this long. More than the two seconds after which a person types no more.
const HOLDS: Duration = Duration::from_millis(2_500);

/// How a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    KeyDenies,
    CommandDenies,
    KeyAllows,
    CommandAllows,
}

pub(super) const DECISIONS: usize = 2;

/// A message that comes while a question is shown answers nothing, and arrives after the person has.
pub(super) fn prompt(stage: &mut Stage, count: &mut Count) -> anyhow::Result<()> {
    // Only where its profile knows the keys.
    let by_command = shipped(stage.cli.name).is_some_and(|profile| profile.approve.is_some());
    let decisions: [Decision; DECISIONS] = match (by_command, count.round % 2) {
        (true, 1) => [Decision::KeyDenies, Decision::CommandAllows],
        (true, _) => [Decision::CommandDenies, Decision::CommandAllows],
        (false, _) => [Decision::KeyDenies, Decision::KeyAllows],
    };
    for decision in decisions {
        decide(stage, decision).with_context(|| format!("{decision:?}"))?;
        count.one();
    }
    Ok(())
}

fn decide(stage: &mut Stage, decision: Decision) -> anyhow::Result<()> {
    let tag = format!("{decision:?}");
    let place = stage.site.mock.log().len();
    // Aider would ask about the output as well.
    let quiet = if stage.cli.continues { "" } else { " > /dev/null" };
    send(stage, &format!("make one {{{{ask mktemp {tag}-XXXXXX{quiet}; mark}}}}"), &[])?;
    let is_asked = |what: &What| matches!(what, What::Asked { .. });
    stage.wait_mock(place, "the call of the tool", |entry| is_asked(&entry.what).then_some(()))?;
    if stage.recorder.wait_shown(stage.cli.question, PATIENCE).is_none() {
        bail!("{:?} is not shown:\n{}", stage.cli.question, stage.recorder.screen());
    }
    stage.wait_state("waiting", 0)?;
    let place = stage.site.mock.log().len();
    let sent = send(stage, "meanwhile", &[])?;
    is_held(stage, "it waits for a person to approve or choose")?;
    std::thread::sleep(HOLDS);
    nothing_new(stage, place)?;
    ensure!(made(stage, &tag)? == 0, "the tool ran before anybody allowed it");
    match decision {
        Decision::KeyDenies => drop(stage.press(stage.cli.deny)),
        Decision::KeyAllows => drop(stage.press(stage.cli.allow)),
        Decision::CommandDenies => drop(by_command(stage, "deny")?),
        Decision::CommandAllows if stage.cuts_questions() => {
            ensure!(
                is_refused(stage),
                "a question that may be cut was approved:\n{}",
                stage.recorder.screen()
            );
            stage.press(stage.cli.allow);
        }
        Decision::CommandAllows => {
            if MARKS.contains(&stage.cli.name) {
                nothing_is_taken_by_enter(stage)?;
            }
            drop(by_command(stage, "approve")?);
        }
    }
    arrives(stage, place, &sent, "meanwhile")?;
    settle(stage)?;
    came_once(stage, place, &sent)?;
    let allows = matches!(decision, Decision::KeyAllows | Decision::CommandAllows);
    let (ran, wanted) = (made(stage, &tag)?, usize::from(allows));
    ensure!(ran == wanted, "the tool ran {ran} times, not {wanted}");
    Ok(())
}

/// The programs whose Enter takes whichever answer is marked.
const MARKS: [&str; 2] = ["opencode", "kilo"];

/// While another answer than the first is marked, `approve` presses nothing and says so.
fn nothing_is_taken_by_enter(stage: &mut Stage) -> anyhow::Result<()> {
    const RIGHT: &str = "\u{1b}[C";
    const LEFT: &str = "\u{1b}[D";
    stage.press(RIGHT);
    std::thread::sleep(HOLDS);
    ensure!(is_refused(stage), "another answer is marked, and it was taken:\n{}", stage.recorder.screen());
    stage.press(LEFT);
    std::thread::sleep(HOLDS);
    Ok(())
}

/// Whether `approve` presses nothing, and says so.
fn is_refused(stage: &Stage) -> bool {
    by_command(stage, "approve").is_err_and(|e| e.to_string().contains("nothing was pressed"))
}

fn by_command(stage: &Stage, verb: &str) -> anyhow::Result<String> {
    let approvals = stage.site.json(&["inbox", "--approvals"])?;
    let hash = approvals["approvals"][0]["prompt"]["hash"].as_str();
    let hash = hash.with_context(|| format!("no prompt in {approvals}"))?;
    stage.site.synapse(&[verb, stage.cli.name, "--prompt", hash])
}

/// How many files of this name there are: one for each time that the tool ran.
fn made(stage: &Stage, tag: &str) -> anyhow::Result<usize> {
    let files = fs::read_dir(&stage.site.work)?.flatten();
    Ok(files.filter(|file| file.file_name().to_string_lossy().starts_with(tag)).count())
}

/// The mailbox says why a message waits.
fn is_held(stage: &Stage, why: &str) -> anyhow::Result<()> {
    let inbox = ["inbox", stage.cli.name];
    wait_until(stage, &format!("a message is held: {why}"), || {
        stage.site.synapse(&inbox).is_ok_and(|said| said.contains(why))
    })
}

/// The model has been told nothing.
pub(super) fn nothing_new(stage: &Stage, place: usize) -> anyhow::Result<()> {
    let entries = stage.site.mock.log().entries();
    match entries.iter().skip(place).find_map(begun) {
        Some(told) => bail!("the model was told {told:?}"),
        None => Ok(()),
    }
}

/// A person's draft stays as it is, and the message waits until it is gone.
pub(super) fn draft(stage: &mut Stage, count: &mut Count) -> anyhow::Result<()> {
    const DRAFT: &str = "half a thought";
    let place = stage.site.mock.log().len();
    stage.type_text(DRAFT)?;
    let sent = send(stage, "from afar", &[])?;
    is_held(stage, "a draft in the composer")?;
    std::thread::sleep(HOLDS);
    nothing_new(stage, place)?;
    let (holds, wanted) = (composer_of(stage)?, Holds::Text(DRAFT.replace(' ', "")));
    ensure!(holds == wanted, "the draft was {DRAFT:?}; the composer holds {holds:?}");
    for _ in DRAFT.chars() {
        stage.press("\u{7f}");
    }
    arrives(stage, place, &sent, "from afar")?;
    settle(stage)?;
    came_once(stage, place, &sent)?;
    count.one();
    Ok(())
}

/// An emergency stops the turn that runs, and comes next.
pub(super) fn urgent(stage: &mut Stage, count: &mut Count) -> anyhow::Result<()> {
    let place = stage.site.mock.log().len();
    let long = send(stage, "talk on {{stream 60000}}", &[])?;
    arrives(stage, place, &long, "talk on {{stream 60000}}")?;
    stage.wait_state("busy", 0)?;
    let sent = send(stage, "main is broken", &["-p", "5"])?;
    stage.wait_mock(place, "the turn is given up", |entry| {
        matches!(entry.what, What::Aborted { turn: true }).then_some(())
    })?;
    arrives(stage, place, &sent, "URGENT: main is broken")?;
    settle(stage)?;
    came_once(stage, place, &sent)?;
    count.one();
    Ok(())
}

pub(super) const KILLS: usize = 3;

/// The node is killed at some moment of a delivery. The message arrives all the same; if twice, it says so.
pub(super) fn crash(stage: &mut Stage, count: &mut Count) -> anyhow::Result<()> {
    for n in 0..KILLS {
        let place = stage.site.mock.log().len();
        let text = format!("through a crash, {n} of round {}", count.round);
        let (task, after) = killed_meanwhile(stage, &text, &format!("crash-{}-{n}", count.round))?;
        let around = || format!("killed {} ms after it was sent", after.as_millis());
        let header = header(&task);
        // There may be proof that it was submitted before the model is asked.
        stage
            .wait_mock(place, "it reaches the model", |entry| {
                begun(entry)?.iter().any(|part| part.contains(&header)).then_some(())
            })
            .with_context(around)?;
        settle(stage).with_context(around)?;
        let all = arrivals(stage, place, &header);
        let plain = format!("{header} {text}");
        let again = format!("{header} (may repeat) {text}");
        let first = all.first().is_some_and(|told| same(told, &plain) || same(told, &again));
        let rest = all.iter().skip(1).all(|told| same(told, &again));
        ensure!(first && rest, "{}: the model was told {all:?}", around());
        count.one();
    }
    Ok(())
}

/// Sends and kills the node with -9 somewhere on the way. The same is sent again, under the same id, until there is
/// proof. Its task, and when the node was killed.
fn killed_meanwhile(stage: &Stage, text: &str, id: &str) -> anyhow::Result<(String, Duration)> {
    const TRIES: usize = 3;
    const AFTER_MS_MAX: u32 = 1_200;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let after = Duration::from_millis(u64::from(since.subsec_micros() % AFTER_MS_MAX));
    let name = stage.cli.name;
    let args =
        ["send", name, text, "--message-id", id, "--wait-for", "submitted", "--timeout", "60s", "--json"];
    let mut command = stage.site.command();
    let mut sending = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    std::thread::sleep(after);
    let entry = stage.site.entry(name).context("the agent is not in the registry")?;
    let node = entry["node_pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).context("no node")?;
    processes::kill9(node);
    wait_until(stage, "a new node is there", || {
        stage.site.entry(name).is_some_and(|entry| entry["node_pid"] != node)
    })?;
    sending.wait()?;
    let mut told = stage.site.synapse(&args);
    for _ in 1..TRIES {
        if told.is_ok() {
            break;
        }
        told = stage.site.synapse(&args);
    }
    let told = told.with_context(|| format!("killed {} ms after it was sent", after.as_millis()))?;
    let told: serde_json::Value = serde_json::from_str(&told)?;
    Ok((told["task_id"].as_str().context("no task")?.to_owned(), after))
}
