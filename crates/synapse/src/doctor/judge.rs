//! From facts to findings. Pure: the same facts give the same findings.
//!
//! Each finding says what the problem is, why it matters, and which command helps. An area without
//! problems is one line.

use super::facts::{Clock, Disk, Facts, Kind, Node, Path as Found, Port, Program, Said, Stale, StaleKind};
use super::{Finding, Fix, Mark, profiles, typed};
use synapse_dialects::level::{self, Levels};
use synapse_store::notified::NotifierResult;

const MB: u64 = 1 << 20;
const DISK_BYTES_WARN: u64 = 512 * MB;
const DISK_BYTES_BAD: u64 = 64 * MB;
const INODES_WARN: u64 = 10_000;
const INODES_BAD: u64 = 500;
const OPEN_FILES_WARN: u64 = 1_024;
const OPEN_FILES_BAD: u64 = 256;
/// Tolerates small differences between the clocks of file servers and of two runs.
const SKEW_MS_WARN: u64 = 2_000;
const BEHIND_MS_WARN: u64 = 1_000;
const BEHIND_MS_BAD: u64 = 60_000;

pub fn judge(facts: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    if !facts.home_is_there {
        all.push(Finding::ok(
            "home",
            format!("{} is not there yet; the first agent makes it", facts.home.display()),
        ));
    } else {
        all.push(Finding::ok("home", facts.home.display().to_string()));
        all.extend(summed(
            "permissions",
            "home, token, registry and agents are yours alone",
            permissions(facts),
        ));
        all.extend(file_system(facts));
        all.extend(facts.disk.as_ref().into_iter().flat_map(disk));
        all.extend(clock(&facts.clock));
        all.extend(summed("journals", counted(facts.journals.len(), "can be opened"), journals(facts)));
        all.extend(summed("stale files", "none", stale(facts)));
        all.extend(problems(facts));
    }
    all.extend(summed("agents", counted(facts.nodes.len(), "running, of this version"), nodes(facts)));
    all.extend(summed("ports", "there is one for each agent", ports(facts)));
    all.extend(open_files(facts.open_files));
    all.extend(facts.programs.iter().map(program));
    all.extend(
        facts.notified.iter().filter(|(_, last)| last.failed).map(|(agent, last)| notifier(agent, last)),
    );
    all.extend(facts.disagreements.iter().map(|(agent, found)| profiles::disagreement(facts, agent, found)));
    all.extend(facts.ignored.iter().map(|what| ignored(what)));
    all
}

/// One line if there are no problems.
fn summed(area: &'static str, well: impl Into<String>, found: Vec<Finding>) -> Vec<Finding> {
    if found.is_empty() { vec![Finding::ok(area, well)] } else { found }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}")
}

fn permissions(facts: &Facts) -> Vec<Finding> {
    facts.paths.iter().filter_map(|found| permission(found, facts.our_uid)).collect()
}

fn permission(found: &Found, our_uid: u32) -> Option<Finding> {
    const AREA: &str = "permissions";
    let path = found.path.display();
    let bad = |what: String, why: &str| Some(Finding::new(Mark::Bad, AREA, what, why));
    if found.is_link {
        let why = "links are not followed, since another user could have put them there";
        return bad(format!("{path} is a symbolic link"), why)
            .map(|f| f.help(format!("ls -l {}", typed(&found.path))));
    }
    if !found.is_kind {
        let why = "it is not used as it is; move it away";
        return bad(format!("{path} is not {}", found.kind.name()), why)
            .map(|f| f.help(format!("ls -l {}", typed(&found.path))));
    }
    if found.uid != our_uid {
        let why = "files of other users are not trusted, so agents cannot work with it";
        return bad(format!("{path} belongs to another user (uid {})", found.uid), why)
            .map(|f| f.help(format!("sudo chown {our_uid} {}", typed(&found.path))));
    }
    let (forbidden, wanted) = found.kind.forbidden();
    if found.mode & forbidden == 0 {
        return None;
    }
    let why = match found.kind {
        Kind::Secret => {
            "whoever has read it can speak for you; remove it after closing it, and a new one is made"
        }
        Kind::Folder | Kind::SharedFolder => "other users could read your mail, or put files of theirs there",
        Kind::Plain => "other users could change it",
    };
    let found_fix = Fix::Chmod { path: found.path.clone(), mode: wanted };
    bad(format!("{path} is open to other users (mode {:03o})", found.mode), why)
        .map(|f| f.help(format!("chmod {wanted:03o} {}", typed(&found.path))).fix(found_fix))
}

/// File systems by their type: what can be lost on each.
// tidy: table
fn file_system(facts: &Facts) -> Vec<Finding> {
    const AREA: &str = "file system";
    let Some(magic) = facts.file_system else { return Vec::new() };
    let network = |name: &str| {
        let why =
            "journals need locks and shared memory that network file systems do not keep; mail may be lost";
        vec![
            Finding::new(Mark::Bad, AREA, format!("the home is on {name}, over a network"), why)
                .help("export SYNAPSE_HOME=<a folder on a local disk>"),
        ]
    };
    let perhaps = |name: &str| {
        let why = "whether a synced file survives a power cut depends on what is behind it";
        vec![
            Finding::new(Mark::Warn, AREA, format!("the home is on {name}"), why)
                .help("export SYNAPSE_HOME=<a folder on a local disk>"),
        ]
    };
    match magic {
        0x6969 => network("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => network("SMB"),
        0x5346_414f | 0x6b41_4653 => network("AFS"),
        0x7375_7245 => network("Coda"),
        0x00c3_6400 => network("Ceph"),
        0x0bd0_0bd0 => network("Lustre"),
        0x564c => network("NCP"),
        0x0102_1997 => perhaps("9p (a folder shared with a virtual machine)"),
        0x6573_5546 => perhaps("FUSE"),
        0x786f_4256 => perhaps("a shared folder of VirtualBox"),
        0x0102_1994 | 0x8584_58f6 => vec![
            Finding::new(
                Mark::Warn,
                AREA,
                "the home is in memory",
                "mail and history are gone when the machine restarts",
            )
            .help("export SYNAPSE_HOME=<a folder on a disk>"),
        ],
        _ => vec![Finding::ok(AREA, "a local one")],
    }
}

fn disk(disk: &Disk) -> Vec<Finding> {
    const AREA: &str = "disk";
    let mut found = Vec::new();
    let free = format!("{} MB free", disk.free_bytes / MB);
    let why = "when it is full, nothing more is accepted; nothing that was is lost";
    if let Some(mark) = below(disk.free_bytes, DISK_BYTES_WARN, DISK_BYTES_BAD) {
        found.push(Finding::new(mark, AREA, format!("only {free}"), why).help("df -h"));
    }
    // Some file systems allocate inodes on demand and report zero.
    if disk.inodes > 0
        && let Some(mark) = below(disk.free_inodes, INODES_WARN, INODES_BAD)
    {
        let what = format!("room for only {} more files", disk.free_inodes);
        found.push(Finding::new(mark, AREA, what, why).help("df -i"));
    }
    summed(AREA, free, found)
}

/// How bad it is that only this much is left.
fn below(have: u64, warn: u64, bad: u64) -> Option<Mark> {
    match have {
        have if have < bad => Some(Mark::Bad),
        have if have < warn => Some(Mark::Warn),
        _ => None,
    }
}

fn clock(clock: &Clock) -> Vec<Finding> {
    const AREA: &str = "clock";
    const HELP: &str = "timedatectl status";
    let mut found = Vec::new();
    let behind = clock.newest.as_ref().map_or(0, |(at, _)| at.saturating_sub(clock.now_ms));
    if behind > BEHIND_MS_WARN
        && let Some((_, agent)) = &clock.newest
    {
        let mark = if behind > BEHIND_MS_BAD { Mark::Bad } else { Mark::Warn };
        let what = format!("it is {} behind the last record of {agent}", span(behind));
        let why = "it was set back: times in histories are wrong, and waits that were under way last longer";
        found.push(Finding::new(mark, AREA, what, why).help(HELP));
    }
    if let Some(file) = clock.file_ms
        && file.abs_diff(clock.now_ms) > SKEW_MS_WARN
    {
        let what = format!("a file written now is dated {} away from it", span(file.abs_diff(clock.now_ms)));
        let why = "the disk's server has another time; what is stale is told by the dates of files";
        found.push(Finding::new(Mark::Warn, AREA, what, why).help(HELP));
    }
    summed(AREA, "not behind what was recorded", found)
}

fn span(ms: u64) -> String {
    crate::show::ago(ms)
}

fn journals(facts: &Facts) -> Vec<Finding> {
    let broken = facts.journals.iter().filter_map(|journal| {
        let why = journal.error.as_ref()?;
        let what = format!("the journal of {} cannot be opened: {why}", journal.agent);
        let finding = Finding::new(Mark::Bad, "journals", what, "the agent cannot start, and its mail waits");
        match (journal.is_repairable, journal.path.parent()) {
            (true, Some(dir)) => {
                let fix = Fix::RepairJournal { dir: dir.to_owned(), path: journal.path.clone() };
                Some(finding.help("synapse doctor --fix").fix(fix))
            }
            _ => Some(finding.help(format!("ls -l {}", typed(&journal.path)))),
        }
    });
    let repaired = facts.journals.iter().flat_map(|journal| {
        let folder = journal.path.parent().unwrap_or(&journal.path);
        journal.repairs.iter().map(move |repair| {
            let what = format!("the journal of {} was damaged: {repair}", journal.agent);
            let why = "the damaged files take up room; remove them and their report when nobody needs them";
            Finding::new(Mark::Warn, "journals", what, why).help(format!("ls -l {}", typed(folder)))
        })
    });
    broken.chain(repaired).collect()
}

fn stale(facts: &Facts) -> Vec<Finding> {
    stale_findings(&facts.stale)
}

pub fn stale_findings(stale: &[Stale]) -> Vec<Finding> {
    stale.iter().map(left).collect()
}

fn left(stale: &Stale) -> Finding {
    const AREA: &str = "stale files";
    let path = stale.path.clone();
    let (what, fix) = match &stale.kind {
        StaleKind::RegistryEntry => ("is the entry of an agent that is gone", Fix::ClearRegistry),
        StaleKind::Socket { agent } => {
            ("is the socket of a node that is gone", Fix::RemoveOfAgent { dir: agent.clone(), path })
        }
        StaleKind::Holder { agent } => {
            ("names a holder that is gone", Fix::RemoveOfAgent { dir: agent.clone(), path })
        }
        StaleKind::Draft => ("was left by a process that died while it wrote", Fix::Remove { path }),
        StaleKind::Demo => ("is the home of a demonstration that was killed", Fix::RemoveDemo { path }),
    };
    let what = format!("{} {what}", stale.path.display());
    Finding::new(Mark::Warn, AREA, what, "it takes up room and misleads who looks")
        .help("synapse doctor --fix")
        .fix(fix)
}

fn problems(facts: &Facts) -> Vec<Finding> {
    let told = facts.problems.iter().map(|(path, why)| {
        let what = format!("{} was passed over: {why}", path.display());
        Finding::new(Mark::Warn, "files", what, "nobody can be found by it")
            .help(format!("ls -l {}", typed(path)))
    });
    told.collect()
}

fn nodes(facts: &Facts) -> Vec<Finding> {
    facts.nodes.iter().flat_map(|node| node_found(node, facts.own, &facts.version)).collect()
}

fn node_found(node: &Node, own: Levels, version: &str) -> Vec<Finding> {
    const AREA: &str = "agents";
    let name = &node.agent;
    let mut found = Vec::new();
    if !node.answers {
        let why = "messages for it wait in its spool until it does";
        let what = format!("the node of {name} does not answer");
        found.push(Finding::new(Mark::Bad, AREA, what, why).help(format!("synapse kill {name}")));
    }
    let upgrade = format!("synapse upgrade-agents {name}");
    let said = level::check_answer(own, Some(&node.api.to_string()), Some(&node.version));
    if said.is_err() {
        let what =
            format!("{name} runs synapse {}, which does not understand this one ({version})", node.version);
        found.push(
            Finding::new(Mark::Bad, AREA, what, "commands of this version cannot reach it").help(upgrade),
        );
    } else if node.version != version {
        let what = format!("{name} runs synapse {}, this is {version}", node.version);
        found.push(Finding::new(Mark::Warn, AREA, what, "it lacks what this version mended").help(upgrade));
    } else if node.holder_version != version {
        let what = format!(
            "the holder of {name} is of synapse {}, this is {version}",
            or_unknown(&node.holder_version)
        );
        let why = "holders stay when nodes are replaced; it lacks what this version mended";
        let help = format!("synapse kill {name}, then synapse run as before");
        found.push(Finding::new(Mark::Warn, AREA, what, why).help(help));
    }
    found
}

fn or_unknown(version: &str) -> &str {
    if version.is_empty() { "an unknown version" } else { version }
}

fn ports(facts: &Facts) -> Vec<Finding> {
    const AREA: &str = "ports";
    let mut found = Vec::new();
    for Port { agent, port, running, taken } in &facts.ports {
        match (running, taken) {
            (true, false) => {
                let what = format!("{agent} does not answer on its port {port}");
                let why = "programs that call it over HTTP do not reach it; the command line does";
                found.push(
                    Finding::new(Mark::Bad, AREA, what, why).help(format!("synapse upgrade-agents {agent}")),
                );
            }
            (false, true) => {
                let what = format!("port {port}, which {agent} had, is used by something else");
                let why = "at its next start the agent gets another, and its handle changes";
                found.push(
                    Finding::new(Mark::Warn, AREA, what, why).help(format!("ss -ltnp 'sport = :{port}'")),
                );
            }
            _ => {}
        }
    }
    if !facts.free_port {
        let what = "all ports from 8100 to 8999 are in use";
        let why = "a new agent can start only with --port";
        found.push(Finding::new(Mark::Bad, AREA, what, why).help("ss -ltn"));
    }
    found
}

fn open_files(limit: Option<u64>) -> Vec<Finding> {
    const AREA: &str = "limits";
    let Some(limit) = limit else { return Vec::new() };
    let what = format!("{limit} open files for each process");
    match below(limit, OPEN_FILES_WARN, OPEN_FILES_BAD) {
        Some(mark) => {
            let why = "each caller takes one; beyond it callers wait";
            vec![Finding::new(mark, AREA, format!("only {what}"), why).help("ulimit -n 4096")]
        }
        None => vec![Finding::ok(AREA, what)],
    }
}

fn notifier(agent: &str, last: &NotifierResult) -> Finding {
    let NotifierResult { program, why, stderr, .. } = last;
    let said =
        if stderr.is_empty() { String::new() } else { format!(": {}", crate::show::line(stderr, 160)) };
    let what = format!("the last notification of {agent} failed: {program} {why}{said}");
    let why = "you are not told by `notify.command` that it waits for you";
    Finding::new(Mark::Warn, "notifier", what, why).help("synapse config show notify.command")
}

fn ignored(what: &str) -> Finding {
    let why = "a project's files are data from others; without your trust they can only add caution";
    Finding::new(Mark::Warn, "project", what, why).help("synapse trust")
}

fn program(program: &Program) -> Finding {
    const AREA: &str = "programs";
    let name = program.name;
    match &program.said {
        Said::NotFound => Finding::ok(AREA, format!("{name} is not installed")),
        Said::Version(version) => Finding::ok(AREA, format!("{name}: {version}")),
        Said::Nothing(why) => {
            let why_it_matters = "an agent of this kind may not start either";
            let what = format!("{name} does not tell its version: {why}");
            Finding::new(Mark::Warn, AREA, what, why_it_matters).help(format!("{name} --version"))
        }
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
